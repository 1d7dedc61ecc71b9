//! Scripts of other traffic generators become scenarios.
//!
//! One dialect is one file or folder, and one line of the table below. A dialect reads its script, works
//! out what traffic it asks for, and says it in Wirebeat's own language ([`wirebeat_traffic::scenario`]). What
//! the language cannot say is named with its line ([`LeftOut`]); what contradicts itself is an error. What
//! each dialect carries over is listed in `docs/scripts.md`.
//!
//! Nothing here opens files, sockets or clocks: the caller reads what a script includes, writes what a
//! scenario needs, and waits for a time of day. To add a dialect, write its module and add its line.

pub mod capture;
mod datagram;
mod ditg;
mod draft;
mod error;
mod keyword;
mod mgen;
mod number;
mod pace;
mod pktgen;
mod rude;
mod session_flow;
mod text;
mod timeline;
mod trex;
mod warp17;

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::{Fault, Nanos, fault, into_fault};

pub use error::ScriptError;

use draft::Draft;

/// The longest script, and the most bytes of all files that it includes: as much as a scenario may have.
pub const MAX_BYTES: usize = wirebeat_traffic::scenario::yaml::MAX_BYTES;
/// The most entries of [`Converted::left_out`]; one more counts the rest.
pub const MAX_LEFT_OUT: usize = 10_000;
/// The most events of all flows of a script together: each may say anew what its packets are.
const MAX_EVENTS: usize = 200_000;

/// Makes the enum of the dialects and what is the same for all of them.
macro_rules! dialects {
    ($($(#[$doc:meta])* $name:literal $variant:ident $module:ident;)*) => {
        /// Whose script it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Dialect {
            $($(#[$doc])* $variant,)*
        }

        impl Dialect {
            /// All of them.
            pub const ALL: &'static [Dialect] = &[$(Dialect::$variant),*];

            /// The name that it is written with.
            pub const fn name(self) -> &'static str {
                match self { $(Dialect::$variant => $name,)* }
            }

            /// What a line without comment says about the dialect of its script.
            fn hint(self, line: &str) -> bool {
                match self { $(Dialect::$variant => $module::hint(line),)* }
            }

            fn read(self, draft: &mut Draft<'_>) -> Result<(), ScriptError> {
                match self { $(Dialect::$variant => $module::read(draft),)* }
            }
        }
    };
}

dialects! {
    /// A shell script for Linux' pktgen.
    "pktgen" Pktgen pktgen;
    /// A RUDE configuration.
    "rude" Rude rude;
    /// An MGEN 5 script.
    "mgen" Mgen mgen;
    /// A multi-flow file of D-ITG's ITGSend.
    "d-itg" Ditg ditg;
    /// A stateful profile of T-Rex, in YAML; or an advanced one, as JSON.
    "t-rex" Trex trex;
    /// A configuration of WARP17.
    "warp17" Warp17 warp17;
}

/// A word that names no dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct UnknownDialect {
    /// The word, cut to 64 characters.
    pub given: String,
}

impl UnknownDialect {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let UnknownDialect { given } = self;
        fault!("'{given}' is not a dialect of scripts"; "choose one of {}", names())
    }
}

into_fault!(UnknownDialect);

fn names() -> String {
    Dialect::ALL.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(word: &str) -> Result<Self, UnknownDialect> {
        let named = Dialect::ALL.iter().find(|dialect| dialect.name() == word.trim());
        named.copied().ok_or_else(|| UnknownDialect { given: text::printable(word) })
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A script.
pub struct Source<'a> {
    /// What messages call it: the name of its file.
    pub name: &'a str,
    /// What it says.
    pub text: &'a str,
    /// Reads a file that it names, by the name that stands in the script; the error is the reason.
    pub read: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    /// Reads the sessions of a capture that it names, likewise.
    pub sessions: &'a dyn Fn(&str) -> Result<NamedCapture, String>,
}

/// A capture, and what a scenario is to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCapture {
    /// The name of its file, as the scenario is to have it.
    pub name: String,
    /// Its sessions.
    pub sessions: Vec<capture::SessionFacts>,
    /// What copies of its packets are made of; or why none can be made.
    pub template: Result<capture::TemplateFacts, String>,
}

/// For scripts that name no captures.
///
/// # Errors
/// Always.
pub fn no_sessions(_: &str) -> Result<NamedCapture, String> {
    Err("captures are not read here".to_owned())
}

/// What a script leaves to its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The interface that flows leave by, unless the script names one.
    pub interface: Option<String>,
    /// Where servers of sessions are; without it, and without `interface`, both ends are in memory.
    pub to: Option<String>,
    /// How many times as many sessions start.
    pub multiply: Option<NonZeroU64>,
    /// Whether a stateful profile of T-Rex is played packet by packet, without a stack, instead of said by our own TCP and UDP.
    pub packets: bool,
    /// When the run ends. Without it, flows that the script never ends send for as long as any flow
    /// without limits ([`wirebeat_traffic::scenario::RunSpec::DEFAULT_TIME`]).
    pub time: Option<Nanos>,
    /// What the script is called with. Only a shell script for pktgen takes arguments.
    pub arguments: Vec<String>,
}

/// A script as a scenario, and what is beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The traffic. It passes [`Scenario::check`].
    pub scenario: Scenario,
    /// Files that the scenario names and that are made from the script's own: name and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// What could not be carried over, in the order in which it was met.
    pub left_out: Vec<LeftOut>,
    /// What a receiver is asked to do, in the order of time.
    pub listens: Vec<Listen>,
    /// The time of day at which the run is to begin.
    pub starts: Option<TimeOfDay>,
}

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The name of its file.
    pub file: Arc<str>,
    /// Its number, from 1.
    pub number: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.number)
    }
}

/// Something that the scenario does not do, or not quite, as the script says. Prints as compilers do:
/// "script.mgn:7: TXBUFFER 1000: …".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeftOut {
    /// Where it stands.
    pub line: Line,
    /// What it is, as it is written there.
    pub what: String,
    /// Why, and what happens instead.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.what, self.why)
    }
}

/// What a receiver is asked to do at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where it stands.
    pub line: Line,
    /// When, from the start of the run.
    pub at: Nanos,
    /// What.
    pub what: Reception,
}

/// What a receiver can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Receive what is sent to these UDP ports.
    Open(Vec<RangeInclusive<u16>>),
    /// Receive it no longer.
    Close(Vec<RangeInclusive<u16>>),
    /// Join a multicast group.
    Join(Group),
    /// Leave it.
    Leave(Group),
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its address.
    pub address: IpAddr,
    /// The only source to receive from (RFC 4607). `None`: any.
    pub source: Option<IpAddr>,
    /// The interface to join it on. `None`: the system's choice.
    pub interface: Option<String>,
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    /// Since midnight; less than 24 hours.
    pub since_midnight: Nanos,
    /// Midnight of UTC, rather than of the system's time zone.
    pub utc: bool,
}

/// Makes a scenario of a script.
pub fn convert(
    dialect: Dialect,
    source: &Source<'_>,
    options: &Options,
) -> Result<Converted, ScriptError> {
    if source.text.len() > MAX_BYTES {
        return Err(ScriptError::TooLarge { file: source.name.into(), bytes: source.text.len() });
    }
    if dialect != Dialect::Pktgen && !options.arguments.is_empty() {
        return Err(ScriptError::Whole {
            file: source.name.into(),
            problem: fault!(
                "a script of {dialect} takes no arguments";
                "leave out what stands behind '--'"
            ),
        });
    }
    if options.packets && (dialect != Dialect::Trex || trex::is_profile(source.text)) {
        return Err(ScriptError::Whole {
            file: source.name.into(),
            problem: fault!(
                "--packets is for stateful profiles of T-Rex, and this is none"; "leave it out"
            ),
        });
    }
    let mut draft = Draft::new(source, options);
    dialect.read(&mut draft)?;
    draft.finish()
}

/// Lines that are looked at to recognise a dialect.
const LOOKED_AT: usize = 10_000;

/// Whose script a text is; `None` where that cannot be said, as for every scenario in YAML or JSON.
pub fn recognise(text: &str) -> Option<Dialect> {
    if trex::is_profile(text) {
        return Some(Dialect::Trex);
    }
    let said = text
        .lines()
        .take(LOOKED_AT)
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && *line != "---");
    for (number, line) in said.enumerate() {
        if number == 0 && looks_like_yaml(line) {
            return None;
        }
        if let Some(dialect) = Dialect::ALL.iter().find(|dialect| dialect.hint(line)) {
            return Some(*dialect);
        }
    }
    None
}

/// Whether it begins as a mapping does: `{`, or a key and a colon.
fn looks_like_yaml(line: &str) -> bool {
    let key = line
        .split_once(':')
        .filter(|(_, value)| value.is_empty() || value.starts_with(char::is_whitespace));
    let plain = |key: &str| !key.contains(char::is_whitespace) && !key.contains(['=', '/']);
    line.starts_with('{') || key.is_some_and(|(key, _)| plain(key.trim_end()))
}
