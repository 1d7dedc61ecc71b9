//! Columns whose values repeat, written as places in a dictionary.
//!
//! The library looks each value up by a hash of its bytes, which was half of the time that a log took. Here the writer knows
//! what repeats: rows hold places, and they go into the file as they are (`Encodings.md` of parquet-format: dictionary
//! encoding, and the hybrid of run lengths and packed bits).

use std::io::Write;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::parquet::ZSTD_LEVEL;

/// Values in a group of packed bits.
const PACKED: usize = 8;

/// The places that rows have in a dictionary, and which rows have none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// Of the rows that have one.
    pub(super) values: &'a [u16],
    /// 1 for a value, 0 for none, of each row; `None` where all have one.
    pub(super) levels: Option<&'a [i16]>,
}

impl Places<'_> {
    fn rows(&self) -> usize {
        self.levels.map_or(self.values.len(), <[i16]>::len)
    }
}

/// Writes the next column of a row group: of each row the value of `dictionary` at its place, each as its bytes in the plain
/// encoding.
pub(super) fn write(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    descr: ColumnDescPtr,
    dictionary: &[Bytes],
    places: Places<'_>,
) -> Result<()> {
    let (used, places_used) = used(dictionary.len(), places.values);
    let values = || used.iter().filter_map(|place| dictionary.get(usize::from(*place)));
    let plain: Vec<u8> = values().flat_map(|value| value.iter().copied()).collect();
    let rows = places.rows();
    let count = u32::try_from(rows).map_err(|_| ParquetError::General("too many rows".into()))?;
    let page = data_page(&places_used, places.levels, used.len());
    let mut chunk = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut chunk);
    let dictionary = pages.write_page(compressed(&plain, |buf| Page::DictionaryPage {
        buf,
        num_values: used.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    })?)?;
    let data = pages.write_page(compressed(&page, |buf| Page::DataPage {
        buf,
        num_values: count,
        encoding: Encoding::RLE_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    })?)?;
    chunk.flush()?;
    let statistics = |page_type, encoding| PageEncodingStats { page_type, encoding, count: 1 };
    let metadata = ColumnChunkMetaData::builder(descr)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_page_encoding_stats(vec![
            statistics(PageType::DICTIONARY_PAGE, Encoding::PLAIN),
            statistics(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY),
        ])
        .set_num_values(rows as i64)
        .set_total_compressed_size((dictionary.compressed_size + data.compressed_size) as i64)
        .set_total_uncompressed_size((dictionary.uncompressed_size + data.uncompressed_size) as i64)
        .set_dictionary_page_offset(Some(dictionary.offset as i64))
        .set_data_page_offset(data.offset as i64)
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: chunk.bytes_written() as u64,
        rows_written: rows as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(&Bytes::from(chunk.into_inner()?), close)
}

fn compressed(bytes: &[u8], page: impl Fn(Bytes) -> Page) -> Result<CompressedPage> {
    let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL)?;
    Ok(CompressedPage::new(page(packed.into()), bytes.len()))
}

/// Which values of a dictionary of `len` are used, and the places of all rows among these.
fn used(len: usize, places: &[u16]) -> (Vec<u16>, Vec<u16>) {
    const UNUSED: u16 = u16::MAX;
    let (mut used, mut renamed) = (Vec::new(), vec![UNUSED; len]);
    let mut rename = |place: &u16| {
        let Some(new) = renamed.get_mut(usize::from(*place)) else { return 0 };
        if *new == UNUSED {
            *new = used.len() as u16;
            used.push(*place);
        }
        *new
    };
    let places = places.iter().map(&mut rename).collect();
    (used, places)
}

/// A data page of version 1: the definition levels where values are optional, the width of places, the places.
fn data_page(places: &[u16], levels: Option<&[i16]>, values: usize) -> Vec<u8> {
    let mut page = Vec::with_capacity(places.len());
    if let Some(levels) = levels {
        page.extend_from_slice(&[0; 4]);
        hybrid(levels.len(), 1, |row| u16::from(levels[row] > 0), &mut page);
        let len = (page.len() - 4) as u32;
        page[..4].copy_from_slice(&len.to_le_bytes());
    }
    // bits of the largest place
    let width = values.max(1).ilog2() + u32::from(!values.max(1).is_power_of_two());
    page.push(width as u8);
    hybrid(places.len(), width, |at| places[at], &mut page);
    page
}

/// The hybrid of runs and packed bits of `count` values of `width` bits: a value that comes at least 8 times in a row is a run,
/// others are packed in eights, least significant bits first.
fn hybrid(count: usize, width: u32, value: impl Fn(usize) -> u16, to: &mut Vec<u8>) {
    let mut at = 0;
    // where those begin that are to be packed
    let mut packed = 0;
    while at < count {
        let first = value(at);
        let run = (at..count).take_while(|next| value(*next) == first).count();
        // what is packed comes in eights, but for the end of all
        let fill = (PACKED - (at - packed) % PACKED) % PACKED;
        if run >= fill + PACKED {
            pack(packed..at + fill, (count, width), &value, to);
            let left = run - fill;
            varint((left as u64) << 1, to);
            to.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
            at += run;
            packed = at;
        } else {
            at += run;
        }
    }
    pack(packed..count, (count, width), &value, to);
}

/// Values as packed bits; the last eight are filled with zeros where there are fewer.
fn pack(
    range: std::ops::Range<usize>,
    (count, width): (usize, u32),
    value: &impl Fn(usize) -> u16,
    to: &mut Vec<u8>,
) {
    let groups = range.len().div_ceil(PACKED);
    if groups == 0 {
        return;
    }
    varint((groups as u64) << 1 | 1, to);
    for group in 0..groups {
        let begin = range.start + group * PACKED;
        let bits = (0..PACKED).fold(0_u128, |bits, place| match begin + place {
            at if at < count => bits | u128::from(value(at)) << (place as u32 * width),
            _ => bits,
        });
        to.extend_from_slice(&bits.to_le_bytes()[..width as usize]);
    }
}

/// A number of seven bits to a byte, the lowest first.
fn varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}
