//! D-ITG's binary log: a record of 144 bytes for each packet, in the order of the machine, which `ITGDec` reads.
//!
//! ```text
//!   0      4        8             12                 16     20     24     28     32     36           82              128    136
//! +------+--------+-------------+------------------+------+------+------+------+------+------------+---------------+------+------+
//! | flow | number | source port | destination port | sent       | received     | size | source     | destination   | sent | recv.|
//! |      |        |             |                  | h    | min | h    | min    |      | text       | text          | s    | s    |
//! +------+--------+-------------+------------------+------+------+------+------+------+------------+---------------+------+------+
//! ```
//! The last two are floating-point numbers; times are UTC, of the day. Which file a log is, only the caller says: no message of a
//! peer does.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;

use wirebeat_units::Nanos;

use crate::payload::TimeOfDay;

/// Bytes of a record.
pub const RECORD: usize = 144;
/// Bytes of an address in text.
const ADDRESS: usize = 46;
/// Bytes that are written at once.
const BUFFER: usize = 64 << 10;
/// The largest log: 119 million packets. A peer that sends on does not fill the disk.
pub const BYTES_MAX: u64 = 16 << 30;

/// What the records of a flow have in common.
#[derive(Clone, Copy, Debug)]
pub struct FlowRecord([u8; RECORD]);

/// What a record says of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number; 0 where it has none.
    pub sequence: u32,
    /// When it was sent.
    pub sent: TimeOfDay,
    /// When it was received.
    pub received: TimeOfDay,
    /// Bytes of its payload.
    pub size: u32,
}

fn put(record: &mut [u8; RECORD], at: usize, bytes: &[u8]) {
    if let Some(place) = record.get_mut(at..at.saturating_add(bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

impl FlowRecord {
    /// That of a flow.
    pub fn new(flow: u32, source: SocketAddr, destination: SocketAddr) -> FlowRecord {
        let mut record = [0; RECORD];
        put(&mut record, 0, &flow.to_ne_bytes());
        for (at, text_at, address) in [(8, 36, source), (12, 82, destination)] {
            put(&mut record, at, &u32::from(address.port()).to_ne_bytes());
            let text = address.ip().to_canonical().to_string();
            let kept = text.as_bytes().get(..ADDRESS - 1).unwrap_or(text.as_bytes());
            put(&mut record, text_at, kept);
        }
        FlowRecord(record)
    }

    /// The record of a packet.
    pub fn of(&self, packet: &Packet) -> [u8; RECORD] {
        let mut record = self.0;
        put(&mut record, 4, &packet.sequence.to_ne_bytes());
        put(&mut record, 32, &packet.size.to_ne_bytes());
        for (at, seconds_at, time) in [(16, 128, packet.sent), (24, 136, packet.received)] {
            let ns = time.since_midnight();
            let minutes = ns.get() / 60_000_000_000;
            put(&mut record, at, &((minutes / 60) as u32).to_ne_bytes());
            put(&mut record, at + 4, &((minutes % 60) as u32).to_ne_bytes());
            let seconds = Nanos::new(ns.get() % 60_000_000_000).as_secs_f64();
            put(&mut record, seconds_at, &seconds.to_ne_bytes());
        }
        record
    }
}

/// A log that is being written.
#[derive(Debug)]
pub struct LogFile {
    writer: BufWriter<File>,
    left: u64,
    omitted: u64,
    failed: Option<io::Error>,
}

impl LogFile {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> io::Result<LogFile> {
        Ok(LogFile::on(File::create(path)?))
    }

    /// Writes to an open file.
    pub fn on(file: File) -> LogFile {
        let writer = BufWriter::with_capacity(BUFFER, file);
        LogFile { writer, left: BYTES_MAX / RECORD as u64, omitted: 0, failed: None }
    }

    /// Writes the record of a packet. An error ends the writing, and is told at the end.
    pub fn write(&mut self, flow: &FlowRecord, packet: &Packet) {
        if self.failed.is_some() || self.left == 0 {
            self.omitted += 1;
            return;
        }
        self.left -= 1;
        if let Err(error) = self.writer.write_all(&flow.of(packet)) {
            self.failed = Some(error);
            self.omitted += 1;
        }
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.writer.flush().err();
        }
    }

    /// Writes the rest: how many records the log has no room for.
    ///
    /// # Errors
    /// What failed first.
    pub fn finish(mut self) -> io::Result<u64> {
        self.flush();
        self.failed.map_or(Ok(self.omitted), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_itgrecv_writes_it() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let flow = FlowRecord::new(1, address("127.0.0.1:49826"), address("127.0.0.1:8999"));
        // 20:23:58.827919 and 58.828032, as captured
        let minute = Nanos::from_secs((20 * 60 + 23) * 60);
        let at = |micros: u64| TimeOfDay::of(minute.saturating_add(Nanos::from_micros(micros)));
        let packet =
            Packet { sequence: 1, sent: at(58_827_919), received: at(58_828_032), size: 100 };
        let record = flow.of(&packet);
        let word = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().unwrap());
        let words: Vec<u32> = (0..9).map(|n| word(4 * n)).collect();
        assert_eq!(words, [1, 1, 49_826, 8_999, 20, 23, 20, 23, 100]);
        let text = |at: usize| {
            let field = &record[at..at + ADDRESS];
            assert_eq!(field[9..], [0; ADDRESS - 9]);
            String::from_utf8(field[..9].to_vec()).unwrap()
        };
        assert_eq!((text(36), text(82)), ("127.0.0.1".to_owned(), "127.0.0.1".to_owned()));
        let seconds = |at: usize| f64::from_ne_bytes(record[at..at + 8].try_into().unwrap());
        assert_eq!((seconds(128), seconds(136)), (58.827_919, 58.828_032));
    }

    #[test]
    fn the_longest_address_has_its_end() {
        let long = "[2001:db8:1111:2222:3333:4444:5555:6666]:1".parse().unwrap();
        let record = FlowRecord::new(1, long, long).0;
        assert_eq!((record[36 + 37], record[81], record[127]), (b'6', 0, 0));
    }
}
