// SPDX-License-Identifier: GPL-2.0
/*
 * Shims for what only x86 has: RDPMC in user mode, the in-tree driver, the local
 * APIC, MSRs and the conditions of page faults.
 */

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/static_call.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <asm/apic.h>
#include <asm/mmu_context.h>
#include <asm/msr.h>
#include <asm/perf_event.h>
#include <asm/processor.h>
#include <asm/ptrace.h>
#include <asm/special_insns.h>
#include <uapi/asm/vsyscall.h>

#include "helpers.h"

/* Threads of this CPU's core, itself included. */
unsigned int rust_perf_threads_online(void)
{
	return cpumask_weight(topology_sibling_cpumask(smp_processor_id()));
}

DEFINE_STATIC_CALL_NULL(rust_perf_update_pce_call, cr4_update_pce);
DEFINE_STATIC_CALL_NULL(rust_perf_userpage_call, arch_perf_update_userpage);

int rust_perf_user_rdpmc_init(void)
{
	void *update_pce = rust_perf_find_function("cr4_update_pce");
	void *userpage = rust_perf_find_function("arch_perf_update_userpage");

	if (IS_ERR(update_pce))
		return PTR_ERR(update_pce);
	if (IS_ERR(userpage))
		return PTR_ERR(userpage);
	static_call_update(rust_perf_userpage_call, userpage);
	static_call_update(rust_perf_update_pce_call, update_pce);
	return 0;
}

/*
 * What the in-tree driver writes into a page is all that it tells of the width on a
 * hybrid CPU, for which perf_get_x86_pmu_capability() warns.
 */
int rust_perf_userpage_width(void)
{
	struct perf_event_mmap_page *page = kzalloc(sizeof(*page), GFP_KERNEL);
	struct perf_event *event = kzalloc(sizeof(*event), GFP_KERNEL);
	int width = -ENOMEM;

	if (page && event) {
		static_call_cond(rust_perf_userpage_call)(event, page, 0);
		width = page->pmc_width;
	}
	kfree(event);
	kfree(page);
	return width;
}

static void update_pce(void *unused)
{
	static_call_cond(rust_perf_update_pce_call)(unused);
}

void rust_perf_user_rdpmc_allow(struct mm_struct *mm)
{
	if (atomic_inc_return(&mm->context.perf_rdpmc_allowed) == 1)
		on_each_cpu_mask(mm_cpumask(mm), update_pce, NULL, true);
}

void rust_perf_user_rdpmc_disallow(struct mm_struct *mm)
{
	if (atomic_dec_and_test(&mm->context.perf_rdpmc_allowed))
		on_each_cpu_mask(mm_cpumask(mm), update_pce, NULL, true);
}

/* Declared in arch/x86/events/perf_event.h, which modules cannot include. */
struct pmu *x86_get_pmu(unsigned int cpu);

DEFINE_STATIC_CALL_RET0(rust_perf_in_tree_pmu_call, x86_get_pmu);
DEFINE_STATIC_CALL_NULL(rust_perf_clear_dirty_call, perf_clear_dirty_counters);

int rust_perf_in_tree_init(void)
{
	void *pmu = rust_perf_find_function("x86_get_pmu");
	void *clear_dirty = rust_perf_find_function("perf_clear_dirty_counters");

	if (IS_ERR(pmu))
		return PTR_ERR(pmu);
	if (IS_ERR(clear_dirty))
		return PTR_ERR(clear_dirty);
	static_call_update(rust_perf_in_tree_pmu_call, pmu);
	static_call_update(rust_perf_clear_dirty_call, clear_dirty);
	return 0;
}

void rust_perf_in_tree_clear_dirty(void)
{
	static_call_cond(rust_perf_clear_dirty_call)();
}

/* How often perf has disabled the PMU on this CPU. */
static int *disable_count(struct pmu *pmu)
{
	return &(*this_cpu_ptr(pmu->cpu_pmu_context))->pmu_disable_count;
}

/*
 * perf_pmu_disable() without a call of the driver: for the driver the PMU stays
 * enabled, or is enabled now. Its NMI handler, which also runs for Intel PT,
 * leaves GLOBAL_CTRL at 0 while the PMU is disabled.
 */
void rust_perf_in_tree_pause(void)
{
	struct pmu *pmu = static_call(rust_perf_in_tree_pmu_call)(smp_processor_id());

	if ((*disable_count(pmu))++)
		pmu->pmu_enable(pmu);
}

/* If perf has the PMU disabled by now, its driver is to know, as perf enables it. */
void rust_perf_in_tree_resume(void)
{
	struct pmu *pmu = static_call(rust_perf_in_tree_pmu_call)(smp_processor_id());

	if (--(*disable_count(pmu)))
		pmu->pmu_disable(pmu);
}

bool rust_perf_has_apic(void)
{
	return boot_cpu_has(X86_FEATURE_APIC);
}

void rust_perf_apic_write_lvtpc(u32 value)
{
	/* apic_write() and apic_read() are static calls that are not exported. */
	if (x2apic_mode)
		native_apic_msr_write(APIC_LVTPC, value);
	else
		native_apic_mem_write(APIC_LVTPC, value);
}

u32 rust_perf_apic_read_lvtpc(void)
{
	if (x2apic_mode)
		return native_apic_msr_read(APIC_LVTPC);
	return native_apic_mem_read(APIC_LVTPC);
}

int rust_perf_rdmsr_safe(u32 msr, u64 *value)
{
	return rdmsrq_safe(msr, value);
}

int rust_perf_wrmsr_safe(u32 msr, u64 value)
{
	return wrmsrq_safe(msr, value);
}

/*
 * Whether perf counts a page fault whose trace point has been hit: the conditions
 * of do_user_addr_fault(). The probe has disabled preemption once.
 */
bool rust_perf_is_user_fault(unsigned long address)
{
	bool in_atomic = preempt_count() != PREEMPT_DISABLE_OFFSET;
	bool in_vsyscall = (address & PAGE_MASK) == VSYSCALL_ADDR;

	return (address < TASK_SIZE_MAX || in_vsyscall) && !in_atomic &&
	       !pagefault_disabled() && current->mm;
}

DEFINE_STATIC_CALL_RET0(rust_perf_kernel_text_call, kernel_text_address);

int rust_perf_code_init(void)
{
	void *text = rust_perf_find_function("kernel_text_address");

	if (IS_ERR(text))
		return PTR_ERR(text);
	static_call_update(rust_perf_kernel_text_call, text);
	return 0;
}

/*
 * Any context. Code of the kernel is read only if there is code: a program chooses
 * the address by jumping there, and that of a device must not be read.
 */
size_t rust_perf_copy_code(void *to, unsigned long from, size_t size)
{
	if ((long)from < 0) {
		if (!static_call(rust_perf_kernel_text_call)(from))
			return 0;
		if (!copy_from_kernel_nofault(to, (void *)from, size))
			return size;
		/* The next page may be missing. */
		size = min(size, PAGE_SIZE - offset_in_page(from));
		return copy_from_kernel_nofault(to, (void *)from, size) ? 0 : size;
	}
	/* A kernel thread has no user memory of its own. */
	if (!current->mm)
		return 0;
	return size - copy_from_user_nmi(to, (void __user *)from, size);
}

/* Whether the user mode of the current task is the 64-bit mode. */
bool rust_perf_user_is_64_bit(void)
{
	return user_64bit_mode(task_pt_regs(current));
}
