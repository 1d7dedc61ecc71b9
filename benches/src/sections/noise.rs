//! The machine's own noise: what stops a program that does nothing but read the clock. No sender on
//! this machine can be more exact.

use std::thread;
use std::time::Duration;

use wirebeat_engine_linux::affinity;
use wirebeat_host::{CpuUse, Noise, noise};

use super::Chapter;
use crate::format;
use crate::lab::Failure;
use crate::rounds::Bench;
use crate::table::Table;

const PROSE: &str = "\
Gaps between two readings of the clock in a busy loop, on each CPU, before the first measurement and \
after the last: timer ticks, interrupts, other programs, the hypervisor. Tails of everything below are \
the machine's as much as the sender's, and no tail can be better than these allow.";

/// The noise of one CPU at one time.
#[derive(Clone, Debug)]
pub struct Listening {
    when: &'static str,
    cpu: usize,
    heard: Result<Noise, String>,
}

/// Listens to both CPUs, one after the other.
pub fn listen(bench: &Bench, when: &'static str) -> Vec<Listening> {
    let cores = bench.lab.cores;
    let one = |cpu| {
        eprintln!("listening to CPU {cpu}");
        let heard = on(cpu, bench.time).map_err(|why| why.to_string());
        Listening { when, cpu, heard }
    };
    [cores.send, cores.other].map(one).into()
}

fn on(cpu: usize, time: Duration) -> Result<Noise, Failure> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            affinity::pin(cpu)?;
            Ok::<_, Failure>(noise(time))
        });
        thread.join().map_err(|_| "the listener panicked")?
    })
}

/// The chapter; `spent` is the time of the machine from the first measurement to the last.
pub fn chapter(heard: &[Listening], spent: &CpuUse) -> Chapter {
    let head =
        ["when", "CPU", "over", "gaps > 1 µs", "> 20 µs", "> 100 µs", "longest", "lost in gaps"];
    let mut table = Table::new(&head);
    for Listening { when, cpu, heard } in heard {
        let mut row = vec![(*when).to_owned(), cpu.to_string()];
        match heard {
            Ok(noise) => row.extend([
                format::time(noise.elapsed_ns as f64),
                noise.above_1_us.to_string(),
                noise.above_20_us.to_string(),
                noise.above_100_us.to_string(),
                format::time(noise.longest_gap_ns as f64),
                format::share(noise.lost_ns as f64 / noise.elapsed_ns.max(1) as f64),
            ]),
            Err(why) => row.push(format!("failed: {why}")),
        }
        table.row(row);
    }
    let steal = spent.steal_ns().map_or_else(
        || "The system does not tell how much time the hypervisor took.".to_owned(),
        |steal| {
            let share = steal as f64 / spent.elapsed_ns.max(1) as f64;
            let share = format::share(share);
            format!(
                "During all measurements the hypervisor took {share} of a CPU from this machine."
            )
        },
    );
    Chapter {
        title: "The machine's noise",
        prose: PROSE,
        tables: vec![(steal, table)],
        ..Chapter::default()
    }
}
