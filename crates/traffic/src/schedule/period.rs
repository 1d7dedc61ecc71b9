//! The round that a schedule repeats.
//!
//! A flow at a constant rate repeats after one burst; several repeat together after the least common
//! multiple of their burst periods. Periods are fractions of nanoseconds and stay fractions here, so a
//! round of 14,880,952 frames per second is exact; only its final length is rounded, to 2^-32 ns.

use wirebeat_units::Nanos;

use super::flow::FlowSchedule;
use super::{Departure, Period, Shard};
use crate::program::{Departures, Program};

/// The shortest round that the share `shard` of the departures of `flows` repeats, if it has at most
/// `max_frames` departures.
///
/// `None` also where nothing repeats: no whole round before the first flow ends, flows with a rate
/// beside flows without, and flows that begin more than one of their own gaps after the first.
///
/// Round `n` is the first round, `n * length_q32` later. Against the plain schedule a deadline can
/// differ by one nanosecond, because both cut fractions off; frames of different flows that are due
/// within that nanosecond may have changed places.
pub fn period(program: &Program, flows: &[u32], shard: Shard, max_frames: usize) -> Option<Period> {
    let mut members: Vec<Member> = flows
        .iter()
        .filter_map(|&flow| Member::new(flow, &program.flows.get(flow as usize)?.departures, shard))
        .collect();
    members.sort_unstable_by_key(|member| member.flow);
    members.dedup_by_key(|member| member.flow);
    let length = if members.iter().all(|member| member.gap.is_none()) {
        None
    } else {
        Some(common_round(&members)?)
    };
    let mut frames = 0_u64;
    for member in &mut members {
        if let (Some(length), Some(gap)) = (length, member.gap) {
            member.bursts = length.multiple_of(gap)?;
        }
        frames = frames.checked_add(member.bursts.checked_mul(member.burst)?)?;
    }
    let rounds = members.iter().map(Member::rounds).min()?;
    if rounds == 0 || usize::try_from(frames).ok()? > max_frames {
        return None;
    }
    let mut round: Vec<Departure> = Vec::with_capacity(frames as usize);
    for member in &members {
        member.append_round(shard, &mut round);
    }
    round.sort_unstable_by_key(|departure| (departure.at, departure.flow, departure.index));
    let length_q32 = length.map_or(Some(0), Fraction::to_q32)?;
    Some(Period { round, length_q32, rounds })
}

/// A flow that has something to send on this core.
struct Member {
    flow: u32,
    departures: Departures,
    /// Frames of a burst.
    burst: u64,
    /// When its first frame on this core is due.
    first: Nanos,
    /// From a burst of this core to its next, in nanoseconds; `None` without a rate.
    gap: Option<Fraction>,
    /// Bursts of this core in one round.
    bursts: u64,
    /// Whole bursts of this core before the flow ends; `u64::MAX` if it does not end.
    available: u64,
}

impl Member {
    /// `None` for a flow without a departure on this core.
    fn new(flow: u32, departures: &Departures, shard: Shard) -> Option<Member> {
        let first = FlowSchedule::new(flow, departures, shard)?.departure().at;
        let burst = u64::from(departures.burst.max(1));
        let stride = burst * u64::from(shard.cores.max(1));
        let gap = departures.rate.map(|rate| {
            let (frames, per) = (rate.frames.max(1), rate.per.get().max(1));
            Fraction::new(u128::from(stride) * u128::from(per), u128::from(frames))
        });
        let available = own_bursts(whole_bursts(departures, burst), shard);
        Some(Member { flow, departures: *departures, burst, first, gap, bursts: 1, available })
    }

    /// Appends the frames of its first `bursts` bursts.
    fn append_round(&self, shard: Shard, round: &mut Vec<Departure>) {
        let Some(mut schedule) = FlowSchedule::new(self.flow, &self.departures, shard) else {
            return;
        };
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
    let by_stop = match departures.rate {
        Some(rate) if departures.stop < Nanos::MAX => {
            // Burst b is due before the stop as long as b * burst * per / frames is.
            let span = departures.stop.saturating_sub(departures.start).get();
            let frames = u128::from(span) * u128::from(rate.frames.max(1));
            let bursts = frames.div_ceil(u128::from(rate.per.get().max(1)) * u128::from(burst));
            u64::try_from(bursts).unwrap_or(u64::MAX)
        }
        _ => u64::MAX,
    };
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

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
