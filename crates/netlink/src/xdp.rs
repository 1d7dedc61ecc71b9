//! XDP: what is attached to an interface, and what its driver can do.

use std::fmt;

use netlink_packet_route::link::{LinkXdp, XdpAttached};

use crate::{LinkIndex, Netlink, attributes};

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;

/// The bits of `enum netdev_xdp_rx_metadata` and of `enum netdev_xsk_flags` (`linux/netdev.h`), from the lowest.
const RECEIVE_METADATA: [&str; 3] = [XdpOffer::TIMESTAMP, XdpOffer::HASH, "VLAN tag"];
const TRANSMIT_METADATA: [&str; 3] = [XdpOffer::TIMESTAMP, "checksum", XdpOffer::LAUNCH_TIME];

/// Where an attached program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before a packet buffer is made.
    Native,
    /// In the stack, on a finished packet buffer; works with every driver, slowly.
    Generic,
    /// On the card.
    Offloaded,
    /// Several programs in several modes at once.
    Several,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
            XdpMode::Offloaded => "offloaded",
            XdpMode::Several => "several",
        })
    }
}

/// A program attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpAttachment {
    /// Where it runs.
    pub mode: XdpMode,
    /// The kernel's number of the program; of the native one when there are several.
    pub program: Option<u32>,
}

impl XdpAttachment {
    /// From the parts of `IFLA_XDP`.
    pub(crate) fn from_parts(parts: &[LinkXdp]) -> Option<Self> {
        let mode = parts.iter().find_map(|part| match part {
            LinkXdp::Attached(XdpAttached::Driver) => Some(XdpMode::Native),
            LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(XdpMode::Generic),
            LinkXdp::Attached(XdpAttached::Hardware) => Some(XdpMode::Offloaded),
            LinkXdp::Attached(XdpAttached::Multiple) => Some(XdpMode::Several),
            _ => None,
        })?;
        let program = parts.iter().find_map(|part| match (mode, part) {
            (XdpMode::Several, LinkXdp::DrvProgId(id)) => Some(*id),
            (XdpMode::Several, _) => None,
            (_, LinkXdp::ProgId(id)) => Some(*id),
            _ => None,
        });
        Some(XdpAttachment { mode, program })
    }
}

/// What a driver can do with XDP at this moment (`enum netdev_xdp_act` of `linux/netdev.h`).
///
/// Some drivers change it as they go: veth takes redirected frames only while its peer has a
/// program or GRO on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Runs programs: pass, drop, send back.
    pub const BASIC: XdpFeatures = XdpFeatures(1);
    /// Its programs may redirect.
    pub const REDIRECT: XdpFeatures = XdpFeatures(1 << 1);
    /// Takes frames that are redirected to it.
    pub const NDO_XMIT: XdpFeatures = XdpFeatures(1 << 2);
    /// AF_XDP without copying.
    pub const XSK_ZEROCOPY: XdpFeatures = XdpFeatures(1 << 3);
    /// Runs programs on the card.
    pub const HW_OFFLOAD: XdpFeatures = XdpFeatures(1 << 4);
    /// Its programs see frames of several buffers.
    pub const RX_SG: XdpFeatures = XdpFeatures(1 << 5);
    /// Takes redirected frames of several buffers.
    pub const NDO_XMIT_SG: XdpFeatures = XdpFeatures(1 << 6);

    const NAMES: [(XdpFeatures, &'static str); 7] = [
        (XdpFeatures::BASIC, "basic"),
        (XdpFeatures::REDIRECT, "redirect"),
        (XdpFeatures::NDO_XMIT, "ndo-xmit"),
        (XdpFeatures::XSK_ZEROCOPY, "xsk-zerocopy"),
        (XdpFeatures::HW_OFFLOAD, "hw-offload"),
        (XdpFeatures::RX_SG, "rx-sg"),
        (XdpFeatures::NDO_XMIT_SG, "ndo-xmit-sg"),
    ];

    /// Whether it has all of `wanted`.
    pub const fn contains(self, wanted: XdpFeatures) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// The kernel's names, with blanks between; "none" for none.
impl fmt::Display for XdpFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Self::NAMES
            .iter()
            .filter(|(bit, _)| self.contains(*bit))
            .map(|(_, name)| *name)
            .collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(" ") }.as_str())
    }
}

impl XdpOffer {
    /// Among [`Self::receive_metadata`] and [`Self::transmit_metadata`]: when a frame arrived or left, by the card's clock.
    pub const TIMESTAMP: &'static str = "timestamp";
    /// Among [`Self::receive_metadata`]: what the card chose the queue by.
    pub const HASH: &'static str = "hash";
    /// Among [`Self::transmit_metadata`]: that the card sends a frame at its own time.
    pub const LAUNCH_TIME: &'static str = "launch time";
}

/// What a driver offers to AF_XDP sockets and to programs, all that the kernel tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpOffer {
    /// What it can do.
    pub features: XdpFeatures,
    /// Of how many buffers a frame may be without a copy; `None` where that is not told (before Linux 6.6, or without zero copy).
    pub zero_copy_segments: Option<u32>,
    /// What a program can ask of a received frame (Linux 6.8).
    pub receive_metadata: Vec<&'static str>,
    /// What a socket can ask for a frame that it sends (Linux 6.8).
    pub transmit_metadata: Vec<&'static str>,
}

impl XdpOffer {
    /// From the attributes of a reply.
    fn parse(reply: &[u8]) -> Option<XdpOffer> {
        let bits = |kind| {
            let value = attributes::find(reply, kind)?;
            value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
        };
        let named = |kind, names: [&'static str; 3]| {
            let bits = bits(kind).unwrap_or(0);
            let named = names.into_iter().enumerate();
            named.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| name).collect()
        };
        Some(XdpOffer {
            features: XdpFeatures(bits(NETDEV_A_DEV_XDP_FEATURES)?),
            zero_copy_segments: attributes::find_u32(reply, NETDEV_A_DEV_XDP_ZC_MAX_SEGS),
            receive_metadata: named(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, RECEIVE_METADATA),
            transmit_metadata: named(NETDEV_A_DEV_XSK_FEATURES, TRANSMIT_METADATA),
        })
    }
}

impl Netlink {
    /// What the driver offers with XDP; `None` where the kernel (before Linux 6.3) or the interface has no answer.
    pub fn xdp_offer(&mut self, link: LinkIndex) -> Option<XdpOffer> {
        let generic = self.generic.as_mut()?;
        let ask = [attributes::number(NETDEV_A_DEV_IFINDEX, link.get())];
        let attempt = "ask what the driver can do with XDP";
        let replies = generic.command(attempt, generic.netdev?, NETDEV_CMD_DEV_GET, &ask).ok()?;
        replies.iter().find_map(|reply| XdpOffer::parse(reply))
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::*;

    #[test]
    fn the_mode_decides_which_program_is_meant() {
        let parts = [
            LinkXdp::Attached(XdpAttached::Multiple),
            LinkXdp::DrvProgId(7),
            LinkXdp::SkbProgId(9),
        ];
        let several = XdpAttachment { mode: XdpMode::Several, program: Some(7) };
        assert_eq!(XdpAttachment::from_parts(&parts), Some(several));
        let parts = [LinkXdp::Attached(XdpAttached::SocketBuffer), LinkXdp::ProgId(9)];
        let generic = XdpAttachment { mode: XdpMode::Generic, program: Some(9) };
        assert_eq!(XdpAttachment::from_parts(&parts), Some(generic));
        assert_eq!(XdpAttachment::from_parts(&[LinkXdp::Attached(XdpAttached::None)]), None);
    }

    #[test]
    fn features_print_by_name() {
        assert_eq!(XdpFeatures(5).to_string(), "basic ndo-xmit");
        assert_eq!(XdpFeatures(0).to_string(), "none");
        assert!(!XdpFeatures(4).contains(XdpFeatures::BASIC));
    }

    #[test]
    fn an_offer_is_read_as_far_as_the_kernel_tells_it() {
        let word = |kind: u16, value: u64| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let old = attributes::emit(&[word(3, 0x0b)]);
        let offer = XdpOffer { features: XdpFeatures(0x0b), ..XdpOffer::default() };
        assert_eq!(XdpOffer::parse(&old), Some(offer));
        let all = [word(3, 0x2b), attributes::number(4, 8), word(5, 0b11), word(6, 0b101)];
        let offer = XdpOffer {
            features: XdpFeatures(0x2b),
            zero_copy_segments: Some(8),
            receive_metadata: vec!["timestamp", "hash"],
            transmit_metadata: vec!["timestamp", "launch time"],
        };
        assert_eq!(XdpOffer::parse(&attributes::emit(&all)), Some(offer));
        for short in [&[][..], &[4, 0, 3, 0]] {
            assert_eq!(XdpOffer::parse(short), None);
        }
    }
}
