//! The round that a schedule repeats.
//!
//! A flow at a constant rate repeats after one burst; several repeat together after the least common
//! multiple of their burst periods. Periods are fractions of nanoseconds and stay fractions here, so a
//! round of 14,880,952 frames per second is exact; only its final length is rounded, to 2^-32 ns.

use wirebeat_units::Nanos;

use super::constant::Constant;
use super::flow::FlowSchedule;
use super::{Departure, Period, Shard};
use crate::program::{Departures, Program};
use crate::values::{common_multiple, gcd};

/// The longest round, in departures, that is asked for: what fits the ring of an engine that repeats one.
pub const ROUND_MAX: usize = 4096;

/// The shortest round that the share `shard` of the departures of `flows` repeats, if it has at most
/// `max_frames` departures.
///
/// `None` also where nothing repeats: no whole round before the first flow ends, flows with a rate
/// beside flows without, flows that begin more than one of their own gaps after the first, times or frames
/// that are drawn, and flows that change.
///
/// Round `n` is the first round, `n * length_q32` later. Against the plain schedule a deadline can
/// differ by one nanosecond, because both cut fractions off; frames of different flows that are due
/// within that nanosecond may have changed places.
pub fn period(program: &Program, flows: &[u32], shard: Shard, max_frames: usize) -> Option<Period> {
    let mut flows = flows.to_vec();
    flows.sort_unstable();
    flows.dedup();
    let mut members = Vec::with_capacity(flows.len());
    for flow in flows {
        match Member::of(flow, program, shard) {
            Repeats::Yes(member) => members.push(member),
            Repeats::Nothing => {}
            Repeats::No => return None,
        }
    }
    let length = if members.iter().all(|member| member.gap.is_none()) {
        None
    } else {
        Some(common_round(&members)?)
    };
    // Without a rate all take as many turns.
    let turns =
        members.iter().try_fold(1, |turns, member| common_multiple(turns, member.bursts))?;
    let mut frames = 0_u64;
    for member in &mut members {
        member.bursts = match (length, member.gap) {
            (Some(length), Some(gap)) => length.multiple_of(gap)?.checked_mul(member.bursts)?,
            _ => turns,
        };
        frames = frames.checked_add(member.bursts.checked_mul(member.burst)?)?;
    }
    let rounds = members.iter().map(Member::rounds).min()?;
    if rounds == 0 || usize::try_from(frames).ok()? > max_frames {
        return None;
    }
    let mut round: Vec<Departure> = Vec::with_capacity(frames as usize);
    for member in &members {
        member.append_round(program, shard, &mut round);
    }
    round.sort_unstable_by_key(|departure| (departure.at, departure.flow, departure.index));
    let length_q32 = length.map_or(Some(0), Fraction::to_q32)?;
    Some(Period { round, length_q32, rounds })
}

/// Whether a flow repeats.
enum Repeats {
    /// It does.
    Yes(Member),
    /// It has nothing to send on this core.
    Nothing,
    /// It does not.
    No,
}

/// A flow that has something to send on this core, again and again.
struct Member {
    flow: u32,
    /// Frames of a burst.
    burst: u64,
    /// When its first frame on this core is due.
    first: Nanos,
    /// How long it takes until it repeats, in nanoseconds; `None` without a rate.
    gap: Option<Fraction>,
    /// Bursts of this core until it repeats; then those of one round.
    bursts: u64,
    /// Whole bursts of this core before the flow ends; `u64::MAX` if it does not end.
    available: u64,
}

impl Member {
    fn of(flow: u32, program: &Program, shard: Shard) -> Repeats {
        let Some(first) = FlowSchedule::new(flow, program.numbered_streams(flow), shard) else {
            return Repeats::Nothing;
        };
        let [stream] = program.streams(flow) else { return Repeats::No };
        let departures = &stream.departures;
        let rate = departures.pace.constant();
        let burst = u64::from(departures.burst.max(1));
        let stride = burst * u64::from(shard.cores.max(1));
        // The bursts of this core are `stride` frames apart: how many until their frames are the same again?
        let Some(frames) =
            stream.frames.period().filter(|_| rate.is_some() || !departures.pace.is_limited())
        else {
            return Repeats::No;
        };
        let bursts = frames / gcd(frames.into(), stride.into()).max(1) as u64;
        let gap = rate.map(|rate| {
            let (frames, per) = (rate.frames.max(1), rate.per.get().max(1));
            let bursts = u128::from(stride).saturating_mul(bursts.into());
            Fraction::new(bursts.saturating_mul(per.into()), u128::from(frames))
        });
        let available = own_bursts(whole_bursts(departures, burst), shard);
        Repeats::Yes(Member { flow, burst, first: first.departure().at, gap, bursts, available })
    }

    /// Appends the frames of its first `bursts` bursts.
    fn append_round(&self, program: &Program, shard: Shard, round: &mut Vec<Departure>) {
        let streams = program.numbered_streams(self.flow);
        let Some(mut schedule) = FlowSchedule::new(self.flow, streams, shard) else { return };
        for _ in 0..self.bursts * self.burst {
            round.push(schedule.departure());
            if !schedule.advance() {
                break;
            }
        }
    }

    /// Whole rounds before the flow ends.
    fn rounds(&self) -> u64 {
        match self.available {
            u64::MAX => u64::MAX,
            available => available / self.bursts.max(1),
        }
    }
}

/// Whole bursts of a flow, over all cores, before its stop and within its count.
fn whole_bursts(departures: &Departures, burst: u64) -> u64 {
    let by_count = match departures.count {
        u64::MAX => u64::MAX,
        count => count / burst,
    };
    let by_stop = departures.pace.constant().map_or(u64::MAX, |rate| {
        Constant::new(rate, departures.start, 0, burst).bursts_before(departures.stop.get(), burst)
    });
    by_count.min(by_stop)
}

/// How many of the bursts `0..bursts` belong to this core.
fn own_bursts(bursts: u64, shard: Shard) -> u64 {
    match bursts {
        u64::MAX => u64::MAX,
        bursts => {
            bursts.saturating_sub(u64::from(shard.core)).div_ceil(u64::from(shard.cores.max(1)))
        }
    }
}

/// The least common multiple of the gaps, if every flow has one and none begins too late to be in
/// every round with all its bursts.
fn common_round(members: &[Member]) -> Option<Fraction> {
    let begin = members.iter().map(|member| member.first).min()?;
    let mut length: Option<Fraction> = None;
    for member in members {
        let gap = member.gap?;
        if u128::from(member.first.saturating_sub(begin).get()) >= gap.ceil() {
            return None;
        }
        length = Some(match length {
            Some(length) => length.common_multiple(gap)?,
            None => gap,
        });
    }
    length
}

/// A positive fraction of nanoseconds in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Fraction {
    /// Of two numbers that are not zero.
    fn new(numerator: u128, denominator: u128) -> Self {
        let common = gcd(numerator, denominator);
        Fraction { numerator: numerator / common, denominator: denominator / common }
    }

    fn ceil(self) -> u128 {
        self.numerator.div_ceil(self.denominator)
    }

    /// The least common multiple; `None` when it exceeds the number range.
    fn common_multiple(self, other: Fraction) -> Option<Fraction> {
        let common = gcd(self.numerator, other.numerator);
        Some(Fraction {
            numerator: (self.numerator / common).checked_mul(other.numerator)?,
            denominator: gcd(self.denominator, other.denominator),
        })
    }

    /// How many times `gap` goes into this multiple of it.
    fn multiple_of(self, gap: Fraction) -> Option<u64> {
        // In lowest terms the numerator is a multiple of the gap's, the denominator a divisor of it.
        let times =
            (self.numerator / gap.numerator).checked_mul(gap.denominator / self.denominator)?;
        u64::try_from(times).ok()
    }

    /// In units of 2^-32 ns, rounded; `None` when it is beyond the end of time.
    fn to_q32(self) -> Option<u128> {
        let whole = u64::try_from(self.numerator / self.denominator).ok()?;
        // Denominators are those of rates, so below 2^64.
        let rest = (self.numerator % self.denominator) << 32;
        Some((u128::from(whole) << 32) + (rest + self.denominator / 2) / self.denominator)
    }
}
