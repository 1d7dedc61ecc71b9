//! The forms of a report that programs read.

use super::{BULK, Plan, VOICE, assemble, both, facts, golden, text};
use crate::document::{Document, ErrorBody, ErrorReport, schema};
use crate::format::{Presentable, Rendering};
use crate::model::{FlowReport, Received, Sent};

#[test]
fn the_json_form() {
    let plans = [Plan { frames: 20, ..VOICE }, Plan { frames: 30, lost_ppm: 100_000, ..BULK }];
    let (sender, receiver) = both(&plans);
    let report = assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver));
    let json = report.json(Rendering { histograms: true, ..Rendering::default() });
    golden("tests/golden/two_flows.json", &json);
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report)));
}

/// The first screen is the summary, and JSON has no histograms, unless somebody asks.
#[test]
fn details_and_histograms_come_on_request() {
    let (sender, receiver) = both(&[VOICE, BULK]);
    let report = assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver));
    let summary = report.text(Rendering::default());
    assert!(summary.lines().count() < 24, "{summary}");
    assert!(summary.contains("--details") && !summary.contains("consistency checks"), "{summary}");
    assert!(text(&report).contains("consistency checks"));
    let json = report.json(Rendering::default());
    assert!(!json.contains("\"histogram\"") && json.contains("\"p99\""));
    let asked = report.json(Rendering { histograms: true, ..Rendering::default() });
    assert!(asked.contains("\"histogram\""));
}

/// Of 10,000 flows it took 33 MB, a third of it for what is not known.
#[test]
fn what_is_not_known_of_a_flow_takes_no_room() {
    let plans: Vec<Plan> =
        (0..150).map(|id| Plan { id, name: "sensor", frames: 60, rate: 20, ..BULK }).collect();
    let (sender, receiver) = both(&plans);
    let mut report = assemble(facts("wirebeat run"), Some(sender), Some(receiver));
    // as those have that share their histograms
    report.flows = report.flows.into_iter().map(FlowReport::without_histograms).collect();
    for flow in &mut report.flows {
        let sent = flow.sent.iter_mut().flat_map(Sent::distributions);
        let received = flow.received.iter_mut().flat_map(Received::distributions);
        sent.chain(received).for_each(|stats| stats.percentiles = Default::default());
    }
    let json = report.json(Rendering { histograms: true, ..Rendering::default() });
    let (_, flows) = json.split_once("\"flows\": [").unwrap();
    let flows: Vec<&str> = flows.lines().skip(1).take(150).collect();
    assert!(
        flows.iter().all(|flow| flow.contains("\"sensor\"") || flow.contains("\"flow ")),
        "{flows:?}"
    );
    assert!(flows.iter().all(|flow| !flow.contains("null")), "{}", flows[0]);
    let longest = flows.iter().map(|flow| flow.len()).max().unwrap();
    // of each end: gap errors with and without their sign
    assert!(longest < 2_800, "{longest} bytes: {}", flows[0]);
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report)));
}

#[test]
fn errors() {
    let error = ErrorReport::new(
        "0.1.0".to_owned(),
        vec!["wirebeat".to_owned(), "send".to_owned()],
        ErrorBody {
            message: "'10 m' is not a rate: 'm' is not a unit; write for example 10Mbps".to_owned(),
            exit_code: 2,
        },
    );
    golden("tests/golden/error.txt", &error.text(Rendering::default()));
    let json = error.json(Rendering::default());
    golden("tests/golden/error.json", &json);
    assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), Document::Error(error));
}

#[test]
fn the_published_schema() {
    let mut text = serde_json::to_string_pretty(&schema()).unwrap();
    text.push('\n');
    golden("../../docs/report.schema.json", &text);
}

#[test]
fn the_published_schema_of_statistics() {
    let mut text = serde_json::to_string_pretty(&crate::stats::schema()).unwrap();
    text.push('\n');
    golden("../../docs/stats.schema.json", &text);
}
