use serde_json::{Value as Json, json};

use super::super::tests::{both, interval};
use super::*;
use crate::model::{Interval, SessionInterval};

const RESOURCE: [(&str, &str); 2] = [("service.name", "wirebeat"), ("lab", "a \"b\"\n\u{1b}")];

fn exported(run: &RunMetrics) -> Json {
    let resource = RESOURCE.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let started_ns = 1_700_000_000_000_000_000;
    let origin = Origin { resource: &resource, started_ns, at_ns: started_ns + 2_000_000_000 };
    serde_json::from_slice(&run.otlp(&origin)).unwrap()
}

/// The metric of this name.
fn metric<'a>(request: &'a Json, name: &str) -> &'a Json {
    let all = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let found = all.as_array().unwrap().iter().find(|metric| metric["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {request}"))
}

fn run() -> RunMetrics {
    let mut run = RunMetrics::new("0.1.0", Some(7));
    run.add(&Interval {
        expired: Some(3),
        sessions: vec![SessionInterval { name: "web".to_owned(), opened: 5, ..Default::default() }],
        ..interval(0, both("voice", 4), vec![both("voice", 4)])
    });
    run.add(&interval(1, both("voice", -1), vec![both("voice", -1)]));
    run
}

#[test]
fn a_request_is_that_of_the_specification() {
    let request = exported(&run());
    let of = &request["resourceMetrics"][0];
    assert_eq!(
        of["resource"]["attributes"],
        json!([
            { "key": "service.name", "value": { "stringValue": "wirebeat" } },
            { "key": "lab", "value": { "stringValue": "a \"b\"\n\u{1b}" } },
        ])
    );
    assert_eq!(of["scopeMetrics"][0]["scope"], json!({ "name": "wirebeat", "version": "0.1.0" }));
    assert_eq!(
        metric(&request, "wirebeat.frames_sent"),
        &json!({
            "name": "wirebeat.frames_sent",
            "description": "Frames that left.",
            "unit": "{frame}",
            "sum": {
                "dataPoints": [{
                    "attributes": [{ "key": "flow", "value": { "stringValue": "voice" } }],
                    "startTimeUnixNano": "1700000000000000000",
                    "timeUnixNano": "1700000002000000000",
                    "asInt": "20",
                }],
                "aggregationTemporality": 2,
                "isMonotonic": true,
            },
        })
    );
    assert_eq!(
        metric(&request, "wirebeat.frames_lost")["gauge"]["dataPoints"][0]["asDouble"],
        json!(3.0)
    );
    let elapsed = metric(&request, "wirebeat.run_elapsed");
    assert_eq!(
        (&elapsed["unit"], &elapsed["gauge"]["dataPoints"][0]["asDouble"]),
        (&json!("s"), &json!(2.0))
    );
    let info = &metric(&request, "wirebeat.run_info")["gauge"]["dataPoints"][0];
    assert_eq!((&info["asInt"], info["attributes"].as_array().unwrap().len()), (&json!("1"), 2));
    let opened = &metric(&request, "wirebeat.sessions_opened")["sum"]["dataPoints"][0];
    assert_eq!(
        opened["attributes"][1],
        json!({ "key": "end", "value": { "stringValue": "client" } })
    );
}

/// Both encodings are of one table: what one has, the other has, under the name that a collector makes of it for Prometheus.
#[test]
fn both_encodings_have_the_same_metrics_and_values() {
    let run = run();
    let text = run.text(super::super::Exposition::Prometheus);
    let request = exported(&run);
    let all = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let mut names = 0;
    for metric in all.as_array().unwrap() {
        let mut name = metric["name"].as_str().unwrap().replace('.', "_");
        if metric["unit"] == "s" {
            name.push_str("_seconds");
        }
        if metric["sum"]["isMonotonic"] == true {
            name.push_str("_total");
        }
        assert!(
            text.contains(&format!("# HELP {name} {}", metric["description"].as_str().unwrap())),
            "{name}\n{text}"
        );
        names += 1;
        let kind = ["sum", "gauge"].iter().find_map(|kind| metric[kind]["dataPoints"].as_array());
        for point in kind.into_iter().flatten() {
            let value = point["asDouble"].as_f64();
            let value = value.or_else(|| point["asInt"].as_str()?.parse().ok()).unwrap();
            let labels = point["attributes"].as_array().unwrap().iter().map(|label| {
                format!(
                    "{}=\"{}\"",
                    label["key"].as_str().unwrap(),
                    label["value"]["stringValue"].as_str().unwrap()
                )
            });
            let labels = labels.collect::<Vec<_>>().join(",");
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            assert!(
                text.lines().any(|line| {
                    line.strip_prefix(&format!("{name}{labels} "))
                        .is_some_and(|found| found.parse() == Ok(value))
                }),
                "{name}{labels} {value}\n{text}"
            );
        }
    }
    assert_eq!(names, text.matches("# TYPE ").count());
}

#[test]
fn a_histogram_has_a_count_more_than_bounds_and_all_of_them_are_the_count() {
    let request = exported(&run());
    let delay = metric(&request, "wirebeat.one_way_delay");
    assert_eq!(delay["histogram"]["aggregationTemporality"], 2);
    let point = &delay["histogram"]["dataPoints"][0];
    let counts: Vec<u64> = point["bucketCounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_str().unwrap().parse().unwrap())
        .collect();
    let bounds = point["explicitBounds"].as_array().unwrap();
    assert_eq!((counts.len(), bounds.len()), (26, 25));
    assert_eq!((counts.iter().sum::<u64>(), &point["count"]), (12, &json!("12")));
    assert_eq!(point["sum"], json!(48.0));
    let within = bounds.iter().position(|bound| *bound == json!(0.001)).unwrap();
    assert_eq!(counts[within], 6, "the upper bound belongs to its bucket");
}

/// Clocks that do not agree make negative delays; a listener that lies makes any number.
#[test]
fn what_is_no_number_of_json_is_left_out_or_a_word() {
    let words = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5];
    let words = words.map(|value| serde_json::to_value(Double::from(value)).unwrap());
    assert_eq!(words, [json!("NaN"), json!("Infinity"), json!("-Infinity"), json!(1.5)]);
    let mut flow = both("x", 0);
    let received = flow.received.as_mut().unwrap();
    received.frames = u64::MAX;
    received.one_way_delay_ns.as_mut().unwrap().mean = Some(-7.0);
    let mut run = RunMetrics::new("", None);
    run.add(&interval(0, flow.clone(), vec![flow]));
    let request = exported(&run);
    let point = |name| &metric(&request, name)["sum"]["dataPoints"][0];
    assert_eq!(point("wirebeat.frames_received")["asInt"], json!("9223372036854775807"));
    let delay = &metric(&request, "wirebeat.one_way_delay")["histogram"]["dataPoints"][0];
    assert_eq!(delay.get("sum"), None);
}

#[test]
fn an_answer_says_what_was_not_taken() {
    let of = |text: &str| rejected(text.as_bytes()).map(|said| (said.data_points, said.message));
    let some = |count, message: &str| Some((count, message.to_owned()));
    for (answer, expected) in [
        ("", None),
        ("{}", None),
        ("[]", None),
        ("<html>", None),
        (r#"{"partialSuccess":null}"#, None),
        (r#"{"partialSuccess":{}}"#, None),
        (r#"{"partialSuccess":{"rejectedDataPoints":"0"}}"#, None),
        (
            r#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}"#,
            some(3, "too old"),
        ),
        (r#"{"partialSuccess":{"rejectedDataPoints":4,"errorMessage":null}}"#, some(4, "")),
        (r#"{"partialSuccess":{"rejectedDataPoints":"-4"}}"#, None),
        (
            r#"{"partialSuccess":{"rejectedDataPoints":"x","errorMessage":"careful"}}"#,
            some(0, "careful"),
        ),
        (r#"{"partialSuccess":{"rejectedDataPoints":{}}}"#, None),
    ] {
        assert_eq!(of(answer), expected, "{answer}");
    }
    let long = format!(r#"{{"partialSuccess":{{"errorMessage":"{}"}}}}"#, "é".repeat(5000));
    assert_eq!(of(&long).unwrap().1.chars().count(), SHOWN);
}

#[test]
fn an_answer_says_what_went_wrong() {
    let of = |text: &[u8]| reason(text);
    assert_eq!(of(br#"{"code":3,"message":"no tenant"}"#).unwrap(), "no tenant");
    assert_eq!(of(b"not here\nat all").unwrap(), "not here");
    assert_eq!(of(b"").or(of(b"\n")).or(of(b"\xff\xfe")).or(of(br#"{"message":""}"#)), None);
    assert_eq!(of("x".repeat(9999).as_bytes()).unwrap().len(), SHOWN);
}
