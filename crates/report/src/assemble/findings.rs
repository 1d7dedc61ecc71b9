//! What limited a run, or makes its numbers less certain: each in one sentence, the gravest first.
//!
//! A finding is about the tester and not about what it tests: lost frames are a result, frames that
//! the tester itself lost are a finding.

use super::cards;
use super::consistency::OWN_TCP;
use crate::human;
use crate::model::{
    CaptureKind, DelayClock, End, Finding, FindingKind, FlowReport, LossBasis, QueueChoice,
    Received, Relation, Report, Sent, Station, Thread, Verdict,
};

/// A sent rate further from the offered than this, in millionths, is worth a finding: 0.01 %.
const RATE_ERROR_PPM: f64 = 100.0;

/// Of the median delay: what clocks are uncertain by below this share of it does not show, because histograms are exact to
/// 1 %.
const UNCERTAIN: f64 = 0.01;

/// Everything to be said about `report`, of whose receivers so many frames came in at the interfaces where that is known,
/// and about the `machine`.
pub fn findings(report: &Report, at_interfaces: Option<u64>, machine: Vec<String>) -> Vec<Finding> {
    let checks = [
        (FindingKind::CountersInconsistent, checks(report)),
        (FindingKind::Unfinished, unfinished(report)),
        (FindingKind::NothingReceived, nothing_received(report, at_interfaces)),
        (FindingKind::LinkDown, link_down(report)),
        (FindingKind::FramesFailed, failed(report)),
        (FindingKind::FramesExpired, expired(report)),
        (FindingKind::FramesNotReached, not_reached(report)),
        (FindingKind::FramesLeftLate, left_late(report)),
        (FindingKind::OrderNotKept, order_not_kept(report)),
        (FindingKind::SenderMoved, sender_moved(report)),
        (FindingKind::CardDroppedIn, cards::dropped_in(report)),
        (FindingKind::CardDroppedOut, cards::dropped_out(report)),
        (FindingKind::SenderPaused, cards::paused(report)),
        (FindingKind::CardChanged, cards::changed(report)),
        (FindingKind::ReceiverDrops, receiver_drops(report)),
        (FindingKind::ReaderBehind, reader_behind(report)),
        (FindingKind::RecordsLeftOut, left_out(report)),
        (FindingKind::TimesHeldBack, held_back(report)),
        (FindingKind::CaptureIncomplete, capture_incomplete(report)),
        (FindingKind::RateMissed, rate_missed(report)),
        (FindingKind::DeparturesLate, departures_late(report)),
        (FindingKind::ClockUncertain, clock(report)),
        (FindingKind::NotStamped, not_stamped(report)),
        (FindingKind::SequenceDoubtful, sequence(report)),
        (FindingKind::FlowNumberShared, number_shared(report)),
        (FindingKind::NotMeasured, not_measured(report)),
        (FindingKind::LossEstimated, loss_estimated(report)),
        (FindingKind::StrangeProbes, strange(report)),
    ];
    let machine = machine.into_iter().map(|note| (FindingKind::Machine, Some(note)));
    checks
        .into_iter()
        .chain(machine)
        .filter_map(|(kind, message)| Some(Finding { kind, message: message? }))
        .collect()
}

fn checks(report: &Report) -> Option<String> {
    let wrong = report.consistency_checks.iter().filter(|equation| !equation.balances());
    let mut scopes: Vec<&str> = wrong.map(|equation| equation.scope.as_str()).collect();
    scopes.dedup();
    (report.verdict == Verdict::CountersInconsistent).then(|| {
        let all = |begin: &str| scopes.iter().all(|scope| scope.starts_with(begin));
        let counted = match () {
            () if all("sessions ") => "sessions or bytes",
            () if all(OWN_TCP) => "segments",
            () if scopes.iter().any(|scope| scope.starts_with(OWN_TCP)) => "frames, sessions, bytes or segments",
            () => "frames",
        };
        format!(
            "the counters are inconsistent ({}): {counted} were counted twice, not at all, or came from elsewhere",
            listed(&scopes)
        )
    })
}

fn unfinished(report: &Report) -> Option<String> {
    let finished = matches!(report.end, End::Completed | End::Stopped { .. });
    (!finished).then(|| human::end(&report.end))
}

fn nothing_received(report: &Report, at_interfaces: Option<u64>) -> Option<String> {
    if report.flows.is_empty() && !report.sessions.is_empty() {
        return None;
    }
    let received = match &report.total.received {
        Some(received) => received.received.frames,
        // a receiver by itself learns of flows when they arrive
        None if report.total.sent.is_none() && !report.receivers.is_empty() => 0,
        None => return None,
    };
    // who keeps frames of any kind need not expect a flow
    let kept = report.total.sent.is_none() && report.captures.iter().any(|kept| kept.frames > 0);
    if kept {
        return None;
    }
    // of flows that could have been recognised
    let sent = report.total.sent.is_none() || report.total.loss.is_some_and(|loss| loss.frames > 0);
    (sent && received == 0).then(|| {
        let others = report.others.clone().unwrap_or_default();
        let hint = match at_interfaces {
            _ if !others.is_empty() => {
                "what reached the receiver belongs to no flow of this run; check the filter and the ports, and what \
                 rewrites headers on the way; 'wirebeat capture' shows it"
                    .to_owned()
            }
            Some(0) => "no frame at all reached the receiver; check the link, the addresses and the interface".to_owned(),
            Some(some) => format!(
                "{} came in at the receiver's interface, and the receiver recognised none; check the filter, the \
                 addresses and the ports",
                frames(some)
            ),
            None => "the receiver recognised no frame; check the link, the addresses and the interface".to_owned(),
        };
        format!("nothing was received: {hint}")
    })
}

fn failed(report: &Report) -> Option<String> {
    let failed = report.total.sent.as_ref()?.failed;
    (failed > 0)
        .then(|| format!("{} failed: the device or the system refused them", frames(failed)))
}

fn expired(report: &Report) -> Option<String> {
    let sent = report.total.sent.as_ref()?;
    (sent.expired > 0).then(|| {
        format!(
            "the sender was late: {} expired ({} of those requested) and were dropped{}",
            frames(sent.expired),
            share(sent.expired, sent),
            interrupted(report)
        )
    })
}

fn not_reached(report: &Report) -> Option<String> {
    let sent = report.total.sent.as_ref()?;
    (sent.not_reached > 0).then(|| {
        format!(
            "the sender was too slow: the run ended before it reached {}{} ({} of those requested){}",
            sent.at_least(),
            frames(sent.not_reached),
            share(sent.not_reached, sent),
            interrupted(report)
        )
    })
}

/// What was lost meanwhile was not lost by what is tested, or not as it usually does.
fn link_down(report: &Report) -> Option<String> {
    let longest = report.outages.iter().max_by_key(|outage| outage.lasted_ns)?;
    let time = |ns: u64| human::time(ns as f64);
    let others = match report.outages.len() {
        1 => String::new(),
        count => format!(", the longest of {count} times that a link was down"),
    };
    Some(format!(
        "the link of {} was down for {} from {} on{others}: frames that were on their way then count as lost or failed",
        longest.interface,
        time(longest.lasted_ns),
        time(longest.at_ns)
    ))
}

/// Of a sender that drops what is late, nothing should leave late.
fn left_late(report: &Report) -> Option<String> {
    let late = |sent: &&Sent| sent.drops_late && sent.late > 0;
    let all: Vec<&Sent> =
        report.flows.iter().filter_map(|flow| flow.sent.as_ref()).filter(late).collect();
    let drift = all.iter().map(|sent| sent.late_after_ns).max()?;
    let late = all.iter().fold(0, |sum: u64, sent| sum.saturating_add(sent.late));
    Some(format!(
        "{} left more than {} late though late ones are dropped: the device had no room for them in time",
        frames(late),
        human::time(drift as f64)
    ))
}

/// What reordering a receiver sees of such a flow may be the sender's.
fn order_not_kept(report: &Report) -> Option<String> {
    let queues = |flow: &FlowReport| {
        let queues = flow.sent.as_ref()?.queues;
        (queues > 1).then(|| f64::from(queues))
    };
    let ((worst, queues), others) = worst(flows(report, queues))?;
    Some(format!(
        "the order of frames is not kept: {} was spread over {queues} transmit queues, which overtake each other{}",
        worst.name,
        and_others(others),
    ))
}

/// Where the transmit queue follows from the CPU, the first frames from another CPU may overtake the last ones before.
fn sender_moved(report: &Report) -> Option<String> {
    let moved = |station: &Station| {
        let queues = station.transmit_queues.filter(|&queues| queues > 1)?;
        let by_cpu = |thread: &&Thread| {
            thread.transmit_queue.as_ref().is_none_or(|queue| queue.by != QueueChoice::Sender)
        };
        let threads = station.threads.iter().filter(by_cpu);
        let cpus: Vec<u32> = threads.filter_map(|thread| thread.moved_from).collect();
        let interface = station.interface.clone().unwrap_or_else(|| "the interface".to_owned());
        (!cpus.is_empty()).then_some((interface, queues, cpus))
    };
    let all: Vec<_> = report.senders.iter().filter_map(moved).collect();
    let (interface, queues, cpus) = all.first()?;
    let cpu = cpus.iter().map(|cpu| format!("CPU {cpu}")).collect::<Vec<_>>();
    let (threads, were, them) = match cpus[..] {
        [_] => ("its sending thread", "was", "it"),
        _ => ("its sending threads", "were", "them"),
    };
    let others = match all.len() - 1 {
        0 => String::new(),
        more => format!("; the same is true of {}", human::counted(more as u64, "other port")),
    };
    Some(format!(
        "flows from {interface} may have been reordered by the sender: {threads} {were} moved from {}, which others kept \
         from {them}, and {interface} has {queues} transmit queues, which overtake each other; name a CPU with --cpu (in a \
         scenario 'cores') to keep it{others}",
        listed(&cpu.iter().map(String::as_str).collect::<Vec<_>>()),
    ))
}

/// Which share of the frames requested a number is.
fn share(frames: u64, sent: &Sent) -> String {
    human::percent(frames as f64 / sent.requested.frames.max(1) as f64)
}

/// How the CPUs of the senders were taken from them, behind what came of it.
fn interrupted(report: &Report) -> String {
    let all = report.senders.iter().filter_map(|station| station.interruptions.as_ref());
    let longest = all.filter_map(|of| of.lengths_ns.max).max();
    longest.map_or_else(String::new, |longest| {
        format!("; its CPU was taken from it for up to {} at a time", human::time(longest as f64))
    })
}

fn receiver_drops(report: &Report) -> Option<String> {
    let drops = report.others.as_ref()?.receiver_drops;
    (drops > 0).then(|| {
        format!(
            "the tester's own receiver dropped {}, which {} as lost though the network brought {}",
            frames(drops),
            if drops == 1 { "counts" } else { "count" },
            if drops == 1 { "it" } else { "them" },
        )
    })
}

/// The measurements are of all frames; who looks for one in the file has to know that it may not be there.
fn capture_incomplete(report: &Report) -> Option<String> {
    let first =
        report.captures.iter().find(|capture| capture.lost > 0 || capture.error.is_some())?;
    let what = match first.kind {
        CaptureKind::Frames => "capture",
        CaptureKind::PacketLog => "packet log",
    };
    let of = first.port.as_ref().map_or_else(String::new, |port| format!(" of port '{port}'"));
    Some(match &first.error {
        Some(error) => {
            let lost = match first.lost {
                0 => String::new(),
                lost => format!("; {} lost for it", human::counted(lost, "frame")),
            };
            format!(
                "the {what}{of} ended after {}: {error}{lost}; the measurements are of all frames",
                frames(first.frames)
            )
        }
        None => format!(
            "the {what}{of} lacks {} that {} measured: they came faster than the writer or the disk took them; choose with a \
             filter, keep fewer bytes of each, or write to memory (/dev/shm)",
            frames(first.lost),
            if first.lost == 1 { "was" } else { "were" },
        ),
    })
}

fn reader_behind(report: &Report) -> Option<String> {
    let starved: u64 = report.replays.iter().map(|replay| replay.starved).sum();
    (starved > 0).then(|| {
        format!(
            "reading could not keep up: {} came from the reader when they were due already; what is late of them is \
             not late for the network's sake",
            human::counted(starved, "record")
        )
    })
}

fn left_out(report: &Report) -> Option<String> {
    let all: Vec<_> = report.replays.iter().flat_map(|replay| &replay.left_out).collect();
    let first = all.first()?;
    let kinds: Vec<String> =
        all.iter().map(|one| format!("{} {}", human::count(one.count), one.kind)).collect();
    let (count, kinds) = (human::left_out(all.iter().copied()), kinds.join(", "));
    Some(format!("{count} left out ({kinds}); the first is {}", first.first))
}

fn held_back(report: &Report) -> Option<String> {
    let all = || report.replays.iter().filter_map(|replay| replay.held_back.as_ref());
    let first = all().find(|held| held.frames > 0)?;
    let frames: u64 = all().map(|held| held.frames).sum();
    let most = all().map(|held| held.most_ns).max().unwrap_or(0);
    Some(format!(
        "{} a time before that of the frame before, by up to {}, and left right behind that one; --reorder-window with \
         that much puts frames in the order of their times; the first is {}",
        human::counted(frames, "frame") + if frames == 1 { " has" } else { " have" },
        human::time(most as f64),
        first.first
    ))
}

/// The flow whose rate is furthest off, and how many others are off.
fn rate_missed(report: &Report) -> Option<String> {
    let missed = |sent: &Sent| {
        let ppm = sent.rate_error_ppm?.abs();
        // Less than a frame off is only how the first and the last frame fell.
        let frames = ppm / 1e6 * sent.sent.frames as f64;
        (ppm > RATE_ERROR_PPM && frames >= 1.0).then_some(ppm)
    };
    let off = flows(report, |flow| missed(flow.sent.as_ref()?));
    let ((worst, _), others) = worst(off)?;
    let sent = worst.sent.as_ref()?;
    let error = sent.rate_error_ppm?;
    let verb = if error < 0.0 { "fell behind" } else { "was too fast" };
    let (left, asked) = (sent.rates?.frames_per_second, sent.offered?.frames_per_second);
    Some(format!(
        "the transmitter {verb}: {} sent {} of {} asked ({}){}",
        worst.name,
        human::fine_frame_rate_beside(left, asked),
        human::fine_frame_rate(asked),
        human::deviation(error),
        and_others(others),
    ))
}

/// Flows of which one frame in a hundred left when the next one was due, or later.
fn departures_late(report: &Report) -> Option<String> {
    let late = |flow: &FlowReport| {
        let sent = flow.sent.as_ref()?;
        let gap = 1e9 / sent.offered?.frames_per_second;
        let p99 = sent.send_lateness_ns.percentiles.p99? as f64;
        (gap.is_finite() && p99 > gap).then_some(p99 / gap)
    };
    let ((worst, _), others) = worst(flows(report, late))?;
    let sent = worst.sent.as_ref()?;
    Some(format!(
        "sender late: p99 {} at a packet gap of {} ({}{}); treat delay results with care",
        human::time(sent.send_lateness_ns.percentiles.p99? as f64),
        human::time(1e9 / sent.offered?.frames_per_second),
        worst.name,
        and_others(others),
    ))
}

fn clock(report: &Report) -> Option<String> {
    let DelayClock { relation, uncertainty_ns, explanation } = report.delay_clock.as_ref()?;
    // frames without probes say nothing of delays
    let received = report.total.received.as_ref()?;
    let measured = received.unique > 0;
    let median = received.one_way_delay_ns.as_ref().and_then(|delay| delay.percentiles.p50);
    let shows = |bound: u64| {
        median.is_none_or(|median| bound as f64 > median.unsigned_abs() as f64 * UNCERTAIN)
    };
    match relation {
        Relation::Bounded if measured => {
            let bound = (*uncertainty_ns).filter(|&bound| shows(bound))?;
            let told = human::time(bound as f64);
            Some(format!("one-way delays are uncertain by {told} ({explanation})"))
        }
        Relation::Unbounded if measured => {
            Some(format!("one-way delays are not known: {explanation}; delay variations are"))
        }
        _ => None,
    }
}

/// What was to be measured by the cards' clocks, and is not.
fn not_stamped(report: &Report) -> Option<String> {
    let stamps = |station: &Station| {
        let interface = station.interface.clone().unwrap_or_else(|| "the interface".to_owned());
        station.hardware_timestamps.clone().map(|stamps| (interface, stamps))
    };
    let received = report.receivers.iter().filter_map(stamps).find_map(|(interface, stamps)| {
        let all = stamps.received.saturating_add(stamps.received_unstamped);
        let why = match stamps.receive.as_deref() {
            Some(some) if some.ends_with("only") => format!(" (it stamps {some})"),
            _ => String::new(),
        };
        (stamps.received_unstamped > 0).then(|| {
            format!(
                "the card of {interface} did not stamp {} of the {} that it received{why}: they are counted, and are in no \
                 delay and in no time between arrivals",
                human::count(stamps.received_unstamped),
                frames(all)
            )
        })
    });
    let sent = || {
        report.senders.iter().filter_map(stamps).find_map(|(interface, stamps)| {
            (stamps.sent_asked > 0 && stamps.sent == 0).then(|| {
                format!(
                    "the card of {interface} stamped none of the {} whose stamps were asked for: when they left is known by \
                     their hand-over alone",
                    frames(stamps.sent_asked)
                )
            })
        })
    };
    received.or_else(sent)
}

fn sequence(report: &Report) -> Option<String> {
    let Received { implausible, restarts, beyond_window, .. } = report.total.received.as_ref()?;
    let late = format!("too late to tell new from duplicate{}", hidden_by_the_window(report));
    let parts = [
        (*implausible, "arrival", "with a number that cannot be right"),
        (*restarts, "restart", "of a sender within the run"),
        (*beyond_window, "arrival", &late),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(value, ..)| *value > 0)
        .map(|(value, thing, what)| format!("{} {what}", human::counted(value, thing)))
        .collect();
    (!said.is_empty()).then(|| format!("sequence numbers are doubtful: {}", said.join(", ")))
}

/// What arrivals beyond the window make of the loss, where it is known otherwise.
fn hidden_by_the_window(report: &Report) -> String {
    let bound = |flow: &FlowReport| Some((flow.loss?.frames, flow.loss?.at_most?));
    let doubtful = |flow: &&FlowReport| bound(flow).is_some_and(|(least, most)| least < most);
    let flows: Vec<&FlowReport> = report.flows.iter().filter(doubtful).collect();
    let sum = |of: fn((u64, u64)) -> u64| {
        flows.iter().filter_map(|flow| bound(flow)).map(of).fold(0, u64::saturating_add)
    };
    let window = |flow: &&FlowReport| flow.received.as_ref().map(|received| received.window_frames);
    let Some(window) = flows.iter().filter_map(window).min() else { return String::new() };
    format!(
        ", behind a window of {} numbers: of {} between {} and {} were lost",
        human::count(window),
        match flows[..] {
            [one] => one.name.clone(),
            _ => human::counted(flows.len() as u64, "flow"),
        },
        human::count(sum(|(least, _)| least)),
        frames(sum(|(_, most)| most)),
    )
}

/// Flows of which half of the duplicates or more are no copies: several senders have one number.
fn number_shared(report: &Report) -> Option<String> {
    let shared = |flow: &FlowReport| {
        let Received { conflicting, duplicates, .. } = *flow.received.as_ref()?;
        let most = conflicting > 0 && conflicting >= duplicates.saturating_sub(conflicting);
        most.then_some(conflicting as f64)
    };
    let ((worst, _), others) = worst(flows(report, shared))?;
    let Received { conflicting, duplicates, .. } = *worst.received.as_ref()?;
    Some(format!(
        "two senders or more use the flow number of {}, or its sender was started twice: {} of its {} were sent after \
         higher numbers had been, so they are no copies; its loss, duplicates and delays are of all of them together. \
         Measure one of them (--source, --source-port){}",
        worst.name,
        human::count(conflicting),
        human::counted(duplicates, "duplicate"),
        and_others(others),
    ))
}

fn loss_estimated(report: &Report) -> Option<String> {
    match report.total.loss?.basis {
        LossBasis::SentLessUnique => None,
        LossBasis::MissingNumbers => Some(
            "loss is counted from missing numbers: frames lost before the first and after the last \
             arrival are not known"
                .to_owned(),
        ),
        LossBasis::SentLessReceived | LossBasis::Mixed => Some(format!(
            "flows without probes were counted and not numbered: duplicates and other traffic with the same headers \
             hide losses there{}",
            more_than_sent(report)
        )),
    }
}

/// A flow of which more came than was sent: what is not its own is among it.
fn more_than_sent(report: &Report) -> String {
    let more = |flow: &FlowReport| {
        let known = flow.loss.filter(|loss| loss.basis == LossBasis::SentLessReceived)?;
        let (sent, received) = (flow.sent.as_ref()?, flow.received.as_ref()?);
        let more = received.received.frames.checked_sub(sent.sent.frames)?;
        (known.frames == 0 && more > 0).then_some(more as f64)
    };
    match worst(flows(report, more)) {
        Some(((flow, more), others)) => {
            let more = frames(more as u64);
            format!("; of {} came {more} more than were sent{}", flow.name, and_others(others))
        }
        None => String::new(),
    }
}

/// Flows whose receiver could not tell their frames from others, by reason.
fn not_measured(report: &Report) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for flow in &report.flows {
        let Some(why) = flow.not_measured.as_deref() else { continue };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(&flow.name),
            None => reasons.push((why, vec![&flow.name])),
        }
    }
    let said: Vec<String> =
        reasons.iter().map(|(why, names)| format!("{} ({why})", listed(names))).collect();
    (!said.is_empty()).then(|| format!("not measured at the receiver: {}", said.join("; ")))
}

fn strange(report: &Report) -> Option<String> {
    let others = report.others.as_ref()?;
    let parts = [(others.unknown_flow, "unknown flows"), (others.stale, "earlier runs")];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(value, _)| *value > 0)
        .map(|(value, whose)| format!("{} of {whose}", frames(value)))
        .collect();
    (!said.is_empty())
        .then(|| format!("probes arrived that are not of this run: {}", said.join(", ")))
}

/// The flows for which `measure` finds something, with what it found.
fn flows(report: &Report, measure: impl Fn(&FlowReport) -> Option<f64>) -> Vec<(&FlowReport, f64)> {
    report.flows.iter().filter_map(|flow| Some((flow, measure(flow)?))).collect()
}

/// The one with the largest measure, and how many others there are.
fn worst(flows: Vec<(&FlowReport, f64)>) -> Option<((&FlowReport, f64), usize)> {
    let others = flows.len().checked_sub(1)?;
    flows.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|worst| (worst, others))
}

fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        _ => format!(
            "; so {} {}",
            if others == 1 { "is" } else { "are" },
            human::counted(others as u64, "other flow")
        ),
    }
}

pub(super) fn frames(count: u64) -> String {
    human::counted(count, "frame")
}

/// At most three names.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [first, second, third, _, ..] => {
            format!("{first}, {second}, {third} and {} more", names.len() - 3)
        }
        _ => names.join(", "),
    }
}
