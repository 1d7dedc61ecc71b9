//! The packet engine: what goes wrong, and that the counters are consistent all the same.

use std::process::Command;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{PortError, RxPort, TxPort, TxTotals};
use wirebeat_engine_linux::packet::{PacketReceive, PacketRx};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::{Bytes, Nanos};

use crate::lab::{
    PATIENCE, bytes, cable, commit, fill, frame, frames, packet_opened, packet_receiver,
    packet_sender, payload, receive, send, sent, totals, versions,
};

fn soon() -> Nanos {
    MonotonicClock.now().saturating_add(Nanos::from_millis(20))
}

/// Sends one frame after the other until the port fails; returns how many were committed, and the
/// failure.
fn send_until_failure<P: TxPort>(port: &mut P, frame: &[u8]) -> (u64, PortError) {
    let deadline = MonotonicClock.now().saturating_add(PATIENCE);
    let mut committed = 0;
    while MonotonicClock.now() < deadline {
        if port.reserve(1).unwrap() > 0 {
            commit(port, &[(0, frame.to_vec())]).unwrap();
            committed += 1;
        }
        if let Err(error) = port.flush() {
            return (committed, error);
        }
    }
    panic!("the port did not notice");
}

#[test]
fn without_carrier_frames_wait_and_none_is_lost() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let mut sender = packet_sender(&cable.a, 1);
    let frame = frame(&cable, versions(&cable)[0], &payload(1, 18));
    // the far end of the cable is pulled out, which the sender sees as a device without room
    let mut far = cable.b.netlink().unwrap();
    far.set_down(cable.b.link.index).unwrap();
    let committed = fill(&mut sender, &frame);
    for _ in 0..100 {
        sender.flush().unwrap();
        assert_eq!(sender.reserve(1).unwrap(), 0, "the port stays full");
    }
    assert!(sender.stalls() >= 100, "{} stalls", sender.stalls());
    assert_eq!(totals(&sender, 1), [sent(0)]);

    // that receiver is gone with its interface; another takes over
    assert!(matches!(receiver.receive(soon(), |_| ()), Err(PortError::Gone(_))));
    far.set_up(cable.b.link.index).unwrap();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    assert!(sender.drain(MonotonicClock.now().saturating_add(PATIENCE)).unwrap());
    assert_eq!(totals(&sender, 1), [sent(committed)]);
    assert_eq!(receive(&mut receiver, committed as usize).len() as u64, committed);
}

#[test]
fn what_cannot_be_sent_by_the_deadline_has_failed() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut sender = packet_sender(&cable.a, 1);
    let frame = frame(&cable, versions(&cable)[0], &payload(1, 18));
    send(&mut sender, 10, &vec![(0, frame.clone()); 10]);
    cable.b.netlink().unwrap().set_down(cable.b.link.index).unwrap();
    let committed = fill(&mut sender, &frame);
    assert!(!sender.drain(soon()).unwrap());
    assert_eq!(totals(&sender, 1), [TxTotals { failed: frames(committed), ..sent(10) }]);
    assert!(sender.drain(soon()).unwrap(), "nothing is left");
}

#[test]
fn what_waits_at_a_stop_is_withdrawn() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut sender = packet_sender(&cable.a, 1);
    let frame = frame(&cable, versions(&cable)[0], &payload(1, 18));
    cable.b.netlink().unwrap().set_down(cable.b.link.index).unwrap();
    let committed = fill(&mut sender, &frame);
    sender.flush().unwrap();
    sender.stop().unwrap();
    assert_eq!(totals(&sender, 1), [TxTotals { withdrawn: frames(committed), ..sent(0) }]);
}

#[test]
fn an_interface_that_goes_away_ends_the_run_with_its_counters() {
    require!(Capability::NetworkNamespaces);
    for removed in [false, true] {
        let cable = cable();
        let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
        let mut sender = packet_sender(&cable.a, 1);
        let frame = frame(&cable, versions(&cable)[0], &payload(1, 18));
        let mut netlink = cable.a.netlink().unwrap();
        let index = cable.a.link.index;
        let remover = std::thread::spawn(move || {
            std::thread::sleep(Nanos::from_millis(30).to_duration());
            if removed { netlink.delete_link(index) } else { netlink.set_down(index) }.unwrap();
        });
        let (committed, error) = send_until_failure(&mut sender, &frame);
        remover.join().unwrap();
        assert_eq!(error.to_string(), "interface wb0 went down or was removed");
        let [sum] = totals(&sender, 1)[..] else { panic!("one tag") };
        assert_eq!(sum.sent.frames + sum.failed.frames, committed);
        assert!(sum.sent.frames > 0 && sum.failed.frames > 0, "{sum:?}");
        // what was sent arrives, although the far end lost its carrier; if it went away with the near
        // one, the kernel may have thrown away what it was just going to deliver
        let mut arrived = 0;
        let end = loop {
            match receiver.receive(soon(), |_| arrived += 1) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        assert_eq!(end.is_some(), removed, "{end:?}");
        assert!(
            arrived == sum.sent.frames || removed && arrived < sum.sent.frames,
            "{arrived} of {sum:?}"
        );
    }
}

#[test]
fn frames_that_became_too_long_fail_and_the_others_pass() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    let cable = cable();
    let mut receiver = packet_receiver(&cable.b, PacketReceive::default());
    let mut sender = packet_sender(&cable.a, 2);
    let lower = || Command::new("ip").args(["link", "set", "wb0", "mtu", "1400"]).status();
    assert!(cable.a.namespace.run(lower).unwrap().unwrap().success());
    let short = frame(&cable, versions(&cable)[0], &payload(1, 1_372));
    let long = frame(&cable, versions(&cable)[0], &payload(2, 1_373));
    let sent_frames: Vec<_> =
        (0..90).map(|n| if n % 3 == 0 { (1, long.clone()) } else { (0, short.clone()) }).collect();
    send(&mut sender, 30, &sent_frames);
    assert_eq!(bytes(&receive(&mut receiver, 60)), vec![short; 60]);
    let failed = TxTotals { failed: frames(30), ..sent(0) };
    assert_eq!(totals(&sender, 2), [sent(60), failed]);
}

#[test]
fn what_a_full_ring_loses_is_counted() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let small = PacketReceive { ring: Bytes::new(1), ..PacketReceive::default() };
    let mut receiver = packet_receiver(&cable.b, small);
    let mut sender = packet_sender(&cable.a, 1);
    let frame = frame(&cable, versions(&cable)[0], &payload(1, 18));
    send(&mut sender, 64, &vec![(0, frame); 20_000]);
    let arrived = receive(&mut receiver, 0).len() as u64;
    let drops = receiver.receive_drops();
    assert!(arrived > 100 && drops > 1_000, "{arrived} arrived, {drops} dropped");
    assert_eq!(arrived + drops, 20_000);
    assert_eq!(receiver.receive_drops(), drops, "asking does not change it");
}

#[test]
fn ports_that_cannot_be_opened_say_why() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let open =
        |interface: &str, frame_max| packet_opened(&cable.a, interface, frame_max).unwrap_err();
    let missing = open("eth7", 60);
    assert!(matches!(missing, PortError::Missing { engine: "packet", .. }));
    let text = "the packet engine cannot run on eth7: there is no interface 'eth7' here";
    assert!(missing.to_string().starts_with(text), "{missing}");
    cable.b.netlink().unwrap().set_down(cable.b.link.index).unwrap();
    let down = || PacketRx::open("wb1", &PacketReceive::default(), None);
    assert_eq!(
        cable.b.namespace.run(down).unwrap().unwrap_err().to_string(),
        "the packet engine cannot run on wb1: the interface is switched off; switch it on with \
         'ip link set wb1 up'"
    );
    assert_eq!(
        open("wb0", 1_519).to_string(),
        "the packet engine cannot send frames of 1523 bytes by wb0: its MTU of 1500 allows 1522 with \
         FCS; send shorter ones, or raise the MTU"
    );
}
