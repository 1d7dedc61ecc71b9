//! Addresses of our own TCP on an interface, which one run at a time has: of two that answer for the same address, each resets the
//! sessions of the other.
//!
//! A claim is a name among the abstract addresses of Unix sockets: the kernel keeps these for each network namespace, shows them to
//! everybody (`/proc/net/unix`), and forgets a name with the process that has it, however that ends. Nobody connects to it. Any user
//! of this machine can take such a name, and so keep a run from its addresses; the message says which process has it to be looked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Shutdown};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use wirebeat_neighbours::Hosts;
use wirebeat_units::fault;

use crate::error::RunError;
use crate::ports::ResolvedPort;

/// What all names begin with.
const PREFIX: &str = "wirebeat/own/";
/// The most ranges of addresses that are claimed: a socket each. Those beyond are not.
const RANGES_MAX: usize = 256;
/// Who claims waits so long, so many times, for another who does.
const WAIT: Duration = Duration::from_millis(5);
const WAITS: u32 = 200;

/// What a run has: others find it as long as this lives.
#[derive(Debug)]
pub(super) struct Claims {
    _sockets: Vec<UnixDatagram>,
}

/// Addresses of one version on a link, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    is_v6: bool,
    first: u128,
    last: u128,
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Range {
    fn new((first, last): (IpAddr, IpAddr)) -> Range {
        Range { is_v6: first.is_ipv6(), first: number(first), last: number(last) }
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.is_v6 == other.is_v6 && self.first <= other.last && other.first <= self.last
    }

    fn address(&self, number: u128) -> IpAddr {
        match self.is_v6 {
            true => IpAddr::V6(number.into()),
            false => IpAddr::V4((number as u32).into()),
        }
    }

    /// What both have.
    fn shared(&self, other: &Range) -> String {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        let [first, last] = [first, last].map(|number| self.address(number));
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    }

    /// Its name on a link: 89 bytes at most, and the kernel has room for 107.
    fn name(&self, link: &str) -> String {
        let version = if self.is_v6 { 6 } else { 4 };
        format!("{PREFIX}{link}/{version}/{:x}-{:x}", self.first, self.last)
    }

    /// Reads [`Range::name`]; `None` for all others, and for those of other links.
    fn of_name(name: &str, link: &str) -> Option<Range> {
        let rest = name.strip_prefix(PREFIX)?.strip_prefix(link)?.strip_prefix('/')?;
        let (version, range) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| u128::from_str_radix(text, 16).ok();
        let range = Range {
            is_v6: match version {
                "4" => false,
                "6" => true,
                _ => return None,
            },
            first: number(first)?,
            last: number(last)?,
        };
        Some(range)
    }
}

/// Takes a name; `None` where somebody has it.
fn take(name: &str) -> io::Result<Option<UnixDatagram>> {
    match UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?) {
        Ok(socket) => {
            // nobody can leave anything with it
            socket.shutdown(Shutdown::Both).or_else(|error| match error.kind() {
                io::ErrorKind::NotConnected => Ok(()),
                _ => Err(error),
            })?;
            Ok(Some(socket))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is claimed on `link` in the network namespace of this thread, as far as the system shows it.
fn claimed(link: &str) -> Vec<Range> {
    let Ok(file) = File::open("/proc/thread-self/net/unix") else { return Vec::new() };
    // names may have any bytes
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let range = |line: Vec<u8>| {
        let line = String::from_utf8(line).ok()?;
        Range::of_name(line.rsplit_once(" @")?.1, link)
    };
    lines.filter_map(range).collect()
}

/// Claims `ranges` on `link`, or says what of them another has. One process at a time looks and takes.
fn claim(link: &str, ranges: &[Range]) -> io::Result<Result<Claims, String>> {
    let mut turn = take(&format!("{PREFIX}turn"))?;
    for _ in 0..WAITS {
        if turn.is_some() {
            break;
        }
        std::thread::sleep(WAIT);
        turn = take(&format!("{PREFIX}turn"))?;
    }
    let others = claimed(link);
    let mut sockets = Vec::new();
    for range in ranges.iter().take(RANGES_MAX) {
        if let Some(other) = others.iter().find(|other| range.overlaps(other)) {
            return Ok(Err(range.shared(other)));
        }
        match take(&range.name(link))? {
            Some(socket) => sockets.push(socket),
            None => return Ok(Err(range.shared(range))),
        }
    }
    Ok(Ok(Claims { _sockets: sockets }))
}

impl Claims {
    /// Claims the addresses of `hosts` at `port`.
    ///
    /// # Errors
    /// Another run has one of them; or the system has no socket left.
    pub(super) fn take(port: &ResolvedPort, hosts: &Hosts) -> Result<Option<Claims>, RunError> {
        let Some(link) = &port.link else { return Ok(None) };
        let vlan = port.spec.hosts.vlan.map_or(String::new(), |vlan| format!(".{vlan}"));
        let place = format!("{}{vlan}", link.index.get());
        let ranges: Vec<Range> = hosts.ranges().map(Range::new).collect();
        let at = |fault: wirebeat_units::Fault| fault.at(format!("port '{}'", port.name));
        match port.enter(|| claim(&place, &ranges))? {
            Ok(Ok(claims)) => Ok(Some(claims)),
            Ok(Err(taken)) => Err(RunError::machine(at(fault!(
                "another run has {taken} on {}{} for its own TCP, and each would reset the sessions of the other",
                link.name,
                if vlan.is_empty() { String::new() } else { format!(" (VLAN {})", &vlan[1..]) };
                "let that run end ('ss -xl' and /proc/net/unix show its claims, @{PREFIX}…), or choose other addresses"
            )))),
            Err(error) => Err(RunError::machine(at(fault!(
                "the addresses of our own TCP cannot be claimed on {}: {error}",
                link.name
            )))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, last: &str) -> Range {
        Range::new((first.parse().unwrap(), last.parse().unwrap()))
    }

    #[test]
    fn names_say_what_is_claimed_and_fit() {
        let longest = range("fd00::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        for range in [range("10.0.0.1", "10.0.0.9"), longest] {
            let name = range.name("4294967295.4095");
            assert!(name.len() <= 107, "{name}");
            assert_eq!(Range::of_name(&name, "4294967295.4095"), Some(range));
            assert_eq!(Range::of_name(&name, "429496729"), None);
        }
        for other in ["", "wirebeat/own/turn", "wirebeat/own/7/4/", "wirebeat/own/7/5/1-2", "x"] {
            assert_eq!(Range::of_name(other, "7"), None, "{other}");
        }
    }

    #[test]
    fn overlapping_claims_are_found_and_end_with_who_has_them() {
        // no link has this number
        let link = "test-0";
        let claims = |first, last| claim(link, &[range(first, last)]).unwrap();
        let first = claims("198.51.100.10", "198.51.100.20").unwrap();
        assert_eq!(claims("198.51.100.20", "198.51.100.30").unwrap_err(), "198.51.100.20");
        let within = claims("198.51.100.0", "198.51.100.255").unwrap_err();
        assert_eq!(within, "198.51.100.10-198.51.100.20");
        let beside = claims("198.51.100.21", "198.51.100.30").unwrap();
        let elsewhere = claim("test-1", &[range("198.51.100.10", "198.51.100.20")]).unwrap();
        assert!(elsewhere.is_ok());
        drop((first, beside));
        assert!(claims("198.51.100.0", "198.51.100.255").is_ok());
    }
}
