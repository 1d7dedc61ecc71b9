//! What a flow is: flags that hold for every flow, and the same words as keys of one `--flow`.
//!
//! Both are one definition. The text of a `--flow` is turned into flags and read by them, so that a key
//! means what its flag means, and a mistake in it is told in the same words.

use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, Parser};
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::{Departures, FlowRate, Size};
use wirebeat_units::{Fault, fault};

use crate::destination::Destination;
use crate::packet::PacketArgs;
use crate::usage;
use crate::values;

/// How a flow is sent and what its packets are.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Flow")]
pub struct FlowArgs {
    /// Where to send: a host or its address, and a UDP port unless it is 9, the discard service
    #[arg(long, value_name = "HOST[:PORT]")]
    pub to: Option<Destination>,
    /// How fast: 100kpps, 2Gbps, 50% of the link, or unlimited, as fast as the engine can
    ///
    /// Frames per second (100kpps, 1/10s); bits per second, counted in the frame with its FCS (2Gbps), on
    /// the line with preamble and gap (2Gbps@line) or in the payload (2Gbps@payload); or a share of the
    /// line rate (50%). One that changes with time is written as in a scenario:
    /// '{ ramp: { from: 1kpps, to: 10kpps, over: 10s } }'.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub rate: Option<FlowRate>,
    /// How the times between frames vary: constant, poisson (exponential gaps) [default: constant]
    ///
    /// With parameters as in a scenario: '{ gamma: { shape: 2 } }', '{ jitter: 10% }'.
    #[arg(long, value_name = "HOW", value_parser = values::departures)]
    pub departures: Option<Departures>,
    /// Length of the frames, header and FCS included: from 64B on, or imix [default: the shortest]
    ///
    /// With @payload, the length of what follows the headers: 20B@payload. Sizes that vary are written as
    /// in a scenario: '{ mix: { 64B: 7, 1518B: 1 } }'.
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub size: Option<Size>,
    /// Send so many frames back to back; the pause after them keeps the rate [default: 1]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    pub burst: Option<NonZeroU32>,
    /// End the flow after so many frames
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU64>)]
    pub count: Option<NonZeroU64>,
    /// Leave out the 16-byte probe at the end of the payload: frames are counted, and not measured
    #[arg(long)]
    pub no_probe: bool,

    #[command(flatten)]
    pub packet: PacketArgs,
    /// What fills the payload: zeros, hex:deadbeef (repeated), or text:hello [default: zeros]
    #[arg(long, value_name = "CONTENT", value_parser = values::payload, help_heading = "Packet")]
    pub payload: Option<Payload>,
}

impl FlowArgs {
    /// These, and where they say nothing, `usual`.
    pub fn or(self, usual: &FlowArgs) -> FlowArgs {
        FlowArgs {
            to: self.to.or_else(|| usual.to.clone()),
            rate: self.rate.or_else(|| usual.rate.clone()),
            departures: self.departures.or_else(|| usual.departures.clone()),
            size: self.size.or_else(|| usual.size.clone()),
            burst: self.burst.or(usual.burst),
            count: self.count.or(usual.count),
            no_probe: self.no_probe || usual.no_probe,
            packet: self.packet.or(&usual.packet),
            payload: self.payload.or_else(|| usual.payload.clone()),
        }
    }
}

/// A flow of its own: `name=voice,rate=12500pps,size=214B`.
#[derive(Parser, Clone, Debug, PartialEq)]
#[command(disable_help_flag = true, no_binary_name = true)]
pub struct NamedFlow {
    /// Its name in the report
    #[arg(long)]
    pub name: Option<String>,
    /// What it says of itself.
    #[command(flatten)]
    pub flow: FlowArgs,
}

impl FromStr for NamedFlow {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let parts = split(text);
        if let Some(part) =
            parts.iter().find(|part| part.is_empty() || part.starts_with(['-', '=']))
        {
            return Err(fault!(
                "'{part}' is not a key with a value";
                "write for example name=voice,rate=12500pps,size=214B"
            ));
        }
        let flags = parts.iter().map(|part| format!("--{part}"));
        NamedFlow::try_parse_from(flags).map_err(|error| explain(&error))
    }
}

/// The parts between commas; a doubled comma is one of the text, and one in braces or brackets is too.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = text.chars().peekable();
    let mut depth = 0_usize;
    while let Some(letter) = letters.next() {
        let in_map = parts.last().is_some_and(|part| depth > 0 || part.ends_with('='));
        match letter {
            '{' | '[' if in_map => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if letter == ',' && depth == 0 && letters.next_if_eq(&',').is_none() {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts
}

/// A mistake in the words of flags, as one of keys.
fn explain(error: &clap::Error) -> Fault {
    let about = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let key = |flag: String| {
        let flag = flag.split([' ', '=']).next().unwrap_or_default().to_owned();
        flag.strip_prefix("--").map(str::to_owned).unwrap_or(flag)
    };
    let unknown = key(about(ContextKind::InvalidArg));
    match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::SuggestedArg) {
            Some(known) => {
                fault!("unknown key '{unknown}'"; "did you mean '{}'?", key(known.to_string()))
            }
            None => fault!("unknown key '{unknown}'"; "use one of {}", keys().join(", ")),
        },
        ErrorKind::TooManyValues => {
            fault!("the key '{unknown}' stands alone"; "leave out its value")
        }
        _ => {
            let as_keys = |text: &str| {
                keys()
                    .iter()
                    .fold(text.to_owned(), |text, key| text.replace(&format!("--{key}"), key))
            };
            usage::explain(error).fault().map(as_keys)
        }
    }
}

/// All keys.
fn keys() -> Vec<String> {
    let flags = NamedFlow::command();
    flags.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(text: &str) -> NamedFlow {
        text.parse().unwrap()
    }

    #[test]
    fn keys_are_the_flags() {
        let voice = flow("name=voice,rate=12500pps,size=214B,to=10.0.0.2:5004,dscp=ef,no-probe");
        assert_eq!(voice.name.as_deref(), Some("voice"));
        assert_eq!(voice.flow.rate, values::rate("12500pps").ok());
        assert_eq!(voice.flow.to, "10.0.0.2:5004".parse().ok());
        assert!(voice.flow.no_probe);
        let keys = keys();
        assert!(keys.starts_with(&["name", "to", "rate"].map(str::to_owned)), "{keys:?}");
    }

    #[test]
    fn a_doubled_comma_is_one_of_the_text() {
        let greeting = flow("payload=text:hello,, world,size=100B");
        assert_eq!(greeting.flow.payload, Some(Payload::Text("hello, world".to_owned())));
        assert_eq!(greeting.flow.size, "100B".parse().ok());
    }

    #[test]
    fn commas_in_braces_are_those_of_the_value() {
        let mixed = flow("name=a,size={ mix: { 64B: 7, 1518B: 1 } },burst=2");
        assert_eq!(mixed.flow.size, values::size("{ mix: { 64B: 7, 1518B: 1 } }").ok());
        assert!(mixed.flow.size.is_some() && mixed.flow.burst.is_some());
        assert_eq!(split("payload=text:{,a=1"), ["payload=text:{", "a=1"]);
    }

    #[test]
    fn mistakes_are_told_as_those_of_keys() {
        for (text, message) in [
            ("rat=5pps", "unknown key 'rat'; did you mean 'rate'?"),
            ("", "'' is not a key with a value; write for example"),
            ("rate=5pps,", "'' is not a key with a value; write for example"),
            ("--rate=5pps", "'--rate=5pps' is not a key with a value; write for example"),
            ("rate=5", "rate 5: '5' is not a rate: it has no unit; write for example"),
            ("rate", "rate: a value is missing; write rate <RATE>"),
            ("rate=1pps,rate=2pps", "rate is given twice; give it once"),
            ("dscp=ef,tos=1", "dscp and tos do not go together; leave one of them out"),
            ("no-probe=1", "the key 'no-probe' stands alone; leave out its value"),
        ] {
            let error = text.parse::<NamedFlow>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
        let unlike_any = "xyzzy=1".parse::<NamedFlow>().unwrap_err().to_string();
        assert!(unlike_any.contains("use one of name, to, rate"), "{unlike_any}");
    }

    #[test]
    fn a_flow_overrides_what_is_usual() {
        let usual = flow("rate=1kpps,size=100B,dscp=ef,no-probe").flow;
        let own = flow("rate=2kpps,tos=8").flow.or(&usual);
        assert_eq!(own.rate, values::rate("2kpps").ok());
        assert_eq!(own.size, usual.size);
        assert_eq!((own.packet.dscp, own.packet.tos), (None, Some(8)));
        assert!(own.no_probe);
        assert_eq!(FlowArgs::default().or(&usual), usual);
    }
}
