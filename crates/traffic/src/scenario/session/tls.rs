//! TLS of a group of sessions: `tls: true`, or what is asked of it.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use wirebeat_units::{Fault, fault};

use super::{SessionSpec, Transport};
use crate::scenario::is_default;

/// The most application protocols.
const ALPN_MAX: usize = 16;
/// The longest name of a server (RFC 1035 §2.3.4).
const NAME_MAX: usize = 253;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl TlsVersion {
    /// All that there are.
    pub const ALL: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

    /// Its number.
    pub const fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }
}

impl Serialize for TlsVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TlsVersion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let found = TlsVersion::ALL.into_iter().find(|version| version.name() == text);
        found.ok_or_else(|| {
            let text = crate::text::printable(&text, 16);
            crate::text::custom(
                fault!("version '{text}' of TLS is not supported"; "write 1.2 or 1.3"),
            )
        })
    }
}

impl JsonSchema for TlsVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TlsVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A version of TLS.", "enum": ["1.2", "1.3", 1.2, 1.3] })
    }
}

/// What is asked of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(transform = or_true)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct TlsSpec {
    /// The name that clients ask for (SNI) and that certificates are to have. Default: that of the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server_name: Option<String>,
    /// Whether clients check certificates. Default: yes.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub verify: bool,
    /// A file in PEM with the certificates of authorities that clients trust. Default: those of the system.
    #[serde(default, skip_serializing_if = "is_default")]
    pub authority: Option<String>,
    /// A file in PEM with the certificate of our servers, and those that lead to its issuer. Default: one is made for the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub certificate: Option<String>,
    /// The file in PEM with the private key of that certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: Option<String>,
    /// Which versions are offered. Default: 1.2 and 1.3.
    #[serde(default = "both", skip_serializing_if = "is_both")]
    pub versions: Vec<TlsVersion>,
    /// Whether sessions are resumed by tickets. Default: yes.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub resume: bool,
    /// Application protocols that are offered (ALPN), the preferred one first. Default: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alpn: Vec<String>,
}

/// The same as it is read from a map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    server_name: Option<String>,
    #[serde(default = "yes")]
    verify: bool,
    authority: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    #[serde(default = "both")]
    versions: Vec<TlsVersion>,
    #[serde(default = "yes")]
    resume: bool,
    #[serde(default)]
    alpn: Vec<String>,
}

impl From<Written> for TlsSpec {
    fn from(written: Written) -> TlsSpec {
        let Written { server_name, verify, authority, certificate, key, .. } = written;
        let Written { versions, resume, alpn, .. } = written;
        TlsSpec { server_name, verify, authority, certificate, key, versions, resume, alpn }
    }
}

impl Default for TlsSpec {
    fn default() -> TlsSpec {
        TlsSpec {
            server_name: None,
            verify: true,
            authority: None,
            certificate: None,
            key: None,
            versions: both(),
            resume: true,
            alpn: Vec::new(),
        }
    }
}

/// The schema of the map, or `true`.
fn or_true(schema: &mut Schema) {
    let map = std::mem::take(schema);
    let description = map.get("description").cloned().unwrap_or_default();
    *schema = json_schema!({ "description": description, "anyOf": [{ "const": true }, map] });
}

/// What is asked of TLS where the key is written: an empty one is a mistake, and not TLS that nobody asked for.
pub(super) fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TlsSpec>, D::Error> {
    TlsSpec::deserialize(from).map(Some)
}

impl<'de> Deserialize<'de> for TlsSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OrTrue;
        impl<'de> Visitor<'de> for OrTrue {
            type Value = TlsSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("'true', or what is asked of TLS")
            }

            fn visit_bool<E: serde::de::Error>(self, is: bool) -> Result<TlsSpec, E> {
                match is {
                    true => Ok(TlsSpec::default()),
                    false => Err(crate::text::custom(
                        fault!("sessions without TLS have no 'tls'"; "leave it out"),
                    )),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TlsSpec, A::Error> {
                Written::deserialize(MapAccessDeserializer::new(map)).map(TlsSpec::from)
            }
        }
        from.deserialize_any(OrTrue)
    }
}

impl TlsSpec {
    /// The files that it names, with their keys.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("authority", &self.authority),
            ("certificate", &self.certificate),
            ("key", &self.key),
        ];
        all.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)))
    }
}

/// Finds what is invalid of the TLS of a group: the key below the group, and why.
pub(super) fn check(spec: &SessionSpec) -> Result<(), (&'static str, Fault)> {
    let Some(tls) = &spec.tls else { return Ok(()) };
    if spec.transport == Transport::Udp {
        return Err((
            "tls",
            fault!("TLS needs a stream, and there is no DTLS here"; "leave it or 'transport: udp' out"),
        ));
    }
    let of_clients = [
        ("tls.server-name", tls.server_name.is_some()),
        ("tls.verify", !tls.verify),
        ("tls.authority", tls.authority.is_some()),
    ];
    if spec.from.is_none()
        && let Some((key, _)) = of_clients.into_iter().find(|(_, written)| *written)
    {
        let why = "the clients are somebody else's, and check certificates as they like";
        return Err((key, fault!("{why}"; "leave it out")));
    }
    let of_servers =
        [("tls.certificate", tls.certificate.is_some()), ("tls.key", tls.key.is_some())];
    if spec.to.is_none()
        && let Some((key, _)) = of_servers.into_iter().find(|(_, written)| *written)
    {
        let why = "the servers are somebody else's, and have certificates of theirs";
        return Err((key, fault!("{why}"; "leave it out")));
    }
    match (&tls.certificate, &tls.key) {
        (Some(_), None) => {
            return Err((
                "tls.certificate",
                fault!("a certificate needs its private key"; "add 'key'"),
            ));
        }
        (None, Some(_)) => {
            return Err((
                "tls.key",
                fault!("a private key needs its certificate"; "add 'certificate'"),
            ));
        }
        _ => {}
    }
    if !tls.verify && tls.authority.is_some() {
        return Err((
            "tls.authority",
            fault!("with 'verify: false' nobody asks for authorities"; "leave one of them out"),
        ));
    }
    if let Some(name) = &tls.server_name
        && (name.is_empty() || name.len() > NAME_MAX || !name.is_ascii())
    {
        return Err((
            "tls.server-name",
            fault!("'{name}' is not the name of a server"; "write for example www.example.com"),
        ));
    }
    let twice = tls
        .versions
        .iter()
        .enumerate()
        .any(|(n, version)| tls.versions.iter().take(n).any(|earlier| earlier == version));
    if tls.versions.is_empty() || twice {
        return Err((
            "tls.versions",
            fault!("each version is written once, and one at least"; "write for example [1.3]"),
        ));
    }
    let fits = |name: &String| (1..=255).contains(&name.len());
    if tls.alpn.len() > ALPN_MAX || !tls.alpn.iter().all(fits) {
        return Err((
            "tls.alpn",
            fault!(
                "a name of an application protocol has 1 to 255 bytes, and {ALPN_MAX} of them are the most";
                "write for example [http/1.1]"
            ),
        ));
    }
    Ok(())
}

fn yes() -> bool {
    true
}

fn is_yes(is: &bool) -> bool {
    *is
}

fn both() -> Vec<TlsVersion> {
    TlsVersion::ALL.to_vec()
}

fn is_both(versions: &[TlsVersion]) -> bool {
    versions == TlsVersion::ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn read(keys: &str) -> Result<TlsSpec, String> {
        let text = format!(
            "ports: {{ a: {{}}, b: {{}} }}\nsessions:\n  s:\n    program: http\n    servers: {{ addresses: 10.0.0.2, ports: 443 }}\n    \
             rate: 10/s\n    {keys}\nrun: {{ time: 1s }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "test").map_err(|error| error.to_string())?;
        let again = Scenario::from_yaml(&scenario.to_yaml().unwrap(), "again").unwrap();
        assert_eq!(again, scenario);
        Ok(scenario.sessions["s"].tls.clone().unwrap())
    }

    #[test]
    fn it_is_true_or_what_is_asked() {
        assert_eq!(read("from: a\n    tls: true").unwrap(), TlsSpec::default());
        assert_eq!(read("from: a\n    tls: {}").unwrap(), TlsSpec::default());
        // nobody who writes it wants clear text
        let said = read("from: a\n    tls:").unwrap_err();
        assert!(said.contains("'true', or what is asked of TLS"), "{said}");
        let asked = read(
            "from: a\n    to: b\n    tls: { server-name: www.example.com, verify: false, certificate: c.pem, key: k.pem, \
             versions: [1.3], resume: false, alpn: [http/1.1] }",
        );
        let asked = asked.unwrap();
        assert_eq!(asked.versions, [TlsVersion::Tls13]);
        assert_eq!(asked.alpn, ["http/1.1"]);
        assert!(!asked.verify && !asked.resume);
        let files: Vec<_> = asked.files().collect();
        assert_eq!(files, [("certificate", "c.pem"), ("key", "k.pem")]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        for (keys, says) in [
            ("from: a\n    tls: false", "leave it out"),
            ("from: a\n    tls: { versions: [1.1] }", "write 1.2 or 1.3"),
            ("from: a\n    tls: { versions: [] }", "sessions.s.tls.versions"),
            ("from: a\n    tls: { versions: [1.3, 1.3] }", "written once"),
            ("from: a\n    tls: { certificate: c.pem, key: k.pem }", "somebody else's"),
            ("from: a\n    to: b\n    tls: { certificate: c.pem }", "add 'key'"),
            ("from: a\n    to: b\n    tls: { key: k.pem }", "add 'certificate'"),
            ("from: a\n    tls: { verify: false, authority: a.pem }", "leave one of them out"),
            ("from: a\n    tls: { server-name: '' }", "is not the name of a server"),
            ("from: a\n    tls: { alpn: [''] }", "1 to 255 bytes"),
            ("from: a\n    tls: { verfy: false }", "verfy"),
        ] {
            let error = read(keys).unwrap_err();
            assert!(error.contains(says), "{keys}: {error}");
        }
        let servers = read("to: b\n    tls: { verify: false }").unwrap_err();
        assert!(servers.contains("somebody else's"), "{servers}");
    }

    #[test]
    fn there_is_no_dtls() {
        let text = "ports: { a: {} }\nsessions: { s: { from: a, program: echo, transport: udp, tls: true, rate: 1/s, \
                    servers: { addresses: 10.0.0.2, ports: 7 } } }\nrun: { time: 1s }\n";
        let error = Scenario::from_yaml(text, "test").unwrap_err().to_string();
        assert!(error.contains("no DTLS"), "{error}");
    }
}
