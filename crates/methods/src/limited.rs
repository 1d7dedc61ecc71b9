//! Whether a run says something of what it tests: a test proves by the sender's own books that its load was offered.

use wirebeat_report::model::{End, Expectation, Finding, FlowReport, Report};

use crate::attempts::{ATTEMPTS, FAR_BELOW};
use crate::bench::doubtful;

/// How often a run is made that the tester limited.
pub const RUNS: u32 = ATTEMPTS;

/// What a run does not say, because of the tester.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Why: a sentence.
    pub why: String,
    /// Less was offered than was asked: what was met says nothing, nor does too little of something.
    is_short: bool,
    /// The tester may have lost frames: what was not met says nothing.
    is_doubtful: bool,
    /// Whether the tester is far too slow, so that another run would be no better.
    pub hopeless: bool,
}

/// How the tester limited a run, if it did.
pub fn limit(report: &Report) -> Option<Limit> {
    // what ended before its time is told as that
    if report.end != End::Completed {
        return None;
    }
    let is_unmet = report.expectations().any(|of| !of.expectation.met);
    limit_of(&report.flows, &report.findings, is_unmet)
}

/// The same of a run of these flows, by what was found in it, and whether it failed.
fn limit_of(flows: &[FlowReport], findings: &[Finding], is_unmet: bool) -> Option<Limit> {
    let doubt = findings.iter().find(|finding| doubtful(finding));
    let short = flows.iter().filter_map(|flow| Some((flow, flow.short_share()?)));
    if let Some((flow, share)) = short.min_by(|a, b| a.1.total_cmp(&b.1)) {
        let percent = (share * 1000.0).floor() / 10.0;
        let why =
            format!("limited by the tester: it sent {percent} % of the load of '{}'", flow.name);
        let hopeless = share < FAR_BELOW;
        return Some(Limit { why, is_short: true, is_doubtful: doubt.is_some(), hopeless });
    }
    let doubt = doubt?;
    is_unmet.then(|| Limit {
        why: format!("the tester may have caused it: {}", doubt.message),
        is_short: false,
        is_doubtful: true,
        hopeless: false,
    })
}

impl Limit {
    /// Takes back what `report` says of what it tests: that is undecided.
    pub fn withdraw(&self, report: &mut Report) {
        let flows = report.flows.iter_mut().chain([&mut report.total]);
        for expectation in flows.flat_map(|flow| &mut flow.expectations) {
            self.undecide(expectation);
        }
        report.judge();
    }

    fn undecide(&self, expectation: &mut Expectation) {
        let too_little =
            expectation.measured_value.zip(expectation.limit).is_some_and(|(is, limit)| is < limit);
        let says_nothing = match expectation.met {
            true => self.is_short,
            false => self.is_doubtful || self.is_short && too_little,
        };
        if says_nothing && expectation.undecided.is_none() {
            expectation.met = false;
            expectation.margin = None;
            expectation.undecided = Some(self.why.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_report::model::{FindingKind, Sent, Volume};

    use super::*;

    fn flow(asked: u64, sent: u64) -> FlowReport {
        let volume = |frames| Volume { frames, ..Volume::default() };
        FlowReport {
            name: "voice".to_owned(),
            sent: Some(Sent { requested: volume(asked), sent: volume(sent), ..Sent::default() }),
            ..FlowReport::default()
        }
    }

    #[test]
    fn what_was_not_offered_is_not_passed_and_what_the_tester_lost_is_not_failed() {
        for (asked, sent, met, dropped, expected) in [
            (10_000, 10_000, true, false, (false, true, true)),
            (10_000, 10_000, false, false, (false, false, true)),
            // a frame at the end is no other load
            (100, 99, true, false, (false, true, true)),
            (10_000, 9_995, true, false, (false, true, true)),
            (10_000, 9_980, true, false, (true, false, false)),
            // it failed at less than its rate: that is known
            (10_000, 9_980, false, false, (true, false, true)),
            (10_000, 9_980, false, true, (true, false, false)),
            (10_000, 10_000, false, true, (true, false, false)),
            (10_000, 10_000, true, true, (false, true, true)),
        ] {
            let (kind, message) = (FindingKind::ReceiverDrops, "it dropped".to_owned());
            let findings: Vec<Finding> =
                dropped.then_some(Finding { kind, message }).into_iter().collect();
            let limit = limit_of(&[flow(asked, sent)], &findings, !met);
            let mut of = Expectation { met, ..Expectation::default() };
            limit.iter().for_each(|limit| limit.undecide(&mut of));
            let came = (limit.is_some(), of.met, of.undecided.is_none());
            assert_eq!(came, expected, "{asked} {sent} {met} {dropped}");
        }
        let of = |sent| limit_of(&[flow(10_000, 10_000), flow(10_000, sent)], &[], false).unwrap();
        assert!(of(5_000).hopeless && !of(9_900).hopeless);
        assert_eq!(of(9_876).why, "limited by the tester: it sent 98.7 % of the load of 'voice'");
    }

    /// A rate that was not received because it was not sent is no failure of the network; a loss at less than the load is one.
    #[test]
    fn too_little_of_what_was_not_offered_is_no_failure() {
        let limit = limit_of(&[flow(10_000, 5_000)], &[], true).unwrap();
        for (measured, held_against, decided) in
            [(500.0, 990.0, false), (0.02, 0.01, true), (990.0, 500.0, true)]
        {
            let mut of = Expectation {
                measured_value: Some(measured),
                limit: Some(held_against),
                ..Expectation::default()
            };
            limit.undecide(&mut of);
            assert!(!of.met && of.undecided.is_none() == decided, "{measured} {of:?}");
        }
    }
}
