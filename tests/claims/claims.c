// SPDX-License-Identifier: GPL-2.0
/*
 * Has what rust_perf asks the kernel for, so that rust_perf cannot have it: an MSR of a counter, the
 * name of a PMU, or all of the hotplug states. Or it has ftrace refuse the hooks of modules. It undoes
 * that when it is unloaded. The module is for the tests alone.
 */

#include <linux/cpuhotplug.h>
#include <linux/errno.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/pgtable.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <asm/nmi.h>

static unsigned int perfctr;
module_param(perfctr, uint, 0);
MODULE_PARM_DESC(perfctr, "Reserve this counter");

static unsigned int evntsel;
module_param(evntsel, uint, 0);
MODULE_PARM_DESC(evntsel, "Reserve this event select");

static char *pmu_name;
module_param(pmu_name, charp, 0);
MODULE_PARM_DESC(pmu_name, "Register a PMU with this name");

static bool hotplug;
module_param(hotplug, bool, 0);
MODULE_PARM_DESC(hotplug, "Set up as many hotplug states as there are");

static bool hooks;
module_param(hooks, bool, 0);
MODULE_PARM_DESC(hooks, "Refuse the hooks of functions that modules register with ftrace");

/* There are fewer: CPUHP_AP_ONLINE_DYN_END. */
static int states[256];
static int states_len;

static int event_init(struct perf_event *event)
{
	return -ENOENT;
}

static int add(struct perf_event *event, int flags)
{
	return -EINVAL;
}

static void del_or_stop(struct perf_event *event, int flags)
{
}

static void read(struct perf_event *event)
{
}

static struct pmu pmu = {
	.module = THIS_MODULE,
	.task_ctx_nr = perf_invalid_context,
	.event_init = event_init,
	.add = add,
	.del = del_or_stop,
	.start = del_or_stop,
	.stop = del_or_stop,
	.read = read,
};

static int online(unsigned int cpu)
{
	return 0;
}

/* What ftrace_set_filter_ip() does for a module. */
static int refuse_filter(struct ftrace_ops *ops, unsigned long ip, int remove, int reset)
{
	return -EINVAL;
}

static int before_filter(struct kprobe *probe, struct pt_regs *regs)
{
	struct ftrace_ops *ops = (struct ftrace_ops *)regs_get_kernel_argument(regs, 0);

	/* kprobes have such hooks, too, whose functions are the kernel's own. */
	if ((unsigned long)ops->func < MODULES_VADDR)
		return 0;
	instruction_pointer_set(regs, (unsigned long)refuse_filter);
	return 1;
}

/* A kprobe that is optimised ignores a new instruction pointer. One with a post_handler is not. */
static void after_filter(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe filter = {
	.symbol_name = "ftrace_set_filter_ip",
	.pre_handler = before_filter,
	.post_handler = after_filter,
};

static void give_back_hooks(void)
{
	if (!hooks)
		return;
	unregister_kprobe(&filter);
	/* A task may still be in refuse_filter(). */
	synchronize_rcu_tasks();
}

static void give_back(void)
{
	while (states_len)
		cpuhp_remove_state_nocalls(states[--states_len]);
	if (evntsel)
		release_evntsel_nmi(evntsel);
	if (perfctr)
		release_perfctr_nmi(perfctr);
}

static int __init claims_init(void)
{
	int state, ret;

	if (perfctr && !reserve_perfctr_nmi(perfctr))
		return -EBUSY;
	if (evntsel && !reserve_evntsel_nmi(evntsel)) {
		evntsel = 0;
		ret = -EBUSY;
		goto err;
	}
	while (hotplug && states_len < ARRAY_SIZE(states)) {
		state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "claims:online", online, NULL);
		if (state < 0)
			break;
		states[states_len++] = state;
	}
	if (hooks) {
		ret = register_kprobe(&filter);
		if (ret)
			goto err;
	}
	if (pmu_name) {
		ret = perf_pmu_register(&pmu, pmu_name, -1);
		if (ret)
			goto err_hooks;
	}
	return 0;
err_hooks:
	give_back_hooks();
err:
	give_back();
	return ret;
}

static void __exit claims_exit(void)
{
	if (pmu_name)
		perf_pmu_unregister(&pmu);
	give_back_hooks();
	give_back();
}
module_init(claims_init);
module_exit(claims_exit);

MODULE_DESCRIPTION("Has what rust_perf asks the kernel for");
MODULE_LICENSE("GPL");
