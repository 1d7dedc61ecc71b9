//! The values of flags that are not units: how they are written, and what is said when they are wrong.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use wirebeat_import::Dialect;
use wirebeat_run::{Bins, Codec, LogForm};
use wirebeat_traffic::engines::{Ability, Engine};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::hex::Hex;
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::header::udp::DISCARD;
use wirebeat_traffic::scenario::session::DataSize;
use wirebeat_traffic::scenario::{Departures, FlowRate, Size, yaml};
use wirebeat_traffic::scenario::{
    EngineChoice, LateChoice, PriorityChoice, TimestampsChoice, WaitChoice, XdpModeChoice,
};
use wirebeat_units::{Fault, Nanos, Rate, fault};

/// A word, what it means, and its value.
type Choice<T> = (&'static str, &'static str, T);

const WAITS: [Choice<WaitChoice>; 3] = [
    ("spin", "Read the clock until it is time: most exact, one core busy", WaitChoice::Spin),
    ("hybrid", "Sleep until shortly before the deadline, then spin", WaitChoice::Hybrid),
    ("sleep", "Sleep: cheapest", WaitChoice::Sleep),
];

const TIMESTAMPS: [Choice<TimestampsChoice>; 2] = [
    (
        "software",
        "The system, when a frame enters its stack or is handed over",
        TimestampsChoice::Software,
    ),
    (
        "hardware",
        "The card, by its own clock, where it can; with the engines 'packet' and 'socket'",
        TimestampsChoice::Hardware,
    ),
];

const XDP_MODES: [Choice<XdpModeChoice>; 4] = [
    (
        "auto",
        "As the driver offers: zero copy, else copy; in the stack where it runs no programs",
        XdpModeChoice::Auto,
    ),
    ("zero-copy", "The driver sends and receives without a copy", XdpModeChoice::ZeroCopy),
    ("copy", "The driver runs the program, and the kernel copies", XdpModeChoice::Copy),
    ("generic", "The stack runs the program, with any driver", XdpModeChoice::Generic),
];

const PRIORITIES: [Choice<PriorityChoice>; 3] = [
    ("normal", "As the program was started", PriorityChoice::Normal),
    (
        "high",
        "The heaviest weight (nice -20) and a short slice, where permitted",
        PriorityChoice::High,
    ),
    (
        "realtime",
        "SCHED_FIFO, up to 90 % of the time; not where deadlines are awaited by 'spin'",
        PriorityChoice::Realtime,
    ),
];

const LATES: [Choice<LateChoice>; 2] = [
    ("send", "Sent late, and its lateness recorded", LateChoice::Send),
    ("drop", "Not sent once it is later than --drift, and counted as expired", LateChoice::Drop),
];

/// What the flag of the engine says of an automatic choice.
const AUTO: &str = "The fastest that this machine and the flows allow; the report names it";

/// Reads an engine to send by: those that run on the clock of the host.
pub fn engine() -> impl TypedValueParser<Value = EngineChoice> {
    engines(|_| true)
}

/// Reads an engine to receive by. One that receives nothing is not offered; who asks for it is told so by the run.
pub fn receiving_engine() -> impl TypedValueParser<Value = EngineChoice> {
    engines(|engine| engine.can(Ability::Receive))
}

/// Reads an engine that our own TCP goes over.
pub fn session_engine() -> impl TypedValueParser<Value = EngineChoice> {
    let real = || {
        let carries = |engine: &Engine| !engine.is_virtual() && engine.can(Ability::CarrySessions);
        Engine::ALL.iter().copied().filter(carries)
    };
    let word = |engine: Engine| PossibleValue::new(engine.name()).help(engine.row().about);
    PossibleValuesParser::new(real().map(word).collect::<Vec<_>>()).map(move |given| {
        let found = real().find(|engine| engine.name() == given);
        found.map_or(EngineChoice::Auto, EngineChoice::from)
    })
}

fn engines(offered: fn(Engine) -> bool) -> impl TypedValueParser<Value = EngineChoice> {
    let real = || Engine::ALL.iter().copied().filter(|engine| !engine.is_virtual());
    let automatic = PossibleValue::new(EngineChoice::Auto.name()).help(AUTO);
    let word = move |engine: Engine| {
        PossibleValue::new(engine.name()).help(engine.row().about).hide(!offered(engine))
    };
    let words: Vec<PossibleValue> = [automatic].into_iter().chain(real().map(word)).collect();
    PossibleValuesParser::new(words).map(move |given| {
        let found = real().find(|engine| engine.name() == given);
        found.map_or(EngineChoice::Auto, EngineChoice::from)
    })
}

/// Reads how deadlines are awaited.
pub fn wait() -> impl TypedValueParser<Value = WaitChoice> {
    choice(&WAITS)
}

/// Reads how threads compete for a CPU.
pub fn priority() -> impl TypedValueParser<Value = PriorityChoice> {
    choice(&PRIORITIES)
}

/// Reads who stamps frames.
pub fn timestamps() -> impl TypedValueParser<Value = TimestampsChoice> {
    choice(&TIMESTAMPS)
}

/// Reads how frames go between the driver and the engine.
pub fn xdp_mode() -> impl TypedValueParser<Value = XdpModeChoice> {
    choice(&XDP_MODES)
}

/// Reads what happens to late frames.
pub fn late() -> impl TypedValueParser<Value = LateChoice> {
    choice(&LATES)
}

/// Reads one of the words of `table`.
pub fn choice<T: Copy + Send + Sync>(
    table: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let words = table.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(words).try_map(|given| {
        let found = table.iter().find(|(word, _, _)| *word == given);
        found.map(|(_, _, value)| *value).ok_or("this word has no meaning")
    })
}

/// Where to send: an address, and a UDP port unless it is the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

impl FromStr for Target {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let somewhere = |target: Target| match target.address.is_unspecified() {
            true => Err(fault!(
                "{} stands for any address, and nothing can be sent there", target.address;
                "write that of the receiver, for example 10.0.0.2:9"
            )),
            false => Ok(target),
        };
        if let Ok(SocketAddr::V4(_) | SocketAddr::V6(_)) = text.parse::<SocketAddr>()
            && let Some((address, port)) = text.rsplit_once(':')
        {
            return somewhere(Target { address: ip(address)?, port: udp_port(port)? });
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return somewhere(Target { address, port: DISCARD });
        }
        // An address with something else behind it is a mistake about the port.
        if let Some((address, port)) = text.rsplit_once(':')
            && ip(address).is_ok()
        {
            udp_port(port)?;
        }
        Err(fault!(
            "'{text}' is not an IP address with a UDP port";
            "write for example 10.0.0.2:9 or [2001:db8::2]:9"
        ))
    }
}

/// Reads an IP address, in brackets or not.
pub fn ip(text: &str) -> Result<IpAddr, Fault> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(
        |_| fault!("'{text}' is not an IP address"; "write for example 10.0.0.1 or 2001:db8::1"),
    )
}

/// Reads a UDP port.
pub fn udp_port(text: &str) -> Result<u16, Fault> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(fault!("'{text}' is not a UDP port"; "write a number from 1 to 65535")),
    }
}

/// Reads a byte, in decimal or hexadecimal.
pub fn byte(text: &str) -> Result<u8, Fault> {
    let byte = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    byte.map_err(|_| fault!("'{text}' is not a number up to 255"; "write for example 64 or 0x40"))
}

/// Reads a count: a whole number that is not zero, or what `T` makes of it.
pub fn count<T: FromStr>(text: &str) -> Result<T, Fault> {
    text.parse().map_err(
        |_| fault!("'{text}' is not a count"; "write a whole number from 1 on, without a unit"),
    )
}

/// Reads a number of any kind, zero too.
pub fn number(text: &str) -> Result<u64, Fault> {
    text.parse().map_err(|_| fault!("'{text}' is not a whole number"; "write for example 7"))
}

/// Reads a number from one to another.
pub fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    let read = text.parse().ok().filter(|number| range.contains(number));
    read.ok_or_else(|| {
        fault!(
            "'{text}' is not possible here";
            "write a whole number from {} to {}", range.start(), range.end()
        )
    })
}

/// Reads a time that is longer than nothing.
pub fn time(text: &str) -> Result<Nanos, Fault> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err(fault!("'{text}' is zero"; "write for example 10s")),
        read => read.map_err(|error| error.fault()),
    }
}

/// Reads what fills the payload.
pub fn payload(text: &str) -> Result<Payload, Fault> {
    match text.split_once(':') {
        None if text == "zeros" => Ok(Payload::Zeros),
        Some(("hex", digits)) => digits.parse::<Hex>().map(Payload::Pattern),
        Some(("text", text)) => Ok(Payload::Text(text.to_owned())),
        _ => Err(fault!(
            "'{text}' is not a payload";
            "write zeros, hex:deadbeef, or text:followed by the text"
        )),
    }
}

/// Reads how the times between frames vary: a distribution that needs no parameters beside the rate.
pub fn departures(text: &str) -> Result<Departures, Fault> {
    word_or_yaml(text)
}

/// Reads how long frames are.
pub fn size(text: &str) -> Result<Size, Fault> {
    word_or_yaml(text)
}

/// Reads how fast a flow is.
pub fn rate(text: &str) -> Result<FlowRate, Fault> {
    match text.trim_start().starts_with('{') {
        true => yaml::value(text),
        false => text.parse::<Rate>().map(FlowRate::Fixed).map_err(|error| error.fault()),
    }
}

/// Reads how many bytes a message has.
pub fn data_size(text: &str) -> Result<DataSize, Fault> {
    word_or_yaml(text)
}

/// Reads a time, or how it varies.
pub fn duration(text: &str) -> Result<Duration, Fault> {
    match text.trim_start().starts_with('{') {
        true => yaml::value(text),
        false => text.parse::<Nanos>().map(Duration::Fixed).map_err(|error| error.fault()),
    }
}

/// Reads how many sessions start in a second.
pub fn session_rate(text: &str) -> Result<FlowRate, Fault> {
    rate(text).map_err(|fault| Fault { hint: None, ..fault }.or_hint("write for example 1000/s"))
}

/// What a scenario has in its place: a word, or a map in braces.
fn word_or_yaml<T: FromStr<Err = Fault> + DeserializeOwned>(text: &str) -> Result<T, Fault> {
    if text.trim_start().starts_with('{') { yaml::value(text) } else { text.parse() }
}

/// Reads whose script it is.
pub fn dialect(text: &str) -> Result<Dialect, Fault> {
    text.parse().map_err(|error: <Dialect as FromStr>::Err| error.fault())
}

/// Reads whose probe it is.
pub fn codec(text: &str) -> Result<Codec, Fault> {
    text.parse().map_err(|error: <Codec as FromStr>::Err| error.fault())
}

/// Reads the form of a log.
pub fn log_form(text: &str) -> Result<LogForm, Fault> {
    text.parse()
}

/// CPUs: "2,3" or "2-5".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(pub Vec<u16>);

/// The highest number of a CPU that can be written: no kernel has more (`NR_CPUS`).
const CPU_MAX: u16 = 8191;

impl FromStr for Cpus {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        numbers(text, CPU_MAX, "CPU").map(Cpus)
    }
}

/// Transmit queues: "1,3" or "0-3".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxQueues(pub Vec<u16>);

/// The highest number of a transmit queue that can be written: more than any card has.
const QUEUE_MAX: u16 = 4095;

impl FromStr for TxQueues {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        numbers(text, QUEUE_MAX, "transmit queue").map(TxQueues)
    }
}

/// Numbers up to `most` and ranges of them: "2,4-6".
fn numbers(text: &str, most: u16, what: &str) -> Result<Vec<u16>, Fault> {
    let wrong = |part: &str| {
        fault!(
            "'{part}' is not a {what}";
            "write numbers from 0 to {most}, for example 2, 2,3 or 2-5"
        )
    };
    let number = |part: &str, text: &str| match text.parse::<u16>() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(wrong(part)),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(part, first)?, number(part, last)?);
        if first > last {
            return Err(wrong(part));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// Reads bins: "100x1us".
pub fn bins(text: &str) -> Result<Bins, Fault> {
    let form = || fault!("'{text}' are no bins"; "write COUNTxWIDTH, for example 100x1us");
    let (count, width) = text.split_once('x').ok_or_else(form)?;
    let count = count.parse().map_err(|_| form())?;
    let width: Nanos = width.parse::<Nanos>()?;
    Bins::new(width, count).map_err(|error| error.fault())
}

/// The name of a host, or its address, and a TCP port unless it is the usual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    host: String,
    port: Option<u16>,
}

impl FromStr for HostPort {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            fault!(
                "'{text}' is not a host with a port";
                "write for example 192.0.2.7:5960, [2001:db8::7]:5960 or lab2:5960"
            )
        };
        let whole = |host: &str| HostPort { host: host.to_owned(), port: None };
        if let Ok(address) = ip(text) {
            return Ok(whole(&address.to_string()));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = match bracketed {
            Some(host) => host.parse::<IpAddr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '[', ']', '/', ' ']),
        };
        if !fits || port == Some(0) {
            return Err(wrong());
        }
        Ok(HostPort { port, ..whole(bracketed.unwrap_or(host)) })
    }
}

impl HostPort {
    /// The host's name, or its address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, where it is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Its address, `port` being the usual one. Asks the system for the address of a name.
    pub fn resolve(&self, port: u16) -> Result<SocketAddr, Fault> {
        use std::net::ToSocketAddrs;
        let mut found = (self.host.as_str(), self.port.unwrap_or(port))
            .to_socket_addrs()
            .map_err(|error| fault!("cannot find the host '{}': {error}", self.host))?;
        found.next().ok_or_else(|| fault!("the host '{}' has no address", self.host))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A share below 1, as a percentage.
pub fn share(text: &str) -> Result<f64, Fault> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number.filter(|number| (0.0..100.0).contains(number)) {
        Some(number) => Ok(number / 100.0),
        None => Err(fault!("'{text}' is not a share below 100 %"; "write for example 0.5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses_with_or_without_a_port() {
        let target = |text: &str| {
            text.parse::<Target>().map(|target| (target.address.to_string(), target.port))
        };
        for (text, address, port) in [
            ("10.0.0.2", "10.0.0.2", 9),
            ("10.0.0.2:5001", "10.0.0.2", 5001),
            ("2001:db8::2", "2001:db8::2", 9),
            ("[2001:db8::2]", "2001:db8::2", 9),
            ("[2001:db8::2]:5001", "2001:db8::2", 5001),
        ] {
            assert_eq!(target(text), Ok((address.to_owned(), port)), "{text}");
        }
        for text in ["10.0.0.2:0", "10.0.0.2:65536", "10.0.0.2:x"] {
            assert!(target(text).unwrap_err().to_string().contains("is not a UDP port"), "{text}");
        }
        for text in ["0.0.0.0", "::", "0.0.0.0:9", "[::]:9"] {
            assert!(
                target(text).unwrap_err().to_string().contains("stands for any address"),
                "{text}"
            );
        }
        for text in ["", "gateway", "10.0.0", "10.0.0.2.3:9", ":9"] {
            assert!(
                target(text).unwrap_err().to_string().contains("is not an IP address"),
                "{text}"
            );
        }
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        let cpus = |text: &str| text.parse::<Cpus>().map(|cpus| cpus.0);
        assert_eq!(cpus("2"), Ok(vec![2]));
        assert_eq!(cpus("3,2"), Ok(vec![3, 2]));
        assert_eq!(cpus("0-2,7"), Ok(vec![0, 1, 2, 7]));
        for text in ["", "a", "1,", "3-1", "-1", "8192", "0-65535"] {
            assert!(cpus(text).unwrap_err().to_string().contains("is not a CPU"), "{text}");
        }
    }

    #[test]
    fn bins_have_a_count_and_a_width() {
        assert_eq!(bins("100x1us"), Ok(Bins::new(Nanos::from_micros(1), 100).unwrap()));
        for text in ["100", "x1us", "100x1", "100x0ns", "0x1us", "70000x1us", "1.5x1us"] {
            assert!(bins(text).is_err(), "{text}");
        }
    }

    #[test]
    fn payloads_say_what_they_are() {
        assert_eq!(payload("zeros"), Ok(Payload::Zeros));
        assert_eq!(payload("text:a:b"), Ok(Payload::Text("a:b".to_owned())));
        assert_eq!(payload("hex:00ff"), Ok(Payload::Pattern("00ff".parse().unwrap())));
        for text in ["", "ones", "hex", "hex:0", "hex:zz", "zeros:1"] {
            assert!(payload(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_have_names_or_addresses() {
        let host = |text: &str| text.parse::<HostPort>().map(|host| (host.host, host.port));
        for (text, name, port) in [
            ("lab2", "lab2", None),
            ("lab2:5000", "lab2", Some(5000)),
            ("192.0.2.7:5000", "192.0.2.7", Some(5000)),
            ("2001:db8::7", "2001:db8::7", None),
            ("[2001:db8::7]:5000", "2001:db8::7", Some(5000)),
        ] {
            assert_eq!(host(text), Ok((name.to_owned(), port)), "{text}");
        }
        for text in ["", ":5000", "lab2:", "lab2:0", "lab2:99999", "[lab2]:1", "a b:1", "a:b:1"] {
            assert!(host(text).is_err(), "{text}");
        }
        let local: HostPort = "127.0.0.1".parse().unwrap();
        assert_eq!(local.resolve(80), Ok("127.0.0.1:80".parse().unwrap()));
    }

    #[test]
    fn small_numbers_are_bounded() {
        assert_eq!((byte("0xb8"), byte("255")), (Ok(184), Ok(255)));
        assert!(["256", "-1", "0x100", "", "b8"].iter().all(|text| byte(text).is_err()));
        assert!(["0", "-1", "65536", "1.5"].iter().all(|text| udp_port(text).is_err()));
        assert!(["0", "0s", "5", "-1s"].iter().all(|text| time(text).is_err()));
        assert!(count::<std::num::NonZeroU32>("0").is_err());
    }
}
