//! Neighbour solicitations and advertisements of IPv6 (RFC 4861 §4.3, §4.4, §7.1): read, written.

use std::net::Ipv6Addr;

use wirebeat_wire::checksum::Sum;
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::ipv6;
use wirebeat_wire::mac::MacAddr;

use crate::Ignored;
use crate::link::{Link, Writer};

/// Types of messages.
pub(crate) const SOLICITATION: u8 = 135;
pub(crate) const ADVERTISEMENT: u8 = 136;
/// Bytes of a message without options.
const LEN: usize = 24;
/// Options are measured in units of this.
const OPTION_UNIT: usize = 8;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
/// No router has forwarded a packet with this hop limit (RFC 4861 §11.2).
pub(crate) const HOP_LIMIT: u8 = 255;
/// Flags of an advertisement.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// All nodes of the link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Where frames to all nodes of the link go (RFC 2464 §7).
pub(crate) const ALL_NODES_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);

/// The group that hosts with this address listen to (RFC 4291 §2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c].into()
}

/// The link-layer address of a group (RFC 2464 §7).
pub(crate) fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// What a message is, beyond its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Solicitation,
    Advertisement { solicited: bool, overrides: bool },
}

/// A neighbour solicitation or advertisement, with the ends of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub kind: Kind,
    pub target: Ipv6Addr,
    /// Of the source in a solicitation, of the target in an advertisement.
    pub mac: Option<MacAddr>,
}

/// The packet that a message came in, as far as it is known already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrier<'a> {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub hop_limit: u8,
    /// Bytes of the IP header with its extension headers.
    pub headers_len: usize,
    /// The ICMPv6 message.
    pub content: &'a [u8],
}

impl Message {
    /// Reads a message and checks all that RFC 4861 §7.1.1 and §7.1.2 want. Extension headers before it are refused: nobody who
    /// means well sends them.
    pub fn read(carrier: &Carrier<'_>) -> Result<Message, Ignored> {
        let Carrier { source, destination, hop_limit, headers_len, content } = *carrier;
        let (header, options) = content.split_first_chunk::<LEN>().ok_or(Ignored::Malformed)?;
        let [kind, code, _, _, flags, _, _, _, target @ ..] = *header;
        let target = Ipv6Addr::from(target);
        if hop_limit != HOP_LIMIT || headers_len != ipv6::LEN || code != 0 || target.is_multicast()
        {
            return Err(Ignored::Invalid);
        }
        if !sum_is_right(source, destination, content) {
            return Err(Ignored::Checksum);
        }
        let (kind, wanted) = match kind {
            SOLICITATION => (Kind::Solicitation, SOURCE_LINK_LAYER),
            ADVERTISEMENT => {
                let (solicited, overrides) = (flags & SOLICITED != 0, flags & OVERRIDE != 0);
                (Kind::Advertisement { solicited, overrides }, TARGET_LINK_LAYER)
            }
            _ => return Err(Ignored::Invalid),
        };
        let mac = link_layer_option(options, wanted)?;
        let valid = match kind {
            Kind::Solicitation if source.is_unspecified() => {
                destination == solicited_node(target) && mac.is_none()
            }
            Kind::Solicitation => true,
            Kind::Advertisement { solicited, .. } => {
                !(source.is_unspecified() || destination.is_multicast() && solicited)
            }
        };
        let is_group = source.is_multicast() || mac.is_some_and(MacAddr::is_multicast);
        if valid && !is_group {
            Ok(Message { source, destination, kind, target, mac })
        } else {
            Err(Ignored::Invalid)
        }
    }

    /// Writes a frame with it to `to`; returns its length, or `None` where `into` is shorter.
    pub fn write(&self, link: &Link, to: MacAddr, into: &mut [u8]) -> Option<usize> {
        let mut message = [0; LEN + OPTION_UNIT];
        let (kind, flags, option) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_LINK_LAYER),
            Kind::Advertisement { solicited, overrides } => {
                let solicited = if solicited { SOLICITED } else { 0 };
                let overrides = if overrides { OVERRIDE } else { 0 };
                (ADVERTISEMENT, solicited | overrides, TARGET_LINK_LAYER)
            }
        };
        let (header, option_room) = message.split_first_chunk_mut::<LEN>()?;
        let [header_kind, _, _, _, header_flags, _, _, _, target @ ..] = header;
        (*header_kind, *header_flags) = (kind, flags);
        *target = self.target.octets();
        let mut len = LEN;
        if let Some(MacAddr([a, b, c, d, e, f])) = self.mac {
            *option_room.first_chunk_mut()? = [option, 1, a, b, c, d, e, f];
            len += OPTION_UNIT;
        }
        let message = message.get_mut(..len)?;
        let (source, destination) = (self.source.into(), self.destination.into());
        let sum = Sum::pseudo(source, destination, Protocol::ICMPV6, len as u32)?;
        let checksum = sum.add_bytes(message).checksum();
        *message.get_mut(2..)?.first_chunk_mut()? = checksum.to_be_bytes();
        let mut writer = Writer::new(link, to, EtherType::IPV6, into);
        writer.put(&[0x60, 0, 0, 0, 0, len as u8, Protocol::ICMPV6.0, HOP_LIMIT]);
        writer.put(&self.source.octets());
        writer.put(&self.destination.octets());
        writer.put(message);
        writer.finish()
    }

    /// The question who has `target`, from `source` (RFC 4861 §7.2.2): to all who could have it, or to the one at `known` alone.
    /// From the unspecified address it asks whether anybody has it already (RFC 4862 §5.4.2). With the address that it goes to.
    pub fn question(
        link: &Link,
        source: Ipv6Addr,
        target: Ipv6Addr,
        known: Option<MacAddr>,
    ) -> (Message, MacAddr) {
        let group = solicited_node(target);
        let (destination, to) = match known {
            Some(mac) => (target, mac),
            None => (group, group_mac(group)),
        };
        let mac = (!source.is_unspecified()).then_some(link.mac);
        (Message { source, destination, kind: Kind::Solicitation, target, mac }, to)
    }

    /// That `target` is at our address (RFC 4861 §7.2.4); to all nodes where `asker` has no address yet.
    pub fn advertisement(link: &Link, target: Ipv6Addr, asker: Ipv6Addr) -> Message {
        let solicited = !asker.is_unspecified();
        let destination = if solicited { asker } else { ALL_NODES };
        let kind = Kind::Advertisement { solicited, overrides: true };
        Message { source: target, destination, kind, target, mac: Some(link.mac) }
    }
}

/// Whether the checksum of an ICMPv6 message is right (RFC 4443 §2.3).
pub(crate) fn sum_is_right(source: Ipv6Addr, destination: Ipv6Addr, content: &[u8]) -> bool {
    let (source, destination) = (source.into(), destination.into());
    let sum = Sum::pseudo(source, destination, Protocol::ICMPV6, content.len() as u32);
    sum.is_some_and(|sum| sum.add_bytes(content).checksum() == 0)
}

/// The first link-layer address of this kind among the options, all of which have to be whole (RFC 4861 §4.6).
fn link_layer_option(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, Ignored> {
    let mut found = None;
    while let Some(&kind) = options.first() {
        let units = *options.get(1).ok_or(Ignored::Malformed)?;
        if units == 0 {
            return Err(Ignored::Malformed);
        }
        let (option, rest) =
            options.split_at_checked(usize::from(units) * OPTION_UNIT).ok_or(Ignored::Malformed)?;
        // RFC 2464 §6: an address of 6 bytes fills one unit.
        if let ([_, 1, mac @ ..], true) = (option, kind == wanted) {
            found = found.or(mac.first_chunk().map(|mac| MacAddr(*mac)));
        }
        options = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use wirebeat_wire::walk::{self, Policy};

    use super::*;

    const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const LINK: Link = Link { mac: OURS, vlan: None };

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn read(frame: &[u8]) -> Result<Message, Ignored> {
        let ip =
            walk::ip_packet(&frame[14..], wirebeat_wire::ip::Version::V6, Policy::Strict).unwrap();
        let (std::net::IpAddr::V6(source), std::net::IpAddr::V6(destination)) =
            (ip.source(), ip.destination())
        else {
            panic!("two versions");
        };
        Message::read(&Carrier {
            source,
            destination,
            hop_limit: ip.ttl(),
            headers_len: ip.headers_len,
            content: ip.content,
        })
    }

    /// Changes a byte of the message and mends the checksum.
    fn changed(frame: &[u8], at: usize, value: u8) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[at] = value;
        frame[56..58].fill(0);
        let source = <[u8; 16]>::try_from(&frame[22..38]).unwrap();
        let destination = <[u8; 16]>::try_from(&frame[38..54]).unwrap();
        let content = &frame[54..];
        let sum =
            Sum::pseudo(source.into(), destination.into(), Protocol::ICMPV6, content.len() as u32);
        let checksum = sum.unwrap().add_bytes(content).checksum();
        frame[56..58].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    fn written(message: &Message, to: MacAddr) -> Vec<u8> {
        let mut frame = [0xee; 100];
        let len = message.write(&LINK, to, &mut frame).unwrap();
        assert_eq!(message.write(&LINK, to, &mut frame[..len - 1]), None);
        message.write(&LINK, to, &mut frame).unwrap();
        frame[..len].to_vec()
    }

    #[test]
    fn messages_are_written_and_read() {
        let (us, peer) = (address("fd00::1"), address("fd00::12:3456"));
        let (question, to) = Message::question(&LINK, us, peer, None);
        assert_eq!(question.destination, address("ff02::1:ff12:3456"));
        assert_eq!(to, MacAddr([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]));
        let (poll, poll_to) = Message::question(&LINK, us, peer, Some(OURS));
        assert_eq!((poll.destination, poll_to), (peer, OURS));
        let (probe, _) = Message::question(&LINK, Ipv6Addr::UNSPECIFIED, peer, None);
        assert_eq!(probe.mac, None);
        let answer = Message::advertisement(&LINK, us, peer);
        let defence = Message::advertisement(&LINK, us, Ipv6Addr::UNSPECIFIED);
        assert_eq!(defence.destination, ALL_NODES);
        for message in [question, poll, probe, answer, defence] {
            assert_eq!(read(&written(&message, to)), Ok(message));
        }
    }

    #[test]
    fn what_the_rfc_refuses_is_refused() {
        let (us, peer) = (address("fd00::1"), address("fd00::2"));
        let (question, to) = Message::question(&LINK, us, peer, None);
        let frame = written(&question, to);
        assert_eq!(frame.len(), 86);
        for (at, value, why, of) in [
            (21, 254, Ignored::Invalid, "hop limit"),
            (55, 1, Ignored::Invalid, "code"),
            (54, 137, Ignored::Invalid, "type"),
            (62, 0xff, Ignored::Invalid, "a group as target"),
            (22, 0xff, Ignored::Invalid, "a group as source"),
            (80, 3, Ignored::Invalid, "a group's link-layer address"),
            (79, 0, Ignored::Malformed, "an option without length"),
            (79, 2, Ignored::Malformed, "an option cut short"),
        ] {
            assert_eq!(read(&changed(&frame, at, value)), Err(why), "{of}");
        }
        let mut wrong = frame.clone();
        wrong[60] ^= 1;
        assert_eq!(read(&wrong), Err(Ignored::Checksum));
        // An option that is not known is skipped.
        let other = read(&changed(&frame, 78, 200)).unwrap();
        assert_eq!(other.mac, None);
        let from = |source, message: Message| Message { source, ..message };
        let unspecified = Ipv6Addr::UNSPECIFIED;
        assert_eq!(
            read(&written(&from(unspecified, question), to)),
            Err(Ignored::Invalid),
            "a probe with an address"
        );
        let (probe, _) = Message::question(&LINK, unspecified, peer, None);
        let astray = Message { destination: peer, ..probe };
        assert_eq!(read(&written(&astray, to)), Err(Ignored::Invalid), "a probe of one host");
        let answer = Message::advertisement(&LINK, us, peer);
        assert_eq!(
            read(&written(&from(unspecified, answer), to)),
            Err(Ignored::Invalid),
            "from nobody"
        );
        let astray = Message { destination: ALL_NODES, ..answer };
        assert_eq!(read(&written(&astray, to)), Err(Ignored::Invalid), "an answer to all");
    }
}
