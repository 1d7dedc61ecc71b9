//! Messages of bytes over a stream: authenticated, encrypted, bounded in length and in time.
//!
//! Both ends say at once which protocol they speak ([`PREFACE`] and a version), then shake hands
//! (Noise `NNpsk0`, revision 34) and exchange messages of one or more chunks; `docs/control-connection.md`
//! has the bytes. Whoever does not know the key learns that this is Wirebeat, and nothing else. What
//! the messages say is not known here. A deadline holds for a whole message, so that a peer that
//! trickles bytes gains nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snow::{HandshakeState, TransportState};
use wirebeat_engine::clock::Clock;
use wirebeat_units::Nanos;

use super::key::Key;

/// What both ends send first.
pub const PREFACE: &[u8; 8] = b"wirebeat";
/// The version of everything below the messages; the byte after the preface.
pub const VERSION: u8 = 1;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Bytes of a handshake message: a public key and the tag of an empty payload.
const HANDSHAKE: usize = 32 + TAG;
/// Bytes that authenticate a Noise message.
const TAG: usize = 16;
/// The longest Noise message.
const LONGEST: usize = 65_535;
/// Bytes of message in a full chunk: what is left beside the tag and the byte that says what follows.
const CHUNK: usize = LONGEST - TAG - 1;
/// Another chunk of the same message follows this one, which is full.
const MORE: u8 = 1;
/// The message ends with this chunk.
const LAST: u8 = 0;

/// A connection, over which messages can be had before a deadline.
pub trait Stream: Read + Write {
    /// Reads that begin now fail with `WouldBlock` or `TimedOut` after `left`, which is not zero.
    fn limit_reads(&mut self, left: Duration) -> io::Result<()>;
    /// The same for writes.
    fn limit_writes(&mut self, left: Duration) -> io::Result<()>;
    /// Whether there is something to read, or the end, within `wait`.
    fn readable(&mut self, wait: Duration) -> io::Result<bool>;
}

impl Stream for TcpStream {
    fn limit_reads(&mut self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn limit_writes(&mut self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }

    fn readable(&mut self, wait: Duration) -> io::Result<bool> {
        self.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match self.peek(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if is_timeout(&error) || error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The other end closed the connection, or was killed.
    #[error("it closed the connection")]
    Closed,
    /// The deadline passed.
    #[error("it did not answer in time")]
    TimedOut,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(io::Error),
    /// The other end speaks something else.
    #[error("it does not speak Wirebeat's protocol")]
    Foreign,
    /// The other end has another version of the transport.
    #[error("it speaks version {0} of the transport, this is version {VERSION}")]
    Version(u8),
    /// The two ends have different keys.
    #[error("it has another key")]
    Key,
    /// Bytes that cannot be what the other end sent, or that make no message.
    #[error("it sent bytes that make no message")]
    Damaged,
    /// A message is longer than was agreed.
    #[error("it sent a message of more than {0} bytes")]
    TooLong(usize),
    /// The cipher does not work here.
    #[error("the handshake cannot be computed: {0}")]
    Cipher(snow::Error),
}

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof => TransportError::Closed,
            _ if is_timeout(&error) => TransportError::TimedOut,
            _ => TransportError::Failed(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// An end of a connection after the handshake.
pub struct Channel<S> {
    stream: S,
    noise: TransportState,
    clock: Arc<dyn Clock>,
    /// A frame as it is sent or received: length and ciphertext.
    frame: Vec<u8>,
    /// Its plaintext.
    plain: Vec<u8>,
}

/// A message and when all of it had arrived, on the channel's clock.
pub struct Received {
    /// The message.
    pub bytes: Vec<u8>,
    /// When.
    pub at: Nanos,
}

impl<S: Stream> Channel<S> {
    /// The end that connected.
    pub fn initiate(
        mut stream: S,
        key: &Key,
        clock: Arc<dyn Clock>,
        deadline: Instant,
    ) -> Result<Self, TransportError> {
        let ours = preface();
        let theirs = exchange_prefaces(&mut stream, &ours, deadline)?;
        let mut noise = handshake(key, [&ours, &theirs], true)?;
        let mut message = [0; HANDSHAKE];
        let length = noise.write_message(&[], &mut message).map_err(TransportError::Cipher)?;
        write_frame(&mut stream, &message[..length], deadline)?;
        match read_length(&mut stream, deadline)? {
            0 => return Err(TransportError::Key),
            HANDSHAKE => read(&mut stream, &mut message, deadline)?,
            _ => return Err(TransportError::Damaged),
        }
        noise.read_message(&message, &mut []).map_err(|_| TransportError::Key)?;
        Channel::after(noise, stream, clock)
    }

    /// The end that was connected to. When this returns, the other end may still be one that repeats
    /// what it once overheard; its first message is the proof.
    pub fn accept(
        mut stream: S,
        key: &Key,
        clock: Arc<dyn Clock>,
        deadline: Instant,
    ) -> Result<Self, TransportError> {
        let ours = preface();
        let theirs = exchange_prefaces(&mut stream, &ours, deadline)?;
        let mut noise = handshake(key, [&theirs, &ours], false)?;
        let mut message = [0; HANDSHAKE];
        if read_length(&mut stream, deadline)? != HANDSHAKE {
            return Err(TransportError::Damaged);
        }
        read(&mut stream, &mut message, deadline)?;
        if noise.read_message(&message, &mut []).is_err() {
            // An empty frame tells an honest person that the keys differ.
            write_frame(&mut stream, &[], deadline)?;
            return Err(TransportError::Key);
        }
        let length = noise.write_message(&[], &mut message).map_err(TransportError::Cipher)?;
        write_frame(&mut stream, &message[..length], deadline)?;
        Channel::after(noise, stream, clock)
    }

    fn after(
        noise: HandshakeState,
        stream: S,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TransportError> {
        let noise = noise.into_transport_mode().map_err(TransportError::Cipher)?;
        Ok(Channel { stream, noise, clock, frame: Vec::new(), plain: Vec::new() })
    }

    /// Sends a message of any length. Gives the time just before its last chunk left.
    pub fn send(&mut self, message: &[u8], deadline: Instant) -> Result<Nanos, TransportError> {
        let mut rest = message;
        loop {
            let (chunk, after) = rest.split_at(rest.len().min(CHUNK));
            let last = after.is_empty();
            self.plain.clear();
            self.plain.push(if last { LAST } else { MORE });
            self.plain.extend_from_slice(chunk);
            let sealed = self.plain.len() + TAG;
            self.frame.resize(2 + sealed, 0);
            let (length, sealing) = self.frame.split_at_mut(2);
            length.copy_from_slice(&(sealed as u16).to_be_bytes());
            self.noise.write_message(&self.plain, sealing).map_err(TransportError::Cipher)?;
            // As late as can be: clocks are compared by this.
            let at = self.clock.now();
            write(&mut self.stream, &self.frame, deadline)?;
            if last {
                return Ok(at);
            }
            rest = after;
        }
    }

    /// Receives a message of at most `limit` bytes.
    pub fn receive(&mut self, limit: usize, deadline: Instant) -> Result<Received, TransportError> {
        let mut bytes = Vec::new();
        loop {
            let sealed = read_length(&mut self.stream, deadline)?;
            if sealed <= TAG {
                return Err(TransportError::Damaged);
            }
            // Before it is read: a peer has no say in how much memory is taken.
            if bytes.len() + (sealed - TAG - 1) > limit {
                return Err(TransportError::TooLong(limit));
            }
            self.frame.resize(sealed, 0);
            read(&mut self.stream, &mut self.frame, deadline)?;
            let at = self.clock.now();
            self.plain.resize(sealed - TAG, 0);
            self.noise
                .read_message(&self.frame, &mut self.plain)
                .map_err(|_| TransportError::Damaged)?;
            match self.plain.split_first() {
                Some((&LAST, chunk)) => {
                    bytes.extend_from_slice(chunk);
                    return Ok(Received { bytes, at });
                }
                // Only full ones, so that a message has an end.
                Some((&MORE, chunk)) if chunk.len() == CHUNK => bytes.extend_from_slice(chunk),
                _ => return Err(TransportError::Damaged),
            }
        }
    }

    /// Whether a message, or the end of the connection, begins to arrive within `wait`.
    pub fn readable(&mut self, wait: Duration) -> Result<bool, TransportError> {
        Ok(self.stream.readable(wait)?)
    }
}

/// What this end sends first.
fn preface() -> [u8; 9] {
    let mut preface = [VERSION; 9];
    preface[..8].copy_from_slice(PREFACE);
    preface
}

fn exchange_prefaces<S: Stream>(
    stream: &mut S,
    ours: &[u8; 9],
    deadline: Instant,
) -> Result<[u8; 9], TransportError> {
    write(stream, ours, deadline)?;
    let mut theirs = [0; 9];
    match read(stream, &mut theirs, deadline) {
        // Whatever waits for more, or hangs up before it says who it is.
        Err(TransportError::Closed | TransportError::TimedOut) => Err(TransportError::Foreign),
        Err(error) => Err(error),
        Ok(()) if theirs[..8] != PREFACE[..] => Err(TransportError::Foreign),
        Ok(()) if theirs[8] != VERSION => Err(TransportError::Version(theirs[8])),
        Ok(()) => Ok(theirs),
    }
}

/// A handshake that is bound to both prefaces, the initiator's first.
fn handshake(
    key: &Key,
    prefaces: [&[u8]; 2],
    initiator: bool,
) -> Result<HandshakeState, TransportError> {
    let prologue = prefaces.concat();
    let build = || {
        let builder =
            snow::Builder::new(NOISE.parse()?).psk(0, key.bytes())?.prologue(&prologue)?;
        if initiator { builder.build_initiator() } else { builder.build_responder() }
    };
    build().map_err(TransportError::Cipher)
}

/// Time until `deadline`, as long as there is some.
fn left(deadline: Instant) -> Result<Duration, TransportError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(TransportError::TimedOut) } else { Ok(left) }
}

fn read_length<S: Stream>(stream: &mut S, deadline: Instant) -> Result<usize, TransportError> {
    let mut length = [0; 2];
    read(stream, &mut length, deadline)?;
    Ok(usize::from(u16::from_be_bytes(length)))
}

fn read<S: Stream>(
    stream: &mut S,
    mut into: &mut [u8],
    deadline: Instant,
) -> Result<(), TransportError> {
    while !into.is_empty() {
        stream.limit_reads(left(deadline)?)?;
        match stream.read(into) {
            Ok(0) => return Err(TransportError::Closed),
            Ok(count) => into = &mut into[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn write_frame<S: Stream>(
    stream: &mut S,
    content: &[u8],
    deadline: Instant,
) -> Result<(), TransportError> {
    let mut frame = Vec::with_capacity(2 + HANDSHAKE);
    frame.extend_from_slice(&(content.len() as u16).to_be_bytes());
    frame.extend_from_slice(content);
    write(stream, &frame, deadline)
}

fn write<S: Stream>(
    stream: &mut S,
    mut bytes: &[u8],
    deadline: Instant,
) -> Result<(), TransportError> {
    while !bytes.is_empty() {
        stream.limit_writes(left(deadline)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(TransportError::Closed),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
