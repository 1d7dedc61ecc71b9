//! What work costs: CPU time of the process, of a thread, and of interrupts on each CPU.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::param::clock_ticks_per_second;
use serde::Serialize;

/// CPU time in user space and in the kernel, in nanoseconds (counted in microseconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    /// In user space.
    pub user_ns: u64,
    /// In the kernel on behalf of the process or thread; eBPF programs that it runs included.
    pub system_ns: u64,
}

impl CpuTime {
    /// Of all threads of this process since it began.
    pub fn of_process() -> Option<Self> {
        Self::usage(UsageWho::RUSAGE_SELF)
    }

    /// Of the calling thread since it began.
    pub fn of_thread() -> Option<Self> {
        Self::usage(UsageWho::RUSAGE_THREAD)
    }

    fn usage(who: UsageWho) -> Option<Self> {
        let usage = getrusage(who).ok()?;
        let ns = |micros: i64| u64::try_from(micros).unwrap_or(0).saturating_mul(1000);
        Some(CpuTime {
            user_ns: ns(usage.user_time().num_microseconds()),
            system_ns: ns(usage.system_time().num_microseconds()),
        })
    }

    /// What was used between `earlier` and this.
    pub fn since(&self, earlier: &CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }

    /// Both together.
    pub fn total_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }
}

/// A moment's readings of all clocks of CPU time; two make a [`CpuUse`].
#[derive(Clone, Debug)]
pub struct CpuTimes {
    at: Instant,
    process: Option<CpuTime>,
    cpus: Option<Vec<PerCpu>>,
}

/// Time that a CPU has spent, in nanoseconds. The kernel counts it in ticks of 10 ms as a rule: over
/// less than a second it says little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PerCpu {
    /// The CPU.
    pub cpu: u32,
    /// In programs, the kernel's work for them included.
    pub busy_ns: u64,
    /// In interrupt handlers.
    pub interrupt_ns: u64,
    /// In deferred interrupt work, where most of the network's receiving is done.
    pub soft_interrupt_ns: u64,
    /// Wanted, but taken away by the hypervisor.
    pub steal_ns: u64,
    /// With nothing to do.
    pub idle_ns: u64,
}

/// What was used between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuUse {
    /// How long it was, in nanoseconds.
    pub elapsed_ns: u64,
    /// By this process.
    pub process: Option<CpuTime>,
    /// By everything, on each CPU.
    pub cpus: Option<Vec<PerCpu>>,
}

impl CpuTimes {
    /// Reads all clocks.
    pub fn now() -> Self {
        let cpus = fs::read_to_string("/proc/stat").ok().map(|stat| {
            let tick_ns = 1_000_000_000 / clock_ticks_per_second().max(1);
            parse(&stat, tick_ns)
        });
        CpuTimes { at: Instant::now(), process: CpuTime::of_process(), cpus }
    }

    /// What was used between `earlier` and this.
    pub fn since(&self, earlier: &CpuTimes) -> CpuUse {
        let both = |now: &[PerCpu], then: &[PerCpu]| {
            let pairs = now
                .iter()
                .filter_map(|now| Some(now.since(then.iter().find(|then| then.cpu == now.cpu)?)));
            pairs.collect()
        };
        let elapsed = self.at.saturating_duration_since(earlier.at);
        CpuUse {
            elapsed_ns: nanoseconds(elapsed),
            process: self.process.zip(earlier.process).map(|(now, then)| now.since(&then)),
            cpus: self
                .cpus
                .as_deref()
                .zip(earlier.cpus.as_deref())
                .map(|(now, then)| both(now, then)),
        }
    }
}

impl PerCpu {
    fn since(&self, earlier: &PerCpu) -> PerCpu {
        // Idle time can run backwards on some kernels (proc(5)).
        PerCpu {
            cpu: self.cpu,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            interrupt_ns: self.interrupt_ns.saturating_sub(earlier.interrupt_ns),
            soft_interrupt_ns: self.soft_interrupt_ns.saturating_sub(earlier.soft_interrupt_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
        }
    }
}

impl CpuUse {
    /// Interrupt time, hard and deferred, of all CPUs together.
    pub fn interrupt_ns(&self) -> Option<u64> {
        let cpus = self.cpus.as_ref()?;
        Some(cpus.iter().map(|cpu| cpu.interrupt_ns + cpu.soft_interrupt_ns).sum())
    }

    /// Time that the hypervisor took, of all CPUs together.
    pub fn steal_ns(&self) -> Option<u64> {
        Some(self.cpus.as_ref()?.iter().map(|cpu| cpu.steal_ns).sum())
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The lines `cpuN user nice system idle iowait irq softirq steal …` of `/proc/stat`, in ticks.
fn parse(stat: &str, tick_ns: u64) -> Vec<PerCpu> {
    let line = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = fields.next()?.parse().ok()?;
        let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let ns = |field: usize| ticks.get(field).copied().unwrap_or(0).saturating_mul(tick_ns);
        Some(PerCpu {
            cpu,
            busy_ns: ns(0).saturating_add(ns(1)).saturating_add(ns(2)),
            idle_ns: ns(3).saturating_add(ns(4)),
            interrupt_ns: ns(5),
            soft_interrupt_ns: ns(6),
            steal_ns: ns(7),
        })
    };
    // The first line is the sum, without a number.
    stat.lines().filter(|l| !l.starts_with("cpu ")).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_lines_of_the_cpus_are_read_and_the_sum_is_not() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu11 10 0 0 0\nintr 5 5\n";
        let first = PerCpu {
            cpu: 0,
            busy_ns: 60,
            idle_ns: 90,
            interrupt_ns: 60,
            soft_interrupt_ns: 70,
            steal_ns: 80,
        };
        let short = PerCpu { cpu: 11, busy_ns: 100, ..PerCpu::default() };
        assert_eq!(parse(stat, 10), [first, short]);
    }

    #[test]
    fn work_is_accounted_to_the_thread_that_does_it() {
        let work = || {
            let (begun, before) = (Instant::now(), CpuTime::of_thread().unwrap());
            let spent = loop {
                let spent = CpuTime::of_thread().unwrap().since(&before).total_ns();
                if spent >= 20_000_000 || begun.elapsed() > Duration::from_secs(20) {
                    break spent;
                }
            };
            assert!(spent >= 20_000_000);
        };
        let (process, thread) = (CpuTimes::now(), CpuTime::of_thread().unwrap());
        std::thread::spawn(work).join().unwrap();
        let used = CpuTimes::now().since(&process);
        assert!(used.process.unwrap().total_ns() >= 20_000_000, "{used:?}");
        assert!(used.elapsed_ns >= 20_000_000);
        assert!(CpuTime::of_thread().unwrap().since(&thread).total_ns() < 20_000_000);
    }

    #[test]
    fn a_clock_that_runs_backwards_counts_nothing() {
        let (more, less) = (PerCpu { idle_ns: 5, ..PerCpu::default() }, PerCpu::default());
        assert_eq!(less.since(&more).idle_ns, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(7),
            failure_persistence: None,
            ..Default::default()
        })]
        #[test]
        fn any_text_is_survived(text in "(cpu[0-9 ]{0,30}\n|.{0,20}\n){0,5}") {
            let _ = parse(&text, 10_000_000);
        }
    }
}
