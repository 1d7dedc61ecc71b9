//! The cookie: 36 characters of `a-z2-7` and a zero byte. All connections of one test begin with it.

use super::ControlError;

/// The characters that a cookie is made of, those of base 32 (RFC 4648 §6) in lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Characters before the zero byte.
const CHARACTERS: usize = Cookie::LEN - 1;

/// What tells the connections of one test from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie([u8; Cookie::LEN]);

impl Cookie {
    /// Its bytes on the wire.
    pub const LEN: usize = 37;

    /// A cookie of these random bytes.
    pub fn from_random(random: [u8; CHARACTERS]) -> Self {
        let mut bytes = [0; Cookie::LEN];
        for (byte, random) in bytes.iter_mut().zip(random) {
            *byte = ALPHABET.get(usize::from(random % 32)).copied().unwrap_or(b'a');
        }
        Cookie(bytes)
    }

    /// The cookie in these bytes. Other implementations may use other characters: any that print are taken.
    ///
    /// # Errors
    /// [`ControlError::Cookie`] where one does not print, or the last is not zero.
    pub fn read(bytes: [u8; Cookie::LEN]) -> Result<Self, ControlError> {
        let (characters, end) = bytes.split_at(CHARACTERS);
        let prints = characters.iter().all(u8::is_ascii_graphic);
        if prints && end == [0] { Ok(Cookie(bytes)) } else { Err(ControlError::Cookie) }
    }

    /// The bytes on the wire.
    pub fn as_bytes(&self) -> &[u8; Cookie::LEN] {
        &self.0
    }
}

impl std::fmt::Display for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let characters = self.0.get(..CHARACTERS).unwrap_or_default();
        f.pad(std::str::from_utf8(characters).unwrap_or_default())
    }
}
