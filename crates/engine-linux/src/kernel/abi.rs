//! Offsets into what `bpf/wirebeat.h` lays out, taken from the types that clang wrote into BTF, so that
//! there is one definition of each structure.

use std::mem::offset_of;

use super::skeletons::accepted::types as ax;
use super::skeletons::receive::types as rx;
use super::skeletons::transmit::types as tx;

pub(crate) use ax::wb_accepted as Accepted;
pub(crate) use rx::{
    wb_detail as Detail, wb_flow as Flow, wb_header_key as HeaderKey, wb_header_mask as HeaderMask,
    wb_rx_counters as RxCounters, wb_rx_lane as RxLane,
};
pub(crate) use tx::{
    wb_distribution as Distribution, wb_histogram as Histogram, wb_lateness as Lateness,
    wb_tx_orders as Orders, wb_tx_progress as Progress, wb_tx_tag as Tag,
};

/// `WB_SLOT_HEAD`: bytes of a slot before its frame.
pub(crate) const SLOT_HEAD: usize = 56;
/// `enum wb_probe_form`.
pub(crate) const PROBE_OWN: u8 = 0;
pub(crate) const PROBE_NANOSECONDS: u8 = 1;
pub(crate) const PROBE_MICROSECONDS: u8 = 2;
pub(crate) const PROBE_OF_DAY: u8 = 3;
/// `WB_TX_STREAM` and `WB_TX_REPEAT`.
pub(crate) const MODE_STREAM: u32 = 0;
pub(crate) const MODE_REPEAT: u32 = 1;
/// `WB_PROBE_FLOWS`.
pub(crate) const PROBE_FLOWS: usize = 65_536;
/// `WB_WINDOW_WORDS_MIN` and `WB_WINDOW_WORDS`.
pub(crate) const WINDOW_WORDS_MIN: usize = 64;
pub(crate) const WINDOW_WORDS: usize = 2048;
/// How many times larger a window becomes that grows: two to the power of `WB_GROWTH_BITS`.
pub(crate) const WINDOW_GROWTH: usize = 16;
/// `WB_HEADER_MASKS`.
pub(crate) const HEADER_MASKS: usize = 64;
/// `WB_EXTENTS`.
pub(crate) const EXTENTS: usize = 1024;
/// `WB_BUCKETS`.
pub(crate) const BUCKETS: usize = 3968;

/// Offsets of the words of [`Orders`].
pub(crate) mod orders {
    use super::*;
    pub(crate) const HEAD: usize = offset_of!(Orders, head);
    pub(crate) const STOP: usize = offset_of!(Orders, stop);
    pub(crate) const STOP_NS: usize = offset_of!(Orders, stop_ns);
    pub(crate) const LIMIT: usize = offset_of!(Orders, limit);
    pub(crate) const ROUND_SLOTS: usize = offset_of!(Orders, round_slots);
    pub(crate) const ROUND_NS: usize = offset_of!(Orders, round_ns);
    pub(crate) const ROUND_FRAC: usize = offset_of!(Orders, round_frac);
    pub(crate) const PATIENCE_NS: usize = offset_of!(Orders, patience_ns);
    pub(crate) const WINDOW_NS: usize = offset_of!(Orders, window_ns);
    pub(crate) const UNTIL_NS: usize = offset_of!(Orders, until_ns);
    pub(crate) const UNIX_OFFSET_NS: usize = offset_of!(Orders, unix_offset_ns);
}

/// Offsets of the words of [`Progress`].
pub(crate) mod progress {
    use super::*;
    pub(crate) const CONSUMED: usize = offset_of!(Progress, consumed);
    pub(crate) const SLOT: usize = offset_of!(Progress, slot);
    pub(crate) const ROUND_START: usize = offset_of!(Progress, round_start);
    pub(crate) const BATCH: usize = offset_of!(Progress, batch);
    pub(crate) const PLACE: usize = offset_of!(Progress, place);
    pub(crate) const LISTENED_NS: usize = offset_of!(Progress, listened_ns);
    pub(crate) const SEEN_NS: usize = offset_of!(Progress, seen_ns);
    pub(crate) const RELEASED: usize = offset_of!(Progress, released);
    pub(crate) const REFUSED: usize = offset_of!(Progress, refused);
}

/// Offsets of the words of [`Tag`].
pub(crate) mod tag {
    use super::*;
    pub(crate) const SENT: usize = offset_of!(Tag, sent);
    pub(crate) const EXPIRED: usize = offset_of!(Tag, expired);
    pub(crate) const FIRST_NS: usize = offset_of!(Tag, first_ns);
    pub(crate) const LAST_NS: usize = offset_of!(Tag, last_ns);
    pub(crate) const SENT_BYTES: usize = offset_of!(Tag, sent_bytes);
    pub(crate) const SENT_PAYLOAD: usize = offset_of!(Tag, sent_payload);
    pub(crate) const EXPIRED_BYTES: usize = offset_of!(Tag, expired_bytes);
    pub(crate) const EXPIRED_PAYLOAD: usize = offset_of!(Tag, expired_payload);
}

const _: () = assert!(BUCKETS == wirebeat_meter::histogram::BUCKETS);
const _: () = assert!(size_of::<Lateness>() == 128 && size_of::<Histogram>() == BUCKETS * 8);
const _: () = assert!(size_of::<Flow>() == 128 && size_of::<RxLane>().is_multiple_of(64));
const _: () = assert!(offset_of!(Detail, delay) == offset_of!(Detail, extents) + EXTENTS * 8);
const _: () = assert!(size_of::<Detail>() == offset_of!(Detail, delay) + 4 * BUCKETS * 8);
const _: () = assert!(size_of::<HeaderKey>() == wirebeat_wire::headers::LEN + 8);
const _: () = assert!(size_of::<HeaderMask>() == wirebeat_wire::headers::LEN);
