//! What copies of a capture are made of: its packets, both sides, with the places in them that differ from copy to copy.
//!
//! The capture is read once, into memory. Who the client is, and which of its ports is which, is found here; which addresses and ports
//! a copy has is a function of its number (`wirebeat_traffic::program::Copies`). `copies.rs` sends them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;

use wirebeat_archive::capture::sides::{Side, Sides};
use wirebeat_report::model::LeftOut;
use wirebeat_traffic::program::{Copies, CopyEnds};
use wirebeat_traffic::scenario::replay::{self, OnBad};
use wirebeat_units::{Fault, Nanos, fault};
use wirebeat_wire::headers::{HeaderKey, HeaderMatch};
use wirebeat_wire::locate::{Located, Network, locate};
use wirebeat_wire::rewrite::{Ends, address_places};

use super::Recording;
use super::captures::{Captures, HeldBack};
use super::filling::{Shortened, TimeLine};
use super::read::{Unsendable, add};

/// The most packets of a template, and bytes of them all.
const PACKETS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 256 << 20;
/// The most different headers of a template: each is compared with those before.
const HEADERS_MAX: usize = 4096;

/// A packet of the template.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// When it is due, from the start of its copy.
    pub(super) after_ns: u64,
    pub(super) bytes: Range<usize>,
    pub(super) located: Located,
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
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Vec<Packet>,
    /// How many different ports the client has.
    pub(super) ports: u16,
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
    pub(super) fn lasts_ns(&self) -> u64 {
        self.packets.last().map_or(0, |packet| packet.after_ns)
    }

    /// Whether its packets are of the version of IP of an address; `None` where there are none.
    pub(super) fn has_addresses_of(&self, other: IpAddr) -> Option<bool> {
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
                HeaderMatch::of_bits(&frame, |at| {
                    changing.iter().map(|field| field.bits(at)).fold(0, |all, bits| all | bits)
                })
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

impl Packet {
    pub(super) fn is_of(&self, side: Option<replay::Side>) -> bool {
        match side {
            None => true,
            Some(replay::Side::Client) => self.by_client,
            Some(replay::Side::Server) => !self.by_client,
        }
    }

    /// The ends that it has in a copy between `ends`, where a copy has `ports` client ports.
    #[inline]
    pub(super) fn ends(&self, copies: &Copies, ends: &CopyEnds, ports: u16) -> Ends {
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

    /// What of it differs from copy to copy.
    fn changing(&self, copies: &Copies) -> Vec<ChangingField> {
        let Some((places, len)) = address_places(self.located.network) else { return Vec::new() };
        let pools = match self.by_client {
            true => [&copies.clients.pool, &copies.servers.pool],
            false => [&copies.servers.pool, &copies.clients.pool],
        };
        let mut all = Vec::with_capacity(3);
        for (pool, place) in pools.into_iter().zip(places) {
            if let Some(same) = pool.addresses.common_bits() {
                all.push(ChangingField { at: self.located.at + place, len, same });
            }
        }
        if self.to_group {
            all.retain(|field| field.at == self.located.at + places[0]);
        }
        let ports = copies.clients.pool.ports.as_ref();
        if let (Some(at), Some(_), Some(ports)) =
            (self.located.carried.transport(), self.port, ports)
        {
            let at = at + if self.by_client { 0 } else { 2 };
            all.push(ChangingField { at, len: 2, same: ports.common_bits() });
        }
        all
    }
}

/// A field of a packet of which the first bits are the same in all copies.
#[derive(Clone, Copy, Debug)]
struct ChangingField {
    /// Where it begins in the frame, and its length.
    at: usize,
    len: usize,
    /// How many bits are the same.
    same: u32,
}

impl ChangingField {
    /// Which bits of the frame's byte at `at` change.
    fn bits(&self, at: usize) -> u8 {
        let Some(place) = at.checked_sub(self.at).filter(|place| *place < self.len) else {
            return 0;
        };
        let same = u64::from(self.same).saturating_sub(8 * place as u64).min(8);
        u8::try_from(0xff_u16 >> same).unwrap_or(0xff)
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
        let located =
            locate(frame).filter(|located| matches!(located.network, Network::V4 | Network::V6));
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
        let [of_source, of_destination] = ports;
        let port = if by_client { of_source } else { of_destination };
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
