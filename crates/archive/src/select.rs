//! Some of the records of a source.

use std::collections::HashSet;
use std::io::Read;
use std::ops::Range;
use std::str::FromStr;

use crate::source::{Error, Source};
use crate::time_series::device::BadDevice;
use crate::time_series::{Device, Reader, Record, Timestamp};

/// Which records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// None before this moment.
    pub from: Option<Timestamp>,
    /// None at or after this moment.
    pub to: Option<Timestamp>,
    /// None of other devices.
    pub devices: DeviceFilter,
}

/// Which devices; without any, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFilter {
    names: HashSet<Device>,
    beginnings: Vec<Vec<u8>>,
}

/// One device, or all that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This one.
    Device(Device),
    /// Those whose bytes begin with these.
    Beginning(Vec<u8>),
}

/// The records of a source that are selected.
#[derive(Debug)]
pub struct Selected<S> {
    source: S,
    selection: Selection,
    /// Whether nothing that comes later in time order can be selected, once the end is passed.
    ordered: bool,
}

impl Selection {
    /// Whether it has a record of this time and device.
    #[inline]
    pub fn has(&self, time: Timestamp, device: Device) -> bool {
        self.has_time(time) && self.devices.has(device)
    }

    #[inline]
    fn has_time(&self, time: Timestamp) -> bool {
        let moment = time.moment();
        self.from.is_none_or(|from| moment >= from.moment()) && !self.is_after(time)
    }

    /// Whether it ends before this moment.
    #[inline]
    pub fn is_after(&self, time: Timestamp) -> bool {
        self.to.is_some_and(|to| time.moment() >= to.moment())
    }
}

impl DeviceFilter {
    /// Whether it is one of them.
    #[inline]
    pub fn has(&self, device: Device) -> bool {
        (self.names.is_empty() && self.beginnings.is_empty())
            || self.names.contains(&device)
            || self.beginnings.iter().any(|beginning| device.0.starts_with(beginning))
    }

    /// Whether any are chosen by how they begin.
    pub fn has_beginnings(&self) -> bool {
        !self.beginnings.is_empty()
    }

    /// Whether it is one of them, where it has a name of more than 16 bytes.
    pub fn has_named(&self, device: Device, name: Option<&str>) -> bool {
        let begins = |name: &str| {
            self.beginnings.iter().any(|beginning| name.as_bytes().starts_with(beginning))
        };
        self.has(device) || name.is_some_and(begins)
    }
}

impl FromIterator<Pattern> for DeviceFilter {
    fn from_iter<T: IntoIterator<Item = Pattern>>(patterns: T) -> DeviceFilter {
        let mut devices = DeviceFilter::default();
        for pattern in patterns {
            match pattern {
                Pattern::Device(device) => drop(devices.names.insert(device)),
                Pattern::Beginning(beginning) => devices.beginnings.push(beginning),
            }
        }
        devices
    }
}

impl FromStr for Pattern {
    type Err = BadDevice;

    /// A device; with `*` at its end, all that begin so. Behind `0x` the beginning is digits, two for each byte.
    fn from_str(text: &str) -> Result<Pattern, BadDevice> {
        let Some(beginning) = text.strip_suffix('*') else {
            return Ok(Pattern::Device(text.parse()?));
        };
        let is_digits = |text: &&str| {
            text.len().is_multiple_of(2) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        let bytes = match beginning.strip_prefix("0x").filter(is_digits) {
            Some(digits) => digits.as_bytes().chunks_exact(2).map(byte).collect(),
            None => beginning.as_bytes().to_vec(),
        };
        match bytes.len() {
            0..=Device::NAME_MAX => Ok(Pattern::Beginning(bytes)),
            _ => Err(BadDevice::Long(text.chars().take(60).collect())),
        }
    }
}

/// The byte that two hexadecimal digits are.
fn byte(digits: &[u8]) -> u8 {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0) as u8;
    digits.iter().fold(0, |byte, next| byte << 4 | digit(next))
}

/// The records of an archive with these numbers, which count from 0, those that were skipped too.
#[derive(Debug)]
pub struct Numbered<R> {
    reader: Reader<R>,
    numbers: Range<u64>,
}

impl<R: Read> Numbered<R> {
    /// Of `reader`.
    pub fn new(reader: Reader<R>, numbers: Range<u64>) -> Numbered<R> {
        Numbered { reader, numbers }
    }

    /// What it reads.
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }
}

impl<R: Read> Source for Numbered<R> {
    fn advance(&mut self) -> Result<bool, Error> {
        // nothing is read beyond the last
        while self.reader.next_number() < self.numbers.end && self.reader.advance()? {
            let number = self.reader.place().number;
            if number >= self.numbers.start {
                return Ok(number < self.numbers.end);
            }
        }
        Ok(false)
    }

    fn record(&self) -> Record<'_> {
        self.reader.record()
    }

    fn name(&self, device: Device) -> Option<&str> {
        Source::name(&self.reader, device)
    }

    fn position(&self) -> u64 {
        self.reader.position()
    }
}

impl<S: Source> Selected<S> {
    /// Of `source`; `ordered` says whether its records are in the order of time, so that reading can end where the
    /// selection does.
    pub fn new(source: S, selection: Selection, ordered: bool) -> Selected<S> {
        Selected { source, selection, ordered }
    }

    /// What it reads.
    pub fn source(&self) -> &S {
        &self.source
    }
}

impl<S: Source> Source for Selected<S> {
    fn advance(&mut self) -> Result<bool, Error> {
        while self.source.advance()? {
            let Record { time, device, .. } = self.source.record();
            let selection = &self.selection;
            if selection.has(time, device) {
                return Ok(true);
            }
            if device.has_long_name()
                && selection.has_time(time)
                && selection.devices.has_named(device, self.source.name(device))
            {
                return Ok(true);
            }
            if self.ordered && self.selection.is_after(time) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn record(&self) -> Record<'_> {
        self.source.record()
    }

    fn name(&self, device: Device) -> Option<&str> {
        self.source.name(device)
    }

    fn position(&self) -> u64 {
        self.source.position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_series::{Reader, Reading, Writer};

    fn time(us: i64) -> Timestamp {
        Timestamp::utc(us).unwrap()
    }

    /// Ten records, one a microsecond, of two devices in turn.
    fn archive() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for us in 0..10u8 {
            let device = Device([us % 2; 16]);
            writer.write(&Record { time: time(us.into()), device, data: &[us] }).unwrap();
        }
        writer.finish().unwrap()
    }

    fn selected(selection: Selection) -> (Vec<u8>, u64) {
        let bytes = archive();
        let reader = Reader::new(&bytes[..], "test", Reading::default());
        let mut selected = Selected::new(reader, selection, true);
        let mut all = Vec::new();
        while selected.advance().unwrap() {
            all.extend_from_slice(selected.record().data);
        }
        (all, selected.source().tally().records)
    }

    #[test]
    fn by_time_with_the_beginning_and_without_the_end() {
        let selection =
            Selection { from: Some(time(3)), to: Some(time(6)), ..Selection::default() };
        // it does not read on when nothing can come
        assert_eq!(selected(selection), (vec![3, 4, 5], 7));
        assert_eq!(selected(Selection::default()), ((0..10).collect(), 10));
    }

    #[test]
    fn by_device() {
        let devices = [Pattern::Device(Device([1; 16]))].into_iter().collect();
        let selection = Selection { from: Some(time(4)), devices, ..Selection::default() };
        assert_eq!(selected(selection).0, [5, 7, 9]);
    }

    #[test]
    fn by_the_beginning_of_a_device() {
        let devices = |text: &str| DeviceFilter::from_iter([text.parse::<Pattern>().unwrap()]);
        let device = |text: &str| text.parse::<Device>().unwrap();
        assert!(devices("BK.*").has(device("BK.SAO")));
        assert!(!devices("BK.*").has(device("BG.SAO")));
        assert!(devices("*").has(Device::default()));
        assert!(!devices("BK*S").has(device("BK.S")));
        assert!(devices("0x0101*").has(Device([1; 16])) && !devices("0x02*").has(Device([1; 16])));
        assert!(devices("0xa0*").has(Device([0xa0; 16])) && !devices("0x+1*").has(Device([1; 16])));
        assert!(devices("0xyz*").has(device("0xyz1")));
        assert!(("A".repeat(1_025) + "*").parse::<Pattern>().is_err());
        // of more than 16 bytes, by the name that the archive has
        let name = "plant/7/line-3/motor/temperature";
        let topics = devices("plant/7/line-3/motor*");
        assert!(!topics.has(device(name)) && topics.has_named(device(name), Some(name)));
        assert!(
            devices(name).has(device(name))
                && !devices("plant/8*").has_named(device(name), Some(name))
        );
    }

    #[test]
    fn by_number() {
        let bytes = archive();
        let numbered = |start: u64, numbers: Range<u64>| {
            let place = crate::time_series::Place { offset: start * 31, number: start };
            let reader = Reader::new(&bytes[place.offset as usize..], "test", Reading::default());
            let mut source = Numbered::new(reader.at(place), numbers);
            let mut all = Vec::new();
            while source.advance().unwrap() {
                all.extend_from_slice(source.record().data);
            }
            (all, source.position())
        };
        assert_eq!(numbered(0, 3..6), (vec![3, 4, 5], 6 * 31));
        assert_eq!(numbered(2, 3..6).0, [3, 4, 5]);
        assert_eq!(numbered(0, 8..u64::MAX).0, [8, 9]);
        assert!(numbered(0, 4..4).0.is_empty());
    }
}
