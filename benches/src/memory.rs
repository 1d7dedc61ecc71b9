//! The memory of a process: the most that it took, and how it grew while it did one thing after the other.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::lab::Failure;

/// What a process took, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The peak of its resident memory (VmHWM of proc(5)).
    pub peak: u64,
    /// Its resident memory now (VmRSS).
    pub resident: u64,
    /// Its huge pages of hugetlbfs, which are not among it (HugetlbPages of proc(5)).
    pub huge: u64,
}

impl Memory {
    /// The most of it, in bytes.
    pub fn bytes(self) -> f64 {
        (self.peak + self.huge) as f64 * 1024.0
    }

    /// What it has now, in bytes.
    fn now(self) -> f64 {
        (self.resident + self.huge) as f64 * 1024.0
    }

    /// Of this process until now.
    pub fn of_process() -> Result<Memory, Failure> {
        Self::of_status(&fs::read_to_string("/proc/self/status")?)
            .ok_or_else(|| "/proc/self/status has no VmHWM".into())
    }

    fn of_status(status: &str) -> Option<Memory> {
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse().ok()
        };
        // a kernel without hugetlbfs does not say how much of it a process has
        let huge = field("HugetlbPages:").unwrap_or(0);
        Some(Memory { peak: field("VmHWM:")?, resident: field("VmRSS:")?, huge })
    }
}

/// How often it is looked at, and how often in all.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: usize = 20_000;

/// The memory at a moment: in which part of the work, how many nanoseconds after its begin, and how many bytes.
pub type Look = (usize, f64, f64);

/// Looks at the memory of this process until it is asked for its looks, or dropped.
#[derive(Debug)]
pub struct Watch {
    part: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Look>>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    /// From now on, in part 0.
    pub fn start() -> Watch {
        let (part, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (its_part, is_over, begin) = (Arc::clone(&part), Arc::clone(&over), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut looks = Vec::new();
            while looks.len() < LOOKS && !is_over.load(Ordering::Relaxed) {
                if let Ok(memory) = Memory::of_process() {
                    let at = begin.elapsed().as_nanos() as f64;
                    looks.push((its_part.load(Ordering::Relaxed), at, memory.now()));
                }
                std::thread::sleep(LOOK);
            }
            looks
        });
        Watch { part, over, thread: Some(thread) }
    }

    /// The next part begins.
    pub fn next(&self) {
        self.part.fetch_add(1, Ordering::Relaxed);
    }

    /// What was seen.
    pub fn looks(mut self) -> Vec<Look> {
        self.over.store(true, Ordering::Relaxed);
        let looks = self.thread.take().map(JoinHandle::join);
        looks.and_then(Result::ok).unwrap_or_default()
    }
}

/// Reads a line of a look as [`print()`] writes it.
pub fn read(line: &str) -> Option<Look> {
    let mut words = line.split_whitespace();
    let look =
        (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(look)
}

/// A line for each look.
pub fn print(looks: &[Look]) {
    for (part, at, bytes) in looks {
        println!("{part} {at} {bytes}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_its_names() {
        let status =
            "VmPeak:\t 9000 kB\nVmHWM:\t  142512 kB\nVmRSS:\t 100 kB\nHugetlbPages:\t    2048 kB\n";
        assert_eq!(
            Memory::of_status(status),
            Some(Memory { peak: 142_512, resident: 100, huge: 2048 })
        );
        assert_eq!(
            Memory::of_status("VmHWM:\t 1 kB\nVmRSS:\t 1 kB\n"),
            Some(Memory { peak: 1, resident: 1, huge: 0 })
        );
        assert_eq!(Memory::of_status("VmRSS:\t 100 kB\n"), None);
    }

    #[test]
    fn looks_are_of_the_part_that_was_under_way() {
        let watch = Watch::start();
        std::thread::sleep(3 * LOOK);
        watch.next();
        std::thread::sleep(3 * LOOK);
        let looks = watch.looks();
        assert!(looks.iter().any(|look| look.0 == 0) && looks.iter().any(|look| look.0 == 1));
        assert!(looks.iter().all(|look| look.2 > 0.0) && looks.is_sorted_by_key(|look| look.1));
        assert_eq!(
            (read("1 2.5 3e9"), read("1 2"), read("1 2 3 4")),
            (Some((1, 2.5, 3e9)), None, None)
        );
    }
}
