//! A report from a packet log: what the receivers of its run measured, made once more from its rows.
//!
//! How that is done stands in [`wirebeat_capture::packet_log::rebuild`]. Here it becomes a report. What a log does not hold
//! (intervals, CPU time, counters of cards, changes while it ran) is not in it, and what makes its numbers other than those of
//! the run is among its findings.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use wirebeat_capture::packet_log::ClockRelation;
use wirebeat_capture::packet_log::logged_run::{LogEnd, LogHead, LoggedPort};
use wirebeat_capture::packet_log::read::{Cut, LogReader};
use wirebeat_capture::packet_log::rebuild::{Rebuilt, RebuiltPort, SentFrames, rebuild};
use wirebeat_meter::departures::Departures;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_report::assemble::{
    Attribution, Clocks, ReceiverSide, RunFacts, SenderSide, SentFlow, assemble,
};
use wirebeat_report::model::{End, Json, Report, Station, Volume};
use wirebeat_units::{Nanos, human};

use crate::error::RunError;

/// Reads a log, and makes the report of its run.
///
/// # Errors
/// Where it cannot be read or is no packet log.
pub fn report(path: &Path) -> Result<Report, RunError> {
    let rebuilt = rebuild(path).map_err(RunError::usage)?;
    let sender = sender(&rebuilt);
    let receiver = receiver(&rebuilt);
    let mut report = assemble(facts(&rebuilt), sender, receiver);
    name(&mut report, &rebuilt.head);
    Ok(report)
}

/// Gives a log that was cut off an end, so that other programs read it; says what was cut, if anything was.
///
/// # Errors
/// Where it cannot be read or written, or is no packet log.
pub fn repair(path: &Path) -> Result<Option<String>, RunError> {
    let reader = LogReader::open(path).map_err(RunError::usage)?;
    reader.repair().map_err(RunError::output)?;
    Ok(reader.cut().map(|cut| told(&cut, reader.rows())))
}

/// What is missing of a log, in words.
fn told(cut: &Cut, rows: u64) -> String {
    format!(
        "the log was not ended, or is damaged: {} of {} are whole, and {} behind them are not: a part of what was being written, or no longer \
         what was written; frames behind them are not in this report",
        human::counted(rows, "row"),
        human::counted(cut.row_groups as u64, "row group"),
        human::counted(cut.bytes, "byte"),
    )
}

fn facts(rebuilt: &Rebuilt) -> RunFacts {
    let head = &rebuilt.head;
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(head.started_unix_ns);
    RunFacts {
        wirebeat_version: head.run.wirebeat_version.clone(),
        command_line: head.run.command_line.clone(),
        seed: head.run.seed,
        scenario: head.run.scenario.as_deref().and_then(Json::parse),
        started,
        duration: duration(rebuilt),
        end: match (&rebuilt.cut, &rebuilt.end) {
            (Some(cut), _) => End::Failed { message: told(cut, rebuilt.rows) },
            (None, None) => End::Failed { message: REPAIRED.to_owned() },
            (None, Some(end)) => match end.unwritten {
                0 => End::Completed,
                frames => End::Failed {
                    message: format!(
                        "{} that were seen could not be written: the log ended before the run did",
                        human::counted(frames, "frame")
                    ),
                },
            },
        },
        clocks: clocks(&head.run.clocks),
        costs: Vec::new(),
        machine: findings(rebuilt),
        changes: Vec::new(),
        outages: Vec::new(),
        replays: Vec::new(),
        captures: Vec::new(),
        sessions: Vec::new(),
        stacks: Vec::new(),
    }
}

/// Why a log without an end is none of a whole run.
const REPAIRED: &str = "the log was cut off and repaired: frames behind its end, and what its writer counted, are not known";

/// From the start to the end, or to the last frame where there is no end.
fn duration(rebuilt: &Rebuilt) -> Nanos {
    let ended = rebuilt.end.as_ref().map(|end| end.ended_unix_ns);
    let whole = ended.map(|ended| ended.saturating_sub(rebuilt.head.started_unix_ns));
    let seen = rebuilt.span.map(|(first, last)| last.saturating_sub(first).get());
    Nanos::new(whole.or(seen).unwrap_or_default())
}

fn clocks(relation: &ClockRelation) -> Clocks {
    match relation {
        ClockRelation::Same => Clocks::Same,
        ClockRelation::Bounded { bound_ns, how } => {
            Clocks::Bounded { bound: Nanos::new(*bound_ns), how: how.clone() }
        }
        ClockRelation::Unbounded { why } => Clocks::Unbounded(why.clone()),
        ClockRelation::Unknown => {
            Clocks::Unbounded("the log does not say how the clocks of its hosts relate".to_owned())
        }
    }
}

/// What makes the numbers other than those of the run.
fn findings(rebuilt: &Rebuilt) -> Vec<String> {
    let mut findings = vec![
        "this report was made from a packet log: intervals, CPU time and the counters of cards are not in it".to_owned(),
    ];
    if rebuilt.ports.iter().any(|port| !port.sent.is_empty()) {
        let why = "frames that were dropped because they were late have no row: how many were requested and expired, the payload of \
                   what was sent, and how many frames were late are not in the log";
        findings.push(why.to_owned());
    }
    for (place, (port, about)) in rebuilt.ports.iter().zip(&rebuilt.head.ports).enumerate() {
        let counts = rebuilt.end.as_ref().and_then(|end: &LogEnd| end.ports.get(place));
        let name = &about.name;
        if let Some(counts) = counts.filter(|counts| counts.lost > 0) {
            findings.push(format!(
                "{} of port '{name}' were measured and are not in the log, because its writer was slower: here they count as \
                 lost",
                human::counted(counts.lost, "frame")
            ));
        }
        if let Some(counts) = counts.filter(|counts| counts.filtered > 0) {
            findings.push(format!(
                "{} of port '{name}' were left out of the log by its filter: here they count as lost",
                human::counted(counts.filtered, "frame")
            ));
        }
        if port.differing > 0 {
            findings.push(format!(
                "{} of port '{name}' are judged otherwise than when they arrived, because frames before them are not in the log, \
                 or several queues took theirs in another order",
                human::counted(port.differing, "frame")
            ));
        }
        if port.without_payload > 0 {
            findings.push(format!(
                "the log does not say how long the payload of {} on port '{name}' was: rates of payload are too low",
                human::counted(port.without_payload, "frame")
            ));
        }
        if port.received > 0 && port.summary.is_none() {
            findings.push(format!(
                "the log does not say what port '{name}' measured: what it received is not in this report"
            ));
        }
    }
    findings
}

/// All that was measured, by the ports that did.
fn receiver(rebuilt: &Rebuilt) -> Option<ReceiverSide> {
    let measured = || rebuilt.ports.iter().zip(&rebuilt.head.ports);
    let summaries = measured().filter_map(|(port, _)| port.summary.as_ref());
    let summary = summaries.cloned().reduce(|mut all: MeterSummary, one| {
        all.merge(&one);
        all
    })?;
    let of = |(_, about): (&RebuiltPort, &LoggedPort)| station(about);
    let stations = measured().filter(|(port, _)| port.summary.is_some()).map(of).collect();
    Some(ReceiverSide { stations, summary, delivered: None, at_interfaces: None })
}

fn station(port: &LoggedPort) -> Station {
    Station {
        interface: port.interface.clone(),
        engine: port.description.clone(),
        mode: "as its packet log says".to_owned(),
        ..Station::default()
    }
}

/// What was sent, where the log has that too.
fn sender(rebuilt: &Rebuilt) -> Option<SenderSide> {
    let mut flows: BTreeMap<u16, SentFrames> = BTreeMap::new();
    let mut stations = Vec::new();
    for (port, about) in rebuilt.ports.iter().zip(&rebuilt.head.ports) {
        if !port.sent.is_empty() {
            stations.push(station(about));
        }
        for (flow, sent) in &port.sent {
            if let Some(flow) = flow {
                flows.entry(*flow).or_default().join(sent);
            }
        }
    }
    let first = flows.values().filter_map(|flow| flow.span).map(|(first, _)| first).min();
    let start = match rebuilt.head.run.start_ns {
        0 => first.unwrap_or_default(),
        start => Nanos::new(start),
    };
    let flows: Vec<SentFlow> =
        flows.into_iter().map(|(id, sent)| sent_flow(id, sent, start, &rebuilt.head)).collect();
    (!flows.is_empty()).then_some(SenderSide {
        stations,
        flows,
        shared_departures: Departures::default(),
    })
}

fn sent_flow(id: u16, sent: SentFrames, start: Nanos, head: &LogHead) -> SentFlow {
    let SentFrames { frames, bytes, payload_bytes, failed, expired, span, departures: left } = sent;
    let by_headers = |port: &LoggedPort| {
        port.meter.as_ref().is_some_and(|meter| meter.by_headers.contains_key(&id))
    };
    let by_headers = head.ports.iter().any(by_headers);
    let volume = Volume { frames, fragments: 0, frame_bytes: bytes, payload_bytes };
    let all = frames.saturating_add(failed).saturating_add(expired);
    // what did not leave was of the same kind
    let share = |bytes: u64| match frames {
        0 => 0,
        frames => u64::try_from(u128::from(bytes) * u128::from(all) / u128::from(frames))
            .unwrap_or(u64::MAX),
    };
    let from_start = |at: Nanos| at.saturating_sub(start);
    SentFlow {
        name: flow_name(head, id),
        id: (!by_headers).then_some(id),
        attribution: match by_headers {
            true => Attribution::Headers(id),
            false => Attribution::Probe,
        },
        requested: Volume {
            frames: all,
            fragments: 0,
            frame_bytes: share(bytes),
            payload_bytes: share(payload_bytes),
        },
        sent: volume,
        failed,
        expired,
        departures: span.map(|(first, last)| (from_start(first), from_start(last))),
        left,
        ..SentFlow::default()
    }
}

fn flow_name(head: &LogHead, id: u16) -> String {
    let named = head.flows.iter().find(|(number, _)| *number == id);
    named.map_or_else(|| format!("flow {id}"), |(_, name)| name.clone())
}

/// Gives the flows of a receiver their names.
fn name(report: &mut Report, head: &LogHead) {
    for flow in &mut report.flows {
        if let Some(id) = flow.id {
            flow.name = flow_name(head, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_capture::packet_log::{LoggedRun, MeterFacts, PacketLogOptions, open};
    use wirebeat_capture::seen::{Interface, InterfaceCounts, Opening, Outcome, Seen};
    use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
    use wirebeat_wire::probe::Probe;
    use wirebeat_wire::testing::udp_frame;

    use super::*;

    const STARTED: u64 = 1_795_404_317_000_000_000;

    fn opening() -> Opening {
        let interface = Interface {
            port: Some("b".to_owned()),
            name: Some("veth1".to_owned()),
            description: "packet".to_owned(),
            speed: None,
            snap_len: 128,
            timestamps: "the kernel".to_owned(),
        };
        let flows = vec![(7, "voip".to_owned())];
        Opening { interfaces: vec![interface], flows, comment: None, unix_ns: STARTED }
    }

    /// What a meter says of some frames, and their log in a file.
    fn measured(path: &Path, also_sent: bool) -> MeterSummary {
        let config = MeterConfig { flows: Flows::Any(9), ..MeterConfig::default() };
        let run = LoggedRun {
            clocks: ClockRelation::Same,
            start_ns: 1_000_000,
            meters: vec![Some(MeterFacts::new(&config, 1))],
            ..LoggedRun::default()
        };
        let options = PacketLogOptions::of(path.to_owned()).unwrap();
        let mut log = open(&options, &opening(), &run).unwrap();
        let mut meter = Meter::new(config);
        for number in 0..1_000_u32 {
            let sent = 1_000_000 + 1_000 * u64::from(number);
            let probe = Probe { flow: 7, sequence: number, transmit_ns: sent };
            let bytes =
                udp_frame("10.0.0.1:9", "10.0.0.2:9", &[&[0, 0][..], &probe.to_bytes()].concat());
            let at = Nanos::new(sent + 300 + u64::from(number % 50));
            let seen = |outcome, at: Nanos| Seen {
                interface: 0,
                queue: 0,
                hash: None,
                outcome,
                at,
                unix_ns: STARTED + at.get(),
                flow: Some(7),
                sequence: Some(number),
                sent: Some(Nanos::new(sent)),
                due: None,
                frame_len: 64,
                sampled: None,
                bytes: &bytes,
            };
            if also_sent {
                let due = Some(Nanos::new(sent - 20));
                log.frame(&Seen { due, ..seen(Outcome::Sent, Nanos::new(sent)) }).unwrap();
            }
            // one in ten is lost
            if number % 10 != 3 {
                let judged = meter.record_frame(at, &bytes, 64);
                log.frame(&seen(Outcome::Received(judged.standing), at)).unwrap();
            }
        }
        log.finish(STARTED + 2_000_000, &[InterfaceCounts::default()]).unwrap();
        meter.into_summary()
    }

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("wb-logged-{name}-{}.parquet", std::process::id()))
    }

    #[test]
    fn a_log_gives_the_report_that_its_meter_gives() {
        let path = file("received");
        let summary = measured(&path, false);
        let report = report(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut expected = assemble(
            RunFacts { machine: Vec::new(), ..facts_of_nothing() },
            None,
            Some(ReceiverSide {
                stations: Vec::new(),
                summary,
                delivered: None,
                at_interfaces: None,
            }),
        );
        name(&mut expected, &LogHead { flows: opening().flows, ..LogHead::default() });
        assert_eq!(report.flows, expected.flows);
        assert_eq!(report.total, expected.total);
        assert_eq!(report.others, expected.others);
        assert_eq!((report.exit_code, report.duration_ns), (0, 2_000_000));
        assert_eq!(report.flows[0].name, "voip");
        // those behind the last that arrived are not known to be missing
        assert_eq!(report.flows[0].loss.as_ref().unwrap().frames, 100);
    }

    fn facts_of_nothing() -> RunFacts {
        let rebuilt = Rebuilt {
            head: LogHead {
                run: LoggedRun { clocks: ClockRelation::Same, ..LoggedRun::default() },
                ..LogHead::default()
            },
            end: None,
            cut: None,
            rows: 0,
            span: None,
            ports: Vec::new(),
        };
        facts(&rebuilt)
    }

    #[test]
    fn what_was_sent_is_beside_what_arrived() {
        let path = file("sent");
        measured(&path, true);
        let report = report(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let flow = &report.flows[0];
        let sent = flow.sent.as_ref().unwrap();
        assert_eq!(
            (sent.sent.frames, sent.sent.frame_bytes, sent.sent.payload_bytes),
            (1_000, 64_000, 18_000)
        );
        assert_eq!(sent.first_departure_ns, Some(0));
        assert_eq!((flow.name.as_str(), flow.loss.as_ref().unwrap().frames), ("voip", 100));
        assert!(report.consistency_checks.iter().all(|sum| sum.balances()));
        assert_eq!(report.exit_code, 0);
    }

    /// Its numbers were others, and nothing said so.
    #[test]
    fn a_log_whose_bytes_changed_is_not_taken_for_whole() {
        let path = file("changed");
        measured(&path, false);
        let mut bytes = std::fs::read(&path).unwrap();
        let groups = LogReader::open(&path).unwrap();
        assert!(groups.cut().is_none());
        // in the pages of the one row group
        let at = bytes.len() / 2;
        bytes[at] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let report = report(&path).unwrap();
        assert_eq!(report.exit_code, 1);
        let End::Failed { message } = &report.end else { panic!("{:?}", report.end) };
        assert!(message.contains("damaged") && message.contains("0 rows"), "{message}");
        assert!(repair(&path).unwrap_err().to_string().contains("have changed since"));
        assert!(std::fs::read(&path).unwrap() == bytes, "and it was left as it is");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_log_that_was_cut_is_reported_and_repaired() {
        let path = file("cut");
        measured(&path, false);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        let cut = report(&path).unwrap();
        assert_eq!(cut.exit_code, 1);
        let End::Failed { message } = &cut.end else { panic!("{:?}", cut.end) };
        assert!(message.contains("900 rows of 1 row group are whole"), "{message}");
        assert!(repair(&path).unwrap().is_some());
        // what its writer counted is not there
        let repaired = report(&path).unwrap();
        assert_eq!(repaired.exit_code, 1);
        let End::Failed { message } = &repaired.end else { panic!("{:?}", repaired.end) };
        assert!(message.contains("cut off and repaired"), "{message}");
        assert_eq!(repair(&path).unwrap(), None);
        std::fs::remove_file(&path).unwrap();
        assert!(report(&path).unwrap_err().to_string().contains("cannot be read"));
    }
}
