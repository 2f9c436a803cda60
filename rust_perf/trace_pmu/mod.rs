// SPDX-License-Identifier: GPL-2.0

//! `rust_trace`: the kernel's trace points, and probes of its code and of programs, as
//! events.
//!
//! | file | concern |
//! |---|---|
//! | `attr.rs` | what an event asks for, and who may ask for it |
//! | `sysfs.rs` | the folders in sysfs |
//! | `names.rs` | what is special about some trace points |
//! | `sources.rs` | what is traced: attached at the first event, detached after the last |
//! | `hit.rs` | the hits of trace points: what is recorded and counted |
//! | `kprobe.rs`, `uprobe.rs` | probes of the kernel's code and of programs, and their hits |
//! | `probes.rs` | events of these probes |
//!
//! Events do not overflow a counter here: each hit of what they trace is one more count.
//! perf itself counts, ends periods, and takes samples, see
//! [`Recording`](crate::perf::Recording).
//!
//! # From attributes to a hit
//!
//! An event of a uprobe goes this way:
//!
//! 1. [`TracePmu::open`] (`attr.rs`) decodes `config` into a [`Kind`](attr::Kind), and checks who
//!    may open it.
//! 2. [`TracePmu::open_uprobe`] (`probes.rs`) takes the file and the offset from `config1` and
//!    `config2` ([`uprobe::place`]), and makes a [`Source`] with a list of events for each CPU.
//! 3. [`uprobe::attach`] registers a [`Uprobe`](crate::system::uprobe::Uprobe) with the kernel. Its
//!    handler is [`uprobe::Hits`].
//! 4. [`TracePmu::add`] puts the event on the source's list of the CPU while its task runs there.
//! 5. A program executes the instruction, and the kernel calls [`uprobe::Hits`] in that task.
//!    [`Source::count_place`] (`probes.rs`) makes the record, and
//!    [`Recording`](crate::perf::Recording) passes it to perf with the events of this CPU's list.
//!
//! An event of a kprobe differs in `kprobe.rs` only. An event of a trace point gets its source
//! from [`Sources::numbered`], and its hits arrive in `hit.rs`.

mod attr;
mod hit;
mod kprobe;
mod names;
mod probes;
mod sources;
mod sysfs;
mod uprobe;

use self::sources::{
    Source,
    Sources, //
};
use crate::{
    perf::{
        AddedEvent,
        CpuEvent,
        Instance,
        KernelCounter,
        Listed,
        NewEvent,
        OnCpu,
        PerCpu,
        Pmu,
        Registration,
        TaskContext, //
    },
    system::{
        symbols::Symbols,
        tracepoint, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The driver.
#[pin_data]
pub(crate) struct TracePmu {
    #[pin]
    sources: Mutex<Sources>,
    /// Makes the kernel mark tasks that have migrated, from the first event that counts
    /// them on. It stays: perf may destroy an event with locks held that releasing this
    /// needs.
    #[pin]
    migrations: Mutex<Option<KernelCounter>>,
    symbols: Symbols,
}

/// Registers the PMU. `None`, and a message, if the kernel lacks a function that only this PMU
/// needs. Task context, may sleep.
pub(crate) fn register(
    module: &'static ThisModule,
) -> Result<Option<Pin<KBox<Registration<TracePmu>>>>> {
    let Ok(symbols) = tracepoint::init().and_then(|()| Symbols::find()) else {
        pr_warn!(
            "functions of kallsyms, ftrace or BTF cannot be found with kprobes; rust_trace is not \
             registered\n"
        );
        return Ok(None);
    };
    let groups = sysfs::attribute_groups()?;
    let instance = Instance::new(try_pin_init!(TracePmu {
        sources <- new_mutex!(Sources::default()),
        migrations <- new_mutex!(None),
        symbols,
    }? Error))?;
    let registration = Registration::register(c"rust_trace", groups, instance, module);
    Ok(Some(KBox::pin_init(registration, GFP_KERNEL)?))
}

#[vtable]
impl Pmu for TracePmu {
    const TASK_CONTEXT: TaskContext = TaskContext::SOFTWARE;

    /// What the event traces.
    type EventData = Arc<Source>;
    type Events = Listed;
    type Cpu = ();
    type Schedule = ();

    fn event_init(&self, event: &NewEvent<'_, Self>) -> Result<Arc<Source>> {
        self.open(event)
    }

    fn event_destroy(&self, source: &Arc<Source>, _: &PerCpu<Self>) {
        if source.leave() {
            return;
        }
        let unused = self.sources.lock().release_last(source);
        // This may take long, and other events need not wait for it.
        drop(unused);
    }

    fn add(
        &self,
        _: &OnCpu<'_, Self>,
        (): &mut (),
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result {
        if event.is_sampling() {
            event.begin_period();
        }
        if start {
            event.set_running();
        } else {
            event.set_stopped();
        }
        event.data().insert(event)
    }

    /// perf takes the event off its list after this.
    fn del(&self, _: &OnCpu<'_, Self>, (): &mut (), _: CpuEvent<'_, Self>) {}

    fn start(&self, _: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        event.set_running();
    }

    fn stop(&self, _: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, _: bool) {
        event.set_stopped();
    }

    /// Each hit updates the count.
    fn read(&self, _: &OnCpu<'_, Self>, _: CpuEvent<'_, Self>) {}
}
