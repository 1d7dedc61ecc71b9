//! What a session sends: messages one behind the other in its stream, each byte a function of its offset.
//!
//! A session keeps of each message that is not taken yet where it begins and how long it is, and nothing of its bytes: they are
//! made again when the stack asks for the same offset again. What is echoed is kept, because nobody else knows it.

use std::num::NonZeroU32;

use wirebeat_http::ChunkedBody;
use wirebeat_traffic::program::script::{Body, CHUNK, LengthLaw, Message, PATTERN_LEN, Script};
use wirebeat_traffic::values::session::{MAX_DATAGRAM, MAX_STAMPED, NUMBER, STAMP};

use crate::few::Few;
use crate::greeting::{GREETING, greeting};
use crate::stamp::Stamp;

/// How many messages of a session may wait to be taken: of one that sends each 10 ms, those of a round trip of 2.5 s.
pub(crate) const PIECES: usize = 256;

/// The decimal digits of the longest length.
const LENGTH_DIGITS: usize = 20;
/// Bytes of the length before a message whose length is drawn.
pub(crate) const PREFIX: u64 = 8;

/// A message in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Where it begins.
    begin: u64,
    /// Bytes on the stream; `u64::MAX` for one without an end.
    len: u64,
    /// Bytes of its data; of a numbered message its number.
    data: u64,
    /// Which message of the script, and 1: a piece that is not there takes no more room.
    message_and_one: NonZeroU32,
}

impl Piece {
    /// A piece of message number `message` of the script; [`KEPT`] for bytes that the session keeps.
    fn new(begin: u64, (len, data): (u64, u64), message: u16) -> Piece {
        let message_and_one = NonZeroU32::MIN.saturating_add(message.into());
        Piece { begin, len, data, message_and_one }
    }

    fn message(&self) -> u16 {
        (self.message_and_one.get() - 1) as u16
    }
}

const _: () = assert!(size_of::<Option<Piece>>() == 32 && size_of::<Outgoing>() <= 72);

/// The message number of bytes that the session keeps until they are taken: what is sent back, and what it made itself.
const KEPT: u16 = u16::MAX;

/// The message number of what a client says first where both ends are put together by a number; its data is that number.
const GREETS: u16 = u16::MAX - 1;

type Stamps = Few<[u8; STAMP as usize]>;

/// What a session sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    pieces: Few<Piece>,
    /// What the last of the pieces begin with, where they are stamped: a session that begins to send such messages sends no others.
    stamps: Option<Box<Stamps>>,
    /// Where the next message begins.
    end: u64,
    /// Up to where the stack has taken it.
    taken: u64,
    /// Up to where it was given.
    given: u64,
}

/// How long a message of this script is: its data, and all of it.
fn lengths(message: &Message, n: u64, datagrams: bool) -> (u64, u64) {
    let head = message.head.len() as u64;
    let of = |law: &LengthLaw| law.get(n);
    match &message.body {
        // a response to HEAD says the length of what it leaves out
        Body::None => (0, head),
        Body::Generated(law) => {
            let data = if datagrams { of(law).clamp(1, MAX_DATAGRAM) } else { of(law) };
            (data, head.saturating_add(data))
        }
        Body::Content(length) => (*length, head.saturating_add(*length)),
        Body::Prefixed(law) => {
            let data = of(law).max(PREFIX);
            (data, head.saturating_add(data))
        }
        Body::Chunked(law) => {
            let data = of(law);
            let encoded = chunks(data).map_or(0, |body| body.encoded_len());
            (data, head.saturating_add(encoded))
        }
        Body::Numbered(law) => {
            let data = of(law).clamp(NUMBER, MAX_DATAGRAM);
            (data, data)
        }
        Body::Stamped(law) => {
            let longest = if datagrams { MAX_DATAGRAM } else { MAX_STAMPED };
            let data = of(law).clamp(STAMP, longest);
            (data, data)
        }
        Body::Unlimited => (u64::MAX, u64::MAX),
    }
}

impl Outgoing {
    /// Whether another message can be added.
    pub(crate) fn has_room(&self) -> bool {
        self.pieces.len() < PIECES && self.end < u64::MAX
    }

    /// Whether everything was taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken == self.end
    }

    /// Up to where the stack has taken it.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Where the stream ends by now.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether there is nothing of it but how long it was.
    pub(crate) fn is_bare(&self) -> bool {
        self.pieces.is_empty() && self.stamps.is_none() && self.is_taken() && self.given <= self.end
    }

    /// `end` bytes were sent, and all of them taken.
    pub(crate) fn stand_at(&mut self, end: u64) {
        *self = Outgoing { end, taken: end, given: end, ..Outgoing::default() };
    }

    /// Reads of its memory.
    pub(crate) fn touch(&self) -> u64 {
        self.end ^ self.stamps.as_ref().map_or(0, |stamps| u64::from(stamps.is_empty()))
    }

    /// Whether it has no end yet.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.end == u64::MAX
    }

    /// Adds message number `message`, drawn as number `n`; gives how many bytes that is on the stream (0 for one without an end).
    /// There is room.
    pub(crate) fn add(&mut self, script: &Script, message: u16, n: u64) -> u64 {
        self.add_numbered(script, message, n, 0)
    }

    /// The same, with the number that it begins with where it has one.
    pub(crate) fn add_numbered(
        &mut self,
        script: &Script,
        message: u16,
        n: u64,
        number: u64,
    ) -> u64 {
        let Some(of) = script.messages.get(usize::from(message)) else { return 0 };
        let (data, len) = lengths(of, n, script.datagrams);
        let data = if let Body::Numbered(_) = of.body { number } else { data };
        self.push(Piece::new(self.end, (len, data), message));
        if len == u64::MAX { 0 } else { len }
    }

    /// Adds the number of the session; gives how many bytes that is.
    pub(crate) fn add_greeting(&mut self, number: u64) -> u64 {
        let len = GREETING as u64;
        self.push(Piece::new(self.end, (len, number), GREETS));
        len
    }

    /// Adds message number `message` one way, drawn as number `n`, with its stamp, which has all but the length; gives how many bytes
    /// that is.
    pub(crate) fn add_stamped(
        &mut self,
        script: &Script,
        message: u16,
        n: u64,
        stamp: Stamp,
    ) -> u64 {
        let Some(of) = script.messages.get(usize::from(message)) else { return 0 };
        let (data, len) = lengths(of, n, script.datagrams);
        let length = data.try_into().unwrap_or(u32::MAX);
        self.stamps.get_or_insert_default().push_back(Stamp { length, ..stamp }.encode());
        self.push(Piece::new(self.end, (len, data), message));
        len
    }

    /// Adds a message of `len` bytes that the session keeps.
    pub(crate) fn add_kept_message(&mut self, len: u64) {
        self.push(Piece::new(self.end, (len, len), KEPT));
    }

    /// Where the message ends that has the byte at `offset`.
    pub(crate) fn message_end(&self, offset: u64) -> Option<u64> {
        let ends = self.pieces.iter().map(|piece| piece.begin.saturating_add(piece.len));
        ends.filter(|end| *end > offset).min()
    }

    /// Adds `len` bytes that are sent back.
    pub(crate) fn add_echo(&mut self, len: u64) {
        if let Some(last) = self.pieces.back_mut().filter(|last| last.message() == KEPT) {
            last.len += len;
            self.end = self.end.saturating_add(len);
            return;
        }
        self.push(Piece::new(self.end, (len, len), KEPT));
    }

    fn push(&mut self, piece: Piece) {
        if piece.len > 0 {
            self.end = piece.begin.saturating_add(piece.len);
            self.pieces.push_back(piece);
        }
    }

    /// The data of a message without an end ends with what was given by now. Returns how many bytes of it that makes.
    pub(crate) fn cut(&mut self) -> u64 {
        if !self.is_unlimited() {
            return 0;
        }
        let end = self.given.max(self.taken);
        let len = self.pieces.back_mut().map_or(0, |piece| {
            piece.len = end.saturating_sub(piece.begin);
            piece.data = piece.len;
            piece.len
        });
        self.end = end;
        if len == 0 {
            self.pieces.pop_back();
        }
        len
    }

    /// Everything before `offset` is not asked for again. Returns how many bytes that is more than before.
    pub(crate) fn take(&mut self, offset: u64) -> u64 {
        let more = offset.min(self.end).saturating_sub(self.taken);
        self.taken = self.taken.saturating_add(more);
        let taken = self.taken;
        while let Some(piece) = self.pieces.front() {
            // what is sent back grows: it is not done before something follows it
            let grows = piece.message() == KEPT && self.pieces.len() == 1;
            if grows || piece.begin.saturating_add(piece.len) > taken {
                break;
            }
            self.pieces.pop_front();
            let pieces = self.pieces.len();
            if let Some(stamps) = self.stamps.as_mut().filter(|stamps| stamps.len() > pieces) {
                stamps.pop_front();
            }
        }
        if self.pieces.len() == 1
            && let Some(piece) = self.pieces.front_mut().filter(|piece| piece.message() == KEPT)
        {
            let gone = taken.saturating_sub(piece.begin).min(piece.len);
            piece.begin += gone;
            piece.len -= gone;
            piece.data = piece.len;
            if piece.len == 0 {
                self.pieces.clear();
            }
        }
        more
    }

    /// Up to where a stack may take bytes over, at most to `most`. From then on they are sent, also those of data without an end
    /// that is cut.
    pub(crate) fn offer(&mut self, most: u64) -> u64 {
        let end = self.end.min(most);
        self.given = self.given.max(end);
        end
    }

    /// The bytes from `offset` on that lie together, at most to the end of their message; made in `scratch` where they do not lie
    /// anywhere. `echo` are those that are sent back and not taken yet.
    pub(crate) fn payload<'a>(
        &mut self,
        script: &'a Script,
        echo: &'a [u8],
        offset: u64,
        scratch: &'a mut [u8],
    ) -> &'a [u8] {
        let within =
            |piece: &&Piece| (piece.begin..piece.begin.saturating_add(piece.len)).contains(&offset);
        let mut places = self.pieces.iter().rev().zip(1..);
        let Some((_, from_end)) = places.find(|(piece, _)| within(piece)) else {
            return &[];
        };
        let place = self.pieces.len() - from_end;
        let Some(piece) = self.pieces.get(place) else { return &[] };
        let at = offset - piece.begin;
        let left = piece.len.saturating_sub(at);
        let stamp = self.stamps.as_ref().and_then(|stamps| {
            let place = (place + stamps.len()).checked_sub(self.pieces.len())?;
            stamps.get(place)
        });
        let bytes = match (stamp, script.messages.get(usize::from(piece.message()))) {
            (Some(stamp), _) if at < STAMP => {
                let bytes = stamp.get(at as usize..).unwrap_or_default();
                let Some(into) = scratch.get_mut(..bytes.len()) else { return &[] };
                into.copy_from_slice(bytes);
                into
            }
            _ if piece.message() == GREETS => {
                let Some(into) = scratch.get_mut(..GREETING) else { return &[] };
                into.copy_from_slice(&greeting(piece.data));
                into.get(at as usize..).unwrap_or_default()
            }
            (_, Some(message)) => of_message(message, script, piece.data, at, scratch),
            // they are kept from the first that was not taken on
            (_, None) => echo.get(offset.saturating_sub(self.taken) as usize..).unwrap_or_default(),
        };
        let len = (bytes.len() as u64).min(left);
        let bytes = bytes.get(..len as usize).unwrap_or_default();
        self.given = self.given.max(offset.saturating_add(len));
        bytes
    }
}

/// Bytes of a message from `at` on.
fn of_message<'a>(
    message: &'a Message,
    script: &'a Script,
    data: u64,
    at: u64,
    scratch: &'a mut [u8],
) -> &'a [u8] {
    let head = &message.head[..];
    if let Some(rest) =
        usize::try_from(at).ok().and_then(|at| head.get(at..)).filter(|r| !r.is_empty())
    {
        let Some(length_at) = message.length_at else { return rest };
        let Some(into) = scratch.get_mut(..head.len()) else { return rest };
        into.copy_from_slice(head);
        let digits = format_length(data);
        if let Some(place) = into.get_mut(length_at..length_at + LENGTH_DIGITS) {
            place.copy_from_slice(&digits);
        }
        return into.get(at as usize..).unwrap_or_default();
    }
    let at = at - head.len() as u64;
    match &message.body {
        Body::None => &[],
        Body::Content(_) => content(script, at),
        Body::Generated(_) | Body::Unlimited | Body::Stamped(_) => generated(script, at),
        Body::Prefixed(_) | Body::Numbered(_) => {
            match usize::try_from(at).ok().filter(|at| *at < PREFIX as usize) {
                Some(at) => {
                    let Some(into) = scratch.get_mut(..PREFIX as usize) else { return &[] };
                    into.copy_from_slice(&data.to_be_bytes());
                    into.get(at..).unwrap_or_default()
                }
                None => generated(script, at),
            }
        }
        Body::Chunked(_) => chunked(script, data, at, scratch),
    }
}

/// Generated data from byte `at` of a message on.
pub(crate) fn generated(script: &Script, at: u64) -> &[u8] {
    let begin = (at % PATTERN_LEN as u64) as usize;
    script.pattern.get(begin..).unwrap_or_default()
}

/// The content of a response of HTTP from byte `at` on: that of a file, where the script has one, else generated data.
pub(crate) fn content(script: &Script, at: u64) -> &[u8] {
    match &script.content {
        Some(file) => usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or_default(),
        None => generated(script, at),
    }
}

/// A number with as many digits as the longest has.
fn format_length(mut length: u64) -> [u8; LENGTH_DIGITS] {
    let mut digits = [b'0'; LENGTH_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (length % 10) as u8;
        length /= 10;
    }
    digits
}

/// `data` bytes in chunks; `None` where that is more than a stream can have.
fn chunks(data: u64) -> Option<ChunkedBody> {
    ChunkedBody::new(data, CHUNK)
}

/// Chunked data from byte `at` of its encoding on: as much as there is room for.
fn chunked<'a>(script: &Script, data: u64, at: u64, scratch: &'a mut [u8]) -> &'a [u8] {
    let Some(body) = chunks(data) else { return &[] };
    let filled = body.fill(at, scratch, |mut offset, mut into| {
        while !into.is_empty() {
            let from = content(script, offset);
            let len = from.len().min(into.len());
            let (now, later) = into.split_at_mut(len);
            match from.get(..len).filter(|from| !from.is_empty()) {
                Some(from) => now.copy_from_slice(from),
                None => return,
            }
            (offset, into) = (offset.saturating_add(len as u64), later);
        }
    });
    scratch.get(..filled).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn script(messages: Vec<Message>) -> Script {
        let pattern: Vec<u8> =
            (0..PATTERN_LEN + (1 << 16)).map(|k| (k % PATTERN_LEN % 251) as u8).collect();
        Script {
            ops: Vec::new(),
            messages,
            lengths: Vec::new(),
            texts: Vec::new(),
            times: Vec::new(),
            timers: Vec::new(),
            pattern: pattern.into(),
            content: None,
            datagrams: false,
            compares: true,
            dns: None,
            misbehaviour: None,
        }
    }

    fn message(head: &str, body: Body) -> Message {
        let length_at = head.find("00000000000000000000");
        Message { head: Arc::from(head.as_bytes()), length_at, body }
    }

    /// Everything from `offset` on, asked for in pieces of at most `step`.
    fn all(out: &mut Outgoing, script: &Script, mut offset: u64, step: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut scratch = vec![0; 16 << 10];
        loop {
            let piece = out.payload(script, &[], offset, &mut scratch);
            if piece.is_empty() {
                return bytes;
            }
            let piece = &piece[..piece.len().min(step)];
            bytes.extend_from_slice(piece);
            offset += piece.len() as u64;
        }
    }

    #[test]
    fn every_byte_is_the_same_wherever_it_is_asked_from() {
        let script = script(vec![
            message("GET /\r\n\r\n", Body::None),
            message("Length: 00000000000000000000!", Body::Generated(LengthLaw::Fixed(70_000))),
            message("", Body::Chunked(LengthLaw::Fixed(2 * CHUNK + 10))),
            message("x", Body::Prefixed(LengthLaw::Fixed(3))),
        ]);
        let mut out = Outgoing::default();
        for n in 0..4 {
            out.add(&script, n, 0);
        }
        let whole = all(&mut out, &script, 0, usize::MAX);
        assert_eq!(whole.len() as u64, out.end());
        assert!(whole.starts_with(b"GET /\r\n\r\nLength: 00000000000000070000!"));
        assert!(whole.ends_with(b"x\0\0\0\0\0\0\0\x08"));
        for offset in [0, 1, 9, 25, 40, 65_000, 70_030, 70_040, 78_250, whole.len() - 9] {
            for step in [1, 1448, usize::MAX] {
                let step = if offset < 70_000 { step.max(1000) } else { step };
                let rest = all(&mut out, &script, offset as u64, step);
                assert!(rest == whole[offset..], "from {offset} by {step}");
            }
        }
        // chunks decode to what they carry
        let begin = whole.windows(6).position(|w| w == b"1000\r\n").unwrap();
        assert_eq!(&whole[begin + 6..begin + 10], [0, 1, 2, 3]);
        let end = whole.windows(5).position(|w| w == b"0\r\n\r\n").unwrap();
        assert_eq!(end - begin, (2 * (CHUNK + 8) + 10 + 5) as usize);
    }

    #[test]
    fn what_is_taken_makes_room() {
        let script = script(vec![message("", Body::Generated(LengthLaw::Fixed(10)))]);
        let mut out = Outgoing::default();
        let pieces = PIECES as u64;
        (0..pieces).for_each(|n| assert_eq!(out.add(&script, 0, n), 10));
        assert!(!out.has_room());
        assert_eq!(out.take(25), 25);
        assert!(out.has_room());
        assert_eq!(all(&mut out, &script, 25, usize::MAX).len() as u64, 10 * pieces - 25);
        assert_eq!(out.take(25), 0);
        assert_eq!(out.take(u64::MAX), 10 * pieces - 25);
        assert!(out.is_taken());
    }

    #[test]
    fn data_without_an_end_ends_with_what_was_given() {
        let script = script(vec![message("", Body::Unlimited)]);
        let mut out = Outgoing::default();
        out.add(&script, 0, 0);
        let mut scratch = [0; 16];
        let first = out.payload(&script, &[], 0, &mut scratch).len() as u64;
        out.take(100);
        assert!(out.is_unlimited());
        assert_eq!(out.cut(), first);
        assert_eq!(out.end(), first);
        assert!(!out.is_taken());
        out.take(first);
        assert!(out.is_taken());
        // what was offered to a stack belongs to it
        let mut offered = Outgoing::default();
        offered.add(&script, 0, 0);
        assert_eq!((offered.offer(5_000), offered.cut(), offered.end()), (5_000, 5_000, 5_000));
        assert_eq!((offered.offer(u64::MAX), offered.offer(10)), (5_000, 10));
        let mut none = Outgoing::default();
        none.add(&script, 0, 0);
        assert_eq!((none.cut(), none.end(), none.is_taken()), (0, 0, true));
    }

    #[test]
    fn what_is_sent_back_is_taken_bit_by_bit() {
        let script = script(Vec::new());
        let mut out = Outgoing::default();
        let mut kept = b"hello".to_vec();
        out.add_echo(5);
        let mut scratch = [0; 16];
        assert_eq!(out.payload(&script, &kept, 0, &mut scratch), b"hello");
        assert_eq!(out.take(2), 2);
        kept.drain(..2);
        kept.extend_from_slice(b" you");
        out.add_echo(4);
        assert_eq!(out.payload(&script, &kept, 2, &mut scratch), b"llo you");
        assert_eq!(out.take(9), 7);
        assert!(out.is_taken());
        kept.clear();
        out.add_echo(1);
        kept.push(b'!');
        assert_eq!(out.payload(&script, &kept, 9, &mut scratch), b"!");
    }
}
