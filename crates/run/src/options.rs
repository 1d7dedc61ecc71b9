//! What a caller adds to a scenario.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use wirebeat_engine::loopback;
use wirebeat_meter::bins::Bins;
use wirebeat_netlink::Namespace;
use wirebeat_traffic::compile::Files;
use wirebeat_units::Nanos;

use crate::control::Controlled;
use crate::tapping::PacketLogRequest;

/// How a scenario is run, beyond what it says itself.
#[derive(Debug)]
pub struct Options {
    /// Program and arguments, for the report.
    pub command_line: Vec<String>,
    /// Namespaces that the scenario names and that have no name on this machine.
    pub namespaces: BTreeMap<String, Namespace>,
    /// The length of intervals; `None`: as the scenario says.
    pub interval: Option<Nanos>,
    /// Linear bins for inter-arrival times.
    pub bins: Option<Bins>,
    /// The receiver on another host.
    pub peer: Option<Peer>,
    /// What the names of files in the scenario are relative to; `None`: the current directory.
    pub directory: Option<PathBuf>,
    /// Where recordings lie that are not found by the name that the scenario gives them.
    pub recordings: BTreeMap<String, PathBuf>,
    /// Contents of files that the scenario names and that need not be read.
    pub files: Files,
    /// Whether the run ends as soon as an interval breaks what is expected of each.
    pub abort_on_fail: bool,
    /// A row for each packet.
    pub packet_log: Option<PacketLogRequest>,
    /// Whether its flows can be changed while it runs.
    pub control: Controlled,
    /// What happens on the way between two ports of the engine `loopback`.
    pub loopback: loopback::Link,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            command_line: Vec::new(),
            namespaces: BTreeMap::new(),
            interval: None,
            bins: None,
            peer: None,
            directory: None,
            recordings: BTreeMap::new(),
            files: Files::default(),
            abort_on_fail: false,
            packet_log: None,
            control: Controlled::No,
            loopback: loopback::Link::default(),
        }
    }
}

impl Options {
    /// What concerns the sessions of a scenario that has flows too.
    pub(crate) fn of_sessions(&self) -> Options {
        Options {
            command_line: self.command_line.clone(),
            namespaces: self.namespaces.clone(),
            interval: self.interval,
            directory: self.directory.clone(),
            recordings: self.recordings.clone(),
            files: self.files.clone(),
            // by the handle and the socket of the flows
            control: match self.control {
                Controlled::No => Controlled::No,
                Controlled::ByHandle | Controlled::BySocket(_) => Controlled::ByHandle,
            },
            ..Options::default()
        }
    }

    /// Where a file lies that the scenario names.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        match (self.recordings.get(name), &self.directory) {
            (Some(path), _) => path.clone(),
            (None, Some(directory)) => directory.join(name),
            (None, None) => PathBuf::from(name),
        }
    }
}

/// A receiver that listens on another host, and the key that both know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it listens.
    pub address: SocketAddr,
    /// The key, or the file that holds it; needed unless the address is a loopback one.
    pub key: Option<KeySource>,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// As text.
    Text(String),
    /// In a file.
    File(PathBuf),
}
