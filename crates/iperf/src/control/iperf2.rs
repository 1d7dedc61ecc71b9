//! The header that an iperf 2 client begins each TCP connection with, and what the server answers.
//!
//! All words are big-endian. The header counts as payload. Version 2.0 has six words, and sends them only where the server is to
//! connect back; from 2.0.10 on a bit says that there is more, and how much. The server may connect to the client's `port`: at once (`-d`,
//! dual test) or when the client has sent all (`-r`, tradeoff); what it sends there has no header. Known from captures of 2.1.8.

use wirebeat_units::{Bytes, Nanos};

use super::{ControlError, Inbox, STREAMS_MAX};

const VERSION1: u32 = 0x8000_0000;
const EXTEND: u32 = 0x4000_0000;
/// The bits under [`LEN_BITS`] are twice the header's length.
const HAS_LEN: u32 = 0x0001_0000;
const LEN_BITS: u32 = 0x0000_01fe;
const RUN_NOW: u32 = 0x0000_0001;
/// In the upper flags: the server is to send over this connection (`-R`), or as well (`--full-duplex`).
const OVER_THIS: u16 = 0x0400 | 0x0800;

/// The words of version 2.0.
const OLD_LEN: usize = 24;
/// The header of 2.1.8.
const LEN: usize = 60;
/// 2.1.8 as the header says it, whose wire this is.
const VERSION: [u32; 2] = [0x0002_0001, 0x0008_0003];
/// What the answer of a server says that it is.
const ACK_TYPE: u32 = 2;
/// The version's word for a time: hundredths of a second, negative.
const CENTISECOND: u64 = 10_000_000;

/// What the server is to do beside receiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Back {
    /// Nothing.
    #[default]
    None,
    /// To connect to the client and send, at once (`-d`).
    AtOnce,
    /// The same, once it has received all (`-r`).
    Afterwards,
}

/// When each stream has enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAmount {
    /// After this time, in hundredths of a second.
    Time(Nanos),
    /// After so many bytes in each stream.
    Bytes(Bytes),
}

/// What a client says at the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the header that were read, and count as payload.
    pub len: usize,
    /// Streams of the client (`-P`), at least one.
    pub streams: u32,
    /// Where the client listens.
    pub port: u16,
    /// Bytes of a block; zero for the default.
    pub block: u32,
    /// Bytes of the socket buffer; zero for the kernel's.
    pub window: u32,
    /// What the client sends, and what it wants back.
    pub amount: HeaderAmount,
    /// What the server is to do.
    pub back: Back,
    /// Bits a second of each stream; zero for no limit.
    pub rate: u64,
    /// Whether the client asks the server to send over this very connection, which is not served.
    pub over_this: bool,
    /// Whether the client can be answered.
    pub answered: bool,
}

impl Header {
    /// Bytes that are missing in an inbox that begins with a header.
    pub fn missing(inbox: &Inbox) -> usize {
        let len = inbox.first_word().map_or(4, Header::len_of);
        len.saturating_sub(inbox.len())
    }

    fn len_of(flags: u32) -> usize {
        if flags & EXTEND != 0 && flags & HAS_LEN != 0 {
            ((flags & LEN_BITS) >> 1) as usize
        } else if flags & VERSION1 != 0 {
            OLD_LEN
        } else {
            // data: a client of version 2.0 says nothing when nothing is to come back
            4
        }
    }

    /// Takes a header from the beginning of a connection; `None` while it is not complete.
    ///
    /// # Errors
    /// [`ControlError::Header`] where it contradicts itself.
    pub fn take(inbox: &mut Inbox) -> Result<Option<Header>, ControlError> {
        if Header::missing(inbox) > 0 {
            return Ok(None);
        }
        let Some(flags) = inbox.first_word() else { return Ok(None) };
        let len = Header::len_of(flags);
        let Some(bytes) = inbox.take_bytes(len) else { return Ok(None) };
        Header::read(&bytes).map(Some)
    }

    /// Reads a whole header, or the first four bytes of data without one.
    fn read(bytes: &[u8]) -> Result<Header, ControlError> {
        let word = |index: usize| -> Option<u32> {
            Some(u32::from_be_bytes(*bytes.get(4 * index..)?.first_chunk::<4>()?))
        };
        let flags = word(0).unwrap_or(0);
        let nothing = Header {
            len: bytes.len(),
            streams: 1,
            port: 0,
            block: 0,
            window: 0,
            amount: HeaderAmount::Time(Nanos::ZERO),
            back: Back::None,
            rate: 0,
            over_this: false,
            answered: false,
        };
        if flags & (VERSION1 | EXTEND) == 0 || bytes.len() <= 4 && flags & HAS_LEN == 0 {
            return Ok(nothing);
        }
        let (Some(streams), Some(port), Some(block), Some(window), Some(amount)) =
            (word(1), word(2), word(3), word(4), word(5))
        else {
            return Err(ControlError::Header("it is shorter than six words"));
        };
        if streams > STREAMS_MAX {
            return Err(ControlError::Header("it has more than 128 streams"));
        }
        let Ok(port) = u16::try_from(port) else {
            return Err(ControlError::Header("its port is none"));
        };
        let amount = match amount.cast_signed() {
            bytes @ 0.. => HeaderAmount::Bytes(Bytes::new(u64::from(bytes.unsigned_abs()))),
            time => {
                let centiseconds = u64::from(time.unsigned_abs());
                HeaderAmount::Time(Nanos::new(centiseconds * CENTISECOND))
            }
        };
        let back = match (flags & VERSION1 != 0, flags & RUN_NOW != 0) {
            (false, _) => Back::None,
            (true, true) => Back::AtOnce,
            (true, false) => Back::Afterwards,
        };
        let extended = flags & EXTEND != 0;
        let rate = match (word(12), word(13)) {
            (Some(low), Some(high)) if extended => u64::from(high) << 32 | u64::from(low),
            _ => 0,
        };
        let upper = word(8).filter(|_| extended).map_or(0, |word| (word >> 16) as u16);
        Ok(Header {
            streams: streams.max(1),
            port,
            block,
            window,
            amount,
            back,
            rate,
            over_this: upper & OVER_THIS != 0,
            answered: extended,
            ..nothing
        })
    }

    /// The bytes that a client of version 2.1.8 sends.
    pub fn to_bytes(&self) -> [u8; LEN] {
        let flags = EXTEND
            | HAS_LEN
            | (LEN as u32) << 1
            | match self.back {
                Back::None => 0,
                Back::AtOnce => VERSION1 | RUN_NOW,
                Back::Afterwards => VERSION1,
            };
        let amount = match self.amount {
            HeaderAmount::Bytes(bytes) => i32::try_from(bytes.get()).unwrap_or(i32::MAX),
            HeaderAmount::Time(time) => {
                let centiseconds = time.get().div_ceil(CENTISECOND);
                i32::try_from(centiseconds).map_or(i32::MIN, |centiseconds| -centiseconds)
            }
        };
        let [major, minor] = VERSION;
        let words = [
            flags,
            self.streams,
            self.port.into(),
            self.block,
            self.window,
            amount.cast_unsigned(),
            0,
            0,
            0,
            major,
            minor,
            0,
            self.rate as u32,
            (self.rate >> 32) as u32,
            0,
        ];
        let mut bytes = [0; LEN];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
        bytes
    }
}

/// What a server answers to a header that is longer than six words.
pub fn answer() -> [u8; 28] {
    let [major, minor] = VERSION;
    let mut bytes = [0; 28];
    let words = [ACK_TYPE, 28, 0, major, minor, 0, 0];
    for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_be_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    }

    fn header(bytes: &[u8]) -> Result<Option<Header>, ControlError> {
        let mut inbox = Inbox::default();
        inbox.add(bytes);
        Header::take(&mut inbox)
    }

    #[test]
    fn captured_headers_are_read_and_written() {
        // iperf 2.1.8 -c … -t 1 -b 1M, with -P 2 -d, and -n 1M -L 5002 -d
        for (hex, streams, port, amount, back, rate) in [
            (
                "4001007800000001000013890000000000000000ffffff9c000000000000000000000000000200010008000300000000001000000000000000000000",
                1,
                5001,
                HeaderAmount::Time(Nanos::from_secs(1)),
                Back::None,
                1 << 20,
            ),
            (
                "c001007900000002000013890000000000000000ffffff9c000000000000000000000000000200010008000300000000001000000000000000000000",
                2,
                5001,
                HeaderAmount::Time(Nanos::from_secs(1)),
                Back::AtOnce,
                1 << 20,
            ),
            (
                "c0010078000000010000138a000000000000000000100000000000000000000000000000000200010008000300000000000000000000000000000000",
                1,
                5002,
                HeaderAmount::Bytes(Bytes::new(1 << 20)),
                Back::Afterwards,
                0,
            ),
        ] {
            let bytes = bytes(hex);
            let read = header(&bytes).unwrap().unwrap();
            assert_eq!((read.len, read.streams, read.port), (60, streams, port));
            assert_eq!((read.amount, read.back, read.rate), (amount, back, rate));
            assert!(read.answered && !read.over_this);
            assert_eq!(read.to_bytes(), bytes[..]);
            for end in 0..bytes.len() {
                assert_eq!(header(&bytes[..end]), Ok(None));
            }
        }
        assert_eq!(answer()[..], bytes("000000020000001c0000000000020001000800030000000000000000"));
    }

    #[test]
    fn data_without_a_header_is_a_stream() {
        let plain = header(b"0123456789").unwrap().unwrap();
        assert_eq!(
            (plain.len, plain.streams, plain.back, plain.answered),
            (4, 1, Back::None, false)
        );
        // version 2.0 with -r
        let old = [0x8000_0000_u32, 3, 5001, 0, 0, 1000].map(u32::to_be_bytes).concat();
        let old = header(&old).unwrap().unwrap();
        assert_eq!(
            (old.len, old.streams, old.back, old.answered),
            (24, 3, Back::Afterwards, false)
        );
        assert_eq!(old.amount, HeaderAmount::Bytes(Bytes::new(1000)));
        // -R of 2.1.8
        let reverse = bytes(
            "4401007800000001000013890000000000000000ffffff9c000000000000000004000000000200010008000300000000001000000000000000000000",
        );
        assert!(header(&reverse).unwrap().unwrap().over_this);
    }

    #[test]
    fn a_header_that_contradicts_itself_is_refused() {
        for bad in [
            [0x8000_0000_u32, 129, 5001, 0, 0, 0],
            [0x8000_0000, 1, 65_536, 0, 0, 0],
            [0x4001_0010, 1, 5001, 0, 0, 0],
        ] {
            let error = header(&bad.map(u32::to_be_bytes).concat()).unwrap_err();
            assert!(matches!(error, ControlError::Header(_)), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(header)) = header(&bytes) {
                prop_assert!(header.len <= bytes.len() && (1..=STREAMS_MAX).contains(&header.streams));
            }
        }
    }
}
