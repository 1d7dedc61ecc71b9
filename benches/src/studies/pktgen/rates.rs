//! Rates: flat out, the highest that is asked for and met, and rate against cores.

use std::time::Duration;

use wirebeat_report::pictures::means::{MeanRow, means};
use wirebeat_report::pictures::scale::Unit;
use wirebeat_report::pictures::xy::{Point, Points, xy};
use wirebeat_report::student::mean_within;
use wirebeat_report::study::{Block, Chapter, Table};
use wirebeat_run::Stop;
use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::super::words::{BY_PAIRS, interval, mean, median, row, standing};
use super::named;
use crate::exactness;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::peers::{self, IPERF, IPERF3, MGEN, Pace, Peer, TRAFGEN};
use crate::rounds::{Bench, Contestant, Measured, in_rotation};
use crate::sinks::Sink;
use crate::window;
use crate::wirebeat::{self, Cores, Setup};

/// A rate is met when the mean is within this share of it.
const MET: f64 = 0.001;
/// Steps of a search: each halves the distance of the logarithms.
const STEPS: usize = 9;
/// A rate that is missed is tried once more: another program may have come between.
const TRIES: usize = 2;
/// The lowest rate of a search, in packets per second.
const LOWEST: f64 = 1_000.0;

/// Who is measured.
#[derive(Clone, Copy, Debug)]
enum Who {
    Wirebeat(EngineChoice),
    Peer(&'static Peer),
}

const ALL: [Who; 8] = [
    Who::Peer(&IPERF3),
    Who::Peer(&IPERF),
    Who::Peer(&MGEN),
    Who::Peer(TRAFGEN_ONE),
    Who::Wirebeat(EngineChoice::Kernel),
    Who::Wirebeat(EngineChoice::Packet),
    Who::Wirebeat(EngineChoice::Socket),
    Who::Wirebeat(EngineChoice::Xdp),
];
const TRAFGEN_ONE: &Peer = &TRAFGEN;

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Wirebeat(engine) => named(engine),
            Who::Peer(peer) if peer.program == TRAFGEN_ONE.program => "trafgen",
            Who::Peer(peer) => peer.name,
        }
    }
}

/// Packets per second that left, and that a receiver took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reached {
    sent: f64,
    received: f64,
}

/// Flat out; a peer to its own receiver where it has one, trafgen to a socket that nobody reads, Wirebeat to its receiver.
fn flat_out(bench: &Bench, who: Who) -> Result<Reached, Failure> {
    let Bench { lab, files, time, .. } = bench;
    match who {
        Who::Wirebeat(engine) => {
            let setup = Setup::metered(engine, Pace::FlatOut, WaitChoice::Spin);
            let metered = wirebeat::flat_out_metered(lab, &setup, *time)?;
            Ok(Reached { sent: metered.sent, received: metered.received })
        }
        Who::Peer(peer) => {
            let sink = if peer.receiver.is_some() { Sink::Reading } else { Sink::Unread };
            let open = sink.open(lab)?;
            let running = peers::start(lab, files, peer, Pace::FlatOut, Some(sink))?;
            let counted = window::observe(lab, &open, *time, || true);
            // what the peer itself said is the better reason
            running.end()?;
            let counted = counted?;
            let received = if sink == Sink::Reading { counted.read } else { counted.sent };
            Ok(Reached { sent: counted.sent, received })
        }
    }
}

/// Packets per second on average when this rate is asked for.
fn at_rate(bench: &Bench, who: Who, rate: u64, time: Duration) -> Result<f64, Failure> {
    let Bench { lab, files, .. } = bench;
    match who {
        Who::Wirebeat(engine) => {
            let setup = Setup::metered(engine, Pace::Frames(rate), WaitChoice::Hybrid);
            let report = setup.run(lab, time, &Stop::new())?;
            let received = report.total.received.as_ref().ok_or("nothing arrived")?;
            let loss = report.total.loss.map_or(0, |loss| loss.frames);
            let rates = received.rates.ok_or("nothing arrived")?;
            let frames = received.unique.max(1) as f64;
            Ok(rates.frames_per_second * frames / (frames + loss as f64))
        }
        Who::Peer(peer) => {
            let paced = exactness::of_peer(lab, files, peer, rate, time)?;
            Ok(paced.exactness.rate)
        }
    }
}

/// The highest rate that is met, by halving; 0 where the lowest is missed.
fn highest(bench: &Bench, who: Who, flat_out: f64) -> Result<f64, Failure> {
    let time = bench.time.min(Duration::from_secs(1)) / 2;
    let (mut low, mut high) = (0.0, flat_out.max(LOWEST) * 1.05);
    for step in 0..STEPS {
        // first the lowest, so that who meets nothing is known to
        let rate = if step == 0 { LOWEST } else { (f64::max(low, LOWEST) * high).sqrt() }.round();
        let mut met = false;
        for _ in 0..TRIES {
            if !met {
                let reached = at_rate(bench, who, rate as u64, time)?;
                met = (reached / rate - 1.0).abs() <= MET;
            }
        }
        if met {
            low = rate
        } else {
            high = rate
        }
        if low == 0.0 {
            break;
        }
    }
    Ok(low)
}

/// The chapters: maximal rate, a rate that is asked for, and cores.
pub fn chapters(bench: &mut Bench) -> Vec<Chapter> {
    let contestants: Vec<Contestant<'_, Reached>> = ALL
        .iter()
        .map(|&who| Contestant::new(who.name(), move |bench| flat_out(bench, who)))
        .collect();
    let flat = in_rotation(bench, &contestants, |reached| {
        format!("{}, received {}", format::rate(reached.sent), format::rate(reached.received))
    });
    let most: Vec<Option<f64>> =
        flat.iter().map(|of| mean(&values(of, |reached| reached.sent))).collect();
    let contestants: Vec<Contestant<'_, f64>> = ALL
        .iter()
        .zip(&most)
        .map(|(&who, &most)| {
            Contestant::new(format!("{}, highest rate met", who.name()), move |bench| {
                highest(bench, who, most.ok_or("it was not measured flat out")?)
            })
        })
        .collect();
    let asked = in_rotation(bench, &contestants, |rate| format::rate(*rate));
    let cores = measure_cores(bench);
    vec![maximal(&flat), user_specified(&flat, &asked), against_cores(&cores)]
}

fn values<T>(of: &Measured<T>, figure: impl Fn(&T) -> f64) -> Vec<f64> {
    of.values.iter().map(figure).collect()
}

/// How each of ours stands to the best of the other tools, by paired rounds; who that is.
fn beside<T>(all: &[Measured<T>], figure: impl Fn(&T) -> f64) -> Vec<String> {
    let middle = |of: &Measured<T>| median(&values(of, &figure));
    let others = ALL.iter().zip(all).filter(|(who, _)| matches!(who, Who::Peer(_)));
    let others = others.filter_map(|(who, of)| Some((who.name(), of.paired(&figure), middle(of)?)));
    let best = others.max_by(|a, b| a.2.total_cmp(&b.2));
    let cell = |(who, of): (&Who, &Measured<T>)| match (who, &best) {
        (Who::Wirebeat(_), Some((_, rounds, _))) => {
            standing(&of.paired(&figure), rounds, true).word().to_owned()
        }
        (Who::Peer(_), Some((name, ..))) if *name == who.name() => "best of the others".to_owned(),
        _ => NOTHING.to_owned(),
    };
    ALL.iter().zip(all).map(cell).collect()
}

const MAXIMAL: &str = "Frames of 64 bytes (MGEN's are 74), one sending CPU, as fast as each can. The study let its tools send bursts of 10 here; Wirebeat's \
    engines hand over up to 64 at once, and MGEN, iperf 2 and iperf3 send one at a time. Sent is what arrived at the far interface, received \
    what the tool's own receiver read, on the other CPU (iperf3, iperf 2, MGEN), or what Wirebeat's receiver of the kernel engine metered, which on a virtual cable \
    works on the sender's CPU and costs the sender. trafgen has no receiver: a socket takes its packets and nobody reads them.";

fn maximal(flat: &[Measured<Reached>]) -> Chapter {
    let heads = [
        "tool",
        "sent per second",
        "received per second",
        "received of sent",
        "sent, beside the best of the others",
        "remark",
    ];
    let mut table = Table::new("Flat out: means and 95 % intervals", &heads);
    let mut rows = Vec::new();
    let mut kept = Vec::new();
    let beside_best = beside(flat, |reached| reached.sent);
    for ((who, measured), beside_best) in ALL.iter().zip(flat).zip(beside_best) {
        let sent = values(measured, |reached| reached.sent);
        let received = values(measured, |reached| reached.received);
        let share = mean(&received).zip(mean(&sent)).map(|(received, sent)| received / sent);
        let no_receiver = matches!(who, Who::Peer(peer) if peer.receiver.is_none());
        if !no_receiver && share.is_some_and(|share| share >= 0.99) {
            kept.push(who.name());
        }
        table.row(vec![
            who.name().to_owned(),
            interval(&sent, format::rate),
            if no_receiver { NOTHING.to_owned() } else { interval(&received, format::rate) },
            share
                .filter(|_| !no_receiver)
                .map_or_else(|| NOTHING.to_owned(), |share| format!("{:.1} %", share * 100.0)),
            beside_best,
            measured.remark(),
        ]);
        let (mean, within) = mean_within(&sent).unzip();
        rows.push(MeanRow {
            name: who.name().to_owned(),
            mean,
            within: within.flatten(),
            second: false,
        });
    }
    let fastest = rows.iter().max_by(|a, b| total(a).total_cmp(&total(b)));
    let says = fastest.and_then(|row| Some((row.name.clone(), row.mean?))).map_or_else(
        || "Nothing was measured.".to_owned(),
        |(name, most)| {
            let others = ALL.iter().zip(&rows).filter(|(who, _)| matches!(who, Who::Peer(_)));
            let best = others.max_by(|a, b| total(a.1).total_cmp(&total(b.1)));
            let beside = best.and_then(|(who, row)| Some((who.name(), row.mean?)));
            let beside = beside.filter(|(other, _)| *other != name).map_or_else(
                String::new,
                |(other, rate)| {
                    format!(
                        ", {:.1} times as many as {other}, the fastest of the other tools ({})",
                        most / rate,
                        format::rate(rate)
                    )
                },
            );
            format!("{name} sends most, {} packets per second{beside}.", format::rate(most))
        },
    );
    let picture = means("flat-out", "Packets per second flat out", &rows, None, Unit::FrameRate);
    let kept = format!("At least 99 % of what was sent was received from {}.", row(&kept));
    let blocks = vec![
        Block::Text(MAXIMAL.to_owned()),
        Block::Text(BY_PAIRS.to_owned()),
        Block::Pictures(vec![(picture, says)]),
        Block::Text(kept),
        Block::Table(table),
    ];
    Chapter { title: "Maximal throughput, transmit beside receive".to_owned(), blocks }
}

fn total(row: &MeanRow) -> f64 {
    row.mean.unwrap_or(0.0)
}

const ASKED: &str = "Here nobody sends bursts: packets are to leave at equal distances. A search halves the distance (of logarithms) between a rate that is met and \
    one that is not, eight times, so that its result is exact to a few percent; a rate is met when the mean over one of two measurements is within 0.1 % of it. All \
    send into the receiver of the kernel engine, which counts before the stack and drops. A tool may meet its mean rate by small bursts of its own that \
    make up for pauses: this does not look at gaps.";

fn user_specified(flat: &[Measured<Reached>], asked: &[Measured<f64>]) -> Chapter {
    let heads = [
        "tool",
        "highest rate met",
        "flat out",
        "of flat out",
        "met, beside the best of the others",
        "remark",
    ];
    let mut table =
        Table::new("The highest rate met within 0.1 %: means and 95 % intervals", &heads);
    let (mut rows, mut shares) = (Vec::new(), Vec::new());
    let beside_best = beside(asked, |rate| *rate);
    for (((who, flat), asked), beside_best) in ALL.iter().zip(flat).zip(asked).zip(beside_best) {
        let sent = values(flat, |reached| reached.sent);
        let met = values(asked, |rate| *rate);
        let share = mean(&met).zip(mean(&sent)).map(|(met, sent)| met / sent);
        if let Some(share) = share {
            shares.push((who.name(), share, mean(&met).unwrap_or(0.0)));
        }
        table.row(vec![
            who.name().to_owned(),
            interval(&met, format::rate),
            interval(&sent, format::rate),
            share.map_or_else(|| NOTHING.to_owned(), |share| format!("{:.0} %", share * 100.0)),
            beside_best,
            asked.remark(),
        ]);
        for (second, (name, values)) in
            [(who.name(), &met), ("  flat out", &sent)].into_iter().enumerate()
        {
            let (mean, within) = mean_within(values).unzip();
            rows.push(MeanRow {
                name: name.to_owned(),
                mean,
                within: within.flatten(),
                second: second > 0,
            });
        }
    }
    let best = |ours: bool| {
        let of = shares.iter().filter(|(name, ..)| name.starts_with("Wirebeat") == ours);
        of.max_by(|a, b| a.2.total_cmp(&b.2))
    };
    let words = [best(true), best(false)].into_iter().flatten().map(|(name, share, rate)| {
        format!(
            "{name} meets {} packets per second, {:.0} % of what it sends flat out",
            format::rate(*rate),
            share * 100.0
        )
    });
    let words: Vec<String> = words.collect();
    let says = format!("The highest of ours and of the others: {}.", row(&words));
    let title = "Highest rate met (filled), flat out (empty)";
    let picture = means("highest-rate", title, &rows, None, Unit::FrameRate);
    let blocks = vec![
        Block::Text(ASKED.to_owned()),
        Block::Pictures(vec![(picture, says)]),
        Block::Table(table),
    ];
    Chapter { title: "User-specified rate beside flat out, without bursts".to_owned(), blocks }
}

/// Who sends with one core and with two.
const ON_CORES: [&str; 3] = ["Wirebeat kernel", "Wirebeat packet", "trafgen"];

/// Packets per second sent and received: by whom, and with how many cores.
struct OnCores {
    name: &'static str,
    cores: u64,
    measured: Measured<Reached>,
}

fn measure_cores(bench: &mut Bench) -> Vec<OnCores> {
    let all = || ON_CORES.iter().flat_map(|name| [(*name, 1), (*name, 2)]);
    let contestants: Vec<Contestant<'_, Reached>> = all()
        .map(|(name, cores)| {
            Contestant::new(format!("{name} on {cores}"), move |bench| on_cores(bench, name, cores))
        })
        .collect();
    let measured = in_rotation(bench, &contestants, |reached| {
        format!("{}, received {}", format::rate(reached.sent), format::rate(reached.received))
    });
    let of = |((name, cores), measured)| OnCores { name, cores, measured };
    all().zip(measured).map(of).collect()
}

fn on_cores(bench: &Bench, name: &str, cores: u64) -> Result<Reached, Failure> {
    let Bench { lab, files, time, .. } = bench;
    let engine = match name {
        "trafgen" => {
            let peers = peers::ALL.iter().filter(|peer| peer.program == "trafgen");
            let peer = peers.min_by_key(|peer| (peer.name.contains("two")) != (cores == 2));
            let peer = peer.ok_or("there is no trafgen")?;
            let open = Sink::Dropping.open(lab)?;
            let running = peers::start(lab, files, peer, Pace::FlatOut, Some(Sink::Dropping))?;
            let counted = window::observe(lab, &open, *time, || true);
            running.end()?;
            let sent = counted?.sent;
            return Ok(Reached { sent, received: sent });
        }
        "Wirebeat packet" => EngineChoice::Packet,
        _ => EngineChoice::Kernel,
    };
    let cores = if cores == 2 { Cores::Two } else { Cores::One };
    let setup = Setup { cores, ..Setup::metered(engine, Pace::FlatOut, WaitChoice::Spin) };
    let metered = wirebeat::flat_out_metered(lab, &setup, *time)?;
    Ok(Reached { sent: metered.sent, received: metered.received })
}

const CORES: &str = "The study had four cores on each of two machines, up to eight threads. This machine has two CPUs, and on a virtual cable a packet is received on \
    the CPU that sends it, so that \"received on all cores\" cannot be told from \"received on the sending ones\". Wirebeat's receiver is that of \
    the kernel engine, trafgen's packets run into a program that counts and drops.";

fn against_cores(all: &[OnCores]) -> Chapter {
    let heads = ["tool", "cores", "sent per second", "received per second", "remark"];
    let mut table = Table::new("Rate against cores: means and 95 % intervals", &heads);
    let mut words = Vec::new();
    let mut lines: Vec<Points> = Vec::new();
    for OnCores { name, cores, measured } in all {
        let sent = values(measured, |reached| reached.sent);
        let received = values(measured, |reached| reached.received);
        table.row(vec![
            (*name).to_owned(),
            cores.to_string(),
            interval(&sent, format::rate),
            interval(&received, format::rate),
            measured.remark(),
        ]);
        let Some(point) = Point::mean(*cores as f64, &sent) else { continue };
        match lines.iter_mut().find(|line| line.name == *name) {
            Some(line) => {
                if let Some(one) = line.points.first() {
                    words.push(format!("{name} {:.2} times", point.y / one.y));
                }
                line.points.push(point);
            }
            None => lines.push(Points { name: (*name).to_owned(), points: vec![point] }),
        }
    }
    let axis = ("sending cores", Unit::Count);
    let picture = xy("cores", "Packets per second sent, by cores", &lines, axis, Unit::FrameRate);
    let says = format!("Two cores send as many packets as one, times: {}.", row(&words));
    let blocks = vec![
        Block::Text(CORES.to_owned()),
        Block::Pictures(vec![(picture, says)]),
        Block::Table(table),
    ];
    Chapter { title: "Rate against cores".to_owned(), blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stand_beside_the_best_of_the_others() {
        let all: Vec<Measured<f64>> = ALL
            .iter()
            .map(|who| {
                let middle = match who.name() {
                    "trafgen" => 900.0,
                    "Wirebeat kernel" => 950.0,
                    "Wirebeat packet" => 850.0,
                    _ => 100.0,
                };
                let values = (0..6).map(|round| middle + f64::from(round * 100)).collect();
                Measured { values, failures: Vec::new() }
            })
            .collect();
        let cells = beside(&all, |rate| *rate);
        let cell = |name| {
            let found = ALL.iter().zip(&cells).find(|(who, _)| who.name() == name);
            found.map(|(_, cell)| cell.as_str())
        };
        assert_eq!(cell("trafgen"), Some("best of the others"));
        assert_eq!(cell("MGEN"), Some(NOTHING));
        // within a round they differ by 50, and from round to round by 500
        assert_eq!(cell("Wirebeat kernel"), Some("better"));
        assert_eq!(cell("Wirebeat packet"), Some("worse"));
    }

    #[test]
    fn everybody_has_a_name_of_their_own() {
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|who| who.name()).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
