//! Rules on the sources themselves: where `unsafe` may stand, what pure code may not touch, what the
//! stages inside a crate may not know of each other, that no message is taken apart, and how long a file may be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::assert_none;
use crate::rust::{Code, Token};
use crate::workspace::Workspace;

/// Where `unsafe` may stand, from the root of the repository.
const UNSAFE: [&str; 12] = [
    "crates/engine-linux/",
    "crates/engine-dpdk/",
    "crates/host/src/card/ioctl.rs",
    "crates/host/src/clock.rs",
    "crates/host/src/large_pages.rs",
    "crates/host/src/socket_options.rs",
    "crates/host/src/tcp_info.rs",
    "crates/host/src/zero_copy.rs",
    "crates/packetdrill/src/abi.rs",
    "crates/stack/src/prefetch.rs",
    "crates/testbed/src/card_clock.rs",
    "crates/testbed/src/tunnel.rs",
];

/// Code that gets its time, its data and its randomness passed in.
const PURE: [&str; 10] = [
    "crates/units/src/",
    "crates/wire/src/",
    "crates/stack/src/",
    "crates/neighbours/src/",
    "crates/http/src/",
    "crates/traffic/src/",
    "crates/import/src/",
    "crates/explain/src/",
    "crates/meter/src/",
    "crates/report/src/",
];
/// Modules of `std` that reach the system, and names that do so by themselves.
const SYSTEM_MODULES: [&str; 4] = ["env", "fs", "process", "thread"];
const SYSTEM_NAMES: [&str; 8] =
    ["Instant", "TcpListener", "TcpStream", "UdpSocket", "eprintln", "now", "print", "println"];

/// Modules that code may not name: in which folder, of which crate, which ones, and the rule.
const MAY_NOT_NAME: &[(&str, &str, &[&str], &str)] = &[
    (
        "crates/traffic/src/scenario/",
        "crate",
        &["compile", "schedule", "program"],
        "the language does not know what becomes of it",
    ),
    (
        "crates/traffic/src/schedule/",
        "crate",
        &["compile", "scenario"],
        "a schedule is made from a program, not from a scenario",
    ),
    (
        "crates/traffic/src/program/",
        "crate",
        &["compile", "scenario", "schedule"],
        "a program does not know how it was asked for",
    ),
    (
        "crates/traffic/src/distribution/",
        "crate",
        &["compile", "program", "scenario", "schedule", "values"],
        "the language has distributions, and they do not know the language",
    ),
    (
        "crates/traffic/src/values/",
        "crate",
        &["compile", "program", "scenario", "schedule"],
        "values are functions of a number; others write, compile and evaluate them",
    ),
    (
        "crates/traffic/src/text/",
        "crate",
        &["compile", "distribution", "program", "scenario", "schedule", "values"],
        "how text is read and written does not depend on what is written",
    ),
    (
        "crates/cli/src/",
        "wirebeat_traffic",
        &["compile", "schedule", "program"],
        "a control plane knows the language and leaves the rest to the run",
    ),
];

/// Lines before its tests that no file may exceed. The house style aims at 400.
const LINES_MAX: usize = 700;

/// A file of code, with its path from the root of the repository.
pub struct File {
    pub path: String,
    pub text: String,
}

/// The Rust files of the workspace in these folders of its packages, without those of tests only.
pub fn files(folders: &[&str]) -> Vec<File> {
    let workspace = Workspace::load();
    let mut paths = Vec::new();
    for package in workspace.members() {
        for folder in folders {
            collect(&package.folder.join(folder), &mut paths);
        }
    }
    let read = |path: &PathBuf| File {
        path: workspace.shown(path).to_string(),
        text: fs::read_to_string(path).unwrap(),
    };
    let files: Vec<File> = paths.iter().map(read).collect();
    let of_tests: BTreeSet<PathBuf> = files
        .iter()
        .flat_map(|file| {
            let folder = folder_of_modules(Path::new(&file.path));
            Code::read(&file.text).test_modules.into_iter().map(move |name| folder.join(name))
        })
        .collect();
    assert!(files.len() > 50, "only {} files found", files.len());
    let in_tests = |path: &Path| path.with_extension("").ancestors().any(|p| of_tests.contains(p));
    files.into_iter().filter(|file| !in_tests(Path::new(&file.path))).collect()
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| collect(entry, paths));
    } else if path.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
        paths.push(path.to_owned());
    }
}

/// Where the files of the modules lie that the file at `path` declares.
fn folder_of_modules(path: &Path) -> PathBuf {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") => path.parent().unwrap().to_owned(),
        _ => path.with_extension(""),
    }
}

/// The files below one of the `places`.
fn below<'a>(files: &'a [File], places: &'a [&str]) -> impl Iterator<Item = &'a File> {
    files.iter().filter(|file| places.iter().any(|place| file.path.starts_with(place)))
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let files = files(&["src", "tests", "examples", "benches", "build.rs"]);
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| !UNSAFE.iter().any(|place| file.path.starts_with(place)))
    {
        // Tests and all: so that a cut does not hide any.
        for token in crate::rust::tokens(&file.text).iter().filter(|token| token.text == "unsafe") {
            violations.push(format!("{}:{}", file.path, token.line));
        }
    }
    assert_none(&violations, "unsafe code outside the crates that may hold it");
}

#[test]
fn pure_code_touches_no_system() {
    let files = files(&["src"]);
    assert!(below(&files, &PURE).count() > 30);
    let mut violations = Vec::new();
    for file in below(&files, &PURE) {
        let code = Code::read(&file.text);
        for (at, token) in code.tokens.iter().enumerate() {
            if reaches_the_system(&code.tokens, at) {
                violations.push(format!("{}:{}: {}", file.path, token.line, token.text));
            }
        }
    }
    assert_none(&violations, "pure code gets time, data and output passed in");
}

/// Whether the word at `at` is a name that reaches the system, or a module of `std` that does.
fn reaches_the_system(tokens: &[Token<'_>], at: usize) -> bool {
    let text = |index: Option<usize>| index.and_then(|i| tokens.get(i)).map_or("", |t| t.text);
    let path_before = text(at.checked_sub(1)) == ":" && text(at.checked_sub(2)) == ":";
    match tokens[at].text {
        "now" => path_before,
        name if SYSTEM_NAMES.contains(&name) => true,
        module if SYSTEM_MODULES.contains(&module) => {
            let in_std = path_before && text(at.checked_sub(3)) == "std";
            in_std || (text(Some(at + 1)) == ":" && text(Some(at + 2)) == ":")
        }
        _ => false,
    }
}

#[test]
fn stages_do_not_know_those_after_them() {
    let files = files(&["src"]);
    let mut violations = Vec::new();
    for &(place, root, modules, rule) in MAY_NOT_NAME {
        assert!(below(&files, &[place]).next().is_some(), "there is nothing in {place}");
        for file in below(&files, &[place]) {
            let code = Code::read(&file.text);
            for module in modules.iter().filter(|module| names(&code.tokens, root, module)) {
                violations.push(format!("{} names {root}::{module}: {rule}", file.path));
            }
        }
    }
    assert_none(&violations, "modules that know too much");
}

/// Whether `root::module` is named, alone or in a group: `use root::{other, module::Name};`.
fn names(tokens: &[Token<'_>], root: &str, module: &str) -> bool {
    let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
    let after_root = words.windows(3).enumerate().filter(|(_, path)| *path == [root, ":", ":"]);
    after_root.map(|(at, _)| &words[at + 3..]).any(|rest| {
        let Some((&"{", group)) = rest.split_first() else { return rest.first() == Some(&module) };
        // The first words of the group's members stand at its own depth, behind `{` or `,`.
        let (mut depth, mut before) = (1, "{");
        for &word in group {
            match word {
                _ if depth == 1 && word == module && ["{", ","].contains(&before) => return true,
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return false;
            }
            before = word;
        }
        false
    })
}

#[test]
fn modules_are_found_alone_and_in_groups() {
    let names = |source| names(&crate::rust::tokens(source), "crate", "scenario");
    for source in [
        "use crate::scenario::A;",
        "let a = crate::scenario::a();",
        "use crate::{a::{b}, scenario};",
    ] {
        assert!(names(source), "{source}");
    }
    for source in [
        "use crate::a::scenario;",
        "use crate::{a::{b, scenario}};",
        "use crate::{a}; use b::{scenario};",
    ] {
        assert!(!names(source), "{source}");
    }
}

#[test]
fn a_remedy_is_a_field_and_not_looked_for_in_a_sentence() {
    let calls = ["split", "split_once", "rsplit_once", "splitn", "find", "rfind", "match_indices"];
    let files = files(&["src"]);
    let taken_apart = files.iter().flat_map(|file| {
        let found = calls.iter().filter(|call| file.text.contains(&format!(".{call}(\"; \")")));
        found.map(|call| format!("{}: {call}: keep a `units::Fault` instead", file.path))
    });
    let taken_apart: Vec<String> = taken_apart.collect();
    assert_none(&taken_apart, "sentences that are taken apart");
}

#[test]
fn no_file_is_longer_than_a_reader_can_bear() {
    let files = files(&["src", "build.rs"]);
    let long = files.iter().filter_map(|file| {
        let lines = Code::read(&file.text).lines;
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", file.path))
    });
    let long: Vec<String> = long.collect();
    assert_none(&long, &format!("files of more than {LINES_MAX} lines before their tests"));
}
