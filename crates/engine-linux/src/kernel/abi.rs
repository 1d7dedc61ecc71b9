//! What `bpf/wirebeat.h` lays out: offsets taken from the types that clang wrote into BTF, and constants taken from the
//! header, so that there is one definition of each.

use std::mem::offset_of;

use super::skeletons::accepted::types as ax;
use super::skeletons::constants;
use super::skeletons::receive::types as rx;
use super::skeletons::transmit::types as tx;

pub(crate) use ax::wb_accepted as Accepted;
pub(crate) use rx::{
    wb_detail as Detail, wb_flow as Flow, wb_header_key as HeaderKey, wb_header_mask as HeaderMask,
    wb_observation as Observation, wb_observer as Observer, wb_rx_counters as RxCounters,
    wb_rx_lane as RxLane,
};
pub(crate) use tx::{
    wb_departure_counts as DepartureCounts, wb_departures as Departures,
    wb_distribution as Distribution, wb_slot as Slot, wb_tx_orders as Orders,
    wb_tx_progress as Progress, wb_tx_tag as Tag,
};

/// Bytes of a slot before its frame.
pub(crate) const SLOT_HEAD: usize = offset_of!(Slot, frame);
/// `enum wb_probe_form`.
pub(crate) const PROBE_OWN: u8 = constants::WB_PROBE_OWN as u8;
pub(crate) const PROBE_NANOSECONDS: u8 = constants::WB_PROBE_NANOSECONDS as u8;
pub(crate) const PROBE_MICROSECONDS: u8 = constants::WB_PROBE_MICROSECONDS as u8;
pub(crate) const PROBE_OF_DAY: u8 = constants::WB_PROBE_OF_DAY as u8;
/// `enum wb_tx_mode`.
pub(crate) const MODE_STREAM: u32 = constants::WB_TX_STREAM;
pub(crate) const MODE_REPEAT: u32 = constants::WB_TX_REPEAT;
pub(crate) const PROBE_FLOWS: usize = constants::WB_PROBE_FLOWS as usize;
pub(crate) const WINDOW_WORDS_MIN: usize = constants::WB_WINDOW_WORDS_MIN as usize;
pub(crate) const WINDOW_WORDS: usize = constants::WB_WINDOW_WORDS as usize;
/// How many times larger a window becomes that grows.
pub(crate) const WINDOW_GROWTH: usize = 1 << constants::WB_GROWTH_BITS;
pub(crate) const HEADER_MASKS: usize = constants::WB_HEADER_MASKS as usize;
pub(crate) const EXTENTS: usize = constants::WB_EXTENTS as usize;
pub(crate) const BUCKETS: usize = constants::WB_BUCKETS as usize;
/// `enum wb_observe`.
pub(crate) const OBSERVE_METERED: u32 = constants::WB_OBSERVE_METERED;
pub(crate) const OBSERVE_ALL: u32 = constants::WB_OBSERVE_ALL;
pub(crate) const OBSERVED_MAX: u16 = constants::WB_OBSERVED_MAX as u16;
/// Bytes of an observation before those of its frame.
pub(crate) const OBSERVATION_HEAD: usize = constants::WB_OBSERVATION_HEAD as usize;

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

/// Offsets of the words of [`Slot`] that are read: in the second half of the first one lies the length, behind the tag.
pub(crate) mod slot {
    use super::*;
    pub(crate) const LAUNCH_NS: usize = offset_of!(Slot, launch_ns);
    pub(crate) const TAG: usize = offset_of!(Slot, tag);
    pub(crate) const FRAME_LEN: usize = offset_of!(Slot, frame_len);
}

/// Offsets of the words of [`Observation`]: behind the sequence number lies the frame's length, and behind the flow how many
/// bytes were caught, the queue and the standing.
pub(crate) mod observation {
    use super::*;
    pub(crate) const MARK: usize = offset_of!(Observation, mark);
    pub(crate) const ARRIVED_NS: usize = offset_of!(Observation, arrived_ns);
    pub(crate) const SENT_NS: usize = offset_of!(Observation, sent_ns);
    pub(crate) const SEQUENCE: usize = offset_of!(Observation, sequence);
    pub(crate) const FLOW: usize = offset_of!(Observation, flow);
    pub(crate) const PAYLOAD_LEN: usize = offset_of!(Observation, payload_len);
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

const _: () =
    assert!(SLOT_HEAD == constants::WB_SLOT_HEAD as usize && SLOT_HEAD == size_of::<Slot>());
// a word of 64 bits begins with each of these, of 32 and of two times 16 bits
const _: () = assert!(
    slot::LAUNCH_NS == 0 && slot::TAG.is_multiple_of(8) && slot::FRAME_LEN.is_multiple_of(8)
);
const _: () = assert!(offset_of!(Slot, payload_len) == slot::FRAME_LEN + 2);
const _: () = assert!(
    OBSERVATION_HEAD == size_of::<Observation>()
        && observation::SEQUENCE.is_multiple_of(8)
        && offset_of!(Observation, frame_len) == observation::SEQUENCE + 4
        && observation::FLOW.is_multiple_of(8)
        && offset_of!(Observation, standing) == observation::FLOW + 6
);
const _: () = assert!(BUCKETS == wirebeat_meter::histogram::BUCKETS);
const _: () =
    assert!(size_of::<Departures>() == 320 && size_of::<DepartureCounts>() == 4 * BUCKETS * 8);
const _: () = assert!(size_of::<Flow>() == 128 && size_of::<RxLane>().is_multiple_of(64));
const _: () = assert!(offset_of!(Detail, delay) == offset_of!(Detail, extents) + EXTENTS * 8);
const _: () = assert!(size_of::<Detail>() == offset_of!(Detail, delay) + 5 * BUCKETS * 8);
const _: () = assert!(size_of::<HeaderKey>() == wirebeat_wire::headers::LEN + 8);
const _: () = assert!(size_of::<HeaderMask>() == wirebeat_wire::headers::LEN);
