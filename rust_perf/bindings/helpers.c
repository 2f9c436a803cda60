// SPDX-License-Identifier: GPL-2.0
/*
 * Shims for C macros and inline functions, which Rust cannot call, and static
 * calls, which need C macros.
 */

#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/nospec.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/static_call.h>
#include <linux/sysfs.h>
#include <asm/ibt.h>

#include "helpers.h"

/*
 * With IBT the address of a kprobe is behind the function's ENDBR, or behind the
 * NOP that replaced it because nothing takes the function's address.
 */
#ifdef CONFIG_X86_KERNEL_IBT
static void *start_of_function(void *addr)
{
	u32 *insn = addr - ENDBR_INSN_SIZE;

	return __is_endbr(*insn) ? insn : addr;
}
#else
static void *start_of_function(void *addr)
{
	return addr;
}
#endif

/*
 * Some kernel functions are not exported. A kprobe that is never armed finds
 * their addresses, and static calls, which are patched into direct calls, reach
 * them. An indirect call would fault (#CP) where the ENDBR was replaced.
 */
void *rust_perf_find_function(const char *name)
{
	struct kprobe probe = {
		.symbol_name = name,
		.flags = KPROBE_FLAG_DISABLED,
	};
	int ret;

	ret = register_kprobe(&probe);
	if (ret)
		return ERR_PTR(ret);
	unregister_kprobe(&probe);
	return start_of_function(probe.addr);
}

DEFINE_STATIC_CALL_NULL(rust_perf_event_took_call, perf_sample_event_took);

static int find_event_took(void)
{
	void *func = rust_perf_find_function("perf_sample_event_took");

	if (IS_ERR(func))
		return PTR_ERR(func);
	static_call_update(rust_perf_event_took_call, func);
	return 0;
}

void rust_perf_sample_event_took(u64 ns)
{
	static_call_cond(rust_perf_event_took_call)(ns);
}

#ifdef RUST_PERF_OVERFLOW_EXPORTED

int rust_perf_overflow_init(void)
{
	return find_event_took();
}

int rust_perf_overflow(struct perf_event *event, struct perf_sample_data *data,
		       struct pt_regs *regs)
{
	return perf_event_overflow(event, data, regs);
}

#else

DEFINE_STATIC_CALL_RET0(rust_perf_overflow_call, perf_event_overflow);

int rust_perf_overflow_init(void)
{
	void *func = rust_perf_find_function("perf_event_overflow");

	if (IS_ERR(func))
		return PTR_ERR(func);
	static_call_update(rust_perf_overflow_call, func);
	return find_event_took();
}

int rust_perf_overflow(struct perf_event *event, struct perf_sample_data *data,
		       struct pt_regs *regs)
{
	return static_call(rust_perf_overflow_call)(event, data, regs);
}

#endif /* RUST_PERF_OVERFLOW_EXPORTED */

unsigned long rust_perf_local_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void rust_perf_local_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}

void rust_perf_raw_spin_lock_init(raw_spinlock_t *lock)
{
	raw_spin_lock_init(lock);
}

void rust_perf_raw_spin_lock(raw_spinlock_t *lock)
{
	raw_spin_lock(lock);
}

void rust_perf_raw_spin_unlock(raw_spinlock_t *lock)
{
	raw_spin_unlock(lock);
}

bool rust_perf_perfmon_capable(void)
{
	return perfmon_capable();
}

void rust_perf_sample_data_init(struct perf_sample_data *data, u64 addr,
				u64 period)
{
	perf_sample_data_init(data, addr, period);
}

void rust_perf_sample_save_branches(struct perf_sample_data *data,
				    struct perf_event *event,
				    struct perf_branch_stack *branches,
				    u64 *counts)
{
	perf_sample_save_brstack(data, event, branches, counts);
}

struct kmem_cache *rust_perf_task_cache_create(size_t size, size_t align)
{
	return kmem_cache_create("rust_perf_task", size, align, 0, NULL);
}

/* perf frees what it has allocated after a grace period. */
void rust_perf_task_cache_destroy(struct kmem_cache *cache)
{
	rcu_barrier();
	kmem_cache_destroy(cache);
}

u64 rust_perf_task_switches(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* What perf keeps with the task for all PMUs, if that is of this cache. */
void *rust_perf_task_data(struct task_struct *task, struct kmem_cache *cache)
{
	struct perf_ctx_data *data = rcu_dereference_sched(task->perf_ctx_data);

	return data && data->ctx_cache == cache ? data->data : NULL;
}

DEFINE_STATIC_CALL_NULL(rust_perf_sched_cb_inc_call, perf_sched_cb_inc);
DEFINE_STATIC_CALL_NULL(rust_perf_sched_cb_dec_call, perf_sched_cb_dec);

int rust_perf_sched_cb_init(void)
{
	void *inc = rust_perf_find_function("perf_sched_cb_inc");
	void *dec = rust_perf_find_function("perf_sched_cb_dec");

	if (IS_ERR(inc))
		return PTR_ERR(inc);
	if (IS_ERR(dec))
		return PTR_ERR(dec);
	static_call_update(rust_perf_sched_cb_inc_call, inc);
	static_call_update(rust_perf_sched_cb_dec_call, dec);
	return 0;
}

void rust_perf_sched_cb_inc(struct pmu *pmu)
{
	static_call_cond(rust_perf_sched_cb_inc_call)(pmu);
}

void rust_perf_sched_cb_dec(struct pmu *pmu)
{
	static_call_cond(rust_perf_sched_cb_dec_call)(pmu);
}

void __percpu *rust_perf_alloc_percpu(size_t size, size_t align)
{
	return __alloc_percpu(size, align);
}

void rust_perf_free_percpu(void __percpu *ptr)
{
	free_percpu(ptr);
}

void *rust_perf_per_cpu_ptr(void __percpu *ptr, unsigned int cpu)
{
	return per_cpu_ptr(ptr, cpu);
}

unsigned int rust_perf_next_possible_cpu(unsigned int from)
{
	return cpumask_next((int)from - 1, cpu_possible_mask);
}

/* The type of the last argument depends on the kernel's version. */
void rust_perf_on_cpu(unsigned int cpu, void (*func)(void *info), void *info)
{
	smp_call_function_single(cpu, func, info, true);
}

void rust_perf_on_each_cpu_cond(bool (*cond)(int cpu, void *info),
				void (*func)(void *info), void *info)
{
	on_each_cpu_cond(cond, func, info, true);
}

size_t rust_perf_array_index_nospec(size_t index, size_t size)
{
	return array_index_nospec(index, size);
}

void rust_perf_sysfs_attr_init(struct attribute *attr)
{
	/* An attribute that is not static needs a lock class. */
	sysfs_attr_init(attr);
}

/* The bus is not exported. Its address is found with kallsyms. */
bool rust_perf_has_pmu(unsigned long bus, const char *name)
{
	struct device *dev =
		bus_find_device_by_name((const struct bus_type *)bus, NULL, name);

	put_device(dev);
	return dev;
}

ssize_t rust_perf_show_online_cpus(struct device *dev,
				   struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(cpu_online_mask));
}

struct cpumask *rust_perf_cpumask_alloc(void)
{
	return kzalloc(cpumask_size(), GFP_KERNEL);
}

void rust_perf_cpumask_free(struct cpumask *mask)
{
	kfree(mask);
}

void rust_perf_cpumask_assign_this_cpu(struct cpumask *mask, bool value)
{
	if (value)
		cpumask_set_cpu(smp_processor_id(), mask);
	else
		cpumask_clear_cpu(smp_processor_id(), mask);
}

bool rust_perf_cpumask_test(const struct cpumask *mask, unsigned int cpu)
{
	return cpu < nr_cpu_ids && cpumask_test_cpu(cpu, mask);
}

bool rust_perf_cpu_online(unsigned int cpu)
{
	return cpu < nr_cpu_ids && cpu_online(cpu);
}

bool rust_perf_this_cpu_dying(void)
{
	return cpu_dying(smp_processor_id());
}

/* The mask is in the place of the text. */
ssize_t rust_perf_show_cpumask(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	struct perf_pmu_events_attr *file =
		container_of(attr, struct perf_pmu_events_attr, attr);
	const struct cpumask *mask = (const struct cpumask *)file->event_str;
	cpumask_var_t online;
	ssize_t ret;

	if (!alloc_cpumask_var(&online, GFP_KERNEL))
		return -ENOMEM;
	cpumask_and(online, mask, cpu_online_mask);
	ret = sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(online));
	free_cpumask_var(online);
	return ret;
}
