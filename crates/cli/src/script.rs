//! Scripts of other tools, read as scenarios: for `run`, which sends them, and `convert`, which writes them.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Days, Local, NaiveTime, TimeZone};
use wirebeat_import::{
    Converted, Dialect, MAX_BYTES, NamedCapture, Options, Reception, Source, TimeOfDay, convert,
    recognise,
};
use wirebeat_run::read_file;
use wirebeat_units::{Nanos, WallTime, fault};

use crate::convert::captured;
use crate::failure::Failure;

/// Seconds of a day.
const DAY: u64 = 86_400;
/// A time of day comes within so many days, whatever the clock jumps over.
const DAYS_AHEAD: u64 = 4;

/// How a script is read.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Whose it is; `None`: as it looks.
    pub dialect: Option<Dialect>,
    /// The interface that flows leave by, unless the script names one.
    pub interface: Option<String>,
    /// Where servers of sessions are.
    pub to: Option<String>,
    /// How many times as many sessions start.
    pub multiply: Option<NonZeroU64>,
    /// Whether a stateful profile of T-Rex is played packet by packet.
    pub packets: bool,
    /// What the folder of the scenario is that names of captures are relative to; `None`: that of the script.
    pub beside: Option<PathBuf>,
    /// When the run ends.
    pub time: Option<Nanos>,
    /// What the script is called with.
    pub arguments: Vec<String>,
}

/// Reads `text`, which messages call `name` and which lies in `folder`, if it is a script.
pub fn read(
    (name, text): (&str, &str),
    folder: Option<&Path>,
    how: &How,
) -> Result<Option<Converted>, Failure> {
    let Some(dialect) = how.dialect.or_else(|| recognise(text)) else {
        if name.ends_with(".py") {
            let why = fault!(
                "this is a program in Python, and nothing here runs it";
                "write a profile of T-Rex as JSON by its own 'astf-sim -f PROFILE --json', and give that"
            );
            return Err(Failure::usage(why).at(name));
        }
        return Ok(None);
    };
    let read = |file: &str| {
        let path = folder.map_or(PathBuf::from(file), |dir| dir.join(file));
        read_file(&path, MAX_BYTES as u64).map_err(|why| format!("{}: {why}", path.display()))
    };
    let sessions = |file: &str| {
        let path = found(file, folder);
        let beside = how.beside.as_deref().or(folder);
        captured::sessions(&path).map(|sessions| NamedCapture {
            name: name_beside(&path, beside),
            sessions,
            template: captured::packets(&path),
        })
    };
    let source = Source { name, text, read: &read, sessions: &sessions };
    let options = Options {
        interface: how.interface.clone(),
        to: how.to.clone(),
        multiply: how.multiply,
        packets: how.packets,
        time: how.time,
        arguments: how.arguments.clone(),
    };
    let mut converted =
        convert(dialect, &source, &options).map_err(|error| Failure::usage(error.fault()))?;
    if let Some(start) = converted.starts {
        converted.scenario.run.start_at = Some(moment(start, SystemTime::now()));
    }
    Ok(Some(converted))
}

/// Where a capture is that a script names: in the script's folder, or, as T-Rex has its profiles, in the one above.
fn found(file: &str, folder: Option<&Path>) -> PathBuf {
    let within = |folder: &Path| folder.join(file);
    let here = folder.map_or(PathBuf::from(file), within);
    let above = folder.and_then(|folder| fs::canonicalize(folder.join("..")).ok());
    match above.map(|above| within(&above)).filter(|above| !here.exists() && above.exists()) {
        Some(above) => above,
        None => here,
    }
}

/// The name of a capture for a scenario in the folder `beside`: names in it are relative to that.
pub fn name_beside(capture: &Path, beside: Option<&Path>) -> String {
    let name = match beside.filter(|folder| !folder.as_os_str().is_empty()) {
        None => capture.to_path_buf(),
        Some(folder) => match capture.strip_prefix(folder) {
            Ok(name) => name.to_path_buf(),
            // another folder: its whole name
            Err(_) => fs::canonicalize(capture).unwrap_or(capture.to_path_buf()),
        },
    };
    name.display().to_string()
}

/// When it is that time of day next.
fn moment(time: TimeOfDay, now: SystemTime) -> WallTime {
    if time.utc { next(time, now) } else { next_here(time, &DateTime::<Local>::from(now)) }
}

/// The same in a time zone. On a day on which the clock jumps over it, there is none; of two, it is the first.
fn next_here<Zone: TimeZone>(time: TimeOfDay, now: &DateTime<Zone>) -> WallTime {
    let (seconds, rest) =
        (time.since_midnight.get() / 1_000_000_000, time.since_midnight.get() % 1_000_000_000);
    let clock = u32::try_from(seconds)
        .ok()
        .zip(u32::try_from(rest).ok())
        .and_then(|(seconds, rest)| NaiveTime::from_num_seconds_from_midnight_opt(seconds, rest));
    let on = |days| {
        let date = now.date_naive().checked_add_days(Days::new(days))?;
        now.timezone().from_local_datetime(&date.and_time(clock?)).earliest()
    };
    let found = (0..DAYS_AHEAD).filter_map(on).find(|moment| moment > now);
    let ns = found.and_then(|moment| moment.timestamp_nanos_opt());
    let ns = ns.and_then(|ns| u64::try_from(ns).ok());
    WallTime::from_unix(ns.map_or(time.since_midnight, Nanos::new))
}

/// When it is that time of day (UTC) next.
fn next(time: TimeOfDay, now: SystemTime) -> WallTime {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let midnight = Nanos::from_secs(now.as_secs() / DAY * DAY);
    let today = midnight.saturating_add(time.since_midnight);
    let passed = u128::from(today.get()) <= now.as_nanos();
    WallTime::from_unix(if passed { today.saturating_add(Nanos::from_secs(DAY)) } else { today })
}

/// What the scenario does not do as the script says, in words.
pub fn notices(converted: &Converted) -> Vec<String> {
    let mut notices: Vec<String> = converted.left_out.iter().map(ToString::to_string).collect();
    if let Some(moment) = converted.starts.and(converted.scenario.run.start_at) {
        let there = UNIX_EPOCH + std::time::Duration::from_nanos(moment.unix().get());
        let here = DateTime::<Local>::from(there).format("%Y-%m-%d %H:%M:%S %:z");
        notices.push(format!("the script begins at {here}, that is {moment}"));
    }
    notices.extend(converted.listens.iter().filter_map(|listen| {
        let what = match &listen.what {
            Reception::Open(ports) => {
                let first = ports.first()?.start();
                format!("to receive: 'wirebeat receive --port {first} --log mgen' does")
            }
            Reception::Join(group) => {
                format!("to join {0}: 'wirebeat receive --group {0}' does", group.address)
            }
            Reception::Close(ports) => {
                let first = ports.first()?.start();
                format!("to receive port {first} no longer: 'wirebeat receive' ends with --time")
            }
            Reception::Leave(group) => {
                format!(
                    "to leave {}: 'wirebeat receive' leaves its groups at its end",
                    group.address
                )
            }
        };
        Some(format!("{}: the script asks {what}; a scenario sends", listen.line))
    }));
    notices
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let now = UNIX_EPOCH + Duration::from_secs(10 * DAY + 3600);
        let at = |seconds| TimeOfDay { since_midnight: Nanos::from_secs(seconds), utc: true };
        assert_eq!(next(at(7200), now).unix(), Nanos::from_secs(10 * DAY + 7200));
        assert_eq!(next(at(3600), now).unix(), Nanos::from_secs(11 * DAY + 3600));
    }

    #[test]
    fn a_local_time_of_day_is_that_of_the_time_zone() {
        let zone = chrono::FixedOffset::east_opt(2 * 3600).unwrap();
        let now = zone.with_ymd_and_hms(2026, 3, 10, 23, 30, 0).unwrap();
        let at = |seconds| TimeOfDay { since_midnight: Nanos::from_secs(seconds), utc: false };
        let moment = |seconds| next_here(at(seconds), &now).to_string();
        assert_eq!(moment(23 * 3600 + 1801), "2026-03-10T21:30:01Z");
        assert_eq!(moment(23 * 3600 + 1800), "2026-03-11T21:30:00Z");
        assert_eq!(moment(3600), "2026-03-10T23:00:00Z");
    }

    #[test]
    fn a_script_that_begins_at_a_local_time_says_when_and_waits() {
        let script = "START 13:30:00\n0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n";
        let how = How { dialect: Some(Dialect::Mgen), ..How::default() };
        let converted = read(("f", script), None, &how).unwrap().unwrap();
        let moment = converted.scenario.run.start_at.unwrap();
        assert!(SystemTime::now() < UNIX_EPOCH + Duration::from_nanos(moment.unix().get()));
        let notices = notices(&converted);
        assert!(notices.iter().any(|notice| notice.contains(&moment.to_string())), "{notices:?}");
    }

    #[test]
    fn every_event_of_a_receiver_is_named() {
        let script = "0 LISTEN UDP 5000\n1 IGNORE UDP 5000\n2 JOIN 239.1.1.1\n3 LEAVE 239.1.1.1\n\
                      0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n1 OFF 1\n";
        let converted = read(("f", script), None, &How::default()).unwrap().unwrap();
        let notices = notices(&converted);
        for line in 1..=4 {
            let place = format!("f:{line}: ");
            assert_eq!(notices.iter().filter(|n| n.starts_with(&place)).count(), 1, "{notices:?}");
        }
    }

    #[test]
    fn scenarios_are_no_scripts() {
        let how = How::default();
        for text in ["ports: {}\nflows: {}\n", "{\"ports\": {}, \"flows\": {}}", "", "# nothing\n"]
        {
            assert!(read(("f", text), None, &how).unwrap().is_none(), "{text}");
        }
        let script = "0.0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n5.0 OFF 1\n";
        let converted = read(("f", script), None, &how).unwrap().unwrap();
        assert_eq!(converted.scenario.flows.len(), 1);
    }
}
