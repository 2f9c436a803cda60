// SPDX-License-Identifier: GPL-2.0

//! The modules of the model are layers: none needs one that needs it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The modules that a file names as `crate::module` or in `use crate::{…}`, but for comments.
fn needed(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect();
    let code = code.join(" ");
    let mut found = BTreeSet::new();
    for (_, rest) in code
        .match_indices("crate::")
        .map(|(i, it)| (i, &code[i + it.len()..]))
    {
        match rest.strip_prefix('{') {
            Some(list) => found.extend(of_list(list)),
            None => found.extend(first_name(rest)),
        }
    }
    found
}

/// The first name of each element of a list of a `use`.
fn of_list(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut starts = vec![0];
    for (i, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(i + 1),
            _ => {}
        }
    }
    starts
        .iter()
        .filter_map(|&i| first_name(&list[i..]))
        .collect()
}

fn first_name(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let name: String = text
        .trim_start()
        .chars()
        .take_while(|&c| is_part(c))
        .collect();
    (!name.is_empty()).then_some(name)
}

#[test]
fn modules_are_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files(&src) {
        let within = path.strip_prefix(&src).unwrap();
        let first = within.iter().next().unwrap().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if module != "lib" {
            let text = fs::read_to_string(&path).unwrap();
            needs
                .entry(module.to_owned())
                .or_default()
                .extend(needed(&text));
        }
    }
    for (module, others) in &mut needs {
        others.remove(module);
        let is_name = |name: &String| name.starts_with(char::is_uppercase);
        let names: Vec<_> = others.iter().filter(|it| is_name(it)).collect();
        assert!(
            names.is_empty(),
            "{module}: {names:?} by the name that lib.rs gives it"
        );
    }
    assert!(needs["pmu"].len() > 10, "{needs:?}");
    // The lowest layer goes, until none is left.
    while !needs.is_empty() {
        let lowest = needs.iter().filter(|(_, others)| others.is_empty());
        let lowest: Vec<String> = lowest.map(|(module, _)| module.clone()).collect();
        assert!(!lowest.is_empty(), "in a circle, or above one: {needs:#?}");
        needs.retain(|module, _| !lowest.contains(module));
        for others in needs.values_mut() {
            others.retain(|other| !lowest.contains(other));
        }
    }
}
