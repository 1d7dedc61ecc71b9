//! Every wrong argument gets one message with what, where and how to mend it, and exit code 2.
//!
//! The messages are in one golden file, so that they can be read as a person meets them.

use crate::{Ended, Scratch, golden, line, run};

/// Command lines that is invalid, whatever the machine.
const WRONG: &[&str] = &[
    "snd",
    "send",
    "send --to",
    "send --to 10.0.0",
    "send --to lab2:0",
    "send --to 10.0.0.2:0",
    "send --to 10.0.0.2:99999",
    "send --to 10.0.0.2 --rate 5",
    "send --to 10.0.0.2 --rate 2gbps",
    "send --to 10.0.0.2 --rate 100MB/s",
    "send --to 10.0.0.2 --rate 2Gbps@wire",
    "send --to 10.0.0.2 --rate 0pps",
    "send --to 10.0.0.2 --rate 1pps --rate 2pps",
    "send --to 10.0.0.2 --size 63",
    "send --to 10.0.0.2 --size 70000B",
    "send --to 2001:db8::1 --size 64B",
    "send --to 10.0.0.2",
    "send --to 10.0.0.2 --count 5",
    "send --to 10.0.0.2 --flow name=a,rate=1pps --flow name=b",
    "send --to 10.0.0.2 --rat 5pps",
    "send --to 10.0.0.2 --xyzzy 5",
    "send --to 10.0.0.2 extra",
    "send --to 10.0.0.2 --time 10",
    "send --to 10.0.0.2 --rate 1G --time 10",
    "send -c 10.0.0.2 -u -b 100M -t 10 -l 1470 -P 4 -R -J",
    "send -c 10.0.0.2 -u -b 100M -t 10 -l 1470",
    "send -c lab2 -u -w 1M",
    "-c 10.0.0.2 -P 4",
    "replay -i eth1 --topspeed --loop 3 file.pcap",
    "replay -i eth1 --mbps 100 /nonexistent/file.pcap",
    "replay -i eth1 --pnat=10.0.0.0/8:192.168.0.0/16 file.pcap",
    "replay --srcipmap=10.0.0.0/8:192.168.0.0/16 file.pcap",
    "replay file.pcap --interface eth1 --loop 0",
    "send --to 10.0.0.2 --time 0s",
    "send --to 10.0.0.2 --count 0",
    "send --to 10.0.0.2 --count 1k",
    "send --to 10.0.0.2 --burst -1",
    "send --to 10.0.0.2 --engine kernal",
    "send --to 10.0.0.2 --engine xyz",
    "send --to 10.0.0.2 --engine",
    "replay day.pcap --engine kernel --print-scenario",
    "send --to 10.0.0.2 --wait spinn",
    "send --to 10.0.0.2 --priority highest",
    "send --to 10.0.0.2 --wait spin --priority realtime",
    "send --to 10.0.0.2 --late never",
    "send --to 10.0.0.2 --drift 5us",
    "send --to 10.0.0.2 --ttl 300",
    "send --to 10.0.0.2 --ttl 0",
    "send --to 10.0.0.2 --dscp af14",
    "send --to 10.0.0.2 --dscp ef --tos 3",
    "send --to 10.0.0.2 --tos 256",
    "send --to 10.0.0.2 --ip-id 70000",
    "send --to 2001:db8::1 --ip-id 1",
    "send --to 2001:db8::1 --no-udp-checksum",
    "send --to 10.0.0.2 --source 2001:db8::1",
    "send --to 10.0.0.2 --source x",
    "send --to 10.0.0.2 --source-port 0",
    "send --to 10.0.0.2 --payload ones",
    "send --to 10.0.0.2 --payload hex:abc",
    "send --to 10.0.0.2 --source-mac 1:2",
    "send --to 10.0.0.2 --cpu a",
    "send --to 10.0.0.2 --cpu 1,1",
    "send --to 10.0.0.2 --cpu 1,2 --queues 3",
    "send --to 10.0.0.2 --queues 0",
    "send --to 10.0.0.2 --seed x",
    "send --to 10.0.0.2 --flow rat=5pps",
    "send --to 10.0.0.2 --flow rate=5",
    "send --to 10.0.0.2 --flow name=a,size=64B --flow name=a",
    "send --flow name=a,rate=1pps",
    "send --to 10.0.0.2 --flow name=a,ttl=0",
    "send --to 10.0.0.2 --flow name=,ttl=0",
    "send --to 10.0.0.2 --interval 1",
    "send --to 10.0.0.2 --interval 1ms",
    "send --to 10.0.0.2 --bins 100",
    "send --to 10.0.0.2 --bins 0x1us",
    "send --to 10.0.0.2 --json /nonexistent/x",
    "send --to 10.0.0.2 --peer a:b:c --key x",
    "send --to 10.0.0.2 --peer 10.0.0.2",
    "send --to 10.0.0.2 --key 5",
    "send --to 10.0.0.2 --key 5 --key-file f",
    "send --to 0.0.0.0",
    "send --to 10.0.0.2 --rate -5kpps",
    "send --to 10.0.0.2 --departures poison",
    "send --to 10.0.0.2 --departures poisson",
    "send --to 10.0.0.2 --departures on-off",
    "send --to 127.0.0.1 --rate 1kpps --start-at 2020-01-01T00:00:00Z",
    "archive info x",
    "archive xyzzy",
    "replay day.pcap --interface lo --map-address x",
    "receive --time 1s",
    "receive --engine kernel",
    "receive --engine socket",
    "receive --port 0",
    "receive --listen eth1",
    "receive --once",
    "receive --key x",
    "receive --flows 0",
    "receive --listen --count 5",
    "receive --listen --codec pktgen",
    "receive --listen --log mgen",
    "receive extra",
    "run",
    "run /nonexistent",
    "run - ",
    "demo --size 1B",
    "demo --size 9000B --engine kernel",
    "demo --rate 5",
    "demo --rate 50%",
    "demo --time 0",
    "doctor --jsno",
    "completions",
    "completions tcsh",
    "man /nonexistent",
    "send --to 10.0.0.2 --speed 5",
    "send --to 10.0.0.2 --time 5s --queues -1",
    "--interface eth1",
    "demo --engine pcap",
    "receive --bins x",
    "receive --time -1s",
    "run a b",
    "doctor extra",
    "man a b",
    "check",
    "check /nonexistent",
    "explain",
    "explain /nonexistent --frames x",
    "run /nonexistent --set rate",
    "send --to 10.0.0.2 --size {mix:5}",
    "send --to 10.0.0.2 --departures {gama:{}}",
    "send --to 10.0.0.2 --rate {ramp:",
    "ctl set x --rate 5",
    "ctl stats --interval 5s",
    "ctl stats --last x",
    "examples singel",
    "examples single bursts",
    "examples single --set d=eth1",
    "replay day.csv --to 10.0.0.2:5000",
    "replay day.wbar",
    "replay day.wbar --print-scenario",
    "load",
    "load http://10.0.2.9/",
    "load https://10.0.2.9/",
    "load 10.0.2.9 --users 3",
    "load 10.0.2.9:80 --users 3",
    "load http://10.0.2.9/ --program echo --users 3",
    "load http://10.0.2.9/ --rate 1000",
    "load http://10.0.2.9/ --rate 1Gbps",
    "load http://10.0.2.9/ --rate 1/s --users 3",
    "load http://10.0.2.9/ --rate 1/s --think 1s",
    "load http://10.0.2.9/ --users 3 --beyond queue",
    "load http://10.0.2.9/ --users 3 --header Cookie",
    "load http://10.0.2.9/ --users 3 --expect established",
    "load http://10.0.2.9/ --users 3 --bins 100x1us",
    "load 10.0.2.9:7 --program echo --users 3 --pipeline 4",
    "load 10.0.2.9:5201 --program bulk --rate 1/s --streams 2",
    "serve",
    "serve http",
    "serve htp --listen 80",
    "serve http --listen 10.0.2.9",
    "serve http -p 8080",
    "load 10.0.2.9:5201 --program bulk -P 4",
    "serve echo --listen 80 --size 1kB",
];

/// Scenarios that cannot be run, and the place that the message has to name.
const SCENARIOS: &[(&str, &str)] = &[
    ("ports:\n  a: {}\nflows:\n  x:\n    from: a\n    rat: 5kpps\n", ":6:5"),
    ("ports:\n  a: {}\nflows:\n  x:\n    from: a\n    rate: 5kpps\n", ":4:3, flows.x.packet"),
    ("ports:\n  a: { engine: packet }\nflows: {}\n", ":2:3, ports.a.interface"),
    ("ports: {}\nflows: {}\nrun: { time: 0s }\n", ":3:8, run.time"),
    ("", ":1:1"),
];

/// One message, in its form, on standard error alone.
fn told(ended: &Ended) {
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
    assert!(lines[0].starts_with("error: ") && lines[0].len() > 15, "{ended:?}");
    assert!(lines.last().unwrap().starts_with("  hint: "), "{ended:?}");
    assert!((2..=3).contains(&lines.len()), "{ended:?}");
}

#[test]
fn every_wrong_argument_is_told_what_where_and_how() {
    let mut transcript = String::new();
    for arguments in WRONG {
        let ended = line(arguments);
        told(&ended);
        transcript.push_str(&format!("$ wirebeat {arguments}\n{}\n", ended.err));
    }
    golden("usage.txt", &transcript);
}

#[test]
fn the_line_that_is_answered_to_one_of_another_tool_can_be_pasted() {
    for foreign in [
        "send -c 10.0.0.2 -u -b 100M/8 -t 10 -l 1470 -P 4",
        "send -c localhost -u -b 1000pps -n 1M",
        "send --to 10.0.0.2 --rate 1G --time 10",
        "replay -i lo --topspeed day.pcap",
        "replay -i lo --pps 1000 --loop 3 day.pcap",
        "replay -i lo --multiplier 2.5 day.pcap",
    ] {
        let answered = line(foreign);
        told(&answered);
        let (_, ours) = answered.err.rsplit_once(": wirebeat ").unwrap();
        let printed = line(&format!("{ours} --print-scenario"));
        assert_eq!(printed.code, 0, "{foreign}: {ours} {printed:?}");
        assert!(printed.out.contains("flows:"), "{foreign}: {printed:?}");
    }
}

#[test]
fn the_name_of_a_host_is_looked_up_once_and_its_address_is_told() {
    let named =
        line("send --to localhost:7 --rate 1kpps --flow name=a --flow name=b --print-scenario");
    assert_eq!(named.code, 0, "{named:?}");
    let addresses = ["127.0.0.1", "::1"];
    let of = addresses.iter().find(|address| named.err == format!("localhost is {address}\n"));
    assert!(of.is_some_and(|address| named.out.matches(address).count() == 2), "{named:?}");
    let unknown = run(&["send", "--to", "no-such-host.invalid", "--rate", "1kpps"]);
    told(&unknown);
    assert!(unknown.err.contains("cannot find the host 'no-such-host.invalid'"), "{unknown:?}");
}

#[test]
fn what_is_not_on_this_machine_is_named() {
    for (arguments, named) in [
        ("send --to 10.0.0.2 --rate 1kpps --interface nosuch", "there is no interface 'nosuch'"),
        (
            "send --to 10.0.0.2 --rate 1kpps --interface lo --namespace nosuch",
            "no network namespace 'nosuch'",
        ),
        ("send --to 127.0.0.1 --rate 50%", "known speed"),
        ("receive --interface nosuch", "there is no interface 'nosuch'"),
        ("run /nonexistent/scenario.yaml", "/nonexistent/scenario.yaml"),
        ("run /tmp", "cannot read the scenario"),
    ] {
        let ended = line(arguments);
        told(&ended);
        assert!(ended.err.contains(named), "{arguments}: {}", ended.err);
    }
}

#[test]
fn mistakes_in_a_scenario_are_told_with_line_and_column() {
    let scratch = Scratch::new("scenarios");
    for (content, place) in SCENARIOS {
        let file = scratch.file("s.yaml", content.as_bytes());
        let ended = run(&["run", &file]);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.contains(&format!("\n  {file}{place}\n")), "{content}: {}", ended.err);
    }
    let binary = scratch.file("b.yaml", b"\xff\xfe");
    told(&run(&["run", &binary]));
}

#[test]
fn what_has_no_meaning_for_a_file_of_that_kind_is_refused() {
    let scratch = Scratch::new("kinds");
    let scenario = scratch.file("s.yaml", b"ports: { a: {} }\nflows: { x: { from: a, to: a } }\n");
    let script = scratch.file("s.mgn", b"0.0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n");
    for (arguments, where_, named) in [
        (["run", &scenario, "--interface", "eth1"], "--interface", "its ports name the interfaces"),
        (["check", &scenario, "--interface", "eth1"], "--interface", "its ports name"),
        (["run", &script, "--set", "rate=5"], "--set", "a script has no variables"),
    ] {
        let ended = run(&arguments);
        told(&ended);
        assert!(ended.err.contains(where_) && ended.err.contains(named), "{}", ended.err);
    }
}

#[test]
fn a_log_and_json_are_not_mixed() {
    let ended = line("receive --log mgen --json -");
    assert_eq!(ended.code, 2);
    assert!(ended.out.contains("the log and the JSON would be mixed"), "{}", ended.out);
}

/// The place in the file was named, which is right.
#[test]
fn an_override_that_contradicts_the_scenario_is_told_with_its_flag() {
    let scratch = Scratch::new("override");
    let content = "ports: { a: {} }\nflows: { x: { from: a, to: a, start: 5s } }\n";
    let file = scratch.file("s.yaml", content.as_bytes());
    let ended = run(&["run", &file, "--time", "5s"]);
    assert!(
        ended.err.contains("flow 'x' starts at 5s") && ended.err.contains("--time 5s"),
        "{}",
        ended.err
    );
    told(&ended);
}

/// They once were "no live frames", or a run of no time.
#[test]
fn cpus_that_do_not_exist_are_wrong_usage_wherever_they_are_given() {
    let scratch = Scratch::new("cpus");
    let scenario = "ports: { a: { engine: socket, cores: [8190] } }\n\
                    flows: { f: { from: a, count: 1, packet: [ { ipv4: { destination: 127.0.0.1 } }, { udp: {} } ] } }\n";
    let scenario = scratch.file("cpus.yaml", scenario.as_bytes());
    let archive = scratch.path("a.wbar");
    let made = line(&format!("archive create {archive} --synthetic --records 3 --sampling 1ms"));
    let mut lines = vec![
        "send --to 127.0.0.1 --rate 1kpps --count 1 --engine socket --cpu 8190".to_owned(),
        "send --to 127.0.0.1 --rate 1kpps --count 1 --engine packet --interface lo --cores 8190"
            .to_owned(),
        "send --to 127.0.0.1 --rate 1kpps --count 1 --engine kernel --interface lo --cpu 0,8190"
            .to_owned(),
        format!("run {scenario}"),
        "receive --engine socket --port 9999 --time 10ms --cpu 8190".to_owned(),
        "receive --engine packet --interface lo --time 10ms --cores 8190".to_owned(),
        "receive --engine kernel --interface lo --time 10ms --cpu 8190".to_owned(),
    ];
    if made.code == 0 {
        lines.push(format!("replay {archive} --to 127.0.0.1 --engine socket --cpu 8190"));
    }
    for text in lines {
        let Ended { code, err, out } = line(&text);
        assert_eq!((code, out.as_str()), (2, ""), "{text}: {err}");
        assert!(err.contains("CPU 8190, which this machine does not have"), "{text}: {err}");
        assert!(err.contains("hint: choose among CPU "), "{text}: {err}");
    }
}
