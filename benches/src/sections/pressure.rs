//! Under CPU pressure: everybody at one rate while other programs keep all CPUs, judged by one capture at the far end. Only
//! when it is asked for: the machine is of no use for anything else meanwhile.

use std::thread::sleep;
use std::time::Duration;

use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Process, Program, require};
use wirebeat_traffic::scenario::{EngineChoice, PortSpec, Scenario, Size};
use wirebeat_units::{FrameLen, FrameRate, Nanos, Rate};

use super::Chapter;
use crate::format;
use crate::frames::{NEAR, flow};
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::{self, PORT};
use crate::stats::Series;
use crate::table::Table;
use crate::tcpdump::Capturing;
use crate::verdict::Verdict;
use crate::wirebeat;

/// Bytes of a payload, and from one to the next: a voice-like flow of some 5,000 packets a second.
const PAYLOAD: u16 = 147;
const GAP: Nanos = Nanos::from_micros(196);
const RATE: u64 = 5102;
/// Ethernet, IPv4, UDP and FCS around a payload.
const AROUND: u16 = 14 + 20 + 8 + 4;
/// Programs that want a CPU all the time.
const HOGS: &str = "8";
/// From the first packet on, how long it is not counted: tools start, and the scheduler gets to know them.
const WARM_UP: Nanos = Nanos::from_millis(300);
/// Longest that anybody takes to begin and to end, beside the measurement.
const AROUND_TIME: Duration = Duration::from_secs(15);
/// An interval of fewer rounds says nothing.
const ROUNDS: usize = 10;

const PROSE: &str = "\
`stress-ng -c 8` keeps all CPUs while each tool sends 147 bytes of payload every 196 µs, as its users start it: nobody is \
bound to a CPU, and Wirebeat has its default priority. tcpdump captures at the far end, with the kernel's timestamps; the \
rate is that of the frames captured in the time of a measurement, and the error of a gap |gap − 196 µs|. Ratios are of the \
same round; their median has a bootstrap interval of 95 % (10,000 resamples). An engine is worse where the whole interval \
is on the wrong side of 1.";

/// The program that is started here alone, and its package.
pub const PROGRAMS: [(&str, &str); 1] = [("stress-ng", "stress-ng")];

/// Who sends.
#[derive(Clone, Copy, Debug)]
enum Who {
    Wirebeat(&'static str, EngineChoice),
    Peer(&'static Tool),
}

/// A tool: its package's program at the sending end, and at the far end.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    program: &'static str,
    sender: fn(&str) -> Vec<String>,
    receiver: Option<&'static str>,
}

fn words(text: String) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

const IPERF: Tool = Tool {
    name: "iperf 2",
    program: "iperf",
    sender: |to| {
        words(format!("-u -c {to} -p {PORT} -l {PAYLOAD} -t 60 --no-udp-fin -b {RATE}pps"))
    },
    receiver: None,
};

fn mgen(more: &str, to: &str) -> Vec<String> {
    let event = format!("ON 1 UDP DST {to}/{PORT} PERIODIC [{RATE} {PAYLOAD}]");
    words(format!("nolog {more} event")).into_iter().chain([event]).collect()
}

const MGEN: Tool =
    Tool { name: "MGEN", program: "mgen", sender: |to| mgen("", to), receiver: None };
const MGEN_PRECISE: Tool = Tool {
    name: "MGEN precise",
    program: "mgen",
    sender: |to| mgen("precise on", to),
    receiver: None,
};
const DITG: Tool = Tool {
    name: "D-ITG",
    program: "ITGSend",
    sender: |to| words(format!("-a {to} -T UDP -c {PAYLOAD} -C {RATE} -t 60000")),
    receiver: Some("ITGRecv"),
};
const NUTTCP: Tool = Tool {
    name: "nuttcp",
    program: "nuttcp",
    sender: |to| words(format!("-t -u -l{PAYLOAD} -T60 -Ri{RATE}p {to}")),
    receiver: Some("nuttcp -S -1 --nofork"),
};

const ALL: [Who; 8] = [
    Who::Wirebeat("Wirebeat kernel", EngineChoice::Kernel),
    Who::Peer(&IPERF),
    Who::Wirebeat("Wirebeat packet", EngineChoice::Packet),
    Who::Peer(&MGEN),
    Who::Peer(&MGEN_PRECISE),
    Who::Wirebeat("Wirebeat socket", EngineChoice::Socket),
    Who::Peer(&DITG),
    Who::Peer(&NUTTCP),
];

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Wirebeat(name, _) => name,
            Who::Peer(tool) => tool.name,
        }
    }

    fn is_ours(self) -> bool {
        matches!(self, Who::Wirebeat(..))
    }
}

/// What the capture says of one measurement; errors in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    rate: f64,
    p50: f64,
    p99: f64,
}

impl Seen {
    /// Of the times of packets, in nanoseconds: those within `time` after the warm-up.
    fn of(times: &[u64], time: Duration) -> Result<Seen, Failure> {
        let from = times.first().ok_or("nothing was captured")? + WARM_UP.get();
        let until = from + time.as_nanos() as u64;
        let within: Vec<u64> =
            times.iter().copied().filter(|time| (from..until).contains(time)).collect();
        let gaps = within.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        let mut errors: Vec<u64> = gaps.map(|gap| gap.abs_diff(GAP.get())).collect();
        errors.sort_unstable();
        let quantile = |q: f64| {
            let at = (q * errors.len() as f64) as usize;
            errors.get(at.min(errors.len().saturating_sub(1))).map(|&error| error as f64)
        };
        Ok(Seen {
            rate: within.len() as f64 / time.as_secs_f64(),
            p50: quantile(0.5).ok_or("too little was captured")?,
            p99: quantile(0.99).ok_or("too little was captured")?,
        })
    }
}

/// Measures everybody.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestants: Vec<Contestant<'_, Seen>> =
        ALL.iter().map(|&who| Contestant::new(who.name(), move |bench| seen(bench, who))).collect();
    let all = in_turn(bench, &contestants, |seen| {
        let [p50, p99] = [seen.p50, seen.p99].map(format::time);
        format!("{:.0}/s, gaps off by {p50} / {p99}", seen.rate)
    });
    let entries: Vec<(Who, Measured<Seen>)> = ALL.into_iter().zip(all).collect();
    Chapter {
        title: "Under CPU pressure",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table(&entries))],
        picture: None,
        verdicts: verdicts(&entries),
    }
}

/// Hogs on every CPU, until they are dropped; by themselves they end soon after.
fn hogs(lab: &Lab, time: Duration) -> Result<Process, Failure> {
    require(Capability::Program("stress-ng"))?;
    let limit = (time + AROUND_TIME).as_secs().to_string();
    let hogs = Program::new(&lab.near().namespace, "stress-ng");
    let hogs = hogs.args(["-c", HOGS, "--timeout", &limit]).spawn()?;
    sleep(Duration::from_millis(300));
    Ok(hogs)
}

fn seen(bench: &Bench, who: Who) -> Result<Seen, Failure> {
    let Bench { lab, time, .. } = bench;
    // a virtual cable takes redirected frames without a program at its far end where GRO is on: it is, for everybody
    let mut far = lab.far().netlink()?;
    far.set_features(lab.far().link.index, &[("rx-gro", true)])?;
    // what is late leaves the socket engine joined, and would be one packet to the capture
    let mut near = lab.near().netlink()?;
    near.set_features(lab.near().link.index, &[("tx-udp-segmentation", false)])?;
    // nobody must answer that the port is closed
    let _socket = sinks::unread(lab)?;
    let all = *time + WARM_UP.to_duration() + Duration::from_millis(700);
    let capture = Capturing::of(lab, &["udp", "and", "greater", "180"])?;
    let _hogs = hogs(lab, all)?;
    match who {
        Who::Wirebeat(_, engine) => {
            wirebeat::run(lab, &scenario(lab, engine, all), &Stop::new())?;
        }
        Who::Peer(tool) => run_tool(lab, tool, all)?,
    }
    Seen::of(&capture.times()?, *time)
}

/// As `wirebeat send` means it: no CPU is named.
fn scenario(lab: &Lab, engine: EngineChoice, time: Duration) -> Scenario {
    let mut scenario = Scenario::default();
    let port = PortSpec {
        interface: Some(lab.near().interface().to_owned()),
        namespace: Some(NEAR.to_owned()),
        engine,
        ..PortSpec::default()
    };
    scenario.ports.insert(NEAR.to_owned(), port);
    let mut flow = flow(lab);
    flow.size = Some(Size::frame(FrameLen::with_fcs(PAYLOAD + AROUND)));
    flow.rate = Rate::Frames(FrameRate { frames: 1, per: GAP }).into();
    scenario.flows.insert("bench".to_owned(), flow);
    scenario.run.time = Some(Nanos::new(time.as_nanos() as u64));
    scenario
}

fn run_tool(lab: &Lab, tool: &Tool, time: Duration) -> Result<(), Failure> {
    require(Capability::Program(tool.program))?;
    let receiver = tool.receiver.map(|command| {
        let mut command = words(command.to_owned()).into_iter();
        let program = command.next().unwrap_or_default();
        Program::new(&lab.far().namespace, program).args(command).spawn()
    });
    let _receiver = receiver.transpose()?;
    sleep(Duration::from_millis(300));
    let to = lab.far().ipv4.to_string();
    let sender =
        Program::new(&lab.near().namespace, tool.program).args((tool.sender)(&to)).spawn()?;
    // those that agree on a test first take their time for it
    let beginning = if tool.receiver.is_some() { Duration::from_secs(1) } else { Duration::ZERO };
    sleep(time + beginning);
    drop(sender);
    Ok(())
}

fn table(entries: &[(Who, Measured<Seen>)]) -> Table {
    let mut table = Table::new(&["tool", "frames/s", "gap error p50", "p99", "remark"]);
    for (who, measured) in entries {
        let cell = |figure: fn(&Seen) -> f64, text: fn(f64) -> String| {
            format::series(&measured.series(figure), text)
        };
        table.row(vec![
            who.name().to_owned(),
            cell(|seen| seen.rate, format::rate),
            cell(|seen| seen.p50, format::time),
            cell(|seen| seen.p99, format::time),
            measured.remark(),
        ]);
    }
    table
}

/// What is compared: its name, whether more is better, and the figure.
type Figure = (&'static str, bool, fn(&Seen) -> f64);
const FIGURES: [Figure; 3] = [
    ("delivered rate not below iperf 2's", true, |seen| seen.rate),
    ("median gap error not above the best peer's", false, |seen| seen.p50),
    ("99th percentile of the gap error not above the best peer's", false, |seen| seen.p99),
];

fn verdicts(entries: &[(Who, Measured<Seen>)]) -> Vec<Verdict> {
    let ours = entries.iter().filter(|(who, _)| who.is_ours());
    ours.flat_map(|(who, own)| {
        FIGURES.iter().map(|figure| verdict(who.name(), own, (figure, entries)))
    })
    .collect()
}

fn verdict(
    name: &str,
    own: &Measured<Seen>,
    ((what, more, figure), entries): (&Figure, &[(Who, Measured<Seen>)]),
) -> Verdict {
    let target = format!("{name}: {what}");
    let peers = entries.iter().filter(|(who, measured)| {
        let compared = if *more { who.name() == IPERF.name } else { !who.is_ours() };
        compared && !measured.values.is_empty()
    });
    let median = |measured: &Measured<Seen>| measured.series(figure).median().unwrap_or(f64::MAX);
    let Some((peer, measured)) = peers.min_by(|a, b| median(&a.1).total_cmp(&median(&b.1))) else {
        return Verdict::unmeasured(target, "no peer could be measured");
    };
    if !own.failures.is_empty() || !measured.failures.is_empty() {
        return Verdict::unmeasured(target, "rounds failed, and what is left has no pairs");
    }
    let pairs = own.values.iter().zip(&measured.values);
    let ratios: Vec<f64> = pairs.map(|(own, peer)| figure(own) / figure(peer).max(1.0)).collect();
    if ratios.len() < ROUNDS {
        let few = format!("{} rounds, and an interval takes {ROUNDS}", ratios.len());
        return Verdict::unmeasured(target, few);
    }
    let ratios = Series::new(ratios);
    let (low, high) = ratios.median_interval().unwrap_or((f64::NAN, f64::NAN));
    let middle = ratios.median().unwrap_or(f64::NAN);
    let text = format!("{middle:.3} of {}'s, 95 %: {low:.3} to {high:.3}", peer.name());
    Verdict::of(target, text, if *more { high >= 1.0 } else { low <= 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn a_measurement_is_what_was_captured_in_its_time() {
        let mut times: Vec<u64> = (0..20_000).map(|n| 7 + n * GAP.get()).collect();
        let seen = Seen::of(&times, Duration::from_secs(1)).unwrap();
        assert!((seen.rate - 5102.0).abs() <= 1.0, "{seen:?}");
        assert_eq!((seen.p50, seen.p99), (0.0, 0.0));
        // every other one in that second is 50 us late
        times.iter_mut().skip(1_000).step_by(2).for_each(|time| *time += 50_000);
        let seen = Seen::of(&times, Duration::from_secs(1)).unwrap();
        assert_eq!((seen.p50, seen.p99), (50_000.0, 50_000.0));
        assert!(Seen::of(&[], Duration::from_secs(1)).is_err());
        assert!(Seen::of(&[1, 2], Duration::from_secs(1)).is_err());
    }

    fn entry(who: Who, rounds: usize, rate: f64, p99: f64) -> (Who, Measured<Seen>) {
        let values = vec![Seen { rate, p50: p99 / 10.0, p99 }; rounds];
        (who, Measured { values, failures: Vec::new() })
    }

    #[test]
    fn an_engine_is_worse_where_the_whole_interval_says_so() {
        let own = Who::Wirebeat("ours", EngineChoice::Packet);
        let outcomes = |rounds, rate, p99| {
            let entries = [
                entry(own, rounds, rate, p99),
                entry(Who::Peer(&IPERF), rounds, 5000.0, 9_000.0),
                entry(Who::Peer(&MGEN), rounds, 6000.0, 4_000.0),
            ];
            verdicts(&entries).into_iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(10, 5000.0, 4_000.0), vec![Outcome::Met; 3]);
        assert_eq!(
            outcomes(10, 4900.0, 5_000.0),
            vec![Outcome::Missed; 3],
            "MGEN is the best in gaps"
        );
        assert!(matches!(outcomes(9, 5000.0, 1.0)[0], Outcome::Unmeasured(_)));
    }
}
