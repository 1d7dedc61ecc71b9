//! Quotes in a line, as RFC 4180 has them: where the quote opens that a line leaves open.
//!
//! It follows `csv-core` in every step, so that both agree where a row ends; it knows no buffers and no files.

use memchr::memchr;

/// Where a quote opened that is not closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// The field that it opens, from 0.
    pub(super) field: usize,
    /// Its byte, counted from where the row begins.
    pub(super) at: usize,
    /// Lines of the row before it.
    pub(super) lines: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuoteState {
    /// Before the first byte of a field: the one place where a quote opens.
    FieldStart,
    /// In a field without quotes, or behind closed ones.
    Plain,
    Quoted(Opened),
    /// Behind a quote in a quoted field: a second one is a character, all else is outside.
    Closing(Opened),
}

/// Follows a row, line by line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotes {
    state: QuoteState,
    delimiter: u8,
    field: usize,
    /// Bytes and lines of the row so far.
    bytes: usize,
    lines: usize,
}

impl Quotes {
    /// At the beginning of a row.
    pub(super) fn new(delimiter: u8) -> Quotes {
        Quotes { state: QuoteState::FieldStart, delimiter, field: 0, bytes: 0, lines: 0 }
    }

    /// Takes a line with the `end` bytes that end it; says which quote is open behind it.
    #[inline]
    pub(super) fn line(&mut self, line: &[u8], end: usize) -> Option<Opened> {
        let is_inside = matches!(self.state, QuoteState::Quoted(_));
        if is_inside || memchr(b'"', line).is_some() {
            self.follow(line);
        }
        self.bytes += line.len() + end;
        self.lines += 1;
        match self.state {
            QuoteState::Quoted(opened) => Some(opened),
            _ => None,
        }
    }

    fn follow(&mut self, line: &[u8]) {
        for (&byte, at) in line.iter().zip(self.bytes..) {
            self.state = match (self.state, byte) {
                (QuoteState::FieldStart, b'"') => {
                    QuoteState::Quoted(Opened { field: self.field, at, lines: self.lines })
                }
                (QuoteState::Quoted(opened), b'"') => QuoteState::Closing(opened),
                (QuoteState::Quoted(opened), _) => QuoteState::Quoted(opened),
                (QuoteState::Closing(opened), b'"') => QuoteState::Quoted(opened),
                (_, byte) if byte == self.delimiter => {
                    self.field += 1;
                    QuoteState::FieldStart
                }
                _ => QuoteState::Plain,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_quote_it_leaves_open() {
        let opened = |line: &str| Quotes::new(b',').line(line.as_bytes(), 1);
        for closed in ["", "a,b", "a,\"b\"", "\"a\"\"b\",c", "a,b\"c", "a\"", "\"a\"b\"", " \"a"] {
            assert_eq!(opened(closed), None, "{closed}");
        }
        let open = |field, at| Some(Opened { field, at, lines: 0 });
        assert_eq!(opened("a,\"b"), open(1, 2));
        assert_eq!(opened("\""), open(0, 0));
        assert_eq!(opened("\"a\",\"b\"\""), open(1, 4));
        let mut quotes = Quotes::new(b',');
        assert_eq!(quotes.line(b"a,\"b", 2), open(1, 2));
        assert_eq!(quotes.line(b"c,d", 1), open(1, 2));
        let second = Some(Opened { field: 2, at: 13, lines: 2 });
        assert_eq!(quotes.line(b"e\",\"", 1), second);
        assert_eq!(quotes.line(b"\"", 1), None);
    }
}
