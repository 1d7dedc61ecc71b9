//! Requests, as a server reads them (RFC 9112 §3, §6.3).

use std::mem::MaybeUninit;

use super::fields::{ContentLength, Facts, TransferEncoding, is_host};
use super::head::Gathered;
use super::{After, End, Fields, Framing, Progress, Side, State};
use crate::read::body::Body;
use crate::{Bad, FIELDS_MAX, HEAD_MAX};

/// What a server takes, beside [`HEAD_MAX`] and [`FIELDS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a target. RFC 9112 §3 recommends request lines of 8000 at least.
    pub target: usize,
    /// Bytes of a body.
    pub body: u64,
}

impl Default for Limits {
    /// Targets of 8192 bytes, bodies of any length.
    fn default() -> Limits {
        Limits { target: 8192, body: u64::MAX }
    }
}

/// A method (RFC 9110 §9, RFC 5789). Methods are compared with case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token; [`RequestLine::method`] has it.
    Other,
}

impl Method {
    fn of(token: &str) -> Method {
        match token {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "CONNECT" => Method::Connect,
            "OPTIONS" => Method::Options,
            "TRACE" => Method::Trace,
            "PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }
}

/// What the head of a request says in text. It lasts for the time of a call.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// A token.
    pub method: &'a str,
    /// ASCII without spaces and controls, of 1 to [`Limits::target`] bytes, in the form of RFC 9112 §3.2 that fits the method.
    pub target: &'a str,
    /// The value of Host. It may be empty.
    pub host: Option<&'a [u8]>,
    /// All fields.
    pub fields: Fields<'a>,
}

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// 0 or 1.
    pub minor_version: u8,
    /// How the end of the body is found: [`Framing::None`], [`Framing::Length`] or [`Framing::Chunked`].
    pub framing: Framing,
    /// The client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). Never without a body.
    pub expects_continue: bool,
    /// [`After::Keep`] or [`After::Close`], as far as the client decides.
    pub after: After,
    /// Bytes of the head, with empty lines before it.
    pub len: usize,
}

/// What bytes of a client mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEvent<'b> {
    /// The head of a request.
    Head(RequestHead),
    /// A piece of the body, never empty, chunks without their framing.
    Body(&'b [u8]),
    /// The request is over; the next one may follow.
    End(End),
}

/// Reads the requests of a connection. 32 bytes, and what has arrived of a head in pieces.
#[derive(Debug)]
pub struct RequestReader {
    state: State,
}

impl Default for RequestReader {
    fn default() -> RequestReader {
        RequestReader::new()
    }
}

impl RequestReader {
    /// Before the first request of a connection.
    #[must_use]
    pub fn new() -> RequestReader {
        RequestReader { state: State::new(Side::Server) }
    }

    /// The next event in `bytes`, which lose what was read; None when more have to come: call it in a loop. `line` gets
    /// the text of a head before its event is returned.
    ///
    /// Behind a request after which the connection closes nothing is read any more: None, and the bytes stay (RFC 9112 §9.6).
    ///
    /// # Errors
    ///
    /// When the bytes are invalid, then and each time after. [`Bad::status`] is what to answer before closing.
    pub fn read<'b>(
        &mut self,
        limits: &Limits,
        bytes: &mut &'b [u8],
        line: impl FnOnce(RequestLine<'_>),
    ) -> Result<Option<RequestEvent<'b>>, Bad> {
        match &self.state {
            State::Head(..) => self.read_head(limits, bytes, line),
            State::Body(_) => {
                let progress = self.state.read_body(bytes, Side::Server, limits.body)?;
                Ok(match progress {
                    Progress::Data(data) => Some(RequestEvent::Body(data)),
                    Progress::End(end) => Some(RequestEvent::End(end)),
                    Progress::More => None,
                })
            }
            State::Over => Ok(None),
            State::Failed(bad) => Err(*bad),
        }
    }

    fn read_head<'b>(
        &mut self,
        limits: &Limits,
        bytes: &mut &'b [u8],
        line: impl FnOnce(RequestLine<'_>),
    ) -> Result<Option<RequestEvent<'b>>, Bad> {
        let State::Head(pieces, scan) = &mut self.state else { return Ok(None) };
        let parsed = if pieces.is_none() { parse_whole(bytes, limits, line) } else { Err(line) };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(line) => match (Gathered { pieces, scan, side: Side::Server }).take(bytes) {
                Ok(None) => return Ok(None),
                Ok(Some(head)) => parse(head, limits, line),
                Err(bad) => Err(bad),
            },
        };
        let head = parsed.map_err(|bad| self.state.fail(bad))?;
        self.state = State::Body(Body::new(head.framing, head.after, head.len));
        Ok(Some(RequestEvent::Head(head)))
    }

    /// The peer ended its side of the connection (FIN). None between requests.
    ///
    /// # Errors
    ///
    /// When a request was not complete, and when the bytes before were invalid.
    pub fn finish(&mut self) -> Result<Option<End>, Bad> {
        self.state.finish()
    }

    /// Whether nothing is read any more: the last request, an end, or an error.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Failed(_))
    }

    /// Bytes of the present request so far: of the whole message, and of its body.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.state.progress()
    }

    /// Whether it stands where a new one does: nothing of a request came, and one may come.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.state.is_new(Side::Server)
    }

    /// Bytes of memory beside the reader itself: at most [`HEAD_MAX`], and 0 but within a head that comes in pieces.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state.held()
    }
}

/// Reads a head in place without looking for its end before: the usual case, in one go. Gives `line` back where that does not
/// succeed: then its end decides.
fn parse_whole<L: FnOnce(RequestLine<'_>)>(
    bytes: &mut &[u8],
    limits: &Limits,
    line: L,
) -> Result<Result<RequestHead, Bad>, L> {
    let all = *bytes;
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(all, &mut room) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_MAX => {
            *bytes = all.get(len..).unwrap_or(&[]);
            Ok(read_parts(&request, len, limits, line))
        }
        _ => Err(line),
    }
}

/// Reads a head whose end is known, with empty lines before it.
fn parse(
    bytes: &[u8],
    limits: &Limits,
    line: impl FnOnce(RequestLine<'_>),
) -> Result<RequestHead, Bad> {
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut room) {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {
            read_parts(&request, len, limits, line)
        }
        // The end was found before.
        Ok(_) => Err(Bad::LineEnd),
        Err(httparse::Error::Version | httparse::Error::NewLine) => {
            let (at, minor) = version(bytes)?;
            if minor <= b'1' {
                // So it is a line end that is invalid.
                return Err(Bad::LineEnd);
            }
            // RFC 9110 §2.5: a higher minor version is read as the highest that is known.
            let mut lowered = bytes.to_vec();
            if let Some(minor) = lowered.get_mut(at) {
                *minor = b'1';
            }
            parse(&lowered, limits, line)
        }
        Err(error) => Err(match error {
            httparse::Error::HeaderName => Bad::FieldName,
            httparse::Error::HeaderValue => Bad::FieldValue,
            httparse::Error::TooManyHeaders => Bad::FieldsTooMany,
            httparse::Error::Token if request.method.is_none() => Bad::Method,
            httparse::Error::Token => Bad::Target,
            _ => Bad::LineEnd,
        }),
    }
}

/// What the parts of a head of `len` bytes say.
fn read_parts(
    request: &httparse::Request<'_, '_>,
    len: usize,
    limits: &Limits,
    line: impl FnOnce(RequestLine<'_>),
) -> Result<RequestHead, Bad> {
    let (Some(method), Some(target), Some(minor_version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Bad::Method);
    };
    if target.len() > limits.target {
        return Err(Bad::TargetTooLong);
    }
    let kind = Method::of(method);
    if !is_target(kind, target) {
        return Err(Bad::Target);
    }
    let fields = Fields::new(request.headers);
    let facts = Facts::read(&fields);
    let framing = framing(minor_version, &facts)?;
    host(minor_version, &facts)?;
    if matches!(framing, Framing::Length(len) if len > limits.body) {
        return Err(Bad::BodyTooLong);
    }
    if facts.expects_other && minor_version == 1 {
        return Err(Bad::Expectation);
    }
    let body = !matches!(framing, Framing::None | Framing::Length(0));
    let keep = !facts.close && (minor_version == 1 || facts.keep_alive);
    line(RequestLine { method, target, host: facts.host, fields });
    Ok(RequestHead {
        method: kind,
        minor_version,
        framing,
        // An HTTP/1.0 client cannot wait (RFC 9110 §10.1.1).
        expects_continue: facts.expects_continue && body && minor_version == 1,
        after: if keep { After::Keep } else { After::Close },
        len,
    })
}

/// Where the minor version of a request line stands, and its digit, if the major version is 1.
fn version(bytes: &[u8]) -> Result<(usize, u8), Bad> {
    let start = bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(0);
    let line = bytes.get(start..).unwrap_or(&[]);
    let line = line.get(..memchr::memchr(b'\n', line).unwrap_or(line.len())).unwrap_or(&[]);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words = line.split(|&byte| byte == b' ').count();
    match line.split_last_chunk::<8>() {
        Some((before, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]))
            if words == 3
                && before.ends_with(b" ")
                && major.is_ascii_digit()
                && minor.is_ascii_digit() =>
        {
            let at = start + line.len() - 1;
            if *major == b'1' { Ok((at, *minor)) } else { Err(Bad::Version) }
        }
        _ => Err(Bad::VersionSyntax),
    }
}

/// RFC 9112 §3.2: the four forms of a target.
fn is_target(method: Method, target: &str) -> bool {
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return false;
    }
    match method {
        // authority-form: a host and a port, both needed (§3.2.3).
        Method::Connect => {
            target.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && !port.is_empty())
                && is_host(target.as_bytes())
        }
        Method::Options if target == "*" => true,
        // origin-form, absolute-form.
        _ => target.starts_with('/') || is_absolute(target),
    }
}

fn is_absolute(target: &str) -> bool {
    target.split_once("://").is_some_and(|(scheme, rest)| {
        let tail = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(tail)
            && !rest.is_empty()
    })
}

/// RFC 9112 §3.2.
fn host(minor_version: u8, facts: &Facts<'_>) -> Result<(), Bad> {
    match facts.host {
        _ if facts.host_repeated => Err(Bad::HostRepeated),
        None if minor_version == 1 => Err(Bad::HostMissing),
        Some(host) if !is_host(host) => Err(Bad::HostInvalid),
        _ => Ok(()),
    }
}

/// The rules of RFC 9112 §6.3 in their order, those for requests, and §6.1.
fn framing(minor_version: u8, facts: &Facts<'_>) -> Result<Framing, Bad> {
    let coded = facts.transfer_encoding != TransferEncoding::Absent;
    if coded && minor_version == 0 {
        return Err(Bad::TransferEncodingVersion);
    }
    if coded && facts.content_length != ContentLength::Absent {
        return Err(Bad::LengthTwice);
    }
    match facts.transfer_encoding {
        TransferEncoding::Absent => {}
        TransferEncoding::Chunked => return Ok(Framing::Chunked),
        TransferEncoding::OtherThenChunked => return Err(Bad::TransferCoding),
        TransferEncoding::NotChunked { .. } | TransferEncoding::Invalid => {
            return Err(Bad::TransferEncoding);
        }
    }
    match facts.content_length {
        ContentLength::Is(len) => Ok(Framing::Length(len)),
        ContentLength::Invalid(bad) => Err(bad),
        ContentLength::Absent => Ok(Framing::None),
    }
}
