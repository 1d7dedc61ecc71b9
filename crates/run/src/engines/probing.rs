//! What probes of engines share: the interface that every namespace has and no traffic under test uses, and a small plan.

use wirebeat_engine::port::{PortError, TxPlan};
use wirebeat_units::{BufferLen, Bytes, Fault};

/// The interface that every namespace has and no traffic under test uses.
pub(super) const LOOPBACK: &str = "lo";
/// Memory for what a probe receives: the least that the engine `packet` takes.
pub(super) const MEMORY: Bytes = Bytes::new(1 << 19);
/// Bytes of the datagram that is sent over loopback.
pub(super) const PAYLOAD: u16 = 18;

/// A plan for one short frame.
pub(super) fn plan() -> TxPlan {
    let length = BufferLen::new(PAYLOAD.into());
    TxPlan { tags: 1, frame_max: length, frame_len: Some(length), ..TxPlan::default() }
}

/// The error without the words that only matter in a run.
pub(super) fn reason(error: &PortError) -> Fault {
    match error {
        PortError::Missing { missing, .. } => missing.clone(),
        other => other.fault(),
    }
}
