// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps a CPU from interrupts while it executes a number of instructions, as a lock-up would.
 * Loading the module does this, and then fails with ECANCELED, so that nothing has to be unloaded.
 * The module is for the tests alone.
 */

#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/module.h>

static unsigned long rounds;
module_param(rounds, ulong, 0);
MODULE_PARM_DESC(rounds, "How often a loop of two instructions runs");

static int __init lockup_init(void)
{
	unsigned long left = rounds;
	unsigned long flags;

	if (!left)
		return -EINVAL;
	local_irq_save(flags);
	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
	local_irq_restore(flags);
	return -ECANCELED;
}
module_init(lockup_init);

MODULE_DESCRIPTION("Locks up a CPU for a while");
MODULE_LICENSE("GPL");
