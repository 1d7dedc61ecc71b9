//! Brings the two sides of each flow together.
//!
//! How frames of a flow are recognised at its receiver is its [`Attribution`]: by the number in their probes, by
//! headers that are this flow's alone, or not at all. A flow that is not recognised has no received side and no loss.

use std::borrow::Cow;
use std::collections::BTreeSet;

use wirebeat_meter::departures::Departures;
use wirebeat_meter::summary::{Distribution, FlowSummary, SharedHistograms};
use wirebeat_units::Nanos;

use super::{Attribution, ReceiverSide, SenderSide, SentFlow, rates};
use crate::model::{
    Bins, FlowReport, Loss, LossBasis, Members, Others, Rates, Received, Sent, Stats, Volume, round,
};

/// Name of what arrived without a probe.
const UNPROBED: &str = "(no probe)";

/// The two sides of a flow.
pub struct Pair<'a> {
    pub name: String,
    pub id: Option<u16>,
    pub sent: Option<&'a SentFlow>,
    pub received: Option<Cow<'a, FlowSummary>>,
    pub members: Vec<Pair<'a>>,
}

/// Pairs the flows of both sides: the sender's in its order, or the receiver's if it is alone.
pub fn pair<'a>(
    sender: Option<&'a SenderSide>,
    receiver: Option<&'a ReceiverSide>,
) -> Vec<Pair<'a>> {
    match (sender, receiver) {
        (Some(sender), receiver) => sent_pairs(&sender.flows, receiver),
        (None, Some(receiver)) => received_pairs(receiver),
        (None, None) => Vec::new(),
    }
}

fn sent_pairs<'a>(flows: &'a [SentFlow], receiver: Option<&'a ReceiverSide>) -> Vec<Pair<'a>> {
    let shared = receiver.map(|receiver| &receiver.summary.shared);
    let find = |flow: &SentFlow| {
        let summary = &receiver?.summary;
        let of = |id: &u16| summary.flows.get(id).map(Cow::Borrowed).unwrap_or_default();
        match &flow.attribution {
            Attribution::Probe => flow.id.as_ref().map(of),
            Attribution::Headers(number) => Some(of(number)),
            Attribution::Unprobed => Some(Cow::Borrowed(&summary.unprobed)),
            Attribution::NoReceiver | Attribution::NotMeasured(_) => None,
        }
    };
    let pair = |flow: &'a SentFlow| {
        let member = |member: &'a SentFlow| Pair::sent(member, find(member), Vec::new());
        let members = flow.members.iter().flat_map(|(_, members)| members).map(member);
        let members: Vec<Pair<'a>> = members.collect();
        let received = find(flow).map(|own| with_members(own, &members, shared));
        Pair::sent(flow, received, members)
    };
    flows.iter().map(pair).collect()
}

/// What was received of a flow: what is its own and what is its members'.
fn with_members<'a>(
    own: Cow<'a, FlowSummary>,
    members: &[Pair<'_>],
    shared: Option<&SharedHistograms>,
) -> Cow<'a, FlowSummary> {
    if members.is_empty() {
        return own;
    }
    let theirs = members.iter().filter_map(|member| member.received.as_deref());
    let mut all = own.into_owned();
    theirs.for_each(|member| add_flow(&mut all, member));
    if let Some(shared) = shared {
        shared.complete(&mut all);
    }
    Cow::Owned(all)
}

/// Adds another flow. Each was measured within its own queues.
fn add_flow(all: &mut FlowSummary, other: &FlowSummary) {
    let queues = all.queues.max(other.queues);
    all.merge(other);
    all.queues = queues;
}

fn received_pairs(receiver: &ReceiverSide) -> Vec<Pair<'_>> {
    let flows = &receiver.summary.flows;
    let mut pairs: Vec<_> = flows
        .iter()
        .map(|(&id, flow)| Pair {
            name: format!("flow {id}"),
            id: Some(id),
            sent: None,
            received: Some(Cow::Borrowed(flow)),
            members: Vec::new(),
        })
        .collect();
    if receiver.summary.unprobed.frames > 0 {
        pairs.push(without_probe(receiver));
    }
    pairs
}

fn without_probe(receiver: &ReceiverSide) -> Pair<'_> {
    Pair {
        name: UNPROBED.to_owned(),
        id: None,
        sent: None,
        received: Some(Cow::Borrowed(&receiver.summary.unprobed)),
        members: Vec::new(),
    }
}

/// Frames that the receiver counted for none of `pairs`.
pub fn others(pairs: &[Pair<'_>], receiver: &ReceiverSide) -> Others {
    let summary = &receiver.summary;
    let paired_unprobed = pairs.iter().any(|pair| match pair.sent {
        Some(sent) => sent.attribution == Attribution::Unprobed,
        None => pair.id.is_none(),
    });
    let members = pairs.iter().flat_map(|pair| &pair.members);
    let paired = pairs.iter().chain(members).filter_map(|pair| match pair.sent?.attribution {
        Attribution::Headers(number) => Some(number),
        _ => pair.id,
    });
    let alone = pairs.iter().filter(|pair| pair.sent.is_none()).filter_map(|pair| pair.id);
    let paired: BTreeSet<u16> = paired.chain(alone).collect();
    let unpaired = summary
        .flows
        .iter()
        .filter(|(id, _)| !paired.contains(id))
        .fold(0, |sum: u64, (_, flow)| sum.saturating_add(flow.frames));
    Others {
        unprobed: if paired_unprobed { 0 } else { summary.unprobed.frames },
        unknown_flow: summary.unknown_flow.saturating_add(unpaired),
        stale: summary.stale,
        foreign: summary.foreign,
        malformed: summary.malformed,
        fragments: summary.fragments,
        receiver_drops: summary.receiver_drops,
    }
}

impl<'a> Pair<'a> {
    fn sent(
        flow: &'a SentFlow,
        received: Option<Cow<'a, FlowSummary>>,
        members: Vec<Pair<'a>>,
    ) -> Pair<'a> {
        let received = match (flow.id, received) {
            (Some(_), Some(received)) => Some(told_apart(received, flow.sent.frames)),
            (_, received) => received,
        };
        Pair { name: flow.name.clone(), id: flow.id, sent: Some(flow), received, members }
    }

    /// Whether its frames carry probes.
    pub fn probed(&self) -> bool {
        self.id.is_some()
    }

    /// Frames that leave back to back.
    fn burst(&self) -> u32 {
        self.sent.map_or(1, |sent| sent.burst)
    }

    /// What the report says of this flow.
    pub fn report(&self, uncertainty: Option<u64>) -> FlowReport {
        let received = self.received.as_deref().map(|flow| {
            let intervals = rates::intervals(flow.frames, self.burst());
            let sent_ns = self.sent.and_then(span_ns).unwrap_or(0);
            received(flow, intervals as f64, sent_ns, uncertainty)
        });
        FlowReport {
            name: self.name.clone(),
            id: self.id,
            sizes: self.sent.and_then(|sent| sent.sizes),
            sent: self.sent.map(sent),
            received,
            loss: self.loss().map(|loss| loss.report()),
            not_measured: self.not_measured(),
            sub_flow: self.sent.and_then(|sent| sent.sub_flow),
            expectations: Vec::new(),
            members: self.members(uncertainty),
        }
    }

    /// Why its receiver could not measure it.
    fn not_measured(&self) -> Option<String> {
        match &self.sent?.attribution {
            Attribution::NotMeasured(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// What the report says of its members, each by itself.
    fn members(&self, uncertainty: Option<u64>) -> Option<Members> {
        let (are, _) = self.sent?.members.as_ref()?;
        let flow = |member: &Pair<'_>| member.report(uncertainty).without_histograms();
        Some(Members { are: *are, flows: self.members.iter().map(flow).collect() })
    }

    /// What is missing.
    fn loss(&self) -> Option<Counted> {
        let received = self.received.as_deref()?;
        let (of, arrived, basis) = match self.sent {
            Some(sent) if self.probed() => {
                (sent.sent.frames, received.sequence.unique, LossBasis::SentLessUnique)
            }
            Some(sent) => (sent.sent.frames, received.frames, LossBasis::SentLessReceived),
            None if self.probed() => {
                let sequence = &received.sequence;
                (sequence.expected(), sequence.unique, LossBasis::MissingNumbers)
            }
            None => return None,
        };
        let exact = basis == LossBasis::SentLessUnique;
        let certain = arrived.saturating_sub(received.sequence.beyond_window);
        Some(Counted {
            lost: of.saturating_sub(arrived),
            at_most: exact.then(|| of.saturating_sub(certain)),
            of,
            basis,
        })
    }
}

/// A loss and what it is counted of.
struct Counted {
    lost: u64,
    at_most: Option<u64>,
    of: u64,
    basis: LossBasis,
}

impl Counted {
    fn report(&self) -> Loss {
        let ratio = (self.of > 0).then(|| self.lost as f64 / self.of as f64);
        Loss { frames: self.lost, at_most: self.at_most, ratio, basis: self.basis }
    }

    fn add(self, other: Counted) -> Counted {
        Counted {
            lost: self.lost.saturating_add(other.lost),
            at_most: self.at_most.zip(other.at_most).map(|(one, more)| one.saturating_add(more)),
            of: self.of.saturating_add(other.of),
            basis: if self.basis == other.basis { self.basis } else { LossBasis::Mixed },
        }
    }
}

/// Arrivals beyond the receiver's window count as unique; where those are more than were sent, the rest were duplicates.
fn told_apart(mut flow: Cow<'_, FlowSummary>, sent: u64) -> Cow<'_, FlowSummary> {
    let sequence = &flow.sequence;
    let more = sequence.unique.saturating_sub(sent).min(sequence.beyond_window);
    if more > 0 {
        let sequence = &mut flow.to_mut().sequence;
        sequence.unique -= more;
        sequence.beyond_window -= more;
        sequence.reordered = sequence.reordered.saturating_sub(more);
        sequence.duplicates = sequence.duplicates.saturating_add(more);
    }
    flow
}

fn sent(flow: &SentFlow) -> Sent {
    let rates = sent_rates(flow);
    let offered = offered(flow);
    Sent {
        requested: flow.requested,
        sent: flow.sent,
        expired: flow.expired,
        not_reached: flow.not_reached,
        not_reached_at_least: flow.not_reached_at_least,
        failed: flow.failed,
        late: flow.late,
        late_after_ns: flow.late_after.get(),
        drops_late: flow.drops_late,
        queues: flow.queues.max(1),
        offered,
        rates,
        rate_error_ppm: rates
            .filter(|_| flow.steady)
            .and_then(|rates| rates::error_ppm(&rates, offered.as_ref()?)),
        first_departure_ns: flow.departures.map(|(first, _)| first.get()),
        last_departure_ns: flow.departures.map(|(_, last)| last.get()),
        ..left(&flow.left, flow.queues)
    }
}

/// What departures come to. On several transmit cores what lies between two departures of one of them is no gap of the flow.
fn left(departures: &Departures, queues: u32) -> Sent {
    let mut sent = Sent { send_lateness_ns: Stats::of(&departures.lateness), ..Sent::default() };
    if queues <= 1 {
        sent.inter_departure_ns = Stats::of(&departures.gap);
        sent.gap_error_ns = Stats::of(&departures.gap_error());
        sent.signed_gap_error_ns = Stats::signed(&departures.longer, &departures.shorter);
    }
    sent
}

/// The rate that was asked for. Where it changes with time or has pauses, it is that of all frames that were asked for over the
/// time under way, as the sent rate is.
fn offered(flow: &SentFlow) -> Option<Rates> {
    let kind = if flow.sent.frames > 0 { &flow.sent } else { &flow.requested };
    let kind = flow.mean.as_ref().unwrap_or(kind);
    let rate = flow.offered.as_ref()?;
    match flow.under_way.filter(|_| flow.varies && !flow.not_reached_at_least) {
        Some((from, to)) => {
            rates::rates(kind, flow.requested.frames as f64, to.saturating_sub(from).get())
        }
        None => Some(rates::offered(kind, rate)),
    }
}

fn sent_rates(flow: &SentFlow) -> Option<Rates> {
    let span = span_ns(flow)?;
    let under_way = departed(flow).filter(|_| flow.varies && flow.sent.frames > 1);
    if let Some((from, to)) = under_way {
        return rates::rates(&flow.sent, flow.sent.frames as f64, to.saturating_sub(from));
    }
    let intervals = rates::intervals(flow.sent.frames, flow.burst);
    match asked_ns(flow) {
        Some(asked) => rates::rates(&flow.sent, flow.sent.frames as f64, span.max(asked)),
        None => rates::rates(&flow.sent, intervals as f64, span),
    }
}

/// When a flow of a known rate was under way, and longer where its last frame left later.
fn departed(flow: &SentFlow) -> Option<(u64, u64)> {
    let (from, to) = flow.under_way.filter(|_| flow.offered.is_some())?;
    let last = flow.departures.map_or(Nanos::ZERO, |(_, last)| last);
    Some((from.get(), to.max(last).get()))
}

/// The time that a flow's rate is counted over: from its first departure to its last. Where the first was late, and those
/// behind it were less so, it begins when that was due: frames that left after their deadlines are not sent too fast.
fn span_ns(flow: &SentFlow) -> Option<u64> {
    let (first, last) = flow.departures?;
    let span = last.saturating_sub(first).get();
    let rate = flow.offered.filter(|_| flow.steady);
    let intervals = rates::intervals(flow.sent.frames, flow.burst);
    let planned = rate.map(|rate| (intervals as f64 / rate.per_second() * 1e9) as u64);
    let latest = flow.left.lateness.moments.max.max(0).unsigned_abs();
    let explained = |planned: &u64| *planned > span && *planned - span <= latest;
    Some(planned.filter(explained).unwrap_or(span))
}

/// The same of several flows: from the first departure of any to the last.
fn all_span_ns<'a>(sides: impl Iterator<Item = &'a SentFlow>) -> u64 {
    let (mut all, mut longest) = (None::<(Nanos, Nanos)>, 0);
    for flow in sides {
        let Some(own) = flow.departures else { continue };
        all = Some(all.map_or(own, |all| (all.0.min(own.0), all.1.max(own.1))));
        longest = longest.max(span_ns(flow).unwrap_or(0));
    }
    all.map_or(0, |(first, last)| last.saturating_sub(first).get()).max(longest)
}

/// How long the frames of a flow were asked for, where not all of them were sent and the rate is known: some that left
/// close together in that time make no rate by themselves.
fn asked_ns(flow: &SentFlow) -> Option<u64> {
    let rate = flow.offered.filter(|_| flow.sent.frames < flow.requested.frames)?;
    Some((flow.requested.frames as f64 / rate.per_second() * 1e9) as u64)
}

/// What was received, at the rate of `held` frames in its span, or in the time in which they were sent where that is longer: what was lost
/// before the first arrival and after the last did not come faster for it.
fn received(flow: &FlowSummary, held: f64, sent_ns: u64, uncertainty: Option<u64>) -> Received {
    let volume = Volume {
        frames: flow.frames,
        fragments: flow.fragments,
        frame_bytes: flow.frame_bytes,
        payload_bytes: flow.payload_bytes,
    };
    let sequence = &flow.sequence;
    let span_ns = flow.span.map(|(first, last)| last.saturating_sub(first));
    let unique = sequence.unique;
    Received {
        received: volume,
        unique,
        duplicates: sequence.duplicates,
        conflicting: sequence.conflicting,
        reordered: sequence.reordered,
        reordered_ratio: (unique > 0).then(|| sequence.reordered as f64 / unique as f64),
        beyond_window: sequence.beyond_window,
        implausible: sequence.implausible,
        restarts: sequence.restarts,
        ends_repeated: flow.ends_repeated,
        unstamped: flow.untimed,
        window_frames: sequence.window,
        measured_within_queues: (flow.queues > 1).then_some(flow.queues),
        reordering_extent_frames: Stats::of(&sequence.extent),
        rates: span_ns.and_then(|span| rates::rates(&volume, held, span.max(sent_ns))),
        span_ns,
        one_way_delay_ns: uncertainty
            .map(|bound| Stats::raised(&flow.delay, flow.delay_base).certain_from(bound)),
        jitter_rfc4689_ns: Stats::of(&flow.delay_variation),
        jitter_rfc3550_ns: flow.interarrival_jitter.estimate_ns().map(round),
        delay_above_minimum_rfc5481_ns: Stats::of(&flow.delay.above_minimum()),
        inter_arrival_ns: Stats::of(&flow.inter_arrival),
        inter_arrival_bins: flow.inter_arrival_bins.as_ref().map(Bins::from),
        // within a queue the gap to the frame before is not the flow's
        gap_error_ns: if flow.queues > 1 { Stats::default() } else { Stats::of(&flow.gap_error) },
        signed_gap_error_ns: match &flow.gap_early {
            Some(early) if flow.queues <= 1 => Stats::signed(&flow.gap_error.since(early), early),
            _ => Stats::default(),
        },
    }
}

/// All flows together. Distributions are those of the flows, added; a rate is what the rates of the flows make of the time
/// from the first frame of any flow to the last.
pub fn total(
    pairs: &[Pair<'_>],
    flows: &[FlowReport],
    shared_departures: Option<&Departures>,
    shared: Option<&SharedHistograms>,
    uncertainty: Option<u64>,
) -> FlowReport {
    let mut all = FlowSummary::default();
    let mut variation = Distribution::default();
    let spans = pairs.iter().filter_map(|pair| pair.received.as_deref()?.span);
    let span = spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    let mut held = 0.0;
    let sides = pairs.iter().filter(|pair| pair.received.is_some());
    let sent_ns = all_span_ns(sides.filter_map(|pair| pair.sent));
    for (pair, flow) in pairs.iter().filter_map(|pair| Some((pair, pair.received.as_deref()?))) {
        add_flow(&mut all, flow);
        // Each flow has its own smallest delay.
        variation.merge(&flow.delay.above_minimum());
        if let (Some(own), Some(all)) = (flow.span, span) {
            held += rates::share(flow.frames, pair.burst(), own, all);
        }
    }
    if let Some(shared) = shared {
        shared.complete(&mut all);
    }
    let any = pairs.iter().any(|pair| pair.received.is_some());
    let received = any.then(|| Received {
        delay_above_minimum_rfc5481_ns: Stats::of(&variation),
        ..received(&all, held, sent_ns, uncertainty)
    });
    let loss = pairs.iter().filter_map(Pair::loss).reduce(Counted::add);
    FlowReport {
        name: "total".to_owned(),
        id: None,
        sizes: None,
        sent: total_sent(pairs, flows, shared_departures),
        received,
        loss: loss.map(|loss| loss.report()),
        not_measured: None,
        sub_flow: None,
        expectations: Vec::new(),
        members: None,
    }
}

fn total_sent(
    pairs: &[Pair<'_>],
    flows: &[FlowReport],
    shared_departures: Option<&Departures>,
) -> Option<Sent> {
    let sides: Vec<&SentFlow> = pairs.iter().filter_map(|pair| pair.sent).collect();
    let reports = || flows.iter().filter_map(|flow| flow.sent.as_ref());
    let first = reports().filter_map(|sent| sent.first_departure_ns).min();
    let last = reports().filter_map(|sent| sent.last_departure_ns).max();
    let under_way = Together::of(&sides);
    let mut total = Sent {
        first_departure_ns: first,
        last_departure_ns: last,
        offered: match &under_way {
            Some(together) => together.offered(&sides),
            None => rates::sum(reports().map(|sent| sent.offered)),
        },
        rate_error_ppm: mean_error(reports()),
        late_after_ns: reports().map(|sent| sent.late_after_ns).max()?,
        ..Sent::default()
    };
    let mut all_left = Departures::default();
    let all = (first.unwrap_or(0), last.unwrap_or(0));
    let mut held = 0.0;
    for flow in &sides {
        add(&mut total.requested, &flow.requested);
        add(&mut total.sent, &flow.sent);
        total.expired = total.expired.saturating_add(flow.expired);
        total.not_reached = total.not_reached.saturating_add(flow.not_reached);
        total.not_reached_at_least |= flow.not_reached_at_least;
        total.failed = total.failed.saturating_add(flow.failed);
        held += match flow.departures {
            Some((first, last)) if asked_ns(flow).is_none() => {
                rates::share(flow.sent.frames, flow.burst, (first.get(), last.get()), all)
            }
            _ => flow.sent.frames as f64,
        };
        all_left.merge(&flow.left);
    }
    total.late = reports().fold(0, |sum, sent| sum.saturating_add(sent.late));
    let span = all.1.saturating_sub(all.0);
    let longest = sides.iter().filter_map(|flow| span_ns(flow)).max().unwrap_or(0);
    total.queues = sides.iter().map(|flow| flow.queues).max().unwrap_or(0).max(1);
    total.drops_late = sides.iter().any(|flow| flow.drops_late);
    let asked = sides.iter().filter_map(|flow| asked_ns(flow)).max().unwrap_or(0);
    total.rates = match under_way.filter(|_| total.sent.frames > 1) {
        Some(together) => together.sent(&sides),
        None => rates::rates(&total.sent, held, span.max(asked).max(longest)),
    };
    if let Some(shared) = shared_departures {
        all_left.complete(shared);
    }
    let Sent { send_lateness_ns, inter_departure_ns, gap_error_ns, signed_gap_error_ns, .. } =
        left(&all_left, total.queues);
    Some(Sent { send_lateness_ns, inter_departure_ns, gap_error_ns, signed_gap_error_ns, ..total })
}

/// The time in which flows whose rates are known were under way. Both rates of the total are counted over it, each flow's for
/// the part that it was under way: flows that come one after the other are not as fast as if they were sent at one time.
struct Together {
    asked: (u64, u64),
    departed: (u64, u64),
}

impl Together {
    /// `None` where the time or the rate of a flow is not known.
    fn of(sides: &[&SentFlow]) -> Option<Together> {
        let mut all: Option<Together> = None;
        for flow in sides {
            let own = Together { asked: asked(flow)?, departed: departed(flow)? };
            // one that did not come to its start adds no time
            if own.asked.0 >= own.asked.1 {
                continue;
            }
            let wider = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
            all = Some(match all {
                Some(all) => Together {
                    asked: wider(all.asked, own.asked),
                    departed: wider(all.departed, own.departed),
                },
                None => own,
            });
        }
        all
    }

    fn offered(&self, sides: &[&SentFlow]) -> Option<Rates> {
        rates::weighted(sides.iter().filter_map(|flow| {
            Some((offered(flow)?, rates::part(asked(flow)?, self.asked, gap_ns(flow))))
        }))
    }

    fn sent(&self, sides: &[&SentFlow]) -> Option<Rates> {
        let span = self.departed.1.saturating_sub(self.departed.0);
        rates::weighted(sides.iter().filter_map(|flow| {
            let Some(rates) = sent_rates(flow) else {
                // a single frame
                let rates = rates::rates(&flow.sent, flow.sent.frames as f64, span)?;
                return Some((rates, 1.0));
            };
            Some((rates, rates::part(departed(flow)?, self.departed, gap_ns(flow))))
        }))
    }
}

/// When a flow of a known rate was to be under way.
fn asked(flow: &SentFlow) -> Option<(u64, u64)> {
    let (from, to) = flow.under_way.filter(|_| flow.offered.is_some())?;
    Some((from.get(), to.get()))
}

/// The time between two bursts on average.
fn gap_ns(flow: &SentFlow) -> f64 {
    let rate = flow.offered.map_or(0.0, |rate| rate.per_second());
    if rate > 0.0 { 1e9 * f64::from(flow.burst.max(1)) / rate } else { 0.0 }
}

/// The mean of the flows' errors, weighted by their frames.
fn mean_error<'a>(flows: impl Iterator<Item = &'a Sent>) -> Option<f64> {
    let (mut errors, mut frames) = (0.0, 0.0);
    for flow in flows {
        let Some(error) = flow.rate_error_ppm else { continue };
        errors += error * flow.sent.frames as f64;
        frames += flow.sent.frames as f64;
    }
    (frames > 0.0).then(|| round(errors / frames))
}

fn add(total: &mut Volume, more: &Volume) {
    total.frames = total.frames.saturating_add(more.frames);
    total.fragments = total.fragments.saturating_add(more.fragments);
    total.frame_bytes = total.frame_bytes.saturating_add(more.frame_bytes);
    total.payload_bytes = total.payload_bytes.saturating_add(more.payload_bytes);
}
