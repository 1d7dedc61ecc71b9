//! What a meter takes from the heap, whatever is sent to it.

use wirebeat_meter::meter::{FLOWS, Flows, Meter, MeterConfig};
use wirebeat_units::Nanos;
use wirebeat_wire::probe::Probe;

use crate::counting::peak;

const ROOM: usize = 256 << 20;
const FRAMES: u64 = 1_000_000;

/// A receiver of any flow took as many as it had room for at 180 KiB each, and that was its bound.
#[test]
fn all_flows_with_wild_numbers_and_times_take_no_more_from_the_heap_than_allowed() {
    let mut random = 5u64;
    let mut next = || {
        // Knuth's MMIX
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 16
    };
    let (meter, most) = peak(|| {
        let config = MeterConfig { flows: Flows::Any(FLOWS), ..MeterConfig::default() };
        let mut meter = Meter::within(ROOM, config);
        let mut highest = vec![0u32; 1 << 16];
        for n in 0..FRAMES {
            let flow = if n < u64::from(FLOWS) { n as u16 } else { next() as u16 };
            let (at, delay) = (next() >> (next() % 48), next() >> (next() % 48));
            let highest = &mut highest[usize::from(flow)];
            let sequence = if next() % 4 == 0 {
                next() as u32
            } else {
                *highest = highest.wrapping_add(next() as u32 % 30_000);
                *highest
            };
            let probe = Probe { flow, sequence, transmit_ns: at.wrapping_sub(delay) }.to_bytes();
            meter.record_datagram(Nanos::new(at), &probe, None, 64);
        }
        meter
    });
    assert!((ROOM / 2..=ROOM).contains(&most), "{} KiB", most >> 10);
    let (summary, more) = peak(|| meter.into_summary());
    println!("{} MiB while frames came, {} MiB more for the result", most >> 20, more >> 20);
    assert!(more < ROOM, "{} MiB more for the result", more >> 20);
    let frames: u64 = summary.flows.values().map(|flow| flow.frames).sum();
    assert_eq!(frames + summary.unknown_flow, FRAMES);
}
