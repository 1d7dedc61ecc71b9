//! The licences of all dependencies allow Wirebeat to be MIT or Apache-2.0, at the user's choice.
//!
//! The list of licences is that of `deny.toml`, which cargo-deny reads as well where it runs. This
//! test needs neither that program nor a network.

use std::fs;

use crate::assert_none;
use crate::spdx::satisfied;
use crate::workspace::Workspace;

#[test]
fn every_dependency_has_a_licence_that_deny_toml_allows() {
    let workspace = Workspace::load();
    let deny = fs::read_to_string(workspace.root.join("deny.toml")).unwrap();
    let allowed = allowed(&deny);
    let mut violations = Vec::new();
    for package in &workspace.packages {
        let licence = package.licence.as_deref().unwrap_or_default();
        match satisfied(licence, &allowed) {
            Ok(true) => {}
            Ok(false) => {
                violations.push(format!("{} {}: {licence}", package.name, package.version))
            }
            Err(why) => violations.push(format!("{} {}: {why}", package.name, package.version)),
        }
    }
    assert_none(&violations, "licences that are not in the list 'allow' of deny.toml");
}

#[test]
fn every_kernel_program_names_its_licences() {
    const SPDX: &str = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause";
    let folder = Workspace::load().root.join("bpf");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let programs: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(!programs.is_empty());
    let unnamed = programs.iter().filter(|path| {
        let text = fs::read_to_string(path).unwrap();
        !text.lines().next().is_some_and(|line| line.contains(SPDX))
    });
    let unnamed: Vec<String> = unnamed.map(|path| path.display().to_string()).collect();
    assert_none(&unnamed, &format!("files whose first line does not say '{SPDX}'"));
}

/// The strings of `allow = [ … ]` in the table `[licenses]`.
fn allowed(deny: &str) -> Vec<&str> {
    let table = deny.split_once("[licenses]").expect("deny.toml has no table [licenses]").1;
    let list = table.split_once("\nallow = [").expect("[licenses] has no list 'allow'").1;
    let list = list.split_once(']').expect("the list 'allow' has no end").0;
    let entries = list.lines().filter_map(|line| line.trim().strip_prefix('"'));
    let entries: Vec<&str> =
        entries.filter_map(|entry| entry.split_once('"')).map(|e| e.0).collect();
    assert!(entries.contains(&"MIT"), "the list 'allow' was not understood: {entries:?}");
    entries
}

#[test]
fn the_list_is_read_as_cargo_deny_reads_it() {
    let deny = "[advisories]\n[licenses]\nconfidence-threshold = 0.9\nallow = [\n  \"MIT\", # \"X\"\n  \"ISC\",\n]\nexceptions = [\"no\"]\n";
    assert_eq!(allowed(deny), ["MIT", "ISC"]);
}
