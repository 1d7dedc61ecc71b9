//! What this machine allows, for checks before the start: file descriptors, ports, congestion controls, SCTP.

use std::fs;
use std::ops::RangeInclusive;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::profile::{Profile, Protocol, check_profile};

/// How many file descriptors this process may have: now, and after [`raise_descriptors`]. `u64::MAX`: no limit.
pub fn descriptors() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX))
}

/// Raises the soft limit of file descriptors to the hard one, and returns it.
///
/// # Errors
/// Those of setrlimit(2).
pub fn raise_descriptors() -> Result<u64, Errno> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(descriptors().0)
}

/// The ports that the system chooses from where none is asked for (`ip_local_port_range` of ip(7)); for IPv6 too.
pub fn ephemeral_ports() -> Option<RangeInclusive<u16>> {
    range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_ascii_whitespace();
    let (first, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// The congestion controls that the kernel has loaded.
pub fn congestion_controls() -> Vec<String> {
    words("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// Those of them that a user without privileges may choose.
pub fn allowed_congestion_controls() -> Vec<String> {
    words("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
}

/// Whether this machine has SCTP; the kernel loads it for that where it is a module that may be loaded.
pub fn has_sctp() -> bool {
    let profile = Profile { protocol: Protocol::Sctp, ..Profile::default() };
    check_profile(&profile).is_ok()
}

fn words(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linux_has_limits_ports_and_reno() {
        let (soft, hard) = descriptors();
        assert!(soft > 0 && soft <= hard);
        let ports = ephemeral_ports().unwrap();
        assert!(ports.contains(ports.start()));
        // compiled into every kernel
        assert!(congestion_controls().contains(&"reno".to_owned()));
        for allowed in allowed_congestion_controls() {
            assert!(congestion_controls().contains(&allowed), "{allowed}");
        }
    }

    #[test]
    fn a_range_is_two_numbers_in_order() {
        assert_eq!(range("32768\t60999\n"), Some(32_768..=60_999));
        for broken in ["", "1", "a b", "2 1", "1 65536"] {
            assert_eq!(range(broken), None, "{broken}");
        }
    }
}
