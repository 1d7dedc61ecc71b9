//! Values in words: how fields, distributions, sizes, paces and rates of a scenario are said.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use serde_json::Value;
use wirebeat_traffic::compile::anatomy::{Content, FieldInfo, Sequence};
use wirebeat_traffic::distribution::Distribution;
use wirebeat_traffic::program::Pace;
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::dscp::Dscp;
use wirebeat_traffic::scenario::pattern::Per;
use wirebeat_traffic::scenario::session::in_sessions_per_second;
use wirebeat_traffic::scenario::size::Of;
use wirebeat_traffic::scenario::{Departures, FlowRate, FlowSpec, Replay, Size};
use wirebeat_units::{Factor, Nanos, human};

/// The most values of a list that are said.
const LISTED: usize = 8;

/// What can be written in a scenario, without braces and quotes: `shape 2, scale 5us`.
pub fn written(value: &impl Serialize) -> String {
    serde_json::to_value(value).map_or(String::new(), |value| flat(&value, 0))
}

fn flat(value: &Value, level: usize) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let mut values: Vec<String> =
                values.iter().map(|value| flat(value, level + 1)).collect();
            shorten(&mut values);
            format!("[{}]", values.join(", "))
        }
        Value::Object(keys) => {
            let mut keys: Vec<String> = keys
                .iter()
                .map(|(key, value)| format!("{key} {}", flat(value, level + 1)))
                .collect();
            shorten(&mut keys);
            match (level, keys.len()) {
                (0, _) | (_, 1) => keys.join(", "),
                _ => format!("({})", keys.join(", ")),
            }
        }
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// Says of long lists how long they are.
fn shorten(values: &mut Vec<String>) {
    let more = values.len().saturating_sub(LISTED);
    if more > 0 {
        values.truncate(LISTED);
        values.push(format!("and {more} more"));
    }
}

/// How the frames of `flow` follow one another, as `pace` has it.
pub fn pace(flow: &FlowSpec, pace: &Pace) -> String {
    let burst = flow.burst.get();
    let what = match burst {
        1 => "a frame".to_owned(),
        burst => format!("a burst of {burst} frames"),
    };
    let mean = pace.mean_rate().filter(|rate| *rate > 0.0);
    let every = |rate: f64| human::time(f64::from(burst) / rate);
    match pace {
        Pace::Unlimited => "as fast as the engine can".to_owned(),
        Pace::Silent => "paused".to_owned(),
        Pace::Recorded { .. } => match &flow.replay {
            Some(replay) => replayed(replay),
            None => "as it was recorded".to_owned(),
        },
        Pace::Constant(rate) => {
            format!("constant: {what} every {}", every(rate.per_second() / 1e9))
        }
        Pace::Trace(gaps) => {
            format!(
                "{}: {} times, and again from the first",
                departures(&flow.departures),
                gaps.len()
            )
        }
        Pace::Profile(_) => match flow.departures {
            Departures::Constant => "as the rate says".to_owned(),
            _ => format!("{}, about what the rate says", departures(&flow.departures)),
        },
        _ => match mean {
            Some(rate) => {
                format!("{}; {what} every {} on average", departures(&flow.departures), every(rate))
            }
            None => format!("{}, without a mean", departures(&flow.departures)),
        },
    }
}

fn replayed(replay: &Replay) -> String {
    let names = replay.names().join("', '");
    let what = if replay.is_capture() { "frames" } else { "records" };
    let times = match (replay.tight_loop, replay.speed) {
        (Some(Nanos::ZERO), _) => "as fast as the engine can".to_owned(),
        (Some(every), _) => format!("one every {every}"),
        (None, Factor::ONE) => "at their own times".to_owned(),
        (None, speed) => format!("at their own times, {speed} as fast"),
    };
    let often = match replay.times.get() {
        1 => String::new(),
        times => format!(", {times} times over"),
    };
    let Some(copies) = &replay.copies else {
        return format!("the {what} of '{names}' {times}{often}");
    };
    let starts = match in_sessions_per_second(&copies.rate) {
        Some(rate) if copies.multiply == Factor::ONE => format!("{rate} of them start"),
        Some(rate) => format!("{} times {rate} of them start", copies.multiply),
        None => "they start".to_owned(),
    };
    let how = departures(&copies.departures);
    format!("copies of the {what} of '{names}', each {times}; {starts}, {how}")
}

/// How the times between frames vary.
pub fn departures(spec: &Departures) -> String {
    match spec {
        Departures::Constant => "constant".to_owned(),
        Departures::Jitter(jitter) => {
            format!("each frame up to {jitter} before or after its time at a constant rate")
        }
        Departures::OnOff(on_off) => {
            let pause = match (&on_off.off, &on_off.every) {
                (Some(off), _) => format!("off for {}", duration(off)),
                (_, Some(every)) => format!("from one to the next {}", duration(every)),
                _ => String::new(),
            };
            let within = departures(&on_off.departures);
            format!("bursts: on for {}, {pause}; within a burst {within}", duration(&on_off.on))
        }
        Departures::Trace(file) => format!("as in the file '{file}'"),
        Departures::Capture(file) => format!("as in the capture '{file}'"),
        Departures::Poisson(gaps) => {
            let gaps = Distribution::Exponential(gaps.clone());
            format!("a Poisson process: gaps {}", distribution(gaps.name(), &gaps))
        }
        Departures::Drawn(drawn) => {
            let bounds = [("at least", drawn.min), ("at most", drawn.max)];
            let bounds =
                bounds.iter().filter_map(|(word, time)| Some(format!("{word} {}", (*time)?)));
            let distribution = distribution(drawn.distribution.name(), &drawn.distribution);
            [distribution].into_iter().chain(bounds).collect::<Vec<_>>().join(", ")
        }
    }
}

/// How long, or how that varies.
pub fn duration(time: &Duration) -> String {
    match time {
        Duration::Fixed(time) => time.to_string(),
        Duration::Drawn(drawn) => {
            let distribution = distribution(drawn.name(), drawn);
            match drawn.mean().filter(|_| !distribution.contains("mean")) {
                Some(mean) => {
                    format!("a time drawn from {distribution} with a mean of {}", human::time(mean))
                }
                None => format!("a time drawn from {distribution}"),
            }
        }
    }
}

/// The name of a distribution, and its parameters where it has some.
pub fn distribution(name: &str, distribution: &impl Serialize) -> String {
    let parameters = match serde_json::to_value(distribution) {
        Ok(Value::Object(mut keys)) => keys.remove(name).map(|value| flat(&value, 0)),
        _ => None,
    };
    match parameters.filter(|text| !text.is_empty()) {
        Some(parameters) => format!("{name} ({parameters})"),
        None => name.to_owned(),
    }
}

/// How a rate is written, in words.
pub fn rate(rate: &FlowRate) -> String {
    match rate {
        FlowRate::Fixed(rate) => rate.to_string(),
        FlowRate::Steps(steps) => {
            let mut words: Vec<String> =
                steps.rates.iter().map(|(time, rate)| format!("{rate} from {time} on")).collect();
            shorten(&mut words);
            match steps.every {
                Some(every) => format!("{}, and again every {every}", words.join(", ")),
                None => words.join(", "),
            }
        }
        FlowRate::Ramp(ramp) => {
            let then = match ramp.every {
                Some(every) => format!("again every {every}"),
                None => format!("then {}", ramp.to),
            };
            format!("from {} to {} over {}, {then}", ramp.from, ramp.to, ramp.over)
        }
        FlowRate::Sine(sine) => format!(
            "a sine about {}, {} up and down, with a period of {}",
            sine.mean, sine.amplitude, sine.period
        ),
    }
}

/// How sizes are chosen.
pub fn size(size: Option<&Size>) -> String {
    match size {
        None => "the shortest that holds the headers and the probe".to_owned(),
        Some(Size::Fixed(length)) => format!("always {length}"),
        Some(Size::Mix(mix)) => {
            let total: u64 = mix.values().map(|weight| u64::from(*weight)).sum();
            let mut words: Vec<String> = (mix.iter())
                .map(|(length, weight)| {
                    format!("{length} ({})", human::share((*weight).into(), total))
                })
                .collect();
            shorten(&mut words);
            format!("drawn: {}", words.join(", "))
        }
        Some(Size::List(list)) => {
            let mut words: Vec<String> = list.iter().map(ToString::to_string).collect();
            shorten(&mut words);
            format!("in turn {}", words.join(", "))
        }
        Some(Size::File(file)) => format!("in turn those of the file '{file}'"),
        Some(Size::Capture(file)) => format!("in turn those of the capture '{file}'"),
        Some(Size::Drawn(drawn, of)) => {
            let of = if *of == Of::Payload { " of the payload" } else { "" };
            format!("drawn{of}: {}", distribution(drawn.distribution.name(), &drawn.distribution))
        }
    }
}

/// What a field holds in a frame.
pub fn value(field: &FieldInfo, frame: &[u8]) -> String {
    let value = field.value(frame);
    let said = number(field, value);
    match field.content {
        Content::Checksum { right: false } => format!("{said} (wrong on purpose)"),
        Content::Count => format!("{said} (counts the frames)"),
        _ => said,
    }
}

fn number(field: &FieldInfo, value: u128) -> String {
    match (field.header, field.name, field.bits) {
        (_, "source" | "destination" | "sender-mac" | "target-mac", 48) => {
            let [_, _, bytes @ ..] = (value as u64).to_be_bytes();
            bytes.map(|byte| format!("{byte:02x}")).join(":")
        }
        (_, "source" | "destination" | "sender" | "target" | "group", 32) => {
            Ipv4Addr::from(value as u32).to_string()
        }
        (_, "source" | "destination" | "segment", 128) => Ipv6Addr::from(value).to_string(),
        ("ethernet" | "vlan", "type", 16) | ("gre", "protocol", 16) | (_, "protocol-type", 16) => {
            named(format!("0x{value:04x}"), ether_type(value))
        }
        (_, "protocol" | "next-header", 8) => named(value.to_string(), protocol(value)),
        (_, "dscp", 6) => {
            let name = value.to_string().parse::<Dscp>().map(|dscp| dscp.to_string());
            let name = name.ok().filter(|name| name.parse::<u8>().is_err());
            named(value.to_string(), name.as_deref())
        }
        ("ipv4", "header-length", _) | ("tcp" | "dccp", "data-offset", _) => {
            named(value.to_string(), Some(&format!("{} bytes", value * 4)))
        }
        ("tcp", "flags", 9) => named(format!("0x{value:03x}"), Some(&tcp_flags(value))),
        (_, "checksum", bits) => format!("0x{value:0width$x}", width = bits as usize / 4),
        (_, "options" | "bytes", bits) => format!("0x{value:0width$x}", width = bits as usize / 4),
        _ => value.to_string(),
    }
}

fn named(number: String, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{number} ({name})"),
        None => number,
    }
}

/// IEEE 802 numbers (IANA).
fn ether_type(number: u128) -> Option<&'static str> {
    Some(match number {
        0x0800 => "IPv4",
        0x0806 => "ARP",
        0x86dd => "IPv6",
        0x8100 => "VLAN",
        0x88a8 => "provider VLAN",
        0x8847 => "MPLS",
        0x6558 => "Ethernet",
        0x88b5 => "local experiment",
        _ => return None,
    })
}

/// Protocol numbers (IANA).
fn protocol(number: u128) -> Option<&'static str> {
    Some(match number {
        0 => "hop-by-hop options",
        1 => "ICMP",
        2 => "IGMP",
        4 => "IPv4",
        6 => "TCP",
        17 => "UDP",
        33 => "DCCP",
        41 => "IPv6",
        43 => "routing",
        44 => "fragment",
        47 => "GRE",
        58 => "ICMPv6",
        59 => "nothing",
        60 => "destination options",
        132 => "SCTP",
        137 => "MPLS",
        _ => return None,
    })
}

/// RFC 9293 §3.1, RFC 3168, RFC 9768.
fn tcp_flags(bits: u128) -> String {
    const NAMES: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ae"];
    let set = NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("+") }
}

/// How a changing field goes on; `None` for one that stays as it is.
pub fn pattern(field: &FieldInfo) -> Option<String> {
    let Content::Changing { pattern, per, period } = &field.content else { return None };
    let with = match per {
        Per::Frame => "frame",
        Per::SubFlow => "sub-flow",
    };
    let values = match period {
        Some(values) => format!("{values} values"),
        None => "never the same order again".to_owned(),
    };
    Some(match pattern {
        Sequence::List(list) => {
            let mut list: Vec<String> = list.iter().map(|value| number(field, *value)).collect();
            shorten(&mut list);
            format!("for each {with} the next of {}", list.join(", "))
        }
        Sequence::Step { from, by } => {
            let (sign, by) =
                if *by < 0 { ('-', by.unsigned_abs()) } else { ('+', by.unsigned_abs()) };
            format!("{sign}{by} for each {with}: {values} from {} on", number(field, *from))
        }
        Sequence::Random { low, high, mask } => {
            let all = match field.bits {
                128.. => u128::MAX,
                bits => (1 << bits) - 1,
            };
            let masked = if mask & all == all {
                String::new()
            } else {
                format!(", only the bits of 0x{mask:x}")
            };
            format!(
                "drawn for each {with} between {} and {}{masked}",
                number(field, *low),
                number(field, *high)
            )
        }
    })
}
