// SPDX-License-Identifier: GPL-2.0

//! Reads test results in KTAP version 1 (Documentation/dev-tools/ktap.rst of
//! the kernel), of which guest tests use the flat form.

/// A test that failed.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// Its name.
    pub name: String,
    /// The reason on its line, and the diagnostic lines above it.
    pub why: Vec<String>,
}

/// The results so far.
#[derive(Debug, Default, PartialEq)]
pub struct Results {
    /// How many tests there are, from the plan.
    pub planned: Option<usize>,
    /// How many passed.
    pub passed: usize,
    /// How many were skipped.
    pub skipped: usize,
    /// Those that failed.
    pub failures: Vec<Failure>,
}

impl Results {
    /// Reads what a guest printed. Lines that are not KTAP are no concern of it.
    pub fn parse(text: &str) -> Self {
        let mut results = Self::default();
        let mut diagnostics = Vec::new();
        for line in text.lines() {
            if let Some(diagnostic) = line.strip_prefix("# ") {
                diagnostics.push(diagnostic.to_owned());
            } else if let Some(plan) = line.strip_prefix("1..") {
                results.planned = plan.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("ok ") {
                match result(rest) {
                    (_, Some(why)) if why.starts_with("SKIP") => results.skipped += 1,
                    _ => results.passed += 1,
                }
                diagnostics.clear();
            } else if let Some(rest) = line.strip_prefix("not ok ") {
                let (name, why) = result(rest);
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

    /// How many tests the plan has that gave no result.
    pub fn missing(&self) -> usize {
        let seen = self.passed + self.skipped + self.failures.len();
        self.planned.unwrap_or(0).saturating_sub(seen)
    }
}

/// The name and the directive of what follows "ok ": `3 - name # directive`.
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
            "KTAP version 1\n1..5\nok 1 exact\n# exact: 5 ms\nok 2 - other # SKIP no such event\n\
             noise\n# expected 5\n# found 4\nnot ok 3 sum # 4 != 5\nok 4 more\n",
        );
        assert_eq!((results.passed, results.skipped), (2, 1));
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
    }
}
