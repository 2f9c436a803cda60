// SPDX-License-Identifier: GPL-2.0

//! The PMU's folders in sysfs.

use super::{
    attr::{
        name_bit,
        probe_bit,
        PROBES, //
    },
    names::{
        NAMED,
        SOFTWARE, //
    }, //
};
use crate::{
    perf::{
        AttributeGroups,
        File, //
    },
    system::tracepoint::{
        for_each_number,
        number_of, //
    }, //
};
use kernel::prelude::*;

/// The folders, with the events that this kernel has. Task context, may sleep.
pub(super) fn attribute_groups() -> Result<AttributeGroups> {
    let mut format = KVec::new();
    for (name, bits) in [
        (c"point", "config:0-31"),
        (c"kind", "config:32-33"),
        (c"ret", "config:34"),
        // Of probes: see `kprobe.rs` and `uprobe.rs`.
        (c"args", "config:35-37"),
        (c"ref_ctr_offset", "config:0-31"),
        (c"symbol", "config1:0-63"),
        (c"path", "config1:0-63"),
        (c"fd", "config1:0-63"),
        (c"address", "config2:0-63"),
        (c"offset", "config2:0-63"),
    ] {
        format.push(File::new(name, fmt!("{bits}"))?, GFP_KERNEL)?;
    }

    // A bit for each name.
    const _: () = assert!(NAMED.len() <= 64);
    let mut present: u64 = 0;
    for_each_number(|number| {
        for (i, name) in NAMED.iter().enumerate() {
            present |= u64::from(number_of(name.to_bytes()) == number) << i;
        }
    })?;
    let mut events = KVec::new();
    for (i, name) in NAMED.iter().enumerate() {
        if present & (1 << i) != 0 {
            let number = number_of(name.to_bytes());
            events.push(File::new(name, fmt!("point={number:#010x}"))?, GFP_KERNEL)?;
        }
    }
    // perf opens an event without a PMU on each PMU that has a file of this name in `events/`. Its
    // own are to be the only ones. `rust_trace/page-faults/` is a field.
    for (i, (name, number)) in SOFTWARE.iter().enumerate() {
        let event = File::prefixed("sw-", name, fmt!("point={number:#010x}"))?;
        events.push(event, GFP_KERNEL)?;
        format.push(File::new(name, fmt!("config:{}", name_bit(i)))?, GFP_KERNEL)?;
    }
    // A probe is an event only with its place. A file in `events/` would need `address=?` for that, which
    // only perf understands. `rust_trace/kprobe,address=0x…/` has two fields.
    for (i, (name, _)) in PROBES.iter().enumerate() {
        format.push(
            File::new(name, fmt!("config:{}", probe_bit(i)))?,
            GFP_KERNEL,
        )?;
    }
    AttributeGroups::new([(c"format", format), (c"events", events)])
}
