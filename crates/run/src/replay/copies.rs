//! Copies of a capture as one source of frames, in the order of their times.
//!
//! Packet `k` of copy `n` is due at the start of the copy and the time of the packet in the capture (`template.rs`), so each packet goes
//! through the copies by itself, and what is merged are as many sequences as there are packets. Of a copy that is under way only its
//! start is kept: its ends are a function of its number.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use wirebeat_traffic::program::Copies;
use wirebeat_units::{Fault, Nanos, fault, human};

use super::Recording;
use super::template::Template;

/// The most copies under way: the start of each takes 8 bytes.
const UNDER_WAY_MAX: usize = 1 << 27;
/// How many starts are looked at before the run for ends that come again too early.
const LOOKED_AT: usize = 1 << 20;

/// The packet that is next of those with one number: when, which, and of which copy.
type Next = Reverse<(u64, u32, u64)>;

/// The packets of all copies that one side sends.
pub(super) struct CopySource {
    template: Template,
    copies: Arc<Copies>,
    starts: Box<dyn Iterator<Item = Nanos> + Send>,
    /// The starts of the copies that are under way, and the number of the first of them.
    under_way: VecDeque<u64>,
    first: u64,
    next: BinaryHeap<Next>,
    /// The last packet of the template that this side sends.
    last: u32,
    /// The packet as it is sent.
    made: Vec<u8>,
    /// Copies that have begun.
    begun: u64,
    /// Nothing is due then or later, from the start of the flow.
    end: u64,
}

impl CopySource {
    /// Reads what a recording copies, and checks that copies can be told apart.
    pub(super) fn open(recording: &Recording, copies: &Arc<Copies>) -> Result<CopySource, Fault> {
        let template = Template::read(recording, copies)?;
        check_versions(&template, copies)?;
        check_ends(&template, copies)?;
        check_memory(&template, copies)?;
        let side = recording.replay.side;
        let mine = (0_u32..).zip(&template.packets).filter(|(_, packet)| packet.is_of(side));
        let mine: Vec<u32> = mine.map(|(number, _)| number).collect();
        let mut source = CopySource {
            last: mine.last().copied().unwrap_or(0),
            template,
            copies: Arc::clone(copies),
            starts: Box::new(copies.starts()),
            under_way: VecDeque::new(),
            first: 0,
            next: BinaryHeap::with_capacity(mine.len()),
            made: Vec::new(),
            begun: 0,
            end: recording.stop.saturating_sub(recording.start).get(),
        };
        if let Some(start) = source.start(0)? {
            for number in mine {
                if let Some(packet) = source.template.packets.get(number as usize) {
                    let due = start.saturating_add(packet.after_ns);
                    source.next.push(Reverse((due, number, 0)));
                }
            }
        }
        Ok(source)
    }

    /// How many copies have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// What the capture had that is in no copy.
    pub(super) fn template(&self) -> &Template {
        &self.template
    }

    /// When copy `n` starts, which is under way or the next one; `None` where none does any more.
    fn start(&mut self, n: u64) -> Result<Option<u64>, Fault> {
        let place = usize::try_from(n.saturating_sub(self.first)).unwrap_or(usize::MAX);
        while self.under_way.len() <= place {
            let Some(start) = self.starts.next() else { return Ok(None) };
            if self.under_way.len() >= UNDER_WAY_MAX {
                return Err(too_many());
            }
            self.under_way.push_back(start.get());
        }
        Ok(self.under_way.get(place).copied())
    }

    /// The next packet, and when it is due from the start of the flow.
    pub(super) fn take(&mut self) -> Result<Option<(u64, &[u8])>, Fault> {
        let Some(&Reverse((due, number, copy))) = self.next.peek() else { return Ok(None) };
        if due >= self.end {
            return Ok(None);
        }
        let following = self.start(copy.saturating_add(1))?;
        let Some(packet) = self.template.packets.get(number as usize) else { return Ok(None) };
        if let Some(mut first) = self.next.peek_mut() {
            match following {
                Some(start) => {
                    *first = Reverse((start.saturating_add(packet.after_ns), number, copy + 1));
                }
                None => {
                    PeekMut::pop(first);
                }
            }
        }
        if number == self.last {
            // no packet of this copy comes any more: the others of one time are before the last
            while self.first <= copy && self.under_way.pop_front().is_some() {
                self.first += 1;
            }
        }
        self.begun = self.begun.max(copy.saturating_add(1));
        self.made.clear();
        self.made
            .extend_from_slice(self.template.bytes.get(packet.bytes.clone()).unwrap_or_default());
        let ends = self.copies.ends(copy);
        let ends = packet.ends(&self.copies, &ends, self.template.ports);
        ends.apply(&mut self.made, &packet.located);
        Ok(Some((due, &self.made)))
    }
}

fn too_many() -> Fault {
    fault!(
        "more than {UNDER_WAY_MAX} copies are under way at a time, and each takes 8 bytes";
        "lower the 'rate' of 'copies', or shorten them ('gap', 'turnaround', 'max-gap')"
    )
}

/// That the capture and the pools are of one version of IP.
fn check_versions(template: &Template, copies: &Copies) -> Result<(), Fault> {
    let pools = [&copies.clients.pool, &copies.servers.pool];
    let range = pools.iter().find_map(|pool| pool.addresses.0.first());
    match range.and_then(|range| Some((range, template.has_addresses_of(range.first)?))) {
        Some((range, false)) => Err(fault!(
            "the capture and {range} are of two versions of IP"; "write pools of the version of the capture"
        )),
        _ => Ok(()),
    }
}

/// That no two copies have the same ends at a time.
fn check_ends(template: &Template, copies: &Copies) -> Result<(), Fault> {
    let Some(different) = copies.different(template.ports.max(1)) else { return Ok(()) };
    let lasts = template.lasts_ns();
    let Some(apart) = usize::try_from(different).ok().filter(|apart| *apart <= LOOKED_AT) else {
        return Ok(());
    };
    let again = copies.starts().skip(apart).zip(copies.starts()).take(LOOKED_AT);
    let early =
        again.map(|(again, first)| again.saturating_sub(first).get()).find(|it| *it < lasts);
    match early {
        Some(after) => Err(fault!(
            "there are addresses and ports for {different} copies, and the next one begins {} after the first, which lasts {}",
            human::time(after as f64), human::time(lasts as f64);
            "write more addresses or ports in 'clients', or lower the 'rate'"
        )),
        None => Ok(()),
    }
}

/// That there is memory for the copies that are under way at a time.
fn check_memory(template: &Template, copies: &Copies) -> Result<(), Fault> {
    let under_way = copies.peak_rate().map_or(0.0, |rate| rate * template.lasts_ns() as f64);
    if under_way > UNDER_WAY_MAX as f64 { Err(too_many()) } else { Ok(()) }
}
