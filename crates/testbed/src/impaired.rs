//! A cable that loses, delays, reorders and duplicates frames by a seed, and that can be a bottleneck.
//!
//! Each end is a tap device, and a thread for each direction reads frames from one and writes them to the other. A tap device has no
//! offloads here: the kernel cuts large packets and completes checksums before the thread sees them, so that a frame is what it would
//! be on a wire. What becomes of a frame follows from the seed and its number alone; when it arrives is up to the machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::namespaces::{Forwarding, create};
use crate::options::Options;
use crate::testbed::{Place, configure};
use crate::tunnel::{Layer, device};
use crate::{Testbed, TestbedError};

/// The longest frame.
const FRAME_MAX: usize = 65_535;
/// How long the end of a cable waits for its threads to notice.
const LOOK: Duration = Duration::from_millis(20);
/// What a frame takes on a line beside its bytes: preamble, FCS and the gap to the next (IEEE 802.3 §3.1, §4.4.2).
const OVERHEAD: u64 = 8 + 4 + 12;

/// Of how many frames of a way it is kept how long they travelled.
const LOGGED: usize = 1 << 16;

/// What happens to frames on the way, in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Every frame travels so long.
    pub delay: Duration,
    /// The share of frames that is lost, of 1.
    pub loss: f64,
    /// The share of frames that arrives twice.
    pub duplicates: f64,
    /// The share of frames that is held back for `hold`, and so overtaken.
    pub held: f64,
    /// See `held`.
    pub hold: Duration,
    /// Bits that the line carries in a second; `None`: frames take no time to be sent.
    pub rate: Option<u64>,
    /// How many bytes may wait for the line; more are dropped. Only with a rate.
    pub queue: u64,
    /// Decides which frames.
    pub seed: u64,
}

impl Default for Impairment {
    fn default() -> Impairment {
        Impairment {
            delay: Duration::ZERO,
            loss: 0.0,
            duplicates: 0.0,
            held: 0.0,
            hold: Duration::from_millis(2),
            rate: None,
            queue: 1 << 20,
            seed: 1,
        }
    }
}

/// What became of the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// That came.
    pub sent: u64,
    /// Lost by the seed.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Held back.
    pub held: u64,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    lost: AtomicU64,
    dropped: AtomicU64,
    duplicated: AtomicU64,
    held: AtomicU64,
    travelled: Mutex<Vec<Duration>>,
}

/// Two namespaces and such a cable between them: `wb0` at 10.77.0.1 and `wb1` at 10.77.0.2. Gone when it is dropped.
#[derive(Debug)]
pub struct ImpairedCable {
    /// Its ends.
    pub bed: Testbed,
    counters: [Arc<Counters>; 2],
    ended: Arc<AtomicBool>,
    carriers: Vec<JoinHandle<()>>,
}

impl ImpairedCable {
    /// Lays it; `there` is the way from `a` to `b`.
    pub fn new(
        options: &Options,
        there: Impairment,
        back: Impairment,
    ) -> Result<ImpairedCable, TestbedError> {
        let end = |label: &str, name: &str, host: u8| {
            let namespace = create(label, options.addressing, Forwarding::Off)?;
            let tap =
                namespace.run(|| device(name, Layer::Ethernet))?.map_err(TestbedError::Tun)?;
            let end = configure(namespace, name, Place { network: 0, host }, options)?;
            Ok::<_, TestbedError>((end, Arc::new(tap)))
        };
        let (a, near) = end("a", "wb0", 1)?;
        let (b, far) = end("b", "wb1", 2)?;
        let ended = Arc::new(AtomicBool::new(false));
        let counters: [Arc<Counters>; 2] = Default::default();
        let ways = [(there, &near, &far), (back, &far, &near)];
        let carriers = ways.into_iter().zip(&counters).map(|((impairment, from, to), counters)| {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let (counters, ended) = (Arc::clone(counters), Arc::clone(&ended));
            let way = Way::new(impairment, counters);
            let thread = thread::Builder::new().name("impaired cable".to_owned());
            thread.spawn(move || way.carry(&from, &to, &ended)).map_err(TestbedError::Thread)
        });
        let carriers = carriers.collect::<Result<_, _>>()?;
        let bed = Testbed { a, b, more: Vec::new(), device: None }.connected()?;
        Ok(ImpairedCable { bed, counters, ended, carriers })
    }

    /// What became of the frames from `a` to `b`, and of those back.
    pub fn carried(&self) -> [Carried; 2] {
        self.counters.each_ref().map(|counters| {
            let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            Carried {
                sent: of(&counters.sent),
                lost: of(&counters.lost),
                dropped: of(&counters.dropped),
                duplicated: of(&counters.duplicated),
                held: of(&counters.held),
            }
        })
    }

    /// How long frames were in the cable, from `a` to `b` and back: the first 65,536 of each way since this was asked before.
    pub fn travelled(&self) -> [Vec<Duration>; 2] {
        self.counters.each_ref().map(|counters| std::mem::take(&mut *counters.log()))
    }
}

impl Counters {
    fn log(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.travelled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ImpairedCable {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.carriers.drain(..).for_each(|carrier| drop(carrier.join()));
    }
}

/// A frame under way: when it leaves, and when it came. The number keeps frames of the same moment in order.
type Frame = Reverse<(Instant, u64, Instant, Vec<u8>)>;

struct Way {
    impairment: Impairment,
    counters: Arc<Counters>,
    /// Ordered by arrival.
    under_way: BinaryHeap<Frame>,
    /// When the line is free again.
    free: Instant,
    number: u64,
}

impl Way {
    fn new(impairment: Impairment, counters: Arc<Counters>) -> Way {
        let (under_way, free) = (BinaryHeap::new(), Instant::now());
        Way { impairment, counters, under_way, free, number: 0 }
    }

    /// Carries frames until `ended`, or until a device is gone.
    fn carry(mut self, mut from: &File, mut to: &File, ended: &AtomicBool) {
        let mut frame = vec![0; FRAME_MAX];
        while !ended.load(Ordering::Acquire) {
            let next = self.under_way.peek().map(|Reverse((due, ..))| *due);
            let wait = next.map_or(LOOK, |due| due.saturating_duration_since(Instant::now()));
            let wait = wait.min(LOOK);
            let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            if poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&wait)).is_err() {
                return;
            }
            loop {
                match from.read(&mut frame) {
                    Ok(length) => self.take(&frame[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return,
                }
            }
            let now = Instant::now();
            while self.under_way.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
                let Some(Reverse((_, _, came, frame))) = self.under_way.pop() else { break };
                let travelled = came.elapsed();
                // an interface that is down takes nothing
                let _ = to.write(&frame);
                let mut log = self.counters.log();
                if log.len() < LOGGED {
                    log.push(travelled);
                }
            }
        }
    }

    /// A frame that came now.
    fn take(&mut self, frame: &[u8]) {
        let now = Instant::now();
        let it = self.impairment;
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        count(&self.counters.sent);
        let mut leaves = now;
        if let Some(rate) = it.rate {
            let waiting = self.free.saturating_duration_since(now).as_secs_f64();
            if waiting * rate as f64 / 8.0 > it.queue as f64 {
                return count(&self.counters.dropped);
            }
            let bits = (frame.len() as u64 + OVERHEAD) * 8;
            self.free = self.free.max(now) + Duration::from_secs_f64(bits as f64 / rate as f64);
            leaves = self.free;
        }
        self.number += 1;
        // each frame has numbers of its own, whatever is asked of the others
        let happens = |question: u64, share: f64| {
            let drawn = mix(mix(it.seed) ^ mix(4 * self.number + question));
            // 53 bits, as a share of 1
            ((drawn >> 11) as f64 / (1_u64 << 53) as f64) < share
        };
        if happens(0, it.loss) {
            return count(&self.counters.lost);
        }
        let mut due = leaves + it.delay;
        let (twice, held) = (happens(1, it.duplicates), happens(2, it.held));
        if twice {
            count(&self.counters.duplicated);
            self.under_way.push(Reverse((due, 2 * self.number, now, frame.to_vec())));
        }
        if held {
            count(&self.counters.held);
            due += it.hold;
        }
        self.under_way.push(Reverse((due, 2 * self.number + 1, now, frame.to_vec())));
    }
}

/// A mixer of 64 bits (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
