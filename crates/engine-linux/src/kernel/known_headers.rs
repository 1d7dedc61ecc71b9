//! The headers by which the metering program knows flows without probes: masks are constants of the program, keys are in a
//! hash table. What they are made of is `wirebeat_wire::headers`.

use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags};
use wirebeat_meter::filter::Filter;
use wirebeat_meter::headers::HeaderTable;
use wirebeat_meter::meter::MeterConfig;
use wirebeat_wire::headers::LEN;

use super::abi::{HEADER_MASKS, HeaderKey};
use super::plan::Recognised;
use super::skeletons::receive::types::rodata;

/// The number of keys that one call writes.
const BATCH: usize = 4096;

/// The table of a receiver.
#[derive(Debug)]
pub(crate) struct KnownHeaders<'a> {
    table: &'a HeaderTable,
    /// Numbers of the flows, in the order of their rows.
    pub(crate) flows: Vec<u16>,
}

impl KnownHeaders<'_> {
    /// Of those that are measured. None where datagrams are chosen by a filter.
    pub(crate) fn of(meter: &MeterConfig) -> KnownHeaders<'_> {
        let mut flows = Vec::new();
        if meter.filter == Filter::default() {
            flows.extend(meter.headers.flows().iter().map(|(_, id)| *id));
        }
        flows.sort_unstable();
        flows.dedup();
        KnownHeaders { table: &meter.headers, flows }
    }

    pub(crate) fn size(&self) -> Recognised {
        let headers = if self.flows.is_empty() { 0 } else { self.table.keys() };
        Recognised { flows: self.flows.len(), headers }
    }

    /// Sets the program's masks; `None` where it has no room for so many.
    pub(super) fn configure(&self, rodata: &mut rodata) -> Option<()> {
        let masks = self.masks()?;
        rodata.header_mask_count = masks.len() as u32;
        for (place, mask) in rodata.header_masks.iter_mut().zip(masks) {
            place.words = mask;
        }
        Some(())
    }

    /// The masks, as words of programs; `None` where those have no room for so many.
    pub(crate) fn masks(&self) -> Option<Vec<[u64; LEN / 8]>> {
        if self.flows.is_empty() {
            return Some(Vec::new());
        }
        let masks = self.table.by_mask();
        let words = |mask: &[u8]| {
            let mut words = [0; LEN / 8];
            for (word, bytes) in words.iter_mut().zip(mask.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
            words
        };
        (masks.len() <= HEADER_MASKS)
            .then(|| masks.into_iter().map(|(mask, _)| words(&mask[..])).collect())
    }

    /// Writes the keys; the first flow has row `first`.
    pub(crate) fn fill(&self, map: &impl MapCore, first: u32) -> libbpf_rs::Result<()> {
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        let mut count = 0;
        if self.flows.is_empty() {
            return Ok(());
        }
        for (number, (_, flows)) in (0_u64..).zip(self.table.by_mask()) {
            for (key, id) in flows {
                // each is there
                let row = first + self.flows.binary_search(id).unwrap_or_default() as u32;
                keys.extend(key.bytes());
                keys.extend(number.to_ne_bytes());
                rows.extend(row.to_ne_bytes());
                count += 1;
                if count == BATCH {
                    map.update_batch(&keys, &rows, BATCH as u32, MapFlags::ANY, MapFlags::ANY)?;
                    keys.clear();
                    rows.clear();
                    count = 0;
                }
            }
        }
        if count > 0 {
            map.update_batch(&keys, &rows, count as u32, MapFlags::ANY, MapFlags::ANY)?;
        }
        Ok(())
    }
}

const _: () = assert!(offset_of!(HeaderKey, mask) == LEN);
