// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps a CPU from interrupts, as a lock-up would: while it executes a number of instructions, several
 * times, with some time in between. Loading the module does this, and then fails with ECANCELED, so that
 * nothing has to be unloaded. The module is for the tests alone.
 */

#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

/* QEMU executes NOPs faster than anything else. */
#define NOPS 998
#define INSTRUCTIONS (NOPS + 2)

static unsigned long instructions;
module_param(instructions, ulong, 0);
MODULE_PARM_DESC(instructions, "How many instructions a loop executes at least, each time");

static unsigned int times = 1;
module_param(times, uint, 0);
MODULE_PARM_DESC(times, "How many times the loop runs");

static unsigned long ms;
module_param(ms, ulong, 0);
MODULE_PARM_DESC(ms, "How many milliseconds pass at least before the loop runs again");

static void execute(unsigned long rounds)
{
	asm volatile("1:\n\t"
		     ".rept %c1\n\t"
		     "nop\n\t"
		     ".endr\n\t"
		     "dec %0\n\t"
		     "jnz 1b"
		     : "+r"(rounds) : "i"(NOPS) : "cc");
}

static void pass(unsigned long ms)
{
	u64 end = ktime_get_mono_fast_ns() + ms * NSEC_PER_MSEC;

	while (ktime_get_mono_fast_ns() < end)
		execute(1);
}

static int __init lockup_init(void)
{
	unsigned long flags;

	if (!instructions || !times)
		return -EINVAL;
	local_irq_save(flags);
	execute(DIV_ROUND_UP(instructions, INSTRUCTIONS));
	while (--times) {
		pass(ms);
		execute(DIV_ROUND_UP(instructions, INSTRUCTIONS));
	}
	local_irq_restore(flags);
	return -ECANCELED;
}
module_init(lockup_init);

MODULE_DESCRIPTION("Locks up a CPU for a while");
MODULE_LICENSE("GPL");
