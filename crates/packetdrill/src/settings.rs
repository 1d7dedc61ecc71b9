//! What an administrator and a program ask for, as a profile of the stack: sysctls of this network namespace and socket options.
//!
//! Scripts set sysctls with the shell in the namespace that `scripts/packetdrill.sh` gives them, and they are read from there. Those
//! without a counterpart in the stack have no effect; `tests/packetdrill.txt` names the scripts that need them.

use std::fs;

use wirebeat_stack::{Congestion, KeepAlive, OutOfOrder, Profile, Reading};
use wirebeat_units::Nanos;

/// Profiles of a stack: a socket has the one with its own number.
pub const PROFILES: usize = 256;

/// How many segments are acknowledged without delay at first, as in Linux.
pub const QUICK_ACKS: u8 = 16;

/// The sysctls that the stack has a counterpart for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// `tcp_rmem`: the least, the usual and the largest receive buffer.
    pub receive_buffer: [u32; 3],
    /// `tcp_wmem`.
    pub send_buffer: [u32; 3],
    /// `tcp_notsent_lowat`.
    pub unsent_mark: u32,
    timestamps: bool,
    sack: bool,
    window_scaling: bool,
    ecn: u32,
    cubic: bool,
    syn_retries: u8,
    data_retries: u8,
    restart_after_idle: bool,
    early_retransmit: u32,
    fin_timeout: u32,
    /// `tcp_keepalive_time`, `tcp_keepalive_intvl` and `tcp_keepalive_probes`.
    pub keep_alive: [u32; 3],
}

/// Socket options that shape segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// `TCP_NODELAY`.
    pub no_delay: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `TCP_MAXSEG`, 0 for none.
    pub max_segment: u16,
    /// `IP_TOS` or `IPV6_TCLASS`.
    pub tos: u8,
    /// `SO_KEEPALIVE`.
    pub keep_alive: bool,
    /// `TCP_KEEPIDLE`, `TCP_KEEPINTVL` and `TCP_KEEPCNT`, 0 for the system's.
    pub keep_alive_times: [u32; 3],
    /// `TCP_USER_TIMEOUT` in milliseconds, 0 for none.
    pub user_timeout: u32,
    /// `SO_SNDBUF` as it is told, which is twice what was asked for; 0 for none.
    pub send_buffer: u32,
    /// `SO_RCVBUF` as it is told.
    pub receive_buffer: u32,
    /// `TCP_NOTSENT_LOWAT`; 0 for the system's.
    pub unsent_mark: u32,
    /// `SO_LINGER`: seconds.
    pub linger: Option<u32>,
    /// `TCP_INQ`: each `recvmsg` tells how much more there is.
    pub tells_queue: bool,
    /// `TCP_CONGESTION`, where it was set: CUBIC or not.
    pub cubic: Option<bool>,
}

fn read_words(name: &str) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn read_word(name: &str, default: u32) -> u32 {
    read_words(name).first().copied().unwrap_or(default)
}

fn read_three(name: &str, default: [u32; 3]) -> [u32; 3] {
    read_words(name).try_into().unwrap_or(default)
}

impl System {
    /// Those of this namespace now; what cannot be read is as Linux has it.
    pub fn read() -> System {
        let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        let count = |name: &str, default: u32| read_word(name, default).min(255) as u8;
        System {
            receive_buffer: read_three("tcp_rmem", [4096, 131_072, 6 << 20]),
            send_buffer: read_three("tcp_wmem", [4096, 16_384, 4 << 20]),
            unsent_mark: read_word("tcp_notsent_lowat", u32::MAX),
            timestamps: read_word("tcp_timestamps", 1) > 0,
            sack: read_word("tcp_sack", 1) > 0,
            window_scaling: read_word("tcp_window_scaling", 1) > 0,
            ecn: read_word("tcp_ecn", 2),
            cubic: congestion.is_ok_and(|name| name.trim() != "reno"),
            syn_retries: count("tcp_syn_retries", 6),
            data_retries: count("tcp_retries2", 15),
            restart_after_idle: read_word("tcp_slow_start_after_idle", 1) > 0,
            early_retransmit: read_word("tcp_early_retrans", 3),
            fin_timeout: read_word("tcp_fin_timeout", 60),
            keep_alive: [
                read_word("tcp_keepalive_time", 7200),
                read_word("tcp_keepalive_intvl", 75),
                read_word("tcp_keepalive_probes", 9),
            ],
        }
    }

    /// The profile of a socket that asks for nothing.
    pub fn profile(&self) -> Profile {
        self.profile_for(&Wishes::default(), true)
    }

    /// The profile of a socket; `opens` where it is the one that connects.
    pub fn profile_for(&self, wishes: &Wishes, opens: bool) -> Profile {
        let [_, _, most] = self.receive_buffer;
        let time = |asked: Option<&u32>, usual: Option<&u32>| {
            asked.copied().filter(|asked| *asked > 0).or(usual.copied()).unwrap_or(1)
        };
        let [idle, interval, count] =
            [0, 1, 2].map(|at| time(wishes.keep_alive_times.get(at), self.keep_alive.get(at)));
        let keep_alive = wishes.keep_alive.then(|| KeepAlive {
            idle: Nanos::from_secs(idle.into()),
            interval: Nanos::from_secs(interval.into()),
            count: count.min(255) as u8,
        });
        let cubic = wishes.cubic.unwrap_or(self.cubic);
        Profile {
            mtu: 1500,
            mss: (wishes.max_segment > 0).then_some(wishes.max_segment),
            window: if wishes.receive_buffer > 0 { wishes.receive_buffer } else { most },
            window_scaling: self.window_scaling,
            timestamps: self.timestamps,
            sack: self.sack,
            tail_loss_probe: self.early_retransmit >= 3,
            // 1: asks for it and grants it, 2: grants it.
            ecn: self.ecn == 1 || self.ecn == 2 && !opens,
            congestion: if cubic { Congestion::Cubic } else { Congestion::NewReno },
            nagle: !wishes.no_delay,
            quick_acks: QUICK_ACKS,
            slow_start_step: u8::MAX,
            idle_restart: self.restart_after_idle,
            rto_margin: Nanos::from_millis(200),
            rto_min: Nanos::from_millis(200),
            rto_max: Nanos::from_secs(120),
            syn_retries: self.syn_retries,
            data_retries: self.data_retries,
            user_timeout: Nanos::from_millis(wishes.user_timeout.into()),
            keep_alive,
            fin_wait_2: Nanos::from_secs(self.fin_timeout.into()),
            reading: Reading::Manual,
            out_of_order: OutOfOrder::Deliver,
            tos: wishes.tos,
            ..Profile::default()
        }
    }
}
