//! Reads a message: its header, its question, and its records as far as their places and lengths go.

use std::fmt;

use crate::name::Name;

/// Bytes of a header (RFC 1035 §4.1.1).
pub const HEADER: usize = 12;
/// Types whose data has a length of its own: A and AAAA; and OPT (RFC 6891).
const A: u16 = 1;
const AAAA: u16 = 28;
pub(crate) const OPT: u16 = 41;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// They end within the message.
    Cut,
    /// A name is too long, or points to itself or to what follows.
    Name,
    /// The data of a record has not the length of its type.
    Data,
    /// Bytes follow the last record.
    Trailing,
    /// There are several records of EDNS, or one where none belongs.
    Edns,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bad::Cut => "the message is cut",
            Bad::Name => "a name is invalid",
            Bad::Data => "the data of a record has not the length of its type",
            Bad::Trailing => "bytes follow the last record",
            Bad::Edns => "EDNS is invalid",
        })
    }
}

impl std::error::Error for Bad {}

/// What a message asks, or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: Name,
    /// The number of the type of records.
    pub kind: u16,
    /// The number of their class: 1 is the internet's.
    pub class: u16,
}

/// What EDNS says (RFC 6891 §6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The longest message over UDP that the sender takes.
    pub size: u16,
    /// The version, of which there is 0.
    pub version: u8,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number that a response has from its query.
    pub id: u16,
    /// Whether it is a response.
    pub is_response: bool,
    /// What is to be done: 0 is a query.
    pub opcode: u8,
    /// Whether it was cut to fit a datagram.
    pub truncated: bool,
    /// Whether the server is to ask others.
    pub recursion_desired: bool,
    /// The response code, with the higher bits of EDNS.
    pub rcode: u16,
    /// How many questions there are.
    pub questions: u16,
    /// The first of them.
    pub question: Option<Question>,
    /// How many records answer it.
    pub answers: u16,
    /// EDNS, where the message has it.
    pub edns: Option<Edns>,
}

impl Message {
    /// Reads a whole message.
    ///
    /// # Errors
    /// Why the bytes are none. Whatever they are, each is read once, but for names that are pointed to.
    pub fn read(bytes: &[u8]) -> Result<Message, Bad> {
        let word = |at: usize| word(bytes, at);
        let flags = word(2)?;
        let counts = [word(4)?, word(6)?, word(8)?, word(10)?];
        let [questions, answers, authorities, additional] = counts;
        let mut message = Message {
            id: word(0)?,
            is_response: flags & 0x8000 != 0,
            opcode: (flags >> 11 & 0xf) as u8,
            truncated: flags & 0x0200 != 0,
            recursion_desired: flags & 0x0100 != 0,
            rcode: flags & 0xf,
            questions,
            question: None,
            answers,
            edns: None,
        };
        let mut at = HEADER;
        for _ in 0..questions {
            let (name, end) = Name::read(bytes, at)?;
            let question = Question { name, kind: word(end)?, class: word(end + 2)? };
            message.question.get_or_insert(question);
            at = end + 4;
        }
        let before = u32::from(answers) + u32::from(authorities);
        for number in 0..before + u32::from(additional) {
            at = message.record(bytes, at, number >= before)?;
        }
        if at < bytes.len() {
            return Err(Bad::Trailing);
        }
        Ok(message)
    }

    /// Walks over the record at `at`; gives where the next one is.
    fn record(&mut self, bytes: &[u8], at: usize, additional: bool) -> Result<usize, Bad> {
        let (name, at) = Name::read(bytes, at)?;
        let (kind, class) = (word(bytes, at)?, word(bytes, at + 2)?);
        // of EDNS: the higher bits of the response code, and the version
        let high = word(bytes, at + 4)?;
        let length = usize::from(word(bytes, at + 8)?);
        let end = at + 10 + length;
        if end > bytes.len() {
            return Err(Bad::Cut);
        }
        match (kind, length) {
            (A, 4) | (AAAA, 16) => {}
            // an update's have none (RFC 2136)
            (A | AAAA, _) if self.opcode == 0 => return Err(Bad::Data),
            (OPT, _) => {
                if !additional || self.edns.is_some() || name != Name::ROOT {
                    return Err(Bad::Edns);
                }
                self.edns = Some(Edns { size: class, version: (high & 0xff) as u8 });
                self.rcode |= (high >> 8) << 4;
            }
            _ => {}
        }
        Ok(end)
    }
}

/// Two bytes.
pub(crate) fn word(bytes: &[u8], at: usize) -> Result<u16, Bad> {
    let two = bytes.get(at..).and_then(<[u8]>::first_chunk);
    two.map(|two| u16::from_be_bytes(*two)).ok_or(Bad::Cut)
}
