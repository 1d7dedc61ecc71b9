//! Rows of fields, one after another, in bounded memory, whatever the bytes are.
//!
//! `csv-core` finds the fields. What is here feeds it, counts lines, and sees to it that a quote which is never
//! closed does not collect the rest of the file.

use std::io::{self, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

/// Bytes read ahead.
const BUFFER: usize = 1 << 18;
/// Bytes of the fields of a row: the longest data as hexadecimal digits has 131,010.
pub const ROW_MAX: usize = 1 << 20;
/// Fields of a row.
pub const FIELDS_MAX: usize = 1 << 14;
/// What some programs begin a file of UTF-8 with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A row.
    Whole,
    /// One that is longer than [`ROW_MAX`] or has more fields than [`FIELDS_MAX`]. It is only passed by
    /// [`Rows::pass`].
    TooLong,
    /// The end of the file.
    Nothing,
}

/// Takes a file apart.
#[derive(Debug)]
pub struct Rows<R> {
    from: R,
    core: Reader,
    buffer: Vec<u8>,
    /// What of the buffer was read and is not used yet.
    start: usize,
    end: usize,
    at_end: bool,
    begun: bool,
    /// Bytes before `start`.
    offset: u64,
    /// The fields of the row, one behind the other.
    fields: Vec<u8>,
    fields_len: usize,
    /// Where each ends, and how many there are.
    ends: Vec<usize>,
    count: usize,
    /// Lines between rows, which the core does not see.
    between: u64,
    line: u64,
}

impl<R: Read> Rows<R> {
    /// Of `from`, whose fields `delimiter` separates.
    pub fn new(from: R, delimiter: u8) -> Rows<R> {
        Rows {
            from,
            core: ReaderBuilder::new().delimiter(delimiter).build(),
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            at_end: false,
            begun: false,
            offset: 0,
            fields: vec![0; ROW_MAX],
            fields_len: 0,
            ends: vec![0; FIELDS_MAX],
            count: 0,
            between: 0,
            line: 1,
        }
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
        if !self.skip_ends()? {
            return Ok(Row::Nothing);
        }
        self.line = self.core.line() + self.between;
        loop {
            match self.take()? {
                ReadRecordResult::Record => return Ok(Row::Whole),
                ReadRecordResult::End => return Ok(Row::Nothing),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Ok(Row::TooLong);
                }
            }
        }
    }

    /// Goes to the end of a row that is too long.
    ///
    /// # Errors
    /// What the system says.
    pub fn pass(&mut self) -> io::Result<()> {
        loop {
            (self.fields_len, self.count) = (0, 0);
            if let ReadRecordResult::Record | ReadRecordResult::End = self.take()? {
                return Ok(());
            }
        }
    }

    /// Feeds the core with what there is.
    #[inline]
    fn take(&mut self) -> io::Result<ReadRecordResult> {
        if self.start == self.end && !self.at_end {
            self.fill()?;
        }
        let input = self.buffer.get(self.start..self.end).unwrap_or_default();
        let fields = self.fields.get_mut(self.fields_len..).unwrap_or_default();
        let ends = self.ends.get_mut(self.count..).unwrap_or_default();
        let (result, read, written, ended) = self.core.read_record(input, fields, ends);
        self.start += read;
        self.offset += read as u64;
        self.fields_len += written;
        self.count += ended;
        Ok(result)
    }

    /// Passes what a file may begin with.
    #[cold]
    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        while self.end < MARK.len() && !self.at_end {
            self.read_more()?;
        }
        if self.buffer[..self.end].starts_with(MARK) {
            self.start = MARK.len();
            self.offset = MARK.len() as u64;
        }
        Ok(())
    }

    /// Passes ends of lines, so that a row begins where its first field does; says whether there is more.
    #[inline]
    fn skip_ends(&mut self) -> io::Result<bool> {
        loop {
            while let Some(byte @ (b'\r' | b'\n')) = self.buffer[..self.end].get(self.start) {
                self.between += u64::from(*byte == b'\n');
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

    #[cold]
    fn fill(&mut self) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        self.read_more()
    }

    fn read_more(&mut self) -> io::Result<()> {
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
        let mut rows = Rows::new(Trickle(bytes, step), b',');
        let mut all = Vec::new();
        loop {
            match rows.advance().unwrap() {
                Row::Nothing => break,
                Row::Whole => {
                    let fields = (0..rows.len()).map(|at| rows.field(at).to_vec()).collect();
                    all.push((rows.line(), fields));
                }
                Row::TooLong => {
                    all.push((rows.line(), Vec::new()));
                    rows.pass().unwrap();
                }
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

    proptest! {
        #[test]
        fn any_bytes_are_rows(bytes: Vec<u8>, step in 1usize..50) {
            prop_assert_eq!(rows(&bytes, step), rows(&bytes, 4096));
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
