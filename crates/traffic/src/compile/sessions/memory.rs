//! Bytes of memory that an end of a session takes while it waits.

use crate::program::script::SessionGroup;
use crate::values::session::StackChoice;

/// Of our own stack: 150 bytes with its places in tables, 93 of its program with its alarms, and half of what the end that closes first takes
/// in TIME-WAIT. Measured over TCP by a test of
/// `wirebeat run` with 100,000 sessions in memory, and by a run of ten million.
const OWN: u64 = 268;
/// Of TLS, beside those: measured by 100,000 sessions in memory.
const TLS: u64 = 4096;

/// Those that an end of ours takes by itself, without buffers of the system.
pub fn of_end(group: &SessionGroup) -> u64 {
    let own = if group.stack == StackChoice::Own { OWN } else { 0 };
    own + group.tls.as_ref().map_or(0, |_| TLS)
}
