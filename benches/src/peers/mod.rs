//! The peers: tools of the same trade, run as their users run them. One peer is one file, and one row
//! of [`ALL`]; to add a peer, write its file and its row.
//!
//! A peer says how it is started at a pace. How fast it was is counted at the far end, in the same way
//! for all. Each is run for as long as it is watched, and then ended.

mod ditg;
mod hping3;
mod iperf;
mod iperf3;
mod mgen;
mod nuttcp;
mod process;
mod raw_socket;
mod tcpreplay;
mod testpmd;
mod trafgen;

use std::net::Ipv4Addr;
use std::path::Path;

use crate::lab::Cores;
use crate::sinks::Sink;

pub use process::{job, start};
pub use raw_socket::{Addressed, send_all};
pub use tcpreplay::PEER as TCPREPLAY;
pub use trafgen::{SINGLE as TRAFGEN, describe};

/// All of them, in the order of the tables.
pub const ALL: [&Peer; 11] = [
    &iperf3::PEER,
    &iperf::PEER,
    &nuttcp::PEER,
    &ditg::PEER,
    &mgen::PEER,
    &hping3::PEER,
    &trafgen::SINGLE,
    &trafgen::DOUBLE,
    &tcpreplay::PEER,
    &testpmd::PEER,
    &mgen::PRECISE,
];
pub use ditg::PLAIN as DITG;
pub use iperf::PEER as IPERF;
pub use iperf3::PEER as IPERF3;
pub use mgen::PEER as MGEN;

/// Bytes of UDP payload in the shortest Ethernet frame: 64 less FCS and the headers of Ethernet, IPv4
/// and UDP.
pub const PAYLOAD: u16 = 18;

/// A tool.
#[derive(Debug)]
pub struct Peer {
    /// Its name in the tables, with the mode that is used.
    pub name: &'static str,
    /// The program that sends.
    pub program: &'static str,
    /// The Debian package that it is in.
    pub package: &'static str,
    /// What it is measured against when it goes flat out.
    pub sinks: &'static [Sink],
    /// Whether it waits for the next frame by reading the clock: the peers of the most exact mode.
    pub busy_waits: bool,
    /// The CPU that its sender is bound to, where it does not choose one by itself.
    pub place: Place,
    /// The program at the far end that the sender has to talk to, or that reads.
    pub receiver: Option<fn(&Job<'_>) -> Command>,
    /// When the receiver is needed.
    pub needs_receiver: Need,
    /// The sender, to run until it is ended.
    pub sender: fn(&Job<'_>) -> Command,
    /// How it is ended.
    pub ending: Ending,
}

/// Program and arguments.
pub type Command = Vec<String>;

/// Who chooses the CPU of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The benchmark: that of every sender.
    Bound,
    /// The tool.
    ByItself,
}

/// When a peer's receiver has to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Only to read what is sent.
    ToRead,
    /// Always: the sender agrees with it on the test before it sends.
    Always,
}

/// How a sender is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By force: many do not end in time when they are asked to.
    Killed,
    /// By SIGINT: it has to clean up behind itself.
    Asked,
}

/// What a peer has to know.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// How fast.
    pub pace: Pace,
    /// Bytes of UDP payload; tools that send a file send what is in it.
    pub payload: u16,
    /// The interface to send on, where a tool is told one.
    pub interface: &'a str,
    /// Its address.
    pub source: Ipv4Addr,
    /// Where to.
    pub destination: Ipv4Addr,
    /// The next hop's link-layer address.
    pub destination_mac: &'a str,
    /// CPUs, for tools that place themselves.
    pub cores: Cores,
    /// A capture file of many equal frames, 64 bytes long with FCS.
    pub capture: &'a Path,
    /// trafgen's description of the same frame.
    pub description: &'a Path,
}

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as possible.
    FlatOut,
    /// Frames per second.
    Frames(u64),
}

impl Pace {
    /// One or the other text.
    fn choose(self, flat_out: &str, paced: impl Fn(u64) -> String) -> String {
        match self {
            Pace::FlatOut => flat_out.to_owned(),
            Pace::Frames(rate) => paced(rate),
        }
    }
}

/// A command of words and other arguments.
fn command(words: &str, more: &[String]) -> Command {
    words.split_ascii_whitespace().map(str::to_owned).chain(more.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn job(pace: Pace) -> Job<'static> {
        Job {
            pace,
            payload: PAYLOAD,
            interface: "wb0",
            source: Ipv4Addr::new(10, 77, 0, 1),
            destination: Ipv4Addr::new(10, 77, 0, 2),
            destination_mac: "02:77:62:00:00:02",
            cores: Cores { send: 1, other: 0 },
            capture: Path::new("/tmp/frames.pcap"),
            description: Path::new("/tmp/frame.cfg"),
        }
    }

    #[test]
    fn peers_have_names_of_their_own_and_start_the_program_that_is_installed() {
        let names: BTreeSet<&str> = ALL.iter().map(|peer| peer.name).collect();
        assert_eq!(names.len(), ALL.len());
        for peer in ALL {
            let command = (peer.sender)(&job(Pace::FlatOut));
            assert_eq!(command[0], peer.program, "{}", peer.name);
        }
    }

    #[test]
    fn whoever_busy_waits_is_told_the_rate() {
        for peer in ALL.iter().filter(|peer| peer.busy_waits) {
            let [slow, fast] = [10_000, 20_000].map(|rate| (peer.sender)(&job(Pace::Frames(rate))));
            assert_ne!(slow, fast, "{}", peer.name);
            assert!(slow.iter().any(|word| word.contains("10000")), "{slow:?}");
        }
        assert_eq!(ALL.iter().filter(|peer| peer.busy_waits).count(), 4);
    }

    #[test]
    fn whoever_is_measured_with_a_reader_brings_one() {
        for peer in ALL {
            assert!(
                !peer.sinks.contains(&Sink::Reading) || peer.receiver.is_some(),
                "{}",
                peer.name
            );
            assert!(
                peer.needs_receiver == Need::ToRead || peer.receiver.is_some(),
                "{}",
                peer.name
            );
        }
    }
}
