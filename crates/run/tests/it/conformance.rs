//! What every engine has to do, checked on each.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::scheduling::{Scheduling, ThreadOrders, realtime_refusal};
use wirebeat_report::model::{End, FindingKind, FlowReport, Report, Sent};
use wirebeat_run::{Observer, Progress, Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, has_cards, is_emulated, require};

use crate::world::{Engine, balanced, cable, cable_with_queues, ports, prepared, run, tried};

/// Runs `check` on each engine as a test of its own.
macro_rules! on_every_engine {
    ($($check:ident),* $(,)?) => {
        mod loopback { $( #[test] fn $check() { super::$check(crate::world::Engine::Loopback, None) } )* }
        mod kernel { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
                let bed = crate::world::cable();
                super::$check(crate::world::Engine::Kernel, Some(&bed));
            }
        )* use super::{Capability, require}; }
        mod packet { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces);
                let bed = crate::world::cable();
                super::$check(crate::world::Engine::Packet, Some(&bed));
            }
        )* use super::{Capability, require}; }
        mod packet_with_two_receive_queues { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces);
                let bed = crate::world::cable();
                super::$check(crate::world::Engine::PacketQueues, Some(&bed));
            }
        )* use super::{Capability, require}; }
        mod socket { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces);
                let bed = crate::world::cable();
                super::$check(crate::world::Engine::Socket, Some(&bed));
            }
        )* use super::{Capability, require}; }
        mod xdp { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
                let bed = crate::world::cable();
                super::$check(crate::world::Engine::Xdp, Some(&bed));
            }
        )* use super::{Capability, require}; }
        mod xdp_generic { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
                let bed = crate::world::cable();
                super::$check(crate::world::Engine::XdpGeneric, Some(&bed));
            }
        )* use super::{Capability, require}; }
    };
}

on_every_engine!(
    every_frame_arrives_once_and_whole,
    flat_out_sends_exactly_the_count,
    both_directions_at_once,
    cpus_that_do_not_exist_are_refused_before_any_traffic,
    threads_compete_as_asked_and_the_report_says_how,
    real_time_sends_everything_and_keeps_to_its_budget,
    late_frames_are_dropped_and_counted,
    an_overloaded_sender_drops_what_is_late_and_sends_the_rest,
    a_stop_ends_at_once_with_consistent_counters,
    flows_of_several_queues_keep_their_order,
    times_between_arrivals_are_those_of_the_whole_flow,
    flows_without_probes_are_counted_and_not_lost,
    two_flows_with_one_set_of_headers_are_not_lost,
    the_rate_of_drawn_lengths_is_requested_as_it_was_asked_for,
);

/// The sent and received sides of a flow.
fn sides(flow: &FlowReport) -> (u64, u64, u64) {
    let sent = flow.sent.as_ref().unwrap();
    let received = flow.received.as_ref().unwrap();
    (sent.requested.frames, sent.sent.frames, received.unique)
}

fn every_frame_arrives_once_and_whole(engine: Engine, bed: Option<&Testbed>) {
    let report = run(
        &format!(
            "{}flows:
  short: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9001 }} }} ],
           size: 64B, rate: 20kpps, count: 4000 }}
  long:  {{ from: a, to: b, packet: [ {{ ipv6: {{}} }}, {{ udp: {{ destination: 9002 }} }} ],
           size: 1400B, rate: 10kpps, count: 2000 }}
",
            ports(engine, "")
        ),
        bed,
    );
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    for (flow, count, len, headers) in
        [(&report.flows[0], 4000, 64, 46), (&report.flows[1], 2000, 1400, 66)]
    {
        assert_eq!(sides(flow), (count, count, count), "{flow:#?}");
        let received = flow.received.as_ref().unwrap();
        assert_eq!(received.received.frames, count);
        assert_eq!(received.received.frame_bytes, count * len);
        assert_eq!(received.received.payload_bytes, count * (len - headers));
        assert_eq!((received.duplicates, received.reordered, received.implausible), (0, 0, 0));
        assert_eq!(flow.loss.as_ref().unwrap().frames, 0);
        let delay = received.one_way_delay_ns.as_ref().unwrap();
        assert_eq!(delay.count, count);
        assert!(delay.min.unwrap() >= 0, "a frame arrived before it was sent: {delay:?}");
        assert_eq!(received.jitter_rfc4689_ns.count, count - 1);
        assert_eq!(received.inter_arrival_ns.count, count - 1);
        assert_eq!(received.gap_error_ns.count, count - 1);
        // the same values, with a sign: their mean is that of what is between the first and the last
        let (gaps, errors) = (&received.inter_arrival_ns, &received.signed_gap_error_ns);
        assert_eq!(errors.count, count - 1);
        let largest = errors.max.unwrap().max(-errors.min.unwrap());
        assert!((largest - received.gap_error_ns.max.unwrap()).abs() <= largest / 64, "{errors:?}");
        let nominal = gaps.mean.unwrap() - errors.mean.unwrap();
        assert!((nominal - nominal.round()).abs() < 0.01, "{nominal} {gaps:?} {errors:?}");
        let sent = flow.sent.as_ref().unwrap();
        let errors = &sent.send_lateness_ns;
        assert_eq!(errors.count, count);
        assert!(errors.min.unwrap() >= 0, "a frame left before its deadline: {errors:?}");
        gaps_add_up(sent, count - 1);
    }
    let others = report.others.as_ref().unwrap();
    assert_eq!((others.unprobed, others.unknown_flow, others.malformed), (0, 0, 0));
}

/// All gaps together are the time from the first departure to the last; without their errors they are whole nanoseconds each, as planned.
fn gaps_add_up(sent: &Sent, count: u64) {
    let (gaps, errors) = (&sent.inter_departure_ns, &sent.signed_gap_error_ns);
    assert_eq!((gaps.count, errors.count, sent.gap_error_ns.count), (count, count, count));
    let span = sent.last_departure_ns.unwrap() - sent.first_departure_ns.unwrap();
    let sum = gaps.mean.unwrap() * count as f64;
    // means are rounded to thousandths
    let rounded = count as f64 / 1000.0;
    assert!((sum - span as f64).abs() <= rounded, "{sum} of {span}: {gaps:?}");
    let planned = gaps.mean.unwrap() - errors.mean.unwrap();
    assert!((planned - planned.round()).abs() < 0.01, "{planned}: {gaps:?} {errors:?}");
    let largest = errors.max.unwrap().max(-errors.min.unwrap());
    assert_eq!(sent.gap_error_ns.max, Some(largest), "{errors:?}");
}

fn flat_out_sends_exactly_the_count(engine: Engine, bed: Option<&Testbed>) {
    let report = run(
        &format!(
            "{}flows:
  flood: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, count: 50000 }}
",
            ports(engine, "")
        ),
        bed,
    );
    balanced(&report);
    let sent = report.total.sent.as_ref().unwrap();
    assert_eq!(sent.requested.frames, 50_000);
    assert_eq!(sent.sent.frames + sent.failed, 50_000);
    assert_eq!(report.total.received.as_ref().unwrap().duplicates, 0);
}

fn both_directions_at_once(engine: Engine, bed: Option<&Testbed>) {
    if engine == Engine::Loopback {
        // an end in memory belongs to one thread: it sends or it receives
        return;
    }
    let report = run(
        &format!(
            "{}flows:
  there: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9001 }} }} ],
           rate: 5kpps, count: 1500 }}
  back:  {{ from: b, to: a, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9002 }} }} ],
           rate: 5kpps, count: 1500 }}
",
            ports(engine, "")
        ),
        bed,
    );
    balanced(&report);
    for flow in &report.flows {
        assert_eq!(sides(flow), (1500, 1500, 1500), "{flow:#?}");
    }
    // all ports' first senders once shared the last CPU
    let cpus: Vec<&[u32]> = report.senders.iter().map(|sender| &sender.cpus[..]).collect();
    let crowded = report.findings.iter().any(|finding| finding.message.contains("threads share"));
    match affinity::allowed().len() {
        1 => assert!(cpus[0] == cpus[1] && crowded, "{cpus:?} {:?}", report.findings),
        _ => assert!(cpus[0] != cpus[1] && !crowded, "{cpus:?} {:?}", report.findings),
    }
}

fn cpus_that_do_not_exist_are_refused_before_any_traffic(engine: Engine, bed: Option<&Testbed>) {
    let scenario = format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: 10 }} }}\n",
        ports(engine, ", cores: [8190]")
    );
    let error = tried(&scenario, bed).map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    let why = error.to_string();
    assert!(
        why.starts_with(
            "port 'a' names CPU 8190, which this machine does not have; choose among CPU "
        ),
        "{why}"
    );
}

/// A flow of 2,000 frames a second, sent with a priority.
fn with_priority(engine: Engine, bed: Option<&Testbed>, priority: &str) -> Report {
    run(
        &format!(
            "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 2kpps,
  count: 400 }} }}\nrun: {{ priority: {priority} }}\n",
            ports(engine, "")
        ),
        bed,
    )
}

/// How the thread competes that runs the tests.
fn own_scheduling() -> (Option<Scheduling>, Vec<usize>) {
    let orders = ThreadOrders::default();
    drop(orders.apply().unwrap());
    (orders.state.get(), affinity::allowed())
}

fn threads_compete_as_asked_and_the_report_says_how(engine: Engine, bed: Option<&Testbed>) {
    let before = own_scheduling();
    let [normal, high] = ["normal", "high"].map(|priority| with_priority(engine, bed, priority));
    assert_eq!(own_scheduling(), before, "a run changed the thread that called it");
    if engine == Engine::Loopback {
        // in memory nobody competes
        return;
    }
    let sender = |report: &Report| match &report.senders[0].threads[..] {
        [only] => only.clone(),
        threads => panic!("{threads:?}"),
    };
    let (normal, high) = (sender(&normal), sender(&high));
    assert_eq!((normal.role.as_str(), normal.policy.as_str()), ("send", "SCHED_OTHER"));
    assert_eq!((normal.nice, normal.slice_ns), (before.0.unwrap().nice, None));
    assert_eq!(high.policy, "SCHED_OTHER");
    assert_eq!(high.nice == -20, high.note.is_none(), "{high:?}");
    assert!(!high.cpus.is_empty());
}

fn real_time_sends_everything_and_keeps_to_its_budget(engine: Engine, bed: Option<&Testbed>) {
    if engine != Engine::Loopback
        && let Some(why) = realtime_refusal()
    {
        let scenario = format!(
            "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: 1 }} }}
run: {{ priority: realtime }}\n",
            ports(engine, "")
        );
        let error = tried(&scenario, bed).map(|_| ()).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains(&why.to_string()), "{error}");
        return;
    }
    let report = with_priority(engine, bed, "realtime");
    balanced(&report);
    assert_eq!(sides(&report.flows[0]), (400, 400, 400));
    if engine != Engine::Loopback {
        let thread = &report.senders[0].threads[0];
        assert_eq!((thread.policy.as_str(), thread.realtime_priority), ("SCHED_FIFO", Some(10)));
    }
    // a flood never sleeps by itself: without a budget the kernel would stop it for 50 ms of every second
    let flood = run(
        &format!(
            "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: 50000 }} }}
run: {{ priority: realtime }}\n",
            ports(engine, "")
        ),
        bed,
    );
    balanced(&flood);
    assert_eq!(flood.end, End::Completed);
    assert_eq!(flood.total.sent.as_ref().unwrap().requested.frames, 50_000);
}

/// Flows without probes that are not UDP, and one that is: each with the headers of all of its frames.
const BARE: [(&str, &str); 5] = [
    ("syn", "[ { ipv4: {} }, { tcp: { destination: 80, flags: syn } } ], probe: off"),
    ("echo", "[ { ipv4: {} }, { icmp: {} } ], probe: off"),
    ("datagrams", "[ { ipv4: {} }, { udp: { source: 5000, destination: 9003 } } ], probe: off"),
    ("other", "[ { ethernet: { type: 0x88b5 } }, { payload: zeros } ], probe: off"),
    ("whole", "[ { frame: { hex: 'ffffffffffff 020000000001 88b6 0102 0304' } } ]"),
];

fn bare_flows(flows: &[(&str, &str)]) -> String {
    let flow = |(name, packet): &(&str, &str)| {
        format!("  {name}: {{ from: a, to: b, packet: {packet}, rate: 2kpps, count: 400 }}\n")
    };
    flows.iter().map(flow).collect()
}

fn flows_without_probes_are_counted_and_not_lost(engine: Engine, bed: Option<&Testbed>) {
    // a socket sends and receives datagrams only
    let flows = if engine == Engine::Socket { &BARE[2..3] } else { &BARE[..] };
    let probed =
        "  probed: { from: a, to: b, packet: [ { ipv4: {} }, { udp: { destination: 9003 } } ],
            rate: 2kpps, count: 400 }\n";
    let report = run(&format!("{}flows:\n{}{probed}", ports(engine, ""), bare_flows(flows)), bed);
    balanced(&report);
    for flow in &report.flows {
        assert_eq!(flow.sent.as_ref().unwrap().sent.frames, 400, "{}", flow.name);
        match &flow.not_measured {
            Some(why) => assert!(flow.received.is_none() && flow.loss.is_none(), "{why}"),
            None => {
                let received = flow.received.as_ref().unwrap();
                assert_eq!(received.received.frames, 400, "{}", flow.name);
                assert_eq!(flow.loss.unwrap().frames, 0, "{}", flow.name);
                // padding counts on both sides or on none
                assert_eq!(received.received, flow.sent.as_ref().unwrap().sent, "{}", flow.name);
            }
        }
    }
    assert_eq!(report.total.loss.unwrap().frames, 0);
    let unknown: Vec<_> =
        report.flows.iter().filter_map(|flow| flow.not_measured.as_ref()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(!report.findings.iter().any(|one| one.kind == FindingKind::NothingReceived));
}

/// The system chooses the port that a socket sends from where none is asked for. The receiver looked for another one: all of
/// the flow was lost, and arrived as something else. Short frames arrive without padding, and were shorter than 64 bytes.
#[test]
fn flows_of_sockets_without_a_source_port_are_not_lost() {
    require!(Capability::NetworkNamespaces);
    let kernel = require(Capability::XdpLiveFrames).is_ok();
    let bed = cable();
    for engine in ["packet", "kernel"].into_iter().filter(|name| *name == "packet" || kernel) {
        let report = run(
            &format!(
                "ports:\n  a: {{ interface: wb0, namespace: a, engine: socket }}\n  \
                 b: {{ interface: wb1, namespace: b, engine: {engine} }}\nflows:\n  \
                 r: {{ from: a, to: b, rate: 1kpps, size: 200B, probe: off, count: 100 }}\n  \
                 s: {{ from: a, to: b, rate: 1kpps, probe: off, count: 100, \
                 packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9003 }} }}, {{ payload: {{ text: x }} }} ] }}\n"
            ),
            Some(&bed),
        );
        balanced(&report);
        for (flow, bytes) in report.flows.iter().zip([20_000, 6_400]) {
            assert_eq!(flow.not_measured, None, "{engine}");
            let (sent, received) = (flow.sent.as_ref().unwrap(), flow.received.as_ref().unwrap());
            assert_eq!((sent.sent.frames, sent.sent.frame_bytes), (100, bytes), "{engine}");
            assert_eq!(received.received, sent.sent, "{engine}: {}", flow.name);
            assert_eq!(flow.loss.unwrap().frames, 0, "{engine}");
        }
    }
}

fn the_rate_of_drawn_lengths_is_requested_as_it_was_asked_for(
    engine: Engine,
    bed: Option<&Testbed>,
) {
    let flow = "packet: [ { ipv4: {} }, { udp: {} } ], size: imix, departures: poisson, rate: 7Mbps@line, count: 50";
    let report =
        run(&format!("{}flows: {{ x: {{ from: a, to: b, {flow} }} }}\n", ports(engine, "")), bed);
    balanced(&report);
    let offered = report.flows[0].sent.as_ref().unwrap().offered.unwrap();
    let bits = offered.line_bits_per_second;
    assert!((bits / 7e6 - 1.0).abs() < 1e-6, "{bits} bit/s");
}

fn two_flows_with_one_set_of_headers_are_not_lost(engine: Engine, bed: Option<&Testbed>) {
    let one = "[ { ipv4: {} }, { udp: { source: 5000, destination: 9003 } } ], probe: off";
    let flows = bare_flows(&[("one", one), ("other", one)]);
    let report = run(&format!("{}flows:\n{flows}", ports(engine, "")), bed);
    balanced(&report);
    for flow in &report.flows {
        assert_eq!(flow.sent.as_ref().unwrap().sent.frames, 400);
        assert!(flow.received.is_none() && flow.loss.is_none() && flow.not_measured.is_some());
    }
    assert_eq!((report.total.received.as_ref(), report.total.loss), (None, None));
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert!(kinds.contains(&FindingKind::NotMeasured), "{kinds:?}");
    assert!(!kinds.contains(&FindingKind::NothingReceived), "{kinds:?}");
}

fn late_frames_are_dropped_and_counted(engine: Engine, bed: Option<&Testbed>) {
    // More than any engine can do: most must be late. The link in memory has no such limit, but its clock moves when the sender
    // looks at it, twenty nanoseconds at a time and a few times for a batch.
    let (rate, time) =
        if engine == Engine::Loopback { ("2000Mpps", "5ms") } else { ("200Mpps", "50ms") };
    let scenario = format!(
        "{}flows:
  fast: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, rate: {rate} }}
run: {{ time: {time}, late: drop, drift: 1us }}
",
        ports(engine, "")
    );
    // A sender that has no CPU for all of that time, on a machine with more to do, reaches none of the frames: they are not late.
    let mut expired = 0;
    for _ in 0..20 {
        let report = run(&scenario, bed);
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap();
        assert_eq!(sent.requested.frames, 10_000_000);
        let accounted = sent.sent.frames + sent.expired + sent.not_reached + sent.failed;
        assert_eq!(accounted, 10_000_000);
        expired = sent.expired;
        if expired > 0 {
            break;
        }
    }
    assert!(expired > 0);
}

/// 4 to 126 frames left in two seconds, where a million could.
fn an_overloaded_sender_drops_what_is_late_and_sends_the_rest(
    engine: Engine,
    bed: Option<&Testbed>,
) {
    if engine == Engine::Loopback {
        // nothing takes time there; crates/engine/src/drive/tests.rs has a port that does
        return;
    }
    // merely passing over 14 million frames a second is more than an emulated machine can, and it sends less than 100,000
    // ("kpps" would be slowed once more, see `world::tried`)
    let rate = if is_emulated() { "0.4Mpps" } else { "14Mpps" };
    let sent = |late: &str| {
        let report = run(
            &format!(
                "{}flows:
  fast: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, rate: {rate} }}
run: {{ time: 300ms, late: {late} }}
",
                ports(engine, "")
            ),
            bed,
        );
        balanced(&report);
        report.total.sent.unwrap()
    };
    let (all, dropping) = (sent("send"), sent("drop"));
    assert_eq!(all.expired, 0, "{all:#?} {dropping:#?}");
    // an emulated machine hands over a batch, all in time when it was begun, in more than the 100 us that make a frame late
    assert!(dropping.late == 0 || is_emulated(), "{all:#?} {dropping:#?}");
    assert!(all.not_reached > 0 && dropping.expired > 0, "{all:#?} {dropping:#?}");
    // as much, on a machine of its own; an emulated one needs most of its time to pass over those that are dropped
    let share = if is_emulated() { 100 } else { 10 };
    assert!(dropping.sent.frames * share > all.sent.frames, "{all:#?} {dropping:#?}");
    // a handful of frames makes no rate
    let rate = dropping.rates.unwrap().frames_per_second;
    assert!(rate <= dropping.sent.frames as f64 / 0.3 * 1.01, "{dropping:#?}");
}

/// A flow that arrives on several queues: the time between two arrivals within one of them is not the flow's gap.
fn times_between_arrivals_are_those_of_the_whole_flow(engine: Engine, bed: Option<&Testbed>) {
    let report = run(
        &format!(
            "{}flows:
  spread: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, rate: 20kpps, count: 4000 }}
",
            ports(engine, ", cores: [0, 1]")
        ),
        bed,
    );
    balanced(&report);
    let received = report.flows[0].received.as_ref().unwrap();
    if engine == Engine::Xdp {
        // its threads read a queue each, and which of two frames in different queues came first nobody knows: the report says so
        let within = received.measured_within_queues;
        assert!(received.received.frames == 4000 && within.is_some(), "{received:#?}");
        return;
    }
    assert_eq!((received.received.frames, received.measured_within_queues), (4000, None));
    let between = [&received.inter_arrival_ns, &received.gap_error_ns, &received.jitter_rfc4689_ns];
    assert_eq!(between.map(|stats| stats.count), [3999; 3]);
    // all of them together are the time from the first arrival to the last; within two queues they were twice that
    let all = received.inter_arrival_ns.mean.unwrap() * 3999.0;
    let share = all / received.span_ns.unwrap() as f64;
    assert!((0.99..1.01).contains(&share), "{share}: {received:#?}");
}

/// CPUs that receive one flow as fast as possible measure gaps each by itself, and the report says so.
#[test]
fn a_flat_out_flow_over_two_queues_has_no_gap_error() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let report = run(
        &format!(
            "{}flows:
  flood: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, count: 200000 }}
",
            ports(Engine::Kernel, ", queues: 2")
        ),
        Some(&bed),
    );
    balanced(&report);
    let received = report.flows[0].received.as_ref().unwrap();
    let queues = received.measured_within_queues.map_or(1, u64::from);
    assert_eq!(received.inter_arrival_ns.count, received.received.frames - queues);
    assert_eq!(received.gap_error_ns.count, 0);
    assert_eq!((received.unique, received.duplicates), (200_000, 0));
}

fn a_stop_ends_at_once_with_consistent_counters(engine: Engine, bed: Option<&Testbed>) {
    if engine == Engine::Loopback {
        // on a virtual clock a run is over before anybody can stop it
        return;
    }
    let run = prepared(
        &format!(
            "{}flows:
  steady: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 50kpps }}
  slow: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 7pps }}
run: {{ time: 60s }}
",
            ports(engine, "")
        ),
        bed,
    );
    let stop = Stop::new();
    let report =
        after(Duration::from_millis(300), || stop.ask(2), || run.start(&mut Silent, &stop));
    balanced(&report);
    assert_eq!(report.end, End::Stopped { signal: "SIGINT".to_owned() });
    assert!(report.duration_ns < 10_000_000_000, "it took {} ns to stop", report.duration_ns);
    let sent = report.flows[0].sent.as_ref().unwrap();
    assert!(sent.sent.frames > 0 && sent.sent.frames < 1_000_000, "{sent:#?}");
}

/// Does `work` while another thread does `then` after a delay.
fn after<T>(delay: Duration, then: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            let _ = is_done.recv_timeout(delay);
            then();
        });
        let result = work();
        let _ = done.send(());
        result
    })
}

fn shared_by_two_cores(engine: Engine) -> Report {
    let bed = cable();
    run(
        &format!(
            "{}flows:
  shared: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, rate: 40kpps,
            count: 10000 }}
",
            ports(engine, ", cores: [0, 1]")
        ),
        Some(&bed),
    )
}

/// 22,779 of 50,000 frames were reordered within their own flow, because a flow was spread over all queues.
fn flows_of_several_queues_keep_their_order(engine: Engine, bed: Option<&Testbed>) {
    // three flows by two senders are more than an emulated machine takes at the rates of one
    let (slower, fewer) = if is_emulated() { (10, 10) } else { (1, 1) };
    // each sender of xdp has a transmit queue of its own
    let own_queues = matches!(engine, Engine::Xdp | Engine::XdpGeneric);
    let two = (own_queues && !has_cards()).then(|| cable_with_queues(2));
    let bed = two.as_ref().or(bed);
    for more in [", queues: 2", ", cores: [0, 1]", ", queues: 4"] {
        if engine == Engine::Loopback || (own_queues && (more == ", queues: 4" || has_cards())) {
            return;
        }
        let flow = |name: &str, port: u16, kpps: u64| {
            format!(
                "  {name}: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: {port} }} }} ], \
                 rate: {}kpps, count: {} }}\n",
                kpps / slower,
                kpps * 200 / fewer
            )
        };
        let flows = [flow("one", 9001, 40), flow("two", 9002, 30), flow("three", 9003, 20)];
        let report = run(&format!("{}flows:\n{}", ports(engine, more), flows.concat()), bed);
        balanced(&report);
        for (flow, count) in report.flows.iter().zip([8000, 6000, 4000]) {
            let count = count / fewer;
            assert_eq!(sides(flow), (count, count, count), "{more}: {flow:#?}");
            let received = flow.received.as_ref().unwrap();
            assert_eq!((received.reordered, received.duplicates), (0, 0), "{more}: {flow:#?}");
            assert_eq!(flow.sent.as_ref().unwrap().queues, 1);
        }
        assert!(report.findings.iter().all(|one| one.kind != FindingKind::OrderNotKept));
    }
}

/// No two frames carry one number, and none is left out.
fn check_shared(report: &Report) {
    balanced(report);
    assert_eq!(sides(&report.flows[0]), (10_000, 10_000, 10_000));
    let received = report.flows[0].received.as_ref().unwrap();
    assert_eq!((received.duplicates, received.implausible), (0, 0));
    // several CPUs that are named for one flow are a choice, and the report says what it costs
    assert_eq!(report.flows[0].sent.as_ref().unwrap().queues, 2);
    assert!(report.findings.iter().any(|one| one.kind == FindingKind::OrderNotKept));
}

#[test]
fn two_cores_of_the_kernel_engine_share_a_flow() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    check_shared(&shared_by_two_cores(Engine::Kernel));
}

#[test]
fn two_cores_of_the_packet_engine_share_a_flow() {
    require!(Capability::NetworkNamespaces);
    check_shared(&shared_by_two_cores(Engine::Packet));
}

#[test]
fn two_cores_of_the_socket_engine_share_a_flow() {
    require!(Capability::NetworkNamespaces);
    check_shared(&shared_by_two_cores(Engine::Socket));
}

/// Does something once when frames have been sent: a slow machine takes its time to begin.
struct OnceSent<F>(Option<F>);

impl<F: FnOnce()> Observer for OnceSent<F> {
    fn progress(&mut self, progress: &Progress) {
        if progress.sent.is_some_and(|(frames, _)| frames > 0)
            && let Some(then) = self.0.take()
        {
            then();
        }
    }
}

/// The interface goes away in the middle of a run.
fn without_an_interface(engine: Engine) {
    let bed = cable();
    let run = prepared(
        &format!(
            "{}flows:
  steady: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 20kpps }}
run: {{ time: 60s }}
",
            ports(engine, "")
        ),
        Some(&bed),
    );
    let mut netlink = bed.a.netlink().unwrap();
    let index = bed.a.link.index;
    let delete = move || netlink.delete_link(index).unwrap();
    let report = run.start(&mut OnceSent(Some(delete)), &Stop::new());
    balanced(&report);
    assert!(matches!(report.end, End::InterfaceGone { .. }), "{:?}", report.end);
    assert_eq!(report.exit_code, 1);
    assert!(report.duration_ns < 30_000_000_000, "{report:#?}");
    assert!(report.total.sent.as_ref().unwrap().sent.frames > 0);
}

#[test]
fn the_kernel_engine_survives_its_interface() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    without_an_interface(Engine::Kernel);
}

#[test]
fn the_packet_engine_survives_its_interface() {
    require!(Capability::NetworkNamespaces);
    without_an_interface(Engine::Packet);
}

#[test]
fn the_socket_engine_survives_its_interface() {
    require!(Capability::NetworkNamespaces);
    without_an_interface(Engine::Socket);
}

#[test]
fn the_xdp_engine_survives_its_interface() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    without_an_interface(Engine::Xdp);
    without_an_interface(Engine::XdpGeneric);
}

#[test]
fn mixed_sizes_and_rates_without_a_common_period_are_streamed() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let report = run(
        &format!(
            "{}flows:
  odd: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 64B, rate: 12347pps }}
  even: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], size: 1518B, rate: 9973pps }}
  checked: {{ from: a, to: b, packet: [ {{ ipv6: {{}} }}, {{ udp: {{ checksum: true }} }} ], size: 301B,
             rate: 1009pps, start: 100ms }}
run: {{ time: 500ms }}
",
            ports(Engine::Kernel, "")
        ),
        Some(&bed),
    );
    balanced(&report);
    assert!(report.senders[0].mode.contains("streamed"), "{}", report.senders[0].mode);
    let frames: Vec<u64> = report.flows.iter().map(|flow| sides(flow).0).collect();
    // the third is staggered by two thirds of its gap
    assert_eq!(frames, [6174, 4987, 403]);
    for flow in &report.flows {
        let (requested, sent, unique) = sides(flow);
        let sender = flow.sent.as_ref().unwrap();
        let unsent = sender.expired + sender.not_reached;
        assert_eq!((sent + unsent, unique), (requested, sent), "{flow:#?}");
    }
}
