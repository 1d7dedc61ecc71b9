//! Links that are down: a port waits for its own before it is used, and a run goes on while one comes back.
//!
//! Many cards reset when an XDP program is attached or their rings change, and negotiate their speed again: their link is down
//! for seconds. A switch that restarts does the same to everybody.

use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_netlink::{Link, LinkEvent, LinkState, LinkWatch};
use wirebeat_report::model::{End, Outage};
use wirebeat_traffic::scenario::OnLinkDown;
use wirebeat_units::{Nanos, fault};

use crate::error::RunError;
use crate::ports::ResolvedPort;

/// How often a link is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(10);
/// A wait shorter than this is not worth a word.
const WORTH_A_WORD: Nanos = Nanos::from_millis(100);

/// Waits until the link of a port can carry frames, for `timeout` at the most from when the wait began: links come up beside
/// each other. What it says of a wait that was long.
///
/// # Errors
/// It is switched off, or did not come up in time.
pub(crate) fn await_up(
    port: &ResolvedPort,
    begun: Nanos,
    timeout: Nanos,
) -> Result<Option<String>, RunError> {
    let Some(link) = &port.link else { return Ok(None) };
    let mut netlink = port.netlink()?;
    let mut was_down = false;
    loop {
        let found = netlink.link_by_index(link.index);
        let state = found.map_err(|error| RunError::machine(error.fault()))?.state;
        let waited = MonotonicClock.now().saturating_sub(begun);
        let interface = port.interface();
        match state {
            LinkState::Up if !was_down || waited < WORTH_A_WORD => return Ok(None),
            LinkState::Up => {
                return Ok(Some(format!("waited {waited} for the link of {interface} to come up")));
            }
            LinkState::Down => {
                let inside = match &port.spec.namespace {
                    Some(namespace) => format!("-n {namespace} "),
                    None => String::new(),
                };
                let why = fault!(
                    "the interface {interface} is switched off";
                    "switch it on with 'ip {inside}link set {interface} up'"
                );
                return Err(RunError::machine(why.at(place(port))));
            }
            LinkState::NoCarrier if waited >= timeout => {
                let why = fault!(
                    "the link of {interface} is down (no carrier), and did not come up within {timeout}";
                    "connect it and switch the other end on, or let 'run' and 'send' wait longer with --link-timeout"
                );
                return Err(RunError::machine(why.at(place(port))));
            }
            LinkState::NoCarrier => {
                was_down = true;
                thread::sleep(LOOK);
            }
        }
    }
}

/// A port, with its namespace: interfaces of two namespaces may have one name.
fn place(port: &ResolvedPort) -> String {
    match &port.spec.namespace {
        Some(namespace) => format!("port '{}' in the namespace {namespace}", port.name),
        None => format!("port '{}'", port.name),
    }
}

/// Watches the link of a port.
pub(crate) fn watch(port: &ResolvedPort, link: &Link) -> Result<LinkWatch, RunError> {
    let links = std::slice::from_ref(link);
    match &port.namespace {
        Some(namespace) => {
            LinkWatch::open_in(namespace, links).map_err(|error| RunError::machine(error.fault()))
        }
        None => LinkWatch::open(links).map_err(|error| RunError::machine(error.fault())),
    }
}

/// The links of a run, and what became of them.
#[derive(Debug)]
pub(crate) struct Links {
    watches: Vec<LinkWatch>,
    policy: OnLinkDown,
    /// Those that are down, and since when.
    down: Vec<(String, Nanos)>,
    /// Those that came back.
    outages: Vec<Outage>,
    origin: Nanos,
}

impl Links {
    /// Follows what these tell, by `policy`. Times are from `origin` on.
    pub(crate) fn new(watches: Vec<LinkWatch>, policy: OnLinkDown, origin: Nanos) -> Links {
        Links { watches, policy, down: Vec::new(), outages: Vec::new(), origin }
    }

    /// What has happened by `now`, and why the run has to end, if it has to.
    pub(crate) fn look(&mut self, now: Nanos) -> Option<End> {
        let events: Vec<LinkEvent> =
            self.watches.iter_mut().flat_map(|watch| watch.events().unwrap_or_default()).collect();
        for event in events {
            if let Some(end) = self.note(event, now) {
                return Some(end);
            }
        }
        let OnLinkDown::Wait(longest) = self.policy else { return None };
        let too_long = self.down.iter().find(|(_, since)| now.saturating_sub(*since) > longest)?;
        Some(End::InterfaceGone { interface: too_long.0.clone() })
    }

    fn note(&mut self, event: LinkEvent, now: Nanos) -> Option<End> {
        match event {
            LinkEvent::State { name, state: LinkState::Up, .. } => {
                if let Some(at) = self.down.iter().position(|(down, _)| *down == name) {
                    let (interface, since) = self.down.remove(at);
                    self.outages.push(self.outage(interface, since, now));
                }
                None
            }
            LinkEvent::State { name, state: LinkState::NoCarrier, .. }
                if self.policy != OnLinkDown::End =>
            {
                if !self.down.iter().any(|(down, _)| *down == name) {
                    self.down.push((name, now));
                }
                None
            }
            // switched off by somebody, or removed: it does not come back by itself
            LinkEvent::State { name, .. } | LinkEvent::Removed { name, .. } => {
                Some(End::InterfaceGone { interface: name })
            }
        }
    }

    fn outage(&self, interface: String, since: Nanos, until: Nanos) -> Outage {
        Outage {
            interface,
            at_ns: since.saturating_sub(self.origin).get(),
            lasted_ns: until.saturating_sub(since).get(),
        }
    }

    /// All outages, in the order of their ends, of which those that go on end `now`; and the watches.
    pub(crate) fn finish(mut self, now: Nanos) -> (Vec<Outage>, Vec<LinkWatch>) {
        let open: Vec<Outage> = std::mem::take(&mut self.down)
            .into_iter()
            .map(|(interface, since)| self.outage(interface, since, now))
            .collect();
        self.outages.extend(open);
        (self.outages, self.watches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn state(name: &str, state: LinkState) -> LinkEvent {
        LinkEvent::State {
            index: wirebeat_netlink::LinkIndex::new(7),
            name: name.to_owned(),
            state,
        }
    }

    fn links(policy: OnLinkDown) -> Links {
        Links::new(Vec::new(), policy, ms(1000))
    }

    #[test]
    fn a_link_that_comes_back_in_time_is_an_outage() {
        let mut links = links(OnLinkDown::Wait(ms(500)));
        assert_eq!(links.note(state("eth1", LinkState::NoCarrier), ms(1100)), None);
        assert_eq!(links.look(ms(1600)), None);
        assert_eq!(links.note(state("eth1", LinkState::Up), ms(1601)), None);
        assert_eq!(links.look(ms(9000)), None);
        assert_eq!(links.note(state("eth2", LinkState::NoCarrier), ms(9000)), None);
        let outage = |interface: &str, at, lasted| Outage {
            interface: interface.to_owned(),
            at_ns: ms(at).get(),
            lasted_ns: ms(lasted).get(),
        };
        let expected = [outage("eth1", 100, 501), outage("eth2", 8000, 20)];
        assert_eq!(links.finish(ms(9020)).0, expected);
    }

    #[test]
    fn a_link_that_stays_down_ends_the_run() {
        let mut links = links(OnLinkDown::Wait(ms(500)));
        assert_eq!(links.note(state("eth1", LinkState::NoCarrier), ms(1100)), None);
        let gone = Some(End::InterfaceGone { interface: "eth1".to_owned() });
        assert_eq!(links.look(ms(1601)), gone);
    }

    #[test]
    fn a_link_that_is_switched_off_or_must_not_go_down_ends_the_run_at_once() {
        let gone = Some(End::InterfaceGone { interface: "eth1".to_owned() });
        let mut waits = links(OnLinkDown::Wait(ms(500)));
        assert_eq!(waits.note(state("eth1", LinkState::Down), ms(1100)), gone);
        let mut ends = links(OnLinkDown::End);
        assert_eq!(ends.note(state("eth1", LinkState::NoCarrier), ms(1100)), gone);
    }
}
