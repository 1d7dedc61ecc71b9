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

/// What bash offers for a line: the completion function is called as bash calls it.
fn completed(words: &[&str]) -> Vec<String> {
    let script = run(&["completions", "bash"]).out;
    let (last, before) = (words.last().unwrap(), words[words.len() - 2]);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let call = format!(
        "COMP_WORDS=({}); COMP_CWORD={}; _wirebeat wirebeat '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let mut bash = Command::new("bash");
    let mut bash = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all((script + &call + "\n").as_bytes()).unwrap();
    let ended = bash.wait_with_output().unwrap();
    assert!(ended.status.success());
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_interfaces_commands_and_examples() {
    let interfaces: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in ["send", "receive", "run"] {
        let mut offered = completed(&["wirebeat", command, "--interface", ""]);
        offered.sort();
        let mut expected = interfaces.clone();
        expected.sort();
        assert_eq!(offered, expected, "{command}");
    }
    assert_eq!(completed(&["wirebeat", "send", "--interface", "lo"]), ["lo"]);
    assert_eq!(completed(&["wirebeat", "exa"]), ["examples"]);
    assert!(completed(&["wirebeat", "examples", ""]).contains(&"single".to_owned()));
    assert!(completed(&["wirebeat", "send", "--eng"]).contains(&"--engine".to_owned()));
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
