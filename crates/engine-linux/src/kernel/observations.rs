//! The reader's side of the rings in which the receiving program puts observations (`bpf/observe.h`): one for each CPU,
//! mapped, with one writer and one reader each. Nothing here is a system call.

use std::mem::offset_of;

use wirebeat_meter::observation::{Observation, Observed, Standing};
use wirebeat_units::Nanos;

use super::abi::{OBSERVATION_HEAD, OBSERVED_MAX, Observer, observation};
use super::mapped::Mapped;

/// The most memory that the rings of one receiver take, in bytes.
const MEMORY_MAX: usize = 256 << 20;

/// What a receiver makes observations of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservationOptions {
    /// Of which frames.
    pub frames: Observed,
    /// How many of their first bytes come with them: up to [`ObservationOptions::BYTES_MAX`], rounded up to a multiple of 8.
    pub bytes: u16,
    /// Observations that there is room for on each CPU before the first is read; rounded up to a power of two.
    pub slots: u32,
}

impl ObservationOptions {
    /// The most bytes of a frame.
    pub const BYTES_MAX: u16 = OBSERVED_MAX;

    /// As many observations of so many bytes as fit into `memory` bytes on this machine.
    pub fn within(memory: usize, frames: Observed, bytes: u16) -> ObservationOptions {
        let options = ObservationOptions { frames, bytes, slots: 2 };
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1).max(1);
        let fit = memory.min(MEMORY_MAX) / cpus / options.stride();
        let slots = fit.checked_ilog2().map_or(2, |log| 1 << log.min(24));
        ObservationOptions { slots, ..options }
    }

    /// Bytes of a frame in an observation.
    pub(super) fn caught(&self) -> u32 {
        u32::from(self.bytes.min(OBSERVED_MAX)).next_multiple_of(8)
    }

    /// Bytes of an observation in a ring.
    pub(super) fn stride(&self) -> usize {
        OBSERVATION_HEAD + self.caught() as usize
    }

    /// Observations of a ring; `None` where the rings of so many CPUs would take too much memory.
    pub(super) fn slots(&self, cpus: usize) -> Option<u32> {
        let slots = self.slots.max(2).checked_next_power_of_two()?;
        let all = (slots as usize).checked_mul(cpus)?.checked_mul(self.stride())?;
        (all <= MEMORY_MAX).then_some(slots)
    }

    /// The same in MiB, for messages.
    pub(super) const MEMORY_MAX_MIB: usize = MEMORY_MAX >> 20;
}

/// How the rings lie in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rings {
    pub(super) cpus: usize,
    pub(super) slots: u32,
    pub(super) stride: usize,
    /// How far the clock of this process is ahead of the one that the program reads, in ns.
    pub(super) clock_ahead: i64,
}

/// A frame that left, as the transmitting program tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartureObservation<'a> {
    /// What it is counted by.
    pub tag: u32,
    /// Its number among those of its tag.
    pub sequence: u32,
    /// When it was to leave; `None`: at once.
    pub due: Option<Nanos>,
    /// When it left.
    pub left: Nanos,
    /// Bytes of the frame, with FCS.
    pub frame_len: u32,
    /// Its first bytes from the Ethernet header on: as many as were asked for, or fewer where the frame is shorter.
    pub bytes: &'a [u8],
}

/// The observations of a receiver, or of a sender. They outlive it: what it put down before it was dropped can still be read.
#[derive(Debug)]
pub struct Observations {
    heads: Mapped,
    records: Mapped,
    rings: Rings,
    /// The flows that are known by their headers, in the order of their rows.
    recognised: Vec<u16>,
    /// How many were read of each ring.
    consumed: Vec<u64>,
}

impl Observations {
    pub(super) fn new(
        heads: Mapped,
        records: Mapped,
        rings: Rings,
        recognised: Vec<u16>,
    ) -> Observations {
        Observations { heads, records, rings, recognised, consumed: vec![0; rings.cpus] }
    }

    /// Hands on up to `most` observations, CPU by CPU and of each in the order of arrival, and says how many. 0: there are none
    /// now.
    pub fn read(&mut self, most: usize, mut each: impl FnMut(&Observation<'_>)) -> usize {
        self.take(most, |this, at| each(&this.observation(at)))
    }

    /// The same of a sender: hands on up to `most` frames that left.
    pub fn read_departures(
        &mut self,
        most: usize,
        mut each: impl FnMut(&DepartureObservation<'_>),
    ) -> usize {
        self.take(most, |this, at| each(&this.departure(at)))
    }

    /// Shows where the next observations lie.
    fn take(&mut self, most: usize, mut each: impl FnMut(&Observations, usize)) -> usize {
        let mut left = most;
        for cpu in 0..self.rings.cpus {
            let first = self.consumed[cpu];
            let mut next = first;
            while left > 0 {
                let at = self.at(cpu, next);
                if self.records.load(at + observation::MARK) != next + 1 {
                    break;
                }
                each(self, at);
                next += 1;
                left -= 1;
            }
            if next != first {
                self.consumed[cpu] = next;
                let head = cpu * size_of::<Observer>();
                self.heads.store(head + offset_of!(Observer, consumed), next);
            }
        }
        most - left
    }

    /// Frames that were to be observed and found their ring full.
    pub fn lost(&self) -> u64 {
        let lost = |cpu| cpu * size_of::<Observer>() + offset_of!(Observer, lost);
        (0..self.rings.cpus).map(|cpu| self.heads.load(lost(cpu))).sum()
    }

    /// Where observation `number` of a CPU lies.
    fn at(&self, cpu: usize, number: u64) -> usize {
        let slots = self.rings.slots as usize;
        (cpu * slots + (number as usize & (slots - 1))) * self.rings.stride
    }

    fn departure(&self, at: usize) -> DepartureObservation<'_> {
        let [_, caught, ..] = shorts(self.records.load(at + observation::FLOW).to_ne_bytes());
        let (sequence, frame_len) = self.records.load_pair(at + observation::SEQUENCE);
        let due = self.records.load(at + observation::SENT_NS);
        DepartureObservation {
            tag: self.records.load_pair(at + observation::PAYLOAD_LEN).0,
            sequence,
            due: (due > 0).then_some(Nanos::new(due)),
            left: Nanos::new(self.records.load(at + observation::ARRIVED_NS)),
            frame_len,
            bytes: self.bytes(at, caught),
        }
    }

    /// The first bytes of a frame, of which `caught` were copied.
    fn bytes(&self, at: usize, caught: u16) -> &[u8] {
        let caught = usize::from(caught).min(self.rings.stride - OBSERVATION_HEAD);
        // SAFETY: the program writes to an observation again only when its ring's head says that it was read, which
        // `take` says after the last look at it.
        unsafe { self.records.bytes_of(at + OBSERVATION_HEAD, caught) }
    }

    fn observation(&self, at: usize) -> Observation<'_> {
        let (sequence, frame_len) = self.records.load_pair(at + observation::SEQUENCE);
        let [flow, caught, queue, standing] =
            shorts(self.records.load(at + observation::FLOW).to_ne_bytes());
        let standing = Standing::ALL.get(usize::from(standing)).copied();
        let standing = standing.unwrap_or(Standing::Foreign);
        // every number may be that of a flow
        let probed = standing.is_measured() && standing != Standing::WithoutProbe;
        Observation {
            flow: match standing {
                Standing::WithoutProbe => self.recognised.get(usize::from(flow)).copied(),
                _ => probed.then_some(flow),
            },
            sequence: probed.then_some(sequence),
            sent: probed.then(|| Nanos::new(self.records.load(at + observation::SENT_NS))),
            arrived: Nanos::new(
                self.records
                    .load(at + observation::ARRIVED_NS)
                    .saturating_add_signed(self.rings.clock_ahead),
            ),
            frame_len,
            payload_len: self.records.load_pair(at + observation::PAYLOAD_LEN).0,
            queue,
            standing,
            bytes: self.bytes(at, caught),
        }
    }
}

/// Four numbers of 16 bits.
fn shorts([a, b, c, d, e, f, g, h]: [u8; 8]) -> [u16; 4] {
    [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_a_bound() {
        let options = ObservationOptions { frames: Observed::All, bytes: 60, slots: 1000 };
        assert_eq!((options.caught(), options.stride()), (64, 112));
        assert_eq!(options.slots(2), Some(1024));
        let within = ObservationOptions::within(64 << 20, Observed::All, 1518);
        let cpus = libbpf_rs::num_possible_cpus().unwrap();
        let all = within.slots as usize * cpus * within.stride();
        assert!((32 << 20..=64 << 20).contains(&all), "{within:?}");
        assert_eq!(ObservationOptions { slots: u32::MAX, ..options }.slots(1), None);
        assert_eq!(ObservationOptions { slots: 1 << 20, ..options }.slots(4), None);
        let most = ObservationOptions { bytes: u16::MAX, ..options };
        assert_eq!(most.caught(), u32::from(ObservationOptions::BYTES_MAX));
    }
}
