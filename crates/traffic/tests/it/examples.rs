//! The examples: every one of them is read, compiled and scheduled, and the result is held against a
//! golden file that a person can review. `UPDATE_GOLDEN=1` writes the files anew.

use std::fmt::Write;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use wirebeat_traffic::compile::{
    Files, Links, RecordedEnd, RecordedSession, RecordedSessions, RecordedTurn, as_run, compile,
    compile_sessions,
};
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::program::{Departures, Flow, Pace, Program, Stream};
use wirebeat_traffic::scenario::{FlowSpec, PortSpec, Scenario, json_schema};
use wirebeat_traffic::schedule::{Schedule, Shard, period};
use wirebeat_units::{Nanos, Rate};

use crate::world::{imaginary_links, root};

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

/// The sessions of captures that it says again. Who reads captures stands above: each says something.
fn insert_sessions(files: &mut Files, scenario: &Scenario) {
    for (name, numbers) in Files::sessions_named_in(scenario) {
        let of = |number: &Option<NonZeroU64>| {
            let mut groups = scenario.sessions.values();
            let group = groups.find(|group| {
                group.program.capture().is_some_and(|it| it.file == name && it.session == *number)
            });
            let turn = |by_client| RecordedTurn {
                by_client,
                bytes: [7; 100].into(),
                after: Nanos::from_millis(1),
            };
            let session = RecordedSession {
                transport: group.unwrap().transport,
                turns: vec![turn(true), turn(false)],
                end: RecordedEnd::Client,
                missing: 0,
                is_from_the_start: true,
            };
            (number.map_or(1, NonZeroU64::get), session)
        };
        let sessions = numbers.iter().map(of).collect();
        let count = numbers.len() as u64;
        files.insert_sessions(name.to_owned(), RecordedSessions { count, sessions });
    }
}

/// The files that it names, from the folder of the examples.
fn files(scenario: &Scenario) -> Files {
    let mut files = Files::default();
    for name in Files::named_in(scenario) {
        let content = fs::read(root().join("examples").join(name)).unwrap();
        files.insert(name.to_owned(), content);
    }
    insert_sessions(&mut files, scenario);
    let replays = scenario.flows.values().filter_map(|flow| flow.replay.as_ref());
    for name in replays.flat_map(|replay| replay.names()) {
        let content = fs::read(root().join("examples").join(name)).unwrap();
        // of a capture, that of an Ethernet link
        let is_archive = name.ends_with(".wbar");
        let longest = if is_archive { longest_data(&content) } else { 1514 };
        files.insert_recording(name.clone(), longest);
    }
    files
}

/// The length of the longest data in an archive: a record begins with its own length, and 30 bytes are before the data.
fn longest_data(mut archive: &[u8]) -> u32 {
    let mut longest = 0;
    while let Some(length) = archive.first_chunk() {
        let length = u16::from_be_bytes(*length);
        longest = longest.max(u32::from(length) - 30);
        archive = &archive[usize::from(length)..];
    }
    longest
}

fn compiled(scenario: &Scenario) -> Program {
    compile(scenario, &imaginary_links(scenario), &files(scenario))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Without what depends on whether an address was written or found.
fn without_endpoints(mut program: Program) -> Program {
    program.flows.iter_mut().for_each(|flow| flow.endpoint = None);
    program
}

#[test]
fn a_scenario_as_it_is_run_is_a_scenario_with_the_same_frames_and_departures() {
    for (name, scenario) in examples() {
        let (links, program) = (imaginary_links(&scenario), compiled(&scenario));
        let text = as_run(&scenario, &links, &program).to_json().unwrap();
        let probe = ["\"probe\":"].into_iter().filter(|_| !scenario.flows.is_empty());
        for key in
            ["\"seed\":", "\"departures\":", "\"settle\":", "\"engine\":"].into_iter().chain(probe)
        {
            assert!(text.contains(key), "{name} does not say {key} {text}");
        }
        let again = Scenario::from_yaml(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        // of the machine nothing is known but what the text says
        let compiled = compile(&again, &Links::default(), &files(&scenario));
        let compiled = compiled.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(without_endpoints(compiled), without_endpoints(program), "{name}");
        let sessions = |of: &Scenario| compile_sessions(of, &files(&scenario)).unwrap().starts;
        assert_eq!(sessions(&again), sessions(&scenario), "{name}");
    }
}

fn describe_flow(program: &Program, flow: &Flow, out: &mut String) -> std::fmt::Result {
    let Flow { name, id, from, to, late, endpoint, .. } = flow;
    writeln!(out, "flow {id} '{name}': {from} -> {}", to.as_deref().unwrap_or("(elsewhere)"))?;
    writeln!(out, "  late: {late:?}")?;
    match endpoint {
        Some(endpoint) => writeln!(
            out,
            "  datagrams {} -> {}, TTL {}, ToS {:#04x}, checksum {}",
            endpoint.source, endpoint.destination, endpoint.ttl, endpoint.tos, endpoint.checksum
        )?,
        None => writeln!(out, "  frames only")?,
    }
    if let Some(copies) = &flow.copies {
        for (n, start) in (0..).zip(copies.starts()).take(3) {
            let ends = copies.ends(n);
            let port = copies.client_port(&ends, (0, 1));
            let shown =
                |ip: Option<std::net::IpAddr>| ip.map_or("-".to_owned(), |ip| ip.to_string());
            let (client, server) = (shown(ends.client), shown(ends.server));
            writeln!(out, "  copy {n} at {start}: {client} port {port} -> {server}")?;
        }
        writeln!(out, "  {} copies", copies.starts().count())?;
    }
    let mut before = None;
    for stream in program.streams((*id).into()) {
        describe_departures(&stream.departures, out)?;
        if before != Some(&stream.frames) {
            describe_frames(stream, out)?;
        }
        before = Some(&stream.frames);
    }
    Ok(())
}

fn describe_departures(departures: &Departures, out: &mut String) -> std::fmt::Result {
    let Departures { pace, burst, start, stop, count } = departures;
    let pace = match pace {
        Pace::Unlimited => "as fast as possible".to_owned(),
        Pace::Constant(rate) => rate.to_string(),
        Pace::Silent => "paused".to_owned(),
        other => {
            let kind = format!("{other:?}");
            let kind = kind.split(['(', ' ']).next().unwrap_or_default().to_lowercase();
            match other.mean_rate() {
                Some(rate) => format!("{kind}, {:.3} frames a second on average", rate * 1e9),
                None => kind,
            }
        }
    };
    write!(out, "  {pace}, in bursts of {burst}, from {start}")?;
    match *stop {
        Nanos::MAX => {}
        stop => write!(out, " to {stop}")?,
    }
    match *count {
        u64::MAX => writeln!(out)?,
        count => writeln!(out, ", {count} frames")?,
    }
    Ok(())
}

fn describe_frames(stream: &Stream, out: &mut String) -> std::fmt::Result {
    let frames = &stream.frames;
    let mut first = vec![0; 70_000];
    let changes = !frames.is_constant();
    let built = frames.frame().build(0, &mut first);
    let lengths: Vec<String> = (0..8).map(|n| frames.counted(n).bytes.to_string()).collect();
    match frames.period() {
        Some(1) => writeln!(out, "  frame of {}B", built.counted.bytes)?,
        Some(period) => {
            writeln!(out, "  frames of {}B …, the same after {period}", lengths.join(", "))?;
        }
        None => writeln!(out, "  frames of {}B …", lengths.join(", "))?,
    }
    writeln!(
        out,
        "  payload at {}, {} bytes; probe at {}, checksum at {}, identification at {}",
        frames.headers_len(),
        built.counted.payload,
        built.stamp.probe_at,
        built.stamp.checksum_at,
        built.stamp.identification_at
    )?;
    // The middle of a long frame is payload and says nothing new.
    let bytes = &first[..built.len as usize];
    for (i, line) in bytes.chunks(16).enumerate() {
        let offset = i * 16;
        if (96..bytes.len().saturating_sub(32)).contains(&offset) {
            if offset == 96 {
                writeln!(out, "    ...")?;
            }
            continue;
        }
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(out, "    {offset:04x}  {}", hex.join(" "))?;
    }
    if changes {
        (1..3).try_for_each(|n| describe_headers(stream, n, out))?;
    }
    Ok(())
}

/// The headers of frame `n`, which the first frame does not tell.
fn describe_headers(stream: &Stream, n: u64, out: &mut String) -> std::fmt::Result {
    let mut frame = vec![0; 70_000];
    let built = stream.frames.frame().build(n, &mut frame);
    writeln!(out, "  headers of frame {n}, which has {}B", built.counted.bytes)?;
    for (line, at) in
        frame[..usize::from(stream.frames.headers_len())].chunks(16).zip((0..).step_by(16))
    {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(out, "    {at:04x}  {}", hex.join(" "))?;
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

/// Who talks to whom in the first sessions, and when they start.
fn describe_sessions(
    sessions: &Sessions,
    group: &SessionGroup,
    out: &mut String,
) -> std::fmt::Result {
    let SessionGroup { name, from, to, program, users, start, stop, count, .. } = group;
    let end = |port: &Option<String>| port.as_deref().unwrap_or("(elsewhere)").to_owned();
    writeln!(out, "sessions '{name}': {} -> {}, {program}", end(from), end(to))?;
    for (side, script) in [("client", &group.client), ("server", &group.server)] {
        let Some(script) = script else { continue };
        writeln!(out, "  {side}: {:?}", script.ops)?;
        for message in script.messages.iter().filter(|message| !message.head.is_empty()) {
            writeln!(out, "    {:?}", String::from_utf8_lossy(&message.head))?;
        }
    }
    for n in 0..3 {
        writeln!(out, "  session {n}: {:?} -> {:?}", group.clients.get(n), group.servers.get(n))?;
    }
    let Some(flow) = group.starts else {
        return writeln!(out, "  users {users:?}, from {start} to {stop}, {count} sessions");
    };
    for stream in sessions.starts.streams(flow) {
        describe_departures(&stream.departures, out)?;
    }
    let first = Schedule::new(&sessions.starts, &[flow], Shard::WHOLE).take(12);
    first.into_iter().try_for_each(|start| writeln!(out, "  {:>12} ns", start.at.get()))
}

fn describe(scenario: &Scenario) -> String {
    let program = compiled(scenario);
    let mut out = String::new();
    for flow in &program.flows {
        describe_flow(&program, flow, &mut out).unwrap();
    }
    for port in scenario.ports.keys() {
        describe_port(&program, port, &mut out).unwrap();
    }
    let sessions = compile_sessions(scenario, &files(scenario)).unwrap();
    for group in &sessions.groups {
        describe_sessions(&sessions, group, &mut out).unwrap();
    }
    out
}

#[test]
fn every_example_gives_its_golden_frames_and_departures() {
    let examples = examples();
    assert!(examples.len() >= 30, "the examples are there");
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
fn what_the_reference_shows_of_a_flow_can_be_meant() {
    let reference = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    let blocks = reference.split("```").filter_map(|block| block.strip_prefix("yaml\n"));
    let mut flows = 0;
    let whole = |block: &&str| {
        ["\nflows:", "\nsessions:"].iter().any(|key| format!("\n{block}").contains(key))
    };
    for block in blocks.filter(|block| !whole(block)) {
        let keys = block.replace('\n', "\n    ");
        let rate = if block.contains("at:") { "rate: 1kpps\n    " } else { "" };
        let text = format!(
            "ports: {{ a: {{}}, b: {{}} }}\nflows:\n  x:\n    from: a\n    to: b\n    {rate}{keys}"
        );
        Scenario::from_yaml(&text, "reference").unwrap_or_else(|error| panic!("{error}\n{text}"));
        flows += 1;
    }
    assert!(flows >= 6, "{flows}");
}

#[test]
fn every_scenario_of_the_page_of_sessions_is_right() {
    let page = fs::read_to_string(root().join("docs/sessions.md")).unwrap();
    let reference = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    let mut seen = 0;
    for block in page.split("```").chain(reference.split("```")) {
        let Some(text) = block.strip_prefix("yaml\n").filter(|text| text.contains("sessions:"))
        else {
            continue;
        };
        let scenario =
            Scenario::from_yaml(text, "page").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut files = Files::default();
        insert_sessions(&mut files, &scenario);
        for name in Files::named_in(&scenario) {
            files.insert(name.to_owned(), b"some bytes".to_vec());
        }
        let compiled = compile_sessions(&scenario, &files);
        let sessions = compiled.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(!sessions.groups.is_empty(), "{text}");
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn ten_thousand_flows_compile() {
    let mut scenario = Scenario::default();
    scenario.ports.insert("a".to_owned(), PortSpec::default());
    for i in 0..10_000 {
        let flow = FlowSpec {
            to: Some("a".to_owned()),
            rate: format!("{}pps", 50 + i % 100).parse::<Rate>().unwrap().into(),
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
