use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use wirebeat_meter::departures::{DepartureRecorder, Departures};
use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::summary::{
    Distribution, FlowSummary, Moments, SequenceSummary, SharedHistograms,
};

use super::*;
use crate::format::{Presentable, Rendering};
use crate::model::{Equation, Finding, FindingKind, FlowReport, LossBasis, Station, Thread};

pub(super) fn facts() -> RunFacts {
    RunFacts {
        wirebeat_version: "0.1.0".to_owned(),
        command_line: vec!["wirebeat".to_owned()],
        seed: None,
        scenario: None,
        started: UNIX_EPOCH,
        duration: Nanos::from_secs(1),
        end: End::Completed,
        clocks: Clocks::Same,
        costs: Vec::new(),
        machine: Vec::new(),
        changes: Vec::new(),
        outages: Vec::new(),
        replays: Vec::new(),
        captures: Vec::new(),
        sessions: Vec::new(),
        stacks: Vec::new(),
    }
}

fn volume(frames: u64) -> Volume {
    Volume { frames, fragments: 0, frame_bytes: frames * 64, payload_bytes: frames * 18 }
}

/// A flow of which all frames were sent, one each millisecond.
fn sent(id: Option<u16>, frames: u64) -> SentFlow {
    SentFlow {
        name: id.map_or_else(|| "plain".to_owned(), |id| format!("flow {id}")),
        id,
        attribution: if id.is_some() { Attribution::Probe } else { Attribution::Unprobed },
        offered: Some(FrameRate { frames: 1000, per: Nanos::from_secs(1) }),
        steady: true,
        burst: 1,
        requested: volume(frames),
        sent: volume(frames),
        departures: Some((Nanos::ZERO, Nanos::from_millis(frames.saturating_sub(1)))),
        ..SentFlow::default()
    }
}

fn sender(flows: Vec<SentFlow>) -> Option<SenderSide> {
    Some(SenderSide { stations: Vec::new(), shared_departures: Departures::default(), flows })
}

/// A flow of which `unique` frames arrived and `duplicates` again.
fn arrived(unique: u64, duplicates: u64) -> FlowSummary {
    let frames = unique + duplicates;
    FlowSummary {
        frames,
        frame_bytes: frames * 64,
        payload_bytes: frames * 18,
        span: (frames > 0).then_some((0, frames * 1_000_000)),
        sequence: SequenceSummary { unique, duplicates, ..SequenceSummary::default() },
        ..FlowSummary::default()
    }
}

fn receiver(flows: impl IntoIterator<Item = (u16, FlowSummary)>) -> ReceiverSide {
    let summary = MeterSummary { flows: BTreeMap::from_iter(flows), ..MeterSummary::default() };
    ReceiverSide { stations: Vec::new(), summary, delivered: None, at_interfaces: None }
}

pub(super) fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn loss_is_what_was_sent_less_what_arrived_for_the_first_time() {
    let arrivals = receiver([(1, arrived(90, 5)), (2, arrived(50, 0))]);
    let report =
        assemble(facts(), sender(vec![sent(Some(1), 100), sent(Some(2), 50)]), Some(arrivals));
    let loss = report.flows[0].loss.unwrap();
    assert_eq!((loss.frames, loss.ratio), (10, Some(0.1)));
    let total = report.total.loss.unwrap();
    assert_eq!((total.frames, total.basis), (10, LossBasis::SentLessUnique));
    assert_eq!(total.ratio, Some(10.0 / 150.0));
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
    assert!(report.consistency_checks.iter().all(|equation| equation.balances()));
}

/// "PASS rate.received >= 1990pps" behind a device that had died after a third of the run: what was lost behind the last arrival was in no rate.
#[test]
fn what_was_lost_at_the_ends_is_in_the_received_rate() {
    let arrivals = receiver([(1, arrived(301, 0)), (2, arrived(1001, 0))]);
    let flows = vec![sent(Some(1), 1001), sent(Some(2), 1001)];
    let report = assemble(facts(), sender(flows), Some(arrivals));
    let rate = |flow: &FlowReport| flow.received.as_ref().unwrap().rates.unwrap().frames_per_second;
    assert_eq!(rate(&report.flows[0]), 300.0);
    let both = rate(&report.flows[0]) + rate(&report.flows[1]);
    assert!((rate(&report.total) - both).abs() < 2.0, "{} of {both}", rate(&report.total));
    // of which a receiver by itself knows nothing
    let alone = assemble(facts(), None, Some(receiver([(1, arrived(301, 0))])));
    assert!(rate(&alone.flows[0]) > 990.0);
}

/// Frames of a flow whose first left so late, and the others in time.
fn late_at_first(late: Nanos, noted: bool) -> SentFlow {
    let flow = sent(Some(1), 1000);
    let mut left = DepartureRecorder::default();
    left.record(Nanos::ZERO, 0);
    if noted {
        left.record(Nanos::from_millis(1), late.get() as i64);
    }
    let departures = Some((late, Nanos::from_millis(999)));
    SentFlow { departures, left: left.departures(), ..flow }
}

/// "The transmitter was too fast (+19 %)": frames that were held up at the start left together, and the rate was counted
/// from when the first of them did.
#[test]
fn a_flow_that_starts_late_and_catches_up_is_not_too_fast() {
    let late = Nanos::from_millis(160);
    let error = |noted: bool| {
        let report = assemble(facts(), sender(vec![late_at_first(late, noted)]), None);
        let flow = report.flows[0].sent.clone().unwrap();
        assert_eq!(report.total.sent.as_ref().unwrap().rates, flow.rates);
        let fast = report.findings.iter().any(|finding| finding.message.contains("too fast"));
        (flow.rate_error_ppm.unwrap(), fast)
    };
    assert_eq!(error(true), (0.0, false));
    // without a late frame that explains it, the transmitter was too fast
    let (ppm, fast) = error(false);
    assert!(ppm > 190_000.0 && fast, "{ppm}");
}

/// A flow that is these members, each of so many frames, and what belongs to none.
fn with_members(members: &[u64], own: u64) -> SentFlow {
    let all = own + members.iter().sum::<u64>();
    let member = |(id, &frames): (u16, &u64)| sent(Some(id), frames);
    let members = (1..).zip(members).map(member).collect();
    SentFlow { members: Some((MemberKind::Device, members)), ..sent(Some(0), all) }
}

#[test]
fn a_flow_is_all_of_its_members_and_what_belongs_to_none() {
    let arrivals = receiver([(0, arrived(10, 1)), (1, arrived(90, 5)), (2, arrived(50, 0))]);
    let flow = with_members(&[100, 50], 10);
    let report = assemble(facts(), sender(vec![flow]), Some(arrivals));
    let flow = &report.flows[0];
    let received = |flow: &FlowReport| {
        let received = flow.received.as_ref().unwrap();
        (received.unique, received.duplicates, flow.loss.unwrap().frames)
    };
    assert_eq!(received(flow), (150, 6, 10));
    assert_eq!(received(&report.total), (150, 6, 10));
    let members = flow.members.as_ref().unwrap();
    assert_eq!(members.flows.iter().map(received).collect::<Vec<_>>(), [(90, 5, 10), (50, 0, 0)]);
    let others = report.others.as_ref().unwrap();
    assert!(others.is_empty(), "members are none of a flow that is not known: {others:?}");
    assert!(report.consistency_checks.iter().all(|equation| equation.balances()));
    assert_eq!(report.consistency_checks.len(), 3, "those of members are right and not listed");
    let mut flow = with_members(&[100, 50], 10);
    flow.id = None;
    let report = assemble(facts(), sender(vec![flow]), None);
    assert_eq!(report.consistency_checks.len(), 1, "nor without probes");
}

#[test]
fn a_member_whose_sums_are_wrong_is_told_though_those_of_its_flow_are_right() {
    let arrivals = receiver([(1, arrived(40, 0)), (2, arrived(60, 0))]);
    let report = assemble(facts(), sender(vec![with_members(&[50, 50], 0)]), Some(arrivals));
    assert_eq!(report.verdict, Verdict::CountersInconsistent);
    let wrong: Vec<_> =
        report.consistency_checks.iter().filter(|equation| !equation.balances()).collect();
    assert_eq!((wrong.len(), wrong[0].difference), (1, -10));
    assert_eq!(wrong[0].scope, "flow 2 of flow flow 0");
}

#[test]
fn more_different_frames_than_were_sent_make_counters_inconsistent() {
    let report =
        assemble(facts(), sender(vec![sent(Some(1), 10)]), Some(receiver([(1, arrived(11, 0))])));
    assert_eq!((report.verdict, report.exit_code), (Verdict::CountersInconsistent, 1));
    let wrong: Vec<_> =
        report.consistency_checks.iter().filter(|equation| !equation.balances()).collect();
    assert_eq!((wrong.len(), wrong[0].difference), (1, -1));
    assert_eq!(kinds(&report), [FindingKind::CountersInconsistent]);
}

/// 10,000 flows had 30,000 sums of 8 MB, all of them right.
#[test]
fn of_very_many_flows_only_wrong_sums_are_listed() {
    let flows = |count: u16, arrives: u64| {
        let sent = (0..count).map(|id| sent(Some(id), 10)).collect();
        let arrived = (0..count).map(|id| (id, arrived(if id == 7 { arrives } else { 10 }, 0)));
        assemble(facts(), sender(sent), Some(receiver(arrived)))
    };
    assert_eq!(flows(100, 10).consistency_checks.len(), 303);
    let report = flows(101, 10);
    assert_eq!(
        (report.consistency_checks.len(), report.verdict),
        (3, Verdict::Done),
        "those of the total"
    );
    let report = flows(101, 11);
    let scopes: Vec<_> =
        report.consistency_checks.iter().map(|equation| equation.scope.as_str()).collect();
    assert_eq!(scopes, ["flow flow 7", "total", "total", "total"]);
    assert_eq!(report.verdict, Verdict::CountersInconsistent);
}

#[test]
fn frames_that_the_sender_forgot_make_counters_inconsistent() {
    let mut flow = sent(Some(1), 10);
    flow.requested.frames = 11;
    let report = assemble(facts(), sender(vec![flow]), None);
    assert_eq!(report.verdict, Verdict::CountersInconsistent);
}

#[test]
fn what_the_engine_delivered_must_be_what_the_meter_counted() {
    let mut side = receiver([(1, arrived(10, 0))]);
    side.summary.foreign = 3;
    side.delivered = Some(13);
    let right = assemble(facts(), sender(vec![sent(Some(1), 10)]), Some(side.clone()));
    assert_eq!(right.verdict, Verdict::Done);
    side.delivered = Some(14);
    let wrong = assemble(facts(), sender(vec![sent(Some(1), 10)]), Some(side));
    assert_eq!(wrong.verdict, Verdict::CountersInconsistent);
}

#[test]
fn a_run_that_was_stopped_is_done_and_one_that_was_cut_off_is_not() {
    for (end, verdict) in [
        (End::Stopped { signal: "SIGTERM".to_owned() }, Verdict::Done),
        (End::PeerGone { peer: "10.0.0.2".to_owned() }, Verdict::Unfinished),
        (End::Failed { message: "out of memory".to_owned() }, Verdict::Unfinished),
    ] {
        let report = assemble(RunFacts { end, ..facts() }, sender(vec![sent(Some(1), 10)]), None);
        assert_eq!(report.verdict, verdict);
        let unfinished = kinds(&report).contains(&FindingKind::Unfinished);
        assert_eq!(unfinished, verdict == Verdict::Unfinished);
    }
}

#[test]
fn one_flow_without_probes_is_met_by_what_came_without_probes() {
    let mut side = receiver([(1, arrived(10, 0))]);
    side.summary.unprobed = arrived(0, 18);
    side.summary.unprobed.sequence = SequenceSummary::default();
    let report = assemble(facts(), sender(vec![sent(Some(1), 10), sent(None, 20)]), Some(side));
    let loss = report.flows[1].loss.unwrap();
    assert_eq!((loss.frames, loss.basis), (2, LossBasis::SentLessReceived));
    assert_eq!(report.total.loss.unwrap().basis, LossBasis::Mixed);
    assert_eq!(report.others.unwrap().unprobed, 0);
    assert_eq!(report.verdict, Verdict::Done);
}

#[test]
fn what_a_receiver_cannot_recognise_is_not_measured_and_not_lost() {
    let unknown = SentFlow {
        attribution: Attribution::NotMeasured("it has no probes".to_owned()),
        ..sent(None, 20)
    };
    let nobody = SentFlow { attribution: Attribution::NoReceiver, ..sent(Some(7), 20) };
    let mut side = receiver([(1, arrived(10, 0))]);
    side.summary.unprobed = arrived(0, 40);
    let flows = vec![sent(Some(1), 10), unknown.clone(), unknown.clone(), nobody];
    let report = assemble(facts(), sender(flows), Some(side));
    let total = report.total.loss.unwrap();
    assert_eq!((total.frames, total.basis), (0, LossBasis::SentLessUnique));
    assert_eq!(report.total.received.as_ref().unwrap().received.frames, 10);
    for flow in &report.flows[1..] {
        assert_eq!((flow.received.as_ref(), flow.loss), (None, None), "{}", flow.name);
    }
    assert_eq!(report.flows[1].not_measured.as_deref(), Some("it has no probes"));
    assert_eq!(report.flows[3].not_measured, None, "nobody was asked to");
    assert_eq!(report.others.as_ref().unwrap().unprobed, 40);
    assert_eq!(kinds(&report), [FindingKind::NotMeasured]);

    // where nothing can be recognised, nothing is said of what was received
    let report = assemble(facts(), sender(vec![unknown]), Some(receiver([])));
    assert_eq!((report.total.received.as_ref(), report.total.loss), (None, None));
    assert_eq!(kinds(&report), [FindingKind::NotMeasured]);
    assert!(report.consistency_checks.iter().all(|equation| equation.balances()));
}

#[test]
fn a_flow_that_is_known_by_its_headers_is_counted_by_them() {
    let known = SentFlow { attribution: Attribution::Headers(3), ..sent(None, 20) };
    let mut counted = arrived(0, 18);
    counted.sequence = SequenceSummary::default();
    let report =
        assemble(facts(), sender(vec![known.clone()]), Some(receiver([(3, counted.clone())])));
    let loss = report.flows[0].loss.unwrap();
    assert_eq!((loss.frames, loss.basis), (2, LossBasis::SentLessReceived));
    assert!(report.others.as_ref().unwrap().is_empty());
    let clocks = Clocks::Unbounded("two hosts".to_owned());
    counted.frames = 23;
    let side = receiver([(3, counted)]);
    let report = assemble(RunFacts { clocks, ..facts() }, sender(vec![known]), Some(side));
    // and nothing is said of its delays
    assert_eq!(kinds(&report), [FindingKind::LossEstimated]);
    let message = &report.findings[0].message;
    assert!(message.contains("3 frames more than were sent"), "{message}");
}

#[test]
fn that_no_frame_at_all_came_is_said_where_the_interface_says_so() {
    let says = |at_interfaces, foreign, sentence: &str| {
        let mut side = ReceiverSide { at_interfaces, ..receiver([(1, arrived(0, 0))]) };
        side.summary.foreign = foreign;
        let report = assemble(facts(), sender(vec![sent(Some(1), 10)]), Some(side));
        let message = &report.findings[0].message;
        assert!(message.contains(sentence), "{message}");
    };
    says(Some(0), 0, "no frame at all reached the receiver");
    says(Some(10), 0, "10 frames came in at the receiver's interface");
    says(None, 0, "the receiver recognised no frame");
    says(Some(10), 10, "belongs to no flow of this run");
}

#[test]
fn datagrams_and_probes_of_others_are_no_flows_of_the_run() {
    let mut side = receiver([(1, arrived(10, 0)), (9, arrived(4, 0))]);
    side.summary.unprobed = arrived(0, 6);
    let report = assemble(facts(), sender(vec![sent(Some(1), 10)]), Some(side));
    assert_eq!(report.flows.len(), 1);
    let others = report.others.clone().unwrap();
    assert_eq!((others.unprobed, others.unknown_flow), (6, 4));
    assert_eq!(kinds(&report), [FindingKind::StrangeProbes]);
}

#[test]
fn a_receiver_alone_counts_missing_numbers() {
    let mut flow = arrived(8, 0);
    flow.sequence.range = Some((1 << 32, (1 << 32) + 9));
    let facts = RunFacts { clocks: Clocks::Unbounded("no sender".to_owned()), ..facts() };
    let report = assemble(facts, None, Some(receiver([(3, flow)])));
    assert_eq!(report.flows[0].name, "flow 3");
    let loss = report.total.loss.unwrap();
    assert_eq!((loss.frames, loss.ratio, loss.basis), (2, Some(0.2), LossBasis::MissingNumbers));
    assert_eq!(report.total.received.as_ref().unwrap().one_way_delay_ns, None);
    assert_eq!(kinds(&report), [FindingKind::ClockUncertain, FindingKind::LossEstimated]);
}

#[test]
fn neither_side_is_a_report_too() {
    let report = assemble(facts(), None, None);
    assert_eq!((report.flows.len(), report.verdict), (0, Verdict::Done));
    assert_eq!((report.total.sent, report.total.received), (None, None));
}

#[test]
fn what_was_not_counted_to_its_end_is_at_least_so_much() {
    let flow = SentFlow { not_reached: 899, not_reached_at_least: true, ..sent(Some(1), 101) };
    let requested = Volume { frames: 1000, ..flow.requested };
    let report = assemble(facts(), sender(vec![SentFlow { requested, ..flow }]), None);
    let text = crate::text::report(&report, Default::default());
    assert!(text.contains("101 of at least 1,000 frames requested were sent"), "{text}");
    assert!(text.contains("ended before it reached at least 899 frames"), "{text}");
}

#[test]
fn rates_are_those_of_the_definition() {
    let report = assemble(
        facts(),
        sender(vec![sent(Some(1), 101), sent(Some(2), 101)]),
        Some(receiver([(1, arrived(101, 0)), (2, arrived(101, 0))])),
    );
    let side = report.flows[0].sent.as_ref().unwrap();
    let rates = side.rates.unwrap();
    assert_eq!((rates.frames_per_second, side.rate_error_ppm), (1000.0, Some(0.0)));
    assert_eq!(rates.line_bits_per_second, 1000.0 * 84.0 * 8.0);
    let total = report.total.sent.as_ref().unwrap();
    assert_eq!(total.rates.unwrap().frames_per_second, 2000.0);
    assert_eq!(total.offered.unwrap().frames_per_second, 2000.0);
}

#[test]
fn a_sender_that_is_too_slow_is_found_out() {
    let mut flow = sent(Some(1), 1001);
    flow.departures = Some((Nanos::ZERO, Nanos::from_millis(1100)));
    let report = assemble(facts(), sender(vec![flow]), None);
    assert_eq!(kinds(&report), [FindingKind::RateMissed]);
    assert_eq!(
        report.findings[0].message,
        "the transmitter fell behind: flow 1 sent 0.909091 kpps of 1.00000 kpps asked (-9.1 %)"
    );
}

/// It said nothing: frames that overtook each other looked like the network's.
#[test]
fn a_sender_that_was_let_go_may_have_reordered_its_flows() {
    let station = |interface: &str, queues: Option<u32>, moved: &[Option<u32>]| Station {
        interface: Some(interface.to_owned()),
        transmit_queues: queues,
        threads: moved
            .iter()
            .map(|&moved_from| Thread { moved_from, ..Thread::default() })
            .collect(),
        ..Station::default()
    };
    let said = |stations: Vec<Station>| {
        let side = SenderSide { stations, ..sender(vec![sent(Some(1), 10)]).unwrap() };
        let report = assemble(facts(), Some(side), None);
        let moved = report.findings.into_iter().find(|one| one.kind == FindingKind::SenderMoved);
        moved.map(|finding| finding.message)
    };
    assert_eq!(
        said(vec![station("wb0", Some(2), &[None, Some(1)])]).unwrap(),
        "flows from wb0 may have been reordered by the sender: its sending thread was moved from CPU 1, which others kept \
         from it, and wb0 has 2 transmit queues, which overtake each other; name a CPU with --cpu (in a scenario 'cores') \
         to keep it"
    );
    let two = vec![station("a", Some(4), &[Some(1), Some(2)]), station("b", Some(4), &[Some(3)])];
    let two = said(two).unwrap();
    assert!(
        two.contains("threads were moved from CPU 1, CPU 2, which others kept from them"),
        "{two}"
    );
    assert!(two.ends_with("the same is true of 1 other port"), "{two}");
    for quiet in [
        station("wb0", Some(1), &[Some(1)]),
        station("wb0", None, &[Some(1)]),
        station("wb0", Some(2), &[None]),
    ] {
        assert_eq!(said(vec![quiet]), None);
    }
}

#[test]
fn a_late_last_frame_is_no_missed_rate() {
    let mut flow = sent(Some(1), 10);
    flow.departures = Some((Nanos::ZERO, Nanos::from_micros(9_050)));
    let report = assemble(facts(), sender(vec![flow]), None);
    assert_eq!(kinds(&report), []);
}

#[test]
fn one_frame_that_the_receiver_dropped_counts_as_lost() {
    for (drops, says) in
        [(1, "dropped 1 frame, which counts as lost"), (2, "dropped 2 frames, which count as lost")]
    {
        let mut side = receiver(BTreeMap::new());
        side.summary.receiver_drops = drops;
        let report = assemble(facts(), sender(vec![sent(Some(1), 100)]), Some(side));
        let all: Vec<_> = report.findings.iter().map(|finding| finding.message.as_str()).collect();
        assert!(all.iter().any(|message| message.contains(says)), "{all:?}");
    }
}

/// The requested rate of frames of drawn lengths was that of the lengths that were drawn: 6.94 Mbit/s for 7Mbps@line.
#[test]
fn the_requested_rate_in_bits_is_that_of_the_mean_length() {
    let mut flow = sent(Some(1), 100);
    flow.offered = Some(FrameRate { frames: 1000, per: Nanos::from_secs(1) });
    // lengths of 64 and 164 bytes in turn, three of which are one fragment more
    flow.mean =
        Some(Volume { frames: 8, fragments: 3, frame_bytes: 8 * 114, payload_bytes: 8 * 68 });
    let report = assemble(facts(), sender(vec![flow.clone()]), None);
    let offered = report.flows[0].sent.as_ref().unwrap().offered.unwrap();
    assert_eq!(offered.frame_bits_per_second, 114.0 * 8000.0);
    assert_eq!(offered.payload_bits_per_second, 68.0 * 8000.0);
    assert_eq!(offered.line_bits_per_second, (114.0 + 20.0 * 11.0 / 8.0) * 8000.0);
    flow.mean = None;
    let report = assemble(facts(), sender(vec![flow]), None);
    let offered = report.flows[0].sent.as_ref().unwrap().offered.unwrap();
    assert_eq!(offered.frame_bits_per_second, 64.0 * 8000.0);
}

#[test]
fn departures_later_than_the_gap_are_found_out() {
    let mut flow = sent(Some(1), 100);
    let mut left = DepartureRecorder::default();
    (0..100).for_each(|frame| {
        left.record(Nanos::from_millis(frame), if frame < 95 { 20 } else { 2_000_000 });
    });
    flow.left = left.departures();
    (flow.late, flow.late_after) = (5, Nanos::from_micros(100));
    let report = assemble(facts(), sender(vec![flow]), None);
    assert_eq!(kinds(&report), [FindingKind::DeparturesLate]);
    assert_eq!(report.total.sent.unwrap().late, 5);
}

#[test]
fn delays_below_the_uncertainty_of_the_clocks_are_not_given() {
    let mut flow = arrived(4, 0);
    let mut delay = Recorder::default();
    [-50, 400, 2_000, 9_000].into_iter().for_each(|ns| delay.record(ns));
    flow.delay = delay.distribution();
    let clocks = Clocks::Bounded { bound: Nanos::from_micros(1), how: "NTP".to_owned() };
    let report = assemble(
        RunFacts { clocks, ..facts() },
        sender(vec![sent(Some(1), 4)]),
        Some(receiver([(1, flow)])),
    );
    let received = report.total.received.unwrap();
    let stats = received.one_way_delay_ns.unwrap();
    assert_eq!((stats.min, stats.percentiles.p50, stats.max), (None, None, Some(9_000)));
    assert_eq!(stats.uncertain_below, Some(1_000));
    assert_eq!(stats.histogram[0].2, 1);
    assert!(stats.histogram.iter().skip(1).all(|bucket| bucket.1 >= 1_000));
    // A variation does not depend on the offset of the clocks.
    assert_eq!(received.delay_above_minimum_rfc5481_ns.max, Some(9_050));
}

#[test]
fn clocks_that_are_exact_to_a_hundredth_of_the_delay_are_no_finding() {
    let found = |bound: u64| {
        let mut flow = arrived(4, 0);
        let mut delay = Recorder::default();
        [19_000, 20_000, 20_000, 21_000].into_iter().for_each(|ns| delay.record(ns));
        flow.delay = delay.distribution();
        let clocks = Clocks::Bounded { bound: Nanos::new(bound), how: "NTP".to_owned() };
        let received = Some(receiver([(1, flow)]));
        kinds(&assemble(RunFacts { clocks, ..facts() }, sender(vec![sent(Some(1), 4)]), received))
    };
    assert_eq!(found(1), []);
    assert_eq!(found(190), []);
    assert_eq!(found(210), [FindingKind::ClockUncertain]);
    // below which no delay is given
    assert_eq!(found(1_000_000), [FindingKind::ClockUncertain]);
}

#[test]
fn what_was_taken_off_the_delays_is_added_again() {
    let mut flow = arrived(2, 0);
    let mut delay = Recorder::default();
    [300, 500].into_iter().for_each(|ns| delay.record(ns));
    (flow.delay, flow.delay_base) = (delay.distribution(), 1_000_000);
    let report = assemble(facts(), sender(vec![sent(Some(1), 2)]), Some(receiver([(1, flow)])));
    let received = report.flows[0].received.clone().unwrap();
    let stats = received.one_way_delay_ns.unwrap();
    assert_eq!(
        (stats.min, stats.max, stats.mean),
        (Some(1_000_300), Some(1_000_500), Some(1e6 + 400.0))
    );
    assert_eq!(stats.histogram[0].0, 1_000_300);
    assert_eq!(received.delay_above_minimum_rfc5481_ns.max, Some(200));
}

#[test]
fn cost_is_all_cpu_time_for_each_frame_and_second() {
    let cost = CpuTime {
        role: "transmit".to_owned(),
        user: Nanos::from_millis(100),
        system: Nanos::from_millis(300),
        interrupt: Some(Nanos::from_millis(100)),
        frames: 1_000_000,
    };
    let report = assemble(RunFacts { costs: vec![cost], ..facts() }, None, None);
    assert_eq!(report.costs[0].nanoseconds_per_frame, Some(500.0));
    assert_eq!(report.costs[0].cpus, 0.5);
}

/// A flow that shares its histogram has no percentiles, and the total has them: what is shared belongs to all.
#[test]
fn what_flows_share_is_in_the_total_and_not_in_theirs() {
    let delays = |values: [i64; 3], held: bool| {
        let mut recorder = Recorder::default();
        values.iter().for_each(|value| recorder.record(*value));
        let mut delay = recorder.distribution();
        let buckets = std::mem::take(&mut delay.buckets);
        let kept = if held { buckets.clone() } else { Vec::new() };
        (FlowSummary { delay: Distribution { buckets: kept, ..delay }, ..arrived(3, 0) }, buckets)
    };
    let (own, _) = delays([10, 20, 30], true);
    let (without, buckets) = delays([40, 50, 60], false);
    let mut side = receiver([(1, own), (2, without)]);
    side.summary.shared = SharedHistograms { flows: 1, delay: buckets, ..Default::default() };
    assert_eq!(side.summary.validate(), Ok(()));
    let report = assemble(facts(), sender(vec![sent(Some(1), 3), sent(Some(2), 3)]), Some(side));
    let delay = |flow: &FlowReport| flow.received.clone().unwrap().one_way_delay_ns.unwrap();
    assert_eq!(delay(&report.flows[0]).percentiles.p50, Some(20));
    let without = delay(&report.flows[1]);
    assert_eq!(
        (without.count, without.min, without.mean, without.max),
        (3, Some(40), Some(50.0), Some(60))
    );
    assert_eq!((without.percentiles, without.histogram.len()), (Default::default(), 0));
    assert_eq!(delay(&report.total).percentiles.p50, Some(30));
    assert_eq!(delay(&report.total).histogram.len(), 6);
}

/// A duplicate that came from further behind than the window counted as unique, and hid a loss without a word.
#[test]
fn arrivals_beyond_the_window_bound_the_loss() {
    let doubtful = |unique: u64, beyond_window: u64| {
        let mut flow = arrived(unique, 0);
        flow.sequence.beyond_window = beyond_window;
        flow.sequence.reordered = beyond_window;
        flow.sequence.window = 2048;
        flow
    };
    let flows = [(1, doubtful(95, 4)), (2, arrived(97, 0))];
    let sides = sender(vec![sent(Some(1), 100), sent(Some(2), 100)]);
    let report = assemble(facts(), sides, Some(receiver(flows)));
    let loss = |flow: &FlowReport| flow.loss.map(|loss| (loss.frames, loss.at_most));
    assert_eq!(loss(&report.flows[0]), Some((5, Some(9))));
    assert_eq!(loss(&report.flows[1]), Some((3, Some(3))));
    assert_eq!(loss(&report.total), Some((8, Some(12))));
    let said = |report: &Report| {
        let doubtful = |one: &&Finding| one.kind == FindingKind::SequenceDoubtful;
        report.findings.iter().find(doubtful).map(|one| one.message.clone()).unwrap_or_default()
    };
    let message = said(&report);
    assert!(message.contains("4 arrivals too late to tell new from duplicate"), "{message}");
    let bound = format!(
        "a window of 2,048 numbers: of {} between 5 and 9 frames were lost",
        report.flows[0].name
    );
    assert!(message.contains(&bound), "{message}");
    assert!(
        report.consistency_checks.iter().all(Equation::balances),
        "{:?}",
        report.consistency_checks
    );
    // more than were sent: so many of them were duplicates for certain, and the sums are right
    let report = assemble(
        facts(),
        sender(vec![sent(Some(1), 100)]),
        Some(receiver([(1, doubtful(103, 4))])),
    );
    let received = report.flows[0].received.as_ref().unwrap();
    let counts = (received.unique, received.duplicates, received.reordered, received.beyond_window);
    assert_eq!((counts, loss(&report.flows[0])), ((100, 3, 1, 1), Some((0, Some(1)))));
    assert!(
        report.consistency_checks.iter().all(Equation::balances),
        "{:?}",
        report.consistency_checks
    );
}

/// Gaps within each of two queues are not held against the gap of the flow.
#[test]
fn a_flow_on_several_queues_says_that_gaps_are_those_within_each() {
    let flow = FlowSummary { queues: 2, ..arrived(10, 0) };
    let report = assemble(facts(), None, Some(receiver([(1, flow), (2, arrived(10, 0))])));
    let within = |flow: &FlowReport| flow.received.as_ref().unwrap().measured_within_queues;
    assert_eq!((within(&report.flows[0]), within(&report.flows[1])), (Some(2), None));
    assert_eq!(within(&report.total), Some(2));
}

fn hostile_flow() -> impl Strategy<Value = FlowSummary> {
    let moments =
        any::<(u64, i64, i64, i128, u128)>().prop_map(|(count, min, max, sum, sum_of_squares)| {
            Moments { count, min, max, sum, sum_of_squares }
        });
    let distribution = (moments, any::<u64>(), prop::collection::vec(any::<(u16, u64)>(), 0..5))
        .prop_map(|(moments, negative, buckets)| Distribution { moments, negative, buckets });
    let sequence = (any::<[u64; 6]>(), any::<Option<(u64, u64)>>(), distribution.clone()).prop_map(
        |([unique, duplicates, reordered, beyond_window, implausible, restarts], range, extent)| {
            SequenceSummary {
                unique,
                duplicates,
                conflicting: 0,
                reordered,
                beyond_window,
                implausible,
                restarts,
                range,
                window: 0,
                extent,
            }
        },
    );
    (any::<[u64; 4]>(), any::<Option<(u64, u64)>>(), sequence, any::<i64>(), distribution).prop_map(
        |([frames, fragments, frame_bytes, payload_bytes], span, sequence, delay_base, times)| {
            FlowSummary {
                frames,
                fragments,
                frame_bytes,
                payload_bytes,
                span,
                queues: 1,
                sequence,
                delay_base,
                delay: times.clone(),
                delay_variation: times.clone(),
                interarrival_jitter: Default::default(),
                untimed: 0,
                ends_repeated: 0,
                inter_arrival: times.clone(),
                inter_arrival_bins: None,
                gap_early: Some(times.clone()),
                gap_error: times,
            }
        },
    )
}

fn hostile_sent() -> impl Strategy<Value = SentFlow> {
    let volume = any::<[u64; 4]>().prop_map(|[frames, fragments, frame_bytes, payload_bytes]| {
        Volume { frames, fragments, frame_bytes, payload_bytes }
    });
    let rate =
        any::<(u64, u64)>().prop_map(|(frames, per)| FrameRate { frames, per: Nanos::new(per) });
    let times = any::<Option<(u64, u64)>>()
        .prop_map(|times| times.map(|(first, last)| (Nanos::new(first), Nanos::new(last))));
    (
        any::<(String, Option<u16>, u32, u64, u64)>(),
        prop::option::of(rate),
        [volume.clone(), volume],
        times,
    )
        .prop_map(
            |((name, id, burst, expired, failed), offered, [requested, sent], departures)| {
                SentFlow {
                    name,
                    id,
                    offered,
                    burst,
                    requested,
                    sent,
                    expired,
                    failed,
                    departures,
                    ..SentFlow::default()
                }
            },
        )
}

proptest! {
    #![proptest_config(Config {
        rng_seed: RngSeed::Fixed(5481),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn any_numbers_make_a_report_in_every_form(
        flows in prop::option::of(prop::collection::vec(hostile_sent(), 0..4)),
        received in prop::option::of(prop::collection::btree_map(any::<u16>(), hostile_flow(), 0..4)),
        counters in any::<[u64; 6]>(),
        bound in any::<Option<u64>>(),
        duration in any::<u64>(),
    ) {
        let clocks = match bound {
            Some(bound) => Clocks::Bounded { bound: Nanos::new(bound), how: "so".to_owned() },
            None => Clocks::Same,
        };
        let sender = flows.and_then(sender);
        let receiver = received.map(|flows| {
            let [unknown_flow, stale, foreign, malformed, fragments, receiver_drops] = counters;
            let mut side = receiver(flows);
            side.summary = MeterSummary {
                unknown_flow,
                stale,
                foreign,
                malformed,
                fragments,
                receiver_drops,
                ..side.summary
            };
            side
        });
        let duration = Nanos::new(duration);
        let report = assemble(RunFacts { clocks, duration, ..facts() }, sender, receiver);
        let balanced = report.consistency_checks.iter().all(|equation| equation.balances());
        prop_assert_eq!(report.exit_code == 0, balanced);
        let json = report.json(Rendering::default());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        let text = report.text(Rendering { details: true, ..Rendering::default() });
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
