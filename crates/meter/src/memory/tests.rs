//! Whole meters that run out of memory: what stays exact, and that the bound holds.

use std::collections::BTreeMap;

use wirebeat_units::Nanos;
use wirebeat_wire::probe::Probe;

use super::*;
use crate::bins::{Bins, MAX_BINS};
use crate::meter::{FLOWS, Flows, Meter, MeterConfig};
use crate::recorder::FlowRecorder;
use crate::sequence::{SequenceTracker, WINDOW};
use crate::summary::{FlowSummary, MeterSummary, Moments};

const MIB: usize = 1 << 20;

/// A probe that arrives.
#[derive(Clone, Copy)]
struct Arrives {
    flow: u16,
    sequence: u32,
    sent: u64,
    at: u64,
}

impl Arrives {
    fn record(self, meter: &mut Meter) {
        let Arrives { flow, sequence, sent, at } = self;
        let probe = Probe { flow, sequence, transmit_ns: sent }.to_bytes();
        meter.record_datagram(Nanos::new(at), &probe, None, 64);
    }
}

/// Pseudo-random numbers (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
}

/// What lies there is what was taken, and no more than there is.
fn check(meter: &Meter, memory: usize) -> usize {
    let (taken, left) = meter.taken_and_left();
    assert!(taken + left <= memory, "{taken} bytes are taken and {left} left of {memory}");
    taken
}

fn all(summary: &MeterSummary) -> FlowSummary {
    let mut all = FlowSummary::default();
    summary.flows.values().for_each(|flow| all.merge(flow));
    summary.shared.complete(&mut all);
    all
}

/// Each flow could take 180 KiB, so 1 GiB was for 5,825 of them, however little they took.
#[test]
fn ten_thousand_small_flows_take_a_fraction_of_the_memory_and_share_nothing() {
    let config = MeterConfig { flows: Flows::Any(FLOWS), ..MeterConfig::default() };
    let mut meter = Meter::new(config);
    let mut random = Random(1);
    for n in 0..20 {
        for flow in 0..10_000 {
            let at = 1_000_000_000 + (u64::from(n) * 10_000 + u64::from(flow)) * 1000;
            let sent = at - 20_000 - random.next() % 30_000;
            Arrives { flow, sequence: n, sent, at }.record(&mut meter);
        }
    }
    let taken = check(&meter, MEMORY);
    println!("10,000 flows of 20 frames take {} KiB", taken / 1024);
    assert!(taken < 256 * MIB, "{} MiB", taken / MIB);
    let summary = meter.into_summary();
    assert_eq!((summary.flows.len(), summary.unknown_flow, summary.shared.flows), (10_000, 0, 0));
    for flow in summary.flows.values() {
        assert_eq!((flow.frames, flow.sequence.window), (20, WINDOW.into()));
        assert!(flow.delay.quantile(0.5).is_some());
    }
}

#[test]
fn the_flows_that_come_first_have_percentiles_and_all_have_exact_moments() {
    const ROOM: usize = 256 * MIB;
    let config = MeterConfig { flows: Flows::Any(FLOWS), ..MeterConfig::default() };
    let mut meter = Meter::within(ROOM, config);
    let mut random = Random(2);
    let mut at = 1_000_000_000_000;
    let mut delays: BTreeMap<u16, Moments> = BTreeMap::new();
    for flow in 0..FLOWS {
        for sequence in 0..8 {
            at += 1000;
            let delay = 1 << (random.next() % 24);
            delays.entry(flow).or_default().record(delay);
            Arrives { flow, sequence, sent: at - delay as u64, at }.record(&mut meter);
        }
    }
    check(&meter, ROOM);
    let summary = meter.into_summary();
    assert_eq!(summary.validate(), Ok(()));
    assert_eq!((summary.flows.len(), summary.unknown_flow), (FLOWS.into(), 0));
    for (id, flow) in &summary.flows {
        assert_eq!(flow.delay.moments, delays[id], "{id}");
        assert_eq!((flow.frames, flow.sequence.unique, flow.sequence.expected()), (8, 8, 8));
        assert_eq!(flow.inter_arrival.moments.mean(), Some(1000.0));
    }
    let own = |flow: &FlowSummary| flow.delay.quantile(0.5).is_some();
    let first = summary.flows.values().take_while(|flow| own(flow)).count();
    assert!((4500..20_000).contains(&first), "{first} have percentiles");
    let last = summary.flows.values().rev().take_while(|flow| !own(flow)).count();
    assert!(last > 40_000, "{last} have none");
    println!("{first} of {FLOWS} flows have percentiles of their own in {} MiB", ROOM / MIB);
    let sharing = summary.flows.values().filter(|flow| flow.delay.missing() > 0).count();
    assert!(summary.shared.flows as usize >= sharing);
    // what is missing in theirs is in that of all
    let all = all(&summary);
    for distribution in [&all.delay, &all.delay_variation, &all.inter_arrival] {
        assert_eq!(distribution.missing(), 0);
        assert!(distribution.quantile(0.5).is_some());
    }
}

#[test]
fn wild_numbers_and_delays_of_all_flows_stay_within_memory() {
    const ROOM: usize = 256 * MIB;
    let config = MeterConfig { flows: Flows::Any(FLOWS), ..MeterConfig::default() };
    let mut meter = Meter::within(ROOM, config);
    let mut random = Random(3);
    let mut highest = vec![0u32; 1 << 16];
    const FRAMES: u64 = 1_200_000;
    for n in 0..FRAMES {
        // each flow at least once; then whatever comes
        let flow = if n < u64::from(FLOWS) { n as u16 } else { random.next() as u16 };
        let at = random.next() >> (random.next() % 48);
        let sent = at.wrapping_sub(random.next() >> (random.next() % 48));
        let highest = &mut highest[usize::from(flow)];
        let sequence = match random.next() % 4 {
            0 => random.next() as u32,
            1 => highest.wrapping_sub(random.next() as u32 % 70_000),
            // as far ahead as makes a window grow and opens a gap
            _ => {
                *highest = highest.wrapping_add(random.next() as u32 % 30_000);
                *highest
            }
        };
        Arrives { flow, sequence, sent, at }.record(&mut meter);
        if n % 200_000 == 0 {
            check(&meter, ROOM);
        }
    }
    let taken = check(&meter, ROOM);
    assert!(taken > ROOM / 2, "{} MiB: that was no test", taken / MIB);
    let summary = meter.into_summary();
    let frames: u64 = summary.flows.values().map(|flow| flow.frames).sum();
    assert_eq!(frames + summary.unknown_flow, FRAMES);
    assert!(summary.shared.flows > 10_000, "{}", summary.shared.flows);
    for flow in summary.flows.values() {
        let sequence = &flow.sequence;
        let known = sequence.unique + sequence.duplicates + sequence.implausible;
        assert_eq!((known, flow.inter_arrival.moments.count), (flow.frames, flow.frames - 1));
        assert!(sequence.window >= 2048, "{}", sequence.window);
    }
    let all = all(&summary);
    let distributions =
        [&all.sequence.extent, &all.delay, &all.delay_variation, &all.inter_arrival];
    assert_eq!(distributions.map(|distribution| distribution.missing()), [0; 4]);
}

#[test]
fn windows_are_smaller_where_memory_is_short_and_loss_stays_exact() {
    const ROOM: usize = 16 * MIB;
    const COUNT: u16 = 2000;
    let config = MeterConfig { flows: Flows::Any(COUNT), ..MeterConfig::default() };
    let mut meter = Meter::within(ROOM, config);
    for flow in 0..COUNT {
        let mut take = |sequence: u32| {
            let sent = 1_000_000_000 + u64::from(sequence) * 100;
            Arrives { flow, sequence, sent, at: sent + 500 }.record(&mut meter);
        };
        // every tenth of 100 numbers is lost, one comes late and one twice; then so with 40,000 numbers between
        for group in 0..3 {
            let first = group * 40_000;
            (0..100).filter(|n| n % 10 != 0 && *n != 55).for_each(|n| take(first + n));
            take(first + 55);
            take(first + 99);
        }
        // the last comes again from far behind: twice, for who cannot know
        take(99);
    }
    check(&meter, ROOM);
    let summary = meter.into_summary();
    let windows: Vec<u64> = summary.flows.values().map(|flow| flow.sequence.window).collect();
    assert_eq!((windows[0], windows[usize::from(COUNT) - 1]), (WINDOW.into(), 2048));
    let grown = windows.iter().filter(|window| **window == u64::from(WINDOW)).count();
    assert!((300..1500).contains(&grown), "{grown} have a window of full size");
    for flow in summary.flows.values() {
        let sequence = &flow.sequence;
        let known = 270;
        assert_eq!(sequence.unique, known + sequence.beyond_window);
        assert_eq!((sequence.beyond_window, sequence.duplicates), (1, 3));
        assert_eq!((sequence.reordered, sequence.expected()), (4, 80_099));
    }
}

#[test]
fn a_late_number_that_a_window_cannot_grow_for_harms_no_other() {
    let mut nothing = Memory::new(0, 0, 0);
    let mut tracker = SequenceTracker::new(WINDOW);
    // 3,000 before the first, on the same word as one that is known
    for number in [6144, 6145, 2048, 6144, 6145] {
        tracker.record(number, Some(Nanos::new(5)), &mut nothing);
    }
    let summary = tracker.summary();
    assert_eq!((summary.unique, summary.duplicates, summary.beyond_window), (3, 2, 1));
    assert_eq!((summary.window, summary.expected()), (2048, 6145 - 2048 + 1));
}

/// Whatever is lost, doubled or held back, and however far: what a starved window counts too much is `beyond_window`.
#[test]
fn a_window_that_cannot_grow_bounds_the_loss() {
    let mut random = Random(4);
    let mut beyond = 0;
    for stride in [1, 7, 100, 600] {
        for _ in 0..50 {
            let mut arrivals: Vec<(u64, u32)> = Vec::new();
            for number in 0..400 {
                // a third is late by up to 60 places, a tenth is lost, a tenth comes twice
                let late = |random: &mut Random| match random.next() % 3 {
                    0 => random.next() % 60,
                    _ => 0,
                };
                let copies = [0, 2, 1, 1, 1, 1, 1, 1, 1, 1][random.next() as usize % 10];
                for _ in 0..copies {
                    arrivals.push((u64::from(number) + late(&mut random), number * stride));
                }
            }
            arrivals.sort_unstable();
            let track = |mut memory: Memory| {
                let mut tracker = SequenceTracker::new(WINDOW);
                for (_, number) in &arrivals {
                    let sent = Nanos::new(1_000_000 + u64::from(*number));
                    tracker.record(*number, Some(sent), &mut memory);
                }
                tracker.summary()
            };
            let (full, starved) = (track(Memory::default()), track(Memory::new(0, 0, 0)));
            assert_eq!((full.beyond_window, full.range), (0, starved.range));
            let most = full.unique + starved.beyond_window;
            assert!((full.unique..=most).contains(&starved.unique), "{full:?} {starved:?}");
            assert_eq!(starved.unique + starved.duplicates, full.unique + full.duplicates);
            assert_eq!((full.implausible, starved.implausible), (0, 0));
            beyond += starved.beyond_window;
        }
    }
    assert!(beyond > 1000, "{beyond}: that was no test");
}

#[test]
fn a_histogram_that_cannot_grow_is_given_up_to_all() {
    let mut memory = Memory::new(400 * 1024, 0, 0);
    let mut recorder = FlowRecorder::default();
    recorder.record(1, Measure::Delay, &mut memory);
    let before = memory.left();
    let mut others: Vec<FlowRecorder> = Vec::new();
    while memory.take_to_grow(1024) {
        others.push(FlowRecorder::default());
    }
    // in the octave that it has, as before
    recorder.record(2, Measure::Delay, &mut memory);
    assert!(recorder.distribution().quantile(0.5).is_some() && !recorder.is_shared());
    recorder.record(1_000_000, Measure::Delay, &mut memory);
    recorder.record(3, Measure::Delay, &mut memory);
    recorder.record(-3, Measure::Delay, &mut memory);
    let distribution = recorder.distribution();
    assert_eq!((distribution.moments.count, distribution.negative), (5, 1));
    assert_eq!((distribution.missing(), distribution.quantile(0.9)), (4, None));
    assert!(memory.left() >= 1024 && memory.left() < before);
    let shared = memory.shared_by(1);
    assert_eq!(shared.delay.iter().map(|(_, count)| count).sum::<u64>(), 4);
    assert!(shared.inter_arrival.is_empty());
}

/// Bins of all flows would take 32 GiB, while they are counted and when the result is made.
#[test]
fn linear_bins_are_those_of_the_flows_that_come_first() {
    const ROOM: usize = 256 * MIB;
    let bins = Bins::new(Nanos::new(1000), MAX_BINS).unwrap();
    let config =
        MeterConfig { flows: Flows::Any(FLOWS), bins: Some(bins), ..MeterConfig::default() };
    let mut meter = Meter::within(ROOM, config);
    for flow in 0..FLOWS {
        // some send one frame, and have no gaps
        for sequence in 0..1 + u32::from(flow % 3) {
            let at = 1_000_000_000 + u64::from(sequence) * 5000;
            Arrives { flow, sequence, sent: at, at }.record(&mut meter);
        }
    }
    check(&meter, ROOM);
    let summary = meter.into_summary();
    let with = summary.flows.values().filter(|flow| flow.inter_arrival_bins.is_some()).count();
    assert!((100..500).contains(&with), "{with}");
    assert_eq!(summary.flows[&2].inter_arrival_bins.as_ref().unwrap().counts[5], 2);
    assert_eq!(summary.flows[&65_000].inter_arrival.moments.count, 2);
    assert_eq!(summary.validate(), Ok(()));
}
