//! Segments: how a log that was never ended is read all the same.
//!
//! Parquet says where its row groups are at the end of the file, which a program that is killed never writes. So each row group
//! lies in a segment that says so itself; what lies between row groups is of no interest to readers of Parquet:
//!
//! ```text
//! "PAR1" | segment 0: what is known of the run | segment 1: a row group | segment 2: a row group | … | footer | "PAR1"
//!
//! segment: offset  0  4 bytes  "WBPL"
//!                4  u32      CRC-32C of the rest of the segment
//!                8  u64      bytes of the segment, with this head
//!               16  u64      where in the file it begins
//!               24  u32      bytes of its metadata
//!               28  u32      0
//!               32           the pages of the row group; none in segment 0
//!               …            its metadata: `FileMetaData` of parquet.thrift with this row group alone
//! ```
//! Numbers are little endian. A segment is written in one piece and never changed. So after any end of the program the file is
//! whole segments and perhaps a part of one, and the row groups of the whole ones are read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parquet::file::metadata::{FileMetaData, ParquetMetaData, RowGroupMetaData};
use wirebeat_archive::parquet::pages::decode_footer;
use wirebeat_archive::parquet::read::guarded;
use wirebeat_units::{Fault, fault};

/// What a file of Parquet begins and ends with.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes of the head of a segment.
pub(super) const HEAD: usize = 32;
const SEGMENT_MAGIC: &[u8; 4] = b"WBPL";
/// The most bytes of a segment: those of a row group, and more than any row group has.
const SEGMENT_MAX: u64 = 1 << 30;

/// Fills in the head of `segment`, which begins at `at` in the file and ends with `metadata` bytes of metadata. Its first
/// [`HEAD`] bytes are for the head.
pub(super) fn seal(segment: &mut [u8], at: u64, metadata: u32) {
    let len = segment.len() as u64;
    if let Some(head) = segment.first_chunk_mut::<HEAD>() {
        head[..4].copy_from_slice(SEGMENT_MAGIC);
        head[8..16].copy_from_slice(&len.to_le_bytes());
        head[16..24].copy_from_slice(&at.to_le_bytes());
        head[24..28].copy_from_slice(&metadata.to_le_bytes());
        head[28..].fill(0);
    }
    let sum = crc32c::crc32c(segment.get(8..).unwrap_or_default());
    if let Some(field) = segment.get_mut(4..8) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}

/// What the segments of a file come to.
#[derive(Debug)]
pub(super) struct Segments {
    /// All row groups, as the footer would have listed them.
    pub(super) metadata: ParquetMetaData,
    /// Where the last whole segment ends.
    pub(super) end: u64,
}

/// The lengths in the head of a segment.
struct Head {
    len: u64,
    metadata: u64,
    sum: u32,
}

impl Head {
    /// Of the segment that begins at `at`, if these bytes are its head.
    fn read(bytes: &[u8; HEAD], at: u64) -> Option<Head> {
        let long = |at: usize| bytes.get(at..)?.first_chunk().map(|it| u64::from_le_bytes(*it));
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|it| u32::from_le_bytes(*it));
        let head = Head { len: long(8)?, metadata: word(24)?.into(), sum: word(4)? };
        let right = bytes.starts_with(SEGMENT_MAGIC) && long(16)? == at;
        let fits = head.metadata <= head.len.saturating_sub(HEAD as u64) && head.len <= SEGMENT_MAX;
        (right && fits).then_some(head)
    }
}

/// Walks over the segments of a file.
///
/// # Errors
/// What the system says, and where the file is no packet log or has no whole segment.
pub(super) fn walk(file: &File) -> Result<Segments, Fault> {
    let len = file.metadata().map_err(|error| unread(&error))?.len();
    let mut at = MAGIC.len() as u64;
    let mut first: Option<FileMetaData> = None;
    let mut groups: Vec<RowGroupMetaData> = Vec::new();
    let mut bytes = Vec::new();
    while let Some(metadata) =
        segment(file, (at, len), &mut bytes).map_err(|error| unread(&error))?
    {
        // sound by its sum, so this was not written here
        let decoded = guarded(|| decode_footer(metadata))
            .map_err(|_| fault!("a segment of the packet log at byte {at} contradicts itself"))?;
        at += bytes.len() as u64;
        groups.extend(decoded.row_groups().iter().cloned());
        first.get_or_insert_with(|| decoded.file_metadata().clone());
    }
    let Some(about) = first else {
        return Err(fault!(
            "it is no packet log in Parquet, or was cut before its first bytes were written";
            "give a .parquet file that was written with --packet-log; logs in CSV are read by other programs"
        ));
    };
    let rows = groups.iter().map(RowGroupMetaData::num_rows).fold(0, i64::saturating_add);
    let about = FileMetaData::new(
        about.version(),
        rows,
        about.created_by().map(str::to_owned),
        about.key_value_metadata().cloned(),
        about.schema_descr_ptr(),
        about.column_orders().cloned(),
    );
    Ok(Segments { metadata: ParquetMetaData::new(about, groups), end: at })
}

/// Reads the segment at `at` into `bytes`, if there is a whole one: its metadata.
fn segment<'a>(
    file: &File,
    (at, file_len): (u64, u64),
    bytes: &'a mut Vec<u8>,
) -> io::Result<Option<&'a [u8]>> {
    let left = file_len.saturating_sub(at);
    if left < HEAD as u64 {
        return Ok(None);
    }
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, at)?;
    let Some(head) = Head::read(&head, at).filter(|head| head.len <= left) else { return Ok(None) };
    // no more than the file has
    bytes.resize(head.len as usize, 0);
    file.read_exact_at(bytes, at)?;
    if crc32c::crc32c(bytes.get(8..).unwrap_or_default()) != head.sum {
        return Ok(None);
    }
    Ok(bytes.get((head.len - head.metadata) as usize..))
}

fn unread(error: &io::Error) -> Fault {
    fault!("it cannot be read: {error}")
}
