//! What a group of sessions asks of our own TCP: its keys as a profile of the crate `stack`. What it leaves out is as Linux has it, so
//! that both ends of a comparison wait alike.

use wirebeat_endpoint::DatagramProfile;
use wirebeat_stack::{Congestion, KeepAlive, Profile, Reading};
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::values::session::{RtoSpec, TcpSpec, Transport};
use wirebeat_units::Nanos;

/// The receive window where nothing else is asked for: 1 Gbit/s over 8 ms, and what Linux begins to grow to.
const WINDOW: u32 = 1 << 20;
/// Bytes of data in a packet that is cut into segments below us: with headers it stays below 65,535 bytes.
const LARGE: u32 = 64_000;
/// Bytes of the shortest headers of IPv4 and TCP.
const HEADERS: u32 = 40;
/// The least timeout of Linux (`TCP_RTO_MIN` of net/tcp.h).
const RTO_MIN: Nanos = Nanos::from_millis(200);

/// Those of the clients of each group, and then those of the servers.
pub(super) fn of(sessions: &Sessions, mtu: u32) -> Vec<Profile> {
    let clients = sessions.groups.iter().map(|group| profile(group, mtu));
    let servers = sessions.groups.iter().map(|group| {
        let syn_retries = group.tcp.syn_retries.unwrap_or_else(|| answers_within(group.timeout));
        Profile { syn_retries, ..profile(group, mtu) }
    });
    clients.chain(servers).collect()
}

/// What is asked of the datagrams of a group; `None`: it is not over UDP.
pub(super) fn datagrams(group: &SessionGroup) -> Option<DatagramProfile> {
    let usual = Profile::default();
    (group.transport == Transport::Udp).then(|| DatagramProfile {
        ttl: group.ttl.unwrap_or(usual.ttl),
        tos: group.tos.unwrap_or(0),
        dont_fragment: group.dont_fragment.unwrap_or(usual.dont_fragment),
    })
}

/// How long a session that closed first keeps its ports.
pub(super) fn time_wait(tcp: &TcpSpec) -> Nanos {
    tcp.time_wait.unwrap_or(Profile::default().time_wait)
}

fn profile(group: &SessionGroup, mtu: u32) -> Profile {
    let tcp = &group.tcp;
    let usual = Profile::default();
    let window =
        tcp.receive_buffer.map_or(WINDOW, |bytes| u32::try_from(bytes.get()).unwrap_or(WINDOW));
    let dont_fragment = group.dont_fragment.unwrap_or(usual.dont_fragment);
    // where one bound alone is asked for, the others make way
    let RtoSpec { initial, min, max } = tcp.rto;
    let rto_min = min.unwrap_or(RTO_MIN.min(max.unwrap_or(RTO_MIN)));
    let rto_max = max.unwrap_or(usual.rto_max.max(rto_min).max(initial.unwrap_or(Nanos::ZERO)));
    Profile {
        mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
        mss: tcp.mss.map(Into::into),
        window,
        window_scaling: tcp.window_scaling.unwrap_or(usual.window_scaling),
        timestamps: tcp.timestamps.unwrap_or(usual.timestamps),
        sack: tcp.sack.unwrap_or(usual.sack),
        ecn: tcp.ecn.unwrap_or(usual.ecn),
        initial_window: tcp.initial_window.map_or(usual.initial_window, Into::into),
        gso_segments: match dont_fragment {
            true => u8::try_from(LARGE / mtu.saturating_sub(HEADERS).max(1)).unwrap_or(u8::MAX),
            // fragments are told apart by the identification of their packet, which who cuts would choose (RFC 6864 §4.3)
            false => 0,
        },
        nagle: tcp.nagle,
        congestion: match tcp.congestion.as_deref() {
            Some("reno") => Congestion::NewReno,
            Some("none") => Congestion::None,
            _ => Congestion::Cubic,
        },
        delayed_ack: tcp.delayed_ack.unwrap_or(usual.delayed_ack),
        rto_initial: initial.unwrap_or(usual.rto_initial.max(rto_min).min(rto_max)),
        rto_min,
        rto_max,
        slow_start_step: 2,
        quick_acks: 16,
        syn_retries: tcp.syn_retries.unwrap_or(usual.syn_retries),
        data_retries: tcp.data_retries.unwrap_or(usual.data_retries),
        user_timeout: tcp.user_timeout.unwrap_or(usual.user_timeout),
        keep_alive: tcp.keep_alive.map(|probes| KeepAlive {
            idle: probes.idle,
            interval: probes.interval,
            count: probes.count,
        }),
        fin_wait_2: tcp.fin_timeout.unwrap_or(usual.fin_wait_2),
        time_wait: time_wait(tcp),
        black_hole_detection: tcp.black_hole_detection.unwrap_or(usual.black_hole_detection),
        // programs look into what they receive, in order and as they have room
        reading: Reading::Manual,
        tos: group.tos.unwrap_or(0),
        ttl: group.ttl.unwrap_or(usual.ttl),
        dont_fragment,
        ..usual
    }
}

/// How often the answer to a SYN is repeated, one second after the first and then each time after twice as long (RFC 6298), so that
/// a session that its client does not open is given up within `timeout`.
fn answers_within(timeout: Nanos) -> u8 {
    let seconds = timeout.get() / 1_000_000_000;
    // 1 s, 3 s, 7 s and so on are over when it is given up after 0, 1, 2 repetitions
    let given_up = (seconds + 1).checked_ilog2().unwrap_or(0).saturating_sub(1);
    u8::try_from(given_up).unwrap_or(u8::MAX).min(Profile::default().syn_retries)
}

#[cfg(test)]
mod tests {
    use wirebeat_traffic::compile::{Files, compile_sessions};
    use wirebeat_traffic::scenario::Scenario;

    use super::*;

    fn profiles(keys: &str) -> Vec<Profile> {
        let text = format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  s:\n    from: a\n    to: b\n    \
             stack: own\n    clients: {{ addresses: 10.0.0.1 }}\n    servers: {{ addresses: 10.0.0.2, ports: 80 }}\n    \
             program: http\n    rate: 10/s\n    {keys}\nrun: {{ time: 1s }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        of(&compile_sessions(&scenario, &Files::default()).unwrap(), 1500)
    }

    #[test]
    fn what_is_asked_for_is_in_the_profiles_of_both_ends() {
        let keys = "tcp: { window-scaling: false, timestamps: false, sack: false, ecn: true, initial-window: 3, delayed-ack: 0s, \
                    keep-alive: { idle: 10s, interval: 2s, count: 3 }, rto: { initial: 2s, min: 50ms, max: 9s }, syn-retries: 1, \
                    data-retries: 4, user-timeout: 8s, fin-timeout: 7s, time-wait: 0s, black-hole-detection: true, mss: 1000, \
                    receive-buffer: 60000B, nagle: true, congestion: reno }\n    ttl: 9\n    dscp: ef\n    dont-fragment: false";
        let asked = Profile {
            mtu: 1500,
            mss: Some(1000),
            window: 60_000,
            window_scaling: false,
            timestamps: false,
            sack: false,
            ecn: true,
            initial_window: 3,
            gso_segments: 0,
            nagle: true,
            congestion: Congestion::NewReno,
            delayed_ack: Nanos::ZERO,
            quick_acks: 16,
            slow_start_step: 2,
            rto_initial: Nanos::from_secs(2),
            rto_min: Nanos::from_millis(50),
            rto_max: Nanos::from_secs(9),
            syn_retries: 1,
            data_retries: 4,
            user_timeout: Nanos::from_secs(8),
            black_hole_detection: true,
            keep_alive: Some(KeepAlive {
                idle: Nanos::from_secs(10),
                interval: Nanos::from_secs(2),
                count: 3,
            }),
            time_wait: Nanos::ZERO,
            fin_wait_2: Nanos::from_secs(7),
            reading: Reading::Manual,
            tos: 0xb8,
            ttl: 9,
            dont_fragment: false,
            ..Profile::default()
        };
        assert_eq!(profiles(keys), [asked, asked]);
    }

    #[test]
    fn what_is_not_asked_for_is_as_linux_has_it() {
        let [client, server] = profiles("")[..] else { panic!("two ends") };
        assert_eq!(client.rto_min, RTO_MIN);
        assert_eq!((client.syn_retries, server.syn_retries), (6, 2));
        assert_eq!(Profile { syn_retries: 6, ..server }, client);
        assert!(client.dont_fragment && client.gso_segments > 1 && client.sack && !client.ecn);
    }

    #[test]
    fn one_bound_of_the_timeout_moves_the_others() {
        let of = |rto: &str| {
            let Profile { rto_initial, rto_min, rto_max, .. } =
                profiles(&format!("tcp: {{ rto: {rto} }}"))[0];
            [rto_initial, rto_min, rto_max].map(|time| time.get() / 1_000_000)
        };
        assert_eq!(of("{ min: 3s }"), [3_000, 3_000, 60_000]);
        assert_eq!(of("{ max: 100ms }"), [100, 100, 100]);
        assert_eq!(of("{ min: 90s }"), [90_000, 90_000, 90_000]);
        assert_eq!(of("{ initial: 100s }"), [100_000, 200, 100_000]);
        assert_eq!(of("{ initial: 50ms }"), [50, 200, 60_000]);
    }

    #[test]
    fn half_open_sessions_are_given_up_within_the_timeout_of_their_group() {
        let within = |seconds| answers_within(Nanos::from_secs(seconds));
        assert_eq!([0, 1, 2, 3, 6, 7, 10, 15].map(within), [0, 0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(within(1_000_000), Profile::default().syn_retries);
    }
}
