//! Pages of a column, whatever the bytes of the file are: what one may cost in memory is held here, before the
//! library takes it at its word.
//!
//! A page says itself how large it is once it is unpacked, how many values it has and how many are in its
//! dictionary, and the library makes room for that. A file of a hundred bytes could ask for gigabytes.

use std::io::Read;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use wirebeat_units::{Fault, fault};

use super::footer::is_plausible;

/// Bytes of a page, packed or not. Most writers end one at 1 MiB, DuckDB at 100 MB.
const PAGE_MAX: u64 = 128 << 20;
/// Values of a page.
const VALUES_MAX: usize = 1 << 24;
/// Bytes of what stands at the end of a file: about a kilobyte for a row group.
const FOOTER_MAX: u64 = 64 << 20;
/// Bytes of a page's head that say how long it is: three fields of six bytes at most.
const HEAD: u64 = 18;

fn refuse<T>(why: impl Into<Fault>) -> Result<T> {
    Err(ParquetError::General(why.into().packed()))
}

/// What a file says of itself at its end.
pub fn metadata<R: ChunkReader>(file: &R) -> Result<ParquetMetaData> {
    let len = file.len();
    let end = match len.checked_sub(8) {
        Some(at) => file.get_bytes(at, 8)?,
        None => return refuse("it has less bytes than the smallest file of Parquet"),
    };
    let footer = end.first_chunk().map_or(0, |len| u64::from(u32::from_le_bytes(*len)));
    if end.ends_with(b"PAR1") && footer > FOOTER_MAX.min(len) {
        return refuse(format!("its footer says it has {footer} bytes, more than can be right"));
    }
    let start = (len - 8).checked_sub(footer).filter(|_| end.ends_with(b"PAR1"));
    if let Some(start) = start
        && !is_plausible(&file.get_bytes(start, footer as usize)?)
    {
        return refuse("its footer is damaged: it counts more than it has");
    }
    ParquetMetaDataReader::new().parse_and_finish(file)
}

/// What a footer says, given without its length and the magic behind it.
///
/// # Errors
/// Where it is none, or counts more than it has.
pub fn decode_footer(footer: &[u8]) -> Result<ParquetMetaData> {
    if !is_plausible(footer) {
        return refuse("its footer is damaged: it counts more than it has");
    }
    ParquetMetaDataReader::decode_metadata(footer)
}

/// A file of which pages are read: their heads are looked at first.
#[derive(Debug)]
struct Guarded<R>(Arc<R>);

impl<R: ChunkReader> Length for Guarded<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Guarded<R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> Result<R::T> {
        let mut head = Vec::new();
        self.0.get_read(start)?.take(HEAD).read_to_end(&mut head)?;
        match size(&head) {
            Some(size) if size <= PAGE_MAX => self.0.get_read(start),
            Some(size) => refuse(format!("a page has {size} bytes, more than {PAGE_MAX}")),
            None => refuse("where a page should be is none"),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        if length as u64 > PAGE_MAX {
            return refuse(format!("a page has {length} bytes, more than {PAGE_MAX}"));
        }
        self.0.get_bytes(start, length)
    }
}

/// The bytes that a page has, packed or not: the greater number. Its head begins with three fields of 32 bits: its
/// kind, its size unpacked, its size (`PageHeader` of parquet.thrift, in the compact protocol).
fn size(head: &[u8]) -> Option<u64> {
    let mut rest = head;
    let mut field = || {
        // the next field, an i32
        let (0x15, after) = rest.split_first().map(|(first, after)| (*first, after))? else {
            return None;
        };
        let (number, after) = varint(after)?;
        rest = after;
        // zigzag: odd ones are negative
        (number % 2 == 0).then_some(number / 2)
    };
    let (_, unpacked, packed) = (field()?, field()?, field()?);
    Some(unpacked.max(packed))
}

/// A number of seven bits to a byte, and what follows it.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let (digits, rest) = bytes.split_at_checked(len)?;
    Some((digits.iter().rev().fold(0, |number, digit| number << 7 | u64::from(digit & 0x7f)), rest))
}

/// The pages of one column of a row group.
pub struct Pages<R: ChunkReader> {
    pages: SerializedPageReader<Guarded<R>>,
    optional: bool,
}

impl<R: ChunkReader + 'static> Pages<R> {
    /// Of the column at this place among the leaves of the schema.
    pub fn new(file: &Arc<R>, meta: &ParquetMetaData, group: usize, column: usize) -> Result<Self> {
        let Some(group) = meta.row_groups().get(group) else { return refuse("a row group lacks") };
        let Some(chunk) = group.columns().get(column) else { return refuse("a column lacks") };
        let rows = usize::try_from(group.num_rows())?;
        let guarded = Arc::new(Guarded(Arc::clone(file)));
        let pages = SerializedPageReader::new(guarded, chunk, rows, None)?;
        Ok(Pages { pages, optional: chunk.column_descr().max_def_level() > 0 })
    }

    /// Whether the library may make room for what a page says it has.
    fn check(&self, page: &Page) -> Result<()> {
        let (bytes, values) = (page.buffer(), page.num_values() as usize);
        let least = match page {
            // each value of a dictionary has a byte at least
            Page::DictionaryPage { .. } => bytes.len(),
            Page::DataPage { .. } | Page::DataPageV2 { .. } => VALUES_MAX,
        };
        if values > least {
            return refuse(format!("a page of {} bytes says it has {values} values", bytes.len()));
        }
        match page.encoding() {
            Encoding::DELTA_BYTE_ARRAY => refuse(fault!(
                "its texts are packed as differences from each other (DELTA_BYTE_ARRAY)";
                "write the file anew with plain or dictionary encoding"
            )),
            Encoding::DELTA_LENGTH_BYTE_ARRAY if !self.lengths_fit(page) => {
                refuse("a page says it has more lengths than values")
            }
            _ => Ok(()),
        }
    }

    /// Whether there are not more lengths than values, in a page that begins with the lengths of all of them:
    /// after the levels a block size, a number of parts, and the number of lengths.
    fn lengths_fit(&self, page: &Page) -> bool {
        let start = match page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                *def_levels_byte_len as usize + *rep_levels_byte_len as usize
            }
            Page::DataPage { buf, .. } if self.optional => {
                let len = buf.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
                4 + len as usize
            }
            _ => 0,
        };
        let lengths = || {
            let (_, rest) = varint(page.buffer().get(start..)?)?;
            let (_, rest) = varint(rest)?;
            Some(varint(rest)?.0)
        };
        lengths().is_some_and(|lengths| lengths <= u64::from(page.num_values()))
    }
}

impl<R: ChunkReader + 'static> Iterator for Pages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader + 'static> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.iter().try_for_each(|page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_is_the_greater_one() {
        // a data page of 100 bytes, packed into 4
        assert_eq!(size(&[0x15, 0x00, 0x15, 0xc8, 0x01, 0x15, 0x08, 0x2c]), Some(100));
        let most = [0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0x08];
        assert_eq!(size(&most), Some(i32::MAX as u64));
        for none in [
            &[][..],
            &[0x15, 0x00, 0x15, 0xc8],
            &[0x15, 0x00, 0x15, 0xc9, 0x01, 0x15, 0x08],
            &[0x15, 0x00, 0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x15, 0x08],
            &[0x25, 0x00, 0x15, 0xc8, 0x01, 0x15, 0x08],
        ] {
            assert_eq!(size(none), None, "{none:?}");
        }
    }
}
