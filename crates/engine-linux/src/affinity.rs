//! Where a thread runs and how exactly it is woken.

use std::io;
use std::marker::PhantomData;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to `cpu`.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Asks that sleeps of the calling thread end on time: the default slack is 50 µs (prctl(2),
/// PR_SET_TIMERSLACK). Best effort: without it, sleeps are only less exact.
pub fn precise_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// The CPUs that the calling thread may run on, in order; none when the system does not say.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// While it lives, the calling thread and those that it starts keep off some CPUs, so that what transmits there is not
/// kept from it by its own helpers: a CPU that is in the kernel for long is not seen to be busy by who wakes a thread.
///
/// Where no other CPU is allowed nothing changes. It stays with its thread, whose affinity it gives back.
#[derive(Debug)]
pub struct HelperCpuGuard {
    before: Option<CpuSet>,
    thread: PhantomData<*const ()>,
}

impl HelperCpuGuard {
    /// Keeps off these CPUs.
    pub fn from(cpus: impl IntoIterator<Item = usize>) -> HelperCpuGuard {
        HelperCpuGuard { before: Self::keep_off(cpus), thread: PhantomData }
    }

    fn keep_off(cpus: impl IntoIterator<Item = usize>) -> Option<CpuSet> {
        let before = sched_getaffinity(None).ok()?;
        let mut others = before;
        cpus.into_iter().filter(|&cpu| cpu < CpuSet::MAX_CPU).for_each(|cpu| others.unset(cpu));
        if others == before || others.count() == 0 {
            return None;
        }
        // best effort: without it departures are only less exact
        sched_setaffinity(None, &others).ok().map(|()| before)
    }
}

impl Drop for HelperCpuGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_stands_aside_comes_back_and_so_do_not_those_who_were_started_meanwhile() {
        let before = allowed();
        let last = before.last().copied().unwrap();
        let aside = HelperCpuGuard::from([last]);
        let others: Vec<usize> = before.iter().copied().filter(|&cpu| cpu != last).collect();
        let expected = if others.is_empty() { before.clone() } else { others };
        assert_eq!(allowed(), expected);
        assert_eq!(std::thread::spawn(allowed).join().unwrap(), expected);
        {
            let _nothing_is_left = HelperCpuGuard::from(before.clone());
            assert_eq!(allowed(), expected);
        }
        drop(aside);
        assert_eq!(allowed(), before);
        let _there_is_no_such_one = HelperCpuGuard::from([CpuSet::MAX_CPU, CpuSet::MAX_CPU - 1]);
        assert_eq!(allowed(), before);
    }
}
