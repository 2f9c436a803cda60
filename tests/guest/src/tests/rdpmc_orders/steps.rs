// SPDX-License-Identifier: GPL-2.0
//! What tasks do, and all the orders in which they can do it.

use std::fmt;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Opens its events, and enables them.
    Open,
    /// Maps the page of the last one.
    Map,
    Unmap,
    Close,
    /// Only runs, after the other one.
    Run,
    /// Forks, and waits for the child.
    Fork,
    /// Ends, and the next step is the first one of another task.
    Exit,
    /// Has in-tree events count, and closes them, before all else.
    InTree,
}

impl Step {
    pub const ALL: [Self; 8] = [
        Self::Open,
        Self::Map,
        Self::Unmap,
        Self::Close,
        Self::Run,
        Self::Fork,
        Self::Exit,
        Self::InTree,
    ];
}

/// How far a task is.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Open,
    Mapped,
}

impl State {
    /// The state after a step, which must be possible.
    fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Idle, Step::Open) | (Self::Mapped, Step::Unmap) => Some(Self::Open),
            (Self::Open, Step::Map) => Some(Self::Mapped),
            (Self::Open | Self::Mapped, Step::Close | Step::Exit) => Some(Self::Idle),
            (state, Step::Run | Step::Fork) => Some(state),
            // The in-tree driver gets the counters only if no task has an event open.
            (Self::Idle, Step::InTree) => Some(Self::Idle),
            _ => None,
        }
    }
}

/// A step of one of the two tasks.
#[derive(Clone, Copy)]
pub struct Turn {
    pub task: usize,
    pub step: Step,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.step_name(), ["A", "B"][self.task])
    }
}

impl Turn {
    fn step_name(&self) -> String {
        format!("{:?}", self.step).to_lowercase()
    }
}

/// Whether a step adds something to those before: a task looks at all registers after each of its steps,
/// so that to run on shows it nothing new.
fn is_worth_it(before: Option<&Turn>, turn: Turn) -> bool {
    match turn.step {
        Step::InTree => before.is_none(),
        Step::Run => before.is_some_and(|before| before.task != turn.task),
        _ => true,
    }
}

/// All sequences of so many steps of two tasks, of which A does the first one.
pub fn sequences(length: usize) -> Vec<Vec<Turn>> {
    let mut all = vec![(Vec::new(), [State::Idle; 2])];
    for _ in 0..length {
        let longer = |(turns, states): &(Vec<Turn>, [State; 2])| {
            let tasks = if turns.is_empty() { 0..1 } else { 0..2 };
            let (turns, states) = (turns.clone(), *states);
            let next = tasks.flat_map(|task| Step::ALL.map(|step| Turn { task, step }));
            let possible = next.filter_map(move |turn| {
                if !is_worth_it(turns.last(), turn) {
                    return None;
                }
                let mut states = states;
                states[turn.task] = states[turn.task].after(turn.step)?;
                let turns = turns.iter().copied().chain([turn]).collect();
                Some((turns, states))
            });
            possible.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.into_iter().map(|(turns, _)| turns).collect()
}
