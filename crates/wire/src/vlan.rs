//! VLAN tags (IEEE 802.1Q and 802.1ad), which are skipped on the way to what a frame carries.

/// Bytes of a tag: its control information and the EtherType after it.
pub const LEN: usize = 4;
/// The most tags that are skipped: a service tag and a customer tag (IEEE 802.1ad).
pub const TAGS_MAX: usize = 2;
