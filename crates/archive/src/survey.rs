//! What is in an archive: how much, from when to when, of what sizes, how far apart, of which devices.
//!
//! Taken in one pass, in memory that does not grow with the archive: sizes and zones are counted exactly, times
//! between records in a histogram of three significant digits, and devices up to [`DEVICES_MAX`]. An
//! [`index`](crate::index) keeps it, so that it is there at once the next time.

use std::cmp::Reverse;
use std::collections::HashMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::csv::read::is_long;
use crate::time_series::device::BadDevice;
use crate::time_series::{DATA_MAX, Device, HEAD, Names, Place, Record, Timestamp};

/// The number of devices that are listed; records of others are counted together.
pub const DEVICES_MAX: usize = 1_000_000;
/// The number of lengths of data that are named as the most frequent ones.
const FREQUENT: usize = 5;

/// What is in an archive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// Records.
    pub records: u64,
    /// Their bytes, head and data.
    pub bytes: u64,
    /// What was skipped since it is not a record.
    pub bad: u64,
    /// The bytes of that.
    pub skipped_bytes: u64,
    /// The earliest time.
    pub first: Option<Timestamp>,
    /// The latest time.
    pub last: Option<Timestamp>,
    /// Lengths of data; none without records.
    pub data: Option<Sizes>,
    /// Times from each record to the next; none with fewer than two records.
    pub gaps: Option<Gaps>,
    /// Where time runs backwards.
    pub backwards: Backwards,
    /// The zones that times are written in, those with most records first.
    pub zones: Vec<Zone>,
    /// The devices.
    pub devices: Devices,
}

/// Lengths of data, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The longest.
    pub max: u64,
    /// All data together.
    pub total: u64,
    /// How many different lengths there are.
    pub distinct: u64,
    /// Those of most records, most first.
    pub frequent: Vec<Size>,
}

/// A length of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// Records that have it.
    pub records: u64,
}

/// Times from each record to the next, those aside where time runs backwards. Percentiles are exact to three digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// The same as below in nanoseconds. Indexes of before do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<GapsNs>,
    /// The shortest.
    pub min_us: u64,
    /// The median.
    pub median_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
    /// Records that have the moment of the one before.
    pub same: u64,
}

/// Times from each record to the next, in nanoseconds: where the archive has times with nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapsNs {
    /// The shortest.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// Records that are earlier than the one before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backwards {
    /// How many.
    pub records: u64,
    /// The first of them.
    pub first: Option<Place>,
    /// By how much at most, in microseconds.
    pub max_us: u64,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// As it is written: `+01:00`, `Z`.
    pub zone: String,
    /// Records in it.
    pub records: u64,
}

/// What came from a device. In documents `device` is its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Listed", into = "Listed")]
pub struct OfDevice {
    /// Which.
    pub device: Device,
    /// Its name, where it is longer than 16 bytes.
    pub name: Option<Box<str>>,
    /// Its records.
    pub records: u64,
    /// Their bytes, head and data.
    pub bytes: u64,
}

/// The same in a document.
#[derive(Serialize, Deserialize)]
struct Listed {
    device: String,
    records: u64,
    bytes: u64,
}

impl OfDevice {
    /// What it is called.
    pub fn text(&self) -> String {
        self.name.as_ref().map_or_else(|| self.device.to_string(), ToString::to_string)
    }
}

impl From<OfDevice> for Listed {
    fn from(of: OfDevice) -> Listed {
        Listed { device: of.text(), records: of.records, bytes: of.bytes }
    }
}

impl TryFrom<Listed> for OfDevice {
    type Error = BadDevice;

    fn try_from(listed: Listed) -> Result<OfDevice, BadDevice> {
        let Listed { device: text, records, bytes } = listed;
        let device: Device = text.parse()?;
        let name = is_long(&text).then(|| text.into());
        Ok(OfDevice { device, name, records, bytes })
    }
}

impl Devices {
    /// The names of more than 16 bytes among those that are listed.
    pub fn names(&self) -> Names {
        let mut names = Names::default();
        for of in &self.listed {
            if let Some(name) = &of.name {
                // those that are too many are shown as digits
                let _ = names.insert(of.device, name);
            }
        }
        names
    }
}

/// All devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// The first [`DEVICES_MAX`] that occurred, those with most records first.
    pub listed: Vec<OfDevice>,
    /// Records of devices that are not listed, of which there are too many.
    pub records_of_others: u64,
}

impl Survey {
    /// The time from the first record to the last, in microseconds.
    pub fn span_us(&self) -> u64 {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.unix_us().abs_diff(first.unix_us()),
            _ => 0,
        }
    }

    /// The time from the first record to the last, in seconds.
    fn span_seconds(&self) -> f64 {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.unix_ns().abs_diff(first.unix_ns()) as f64 / 1e9,
            _ => 0.0,
        }
    }

    /// Records per second from the first to the last; none where all have one moment.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.span_seconds();
        (seconds > 0.0).then(|| self.records.saturating_sub(1) as f64 / seconds)
    }

    /// Bits of data per second at that rate.
    pub fn data_bit_rate(&self) -> Option<f64> {
        Some(self.rate()? * self.data.as_ref()?.mean * 8.0)
    }

    /// Whether records stand in the order of their times.
    pub fn is_in_order(&self) -> bool {
        self.backwards.records == 0
    }
}

/// Takes it, record by record.
#[derive(Debug)]
pub struct Surveyor {
    survey: Survey,
    last: Option<Timestamp>,
    /// Whether any time has nanoseconds.
    fine: bool,
    /// Records by length of data.
    sizes: Vec<u64>,
    zones: HashMap<i16, u64>,
    devices: HashMap<Device, (u64, u64)>,
    /// In microseconds, and in nanoseconds as well since the first time that has some; one more, since it begins at 1.
    /// `None` does not occur.
    gaps: Option<Histogram<u64>>,
    gaps_ns: Option<Histogram<u64>>,
    gap_min: u64,
    gap_max: u64,
    same: u64,
}

impl Default for Surveyor {
    fn default() -> Surveyor {
        Surveyor::new()
    }
}

impl Surveyor {
    /// Of nothing so far.
    pub fn new() -> Surveyor {
        Surveyor {
            survey: Survey::default(),
            last: None,
            fine: false,
            sizes: vec![0; DATA_MAX + 1],
            zones: HashMap::new(),
            devices: HashMap::new(),
            gaps: Histogram::new(3).ok(),
            gaps_ns: Histogram::new(3).ok(),
            gap_min: u64::MAX,
            gap_max: 0,
            same: 0,
        }
    }

    /// Takes a record, which stands at `place`.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>, place: Place) {
        let Record { time, device, data } = *record;
        let (moment, bytes) = (time.moment(), record.total() as u64);
        self.fine |= time.is_fine();
        let survey = &mut self.survey;
        survey.records += 1;
        survey.bytes += bytes;
        if survey.first.is_none_or(|first| moment < first.moment()) {
            survey.first = Some(time);
        }
        if survey.last.is_none_or(|last| moment >= last.moment()) {
            survey.last = Some(time);
        }
        if let Some(count) = self.sizes.get_mut(data.len()) {
            *count += 1;
        }
        *self.zones.entry(time.zone_min()).or_default() += 1;
        if let Some(last) = self.last.replace(time) {
            self.gap(last, time, place);
        }
        self.device(device, bytes);
    }

    #[inline]
    fn gap(&mut self, last: Timestamp, time: Timestamp, place: Place) {
        let ns = time.unix_ns().abs_diff(last.unix_ns());
        let gap = u64::try_from(ns).unwrap_or(u64::MAX);
        if time.moment() < last.moment() {
            let backwards = &mut self.survey.backwards;
            backwards.records += 1;
            backwards.first.get_or_insert(place);
            backwards.max_us = backwards.max_us.max((ns / 1_000) as u64);
            return;
        }
        self.same += u64::from(gap == 0);
        self.gap_min = self.gap_min.min(gap);
        self.gap_max = self.gap_max.max(gap);
        // they grow to what 64 bits hold
        if let Some(gaps) = &mut self.gaps {
            let _ = gaps.record((ns / 1_000) as u64 + 1);
        }
        if let Some(gaps) = &mut self.gaps_ns {
            let _ = gaps.record(gap.saturating_add(1));
        }
    }

    #[inline]
    fn device(&mut self, device: Device, bytes: u64) {
        let full = self.devices.len() >= DEVICES_MAX;
        if full && !self.devices.contains_key(&device) {
            self.survey.devices.records_of_others += 1;
            return;
        }
        let (records, all) = self.devices.entry(device).or_default();
        *records += 1;
        *all += bytes;
    }

    /// What was found; `bad` and `skipped_bytes` are the reader's.
    pub fn finish(self, bad: u64, skipped_bytes: u64) -> Survey {
        self.finish_named(bad, skipped_bytes, &Names::default())
    }

    /// The same, with the names of devices that are longer than 16 bytes.
    pub fn finish_named(self, bad: u64, skipped_bytes: u64, names: &Names) -> Survey {
        let mut zones: Vec<(i16, u64)> = self.zones.into_iter().collect();
        zones.sort_unstable_by_key(|&(zone, records)| (Reverse(records), zone));
        let of_device = |(device, (records, bytes))| {
            let name = names.get(device).map(Into::into);
            OfDevice { device, name, records, bytes }
        };
        let mut listed: Vec<OfDevice> = self.devices.into_iter().map(of_device).collect();
        listed.sort_unstable_by_key(|one| (Reverse(one.records), one.device));
        let at = |gaps: &Histogram<u64>, quantile, (min, max): (u64, u64)| {
            gaps.value_at_quantile(quantile).saturating_sub(1).clamp(min, max)
        };
        let (min, max) = (self.gap_min, self.gap_max);
        let ns = self.gaps_ns.filter(|gaps| self.fine && !gaps.is_empty());
        let ns = ns.map(|gaps| GapsNs {
            min,
            median: at(&gaps, 0.5, (min, max)),
            p99: at(&gaps, 0.99, (min, max)),
            max,
        });
        let gaps = self.gaps.filter(|gaps| !gaps.is_empty());
        let gaps = gaps.map(|gaps| {
            let range = (min / 1_000, max / 1_000);
            let (median_us, p99_us) = (at(&gaps, 0.5, range), at(&gaps, 0.99, range));
            Gaps { ns, min_us: range.0, median_us, p99_us, max_us: range.1, same: self.same }
        });
        let records_of_others = self.survey.devices.records_of_others;
        Survey {
            bad,
            skipped_bytes,
            data: sizes(&self.sizes, &self.survey),
            gaps,
            zones: zones.into_iter().map(|(zone, records)| named(zone, records)).collect(),
            devices: Devices { listed, records_of_others },
            ..self.survey
        }
    }
}

fn named(zone_min: i16, records: u64) -> Zone {
    let (hours, minutes) = (zone_min.unsigned_abs() / 60, zone_min.unsigned_abs() % 60);
    let sign = if zone_min < 0 { '-' } else { '+' };
    let zone = match zone_min {
        0 => "Z".to_owned(),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    };
    Zone { zone, records }
}

fn sizes(counts: &[u64], survey: &Survey) -> Option<Sizes> {
    let size = |(bytes, &records): (u64, &u64)| Size { bytes, records };
    let mut all: Vec<Size> = (0..).zip(counts).map(size).filter(|size| size.records > 0).collect();
    let (min, max) = (all.first()?.bytes, all.last()?.bytes);
    let distinct = all.len() as u64;
    let total = survey.bytes - HEAD as u64 * survey.records;
    all.sort_by_key(|size| Reverse(size.records));
    all.truncate(FREQUENT);
    let mean = total as f64 / survey.records as f64;
    Some(Sizes { min, mean, max, total, distinct, frequent: all })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(records: &[(i64, i16, u8, usize)]) -> Survey {
        let mut surveyor = Surveyor::new();
        let mut place = Place::default();
        for &(us, zone, device, len) in records {
            let time = Timestamp::new(us, zone).unwrap();
            let data = vec![0; len];
            let record = Record { time, device: Device([device; 16]), data: &data };
            surveyor.add(&record, place);
            place.offset += record.total() as u64;
            place.number += 1;
        }
        surveyor.finish(0, 0)
    }

    #[test]
    fn nothing_is_surveyed_as_nothing() {
        let survey = surveyed(&[]);
        assert_eq!(survey, Survey::default());
        assert_eq!((survey.span_us(), survey.rate(), survey.data_bit_rate()), (0, None, None));
    }

    #[test]
    fn what_is_there_is_counted() {
        let survey =
            surveyed(&[(0, 60, 1, 4), (10, 0, 2, 4), (10, 60, 1, 6), (1_000_000, 60, 1, 2)]);
        assert_eq!((survey.records, survey.bytes), (4, 4 * 30 + 16));
        assert_eq!((survey.span_us(), survey.rate()), (1_000_000, Some(3.0)));
        assert_eq!(survey.data_bit_rate(), Some(3.0 * 4.0 * 8.0));
        let data = survey.data.clone().unwrap();
        assert_eq!((data.min, data.mean, data.max, data.total, data.distinct), (2, 4.0, 6, 16, 3));
        assert_eq!(data.frequent[0], Size { bytes: 4, records: 2 });
        let gaps = survey.gaps.clone().unwrap();
        assert_eq!((gaps.min_us, gaps.median_us, gaps.max_us, gaps.same), (0, 10, 999_990, 1));
        assert_eq!(
            survey.zones.iter().map(|zone| zone.zone.as_str()).collect::<Vec<_>>(),
            ["+01:00", "Z"]
        );
        let first = &survey.devices.listed[0];
        assert_eq!((first.device.0[0], first.records, first.bytes), (1, 3, 102));
        assert!(survey.is_in_order());
    }

    #[test]
    fn time_that_runs_backwards_is_counted_apart() {
        let survey = surveyed(&[(5, 0, 1, 0), (3, 0, 1, 0), (4, 0, 1, 0)]);
        let first = Some(Place { offset: 30, number: 1 });
        assert_eq!(survey.backwards, Backwards { records: 1, first, max_us: 2 });
        assert_eq!(survey.gaps.as_ref().map(|gaps| (gaps.min_us, gaps.max_us)), Some((1, 1)));
        assert_eq!(survey.first.map(Timestamp::unix_us), Some(3));
        assert_eq!(survey.last.map(Timestamp::unix_us), Some(5));
        assert_eq!(survey.span_us(), 2);
    }
}
