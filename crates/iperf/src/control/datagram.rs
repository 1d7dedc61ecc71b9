//! iperf3's datagrams: the hello that opens a stream, and the header of each that follows.
//!
//! A client sends a hello from the socket that the stream will use, and the server answers with the same number of bytes in reverse. Both
//! once were a number in the machine's own order, so a peer of the other order has them reversed. Data begins with the time at
//! which it was sent (the sender's monotonic clock: seconds and microseconds) and a sequence number from 1, big-endian.

use wirebeat_units::Nanos;

/// What a client begins a stream with.
pub const HELLO: [u8; 4] = *b"9876";
/// What the server answers.
pub const HELLO_REPLY: [u8; 4] = *b"6789";
/// The same before version 3.10: these numbers in the order of the machine.
const OLD_HELLO: u32 = 123_456_789;
const OLD_REPLY: u32 = 987_654_321;

/// The answer to a client's hello; `None` where the datagram is none.
pub fn hello_reply(datagram: &[u8]) -> Option<[u8; 4]> {
    let hello: [u8; 4] = datagram.try_into().ok()?;
    if hello == HELLO {
        Some(HELLO_REPLY)
    } else if hello == HELLO_REPLY {
        // a client of the other byte order
        Some(HELLO)
    } else if hello == OLD_HELLO.to_le_bytes() {
        Some(OLD_REPLY.to_le_bytes())
    } else if hello == OLD_HELLO.to_be_bytes() {
        Some(OLD_REPLY.to_be_bytes())
    } else {
        None
    }
}

/// Whether a datagram answers our hello.
pub fn is_hello_reply(datagram: &[u8]) -> bool {
    datagram == HELLO_REPLY
        || datagram == HELLO
        || datagram == OLD_REPLY.to_le_bytes()
        || datagram == OLD_REPLY.to_be_bytes()
}

/// How wide the sequence number is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counter {
    /// 32 bits.
    #[default]
    Bits32,
    /// 64 bits (`--udp-counters-64bit`).
    Bits64,
}

impl Counter {
    /// Bytes of the header.
    pub const fn header_len(self) -> usize {
        match self {
            Counter::Bits32 => 12,
            Counter::Bits64 => 16,
        }
    }
}

/// The beginning of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// When it was sent, to the microsecond, on the sender's clock.
    pub sent: Nanos,
    /// Its number, from 1. With 32 bits it begins again at 0.
    pub sequence: u64,
}

impl Header {
    /// Reads it; `None` where the datagram is shorter.
    pub fn read(datagram: &[u8], counter: Counter) -> Option<Header> {
        let word = |at: usize| {
            Some(u64::from(u32::from_be_bytes(*datagram.get(at..)?.first_chunk::<4>()?)))
        };
        let (seconds, micros) = (word(0)?, word(4)?);
        let sequence = match counter {
            Counter::Bits32 => word(8)?,
            Counter::Bits64 => word(8)? << 32 | word(12)?,
        };
        // both have 32 bits: this does not overflow
        let sent = Nanos::from_micros(seconds * 1_000_000 + micros);
        Some(Header { sent, sequence })
    }

    /// Writes it to the beginning of `datagram`, as far as that has room.
    pub fn write(&self, datagram: &mut [u8], counter: Counter) {
        let micros = self.sent.get() / 1000;
        let mut bytes = [0; 16];
        let (words, _) = bytes.as_chunks_mut::<4>();
        let low = |number: u64| (number as u32).to_be_bytes();
        let values = match counter {
            Counter::Bits32 => [micros / 1_000_000, micros % 1_000_000, self.sequence, 0],
            Counter::Bits64 => {
                [micros / 1_000_000, micros % 1_000_000, self.sequence >> 32, self.sequence]
            }
        };
        for (word, value) in words.iter_mut().zip(values) {
            *word = low(value);
        }
        for (to, from) in datagram.iter_mut().zip(bytes.iter().take(counter.header_len())) {
            *to = *from;
        }
    }
}
