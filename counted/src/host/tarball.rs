// SPDX-License-Identifier: GPL-2.0

//! What the tarball has besides this program: QEMU and a kernel. With it, `counted` needs nothing of the
//! host's distribution.
//!
//! ```text
//! bin/counted
//! bin/qemu-system-x86_64-pmu
//! lib/counted/vmlinuz
//! lib/counted/rust_perf.ko
//! lib/counted/lib/modules/RELEASE/modules.dep, …
//! ```

use std::env;
use std::path::PathBuf;

/// The script that starts QEMU. Beside an installed `counted` it is QEMU itself.
pub const QEMU: &str = "bin/qemu-system-x86_64-pmu";
/// The program that the script starts.
pub const QEMU_PROGRAM: &str = "lib/qemu/qemu-system-x86_64-pmu";
/// The image of the kernel.
pub const KERNEL: &str = "lib/counted/vmlinuz";
/// The directory that is /lib/modules of the kernel.
pub const MODULES: &str = "lib/counted/lib/modules";
/// rust_perf for the kernel.
pub const RUST_PERF: &str = "lib/counted/rust_perf.ko";

/// Where this is beside the program. `None` if it is not there, as it may be if the program does not come from
/// a tarball.
pub fn find(name: &str) -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let path = program.parent()?.parent()?.join(name);
    path.exists().then_some(path)
}
