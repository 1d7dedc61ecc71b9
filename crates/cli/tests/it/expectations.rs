//! What is expected of a run: what is printed, and how the command ends.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Ended, Scratch, line, run};

/// A scenario of two flows between two ports in memory, 2,000 frames and 200.
fn scenario(scratch: &Scratch, expect: &str) -> String {
    let packet = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: { destination: 9 } } ]";
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\n\
         flows:\n  voice: {{ from: a, to: b, rate: 1kpps, {packet}, expect: [ 'lost == 0' ] }}\n  \
         slow: {{ from: a, to: b, rate: 100pps, {packet} }}\n\
         run: {{ time: 2s }}\n{expect}\n"
    );
    scratch.file("s.yaml", text.as_bytes())
}

fn first_line(ended: &Ended) -> &str {
    ended.out.lines().next().unwrap_or_default()
}

#[test]
fn a_run_passes_or_fails_on_its_first_line() {
    let scratch = Scratch::new("verdict");
    let file =
        scenario(&scratch, "expect: [ loss == 0%, 'slow: sent >= 200', '*: reordered == 0' ]");
    let passed = line(&format!("run {file}"));
    assert_eq!(passed.code, 0, "{passed:?}");
    assert!(first_line(&passed).starts_with("PASS  wirebeat"), "{passed:?}");
    assert!(passed.out.contains("All 5 expectations were met."), "{passed:?}");
    let failed = run(&["run", &file, "--expect", "slow: sent >= 201"]);
    assert_eq!(failed.code, 4, "{failed:?}");
    assert!(first_line(&failed).starts_with("FAIL  wirebeat"), "{failed:?}");
    let told = "FAIL      slow: sent >= 201 (measured 200: 1 too little)";
    assert!(failed.out.contains(told), "{failed:?}");
    // two hundred values say nothing of what one in a thousand is
    let undecided = run(&["run", &file, "--expect", "slow: delay.p99.9 < 1s"]);
    assert_eq!(undecided.code, 4, "{undecided:?}");
    let told = "p99.9 needs 10,000 values, and there are 200";
    let words = undecided.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("UNDECIDED") && words.contains(told), "{undecided:?}");
}

#[test]
fn programs_read_what_came_of_an_expectation() {
    let scratch = Scratch::new("verdict-json");
    let file = scenario(&scratch, "");
    let ended = run(&["run", &file, "--json", "-", "--expect", "voice: rate.received >= 2kpps"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["verdict"], "unmet");
    let of_voice = &report["flows"][0]["expectations"];
    assert_eq!((&of_voice[0]["text"], &of_voice[0]["met"]), (&"lost == 0".into(), &true.into()));
    assert_eq!(of_voice[1]["met"], false);
    assert!(of_voice[1]["margin"].as_str().unwrap().ends_with("too little"), "{of_voice}");
    assert_eq!((&of_voice[1]["limit"], &of_voice[1]["unit"]), (&2000.into(), &"per second".into()));
    assert!(of_voice[1]["measured_value"].as_f64().unwrap() < 2000.0, "{of_voice}");
}

#[test]
fn a_mistake_is_named_where_it_stands() {
    let scratch = Scratch::new("verdict-wrong");
    let file = scenario(&scratch, "expect:\n  - loss == 0%\n  - voce: lost == 0");
    let wrong = line(&format!("check {file}"));
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("did you mean 'voice'") && wrong.err.contains(":8:5"), "{wrong:?}");
    let file = scenario(&scratch, "");
    for (expect, says) in [
        ("losss == 0%", "did you mean 'loss'?"),
        ("latency.p99 < 1ms", "did you mean 'delay.p99'?"),
        ("voce: lost == 0", "did you mean 'voice'"),
        ("delay.p99 < 1", "unit"),
        ("established >= 3", "nothing measures 'established'"),
    ] {
        let wrong = run(&["run", &file, "--expect", expect]);
        assert_eq!(wrong.code, 2, "{wrong:?}");
        assert!(wrong.err.contains(says) && wrong.err.contains("--expect"), "{wrong:?}");
    }
}

/// On a virtual clock, where each response takes 30.5 µs.
#[test]
fn response_times_are_held_to_a_limit_in_each_interval() {
    let scratch = Scratch::new("interval-response");
    let text = "ports: { a: { engine: loopback }, b: { engine: loopback } }\nsessions:\n  web: { from: a, to: b, stack: own, \
                clients: { addresses: 10.0.0.1-10.0.0.9 }, servers: { addresses: 10.9.0.1, ports: 80 }, rate: 2000/s, \
                program: { http: { size: 1kB } } }\nrun: { time: 2s }\n";
    let file = scratch.file("http.yaml", text.as_bytes());
    let judged = |expected: &str| run(&["run", &file, "--interval", "500ms", "--expect", expected]);
    for (expected, code, told) in [
        (
            "interval.response.p50 < 1ms",
            0,
            "at worst 30.5 µs (from 0 ns to 500 ms, of 4 intervals)",
        ),
        ("interval.response.p50 < 1us", 4, "not met in 4 of 4 intervals"),
    ] {
        let ended = judged(expected);
        assert_eq!(ended.code, code, "{ended:?}");
        let words: Vec<&str> = ended.out.split_whitespace().collect();
        assert!(words.join(" ").contains(told), "{ended:?}");
    }
}

/// Nothing listens there: the first second says what the other fifty-nine would.
#[test]
fn a_run_ends_at_the_first_interval_that_breaks_what_is_expected() {
    for expected in ["interval.failed == 0", "failed <= 20", "duration < 2s"] {
        let begin = Instant::now();
        let load =
            ["load", "http://127.0.0.1:1/", "--rate", "50/s", "--time", "60s", "--abort-on-fail"];
        let ended = run(&[&load[..], &["--expect", expected]].concat());
        assert!(begin.elapsed() < Duration::from_secs(30), "{ended:?}");
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(ended.err.contains(expected), "{ended:?}");
    }
}

/// Runs in memory are the same each time: the same five a side pass, and others with other traffic fail.
#[test]
fn runs_are_compared_with_runs_of_before() {
    let scratch = Scratch::new("compare");
    let file = |rate: &str| {
        let packet = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: { destination: 9 } } ]";
        let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }";
        let flow = format!("flows: {{ x: {{ from: a, to: b, rate: {rate}, {packet} }} }}");
        let name = format!("{rate}.yaml");
        scratch.file(&name, format!("{ports}\n{flow}\nrun: {{ time: 2s }}\n").as_bytes())
    };
    let report = |scenario: &str, name: &str| {
        let path = scratch.path(name);
        let ended = run(&["run", scenario, "--json", &path]);
        assert_eq!(ended.code, 0, "{ended:?}");
        path
    };
    let (usual, slower) = (file("1kpps"), file("900pps"));
    let old: Vec<String> = (0..5).map(|n| report(&usual, &format!("old-{n}.json"))).collect();
    let new: Vec<String> = (0..5).map(|n| report(&slower, &format!("new-{n}.json"))).collect();
    let compare = |old: &[String], new: &[String], more: &[&str]| {
        let words = ["compare"].into_iter().chain(old.iter().map(String::as_str));
        let words = words.chain(more.iter().copied()).chain(["--"]);
        run(&words.chain(new.iter().map(String::as_str)).collect::<Vec<_>>())
    };
    let again: Vec<String> = (0..5).map(|n| report(&usual, &format!("again-{n}.json"))).collect();
    let same = compare(&old, &again, &["--threshold", "1%"]);
    assert_eq!(same.code, 0, "{same:?}");
    assert!(first_line(&same).starts_with("PASS"), "{same:?}");
    let asked = compare(&old, &again, &[]);
    assert_eq!(asked.code, 0, "{asked:?}");
    assert!(first_line(&asked).starts_with("UNCHANGED"), "{asked:?}");
    let twice = compare(&old, &old, &[]);
    assert!(twice.code == 2 && twice.err.contains("given twice"), "{twice:?}");
    let behind = run(&["compare", &old[0], "--", &new[0], "--threshold", "5%"]);
    assert!(behind.code == 2 && behind.err.contains("flags stand before"), "{behind:?}");
    let only = ["--threshold", "5%", "--metric", "rate.received", "--json", "-"];
    let fails = compare(&old, &new, &only);
    assert_eq!(fails.code, 4, "{fails:?}");
    let changes: Value = serde_json::from_str(&fails.out).unwrap();
    assert_eq!(changes["verdict"], "fail");
    assert_eq!(changes["metrics"][0]["outcome"], "fails");
    assert_eq!(changes["notes"][0], "the runs are not of one scenario");
    let (cases, rows) = (scratch.path("compare.xml"), scratch.path("compare.csv"));
    let files =
        ["--threshold", "5%", "--metric", "rate.received", "--junit", &cases, "--csv", &rows];
    assert_eq!(compare(&old, &new, &files).code, 4);
    let cases = fs::read_to_string(cases).unwrap();
    assert!(cases.contains("name=\"rate.received worse by less than 5.00 %\""), "{cases}");
    assert!(cases.contains("failures=\"1\""), "{cases}");
    let rows = fs::read_to_string(rows).unwrap();
    assert!(rows.lines().nth(1).unwrap().starts_with("change,total,rate.received,fails,5,5,"));
    let few = compare(&old[..2], &new[..2], &["--threshold", "5%"]);
    assert_eq!(few.code, 4, "{few:?}");
    assert!(few.out.contains("fewer than 5 runs"), "{few:?}");
    let missing = compare(&old, &["none.json".to_owned()], &[]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("none.json") && missing.err.contains("--json"), "{missing:?}");
    let unknown = compare(&old, &new, &["--metric", "delay"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.err.contains("delay.p99"), "{unknown:?}");
}

/// A report has room for some hundreds of intervals, of which each is of several seconds in a long run. A second in which one of two flows
/// was silent breaks what is expected of each second, and is seen in the report and on its page.
#[test]
fn a_silent_second_of_an_hour_is_found_and_seen() {
    let scratch = Scratch::new("verdict-hour");
    let packet = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: { destination: 9 } } ]";
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\n\
         flows:\n  voice: {{ from: a, to: b, rate: 100pps, {packet}, at: {{ 1234s: pause, 1235s: resume }} }}\n  \
         steady: {{ from: a, to: b, rate: 100pps, {packet} }}\nrun: {{ time: 1h }}\n"
    );
    let file = scratch.file("hour.yaml", text.as_bytes());
    let page = scratch.path("hour.html");
    let expect = ["interval.rate.received >= 150pps", "steady: interval.rate.received >= 99pps"];
    let mut words = vec!["run", file.as_str(), "--json", "-", "--html", page.as_str()];
    expect.iter().for_each(|one| words.extend(["--expect", one]));
    let ended = run(&words);
    assert_eq!(ended.code, 4, "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let intervals = report["intervals"].as_array().unwrap();
    assert!(intervals.len() <= 512, "all are told apart: {}", intervals.len());
    let of_all = &report["total"]["expectations"][0];
    assert_eq!(of_all["met"], false);
    let told = of_all["measured"].as_str().unwrap();
    assert!(
        told.ends_with("not met in 1 of 3,600 intervals")
            || told.ends_with("not met in 1 of 3,599 intervals"),
        "{told}"
    );
    assert_eq!(
        report["flows"][1]["expectations"][0]["met"], true,
        "{}",
        report["flows"][1]["expectations"]
    );
    let silent = intervals.iter().flat_map(|one| one["flows"].as_array().unwrap()).filter(|flow| {
        flow["name"] == "voice" && flow["extremes"]["received_least"]["frames"] == 0
    });
    let silent: Vec<&Value> = silent.collect();
    assert_eq!(silent.len(), 1, "{silent:?}");
    let least = &silent[0]["extremes"]["received_least"];
    assert_eq!(
        (&least["from_ns"], &least["to_ns"]),
        (&1_234_000_000_000_u64.into(), &1_235_000_000_000_u64.into())
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("received: least 0 pps at 20 min 34 s"), "the page does not have it");
}
