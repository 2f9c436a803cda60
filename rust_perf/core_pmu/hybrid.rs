// SPDX-License-Identifier: GPL-2.0

//! The PMUs of a hybrid CPU, one for each type of core.
//!
//! Each has its own [`CorePmu`](super::CorePmu), with the capabilities of its type. perf puts
//! the events of a PMU on the CPUs of its [`Part`] only, so all other code is the same as on a
//! CPU whose cores are alike. perf calls [`Pmu::enable`](crate::perf::Pmu::enable) and `disable`
//! on CPUs of other types, too. There they write no register, because no counter has an event,
//! is dirty or is running.

use super::{
    place::{
        Naming,
        Place, //
    },
    Handler, //
};
use crate::{
    perf::OnlyOn,
    pmc::CoreType,
    system::{
        cpumask::CpuMask,
        irq::{
            Interrupt,
            IrqsDisabled, //
        }, //
    },
    x86::{
        self,
        nmi,
        Hardware,
        Refused, //
    }, //
};
use kernel::{
    pr_warn_once,
    prelude::*,
    sync::Arc, //
};

/// The part of a hybrid CPU that a PMU is for.
pub(crate) struct Part {
    core_type: CoreType,
    /// The CPUs that were of this type when they were last online.
    pub(super) cpus: Arc<CpuMask>,
    /// The CPUs of all types that have been online, if perf does not treat the PMU as that of a type of
    /// core: with `-a` perf then opens an event on each of these CPUs. A CPU is added when it is known
    /// whether it is among `cpus`, so that no event is opened on it before.
    all_cpus: Option<Arc<CpuMask>>,
    /// Whether this PMU is the one that reports a CPU that no PMU is for.
    reports: bool,
    /// The types that there is a PMU for, or that a message says why not, in the order of
    /// [`CoreType::ALL`].
    known: [bool; CoreType::ALL.len()],
}

impl Part {
    /// The part that `hardware` is of; `all` is the hardware of all PMUs, and there is none for
    /// the types that are `refused`. `None` if the CPU is not hybrid. Task context, may sleep.
    pub(super) fn of(
        hardware: &Hardware,
        all: &[Hardware],
        refused: &Refused,
        naming: Naming,
    ) -> Result<Option<Self>> {
        let Some(core_type) = hardware.core_type else {
            return Ok(None);
        };
        let is_known = |it| {
            let is_refused = refused.get(it as usize).is_some_and(Option::is_some);
            is_refused || all.iter().any(|hardware| hardware.core_type == Some(it))
        };
        let all_cpus = match naming.is_of_core() {
            true => None,
            false => Some(Arc::new(CpuMask::new()?, GFP_KERNEL)?),
        };
        let first = all.first().and_then(|hardware| hardware.core_type);
        Ok(Some(Part {
            core_type,
            cpus: Arc::new(CpuMask::new()?, GFP_KERNEL)?,
            all_cpus,
            reports: first == Some(core_type),
            known: CoreType::ALL.map(is_known),
        }))
    }

    /// The CPUs that perf may put events on, and those whose events can be opened.
    pub(super) fn only_on(&self) -> OnlyOn {
        OnlyOn {
            cpus: self.cpus.clone(),
            opens_on: self.all_cpus.as_ref().unwrap_or(&self.cpus).clone(),
        }
    }

    /// Adds the CPU that the code runs on to the PMU's CPUs if it is a member, and in any case to
    /// those whose events can be opened.
    fn add_this_cpu(&self, irqs: IrqsDisabled<'_>, member: bool) {
        self.cpus.assign_this_cpu(irqs, member);
        if let Some(all) = &self.all_cpus {
            all.assign_this_cpu(irqs, true);
        }
    }

    /// Whether the CPU that the code runs on is of this type.
    pub(super) fn has_this_cpu(&self, irqs: IrqsDisabled<'_>) -> bool {
        x86::core_type(irqs) == Some(self.core_type)
    }

    fn knows(&self, core_type: Option<CoreType>) -> bool {
        let known = core_type.and_then(|it| self.known.get(it as usize));
        known.copied().unwrap_or(false)
    }
}

/// Says which types of cores have no PMU, and why.
pub(super) fn report(refused: &Refused, place: Place) {
    for (core_type, why) in CoreType::ALL.into_iter().zip(refused) {
        if let Some(why) = why {
            let name = place.name(Some(core_type));
            pr_warn!(
                "no PMU for a type of core: {}; {} is not registered\n",
                why,
                name
            );
        }
    }
}

impl Handler {
    /// On a hybrid CPU, finds out whether the PMU is for this CPU.
    pub(super) fn assign_this_cpu(&self, irqs: IrqsDisabled<'_>) {
        let Some(part) = &self.driver().part else {
            return;
        };
        let core_type = x86::core_type(irqs);
        if part.reports && !part.knows(core_type) {
            pr_warn_once!(
                "a core is of a type that the driver does not know, or that was not online when \
                 the module was loaded: no PMU counts there; load the module again\n"
            );
        }
        let member = core_type == Some(part.core_type);
        let on = self.0.cpus().this(irqs);
        // The NMI handler comes first: perf may put events on the CPU right after this.
        on.state().of_type.set(member);
        part.add_this_cpu(irqs, member);
    }
}

/// The drivers of all types of cores, as one handler of NMIs.
pub(super) struct Handlers(KVec<Handler>);

impl Handlers {
    pub(super) fn new(handlers: KVec<Handler>) -> Self {
        Handlers(handlers)
    }

    /// The handler of the PMU for the interrupted CPU, if there is one.
    fn here(&self, interrupt: &Interrupt<'_>) -> Option<&Handler> {
        self.0.iter().find(|handler| {
            let on = handler.0.cpus().this(interrupt.irqs_disabled());
            on.state().of_type.get()
        })
    }
}

impl nmi::Handler for Handlers {
    fn handle(&self, interrupt: &Interrupt<'_>) -> nmi::Return {
        match self.here(interrupt) {
            Some(handler) => handler.handle(interrupt),
            None => nmi::Return::None,
        }
    }

    fn handle_unknown(&self, interrupt: &Interrupt<'_>) -> nmi::Return {
        match self.here(interrupt) {
            Some(handler) => handler.handle_unknown(interrupt),
            None => nmi::Return::None,
        }
    }
}
