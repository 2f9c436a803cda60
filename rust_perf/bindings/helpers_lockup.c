// SPDX-License-Identifier: GPL-2.0
/* Shims for the kernel's detector of hard lockups. */

#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/nmi.h>
#include <linux/static_call.h>

#include "helpers.h"

#ifdef CONFIG_HARDLOCKUP_DETECTOR_PERF

DEFINE_STATIC_CALL_NULL(rust_perf_reconfigure_call, lockup_detector_reconfigure);

int rust_perf_lockup_init(void)
{
	void *func = rust_perf_find_function("lockup_detector_reconfigure");

	if (IS_ERR(func))
		return PTR_ERR(func);
	static_call_update(rust_perf_reconfigure_call, func);
	return 0;
}

void rust_perf_lockup_reconfigure(int *available, bool value)
{
	WRITE_ONCE(*available, value);
	static_call_cond(rust_perf_reconfigure_call)();
}

#else

int rust_perf_lockup_init(void)
{
	return -ENOENT;
}

void rust_perf_lockup_reconfigure(int *available, bool value)
{
}

#endif
