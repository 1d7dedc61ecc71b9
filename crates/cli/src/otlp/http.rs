//! One request of HTTP/1.1 to a collector, and its answer, within a time. The collector may be anybody: the answer has a limit, no
//! redirect is followed, and nothing that it says is done.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::endpoint::Endpoint;

/// The most bytes of an answer with its head. The longest that says something is a message of why values were not taken.
const ANSWER_MAX: usize = 64 << 10;
/// The most pieces in which it may come: each is looked at with all before it.
const PIECES_MAX: usize = 256;
/// The most fields of its head.
const FIELDS_MAX: usize = 64;
/// The most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// What a collector answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// How long it asks to be left alone.
    pub retry_after: Option<Duration>,
    /// What it says.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The name has no address.
    Name(io::Error),
    /// Nobody could be connected to.
    Connect(io::Error),
    /// The connection broke.
    Broken(io::Error),
    /// It took too long.
    TooLate,
    /// It has no end.
    TooLong,
    /// It is not HTTP/1.1.
    Malformed,
    /// The connection ended before it.
    Closed,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Name(error) => write!(f, "the host has no address: {error}"),
            NoAnswer::Connect(error) => write!(f, "cannot connect: {error}"),
            NoAnswer::Broken(error) => write!(f, "the connection broke: {error}"),
            NoAnswer::TooLate => f.write_str("the collector did not answer in time"),
            NoAnswer::TooLong => {
                let kib = ANSWER_MAX >> 10;
                write!(
                    f,
                    "the answer is longer than {kib} KiB, or in more than {PIECES_MAX} pieces"
                )
            }
            NoAnswer::Malformed => f.write_str("the answer is not HTTP/1.1"),
            NoAnswer::Closed => {
                f.write_str("the collector closed the connection without an answer")
            }
        }
    }
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> NoAnswer {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => NoAnswer::TooLate,
            ErrorKind::UnexpectedEof => NoAnswer::Closed,
            _ => NoAnswer::Broken(error),
        }
    }
}

/// Whom to ask, and how.
#[derive(Debug)]
pub struct Client {
    /// Where.
    pub endpoint: Endpoint,
    /// What stands before every body, up to its length.
    pub head: String,
    /// How it is encrypted, and whose certificate is expected.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Client {
    /// Of an endpoint; `headers` can stand in a head.
    pub fn new(
        endpoint: Endpoint,
        headers: &[(String, String)],
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> Client {
        let mut head =
            format!("POST {} HTTP/1.1\r\nHost: {}\r\n", endpoint.path, endpoint.authority());
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
            head.push_str(concat!("User-Agent: Wirebeat/", env!("CARGO_PKG_VERSION"), "\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Content-Type: application/json\r\nConnection: close\r\nContent-Length: ");
        Client { endpoint, head, tls }
    }

    /// Sends a body, and reads the answer, until `deadline`.
    ///
    /// # Errors
    /// There is no answer, or none that is HTTP.
    pub fn post(&self, body: &[u8], deadline: Instant) -> Result<Answer, NoAnswer> {
        let mut stream = self.connect(deadline)?;
        let mut request = format!("{}{}\r\n\r\n", self.head, body.len()).into_bytes();
        request.extend_from_slice(body);
        match &self.tls {
            None => exchange(&mut stream, &request),
            Some((config, name)) => {
                let connection = ClientConnection::new(Arc::clone(config), name.clone())
                    .map_err(|error| NoAnswer::Broken(io::Error::other(error)))?;
                exchange(&mut StreamOwned::new(connection, stream), &request)
            }
        }
    }

    fn connect(&self, deadline: Instant) -> Result<Timed, NoAnswer> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let addresses = (host.as_str(), *port).to_socket_addrs().map_err(NoAnswer::Name)?;
        let mut last = NoAnswer::Name(ErrorKind::NotFound.into());
        for address in addresses.take(ADDRESSES_MAX) {
            let left = left(deadline)?;
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => {
                    // a request is written at once
                    let _ = stream.set_nodelay(true);
                    return Ok(Timed { stream, deadline });
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => last = NoAnswer::TooLate,
                Err(error) => last = NoAnswer::Connect(error),
            }
        }
        Err(last)
    }
}

/// How much time is left; it is over where that is nothing.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A connection on which nothing takes longer than until a deadline.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(bytes)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Writes a request and reads what is answered.
fn exchange(stream: &mut (impl Read + Write), request: &[u8]) -> Result<Answer, NoAnswer> {
    let written = stream.write_all(request).and_then(|()| stream.flush());
    // one who refuses a request may answer before its end, and close
    let unsent = written.err().map(NoAnswer::from);
    if matches!(unsent, Some(NoAnswer::TooLate)) {
        return Err(NoAnswer::TooLate);
    }
    read_answer(stream).map_err(|error| unsent.unwrap_or(error))
}

fn read_answer(stream: &mut impl Read) -> Result<Answer, NoAnswer> {
    let mut came = Vec::new();
    let mut piece = [0; 4096];
    for _ in 0..PIECES_MAX {
        match read(&came, Ended::No)? {
            Some(answer) => return Ok(answer),
            None if came.len() >= ANSWER_MAX => return Err(NoAnswer::TooLong),
            None => {}
        }
        let room = (ANSWER_MAX - came.len()).min(piece.len());
        let count = match stream.read(piece.get_mut(..room).unwrap_or_default()) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // TLS that ends without saying so: what came may be whole
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return read(&came, Ended::Yes)?.ok_or(match came.is_empty() {
                true => NoAnswer::Closed,
                false => NoAnswer::Malformed,
            });
        }
        came.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
    Err(NoAnswer::TooLong)
}

/// Whether the connection has ended behind some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Yes,
    No,
}

/// What the bytes that came so far mean; `None` where there has to be more.
fn read(bytes: &[u8], ended: Ended) -> Result<Option<Answer>, NoAnswer> {
    let mut rest = bytes;
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let head = match response.parse(rest) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(NoAnswer::Malformed),
        };
        let status = response.code.unwrap_or_default();
        let after = rest.get(head..).unwrap_or_default();
        if (100..200).contains(&status) && status != 101 {
            rest = after;
            continue;
        }
        let value = |name: &str| {
            let mut all =
                response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            all.next().and_then(|field| std::str::from_utf8(field.value).ok()).map(str::trim)
        };
        let seconds = value("retry-after").and_then(|text| text.parse().ok());
        let body = match (value("transfer-encoding"), value("content-length")) {
            _ if status == 204 || status == 304 => Some(Vec::new()),
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => unchunked(after)?,
            (Some(_), _) => return Err(NoAnswer::Malformed),
            (None, Some(length)) => {
                let length: usize = length.parse().map_err(|_| NoAnswer::Malformed)?;
                if length > ANSWER_MAX {
                    return Err(NoAnswer::TooLong);
                }
                after.get(..length).map(<[u8]>::to_vec)
            }
            (None, None) => (ended == Ended::Yes).then(|| after.to_vec()),
        };
        let answer = |body| Answer { status, retry_after: seconds.map(Duration::from_secs), body };
        return Ok(body.map(answer));
    }
}

/// A body without its chunks (RFC 9112 §7.1); `None` where there has to be more. Trailers are not read.
fn unchunked(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, NoAnswer> {
    let mut body = Vec::new();
    loop {
        let (start, size) = match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(NoAnswer::Malformed),
        };
        if size == 0 {
            return Ok(Some(body));
        }
        let size = usize::try_from(size).ok().filter(|size| *size <= ANSWER_MAX);
        let size = size.ok_or(NoAnswer::TooLong)?;
        let Some(chunk) = bytes.get(start..start + size) else { return Ok(None) };
        body.extend_from_slice(chunk);
        match bytes.get(start + size..) {
            Some([b'\r', b'\n', rest @ ..]) => bytes = rest,
            Some([] | [b'\r']) | None => return Ok(None),
            Some(_) => return Err(NoAnswer::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<Answer>, NoAnswer> {
        read(text.as_bytes(), Ended::No)
    }

    fn body(text: &str) -> Option<String> {
        of(text).unwrap().map(|answer| String::from_utf8(answer.body).unwrap())
    }

    #[test]
    fn an_answer_is_whole_by_its_length_by_chunks_or_by_its_end() {
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap(), "{}");
        assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\n{"), None);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n";
        assert_eq!(body(chunked).unwrap(), "{}");
        for end in 0..chunked.len() - "\r\n".len() {
            assert_eq!(body(&chunked[..end]), None, "{end}");
        }
        let unlimited = "HTTP/1.0 200 OK\r\n\r\n{}";
        assert_eq!(body(unlimited), None);
        assert_eq!(read(unlimited.as_bytes(), Ended::Yes).unwrap().unwrap().body, b"{}");
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n").unwrap(), "");
        assert_eq!(
            body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap(),
            ""
        );
    }

    #[test]
    fn it_may_ask_to_be_left_alone() {
        let after = |value: &str| {
            let text = format!(
                "HTTP/1.1 429 Too Many\r\nRetry-After:{value}\r\nContent-Length: 0\r\n\r\n"
            );
            let answer = of(&text).unwrap().unwrap();
            assert_eq!(answer.status, 429);
            answer.retry_after
        };
        assert_eq!(after(" 7"), Some(Duration::from_secs(7)));
        assert_eq!(after(" 18446744073709551615").unwrap(), Duration::from_secs(u64::MAX));
        for none in [" -1", " Wed, 21 Oct 2026 07:28:00 GMT", " x", ""] {
            assert_eq!(after(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for garbage in [
            "\0\0\0\0",
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n",
        ] {
            assert!(matches!(of(garbage), Err(NoAnswer::Malformed)), "{garbage:?}");
        }
        for long in [
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
        ] {
            assert!(matches!(of(long), Err(NoAnswer::TooLong)), "{long:?}");
        }
        let endless = |begin: &'static str, piece: u8| begin.as_bytes().chain(io::repeat(piece));
        for begin in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nX: "] {
            let said = read_answer(&mut endless(begin, b'x'));
            assert!(matches!(said, Err(NoAnswer::TooLong)), "{begin:?}: {said:?}");
        }
        assert!(matches!(read_answer(&mut io::empty()), Err(NoAnswer::Closed)));
        assert!(matches!(read_answer(&mut "HTTP/1.1 2".as_bytes()), Err(NoAnswer::Malformed)));
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut seed = 4737_u32;
        for round in 0..3000 {
            let mut bytes =
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n".to_vec();
            for _ in 0..=round % 7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = seed as usize % bytes.len();
                bytes[at] = (seed >> 24) as u8;
            }
            let _ = (read(&bytes, Ended::No), read(&bytes, Ended::Yes));
        }
    }

    #[test]
    fn a_head_has_what_was_given_and_what_is_needed() {
        let endpoint =
            Endpoint::parse("http://[::1]:4318", super::super::endpoint::PathRule::OrMetrics)
                .unwrap();
        let headers = [("X-Scope-OrgID".to_owned(), "7".to_owned())];
        let head = Client::new(endpoint, &headers, None).head;
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\nHost: [::1]:4318\r\n"), "{head}");
        assert!(head.contains("\r\nX-Scope-OrgID: 7\r\n"), "{head}");
        assert!(head.ends_with(
            "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
        ));
    }
}
