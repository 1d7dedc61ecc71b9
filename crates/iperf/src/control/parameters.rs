//! The parameters of a test, which a client tells the server as JSON.
//!
//! Keys that are not known here are ignored, as iperf3 does: a newer client may have more. What is asked for is checked by
//! [`TestSpec::from_parameters`](crate::TestSpec::from_parameters), not here.

use serde::{Deserialize, Serialize};

use super::ControlError;
use super::lenient::{Flag, Whole, read};

/// The parameters of a test. Zero and empty stand for what is not asked for; times are in seconds, rates in bits a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// Over TCP.
    #[serde(skip_serializing_if = "is_default")]
    pub tcp: bool,
    /// Over UDP.
    #[serde(skip_serializing_if = "is_default")]
    pub udp: bool,
    /// Over SCTP.
    #[serde(skip_serializing_if = "is_default")]
    pub sctp: bool,
    /// Seconds at the beginning that do not count.
    pub omit: i64,
    /// Seconds that count.
    pub time: i64,
    /// Bytes after which the test ends.
    pub num: i64,
    /// Blocks after which the test ends.
    pub blockcount: i64,
    /// The largest segment in bytes.
    #[serde(rename = "MSS", skip_serializing_if = "is_default")]
    pub mss: i64,
    /// Without Nagle's algorithm.
    #[serde(skip_serializing_if = "is_default")]
    pub nodelay: bool,
    /// Streams in each direction.
    pub parallel: i64,
    /// The server sends.
    #[serde(skip_serializing_if = "is_default")]
    pub reverse: bool,
    /// Both send.
    #[serde(skip_serializing_if = "is_default")]
    pub bidirectional: bool,
    /// The socket buffers in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub window: i64,
    /// Bytes of a block, which over UDP is a datagram.
    pub len: i64,
    /// The rate of each stream.
    #[serde(skip_serializing_if = "is_default")]
    pub bandwidth: i64,
    /// The rate of each stream that the kernel is to keep (`--fq-rate`).
    #[serde(skip_serializing_if = "is_default")]
    pub fqrate: i64,
    /// Microseconds between two looks at the rate; of no use here.
    #[serde(skip_serializing_if = "is_default")]
    pub pacing_timer: i64,
    /// Blocks that are sent together.
    #[serde(skip_serializing_if = "is_default")]
    pub burst: i64,
    /// The byte of DSCP and ECN.
    #[serde(rename = "TOS", skip_serializing_if = "is_default")]
    pub tos: i64,
    /// What the client calls the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The congestion control by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The results are to hold what the server prints. iperf3 writes 1.
    #[serde(serialize_with = "as_number", skip_serializing_if = "is_default")]
    pub get_server_output: bool,
    /// Datagrams have sequence numbers of 64 bits. iperf3 writes 1.
    #[serde(serialize_with = "as_number", skip_serializing_if = "is_default")]
    pub udp_counters_64bit: bool,
    /// The payload repeats a pattern. iperf3 writes 1.
    #[serde(serialize_with = "as_number", skip_serializing_if = "is_default")]
    pub repeating_payload: bool,
    /// Datagrams may not be fragmented. iperf3 writes 1.
    #[serde(serialize_with = "as_number", skip_serializing_if = "is_default")]
    pub dont_fragment: bool,
    /// Who the client is, encrypted for a server that asks. Not checked here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authtoken: Option<String>,
    /// The client's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
}

/// The same as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Read {
    tcp: Flag,
    udp: Flag,
    sctp: Flag,
    omit: Whole,
    time: Whole,
    num: Whole,
    blockcount: Whole,
    #[serde(rename = "MSS")]
    mss: Whole,
    nodelay: Flag,
    parallel: Option<Whole>,
    reverse: Flag,
    bidirectional: Flag,
    window: Whole,
    len: Whole,
    bandwidth: Whole,
    fqrate: Whole,
    pacing_timer: Whole,
    burst: Whole,
    #[serde(rename = "TOS")]
    tos: Whole,
    title: Option<String>,
    congestion: Option<String>,
    get_server_output: Flag,
    udp_counters_64bit: Flag,
    repeating_payload: Flag,
    dont_fragment: Flag,
    authtoken: Option<String>,
    client_version: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn as_number<S: serde::Serializer>(flag: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8((*flag).into())
}

impl Parameters {
    /// Reads the JSON of a client.
    ///
    /// # Errors
    /// [`ControlError::Json`].
    pub fn read(bytes: &[u8]) -> Result<Parameters, ControlError> {
        let read: Read = read("parameters", bytes)?;
        Ok(Parameters {
            tcp: read.tcp.0,
            udp: read.udp.0,
            sctp: read.sctp.0,
            omit: read.omit.0,
            time: read.time.0,
            num: read.num.0,
            blockcount: read.blockcount.0,
            mss: read.mss.0,
            nodelay: read.nodelay.0,
            parallel: read.parallel.map_or(1, |streams| streams.0),
            reverse: read.reverse.0,
            bidirectional: read.bidirectional.0,
            window: read.window.0,
            len: read.len.0,
            bandwidth: read.bandwidth.0,
            fqrate: read.fqrate.0,
            pacing_timer: read.pacing_timer.0,
            burst: read.burst.0,
            tos: read.tos.0,
            title: read.title,
            congestion: read.congestion,
            get_server_output: read.get_server_output.0,
            udp_counters_64bit: read.udp_counters_64bit.0,
            repeating_payload: read.repeating_payload.0,
            dont_fragment: read.dont_fragment.0,
            authtoken: read.authtoken,
            client_version: read.client_version,
        })
    }

    /// The JSON that a client sends.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
