//! How far the system clock can be compared with other hosts'.
//!
//! The kernel keeps what the synchronising daemon told it; `adjtimex` with nothing to adjust reads
//! it. No safe crate wraps that call, so this file has `unsafe` blocks.

use std::collections::BTreeSet;

use serde::Serialize;

/// Programs that steer the clock, by the names of their processes (cut to 15 bytes by the kernel).
const DAEMONS: [&str; 7] =
    ["chronyd", "ntpd", "openntpd", "ntpd-rs", "systemd-timesyn", "phc2sys", "ptp4l"];

/// What the kernel knows of its clock's error (adjtimex(2)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClockSync {
    /// Whether somebody steers it and vouches for it.
    pub synchronised: bool,
    /// The clock is no further off than this, in nanoseconds. Without synchronisation it grows up
    /// to 16 s and means nothing.
    pub maximum_error_ns: u64,
    /// How far off it probably is, in nanoseconds.
    pub estimated_error_ns: u64,
    /// What is still to be corrected, in nanoseconds.
    pub offset_ns: i64,
    /// TAI minus UTC in seconds; 0 when nobody has told the kernel.
    pub tai_offset_s: i32,
    /// The programs running here that steer clocks.
    pub daemons: Vec<String>,
}

impl ClockSync {
    pub(crate) fn observe(running: &BTreeSet<String>) -> Option<Self> {
        let (state, timex) = read()?;
        let micros = |us: libc::c_long| u64::try_from(us).unwrap_or(0).saturating_mul(1000);
        #[allow(clippy::unnecessary_cast, reason = "it has 32 bits on some targets")]
        let offset = timex.offset as i64;
        Some(ClockSync {
            synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
            maximum_error_ns: micros(timex.maxerror),
            estimated_error_ns: micros(timex.esterror),
            offset_ns: match timex.status & libc::STA_NANO {
                0 => offset.saturating_mul(1000),
                _ => offset,
            },
            tai_offset_s: timex.tai,
            daemons: DAEMONS
                .iter()
                .filter(|&&d| running.contains(d))
                .map(|d| d.to_string())
                .collect(),
        })
    }
}

/// The clock's state and figures, unchanged by asking; `None` where a sandbox forbids the call.
#[allow(unsafe_code)]
fn read() -> Option<(libc::c_int, libc::timex)> {
    // SAFETY: timex consists of integers alone, for which all zeros are a value; `modes` 0 asks
    // for nothing to be changed.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a timex that lives until the call returns; the kernel writes no
    // more than that structure.
    let state = unsafe { libc::adjtimex(&mut timex) };
    (state >= 0).then_some((state, timex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_its_clocks_error() {
        let none = BTreeSet::new();
        let Some(sync) = ClockSync::observe(&none) else { return };
        assert!(sync.maximum_error_ns > 0, "{sync:?}");
        assert_eq!(sync.daemons, Vec::<String>::new());
        let running = BTreeSet::from(["chronyd".to_owned(), "bash".to_owned()]);
        assert_eq!(ClockSync::observe(&running).unwrap().daemons, ["chronyd"]);
    }
}
