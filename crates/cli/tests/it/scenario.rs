//! From a command line to its scenario, in golden files: the command line is the language in short.

use wirebeat_traffic::scenario::Scenario;

use crate::{golden, line, run};

/// A command line, and the file with its scenario.
const LINES: &[(&str, &str)] = &[
    ("shortest", "--to 10.0.0.2"),
    ("rate", "--to 10.0.0.2:5001 --rate 2Gbps@line --size 570B --time 30s"),
    ("share", "--to 10.0.0.2 --interface eth1 --rate 50%"),
    ("count", "--to 10.0.0.2 --count 1000000 --burst 32 --rate 1.5Mpps"),
    (
        "ipv4",
        "--to 10.0.0.2 --source 10.0.0.1 --source-port 4000 --ttl 3 --dscp ef --ip-id count \
         --no-udp-checksum --payload hex:deadbeef --no-probe",
    ),
    ("ipv6", "--to [2001:db8::2]:5001 --source 2001:db8::1 --ttl 1 --tos 0xb8"),
    (
        "ethernet",
        "--to 10.0.0.2 --source-mac 02:00:00:00:00:01 --destination-mac 02:00:00:00:00:02",
    ),
    (
        "port",
        "--to 10.0.0.2 --interface eth1 --namespace lab --engine kernel --cpu 2-3 --wait spin \
         --late drop --drift 50us --settle 1s --seed 7",
    ),
    ("queues", "--to 10.0.0.2 --engine packet --interface eth1 --queues 2"),
    (
        "flows",
        "--to 10.0.0.2 --size 100B --flow name=voice,rate=12500pps,size=214B,dscp=ef \
         --flow name=bulk,rate=2Gbps,to=10.0.0.3:5001 --flow rate=1/10s,count=3",
    ),
];

#[test]
fn command_lines_mean_the_scenarios_that_were_reviewed() {
    for (name, flags) in LINES {
        let ended = line(&format!("send --print-scenario {flags}"));
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{name}");
        golden(&format!("scenario/{name}.yaml"), &ended.out);
    }
}

/// A command line of sessions, and the file with its scenario.
const SESSIONS: &[(&str, &str)] = &[
    ("load-rate", "load http://10.0.2.9/index.html --rate 1000/s --time 10s"),
    (
        "load-users",
        "load http://10.0.2.9:8080/ --users 50 --think 100ms --requests 10 --header Accept:text/html \
         --clients 10.0.1.0/24 --expect failed==0 --timeout 3s",
    ),
    (
        "load-dns",
        "load dns://10.0.2.9/host-{n}.example.com --type AAAA --rate 1000/s --no-recursion",
    ),
    (
        "load-udp",
        "load 10.0.2.9:7 --program echo --transport udp --rate 1000/s --timeout 1s --on-timeout next",
    ),
    ("serve-dns", "serve dns --listen 10.0.2.9:53 --answer 10.0.0.1 --answer 2001:db8::1"),
    ("serve-udp", "serve echo --transport udp --listen 10.0.2.9:7"),
    ("load-bulk", "load 10.0.2.9:5201 --program bulk --streams 4 --reverse --congestion cubic"),
    (
        "load-echo",
        "load [2001:db8::9]:7 --program echo --count 1 --requests 1000 --gap 10ms --dscp ef",
    ),
    (
        "load-exchange",
        "load 10.0.2.9:9000 --program request-response --rate 50/s --departures poisson --request-size 1kB \
         --response-size 20kB --limit 100 --beyond queue --reset",
    ),
    (
        "serve-http",
        "serve http --listen 10.0.2.9:80 --size 1kB --framing chunked --header Server:wirebeat",
    ),
    ("serve-echo", "serve echo --listen 7 --listen [::1]:7 --time 1m"),
];

#[test]
fn command_lines_of_sessions_mean_the_scenarios_that_were_reviewed() {
    for (name, words) in SESSIONS {
        let (command, flags) = words.split_once(' ').unwrap();
        let ended = line(&format!("{command} --print-scenario {flags}"));
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{name}");
        golden(&format!("scenario/{name}.yaml"), &ended.out);
        assert!(!ended.out.contains("flows:"), "{}", ended.out);
        let scenario = Scenario::from_yaml(&ended.out, name).unwrap();
        assert_eq!(scenario.to_yaml().unwrap(), ended.out, "{name}");
    }
}

#[test]
fn what_is_printed_is_read_again_as_the_same() {
    for (name, flags) in LINES {
        let printed = line(&format!("send --print-scenario {flags}")).out;
        let scenario = Scenario::from_yaml(&printed, name).unwrap();
        assert_eq!(scenario.to_yaml().unwrap(), printed, "{name}");
    }
}

#[test]
fn parameters_are_written_as_in_a_scenario() {
    let flags = [
        ("--departures", "{ gamma: { shape: 2 } }", "departures:\n      gamma:\n        shape: 2"),
        ("--departures", "{ jitter: 10% }", "jitter: 10%"),
        ("--size", "{ mix: { 64B: 7, 1518B: 1 } }", "mix:\n        64B: 7\n        1518B: 1"),
        ("--rate", "{ ramp: { from: 1kpps, to: 10kpps, over: 10s } }", "over: 10s"),
    ];
    for (flag, value, written) in flags {
        let mut line = vec!["send", "--print-scenario", "--to", "10.0.0.2", flag, value];
        if flag == "--departures" {
            line.extend(["--rate", "5kpps"]);
        }
        let ended = run(&line);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{value}");
        assert!(ended.out.contains(written), "{}", ended.out);
        assert!(Scenario::from_yaml(&ended.out, "printed").is_ok());
    }
    let flow = "name=x,rate={ sine: { mean: 5kpps, amplitude: 1kpps, period: 2s } },size={ exponential: { mean: 200B } }";
    let ended = run(&["send", "--print-scenario", "--to", "10.0.0.2", "--flow", flow]);
    assert!(ended.out.contains("amplitude: 1kpps"), "{ended:?}");
}

#[test]
fn texts_keep_blanks_and_commas() {
    let flow = "name=greeting,rate=1pps,size=100B,payload=text:hello,, world";
    let ended = run(&["send", "--print-scenario", "--to", "10.0.0.2", "--flow", flow]);
    assert!(ended.out.contains("text: hello, world"), "{}", ended.out);
}

#[test]
fn several_threads_by_either_name() {
    let cpu = line("send --print-scenario --to 10.0.0.2 --cpu 2,3").out;
    assert_eq!(line("send --print-scenario --to 10.0.0.2 --cores 2,3").out, cpu);
    let flow = line("send --print-scenario --to 10.0.0.2 --flow rate=1pps").out;
    assert_eq!(line("send --print-scenario --to 10.0.0.2 --flows rate=1pps").out, flow);
}

#[test]
fn the_examples_of_the_guide_are_understood() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let pages = ["cli.md", "sessions.md"]
        .map(|page| std::fs::read_to_string(format!("{root}{page}")).unwrap());
    let lines = pages.iter().flat_map(|page| page.lines());
    let examples: Vec<(&str, &str)> = lines
        .filter_map(|line| line.strip_prefix("wirebeat ")?.split_once(' '))
        .filter(|(command, _)| ["send", "load", "serve"].contains(command))
        .collect();
    for command in ["send", "load", "serve"] {
        assert!(examples.iter().filter(|(of, _)| *of == command).count() >= 4, "{command}");
    }
    for (command, example) in examples {
        // A shell's quotes, which the examples use around a whole argument.
        let quoted = example.split('\'').enumerate();
        let arguments: Vec<&str> = quoted
            .flat_map(|(place, part)| match place % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .collect();
        let ended = run(&[&[command, "--print-scenario"], &arguments[..]].concat());
        if let Some(tool) =
            arguments.iter().find(|of| ["--iperf3", "--iperf2", "--ditg"].contains(of))
        {
            // another tool's wire has no scenario; that is all that is wrong
            let told = format!("--print-scenario and {tool} do not go");
            assert!(ended.err.contains(&told), "{ended:?}");
            continue;
        }
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{example}");
    }
}
