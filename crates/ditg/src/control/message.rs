//! The messages of the signalling, byte by byte (`ITG.h` l.189-231 of 2.8.1; captured from the real programs).
//!
//! Numbers are big-endian, except for the port that a sender asks for, which has the order of the sender's machine: all that D-ITG
//! runs on today are little-endian. Names of files are read and dropped: nothing here keeps a path that a peer wrote.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ControlError;

/// Bytes of the name of a log file.
const NAME: usize = 200;
/// Bytes of the name of a serial interface.
const SERIAL: usize = 10;
/// What stands there where there is none.
const NO_SERIAL: [u8; SERIAL] = *b"noSerial\0\0";
/// The longest message: the request for a log at another host, over IPv6.
pub const LEN_MAX: usize = 1 + 4 + 16 + 2 + 1 + NAME;

/// What carries a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    #[default]
    Udp,
    /// ICMP, SCTP or DCCP, which are not spoken here: their number.
    Other(u8),
}

impl Transport {
    fn from_byte(byte: u8) -> Result<Transport, ControlError> {
        match byte {
            1 => Ok(Transport::Tcp),
            2 => Ok(Transport::Udp),
            3..=5 => Ok(Transport::Other(byte)),
            _ => Err(ControlError::Field { what: "protocol", value: byte.into() }),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Transport::Tcp => 1,
            Transport::Udp => 2,
            Transport::Other(byte) => byte,
        }
    }

    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Other(3) => "icmp",
            Transport::Other(4) => "sctp",
            Transport::Other(5) => "dccp",
            Transport::Other(_) => "unknown",
        }
    }
}

/// What is measured of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meter {
    /// The delay one way, by the clocks of both hosts.
    #[default]
    OneWay,
    /// The round trip: the receiver sends each packet back.
    RoundTrip,
}

impl Meter {
    fn from_byte(byte: u8) -> Result<Meter, ControlError> {
        match byte {
            1 => Ok(Meter::OneWay),
            2 => Ok(Meter::RoundTrip),
            _ => Err(ControlError::Field { what: "meter", value: byte.into() }),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Meter::OneWay => 1,
            Meter::RoundTrip => 2,
        }
    }

    /// D-ITG's name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Meter::OneWay => "owdm",
            Meter::RoundTrip => "rttm",
        }
    }
}

/// What the payload of each packet begins with (`-p`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadKind {
    /// Flow, number and time.
    #[default]
    Standard,
    /// Flow and number.
    Short,
    /// Nothing.
    None,
}

impl PayloadKind {
    fn from_byte(byte: u8) -> Result<PayloadKind, ControlError> {
        match byte {
            0 => Ok(PayloadKind::Standard),
            1 => Ok(PayloadKind::Short),
            2 => Ok(PayloadKind::None),
            _ => Err(ControlError::Field { what: "type of payload", value: byte.into() }),
        }
    }

    fn byte(self) -> u8 {
        match self {
            PayloadKind::Standard => 0,
            PayloadKind::Short => 1,
            PayloadKind::None => 2,
        }
    }
}

/// What a sender says of a flow that it is going to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRequest {
    /// What carries it.
    pub transport: Transport,
    /// What application it resembles: 0 none, 1 Telnet, 2 VoIP, 3 DNS, 4 and above games.
    pub application: u8,
    /// What is measured.
    pub meter: Meter,
    /// The byte of DSCP and ECN.
    pub ds: u8,
    /// The number of the flow.
    pub flow: u32,
    /// What each packet begins with.
    pub payload: PayloadKind,
    /// The address that it is sent to, as the sender knows it, and the port; port 0 asks for any.
    pub to: (IpAddr, u16),
}

/// Why a receiver does not take a flow, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFault {
    /// It cannot listen on the port, or will not (`TSP_ERR_MSG_2`).
    Bind,
    /// ICMP needs root (`TSP_ERR_MSG_3`).
    Privilege,
    /// Its socket broke (`TSP_ERR_MSG_5`).
    Broken,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The sender greets.
    Connect,
    /// The receiver greets back.
    AckConnect,
    /// The sender asks for a flow.
    SendFlow(FlowRequest),
    /// The receiver expects the flow at this port.
    AckSendFlow {
        /// The flow.
        flow: u32,
        /// The port.
        port: u16,
    },
    /// The receiver does not take the flow, or no longer.
    Refused {
        /// Why.
        why: FlowFault,
        /// The flow.
        flow: u32,
    },
    /// The sender has sent all of a flow.
    ClosedFlow(u32),
    /// The receiver has received all of a flow.
    AckClosedFlow(u32),
    /// The sender could not send a flow.
    ClosedError(u32),
    /// The sender is done.
    Release,
    /// The receiver is done, too.
    AckRelease,
    /// The receiver asks whether the sender is still there.
    Discovery,
    /// It is.
    AckDiscovery,
    /// The sender asks for a log at a third host. Where is not kept.
    SendFlowLog,
    /// The receiver agrees.
    AckSendFlowLog,
    /// The sender asks for a log with a name at the receiver. The name is not kept.
    SendNameLog,
    /// The receiver agrees.
    AckSendNameLog,
    /// The receiver cannot write that log (`TSP_ERR_MSG_4`).
    LogRefused,
    /// The sender goes away.
    SenderDown,
}

/// Reads a body from its beginning.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    /// The next bytes; `None` where there are fewer.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.0 = self.0.get(len..)?;
        Some(())
    }
}

/// What a kind of message has for a body: `None` while it is not complete.
type Complete<T> = Result<Option<T>, ControlError>;

impl Message {
    /// The message that `bytes` begin with and its length; `None` while it is not complete.
    ///
    /// # Errors
    /// A kind or a field that nobody knows, as soon as it is there.
    pub fn read(bytes: &[u8]) -> Complete<(Message, usize)> {
        let mut body = Body(bytes);
        let Some(kind) = body.byte() else { return Ok(None) };
        let flow = |body: &mut Body<'_>, message: fn(u32) -> Message| body.word().map(message);
        let message = match kind {
            1 => Some(Message::Connect),
            2 => Some(Message::AckConnect),
            3 => request(&mut body)?.map(Message::SendFlow),
            4 => flow(&mut body, Message::ClosedFlow),
            5 => body.word().and_then(|flow| {
                let port = body.take().map(u16::from_be_bytes)?;
                Some(Message::AckSendFlow { flow, port })
            }),
            6 => flow(&mut body, Message::AckClosedFlow),
            7 => Some(Message::AckRelease),
            8 => Some(Message::Discovery),
            9 => Some(Message::AckDiscovery),
            11 => Some(Message::Release),
            12 => remote_log(&mut body)?.map(|()| Message::SendFlowLog),
            13 => Some(Message::AckSendFlowLog),
            15 => flow(&mut body, |flow| Message::Refused { why: FlowFault::Bind, flow }),
            16 => flow(&mut body, |flow| Message::Refused { why: FlowFault::Privilege, flow }),
            17 => flow(&mut body, Message::ClosedError),
            18 => Some(Message::AckSendNameLog),
            19 => body.skip(NAME).map(|()| Message::SendNameLog),
            20 => Some(Message::SenderDown),
            21 => Some(Message::LogRefused),
            22 => flow(&mut body, |flow| Message::Refused { why: FlowFault::Broken, flow }),
            kind => return Err(ControlError::Kind(kind)),
        };
        Ok(message.map(|message| (message, bytes.len().saturating_sub(body.0.len()))))
    }

    /// Its bytes. The two requests for logs are not sent here: their names are empty.
    pub fn to_bytes(self) -> Vec<u8> {
        let of_flow = |kind: u8, flow: u32| [&[kind], &flow.to_be_bytes()[..]].concat();
        match self {
            Message::Connect => vec![1],
            Message::AckConnect => vec![2],
            Message::SendFlow(request) => request.to_bytes(),
            Message::ClosedFlow(flow) => of_flow(4, flow),
            Message::AckSendFlow { flow, port } => {
                [of_flow(5, flow), port.to_be_bytes().to_vec()].concat()
            }
            Message::AckClosedFlow(flow) => of_flow(6, flow),
            Message::AckRelease => vec![7],
            Message::Discovery => vec![8],
            Message::AckDiscovery => vec![9],
            Message::Release => vec![11],
            Message::SendFlowLog => {
                let mut bytes = vec![12];
                bytes.extend(AF_INET.to_be_bytes());
                bytes.resize(1 + 4 + 4 + 2 + 1 + NAME, 0);
                bytes
            }
            Message::AckSendFlowLog => vec![13],
            Message::Refused { why: FlowFault::Bind, flow } => of_flow(15, flow),
            Message::Refused { why: FlowFault::Privilege, flow } => of_flow(16, flow),
            Message::ClosedError(flow) => of_flow(17, flow),
            Message::AckSendNameLog => vec![18],
            Message::SendNameLog => {
                let mut bytes = vec![19];
                bytes.resize(1 + NAME, 0);
                bytes
            }
            Message::SenderDown => vec![20],
            Message::LogRefused => vec![21],
            Message::Refused { why: FlowFault::Broken, flow } => of_flow(22, flow),
        }
    }

    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Message::Connect => "CONNECT",
            Message::AckConnect => "ACK_CONNECT",
            Message::SendFlow(_) => "SEND_FLOW",
            Message::AckSendFlow { .. } => "ACK_SEND_FLOW",
            Message::Refused { .. } => "an error of a flow",
            Message::ClosedFlow(_) => "CLOSED_FLOW",
            Message::AckClosedFlow(_) => "ACK_CLOSED_FLOW",
            Message::ClosedError(_) => "CLOSED_ERR",
            Message::Release => "RELEASE",
            Message::AckRelease => "ACK_RELEASE",
            Message::Discovery => "DISCOVERY",
            Message::AckDiscovery => "ACK_DISCOVERY",
            Message::SendFlowLog => "SEND_FLOW_LOG",
            Message::AckSendFlowLog => "ACK_SEND_FLOW_LOG",
            Message::SendNameLog => "SEND_NAME_LOG",
            Message::AckSendNameLog => "ACK_SEND_NAME_LOG",
            Message::LogRefused => "an error of the log",
            Message::SenderDown => "SENDER_DOWN",
        }
    }
}

/// The number of IPv4 among families of addresses, everywhere.
const AF_INET: u32 = 2;

/// Passes over a request for a log at another host.
fn remote_log(body: &mut Body<'_>) -> Complete<()> {
    let Some(family) = body.word() else { return Ok(None) };
    let address = match family {
        AF_INET => 4,
        // IPv6 on Linux, Windows, NetBSD, FreeBSD and macOS
        10 | 23 | 24 | 28 | 30 => 16,
        value => return Err(ControlError::Field { what: "family of addresses", value }),
    };
    Ok(body.skip(address + 2 + 1 + NAME))
}

/// Reads the body of `SEND_FLOW`. Each field is judged as soon as it is there.
fn request(body: &mut Body<'_>) -> Complete<FlowRequest> {
    macro_rules! next {
        ($field:expr) => {
            match $field {
                Some(field) => field,
                None => return Ok(None),
            }
        };
    }
    let transport = Transport::from_byte(next!(body.byte()))?;
    let application = next!(body.byte());
    let meter = Meter::from_byte(next!(body.byte()))?;
    let ds = next!(body.byte());
    let version = next!(body.byte());
    if !matches!(version, 4 | 6) {
        return Err(ControlError::Field { what: "version of IP", value: version.into() });
    }
    let flow = next!(body.word());
    let payload = PayloadKind::from_byte(next!(body.byte()))?;
    next!(body.skip(SERIAL));
    let port = u16::from_le_bytes(next!(body.take()));
    let address: IpAddr = match version {
        4 => Ipv4Addr::from(next!(body.take::<4>())).into(),
        _ => Ipv6Addr::from(next!(body.take::<16>())).into(),
    };
    let to = (address, port);
    Ok(Some(FlowRequest { transport, application, meter, ds, flow, payload, to }))
}

impl FlowRequest {
    fn to_bytes(self) -> Vec<u8> {
        let (address, port) = self.to;
        let version = if address.is_ipv4() { 4 } else { 6 };
        let (transport, meter) = (self.transport.byte(), self.meter.byte());
        let mut bytes = vec![3, transport, self.application, meter, self.ds, version];
        bytes.extend(self.flow.to_be_bytes());
        bytes.push(self.payload.byte());
        bytes.extend(NO_SERIAL);
        bytes.extend(port.to_le_bytes());
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
        bytes
    }
}
