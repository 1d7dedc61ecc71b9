//! Rows of fields, one after another, in bounded memory, whatever the bytes are.
//!
//! Where a row ends is found first, with the quotes in it (`quotes.rs`): a quoted field has so many lines as are
//! allowed, one unless said otherwise, so that a quote which is never closed costs its line and not the rest of the
//! file. `csv-core` then finds the fields.

use std::io::{self, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr2;

use super::quotes::Quotes;

/// Bytes read ahead.
const BUFFER: usize = 1 << 18;
/// Bytes of the fields of a row: the longest data as hexadecimal digits has 131,010.
pub const ROW_MAX: usize = 1 << 20;
/// Bytes of a row as it is written: each may be a quote that is written twice.
const WRITTEN_MAX: usize = 2 * ROW_MAX + BUFFER;
/// Fields of a row.
pub const FIELDS_MAX: usize = 1 << 14;
/// What some programs begin a file of UTF-8 with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A row.
    Whole,
    /// One that is longer than [`ROW_MAX`] or has more fields than [`FIELDS_MAX`]. What comes next begins behind the
    /// line that it was found in.
    TooLong,
    /// A quote that is not closed where it has to be. What comes next begins behind the line that it opens in.
    OpenQuote(OpenQuote),
    /// The end of the file.
    Nothing,
}

/// A quote that is not closed where it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuote {
    /// The line that it opens in, from 1.
    pub line: u64,
    /// The field that it opens, from 0.
    pub field: usize,
    /// Whether the file ends inside it.
    pub at_end: bool,
}

/// Where a row ends in the buffer.
enum Extent {
    Row(usize),
    TooLong(usize),
    OpenQuote(OpenQuote, usize),
}

/// Takes a file apart.
#[derive(Debug)]
pub struct Rows<R> {
    from: R,
    core: Reader,
    delimiter: u8,
    /// Lines that a quoted field may have.
    quoted_lines: usize,
    buffer: Vec<u8>,
    /// What of the buffer was read and is not used yet: the beginning of a row.
    start: usize,
    end: usize,
    at_end: bool,
    begun: bool,
    /// The rest of a line is to be passed before the next row.
    passing: bool,
    /// Bytes before `start`.
    offset: u64,
    /// The fields of the row, one behind the other.
    fields: Vec<u8>,
    fields_len: usize,
    /// Where each ends, and how many there are.
    ends: Vec<usize>,
    count: usize,
    /// The line at `start`, and the one that the row begins in.
    next_line: u64,
    line: u64,
}

impl<R: Read> Rows<R> {
    /// Of `from`, whose fields `delimiter` separates.
    pub fn new(from: R, delimiter: u8) -> Rows<R> {
        Rows {
            from,
            core: ReaderBuilder::new().delimiter(delimiter).build(),
            delimiter,
            quoted_lines: 1,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            at_end: false,
            begun: false,
            passing: false,
            offset: 0,
            fields: vec![0; ROW_MAX],
            fields_len: 0,
            ends: vec![0; FIELDS_MAX],
            count: 0,
            next_line: 1,
            line: 1,
        }
    }

    /// Lets a quoted field have so many lines.
    pub fn with_quoted_lines(mut self, lines: usize) -> Rows<R> {
        self.quoted_lines = lines.max(1);
        self
    }

    /// Goes to the next row that has anything in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn advance(&mut self) -> io::Result<Row> {
        (self.fields_len, self.count) = (0, 0);
        if !self.begun {
            self.begin()?;
        }
        if self.passing {
            self.pass()?;
        }
        if !self.skip_ends()? {
            return Ok(Row::Nothing);
        }
        self.line = self.next_line;
        match self.extent()? {
            Extent::Row(end) => {
                let row = self.parse(end);
                self.step(end);
                Ok(row)
            }
            Extent::TooLong(end) => {
                self.step(end);
                Ok(Row::TooLong)
            }
            Extent::OpenQuote(open, end) => {
                self.step(end);
                Ok(Row::OpenQuote(open))
            }
        }
    }

    /// Finds where the row ends that begins at `start`.
    #[inline]
    fn extent(&mut self) -> io::Result<Extent> {
        let mut quotes = Quotes::new(self.delimiter);
        // from the beginning of the row
        let (mut line, mut seen) = (0, 0);
        let mut lines = 0;
        loop {
            let row = self.buffer.get(self.start..self.end).unwrap_or_default();
            let rest = row.get(seen..).unwrap_or_default();
            let (at, end) = match memchr2(b'\n', b'\r', rest) {
                // what follows CR decides whether that is all
                Some(at) if row.get(seen + at) == Some(&b'\r') && seen + at + 1 == row.len() => {
                    if !self.at_end {
                        self.fill()?;
                        continue;
                    }
                    (seen + at, 1)
                }
                Some(at) => {
                    let is_pair = row.get(seen + at..seen + at + 2) == Some(b"\r\n");
                    (seen + at, 1 + usize::from(is_pair))
                }
                None if self.at_end => (row.len(), 0),
                None if row.len() >= WRITTEN_MAX => {
                    self.passing = true;
                    return Ok(Extent::TooLong(row.len()));
                }
                None => {
                    seen = row.len();
                    self.fill()?;
                    continue;
                }
            };
            let opened = quotes.line(row.get(line..at).unwrap_or_default(), end);
            (line, seen) = (at + end, at + end);
            lines += 1;
            let Some(opened) = opened else { return Ok(Extent::Row(line)) };
            let at_end = self.at_end && line == row.len();
            if at_end || lines - opened.lines >= self.quoted_lines || line > WRITTEN_MAX {
                let open = OpenQuote {
                    line: self.line + opened.lines as u64,
                    field: opened.field,
                    at_end,
                };
                return Ok(Extent::OpenQuote(open, self.behind(opened.at)));
            }
        }
    }

    /// Where the line ends in which the byte `at` of the row is; its beginning is shown as the only field.
    #[cold]
    fn behind(&mut self, at: usize) -> usize {
        let row = self.buffer.get(self.start..self.end).unwrap_or_default();
        let rest = row.get(at..).unwrap_or_default();
        let len = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let shown = len.min(self.fields.len());
        self.fields[..shown].copy_from_slice(&rest[..shown]);
        (self.fields_len, self.ends[0], self.count) = (shown, shown, 1);
        let is_pair = rest.get(len..len + 2) == Some(b"\r\n");
        (at + len + 1 + usize::from(is_pair)).min(row.len())
    }

    /// Finds the fields of a row of so many bytes.
    #[inline]
    fn parse(&mut self, len: usize) -> Row {
        let mut row = self.buffer.get(self.start..self.start + len).unwrap_or_default();
        self.core.reset();
        loop {
            let fields = self.fields.get_mut(self.fields_len..).unwrap_or_default();
            let ends = self.ends.get_mut(self.count..).unwrap_or_default();
            let (result, read, written, ended) = self.core.read_record(row, fields, ends);
            self.fields_len += written;
            self.count += ended;
            row = row.get(read..).unwrap_or_default();
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => return Row::Whole,
                // the end of the file without the end of its last line: nothing more says so
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Row::TooLong;
                }
            }
        }
    }

    /// Passes the rest of a line.
    #[cold]
    fn pass(&mut self) -> io::Result<()> {
        loop {
            let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(at) = memchr2(b'\n', b'\r', rest) {
                self.step(at);
                break;
            }
            self.step(rest.len());
            if self.at_end {
                break;
            }
            self.fill()?;
        }
        self.passing = false;
        Ok(())
    }

    /// Leaves so many bytes behind, and counts the lines in them.
    #[inline]
    fn step(&mut self, len: usize) {
        let passed = self.buffer.get(self.start..self.start + len).unwrap_or_default();
        self.next_line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.start += len;
        self.offset += len as u64;
    }

    /// Passes what a file may begin with.
    #[cold]
    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        while self.end < MARK.len() && !self.at_end {
            self.fill()?;
        }
        if self.buffer[..self.end].starts_with(MARK) {
            self.step(MARK.len());
        }
        Ok(())
    }

    /// Passes ends of lines, so that a row begins where its first field does; says whether there is more.
    #[inline]
    fn skip_ends(&mut self) -> io::Result<bool> {
        loop {
            while let Some(byte @ (b'\r' | b'\n')) = self.buffer[..self.end].get(self.start) {
                self.next_line += u64::from(*byte == b'\n');
                self.start += 1;
                self.offset += 1;
            }
            if self.start < self.end {
                return Ok(true);
            }
            if self.at_end {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    /// Reads more behind what there is, which moves to the beginning of the buffer.
    #[cold]
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end + BUFFER, 0);
        }
        let count = loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.end += count;
        self.at_end = count == 0;
        Ok(())
    }
}

impl<R> Rows<R> {
    /// How many fields the row has.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A field of the row; empty where it does not have so many.
    #[inline]
    pub fn field(&self, at: usize) -> &[u8] {
        let ends = &self.ends[..self.count];
        let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        let end = ends.get(at).copied().unwrap_or(start);
        self.fields.get(start..end).unwrap_or_default()
    }

    /// The line that the row begins in, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Bytes of the file that were used.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Appends a field to a row: in quotes where it would not be read back without.
#[inline]
pub fn append(field: &[u8], delimiter: u8, row: &mut Vec<u8>) {
    let plain = |&byte: &u8| byte != delimiter && !matches!(byte, b'"' | b'\r' | b'\n');
    if field.iter().all(plain) {
        row.extend_from_slice(field);
        return;
    }
    row.push(b'"');
    for part in field.split_inclusive(|&byte| byte == b'"') {
        row.extend_from_slice(part);
        if part.ends_with(b"\"") {
            row.push(b'"');
        }
    }
    row.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(into.len()).min(self.0.len());
            self.0.read(&mut into[..count])
        }
    }

    /// Lines and fields; what is too long has none.
    fn rows(bytes: &[u8], step: usize) -> Vec<(u64, Vec<Vec<u8>>)> {
        rows_of(bytes, step, usize::MAX)
    }

    fn rows_of(bytes: &[u8], step: usize, quoted: usize) -> Vec<(u64, Vec<Vec<u8>>)> {
        let mut rows = Rows::new(Trickle(bytes, step), b',').with_quoted_lines(quoted);
        let mut all = Vec::new();
        loop {
            match rows.advance().unwrap() {
                Row::Nothing => break,
                Row::Whole => {
                    let fields = (0..rows.len()).map(|at| rows.field(at).to_vec()).collect();
                    all.push((rows.line(), fields));
                }
                Row::TooLong => all.push((rows.line(), Vec::new())),
                Row::OpenQuote(open) => all.push((open.line, vec![b"OPEN".to_vec()])),
            }
        }
        assert_eq!(rows.offset(), bytes.len() as u64);
        all
    }

    fn row(line: u64, fields: &[&str]) -> (u64, Vec<Vec<u8>>) {
        (line, fields.iter().map(|field| field.as_bytes().to_vec()).collect())
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        let expected =
            [row(1, &["a", "b"]), row(2, &["1", "2\n3"]), row(6, &["4", ""]), row(7, &["\"", "5"])];
        let unix = "a,b\n1,\"2\n3\"\n\n\n4,\n\"\"\"\",5";
        for step in [1, 2, 7, 1000] {
            assert_eq!(rows(unix.as_bytes(), step), expected);
            let marked = format!("\u{feff}{unix}\n");
            assert_eq!(rows(marked.as_bytes(), step), expected);
            let dos = unix.replace('\n', "\r\n").replace("2\r\n3", "2\n3");
            assert_eq!(rows(dos.as_bytes(), step), expected);
        }
        assert_eq!(rows(b"", 1), []);
        assert_eq!(rows(b"\n\r\n", 1), []);
    }

    #[test]
    fn a_row_without_end_does_not_grow() {
        let open = [b"a,b\n1,\"".as_slice(), &vec![b'x'; 3 * ROW_MAX], b"\"\n1,2\n"].concat();
        assert_eq!(rows(&open, 9999), [row(1, &["a", "b"]), row(2, &[]), row(3, &["1", "2"])]);
        let wide = [b"a,b\n".as_slice(), &vec![b','; 3 * FIELDS_MAX], b"\n1,2\n"].concat();
        assert_eq!(rows(&wide, 9999), [row(1, &["a", "b"]), row(2, &[]), row(3, &["1", "2"])]);
        // never closed
        let open = [b"a,b\n1,\"".as_slice(), &vec![b'x'; 3 * ROW_MAX]].concat();
        assert_eq!(rows(&open, 9999), [row(1, &["a", "b"]), row(2, &[])]);
    }

    #[test]
    fn an_open_quote_costs_its_line_and_not_the_rest_of_the_file() {
        let open = |line| row(line, &["OPEN"]);
        for end in ["\n", "\r\n"] {
            let text = ["a,b", "1,\"2", "3,4", "5,\"6\"", "7,\"8", ""].join(end);
            for step in [1, 3, 1000] {
                let all = rows_of(text.as_bytes(), step, 1);
                let expected = [
                    row(1, &["a", "b"]),
                    open(2),
                    row(3, &["3", "4"]),
                    row(4, &["5", "6"]),
                    open(5),
                ];
                assert_eq!(all, expected);
            }
        }
        // a field of as many lines as are allowed, and one of more
        let text = "1,\"2\n3\"\n4,\"5\n6\n7\"\n8,9\n";
        let expected = [
            row(1, &["1", "2\n3"]),
            open(3),
            row(4, &["6"]),
            row(5, &["7\""]),
            row(6, &["8", "9"]),
        ];
        assert_eq!(rows_of(text.as_bytes(), 2, 2), expected);
        // lines before the one that the quote opens in belong to the row that is left out
        let text = "1,\"2\n3\",\"4\n5\n6\n7,8\n";
        assert_eq!(rows_of(text.as_bytes(), 2, 2)[..2], [open(2), row(3, &["5"])]);
        // in the middle of the last line
        assert_eq!(rows_of(b"a,b\n1,\"2", 1, 1), [row(1, &["a", "b"]), open(2)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_rows(bytes: Vec<u8>, step in 1usize..50) {
            prop_assert_eq!(rows(&bytes, step), rows(&bytes, 4096));
        }

        /// Where rows end is found here, and what is in them by `csv-core`: both see the same rows.
        #[test]
        fn rows_end_where_csv_core_ends_them(text in "[a\",\r\n ]{0,40}", step in 1usize..9) {
            let text = text + "\n";
            let mut core = csv_core::Reader::new();
            let (mut input, mut expected) = (text.as_bytes(), Vec::new());
            let (mut fields, mut ends) = ([0; 99], [0; 99]);
            while let (ReadRecordResult::Record, read, _, count) =
                core.read_record(input, &mut fields, &mut ends)
            {
                let start = |at: usize| at.checked_sub(1).map_or(0, |before| ends[before]);
                let row: Vec<Vec<u8>> =
                    (0..count).map(|at| fields[start(at)..ends[at]].to_vec()).collect();
                expected.push(row);
                input = &input[read..];
            }
            let all = rows(text.as_bytes(), step).into_iter().map(|(_, fields)| fields);
            let all: Vec<Vec<Vec<u8>>> = all.take_while(|row| *row != [b"OPEN"]).collect();
            prop_assert_eq!(all, expected);
        }

        #[test]
        fn an_open_quote_leaves_other_lines_as_they_are(
            before in 0usize..5, after in 0usize..5, step in 1usize..9,
        ) {
            let text = "1,2\n".repeat(before) + "3,\"4\n" + &"5,6\n".repeat(after);
            let all = rows_of(text.as_bytes(), step, 1);
            let expected = [vec![row(0, &["1", "2"]).1; before], vec![row(0, &["OPEN"]).1],
                vec![row(0, &["5", "6"]).1; after]].concat();
            let all: Vec<Vec<Vec<u8>>> = all.into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(all, expected);
        }

        #[test]
        fn fields_come_back(
            all in proptest::collection::vec(
                proptest::collection::vec("[a\",\r\n ]{0,5}", 2..5), 0..5),
            step in 1usize..50,
        ) {
            let mut text = Vec::new();
            for fields in &all {
                for (at, field) in fields.iter().enumerate() {
                    if at > 0 {
                        text.push(b',');
                    }
                    append(field.as_bytes(), b',', &mut text);
                }
                text.push(b'\n');
            }
            let back: Vec<Vec<Vec<u8>>> = rows(&text, step).into_iter().map(|(_, f)| f).collect();
            let all: Vec<Vec<Vec<u8>>> = all
                .into_iter()
                .map(|fields| fields.into_iter().map(String::into_bytes).collect())
                .collect();
            prop_assert_eq!(back, all);
        }
    }
}
