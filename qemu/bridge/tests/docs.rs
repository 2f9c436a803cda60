// SPDX-License-Identifier: GPL-2.0

//! README.md and the manual page have the grammar of `pmu-fault` that is parsed.

use std::{fs, path::Path};

use pmu_model::{Foreign, FAULT_FORMS};

/// A file of the project.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines between a line that begins with `first` and the next one that begins with `last`.
fn part<'a>(text: &'a str, first: &str, last: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(first));
    let lines = lines.skip(1).take_while(|line| !line.starts_with(last));
    let lines: Vec<_> = lines.collect();
    assert!(!lines.is_empty(), "{first}");
    lines
}

#[test]
fn the_readme_has_each_form() {
    let readme = read("qemu/README.md");
    let section = part(&readme, "### A PMU with a defect", "### ");
    let rows = section.iter().filter_map(|line| line.strip_prefix("| `"));
    let mut forms: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(forms.remove(0), "pmu-fault=");
    assert_eq!(forms, FAULT_FORMS);
    let section = section.join("\n");
    for register in Foreign::ALL {
        assert!(section.contains(&format!("`{}`", register.name())));
    }
}

/// The text of a line of mdoc(7) without its macros.
fn without_macros(line: &str) -> String {
    let is_macro = |word: &&str| [".It", "Cm", "Ns", "Ar"].contains(word);
    line.split(' ').filter(|word| !is_macro(word)).collect()
}

#[test]
fn the_manual_page_has_each_form() {
    let page = read("packaging/qemu/qemu-system-x86_64-pmu.1");
    let list = part(&page, ".It Cm pmu-fault", ".El");
    let forms = list.iter().filter(|line| line.starts_with(".It "));
    let forms: Vec<_> = forms
        .map(|line| without_macros(line).to_lowercase())
        .collect();
    assert_eq!(forms, FAULT_FORMS.map(str::to_lowercase));
    let section = part(&page, ".It Cm pmu-fault", ".Ss ");
    for register in Foreign::ALL {
        let name = format!(".Cm {}", register.name());
        assert!(section.iter().any(|line| line.starts_with(&name)), "{name}");
    }
}
