//! What was measured of the comparison, and who is compared at which loads.

use super::super::condition::Condition;
use super::super::measurement::{self, Seen, Task};
use super::super::sender::{Load, Sender};
use super::super::words::{cpu, median};
use crate::format;
use crate::peers::{DITG, IPERF, IPERF3, MGEN};
use crate::rounds::{Bench, Contestant, Measured, in_rotation};
use wirebeat_device::TokenBucket;

/// The speed of the line, in bits per second, preamble and gap included.
pub const LINE: u64 = 100_000_000;
/// Payloads of the study, in bytes.
pub const LONG: u16 = 1470;
pub const SHORT: u16 = 147;
/// What the bucket lets pass at once: 64 of the longest frames, as a small switch buffers.
pub const DEPTH: u64 = 64 * (LONG as u64 + 66);

/// The device between the ends.
pub const BUCKET: TokenBucket =
    TokenBucket { bits_per_second: LINE, depth: DEPTH, penalty: std::time::Duration::ZERO };

/// Everybody, in the order of tables.
pub const SENDERS: [Sender; 9] = [
    Sender::Peer(&IPERF),
    Sender::Peer(&DITG),
    Sender::Peer(&MGEN),
    Sender::Rude,
    Sender::Peer(&IPERF3),
    Sender::Wirebeat("Wirebeat kernel", "kernel"),
    Sender::Wirebeat("Wirebeat packet", "packet"),
    Sender::Wirebeat("Wirebeat socket", "socket"),
    Sender::Wirebeat("Wirebeat xdp", "xdp"),
];

const fn short(rate: u64) -> Load {
    Load { payload: SHORT, rate }
}

const fn long(rate: u64) -> Load {
    Load { payload: LONG, rate }
}

/// Gaps of 196 and 130 µs, which the study calls 60 and 90 % of saturation.
pub const SIXTY: Load = long(5_102);
pub const NINETY: Load = long(7_692);
/// Past saturation.
pub const BEYOND: Load = long(10_204);
/// The rate of the study with short packets: half as much again as the line carries.
pub const FLOOD: Load = short(89_285);
/// What is sent when nothing is short: 30, 60, 90, 100 and 125 % with long packets, 30, 60, 90 and 152 % with short ones.
pub const LONG_LOADS: [Load; 5] = [long(2_551), SIXTY, NINETY, long(8_138), BEYOND];
pub const SHORT_LOADS: [Load; 4] = [short(17_606), short(35_211), short(52_817), FLOOD];

/// The loads of a condition; gaps are captured at 60 and 90 %.
fn tasks(condition: Condition) -> Vec<Task> {
    let loads = match condition {
        Condition::Ideal => [&LONG_LOADS[..], &SHORT_LOADS].concat(),
        Condition::Cpu | Condition::Memory => vec![SIXTY, NINETY, FLOOD],
        Condition::Buffer => vec![SIXTY, NINETY, BEYOND],
    };
    let task = |load| Task { load, capture: load == SIXTY || load == NINETY };
    loads.into_iter().map(task).collect()
}

/// Somebody at a load under a condition.
#[derive(Clone, Debug)]
pub struct Entry {
    pub sender: Sender,
    pub condition: Condition,
    pub load: Load,
    pub measured: Measured<Seen>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Data {
    entries: Vec<Entry>,
    /// What was done for each condition, or why it is not reproduced.
    held: Vec<(Condition, Result<Vec<String>, String>)>,
}

impl Data {
    /// Of measurements that were made up.
    #[cfg(test)]
    pub fn of(entries: Vec<Entry>) -> Data {
        Data { entries, held: vec![(Condition::Ideal, Ok(Vec::new()))] }
    }

    /// Takes the last round of somebody at a load away, as one that failed.
    #[cfg(test)]
    pub fn fail(&mut self, sender: Sender, condition: Condition, load: Load) {
        let of = |entry: &&mut Entry| {
            entry.sender.name() == sender.name()
                && entry.condition == condition
                && entry.load == load
        };
        if let Some(entry) = self.entries.iter_mut().find(of) {
            entry.measured.values.pop();
            entry.measured.failures.push("it died".to_owned());
        }
    }

    /// Measures everybody under a condition.
    pub fn measure(&mut self, bench: &mut Bench, condition: Condition) {
        eprintln!("{}:", condition.name());
        let holding = match condition.hold(&bench.lab) {
            Ok(holding) => holding,
            Err(why) => {
                eprintln!("not reproduced: {why}");
                self.held.push((condition, Err(why.to_string())));
                return;
            }
        };
        let tasks = tasks(condition);
        let all = || tasks.iter().flat_map(|task| SENDERS.map(|sender| (*task, sender)));
        let around = &holding.around;
        let contestants: Vec<Contestant<'_, Seen>> = all()
            .map(|(task, sender)| {
                let Load { payload, rate } = task.load;
                let name = format!("{}, {payload} B at {rate}/s", sender.name());
                Contestant::new(name, move |bench| {
                    measurement::measure(bench, sender, task, around)
                })
            })
            .collect();
        let measured = in_rotation(bench, &contestants, |seen| {
            let gaps = match seen.errors.is_empty() {
                true => String::new(),
                false => {
                    let [p50, p99] = [0.5, 0.99].map(|q| format::time(seen.error(q)));
                    format!(", gaps off by {p50} / {p99}")
                }
            };
            format!("{:.2} Mbit/s, CPU {}{gaps}", seen.throughput / 1e6, cpu(seen.cpu_mean()))
        });
        self.held.push((condition, Ok(holding.said.clone())));
        self.entries.extend(all().zip(measured).map(|((task, sender), measured)| Entry {
            sender,
            condition,
            load: task.load,
            measured,
        }));
    }

    /// What was done for a condition; why it is not reproduced.
    pub fn held(&self, condition: Condition) -> Result<&[String], &str> {
        let held = self.held.iter().find(|(of, _)| *of == condition);
        match held {
            Some((_, Ok(said))) => Ok(said),
            Some((_, Err(why))) => Err(why),
            None => Err("it was left out"),
        }
    }

    /// Of somebody at a load under a condition.
    pub fn find(&self, sender: Sender, condition: Condition, load: Load) -> Option<&Entry> {
        self.entries.iter().find(|entry| {
            entry.sender.name() == sender.name()
                && entry.condition == condition
                && entry.load == load
        })
    }

    /// One figure in the order of the rounds; empty where nothing was measured.
    pub fn values(
        &self,
        sender: Sender,
        (condition, load): (Condition, Load),
        figure: impl Fn(&Seen) -> f64,
    ) -> Vec<f64> {
        let entry = self.find(sender, condition, load);
        entry.map(|entry| entry.measured.values.iter().map(figure).collect()).unwrap_or_default()
    }

    /// The same to be paired with that of somebody else; empty where a round failed, too.
    pub fn paired(
        &self,
        sender: Sender,
        (condition, load): (Condition, Load),
        figure: impl Fn(&Seen) -> f64,
    ) -> Vec<f64> {
        let entry = self.find(sender, condition, load);
        entry.map(|entry| entry.measured.paired(figure)).unwrap_or_default()
    }

    /// The signed errors of all rounds together.
    pub fn errors(&self, sender: Sender, condition: Condition, load: Load) -> Vec<f64> {
        let entry = self.find(sender, condition, load);
        let all = entry.map(|entry| entry.measured.values.iter().flat_map(|seen| &seen.errors));
        all.map(|all| all.copied().collect()).unwrap_or_default()
    }

    /// Throughput over that of theory; `None` where nothing was measured.
    pub fn of_theory(&self, sender: Sender, condition: Condition, load: Load) -> Option<f64> {
        let values = self.values(sender, (condition, load), |seen| seen.throughput);
        Some(median(&values)? / load.theory(LINE))
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_captured_at_the_loads_of_the_study() {
        for condition in [Condition::Ideal, Condition::Cpu, Condition::Memory, Condition::Buffer] {
            let captured = tasks(condition).into_iter().filter(|task| task.capture);
            let loads: Vec<Load> = captured.map(|task| task.load).collect();
            assert_eq!(loads, [SIXTY, NINETY], "{condition:?}");
        }
        assert_eq!(tasks(Condition::Ideal).len(), 9);
        assert!((FLOOD.payload_bits() - 105e6).abs() < 1e4);
    }
}
