//! Some of the records of a source.

use std::collections::HashSet;

use crate::archive::{Device, Record, Timestamp};
use crate::source::{Error, Source};

/// Which records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// None before this moment.
    pub from: Option<Timestamp>,
    /// None at or after this moment.
    pub to: Option<Timestamp>,
    /// None of other devices; empty: of any.
    pub devices: HashSet<Device>,
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
        let moment = time.unix_us();
        self.from.is_none_or(|from| moment >= from.unix_us())
            && !self.is_after(time)
            && (self.devices.is_empty() || self.devices.contains(&device))
    }

    /// Whether it ends before this moment.
    #[inline]
    pub fn is_after(&self, time: Timestamp) -> bool {
        self.to.is_some_and(|to| time.unix_us() >= to.unix_us())
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
            if self.selection.has(time, device) {
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

    fn position(&self) -> u64 {
        self.source.position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Reader, Reading, Writer};

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
        let devices = [Device([1; 16])].into();
        let selection = Selection { from: Some(time(4)), devices, ..Selection::default() };
        assert_eq!(selected(selection).0, [5, 7, 9]);
    }
}
