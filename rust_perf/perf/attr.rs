// SPDX-License-Identifier: GPL-2.0

//! What the user of an event asked for.

use crate::bindings;
use core::ptr::addr_of_mut;
use kernel::types::Opaque;

/// Selects an event of a PMU.
#[derive(Clone, Copy)]
pub enum Selector {
    /// An event of the PMU's own. The PMU defines the numbers.
    Config(u64),
    /// A generic hardware event, `PERF_COUNT_HW_*`.
    Hardware(u64),
    /// A generic cache event, `PERF_COUNT_HW_CACHE_*`: cache, operation and result,
    /// one byte each.
    HwCache(u64),
}

/// What the user of an event asked for (`struct perf_event_attr`).
///
/// # Invariants
///
/// Initialised. Of the fields that are read here, perf changes only the sample
/// period or frequency while the event is open, and that as one word.
#[repr(transparent)]
pub struct Attr(Opaque<bindings::perf_event_attr>);

/// Reads a field of an [`Attr`].
macro_rules! field {
    ($attr:expr, $($field:ident).+) => {
        // SAFETY: The structure is initialised by the invariant of `Attr`. The field is an integer,
        // for which every value is valid, whatever unions it is in.
        unsafe { addr_of_mut!((*$attr.0.get()).$($field).+).read_volatile() }
    };
}

impl Attr {
    /// The type of the event: the number of a PMU, or `PERF_TYPE_*`.
    pub(super) fn event_type(&self) -> u32 {
        field!(self, type_)
    }

    /// The number of the event, if it is one of the PMU's own. Cheaper than
    /// [`Self::selector`].
    pub fn config(&self) -> u64 {
        field!(self, config)
    }

    /// The event that is selected.
    pub fn selector(&self) -> Selector {
        let config = field!(self, config);
        match self.event_type() {
            bindings::perf_type_id_PERF_TYPE_HARDWARE => Selector::Hardware(config),
            bindings::perf_type_id_PERF_TYPE_HW_CACHE => Selector::HwCache(config),
            _ => Selector::Config(config),
        }
    }

    /// `config1`, `config2`, `config3` and `config4`.
    pub fn extended_config(&self) -> [u64; 4] {
        [
            field!(self, __bindgen_anon_3.config1),
            field!(self, __bindgen_anon_4.config2),
            field!(self, config3),
            field!(self, config4),
        ]
    }

    /// Whether `config1`, `config2`, `config3` or `config4` is set.
    pub fn has_extended_config(&self) -> bool {
        self.extended_config() != [0; 4]
    }

    /// Whether new tasks inherit the event from the one that it is bound to.
    pub fn is_inherited(&self) -> bool {
        self.flags().inherit() != 0
    }

    /// Whether the event is enabled when its task executes a program.
    pub fn is_enabled_on_exec(&self) -> bool {
        self.flags().enable_on_exec() != 0
    }

    /// The registers that samples contain if their type includes registers, by the bits of
    /// `asm/perf_regs.h`.
    pub fn sampled_registers(&self) -> u64 {
        field!(self, sample_regs_user) | field!(self, sample_regs_intr)
    }

    /// Whether samples contain the raw record of what they are of (`PERF_SAMPLE_RAW`).
    pub fn wants_raw(&self) -> bool {
        self.sample_type() & u64::from(bindings::perf_event_sample_format_PERF_SAMPLE_RAW) != 0
    }

    /// Whether samples contain where the data came from (`PERF_SAMPLE_DATA_SRC`).
    pub fn wants_data_source(&self) -> bool {
        let data_source = bindings::perf_event_sample_format_PERF_SAMPLE_DATA_SRC;
        self.sample_type() & u64::from(data_source) != 0
    }

    /// Whether samples contain the user part of the call chain, or of the stack, so that
    /// taking one reads user memory.
    pub fn wants_user_stack(&self) -> bool {
        let has = |bit: u32| self.sample_type() & u64::from(bit) != 0;
        has(bindings::perf_event_sample_format_PERF_SAMPLE_STACK_USER)
            || has(bindings::perf_event_sample_format_PERF_SAMPLE_CALLCHAIN)
                && self.flags().exclude_callchain_user() == 0
    }

    fn sample_type(&self) -> u64 {
        field!(self, sample_type)
    }

    /// Whether samples send a signal to the task.
    pub fn sends_signals(&self) -> bool {
        self.flags().sigtrap() != 0
    }

    /// The flags, a word of bits.
    fn flags(&self) -> bindings::perf_event_attr {
        bindings::perf_event_attr {
            _bitfield_1: field!(self, _bitfield_1),
            ..Default::default()
        }
    }

    /// Whether user mode is excluded.
    pub fn exclude_user(&self) -> bool {
        self.flags().exclude_user() != 0
    }

    /// Whether kernel mode is excluded.
    pub fn exclude_kernel(&self) -> bool {
        self.flags().exclude_kernel() != 0
    }

    /// Whether the host is excluded, so that only guests of this machine are counted.
    pub fn exclude_host(&self) -> bool {
        self.flags().exclude_host() != 0
    }

    /// Whether guests of this machine are excluded.
    pub fn exclude_guest(&self) -> bool {
        self.flags().exclude_guest() != 0
    }

    /// How much skid a sample may have, from 0 (any) to 3 (none).
    pub fn precise_ip(&self) -> u64 {
        self.flags().precise_ip()
    }

    /// Whether the event is sampled at a frequency ([`Self::sample_freq`]), rather than at
    /// a period ([`Self::sample_period`]).
    pub fn is_frequency(&self) -> bool {
        self.flags().freq() != 0
    }

    /// The number of events per sample, unless [`Self::is_frequency`]. 0 if the event
    /// takes no samples.
    pub fn sample_period(&self) -> u64 {
        field!(self, __bindgen_anon_1.sample_period)
    }

    /// The number of samples per second, if [`Self::is_frequency`]. 0 if the event takes
    /// no samples.
    pub fn sample_freq(&self) -> u64 {
        field!(self, __bindgen_anon_1.sample_freq)
    }

    /// Whether the idle task is excluded.
    pub fn exclude_idle(&self) -> bool {
        self.flags().exclude_idle() != 0
    }

    /// Whether samples contain a branch stack (`PERF_SAMPLE_BRANCH_STACK`).
    pub fn samples_branch_stack(&self) -> bool {
        let branch_stack = bindings::perf_event_sample_format_PERF_SAMPLE_BRANCH_STACK;
        self.sample_type() & u64::from(branch_stack) != 0
    }

    /// Which branches are asked for (`PERF_SAMPLE_BRANCH_*`), the privilege levels among it. 0 unless
    /// samples contain a branch stack.
    pub fn branch_sample_type(&self) -> u64 {
        field!(self, branch_sample_type)
    }

    /// Whether samples contain the values of events (`PERF_SAMPLE_READ`).
    pub fn wants_values(&self) -> bool {
        self.sample_type() & u64::from(bindings::perf_event_sample_format_PERF_SAMPLE_READ) != 0
    }
}
