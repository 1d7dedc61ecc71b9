//! How the clock of this process relates to the one that programs read.
//!
//! `bpf_ktime_get_ns()` is the kernel's own monotonic clock. A process in a time namespace sees that clock with
//! an offset, which the kernel tells exactly (time_namespaces(7)); everything in Wirebeat but the programs reads the
//! clock of the process.

use std::fs;

use wirebeat_engine::port::PortError;
use wirebeat_units::fault;

/// How many nanoseconds `CLOCK_MONOTONIC` of this process is ahead of `bpf_ktime_get_ns()`: 0 outside time
/// namespaces and on kernels without them.
pub(crate) fn ahead_of_kernel() -> Result<i64, PortError> {
    // kernels without time namespaces have one clock for all
    let Ok(offsets) = fs::read_to_string("/proc/self/timens_offsets") else { return Ok(0) };
    // what is told are the offsets of children: nearly always those of the process itself
    let namespace = |name| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let told = namespace("time") == namespace("time_for_children");
    told.then(|| monotonic(&offsets)).flatten().ok_or_else(|| PortError::Unsupported {
        engine: "kernel",
        what: fault!(
            "read the clock of this time namespace: its offset from the kernel's clock is not \
             known";
            "start wirebeat outside of it, or use --engine packet"
        ),
    })
}

/// The offset of the monotonic clock in a `timens_offsets` file, in nanoseconds.
fn monotonic(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.trim_start().strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_seconds_and_nanoseconds() {
        let text = "monotonic           86400         5\nboottime            -7         0\n";
        assert_eq!(monotonic(text), Some(86_400_000_000_005));
        // the kernel writes negative ones with positive nanoseconds
        assert_eq!(monotonic("monotonic -2 500000000"), Some(-1_500_000_000));
        assert_eq!(monotonic("boottime 0 0"), None);
        assert_eq!(monotonic("monotonic x 0"), None);
    }

    #[test]
    fn this_process_knows_its_offset() {
        assert!(ahead_of_kernel().is_ok());
    }
}
