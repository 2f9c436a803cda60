// SPDX-License-Identifier: GPL-2.0

//! The trait of a PMU driver, and its parameters.

use super::{
    cpu_event::AddedEvent,
    table::EventSet,
    task_data::RawTaskCache,
    CpuEvent,
    Event,
    NewEvent,
    OnCpu,
    PerCpu,
    SwitchedTask, //
};
use crate::{
    bindings,
    system::cpumask::CpuMask, //
};
use kernel::{
    error::VTABLE_DEFAULT_ERROR,
    ffi::c_int,
    mm::Mm,
    prelude::*,
    sync::Arc,
    types::ForeignOwnable, //
};

/// Which of perf's contexts the events of a PMU belong to
/// (`enum perf_event_task_context`).
#[derive(Clone, Copy)]
pub struct TaskContext(c_int);

impl TaskContext {
    /// The events of a CPU's core counters. They are rotated if they do not fit.
    pub const HARDWARE: Self = TaskContext(bindings::perf_event_task_context_perf_hw_context);
    /// Events that can always be counted.
    pub const SOFTWARE: Self = TaskContext(bindings::perf_event_task_context_perf_sw_context);
    /// The PMU counts for CPUs only, never for tasks.
    pub const NONE: Self = TaskContext(bindings::perf_event_task_context_perf_invalid_context);

    pub(super) const fn into_raw(self) -> c_int {
        self.0
    }

    /// Whether perf locks the context of a group's leader while it opens an event.
    pub(super) const fn locks_group(self) -> bool {
        self.0 != Self::SOFTWARE.0
    }
}

/// What a PMU can do and cannot do (`PERF_PMU_CAP_*`).
#[derive(Clone, Copy)]
pub struct Capabilities(u32);

impl Capabilities {
    /// None.
    pub const NONE: Self = Capabilities(0);
    /// The PMU raises no interrupts, so that its events cannot take samples.
    pub const NO_INTERRUPT: Self = Capabilities(bindings::PERF_PMU_CAP_NO_INTERRUPT);
    /// The PMU's events never overflow in an NMI, so that users may choose time stamps of
    /// any clock (`use_clockid`).
    pub const NO_NMI: Self = Capabilities(bindings::PERF_PMU_CAP_NO_NMI);
    /// The PMU cannot exclude any privilege level.
    pub const NO_EXCLUDE: Self = Capabilities(bindings::PERF_PMU_CAP_NO_EXCLUDE);
    /// KVM may hand the PMU's hardware to a guest (mediated vPMU). perf takes the
    /// events off the CPU meanwhile, or refuses one of the two.
    pub const MEDIATED_VPMU: Self = Capabilities(bindings::PERF_PMU_CAP_MEDIATED_VPMU);

    pub(super) const fn into_raw(self) -> c_int {
        self.0 as c_int
    }

    /// These and `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Capabilities(self.0 | other.0)
    }
}

/// Whether a PMU takes perf's generic events (`PERF_TYPE_HARDWARE` and `PERF_TYPE_HW_CACHE`) besides
/// those of its own type.
///
/// perf offers a PMU generic events that have its number in the upper half of `config`. It masks the
/// number before [`Pmu::event_init`]. It also offers every PMU the generic events that no PMU has
/// taken. So a PMU that takes them cannot tell which one the user meant.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum GenericEvents {
    /// It refuses them with `ENOENT`.
    #[default]
    Refused,
    /// It takes them, as the PMU of a type of core (`PERF_PMU_CAP_EXTENDED_HW_TYPE`).
    Taken,
}

impl GenericEvents {
    /// The capability that tells perf.
    pub(super) const fn capability(self) -> Capabilities {
        match self {
            Self::Refused => Capabilities::NONE,
            Self::Taken => Capabilities(bindings::PERF_PMU_CAP_EXTENDED_HW_TYPE),
        }
    }
}

/// The number of a PMU, which is `type` in the attributes of its events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PmuType {
    /// One that perf chooses.
    Dynamic,
    /// `PERF_TYPE_RAW`: the CPU's core PMU. perf passes it raw events, and it is the first that perf
    /// asks for generic ones.
    Raw,
}

impl PmuType {
    pub(super) const fn into_raw(self) -> c_int {
        match self {
            Self::Dynamic => -1,
            Self::Raw => bindings::perf_type_id_PERF_TYPE_RAW as c_int,
        }
    }
}

/// A PMU driver. For the contexts of the callbacks see [the module](super).
#[vtable]
pub trait Pmu: Send + Sync + Sized + 'static {
    /// Which of perf's contexts the events belong to.
    const TASK_CONTEXT: TaskContext;

    /// What the PMU can do.
    const CAPABILITIES: Capabilities = Capabilities::NONE;

    /// What the driver keeps with each event: [`Word`](super::Word), a box, or `()` for
    /// nothing.
    type EventData: ForeignOwnable + Send + Sync;

    /// How the driver finds the events on a CPU: an
    /// [`EventTable`](super::EventTable), or `()` if it does not need to.
    type Events: EventSet<Self>;

    /// What the driver keeps for each CPU. An NMI sees it as the code that it
    /// interrupted left it, so it should consist of single words.
    type Cpu: Default + Send + Sync + 'static;

    /// What the driver keeps for each CPU to decide where events go. NMIs do not see
    /// it.
    type Schedule: Default + Send + 'static;

    /// Checks an event that is being opened, sets it up, and returns the driver's data
    /// for it.
    ///
    /// If this succeeds, [`Self::event_destroy`] is called once. Fails with the errors
    /// of `struct pmu`. Task context, may sleep.
    fn event_init(&self, event: &NewEvent<'_, Self>) -> Result<Self::EventData>;

    /// Whether the user of a sampling event may give it this period, which is not 0.
    ///
    /// perf reports every error as `EINVAL`. Task context, may sleep, perf's context mutex
    /// held.
    fn check_period(&self, _event: &Event<Self>, _period: u64) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// An event that [`Self::event_init`] accepted is gone. Its data is dropped after
    /// this. Task context, may sleep.
    fn event_destroy(&self, _data: &Self::EventData, _cpus: &PerCpu<Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Puts an event on this CPU, and starts it if `start`. Fails with `EAGAIN` if
    /// there is no room.
    ///
    /// IRQs disabled, PMU disabled, perf's context lock held.
    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Self::Schedule,
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result;

    /// Stops an event, updates its count, and takes it off this CPU.
    ///
    /// IRQs disabled, PMU disabled, perf's context lock held.
    fn del(&self, on: &OnCpu<'_, Self>, schedule: &mut Self::Schedule, event: CpuEvent<'_, Self>);

    /// Lets this CPU's events count. IRQs disabled.
    fn enable(&self, _on: &OnCpu<'_, Self>, _schedule: &mut Self::Schedule) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// perf is about to change this CPU's events. Until it enables them again, no sample may be taken,
    /// and what they count does not matter. IRQs disabled.
    fn disable(&self, _on: &OnCpu<'_, Self>, _schedule: &mut Self::Schedule) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// A task comes to this CPU, with or without events of its own. perf calls this while an event is on
    /// the CPU that asks for it ([`NewEvent::tell_of_switches`]), when the events of the task have been
    /// added.
    ///
    /// IRQs disabled, PMU disabled, perf's context lock held.
    fn task_comes(&self, _on: &OnCpu<'_, Self>, _task: &SwitchedTask<'_>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// A task leaves this CPU. perf calls this while an event is on the CPU that asks for it, before the
    /// events of the task are deleted.
    ///
    /// IRQs disabled, PMU disabled, perf's context lock held.
    fn task_leaves(&self, _on: &OnCpu<'_, Self>, _task: &SwitchedTask<'_>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Starts an event. Its period may have changed.
    ///
    /// IRQs disabled, or in an NMI. The PMU may be enabled: perf calls this from
    /// [`CpuEvent::overflow`], and for a group that an event of another PMU throttled.
    fn start(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>);

    /// Stops an event and, if `update`, updates its count. As for [`Self::start`].
    fn stop(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool);

    /// Updates an event's count. IRQs disabled, or in an NMI.
    fn read(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>);

    /// perf is about to read the events of a group on this CPU, the leader first, each with
    /// [`Self::read`].
    ///
    /// IRQs disabled. An NMI may read events before [`Self::end_group_read`].
    fn begin_group_read(&self, _on: &OnCpu<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// perf has read the events of a group, or has put a group on this CPU, which it does not
    /// announce. IRQs disabled.
    fn end_group_read(&self, _on: &OnCpu<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The number by which user mode reads the event's counter, `None` if it may not.
    /// Any context, on any CPU.
    fn user_index(&self, _event: &Event<Self>) -> Option<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// An event has been mapped into `mm`, the current task's, whose lock is held for
    /// writing. Task context, may sleep.
    fn event_mapped(&self, _event: &Event<Self>, _mm: &Mm, _cpus: &PerCpu<Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// An event's mapping has been removed from `mm`, whose lock is held. `mm` may
    /// belong to no task any more. Task context, may sleep.
    fn event_unmapped(&self, _event: &Event<Self>, _mm: &Mm) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// A driver and its data for each CPU.
#[pin_data]
pub struct Instance<T: Pmu> {
    #[pin]
    pub(super) driver: T,
    pub(super) cpus: PerCpu<T>,
    pub(super) scope: Scope,
}

/// The events that perf may put on a PMU. By default, those of its own type on all CPUs.
#[derive(Default)]
pub struct Scope {
    /// The CPUs, if not all.
    pub only_on: Option<OnlyOn>,
    /// Whether there are generic events.
    pub generic_events: GenericEvents,
    /// What the PMU keeps with tasks, if anything.
    pub task_data: Option<Arc<RawTaskCache>>,
}

/// The CPUs that a PMU is on, if that is not all of them. perf puts its events on no other CPU.
pub struct OnlyOn {
    /// The CPUs.
    pub cpus: Arc<CpuMask>,
    /// The CPUs whose events can be opened, if they are online; `ENOENT` for others. An event of
    /// one that is not among `cpus` never counts.
    pub opens_on: Arc<CpuMask>,
}

impl<T: Pmu> Instance<T> {
    /// Allocates the data for each CPU. Task context, may sleep.
    pub fn new<E>(driver: impl PinInit<T, E>) -> Result<Arc<Self>>
    where
        Error: From<E>,
    {
        Self::with_scope(driver, Scope::default())
    }

    /// Allocates the data for each CPU, for a PMU of another scope. Task context, may sleep.
    pub fn with_scope<E>(driver: impl PinInit<T, E>, scope: Scope) -> Result<Arc<Self>>
    where
        Error: From<E>,
    {
        Arc::pin_init::<Error>(
            try_pin_init!(Self {
                driver <- driver,
                cpus: PerCpu::new()?,
                scope,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The data for each CPU.
    pub fn cpus(&self) -> &PerCpu<T> {
        &self.cpus
    }

    /// The driver.
    pub fn driver(&self) -> &T {
        &self.driver
    }
}
