// SPDX-License-Identifier: GPL-2.0
//! The entries of `perf test` that do not run or pass here, and why, and those about branch records.

/// Entries that do not run here, by their names, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    // The emulated CPU may be too slow for them.
    ("Object code reading", READS_MAPS),
    ("Lookup mmap thread", READS_MAPS),
    ("Test dwarf unwind", READS_MAPS),
    // Chance decides whether it passes.
    ("Breakpoint overflow sampling", RF),
    // They open one event or metric after another.
    ("perf all metricgroups test", MINUTES),
    ("perf all metrics test", MINUTES),
    ("perf all PMU test", MINUTES),
    // They would be skipped, which takes long. Another suite runs those with SYMBOLS.
    ("vmlinux symtab matches kallsyms", "needs the file vmlinux"),
    ("perf annotate basic tests", SYMBOLS),
    ("perf diff tests", SYMBOLS),
    ("perf inject --aslr test", SYMBOLS),
    ("perf pipe recording and injection test", SYMBOLS),
    ("perf record tests", SYMBOLS_AND_BPF),
    // The driver has no part in what they test, and all of them together take minutes.
    ("PMU JSON event tests", NO_EVENTS),
    ("dlfilter C API", NO_EVENTS),
    ("test addr2line inline unwinding", NO_EVENTS),
    ("build id cache operations", NO_EVENTS),
    ("daemon operations", NO_EVENTS),
    (
        "Test that perf report includes file offsets and event type names in diagnostic \
         messages.",
        NO_EVENTS,
    ),
    (
        "Test that perf report handles truncated perf.data gracefully (no crash, no segfault \
         — clean error exit).",
        NO_EVENTS,
    ),
    ("perf ftrace tests", NO_EVENTS),
    (
        "perf inject to convert DWARF callchains to regular ones",
        NO_EVENTS,
    ),
    ("python profiling with jitdump", NO_EVENTS),
    ("perf kallsyms tests", NO_EVENTS),
    ("perf kwork tests", NO_EVENTS),
    ("perf list tests", NO_EVENTS),
    ("perf sched stats tests", NO_EVENTS),
    ("'import perf' in python", NO_EVENTS),
    ("Zstd perf.data compression/decompression", NO_EVENTS),
    (
        "Zstd perf.data compression/decompression of multi-record data",
        NO_EVENTS,
    ),
    ("perf sched tests", NO_EVENTS),
    ("perf script tests", NO_EVENTS),
    ("perf script --dlfilter tests", NO_EVENTS),
    ("perf script perl tests", NO_EVENTS),
    ("perf script python tests", NO_EVENTS),
    ("perf stat events uniquifying", NO_EVENTS),
    ("BPF metadata collection test", NO_EVENTS),
    ("Test java symbol", NO_EVENTS),
    ("'perf data convert --to-ctf' command test", NO_EVENTS),
    ("'perf data convert --to-json' command test", NO_EVENTS),
    ("perf test junit XML output validation", NO_EVENTS),
    ("test perf probe of function from different CU", NO_EVENTS),
    ("perf timechart tests", NO_EVENTS),
    ("perf trace enum augmentation tests", NO_EVENTS),
    ("perf trace exit race", NO_EVENTS),
    ("perf trace record and replay", NO_EVENTS),
    ("perftool-testsuite_probe", NO_EVENTS),
    ("perftool-testsuite_report", NO_EVENTS),
    (
        "Add vfs_getname probe to get syscall args filenames",
        NO_EVENTS,
    ),
    ("probe libc's inet_pton & backtrace it with ping", NO_EVENTS),
    (
        "Use vfs_getname probe to get syscall args filenames",
        NO_EVENTS,
    ),
    ("perf record offcpu profiling tests", NO_EVENTS),
    (
        "Test libdw unwinding of multi-threaded processes",
        NO_EVENTS,
    ),
    ("perf script task-analyzer tests", NO_EVENTS),
    ("perf top tests", NO_EVENTS),
    (
        "Check open filename arg using perf trace + vfs_getname",
        NO_EVENTS,
    ),
    ("perf trace BTF general tests", NO_EVENTS),
    ("perf trace summary", NO_EVENTS),
];

const READS_MAPS: &str = "perf reads a list of mappings for at most 0.5 s";
const RF: &str = "QEMU sets RF when an interrupt arrives, so that a breakpoint may be missed";
const MINUTES: &str = "takes minutes";
const SYMBOLS: &str = "Debian's perf has no symbols";
const SYMBOLS_AND_BPF: &str = "Debian's perf has no symbols, and that with symbols no BPF programs";
const NO_EVENTS: &str = "is not about hardware events";

/// Entries that perf skips here, and why. A part of an entry is `entry: part`.
pub const SKIPPED: &[(&str, &str)] = &[
    (
        "Parse event definition strings: Parsing of aliased events from sysfs",
        UNCORE,
    ),
    ("Uncore event sorting", UNCORE),
    ("Event groups", UNCORE),
    ("Watchpoint: Read Only Watchpoint", "x86 has none"),
    ("Probe SDT events", BUILD),
    (
        "Test libpfm4 support: test of individual --pfm-events",
        BUILD,
    ),
    ("Test libpfm4 support: test groups of --pfm-events", BUILD),
    ("PE file support", BUILD),
    ("perf all libpfm4 events test", BUILD),
    ("perf record sample filtering (by BPF) tests", BUILD),
    ("perf stat --bpf-counters --for-each-cgroup test", BUILD),
    ("perf stat --bpf-counters test", BUILD),
    ("Test data symbol", PEBS),
    ("perf c2c tests", PEBS),
    ("test Intel TPEBS counting mode", PEBS),
    ("perf record LBR tests", LBR),
    ("Check branch stack sampling", LBR),
    ("Miscellaneous Intel PT testing", "needs Intel PT"),
    ("Intel PT: Intel PT hybrid CPU compatibility", HYBRID),
    ("x86 hybrid", HYBRID),
    ("AMD IBS via core pmu", OTHER_CPU),
    ("AMD IBS software filtering", OTHER_CPU),
    ("AMD IBS sample period", OTHER_CPU),
    ("Check Arm64 callgraphs are complete in fp mode", OTHER_CPU),
    ("Check Arm SPE doesn't hang when there are forks", OTHER_CPU),
    ("CoreSight synthesized callchain", OTHER_CPU),
    ("CoreSight concurrent threads", OTHER_CPU),
    ("CoreSight context switch thread attribution", OTHER_CPU),
    ("CoreSight deterministic workload decode", OTHER_CPU),
    ("CoreSight raw dump stress", OTHER_CPU),
    (
        "Check Arm CoreSight trace data recording and synthesized samples",
        OTHER_CPU,
    ),
    (
        "Check Arm CoreSight disassembly script completes without errors",
        OTHER_CPU,
    ),
    (
        "Check Arm SPE trace data recording and synthesized samples",
        OTHER_CPU,
    ),
    ("DRM PMU", "needs a graphics card"),
    ("perf kvm tests", "needs QEMU"),
    ("kernel lock contention analysis test", "needs more CPUs"),
];

const UNCORE: &str = "needs an uncore PMU";
const BUILD: &str = "Debian builds perf without it";
const PEBS: &str = "the CPU has no PEBS";
const LBR: &str = "the CPU has no LBR";
const HYBRID: &str = "needs a hybrid CPU";
const OTHER_CPU: &str = "needs another CPU";

/// The entry about branch records that needs no symbols of perf. It runs on a CPU that has such records.
pub const OF_BRANCHES: &str = "perf record LBR tests";

/// Entries that look for functions of perf. They run on a CPU that has branch records, which one of them needs.
pub const WITH_SYMBOLS: &[&str] = &[
    "Check branch stack sampling",
    "perf annotate basic tests",
    "perf diff tests",
    "perf inject --aslr test",
    "perf pipe recording and injection test",
];

/// Entries that fail here whichever driver there is, and why.
pub const FAILING: &[(&str, &str)] = &[
    (
        "Simple expression parser",
        "reads the frequency of the TSC from the CPU's name",
    ),
    ("perf data type profiling tests", PEBS),
];

/// Beginnings of what entries print of a failure that is left to chance, and why.
pub const BY_CHANCE: &[(&str, &str)] = &[
    ("stat -D test [Failed", "it is about time"),
    (
        "stat -p test [Failed - command failed]",
        "the process that is to be counted ends after a second",
    ),
    (
        "Hide zero events stat test [Failed - zero event",
        "counts another run of a program, which may move to another CPU",
    ),
    (
        "Failed after retrying",
        "perf looks for the exit of a process 1,000 times, without waiting",
    ),
];
