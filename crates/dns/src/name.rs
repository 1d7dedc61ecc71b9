//! Domain names: labels of up to 63 bytes, 255 bytes in all (RFC 1035 §3.1), and pointers to names before (§4.1.4).

use std::fmt;

use crate::read::Bad;

/// The most bytes of a name as it is written in messages, with the zero behind the last label.
pub const NAME_MAX: usize = 255;
/// The most bytes of a label.
const LABEL_MAX: usize = 63;

/// A name as messages write it, without pointers.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: u8,
}

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// A label has no bytes, or more than 63.
    Label,
    /// The name has more than 255 bytes.
    TooLong,
    /// A backslash is not followed by a character, or by three digits up to 255.
    Escape,
    /// A character is not of printable ASCII.
    Character,
}

impl Name {
    /// The root.
    pub const ROOT: Name = Name { bytes: [0; NAME_MAX], len: 1 };

    /// Reads a name as people write it: `www.example.com`, with or without a dot at its end. `\.` is a dot within a label, `\065` a
    /// byte by its number (RFC 1035 §5.1).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_text(text: &str) -> Result<Name, BadName> {
        if text == "." {
            return Ok(Name::ROOT);
        }
        let mut name = Name { bytes: [0; NAME_MAX], len: 0 };
        let mut label = Label::default();
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'.' => {
                    name.push(label.done()?)?;
                    label = Label::default();
                    if rest.is_empty() {
                        name.push(&[])?;
                        return Ok(name);
                    }
                }
                b'\\' => {
                    let (byte, after) = escaped(rest)?;
                    label.push(byte)?;
                    rest = after;
                }
                b'!'..=b'~' => label.push(byte)?,
                _ => return Err(BadName::Character),
            }
        }
        name.push(label.done()?)?;
        name.push(&[])?;
        Ok(name)
    }

    /// Reads the name at `at` of a message; gives where it ends there.
    ///
    /// # Errors
    /// One that is not whole, too long, or points to itself or to what follows.
    pub(crate) fn read(message: &[u8], mut at: usize) -> Result<(Name, usize), Bad> {
        let mut name = Name { bytes: [0; NAME_MAX], len: 0 };
        let mut end = None;
        // each pointer leads to a place before all that was read so far, so that there is an end
        let mut before = at;
        loop {
            let length = *message.get(at).ok_or(Bad::Cut)?;
            match length {
                0 => {
                    name.push(&[]).map_err(|_| Bad::Name)?;
                    return Ok((name, end.unwrap_or(at + 1)));
                }
                1..=63 => {
                    let label = message.get(at + 1..at + 1 + usize::from(length));
                    name.push(label.ok_or(Bad::Cut)?).map_err(|_| Bad::Name)?;
                    at += 1 + usize::from(length);
                }
                0xc0.. => {
                    let low = *message.get(at + 1).ok_or(Bad::Cut)?;
                    let to = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                    end.get_or_insert(at + 2);
                    if to >= before {
                        return Err(Bad::Name);
                    }
                    (at, before) = (to, to);
                }
                // the other two kinds are not in use (RFC 6891 §5)
                _ => return Err(Bad::Name),
            }
        }
    }

    /// Its bytes in a message.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Adds a label, or the end.
    fn push(&mut self, label: &[u8]) -> Result<(), BadName> {
        let begin = usize::from(self.len);
        let end = begin + 1 + label.len();
        let place = self.bytes.get_mut(begin..end).ok_or(BadName::TooLong)?;
        if let Some((length, bytes)) = place.split_first_mut() {
            *length = label.len() as u8;
            bytes.copy_from_slice(label);
        }
        self.len = end as u8;
        Ok(())
    }
}

/// A label that is being read.
struct Label {
    bytes: [u8; LABEL_MAX],
    len: usize,
}

impl Default for Label {
    fn default() -> Label {
        Label { bytes: [0; LABEL_MAX], len: 0 }
    }
}

impl Label {
    fn push(&mut self, byte: u8) -> Result<(), BadName> {
        *self.bytes.get_mut(self.len).ok_or(BadName::Label)? = byte;
        self.len += 1;
        Ok(())
    }

    /// Its bytes, of which there is one at least.
    fn done(&self) -> Result<&[u8], BadName> {
        self.bytes.get(..self.len).filter(|bytes| !bytes.is_empty()).ok_or(BadName::Label)
    }
}

/// The byte behind a backslash.
fn escaped(rest: &[u8]) -> Result<(u8, &[u8]), BadName> {
    let (first, after) = rest.split_first().ok_or(BadName::Escape)?;
    if !first.is_ascii_digit() {
        return Ok((*first, after));
    }
    let (digits, after) = rest.split_first_chunk::<3>().ok_or(BadName::Escape)?;
    let text = std::str::from_utf8(digits).map_err(|_| BadName::Escape)?;
    let plain = digits.iter().all(u8::is_ascii_digit);
    let byte = text.parse().ok().filter(|_| plain).ok_or(BadName::Escape)?;
    Ok((byte, after))
}

impl PartialEq for Name {
    /// Without regard to the case of letters (RFC 4343).
    fn eq(&self, other: &Name) -> bool {
        self.as_bytes().eq_ignore_ascii_case(other.as_bytes())
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_bytes();
        if rest.len() <= 1 {
            return f.write_str(".");
        }
        while let Some((&length, after)) = rest.split_first() {
            let (label, after) = after.split_at(usize::from(length).min(after.len()));
            for &byte in label {
                match byte {
                    b'.' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                    b'!'..=b'~' => write!(f, "{}", char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            if length > 0 && after.first().is_some_and(|next| *next > 0) {
                f.write_str(".")?;
            }
            rest = after;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}
