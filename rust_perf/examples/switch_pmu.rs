// SPDX-License-Identifier: GPL-2.0

//! `switch_pmu`: a PMU that counts how often its event's task is switched to.

#[path = "../bindings/mod.rs"]
mod bindings;
#[path = "../perf/mod.rs"]
pub mod perf;
#[path = "../system/mod.rs"]
pub mod system;

use kernel::prelude::*;
use perf::{AddedEvent, CpuEvent, NewEvent, OnCpu};

module! {
    type: SwitchModule,
    name: "switch_pmu",
    authors: ["The rust_perf developers"],
    description: "An example: a PMU that counts context switches",
    license: "GPL",
}

struct SwitchPmu;

#[vtable]
impl perf::Pmu for SwitchPmu {
    const TASK_CONTEXT: perf::TaskContext = perf::TaskContext::SOFTWARE;
    // Who may not see the kernel may open events that exclude it. This PMU counts all or nothing.
    const CAPABILITIES: perf::Capabilities =
        perf::Capabilities::NO_INTERRUPT.and(perf::Capabilities::NO_EXCLUDE);
    type EventData = ();
    type Events = ();
    type Cpu = ();
    type Schedule = ();

    fn event_init(&self, event: &NewEvent<'_, Self>) -> Result {
        match event.attr().selector() {
            perf::Selector::Config(0) => Ok(()),
            _ => Err(EINVAL),
        }
    }

    // perf adds a task's events to the CPU when it switches to the task.
    fn add(
        &self,
        _: &OnCpu<'_, Self>,
        (): &mut (),
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result {
        if start {
            event.count().add(1);
        }
        Ok(())
    }

    // What a PMU with a counter does here: take the event off it, start it, stop it, read it.
    fn del(&self, _: &OnCpu<'_, Self>, (): &mut (), _: CpuEvent<'_, Self>) {}
    fn start(&self, _: &OnCpu<'_, Self>, _: CpuEvent<'_, Self>) {}
    fn stop(&self, _: &OnCpu<'_, Self>, _: CpuEvent<'_, Self>, _: bool) {}
    fn read(&self, _: &OnCpu<'_, Self>, _: CpuEvent<'_, Self>) {}
}

struct SwitchModule {
    _pmu: Pin<KBox<perf::Registration<SwitchPmu>>>,
}

impl kernel::Module for SwitchModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let mut events = KVec::new();
        events.push(perf::File::new(c"switches", fmt!("config=0"))?, GFP_KERNEL)?;
        let groups = perf::AttributeGroups::new([(c"events", events)])?;
        let instance = perf::Instance::new(SwitchPmu)?;
        let pmu = perf::Registration::register(c"switch_pmu", groups, instance, module);
        let _pmu = KBox::pin_init(pmu, GFP_KERNEL)?;
        Ok(SwitchModule { _pmu })
    }
}
