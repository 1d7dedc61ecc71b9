//! Our own TCP in memory, on one core with both its ends: what a segment takes beside the bare walk over a table as large, how many
//! sessions open and close, and how many bytes an idle endpoint has.

use std::time::Duration;

use wirebeat_testbed::Program;
use wirebeat_units::Nanos;

use super::Chapter;
use crate::bare_walk::bare_walk;
use crate::format::{self, NOTHING};
use crate::in_memory::{self, BYTES, Opening};
use crate::lab::{Failure, Lab};
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Series;
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
Our own TCP (the crate `stack`) without an interface: both ends in one thread of one core, and packets go from one to the other in \
batches of 32. A segment is one that is built with its checksum at one end and taken in, checksum verified, at the other; sessions are \
taken in a random order, each exchange is a request and an answer of 100 bytes. Both ends meter: counters, and distributions of times. \
The limit is a bare walk over an index and a table of as many entries: two cache lines of each are read and written. Sessions that open \
and close do so by FIN both ways; time passes so that half of them leave TIME-WAIT meanwhile. An idle endpoint is what the peak of resident \
memory and huge pages of a process grew by, with the meter and the handles of its program; no BPF map is in it. Times are those of the \
processor that the thread had. For comparison, not measured here: WARP17 claims 266,000 sessions a second and core \
opened and closed, and 109,000 with an exchange of HTTP; T-Rex's documentation (trex_astf_vs_nginx) has 90,900 connections a second \
of 32 packets each, 3 million packets a second, by one core for each side, some 460 ns a packet. Both have a network card below them.";

/// Sessions of the walks and of the exchanges.
const SIZES: [usize; 2] = [1_000, 100_000];
/// What a segment may take at the larger of them, in ns.
const SEGMENT: f64 = 150.0;
/// What an endpoint may take, in bytes.
const ENDPOINT: f64 = 256.0;
/// The longest that the sessions of a process take to be opened.
const PATIENCE: Duration = Duration::from_secs(120);

/// What opens and closes: its words, bytes of each message, whether TIME-WAIT is skipped, and how many a second there have to be.
const OPENINGS: [(&str, u64, bool, Option<f64>); 4] = [
    ("opened and closed, TIME-WAIT of 60 s", 0, false, Some(500e3)),
    ("with an exchange of 1 kB, TIME-WAIT of 60 s", 1000, false, Some(250e3)),
    ("opened and closed, TIME-WAIT skipped", 0, true, None),
    ("with an exchange of 1 kB, TIME-WAIT skipped", 1000, true, None),
];

/// Bulk: its words, and the most segments in a packet.
const BULKS: [(&str, u8); 2] =
    [("a packet for each segment", 0), ("up to 44 segments in a packet", 44)];

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    // a trial looks at a tenth
    let part = if bench.extent == Extent::Trial { 10 } else { 1 };
    let mut contestants = Vec::new();
    for size in SIZES {
        contestants
            .push(Contestant::new(format!("bare walk over {size} entries"), move |_: &Bench| {
                bare_walk(size)
            }));
        contestants
            .push(Contestant::new(format!("segments of {size} sessions"), move |_: &Bench| {
                in_memory::exchanges(size, 1_000_000 / part as u64)
            }));
    }
    for (name, message, skipped, _) in OPENINGS {
        let time_wait = if skipped { Nanos::ZERO } else { Nanos::from_secs(60) };
        let opening = Opening { message, time_wait, sessions: 500_000 / part };
        contestants.push(Contestant::new(format!("sessions {name}"), move |_: &Bench| {
            opening.each_second()
        }));
    }
    for (name, in_packet) in BULKS {
        let bulk = move |_: &Bench| in_memory::bulk(in_packet);
        contestants.push(Contestant::new(format!("bulk in memory, {name}"), bulk));
    }
    let endpoints = 1_000_000 / part;
    contestants
        .push(Contestant::new(format!("{endpoints} idle sessions"), move |bench: &Bench| {
            endpoint(&bench.lab, endpoints)
        }));
    let measured = in_turn(bench, &contestants, |figure| format::number(*figure));
    drop(contestants);
    let Some((endpoint, measured)) = measured.split_last() else { return Chapter::default() };
    let (walks, rest) = measured.split_at(2 * SIZES.len());
    let (openings, bulks) = rest.split_at(OPENINGS.len());
    chapter(walks, openings, bulks, (endpoint, endpoints))
}

type Figures = Measured<f64>;

/// Makes tables and verdicts of what was measured.
fn chapter(
    walks: &[Figures],
    openings: &[Figures],
    bulks: &[Figures],
    (endpoint, endpoints): (&Figures, usize),
) -> Chapter {
    let series = |of: &Figures| of.series(|figure| *figure);
    let mut verdicts = Vec::new();
    let mut segments =
        Table::new(&["sessions", "a segment", "bare walk, an entry", "of the walk", "remark"]);
    for (size, pair) in SIZES.iter().zip(walks.chunks_exact(2)) {
        let [walk, segment] = pair else { continue };
        let ratio = series(segment).over(&series(walk));
        segments.row(vec![
            size.to_string(),
            format::series(&series(segment), format::time),
            format::series(&series(walk), format::time),
            ratio.map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            [walk.remark(), segment.remark()].concat(),
        ]);
        if Some(size) == SIZES.last() {
            let target = format!("in memory, a segment of {size} sessions ≤ {SEGMENT} ns");
            verdicts.push(verdict(target, segment, format::time, |median| median <= SEGMENT));
        }
    }
    let mut rates = Table::new(&["sessions", "each second", "remark"]);
    for ((name, _, _, least), one) in OPENINGS.iter().zip(openings) {
        rates.row(vec![
            (*name).to_owned(),
            format::series(&series(one), format::rate),
            one.remark(),
        ]);
        if let Some(least) = *least {
            let target = format!("in memory, sessions {name} ≥ {}/s", format::rate(least));
            verdicts.push(verdict(target, one, format::rate, |median| median >= least));
        }
    }
    let target =
        format!("in memory, an idle endpoint among {endpoints} sessions ≤ {ENDPOINT} bytes");
    verdicts.push(verdict(target, endpoint, format::number, |median| median <= ENDPOINT));
    let mut rest = Table::new(&["what", "measured", "remark"]);
    let bits =
        |of: Series| format::series(&of, |bits| format!("{} Gbit/s", format::number(bits / 1e9)));
    for ((name, _), bulk) in BULKS.iter().zip(bulks) {
        let what = format!("8 sessions with much data one way, {name}");
        rest.row(vec![what, bits(series(bulk)), bulk.remark()]);
    }
    rest.row(vec![
        format!("bytes of an idle endpoint, {endpoints} sessions"),
        format::series(&series(endpoint), format::number),
        endpoint.remark(),
    ]);
    Chapter {
        title: "In memory",
        prose: PROSE,
        tables: vec![
            ("Segments, medians of the rounds and their range:".to_owned(), segments),
            ("Sessions opened and closed:".to_owned(), rates),
            ("Data and memory:".to_owned(), rest),
        ],
        picture: None,
        verdicts,
    }
}

fn verdict(
    target: String,
    of: &Figures,
    show: fn(f64) -> String,
    holds: impl Fn(f64) -> bool,
) -> Verdict {
    let series = of.series(|figure| *figure);
    match series.median() {
        Some(median) => Verdict::of(target, format::series(&series, show), holds(median)),
        None => Verdict::unmeasured(target, of.reason()),
    }
}

/// Bytes of an idle endpoint, by the peak of a process of its own.
fn endpoint(lab: &Lab, sessions: usize) -> Result<f64, Failure> {
    let program = Program::new(&lab.near().namespace, std::env::current_exe()?);
    let output = program.args(["--idle-endpoints", &sessions.to_string()]).output(PATIENCE)?;
    if !output.status.success() {
        return Err(output.stderr.trim().to_owned().into());
    }
    let said = output.stdout.lines().find_map(|line| line.strip_prefix(BYTES)?.trim().parse().ok());
    said.ok_or_else(|| format!("it did not say '{BYTES}'").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn a_segment_is_judged_at_the_larger_size_alone() {
        let of = |figure: f64| Measured { values: vec![figure], failures: Vec::new() };
        let walks = [of(20.0), of(400.0), of(60.0), of(150.0)];
        let openings = [of(499e3), of(250e3), of(1.0), of(1.0)];
        let chapter =
            chapter(&walks, &openings, &[of(5e9), of(9e9)], (&Measured::failed("x"), 1_000_000));
        let outcomes: Vec<&Outcome> = chapter.verdicts.iter().map(|one| &one.outcome).collect();
        let unmeasured = Outcome::Unmeasured("x".to_owned());
        assert_eq!(outcomes, [&Outcome::Met, &Outcome::Missed, &Outcome::Met, &unmeasured]);
    }
}
