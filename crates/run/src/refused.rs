//! Frames that the kernel engine handed over and that the device never sent: to which flows they belonged.
//!
//! How many there are is known to the frame: the driver's answers are the witness where they are counted, and else the
//! device's own counter. Neither knows flows. Where a receiver counted a flow, what it misses of it is the most that can
//! have been refused; so refusals are charged to flows by that, and the counters of each are consistent.

use wirebeat_engine::drive::TxFlowStats;
use wirebeat_engine::port::Amount;
use wirebeat_meter::summary::{FlowSummary, MeterSummary};
use wirebeat_netlink::LinkStats;
use wirebeat_report::assemble::Attribution;

use crate::engines::Ability;
use crate::flows::Running;

/// What is known of the frames of a tag.
#[derive(Clone, Copy, Debug)]
struct Handed {
    /// Frames on the wire that the engine handed over.
    frames: u64,
    /// How many of them did not arrive; `None` where nobody counted.
    missed: Option<u64>,
}

/// Charges to flows what devices refused of them, by counters before and after. What is not certain comes back as notes.
pub(crate) fn charge(
    tags: &mut [TxFlowStats],
    run: &Running<'_>,
    (before, after): (&[Option<LinkStats>], &[Option<LinkStats>]),
    received: Option<&MeterSummary>,
) -> Vec<String> {
    let mut notes = Vec::new();
    for (place, port) in run.lab.ports.iter().enumerate() {
        let (Some(before), Some(after)) = (&before[place], &after[place]) else { continue };
        let mine = run.plan.program.flows_from(&port.name);
        if run.open.engines[place].can(Ability::ConfirmSent) || mine.is_empty() {
            continue;
        }
        let of_flow = |flow: u32| run.plan.program.tags_of(flow).map(move |tag| (flow, tag));
        let mine: Vec<(u32, u32)> = mine.into_iter().flat_map(of_flow).collect();
        let known = |&(flow, tag): &(u32, u32)| {
            let frames = on_wire(tags[tag as usize].sent);
            let arrived = received.and_then(|summary| arrived(run, summary, flow, tag));
            Handed { frames, missed: arrived.map(|arrived| frames.saturating_sub(arrived)) }
        };
        let handed: Vec<Handed> = mine.iter().map(known).collect();
        let left = match run.open.accepted.get(place).and_then(Option::as_ref) {
            Some(accepted) => accepted.answers().accepted,
            None => after.tx_packets.saturating_sub(before.tx_packets),
        };
        let all: u64 = handed.iter().map(|one| one.frames).sum();
        let refused = all.saturating_sub(left);
        if refused == 0 {
            continue;
        }
        for (&(_, tag), share) in mine.iter().zip(shares(&handed, refused)) {
            let flow = &mut tags[tag as usize];
            let share = part(flow.sent, share);
            flow.sent -= share;
            flow.failed += share;
        }
        if mine.len() > 1 && !certain(&handed, refused) {
            notes.push(format!(
                "the device of {} did not send {refused} of the frames that it was handed; which flows they belonged to \
                 is not known for all, and they are charged to the flows by what did not arrive of each, or by what each \
                 sent where that is not measured",
                port.interface()
            ));
        }
    }
    notes
}

/// Frames on the wire of a tag that arrived, where a receiver counts them.
fn arrived(run: &Running<'_>, summary: &MeterSummary, flow: u32, tag: u32) -> Option<u64> {
    // of a number that no frame arrived of, there is no summary
    let of = |number: u16| summary.flows.get(&number).map_or(0, arrivals);
    let id = run.plan.program.flows.get(flow as usize)?.id;
    match run.open.attributions.get(&id)? {
        Attribution::Probe => u16::try_from(tag).ok().map(of),
        Attribution::Headers(number) => Some(of(*number)),
        Attribution::Unprobed | Attribution::NoReceiver | Attribution::NotMeasured(_) => None,
    }
}

fn arrivals(flow: &FlowSummary) -> u64 {
    let copies = flow.sequence.duplicates;
    flow.frames.saturating_sub(copies).saturating_add(flow.fragments)
}

/// Whether it is clear to which flows the refused frames belonged: all is counted, and nothing else is missing.
fn certain(handed: &[Handed], refused: u64) -> bool {
    let missed: Option<u64> = handed.iter().map(|one| one.missed).sum();
    missed == Some(refused)
}

/// How many of `refused` frames each tag is charged with, and never more than it has. Where it is known what did not
/// arrive, no more than that, as long as the others can have had the rest.
fn shares(handed: &[Handed], refused: u64) -> Vec<u64> {
    let all: u64 = handed.iter().map(|one| one.frames).sum();
    let expected = |frames: u64| scaled(frames, refused, all).min(frames);
    let mut shares = vec![0; handed.len()];
    // by what is missing; then to those that nobody counted; and then to whom it may
    let rounds: [&dyn Fn(&Handed) -> u64; 3] = [
        &|one| one.missed.unwrap_or_else(|| expected(one.frames)),
        &|one| one.missed.map_or(one.frames, |_| 0),
        &|one| one.frames,
    ];
    let mut left = refused;
    for most in rounds {
        let room = |(one, &share): (&Handed, &u64)| most(one).min(one.frames).saturating_sub(share);
        let rooms: Vec<u64> = handed.iter().zip(&shares).map(room).collect();
        let mut of: u64 = rooms.iter().sum();
        let mut now = left.min(of);
        left -= now;
        for (share, room) in shares.iter_mut().zip(rooms) {
            let part = scaled(room, now, of).min(now);
            *share += part;
            now -= part;
            of -= room;
        }
    }
    shares
}

/// `amount * part / all`, rounded up.
fn scaled(amount: u64, part: u64, all: u64) -> u64 {
    let scaled = (u128::from(amount) * u128::from(part)).div_ceil(u128::from(all.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// `frames` on the wire of an amount; which of them is not known, so they are as long as all are on average, and
/// where packets left as fragments they are whole packets.
fn part(of: Amount, frames: u64) -> Amount {
    let all = on_wire(of);
    let share = |amount: u64| scaled(amount, frames, all).min(amount);
    Amount {
        frames: share(of.frames),
        fragments: share(of.fragments),
        bytes: share(of.bytes),
        payload: share(of.payload),
    }
}

fn on_wire(of: Amount) -> u64 {
    of.frames + of.fragments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(frames: u64, missed: u64) -> Handed {
        Handed { frames, missed: Some(missed) }
    }

    fn unknown(frames: u64) -> Handed {
        Handed { frames, missed: None }
    }

    /// Of two flows of 9,000 frames each a card refused 4,368, and nearly all of them of one: in proportion, that one
    /// would have sent fewer than arrived.
    #[test]
    fn refused_frames_are_charged_to_the_flows_that_miss_them() {
        let handed = [known(9_000, 4_300), known(9_000, 68)];
        assert_eq!(shares(&handed, 4_368), [4_300, 68]);
        assert!(certain(&handed, 4_368));
    }

    /// Frames were refused and others lost on the way: nobody knows which, and no flow has fewer sent than arrived.
    #[test]
    fn no_flow_is_charged_with_more_than_it_misses() {
        let handed = [known(1_000, 400), known(1_000, 100), known(1_000, 0)];
        assert_eq!(shares(&handed, 250), [200, 50, 0]);
        assert!(!certain(&handed, 250));
    }

    #[test]
    fn what_nobody_counted_is_charged_in_proportion_and_with_the_rest() {
        assert_eq!(shares(&[unknown(300), unknown(100)], 40), [30, 10]);
        assert_eq!(shares(&[known(300, 0), unknown(100)], 40), [0, 40]);
        // more was refused than is missing: a frame came from elsewhere
        assert_eq!(shares(&[known(300, 0), unknown(10)], 40), [30, 10]);
        assert_eq!(shares(&[unknown(0), known(0, 0)], 0), [0, 0]);
    }

    #[test]
    fn every_refused_frame_is_charged_once() {
        for refused in 0..=60 {
            let handed = [known(7, 3), unknown(11), known(13, 13), known(29, 0)];
            let shares = shares(&handed, refused);
            assert_eq!(shares.iter().sum::<u64>(), refused, "{refused}: {shares:?}");
            assert!(shares.iter().zip(&handed).all(|(share, one)| *share <= one.frames));
        }
    }

    #[test]
    fn a_part_of_an_amount_is_of_its_mean_length() {
        let of = Amount { frames: 10, fragments: 10, bytes: 15_000, payload: 14_000 };
        let half = Amount { frames: 5, fragments: 5, bytes: 7_500, payload: 7_000 };
        assert_eq!(part(of, 10), half);
        assert_eq!(part(of, 20), of);
        assert_eq!(part(Amount::default(), 5), Amount::default());
    }
}
