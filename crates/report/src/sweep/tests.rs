//! Sweeps of runs that were not made.

use super::*;
use crate::assemble::assemble;
use crate::golden::{VOICE, both, facts, golden};
use crate::html;
use crate::model::{Expectation, Verdict};

fn report(seed: u64) -> Report {
    let (sender, receiver) = both(&[VOICE]);
    let mut report = assemble(facts("wirebeat sweep voice.yaml"), Some(sender), Some(receiver));
    if let Some(received) = &mut report.total.received
        && let Some(rates) = &mut received.rates
    {
        rates.frames_per_second += seed as f64;
    }
    report
}

fn sweep() -> Sweep {
    let words =
        ["wirebeat", "sweep", "voice.yaml", "--over", "rate=10kpps,20kpps", "--repeat", "2"];
    let words = words.map(str::to_owned).to_vec();
    let variables = vec!["rate".to_owned(), "</script>\x1b".to_owned()];
    let mut sweep = Sweep::new("0.1.0".to_owned(), words, variables, 4);
    for (seed, rate) in [(0, "10kpps"), (30, "10kpps"), (5, "20kpps"), (6, "20kpps")] {
        let mut report = report(seed);
        let (text, measured) = ("rate.received > 12kpps".to_owned(), "12.5 kpps".to_owned());
        let met = seed != 30;
        report.total.expectations =
            vec![Expectation { text, measured, met, ..Expectation::default() }];
        report.judge();
        sweep.add(vec![rate.to_owned(), "=1+1".to_owned()], report);
    }
    sweep
}

#[test]
fn a_sweep_is_written_in_every_form() {
    let sweep = sweep();
    golden("tests/golden/sweep.txt", &sweep.text(Rendering::default()));
    golden("tests/golden/sweep.csv", &sweep.csv().unwrap());
    golden("tests/golden/sweep.md", &sweep.markdown(Rendering::default()));
    let page = sweep.html(Rendering::default());
    assert!(page.starts_with(html::MARK) && !page.contains("</script>\u{1b}"));
    assert_eq!(page.matches("</script>").count(), 1);
    assert_eq!(sweep.pictures().len(), 3);
    let back: Sweep = serde_json::from_str(&sweep.json(Rendering::default())).unwrap();
    assert_eq!(back.points.len(), 4);
}

/// Half a run made the mean of the frames, and its row said PASS of two.
#[test]
fn a_run_that_was_cut_off_is_in_no_mean() {
    let mut sweep = Sweep::new("0.1.0".to_owned(), Vec::new(), Vec::new(), 4);
    sweep.add(Vec::new(), report(0));
    let cut = Report { end: End::Stopped { signal: "SIGINT".to_owned() }, ..report(1000) };
    sweep.add(Vec::new(), cut.clone());
    let all = sweep.repetitions();
    assert_eq!(all[0].reports.len(), 1);
    assert!(sweep.text(Rendering::default()).contains("2 runs of 4: unfinished"));
    // of values that have no other, it is all there is
    let mut alone = Sweep::new("0.1.0".to_owned(), Vec::new(), Vec::new(), 4);
    alone.add(Vec::new(), cut);
    assert_eq!(alone.repetitions()[0].reports.len(), 1);
}

/// "6 of 11 failed", of which none had.
#[test]
fn what_is_undecided_did_not_fail() {
    let mut sweep = Sweep::new("0.1.0".to_owned(), Vec::new(), Vec::new(), 2);
    for undecided in [None, Some("too few".to_owned())] {
        let mut report = report(0);
        let met = undecided.is_none();
        let text = "delay.p99 < 1ms".to_owned();
        report.total.expectations =
            vec![Expectation { text, met, undecided, ..Expectation::default() }];
        report.judge();
        sweep.add(Vec::new(), report);
    }
    assert!(sweep.sentence().starts_with("UNDECIDED  1 of 2 undecided."), "{}", sweep.sentence());
    assert_eq!(sweep.exit_code, 4);
}

#[test]
fn the_gravest_end_of_a_run_is_that_of_the_sweep() {
    let mut sweep = Sweep::new("0.1.0".to_owned(), Vec::new(), Vec::new(), 2);
    assert_eq!(sweep.exit_code, 1);
    sweep.add(Vec::new(), report(0));
    assert_eq!((sweep.exit_code, sweep.name(0).as_str()), (1, "run 1"));
    let unmet = Report { verdict: Verdict::Unmet, exit_code: 4, ..report(1) };
    sweep.add(Vec::new(), unmet);
    assert_eq!((sweep.exit_code, sweep.name(1).as_str()), (4, "run 2"));
}

/// Of 1, 2 and 3 the mean is 2 and its 95 % interval 2 ± 4.303 / √3.
#[test]
fn an_interval_is_that_of_student() {
    let mean = mean(&[1, 2, 3].map(Number::Whole)).unwrap();
    assert!((mean.value.real() - 2.0).abs() < 1e-12);
    assert!((mean.within.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-9);
    assert_eq!(super::mean(&[]), None);
    assert_eq!(super::mean(&[Number::Whole(7)]).unwrap().within, None);
}

/// Two services: one passes its steps, of the other nothing arrives.
fn services() -> Sweep {
    let variables = ["test", "service", "load"].map(str::to_owned).to_vec();
    let mut sweep = Sweep::new("0.1.0".to_owned(), Vec::new(), variables, 3);
    sweep.test = Some("ITU-T Y.1564".to_owned());
    let service = |name: &str| Service {
        name: name.to_owned(),
        committed: "5Mbps".to_owned(),
        excess: (name == "voice").then(|| "1Mbps".to_owned()),
        criteria: vec!["loss == 0%".to_owned()],
    };
    sweep.services = Some(ServiceTest {
        title: Some("site </h1> 3".to_owned()),
        services: vec![service("voice"), service("video")],
        step_ns: 10_000_000_000,
        performance_ns: Some(5_000_000_000),
        deviations: vec!["performance test of 5 s".to_owned()],
    });
    let criterion = |text: &str, met| Expectation {
        text: text.to_owned(),
        measured: "3".to_owned(),
        met,
        ..Expectation::default()
    };
    for load in ["25% of CIR", "CIR + EIR"] {
        let mut report = report(0);
        report.flows[0].expectations = vec![criterion("rate.received >= 4.95Mbps", true)];
        report.judge();
        sweep.add(["configuration", "voice", load].map(str::to_owned).to_vec(), report);
    }
    let mut all = report(0);
    all.flows[0].expectations = vec![criterion("loss == 0%", true)];
    let mut video = all.flows[0].clone();
    video.name = "video".to_owned();
    video.expectations = vec![criterion("loss == 0%", false), criterion("lost == 0", false)];
    if let Some(received) = &mut video.received {
        received.received.frames = 0;
    }
    all.flows.push(video);
    all.judge();
    sweep.add(["performance", "all", "CIR"].map(str::to_owned).to_vec(), all);
    sweep
}

#[test]
fn each_service_has_its_row_its_verdict_and_what_it_was_promised() {
    let sweep = services();
    let text = sweep.text(Rendering::default());
    assert!(text.contains("site </h1> 3  ITU-T Y.1564  wirebeat 0.1.0"), "{text}");
    assert!(text.contains("steps of 10.0 s, performance test of 5.00 s"), "{text}");
    assert!(text.contains("voice, CIR + EIR: PASS by rate.received >= 4.95Mbps"), "{text}");
    let row = |begin: &[&str]| {
        let is = |line: &&str| line.split_whitespace().take(4).eq(begin.iter().copied());
        text.lines().any(|line| is(&line))
    };
    assert!(row(&["performance", "all", "CIR", "FAIL"]), "{text}");
    assert!(row(&["performance", "voice", "CIR", "PASS"]), "{text}");
    assert!(row(&["performance", "video", "CIR", "FAIL"]), "{text}");
    let page = sweep.html(Rendering::default());
    for part in ["site &lt;/h1&gt; 3", "<h2>acceptance criteria</h2>", "Not as the standard has it"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(sweep.markdown(Rendering::default()).contains("## acceptance criteria"));
    let names: Vec<String> = sweep.pictures().into_iter().map(|picture| picture.name).collect();
    assert_eq!(names, ["sweep-received", "sweep-loss", "sweep-delay"]);
    let back: Sweep = serde_json::from_str(&sweep.json(Rendering::default())).unwrap();
    assert_eq!(back.services, sweep.services);
}

/// The first twenty findings were criteria of a service of which nothing arrived.
#[test]
fn what_did_not_arrive_is_said_first_and_once() {
    let mut sweep = services();
    let lines = text::findings(&sweep);
    assert!(lines[0].starts_with("nothing arrived of video in 1 of 1 run: check"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("FAIL")), "{lines:?}");
    // what arrived and was not good enough is on one line
    for flow in &mut sweep.points[2].report.flows {
        if let Some(received) = &mut flow.received {
            received.received.frames = 1;
        }
    }
    let lines = text::findings(&sweep);
    let failed: Vec<_> = lines.iter().filter(|line| line.contains("FAIL")).collect();
    assert_eq!(failed.len(), 1, "{lines:?}");
    assert!(failed[0].ends_with("FAIL video: loss == 0% (measured 3), lost == 0 (measured 3)"));
}

/// "lost 1.00 ± 12.7" looked like fewer than none.
#[test]
fn an_interval_of_a_count_does_not_go_below_none() {
    let mean =
        |value, within, signed| Mean { value: Number::Real(value), within: Some(within), signed };
    let of = |value, within| mean(value, within, false);
    assert_eq!(of(1.0, 12.7).shown(Shown::Count), "1.00 (0 to 13.7)");
    assert_eq!(of(100.0, 12.7).shown(Shown::Count), "100 ± 12.7");
    assert_eq!(of(1.0, 2.0).shown(Shown::Time), "1 ns (0 ns to 3 ns)");
    // by two clocks
    assert_eq!(mean(1.0, 2.0, true).shown(Shown::Time), "1 ns ± 2 ns");
    assert_eq!(mean(-3.0, 1.0, true).shown(Shown::Time), "-3 ns ± 1 ns");
    assert!(super::mean(&[Number::Real(4.0), Number::Real(-2.0)]).unwrap().signed);
    assert_eq!(of(1.0, 0.0).shown(Shown::Count), "1.00");
}
