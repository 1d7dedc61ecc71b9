//! Windows of sequence numbers in the kernel that grow: what comes far behind the highest number is told from duplicates.

use wirebeat_meter::meter::MeterConfig;
use wirebeat_meter::summary::{Distribution, SequenceSummary};
use wirebeat_testbed::{Capability, require};

use crate::kernel_meter::{both, expecting, probe};
use crate::world::cable;

/// The most numbers that a window has at first, and how many times as many it may get.
const WINDOW: u32 = 65_536;
const GROWTH: u32 = 16;

/// What the kernel says of these numbers of the last of so many flows, with one receiving CPU and as with several.
fn judged(flows: u16, numbers: &[u32]) -> [SequenceSummary; 2] {
    let bed = cable();
    let flow = flows - 1;
    let at = |n: u64| 1_000_000_000 + n * 1000;
    let frames: Vec<_> =
        numbers.iter().zip(0u64..).map(|(number, n)| probe(flow, *number, at(n))).collect();
    [false, true].map(|several_queues| {
        let (kernel, _) = both(&bed, &frames, expecting(flows), several_queues);
        assert_eq!(kernel.validate(), Ok(()));
        kernel.flows[&flow].sequence.clone()
    })
}

/// A duplicate from further behind than the window counted as unique, so that the loss had an upper bound alone.
#[test]
fn duplicates_from_far_behind_are_known_once_a_window_has_grown() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    for (flows, window) in [(1, WINDOW), (60_000, WINDOW / 2)] {
        // the third number comes in the outer half of the window
        let mut numbers = vec![0, 1, window / 4 * 3, 2];
        let steps: Vec<_> = (1..28).map(|step| window / 4 * 3 + step * (window / 2)).collect();
        numbers.extend(&steps);
        let (first, seen) = (numbers.clone(), numbers.len() as u64);
        // each again, and the one behind each for the first time
        numbers.extend(first.iter().rev());
        numbers.extend(steps.iter().map(|number| number + 1));
        let fresh = steps.len() as u64;
        // the first ones are out of reach at last
        numbers.extend((28..34).map(|step| window / 4 * 3 + step * (window / 2)));
        numbers.push(1);
        for summary in judged(flows, &numbers) {
            let SequenceSummary { unique, duplicates, reordered, beyond_window, .. } = summary;
            assert_eq!((duplicates, beyond_window), (seen, 1), "{summary:?}");
            // the third, those behind another but for the highest, the last
            assert_eq!((unique, reordered), (seen + fresh + 6 + 1, 1 + fresh - 1 + 1));
            assert_eq!(summary.window, u64::from(window * GROWTH));
        }
    }
}

/// What a window had forgotten before it grew may have arrived.
#[test]
fn a_window_that_has_grown_does_not_know_what_it_had_forgotten() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut numbers: Vec<u32> = (0..=6).map(|step| step * (WINDOW / 2)).collect();
    let highest = 3 * WINDOW;
    let behind = |window_parts: u32| highest - WINDOW / 8 * window_parts;
    // one in the outer half makes it grow; what it knew then it knows
    numbers.extend([behind(6), behind(4), behind(6)]);
    // the first one of all, and one that never came
    numbers.extend([0, 77]);
    for summary in judged(1, &numbers) {
        let SequenceSummary { unique, duplicates, reordered, beyond_window, .. } = summary;
        assert_eq!((unique, duplicates), (10, 2), "{summary:?}");
        assert_eq!((reordered, beyond_window), (3, 2), "{summary:?}");
        assert_eq!(summary.window, u64::from(WINDOW * GROWTH));
    }
}

/// Flows in order keep what they have, so that there is room for those that need it.
#[test]
fn windows_grow_only_where_numbers_come_from_far_behind() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut numbers: Vec<u32> = (0..200).map(|step| step * 1000).collect();
    numbers.extend([199_001, 199_001, 190_000, 170_001]);
    for summary in judged(1, &numbers) {
        assert_eq!((summary.duplicates, summary.reordered), (2, 1), "{summary:?}");
        assert_eq!(summary.window, u64::from(WINDOW));
    }
}

/// Whatever comes in whatever order: as the reference does with a window that is as large from the start.
#[test]
fn a_window_that_has_grown_counts_as_one_that_was_as_large() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    for seed in 1..4u64 {
        let mut state = seed;
        let mut random = |below: u64| -> u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        // the third makes it grow
        let mut numbers = vec![0, WINDOW / 4 * 3, 1];
        let mut highest = u64::from(WINDOW / 4 * 3);
        for _ in 0..12_000 {
            // ahead by up to a window; behind by what is as often small as large; one of those that came
            let (kind, size) = (random(10), random(22));
            let number = match kind {
                0..=5 => highest + 1 + random(300),
                6 => highest + 1 + random(1 << (size % 15)),
                7 => highest.saturating_sub(random(1 << size)),
                _ => numbers[numbers.len() - 1 - random(numbers.len() as u64) as usize].into(),
            };
            highest = highest.max(number);
            numbers.push(number as u32);
        }
        let at = |n: u64| 1_000_000_000 + n * 1000;
        let frames: Vec<_> =
            numbers.iter().zip(0u64..).map(|(number, n)| probe(0, *number, at(n))).collect();
        let bed = cable();
        for several_queues in [false, true] {
            let config = MeterConfig { window: WINDOW * GROWTH, ..expecting(1) };
            let (kernel, reference) = both(&bed, &frames, config, several_queues);
            let [is, should] = [&kernel, &reference].map(|summary| SequenceSummary {
                // extents of 1,023 and more share a bucket in the kernel
                extent: Distribution::default(),
                ..summary.flows[&0].sequence.clone()
            });
            assert_eq!(is, should, "seed {seed}, several queues: {several_queues}");
            assert!(is.duplicates > 1000 && is.beyond_window > 100, "{is:?}");
        }
    }
}

/// In-order numbers right behind a growth lie in a word that was begun before it.
#[test]
fn numbers_that_follow_a_growth_are_told_from_duplicates() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let top = 50_007;
    let mut numbers = vec![0, top - 2, top - 1, top, 3];
    numbers.extend((1..200).flat_map(|step| [top + step, top + step]));
    numbers.extend([top - 2, top - 1, top, 0, 3, 4]);
    for summary in judged(1, &numbers) {
        let SequenceSummary { unique, duplicates, reordered, beyond_window, .. } = summary;
        assert_eq!((unique, duplicates), (5 + 199 + 1, 199 + 5), "{summary:?}");
        assert_eq!((reordered, beyond_window), (2, 0), "{summary:?}");
    }
}
