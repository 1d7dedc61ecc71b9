//! Captures as templates: copies of what is in a capture as one source of frames, in the order of their times.
//!
//! The capture is read once, into memory. Packet `k` of copy `n` is due at the start of the copy and the time of the packet in the
//! capture, so each packet goes through the copies by itself, and what is merged are as many sequences as there are packets. Of a
//! copy that is under way only its start is kept: its ends are a function of its number.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use wirebeat_archive::capture::sides::{Side, Sides};
use wirebeat_report::model::LeftOut;
use wirebeat_traffic::program::Copies;
use wirebeat_traffic::scenario::replay::{self, OnBad};
use wirebeat_units::{Fault, Nanos, fault, human};
use wirebeat_wire::headers::{HeaderKey, HeaderMatch};
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::locate::{Located, Network, locate};
use wirebeat_wire::rewrite::Ends;

use super::Recording;
use super::captures::{Captures, HeldBack};
use super::filling::{Shortened, TimeLine};
use super::read::{Unsendable, add};

/// The most packets of a template, and bytes of them all.
const PACKETS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 256 << 20;
/// The most copies under way: the start of each takes 8 bytes.
const UNDER_WAY_MAX: usize = 1 << 27;
/// How many starts are looked at before the run for ends that come again too early.
const LOOKED_AT: usize = 1 << 20;

/// A packet of the template.
#[derive(Clone, Debug)]
struct Packet {
    /// When it is due, from the start of its copy.
    after_ns: u64,
    bytes: Range<usize>,
    located: Located,
    /// Whether the client sends it.
    by_client: bool,
    /// The number of the client's port among those of the template; `None` where it has no ports.
    port: Option<u16>,
    /// Whether it goes to a group or a broadcast address, which stays.
    to_group: bool,
}

/// What copies are made of: the packets of a capture, both sides, in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    bytes: Vec<u8>,
    packets: Vec<Packet>,
    /// How many different ports the client has.
    ports: u16,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) held_back: HeldBack,
    pub(super) shortened: Shortened,
}

impl Template {
    /// Reads the captures of a recording.
    pub(super) fn read(recording: &Recording, copies: &Copies) -> Result<Template, Fault> {
        let mut captures = Captures::of_both_sides(recording)?;
        let mut reading = Reading::new(recording, copies);
        while let Some(time) = captures.advance()? {
            let added = match captures.take() {
                Ok(Some(frame)) => reading.add(time, frame),
                Ok(None) => Ok(()),
                Err(unsendable) => Err(unsendable),
            };
            if let Err(unsendable) = added {
                reading.leave_out(unsendable, || captures.place())?;
            }
            if reading.template.packets.len() > PACKETS_MAX
                || reading.template.bytes.len() > BYTES_MAX
            {
                return Err(fault!(
                    "what copies are made of has more than {PACKETS_MAX} packets or {} MiB", BYTES_MAX >> 20;
                    "choose some of them with 'filter'"
                ));
            }
        }
        for skipped in captures.skipped() {
            add(&mut reading.template.left_out, skipped);
        }
        reading.template.held_back = captures.held_back();
        reading.template.shortened = reading.times.shortened();
        Ok(reading.template)
    }

    /// From the first packet of a copy to its last, both sides.
    fn lasts_ns(&self) -> u64 {
        self.packets.last().map_or(0, |packet| packet.after_ns)
    }

    fn has_addresses_of(&self, other: IpAddr) -> Option<bool> {
        let first = self.packets.first()?;
        Some((first.located.network == Network::V4) == other.is_ipv4())
    }

    /// The headers of the packets of one side, whichever copy they are of; or why a receiver cannot know them.
    pub(super) fn headers(
        &self,
        copies: &Copies,
        side: Option<replay::Side>,
    ) -> Result<Vec<HeaderMatch>, Fault> {
        let mut all = Vec::new();
        let ends = copies.ends(0);
        for packet in self.packets.iter().filter(|packet| packet.is_of(side)) {
            let mut frame = self.bytes.get(packet.bytes.clone()).unwrap_or_default().to_vec();
            packet.ends(copies, &ends, self.ports).apply(&mut frame, &packet.located);
            frame.resize(frame.len().max(wirebeat_wire::ethernet::FRAME_MIN), 0);
            let changing = packet.changing(copies);
            let of = HeaderKey::of(&frame).and_then(|_| {
                HeaderMatch::of(&frame, |at| changing.iter().any(|range| range.contains(&at)))
            });
            let of = of.ok_or("a fragment has no ports to be known by, and it replays some")?;
            if !all.contains(&of) {
                all.push(of);
            }
            if all.len() > HEADERS_MAX {
                return Err(fault!("its frames have more than {HEADERS_MAX} different headers"));
            }
        }
        Ok(all)
    }
}

/// The most different headers of a template: each is compared with those before.
const HEADERS_MAX: usize = 4096;

impl Packet {
    fn is_of(&self, side: Option<replay::Side>) -> bool {
        match side {
            None => true,
            Some(replay::Side::Client) => self.by_client,
            Some(replay::Side::Server) => !self.by_client,
        }
    }

    /// The ends that it has in a copy between `ends`, where a copy has `ports` client ports.
    #[inline]
    fn ends(&self, copies: &Copies, ends: &wirebeat_traffic::program::CopyEnds, ports: u16) -> Ends {
        let port = self.port.filter(|_| !copies.keep_ports);
        let client_port = port.map(|port| copies.client_port(ends, (port, ports)));
        let mut all = match self.by_client {
            true => Ends { addresses: [ends.client, ends.server], ports: [client_port, None] },
            false => Ends { addresses: [ends.server, ends.client], ports: [None, client_port] },
        };
        if self.to_group {
            all.addresses[1] = None;
        }
        all
    }

    /// The bytes of it that differ from copy to copy.
    fn changing(&self, copies: &Copies) -> Vec<Range<usize>> {
        let (places, len) = match self.located.network {
            Network::V4 => ([12, 16], 4),
            _ => ([8, 24], 16),
        };
        let (source, destination) = match self.by_client {
            true => (&copies.clients, &copies.servers),
            false => (&copies.servers, &copies.clients),
        };
        let mut all: Vec<Range<usize>> = Vec::new();
        for (walk, place) in [source, destination].into_iter().zip(places) {
            let at = self.located.at + place;
            let same = walk.pool.addresses.common_octets().unwrap_or(len);
            all.push(at + same.min(len)..at + len);
        }
        if self.to_group {
            all.truncate(1);
        }
        let ports = copies.clients.pool.ports.as_ref().filter(|ports| ports.len() > 1);
        if let (Some(at), Some(_), Some(_)) = (self.located.carried.transport(), self.port, ports) {
            let at = at + if self.by_client { 0 } else { 2 };
            all.push(at..at + 2);
        }
        all
    }
}

/// What copies of a capture would be made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplatePackets {
    /// Its packets: whether the client sends it, and how long after the one before it.
    pub packets: Vec<(bool, Nanos)>,
    /// How many different ports the client has.
    pub client_ports: u16,
    /// Whether they are of IPv6.
    pub is_ipv6: bool,
}

/// What copies of the capture at `path` would be made of.
///
/// # Errors
/// Where it cannot be read, or has what no copies can be made of.
pub fn template_packets(path: &Path) -> Result<TemplatePackets, Fault> {
    let recording = Recording::of_capture(path);
    let template = Template::read(&recording, &Copies::default())?;
    let mut before = 0;
    let packets = template.packets.iter().map(|packet| {
        let gap = packet.after_ns - std::mem::replace(&mut before, packet.after_ns);
        (packet.by_client, Nanos::new(gap))
    });
    Ok(TemplatePackets {
        packets: packets.collect(),
        client_ports: template.ports,
        is_ipv6: template.packets.first().is_some_and(|it| it.located.network == Network::V6),
    })
}

/// A template while it is read.
struct Reading<'a> {
    template: Template,
    recording: &'a Recording,
    copies: &'a Copies,
    times: TimeLine,
    sides: Sides,
    /// The client, who opened the first conversation.
    client: Option<IpAddr>,
    /// Numbers of the client's ports.
    ports: HashMap<u16, u16>,
    /// The packet before: when it was captured, who sent it.
    last: Option<(u64, bool)>,
}

impl<'a> Reading<'a> {
    fn new(recording: &'a Recording, copies: &'a Copies) -> Reading<'a> {
        Reading {
            template: Template::default(),
            recording,
            copies,
            times: TimeLine::new(recording.replay.max_gap.map(Nanos::get), None),
            sides: Sides::default(),
            client: None,
            ports: HashMap::new(),
            last: None,
        }
    }

    /// Adds the next frame, which was captured at this time.
    fn add(&mut self, time_ns: i64, frame: &[u8]) -> Result<(), Unsendable> {
        let unsendable = |kind, why| Unsendable { kind, why, wanted: true };
        let side = self.sides.of(frame);
        let located = locate(frame).filter(|located| {
            matches!(located.network, Network::V4 | Network::V6)
        });
        let ends = located.and_then(|located| Some((located, Ends::of(frame, &located)?)));
        let Some((located, Ends { addresses: [Some(source), Some(destination)], ports })) = ends
        else {
            return Err(unsendable(
                "not of IP",
                fault!("copies have addresses of IP, and this frame has none"; "leave it out with a 'filter', for example 'ip or ip6'"),
            ));
        };
        let pools = [&self.copies.clients.pool, &self.copies.servers.pool];
        let of_pools = pools.iter().find_map(|pool| pool.addresses.0.first());
        if let Some(range) = of_pools.filter(|range| range.is_ipv6() == source.is_ipv4()) {
            return Err(unsendable(
                "of another version of IP than the pools",
                fault!(
                    "it is from {source} to {destination}, and its copies have addresses such as {range}";
                    "write pools of its version of IP, or leave it out with a 'filter'"
                ),
            ));
        }
        let opener = if side == Side::Client { source } else { destination };
        let client = *self.client.get_or_insert(opener);
        let by_client = match (source == client, destination == client) {
            (true, false) => true,
            (false, true) => false,
            _ => side == Side::Client,
        };
        let port = ports[usize::from(!by_client)].filter(|_| {
            matches!(located.protocol, Protocol::TCP | Protocol::UDP)
        });
        let port = port.map(|port| self.port(port)).transpose()?;
        let after_ns = self.after(time_ns, by_client);
        let start = self.template.bytes.len();
        self.template.bytes.extend_from_slice(frame);
        let to_group = match destination {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        };
        let bytes = start..self.template.bytes.len();
        self.template.packets.push(Packet { after_ns, bytes, located, by_client, port, to_group });
        Ok(())
    }

    /// The number of a client's port.
    fn port(&mut self, port: u16) -> Result<u16, Unsendable> {
        let next = self.ports.len();
        let number = *self.ports.entry(port).or_insert(next as u16);
        self.template.ports = self.ports.len() as u16;
        let room = self.copies.clients.pool.ports.as_ref().map_or(u64::MAX, |ports| ports.len());
        match u64::from(number) < room {
            true => Ok(number),
            false => {
                self.ports.remove(&port);
                self.template.ports = self.ports.len() as u16;
                Err(Unsendable {
                    kind: "from more client ports than there are",
                    why: fault!(
                        "the client has more ports in the capture than the {room} of 'clients'";
                        "write more ports, or choose some of its conversations with 'filter'"
                    ),
                    wanted: true,
                })
            }
        }
    }

    /// When the next packet is due, from the start of its copy.
    fn after(&mut self, time_ns: i64, by_client: bool) -> u64 {
        let captured = self.times.at(time_ns.into());
        let Some((before, was_client)) = self.last.replace((captured, by_client)) else { return 0 };
        let written = match by_client == was_client {
            true => self.copies.gap,
            false => self.copies.turnaround,
        };
        let of_capture = captured.saturating_sub(before);
        let of_capture = self.recording.replay.speed.divide(of_capture.into());
        let gap = written.map_or(of_capture, Nanos::get).max(self.copies.min_gap.get());
        self.template.lasts_ns().saturating_add(gap)
    }

    fn leave_out(
        &mut self,
        Unsendable { kind, why, wanted }: Unsendable,
        place: impl Fn() -> String,
    ) -> Result<(), Fault> {
        let told = why.at(place());
        if wanted && self.recording.replay.on_bad == OnBad::Stop {
            return Err(told.then_hint("--on-bad skip ('on-bad: skip') leaves such frames out"));
        }
        let first = told.to_string();
        let kind = kind.to_owned();
        add(&mut self.template.left_out, LeftOut { kind, count: 1, records: 1, bytes: 0, first });
        Ok(())
    }
}

/// The packet that is next of those with one number: when, which, and of which copy.
type Next = Reverse<(u64, u32, u64)>;

/// The packets of all copies that one side sends.
pub(super) struct CopySource {
    template: Template,
    copies: Arc<Copies>,
    starts: Box<dyn Iterator<Item = Nanos> + Send>,
    /// The starts of the copies that are under way, and the number of the first of them.
    under_way: VecDeque<u64>,
    first: u64,
    next: BinaryHeap<Next>,
    /// The last packet of the template that this side sends.
    last: u32,
    /// The packet as it is sent.
    made: Vec<u8>,
    /// Copies that have begun.
    begun: u64,
    /// Nothing is due then or later, from the start of the flow.
    end: u64,
}

impl CopySource {
    /// Reads what a recording copies, and checks that copies can be told apart.
    pub(super) fn open(recording: &Recording, copies: &Arc<Copies>) -> Result<CopySource, Fault> {
        let template = Template::read(recording, copies)?;
        check_versions(&template, copies)?;
        check_ends(&template, copies)?;
        check_memory(&template, copies)?;
        let side = recording.replay.side;
        let mine = (0_u32..).zip(&template.packets).filter(|(_, packet)| packet.is_of(side));
        let mine: Vec<u32> = mine.map(|(number, _)| number).collect();
        let mut source = CopySource {
            last: mine.last().copied().unwrap_or(0),
            template,
            copies: Arc::clone(copies),
            starts: Box::new(copies.starts()),
            under_way: VecDeque::new(),
            first: 0,
            next: BinaryHeap::with_capacity(mine.len()),
            made: Vec::new(),
            begun: 0,
            end: recording.stop.saturating_sub(recording.start).get(),
        };
        if let Some(start) = source.start(0)? {
            for number in mine {
                if let Some(packet) = source.template.packets.get(number as usize) {
                    let due = start.saturating_add(packet.after_ns);
                    source.next.push(Reverse((due, number, 0)));
                }
            }
        }
        Ok(source)
    }

    /// How many copies have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// What the capture had that is in no copy.
    pub(super) fn template(&self) -> &Template {
        &self.template
    }

    /// When copy `n` starts, which is under way or the next one; `None` where none does any more.
    fn start(&mut self, n: u64) -> Result<Option<u64>, Fault> {
        let place = usize::try_from(n.saturating_sub(self.first)).unwrap_or(usize::MAX);
        while self.under_way.len() <= place {
            let Some(start) = self.starts.next() else { return Ok(None) };
            if self.under_way.len() >= UNDER_WAY_MAX {
                return Err(too_many());
            }
            self.under_way.push_back(start.get());
        }
        Ok(self.under_way.get(place).copied())
    }

    /// The next packet, and when it is due from the start of the flow.
    pub(super) fn take(&mut self) -> Result<Option<(u64, &[u8])>, Fault> {
        let Some(&Reverse((due, number, copy))) = self.next.peek() else { return Ok(None) };
        if due >= self.end {
            return Ok(None);
        }
        let following = self.start(copy.saturating_add(1))?;
        let Some(packet) = self.template.packets.get(number as usize) else { return Ok(None) };
        if let Some(mut first) = self.next.peek_mut() {
            match following {
                Some(start) => {
                    *first = Reverse((start.saturating_add(packet.after_ns), number, copy + 1));
                }
                None => {
                    PeekMut::pop(first);
                }
            }
        }
        if number == self.last {
            // no packet of this copy comes any more: the others of one time are before the last
            while self.first <= copy && self.under_way.pop_front().is_some() {
                self.first += 1;
            }
        }
        self.begun = self.begun.max(copy.saturating_add(1));
        self.made.clear();
        self.made.extend_from_slice(
            self.template.bytes.get(packet.bytes.clone()).unwrap_or_default(),
        );
        let ends = self.copies.ends(copy);
        let ends = packet.ends(&self.copies, &ends, self.template.ports);
        ends.apply(&mut self.made, &packet.located);
        Ok(Some((due, &self.made)))
    }
}

fn too_many() -> Fault {
    fault!(
        "more than {UNDER_WAY_MAX} copies are under way at a time, and each takes 8 bytes";
        "lower the 'rate' of 'copies', or shorten them ('gap', 'turnaround', 'max-gap')"
    )
}

/// That the capture and the pools are of one version of IP.
fn check_versions(template: &Template, copies: &Copies) -> Result<(), Fault> {
    let pools = [&copies.clients.pool, &copies.servers.pool];
    let range = pools.iter().find_map(|pool| pool.addresses.0.first());
    match range.and_then(|range| Some((range, template.has_addresses_of(range.first)?))) {
        Some((range, false)) => Err(fault!(
            "the capture and {range} are of two versions of IP"; "write pools of the version of the capture"
        )),
        _ => Ok(()),
    }
}

/// That no two copies have the same ends at a time.
fn check_ends(template: &Template, copies: &Copies) -> Result<(), Fault> {
    let Some(different) = copies.different(template.ports.max(1)) else { return Ok(()) };
    let lasts = template.lasts_ns();
    let Some(apart) = usize::try_from(different).ok().filter(|apart| *apart <= LOOKED_AT) else {
        return Ok(());
    };
    let again = copies.starts().skip(apart).zip(copies.starts()).take(LOOKED_AT);
    let early = again.map(|(again, first)| again.saturating_sub(first).get()).find(|it| *it < lasts);
    match early {
        Some(after) => Err(fault!(
            "there are addresses and ports for {different} copies, and the next one begins {} after the first, which lasts {}",
            human::time(after as f64), human::time(lasts as f64);
            "write more addresses or ports in 'clients', or lower the 'rate'"
        )),
        None => Ok(()),
    }
}

/// That there is memory for the copies that are under way at a time.
fn check_memory(template: &Template, copies: &Copies) -> Result<(), Fault> {
    let under_way = copies.peak_rate().map_or(0.0, |rate| rate * template.lasts_ns() as f64);
    if under_way > UNDER_WAY_MAX as f64 { Err(too_many()) } else { Ok(()) }
}
