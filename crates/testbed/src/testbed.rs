//! The topologies: a cable, a router between two cables, a bridge with many.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_netlink::{
    EthtoolError, Link, LinkError, LinkIndex, LinkState, MacAddr, Namespace, NamespaceError,
    Netlink, NetlinkError, NewLink,
};
use wirebeat_units::{Fault, fault, into_fault};

use crate::cards;
use crate::namespaces::{self, Forwarding, create};
use crate::options::{Addressing, Neighbours, Options};
use crate::steering;

/// How long the kernel gets to report a cable as connected: microseconds for a virtual one, seconds for cards that
/// negotiate their speed.
const CONNECT: Duration = Duration::from_secs(15);
/// The kernel reports its IPv6 groups twice (RFC 3810 §9.1), some scheduler ticks apart once they are
/// told to be quick: two ticks of the slowest kernel (100 Hz) without a frame are the end of it.
const SILENCE: Duration = Duration::from_millis(25);
/// Where the reports cannot be made quick they come for seconds, and are not waited for.
const NOISE: Duration = Duration::from_millis(500);
/// Hosts fit into the last byte of an address, beside the device in the middle.
const ENDS_MAX: usize = 250;

/// A namespace with one end of a cable.
#[derive(Clone, Debug)]
pub struct End {
    /// Where it is.
    pub namespace: Namespace,
    /// The interface as it was when the testbed was ready.
    pub link: Link,
    /// Its link-layer address.
    pub mac: MacAddr,
    /// Its IPv4 address, with a prefix of 24 bits.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address, with a prefix of 64 bits, unless IPv6 is off.
    pub ipv6: Option<Ipv6Addr>,
}

impl End {
    /// A netlink handle on the end's namespace.
    pub fn netlink(&self) -> Result<Netlink, NamespaceError> {
        Netlink::open_in(&self.namespace)
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.link.name
    }
}

/// Namespaces and the cables between them. Gone when it is dropped, or the process ends.
#[derive(Clone, Debug)]
pub struct Testbed {
    /// One end, with interface `wb0`.
    pub a: End,
    /// The other, with interface `wb1`.
    pub b: End,
    /// Further ends of a bridge: `wb2`, `wb3`, …
    pub more: Vec<End>,
    /// What is between them, when they are not on one cable: a router or a bridge.
    pub device: Option<Namespace>,
}

/// Why a testbed could not be laid.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum TestbedError {
    /// The system gives us no namespace.
    Namespace(#[source] io::Error),
    /// There is no thread to be had.
    Thread(#[source] io::Error),
    /// A setting of the new namespace cannot be written.
    Setting {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system gives us no tun device.
    Tun(#[source] io::Error),
    /// The environment names no two cards.
    Cards(String),
    /// A card that was named is not there.
    NoCard(MacAddr),
    /// A bridge with so few or so many ends makes no sense.
    Ends(usize),
    /// The kernel does not report a cable as connected.
    NotConnected(String, LinkState),
    /// A namespace cannot be entered.
    #[error(transparent)]
    Enter(#[from] NamespaceError),
    /// Something cannot be made.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// What was made is not there.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An offload cannot be changed.
    #[error(transparent)]
    Offload(#[from] EthtoolError),
}

impl TestbedError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            TestbedError::Namespace(source) => {
                let what = format!("cannot make a network namespace: {source}");
                Fault { what, hint: namespaces::hint(source).map(str::to_owned) }
            }
            TestbedError::Thread(it) => fault!("cannot start a thread: {it}"),
            TestbedError::Setting { path, source } => {
                fault!(
                    "cannot write {}: {source}", path.display();
                    "is /proc/sys mounted read-only here?"
                )
            }
            TestbedError::Tun(it) => {
                fault!(
                    "cannot make a tun device: {it}";
                    "is there /dev/net/tun, and may this process open it?"
                )
            }
            TestbedError::Cards(it) => {
                fault!(
                    "WIREBEAT_TEST_CARDS is '{it}'";
                    "give the Ethernet addresses of two cards, with a comma"
                )
            }
            TestbedError::NoCard(it) => {
                fault!(
                    "there is no card with the address {it} in this namespace \
                     (WIREBEAT_TEST_CARDS)";
                    "does another test have it? Use --test-threads=1"
                )
            }
            TestbedError::Ends(it) => fault!("a bridge has 2 to {ENDS_MAX} ends, not {it}"),
            TestbedError::NotConnected(first, second) => {
                fault!("interface {first} is {second} although both its ends were set up")
            }
            TestbedError::Enter(inner) => inner.fault(),
            TestbedError::Netlink(inner) => inner.fault(),
            TestbedError::Link(inner) => inner.fault(),
            TestbedError::Offload(inner) => inner.fault(),
        }
    }
}

into_fault!(TestbedError);

/// Where an interface is in the plan of addresses: a network, and a host in it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) network: u8,
    pub(crate) host: u8,
}

impl Place {
    const PREFIX_V4: u8 = 24;
    const PREFIX_V6: u8 = 64;
    /// Host number of the device in the middle.
    const GATEWAY: u8 = 254;

    fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.network, self.host)
    }
    /// A unique local address (RFC 4193); the global ID is no secret here.
    fn ipv6(self) -> Ipv6Addr {
        let (network, host) = (u16::from(self.network), u16::from(self.host));
        Ipv6Addr::new(0xfd77, 0x6200, 0, network, 0, 0, 0, host)
    }
    /// Neighbour discovery needs an address of the link (RFC 4861 §4.3).
    fn link_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, u16::from(self.network), u16::from(self.host))
    }
    /// Locally administered, the same in every run.
    fn mac(self) -> MacAddr {
        MacAddr([0x02, 0x77, 0x62, 0, self.network, self.host])
    }
    fn new_link(self, name: &str, options: &Options) -> NewLink {
        let name = name.to_owned();
        NewLink { name, mac: Some(self.mac()), mtu: options.mtu, queues: options.queues }
    }
}

impl Testbed {
    /// Two namespaces and a cable between them: `wb0` at 10.77.0.1 and fd77:6200::1, `wb1` at
    /// 10.77.0.2 and fd77:6200::2. With `WIREBEAT_TEST_CARDS`, two real cards, whose queues and addresses stay as they are.
    pub fn pair(options: &Options) -> Result<Self, TestbedError> {
        let places = [Place { network: 0, host: 1 }, Place { network: 0, host: 2 }];
        let a = create("a", options.addressing, Forwarding::Off)?;
        let b = create("b", options.addressing, Forwarding::Off)?;
        if let Some(macs) = cards::named()? {
            cards::take(macs[0], &a, "wb0")?;
            cards::take(macs[1], &b, "wb1")?;
        } else {
            let far = places[1].new_link("wb1", options);
            Netlink::open_in(&a)?.add_veth(&places[0].new_link("wb0", options), &far, &b)?;
        }
        let a = configure(a, "wb0", places[0], options)?;
        let b = configure(b, "wb1", places[1], options)?;
        let testbed = Testbed { a, b, more: Vec::new(), device: None };
        testbed.introduce(options)?;
        testbed.connected()
    }

    /// Three namespaces in a row: `wb0` at 10.77.0.1 is on a cable to port `p0` of the middle one, `wb1` at 10.77.0.2 on one to its
    /// port `p1`. Nothing forwards between the two: that is up to whoever asked for it.
    pub fn between(options: &Options) -> Result<Self, TestbedError> {
        let device = create("device", Addressing::V4, Forwarding::Off)?;
        let mut netlink = Netlink::open_in(&device)?;
        let mut attach = |label: &str, number: u8| {
            let namespace = create(label, options.addressing, Forwarding::Off)?;
            let place = Place { network: 0, host: number + 1 };
            let (interface, port) = (format!("wb{number}"), format!("p{number}"));
            let (mtu, queues) = (options.mtu, options.queues);
            let near = NewLink { name: port.clone(), mac: None, mtu, queues };
            netlink.add_veth(&near, &place.new_link(&interface, options), &namespace)?;
            let port = netlink.link_by_name(&port)?.index;
            netlink.set_up(port)?;
            configure(namespace, &interface, place, options)
        };
        let (a, b) = (attach("a", 0)?, attach("b", 1)?);
        let testbed = Testbed { a, b, more: Vec::new(), device: Some(device) };
        testbed.introduce(options)?;
        testbed.connected()
    }

    /// Three namespaces in a row: the middle one forwards between the networks 10.77.1.0/24 and
    /// 10.77.2.0/24 (fd77:6200:0:1::/64 and fd77:6200:0:2::/64), where it is host 254.
    pub fn router(options: &Options) -> Result<Self, TestbedError> {
        let device = create("router", options.addressing, Forwarding::On)?;
        let attach = |label: &str, interface: &str, network: u8| {
            let namespace = create(label, options.addressing, Forwarding::Off)?;
            let place = Place { network, host: 1 };
            let gateway = Place { network, host: Place::GATEWAY };
            let port = format!("p{}", network - 1);
            let near = place.new_link(interface, options);
            let far = gateway.new_link(&port, options);
            Netlink::open_in(&namespace)?.add_veth(&near, &far, &device)?;
            let port = configure(device.clone(), &port, gateway, options)?;
            let end = configure(namespace, interface, place, options)?;
            let mut netlink = end.netlink()?;
            netlink.add_default_route(end.link.index, gateway.ipv4().into())?;
            if end.ipv6.is_some() {
                netlink.add_default_route(end.link.index, gateway.ipv6().into())?;
            }
            if options.neighbours == Neighbours::Fixed {
                know(&end, &port)?;
                know(&port, &end)?;
            }
            Ok::<_, TestbedError>(end)
        };
        let a = attach("a", "wb0", 1)?;
        let b = attach("b", "wb1", 2)?;
        Testbed { a, b, more: Vec::new(), device: Some(device) }.connected()
    }

    /// `ends` namespaces, each on a cable to one bridge, all in the network 10.77.0.0/24
    /// (fd77:6200::/64) as hosts 1, 2, …
    pub fn bridge(ends: usize, options: &Options) -> Result<Self, TestbedError> {
        if !(2..=ENDS_MAX).contains(&ends) {
            return Err(TestbedError::Ends(ends));
        }
        // The bridge forwards frames and takes no part in IP.
        let device = create("bridge", Addressing::V4, Forwarding::Off)?;
        let mut netlink = Netlink::open_in(&device)?;
        netlink.add_bridge("br0")?;
        let bridge = netlink.link_by_name("br0")?.index;
        netlink.set_up(bridge)?;
        let mut all = (0..ends as u8).map(|number| {
            let label = format!("end {number}");
            let namespace = create(&label, options.addressing, Forwarding::Off)?;
            let place = Place { network: 0, host: number + 1 };
            let (interface, port) = (format!("wb{number}"), format!("p{number}"));
            let port_link =
                NewLink { name: port.clone(), mac: None, mtu: options.mtu, queues: options.queues };
            netlink.add_veth(&port_link, &place.new_link(&interface, options), &namespace)?;
            let port = netlink.link_by_name(&port)?.index;
            netlink.set_controller(port, bridge)?;
            netlink.set_up(port)?;
            configure(namespace, &interface, place, options)
        });
        let (Some(a), Some(b)) = (all.next(), all.next()) else {
            return Err(TestbedError::Ends(ends));
        };
        let (a, b) = (a?, b?);
        let more = all.collect::<Result<_, _>>()?;
        let testbed = Testbed { a, b, more, device: Some(device) };
        testbed.introduce(options)?;
        testbed.connected()
    }

    /// All ends, `a` and `b` first.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        [&self.a, &self.b].into_iter().chain(&self.more)
    }

    /// Tells every end of the others on its link, when that is asked for.
    fn introduce(&self, options: &Options) -> Result<(), TestbedError> {
        if options.neighbours == Neighbours::Fixed {
            for end in self.ends() {
                for other in self.ends().filter(|other| other.ipv4 != end.ipv4) {
                    know(end, other)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until every end can send and nothing is on the cables, and reads how the ends are then.
    pub(crate) fn connected(mut self) -> Result<Self, TestbedError> {
        let mut handles = self.ends().map(End::netlink).collect::<Result<Vec<_>, _>>()?;
        let silence =
            if self.ends().any(|end| end.ipv6.is_some()) { SILENCE } else { Duration::ZERO };
        let begun = Instant::now();
        let (mut quiet_since, mut before) = (begun, None);
        loop {
            for (end, netlink) in self.ends_mut().zip(&mut handles) {
                end.link = netlink.link_by_index(end.link.index)?;
            }
            let sent: u64 = self.ends().map(|end| end.link.stats.tx_packets).sum();
            if before.replace(sent) != Some(sent) {
                quiet_since = Instant::now();
            }
            match self.ends().find(|end| end.link.state != LinkState::Up) {
                None if quiet_since.elapsed() >= silence || begun.elapsed() >= NOISE => break,
                Some(end) if begun.elapsed() >= CONNECT => {
                    let name = end.link.name.clone();
                    return Err(TestbedError::NotConnected(name, end.link.state));
                }
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        Ok(self)
    }

    fn ends_mut(&mut self) -> impl Iterator<Item = &mut End> {
        [&mut self.a, &mut self.b].into_iter().chain(&mut self.more)
    }
}

/// Gives the interface `name` of a namespace its addresses and offloads, and switches it on.
pub(crate) fn configure(
    namespace: Namespace,
    name: &str,
    place: Place,
    options: &Options,
) -> Result<End, TestbedError> {
    let mut netlink = Netlink::open_in(&namespace)?;
    let link = netlink.link_by_name(name)?;
    let index = link.index;
    netlink.add_address(index, place.ipv4().into(), Place::PREFIX_V4)?;
    let ipv6 = match options.addressing {
        Addressing::V4AndV6 if namespaces::has_ipv6() => {
            add_ipv6(&mut netlink, index, place)?;
            Some(place.ipv6())
        }
        _ => None,
    };
    netlink.set_up(index)?;
    // when it is up: of a cable whose GRO was on before, the other end would not be told that it may redirect frames here
    let features = options.offloads.features();
    if !features.is_empty() {
        netlink.set_features(index, &features)?;
    }
    steering::steer(&namespace, name, options.queues);
    let mac = link.mac.unwrap_or(place.mac());
    Ok(End { namespace, link, mac, ipv4: place.ipv4(), ipv6 })
}

fn add_ipv6(netlink: &mut Netlink, link: LinkIndex, place: Place) -> Result<(), NetlinkError> {
    netlink.disable_address_generation(link)?;
    netlink.add_address(link, place.link_local().into(), Place::PREFIX_V6)?;
    netlink.add_address(link, place.ipv6().into(), Place::PREFIX_V6)
}

/// Tells `end` the link-layer address of `other`.
fn know(end: &End, other: &End) -> Result<(), TestbedError> {
    let mut netlink = end.netlink()?;
    let addresses = [Some(IpAddr::from(other.ipv4)), other.ipv6.map(IpAddr::from)];
    for address in addresses.into_iter().flatten() {
        netlink.add_neighbour(end.link.index, address, other.mac)?;
    }
    Ok(())
}
