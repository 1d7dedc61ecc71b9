//! A watch tells when an interface goes down, loses its peer, or is removed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirebeat_netlink::{LinkEvent, LinkState, LinkWatch};
use wirebeat_testbed::{Addressing, Capability, End, Options, Testbed, require};

use crate::PATIENCE;

fn pair() -> Testbed {
    Testbed::pair(&Options { addressing: Addressing::V4, ..Options::default() }).unwrap()
}

fn watch(end: &End) -> LinkWatch {
    LinkWatch::open_in(&end.namespace, std::slice::from_ref(&end.link)).unwrap()
}

/// The next events, waited for.
fn next(watch: &mut LinkWatch) -> Vec<LinkEvent> {
    loop {
        let mut ready = [PollFd::new(&*watch, PollFlags::IN)];
        let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        assert_eq!(poll(&mut ready, Some(&timeout)).unwrap(), 1, "nothing was told");
        let events = watch.events().unwrap();
        if !events.is_empty() {
            return events;
        }
    }
}

fn state(end: &End, state: LinkState) -> LinkEvent {
    LinkEvent::State { index: end.link.index, name: end.link.name.clone(), state }
}

fn removed(end: &End) -> LinkEvent {
    LinkEvent::Removed { index: end.link.index, name: end.link.name.clone() }
}

#[test]
fn going_down_and_coming_back_is_told_at_both_ends() {
    require!(Capability::NetworkNamespaces);
    let testbed = pair();
    let (a, b) = (&testbed.a, &testbed.b);
    let (mut at_a, mut at_b) = (watch(a), watch(b));
    assert_eq!(at_a.events().unwrap(), []);
    let mut netlink = a.netlink().unwrap();
    netlink.set_down(a.link.index).unwrap();
    assert_eq!(next(&mut at_a), [state(a, LinkState::Down)]);
    assert_eq!(next(&mut at_b), [state(b, LinkState::NoCarrier)]);
    netlink.set_up(a.link.index).unwrap();
    assert_eq!(next(&mut at_b), [state(b, LinkState::Up)]);
    assert_eq!(next(&mut at_a).last(), Some(&state(a, LinkState::Up)));
}

#[test]
fn removal_is_told_at_both_ends() {
    require!(Capability::NetworkNamespaces);
    let testbed = pair();
    let (mut at_a, mut at_b) = (watch(&testbed.a), watch(&testbed.b));
    testbed.a.netlink().unwrap().delete_link(testbed.a.link.index).unwrap();
    assert_eq!(next(&mut at_a).last(), Some(&removed(&testbed.a)));
    assert_eq!(next(&mut at_b).last(), Some(&removed(&testbed.b)));
}

#[test]
fn a_change_before_the_watch_was_open_is_told() {
    require!(Capability::NetworkNamespaces);
    let testbed = pair();
    let (a, b) = (&testbed.a, &testbed.b);
    b.netlink().unwrap().set_down(b.link.index).unwrap();
    assert_eq!(watch(a).events().unwrap(), [state(a, LinkState::NoCarrier)]);
    a.netlink().unwrap().delete_link(a.link.index).unwrap();
    assert_eq!(watch(a).events().unwrap(), [removed(a)]);
}

#[test]
fn more_news_than_the_socket_holds_do_not_hide_the_end() {
    require!(Capability::NetworkNamespaces);
    let testbed = pair();
    let mut at_b = watch(&testbed.b);
    let mut netlink = testbed.b.netlink().unwrap();
    // Each turn is several messages of more than a kilobyte; the socket holds some 200 kB.
    for _ in 0..500 {
        netlink.set_down(testbed.b.link.index).unwrap();
        netlink.set_up(testbed.b.link.index).unwrap();
    }
    netlink.set_down(testbed.b.link.index).unwrap();
    let events = at_b.events().unwrap();
    assert_eq!(events.last(), Some(&state(&testbed.b, LinkState::Down)));
}
