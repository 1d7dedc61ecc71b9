//! A line of a multi-flow file: the options of ITGSend.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;

use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::size::Size;
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::codec::Codec;

use super::Protocol;
use super::application::{Model, SizeOf};
use super::distribution::{self, Gaps};
use super::sizes::SIZES;
use super::words::Words;
use crate::draft::Draft;
use crate::number::{Decimal, byte};
use crate::text::printable;
use crate::{Line, ScriptError};

/// What a line asks for. Defaults are those of ITGSend.
pub(super) struct Command {
    pub destination: IpAddr,
    pub source: Option<IpAddr>,
    pub destination_port: u16,
    pub source_port: Option<u16>,
    pub interface: Option<String>,
    pub protocol: Option<Protocol>,
    /// The header within the payload.
    pub codec: Option<Codec>,
    /// How many bytes the smallest packet has beyond what the header needs.
    pub raised: u64,
    pub tos: Option<u8>,
    pub ttl: Option<u8>,
    pub delay: Nanos,
    pub duration: Nanos,
    pub packets: Option<NonZeroU64>,
    pub kilobytes: Option<NonZeroU64>,
    pub gaps: Option<Gaps>,
    /// Milliseconds from a file.
    pub gaps_file: Option<String>,
    pub sizes: Option<SizeOf>,
    /// Bytes from a file.
    pub sizes_file: Option<String>,
    pub bursts: Option<(Duration, Duration)>,
    pub content: Option<String>,
    /// It waits for its times by polling the clock.
    pub polls: bool,
    /// Packets are sent back, so that round trips are measured.
    pub sends_back: bool,
    /// Small segments do not wait for acknowledgments.
    pub no_delay: bool,
}

/// What lines ask for that holds for all of them.
#[derive(Default)]
pub(super) struct Run {
    /// Where the seed was said first.
    pub seed: Option<Line>,
    /// Where polling was asked for first.
    pub polls: Option<Line>,
    /// Whether a line does not ask for it.
    pub sleeps: bool,
}

impl Default for Command {
    fn default() -> Self {
        Command {
            destination: Ipv4Addr::LOCALHOST.into(),
            source: None,
            destination_port: 8999,
            source_port: None,
            interface: None,
            protocol: None,
            codec: Some(Codec::DitgStandard),
            raised: 0,
            tos: None,
            ttl: None,
            delay: Nanos::ZERO,
            duration: Nanos::from_millis(10_000),
            packets: None,
            kilobytes: None,
            gaps: None,
            gaps_file: None,
            sizes: None,
            sizes_file: None,
            bursts: None,
            content: None,
            polls: false,
            sends_back: false,
            no_delay: false,
        }
    }
}

/// What `-T UDP` and `-T TCP` add to the smallest packet of ITGSend 2.8.1, until a `-p 1` or `-p 2` comes; measured.
const RAISED_BY_PROTOCOL: u64 = 4;

/// What an option takes that is left out.
#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    One,
    /// At most this number of words, if they are there.
    UpTo(u8),
}

const NO_SIGNALS: &str = "a scenario agrees on nothing with ITGRecv, and Wirebeat's own receiver measures; 'wirebeat load --ditg HOST' does";
const NO_LOG: &str = "Wirebeat's report takes the place of D-ITG's logs";

const NO_MODEM: &str = "no modem line is raised";

const LEFT_OUT: &[(&str, Takes, &str)] = &[
    ("-l", Takes::UpTo(1), NO_LOG),
    ("-x", Takes::UpTo(1), NO_LOG),
    ("-L", Takes::UpTo(2), NO_LOG),
    ("-X", Takes::UpTo(2), NO_LOG),
    ("-q", Takes::UpTo(1), NO_LOG),
    ("-Sda", Takes::One, NO_SIGNALS),
    ("-Sdp", Takes::One, NO_SIGNALS),
    ("-Ssa", Takes::One, NO_SIGNALS),
    ("-Ssp", Takes::One, NO_SIGNALS),
    ("-Si", Takes::One, NO_SIGNALS),
    ("-H", Takes::Nothing, NO_SIGNALS),
    ("-P", Takes::UpTo(1), "it is for Windows"),
    ("-sk", Takes::One, NO_MODEM),
    ("-rk", Takes::One, NO_MODEM),
];

/// Whether a line may begin with this option.
pub(super) fn is_option(word: &str) -> bool {
    const READ: [&str; 40] = [
        "-a", "-sa", "-rp", "-sp", "-i", "-T", "-p", "-b", "-f", "-d", "-t", "-z", "-k", "-m",
        "-j", "-s", "-poll", "-C", "-U", "-E", "-N", "-O", "-V", "-Y", "-G", "-W", "-Ft", "-Fs",
        "-Fp", "-B", "-D", "-c", "-u", "-e", "-n", "-o", "-v", "-y", "-g", "-w",
    ];
    READ.contains(&word) || LEFT_OUT.iter().any(|(name, _, _)| *name == word)
}

/// Reads a line.
pub(super) fn read(
    draft: &mut Draft<'_>,
    words: &mut Words<'_>,
    run: &mut Run,
) -> Result<Command, ScriptError> {
    let mut command = Command::default();
    while let Some(option) = words.option() {
        if let Some(model) = Model::find(option) {
            command.model(draft, words, option, model)?;
            continue;
        }
        match option {
            "-m" => {
                let known = |word: &str| {
                    let meters = [("owdm", false), ("rttm", true)];
                    let meter = meters.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
                    meter.map(|(_, back)| *back)
                };
                command.sends_back = words.value("owdm or rttm", known)?;
            }
            "-j" => {
                let known = |word: &str| ["0", "1"].contains(&word).then_some(word == "1");
                if !words.value("0 or 1", known)? {
                    let why = "what is late is made up for, as with -j 1";
                    draft.leave_out(words.line(), "-j 0", why);
                }
            }
            "-s" => seed(draft, words, run)?,
            "-D" => command.no_delay = true,
            "-poll" => {
                draft.scenario.run.wait = wirebeat_traffic::scenario::WaitChoice::Spin;
                command.polls = true;
            }
            _ => match LEFT_OUT.iter().find(|(name, _, _)| *name == option) {
                Some((_, takes, why)) => leave_out(draft, words, option, *takes, why)?,
                None => command.option(draft, words, option)?,
            },
        }
    }
    Ok(command)
}

/// The first seed is that of the scenario.
fn seed(draft: &mut Draft<'_>, words: &mut Words<'_>, run: &mut Run) -> Result<(), ScriptError> {
    let read = |word: &str| Decimal::parse(word).map(Decimal::to_f64);
    let known = |word: &str| {
        let seed = read(word).filter(|seed| *seed < 1.0 && *seed > 0.0);
        seed.map(|seed| (word.to_owned(), (seed * 1e9).round() as u64))
    };
    let (word, seed) = words.value("a seed between 0 and 1", known)?;
    match &run.seed {
        None => {
            draft.scenario.seed = seed;
            run.seed = Some(words.line().clone());
        }
        Some(first) if draft.scenario.seed != seed => {
            let why = format!("a scenario has one seed; that of {first} holds");
            draft.leave_out(words.line(), &format!("-s {word}"), why);
        }
        Some(_) => {}
    }
    Ok(())
}

fn leave_out(
    draft: &mut Draft<'_>,
    words: &mut Words<'_>,
    option: &str,
    takes: Takes,
    why: &str,
) -> Result<(), ScriptError> {
    let mut what = option.to_owned();
    let most = match takes {
        Takes::Nothing => 0,
        Takes::One => {
            what = format!("{what} {}", words.next("its value")?);
            0
        }
        Takes::UpTo(most) => most,
    };
    for _ in 0..most {
        let Some(word) = words.optional() else { break };
        what = format!("{what} {word}");
    }
    draft.leave_out(words.line(), &what, why);
    Ok(())
}

impl Command {
    fn option(
        &mut self,
        draft: &mut Draft<'_>,
        words: &mut Words<'_>,
        option: &str,
    ) -> Result<(), ScriptError> {
        let address = "an IP address (names are not looked up)";
        let port = |word: &str| word.parse::<u16>().ok().filter(|port| *port > 0);
        let whole = |word: &str| word.parse::<NonZeroU64>().ok();
        let ms = |word: &str| word.parse().ok().map(Nanos::from_millis);
        match option {
            "-a" => {
                let known =
                    |word: &str| word.parse().ok().filter(|to: &IpAddr| !to.is_unspecified());
                self.destination = words.value(address, known)?;
            }
            "-sa" => self.source = Some(words.value(address, |word| word.parse().ok())?),
            "-rp" => self.destination_port = words.value("a port", port)?,
            "-sp" => self.source_port = Some(words.value("a port", port)?),
            "-i" => self.interface = Some(words.next("the name of an interface")?.to_owned()),
            "-T" => {
                let protocol = protocol(words)?;
                if matches!(protocol, Protocol::Udp | Protocol::Tcp) {
                    self.raised += RAISED_BY_PROTOCOL;
                }
                self.protocol = Some(protocol);
            }
            "-p" => {
                self.codec = words.value("0, 1 or 2", codec)?;
                if self.codec != Some(Codec::DitgStandard) {
                    self.raised = 0;
                }
            }
            "-b" => self.tos = Some(words.value("a byte, 0 to 255", byte)?),
            "-f" => {
                self.ttl = Some(
                    words.value("a TTL of 1 to 255", |word| byte(word).filter(|ttl| *ttl > 0))?,
                );
            }
            "-d" => self.delay = words.value("a time in milliseconds", ms)?,
            "-t" => {
                let time = |word: &str| ms(word).filter(|time| *time > Nanos::ZERO);
                self.duration = words.value("a time in milliseconds above 0", time)?;
            }
            "-z" => self.packets = Some(words.value("a number of packets", whole)?),
            "-k" => self.kilobytes = Some(words.value("a number of KBytes", whole)?),
            "-Ft" => self.gaps_file = Some(words.next("the name of a file")?.to_owned()),
            "-Fs" => self.sizes_file = Some(words.next("the name of a file")?.to_owned()),
            "-Fp" => self.content = Some(words.next("the name of a file")?.to_owned()),
            "-B" => {
                let ((on, nearly_on), (off, nearly_off)) =
                    (distribution::duration(words)?, distribution::duration(words)?);
                if let Some(why) = nearly_on.or(nearly_off) {
                    draft.leave_out(words.line(), "-B", why);
                }
                self.bursts = Some((on, off));
            }
            "-c" => {
                let length = |word: &str| SIZES.length(word.parse().ok()?);
                let length = words.value(&format!("a size of {SIZES}"), length)?;
                self.sizes = Some(SizeOf::Written(Size::Fixed(length)));
            }
            "-u" | "-e" | "-n" | "-o" | "-v" | "-y" | "-g" | "-w" => {
                self.sizes = Some(SizeOf::Drawn(
                    distribution::sizes(letter(option), words)?,
                    option.to_owned(),
                ));
            }
            "-C" | "-U" | "-E" | "-N" | "-O" | "-V" | "-Y" | "-G" | "-W" => {
                let gaps = distribution::gaps(letter(option), words)?;
                if let Some(why) = gaps.nearly {
                    draft.leave_out(words.line(), option, why);
                }
                self.gaps = Some(gaps);
            }
            other => {
                let why = fault!("it is not an option of ITGSend"; "see 'ITGSend -h'");
                return Err(words.line().wrong(why.at(printable(other))));
            }
        }
        Ok(())
    }

    fn model(
        &mut self,
        draft: &mut Draft<'_>,
        words: &mut Words<'_>,
        name: &str,
        model: Model,
    ) -> Result<(), ScriptError> {
        let times = self.gaps.take().is_some() | self.gaps_file.take().is_some();
        let sizes = self.sizes.take().is_some() | self.sizes_file.take().is_some();
        if times || sizes {
            let why = "the model has times and sizes of its own; as in ITGSend, those before it do not hold, and \
                       those behind it do";
            draft.leave_out(words.line(), name, why);
        }
        let traffic = model.read(words)?;
        if let Some(why) = traffic.gaps.nearly {
            draft.leave_out(words.line(), name, why);
        }
        if let Some(protocol) = traffic.protocol {
            if self.protocol.is_some_and(|written| written != protocol) {
                draft.leave_out(words.line(), "-T", "the model has a protocol of its own");
            }
            self.protocol = Some(protocol);
        }
        (self.gaps, self.sizes) = (Some(traffic.gaps), Some(traffic.size));
        Ok(())
    }
}

fn letter(option: &str) -> char {
    option.chars().nth(1).unwrap_or('C')
}

/// `0`: with number and time; `1`: with number; `2`: none.
fn codec(word: &str) -> Option<Option<Codec>> {
    match word {
        "0" => Some(Some(Codec::DitgStandard)),
        "1" => Some(Some(Codec::DitgShort)),
        "2" => Some(None),
        _ => None,
    }
}

fn protocol(words: &mut Words<'_>) -> Result<Protocol, ScriptError> {
    let word = words.next("a protocol")?.to_ascii_uppercase();
    Ok(match word.as_str() {
        "UDP" => Protocol::Udp,
        "TCP" => Protocol::Tcp,
        "DCCP" => Protocol::Dccp,
        "ICMP" => match words.optional() {
            None => Protocol::Icmp(None),
            Some(kind) => Protocol::Icmp(Some(kind.parse().map_err(|_| {
                words.wrong(format!("'{}' is not a type of ICMP, 0 to 255", printable(kind)))
            })?)),
        },
        "SCTP" => {
            let number = |word: &str| word.parse::<u16>().ok();
            words.value("the number of an association", number)?;
            words.value("a number of streams", number)?;
            Protocol::Sctp
        }
        other => {
            let why = fault!(
                "'{}' is not a protocol", printable(other);
                "write UDP, TCP, ICMP, SCTP or DCCP"
            );
            return Err(words.wrong(why));
        }
    })
}
