//! CPU time of the threads of a process, looked at from outside while it runs. What a thread took is gone with it: the last look counts.

use std::collections::BTreeMap;
use std::fs;

/// Nanoseconds on a CPU, by thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes(BTreeMap<u32, ThreadTime>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadTime {
    name: String,
    ns: u64,
}

impl ThreadTimes {
    /// Looks at the threads that there are now; what was seen of others stays.
    pub fn look(&mut self, process: u32) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return };
        let numbers = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        for thread in numbers.collect::<Vec<u32>>() {
            let file = |name| fs::read_to_string(format!("/proc/{process}/task/{thread}/{name}"));
            // its first field is the time on a CPU (Documentation/scheduler/sched-stats.rst)
            let ns = |text: String| text.split_ascii_whitespace().next()?.parse::<u64>().ok();
            // it may end between two looks
            let (Ok(name), Some(ns)) = (file("comm"), file("schedstat").ok().and_then(ns)) else {
                continue;
            };
            self.0.insert(thread, ThreadTime { name: name.trim_end().to_owned(), ns });
        }
    }

    /// What threads of this name took of the time of all; `None` where there is none, or nothing was counted.
    pub fn share(&self, name: &str) -> Option<f64> {
        let all: u64 = self.0.values().map(|thread| thread.ns).sum();
        let own = self.0.values().filter(|thread| thread.name == name).map(|thread| thread.ns);
        let own: Option<u64> = own.fold(None, |sum, ns| Some(sum.unwrap_or(0) + ns));
        own.filter(|_| all > 0).map(|own| own as f64 / all as f64)
    }
}

/// A process whose parent is this one.
pub fn child_of(parent: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|process| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // the name before it is in parentheses, and may have any character (proc(5))
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok()) == Some(parent)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_works_has_most_of_the_time_also_when_it_is_gone() {
        let (done, is_done) = channel::<()>();
        let work = thread::Builder::new().name("wb-busy".to_owned()).spawn(move || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(300) {
                std::hint::spin_loop();
            }
            let _ = is_done.recv();
        });
        let idle = thread::Builder::new().name("wb-idle".to_owned());
        let (wakes, woken) = channel::<()>();
        let idle = idle.spawn(move || woken.recv().is_ok()).unwrap();
        thread::sleep(Duration::from_millis(400));
        let mut times = ThreadTimes::default();
        times.look(std::process::id());
        drop((done, wakes));
        work.unwrap().join().unwrap();
        idle.join().unwrap();
        times.look(std::process::id());
        // other tests may run beside it
        let busy = times.share("wb-busy").unwrap();
        assert!(busy > times.share("wb-idle").unwrap() && busy > 0.01, "{times:?}");
        assert_eq!(times.share("no such thread"), None);
        assert_eq!(ThreadTimes::default().share("wb-busy"), None);
    }

    #[test]
    fn a_child_is_found_by_its_parent() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = child_of(child.id());
        // its own parent is this process, which may have children of other tests as well
        let own = child_of(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.is_none() && own.is_some(), "{found:?} {own:?}");
    }
}
