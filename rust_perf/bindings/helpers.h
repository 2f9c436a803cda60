/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RUST_PERF_HELPERS_H
#define RUST_PERF_HELPERS_H

#include <linux/compiler_types.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

struct attribute;
struct btf;
struct device;
struct device_attribute;
struct hlist_head;
struct hlist_node;
struct hrtimer;
struct inode;
struct kmem_cache;
struct kretprobe;
struct kretprobe_instance;
struct module;
struct mm_struct;
struct path;
struct perf_branch_stack;
struct perf_event;
struct perf_sample_data;
struct pmu;
struct pt_regs;
struct task_struct;
struct tracepoint;

void *rust_perf_find_function(const char *name);
int rust_perf_overflow_init(void);
int rust_perf_overflow(struct perf_event *event, struct perf_sample_data *data,
		       struct pt_regs *regs);
unsigned int rust_perf_threads_online(void);
int rust_perf_user_rdpmc_init(void);
int rust_perf_userpage_width(void);
void rust_perf_user_rdpmc_allow(struct mm_struct *mm);
void rust_perf_user_rdpmc_disallow(struct mm_struct *mm);
int rust_perf_in_tree_init(void);
void rust_perf_in_tree_clear_dirty(void);
void rust_perf_in_tree_pause(void);
void rust_perf_in_tree_resume(void);
void rust_perf_sample_event_took(u64 ns);
unsigned long rust_perf_local_irq_save(void);
void rust_perf_local_irq_restore(unsigned long flags);
void rust_perf_raw_spin_lock_init(raw_spinlock_t *lock);
void rust_perf_raw_spin_lock(raw_spinlock_t *lock);
void rust_perf_raw_spin_unlock(raw_spinlock_t *lock);
bool rust_perf_perfmon_capable(void);
struct kmem_cache *rust_perf_task_cache_create(size_t size, size_t align);
void rust_perf_task_cache_destroy(struct kmem_cache *cache);
u64 rust_perf_task_switches(struct task_struct *task);
void *rust_perf_task_data(struct task_struct *task, struct kmem_cache *cache);
int rust_perf_sched_cb_init(void);
void rust_perf_sched_cb_inc(struct pmu *pmu);
void rust_perf_sched_cb_dec(struct pmu *pmu);
void rust_perf_sample_save_branches(struct perf_sample_data *data,
				    struct perf_event *event,
				    struct perf_branch_stack *branches,
				    u64 *counts);
void rust_perf_sample_data_init(struct perf_sample_data *data, u64 addr,
				u64 period);
void __percpu *rust_perf_alloc_percpu(size_t size, size_t align);
void rust_perf_free_percpu(void __percpu *ptr);
void *rust_perf_per_cpu_ptr(void __percpu *ptr, unsigned int cpu);
unsigned int rust_perf_next_possible_cpu(unsigned int from);
void rust_perf_on_cpu(unsigned int cpu, void (*func)(void *info), void *info);
void rust_perf_on_each_cpu_cond(bool (*cond)(int cpu, void *info),
				void (*func)(void *info), void *info);
size_t rust_perf_array_index_nospec(size_t index, size_t size);
void rust_perf_sysfs_attr_init(struct attribute *attr);
bool rust_perf_has_pmu(unsigned long bus, const char *name);
ssize_t rust_perf_show_online_cpus(struct device *dev,
				   struct device_attribute *attr, char *buf);
struct cpumask *rust_perf_cpumask_alloc(void);
void rust_perf_cpumask_free(struct cpumask *mask);
void rust_perf_cpumask_assign_this_cpu(struct cpumask *mask, bool value);
bool rust_perf_cpumask_test(const struct cpumask *mask, unsigned int cpu);
bool rust_perf_cpu_online(unsigned int cpu);
bool rust_perf_this_cpu_dying(void);
ssize_t rust_perf_show_cpumask(struct device *dev,
			       struct device_attribute *attr, char *buf);
bool rust_perf_has_apic(void);
void rust_perf_apic_write_lvtpc(u32 value);
u32 rust_perf_apic_read_lvtpc(void);
int rust_perf_rdmsr_safe(u32 msr, u64 *value);
int rust_perf_wrmsr_safe(u32 msr, u64 value);
bool rust_perf_is_user_fault(unsigned long address);

/* helpers_timer.c */
bool rust_perf_hrtimer_forward(struct hrtimer *timer, u64 interval);
struct pt_regs *rust_perf_irq_regs(void);
bool rust_perf_is_idle(void);

/* helpers_lockup.c */
int rust_perf_lockup_init(void);
void rust_perf_lockup_reconfigure(int *available, bool value);

/* helpers_probe.c */
int rust_perf_symbols_init(void);
int rust_perf_each_kernel_symbol(int (*visit)(void *data, unsigned long addr),
				 const char *name, void *data);
int rust_perf_each_module_symbol(const char *module,
				 int (*visit)(void *data, const char *name,
					      unsigned long addr),
				 void *data);
int rust_perf_symbol_extent(unsigned long addr, unsigned long *size,
			    unsigned long *offset);
int rust_perf_symbol_name(unsigned long addr, char *name);
unsigned long rust_perf_symbol_address(const char *name);
bool rust_perf_has_ftrace_location(unsigned long start, unsigned long end);
struct kretprobe *rust_perf_kretprobe_of(struct kretprobe_instance *instance);
unsigned long rust_perf_kretprobe_address(struct kretprobe_instance *instance);
int rust_perf_path_of_file(unsigned int fd, struct path *path);
int rust_perf_path_lookup(const char *name, struct path *path);
bool rust_perf_path_is_regular_file(const struct path *path);
struct inode *rust_perf_path_inode(const struct path *path);
int rust_perf_kprobes_locked_down(void);

/* helpers_trace.c */

/* Arguments of a trace point that a register holds, and others. */
#define RUST_PERF_TRACE_REGISTERS 5
#define RUST_PERF_TRACE_STACK 7

/* What the probe of a trace point was called with. */
struct rust_perf_trace_hit {
	u64 registers[RUST_PERF_TRACE_REGISTERS];
	/* Only as many as the trace point has. */
	const u64 *stack;
	/* Where the trace point is. */
	unsigned long ip;
	unsigned long sp;
};

/* The data of a probe begins with the function that handles its hits. */
struct rust_perf_trace_data {
	/* Preemption is disabled. */
	void (*hit)(struct rust_perf_trace_data *data,
		    const struct rust_perf_trace_hit *hit);
};

int rust_perf_allow_tracepoint(void);
int rust_perf_trace_attach(struct tracepoint *tp,
			   struct rust_perf_trace_data *data);
void rust_perf_trace_detach(struct tracepoint *tp,
			    struct rust_perf_trace_data *data);
void rust_perf_trace_synchronize(void);
int rust_perf_for_each_module_tracepoint(void (*func)(struct tracepoint *tp,
						      struct module *mod,
						      void *priv),
					 void *priv);
int rust_perf_trace_init(void);
int rust_perf_btf_find(const char *name, u32 kind, struct btf **btf);
void rust_perf_btf_put(struct btf *btf);
void rust_perf_caller_regs(struct pt_regs *regs, unsigned long ip,
			   unsigned long sp);
void rust_perf_hlist_add(struct hlist_node *node, struct hlist_head *head);
void rust_perf_hlist_del(struct hlist_node *node);
void rust_perf_preempt_disable(void);
void rust_perf_preempt_enable(void);
bool rust_perf_is_current(struct task_struct *task);
bool rust_perf_is_of_cgroup(const struct perf_event *event);
bool rust_perf_sched_migrated(struct task_struct *task);
void rust_perf_for_each_task_event(struct task_struct *task,
				   void (*func)(struct perf_event *event,
						void *priv),
				   void *priv);
int rust_perf_code_init(void);
size_t rust_perf_copy_code(void *to, unsigned long from, size_t size);
bool rust_perf_user_is_64_bit(void);

#endif
