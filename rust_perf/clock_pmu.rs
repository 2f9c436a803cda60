// SPDX-License-Identifier: GPL-2.0

//! `rust_clock`: time as an event.
//!
//! It needs no hardware. Its two events count nanoseconds, and take samples by a
//! high-resolution timer each:
//!
//! - `cpu-clock`: the time while the event is on a CPU.
//! - `task-clock`: the time while the event's context is on a CPU. For a task that is the
//!   time for which it runs.
//!
//! They are held against the in-tree events of these names (`PERF_COUNT_SW_CPU_CLOCK`,
//! `PERF_COUNT_SW_TASK_CLOCK`), whose numbers they have.
//!
//! But for `event_init` and `register`, everything here runs on the event's CPU with
//! interrupts disabled. Nothing allocates, sleeps, prints or panics. Starting and
//! cancelling a timer takes the lock of its base. perf does neither in an NMI: there it stops
//! throttled events only, whose timers are left alone.

use crate::{
    perf::{
        self,
        AddedEvent,
        AfterExpiry,
        Attr,
        AttributeGroups,
        Capabilities,
        CpuEvent,
        File,
        Instance,
        NewEvent,
        OnCpu,
        Pmu,
        Registration,
        Sample,
        Sampling,
        TaskContext,
        Timer,
        TimerPmu, //
    },
    system::irq::Interrupt, //
};
use kernel::{
    prelude::*,
    time::NSEC_PER_SEC, //
};

/// The shortest time between two samples, in nanoseconds.
const MIN_PERIOD: u64 = 10_000;

/// Registers the PMU. Task context, may sleep.
pub(crate) fn register(module: &'static ThisModule) -> Result<Pin<KBox<Registration<ClockPmu>>>> {
    let sampling = Sampling::find()?;
    let instance = Instance::new(ClockPmu { sampling })?;
    let groups = attribute_groups()?;
    let registration = Registration::register(c"rust_clock", groups, instance, module);
    KBox::pin_init(registration, GFP_KERNEL)
}

/// The PMU's folders in sysfs.
///
/// perf has events of the same names, and opens an event without a PMU on each PMU that has a file
/// of that name in `events/`. So the files have a prefix, that of perf's constants of the events
/// (`PERF_COUNT_SW_CPU_CLOCK`). The names alone are bits of `format/`, as the terms of an event may
/// be fields: `rust_clock/cpu-clock/`.
fn attribute_groups() -> Result<AttributeGroups> {
    let mut format = KVec::new();
    format.push(File::new(c"event", fmt!("config:0-61"))?, GFP_KERNEL)?;

    let mut events = KVec::new();
    for clock in Clock::ALL {
        format.push(
            File::new(clock.name(), fmt!("config:{}", clock.name_bit()))?,
            GFP_KERNEL,
        )?;
        let [name, unit, scale] = clock.files();
        let event = File::new(name, fmt!("event={:#04x}", clock.config()))?;
        events.push(event, GFP_KERNEL)?;
        // The perf tool shows milliseconds, as it does for the in-tree events.
        events.push(File::new(unit, fmt!("msec"))?, GFP_KERNEL)?;
        events.push(File::new(scale, fmt!("1e-6"))?, GFP_KERNEL)?;
    }
    AttributeGroups::new([(c"format", format), (c"events", events)])
}

/// What an event counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Cpu,
    Task,
}

impl Clock {
    const ALL: [Self; 2] = [Clock::Cpu, Clock::Task];

    /// The number of the event, as `PERF_COUNT_SW_*`.
    fn config(self) -> u64 {
        match self {
            Clock::Cpu => 0,
            Clock::Task => 1,
        }
    }

    /// The bit of `config` that selects the event by name.
    fn name_bit(self) -> u32 {
        match self {
            Clock::Cpu => 62,
            Clock::Task => 63,
        }
    }

    fn of(attr: &Attr) -> Option<Self> {
        let config = attr.config();
        Self::ALL
            .into_iter()
            .find(|clock| config == clock.config() || config == 1 << clock.name_bit())
    }

    /// perf's name of the event.
    fn name(self) -> &'static CStr {
        match self {
            Clock::Cpu => c"cpu-clock",
            Clock::Task => c"task-clock",
        }
    }

    /// The names of the event's files: its number, its unit and the unit's scale.
    fn files(self) -> [&'static CStr; 3] {
        match self {
            Clock::Cpu => [c"sw-cpu-clock", c"sw-cpu-clock.unit", c"sw-cpu-clock.scale"],
            Clock::Task => [
                c"sw-task-clock",
                c"sw-task-clock.unit",
                c"sw-task-clock.scale",
            ],
        }
    }
}

/// The driver.
pub(crate) struct ClockPmu {
    sampling: Sampling,
}

impl ClockPmu {
    fn clock(event: CpuEvent<'_, Self>) -> Clock {
        // `event_init` has checked that it is one of the two, so one bit tells.
        const TASK: u64 = 1 | 1 << 63;
        if event.attr().config() & TASK != 0 {
            Clock::Task
        } else {
            Clock::Cpu
        }
    }

    /// Brings the count up to `now`, on the clock that the event counts.
    fn update(event: CpuEvent<'_, Self>, now: u64) {
        let previous = event.prev_count().swap(now);
        event.count().add(now.wrapping_sub(previous));
    }

    fn read_event(event: CpuEvent<'_, Self>) {
        let now = perf::local_clock();
        let now = match Self::clock(event) {
            Clock::Cpu => now,
            Clock::Task => event.context_time_until(now),
        };
        Self::update(event, now);
    }

    /// The time at which perf starts or stops the event.
    fn time_of_change(event: CpuEvent<'_, Self>) -> u64 {
        match Self::clock(event) {
            Clock::Cpu => perf::local_clock(),
            // perf brings the time of the context up to date before it starts or stops events.
            Clock::Task => event.context_time(),
        }
    }

    fn start_event(event: CpuEvent<'_, Self>) {
        event.set_running();
        event.prev_count().set(Self::time_of_change(event));
        if event.is_sampling() {
            // What was left of the period when the event was stopped.
            let ns = match event.period_left().swap(0) as i64 {
                0 => Self::interval(event),
                left => u64::try_from(left).unwrap_or(MIN_PERIOD),
            };
            event.start_timer(ns);
        }
    }

    fn stop_event(event: CpuEvent<'_, Self>, update: bool) {
        event.set_stopped();
        // A throttled event starts with a whole period. If its timer expires before, the handler
        // sees that the event is stopped.
        if event.is_sampling() && !event.is_throttled() {
            // 0 is a whole period for `start_event`. A timer that is due just now is overdue instead.
            let left = match event.timer_remaining() {
                0 => -1,
                left => left,
            };
            event.period_left().set(left as u64);
            event.cancel_timer();
        }
        if update {
            Self::update(event, Self::time_of_change(event));
        }
    }

    /// The time between two samples.
    fn interval(event: CpuEvent<'_, Self>) -> u64 {
        event.period().max(MIN_PERIOD)
    }

    /// Whether the user wants samples of what was interrupted.
    fn is_wanted(attr: &Attr, interrupt: &Interrupt<'_>) -> bool {
        let regs = interrupt.regs();
        let excluded = (attr.exclude_user() && regs.is_user_mode())
            || (attr.exclude_kernel() && !regs.is_user_mode());
        let idle = attr.exclude_idle() && interrupt.is_of_idle_task();
        !excluded && !idle
    }
}

impl TimerPmu for ClockPmu {
    #[inline]
    fn timer_expired(
        &self,
        event: CpuEvent<'_, Self>,
        interrupt: Option<&Interrupt<'_>>,
    ) -> AfterExpiry {
        if event.is_stopped() {
            return AfterExpiry::Stop;
        }
        Self::read_event(event);
        let interval = Self::interval(event);
        if let Some(interrupt) = interrupt.filter(|it| Self::is_wanted(event.attr(), it)) {
            let sample = Sample {
                period: event.last_period(),
                ..Sample::default()
            };
            if event.overflow(self.sampling, *interrupt, interrupt.regs(), sample) {
                // The next period has begun. If the event has reached its limit, perf deletes it from
                // this CPU soon, where `stop_event` saves what is left of that period. The event
                // goes on from there when PERF_EVENT_IOC_REFRESH enables it again.
                return AfterExpiry::StopWithin(interval);
            }
        }
        AfterExpiry::Restart(interval)
    }
}

#[vtable]
impl Pmu for ClockPmu {
    const TASK_CONTEXT: TaskContext = TaskContext::SOFTWARE;
    const CAPABILITIES: Capabilities = Capabilities::NO_NMI;

    type EventData = Pin<KBox<Timer<Self>>>;
    type Events = ();
    type Cpu = ();
    type Schedule = ();

    fn event_init(&self, event: &NewEvent<'_, Self>) -> Result<Self::EventData> {
        let attr = event.attr();
        // Check in the order of the in-tree events, so that the errno matches.
        if attr.samples_branch_stack() {
            return Err(perf::not_supported());
        }
        if Clock::of(attr).is_none() {
            return Err(ENOENT);
        }
        // Time has a fixed rate, so that a frequency is a period.
        if event.is_sampling() && attr.is_frequency() {
            let period = (NSEC_PER_SEC as u64).checked_div(attr.sample_freq());
            event.fix_period(period.unwrap_or(0));
        }
        KBox::pin_init(Timer::new(), GFP_KERNEL)
    }

    fn add(
        &self,
        _: &OnCpu<'_, Self>,
        (): &mut (),
        event: &AddedEvent<'_, Self>,
        start: bool,
    ) -> Result {
        if start {
            Self::start_event(**event);
        }
        event.update_userpage();
        Ok(())
    }

    fn del(&self, _: &OnCpu<'_, Self>, (): &mut (), event: CpuEvent<'_, Self>) {
        Self::stop_event(event, true);
    }

    fn start(&self, _: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        Self::start_event(event);
    }

    fn stop(&self, _: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool) {
        Self::stop_event(event, update);
    }

    fn read(&self, _: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        Self::read_event(event);
    }
}
