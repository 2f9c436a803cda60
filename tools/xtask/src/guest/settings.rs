// SPDX-License-Identifier: GPL-2.0

//! What a suite and the user make of a guest.

use suites::{Suite, WITHOUT_IN_TREE};

use super::{Options, Pmu};

/// The kernel's command line, but for what the suite and the user add.
const KERNEL_ARGUMENTS: &[&str] = &[
    "console=ttyS0",
    "loglevel=5",
    // xtask has the kernel of a silent guest say where its tasks are.
    "sysrq_always_enabled",
    // A kernel that has panicked ends the guest.
    "panic=-1",
    "oops=panic",
    // The check of the timer interrupt can fail on a slow host.
    "no_timer_check",
    // The watchdog uses a counter of every CPU; tests that want that ask for it.
    "nmi_watchdog=0",
    // The clocksource watchdog of kernel 7.3 can deadlock at boot. While
    // clocksource_done_booting() leaves jiffies by stop_machine(), the other CPUs wait in
    // multi_cpu_stop() with interrupts off. If a tick then runs clocksource_watchdog() on
    // the CPU that keeps jiffies, it sends the others an IPI and waits, with interrupts
    // off, for their answer or for a time-out that it reads from jiffies. Neither comes.
    "tsc=nowatchdog",
    // The kernel's tests of its ciphers take the emulated CPU 0.7 s beside the guest's command.
    "cryptomgr.notests=1",
];

/// What a suite and the user's options make of a guest. The options win.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// How many virtual CPUs.
    pub cpus: u32,
    /// How many of them are threads of one core.
    pub threads: u32,
    /// QEMU's `-cpu`.
    pub cpu: String,
    /// QEMU's other arguments.
    pub qemu_args: String,
    /// The kernel's command line.
    pub kernel_command_line: String,
    /// Whether the module is loaded before the command starts.
    pub load_module: bool,
    /// Whether the module takes the place of the in-tree driver.
    pub primary: bool,
}

impl Settings {
    /// Puts them together.
    pub fn new(suite: Option<&Suite>, options: &Options, base_cpu: &str) -> Self {
        let join = |parts: &[&str], separator: &str| {
            let parts: Vec<_> = parts.iter().copied().filter(|it| !it.is_empty()).collect();
            parts.join(separator)
        };
        let properties = suite.map(Suite::cpu_properties).unwrap_or_default();
        let of_suite = suite.map(Suite::kernel_command_line).unwrap_or_default();
        let pmu = match options.pmu {
            None => "",
            Some(Pmu::On) => "pmu=on",
            Some(Pmu::Off) => "pmu=off",
        };
        let primary = options.primary || suite.is_some_and(|suite| suite.primary);
        let without_in_tree = if primary { WITHOUT_IN_TREE } else { "" };
        Self {
            cpus: options
                .smp
                .unwrap_or_else(|| suite.map_or(2, |suite| suite.cpus)),
            // The number of CPUs that the user chooses may not be a multiple.
            threads: match options.smp {
                None => suite.map_or(1, |suite| suite.threads),
                Some(_) => 1,
            },
            cpu: join(
                &[options.cpu.as_deref().unwrap_or(base_cpu), &properties, pmu],
                ",",
            ),
            qemu_args: join(
                &[
                    suite.map_or("", |suite| suite.timing.qemu_args()),
                    &options.qemu_args,
                ],
                " ",
            ),
            kernel_command_line: join(
                &[
                    &KERNEL_ARGUMENTS.join(" "),
                    without_in_tree,
                    &of_suite,
                    &options.append,
                ],
                " ",
            ),
            load_module: !options.no_module && suite.is_none_or(|suite| suite.load_module),
            primary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_makes_the_guest() {
        let settings = |suite, options: &Options| {
            let suite = suites::find(suite).unwrap();
            Settings::new(Some(suite), options, suites::BASE_CPU)
        };
        let options = Options {
            qemu_args: "-s".to_owned(),
            append: "quiet".to_owned(),
            ..Options::default()
        };
        let icount = settings("icount", &options);
        assert_eq!(icount.qemu_args, "-icount shift=0,sleep=off -s");
        assert_eq!((icount.cpus, icount.cpu.as_str()), (1, suites::BASE_CPU));
        assert!(icount.load_module);
        let fault = settings("faults-delay-v1", &options);
        assert_eq!(
            fault.cpu,
            "max,vendor=GenuineIntel,pmu=on,pmu-version=1,pmu-fault=delay:3:20000"
        );
        assert!(fault.kernel_command_line.ends_with("mitigations=off quiet"));
        assert!(!settings("no-pmu", &options).load_module);
        assert_eq!(settings("models-nehalem", &options).threads, 2);
    }

    #[test]
    fn without_a_suite_or_options_the_guest_is_the_usual() {
        let options = Options::default();
        assert!(options.are_usual());
        let settings = Settings::new(None, &options, suites::BASE_CPU);
        assert_eq!(
            settings,
            Settings {
                cpus: 2,
                threads: 1,
                cpu: suites::BASE_CPU.to_owned(),
                qemu_args: String::new(),
                kernel_command_line: KERNEL_ARGUMENTS.join(" "),
                load_module: true,
                primary: false,
            }
        );
    }

    #[test]
    fn the_module_can_take_the_place_of_the_in_tree_driver() {
        let primary = Options {
            primary: true,
            ..Options::default()
        };
        assert_eq!(primary.variables(), " PRIMARY=1");
        assert!(primary.qemu(None).is_ok());
        let off = Options {
            pmu: Some(Pmu::Off),
            ..primary.clone()
        };
        assert!(off.qemu(None).is_err());
        let suite = suites::find("primary");
        for (suite, options) in [(None, &primary), (suite, &Options::default())] {
            let settings = Settings::new(suite, options, suites::BASE_CPU);
            assert!(settings.primary);
            let arguments = settings.kernel_command_line;
            assert!(arguments.contains(WITHOUT_IN_TREE), "{arguments}");
        }
    }

    #[test]
    fn the_pmu_can_be_left_out() {
        let off = Options {
            pmu: Some(Pmu::Off),
            ..Options::default()
        };
        let settings = Settings::new(None, &off, suites::BASE_CPU);
        assert_eq!(settings.cpu, format!("{},pmu=off", suites::BASE_CPU));
        assert_eq!(off.variables(), " PMU=off");
        let settings = Settings::new(suites::find("hw-v2"), &off, suites::BASE_CPU);
        assert!(settings.cpu.ends_with(",pmu=off"), "{}", settings.cpu);
    }

    #[test]
    fn the_user_wins_over_the_suite() {
        let options = Options {
            smp: Some(4),
            cpu: Some("qemu64".to_owned()),
            append: "a b".to_owned(),
            no_module: true,
            ..Options::default()
        };
        let suite = suites::find("one-cpu").unwrap();
        let settings = Settings::new(Some(suite), &options, suites::BASE_CPU);
        assert_eq!((settings.cpus, settings.cpu.as_str()), (4, "qemu64"));
        assert!(!settings.load_module && !options.are_usual());
        assert_eq!(options.variables(), " SMP=4 CPU=qemu64 APPEND='a b'");
    }
}
