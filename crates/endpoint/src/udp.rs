//! UDP of our own, for the sessions of a port: a datagram for each message of a program, a message for each datagram.
//!
//! There is nothing to open and nothing to close. A client's session is established at once, and ends when its program does, or when
//! the network says that nobody listens there (ICMP port unreachable). A server's session begins with the first datagram of its peer.
//! Datagrams are not cut: one that fits no packet of the link ends its session (`EMSGSIZE`). Checksums are computed and verified;
//! those that a kernel leaves to a card are taken as they are, as with TCP.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use wirebeat_converse::newcomers::{Newcomers, PEERS_MAX, may_be_server};
use wirebeat_converse::stack::{
    Connection, ConnectionStats, Failure, ProfileId, Programs, Reason, SessionKey,
};
use wirebeat_stack::hash::spread;
use wirebeat_stack::index::Index;
use wirebeat_stack::{OpenError, Transmit, Tuple};
use wirebeat_units::Nanos;
use wirebeat_wire::checksum::{Sum, checksum};
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::udp::CarriedDatagram;
use wirebeat_wire::walk::{self, Policy};
use wirebeat_wire::{ipv4, ipv6, udp};

use crate::above::fill;

/// Sessions over UDP have numbers from this one on: those of our TCP are smaller, and those that wait for their next hop larger.
pub(crate) const DATAGRAMS: u32 = 1 << 30;
/// Sessions that the index has room for at first.
const INDEXED: usize = 1024;
/// Datagrams that a session sends before others have their turn.
const BUDGET: usize = 32;
/// Bytes of the longest datagram; programs make at most so many at a time.
const LONGEST: usize = 1 << 16;
/// "Message too long" of Linux (`EMSGSIZE` of include/uapi/asm-generic/errno.h).
const TOO_LONG: i32 = 90;
/// Bytes of an ICMP message before the packet that it quotes.
const ICMP_HEADER: usize = 8;
/// The flag of IPv4 that keeps routers from cutting a packet.
const DONT_FRAGMENT: u16 = 0x4000;

/// What is asked of the datagrams of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramProfile {
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Whether routers may not cut them.
    pub dont_fragment: bool,
}

/// Where datagrams go.
pub(crate) trait Way: Transmit {
    /// Whether the next hop to a host is known; where it is not, it is asked for.
    fn knows(&mut self, host: IpAddr) -> bool;
}

/// What was counted of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Sent.
    pub sent: u64,
    /// Packets of UDP that arrived for our hosts: those of sessions, and the ones below.
    pub packets: u64,
    /// Those of sessions.
    pub received: u64,
    /// Those of them whose checksum was left out, or left to a card.
    pub unverified: u64,
    /// Cut short, in fragments, or with lengths that contradict each other.
    pub malformed: u64,
    /// With a wrong checksum.
    pub bad_checksum: u64,
    /// For a port where nobody listens, or whose program did not want their peer.
    pub no_session: u64,
}

/// The ends of a session, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    local: SocketAddr,
    remote: SocketAddr,
}

impl Ends {
    /// A keyed hash: a peer that does not know `key` cannot aim at one place of the index.
    fn hash(&self, key: [u64; 2]) -> u32 {
        let ports = u64::from(self.local.port()) << 16 | u64::from(self.remote.port());
        let of_address = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                spread(key, (bits >> 64) as u64, bits as u64)
            }
        };
        let (local, remote) = (of_address(self.local.ip()), of_address(self.remote.ip()));
        (spread(key, local.rotate_left(32) ^ remote, ports) >> 32) as u32
    }
}

/// A session.
#[derive(Clone, Copy, Debug)]
struct Talk {
    session: SessionKey,
    ends: Ends,
    /// The number of its group.
    group: u16,
    /// Whether the peer began it.
    is_peers: bool,
    /// Datagrams that came.
    heard: u64,
    /// Up to where the program's messages were sent.
    sent: u64,
    /// The program has nothing to say behind what there is.
    finishing: bool,
    /// Whether it is among those with work to do.
    queued: bool,
}

/// The sessions over UDP of a port.
#[derive(Debug)]
pub(crate) struct Udp {
    /// What is asked of each group; `None`: it is not over UDP.
    profiles: Vec<Option<DatagramProfile>>,
    /// Bytes of the longest packet.
    mtu: usize,
    talks: Vec<Option<Talk>>,
    vacant: Vec<u32>,
    /// The places of sessions among `talks`, by their ends.
    index: Index,
    key: [u64; 2],
    peers: usize,
    newcomers: Newcomers,
    queue: VecDeque<u32>,
    /// Those whose next hop is asked for: what they have to send waits.
    unresolved: Vec<u32>,
    identification: u16,
    scratch: Box<[u8]>,
    counters: DatagramCounters,
}

impl Udp {
    /// `key`: a secret of its index.
    pub(crate) fn new(profiles: Vec<Option<DatagramProfile>>, mtu: usize, key: [u64; 2]) -> Udp {
        Udp {
            profiles,
            mtu,
            talks: Vec::new(),
            vacant: Vec::new(),
            index: Index::new(INDEXED),
            key,
            peers: 0,
            newcomers: Newcomers::default(),
            queue: VecDeque::new(),
            unresolved: Vec::new(),
            identification: 0,
            scratch: vec![0; LONGEST].into(),
            counters: DatagramCounters::default(),
        }
    }

    /// What was counted; `None` where no group is over UDP.
    pub(crate) fn counters(&self) -> Option<DatagramCounters> {
        self.profiles.iter().any(Option::is_some).then_some(self.counters)
    }

    /// Whether the sessions of a group are over UDP.
    pub(crate) fn has(&self, group: u16) -> bool {
        self.profile(group).is_some()
    }

    fn profile(&self, group: u16) -> Option<DatagramProfile> {
        self.profiles.get(usize::from(group)).copied().flatten()
    }

    /// How many sessions are open.
    pub(crate) fn open(&self) -> usize {
        self.index.len()
    }

    /// The session between these ends.
    fn find(&self, ends: &Ends) -> Option<u32> {
        let place = self.index.find(ends.hash(self.key), |place| {
            let talk = self.talks.get(place as usize).and_then(Option::as_ref);
            talk.is_some_and(|talk| talk.ends == *ends)
        });
        place.map(|place| place | DATAGRAMS)
    }

    /// Has the session of a place in the index, which grows where it is full.
    fn enter(&mut self, ends: &Ends, place: u32) {
        let hash = ends.hash(self.key);
        if self.index.insert(hash, place).is_ok() {
            return;
        }
        let mut index = Index::new(2 * self.index.len().max(INDEXED));
        for (place, talk) in (0..).zip(&self.talks) {
            if let Some(talk) = talk {
                // it has room for twice as many
                let _ = index.insert(talk.ends.hash(self.key), place);
            }
        }
        self.index = index;
    }

    /// Takes a session out.
    fn forget(&mut self, number: u32) -> Option<Talk> {
        let place = number ^ DATAGRAMS;
        let gone = self.talks.get_mut(place as usize).and_then(Option::take)?;
        self.index.remove(gone.ends.hash(self.key), place);
        self.vacant.push(place);
        self.peers -= usize::from(gone.is_peers);
        Some(gone)
    }

    /// Whether somebody may have something to send.
    pub(crate) fn has_output(&self) -> bool {
        !self.queue.is_empty()
    }

    fn talk(&mut self, number: u32) -> Option<&mut Talk> {
        self.talks.get_mut((number ^ DATAGRAMS) as usize)?.as_mut()
    }

    /// Begins a session between `tuple`'s ends, which none has: its number.
    fn begin(&mut self, session: SessionKey, ends: Ends, group: u16, is_peers: bool) -> u32 {
        let talk = Talk {
            session,
            ends,
            group,
            is_peers,
            heard: 0,
            sent: 0,
            finishing: false,
            queued: false,
        };
        let number = self.next();
        match self.vacant.pop() {
            Some(place) => {
                if let Some(slot) = self.talks.get_mut(place as usize) {
                    *slot = Some(talk);
                }
            }
            None => self.talks.push(Some(talk)),
        }
        self.enter(&ends, number ^ DATAGRAMS);
        self.peers += usize::from(is_peers);
        number
    }

    /// The number of the next session.
    fn next(&self) -> u32 {
        self.vacant.last().copied().unwrap_or(self.talks.len() as u32) | DATAGRAMS
    }

    /// A client's session.
    ///
    /// # Errors
    /// Where another one has these ends.
    pub(crate) fn connect(
        &mut self,
        now: Nanos,
        (session, profile): (SessionKey, ProfileId),
        tuple: &Tuple,
        programs: &mut dyn Programs,
    ) -> Result<(), OpenError> {
        let ends = Ends {
            local: SocketAddr::new(tuple.local, tuple.local_port),
            remote: SocketAddr::new(tuple.remote, tuple.remote_port),
        };
        if self.find(&ends).is_some() {
            return Err(OpenError::InUse);
        }
        let number = self.begin(session, ends, profile.0, false);
        programs.opening(now, session, Connection(number));
        // there is no handshake: it may speak
        programs.established(now, session, Connection(number));
        Ok(())
    }

    /// A next hop became known, or did not answer: who waited for one looks again.
    pub(crate) fn look_again(&mut self) {
        self.queue.extend(self.unresolved.drain(..));
    }

    /// The program of a session may have something to send.
    pub(crate) fn offer(&mut self, number: u32) {
        if let Some(talk) = self.talk(number)
            && !std::mem::replace(&mut talk.queued, true)
        {
            self.queue.push_back(number);
        }
    }

    /// The program has nothing to send after what there is.
    pub(crate) fn finish(&mut self, number: u32) {
        if let Some(talk) = self.talk(number) {
            talk.finishing = true;
        }
        self.offer(number);
    }

    /// Ends a session.
    pub(crate) fn end(
        &mut self,
        now: Nanos,
        number: u32,
        reason: Reason,
        programs: &mut dyn Programs,
    ) {
        if let Some(Talk { session, .. }) = self.forget(number) {
            programs.ended(now, session, reason, ConnectionStats::default());
        }
    }

    /// Sends what there is, as long as there are buffers.
    pub(crate) fn transmit(&mut self, now: Nanos, programs: &mut dyn Programs, out: &mut impl Way) {
        for _ in 0..self.queue.len() {
            let Some(number) = self.queue.pop_front() else { return };
            let Some(talk) = self.talk(number) else { continue };
            talk.queued = false;
            match self.work(now, number, programs, out) {
                Next::Done => {}
                Next::Again => self.offer(number),
                Next::Blocked => {
                    if let Some(talk) = self.talk(number) {
                        talk.queued = true;
                        self.queue.push_front(number);
                    }
                    return;
                }
                Next::Unresolved => self.wait_for_next_hop(number),
            }
        }
    }

    fn wait_for_next_hop(&mut self, number: u32) {
        let Some(talk) = self.talk(number) else { return };
        talk.queued = true;
        if self.unresolved.len() >= self.talks.len() {
            // Numbers of sessions that have ended are among them, or stand there twice: whoever sends under many addresses that nobody
            // has makes the list no longer than there are sessions.
            let mut waiting = std::mem::take(&mut self.unresolved);
            waiting.sort_unstable();
            waiting.dedup();
            waiting
                .retain(|other| *other != number && self.talk(*other).is_some_and(|of| of.queued));
            self.unresolved = waiting;
        }
        self.unresolved.push(number);
    }

    fn work(
        &mut self,
        now: Nanos,
        number: u32,
        programs: &mut dyn Programs,
        out: &mut impl Way,
    ) -> Next {
        for _ in 0..BUDGET {
            let Some(&mut Talk { session, ends, sent, finishing, .. }) = self.talk(number) else {
                return Next::Done;
            };
            let Some(end) = programs.message_end(session, sent) else {
                if finishing {
                    self.end(now, number, Reason::InOrder, programs);
                }
                return Next::Done;
            };
            if !out.knows(ends.remote.ip()) {
                return Next::Unresolved;
            }
            match self.write(number, sent..end, programs, out) {
                Written::Whole => {}
                Written::Blocked => return Next::Blocked,
                Written::TooLong => {
                    let reason = Reason::Failed(Failure::Other(TOO_LONG));
                    self.end(now, number, reason, programs);
                    return Next::Done;
                }
            }
            if let Some(talk) = self.talk(number) {
                talk.sent = end;
            }
            programs.taken(now, session, end);
        }
        Next::Again
    }

    /// Writes a message as a packet of a session.
    fn write(
        &mut self,
        number: u32,
        range: Range<u64>,
        programs: &mut dyn Programs,
        out: &mut impl Transmit,
    ) -> Written {
        let Some(&mut Talk { session, ends, group, is_peers, .. }) = self.talk(number) else {
            return Written::Whole;
        };
        let Some(profile) = self.profile(group) else { return Written::Whole };
        let header_len = if ends.local.is_ipv4() { ipv4::LEN } else { ipv6::LEN };
        let message_len = range.end.saturating_sub(range.start);
        let content_len = usize::try_from(message_len).unwrap_or(LONGEST).saturating_add(udp::LEN);
        let len = header_len.saturating_add(content_len);
        if len > self.mtu {
            return Written::TooLong;
        }
        let Some((header, content)) =
            out.buffer(len).and_then(|buffer| buffer.split_at_mut_checked(header_len))
        else {
            return Written::Blocked;
        };
        self.identification = self.identification.wrapping_add(1);
        write_ip(header, &ends, &profile, (content_len, self.identification));
        if let Some(message) = content.get_mut(udp::LEN..) {
            fill(message, (session, range.start), &mut self.scratch, programs);
        }
        write_udp(content, &ends);
        let first = if is_peers { self.profiles.len() as u16 } else { 0 };
        if let Ok(profile) = u8::try_from(first.saturating_add(group)) {
            out.of_profile(profile);
        }
        out.commit();
        self.counters.sent += 1;
        Written::Whole
    }

    /// Takes a packet of UDP for a host of ours. `listen` finds the group that is served at an address and a port. Says whether a
    /// session of its peer began.
    pub(crate) fn receive(
        &mut self,
        now: Nanos,
        packet: &[u8],
        listen: impl FnOnce(IpAddr, u16) -> Option<u16>,
        programs: &mut dyn Programs,
    ) -> bool {
        self.counters.packets += 1;
        let Read { ends, payload, verified } = match read(packet) {
            Ok(read) => read,
            Err(refused) => {
                match refused {
                    Refused::Malformed => self.counters.malformed += 1,
                    Refused::Checksum => self.counters.bad_checksum += 1,
                }
                return false;
            }
        };
        let known = self.find(&ends);
        let number = known.or_else(|| {
            let group = listen(ends.local.ip(), ends.local.port())?;
            let profile = ProfileId(group);
            let may_loop =
                programs.answers_anything(profile) && may_be_server(ends.remote, ends.local.port());
            if ends.remote.port() == 0 || may_loop || !self.has_room(now, programs) {
                programs.unwanted(profile);
                return None;
            }
            let connection = Connection(self.next());
            let session = programs.accepted(now, connection, profile)?;
            let number = self.begin(session, ends, group, true);
            let Udp { newcomers, talks, .. } = self;
            newcomers
                .add(number, session, |number, session| said_one_thing(talks, number, session));
            Some(number)
        });
        let Some(talk) = number.and_then(|number| self.talk(number)) else {
            self.counters.no_session += 1;
            return false;
        };
        talk.heard += 1;
        let session = talk.session;
        self.counters.received += 1;
        self.counters.unverified += u64::from(!verified);
        programs.message(now, session, payload);
        number.into_iter().for_each(|number| self.offer(number));
        known.is_none()
    }

    /// Whether there is room for another peer; one that said one thing alone makes it.
    fn has_room(&mut self, now: Nanos, programs: &mut dyn Programs) -> bool {
        if self.peers < PEERS_MAX {
            return true;
        }
        let Udp { newcomers, talks, .. } = self;
        let gone = newcomers.take(|number, session| said_one_thing(talks, number, session));
        gone.into_iter().for_each(|number| self.end(now, number, Reason::Aborted, programs));
        gone.is_some()
    }

    /// Takes a packet of ICMP or ICMPv6; whether it was about UDP. Who is told that nobody listens there gives its session up; all other
    /// errors pass (RFC 1122 §4.1.3.3).
    pub(crate) fn receive_icmp(
        &mut self,
        now: Nanos,
        packet: &[u8],
        programs: &mut dyn Programs,
    ) -> bool {
        let Some((ends, is_refused)) = read_icmp(packet) else { return false };
        let number = self.find(&ends).filter(|_| is_refused);
        if let Some(number) = number
            && self.talk(number).is_some_and(|talk| !talk.is_peers && talk.sent > 0)
        {
            self.end(now, number, Reason::Refused, programs);
        }
        true
    }
}

/// Whether a peer's session is there, and the peer said one thing alone.
fn said_one_thing(talks: &[Option<Talk>], number: u32, session: SessionKey) -> bool {
    let talk = talks.get((number ^ DATAGRAMS) as usize).and_then(Option::as_ref);
    talk.is_some_and(|talk| talk.is_peers && talk.session == session && talk.heard <= 1)
}

/// What becomes of a session after its turn.
enum Next {
    /// It waits.
    Done,
    /// It has more, and others wait.
    Again,
    /// There was no buffer.
    Blocked,
    /// Its next hop is not known yet.
    Unresolved,
}

/// Whether a message left.
enum Written {
    Whole,
    Blocked,
    TooLong,
}

/// Writes the IP header before so many bytes.
fn write_ip(
    header: &mut [u8],
    ends: &Ends,
    profile: &DatagramProfile,
    (content_len, identification): (usize, u16),
) {
    let DatagramProfile { ttl, tos, dont_fragment } = *profile;
    match (ends.local.ip(), ends.remote.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let Some(header) = header.first_chunk_mut::<{ ipv4::LEN }>() else { return };
            let [l0, l1] = ((ipv4::LEN + content_len) as u16).to_be_bytes();
            let [i0, i1] = identification.to_be_bytes();
            let [f0, f1] = if dont_fragment { DONT_FRAGMENT } else { 0 }.to_be_bytes();
            let ([a, b, c, d], [e, f, g, h]) = (from.octets(), to.octets());
            let protocol = Protocol::UDP.0;
            *header =
                [0x45, tos, l0, l1, i0, i1, f0, f1, ttl, protocol, 0, 0, a, b, c, d, e, f, g, h];
            let [c0, c1] = checksum(header).to_be_bytes();
            (header[10], header[11]) = (c0, c1);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let Some(header) = header.first_chunk_mut::<{ ipv6::LEN }>() else { return };
            let [l0, l1] = (content_len as u16).to_be_bytes();
            let (first, addresses) = header.split_at_mut(8);
            first.copy_from_slice(&[0x60 | tos >> 4, tos << 4, 0, 0, l0, l1, Protocol::UDP.0, ttl]);
            let (source, destination) = addresses.split_at_mut(16);
            source.copy_from_slice(&from.octets());
            destination.copy_from_slice(&to.octets());
        }
        // who opened it gave two of one version
        _ => {}
    }
}

/// Writes the UDP header before the message.
fn write_udp(content: &mut [u8], ends: &Ends) {
    let len = content.len();
    let Some(header) = content.first_chunk_mut::<{ udp::LEN }>() else { return };
    let ([s0, s1], [d0, d1]) = (ends.local.port().to_be_bytes(), ends.remote.port().to_be_bytes());
    let [l0, l1] = (len as u16).to_be_bytes();
    *header = [s0, s1, d0, d1, l0, l1, 0, 0];
    let (from, to) = (ends.local.ip(), ends.remote.ip());
    let Some(pseudo) = Sum::pseudo(from, to, Protocol::UDP, len as u32) else { return };
    // one that comes to zero is sent as all ones: zero says that there is none (RFC 768)
    let [c0, c1] = match pseudo.add_bytes(content).checksum() {
        0 => [0xff, 0xff],
        sum => sum.to_be_bytes(),
    };
    if let Some(at) = content.get_mut(udp::CHECKSUM..udp::LEN) {
        at.copy_from_slice(&[c0, c1]);
    }
}

/// A datagram of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read<'a> {
    /// Its ends, seen from here.
    ends: Ends,
    payload: &'a [u8],
    /// Whether there was a checksum, which was right.
    verified: bool,
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Malformed,
    Checksum,
}

/// Reads a packet of UDP.
fn read(packet: &[u8]) -> Result<Read<'_>, Refused> {
    let version = Version::of_packet(packet).ok_or(Refused::Malformed)?;
    let ip = walk::ip_packet(packet, version, Policy::Strict).ok_or(Refused::Malformed)?;
    let datagram = CarriedDatagram::parse(ip.content);
    let is_whole = ip.protocol == Protocol::UDP && !ip.is_fragment() && !ip.is_routed;
    let datagram = datagram.filter(|_| is_whole).ok_or(Refused::Malformed)?;
    let (from, to) = (ip.source(), ip.destination());
    let content = ip.content.get(..udp::LEN + datagram.payload().len()).unwrap_or_default();
    let field = content.get(udp::CHECKSUM..udp::LEN).and_then(<[u8]>::first_chunk);
    let field = u16::from_be_bytes(field.copied().unwrap_or_default());
    let pseudo = Sum::pseudo(from, to, Protocol::UDP, content.len() as u32);
    let pseudo = pseudo.ok_or(Refused::Malformed)?;
    // zero: none, which IPv6 does not have (RFC 8200 §8.1); or what Linux leaves for CHECKSUM_PARTIAL (include/linux/skbuff.h)
    let is_absent = field == 0 && version == Version::V4;
    let verified = !is_absent && field != pseudo.folded();
    if verified && pseudo.add_bytes(content).checksum() != 0 {
        return Err(Refused::Checksum);
    }
    let ends = Ends {
        local: SocketAddr::new(to, datagram.destination_port()),
        remote: SocketAddr::new(from, datagram.source_port()),
    };
    Ok(Read { ends, payload: datagram.payload(), verified })
}

/// Reads an ICMP error about a datagram of ours: its ends, and whether nobody listens there. `None` where it is about something else.
fn read_icmp(packet: &[u8]) -> Option<(Ends, bool)> {
    let version = Version::of_packet(packet)?;
    let ip = walk::ip_packet(packet, version, Policy::Strict)?;
    let (protocol, pseudo) = match version {
        Version::V4 => (Protocol::ICMP, Sum::ZERO),
        Version::V6 => {
            let len = ip.content.len() as u32;
            let pseudo = Sum::pseudo(ip.source(), ip.destination(), Protocol::ICMPV6, len)?;
            (Protocol::ICMPV6, pseudo)
        }
    };
    let (header, quote) = ip.content.split_first_chunk::<ICMP_HEADER>()?;
    if ip.protocol != protocol || ip.is_fragment() || pseudo.add_bytes(ip.content).checksum() != 0 {
        return None;
    }
    let [kind, code, ..] = *header;
    let is_error = match version {
        Version::V4 => matches!(kind, 3 | 11 | 12),
        Version::V6 => (1..=4).contains(&kind),
    };
    let quoted = walk::ip_packet(quote, version, Policy::Lenient).filter(|_| is_error)?;
    // an error goes to who sent the packet
    if quoted.protocol != Protocol::UDP || quoted.source() != ip.destination() {
        return None;
    }
    let [s0, s1, d0, d1] = *quoted.content.first_chunk::<4>()?;
    let ends = Ends {
        local: SocketAddr::new(quoted.source(), u16::from_be_bytes([s0, s1])),
        remote: SocketAddr::new(quoted.destination(), u16::from_be_bytes([d0, d1])),
    };
    // port unreachable (RFC 792, RFC 4443 §3.1)
    let is_refused = (kind, code) == if version == Version::V4 { (3, 3) } else { (1, 4) };
    Some((ends, is_refused))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROFILE: DatagramProfile = DatagramProfile { ttl: 9, tos: 0xb8, dont_fragment: true };

    fn ends(six: bool) -> Ends {
        let [local, remote] = match six {
            true => ["[fd00::1]:5000", "[fd00::2]:53"],
            false => ["10.0.0.1:5000", "10.0.0.2:53"],
        };
        Ends { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    fn turned(ends: Ends) -> Ends {
        Ends { local: ends.remote, remote: ends.local }
    }

    fn packet(six: bool, message: &[u8]) -> Vec<u8> {
        let header_len = if six { ipv6::LEN } else { ipv4::LEN };
        let mut bytes = vec![0; header_len + udp::LEN + message.len()];
        let (header, content) = bytes.split_at_mut(header_len);
        write_ip(header, &ends(six), &PROFILE, (content.len(), 7));
        content[udp::LEN..].copy_from_slice(message);
        write_udp(content, &ends(six));
        bytes
    }

    /// An error of this kind and code from the peer, which quotes a packet of ours.
    fn icmp(six: bool, kind: u8, code: u8, quote: &[u8]) -> Vec<u8> {
        let header_len = if six { ipv6::LEN } else { ipv4::LEN };
        let mut content = vec![kind, code, 0, 0, 0, 0, 0, 0];
        content.extend_from_slice(quote);
        let back = turned(ends(six));
        let mut bytes = vec![0; header_len];
        write_ip(&mut bytes, &back, &PROFILE, (content.len(), 1));
        let (protocol, at) = if six { (Protocol::ICMPV6, 6) } else { (Protocol::ICMP, 9) };
        bytes[at] = protocol.0;
        let pseudo = match six {
            true => {
                let len = content.len() as u32;
                Sum::pseudo(back.local.ip(), back.remote.ip(), protocol, len).unwrap()
            }
            false => {
                (bytes[10], bytes[11]) = (0, 0);
                let sum = checksum(&bytes).to_be_bytes();
                bytes[10..12].copy_from_slice(&sum);
                Sum::ZERO
            }
        };
        let sum = pseudo.add_bytes(&content).checksum().to_be_bytes();
        content[2..4].copy_from_slice(&sum);
        bytes.extend_from_slice(&content);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(six: bool, message in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = packet(six, &message);
            let whole = Read { ends: turned(ends(six)), payload: &message, verified: true };
            prop_assert_eq!(read(&bytes), Ok(whole));
            // a datagram of the wire library, which meters read
            let mut frame = vec![0; 12];
            frame.extend_from_slice(if six { &[0x86, 0xdd] } else { &[0x08, 0x00] });
            frame.extend_from_slice(&bytes);
            let datagram = wirebeat_wire::datagram::Datagram::parse(&frame).unwrap();
            prop_assert_eq!((datagram.ttl, datagram.tos, datagram.payload), (9, 0xb8, &message[..]));
        }

        /// One bit that is wrong is found, but for those that leave no checksum.
        #[test]
        fn damage_is_found(six: bool, message in prop::collection::vec(any::<u8>(), 1..60), bit: prop::sample::Index, any: Vec<u8>) {
            let bytes = packet(six, &message);
            let at = if six { ipv6::LEN } else { ipv4::LEN };
            let mut damaged = bytes.clone();
            let bit = (at + udp::LEN) * 8 + bit.index(message.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read(&damaged), Err(Refused::Checksum));
            let _ = (read(&any), read_icmp(&any));
        }

        #[test]
        fn errors_are_those_about_datagrams_of_ours(six: bool, kind: u8, code: u8, cut in 0..60_usize) {
            let quote = packet(six, &[1; 20]);
            let told = read_icmp(&icmp(six, kind, code, &quote));
            let is_error = if six { (1..=4).contains(&kind) } else { matches!(kind, 3 | 11 | 12) };
            let refused = (kind, code) == if six { (1, 4) } else { (3, 3) };
            prop_assert_eq!(told, is_error.then_some((ends(six), refused)));
            let _ = read_icmp(&icmp(six, kind, code, &quote[..cut.min(quote.len())]));
        }
    }

    /// The index grows, and has those that are open and no others, of both versions.
    #[test]
    fn sessions_are_found_by_their_ends() {
        let mut udp = Udp::new(vec![Some(PROFILE)], 1500, [5, 6]);
        let of = |number: u16| {
            let mut ends = ends(number.is_multiple_of(3));
            ends.remote.set_port(number);
            ends
        };
        let mut open: Vec<(u16, u32)> = Vec::new();
        for number in 1..5000 {
            open.push((number, udp.begin(SessionKey(number.into()), of(number), 0, false)));
            if number.is_multiple_of(4) {
                let (gone, place) = open.swap_remove(usize::from(number) / 2);
                assert_eq!(udp.forget(place).map(|talk| talk.session.0), Some(gone.into()));
                assert_eq!(udp.find(&of(gone)), None);
            }
        }
        assert_eq!(udp.open(), open.len());
        for (number, place) in open {
            assert_eq!(udp.find(&of(number)), Some(place));
            assert_eq!(udp.find(&turned(of(number))), None);
        }
    }

    /// Spoofed sources whose next hop nobody knows come and go: what waits stays as long as there are sessions.
    #[test]
    fn those_that_wait_for_a_next_hop_are_no_more_than_the_sessions() {
        let mut udp = Udp::new(vec![Some(PROFILE)], 1500, [5, 6]);
        let begin = |udp: &mut Udp, port: u16| {
            let mut ends = ends(false);
            ends.remote.set_port(port);
            let number = udp.begin(SessionKey(port.into()), ends, 0, true);
            udp.wait_for_next_hop(number);
            number
        };
        let held: Vec<u32> = (1..=10).map(|port| begin(&mut udp, port)).collect();
        for port in 100..10_000 {
            let number = begin(&mut udp, port);
            udp.forget(number).unwrap();
        }
        assert!(udp.unresolved.len() <= udp.talks.len() + 1, "{}", udp.unresolved.len());
        udp.look_again();
        assert!(held.iter().all(|number| udp.queue.contains(number)));
    }

    #[test]
    fn checksums_that_are_left_out_or_left_to_a_card_are_not_wrong() {
        for six in [false, true] {
            let at = if six { ipv6::LEN } else { ipv4::LEN } + udp::CHECKSUM;
            let mut bytes = packet(six, b"hello");
            let whole = ends(six);
            let len = (udp::LEN + 5) as u32;
            let pseudo =
                Sum::pseudo(whole.local.ip(), whole.remote.ip(), Protocol::UDP, len).unwrap();
            bytes[at..at + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
            assert!(read(&bytes).is_ok_and(|read| !read.verified), "{six}");
            bytes[at..at + 2].copy_from_slice(&[0, 0]);
            assert_eq!(read(&bytes).is_ok(), !six, "IPv6 has a checksum always");
        }
    }
}
