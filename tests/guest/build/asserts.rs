// SPDX-License-Identifier: GPL-2.0
//! What each test asserts: the first paragraph of its doc comment, which it must have.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A Rust file.
struct Source {
    path: PathBuf,
    text: String,
}

/// Rust code of the table `THEMES`: name, what it is about, and name and text of each test.
pub fn table(src: &Path) -> Result<String> {
    let mut themes = Vec::new();
    for file in files(&src.join("tests"))? {
        let name = stem(&file.path);
        let parts = files(&src.join("tests").join(&name))?;
        themes.push((name, file, parts));
    }
    let mut stress = files(&src.join("stress"))?;
    let main = stress
        .iter()
        .position(|file| stem(&file.path) == "mod")
        .ok_or("no stress/mod.rs")?;
    let main = stress.swap_remove(main);
    themes.push(("stress".to_owned(), main, stress));
    themes.sort_by(|a, b| a.0.cmp(&b.0));

    let mut table = "pub const THEMES: &[Theme] = &[\n".to_owned();
    for (name, file, parts) in &themes {
        println!("cargo::rerun-if-changed={}", file.path.display());
        let mut tests = names(&file.text);
        tests.dedup();
        if tests.is_empty() {
            continue;
        }
        let about = paragraph(file.text.lines(), "//!");
        writeln!(
            table,
            "Theme {{ name: {name:?}, about: {about:?}, tests: &["
        )?;
        for test in &tests {
            let text = text_of(file, parts, test)?;
            writeln!(table, "({test:?}, {text:?}),")?;
        }
        writeln!(table, "] }},")?;
    }
    table.push_str("];\n");
    Ok(table)
}

/// The Rust files of a directory, which may not exist.
fn files(dir: &Path) -> Result<Vec<Source>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            files.push(Source { path, text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The names in all lists `tests![…]` of a file, each once.
fn names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for list in text.split(" tests![").skip(1) {
        let mut depth = 1;
        let mut name = String::new();
        for line in list.lines() {
            let code = line.split("//").next().unwrap_or_default();
            for c in code.chars() {
                depth += match c {
                    '[' => 1,
                    ']' => -1,
                    _ => 0,
                };
                match c {
                    // What all tests need.
                    ';' => name.clear(),
                    ',' | ']' if depth <= 1 && !name.contains(' ') => {
                        let name = std::mem::take(&mut name);
                        if !name.is_empty() && !names.contains(&name) {
                            names.push(name);
                        }
                    }
                    // The needs of a test.
                    ':' if depth == 1 => {
                        let name = std::mem::take(&mut name);
                        if !names.contains(&name) {
                            names.push(name);
                        }
                    }
                    c if depth == 1 && (c.is_alphanumeric() || "_ ".contains(c)) => {
                        if c != ' ' || !name.is_empty() {
                            name.push(c);
                        }
                    }
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

/// What a test asserts.
fn text_of(file: &Source, parts: &[Source], test: &str) -> Result<String> {
    // `use part::{function as test};`
    let words: Vec<_> = file.text.split([' ', ',', '{', '}', ';', '\n']).collect();
    let function = words
        .windows(3)
        .find(|it| it[1] == "as" && it[2] == test)
        .map_or(test, |it| it[0].rsplit(':').next().unwrap_or(it[0]));
    let start = format!("fn {function}(");
    for source in [file].into_iter().chain(parts) {
        let lines: Vec<_> = source.text.lines().collect();
        let is_here = |line: &&str| {
            line.strip_prefix("pub(super) ")
                .or(line.strip_prefix("pub "))
                .unwrap_or(line)
                .starts_with(&start)
        };
        let Some(at) = lines.iter().position(is_here) else {
            continue;
        };
        let is_above = |line: &&&str| line.starts_with("///") || line.starts_with("#[");
        let above = lines[..at].iter().rev().take_while(is_above).count();
        let text = paragraph(lines[at - above..at].iter().copied(), "///");
        if text.is_empty() {
            let path = source.path.display();
            return Err(format!(
                "{path}: say in a doc comment of {function}() what the test asserts"
            )
            .into());
        }
        return Ok(text);
    }
    Err(format!("{}: no function {function}", file.path.display()).into())
}

/// The first paragraph of the comments that begin like this.
fn paragraph<'a>(lines: impl Iterator<Item = &'a str>, mark: &str) -> String {
    let comments = lines.filter_map(|line| line.strip_prefix(mark));
    let first = comments.map(str::trim).take_while(|line| !line.is_empty());
    first.collect::<Vec<_>>().join(" ")
}
