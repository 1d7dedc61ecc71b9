//! When sessions start: how much later than planned, beside frames of UDP at the same rates, and beside bare loops that only open.

mod bare;
mod memory;

use std::time::Duration;

use wirebeat_report::model::{SessionEnd, Stats};
use wirebeat_run::Stop;
use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::peers::Pace;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sessions::{Group, Path, Tcp};
use crate::stats::{Ratio, Series};
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::Setup;

const PROSE: &str = "\
Send lateness of frames and start lateness of sessions: how much later than planned each left. Sessions come from one core to a \
server on the other over the cable, connect, and are reset when they are established; frames are 64 bytes long, from one core, \
and are metered at the far end by the kernel engine. All wait by spinning. A session costs its sender a connection, not a frame: \
where that takes longer than the time from one start to the next, sessions wait for those before them. The bare loops show what the \
way to the peer allows: over the ports of our own TCP one frame of 74 bytes is sent for each start and one is answered and read, which is less \
than any handshake; over the system's TCP `connect` without waiting, and a reset of the oldest as soon as it is established. They keep no \
session, run no timer and measure nothing but how late each start began. Where a bare loop itself is later than the target, \
nothing that opens sessions on this way can meet it. In memory each session starts at its planned time, since the clock is virtual; the rate is \
by the time that one core took for both ends, which are connected, reset and metered.";

/// Starts in a second.
const RATES: [u64; 2] = [10_000, 50_000];
/// The port of the servers.
const PORT: u16 = 7;

/// Who starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Frames of UDP.
    Frames(EngineChoice),
    /// Sessions.
    Sessions(Tcp),
    /// A bare loop over the same ports, or sockets.
    Bare(Tcp),
}

/// Those who are measured at each rate.
const CASES: [Who; 8] = [
    Who::Frames(EngineChoice::Packet),
    Who::Frames(EngineChoice::Socket),
    Who::Sessions(Tcp::Host),
    Who::Sessions(Tcp::Packet),
    Who::Sessions(Tcp::Kernel),
    Who::Bare(Tcp::Host),
    Who::Bare(Tcp::Packet),
    Who::Bare(Tcp::Kernel),
];

/// Sessions, and the frames that they are held against.
const PAIRS: [(Who, Who); 2] = [
    (Who::Sessions(Tcp::Host), Who::Frames(EngineChoice::Socket)),
    (Who::Sessions(Tcp::Packet), Who::Frames(EngineChoice::Packet)),
];
/// How many times the 99th percentile of frames that of sessions may be, at each rate.
const MOST: [f64; 2] = [1.5, 3.0];

/// How late starts were, in ns, and how many there were in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Late {
    p50: f64,
    p99: f64,
    rate: f64,
}

impl Who {
    fn name(self) -> String {
        match self {
            Who::Frames(engine) => format!("UDP, engine {}", engine.name()),
            Who::Sessions(tcp) => format!("sessions, {}", tcp.name()),
            Who::Bare(Tcp::Host) => "bare loop, connect".to_owned(),
            Who::Bare(Tcp::Packet) => "bare loop, engine packet".to_owned(),
            Who::Bare(Tcp::Kernel) => "bare loop, engine kernel".to_owned(),
        }
    }
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants = Vec::new();
    for rate in RATES {
        for who in CASES {
            let name = format!("starts at {rate}/s: {}", who.name());
            contestants.push(Contestant::new(name, move |bench: &Bench| late(bench, who, rate)));
        }
    }
    let name = format!("starts at {}/s in memory", memory::RATE);
    contestants.push(Contestant::new(name, move |bench: &Bench| memory::starts(bench.time)));
    let brief = |late: &Late| {
        let [p50, p99] = [late.p50, late.p99].map(format::time);
        format!("p50 {p50}, p99 {p99}, {}/s", format::rate(late.rate))
    };
    let measured = in_turn(bench, &contestants, brief);
    let mut table = Table::new(&[
        "asked /s",
        "who",
        "started /s",
        "p50",
        "p99",
        "p99 of packet's",
        "p99 of socket's",
        "p99 of the bare loop's",
        "remark",
    ]);
    for (at, rate) in RATES.into_iter().enumerate() {
        let of = |who| ratio(&measured, at, who);
        for (who, one) in CASES.into_iter().zip(measured.iter().skip(at * CASES.len())) {
            let times =
                |figure: fn(&Late) -> f64| format::series(&one.series(figure), format::time);
            let over = |floor| {
                of((who, floor)).map_or(NOTHING.into(), |ratio: Ratio| format::ratio(&ratio))
            };
            table.row(vec![
                format::rate(rate as f64),
                who.name(),
                format::series(&one.series(|late| late.rate), format::rate),
                times(|late| late.p50),
                times(|late| late.p99),
                over(CASES[0]),
                over(CASES[1]),
                match who {
                    Who::Sessions(tcp) => over(Who::Bare(tcp)),
                    Who::Frames(_) | Who::Bare(_) => NOTHING.into(),
                },
                one.remark(),
            ]);
        }
    }
    let mut verdicts = Vec::new();
    for ((at, rate), most) in RATES.into_iter().enumerate().zip(MOST) {
        for (who, floor) in PAIRS {
            let target = format!(
                "{}, {}/s: p99 of start lateness ≤ {most} × that of {}",
                who.name(),
                format::rate(rate as f64),
                floor.name()
            );
            verdicts.push(match ratio(&measured, at, (who, floor)) {
                Some(of_ours) => {
                    let bare = match who {
                        Who::Sessions(tcp) => ratio(&measured, at, (Who::Bare(tcp), floor)),
                        Who::Frames(_) | Who::Bare(_) => None,
                    };
                    let bare = bare.filter(|bare| bare.median > most);
                    Verdict::of(target, format::ratio(&of_ours), of_ours.median <= most)
                        .or_floor(bare.map(|bare| format::ratio(&bare)))
                }
                None => {
                    let one = place(at, who).and_then(|place| measured.get(place));
                    Verdict::unmeasured(target, one.map(Measured::reason).unwrap_or_default())
                }
            });
        }
    }
    let mut in_memory = Table::new(&["asked /s", "started /s of one core", "p99", "remark"]);
    let target = format!(
        "sessions started in memory by one core, {}/s asked ≥ as many",
        format::rate(memory::RATE as f64)
    );
    if let Some(one) = measured.last() {
        let rate = one.series(|late| late.rate);
        let carried = format::series(&rate, format::rate);
        let late = format::series(&one.series(|late| late.p99), format::time);
        in_memory.row(vec![format::rate(memory::RATE as f64), carried.clone(), late, one.remark()]);
        verdicts.push(match rate.median() {
            None => Verdict::unmeasured(target, one.reason()),
            Some(median) => Verdict::of(target, carried, median >= memory::RATE as f64),
        });
    }
    Chapter {
        title: "Starts of sessions",
        prose: PROSE,
        tables: vec![
            ("Medians of the rounds, and their range:".to_owned(), table),
            ("In memory, on a virtual clock, both ends:".to_owned(), in_memory),
        ],
        picture: None,
        verdicts,
    }
}

fn place(rate: usize, who: Who) -> Option<usize> {
    Some(rate * CASES.len() + CASES.iter().position(|one| *one == who)?)
}

/// The 99th percentile of one over that of another, at a rate.
fn ratio(measured: &[Measured<Late>], rate: usize, (who, floor): (Who, Who)) -> Option<Ratio> {
    let series =
        |who| -> Option<Series> { Some(measured.get(place(rate, who)?)?.series(|late| late.p99)) };
    series(who)?.over(&series(floor)?)
}

fn late(bench: &Bench, who: Who, rate: u64) -> Result<Late, Failure> {
    let Bench { lab, time, .. } = bench;
    match who {
        Who::Frames(engine) => {
            let setup = Setup::metered(engine, Pace::Frames(rate), WaitChoice::Spin);
            let report = setup.run(lab, *time, &Stop::new())?;
            let sent = report.total.sent.as_ref().ok_or("nothing was sent")?;
            let rate = sent.rates.ok_or("nothing was sent")?.frames_per_second;
            percentiles(&sent.send_lateness_ns, rate)
        }
        Who::Sessions(tcp) => sessions(bench, tcp, rate, *time),
        Who::Bare(tcp) => bare::starts(lab, tcp, rate, *time),
    }
}

fn sessions(bench: &Bench, tcp: Tcp, rate: u64, time: Duration) -> Result<Late, Failure> {
    let starts = format!("rate: {rate}/s, stop: {}ms", time.as_millis());
    let group = Group {
        client: Some(tcp),
        server: Some(tcp),
        path: Path::Cable,
        port: PORT,
        keys: "program: { steps: { client: [ reset ], server: [ wait-close ] } }",
        starts: &starts,
        run: "wait: spin",
    };
    let report = group.report(&bench.lab)?;
    let client = report.sessions.iter().find(|group| group.end == SessionEnd::Client);
    let client = client.ok_or("the report has no clients")?;
    if client.starts.due != Some(client.starts.opened) {
        return Err(format!(
            "{} of {:?} due sessions were opened",
            client.starts.opened, client.starts.due
        )
        .into());
    }
    let rates = client.rates.ok_or("nothing was opened")?;
    percentiles(&client.start_lateness_ns, rates.opened_per_second)
}

fn percentiles(late: &Stats, rate: f64) -> Result<Late, Failure> {
    let of = |ns: Option<i64>| ns.map(|ns| ns as f64).ok_or("nothing was measured");
    Ok(Late { p50: of(late.percentiles.p50)?, p99: of(late.percentiles.p99)?, rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_of_cases() {
        for (who, floor) in PAIRS {
            assert!(CASES.contains(&who) && CASES.contains(&floor));
            let Who::Sessions(tcp) = who else { panic!("{who:?}") };
            assert!(CASES.contains(&Who::Bare(tcp)));
        }
        assert_eq!(MOST.len(), RATES.len());
        assert_eq!(place(1, CASES[2]), Some(CASES.len() + 2));
    }
}
