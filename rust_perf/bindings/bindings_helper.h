/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads; bindgen_parameters says what of it becomes Rust. */

#include <linux/cpuhotplug.h>
#include <linux/perf_event.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/syscore_ops.h>
#include <linux/sysfs.h>
#include <asm/nmi.h>

#include "helpers.h"
