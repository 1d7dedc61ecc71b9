//! The kernel's meter against the reference: both are given the same frames, with losses, duplicates,
//! reordering, restarts, forgeries and garbage, and must count the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use wirebeat_engine::port::{TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::{
    Fate, KernelReceiver, ObservationOptions, Observations, ReceiveOptions,
};
use wirebeat_engine_linux::packet::PacketTx;
use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::filter::Filter;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
use wirebeat_meter::observation::{Judged, Observed, Standing};
use wirebeat_meter::summary::{MeterSummary, Moments, SequenceSummary};
use wirebeat_testbed::{Capability, Options, Testbed, require};
use wirebeat_units::{BufferLen, Nanos};
use wirebeat_wire::probe::Probe;

use crate::world::cable;

/// An Ethernet/IPv4/UDP frame of 64 bytes with FCS that carries `probe`.
fn frame(probe: Probe) -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[0..6].fill(0xff);
    frame[12] = 8;
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..40].copy_from_slice(&[0, 9, 0, 9, 0, 26]);
    frame[44..60].copy_from_slice(&probe.to_bytes());
    frame
}

/// The same over IPv6, behind `extensions`: pairs of protocol and length field. `more` goes into the
/// flags of a fragment header.
fn v6(extensions: &[u8], more: u8) -> Vec<u8> {
    let mut next: Vec<u8> = extensions.iter().step_by(2).copied().collect();
    next.push(17);
    let mut payload = Vec::new();
    for (pair, next) in extensions.chunks(2).zip(&next[1..]) {
        let units = pair.get(1).copied().unwrap_or(0);
        let mut header = vec![0; 8 * (1 + usize::from(units.min(4)))];
        (header[0], header[1]) = (*next, units);
        if pair[0] == 44 {
            (header[1], header[3]) = (0, more);
        }
        payload.extend(header);
    }
    payload.extend([0, 9, 0, 9, 0, 24, 0, 0]);
    payload.extend(Probe { flow: 1, sequence: 0, transmit_ns: 1002 }.to_bytes());
    let mut frame = vec![0xff; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload.len() as u8, next[0], 64]);
    frame.extend([0xfd; 32]);
    frame.extend(payload);
    frame
}

pub(crate) fn probe(flow: u16, sequence: u32, transmit_ns: u64) -> Vec<u8> {
    frame(Probe { flow, sequence, transmit_ns })
}

/// Expects flows 0 to `flows`.
pub(crate) fn expecting(flows: u16) -> MeterConfig {
    let expected: BTreeMap<_, _> = (0..flows).map(|flow| (flow, Expectation::default())).collect();
    MeterConfig { flows: Flows::Expected(expected), ..MeterConfig::default() }
}

/// Sends `frames` to a kernel receiver and to the reference, and returns what both say.
pub(crate) fn both(
    bed: &Testbed,
    frames: &[Vec<u8>],
    config: MeterConfig,
    several_queues: bool,
) -> (MeterSummary, MeterSummary) {
    // everything that arrives is told of by itself, too
    let slots = frames.len() as u32 + 64;
    let observe = ObservationOptions { frames: Observed::All, bytes: 64, slots };
    let observe = Some(observe);
    let options =
        ReceiveOptions { several_queues, observe, ..receive_options(bed, config.clone()) };
    let mut receiver = bed.b.namespace.run(|| KernelReceiver::open(&options)).unwrap().unwrap();
    send_frames(bed, &receiver, frames);

    let mut reference = Meter::new(config);
    let judge = |(frame, at): (&Vec<u8>, u64)| {
        reference.record_frame(Nanos::new(at), frame, (frame.len() as u32 + 4).max(64))
    };
    let judged: Vec<Judged> = frames.iter().zip(1u64..).map(judge).collect();
    let reference = reference.summary();
    let summary = receiver.summary();
    agree((frames, &judged), &summary, receiver.observations().unwrap());
    (summary, reference)
}

/// A receiver at the far end that drops what it meters.
pub(crate) fn receive_options(bed: &Testbed, meter: MeterConfig) -> ReceiveOptions {
    ReceiveOptions {
        attachment: None,
        index: bed.b.link.index.get(),
        interface: "wb1".to_owned(),
        meter,
        unprobed_gap: None,
        by_queue: BTreeSet::new(),
        fate: Fate::Drop,
        several_queues: false,
        observe: None,
        queues: None,
    }
}

/// Sends them all, and waits until they have arrived.
pub(crate) fn send_frames(bed: &Testbed, receiver: &KernelReceiver, frames: &[Vec<u8>]) {
    let plan = TxPlan { tags: 1, frame_max: BufferLen::new(1500), ..TxPlan::default() };
    let seen = || {
        let summary = receiver.summary();
        summary.flows.values().map(|flow| flow.frames).sum::<u64>()
            + summary.unprobed.frames
            + summary.unknown_flow
            + summary.stale
            + summary.foreign
            + summary.malformed
            + summary.fragments
    };
    let all = seen() + frames.len() as u64;
    // one CPU sends all, so that the frames keep their order
    let sent = bed.a.namespace.run(|| send(&plan, frames, 0)).unwrap();
    assert_eq!(sent, frames.len());
    let patience = Instant::now() + Duration::from_secs(5);
    while seen() < all && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What was told of each frame by itself is what the reference says of it, and adds up to what was measured.
fn agree(
    (frames, judged): (&[Vec<u8>], &[Judged]),
    summary: &MeterSummary,
    mut observations: Observations,
) {
    let mut tally: BTreeMap<(Option<u16>, usize), u64> = BTreeMap::new();
    let (mut sent, mut last) = (frames.iter().zip(judged), Nanos::ZERO);
    observations.read(usize::MAX, |seen| {
        *tally.entry((seen.flow, seen.standing as usize)).or_default() += 1;
        let (frame, judged) = sent.next().unwrap();
        // the reference puts fragments together, and the kernel does not; what is in doubt depends on the window
        let by_window = |standing| matches!(standing, Standing::Doubtful | Standing::BeyondWindow);
        let in_doubt = by_window(seen.standing) || by_window(judged.standing);
        if seen.standing != Standing::Fragment && !in_doubt {
            let kernel = (seen.flow, seen.sequence, seen.sent, seen.standing);
            assert_eq!(kernel, (judged.flow, judged.sequence, judged.sent, judged.standing));
        }
        assert_eq!(seen.bytes, &frame[..frame.len().min(64)]);
        assert!(seen.arrived >= last);
        last = seen.arrived;
    });
    assert_eq!((sent.next(), observations.lost()), (None, 0));
    let of = |flow, standing: Standing| tally.get(&(flow, standing as usize)).copied().unwrap_or(0);
    for (id, flow) in &summary.flows {
        let of = |standing| of(Some(*id), standing);
        let sequence = &flow.sequence;
        let doubtful = of(Standing::Doubtful);
        // one in doubt is counted when the next has come
        let near = |counted: u64, seen: u64| (seen..=seen + doubtful).contains(&counted);
        let fresh = of(Standing::New) + of(Standing::Reordered) + of(Standing::BeyondWindow);
        assert!(near(sequence.unique, fresh), "{tally:?} {sequence:?}");
        assert!(near(sequence.duplicates, of(Standing::Duplicate)), "{tally:?} {sequence:?}");
        assert!(near(sequence.beyond_window, of(Standing::BeyondWindow)), "{tally:?} {sequence:?}");
        let reordered = of(Standing::Reordered) + of(Standing::BeyondWindow);
        assert!(near(sequence.reordered, reordered), "{tally:?} {sequence:?}");
        let all = fresh + of(Standing::Duplicate) + doubtful + of(Standing::WithoutProbe);
        assert_eq!(flow.frames, all, "{tally:?}");
    }
    let counts = [
        (Standing::WithoutProbe, summary.unprobed.frames),
        (Standing::Foreign, summary.foreign),
        (Standing::Malformed, summary.malformed),
        (Standing::UnknownFlow, summary.unknown_flow),
        (Standing::Stale, summary.stale),
        (Standing::Fragment, summary.fragments),
    ];
    for (standing, count) in counts {
        assert_eq!(of(None, standing), count, "{standing:?}: {tally:?}");
    }
}

fn send(plan: &TxPlan, frames: &[Vec<u8>], cpu: usize) -> usize {
    affinity::pin(cpu).unwrap();
    let mut port = PacketTx::open("wb0", plan, None).unwrap();
    let mut sent = 0;
    for frame in frames {
        while port.reserve(1).unwrap() == 0 {
            port.flush().unwrap();
        }
        port.slot(0)[..frame.len()].copy_from_slice(frame);
        port.commit(&[TxMeta { len: frame.len() as u16, ..TxMeta::default() }]).unwrap();
        port.flush().unwrap();
        sent += 1;
    }
    sent
}

fn same_sequences(kernel: &SequenceSummary, reference: &SequenceSummary) {
    // extents of 1,023 and more share a bucket in the kernel; these tests stay below
    // the kernel's window has grown to the reference's, or nothing asked it to
    assert!([reference.window, reference.window / 16].contains(&kernel.window), "{kernel:?}");
    assert_eq!(kernel, &SequenceSummary { window: kernel.window, ..reference.clone() });
}

fn compare(frames: &[Vec<u8>]) -> MeterSummary {
    compare_as(frames, &expecting(2))
}

pub(crate) fn compare_as(frames: &[Vec<u8>], config: &MeterConfig) -> MeterSummary {
    let bed = cable();
    let mut last = MeterSummary::default();
    let config = MeterConfig { window: 16 * 65_536, ..config.clone() };
    for several_queues in [false, true] {
        let (kernel, reference) = both(&bed, frames, config.clone(), several_queues);
        assert_eq!(
            kernel.flows.keys().collect::<Vec<_>>(),
            reference.flows.keys().collect::<Vec<_>>()
        );
        for (id, flow) in &reference.flows {
            let measured = &kernel.flows[id];
            assert_eq!(
                (measured.frames, measured.frame_bytes, measured.payload_bytes),
                (flow.frames, flow.frame_bytes, flow.payload_bytes)
            );
            same_sequences(&measured.sequence, &flow.sequence);
            assert_eq!(measured.delay.moments.count, flow.delay.moments.count);
            assert_eq!(measured.delay_variation.moments.count, flow.delay_variation.moments.count);
            assert_eq!(measured.interarrival_jitter.streams, flow.interarrival_jitter.streams);
            assert_eq!(measured.inter_arrival.moments.count, flow.inter_arrival.moments.count);
        }
        assert_eq!(kernel.unprobed.frames, reference.unprobed.frames);
        assert_eq!(kernel.unprobed.payload_bytes, reference.unprobed.payload_bytes);
        assert_eq!(kernel.unknown_flow, reference.unknown_flow);
        assert_eq!(kernel.stale, reference.stale);
        assert_eq!(kernel.foreign, reference.foreign);
        assert_eq!(kernel.malformed, reference.malformed);
        assert_eq!(kernel.fragments, reference.fragments);
        last = kernel;
    }
    last
}

/// A queue may be served by one CPU now and by another then. What lies between two arrivals is the same.
#[test]
fn a_queue_that_moves_between_cpus_counts_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = Testbed::pair(&Options { queues: 1, ..Options::default() }).unwrap();
    let frames: Vec<_> = (0..400).map(|n| probe(0, n, 1_000)).collect();
    let options = ReceiveOptions {
        observe: None,
        attachment: None,
        index: bed.b.link.index.get(),
        interface: "wb1".to_owned(),
        meter: expecting(1),
        unprobed_gap: None,
        by_queue: BTreeSet::new(),
        fate: Fate::Drop,
        several_queues: false,
        queues: Some(1),
    };
    let receiver = bed.b.namespace.run(|| KernelReceiver::open(&options)).unwrap().unwrap();
    let sending = TxPlan { tags: 1, frame_max: BufferLen::new(1500), ..TxPlan::default() };
    let cpus = affinity::allowed();
    for (turn, some) in frames.chunks(10).enumerate() {
        let cpu = cpus[turn % cpus.len()];
        bed.a.namespace.run(|| send(&sending, some, cpu)).unwrap();
    }
    let patience = Instant::now() + Duration::from_secs(5);
    let summary = loop {
        let summary = receiver.summary();
        if summary.flows[&0].frames == 400 || Instant::now() > patience {
            break summary;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let flow = &summary.flows[&0];
    assert_eq!((flow.frames, flow.sequence.unique), (400, 400));
    let between = [&flow.inter_arrival, &flow.delay_variation].map(|d| d.moments.count);
    assert_eq!(between, [399, 399]);
    // all gaps together are the time from the first to the last, whoever served the queue
    let (first, last) = flow.span.unwrap();
    assert_eq!(flow.inter_arrival.moments.sum, i128::from(last - first));
}

/// A queue that was idle while another had what was sent since takes what comes late for late, and the numbers of a sender that
/// began anew for that.
#[test]
fn a_queue_that_was_idle_tells_late_frames_from_a_new_beginning() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let cpus = affinity::allowed();
    if cpus.len() < 2 {
        println!("SKIPPED: two queues need two CPUs");
        return;
    }
    let bed = Testbed::pair(&Options { queues: 2, ..Options::default() }).unwrap();
    let options = ReceiveOptions { several_queues: true, ..receive_options(&bed, expecting(1)) };
    let receiver = bed.b.namespace.run(|| KernelReceiver::open(&options)).unwrap().unwrap();
    let sending = TxPlan { tags: 1, frame_max: BufferLen::new(1500), ..TxPlan::default() };
    let (early, late, anew) = (1_000, 2_000_000_000, 4_000_000_000);
    let mut total = 0;
    let mut arrive = |cpu: usize, numbers: &mut dyn Iterator<Item = u32>, sent: u64| {
        let frames: Vec<_> = numbers.map(|number| probe(0, number, sent)).collect();
        bed.a.namespace.run(|| send(&sending, &frames, cpus[cpu])).unwrap();
        total += frames.len() as u64;
        let patience = Instant::now() + Duration::from_secs(5);
        while receiver.summary().flows[&0].frames < total && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        receiver.summary().flows[&0].sequence.clone()
    };
    arrive(0, &mut (0..100), early);
    arrive(1, &mut (100..110), early);
    arrive(0, &mut (110..200).chain(203..300), late);
    let seen = arrive(1, &mut (200..203), late);
    let counts = (seen.unique, seen.beyond_window, seen.restarts, seen.implausible);
    assert_eq!(counts, (300, 0, 0, 0), "{seen:?}");
    let seen = arrive(1, &mut (0..50), anew);
    assert_eq!((seen.unique, seen.restarts, seen.implausible), (350, 1, 0), "{seen:?}");
}

#[test]
fn losses_duplicates_and_reordering_count_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut frames = Vec::new();
    for n in 0..1500u32 {
        for flow in 0..2u16 {
            if n % 97 == 13 {
                continue; // lost
            }
            // in the first flow every 50th comes 7 places late
            let number = match (flow, n % 50) {
                (0, 10..=16) => n + 1,
                (0, 17) => n - 7,
                _ => n,
            };
            let sent = 1000 + u64::from(n);
            frames.push(probe(flow, number, sent));
            if n % 211 == 5 {
                frames.push(probe(flow, number, sent));
            }
        }
    }
    let summary = compare(&frames);
    assert!(summary.flows[&0].sequence.duplicates > 0);
    assert!(summary.flows[&0].sequence.reordered > 0);
}

/// Frames that are longer than 16 KiB have their probe further back than the program looked.
#[test]
fn probes_of_frames_beyond_16_kib_are_read() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let frames = bed.a.namespace.run(|| {
        let mut netlink = wirebeat_netlink::Netlink::open().unwrap();
        let loopback = netlink.link_by_name("lo").unwrap().index;
        netlink.set_up(loopback).unwrap();
        let options = ReceiveOptions {
            observe: None,
            attachment: None,
            index: loopback.get(),
            interface: "lo".to_owned(),
            meter: expecting(1),
            unprobed_gap: None,
            by_queue: BTreeSet::new(),
            fate: Fate::Drop,
            several_queues: false,
            queues: None,
        };
        let receiver = KernelReceiver::open(&options).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let probe = |sequence| Probe { flow: 0, sequence, transmit_ns: 1000 };
        // the last one has its probe where the verifier lets a program read 16 bytes just so
        let lengths = [16, 16_300, 16_326, 16_342, 16_400, 20_000, 40_000, 65_493, 65_494];
        for (length, sequence) in lengths.into_iter().zip(0u32..) {
            let mut payload = vec![0; length - 16];
            payload.extend(probe(sequence).to_bytes());
            socket.send_to(&payload, "127.0.0.1:9").unwrap();
        }
        let patience = Instant::now() + Duration::from_secs(5);
        while receiver.received().0 < 9 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        receiver.summary()
    });
    let summary = frames.unwrap();
    let flow = &summary.flows[&0];
    // one that begins after byte 65,519 of its frame cannot be read, and is counted apart
    assert_eq!((flow.sequence.unique, summary.malformed), (8, 1), "{summary:?}");
    assert_eq!(summary.unprobed.frames, 0);
    let payload: usize = [16, 16_300, 16_326, 16_342, 16_400, 20_000, 40_000, 65_493].iter().sum();
    assert_eq!(flow.payload_bytes, payload as u64);
}

/// Most of ten thousand flows share their histograms; everything else is their own.
#[test]
fn flows_without_histograms_of_their_own_count_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut frames = Vec::new();
    for (n, flow) in (0..4u32).flat_map(|n| (0..10_000u16).step_by(5).map(move |flow| (n, flow))) {
        // one number is lost of every seventh flow, one comes too late of every eleventh, one twice of every 13th
        let number = match (n, flow % 7, flow % 11) {
            (3, 0, _) => 4,
            (1 | 2, _, 0) => 3 - n,
            _ => n,
        };
        frames.push(probe(flow, number, 1000 + u64::from(n)));
        if n == 2 && flow % 13 == 0 {
            frames.push(probe(flow, number, 1000 + u64::from(n)));
        }
    }
    let bed = cable();
    for several_queues in [false, true] {
        let (kernel, reference) = both(&bed, &frames, expecting(10_000), several_queues);
        assert_eq!(kernel.validate(), Ok(()));
        assert_eq!(kernel.flows.len(), 10_000);
        let shared = kernel.shared.flows;
        assert!((1000..1900).contains(&shared), "{shared} of 2,000 share histograms");
        let mut all = wirebeat_meter::summary::FlowSummary::default();
        for (id, flow) in &reference.flows {
            let measured = &kernel.flows[id];
            assert_eq!(measured.frames, flow.frames);
            let extentless =
                |of: &SequenceSummary| SequenceSummary { extent: Default::default(), ..of.clone() };
            assert_eq!(extentless(&measured.sequence), extentless(&flow.sequence), "{id}");
            for (is, should) in [
                (&measured.delay, &flow.delay),
                (&measured.delay_variation, &flow.delay_variation),
                (&measured.inter_arrival, &flow.inter_arrival),
            ] {
                assert_eq!(is.moments.count, should.moments.count, "{id}");
                assert!(is.moments.min <= is.moments.max);
                assert!(is.missing() == 0 || is.missing() == is.moments.count, "{id}: {is:?}");
            }
            all.merge(measured);
        }
        // what all flows lack is what they share
        assert!(all.delay.missing() > 0 && all.delay.quantile(0.5).is_none());
        kernel.shared.complete(&mut all);
        let all = [all.delay, all.delay_variation, all.inter_arrival];
        assert_eq!(all.map(|distribution| distribution.missing()), [0; 3]);
    }
}

/// With very many flows windows are smaller. They grow to sixteen times their size, and then tell apart what the reference does
/// with one as large.
#[test]
fn smaller_windows_count_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let at = |n: u64| 1_000_000_000 + n * 1000;
    let jumps = [
        0, 1, 2, 30_000, 2, 29_999, 31_000, 40_000, 39_999, 5_000, 1, 40_001, 40_001, 90_000,
        90_001,
    ];
    let mut frames: Vec<_> =
        jumps.into_iter().zip(0u64..).map(|(number, n)| probe(59_999, number, at(n))).collect();
    // extents of 1,023 and more share a bucket in the kernel
    frames.extend((0..900u32).map(|n| probe(59_999, 90_002 + n * 3, at(100 + u64::from(n)))));
    frames.extend((0..900u32).map(|n| probe(59_999, 90_003 + n * 3, at(100 + u64::from(n)))));
    // and much is lost before two that nobody can judge any more
    frames.extend([700_000, 700_001, 7, 90_002].map(|number| probe(59_999, number, at(2000))));
    let bed = cable();
    for several_queues in [false, true] {
        let config = MeterConfig { window: 16 * 32_768, ..expecting(60_000) };
        let (kernel, reference) = both(&bed, &frames, config, several_queues);
        let [is, should] = [&kernel, &reference].map(|summary| &summary.flows[&59_999].sequence);
        assert_eq!((is.window, is), (16 * 32_768, should));
        assert!(is.beyond_window > 0 && is.duplicates > 0, "{is:?}");
    }
}

/// A receiver that knows no flows takes those that come first, whatever their numbers.
#[test]
fn flows_that_nobody_announced_get_a_place() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let numbers = [7u16, u16::MAX, 7, 0, 300, u16::MAX, 301];
    let frames: Vec<_> = numbers.iter().zip(0..).map(|(flow, n)| probe(*flow, n, 1000)).collect();
    let bed = cable();
    let config = MeterConfig { flows: Flows::Any(3), ..MeterConfig::default() };
    for several_queues in [false, true] {
        let (kernel, reference) = both(&bed, &frames, config.clone(), several_queues);
        let flows = |summary: &MeterSummary| -> Vec<(u16, u64)> {
            summary.flows.iter().map(|(id, flow)| (*id, flow.frames)).collect()
        };
        assert_eq!(flows(&kernel), [(0, 1), (7, 2), (u16::MAX, 2)]);
        assert_eq!(flows(&reference), flows(&kernel));
        assert_eq!((kernel.unknown_flow, reference.unknown_flow), (2, 2));
    }
}

#[test]
fn wraps_restarts_and_forgeries_count_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut frames = Vec::new();
    let at = |n: u64| 1_000_000_000 + n * 1000;
    // over the end of 32 bits
    for n in 0..600u32 {
        frames.push(probe(0, (u32::MAX - 300).wrapping_add(n), at(n.into())));
    }
    // one forged number far ahead, one far behind, amid good ones
    frames.push(probe(0, 5_000_000, at(601)));
    frames.push(probe(0, 299, at(602)));
    frames.push(probe(0, 3_000_000_000, at(603)));
    frames.push(probe(0, 300, at(604)));
    // much is lost, and it goes on from there
    for n in 0..50u32 {
        frames.push(probe(0, 2_000_000 + n, at(700 + u64::from(n))));
    }
    // very late ones
    frames.push(probe(0, 400, at(605)));
    frames.push(probe(0, 401, at(606)));
    // the sender starts again, two seconds later
    for n in 0..50u32 {
        frames.push(probe(0, n, at(2_000_000 + u64::from(n))));
    }
    let summary = compare(&frames);
    assert_eq!(summary.flows[&0].sequence.restarts, 1);
    assert!(summary.flows[&0].sequence.implausible > 0);
}

#[test]
fn garbage_counts_alike_and_harms_nothing() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut frames = vec![probe(0, 0, 1000)];
    let good = probe(0, 1, 1001);
    // each single byte of the headers is changed once
    for at in 12..44 {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        frames.push(bad);
    }
    // another magic, another flow, no room for a probe, one VLAN tag, two of them
    let mut plain = good.clone();
    plain[44] = 0;
    frames.push(plain);
    frames.push(probe(2, 0, 1002));
    frames.push(probe(u16::MAX, 0, 1002));
    let mut short = good.clone();
    short[17] = 43;
    short[39] = 23;
    frames.push(short);
    for tags in 1..=3 {
        let mut tagged = good[..12].to_vec();
        tagged.extend([0x81, 0, 0, 5].repeat(tags));
        tagged.extend(&good[12..]);
        frames.push(tagged);
    }
    // nothing of ours
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    frames.push(arp);
    // IPv6 with each kind of extension header, whole and damaged
    for extensions in [
        &[0u8, 0, 60, 0, 43, 1, 44][..],
        &[60, 200],
        &[44],
        &[6],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        frames.push(v6(extensions, 0));
        frames.push(v6(extensions, 1));
    }
    frames.push(probe(0, 2, 1003));
    let summary = compare(&frames);
    let MeterSummary { foreign, malformed, fragments, unknown_flow, .. } = summary;
    assert!(foreign > 0 && malformed > 0 && fragments > 0 && unknown_flow == 2, "{summary:?}");
}

/// Differences of 16, 16 and 32 s, beside which the time that frames take is nothing.
#[test]
fn interarrival_jitter_is_that_of_rfc_3550_in_the_kernel_too() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let now = wirebeat_engine::clock::Clock::now(&wirebeat_engine::clock::MonotonicClock).get();
    let frames: Vec<_> = [0, 16, 0, 32]
        .iter()
        .zip(0u32..)
        .map(|(ago, number)| probe(0, number, now.saturating_sub(ago * 1_000_000_000)))
        .collect();
    let bed = cable();
    let (kernel, reference) = both(&bed, &frames, expecting(1), false);
    let expected = [16e9, 16e9, 32e9].iter().fold(0.0, |j: f64, d| j + (d - j) / 16.0);
    for summary in [kernel, reference] {
        let jitter = summary.flows[&0].interarrival_jitter.estimate_ns().unwrap();
        assert!((jitter - expected).abs() < expected / 50.0, "{jitter} {expected}");
    }
}

/// Delays of all magnitudes and signs, two to a flow: what the smallest and the largest of two values
/// are decides all the rest.
#[test]
fn moments_and_buckets_are_those_of_the_values() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let seconds = |seconds: f64| (seconds * 1e9) as i64;
    let delays: Vec<[i64; 2]> = [
        [0.0, 0.0],
        [1e-5, 3e-4],
        [2.5, 2.1],
        [3.0, 1e-3],
        [5.0, 20.0],
        [-1.0, 1.0],
        [-3.0, -5.0],
        [-300.0, 30.0],
        // four days and a year: clocks of other machines
        [-3.5e5, -3.5e5],
        [-3.2e7, -3.1e7],
    ]
    .map(|pair| pair.map(seconds))
    .into();
    let now = wirebeat_engine::clock::Clock::now(&wirebeat_engine::clock::MonotonicClock);
    let mut frames = Vec::new();
    for sequence in 0..2u32 {
        for (flow, pair) in (0u16..).zip(&delays) {
            let sent = now.get().saturating_sub_signed(pair[sequence as usize]);
            frames.push(probe(flow, sequence, sent));
        }
    }
    let bed = cable();
    let (kernel, _) = both(&bed, &frames, expecting(delays.len() as u16), false);
    for (flow, pair) in (0u16..).zip(&delays) {
        let flow = &kernel.flows[&flow];
        for (distribution, values) in [
            (&flow.delay, vec![flow.delay.moments.min, flow.delay.moments.max]),
            (&flow.delay_variation, vec![flow.delay.moments.max - flow.delay.moments.min]),
        ] {
            let mut reference = Recorder::default();
            values.iter().for_each(|value| reference.record(*value));
            let reference = reference.distribution();
            assert_eq!(distribution.buckets, reference.buckets, "{pair:?}");
            assert_eq!(distribution.negative, reference.negative, "{pair:?}");
            let (is, should) = (distribution.moments, reference.moments);
            assert_eq!((is.count, is.min, is.max), (should.count, should.min, should.max));
            assert_eq!(is.sum, should.sum, "{pair:?}");
            assert_eq!(is.sum_of_squares, should.sum_of_squares, "{pair:?}");
        }
        // the frames took less than some seconds to arrive, and the values are in the right places
        let [low, high] = [pair[0].min(pair[1]), pair[0].max(pair[1])];
        let Moments { min, max, .. } = flow.delay.moments;
        assert!((low..low + seconds(10.0)).contains(&min), "{min} for {pair:?}");
        assert!((high..high + seconds(10.0)).contains(&max), "{max} for {pair:?}");
    }
}

#[test]
fn filters_take_the_same_datagrams() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut frames = Vec::new();
    let base = probe(0, 0, 1000);
    // as it is, then another source, source port and destination port; each plain and behind a VLAN tag,
    // which the program takes the long way
    for (at, sequence) in [None, Some(29), Some(35), Some(37)].into_iter().zip(0u8..) {
        let mut frame = base.clone();
        frame[51] = sequence;
        if let Some(at) = at {
            frame[at] ^= 0x50;
        }
        let mut tagged = frame[..12].to_vec();
        tagged.extend([0x81, 0, 0, 5]);
        tagged.extend(&frame[12..]);
        tagged[55] = 4 + sequence;
        frames.extend([frame, tagged]);
    }
    frames.push(v6(&[], 0));
    frames.push(v6(&[60, 0], 0));

    let bed = cable();
    let any = Filter::default();
    let v4 = IpAddr::from([10, 0, 0, 1]);
    let v6 = IpAddr::from([0xfdfd; 8]);
    let (nine, other) = (Some(9), Some(9 ^ 0x50));
    for (filter, taken) in [
        (any, 10),
        (Filter { source: Some(v4), ..any }, 6),
        (Filter { source: Some(v6), ..any }, 2),
        (Filter { source_port: nine, ..any }, 8),
        (Filter { source_port: other, ..any }, 2),
        (Filter { destination_port: nine, ..any }, 8),
        (Filter { destination_port: other, ..any }, 2),
        (Filter { source: Some(v4), source_port: nine, destination_port: nine }, 2),
        (Filter { source: Some(v6), source_port: other, destination_port: nine }, 0),
    ] {
        let config = MeterConfig { filter, ..expecting(2) };
        let (kernel, reference) = both(&bed, &frames, config, false);
        let frames = |summary: &MeterSummary| {
            let of = |flow| summary.flows.get(&flow).map_or(0, |flow| flow.frames);
            (of(0) + of(1), summary.foreign, summary.malformed)
        };
        assert_eq!(frames(&kernel), frames(&reference), "{filter:?}");
        assert_eq!(frames(&kernel), (taken, 10 - taken, 0), "{filter:?}");
    }
}
