//! Properties that hold the schedule against a plain model: every flow's frames by division, sorted.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use wirebeat_units::{FrameRate, Nanos};

use super::{Departure, Schedule, Shard, period};
use crate::program::{Departures, Flow, Frames, Late, Pace, Program, Stream};

/// Many cases, the same in every run.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(2),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Rates as people write them, and odd ones.
fn rates() -> impl Strategy<Value = FrameRate> {
    let second = Nanos::from_secs(1);
    prop_oneof![
        (1..2000_u64).prop_map(move |kpps| FrameRate { frames: kpps * 1000, per: second }),
        (1_000_000..20_000_000_u64).prop_map(move |frames| FrameRate { frames, per: second }),
        (1..50_u64, 1..100_000_u64)
            .prop_map(|(frames, per)| FrameRate { frames, per: Nanos::new(per) }),
    ]
}

/// Departures of a flow with a rate that ends after some hundred frames, one way or the other.
pub(super) fn departures() -> impl Strategy<Value = Departures> {
    let burst = prop_oneof![Just(1_u32), 1..20_u32];
    let limit = prop_oneof![Just(None), (0..400_u64).prop_map(Some)];
    (rates(), burst, 0..5_000_u64, 1..300_u64, limit).prop_map(
        |(rate, burst, start, frames, count)| {
            let start = Nanos::new(start);
            let stop = start.saturating_add(rate.deadline(frames)).saturating_add(Nanos::new(1));
            let count = count.unwrap_or(u64::MAX);
            Departures { pace: Pace::Constant(rate), burst, start, stop, count }
        },
    )
}

/// A stream of the shortest frames.
pub(super) fn stream(departures: Departures) -> Stream {
    Stream { flow: 0, frames: Frames::constant(Vec::new()).into(), departures }
}

/// A flow with a stream for each of the departures.
fn program_of(departures: Vec<Departures>) -> Program {
    let flow = |(number, _): (u32, _)| Flow {
        name: String::new(),
        id: number as u16,
        from: "a".to_owned(),
        to: None,
        streams: number..number + 1,
        late: Late::Send,
        delayed_cores: 0,
        members: 0..0,
        copies: None,
        destinations: Vec::new(),
        endpoint: None,
    };
    let flows = (0..).zip(&departures).map(flow).collect();
    let numbered = (0..).zip(departures);
    let streams = numbered.map(|(flow, departures)| Stream { flow, ..stream(departures) });
    Program { seed: 1, flows, streams: streams.collect() }
}

/// Departures of flows that share a port.
fn programs() -> impl Strategy<Value = Program> {
    prop::collection::vec(departures(), 1..8).prop_map(program_of)
}

/// Flows whose rates have a common measure, each beginning within its first gap, so that they repeat
/// soon together.
fn repeating_programs() -> impl Strategy<Value = Program> {
    let flow = (1..7_u64, 1..4_u32, 0..100_u64, prop::option::of(0..400_u64));
    (rates(), prop::collection::vec(flow, 1..5), 1..300_u64).prop_map(|(base, flows, frames)| {
        let departures = |(times, burst, phase, count): (u64, u32, u64, Option<u64>)| {
            let rate = FrameRate { frames: base.frames * times, per: base.per };
            let gap = rate.deadline(u64::from(burst)).get();
            let stop = base.deadline(frames).saturating_add(Nanos::new(1));
            let start = Nanos::new((gap * phase / 100).min(gap.saturating_sub(1)));
            let count = count.unwrap_or(u64::MAX);
            Departures { pace: Pace::Constant(rate), burst, start, stop, count }
        };
        program_of(flows.into_iter().map(departures).collect())
    })
}

fn all_of(program: &Program) -> Vec<u32> {
    (0..program.flows.len() as u32).collect()
}

/// Every frame of the program by division, in order.
fn model(program: &Program) -> Vec<Departure> {
    let mut all = Vec::new();
    for (flow, Stream { departures, .. }) in (0..).zip(&program.streams) {
        let rate = departures.pace.constant().unwrap();
        for index in 0..departures.count {
            let burst = u64::from(departures.burst);
            let at = departures.start.saturating_add(rate.deadline(index / burst * burst));
            if at >= departures.stop {
                break;
            }
            all.push(Departure { at, flow, stream: flow, index, tag: flow, part: 0 });
        }
    }
    all.sort_by_key(|d| (d.at, d.flow, d.index));
    all
}

fn shard_of(departure: &Departure, program: &Program, cores: u32) -> u32 {
    let burst = u64::from(program.streams[departure.stream as usize].departures.burst);
    (departure.index / burst % u64::from(cores)) as u32
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn flows_leave_in_the_order_of_their_deadlines(program in programs()) {
        let schedule: Vec<_> = Schedule::new(&program, &all_of(&program), Shard::WHOLE).collect();
        prop_assert_eq!(schedule, model(&program));
    }

    #[test]
    fn shards_are_disjoint_complete_and_in_order(program in programs(), cores in 1..5_u32) {
        let whole = model(&program);
        for core in 0..cores {
            let shard = Shard { core, cores };
            let part: Vec<_> = Schedule::new(&program, &all_of(&program), shard).collect();
            let expected: Vec<_> =
                whole.iter().copied().filter(|d| shard_of(d, &program, cores) == core).collect();
            prop_assert_eq!(part, expected);
        }
    }

    #[test]
    fn batches_of_any_size_give_the_same_stream(program in programs(), size in 1..40_usize) {
        let flows = all_of(&program);
        let mut schedule = Schedule::new(&program, &flows, Shard::WHOLE);
        let mut out = Vec::new();
        loop {
            let next = schedule.peek();
            let before = out.len();
            let got = schedule.next_batch(&mut out, size);
            prop_assert_eq!(got, out.len() - before);
            prop_assert!(got <= size);
            prop_assert_eq!(next, out.get(before).copied());
            if got == 0 {
                break;
            }
        }
        prop_assert_eq!(out, model(&program));
    }

    #[test]
    fn nothing_leaves_before_it_is_due(program in programs(), until in 0..200_000_u64) {
        let until = Nanos::new(until);
        let mut schedule = Schedule::new(&program, &all_of(&program), Shard::WHOLE);
        let mut out = Vec::new();
        schedule.next_due(until, &mut out, usize::MAX);
        let expected: Vec<_> = model(&program).into_iter().filter(|d| d.at <= until).collect();
        prop_assert_eq!(out, expected);
        prop_assert!(schedule.peek().is_none_or(|d| d.at > until));
    }

    #[test]
    fn rounds_of_the_period_and_what_follows_are_the_plain_schedule(
        program in repeating_programs(),
        cores in 1..3_u32,
        use_rounds in 0..20_u64,
    ) {
        let flows = all_of(&program);
        let shard = Shard { core: cores - 1, cores };
        let period = period(&program, &flows, shard, 100_000);
        prop_assume!(period.is_some());
        let period = period.unwrap();
        let rounds = period.rounds.min(use_rounds);
        let mut replayed = Vec::new();
        for round in 0..rounds {
            let shift = ((u128::from(round) * period.length_q32) >> 32) as u64;
            for departure in &period.round {
                let at = departure.at.saturating_add(Nanos::new(shift));
                replayed.push((departure.flow, at));
            }
        }
        let rest = Schedule::after_rounds(&program, &flows, shard, &period, rounds);
        replayed.extend(rest.map(|d| (d.flow, d.at)));

        let plain: Vec<_> =
            Schedule::new(&program, &flows, shard).map(|d| (d.flow, d.at)).collect();
        prop_assert_eq!(plain.len(), replayed.len());
        for (expected, got) in plain.iter().zip(&replayed) {
            prop_assert!(expected.1.signed_sub(got.1).abs() <= 1, "{expected:?} {got:?}");
        }
        for flow in flows {
            let of_flow = |all: &[(u32, Nanos)]| -> Vec<Nanos> {
                all.iter().filter(|d| d.0 == flow).map(|d| d.1).collect()
            };
            for (expected, got) in of_flow(&plain).into_iter().zip(of_flow(&replayed)) {
                prop_assert!(expected.signed_sub(got).abs() <= 1);
            }
        }
    }
}

fn pps(frames: u64) -> Departures {
    Departures {
        pace: Pace::Constant(FrameRate { frames, per: Nanos::from_secs(1) }),
        burst: 1,
        start: Nanos::ZERO,
        stop: Nanos::MAX,
        count: u64::MAX,
    }
}

#[test]
fn ten_thousand_flows_stay_in_order() {
    let program = program_of(
        (0..10_000).map(|i| Departures { start: Nanos::new(i * 7), ..pps(50 + i % 100) }).collect(),
    );
    let mut schedule = Schedule::new(&program, &all_of(&program), Shard::WHOLE);
    let mut out = Vec::new();
    schedule.next_batch(&mut out, 100_000);
    assert_eq!(out.len(), 100_000);
    assert!(out.is_sorted_by_key(|d| (d.at, d.flow)));
}

#[test]
fn flows_without_a_rate_take_turns_by_bursts_on_every_core() {
    let unlimited = Departures { pace: Pace::Unlimited, count: 5, ..pps(1) };
    let program = program_of(vec![unlimited.clone(), Departures { burst: 2, ..unlimited }]);
    let frames = |shard| -> Vec<(u32, u64)> {
        Schedule::new(&program, &[0, 1], shard).map(|d| (d.flow, d.index)).collect()
    };
    assert_eq!(
        frames(Shard::WHOLE),
        [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (1, 3), (0, 2), (1, 4), (0, 3), (0, 4)]
    );
    assert_eq!(
        frames(Shard { core: 0, cores: 2 }),
        [(0, 0), (1, 0), (1, 1), (0, 2), (1, 4), (0, 4)]
    );
    assert_eq!(frames(Shard { core: 1, cores: 2 }), [(0, 1), (1, 2), (1, 3), (0, 3)]);
}

#[test]
fn unknown_and_repeated_flows_are_passed_over() {
    let program = program_of(vec![Departures { count: 2, ..pps(1000) }]);
    let schedule = Schedule::new(&program, &[0, 9, 0], Shard::WHOLE);
    assert_eq!(schedule.count(), 2);
    assert_eq!(Schedule::new(&program, &[], Shard::WHOLE).peek(), None);
}

#[test]
fn the_round_of_one_flow_is_one_burst_and_does_not_drift() {
    let program = program_of(vec![Departures { burst: 4, ..pps(14_880_952) }]);
    let found = period(&program, &[0], Shard::WHOLE, 64).unwrap();
    assert_eq!(found.round.len(), 4);
    assert_eq!(found.rounds, u64::MAX);
    let exact = 4e9 / 14_880_952.0;
    let length = found.length_q32 as f64 / (1_u64 << 32) as f64;
    assert!((length / exact - 1.0).abs() < 1e-11, "{length} {exact}");

    // Four minutes later the rounds are still where the division puts them.
    let rounds = 1_000_000_000;
    let rest = Schedule::after_rounds(&program, &[0], Shard::WHOLE, &found, rounds);
    let at = ((u128::from(rounds) * found.length_q32) >> 32) as u64;
    let next = rest.peek().unwrap();
    assert_eq!(next.index, 4 * rounds);
    assert!(next.at.signed_sub(Nanos::new(at)).abs() <= 1);
}

#[test]
fn the_round_of_two_flows_is_their_least_common_multiple() {
    let program = program_of(vec![pps(1000), Departures { start: Nanos::new(5), ..pps(1500) }]);
    let found = period(&program, &[1, 0], Shard::WHOLE, 64).unwrap();
    assert_eq!(found.length_q32 >> 32, 2_000_000);
    assert_eq!(found.round.iter().map(|d| d.flow).collect::<Vec<_>>(), [0, 1, 1, 0, 1]);
    assert_eq!(period(&program, &[0, 1], Shard::WHOLE, 4), None, "five departures are too many");
}

#[test]
fn the_first_flow_that_ends_ends_the_rounds() {
    let by_count = Departures { count: 7, ..pps(1000) };
    let by_stop = Departures { stop: Nanos::from_millis(5), ..pps(2000) };
    let rounds = |flows| period(&program_of(flows), &[0, 1], Shard::WHOLE, 64).unwrap().rounds;
    assert_eq!(rounds(vec![by_count.clone(), pps(2000)]), 7);
    assert_eq!(rounds(vec![by_count.clone(), by_stop]), 5);
    assert_eq!(rounds(vec![pps(1000), pps(2000)]), u64::MAX);
}

#[test]
fn flows_without_a_rate_repeat_one_burst_each() {
    let unlimited = Departures { pace: Pace::Unlimited, ..pps(1) };
    let program =
        program_of(vec![unlimited.clone(), Departures { burst: 2, count: 9, ..unlimited }]);
    let found = period(&program, &[0, 1], Shard::WHOLE, 3).unwrap();
    assert_eq!(
        found.round.iter().map(|d| (d.flow, d.index)).collect::<Vec<_>>(),
        [(0, 0), (1, 0), (1, 1)]
    );
    assert_eq!((found.length_q32, found.rounds), (0, 4));
    let rest: Vec<_> =
        Schedule::after_rounds(&program, &[0, 1], Shard::WHOLE, &found, 4).take(3).collect();
    assert_eq!(
        rest.iter().map(|d| (d.flow, d.index)).collect::<Vec<_>>(),
        [(0, 4), (1, 8), (0, 5)]
    );
}

#[test]
fn what_does_not_repeat_has_no_period() {
    let none = |flows: Vec<Departures>| {
        let program = program_of(flows);
        assert_eq!(period(&program, &all_of(&program), Shard::WHOLE, 1 << 20), None);
    };
    none(vec![]);
    none(vec![Departures { count: 3, burst: 4, ..pps(1000) }]);
    none(vec![pps(1000), Departures { start: Nanos::from_secs(2), ..pps(1000) }]);
    none(vec![pps(1000), Departures { pace: Pace::Unlimited, ..pps(1) }]);
    none(vec![pps(999_983), pps(1_000_003)]);
}
