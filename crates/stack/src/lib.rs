//! TCP for millions of sessions, sans I/O: segments and times in, segments and events out.
//!
//! A [`Stack`] does no I/O, reads no clock and allocates nothing after its start. It takes IP packets
//! ([`Stack::receive_batch`]) and times ([`Stack::expire`]), tells an [`Application`] what happened, and writes packets into
//! the buffers of a [`Transmit`] ([`Stack::transmit`]). Nothing that was sent is kept: the application writes the same byte for the
//! same offset again. Nothing that was received is kept: out of order there are ranges only. The crate knows headers (by `wire`)
//! and nothing of ports, programs or Ethernet. One stack belongs to one thread.
//!
//! # Where to read
//!
//! `tcb` is the state of a session, in two cache lines, and `flight` a third one for those with something unusual under way; `sessions`
//! holds both, and gives and takes the third. `arrival` takes a segment in the order of RFC 9293 §3.10.7 and hands
//! on to `recovery` (acknowledgments, losses) and `data`; `output` decides what is sent next, `timers` what is waited for,
//! `congestion` how much may be in the network, `path` what ICMP and silence say of the path. `fast_path` does in a straight line what
//! these do for nearly every segment, and `plain` reads it. `stack` has the tables: [`slab`], [`index`], [`addresses`], [`wheel`] and
//! `waits` (queues of `ring`), [`ranges`], and the small slabs of half-open sessions and those in TIME-WAIT. `simulation` (a test) puts two stacks on a link
//! that loses, delays, reorders, duplicates, damages and forges, and checks everything after each event.
//!
//! # What it speaks
//!
//! RFC 9293 (all states; simultaneous open and close, half-open sessions, silly window avoidance on both sides, Nagle, delayed
//! acknowledgments, zero-window and keep-alive probes), 5961 (RST, SYN and ACK validation with a limit on challenge
//! acknowledgments), 6528, 6298 with Karn's rule, 5681, 6582, 6928, 3042, 7323 (scaling, timestamps, PAWS), 2018 and 6675,
//! 2883 (D-SACK told, and counted when told), 8985 (tail loss probes, and data out of order waited for by time, see below), 9937,
//! 9438, 3168, 6191, 1337, 5482 (the limit, not the option), 1191 and 8201 (path MTUs, by ICMP that 5927 lets through; 5461 for other
//! ICMP errors), 4821 §7.7 on request ([`Profile::black_hole_detection`]).
//!
//! # What it does not
//!
//! - All of RACK (RFC 8985 §6): there are no times of single segments. What is missing below data that arrived is lost a quarter of a
//!   round trip after that data's news, or at once in recovery; a D-SACK makes it a quarter more each time. Of retransmissions
//!   that are lost again only the first missing one is seen before the timeout.
//! - Larger segments once a path has taken less: neither after ten minutes (RFC 1191 §6.3) nor by probes (RFC 4821 §7.3), and the next
//!   session to the same peer begins anew.
//! - Undoing a reduction that turns out spurious (RFC 4015, 5682): a D-SACK only has it wait longer. HyStart++ (RFC 9406).
//! - Urgent data counts as other data, and the urgent pointer is ignored (RFC 6093 advises against its use).
//! - SYN cookies: SYNs beyond [`Limits::half_open`] are dropped and counted. Fast open (RFC 7413), AccECN (RFC 9768), MPTCP.
//! - After a session has sent nothing for more than 24 days its peer's timestamps are still believed (RFC 7323 §5.5).
//! - ARP, neighbour discovery and echo, which are the embedder's.
//!
//! It departs from the letter in two places, both as Linux does: a probe of a closed window has no data and stands one number before
//! what is expected (RFC 9293 §3.8.6.1 sends one byte), and an acknowledgment of new data ends the doubling of the timeout
//! even when no round trip could be measured (RFC 6298 §5).

pub mod addresses;
mod api;
mod arrival;
mod congestion;
mod core;
mod counters;
mod data;
mod fast_path;
mod fault;
mod flight;
mod half_open;
pub mod hash;
mod icmp;
pub mod index;
pub mod options;
mod output;
mod path;
mod plain;
pub mod prefetch;
mod profile;
pub mod ranges;
mod recovery;
mod ring;
mod rtt;
pub mod segment;
pub mod seq;
mod sessions;
#[cfg(test)]
mod simulation;
pub mod slab;
mod stack;
mod tcb;
#[cfg(test)]
mod tests;
pub mod tick;
mod time_wait;
mod timers;
mod waits;
pub mod wheel;

pub use api::{
    Accept, Application, Event, Limits, OpenError, Reason, Received, Session, SessionError,
    SessionId, Totals, Transmit,
};
pub use counters::{Arrivals, Counters, DataBytes, Icmp, Recoveries, Segments, Sessions};
pub use profile::{Congestion, KeepAlive, OutOfOrder, Profile, Reading};
pub use segment::{Checksum, Tuple};
pub use stack::{Agreed, Forged, ForgedSegment, Info, Open, Phase, Place, Stack};
pub use tcb::State;
