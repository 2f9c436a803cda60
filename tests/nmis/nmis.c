// SPDX-License-Identifier: GPL-2.0
/*
 * Sends NMIs to the CPU that writes how many to a parameter. The handler of the module claims those of
 * `claimed`, as the handler of another device would. Nobody claims those of `unclaimed`, unless another
 * handler takes them for its own. The module is for the tests alone.
 */

#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <asm/apic.h>
#include <asm/nmi.h>

/* Turns of a loop after which an NMI is taken for lost. */
#define WAIT 1000000

/* An NMI has been sent, and has not come. */
static DEFINE_PER_CPU(bool, on_its_way);
/* It is to be claimed. */
static DEFINE_PER_CPU(bool, is_claimed);

static int handle_nmi(unsigned int type, struct pt_regs *regs)
{
	if (!this_cpu_read(on_its_way))
		return NMI_DONE;
	this_cpu_write(on_its_way, false);
	return this_cpu_read(is_claimed) ? NMI_HANDLED : NMI_DONE;
}

/* apic_icr_write() is a static call that is not exported. */
static void send_to_this_cpu(void)
{
	u32 id;

	if (x2apic_mode) {
		id = native_apic_msr_read(APIC_ID);
		native_x2apic_icr_write(APIC_DM_NMI, id);
		return;
	}
	id = native_apic_mem_read(APIC_ID);
	native_apic_mem_write(APIC_ICR2, id);
	native_apic_mem_write(APIC_ICR, APIC_DM_NMI);
}

static int send(const char *value, bool claimed)
{
	unsigned int count, left;
	unsigned long flags;
	int ret;

	ret = kstrtouint(value, 0, &count);
	if (ret)
		return ret;
	local_irq_save(flags);
	this_cpu_write(is_claimed, claimed);
	while (count-- && !ret) {
		this_cpu_write(on_its_way, true);
		send_to_this_cpu();
		for (left = WAIT; left && this_cpu_read(on_its_way); left--)
			cpu_relax();
		if (!left)
			ret = -EIO;
	}
	local_irq_restore(flags);
	return ret;
}

static int send_claimed(const char *value, const struct kernel_param *param)
{
	return send(value, true);
}

static const struct kernel_param_ops claimed_ops = { .set = send_claimed };
module_param_cb(claimed, &claimed_ops, NULL, 0200);
MODULE_PARM_DESC(claimed, "Send this many NMIs, which the module claims");

static int send_unclaimed(const char *value, const struct kernel_param *param)
{
	return send(value, false);
}

static const struct kernel_param_ops unclaimed_ops = { .set = send_unclaimed };
module_param_cb(unclaimed, &unclaimed_ops, NULL, 0200);
MODULE_PARM_DESC(unclaimed, "Send this many NMIs, which the module leaves to others");

static int __init nmis_init(void)
{
	return register_nmi_handler(NMI_LOCAL, handle_nmi, 0, "nmis");
}

static void __exit nmis_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "nmis");
}
module_init(nmis_init);
module_exit(nmis_exit);

MODULE_DESCRIPTION("Sends NMIs");
MODULE_LICENSE("GPL");
