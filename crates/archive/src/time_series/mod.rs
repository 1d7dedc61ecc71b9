//! The archive: records one after another, each with a time, a device and data that nobody looks into.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | length of the whole record, these two bytes too; big-endian ([`ByteOrder`] reads the other as well) |
//! | 2 | 12 | time, packed decimal, or with nanoseconds: [`timestamp`] |
//! | 14 | 16 | device: [`device`] |
//! | 30 | 0 to 65,505 | data |
//!
//! There is no header and no padding: two archives one after the other are an archive, and so is any run of whole
//! records. Records stand in the order of their times, as moments, whatever their zones; equal times are in order.
//!
//! Devices whose names are longer than 16 bytes have them in a dictionary: [`names`].
//!
//! [`record`] is one of them, [`read`] and [`mod@write`] are files of them.

pub mod device;
pub mod names;
pub mod read;
pub mod record;
mod text;
pub mod timestamp;
pub mod write;

pub use device::Device;
pub use names::Names;
pub use read::{Bad, Defect, LeftOut, OnBad, Place, ReadError, Reader, Reading, Tally};
pub use record::{ByteOrder, DATA_MAX, HEAD, RECORD_MAX, Record};
pub use timestamp::{BadTime, Rounding, Timestamp};
pub use write::{TooLong, Writer};
