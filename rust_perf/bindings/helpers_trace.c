// SPDX-License-Identifier: GPL-2.0
/*
 * Shims for trace points: the probe, and macros and inline functions that Rust
 * cannot call.
 */

#include <linux/btf.h>
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/static_call.h>
#include <linux/tracepoint.h>
#include <linux/version.h>

#include "helpers.h"

/* Passed in memory, so that this is where a caller puts further arguments. */
struct stack_arguments {
	u64 values[RUST_PERF_TRACE_STACK];
};

/*
 * The probe of every trace point. It is called with the arguments of the trace
 * point, so those of its own arguments that the trace point does not have are
 * undefined.
 *
 * Kernels differ in whether preemption is disabled here, and trace points of
 * system calls leave it enabled.
 */
static notrace void probe(struct rust_perf_trace_data *data, u64 arg0, u64 arg1,
			  u64 arg2, u64 arg3, u64 arg4,
			  struct stack_arguments stack)
{
	const struct rust_perf_trace_hit hit = {
		.registers = { arg0, arg1, arg2, arg3, arg4 },
		.stack = stack.values,
		.ip = _RET_IP_,
		.sp = (unsigned long)__builtin_frame_address(0),
	};

	preempt_disable_notrace();
	data->hit(data, &hit);
	preempt_enable_notrace();
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)

static int find_security(void)
{
	return 0;
}

int rust_perf_allow_tracepoint(void)
{
	return perf_allow_tracepoint();
}

#else

/* perf_allow_tracepoint() is inline, over what is not exported. */
DEFINE_STATIC_CALL_RET0(rust_perf_security_call, security_perf_event_open);

static int find_security(void)
{
	void *func = rust_perf_find_function("security_perf_event_open");

	if (IS_ERR(func))
		return PTR_ERR(func);
	static_call_update(rust_perf_security_call, func);
	return 0;
}

int rust_perf_allow_tracepoint(void)
{
	/* 0 if the kernel does not tell the addresses of data. */
	const int *paranoid = (const int *)rust_perf_symbol_address(
		"sysctl_perf_event_paranoid");

	if ((!paranoid || *paranoid > -1) && !perfmon_capable())
		return -EPERM;
	return static_call(rust_perf_security_call)(PERF_SECURITY_TRACEPOINT);
}

#endif

int rust_perf_trace_attach(struct tracepoint *tp,
			   struct rust_perf_trace_data *data)
{
	/* With CFI, a call through a pointer must have the type of the function. */
	if (IS_ENABLED(CONFIG_CFI) || IS_ENABLED(CONFIG_CFI_CLANG))
		return -EOPNOTSUPP;
	return tracepoint_probe_register(tp, probe, data);
}

void rust_perf_trace_detach(struct tracepoint *tp,
			    struct rust_perf_trace_data *data)
{
	tracepoint_probe_unregister(tp, probe, data);
}

void rust_perf_trace_synchronize(void)
{
	tracepoint_synchronize_unregister();
}

struct module_walk {
	struct notifier_block notifier;
	struct task_struct *task;
	void (*func)(struct tracepoint *tp, struct module *mod, void *priv);
	void *priv;
};

static int walk_module(struct notifier_block *notifier, unsigned long state,
		       void *data)
{
	struct module_walk *walk =
		container_of(notifier, struct module_walk, notifier);
	struct module *mod = ((struct tp_module *)data)->mod;
	unsigned int i;

	/*
	 * Another task may load or unload a module meanwhile. A reference does
	 * not keep a module whose init function may still fail.
	 */
	if (state == MODULE_STATE_COMING && walk->task == current &&
	    READ_ONCE(mod->state) == MODULE_STATE_LIVE)
		for (i = 0; i < mod->num_tracepoints; i++)
			walk->func(tracepoint_ptr_deref(&mod->tracepoints_ptrs[i]),
				   mod, walk->priv);
	return NOTIFY_OK;
}

/*
 * for_each_module_tracepoint() is not exported. A new notifier is told of all
 * modules that have trace points.
 */
int rust_perf_for_each_module_tracepoint(void (*func)(struct tracepoint *tp,
						      struct module *mod,
						      void *priv),
					 void *priv)
{
	struct module_walk walk = {
		.notifier.notifier_call = walk_module,
		.task = current,
		.func = func,
		.priv = priv,
	};
	int ret = register_tracepoint_module_notifier(&walk.notifier);

	if (!ret)
		unregister_tracepoint_module_notifier(&walk.notifier);
	return ret;
}

#ifdef CONFIG_DEBUG_INFO_BTF

DEFINE_STATIC_CALL_NULL(rust_perf_btf_put_call, btf_put);

static int find_btf(void)
{
	void *func = rust_perf_find_function("btf_put");

	if (IS_ERR(func))
		return PTR_ERR(func);
	static_call_update(rust_perf_btf_put_call, func);
	return 0;
}

int rust_perf_btf_find(const char *name, u32 kind, struct btf **btf)
{
	return bpf_find_btf_id(name, kind, btf);
}

void rust_perf_btf_put(struct btf *btf)
{
	static_call_cond(rust_perf_btf_put_call)(btf);
}

#else

static int find_btf(void)
{
	return 0;
}

int rust_perf_btf_find(const char *name, u32 kind, struct btf **btf)
{
	return -ENOENT;
}

void rust_perf_btf_put(struct btf *btf)
{
}

#endif /* CONFIG_DEBUG_INFO_BTF */

int rust_perf_trace_init(void)
{
	int ret = find_btf();

	return ret ? ret : find_security();
}

/* As perf_fetch_caller_regs(), for a caller that is further away. */
void rust_perf_caller_regs(struct pt_regs *regs, unsigned long ip,
			   unsigned long sp)
{
	regs->ip = ip;
	regs->sp = sp;
	regs->cs = __KERNEL_CS;
	regs->flags = 0;
}

void rust_perf_hlist_add(struct hlist_node *node, struct hlist_head *head)
{
	hlist_add_head_rcu(node, head);
}

void rust_perf_hlist_del(struct hlist_node *node)
{
	/* Does nothing if the node is in no list. */
	hlist_del_init_rcu(node);
}

void rust_perf_preempt_disable(void)
{
	preempt_disable_notrace();
}

void rust_perf_preempt_enable(void)
{
	preempt_enable_notrace();
}

bool rust_perf_is_current(struct task_struct *task)
{
	return task == current;
}

bool rust_perf_is_of_cgroup(const struct perf_event *event)
{
#ifdef CONFIG_CGROUP_PERF
	return event->cgrp;
#else
	return false;
#endif
}

bool rust_perf_sched_migrated(struct task_struct *task)
{
	return task->sched_migrated;
}

void rust_perf_for_each_task_event(struct task_struct *task,
				   void (*func)(struct perf_event *event,
						void *priv),
				   void *priv)
{
	struct perf_event_context *ctx;
	struct perf_event *event;
	unsigned long flags;

	rcu_read_lock();
	ctx = rcu_dereference(task->perf_event_ctxp);
	if (ctx) {
		raw_spin_lock_irqsave(&ctx->lock, flags);
		list_for_each_entry(event, &ctx->event_list, event_entry)
			func(event, priv);
		raw_spin_unlock_irqrestore(&ctx->lock, flags);
	}
	rcu_read_unlock();
}
