//! The examples: every one of them is read, compiled and scheduled, and the result is held against a
//! golden file that a person can review. `UPDATE_GOLDEN=1` writes the files anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use wirebeat_traffic::compile::{Link, Links, compile};
use wirebeat_traffic::program::{Departures, Flow, Program};
use wirebeat_traffic::schedule::{Schedule, Shard, period};
use wirebeat_traffic::spec::{FlowSpec, PortSpec, Scenario, json_schema};
use wirebeat_units::{BitRate, Nanos, Rate};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Holds `text` against the file, or writes it there.
fn golden(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == text,
        "{} differs; look at it with UPDATE_GOLDEN=1 and git diff. It should be:\n{text}",
        path.display()
    );
}

fn examples() -> Vec<(String, Scenario)> {
    let mut examples: Vec<(String, Scenario)> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let scenario = Scenario::from_yaml(&text, &path.to_string_lossy());
            (name, scenario.unwrap_or_else(|error| panic!("{error}")))
        })
        .collect();
    examples.sort_by(|(a, _), (b, _)| a.cmp(b));
    examples
}

/// Links of 10 Gb/s on which everything is made up, in the order of the ports.
fn imaginary_links(scenario: &Scenario) -> Links {
    let link = |number| Link { speed: Some(BitRate(10_000_000_000)), ..Link::imaginary(number) };
    Links { ports: scenario.ports.keys().cloned().zip((0..).map(link)).collect() }
}

fn compiled(scenario: &Scenario) -> Program {
    compile(scenario, &imaginary_links(scenario)).unwrap_or_else(|error| panic!("{error}"))
}

fn describe_flow(flow: &Flow, out: &mut String) -> std::fmt::Result {
    let Flow { name, id, from, to, template, departures, late, endpoint } = flow;
    writeln!(out, "flow {id} '{name}': {from} -> {}", to.as_deref().unwrap_or("(elsewhere)"))?;
    let Departures { rate, burst, start, stop, count } = departures;
    let rate = rate.map_or("as fast as possible".to_owned(), |rate| rate.to_string());
    write!(out, "  {rate} in bursts of {burst}, from {start}")?;
    match *stop {
        Nanos::MAX => {}
        stop => write!(out, " to {stop}")?,
    }
    match *count {
        u64::MAX => writeln!(out, ", late: {late:?}")?,
        count => writeln!(out, ", {count} frames, late: {late:?}")?,
    }
    writeln!(
        out,
        "  datagrams {} -> {}, TTL {}, ToS {:#04x}, checksum {}",
        endpoint.source, endpoint.destination, endpoint.ttl, endpoint.tos, endpoint.checksum
    )?;
    let stamp = template.stamp;
    writeln!(
        out,
        "  frame of {}; payload at {}, {} bytes; probe at {}, checksum at {}, identification at {}",
        template.len(),
        template.payload_at,
        template.payload_len,
        stamp.probe_at,
        stamp.checksum_at,
        stamp.identification_at
    )?;
    // The middle of a long frame is payload and says nothing new.
    for (i, line) in template.bytes.chunks(16).enumerate() {
        let offset = i * 16;
        if (96..template.bytes.len().saturating_sub(32)).contains(&offset) {
            if offset == 96 {
                writeln!(out, "    ...")?;
            }
            continue;
        }
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(out, "    {offset:04x}  {}", hex.join(" "))?;
    }
    Ok(())
}

fn describe_port(program: &Program, port: &str, out: &mut String) -> std::fmt::Result {
    let flows = program.flows_from(port);
    if flows.is_empty() {
        return Ok(());
    }
    match period(program, &flows, Shard::WHOLE, 4096) {
        Some(period) => writeln!(
            out,
            "port {port}: repeats after {} frames and {:.6} ns, {} times",
            period.round.len(),
            period.length_q32 as f64 / (1_u64 << 32) as f64,
            period.rounds
        )?,
        None => writeln!(out, "port {port}: does not repeat within 4096 frames")?,
    }
    for departure in Schedule::new(program, &flows, Shard::WHOLE).take(12) {
        let name = &program.flows[departure.flow as usize].name;
        writeln!(out, "  {:>12} ns  {name} {}", departure.at.get(), departure.index)?;
    }
    Ok(())
}

fn describe(scenario: &Scenario) -> String {
    let program = compiled(scenario);
    let mut out = String::new();
    for flow in &program.flows {
        describe_flow(flow, &mut out).unwrap();
    }
    for port in scenario.ports.keys() {
        describe_port(&program, port, &mut out).unwrap();
    }
    out
}

#[test]
fn every_example_gives_its_golden_frames_and_departures() {
    let examples = examples();
    assert!(examples.len() >= 10, "the examples are there");
    for (name, scenario) in examples {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
        golden(&path, &describe(&scenario));
    }
}

#[test]
fn every_example_survives_printing_and_reading() {
    for (name, scenario) in examples() {
        let yaml = scenario.to_yaml().unwrap();
        assert_eq!(Scenario::from_yaml(&yaml, &name), Ok(scenario), "{yaml}");
    }
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let schema = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    golden(&root().join("docs/scenario.schema.json"), &schema);
}

#[test]
fn the_reference_names_every_key() {
    let reference = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    fn keys(schema: &serde_json::Value, found: &mut Vec<String>) {
        if let Some(map) = schema.as_object() {
            if let Some(properties) = map.get("properties").and_then(|keys| keys.as_object()) {
                found.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| keys(value, found));
        } else if let Some(list) = schema.as_array() {
            list.iter().for_each(|value| keys(value, found));
        }
    }
    let mut found = Vec::new();
    keys(&json_schema(), &mut found);
    assert!(found.len() > 30, "{found:?}");
    for key in found {
        assert!(reference.contains(&format!("`{key}`")), "docs/scenario.md does not name '{key}'");
    }
}

#[test]
fn the_reference_lists_every_example_and_its_own_are_right() {
    let reference = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    for (name, _) in examples() {
        assert!(reference.contains(&format!("(../examples/{name}.yaml)")), "{name} is not listed");
    }
    let whole = reference.split("```").find(|block| block.starts_with("yaml\n# 100,000")).unwrap();
    let text = whole.strip_prefix("yaml\n").unwrap();
    let single = fs::read_to_string(root().join("examples/single.yaml")).unwrap();
    assert_eq!(Scenario::from_yaml(text, "reference"), Scenario::from_yaml(&single, "single"));
}

#[test]
fn ten_thousand_flows_compile() {
    let mut scenario = Scenario::default();
    scenario.ports.insert("a".to_owned(), PortSpec::default());
    for i in 0..10_000 {
        let flow = FlowSpec {
            to: Some("a".to_owned()),
            rate: format!("{}pps", 50 + i % 100).parse::<Rate>().unwrap(),
            ..FlowSpec::from_port("a")
        };
        scenario.flows.insert(format!("flow{i}"), flow);
    }
    let yaml = scenario.to_yaml().unwrap();
    let program = compiled(&Scenario::from_yaml(&yaml, "ten thousand").unwrap());
    assert_eq!(program.flows.len(), 10_000);
    let flows = program.flows_from("a");
    let departures: Vec<_> = Schedule::new(&program, &flows, Shard::WHOLE).take(200_000).collect();
    assert!(departures.is_sorted_by_key(|departure| (departure.at, departure.flow)));
    assert_eq!(departures.len(), 200_000);
}
