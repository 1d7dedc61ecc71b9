//! What was sent, as a report is made of it: of each flow, and by each station.

use wirebeat_engine::drive::TxFlowStats;
use wirebeat_engine::port::{Amount, CardStamps, Interruptions, late_after};
use wirebeat_meter::departures::Departures;
use wirebeat_report::assemble::{Attribution, SenderSide, SentFlow};
use wirebeat_report::model::{self, Station, Stats, Volume};
use wirebeat_traffic::compile::anatomy::{LengthRange, Sizes, mean_packets, sizes};
use wirebeat_traffic::program::{Flow, Late, Program};
use wirebeat_units::Nanos;

use crate::cards::CardReports;
use crate::facts;
use crate::flows::Running;
use crate::replay::{self, Member, Replayed};
use crate::timestamps;

/// Adds what one core did.
pub(super) fn add_all(tags: &mut [TxFlowStats], core: Vec<TxFlowStats>) {
    tags.iter_mut().zip(&core).for_each(|(sum, one)| add(sum, one));
}

fn add(sum: &mut TxFlowStats, one: &TxFlowStats) {
    sum.requested += one.requested;
    sum.sent += one.sent;
    sum.expired += one.expired;
    sum.failed += one.failed;
    sum.not_reached += one.not_reached;
    sum.departures.merge(&one.departures);
    sum.late += one.late;
    sum.uncounted |= one.uncounted;
    sum.span = match (sum.span, one.span) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (span, None) | (None, span) => span,
    };
}

/// Frames that the run ended before were asked for.
pub(super) fn charge_not_reached(tags: &mut [TxFlowStats]) {
    tags.iter_mut().for_each(|sent| sent.requested += sent.not_reached);
}

fn volume(amount: Amount) -> Volume {
    Volume {
        frames: amount.frames,
        fragments: amount.fragments,
        frame_bytes: amount.bytes,
        payload_bytes: amount.payload,
    }
}

/// What each transmit core says beside its flows.
#[derive(Clone, Copy)]
pub(super) struct OfCores<'a> {
    pub(super) interruptions: &'a [Option<Interruptions>],
    pub(super) card_stamps: &'a [Option<CardStamps>],
}

pub(super) fn sender_side(
    run: &Running<'_>,
    (tags, replayed): (&[TxFlowStats], &[Replayed]),
    times: (Nanos, Nanos),
    (of_cores, cards): (OfCores<'_>, &CardReports),
) -> SenderSide {
    let flow = |flow: &Flow| {
        let replayed = replayed.iter().find(|one| one.flow == u32::from(flow.id));
        let members = replayed.map_or(&[][..], |one| &one.summary.members);
        sent_flow(run, flow, (tags, members), times)
    };
    SenderSide {
        stations: sending_stations(run, of_cores, cards),
        shared_departures: Departures::default(),
        flows: run.plan.program.flows.iter().map(flow).collect(),
    }
}

/// Adds the histograms that flows and members share. They are those of a flow whose members alone do.
pub(super) fn with_shared(mut side: SenderSide, shared_departures: Departures) -> SenderSide {
    for flow in side.flows.iter_mut().filter(|flow| flow.members.is_some()) {
        flow.left.complete(&shared_departures);
    }
    SenderSide { shared_departures, ..side }
}

/// Over how many transmit queues a flow is spread, so that they do not keep its order.
fn queues(run: &Running<'_>, flow: &Flow) -> u32 {
    let mine = run.open.sending.iter().filter(|sending| sending.flows.contains(&flow.id.into()));
    let spread = mine.filter(|_| flow.members.is_empty()).map(|sending| sending.cores);
    spread.max().unwrap_or(1)
}

/// What was sent of a flow, and of its members each.
fn sent_flow(
    run: &Running<'_>,
    flow: &Flow,
    (tags, members): (&[TxFlowStats], &[Member]),
    (start, ran): (Nanos, Nanos),
) -> SentFlow {
    let program = &run.plan.program;
    let probed = program.codec(flow.id.into()).is_some();
    let none = TxFlowStats::default();
    let of = |tag: u32| tags.get(tag as usize).unwrap_or(&none);
    let line = |sent: &TxFlowStats, id: u16| SentFlow {
        id: probed.then_some(id),
        attribution: run
            .open
            .attributions
            .get(&flow.id)
            .cloned()
            .unwrap_or(Attribution::NoReceiver),
        requested: volume(sent.requested),
        sent: volume(sent.sent),
        expired: sent.expired.frames,
        not_reached: sent.not_reached.frames,
        not_reached_at_least: sent.uncounted,
        failed: sent.failed.frames,
        departures: sent
            .span
            .map(|(first, last)| (first.saturating_sub(start), last.saturating_sub(start))),
        left: sent.departures.clone(),
        late: sent.late,
        drops_late: matches!(flow.late, Late::Drop(_)),
        late_after: late_after(flow.late),
        burst: program.streams(flow.id.into()).first().map_or(1, |first| first.departures.burst),
        ..SentFlow::default()
    };
    let member = |(tag, member): (u32, &Member)| SentFlow {
        name: member.name.clone(),
        sub_flow: member.sub_flow,
        // the compiler gives no tag that has more than 16 bits
        ..line(of(tag), tag as u16)
    };
    let kind = run.plan.replay(flow.id.into()).and_then(|replay| replay::kind(replay));
    let members = flow.members.clone().zip(members).map(member);
    let members = kind.map(|kind| (kind, members.collect()));
    let mut all = TxFlowStats::default();
    program.tags_of(flow.id.into()).for_each(|tag| add(&mut all, of(tag)));
    let offered = program.offered(flow.id.into());
    SentFlow {
        name: flow.name.clone(),
        offered: offered.map(|(rate, _)| rate),
        mean: mean(program, flow),
        sizes: sizes(program.streams(flow.id.into())).map(reported),
        steady: offered.is_some_and(|(_, steady)| steady),
        varies: program.varies(flow.id.into()),
        under_way: program.under_way(flow.id.into(), ran).map(|time| (time.from, time.to)),
        queues: queues(run, flow),
        members,
        ..line(&all, flow.id)
    }
}

/// What the frames of a flow are on average by the scenario, where they are not all alike and do not change.
fn mean(program: &Program, flow: &Flow) -> Option<Volume> {
    let [stream] = program.streams(flow.id.into()) else { return None };
    let [packets, frames, frame_bytes, payload_bytes] = mean_packets(&stream.frames)?;
    Some(Volume {
        frames: packets,
        fragments: frames.saturating_sub(packets),
        frame_bytes,
        payload_bytes,
    })
}

/// Lengths, as the report has them.
fn reported(sizes: Sizes) -> model::Sizes {
    let range = |LengthRange { min, max, mean }| {
        let mean = mean.filter(|_| min != max);
        model::LengthRange { min, max, mean }
    };
    model::Sizes {
        frame_bytes: range(sizes.frame),
        packet_bytes: range(sizes.packet),
        payload_bytes: range(sizes.payload),
    }
}

fn sending_stations(
    run: &Running<'_>,
    OfCores { interruptions, card_stamps }: OfCores<'_>,
    cards: &CardReports,
) -> Vec<Station> {
    let mut stations: Vec<Station> = Vec::new();
    let mut last = None;
    for (core, sending) in run.open.sending.iter().enumerate() {
        let cpu = sending.seat.cpu.map(|cpu| cpu as u32);
        if last == Some(sending.place) {
            if let Some(station) = stations.last_mut() {
                station.cpus.extend(cpu);
                facts::sender(station, &sending.state, &sending.seat);
                facts::transmit_queue(station, sending.transmit_queue.as_ref());
            }
            continue;
        }
        last = Some(sending.place);
        let port = &run.lab.ports[sending.place];
        let mut station = facts::sending_station(
            port,
            run.open.engines[sending.place],
            &sending.mode,
            &run.lab.machine,
        );
        station.wait = Some(facts::wait_name(run.plan.wait).to_owned());
        station.cpus = cpu.into_iter().collect();
        station.transmit_queues = port.transmit_queues();
        station.card = cards.of(sending.place);
        facts::sender(&mut station, &sending.state, &sending.seat);
        facts::transmit_queue(&mut station, sending.transmit_queue.as_ref());
        let cores = run.open.sending.iter().skip(core);
        let cores = cores.take_while(|other| other.place == sending.place).count();
        let of_cores = interruptions.iter().skip(core).take(cores).flatten();
        station.interruptions = of_cores
            .cloned()
            .reduce(|mut all, more| {
                all.merge(&more);
                all
            })
            .map(|all| model::Interruptions {
                listened_ns: all.listened.get(),
                lengths_ns: Stats::of(&all.lengths),
            });
        let stamps = card_stamps.iter().skip(core).take(cores).flatten();
        let stamps = stamps.cloned().reduce(|mut all, more| {
            all.merge(&more);
            all
        });
        station.hardware_timestamps = timestamps::of_station(port, stamps.as_ref());
        stations.push(station);
    }
    stations
}
