// SPDX-License-Identifier: GPL-2.0

//! What operations cost, by generation: `guest-tests bench` in a guest of each.

use anyhow::{ensure, Context as _, Result};
use serde_json::{json, Value};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use suites::Suite;

use crate::context::Context;
use crate::guest::{Guest, LimitOf, Options as GuestOptions, Outcome, Parts};
use crate::guest_tests;
use crate::kernel;
use crate::module;
use crate::pump::Sink;
use crate::qemu::Qemu;
use crate::step::Step;
use crate::test::guests_at_a_time;

/// What an operation costs with one driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// `None` if the number means nothing.
    pub instructions: Option<Figure>,
    pub accesses: Figure,
}

/// A figure, which has been measured until two measurements agreed, if they did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub is_settled: bool,
}

impl Cost {
    fn of(value: &Value) -> Option<Self> {
        let figure = |name: &str| {
            Some(Figure {
                value: value.get(name)?.as_f64()?,
                is_settled: value.get(format!("{name}_settled"))?.as_bool()?,
            })
        };
        Some(Self {
            instructions: figure("instructions"),
            accesses: figure("accesses")?,
        })
    }
}

/// What an operation costs. `None` for a driver that cannot do it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub operation: String,
    pub ours: Option<Cost>,
    pub in_tree: Option<Cost>,
}

impl Row {
    fn of(line: &Value) -> Result<Self> {
        let operation = line["operation"].as_str().context("no operation")?;
        Ok(Self {
            operation: operation.to_owned(),
            ours: Cost::of(&line["ours"]),
            in_tree: Cost::of(&line["in_tree"]),
        })
    }
}

/// What operations cost on one generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The name of its machine.
    pub name: String,
    pub has_global_control: bool,
    pub rows: Vec<Row>,
}

impl Generation {
    pub fn row(&self, operation: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.operation == operation)
    }
}

/// What was measured, also by register, as JSON.
pub struct Figures(Value);

impl Figures {
    /// Reads what [`Self::write`] wrote.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        let json = serde_json::from_slice(&text);
        Ok(Self(json.with_context(|| file.display().to_string())?))
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.0)?;
        fs::write(file, text + "\n").with_context(|| file.display().to_string())
    }

    pub fn generations(&self) -> Result<Vec<Generation>> {
        let all = self.0.as_array().context("bench.json is no list")?;
        let generation = |value: &Value| -> Result<_> {
            let rows = value["operations"].as_array().context("no operations")?;
            Ok(Generation {
                name: value["machine"].as_str().context("no machine")?.to_owned(),
                has_global_control: value["global_control"] == true,
                rows: rows.iter().map(Row::of).collect::<Result<_>>()?,
            })
        };
        all.iter().map(generation).collect()
    }
}

/// Collects what a guest prints.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<u8>>>);

impl Collector {
    fn text(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&all).into_owned()
    }
}

impl Write for Collector {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Boots a guest for each suite, as many at a time as `make test` does.
pub fn measure(
    ctx: &Context,
    kernel: &kernel::Options,
    suites: &[&'static Suite],
) -> Result<Figures> {
    let built = Built::prepare(ctx, kernel)?;
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; suites.len()]);
    thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some((i, suite)) = {
                let i = next.fetch_add(1, Relaxed);
                suites.get(i).map(|suite| (i, suite))
            } {
                let value = of_suite(ctx, &built, suite)?;
                results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(value);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..guests_at_a_time(ctx))
            .map(|_| scope.spawn(work))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Figures(by_machine(results.into_iter().flatten())))
}

/// Puts together what guests of the same machine have measured.
fn by_machine(guests: impl Iterator<Item = Value>) -> Value {
    let mut machines: Vec<Value> = Vec::new();
    for mut guest in guests {
        let same = machines
            .iter_mut()
            .find(|it| it["machine"] == guest["machine"]);
        match (same, guest["operations"].as_array_mut()) {
            (Some(Value::Object(machine)), Some(more)) => {
                if let Some(Value::Array(operations)) = machine.get_mut("operations") {
                    operations.append(more);
                }
            }
            _ => machines.push(guest),
        }
    }
    machines.into()
}

/// What guests need.
pub struct Built {
    parts: Parts,
    module: PathBuf,
    tests: PathBuf,
}

impl Built {
    pub fn prepare(ctx: &Context, kernel: &kernel::Options) -> Result<Self> {
        let parts = Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?;
        Ok(Self {
            module: module::for_kernel(ctx, &parts.kernel)?,
            tests: guest_tests::build(ctx)?,
            parts,
        })
    }

    /// Runs a command in a guest of this suite, with its standard output to `stdout`.
    pub fn run(
        &self,
        ctx: &Context,
        suite: &'static Suite,
        command: &str,
        options: &GuestOptions,
        stdout: Sink,
    ) -> Result<()> {
        let guest = Guest {
            logs: &ctx.guest_logs(suite.name)?,
            module: Some(&self.module),
            example: None,
            test_module: None,
            kernel_programs: None,
            bolt: None,
            command: Some(command),
            suite: Some(suite),
            tests: Some(&self.tests),
            limit: LimitOf::Guest,
            may_restore: false,
            options,
        };
        let errors = Collector::default();
        let stderr = Box::new(errors.clone());
        let end = guest.run(ctx, &self.parts, stdout, stderr)?;
        ensure!(
            matches!(end.outcome, Outcome::Exited(0)),
            "the guest of {} failed: {}\n{}",
            suite.machine.name,
            guest.explain(&end),
            errors.text()
        );
        Ok(())
    }
}

fn of_suite(ctx: &Context, built: &Built, suite: &'static Suite) -> Result<Value> {
    let name = suite.machine.name;
    let step = Step::start(ctx, suite.name, &format!("operations on {name}"))?;
    let options = GuestOptions {
        timeout: Some(1_800),
        ..GuestOptions::default()
    };
    let output = Collector::default();
    let stdout = Box::new(output.clone());
    built.run(ctx, suite, "guest-tests bench", &options, stdout)?;
    let output = output.text();
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let mut lines = lines.map(serde_json::from_str::<Value>);
    let about = lines.next().context("the guest printed nothing")??;
    let operations: Vec<Value> = lines.collect::<Result<_, _>>()?;
    step.done();
    Ok(json!({
        "machine": name,
        "global_control": about["global_control"],
        "operations": operations,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_of_a_machine_are_put_together() {
        let guest = |machine: &str, operations: &[u32]| json!({ "machine": machine, "operations": operations });
        let guests = [guest("a", &[1]), guest("b", &[2]), guest("a", &[3, 4])];
        let machines = by_machine(guests.into_iter());
        assert_eq!(machines, json!([guest("a", &[1, 3, 4]), guest("b", &[2])]));
    }
}
