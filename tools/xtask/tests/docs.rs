// SPDX-License-Identifier: GPL-2.0

//! Code in documentation is code that is built.

use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "rust_perf/examples/switch_pmu.rs";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(top().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The blocks of code of a language in a page.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("\n```{language}\n");
    page.split(start.as_str())
        .skip(1)
        .map(|rest| {
            let end = rest.find("\n```\n").expect("the block has an end");
            &rest[..=end]
        })
        .collect()
}

#[test]
fn the_page_lists_the_example() {
    assert_eq!(
        blocks(&read("docs/write-a-pmu.md"), "rust"),
        [read(EXAMPLE)]
    );
}

#[test]
fn the_example_is_about_60_lines() {
    let source = read(EXAMPLE);
    let code = source.lines().map(str::trim);
    let lines = code.filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(lines.count() <= 65);
}

/// The documentation of `perf/` has no code but the example, which `make test` builds as a
/// module.
#[test]
fn examples_of_perf_are_built() {
    let mut fences = Vec::new();
    for file in fs::read_dir(top().join("rust_perf/perf")).unwrap() {
        let path = file.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        let comments = source.lines().map(str::trim);
        let comments = comments.filter(|line| line.starts_with("//!") || line.starts_with("///"));
        let found = comments.filter(|line| line.contains("```")).count();
        if found > 0 {
            fences.push((path.file_name().unwrap().to_owned(), found));
        }
    }
    assert_eq!(fences, [("mod.rs".into(), 2)]);
    let included = "//! ```ignore\n\
                    #![doc = include_str!(\"../examples/switch_pmu.rs\")]\n\
                    //! ```\n";
    assert!(read("rust_perf/perf/mod.rs").contains(included));
}
