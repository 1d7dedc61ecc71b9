//! Whether a run says something of what it tests: a test proves by the sender's own books that its load was offered.

use wirebeat_report::model::{End, Expectation, Finding, FlowReport, Report};
use wirebeat_units::human;

use crate::attempts::{ATTEMPTS, FAR_BELOW};
use crate::bench::{OFFERED, doubtful};

/// How often a run is made that the tester limited.
pub const RUNS: u32 = ATTEMPTS;

/// What a run does not say, because of the tester.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Why: a sentence.
    pub why: String,
    /// Whether what was met says nothing: less was offered.
    of_met: bool,
    /// Whether what was not met says nothing: the tester may have lost it.
    of_unmet: bool,
    /// Whether the tester is far too slow, so that another run would be no better.
    pub hopeless: bool,
}

/// How the tester limited a run, if it did.
pub fn limit(report: &Report) -> Option<Limit> {
    if matches!(report.end, End::Stopped { .. }) {
        return None;
    }
    let is_unmet = report.expectations().any(|of| !of.expectation.met);
    limit_of(&report.flows, &report.findings, is_unmet)
}

/// The same of a run of these flows, by what was found in it, and whether it failed.
fn limit_of(flows: &[FlowReport], findings: &[Finding], is_unmet: bool) -> Option<Limit> {
    let doubt = findings.iter().find(|finding| doubtful(finding));
    let least = flows.iter().filter_map(short).min_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((flow, of, share)) = least {
        let percent = (share * 1000.0).floor() / 10.0;
        let why = format!(
            "limited by the tester: of the {} that '{}' asked for it sent {percent} %",
            human::counted(of, "frame"),
            flow.name,
        );
        let hopeless = share < FAR_BELOW;
        return Some(Limit { why, of_met: true, of_unmet: doubt.is_some(), hopeless });
    }
    let doubt = doubt?;
    is_unmet.then(|| Limit {
        why: format!("limited by the tester: {}", doubt.message),
        of_met: false,
        of_unmet: true,
        hopeless: false,
    })
}

/// A flow of which less was sent than was asked: how many frames those are, and the share that was sent.
fn short(flow: &FlowReport) -> Option<(&FlowReport, u64, f64)> {
    let sent = flow.sent.as_ref()?;
    let (asked, left) = (sent.requested.frames, sent.sent.frames);
    let share = left as f64 / asked.max(1) as f64;
    // a frame more or less is no other load
    (asked.saturating_sub(left) > 1 && share < OFFERED).then_some((flow, asked, share))
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
        let says_nothing = if expectation.met { self.of_met } else { self.of_unmet };
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
        let why =
            "limited by the tester: of the 10,000 frames that 'voice' asked for it sent 98.7 %";
        assert_eq!(of(9_876).why, why);
    }
}
