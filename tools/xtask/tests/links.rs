// SPDX-License-Identifier: GPL-2.0

//! Whatever a page names is there: links, headings, files, and pages that comments name.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders that are built, or that Git keeps for itself.
const NOT_SOURCE: &[&str] = &[".git", "out", "target"];

/// Folders whose files pages name in code, and what the names start from.
const NAMED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "docs",
            "packaging",
            "pmu-model",
            "qemu",
            "rust_perf",
            "tests",
            "tools",
        ],
    ),
    (
        "rust_perf",
        &[
            "bindings",
            "core_pmu",
            "perf",
            "pmc",
            "system",
            "trace_pmu",
            "x86",
        ],
    ),
];

/// How many lines the README may have: the rest is in docs.
const README_LINES: usize = 200;

fn top() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap().to_owned()
}

/// The files below a folder, by their paths from the top of the checkout.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(top().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (folder.join(entry.file_name()), entry.file_type().unwrap());
        if kind.is_file() {
            found.push(path);
        } else if kind.is_dir() && NOT_SOURCE.iter().all(|it| entry.file_name() != *it) {
            files(&path, found);
        }
    }
}

fn all_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(Path::new(""), &mut found);
    found
}

/// What is in a page that names something else.
#[derive(Default)]
struct Page {
    /// The destinations of links and images.
    links: Vec<String>,
    /// The names by which links reach its headings.
    anchors: BTreeSet<String>,
    /// What stands in code within the text.
    code: Vec<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let text = heading.take().unwrap_or_default();
                    page.add_anchor(&anchor(&text));
                }
                Event::Text(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                    page.code.push(text.into_string());
                }
                _ => {}
            }
        }
        page
    }

    /// A heading that repeats an earlier one gets a number.
    fn add_anchor(&mut self, name: &str) {
        let numbered = (1..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|it| !self.anchors.contains(it));
        self.anchors.extend(free);
    }
}

/// The name by which a link reaches a heading, as GitHub and GitLab make it.
fn anchor(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter_map(|it| match it {
        ' ' => Some('-'),
        '-' | '_' => Some(it),
        _ => it.is_alphanumeric().then_some(it),
    });
    kept.collect()
}

fn pages() -> BTreeMap<PathBuf, Page> {
    let pages = all_files();
    let pages = pages
        .into_iter()
        .filter(|it| it.extension() == Some("md".as_ref()));
    pages
        .map(|path| {
            let text = fs::read_to_string(top().join(&path)).unwrap();
            (path, Page::parse(&text))
        })
        .collect()
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(normal.pop(), "{}", path.display()),
            part => normal.push(part),
        }
    }
    normal
}

/// What is wrong with a link of a page.
fn fault(pages: &BTreeMap<PathBuf, Page>, from: &Path, link: &str) -> Option<&'static str> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => from.to_owned(),
        file => normal(&from.parent().unwrap().join(file)),
    };
    if !top().join(&target).exists() {
        return Some("there is no such file");
    }
    let has_anchor = |page: &Page| page.anchors.contains(anchor);
    (!anchor.is_empty() && !pages.get(&target).is_some_and(has_anchor))
        .then_some("there is no such heading")
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    assert!(!pages.is_empty());
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            if let Some(why) = fault(&pages, path, link) {
                wrong.push(format!("{}: {link}: {why}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether code in a page is the path of a file or a folder.
fn is_path(code: &str) -> bool {
    let is_of_path = |it: char| it.is_ascii_alphanumeric() || "_./-".contains(it);
    let last = code.rsplit('/').next().unwrap_or(code);
    let ends = last.is_empty() || Path::new(last).extension().is_some();
    // NAME stands for a name.
    code.chars().all(is_of_path) && ends && !code.contains("NAME")
}

#[test]
fn files_that_pages_name_exist() {
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        for code in page.code.iter().filter(|it| is_path(it)) {
            let Some((first, _)) = code.split_once('/') else {
                continue;
            };
            let named = NAMED.iter().find(|(_, folders)| folders.contains(&first));
            if named.is_some_and(|(start, _)| !top().join(start).join(code).exists()) {
                wrong.push(format!("{}: there is no {code}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The guest tests, by their themes: sections and rows of the page that lists them.
fn guest_tests(page: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let sections = page.split("\n## ").skip(1);
    sections
        .map(|section| {
            let (theme, rows) = section.split_once('\n').unwrap();
            let rows = rows.lines().filter_map(|row| row.strip_prefix("| `"));
            (
                theme,
                rows.filter_map(|row| Some(row.split_once('`')?.0))
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn guest_tests_that_pages_name_exist() {
    let list = Path::new("docs/results/tests.md");
    let text = fs::read_to_string(top().join(list)).unwrap();
    let tests = guest_tests(&text);
    let mut wrong = Vec::new();
    // Results have their own checks, and name host tests besides.
    let results = list.parent().unwrap();
    let pages = pages();
    for (path, page) in pages.iter().filter(|(path, _)| !path.starts_with(results)) {
        for code in &page.code {
            let Some((theme, name)) = code.split_once("::") else {
                continue;
            };
            let is_name = name
                .chars()
                .all(|it| it.is_ascii_lowercase() || "_0123456789".contains(it));
            // Code of the driver has such names, too.
            let theme = tests.get(theme).filter(|_| is_name);
            if theme.is_some_and(|theme| !theme.contains(name)) {
                wrong.push(format!("{}: there is no test {code}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Comments, messages and scripts name pages by their paths from the top.
#[test]
fn pages_that_other_files_name_exist() {
    let mut wrong = Vec::new();
    for path in all_files() {
        let Ok(text) = fs::read_to_string(top().join(&path)) else {
            continue;
        };
        let is_of_path = |it: char| it.is_ascii_alphanumeric() || "_./-".contains(it);
        let words = text.split(|it| !is_of_path(it));
        let named = words.filter(|it| it.starts_with("docs/") && it.ends_with(".md"));
        for page in named.filter(|it| !top().join(it).exists()) {
            wrong.push(format!("{}: there is no {page}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let readme = fs::read_to_string(top().join("README.md")).unwrap();
    assert!(readme.lines().count() <= README_LINES);
}

#[test]
fn anchors_are_those_of_a_forge() {
    let page = Page::parse("# `slots` with `config1`, twice\n\n## A_b (c)\n\n## A_b (c)\n");
    let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["a_b-c", "a_b-c-1", "slots-with-config1-twice"]);
}

#[test]
fn wrong_links_are_found() {
    let page = Page::parse("# One\n\n[a](b.md) [c](#one) ![d](e.svg) `[f](g.md)`\n");
    assert_eq!(page.links, ["b.md", "#one", "e.svg"]);
    let readme = Path::new("docs/README.md");
    let pages = BTreeMap::from([(readme.to_owned(), page)]);
    let fault = |link| fault(&pages, readme, link);
    assert_eq!(fault("#one"), None);
    assert_eq!(fault("../docs/README.md#one"), None);
    assert_eq!(fault("https://www.kernel.org/#none"), None);
    assert_eq!(fault("../COPYING"), None);
    assert!(fault("no-such-page.md").is_some());
    assert!(fault("#two").is_some());
    assert!(fault("../COPYING#one").is_some());
}
