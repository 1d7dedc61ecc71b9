//! What each port of a run receives: whose flows and groups, which probes, by which engine. It knows the
//! program and the ports, and nothing of senders or of time.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use wirebeat_capture::packet_log::MeterFacts;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::collect::Manner;
use wirebeat_engine_linux::group::Group;
use wirebeat_engine_linux::kernel::Fate;
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders};
use wirebeat_meter::codecs::Codecs;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_netlink::Link;
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::codec::Codec;

use super::Running;
use crate::attribution::{Attributions, SendingEngines, attribute};
use crate::engines::{Ability, Engine, RxOpening, driver, fallback};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::receivers::{self, Receiving};
use crate::replay::headers_of;

impl Running<'_> {
    /// The flows that a port receives.
    fn flows_to<'a>(&'a self, port: &'a ResolvedPort) -> impl Iterator<Item = &'a Flow> {
        self.plan.program.flows.iter().filter(|flow| flow.to.as_ref() == Some(&port.name))
    }

    /// Opens the receiver of the port at `place`, if flows are sent to it.
    pub(super) fn open_receiver(&mut self, place: usize) -> Result<(), RunError> {
        if self.flows_to(&self.lab.ports[place]).next().is_none() {
            return Ok(());
        }
        let mut resting = self.lab.take_receiver(place);
        let port = &self.lab.ports[place];
        let flows_here: Vec<&Flow> = self.flows_to(port).collect();
        let expectation = |flow: &Flow| Expectation {
            nominal_gap: self.plan.nominal_gap(self.lab, flow),
            delay_base: self.plan.far.delay_base(flow.id),
        };
        let (probed, bare): (Vec<&Flow>, Vec<&Flow>) =
            flows_here.iter().partition(|flow| self.plan.program.codec(flow.id.into()).is_some());
        let expected: BTreeMap<u16, Expectation> = probed
            .into_iter()
            .flat_map(|flow| {
                let expectation = expectation(flow);
                self.plan.program.probes_of(flow).map(move |id| (id, expectation))
            })
            .collect();
        let recognised: BTreeMap<u16, Expectation> =
            bare.into_iter().map(|flow| (flow.id, expectation(flow))).collect();
        let flat_out = |flow: &&Flow| {
            let (program, number) = (&self.plan.program, flow.id.into());
            !program.is_recorded(number) && program.offered(number).is_none()
        };
        let by_queue = self.flows_to(port).filter(flat_out);
        let by_queue = by_queue.flat_map(|flow| self.plan.program.probes_of(flow)).collect();
        let mut listen: Vec<_> =
            self.flows_to(port).filter_map(|flow| Some(flow.endpoint?.destination)).collect();
        listen.sort_unstable();
        listen.dedup();
        let cores: u16 = self.lab.ports.iter().map(|port| port.spec.senders()).sum();
        let virtual_cable = |link: &Link| link.kind.as_deref() == Some("veth");
        let one_queue = cores <= self.lab.ports.len() as u16
            && (port.link.as_ref().is_some_and(virtual_cable) || port.has_one_queue());
        let virtual_time = self.open.engines[place].is_virtual();
        let codecs = self.codecs(port)?;
        // times of another clock say nothing of that
        let other_clock = flows_here.iter().any(|flow| self.plan.far.has_another_clock(flow.id));
        let flows = Flows::Expected(expected);
        let engine = self.receiving_engine(place, &codecs, (&flows, recognised.len()))?;
        let recordings = self.recordings();
        let captured = |flow: &Flow| headers_of(&recordings, flow.id.into());
        let sent_by = |flow: &Flow| {
            let place = self.lab.ports.iter().position(|port| port.name == flow.from)?;
            self.open.engines.get(place).copied()
        };
        let sending = SendingEngines { engine: &sent_by, captured: &captured };
        let Attributions { flows: attributed, headers } =
            attribute(&self.plan.program, (&flows_here, &sending), (engine, &listen));
        let known = headers.flows().to_vec();
        let groups = self.groups(port);
        let held = resting.as_mut().and_then(|resting| resting.take_groups(&groups));
        let groups = held.map_or_else(|| receivers::join(port, &groups), Ok)?;
        let how = Receiving {
            meter: MeterConfig {
                flows,
                bins: self.lab.options.bins,
                // what an earlier run left in queues on the way is not ours
                run_start: (!virtual_time && !other_clock).then(|| MonotonicClock.now()),
                codecs,
                headers,
                recognised,
                ..MeterConfig::default()
            },
            fate: Fate::Drop,
            several_queues: !one_queue,
            by_queue,
            promiscuous: true,
            listen,
            taps: self.open.keeping.as_ref().and_then(|keeping| keeping.taps(place)),
            groups,
            manner: Manner::Silent,
            most: None,
            queues: port.spec.receivers(),
            fragments: flows_here.iter().any(|flow| self.arrives_cut(flow)),
            thread: ThreadOrders {
                cpus: Vec::new(),
                priority: if virtual_time { Priority::Normal } else { self.plan.priority },
                ..ThreadOrders::default()
            },
        };
        if self.lab.options.packet_log.is_some() {
            self.open.meters.insert(place, MeterFacts::new(&how.meter, how.queues));
        }
        let port = &self.lab.ports[place];
        let opening = RxOpening { place, engine, in_memory: &self.open.in_memory };
        let restarted = match resting {
            Some(receiver) => receiver.restart(port, &opening, how)?,
            None => Err(how),
        };
        let receiver = match restarted {
            Ok(receiver) => receiver,
            Err(how) => {
                if !engine.can(Ability::SeeHeaders) {
                    self.lab.free_addresses();
                }
                let port = &self.lab.ports[place];
                driver(engine).open_receiver(port, &opening, how)?
            }
        };
        if let Some(meter) = self.open.meters.get_mut(&place) {
            meter.queues = receiver.queues();
        }
        self.open.receivers.push(receiver);
        self.open.attributions.extend(attributed);
        known.into_iter().for_each(|(headers, id)| self.open.recognised.add(headers, id));
        Ok(())
    }

    /// The probes of other tools that a port is to read.
    fn codecs(&self, port: &ResolvedPort) -> Result<Codecs, RunError> {
        let mut codecs = Codecs { unix_offset: self.lab.day.offset().clone(), ..Codecs::default() };
        let mut shared = Vec::new();
        for flow in self.flows_to(port) {
            let Some((codec, number)) = self.plan.program.probe(flow.id.into()) else { continue };
            if codec == Codec::Wirebeat {
                continue;
            }
            if !codecs.read.contains(&codec) {
                codecs.read.push(codec);
            }
            for at in flow.destinations.iter().map(SocketAddr::port).filter(|port| *port != 0) {
                let other = codecs.ports.insert(at, codec);
                shared.extend(other.filter(|other| *other != codec).map(|_| at));
            }
            if let Some(other) = codecs.flows.insert((codec, number), flow.id) {
                let other = &self.plan.program.flows[usize::from(other)].name;
                return Err(RunError::usage(fault!(
                    "flows '{other}' and '{}' cannot be told apart at port '{}': their \
                     probes ({codec}) carry the same number, or none",
                    flow.name, port.name;
                    "give them numbers of their own, or another codec"
                )));
            }
        }
        codecs.ports.retain(|port, _| !shared.contains(port));
        Ok(codecs)
    }

    /// Whether packets of a flow leave as fragments.
    fn arrives_cut(&self, flow: &Flow) -> bool {
        self.plan.program.streams(flow.id.into()).iter().any(|stream| stream.frames.is_cut())
    }

    /// The groups that the flows to a port are sent to.
    fn groups(&self, port: &ResolvedPort) -> Vec<Group> {
        let destinations = self.flows_to(port).flat_map(|flow| &flow.destinations);
        let destinations = destinations.map(SocketAddr::ip);
        let groups = destinations.filter(IpAddr::is_multicast);
        let mut groups: Vec<Group> = groups.map(|group| Group { group, source: None }).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The engine that receives at a port: the kernel reads Wirebeat's own probes only, puts no fragments
    /// together, and has no room for any number of flows.
    fn receiving_engine(
        &self,
        place: usize,
        codecs: &Codecs,
        (flows, recognised): (&Flows, usize),
    ) -> Result<Engine, RunError> {
        let (port, engine) = (&self.lab.ports[place], self.open.engines[place]);
        let foreign = codecs.read.first();
        let fragmented = self.flows_to(port).find(|flow| self.arrives_cut(flow));
        let able = |engine: Engine| {
            (foreign.is_none() || engine.can(Ability::Codecs))
                && (fragmented.is_none() || engine.can(Ability::Reassemble))
        };
        if port.spec.engine.engine().is_none() {
            let fits = |engine| able(engine) && driver(engine).has_room_for(flows, recognised);
            return Ok(match fits(engine) {
                true => engine,
                false => fallback(engine, fits).unwrap_or(engine),
            });
        }
        // where it was asked for, it says itself how many flows it takes
        let what = match (foreign, fragmented) {
            _ if able(engine) => return Ok(engine),
            (Some(codec), _) if !engine.can(Ability::Codecs) => format!(
                "the {engine} engine reads Wirebeat's own probes only, and port '{}' receives those of {codec}",
                port.name
            ),
            (_, Some(flow)) => format!(
                "the {engine} engine puts no fragments together, and packets of the flow '{}' reach port '{}' in fragments",
                flow.name, port.name
            ),
            (_, None) => return Ok(engine),
        };
        let other = fallback(engine, able).map_or("auto", Engine::name);
        Err(RunError::usage(what).hint(format!("let it receive with 'engine: {other}', or 'auto'")))
    }
}

/// The gap between frames of a flow, where it is always the same.
pub(super) fn nominal_gap(program: &Program, flow: &Flow) -> Option<Nanos> {
    let [stream] = program.streams(flow.id.into()) else { return None };
    let rate = stream.departures.pace.constant().filter(|_| stream.departures.burst == 1)?;
    let frames = rate.frames.max(1);
    Some(Nanos::new(rate.per.get().saturating_add(frames / 2) / frames))
}
