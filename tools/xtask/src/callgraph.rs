// SPDX-License-Identifier: GPL-2.0

//! The call graph of the built module: what the NMI handler, the callbacks that NMIs
//! use, and the hits of trace points and kprobes can reach. Those of uprobes are in task
//! context.
//!
//! A panic in an NMI takes the machine down, and the compiler inserts calls to
//! panic functions wherever it cannot prove that an index is in bounds or that
//! arithmetic does not overflow. So the module is disassembled and searched.
//!
//! An instruction with a `lock` prefix takes as long as dozens of others, and what only one CPU
//! accesses needs none (`rust_perf/system/local.rs`). So there is none on these paths either.

use anyhow::{ensure, Context as _, Result};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

/// The functions that the kernel calls in an NMI, in a timer's interrupt, where it is
/// traced, or with interrupts disabled, as they end in the disassembly.
const ROOTS: &[&str] = &[
    "x86::nmi::handle_nmi::<rust_perf::core_pmu::Handler>",
    "x86::nmi::handle_unknown_nmi::<rust_perf::core_pmu::Handler>",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::start",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::stop",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::read",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::event_idx",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::pmu_enable",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::pmu_disable",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::add",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::del",
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::sched_task",
    "callbacks::Callbacks<rust_perf::clock_pmu::ClockPmu>>::start",
    "callbacks::Callbacks<rust_perf::clock_pmu::ClockPmu>>::stop",
    "callbacks::Callbacks<rust_perf::clock_pmu::ClockPmu>>::read",
    "callbacks::Callbacks<rust_perf::clock_pmu::ClockPmu>>::add",
    "callbacks::Callbacks<rust_perf::clock_pmu::ClockPmu>>::del",
    "callbacks::Callbacks<rust_perf::trace_pmu::TracePmu>>::start",
    "callbacks::Callbacks<rust_perf::trace_pmu::TracePmu>>::stop",
    "callbacks::Callbacks<rust_perf::trace_pmu::TracePmu>>::read",
    "callbacks::Callbacks<rust_perf::trace_pmu::TracePmu>>::add",
    "callbacks::Callbacks<rust_perf::trace_pmu::TracePmu>>::del",
    "timer::expired::<rust_perf::clock_pmu::ClockPmu>",
    "tracepoint::Data<rust_perf::trace_pmu::sources::Source>>::hit",
    "tracepoint::Data<rust_perf::trace_pmu::hit::Migrations>>::hit",
    "tracepoint::Data<rust_perf::trace_pmu::hit::PageFaults>>::hit",
    "<rust_perf::trace_pmu::kprobe::Hits as rust_perf::system::kprobe::Handler>::hit",
    "ftrace::hook::called::<rust_perf::core_pmu::hooks::UserRead>",
    "ftrace::hook::called::<rust_perf::core_pmu::hooks::Changes>",
];

/// What none of them may reach: panics, messages, allocations, locks, and a locked instruction.
const FORBIDDEN: &[&str] = &[
    "panic",
    "printk",
    "alloc",
    "mutex_lock",
    "schedule",
    "on_each_cpu",
    LOCKED,
];

/// What must be reached: an index into a table that a user chooses is masked
/// (`rust_perf/system/nospec.rs`).
const REQUIRED: &[(&str, &str)] = &[(
    "callbacks::Callbacks<rust_perf::core_pmu::CorePmu>>::event_init",
    "rust_perf_array_index_nospec",
)];

/// What stands for a locked instruction in the graph.
const LOCKED: &str = "a locked instruction";

/// Functions that may have one: they run once for each CPU.
const MAY_LOCK: &[&str] = &["CpuPmu>::claim_core"];

/// Each function and what it calls or jumps to.
struct CallGraph<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> CallGraph<'a> {
    /// Reads the output of `objdump -drC --no-show-raw-insn`.
    fn parse(disassembly: &'a str) -> Self {
        let mut functions = HashMap::<_, HashSet<_>>::new();
        let mut current = "";
        for line in disassembly.lines() {
            if let Some(name) = header(line) {
                current = name;
                functions.entry(name).or_default();
            } else if is_locked(line) {
                if !MAY_LOCK.iter().any(|name| current.ends_with(name)) {
                    functions.entry(current).or_default().insert(LOCKED);
                }
            } else if let Some(target) = relocation(line).or_else(|| direct_call(line)) {
                if target != current {
                    functions.entry(current).or_default().insert(target);
                }
            }
        }
        Self(functions)
    }

    /// The first path from `root` to a function that is forbidden.
    fn forbidden_path(&self, root: &'a str) -> Option<Vec<&'a str>> {
        self.path(root, |function| {
            FORBIDDEN.iter().any(|word| function.contains(word))
        })
    }

    /// The first path from `root` to a function of this kind.
    fn path(&self, root: &'a str, is_searched: impl Fn(&str) -> bool) -> Option<Vec<&'a str>> {
        let mut seen = HashSet::from([root]);
        let mut paths = vec![vec![root]];
        while let Some(path) = paths.pop() {
            let mut called: Vec<_> = self.0.get(path.last()?)?.iter().copied().collect();
            called.sort_unstable();
            for function in called {
                if !seen.insert(function) {
                    continue;
                }
                let longer: Vec<_> = path.iter().copied().chain([function]).collect();
                if is_searched(function) {
                    return Some(longer);
                }
                if self.0.contains_key(function) {
                    paths.push(longer);
                }
            }
        }
        None
    }

    /// The function whose name ends like this.
    fn function(&self, end: &str) -> Result<&'a str> {
        let name = self.0.keys().find(|name| name.ends_with(end));
        let name = name.with_context(|| format!("the module has no function …{end}"))?;
        Ok(name)
    }

    /// Fails if a root is missing, reaches what it must not, or does not reach what it must.
    fn check(&self) -> Result<()> {
        let mut bad = Vec::new();
        for root in ROOTS {
            let name = self.function(root)?;
            if let Some(path) = self.forbidden_path(name) {
                bad.push(path.join("\n    calls "));
            }
        }
        ensure!(
            bad.is_empty(),
            "code that runs in any context can reach what must not be called there:\n  {}",
            bad.join("\n  ")
        );
        for (root, required) in REQUIRED {
            let path = self.path(self.function(root)?, |function| function == *required);
            ensure!(path.is_some(), "…{root} does not call {required}");
        }
        Ok(())
    }
}

/// The name in `0000000000005c60 <name>:`.
fn header(line: &str) -> Option<&str> {
    let (address, rest) = line.split_once(' ')?;
    let is_address = address.len() == 16 && address.bytes().all(|b| b.is_ascii_hexdigit());
    is_address
        .then(|| rest.strip_prefix('<')?.strip_suffix(">:"))
        .flatten()
}

/// The symbol of a relocation, without its addend: `a7f: R_X86_64_PLT32 name-0x4`.
fn relocation(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("R_X86_64_")?;
    let (_, symbol) = rest.split_once(char::is_whitespace)?;
    let symbol = symbol.trim_start();
    let addend = symbol.rfind(['-', '+']).filter(|&at| {
        symbol[at + 1..]
            .strip_prefix("0x")
            .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
    });
    Some(addend.map_or(symbol, |at| &symbol[..at]))
}

/// The function that a call or jump without a relocation goes to: `call f0 <name>`.
/// Inside a function the target has an offset.
fn direct_call(line: &str) -> Option<&str> {
    let (_, instruction) = line.split_once(":\t")?;
    if !instruction.starts_with("call") && !instruction.starts_with('j') {
        return None;
    }
    let target = instruction
        .split_once(" <")?
        .1
        .trim_end()
        .strip_suffix('>')?;
    let offset = target.rsplit_once("+0x");
    let inside = offset.is_some_and(|(_, hex)| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    // Before its relocation a jump at the end of a function goes to the padding behind it.
    let is_padding = target.starts_with("__pfx_");
    (!inside && !is_padding).then_some(target)
}

/// Whether an instruction locks the bus: by the prefix, or an XCHG with memory.
fn is_locked(line: &str) -> bool {
    line.split_once(":\t").is_some_and(|(_, instruction)| {
        let is_exchange = instruction.starts_with("xchg") && instruction.contains('(');
        is_exchange || instruction.starts_with("lock ")
    })
}

/// Checks a built module.
pub fn check(module: &Path) -> Result<()> {
    let output = Command::new("objdump")
        .args(["-drC", "--no-show-raw-insn"])
        .arg(module)
        .output()
        .context("cannot run objdump")?;
    ensure!(
        output.status.success(),
        "objdump {}: {}",
        module.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    CallGraph::parse(&String::from_utf8_lossy(&output.stdout)).check()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISASSEMBLY: &str = "\
0000000000000010 <<a::B<c>>::start>:
      14:\tcall   19 <<a::B<c>>::start+0x9>
\t\t\t15: R_X86_64_PLT32\t__fentry__-0x4
      19:\tje     1e <<a::B<c>>::start+0xe>
      1b:\tjmp    30 <helper>
0000000000000030 <helper>:
      30:\tcall   35 <helper+0x5>
\t\t\t31: R_X86_64_PLT32\tcore::panicking::panic_const::panic_const_add_overflow-0x4
      35:\tmov    $0x0,%rdi
\t\t\t38: R_X86_64_32S\t.rodata+0x40
0000000000000040 <quiet>:
      40:\tjmp    40 <quiet>
      42:\txchg   %ax,%ax
0000000000000050 <counts>:
      50:\tlock incq (%rdi)
0000000000000060 <swaps>:
      60:\txchg   %rax,0x8(%rdi)
0000000000000070 <returns>:
      70:\tjmp    75 <__pfx_8scheduleNt6placed>
\t\t\t71: R_X86_64_PLT32\t__x86_return_thunk-0x4
";

    #[test]
    fn calls_and_jumps_are_found() {
        let graph = CallGraph::parse(DISASSEMBLY);
        let calls = |name| {
            let mut calls: Vec<_> = graph.0[name].iter().copied().collect();
            calls.sort_unstable();
            calls
        };
        assert_eq!(calls("<a::B<c>>::start"), ["__fentry__", "helper"]);
        let panic = "core::panicking::panic_const::panic_const_add_overflow";
        assert_eq!(calls("helper"), [".rodata", panic]);
        assert!(calls("quiet").is_empty());
    }

    #[test]
    fn what_follows_a_function_is_not_called() {
        let graph = CallGraph::parse(DISASSEMBLY);
        assert_eq!(graph.0["returns"], HashSet::from(["__x86_return_thunk"]));
    }

    #[test]
    fn a_panic_behind_a_call_is_found() {
        let graph = CallGraph::parse(DISASSEMBLY);
        let path = graph.forbidden_path("<a::B<c>>::start").unwrap();
        assert_eq!(path[..2], ["<a::B<c>>::start", "helper"]);
        assert_eq!(path.len(), 3);
        assert_eq!(graph.forbidden_path("quiet"), None);
    }

    #[test]
    fn what_is_called_is_found_behind_a_call() {
        let graph = CallGraph::parse(DISASSEMBLY);
        let path = |root| graph.path(root, |function| function == "__fentry__");
        assert!(path("<a::B<c>>::start").is_some());
        assert!(path("helper").is_none());
    }

    #[test]
    fn locked_instructions_are_found() {
        let graph = CallGraph::parse(DISASSEMBLY);
        for name in ["counts", "swaps"] {
            assert_eq!(graph.forbidden_path(name), Some(vec![name, LOCKED]));
        }
    }

    #[test]
    fn a_root_that_is_not_there_is_an_error() {
        let error = CallGraph::parse(DISASSEMBLY).check().unwrap_err();
        assert!(error.to_string().contains("handle_nmi"));
    }
}
