//! The records of a source, with their times rounded: what was in order stays in order.

use crate::csv::read::is_long;
use crate::source::{Error, Source};
use crate::time_series::{Device, Record, Rounding};

/// The records of a source with rounded times.
#[derive(Debug)]
pub struct Rounded<S> {
    source: S,
    to: Option<Rounding>,
    /// The name of the one device of all records, where it is longer than 16 bytes.
    name: Option<(Device, Box<str>)>,
}

impl<S> Rounded<S> {
    /// Of `source`; `None`: as they are.
    pub fn new(source: S, to: Option<Rounding>) -> Rounded<S> {
        Rounded { source, to, name: None }
    }

    /// All records are of this device, which is called so.
    pub fn of(self, device: Device, name: &str) -> Rounded<S> {
        Rounded { name: is_long(name).then(|| (device, name.into())), ..self }
    }

    /// What it reads.
    pub fn source(&self) -> &S {
        &self.source
    }
}

impl<S: Source> Source for Rounded<S> {
    fn advance(&mut self) -> Result<bool, Error> {
        self.source.advance()
    }

    fn record(&self) -> Record<'_> {
        let record = self.source.record();
        let rounded = self.to.and_then(|to| record.time.rounded(to).ok());
        // the last nanoseconds of the year 9999 have nothing to be rounded to
        Record { time: rounded.unwrap_or(record.time), ..record }
    }

    fn name(&self, device: Device) -> Option<&str> {
        let fixed = self.name.as_ref().filter(|(of, _)| *of == device);
        fixed.map(|(_, name)| name.as_ref()).or_else(|| self.source.name(device))
    }

    fn position(&self) -> u64 {
        self.source.position()
    }
}
