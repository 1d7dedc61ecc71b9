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
