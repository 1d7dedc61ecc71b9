//! What a receiver by itself is asked to do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use wirebeat_capture::file::CaptureOptions;
use wirebeat_capture::packet_log::{LineOptions, LogForm, PacketLogOptions};
use wirebeat_engine_linux::group::Group;
use wirebeat_meter::bins::Bins;
use wirebeat_meter::filter::Filter;
use wirebeat_netlink::Namespace;
use wirebeat_traffic::scenario::{
    EngineChoice, FlowExpectation, OnLinkDown, PriorityChoice, TimestampsChoice, XdpModeChoice,
};
use wirebeat_units::Nanos;
use wirebeat_wire::codec::Codec;

use crate::engines::{Ability, Engine};
use crate::options::KeySource;
use crate::remote::{Grant, ServeGrant};
use crate::tapping::PacketLogRequest;

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
    /// The CPUs that the receiving thread may run on; none: the system's choice. Several threads have one each, in turn.
    pub cores: Vec<u16>,
    /// How many threads receive, each with a queue of its own: 0 and 1 are one.
    pub queues: u16,
    /// How frames go between the driver and the engine, where that can be chosen.
    pub xdp_mode: XdpModeChoice,
    /// Whether its threads serve the card's queues themselves, where the engine can do that.
    pub busy_poll: bool,
    /// How it competes for a CPU.
    pub priority: PriorityChoice,
    /// What has to come of all flows together.
    pub expect: Vec<FlowExpectation>,
    /// Stop after this time.
    pub time: Option<Nanos>,
    /// Stop after this many frames.
    pub count: Option<u64>,
    /// The length of intervals.
    pub interval: Nanos,
    /// How long to wait for the link of the interface.
    pub link_timeout: Nanos,
    /// What becomes of it when the link goes down.
    pub on_link_down: OnLinkDown,
    /// Who stamps what is received.
    pub timestamps: TimestampsChoice,
    /// Wait for senders on other hosts.
    pub listen: Option<Listen>,
    /// The caller vouches that the senders read the clock of this host.
    pub same_clock: bool,
    /// Probes of other tools that are read beside Wirebeat's own. With none, a log has those of its tool.
    pub codecs: Vec<Codec>,
    /// A line for each packet, in the form of another tool.
    pub log: Option<LogRequest>,
    /// Keeps the frames that arrive.
    pub capture: Option<CaptureOptions>,
    /// A row for each packet.
    pub packet_log: Option<PacketLogRequest>,
    /// Ends when the capture has all that it is to hold.
    pub ends_with_capture: bool,
    /// Multicast groups to join while receiving.
    pub groups: Vec<Group>,
}

/// A log in the form of another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// Whose form it has.
    pub form: LogForm,
    /// The file, which is written over if it is there; `None`: standard output.
    pub file: Option<PathBuf>,
}

impl LogRequest {
    /// Which packets have a line: those with the probes that are asked for, or with the tool's own, and Wirebeat's.
    fn options(&self, request: &ReceiveRequest) -> PacketLogOptions {
        let own = self.form.codec().filter(|_| request.codecs.is_empty());
        let codecs = request.codecs.iter().copied().chain(own).chain([Codec::Wirebeat]);
        let lines = LineOptions { codecs: codecs.collect(), filter: request.filter };
        PacketLogOptions { form: self.form, file: self.file.clone(), overwrite: true, lines }
    }
}

impl ReceiveRequest {
    /// The logs of packets that are asked for, each with what is wanted of frames for it.
    pub(super) fn logs(&self) -> Vec<PacketLogOptions> {
        let rows = self.packet_log.iter().map(|log| log.options.clone());
        rows.chain(self.log.iter().map(|log| log.options(self))).collect()
    }

    /// The probes of other tools that `engine` measures: those that are asked for, or of the tool whose log is written.
    pub(super) fn measured(&self, engine: Engine) -> Vec<Codec> {
        let of_log = self.log.as_ref().and_then(|log| log.form.codec());
        let of_log = of_log.filter(|_| self.codecs.is_empty() && engine.can(Ability::Codecs));
        self.codecs.iter().copied().chain(of_log).collect()
    }
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
    /// What is sent for senders, who must know a key then; `None`: nothing.
    pub allow_send: Option<Grant>,
    /// What sessions are served for senders, who must know a key then; `None`: none.
    pub allow_serve: Option<ServeGrant>,
}
