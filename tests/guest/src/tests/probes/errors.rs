// SPDX-License-Identifier: GPL-2.0
//! Bad input: the errno of the in-tree PMUs, and nothing that is left behind.

use std::ffi::{c_void, CString};
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::ptr::NonNull;

use anyhow::{ensure, Context, Result};
use nix::sys::mman::{mmap_anonymous, mprotect, munmap, MapFlags, ProtFlags};
use nix::sys::stat::Mode;
use nix::unistd::{mkfifo, pipe};
use perf_event_open_sys::bindings::{
    perf_event_attr, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_STACK,
    PERF_SAMPLE_RAW,
};
use perf_event_open_sys::perf_event_open;

use super::{first_byte, own_place, probed, BEHIND_FTRACE, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::kmsg::{set_judged, Kmsg};
use crate::pmu::Pmu;
use crate::probe::{c_path, kernel_probes, Kind, Probe, Side, RUST_TRACE, SIDES};
use crate::tests::compare::case::Unprivileged;

/// The longest names that the kernel reads, with the null.
const KSYM_NAME_LEN: usize = 512;
const PATH_MAX: usize = 4096;
/// A descriptor that is not open.
const NO_FD: u64 = 999;
/// In the place of an errno: the event opens.
const OPENS: i32 = 0;

/// The errno of opening an event, or [`OPENS`].
fn errno(probe: &Probe, side: Side, change: impl Fn(&mut perf_event_attr)) -> Result<i32> {
    let mut builder = probe.event(side)?;
    change(builder.attrs_mut());
    // Not by the builder, which replaces E2BIG.
    let mut attr = *builder.attrs();
    let flags = PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the kernel reads `attr` during the call, and checks the addresses in it.
    let fd = unsafe { perf_event_open(&mut attr, 0, -1, -1, flags) };
    if fd < 0 {
        return io::Error::last_os_error()
            .raw_os_error()
            .context("no errno");
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(OPENS)
}

type Change = fn(&mut perf_event_attr);

/// What an event is, the event, and its errno.
type Case = (&'static str, Probe, i32);

/// Expects the errno of each case, also on the in-tree PMU if that has such events. For
/// the return it expects what the in-tree PMU has.
fn check(cases: &[Case]) -> Result<()> {
    let mut wrong = Vec::new();
    for (what, probe, want) in cases {
        let returns = probe.of_return();
        let plain = |probe, side| errno(probe, side, |_| {});
        let mut expect = |what: String, got: i32, want: i32| {
            if got != want {
                wrong.push(format!("{what}: errno {got}, expected {want}"));
            }
        };
        expect(format!("{what}, ours"), plain(probe, Side::Ours)?, *want);
        if matches!(probe.kind, Kind::Descriptor) {
            let got = plain(&returns, Side::Ours)?;
            expect(format!("{what}, return, ours"), got, *want);
        } else {
            let in_tree = plain(probe, Side::InTree)?;
            expect(format!("{what}, in-tree"), in_tree, *want);
            let in_tree = plain(&returns, Side::InTree)?;
            let got = plain(&returns, Side::Ours)?;
            expect(format!("{what}, return"), got, in_tree);
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

const PAGE: usize = 4096;

/// Two pages, of which the second cannot be read.
struct GuardedPage(NonNull<c_void>);

impl GuardedPage {
    fn new() -> Result<Self> {
        let size = NonZeroUsize::new(2 * PAGE).context("0")?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(None, size, prot, MapFlags::MAP_PRIVATE) }?;
        let page = Self(start);
        // SAFETY: the second page of the new mapping, which nothing refers to.
        unsafe { mprotect(start.byte_add(PAGE), PAGE, ProtFlags::PROT_NONE) }?;
        Ok(page)
    }

    /// Puts bytes at the end of the first page, and returns their address.
    fn put(&self, bytes: &[u8]) -> u64 {
        // SAFETY: the bytes fit into the first page, which can be written.
        unsafe {
            let to = self.0.cast::<u8>().add(PAGE - bytes.len());
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            to.as_ptr() as u64
        }
    }
}

impl Drop for GuardedPage {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { munmap(self.0, 2 * PAGE) };
    }
}

/// A name that several functions of the kernel have, and a function in which the kernel
/// allows no probe.
fn special_symbols() -> Result<(CString, CString)> {
    let text = fs::read_to_string("/proc/kallsyms")?;
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains('['))
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let is_code = fields.next()?.eq_ignore_ascii_case("t");
            fields.next().filter(|_| is_code)
        })
        .collect();
    names.sort_unstable();
    let several = names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .context("all symbols are unique")?[0];
    let list = fs::read_to_string("/sys/kernel/debug/kprobes/blacklist")?;
    let refused = list
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .find(|name| names.iter().filter(|it| it == &name).count() == 1)
        .context("no function refuses probes")?;
    Ok((CString::new(several)?, CString::new(refused)?))
}

fn check_symbols() -> Result<()> {
    let guard = GuardedPage::new()?;
    let (several, refused) = special_symbols()?;
    let text = |name: &[u8]| Probe::new(Kind::Kernel, guard.put(name), 0);
    let at = |address| Probe::new(Kind::Kernel, address, 0);
    let symbol = |name| Probe::symbol(name, 0);
    let longest = CString::new([b'x'; KSYM_NAME_LEN - 1])?;
    let too_long = CString::new([b'x'; KSYM_NAME_LEN])?;
    check(&[
        ("neither name nor address", at(0), libc::EINVAL),
        ("empty name", symbol(c""), libc::EINVAL),
        ("name at 1", at(1), libc::EFAULT),
        ("name in the kernel", at(u64::MAX - 4095), libc::EFAULT),
        ("name at no address", at(1 << 62), libc::EFAULT),
        ("no such symbol", symbol(c"no_such_symbol"), libc::ENOENT),
        ("longest name", symbol(&longest), libc::ENOENT),
        ("too long", symbol(&too_long), libc::E2BIG),
        ("no such module", symbol(c"none:vfs_read"), libc::ENOENT),
        ("not of the module", symbol(c"9p:vfs_read"), libc::ENOENT),
        ("no module", symbol(c":vfs_read"), libc::ENOENT),
        ("no symbol", symbol(c"9p:"), libc::ENOENT),
        ("several", symbol(&several), libc::EADDRNOTAVAIL),
        ("black-listed", symbol(&refused), libc::EINVAL),
        ("data", symbol(c"jiffies"), libc::EINVAL),
        // A function that may have a probe as such, but no ftrace.
        ("notrace", symbol(c"ftrace_location_range"), libc::EINVAL),
        (
            "within an instruction",
            Probe::symbol(SYSTEM_CALL, 5),
            libc::EILSEQ,
        ),
        ("user address", Probe::address(probed()), libc::ENOENT),
        ("no address", Probe::address(u64::MAX), libc::ENOENT),
        ("of a module", symbol(c"9p:v9fs_file_open"), OPENS),
    ])?;
    check(&[("not terminated", text(b"vfs_read"), libc::EFAULT)])?;
    check(&[("at the end of a page", text(b"vfs_read\0"), OPENS)])?;

    // The return is that of the function at whose start the probe is.
    let within = Probe::symbol(SYSTEM_CALL, BEHIND_FTRACE).of_return();
    for side in SIDES {
        let got = errno(&within, side, |_| {})?;
        ensure!(got == libc::EINVAL, "return, within, {side:?}: errno {got}");
    }
    // The kernel has 32 bits for an offset. The in-tree PMU ignores the others.
    let far = Probe::symbol(SYSTEM_CALL, 1 << 32);
    for (side, want) in SIDES.iter().zip([OPENS, libc::EINVAL]) {
        let got = errno(&far, *side, |_| {})?;
        ensure!(got == want, "offset 2^32, {side:?}: errno {got}");
    }
    Ok(())
}

/// A symbol that cannot be probed has its errno, and leaves no probe.
pub(super) fn symbols(_: &Ctx) -> Result<()> {
    let before = kernel_probes()?;
    let mut log = Kmsg::from_now()?;
    check_symbols()?;
    let after = kernel_probes()?;
    ensure!(before == after, "{before:?}, then {after:?}");
    let mut warnings = log.records()?;
    warnings.retain(|record| record.text.contains("Could not probe notrace function"));
    set_judged(&warnings);
    Ok(())
}

fn check_paths() -> Result<()> {
    let guard = GuardedPage::new()?;
    let dir = tempfile::tempdir()?;
    let name = |name: &str| c_path(&dir.path().join(name));
    let (fifo, link, looping, small) =
        (name("fifo")?, name("link")?, name("loop")?, name("small")?);
    let (own, offset) = own_place(probed())?;
    mkfifo(fifo.as_c_str(), Mode::S_IRWXU)?;
    symlink(own.to_str()?, dir.path().join("link"))?;
    symlink("loop", dir.path().join("loop"))?;
    fs::write(dir.path().join("small"), "1234")?;
    let directory = c_path(dir.path())?;
    let longest = CString::new([b'x'; PATH_MAX - 1])?;
    let slashes = CString::new([b'/'; PATH_MAX - 1])?;
    let too_long = CString::new([b'x'; PATH_MAX])?;

    let text = |name: &[u8]| Probe::new(Kind::Program, guard.put(name), offset);
    let at = |address| Probe::new(Kind::Program, address, 0);
    let path = |path| Probe::path(path, 0);
    let odd = Probe {
        ref_ctr_offset: 1,
        ..Probe::path(&own, offset)
    };
    check(&[
        ("no path", at(0), libc::EINVAL),
        ("empty path", path(c""), libc::EINVAL),
        ("path at 1", at(1), libc::EFAULT),
        ("path in the kernel", at(u64::MAX - 4095), libc::EFAULT),
        ("not there", path(c"/none"), libc::ENOENT),
        ("below a file", path(c"/etc/passwd/x"), libc::ENOTDIR),
        ("long name", path(&longest), libc::ENAMETOOLONG),
        ("long path", path(&slashes), libc::EINVAL),
        ("too long", path(&too_long), libc::E2BIG),
        ("directory", path(&directory), libc::EINVAL),
        ("device", path(c"/dev/null"), libc::EINVAL),
        ("fifo", path(&fifo), libc::EINVAL),
        ("links in a loop", path(&looping), libc::ELOOP),
        ("of /proc", path(c"/proc/self/maps"), libc::EIO),
        ("behind its end", Probe::path(&small, 5), libc::EINVAL),
        ("at its end", Probe::path(&small, 4), OPENS),
        ("odd reference counter", odd, libc::EINVAL),
        ("by a link", Probe::path(&link, offset), OPENS),
    ])?;
    let path = own.to_bytes();
    check(&[("not terminated", text(path), libc::EFAULT)])?;
    let path = own.to_bytes_with_nul();
    check(&[("at the end of a page", text(path), OPENS)])
}

/// A path that cannot be probed has its errno, and leaves no breakpoint.
pub(super) fn paths(_: &Ctx) -> Result<()> {
    let before = first_byte();
    check_paths()?;
    ensure!(first_byte() == before, "a breakpoint is left");
    Ok(())
}

/// A file descriptor that cannot be probed has its errno.
pub(super) fn descriptors(_: &Ctx) -> Result<()> {
    let by = |fd| Probe::new(Kind::Descriptor, fd, 0);
    let directory = fs::File::open("/etc")?;
    let (reading, _writing) = pipe()?;
    check(&[
        ("not open", by(NO_FD), libc::EBADF),
        ("-1", by(u64::MAX), libc::EBADF),
        ("more than 32 bits", by(1 << 32), libc::EBADF),
        ("directory", by(directory.as_raw_fd() as u64), libc::EINVAL),
        ("pipe", by(reading.as_raw_fd() as u64), libc::EINVAL),
    ])
}

/// What no field has, and fields of other kinds, are refused. The in-tree PMUs ignore
/// them.
pub(super) fn reserved_bits(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    let kernel = Probe::symbol(SYSTEM_CALL, 0);
    let program = Probe::path(&path, offset);
    for (what, probe) in [("kernel", kernel), ("program", program)] {
        for bit in 38..64 {
            let got = errno(&probe, Side::Ours, |attr| attr.config |= 1 << bit)?;
            ensure!(got == libc::EINVAL, "{what}, bit {bit}: errno {got}");
        }
        let got = errno(&probe, Side::Ours, |attr| attr.config3 = 1)?;
        ensure!(got == libc::EINVAL, "{what}, config3: errno {got}");
    }
    for bit in 0..32 {
        let got = errno(&kernel, Side::Ours, |attr| attr.config |= 1 << bit)?;
        ensure!(got == libc::EINVAL, "kernel, bit {bit}: errno {got}");
    }
    // A function has at most six arguments in registers, and its return has none.
    for probe in [kernel, program] {
        for probe in [probe.with_args(7), probe.of_return().with_args(1)] {
            let got = errno(&probe, Side::Ours, |_| {})?;
            ensure!(got == libc::EINVAL, "{probe:x?}: errno {got}");
        }
    }
    // A trace point has no return.
    let pmu = Pmu::find(RUST_TRACE)?;
    let point = pmu.encode("point=0x1,ret=0x1")?;
    let error = pmu.raw(point).build().err().context("opened")?;
    ensure!(error.raw_os_error() == Some(libc::EINVAL), "{error}");
    Ok(())
}

/// A user without privileges has no probes at all, and hears nothing of symbols and files.
pub(super) fn unprivileged(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    let _user = Unprivileged::new()?;
    let probes = [
        Probe::symbol(SYSTEM_CALL, 0),
        Probe::symbol(c"no_such_symbol", 0),
        Probe::address(1),
        Probe::new(Kind::Kernel, 1, 0),
        Probe::path(&path, offset),
        Probe::path(c"/root/none", 0),
        Probe::new(Kind::Program, 0, 0),
        Probe::new(Kind::Descriptor, 0, 0),
        Probe::new(Kind::Descriptor, NO_FD, 0),
    ];
    let changes: [Change; 3] = [
        |_| {},
        |attr| {
            attr.sample_type = u64::from(PERF_SAMPLE_RAW);
            attr.__bindgen_anon_1.sample_period = 1;
        },
        |attr| {
            attr.sample_type = u64::from(PERF_SAMPLE_BRANCH_STACK);
            attr.branch_sample_type = u64::from(PERF_SAMPLE_BRANCH_ANY);
        },
    ];
    for probe in probes.iter().flat_map(|probe| [*probe, probe.of_return()]) {
        for change in changes {
            for side in SIDES {
                if side == Side::InTree && matches!(probe.kind, Kind::Descriptor) {
                    continue;
                }
                let got = errno(&probe, side, |attr| {
                    change(attr);
                    // perf itself does not let this user see the kernel.
                    attr.set_exclude_kernel(1);
                })?;
                ensure!(got == libc::EACCES, "{probe:x?}, {side:?}: errno {got}");
            }
        }
    }
    Ok(())
}
