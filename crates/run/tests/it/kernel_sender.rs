//! What the transmit program promises of its own accord, with frames handed to its port directly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::port::{
    Amount, Counted, DepartureRecord, OWN_HISTOGRAMS, Place, Repeat, RxPort, TxMeta, TxPlan,
    TxPort, TxTotals,
};
use wirebeat_engine_linux::kernel::{
    Fate, KernelOptions, KernelReceiver, KernelTx, ReceiveOptions,
};
use wirebeat_engine_linux::packet::{Kinds, PacketReceive, PacketRx};
use wirebeat_engine_linux::scheduling::ThreadOrders;
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::departures::Departures;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_report::model::FlowReport;
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_units::{BufferLen, FrameLen, Nanos};
use wirebeat_wire::codec::{Marks, SequenceForm, TimeForm};
use wirebeat_wire::stamp::Stamp;

use crate::kernel_meter::{expecting, probe, receive_options};
use crate::world::{cable, prepared};

const FRAMES: u64 = 100;

/// A port at the near end that streams the shortest frames.
fn port(bed: &Testbed, cut: bool) -> KernelTx {
    port_of(bed, cut, 1)
}

/// The same with so many tags.
fn port_of(bed: &Testbed, cut: bool, tags: u32) -> KernelTx {
    let plan = TxPlan {
        tags,
        frame_max: BufferLen::MIN,
        frame_len: Some(BufferLen::MIN),
        paced: true,
        cut,
        ..TxPlan::default()
    };
    open(bed, plan, UnixOffset::default())
}

/// The same for this plan, with a clock of the day.
fn open(bed: &Testbed, plan: TxPlan, unix_offset: UnixOffset) -> KernelTx {
    let options = options(bed, plan, unix_offset);
    bed.a.namespace.run(|| KernelTx::open(options)).unwrap().unwrap()
}

fn options(bed: &Testbed, plan: TxPlan, unix_offset: UnixOffset) -> KernelOptions {
    KernelOptions {
        index: bed.a.link.index.get(),
        interface: "wb0".to_owned(),
        plan,
        wait: Wait::Spin,
        thread: Some(ThreadOrders::on(0)),
        unix_offset,
        sequences: None,
        shared: None,
        attachment: None,
        link: None,
        observe: None,
    }
}

/// Sends frames that are a millisecond late already, and says when they left.
fn late(spacing: Nanos) -> DepartureRecord {
    let bed = cable();
    let mut port = port(&bed, false);
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

/// A loop that decides by what arrives what it sends next has no thread beside it: when the call is back, all has left.
#[test]
fn what_a_caller_has_built_leaves_in_its_call() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let receive = receive_options(&bed, expecting(1));
    let receiver = bed.b.namespace.run(|| KernelReceiver::open(&receive)).unwrap().unwrap();
    let plan = TxPlan {
        tags: 1,
        frame_max: BufferLen::MIN,
        frame_len: Some(BufferLen::MIN),
        ..TxPlan::default()
    };
    let options = KernelOptions { thread: None, ..options(&bed, plan, UnixOffset::default()) };
    let open =
        |options: &KernelOptions| bed.a.namespace.run(|| KernelTx::open(options.clone())).unwrap();
    for of_thread in [TxPlan { paced: true, ..plan }, TxPlan { round: 1, ..plan }] {
        let refused = open(&KernelOptions { plan: of_thread, ..options.clone() }).unwrap_err();
        assert!(refused.to_string().contains("without a thread of its own"), "{refused}");
    }
    let mut port = open(&options).unwrap();
    let mut all = 0;
    // more than a batch of the kernel, too
    for batch in [1, 8, 64, 200] {
        let mut built = 0;
        while built < batch {
            let room = port.reserve(batch - built).unwrap();
            assert!(room > 0);
            for index in 0..room {
                let frame = probe(0, all, 1);
                port.slot(index)[..60].copy_from_slice(&frame);
                all += 1;
            }
            let meta = TxMeta { len: 60, drift: Nanos::MAX, ..TxMeta::default() };
            port.commit(&vec![meta; room]).unwrap();
            built += room;
        }
        port.flush().unwrap();
        let mut totals = [TxTotals::default()];
        port.totals(&mut totals);
        assert_eq!(totals[0].sent.frames, u64::from(all), "after a batch of {batch}");
    }
    let patience = MonotonicClock.now().saturating_add(Nanos::from_secs(5));
    while receiver.received().0 < u64::from(all) && MonotonicClock.now() < patience {
        std::thread::yield_now();
    }
    let flow = &receiver.summary().flows[&0];
    assert_eq!(
        (flow.frames, flow.sequence.unique, flow.sequence.reordered),
        (all.into(), all.into(), 0)
    );
}

/// The offset of the clock of the day was read once, at the start: after a step of that clock all stamps were wrong by it.
#[test]
fn stamps_follow_a_step_of_the_clock_of_the_day_within_a_call() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    const STEP: u64 = 3600 * 1_000_000_000;
    let bed = cable();
    let day = UnixOffset::new(1_700_000_000 * 1_000_000_000);
    let before = day.get();
    // with GRO on, a virtual cable takes redirected frames without a program at its far end
    let mut netlink = bed.b.netlink().unwrap();
    netlink.set_features(bed.b.link.index, &[("rx-gro", true)]).unwrap();
    let receive = PacketReceive { kinds: Kinds::Any, ..PacketReceive::default() };
    let mut far = bed.b.namespace.run(|| PacketRx::open("wb1", &receive, None)).unwrap().unwrap();
    let plan = TxPlan {
        tags: 1,
        frame_max: BufferLen::MIN,
        frame_len: Some(BufferLen::MIN),
        paced: true,
        ..TxPlan::default()
    };
    let mut port = open(&bed, TxPlan { round: 1, ..plan }, day.clone());
    let marks =
        Marks { sequence: SequenceForm::Word { at: 0 }, time: TimeForm::Microseconds { at: 4 } };
    assert!(port.reserve(1).unwrap() > 0);
    port.slot(0)[..60].fill(0xff);
    let stamp = Stamp { probe_at: 44, marks, ..Stamp::default() };
    port.commit(&[TxMeta { len: 60, drift: Nanos::MAX, stamp, ..TxMeta::default() }]).unwrap();
    // a frame each 400 us for 800 ms, 250 in a call
    const FRAMES: usize = 2000;
    let receiver = std::thread::spawn(move || {
        let mut seen = Vec::new();
        let patience = MonotonicClock.now().saturating_add(Nanos::from_secs(20));
        while seen.len() < FRAMES && MonotonicClock.now() < patience {
            far.receive(patience, |arrival| {
                let word = |at: usize| -> u64 {
                    let bytes = arrival.bytes.get(at..at + 4).unwrap();
                    u32::from_be_bytes(bytes.try_into().unwrap()).into()
                };
                if arrival.bytes.starts_with(&[0xff; 44]) {
                    seen.push((arrival.at, word(48) * 1_000_000_000 + word(52) * 1000));
                }
            })
            .unwrap();
        }
        seen
    });
    let start = MonotonicClock.now().saturating_add(Nanos::from_millis(5));
    let (length_q32, limit) = (400_000 << 32, FRAMES as u64);
    port.repeat(&Repeat { start, length_q32, limit, stop: Nanos::MAX }).unwrap();
    // when the sender knew of each step; a machine that stalls takes fewer of them
    let mut told = Vec::new();
    loop {
        let steps = 1 + told.len() as u64;
        if port.drain(start.saturating_add(Nanos::from_millis(90 * steps))).unwrap() {
            break;
        }
        day.set(before + STEP * steps);
        port.drain(MonotonicClock.now().saturating_add(Nanos::from_micros(100))).unwrap();
        told.push(MonotonicClock.now());
    }
    assert!(!told.is_empty(), "this machine slept for the whole second");
    let seen = receiver.join().unwrap();
    assert_eq!(seen.len(), FRAMES);
    // each stamp is of the monotonic time and a number of steps, up to the time that a busy machine takes
    let mut behind = 0;
    for (at, written) in seen {
        let steps = (written + STEP / 2 - before - at.get()) / STEP;
        let told = told.iter().take_while(|&&told| told < at).count() as u64;
        assert!(steps <= told + 1, "{steps} steps are stamped, and {told} were told");
        behind += u64::from(steps < told);
    }
    // those on their way when the sender was told; up to a call's, were it told between two calls alone
    assert!(behind < 20 * told.len() as u64, "{behind} of {told:?}");
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

/// Flat out, cores that share a flow take numbers in runs: none is left out, wherever the end comes. A run that has
/// both ends would not notice, as it knows what it sent.
#[test]
fn cores_that_share_a_flow_flat_out_leave_no_number_out() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let flows = BTreeMap::from([(0, Expectation::default())]);
    let options = ReceiveOptions {
        observe: None,
        attachment: None,
        index: bed.b.link.index.get(),
        interface: "wb1".to_owned(),
        meter: MeterConfig { flows: Flows::Expected(flows), ..MeterConfig::default() },
        unprobed_gap: None,
        by_queue: BTreeSet::new(),
        fate: Fate::Drop,
        several_queues: true,
        queues: None,
    };
    for end in ["count: 100003", "stop: 61ms", "stop: 62ms", "stop: 63ms"] {
        let receiver = bed.b.namespace.run(|| KernelReceiver::open(&options)).unwrap().unwrap();
        let scenario = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: kernel, queues: 2 }}\n\
             flows:\n  f: {{ from: a, size: 64B, {end},\n       \
             packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{}} }} ] }}\n\
             run: {{ time: 30s }}\n",
            bed.b.ipv4
        );
        let report = prepared(&scenario, Some(&bed)).start(&mut Silent, &Stop::new());
        let sent = report.total.sent.as_ref().unwrap().sent.frames;
        std::thread::sleep(Duration::from_millis(50));
        let seen = receiver.summary().flows[&0].sequence.clone();
        // both begin at 2^32 (docs/measurements.md)
        let range = Some((1 << 32, (1 << 32) + sent - 1));
        assert_eq!((seen.unique, seen.duplicates, seen.range), (sent, 0, range), "with {end}");
    }
}

/// All fragments of a packet share the fate of the first.
#[test]
fn what_follows_a_fragment_that_is_too_late_is_dropped_with_it() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let mut port = port(&bed, true);
    let now = MonotonicClock.now();
    let (past, ahead) =
        (now.saturating_sub(Nanos::from_secs(1)), now.saturating_add(Nanos::from_millis(100)));
    let part = |place, launch, drift, packets| TxMeta {
        len: 60,
        counted: Counted { packets, fragments: 1 - packets, ..Counted::frame(FrameLen::MIN, 18) },
        launch,
        drift,
        place,
        ..TxMeta::default()
    };
    // a busy machine does not make late what is in time
    let drift = |launch| if launch == past { Nanos::from_millis(50) } else { Nanos::from_secs(30) };
    // in time, too late, in time, too late and alone, in time and alone
    for launch in [ahead, past, ahead] {
        let packet = [
            part(Place::First(2), launch, drift(launch), 0),
            part(Place::Following, Nanos::ZERO, Nanos::ZERO, 0),
            part(Place::Following, Nanos::ZERO, Nanos::ZERO, 1),
        ];
        assert!(port.reserve(3).unwrap() >= 3);
        (0..3).for_each(|index| port.slot(index)[..60].fill(0xff));
        // they reach the program one by one
        packet.iter().for_each(|meta| port.commit(&[*meta]).unwrap());
        port.flush().unwrap();
    }
    for launch in [past, ahead] {
        assert!(port.reserve(1).unwrap() >= 1);
        port.slot(0)[..60].fill(0xff);
        port.commit(&[part(Place::Whole, launch, drift(launch), 1)]).unwrap();
        port.flush().unwrap();
    }
    assert!(port.drain(now.saturating_add(Nanos::from_secs(5))).unwrap());
    let mut totals = [TxTotals::default()];
    port.totals(&mut totals);
    let amount = |frames: u64, fragments: u64| Amount {
        frames,
        fragments,
        bytes: (frames + fragments) * 64,
        payload: (frames + fragments) * 18,
    };
    assert_eq!((totals[0].sent, totals[0].expired), (amount(3, 4), amount(2, 2)));
    assert_eq!(port.departures(0).departures.lateness.moments.count, 3, "one for each packet");
}

#[test]
fn late_frames_keep_their_spacing() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let spacing = Nanos::from_micros(20);
    let record = late(spacing);
    let (first, last) = record.span.unwrap();
    assert!(last.saturating_sub(first).get() >= (FRAMES - 1) * spacing.get(), "{record:?}");
    // the lateness is that against the schedule: it grows by what the spacing adds
    let grown = record.departures.lateness.moments.max - record.departures.lateness.moments.min;
    assert!(grown >= ((FRAMES - 1) * (spacing.get() - 1000)) as i64, "{record:?}");
}

/// Each tag had 31 KiB on each core: 10,000 flows took 318 MB of kernel memory, and 60,000 took 1.9 GB.
#[test]
fn tags_beyond_the_first_share_a_histogram() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let mut port = port_of(&bed, false, 60_000);
    let now = MonotonicClock.now();
    let tags = [0, OWN_HISTOGRAMS - 1, OWN_HISTOGRAMS, 59_999, OWN_HISTOGRAMS];
    for tag in tags {
        assert!(port.reserve(1).unwrap() > 0);
        port.slot(0)[..60].fill(0xff);
        let launch = now.saturating_sub(Nanos::from_millis(1));
        // one has a limit of its own, which it keeps
        let drift = if tag == 59_999 { Nanos::from_secs(100) } else { Nanos::MAX };
        let meta = TxMeta { tag, len: 60, launch, drift, ..TxMeta::default() };
        port.commit(&[meta]).unwrap();
    }
    port.flush().unwrap();
    assert!(port.drain(now.saturating_add(Nanos::from_secs(5))).unwrap());

    let mut all = Departures::default();
    for (tag, frames) in [(0, 1), (OWN_HISTOGRAMS - 1, 1), (OWN_HISTOGRAMS, 2), (59_999, 1)] {
        let record = port.departures(tag);
        let moments = record.departures.lateness.moments;
        assert_eq!(moments.count, frames, "{tag}");
        assert!(moments.min >= 1_000_000 && moments.sum >= i128::from(frames) * 1_000_000);
        let beyond = if tag < OWN_HISTOGRAMS { 0 } else { frames };
        let late = if tag == 59_999 { 0 } else { frames };
        assert_eq!((record.departures.lateness.missing(), record.late), (beyond, late), "{tag}");
        all.merge(&record.departures);
    }
    assert_eq!(port.departures(1), DepartureRecord::default());
    all.complete(&port.shared_departures());
    assert!(all.each().into_iter().all(|of| of.missing() == 0));
    assert_eq!(all.gap.moments.count, 1, "of the only tag that sent twice");
    let errors = all.longer.moments.count + all.shorter.moments.count;
    assert_eq!(errors, 1, "{all:?}");
}

/// With very many flows the report has what is exact of each, percentiles of the first and of all, and says so once.
#[test]
fn flows_beyond_the_first_have_moments_and_the_total_has_percentiles() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let flows = OWN_HISTOGRAMS + 88;
    for engine in ["kernel", "packet"] {
        let mut scenario = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {engine} }}\n  \
             b: {{ interface: wb1, namespace: b, engine: {engine} }}\nflows:\n"
        );
        for flow in 0..flows {
            scenario += &format!("  f{flow}: {{ from: a, to: b, rate: 50pps, count: 3 }}\n");
        }
        scenario += "run: { time: 5s, late: send }\n";
        let report = prepared(&scenario, Some(&bed)).start(&mut Silent, &Stop::new());
        let errors = |flow: &FlowReport| flow.sent.as_ref().unwrap().send_lateness_ns.clone();
        for (flow, own) in report.flows.iter().zip((0..flows).map(|n| n < OWN_HISTOGRAMS)) {
            let errors = errors(flow);
            assert_eq!((errors.count, errors.max.is_some()), (3, true), "{engine}, {}", flow.name);
            let known = [!errors.histogram.is_empty(), errors.percentiles.p50.is_some()];
            assert_eq!(known, [own; 2], "{engine}, {}", flow.name);
        }
        let total = errors(&report.total);
        let held: u64 = total.histogram.iter().map(|bucket| bucket.2).sum();
        assert_eq!((held + total.below_histogram, total.count), (1800, 1800), "{engine}");
        assert!(total.percentiles.p99.is_some(), "{engine}");
        let says = |text: &str| report.findings.iter().filter(|f| f.message.contains(text)).count();
        assert_eq!(says("88 more share theirs"), 1, "{engine}");
    }
}
