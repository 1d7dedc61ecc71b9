//! The changes that the testbed makes: virtual cables, bridges, addresses, routes, neighbours.
//!
//! The only file here that changes anything. Each method needs CAP_NET_ADMIN in the handle's
//! namespace and makes one change.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoBridge, InfoData, InfoKind, InfoVeth,
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourState};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::neighbour::message as neighbour_message;
use crate::{LinkIndex, MacAddr, Namespace, Netlink, NetlinkError};

/// An interface to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// Its name, 1 to 15 bytes.
    pub name: String,
    /// Its address; the kernel makes one up where there is none.
    pub mac: Option<MacAddr>,
    /// Bytes that a frame may carry after the Ethernet header.
    pub mtu: u32,
    /// Transmit and receive queues, each.
    pub queues: u32,
}

impl NewLink {
    fn attributes(&self) -> Vec<LinkAttribute> {
        let mut attributes = vec![
            LinkAttribute::IfName(self.name.clone()),
            LinkAttribute::Mtu(self.mtu),
            LinkAttribute::NumTxQueues(self.queues),
            LinkAttribute::NumRxQueues(self.queues),
        ];
        attributes.extend(self.mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())));
        attributes
    }
}

impl Netlink {
    /// Makes a virtual cable: one end here, the other in another namespace. Both are down.
    pub fn add_veth(
        &mut self,
        near: &NewLink,
        far: &NewLink,
        far_namespace: &Namespace,
    ) -> Result<(), NetlinkError> {
        let mut peer = LinkMessage::default();
        peer.attributes = far.attributes();
        peer.attributes.push(LinkAttribute::NetNsFd(far_namespace.as_fd().as_raw_fd()));
        let mut message = LinkMessage::default();
        message.attributes = near.attributes();
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let attempt = format!("make the veth pair {} and {}", near.name, far.name);
        self.create(&attempt, RouteNetlinkMessage::NewLink(message))
    }

    /// Makes a bridge, down and without ports, that does not look for multicast routers and
    /// forwards at once (no spanning tree).
    pub fn add_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Bridge),
                LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)])),
            ]),
        ];
        self.create(&format!("make the bridge {name}"), RouteNetlinkMessage::NewLink(message))
    }

    /// Puts an interface under a bridge.
    pub fn set_controller(
        &mut self,
        link: LinkIndex,
        controller: LinkIndex,
    ) -> Result<(), NetlinkError> {
        let attempt = format!("put interface {link} under {controller}");
        self.set_link(&attempt, link, LinkAttribute::Controller(controller.get()))
    }

    /// Keeps the kernel from giving an interface IPv6 addresses by itself.
    pub fn disable_address_generation(&mut self, link: LinkIndex) -> Result<(), NetlinkError> {
        let attempt = format!("keep interface {link} without addresses of its own");
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let attribute = LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]);
        self.set_link(&attempt, link, attribute)
    }

    /// Switches an interface on.
    pub fn set_up(&mut self, link: LinkIndex) -> Result<(), NetlinkError> {
        self.set_flags(&format!("set interface {link} up"), link, LinkFlags::Up)
    }

    /// Switches an interface off.
    pub fn set_down(&mut self, link: LinkIndex) -> Result<(), NetlinkError> {
        self.set_flags(&format!("set interface {link} down"), link, LinkFlags::empty())
    }

    /// Moves an interface that is down to another namespace, where it has another name.
    pub fn move_link(
        &mut self,
        link: LinkIndex,
        name: &str,
        namespace: &Namespace,
    ) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = link.get();
        message.attributes = vec![
            LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd()),
            LinkAttribute::IfName(name.to_owned()),
        ];
        let attempt = format!("move interface {link} to another namespace as {name}");
        self.change(&attempt, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Removes an interface; of a veth pair, both ends.
    pub fn delete_link(&mut self, link: LinkIndex) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = link.get();
        let attempt = format!("remove interface {link}");
        self.change(&attempt, RouteNetlinkMessage::DelLink(message), 0)
    }

    /// Gives an interface an address, at once and without looking for duplicates.
    pub fn add_address(
        &mut self,
        link: LinkIndex,
        address: IpAddr,
        prefix_len: u8,
    ) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.index = link.get();
        message.header.family = family(address);
        message.header.prefix_len = prefix_len;
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        match address {
            IpAddr::V4(v4) if prefix_len < 31 => {
                let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
                let broadcast = Ipv4Addr::from_bits(v4.to_bits() | hosts);
                message.attributes.push(AddressAttribute::Broadcast(broadcast));
            }
            IpAddr::V4(_) => {}
            IpAddr::V6(_) => {
                message.header.flags = AddressHeaderFlags::Nodad;
                message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            }
        }
        let attempt = format!("give interface {link} the address {address}/{prefix_len}");
        self.create(&attempt, RouteNetlinkMessage::NewAddress(message))
    }

    /// Sends everything that no other route matches through `gateway`.
    pub fn add_default_route(
        &mut self,
        link: LinkIndex,
        gateway: IpAddr,
    ) -> Result<(), NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(gateway);
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes =
            vec![RouteAttribute::Gateway(gateway.into()), RouteAttribute::Oif(link.get())];
        let attempt = format!("add the default route through {gateway}");
        self.create(&attempt, RouteNetlinkMessage::NewRoute(message))
    }

    /// Makes an entry of the neighbour table that stays.
    pub fn add_neighbour(
        &mut self,
        link: LinkIndex,
        address: IpAddr,
        mac: MacAddr,
    ) -> Result<(), NetlinkError> {
        let mut message = neighbour_message(address, link);
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
        let attempt = format!("add the neighbour {address} at {mac}");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.change(&attempt, RouteNetlinkMessage::NewNeighbour(message), flags)
    }

    fn set_link(
        &mut self,
        attempt: &str,
        link: LinkIndex,
        attribute: LinkAttribute,
    ) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = link.get();
        message.attributes.push(attribute);
        self.change(attempt, RouteNetlinkMessage::SetLink(message), 0)
    }

    fn set_flags(
        &mut self,
        attempt: &str,
        link: LinkIndex,
        flags: LinkFlags,
    ) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = link.get();
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        self.change(attempt, RouteNetlinkMessage::SetLink(message), 0)
    }

    fn create(&mut self, attempt: &str, message: RouteNetlinkMessage) -> Result<(), NetlinkError> {
        self.change(attempt, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    fn change(
        &mut self,
        attempt: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        self.route.request(attempt, &message, flags).map(drop)
    }
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
