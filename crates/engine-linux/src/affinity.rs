//! Where a thread runs and how exactly it is woken.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

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
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}
