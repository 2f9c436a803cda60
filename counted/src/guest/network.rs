// SPDX-License-Identifier: GPL-2.0

//! The network of the guest: it can talk to itself.

use anyhow::{Context as _, Result};
use nix::libc::{c_short, ifreq, IFF_UP, SIOCSIFFLAGS};
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType};
use std::os::fd::AsRawFd as _;

nix::ioctl_write_ptr_bad!(set_flags, SIOCSIFFLAGS, ifreq);

/// Brings the interface `lo` up.
pub fn loopback() -> Result<()> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: a structure of integers and of unions of them may be all zeros.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from as _;
    }
    request.ifr_ifru.ifru_flags = IFF_UP as c_short;
    // SAFETY: the descriptor is open, and the request is valid during the call.
    unsafe { set_flags(socket.as_raw_fd(), &request) }.context("the interface lo")?;
    Ok(())
}
