//! The packet engine: what passes.

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::RxPort;
use wirebeat_engine_linux::packet::{Accept, Fanout, PacketReceive};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::lab::{
    LISTENERS, assert_times, bytes, cable, frame, packet_receiver, packet_sender, payload, receive,
    send, sent, totals, versions,
};

/// Lengths from the shortest to the longest frame, over and over.
fn payload_len(index: u32) -> usize {
    4 + (index as usize * 37) % 1449
}

#[test]
fn every_frame_arrives_with_its_bytes_length_and_a_time() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for addresses in versions(&cable) {
        let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
        let mut sender = packet_sender(&cable.a, 3);
        let frames: Vec<_> = (0..5_000)
            .map(|index| (index % 3, frame(&cable, addresses, &payload(index, payload_len(index)))))
            .collect();
        let from = MonotonicClock.now();
        send(&mut sender, 50, &frames);
        let arrived = receive(&mut receiver, frames.len());
        let expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
        assert!(bytes(&arrived) == expected, "{} arrived", arrived.len());
        assert_eq!(totals(&sender, 3), [sent(1_667), sent(1_667), sent(1_666)]);
        assert_eq!(receiver.receive_drops(), 0);
        assert!(arrived.iter().all(|a| a.frame_len as usize == a.bytes.len() + 4));
        assert!(receiver.timestamp_error() < Nanos::from_micros(20));
        assert_times(&arrived, from, MonotonicClock.now());
    }
}

#[test]
fn single_frames_and_batches_are_the_same() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let mut sender = packet_sender(&cable.a, 1);
    let mut expected = Vec::new();
    for batch in [1, 2, 63, 64, 65, 300] {
        let frames: Vec<_> = (0..300)
            .map(|index| (0, frame(&cable, versions(&cable)[0], &payload(index, 18))))
            .collect();
        send(&mut sender, batch, &frames);
        expected.extend(frames.into_iter().map(|(_, bytes)| bytes));
    }
    assert!(bytes(&receive(&mut receiver, expected.len())) == expected);
    assert_eq!(totals(&sender, 1), [sent(1_800)]);
}

#[test]
fn vlan_tags_arrive_where_they_were() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let mut sender = packet_sender(&cable.a, 1);
    let tags: [&[u8]; 4] = [
        &[0x81, 0x00, 0x20, 0x07],
        &[0x88, 0xa8, 0x0f, 0xff],
        &[0x88, 0xa8, 0x00, 0x01, 0x81, 0x00, 0x00, 0x02],
        &[],
    ];
    let mut frames = Vec::new();
    for addresses in versions(&cable) {
        for tag in tags {
            let plain = frame(&cable, addresses, &payload(0, 40));
            frames.push((0, [&plain[..12], tag, &plain[12..]].concat()));
        }
    }
    send(&mut sender, 1, &frames);
    let arrived = receive(&mut receiver, frames.len());
    let expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes(&arrived), expected);
    assert!(arrived.iter().all(|a| a.frame_len as usize == a.bytes.len() + 4));
}

#[test]
fn foreign_traffic_is_not_delivered() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let everything = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
    let mut receiver = packet_receiver(&cable.b, everything);
    let mut sender = packet_sender(&cable.a, 2);
    let good = frame(&cable, versions(&cable)[0], &payload(1, 30));
    let mut traffic = Vec::new();
    for index in 0..2_000 {
        let mut noise = payload(index, 14 + index as usize % 1_400);
        // no EtherType of IP or of a tag
        noise[12] |= 0x10;
        traffic.push((1, noise));
        let protocol = [1, 6, 47, 50, 132][index as usize % 5];
        let mut other = good.clone();
        other[14 + 9] = protocol;
        traffic.push((1, other));
        // cut short before the protocol
        traffic.push((1, good[..14 + index as usize % 9].to_vec()));
        if index % 100 == 0 {
            traffic.push((0, good.clone()));
        }
    }
    send(&mut sender, 64, &traffic);
    assert_eq!(bytes(&receive(&mut receiver, 20)), vec![good; 20]);
    assert_eq!(totals(&sender, 2), [sent(20), sent(6_000)]);
    assert_eq!(receiver.receive_drops(), 0);
}

#[test]
fn frames_for_others_come_only_in_promiscuous_mode() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let receive_as =
        |accept| packet_receiver(&cable.b, PacketReceive { accept, ..PacketReceive::default() });
    let mut ours = receive_as(Accept::Ours);
    let mut all = receive_as(Accept::All);
    let mut sender = packet_sender(&cable.a, 1);
    let mine = frame(&cable, versions(&cable)[0], &payload(1, 30));
    let mut other = mine.clone();
    other[5] ^= 0x55;
    let mut broadcast = mine.clone();
    broadcast[..6].fill(0xff);
    let frames = [&other, &mine, &broadcast, &other].map(|bytes| (0, bytes.clone()));
    send(&mut sender, 4, &frames);
    assert_eq!(bytes(&receive(&mut ours, 2)), [mine.clone(), broadcast.clone()]);
    assert_eq!(bytes(&receive(&mut all, 4)), [other.clone(), mine, broadcast, other]);
}

#[test]
fn what_leaves_by_the_interface_does_not_come_in() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut near = packet_receiver(&cable.a, PacketReceive::default());
    let mut far = packet_receiver(&cable.b, PacketReceive::default());
    let mut sender = packet_sender(&cable.a, 1);
    let sent = frame(&cable, versions(&cable)[0], &payload(1, 30));
    send(&mut sender, 1, &[(0, sent.clone())]);
    assert_eq!(bytes(&receive(&mut far, 1)), [sent]);
    assert_eq!(receive(&mut near, 0), []);
}

#[test]
fn several_queues_divide_the_frames_by_flow() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let share =
        |fanout| packet_receiver(&cable.b, PacketReceive { fanout, ..PacketReceive::default() });
    let first = share(Fanout::New);
    let group = first.group().expect("it has a group");
    let mut queues = [first, share(Fanout::Join(group)), share(Fanout::Join(group))];
    let mut sender = packet_sender(&cable.a, 1);
    let mut frames = Vec::new();
    for index in 0..3_000u32 {
        let mut bytes = frame(&cable, versions(&cable)[0], &payload(index, 18));
        // 60 flows by their source ports; the checksum covers them
        bytes[14 + 20 + 1] = (index % 60) as u8;
        bytes[14 + 20 + 6..][..2].fill(0);
        frames.push((0, bytes));
    }
    send(&mut sender, 64, &frames);
    let mut all = Vec::new();
    let mut used = 0;
    let mut flows = [None; 60];
    for (queue, port) in queues.iter_mut().enumerate() {
        let arrived = bytes(&receive(port, 0));
        used += usize::from(!arrived.is_empty());
        for bytes in &arrived {
            let flow = &mut flows[usize::from(bytes[35])];
            assert_eq!(*flow.get_or_insert(queue), queue, "a flow stays in one queue");
        }
        all.extend(arrived);
    }
    assert!(used > 1, "the frames were divided");
    let mut expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
    all.sort();
    expected.sort();
    assert!(all == expected, "{} of 3000 arrived", all.len());
}

#[test]
fn the_first_group_after_a_boot_has_number_0_and_is_a_group() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let share =
        |fanout| packet_receiver(&cable.b, PacketReceive { fanout, ..PacketReceive::default() });
    // groups belong to a namespace, and this one is new
    assert_eq!(share(Fanout::Join(0)).group(), Some(0));
    assert!(share(Fanout::New).group().is_some());
    assert_eq!(share(Fanout::Alone).group(), None);
}

#[test]
fn a_port_sends_and_receives() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let both = |end: &wirebeat_testbed::End| {
        let receive = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
        (packet_sender(end, 1), packet_receiver(end, receive))
    };
    let ((mut a_tx, mut a_rx), (mut b_tx, mut b_rx)) = (both(&cable.a), both(&cable.b));
    let there = frame(&cable, versions(&cable)[0], &payload(1, 30));
    let back = frame(&cable, versions(&cable)[0], &payload(2, 30));
    send(&mut a_tx, 1, &[(0, there.clone())]);
    send(&mut b_tx, 1, &[(0, back.clone())]);
    assert_eq!(bytes(&receive(&mut b_rx, 1)), [there]);
    assert_eq!(bytes(&receive(&mut a_rx, 1)), [back]);
}

#[test]
fn receiving_waits_no_longer_than_asked() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let start = MonotonicClock.now();
    let until = start.saturating_add(Nanos::from_millis(30));
    // but for what the hosts say of the groups that they listen to
    let mut wait = |until| {
        while receiver.receive(until, |a| assert!(a.bytes.starts_with(&LISTENERS))).unwrap() > 0 {}
    };
    wait(until);
    assert!(MonotonicClock.now() >= until);
    wait(Nanos::ZERO);
    assert!(MonotonicClock.now().saturating_sub(start) < Nanos::from_secs(5));
}
