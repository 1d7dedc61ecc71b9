//! From what threads left behind to a report.

mod sent;

use std::io;
use std::net::SocketAddr;
use std::thread::{self, ScopedJoinHandle};
use std::time::SystemTime;

use wirebeat_engine::drive::disorder::Disorder;
use wirebeat_engine::drive::{Driven, TxFlowStats};
use wirebeat_host::CpuTimes;
use wirebeat_host::card::Card;
use wirebeat_meter::departures::Departures;
use wirebeat_meter::summary::{FlowSummary, MeterSummary};
use wirebeat_netlink::LinkStats;
use wirebeat_report::assemble::{Attribution, Clocks, ReceiverSide, RunFacts, assemble};
use wirebeat_report::model::{
    Change, End, HeldBack, Interval, OutOfOrder, Outage, ProbeNumbers, Replay, Report, Shortened,
    Station, Stats,
};
use wirebeat_traffic::program::Flow;
use wirebeat_traffic::scenario::replay::Numbers;
use wirebeat_units::Nanos;

use self::sent::{OfCores, add_all, charge_not_reached, sender_side, with_shared};
use crate::cards::{self, CardReports};
use crate::facts;
use crate::flows::{Running, far};
use crate::intervals::Timeline;
use crate::lab::Host;
use crate::refused;
use crate::remote::{self, Connection, Measurement, RemoteError, Sent};
use crate::replay::{self, Replayed};
use crate::tapping::{self, Keeping};
use crate::timestamps;
use crate::transmit::gone;

/// What a run left.
pub(crate) struct Outcome {
    pub(crate) sent: Vec<io::Result<Driven>>,
    pub(crate) end: End,
    pub(crate) started: SystemTime,
    pub(crate) start: Nanos,
    pub(crate) elapsed: Nanos,
    /// How long flows could send, from the start of the run.
    pub(crate) ran: Nanos,
    /// When its senders were told to end, from the start of the run.
    pub(crate) halted: Option<Nanos>,
    pub(crate) cpu: CpuTimes,
    /// The card of each port before the run.
    pub(crate) cards: Vec<Option<Card>>,
    pub(crate) stopped_early: bool,
    pub(crate) replayed: Vec<Replayed>,
    pub(crate) outages: Vec<Outage>,
    /// What the receivers on other hosts say.
    pub(crate) remotes: Vec<(Host, Result<Remote, RemoteError>)>,
}

/// What a receiver on another host measured, and its ports.
pub(crate) struct Remote {
    host: Host,
    address: SocketAddr,
    stations: Vec<Station>,
    outcome: remote::RemoteOutcome,
    /// What it sent, if it was to send; an error says why that is not known.
    sent: Option<Result<Sent, String>>,
}

/// What is left of the receivers on other hosts at the end of a run.
#[derive(Default)]
pub(crate) struct RemoteResults {
    pub(crate) remotes: Vec<(Host, Result<Remote, RemoteError>)>,
    /// The connections to those that have not ended.
    pub(crate) connections: Vec<(Host, Connection)>,
}

/// Waits for a sending thread.
pub(crate) fn join(thread: io::Result<ScopedJoinHandle<'_, Driven>>) -> io::Result<Driven> {
    thread?.join().map_err(|_| io::Error::other("a sending thread panicked"))
}

/// Fetches the results of the receivers on other hosts; gives the connections of those that have not ended, for the next run.
pub(crate) fn finish_remote(
    measurements: Result<Vec<(Host, Measurement)>, RemoteError>,
    settle: Nanos,
) -> RemoteResults {
    let measurements = match measurements {
        Ok(measurements) => measurements,
        Err(error) => {
            let remotes = vec![(Host::OfRun, Err(error))];
            return RemoteResults { remotes, ..RemoteResults::default() };
        }
    };
    let finish = |host: Host, mut measurement: Measurement| {
        let (address, stations) = (measurement.address(), measurement.stations().to_vec());
        let sent = measurement.take_sent();
        let (outcome, connection) = measurement.finish_run(settle)?;
        Ok((Remote { host, address, stations, outcome, sent }, connection))
    };
    // at the same time: each waits for frames on their way, and gives up a sender that says nothing
    let finished: Vec<_> = thread::scope(|scope| {
        let begun = measurements.into_iter().map(|(host, measurement)| {
            let address = measurement.address();
            let of = host.clone();
            (host, address, scope.spawn(|| finish(of, measurement)))
        });
        let begun: Vec<_> = begun.collect();
        let join = |(host, address, thread): (Host, SocketAddr, ScopedJoinHandle<'_, _>)| {
            let how = "the thread that asks it panicked".to_owned();
            (host, thread.join().unwrap_or(Err(RemoteError::Gone { address, how })))
        };
        begun.into_iter().map(join).collect()
    });
    let mut all = RemoteResults::default();
    for (host, finished) in finished {
        let remote = finished.map(|(remote, connection)| {
            all.connections.extend(connection.map(|connection| (host.clone(), connection)));
            remote
        });
        all.remotes.push((host, remote));
    }
    all
}

/// How certain delays are that several receivers measured: as the worst of them.
fn worst(one: Clocks, other: Clocks) -> Clocks {
    match (&one, &other) {
        (Clocks::Unbounded(_), _) | (_, Clocks::Same) => one,
        (_, Clocks::Unbounded(_)) | (Clocks::Same, _) => other,
        (Clocks::Bounded { bound: a, .. }, Clocks::Bounded { bound: b, .. }) => {
            if a >= b {
                one
            } else {
                other
            }
        }
    }
}

/// What the kernel counted of the devices of all ports.
fn device_counters(cards: &[Option<Card>]) -> Vec<Option<LinkStats>> {
    cards.iter().map(|card| card.as_ref()?.stats).collect()
}

/// Puts everything together.
pub(crate) fn report(
    mut run: Running<'_>,
    (mut timeline, spans): (Timeline, (Option<Nanos>, Nanos)),
    outcome: Outcome,
) -> (Report, Vec<Interval>, Vec<TxFlowStats>) {
    let mut end = outcome.end.clone();
    let changes = changes(&run, outcome.ran, !outcome.stopped_early);
    if let Some(control) = &run.open.control {
        run.plan.program = control.program();
    }
    let mut machine_notes = run.plan.placed.clone();
    let mut tags = vec![TxFlowStats::default(); run.plan.program.tags() as usize];
    let mut interruptions = Vec::new();
    let mut card_stamps = Vec::new();
    let mut shared_departures = Departures::default();
    for sent in outcome.sent {
        match sent {
            Ok(driven) => {
                interruptions.push(driven.interruptions);
                card_stamps.push(driven.card_stamps);
                if let Some(error) = driven.error {
                    end = ended_by(&end, &error);
                }
                shared_departures.merge(&driven.shared_departures);
                add_all(&mut tags, driven.flows);
            }
            Err(error) => {
                interruptions.push(None);
                card_stamps.push(None);
                end = End::Failed { message: error.to_string() };
            }
        }
    }
    for replayed in &outcome.replayed {
        machine_notes.extend(replayed.summary.notes.iter().cloned());
        if replayed.undelayed > 0 {
            machine_notes.push(format!(
                "{} records were to leave out of order and left in it, because too many others waited; make the window \
                 or the probability smaller",
                replayed.undelayed
            ));
        }
        if let (End::Completed, Some(message)) = (&end, &replayed.error) {
            end = End::Failed { message: message.clone() };
        }
    }
    charge_not_reached(&mut tags);
    let cards_after = cards::read_all(&run.lab.ports);
    let cards = CardReports::new(&outcome.cards, &cards_after);
    let (before, after) = (device_counters(&outcome.cards), device_counters(&cards_after));
    check_headers(&mut run);
    let at_interfaces = at_interfaces(&run, (&before, &after));

    let ahead = |host: &Host| {
        let mut remotes = outcome.remotes.iter().filter_map(|(_, remote)| remote.as_ref().ok());
        Some(remotes.find(|remote| remote.host == *host)?.outcome.clocks.ahead_ns)
    };
    let far_clocks = run.plan.far.clocks_at_end(ahead);
    let mut receiver =
        receiver_side(&mut run, &mut end, (&mut machine_notes, &cards), &mut timeline)
            .map(|side| ReceiverSide { at_interfaces, ..side });
    // what was received is known to all who keep it
    let captures = run.open.keeping.take().map_or_else(Vec::new, Keeping::finish);
    if let Some(side) = &mut receiver {
        far::correct(&mut side.summary, &far_clocks);
    }
    let mut clocks = Clocks::Same;
    let mut far_sent = Vec::new();
    let several = outcome.remotes.len() > 1;
    let mut lost = Vec::new();
    for (host, remote) in outcome.remotes {
        let mut remote = match remote {
            Ok(remote) => remote,
            Err(error) => {
                end = lost_peer(&end, &error);
                lost.push(host);
                continue;
            }
        };
        clocks = worst(clocks, remote.outcome.clocks.clocks());
        if several {
            // whose it is nobody can say
            remote.outcome.measured.summary.unprobed = FlowSummary::default();
        }
        if remote.outcome.ended_early {
            end = ended_early(&end);
        }
        match remote.sent.take() {
            Some(Ok(sent)) => far_sent.push(sent),
            Some(Err(why)) => end = far_failed(&end, &why),
            None => {}
        }
        machine_notes.extend(remote.outcome.measured.notes.iter().cloned());
        if !timeline.received_far(remote.outcome.intervals.clone()) {
            end = lost_peer(&end, &RemoteError::LargeIntervals { address: remote.address });
        }
        receiver = Some(join_remote(receiver, remote));
    }
    if receiver.is_some() {
        far::lose_receivers(&mut run, &lost, &mut timeline);
    }
    let received = receiver.as_ref().map(|side| &side.summary);
    machine_notes.extend(refused::charge(&mut tags, &run, (&before, &after), received));
    let frames: u64 = tags.iter().map(|tag| tag.sent.frames).sum();
    for sent in &far_sent {
        far::add(&mut tags, sent, outcome.start);
        if let Some(why) = &sent.summary.ended {
            end = far_failed(&end, &format!("it ended sending early: {why}"));
        }
    }
    let sender = (frames > 0 || !run.plan.program.flows.is_empty())
        .then(|| {
            let times = (outcome.start, outcome.halted.unwrap_or(outcome.ran));
            let of_cores = OfCores { interruptions: &interruptions, card_stamps: &card_stamps };
            sender_side(&run, (&tags, &outcome.replayed), times, (of_cores, &cards))
        })
        .map(|side| with_shared(side, shared_departures))
        .map(|mut side| {
            side.stations.extend(far_sent.into_iter().flat_map(|sent| sent.summary.stations));
            side
        });
    machine_notes.extend(facts::shared_departures(&tags));
    let (costs, spent) = facts::cost(&outcome.cpu, frames);
    machine_notes.extend(facts::disturbances(&spent, &run.lab.machine));
    let cards = receiver.iter().flat_map(|side| &side.stations);
    let clocks =
        timestamps::clocks(clocks, cards.filter_map(|side| side.hardware_timestamps.as_ref()));
    let facts = RunFacts {
        wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: run.lab.options.command_line.clone(),
        seed: Some(run.plan.program.seed),
        scenario: run.plan.scenario(&run.lab.ports, &run.open.engines),
        started: outcome.started,
        duration: outcome.elapsed,
        end,
        clocks,
        costs,
        machine: machine_notes,
        changes,
        outages: outcome.outages,
        replays: outcome.replayed.into_iter().map(|one| replay_of(&run, one)).collect(),
        captures,
        sessions: Vec::new(),
        stacks: Vec::new(),
    };
    let mut report = assemble(facts, sender, receiver);
    tapping::set_exit_code(&mut report);
    let told = timeline.finish(&mut report, spans);
    run.lab.accepted = run.open.accepted;
    (report, told, tags)
}

/// A flow whose headers were changed from outside while it ran was not recognised from then on.
fn check_headers(run: &mut Running<'_>) {
    if run.open.control.is_none() {
        return;
    }
    for flow in &run.plan.program.flows {
        let Some(how @ Attribution::Headers(_)) = run.open.attributions.get_mut(&flow.id) else {
            continue;
        };
        let mine = |(_, id): &&(_, u16)| *id == flow.id;
        let known: Vec<_> = run.open.recognised.flows().iter().filter(mine).collect();
        let now = run.plan.program.headers(flow).unwrap_or_default();
        if now.iter().any(|own| known.iter().all(|(known, _)| known != own)) {
            *how = Attribution::NotMeasured(
                "it has no probes, and its headers were changed while it ran".to_owned(),
            );
        }
    }
}

/// Frames that came in at the interfaces of all ports that received, by the devices' counters.
fn at_interfaces(
    run: &Running<'_>,
    (before, after): (&[Option<LinkStats>], &[Option<LinkStats>]),
) -> Option<u64> {
    let at = |place: usize| {
        let (before, after) = (before.get(place)?.as_ref()?, after.get(place)?.as_ref()?);
        Some(after.rx_packets.saturating_sub(before.rx_packets))
    };
    run.open.receivers.iter().map(|receiver| at(receiver.place)).sum()
}

/// What the report says of a recording.
fn replay_of(run: &Running<'_>, replayed: Replayed) -> Replay {
    let flow = run.plan.program.flows.get(replayed.flow as usize);
    let replay = run.plan.replay(replayed.flow);
    Replay {
        flow: flow.map_or_else(String::new, |flow| flow.name.clone()),
        archives: replay.map_or_else(Vec::new, |replay| replay.names().to_vec()),
        records: replayed.summary.records,
        copies: replayed.summary.copies,
        left_out: replayed.summary.left_out,
        starved: replayed.starved,
        passed_over: replayed.passed_over,
        held_back: held_back(&replayed.summary.held_back),
        shortened: Some(replayed.summary.shortened)
            .filter(|shortened| shortened.gaps > 0)
            .map(|of| Shortened { gaps: of.gaps, by_ns: of.by_ns }),
        out_of_order: flow.and_then(|flow| out_of_order(run, flow, &replayed.disorder)),
    }
}

fn held_back(of: &replay::HeldBack) -> Option<HeldBack> {
    let replay::HeldBack { frames, most_ns, ref first, moved } = *of;
    let held = HeldBack { frames, most_ns, first: first.clone(), sorted: moved };
    (frames > 0 || moved > 0).then_some(held)
}

/// What left out of its order, as it was asked for and as it was.
fn out_of_order(run: &Running<'_>, flow: &Flow, disorder: &Disorder) -> Option<OutOfOrder> {
    let asked = run.plan.replay(flow.id.into())?.out_of_order?;
    let numbers = match asked.numbers {
        _ if run.plan.program.codec(flow.id.into()).is_none() => ProbeNumbers::None,
        Numbers::Records => ProbeNumbers::Records,
        Numbers::Departures => ProbeNumbers::Departures,
    };
    let (delay_ns, extent_records) = (Stats::of(&disorder.later), Stats::of(&disorder.extent));
    Some(OutOfOrder {
        probability: asked.probability,
        window_ns: asked.window.get(),
        numbers,
        delayed: delay_ns.count,
        delay_ns,
        reordered: extent_records.count,
        extent_records,
    })
}

/// What changed in the flows while they could send.
fn changes(run: &Running<'_>, ran: Nanos, completed: bool) -> Vec<Change> {
    match &run.open.control {
        Some(control) => control.noted(ran, completed),
        None => {
            let mut changes = run.plan.planned.clone();
            changes.retain(|change| change.at_ns < ran.get());
            changes
        }
    }
}

/// An error of a port ends a run that has not ended for another reason.
pub(crate) fn ended_by(end: &End, error: &wirebeat_engine::port::PortError) -> End {
    match (end, gone(error)) {
        (End::Completed, Some(interface)) => End::InterfaceGone { interface: interface.to_owned() },
        (End::Completed, None) => End::Failed { message: error.to_string() },
        (other, _) => other.clone(),
    }
}

/// The receiver on the other host gave no result.
fn lost_peer(end: &End, error: &RemoteError) -> End {
    match end {
        // nothing was sent, and so nothing is missing
        End::Stopped { .. } if matches!(error, RemoteError::Stopped { .. }) => end.clone(),
        End::Completed | End::Stopped { .. } => match error {
            RemoteError::Gone { address, .. } => End::PeerGone { peer: address.to_string() },
            error => End::Failed { message: error.to_string() },
        },
        other => other.clone(),
    }
}

/// The receiver on the other host ended, and told what it had measured by then.
fn ended_early(end: &End) -> End {
    match end {
        End::Completed | End::Stopped { .. } => End::Failed {
            message: "the receiver ended before this run did, and told what it had received by then; frames that came \
                      later count as lost"
                .to_owned(),
        },
        other => other.clone(),
    }
}

/// A listener on another host did not send what it was to send.
fn far_failed(end: &End, why: &str) -> End {
    match end {
        End::Completed => End::Failed { message: format!("a port on another host: {why}") },
        other => other.clone(),
    }
}

/// Adds what the receiver on another host measured.
fn join_remote(here: Option<ReceiverSide>, remote: Remote) -> ReceiverSide {
    let mut side = here.unwrap_or_else(|| ReceiverSide {
        stations: Vec::new(),
        summary: MeterSummary::default(),
        delivered: None,
        at_interfaces: None,
    });
    side.at_interfaces = None;
    let at_end = remote.outcome.measured.stations;
    side.stations.extend(if at_end.is_empty() { remote.stations } else { at_end });
    side.summary.merge(&remote.outcome.measured.summary);
    side.delivered = side.delivered.or(remote.outcome.measured.delivered);
    side
}

/// Ends the receivers.
fn receiver_side(
    run: &mut Running<'_>,
    end: &mut End,
    (notes, cards): (&mut Vec<String>, &CardReports),
    timeline: &mut Timeline,
) -> Option<ReceiverSide> {
    let receivers = std::mem::take(&mut run.open.receivers);
    if receivers.is_empty() {
        return None;
    }
    let mut summary = MeterSummary::default();
    let mut stations = Vec::new();
    for receiver in receivers {
        let place = receiver.place;
        let mode = receiver.mode.clone();
        let mut station =
            facts::station(&run.lab.ports[place], receiver.engine, &mode, &run.lab.machine);
        station.card = cards.of(place);
        facts::threads(&mut station, "receive", &receiver.states);
        let engine = receiver.engine;
        let (received, resting) = receiver.rest();
        run.lab.receivers.extend(resting);
        let mut intervals = received.intervals;
        far::correct_intervals(&mut intervals, &run.plan.far.clocks());
        timeline.received(intervals);
        station.hardware_timestamps =
            timestamps::of_station(&run.lab.ports[place], received.card_stamps.as_ref());
        stations.push(station);
        notes.extend(facts::left_alone(engine, &received.summary));
        notes.extend(facts::shared_histograms(&received.summary));
        notes.extend(received.damage);
        if let Some(error) = received.error {
            *end = ended_by(end, &error);
        }
        summary.merge(&received.summary);
    }
    Some(ReceiverSide { stations, summary, delivered: None, at_interfaces: None })
}
