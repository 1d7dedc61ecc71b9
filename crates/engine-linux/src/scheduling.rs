//! How a thread competes for a CPU: on which CPUs it may run, with which policy and weight, and what of that was in force.
//!
//! A thread applies its [`ThreadOrders`] to itself and gives everything back when it drops what it got for them. It knows
//! nothing of what the thread does. Why the system refuses more is in `refusal.rs`; who gets which CPU is decided by
//! `wirebeat-run`.

mod refusal;

use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wirebeat_units::Nanos;

pub use refusal::{realtime_refusal, realtime_share};

/// How much a thread asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// What it was started with.
    #[default]
    Normal,
    /// The heaviest weight that is permitted, and a short slice.
    High,
    /// SCHED_FIFO: before everything that has no real-time policy.
    Realtime,
}

/// The policy of a thread (sched(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// Any other, by its number.
    Number(u32),
}

/// What was in force for a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// The thread's number, for the system's own view of it.
    pub thread: i32,
    /// The CPUs that it may run on, in order.
    pub cpus: Vec<usize>,
    /// Its policy.
    pub policy: Policy,
    /// Its nice value, −20 to 19: the lower, the heavier.
    pub nice: i32,
    /// The slice that it asked for; `None` where the kernel takes none (before Linux 6.12), or it asked for none.
    pub slice: Option<Nanos>,
    /// The priority within SCHED_FIFO, 1 to 99; 0 otherwise.
    pub fifo: u32,
    /// Why it has less than it asked for.
    pub refused: Option<String>,
}

/// Where a thread writes what is in force for it, for others to read.
#[derive(Debug, Default)]
pub struct ThreadState(Mutex<Option<Scheduling>>);

impl ThreadState {
    /// What is in force, once the thread has begun.
    pub fn get(&self) -> Option<Scheduling> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, where the thread is known to begin: waits for that, until `patience` is over.
    pub fn begun(&self, patience: Duration) -> Option<Scheduling> {
        let until = Instant::now() + patience;
        loop {
            let state = self.get();
            if state.is_some() || Instant::now() >= until {
                return state;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn set(&self, scheduling: Scheduling) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(scheduling);
    }

    /// Lets the thread run on these CPUs as well from now on. False where it has not begun, or the system refuses.
    pub fn widen(&self, cpus: &[usize]) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = state.as_mut() else { return false };
        let mut all: Vec<usize> = state.cpus.iter().chain(cpus).copied().collect();
        all.sort_unstable();
        all.dedup();
        let Some(thread) = rustix::thread::Pid::from_raw(state.thread) else { return false };
        let moved = sched_setaffinity(Some(thread), &set_of(&all)).is_ok();
        if moved {
            state.cpus = all;
        }
        moved
    }
}

/// What a thread is to apply to itself.
#[derive(Clone, Debug, Default)]
pub struct ThreadOrders {
    /// The CPUs that it may run on; none: as it was started.
    pub cpus: Vec<usize>,
    /// How much it asks for.
    pub priority: Priority,
    /// Where it writes what is in force.
    pub state: Arc<ThreadState>,
}

/// Nice of a thread that asks for more.
const HIGHEST: i32 = -20;
/// Its slice: the shortest that the kernel takes (`kernel/sched/syscalls.c`, 0.1 ms to 100 ms since Linux 6.12).
const SLICE: Nanos = Nanos::from_micros(100);
/// The real-time priority: below threaded interrupts, which have 50 and without which nothing arrives.
pub const FIFO: u32 = 10;

/// What was changed for the calling thread; given back when dropped.
#[derive(Debug)]
pub struct Applied {
    attributes: Option<Attributes>,
    affinity: Option<CpuSet>,
    thread: PhantomData<*const ()>,
}

impl Drop for Applied {
    fn drop(&mut self) {
        // best effort: what was in force before was permitted then
        if let Some(before) = &self.attributes {
            let _ = before.set();
        }
        if let Some(before) = &self.affinity {
            let _ = sched_setaffinity(None, before);
        }
    }
}

impl ThreadOrders {
    /// One CPU, and nothing else.
    pub fn on(cpu: usize) -> ThreadOrders {
        ThreadOrders { cpus: vec![cpu], ..ThreadOrders::default() }
    }

    /// Those of worker number `index` of `workers` that share these: it has one of the CPUs, and writes for itself.
    pub fn of_worker(&self, index: usize, workers: usize) -> ThreadOrders {
        if workers <= 1 {
            return self.clone();
        }
        let cpus = self.cpus.iter().cycle().skip(index).take(1).copied().collect();
        ThreadOrders { cpus, priority: self.priority, ..ThreadOrders::default() }
    }

    /// Applies them to the calling thread. An error where a CPU cannot be had, or real time, which was asked for by name;
    /// a weight that is not permitted is left, and said in [`Scheduling::refused`].
    pub fn apply(&self) -> io::Result<Applied> {
        let mut applied = Applied { attributes: None, affinity: None, thread: PhantomData };
        if !self.cpus.is_empty() {
            let before = sched_getaffinity(None)?;
            if let Some(cpu) = self.cpus.iter().find(|&&cpu| cpu >= CpuSet::MAX_CPU) {
                let why = format!("there is no CPU {cpu}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            sched_setaffinity(None, &set_of(&self.cpus))?;
            applied.affinity = Some(before);
        }
        let (attributes, refused) = raise(self.priority)?;
        applied.attributes = attributes;
        self.state.set(in_force(refused));
        Ok(applied)
    }
}

/// Raises the calling thread, and so those that it starts meanwhile. At most to [`Priority::High`]: who helps is not put
/// before the rest of the machine. Nothing where that is not permitted.
pub fn raise_helpers(priority: Priority) -> Applied {
    let priority = match priority {
        Priority::Normal => Priority::Normal,
        Priority::High | Priority::Realtime => Priority::High,
    };
    let attributes = raise(priority).ok().and_then(|(before, _)| before);
    Applied { attributes, affinity: None, thread: PhantomData }
}

/// What was in force before, if it was changed, and why it is less than was asked for.
type Raised = (Option<Attributes>, Option<String>);

fn raise(priority: Priority) -> io::Result<Raised> {
    let wanted = match priority {
        Priority::Normal => return Ok((None, None)),
        Priority::High => Attributes::high(refusal::best_nice()),
        Priority::Realtime => Attributes::fifo(),
    };
    let before = Attributes::get()?;
    if priority == Priority::Realtime {
        wanted.set()?;
        return Ok((Some(before), None));
    }
    // never less than it has
    let wanted = Attributes { nice: wanted.nice.min(before.nice), ..wanted };
    let refused = match wanted.set() {
        Ok(()) if wanted.nice > HIGHEST => Some(refusal::nice_refusal()),
        Ok(()) => None,
        Err(error) => {
            return Ok((None, Some(format!("the system refused a higher weight: {error}"))));
        }
    };
    Ok((Some(before), refused))
}

/// What is in force for the calling thread.
fn in_force(refused: Option<String>) -> Scheduling {
    let attributes = Attributes::get().unwrap_or_default();
    let policy = match attributes.policy {
        0 => Policy::Other,
        1 => Policy::Fifo,
        other => Policy::Number(other),
    };
    let slice = Some(Nanos::new(attributes.runtime)).filter(|&slice| slice == SLICE);
    Scheduling {
        thread: rustix::thread::gettid().as_raw_nonzero().get(),
        cpus: crate::affinity::allowed(),
        policy,
        nice: attributes.nice,
        slice: slice.filter(|_| policy == Policy::Other),
        fifo: attributes.priority,
        refused,
    }
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    set
}

/// `struct sched_attr` of the kernel (sched_setattr(2)), as far as Linux 3.14 knew it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For SCHED_OTHER the slice, since Linux 6.12; older kernels pass it over.
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(SIZE == 48);

impl Attributes {
    fn high(nice: i32) -> Attributes {
        Attributes { size: SIZE, nice, runtime: SLICE.get(), ..Attributes::default() }
    }

    fn fifo() -> Attributes {
        Attributes { size: SIZE, policy: 1, priority: FIFO, ..Attributes::default() }
    }

    /// Those of the calling thread.
    fn get() -> io::Result<Attributes> {
        let mut attributes = Attributes::default();
        // SAFETY: the kernel writes at most `SIZE` bytes, which is the length of `attributes`.
        let result = unsafe {
            libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0 as libc::c_uint)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(attributes) }
    }

    /// Sets those of the calling thread.
    fn set(&self) -> io::Result<()> {
        let attributes = Attributes { size: SIZE, ..*self };
        // SAFETY: the kernel reads `size` bytes, which is the length of `attributes`.
        let result = unsafe {
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0 as libc::c_uint)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread of its own does.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn a_thread_gets_what_is_permitted_and_gives_it_back() {
        apart(|| {
            let before = in_force(None);
            let orders = ThreadOrders { priority: Priority::High, ..ThreadOrders::default() };
            let applied = orders.apply().unwrap();
            let now = orders.state.get().unwrap();
            assert_eq!(now.policy, Policy::Other);
            assert_eq!(now.nice == HIGHEST, now.refused.is_none(), "{now:?}");
            assert!(now.nice <= before.nice);
            drop(applied);
            assert_eq!(in_force(None), before);
        });
    }

    #[test]
    fn who_helps_is_raised_with_its_starter_and_never_to_real_time() {
        apart(|| {
            let before = in_force(None);
            let raised = raise_helpers(Priority::Realtime);
            let helper = apart(|| in_force(None));
            assert_eq!(helper.policy, Policy::Other);
            assert_eq!(helper.nice, in_force(None).nice);
            drop(raised);
            assert_eq!(in_force(None), before);
            drop(raise_helpers(Priority::Normal));
            assert_eq!(in_force(None), before);
        });
    }

    #[test]
    fn real_time_is_had_or_the_reason_is_named() {
        apart(|| {
            let orders = ThreadOrders { priority: Priority::Realtime, ..ThreadOrders::default() };
            match (orders.apply(), realtime_refusal()) {
                (Ok(_applied), None) => {
                    let now = orders.state.get().unwrap();
                    assert_eq!((now.policy, now.fifo), (Policy::Fifo, FIFO));
                }
                (Err(_), Some(why)) => assert!(why.hint.is_some(), "no remedy: {why}"),
                (applied, why) => panic!("{applied:?} and {why:?}"),
            }
            assert_eq!(in_force(None).policy, Policy::Other);
        });
    }

    #[test]
    fn a_thread_runs_where_it_was_told_and_later_elsewhere_too() {
        let all = crate::affinity::allowed();
        let last = *all.last().unwrap();
        apart(|| {
            let orders = ThreadOrders::on(last);
            assert!(!orders.state.widen(&all), "it has not begun");
            let _applied = orders.apply().unwrap();
            assert_eq!(crate::affinity::allowed(), [last]);
            let state = Arc::clone(&orders.state);
            assert!(apart(|| state.widen(&all)));
            assert_eq!(crate::affinity::allowed(), all);
            assert_eq!(orders.state.get().unwrap().cpus, all);
        });
        let nowhere = ThreadOrders::on(CpuSet::MAX_CPU);
        assert!(nowhere.apply().unwrap_err().to_string().contains("there is no CPU"));
    }
}
