//! An archive of records that are made up.

use std::ops::RangeInclusive;

use clap::Args as ClapArgs;
use wirebeat_archive::synthetic::{Length, Phase, Plan, Synthetic};
use wirebeat_archive::table::Tally;
use wirebeat_archive::time_series::Timestamp;
use wirebeat_units::{Fault, fault};

use super::{Args, made, make};
use crate::failure::Failure;
use crate::values;

/// What is made up. Of records, duration and sampling two are given, and say the third.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Made-up records (two of --records, --duration and --sampling)")]
pub struct SyntheticArgs {
    /// How many devices there are; each round has a record of every one [default: 1]
    #[arg(long, value_name = "COUNT", conflicts_with = "table", value_parser = values::count::<std::num::NonZeroU32>)]
    devices: Option<std::num::NonZeroU32>,
    /// How many records there are, of all devices together
    #[arg(long, value_name = "COUNT", conflicts_with = "table", value_parser = values::count::<std::num::NonZeroU64>)]
    records: Option<std::num::NonZeroU64>,
    /// From the first record to the end, at which no round begins
    #[arg(long, value_name = "TIME", conflicts_with = "table", value_parser = micros)]
    duration: Option<u64>,
    /// From one record of a device to its next
    #[arg(long, value_name = "TIME", conflicts_with = "table", value_parser = micros)]
    sampling: Option<u64>,
    /// Bytes of data of a record: a number, or a range as 20-500 of which all are as likely [default: 28]
    #[arg(long, value_name = "BYTES", conflicts_with = "table", value_parser = size)]
    size: Option<RangeInclusive<u16>>,
    /// The time of the first record [default: 2000-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", conflicts_with = "table")]
    start: Option<Timestamp>,
    /// Spread the devices evenly over the time between samples, instead of sharing their times
    #[arg(long, conflicts_with = "table")]
    spread: bool,
    /// Another number, other data [default: 1]
    #[arg(long, value_name = "NUMBER", conflicts_with = "table", value_parser = values::number)]
    seed: Option<u64>,
}

fn micros(text: &str) -> Result<u64, Fault> {
    let nanos = values::time(text)?.get();
    match nanos % 1000 {
        0 => Ok(nanos / 1000),
        _ => Err(fault!("'{text}' is finer than an archive is"; "write a whole number of us")),
    }
}

fn size(text: &str) -> Result<RangeInclusive<u16>, Fault> {
    let wrong = || {
        fault!(
            "'{text}' are no bytes of data";
            "write a number up to 65505, or a range as 20-500"
        )
    };
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| wrong());
    Ok(number(least)?..=number(most)?)
}

/// 2000-01-01T00:00:00Z.
const START_US: i64 = 946_684_800_000_000;

/// Creates.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let wanted = &args.synthetic_args;
    let length = match (wanted.records.map(u64::from), wanted.duration, wanted.sampling) {
        (Some(records), None, Some(sampling_us)) => {
            Length::RecordsSampling { records, sampling_us }
        }
        (None, Some(duration_us), Some(sampling_us)) => {
            Length::DurationSampling { duration_us, sampling_us }
        }
        (Some(records), Some(duration_us), None) => {
            Length::RecordsDuration { records, duration_us }
        }
        (Some(_), Some(_), Some(_)) => {
            let why = fault!(
                "--records, --duration and --sampling say too much together";
                "give two of them"
            );
            return Err(Failure::usage(why));
        }
        _ => {
            let why = fault!(
                "how many records, and how far apart, is not clear";
                "give two of --records, --duration and --sampling"
            );
            return Err(Failure::usage(why));
        }
    };
    let start = match wanted.start {
        Some(start) => start,
        None => Timestamp::utc(START_US).map_err(|error| Failure::usage(error.fault()))?,
    };
    let plan = Plan {
        start,
        devices: wanted.devices.map_or(1, u32::from),
        length,
        size: wanted.size.clone().unwrap_or(28..=28),
        phase: if wanted.spread { Phase::Spread } else { Phase::Shared },
        seed: wanted.seed.unwrap_or(1),
    };
    let mut source = Synthetic::new(plan).map_err(|error| Failure::usage(error.fault()))?;
    let bytes = source.bytes();
    made(make(&mut source, Some(bytes), &args.output, |_| None)?, &Tally::default());
    Ok(0)
}
