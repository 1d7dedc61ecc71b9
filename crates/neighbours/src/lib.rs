//! Our own IP hosts on an Ethernet link, sans I/O: ARP, neighbour discovery, echo and next hops. Frames and times in, frames out.
//!
//! It stands between a port that moves Ethernet frames and a TCP that takes and gives IP packets. [`Neighbours::receive`] takes each
//! frame that arrived: an IP packet for one of our [`Hosts`] is handed on, everything else is handled or ignored.
//! [`Neighbours::mac_for`] says where a packet to an IP address goes, [`Link::write_header`] writes the Ethernet header before it, and
//! [`Neighbours::next_frame`] writes what has to be sent of our own: answers and questions. [`AddressCheck`] looks before the start
//! whether another station has our addresses. Nothing here reads a clock, and nothing is allocated after the start. One
//! [`Neighbours`] belongs to one thread.
//!
//! # What it speaks
//!
//! ARP (RFC 826), with the limits of RFC 1122 §2.3.2 and the probes and announcements of RFC 5227; neighbour discovery between hosts
//! (RFC 4861 §7) and duplicate address detection (RFC 4862 §5.4); echo (RFC 792, RFC 4443 §4). Frames have no VLAN tag, or
//! exactly one.
//!
//! # Whom it believes
//!
//! ARP and neighbour discovery have no authentication: a station on the link can always pretend to be another one. What such a lie
//! reaches is kept small. The table of next hops changes only by
//!
//! - answers to our questions,
//! - requests for one of our hosts, which are about to be answered anyway (RFC 826's rule),
//! - announcements to all (a gratuitous ARP, an unsolicited advertisement that overrides), for next hops that are known already,
//! - the source address of a TCP SYN for one of our hosts, and of what else the caller says that it begins a session
//!   ([`Neighbours::learn`]), where nothing is known yet: so a server answers its clients at once, and asks for nobody because of sources
//!   that somebody invents. The gateway is asked at the same time, and its answer counts. A host of this link that sends a SYN with a
//!   foreign source address receives the SYN-ACK for it, as with a false ARP; RFC 5961 protects sessions that are open.
//!
//! Answers to packets of no session ask for 64 next hops a second at most ([`Neighbours::mac_for_stranger`]).
//!
//! Only next hops enter: addresses on the link, and the gateway. Answers are limited: 1,024 wait at most, and echo replies have a
//! rate. An echo reply is never longer than its request (but for the shortest frame). An advertisement may be 8 bytes longer than
//! its solicitation, because the standard wants our link-layer address in it (RFC 4861 §7.2.4); neither passes a router.
//!
//! # Several threads
//!
//! A card gives each thread its share of the packets, and frames without IP to one of them. So every thread has a [`Neighbours`] of its
//! own with all hosts of the link; one of them is [`Role::Answering`], the others are [`Role::Listening`]. What is
//! [`Received::Handled`] by the thread that it arrived at, or ignored there as [`Ignored::NotAnswering`], is handed to all the
//! others, once: an answer may be for any of them, and a request is for the one that answers.
//!
//! # What it does not
//!
//! - Multicast listener reports (RFC 3810) and IGMP: a switch that snoops and does not flood the groups of neighbour discovery has to
//!   be told otherwise. The port has to take all multicast frames.
//! - Router solicitations and advertisements: the gateway is given. Redirects and other ICMP are handed to the caller or ignored.
//! - Proxy advertisements, anycast, Secure Neighbour Discovery, optimistic duplicate address detection.
//! - A defence beyond the answer: another station that uses an address of ours is counted and told (RFC 5227 §2.4 (c)).
//!
//! # Where to read
//!
//! `neighbours` takes frames apart and gives them; `table` knows the next hops. `arp`, `ndp` and `echo` are the headers, `link` is
//! Ethernet, [`Hosts`] with `stations` and [`Settings`] what is given; `check` is the search for duplicates.

mod arp;
mod check;
mod counters;
mod echo;
mod hosts;
mod index;
mod link;
mod ndp;
mod neighbours;
mod settings;
mod stations;
mod table;
#[cfg(test)]
mod tests;

pub use check::{AddressCheck, CheckSettings, Conflict, Outcome};
pub use counters::{Counters, Ignored};
pub use hosts::{Hosts, HostsError};
pub use link::Link;
pub use neighbours::{Neighbours, Received};
pub use settings::{AddressPair, NEXT_HOPS_MAX, PREFIXES_MAX, Role, Settings, SettingsError};
pub use stations::{StationRange, StationsError};
pub use table::{Change, State};

/// The longest frame that is written here, in bytes without FCS: 1,500 bytes behind an Ethernet header with a VLAN tag.
pub const FRAME_MAX: usize = 1518;
