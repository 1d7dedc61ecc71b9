use std::time::{Duration, Instant};

use crate::assemble::assemble;
use crate::format::{Format, Presentable, Rendering};
use crate::golden::{VOICE, both, facts, golden};
use crate::model::{
    FlowInterval, FlowReport, Interval, IntervalReceived, IntervalSent, Json, Report,
};
use crate::several_runs::{NamedRun, SeveralRuns};

/// A name with everything that acts somewhere.
const WILD: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>=1+1,\"'\x1b[31m\r\n\u{202e}|`*";
const SECOND: u64 = 1_000_000_000;

fn one_flow() -> Report {
    let (sender, receiver) = both(&[VOICE]);
    assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver))
}

fn html(report: &Report) -> String {
    report.html(Rendering::default())
}

/// Intervals of a second, of all `flows`; `silent` is the second and the flow of an outage.
fn intervals(seconds: u64, flows: &[String], silent: Option<(u64, usize)>) -> Vec<Interval> {
    let of = |name: &str, second: u64, frames: u64| FlowInterval {
        name: name.to_owned(),
        sent: Some(IntervalSent { frames: 1_000, frame_bytes: 64_000 }),
        received: Some(IntervalReceived {
            frames,
            frame_bytes: frames * 64,
            unique: frames,
            one_way_delay_ns: Some(crate::model::Stats {
                count: frames,
                max: Some(90_000 + second as i64),
                ..Default::default()
            }),
            ..IntervalReceived::default()
        }),
        lost: Some(1_000 - frames as i64),
        extremes: None,
    };
    let each = |second: u64| Interval {
        from_ns: second * SECOND,
        to_ns: (second + 1) * SECOND,
        total: of("total", second, 1_000),
        flows: flows
            .iter()
            .enumerate()
            .map(|(place, name)| {
                of(name, second, if silent == Some((second, place)) { 0 } else { 1_000 })
            })
            .collect(),
        sessions: Vec::new(),
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    };
    (0..seconds).map(each).collect()
}

#[test]
fn the_page_is_as_reviewed() {
    let mut report = one_flow();
    report.intervals = intervals(10, &["voice".to_owned()], Some((4, 0)));
    golden("tests/golden/one_flow.html", &html(&report));
    golden("tests/golden/one_flow.md", &report.markdown(Rendering::default()));
    golden("tests/golden/one_flow.csv", &report.csv().unwrap());
}

#[test]
fn names_are_inert_in_every_format() {
    let mut report = one_flow();
    report.flows[0].name = WILD.to_owned();
    let mut second = report.flows[0].clone();
    second.name = format!("{WILD}2");
    second.not_measured = Some(WILD.to_owned());
    report.flows.push(second);
    report.command_line = vec!["wirebeat".to_owned(), WILD.to_owned()];
    report.scenario = Json::parse(&format!("{{{}: 1}}", serde_json::to_string(WILD).unwrap()));
    report.intervals = intervals(3, &[WILD.to_owned()], None);
    report.senders[0].interface = Some(WILD.to_owned());
    report.started = WILD.to_owned();
    let runs = ["a", WILD].map(|name| NamedRun { name: name.to_owned(), report: report.clone() });
    let compared = SeveralRuns::new("0.1.0".to_owned(), runs.into());
    let results: [&dyn Presentable; 2] = [&report, &compared];
    for result in results {
        for format in Format::of_files().filter(|format| format.name != "json") {
            let text = String::from_utf8(format.write(result, Rendering::default())).unwrap();
            assert!(!text.contains(['\x1b', '\u{202e}']), "{}", format.name);
            assert!(format.may_replace(&text.as_bytes()[..Format::HEAD]), "{}", format.name);
        }
        let page = result.html(Rendering::default());
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (1, 1));
        assert!(!page.contains("<img"));
        let csv = result.csv().unwrap();
        assert!(csv.contains(
            "\"</script><script>alert(1)</script><img src=x onerror=alert(1)>=1+1,\"\"'"
        ));
        // every line is a row with as many fields as the first
        let rows: Vec<&str> = csv.trim_end().split("\r\n").collect();
        assert!(!csv.replace("\r\n", "").contains(['\r', '\n']));
        let fields = |row: &str| {
            let mut quoted = false;
            row.chars()
                .filter(|c| {
                    quoted ^= *c == '"';
                    *c == ',' && !quoted
                })
                .count()
        };
        assert!(rows.len() >= 3 && rows.iter().all(|row| fields(row) == fields(rows[0])), "{csv}");
        let markdown = result.markdown(Rendering::default()).replace("\\<", "");
        assert!(
            !markdown.split("```").step_by(2).any(|part| part.contains("<script")),
            "{markdown}"
        );
    }
}

#[test]
fn the_page_asks_for_nothing_and_allows_nothing() {
    let page = html(&one_flow());
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    assert!(
        !page.contains("unsafe-inline")
            && !page.contains(" style=\"")
            && !page.contains(" onclick")
    );
    for address in ["http://", "https://", "url(", "@import"] {
        let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains(address), "{address}");
    }
}

/// JSON is written without histograms, unless somebody asks.
#[test]
fn pictures_without_histograms_say_what_is_missing() {
    let with = html(&one_flow());
    assert!(
        with.contains("id=\"distribution-delay-t\"") && !with.contains("--histograms to have it")
    );
    let without = html(&one_flow().without_histograms());
    assert!(!without.contains("id=\"distribution-delay-t\""));
    assert!(without.contains("The histogram is not in this report"));
}

/// What was expected comes before all numbers, and what was not met before what was.
#[test]
fn the_verdict_is_first() {
    let mut report = one_flow();
    report.verdict = crate::model::Verdict::Unmet;
    report.sessions = vec![crate::model::SessionReport {
        name: "web".to_owned(),
        expectations: [("a < 1", true), ("b < 2", false)]
            .map(|(text, met)| crate::model::Expectation {
                text: text.to_owned(),
                measured: "3".to_owned(),
                met,
                ..crate::model::Expectation::default()
            })
            .into(),
        ..Default::default()
    }];
    let page = html(&report);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("Expectations not met: 1 of 2 expectations") < at("b &lt; 2"));
    assert!(at("b &lt; 2") < at("a &lt; 1") && at("a &lt; 1") < at("<svg"));
}

/// The limits of the issue: an hour with 1,000 flows in less than 5 MB and 5 s; and one with as many flows as have intervals.
#[test]
fn the_page_of_an_hour_is_small_and_quick() {
    let one = one_flow();
    for (flows, by_flow) in [(1_000_usize, false), (256, true)] {
        let names: Vec<String> = (0..flows).map(|flow| format!("sensor {flow}")).collect();
        let mut report = one.clone();
        report.flows = names
            .iter()
            .map(|name| FlowReport { name: name.clone(), ..one.flows[0].clone() })
            .collect();
        let none: &[String] = &[];
        report.intervals = intervals(3_600, if by_flow { &names } else { none }, Some((1_234, 77)));
        let began = Instant::now();
        let page = html(&report);
        let took = began.elapsed();
        assert!(page.len() < 5_000_000, "{} bytes", page.len());
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(page.matches("least 0 pps at 20 min 34 s").count(), usize::from(by_flow));
    }
}

#[test]
fn runs_are_put_side_by_side() {
    let first = one_flow();
    let (sender, receiver) = both(&[VOICE.slower()]);
    let second = assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver));
    let runs = [("a.json", first), ("b.json", second)]
        .map(|(name, report)| NamedRun { name: name.to_owned(), report });
    let compared = SeveralRuns::new("0.1.0".to_owned(), runs.into());
    golden("tests/golden/side_by_side.txt", &compared.text(Rendering::default()));
    golden("tests/golden/side_by_side.md", &compared.markdown(Rendering::default()));
    let page = compared.html(Rendering::default());
    assert!(page.contains("id=\"compared-delay-t\"") && page.contains("a.json"));
    let json = compared.json(Rendering { histograms: true, ..Rendering::default() });
    assert_eq!(serde_json::from_str::<SeveralRuns>(&json).unwrap(), compared);
}

/// Reports are files that anybody may hand over: whatever number stands in one, it is shown or refused.
#[test]
fn any_number_in_a_report_is_survived() {
    fn numbers(value: &serde_json::Value, path: &str, all: &mut Vec<String>) {
        match value {
            serde_json::Value::Number(_) => all.push(path.to_owned()),
            serde_json::Value::Array(list) => {
                // what is true of some is true of the rest
                for (at, one) in list.iter().enumerate().take(3) {
                    numbers(one, &format!("{path}/{at}"), all);
                }
            }
            serde_json::Value::Object(map) => {
                for (key, one) in map {
                    numbers(
                        one,
                        &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")),
                        all,
                    );
                }
            }
            _ => {}
        }
    }
    let mut report = one_flow();
    report.intervals = intervals(3, &["voice".to_owned()], None);
    let json = report.json(Rendering { histograms: true, ..Rendering::default() });
    let whole: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut places = Vec::new();
    numbers(&whole, "", &mut places);
    assert!(places.len() > 100, "{places:?}");
    let mut read = 0;
    for place in &places {
        for text in ["0", "18446744073709551615", "-9223372036854775808", "1e308"] {
            let mut changed = whole.clone();
            *changed.pointer_mut(place).unwrap() = serde_json::from_str(text).unwrap();
            let Ok(report) = serde_json::from_value::<Report>(changed) else { continue };
            read += 1;
            for format in Format::ALL {
                let _ = format.write(&report, Rendering { details: true, ..Rendering::default() });
            }
            let runs = vec![report.clone(); 5];
            let _ = crate::compare::compare(&runs, &runs, &Default::default());
            let named = |report| NamedRun { name: "a".to_owned(), report };
            let several = SeveralRuns::new(String::new(), vec![named(one_flow()), named(report)]);
            let _ = several.text(Rendering::default());
            let _ = several.html(Rendering::default());
        }
    }
    assert!(read > places.len(), "{read} of {}", places.len());
}
