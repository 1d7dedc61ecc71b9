//! XDP: what is attached to an interface, and what its driver can do.

use std::fmt;

use netlink_packet_route::link::{LinkXdp, XdpAttached};

use crate::{LinkIndex, Netlink, attributes};

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

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

impl Netlink {
    /// What the driver says it can do with XDP; `None` where the kernel (before Linux 6.3) or the
    /// interface has no answer.
    pub(crate) fn xdp_features(&mut self, link: LinkIndex) -> Option<XdpFeatures> {
        let generic = self.generic.as_mut()?;
        let ask = [attributes::number(NETDEV_A_DEV_IFINDEX, link.get())];
        let attempt = "ask what the driver can do with XDP";
        let replies = generic.command(attempt, generic.netdev?, NETDEV_CMD_DEV_GET, &ask).ok()?;
        let value = replies.iter().find_map(|r| attributes::find(r, NETDEV_A_DEV_XDP_FEATURES))?;
        value.first_chunk().map(|b| XdpFeatures(u64::from_ne_bytes(*b)))
    }
}

#[cfg(test)]
mod tests {
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
}
