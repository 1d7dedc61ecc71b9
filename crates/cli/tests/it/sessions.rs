//! `load` against `serve`, over the loopback of this machine: what one counts the other has too.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Scratch, command, line, run};

/// A server that listens.
struct Serving {
    child: Child,
    port: u16,
    scratch: Scratch,
    _said: BufReader<ChildStderr>,
}

impl Serving {
    fn start(program: &str, flags: &str) -> Serving {
        // another process may have taken the port by then: the next one is tried
        let scratch = Scratch::new(&format!("serve-{program}"));
        let report = scratch.path("report.json");
        for _ in 0..20 {
            let port =
                TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
            let mut line = vec!["serve", program, "--listen", &port, "--json", &report];
            line.extend(flags.split_whitespace());
            let mut child =
                command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut said = BufReader::new(child.stderr.take().unwrap());
            let mut told = String::new();
            while said.read_line(&mut told).unwrap() > 0 {
                if told.contains("listening at 127.0.0.1:") {
                    let port = port.parse().unwrap();
                    return Serving { child, port, scratch, _said: said };
                }
            }
            child.wait().unwrap();
            assert!(told.contains("another program listens"), "{told}");
        }
        panic!("there is no free port");
    }

    /// Tells it to stop: its report.
    fn stop(&mut self) -> Value {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let code = self.child.wait().unwrap().code();
        assert_eq!(code, Some(0), "{out}");
        let report = std::fs::read_to_string(self.scratch.path("report.json")).unwrap();
        serde_json::from_str(&report).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn count(report: &Value, part: &str, key: &str) -> u64 {
    let count = &report["sessions"][0][part][key];
    count.as_u64().unwrap_or_else(|| panic!("{part}.{key}: {count}"))
}

#[test]
fn a_web_server_answers_every_request_of_a_load() {
    let mut server = Serving::start("http", "--size 3kB --framing chunked");
    let url = format!("http://127.0.0.1:{}/a?b", server.port);
    let load = ["load", &url, "--users", "4", "--count", "40", "--requests", "5", "--json", "-"];
    let more =
        ["--expect", "in-order == 40", "--expect", "responses == 200", "--expect-size", "3000B"];
    let ended = run(&[&load[..], &more[..]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let (client, server) = (serde_json::from_str::<Value>(&ended.out).unwrap(), server.stop());
    assert_eq!(count(&client, "starts", "established"), 40);
    assert_eq!(count(&server, "starts", "established"), 40);
    assert_eq!(count(&client, "messages", "requests"), 200);
    assert_eq!(count(&server, "messages", "requests"), 200);
    assert_eq!(count(&server, "ends", "in_order"), 40);
    let status = &client["sessions"][0]["statuses"][0];
    assert_eq!((status["status"].as_u64(), status["count"].as_u64()), (Some(200), Some(200)));
}

#[test]
fn an_expectation_that_is_not_met_ends_with_exit_code_4() {
    let mut server = Serving::start("echo", "");
    let load = format!("load 127.0.0.1:{} --program echo --count 3 --requests 2", server.port);
    let met = line(&format!("{load} --expect established>=3 --expect failed==0"));
    assert_eq!(met.code, 0, "{met:?}");
    let unmet = line(&format!("{load} --expect established>=1000"));
    assert_eq!(unmet.code, 4, "{unmet:?}");
    assert!(unmet.out.contains("established >= 1000"), "{unmet:?}");
    assert_eq!(count(&server.stop(), "ends", "in_order"), 6);
}

#[test]
fn streams_send_as_much_as_is_asked_for() {
    let mut server = Serving::start("bulk", "");
    let load = format!(
        "load 127.0.0.1:{} --program bulk --streams 3 --bytes 1MB --expect in-order==3 --json -",
        server.port
    );
    let ended = line(&load);
    assert_eq!(ended.code, 0, "{ended:?}");
    let server = server.stop();
    assert_eq!(count(&server, "bytes", "delivered"), 3_000_000, "{server}");
}

#[test]
fn nobody_listens_and_that_is_counted() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = line(&format!("load http://127.0.0.1:{port}/ --count 5 --expect refused==5"));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("refused"), "{ended:?}");
}

/// Lines of intervals have the states of connections and the link each way; what one end sent on a cable in memory the other received.
#[test]
fn intervals_tell_the_states_of_connections_and_the_link() {
    let scratch = Scratch::new("stack-lines");
    let text = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n\
         sessions:\n  idle:\n    stack: own\n    from: a\n    to: b\n    clients: { addresses: 10.0.0.1 }\n    \
         servers: { addresses: 10.0.0.2, ports: 80 }\n    program: { echo: { size: 100B, messages: 3, gap: 1s } }\n    rate: 100/s\n    \
         count: 300\nrun: { time: 5s, interval: 1s }\n";
    let file = scratch.file("s.yaml", text.as_bytes());
    let ended = run(&["run", &file, "--json-lines"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<Value> =
        ended.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let stacks = |line: &Value, port: &str| -> Option<Value> {
        let all = line["stacks"].as_array()?;
        all.iter().find(|stack| stack["port"] == port).cloned()
    };
    let of = |key: &str, port: &str, way: &str| -> u64 {
        let values = lines.iter().filter_map(|line| stacks(line, port)?[way][key].as_u64());
        values.sum()
    };
    for key in ["frames", "frame_bytes"] {
        assert!(of(key, "a", "sent") > 600, "{}", ended.out);
        assert_eq!(of(key, "a", "sent"), of(key, "b", "received"), "{key}: {}", ended.out);
        assert_eq!(of(key, "b", "sent"), of(key, "a", "received"), "{key}: {}", ended.out);
    }
    let established = lines.iter().filter_map(|line| {
        let stack = stacks(line, "a")?;
        let states = stack["states"].as_array()?.clone();
        let count = states.iter().find(|state| state["state"] == "ESTABLISHED")?;
        Some((count["sessions"].as_u64()?, line["sessions"][0]["open"].as_u64()?))
    });
    let established: Vec<(u64, u64)> = established.collect();
    assert!(
        established.iter().any(|(count, open)| *count >= 100 && count == open),
        "{established:?}"
    );
}

/// Servers on the wires of other tools end by themselves, and a stranger who connects again and again is told of a hundred times at most.
#[test]
fn servers_of_other_tools_end_after_their_time_and_tell_of_strangers_in_few_lines() {
    for (wire, strangers) in [("--iperf3", 130), ("--iperf2", 1), ("--ditg", 130)] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port_given = port.to_string();
        let mut child = command(&["serve", wire, "--listen", &port_given, "--time", "3s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        assert!(first.contains("listening at 127.0.0.1:"), "{wire}: {first}");
        for _ in 0..strangers {
            let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let _ = stranger.write_all(&[0xff; 64]);
            let _ = stranger.shutdown(std::net::Shutdown::Write);
            let _ = stranger.read(&mut [0; 64]);
        }
        let mut told = String::new();
        said.read_to_string(&mut told).unwrap();
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(0), "{wire}: {told}");
        assert!(told.lines().count() < 120, "{wire}: {told}");
        let is_cut = told.contains("more lines of this kind are not printed");
        assert_eq!(is_cut, wire == "--ditg", "{wire}: {told}");
    }
}

/// More sessions than there may be file descriptors are refused with as many as there may be.
#[test]
fn few_file_descriptors_are_told_before_the_start() {
    let load = |users: u32| {
        let line = format!(
            "ulimit -n 200; exec \"$0\" load 127.0.0.1:9 --program echo --users {users} --time 200ms"
        );
        let mut shell = std::process::Command::new("sh");
        let ended = shell.args(["-c", &line, env!("CARGO_BIN_EXE_wirebeat")]).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let (code, told) = load(1000);
    assert_eq!(code, Some(3), "{told}");
    for says in ["1000 sessions may be open at a time", "enough for 136", "ulimit -n 1064"] {
        assert!(told.contains(says), "{says}: {told}");
    }
    // nobody listens there, and that is a result
    assert_eq!(load(136).0, Some(0));
}

/// A server that has no descriptor left accepts late, which is its own failure and not that of its clients: it says so.
#[test]
fn servers_that_run_out_of_file_descriptors_say_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = format!("ulimit -n 300; exec \"$0\" serve echo --listen {free} --time 3s");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_wirebeat")]).stdout(Stdio::piped());
    let mut server = shell.stderr(Stdio::piped()).spawn().unwrap();
    // it says when it listens; kept open, so that it can go on telling
    let mut said = BufReader::new(server.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let all: Vec<TcpStream> = (0..400).map_while(|_| TcpStream::connect(free).ok()).collect();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(all.len(), 400);
    drop(all);
    let report = String::from_utf8(server.wait_with_output().unwrap().stdout).unwrap();
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no file descriptor or memory for more connections"), "{report}");
}
