//! Writing an archive.

use std::collections::HashSet;
use std::io::{self, Write};

use super::device::{BadDevice, Device};
use super::names;
use super::record::{DATA_MAX, Record};

/// Data that no record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its data has {0} bytes, and a record holds {DATA_MAX} at most")]
pub struct TooLong(pub usize);

/// Writes records one after another.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    records: u64,
    bytes: u64,
    /// The devices whose names were written.
    named: HashSet<Device>,
}

impl<W: Write> Writer<W> {
    /// Onto the end of `to`, which should be buffered.
    pub fn new(to: W) -> Writer<W> {
        Writer { to, records: 0, bytes: 0, named: HashSet::new() }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// What `to` says; and [`TooLong`], as an error of the kind `InvalidInput`, before anything is written.
    #[inline]
    pub fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, TooLong(record.data.len()));
        let head = record.head().ok_or_else(too_long)?;
        self.to.write_all(&head)?;
        self.to.write_all(record.data)?;
        self.records += 1;
        self.bytes += record.total() as u64;
        Ok(())
    }

    /// Writes the name of a device that is longer than 16 bytes, once, before its first record.
    ///
    /// # Errors
    /// What `to` says; and [`BadDevice`], as an error of the kind `InvalidInput`, where it is
    /// not the name of that device.
    pub fn name(&mut self, device: Device, name: &str) -> io::Result<()> {
        if self.named.contains(&device) {
            return Ok(());
        }
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidInput, BadDevice::NotPlain(name.into()));
        let head = names::head(device, name).ok_or_else(wrong)?;
        self.to.write_all(&head)?;
        self.to.write_all(name.as_bytes())?;
        self.bytes += (head.len() + name.len()) as u64;
        self.named.insert(device);
        Ok(())
    }

    /// How many records were written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many bytes they are, with the names of their devices.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sees to it that what was written has reached what is below.
    ///
    /// # Errors
    /// What that says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// What was written to, flushed.
    ///
    /// # Errors
    /// What it says when it is flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}
