// SPDX-License-Identifier: GPL-2.0

//! What a suite's guest has besides its machine.

/// How QEMU runs the virtual CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Each in a thread of its own; the guest's clock is the host's.
    Threads,
    /// All in one thread, in turns.
    OneThread,
    /// In turns, and the guest's clock counts instructions.
    Icount,
}

impl Timing {
    /// QEMU's arguments for it.
    pub const fn qemu_args(self) -> &'static str {
        match self {
            Self::Threads => "",
            Self::OneThread => "-accel tcg,thread=single",
            Self::Icount => "-icount shift=0,sleep=off",
        }
    }
}

/// What happens to the whole system in a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemEvent {
    /// Nothing.
    None,
    /// The tests run in a second kernel, which the first one started by kexec.
    Kexec,
    /// The tests have the guest saved, and restored in another QEMU. Nothing is mounted by 9p then:
    /// they run from a tmpfs, without what the build root has.
    Saved,
    /// The tests suspend the system. Neither 9p nor virtio ports survive that, so the
    /// report goes to the console.
    Sleep,
}

impl SystemEvent {
    /// What the kernel's command line has for it.
    pub const fn kernel_arguments(self) -> &'static str {
        match self {
            // The report is on the console, alone. While the system suspends, devices wait for
            // their drivers. Ten seconds after boot the kernel would warn of those that wait.
            Self::Sleep => "loglevel=1 deferred_probe_timeout=0",
            Self::None | Self::Kexec | Self::Saved => "",
        }
    }
}

/// A kernel on which some suites run besides the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherKernel {
    /// Debian's of the series before the usual one.
    Older,
    /// One that checks itself, by KASAN and lockdep among others.
    Checking,
}

/// Programs of the kernel's source that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelPrograms {
    /// The selftests of perf events.
    Selftests,
    /// perf with its symbols.
    Perf,
}

/// A kernel module in C that is for tests alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TestModule {
    /// in_tree_counters.ko
    InTreeCounters,
    /// lockup.ko
    Lockup,
    /// claims.ko
    Claims,
    /// nmis.ko
    Nmis,
}

impl TestModule {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InTreeCounters => "in_tree_counters",
            Self::Lockup => "lockup",
            Self::Claims => "claims",
            Self::Nmis => "nmis",
        }
    }

    /// The folder that has its Kbuild.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::InTreeCounters => "tests/in_tree",
            Self::Lockup => "tests/lockup",
            Self::Claims => "tests/claims",
            Self::Nmis => "tests/nmis",
        }
    }
}
