//! Archives of records that come evenly, for replays.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use wirebeat_archive::time_series::{Device, Record, Timestamp, Writer};

use crate::lab::{Failure, Lab};

/// 2015-07-01T18:20:30Z.
const BEGIN_US: i64 = 1_435_774_830_000_000;

/// Records that come evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// How many.
    pub records: u64,
    /// How many in turn have the same time.
    pub together: u64,
    /// From one such time to the next, in microseconds.
    pub every_us: u64,
    /// The device of a record is its number modulo this.
    pub devices: u64,
    /// Bytes of data.
    pub size: usize,
}

impl Series {
    /// Records that nobody sends at their times.
    pub fn untimed(records: u64, size: usize) -> Series {
        Series { records, together: 1, every_us: 1, devices: 1, size }
    }

    /// Microseconds from the first record to the last.
    pub fn span_us(&self) -> u64 {
        self.records.saturating_sub(1) / self.together * self.every_us
    }

    /// Writes the archive.
    pub fn write(&self, lab: &Lab) -> Result<Archive, Failure> {
        let archive = Archive(lab.folder.file("series.wbar"));
        let file = BufWriter::with_capacity(1 << 20, File::create(archive.path())?);
        let mut writer = Writer::new(file);
        let devices = (0..self.devices).map(|number| format!("sensor-{number:06}").parse());
        let devices = devices.collect::<Result<Vec<Device>, _>>()?;
        let mut data = vec![0xa5; self.size];
        for number in 0..self.records {
            let us = number / self.together * self.every_us;
            let time = Timestamp::utc(BEGIN_US.saturating_add_unsigned(us))?;
            let device = devices[(number % self.devices) as usize];
            // no two records are the same
            data.iter_mut().zip(number.to_be_bytes().iter().rev()).for_each(|(to, &b)| *to = b);
            writer.write(&Record { time, device, data: &data })?;
        }
        // what the system still has to write would take a CPU from what is measured
        writer.finish()?.into_inner()?.sync_all()?;
        Ok(archive)
    }
}

/// An archive, which is gone with its handle.
#[derive(Debug)]
pub struct Archive(PathBuf);

impl Archive {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // the folder that it is in goes as well
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_is_that_of_the_times() {
        let two = Series { records: 5, together: 2, every_us: 3, devices: 1, size: 0 };
        // at 0, 0, 3, 3, 6
        assert_eq!(two.span_us(), 6);
        assert_eq!(Series::untimed(1, 4).span_us(), 0);
    }
}
