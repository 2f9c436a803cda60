// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps a CPU from interrupts while it executes a number of instructions, and for some time, as a
 * lock-up would. Loading the module does this, and then fails with ECANCELED, so that nothing has to
 * be unloaded. The module is for the tests alone.
 */

#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

/* QEMU executes NOPs faster than anything else. */
#define NOPS 998
#define INSTRUCTIONS (NOPS + 2)
#define ROUNDS 1000

static unsigned long instructions;
module_param(instructions, ulong, 0);
MODULE_PARM_DESC(instructions, "How many instructions a loop executes at least");

static unsigned long ms;
module_param(ms, ulong, 0);
MODULE_PARM_DESC(ms, "How many milliseconds the loop takes at least");

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

static int __init lockup_init(void)
{
	unsigned long executed = 0;
	unsigned long flags;
	u64 end;

	if (!instructions)
		return -EINVAL;
	local_irq_save(flags);
	end = ktime_get_mono_fast_ns() + ms * NSEC_PER_MSEC;
	do {
		execute(ROUNDS);
		executed += ROUNDS * INSTRUCTIONS;
	} while (executed < instructions || ktime_get_mono_fast_ns() < end);
	local_irq_restore(flags);
	return -ECANCELED;
}
module_init(lockup_init);

MODULE_DESCRIPTION("Locks up a CPU for a while");
MODULE_LICENSE("GPL");
