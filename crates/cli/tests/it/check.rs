//! `check`: scenarios that are right, and the messages for those that are not.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::{Capability, Neighbours, Options as Cable, Program, Testbed, require};

use crate::{Scratch, command, examples, run};

const COMMON: &str = "variables: { rate: 10kpps, size: 64B }\nports:\n  a: { engine: loopback }\n  b: { engine: loopback }\n";
const TOP: &str =
    "include: common.yaml\nflows:\n  x: { from: a, to: b, rate: ${rate}, size: ${size} }\n";

#[test]
fn every_example_is_right() {
    for (name, path) in examples() {
        let ended = run(&["check", &path]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{name}");
        assert!(ended.out.starts_with(&format!("{path}: ok: ")), "{}", ended.out);
    }
}

#[test]
fn files_include_others_and_variables_are_set() {
    let scratch = Scratch::new("check-set");
    scratch.file("common.yaml", COMMON.as_bytes());
    let top = scratch.file("top.yaml", TOP.as_bytes());
    let right = run(&["check", &top, "--set", "rate=20kpps", "--set", "size=1518B"]);
    assert_eq!((right.code, right.out), (0, format!("{top}: ok: 1 flow, 2 ports\n")));
    for (set, message) in [
        (
            vec!["--set", "rat=5kpps"],
            "error: the scenario declares no variable 'rat'\n  --set rat=5kpps\n  hint: did you mean 'rate'?\n"
                .to_owned(),
        ),
        (
            vec!["--set", "rate=5"],
            format!("error: '5' is not a rate: it has no unit\n  {top}:3:30\n  hint: write for example"),
        ),
        (
            vec!["--set", "size=65600B"],
            format!("error: '65600B' is not a frame length: frames are 64 to 65535 bytes long, with FCS\n  {top}:3:45\n"),
        ),
        (vec!["--set", "rate"], "error: 'rate' is not a name with a value\n  --set rate\n  hint:".to_owned()),
    ] {
        let ended = run(&[&["check", &top][..], &set].concat());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.starts_with(&message), "{}", ended.err);
    }
}

#[test]
fn a_mistake_in_one_file_does_not_hide_the_others() {
    let scratch = Scratch::new("check-several");
    let common = scratch.file("common.yaml", COMMON.as_bytes());
    let top = scratch.file("top.yaml", TOP.as_bytes());
    let twice = scratch.file(
        "twice.yaml",
        format!("include: top.yaml\n{}", "flows: { x: { from: a } }\n").as_bytes(),
    );
    let ended = run(&["check", &common, &top, &twice, "/nonexistent"]);
    assert_eq!(ended.code, 2);
    assert_eq!(ended.out, format!("{top}: ok: 1 flow, 2 ports\n"));
    let errors: Vec<&str> = ended.err.split("error: ").skip(1).collect();
    assert_eq!(errors.len(), 3, "{}", ended.err);
    assert!(errors[0].starts_with("the key 'flows' is missing"), "{}", errors[0]);
    let place = format!("'x' of the flows is defined in {top}:3:3 already\n  {twice}:2:10\n");
    assert!(errors[1].starts_with(&place), "{}", errors[1]);
    assert!(errors[2].starts_with("cannot read the scenario"), "{}", errors[2]);

    let ended = run(&["check", "--json", "-", &top, "/nonexistent"]);
    assert_eq!((ended.code, ended.err.as_str()), (2, ""));
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(found["files"][0]["flows"], 1);
    assert_eq!(found["files"][1]["ok"], false);
    assert!(found["files"][1]["error"].as_str().unwrap().contains("/nonexistent"));
}

#[test]
fn mistakes_in_included_files_are_named_there() {
    let scratch = Scratch::new("check-included");
    let common =
        scratch.file("common.yaml", COMMON.replace("b: { engine", "b: { engin").as_bytes());
    let top = scratch.file("top.yaml", TOP.as_bytes());
    let ended = run(&["check", &top]);
    assert_eq!(
        ended.err,
        format!("error: unknown key 'engin'\n  {common}:4:8\n  hint: did you mean 'engine'?\n")
    );
    // What only the compiler sees.
    let flow = "flows:\n  x: { from: a, to: b, rate: ${rate}, size: { file: sizes.txt } }\n";
    scratch.file("common.yaml", COMMON.as_bytes());
    let top = scratch.file("top.yaml", format!("include: common.yaml\n{flow}").as_bytes());
    let missing = run(&["check", &top]);
    assert!(missing.err.contains("sizes.txt") && missing.code == 2, "{missing:?}");
    scratch.file("sizes.txt", b"64B\nhello\n");
    let wrong = run(&["check", &top]);
    assert!(wrong.err.contains(&format!("\n  {top}:3:39, flows.x.size\n")), "{}", wrong.err);
    scratch.file("sizes.txt", b"64B\n128B # and again\n");
    assert_eq!(run(&["check", &top]).code, 0);
}

/// What no machine can run is found without one, in the words of the run.
#[test]
fn what_every_machine_refuses_is_refused_without_one() {
    let scratch = Scratch::new("check-refused");
    let flow = |headers: &str| {
        format!("flows:\n  x: {{ from: a, to: b, packet: [ {headers} ], rate: 1kpps, count: 3 }}\n")
    };
    let udp = flow("{ ipv4: {} }, { udp: { destination: 9 } }");
    let tcp = flow("{ ipv4: {} }, { tcp: { destination: 9 } }");
    let sockets = "ports:\n  a: { engine: socket, addresses: [127.0.0.1] }\n  b: { engine: socket, addresses: [127.0.0.2] }\n";
    let peer = |more: &str| format!("ports:\n  a: {{ engine: socket }}\n  b: {{ {more} }}\n");
    for (name, ports, flows, told) in [
        ("unknown", peer("peer: '127.0.0.1:9'"), &udp, "no IPv4 address of port 'b' is known"),
        ("tcp", sockets.to_owned(), &tcp, "cannot be sent by the engine 'socket' of port 'a'"),
        (
            "file",
            peer("peer: '127.0.0.1:9', key-file: none.key, addresses: [127.0.0.1]"),
            &udp,
            "cannot read the key file",
        ),
        (
            "key",
            peer("peer: '192.0.2.7:9', addresses: [127.0.0.1]"),
            &udp,
            "others can reach 192.0.2.7:9",
        ),
        (
            "ends",
            "ports:\n  a: { engine: socket }\n  b: { engine: 'null', addresses: [127.0.0.2] }\n"
                .to_owned(),
            &udp,
            "which receives nothing",
        ),
        (
            "clocks",
            "ports:\n  a: { engine: socket }\n  b: { engine: loopback, addresses: [127.0.0.2] }\n"
                .to_owned(),
            &udp,
            "run on a virtual clock and cannot share",
        ),
    ] {
        let path = scratch.file(&format!("{name}.yaml"), (ports + flows).as_bytes());
        let checked = run(&["check", &path]);
        assert!(checked.err.contains(told) && checked.code == 2, "{name}: {checked:?}");
        let ran = run(&["run", &path]);
        assert_eq!(ran.code, 2, "{name}: {ran:?}");
        // the example of a key is made anew each time
        let said = |text: &str| text.split(", for example").next().unwrap().to_owned();
        let first = |text: &str| said(text.split("error: ").nth(1).unwrap());
        assert_eq!(first(&ran.err), first(&checked.err), "{name}");
    }
    // what works is not refused
    let path = scratch.file("right.yaml", (sockets.to_owned() + &udp).as_bytes());
    assert_eq!(run(&["check", &path]).code, 0);
}

#[test]
fn sessions_are_compiled_and_counted() {
    let scratch = Scratch::new("check-sessions");
    let group = |program: &str| {
        format!(
            "ports: {{ a: {{}} }}\nsessions:\n  x: {{ from: a, program: {program}, servers: {{ addresses: 10.0.2.9, ports: 7 }}, users: 3 }}\n"
        )
    };
    let right = scratch.file("right.yaml", group("echo").as_bytes());
    let checked = run(&["check", &right]);
    assert_eq!(checked.out, format!("{right}: ok: 1 group of sessions, 1 port\n"));
    // it is read, and nothing can be drawn from it
    let meanless =
        scratch.file("meanless.yaml", group("{ echo: { gap: exponential } }").as_bytes());
    let refused = run(&["check", &meanless]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("sessions.x.program"), "{}", refused.err);
    let both = format!("{}flows: {{ y: {{ from: a, to: a, rate: 1pps }} }}\n", group("echo"));
    let checked = run(&["check", &scratch.file("both.yaml", both.as_bytes())]);
    assert!(
        checked.out.ends_with("both.yaml: ok: 1 flow, 1 group of sessions, 1 port\n"),
        "{checked:?}"
    );
    let both = both.replacen("a: {}", "a: { engine: loopback }", 1);
    let refused = run(&["check", &scratch.file("virtual.yaml", both.as_bytes())]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("cannot share a run on a virtual clock"), "{}", refused.err);
}

#[test]
fn standard_input_and_json_are_read() {
    let mut child = command(&["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let json = r#"{"ports": {"a": {}}, "flows": {"x": {"from": "a", "to": "a", "rate": "50%"}}}"#;
    child.stdin.take().unwrap().write_all(json.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert!(out.starts_with("standard input: ok: 1 flow, 1 port\n"), "{out}");
}

#[test]
fn a_run_takes_variables_and_files_beside_the_scenario() {
    let scratch = Scratch::new("run-set");
    scratch.file("common.yaml", COMMON.as_bytes());
    let top = scratch.file("top.yaml", TOP.as_bytes());
    let ended = run(&["run", &top, "--set", "rate=x"]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains(&format!("{top}:3:30")), "{}", ended.err);
    let file = "ports: { a: { engine: pcap, file: /dev/null } }\nflows: { x: { from: a, to: a, rate: 1kpps, size: { file: none.txt } } }\n";
    let missing = scratch.file("missing.yaml", file.as_bytes());
    let ended = run(&["run", &missing]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains(&scratch.path("none.txt")), "{}", ended.err);
}

#[test]
fn scripts_of_other_tools_are_taken() {
    let scratch = Scratch::new("check-script");
    let lines =
        "0.0 ON 1 UDP DST 198.18.0.2/5000 PERIODIC [1000 100]\n1.0 OFF 1\n2.0 LISTEN UDP 5000\n";
    let script = scratch.file("flows.mgn", lines.as_bytes());
    let ended = run(&["check", &script]);
    assert_eq!((ended.code, ended.out), (0, format!("{script}: ok: 1 flow, 1 port\n")));
    assert!(
        ended.err.contains(&format!("{script}:3: the script asks to receive")),
        "{}",
        ended.err
    );
    // What it becomes means the same.
    let written = scratch.path("flows.yaml");
    assert_eq!(run(&["convert", &script, "--output", &written]).code, 0);
    let explained = |path: &str| run(&["explain", path]);
    assert_eq!(explained(&script).out, explained(&written).out);
    // One that looks like nothing known is read as what it is said to be.
    let named = run(&["check", &script, "--dialect", "rude"]);
    assert!(named.code == 2 && named.err.contains(&script), "{named:?}");
}

/// A run refused it, or had a finding, and 'check' said that all is well.
#[test]
fn devices_that_would_share_source_ports_are_told() {
    let scratch = Scratch::new("check-ports");
    let mut archive = crate::streams::archive(5);
    for (device, record) in (b'a'..).zip(archive.chunks_mut(34)) {
        record[14..30].fill(device);
    }
    scratch.file("five.wbar", &archive);
    let of = |port: u32| {
        let command = format!(
            "replay {} --to 10.0.0.2 --flow-of device --source-port {port} --print-scenario",
            scratch.path("five.wbar")
        );
        let printed = crate::line(&command);
        assert_eq!(printed.code, 0, "{printed:?}");
        scratch.file("replay.yaml", printed.out.as_bytes())
    };
    for port in [20_000, 65_531] {
        let right = run(&["check", &of(port)]);
        assert_eq!(right.code, 0, "{port}: {right:?}");
    }
    for (port, different) in [(65_532, 4), (65_535, 1)] {
        let file = of(port);
        for command in ["check", "explain"] {
            let wrong = run(&[command, &file]);
            assert_eq!(wrong.code, 2, "{port}: {wrong:?}");
            let told = format!("there are 5 sub-flows ('flow-of'), and {different} of them differ");
            assert!(wrong.err.contains(&told) && wrong.err.contains(&file), "{}", wrong.err);
        }
    }
}

/// Of a long archive without an index nobody knows beforehand how many devices there are: the run has a finding.
#[test]
fn devices_that_nobody_knew_of_beforehand_are_found_to_share_source_ports() {
    require!(Capability::NetworkNamespaces);
    let cable = Cable { neighbours: Neighbours::Fixed, ..Cable::default() };
    let bed = Testbed::pair(&cable).unwrap();
    let scratch = Scratch::new("unknown-devices");
    let mut archive = crate::streams::archive(5);
    for (device, record) in (b'a'..).zip(archive.chunks_mut(34)) {
        record[14..30].fill(device);
    }
    // longer than what is looked through, with nothing behind the records
    let long = scratch.file("long.wbar", &archive);
    fs::File::options().append(true).open(&long).unwrap().set_len(257 << 20).unwrap();
    for (port, shared) in [(65_533, true), (65_531, false)] {
        let line = format!(
            "replay {long} --to {} --interface wb0 --engine packet --flow-of device --source-port {port} --count 5 \
             --on-bad skip --json -",
            bed.b.ipv4
        );
        let program = Program::new(&bed.a.namespace, env!("CARGO_BIN_EXE_wirebeat"));
        let ended = program.args(line.split_whitespace()).output(Duration::from_secs(60)).unwrap();
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["total"]["sent"]["sent"]["frames"], 5, "{ended:?}");
        let told = "there are 5 sub-flows ('flow-of'), and 3 of them differ";
        assert_eq!(report["findings"].to_string().contains(told), shared, "{}", report["findings"]);
    }
}
