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
        "send --to 10.0.0 --json -",
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
    let file =
        scratch.file("report.json", b"{ \"schema_version\": \"4\", \"of\": \"an earlier run\" }");
    let ended = run(&["run", "/nonexistent/scenario.yaml", "--json", &file]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.starts_with("error: cannot read the scenario"), "{}", ended.err);
    assert_eq!(json(&fs::read_to_string(&file).unwrap())["error"]["exit_code"], 2);
}

#[test]
fn a_result_replaces_no_file_of_another_kind() {
    let scratch = Scratch::new("replaced");
    let content: &[u8] = b"ports: {}\nflows: {}\n";
    let scenario = scratch.file("scenario.yaml", content);
    for command in ["run", "check"] {
        let ended = run(&[command, &scenario, "--json", &scenario]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains("which is no result in json"), "{ended:?}");
        assert!(ended.err.contains("hint: name another file"), "{ended:?}");
        assert_eq!(fs::read(&scenario).unwrap(), content);
    }
    let empty = scratch.file("empty.json", b"");
    for _ in 0..2 {
        let ended = run(&["check", &scenario, "--json", &empty]);
        assert!(!ended.err.contains("which is no result"), "{ended:?}");
        assert_eq!(json(&fs::read_to_string(&empty).unwrap())["schema_version"], "1");
    }
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
    let engines = found["engines"].as_array().unwrap();
    let names: Vec<&str> = engines.iter().map(|one| one["engine"].as_str().unwrap()).collect();
    assert_eq!(names, ["kernel", "packet", "socket", "xdp", "null", "pcap", "loopback"]);
    assert!(engines.iter().all(|one| one["needs"].is_string()), "{found}");
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

/// A run of ten frames over loopback.
const RUN: [&str; 7] = ["send", "--to", "127.0.0.1:9", "--count", "10", "--rate", "1kpps"];

/// Without a standard output (`>&-`) the result was lost, and the exit code 0: Rust puts /dev/null in its place.
#[test]
fn a_closed_standard_output_takes_no_result() {
    let closed = |arguments: &[&str]| {
        let line = r#"exec "$0" "$@" >&-"#;
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line, env!("CARGO_BIN_EXE_wirebeat")]).args(arguments);
        let ended = shell.stderr(Stdio::piped()).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    for form in [&[][..], &["--json", "-"]] {
        let (code, told) = closed(&[&RUN[..], form].concat());
        assert_eq!(code, Some(5), "{told}");
        assert!(told.contains("standard output") && told.contains("it is closed"), "{told}");
        assert!(told.contains("every measurement: --details"), "the report is not there: {told}");
    }
    let scratch = Scratch::new("closed");
    let archive = scratch.path("a.wbar");
    let made = line(&format!("archive create {archive} --synthetic --records 5 --sampling 1ms"));
    assert_eq!(made.code, 0, "{made:?}");
    for arguments in [&["--help"][..], &["man"], &["archive", "slice", &archive, "-"]] {
        let (code, told) = closed(arguments);
        assert_eq!(code, Some(5), "{arguments:?}: {told}");
        assert!(told.contains("it is closed"), "{arguments:?}: {told}");
    }
    // an error is told all the same
    let (code, told) = closed(&["send", "--to", "10.0.0", "--json", "-"]);
    assert!(code == Some(2) && told.starts_with("error: "), "{told}");
}

/// Python gives /dev/null for reading and writing to its children, as it is put in the place of a closed one.
#[test]
fn a_standard_output_that_nobody_reads_is_no_closed_one() {
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let ended = command(&RUN).stdout(null).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// A disk that is full.
fn full() -> Stdio {
    fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn json_that_cannot_be_written_does_not_cost_the_text() {
    let ended = run(&[&RUN[..], &["--json", "/dev/full"]].concat());
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.out.contains("sent"), "{}", ended.out);
    assert!(ended.err.contains("cannot write the result") && ended.err.contains("/dev/full"));
    assert!(!ended.err.contains("nothing was sent"), "{}", ended.err);
}

#[test]
fn text_that_cannot_be_written_does_not_cost_the_json() {
    let scratch = Scratch::new("full-text");
    for (name, code) in [("full", 5), ("closed", 0)] {
        let file = scratch.path(name);
        let mut child = command(&[&RUN[..], &["--json", &file]].concat());
        child.stdout(if name == "full" { full() } else { Stdio::piped() }).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{name}: {ended:?}");
        let report = json(&fs::read_to_string(&file).unwrap());
        assert_eq!(report["total"]["sent"]["sent"]["frames"], 10, "{name}");
    }
}

#[test]
fn an_output_that_fails_hides_nothing_that_is_worse() {
    let scratch = Scratch::new("worse");
    // a record, and what is none
    let record = crate::streams::archive(1);
    let archive = scratch.file("broken.wbar", &[&record[..], &[0, 3, 9]].concat());
    let whole = scratch.file("whole.wbar", &record);
    for (line, code) in [
        (format!("replay {whole} --to 127.0.0.1 --json /dev/full"), 5),
        (format!("replay {archive} --to 127.0.0.1 --json /dev/full"), 1),
        ("send --to 10.0.0 --json /dev/full".to_owned(), 2),
    ] {
        let ended = crate::line(&line);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert_eq!(ended.out.contains("replay"), code != 2, "{line}: {ended:?}");
        let mut unread = command(&line.split(' ').collect::<Vec<_>>());
        let unread = unread.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(unread.status.code(), Some(code), "{line}: {unread:?}");
    }
}

#[test]
fn a_result_that_no_output_takes_is_told_on_standard_error() {
    for form in [&[][..], &["--json", "-"]] {
        let mut child = command(&[&RUN[..], form].concat());
        let ended = child.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(5), "{told}");
        assert!(told.contains("cannot write the result") && told.contains("p99"), "{told}");
    }
}

#[test]
fn documents_and_helps_that_cannot_be_written_end_with_five() {
    let scratch = Scratch::new("full");
    let scenario = scratch.file("scenario.yaml", b"ports: 5\n");
    for arguments in [
        &["--help"][..],
        &["man"],
        &["completions", "bash"],
        &["doctor"],
        &["send", "--to", "127.0.0.1:9", "--print-scenario"],
    ] {
        let ended = command(arguments).stdout(full()).output().unwrap();
        assert_eq!(ended.status.code(), Some(5), "{arguments:?}: {ended:?}");
    }
    let wrong = command(&["check", &scenario]).stdout(full()).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn the_table_of_exit_codes_is_the_same_everywhere() {
    let help = run(&["--help"]).out;
    let manual = run(&["man"]).out;
    for (exit, meaning) in wirebeat_run::Exit::TABLE {
        let (code, row) = (exit.code(), format!("| {} | {meaning} |", exit.code()));
        for page in ["README.md", "docs/cli.md"] {
            let path = format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"));
            assert!(fs::read_to_string(&path).unwrap().contains(&row), "{page}: {row}");
        }
        let line = format!("  {code}  {meaning}\n");
        assert!(help.contains(&line), "{help}");
        assert!(manual.contains(&line), "{manual}");
    }
}

#[test]
fn keys_are_kept_out_of_what_is_written() {
    let ended = line("send --to 10.0.0.2 --key s3cret --json -");
    assert_eq!(ended.code, 2);
    assert!(!ended.out.contains("s3cret"), "{}", ended.out);
}
