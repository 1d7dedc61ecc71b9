//! Where results go, and that a reader who goes away is no disaster.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::{Scratch, command, line, run};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn with_json_errors_are_json_too() {
    for arguments in [
        "send --to nowhere --json -",
        "send --json=- --unknown",
        "send --json -",
        "run --json - /nonexistent/scenario.yaml",
        "receive --engine kernel --json -",
    ] {
        let ended = line(arguments);
        assert_eq!((ended.code, ended.err.as_str()), (2, ""), "{arguments}");
        let error = json(&ended.out);
        assert_eq!(error["error"]["exit_code"], 2, "{arguments}");
        assert!(error["error"]["message"].as_str().unwrap().len() > 10, "{arguments}");
        assert_eq!(error["command_line"][1], arguments.split(' ').next().unwrap());
    }
}

#[test]
fn an_error_goes_to_the_file_that_the_report_would_have_gone_to() {
    let scratch = Scratch::new("error-file");
    let file = scratch.file("report.json", b"of an earlier run");
    let ended = run(&["run", "/nonexistent/scenario.yaml", "--json", &file]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.starts_with("error: cannot read the scenario"), "{}", ended.err);
    assert_eq!(json(&fs::read_to_string(&file).unwrap())["error"]["exit_code"], 2);
}

#[test]
fn a_command_line_that_is_not_understood_writes_no_file() {
    let scratch = Scratch::new("not-understood");
    let scenario = scratch.file("scenario.yaml", b"ports: {}\nflows: {}\n");
    // The file of --json was forgotten, and the scenario taken for it.
    let ended = run(&["run", "--json", &scenario]);
    assert_eq!(ended.code, 2);
    assert_eq!(fs::read(&scenario).unwrap(), b"ports: {}\nflows: {}\n");
}

#[test]
fn doctor_tells_what_it_found_in_either_form() {
    let text = run(&["doctor"]);
    for word in ["Engines", "kernel", "packet", "socket", "Machine"] {
        assert!(text.out.contains(word), "{}", text.out);
    }
    let found = json(&run(&["doctor", "--json"]).out);
    assert_eq!(found["schema_version"], "1");
    assert_eq!(found["engines"].as_array().unwrap().len(), 3);
    let scratch = Scratch::new("doctor");
    let file = scratch.path("doctor.json");
    assert!(run(&["doctor", "--json", &file]).out.starts_with("Engines"));
    assert!(json(&fs::read_to_string(&file).unwrap())["facts"]["machine"].is_object());
}

#[test]
fn a_reader_who_goes_away_is_no_failure() {
    for arguments in [&["--help"][..], &["completions", "zsh"], &["man"], &["doctor"]] {
        let mut child =
            command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{arguments:?}");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn keys_are_kept_out_of_what_is_written() {
    let ended = line("send --to 10.0.0.2 --key s3cret --json -");
    assert_eq!(ended.code, 2);
    assert!(!ended.out.contains("s3cret"), "{}", ended.out);
}
