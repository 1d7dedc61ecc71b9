//! Reading an archive from its beginning to its end, in bounded memory, whatever its bytes are.
//!
//! An invalid record stops the reader, or is skipped and counted. A record whose time is wrong is stepped over when
//! what follows it is a record; where the length itself cannot be trusted, the next place is looked for at which
//! several records stand one after another. A length that leads to no record is not trusted where records begin inside
//! it and go on behind it: so a wrong length costs its record, and not those that it spans.

use std::fmt;
use std::io::{self, Read};

use wirebeat_units::{Fault, fault, into_fault};

use super::device::Device;
use super::names::{self, Names};
use super::record::{ByteOrder, HEAD, RECORD_MAX, Record};
use super::timestamp::{BadTime, Moment, Timestamp};
use crate::bad;

/// Bytes read ahead.
const BUFFER: usize = 1 << 20;
/// The fewest: with one of the longest records left over, half of it is free to be read into.
const BUFFER_MIN: usize = 2 * RECORD_MAX;
/// This number of records one after another is not chance: the chance that random bytes pass for a time is below one in
/// 10^9.
const SURE: usize = 3;

/// How an archive is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Which byte of a length comes first.
    pub order: ByteOrder,
    /// How to handle invalid records.
    pub on_bad: OnBad,
    /// Whether records may stand in any order of time.
    pub any_order: bool,
}

/// How to handle invalid records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// It ends the reading.
    #[default]
    Stop,
    /// It is skipped and counted.
    Skip,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum Defect {
    /// The file ends inside it.
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes it says it has.
        need: usize,
    },
    /// A length that no record has.
    Length(u16),
    /// A length that spans other records.
    Spans {
        /// What it says.
        length: usize,
        /// Where the first of them begins, in bytes from its own beginning.
        inside: usize,
    },
    /// Lengths that are right the other way round.
    Order(ByteOrder),
    /// A time that is none.
    Time(#[from] BadTime),
    /// A name of a device that is not the name of that device.
    Name,
    /// A time before that of the record before it.
    Backwards {
        /// The time before.
        before: Timestamp,
        /// Its time.
        time: Timestamp,
    },
    /// A time after those of the records that follow it. Known only where bad records are skipped: otherwise the next
    /// record is told as [`Defect::Backwards`].
    Ahead {
        /// Its time.
        time: Timestamp,
        /// That of the record behind it.
        after: Timestamp,
    },
}

impl Defect {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            Defect::Truncated { have, need } => {
                fault!("the file ends after {have} of its {need} bytes")
            }
            Defect::Length(it) => {
                fault!("its length is {it}, and a record has at least {HEAD} bytes")
            }
            Defect::Spans { length, inside } => fault!(
                "its length is {length}, and other records begin {inside} bytes behind its \
                 beginning"
            ),
            Defect::Order(it) => order_text(*it),
            Defect::Time(it) => it.fault().at("its time is invalid"),
            Defect::Name => {
                fault!("it is the name of a device, and does not belong to that device")
            }
            Defect::Backwards { before, time } => {
                fault!("its time {time} is before {before}, the time of the record before it")
            }
            Defect::Ahead { time, after } => fault!(
                "its time {time} is after {after} and more, the times of the records behind it"
            ),
        }
    }
}

into_fault!(Defect);

fn order_text(read_as: ByteOrder) -> Fault {
    match read_as {
        ByteOrder::Big => {
            fault!("its lengths have the lower byte first"; "read it with --length-order little")
        }
        ByteOrder::Little => {
            fault!("its lengths have the higher byte first"; "read it without --length-order")
        }
    }
}

impl Defect {
    /// The kinds, as they are counted.
    pub const KINDS: [&'static str; 6] = [
        "cut off by the end of the file",
        "with an impossible length",
        "with an impossible time",
        "earlier than the one before",
        "later than those behind",
        "with an impossible name of a device",
    ];

    fn kind(self) -> usize {
        match self {
            Defect::Truncated { .. } => 0,
            Defect::Length(_) | Defect::Spans { .. } | Defect::Order(_) => 1,
            Defect::Time(_) => 2,
            Defect::Backwards { .. } => 3,
            Defect::Ahead { .. } => 4,
            Defect::Name => 5,
        }
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes of the file before it.
    pub offset: u64,
    /// Its number, from 0; those that were skipped count.
    pub number: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} at byte {}", self.number, self.offset)
    }
}

/// Something that is not a record, and where.
pub type Bad = bad::Bad<Place, Defect>;

/// Why the reading of an archive ended.
pub type ReadError = bad::ReadError<Place, Defect>;

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out, by kind as in [`Defect::KINDS`].
    pub bad: [LeftOut; Defect::KINDS.len()],
    /// Bytes that were skipped.
    pub skipped: u64,
    /// Bytes of names of devices.
    pub name_bytes: u64,
}

/// What was left out of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Places at which something was left out.
    pub places: u64,
    /// Those of them that are one record. How many records were at the others is not known.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// The first of them.
    pub first: Option<Bad>,
}

impl Tally {
    fn count(&mut self, bad: Bad, is_record: bool, bytes: u64) {
        let left_out = &mut self.bad[bad.defect.kind()];
        left_out.places += 1;
        left_out.records += u64::from(is_record);
        left_out.bytes += bytes;
        left_out.first.get_or_insert(bad);
    }

    /// All bytes that were read.
    pub fn read(&self) -> u64 {
        self.bytes + self.skipped + self.name_bytes
    }

    /// Places at which something was left out.
    pub fn bad(&self) -> u64 {
        self.bad.iter().map(|kind| kind.places).sum()
    }

    /// Those of them that are one record.
    pub fn bad_records(&self) -> u64 {
        self.bad.iter().map(|kind| kind.records).sum()
    }
}

/// Reads an archive.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    name: String,
    reading: Reading,
    buffer: Vec<u8>,
    /// What of the buffer was read from the file and is not used yet.
    start: usize,
    end: usize,
    /// Where `start` is in the file.
    offset: u64,
    at_end: bool,
    /// The number of the next record.
    number: u64,
    last: Option<Timestamp>,
    place: Place,
    /// Where the record that was read last is in the buffer, its length and its time.
    current: (usize, usize, Timestamp),
    tally: Tally,
    names: Names,
}

/// What stands at a place.
enum RecordFound {
    Record(usize, Timestamp),
    Name(usize),
    Nothing,
    Bad(Defect),
}

impl<R: Read> Reader<R> {
    /// Reads `from`, of which messages speak as `name`.
    pub fn new(from: R, name: impl Into<String>, reading: Reading) -> Reader<R> {
        Reader {
            from,
            name: name.into(),
            reading,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            offset: 0,
            at_end: false,
            number: 0,
            last: None,
            place: Place::default(),
            current: (0, 0, Timestamp::EPOCH),
            tally: Tally::default(),
            names: Names::default(),
        }
    }

    /// Knows these names already, as of the part of the file that is not read.
    pub fn with_names(mut self, names: Names) -> Reader<R> {
        self.names = names;
        self
    }

    /// The names that are longer than 16 bytes, as far as it has read.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Reads ahead so many bytes at most: for many archives at once. Less than two records of the longest kind are
    /// not taken; what it needs to look further after something bad, it takes then.
    pub fn with_buffer(mut self, bytes: usize) -> Reader<R> {
        self.buffer = vec![0; bytes.clamp(BUFFER_MIN, BUFFER)];
        self
    }

    /// Says that `from` begins at a place of the file.
    pub fn at(mut self, place: Place) -> Reader<R> {
        (self.offset, self.number) = (place.offset, place.number);
        self
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// The invalid record, where that is to end the reading; and what the system says.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        Ok(self.advance()?.then(|| self.record()))
    }

    /// Goes to the next record; says whether there is one.
    ///
    /// # Errors
    /// Those of [`Reader::read`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        let Some((len, time)) = self.next()? else { return Ok(false) };
        self.current = (self.start, len, time);
        self.place = Place { offset: self.offset, number: self.number };
        self.step(len);
        self.number += 1;
        self.tally.records += 1;
        self.tally.bytes += len as u64;
        Ok(true)
    }

    /// The record that it is at. Before the first, one without anything.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        let (start, len, time) = self.current;
        let bytes = self.buffer.get(start..start + len).unwrap_or_default();
        Record::with(time, bytes).unwrap_or(Record { time, device: Device::default(), data: &[] })
    }

    /// The length and the time of the next record, which `start` is at then.
    #[inline]
    fn next(&mut self) -> Result<Option<(usize, Timestamp)>, ReadError> {
        loop {
            // Who skips what is bad looks at what follows.
            let need = match self.reading.on_bad {
                OnBad::Stop => RECORD_MAX,
                OnBad::Skip => (SURE + 1) * RECORD_MAX,
            };
            if self.end - self.start < need {
                self.fill(need)?;
            }
            if self.number == 0 {
                self.look_at_first()?;
            }
            match self.find() {
                RecordFound::Record(len, time) => return Ok(Some((len, time))),
                RecordFound::Name(len) => self.take_name(len)?,
                RecordFound::Nothing => return Ok(None),
                RecordFound::Bad(defect) => self.bad(defect)?,
            }
        }
    }

    /// Takes the name of a device.
    #[cold]
    fn take_name(&mut self, len: usize) -> Result<(), ReadError> {
        let record = self.buffer.get(self.start..self.start + len).unwrap_or_default();
        let Some((device, name)) = names::read(record) else { return self.bad(Defect::Name) };
        if let Err(why) = self.names.insert(device, name) {
            let source = io::Error::new(io::ErrorKind::InvalidData, why);
            return Err(ReadError::System { name: self.name.clone(), offset: self.offset, source });
        }
        self.tally.name_bytes += len as u64;
        self.step(len);
        Ok(())
    }

    /// Where the record that was read last stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The number of the record that comes next.
    pub fn next_number(&self) -> u64 {
        self.number
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Looks at the next record.
    #[inline]
    fn find(&mut self) -> RecordFound {
        let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        if rest.is_empty() {
            return RecordFound::Nothing;
        }
        match whole(rest, self.reading.order) {
            Ok((len, None)) => RecordFound::Name(len),
            Ok((len, Some(time))) => match self.last {
                Some(before) if !self.reading.any_order && time.moment() < before.moment() => {
                    RecordFound::Bad(Defect::Backwards { before, time })
                }
                _ => match self.doubt(rest, len, time) {
                    Some(defect) => RecordFound::Bad(defect),
                    None => {
                        self.last = Some(time);
                        RecordFound::Record(len, time)
                    }
                },
            },
            Err(defect) => RecordFound::Bad(defect),
        }
    }

    /// What is wrong with the record of `len` bytes at the beginning of `rest`, as far as what follows it says.
    #[inline]
    fn doubt(&self, rest: &[u8], len: usize, time: Timestamp) -> Option<Defect> {
        if self.reading.on_bad == OnBad::Stop {
            return None;
        }
        let (order, behind) = (self.reading.order, rest.get(len..)?);
        match whole(behind, order) {
            Ok(_) if self.reading.any_order => None,
            Ok((_, None)) => None,
            Ok((next, Some(after))) => self.ahead(&behind[next..], time, after),
            Err(_) if behind.is_empty() => None,
            Err(_) => {
                let inside = spanned(rest, len, order, self.at_end)?;
                Some(Defect::Spans { length: len, inside })
            }
        }
    }

    /// Whether `time` is beyond `after`, that of the record behind it, and those in `rest`, which agree with each other
    /// and with what came before: then it is the one that is wrong, and not all of them.
    #[inline]
    fn ahead(&self, rest: &[u8], time: Timestamp, after: Timestamp) -> Option<Defect> {
        let before = self.last.map_or((i64::MIN, 0), Timestamp::moment);
        let is_before = (before..time.moment()).contains(&after.moment());
        let is_wrong = is_before && self.agree(rest, after, time);
        is_wrong.then_some(Defect::Ahead { time, after })
    }

    /// Whether the next records go on from `after` and stay before `time`.
    #[cold]
    fn agree(&self, rest: &[u8], after: Timestamp, time: Timestamp) -> bool {
        let (mut rest, mut last) = (rest, after.moment());
        for _ in 1..SURE {
            let Ok((len, next)) = whole(rest, self.reading.order) else { return rest.is_empty() };
            let Some(next) = next else {
                rest = &rest[len..];
                continue;
            };
            if !(last..time.moment()).contains(&next.moment()) {
                return false;
            }
            (rest, last) = (&rest[len..], next.moment());
        }
        true
    }

    #[inline]
    fn step(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
    }

    /// Reads until there are `least` bytes, or no more.
    #[cold]
    fn fill(&mut self, least: usize) -> Result<(), ReadError> {
        if self.at_end || self.end - self.start >= least {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() < least {
            self.buffer.resize(least, 0);
        }
        while self.end < least {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.from.read(room) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.offset + self.end as u64;
                    return Err(ReadError::System { name: self.name.clone(), offset, source });
                }
            }
        }
        Ok(())
    }

    /// A length the other way round may be one that there is, and a file end after it: the first records say together
    /// which it is.
    #[cold]
    fn look_at_first(&mut self) -> Result<(), ReadError> {
        self.fill((SURE + 1) * RECORD_MAX)?;
        let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        let is_turned = turned(rest, self.reading.order, self.at_end);
        if is_turned { self.bad(Defect::Order(self.reading.order)) } else { Ok(()) }
    }

    /// Something is not a record.
    #[cold]
    fn bad(&mut self, defect: Defect) -> Result<(), ReadError> {
        self.fill((SURE + 1) * RECORD_MAX)?;
        let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        let order = self.reading.order;
        let turned = self.number == 0 && turned(rest, order, self.at_end);
        let defect = if turned { Defect::Order(order) } else { defect };
        let bad = Bad { place: Place { offset: self.offset, number: self.number }, defect };
        if turned || self.reading.on_bad == OnBad::Stop {
            return Err(ReadError::Bad { name: self.name.clone(), bad });
        }
        let len = usize::from(order.length(rest).unwrap_or(0));
        let is_last = self.at_end && len == rest.len();
        // whether the place is one record, as far as its length is to be trusted
        let is_record = match defect {
            Defect::Backwards { .. } | Defect::Ahead { .. } => true,
            Defect::Time(_) | Defect::Name => {
                is_last || rest.get(len..).is_some_and(|next| stand(next, order, self.at_end))
            }
            _ => false,
        };
        let before = self.tally.skipped;
        match defect {
            _ if is_record => self.skip(len),
            Defect::Spans { inside, .. } => self.skip(inside),
            _ => self.look_further()?,
        }
        // nothing stands behind the last one: it is cut off, and was one
        let is_cut = matches!(defect, Defect::Truncated { .. }) && self.start == self.end;
        let is_name = defect == Defect::Name;
        self.tally.count(bad, (is_record || is_cut) && !is_name, self.tally.skipped - before);
        self.number += u64::from(!is_name);
        Ok(())
    }

    fn skip(&mut self, count: usize) {
        self.tally.skipped += count as u64;
        self.step(count);
    }

    /// Goes to the next place at which records stand, or to the end.
    fn look_further(&mut self) -> Result<(), ReadError> {
        self.skip(1);
        loop {
            self.fill((SURE + 1) * RECORD_MAX)?;
            let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
            // Places near the end of the buffer wait until what follows them is there.
            let sure = match self.at_end {
                true => rest.len(),
                false => rest.len() - SURE * RECORD_MAX,
            };
            // what is earlier than the last one would be left out, with all that its length spans
            let since = self.last.filter(|_| !self.reading.any_order).map(Timestamp::moment);
            let goes_on = |at: &usize| {
                let rest = &rest[*at..];
                stand(rest, self.reading.order, self.at_end)
                    && since.is_none_or(|since| in_order(rest, self.reading.order, since))
            };
            let found = (0..sure).find(goes_on);
            self.skip(found.unwrap_or(sure));
            if found.is_some() || self.start == self.end {
                return Ok(());
            }
        }
    }
}

/// The length and the time of the record that `bytes` begin with; no time: it is the name of a device.
#[inline]
fn whole(bytes: &[u8], order: ByteOrder) -> Result<(usize, Option<Timestamp>), Defect> {
    let cut = |need| Defect::Truncated { have: bytes.len(), need };
    let length = order.length(bytes).ok_or_else(|| cut(HEAD))?;
    let len = usize::from(length);
    if len < HEAD {
        return Err(Defect::Length(length));
    }
    let time = bytes.get(2..).and_then(|rest| rest.first_chunk()).ok_or_else(|| cut(len))?;
    let time = match Timestamp::unpack(time) {
        Ok(time) => Some(time),
        Err(_) if names::is_name(time, len) => None,
        Err(why) => return Err(why.into()),
    };
    if bytes.len() < len {
        return Err(cut(len));
    }
    Ok((len, time))
}

/// Whether records stand at the beginning of `bytes` with their lengths the other way round. Where all are equally long
/// they may stand both ways, because 256 of them are a record again: then they are the short ones.
fn turned(bytes: &[u8], order: ByteOrder, at_end: bool) -> bool {
    let len = |order| whole(bytes, order).map_or(usize::MAX, |(len, _)| len);
    len(order.other()) < len(order) && stand(bytes, order.other(), at_end)
}

/// Whether records stand at the beginning of `bytes`, one after another: several, or all there are until the end of
/// the file.
fn stand(bytes: &[u8], order: ByteOrder, at_end: bool) -> bool {
    let mut rest = bytes;
    for _ in 0..SURE {
        let Ok((len, _)) = whole(rest, order) else { return false };
        rest = &rest[len..];
        if rest.is_empty() {
            return at_end;
        }
    }
    true
}

/// Whether the records that stand at the beginning of `bytes` are in order, and not before `since`.
#[cold]
fn in_order(bytes: &[u8], order: ByteOrder, since: Moment) -> bool {
    let (mut rest, mut last) = (bytes, since);
    for _ in 0..SURE {
        let Ok((len, time)) = whole(rest, order) else { return true };
        let Some(time) = time else {
            rest = &rest[len..];
            continue;
        };
        if time.moment() < last {
            return false;
        }
        (rest, last) = (&rest[len..], time.moment());
    }
    true
}

/// Where in a record of `len` bytes, at the beginning of `bytes`, other records begin that go on behind its end without
/// one ending there: then its length is wrong. Records that end where it ends are data that looks like records.
#[cold]
fn spanned(bytes: &[u8], len: usize, order: ByteOrder, at_end: bool) -> Option<usize> {
    let crosses = |&start: &usize| {
        let (mut at, mut count) = (start, 0);
        while let Some(Ok((next, _))) = bytes.get(at..).map(|rest| whole(rest, order)) {
            (at, count) = (at + next, count + 1);
            if at == len {
                return false;
            }
            if at > len && (count >= SURE || (at_end && at == bytes.len())) {
                return true;
            }
        }
        false
    };
    (HEAD..len).find(crosses)
}

#[cfg(test)]
mod tests;
