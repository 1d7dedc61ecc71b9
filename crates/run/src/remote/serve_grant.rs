//! What the owner of a listener lets it serve for senders on other hosts: at which addresses and ports, how many sessions at a
//! time and for how long.
//!
//! A [`ServeGrant`] is written by the owner (`--allow-serve`), told to each sender, and held against what a sender asks for
//! ([`AskedServing`](super::AskedServing)). Pure.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wirebeat_units::human::{self, counted};
use wirebeat_units::{Fault, Nanos, fault};

/// The most places of a grant.
pub const PLACES_MAX: usize = 64;

/// What a listener may serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeGrant {
    /// Where it may listen.
    pub places: Vec<ServePlace>,
    /// How many sessions may be open at a time, of all groups together.
    pub sessions: u32,
    /// For how long in all, in ns.
    pub time_ns: u64,
}

/// An address and its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServePlace {
    address: IpAddr,
    first: u16,
    last: u16,
}

impl ServePlace {
    fn holds(&self, at: SocketAddr) -> bool {
        self.address == at.ip() && (self.first..=self.last).contains(&at.port())
    }
}

impl FromStr for ServePlace {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            fault!(
                "'{text}' is not an address with a port";
                "write for example 10.0.2.9:80, 10.0.2.9:5000-5999 or [2001:db8::9]:80"
            )
        };
        let (address, ports) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address: IpAddr = bare.unwrap_or(address).parse().map_err(|_| wrong())?;
        if bare.is_some() != address.is_ipv6() {
            return Err(wrong());
        }
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let (first, last) = (port(first).ok_or_else(wrong)?, port(last).ok_or_else(wrong)?);
        if first > last {
            return Err(fault!("{first} is above {last}"; "write the lower port first"));
        }
        if address.is_unspecified() || address.is_multicast() || address.to_canonical() != address {
            return Err(fault!("{address} is not one address of this host"; "write that address"));
        }
        Ok(ServePlace { address, first, last })
    }
}

impl TryFrom<String> for ServePlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|why: Fault| why.to_string())
    }
}

impl From<ServePlace> for String {
    fn from(place: ServePlace) -> String {
        place.to_string()
    }
}

impl fmt::Display for ServePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SocketAddr::new(self.address, self.first))?;
        if self.last > self.first { write!(f, "-{}", self.last) } else { Ok(()) }
    }
}

impl ServeGrant {
    /// The number of sessions at a time where none is written.
    pub const DEFAULT_SESSIONS: u32 = 1000;
    /// The time where none is written.
    pub const DEFAULT_TIME: Nanos = Nanos::from_secs(60);

    /// For how long in all.
    pub fn time(&self) -> Nanos {
        Nanos::new(self.time_ns)
    }

    /// Whether sessions may be accepted there.
    pub fn allows(&self, at: SocketAddr) -> bool {
        self.places.iter().any(|place| place.holds(at))
    }

    /// Whether a listener can mean it.
    pub(super) fn is_possible(&self) -> bool {
        self.places.len() <= PLACES_MAX
    }
}

impl FromStr for ServeGrant {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (mut places, mut sessions, mut time) = (Vec::new(), None, None);
        for part in text.split(',').map(str::trim) {
            let twice = |key: &str| fault!("'{key}' is given twice"; "give it once");
            if let Some(given) = part.strip_prefix("sessions=") {
                let count: NonZeroU32 = given.parse().map_err(
                    |_| fault!("'{given}' is not a number of sessions"; "write for example sessions=1000"),
                )?;
                sessions.replace(count.get()).map_or(Ok(()), |_| Err(twice("sessions")))?;
            } else if let Some(given) = part.strip_prefix("time=") {
                let given: Nanos =
                    given.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
                time.replace(given).map_or(Ok(()), |_| Err(twice("time")))?;
            } else {
                places.push(part.parse()?);
            }
        }
        if places.is_empty() {
            return Err(fault!(
                "no address is given";
                "write for example 10.0.2.9:80,sessions=1000,time=60s"
            ));
        }
        if places.len() > PLACES_MAX {
            return Err(fault!(
                "{} addresses are given, and {PLACES_MAX} is the most", places.len();
                "give ranges of ports, such as 10.0.2.9:5000-5999"
            ));
        }
        let time = time.unwrap_or(ServeGrant::DEFAULT_TIME);
        if time == Nanos::ZERO {
            return Err(fault!("a time of 0 allows nothing"; "leave --allow-serve out"));
        }
        let sessions = sessions.unwrap_or(ServeGrant::DEFAULT_SESSIONS);
        Ok(ServeGrant { places, sessions, time_ns: time.get() })
    }
}

impl fmt::Display for ServeGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, place) in self.places.iter().enumerate() {
            write!(f, "{}{place}", if number == 0 { "" } else { ", " })?;
        }
        let sessions = counted(self.sessions.into(), "session");
        write!(f, "; {sessions} at a time; {} in all", human::time(self.time_ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        let grant: ServeGrant =
            "10.0.2.9:80, [fd00::9]:5000-5999,sessions=7, time=3s".parse().unwrap();
        assert_eq!((grant.sessions, grant.time()), (7, Nanos::from_secs(3)));
        assert_eq!(
            grant.to_string(),
            "10.0.2.9:80, [fd00::9]:5000-5999; 7 sessions at a time; 3.00 s in all"
        );
        for (at, is_allowed) in [
            ("10.0.2.9:80", true),
            ("10.0.2.9:81", false),
            ("10.0.2.8:80", false),
            ("0.0.0.0:80", false),
            ("[fd00::9]:5000", true),
            ("[fd00::9]:5999", true),
            ("[fd00::9]:6000", false),
            ("[::ffff:10.0.2.9]:80", false),
        ] {
            assert_eq!(grant.allows(at.parse().unwrap()), is_allowed, "{at}");
        }
        let text = serde_json::to_string(&grant).unwrap();
        assert_eq!(serde_json::from_str::<ServeGrant>(&text).unwrap(), grant);
        let usual: ServeGrant = "10.0.2.9:80".parse().unwrap();
        assert_eq!(usual.sessions, ServeGrant::DEFAULT_SESSIONS);
        assert_eq!(usual.time(), ServeGrant::DEFAULT_TIME);
    }

    #[test]
    fn what_is_no_grant_is_refused() {
        for wrong in [
            "",
            "sessions=7",
            "10.0.2.9",
            "10.0.2.9:0",
            "10.0.2.9:80-79",
            "0.0.0.0:80",
            "[::]:80",
            "224.0.0.1:80",
            "[::ffff:10.0.2.9]:80",
            "fd00::9:80",
            "[10.0.2.9]:80",
            "10.0.2.9:80,sessions=0",
            "10.0.2.9:80,sessions=1,sessions=1",
            "10.0.2.9:80,time=0s",
            "10.0.2.9:80,rate=1Mbps",
        ] {
            assert!(wrong.parse::<ServeGrant>().is_err(), "{wrong}");
        }
        let many = |count: usize| vec!["10.0.2.9:80"; count].join(",").parse::<ServeGrant>();
        assert!(many(PLACES_MAX).is_ok() && many(PLACES_MAX + 1).is_err());
    }
}
