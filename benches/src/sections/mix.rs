//! A mix of applications over the cable: the most that two cores carry of it beside a bare loop of frames, and how exact its starts are beside
//! those of one application alone.

use std::time::Duration;

use wirebeat_report::model::{Interval, Report, SessionEnd};
use wirebeat_run::{Observer, Options, Progress, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use super::{Chapter, wire};
use crate::format::{self, NOTHING};
use crate::frames::{FAR, NEAR};
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sessions::Tcp;
use crate::stats::Ratio;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::whole;

const PROSE: &str = "\
`examples/mix-provider.yaml` over the cable, clients of our own TCP on one core and servers on the other: seventeen groups, of which some are \
the two directions of one application; TLS, UDP and all think times are in it. Its bandwidth is raised by a quarter at a time, from 1 Gbit/s on, \
until it is not carried, and then what is between is halved twice; what is not carried twice counts as not carried: more than one session in a hundred thousand fails or expires (RFC 9411 §7), fewer than 95 % of the bits are sent, or the 99th percentile \
of the start lateness is above 10 ms. What is counted begins when the first calls have ended. Frames are those that both ends sent, and those of a large packet are counted one by one. The limit is the \
bare loop of the chapter before, with frames as long as those of the mix are on average: each is written and read by itself. \
The second table has the start lateness of one group in the mix, and of the same \
group alone with all the bandwidth, and in the mix with HTTPS as HTTP; all wait by spinning. A handshake of TLS is computed by the core that starts \
sessions, which no start can interrupt: where that takes more than a hundredth of its time, it is the 99th percentile. Over the engine `kernel` \
it is what the kernel takes in one piece to move frames: the bare loop of that engine in the chapter on starts, at 50,000 frames a second each way, \
has a 99th percentile of its own that shows it.";

/// The example, and the lines of it that are changed.
const EXAMPLE: &str = include_str!("../../../examples/mix-provider.yaml");
const PORTS: [&str; 2] = [
    "    interface: ${a}\n    engine: ${engine}\n    cable: { delay: 5ms, rate: 10Gbps }\n",
    "    interface: ${b}\n    engine: ${engine}\n    cable: { delay: 5ms, rate: 10Gbps }\n",
];
const RATE: &str = "  rate: ${rate}\n";
const RUN: &str = "run: { time: 10s }";
/// The group whose starts are looked at, which is the first, and the one behind it.
const GROUP: &str = "http-get";
const BEHIND: &str = "  http-post:\n";
const MIX: &str = "mix:\n";
/// What makes a group one over TLS, and what is expected of that.
const TLS: &str = "    tls: true\n";
const OF_TLS: &str = ", handshakes.failed == 0";

/// Until the first sessions of the longest group have ended.
const WARM_UP: Nanos = Nanos::from_millis(5000);
/// How often a run is looked at.
const LOOK: Nanos = Nanos::from_millis(500);
/// The first bandwidth in Mbit/s, and how often it is raised at most.
const FIRST: u64 = 1000;
const RAISED: u32 = 16;
/// How often it is halved between what is carried and what is not.
const HALVED: u32 = 2;
/// Runs of a bandwidth that is not carried: one may have met another program of this machine.
const TRIES: u32 = 2;
/// Sessions of which one may fail or expire (RFC 9411 §7), and the share of the bits that has to be sent.
const FAILED_OF: u64 = 100_000;
const SENT: f64 = 0.95;
/// The start lateness up to which a bandwidth counts as carried, in ns.
const LATE: f64 = 10e6;
/// What frames of the mix have to reach of those of the bare loop.
const SHARE: f64 = 0.5;
/// The bandwidth at which starts are compared, in Mbit/s, and how many times that of the group alone its 99th percentile may be.
const COMPARED: u64 = 500;
const MOST: f64 = 1.5;
const ENGINES: [Tcp; 2] = [Tcp::Packet, Tcp::Kernel];

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Mix,
    /// The mix without TLS.
    Plain,
    /// [`GROUP`] with all the bandwidth.
    Alone,
}

impl Which {
    /// Those whose starts are compared: first what the others are held against.
    const COMPARED: [Which; 3] = [Which::Alone, Which::Mix, Which::Plain];

    const fn name(self) -> &'static str {
        match self {
            Which::Mix => "in the mix",
            Which::Plain => "in the mix without TLS",
            Which::Alone => "of the group alone",
        }
    }
}

/// What a run of the mix came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Went {
    /// Mbit/s that were asked for.
    asked: f64,
    /// Bits and frames of both directions in a second.
    bits: f64,
    frames: f64,
    /// Sessions of clients that were opened in a second.
    opened: f64,
    /// The 50th and 99th percentile of the start lateness of [`GROUP`], in ns.
    p50: f64,
    p99: f64,
    /// Frames of a bare loop, as long as those of the mix.
    bare: f64,
}

impl Went {
    /// Bytes of a frame without FCS.
    fn frame(&self) -> u16 {
        (self.bits / 8.0 / self.frames - 4.0).clamp(60.0, 1514.0) as u16
    }
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants = Vec::new();
    for tcp in ENGINES {
        contestants
            .push(Contestant::new(format!("mix: {}", tcp.name()), move |b: &Bench| most(b, tcp)));
    }
    for tcp in ENGINES {
        for which in Which::COMPARED {
            let name =
                format!("starts of {GROUP} {} at {COMPARED} Mbit/s: {}", which.name(), tcp.name());
            contestants.push(Contestant::new(name, move |bench: &Bench| {
                run(&bench.lab, (tcp, COMPARED, which), bench.time.max(Duration::from_secs(5)))?
                    .0
                    .ok_or_else(|| "it was not carried".into())
            }));
        }
    }
    let measured = in_turn(bench, &contestants, |went| {
        format!(
            "{} of {} Mbit/s, {} frames/s, starts late by {} / {}",
            format::number(went.bits / 1e6),
            format::number(went.asked),
            format::rate(went.frames),
            format::time(went.p50),
            format::time(went.p99)
        )
    });
    drop(contestants);
    let (most, starts) = measured.split_at(ENGINES.len());
    chapter(most, starts)
}

fn chapter(most: &[Measured<Went>], starts: &[Measured<Went>]) -> Chapter {
    let mut verdicts = Vec::new();
    let mut carried = Table::new(&[
        "ports",
        "Mbit/s",
        "sessions/s",
        "frames/s",
        "bytes of a frame",
        "bare frames/s",
        "of them",
        "remark",
    ]);
    for (tcp, of) in ENGINES.into_iter().zip(most) {
        let figure = |figure: fn(&Went) -> f64| of.series(figure);
        let share = figure(|went| went.frames).over(&figure(|went| went.bare));
        carried.row(vec![
            tcp.name().to_owned(),
            format::series(&figure(|went| went.bits / 1e6), format::number),
            format::series(&figure(|went| went.opened), format::rate),
            format::series(&figure(|went| went.frames), format::rate),
            format::series(&figure(|went| went.frame().into()), format::number),
            format::series(&figure(|went| went.bare), format::rate),
            share.as_ref().map_or(NOTHING.into(), format::ratio),
            of.remark(),
        ]);
        let target =
            format!("{}, frames/s of a mix over veth ≥ {SHARE} of bare frames/s", tcp.name());
        verdicts.push(match &share {
            Some(share) => Verdict::of(target, format::ratio(share), share.median >= SHARE),
            None => Verdict::unmeasured(target, of.reason()),
        });
    }
    let mut exact = Table::new(&["ports", "sessions", "opened/s", "p50", "p99", "remark"]);
    let each = Which::COMPARED.len();
    for (tcp, all) in ENGINES.into_iter().zip(starts.chunks_exact(each)) {
        for (of, which) in all.iter().zip(Which::COMPARED) {
            exact.row(vec![
                tcp.name().to_owned(),
                format!("{GROUP}, {}", which.name()),
                format::series(&of.series(|went| went.opened), format::rate),
                format::series(&of.series(|went| went.p50), format::time),
                format::series(&of.series(|went| went.p99), format::time),
                of.remark(),
            ]);
        }
        let Some((alone, mixes)) = all.split_first() else { continue };
        for (mix, which) in mixes.iter().zip(Which::COMPARED.into_iter().skip(1)) {
            let ratio: Option<Ratio> =
                mix.series(|went| went.p99).over(&alone.series(|went| went.p99));
            let target = format!(
                "{}, {COMPARED} Mbit/s: p99 of start lateness {} ≤ {MOST} × that of one application alone",
                tcp.name(),
                which.name()
            );
            verdicts.push(match &ratio {
                Some(ratio) => Verdict::of(target, format::ratio(ratio), ratio.median <= MOST),
                None => Verdict::unmeasured(target, [mix, alone].map(Measured::reason).join("; ")),
            });
        }
    }
    Chapter {
        title: "A mix of applications",
        prose: PROSE,
        tables: vec![
            (
                "The most that was carried, medians of the rounds and their range:".to_owned(),
                carried,
            ),
            (format!("Start lateness at {COMPARED} Mbit/s:"), exact),
        ],
        picture: None,
        verdicts,
    }
}

/// The highest bandwidth that is carried, and a bare loop beside it.
fn most(bench: &Bench, tcp: Tcp) -> Result<Went, Failure> {
    let (mut best, mut asked, mut beyond) = (None, FIRST, None);
    let mut between = HALVED;
    for _ in 0..RAISED {
        let (carried, why) = tried(bench, tcp, asked)?;
        match (carried, best.is_some()) {
            (Some(carried), _) => best = Some((asked, carried)),
            (None, false) => return Err(why.into()),
            (None, true) => beyond = Some(asked),
        }
        let (Some((carried, _)), Some(beyond)) = (best, beyond) else {
            asked = asked * 5 / 4;
            continue;
        };
        if between == 0 {
            break;
        }
        between -= 1;
        asked = carried.midpoint(beyond);
    }
    let (_, best) = best.ok_or("nothing was carried")?;
    let bare = wire::frames(&bench.lab, tcp, best.frame(), bench.time)?;
    Ok(Went { bare, ..best })
}

/// Runs a bandwidth until it is carried, as often as it may be tried.
fn tried(bench: &Bench, tcp: Tcp, asked: u64) -> Result<(Option<Went>, String), Failure> {
    let mut outcome = (None, String::new());
    for _ in 0..TRIES {
        outcome = run(&bench.lab, (tcp, asked, Which::Mix), bench.time)?;
        if outcome.0.is_some() {
            break;
        }
        eprintln!("    {} with {asked} Mbit/s: not carried: {}", tcp.name(), outcome.1);
    }
    Ok(outcome)
}

/// The example over the cable with so many Mbit/s, or its first group alone with all of them.
fn scenario(lab: &Lab, (tcp, asked, which): (Tcp, u64, Which)) -> Result<Scenario, Failure> {
    let engine = if tcp == Tcp::Kernel { "kernel" } else { "packet" };
    let port = |namespace: &str, interface: &str, core: usize| {
        format!(
            "    interface: {interface}\n    namespace: {namespace}\n    engine: {engine}\n    cores: [ {core} ]\n"
        )
    };
    let (near, far) = (lab.near(), lab.far());
    let mut text = EXAMPLE.to_owned();
    let mut change = |from: &str, to: &str| {
        // an example that was changed does not go unnoticed
        let found = text.matches(from).count();
        text = text.replace(from, to);
        if found == 1 { Ok(()) } else { Err(format!("the example has '{from}' {found} times")) }
    };
    change(PORTS[0], &port(NEAR, &near.link.name, lab.cores.send))?;
    change(PORTS[1], &port(FAR, &far.link.name, lab.cores.other))?;
    change(RATE, &format!("  rate: {asked}Mbps\n"))?;
    change(RUN, "run: { time: 100s, wait: spin }")?;
    if which == Which::Plain {
        change(TLS, "")?;
        change(OF_TLS, "")?;
    }
    if which == Which::Alone {
        let (head, rest) = text.split_once(BEHIND).ok_or("the example has no second group")?;
        let (_, run) = rest.split_once("\nrun:").ok_or("the example has no run")?;
        text = format!("{head}{MIX}  rate: {asked}Mbps\n  shares: {{ {GROUP}: 1 }}\nrun:{run}");
    }
    Ok(Scenario::from_yaml(&text, "mix").map_err(|why| format!("{why}\n{text}"))?)
}

/// Runs it until `time` of it was counted. Nothing and the reason where it was not carried.
fn run(
    lab: &Lab,
    what: (Tcp, u64, Which),
    time: Duration,
) -> Result<(Option<Went>, String), Failure> {
    let mut options = Options { interval: Some(LOOK), ..Options::default() };
    for (name, end) in [(NEAR, lab.near()), (FAR, lab.far())] {
        options.namespaces.insert(name.to_owned(), end.namespace.clone());
    }
    let stop = Stop::new();
    let mut steady = Steady::new(time, stop.clone());
    let report = prepare(&scenario(lab, what)?, options)?.start(&mut steady, &stop);
    let report = whole(report)?;
    let mut went = steady.went()?;
    went.asked = what.1 as f64;
    let group = report
        .sessions
        .iter()
        .find(|group| group.name == GROUP && group.end == SessionEnd::Client)
        .ok_or("the report lost its first group")?;
    let late = &group.start_lateness_ns.percentiles;
    let of = |ns: Option<i64>| ns.map(|ns| ns as f64).ok_or("too few sessions were started");
    (went.p50, went.p99) = (of(late.p50)?, of(late.p99)?);
    Ok(match obstacle(&report) {
        Some(why) => (None, why),
        None if went.bits < SENT * went.asked * 1e6 => {
            (None, format!("{} Mbit/s were sent", format::number(went.bits / 1e6)))
        }
        None if went.p99 > LATE => (None, format!("starts are late by {}", format::time(went.p99))),
        None => (Some(went), String::new()),
    })
}

/// Why a run did not carry what was asked.
fn obstacle(report: &Report) -> Option<String> {
    let clients = || report.sessions.iter().filter(|group| group.end == SessionEnd::Client);
    let due: u64 = clients().filter_map(|group| group.starts.due).sum();
    let failed = clients().map(|group| {
        let there: u64 = group.ends.failed_there().iter().map(|(_, count)| count).sum();
        (group, there + group.ends.failed_here + group.starts.expired.unwrap_or(0))
    });
    let failed: Vec<(&str, u64)> = failed
        .filter(|(_, failed)| *failed > 0)
        .map(|(group, failed)| (group.name.as_str(), failed))
        .collect();
    let all: u64 = failed.iter().map(|(_, failed)| failed).sum();
    let most = failed.iter().max_by_key(|(_, failed)| failed);
    let of = most.map_or(String::new(), |(name, failed)| format!(", {failed} of them of {name}"));
    (all > due / FAILED_OF).then(|| format!("of {due} sessions {all} failed or expired{of}"))
}

/// Counts what ports send and clients open from the warm-up on, and stops a run when that is enough.
#[derive(Debug)]
struct Steady {
    /// How long is counted, in nanoseconds.
    time: u64,
    stop: Stop,
    /// From when to when, in nanoseconds of the run.
    span: Option<(u64, u64)>,
    sums: [u64; 3],
}

impl Steady {
    fn new(time: Duration, stop: Stop) -> Steady {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Steady { time, stop, span: None, sums: [0; 3] }
    }

    fn went(&self) -> Result<Went, Failure> {
        let (from, to) = self.span.ok_or("it ended before it was counted")?;
        let seconds = to.saturating_sub(from) as f64 / 1e9;
        let [frames, bytes, opened] = self.sums.map(|sum| sum as f64 / seconds);
        match frames > 0.0 {
            true => Ok(Went { bits: bytes * 8.0, frames, opened, ..Went::default() }),
            false => Err("nothing was sent".into()),
        }
    }
}

impl Observer for Steady {
    fn progress(&mut self, _progress: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn interval(&mut self, interval: &Interval) {
        let (from, to) = self.span.unwrap_or((interval.from_ns, interval.from_ns));
        if interval.from_ns < WARM_UP.get() || to.saturating_sub(from) >= self.time {
            return;
        }
        for stack in &interval.stacks {
            self.sums[0] += stack.sent.frames;
            self.sums[1] += stack.sent.frame_bytes;
        }
        for group in interval.sessions.iter().filter(|group| group.end == SessionEnd::Client) {
            self.sums[2] += group.opened;
        }
        self.span = Some((from, interval.to_ns));
        if interval.to_ns.saturating_sub(from) >= self.time {
            self.stop.ask(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_report::model::{FlowInterval, IntervalSent, StackInterval};

    use super::*;

    #[test]
    fn what_is_counted_begins_behind_the_warm_up() {
        let (stop, looks) = (Stop::new(), 500_000_000);
        let mut steady = Steady::new(Duration::from_secs(1), stop.clone());
        assert!(steady.went().is_err());
        for number in 0..20 {
            assert_eq!(stop.asked(), number > 11, "{number}");
            let sent = IntervalSent { frames: 100, frame_bytes: 50_000 };
            let stack = StackInterval { sent, ..StackInterval::default() };
            steady.interval(&Interval {
                from_ns: number * looks,
                to_ns: (number + 1) * looks,
                total: FlowInterval::default(),
                flows: Vec::new(),
                sessions: Vec::new(),
                stacks: vec![stack.clone(), stack],
                expired: None,
                cpus: None,
            });
        }
        let went = steady.went().unwrap();
        assert_eq!((went.frames, went.bits, went.frame()), (400.0, 1.6e6, 496));
    }

    #[test]
    fn shares_are_of_the_same_round() {
        let went = |frames, p99| Measured {
            values: vec![Went { frames, bare: 1e6, p99, bits: 1e9, ..Went::default() }],
            failures: Vec::new(),
        };
        let most = [went(5e5, 1.0), went(4e5, 1.0)];
        let starts = [100.0, 150.0, 151.0, 100.0, 100.0].map(|p99| went(1.0, p99));
        let starts = starts.into_iter().chain([Measured::failed("x")]).collect::<Vec<_>>();
        let chapter = chapter(&most, &starts);
        let outcomes: Vec<bool> =
            chapter.verdicts.iter().map(|one| one.outcome == Outcome::Met).collect();
        assert_eq!(outcomes, [true, false, true, false, true, false]);
    }

    use crate::verdict::Outcome;
}
