//! Responses, as a client reads them (RFC 9112 §4, §6.3).

use std::mem::MaybeUninit;

use super::fields::{ContentLength, Facts, TransferEncoding};
use super::head::Gathered;
use super::{After, End, Fields, Framing, Progress, Side, State};
use crate::read::body::Body;
use crate::{Bad, FIELDS_MAX, HEAD_MAX};

/// What a response answers, as far as its framing depends on it (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// HEAD: no response has a body.
    Head,
    /// CONNECT: behind 2xx there is a tunnel.
    Connect,
    /// Any other method.
    Other,
}

/// The head of a final response, or of 101.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 999: what is 600 or more is as its server sent it (RFC 9110 §15).
    pub status: u16,
    /// 0 or 1.
    pub minor_version: u8,
    /// How the end of the body is found.
    pub framing: Framing,
    /// What Content-Length says, also where there is no body or another framing counts. None where it is missing or invalid.
    pub content_length: Option<u64>,
    /// What becomes of the connection after this response.
    pub after: After,
    /// Bytes of the head.
    pub len: usize,
}

/// What bytes of a server mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEvent<'b> {
    /// A whole response that is not the final one: 100 (Continue), 103 and other 1xx but 101 (RFC 9110 §15.2). The request stays
    /// outstanding.
    Interim {
        /// 100 to 199.
        status: u16,
        /// Bytes on the connection.
        message_len: u64,
    },
    /// The head of a response.
    Head(ResponseHead),
    /// A piece of the body, never empty, chunks without their framing.
    Body(&'b [u8]),
    /// The response is over; the next one answers the next request.
    End(End),
}

/// Reads the responses of a connection. 32 bytes, and what has arrived of a head in pieces.
#[derive(Debug)]
pub struct ResponseReader {
    state: State,
}

impl Default for ResponseReader {
    fn default() -> ResponseReader {
        ResponseReader::new()
    }
}

impl ResponseReader {
    /// Before the first response of a connection.
    #[must_use]
    pub fn new() -> ResponseReader {
        ResponseReader { state: State::new(Side::Client) }
    }

    /// The next event in `bytes`, which lose what was read; None when more have to come. `request` is the oldest request without
    /// a final response, and None if there is none: call it in a loop, with the next request behind each [`ResponseEvent::End`].
    ///
    /// When the connection is over (a tunnel, or a response after which it closes), nothing is read any more: None, and the bytes stay.
    ///
    /// # Errors
    ///
    /// When the bytes are invalid, then and each time after.
    pub fn read<'b>(
        &mut self,
        request: Option<RequestKind>,
        bytes: &mut &'b [u8],
    ) -> Result<Option<ResponseEvent<'b>>, Bad> {
        self.read_with(request, bytes, |_| ())
    }

    /// As [`ResponseReader::read`], and `fields` gets the fields of a head before its event is returned.
    ///
    /// # Errors
    ///
    /// As those of [`ResponseReader::read`].
    pub fn read_with<'b>(
        &mut self,
        request: Option<RequestKind>,
        bytes: &mut &'b [u8],
        fields: impl FnOnce(Fields<'_>),
    ) -> Result<Option<ResponseEvent<'b>>, Bad> {
        match &self.state {
            State::Head(..) => self.read_head(request, bytes, fields),
            State::Body(_) => {
                let progress = self.state.read_body(bytes, Side::Client, u64::MAX)?;
                Ok(match progress {
                    Progress::Data(data) => Some(ResponseEvent::Body(data)),
                    Progress::End(end) => Some(ResponseEvent::End(end)),
                    Progress::More => None,
                })
            }
            State::Over => Ok(None),
            State::Failed(bad) => Err(*bad),
        }
    }

    fn read_head<'b>(
        &mut self,
        request: Option<RequestKind>,
        bytes: &mut &'b [u8],
        fields: impl FnOnce(Fields<'_>),
    ) -> Result<Option<ResponseEvent<'b>>, Bad> {
        let State::Head(pieces, scan) = &mut self.state else { return Ok(None) };
        if bytes.is_empty() {
            return Ok(None);
        }
        let Some(request) = request else { return Err(self.state.fail(Bad::Unsolicited)) };
        let parsed =
            if pieces.is_none() { parse_whole(bytes, request, fields) } else { Err(fields) };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(fields) => match (Gathered { pieces, scan, side: Side::Client }).take(bytes) {
                Ok(None) => return Ok(None),
                Ok(Some(head)) => parse(head, request, fields),
                Err(bad) => Err(bad),
            },
        };
        let head = parsed.map_err(|bad| self.state.fail(bad))?;
        if matches!(head.status, 100 | 102..=199) {
            self.state = State::new(Side::Client);
            let message_len = head.len as u64;
            return Ok(Some(ResponseEvent::Interim { status: head.status, message_len }));
        }
        self.state = State::Body(Body::new(head.framing, head.after, head.len));
        Ok(Some(ResponseEvent::Head(head)))
    }

    /// The peer ended the connection in order (FIN): the end of a response that lasts until then, and None between
    /// responses.
    ///
    /// # Errors
    ///
    /// When a response was not complete, and when the bytes before were invalid.
    pub fn finish(&mut self) -> Result<Option<End>, Bad> {
        self.state.finish()
    }

    /// Whether nothing is read any more: a tunnel, the last response, an end, or an error.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Failed(_))
    }

    /// Bytes of the present response so far: of the whole message, and of its body.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.state.progress()
    }

    /// Whether it stands where a new one does: nothing of a response came, and one may come.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.state.is_new(Side::Client)
    }

    /// Bytes of memory beside the reader itself: at most [`HEAD_MAX`], and 0 but within a head that comes in pieces.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state.held()
    }
}

type Room<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// Divides a head into its parts.
fn divide<'h, 'b>(
    bytes: &'b [u8],
    room: &'h mut Room<'b>,
) -> (httparse::Result<usize>, httparse::Response<'h, 'b>) {
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, room);
    (parsed, response)
}

/// Reads a head in place without looking for its end before: the usual case, in one go. Gives `seen` back where that does not
/// succeed: then its end decides.
fn parse_whole<S: FnOnce(Fields<'_>)>(
    bytes: &mut &[u8],
    request: RequestKind,
    seen: S,
) -> Result<Result<ResponseHead, Bad>, S> {
    let all = *bytes;
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    match divide(all, &mut room) {
        // Empty lines before it would have been skipped.
        (Ok(httparse::Status::Complete(len)), response)
            if len <= HEAD_MAX && all.first() == Some(&b'H') =>
        {
            *bytes = all.get(len..).unwrap_or(&[]);
            Ok(read_parts(&response, len, request, seen))
        }
        _ => Err(seen),
    }
}

/// Reads a head whose end is known.
fn parse(
    bytes: &[u8],
    request: RequestKind,
    seen: impl FnOnce(Fields<'_>),
) -> Result<ResponseHead, Bad> {
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    // RFC 9110 §2.5: a higher minor version is read as the highest that is known.
    let mut lowered = Vec::new();
    let mut head = bytes;
    if let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', b' ', ..] = bytes {
        lowered.extend_from_slice(bytes);
        if let Some(minor) = lowered.get_mut(7) {
            *minor = b'1';
        }
        head = &lowered;
    }
    let (parsed, response) = divide(head, &mut room);
    match parsed {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {
            read_parts(&response, len, request, seen)
        }
        // The end was found before.
        Ok(_) => Err(Bad::LineEnd),
        Err(error) => Err(match error {
            httparse::Error::HeaderName => Bad::FieldName,
            httparse::Error::HeaderValue => Bad::FieldValue,
            httparse::Error::NewLine => Bad::LineEnd,
            httparse::Error::TooManyHeaders => Bad::FieldsTooMany,
            httparse::Error::Status | httparse::Error::Token | httparse::Error::Version => {
                Bad::StatusLine
            }
        }),
    }
}

/// What the parts of a head of `len` bytes say.
fn read_parts(
    response: &httparse::Response<'_, '_>,
    len: usize,
    request: RequestKind,
    seen: impl FnOnce(Fields<'_>),
) -> Result<ResponseHead, Bad> {
    let (Some(status @ 100..), Some(minor_version)) = (response.code, response.version) else {
        return Err(Bad::StatusLine);
    };
    let fields = Fields::new(response.headers);
    let facts = Facts::read(&fields);
    let framing = framing(status, request, &facts)?;
    // RFC 9112 §6.1: where both are sent, or Transfer-Encoding by HTTP/1.0, the framing is doubtful.
    let coded = facts.transfer_encoding != TransferEncoding::Absent;
    let doubtful = framing == Framing::Chunked
        && coded
        && (minor_version == 0 || facts.content_length != ContentLength::Absent);
    let keep = !facts.close && (minor_version == 1 || facts.keep_alive);
    let after = match framing {
        Framing::Tunnel => After::Tunnel,
        Framing::UntilClose => After::Close,
        _ if doubtful => After::Doubtful,
        _ if !keep => After::Close,
        _ => After::Keep,
    };
    let content_length = match facts.content_length {
        ContentLength::Is(len) => Some(len),
        ContentLength::Absent | ContentLength::Invalid(_) => None,
    };
    seen(fields);
    Ok(ResponseHead { status, minor_version, framing, content_length, after, len })
}

/// The rules of RFC 9112 §6.3 in their order, those for responses.
fn framing(status: u16, request: RequestKind, facts: &Facts<'_>) -> Result<Framing, Bad> {
    match (status, request) {
        (101, _) | (200..=299, RequestKind::Connect) => return Ok(Framing::Tunnel),
        (100..=199 | 204 | 304, _) | (_, RequestKind::Head) => return Ok(Framing::None),
        _ => {}
    }
    match facts.transfer_encoding {
        TransferEncoding::Absent => {}
        TransferEncoding::Chunked | TransferEncoding::OtherThenChunked => {
            return Ok(Framing::Chunked);
        }
        TransferEncoding::NotChunked { .. } => return Ok(Framing::UntilClose),
        TransferEncoding::Invalid => return Err(Bad::TransferEncoding),
    }
    match facts.content_length {
        ContentLength::Is(len) => Ok(Framing::Length(len)),
        ContentLength::Invalid(bad) => Err(bad),
        ContentLength::Absent => Ok(Framing::UntilClose),
    }
}
