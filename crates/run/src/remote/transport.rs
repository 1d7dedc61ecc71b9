//! Messages of bytes over a stream: authenticated, encrypted, bounded in length and in time.
//!
//! Both ends say at once which protocol they speak ([`PREFACE`] and a version), then shake hands
//! (Noise `NNpsk0`, revision 34) and exchange messages of one or more chunks; `docs/control-connection.md`
//! has the bytes. Whoever does not know the key learns that this is Wirebeat, and nothing else. What
//! the messages say is not known here. A deadline holds for a whole message, so that a peer that
//! trickles bytes gains nothing, and nothing that waits here waits longer than a [`Halt`] allows once the user
//! has asked to stop. A message that has arrived in part is kept, and received on by the next call.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snow::{HandshakeState, TransportState};
use wirebeat_engine::clock::Clock;
use wirebeat_units::Nanos;

use super::key::Key;
use crate::observe::Stop;

/// What both ends send first.
pub const PREFACE: &[u8; 8] = b"wirebeat";
/// The version of everything below the messages; the byte after the preface.
pub const VERSION: u8 = 1;

/// Bytes of the preface with the version.
const PREFACE_LEN: usize = PREFACE.len() + 1;
/// Bytes of a frame's length.
const LENGTH: usize = 2;
/// The system knows no shorter time limit.
const SHORTEST: Duration = Duration::from_millis(1);
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
/// How often whoever waits looks for a stop.
const LOOK: Duration = Duration::from_millis(50);

/// How fast a result has to come, all of its messages together: slower than any network that measures, and bounded
/// for an end that is slow by intent.
pub const PACE: Pace = Pace { bytes_per_second: 256 << 10 };

/// A rate, as the time that bytes may take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_second: u32,
}

impl Pace {
    /// How long so many bytes may take.
    pub fn time_for(self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / f64::from(self.bytes_per_second))
    }
}

/// Ends waiting for the other end: `grace` after `stop` was asked.
#[derive(Clone, Debug)]
pub struct Halt {
    /// The user's wish to stop.
    pub stop: Stop,
    /// How long the other end may take after that.
    pub grace: Duration,
}

/// A connection, over which messages can be had before a deadline.
pub trait Stream: Read + Write {
    /// Reads that begin now fail with `WouldBlock` or `TimedOut` after `left`.
    fn limit_reads(&mut self, left: Duration) -> io::Result<()>;
    /// The same for writes.
    fn limit_writes(&mut self, left: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit_reads(&mut self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left.max(SHORTEST)))
    }

    fn limit_writes(&mut self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left.max(SHORTEST)))
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
    /// The user asked to stop while it was waited for.
    #[error("it did not answer in time after the stop")]
    Stopped,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(io::Error),
    /// The other end is a receiver, and gave the connection up before it was answered.
    #[error("it has too many connections")]
    Crowded,
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
    #[error("it sent an invalid message")]
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
    halt: Option<Halt>,
    /// A frame as it is sent: length and ciphertext.
    frame: Vec<u8>,
    /// What has arrived of the next frame.
    arriving: Vec<u8>,
    /// The chunks of the next message that have arrived.
    message: Vec<u8>,
    /// The plaintext of a frame.
    plain: Vec<u8>,
}

/// A message and when all of it had arrived, on the channel's clock.
pub struct ReceivedMessage {
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
        let answered = write_frame(&mut stream, &message[..length], deadline)
            .and_then(|()| read_length(&mut stream, deadline));
        match answered {
            Ok(0) => return Err(TransportError::Key),
            Ok(HANDSHAKE) => read(&mut stream, &mut message, (deadline, None))?,
            Ok(_) => return Err(TransportError::Damaged),
            // A receiver that has said who it is, and has no time for this one.
            Err(TransportError::Closed) => return Err(TransportError::Crowded),
            Err(error) => return Err(error),
        }
        noise.read_message(&message, &mut []).map_err(|_| TransportError::Key)?;
        Channel::after(noise, stream, clock)
    }

    /// The end that was connected to, from the first byte on.
    pub fn accept(
        mut stream: S,
        key: &Key,
        clock: Arc<dyn Clock>,
        deadline: Instant,
    ) -> Result<Self, TransportError> {
        let mut knock = Knock::default();
        write(&mut stream, &preface(), (deadline, None))?;
        while !knock.is_whole()? {
            let mut byte = [0];
            read(&mut stream, &mut byte, (deadline, None))?;
            knock.take(&byte);
        }
        match knock.check(key) {
            Ok(greeting) => Channel::answer(stream, greeting, clock, deadline),
            Err(error) => {
                if matches!(error, TransportError::Key) {
                    write(&mut stream, &WRONG_KEY, (deadline, None))?;
                }
                Err(error)
            }
        }
    }

    /// The end that was connected to, once the other has shown the key. When this returns, the other end may still be
    /// one that repeats what it once overheard; its first message is the proof.
    pub fn answer(
        mut stream: S,
        AuthenticatedPeer(mut noise): AuthenticatedPeer,
        clock: Arc<dyn Clock>,
        deadline: Instant,
    ) -> Result<Self, TransportError> {
        let mut message = [0; HANDSHAKE];
        let length = noise.write_message(&[], &mut message).map_err(TransportError::Cipher)?;
        write_frame(&mut stream, &message[..length], deadline)?;
        Channel::after(*noise, stream, clock)
    }

    fn after(
        noise: HandshakeState,
        stream: S,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TransportError> {
        let noise = noise.into_transport_mode().map_err(TransportError::Cipher)?;
        let (frame, arriving, message, plain) = Default::default();
        Ok(Channel { stream, noise, clock, halt: None, frame, arriving, message, plain })
    }

    /// From now on nothing waits longer than `halt` allows; `None`: than its deadline.
    pub fn heed(&mut self, halt: Option<Halt>) {
        self.halt = halt;
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
            write(&mut self.stream, &self.frame, (deadline, self.halt.as_ref()))?;
            if last {
                return Ok(at);
            }
            rest = after;
        }
    }

    /// Receives a message of at most `limit` bytes. What has arrived when the deadline passes is kept.
    pub fn receive(
        &mut self,
        limit: usize,
        deadline: Instant,
    ) -> Result<ReceivedMessage, TransportError> {
        loop {
            let until = (deadline, self.halt.as_ref());
            read_to(&mut self.stream, &mut self.arriving, LENGTH, until)?;
            let sealed = match self.arriving.first_chunk::<LENGTH>() {
                Some(length) => usize::from(u16::from_be_bytes(*length)),
                None => 0,
            };
            if sealed <= TAG {
                return Err(TransportError::Damaged);
            }
            // Before it is read: a peer has no say in how much memory is taken.
            if self.message.len() + (sealed - TAG - 1) > limit {
                return Err(TransportError::TooLong(limit));
            }
            read_to(&mut self.stream, &mut self.arriving, LENGTH + sealed, until)?;
            let at = self.clock.now();
            self.plain.resize(sealed - TAG, 0);
            self.noise
                .read_message(self.arriving.get(LENGTH..).unwrap_or_default(), &mut self.plain)
                .map_err(|_| TransportError::Damaged)?;
            self.arriving.clear();
            match self.plain.split_first() {
                Some((&LAST, chunk)) => {
                    self.message.extend_from_slice(chunk);
                    return Ok(ReceivedMessage { bytes: mem::take(&mut self.message), at });
                }
                // Only full ones, so that a message has an end.
                Some((&MORE, chunk)) if chunk.len() == CHUNK => {
                    self.message.extend_from_slice(chunk);
                }
                _ => return Err(TransportError::Damaged),
            }
        }
    }

    /// A message, if the rest of it arrives within `wait`; never waits longer, whatever has arrived.
    pub fn poll(
        &mut self,
        limit: usize,
        wait: Duration,
    ) -> Result<Option<ReceivedMessage>, TransportError> {
        match self.receive(limit, Instant::now() + wait) {
            Ok(received) => Ok(Some(received)),
            Err(TransportError::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a message has arrived in part.
    pub fn is_midway(&self) -> bool {
        !self.arriving.is_empty() || !self.message.is_empty()
    }
}

/// What tells the other end that the keys differ: an empty frame.
pub const WRONG_KEY: [u8; LENGTH] = [0; LENGTH];

/// What the end that connected sends first: its preface and its handshake message. Whether it knows the key is seen
/// from these alone, for the price of two hashes, before anything is computed or kept for it. No I/O here.
#[derive(Clone, Debug, Default)]
pub struct Knock {
    bytes: Vec<u8>,
}

/// An end that has shown the key, or repeats one that did.
pub struct AuthenticatedPeer(Box<HandshakeState>);

impl Knock {
    /// The bytes of a whole one.
    const LEN: usize = PREFACE_LEN + LENGTH + HANDSHAKE;

    /// How many bytes are missing.
    pub fn missing(&self) -> usize {
        Knock::LEN.saturating_sub(self.bytes.len())
    }

    /// Takes bytes that have arrived, no more than are missing.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes.iter().take(self.missing()));
    }

    /// Whether all of it is there; an error as soon as it cannot be one.
    pub fn is_whole(&self) -> Result<bool, TransportError> {
        let expected = PREFACE.iter().zip(&self.bytes);
        if expected.into_iter().any(|(expected, byte)| expected != byte) {
            return Err(TransportError::Foreign);
        }
        match self.bytes.get(PREFACE.len()) {
            Some(&version) if version != VERSION => return Err(TransportError::Version(version)),
            _ => {}
        }
        let length = self.bytes.get(PREFACE_LEN..PREFACE_LEN + LENGTH);
        match length.is_some_and(|length| length != (HANDSHAKE as u16).to_be_bytes()) {
            true => Err(TransportError::Damaged),
            false => Ok(self.missing() == 0),
        }
    }

    /// Whether a whole one shows the key.
    pub fn check(&self, key: &Key) -> Result<AuthenticatedPeer, TransportError> {
        let (theirs, rest) = self.bytes.split_at_checked(PREFACE_LEN).unwrap_or_default();
        let mut noise = handshake(key, [theirs, &preface()], false)?;
        let message = rest.get(LENGTH..).unwrap_or_default();
        match noise.read_message(message, &mut []) {
            Ok(_) => Ok(AuthenticatedPeer(Box::new(noise))),
            Err(_) => Err(TransportError::Key),
        }
    }
}

/// What this end sends first.
pub fn preface() -> [u8; PREFACE_LEN] {
    let mut preface = [VERSION; PREFACE_LEN];
    preface[..8].copy_from_slice(PREFACE);
    preface
}

fn exchange_prefaces<S: Stream>(
    stream: &mut S,
    ours: &[u8; PREFACE_LEN],
    deadline: Instant,
) -> Result<[u8; PREFACE_LEN], TransportError> {
    write(stream, ours, (deadline, None))?;
    let mut theirs = Vec::new();
    let heard = read_to(stream, &mut theirs, PREFACE_LEN, (deadline, None));
    let mut whole = [0; PREFACE_LEN];
    whole.iter_mut().zip(&theirs).for_each(|(byte, heard)| *byte = *heard);
    let theirs_begin = theirs.iter().zip(PREFACE).all(|(heard, expected)| heard == expected);
    let theirs = whole;
    match heard {
        // Nothing at all: it may be no receiver, or one that has not come to this connection.
        Err(TransportError::TimedOut) if theirs_begin => Err(TransportError::TimedOut),
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

/// Until when something may take.
type Until<'a> = (Instant, Option<&'a Halt>);

/// How long to wait before the next look at the time and the stop.
fn left((deadline, halt): Until<'_>) -> Result<Duration, TransportError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(TransportError::TimedOut);
    }
    let Some(halt) = halt else { return Ok(left) };
    let Some(since) = halt.stop.since() else { return Ok(left.min(LOOK)) };
    match halt.grace.saturating_sub(since) {
        Duration::ZERO => Err(TransportError::Stopped),
        grace => Ok(left.min(grace)),
    }
}

fn read_length<S: Stream>(stream: &mut S, deadline: Instant) -> Result<usize, TransportError> {
    let mut length = [0; LENGTH];
    read(stream, &mut length, (deadline, None))?;
    Ok(usize::from(u16::from_be_bytes(length)))
}

fn read<S: Stream>(
    stream: &mut S,
    into: &mut [u8],
    until: Until<'_>,
) -> Result<(), TransportError> {
    let mut bytes = Vec::with_capacity(into.len());
    read_to(stream, &mut bytes, into.len(), until)?;
    into.copy_from_slice(&bytes);
    Ok(())
}

/// Reads until there are `want` bytes. Those that have come stay, whatever it ends with.
fn read_to<S: Stream>(
    stream: &mut S,
    bytes: &mut Vec<u8>,
    want: usize,
    until: Until<'_>,
) -> Result<(), TransportError> {
    while bytes.len() < want {
        stream.limit_reads(left(until)?)?;
        let have = bytes.len();
        bytes.resize(want, 0);
        let read = stream.read(bytes.get_mut(have..).unwrap_or_default());
        bytes.truncate(have + read.as_ref().map_or(0, |count| *count));
        match read {
            Ok(0) => return Err(TransportError::Closed),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
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
    let mut frame = Vec::with_capacity(LENGTH + HANDSHAKE);
    frame.extend_from_slice(&(content.len() as u16).to_be_bytes());
    frame.extend_from_slice(content);
    write(stream, &frame, (deadline, None))
}

fn write<S: Stream>(
    stream: &mut S,
    mut bytes: &[u8],
    until: Until<'_>,
) -> Result<(), TransportError> {
    while !bytes.is_empty() {
        stream.limit_writes(left(until)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(TransportError::Closed),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether it is only time to look at the clock again.
fn is_passing(error: &io::Error) -> bool {
    is_timeout(error) || error.kind() == ErrorKind::Interrupted
}
