//! What one end of a connection sent, put in order by its sequence numbers.
//!
//! Data that was seen before is left aside and counted: segments that were sent again, probes that keep a connection alive. Data
//! that comes before what stands before it waits, in bounded memory. What never came is counted as missing.

use std::collections::BTreeMap;

/// The most bytes, and segments, that wait for what stands before them.
const AHEAD_BYTES: usize = 16 << 20;
const AHEAD: usize = 1 << 14;
/// Memory of one that waits, beside its bytes.
const ENTRY: usize = 64;

/// What one end sent.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the next byte; `None`: nothing is known yet.
    next: Option<u32>,
    /// How many bytes stand before it.
    offset: u64,
    /// What waits, by how many bytes stand before it.
    ahead: BTreeMap<u64, Vec<u8>>,
    ahead_bytes: usize,
    /// How many bytes stand before FIN.
    fin: Option<u64>,
    /// Segments with data that was all there before.
    pub(super) repeated: u64,
    /// Bytes that never came.
    pub(super) missing: u64,
}

impl Stream {
    /// Its first byte has this number, unless that is known.
    pub(super) fn begins(&mut self, seq: u32) {
        self.next.get_or_insert(seq);
    }

    /// Whether its beginning is known.
    pub(super) fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// How many bytes stand before number `seq`; negative before the first one.
    fn place(&self, seq: u32) -> i64 {
        let from_next = seq.wrapping_sub(self.next.unwrap_or(seq)) as i32;
        (self.offset as i64).saturating_add(from_next.into())
    }

    /// Takes a segment: `take` gets what is new and in order.
    pub(super) fn segment(
        &mut self,
        seq: u32,
        data: &[u8],
        fin: bool,
        take: &mut dyn FnMut(&[u8]),
    ) {
        self.begins(seq);
        let place = self.place(seq);
        if fin {
            let end = place.saturating_add(data.len() as i64);
            self.fin = self.fin.or(u64::try_from(end).ok());
        }
        if data.is_empty() {
            return;
        }
        let known = (self.offset as i64).saturating_sub(place);
        match usize::try_from(known) {
            // it begins at what is known, or before
            Ok(known) => match data.get(known..).filter(|new| !new.is_empty()) {
                Some(new) => {
                    self.deliver(new, take);
                    self.go_on(take);
                }
                None => self.repeated += 1,
            },
            Err(_) => self.wait(place as u64, data, take),
        }
    }

    fn deliver(&mut self, new: &[u8], take: &mut dyn FnMut(&[u8])) {
        take(new);
        self.offset += new.len() as u64;
        self.next = self.next.map(|next| next.wrapping_add(new.len() as u32));
    }

    /// Data ahead of what stands before it.
    fn wait(&mut self, place: u64, data: &[u8], take: &mut dyn FnMut(&[u8])) {
        let longer = |held: &Vec<u8>| held.len() >= data.len();
        if self.ahead.get(&place).is_some_and(longer) {
            self.repeated += 1;
            return;
        }
        if self.ahead_bytes + data.len() > AHEAD_BYTES || self.ahead.len() >= AHEAD {
            // what is missing will not come any more
            self.skip_to_the_next(take);
        }
        let before = self.ahead.insert(place, data.to_vec());
        self.ahead_bytes += data.len();
        self.ahead_bytes -= before.map_or(0, |before| before.len());
    }

    /// Takes what waited for what is there now.
    fn go_on(&mut self, take: &mut dyn FnMut(&[u8])) {
        while let Some(first) = self.ahead.first_entry().filter(|first| *first.key() <= self.offset)
        {
            let (place, data) = first.remove_entry();
            self.ahead_bytes -= data.len();
            let known = usize::try_from(self.offset - place).unwrap_or(usize::MAX);
            match data.get(known..).filter(|new| !new.is_empty()) {
                Some(new) => self.deliver(new, take),
                None => self.repeated += 1,
            }
        }
    }

    /// Goes on behind what is missing.
    fn skip_to_the_next(&mut self, take: &mut dyn FnMut(&[u8])) {
        let Some((&place, _)) = self.ahead.first_key_value() else { return };
        let gap = place.saturating_sub(self.offset);
        self.missing += gap;
        self.offset += gap;
        self.next = self.next.map(|next| next.wrapping_add(gap as u32));
        self.go_on(take);
    }

    /// Nothing comes any more: what is not there is missing. `acked`: up to where the other end had it.
    pub(super) fn end(&mut self, acked: Option<u32>, take: &mut dyn FnMut(&[u8])) {
        while !self.ahead.is_empty() {
            self.skip_to_the_next(take);
        }
        let acked = acked.filter(|_| self.has_begun()).map_or(0, |acked| self.place(acked));
        // an acknowledged FIN counts as a byte
        let acked = u64::try_from(acked).unwrap_or(0);
        let end = self.fin.map_or(acked, |fin| fin);
        let rest = end.saturating_sub(self.offset);
        let closes = u64::from(self.fin.is_none() && rest == 1);
        self.missing += rest - closes.min(rest);
    }

    /// Memory of what waits, in bytes.
    pub(super) fn ahead(&self) -> usize {
        self.ahead_bytes + self.ahead.len() * ENTRY
    }

    /// Whether it sent FIN, and all before it came.
    pub(super) fn is_closed(&self) -> bool {
        self.fin.is_some_and(|fin| fin <= self.offset)
    }
}
