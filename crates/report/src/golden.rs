//! Reports as people and programs get them, held against files that a person can review.
//!
//! `UPDATE_GOLDEN=1 cargo test -p wirebeat-report` writes the files anew.

mod forms;

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use wirebeat_meter::departures::{DepartureRecorder, Departures};
use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::flow::{Expectation, FlowMeter, Sample};
use wirebeat_meter::memory::Memory;
use wirebeat_meter::summary::{Distribution, FlowSummary, MeterSummary};
use wirebeat_units::{FrameRate, Nanos};

use crate::assemble::{Clocks, CpuTime, ReceiverSide, RunFacts, SenderSide, SentFlow, assemble};
use crate::format::{Presentable, Rendering};
use crate::model::{
    Card, CardChange, CardCoalescing, CardCounter, CardPause, CardRings, CardRss, Change,
    ChangeOrigin, Clock, CounterMeaning, CounterSource, End, HardwareTimestamps, HeldBack, Host,
    Interruptions, Json, LeftOut, LengthRange, MemberKind, OutOfOrder, ProbeNumbers, QueueChoice,
    QueueFrames, QueueShare, Replay, Report, Shortened, Sizes, Station, Stats, Thread,
    TransmitQueue, Volume,
};

/// Compares `found` with the file at `path` in this crate, or writes it.
pub(crate) fn golden(path: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == found,
        "{} differs from what is written now; see the difference with UPDATE_GOLDEN=1 and git diff",
        path.display()
    );
}

/// Numbers that look like noise and are the same in every run.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    /// A number of 0 to 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A time around `median` ns, now and then much longer, as a busy machine makes them.
    pub(crate) fn time(&mut self, median: f64) -> u64 {
        let rank = self.next();
        let tail = if rank > 0.999 {
            40.0
        } else if rank > 0.98 {
            4.0
        } else {
            1.0
        };
        (median * (0.8 + 0.4 * self.next()) * tail) as u64
    }
}

/// A flow that is sent and received in a test.
#[derive(Clone)]
pub(crate) struct Plan {
    name: &'static str,
    id: u16,
    rate: u64,
    frames: u64,
    frame_len: u32,
    /// How late departures are, and how long frames are under way, in ns.
    lateness: f64,
    delay: f64,
    /// Of a million frames, how many are lost.
    lost_ppm: u64,
    /// How far the receiver's clock is ahead of the sender's, in ns.
    ahead: i64,
}

pub(crate) const VOICE: Plan = Plan {
    name: "voice",
    id: 1,
    rate: 12_500,
    frames: 125_000,
    frame_len: 214,
    lateness: 18.0,
    delay: 5_200.0,
    lost_ppm: 0,
    ahead: 0,
};

const BULK: Plan = Plan {
    name: "bulk",
    id: 2,
    rate: 50_000,
    frames: 500_000,
    frame_len: 64,
    lateness: 20.0,
    delay: 5_600.0,
    lost_ppm: 12,
    ahead: 0,
};

impl Plan {
    /// The same over a network that is slower.
    pub(crate) fn slower(self) -> Plan {
        Plan { delay: self.delay * 3.0, lost_ppm: 900, ..self }
    }

    fn volume(&self, frames: u64) -> Volume {
        let len = u64::from(self.frame_len);
        Volume {
            frames,
            fragments: 0,
            frame_bytes: frames * len,
            payload_bytes: frames * (len - 46),
        }
    }

    fn sizes(&self) -> Sizes {
        let of = |bytes: u32| LengthRange { min: bytes, max: bytes, mean: None };
        Sizes {
            frame_bytes: of(self.frame_len),
            packet_bytes: of(self.frame_len - 4),
            payload_bytes: of(self.frame_len - 46),
        }
    }

    /// Sends and receives the flow.
    fn run(&self) -> (SentFlow, FlowSummary) {
        let rate = FrameRate { frames: self.rate, per: Nanos::from_secs(1) };
        let gap = rate.deadline(1);
        let mut noise = Noise(u64::from(self.id));
        let late_after = Nanos::from_micros(100);
        let (mut left, mut late) = (DepartureRecorder::default(), 0);
        let expected = Expectation { nominal_gap: Some(gap), delay_base: 0 };
        let mut meter = FlowMeter::new(expected, 1024, None);
        let mut departures = Vec::new();
        // Frames do not overtake each other.
        let mut arrival = 0;
        for index in 0..self.frames {
            let lateness = noise.time(self.lateness);
            late += u64::from(lateness > late_after.get());
            let departure = rate.deadline(index).get() + lateness;
            left.record(Nanos::new(departure), lateness as i64);
            departures.push(Nanos::new(departure));
            let delay = noise.time(self.delay);
            arrival = (departure + delay).max(arrival + 67);
            if noise.next() * 1e6 < self.lost_ppm as f64 {
                continue;
            }
            // The clocks began long ago.
            let hour = 3_600_000_000_000;
            let sample = Sample {
                at: Nanos::new((hour + arrival).saturating_add_signed(self.ahead)),
                timed: true,
                sent: Some(Nanos::new(hour + departure)),
                sequence: Some(index as u32),
                frame_len: self.frame_len,
                fragments: 0,
                payload_len: self.frame_len - 46,
                last: false,
            };
            meter.record(&sample, &mut Memory::default());
        }
        let sent = SentFlow {
            name: self.name.to_owned(),
            id: Some(self.id),
            offered: Some(rate),
            sizes: Some(self.sizes()),
            steady: true,
            burst: 1,
            requested: self.volume(self.frames),
            sent: self.volume(self.frames),
            departures: Some((departures[0], departures[departures.len() - 1])),
            left: left.departures(),
            late,
            late_after,
            ..SentFlow::default()
        };
        (sent, meter.summary())
    }
}

fn host(name: &str) -> Host {
    Host {
        name: name.to_owned(),
        kernel: "Linux 6.18.2".to_owned(),
        cpu_model: "AMD EPYC 7763".to_owned(),
        cpus: 2,
    }
}

/// 300 timer ticks of some microseconds, and one pause.
fn interruptions() -> Interruptions {
    let mut lengths = Recorder::default();
    (0..300).for_each(|n| lengths.record(4_000 + n * 7));
    lengths.record(180_000);
    Interruptions { listened_ns: 820_000_000, lengths_ns: Stats::of(&lengths.distribution()) }
}

fn sending_thread() -> Thread {
    Thread {
        role: "send".to_owned(),
        cpus: vec![1],
        moved_from: None,
        transmit_queue: None,
        policy: "SCHED_OTHER".to_owned(),
        nice: 0,
        slice_ns: Some(100_000),
        realtime_priority: None,
        note: Some(
            "a higher weight needs CAP_SYS_NICE, or RLIMIT_NICE of 40 (ulimit -e 40)".to_owned(),
        ),
    }
}

fn station(interface: &str, wait: Option<&str>) -> Station {
    Station {
        host: host("tester"),
        interface: Some(interface.to_owned()),
        namespace: Some(format!("wirebeat-{interface}")),
        engine: "kernel".to_owned(),
        engine_reason: "asked for by name".to_owned(),
        mode: if wait.is_some() { "native XDP, live frames" } else { "native XDP, drop" }
            .to_owned(),
        link_bits_per_second: Some(10_000_000_000),
        wait: wait.map(str::to_owned),
        transmit_queues: wait.map(|_| 1),
        card: None,
        cpus: if wait.is_some() { vec![1] } else { Vec::new() },
        threads: wait.map(|_| sending_thread()).into_iter().collect(),
        interruptions: wait.map(|_| interruptions()),
        timestamps: "the kernel, in the driver".to_owned(),
        clock: Clock {
            name: "CLOCK_MONOTONIC".to_owned(),
            synchronisation: "not synchronised".to_owned(),
            offset_bound_ns: None,
            unix_bound_ns: Some(34),
        },
        hardware_timestamps: None,
    }
}

/// What a card stamped that holds one stamp at a time.
fn stamped(interface: &str) -> HardwareTimestamps {
    let mut late = Recorder::default();
    (0..800).for_each(|frame| late.record(2_000 + 31 * frame));
    let sends = interface == "wb0";
    let (sent, received) = if sends { (800, 0) } else { (0, 60) };
    let of_sent = if sends { Stats::of(&late.distribution()) } else { Stats::default() };
    HardwareTimestamps {
        clock: if sends { "/dev/ptp0" } else { "/dev/ptp1" }.to_owned(),
        clock_name: Some("52:54:00:00:00:01".to_owned()).filter(|_| sends),
        read_by: "PTP_SYS_OFFSET_EXTENDED".to_owned(),
        conversion_bound_ns: 180,
        drift_low_ppm: 11.2,
        drift_high_ppm: 14.9,
        steps: u64::from(sends),
        receive: (!sends).then(|| "received PTP event messages only".to_owned()),
        received,
        received_unstamped: if sends { 0 } else { 40 },
        sent_asked: sent + u64::from(sends),
        sent,
        wire_send_lateness_ns: of_sent.clone(),
        hand_over_to_wire_ns: of_sent,
    }
}

/// A part of a scenario, with keys that are not in the order of their letters.
const SCENARIO: &str = r#"{"seed":7,"ports":{"b":{"engine":"kernel"},"a":{"engine":"kernel"}}}"#;

pub(crate) fn facts(command: &str) -> RunFacts {
    RunFacts {
        wirebeat_version: "0.1.0".to_owned(),
        command_line: command.split(' ').map(str::to_owned).collect(),
        seed: Some(7),
        scenario: Json::parse(SCENARIO),
        started: UNIX_EPOCH + Duration::from_millis(1_772_366_400_250),
        duration: Nanos::from_millis(10_204),
        end: End::Completed,
        clocks: Clocks::Same,
        costs: vec![CpuTime {
            role: "transmit".to_owned(),
            user: Nanos::from_millis(12),
            system: Nanos::from_millis(9_961),
            interrupt: Some(Nanos::from_millis(240)),
            frames: 625_000,
        }],
        machine: Vec::new(),
        changes: Vec::new(),
        outages: Vec::new(),
        replays: Vec::new(),
        captures: Vec::new(),
        sessions: Vec::new(),
        stacks: Vec::new(),
    }
}

/// Both sides of `plans` on one host.
pub(crate) fn both(plans: &[Plan]) -> (SenderSide, ReceiverSide) {
    let mut sender = SenderSide {
        stations: vec![station("wb0", Some("in the kernel"))],
        shared_departures: Departures::default(),
        flows: Vec::new(),
    };
    let mut summary = MeterSummary::default();
    for plan in plans {
        let (sent, received) = plan.run();
        sender.flows.push(sent);
        summary.flows.insert(plan.id, received);
    }
    summary.foreign = 7;
    (
        sender,
        ReceiverSide {
            stations: vec![station("wb1", None)],
            summary,
            delivered: None,
            at_interfaces: None,
        },
    )
}

pub(crate) fn text(report: &Report) -> String {
    report.text(Rendering { details: true, ..Rendering::default() })
}

#[test]
fn two_flows_on_one_host() {
    let (sender, receiver) = both(&[VOICE, BULK]);
    let report = assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver));
    assert_eq!(report.exit_code, 0);
    golden("tests/golden/two_flows.txt", &text(&report));
}

/// The cards of both ends stamp, the receiving one not every frame.
#[test]
fn stamps_of_cards() {
    let (mut sender, mut receiver) = both(&[VOICE]);
    sender.stations[0].hardware_timestamps = Some(stamped("wb0"));
    receiver.stations[0].hardware_timestamps = Some(stamped("wb1"));
    receiver.summary.flows.values_mut().for_each(|flow| flow.untimed = 40);
    let how = "arrivals are stamped by the clock of a card, /dev/ptp1".to_owned();
    let clocks = Clocks::Bounded { bound: Nanos::new(180), how };
    let facts = RunFacts { clocks, ..facts("wirebeat run voice.yaml --timestamps hardware") };
    let report = assemble(facts, Some(sender), Some(receiver));
    golden("tests/golden/hardware_timestamps.txt", &text(&report));
}

/// Two dozen sensors in one flow, of which two lose frames.
#[test]
fn a_flow_of_many_devices() {
    let mut members = Vec::new();
    let mut summary = MeterSummary::default();
    let mut all = SentFlow::default();
    for id in 1..=24 {
        let lost_ppm = if id % 10 == 0 { 40_000 } else { 0 };
        let plan = Plan { frames: 250, rate: 100, id, lost_ppm, name: "", ..VOICE };
        let (sent, received) = plan.run();
        summary.flows.insert(id, received);
        all.left.merge(&sent.left);
        all.late += sent.late;
        all.departures = sent.departures;
        members.push(SentFlow { name: format!("BK.{id:03}"), offered: None, ..sent });
    }
    let whole = Plan { frames: 24 * 250, ..VOICE };
    let sensors = SentFlow {
        name: "sensors".to_owned(),
        id: Some(0),
        requested: whole.volume(whole.frames),
        sent: whole.volume(whole.frames),
        late_after: Nanos::from_micros(100),
        members: Some((MemberKind::Device, members)),
        ..all
    };
    let sender = SenderSide {
        stations: vec![station("wb0", Some("in the kernel"))],
        shared_departures: Departures::default(),
        flows: vec![sensors],
    };
    let receiver = ReceiverSide {
        stations: vec![station("wb1", None)],
        summary,
        delivered: None,
        at_interfaces: None,
    };
    let report = assemble(facts("wirebeat run sensors.yaml"), Some(sender), Some(receiver));
    assert_eq!(report.exit_code, 0);
    golden("tests/golden/many_devices.txt", &text(&report));
}

#[test]
fn sending_without_a_receiver() {
    let plan = Plan { frames: 50_000, rate: 200_000, name: "flow 0", id: 0, ..BULK };
    let (mut sent, _) = plan.run();
    (sent.sent, sent.expired) = (plan.volume(49_990), 10);
    let sender = SenderSide {
        stations: vec![station("eth1", Some("hybrid"))],
        shared_departures: Departures::default(),
        flows: vec![sent],
    };
    let command = "wirebeat send --to 10.0.0.2:9 --interface eth1 --rate 200kpps --late drop";
    let change = |at_ns, change: &str, origin| Change {
        at_ns,
        flow: "flow 0".to_owned(),
        change: change.to_owned(),
        origin,
    };
    let changes = vec![
        change(50_000_000, "rate 200kpps", ChangeOrigin::Scenario),
        change(171_000_000, "paused", ChangeOrigin::Control),
    ];
    let report = assemble(RunFacts { changes, ..facts(command) }, Some(sender), None);
    golden("tests/golden/send_only.txt", &text(&report));
}

/// It was a table of headings with nothing below, and no finding.
#[test]
fn a_receiver_to_which_nothing_came() {
    let receiver = ReceiverSide {
        stations: vec![station("eth1", None)],
        summary: MeterSummary::default(),
        delivered: None,
        at_interfaces: None,
    };
    let facts = RunFacts {
        clocks: Clocks::Unbounded("the sender's clock is not known".to_owned()),
        ..facts("wirebeat receive --interface eth1 --time 1s")
    };
    let report = assemble(facts, None, Some(receiver));
    golden("tests/golden/nothing_arrived.txt", &text(&report));
}

#[test]
fn receiving_alone() {
    let (_, mut received) = Plan { frames: 20_000, lost_ppm: 900, ..BULK }.run();
    received.sequence.restarts = 1;
    let mut summary = MeterSummary::default();
    summary.flows.insert(2, received);
    summary.unprobed.frames = 12;
    summary.unprobed.frame_bytes = 12 * 90;
    summary.unprobed.span = summary.flows[&2].span;
    let receiver = ReceiverSide {
        stations: vec![station("eth1", None)],
        summary,
        delivered: None,
        at_interfaces: None,
    };
    let facts = RunFacts {
        end: End::Stopped { signal: "SIGINT".to_owned() },
        clocks: Clocks::Unbounded("the sender's clock is not known".to_owned()),
        ..facts("wirebeat receive --interface eth1")
    };
    let report = assemble(facts, None, Some(receiver));
    assert_eq!(report.exit_code, 0);
    golden("tests/golden/receive_only.txt", &text(&report));
}

#[test]
fn delays_between_two_hosts_are_no_more_exact_than_their_clocks() {
    let plan = Plan { frames: 20_000, ahead: 30_000, ..BULK };
    let (sender, mut receiver) = both(&[plan]);
    receiver.stations[0].host = host("far");
    let facts = RunFacts {
        clocks: Clocks::Bounded {
            bound: Nanos::from_micros(80),
            how: "both hosts follow NTP".to_owned(),
        },
        ..facts("wirebeat send --to 10.0.0.2:9 --rate 50kpps --count 20000")
    };
    let report = assemble(facts, Some(sender), Some(receiver));
    let delay = report.total.received.clone().unwrap().one_way_delay_ns.unwrap();
    assert_eq!((delay.min, delay.percentiles.p50), (None, None));
    golden("tests/golden/two_hosts.txt", &text(&report));
}

#[test]
fn a_run_in_which_much_went_wrong() {
    let (mut sender, mut receiver) = both(&[VOICE, Plan { frames: 90_000, ..BULK }]);
    let bulk = &mut sender.flows[1];
    (bulk.sent.frames, bulk.expired, bulk.failed) = (89_040, 900, 60);
    bulk.departures = Some((Nanos::ZERO, Nanos::from_millis(2_100)));
    let mut left = DepartureRecorder::default();
    (0..89_040).for_each(|frame| left.record(Nanos::new(23_584 * frame), frame as i64 * 3));
    bulk.left = left.departures();
    bulk.late = (0..89_040).filter(|frame| frame * 3 > 100_000).count() as u64;
    let flow = receiver.summary.flows.get_mut(&2).unwrap();
    flow.sequence.reordered = 40;
    flow.sequence.extent = extents();
    receiver.summary.receiver_drops = 25;
    receiver.summary.stale = 3;
    let facts = RunFacts {
        end: End::InterfaceGone { interface: "wb1".to_owned() },
        machine: vec!["the CPU frequency governor is powersave, which delays wake-ups".to_owned()],
        changes: Vec::new(),
        outages: Vec::new(),
        replays: vec![Replay {
            flow: "bulk".to_owned(),
            archives: vec!["day.wbar".to_owned()],
            records: 1_250_000,
            copies: None,
            left_out: vec![LeftOut {
                kind: "with an impossible time".to_owned(),
                count: 3,
                records: 2,
                bytes: 102,
                first: "day.wbar: record 20 at byte 1400: its time is invalid".to_owned(),
            }],
            starved: 1_200,
            passed_over: 12,
            held_back: Some(HeldBack {
                frames: 17,
                most_ns: 2_300,
                first: "live.pcapng: frame 20 at byte 1400".to_owned(),
                sorted: 5,
            }),
            shortened: Some(Shortened { gaps: 1, by_ns: 86_399_000_000_000 }),
            out_of_order: Some(OutOfOrder {
                probability: 0.1,
                window_ns: 5_000_000,
                numbers: ProbeNumbers::Records,
                delayed: 125_001,
                delay_ns: Stats { max: Some(4_999_000), ..Stats::of(&extents()) },
                reordered: 120_000,
                extent_records: Stats::of(&extents()),
            }),
        }],
        ..facts("wirebeat run voice.yaml")
    };
    let report = assemble(facts, Some(sender), Some(receiver));
    assert_eq!(report.exit_code, 1);
    golden("tests/golden/trouble.txt", &text(&report));
}

/// What the cards lost is theirs: told beside what the flows lost, as a bound on it.
#[test]
fn cards_that_lost_frames() {
    let (mut sender, mut receiver) = both(&[BULK]);
    let counter = |name: &str, source, increase, meaning, told: &str| CardCounter {
        name: name.to_owned(),
        source,
        increase,
        meaning: Some(meaning),
        explanation: Some(told.to_owned()),
    };
    let (kernel, driver) = (CounterSource::Kernel, CounterSource::Driver);
    let card = Card {
        driver: Some("igb".to_owned()),
        rings: Some(CardRings {
            receive: Some(256),
            receive_max: Some(4096),
            transmit: Some(256),
            transmit_max: Some(4096),
        }),
        coalescing: Some(CardCoalescing { receive_us: Some(3), ..CardCoalescing::default() }),
        pause: Some(CardPause { negotiated: Some(true), heeded: Some(true), sent: Some(false) }),
        rss: Some(CardRss {
            summary: "queue 0: 25 %, queue 1: 75 %".to_owned(),
            hash: Some("toeplitz".to_owned()),
            entries: 128,
            queues: vec![
                QueueShare { queue: 0, entries: 32 },
                QueueShare { queue: 1, entries: 96 },
            ],
        }),
        ..Card::default()
    };
    receiver.stations[0].card = Some(Card {
        queues: vec![
            QueueFrames { queue: 0, received: 125_000, sent: 0 },
            QueueFrames { queue: 1, received: 374_996, sent: 3 },
        ],
        dropped_in: 3,
        counters: vec![
            counter("rx_missed_errors", kernel, 3, CounterMeaning::DroppedIn, "too late"),
            counter("rx_missed_errors", driver, 3, CounterMeaning::DroppedIn, "too late"),
            counter("rx_no_buffer_count", driver, 170, CounterMeaning::Waited, "no buffer"),
        ],
        more_counters: 9,
        changed: vec![CardChange {
            setting: "receive ring".to_owned(),
            before: "256".to_owned(),
            after: "80".to_owned(),
        }],
        ..card.clone()
    });
    let station = &mut sender.stations[0];
    station.transmit_queues = Some(2);
    station.threads[0].transmit_queue =
        Some(TransmitQueue { queues: vec![1], by: QueueChoice::Xps });
    station.card = Some(Card {
        dropped_out: 2,
        paused_by_peer: 7,
        counters: vec![
            counter("tx_dropped", kernel, 2, CounterMeaning::DroppedOut, "dropped"),
            counter("rx_flow_control_xoff", driver, 7, CounterMeaning::PausedByPeer, "pause"),
        ],
        ..card
    });
    let report = assemble(facts("wirebeat run cards.yaml"), Some(sender), Some(receiver));
    golden("tests/golden/cards.txt", &text(&report));
}

fn extents() -> Distribution {
    let mut extents = Recorder::default();
    (1..=40).for_each(|extent| extents.record(extent % 7 + 1));
    extents.distribution()
}

#[test]
fn many_flows() {
    let plans: Vec<Plan> =
        (1..=60).map(|id| Plan { id, name: "sensor", frames: 100, rate: 1_000, ..BULK }).collect();
    let (mut sender, receiver) = both(&plans);
    for (index, flow) in sender.flows.iter_mut().enumerate() {
        flow.name = format!("sensor {index}");
    }
    sender.flows[3].name = "測定器\x1b[31m in the northern hall".to_owned();
    let report = assemble(facts("wirebeat run sensors.yaml"), Some(sender), Some(receiver));
    golden("tests/golden/many_flows.txt", &text(&report));
}
