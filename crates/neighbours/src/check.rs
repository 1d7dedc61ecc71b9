//! Whether another station has an address of ours already: ARP probes (RFC 5227 §2.1) and duplicate address detection (RFC 4862
//! §5.4), before the start.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_units::Nanos;
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::mac::MacAddr;
use wirebeat_wire::walk::{self, Policy};

use crate::arp::Arp;
use crate::ndp::{self, Carrier, Kind, Message};
use crate::settings::{SettingsError, check_link, is_station};
use crate::{Hosts, Link};

/// How duplicates are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// Our end of the link.
    pub link: Link,
    /// The most addresses of each version of IP that are checked, the lowest ones.
    pub most: usize,
    /// Probes of each address, at least one (RFC 5227 §1.1, PROBE_NUM: 3; RFC 4862 §5.1, DupAddrDetectTransmits: 1).
    pub probes: u8,
    /// Between two probes of an address, where there are few (RFC 5227 §1.1, PROBE_MIN: 1 s).
    pub interval: Nanos,
    /// After the last probe (RFC 5227 §1.1, ANNOUNCE_WAIT: 2 s).
    pub wait: Nanos,
    /// Between two frames.
    pub spacing: Nanos,
    /// Whether the addresses are announced once where nobody else has them, so that stations which knew them elsewhere find us (RFC
    /// 5227 §2.3, RFC 4861 §7.2.6).
    pub announce: bool,
}

impl CheckSettings {
    /// The first 256 addresses of each version, with the numbers of RFC 5227; at most 10,000 frames a second.
    pub fn new(link: Link) -> CheckSettings {
        CheckSettings {
            link,
            most: 256,
            probes: 3,
            interval: Nanos::from_secs(1),
            wait: Nanos::from_secs(2),
            spacing: Nanos::from_micros(100),
            announce: true,
        }
    }
}

/// An address of ours that another station has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which address.
    pub address: IpAddr,
    /// Of which station.
    pub mac: MacAddr,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Running,
    /// Nobody has one of the addresses that were checked.
    Free {
        /// How many were checked.
        checked: usize,
    },
    /// Another station has, or wants, an address of ours: the first that was found.
    Conflict(Conflict),
}

/// A search for stations that have addresses of ours. Frames and times in, frames out.
#[derive(Debug)]
pub struct AddressCheck {
    settings: CheckSettings,
    hosts: Hosts,
    addresses: Vec<IpAddr>,
    /// Rounds that are over: probes, and behind these the announcements.
    rounds: u8,
    /// The next address of this round.
    at: usize,
    round_start: Nanos,
    /// When the next frame is due, or the outcome.
    due: Nanos,
    conflict: Option<Conflict>,
}

impl AddressCheck {
    /// Begins at `now`.
    ///
    /// # Errors
    /// The link's address or VLAN is not valid.
    pub fn new(
        settings: CheckSettings,
        hosts: &Hosts,
        now: Nanos,
    ) -> Result<AddressCheck, SettingsError> {
        check_link(&settings.link)?;
        let first = |version| hosts.addresses(version).take(settings.most);
        Ok(AddressCheck {
            settings: CheckSettings { probes: settings.probes.max(1), ..settings },
            hosts: hosts.clone(),
            addresses: first(Version::V4).chain(first(Version::V6)).collect(),
            rounds: 0,
            at: 0,
            round_start: now,
            due: now,
            conflict: None,
        })
    }

    /// How many addresses are checked.
    pub fn checked(&self) -> usize {
        self.addresses.len()
    }

    /// What was found until `now`. When nobody has the addresses, that is said after they are announced.
    pub fn outcome(&self, now: Nanos) -> Outcome {
        let CheckSettings { probes, announce, .. } = self.settings;
        let silent = self.rounds == probes && !announce && self.due <= now;
        match self.conflict {
            Some(conflict) => Outcome::Conflict(conflict),
            None if silent || self.is_over() => Outcome::Free { checked: self.addresses.len() },
            None => Outcome::Running,
        }
    }

    fn is_over(&self) -> bool {
        self.addresses.is_empty() || self.rounds > self.settings.probes
    }

    /// When [`AddressCheck::next_frame`] or [`AddressCheck::outcome`] has something new; `None`: it is over.
    pub fn next_time(&self) -> Option<Nanos> {
        (self.conflict.is_none() && !self.is_over()).then_some(self.due)
    }

    /// Writes the next frame, where one is due, into `into`, which has room for [`FRAME_MAX`](crate::FRAME_MAX) bytes; returns its
    /// length without FCS.
    pub fn next_frame(&mut self, now: Nanos, into: &mut [u8]) -> Option<usize> {
        let CheckSettings { link, probes, interval, wait, spacing, announce, .. } = self.settings;
        if self.conflict.is_some() || self.is_over() || now < self.due {
            return None;
        }
        let is_probe = self.rounds < probes;
        if !is_probe && !announce {
            return None;
        }
        let address = *self.addresses.get(self.at)?;
        let len = write(&self.hosts.link_of(&link, address), address, is_probe, into);
        self.at += 1;
        self.due = now.saturating_add(spacing);
        if self.at == self.addresses.len() {
            self.at = 0;
            self.rounds += 1;
            self.due = if self.rounds < probes {
                self.due.max(self.round_start.saturating_add(interval))
            } else {
                now.saturating_add(wait)
            };
            self.round_start = self.due;
        }
        len
    }

    /// Takes a received frame; says what it tells of an address of ours.
    pub fn receive(&mut self, frame: &[u8]) -> Option<Conflict> {
        let conflict = self.find(frame)?;
        self.conflict.get_or_insert(conflict);
        Some(conflict)
    }

    fn find(&self, frame: &[u8]) -> Option<Conflict> {
        let link = &self.settings.link;
        let head = link.read(frame).ok()?;
        let carried = frame.get(head.at..)?;
        let (address, mac) = match head.ether_type {
            EtherType::ARP => {
                let arp = Arp::read(carried).ok()?;
                // Another one that probes for the same address at the same time counts too (RFC 5227 §2.1.1).
                let is_probe = !arp.is_reply && arp.sender.is_unspecified();
                (if is_probe { arp.target } else { arp.sender }.into(), arp.sender_mac)
            }
            EtherType::IPV6 => {
                let packet = walk::ip_packet(carried, Version::V6, Policy::Strict)?;
                let (IpAddr::V6(source), IpAddr::V6(destination)) =
                    (packet.source(), packet.destination())
                else {
                    return None;
                };
                if packet.protocol != Protocol::ICMPV6 || packet.is_fragment() {
                    return None;
                }
                let message = Message::read(&Carrier {
                    source,
                    destination,
                    hop_limit: packet.ttl(),
                    headers_len: packet.headers_len,
                    content: packet.content,
                })
                .ok()?;
                let address = match message.kind {
                    // Another one that looks for duplicates of the same address (RFC 4862 §5.4.3).
                    Kind::Solicitation if source.is_unspecified() => message.target,
                    Kind::Solicitation => source,
                    Kind::Advertisement { .. } => message.target,
                };
                (IpAddr::V6(address), message.mac.unwrap_or(head.from))
            }
            _ => return None,
        };
        let is_other = is_station(mac) && mac != self.hosts.link_of(link, address).mac;
        (is_other && self.hosts.contains(address)).then_some(Conflict { address, mac })
    }
}

/// Writes a probe for an address, or its announcement.
fn write(link: &Link, address: IpAddr, is_probe: bool, into: &mut [u8]) -> Option<usize> {
    match address {
        IpAddr::V4(target) => {
            let sender = if is_probe { Ipv4Addr::UNSPECIFIED } else { target };
            let target_mac = MacAddr([0; 6]);
            let arp = Arp { is_reply: false, sender_mac: link.mac, sender, target_mac, target };
            arp.write(link, MacAddr::BROADCAST, into)
        }
        IpAddr::V6(target) if is_probe => {
            let (message, to) = Message::question(link, Ipv6Addr::UNSPECIFIED, target, None);
            message.write(link, to, into)
        }
        IpAddr::V6(target) => {
            let message = Message::advertisement(link, target, Ipv6Addr::UNSPECIFIED);
            message.write(link, ndp::ALL_NODES_MAC, into)
        }
    }
}
