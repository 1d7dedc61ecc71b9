//! What is made from the definition of the command line: completions and manual pages.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::help::COMMANDS;
use crate::{Scratch, line, run};

#[test]
fn completions_know_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = run(&["completions", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{shell}");
        for word in ["receive", "print-scenario", "kernel", "hybrid"] {
            assert!(ended.out.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_completions_of_bash_are_bash() {
    let script = run(&["completions", "bash"]).out;
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = run(&["man"]).out;
    assert!(page.contains(".TH wirebeat 1") && page.contains(".SH EXIT CODES"), "{page}");
    let scratch = Scratch::new("man");
    let folder = scratch.path("");
    assert_eq!(line(&format!("man {folder}")).code, 0);
    for command in COMMANDS {
        let page = fs::read_to_string(scratch.path(&format!("wirebeat-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH wirebeat-{command} 1")), "{page}");
    }
    assert!(scratch.0.join("wirebeat.1").exists());
}
