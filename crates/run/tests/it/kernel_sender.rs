//! What the transmit program promises of its own accord, with frames handed to its port directly.

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::port::{DepartureRecord, Port, TxMeta, TxPlan, TxTotals};
use wirebeat_engine_linux::kernel::{KernelOptions, KernelPort};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::world::{cable, prepared};

const FRAMES: u64 = 100;

/// Sends frames that are a millisecond late already, and says when they left.
fn late(spacing: Nanos) -> DepartureRecord {
    let bed = cable();
    let plan =
        TxPlan { tags: 1, frame_max: 60, frame_len: Some(60), paced: true, ..TxPlan::default() };
    let options = KernelOptions {
        index: bed.a.link.index.get(),
        interface: "wb0".to_owned(),
        plan,
        wait: Wait::Spin,
        cpu: Some(0),
        sequences: None,
        egress_program: false,
        link: None,
    };
    let mut port = bed.a.namespace.run(|| KernelPort::open(options)).unwrap().unwrap();
    // where it is permitted, calls are cheap and the way is kept warm: nothing of that is missing
    assert_eq!(port.caps().mode, "eBPF live frames, streamed");
    let now = MonotonicClock.now();
    let first = now.saturating_sub(Nanos::from_millis(1));
    for n in 0..FRAMES {
        assert!(port.reserve(1).unwrap() > 0);
        port.slot(0)[..60].fill(0xff);
        let launch = first.saturating_add(Nanos::from_micros(n));
        let meta = TxMeta { len: 60, launch, drift: Nanos::MAX, spacing, ..TxMeta::default() };
        port.commit(&[meta]).unwrap();
    }
    port.flush().unwrap();
    assert!(port.drain(now.saturating_add(Nanos::from_secs(5))).unwrap());
    let mut totals = [TxTotals::default()];
    port.totals(&mut totals);
    assert_eq!(totals[0].sent.frames, FRAMES);
    port.departures(0)
}

/// Flat out there are no launch times to hold a frame back: the loop must.
#[test]
fn nothing_leaves_before_the_start() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let scenario = "ports:\n  a: { interface: wb0, namespace: a, engine: kernel }\n  \
                    b: { interface: wb1, namespace: b, engine: kernel }\n\
                    flows:\n  f: { from: a, to: b, size: 64B, count: 1000 }\n\
                    run: { time: 1s }\n";
    let report = prepared(scenario, Some(&bed)).start(&mut Silent, &Stop::new());
    let total = &report.total;
    let (sent, received) = (total.sent.as_ref().unwrap(), total.received.as_ref().unwrap());
    let (first, last) = (sent.first_departure_ns.unwrap(), sent.last_departure_ns.unwrap());
    // counted from the start of the run, where zero would also stand for any time before it
    assert!(first > 0, "{sent:?}");
    // a thousand frames take less than a millisecond; a receiver that saw more saw those before
    let spans = (last - first, received.span_ns.unwrap());
    assert!(spans.0.abs_diff(spans.1) < 20_000_000, "{spans:?}");
}

#[test]
fn late_frames_keep_their_spacing() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let spacing = Nanos::from_micros(20);
    let record = late(spacing);
    let (first, last) = record.span.unwrap();
    assert!(last.saturating_sub(first).get() >= (FRAMES - 1) * spacing.get(), "{record:?}");
    // the lateness is that against the schedule: it grows by what the spacing adds
    let grown = record.error.moments.max - record.error.moments.min;
    assert!(grown >= ((FRAMES - 1) * (spacing.get() - 1000)) as i64, "{record:?}");
}
