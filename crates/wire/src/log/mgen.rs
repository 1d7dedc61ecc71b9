//! MGEN's text log, byte for byte as MGEN 5.02b writes it (checked against its own log):
//!
//! ```text
//! 15:41:49.503181 START Mgen Version 5.02b
//! 15:41:49.503218 LISTEN proto>UDP port>5500
//! 15:41:50.500599 RECV proto>UDP flow>7 seq>0 src>127.0.0.1/4000 dst>127.0.0.1/5500 sent>15:41:50.500392 size>64 gps>INVALID,999.000000,999.000000,4294966297
//! 15:41:55.496277 STOP
//! ```
//! Times are of the day, UTC. A `RECV` line ends with a blank, and its altitude of −999 m is printed
//! without its sign: both are MGEN's own. The time to live is a field of newer versions, written where
//! it is known. Newer versions can also write UNIX times (`epochtimestamp`); those are read as well.

use std::fmt;

use super::{Malformed, Received, SECOND_NS, digits, endpoint, seconds, value};
use crate::codec::Sent;

/// A line of the log. Times are UNIX times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MgenLine {
    /// The log begins.
    Start {
        /// When.
        at_ns: u64,
    },
    /// A port is listened to.
    Listen {
        /// When.
        at_ns: u64,
        /// The UDP port.
        port: u16,
    },
    /// A packet has come.
    Receive(Received),
    /// The log ends.
    Stop {
        /// When.
        at_ns: u64,
    },
}

impl MgenLine {
    /// Reads a line; `None` for an event that is none of the above, such as `SEND`. A time of day is
    /// taken for the one nearest to `near_ns`, a UNIX time such as that of the line before.
    ///
    /// # Errors
    /// When it does not begin with a time, or a field is missing or cannot be read.
    pub fn parse(text: &str, near_ns: u64) -> Result<Option<MgenLine>, Malformed> {
        let time_field = "the time of the event";
        let (time, event) = text.trim().split_once(' ').ok_or(malformed(time_field))?;
        let at_ns = time_near(time, near_ns).ok_or(malformed(time_field))?;
        let (event, fields) = event.split_once(' ').unwrap_or((event, ""));
        Ok(Some(match event {
            "START" => MgenLine::Start { at_ns },
            "STOP" => MgenLine::Stop { at_ns },
            "LISTEN" if value(fields, "proto>") == Some("UDP") => {
                let port = value(fields, "port>").and_then(digits);
                MgenLine::Listen { at_ns, port: port.ok_or(malformed("port>"))? }
            }
            "RECV" => MgenLine::Receive(received(fields, at_ns)?),
            _ => return Ok(None),
        }))
    }

    /// When it happened.
    pub fn at_ns(&self) -> u64 {
        match self {
            MgenLine::Start { at_ns }
            | MgenLine::Listen { at_ns, .. }
            | MgenLine::Stop { at_ns } => *at_ns,
            MgenLine::Receive(received) => received.arrived_ns,
        }
    }
}

fn malformed(field: &'static str) -> Malformed {
    Malformed { log: "mgen", field }
}

/// The fields of a `RECV` line.
fn received(fields: &str, arrived_ns: u64) -> Result<Received, Malformed> {
    let get = |key| value(fields, key).ok_or(malformed(key));
    let number = |key| digits(get(key)?).ok_or(malformed(key));
    let narrow = |key| u32::try_from(number(key)?).map_err(|_| malformed(key));
    let address = |key| endpoint(get(key)?, '/').ok_or(malformed(key));
    let ttl = value(fields, "ttl>").map(|ttl| digits(ttl).ok_or(malformed("ttl>")));
    let sent = get("sent>")?;
    let sent_ns = match sent {
        NOT_SENT => None,
        sent => Some(time_near(sent, arrived_ns).ok_or(malformed("sent>"))?),
    };
    Ok(Received {
        arrived_ns,
        sent_ns,
        flow: narrow("flow>")?,
        sequence: number("seq>")?,
        source: address("src>")?,
        destination: address("dst>")?,
        size: narrow("size>")?,
        ttl: ttl.transpose()?,
    })
}

/// What is written for a time that is not known.
const NOT_SENT: &str = "00:00:00.000000";

/// A time of day near `near_ns`, or a UNIX time, as a UNIX time in nanoseconds.
fn time_near(text: &str, near_ns: u64) -> Option<u64> {
    let Some((hours, rest)) = text.split_once(':') else { return seconds(text) };
    let (minutes, rest) = rest.split_once(':')?;
    let (hours, minutes) = (digits::<u8>(hours)?, digits::<u8>(minutes)?);
    let seconds_ns = seconds(rest)?;
    if hours > 23 || minutes > 59 || seconds_ns >= 60 * SECOND_NS {
        return None;
    }
    let whole = (u64::from(hours) * 60 + u64::from(minutes)) * 60 * SECOND_NS;
    Sent::OfDay(whole + seconds_ns).unix_ns(near_ns)
}

/// A UNIX time as a time of the day.
struct OfDay(u64);

impl fmt::Display for OfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / SECOND_NS;
        let [h, m, s] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        write!(f, "{h:02}:{m:02}:{s:02}.{:06}", self.0 % SECOND_NS / 1000)
    }
}

impl fmt::Display for MgenLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", OfDay(self.at_ns()))?;
        match self {
            // Scripts look for the tool whose log it is; the version is that of the format.
            MgenLine::Start { .. } => f.write_str("START Mgen Version 5.02b"),
            MgenLine::Listen { port, .. } => write!(f, "LISTEN proto>UDP port>{port}"),
            MgenLine::Stop { .. } => f.write_str("STOP"),
            MgenLine::Receive(received) => write_received(f, received),
        }
    }
}

fn write_received(f: &mut fmt::Formatter<'_>, received: &Received) -> fmt::Result {
    let Received { sent_ns, flow, sequence, source, destination, size, ttl, .. } = received;
    write!(f, "RECV proto>UDP flow>{flow} seq>{sequence} ")?;
    write!(f, "src>{}/{} ", source.ip(), source.port())?;
    write!(f, "dst>{}/{} ", destination.ip(), destination.port())?;
    match sent_ns {
        Some(sent_ns) => write!(f, "sent>{} ", OfDay(*sent_ns))?,
        None => write!(f, "sent>{NOT_SENT} ")?,
    }
    write!(f, "size>{size} ")?;
    if let Some(ttl) = ttl {
        write!(f, "ttl>{ttl} ")?;
    }
    f.write_str("gps>INVALID,999.000000,999.000000,4294966297 ")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::super::tests::any_received;
    use super::*;

    /// 2026-11-20 00:00 UTC.
    const DAY_NS: u64 = 1_795_132_800 * SECOND_NS;
    const NOON_NS: u64 = DAY_NS + 43_200 * SECOND_NS;

    const fn time(h: u64, m: u64, s: u64, us: u64) -> u64 {
        DAY_NS + ((h * 60 + m) * 60 + s) * SECOND_NS + us * 1000
    }

    /// Lines of the log that MGEN 5.02b wrote of messages from MGEN, on loopback.
    const LOG: [&str; 5] = [
        "15:41:49.503181 START Mgen Version 5.02b",
        "15:41:49.503218 LISTEN proto>UDP port>5500",
        "15:41:50.500599 RECV proto>UDP flow>7 seq>0 src>127.0.0.1/4000 dst>127.0.0.1/5500 \
         sent>15:41:50.500392 size>64 gps>INVALID,999.000000,999.000000,4294966297 ",
        "15:41:51.009458 RECV proto>UDP flow>9 seq>0 src>127.0.0.1/4002 dst>127.0.0.1/5500 \
         sent>15:41:51.009383 size>100 host>0.0.0.0/4002 \
         gps>INVALID,999.000000,999.000000,4294966297 ",
        "15:41:55.496277 STOP",
    ];

    const RECEIVED: Received = Received {
        arrived_ns: time(15, 41, 50, 500_599),
        sent_ns: Some(time(15, 41, 50, 500_392)),
        flow: 7,
        sequence: 0,
        source: loopback(4000),
        destination: loopback(5500),
        size: 64,
        ttl: None,
    };

    const fn loopback(port: u16) -> std::net::SocketAddr {
        std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)
    }

    fn lines() -> [MgenLine; 5] {
        let with_host = Received {
            arrived_ns: time(15, 41, 51, 9_458),
            sent_ns: Some(time(15, 41, 51, 9_383)),
            flow: 9,
            source: loopback(4002),
            size: 100,
            ..RECEIVED
        };
        [
            MgenLine::Start { at_ns: time(15, 41, 49, 503_181) },
            MgenLine::Listen { at_ns: time(15, 41, 49, 503_218), port: 5500 },
            MgenLine::Receive(RECEIVED),
            MgenLine::Receive(with_host),
            MgenLine::Stop { at_ns: time(15, 41, 55, 496_277) },
        ]
    }

    #[test]
    fn mgen_s_own_log_is_read_and_written_as_mgen_does() {
        for (text, line) in LOG.iter().zip(lines()) {
            assert_eq!(MgenLine::parse(text, NOON_NS), Ok(Some(line)));
            // The sender's own address is not kept.
            assert_eq!(line.to_string(), text.replace("host>0.0.0.0/4002 ", ""));
        }
    }

    #[test]
    fn fields_of_newer_versions_are_read_and_other_events_are_passed_over() {
        let newer = "1795189310.500599 RECV proto>UDP flow>7 seq>0 src>127.0.0.1/4000 \
            dst>127.0.0.1/5500 sent>1795189310.500392 size>64 ttl>63 gps>INVALID,0,0,0 flags>0x08";
        let expected = MgenLine::Receive(Received { ttl: Some(63), ..RECEIVED });
        assert_eq!(MgenLine::parse(newer, 0), Ok(Some(expected)));
        assert!(expected.to_string().contains("size>64 ttl>63 gps>INVALID"));
        for other in ["SEND proto>UDP flow>7", "LISTEN proto>TCP port>1", "JOIN group>224.1.2.3"] {
            assert_eq!(MgenLine::parse(&format!("15:41:50.500392 {other}"), NOON_NS), Ok(None));
        }
    }

    #[test]
    fn an_ipv6_address_stands_there_without_brackets() {
        let source = (Ipv6Addr::LOCALHOST, 4003).into();
        let line = MgenLine::Receive(Received { source, ..RECEIVED });
        assert!(line.to_string().contains(" src>::1/4003 "));
        assert_eq!(MgenLine::parse(&line.to_string(), NOON_NS), Ok(Some(line)));
    }

    #[test]
    fn a_packet_sent_before_midnight_was_sent_the_day_before() {
        let sent_ns = Some(DAY_NS - 1000);
        let line = MgenLine::Receive(Received { arrived_ns: DAY_NS + 1000, sent_ns, ..RECEIVED });
        assert!(line.to_string().starts_with("00:00:00.000001 RECV "));
        assert_eq!(MgenLine::parse(&line.to_string(), DAY_NS - 5000), Ok(Some(line)));
    }

    #[test]
    fn a_line_that_lacks_a_field_is_refused_with_its_name() {
        for field in ["flow>", "seq>", "src>", "dst>", "sent>", "size>"] {
            for wrong in ["x>".to_string(), format!("{field}-")] {
                let refused = MgenLine::parse(&LOG[2].replace(field, &wrong), NOON_NS);
                assert_eq!(refused, Err(malformed(field)));
            }
        }
        for time in ["24:00:00.000000", "00:60:00.000000", "00:00:60.000000", "0:0", "", "x"] {
            let refused = MgenLine::parse(&format!("{time} STOP"), NOON_NS);
            assert_eq!(refused, Err(malformed("the time of the event")), "{time}");
        }
    }

    proptest! {
        #[test]
        fn every_line_written_is_read_back(received in any_received()) {
            let line = MgenLine::Receive(received);
            prop_assert_eq!(MgenLine::parse(&line.to_string(), received.arrived_ns), Ok(Some(line)));
        }
        #[test]
        fn any_text_is_a_line_or_refused(text: String, at in 0..LOG[2].len(), near_ns: u64) {
            let _ = MgenLine::parse(&text, near_ns);
            let _ = MgenLine::parse(&LOG[2].replace(&LOG[2][at..=at], &text), near_ns);
        }
    }
}
