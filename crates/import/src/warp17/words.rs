//! The words of a command, and the numbers and addresses among them. WARP17 reads a line as DPDK's cmdline does: words are parted by
//! spaces, `#` begins a comment, a text with spaces stands in quotation marks, and numbers may be hexadecimal, octal or binary.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_traffic::scenario::session::AddressRange;
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Fault, fault};

use crate::text::printable;

/// The words of a line, of which some were read.
pub(super) struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    pub fn of(line: &'a str) -> Result<Words<'a>, Fault> {
        let mut words = Vec::new();
        let mut rest = line.trim_start();
        // no comment of WARP17, which reads such a line as an unknown command and goes on
        if rest.starts_with("//") {
            rest = "";
        }
        while !rest.is_empty() && !rest.starts_with('#') {
            let ends = |c: char| c.is_whitespace() || c == '#';
            let (word, behind) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(
                    || fault!("a text in quotation marks does not end"; "close it with '\"'"),
                )?,
                None => rest.split_at(rest.find(ends).unwrap_or(rest.len())),
            };
            words.push(word);
            rest = behind.trim_start();
        }
        Ok(Words { words, at: 0 })
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether these are the first words; then they were read.
    pub fn begin(&mut self, with: &[&str]) -> bool {
        let begins = self.words.get(..with.len()).is_some_and(|first| first == with);
        if begins {
            self.at = with.len();
        }
        begins
    }

    /// The line from word number `from` on, for a message.
    pub fn text(&self, from: usize) -> String {
        self.words.get(from..).unwrap_or_default().join(" ")
    }

    /// Whether the second word of the line is this one.
    pub fn is_second(&self, word: &str) -> bool {
        self.words.get(1) == Some(&word)
    }

    pub fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += usize::from(word.is_some());
        word
    }

    /// Whether the next word is this one; then it was read.
    pub fn has(&mut self, word: &str) -> bool {
        let has = self.words.get(self.at) == Some(&word);
        self.at += usize::from(has);
        has
    }

    /// Whether word number `ahead`, counted from the next one, is this one.
    pub fn is_ahead(&self, ahead: usize, word: &str) -> bool {
        self.words.get(self.at + ahead) == Some(&word)
    }

    pub fn word(&mut self, what: &str) -> Result<&'a str, Fault> {
        self.next().ok_or_else(|| fault!("{what} is missing"))
    }

    pub fn keyword(&mut self, name: &str) -> Result<(), Fault> {
        match self.next() {
            Some(word) if word == name => Ok(()),
            Some(word) => Err(fault!("'{}' stands where '{name}' belongs", printable(word))),
            None => Err(fault!("'{name}' is missing")),
        }
    }

    /// One of the words of a table.
    pub fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Result<T, Fault> {
        let names = || table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let word = self.next().ok_or_else(|| fault!("one of {} is missing", names()))?;
        let found = table.iter().find(|(name, _)| *name == word);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| fault!("'{}' is not one of {}", printable(word), names()))
    }

    pub fn number(&mut self, what: &str, most: u32) -> Result<u32, Fault> {
        let word = self.word(what)?;
        number(word)
            .filter(|value| *value <= most)
            .ok_or_else(|| fault!("'{}' is not {what}: a number from 0 to {most}", printable(word)))
    }

    /// A number, or `None` for `infinite`.
    pub fn amount(&mut self, what: &str) -> Result<Option<u32>, Fault> {
        if self.has("infinite") {
            return Ok(None);
        }
        // WARP17 itself says 'infinite' by the largest number
        self.number(what, u32::MAX).map(|value| Some(value).filter(|value| *value < u32::MAX))
    }

    pub fn address(&mut self, what: &str) -> Result<Ipv4Addr, Fault> {
        let word = self.word(what)?;
        word.parse().map_err(|_| fault!("'{}' is not {what}: an address of IPv4", printable(word)))
    }

    /// A first and a last address.
    pub fn addresses(&mut self, what: &str) -> Result<AddressRange, Fault> {
        let (first, last) = (self.address(what)?, self.address(what)?);
        AddressRange::between(IpAddr::V4(first), IpAddr::V4(last))
    }

    /// A first and a last port.
    pub fn ports(&mut self, what: &str) -> Result<PortRange, Fault> {
        let port = |words: &mut Words<'_>| -> Result<u16, Fault> {
            let port = words.number(what, u16::MAX.into())?;
            let port = u16::try_from(port).ok().filter(|port| *port > 0);
            port.ok_or_else(|| fault!("port 0 is no {what}"))
        };
        let (first, last) = (port(self)?, port(self)?);
        match first <= last {
            true => Ok(PortRange { first, last }),
            false => Err(fault!("{last} is before {first}"; "exchange them")),
        }
    }

    /// That all was read.
    pub fn end(&mut self) -> Result<(), Fault> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(fault!("'{}' is too much", printable(word))),
        }
    }
}

/// A number as DPDK's cmdline reads it.
fn number(word: &str) -> Option<u32> {
    let radix = |digits: &str, radix| {
        let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        plain.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
    };
    if let Some(digits) = word.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = word.strip_prefix("0b") {
        return radix(digits, 2);
    }
    match word.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => radix(digits, 8),
        _ => radix(word, 10),
    }
}

/// A list of numbers below 32, `3,4-6`, as DPDK's cmdline reads it.
pub(super) fn list(word: &str) -> Result<Vec<u32>, Fault> {
    let wrong = || fault!("'{}' is not a list of numbers from 0 to 31", printable(word));
    let mut all = Vec::new();
    for part in word.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bound = |text| number(text).filter(|value| *value < 32).ok_or_else(wrong);
        let (first, last) = (bound(first)?, bound(last)?);
        all.extend(
            (first.min(last)..=first.max(last))
                .filter(|value| !all.contains(value))
                .collect::<Vec<_>>(),
        );
    }
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lists_are_read_as_dpdk_reads_them() {
        for (word, expected) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("0x5A", Some(0x5a)),
            ("010", Some(8)),
            ("0b101", Some(5)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("+1", None),
            ("-1", None),
            ("", None),
            ("09", None),
        ] {
            assert_eq!(number(word), expected, "{word}");
        }
        assert_eq!(list("12,13"), Ok(vec![12, 13]));
        assert_eq!(list("4-6,3,5"), Ok(vec![3, 4, 5, 6]));
        assert!(list("32").is_err() && list("").is_err() && list("1,,2").is_err());
    }

    #[test]
    fn comments_and_quoted_texts_are_told_apart() {
        let words = |line| Words::of(line).map(|words| words.words);
        assert_eq!(words("  a  b # c"), Ok(vec!["a", "b"]));
        assert_eq!(words("a \"b # c\" d#e"), Ok(vec!["a", "b # c", "d"]));
        assert_eq!(words("// a b"), Ok(vec![]));
        assert!(words("a \"b").is_err());
    }
}
