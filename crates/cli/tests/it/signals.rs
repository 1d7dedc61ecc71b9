//! Signals: a run ends with its report, and before it begins at once. Traffic stays on loopback.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::command;

/// Longer than any of these runs may take once it is told to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// A run in progress.
struct Running {
    child: Child,
    /// Kept open, so that the run can go on telling.
    said: BufReader<ChildStderr>,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut child =
            command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running { said: BufReader::new(child.stderr.take().unwrap()), child }
    }

    /// A run that has told of its progress.
    fn under_way(arguments: &[&str]) -> Running {
        let mut running = Running::start(arguments);
        running.said.read_line(&mut String::new()).unwrap();
        running
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code and what it printed.
    fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        assert!(begun.elapsed() < PATIENCE, "it went on for {:?}", begun.elapsed());
        (status.code(), out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

const SEND: [&str; 8] =
    ["send", "--to", "127.0.0.1:9", "--rate", "100pps", "--time", "60s", "--interval=20ms"];

#[test]
fn a_signal_ends_a_run_with_its_report() {
    for (signal, name) in
        [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")]
    {
        let running = Running::under_way(&[&SEND[..], &["--json", "-"]].concat());
        running.signal(signal);
        let (code, out) = running.end();
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(code, Some(0), "{out}");
        assert_eq!(report["end"]["reason"], "stopped");
        assert_eq!(report["end"]["signal"], name);
        assert!(report["total"].is_object());
    }
}

#[test]
fn signals_that_come_together_are_one() {
    // As `timeout` sends them: to the process and to its group.
    let running = Running::under_way(&SEND);
    running.signal(Signal::INT);
    running.signal(Signal::INT);
    let (code, out) = running.end();
    assert_eq!(code, Some(0));
    assert!(out.contains("stopped by SIGINT"), "{out}");
}

#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let mut shell = std::process::Command::new("sh");
    let line = format!(
        "trap '' HUP; exec {} send --to 127.0.0.1:9 --rate 100pps --time 1s --interval 20ms --json -",
        env!("CARGO_BIN_EXE_wirebeat")
    );
    let mut child =
        shell.args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut running = Running { said: BufReader::new(child.stderr.take().unwrap()), child };
    running.said.read_line(&mut String::new()).unwrap();
    running.signal(Signal::HUP);
    let (code, out) = running.end();
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, report["end"]["reason"].as_str()), (Some(0), Some("completed")), "{out}");
}

#[test]
fn before_it_sends_a_signal_ends_it() {
    // A receiver that accepts and says nothing keeps a sender waiting before it begins.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = silent.local_addr().unwrap().to_string();
    let running =
        Running::start(&["send", "--to", "127.0.0.1:9", "--rate", "1kpps", "--peer", &peer]);
    let _connection = silent.accept().unwrap();
    running.signal(Signal::INT);
    assert_eq!(running.end(), (Some(130), String::new()));
}

/// As a script of another tool with 'START 13:30:00' does.
#[test]
fn a_run_that_waits_for_its_start_says_for_how_long_and_can_be_interrupted() {
    let mut running =
        Running::start(&[&SEND[..], &["--start-at", "2100-01-01T00:00:00Z"]].concat());
    let mut line = String::new();
    while !line.contains("waiting for the start at 2100-01-01T00:00:00Z, in ") {
        line.clear();
        assert!(running.said.read_line(&mut line).unwrap() > 0, "it ended without a word of it");
    }
    running.signal(Signal::INT);
    let (code, out) = running.end();
    assert_eq!(code, Some(0), "{out}");
}
