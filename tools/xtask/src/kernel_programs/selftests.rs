// SPDX-License-Identifier: GPL-2.0

//! The kernel's own selftests of perf events, which the suites `kernel-selftests` run.

use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::copy;
use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Kernel};
use crate::source::{self, Part};
use crate::step::Step;

/// The selftests, and what their build reads.
const PART: Part<'_> = Part {
    directory: "",
    needed: &[
        "Makefile",
        "arch/x86",
        "include",
        "kernel/bpf",
        "scripts",
        "tools",
        "usr",
    ],
    not_needed: &["tools/perf"],
};

/// Where the selftests are in the source.
const SELFTESTS: &str = "tools/testing/selftests";

/// The programs of `perf_events`.
const PERF_EVENTS: &[&str] = &[
    "mmap",
    "remove_on_exec",
    "sigtrap_threads",
    "watermark_signal",
];

/// The files in `bpf/prog_tests` that have a test of perf events. Without this choice all 452 would
/// be built.
const BPF: &[&str] = &[
    "bpf_cookie",
    "get_branch_snapshot",
    "get_stackid_cannot_attach",
    "lru_lock_nmi",
    "perf_branches",
    "perf_buffer",
    "perf_event_stackmap",
    "perf_link",
    "perf_skip",
    "send_signal",
    "stacktrace_build_id_nmi",
    "test_task_work",
];

/// The program that has these tests.
const BPF_PROGRAM: &str = "test_progs";

/// What it runs and loads.
const BPF_FILES: &[&str] = &["urandom_read", "liburandom_read.so", "bpf_testmod.ko"];

/// What the build of the BPF selftests leaves out.
const BPF_MAKE_ARGS: &[&str] = &[
    // The skeletons that the other tests have in common.
    "LSKELS=",
    "LSKELS_SIGNED=",
    "LSKELS_EXTRA=",
    "LINKED_SKELS=",
    "LIBARENA_SKEL=",
    "LIBARENA_ASAN_SKEL=",
    // What bpftool does not need for skeletons.
    "SKIP_LLVM=1",
    "SKIP_LIBBFD=1",
    "SKIP_CRYPTO=1",
];

/// The directory with LLVM's programs by their usual names.
const LLVM: &str = "/usr/lib/llvm-19/bin";

fn entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    Entry {
        name: "selftests",
        key: Key::new(ctx)
            .recipe(1)
            .text(&kernel.source_package())
            .text(&kernel.release)
            .text(&kernel.version.to_string())
            .texts(PART.needed)
            .texts(PART.not_needed)
            .texts(PERF_EVENTS)
            .texts(BPF)
            .text(BPF_PROGRAM)
            .texts(BPF_FILES)
            .texts(BPF_MAKE_ARGS)
            .texts(kernel::MAKE_ARGS)
            .text(LLVM)
            .finish(),
        title: format!("selftests of {}", kernel.source_package()),
        megabytes: 1000,
    }
}

/// Builds the selftests, those of BPF only if the kernel has BTF. Returns a directory with the programs.
pub fn build(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    // Its BTF has the types of the kernel.
    let vmlinux = kernel::image(ctx, kernel)?.vmlinux;
    let kdir = kernel::kdir(ctx, kernel)?;
    let source = || source::get(ctx, kernel);
    entry(ctx, kernel).get_from(ctx, source, |step, dir, source| {
        let tree = tempfile::tempdir_in(dir)?;
        source.unpack(step, &PART, tree.path())?;
        step.run(kernel::make(tree.path()).args(["-s", "headers"]))?;
        let selftests = tree.path().join(SELFTESTS);
        build_perf_events(step, &selftests.join("perf_events"), dir)?;
        match kernel.flavour {
            None => {
                let kdir = with_vmlinux(&kdir, &vmlinux, &tree.path().join("kdir"))?;
                build_bpf(step, &selftests.join("bpf"), &vmlinux, &kdir, dir)
            }
            // Debug kernels have no BTF.
            Some(_) => Ok(()),
        }
    })
}

fn build_perf_events(step: &Step, directory: &Path, into: &Path) -> Result<()> {
    step.run(&mut kernel::make(directory))?;
    copy(directory, PERF_EVENTS, into)
}

/// A build tree that has vmlinux: the module has BTF, which refers to the kernel's.
fn with_vmlinux(kdir: &Path, vmlinux: &Path, into: &Path) -> Result<PathBuf> {
    fs::create_dir(into)?;
    for file in fs::read_dir(kdir)? {
        let file = file?;
        symlink(file.path(), into.join(file.file_name()))?;
    }
    symlink(vmlinux, into.join("vmlinux"))?;
    Ok(into.to_owned())
}

fn build_bpf(
    step: &Step,
    directory: &Path,
    vmlinux: &Path,
    kdir: &Path,
    into: &Path,
) -> Result<()> {
    let tests = directory.join("prog_tests");
    keep(&tests, |name| BPF.contains(&name))?;
    let programs = programs(&tests)?;
    keep(&directory.join("progs"), |name| programs.contains(name))?;
    let needed: Vec<_> = BPF_FILES
        .iter()
        .map(|file| directory.join(file).display().to_string())
        .collect();
    let path = std::env::var("PATH").unwrap_or_default();
    step.run(
        kernel::make(directory)
            .env("PATH", format!("{LLVM}:{path}"))
            .arg(format!("-j{}", kernel::jobs()))
            .args(BPF_MAKE_ARGS)
            .arg(format!("TRUNNER_EXTRA_FILES={}", needed.join(" ")))
            .arg(format!("VMLINUX_BTF={}", vmlinux.display()))
            .arg(format!("KDIR={}", kdir.display()))
            .arg(BPF_PROGRAM),
    )?;
    copy(directory, &[BPF_PROGRAM], into)?;
    copy(directory, BPF_FILES, into)
}

/// Removes the C files of a directory whose names, without `.c`, are not wanted.
fn keep(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    for (name, path) in c_files(directory)? {
        if !is_wanted(&name) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn c_files(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        if path.extension() == Some(OsStr::new("c")) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            files.push((name.into_owned(), path.clone()));
        }
    }
    Ok(files)
}

/// The BPF programs that these tests include, each as a skeleton.
fn programs(tests: &Path) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    for (_, path) in c_files(tests)? {
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        programs.extend(skeletons(&text).map(str::to_owned));
    }
    Ok(programs)
}

/// The names of the skeletons that a C file includes.
fn skeletons(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let file = line.strip_prefix("#include \"")?;
        file.split_once(".skel.h\"").map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_skeletons() {
        let text = "#include <test_progs.h>\n#include \"a_b.skel.h\"\n#include \"io_helpers.h\"\n";
        assert_eq!(skeletons(text).collect::<Vec<_>>(), ["a_b"]);
    }
}
