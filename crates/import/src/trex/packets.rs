//! T-Rex's stateful templates packet by packet, without a stack, as T-Rex plays them: two flows for each template, of which one
//! sends the packets of the client, the other those of the server.
//!
//! A template with a `limit` plays so many tuples and then the same again, each when its last packet has left and as long after
//! it as `limit` starts take: these are starts that are on for that time, and off while a copy lasts.

use serde_json::Value;
use std::num::NonZeroU64;
use wirebeat_traffic::scenario::departures::{Departures, Duration, OnOff};
use wirebeat_traffic::scenario::rate::FlowRate;
use wirebeat_traffic::scenario::replay::{Copies, CopyClients, CopyServers, Side};
use wirebeat_traffic::scenario::session::{AddressPool, PortPool};
use wirebeat_traffic::scenario::{FlowSpec, MAX_FLOWS, Replay};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Nanos, fault};

use super::nanos;
use super::stf::{Addresses, Reader, Template};
use crate::ScriptError;
use crate::capture::{CLIENTS, SERVERS, TemplateFacts};
use crate::text::name;

/// The ports of clients: from the first that is none of a service.
const PORTS: PortRange = PortRange { first: 1024, last: u16::MAX };

/// A template, its capture, and the addresses of both ends.
pub(super) struct PacketTemplate<'a> {
    pub(super) template: Template<'a>,
    /// The name of the capture, and what is in it.
    pub(super) file: String,
    pub(super) facts: TemplateFacts,
    pub(super) from: Addresses,
    pub(super) to: Addresses,
}

/// Times of a template.
#[derive(Clone, Copy, Default)]
struct Times {
    gap: Option<Nanos>,
    turnaround: Option<Nanos>,
    min_gap: Option<Nanos>,
}

impl Times {
    /// How long a copy lasts.
    fn lasts(&self, facts: &TemplateFacts) -> Nanos {
        let mut sum = Nanos::ZERO;
        for (before, (by_client, captured)) in
            facts.packets.iter().map(|packet| packet.0).zip(facts.packets.iter().skip(1))
        {
            let written = if before == *by_client { self.gap } else { self.turnaround };
            let gap = written.unwrap_or(*captured).max(self.min_gap.unwrap_or(Nanos::ZERO));
            sum = sum.saturating_add(gap);
        }
        sum
    }
}

/// Keys of a template that are told, and why they are not followed.
pub(super) const TOLD: [(&str, &str); 5] = [
    (
        "plugin_id",
        "addresses and ports that packets carry are not changed; those of their headers are",
    ),
    ("multi_flow_enabled", "all conversations of a capture are in each copy"),
    ("flows_dirs", "the client of a copy is who opened the first conversation of the capture"),
    ("ip_header_offset", "the outermost IP header has the addresses"),
    ("dyn_pyload", "payloads are as they were captured"),
];

impl<'a> Reader<'a, '_, '_> {
    /// Adds the flows of all templates.
    pub(super) fn add_packets(&mut self, all: Vec<PacketTemplate<'a>>) -> Result<(), ScriptError> {
        let options = self.draft.options;
        if options.interface.is_some() && options.to.is_none() {
            return Err(ScriptError::Whole {
                file: self.draft.source.name.to_owned(),
                problem: fault!(
                    "both sides of each template are played, and the servers have no interface";
                    "say with --to which it is"
                ),
            });
        }
        let stop = match self.draft.options.time {
            Some(_) => None,
            // what has started by then goes on to its end
            None => std::mem::take(&mut self.draft.scenario.run.time),
        };
        let count = all.len() as u64;
        for (place, one) in (0..).zip(all) {
            let copies = self.copies(&one, (place, count))?;
            let sides = [(Side::Client, true), (Side::Server, false)];
            for (side, by_client) in sides {
                if !one.facts.packets.iter().any(|packet| packet.0 == by_client) {
                    continue;
                }
                let (from, to) = if by_client { (CLIENTS, SERVERS) } else { (SERVERS, CLIENTS) };
                let replay = Replay {
                    archive: None,
                    capture: Some(vec![one.file.clone()].into()),
                    side: Some(side),
                    copies: Some(Box::new(copies.clone())),
                    ..Replay::of("")
                };
                let flow = FlowSpec {
                    to: Some(to.to_owned()),
                    packet: Vec::new().into(),
                    stop,
                    replay: Some(replay.into()),
                    ..FlowSpec::from_port(from)
                };
                self.add_flow(&one, by_client, flow)?;
            }
        }
        if self.draft.options.interface.is_some() {
            let line = self.line("cap_info", None);
            let why = "frames keep the Ethernet addresses of the captures; for a device that looks at them write 'source-mac' and \
                       'destination-mac' in 'rewrite'";
            self.draft.leave_out(&line, "mac", why);
        }
        Ok(())
    }

    /// What is copied of a template, how often, and between whom. `of` is its place among all.
    fn copies(
        &self,
        one: &PacketTemplate<'_>,
        (place, all): (u64, u64),
    ) -> Result<Copies, ScriptError> {
        let PacketTemplate { template, facts, from, to, .. } = one;
        let (cps, rate) = self.rate(template)?;
        let times = self.times(template);
        let limit = self.limit(template)?;
        let departures = limit.map(|limit| repeated(limit, cps, times.lasts(facts)));
        let keep_ports =
            template.keys.get("keep_src_port").and_then(Value::as_bool).unwrap_or(false);
        let server = self.server(template)?;
        Ok(Copies {
            rate: FlowRate::Fixed(rate),
            departures: departures.unwrap_or_default(),
            clients: CopyClients {
                addresses: AddressPool(vec![from.range]),
                ports: (!keep_ports).then(|| PortPool(vec![ports((place, all), facts)])),
                order: from.order,
            },
            servers: CopyServers {
                addresses: AddressPool(vec![server.unwrap_or(to.range)]),
                order: to.order,
            },
            per_pair: self.burst(template)?,
            tuples: limit,
            keep_ports,
            gap: times.gap,
            turnaround: times.turnaround,
            min_gap: times.min_gap,
            ..Copies::default()
        })
    }

    /// When the packets of a template are due.
    fn times(&self, template: &Template<'_>) -> Times {
        let of_profile = |key: &str| self.profile.get(key);
        let us = |value: Option<&Value>| {
            let us = value.and_then(Value::as_f64)?;
            if us == 0.0 { Some(Nanos::ZERO) } else { nanos(us * 1e3) }
        };
        let of_capture = template.keys.get("cap_ipg").or(of_profile("cap_ipg"));
        let over = us(of_profile("cap_override_ipg"));
        if of_capture.and_then(Value::as_bool).unwrap_or(false) {
            // both are needed, and shorter times become the second
            let min_gap = over.filter(|_| of_profile("cap_ipg_min").is_some());
            return Times { min_gap: min_gap.filter(|gap| *gap > Nanos::ZERO), ..Times::default() };
        }
        Times {
            gap: over.or(us(template.keys.get("ipg"))),
            turnaround: over.or(us(template.keys.get("rtt"))),
            min_gap: None,
        }
    }

    fn add_flow(
        &mut self,
        one: &PacketTemplate<'_>,
        by_client: bool,
        flow: FlowSpec,
    ) -> Result<(), ScriptError> {
        let flows = &self.draft.scenario.flows;
        if flows.len() >= MAX_FLOWS {
            let why = fault!("it has more than {MAX_FLOWS} flows"; "divide the profile");
            return Err(self.wrong("name", Some(one.template.number), why));
        }
        let base = one.file.rsplit(['/', '\\']).next().unwrap_or(&one.file);
        let base = name(base.split('.').next().unwrap_or(base));
        let end = if by_client { "client" } else { "server" };
        let others = (2_u32..).map(|number| format!("{base}-{number}-{end}"));
        let free = std::iter::once(format!("{base}-{end}"))
            .chain(others)
            .find(|name| !flows.contains_key(name));
        self.draft.scenario.flows.insert(free.unwrap_or(base), flow);
        Ok(())
    }
}

/// Starts of so many copies at a time, again and again: each lasts this long, and what follows it is as long after it as all of
/// them take to start.
fn repeated(limit: NonZeroU64, cps: f64, lasts: Nanos) -> Departures {
    let on = nanos(limit.get() as f64 / cps * 1e9);
    match on.filter(|_| lasts > Nanos::ZERO) {
        None => Departures::default(),
        Some(on) => Departures::OnOff(Box::new(OnOff {
            on: Duration::Fixed(on),
            off: Some(Duration::Fixed(lasts)),
            every: None,
            departures: Departures::Constant,
        })),
    }
}

/// The client ports of a template: each has others, so that no two have the same tuple, and blocks that are known by their first
/// bits, so that a receiver tells templates apart.
fn ports((place, all): (u64, u64), facts: &TemplateFacts) -> PortRange {
    let end = u64::from(PORTS.last) + 1;
    let blocks = |size: u64| end / size - u64::from(PORTS.first).div_ceil(size);
    let size = (0..16).rev().map(|bits| 1_u64 << bits).find(|size| blocks(*size) >= all);
    let Some(size) = size.filter(|size| all > 1 && *size >= u64::from(facts.client_ports)) else {
        return PORTS;
    };
    let first = (u64::from(PORTS.first).div_ceil(size) + place) * size;
    match (u16::try_from(first), u16::try_from(first + size - 1)) {
        (Ok(first), Ok(last)) => PortRange { first, last },
        _ => PORTS,
    }
}
