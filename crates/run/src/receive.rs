//! A receiver by itself: counts what arrives until it is stopped, and measures for a sender on another
//! host when it listens.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wirebeat_meter::bins::Bins;
use wirebeat_meter::filter::Filter;
use wirebeat_netlink::Namespace;
use wirebeat_report::model::Report;
use wirebeat_traffic::spec::EngineChoice;
use wirebeat_units::Nanos;

use crate::error::RunError;
use crate::observe::{Observer, Stop};
use crate::options::KeySource;

/// What a receiver is asked to do.
#[derive(Debug)]
pub struct ReceiveRequest {
    /// Program and arguments, for the report.
    pub command_line: Vec<String>,
    /// The interface; the socket engine needs none.
    pub interface: Option<String>,
    /// Its namespace: a name, or a path.
    pub namespace: Option<String>,
    /// Namespaces that have no name on this machine.
    pub namespaces: BTreeMap<String, Namespace>,
    /// The engine.
    pub engine: EngineChoice,
    /// Which datagrams are measured. The socket engine binds to its destination port.
    pub filter: Filter,
    /// Linear bins for inter-arrival times.
    pub bins: Option<Bins>,
    /// The most flows that are measured.
    pub flows: u16,
    /// Also take frames that are addressed to other machines.
    pub promiscuous: bool,
    /// Let measured datagrams go on to the stack (the kernel engine would end them).
    pub pass: bool,
    /// Stop after this time.
    pub time: Option<Nanos>,
    /// Stop after this many frames.
    pub count: Option<u64>,
    /// How often the observer looks.
    pub interval: Nanos,
    /// Wait for senders on other hosts.
    pub listen: Option<Listen>,
}

/// How a receiver listens for senders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: SocketAddr,
    /// The key that a sender has to know; needed unless the address is a loopback one.
    pub key: Option<KeySource>,
    /// End after the first sender has been served.
    pub once: bool,
}

/// Receives until it is stopped, its time is over or its count is reached.
pub fn receive(
    request: &ReceiveRequest,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    let _ = (request, observer, stop);
    Err(RunError::Machine("receiving is being built".to_owned()))
}
