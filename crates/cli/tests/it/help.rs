//! The help texts, each in a golden file that a person reviews.

use crate::{golden, run};

/// All of them.
pub const COMMANDS: [&str; 21] = [
    "send",
    "receive",
    "capture",
    "replay",
    "load",
    "serve",
    "run",
    "sweep",
    "test",
    "report",
    "compare",
    "check",
    "explain",
    "convert",
    "archive",
    "ctl",
    "demo",
    "examples",
    "doctor",
    "completions",
    "man",
];

#[test]
fn help_texts_are_as_reviewed() {
    for command in COMMANDS {
        let ended = run(&[command, "--help"]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{command}");
        golden(&format!("help/{command}.txt"), &ended.out);
    }
    golden("help/wirebeat.txt", &run(&["--help"]).out);
}

#[test]
fn the_short_help_of_send_fits_two_screens() {
    let help = run(&["send", "-h"]).out;
    assert!(help.lines().count() < 100, "{help}");
    golden("help/send-short.txt", &help);
}

#[test]
fn without_a_command_the_help_says_what_there_is() {
    let ended = run(&[]);
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    assert!(COMMANDS.iter().all(|command| ended.err.contains(command)), "{}", ended.err);
}

#[test]
fn the_version_is_that_of_the_package() {
    let ended = run(&["--version"]);
    assert_eq!(ended.out, format!("wirebeat {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(ended.code, 0);
}
