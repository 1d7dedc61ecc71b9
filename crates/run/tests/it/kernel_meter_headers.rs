//! Frames without probes in the kernel's meter: known by their headers as in the reference, or by none.

use std::collections::BTreeMap;

use wirebeat_engine_linux::kernel::KernelReceiver;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::headers::HeaderTable;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;
use wirebeat_wire::headers::HeaderMatch;
use wirebeat_wire::probe::Probe;

use crate::kernel_meter::compare_as;

/// Of EtherType `kind`, with `rest` behind it.
fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[4; 6][..], &[2; 6], &kind.to_be_bytes(), rest].concat()
}

fn v4(protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + content.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(content);
    let mut frame = ethernet(0x0800, &packet);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn v6(protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, content.len() as u8, protocol, 64];
    packet.extend([0xfd; 15]);
    packet.push(1);
    packet.extend([0xfd; 15]);
    packet.push(2);
    packet.extend(content);
    ethernet(0x86dd, &packet)
}

fn ports(source: u16, destination: u16, rest: &[u8]) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), rest].concat()
}

fn tcp(source: u16, destination: u16) -> Vec<u8> {
    ports(source, destination, &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0])
}

fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    ports(
        source,
        destination,
        &[&(payload.len() as u16 + 8).to_be_bytes()[..], &[0, 0], payload].concat(),
    )
}

fn tagged(tags: &[u8], frame: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

fn with(mut frame: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    frame[at] = value;
    frame
}

/// Frames of all kinds that headers tell apart, each of a flow of its own.
fn kinds() -> Vec<Vec<u8>> {
    vec![
        v4(6, &tcp(1000, 80)),
        v4(6, &tcp(1000, 81)),
        v4(17, &udp(1000, 9, &[0; 30])),
        v4(17, &udp(1000, 10, &[0; 2])),
        v4(1, &[8, 0, 0, 0, 0, 1, 0, 1]),
        v4(1, &[0, 0, 0, 0, 0, 1, 0, 1]),
        v4(132, &ports(7, 8, &[0; 40])),
        v4(33, &ports(7, 8, &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        v4(136, &udp(7, 8, &[1; 9])),
        v4(47, &[1; 30]),
        v4(50, &[1, 2]),
        v6(6, &tcp(1000, 80)),
        v6(17, &udp(1000, 9, &[0; 30])),
        v6(58, &[128, 0, 0, 0, 0, 0, 0, 0]),
        // a destination option, then TCP
        v6(60, &[&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp(5, 6)].concat()),
        // an atomic fragment
        v6(44, &[&[17, 0, 0, 0, 0, 0, 0, 1][..], &udp(55, 66, &[3; 20])].concat()),
        ethernet(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2]),
        ethernet(0x88b5, &[1, 2, 3, 4, 5]),
        ethernet(0x88b5, &[1, 2, 3, 5, 5]),
        ethernet(0x88b6, &[1, 2, 3]),
        // a length, LLC
        ethernet(38, &[0x42, 0x42, 3, 0, 0]),
        // labels of MPLS
        ethernet(0x8847, &[0, 1, 1, 64, 0x45, 0, 0, 0]),
        // contradicts itself: longer than the frame
        with(v4(6, &tcp(1000, 82)), 16, 0xff),
        // a UDP header that contradicts itself
        with(v4(17, &udp(1000, 11, &[0; 30])), 38, 0xff),
    ]
}

fn config(headers: HeaderTable) -> MeterConfig {
    let recognised = headers.flows().iter().map(|(_, id)| (*id, Expectation::default())).collect();
    let flows = Flows::Expected(BTreeMap::from([(0, Expectation::default())]));
    let run_start = Some(Nanos::new(500));
    MeterConfig { flows, headers, recognised, run_start, ..MeterConfig::default() }
}

#[test]
fn frames_without_probes_are_known_by_their_headers_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let kinds = kinds();
    let mut headers = HeaderTable::default();
    for (frame, id) in kinds.iter().zip(1..) {
        headers.add(HeaderMatch::of(frame, |_| false).unwrap_or_else(|| panic!("{frame:?}")), id);
    }
    let mut frames = Vec::new();
    for (count, frame) in (1..).zip(&kinds) {
        (0..count).for_each(|_| frames.push(frame.clone()));
        // on another VLAN it is the same packet
        frames.push(tagged(&[0x81, 0, 0, 5], frame));
        frames.push(tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], frame));
        // of nobody, but for those whose changed byte says nothing
        for at in [0, 6, 13, 17, 23, 27, 31, 35, 37, 53] {
            if at < frame.len() {
                frames.push(with(frame.clone(), at, frame[at] ^ 0x11));
            }
        }
        // cut short
        frames.extend([14, 20, 33, 40, 57].map(|len| frame[..len.min(frame.len())].to_vec()));
    }
    // what ends with a probe is of its flow, or of those that its headers say
    let probe = |flow, sent| Probe { flow, sequence: 0, transmit_ns: sent }.to_bytes();
    for (flow, sent) in [(0, 1000), (0, 400), (7, 1000), (7, 400)] {
        frames.push(v4(17, &udp(1000, 9, &probe(flow, sent))));
        frames.push(v4(17, &udp(2000, 9, &probe(flow, sent))));
        frames.push(v4(6, &[&tcp(1000, 80)[..], &probe(flow, sent)].concat()));
        frames.push(v4(6, &[&tcp(2000, 80)[..], &probe(flow, sent)].concat()));
    }
    // fragments
    frames.push(with(v4(6, &tcp(1000, 80)), 20, 0x20));
    frames.push(v6(44, &[&[6, 0, 0, 1, 0, 0, 0, 1][..], &tcp(5, 6)].concat()));
    let summary = compare_as(&frames, &config(headers));
    for (id, frame) in (1..).zip(&kinds) {
        // itself, and with tags
        assert!(summary.flows[&id].frames >= u64::from(id) + 2, "{frame:x?}");
    }
    let others = [summary.foreign, summary.malformed, summary.unprobed.frames, summary.fragments];
    assert!(others.iter().all(|count| *count > 0), "{others:?}");
}

#[test]
fn header_fields_that_change_are_not_looked_at_alike() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let mut headers = HeaderTable::default();
    let mut frames = Vec::new();
    // as many different masks as there may be: bytes of source and destination, and of the port
    let changing = (0..4).flat_map(|a| (0..4).flat_map(move |b| (0..4).map(move |c| [a, b, c])));
    for (id, [a, b, c]) in (1..).zip(changing) {
        let changes = [[99, 26, 27, 28][a], [99, 30, 31, 32][b], [99, 34, 35, 37][c]];
        let frame = v4(6, &tcp(1000, 80));
        // the last byte of the source says whose it is
        let frame = with(frame, 29, id as u8);
        headers.add(HeaderMatch::of(&frame, |at| changes.contains(&at)).unwrap(), id);
        for value in 0..u8::try_from(id % 5 + 2).unwrap() {
            let change = |frame: Vec<u8>, at: &usize| match at {
                99 => frame,
                at => with(frame, *at, value),
            };
            frames.push(changes.iter().fold(frame.clone(), change));
        }
        frames.push(with(frame, 33, 7));
    }
    assert_eq!(headers.by_mask().len(), KernelReceiver::HEADER_MASKS);
    let summary = compare_as(&frames, &config(headers));
    for id in 1..=64_u16 {
        assert_eq!(summary.flows[&id].frames, u64::from(id % 5 + 2), "{id}");
    }
    assert_eq!(summary.foreign, 64);
}
