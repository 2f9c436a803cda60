// SPDX-License-Identifier: GPL-2.0

//! `counted` on the Debian of the installation test: what `docs/ci.md` shows, and the steps of the
//! workflows in `examples/ci`, by an ordinary user.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::machine::Machine;
use crate::context::Context;
use crate::step::Step;

/// What the workflows install besides the packages made here, and the image of a kernel.
pub const PACKAGES: [&str; 5] = ["linux-perf", "gcc", "rr", "cargo", "bolt-19"];

/// The examples in the checkout.
const EXAMPLES: &str = "examples/ci";

/// The home of the user.
const HOME: &str = "/home/ci";

/// Runs the commands of the page and of the workflows.
pub fn run(ctx: &Context, machine: &Machine<'_>) -> Result<()> {
    let step = Step::start(ctx, "install-counted", "counted, and workflows for CI")?;
    let project = machine.path(&Path::new(HOME).join("project"));
    let examples = project.join(EXAMPLES);
    fs::create_dir_all(&examples)?;
    step.run(
        Command::new("cp")
            .arg("--recursive")
            .arg(ctx.top.join(EXAMPLES).join("."))
            .arg(&examples),
    )?;
    vendor(&step, &project, &machine.path(Path::new(HOME)))?;
    machine.output("chown", &["--recursive", "1000:1000", HOME])?;
    let page = fs::read_to_string(ctx.top.join("docs/ci.md"))?;
    let shown = of_page(&page).context(step.failure("docs/ci.md shows no commands"))?;
    script(machine, &step, shown)?;
    // In the guest, an ordinary user may use trace points.
    script(
        machine,
        &step,
        "counted -- perf stat -e sched:sched_switch true",
    )?;
    for file in ["github.yml", "gitlab.yml"] {
        let workflow = fs::read_to_string(ctx.top.join(EXAMPLES).join(file))?;
        let steps = steps(&workflow);
        ensure!(
            steps.len() == 6,
            step.failure(&format!("{file}: {steps:?}"))
        );
        let (install, steps) = steps.split_first().context("no steps")?;
        for package in PACKAGES {
            ensure!(
                install.contains(package),
                step.failure(&format!("{file} does not install {package}"))
            );
        }
        let (build, steps) = steps.split_first().context("no steps")?;
        // The page tells people to commit the file of counts. rr does not write over what the other workflow
        // has recorded.
        let before = format!("{EXAMPLES}/count.sh --new {EXAMPLES}/instructions ./benchmark");
        script(machine, &step, &format!("rm -rf record\n{build}\n{before}"))?;
        script(machine, &step, &steps.join("\n"))?;
    }
    // As after a change that makes the program slower.
    let slower = format!(
        "echo 1000 >{EXAMPLES}/instructions\n{EXAMPLES}/count.sh {EXAMPLES}/instructions true"
    );
    let refused = script(machine, &step, &slower).err();
    ensure!(
        refused.is_some_and(|it| it.to_string().contains("over 0.5 % more")),
        step.failure("count.sh takes more instructions for as many")
    );
    fs::remove_dir_all(machine.path(Path::new(HOME)))?;
    step.done();
    Ok(())
}

/// Puts the crates that the example of a crate needs into a directory of the user's, whose cargo takes them
/// from there: the machine has no network.
fn vendor(step: &Step, project: &Path, home: &Path) -> Result<()> {
    let crates = home.join("crates");
    step.run(
        Command::new("cargo")
            .args(["vendor", "--locked", "--manifest-path"])
            .arg(project.join(EXAMPLES).join("crate/Cargo.toml"))
            .arg(&crates),
    )?;
    fs::create_dir(home.join(".cargo"))?;
    let config = format!(
        "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\ndirectory = \"{HOME}/crates\"\n"
    );
    fs::write(home.join(".cargo/config.toml"), config)?;
    Ok(())
}

/// Runs a script as an ordinary user, in the project.
fn script(machine: &Machine<'_>, step: &Step, script: &str) -> Result<()> {
    machine.as_user(step, HOME, &format!("cd ~/project\n{script}"))?;
    Ok(())
}

/// The commands that the page shows first, but for the installation.
fn of_page(page: &str) -> Option<&str> {
    let block = page.split("```\n").nth(1)?;
    block.split_once('\n').map(|(_, commands)| commands)
}

/// The steps of a workflow: `run:` of GitHub's, and the lists of GitLab's.
fn steps(workflow: &str) -> Vec<&str> {
    let lines = workflow.lines().map(str::trim);
    lines
        .filter_map(|line| match line.strip_prefix("run: ") {
            Some(command) => Some(command),
            None => line
                .strip_prefix("- ")
                .filter(|it| !it.starts_with("uses: ") && !it.starts_with("name: ")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_workflows() {
        let github = "steps:\n  - uses: a\n  - name: B\n    run: c d\n";
        assert_eq!(steps(github), ["c d"]);
        let gitlab = "image: debian\nscript:\n  - a b\n  - c\n";
        assert_eq!(steps(gitlab), ["a b", "c"]);
    }

    #[test]
    fn commands_of_a_page() {
        let page = "Text\n```\napt install x\na\nb\n```\nmore\n```\nc\n```\n";
        assert_eq!(of_page(page), Some("a\nb\n"));
    }
}
