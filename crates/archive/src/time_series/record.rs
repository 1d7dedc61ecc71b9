//! One record.

use super::device::Device;
use super::timestamp::Timestamp;

/// Bytes of a record before its data.
pub const HEAD: usize = 2 + Timestamp::LEN + Device::LEN;
/// Bytes of the longest record.
pub const RECORD_MAX: usize = u16::MAX as usize;
/// Bytes of the longest data.
pub const DATA_MAX: usize = RECORD_MAX - HEAD;

/// Which byte of a length comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// The higher one, as on the wire: what is written here.
    #[default]
    Big,
    /// The lower one, as a program on most machines writes what it has in memory.
    Little,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When.
    pub time: Timestamp,
    /// From what.
    pub device: Device,
    /// What it says.
    pub data: &'a [u8],
}

impl ByteOrder {
    /// The other one.
    pub fn other(self) -> ByteOrder {
        match self {
            ByteOrder::Big => ByteOrder::Little,
            ByteOrder::Little => ByteOrder::Big,
        }
    }

    /// The length that a record begins with; `None` where there are not two bytes.
    #[inline]
    pub fn length(self, bytes: &[u8]) -> Option<u16> {
        let length = *bytes.first_chunk()?;
        Some(match self {
            ByteOrder::Big => u16::from_be_bytes(length),
            ByteOrder::Little => u16::from_le_bytes(length),
        })
    }
}

impl<'a> Record<'a> {
    /// Bytes of the whole record.
    pub fn total(&self) -> usize {
        HEAD + self.data.len()
    }

    /// The record that these bytes are, of which length and time were read before. `None` where there are less than
    /// a record has.
    #[inline]
    pub(crate) fn with(time: Timestamp, bytes: &'a [u8]) -> Option<Record<'a>> {
        let (head, data) = bytes.split_first_chunk::<HEAD>()?;
        Some(Record { time, device: Device(*head.last_chunk()?), data })
    }

    /// The bytes before the data; `None` where there is more data than fits.
    #[inline]
    pub fn head(&self) -> Option<[u8; HEAD]> {
        let length = u16::try_from(self.total()).ok()?;
        let mut head = [0; HEAD];
        head[..2].copy_from_slice(&length.to_be_bytes());
        head[2..2 + Timestamp::LEN].copy_from_slice(&self.time.pack());
        head[2 + Timestamp::LEN..].copy_from_slice(&self.device.0);
        Some(head)
    }
}
