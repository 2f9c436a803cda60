// SPDX-License-Identifier: GPL-2.0
/*
 * Shows on which counters the in-tree driver counts an event.
 *
 * A file of /sys/kernel/debug/in_tree_counters belongs to a PMU of that driver. The 8 bytes at
 * offset 8 * config are the counters for that config: bit i is general counter i, bit 32 + i
 * is fixed counter i, bit 48 + i is field i of PERF_METRICS. The answer is what the driver itself
 * says: its get_event_constraints() is called for an event that is not open. On AMD's family 15H
 * amd_get_event_constraints_f15h() is called, whether the driver uses it or not. The file has no
 * end; reading it takes as long as the reader likes.
 *
 * The driver exports nothing of this, so its symbols are looked up. The module is for the
 * tests alone: it must be built for exactly the kernel that loads it.
 */

#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "perf_event.h"

/* What the driver adds to the config of an event that is counted in all modes. */
#define MODES (ARCH_PERFMON_EVENTSEL_USR | ARCH_PERFMON_EVENTSEL_OS | ARCH_PERFMON_EVENTSEL_INT)

struct in_tree_pmu {
	/* NULL unless the machine is hybrid. */
	struct pmu *pmu;
	/* The counters that there are. */
	u64 counters;
};

typedef typeof(((struct x86_pmu *)NULL)->get_event_constraints) get_event_constraints_t;

static struct x86_pmu *driver;
static get_event_constraints_t get_event_constraints;
static struct dentry *folder;
static struct in_tree_pmu *in_tree;
/* An event, and a CPU that is used by nothing but this module. */
static struct perf_event *event;
static struct cpu_hw_events *cpu;
static DEFINE_MUTEX(lock);

static u64 counters_for(const struct in_tree_pmu *in_tree, u64 config)
{
	struct event_constraint *constraint;

	event->pmu = in_tree->pmu;
	cpu->pmu = in_tree->pmu;
	event->attr.config = config;
	event->hw.config = config | MODES;
	event->hw.flags = 0;
	constraint = get_event_constraints(cpu, 0, event);
	return constraint->idxmsk64 & in_tree->counters;
}

static ssize_t read_counters(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	const struct in_tree_pmu *in_tree = file->private_data;
	u64 counters;
	size_t done;

	if (*offset % sizeof(counters) || size % sizeof(counters))
		return -EINVAL;
	for (done = 0; done < size; done += sizeof(counters)) {
		mutex_lock(&lock);
		counters = counters_for(in_tree, *offset / sizeof(counters));
		mutex_unlock(&lock);
		if (copy_to_user(to + done, &counters, sizeof(counters)))
			return -EFAULT;
		*offset += sizeof(counters);
	}
	return done;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = read_counters,
	.llseek = no_seek_end_llseek,
};

/* kallsyms_lookup_name() is not exported, but a kprobe, which is never armed, finds it. */
static void *look_up(const char *name)
{
	static struct kprobe probe = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	static unsigned long (*lookup)(const char *name);

	if (!lookup) {
		if (register_kprobe(&probe))
			return NULL;
		lookup = (void *)probe.addr;
		unregister_kprobe(&probe);
	}
	return (void *)lookup(name);
}

/* The fields of PERF_METRICS that there are. */
static u64 metrics(union perf_capabilities capabilities)
{
	int n = driver->num_topdown_events;

	return capabilities.perf_metrics ? GENMASK_ULL(n - 1, 0) << INTEL_PMC_IDX_METRIC_BASE : 0;
}

/*
 * The function that the driver has for this CPU. NULL if its symbol is missing.
 *
 * Without CONFIG_PERF_EVENTS_AMD_BRS, amd_core_pmu_init() takes every CPU with PerfCtrExtCore and
 * without LbrExtV2 to have the branch sampler of family 19H, and so replaces the function of
 * family 15H.
 */
static get_event_constraints_t find_get_event_constraints(void)
{
	static const char of_family_15h[] = "amd_get_event_constraints_f15h";
	get_event_constraints_t found = driver->get_event_constraints;

	if (boot_cpu_data.x86_vendor == X86_VENDOR_AMD && boot_cpu_data.x86 == 0x15) {
		found = look_up(of_family_15h);
		if (!found)
			pr_err("in_tree_counters: there is no symbol %s\n", of_family_15h);
	}
	return found;
}

static void remove(void)
{
	debugfs_remove(folder);
	kvfree(cpu);
	kfree(event);
	kfree(in_tree);
}

static int __init in_tree_counters_init(void)
{
	int n, i;

	driver = look_up("x86_pmu");
	if (!driver) {
		pr_err("in_tree_counters: there is no symbol x86_pmu\n");
		return -ENOENT;
	}
	if (!driver->get_event_constraints) {
		pr_err("in_tree_counters: the in-tree driver does not know this CPU\n");
		return -ENODEV;
	}
	get_event_constraints = find_get_event_constraints();
	if (!get_event_constraints)
		return -ENOENT;

	n = driver->num_hybrid_pmus;
	in_tree = kcalloc(max(n, 1), sizeof(*in_tree), GFP_KERNEL);
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	cpu = kvzalloc(sizeof(*cpu), GFP_KERNEL);
	folder = debugfs_create_dir("in_tree_counters", NULL);
	if (!in_tree || !event || !cpu || IS_ERR(folder)) {
		remove();
		return -ENOMEM;
	}
	cpu->is_fake = 1;
	event->hw.extra_reg.idx = EXTRA_REG_NONE;
	event->hw.branch_reg.idx = EXTRA_REG_NONE;
	event->hw.dyn_constraint = ~0ULL;

	if (!n) {
		in_tree[0].counters = driver->cntr_mask64 |
				      driver->fixed_cntr_mask64 << INTEL_PMC_IDX_FIXED |
				      metrics(driver->intel_cap);
		debugfs_create_file("cpu", 0400, folder, &in_tree[0], &operations);
		return 0;
	}
	for (i = 0; i < n; i++) {
		struct x86_hybrid_pmu *hybrid = &driver->hybrid_pmu[i];

		in_tree[i].pmu = &hybrid->pmu;
		in_tree[i].counters = hybrid->cntr_mask64 |
				      hybrid->fixed_cntr_mask64 << INTEL_PMC_IDX_FIXED |
				      metrics(hybrid->intel_cap);
		debugfs_create_file(hybrid->name, 0400, folder, &in_tree[i], &operations);
	}
	return 0;
}

static void __exit in_tree_counters_exit(void)
{
	remove();
}

module_init(in_tree_counters_init);
module_exit(in_tree_counters_exit);
MODULE_DESCRIPTION("Shows on which counters the in-tree driver counts an event");
MODULE_LICENSE("GPL");
