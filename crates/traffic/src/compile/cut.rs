//! Whether packets may be cut where they are longer than the link carries, and where.

use wirebeat_units::{Fault, PacketLen, fault};
use wirebeat_wire::{ethernet, ipv6};

use super::layout::Layout;
use crate::distribution::draw::{Key, Purpose};
use crate::program::{Cut, CutVersion, FRAGMENT_MIN};
use crate::scenario::PortSpec;
use crate::scenario::header::Header;
use crate::scenario::header::ipv4::{Identification, Ipv4};
use crate::scenario::lay::Covers;

/// What a link of which nothing is known carries: jumbo frames of the usual length.
pub(super) const USUAL_MTU: u32 = 9000;
/// How much longer a frame may be with a VLAN tag: links do not count it (IEEE 802.3 §3.2.7, `eth_type_vlan`).
const TAG: usize = 4;

/// The outermost network header of a packet and the link that it is made for.
pub(super) struct Outermost<'a> {
    stack: &'a [Header],
    layout: &'a Layout,
    /// Which of the headers it is.
    at: usize,
    room: u32,
}

impl<'a> Outermost<'a> {
    /// That of `stack`, for a link with this MTU. `None` where there is none that packets could be cut by: the
    /// packet has no IP header, or is a fragment itself as the scenario says.
    pub(super) fn of(stack: &'a [Header], layout: &'a Layout, mtu: Option<u32>) -> Option<Self> {
        let at = stack.iter().position(is_network)?;
        let whole = match &stack[at] {
            Header::Ipv4(ip) => {
                ip.more_fragments.is_none() && ip.fragment_offset.is_none() && ip.length.is_none()
            }
            Header::Ipv6(ip) => {
                let behind = stack[at..].iter().take_while(|header| is_extension(header));
                ip.length.is_none() && !behind.into_iter().any(|h| matches!(h, Header::Fragment(_)))
            }
            _ => false,
        };
        let tagged = matches!(stack.get(1), Some(Header::Vlan(_)));
        let before = usize::from(layout.start(at)).saturating_sub(ethernet::LEN);
        let before = before.saturating_sub(if tagged { TAG } else { 0 }) as u32;
        let (least, most) = (*PortSpec::MTU.start() as u32, *PortSpec::MTU.end() as u32);
        let room = mtu.unwrap_or(USUAL_MTU).clamp(least, most).saturating_sub(before);
        whole.then_some(Outermost { stack, layout, at, room })
    }

    /// Whether it says itself that it must not be cut.
    pub(super) fn forbids(&self) -> bool {
        matches!(&self.stack[self.at], Header::Ipv4(Ipv4 { dont_fragment: Some(true), .. }))
    }

    /// Where it begins.
    fn start(&self) -> u16 {
        self.layout.start(self.at)
    }

    /// From where its length counts.
    pub(super) fn counted_from(&self) -> u32 {
        match &self.stack[self.at] {
            Header::Ipv6(_) => self.layout.start(self.at + 1).into(),
            _ => self.start().into(),
        }
    }

    /// The longest packet that needs no cut, from the Ethernet header on.
    pub(super) fn fits(&self) -> PacketLen {
        PacketLen::new(u32::from(self.start()) + self.room)
    }

    /// How packets are cut, in flow number `id`. `begin` is how many bytes have to be in the first fragment, from
    /// the Ethernet header on: all that is found there and nowhere else.
    pub(super) fn cut(&self, begin: usize, key: Key) -> Result<Cut, Fault> {
        let start = self.start();
        let (split, version) = match &self.stack[self.at] {
            Header::Ipv6(_) => {
                let (last, next_at) = self.unfragmentable();
                (self.layout.start(last + 1), CutVersion::V6 { next_at })
            }
            header => {
                let number = match header {
                    Header::Ipv4(ip) => {
                        let usual = ip.identification == Identification::default();
                        usual || ip.identification == Identification::Count
                    }
                    _ => true,
                };
                let fields = self.layout.checksums().unwrap_or_default();
                let mend =
                    fields.iter().any(|sum| sum.header == self.at && sum.covers == Covers::Header);
                (self.layout.start(self.at + 1), CutVersion::V4 { number, mend })
            }
        };
        let first = key.draw(0).bits() as u32;
        let cut = Cut { ip_at: start, split, room: self.room as u16, version, first };
        let least = (begin.saturating_sub(split.into()) as u32).max(40) + 24;
        if cut.stride() < least.max(FRAGMENT_MIN) {
            return Err(fault!(
                "packets longer than the link carries leave as fragments, and the first of them \
                 has no room for the headers and the probe: {} bytes of IP are too few",
                self.room
            ));
        }
        Ok(cut)
    }

    /// The last header of IPv6 that every fragment has, and where it says what follows it (RFC 8200 §4.5).
    fn unfragmentable(&self) -> (usize, u16) {
        let behind = self.stack.iter().enumerate().skip(self.at + 1);
        let kept = behind
            .take_while(|(_, header)| is_extension(header))
            .filter(|(_, header)| matches!(header, Header::HopByHop(_) | Header::Routing(_)));
        match kept.last() {
            Some((last, _)) => (last, self.layout.start(last)),
            None => (self.at, self.layout.start(self.at) + ipv6::NEXT_HEADER as u16),
        }
    }

    /// Why packets of `longest` bytes cannot be sent.
    pub(super) fn forbidden(&self, longest: PacketLen) -> Fault {
        let frame = |packet: PacketLen| packet.buffer().with_fcs();
        fault!(
            "a frame of {}B is longer than the link carries, {}B, and 'dont-fragment: on' \
             forbids to cut it",
            frame(longest), frame(self.fits());
            "leave that out, or make it shorter"
        )
    }
}

/// Leaves it to the network header to be cut.
pub(super) fn allow(stack: &mut [Header]) {
    if let Some(Header::Ipv4(ip)) = stack.iter_mut().find(|header| is_network(header)) {
        ip.dont_fragment = Some(false);
    }
}

fn is_network(header: &Header) -> bool {
    matches!(header, Header::Ipv4(_) | Header::Ipv6(_) | Header::Arp(_))
}

/// The key from which a flow's first identification is drawn.
pub(super) fn key(seed: u64, id: u16) -> Key {
    Key::new(seed, id.into(), Purpose::Identification)
}

fn is_extension(header: &Header) -> bool {
    matches!(
        header,
        Header::Ipv6(_)
            | Header::HopByHop(_)
            | Header::Routing(_)
            | Header::DestinationOptions(_)
            | Header::Fragment(_)
    )
}
