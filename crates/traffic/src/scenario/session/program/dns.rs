//! Queries of the domain name system, and what a server of ours answers.

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_dns::{Name, RecordType, rcode, rcode_name};
use wirebeat_units::{Fault, Nanos, fault};

use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::schema::TimeText;
use crate::text::hint::with_hint;
use crate::text::printable;

/// The most addresses that a server of ours answers: each has 28 bytes at most, and a message over TCP 65,535.
const ANSWERS_MAX: usize = 1000;
/// What stands for the number of the query in its name.
pub const NUMBER: &str = "{n}";

/// DNS (RFC 1035): the client asks for a name, the server answers with addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Dns {
    /// The name that is asked for; `{n}` in it is the number of the query. Default: example.com.
    #[serde(skip_serializing_if = "is_usual_name")]
    pub name: String,
    /// The type of records that is asked for. Default: A.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: DnsType,
    /// Whether the server is asked to ask others (RD). Default: yes.
    #[serde(skip_serializing_if = "is_true")]
    pub recursion_desired: bool,
    /// How many queries a session has, one after the other. Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub requests: NonZeroU32,
    /// How long the client waits from a response to its next query. Default: not at all.
    #[serde(skip_serializing_if = "is_default")]
    pub think: Option<Duration>,
    /// The response code that responses are to have; others are counted as unexpected. Default: that of our server, else noerror.
    #[serde(skip_serializing_if = "is_default")]
    pub expect_rcode: Option<Rcode>,
    /// The addresses that our server answers for every name: to A those of IPv4, to AAAA those of IPv6. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Vec<String>")]
    pub answers: Vec<IpAddr>,
    /// How long they hold, in whole seconds. Default: 60s.
    #[serde(skip_serializing_if = "is_usual_ttl")]
    #[schemars(with = "TimeText")]
    pub ttl: Nanos,
    /// The response code of our server. Default: noerror.
    #[serde(skip_serializing_if = "is_default")]
    pub rcode: Rcode,
}

impl Default for Dns {
    fn default() -> Dns {
        Dns {
            name: usual_name(),
            kind: DnsType::default(),
            recursion_desired: true,
            requests: NonZeroU32::MIN,
            think: None,
            expect_rcode: None,
            answers: Vec::new(),
            ttl: usual_ttl(),
            rcode: Rcode::default(),
        }
    }
}

impl Dns {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        // with the longest number that there is
        let longest = self.name.replace(NUMBER, &u64::MAX.to_string());
        if let Err(why) = Name::of_text(&longest) {
            return Err(("name", bad_name(&self.name, why)));
        }
        if self.answers.len() > ANSWERS_MAX {
            return Err((
                "answers",
                fault!("a server answers with {ANSWERS_MAX} addresses at most"),
            ));
        }
        let seconds = self.ttl.get() / 1_000_000_000;
        // RFC 2181 §8: 31 bits
        if !self.ttl.get().is_multiple_of(1_000_000_000) || seconds > i32::MAX as u64 {
            return Err(("ttl", fault!("a TTL has whole seconds"; "write for example 60s")));
        }
        self.think.iter().try_for_each(Duration::check).map_err(|why| ("think", why))
    }

    /// The TTL in seconds.
    pub fn ttl_seconds(&self) -> u32 {
        u32::try_from(self.ttl.get() / 1_000_000_000).unwrap_or(u32::MAX)
    }
}

fn bad_name(name: &str, why: wirebeat_dns::BadName) -> Fault {
    use wirebeat_dns::BadName;
    let name = printable(name, 64);
    match why {
        BadName::Label => fault!(
            "a label of '{name}' is empty or has more than 63 bytes"; "write for example www.example.com"
        ),
        BadName::TooLong => fault!("'{name}' has more than 255 bytes (RFC 1035 §3.1)"),
        BadName::Escape => fault!(
            "a backslash in '{name}' needs a character or three digits behind it (RFC 1035 §5.1)"
        ),
        BadName::Character => fault!(
            "'{name}' has characters that are not of printable ASCII";
            "write them by their numbers, for example \\032, or as IDNA has the name (xn--…)"
        ),
    }
}

/// The type of records that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsType(pub RecordType);

impl std::str::FromStr for DnsType {
    type Err = Fault;

    fn from_str(word: &str) -> Result<DnsType, Fault> {
        let names = RecordType::ALL.iter().map(|(_, name, _)| *name);
        word.parse().map(DnsType).map_err(|_| with_hint("there is no type of records", word, names))
    }
}

impl Serialize for DnsType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for DnsType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<DnsType, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for DnsType {
    fn schema_name() -> Cow<'static, str> {
        "dns-type".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = RecordType::ALL.map(|(_, name, _)| name);
        json_schema!({ "description": "A type of records of DNS.", "enum": names })
    }
}

/// A response code, by its name in small letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rcode(pub u16);

impl Rcode {
    /// All that are known by a name and fit a header.
    fn names() -> impl Iterator<Item = String> {
        (0..16).filter_map(rcode_name).map(str::to_ascii_lowercase)
    }
}

impl std::fmt::Display for Rcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match rcode_name(self.0) {
            Some(name) => f.write_str(&name.to_ascii_lowercase()),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::str::FromStr for Rcode {
    type Err = Fault;

    fn from_str(word: &str) -> Result<Rcode, Fault> {
        let known: Vec<String> = Rcode::names().collect();
        let found = rcode(word).filter(|code| *code < 16).map(Rcode);
        found.ok_or_else(|| {
            with_hint("there is no response code", word, known.iter().map(String::as_str))
        })
    }
}

impl Serialize for Rcode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rcode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rcode, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Rcode {
    fn schema_name() -> Cow<'static, str> {
        "dns-rcode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<String> = Rcode::names().collect();
        json_schema!({ "description": "A response code of DNS.", "enum": names })
    }
}

fn usual_name() -> String {
    "example.com".to_owned()
}

fn is_usual_name(name: &str) -> bool {
    name == usual_name()
}

fn usual_ttl() -> Nanos {
    Nanos::from_secs(60)
}

fn is_usual_ttl(ttl: &Nanos) -> bool {
    *ttl == usual_ttl()
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_one(count: &NonZeroU32) -> bool {
    *count == NonZeroU32::MIN
}
