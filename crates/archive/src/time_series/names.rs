//! Names of devices that are longer than the 16 bytes which a record has for its device: a dictionary in the archive.
//!
//! Such a device is `0xff` and the first 15 bytes of the SHA-256 of its name, so that it is the same in every archive,
//! and archives are cut, put behind one another and merged as ever. A *name record* stands before the first record of
//! the device:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | length of all of it |
//! | 2 | 1 | `0xf2`, which no time begins with |
//! | 3 | 11 | zeros |
//! | 14 | 16 | the device |
//! | 30 | 17 to 1,024 | its name, UTF-8 |
//!
//! It has no time and no number, and is not a record: nothing is sent of it. Without it the device is shown as digits.

use std::collections::HashMap;

use wirebeat_units::{Fault, fault, into_fault};

use super::device::Device;
use super::record::HEAD;
use super::timestamp::Timestamp;

/// What a name record has where others have a time.
const MARK: [u8; Timestamp::LEN] = [0xf2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Bytes of all names of an archive, and how many there may be.
const BYTES_MAX: usize = 256 << 20;
const NAMES_MAX: usize = 1 << 20;

/// Names of devices that are longer than 16 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    of: HashMap<Device, Box<str>>,
    bytes: usize,
}

/// More names than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct TooMany;

impl TooMany {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        fault!(
            "it names more than {NAMES_MAX} devices, or with more than {} MiB", BYTES_MAX >> 20;
            "slice it by device first"
        )
    }
}

into_fault!(TooMany);

impl Names {
    /// The name of a device, where it is known to have a long one.
    #[inline]
    pub fn get(&self, device: Device) -> Option<&str> {
        if device.has_long_name() { self.of.get(&device).map(AsRef::as_ref) } else { None }
    }

    /// Takes a name; says whether it is new.
    ///
    /// # Errors
    /// Where there are too many.
    pub fn insert(&mut self, device: Device, name: &str) -> Result<bool, TooMany> {
        if self.of.contains_key(&device) {
            return Ok(false);
        }
        if self.of.len() >= NAMES_MAX || self.bytes + name.len() > BYTES_MAX {
            return Err(TooMany);
        }
        self.bytes += name.len();
        self.of.insert(device, name.into());
        Ok(true)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Device, &str)> {
        self.of.iter().map(|(device, name)| (*device, name.as_ref()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// Whether a record with this in the place of its time, and so long, is a name record.
pub(super) fn is_name(time: &[u8; Timestamp::LEN], len: usize) -> bool {
    *time == MARK && (HEAD + Device::LEN + 1..=HEAD + Device::NAME_MAX).contains(&len)
}

/// The device and the name of a name record; `None` where they do not belong together.
pub(super) fn read(record: &[u8]) -> Option<(Device, &str)> {
    let (head, name) = record.split_first_chunk::<HEAD>()?;
    let device = Device(*head.last_chunk()?);
    let name = std::str::from_utf8(name).ok()?;
    (name.len() > Device::LEN && Device::named(name).ok() == Some(device)).then_some((device, name))
}

/// What stands before a name; `None` where it is longer than names are.
pub(super) fn head(device: Device, name: &str) -> Option<[u8; HEAD]> {
    let length = (name.len() <= Device::NAME_MAX).then_some((HEAD + name.len()) as u16)?;
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&length.to_be_bytes());
    head[2..14].copy_from_slice(&MARK);
    head[14..].copy_from_slice(&device.0);
    Some(head)
}
