// SPDX-License-Identifier: GPL-2.0

//! What is wrong with a PMU: see [`Fault`].

use crate::group::TestGroup::{self, *};
use crate::machine;
use crate::suite::Suite;
use pmu_model::{Fault, Foreign};

const LOSE: Fault = Fault::lose(5);
const DELAY: Fault = Fault::delay(3, 20_000);
const DELAY_LONG: Fault = Fault::delay(3, 500_000);
const REPEAT: Fault = Fault::repeat(3, 20_000);
const REPEAT_AT_ONCE: Fault = Fault::repeat(3, 1);
/// GLOBAL_STATUS.
const GP_STATUS: Fault = Fault::gp(0x38e, 250);
/// GLOBAL_STATUS_RESET.
const GP_CLEAR: Fault = Fault::gp(0x390, 250);
/// PerfCntrGlobalStatusClr.
const GP_CLEAR_AMD: Fault = Fault::gp(0xc000_0302, 250);
const NO_EVENTSEL_1: Fault = Fault::gp(0x187, 0).of_efficient_cores();
const SPURIOUS: Fault = Fault::spurious(100_003);
const GARBAGE: Fault = Fault::garbage(1);
const GARBAGE_TESTS: &[&[TestGroup]] =
    &[&[FaultsGarbage, CountingQuick, SamplingQuick, OverflowQuick]];

/// A register changes so often that each test meets it.
const fn foreign(register: Foreign) -> Fault {
    Fault::foreign(register, 1_000_003, 1)
}

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::fault("faults-gp-status", GP_STATUS, &[&[GpFault]]),
    Suite::fault("faults-gp-clear", GP_CLEAR, &[&[GpFault]]),
    Suite::fault("faults-efficient-cores", NO_EVENTSEL_1, &[&[HybridFault]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .unloaded(),
    Suite::fault("faults-mask-lvtpc", Fault::MASK_LVTPC, &[&[Lvtpc]])
        .on(machine::AMD_CORE)
        .cpus(2),
    Suite::fault("faults-mask-lvtpc-v2", Fault::MASK_LVTPC, &[&[Lvtpc]])
        .on(machine::AMD_V2)
        .cpus(2)
        .with_all(),
    Suite::fault("faults-lose", LOSE, &[&[FaultsLose]]),
    Suite::fault("faults-lose-amd-legacy", LOSE, &[&[FaultsLose]]).on(machine::AMD_LEGACY),
    Suite::fault("faults-lose-amd-v2", LOSE, &[&[FaultsLose]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault("faults-delay", DELAY, &[&[FaultsDelay, Security]]),
    Suite::fault("faults-delay-v1", DELAY, &[&[FaultsDelay]])
        .on(machine::V1)
        .with_all(),
    Suite::fault(
        "faults-delay-amd-legacy",
        DELAY,
        &[&[FaultsDelay, LateNmis]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault("faults-delay-amd-v2", DELAY, &[&[FaultsDelay, LateNmis]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault("faults-delay-long", DELAY_LONG, &[&[FaultsDelayLong]]),
    Suite::fault(
        "faults-delay-long-amd-legacy",
        DELAY_LONG,
        &[&[FaultsDelayLong, LateNmisLong]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault(
        "faults-delay-long-amd-v2",
        DELAY_LONG,
        &[&[FaultsDelayLong, LateNmisLong]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault("faults-repeat", REPEAT, &[&[FaultsRepeat]]),
    Suite::fault("faults-repeat-v1", REPEAT, &[&[FaultsRepeat]])
        .on(machine::V1)
        .with_all(),
    Suite::fault("faults-repeat-amd-legacy", REPEAT, &[&[FaultsRepeat]]).on(machine::AMD_LEGACY),
    Suite::fault("faults-repeat-amd-v2", REPEAT, &[&[FaultsRepeat]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault(
        "faults-repeat-at-once",
        REPEAT_AT_ONCE,
        &[&[FaultsRepeatAtOnce]],
    ),
    Suite::fault(
        "faults-repeat-at-once-amd-legacy",
        REPEAT_AT_ONCE,
        &[&[FaultsRepeatAtOnce]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault(
        "faults-repeat-at-once-amd-v2",
        REPEAT_AT_ONCE,
        &[&[FaultsRepeatAtOnce]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    // Not on AMD: a PMI does not mask LVTPC there, so that nothing tells a spurious PMI
    // from another NMI.
    Suite::fault("faults-spurious", SPURIOUS, &[&[FaultsSpurious]]),
    Suite::fault(
        "faults-status",
        Fault::status(0x7_0000_000f),
        &[&[FaultsStatus]],
    ),
    Suite::fault(
        "faults-status-v2",
        Fault::status(0x7_0000_0003),
        &[&[FaultsStatus]],
    )
    .on(machine::V2)
    .with_all(),
    Suite::fault("faults-spurious-v1", SPURIOUS, &[&[FaultsSpurious]])
        .on(machine::V1)
        .with_all(),
    // Without the status nothing tells a PMI from another NMI there.
    Suite::fault("faults-gp-clear-amd-v2", GP_CLEAR_AMD, &[&[GpFault]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault("faults-garbage", GARBAGE, GARBAGE_TESTS),
    Suite::fault("faults-garbage-v1", GARBAGE, GARBAGE_TESTS)
        .on(machine::V1)
        .with_all(),
    Suite::fault("faults-garbage-amd-legacy", GARBAGE, GARBAGE_TESTS).on(machine::AMD_LEGACY),
    // With pairs.
    Suite::fault("faults-garbage-amd-v2", GARBAGE, GARBAGE_TESTS)
        .on(machine::ZEN_4_DEFAULT)
        .with_all(),
    // With extra registers and PERF_METRICS.
    Suite::fault("faults-garbage-primary", GARBAGE, GARBAGE_TESTS)
        .on(machine::SAPPHIRE_RAPIDS_DEFAULT)
        .primary()
        .with_all(),
    Suite::fault(
        "faults-foreign-eventsel",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    ),
    Suite::fault(
        "faults-foreign-eventsel-v1",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    )
    .on(machine::V1)
    .with_all(),
    Suite::fault(
        "faults-foreign-eventsel-amd-legacy",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault(
        "faults-foreign-eventsel-amd-v2",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault(
        "faults-foreign-fixed",
        foreign(Foreign::FixedCtrCtrl),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-counter",
        foreign(Foreign::Counter),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-counter-amd-v2",
        foreign(Foreign::Counter),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault(
        "faults-foreign-global-ctrl",
        foreign(Foreign::GlobalCtrl),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-global-ctrl-amd-v2",
        foreign(Foreign::GlobalCtrl),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault(
        "faults-foreign-zero",
        foreign(Foreign::Zero),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-zero-amd-legacy",
        foreign(Foreign::Zero),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_LEGACY)
    .with_all(),
];
