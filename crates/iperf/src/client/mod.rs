//! The client: runs a test against a server of iperf3's wire.

mod iperf2;
mod streams;
mod test;

use std::net::{IpAddr, SocketAddr};

use wirebeat_units::Nanos;

pub use iperf2::run_iperf2;
pub use test::run;

/// Where a test is run to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The server; iperf3's port is 5201.
    pub address: SocketAddr,
    /// The address of this machine that all connections come from; without: the kernel chooses.
    pub local: Option<IpAddr>,
    /// How long the server may take for a connection, and for each step of the signalling.
    pub patience: Nanos,
    /// A test in which nothing moves for so long is ended.
    pub idle: Nanos,
    /// Where an iperf 2 server connects to when it is to send; 0: the kernel chooses a free port.
    pub back_port: u16,
}

impl Target {
    /// This server, with a patience of 10 s and an idle time of 120 s.
    pub fn new(address: SocketAddr) -> Target {
        Target {
            address,
            local: None,
            patience: Nanos::from_secs(10),
            idle: Nanos::from_secs(120),
            back_port: 0,
        }
    }
}
