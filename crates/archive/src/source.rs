//! Where records come from and where they go, whatever the format: every conversion is a source and a sink, and
//! what chooses or reorders records is a source on top of others.

use std::collections::HashSet;
use std::io;

use wirebeat_units::{Fault, into_fault};

use crate::time_series::{Device, ReadError, Reader, Record, Writer};
use crate::{capture, csv, parquet};

/// Records one after another.
pub trait Source {
    /// Goes to the next one; says whether there is one.
    ///
    /// # Errors
    /// What is wrong with the input, with its place. After an error there is no next one.
    fn advance(&mut self) -> Result<bool, Error>;

    /// The one that it is at. What it is before the first, and after the last, means nothing.
    fn record(&self) -> Record<'_>;

    /// The name of the device of the current record, where it is longer than 16 bytes and known.
    fn name(&self, _device: Device) -> Option<&str> {
        None
    }

    /// How far it is, in bytes of its input, for showing progress.
    fn position(&self) -> u64;
}

/// Takes records.
pub trait Sink {
    /// Takes one.
    ///
    /// # Errors
    /// Where the record has no place in the format, or the system refuses.
    fn write(&mut self, record: &Record<'_>) -> io::Result<()>;

    /// Takes the name of a device that is longer than 16 bytes, before the first record of the device.
    ///
    /// # Errors
    /// Where the system refuses.
    fn name(&mut self, _device: Device, _name: &str) -> io::Result<()> {
        Ok(())
    }

    /// Ends it: what was taken has reached the system.
    ///
    /// # Errors
    /// Where the system refuses.
    fn finish(&mut self) -> io::Result<()>;
}

/// Why no more records come.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Of an archive.
    #[error(transparent)]
    Archive(#[from] ReadError),
    /// Of a capture.
    #[error(transparent)]
    Capture(#[from] capture::ReadError),
    /// Of a file of comma-separated values.
    #[error(transparent)]
    Csv(#[from] csv::ReadError),
    /// Of a file of Parquet.
    #[error(transparent)]
    Parquet(#[from] parquet::ReadError),
}

impl Error {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Archive(error) => error.fault(),
            Error::Capture(error) => error.fault(),
            Error::Csv(error) => error.fault(),
            Error::Parquet(error) => error.fault(),
        }
    }
}

into_fault!(Error);

/// Why a copy was not made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source ended with an error.
    #[error(transparent)]
    Read(#[from] Error),
    /// The sink did not take this record, which is counted from 0, or could not be ended.
    #[error("writing record {record}: {source}")]
    Write {
        /// Which.
        record: u64,
        /// Why.
        source: io::Error,
    },
    /// It was told to stop.
    #[error("it was stopped, and nothing was written")]
    Stopped,
}

impl CopyError {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            CopyError::Read(error) => error.fault(),
            CopyError::Write { record, source } => {
                let inner = source.get_ref();
                let time = inner.and_then(|inner| inner.downcast_ref::<parquet::TimeOutOfColumn>());
                let text = inner.and_then(|inner| inner.downcast_ref::<csv::NoText>());
                let fault =
                    time.map(parquet::TimeOutOfColumn::fault).or(text.map(csv::NoText::fault));
                let fault = fault.unwrap_or_else(|| source.to_string().into());
                fault.at(format!("writing record {record}"))
            }
            CopyError::Stopped => self.to_string().into(),
        }
    }
}

/// How often [`copy`] tells how far it is, in records.
const TELL_EVERY: u64 = 1 << 14;

/// Takes all records of a source to a sink, and says how many there were. `tell` is told now and then how many
/// records there were and how far the source is, and says whether to go on.
///
/// # Errors
/// See [`CopyError`].
pub fn copy(
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    mut tell: impl FnMut(u64, u64) -> bool,
) -> Result<u64, CopyError> {
    let mut records = 0;
    let mut named = HashSet::new();
    while source.advance()? {
        let record = source.record();
        let device = record.device;
        let mut write = || {
            if device.has_long_name()
                && !named.contains(&device)
                && let Some(name) = source.name(device)
            {
                named.insert(device);
                sink.name(device, name)?;
            }
            sink.write(&record)
        };
        write().map_err(|source| CopyError::Write { record: records, source })?;
        records += 1;
        if records % TELL_EVERY == 0 && !tell(records, source.position()) {
            return Err(CopyError::Stopped);
        }
    }
    sink.finish().map_err(|source| CopyError::Write { record: records, source })?;
    tell(records, source.position());
    Ok(records)
}

impl<R: io::Read> Source for Reader<R> {
    fn advance(&mut self) -> Result<bool, Error> {
        Ok(Reader::advance(self)?)
    }

    fn record(&self) -> Record<'_> {
        Reader::record(self)
    }

    fn name(&self, device: Device) -> Option<&str> {
        self.names().get(device)
    }

    fn position(&self) -> u64 {
        self.tally().read()
    }
}

impl<W: io::Write> Sink for Writer<W> {
    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        Writer::write(self, record)
    }

    fn name(&mut self, device: Device, name: &str) -> io::Result<()> {
        Writer::name(self, device, name)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}
