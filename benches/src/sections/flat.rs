//! Flat out: as many 64-byte frames as possible, into each of the three sinks.

use std::thread;
use std::time::Duration;

use wirebeat_engine_linux::kernel::{FarEnd, Flood};
use wirebeat_engine_linux::{affinity, kernel};
use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};
use wirebeat_units::FrameLen;

use super::Chapter;
use crate::direct;
use crate::format::{self, NOTHING};
use crate::lab::{Failure, Lab};
use crate::peers::{self, IPERF3, Pace, Peer, TRAFGEN};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::Sink;
use crate::stats::{Ratio, Series};
use crate::table::Table;
use crate::verdict::Verdict;
use crate::window::{self, Window};
use crate::wirebeat::{self, Cores, Metered, Setup};

const PROSE: &str = "\
Frames of 64 bytes with FCS, except where a tool cannot make them so short (column \"frame\"). The cost \
of receiving is paid on the sending core, so that each figure belongs to one of three columns: (1) to a \
program that reads each datagram, (2) to a socket that nobody reads, (3) into an XDP program that drops \
the frame before the stack. Sent is what arrived at the far interface; read is what the far namespace's \
UDP counter says. Wirebeat's socket engine joins datagrams (GSO) unless told otherwise, and an interface \
counts joined ones as one: it is measured where they are metered, or taken apart. Wirebeat's figures with a receiver of its own are those of its report. The physical \
limit is a bare eBPF loop that redirects frames without touching them into a program that only counts \
and drops; in each round the better of batches of 64 and of 256, which take turns. Who measures delay and inter-arrival \
times has to read the clock for each frame, and the read waits for all that was begun before it: that \
alone takes a quarter of what the bare loop takes for a whole frame, or more than a half, as the machine \
is. So the limit is measured with a receiver that reads the clock as well. Wirebeat and trafgen send from \
one core; iperf3 keeps two busy, one with sending and one with reading, so that it is compared with \
Wirebeat on two cores, too.";

const LIMIT: &str = "physical limit: bare loop";
const TIMED: &str = "the same, each arrival timed";
const PERIODIC: &str = "Wirebeat kernel, periodic, metered";
const STREAMED: &str = "Wirebeat kernel, streamed, metered";
const LIMIT_TWO: &str = "physical limit, two cores: a bare loop on each";
const PERIODIC_TWO: &str = "Wirebeat kernel, periodic, metered, two cores";
/// What is told of the kernel engine, in this order.
const KERNEL: [&str; 6] = [LIMIT, TIMED, PERIODIC, STREAMED, LIMIT_TWO, PERIODIC_TWO];
const PACKET: &str = "Wirebeat packet";
const PACKET_TWO: &str = "Wirebeat packet, two cores";
const SOCKET: &str = "Wirebeat socket";
const SOCKET_TWO: &str = "Wirebeat socket, two cores";
const SINGLE: &str = "Wirebeat socket, single datagrams";
const JOINED: &str = "Wirebeat socket, GSO and GRO";

/// What somebody reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    /// Frames per second that were sent.
    pub(super) sent: f64,
    /// Those per second that were read or metered; `None` where nobody does.
    read: Option<f64>,
    /// Frames that were sent and not received, where both ends number them.
    lost: Option<u64>,
    /// Mean length of a frame in bytes with FCS.
    frame_len: Option<f64>,
}

impl Reached {
    fn counted(window: Window, sink: Sink) -> Reached {
        let read = (sink == Sink::Reading).then_some(window.read);
        // before an XDP program, an interface's counter of bytes leaves out the Ethernet header
        let frame_len = (sink != Sink::Dropping).then_some(window.frame_len);
        Reached { sent: window.sent, read, lost: None, frame_len }
    }

    fn limit(rate: f64) -> Reached {
        let frame_len = Some(f64::from(FrameLen::MIN.get()));
        Reached { sent: rate, read: None, lost: None, frame_len }
    }

    fn metered(metered: Metered) -> Reached {
        let Metered { sent, received, lost } = metered;
        let frame_len = f64::from(FrameLen::MIN.get());
        Reached { sent, read: Some(received), lost: Some(lost), frame_len: Some(frame_len) }
    }
}

/// Who was measured into what, and what came of it.
struct Entry {
    name: &'static str,
    sink: Sink,
    measured: Measured<Reached>,
}

/// All entries.
struct Entries(Vec<Entry>);

impl Entries {
    fn find(&self, name: &str, sink: Sink) -> Option<&Measured<Reached>> {
        let entry = self.0.iter().find(|entry| entry.name == name && entry.sink == sink);
        entry.map(|entry| &entry.measured)
    }

    /// One figure of an entry; why there is none.
    fn series(&self, (name, sink): (&str, Sink), figure: Figure) -> Result<Series, String> {
        let measured = self.find(name, sink).ok_or("it was not measured")?;
        if measured.values.is_empty() {
            return Err(format!("{name}: {}", measured.reason()));
        }
        Ok(measured.series(figure))
    }

    fn ratio(
        &self,
        a: (&str, Sink),
        b: (&str, Sink),
        (of_a, of_b): (Figure, Figure),
    ) -> Result<Ratio, String> {
        let (top, bottom) = (self.series(a, of_a)?, self.series(b, of_b)?);
        top.over(&bottom).ok_or_else(|| format!("{} sent nothing", b.0))
    }
}

/// What is looked at of a measurement.
type Figure = fn(&Reached) -> f64;

fn sent(reached: &Reached) -> f64 {
    reached.sent
}

/// What came through: where nobody reads, what was sent.
fn read(reached: &Reached) -> f64 {
    reached.read.unwrap_or(reached.sent)
}

/// Measures everything.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut places = Vec::new();
    let mut contestants = Vec::new();
    let mut add = |name, sink: Sink, contestant: Contestant<'static, Reached>| {
        places.push((name, sink));
        contestants.push(contestant);
    };
    for sink in [Sink::Reading, Sink::Unread, Sink::Dropping] {
        let label = |name: &str| format!("{name}, {}", sink.column());
        for peer in peers::ALL.iter().filter(|peer| peer.sinks.contains(&sink)) {
            let measure = move |bench: &Bench| of_peer(bench, peer, sink);
            add(peer.name, sink, Contestant::new(label(peer.name), measure));
        }
        for (name, measure) in ours(sink) {
            add(name, sink, Contestant::new(label(name), move |bench| measure(bench, sink)));
        }
    }
    let brief = |reached: &Reached| match reached.read {
        Some(read) => format!("{}, read {}", format::rate(reached.sent), format::rate(read)),
        None => format::rate(reached.sent),
    };
    let all = in_turn(bench, &contestants, brief);
    let entry = |((name, sink), measured)| Entry { name, sink, measured };
    let entries = Entries(places.into_iter().zip(all).map(entry).collect());
    Chapter {
        title: "Flat out",
        prose: PROSE,
        tables: vec![
            (
                "The kernel engine and the physical limit, into XDP programs (3):".into(),
                kernel(&entries),
            ),
            ("To a receiver that reads each datagram (1):".into(), reading(&entries)),
            ("To nobody who reads (2) and (3):".into(), unread(&entries)),
        ],
        picture: None,
        verdicts: verdicts(&entries),
    }
}

/// A measurement of ours into a sink.
type Own = fn(&Bench, Sink) -> Result<Reached, Failure>;

/// What we measure of Wirebeat into a sink.
fn ours(sink: Sink) -> Vec<(&'static str, Own)> {
    match sink {
        Sink::Reading => vec![
            (SINGLE, |bench, _| {
                Ok(Reached::metered(direct::socket_single(&bench.lab, bench.time)?))
            }),
            (JOINED, |bench, _| {
                let receiver = Some(EngineChoice::Socket);
                let setup = Setup { receiver, ..flat_out(EngineChoice::Socket) };
                Ok(Reached::metered(wirebeat::flat_out_metered(&bench.lab, &setup, bench.time)?))
            }),
        ],
        Sink::Unread => {
            vec![(PACKET, |bench, sink| counted(bench, sink, EngineChoice::Packet, Cores::One))]
        }
        Sink::Dropping => vec![
            (PACKET, |bench, sink| counted(bench, sink, EngineChoice::Packet, Cores::One)),
            (PACKET_TWO, |bench, sink| counted(bench, sink, EngineChoice::Packet, Cores::Two)),
            (SOCKET, |bench, sink| counted(bench, sink, EngineChoice::Socket, Cores::One)),
            (SOCKET_TWO, |bench, sink| counted(bench, sink, EngineChoice::Socket, Cores::Two)),
            (LIMIT, |bench, _| Ok(Reached::limit(bare_limit(&bench.lab, bench.time)?))),
            (TIMED, |bench, _| Ok(Reached::limit(timed_limit(&bench.lab, bench.time)?))),
            (PERIODIC, |bench, _| periodic(bench, Cores::One)),
            (STREAMED, |bench, _| {
                Ok(Reached::metered(direct::kernel_streamed(&bench.lab, bench.time)?))
            }),
            (LIMIT_TWO, |bench, _| {
                let cpus = &[bench.lab.cores.send, bench.lab.cores.other];
                let senders = Senders { cpus, copied: &[] };
                Ok(Reached::limit(bare_loop(&bench.lab, FarEnd::Counts, &senders, bench.time)?))
            }),
            (PERIODIC_TWO, |bench, _| periodic(bench, Cores::Two)),
        ],
    }
}

fn flat_out(engine: EngineChoice) -> Setup {
    let wait = WaitChoice::Spin;
    Setup { engine, pace: Pace::FlatOut, wait, cores: Cores::One, receiver: None }
}

/// The kernel engine, metered by the kernel engine.
fn periodic(bench: &Bench, cores: Cores) -> Result<Reached, Failure> {
    let receiver = Some(EngineChoice::Kernel);
    let setup = Setup { receiver, cores, ..flat_out(EngineChoice::Kernel) };
    Ok(Reached::metered(wirebeat::flat_out_metered(&bench.lab, &setup, bench.time)?))
}

fn counted(
    bench: &Bench,
    sink: Sink,
    engine: EngineChoice,
    cores: Cores,
) -> Result<Reached, Failure> {
    let setup = Setup { cores, ..flat_out(engine) };
    Ok(Reached::counted(wirebeat::flat_out(&bench.lab, &setup, sink, bench.time)?, sink))
}

pub(super) fn of_peer(bench: &Bench, peer: &Peer, sink: Sink) -> Result<Reached, Failure> {
    let Bench { lab, files, time, .. } = bench;
    let open = sink.open(lab)?;
    let running = peers::start(lab, files, peer, Pace::FlatOut, Some(sink))?;
    let counted = window::observe(lab, &open, *time, || true);
    // what the peer itself said is the better reason
    running.end()?;
    Ok(Reached::counted(counted?, sink))
}

/// Frames per second of the bare loop, which only counts at the far end.
pub(super) fn bare_limit(lab: &Lab, time: Duration) -> Result<f64, Failure> {
    bare_loop(lab, FarEnd::Counts, &Senders { cpus: &[lab.cores.send], copied: &[] }, time)
}

/// The same, with the clock read for each arrival.
pub(super) fn timed_limit(lab: &Lab, time: Duration) -> Result<f64, Failure> {
    bare_loop(lab, FarEnd::Times, &Senders { cpus: &[lab.cores.send], copied: &[] }, time)
}

/// The same with frames of these lengths copied, the least that anybody does who sends what others wrote.
pub(super) fn copied_limit(
    lab: &Lab,
    (lengths, far_end): (&[u16], FarEnd),
    time: Duration,
) -> Result<f64, Failure> {
    bare_loop(lab, far_end, &Senders { cpus: &[lab.cores.send], copied: lengths }, time)
}

/// Who sends what.
struct Senders<'a> {
    /// A loop on each of these CPUs.
    cpus: &'a [usize],
    copied: &'a [u16],
}

/// The better of two batch sizes, each for half of the time. They take turns many times, so that neither has the better
/// moments of the machine for itself: the better of two moments is not what others are measured against.
fn bare_loop(
    lab: &Lab,
    far_end: FarEnd,
    senders: &Senders<'_>,
    time: Duration,
) -> Result<f64, Failure> {
    // until the last frames have arrived
    const SETTLE: Duration = Duration::from_millis(20);
    const BATCHES: [u32; 2] = [64, 256];
    const TURNS: u32 = 5;
    let far = lab.far().link.index.get();
    let mut arrived = [(0_u64, Duration::ZERO); BATCHES.len()];
    for _ in 0..TURNS {
        for (batch, (frames, took)) in BATCHES.into_iter().zip(&mut arrived) {
            let sink = lab.far().namespace.run(|| kernel::sink(far, far_end))??;
            let flood = Flood {
                copied: senders.copied,
                batch,
                call: Flood::LONG_CALL,
                time: time / 2 / TURNS,
            };
            *took += at_once(lab, senders.cpus, flood)?;
            thread::sleep(SETTLE);
            *frames += sink.count()?;
        }
    }
    let rate = |(frames, took): (u64, Duration)| frames as f64 / took.as_secs_f64();
    Ok(arrived.into_iter().map(rate).fold(0.0, f64::max))
}

/// A loop on each of these CPUs; for how long the longest sent.
pub(super) fn at_once(lab: &Lab, cpus: &[usize], flood: Flood<'_>) -> Result<Duration, Failure> {
    let near = lab.near().link.index.get();
    let on = |cpu| -> Result<Duration, Failure> {
        Ok(lab.near().namespace.run(|| {
            affinity::pin(cpu)?;
            kernel::flood(near, flood)
        })??)
    };
    let elapsed = thread::scope(|scope| {
        let floods: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || on(cpu))).collect();
        let join = |flood: thread::ScopedJoinHandle<'_, _>| {
            flood.join().map_err(|_| "a sender panicked")?
        };
        floods.into_iter().map(join).collect::<Result<Vec<Duration>, Failure>>()
    })?;
    Ok(elapsed.into_iter().max().ok_or("there was no sender")?)
}

fn kernel(entries: &Entries) -> Table {
    let head = ["what", "frames/s", "of the limit", "of the timed one", "lost", "remark"];
    let mut table = Table::new(&head);
    for name in KERNEL {
        let key = (name, Sink::Dropping);
        let Some(measured) = entries.find(name, Sink::Dropping) else { continue };
        let share = |limit| {
            let share = entries.ratio(key, (limit, Sink::Dropping), (read, sent));
            share.map_or(NOTHING.into(), |share| format::ratio(&share))
        };
        let lost = measured.values.iter().map(|reached| reached.lost).sum::<Option<u64>>();
        table.row(vec![
            name.to_owned(),
            format::series(&measured.series(read), format::rate),
            share(LIMIT),
            share(TIMED),
            lost.filter(|_| !measured.values.is_empty()).map_or(NOTHING.into(), |n| n.to_string()),
            measured.remark(),
        ]);
    }
    table
}

/// Length of the frames, which not every tool makes as short as it is told.
fn frame_len<'a>(measured: impl IntoIterator<Item = &'a Measured<Reached>>) -> String {
    let values = measured.into_iter().flat_map(|measured| &measured.values);
    let lengths = Series::new(values.filter_map(|reached| reached.frame_len).collect());
    lengths.median().map_or(NOTHING.into(), |bytes| format!("{bytes:.0} B"))
}

fn reading(entries: &Entries) -> Table {
    let mut table = Table::new(&[
        "tool",
        "frame",
        "sent/s",
        "read/s",
        "sent, of iperf3",
        "read, of iperf3",
        "remark",
    ]);
    for entry in entries.0.iter().filter(|entry| entry.sink == Sink::Reading) {
        let iperf3 = (IPERF3.name, Sink::Reading);
        let of_iperf3 = |figure: Figure| {
            let ratio = entries.ratio((entry.name, entry.sink), iperf3, (figure, figure));
            ratio.map_or(NOTHING.into(), |ratio| format::ratio(&ratio))
        };
        table.row(vec![
            entry.name.to_owned(),
            frame_len([&entry.measured]),
            format::series(&entry.measured.series(sent), format::rate),
            format::series(&entry.measured.series(read), format::rate),
            of_iperf3(sent),
            of_iperf3(read),
            entry.measured.remark(),
        ]);
    }
    table
}

fn unread(entries: &Entries) -> Table {
    let (second, third) = (Sink::Unread, Sink::Dropping);
    let head =
        ["tool", "frame", second.column(), "of trafgen", third.column(), "of trafgen", "remark"];
    let mut table = Table::new(&head);
    let mut names: Vec<&str> = Vec::new();
    let others = entries.0.iter().filter(|entry| entry.sink != Sink::Reading);
    for Entry { name, .. } in others {
        if !names.contains(name) && !KERNEL.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        let found = [second, third].map(|sink| entries.find(name, sink));
        let figure = |sink| {
            let rate = entries.series((name, sink), sent);
            let ratio = entries.ratio((name, sink), (TRAFGEN.name, sink), (sent, sent));
            [
                rate.map_or(NOTHING.into(), |rate| format::series(&rate, format::rate)),
                ratio.map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            ]
        };
        let length = frame_len(found.into_iter().flatten());
        let remarks: Vec<String> =
            found.iter().flatten().map(|m| m.remark()).filter(|text| !text.is_empty()).collect();
        let mut row = vec![name.to_owned(), length];
        row.extend([second, third].into_iter().flat_map(figure));
        row.push(remarks.join("; "));
        table.row(row);
    }
    table
}

/// A target that one ratio is at least so much.
fn at_least(target: &str, bound: f64, ratio: Result<Ratio, String>) -> Verdict {
    match ratio {
        Ok(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= bound),
        Err(why) => Verdict::unmeasured(target, why),
    }
}

fn verdicts(entries: &Entries) -> Vec<Verdict> {
    use Sink::{Dropping, Reading, Unread};
    let periodic = (PERIODIC, Dropping);
    let limit = |a| entries.ratio(a, (LIMIT, Dropping), (read, sent));
    let timed = |a| entries.ratio(a, (TIMED, Dropping), (read, sent));
    let against = |b| entries.ratio(periodic, b, (read, sent));
    let two = (PERIODIC_TWO, Dropping);
    let same = |a, b| entries.ratio(a, b, (sent, sent));
    vec![
        at_least("kernel, periodic, metered: ≥ 0.8 of the physical limit", 0.8, limit(periodic)),
        at_least(
            "kernel, periodic, metered: ≥ 0.7 of the limit with each arrival timed",
            0.7,
            timed(periodic),
        ),
        none_lost(entries, PERIODIC),
        at_least(
            "kernel, periodic: ≥ 8 × trafgen's single process to a socket nobody reads",
            8.0,
            against((TRAFGEN.name, Unread)),
        ),
        at_least(
            "kernel, periodic: ≥ 18 × iperf3 to a reading receiver",
            18.0,
            against((IPERF3.name, Reading)),
        ),
        at_least(
            "kernel, periodic on both cores, as iperf3 uses both: ≥ 18 × iperf3",
            18.0,
            entries.ratio(two, (IPERF3.name, Reading), (read, sent)),
        ),
        at_least(
            "kernel, metered: two transmit cores ≥ 1.6 × one",
            1.6,
            entries.ratio(two, periodic, (read, read)),
        ),
        none_lost(entries, PERIODIC_TWO),
        at_least(
            "kernel, streamed from the other core: ≥ 0.6 of the physical limit",
            0.6,
            limit((STREAMED, Dropping)),
        ),
        at_least(
            "kernel, streamed from the other core: ≥ 0.6 of the limit with each arrival timed",
            0.6,
            timed((STREAMED, Dropping)),
        ),
        at_least(
            "packet ≥ 1 × trafgen's single process to a socket nobody reads",
            1.0,
            same((PACKET, Unread), (TRAFGEN.name, Unread)),
        ),
        at_least(
            "packet ≥ 1 × trafgen's single process into an XDP drop",
            1.0,
            same((PACKET, Dropping), (TRAFGEN.name, Dropping)),
        ),
        socket(entries, "socket, single datagrams: sent and read ≥ 1.25 × iperf3", (SINGLE, 1.25)),
        socket(entries, "socket, GSO and GRO: sent and read ≥ 4 × iperf3", (JOINED, 4.0)),
        at_least(
            "packet: two transmit cores ≥ 1.6 × one, into an XDP drop",
            1.6,
            same((PACKET_TWO, Dropping), (PACKET, Dropping)),
        ),
        at_least(
            "socket: two transmit cores ≥ 1.6 × one, into an XDP drop",
            1.6,
            same((SOCKET_TWO, Dropping), (SOCKET, Dropping)),
        ),
    ]
}

fn none_lost(entries: &Entries, name: &str) -> Verdict {
    let target = &format!("{name}: no frame lost in any round");
    match entries.find(name, Sink::Dropping) {
        Some(measured) if !measured.values.is_empty() => {
            let lost: u64 = measured.values.iter().filter_map(|reached| reached.lost).sum();
            Verdict::of(target, format!("{lost} lost"), lost == 0 && measured.failures.is_empty())
        }
        Some(measured) => Verdict::unmeasured(target, measured.reason()),
        None => Verdict::unmeasured(target, "it was not measured"),
    }
}

/// Both what is sent and what is read count: a sender is of no use that is faster than its receiver.
fn socket(entries: &Entries, target: &str, (name, bound): (&str, f64)) -> Verdict {
    let ratio = |figure: Figure| {
        entries.ratio((name, Sink::Reading), (IPERF3.name, Sink::Reading), (figure, figure))
    };
    match (ratio(sent), ratio(read)) {
        (Ok(sent), Ok(read)) => {
            let figure = format!("sent {}, read {}", format::ratio(&sent), format::ratio(&read));
            Verdict::of(target, figure, sent.median.min(read.median) >= bound)
        }
        (Err(why), _) | (_, Err(why)) => Verdict::unmeasured(target, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    fn entry(name: &'static str, sink: Sink, rates: &[f64]) -> Entry {
        let reached =
            |&sent: &f64| Reached { sent, read: Some(sent / 2.0), lost: Some(0), frame_len: None };
        let values: Vec<Reached> = rates.iter().map(reached).collect();
        let failures = if values.is_empty() { vec!["it died".to_owned()] } else { Vec::new() };
        Entry { name, sink, measured: Measured { values, failures } }
    }

    #[test]
    fn ratios_name_who_is_missing() {
        let entries = Entries(vec![
            entry(PACKET, Sink::Unread, &[4.0, 6.0]),
            entry(TRAFGEN.name, Sink::Unread, &[]),
        ]);
        let ratio = |a, b| entries.ratio((a, Sink::Unread), (b, Sink::Unread), (sent, sent));
        assert_eq!(ratio(PACKET, PACKET).unwrap().median, 1.0);
        assert!(ratio(PACKET, TRAFGEN.name).unwrap_err().contains("it died"));
        assert_eq!(ratio(PACKET, SOCKET).unwrap_err(), "it was not measured");
    }

    #[test]
    fn a_fast_sender_with_a_slow_receiver_misses_the_target() {
        let mut entries = Entries(vec![
            entry(SINGLE, Sink::Reading, &[8.0]),
            entry("iperf3", Sink::Reading, &[2.0]),
        ]);
        assert_eq!(socket(&entries, "t", (SINGLE, 4.0)).outcome, Outcome::Met);
        entries.0[0].measured.values[0].read = Some(1.0);
        assert_eq!(socket(&entries, "t", (SINGLE, 4.0)).outcome, Outcome::Missed);
        assert!(matches!(socket(&entries, "t", (JOINED, 4.0)).outcome, Outcome::Unmeasured(_)));
    }

    #[test]
    fn a_lost_frame_or_a_failed_round_is_not_none_lost() {
        let mut entries = Entries(vec![entry(PERIODIC, Sink::Dropping, &[1.0, 2.0])]);
        assert_eq!(none_lost(&entries, PERIODIC).outcome, Outcome::Met);
        entries.0[0].measured.failures.push("it died".to_owned());
        assert_eq!(none_lost(&entries, PERIODIC).outcome, Outcome::Missed);
        entries.0[0].measured.failures.clear();
        entries.0[0].measured.values[1].lost = Some(1);
        assert_eq!(none_lost(&entries, PERIODIC).outcome, Outcome::Missed);
    }

    #[test]
    fn every_target_has_its_verdict_also_when_nothing_was_measured() {
        let verdicts = verdicts(&Entries(Vec::new()));
        assert_eq!(verdicts.len(), 16);
        assert!(verdicts.iter().all(|v| matches!(v.outcome, Outcome::Unmeasured(_))));
    }
}
