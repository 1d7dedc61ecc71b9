//! What a driver tells and lets be set: speed, offloads, rings, channels, interrupt coalescing.
//!
//! Over generic netlink (`linux/ethtool_netlink.h`, Linux ≥ 5.6), which follows the network
//! namespace of the socket.

use netlink_packet_core::DefaultNla;
use rustix::io::Errno;
use wirebeat_units::{BitRate, Fault, fault, into_fault};

use crate::generic::{Family, Generic};
use crate::{LinkIndex, Netlink, NetlinkError, attributes};

const MSG_LINKMODES_GET: u8 = 4;
const MSG_FEATURES_GET: u8 = 11;
const MSG_FEATURES_SET: u8 = 12;
const MSG_RINGS_GET: u8 = 15;
const MSG_CHANNELS_GET: u8 = 17;
const MSG_COALESCE_GET: u8 = 19;

/// Every message has its header here: `ETHTOOL_A_*_HEADER`.
const A_HEADER: u16 = 1;
const A_HEADER_DEV_INDEX: u16 = 1;
const A_LINKMODES_SPEED: u16 = 5;
const A_FEATURES_HW: u16 = 2;
const A_FEATURES_WANTED: u16 = 3;
const A_FEATURES_ACTIVE: u16 = 4;
const A_BITSET_BITS: u16 = 3;
const A_BITSET_BITS_BIT: u16 = 1;
const A_BITSET_BIT_NAME: u16 = 2;
const A_BITSET_BIT_VALUE: u16 = 3;
/// `SPEED_UNKNOWN` of `linux/ethtool.h`.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// Why a driver's settings cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum EthtoolError {
    /// The kernel has no ethtool family.
    Missing,
    /// The driver does not have it.
    Unsupported(LinkIndex, &'static str),
    /// Netlink failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl EthtoolError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            EthtoolError::Missing => {
                fault!(
                    "this kernel has no ethtool netlink";
                    "it needs Linux 5.6 with CONFIG_ETHTOOL_NETLINK"
                )
            }
            EthtoolError::Unsupported(first, second) => {
                fault!("interface {first} does not tell its {second}")
            }
            EthtoolError::Netlink(inner) => inner.fault(),
        }
    }
}

into_fault!(EthtoolError);

/// An offload, by the kernel's name for it (`ethtool --show-features`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// "rx-gro", "tx-tcp-segmentation", …
    pub name: String,
    /// Whether it is at work now.
    pub active: bool,
    /// Whether the driver lets it be changed.
    pub changeable: bool,
}

/// Entries of the descriptor rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are their names")]
pub struct Rings {
    pub rx: Option<u32>,
    pub rx_max: Option<u32>,
    pub tx: Option<u32>,
    pub tx_max: Option<u32>,
}

/// Queues with their interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are their names")]
pub struct Channels {
    pub rx: Option<u32>,
    pub tx: Option<u32>,
    pub combined: Option<u32>,
    pub rx_max: Option<u32>,
    pub tx_max: Option<u32>,
    pub combined_max: Option<u32>,
}

/// How long a card holds back an interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds after a received frame.
    pub rx_usecs: Option<u32>,
    /// Received frames.
    pub rx_frames: Option<u32>,
    /// Microseconds after a sent frame.
    pub tx_usecs: Option<u32>,
    /// Sent frames.
    pub tx_frames: Option<u32>,
    /// Whether the driver changes the receiving side by itself.
    pub adaptive_rx: Option<bool>,
    /// Whether the driver changes the sending side by itself.
    pub adaptive_tx: Option<bool>,
}

impl Netlink {
    /// Speed of the line; `None` where the driver has none to tell.
    pub(crate) fn speed(&mut self, link: LinkIndex) -> Option<BitRate> {
        let reply = self.ethtool(link, MSG_LINKMODES_GET, "speed").ok()?;
        match attributes::find_u32(&reply, A_LINKMODES_SPEED)? {
            0 | SPEED_UNKNOWN => None,
            megabits => Some(BitRate(u64::from(megabits) * 1_000_000)),
        }
    }

    /// The offloads of an interface.
    pub fn features(&mut self, link: LinkIndex) -> Result<Vec<Feature>, EthtoolError> {
        let reply = self.ethtool(link, MSG_FEATURES_GET, "offloads")?;
        let active = names(&reply, A_FEATURES_ACTIVE);
        let changeable = names(&reply, A_FEATURES_HW);
        let mut all: Vec<&String> = active.iter().chain(&changeable).collect();
        all.sort();
        all.dedup();
        Ok(all
            .into_iter()
            .map(|name| Feature {
                name: name.clone(),
                active: active.contains(name),
                changeable: changeable.contains(name),
            })
            .collect())
    }

    /// Switches offloads, each by the kernel's name, on or off. Those that are fixed stay as they are.
    pub fn set_features(
        &mut self,
        link: LinkIndex,
        wanted: &[(&str, bool)],
    ) -> Result<(), EthtoolError> {
        let bits: Vec<DefaultNla> = wanted
            .iter()
            .map(|&(name, on)| {
                let mut bit = vec![attributes::string(A_BITSET_BIT_NAME, name)];
                bit.extend(on.then(|| attributes::bytes(A_BITSET_BIT_VALUE, &[])));
                attributes::nest(A_BITSET_BITS_BIT, &bit)
            })
            .collect();
        let set = [attributes::nest(A_BITSET_BITS, &bits)];
        let ask = [header(link), attributes::nest(A_FEATURES_WANTED, &set)];
        let attempt = format!("change the offloads of interface {link}");
        let (generic, family) = self.ethtool_family()?;
        generic.command(&attempt, family, MSG_FEATURES_SET, &ask)?;
        Ok(())
    }

    /// The descriptor rings of an interface.
    pub fn rings(&mut self, link: LinkIndex) -> Result<Rings, EthtoolError> {
        let reply = self.ethtool(link, MSG_RINGS_GET, "rings")?;
        // ETHTOOL_A_RINGS_*
        let number = |kind| attributes::find_u32(&reply, kind);
        Ok(Rings { rx_max: number(2), tx_max: number(5), rx: number(6), tx: number(9) })
    }

    /// The channels of an interface.
    pub fn channels(&mut self, link: LinkIndex) -> Result<Channels, EthtoolError> {
        let reply = self.ethtool(link, MSG_CHANNELS_GET, "channels")?;
        // ETHTOOL_A_CHANNELS_*
        let number = |kind| attributes::find_u32(&reply, kind);
        Ok(Channels {
            rx_max: number(2),
            tx_max: number(3),
            combined_max: number(5),
            rx: number(6),
            tx: number(7),
            combined: number(9),
        })
    }

    /// How an interface holds back interrupts.
    pub fn coalescing(&mut self, link: LinkIndex) -> Result<Coalescing, EthtoolError> {
        let reply = self.ethtool(link, MSG_COALESCE_GET, "interrupt coalescing")?;
        // ETHTOOL_A_COALESCE_*
        let number = |kind| attributes::find_u32(&reply, kind);
        let flag = |kind| attributes::find(&reply, kind)?.first().map(|&value| value != 0);
        Ok(Coalescing {
            rx_usecs: number(2),
            rx_frames: number(3),
            tx_usecs: number(6),
            tx_frames: number(7),
            adaptive_rx: flag(11),
            adaptive_tx: flag(12),
        })
    }

    /// Asks about one interface; `what` names the thing asked for.
    pub(crate) fn ethtool(
        &mut self,
        link: LinkIndex,
        command: u8,
        what: &'static str,
    ) -> Result<Vec<u8>, EthtoolError> {
        let (generic, family) = self.ethtool_family()?;
        let attempt = format!("read the {what} of interface {link}");
        match generic.command(&attempt, family, command, &[header(link)]) {
            Ok(replies) => Ok(replies.into_iter().next().unwrap_or_default()),
            Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => {
                Err(EthtoolError::Unsupported(link, what))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn ethtool_family(&mut self) -> Result<(&mut Generic, Family), EthtoolError> {
        let generic = self.generic.as_mut().ok_or(EthtoolError::Missing)?;
        let family = generic.ethtool.ok_or(EthtoolError::Missing)?;
        Ok((generic, family))
    }
}

fn header(link: LinkIndex) -> DefaultNla {
    attributes::nest(A_HEADER, &[attributes::number(A_HEADER_DEV_INDEX, link.get())])
}

/// The names of the bits that are set in the bitset `kind`; such a list without mask names no others.
pub(crate) fn names(reply: &[u8], kind: u16) -> Vec<String> {
    let bits = attributes::find(reply, kind).and_then(|set| attributes::find(&set, A_BITSET_BITS));
    attributes::iter(&bits.unwrap_or_default())
        .filter_map(|bit| attributes::find(bit.value(), A_BITSET_BIT_NAME))
        .map(|name| attributes::text(&name))
        .collect()
}
