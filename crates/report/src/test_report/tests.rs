//! A test that was not made.

use super::*;
use crate::golden::golden;
use crate::html;
use crate::model::Percentiles;

fn trial(purpose: &str, intended: f64, offered: f64, lost: u64) -> TrialReport {
    let sent = (offered * 60.0) as u64;
    TrialReport {
        purpose: purpose.to_owned(),
        intended,
        offered,
        trial_ns: 60_000_000_000,
        sent,
        received: sent - lost + 51,
        unique: sent - lost,
        lost,
        loss_ratio: lost as f64 / sent as f64,
        duplicates: 51,
        reordered: 0,
        delay_p50_ns: Some(21_000),
        delay_p99_ns: Some(42_000),
        lateness_p99_ns: Some(3_000),
        doubt: (offered < intended).then(|| "the sender was too slow".to_owned()),
        repeated: 0,
    }
}

fn throughput(outcome: SearchOutcome, lower: Option<f64>) -> Throughput {
    Throughput {
        loss_ratio: 0.0,
        exceed_ratio: 0.0,
        trial_ns: 60_000_000_000,
        duration_sum_ns: 60_000_000_000,
        outcome,
        lower,
        upper: lower.map(|lower| lower * 1.004),
        conditional: lower,
        frame_bits_per_second: lower.map(|lower| lower * 512.0),
        line_bits_per_second: lower.map(|lower| lower * 672.0),
        of_max: lower.map(|lower| lower / 1_488_095.0),
        frames: 45_000_000,
        loss_below: lower.map(|_| 3.0 / 45e6),
        searches: None,
    }
}

fn size(name: &str, bytes: f64, throughput: Throughput) -> SizeReport {
    SizeReport {
        size: name.to_owned(),
        frame_bytes: Some(bytes),
        skipped: None,
        unlearned: None,
        max_frames_per_second: Some(1e9 / ((bytes + 20.0) * 8.0)),
        required_frames_per_second: Some(0.5e9 / ((bytes + 20.0) * 8.0)),
        sending_ports: 2,
        throughput: vec![throughput],
        latency: None,
        loss_rate: Vec::new(),
        back_to_back: None,
        recovery: None,
        reset: None,
        trials: vec![
            trial("throughput", 1_488_095.0, 1_488_095.0, 44_000_000),
            trial("throughput", 750_000.0, 750_000.0, 0),
        ],
    }
}

fn test() -> TestReport {
    let stats = Stats {
        count: 45_000_000,
        min: Some(9_000),
        max: Some(900_000),
        percentiles: Percentiles { p50: Some(21_000), p99: Some(42_000), ..Default::default() },
        ..Stats::default()
    };
    let mut first = size("64B", 64.0, throughput(SearchOutcome::Found, Some(750_000.0)));
    first.latency = Some(Latency {
        load: 750_000.0,
        trial_ns: 120_000_000_000,
        tagged_ns: vec![21_000, 22_000],
        tagged_mean_ns: Some(21_500.0),
        delay_ns: vec![stats.clone()],
        uncertainty_ns: None,
        baseline: Some(Baseline {
            started: "2026-11-01T00:00:00Z".to_owned(),
            command_line: vec!["wirebeat".to_owned(), "test".to_owned()],
            load: 760_000.0,
            tagged_mean_ns: Some(9_100.0),
            tagged: 20,
            delay_ns: Some(Stats { min: Some(8_000), max: Some(70_000), ..stats }),
        }),
    });
    let search = |lower: f64| Search {
        outcome: SearchOutcome::Found,
        lower: Some(lower),
        upper: Some(lower * 1.004),
    };
    first.throughput[0].searches = Some(Searches {
        each: [752_000.0, 750_000.0, 751_000.0].map(search).to_vec(),
        mean: Some(751_000.0),
        within: Some(2_484.0),
    });
    first.loss_rate = vec![
        LossRate { load: 1_488_095.0, of_max: 1.0, loss_ratio: 0.49 },
        LossRate { load: 1_339_285.0, of_max: 0.9, loss_ratio: 0.44 },
    ];
    first.back_to_back = Some(BackToBack {
        burst_rate: 1_488_095.0,
        bursts: vec![1000, 1002],
        mean: Some(1001.0),
        min: Some(1000),
        max: Some(1002),
        standard_deviation: Some(std::f64::consts::SQRT_2),
        at_least: false,
        limited_by_tester: 0,
        repetitions: [(1000, 1_488_095.0), (1002, 1_487_000.0)]
            .map(|(frames, burst_rate)| BurstRepetition {
                frames,
                burst_rate,
                at_least: false,
                limited_by_tester: false,
            })
            .to_vec(),
        implied_buffer_ns: Some(672_672.0),
        corrected_buffer_ns: Some(333_645.0),
        uncorrected: None,
    });
    first.recovery = Some(Recovery {
        overload: 825_000.0,
        overload_ns: 60_000_000_000,
        load: 412_500.0,
        window_ns: 10_000_000_000,
        overloaded: true,
        times: vec![
            RecoveryTime { least_ns: 1_000_000, most_ns: 1_100_000, recovered: true },
            RecoveryTime { least_ns: 0, most_ns: 0, recovered: true },
        ],
        mean_ns: Some(550_000.0),
    });
    first.reset = Some(Reset {
        load: 750_000.0,
        time_ns: 120_000_000_000,
        silence_ns: Some(31_400_000_000),
        returned: true,
    });
    let mut second =
        size("1518B", 1518.0, throughput(SearchOutcome::AtLeastByTester, Some(80_000.0)));
    second.trials.push(trial("throughput", 81_274.0, 80_000.0, 0));
    second.back_to_back = Some(BackToBack {
        burst_rate: 81_274.0,
        bursts: vec![5_992],
        mean: Some(5_992.0),
        min: Some(5_992),
        max: Some(5_992),
        standard_deviation: None,
        at_least: true,
        limited_by_tester: 1,
        repetitions: vec![BurstRepetition {
            frames: 5_992,
            burst_rate: 81_274.0,
            at_least: false,
            limited_by_tester: true,
        }],
        implied_buffer_ns: Some(73_726_000.0),
        corrected_buffer_ns: None,
        uncorrected: Some("the throughput is not known".to_owned()),
    });
    second.recovery = Some(Recovery {
        overload: 81_274.0,
        overload_ns: 60_000_000_000,
        load: 40_637.0,
        window_ns: 10_000_000_000,
        overloaded: false,
        times: Vec::new(),
        mean_ns: None,
    });
    let mut third =
        size("=1+1</script>\x1b[2J", 0.0, throughput(SearchOutcome::NothingBorne, None));
    (third.frame_bytes, third.skipped) = (None, Some("64 bytes are too short".to_owned()));
    (third.throughput, third.trials) = (Vec::new(), Vec::new());
    let mut report = TestReport {
        schema_version: TEST_SCHEMA_VERSION.to_owned(),
        wirebeat_version: "0.1.0".to_owned(),
        command_line: ["wirebeat", "test", "rfc2544", "lab.yaml"].map(str::to_owned).to_vec(),
        test: "RFC 2544".to_owned(),
        title: Some("router </title> 7".to_owned()),
        started: "2026-11-24T18:00:00.000Z".to_owned(),
        duration_ns: 3_600_000_000_000,
        end: End::Completed,
        verdict: Verdict::Unfinished,
        exit_code: 1,
        parameters: Parameters {
            search: "binary search".to_owned(),
            trial_ns: 60_000_000_000,
            settle_ns: 2_000_000_000,
            max_load: "1Gbps, the speed of the link".to_owned(),
            width: 0.005,
            required: Some("50%".to_owned()),
            measured: vec!["throughput".to_owned()],
            searches: 3,
        },
        scenario: None,
        sizes: vec![first, second, third],
        deviations: vec!["2 latency trials; RFC 2544 has 20 of 120 s (§26.2)".to_owned()],
        findings: vec!["the tester limited the throughput with 1518B".to_owned()],
        last_trial: None,
    };
    report.conclude(End::Completed);
    report
}

#[test]
fn a_test_is_written_in_every_form() {
    let test = test();
    let details = Rendering { details: true, ..Rendering::default() };
    golden("tests/golden/rfc2544.txt", &test.text(details));
    golden("tests/golden/rfc2544.csv", &test.csv().unwrap());
    golden("tests/golden/rfc2544.junit.xml", &test.junit().unwrap());
    golden("tests/golden/rfc2544.md", &test.markdown(details));
    let page = test.html(details);
    assert!(page.starts_with(html::MARK));
    assert_eq!(page.matches("</script>").count(), 1);
    let names: Vec<String> = test.pictures().into_iter().map(|picture| picture.name).collect();
    assert_eq!(names, ["throughput", "loss-rate"]);
    let json = test.json(details);
    assert_eq!(json::parse_test(json.as_bytes()), Ok(test));
}

/// The page had one table, and everything else as text.
#[test]
fn a_page_has_a_table_of_each_measurement_and_findings_once() {
    let page = test().html(Rendering::default());
    for title in [
        "Throughput of each sending port",
        "Latency at the throughput",
        "Frame loss rate",
        "Back-to-back frames",
        "System recovery",
        "Reset",
    ] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    assert_eq!(page.matches("the tester limited the throughput with 1518B").count(), 1);
    assert!(page.contains("wirebeat test rfc2544 lab.yaml") && page.contains("loss, 95 %"));
    assert!(page.contains("router &lt;/title&gt; 7") && page.contains("not overloaded"));
}

/// What the tester limited is no measure of the device, in any form.
#[test]
fn a_burst_that_the_tester_limited_is_said_to_be_in_every_form() {
    let test = test();
    let text = test.text(Rendering::default());
    let row = text.lines().find(|line| line.contains("at least 5,992")).unwrap();
    assert!(row.ends_with("limited by the tester"), "{row}");
    assert!(text.contains("no corrected buffer with 1518B: the throughput is not known"), "{text}");
    let csv = test.csv().unwrap();
    assert!(csv.contains("back-to-back,1518B,1518,,at_least_by_tester,"), "{csv}");
    assert!(csv.contains("recovery,1518B,1518,,not_overloaded,"), "{csv}");
}

/// A throughput that is chance meets nothing.
#[test]
fn a_throughput_by_chance_is_not_met() {
    let mut size = size("64B", 64.0, throughput(SearchOutcome::ByChance, Some(750_000.0)));
    size.required_frames_per_second = Some(10.0);
    assert_eq!(size.met(), Some(false));
}

#[test]
fn what_is_no_test_is_refused() {
    let other = json::parse_test(b"{\"schema_version\":\"9\",\"test\":\"RFC 2544\"}").unwrap_err();
    assert!(other.contains("schema version '9'"), "{other}");
    for text in ["", "{}", "[]", "{\"schema_version\":\"1\",\"test\":\"x\"}", "null", "\u{1}"] {
        assert!(json::parse_test(text.as_bytes()).is_err(), "{text}");
    }
}
