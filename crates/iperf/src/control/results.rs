//! What each end counted, which both tell each other as JSON when a test ends.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lenient::{AtMost, Whole, read};
use super::{ControlError, STREAMS_MAX};

/// Streams of both directions.
const STREAMS_BOTH_WAYS: usize = 2 * STREAMS_MAX as usize;

/// What one end counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Percent of one CPU that it used.
    pub cpu_total: f64,
    /// Of it in user space.
    pub cpu_user: f64,
    /// Of it in the kernel.
    pub cpu_system: f64,
    /// Whether it sends and knows its retransmissions; `None` where it only receives.
    pub has_retransmits: Option<bool>,
    /// Its congestion control.
    pub congestion_used: Option<String>,
    /// What it printed, where that was asked for.
    pub output: Option<PeerOutput>,
    /// By stream.
    pub streams: Vec<StreamResults>,
}

/// What a server printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerOutput {
    /// Text for people.
    Text(String),
    /// JSON, as it came.
    Json(String),
}

/// What one end counted of one stream. A receiver's bytes are those it received, a sender's those it sent; what was omitted is not
/// in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResults {
    /// The stream's number: 1, 3, 4, 5, … in the order of creation.
    pub id: i64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Segments sent again; `None` where it is not known.
    pub retransmits: Option<u64>,
    /// A receiver's jitter (RFC 1889) in seconds.
    pub jitter: f64,
    /// Datagrams that a receiver takes for lost, those of the omitted time included.
    pub errors: u64,
    /// Those of the omitted time; `None` before iperf3 3.15.
    pub omitted_errors: Option<u64>,
    /// Datagrams: sent, or the highest sequence number received; the omitted time included.
    pub packets: u64,
    /// Those of the omitted time; `None` before iperf3 3.15.
    pub omitted_packets: Option<u64>,
    /// When the stream began, in seconds.
    pub start_time: f64,
    /// When it ended, in seconds.
    pub end_time: f64,
}

#[derive(Deserialize)]
struct Read<'a> {
    cpu_util_total: f64,
    cpu_util_user: f64,
    cpu_util_system: f64,
    sender_has_retransmits: Whole,
    #[serde(default)]
    congestion_used: Option<String>,
    #[serde(default)]
    server_output_text: Option<String>,
    #[serde(default, borrow)]
    server_output_json: Option<&'a RawValue>,
    streams: AtMost<ReadStream, STREAMS_BOTH_WAYS>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct ReadStream {
    id: Whole,
    bytes: Whole,
    retransmits: Whole,
    jitter: f64,
    errors: Whole,
    #[serde(default)]
    omitted_errors: Option<Whole>,
    packets: Whole,
    #[serde(default)]
    omitted_packets: Option<Whole>,
    #[serde(default)]
    start_time: f64,
    #[serde(default)]
    end_time: f64,
}

#[derive(Serialize)]
struct Written<'a> {
    cpu_util_total: f64,
    cpu_util_user: f64,
    cpu_util_system: f64,
    sender_has_retransmits: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_used: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_output_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_output_json: Option<&'a RawValue>,
    streams: Vec<WrittenStream>,
}

#[derive(Serialize)]
struct WrittenStream {
    id: i64,
    bytes: u64,
    retransmits: i64,
    jitter: f64,
    errors: u64,
    omitted_errors: u64,
    packets: u64,
    omitted_packets: u64,
    start_time: f64,
    end_time: f64,
}

fn count(whole: Whole) -> u64 {
    u64::try_from(whole.0).unwrap_or(0)
}

/// A number of JSON is finite by its grammar; one that overflows is infinite for the parser.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

impl Results {
    /// Reads the JSON of a peer.
    ///
    /// # Errors
    /// [`ControlError::Json`].
    pub fn read(bytes: &[u8]) -> Result<Results, ControlError> {
        let read: Read<'_> = read("results", bytes)?;
        let stream = |stream: &ReadStream| StreamResults {
            id: stream.id.0,
            bytes: count(stream.bytes),
            retransmits: u64::try_from(stream.retransmits.0).ok(),
            jitter: finite(stream.jitter),
            errors: count(stream.errors),
            omitted_errors: stream.omitted_errors.map(count),
            packets: count(stream.packets),
            omitted_packets: stream.omitted_packets.map(count),
            start_time: finite(stream.start_time),
            end_time: finite(stream.end_time),
        };
        let json = read.server_output_json.map(|json| PeerOutput::Json(json.get().to_owned()));
        Ok(Results {
            cpu_total: finite(read.cpu_util_total),
            cpu_user: finite(read.cpu_util_user),
            cpu_system: finite(read.cpu_util_system),
            has_retransmits: match read.sender_has_retransmits.0 {
                0 => Some(false),
                number if number > 0 => Some(true),
                _ => None,
            },
            congestion_used: read.congestion_used,
            output: json.or(read.server_output_text.map(PeerOutput::Text)),
            streams: read.streams.0.iter().map(stream).collect(),
        })
    }

    /// The JSON that an end sends.
    pub fn to_json(&self) -> String {
        let stream = |stream: &StreamResults| WrittenStream {
            id: stream.id,
            bytes: stream.bytes,
            retransmits: stream.retransmits.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1),
            jitter: stream.jitter,
            errors: stream.errors,
            omitted_errors: stream.omitted_errors.unwrap_or(0),
            packets: stream.packets,
            omitted_packets: stream.omitted_packets.unwrap_or(0),
            start_time: stream.start_time,
            end_time: stream.end_time,
        };
        let (text, json) = match &self.output {
            Some(PeerOutput::Text(text)) => (Some(text.as_str()), None),
            Some(PeerOutput::Json(json)) => (None, serde_json::from_str(json).ok()),
            None => (None, None),
        };
        let written = Written {
            cpu_util_total: self.cpu_total,
            cpu_util_user: self.cpu_user,
            cpu_util_system: self.cpu_system,
            sender_has_retransmits: self.has_retransmits.map_or(-1, i64::from),
            congestion_used: self.congestion_used.as_deref(),
            server_output_text: text,
            server_output_json: json,
            streams: self.streams.iter().map(stream).collect(),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }
}
