/* SPDX-License-Identifier: GPL-2.0 */
/* The headers that bindgen reads. bindgen_parameters lists what becomes Rust. */

#include <linux/btf.h>
#include <linux/cpuhotplug.h>
#include <linux/ftrace.h>
#include <linux/hardirq.h>
#include <linux/hrtimer.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/path.h>
#include <linux/perf_event.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/syscore_ops.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tracepoint.h>
#include <linux/uprobes.h>
#include <asm/extable_fixup_types.h>
#include <asm/nmi.h>

#include "helpers.h"

/* Kernels before 7.3 have no mediated vPMU. */
#ifndef PERF_PMU_CAP_MEDIATED_VPMU
#define PERF_PMU_CAP_MEDIATED_VPMU 0
#endif

/* The word of irq_stat that counts PMIs. Older kernels have a member for each count. */
#ifdef inc_perf_irq_stat
static const size_t RUST_PERF_PMI_COUNT =
	offsetof(irq_cpustat_t, counts) + IRQ_COUNT_APIC_PERF * sizeof(unsigned int);
#else
static const size_t RUST_PERF_PMI_COUNT = offsetof(irq_cpustat_t, apic_perf_irqs);
#endif

/* bindgen does not evaluate BIT(). */
static const int RUST_PERF_EV_CAP_SIBLING = PERF_EV_CAP_SIBLING;
static const int RUST_PERF_EV_CAP_SOFTWARE = PERF_EV_CAP_SOFTWARE;
