// SPDX-License-Identifier: GPL-2.0
//! `struct perf_event_attr` as an array of bits, so that the same code can set every
//! field, and every reserved bit.

use std::fmt;

/// A field of `struct perf_event_attr`, with its name in
/// `include/uapi/linux/perf_event.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    /// Its first bit, counted from the start of the struct.
    start: usize,
    /// Its length in bits.
    pub bits: u32,
}

impl Field {
    const fn new(name: &'static str, byte: usize, bits: u32) -> Self {
        Self {
            name,
            start: 8 * byte,
            bits,
        }
    }

    /// A bit field in the 64-bit word after `read_format`.
    const fn flags(name: &'static str, bit: usize, bits: u32) -> Self {
        Self {
            name,
            start: 8 * FLAGS_BYTE + bit,
            bits,
        }
    }

    /// The highest value: all bits are set.
    pub fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Whether the field lies within the first `size` bytes of the struct.
    pub fn is_within(self, size: u64) -> bool {
        self.start as u64 + u64::from(self.bits) <= 8 * size
    }

    fn word(self) -> usize {
        self.start / 64
    }

    fn shift(self) -> usize {
        self.start % 64
    }
}

const FLAGS_BYTE: usize = 40;

macro_rules! fields {
    ($($id:ident: $new:ident($name:literal, $start:literal, $bits:literal);)*) => {
        $(pub const $id: Field = Field::$new($name, $start, $bits);)*

        /// All fields, in the order of the struct.
        pub const FIELDS: &[Field] = &[$($id),*];
    };
}

fields! {
    TYPE: new("type", 0, 32);
    SIZE: new("size", 4, 32);
    CONFIG: new("config", 8, 64);
    SAMPLE_PERIOD: new("sample_period", 16, 64);
    SAMPLE_TYPE: new("sample_type", 24, 64);
    READ_FORMAT: new("read_format", 32, 64);
    DISABLED: flags("disabled", 0, 1);
    INHERIT: flags("inherit", 1, 1);
    PINNED: flags("pinned", 2, 1);
    EXCLUSIVE: flags("exclusive", 3, 1);
    EXCLUDE_USER: flags("exclude_user", 4, 1);
    EXCLUDE_KERNEL: flags("exclude_kernel", 5, 1);
    EXCLUDE_HV: flags("exclude_hv", 6, 1);
    EXCLUDE_IDLE: flags("exclude_idle", 7, 1);
    MMAP: flags("mmap", 8, 1);
    COMM: flags("comm", 9, 1);
    FREQ: flags("freq", 10, 1);
    INHERIT_STAT: flags("inherit_stat", 11, 1);
    ENABLE_ON_EXEC: flags("enable_on_exec", 12, 1);
    TASK: flags("task", 13, 1);
    WATERMARK: flags("watermark", 14, 1);
    PRECISE_IP: flags("precise_ip", 15, 2);
    MMAP_DATA: flags("mmap_data", 17, 1);
    SAMPLE_ID_ALL: flags("sample_id_all", 18, 1);
    EXCLUDE_HOST: flags("exclude_host", 19, 1);
    EXCLUDE_GUEST: flags("exclude_guest", 20, 1);
    EXCLUDE_CALLCHAIN_KERNEL: flags("exclude_callchain_kernel", 21, 1);
    EXCLUDE_CALLCHAIN_USER: flags("exclude_callchain_user", 22, 1);
    MMAP2: flags("mmap2", 23, 1);
    COMM_EXEC: flags("comm_exec", 24, 1);
    USE_CLOCKID: flags("use_clockid", 25, 1);
    CONTEXT_SWITCH: flags("context_switch", 26, 1);
    WRITE_BACKWARD: flags("write_backward", 27, 1);
    NAMESPACES: flags("namespaces", 28, 1);
    KSYMBOL: flags("ksymbol", 29, 1);
    BPF_EVENT: flags("bpf_event", 30, 1);
    AUX_OUTPUT: flags("aux_output", 31, 1);
    CGROUP: flags("cgroup", 32, 1);
    TEXT_POKE: flags("text_poke", 33, 1);
    BUILD_ID: flags("build_id", 34, 1);
    INHERIT_THREAD: flags("inherit_thread", 35, 1);
    REMOVE_ON_EXEC: flags("remove_on_exec", 36, 1);
    SIGTRAP: flags("sigtrap", 37, 1);
    DEFER_CALLCHAIN: flags("defer_callchain", 38, 1);
    DEFER_OUTPUT: flags("defer_output", 39, 1);
    RESERVED_1: flags("__reserved_1", 40, 24);
    WAKEUP_EVENTS: new("wakeup_events", 48, 32);
    BP_TYPE: new("bp_type", 52, 32);
    CONFIG1: new("config1", 56, 64);
    CONFIG2: new("config2", 64, 64);
    BRANCH_SAMPLE_TYPE: new("branch_sample_type", 72, 64);
    SAMPLE_REGS_USER: new("sample_regs_user", 80, 64);
    SAMPLE_STACK_USER: new("sample_stack_user", 88, 32);
    CLOCKID: new("clockid", 92, 32);
    SAMPLE_REGS_INTR: new("sample_regs_intr", 96, 64);
    AUX_WATERMARK: new("aux_watermark", 104, 32);
    SAMPLE_MAX_STACK: new("sample_max_stack", 108, 16);
    RESERVED_2: new("__reserved_2", 110, 16);
    AUX_SAMPLE_SIZE: new("aux_sample_size", 112, 32);
    AUX_ACTION: new("aux_action", 116, 32);
    SIG_DATA: new("sig_data", 120, 64);
    CONFIG3: new("config3", 128, 64);
    CONFIG4: new("config4", 136, 64);
    BEYOND: new("(beyond the struct)", 144, 64);
}

/// The length in bytes of the struct, whose last field is [`CONFIG4`].
pub const LEN: u64 = 144;

/// The words of the struct, and one more.
const WORDS: usize = LEN as usize / 8 + 1;

/// A buffer longer than the kernel ever reads, which is a page.
pub type Buffer = [u64; 1024];

/// Some bits of `sample_type`, `read_format` and `branch_sample_type`.
pub mod bits {
    pub const SAMPLE_IP: u64 = 1 << 0;
    pub const SAMPLE_TID: u64 = 1 << 1;
    pub const SAMPLE_READ: u64 = 1 << 4;
    pub const SAMPLE_CALLCHAIN: u64 = 1 << 5;
    pub const SAMPLE_BRANCH_STACK: u64 = 1 << 11;
    pub const SAMPLE_REGS_USER: u64 = 1 << 12;
    pub const SAMPLE_STACK_USER: u64 = 1 << 13;
    pub const SAMPLE_WEIGHT: u64 = 1 << 14;
    pub const SAMPLE_REGS_INTR: u64 = 1 << 18;
    pub const SAMPLE_PHYS_ADDR: u64 = 1 << 19;
    pub const SAMPLE_AUX: u64 = 1 << 20;
    pub const SAMPLE_WEIGHT_STRUCT: u64 = 1 << 24;

    pub const FORMAT_GROUP: u64 = 1 << 3;

    pub const BRANCH_USER: u64 = 1 << 0;
    pub const BRANCH_KERNEL: u64 = 1 << 1;
    pub const BRANCH_ANY: u64 = 1 << 3;
    pub const BRANCH_ANY_CALL: u64 = 1 << 4;
    pub const BRANCH_ANY_RETURN: u64 = 1 << 5;
    pub const BRANCH_COND: u64 = 1 << 10;
    pub const BRANCH_HW_INDEX: u64 = 1 << 17;
    pub const BRANCH_CALL_STACK: u64 = 1 << 11;
    pub const BRANCH_COUNTERS: u64 = 1 << 19;
}

/// A `struct perf_event_attr`, and the 8 bytes after it.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Attr([u64; WORDS]);

impl Attr {
    /// The value of a field.
    pub fn get(&self, field: Field) -> u64 {
        (self.0[field.word()] >> field.shift()) & field.max()
    }

    /// Whether a field is not 0.
    pub fn has(&self, field: Field) -> bool {
        self.get(field) != 0
    }

    /// Sets a field to `value`, truncated to the field's length.
    pub fn set(&mut self, field: Field, value: u64) {
        let mask = field.max() << field.shift();
        let word = &mut self.0[field.word()];
        *word = (*word & !mask) | ((value << field.shift()) & mask);
    }

    /// Sets more bits of a field.
    pub fn add(&mut self, field: Field, bits: u64) {
        self.set(field, self.get(field) | bits);
    }

    /// Copies the attr into a zeroed buffer for the kernel.
    pub fn to_buffer(self) -> Box<Buffer> {
        let mut buffer = Box::new([0; 1024]);
        buffer[..WORDS].copy_from_slice(&self.0);
        buffer
    }
}

/// Lists the fields that are not 0, as `name=0x…`.
impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for field in FIELDS {
            let value = self.get(*field);
            if value != 0 {
                write!(f, "{separator}{}={value:#x}", field.name)?;
                separator = " ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use perf_event_open_sys::bindings::perf_event_attr;

    use super::*;

    #[test]
    fn fields_follow_one_another() {
        let mut end = 0;
        for field in FIELDS {
            assert_eq!(field.start, end, "{}", field.name);
            end += field.bits as usize;
        }
        assert_eq!(end, 64 * WORDS);
        assert_eq!(BEYOND.start, 8 * LEN as usize);
    }

    #[test]
    fn offsets_match_the_header() {
        for (field, offset) in [
            (CONFIG, offset_of!(perf_event_attr, config)),
            (SAMPLE_TYPE, offset_of!(perf_event_attr, sample_type)),
            (READ_FORMAT, offset_of!(perf_event_attr, read_format)),
            (DISABLED, offset_of!(perf_event_attr, _bitfield_1)),
            (BP_TYPE, offset_of!(perf_event_attr, bp_type)),
            (
                BRANCH_SAMPLE_TYPE,
                offset_of!(perf_event_attr, branch_sample_type),
            ),
            (
                SAMPLE_REGS_USER,
                offset_of!(perf_event_attr, sample_regs_user),
            ),
            (CLOCKID, offset_of!(perf_event_attr, clockid)),
            (
                SAMPLE_REGS_INTR,
                offset_of!(perf_event_attr, sample_regs_intr),
            ),
            (AUX_WATERMARK, offset_of!(perf_event_attr, aux_watermark)),
            (
                SAMPLE_MAX_STACK,
                offset_of!(perf_event_attr, sample_max_stack),
            ),
            (
                AUX_SAMPLE_SIZE,
                offset_of!(perf_event_attr, aux_sample_size),
            ),
            (SIG_DATA, offset_of!(perf_event_attr, sig_data)),
            (CONFIG3, offset_of!(perf_event_attr, config3)),
        ] {
            assert_eq!(field.start, 8 * offset, "{}", field.name);
        }
    }

    #[test]
    fn flags_match_the_header() {
        type Get = fn(&perf_event_attr) -> u64;
        let flags: [(Field, Get); 10] = [
            (DISABLED, perf_event_attr::disabled),
            (EXCLUDE_KERNEL, perf_event_attr::exclude_kernel),
            (FREQ, perf_event_attr::freq),
            (PRECISE_IP, perf_event_attr::precise_ip),
            (EXCLUDE_HOST, perf_event_attr::exclude_host),
            (USE_CLOCKID, perf_event_attr::use_clockid),
            (AUX_OUTPUT, perf_event_attr::aux_output),
            (INHERIT_THREAD, perf_event_attr::inherit_thread),
            (REMOVE_ON_EXEC, perf_event_attr::remove_on_exec),
            (SIGTRAP, perf_event_attr::sigtrap),
        ];
        for (field, get) in flags {
            let mut attr = Attr::default();
            attr.set(field, u64::MAX);
            let mut theirs = perf_event_attr::default();
            theirs._bitfield_1.set(0, 64, attr.0[FLAGS_BYTE / 8]);
            assert_eq!(get(&theirs), field.max(), "{}", field.name);
            assert_eq!(attr.0[FLAGS_BYTE / 8].count_ones(), field.bits);
        }
    }

    #[test]
    fn set_changes_one_field_only() {
        let mut attr = Attr::default();
        attr.set(SAMPLE_MAX_STACK, u64::MAX);
        attr.add(DISABLED, 1);
        attr.set(CONFIG, 0xc0);
        assert_eq!(attr.get(RESERVED_2), 0);
        assert_eq!(attr.get(AUX_WATERMARK), 0);
        assert_eq!(
            attr.to_string(),
            "config=0xc0 disabled=0x1 sample_max_stack=0xffff"
        );
        attr.set(SAMPLE_MAX_STACK, 0);
        assert!(!attr.has(SAMPLE_MAX_STACK));
    }
}
