// SPDX-License-Identifier: GPL-2.0
//! What a worker can do. An operation names events by the slot that they are in, and makes sense
//! whatever is in there: so any part of a sequence is a sequence.

use std::fmt;

use crate::tests::compare::attr::Attr;

/// The events that a worker has open at a time.
pub const SLOTS: u8 = 12;
/// The cgroups that workers move between.
pub const CGROUPS: u8 = 3;

/// Whose event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The worker's, on any CPU.
    Own,
    /// The worker's, on one of the CPUs.
    OwnOn(u8),
    /// That of another worker. It may have ended.
    Worker(u8),
    /// That of the child that was forked last.
    Child,
    /// Of a CPU.
    Cpu(u8),
    /// Of a cgroup, on a CPU.
    Cgroup(u8, u8),
}

/// A call of perf_event_open().
#[derive(Clone, Copy, PartialEq)]
pub struct Open {
    pub slot: u8,
    /// Its place in `World::events`.
    pub event: usize,
    /// The attributes without those that say which event.
    pub attr: Attr,
    /// Changes to `config`: 0 if the event is to be that of `event`.
    pub garbage: u64,
    pub target: Target,
    /// The slot of the leader, if there is one.
    pub leader: Option<u8>,
    pub flags: u64,
    /// Whether this must succeed while nothing is offline or has ended.
    pub sure: bool,
}

/// An ioctl of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Enable,
    Disable,
    Reset,
    Refresh(u32),
    Period(u64),
    SetOutput(Option<u8>),
    PauseOutput(bool),
    Id,
    QueryBpf,
    SetBpf,
    SetFilter,
}

/// What a child does before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Childhood {
    /// It runs a loop.
    Loop(u32),
    /// It reads and closes the events that it has from its parent, the first of these slots first.
    Close(u8),
    /// It forks a child that runs a loop, and does not wait for it.
    Fork(u32),
    /// It enters new namespaces.
    Unshare(i32),
    /// It sleeps until it is killed.
    Killed,
    /// It executes a program.
    Exec,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Open(Open),
    Close(u8),
    Ioctl {
        slot: u8,
        request: Request,
        group: bool,
    },
    Read {
        slot: u8,
        len: usize,
    },
    /// Enables an event or group, runs a loop and disables it, with a known number of instructions.
    Measure {
        slot: u8,
        rounds: u32,
    },
    Map {
        slot: u8,
        order: u8,
        write: bool,
    },
    Unmap(u8),
    /// Reads the ring buffer.
    Drain(u8),
    Rdpmc(u8),
    Loop(u32),
    /// Calls what has probes.
    Probed(u32),
    SystemCalls(u32),
    PageFaults(u8),
    Fork(Childhood),
    /// Waits for the oldest child.
    Reap,
    /// Counts a program from exec to exit.
    CountProgram {
        event: usize,
        inherit: bool,
    },
    Thread(u32),
    Migrate(u8),
    MoveToCgroup(u8),
    Unshare(i32),
    Prctl(bool),
    ReadFile(usize),
    MuxInterval {
        pmu: usize,
        ms: u8,
    },
    RdpmcSetting(u8),
    Hotplug {
        cpu: u8,
        online: bool,
    },
    /// Tries to unload the module while it is in use.
    Unload,
    Suspend,
}

macro_rules! kinds {
    ($($kind:ident),* $(,)?) => {
        /// The kind of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($kind),*
        }

        impl Kind {
            /// All kinds, in order.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind)),*
                }
            }
        }

        impl Op {
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind { .. } => Kind::$kind),*
                }
            }
        }
    };
}

kinds! {
    Open, Close, Ioctl, Read, Measure, Map, Unmap, Drain, Rdpmc, Loop, Probed, SystemCalls,
    PageFaults, Fork, Reap, CountProgram, Thread, Migrate, MoveToCgroup, Unshare, Prctl, ReadFile,
    MuxInterval, RdpmcSetting, Hotplug, Unload, Suspend,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "slot {}, event {}, {:?}, {}",
            self.slot, self.event, self.target, self.attr
        )?;
        if let Some(leader) = self.leader {
            write!(f, ", leader in slot {leader}")?;
        }
        if self.garbage != 0 {
            write!(f, ", config ^= {:#x}", self.garbage)?;
        }
        if self.flags != 0 {
            write!(f, ", flags {:#x}", self.flags)?;
        }
        if self.sure {
            f.write_str(", must succeed")?;
        }
        Ok(())
    }
}
