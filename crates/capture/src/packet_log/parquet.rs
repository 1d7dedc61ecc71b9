//! The log as a file of Parquet. Rows are gathered, and written a row group at a time, each as a segment
//! ([`super::segments`]) in one piece.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::columns::{COLUMNS, Form, schema};
use super::logged_run::{END, LogEnd, LogHead, RUN};
use super::rows::{Rows, Texts};
use super::segments::{HEAD, MAGIC, seal};
use crate::seen::{InterfaceCounts, Seen};
use crate::sink::{Sink, Written};

/// Rows of a row group: some 15 MB while they are gathered, and 2 MB in the file. In smaller ones more of the time goes to
/// what each of them costs, and readers want some 100,000 rows.
const GROUP_ROWS: usize = 1 << 17;
/// Row groups of a file. The library keeps what the footer says of each, some 10 KB, until the end.
const GROUPS_MAX: usize = 1 << 14;
/// How long rows may be gathered, so that a program that is killed loses no more; and of a long log so much of its time, so that
/// it has no more than some hundreds of small row groups for each factor of 10.
const GATHERED_NS: u64 = 10_000_000_000;
const GATHERED_OF_ALL: u64 = 256;
/// Level 1 takes a third less time than 3, for a file that is 2 % larger.
pub(super) const ZSTD_LEVEL: i32 = 1;

/// Writes the log.
pub(super) struct ParquetLog {
    file: File,
    path: PathBuf,
    /// Where the last whole segment ends.
    end: u64,
    to: SerializedFileWriter<Vec<u8>>,
    schema: Arc<SchemaDescriptor>,
    texts: Texts,
    rows: Rows,
    /// Rows that were written.
    written: u64,
    /// When the log began, and when the first of these rows was seen, in nanoseconds since 1970.
    began_ns: u64,
    first_ns: u64,
    /// Rows that an error kept from the file.
    lost: u64,
    /// No more than the footer is written after an error.
    broken: bool,
    /// Bytes of the footer, once it is written.
    footer: u64,
}

/// Columns of whole numbers that stay as they are for long, or take turns: as differences they are as small as in a dictionary,
/// and nothing is looked up.
const STEADY: [&str; 2] = ["queue", "flow_number"];

fn properties(head: &LogHead) -> Result<WriterProperties, ParquetError> {
    let run = serde_json::to_string(head).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("wirebeat ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // the pages of a row group are few, and what says where they are is kept in memory until the end
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_key_value_metadata(Some(vec![KeyValue::new(RUN.to_owned(), run)]));
    for column in COLUMNS {
        let path = ColumnPath::from(column.name);
        properties = match column.form {
            // times and numbers that count up: their differences are small
            Form::Moment | Form::Long => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Form::Short if STEADY.contains(&column.name) => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Form::Short | Form::Text => properties.set_column_dictionary_enabled(path, true),
        };
    }
    Ok(properties.build())
}

/// Parquet's errors, those of the system among them, as the system's.
fn other(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

impl ParquetLog {
    /// Begins the log in an empty file: what is known of the run is in it from now on.
    pub(super) fn new(file: File, path: PathBuf, head: &LogHead) -> io::Result<ParquetLog> {
        let schema = Arc::new(schema().map_err(other)?);
        let properties = Arc::new(properties(head).map_err(other)?);
        let to = SerializedFileWriter::new(Vec::new(), schema, properties).map_err(other)?;
        let ports: Vec<String> = head.ports.iter().map(|port| port.name.clone()).collect();
        let mut log = ParquetLog {
            file,
            path,
            end: 0,
            schema: Arc::new(to.schema_descr().clone()),
            to,
            texts: Texts::new(&ports, &head.flows),
            rows: Rows::default(),
            written: 0,
            began_ns: head.started_unix_ns,
            first_ns: 0,
            lost: 0,
            broken: false,
            footer: 0,
        };
        log.to.flush()?;
        let magic = std::mem::take(log.to.inner_mut());
        log.file.write_all_at(&magic, 0)?;
        log.end = MAGIC.len() as u64;
        log.begin_segment()?;
        log.end_segment(None)?;
        Ok(log)
    }

    /// Goes on in another file, as a disk does that lets nothing be written any more: what it was written to.
    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: File) -> File {
        std::mem::replace(&mut self.file, file)
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        self.to.write_all(&[0; HEAD])
    }

    /// Ends a segment with the metadata of `group`, and writes it to the file.
    fn end_segment(&mut self, group: Option<RowGroupMetaData>) -> io::Result<()> {
        let about = FileMetaData::new(
            self.to.properties().writer_version().as_num(),
            group.as_ref().map_or(0, RowGroupMetaData::num_rows),
            Some(self.to.properties().created_by().to_owned()),
            self.to.properties().key_value_metadata().cloned().filter(|_| group.is_none()),
            Arc::clone(&self.schema),
            None,
        );
        let metadata = footer(&ParquetMetaData::new(about, group.into_iter().collect()))?;
        self.to.write_all(&metadata)?;
        self.to.flush()?;
        let mut segment = std::mem::take(self.to.inner_mut());
        seal(&mut segment, self.end, u32::try_from(metadata.len()).unwrap_or(u32::MAX));
        self.file.write_all_at(&segment, self.end)?;
        self.end += segment.len() as u64;
        segment.clear();
        // its memory is used again
        *self.to.inner_mut() = segment;
        Ok(())
    }

    /// Writes what was gathered as a row group.
    fn flush(&mut self) -> io::Result<()> {
        let rows = self.rows.len() as u64;
        if rows == 0 || self.broken {
            return Ok(());
        }
        let flushed = self.write_group();
        match &flushed {
            Ok(()) => self.written += rows,
            Err(_) => {
                self.broken = true;
                self.lost += rows;
            }
        }
        flushed
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.begin_segment()?;
        let schema = Arc::clone(&self.schema);
        let group = self.to.next_row_group().map_err(other)?;
        self.rows.write(group, &schema, &self.texts).map_err(other)?;
        let group = self.to.flushed_row_groups().last().cloned();
        self.end_segment(group)
    }

    /// Writes the footer behind the last whole segment.
    fn end(&mut self, end: &LogEnd) -> io::Result<()> {
        // a part of a segment may be there, and on a full disk what it takes is wanted
        self.file.set_len(self.end)?;
        let mut about: Vec<KeyValue> =
            self.to.properties().key_value_metadata().cloned().unwrap_or_default();
        about.push(KeyValue::new(END.to_owned(), serde_json::to_string(end).unwrap_or_default()));
        let groups = whole_groups(self.to.flushed_row_groups(), self.end);
        let about = FileMetaData::new(
            self.to.properties().writer_version().as_num(),
            groups.iter().map(RowGroupMetaData::num_rows).sum(),
            Some(self.to.properties().created_by().to_owned()),
            Some(about),
            Arc::clone(&self.schema),
            None,
        );
        let footer = ended(&ParquetMetaData::new(about, groups))?;
        self.file.write_all_at(&footer, self.end)?;
        self.footer = footer.len() as u64;
        Ok(())
    }
}

/// The row groups that lie before `end`: the last one may not have been written.
fn whole_groups(groups: &[RowGroupMetaData], end: u64) -> Vec<RowGroupMetaData> {
    let is_whole = |group: &&RowGroupMetaData| {
        let column = |at: i64, len: i64| at.saturating_add(len) <= end.cast_signed();
        group.columns().iter().all(|chunk| {
            let at = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            column(at, chunk.compressed_size())
        })
    };
    groups.iter().filter(is_whole).cloned().collect()
}

/// What a file ends with that has these row groups.
pub(super) fn ended(metadata: &ParquetMetaData) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, metadata).finish().map_err(other)?;
    Ok(bytes)
}

/// The same without its length and the magic behind it.
fn footer(metadata: &ParquetMetaData) -> io::Result<Vec<u8>> {
    let mut bytes = ended(metadata)?;
    bytes.truncate(bytes.len().saturating_sub(4 + MAGIC.len()));
    Ok(bytes)
}

impl Sink for ParquetLog {
    fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        if self.broken {
            self.lost += 1;
            return Ok(());
        }
        if self.rows.len() == 0 {
            self.first_ns = seen.unix_ns;
        }
        self.rows.push(seen, &self.texts);
        if self.rows.len() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn pause(&mut self, unix_ns: u64, _counts: &[InterfaceCounts]) -> io::Result<()> {
        let lasted = unix_ns.saturating_sub(self.began_ns);
        let gathered = GATHERED_NS + lasted / GATHERED_OF_ALL;
        let old = unix_ns.saturating_sub(self.first_ns) >= gathered;
        if self.rows.len() > 0 && old { self.flush() } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.to.flushed_row_groups().len() >= GROUPS_MAX
    }

    fn written(&self) -> Written {
        Written {
            frames: self.written,
            bytes: self.end + self.footer,
            files: vec![self.path.clone()],
            lost: self.lost,
            ..Written::default()
        }
    }

    fn finish(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()> {
        let flushed = self.flush();
        let ended = self.end(&LogEnd { unwritten: self.lost, ..LogEnd::new(unix_ns, counts) });
        flushed.and(ended)
    }
}
