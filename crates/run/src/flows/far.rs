//! Flows that come from a port on another host: a listener there sends them, where its owner allows that.
//!
//! They are part of the program here, so that receivers and the report know them; no port here sends them. What is asked of
//! the listener is made here, and held against what its owner allows before anything opens. Their frames carry the time of the
//! other host's clock: receivers here take the least off that is possible, and what is known at the end corrects it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use wirebeat_engine::drive::TxFlowStats;
use wirebeat_meter::interval::MeterBooks;
use wirebeat_meter::series::Series;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_report::assemble::Attribution;
use wirebeat_report::model::Relation;
use wirebeat_traffic::program::{Flow, Late, Program};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::pattern::Field;
use wirebeat_traffic::scenario::{FlowSpec, Scenario};
use wirebeat_units::Nanos;

use super::Running;
use crate::intervals::Timeline;
use crate::lab::Host;
use crate::remote::{AskedFlow, AskedSending, Connection, Measurement, PORT, RemoteError, Sent};

/// From the decision to start until the first deadline, where a listener on another host has to be told.
pub(super) const LEAD: Nanos = Nanos::from_millis(150);

/// What a listener is to send in a run.
#[derive(Clone, Debug)]
pub(crate) struct FarSender {
    host: Host,
    asked: AskedSending,
    clock: FarClock,
}

/// How the clock of a listener relates to the one here before a run.
#[derive(Clone, Copy, Debug)]
struct FarClock {
    relation: Relation,
    /// How far it is ahead, in ns.
    ahead_ns: i64,
    /// The most that is possible.
    most_ns: i64,
}

/// All listeners that send in a run.
#[derive(Debug, Default)]
pub(crate) struct FarSenders(Vec<FarSender>);

/// How far the clock is ahead that stamped the frames of a flow, by the flow's number, in ns.
pub(crate) type FarClocks = BTreeMap<u16, i64>;

impl FarSenders {
    /// What comes from the hosts at the other ends of `connections`, in intervals of this length.
    ///
    /// # Errors
    /// What the owner of a listener does not allow, or a listener that does not tell its time.
    pub(super) fn of(
        scenario: &Scenario,
        (program, interval): (&Program, Nanos),
        connections: &mut [(Host, Connection)],
    ) -> Result<FarSenders, RemoteError> {
        let mut senders = Vec::new();
        for (host, connection) in connections {
            let Host::Port(name) = host else { continue };
            let mine = |flow: &&Flow| flow.from == *name;
            let asked = asked(scenario, program, (name, interval.get()));
            if asked.flows.is_empty() {
                continue;
            }
            connection.check_sending(&asked, program, program.flows.iter().filter(mine))?;
            let (clocks, most_ns) = connection.compare_ahead()?;
            let (relation, ahead_ns) = (clocks.relation, clocks.ahead_ns);
            let clock = FarClock { relation, ahead_ns, most_ns };
            senders.push(FarSender { host: host.clone(), asked, clock });
        }
        Ok(FarSenders(senders))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is asked of a listener.
    pub(super) fn asked_of(&self, host: &Host) -> Option<AskedSending> {
        self.0.iter().find(|sender| sender.host == *host).map(|sender| sender.asked.clone())
    }

    fn of_flow(&self, id: u16) -> Option<&FarSender> {
        self.0.iter().find(|sender| sender.asked.flows.iter().any(|flow| flow.id == id))
    }

    /// What is taken off the delays of a flow, so that none is negative.
    pub(super) fn delay_base(&self, id: u16) -> i64 {
        match self.of_flow(id).map(|sender| sender.clock) {
            Some(FarClock { relation: Relation::Same, .. }) | None => 0,
            Some(clock) => clock.most_ns.saturating_neg(),
        }
    }

    /// Whether the frames of a flow carry times of another clock.
    pub(super) fn has_another_clock(&self, id: u16) -> bool {
        self.of_flow(id).is_some_and(|sender| sender.clock.relation != Relation::Same)
    }

    /// How far their clocks are ahead, as far as that was known before the run.
    pub(crate) fn clocks(&self) -> FarClocks {
        self.clocks_as(|sender| sender.clock.ahead_ns)
    }

    /// The same at its end: `found` says by host what is known then.
    pub(crate) fn clocks_at_end(&self, found: impl Fn(&Host) -> Option<i64>) -> FarClocks {
        self.clocks_as(|sender| found(&sender.host).unwrap_or(sender.clock.ahead_ns))
    }

    fn clocks_as(&self, ahead: impl Fn(&FarSender) -> i64) -> FarClocks {
        let of = |sender: &FarSender| {
            let ahead = ahead(sender);
            sender.asked.flows.iter().map(|flow| (flow.id, ahead)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }
}

/// What the port `name` is to send.
fn asked(scenario: &Scenario, program: &Program, (name, interval_ns): (&str, u64)) -> AskedSending {
    let mine = program.flows.iter().zip(scenario.flows.values());
    let mine = mine.filter(|(flow, _)| flow.from == name);
    let drift_ns = mine.clone().find_map(|(flow, _)| match flow.late {
        Late::Drop(drift) => Some(drift.get()),
        Late::Send => None,
    });
    let flows = mine.map(|(flow, spec)| AskedFlow {
        id: flow.id,
        name: flow.name.clone(),
        flow: Box::new(filled(flow, spec, program)),
    });
    AskedSending { run: 0, seed: scenario.seed, drift_ns, interval_ns, flows: flows.collect() }
}

/// A flow with all that its sender takes from here: where it goes, and when it ends.
fn filled(flow: &Flow, spec: &FlowSpec, program: &Program) -> FlowSpec {
    let stop = program.streams(flow.id.into()).iter().map(|stream| stream.departures.stop).max();
    let stop = stop.filter(|stop| *stop < Nanos::MAX);
    let mut packet = spec.packet.to_vec();
    if let Some(to) = flow.destinations.first() {
        fill_destination(&mut packet, *to);
    }
    FlowSpec {
        from: PORT.to_owned(),
        to: None,
        packet: packet.into(),
        stop: stop.or(spec.stop),
        // who asks knows what came of it
        expect: Vec::new(),
        ..spec.clone()
    }
}

fn fill_destination(packet: &mut [Header], to: SocketAddr) {
    for header in packet {
        match (header, to.ip()) {
            (Header::Ipv4(ip), IpAddr::V4(to)) => {
                ip.destination.get_or_insert(Field::Fixed(to));
                return;
            }
            (Header::Ipv6(ip), IpAddr::V6(to)) => {
                ip.destination.get_or_insert(Field::Fixed(to));
                return;
            }
            _ => {}
        }
    }
}

/// Has all listeners that are ready begin to send at `start`.
pub(super) fn start(
    measurements: Result<Vec<(Host, Measurement)>, RemoteError>,
    start: Nanos,
) -> Result<Vec<(Host, Measurement)>, RemoteError> {
    let mut measurements = measurements?;
    for (_, measurement) in &mut measurements {
        measurement.start_sending(start)?;
    }
    Ok(measurements)
}

/// Corrects delays that were measured before it was known how far clocks are ahead.
pub(crate) fn correct(summary: &mut MeterSummary, clocks: &FarClocks) {
    for (id, ahead) in clocks {
        if let Some(flow) = summary.flows.get_mut(id) {
            flow.delay_base = flow.delay_base.saturating_add(*ahead);
        }
    }
}

/// The same in intervals.
pub(crate) fn correct_intervals(series: &mut Series<MeterBooks>, clocks: &FarClocks) {
    if clocks.is_empty() {
        return;
    }
    for (_, books) in series.iter_mut() {
        for (id, ahead) in clocks {
            if let Some(flow) = books.flows.get_mut(id) {
                flow.delay_base = flow.delay_base.saturating_add(*ahead);
            }
        }
    }
}

/// Adds what a listener sent to what was sent here.
pub(crate) fn add(tags: &mut [TxFlowStats], sent: &Sent, start: Nanos) {
    for flow in &sent.flows {
        if let Some(tag) = tags.get_mut(usize::from(flow.id)) {
            *tag = flow.stats(start);
        }
    }
}

/// What was to be measured by receivers that gave no result is not measured, and not lost.
pub(crate) fn lose_receivers(run: &mut Running<'_>, lost: &[Host], timeline: &mut Timeline) {
    for (key, flow) in (0u32..).zip(&run.plan.program.flows) {
        if lost.iter().any(|host| host.receives(flow)) {
            let why = "its receiver on another host gave no result".to_owned();
            run.open.attributions.insert(flow.id, Attribution::NotMeasured(why));
            timeline.lose_receiver(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::flow::{Expectation, FlowMeter, Sample};
    use wirebeat_meter::memory::Memory;

    use super::*;

    fn senders(relation: Relation, (ahead_ns, most_ns): (i64, i64)) -> FarSenders {
        let flow = Box::new(FlowSpec::from_port(PORT));
        let flows = vec![AskedFlow { id: 7, name: "x".to_owned(), flow }];
        let asked = AskedSending { run: 0, seed: 1, drift_ns: None, interval_ns: 1, flows };
        let clock = FarClock { relation, ahead_ns, most_ns };
        FarSenders(vec![FarSender { host: Host::Port("far".to_owned()), asked, clock }])
    }

    /// Ten frames, each 700 ns on its way, stamped by a clock that is `ahead`; measured as a receiver here does.
    fn measured(far: &FarSenders, ahead: i64) -> MeterSummary {
        let expected = Expectation { nominal_gap: None, delay_base: far.delay_base(7) };
        let mut meter = FlowMeter::new(expected, 64, None);
        for sequence in 0..10u32 {
            let left = 200_000_000_000_000 + u64::from(sequence) * 1000;
            let sample = Sample {
                at: Nanos::new(left + 700),
                timed: true,
                sent: Some(Nanos::new(left.wrapping_add_signed(ahead))),
                sequence: Some(sequence),
                frame_len: 64,
                fragments: 0,
                payload_len: 18,
                last: false,
            };
            meter.record(&sample, &mut Memory::default());
        }
        let flows = [(7, meter.summary())].into_iter().collect();
        MeterSummary { flows, ..MeterSummary::default() }
    }

    #[test]
    fn delays_of_what_another_host_sends_are_corrected_by_its_clock() {
        for ahead in [86_400_000_000_000, -86_400_000_000_000, 300, -300] {
            // it was taken for 50 ns more before the run, and can have been 90 more
            let far = senders(Relation::Bounded, (ahead + 50, ahead + 90));
            assert!(far.has_another_clock(7));
            let mut summary = measured(&far, ahead);
            let flow = &summary.flows[&7];
            assert_eq!((flow.delay.negative, flow.delay.moments.count), (0, 10), "{ahead}");
            assert!(flow.delay.moments.min < 10_000, "{:?}", flow.delay.moments);
            correct(&mut summary, &far.clocks_at_end(|_| Some(ahead)));
            let flow = &summary.flows[&7];
            assert_eq!(flow.delay.moments.min + flow.delay_base, 700, "{ahead}");
            // without a result what was known before counts
            let mut summary = measured(&far, ahead);
            correct(&mut summary, &far.clocks_at_end(|_| None));
            let flow = &summary.flows[&7];
            assert_eq!(flow.delay.moments.min + flow.delay_base, 750, "{ahead}");
        }
    }

    #[test]
    fn delays_by_one_clock_stay_as_they_are() {
        let far = senders(Relation::Same, (0, 90));
        assert!(!far.has_another_clock(7));
        let mut summary = measured(&far, 0);
        correct(&mut summary, &far.clocks_at_end(|_| Some(0)));
        let flow = &summary.flows[&7];
        assert_eq!((flow.delay_base, flow.delay.moments.min), (0, 700));
        // nor are those of flows that are sent here
        assert_eq!((far.delay_base(8), far.has_another_clock(8)), (0, false));
    }
}
