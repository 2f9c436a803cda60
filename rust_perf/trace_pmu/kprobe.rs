// SPDX-License-Identifier: GPL-2.0

//! Places in the kernel's code as what events trace.

use super::{
    probes::At,
    Source, //
};
use crate::{
    bindings,
    perf::Attr,
    system::{
        kprobe::{
            Handler,
            Hit,
            Kprobe,
            Place, //
        },
        symbols::Symbols,
        user_string::UserString, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The probe of an event. It counts for a source.
pub(super) type Probe = Kprobe<Hits>;

/// Counts the hits of a probe.
pub(super) struct Hits {
    source: Arc<Source>,
    /// How many arguments a record has.
    args: usize,
}

impl Handler for Hits {
    fn hit(&self, hit: Hit<'_>) {
        let (source, address) = (&self.source, hit.address as u64);
        match hit.return_address {
            None => source.count_place(hit.preempt, hit.regs, address, self.args),
            Some(to) => source.count_return(hit.preempt, hit.regs, address, to as u64),
        }
    }
}

/// Where an event that is being opened wants its probe: `config1` is the address of a
/// symbol's name in the memory of the current task, and `config2` an offset to it. Without
/// a name, `config2` is an address of the kernel.
///
/// Fails with `EFAULT` if the name cannot be read, with `E2BIG` if it is too long, and with
/// `EINVAL` if the offset is. Task context, may sleep.
pub(super) fn place(attr: &Attr) -> Result<Place> {
    let [name, offset, ..] = attr.extended_config();
    if name != 0 {
        let name = UserString::copy(name, bindings::KSYM_NAME_LEN as usize)?;
        if !name.is_empty() {
            return Ok(Place::Symbol(name, offset.try_into()?));
        }
    }
    Ok(Place::Address(offset as usize))
}

/// Puts a probe at a place, or on the return from the function there. Task context, may
/// sleep. Fails with the errors of [`Kprobe::register`].
pub(super) fn attach(
    symbols: Symbols,
    place: Place,
    at: At,
    source: Arc<Source>,
) -> Result<Pin<KBox<Probe>>> {
    let args = at.args();
    KBox::pin_init(
        Kprobe::register(symbols, place, at.is_return(), Hits { source, args }),
        GFP_KERNEL,
    )
}
