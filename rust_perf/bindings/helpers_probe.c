// SPDX-License-Identifier: GPL-2.0
/* Shims for kprobes, uprobes, kernel symbols and paths. */

#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/ftrace.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/security.h>
#include <linux/static_call.h>

#include "helpers.h"

DEFINE_STATIC_CALL_RET0(rust_perf_match_call, kallsyms_on_each_match_symbol);
DEFINE_STATIC_CALL_RET0(rust_perf_module_call, module_kallsyms_on_each_symbol);
DEFINE_STATIC_CALL_RET0(rust_perf_size_call, kallsyms_lookup_size_offset);
DEFINE_STATIC_CALL_RET0(rust_perf_name_call, lookup_symbol_name);
DEFINE_STATIC_CALL_RET0(rust_perf_address_call, kallsyms_lookup_name);

/*
 * Where kprobes are allowed on any function, or ftrace does not know the
 * functions, the in-tree PMU does not check this.
 */
#if defined(CONFIG_DYNAMIC_FTRACE) && !defined(CONFIG_KPROBE_EVENTS_ON_NOTRACE)

DEFINE_STATIC_CALL_RET0(rust_perf_ftrace_call, ftrace_location_range);

static int find_ftrace_location(void)
{
	void *func = rust_perf_find_function("ftrace_location_range");

	if (IS_ERR(func))
		return PTR_ERR(func);
	static_call_update(rust_perf_ftrace_call, func);
	return 0;
}

bool rust_perf_has_ftrace_location(unsigned long start, unsigned long end)
{
	return static_call(rust_perf_ftrace_call)(start, end);
}

#else

static int find_ftrace_location(void)
{
	return 0;
}

bool rust_perf_has_ftrace_location(unsigned long start, unsigned long end)
{
	return true;
}

#endif

int rust_perf_symbols_init(void)
{
	void *match = rust_perf_find_function("kallsyms_on_each_match_symbol");
	void *module = rust_perf_find_function("module_kallsyms_on_each_symbol");
	void *size = rust_perf_find_function("kallsyms_lookup_size_offset");
	void *name = rust_perf_find_function("lookup_symbol_name");
	void *address = rust_perf_find_function("kallsyms_lookup_name");

	if (IS_ERR(match))
		return PTR_ERR(match);
	if (IS_ERR(module))
		return PTR_ERR(module);
	if (IS_ERR(size))
		return PTR_ERR(size);
	if (IS_ERR(name))
		return PTR_ERR(name);
	if (IS_ERR(address))
		return PTR_ERR(address);
	static_call_update(rust_perf_match_call, match);
	static_call_update(rust_perf_module_call, module);
	static_call_update(rust_perf_size_call, size);
	static_call_update(rust_perf_name_call, name);
	static_call_update(rust_perf_address_call, address);
	return find_ftrace_location();
}

int rust_perf_each_kernel_symbol(int (*visit)(void *data, unsigned long addr),
				 const char *name, void *data)
{
	return static_call(rust_perf_match_call)(visit, name, data);
}

int rust_perf_each_module_symbol(const char *module,
				 int (*visit)(void *data, const char *name,
					      unsigned long addr),
				 void *data)
{
	return static_call(rust_perf_module_call)(module, visit, data);
}

int rust_perf_symbol_extent(unsigned long addr, unsigned long *size,
			    unsigned long *offset)
{
	return static_call(rust_perf_size_call)(addr, size, offset);
}

int rust_perf_symbol_name(unsigned long addr, char *name)
{
	return static_call(rust_perf_name_call)(addr, name);
}

unsigned long rust_perf_symbol_address(const char *name)
{
	return static_call(rust_perf_address_call)(name);
}

struct kretprobe *rust_perf_kretprobe_of(struct kretprobe_instance *instance)
{
	return get_kretprobe(instance);
}

unsigned long rust_perf_kretprobe_address(struct kretprobe_instance *instance)
{
	return get_kretprobe_retaddr(instance);
}

int rust_perf_path_of_file(unsigned int fd, struct path *path)
{
	struct file *file = fget(fd);

	if (!file)
		return -EBADF;
	*path = file->f_path;
	path_get(path);
	fput(file);
	return 0;
}

int rust_perf_path_lookup(const char *name, struct path *path)
{
	return kern_path(name, LOOKUP_FOLLOW, path);
}

bool rust_perf_path_is_regular_file(const struct path *path)
{
	return d_is_reg(path->dentry);
}

struct inode *rust_perf_path_inode(const struct path *path)
{
	return d_real_inode(path->dentry);
}

/* security_locked_down() is an inline function without CONFIG_SECURITY. */
int rust_perf_kprobes_locked_down(void)
{
	return security_locked_down(LOCKDOWN_KPROBES);
}
