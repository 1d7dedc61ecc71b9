//! Latency against rate: its mean, its relative standard deviation, and delay variation, beside ping; by how deep the CPUs may sleep.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use wirebeat_report::pictures::Picture;
use wirebeat_report::pictures::scale::{Scale, Unit};
use wirebeat_report::pictures::xy::{Along, Point, Points, xy_on};
use wirebeat_report::study::{Block, Chapter, Table};
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Program, require};
use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::super::words::{interval, mean, row};
use super::named;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::peers::Pace;
use crate::rounds::{Bench, Contestant, Measured, in_rotation};
use crate::wirebeat::Setup;

/// Packets per second, from ten on as in the study.
const RATES: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 500_000];
/// Rates of ping; the last stands for its flood, whose rate the answers decide.
const PING_RATES: [u64; 3] = [10, 100, 1_000];
/// At low rates a measurement takes this many packets, but at least the usual time.
const FEWEST: u64 = 30;

/// A state that the CPUs may sleep in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// "POLL", "C1".
    name: String,
    /// Microseconds until a CPU works again.
    latency_us: u32,
}

/// The states of the first CPU, from the lightest on.
fn idle_states() -> Vec<IdleState> {
    const FOLDER: &str = "/sys/devices/system/cpu/cpu0/cpuidle";
    let of = |number: u32| {
        let read = |file: &str| fs::read_to_string(format!("{FOLDER}/state{number}/{file}")).ok();
        let latency_us = read("latency")?.trim().parse().ok()?;
        Some(IdleState { name: read("name")?.trim().to_owned(), latency_us })
    };
    (0..).map_while(of).collect()
}

/// Keeps all CPUs from sleeping deeper than this, until it is dropped (Documentation/power/pm_qos_interface.rst).
fn bound(state: &IdleState) -> Result<File, Failure> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&state.latency_us.to_ne_bytes())?;
    Ok(file)
}

/// Who measures.
#[derive(Clone, Debug, PartialEq)]
enum Who {
    Wirebeat(EngineChoice),
    Ping,
    PingFlood,
}

impl Who {
    fn name(&self) -> &'static str {
        match self {
            Who::Wirebeat(engine) => named(*engine),
            Who::Ping => "ping / 2",
            Who::PingFlood => "ping -f / 2",
        }
    }
}

/// A one-way delay in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Delay {
    mean: f64,
    deviation: f64,
    /// The mean absolute difference of two in a row (RFC 4689); not a number where it is not measured.
    variation: f64,
    /// Packets per second that were really sent.
    rate: f64,
}

fn time_of(bench: &Bench, rate: u64) -> Duration {
    bench.time.max(Duration::from_secs_f64(FEWEST as f64 / rate as f64))
}

fn of_engine(bench: &Bench, engine: EngineChoice, rate: u64) -> Result<Delay, Failure> {
    let receiver = Some(engine);
    let paced = Setup::metered(engine, Pace::Frames(rate), WaitChoice::Hybrid);
    let report = Setup { receiver, ..paced }.run(&bench.lab, time_of(bench, rate), &Stop::new())?;
    let received = report.total.received.as_ref().ok_or("nothing arrived")?;
    let delay = received.one_way_delay_ns.as_ref().ok_or("there are no delays")?;
    Ok(Delay {
        mean: delay.mean.ok_or("there are no delays")?,
        deviation: delay.standard_deviation.unwrap_or(f64::NAN),
        variation: received.jitter_rfc4689_ns.mean.unwrap_or(f64::NAN),
        rate: received.rates.map_or(f64::NAN, |rates| rates.frames_per_second),
    })
}

/// Half of what ping says, which is there and back.
fn of_ping(bench: &Bench, rate: Option<u64>) -> Result<Delay, Failure> {
    require(Capability::Program("ping"))?;
    let (near, far) = (bench.lab.near(), bench.lab.far());
    let time = time_of(bench, rate.unwrap_or(1_000));
    // 18 bytes of payload, as the frames of the others; ping calls its own 8 bytes a header
    let (pace, count) = match rate {
        Some(rate) => {
            let count = (time.as_secs_f64() * rate as f64).ceil() as u64;
            (vec!["-i".to_owned(), format!("{}", 1.0 / rate as f64)], count)
        }
        None => (vec!["-f".to_owned()], (time.as_secs_f64() * 20_000.0) as u64),
    };
    let output = Program::new(&near.namespace, "ping")
        .args(pace)
        .args(["-n", "-q", "-s", "18", "-c", &count.to_string(), &far.ipv4.to_string()])
        .output(time * 20 + Duration::from_secs(10))?;
    delay_of(&output.stdout).ok_or_else(|| format!("ping said no times: {}", output.stdout).into())
}

/// Of what ping prints at its end.
fn delay_of(said: &str) -> Option<Delay> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("rtt min/avg/max/mdev = "))?;
    let mut times = line.split([' ', '/']).map_while(|word| word.parse::<f64>().ok());
    let (_, average, _, deviation) = (times.next()?, times.next()?, times.next()?, times.next()?);
    let count = said.lines().find_map(|line| line.split_once(" packets transmitted"))?.0;
    let after = said.split_once(" time ")?.1;
    let took = after.split_once("ms")?.0.trim().parse::<f64>().ok()?;
    Some(Delay {
        mean: average * 1e6 / 2.0,
        deviation: deviation * 1e6 / 2.0,
        variation: f64::NAN,
        rate: count.trim().parse::<f64>().ok()? * 1e3 / took.max(1.0),
    })
}

/// Somebody at a rate, with CPUs that sleep no deeper than a state.
struct Entry {
    who: Who,
    rate: u64,
    state: Option<usize>,
    measured: Measured<Delay>,
}

/// Who, at which rate, and the deepest state that is allowed, where that is bounded.
type Setting = (Who, u64, Option<usize>);

fn settings(states: usize) -> Vec<Setting> {
    let engines = [EngineChoice::Kernel, EngineChoice::Packet, EngineChoice::Socket];
    let mut all = Vec::new();
    for rate in RATES {
        all.extend(engines.map(|engine| (Who::Wirebeat(engine), rate, None)));
    }
    all.extend(PING_RATES.map(|rate| (Who::Ping, rate, None)));
    all.push((Who::PingFlood, 0, None));
    // the kernel engine and ping in each state that is not the deepest, which is as it is
    for state in 0..states.saturating_sub(1) {
        all.extend(RATES.map(|rate| (Who::Wirebeat(EngineChoice::Kernel), rate, Some(state))));
        all.extend(PING_RATES.map(|rate| (Who::Ping, rate, Some(state))));
    }
    all
}

/// Measures, and writes the chapter.
pub fn chapter(bench: &mut Bench) -> Chapter {
    let states = idle_states();
    let all = settings(states.len());
    let contestants: Vec<Contestant<'_, Delay>> = all
        .iter()
        .map(|(who, rate, state)| {
            let state = state.and_then(|state| states.get(state));
            let sleeps = state.map_or(String::new(), |state| format!(", at most {}", state.name));
            Contestant::new(format!("{} at {rate}/s{sleeps}", who.name()), move |bench| {
                let _bound = state.map(bound).transpose()?;
                match who {
                    Who::Wirebeat(engine) => of_engine(bench, *engine, *rate),
                    Who::Ping => of_ping(bench, Some(*rate)),
                    Who::PingFlood => of_ping(bench, None),
                }
            })
        })
        .collect();
    let measured = in_rotation(bench, &contestants, |delay| {
        format!("{} ± {}", format::time(delay.mean), format::time(delay.deviation))
    });
    let entry = |((who, rate, state), measured): (&Setting, _)| Entry {
        who: who.clone(),
        rate: *rate,
        state: *state,
        measured,
    };
    let entries: Vec<Entry> = all.iter().zip(measured).map(entry).collect();
    written(&entries, &states)
}

const METHOD: &str = "The mean one-way delay of 64-byte frames from Wirebeat's sender to its receiver of the same engine, each at a constant rate \
    (wait: hybrid, which sleeps until shortly before a packet is due), and half of the round trip of ping, which sends through the stack and is \
    answered by the other namespace's. The study had two ports of one machine and a cable between; a virtual cable has no card and no \
    interrupt, so that figures are of software alone. Relative standard deviation is the standard deviation over the mean, delay variation \
    the mean absolute difference between two packets in a row (RFC 4689), which ping does not say.";

/// A picture: its file, its title, its unit, and the figure.
type Figure = (&'static str, &'static str, Unit, fn(&Delay) -> f64);

fn written(entries: &[Entry], states: &[IdleState]) -> Chapter {
    let mut blocks = vec![Block::Text(METHOD.to_owned()), Block::Text(sleeping(states))];
    let figures: [Figure; 3] = [
        ("latency", "Mean one-way delay", Unit::Time, |delay| delay.mean),
        ("deviation", "Relative standard deviation, percent", Unit::Count, |delay| {
            delay.deviation / delay.mean * 100.0
        }),
        ("variation", "Delay variation (RFC 4689)", Unit::Time, |delay| delay.variation),
    ];
    let shown = figures.map(|(file, title, unit, figure)| {
        let lines = lines(entries, |entry| entry.state.is_none(), figure);
        (picture(file, title, &lines, unit), says(&lines, unit))
    });
    blocks.push(Block::Pictures(shown.into()));
    let bounded = states.len().saturating_sub(1);
    if bounded > 0 {
        let kernel = Who::Wirebeat(EngineChoice::Kernel);
        let shown = figures.map(|(file, title, unit, figure)| {
            let mut of_states = Vec::new();
            for state in (0..bounded).map(Some).chain([None]) {
                let name = state.or(states.len().checked_sub(1)).and_then(|at| states.get(at));
                let name = name.map_or("", |state| state.name.as_str());
                let of = |entry: &Entry| entry.state == state && entry.who == kernel;
                for line in lines(entries, of, figure) {
                    of_states.push(Points { name: format!("up to {name}"), ..line });
                }
            }
            let title = format!("{title}: kernel engine");
            (picture(&format!("{file}-states"), &title, &of_states, unit), says(&of_states, unit))
        });
        blocks.push(Block::Heading("By how deep the CPUs may sleep".to_owned()));
        blocks.push(Block::Pictures(shown.into()));
    }
    blocks.push(Block::Table(table(entries, states)));
    Chapter { title: "Latency and delay variation".to_owned(), blocks }
}

/// What sleeping states there are.
fn sleeping(states: &[IdleState]) -> String {
    let names: Vec<String> =
        states.iter().map(|state| format!("{} ({} µs)", state.name, state.latency_us)).collect();
    match states.len() {
        0 => "This machine does not say which states its CPUs sleep in, so that nothing can be measured by state.".to_owned(),
        1 => format!("The CPUs of this machine have one state to sleep in, {}.", row(&names)),
        _ => format!(
            "The CPUs of this machine sleep in {} (with the time until they work again). C3 and C6 of the study are not among them unless they \
             are named. Each state is allowed in turn by a bound on the latency (/dev/cpu_dma_latency).",
            row(&names)
        ),
    }
}

fn lines(entries: &[Entry], of: impl Fn(&Entry) -> bool, figure: fn(&Delay) -> f64) -> Vec<Points> {
    let mut lines: Vec<Points> = Vec::new();
    for entry in entries.iter().filter(|entry| of(entry)) {
        let values: Vec<f64> = entry.measured.values.iter().map(figure).collect();
        let rates: Vec<f64> = entry.measured.values.iter().map(|delay| delay.rate).collect();
        let x = if entry.rate == 0 { mean(&rates).unwrap_or(1.0) } else { entry.rate as f64 };
        let Some(point) = Point::mean(x, &values) else { continue };
        match lines.iter_mut().find(|line| line.name == entry.who.name()) {
            Some(line) => line.points.push(point),
            None => lines.push(Points { name: entry.who.name().to_owned(), points: vec![point] }),
        }
    }
    lines
}

fn picture(file: &str, title: &str, lines: &[Points], unit: Unit) -> Picture {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let highest = all().map(|point| point.x).fold(100.0, f64::max);
    let below = Along {
        title: "packets per second (logarithmic)",
        unit: Unit::PerSecond,
        scale: Scale::log(10.0, highest * 1.2),
    };
    let scale = Scale::fitting(
        all().flat_map(|point| [point.y, point.ends()[1]]).collect::<Vec<_>>().into_iter(),
    );
    xy_on(file, title, lines, below, Along { title: "", unit, scale })
}

/// Where each line is lowest and highest.
fn says(lines: &[Points], unit: Unit) -> String {
    let shown = |value: f64| match unit {
        Unit::Time => format::time(value),
        _ => format!("{} %", format::number(value)),
    };
    let words = lines.iter().filter_map(|line| {
        let least = line.points.iter().min_by(|a, b| a.y.total_cmp(&b.y))?;
        let most = line.points.iter().max_by(|a, b| a.y.total_cmp(&b.y))?;
        let at = |point: &Point| format!("{} at {}/s", shown(point.y), format::rate(point.x));
        Some(match line.points.len() {
            1 => format!("{} {}", line.name, at(least)),
            _ => format!("{} from {} to {}", line.name, at(least), at(most)),
        })
    });
    let words: Vec<String> = words.collect();
    format!("Lowest and highest: {}.", words.join("; "))
}

fn table(entries: &[Entry], states: &[IdleState]) -> Table {
    let heads = [
        "who",
        "rate",
        "CPUs sleep",
        "mean",
        "standard deviation",
        "relative",
        "variation",
        "remark",
    ];
    let mut table = Table::new("Delays: means of the rounds and 95 % intervals", &heads);
    for Entry { who, rate, state, measured } in entries {
        let values = |figure: fn(&Delay) -> f64| -> Vec<f64> {
            measured.values.iter().map(figure).collect()
        };
        let sent = mean(&values(|delay| delay.rate));
        let asked = match rate {
            0 => {
                sent.map_or_else(|| NOTHING.to_owned(), |sent| format!("{}/s", format::rate(sent)))
            }
            rate => format!("{}/s", format::rate(*rate as f64)),
        };
        let missed = sent.filter(|sent| *rate > 0 && (sent / *rate as f64 - 1.0).abs() > 0.01);
        let mut remark = measured.remark();
        if let Some(sent) = missed {
            remark = format!("really {}/s. {remark}", format::rate(sent)).trim().to_owned();
        }
        let state = state.and_then(|state| states.get(state));
        table.row(vec![
            who.name().to_owned(),
            asked,
            state.map_or("as they are".to_owned(), |state| format!("up to {}", state.name)),
            interval(&values(|delay| delay.mean), format::time),
            interval(&values(|delay| delay.deviation), format::time),
            interval(&values(|delay| delay.deviation / delay.mean * 100.0), |percent| {
                format!("{} %", format::number(percent))
            }),
            interval(&values(|delay| delay.variation), format::time),
            remark,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_says_there_and_back() {
        let said = "PING 10.77.0.2 (10.77.0.2) 18(46) bytes of data.\n\n--- 10.77.0.2 ping statistics ---\n\
                    30 packets transmitted, 30 received, 0% packet loss, time 2901ms\n\
                    rtt min/avg/max/mdev = 0.021/0.042/0.081/0.010 ms\n";
        let delay = delay_of(said).unwrap();
        assert_eq!((delay.mean, delay.deviation), (21_000.0, 5_000.0));
        assert!((delay.rate - 10.34).abs() < 0.01 && delay.variation.is_nan());
        let flood = said.replace("0.010 ms", "0.010 ms, ipg/ewma 0.05/0.04 ms");
        assert_eq!(delay_of(&flood).unwrap().deviation, 5_000.0);
        assert_eq!(delay_of("ping: no answer"), None);
    }

    #[test]
    fn each_state_but_the_deepest_is_a_bound() {
        assert_eq!(settings(1).len(), settings(0).len());
        assert_eq!(settings(3).len(), settings(1).len() + 2 * (RATES.len() + PING_RATES.len()));
    }
}
