//! Who we are on a link, and where packets go from here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_units::{Fault, Nanos, fault, into_fault};
use wirebeat_wire::ip::Version;
use wirebeat_wire::mac::MacAddr;

use crate::hosts::is_unicast;
use crate::link::VLAN_MAX;
use crate::{Hosts, Link};

/// The most prefixes that are on the link: each packet is compared with all of them.
pub const PREFIXES_MAX: usize = 64;
/// The most next hops that a table may be made for.
pub const NEXT_HOPS_MAX: u32 = 1 << 20;

/// An address for each version of IP, where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPair {
    /// That of IPv4.
    pub v4: Option<Ipv4Addr>,
    /// That of IPv6.
    pub v6: Option<Ipv6Addr>,
}

impl AddressPair {
    /// That of a version.
    #[inline]
    pub fn of(&self, version: Version) -> Option<IpAddr> {
        match version {
            Version::V4 => self.v4.map(IpAddr::V4),
            Version::V6 => self.v6.map(IpAddr::V6),
        }
    }

    fn iter(&self) -> impl Iterator<Item = IpAddr> {
        [self.of(Version::V4), self.of(Version::V6)].into_iter().flatten()
    }
}

/// Who answers for our hosts, where several threads receive frames for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Requests and echoes are answered here.
    Answering,
    /// Another thread answers. This one learns from the frames that are handed to it, and asks for next hops itself.
    Listening,
}

/// Who we are on a link, and where packets go from here.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our link-layer address and our VLAN.
    pub link: Link,
    /// Which IP addresses are ours.
    pub hosts: Hosts,
    /// The router for destinations that are not on the link. Where there is none, every destination is on the link.
    pub gateway: AddressPair,
    /// Prefixes on the link, with their lengths in bits; at most [`PREFIXES_MAX`]. 169.254.0.0/16 and fe80::/10 always are (RFC
    /// 3927 §2.6.2, RFC 4291 §2.5.6).
    pub on_link: Vec<(IpAddr, u8)>,
    /// Broadcast addresses of networks on the link, at most [`PREFIXES_MAX`]: a packet that says that it comes from one is ignored, as
    /// from a group (RFC 1122 §3.2.1.3). 255.255.255.255 always is one.
    pub broadcasts: Vec<Ipv4Addr>,
    /// Where all packets go, for any destination: then no address is ever asked for.
    pub next_hop: Option<MacAddr>,
    /// Which of our addresses questions come from; the first one of its version where it is not said.
    pub solicit_from: AddressPair,
    /// The most next hops that are known or asked for at a time; memory for all of them is taken at once (about 90 bytes each). When
    /// the table is full, one that was not used for long is replaced.
    pub next_hops: u32,
    /// After this time, or up to half as long again, a next hop in use is asked whether it is still there, by a frame to it alone (RFC
    /// 1122 §2.3.2.1(2)); not all at once, as RFC 4861 §6.3.4 wants it. Packets go to it all the same until it did not answer three
    /// times.
    pub confirm_after: Nanos,
    /// The most echo requests that are answered in a second; 0: none.
    pub echoes_per_second: u32,
    /// Whether requests are answered here.
    pub role: Role,
    /// Random numbers: with them nobody else can tell where an address lies in the table.
    pub key: [u64; 2],
}

impl Settings {
    /// For these hosts, without a gateway: every destination is on the link. 16,384 next hops, confirmed after 60 s to 90 s,
    /// 1,000 echoes a second, answered here.
    pub fn new(link: Link, hosts: Hosts, key: [u64; 2]) -> Settings {
        Settings {
            link,
            hosts,
            gateway: AddressPair::default(),
            on_link: Vec::new(),
            broadcasts: Vec::new(),
            next_hop: None,
            solicit_from: AddressPair::default(),
            next_hops: 16_384,
            // RFC 1122 §2.3.2.1: "on the order of a minute".
            confirm_after: Nanos::from_secs(60),
            echoes_per_second: 1_000,
            role: Role::Answering,
            key,
        }
    }

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// The first part that does not.
    pub fn check(&self) -> Result<(), SettingsError> {
        check_link(&self.link)?;
        if let Some(mac) = self.next_hop.filter(|mac| !is_station(*mac) || *mac == self.link.mac) {
            return Err(SettingsError::NextHop(mac));
        }
        for gateway in self.gateway.iter() {
            if !is_unicast(gateway) || self.hosts.contains(gateway) {
                return Err(SettingsError::Gateway(gateway));
            }
        }
        if self.on_link.len() > PREFIXES_MAX {
            return Err(SettingsError::Prefixes(self.on_link.len()));
        }
        if self.broadcasts.len() > PREFIXES_MAX {
            return Err(SettingsError::Prefixes(self.broadcasts.len()));
        }
        for &(address, len) in &self.on_link {
            if usize::from(len) > Version::of(address).address_len() * 8 {
                return Err(SettingsError::PrefixLen(address, len));
            }
        }
        if let Some(address) = self.solicit_from.iter().find(|it| !self.hosts.contains(*it)) {
            return Err(SettingsError::SolicitFrom(address));
        }
        if !(1..=NEXT_HOPS_MAX).contains(&self.next_hops) {
            return Err(SettingsError::NextHops(self.next_hops));
        }
        Ok(())
    }
}

/// Whether it is the address of one station.
pub(crate) fn is_station(mac: MacAddr) -> bool {
    !mac.is_multicast() && mac != MacAddr([0; 6])
}

pub(crate) fn check_link(link: &Link) -> Result<(), SettingsError> {
    if !is_station(link.mac) {
        return Err(SettingsError::Mac(link.mac));
    }
    match link.vlan {
        Some(number) if !(1..=VLAN_MAX).contains(&number) => Err(SettingsError::Vlan(number)),
        _ => Ok(()),
    }
}

/// Why settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// Our link-layer address is not that of one station.
    Mac(MacAddr),
    /// There is no VLAN of this number.
    Vlan(u16),
    /// The next hop is not the address of one other station.
    NextHop(MacAddr),
    /// The gateway is one of our hosts, or cannot be a host.
    Gateway(IpAddr),
    /// There are so many prefixes.
    Prefixes(usize),
    /// The prefix of an address is longer than the address.
    PrefixLen(IpAddr, u8),
    /// Questions come from an address that is not ours.
    SolicitFrom(IpAddr),
    /// The table is for so many next hops.
    NextHops(u32),
}

impl SettingsError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            SettingsError::Mac(mac) => fault!(
                "{mac} is not the address of one station";
                "give one whose first byte is even, for example 02:00:00:00:00:01"
            ),
            SettingsError::Vlan(number) => {
                fault!("there is no VLAN {number}"; "VLANs are 1 to {VLAN_MAX}")
            }
            SettingsError::NextHop(mac) => fault!(
                "the next hop {mac} is not the address of one other station";
                "give the address of the router or of the device under test"
            ),
            SettingsError::Gateway(address) => fault!(
                "the gateway {address} is one of our hosts, or an address that no host can have";
                "give the router's address on this link"
            ),
            SettingsError::Prefixes(count) => fault!(
                "{count} prefixes are on the link, and {PREFIXES_MAX} can be";
                "join neighbouring prefixes"
            ),
            SettingsError::PrefixLen(address, len) => {
                let bits = Version::of(*address).address_len() * 8;
                fault!("the prefix {address}/{len} is longer than an address"; "write 0 to {bits}")
            }
            SettingsError::SolicitFrom(address) => fault!(
                "questions cannot come from {address}, which is not one of our hosts";
                "give one of the hosts"
            ),
            SettingsError::NextHops(count) => fault!(
                "a table cannot have {count} next hops"; "1 to {NEXT_HOPS_MAX} are possible"
            ),
        }
    }
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.fault().fmt(f)
    }
}

impl std::error::Error for SettingsError {}

into_fault!(SettingsError);

/// Where packets go: a prefix of the link as its bits and the mask over them.
#[derive(Clone, Copy, Debug)]
struct Prefix<T> {
    bits: T,
    mask: T,
}

/// Tells which destinations are on the link.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    gateway: AddressPair,
    v4: Vec<Prefix<u32>>,
    v6: Vec<Prefix<u128>>,
}

impl Routes {
    pub fn new(settings: &Settings) -> Routes {
        let always = [
            (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
            (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
        ];
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for &(address, len) in settings.on_link.iter().chain(&always) {
            match address {
                IpAddr::V4(address) => {
                    let mask = u32::MAX.checked_shl(32_u32.saturating_sub(len.into())).unwrap_or(0);
                    v4.push(Prefix { bits: address.to_bits() & mask, mask });
                }
                IpAddr::V6(address) => {
                    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(len.into()));
                    let mask = mask.unwrap_or(0);
                    v6.push(Prefix { bits: address.to_bits() & mask, mask });
                }
            }
        }
        Routes { gateway: settings.gateway, v4, v6 }
    }

    /// The gateway for this version of IP.
    #[inline]
    pub fn gateway(&self, version: Version) -> Option<IpAddr> {
        self.gateway.of(version)
    }

    /// The gateway, where a destination is not on the link.
    #[inline]
    pub fn gateway_to(&self, destination: IpAddr) -> Option<IpAddr> {
        match destination {
            IpAddr::V4(address) => {
                let gateway = self.gateway.v4?;
                let bits = address.to_bits();
                let on_link =
                    address == gateway || self.v4.iter().any(|it| bits & it.mask == it.bits);
                (!on_link).then_some(gateway.into())
            }
            IpAddr::V6(address) => {
                let gateway = self.gateway.v6?;
                let bits = address.to_bits();
                let on_link =
                    address == gateway || self.v6.iter().any(|it| bits & it.mask == it.bits);
                (!on_link).then_some(gateway.into())
            }
        }
    }
}
