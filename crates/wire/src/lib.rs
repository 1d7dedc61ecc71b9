//! Bytes on the wire: headers, checksums and probe codecs.
//!
//! Nothing here does I/O, reads a clock, allocates per frame or panics. [`walk`] goes over the headers of a frame, and is
//! the only one that does; [`datagram`], [`carrier`], [`headers`](mod@headers), [`fragment`] and [`locate`](mod@locate) say
//! what is asked of it. How frames are made is the business of the crate `traffic`. Read [`walk`] and [`datagram`], then
//! [`probe`] and [`stamp`]. The packets of other tools are [`codec`]'s, their text logs [`log`]'s.

pub mod carrier;
pub mod checksum;
pub mod codec;
pub mod datagram;
pub mod ethernet;
pub mod filter;
pub mod fragment;
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
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod udp;
pub mod vlan;
pub mod walk;
