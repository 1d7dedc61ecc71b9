//! Our receiver and the real ITGSend; ITGDec reads our log.

use wirebeat_ditg::ServerOptions;
use wirebeat_ditg::control::{Meter, PayloadKind, Transport};
use wirebeat_ditg::result::FlowEnd;
use wirebeat_meter::session::SessionTime;
use wirebeat_testbed::{Capability, Program, require};

use crate::world::{Log, PATIENCE, Served, bed, decoded, is_near, itg_send, serving};

macro_rules! require_d_itg {
    () => {
        require!(
            Capability::NetworkNamespaces,
            Capability::Program("ITGSend"),
            Capability::Program("ITGDec")
        );
    };
}

/// Serves one ITGSend with these arguments, and holds what it counted against what ITGDec reads from its log.
fn served(listen: &str, arguments: &str) -> Served {
    let bed = bed();
    let log = Log::new();
    let serve = (listen, ServerOptions::default(), Some(&log));
    let (served, ()) = serving(&bed, serve, |_, _| drop(itg_send(&bed, arguments)));
    assert_eq!(served.refused, Vec::<String>::new(), "{arguments}");
    let decoded = decoded(&bed, &log);
    let all = |of: fn(&wirebeat_ditg::FlowResult) -> u64| served.flows.iter().map(of).sum::<u64>();
    assert_eq!(decoded.flows, served.flows.len() as u64, "{arguments}");
    assert_eq!(decoded.packets, all(|flow| flow.packets), "{arguments}");
    assert_eq!(decoded.bytes, all(|flow| flow.bytes), "{arguments}");
    assert_eq!(decoded.dropped, all(|flow| flow.summary.counts.messages_lost), "{arguments}");
    if let [flow] = &served.flows[..]
        && flow.payload == PayloadKind::Standard
    {
        let delay = flow.summary.time(SessionTime::Delay).actual.moments;
        let jitter = flow.summary.arrivals.jitter.moments;
        let mean = |sum: i128, count: u64| sum as f64 / count as f64;
        let ours = [
            delay.min as f64,
            delay.max as f64,
            mean(delay.sum, delay.count),
            mean(jitter.sum, jitter.count),
        ];
        for (theirs, ours) in decoded.delays.into_iter().zip(ours) {
            assert!(is_near(theirs, ours), "{arguments}: {theirs} s and {ours} ns");
        }
    }
    for flow in &served.flows {
        assert_eq!(flow.end, FlowEnd::InOrder, "{arguments}: {flow:?}");
    }
    served
}

#[test]
fn flows_of_itgsend_are_received_as_its_own_decoder_reads_our_log() {
    require_d_itg!();
    for transport in ["UDP", "TCP"] {
        let of = if transport == "TCP" { Transport::Tcp } else { Transport::Udp };
        let all = served(
            "127.0.0.1:9000",
            &format!("-a 127.0.0.1 -T {transport} -z 60 -C 300 -u 50 400"),
        );
        let flow = all.flow(1);
        assert_eq!((flow.transport, flow.meter, flow.packets), (of, Meter::OneWay, 60));
        assert_eq!(flow.summary.counts.messages_received, 60);
        assert_eq!(flow.summary.counts.messages_out_of_order, 0);
        assert_eq!((flow.destination.port(), flow.source.port() > 0), (8999, true));
        for (number, payload) in [(1, PayloadKind::Short), (2, PayloadKind::None)] {
            let line =
                format!("-a 127.0.0.1 -T {transport} -p {number} -rp 10009 -z 20 -C 20 -c 300");
            let all = served("127.0.0.1:9000", &line);
            let flow = all.flow(1);
            assert_eq!((flow.payload, flow.bytes), (payload, 20 * 300), "{line}");
            assert_eq!(flow.summary.time(SessionTime::Delay).actual.moments.count, 0);
        }
    }
}

#[test]
fn packets_are_sent_back_for_round_trips() {
    require_d_itg!();
    for transport in ["UDP", "TCP"] {
        let bed = bed();
        let log = Log::new();
        let serve = ("127.0.0.1:9000", ServerOptions::default(), None);
        let (served, ()) = serving(&bed, serve, |_, _| {
            let line = format!(
                "-a 127.0.0.1 -m rttm -T {transport} -z 50 -C 200 -u 40 9000 -l {}",
                log.text()
            );
            itg_send(&bed, &line);
        });
        let flow = served.flow(1);
        assert_eq!((flow.meter, flow.packets), (Meter::RoundTrip, 50), "{transport}");
        // the sender's log has those that came back
        let decoded = decoded(&bed, &log);
        assert_eq!((decoded.packets, decoded.bytes), (50, flow.bytes), "{transport}");
        assert!(decoded.delays[0] > 0.0 && decoded.delays[1] < 1.0, "{decoded:?}");
    }
}

#[test]
fn ipv6_and_any_address_are_served() {
    require_d_itg!();
    let all = served("[::1]:9000", "-a ::1 -T TCP -z 10 -C 100 -c 100");
    assert_eq!(all.flow(1).destination, "[::1]:8999".parse().unwrap());
    let all = served("0.0.0.0:9000", "-a 127.0.0.1 -z 10 -C 100 -c 100");
    assert_eq!(all.flow(1).destination, "127.0.0.1:8999".parse().unwrap());
    // a socket of IPv6 that takes IPv4 as well
    let all = served("[::]:9000", "-a 127.0.0.1 -m rttm -z 10 -C 100 -c 100");
    assert_eq!(all.flow(1).source.ip(), "127.0.0.1".parse::<std::net::IpAddr>().unwrap());
}

#[test]
fn flows_of_a_script_share_a_port() {
    require_d_itg!();
    let bed = bed();
    let script = Log::new();
    let lines = "-a 127.0.0.1 -z 40 -C 100 -c 100\n-a 127.0.0.1 -z 30 -C 100 -c 200\n\
                 -a 127.0.0.1 -T TCP -z 20 -C 100 -c 300\n-a 127.0.0.1 -T TCP -m rttm -z 10 -C 100 -c 400\n\
                 -a 127.0.0.1 -rp 10001 -m rttm -z 15 -C 100 -c 60\n";
    std::fs::write(script.path(), lines).unwrap();
    let log = Log::new();
    let asked = Log::new();
    let serve = ("127.0.0.1:9000", ServerOptions::default(), Some(&log));
    let (served, ()) = serving(&bed, serve, |_, _| {
        itg_send(&bed, &format!("{} -x {}", script.text(), asked.text()));
    });
    let counted = [(40, 100), (30, 200), (20, 300), (10, 400), (15, 60)];
    for (number, (packets, size)) in (1..).zip(counted) {
        let flow = served.flow(number);
        assert_eq!((flow.packets, flow.bytes), (packets, packets * size), "flow {number}");
        assert_eq!(flow.end, FlowEnd::InOrder);
    }
    let decoded = decoded(&bed, &log);
    assert_eq!((decoded.flows, decoded.packets, decoded.dropped), (5, 115, 0));
    // the log that the sender asked for is nowhere
    assert!(served.logs_left_out > 0);
    assert!(!asked.path().exists());
}

#[test]
fn several_senders_are_served_at_a_time() {
    require_d_itg!();
    let bed = bed();
    let log = Log::new();
    // of one host with one number of a flow and one port, and of another host
    let serve = ("0.0.0.0:9000", ServerOptions::default(), Some(&log));
    let (served, ()) = serving(&bed, serve, |_, _| {
        let far = bed.a.ipv4.to_string();
        let senders = [
            (&bed.a.namespace, "127.0.0.1", "-T UDP -z 50 -C 100 -c 100"),
            (&bed.a.namespace, "127.0.0.1", "-T TCP -z 50 -C 100 -c 200"),
            (&bed.b.namespace, far.as_str(), "-T UDP -z 50 -C 100 -c 300"),
            (&bed.b.namespace, far.as_str(), "-T TCP -m rttm -z 50 -C 100 -c 400"),
        ];
        let senders = senders.map(|(namespace, to, line)| {
            let send = Program::new(namespace, "ITGSend").args(["-a", to]);
            send.args(line.split_ascii_whitespace()).spawn().unwrap()
        });
        for sender in senders {
            assert!(sender.wait(PATIENCE).unwrap().status.success());
        }
    });
    let mut bytes: Vec<u64> = served.flows.iter().map(|flow| flow.bytes).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, [5_000, 10_000, 15_000, 20_000], "{served:?}");
    assert!(served.flows.iter().all(|flow| flow.flow == 1 && flow.packets == 50));
    assert_eq!(decoded(&bed, &log).packets, 200);
}
