//! The records of a source, with their times rounded: what was in order stays in order.

use crate::archive::{Record, Rounding};
use crate::source::{Error, Source};

/// The records of a source with rounded times.
#[derive(Debug)]
pub struct Rounded<S> {
    source: S,
    to: Option<Rounding>,
}

impl<S> Rounded<S> {
    /// Of `source`; `None`: as they are.
    pub fn new(source: S, to: Option<Rounding>) -> Rounded<S> {
        Rounded { source, to }
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

    fn position(&self) -> u64 {
        self.source.position()
    }
}
