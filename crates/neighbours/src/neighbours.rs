//! Frames in, frames out: what each received frame is, and what is sent of our own.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use wirebeat_units::Nanos;
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::mac::MacAddr;
use wirebeat_wire::walk::{self, IpPacket, Policy};

use crate::arp::Arp;
use crate::check::Conflict;
use crate::counters::{Counters, Ignored};
use crate::echo::{self, Request};
use crate::hosts::is_unicast;
use crate::link::{Head, Link};
use crate::ndp::{self, Carrier, Kind, Message};
use crate::settings::{AddressPair, Role, Routes, Settings, SettingsError, is_station};
use crate::table::{Change, Question, Source, State, Table};
use crate::{FRAME_MAX, Hosts};

/// Answers that wait at most. An ARP request costs a sender 84 bytes of the line: these are 0.1 ms at 10 Gbit/s.
const ANSWERS_MAX: usize = 1024;
/// Echo replies that wait at most, and that may leave at once.
const ECHOES_MAX: usize = 64;
/// Next hops that are asked for in a second because of packets of no session.
const STRANGERS_PER_SECOND: u32 = 64;
/// A bit of TCP's flags, and where these lie (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const TCP_FLAGS_AT: usize = 13;

/// What a received frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// An IP packet for one of our hosts: where it lies in the frame, without padding. It may be of any protocol, and a fragment; its
    /// transport checksum was not looked at.
    Packet(Range<usize>),
    /// It was for us, and nothing more is to be done about it than to ask for [`Neighbours::next_frame`].
    Handled,
    /// It was not for us, or not as it has to be.
    Ignored(Ignored),
}

/// What was found of a frame that is not ignored.
enum Found {
    Packet(Range<usize>),
    Handled,
}

/// An answer that is to be sent.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Arp { to: MacAddr, asker: Ipv4Addr, target: Ipv4Addr },
    Advertisement { to: MacAddr, asker: Ipv6Addr, target: Ipv6Addr },
}

/// An echo reply that is to be sent.
#[derive(Clone, Debug)]
struct Echo {
    len: usize,
    frame: [u8; FRAME_MAX],
}

/// How many may pass in a second (a generic cell rate algorithm, ITU-T I.371).
#[derive(Clone, Copy, Debug)]
struct RateLimit {
    /// Nanoseconds between two that pass evenly; `None`: none passes.
    interval: Option<u64>,
    /// How much sooner than evenly one may pass.
    tolerance: u64,
    /// When the next one would pass evenly.
    next: Nanos,
}

impl RateLimit {
    fn new(per_second: u32, burst: u32) -> RateLimit {
        let interval = 1_000_000_000_u64.checked_div(per_second.into()).map(|it| it.max(1));
        let tolerance = interval.unwrap_or(0) * u64::from(burst.saturating_sub(1));
        RateLimit { interval, tolerance, next: Nanos::ZERO }
    }

    fn pass(&mut self, now: Nanos) -> bool {
        let early = self.next.saturating_sub(now).get();
        let Some(interval) = self.interval.filter(|_| early <= self.tolerance) else {
            return false;
        };
        self.next = self.next.max(now).saturating_add(Nanos::new(interval));
        true
    }
}

/// Our hosts on a link, and the next hops of their packets. See the crate's documentation.
#[derive(Debug)]
pub struct Neighbours {
    link: Link,
    hosts: Hosts,
    routes: Routes,
    fixed: Option<MacAddr>,
    /// Broadcast addresses of networks on the link.
    broadcasts: Vec<Ipv4Addr>,
    role: Role,
    /// Where questions come from.
    solicit_from: AddressPair,
    table: Table,
    answers: VecDeque<Answer>,
    echoes: VecDeque<Echo>,
    echo_limit: RateLimit,
    stranger_limit: RateLimit,
    conflict: Option<Conflict>,
    counters: Counters,
}

impl Neighbours {
    /// Hosts with these settings. All memory is taken now: about 90 bytes for each next hop, and 120 KiB.
    ///
    /// # Errors
    /// See [`Settings::check`].
    pub fn new(settings: Settings) -> Result<Neighbours, SettingsError> {
        settings.check()?;
        let routes = Routes::new(&settings);
        let Settings { link, hosts, next_hop, broadcasts, mut solicit_from, .. } = settings;
        let first = |version| hosts.addresses(version).next();
        if let (None, Some(IpAddr::V4(address))) = (solicit_from.v4, first(Version::V4)) {
            solicit_from.v4 = Some(address);
        }
        if let (None, Some(IpAddr::V6(address))) = (solicit_from.v6, first(Version::V6)) {
            solicit_from.v6 = Some(address);
        }
        // Where nobody is asked for, there is nothing to know.
        let next_hops = if next_hop.is_some() { 1 } else { settings.next_hops };
        Ok(Neighbours {
            link,
            hosts,
            routes,
            fixed: next_hop,
            broadcasts,
            role: settings.role,
            solicit_from,
            table: Table::new(next_hops, settings.key, settings.confirm_after),
            answers: VecDeque::with_capacity(ANSWERS_MAX),
            echoes: VecDeque::with_capacity(ECHOES_MAX),
            echo_limit: RateLimit::new(settings.echoes_per_second, ECHOES_MAX as u32),
            stranger_limit: RateLimit::new(STRANGERS_PER_SECOND, STRANGERS_PER_SECOND),
            conflict: None,
            counters: Counters::default(),
        })
    }

    /// Our end of the link, which writes Ethernet headers of hosts that have no Ethernet address of their own.
    #[inline]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The end of the link of our host at `address`, which writes the Ethernet headers of its packets.
    #[inline]
    pub fn link_of(&self, address: IpAddr) -> Link {
        self.hosts.link_of(&self.link, address)
    }

    /// Whether `mac` is that of our host at `address`, or of our hosts that have none of their own.
    fn is_own(&self, address: IpAddr, mac: MacAddr) -> bool {
        mac == self.link.mac || self.hosts.mac_of(address) == Some(mac)
    }

    /// Our addresses.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        (counters.failed, counters.table_full) = (self.table.failed, self.table.full);
        counters
    }

    /// The first station that was seen to use an address of ours.
    pub fn conflict(&self) -> Option<Conflict> {
        self.conflict
    }

    /// Takes a received frame, which begins at the Ethernet header and has no FCS.
    #[inline]
    pub fn receive(&mut self, now: Nanos, frame: &[u8]) -> Received {
        self.counters.received += 1;
        match self.find(now, frame) {
            Ok(Found::Packet(range)) => {
                self.counters.packets += 1;
                Received::Packet(range)
            }
            Ok(Found::Handled) => {
                self.counters.handled += 1;
                Received::Handled
            }
            Err(why) => {
                self.counters.ignore(why);
                Received::Ignored(why)
            }
        }
    }

    #[inline]
    fn find(&mut self, now: Nanos, frame: &[u8]) -> Result<Found, Ignored> {
        let head = self.link.read(frame)?;
        let carried = frame.get(head.at..).unwrap_or_default();
        match head.ether_type.version() {
            Some(version) => self.packet(now, &head, version, carried),
            None if head.ether_type == EtherType::ARP => self.arp(now, &head, carried),
            None => Err(Ignored::EtherType),
        }
    }

    #[inline]
    fn packet(
        &mut self,
        now: Nanos,
        head: &Head,
        version: Version,
        carried: &[u8],
    ) -> Result<Found, Ignored> {
        // Over IPv4 nothing for a group is for us.
        let may_be_for_us = version == Version::V6 && head.to.is_multicast();
        if self.hosts.share_one_station() && head.to != self.link.mac && !may_be_for_us {
            return Err(Ignored::Destination);
        }
        let packet = walk::ip_packet(carried, version, Policy::Strict).ok_or(Ignored::Malformed)?;
        let (source, destination) = (packet.source(), packet.destination());
        let is_ours = head.to == self.link_of(destination).mac;
        if !is_ours && !may_be_for_us {
            return Err(Ignored::Destination);
        }
        if let (Protocol::ICMPV6, IpAddr::V6(source), IpAddr::V6(destination), Some(kind)) =
            (packet.protocol, source, destination, packet.content.first())
            && matches!(*kind, ndp::SOLICITATION | ndp::ADVERTISEMENT)
            && (destination.is_multicast() || is_ours && self.hosts.contains_v6(destination))
        {
            return self.discovery(now, head, &packet, (source, destination));
        }
        if !self.hosts.contains(destination) {
            return Err(Ignored::Address);
        }
        if !is_ours {
            return Err(Ignored::Destination);
        }
        // one that says to be from where it goes would have us talk to ourselves (the LAND attack)
        if !self.is_one_host(source) || source == destination {
            return Err(Ignored::Source);
        }
        if packet.protocol == Protocol::TCP {
            let flags = packet.content.get(TCP_FLAGS_AT).copied().unwrap_or(0);
            if flags & SYN != 0 && !packet.is_fragment() {
                self.learn_from_packet(now, head.from, source);
            }
        } else if echo::is_request(packet.protocol, source, packet.content) {
            return self.echo(now, head, &packet, carried);
        }
        Ok(Found::Packet(head.at..head.at + packet.headers_len + packet.content.len()))
    }

    /// Whether it can be the address of one host: what comes from a group or from nobody is not answered.
    fn is_one_host(&self, address: IpAddr) -> bool {
        let is_broadcast = |address| self.broadcasts.contains(&address);
        is_unicast(address) && !matches!(address, IpAddr::V4(address) if is_broadcast(address))
    }

    /// Learns the next hop to who sent `frame`, which had a packet for a host of ours, where nothing is known of it. That of who sent
    /// SYN is learnt without asking for it.
    pub fn learn(&mut self, now: Nanos, frame: &[u8]) {
        let Ok(head) = self.link.read(frame) else { return };
        let carried = frame.get(head.at..).unwrap_or_default();
        let version = head.ether_type.version();
        let packet = version.and_then(|version| walk::ip_packet(carried, version, Policy::Strict));
        if let Some(packet) = packet {
            self.learn_from_packet(now, head.from, packet.source());
        }
    }

    /// Learns the next hop of a client, where nothing is known of it.
    #[cold]
    fn learn_from_packet(&mut self, now: Nanos, from: MacAddr, source: IpAddr) {
        let is_other = self.can_be_other(source) && !self.is_own(source, from);
        if self.fixed.is_some() || !is_other || !is_station(from) {
            return;
        }
        let gateway = self.routes.gateway_to(source);
        let next_hop = gateway.unwrap_or(source);
        let how = Source::Packet { confirm: gateway.is_some() };
        let learns = self.table.hear(now, next_hop, from, how);
        self.counters.learnt_from_packets += u64::from(learns);
    }

    /// Whether an address can be that of another host.
    fn can_be_other(&self, address: IpAddr) -> bool {
        is_unicast(address) && !self.hosts.contains(address)
    }

    /// Another station says that it has `address` at `mac`; see [`Table::hear`]. Only next hops enter the table.
    fn hear(&mut self, now: Nanos, address: IpAddr, mac: MacAddr, source: Source) {
        if self.fixed.is_some() || self.routes.gateway_to(address).is_some() {
            return;
        }
        let learns = self.table.hear(now, address, mac, source);
        self.counters.learnt += u64::from(learns);
    }

    /// Notes that another station says that it has an address of ours.
    fn note_conflict(&mut self, address: IpAddr, mac: MacAddr) -> Ignored {
        self.conflict.get_or_insert(Conflict { address, mac });
        Ignored::Conflict
    }

    fn arp(&mut self, now: Nanos, head: &Head, carried: &[u8]) -> Result<Found, Ignored> {
        let arp = Arp::read(carried);
        let ours = arp.map_or(self.link.mac, |arp| self.link_of(arp.target.into()).mac);
        if head.to != ours && !head.to.is_multicast() {
            return Err(Ignored::Destination);
        }
        let arp = arp?;
        // A probe is by the host that wants the address.
        let speaker = if arp.sender.is_unspecified() { arp.target } else { arp.sender };
        if !is_station(arp.sender_mac) || self.is_own(speaker.into(), arp.sender_mac) {
            return Err(Ignored::Source);
        }
        let (sender, mac) = (IpAddr::V4(arp.sender), arp.sender_mac);
        if self.hosts.contains(sender) {
            return Err(self.note_conflict(sender, mac));
        }
        // Of a probe (RFC 5227 §2.1.1) the sender has no address yet.
        let is_known = !arp.sender.is_unspecified();
        if is_known && !is_unicast(sender) {
            return Err(Ignored::Invalid);
        }
        let for_us = self.hosts.contains_v4(arp.target);
        if is_known {
            let source = match arp.is_reply {
                _ if arp.sender == arp.target => Source::Announcement,
                true if head.to.is_multicast() => Source::Announcement,
                true => Source::Answer,
                false if for_us => Source::Question,
                // What others ask each other.
                false => return Err(Ignored::Address),
            };
            self.hear(now, sender, mac, source);
        }
        if arp.is_reply || !for_us {
            return if for_us || is_known { Ok(Found::Handled) } else { Err(Ignored::Address) };
        }
        self.answer(Answer::Arp { to: mac, asker: arp.sender, target: arp.target })
    }

    fn discovery(
        &mut self,
        now: Nanos,
        head: &Head,
        packet: &IpPacket<'_>,
        (source, destination): (Ipv6Addr, Ipv6Addr),
    ) -> Result<Found, Ignored> {
        if packet.is_fragment() {
            return Err(Ignored::Fragment);
        }
        let message = Message::read(&Carrier {
            source,
            destination,
            hop_limit: packet.ttl(),
            headers_len: packet.headers_len,
            content: packet.content,
        })?;
        let mac = message.mac.unwrap_or(head.from);
        let speaker = if source.is_unspecified() { message.target } else { source };
        if self.is_own(speaker.into(), mac) || !is_station(mac) {
            return Err(Ignored::Source);
        }
        if self.hosts.contains_v6(source) {
            return Err(self.note_conflict(source.into(), mac));
        }
        let for_us = self.hosts.contains_v6(message.target);
        match message.kind {
            Kind::Solicitation if for_us => {
                let has_address = !source.is_unspecified();
                if has_address && !is_unicast(source.into()) {
                    return Err(Ignored::Invalid);
                }
                if has_address && message.mac.is_some() {
                    self.hear(now, source.into(), mac, Source::Question);
                }
                // Who has no address yet is answered by a frame to all nodes (RFC 4861 §7.2.4).
                let to = if has_address { mac } else { ndp::ALL_NODES_MAC };
                self.answer(Answer::Advertisement { to, asker: source, target: message.target })
            }
            Kind::Solicitation => Err(Ignored::Address),
            Kind::Advertisement { .. } if for_us => {
                Err(self.note_conflict(message.target.into(), mac))
            }
            Kind::Advertisement { solicited, overrides } => {
                // Without the option only a next hop whose address is known can answer, to confirm it (RFC 4861 §7.2.5).
                let known = match self.table.state(message.target.into()) {
                    State::Known(known) => Some(known),
                    _ => None,
                };
                let Some(mac) = message.mac.or(known) else { return Err(Ignored::Invalid) };
                let how = match (solicited, overrides) {
                    // That of another station, which does not say that it counts more.
                    (_, false) if known.is_some_and(|known| known != mac) => {
                        return Ok(Found::Handled);
                    }
                    (false, true) => Source::Announcement,
                    _ => Source::Answer,
                };
                self.hear(now, message.target.into(), mac, how);
                Ok(Found::Handled)
            }
        }
    }

    #[cold]
    fn echo(
        &mut self,
        now: Nanos,
        head: &Head,
        packet: &IpPacket<'_>,
        carried: &[u8],
    ) -> Result<Found, Ignored> {
        let source = packet.source();
        if !self.can_be_other(source) {
            return Err(Ignored::Source);
        }
        if packet.is_fragment() {
            return Err(Ignored::Fragment);
        }
        if self.role == Role::Listening {
            return Err(Ignored::NotAnswering);
        }
        if self.echoes.len() >= ECHOES_MAX || !self.echo_limit.pass(now) {
            return Err(Ignored::EchoLimit);
        }
        let request = Request {
            source,
            destination: packet.destination(),
            tos: packet.tos(),
            headers: carried.get(..packet.headers_len).unwrap_or_default(),
            content: packet.content,
        };
        let mut echo = Echo { len: 0, frame: [0; FRAME_MAX] };
        echo.len = request
            .reply(&self.link_of(request.destination), head.from, &mut echo.frame)?
            .ok_or(Ignored::TooLong)?;
        self.echoes.push_back(echo);
        Ok(Found::Handled)
    }

    fn answer(&mut self, answer: Answer) -> Result<Found, Ignored> {
        if self.role == Role::Listening {
            return Err(Ignored::NotAnswering);
        }
        if self.answers.len() >= ANSWERS_MAX {
            return Err(Ignored::AnswersFull);
        }
        self.answers.push_back(answer);
        Ok(Found::Handled)
    }

    /// The next hop of packets to `destination`: itself, or the gateway. From one of our hosts to another it is the gateway, where there
    /// is one, even if both are on the link: a device brings their packets back.
    #[inline]
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        let between_ours = || {
            let gateway = self.routes.gateway(Version::of(destination))?;
            self.hosts.contains(destination).then_some(gateway)
        };
        self.routes.gateway_to(destination).or_else(between_ours).unwrap_or(destination)
    }

    /// Where frames with packets to `destination` go; that of groups follows from their address, and that of our own hosts is known.
    /// `None`: it is not known. Then it is asked for, up to three times a second apart, and [`Neighbours::next_change`] tells what comes
    /// of it.
    #[inline]
    pub fn mac_for(&mut self, now: Nanos, destination: IpAddr) -> Option<MacAddr> {
        if self.fixed.is_some() {
            return self.fixed;
        }
        let next_hop = self.next_hop(destination);
        if let Some(mac) = self.table.last_used(now, next_hop) {
            return Some(mac);
        }
        self.look_up(now, next_hop)
    }

    /// The same for the answer to a packet without a session. Such packets have few next hops asked for in a second: a sender that invents
    /// sources would have us ask for each of them.
    pub fn mac_for_stranger(&mut self, now: Nanos, destination: IpAddr) -> Option<MacAddr> {
        match self.state(destination) {
            State::Known(_) => self.mac_for(now, destination),
            State::Unknown | State::Failed if self.stranger_limit.pass(now) => {
                self.mac_for(now, destination)
            }
            _ => None,
        }
    }

    fn look_up(&mut self, now: Nanos, next_hop: IpAddr) -> Option<MacAddr> {
        if self.hosts.contains(next_hop) {
            return Some(self.link_of(next_hop).mac);
        }
        if !self.can_ask_for(next_hop) {
            return MacAddr::of_group(next_hop);
        }
        self.table.look_up(now, next_hop)
    }

    /// Whether somebody can be asked for this address.
    fn can_ask_for(&self, next_hop: IpAddr) -> bool {
        self.can_be_other(next_hop) && self.solicit_from.of(Version::of(next_hop)).is_some()
    }

    /// What is known of the next hop to `destination`. Nothing is asked.
    pub fn state(&self, destination: IpAddr) -> State {
        if let Some(mac) = self.fixed.or(MacAddr::of_group(destination)) {
            return State::Known(mac);
        }
        let next_hop = self.next_hop(destination);
        if self.hosts.contains(next_hop) {
            return State::Known(self.link_of(next_hop).mac);
        }
        match self.table.state(next_hop) {
            State::Unknown if !self.can_ask_for(next_hop) => State::Failed,
            state => state,
        }
    }

    /// Has `next_hop` at `mac` for good: answers that say otherwise are not believed. Says whether there was room.
    pub fn set(&mut self, now: Nanos, next_hop: IpAddr, mac: MacAddr) -> bool {
        let valid = is_station(mac) && self.can_be_other(next_hop);
        valid && {
            self.table.hear(now, next_hop, mac, Source::Fixed);
            self.table.state(next_hop) == State::Known(mac)
        }
    }

    /// Writes the next frame of our own into `into`, which has room for [`FRAME_MAX`] bytes; returns its length without FCS. To be
    /// called until there is none after frames were received, after addresses were asked for and at [`Neighbours::next_time`].
    pub fn next_frame(&mut self, now: Nanos, into: &mut [u8]) -> Option<usize> {
        loop {
            let (written, counter) = if let Some(answer) = self.answers.pop_front() {
                self.write_answer(answer, into)
            } else if let Some(question) = self.table.next_question(now) {
                self.write_question(question, into)
            } else {
                let echo = self.echoes.pop_front()?;
                let frame = echo.frame.get(..echo.len);
                let room = into.get_mut(..echo.len);
                let written = frame.zip(room).map(|(frame, room)| {
                    room.copy_from_slice(frame);
                    frame.len()
                });
                (written, &mut self.counters.echo_replies)
            };
            match written {
                Some(len) => {
                    *counter += 1;
                    return Some(len);
                }
                None => self.counters.buffer_too_short += 1,
            }
        }
    }

    fn write_answer(&mut self, answer: Answer, into: &mut [u8]) -> (Option<usize>, &mut u64) {
        match answer {
            Answer::Arp { to, asker, target } => {
                let link = self.link_of(target.into());
                let arp = Arp {
                    is_reply: true,
                    sender_mac: link.mac,
                    sender: target,
                    target_mac: to,
                    target: asker,
                };
                (arp.write(&link, to, into), &mut self.counters.arp_replies)
            }
            Answer::Advertisement { to, asker, target } => {
                let link = self.link_of(target.into());
                let message = Message::advertisement(&link, target, asker);
                (message.write(&link, to, into), &mut self.counters.advertisements)
            }
        }
    }

    fn write_question(&mut self, question: Question, into: &mut [u8]) -> (Option<usize>, &mut u64) {
        let Question { target, known } = question;
        match (target, self.solicit_from) {
            (IpAddr::V4(target), AddressPair { v4: Some(sender), .. }) => {
                let link = self.link_of(sender.into());
                let arp = Arp {
                    is_reply: false,
                    sender_mac: link.mac,
                    sender,
                    target_mac: MacAddr([0; 6]),
                    target,
                };
                let to = known.unwrap_or(MacAddr::BROADCAST);
                (arp.write(&link, to, into), &mut self.counters.arp_requests)
            }
            (IpAddr::V6(target), AddressPair { v6: Some(source), .. }) => {
                let link = self.link_of(source.into());
                let (message, to) = Message::question(&link, source, target, known);
                (message.write(&link, to, into), &mut self.counters.solicitations)
            }
            // Nobody is asked for without an address to ask from.
            _ => (None, &mut self.counters.buffer_too_short),
        }
    }

    /// Gives up next hops that did not answer three times. [`Neighbours::next_frame`] does it too.
    pub fn expire(&mut self, now: Nanos) {
        self.table.expire(now);
    }

    /// When [`Neighbours::next_frame`] has to be called next because of a question; [`Nanos::ZERO`]: at once.
    pub fn next_time(&self) -> Option<Nanos> {
        let waits = !self.answers.is_empty() || !self.echoes.is_empty();
        if waits { Some(Nanos::ZERO) } else { self.table.next_time() }
    }

    /// The next of those next hops that were asked for and answered, or did not.
    pub fn next_change(&mut self) -> Option<Change> {
        self.table.next_change()
    }
}
