//! Tests that are made of many runs: sweeps, repetitions, RFC 2544, Y.1564. The ports are in memory, where nothing is lost and time
//! is virtual; one test has a receiver on another host.

use std::fs;

use serde_json::Value;
use wirebeat_testbed::{Capability, require};

use crate::whole::{PATIENCE, cable, json as document, wirebeat};
use crate::{Ended, Scratch, run};

const PORTS: &str = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n";

/// A scenario with a variable.
fn lab(scratch: &Scratch, expect: &str) -> String {
    let text = format!(
        "{PORTS}variables: {{ rate: 1kpps, size: 64B }}\n\
         flows:\n  voice: {{ from: a, to: b, rate: '${{rate}}', size: '${{size}}', \
         packet: [ {{ ipv4: {{ destination: 10.0.0.2 }} }}, {{ udp: {{}} }} ] }}\n\
         run: {{ time: 500ms }}\nexpect: [ {expect} ]\n"
    );
    scratch.file("lab.yaml", text.as_bytes())
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn a_sweep_runs_each_combination_and_has_a_row_for_it() {
    let scratch = Scratch::new("sweep");
    let (file, csv) = (lab(&scratch, "loss == 0%"), scratch.path("sweep.csv"));
    let over = ["--over", "rate=1kpps..3kpps/2", "--over", "size=64B,512B"];
    let swept = run(&[&["sweep", &file, "--csv", &csv], &over[..]].concat());
    assert_eq!(swept.code, 0, "{swept:?}");
    assert!(swept.out.starts_with("PASS  wirebeat"), "{}", swept.out);
    let rows: Vec<&str> =
        swept.out.lines().filter(|line| line.trim_start().starts_with(['1', '3'])).collect();
    for (rate, size, frames) in [
        ("1kpps", "64B", "500"),
        ("1kpps", "512B", "500"),
        ("3kpps", "64B", "1,500"),
        ("3kpps", "512B", "1,500"),
    ] {
        let has = |row: &&&str| {
            let words: Vec<&str> = row.split_whitespace().collect();
            words.starts_with(&[rate, size, "PASS", frames, frames])
        };
        assert!(rows.iter().any(|row| has(&row)), "{rate} {size}: {}", swept.out);
    }
    assert!(swept.out.lines().all(|line| line.chars().count() <= 100), "{}", swept.out);
    let rows = fs::read_to_string(csv).unwrap();
    let head = rows.lines().next().unwrap();
    assert!(head.ends_with(",variable rate,variable size"), "{head}");
    assert!(rows.lines().any(|row| row.starts_with("flow,voice,") && row.ends_with(",3kpps,512B")));
}

#[test]
fn a_sweep_says_what_is_wrong_before_it_runs() {
    let scratch = Scratch::new("sweep-wrong");
    let file = lab(&scratch, "");
    for (line, says) in [
        (&["--over", "rte=1kpps"][..], "rte"),
        (&["--over", "rate=1kpps", "--over", "rate=2kpps"], "given twice"),
        (&["--over", "rate=1kpps,1kpps"], "one twice"),
        (&["--over", "rate=1kpps..2pps/4"], "has two units"),
        (&["--over", "rate=2kpps..1kpps/4"], "does not rise"),
        (&["--over", "rate=1kpps..fast/4"], "is not a range"),
        (&["--over", "rate=fast"], "fast"),
        (&["--over", "rate=1..10001/1000", "--repeat", "100"], "more than 10000 runs"),
        (&[], "--over"),
    ] {
        let refused = run(&[&["sweep", &file], line].concat());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{line:?}: {refused:?}");
        assert!(refused.err.contains(says), "{line:?}: {}", refused.err);
    }
}

#[test]
fn a_run_is_repeated_and_has_every_run() {
    let scratch = Scratch::new("repeat");
    let (file, junit) = (lab(&scratch, "loss == 0%"), scratch.path("runs.xml"));
    let repeated = run(&[
        "run", &file, "--repeat", "3", "--warmup", "100ms", "--json", "-", "--junit", &junit,
    ]);
    assert_eq!(repeated.code, 0, "{repeated:?}");
    let runs = json(&repeated);
    let points = runs["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for point in points {
        assert_eq!(point["report"]["total"]["received"]["unique"], 500);
    }
    assert_eq!(fs::read_to_string(junit).unwrap().matches("<testsuite ").count(), 3);
    // a run that fails is told by its number
    let failed = run(&["run", &file, "--repeat", "2", "--expect", "sent > 500"]);
    assert_eq!(failed.code, 4, "{failed:?}");
    assert!(failed.out.starts_with("FAIL  2 of 2 failed.  wirebeat"), "{}", failed.out);
    assert!(failed.out.contains("run 2: FAIL sent > 500"), "{}", failed.out);
    // shown again, it is not better
    let kept = scratch.path("failed.json");
    let line = ["run", &file, "--repeat", "2", "--expect", "sent > 500", "--json", &kept];
    assert_eq!((run(&line).code, run(&["report", &kept]).code), (4, 4));
    // a single run behind a warm-up is a run
    let warmed = json(&run(&["run", &file, "--warmup", "100ms", "--json", "-"]));
    assert_eq!(warmed["total"]["received"]["unique"], 500);
    // who reads lines knows of which run each is, and has one result behind them
    let lines = run(&["run", &file, "--repeat", "2", "--json-lines"]);
    let lines: Vec<Value> =
        lines.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (result, intervals) = lines.split_last().unwrap();
    assert_eq!(result["points"].as_array().unwrap().len(), 2);
    let runs: Vec<u64> = intervals.iter().map(|line| line["run"].as_u64().unwrap()).collect();
    assert!(runs.is_sorted() && runs[0] == 1 && runs.last() == Some(&2), "{runs:?}");
    let few = run(&["run", &file, "--repeat", "0"]);
    assert_eq!(few.code, 2, "{few:?}");
}

#[test]
fn rfc2544_measures_goes_on_and_writes_every_form() {
    let scratch = Scratch::new("rfc2544");
    let (file, state) = (lab(&scratch, ""), scratch.path("state.json"));
    let line = [
        "test",
        "rfc2544",
        &file,
        "--quick",
        "--trial",
        "200ms",
        "--max-rate",
        "5kpps",
        "--sizes",
        "64B,1518B",
        "--measure",
        "all",
        "--latency-time",
        "200ms",
        "--burst-time",
        "20ms",
        "--resume",
        &state,
        "--at-least",
        "100%",
    ];
    let whole = run(&[&line[..], &["--json", "-"]].concat());
    assert_eq!(whole.code, 0, "{whole:?}");
    let report = json(&whole);
    assert_eq!((&report["verdict"], &report["exit_code"]), (&"done".into(), &0.into()));
    for size in report["sizes"].as_array().unwrap() {
        let found = &size["throughput"][0];
        assert_eq!(
            (found["outcome"].as_str(), found["lower"].as_f64()),
            (Some("at_least"), Some(5_000.0))
        );
        assert_eq!(size["latency"]["tagged_ns"].as_array().unwrap().len(), 3);
        assert_eq!(size["back_to_back"]["at_least"], true);
    }
    // all of it is kept: nothing is sent again
    let before = fs::metadata(&state).unwrap().modified().unwrap();
    let again = run(&line);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.starts_with("PASS"), "{}", again.out);
    assert_eq!(fs::metadata(&state).unwrap().modified().unwrap(), before);
}

/// A cable in memory in the place of the device, and of the cable: the test beside itself.
#[test]
fn rfc2544_searches_again_and_shows_the_tester_alone() {
    let scratch = Scratch::new("rfc2544-repeat");
    let (file, alone) = (lab(&scratch, ""), scratch.path("alone.json"));
    let line = format!(
        "test rfc2544 {file} --quick --trial 100ms --max-rate 5kpps --sizes 64B,1518B --measure latency --latency-time 100ms --repeat 3"
    );
    let line: Vec<&str> = line.split_whitespace().collect();
    let first = run(&[&line[..], &["--json", &alone]].concat());
    assert_eq!(first.code, 0, "{first:?}");
    assert!(
        first.out.contains("64B: 3 searches, each: 5.00000 kpps, 5.00000 kpps, 5.00000 kpps"),
        "{}",
        first.out
    );
    assert!(!first.out.contains("tester alone"), "{}", first.out);
    let page = scratch.path("page.html");
    let beside = run(&[&line[..], &["--baseline", &alone, "--html", &page]].concat());
    assert_eq!(beside.code, 0, "{beside:?}");
    let rows = beside.out.lines().filter(|line| line.contains("  tester alone  ")).count();
    assert_eq!(rows, 2, "{}", beside.out);
    assert!(fs::read_to_string(page).unwrap().contains("tester alone"));
    let json = run(&[&line[..], &["--baseline", &alone, "--json", "-"]].concat());
    let of: Value = serde_json::from_str(&json.out).unwrap();
    let kept: Value = serde_json::from_str(&fs::read_to_string(&alone).unwrap()).unwrap();
    for (size, before) in
        of["sizes"].as_array().unwrap().iter().zip(kept["sizes"].as_array().unwrap())
    {
        let baseline = &size["latency"]["baseline"];
        assert_eq!(baseline["started"], kept["started"]);
        assert_eq!(baseline["tagged_mean_ns"], before["latency"]["tagged_mean_ns"]);
        assert_eq!(baseline["delay_ns"]["max"], before["latency"]["delay_ns"][2]["max"]);
        assert_eq!(size["throughput"][0]["searches"]["each"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn rfc2544_refuses_what_it_would_not_do() {
    let scratch = Scratch::new("rfc2544-wrong");
    let file = lab(&scratch, "");
    let cut = scratch.file("cut.json", b"{ \"schema_version\": ");
    let nowhere = scratch.path("no-folder/state.json");
    for (line, says) in [
        (&[file.as_str(), "--speed", "1Gbps"][..], "--speed"),
        (&[&file, "--ttl", "3"], "--ttl"),
        (&[&file, "--from", "eth1"], "--from"),
        (&["--set", "rate=1kpps"], "there is none"),
        (&[&file, "--goal", "loss=1%"], "--mlr"),
        (&[&file, "--mlr", "--goal", "loss=1%", "--width", "1%"], "--width"),
        (&[&file, "--mlr", "--goal", "lost=1%"], "unknown key 'lost'"),
        (&[&file, "--mlr", "--goal", "trial=2s,sum=1s"], "'sum'"),
        (&[&file, "--measure", "jitter"], "unknown measurement 'jitter'"),
        (&[&file], "--max-rate"),
        (&[&file, "--max-rate", "unlimited"], "no highest load"),
        (
            &[&file, "--max-rate", "2kpps", "--at-least", "3kpps", "--quick"],
            "is more than the highest load, 2.00 kpps",
        ),
        (&[&file, "--max-rate", "1kpps", "--resume", &cut], "--resume"),
        (&[&file, "--max-rate", "1kpps", "--resume", "-"], "a test cannot be kept in '-'"),
        (&[&file, "--max-rate", "1kpps", "--resume", &nowhere], "the test cannot be kept"),
        (&[&file, "--max-rate", "1kpps", "--csv", &cut, "--json", &cut], "too"),
        (&["--from", "lo", "--to", "lo", "--destination", "10.0.0.2"], "no device between them"),
        (&[&file, "--max-rate", "1kpps", "--repeat", "0"], "from 1 to 100"),
        (&[&file, "--max-rate", "1kpps", "--baseline", &cut], "the latency is not measured"),
        (&[&file, "--measure", "latency", "--baseline", &cut], "not the JSON of a test"),
        (&[&file, "--measure", "latency", "--baseline", &nowhere], "it cannot be read"),
        (&[&file, "--measure", "latency", "--baseline", "/dev/null"], "not a regular file"),
        (&[], "--from is missing"),
    ] {
        let refused = run(&[&["test", "rfc2544"], line].concat());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{line:?}: {refused:?}");
        assert!(refused.err.contains(says), "{line:?}: {}", refused.err);
    }
}

#[test]
fn rfc2544_goes_on_with_no_file_that_contradicts_itself_or_is_of_another_version() {
    let scratch = Scratch::new("rfc2544-kept");
    let (file, state) = (lab(&scratch, ""), scratch.path("state.json"));
    let line = format!(
        "test rfc2544 {file} --quick --trial 100ms --max-rate 5kpps --sizes 64B --measure recovery --overload-time 100ms \
         --recovery-time 100ms --resume {state}"
    );
    let line: Vec<&str> = line.split_whitespace().collect();
    let whole = run(&line);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(whole.out.contains("the device was not overloaded with 64B"), "{}", whole.out);
    let kept = fs::read_to_string(&state).unwrap();
    let test: Value = serde_json::from_str(&kept).unwrap();
    let trial = &test["sizes"][0]["trials"][0];
    assert_eq!((&trial["sent"], &trial["lost"]), (&500.into(), &0.into()));
    type Plant = fn(&mut Value);
    let plants: [(Plant, &str); 4] = [
        (|test| test["sizes"][0]["trials"][0]["lost"] = 1.into(), "trial 1 with 64B contradicts"),
        (
            |test| test["sizes"][0]["trials"][0]["offered"] = 0.into(),
            "trial 1 with 64B contradicts",
        ),
        (|test| test["wirebeat_version"] = "0.0.1".into(), "version of wirebeat"),
        (|test| test["parameters"]["trial_ns"] = 1.into(), "it is of another test"),
    ];
    for (plant, says) in plants {
        let mut test = test.clone();
        plant(&mut test);
        fs::write(&state, test.to_string()).unwrap();
        let refused = run(&line);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{says}: {refused:?}");
        assert!(refused.err.contains(says), "{says}: {}", refused.err);
    }
    // what was kept can be shown, and as any form
    fs::write(&state, &kept).unwrap();
    let shown = run(&["report", &state]);
    assert_eq!((shown.code, shown.out == whole.out), (0, true), "{shown:?} {whole:?}");
    let csv = run(&["report", &state, "--csv", "-"]);
    assert!(csv.out.starts_with("kind,name,frame_bytes,"), "{csv:?}");
}

#[test]
fn a_sweep_that_is_kept_is_shown_again() {
    let scratch = Scratch::new("sweep-kept");
    let (file, kept) = (lab(&scratch, "loss == 0%"), scratch.path("sweep.json"));
    let swept = run(&["sweep", &file, "--over", "rate=1kpps,2kpps", "--json", &kept]);
    assert_eq!(swept.code, 0, "{swept:?}");
    let shown = run(&["report", &kept]);
    assert_eq!((shown.code, shown.out == swept.out), (0, true), "{shown:?} {swept:?}");
    let page = run(&["report", &kept, "--html", "-"]);
    assert!(page.out.starts_with("<!DOCTYPE html>"), "{page:?}");
}

/// What is printed but for findings: the hypervisor may take time from one of two runs that are the same.
fn tables(out: &str) -> &str {
    out.split("\nfindings\n").next().unwrap()
}

/// A file with the first of two runs, the second of which was not written to its end, gives the same result as two runs.
#[test]
fn a_sweep_goes_on_behind_its_last_whole_run() {
    let scratch = Scratch::new("sweep-resume");
    let (file, kept) = (lab(&scratch, "loss == 0%"), scratch.path("runs"));
    let line = ["sweep", &file, "--over", "rate=1kpps,2kpps", "--resume", &kept];
    let whole = run(&line);
    assert_eq!(whole.code, 0, "{whole:?}");
    let lines = fs::read_to_string(&kept).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    // nothing is left to do
    let again = run(&line);
    assert!(
        again.err.contains("2 of 2 runs were made before") && !again.err.contains("run 1 of 2"),
        "{again:?}"
    );
    assert_eq!(tables(&again.out), tables(&whole.out));
    let end = lines.trim_end().rfind('\n').unwrap();
    fs::write(&kept, &lines[..end + 40]).unwrap();
    let resumed = run(&line);
    assert!(
        resumed.err.contains("1 of 2 runs were made before") && resumed.err.contains("run 2 of 2"),
        "{resumed:?}"
    );
    assert_eq!(tables(&resumed.out), tables(&whole.out));
    assert_eq!(fs::read_to_string(&kept).unwrap().lines().count(), 3);
    for (over, other, says) in [
        ("rate=1kpps,3kpps", &file, "other values"),
        ("size=64B,512B", &file, "other variables"),
        ("rate=1kpps,2kpps", &lab(&scratch, "loss == 1%"), "another scenario"),
    ] {
        let refused = run(&["sweep", other, "--over", over, "--resume", &kept]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(says), "{refused:?}");
    }
    let head = lines.lines().next().unwrap();
    let second = lines.lines().nth(2).unwrap();
    lab(&scratch, "loss == 0%");
    fs::write(&kept, format!("{head}\n{second}\n")).unwrap();
    let refused = run(&line);
    assert!(refused.code == 2 && refused.err.contains("line 2 is damaged"), "{refused:?}");
    // the first line was not written to its end
    fs::write(&kept, &head[..head.len() / 2]).unwrap();
    let again = run(&line);
    assert_eq!((again.code, tables(&again.out)), (0, tables(&whole.out)), "{again:?}");
    let warmed = run(&[&line[..], &["--warmup", "100ms"]].concat());
    assert!(warmed.code == 2 && warmed.err.contains("another --warmup"), "{warmed:?}");
    for (wrong, says) in
        [("no runs\n", "no runs in it"), ("{\"a\": 1}\n", "no runs in it"), ("x", "no runs in it")]
    {
        fs::write(&kept, wrong).unwrap();
        let refused = run(&line);
        assert!(refused.code == 2 && refused.err.contains(says), "{refused:?}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), wrong, "it was changed");
    }
    let refused = run(&["sweep", &file, "--over", "rate=1kpps,2kpps", "--resume", "/dev/null"]);
    assert!(refused.code == 2 && refused.err.contains("not a regular file"), "{refused:?}");
}

/// What was not run is neither passed nor failed: a build server must see that.
#[test]
fn a_sweep_that_is_cut_off_has_not_passed() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), Scratch::new("sweep-cut"));
    let to = bed.b.ipv4;
    let text = format!(
        "ports: {{ a: {{ interface: wb0, engine: packet }} }}\nvariables: {{ rate: 1kpps }}\n\
         flows: {{ x: {{ from: a, rate: '${{rate}}', packet: [ {{ ipv4: {{ destination: {to} }} }}, {{ udp: {{}} }} ] }} }}\n\
         run: {{ time: 1s }}\nexpect: [ sent >= 1 ]\n"
    );
    let (file, junit) = (scratch.file("cut.yaml", text.as_bytes()), scratch.path("cut.xml"));
    let line = format!("sweep {file} --over rate=1kpps..50kpps/50 --junit {junit}");
    let sweep = wirebeat(&bed.a, &line);
    sweep.wait_for("2 of 50", PATIENCE).unwrap();
    sweep.interrupt();
    let cut = sweep.wait(PATIENCE).unwrap();
    assert_eq!(cut.status.code(), Some(1), "{cut:?}");
    assert!(cut.stdout.starts_with("UNFINISHED"), "{}", cut.stdout);
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains("every run was made") && junit.contains("<error"), "{junit}");
}

/// Two services, whose criteria stand with one and in the scenario.
fn services(scratch: &Scratch, expect: &str) -> String {
    let packet = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ]";
    let text = format!(
        "{PORTS}flows:\n  voice: {{ from: a, to: b, rate: 1kpps, {packet}, expect: [ 'loss == 0%', 'rate.received >= 990pps' ] }}\n  \
         video: {{ from: a, to: b, rate: 2kpps, {packet} }}\n\
         expect: [ {expect} ]\n"
    );
    scratch.file("services.yaml", text.as_bytes())
}

#[test]
fn y1564_tests_each_service_and_then_all() {
    let scratch = Scratch::new("y1564");
    let file = services(&scratch, "'video: loss == 0%'");
    let line = ["test", "y1564", &file, "--step-time", "500ms", "--performance-time", "1s"];
    let passed = run(&[&line[..], &["--json", "-"]].concat());
    assert_eq!(passed.code, 0, "{passed:?}");
    let report = json(&passed);
    let points = report["points"].as_array().unwrap();
    // four steps of each, and all
    assert_eq!(points.len(), 9, "{points:#?}");
    let sent = |point: &Value| point["report"]["total"]["received"]["unique"].as_u64();
    let sent: Vec<u64> = points.iter().filter_map(sent).collect();
    assert_eq!(sent, [125, 250, 375, 500, 250, 500, 750, 1_000, 3_000]);
    for point in points {
        let expected = point["report"]["flows"].as_array().unwrap().iter();
        assert!(
            expected.clone().all(|flow| flow["expectations"][0]["text"] == "loss == 0%"),
            "{point}"
        );
    }
    // the pictures are over the steps, and the page has the date and the command
    let (folder, page) = (scratch.path("pictures"), scratch.path("services.html"));
    let more = ["--pictures", &folder, "--html", &page, "--title", "site 3"];
    let drawn = run(&[&line[..], &more].concat());
    assert_eq!(drawn.code, 0, "{drawn:?}");
    assert!(fs::read_dir(folder).unwrap().count() >= 2);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("site 3: ITU-T Y.1564") && page.contains("<dt>command</dt>"));
    // nothing polices what is beyond both rates
    let unpoliced = run(&[&line[..], &["--eir", "video=1kpps", "--configuration-only"]].concat());
    assert_eq!(unpoliced.code, 4, "{unpoliced:?}");
    let row = unpoliced.out.lines().find(|line| line.contains("125% of EIR")).unwrap();
    assert!(row.contains("policing") && row.contains("FAIL"), "{}", unpoliced.out);
    let excess = unpoliced.out.lines().find(|line| line.contains("CIR + EIR")).unwrap();
    assert!(excess.contains("PASS"), "{}", unpoliced.out);
}

/// A network passes no test of a load that the tester did not send.
#[test]
fn y1564_does_not_pass_what_the_tester_did_not_offer() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), Scratch::new("y1564-slow"));
    let to = bed.b.ipv4;
    let text = format!(
        "ports: {{ a: {{ interface: wb0, engine: packet }} }}\n\
         flows: {{ video: {{ from: a, rate: 90Mpps, packet: [ {{ ipv4: {{ destination: {to} }} }}, {{ udp: {{}} }} ], \
         expect: [ 'sent >= 1' ] }} }}\n"
    );
    let (file, junit) = (scratch.file("slow.yaml", text.as_bytes()), scratch.path("slow.xml"));
    let line = format!("test y1564 {file} --step-time 200ms --configuration-only --junit {junit}");
    let ended = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let row = ended.stdout.lines().find(|line| line.contains("100% of CIR")).unwrap();
    assert!(row.contains("UNDECIDED"), "{}", ended.stdout);
    assert!(ended.stdout.contains("limited by the tester: it sent"), "{}", ended.stdout);
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains("<failure") && junit.contains("limited by the tester"), "{junit}");
}

#[test]
fn y1564_refuses_services_without_rates_or_criteria() {
    let scratch = Scratch::new("y1564-wrong");
    let file = services(&scratch, "");
    let refused = run(&["test", "y1564", &file]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("flow 'video' has no acceptance criteria"), "{refused:?}");
    let file = services(&scratch, "'video: loss == 0%'");
    for (eir, says) in [
        ("vidio=1kpps", "unknown flow 'vidio'"),
        ("video=1Mbps", "in another unit"),
        ("video", "not a service with its excess rate"),
    ] {
        let refused = run(&["test", "y1564", &file, "--eir", eir]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(says), "{eir}: {}", refused.err);
    }
}

/// Two minutes of virtual time; the rate of one flow goes up by a tenth in the middle of it.
#[test]
fn a_soak_test_says_what_changed() {
    let scratch = Scratch::new("soak");
    let packet = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ]";
    let text = format!(
        "{PORTS}flows:\n  steady: {{ from: a, to: b, rate: 100pps, {packet} }}\n  \
         rising: {{ from: a, to: b, rate: {{ ramp: {{ from: 100pps, to: 200pps, over: 120s }} }}, {packet} }}\n"
    );
    let file = scratch.file("soak.yaml", text.as_bytes());
    let line = ["test", "soak", &file, "--time", "120s"];
    let told = run(&line);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("in the course of the run"), "{}", told.out);
    let limits = ["--rate-change", "1%", "--delay-change", "1ms", "--json", "-"];
    let judged = run(&[&line[..], &limits].concat());
    assert_eq!(judged.code, 4, "{judged:?}");
    let report = json(&judged);
    let change = |of: &str, measure: &str| {
        let trends = report["trends"].as_array().unwrap().iter();
        let mut trends = trends.filter(|one| one["of"] == of && one["measure"] == measure);
        trends.next().unwrap()["change"]["value"].as_f64().unwrap()
    };
    assert!(change("steady", "received_rate").abs() < 0.1);
    assert!((95.0..100.0).contains(&change("rising", "received_rate")), "{report}");
    let met = |flow: usize| report["flows"][flow]["expectations"][1]["met"].as_bool();
    assert_eq!((met(0), met(1)), (Some(true), Some(false)), "{}", report["flows"][1]);
    // a test that is too short for a trend decides nothing
    let short = run(&["test", "soak", &file, "--time", "5s", "--rate-change", "1%"]);
    assert_eq!(short.code, 4, "{short:?}");
    assert!(
        short.out.contains("UNDECIDED") && short.out.contains("needs 10 full"),
        "{}",
        short.out
    );
}

#[test]
fn rfc2544_takes_a_receiver_on_another_host() {
    require!(Capability::NetworkNamespaces, Capability::PythonModule("junitparser"));
    let (bed, scratch) = (cable(), Scratch::new("rfc2544-far"));
    let address = format!("{}:5960", bed.b.ipv4);
    let key = scratch.file("lab.key", b"a-key-for-two-hosts-2544");
    std::process::Command::new("chmod").args(["600", &key]).status().unwrap();
    let to = bed.b.ipv4;
    let text = format!(
        "ports: {{ a: {{ interface: wb0, engine: packet }}, \
         b: {{ peer: '{address}', key-file: lab.key, addresses: [{to}] }} }}\n\
         flows: {{ x: {{ from: a, to: b, packet: [ {{ ipv4: {{ destination: {to} }} }}, {{ udp: {{}} }} ] }} }}\n"
    );
    let file = scratch.file("far.yaml", text.as_bytes());
    let listen = format!("receive --interface wb1 --port 9 --listen {address} --key-file {key}");
    let receiver = wirebeat(&bed.b, &listen);
    receiver.wait_for("listening on", PATIENCE).unwrap();
    let line = format!(
        "test rfc2544 {file} --quick --trial 300ms --sizes 64B --max-rate 2kpps --measure latency,recovery \
         --latency-time 300ms --overload-time 200ms --recovery-time 200ms --json -"
    );
    let tested = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
    let report = document(&tested);
    let size = &report["sizes"][0];
    assert_eq!(size["throughput"][0]["lower"], 2_000.0, "{size}");
    assert_eq!(size["latency"]["tagged_ns"].as_array().unwrap().len(), 3);
    // the cable bears the highest load, so that nothing is overloaded
    let recovery = &size["recovery"];
    assert_eq!((&recovery["overloaded"], &recovery["mean_ns"]), (&false.into(), &Value::Null));
    // what the tester cannot offer is not known to be reached
    let junit = scratch.path("t.xml");
    let line = format!(
        "test rfc2544 {file} --quick --trial 100ms --sizes 64B --max-rate 90Mpps --at-least 80Mpps --junit {junit}"
    );
    let unmet = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    assert_eq!(unmet.status.code(), Some(4), "{unmet:?}");
    let told = crate::forms::in_junit(&junit);
    assert_eq!((told[0], told[2]), (1, 1), "{told:?}");
}

#[test]
fn what_is_sent_by_flags_is_repeated_too() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 1kpps --count 50 --repeat 3 --warmup 20ms --json -",
        bed.b.ipv4
    );
    let sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let runs = document(&sent);
    let points = runs["points"].as_array().unwrap().iter();
    let frames = |point: &Value| point["report"]["total"]["sent"]["sent"]["frames"].as_u64();
    let frames: Vec<Option<u64>> = points.map(frames).collect();
    assert_eq!(frames, [Some(50); 3]);
    for (command, says) in [
        ("send --to 10.77.0.2 --rate 1kpps --repeat 2 --metrics 127.0.0.1:0", "watch a single run"),
        (
            "send --to 10.77.0.2 --rate 1kpps --repeat 2 --otlp http://127.0.0.1:9",
            "watch a single run",
        ),
        ("load --iperf3 10.77.0.2 --repeat 2", "has one test"),
        ("load --ditg 10.77.0.2 --repeat 2", "sent once, and nothing before them"),
    ] {
        let refused = run(&command.split_whitespace().collect::<Vec<_>>());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{command}: {refused:?}");
        assert!(refused.err.contains(says), "{command}: {}", refused.err);
    }
}
