//! Whether each engine can be used, found by using it: programs are loaded, sockets opened, on loopback
//! or on nothing. That an interface's driver goes along is known only once the interface is.

use std::net::{Ipv4Addr, SocketAddr};

use serde::Serialize;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Port, PortError, TxMeta, TxPlan};
use wirebeat_engine_linux::kernel as kernel_engine;
use wirebeat_engine_linux::packet::{PacketOptions, PacketPort, PacketReceive};
use wirebeat_engine_linux::socket::{
    Checksum, Endpoint, Joining, SocketOptions, SocketPort, SocketReceive, SocketTransmit,
};
use wirebeat_units::{Bytes, Nanos};

/// The interface that every namespace has and no traffic under test uses.
const LOOPBACK: &str = "lo";
/// Memory for what a probe receives: the least that the packet engine takes.
const MEMORY: Bytes = Bytes::new(1 << 19);
/// How long a datagram may take over loopback; it takes microseconds.
const PATIENCE: Nanos = Nanos::from_millis(500);
/// Bytes of the datagram that is sent over loopback.
const PAYLOAD: u16 = 18;

/// Whether an engine can be used here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineCheck {
    /// Its name.
    pub engine: &'static str,
    /// Whether it can be used.
    pub usability: Usability,
}

/// Whether something can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Usability {
    /// It works.
    Usable {
        /// How, or on what.
        how: String,
    },
    /// It does not.
    Unusable {
        /// What is missing, and what would mend it.
        why: String,
        /// All that the kernel's verifier said, where it refused a program.
        #[serde(skip_serializing_if = "Option::is_none")]
        verifier_log: Option<String>,
    },
}

impl EngineCheck {
    /// Whether it can be used.
    pub fn is_usable(&self) -> bool {
        matches!(self.usability, Usability::Usable { .. })
    }
}

/// Tries an engine: how it works, or why not.
type Probe = fn() -> Result<String, Missing>;

/// What an engine lacks here.
struct Missing {
    why: String,
    verifier_log: Option<String>,
}

impl<T: Into<String>> From<T> for Missing {
    fn from(why: T) -> Missing {
        Missing { why: why.into(), verifier_log: None }
    }
}

/// Tries every engine, the fastest first.
pub(super) fn check() -> Vec<EngineCheck> {
    const PROBES: [(&str, Probe); 3] =
        [("kernel", kernel_engine), ("packet", packet), ("socket", socket)];
    PROBES
        .iter()
        .map(|(engine, probe)| EngineCheck {
            engine,
            usability: match probe() {
                Ok(how) => Usability::Usable { how },
                Err(Missing { why, verifier_log }) => Usability::Unusable { why, verifier_log },
            },
        })
        .collect()
}

/// Whether the kernel engine can be used: how, or why not and what would mend it. Loads its programs and
/// runs the sending one with nothing to send.
pub fn kernel() -> Result<String, String> {
    kernel_engine::probe()?;
    Ok("eBPF programs load and run with live frames".to_owned())
}

/// The same, with all that the verifier said.
fn kernel_engine() -> Result<String, Missing> {
    kernel().map_err(|why| Missing { why, verifier_log: kernel_engine::verifier_log() })
}

fn packet() -> Result<String, Missing> {
    let options = PacketOptions {
        interface: LOOPBACK.to_owned(),
        transmit: Some(plan()),
        receive: Some(PacketReceive { ring: MEMORY, ..PacketReceive::default() }),
        card: None,
    };
    let port = PacketPort::open(&options).map_err(|error| reason(&error))?;
    Ok(port.caps().mode.clone())
}

/// Sends a datagram to itself over loopback, so that timestamps are tried too.
fn socket() -> Result<String, Missing> {
    let receive = SocketReceive {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        buffer: MEMORY,
        ..SocketReceive::default()
    };
    let failed = |error: PortError| reason(&error);
    let options = SocketOptions { receive: Some(receive), ..SocketOptions::default() };
    let mut receiver = SocketPort::open(&options).map_err(failed)?;
    let destination = receiver.addresses().first().copied().ok_or("it listens nowhere")?;
    let endpoint = Endpoint {
        source: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        destination,
        ttl: 1,
        tos: 0,
        checksum: Checksum::Sent,
    };
    let transmit = SocketTransmit {
        plan: plan(),
        endpoints: vec![Some(endpoint)],
        joining: Joining::default(),
    };
    let options = SocketOptions { transmit: Some(transmit), ..SocketOptions::default() };
    let mut sender = SocketPort::open(&options).map_err(failed)?;
    let sent_at = MonotonicClock.now();
    send(&mut sender).map_err(failed)?;
    let mut arrived = None;
    receiver
        .receive(sent_at.saturating_add(PATIENCE), |arrival| arrived = Some(arrival.at))
        .map_err(failed)?;
    match arrived {
        Some(at) if at >= sent_at => {
            Ok(format!("{}; {}", sender.caps().mode, receiver.caps().mode))
        }
        Some(_) => Err("a datagram over loopback was stamped before it was sent; \
                        the system clock is being set, try again"
            .into()),
        None => Err("a datagram over loopback did not arrive; is a firewall in the way?".into()),
    }
}

fn send(port: &mut SocketPort) -> Result<(), PortError> {
    port.reserve(1)?;
    port.slot(0)[..usize::from(PAYLOAD)].fill(0);
    port.commit(&[TxMeta { len: PAYLOAD, ..TxMeta::default() }])?;
    port.flush()
}

fn plan() -> TxPlan {
    TxPlan { tags: 1, frame_max: PAYLOAD, frame_len: Some(PAYLOAD), ..TxPlan::default() }
}

/// The error without the words that only matter in a run.
fn reason(error: &PortError) -> String {
    match error {
        PortError::Missing { missing, .. } => missing.clone(),
        other => other.to_string(),
    }
}
