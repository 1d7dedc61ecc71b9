//! Which sub-flow the records of a device belong to.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use wirebeat_trace::archive::Device;
use wirebeat_traffic::spec::replay::FlowOf;

use super::Recording;

/// The longest table of devices, in bytes.
const TABLE_MAX: u64 = 256 << 20;

/// The sub-flow of each device.
pub(super) enum SubFlows {
    /// There is but one.
    One,
    /// In the order in which devices come.
    InOrder(HashMap<Device, u32>),
    /// One of so many.
    Hash(u32),
    /// As a file says.
    Table(HashMap<Device, u32>),
}

impl SubFlows {
    /// As a recording says; the error names the file, and the line in it.
    pub(super) fn of(recording: &Recording) -> Result<SubFlows, String> {
        Ok(match (&recording.replay.flow_of, &recording.table) {
            (None, _) => SubFlows::One,
            (Some(FlowOf::Device), _) => SubFlows::InOrder(HashMap::new()),
            (Some(FlowOf::Hash(count)), _) => SubFlows::Hash(count.get()),
            (Some(FlowOf::Table(name)), path) => {
                let path = path.clone().unwrap_or_else(|| PathBuf::from(name));
                SubFlows::Table(table(&path)?)
            }
        })
    }

    /// The sub-flow of a device; `None` when there is none for it.
    #[inline]
    pub(super) fn of_device(&mut self, device: Device) -> Option<u32> {
        match self {
            SubFlows::One => Some(0),
            SubFlows::Hash(count) => Some(hash(device) % *count),
            SubFlows::InOrder(seen) => {
                let next = seen.len() as u32;
                Some(*seen.entry(device).or_insert(next))
            }
            SubFlows::Table(table) => table.get(&device).copied(),
        }
    }
}

/// FNV-1a of 32 bits: the same on every machine.
fn hash(device: Device) -> u32 {
    device
        .0
        .iter()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A device, a comma and a number in each line; `#` begins a comment.
fn table(path: &Path) -> Result<HashMap<Device, u32>, String> {
    let at = |line: usize| format!("{}:{line}", path.display());
    let file =
        File::open(path).map_err(|error| format!("the table '{}': {error}", path.display()))?;
    let mut table = HashMap::new();
    for (text, line) in BufReader::new(file.take(TABLE_MAX)).lines().zip(1..) {
        let text = text.map_err(|error| format!("{}: {error}", at(line)))?;
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let parts = text.rsplit_once(',');
        let (device, number) = parts.ok_or_else(|| {
            format!("{}: a line has a device, a comma and the number of its sub-flow", at(line))
        })?;
        let device: Device = device.trim().parse().map_err(|why| format!("{}: {why}", at(line)))?;
        let number = number.trim();
        let number = number
            .parse()
            .map_err(|_| format!("{}: '{number}' is no number of a sub-flow", at(line)))?;
        if table.insert(device, number).is_some() {
            return Err(format!("{}: {device} is there twice", at(line)));
        }
    }
    Ok(table)
}
