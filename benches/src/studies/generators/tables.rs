//! The tables of the comparison: features, sizes, what was measured in figures, thresholds.

use wirebeat_report::study::Table;

use super::super::condition::Condition;
use super::super::measurement::Seen;
use super::super::process_stats;
use super::super::sender::{Load, Sender};
use super::super::words::{Standing, bits, cpu, interval, median, size, standing};
use super::data::{BEYOND, Data, FLOOD, LINE, LONG_LOADS, NINETY, SENDERS, SIXTY};
use crate::format::{self, NOTHING};
use crate::install;

/// What tools can do, by their manuals (of the study where it is about them): not measured.
const FEATURES: [[&str; 7]; 9] = [
    ["feature", "iperf 2", "D-ITG", "MGEN", "RUDE", "iperf3", "Wirebeat"],
    [
        "privileges",
        "user",
        "user",
        "user",
        "root for its priority",
        "user",
        "user (engine socket), root (others)",
    ],
    [
        "network",
        "IPv4, IPv6",
        "IPv4, IPv6, ICMP",
        "IPv4, IPv6",
        "IPv4",
        "IPv4, IPv6",
        "any headers, IPv4 and IPv6",
    ],
    [
        "transport",
        "UDP, TCP",
        "UDP, TCP, SCTP, DCCP",
        "UDP, TCP",
        "UDP",
        "UDP, TCP, SCTP",
        "UDP, TCP",
    ],
    [
        "departures",
        "constant",
        "constant and 8 distributions",
        "periodic, Poisson, burst, jitter, clone",
        "constant, trace",
        "constant",
        "constant and distributions, changes in time, archives, captures",
    ],
    [
        "delay",
        "with synchronised clocks",
        "yes",
        "yes",
        "yes",
        "no",
        "yes, with the bound of the clocks",
    ],
    ["jitter", "yes", "yes", "in its log", "yes", "yes", "yes, by RFC 4689, 3550, 5481"],
    ["loss", "yes", "yes", "yes", "yes", "yes", "yes, and duplicates and reordering"],
    ["its own send lateness", "no", "no", "no", "no", "no", "yes"],
];

/// The features.
pub fn features() -> Table {
    let [head, rows @ ..] = &FEATURES;
    let mut table = Table { words: true, ..Table::new("Features", head) };
    for row in rows {
        table.row(row.iter().map(|&cell| cell.to_owned()).collect());
    }
    table
}

/// Versions, sizes of programs, and memory.
pub fn sizes(data: &Data) -> Table {
    let heads = ["tool", "version", "program, file", "loaded of it", "largest resident set"];
    let mut table = Table::new("Programs and memory", &heads);
    for sender in SENDERS {
        let program = sender.program().ok().and_then(|program| process_stats::size(&program));
        let version = match sender {
            Sender::Peer(peer) => install::version(peer.package),
            Sender::Rude => Some("of the benchmark".to_owned()),
            Sender::Wirebeat(..) => Some(env!("CARGO_PKG_VERSION").to_owned()),
        };
        // what stands in for RUDE is a part of the benchmark, whose size says nothing
        let program = program.filter(|_| !matches!(sender, Sender::Rude));
        let shown = |bytes: Option<u64>| {
            bytes.map_or_else(|| NOTHING.to_owned(), |bytes| size(bytes as f64))
        };
        let entries = data.entries().iter().filter(|entry| {
            entry.sender.name() == sender.name() && entry.condition == Condition::Ideal
        });
        let resident =
            entries.flat_map(|entry| entry.measured.values.iter().map(|seen| seen.resident));
        let resident = resident.reduce(f64::max).map(|bytes| bytes as u64);
        table.row(vec![
            sender.name().to_owned(),
            version.unwrap_or_else(|| "not installed".to_owned()),
            shown(program.map(|program| program.file)),
            shown(program.map(|program| program.loaded)),
            shown(resident),
        ]);
    }
    table
}

/// Throughput of everybody at loads under a condition: means with 95 % intervals.
pub fn throughput(data: &Data, condition: Condition, loads: &[Load], title: &str) -> Table {
    let mut heads = vec!["tool".to_owned()];
    heads.extend(loads.iter().map(|load| {
        let (offered, theory) = (load.payload_bits() / 1e6, load.theory(LINE) / 1e6);
        format!("{} B, {offered:.1} offered (theory {theory:.2})", load.payload)
    }));
    let mut table = Table { heads, ..Table::new(title, &[]) };
    for sender in SENDERS {
        let cells = loads.iter().map(|&load| {
            let values = data.values(sender, (condition, load), |seen| seen.throughput / 1e6);
            cell(data, sender, (condition, load), interval(&values, |value| format!("{value:.2}")))
        });
        table.row([sender.name().to_owned()].into_iter().chain(cells).collect());
    }
    table
}

/// A figure with what a reader has to know of it.
fn cell(data: &Data, sender: Sender, at: (Condition, Load), shown: String) -> String {
    let entry = data.find(sender, at.0, at.1);
    let remark = entry.map(|entry| entry.measured.remark()).unwrap_or_default();
    let remark = remark.lines().next().unwrap_or_default().chars().take(90).collect::<String>();
    if remark.is_empty() { shown } else { format!("{shown} ({remark})") }
}

/// Gap errors of everybody under a condition.
pub fn gaps(data: &Data, condition: Condition) -> Table {
    let heads = ["tool", "60 %: |error| p50", "p99", "90 %: |error| p50", "p99", "arrived at 90 %"];
    let title = format!("Errors of the gaps, {}: means of the rounds", condition.name());
    let mut table = Table::new(title, &heads);
    for sender in SENDERS {
        let mut cells = vec![sender.name().to_owned()];
        for load in [SIXTY, NINETY] {
            for quantile in [0.5, 0.99] {
                let values = data.values(sender, (condition, load), |seen| seen.error(quantile));
                cells.push(interval(&values, format::time));
            }
        }
        let share = data.of_theory(sender, condition, NINETY);
        cells.push(
            share.map_or_else(|| NOTHING.to_owned(), |share| format!("{:.1} %", share * 100.0)),
        );
        table.row(cells);
    }
    table
}

/// CPU time of everybody: each look of half a second, and of the whole machine.
pub fn cpu_time(data: &Data) -> Table {
    let mut heads = vec!["tool".to_owned()];
    for load in LONG_LOADS {
        heads.push(format!("{:.0} Mbit/s", load.payload_bits() / 1e6));
    }
    heads.push(format!("looks at {:.0}", BEYOND.payload_bits() / 1e6));
    heads.push(format!("machine at {:.0}", BEYOND.payload_bits() / 1e6));
    let title = "CPU time of the process, in percent of one CPU";
    let mut table = Table { heads, ..Table::new(title, &[]) };
    for sender in SENDERS {
        let mut cells = vec![sender.name().to_owned()];
        for load in LONG_LOADS {
            let at = (Condition::Ideal, load);
            let values = data.values(sender, at, |seen| seen.cpu_mean() * 100.0);
            cells.push(interval(&values, |value| format!("{value:.1}")));
        }
        let entry = data.find(sender, Condition::Ideal, BEYOND);
        let looks = entry.map(|entry| {
            let all = entry.measured.values.iter().flat_map(|seen| seen.cpu.iter().copied());
            all.collect::<Vec<f64>>()
        });
        let looks = looks.unwrap_or_default();
        let ends = (looks.iter().copied().reduce(f64::min), looks.iter().copied().reduce(f64::max));
        cells.push(match ends {
            (Some(low), Some(high)) => format!("{} to {}", cpu(low), cpu(high)),
            _ => NOTHING.to_owned(),
        });
        let machine = data.values(sender, (Condition::Ideal, BEYOND), |seen| seen.machine * 100.0);
        cells.push(interval(&machine, |value| format!("{value:.0}")));
        table.row(cells);
    }
    table
}

/// Within this share of the theory a load is met.
const MET: f64 = 0.01;

/// The highest load that is met under each condition, and the highest throughput of short packets.
pub fn thresholds(data: &Data) -> Table {
    const CONDITIONS: [Condition; 4] =
        [Condition::Ideal, Condition::Cpu, Condition::Memory, Condition::Buffer];
    let mut heads = vec!["tool".to_owned()];
    heads.extend(CONDITIONS.map(|condition| format!("{}: long packets", condition.name())));
    heads.extend(CONDITIONS[..3].iter().map(|condition| format!("{}: 147 B", condition.name())));
    let title = "Thresholds: the highest of the offered loads that was met within 1 % of the theory, and throughput at 89,285/s";
    let mut table = Table { heads, ..Table::new(title, &[]) };
    for sender in SENDERS {
        let met = CONDITIONS.map(|condition| {
            let loads = LONG_LOADS.iter().filter(|load| {
                let share = data.of_theory(sender, condition, **load);
                share.is_some_and(|share| (share - 1.0).abs() <= MET)
            });
            match loads.map(|load| load.payload_bits()).reduce(f64::max) {
                Some(most) => bits(most),
                None if data.held(condition).is_err() => "not reproduced".to_owned(),
                None => "none".to_owned(),
            }
        });
        let flood = CONDITIONS[..3].iter().map(|&condition| {
            let values = data.values(sender, (condition, FLOOD), |seen| seen.throughput);
            median(&values).map_or_else(|| NOTHING.to_owned(), bits)
        });
        table.row([sender.name().to_owned()].into_iter().chain(met).chain(flood).collect());
    }
    table
}

/// A figure that is compared: its name, whether more is better, and how it is shown.
struct Compared {
    name: &'static str,
    more: bool,
    load: Load,
    figure: fn(&Seen) -> f64,
    show: fn(f64) -> String,
}

/// Of what was offered: who sends more than that is not better for it.
fn delivered(seen: &Seen, load: Load) -> f64 {
    seen.throughput.min(load.theory(LINE))
}

const COMPARED: [Compared; 8] = [
    Compared {
        name: "throughput, 147 B at 89,285/s",
        more: true,
        load: FLOOD,
        figure: |seen| delivered(seen, FLOOD),
        show: bits,
    },
    Compared {
        name: "throughput, 60 %",
        more: true,
        load: SIXTY,
        figure: |seen| delivered(seen, SIXTY),
        show: bits,
    },
    Compared {
        name: "gap error p50, 60 %",
        more: false,
        load: SIXTY,
        figure: |seen| seen.error(0.5),
        show: format::time,
    },
    Compared {
        name: "gap error p99, 60 %",
        more: false,
        load: SIXTY,
        figure: |seen| seen.error(0.99),
        show: format::time,
    },
    Compared {
        name: "throughput, 90 %",
        more: true,
        load: NINETY,
        figure: |seen| delivered(seen, NINETY),
        show: bits,
    },
    Compared {
        name: "gap error p50, 90 %",
        more: false,
        load: NINETY,
        figure: |seen| seen.error(0.5),
        show: format::time,
    },
    Compared {
        name: "gap error p99, 90 %",
        more: false,
        load: NINETY,
        figure: |seen| seen.error(0.99),
        show: format::time,
    },
    Compared {
        name: "CPU time, 90 %",
        more: false,
        load: NINETY,
        figure: |seen| seen.cpu_mean(),
        show: cpu,
    },
];

/// An engine of ours beside the best of the others.
pub struct Verdict {
    pub engine: &'static str,
    pub standing: Standing,
}

/// Each engine of ours beside the best of the others in each figure, and all verdicts.
pub fn beside_the_best(data: &Data) -> (Table, Vec<Verdict>) {
    let ours: Vec<Sender> = SENDERS.into_iter().filter(|sender| sender.is_wirebeat()).collect();
    let mut heads = vec!["condition, figure".to_owned(), "best other".to_owned()];
    heads.extend(ours.iter().map(|sender| sender.name().to_owned()));
    let title = "Each engine beside the best of the other tools, by paired rounds";
    let mut table = Table { heads, ..Table::new(title, &[]) };
    let mut verdicts = Vec::new();
    for condition in [Condition::Ideal, Condition::Cpu, Condition::Memory, Condition::Buffer] {
        for compared in &COMPARED {
            let at = (condition, compared.load);
            let Some((best, middle)) = best(data, at, compared) else { continue };
            let shown = (compared.show)(middle);
            let best_rounds = data.paired(best, at, compared.figure);
            let mut cells = vec![
                format!("{}: {}", condition.name(), compared.name),
                format!("{shown}, {}", best.name()),
            ];
            for sender in &ours {
                let own = data.values(*sender, at, compared.figure);
                let own_rounds = data.paired(*sender, at, compared.figure);
                let standing = standing(&own_rounds, &best_rounds, compared.more);
                let value = median(&own).map_or_else(|| NOTHING.to_owned(), compared.show);
                cells.push(format!("{value}, {}", standing.word()));
                verdicts.push(Verdict { engine: sender.name(), standing });
            }
            table.row(cells);
        }
    }
    (table, verdicts)
}

/// The best of the others by its median, and that; in gaps and CPU time, of those that deliver what was offered.
fn best(data: &Data, at: (Condition, Load), compared: &Compared) -> Option<(Sender, f64)> {
    let others = SENDERS.into_iter().filter(|sender| !sender.is_wirebeat());
    let sign = if compared.more { 1.0 } else { -1.0 };
    others
        .filter(|sender| {
            let share = data.of_theory(*sender, at.0, at.1);
            compared.more || share.is_some_and(|share| (share - 1.0).abs() <= MET)
        })
        .filter_map(|sender| {
            let middle = median(&data.values(sender, at, compared.figure))?;
            Some((sender, middle))
        })
        .max_by(|a, b| (a.1 * sign).total_cmp(&(b.1 * sign)))
}

/// What each grade asks for.
pub const GRADES: &str = "Throughput is graded by the largest distance from the theory over all loads (very good up to 0.5 %, good up to 2 %), gaps by the \
    99th percentile of the error at 90 % (10 µs, 50 µs), CPU by the process's time at 90 % (20 %, 60 % of one CPU), and shortage by \
    the throughput lost at 89,285/s to stressed CPU or memory, or at 125 % to a small send buffer (1 %, 10 %); beyond, it is poor.";

/// The grades of everybody, as the study's last table.
pub fn summary(data: &Data) -> Table {
    let heads = ["tool", "throughput", "gaps", "CPU", "shortage of resources"];
    let mut table = Table::new("The summary, graded by what was measured", &heads);
    for sender in SENDERS {
        let loads = LONG_LOADS.into_iter().chain([FLOOD]);
        let off = loads.filter_map(|load| data.of_theory(sender, Condition::Ideal, load));
        let off = off.map(|share| (share - 1.0).abs()).reduce(f64::max);
        let at = (Condition::Ideal, NINETY);
        let p99 = median(&data.values(sender, at, |seen| seen.error(0.99)));
        let cpu_share = median(&data.values(sender, at, |seen| seen.cpu_mean()));
        let loss = |(condition, load)| {
            let ideal = median(&data.values(sender, (Condition::Ideal, load), |s| s.throughput))?;
            let now = median(&data.values(sender, (condition, load), |s| s.throughput))?;
            Some(1.0 - now / ideal)
        };
        let shortages =
            [(Condition::Cpu, FLOOD), (Condition::Memory, FLOOD), (Condition::Buffer, BEYOND)];
        let lost = shortages.into_iter().filter_map(loss).reduce(f64::max);
        table.row(vec![
            sender.name().to_owned(),
            grade(off, (0.005, 0.02), |off| format!("{:.1} %", off * 100.0)),
            grade(p99, (10_000.0, 50_000.0), format::time),
            grade(cpu_share, (0.2, 0.6), cpu),
            grade(lost, (0.01, 0.1), |lost| format!("{:.1} %", lost.max(0.0) * 100.0)),
        ]);
    }
    table
}

fn grade(
    value: Option<f64>,
    (very_good, good): (f64, f64),
    show: impl Fn(f64) -> String,
) -> String {
    match value {
        None => NOTHING.to_owned(),
        Some(value) => {
            let word = match value {
                v if v <= very_good => "very good",
                v if v <= good => "good",
                _ => "poor",
            };
            format!("{word} ({})", show(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::Entry;
    use super::Seen;
    use super::*;
    use crate::rounds::Measured;

    /// Everybody delivers the theory; ours are exact and take much CPU time, D-ITG delivers half.
    fn data() -> Data {
        let entry = |sender: Sender, load: Load| {
            let share = if sender.name() == "D-ITG" { 0.5 } else { 1.0 };
            let ours = f64::from(u8::from(sender.is_wirebeat()));
            let seen = |round: i32| Seen {
                throughput: load.theory(LINE) * share,
                cpu: vec![0.1 + 0.8 * ours + f64::from(round) / 1e3],
                errors: vec![20_000.0 - 19_000.0 * ours + f64::from(round * round)],
                ..Seen::default()
            };
            let values = (1..=6).map(seen).collect();
            let measured = Measured { values, failures: Vec::new() };
            Entry { sender, condition: Condition::Ideal, load, measured }
        };
        let loads = || LONG_LOADS.into_iter().chain([FLOOD]);
        Data::of(loads().flat_map(|load| SENDERS.map(|sender| entry(sender, load))).collect())
    }

    #[test]
    fn who_is_better_in_gaps_may_be_worse_in_cpu_time() {
        let (table, verdicts) = beside_the_best(&data());
        let row = |name: &str| {
            let row = table.rows.iter().find(|row| row[0].contains(name));
            row.unwrap_or_else(|| panic!("no row of {name}")).clone()
        };
        assert!(
            row("gap error p99, 90 %")[2].ends_with("better"),
            "{:?}",
            row("gap error p99, 90 %")
        );
        assert!(row("CPU time")[2].ends_with("worse"), "{:?}", row("CPU time"));
        assert!(row("throughput, 90 %")[2].ends_with("no difference shown"));
        // eight figures of four engines, under the one condition that was measured
        assert_eq!(verdicts.len(), 32);
    }

    /// Rounds that failed were left out, and what followed them was paired with other rounds.
    #[test]
    fn a_failed_round_leaves_nothing_to_pair() {
        let mut data = data();
        data.fail(Sender::Wirebeat("Wirebeat packet", "packet"), Condition::Ideal, NINETY);
        let (table, verdicts) = beside_the_best(&data);
        let row = table.rows.iter().find(|row| row[0].contains("CPU time")).unwrap();
        assert!(row[3].ends_with("unknown") && row[2].ends_with("worse"), "{row:?}");
        let unknown = verdicts.iter().filter(|verdict| verdict.standing == Standing::Unknown);
        assert_eq!(unknown.count(), 4);
    }

    #[test]
    fn thresholds_and_grades_follow_from_what_was_measured() {
        let of =
            |table: Table, name: &str| table.rows.into_iter().find(|row| row[0] == name).unwrap();
        let data = data();
        assert_eq!(of(thresholds(&data), "MGEN")[1..3], ["120.00 Mbit/s", "not reproduced"]);
        assert_eq!(of(thresholds(&data), "D-ITG")[1], "none");
        assert_eq!(of(summary(&data), "D-ITG")[1], "poor (50.0 %)");
        let ours = of(summary(&data), "Wirebeat kernel");
        assert!(ours[1].starts_with("very good") && ours[2].starts_with("very good"), "{ours:?}");
        assert!(ours[3].starts_with("poor"), "{ours:?}");
    }
}
