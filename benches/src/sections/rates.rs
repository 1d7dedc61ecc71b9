//! Constant rates: how far the mean rate is off, and how far single gaps are, beside the peers that
//! busy-wait as we do.

use std::time::Duration;

use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::Chapter;
use crate::exactness::{self, Exactness, Paced};
use crate::format;
use crate::peers::{self, Pace, Peer};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::{self, Setup};

/// The rates of the targets, in frames per second.
const RATES: [u64; 6] = [1_000, 10_000, 100_000, 200_000, 500_000, 1_000_000];
/// Below this, a measurement takes three times as long, so that its 99.9th percentile stands on more than a few frames.
const SLOW: u64 = 20_000;
/// A peer reaches a rate when its mean is within so much of it.
const REACHED: f64 = 0.001;
/// The targets: rate error, and median error of a gap in ns.
const RATE_ERROR: f64 = 0.0001;
const MEDIAN: f64 = 50.0;

const PROSE: &str = "\
All send into the same receiver, which meters before the stack and drops: (3). The error of a gap is \
|time between two arrivals − the time there should be|, over all arrivals. The peers are those that \
busy-wait; they are measured once they are under way, Wirebeat (kernel engine, `wait: spin`) from its \
first frame on. A peer reaches a rate when its mean is within 0.1 % of it; tails are compared with the \
peers that do. (One that lets its schedule slip after each hold-up has fewer disturbed gaps than one \
that makes up for it, and sends less than it was asked for.) MGEN's frames are 74 bytes long. Below \
20,000 frames per second a measurement takes three times as long. Wirebeat \
hears how it is interrupted while it waits, and \"interruptions alone\" is what these would have made of \
the gaps of a sender that is exact but for them. It is an estimate; where it is worse than the peer that \
is compared with, the two did not have the same luck.";

/// A tail of the errors: the share of gaps that is beyond it, and where it stands.
type Tail = (f64, fn(&Exactness) -> f64);
const P99: Tail = (0.01, |exactness| exactness.p99);
const P99_9: Tail = (0.001, |exactness| exactness.p99_9);

const OURS: &str = "Wirebeat kernel, spin";

/// Somebody at a rate.
struct Entry {
    name: &'static str,
    rate: u64,
    measured: Measured<Paced>,
}

impl Entry {
    fn median(&self, figure: impl Fn(&Exactness) -> f64) -> Option<f64> {
        self.measured.series(|paced| figure(&paced.exactness)).median()
    }

    /// The error in ns that interruptions alone would have made of this share of the gaps.
    fn interrupted(&self, share: f64) -> f64 {
        let gap = 1_000_000_000 / self.rate;
        self.measured.series(|paced| paced.heard.error(gap, share)).median().unwrap_or(0.0)
    }

    fn reaches(&self) -> bool {
        self.median(|e| e.rate_error(self.rate)).is_some_and(|error| error.abs() <= REACHED)
    }
}

/// Measures everything.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut entries = Vec::new();
    for rate in RATES {
        let time = if rate < SLOW { bench.time * 3 } else { bench.time };
        let mut contestants = vec![Contestant::new(format!("{OURS} at {rate}/s"), move |bench| {
            let setup = Setup::metered(EngineChoice::Kernel, Pace::Frames(rate), WaitChoice::Spin);
            wirebeat::paced(&bench.lab, &setup, rate, time)
        })];
        let peers: Vec<&Peer> = peers::ALL.into_iter().filter(|peer| peer.busy_waits).collect();
        for &peer in &peers {
            contestants.push(of_peer(peer, rate, time));
        }
        let names = [OURS].into_iter().chain(peers.iter().map(|peer| peer.name));
        let all = in_turn(bench, &contestants, |paced| brief(&paced.exactness, rate));
        entries.extend(names.zip(all).map(|(name, measured)| Entry { name, rate, measured }));
    }
    Chapter {
        title: "Constant rates",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table(&entries))],
        picture: None,
        verdicts: RATES.into_iter().flat_map(|rate| verdicts(&entries, rate)).collect(),
    }
}

fn of_peer(peer: &'static Peer, rate: u64, time: Duration) -> Contestant<'static, Paced> {
    Contestant::new(format!("{} at {rate}/s", peer.name), move |bench| {
        exactness::of_peer(&bench.lab, &bench.files, peer, rate, time)
    })
}

/// One measurement in a line.
pub fn brief(exactness: &Exactness, rate: u64) -> String {
    let error = format::percent(exactness.rate_error(rate));
    let [p50, p99, p99_9] = [exactness.p50, exactness.p99, exactness.p99_9].map(format::time);
    format!("rate {error}, gaps off by {p50} / {p99} / {p99_9}")
}

fn table(entries: &[Entry]) -> Table {
    let head = ["frames/s", "tool", "rate error", "gap error p50", "p99", "p99.9", "remark"];
    let mut table = Table::new(&head);
    for entry in entries {
        let cell = |figure: fn(&Exactness) -> f64| {
            format::series(&entry.measured.series(|paced| figure(&paced.exactness)), format::time)
        };
        let error = entry.median(|e| e.rate_error(entry.rate));
        let mut remarks = Vec::new();
        if error.is_some() && !entry.reaches() {
            remarks.push("does not reach the rate".to_owned());
        }
        if error.is_some() && entry.name == OURS {
            let [p99, p99_9] = [P99, P99_9].map(|tail| format::time(entry.interrupted(tail.0)));
            remarks.push(format!("interruptions alone: {p99} and {p99_9}"));
        }
        remarks.extend(Some(entry.measured.remark()).filter(|remark| !remark.is_empty()));
        table.row(vec![
            format::rate(entry.rate as f64),
            entry.name.to_owned(),
            error.map_or(format::NOTHING.to_owned(), format::percent),
            cell(|e| e.p50),
            cell(P99.1),
            cell(P99_9.1),
            remarks.join("; "),
        ]);
    }
    table
}

fn verdicts(entries: &[Entry], rate: u64) -> Vec<Verdict> {
    let at = format::rate(rate as f64);
    let targets = [
        format!("{at}/s: mean rate within 0.01 %"),
        format!("{at}/s: median gap error ≤ 50 ns"),
        format!("{at}/s: 99th percentile ≤ the best busy-waiting peer's"),
        format!("{at}/s: 99.9th percentile ≤ the best busy-waiting peer's"),
    ];
    let ours = entries.iter().find(|entry| entry.name == OURS && entry.rate == rate);
    let (Some(ours), [mean, median, tail, far_tail]) = (ours, targets) else { return Vec::new() };
    let (Some(error), Some(p50)) = (ours.median(|e| e.rate_error(rate)), ours.median(|e| e.p50))
    else {
        let targets = [mean, median, tail, far_tail];
        return targets.map(|target| Verdict::unmeasured(target, ours.measured.reason())).into();
    };
    vec![
        Verdict::of(mean, format::percent(error), error.abs() <= RATE_ERROR),
        Verdict::of(median, format::time(p50), p50 <= MEDIAN),
        no_worse(tail, entries, ours, P99),
        no_worse(far_tail, entries, ours, P99_9),
    ]
}

/// Against the best of the peers that reach the rate.
fn no_worse(target: String, entries: &[Entry], ours: &Entry, (share, figure): Tail) -> Verdict {
    let Some(own) = ours.median(figure) else {
        return Verdict::unmeasured(target, ours.measured.reason());
    };
    let peers = || entries.iter().filter(|e| e.rate == ours.rate && e.name != OURS);
    if peers().all(|peer| peer.measured.values.is_empty()) {
        return Verdict::unmeasured(target, "no peer could be measured");
    }
    let best = peers()
        .filter(|peer| peer.reaches())
        .filter_map(|peer| Some((peer.median(figure)?, peer.name)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((best, name)) => {
            let alone = ours.interrupted(share);
            let [shown, alone_shown, best_shown] = [own, alone, best].map(format::time);
            let text =
                format!("{shown} (interruptions alone: {alone_shown}); {name}: {best_shown}");
            Verdict::at_most(target, text, (own, best, alone))
        }
        None => Verdict::of(target, format!("{}; no peer reaches it", format::time(own)), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exactness::Processor;
    use crate::gaps::Gaps;
    use crate::verdict::Outcome;

    fn entry(name: &'static str, rate: f64, p99: f64) -> Entry {
        let exactness = Exactness { rate, p50: 20.0, p99, p99_9: 2.0 * p99 };
        let cpu = Processor { own: 1.0, machine: 1.0 };
        let paced = Paced { exactness, cpu, heard: Gaps::default() };
        let measured = Measured { values: vec![paced], failures: Vec::new() };
        Entry { name, rate: 1000, measured }
    }

    #[test]
    fn only_peers_that_reach_the_rate_are_compared_with() {
        let mut entries = vec![
            entry(OURS, 1000.0, 5000.0),
            entry("slow and exact", 900.0, 10.0),
            entry("quick", 1001.0, 6000.0),
        ];
        let outcomes = |entries: &[Entry]| {
            verdicts(entries, 1000).into_iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&entries), vec![Outcome::Met; 4]);
        entries.push(entry("better", 1000.0, 4000.0));
        assert_eq!(outcomes(&entries)[2..], [Outcome::Missed, Outcome::Missed]);
        assert!(verdicts(&entries, 1000)[2].figure.contains("better: 4.00 µs"));
    }

    #[test]
    fn the_mean_and_the_median_have_their_bounds() {
        let mut entries = vec![entry(OURS, 1000.2, 5000.0), entry("slow", 900.0, 1.0)];
        entries[0].measured.values[0].exactness.p50 = 51.0;
        let verdicts = verdicts(&entries, 1000);
        assert_eq!([&verdicts[0].outcome, &verdicts[1].outcome], [&Outcome::Missed; 2]);
        assert_eq!(verdicts[2].outcome, Outcome::Met, "no peer that reaches it");
        let alone = super::verdicts(&entries[..1], 1000);
        assert!(matches!(alone[2].outcome, Outcome::Unmeasured(_)), "no peer at all");
    }

    #[test]
    fn what_came_between_is_told_from_what_we_did() {
        let mut entries = vec![entry(OURS, 1000.0, 5000.0), entry("lucky", 1000.0, 2000.0)];
        // ten frames of a thousand are due in one, and five of them more than 4 us before its end
        let heard = Gaps::of(1_000_000_000, [8_000; 1250].into_iter());
        assert_eq!(heard.error(1_000_000, 0.01), 4_000.0);
        entries[0].measured.values[0].heard = heard;
        let tail = |entries: &[Entry]| verdicts(entries, 1000).swap_remove(2);
        assert_eq!(tail(&entries).outcome, Outcome::Noise);
        assert!(tail(&entries).figure.contains("(interruptions alone: 4.00 µs)"));
        entries[0].measured.values[0].exactness.p99 = 6_001.0;
        assert_eq!(tail(&entries).outcome, Outcome::Missed, "more than they explain");
    }

    #[test]
    fn a_failed_measurement_leaves_its_reason() {
        let measured = Measured { values: Vec::new(), failures: vec!["it died".to_owned()] };
        let entries = [Entry { name: OURS, rate: 1000, measured }];
        let all = verdicts(&entries, 1000);
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|v| v.outcome == Outcome::Unmeasured("it died".to_owned())));
        assert!(table(&entries).to_string().contains("failed: it died"));
    }
}
