// SPDX-License-Identifier: GPL-2.0

//! Reads test results in KTAP version 1 (Documentation/dev-tools/ktap.rst of
//! the kernel). Guest tests do not nest them.

/// A test that failed.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// Its name.
    pub name: String,
    /// The reason on its line, then the diagnostic lines above it.
    pub why: Vec<String>,
}

/// What came of a test.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It was skipped, for this reason.
    Skipped(String),
    /// It failed: see [`Results::failures`].
    Failed,
}

/// What a guest reported.
#[derive(Debug, Default, PartialEq)]
pub struct Results {
    /// How many tests each plan announces. There should be one plan.
    pub plans: Vec<usize>,
    /// The numbers of the results, in their order.
    pub numbers: Vec<usize>,
    /// The tests and what came of them, in their order.
    pub outcomes: Vec<(String, Outcome)>,
    /// The tests that failed.
    pub failures: Vec<Failure>,
    /// What the tests say of the guest's CPU, in lines `# about <what>: <text>`.
    pub about: Vec<(String, String)>,
}

impl Results {
    /// Reads a guest's output. Ignores lines that are not KTAP.
    pub fn parse(text: &str) -> Self {
        let mut results = Self::default();
        let mut diagnostics = Vec::new();
        let mut last = "";
        for line in text.lines() {
            if let Some(about) = line.strip_prefix("# about ") {
                let parts = about.split_once(": ");
                let parts = parts.map(|(what, text)| (what.to_owned(), text.to_owned()));
                results.about.extend(parts);
            } else if let Some(diagnostic) = line.strip_prefix("# ") {
                // A line that begins with a test's name follows that test.
                let of_last = diagnostic
                    .strip_prefix(last)
                    .is_some_and(|rest| !last.is_empty() && rest.starts_with(':'));
                if !of_last {
                    diagnostics.push(diagnostic.to_owned());
                }
            } else if let Some(plan) = line.strip_prefix("1..") {
                // No results can fulfil a plan that is not a number.
                results
                    .plans
                    .push(plan.trim().parse().unwrap_or(usize::MAX));
            } else if let Some(rest) = line.strip_prefix("ok ") {
                results.numbers.push(number(rest));
                let (name, directive) = result(rest);
                last = name;
                let skipped = directive.and_then(|why| why.strip_prefix("SKIP"));
                let outcome = skipped.map_or(Outcome::Passed, |why| {
                    Outcome::Skipped(why.trim().to_owned())
                });
                results.outcomes.push((name.to_owned(), outcome));
                diagnostics.clear();
            } else if let Some(rest) = line.strip_prefix("not ok ") {
                results.numbers.push(number(rest));
                let (name, why) = result(rest);
                last = name;
                results.outcomes.push((name.to_owned(), Outcome::Failed));
                results.failures.push(Failure {
                    name: name.to_owned(),
                    why: why
                        .map(str::to_owned)
                        .into_iter()
                        .chain(diagnostics.drain(..))
                        .collect(),
                });
            }
        }
        results
    }

    /// How many tests passed.
    pub fn passed(&self) -> usize {
        self.count(|outcome| *outcome == Outcome::Passed)
    }

    /// How many tests were skipped.
    pub fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Skipped(_)))
    }

    fn count(&self, is: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|(_, it)| is(it)).count()
    }

    /// How many tests of the plan have no result.
    pub fn missing(&self) -> usize {
        let planned = self.plans.first().copied().unwrap_or(0);
        planned.saturating_sub(self.numbers.len())
    }

    /// Why these results prove nothing although no test failed or is missing.
    pub fn trouble(&self) -> Option<String> {
        let [planned] = self.plans[..] else {
            return Some(format!("it printed {} plans, not one", self.plans.len()));
        };
        let mut numbers = self.numbers.clone();
        numbers.sort_unstable();
        if self.missing() == 0 && !numbers.iter().copied().eq(1..=planned) {
            return Some(format!(
                "its results are numbered {:?}, but the plan is 1..{planned}",
                self.numbers
            ));
        }
        (self.passed() == 0 && self.failures.is_empty() && self.missing() == 0)
            .then(|| format!("no test ran: {} were skipped", self.skipped()))
    }
}

/// The number in what follows "ok "; 0, which no plan has, if there is none.
fn number(rest: &str) -> usize {
    rest.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The name and the directive in what follows "ok ": `3 - name # directive`.
fn result(rest: &str) -> (&str, Option<&str>) {
    let (description, directive) = match rest.split_once(" # ") {
        Some((description, directive)) => (description, Some(directive)),
        None => (rest, None),
    };
    let name = description.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    (name.trim_start_matches("- ").trim(), directive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        let results = Results::parse(
            "KTAP version 1\n1..5\nok 1 other # SKIP no such event\nok 2 - a::exact\n\
             # a::exact: 5 ms\nnoise\n# expected 5\n# found 4\nnot ok 3 sum # 4 != 5\nok 4 more\n",
        );
        assert_eq!((results.passed(), results.skipped()), (2, 1));
        assert_eq!(
            results.outcomes[0],
            (
                "other".to_owned(),
                Outcome::Skipped("no such event".to_owned())
            )
        );
        assert_eq!(results.outcomes[1].0, "a::exact");
        assert_eq!(results.missing(), 1);
        assert_eq!(
            results.failures,
            [Failure {
                name: "sum".to_owned(),
                why: vec![
                    "4 != 5".to_owned(),
                    "expected 5".to_owned(),
                    "found 4".to_owned()
                ],
            }]
        );
    }

    #[test]
    fn nothing_was_printed() {
        let results = Results::parse("");
        assert_eq!(results, Results::default());
        assert_eq!(results.missing(), 0);
        assert!(results.trouble().unwrap().contains("0 plans"));
    }

    #[test]
    fn each_test_of_one_plan_has_one_result() {
        let trouble = |text| Results::parse(text).trouble();
        assert_eq!(trouble("1..3\nok 2 a\nok 1 b\nok 3 c # SKIP\n"), None);
        // A missing result is counted elsewhere.
        assert_eq!(trouble("1..3\nok 1 a\nok 2 b\n"), None);
        for bad in [
            "1..3\nok 1 a\nok 1 b\nok 2 c\n",
            "1..3\nok 1 a\nok 2 b\nok 3 c\nok 4 d\nok 5 e\n",
            "1..1\nok a\n",
            "1..1\n1..1\nok 1 a\n",
            "1..0\n",
            "1..2\nok 1 a # SKIP\nok 2 b # SKIP\n",
        ] {
            assert!(trouble(bad).is_some(), "{bad}");
        }
    }
}
