//! `wirebeat report`: reports in JSON in every format and side by side, and what it says of files that are none. What it makes of
//! packet logs is tested beside `report_log`.

use std::fs;
use std::process::{Command, Stdio};

use crate::{Scratch, run};

#[test]
fn a_file_that_is_no_packet_log_is_told_with_its_remedy() {
    let scratch = Scratch::new("report");
    let missing = scratch.path("missing.parquet");
    let other = scratch.path("other.parquet");
    fs::write(&other, "time,port\n1,a\n").unwrap();
    for (file, told, hint) in [
        (&missing, "cannot be read", "a packet log in Parquet"),
        (&other, "it is a table in CSV", "a .parquet file that was written with --packet-log"),
    ] {
        for arguments in [vec!["report", file], vec!["report", "--repair", file]] {
            let ended = run(&arguments);
            assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
            assert!(ended.err.contains(told) && ended.err.contains(hint), "{}", ended.err);
            assert!(ended.err.contains(file.as_str()), "{}", ended.err);
        }
        let ended = run(&["report", file, "--json"]);
        assert!(ended.code == 2 && ended.out.contains("\"exit_code\": 2"), "{ended:?}");
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "time,port\n1,a\n");
}

/// A report with histograms.
const TWO_FLOWS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/golden/two_flows.json");

#[test]
fn a_report_in_json_is_shown_again_in_every_format() {
    let scratch = Scratch::new("report-formats");
    let [html, csv, markdown, pictures] =
        ["r.html", "r.csv", "r.md", "pictures"].map(|name| scratch.path(name));
    // written twice: what is there already is of ours
    for _ in 0..2 {
        let ended = run(&[
            "report",
            TWO_FLOWS,
            "--html",
            &html,
            "--csv",
            &csv,
            "--markdown",
            &markdown,
            "--pictures",
            &pictures,
        ]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
        assert!(ended.out.contains("voice") && ended.out.contains("bulk"), "{}", ended.out);
    }
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("id=\"distribution-delay-t\""));
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 4);
    assert!(fs::read_to_string(&markdown).unwrap().contains("| voice |"));
    let svg = fs::read_to_string(format!("{pictures}/distribution-delay.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    // the same report comes out as JSON
    let again = run(&["report", TWO_FLOWS, "--json", "--histograms"]);
    assert_eq!(again.out, fs::read_to_string(TWO_FLOWS).unwrap());
}

#[test]
fn several_reports_are_put_side_by_side() {
    let ended = run(&["report", TWO_FLOWS, TWO_FLOWS]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    assert!(
        ended.out.contains("flow voice") && ended.out.contains("as the first"),
        "{}",
        ended.out
    );
    let ended = run(&["report", TWO_FLOWS, TWO_FLOWS, "--csv"]);
    assert_eq!(ended.out.lines().count(), 7, "{}", ended.out);
}

#[test]
fn json_that_is_no_report_is_told_apart() {
    let scratch = Scratch::new("report-json");
    for (content, told) in [
        ("{}", "it is no report"),
        ("{", "it is cut short"),
        (r#"{"schema_version":"4","flows":[{"name":"vo"#, "it is cut short"),
        ("{\"from_ns\":0}\n{\"from_ns\":1}\n", "no report behind them"),
        ("{\"from_ns\":0}\n", "no report behind them"),
        ("{\"from_ns\":0}\n{\"schema_vers", "it is cut short"),
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("[]", "it is a list in JSON"),
        ("null\n", "it is a value in JSON"),
        ("loss of voice\n", "it is text"),
        (r#"{"schema_version":"3","flows":[]}"#, "schema version '3'"),
        (r#"{"schema_version":"9","test":"RFC 2544"}"#, "schema version '9'"),
        (r#"{"schema_version":"1","old_runs":5,"metrics":[]}"#, "what 'compare' wrote"),
        (r#"{"schema_version":"4","runs":[]}"#, "several runs"),
        (
            r#"{"schema_version":"4","error":{"message":"no such interface","exit_code":2}}"#,
            "there was no report: no such interface",
        ),
    ] {
        let file = scratch.file("x.json", content.as_bytes());
        let ended = run(&["report", &file]);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.contains(told) && ended.err.contains(&file), "{}", ended.err);
    }
}

/// A report of another version that has all that this one reads was shown as if it were of this one.
#[test]
fn a_report_of_another_version_is_refused_and_a_byte_order_mark_is_not() {
    let scratch = Scratch::new("report-version");
    let report = fs::read_to_string(TWO_FLOWS).unwrap();
    let other = report.replacen("\"schema_version\": \"4\"", "\"schema_version\": \"9\"", 1);
    assert_ne!(other, report);
    let other = scratch.file("other.json", other.as_bytes());
    let marked = scratch.file("marked.json", format!("\u{feff}{report}").as_bytes());
    for arguments in [
        vec!["report", &other],
        vec!["report", &marked, &other],
        vec!["compare", &other, "--", &marked],
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains("schema version '9', and this program reads 4"), "{ended:?}");
    }
    let shown = run(&["report", &marked]);
    assert!(shown.code == 0 && shown.out.contains("voice"), "{shown:?}");
    let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let refused = run(&["report", &scratch.file("wide.json", &wide)]);
    assert!(refused.code == 2 && refused.err.contains("UTF-16"), "{refused:?}");
}

/// `--json-lines` has the report in its last line.
#[test]
fn a_report_is_found_behind_the_lines_of_its_intervals() {
    let scratch = Scratch::new("report-lines");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(TWO_FLOWS).unwrap()).unwrap();
    let lines = format!("{{\"from_ns\":0}}\n{{\"from_ns\":1}}\n{report}\n");
    let ended = run(&["report", &scratch.file("x.jsonl", lines.as_bytes())]);
    assert!(ended.code == 0 && ended.out.contains("voice"), "{ended:?}");
}

/// A result that replaced what it was made of was lost, and an old one was gone before the new one was there.
#[test]
fn results_do_not_overwrite_what_a_command_reads() {
    let scratch = Scratch::new("report-spares");
    let own = fs::read(TWO_FLOWS).unwrap();
    let file = scratch.file("own.json", &own);
    let (link, hard) = (scratch.path("link.json"), scratch.path("hard.json"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::hard_link(&file, &hard).unwrap();
    for line in [
        vec!["report", &file, "--json", &file],
        vec!["report", &file, "--json", &link],
        vec!["report", TWO_FLOWS, &hard, "--json", &file],
        vec!["compare", "--json", &file, &file, "--", TWO_FLOWS],
    ] {
        let ended = run(&line);
        assert!(ended.code == 2 && ended.err.contains("would replace"), "{line:?}: {ended:?}");
        assert!(fs::read(&file).unwrap() == own, "{line:?}");
    }
    // who reads a FIFO has the result and then its end
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
    let ended = run(&["report", &file, "--json", &fifo]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(reader.wait_with_output().unwrap().stdout.ends_with(b"}\n"));
    // another one is replaced when the result is there
    let old = scratch.file("old.json", b"{\"schema_version\":\"4\"}");
    let ended = run(&["report", &file, "--json", &old]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(fs::read(&old).unwrap().len() > 1000);
}

/// `wirebeat report` said 0 of everything but single runs.
#[test]
fn what_is_shown_again_ends_as_it_did() {
    let scratch = Scratch::new("report-codes");
    let failed = |name: &str| {
        let mut report: serde_json::Value =
            serde_json::from_slice(&fs::read(TWO_FLOWS).unwrap()).unwrap();
        report["exit_code"] = 4.into();
        scratch.file(name, report.to_string().as_bytes())
    };
    let one = failed("one.json");
    assert_eq!(run(&["report", &one, TWO_FLOWS]).code, 4);
    assert_eq!(run(&["report", TWO_FLOWS, TWO_FLOWS]).code, 0);
}

#[test]
fn results_do_not_overwrite_what_is_not_theirs() {
    let scratch = Scratch::new("report-over");
    let mine = scratch.file("mine.html", b"<!DOCTYPE html><title>mine</title>");
    let ended = run(&["report", TWO_FLOWS, "--html", &mine]);
    assert!(ended.code == 2 && ended.err.contains("there is a file already"), "{ended:?}");
    fs::create_dir(scratch.path("p")).unwrap();
    scratch.file("p/distribution-delay.svg", b"<svg>mine</svg> and more than the mark");
    let ended = run(&["report", TWO_FLOWS, "--pictures", &scratch.path("p")]);
    assert!(ended.code == 5 && ended.err.contains("no picture of ours"), "{ended:?}");
    let ended = run(&["report", TWO_FLOWS, "--html", "--csv"]);
    assert!(ended.code == 2 && ended.out.contains("standard output too"), "{ended:?}");
}
