//! What it costs a run to be watched.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::Program;

use super::Chapter;
use crate::format;
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, in_rotation};
use crate::sinks::Sink;
use crate::stats::Ratio;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::program;

const PROSE: &str = "\
`wirebeat send` with the kernel engine, one core, 64-byte frames as fast as possible, into a far end that drops them: by itself, with \
`--metrics` that is scraped each second, and with `--tui` on a terminal of 80 columns. The rate is that of the sender's books. A rate that is \
lower than that of the same round by itself is the cost, and the noise of the machine.";

/// How a run is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Not,
    Metrics,
    View,
}

const ALL: [(Watched, &str); 3] = [
    (Watched::Not, "by itself"),
    (Watched::Metrics, "--metrics, scraped each second"),
    (Watched::View, "--tui"),
];
/// Where metrics are, in the namespace of the sender.
const METRICS: &str = "127.0.0.1:9469";
const SCRAPES: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// The target: what is left of the rate.
const LEFT: f64 = 0.99;

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestants: Vec<Contestant<'_, f64>> = ALL
        .iter()
        .map(|(watched, name)| {
            Contestant::new(*name, move |bench: &Bench| one(&bench.lab, *watched, bench.time * 2))
        })
        .collect();
    let all = in_rotation(bench, &contestants, |rate| format!("{:.3} M/s", rate / 1e6));
    let series: Vec<_> = all.iter().map(|of| of.series(|rate| *rate)).collect();
    let mut table = Table::new(&["watched", "frames/s", "of the run by itself", "remark"]);
    let mut verdicts = Vec::new();
    for (((watched, name), of), rates) in ALL.iter().zip(&all).zip(&series) {
        let ratio = rates.over(&series[0]);
        table.row(vec![
            (*name).to_owned(),
            format::series(rates, format::rate),
            ratio.as_ref().map_or(format::NOTHING.into(), format::ratio),
            of.remark(),
        ]);
        if *watched == Watched::Not {
            continue;
        }
        let target =
            format!("{name}: ≥ {LEFT} of the rate without it, by the median of the rounds");
        verdicts.push(match ratio.as_ref().and_then(|ratio| ratio.rounds.median()) {
            Some(left) => {
                let figure = ratio.as_ref().map(|of: &Ratio| format::ratio(of));
                Verdict::of(target, figure.unwrap_or_default(), left >= LEFT)
            }
            None => Verdict::unmeasured(target, of.reason()),
        });
    }
    Chapter {
        title: "The cost of being watched",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        verdicts,
    }
}

/// Frames per second of a run.
fn one(lab: &Lab, watched: Watched, time: Duration) -> Result<f64, Failure> {
    let _sink = Sink::Dropping.open(lab)?;
    let result = lab.folder.file("watched.json");
    let send = format!(
        "{} send --to {} --interface {} --engine kernel --cpu {} --rate unlimited --size 64B --time {}ms --json {}",
        program()?.display(),
        lab.far().ipv4,
        lab.near().interface(),
        lab.cores.send,
        time.as_millis(),
        result.display()
    );
    let at = &lab.near().namespace;
    let run = match watched {
        Watched::Not => Program::new(at, "sh").args(["-c", &send]),
        Watched::Metrics => {
            Program::new(at, "sh").args(["-c", &format!("{send} --metrics {METRICS}")])
        }
        // a terminal of its own
        Watched::View => {
            let send = format!("stty cols 80 rows 24; TERM=xterm {send} --tui");
            Program::new(at, "script").args(["-qfec", &send, "/dev/null"])
        }
    };
    let ended = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        if watched == Watched::Metrics {
            scope.spawn(|| at.run(|| scrape(&ended)));
        }
        let output = run.output(PATIENCE);
        ended.store(true, Ordering::Release);
        output
    })?;
    if !output.status.success() {
        let said = output.stderr + &output.stdout;
        return Err(format!("it ended with {}: {}", output.status, said.trim()).into());
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&result)?)?;
    let rate = report["total"]["sent"]["rates"]["frames_per_second"].as_f64();
    rate.ok_or_else(|| "the report has no rate".into())
}

/// Reads the metrics each second, as a Prometheus server does.
fn scrape(ended: &AtomicBool) {
    let mut page = Vec::new();
    while !ended.load(Ordering::Acquire) {
        if let Ok(mut stream) = TcpStream::connect(METRICS) {
            page.clear();
            let _ = stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .and_then(|()| stream.read_to_end(&mut page).map(drop));
        }
        thread::sleep(SCRAPES);
    }
}
