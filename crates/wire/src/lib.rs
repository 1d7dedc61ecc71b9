//! Bytes on the wire: header views and builders, checksums and probe codecs.
//!
//! Nothing here does I/O, reads a clock or allocates per frame. Views check lengths once and then
//! never panic; builders write into the caller's buffer. One protocol is one file, in the order
//! constants, view, representation, display, tests, and knows none of the others: [`frame`] stacks
//! them for sending, [`datagram`] takes them apart on arrival. Read those two, then [`probe`] and
//! [`stamp`]. The packets of other tools are [`codec`]'s, their text logs [`log`]'s.

pub mod carrier;
pub mod checksum;
pub mod codec;
pub mod datagram;
pub mod ethernet;
pub mod filter;
pub mod fragment;
pub mod frame;
pub mod headers;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod locate;
pub mod log;
pub mod mac;
pub mod probe;
pub mod ptp;
pub mod rewrite;
pub mod stamp;
pub mod udp;
pub mod vlan;
