//! Whole arrivals through a tracker, against the definitions and by example.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::testing::config;

impl SequenceTracker {
    /// With memory to spare.
    fn take(&mut self, wire: u32, sent: Option<Nanos>) -> SequenceStanding {
        self.record(wire, sent, &mut Memory::default())
    }
}

fn track(window: u32, arrivals: impl IntoIterator<Item = u32>) -> SequenceSummary {
    let mut tracker = SequenceTracker::new(window);
    for wire in arrivals {
        tracker.take(wire, None);
    }
    tracker.summary()
}

/// What the definitions say, with unbounded memory for numbers and `GAPS` gaps.
#[derive(Debug, Default)]
struct Reference {
    firsts: Vec<u64>,
    duplicates: u64,
    reordered: u64,
    extents: Vec<u64>,
}

impl Reference {
    fn of(numbers: &[u64]) -> Self {
        let mut model = Reference::default();
        let mut seen = BTreeSet::new();
        let mut openers: Vec<usize> = Vec::new();
        for &number in numbers {
            if !seen.insert(number) {
                model.duplicates += 1;
                continue;
            }
            let here = model.firsts.len();
            // RFC 4737 §4.2: e = i - j for the smallest j with s[j] > s[i].
            match model.firsts.iter().position(|&earlier| earlier > number) {
                Some(opener) => {
                    model.reordered += 1;
                    if openers.iter().rev().take(GAPS).any(|&known| known == opener) {
                        model.extents.push((here - opener) as u64);
                    }
                }
                None if model.firsts.iter().max().is_none_or(|&max| number > max + 1) => {
                    openers.push(here);
                }
                None => (),
            }
            model.firsts.push(number);
        }
        model
    }

    fn assert_equals(&self, found: &SequenceSummary) {
        assert_eq!(found.unique, self.firsts.len() as u64);
        assert_eq!(found.duplicates, self.duplicates);
        assert_eq!(found.reordered, self.reordered);
        let extent = found.extent.moments;
        assert_eq!(extent.count, self.extents.len() as u64);
        assert_eq!(extent.sum, self.extents.iter().map(|&e| i128::from(e)).sum());
        assert_eq!(extent.max, self.extents.iter().max().map_or(0, |&e| e as i64));
        assert_eq!((found.beyond_window, found.implausible, found.restarts), (0, 0, 0));
        let (lowest, highest) = found.range.unwrap();
        assert_eq!(
            highest - lowest,
            self.firsts.iter().max().unwrap() - self.firsts.iter().min().unwrap()
        );
    }
}

/// A stream as a bad network delivers it: each frame is lost, doubled or held back for up to
/// `delay` places.
fn bad_network(frames: u64, delay: u64) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0..20u8, 0..delay, 0..delay), 1..frames as usize).prop_map(|fates| {
        let mut arrivals = Vec::new();
        for (number, (fate, first, second)) in (1u64..).zip(fates) {
            let late = |by: u64| if fate % 4 == 0 { number + by } else { number };
            if fate != 1 {
                arrivals.push((late(first), number));
            }
            if fate == 2 {
                arrivals.push((number + second, number));
            }
        }
        arrivals.push((0, 0));
        arrivals.sort();
        arrivals.into_iter().map(|(_, number)| number).collect()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn counts_are_those_of_the_definitions(
        numbers in bad_network(400, 24),
        first in prop_oneof![Just(0u32), Just(u32::MAX - 100), any::<u32>()],
    ) {
        let wire = numbers.iter().map(|&number| first.wrapping_add(number as u32));
        Reference::of(&numbers).assert_equals(&track(64, wire));
    }

    #[test]
    fn extents_are_known_as_far_as_the_gaps_reach(numbers in bad_network(600, 200)) {
        let wire = numbers.iter().map(|&number| number as u32);
        Reference::of(&numbers).assert_equals(&track(1024, wire));
    }

    #[test]
    fn every_arrival_counts_once_whatever_arrives(
        arrivals in prop::collection::vec(
            (
                prop_oneof![any::<u32>(), 0..300u32, Just(u32::MAX)],
                prop::option::of(prop_oneof![any::<u64>(), 0..2_000_000_000u64]),
            ),
            0..300,
        ),
    ) {
        let mut tracker = SequenceTracker::new(64);
        for (count, &(wire, sent)) in (1..).zip(&arrivals) {
            tracker.take(wire, sent.map(Nanos::new));
            let summary = tracker.summary();
            prop_assert_eq!(summary.unique + summary.duplicates + summary.implausible, count);
            prop_assert!(summary.reordered >= summary.extent.moments.count);
            prop_assert!(summary.reordered >= summary.beyond_window);
        }
    }

    #[test]
    fn one_forged_arrival_changes_no_other_count(
        at in 1..2000usize,
        forged in any::<u32>(),
        sent in prop::option::of(any::<u64>()),
    ) {
        let distance = (forged.wrapping_sub(at as u32)) as i32;
        prop_assume!(distance > 4096 || sent.is_some() && distance < -4096);
        let mut tracker = SequenceTracker::new(1024);
        for number in 0..2000u32 {
            if number as usize == at {
                tracker.take(forged, sent.map(Nanos::new));
            }
            tracker.take(number, Some(Nanos::new(u64::from(number))));
        }
        let summary = tracker.summary();
        // A number behind is either forged or, sent before the highest, very late.
        prop_assert_eq!(summary.unique + summary.implausible, 2001);
        prop_assert_eq!(summary.unique, 2000 + summary.beyond_window);
        prop_assert_eq!((summary.duplicates, summary.restarts), (0, 0));
        prop_assert_eq!(summary.range.unwrap().1, BASE + 1999);
    }
}

#[test]
fn a_stream_in_order_is_all_new() {
    let summary = track(WINDOW, 0..200_000);
    assert_eq!(summary.unique, 200_000);
    assert_eq!((summary.duplicates, summary.reordered, summary.implausible), (0, 0, 0));
    assert_eq!(summary.range, Some((BASE, BASE + 199_999)));
}

#[test]
fn numbers_wrap_at_32_bits() {
    let summary = track(64, (0..100).map(|i: u32| (u32::MAX - 49).wrapping_add(i)));
    assert_eq!((summary.unique, summary.reordered), (100, 0));
    let (lowest, highest) = summary.range.unwrap();
    assert_eq!(highest - lowest + 1, 100);
}

#[test]
fn numbers_before_the_first_arrival_have_an_extent() {
    // The wrap lies between them, so the first arrival is not the lowest.
    let summary = track(64, [1, 0, u32::MAX, 2]);
    assert_eq!((summary.unique, summary.reordered), (4, 2));
    assert_eq!(summary.extent.moments.sum, 1 + 2);
    assert_eq!(summary.range, Some((BASE - 1, BASE + 2)));
}

#[test]
fn a_loss_longer_than_the_window_is_believed_with_the_second_arrival() {
    let mut tracker = SequenceTracker::new(64);
    (0..100).for_each(|wire| assert_eq!(tracker.take(wire, None), SequenceStanding::New));
    assert_eq!(tracker.take(10_000, None), SequenceStanding::Held);
    assert_eq!(tracker.summary().implausible, 1);
    assert_eq!(tracker.take(10_003, None), SequenceStanding::New);
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.implausible, summary.reordered), (102, 0, 0));
    assert_eq!(summary.range, Some((BASE, BASE + 10_003)));
}

#[test]
fn two_reordered_arrivals_after_a_long_loss_are_believed() {
    let summary = track(64, (0..100).chain([10_001, 10_000, 10_002]));
    assert_eq!((summary.unique, summary.reordered, summary.implausible), (103, 1, 0));
}

#[test]
fn the_same_forged_number_twice_is_not_believed() {
    let summary = track(64, (0..100).chain([9_000, 9_000]).chain(100..200));
    assert_eq!((summary.unique, summary.implausible), (200, 2));
}

#[test]
fn a_restarted_sender_is_counted_on() {
    let mut tracker = SequenceTracker::new(64);
    for wire in (0..1000).chain(0..500) {
        tracker.take(wire, None);
    }
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.duplicates, summary.restarts), (1500, 0, 1));
    assert_eq!(summary.range, Some((BASE, BASE + 1499)));
}

#[test]
fn a_restart_within_the_window_shows_in_the_transmit_times() {
    let mut tracker = SequenceTracker::default();
    for run in 0..3u64 {
        for wire in 0..1000 {
            let sent = Nanos::new(run * 1_000_000_000 + u64::from(wire));
            tracker.take(wire, Some(sent));
        }
    }
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.duplicates, summary.restarts), (3000, 0, 2));
    assert_eq!(summary.reordered, 0);
}

#[test]
fn frames_lost_at_the_start_of_a_new_run_are_missing_from_the_range() {
    let mut tracker = SequenceTracker::new(64);
    for wire in (0..1000).chain(200..300) {
        tracker.take(wire, None);
    }
    let summary = tracker.summary();
    let (lowest, highest) = summary.range.unwrap();
    assert_eq!(highest - lowest + 1 - summary.unique, 200);
}

#[test]
fn very_late_frames_are_no_restart() {
    let mut tracker = SequenceTracker::new(64);
    for wire in (0..10).chain(20..1000).chain(10..20).chain(1000..1100) {
        tracker.take(wire, Some(Nanos::new(u64::from(wire))));
    }
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.duplicates, summary.restarts), (1100, 0, 0));
    assert_eq!((summary.reordered, summary.beyond_window), (10, 10));
    assert_eq!(summary.extent.moments.count, 0);
}

#[test]
fn a_transmit_core_that_falls_behind_the_others_loses_nothing() {
    // Two cores send every second number in batches, one of them at half the speed.
    let mut tracker = SequenceTracker::new(64);
    let mut time = 0;
    for round in 0..1000u32 {
        for fast in 0..8 {
            time += 1;
            tracker.take(2 * (8 * round + fast), Some(Nanos::new(time)));
        }
        for slow in 0..4 {
            time += 1;
            tracker.take(2 * (4 * round + slow) + 1, Some(Nanos::new(time)));
        }
    }
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.duplicates, summary.restarts), (12_000, 0, 0));
    assert_eq!((summary.implausible, summary.reordered), (0, 4_000));
}

#[test]
fn one_frame_behind_the_window_counts_as_late_where_times_are_not_known() {
    let summary = track(64, (0..10).chain(11..1000).chain([10]).chain(1000..1100));
    assert_eq!((summary.unique, summary.beyond_window, summary.reordered), (1100, 1, 1));
}

#[test]
fn every_second_number_of_a_sprayed_flow_is_in_order() {
    let summary = track(64, (0..1000).map(|i| 2 * i));
    assert_eq!((summary.unique, summary.reordered, summary.implausible), (1000, 0, 0));
}

#[test]
fn a_window_of_any_size_is_made_to_fit() {
    for numbers in [0, 1, 100, 1 << 16] {
        let summary = track(numbers, 0..50);
        assert_eq!(summary.unique, 50);
    }
    assert_eq!(Window::new(u32::MAX).numbers(), 1 << 30);
}

/// Two senders with one flow number were 1,000 duplicates, and nothing said why.
#[test]
fn duplicates_of_a_second_sender_are_no_copies() {
    let at = |ns: u32| Some(Nanos::new(u64::from(ns)));
    // one began 300 numbers before the other, or both at once; or one stopped and began again at once
    for (ahead, both) in [(300, 700), (0, 1000)] {
        let mut tracker = SequenceTracker::default();
        for wire in 0..1000 {
            tracker.take(wire, at(100 * wire));
            if wire >= ahead {
                tracker.take(wire - ahead, at(100 * wire + 50));
            }
        }
        let summary = tracker.summary();
        assert_eq!((summary.unique, summary.duplicates, summary.conflicting), (1000, both, both));
    }
    // copies, some of which arrive late
    let mut tracker = SequenceTracker::default();
    for wire in 0..1000 {
        tracker.take(wire, at(100 * wire));
        tracker.take(wire, at(100 * wire));
        let late = wire.saturating_sub(70);
        tracker.take(late, at(100 * late));
    }
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.duplicates, summary.conflicting), (1000, 2000, 0));
    // who does not know when a frame was sent cannot say
    let summary = track(64, (0..50).chain(0..50));
    assert_eq!(summary.conflicting, 0);
}
