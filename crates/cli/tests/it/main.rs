//! The command from outside: what it prints and how it ends. Traffic is sent in `whole` only, inside
//! namespaces of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod archive_create;
mod archive_tools;
mod capture;
mod check;
mod control;
mod engines;
mod examples;
mod expectations;
mod explain;
mod forms;
mod generated;
mod help;
mod inputs;
mod interrupts;
mod listening;
mod memory;
mod methods;
mod metrics;
mod otlp;
mod output;
mod pages;
mod python;
mod rates;
mod report;
mod scenario;
mod scripts;
mod selftest;
mod sessions;
mod signals;
mod streams;
mod tui;
mod usage;
mod whole;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a command printed, and its exit code.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// The command, in an environment that does not depend on who runs the tests.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirebeat"));
    command.args(arguments).stdin(Stdio::null()).env_remove("WIREBEAT_KEY").env("COLUMNS", "100");
    command
}

fn run(arguments: &[&str]) -> Ended {
    let ended = command(arguments).output().unwrap();
    Ended {
        code: ended.status.code().expect("it was not ended by a signal"),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// Runs what has no blanks in its arguments.
fn line(line: &str) -> Ended {
    run(&line.split_whitespace().collect::<Vec<_>>())
}

/// Holds `text` against the golden file `name`. `UPDATE_GOLDEN=1` writes the files anew.
fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "{} differs; look at it with UPDATE_GOLDEN=1 and git diff. It should be:\n{text}",
        path.display()
    );
}

/// The names and paths of the examples.
fn examples() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut examples: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, path.to_str().unwrap().to_owned())
        })
        .collect();
    examples.sort();
    examples
}

/// A folder that is gone at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder =
            std::env::temp_dir().join(format!("wirebeat-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    /// The path of a file in it.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A file in it.
    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
