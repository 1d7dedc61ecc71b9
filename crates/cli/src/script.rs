//! Scripts of other tools, read as scenarios: for `run`, which sends them, and `convert`, which writes them.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use wirebeat_run::read_file;
use wirebeat_scripts::{
    Converted, Dialect, MAX_BYTES, Options, Reception, Source, TimeOfDay, convert, recognise,
};
use wirebeat_units::{Nanos, WallTime};

use crate::failure::Failure;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// How a script is read.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Whose it is; `None`: as it looks.
    pub dialect: Option<Dialect>,
    /// The interface that flows leave by, unless the script names one.
    pub interface: Option<String>,
    /// When the run ends.
    pub time: Option<Nanos>,
}

/// Reads `text`, which messages call `name` and which lies in `folder`, if it is a script.
pub fn read(
    (name, text): (&str, &str),
    folder: Option<&Path>,
    how: &How,
) -> Result<Option<Converted>, Failure> {
    let Some(dialect) = how.dialect.or_else(|| recognise(text)) else { return Ok(None) };
    let read = |file: &str| {
        let path = folder.map_or(PathBuf::from(file), |dir| dir.join(file));
        read_file(&path, MAX_BYTES as u64).map_err(|why| format!("{}: {why}", path.display()))
    };
    let source = Source { name, text, read: &read };
    let options = Options { interface: how.interface.clone(), time: how.time };
    let mut converted =
        convert(dialect, &source, &options).map_err(|error| Failure::usage(&error.to_string()))?;
    if let Some(start) = converted.starts.filter(|start| start.utc) {
        converted.scenario.run.start_at = Some(next(start, SystemTime::now()));
    }
    Ok(Some(converted))
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
    if let Some(start) = converted.starts.filter(|start| !start.utc) {
        notices.push(format!(
            "the script begins at {} after midnight in this host's time zone; give the moment in UTC as \
             'run.start-at'",
            start.since_midnight
        ));
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
            Reception::Close(_) | Reception::Leave(_) => return None,
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
