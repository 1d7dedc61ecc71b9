//! What is asked of TCP for the sessions of a group.
//!
//! Each value is bounded here by what it can mean to any stack. Which stack can do which key is
//! `scenario/session/abilities.rs`.

use std::num::{NonZeroU8, NonZeroU16};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{BitRate, Bytes, Fault, Nanos, fault};

use super::is_default;
use crate::text::schema::{BitRateText, BytesText, TimeText};

/// The longest name of a congestion control (`TCP_CA_NAME_MAX` of linux/tcp.h, less the final NUL).
const CONGESTION_NAME_MAX: usize = 15;
/// The largest window without window scaling (RFC 7323 §2.2).
const UNSCALED_WINDOW: u64 = 65_535;
/// RFC 9293 §3.8.6.3.
const DELAYED_ACK_MAX: Nanos = Nanos::from_millis(500);
/// Twice the maximum segment lifetime of RFC 9293 §3.4.2.
const TIME_WAIT_MAX: Nanos = Nanos::from_secs(240);
/// The least time of a timer: below it, the machine's own pauses decide.
const TIMER_MIN: Nanos = Nanos::from_millis(1);
/// The longest that a peer is waited for.
const WAIT_MAX: Nanos = Nanos::from_secs(24 * 3600);
/// The longest retransmission timeout. RFC 6298 §2.5 has 60 s at least where there is a limit.
const RTO_MAX: Nanos = Nanos::from_secs(600);
/// How often a SYN is repeated (`MAX_TCP_SYNCNT` of Linux), or a silent peer is asked (`MAX_TCP_KEEPCNT`).
const REPEATS_MAX: u8 = 127;

/// What is asked of TCP. Each default is the stack's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TcpSpec {
    /// The congestion control by name: `cubic`, `reno`; with the system's stack, whatever the system has; with our own also `none`,
    /// which sends as much as the peer's window allows.
    #[serde(skip_serializing_if = "is_default")]
    pub congestion: Option<String>,
    /// The most bytes of data in a segment (MSS).
    #[serde(skip_serializing_if = "is_default")]
    pub mss: Option<NonZeroU16>,
    /// How many bytes wait to be sent or acknowledged at most. The system may double it.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub send_buffer: Option<Bytes>,
    /// How many received bytes wait to be read at most: the receive window.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub receive_buffer: Option<Bytes>,
    /// Whether a small segment waits while others are unacknowledged (Nagle, RFC 9293 §3.7.4). Default: no, as load
    /// generators and browsers have it.
    #[serde(skip_serializing_if = "is_default")]
    pub nagle: bool,
    /// No session sends faster than this. Default: no limit.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BitRateText>")]
    pub pacing: Option<BitRate>,
    /// Whether the client ends a session with RST instead of FIN once its program is done: no port stays in TIME-WAIT. Default: no.
    #[serde(skip_serializing_if = "is_default")]
    pub reset: bool,
    /// Whether windows are scaled, which those of more than 65,535 bytes need (RFC 7323 §2). Default: yes.
    #[serde(skip_serializing_if = "is_default")]
    pub window_scaling: Option<bool>,
    /// Whether segments have timestamps (RFC 7323 §3). Default: yes.
    #[serde(skip_serializing_if = "is_default")]
    pub timestamps: Option<bool>,
    /// Whether acknowledgments are selective (RFC 2018). Default: yes.
    #[serde(skip_serializing_if = "is_default")]
    pub sack: Option<bool>,
    /// Whether congestion is told by marks instead of losses, where the peer agrees (ECN, RFC 3168). Default: no.
    #[serde(skip_serializing_if = "is_default")]
    pub ecn: Option<bool>,
    /// The initial congestion window, in segments. Default: 10 (RFC 6928).
    #[serde(skip_serializing_if = "is_default")]
    pub initial_window: Option<NonZeroU8>,
    /// How long an acknowledgment waits for data to go with; 0: not at all. Default: up to 40 ms.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub delayed_ack: Option<Nanos>,
    /// Probes of a connection that is idle (RFC 9293 §3.8.4). Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_alive: Option<KeepAlive>,
    /// Bounds of the retransmission timeout.
    #[serde(skip_serializing_if = "is_default")]
    pub rto: RtoSpec,
    /// How often a SYN, or the answer to one, is repeated. Default: 6; of servers of our own as often as `timeout` has time for.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(max = 127))]
    pub syn_retries: Option<u8>,
    /// How often data or a FIN is repeated without progress before the session has timed out. Default: 15.
    #[serde(skip_serializing_if = "is_default")]
    pub data_retries: Option<u8>,
    /// How long data, a FIN or a closed window may wait for the peer, in place of counts of retries (RFC 5482). Default: no limit
    /// but these.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub user_timeout: Option<Nanos>,
    /// How long a session that closed first waits for its peer to close, while nothing comes (FIN-WAIT-2). Default: 60 s.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub fin_timeout: Option<Nanos>,
    /// How long the ports of a session stay in TIME-WAIT where it closed first; 0 skips it. Default: 60 s.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time_wait: Option<Nanos>,
    /// Whether segments become smaller where large ones are lost again and again, as on a path that drops large packets and does not
    /// say so (RFC 4821 §7.7). Default: no.
    #[serde(skip_serializing_if = "is_default")]
    pub black_hole_detection: Option<bool>,
    /// Whether connections are of Multipath TCP (RFC 8684), which may use several paths. Where the peer has none, it is TCP.
    /// Default: no.
    #[serde(skip_serializing_if = "is_default")]
    pub multipath: bool,
    /// Whether generated data and files are handed to the system instead of copied into its buffers (`SO_ZEROCOPY`). Default: no.
    #[serde(skip_serializing_if = "is_default")]
    pub zero_copy: bool,
}

/// Probes of a connection that is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct KeepAlive {
    /// How long nothing has come before the first probe. Default: 2 h.
    #[schemars(with = "TimeText")]
    pub idle: Nanos,
    /// From a probe to the next. Default: 75 s.
    #[schemars(with = "TimeText")]
    pub interval: Nanos,
    /// After how many probes without an answer the session has timed out. Default: 9.
    #[schemars(range(min = 1, max = 127))]
    pub count: u8,
}

impl Default for KeepAlive {
    /// As Linux has them (`TCP_KEEPALIVE_TIME` and those beside it of net/tcp.h); RFC 9293 §3.8.4 has 2 h at least.
    fn default() -> KeepAlive {
        KeepAlive { idle: Nanos::from_secs(7200), interval: Nanos::from_secs(75), count: 9 }
    }
}

/// Bounds of the retransmission timeout (RFC 6298 §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RtoSpec {
    /// Before a round trip was measured: until the SYN is repeated. Default: 1 s.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub initial: Option<Nanos>,
    /// The least. Default: 200 ms.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub min: Option<Nanos>,
    /// The most, however often it was doubled. Default: 60 s with our own TCP, 120 s with the system's.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub max: Option<Nanos>,
}

/// A time of the language with its bounds.
type Bounded = (&'static str, Option<Nanos>, Nanos, Nanos);

impl TcpSpec {
    /// What is invalid for any stack: the key below `tcp`, with a dot where that is in a key of its own, and why.
    pub(crate) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if let Some(name) = &self.congestion {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if name.is_empty() || name.len() > CONGESTION_NAME_MAX || !name.chars().all(known) {
                let why = fault!(
                    "the name of a congestion control has 1 to {CONGESTION_NAME_MAX} letters, digits, - and _";
                    "write for example cubic"
                );
                return Err(("congestion", why));
            }
        }
        let buffers = [("send-buffer", self.send_buffer), ("receive-buffer", self.receive_buffer)];
        for (key, bytes) in buffers {
            if bytes.is_some_and(|bytes| !(1 << 10..=1 << 30).contains(&bytes.get())) {
                return Err((key, fault!("a buffer has 1kB to 1GiB")));
            }
        }
        if self.mss.is_some_and(|mss| mss.get() < 88) {
            // Linux: TCP_MIN_MSS is 88
            return Err(("mss", fault!("an MSS has 88 bytes at least")));
        }
        let window = self.receive_buffer.map_or(0, Bytes::get);
        if self.window_scaling == Some(false) && window > UNSCALED_WINDOW {
            return Err((
                "receive-buffer",
                fault!(
                    "without window scaling no window is larger than {UNSCALED_WINDOW} bytes";
                    "ask for fewer, or leave 'window-scaling' out"
                ),
            ));
        }
        if self.syn_retries.is_some_and(|count| count > REPEATS_MAX) {
            return Err(("syn-retries", fault!("a SYN is repeated {REPEATS_MAX} times at most")));
        }
        self.check_times()
    }

    fn check_times(&self) -> Result<(), (&'static str, Fault)> {
        let RtoSpec { initial, min, max } = self.rto;
        let probes = self.keep_alive;
        let times: [Bounded; 9] = [
            ("delayed-ack", self.delayed_ack, Nanos::ZERO, DELAYED_ACK_MAX),
            ("user-timeout", self.user_timeout, TIMER_MIN, WAIT_MAX),
            ("fin-timeout", self.fin_timeout, TIMER_MIN, WAIT_MAX),
            ("time-wait", self.time_wait, Nanos::ZERO, TIME_WAIT_MAX),
            ("rto.initial", initial, TIMER_MIN, RTO_MAX),
            ("rto.min", min, TIMER_MIN, RTO_MAX),
            ("rto.max", max, TIMER_MIN, RTO_MAX),
            ("keep-alive.idle", probes.map(|probes| probes.idle), TIMER_MIN, WAIT_MAX),
            ("keep-alive.interval", probes.map(|probes| probes.interval), TIMER_MIN, WAIT_MAX),
        ];
        for (key, time, least, most) in times {
            if time.is_some_and(|time| !(least..=most).contains(&time)) {
                return Err((key, fault!("'{key}' is {least} to {most}")));
            }
        }
        if probes.is_some_and(|probes| !(1..=REPEATS_MAX).contains(&probes.count)) {
            let why = fault!("a silent peer is asked 1 to {REPEATS_MAX} times");
            return Err(("keep-alive.count", why));
        }
        let orders = [
            ("rto.min", min, "rto.max", max),
            ("rto.initial", initial, "rto.max", max),
            ("rto.min", min, "rto.initial", initial),
        ];
        for (low, less, high, more) in orders {
            if let (Some(less), Some(more)) = (less, more)
                && less > more
            {
                return Err((low, fault!("'{low}' of {less} is more than '{high}' of {more}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rto: [Option<u64>; 3]) -> TcpSpec {
        let [initial, min, max] = rto.map(|ms| ms.map(Nanos::from_millis));
        TcpSpec { rto: RtoSpec { initial, min, max }, ..TcpSpec::default() }
    }

    #[test]
    fn bounds_are_told_with_the_key_that_breaks_them() {
        let defaults = KeepAlive::default();
        let specs = [
            (
                TcpSpec { delayed_ack: Some(Nanos::from_millis(501)), ..TcpSpec::default() },
                "delayed-ack",
            ),
            (TcpSpec { time_wait: Some(Nanos::from_secs(241)), ..TcpSpec::default() }, "time-wait"),
            (TcpSpec { fin_timeout: Some(Nanos::ZERO), ..TcpSpec::default() }, "fin-timeout"),
            (TcpSpec { user_timeout: Some(Nanos::new(5)), ..TcpSpec::default() }, "user-timeout"),
            (TcpSpec { syn_retries: Some(128), ..TcpSpec::default() }, "syn-retries"),
            (
                TcpSpec {
                    keep_alive: Some(KeepAlive { count: 0, ..defaults }),
                    ..TcpSpec::default()
                },
                "keep-alive.count",
            ),
            (
                TcpSpec {
                    keep_alive: Some(KeepAlive { idle: Nanos::ZERO, ..defaults }),
                    ..TcpSpec::default()
                },
                "keep-alive.idle",
            ),
            (
                TcpSpec {
                    window_scaling: Some(false),
                    receive_buffer: Some(Bytes::new(65_536)),
                    ..TcpSpec::default()
                },
                "receive-buffer",
            ),
            (times([None, None, Some(601_000)]), "rto.max"),
            (times([Some(100), Some(200), None]), "rto.min"),
            (times([Some(3000), None, Some(2000)]), "rto.initial"),
            (times([None, Some(3000), Some(2000)]), "rto.min"),
        ];
        for (spec, key) in specs {
            let (found, why) = spec.check().unwrap_err();
            assert_eq!(found, key, "{why}");
        }
    }

    #[test]
    fn what_lies_at_a_bound_is_valid() {
        let spec = TcpSpec {
            delayed_ack: Some(Nanos::ZERO),
            time_wait: Some(Nanos::ZERO),
            syn_retries: Some(0),
            data_retries: Some(255),
            window_scaling: Some(false),
            receive_buffer: Some(Bytes::new(65_535)),
            ..times([Some(1000), Some(1000), Some(1000)])
        };
        assert_eq!(spec.check(), Ok(()));
        assert_eq!(TcpSpec::default().check(), Ok(()));
    }
}
