//! That a change from outside gives the same departures as a program that had it from the beginning, on every
//! core.

use proptest::prelude::*;
use wirebeat_units::{FrameRate, Nanos};

use super::tests::{config, stream};
use super::{Departure, Schedule, Shard};
use crate::compile::{Files, Link, Links, compile};
use crate::distribution::draw::{Key, Purpose};
use crate::program::pace::Jittered;
use crate::program::{Departures, Flow, Late, Pace, Program, Stream};
use crate::scenario::Scenario;

/// How long the flows take, in nanoseconds.
const END: u64 = 100_000;

fn paces() -> impl Strategy<Value = Pace> {
    let rate = |gap: u64| FrameRate { frames: 3, per: Nanos::new(3 * gap + 1) };
    prop_oneof![
        (50..20_000_u64).prop_map(move |gap| Pace::Constant(rate(gap))),
        prop::collection::vec(40..9_000_u64, 1..9).prop_map(|gaps| Pace::Trace(gaps.into())),
        (50..20_000_u64).prop_map(move |gap| Pace::Jittered(Jittered {
            rate: rate(gap),
            reach: gap as f64 / 3.0,
            key: Key::new(1, 0, Purpose::Gap),
        })),
        Just(Pace::Silent),
    ]
}

/// What a flow sends, one after the other, to its end.
fn plans() -> impl Strategy<Value = Vec<Departures>> {
    let part = (paces(), 1..5_u32, 0..END);
    let count = prop_oneof![Just(u64::MAX), 0..200_u64];
    (prop::collection::vec(part, 1..5), count).prop_map(|(mut parts, count)| {
        parts.sort_by_key(|part| part.2);
        parts.dedup_by_key(|part| part.2);
        let stops: Vec<u64> = parts.iter().skip(1).map(|part| part.2).chain([END]).collect();
        let part = |((pace, burst, start), stop): ((Pace, u32, u64), u64)| {
            let (start, stop) = (Nanos::new(start), Nanos::new(stop));
            Departures { pace, burst, start, stop, count }
        };
        parts.into_iter().zip(stops).map(part).collect()
    })
}

/// Changes of the flows: which, at what part of the time that is left, how long before that it becomes known, and
/// to what.
type Plan = (usize, u64, u64, Option<(Pace, u32)>);

fn changes() -> impl Strategy<Value = Vec<Plan>> {
    let next = prop::option::weighted(0.8, (paces(), 1..5_u32));
    prop::collection::vec((0..3_usize, 0..1000_u64, 0..30_000_u64, next), 1..5)
}

fn program(plans: &[Vec<(u32, Departures)>]) -> Program {
    let (mut flows, mut streams) = (Vec::new(), Vec::new());
    for (number, plan) in (0_u32..).zip(plans) {
        let first = streams.len() as u32;
        let part = |(_, departures): &(u32, Departures)| Stream {
            flow: number,
            ..stream(departures.clone())
        };
        streams.extend(plan.iter().map(part));
        flows.push(Flow {
            name: String::new(),
            id: number as u16,
            from: "a".to_owned(),
            to: None,
            streams: first..streams.len() as u32,
            late: Late::Send,
            delayed_cores: 0,
            members: 0..0,
            copies: None,
            destinations: Vec::new(),
            endpoint: None,
        });
    }
    Program { seed: 1, flows, streams }
}

/// The same change in the program.
fn apply(plan: &mut Vec<(u32, Departures)>, at: Nanos, next: Option<(u32, Departures)>) {
    plan.retain(|(_, departures)| departures.start < at);
    if let Some((_, last)) = plan.last_mut() {
        last.stop = last.stop.min(at);
    }
    plan.extend(next);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_change_from_outside_is_the_same_as_one_in_the_program(
        plans in prop::collection::vec(plans(), 1..4),
        changes in changes(),
        cores in 1..4_u32,
    ) {
        let numbers = |plans: &[Vec<Departures>]| -> Vec<Vec<(u32, Departures)>> {
            let mut number = 0..;
            let each = |plan: &Vec<Departures>| number.by_ref().zip(plan.iter().cloned()).collect();
            plans.iter().map(each).collect()
        };
        let before = numbers(&plans);
        let (original, flows) = (program(&before), (0..plans.len() as u32).collect::<Vec<_>>());
        let new = original.streams.len() as u32..;

        // Every core takes what is due until it hears of a change, and goes on with it.
        let shards = (0..cores).map(|core| Shard { core, cores });
        let mut schedules: Vec<_> =
            shards.clone().map(|shard| Schedule::new(&original, &flows, shard)).collect();
        let mut taken: Vec<Vec<Departure>> = vec![Vec::new(); cores as usize];
        let (mut after, mut now) = (before, 0);
        for (number, (flow, part, ahead, next)) in new.zip(changes) {
            let at = now + (END - now) * part / 1000;
            let flow = flow % plans.len();
            let next = next.map(|(pace, burst)| {
                let count = plans[flow].first().map_or(u64::MAX, |part| part.count);
                let (start, stop) = (Nanos::new(at), Nanos::new(END));
                (number, Departures { pace, burst, start, stop, count })
            });
            for (core, (schedule, taken)) in schedules.iter_mut().zip(&mut taken).enumerate() {
                // The cores are not equally far.
                let known = at.saturating_sub(ahead * (1 + core as u64)).max(now);
                if known > 0 && known <= at {
                    schedule.next_due(Nanos::new(known.min(at) - 1), taken, usize::MAX);
                }
                schedule.change(flow as u32, Nanos::new(at), next.clone());
            }
            apply(&mut after[flow], Nanos::new(at), next);
            now = at;
        }
        for ((mut schedule, mut taken), shard) in schedules.into_iter().zip(taken).zip(shards) {
            schedule.next_batch(&mut taken, usize::MAX);
            let expected = program(&after);
            let number = |departure: Departure| Departure {
                // Where the program has the streams one after the other, here they have their own numbers.
                stream: {
                    let streams = &after[departure.flow as usize];
                    let first = expected.flows[departure.flow as usize].streams.start;
                    streams[(departure.stream - first) as usize].0
                },
                ..departure
            };
            let expected: Vec<_> = Schedule::new(&expected, &flows, shard).map(number).collect();
            prop_assert_eq!(taken, expected);
        }
    }
}

fn one(pace: Pace) -> Program {
    let departures =
        Departures { pace, burst: 1, start: Nanos::ZERO, stop: Nanos::new(END), count: u64::MAX };
    program(&[vec![(0, departures)]])
}

fn from(at: u64, pace: Pace) -> Departures {
    let (start, stop) = (Nanos::new(at), Nanos::new(END));
    Departures { pace, burst: 1, start, stop, count: u64::MAX }
}

#[test]
fn a_long_walk_on_several_cores_is_counted_from_its_last_mark() {
    let gaps: std::sync::Arc<[u64]> = [1, 2, 3].into();
    let original = one(Pace::Trace(gaps));
    let rate = Pace::Constant(FrameRate { frames: 1, per: Nanos::new(10) });
    for core in 0..2 {
        let shard = Shard { core, cores: 2 };
        let mut schedule = Schedule::new(&original, &[0], shard);
        let mut taken = Vec::new();
        schedule.next_due(Nanos::new(60_002), &mut taken, usize::MAX);
        schedule.change(0, Nanos::new(60_003), Some((1, from(60_003, rate.clone()))));
        let next = schedule.peek().unwrap();
        // Three frames in every six nanoseconds: at 60,000 and 60,001 there are two more.
        assert_eq!(next.index, 30_002 + u64::from(core));
        assert_eq!((next.at.get(), next.stream), (60_003 + 10 * u64::from(core), 1));
    }
}

/// Gaps of nearly nothing, at 1 Mpps on average.
fn clumps() -> Pace {
    let text = "ports: { a: {} }\nflows: { x: { from: a, to: a, rate: 1Mpps, departures: { gamma: { shape: 0.01 } } } }";
    let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
    let scenario = Scenario::from_yaml(text, "").unwrap();
    compile(&scenario, &links, &Files::default()).unwrap().streams[0].departures.pace.clone()
}

/// They were counted on to the change, though the flow had none left: a million million steps here.
#[test]
fn bursts_behind_the_last_frame_are_not_walked_over() {
    const COUNT: u64 = 1001;
    let at = Nanos::from_secs(1_000_000);
    let departures =
        Departures { pace: clumps(), burst: 2, start: Nanos::ZERO, stop: Nanos::MAX, count: COUNT };
    let original = program(&[vec![(0, departures.clone())]]);
    let mut sent = 0;
    for core in 0..3 {
        let mut schedule = Schedule::new(&original, &[0], Shard { core, cores: 3 });
        let mut taken = Vec::new();
        schedule.next_due(at, &mut taken, usize::MAX);
        sent += taken.len() as u64;
        let more = Departures { start: at, count: COUNT + 7, ..departures.clone() };
        schedule.change(0, at, Some((1, more)));
        // the last burst had one frame instead of two, whose number is not given again
        let rest: Vec<u64> = schedule.map(|departure| departure.index).collect();
        assert_eq!(rest, [[1002, 1003], [1004, 1005], [1006, 1007]][core as usize]);
    }
    assert_eq!(sent, COUNT);
}

#[test]
fn clumps_of_frames_at_one_time_are_counted_as_in_a_program_with_the_change() {
    let at = Nanos::from_millis(20);
    let plan = Departures { pace: clumps(), ..from(0, clumps()) };
    let plan = Departures { stop: Nanos::from_secs(1), ..plan };
    let next = Departures { start: at, stop: Nanos::from_millis(21), ..plan.clone() };
    let mut after = vec![(0, plan.clone())];
    apply(&mut after, at, Some((1, next.clone())));
    let (original, expected) = (program(&[vec![(0, plan)]]), program(&[after]));
    for core in 0..4 {
        let shard = Shard { core, cores: 4 };
        let mut schedule = Schedule::new(&original, &[0], shard);
        let mut taken = Vec::new();
        schedule.next_due(Nanos::new(at.get() - 1), &mut taken, usize::MAX);
        schedule.change(0, at, Some((1, next.clone())));
        schedule.next_batch(&mut taken, usize::MAX);
        let expected: Vec<_> = Schedule::new(&expected, &[0], shard).collect();
        assert!(taken == expected && taken.len() > 1000, "{core}: {}", taken.len());
    }
}

#[test]
fn a_flow_that_pauses_to_its_end_waits_for_a_change_and_one_that_is_stopped_does_not() {
    let rate = Pace::Constant(FrameRate { frames: 1, per: Nanos::new(1000) });
    let mut schedule = Schedule::new(&one(rate.clone()), &[0], Shard::WHOLE);
    assert_eq!(schedule.pauses_until(), None);
    schedule.change(0, Nanos::new(500), Some((1, from(500, Pace::Silent))));
    assert_eq!(schedule.next().map(|departure| departure.at), Some(Nanos::ZERO));
    assert_eq!((schedule.peek(), schedule.pauses_until()), (None, Some(Nanos::new(END))));
    schedule.change(0, Nanos::new(2000), Some((2, from(2000, rate))));
    let next = schedule.next().unwrap();
    assert_eq!((next.at.get(), next.index, next.stream), (2000, 1, 2));
    schedule.change(0, Nanos::new(2500), None);
    assert_eq!((schedule.peek(), schedule.pauses_until()), (None, None));
}

#[test]
fn a_flow_without_a_rate_can_only_end() {
    let mut schedule = Schedule::new(&one(Pace::Unlimited), &[0], Shard::WHOLE);
    assert!(schedule.next().is_some());
    schedule.change(0, Nanos::new(500), None);
    assert_eq!((schedule.peek(), schedule.pauses_until()), (None, None));
}

#[test]
fn a_change_of_a_flow_of_another_port_does_nothing() {
    let rate = Pace::Constant(FrameRate { frames: 1, per: Nanos::new(1000) });
    let mut schedule = Schedule::new(&one(rate.clone()), &[0], Shard::WHOLE);
    schedule.change(7, Nanos::new(500), Some((1, from(500, rate))));
    assert_eq!(schedule.count(), 100);
}
