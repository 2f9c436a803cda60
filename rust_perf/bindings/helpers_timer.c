// SPDX-License-Identifier: GPL-2.0
/*
 * Shims for the inline functions that timers of events need.
 */

#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <asm/irq_regs.h>

#include "helpers.h"

bool rust_perf_hrtimer_forward(struct hrtimer *timer, u64 interval)
{
	/* Whoever started the timer again in its own handler chose the time. */
	if (hrtimer_is_queued(timer))
		return false;
	hrtimer_forward_now(timer, min_t(u64, interval, KTIME_MAX));
	return true;
}

struct pt_regs *rust_perf_irq_regs(void)
{
	return get_irq_regs();
}

bool rust_perf_is_idle(void)
{
	return is_idle_task(current);
}
