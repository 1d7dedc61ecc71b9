//! Records that are made up: devices that all take samples at the same times, as those of a seismic archive do, or
//! in turn; data of random bytes.
//!
//! Record `n` is of device `n` modulo their number, in round `n` divided by it. What a record holds is a function of
//! the seed and `n`: the same [`Plan`] gives the same bytes. It reads no clock and no random source of the system.

use std::ops::RangeInclusive;

use wirebeat_units::{Fault, fault, into_fault};

use crate::source::{Error, Source};
use crate::time_series::{BadTime, DATA_MAX, Device, HEAD, Record, Timestamp};

/// 2^64 divided by the golden ratio, made odd: the step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// What stands before the number of a device.
const PREFIX: &[u8; 4] = b"dev-";
/// Digits of the number of a device, where there are not more devices than that.
const DIGITS: usize = 6;

/// What is made up. Of number, duration and sampling two are given, and the third is what follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The time of the first record; all have its zone.
    pub start: Timestamp,
    /// How many devices, at least 1.
    pub devices: u32,
    /// How many records there are and how far apart.
    pub length: Length,
    /// Bytes of data of a record, any size of these as likely as any other.
    pub size: RangeInclusive<u16>,
    /// What the devices' times are to each other.
    pub phase: Phase,
    /// Another seed, other data and sizes.
    pub seed: u64,
}

/// How many records there are, and how far apart: two of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The number of records, and the microseconds between two records of a device.
    RecordsSampling {
        /// Of all devices together; the last round may be part of one.
        records: u64,
        /// From one record of a device to its next.
        sampling_us: u64,
    },
    /// Whole rounds, as long as they begin before the end.
    DurationSampling {
        /// From the first record to the end, at which no round begins.
        duration_us: u64,
        /// From one record of a device to its next.
        sampling_us: u64,
    },
    /// The number of records; their rounds share the time evenly, each at the last microsecond before its share begins.
    RecordsDuration {
        /// Of all devices together; the last round may be part of one.
        records: u64,
        /// From the first record to the end, which has none.
        duration_us: u64,
    },
}

/// What the devices' times are to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// All devices have the same times.
    #[default]
    Shared,
    /// Evenly, one device after the other, from one round to the next.
    Spread,
}

/// What cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum BadPlan {
    /// No devices.
    NoDevices,
    /// No records.
    NoRecords,
    /// No time between samples.
    NoSampling,
    /// More rounds than microseconds.
    TooMany {
        /// Records of a device.
        rounds: u64,
        /// Time there is.
        duration_us: u64,
    },
    /// Data beyond what a record holds.
    Size(u16, u16),
    /// The last record has no time.
    Late,
}

impl BadPlan {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            BadPlan::NoDevices => fault!("there are no devices"; "ask for at least 1"),
            BadPlan::NoRecords => {
                fault!("there are no records"; "ask for at least 1, or for a longer duration")
            }
            BadPlan::NoSampling => {
                fault!(
                    "a device has no two records at one time";
                    "the sampling has to be at least 1us"
                )
            }
            BadPlan::TooMany { rounds, duration_us } => {
                fault!(
                    "{rounds} records of each device do not fit into {duration_us} us, one in \
                     each microsecond at most";
                    "give it longer"
                )
            }
            BadPlan::Size(first, second) => {
                fault!(
                    "the sizes go from {first} to {second} bytes";
                    "they go upwards, and to {DATA_MAX} at most"
                )
            }
            BadPlan::Late => {
                fault!(
                    "the last record would be beyond the year 9999";
                    "begin earlier, or make less"
                )
            }
        }
    }
}

into_fault!(BadPlan);

/// Makes the records of a plan.
#[derive(Debug)]
pub struct Synthetic {
    plan: Plan,
    records: u64,
    /// A step of time is `period_us` divided by `share`.
    period_us: u64,
    share: u64,
    /// Steps of time from one device to the next: none, or one.
    spread: bool,
    /// Digits of a device's number.
    digits: usize,
    /// The number of the next record, and its device.
    next: u64,
    next_device: u32,
    /// The time of the step, after the start: whole microseconds and what is over, in parts of `share`.
    time_us: u64,
    over: u64,
    time: Timestamp,
    device: Device,
    data: Vec<u8>,
    len: usize,
    position: u64,
}

impl Synthetic {
    /// Of a plan.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn new(plan: Plan) -> Result<Synthetic, BadPlan> {
        if plan.devices == 0 {
            return Err(BadPlan::NoDevices);
        }
        let (least, most) = (*plan.size.start(), *plan.size.end());
        if least > most || usize::from(most) > DATA_MAX {
            return Err(BadPlan::Size(least, most));
        }
        let devices = u64::from(plan.devices);
        let (records, period_us, rounds) = match plan.length {
            Length::RecordsSampling { records, sampling_us } => (records, sampling_us, 1),
            Length::DurationSampling { duration_us, sampling_us } => {
                if sampling_us == 0 {
                    return Err(BadPlan::NoSampling);
                }
                let rounds = duration_us.div_ceil(sampling_us);
                (rounds.checked_mul(devices).ok_or(BadPlan::Late)?, sampling_us, 1)
            }
            Length::RecordsDuration { records, duration_us } => {
                let rounds = records.div_ceil(devices);
                if rounds > duration_us {
                    return Err(BadPlan::TooMany { rounds, duration_us });
                }
                (records, duration_us, rounds)
            }
        };
        if records == 0 {
            return Err(BadPlan::NoRecords);
        }
        if period_us == 0 {
            return Err(BadPlan::NoSampling);
        }
        let spread = plan.phase == Phase::Spread;
        let share = if spread { rounds.checked_mul(devices).ok_or(BadPlan::Late)? } else { rounds };
        if i64::try_from(share).is_err() {
            return Err(BadPlan::Late);
        }
        let made = Synthetic {
            records,
            period_us,
            share,
            spread,
            digits: DIGITS.max((plan.devices - 1).max(1).ilog10() as usize + 1),
            next: 0,
            next_device: 0,
            time_us: 0,
            over: 0,
            time: plan.start,
            device: Device::default(),
            // random numbers are written eight bytes at a time
            data: vec![0; usize::from(most).next_multiple_of(8)],
            len: 0,
            position: 0,
            plan,
        };
        made.last().map_err(|_| BadPlan::Late)?;
        Ok(made)
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// About how many bytes they are in an archive: exactly where all have one size.
    pub fn bytes(&self) -> u64 {
        let data = (u64::from(*self.plan.size.start()) + u64::from(*self.plan.size.end())) / 2;
        self.records.saturating_mul(HEAD as u64 + data)
    }

    /// The time of the last record.
    fn last(&self) -> Result<Timestamp, BadTime> {
        let last = self.records - 1;
        let step = if self.spread { last } else { last / u64::from(self.plan.devices) };
        let us = u128::from(step) * u128::from(self.period_us) / u128::from(self.share);
        let us = i64::try_from(us).map_err(|_| BadTime::Year)?;
        let moment = self.plan.start.unix_us().checked_add(us).ok_or(BadTime::Year)?;
        Timestamp::new(moment, self.plan.start.zone_min())
    }

    /// Goes to a device, and to another moment where it is time for one.
    #[inline]
    fn turn(&mut self) {
        let first = self.next_device == 0;
        if self.next > 0 && (self.spread || first) {
            self.time_us += self.period_us / self.share;
            self.over += self.period_us % self.share;
            if self.over >= self.share {
                self.over -= self.share;
                self.time_us += 1;
            }
            let moment = self.plan.start.unix_us().saturating_add_unsigned(self.time_us);
            // the last one has a time, so those before it have one
            self.time = Timestamp::new(moment, self.plan.start.zone_min()).unwrap_or(self.time);
        }
        self.device = named(self.next_device, self.digits);
        self.next_device =
            if self.next_device + 1 == self.plan.devices { 0 } else { self.next_device + 1 };
    }

    /// Draws the size and the data of the next record.
    #[inline]
    fn draw(&mut self) {
        let mut state = mix(self.plan.seed.wrapping_add(GOLDEN))
            .wrapping_add(mix(self.next.wrapping_add(GOLDEN)));
        let (least, most) = (*self.plan.size.start(), *self.plan.size.end());
        state = state.wrapping_add(GOLDEN);
        let choices = u128::from(most - least) + 1;
        let chosen = ((u128::from(mix(state)) * choices) >> 64) as usize;
        self.len = usize::from(least) + chosen;
        let whole = self.len.next_multiple_of(8);
        for chunk in self.data[..whole].as_chunks_mut::<8>().0 {
            state = state.wrapping_add(GOLDEN);
            *chunk = mix(state).to_le_bytes();
        }
    }
}

/// Every bit of the result depends on every bit of `z` (Vigna's `splitmix64.c`).
#[inline]
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `dev-000001` is the second one.
#[inline]
fn named(number: u32, digits: usize) -> Device {
    let mut name = [0; Device::LEN];
    let (prefix, rest) = name.split_at_mut(PREFIX.len());
    prefix.copy_from_slice(PREFIX);
    let mut number = number;
    for digit in rest[..digits].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    Device(name)
}

impl Source for Synthetic {
    fn advance(&mut self) -> Result<bool, Error> {
        if self.next == self.records {
            return Ok(false);
        }
        self.turn();
        self.draw();
        self.next += 1;
        self.position += (HEAD + self.len) as u64;
        Ok(true)
    }

    fn record(&self) -> Record<'_> {
        let data = self.data.get(..self.len).unwrap_or_default();
        Record { time: self.time, device: self.device, data }
    }

    /// Bytes that the records have in an archive.
    fn position(&self) -> u64 {
        self.position
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_435_774_830_000_000;

    fn plan(devices: u32, length: Length) -> Plan {
        let start = Timestamp::new(START, 60).unwrap();
        Plan { start, devices, length, size: 28..=28, phase: Phase::Shared, seed: 1 }
    }

    fn all(plan: &Plan) -> Vec<(i64, String, Vec<u8>)> {
        let mut source = Synthetic::new(plan.clone()).unwrap();
        let mut all = Vec::new();
        while source.advance().unwrap() {
            let Record { time, device, data } = source.record();
            assert_eq!(time.zone_min(), 60);
            all.push((time.unix_us() - START, device.to_string(), data.to_vec()));
        }
        assert_eq!(all.len() as u64, source.records());
        all
    }

    fn times(plan: &Plan) -> Vec<i64> {
        all(plan).into_iter().map(|(us, ..)| us).collect()
    }

    #[test]
    fn devices_share_their_times_or_spread_over_the_period() {
        let length = Length::DurationSampling { duration_us: 25, sampling_us: 10 };
        let shared = plan(3, length);
        assert_eq!(times(&shared), [0, 0, 0, 10, 10, 10, 20, 20, 20]);
        let names: Vec<String> = all(&shared).into_iter().map(|(_, name, _)| name).collect();
        assert_eq!(names[..4], ["dev-000000", "dev-000001", "dev-000002", "dev-000000"]);
        let spread = Plan { phase: Phase::Spread, ..shared };
        assert_eq!(times(&spread), [0, 3, 6, 10, 13, 16, 20, 23, 26]);
    }

    #[test]
    fn two_of_number_duration_and_sampling_say_the_third() {
        let by = |length| times(&plan(2, length));
        let seven = [0, 0, 10, 10, 20, 20, 30];
        assert_eq!(by(Length::RecordsSampling { records: 7, sampling_us: 10 }), seven);
        assert_eq!(by(Length::RecordsDuration { records: 7, duration_us: 40 }), seven);
        // what does not divide evenly does not add up
        let uneven = plan(1, Length::RecordsDuration { records: 3_000, duration_us: 1_000_000 });
        let uneven = times(&uneven);
        for (round, us) in uneven.iter().enumerate() {
            assert_eq!(*us as usize, round * 1_000_000 / 3_000);
        }
    }

    #[test]
    fn the_same_seed_is_the_same_bytes_and_another_is_not() {
        let length = Length::RecordsSampling { records: 1000, sampling_us: 1 };
        let one = Plan { size: 0..=100, ..plan(7, length) };
        assert_eq!(all(&one), all(&one));
        let other = Plan { seed: 2, ..one.clone() };
        assert_ne!(all(&one), all(&other));
        let sizes: std::collections::HashSet<usize> =
            all(&one).iter().map(|(_, _, data)| data.len()).collect();
        assert_eq!(sizes.len(), 101);
    }

    /// Part of what a seed means: never change it.
    #[test]
    fn the_bytes_of_a_seed_stay_what_they_are() {
        let length = Length::RecordsSampling { records: 2, sampling_us: 1 };
        let records = all(&Plan { size: 10..=10, ..plan(1, length) });
        let hex = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            [hex(&records[0].2), hex(&records[1].2)],
            ["03881a08aba9f81d71db", "fd483fd47193a52266ab"]
        );
    }

    #[test]
    fn what_cannot_be_made_is_told() {
        let why = |plan: Plan| Synthetic::new(plan).unwrap_err();
        let length = Length::RecordsSampling { records: 1, sampling_us: 1 };
        assert_eq!(why(plan(0, length)), BadPlan::NoDevices);
        let none = Length::RecordsSampling { records: 0, sampling_us: 1 };
        assert_eq!(why(plan(1, none)), BadPlan::NoRecords);
        let still = Length::DurationSampling { duration_us: 1, sampling_us: 0 };
        assert_eq!(why(plan(1, still)), BadPlan::NoSampling);
        let dense = Length::RecordsDuration { records: 20, duration_us: 9 };
        assert_eq!(why(plan(2, dense)), BadPlan::TooMany { rounds: 10, duration_us: 9 });
        let long = Length::RecordsSampling { records: u64::MAX, sampling_us: u64::MAX };
        assert_eq!(why(plan(1, long)), BadPlan::Late);
        let size = RangeInclusive::new(2, 1);
        assert_eq!(why(Plan { size, ..plan(1, length) }), BadPlan::Size(2, 1));
        assert_eq!(why(Plan { size: 0..=u16::MAX, ..plan(1, length) }), BadPlan::Size(0, 65535));
    }

    #[test]
    fn names_have_room_for_every_number() {
        assert_eq!(named(u32::MAX, 10).to_string(), "dev-4294967295");
        let many = plan(2_000_000, Length::RecordsSampling { records: 1, sampling_us: 1 });
        assert_eq!(all(&many)[0].1, "dev-0000000");
        let million = Plan { devices: 1_000_000, ..many };
        assert_eq!(all(&million)[0].1, "dev-000000");
    }

    proptest! {
        #[test]
        fn time_never_runs_backwards_and_ends_where_it_was_said(
            devices in 1u32..20,
            records in 1u64..200,
            us in 1u64..100_000,
            spread: bool,
            by_duration: bool,
        ) {
            let length = match by_duration {
                true => Length::RecordsDuration { records, duration_us: us },
                false => Length::RecordsSampling { records, sampling_us: us },
            };
            let phase = if spread { Phase::Spread } else { Phase::Shared };
            let plan = Plan { phase, ..plan(devices, length) };
            let Ok(source) = Synthetic::new(plan.clone()) else { return Ok(()) };
            let times = times(&plan);
            prop_assert!(times.is_sorted());
            let last = source.last().unwrap().unix_us() - START;
            prop_assert_eq!(times.last(), Some(&last));
            prop_assert!(!by_duration || last < us as i64);
        }
    }
}
