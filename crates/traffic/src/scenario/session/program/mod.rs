//! What both ends of a session say: one file for each kind of program, and one line of the table below.

pub mod bulk;
pub mod capture;
pub mod dns;
pub mod echo;
pub mod endless;
pub mod exchange;
pub mod http;
pub mod http_message;
pub mod messages;
pub mod misbehave;
pub mod steps;
pub mod variables;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::Fault;

use crate::scenario::KeyPath;
use crate::scenario::tagged::{self, Tagged, described, kinds};
use crate::text::hint::with_hint;
use crate::values::session::ENDLESS;
pub use bulk::{Bulk, Direction};
pub use capture::Capture;
pub use dns::Dns;
pub use echo::Echo;
pub use exchange::Exchange;
pub use http::{Http, HttpBody, Method};
pub use http_message::ReceiveHttp;
pub use messages::Messages;
pub use misbehave::Misbehave;
pub use steps::{Repeat, Step, Steps};
pub use variables::{Condition, Jump, Numbers};

/// What both ends of a session say.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramSpec {
    /// HTTP/1.1: the client requests, the server responds.
    Http(Box<Http>),
    /// Requests and responses of given sizes, without a protocol around them.
    RequestResponse(Box<Exchange>),
    /// As much data as goes through, one way or both.
    Bulk(Box<Bulk>),
    /// Messages that the server sends back: the round trip of each is measured.
    Echo(Box<Echo>),
    /// Messages one way: the delay of each is measured.
    Messages(Box<Messages>),
    /// DNS: the client asks for names.
    Dns(Box<Dns>),
    /// Steps that are written out.
    Steps(Box<Steps>),
    /// A session out of a capture.
    Capture(Box<Capture>),
    /// A client that misbehaves in one way.
    Misbehave(Box<Misbehave>),
}

impl ProgramSpec {
    /// The words for programs that need no parameters. `discard` is what RFC 863 calls the service that bulk data goes to.
    const WORDS: [&'static str; 7] =
        ["http", "request-response", "bulk", "discard", "echo", "messages", "dns"];

    /// The key that it is written with.
    pub fn name(&self) -> &'static str {
        match self {
            ProgramSpec::Http(_) => "http",
            ProgramSpec::RequestResponse(_) => "request-response",
            ProgramSpec::Bulk(_) => "bulk",
            ProgramSpec::Echo(_) => "echo",
            ProgramSpec::Messages(_) => "messages",
            ProgramSpec::Dns(_) => "dns",
            ProgramSpec::Steps(_) => "steps",
            ProgramSpec::Capture(_) => "capture",
            ProgramSpec::Misbehave(_) => "misbehave",
        }
    }

    /// The name that reports have.
    pub fn title(&self) -> &'static str {
        match self {
            ProgramSpec::Misbehave(misbehave) => misbehave.title(),
            other => other.name(),
        }
    }

    /// Whether its client asks for as long as there is time.
    pub fn is_endless(&self) -> bool {
        let again =
            |step: &Step| matches!(step, Step::Repeat(repeat) if repeat.times.get() == ENDLESS);
        match self {
            ProgramSpec::Http(http) => http.requests.get() == ENDLESS,
            ProgramSpec::Steps(steps) => steps.client.iter().any(again),
            _ => false,
        }
    }

    /// How its client misbehaves.
    pub fn misbehaviour(&self) -> Option<&Misbehave> {
        match self {
            ProgramSpec::Misbehave(misbehave) => Some(misbehave),
            _ => None,
        }
    }

    /// What is invalid: the key, and why.
    pub(crate) fn check(&self) -> Result<(), (KeyPath, Fault)> {
        let named = |(key, why): (&'static str, Fault)| (KeyPath::root(key), why);
        match self {
            ProgramSpec::Http(http) => http.check().map_err(named),
            ProgramSpec::RequestResponse(exchange) => exchange.check().map_err(named),
            ProgramSpec::Bulk(bulk) => bulk.check().map_err(named),
            ProgramSpec::Echo(echo) => echo.check().map_err(named),
            ProgramSpec::Messages(messages) => messages.check().map_err(named),
            ProgramSpec::Dns(dns) => dns.check().map_err(named),
            ProgramSpec::Steps(steps) => steps.check().map_err(|(key, why)| {
                (key.below(&KeyPath::default(), KeyPath::root("steps")), why)
            }),
            ProgramSpec::Capture(capture) => capture.check().map_err(named),
            ProgramSpec::Misbehave(misbehave) => misbehave.check().map_err(named),
        }
    }

    /// The files that it names.
    pub fn files(&self) -> Vec<&str> {
        match self {
            ProgramSpec::Steps(steps) => steps.files(),
            ProgramSpec::Http(http) => http.file.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The session of a capture that it says again.
    pub fn capture(&self) -> Option<&Capture> {
        match self {
            ProgramSpec::Capture(capture) => Some(capture),
            _ => None,
        }
    }

    /// The timers that it names.
    pub fn timers(&self) -> Vec<String> {
        match self {
            ProgramSpec::Steps(steps) => steps.timers(),
            ProgramSpec::Misbehave(misbehave) => misbehave.timers(),
            _ => Vec::new(),
        }
    }
}

impl std::str::FromStr for ProgramSpec {
    type Err = Fault;

    /// The word for a program that needs no parameters.
    fn from_str(word: &str) -> Result<Self, Fault> {
        match word {
            "http" => Ok(ProgramSpec::Http(Box::default())),
            "request-response" => Ok(ProgramSpec::RequestResponse(Box::default())),
            "bulk" | "discard" => Ok(ProgramSpec::Bulk(Box::default())),
            "echo" => Ok(ProgramSpec::Echo(Box::default())),
            "messages" => Ok(ProgramSpec::Messages(Box::default())),
            "dns" => Ok(ProgramSpec::Dns(Box::default())),
            _ => Err(with_hint("there is no program", word, ProgramSpec::WORDS)),
        }
    }
}

kinds! {
    ProgramSpec:
    "http" Http Box::deserialize, described::<Http>;
    "request-response" RequestResponse Box::deserialize, described::<Exchange>;
    "bulk" Bulk Box::deserialize, described::<Bulk>;
    "echo" Echo Box::deserialize, described::<Echo>;
    "messages" Messages Box::deserialize, described::<Messages>;
    "dns" Dns Box::deserialize, described::<Dns>;
    "steps" Steps Box::deserialize, described::<Steps>;
    "capture" Capture Box::deserialize, described::<Capture>;
    "misbehave" Misbehave Box::deserialize, described::<Misbehave>;
}

impl Serialize for ProgramSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bare = self.name().parse::<ProgramSpec>();
        if bare.is_ok_and(|bare| bare == *self) {
            return serializer.serialize_str(self.name());
        }
        self.write_plain(serializer)?.or_else(S::serialize_none)
    }
}

impl<'de> Deserialize<'de> for ProgramSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tagged::scalar_or_map(from, |word: String| word.parse())
    }
}

impl<'de> Tagged<'de> for ProgramSpec {
    const KINDS: &'static [&'static str] = &ProgramSpec::PLAIN;
    const WHAT: &'static str = "a program";
    const OTHERS: &'static [&'static str] = &[];
    type Beside = ();

    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        Self::read_plain(key, value)?
            .map_err(|_| serde::de::Error::custom("there is no such program"))
    }
    fn beside<A: MapAccess<'de>>(_: &str, _: &mut A, (): &mut ()) -> Result<bool, A::Error> {
        Ok(false)
    }
    fn join(self, (): ()) -> Result<Self, Fault> {
        Ok(self)
    }
}

impl JsonSchema for ProgramSpec {
    fn schema_name() -> Cow<'static, str> {
        "session-program".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds = ProgramSpec::plain_schemas(generator);
        let words = serde_json::json!({ "enum": ProgramSpec::WORDS });
        let all: Vec<serde_json::Value> = std::iter::once(words).chain(kinds).collect();
        json_schema!({ "description": "What both ends of a session say.", "anyOf": all })
    }
}
