//! What is known of the machine's links, and the addresses of a flow that follow from it.
//!
//! What the scenario writes out comes first, then what it says of the port, then what the machine
//! knows. Whoever calls the compiler asks the machine; here it is plain data.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_units::{BitRate, Fault, fault};
use wirebeat_wire::ip::Version;
use wirebeat_wire::mac::MacAddr;

use super::CompileError;
use crate::scenario::header::ethernet::Ethernet;
use crate::scenario::{FlowSpec, Invalid, KeyPath, Network, PortSpec, Scenario};

/// Where frames go on a link that does not exist.
const IMAGINARY_NEXT_HOP: MacAddr = MacAddr([0x02, 0, 0, 0xff, 0xff, 0xff]);

/// What is known of the links, by the name of their port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Ports that are missing are links of which nothing is known.
    pub ports: HashMap<String, Link>,
}

/// What is known of a link.
///
/// For engines without a link layer of their own there are [`Link::imaginary`] and [`Link::of_sockets`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The interface's Ethernet address.
    pub mac: Option<MacAddr>,
    /// The interface's addresses; the first of a family is the default source and destination.
    pub addresses: Vec<IpAddr>,
    /// Its speed, as far as it limits what can be sent.
    pub speed: Option<BitRate>,
    /// Whether that is a guess: shares of it are worked out, and nothing is refused because of it.
    pub speed_is_assumed: bool,
    /// The longest network packet that a frame carries, in bytes; `None` is as good as 9,000.
    pub mtu: Option<u32>,
    /// The way to each destination.
    pub routes: HashMap<IpAddr, Route>,
    /// The next hop to destinations without a route.
    pub next_hop: Option<MacAddr>,
}

/// The way to a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The address that the system would send from.
    pub source: Option<IpAddr>,
    /// The Ethernet address of the destination, or of the router on the way.
    pub next_hop: Option<MacAddr>,
}

impl Link {
    /// A link for engines that have none, `pcap` and `loopback`; `number` tells the ports of a scenario
    /// apart. Its addresses are of the ranges for benchmarks (RFC 2544, RFC 5180) and, on the link
    /// layer, locally administered ones.
    pub fn imaginary(number: u16) -> Link {
        let [high, low] = number.to_be_bytes();
        // The first of each network is not a host's address.
        let host = number.saturating_add(1);
        let [host_high, host_low] = host.to_be_bytes();
        Link {
            mac: Some(MacAddr([0x02, 0, 0, 0, high, low])),
            addresses: vec![
                Ipv4Addr::new(198, 18, host_high, host_low).into(),
                Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host).into(),
            ],
            next_hop: Some(IMAGINARY_NEXT_HOP),
            ..Link::default()
        }
    }

    /// The link of the engine `socket`, whose system finds source and next hop by itself.
    pub fn of_sockets() -> Link {
        Link {
            mac: Some(MacAddr::default()),
            addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            next_hop: Some(MacAddr::default()),
            ..Link::default()
        }
    }

    /// Whether it is [that](Link::of_sockets) of the engine `socket`: what is not known of it is no address.
    pub(super) fn is_of_sockets(&self) -> bool {
        self.mac == Some(MacAddr::default())
    }
}

/// The longest network packet that the link of the port `name` carries: the less of what is written of it and what
/// is known.
pub(super) fn mtu(scenario: &Scenario, links: &Links, name: &str) -> Option<u32> {
    let written = scenario.ports.get(name).and_then(|port| port.mtu);
    let written = written.map(|mtu| u32::try_from(mtu.get()).unwrap_or(u32::MAX));
    let known = links.ports.get(name).and_then(|link| link.mtu);
    written.into_iter().chain(known).min()
}

/// A place that a port sends to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The name of the port.
    pub port: String,
    /// Where to.
    pub address: IpAddr,
    /// The station that frames to it go to first, where all flows that go there write it: nobody has to be asked.
    pub next_hop: Option<MacAddr>,
}

/// The destinations to which the machine has to know a way, each once: those of flows that do not
/// write their source and link-layer addresses out. Of `links` it needs the addresses only.
pub fn destinations(scenario: &Scenario, links: &Links) -> Result<Vec<Destination>, CompileError> {
    let mut places: HashMap<(String, IpAddr), usize> = HashMap::new();
    let mut destinations: Vec<Destination> = Vec::new();
    for (name, flow) in &scenario.flows {
        // Of phases, those that have another packet than the one before.
        let mut phases = flow.phases();
        phases.dedup_by(|after, before| after.flow.packet == before.flow.packet);
        for phase in &phases {
            let Some(ends) = Ends::of(scenario, links, name, &phase.flow)? else { continue };
            let address = ends.destination()?;
            let next_hop = ends.written_next_hop(address);
            if ends.written_source().is_some() && next_hop.is_some() {
                continue;
            }
            let port = flow.from.clone();
            match places.entry((port.clone(), address)) {
                Entry::Vacant(place) => {
                    place.insert(destinations.len());
                    destinations.push(Destination { port, address, next_hop });
                }
                Entry::Occupied(place) => {
                    let known = destinations.get_mut(*place.get());
                    known.into_iter().for_each(|to| to.next_hop = to.next_hop.and(next_hop));
                }
            }
        }
    }
    Ok(destinations)
}

/// The addresses of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) source_mac: MacAddr,
    pub(super) destination_mac: MacAddr,
}

/// Finds the addresses of the flow `name`; `None` for frames without a network header, which say themselves
/// where they go.
pub(super) fn addresses(
    scenario: &Scenario,
    links: &Links,
    name: &str,
    flow: &FlowSpec,
) -> Result<Option<Addresses>, CompileError> {
    let Some(ends) = Ends::of(scenario, links, name, flow)? else { return Ok(None) };
    let destination = ends.destination()?;
    Ok(Some(Addresses {
        source: ends.source(destination)?,
        destination,
        source_mac: ends.source_mac()?,
        destination_mac: ends.destination_mac(destination)?,
    }))
}

/// All that is said about the two ends of a flow.
struct Ends<'a> {
    name: &'a str,
    flow: &'a FlowSpec,
    network: Network<'a>,
    ethernet: Option<&'a Ethernet>,
    scenario: &'a Scenario,
    links: &'a Links,
    from: Option<&'a PortSpec>,
    link: Option<&'a Link>,
}

impl<'a> Ends<'a> {
    fn of(
        scenario: &'a Scenario,
        links: &'a Links,
        name: &'a str,
        flow: &'a FlowSpec,
    ) -> Result<Option<Self>, Invalid> {
        let packet = flow.headers(name)?;
        let Some(network) = packet.network else { return Ok(None) };
        Ok(Some(Ends {
            name,
            flow,
            network,
            ethernet: packet.ethernet,
            scenario,
            links,
            from: scenario.ports.get(&flow.from),
            link: links.ports.get(&flow.from),
        }))
    }

    fn destination(&self) -> Result<IpAddr, CompileError> {
        let of_port = |to: &String| {
            let written = self.scenario.ports.get(to).and_then(|port| self.first(&port.addresses));
            written.or_else(|| self.first(&self.links.ports.get(to)?.addresses))
        };
        let address = self.network.destination().or_else(|| of_port(self.flow.to.as_ref()?));
        address.filter(|address| !address.is_unspecified()).ok_or_else(|| {
            let family = self.family();
            self.unknown(match &self.flow.to {
                Some(to) => fault!(
                    "no {family} address of port '{to}' is known";
                    "give the network header a 'destination', or the port 'addresses'"
                ),
                None => "give the network header a 'destination'".into(),
            })
        })
    }

    /// The source address as far as the scenario gives it.
    fn written_source(&self) -> Option<IpAddr> {
        self.network.source().or_else(|| self.first(&self.from?.addresses))
    }

    fn source(&self, destination: IpAddr) -> Result<IpAddr, CompileError> {
        let by_route =
            || self.link?.routes.get(&destination)?.source.filter(|a| self.network.speaks(a));
        let by_link = || self.first(&self.link?.addresses);
        self.written_source().or_else(by_route).or_else(by_link).ok_or_else(|| {
            self.unknown(fault!(
                "port '{}' has no {} address to send from", self.flow.from, self.family();
                "give the network header a 'source', or the port 'addresses'"
            ))
        })
    }

    fn source_mac(&self) -> Result<MacAddr, CompileError> {
        let written = self.ethernet.and_then(|ethernet| ethernet.source.as_ref());
        written.map(|mac| mac.first().0).or_else(|| self.link?.mac).ok_or_else(|| {
            self.unknown(fault!(
                "port '{}' has no Ethernet address", self.flow.from;
                "give the packet an ethernet header with a 'source'"
            ))
        })
    }

    /// The link-layer destination as far as it follows from the scenario.
    fn written_next_hop(&self, destination: IpAddr) -> Option<MacAddr> {
        // Whoever asks for an address does not know where it is.
        let request = matches!(self.network, Network::Arp(_)).then_some(MacAddr::BROADCAST);
        self.ethernet
            .and_then(|ethernet| ethernet.destination.as_ref().map(|mac| mac.first().0))
            .or(request)
            .or_else(|| self.from?.next_hop)
            .or_else(|| MacAddr::of_group(destination))
    }

    fn destination_mac(&self, destination: IpAddr) -> Result<MacAddr, CompileError> {
        let by_route = || self.link?.routes.get(&destination)?.next_hop;
        let by_link = || self.link?.next_hop;
        self.written_next_hop(destination).or_else(by_route).or_else(by_link).ok_or_else(|| {
            self.unknown(fault!(
                "no next hop is known from port '{}' to {destination}", self.flow.from;
                "check that it answers, or give the port a 'next-hop'"
            ))
        })
    }

    /// The first address of the packet's family.
    fn first(&self, addresses: &[IpAddr]) -> Option<IpAddr> {
        addresses.iter().copied().find(|address| self.network.speaks(address))
    }

    fn family(&self) -> &'static str {
        match self.network.version() {
            Version::V4 => "IPv4",
            Version::V6 => "IPv6",
        }
    }

    fn unknown(&self, why: Fault) -> CompileError {
        CompileError::Unknown(KeyPath::flow(self.name).key("packet").invalid(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(port_a: &str, packet: &str) -> Scenario {
        let text = format!(
            "ports: {{ a: {{ {port_a} }}, b: {{}} }}\nflows: {{ x: {{ from: a, to: b, packet: [ {packet}, {{ udp: {{}} }} ] }} }}"
        );
        Scenario::from_yaml(&text, "").unwrap()
    }

    fn of(scenario: &Scenario, links: &Links) -> Result<Addresses, String> {
        let found = addresses(scenario, links, "x", &scenario.flows["x"]);
        found.map(Option::unwrap).map_err(|error| error.to_string())
    }

    fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn known() -> Links {
        let route = Route { source: Some(ip("10.0.0.9")), next_hop: Some(mac(9)) };
        let a = Link {
            mac: Some(mac(1)),
            addresses: vec![ip("fd00::1"), ip("10.0.0.1")],
            routes: [(ip("10.0.0.3"), route)].into(),
            next_hop: Some(mac(2)),
            ..Link::default()
        };
        let b = Link { addresses: vec![ip("10.0.0.2"), ip("fd00::2")], ..Link::default() };
        Links { ports: [("a".to_owned(), a), ("b".to_owned(), b)].into() }
    }

    #[test]
    fn what_is_left_out_comes_from_the_machine() {
        let found = of(&scenario("", "{ ipv4: {} }"), &known()).unwrap();
        assert_eq!((found.source, found.destination), (ip("10.0.0.1"), ip("10.0.0.2")));
        assert_eq!((found.source_mac, found.destination_mac), (mac(1), mac(2)));
        let found = of(&scenario("", "{ ipv6: {} }"), &known()).unwrap();
        assert_eq!((found.source, found.destination), (ip("fd00::1"), ip("fd00::2")));
        let found = of(&scenario("", "{ ipv4: { destination: 10.0.0.3 } }"), &known()).unwrap();
        assert_eq!((found.source, found.destination_mac), (ip("10.0.0.9"), mac(9)));
    }

    #[test]
    fn what_is_written_comes_first() {
        let packet = "{ ethernet: { destination: 02:00:00:00:00:55 } }, \
                      { ipv4: { source: 1.1.1.1, destination: 10.0.0.3 } }";
        let found = of(&scenario("next-hop: 02:00:00:00:00:66", packet), &known()).unwrap();
        assert_eq!((found.source, found.destination_mac), (ip("1.1.1.1"), mac(0x55)));
        let port = "next-hop: 02:00:00:00:00:66, addresses: [ 10.0.0.7 ]";
        let found = of(&scenario(port, "{ ipv4: {} }"), &known()).unwrap();
        assert_eq!((found.source, found.destination_mac), (ip("10.0.0.7"), mac(0x66)));
    }

    #[test]
    fn groups_have_their_own_link_layer_addresses() {
        for (packet, expected) in [
            ("{ ipv4: { destination: 239.129.2.3 } }", "01:00:5e:01:02:03"),
            ("{ ipv4: { destination: 255.255.255.255 } }", "ff:ff:ff:ff:ff:ff"),
            ("{ ipv6: { destination: 'ff02::1:ff00:7' } }", "33:33:ff:00:00:07"),
        ] {
            let found = of(&scenario("", packet), &known()).unwrap();
            assert_eq!(found.destination_mac.to_string(), expected);
        }
    }

    #[test]
    fn what_nobody_knows_is_named_with_its_remedy() {
        let nothing = Links::default();
        assert_eq!(
            of(&scenario("", "{ ipv4: {} }"), &nothing).unwrap_err(),
            "flows.x.packet: no IPv4 address of port 'b' is known; give the network header a \
             'destination', or the port 'addresses'"
        );
        let packet = "{ ipv6: { destination: 'fd00::2' } }";
        assert_eq!(
            of(&scenario("", packet), &nothing).unwrap_err(),
            "flows.x.packet: port 'a' has no IPv6 address to send from; give the network header a \
             'source', or the port 'addresses'"
        );
        let port = "addresses: [ 'fd00::1' ]";
        assert_eq!(
            of(&scenario(port, packet), &nothing).unwrap_err(),
            "flows.x.packet: port 'a' has no Ethernet address; give the packet an ethernet header \
             with a 'source'"
        );
        let packet = format!("{{ ethernet: {{ source: 02:00:00:00:00:01 }} }}, {packet}");
        assert_eq!(
            of(&scenario(port, &packet), &nothing).unwrap_err(),
            "flows.x.packet: no next hop is known from port 'a' to fd00::2; check that it answers, or \
             give the port a 'next-hop'"
        );
    }

    #[test]
    fn the_machine_is_asked_for_what_it_must_know_and_once() {
        let text = "ports: { a: {}, b: { next-hop: 02:00:00:00:00:01, addresses: [10.0.0.8] } }\nflows:\n\
                    \x20 x: &x { from: a, to: b }\n  y: *x\n  z: { from: b, to: a }\n  w: { from: a, to: a }\n";
        let scenario = Scenario::from_yaml(text, "").unwrap();
        let asked = destinations(&scenario, &known()).unwrap();
        let to =
            |address| Destination { port: "a".to_owned(), address: ip(address), next_hop: None };
        assert_eq!(asked, [to("10.0.0.8"), to("10.0.0.1")]);
    }

    #[test]
    fn a_destination_mac_given_by_hand_needs_no_neighbour() {
        let flow = |name: &str, ethernet: &str| {
            format!(
                "  {name}: {{ from: a, packet: [ {ethernet}{{ ipv4: {{ destination: 10.9.9.9 }} }}, {{ udp: {{}} }} ] }}\n"
            )
        };
        let asked = |flows: &[String]| {
            let text = format!("ports: {{ a: {{}} }}\nflows:\n{}", flows.concat());
            destinations(&Scenario::from_yaml(&text, "").unwrap(), &known()).unwrap()
        };
        let by_hand = flow("x", "{ ethernet: { destination: 02:00:00:00:00:05 } }, ");
        let of = |flows: &[String]| asked(flows).iter().map(|to| to.next_hop).collect::<Vec<_>>();
        assert_eq!(of(std::slice::from_ref(&by_hand)), [Some(mac(5))]);
        // another flow to the same address has to know who is there
        assert_eq!(of(&[by_hand, flow("y", "")]), [None]);
    }

    #[test]
    fn the_machine_is_asked_for_what_a_flow_changes_to() {
        let text = "ports: { a: {}, b: {} }\nflows:\n  x: { from: a, to: b, rate: 1pps, at: { 1s: { size: 100B }, \
                    2s: { packet: [ { ipv4: { destination: 10.9.9.9 } }, { udp: {} } ] }, 3s: pause, \
                    4s: { packet: [ { ipv6: {} }, { udp: {} } ] } } }";
        let scenario = Scenario::from_yaml(text, "").unwrap();
        let asked = destinations(&scenario, &known()).unwrap();
        let to =
            |address| Destination { port: "a".to_owned(), address: ip(address), next_hop: None };
        assert_eq!(asked, [to("10.0.0.2"), to("10.9.9.9"), to("fd00::2")]);
    }

    #[test]
    fn links_that_do_not_exist_are_told_apart() {
        let [a, b] = [Link::imaginary(0), Link::imaginary(1)];
        let links = Links { ports: [("a".to_owned(), a), ("b".to_owned(), b)].into() };
        let found = of(&scenario("", "{ ipv4: {} }"), &links).unwrap();
        assert_eq!((found.source, found.destination), (ip("198.18.0.1"), ip("198.18.0.2")));

        let links = Links { ports: [("a".to_owned(), Link::of_sockets())].into() };
        let found = of(&scenario("", "{ ipv4: { destination: 10.0.0.2 } }"), &links).unwrap();
        assert_eq!(found.source, ip("0.0.0.0"));
        let sockets = Links { ports: [("b".to_owned(), Link::of_sockets())].into() };
        assert!(of(&scenario("", "{ ipv4: {} }"), &sockets).is_err(), "nobody sends to 0.0.0.0");
    }
}
