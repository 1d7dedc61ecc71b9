//! Links: the network interfaces of a namespace, their state and their counters.
//!
//! Nothing is read from `/sys/class/net`: it shows the namespace in which it was mounted, which
//! need not be the one asked about.

use std::fmt;

use netlink_packet_core::{NLM_F_DUMP, ParseableParametrized};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkHeader, LinkInfo, LinkLayerType, LinkMessage, Stats64,
};
use rustix::io::Errno;
use wirebeat_units::{BitRate, Fault, fault, human, into_fault};

use crate::{MacAddr, Netlink, NetlinkError, XdpAttachment, XdpFeatures, attributes};

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
/// Bytes of `struct ifinfomsg`, which opens every message about a link.
const HEADER_LEN: usize = 16;
/// `IFNAMSIZ` without the terminating zero; longer names are alternative names.
const NAME_MAX: usize = 15;
/// `ALTIFNAMSIZ` without the terminating zero.
const ALTERNATIVE_NAME_MAX: usize = 127;
const IFLA_ALT_IFNAME: u16 = 53;

/// The kernel's number of an interface within its namespace; never zero for one that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(u32);

impl LinkIndex {
    /// From the kernel's number.
    pub const fn new(index: u32) -> Self {
        LinkIndex(index)
    }
    /// The kernel's number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for LinkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What kind of frames a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// Ethernet frames.
    Ethernet,
    /// The host itself; frames have an Ethernet header of zeros.
    Loopback,
    /// Something else, by its `ARPHRD_` number: a tunnel without link-layer header, radio, …
    Other(u16),
}

/// Whether frames can pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Switched on, and the other end is there.
    Up,
    /// Switched on, but nothing is connected (no carrier, or the peer is off).
    NoCarrier,
    /// Switched off.
    Down,
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkState::Up => "up",
            LinkState::NoCarrier => "up without carrier",
            LinkState::Down => "down",
        })
    }
}

/// The other end of a virtual cable, or the device below a stacked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number, in its own namespace.
    pub index: LinkIndex,
    /// The number by which this namespace knows the other's; `None` when it is this one.
    pub namespace: Option<i32>,
}

/// Counters of an interface since it was made (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernel's own names, documented in linux/if_link.h")]
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_missed: u64,
    pub rx_nohandler: u64,
    pub rx_over: u64,
    pub rx_fifo: u64,
    pub rx_crc: u64,
    pub rx_frame: u64,
    pub rx_length: u64,
    pub tx_fifo: u64,
    pub tx_carrier: u64,
}

impl LinkStats {
    /// Those that count what went wrong, by the kernel's names; always in this order.
    pub fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("rx_missed_errors", self.rx_missed),
            ("rx_over_errors", self.rx_over),
            ("rx_fifo_errors", self.rx_fifo),
            ("rx_crc_errors", self.rx_crc),
            ("rx_frame_errors", self.rx_frame),
            ("rx_length_errors", self.rx_length),
            ("rx_dropped", self.rx_dropped),
            ("rx_nohandler", self.rx_nohandler),
            ("tx_dropped", self.tx_dropped),
            ("tx_fifo_errors", self.tx_fifo),
            ("tx_carrier_errors", self.tx_carrier),
        ]
    }
}

/// A network interface as it was when it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its number.
    pub index: LinkIndex,
    /// Its name.
    pub name: String,
    /// The kernel's name for virtual kinds: "veth", "bridge"; `None` for a device of its own.
    pub kind: Option<String>,
    /// What it carries.
    pub layer: LinkLayer,
    /// Its address, where it has one of Ethernet's form.
    pub mac: Option<MacAddr>,
    /// Bytes that a frame may carry after the Ethernet header.
    pub mtu: u32,
    /// Whether frames can pass.
    pub state: LinkState,
    /// Whether it asks for its neighbours' addresses (ARP, neighbour discovery).
    pub resolves: bool,
    /// The other end, where the kernel names one.
    pub peer: Option<Peer>,
    /// The bridge or bond that it belongs to.
    pub controller: Option<LinkIndex>,
    /// Speed of the line; `None` where it is unknown or only nominal, as veth's.
    pub speed: Option<BitRate>,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Its counters.
    pub stats: LinkStats,
    /// The XDP program on it.
    pub xdp: Option<XdpAttachment>,
    /// What its driver can do with XDP; `None` before Linux 6.3.
    pub xdp_features: Option<XdpFeatures>,
}

/// Why an interface cannot be told about.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum LinkError {
    /// No interface has this name.
    NoSuchName {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        present: Vec<String>,
    },
    /// No interface has this number.
    NoSuchIndex(LinkIndex),
    /// Netlink failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl LinkError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            LinkError::NoSuchName { name, present } => {
                fault!("there is no interface '{name}' here"; "{}", human::present(present))
            }
            LinkError::NoSuchIndex(it) => {
                fault!("there is no interface with number {it} here"; "it may have been removed")
            }
            LinkError::Netlink(inner) => inner.fault(),
        }
    }
}

into_fault!(LinkError);

impl Netlink {
    /// All interfaces, in the order of their numbers.
    pub fn links(&mut self) -> Result<Vec<Link>, LinkError> {
        let ask = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let replies = self.route.request("list the interfaces", &ask, NLM_F_DUMP)?;
        let mut links: Vec<Link> = replies
            .iter()
            .filter(|reply| reply.kind == RTM_NEWLINK)
            .filter_map(|reply| parse(&reply.payload))
            .collect();
        links.sort_by_key(|link| link.index);
        links.iter_mut().for_each(|link| self.complete(link));
        Ok(links)
    }

    /// The interface called `name`, or with that alternative name.
    pub fn link_by_name(&mut self, name: &str) -> Result<Link, LinkError> {
        let attempt = format!("look up the interface '{name}'");
        if (1..=ALTERNATIVE_NAME_MAX).contains(&name.len()) && !name.contains('\0') {
            let mut message = LinkMessage::default();
            message.attributes.push(if name.len() <= NAME_MAX {
                LinkAttribute::IfName(name.to_owned())
            } else {
                LinkAttribute::Other(attributes::string(IFLA_ALT_IFNAME, name))
            });
            if let Some(link) = self.link(&attempt, message)? {
                return Ok(link);
            }
        }
        let present = self.links()?.into_iter().map(|link| link.name).collect();
        Err(LinkError::NoSuchName { name: name.to_owned(), present })
    }

    /// The interface with this number.
    pub fn link_by_index(&mut self, index: LinkIndex) -> Result<Link, LinkError> {
        let attempt = format!("look up the interface with number {index}");
        let mut message = LinkMessage::default();
        message.header.index = index.get();
        // The kernel takes number 0 for "whichever": no interface has it.
        let link = if index.get() == 0 { None } else { self.link(&attempt, message)? };
        link.ok_or(LinkError::NoSuchIndex(index))
    }

    /// The counters of an interface.
    pub fn stats(&mut self, index: LinkIndex) -> Result<LinkStats, LinkError> {
        Ok(self.link_by_index(index)?.stats)
    }

    fn link(&mut self, attempt: &str, message: LinkMessage) -> Result<Option<Link>, LinkError> {
        let replies = match self.route.request(attempt, &RouteNetlinkMessage::GetLink(message), 0) {
            Ok(replies) => replies,
            Err(e) if e.errno() == Some(Errno::NODEV) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let link = replies
            .iter()
            .find(|reply| reply.kind == RTM_NEWLINK)
            .and_then(|reply| parse(&reply.payload));
        let mut link = link.ok_or_else(|| NetlinkError::malformed(attempt, "no link in it"))?;
        self.complete(&mut link);
        Ok(Some(link))
    }

    /// Adds what the link message itself does not say.
    fn complete(&mut self, link: &mut Link) {
        // These drivers report a constant that says nothing about what they can carry.
        let nominal = matches!(link.kind.as_deref(), Some("veth" | "tun" | "netkit"));
        link.speed = if nominal { None } else { self.speed(link.index) };
        link.xdp_features = self.xdp_offer(link.index).map(|offer| offer.features);
    }
}

/// Number, name and state from a link message: all that watching needs.
pub(crate) fn parse_state(payload: &[u8]) -> Option<(LinkIndex, Option<String>, LinkState)> {
    let header = LinkHeader::parse(payload).ok()?;
    const IFLA_IFNAME: u16 = 3;
    let name = attributes::find(payload.get(HEADER_LEN..)?, IFLA_IFNAME);
    Some((LinkIndex(header.index), name.map(|n| attributes::text(&n)), state(&header)))
}

fn state(header: &LinkHeader) -> LinkState {
    if !header.flags.contains(LinkFlags::Up) {
        LinkState::Down
    } else if header.flags.contains(LinkFlags::LowerUp) {
        LinkState::Up
    } else {
        LinkState::NoCarrier
    }
}

/// Reads a link message; `None` when not even its header is whole.
fn parse(payload: &[u8]) -> Option<Link> {
    let header = LinkHeader::parse(payload).ok()?;
    let mut link = Link {
        index: LinkIndex(header.index),
        name: String::new(),
        kind: None,
        layer: match header.link_layer_type {
            LinkLayerType::Ether => LinkLayer::Ethernet,
            LinkLayerType::Loopback => LinkLayer::Loopback,
            other => LinkLayer::Other(other.into()),
        },
        mac: None,
        mtu: 0,
        state: state(&header),
        resolves: !header.flags.intersects(LinkFlags::Noarp | LinkFlags::Loopback),
        peer: None,
        controller: None,
        speed: None,
        tx_queues: 0,
        rx_queues: 0,
        stats: LinkStats::default(),
        xdp: None,
        xdp_features: None,
    };
    let mut peer_namespace = None;
    for attribute in attributes::iter(payload.get(HEADER_LEN..)?) {
        match LinkAttribute::parse_with_param(&attribute, header.interface_family) {
            Ok(LinkAttribute::LinkNetNsId(id)) => peer_namespace = Some(id),
            Ok(attribute) => apply(&mut link, attribute),
            Err(_) => {}
        }
    }
    if let Some(peer) = &mut link.peer {
        peer.namespace = peer_namespace;
    }
    Some(link)
}

fn apply(link: &mut Link, attribute: LinkAttribute) {
    match attribute {
        LinkAttribute::IfName(name) => link.name = name,
        LinkAttribute::Address(bytes) => link.mac = bytes.try_into().ok().map(MacAddr),
        LinkAttribute::Mtu(mtu) => link.mtu = mtu,
        LinkAttribute::Link(0) => {}
        LinkAttribute::Link(index) => {
            link.peer = Some(Peer { index: LinkIndex(index), namespace: None });
        }
        LinkAttribute::Controller(index) => link.controller = Some(LinkIndex(index)),
        LinkAttribute::NumTxQueues(queues) => link.tx_queues = queues,
        LinkAttribute::NumRxQueues(queues) => link.rx_queues = queues,
        LinkAttribute::Stats64(stats) => link.stats = LinkStats::from(stats),
        LinkAttribute::Xdp(parts) => link.xdp = XdpAttachment::from_parts(&parts),
        LinkAttribute::LinkInfo(parts) => {
            link.kind = parts.into_iter().find_map(|part| match part {
                LinkInfo::Kind(kind) => Some(kind.to_string()),
                _ => None,
            });
        }
        _ => {}
    }
}

impl From<Stats64> for LinkStats {
    fn from(s: Stats64) -> Self {
        LinkStats {
            rx_packets: s.rx_packets,
            tx_packets: s.tx_packets,
            rx_bytes: s.rx_bytes,
            tx_bytes: s.tx_bytes,
            rx_errors: s.rx_errors,
            tx_errors: s.tx_errors,
            rx_dropped: s.rx_dropped,
            tx_dropped: s.tx_dropped,
            rx_missed: s.rx_missed_errors,
            rx_nohandler: s.rx_nohandler,
            rx_over: s.rx_over_errors,
            rx_fifo: s.rx_fifo_errors,
            rx_crc: s.rx_crc_errors,
            rx_frame: s.rx_frame_errors,
            rx_length: s.rx_length_errors,
            tx_fifo: s.tx_fifo_errors,
            tx_carrier: s.tx_carrier_errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loopback_is_found_by_name_and_by_number() {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.link_by_name("lo").unwrap();
        assert_eq!(lo.layer, LinkLayer::Loopback);
        assert_eq!(lo.mac, Some(MacAddr::default()));
        assert!(!lo.resolves);
        assert_eq!(netlink.link_by_index(lo.index).unwrap().name, "lo");
        assert!(netlink.links().unwrap().iter().any(|link| link.index == lo.index));
    }

    #[test]
    fn an_unknown_interface_is_named_beside_those_there_are() {
        let mut netlink = Netlink::open().unwrap();
        for name in ["wb-none", "a-name-longer-than-any-interface", "", "a/b", "nul\0"] {
            let error = netlink.link_by_name(name).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("lo"), "{error}");
        }
        let error = netlink.link_by_index(LinkIndex::new(0)).unwrap_err();
        assert!(matches!(error, LinkError::NoSuchIndex(_)), "{error}");
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]
        #[test]
        fn any_message_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
            let _ = parse_state(&bytes);
        }
    }
}
