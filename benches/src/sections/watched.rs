//! What it costs a run to be watched.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::Program;

use super::Chapter;
use crate::format;
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_rotation};
use crate::sinks::Sink;
use crate::stats::{Ratio, Series};
use crate::table::Table;
use crate::threads::{ThreadTimes, child_of};
use crate::verdict::Verdict;
use crate::wirebeat::program;

const PROSE: &str = "\
`wirebeat send` with the kernel engine, one core, 64-byte frames as fast as possible, into a far end that drops them: by itself, with \
`--metrics` that is scraped each second, with `--otlp` that pushes each second to a collector on the same machine, and with `--tui` on a \
terminal of 80 columns. The rate is that of the sender's books. A rate that is lower than that of the same round by itself is the cost, and \
the noise of the machine, which is more than 1 %. So the CPU time of the thread that shows or pushes (`wb-metrics`, `wb-otlp`, `wb-view`) is \
compared with that of all threads of the process as well: time on a CPU by `/proc/PID/task/TID/schedstat`, at the last of ten looks a second. \
What the run itself does for it, adding up intervals that it counts in any case, is in neither.";

/// How a run is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Not,
    Metrics,
    Otlp,
    View,
}

const ALL: [(Watched, &str); 4] = [
    (Watched::Not, "by itself"),
    (Watched::Metrics, "--metrics, scraped each second"),
    (Watched::Otlp, "--otlp, each second"),
    (Watched::View, "--tui"),
];
/// Where metrics are, and where the collector is, in the namespace of the sender.
const METRICS: &str = "127.0.0.1:9469";
const COLLECTOR: &str = "127.0.0.1:4318";
const SCRAPES: Duration = Duration::from_secs(1);
const LOOKS: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(60);
/// The target: what is left of the rate.
const LEFT: f64 = 0.99;
/// The target: what the thread of a watcher takes of the CPU time of the process.
const SHARE: f64 = 0.01;

impl Watched {
    /// The thread that does it.
    fn thread(self) -> Option<&'static str> {
        match self {
            Watched::Not => None,
            Watched::Metrics => Some("wb-metrics"),
            Watched::Otlp => Some("wb-otlp"),
            Watched::View => Some("wb-view"),
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// Frames per second.
    rate: f64,
    /// What the watching thread took of the CPU time of the process.
    share: Option<f64>,
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestants: Vec<Contestant<'_, Seen>> = ALL
        .iter()
        .map(|(watched, name)| {
            Contestant::new(*name, move |bench: &Bench| one(&bench.lab, *watched, bench.time * 2))
        })
        .collect();
    let all = in_rotation(bench, &contestants, |seen| {
        let share =
            seen.share.map_or_else(String::new, |share| format!(", its thread {}", percent(share)));
        format!("{:.3} M/s{share}", seen.rate / 1e6)
    });
    let series: Vec<_> = all.iter().map(|of| of.series(|seen| seen.rate)).collect();
    let heads = ["watched", "frames/s", "of the run by itself", "CPU time of its thread", "remark"];
    let mut table = Table::new(&heads);
    let mut verdicts = Vec::new();
    for (((watched, name), of), rates) in ALL.iter().zip(&all).zip(&series) {
        let ratio = rates.over(&series[0]);
        table.row(vec![
            (*name).to_owned(),
            format::series(rates, format::rate),
            ratio.as_ref().map_or(format::NOTHING.into(), format::ratio),
            format::series(&shares(of), percent),
            of.remark(),
        ]);
        if *watched == Watched::Not {
            continue;
        }
        let target =
            format!("{name}: ≥ {LEFT} of the rate without it, by the median of the rounds");
        verdicts.push(match ratio.as_ref().and_then(|ratio| ratio.rounds.median()) {
            Some(left) => {
                // the ratio of the medians, in the table, may be on the other side
                let times = |left: f64| format!("{left:.2} ×");
                let figure = ratio.as_ref().map(|of: &Ratio| format::series(&of.rounds, times));
                Verdict::of(target, figure.unwrap_or_default(), left >= LEFT)
            }
            None => Verdict::unmeasured(target, of.reason()),
        });
        verdicts.push(by_share(name, of));
    }
    Chapter {
        title: "The cost of being watched",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts,
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The shares of all rounds that have one.
fn shares(of: &Measured<Seen>) -> Series {
    Series::new(of.values.iter().filter_map(|seen| seen.share).collect())
}

/// Whether the thread of a watcher stays within its share, by the median of the rounds.
fn by_share(name: &str, of: &Measured<Seen>) -> Verdict {
    let target = format!(
        "{name}: its thread takes ≤ 1 % of the CPU time of the process, by the median of the rounds"
    );
    let shares = shares(of);
    match shares.median() {
        Some(share) => Verdict::of(target, format::series(&shares, percent), share <= SHARE),
        None if of.values.is_empty() => Verdict::unmeasured(target, of.reason()),
        None => Verdict::unmeasured(
            target,
            "no thread of that name was seen, or this kernel has no schedstat",
        ),
    }
}

/// One run.
fn one(lab: &Lab, watched: Watched, time: Duration) -> Result<Seen, Failure> {
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
    let words = |more: &str| -> Vec<String> {
        format!("{send}{more}").split_ascii_whitespace().map(str::to_owned).collect()
    };
    let direct = |more: &str| {
        let words = words(more);
        let (program, arguments) = words.split_first().ok_or("there is no program")?;
        Ok::<_, Failure>(Program::new(at, program).args(arguments))
    };
    let run = match watched {
        Watched::Not => direct("")?,
        Watched::Metrics => direct(&format!(" --metrics {METRICS}"))?,
        Watched::Otlp => direct(&format!(" --otlp http://{COLLECTOR}"))?,
        // a terminal of its own
        Watched::View => {
            let send = format!("stty cols 80 rows 24; TERM=xterm exec {send} --tui");
            Program::new(at, "script").args(["-qfec", &send, "/dev/null"])
        }
    };
    let collector = match watched {
        Watched::Otlp => Some(at.run(|| TcpListener::bind(COLLECTOR))??),
        _ => None,
    };
    let ended = &AtomicBool::new(false);
    let (output, times) = thread::scope(|scope| {
        if watched == Watched::Metrics {
            scope.spawn(|| at.run(|| scrape(ended)));
        }
        if let Some(listener) = &collector {
            scope.spawn(|| collect(listener, ended));
        }
        let observe = || {
            let process = run.spawn()?;
            let id = process.id();
            let looks = scope.spawn(move || look(id, watched, ended));
            let output = process.wait(PATIENCE);
            ended.store(true, Ordering::Release);
            let times = looks.join().map_err(|_| "the thread that looks at threads ended")?;
            Ok::<_, Failure>((output?, times))
        };
        let observed = observe();
        // also where it could not be started
        ended.store(true, Ordering::Release);
        observed
    })?;
    if !output.status.success() {
        let said = output.stderr + &output.stdout;
        return Err(format!("it ended with {}: {}", output.status, said.trim()).into());
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&result)?)?;
    let rate = report["total"]["sent"]["rates"]["frames_per_second"].as_f64();
    let rate = rate.ok_or("the report has no rate")?;
    Ok(Seen { rate, share: watched.thread().and_then(|thread| times.share(thread)) })
}

/// Looks at the threads of a run until it has ended.
fn look(started: u32, watched: Watched, ended: &AtomicBool) -> ThreadTimes {
    let mut times = ThreadTimes::default();
    while !ended.load(Ordering::Acquire) {
        let process = match watched {
            Watched::View => child_of(started),
            _ => Some(started),
        };
        process.into_iter().for_each(|process| times.look(process));
        thread::sleep(LOOKS);
    }
    times
}

/// Takes what is pushed, as a collector of OpenTelemetry does, until the run has ended.
fn collect(listener: &TcpListener, ended: &AtomicBool) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while !ended.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((stream, _)) => {
                // one that breaks is missed in the sender's own words
                let _ = take(stream);
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Reads a request to its end, and answers that all of it was taken.
fn take(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SCRAPES))?;
    let (mut came, mut piece) = (Vec::new(), [0; 65536]);
    loop {
        let count = stream.read(&mut piece)?;
        came.extend_from_slice(piece.get(..count).unwrap_or_default());
        let head = came.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let length = head.and_then(|head| {
            let head = std::str::from_utf8(came.get(..head)?).ok()?;
            head.split("Content-Length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()
        });
        let whole = head.zip(length).is_some_and(|(head, length)| came.len() >= head + 4 + length);
        if whole {
            return stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            );
        }
        if count == 0 {
            return Ok(());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn a_thread_stays_within_its_share_or_does_not() {
        let of = |shares: &[Option<f64>]| {
            let values = shares.iter().map(|share| Seen { rate: 1e6, share: *share }).collect();
            by_share("--x", &Measured { values, failures: Vec::new() })
        };
        let verdict = of(&[Some(0.002), Some(0.5), Some(0.01)]);
        assert_eq!((verdict.outcome, verdict.figure.contains("1.00 %")), (Outcome::Met, true));
        assert_eq!(of(&[Some(0.011), Some(0.0), Some(0.02)]).outcome, Outcome::Missed);
        assert!(
            matches!(of(&[None]).outcome, Outcome::Unmeasured(why) if why.contains("schedstat"))
        );
        let died = by_share("--x", &Measured::failed("it died"));
        assert!(matches!(died.outcome, Outcome::Unmeasured(why) if why == "it died"));
    }

    #[test]
    fn a_collector_reads_a_request_in_pieces() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ended = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            scope.spawn(|| collect(&listener, &ended));
            let mut stream = TcpStream::connect(address).unwrap();
            for piece in ["POST / HTTP/1.1\r\nContent-Length: 4\r\n", "\r\n12", "34"] {
                stream.write_all(piece.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
            let mut answer = String::new();
            let read = stream.read_to_string(&mut answer);
            ended.store(true, Ordering::Release);
            read.map(|_| answer)
        });
        assert!(answer.unwrap().starts_with("HTTP/1.1 200 OK"));
    }
}
