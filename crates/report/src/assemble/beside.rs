//! One report of flows and of sessions that went on at the same time in one run.

use crate::exit::Exit;
use crate::model::{Cost, End, FindingKind, Report, Verdict};

/// The report of a run whose flows and whose sessions each have a report of their own: the sums of both must be right, the worse
/// verdict counts, and it lasted as long as the longer of them.
#[must_use]
pub fn side_by_side(mut flows: Report, sessions: Report) -> Report {
    let of_machine = |kind| kind == FindingKind::Machine;
    let longer = flows.duration_ns.max(sessions.duration_ns);
    // both looked at the same machine, and one of them for longer
    let (kept, machine) = match flows.duration_ns == longer {
        true => (flows.costs, &flows.findings),
        false => (sessions.costs, &sessions.findings),
    };
    let machine: Vec<_> = machine.iter().filter(|it| of_machine(it.kind)).cloned().collect();
    let mut findings = std::mem::take(&mut flows.findings);
    findings.extend(sessions.findings);
    findings.retain(|finding| !of_machine(finding.kind));
    findings.extend(machine);
    findings.sort_by_key(|finding| finding.kind);
    findings.dedup();
    let mut changes = flows.changes;
    changes.extend(sessions.changes);
    changes.sort_by_key(|change| change.at_ns);
    let mut consistency_checks = flows.consistency_checks;
    consistency_checks.extend(sessions.consistency_checks);
    let verdict = worse(flows.verdict, sessions.verdict);
    // one that could not write a capture ends with a code beside its verdict
    let of = |code| Exit::of(code).unwrap_or(Exit::Done);
    let exit = of(flows.exit_code).and(of(sessions.exit_code)).and(verdict.exit());
    Report {
        duration_ns: longer,
        end: graver(flows.end, sessions.end),
        verdict,
        exit_code: exit.code(),
        sessions: sessions.sessions,
        session_intervals: sessions.session_intervals,
        mix: sessions.mix,
        stacks: sessions.stacks,
        changes,
        findings,
        consistency_checks,
        costs: kept.into_iter().map(of_both).collect(),
        ..flows
    }
}

/// What the process spent for frames of flows and for sessions alike: nothing says how much of it is whose.
fn of_both(cost: Cost) -> Cost {
    Cost { frames: 0, nanoseconds_per_frame: None, ..cost }
}

fn worse(one: Verdict, other: Verdict) -> Verdict {
    const ORDER: [Verdict; 4] =
        [Verdict::CountersInconsistent, Verdict::Unfinished, Verdict::Unmet, Verdict::Done];
    ORDER.into_iter().find(|verdict| [one, other].contains(verdict)).unwrap_or(Verdict::Done)
}

/// Why both ended: what went wrong with one of them, rather than that the other was stopped for it.
fn graver(one: End, other: End) -> End {
    let gravity = |end: &End| match end {
        End::Completed => 0,
        End::Stopped { .. } => 1,
        End::InterfaceGone { .. } | End::PeerGone { .. } | End::Failed { .. } => 2,
    };
    if gravity(&other) > gravity(&one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_verdict_and_the_graver_end_count() {
        use Verdict::{CountersInconsistent, Done, Unfinished, Unmet};
        assert_eq!(worse(Done, Unmet), Unmet);
        assert_eq!(worse(Unfinished, Unmet), Unfinished);
        assert_eq!(worse(CountersInconsistent, Unfinished), CountersInconsistent);
        assert_eq!(worse(Done, Done), Done);
        let stopped = || End::Stopped { signal: "request".to_owned() };
        let failed = || End::Failed { message: "the link is gone".to_owned() };
        assert_eq!(graver(stopped(), failed()), failed());
        assert_eq!(graver(failed(), stopped()), failed());
        assert_eq!(graver(End::Completed, stopped()), stopped());
    }
}
