//! What `TCP_INFO` says of a session, as the kernel lays it out (`linux/tcp.h`): the fields that the stack knows, all others zero.
//!
//! Linux counts its congestion window in segments, the stack in bytes: sizes are divided by the session's MSS.

use wirebeat_stack::{Agreed, Info, Phase, State};
use wirebeat_units::Nanos;

use crate::sockets::Socket;

/// Bytes of the structure that are written.
pub const LEN: usize = 280;
/// Linux's word for no slow start threshold.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Offsets of fields in the structure.
mod at {
    pub const STATE: usize = 0;
    pub const CA_STATE: usize = 1;
    pub const RETRANSMITS: usize = 2;
    pub const PROBES: usize = 3;
    pub const BACKOFF: usize = 4;
    pub const OPTIONS: usize = 5;
    pub const RTO: usize = 8;
    pub const SND_MSS: usize = 16;
    pub const RCV_MSS: usize = 20;
    pub const UNACKED: usize = 24;
    pub const SACKED: usize = 28;
    pub const LOST: usize = 32;
    pub const RETRANS: usize = 36;
    pub const LAST_DATA_RECV: usize = 52;
    pub const RTT: usize = 68;
    pub const RTTVAR: usize = 72;
    pub const SND_SSTHRESH: usize = 76;
    pub const SND_CWND: usize = 80;
    pub const ADVMSS: usize = 84;
    pub const REORDERING: usize = 88;
    pub const BUSY_TIME: usize = 168;
    pub const RWND_LIMITED: usize = 176;
}

/// Linux's number of a state (`include/net/tcp_states.h`).
fn state_number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

/// The structure for `socket`, whose session is `info` where it has one.
pub fn write(now: Nanos, socket: &Socket, info: Option<&Info>) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let Some(info) = info else {
        if let Some(state) = bytes.get_mut(at::STATE) {
            *state = if socket.is_listening() { 10 } else { 7 };
        }
        return bytes;
    };
    let mut put = |at: usize, value: u32| {
        if let Some(place) = bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    };
    let mss = u32::from(info.mss).max(1);
    let micros = |time: Nanos| u32::try_from(time.get() / 1_000).unwrap_or(u32::MAX);
    put(at::RTO, micros(info.rto));
    put(at::SND_MSS, mss);
    put(at::RCV_MSS, socket.segment_seen.clamp(1, u32::from(info.announced_mss).max(1)));
    put(at::UNACKED, info.outstanding.div_ceil(mss));
    put(at::SACKED, info.sacked.div_ceil(mss));
    put(at::LOST, info.lost.div_ceil(mss));
    put(at::RETRANS, info.retransmitted.div_ceil(mss));
    let heard = now.saturating_sub(socket.data_at);
    put(at::LAST_DATA_RECV, u32::try_from(heard.get() / 1_000_000).unwrap_or(u32::MAX));
    put(at::RTT, info.rtt.map_or(0, micros));
    put(at::RTTVAR, micros(info.rtt_variation));
    let threshold = if info.ssthresh == u32::MAX { NO_THRESHOLD } else { info.ssthresh / mss };
    put(at::SND_SSTHRESH, threshold);
    put(at::SND_CWND, info.cwnd / mss);
    put(at::ADVMSS, info.announced_mss.into());
    put(at::REORDERING, 3);
    for (at, time) in [(at::BUSY_TIME, socket.busy), (at::RWND_LIMITED, socket.window_limited)] {
        if let Some(place) = bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&(time.get() / 1_000).to_ne_bytes());
        }
    }
    let phase = match info.phase {
        Phase::Open if info.sacked > 0 => 1,
        Phase::Open => 0,
        Phase::Reduced => 2,
        Phase::Recovery => 3,
        Phase::Loss => 4,
    };
    // TCPI_OPT_TIMESTAMPS and so on.
    let Agreed { timestamps, sack, window_scaling, ecn } = info.agreed;
    let options = [timestamps, sack, window_scaling, ecn]
        .into_iter()
        .rev()
        .fold(0, |bits, agreed| bits << 1 | u8::from(agreed));
    for (at, value) in [
        (at::STATE, state_number(info.state)),
        (at::CA_STATE, phase),
        (at::RETRANSMITS, if info.probing { 0 } else { info.retries }),
        (at::PROBES, if info.probing { info.retries } else { 0 }),
        (at::BACKOFF, info.backoff),
        (at::OPTIONS, options),
    ] {
        if let Some(place) = bytes.get_mut(at) {
            *place = value;
        }
    }
    bytes
}
