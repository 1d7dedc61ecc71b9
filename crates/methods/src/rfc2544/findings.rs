//! What limited a test or makes its numbers less certain, in sentences.
//!
//! All of it is read from the report as far as it went, so that a test that goes on after it was cut off says nothing of then that is
//! no longer so.

use wirebeat_report::test_report::{SearchOutcome, SizeReport, TestReport, TrialReport};
use wirebeat_units::human;

use super::size_test::{LATENCY, constant_loss, is_dead};
use crate::bench::LATE_GAPS;

/// Findings that are told.
const MOST: usize = 200;

/// The findings of a test; the most serious of each frame size first.
pub(super) fn of(report: &TestReport) -> Vec<String> {
    let mut all: Vec<String> = nothing_came_through(&report.sizes).into_iter().collect();
    for size in &report.sizes {
        all.extend(of_results(size));
        let trials = (1u64..).zip(&size.trials);
        all.extend(doubtful(size));
        all.extend(trials.flat_map(|(number, trial)| of_trial(&size.size, number, trial)));
        all.extend(made_again(size));
        all.extend(late(size));
    }
    all.truncate(MOST);
    all
}

/// That with some sizes nothing arrived, once for all of them.
fn nothing_came_through(sizes: &[SizeReport]) -> Option<String> {
    let dead = || sizes.iter().filter(|size| is_dead(size));
    let why = dead().find_map(|size| size.unlearned.as_deref())?;
    let names: Vec<&str> = dead().map(|size| size.size.as_str()).collect();
    Some(format!(
        "no learning frame of {} came through, and no frame of the trial after them, so that nothing else was measured ({why}): check that \
         the device forwards between these ports, that it has routes and neighbours (ARP) for the addresses of the flows, and that it \
         filters none of them",
        names.join(", ")
    ))
}

/// What is to be known of the results of a size.
fn of_results(size: &SizeReport) -> Vec<String> {
    let name = &size.size;
    let mut all = Vec::new();
    if let Some(why) = size.unlearned.as_ref().filter(|_| !is_dead(size)) {
        all.push(format!("no learning frame of {name} came through: {why}"));
    }
    let any = |outcome| size.throughput.iter().any(|of| of.outcome == outcome);
    if let Some(found) = constant_loss(size).filter(|_| any(SearchOutcome::ByChance)) {
        all.push(format!(
            "the loss with {name} does not depend on the load (about {} from {} to {}): where nothing was lost is chance, and no throughput; \
             let trials lose some with --loss-tolerance, or measure what is lost with --measure loss-rate",
            human::percent(found.ratio),
            human::frame_rate(found.from),
            human::frame_rate(found.to)
        ));
    }
    if any(SearchOutcome::AtLeastByTester) {
        all.push(format!(
            "the tester limited the throughput with {name}: it could not offer, or not receive, more; the device may bear more"
        ));
    }
    if let Some(of) = size.back_to_back.as_ref().filter(|of| of.limited_by_tester > 0) {
        all.push(format!(
            "the tester limited the back-to-back frames with {name}, in {} of {} searches: of a longer burst it may have lost frames itself, or sent \
             many at once; the device may bear more",
            human::count(u64::from(of.limited_by_tester)),
            human::count(of.bursts.len() as u64)
        ));
    }
    if size.recovery.as_ref().is_some_and(|of| !of.overloaded) {
        all.push(format!(
            "the device was not overloaded with {name}: the highest load is no more than the throughput, so that there is no recovery; \
             give a higher --max-rate"
        ));
    }
    all
}

/// Which trials of a size are doubtful, and why the first of them is; every trial has its own reason in the result.
fn doubtful(size: &SizeReport) -> Option<String> {
    let trials = (1_u64..).zip(&size.trials).filter(|(_, trial)| trial.lost > 0);
    let all: Vec<(u64, &str)> =
        trials.filter_map(|(number, trial)| Some((number, trial.doubt.as_deref()?))).collect();
    let (name, (first, why)) = (&size.size, *all.first()?);
    Some(match all.len() {
        1 => format!("trial {first} with {name} is doubtful: {why}"),
        _ => {
            let numbers: Vec<String> = all.iter().map(|(number, _)| number.to_string()).collect();
            format!("trials {} with {name} are doubtful; trial {first}: {why}", numbers.join(", "))
        }
    })
}

/// What is to be known of a trial.
fn of_trial(name: &str, number: u64, trial: &TrialReport) -> Vec<String> {
    let mut all = Vec::new();
    if trial.purpose == LATENCY && trial.lost > 0 {
        let (lost, share) = (human::counted(trial.lost, "frame"), human::percent(trial.loss_ratio));
        let were = if trial.lost == 1 { "was" } else { "were" };
        all.push(format!(
            "{lost} ({share}) of latency trial {number} with {name} {were} lost at the throughput: trials of the throughput are too short for \
             this device"
        ));
    }
    if trial.duplicates > 0 {
        let frames = human::counted(trial.duplicates, "frame");
        all.push(format!("{frames} arrived twice in trial {number} with {name}"));
    }
    all
}

/// How many trials were made again.
fn made_again(size: &SizeReport) -> Option<String> {
    let again = size.trials.iter().map(|trial| u64::from(trial.repeated)).sum::<u64>();
    let (were, their) = if again == 1 { ("was", "its") } else { ("were", "their") };
    (again > 0).then(|| {
        format!(
            "{} with {} {were} made again because the tester disturbed itself: {their} frames are in no sum here, and in the counters of the \
             device",
            human::counted(again, "trial"),
            size.size
        )
    })
}

/// How late the sender was where that is more than a packet gap, in words: a device with small buffers may lose what leaves at once.
fn late(size: &SizeReport) -> Option<String> {
    let gaps = |trial: &TrialReport| {
        let late = trial.lateness_p99_ns.unwrap_or(0).max(0) as f64;
        (late, late * trial.offered / 1e9)
    };
    let trials = size.trials.iter().map(gaps).filter(|(_, gaps)| *gaps > LATE_GAPS);
    let (count, worst) = trials.fold((0u64, (0.0, 0.0)), |(count, worst), one| {
        (count + 1, if one.1 > worst.1 { one } else { worst })
    });
    (count > 0).then(|| {
        format!(
            "the sender was late in {} of {} with {}: p99 up to {}, some {} frames at once; treat delays with care",
            human::count(count),
            human::counted(size.trials.len() as u64, "trial"),
            size.size,
            human::time(worst.0),
            human::number(worst.1)
        )
    })
}
