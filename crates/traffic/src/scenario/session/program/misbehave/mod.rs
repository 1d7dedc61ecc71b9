//! Clients that misbehave, for tests of servers, firewalls and intrusion detection: one file for each way, and one line of the table
//! below.
//!
//! Nothing here is the default of anything. Each way has bounds, and goes to the servers that the group names, to nobody else.

pub mod forged;
pub mod half_open;
pub mod idle;
pub mod slow_read;
pub mod slow_write;
pub mod zero_window;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, Nanos, fault};

use super::Http;
use crate::scenario::tagged::{self, Tagged, described, kinds};
use crate::text::hint::with_hint;
pub use forged::{Exchanges, Forged};
pub use half_open::HalfOpen;
pub use idle::Idle;
pub use slow_read::SlowRead;
pub use slow_write::SlowWrite;
pub use zero_window::ZeroWindow;

/// The longest text of a client that misbehaves, in bytes.
const TEXT_MAX: usize = 4096;

/// The name of the timer from when a client begins to misbehave to when its peer ends the session.
pub const PEER_ENDED: &str = "peer-ended";

/// Declares the ways to misbehave: the key, the name of the variant, its parameters, whether it needs our own TCP, and the name that
/// reports have.
macro_rules! ways {
    ($($(#[doc = $doc:literal])+ $key:literal $variant:ident $spec:ident $own:literal $title:literal;)*) => {
        /// How a client misbehaves.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Misbehave {
            $($(#[doc = $doc])+ $variant($spec),)*
        }

        impl Misbehave {
            /// The words for all of them: none needs parameters.
            const WORDS: [&'static str; [$($key),*].len()] = [$($key),*];

            /// The key that it is written with.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Misbehave::$variant(_) => $key,)*
                }
            }

            /// The name of the program and of the way, as reports have it.
            pub fn title(&self) -> &'static str {
                match self {
                    $(Misbehave::$variant(_) => $title,)*
                }
            }

            /// Whether only our own TCP can do it.
            pub fn needs_own_stack(&self) -> bool {
                match self {
                    $(Misbehave::$variant(_) => $own,)*
                }
            }

            /// What is invalid: the key, and why.
            pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
                match self {
                    $(Misbehave::$variant(spec) => spec.check(),)*
                }
            }
        }

        impl std::str::FromStr for Misbehave {
            type Err = Fault;

            /// The word for a way without parameters.
            fn from_str(word: &str) -> Result<Self, Fault> {
                match word {
                    $($key => Ok(Misbehave::$variant($spec::default())),)*
                    _ => Err(with_hint("there is no way to misbehave", word, Misbehave::WORDS)),
                }
            }
        }

        kinds! {
            Misbehave:
            $($key $variant $spec::deserialize, described::<$spec>;)*
        }
    };
}

ways! {
    /// Sends the beginning of a request piece by piece, and never its end (Slowloris).
    "slow-write" SlowWrite SlowWrite false "misbehave slow-write";
    /// Asks for much, and reads it a few bytes at a time.
    "slow-read" SlowRead SlowRead false "misbehave slow-read";
    /// Connects, and says nothing.
    "idle" Idle Idle false "misbehave idle";
    /// Sends a SYN, and never acknowledges the answer.
    "half-open" HalfOpen HalfOpen true "misbehave half-open";
    /// Asks for much, and has no room for it.
    "zero-window" ZeroWindow ZeroWindow true "misbehave zero-window";
    /// Sends other data where data was sent before.
    "overlapping" Overlapping Forged true "misbehave overlapping";
    /// Sends data beyond the peer's window.
    "out-of-window" OutOfWindow Forged true "misbehave out-of-window";
    /// Sends data with a wrong checksum.
    "bad-checksum" BadChecksum Forged true "misbehave bad-checksum";
    /// Acknowledges what the peer has not sent.
    "ack-unsent" AckUnsent Forged true "misbehave ack-unsent";
    /// Sends RSTs around the number that the peer expects, and never that number.
    "rst-storm" RstStorm Forged true "misbehave rst-storm";
    /// Sends RSTs and data with numbers drawn at random, as who does not see the session.
    "sequence-guess" SequenceGuess Forged true "misbehave sequence-guess";
}

impl Misbehave {
    /// How long it lasts, where that is written.
    pub fn time(&self) -> Option<Nanos> {
        match self {
            Misbehave::SlowWrite(spec) => spec.time,
            Misbehave::SlowRead(spec) => spec.time,
            Misbehave::Idle(spec) => spec.time,
            Misbehave::HalfOpen(spec) => spec.time,
            Misbehave::ZeroWindow(spec) => spec.time,
            Misbehave::Overlapping(_)
            | Misbehave::OutOfWindow(_)
            | Misbehave::BadChecksum(_)
            | Misbehave::AckUnsent(_)
            | Misbehave::RstStorm(_)
            | Misbehave::SequenceGuess(_) => None,
        }
    }

    /// What is forged, where segments are.
    pub fn forged(&self) -> Option<&Forged> {
        match self {
            Misbehave::Overlapping(spec)
            | Misbehave::OutOfWindow(spec)
            | Misbehave::BadChecksum(spec)
            | Misbehave::AckUnsent(spec)
            | Misbehave::RstStorm(spec)
            | Misbehave::SequenceGuess(spec) => Some(spec),
            _ => None,
        }
    }

    /// The timers that it has.
    pub(super) fn timers(&self) -> Vec<String> {
        match self {
            Misbehave::HalfOpen(_) => Vec::new(),
            _ => vec![PEER_ENDED.to_owned()],
        }
    }
}

/// That a request has a valid target, or that a text stands in its place.
fn check_asked(target: &str, text: Option<&str>) -> Result<(), (&'static str, Fault)> {
    let http = Http { target: target.to_owned(), ..Http::default() };
    http.check()?;
    let Some(text) = text else { return Ok(()) };
    if http != Http::default() {
        return Err((
            "text",
            fault!("the text stands for the whole request"; "leave 'target' out"),
        ));
    }
    match text.len() {
        1..=TEXT_MAX => Ok(()),
        _ => Err(("text", fault!("a text has 1 to {TEXT_MAX} bytes"))),
    }
}

/// That a time is some.
fn check_time(time: Option<Nanos>) -> Result<(), (&'static str, Fault)> {
    match time {
        Some(Nanos::ZERO) => {
            Err(("time", fault!("it lasts some time"; "write for example 60s, or leave it out")))
        }
        _ => Ok(()),
    }
}

fn root() -> String {
    "/".to_owned()
}

fn is_root(target: &str) -> bool {
    target == "/"
}

impl Serialize for Misbehave {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bare = self.name().parse::<Misbehave>();
        if bare.is_ok_and(|bare| bare == *self) {
            return serializer.serialize_str(self.name());
        }
        self.write_plain(serializer)?.or_else(S::serialize_none)
    }
}

impl<'de> Deserialize<'de> for Misbehave {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |word: String| word.parse())
    }
}

impl<'de> Tagged<'de> for Misbehave {
    const KINDS: &'static [&'static str] = &Misbehave::PLAIN;
    const WHAT: &'static str = "a way to misbehave";
    const OTHERS: &'static [&'static str] = &[];
    type Beside = ();

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        Self::read_plain(key, value)?
            .map_err(|_| serde::de::Error::custom("there is no such way to misbehave"))
    }
    fn beside<A: MapAccess<'de>>(_: &str, _: &mut A, (): &mut ()) -> Result<bool, A::Error> {
        Ok(false)
    }
    fn join(self, (): ()) -> Result<Self, Fault> {
        Ok(self)
    }
}

impl JsonSchema for Misbehave {
    fn schema_name() -> Cow<'static, str> {
        "misbehave".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let ways = Misbehave::plain_schemas(generator);
        let words = serde_json::json!({ "enum": Misbehave::WORDS });
        let all: Vec<serde_json::Value> = std::iter::once(words).chain(ways).collect();
        json_schema!({ "description": "How a client misbehaves.", "anyOf": all })
    }
}
