//! How frames move: the [`port::TxPort`] and [`port::RxPort`] traits, the one transmit loop ([`mod@drive`]), the one receive loop
//! ([`collect`]), and the engines that need no kernel ([`loopback`], [`pcap`]).
//!
//! An engine moves frames and knows neither flows nor statistics; the drive loop knows flows and
//! lateness and not which engine it drives. Engines of the operating system live in
//! `wirebeat-engine-linux`.

pub mod answers;
pub mod budget;
pub mod clock;
pub mod collect;
pub mod drive;
pub mod intervals;
pub mod loopback;
pub mod pcap;
pub mod port;
pub mod steering;
mod virtual_clock;
