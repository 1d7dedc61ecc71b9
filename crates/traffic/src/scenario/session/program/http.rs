//! HTTP/1.1 (RFC 9110, 9112): what the client requests and what the server responds.

use std::num::{NonZeroU16, NonZeroU32};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Fault, fault};

use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::schema::BytesText;
use crate::scenario::session::size::DataSize;

/// The longest target, in characters; servers take 8,000 (RFC 9110 §4.1).
const TARGET_MAX: usize = 8000;
/// The longest name of a file (PATH_MAX of Linux).
const FILE_NAME_MAX: usize = 4096;
/// The most headers of one's own.
const HEADERS_MAX: usize = 64;

/// HTTP/1.1 requests and responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Http {
    /// What is requested: the path and query. Default: /
    #[serde(skip_serializing_if = "is_root")]
    pub target: String,
    /// The `Host` of requests. Default: the server's address.
    #[serde(skip_serializing_if = "is_default")]
    pub host: Option<String>,
    /// The method. Default: GET.
    #[serde(skip_serializing_if = "is_default")]
    pub method: Method,
    /// Headers of requests beside those that HTTP needs.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub headers: IndexMap<String, String>,
    /// How many bytes of content a request carries. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub body: Option<Bytes>,
    /// Whether the client waits for the response 100 (Continue) before it sends that content.
    #[serde(skip_serializing_if = "is_default")]
    pub expect_continue: bool,
    /// How many requests a session has. Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub requests: NonZeroU32,
    /// How many requests may wait for their responses (pipelining). Default: 1.
    #[serde(skip_serializing_if = "is_no_pipeline")]
    pub pipeline: NonZeroU16,
    /// How long the client waits from a response to its next request. Default: not at all.
    #[serde(skip_serializing_if = "is_default")]
    pub think: Option<Duration>,
    /// Who closes the connection: whether the last request asks the server to (`Connection: close`). Default: no, the
    /// client closes.
    #[serde(skip_serializing_if = "is_default")]
    pub server_closes: bool,
    /// The status of our server's responses. Default: 200.
    #[serde(skip_serializing_if = "is_default")]
    pub status: Option<NonZeroU16>,
    /// How much content our server's responses have. Default: 1000 bytes.
    #[serde(skip_serializing_if = "is_usual")]
    pub size: DataSize,
    /// The file whose bytes are the content of our server's responses, instead of generated data, and that responses are compared
    /// with; at most 64 MiB. A relative name is in the folder of the scenario.
    #[serde(skip_serializing_if = "is_default")]
    pub file: Option<String>,
    /// How our server says where the content ends. Default: by its length.
    #[serde(skip_serializing_if = "is_default")]
    pub framing: HttpBody,
    /// Headers of our server's responses beside those that HTTP needs.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub response_headers: IndexMap<String, String>,
    /// How many bytes of content a response is to have. One of another size is counted as unexpected, and the session goes on.
    /// Default: with our own server of a fixed size that size, else any.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub expect_size: Option<Bytes>,
    /// The status that a response is to have. Default: any below 400; one of 400 or more is counted as unexpected.
    #[serde(skip_serializing_if = "is_default")]
    pub expect_status: Option<NonZeroU16>,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// RFC 9110 §9.3.1
    #[default]
    Get,
    /// RFC 9110 §9.3.2: the response has no content.
    Head,
    /// RFC 9110 §9.3.3
    Post,
    /// RFC 9110 §9.3.4
    Put,
    /// RFC 9110 §9.3.5
    Delete,
    /// RFC 9110 §9.3.7
    Options,
}

impl Method {
    /// As it stands in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }
}

/// How a response says where its content ends (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HttpBody {
    /// By its length in the head.
    #[default]
    Length,
    /// In chunks of 4096 bytes.
    Chunked,
    /// By the end of the connection.
    Close,
}

impl Default for Http {
    fn default() -> Http {
        Http {
            target: root(),
            host: None,
            method: Method::default(),
            headers: IndexMap::new(),
            body: None,
            expect_continue: false,
            requests: NonZeroU32::MIN,
            pipeline: NonZeroU16::MIN,
            think: None,
            server_closes: false,
            status: None,
            size: usual(),
            file: None,
            framing: HttpBody::default(),
            response_headers: IndexMap::new(),
            expect_size: None,
            expect_status: None,
        }
    }
}

impl Http {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        let visible = |text: &str| text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !self.target.starts_with('/') && self.target != "*" || !visible(&self.target) {
            let why = fault!(
                "a target begins with / and has no spaces, control characters or letters beyond ASCII";
                "write for example /index.html, and others percent-encoded"
            );
            return Err(("target", why));
        }
        if self.target.len() > TARGET_MAX {
            return Err(("target", fault!("a target has {TARGET_MAX} characters at most")));
        }
        if let Some(host) = &self.host
            && (host.is_empty() || host.len() > 255 || !visible(host))
        {
            return Err(("host", fault!("a host has 1 to 255 visible characters of ASCII")));
        }
        check_headers(&self.headers).map_err(|why| ("headers", why))?;
        check_headers(&self.response_headers).map_err(|why| ("response-headers", why))?;
        if self.expect_continue && self.body.is_none_or(|body| body.get() == 0) {
            let why = fault!("only a request with content waits for it"; "give it a 'body'");
            return Err(("expect-continue", why));
        }
        if self.expect_continue && self.pipeline.get() > 1 {
            let why = fault!("such a request waits, and is not pipelined"; "leave 'pipeline' out");
            return Err(("pipeline", why));
        }
        if self.pipeline.get() > 1 && self.think.is_some() {
            let why = fault!("pipelined requests do not wait for responses"; "leave 'think' out");
            return Err(("think", why));
        }
        for (key, status) in [("status", self.status), ("expect-status", self.expect_status)] {
            check_status(status).map_err(|why| (key, why))?;
        }
        if let Some(file) = &self.file {
            if file.is_empty() || file.len() > FILE_NAME_MAX {
                let why = fault!("the name of a file has 1 to {FILE_NAME_MAX} bytes");
                return Err(("file", why));
            }
            if !is_usual(&self.size) {
                let why =
                    fault!("the file says how long the content is"; "leave 'size' or 'file' out");
                return Err(("size", why));
            }
        }
        if self.framing == HttpBody::Close && self.requests.get() > 1 {
            let why = fault!(
                "a connection whose end is that of the content has one response";
                "leave 'requests' out, or choose the framing 'length' or 'chunked'"
            );
            return Err(("framing", why));
        }
        self.size.check().map_err(|why| ("size", why))?;
        self.think.iter().try_for_each(Duration::check).map_err(|why| ("think", why))
    }
}

/// Headers that are written by the user (RFC 9110 §5.1, §5.5).
fn check_headers(headers: &IndexMap<String, String>) -> Result<(), Fault> {
    /// What HTTP itself needs, and is written from other keys.
    const OWN: [&str; 6] =
        ["host", "content-length", "transfer-encoding", "connection", "expect", "trailer"];
    if headers.len() > HEADERS_MAX {
        return Err(fault!("there are {} headers, and {HEADERS_MAX} is the most", headers.len()));
    }
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (name, value) in headers {
        if name.is_empty() || name.len() > 255 || !name.chars().all(token) {
            let name = crate::text::printable(name, 64);
            return Err(fault!("'{name}' is not the name of a header (RFC 9110 §5.1)"));
        }
        if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(fault!(
                "'{name}' follows from other settings"; "use 'host', 'body', 'framing', 'server-closes' …"
            ));
        }
        let allowed = |c: char| c == '\t' || (' '..='~').contains(&c);
        if value.len() > 4000 || !value.chars().all(allowed) {
            return Err(fault!(
                "the value of '{name}' has at most 4000 characters of ASCII, and no control characters"
            ));
        }
    }
    Ok(())
}

fn root() -> String {
    "/".to_owned()
}

fn usual() -> DataSize {
    Bytes::new(1000).into()
}

fn is_root(target: &str) -> bool {
    target == "/"
}

/// That a status can be one of a response.
pub(super) fn check_status(status: Option<NonZeroU16>) -> Result<(), Fault> {
    match status.is_some_and(|status| !(200..=599).contains(&status.get())) {
        true => Err(fault!("the status of a response is 200 to 599")),
        false => Ok(()),
    }
}

fn is_usual(size: &DataSize) -> bool {
    *size == usual()
}

fn is_one(count: &NonZeroU32) -> bool {
    *count == NonZeroU32::MIN
}

fn is_no_pipeline(count: &NonZeroU16) -> bool {
    *count == NonZeroU16::MIN
}
