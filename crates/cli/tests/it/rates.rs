//! Rates in reports: what was requested and what was sent are counted over the same time.

use serde_json::Value;

use crate::{Scratch, line};

/// The report of flows between two ports in memory.
fn report(name: &str, flows: &str, time: &str) -> Value {
    let scratch = Scratch::new(name);
    let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }";
    let file = scratch.file("s.yaml", format!("{ports}\nflows:\n{flows}\n").as_bytes());
    let ended = line(&format!("run {file} --time {time} --json -"));
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

fn flow(keys: &str) -> String {
    flow_named("f", keys)
}

fn flow_named(name: &str, keys: &str) -> String {
    format!(
        "  {name}: {{ from: a, to: b, size: 100B, packet: [ {{ ipv4: {{ destination: 10.0.0.2 }} }}, {{ udp: {{ destination: 9 }} }} ], {keys} }}\n"
    )
}

/// Frames per second that were requested and sent, and frames that were requested.
fn rates(of: &Value) -> (f64, f64, u64) {
    let sent = &of["sent"];
    (
        sent["offered"]["frames_per_second"].as_f64().unwrap(),
        sent["rates"]["frames_per_second"].as_f64().unwrap(),
        sent["requested"]["frames"].as_u64().unwrap(),
    )
}

fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 2e-3, "{found}, not {wanted}");
}

/// The requested rate was the last one of a ramp or of steps, and the mean of whole periods of a sine.
#[test]
fn the_requested_rate_of_a_changing_rate_is_its_mean_over_the_time() {
    for (rate, mean) in [
        ("{ ramp: { from: 1kpps, to: 10kpps, over: 2s } }", 5500.0),
        ("{ ramp: { from: 1kpps, to: 10kpps, over: 4s } }", 3250.0),
        ("{ steps: { 0s: 1kpps, 1500ms: 9kpps } }", 3000.0),
        // half a period: 2 / pi of the amplitude above the middle
        ("{ sine: { mean: 2kpps, amplitude: 1kpps, period: 4s } }", 2636.62),
    ] {
        let found = report("changing", &flow(&format!("rate: {rate}")), "2s");
        for of in [&found["flows"][0], &found["total"]] {
            let (offered, sent, frames) = rates(of);
            near(offered, mean);
            near(sent, mean);
            near(offered, frames as f64 / 2.0);
            let bits = of["sent"]["offered"]["frame_bits_per_second"].as_f64().unwrap();
            near(bits, mean * 800.0);
        }
    }
}

/// A flow that its count ends was asked for at the rate of the end of its ramp.
#[test]
fn a_ramp_that_a_count_ends_has_the_mean_until_then() {
    let ramp = "rate: { ramp: { from: 1kpps, to: 10kpps, over: 2s } }, count: 3250";
    let (offered, sent, frames) = rates(&report("counted", &flow(ramp), "10s")["flows"][0]);
    assert_eq!(frames, 3250);
    // 1000 t + 2250 t^2 = 3250 where t is 1 s
    near(offered, 3250.0);
    near(sent, 3250.0);
}

/// The last pause was in the time of the requested rate and not in that of the sent one: 100 pps and 109.8 pps.
#[test]
fn both_rates_of_bursts_have_the_last_pause() {
    let bursts = "departures: { on-off: { on: 100ms, off: 900ms } }";
    for limit in ["rate: 1kpps", "rate: 1kpps, count: 1000"] {
        let found = report("pauses", &flow(&format!("{limit}, {bursts}")), "10s");
        let (offered, sent, frames) = rates(&found["flows"][0]);
        assert_eq!((frames, offered, sent), (1000, 100.0, 100.0), "{limit}");
        let (offered, sent, _) = rates(&found["total"]);
        assert_eq!((offered, sent), (100.0, 100.0), "{limit}");
    }
}

/// The rates of flows that never ran together were added up: 2 kpps requested, and 200 pps sent.
#[test]
fn the_total_of_flows_one_after_the_other_is_their_frames_by_the_time() {
    let flows = flow_named("f", "rate: 1kpps, stop: 1s")
        + &flow_named("g", "rate: 1kpps, start: 9s, stop: 10s");
    let found = report("apart", &flows, "10s");
    for of in found["flows"].as_array().unwrap() {
        let (offered, sent, frames) = rates(of);
        assert_eq!((offered, frames), (1000.0, 1000));
        near(sent, 1000.0);
    }
    let (offered, sent, frames) = rates(&found["total"]);
    assert_eq!(frames, 2000);
    near(offered, 200.0);
    near(sent, 200.0);
    assert!((offered / sent - 1.0).abs() < 1e-6, "{offered}, {sent}");
}

/// Staggered flows are sent together, though they do not begin at one moment.
#[test]
fn the_total_of_flows_at_one_time_is_the_sum_of_their_rates() {
    let flows = flow_named("f", "rate: 10pps") + &flow_named("g", "rate: 10pps");
    let (offered, sent, _) = rates(&report("together", &flows, "1s")["total"]);
    assert_eq!(offered, 20.0);
    near(sent, 20.0);
}

/// `1/700s` was 0.001 frames in a second.
#[test]
fn small_rates_are_exact() {
    for (rate, time, exact) in [("1/3s", "9s", 1.0 / 3.0), ("1/700s", "2100s", 1.0 / 700.0)] {
        let found = report("small", &flow(&format!("rate: {rate}")), time);
        for of in [&found["flows"][0], &found["total"]] {
            let (offered, sent, _) = rates(of);
            assert!((offered / exact - 1.0).abs() < 1e-11, "{offered}");
            assert!((sent / exact - 1.0).abs() < 1e-11, "{sent}");
        }
    }
    let scratch = Scratch::new("small-text");
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nflows:\n{}",
        flow("rate: 1/700s")
    );
    let file = scratch.file("s.yaml", text.as_bytes());
    let shown = line(&format!("run {file} --time 1400s --details"));
    assert!(shown.out.contains("0.00142857 pps"), "{shown:?}");
    let explained = line(&format!("explain {file}"));
    assert!(explained.out.contains("0.00142857 frames/s"), "{explained:?}");
}

/// It was refused, with a place in the file, though help says "whatever the scenario says".
#[test]
fn a_shorter_time_leaves_out_flows_that_start_later() {
    let scratch = Scratch::new("shorter");
    let flows = flow_named("f", "rate: 1kpps") + &flow_named("g", "rate: 1kpps, start: 2s");
    let ports = "ports: { a: { engine: loopback }, b: { engine: loopback } }";
    let file = scratch.file("s.yaml", format!("{ports}\nflows:\n{flows}\n").as_bytes());
    let ended = line(&format!("run {file} --time 1s --json {}", scratch.path("r.json")));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("flow 'g' starts at 2s and is not sent"), "{ended:?}");
    let report = std::fs::read_to_string(scratch.path("r.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["flows"].as_array().unwrap().len(), 1);
    assert_eq!(report["total"]["sent"]["sent"]["frames"], 1000);
    // nothing at all is wrong usage, and the flag is named
    let only = scratch
        .file("t.yaml", format!("{ports}\nflows:\n{}", flow("rate: 1kpps, start: 2s")).as_bytes());
    let ended = line(&format!("run {only} --time 1s"));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("--time 1s"), "{ended:?}");
}

/// It lay in the current folder, and a file that was there was written over without a word.
#[test]
fn the_file_of_a_pcap_port_lies_beside_its_scenario() {
    let scratch = Scratch::new("beside");
    let text = format!(
        "ports: {{ a: {{ engine: pcap, file: wb-beside.pcapng }} }}\nflows:\n{}",
        flow("rate: 1kpps, count: 5").replace(" to: b,", "")
    );
    let file = scratch.file("s.yaml", text.as_bytes());
    let first = line(&format!("run {file}"));
    assert_eq!(first.code, 0, "{first:?}");
    assert!(!first.err.contains("writes over"), "{first:?}");
    assert!(std::fs::metadata(scratch.path("wb-beside.pcapng")).unwrap().len() > 0);
    assert!(!std::path::Path::new("wb-beside.pcapng").exists());
    let again = line(&format!("run {file}"));
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.err.contains("port 'a' writes over"), "{again:?}");
}

/// Two flows of 9 Gbps on one port were "ok".
#[test]
fn a_check_without_a_speed_says_that_the_load_was_not_checked() {
    let scratch = Scratch::new("load");
    let flows = flow_named("f", "rate: 9Gbps") + &flow_named("g", "rate: 9Gbps");
    let scenario =
        |speed: &str| format!("ports: {{ a: {{ {speed} }}, b: {{}} }}\nflows:\n{flows}\n");
    let unknown = scratch.file("s.yaml", scenario("").as_bytes());
    let ended = line(&format!("check {unknown}"));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("not checked: the speed of port 'a' is not known"), "{ended:?}");
    assert!(!ended.out.contains("port 'b'"), "{ended:?}");
    let json: Value =
        serde_json::from_str(&line(&format!("check {unknown} --json -")).out).unwrap();
    assert_eq!(json["files"][0]["not_checked"].as_array().unwrap().len(), 1);
    let known = scratch.file("t.yaml", scenario("speed: 100Gbps").as_bytes());
    assert!(!line(&format!("check {known}")).out.contains("not checked"));
    let slow = scratch.file("u.yaml", scenario("speed: 10Gbps").as_bytes());
    assert_eq!(line(&format!("check {slow}")).code, 2);
}
