// SPDX-License-Identifier: GPL-2.0

//! Names chosen by globs.

use wildmatch::WildMatch;

/// Globs, with `*` for any characters and `?` for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Vec<WildMatch>);

impl Filter {
    /// Globs that are separated by white space.
    pub fn new(globs: &str) -> Self {
        Self(globs.split_whitespace().map(WildMatch::new).collect())
    }

    /// Whether there is no glob, so that nothing matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a glob matches a name, such as that of a suite.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(name))
    }

    /// Whether a glob matches the title of a test, `theme::name`. A glob without
    /// `::` is for the name alone.
    pub fn has_test(&self, title: &str) -> bool {
        self.0.iter().any(|glob| matches_test(glob, title))
    }

    /// The globs that match none of these names.
    pub fn unmatched<'a>(&self, names: impl IntoIterator<Item = &'a str> + Clone) -> Vec<String> {
        self.without(|glob| names.clone().into_iter().any(|name| glob.matches(name)))
    }

    /// The globs that match none of these tests.
    pub fn unmatched_tests<'a>(
        &self,
        titles: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Vec<String> {
        self.without(|glob| {
            let mut titles = titles.clone().into_iter();
            titles.any(|title| matches_test(glob, title))
        })
    }

    fn without(&self, matched: impl Fn(&WildMatch) -> bool) -> Vec<String> {
        let unmatched = self.0.iter().filter(|glob| !matched(glob));
        unmatched.map(ToString::to_string).collect()
    }
}

fn matches_test(glob: &WildMatch, title: &str) -> bool {
    let name = title.rsplit("::").next().unwrap_or(title);
    glob.matches(title) || glob.matches(name)
}

/// The names that look most like `glob`, best first, at most five.
pub fn nearest<'a>(glob: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // From 0 to 1: how alike two names must be to be shown.
    const THRESHOLD: f64 = 0.55;
    let plain = glob.replace(['*', '?'], "");
    let likeness = |name: &str| {
        let own = name.rsplit("::").next().unwrap_or(name);
        let distance = |name| strsim::normalized_damerau_levenshtein(&plain, name);
        let part = !plain.is_empty() && name.contains(plain.trim_end_matches(':'));
        distance(name)
            .max(distance(own))
            .max(if part { 0.8 } else { 0.0 })
    };
    let mut names: Vec<_> = names
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= THRESHOLD)
        .collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    names.dedup();
    names.into_iter().map(|(_, name)| name).take(5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_of_suites() {
        let filter = Filter::new("hw-* zhaoxin");
        assert!(filter.has("hw-v2") && filter.has("zhaoxin"));
        assert!(!filter.has("amd-hw-v2") && !filter.has("hw"));
        assert!(Filter::new("hw-v?").has("hw-v2"));
        assert!(Filter::new("  ").is_empty());
        assert!(!Filter::new("").has(""));
    }

    #[test]
    fn globs_of_tests() {
        let has = |globs, title| Filter::new(globs).has_test(title);
        assert!(has("sampling::no_skid", "sampling::no_skid"));
        assert!(!has("sampling::no_skid", "sampling::no_skid_at_branches"));
        assert!(has("sampling::*", "sampling::no_skid"));
        assert!(has("*::no_skid*", "sampling::no_skid_at_branches"));
        assert!(has("no_skid", "sampling::no_skid"));
        assert!(has("attr::x no_*", "sampling::no_skid"));
        assert!(!has("sampling", "sampling::no_skid"));
    }

    #[test]
    fn globs_that_match_nothing() {
        let filter = Filter::new("hw-* nothing");
        assert_eq!(filter.unmatched(["hw-v1", "hw-v2"]), ["nothing"]);
        let filter = Filter::new("a::* b c");
        assert_eq!(filter.unmatched_tests(["a::x", "y::b"]), ["c"]);
    }

    #[test]
    fn near_candidates() {
        let titles = [
            "sampling::no_skid",
            "sampling::no_skid_at_branches",
            "counting::fpu",
        ];
        assert_eq!(nearest("sampling::noskid", titles)[0], "sampling::no_skid");
        assert_eq!(nearest("skid", titles).len(), 2);
        assert_eq!(nearest("fpu*", titles), ["counting::fpu"]);
        assert_eq!(nearest("hw2", ["hw-v2", "sleep"]), ["hw-v2"]);
        assert_eq!(nearest("sampling", titles).len(), 2);
        assert_eq!(nearest("zzz", ["hw-v2", "sleep"]), [""; 0]);
    }
}
