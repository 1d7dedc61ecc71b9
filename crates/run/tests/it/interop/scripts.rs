//! Scripts of other tools, run over a cable: each flow has the packets that its script asks for, and MGEN
//! makes of its script what Wirebeat makes of it.

use std::collections::{BTreeMap, BTreeSet};

use wirebeat_import::{Converted, Dialect, Source, convert};
use wirebeat_report::model::{End, Report};
use wirebeat_run::{Codec, LogForm, LogRequest, Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Program, Testbed, require};
use wirebeat_traffic::compile::Files;
use wirebeat_traffic::scenario::{EngineChoice, PortSpec};
use wirebeat_wire::log::Received;

use super::mgen::{Messages, messages_received, messages_sent};
use super::{PATIENCE, cable_to_a_program, file, receiver, while_receiving, whole};
use crate::world::balanced;

/// The script as a scenario whose flows leave end `a` by `engine`.
fn converted(dialect: Dialect, text: &str, engine: EngineChoice) -> Converted {
    let read = |name: &str| match name {
        "video.trace" => Ok(b"100 0.02\n1400 0.01\n60 0.10\n".to_vec()),
        other => Err(format!("there is no file '{other}'")),
    };
    let source =
        Source { name: "script", text, read: &read, sessions: &wirebeat_import::no_sessions };
    let options =
        wirebeat_import::Options { interface: Some("wb0".to_owned()), ..Default::default() };
    let mut converted =
        convert(dialect, &source, &options).unwrap_or_else(|error| panic!("{error}"));
    assert!(converted.left_out.is_empty(), "{:#?}", converted.left_out);
    for port in converted.scenario.ports.values_mut() {
        port.namespace = Some("a".to_owned());
        port.engine = engine;
    }
    converted
}

fn run(bed: &Testbed, converted: Converted) -> Report {
    let end = |end: &wirebeat_testbed::End| end.namespace.clone();
    let mut files = Files::default();
    converted.files.into_iter().for_each(|(name, content)| files.insert(name, content));
    let namespaces = BTreeMap::from([("a".to_owned(), end(&bed.a)), ("b".to_owned(), end(&bed.b))]);
    let options = Options { namespaces, files, ..Options::default() };
    let prepared = prepare(&converted.scenario, options).unwrap_or_else(|error| panic!("{error}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    report
}

/// Runs a script with its flows measured at the far end; each is to have so many packets, less one where a
/// flow does not begin with the run.
fn run_and_count(bed: &Testbed, mut converted: Converted, expected: &[(&str, u64)]) -> Report {
    let far = PortSpec {
        interface: Some("wb1".to_owned()),
        namespace: Some("b".to_owned()),
        engine: EngineChoice::Packet,
        ..PortSpec::default()
    };
    converted.scenario.ports.insert("far".to_owned(), far);
    for flow in converted.scenario.flows.values_mut() {
        flow.to = Some("far".to_owned());
    }
    let report = run(bed, converted);
    let names: Vec<&str> = report.flows.iter().map(|flow| &*flow.name).collect();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (flow, (name, count)) in report.flows.iter().zip(expected) {
        let sent = flow.sent.as_ref().unwrap().sent.frames;
        assert!((count - 1..=*count).contains(&sent), "{name}: {sent} of {count}");
        whole(flow.received.as_ref().unwrap(), sent);
        assert_eq!(flow.loss.unwrap().frames, 0, "{name}");
    }
    report
}

#[test]
fn a_rude_configuration_sends_what_it_says() {
    require!(Capability::NetworkNamespaces);
    let bed = cable_to_a_program();
    let to = bed.b.ipv4;
    let script = format!(
        "START NOW\n\
         0000 1 ON 3001 {to}:10001 CONSTANT 200 100\n\
         TOS 1 0x10\n\
         0000 2 ON 3002 {to}:10002 TRACE video.trace\n\
         0500 1 MODIFY CONSTANT 400 200\n\
         0900 2 OFF\n\
         1000 1 OFF\n"
    );
    let converted = converted(Dialect::Rude, &script, EngineChoice::Packet);
    // the trace takes 130 ms: six times all of it, and once more its three packets
    let report = run_and_count(&bed, converted, &[("flow-1", 300), ("flow-2", 21)]);
    let bytes = |flow: usize| report.flows[flow].received.as_ref().unwrap().received.payload_bytes;
    let of_trace = 7 * (100 + 1400 + 60);
    assert!((of_trace - 60..=of_trace).contains(&bytes(1)), "{}", bytes(1));
    let of_both = 100 * 100 + 200 * 200;
    assert!((of_both - 400..=of_both).contains(&bytes(0)), "{}", bytes(0));
}

#[test]
fn a_multi_flow_file_of_d_itg_sends_what_it_says() {
    require!(Capability::NetworkNamespaces);
    let bed = cable_to_a_program();
    let to = bed.b.ipv4;
    let script = format!(
        "-a {to} -rp 10003 -C 300 -c 100 -t 1000\n\
         -a {to} -rp 10004 -E 400 -u 60 200 -z 200 -d 100\n\
         -a {to} -rp 10005 -C 100 -c 60 -z 50 -p 1\n\
         -a {to} -rp 10006 -t 500 VoIP -x G.711.2 -h RTP\n"
    );
    let converted = converted(Dialect::Ditg, &script, EngineChoice::Socket);
    let expected = [("flow-1", 300), ("flow-2", 200), ("flow-3", 50), ("flow-4", 25)];
    let report = run_and_count(&bed, converted, &expected);
    let delays =
        |flow: usize| report.flows[flow].received.as_ref().unwrap().one_way_delay_ns.as_ref();
    // the short header has no time
    assert_eq!(delays(2).unwrap().count, 0);
    assert_eq!(delays(3).unwrap().count, 25);
}

#[test]
fn a_shell_script_for_pktgen_sends_what_it_says() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable_to_a_program();
    let script = format!(
        "#!/bin/bash\n\
         function pgset() {{\n  echo $1 > $PGDEV\n}}\n\
         PGDEV=/proc/net/pktgen/kpktgend_0\n\
         pgset \"rem_device_all\"\n\
         pgset \"add_device wb0\"\n\
         PGDEV=/proc/net/pktgen/wb0\n\
         COUNT=\"count 600\"\n\
         pgset \"$COUNT\"\n\
         pgset \"pkt_size 124\"   # and 4 bytes of FCS\n\
         pgset \"delay 1000000\"\n\
         pgset \"dst {}\"\n\
         pgset \"dst_mac {}\"\n\
         PGDEV=/proc/net/pktgen/pgctrl\n\
         pgset \"start\"\n",
        bed.b.ipv4, bed.b.mac
    );
    let converted = converted(Dialect::Pktgen, &script, EngineChoice::Kernel);
    let report = run_and_count(&bed, converted, &[("wb0", 600)]);
    let received = report.flows[0].received.as_ref().unwrap();
    assert_eq!(received.received.frame_bytes, 600 * 128);
}

/// What is compared of two logs: how many messages of which sizes a flow has, and how many a second.
#[derive(Debug)]
struct Gist {
    messages: usize,
    sizes: BTreeSet<u32>,
    rate: f64,
}

fn gists(log: &Messages<Received>) -> BTreeMap<u32, Gist> {
    let gist = |messages: &Vec<Received>| {
        let sent = |message: Option<&Received>| message.and_then(|m| m.sent_ns).unwrap();
        let span_ns = sent(messages.last()) - sent(messages.first());
        Gist {
            messages: messages.len(),
            sizes: messages.iter().map(|message| message.size).collect(),
            rate: (messages.len() - 1) as f64 * 1e9 / span_ns as f64,
        }
    };
    log.iter().map(|(flow, messages)| (*flow, gist(messages))).collect()
}

#[test]
fn mgen_and_we_make_the_same_of_its_script() {
    require!(Capability::NetworkNamespaces, Capability::Program("mgen"));
    let bed = cable_to_a_program();
    let to = bed.b.ipv4;
    let script = format!(
        "# periodic, and faster with longer messages\n\
         0.0 ON  1 UDP SRC 6001 DST {to}/6000 PERIODIC [200 100]\n\
         0.5 MOD 1 PERIODIC [400 300]\n\
         1.0 OFF 1\n\
         # Poisson\n\
         0.0 ON  2 UDP SRC 6002 DST {to}/6000 POISSON [400 200] COUNT 400\n\
         # three bursts of 100 ms\n\
         0.1 ON  3 UDP SRC 6003 DST {to}/6000 BURST [REGULAR 0.4 PERIODIC [500 80] FIXED 0.1]\n\
         1.2 OFF 3\n"
    );
    let path = file("script.mgn");
    std::fs::write(&path, &script).unwrap();
    let logged = |name: &str, work: &dyn Fn() -> u64| {
        let log = file(name);
        let mut request = receiver(&bed, Codec::Mgen, Some(6000));
        request.log = Some(LogRequest { form: LogForm::Mgen, file: Some(log.clone()) });
        let (sent, _) = while_receiving(&request, || {
            let sent = work();
            (sent, sent)
        });
        let messages = messages_received(&std::fs::read_to_string(log).unwrap());
        assert_eq!(messages.values().map(Vec::len).sum::<usize>() as u64, sent);
        gists(&messages)
    };
    let theirs = logged("script-theirs.log", &|| {
        let mgen = Program::new(&bed.a.namespace, "mgen").args(["txlog", "flush", "input"]);
        let log = mgen.args([&path]).output(PATIENCE).unwrap().stdout;
        messages_sent(&log).values().map(|messages| messages.len() as u64).sum()
    });
    let ours = logged("script-ours.log", &|| {
        let report = run(&bed, converted(Dialect::Mgen, &script, EngineChoice::Socket));
        report.total.sent.unwrap().sent.frames
    });
    let near = |value: f64, other: f64, by: f64| (value / other - 1.0).abs() < by;
    // the messages of a flow, and how far the rates of a Poisson process may be apart: five times their
    // standard error
    for (flow, messages, by) in [(1, 300.0, 0.2), (2, 400.0, 0.35), (3, 150.0, 0.2)] {
        let (theirs, ours) = (&theirs[&flow], &ours[&flow]);
        let said = format!("flow {flow}: theirs {theirs:?}, ours {ours:?}");
        assert_eq!(theirs.sizes, ours.sizes, "{said}");
        // a program of its own, which a busy machine keeps from sending
        assert!(near(theirs.messages as f64, messages, 0.2), "{said}");
        assert!(near(ours.messages as f64, messages, 0.015), "{said}");
        assert!(near(theirs.rate, ours.rate, by), "{said}");
    }
    assert_eq!(theirs.len(), 3);
    assert_eq!(ours.len(), 3);
}
