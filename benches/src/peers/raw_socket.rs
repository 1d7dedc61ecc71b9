//! The plain sender that archives were replayed with before: a raw socket, one call for each record. It has the archive in
//! memory, which is what mapping the file gives it once the pages are there, and a header made beforehand, in which it
//! writes only what a record changes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::packet::plain::PlainSocket;
use wirebeat_wire::checksum::checksum;

use crate::lab::{Failure, Lab};

/// Bytes of the headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
const IPV4: Range<usize> = 14..34;
const TOTAL_LENGTH: Range<usize> = 16..18;
const IPV4_CHECKSUM: Range<usize> = 24..26;
const UDP_LENGTH: Range<usize> = 38..40;
const UDP_CHECKSUM: Range<usize> = 40..42;
/// Bytes of a record before its data: its length, time and device.
const RECORD: usize = 2 + 12 + 16;
/// Records between two looks whether it is over.
const LOOK: usize = 256;

/// A frame whose addresses are right, and in which data is put behind the headers.
#[derive(Clone, Debug)]
pub struct Addressed {
    frame: Vec<u8>,
    data: usize,
}

impl Addressed {
    /// With the headers of a frame of UDP over IPv4 without options.
    pub fn like(frame: &[u8]) -> Result<Addressed, Failure> {
        let headers = frame.get(..HEADERS).ok_or("the frame has no headers")?;
        let mut frame = headers.to_vec();
        // none: what a plain sender writes over IPv4 (RFC 768)
        frame[UDP_CHECKSUM].fill(0);
        Ok(Addressed { frame, data: usize::MAX })
    }

    /// The frame with this data.
    fn with(&mut self, data: &[u8]) -> &[u8] {
        self.frame.truncate(HEADERS);
        if self.data != data.len() {
            self.data = data.len();
            let udp = (8 + data.len()) as u16;
            self.frame[UDP_LENGTH].copy_from_slice(&udp.to_be_bytes());
            self.frame[TOTAL_LENGTH].copy_from_slice(&(20 + udp).to_be_bytes());
            self.frame[IPV4_CHECKSUM].fill(0);
            let sum = checksum(&self.frame[IPV4]);
            self.frame[IPV4_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        }
        self.frame.extend_from_slice(data);
        &self.frame
    }
}

/// Sends all records of an archive, again and again, until `stop`.
pub fn send_all(
    lab: &Lab,
    mut frame: Addressed,
    archive: &[u8],
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let index = lab.near().link.index.get();
    let socket = lab.near().namespace.run(|| PlainSocket::open(index))??;
    affinity::pin(lab.cores.send)?;
    let (mut rest, mut sent) = (archive, 0);
    loop {
        let Some(len) = rest.first_chunk().map(|len| usize::from(u16::from_be_bytes(*len))) else {
            if sent == 0 {
                return Err("the archive is empty".into());
            }
            rest = archive;
            continue;
        };
        let record = rest.split_at_checked(len).filter(|_| len >= RECORD);
        let (record, behind) = record.ok_or("the archive is broken")?;
        socket.send(frame.with(&record[RECORD..]))?;
        rest = behind;
        sent += 1;
        if sent % LOOK == 0 && stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_follows_the_data() {
        let mut plain = vec![0; HEADERS];
        plain[14] = 0x45;
        plain[40] = 0xff;
        let mut frame = Addressed::like(&plain).unwrap();
        for data in [&b"four"[..], b"", b"more than four"] {
            let sent = frame.with(data).to_vec();
            assert_eq!(&sent[HEADERS..], data);
            assert_eq!(sent[38..40], (8 + data.len() as u16).to_be_bytes());
            assert_eq!(sent[16..18], (28 + data.len() as u16).to_be_bytes());
            assert_eq!(sent[40..42], [0, 0]);
            // over a header with its checksum the sum is nothing
            assert_eq!(checksum(&sent[IPV4]), 0);
        }
        assert!(Addressed::like(&plain[1..]).is_err());
    }
}
