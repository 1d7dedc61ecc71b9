//! Which flow a frame without a probe is of, by its headers.

use std::collections::{HashMap, HashSet};

use wirebeat_wire::headers::{HeaderKey, HeaderMatch, LEN};

/// Flows and the headers that are theirs alone. A look-up takes as many steps as there are different masks, which is
/// one where all flows change nothing, or the same fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderTable {
    flows: Vec<(HeaderMatch, u16)>,
    by_mask: Vec<([u8; LEN], HashMap<HeaderKey, u16>)>,
}

impl HeaderTable {
    /// Adds headers of flow `id`.
    pub fn add(&mut self, of: HeaderMatch, id: u16) {
        self.flows.push((of, id));
        let place = self.by_mask.iter().position(|(mask, _)| *mask == of.mask);
        let place = place.unwrap_or_else(|| {
            self.by_mask.push((of.mask, HashMap::new()));
            self.by_mask.len() - 1
        });
        self.by_mask[place].1.insert(of.key, id);
    }

    /// Whether no flow is known by its headers.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// What was added, in that order.
    pub fn flows(&self) -> &[(HeaderMatch, u16)] {
        &self.flows
    }

    /// What was added, by mask: the keys are masked.
    pub fn by_mask(&self) -> impl ExactSizeIterator<Item = (&[u8; LEN], &HashMap<HeaderKey, u16>)> {
        self.by_mask.iter().map(|(mask, flows)| (mask, flows))
    }

    /// How many different masks there would be with those of `more`.
    pub fn masks_with(&self, more: &[HeaderMatch]) -> usize {
        let known = |mask: &[u8; LEN]| self.by_mask.iter().any(|(known, _)| known == mask);
        let new: HashSet<_> = more.iter().map(|of| of.mask).filter(|mask| !known(mask)).collect();
        self.by_mask.len() + new.len()
    }

    /// How many keys there are, under all masks.
    pub fn keys(&self) -> usize {
        self.by_mask.iter().map(|(_, flows)| flows.len()).sum()
    }

    /// The flow of `frame`, which begins at the Ethernet header.
    pub fn find(&self, frame: &[u8]) -> Option<u16> {
        let key = HeaderKey::of(frame)?;
        self.by_mask.iter().find_map(|(mask, flows)| flows.get(&key.masked(mask)).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_by_what_does_not_change() {
        let frame = |destination: u8, kind: u8| {
            let mut frame = vec![destination; 60];
            frame[6..16].copy_from_slice(&[2, 2, 2, 2, 2, 2, 0x88, 0xb5, 0, kind]);
            frame
        };
        let mut table = HeaderTable::default();
        assert!(table.is_empty() && table.find(&frame(1, 1)).is_none());
        table.add(HeaderMatch::of(&frame(1, 1), |_| false).unwrap(), 7);
        table.add(HeaderMatch::of(&frame(3, 0), |at| at == 15).unwrap(), 8);
        let more = [HeaderMatch::of(&frame(4, 0), |at| at == 16).unwrap(); 2];
        assert_eq!((table.keys(), table.by_mask().len(), table.masks_with(&more)), (2, 2, 3));
        let known = [HeaderMatch::of(&frame(4, 0), |at| at == 15).unwrap()];
        assert_eq!(table.masks_with(&known), 2);
        assert_eq!(table.find(&frame(1, 1)), Some(7));
        assert_eq!((table.find(&frame(1, 2)), table.find(&frame(2, 1))), (None, None));
        assert_eq!((table.find(&frame(3, 5)), table.find(&frame(3, 6))), (Some(8), Some(8)));
    }
}
