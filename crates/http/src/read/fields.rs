//! What the fields of a head say of its message: lengths, codings, what becomes of the connection, Host, expectations.

use crate::Bad;

/// The fields of a head, in the order of arrival. A folded value has its line ends (RFC 9112 §5.2).
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(&'a [httparse::Header<'a>]);

impl<'a> Fields<'a> {
    pub(super) fn new(fields: &'a [httparse::Header<'a>]) -> Fields<'a> {
        Fields(fields)
    }

    /// Names as they were sent, and values without the spaces around them.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.0.iter().map(|field| (field.name, field.value))
    }

    /// The first value of a field, whose name is compared without case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// What Content-Length says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentLength {
    Absent,
    Is(u64),
    Invalid(Bad),
}

/// What Transfer-Encoding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferEncoding {
    Absent,
    /// Chunked alone.
    Chunked,
    /// Other codings, then chunked.
    OtherThenChunked,
    /// The last coding is not chunked; chunked may stand before it.
    NotChunked {
        after_chunked: bool,
    },
    /// Chunked twice, or nothing at all.
    Invalid,
}

/// What the framing of a message depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub content_length: ContentLength,
    pub transfer_encoding: TransferEncoding,
    /// `close` and `keep-alive` stand in Connection.
    pub close: bool,
    pub keep_alive: bool,
    pub host: Option<&'a [u8]>,
    pub host_repeated: bool,
    /// `100-continue`, and anything else, stand in Expect.
    pub expects_continue: bool,
    pub expects_other: bool,
}

impl<'a> Facts<'a> {
    pub(super) fn read(fields: &Fields<'a>) -> Facts<'a> {
        let mut facts = Facts {
            content_length: ContentLength::Absent,
            transfer_encoding: TransferEncoding::Absent,
            close: false,
            keep_alive: false,
            host: None,
            host_repeated: false,
            expects_continue: false,
            expects_other: false,
        };
        for (name, value) in fields.iter() {
            // The lengths of the names differ: most fields need no comparison.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => {
                    facts.host_repeated |= facts.host.is_some();
                    facts.host = Some(value);
                }
                6 if name.eq_ignore_ascii_case("expect") => facts.expect(value),
                10 if name.eq_ignore_ascii_case("connection") => facts.connection(value),
                14 if name.eq_ignore_ascii_case("content-length") => facts.length(value),
                17 if name.eq_ignore_ascii_case("transfer-encoding") => facts.coding(value),
                _ => {}
            }
        }
        facts
    }

    fn expect(&mut self, value: &[u8]) {
        for member in members(value) {
            let known = member.eq_ignore_ascii_case(b"100-continue");
            self.expects_continue |= known;
            self.expects_other |= !known;
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for member in members(value) {
            self.close |= member.eq_ignore_ascii_case(b"close");
            self.keep_alive |= member.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Equal values are one, in one field or several (RFC 9110 §8.6). An empty member is none.
    fn length(&mut self, value: &[u8]) {
        for member in value.split(|&byte| byte == b',') {
            self.content_length = match (self.content_length, decimal(trim(member))) {
                (ContentLength::Invalid(bad), _) | (_, Err(bad)) => ContentLength::Invalid(bad),
                (ContentLength::Is(before), Ok(len)) if before != len => {
                    ContentLength::Invalid(Bad::ContentLengthDiffers)
                }
                (_, Ok(len)) => ContentLength::Is(len),
            };
        }
    }

    /// Codings in the order of several fields (RFC 9110 §5.3).
    fn coding(&mut self, value: &[u8]) {
        let mut any = false;
        for member in members(value) {
            any = true;
            let chunked = member.eq_ignore_ascii_case(b"chunked");
            self.transfer_encoding = match (self.transfer_encoding, chunked) {
                (TransferEncoding::Absent, true) => TransferEncoding::Chunked,
                (TransferEncoding::Absent, false) => {
                    TransferEncoding::NotChunked { after_chunked: false }
                }
                (TransferEncoding::NotChunked { after_chunked: false }, true) => {
                    TransferEncoding::OtherThenChunked
                }
                (TransferEncoding::Chunked | TransferEncoding::OtherThenChunked, false) => {
                    TransferEncoding::NotChunked { after_chunked: true }
                }
                (same @ TransferEncoding::NotChunked { .. }, false) => same,
                (TransferEncoding::Invalid, _) | (_, true) => TransferEncoding::Invalid,
            };
        }
        if !any && self.transfer_encoding == TransferEncoding::Absent {
            self.transfer_encoding = TransferEncoding::Invalid;
        }
    }
}

/// The members of a list that are not empty (RFC 9110 §5.6.1).
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// Without spaces, tabs and the line ends of folded lines around it.
fn trim(mut bytes: &[u8]) -> &[u8] {
    const SPACE: [u8; 4] = *b" \t\r\n";
    while let [first, rest @ ..] = bytes
        && SPACE.contains(first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && SPACE.contains(last)
    {
        bytes = rest;
    }
    bytes
}

fn decimal(digits: &[u8]) -> Result<u64, Bad> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Bad::ContentLength);
    }
    let mut number = 0_u64;
    for digit in digits {
        let next =
            number.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
        number = next.ok_or(Bad::BodyTooLong)?;
    }
    Ok(number)
}

/// Whether Host is a host with an optional port: characters of `uri-host`, brackets only around an address, digits behind the
/// colon. Empty is allowed (RFC 9110 §7.2, RFC 3986 §3.2.2).
pub(crate) fn is_host(value: &[u8]) -> bool {
    let (host, port) = match value {
        [b'[', rest @ ..] => {
            let Some(close) = memchr::memchr(b']', rest) else { return false };
            let (address, behind) = rest.split_at_checked(close).unwrap_or((rest, &[]));
            let literal = |byte: &u8| byte.is_ascii_alphanumeric() || b".:%-_~".contains(byte);
            if address.is_empty() || !address.iter().all(literal) {
                return false;
            }
            (&[][..], behind.get(1..).unwrap_or(&[]))
        }
        _ => value
            .split_at_checked(memchr::memchr(b':', value).unwrap_or(value.len()))
            .unwrap_or((value, &[])),
    };
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    let port_is = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    host.iter().all(name) && port_is
}
