//! Clients that are none: whatever they do, the next one is served, and nobody gets more than a test of its own allows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use wirebeat_iperf::control::{Cookie, State, message};
use wirebeat_iperf::{Limits, ServerOptions};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::world::{bed, json, serving};

/// A client that is impatient with us, for tests of time-outs.
fn options() -> ServerOptions {
    let limits = Limits {
        patience: Nanos::from_millis(500),
        idle: Nanos::from_millis(500),
        ..Limits::default()
    };
    ServerOptions { limits, ..ServerOptions::default() }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn cookie(seed: u8) -> Cookie {
    Cookie::from_random([seed; 36])
}

/// Reads a byte; `None` at the end.
fn byte(stream: &mut TcpStream) -> Option<u8> {
    let mut byte = [0; 1];
    match stream.read(&mut byte) {
        Ok(1) => Some(byte[0]),
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
        Err(error) => panic!("{error}"),
    }
}

/// A control connection whose parameters were accepted.
fn begin(to: SocketAddr, parameters: &str) -> TcpStream {
    let mut control = connect(to);
    control.write_all(cookie(1).as_bytes()).unwrap();
    assert_eq!(byte(&mut control), Some(State::ParamExchange.byte()));
    control.write_all(&message(parameters)).unwrap();
    assert_eq!(byte(&mut control), Some(State::CreateStreams.byte()));
    control
}

/// Runs `work` against a server in namespace `a`; then a client of iperf3 has to be served.
fn survives(work: impl FnOnce(SocketAddr) + Send) -> Vec<String> {
    let bed = bed();
    let (ended, ()) = serving(&bed, ("127.0.0.1:0", options()), |address, _| {
        bed.a.namespace.run(|| work(address)).unwrap();
        let served = json(&bed, address, "-n 1M");
        assert_eq!(served.get("error"), None, "{served:#}");
    });
    assert!(ended.last().unwrap().is_ok(), "{ended:?}");
    ended.into_iter().filter_map(Result::err).collect()
}

#[test]
fn silent_connections_and_garbage_hold_nobody_up() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let errors = survives(|address| {
        let silent: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
        let mut http = connect(address);
        http.write_all(&[b"GET / HTTP/1.1\r\n".as_slice(), &[0; 100]].concat()).unwrap();
        assert_eq!(byte(&mut http), None);
        std::mem::forget(silent);
    });
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn parameters_that_cannot_be_read_are_refused() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let errors = survives(|address| {
        let refused = |bytes: &[u8]| {
            let mut control = connect(address);
            control.write_all(cookie(1).as_bytes()).unwrap();
            assert_eq!(byte(&mut control), Some(State::ParamExchange.byte()));
            control.write_all(bytes).unwrap();
            byte(&mut control)
        };
        let (error, end) = (State::ServerError.byte(), State::ServerTerminate.byte());
        assert_eq!(refused(&message("{\"tcp\":true,")), Some(error));
        assert_eq!(refused(&message("{\"sctp\":true}")), Some(error));
        assert_eq!(refused(&message("{\"tcp\":true,\"parallel\":-1}")), Some(error));
        assert_eq!(refused(&message("{\"tcp\":true,\"len\":99999999}")), Some(error));
        assert_eq!(refused(&u32::MAX.to_be_bytes()), Some(end));
        assert_eq!(refused(b""), Some(end));
    });
    assert_eq!(errors.len(), 6, "{errors:?}");
    assert!(errors[4].contains("announced a message of 4294967295 B"), "{errors:?}");
    assert!(errors[5].contains("no parameters within 500ms"), "{errors:?}");
}

#[test]
fn streams_that_do_not_come_end_their_test() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let errors = survives(|address| {
        let mut control = begin(address, "{\"tcp\":true,\"time\":10,\"parallel\":2}");
        let mut first = connect(address);
        first.write_all(cookie(1).as_bytes()).unwrap();
        // a stream of another test
        let mut other = connect(address);
        other.write_all(cookie(2).as_bytes()).unwrap();
        assert_eq!(byte(&mut other), Some(State::AccessDenied.byte()));
        assert_eq!(byte(&mut control), Some(State::ServerTerminate.byte()));
        drop(begin(address, "{\"tcp\":true,\"time\":10}"));
    });
    assert!(errors[0].contains("no streams within 500ms"), "{errors:?}");
    assert!(errors[1].contains("closed the control connection"), "{errors:?}");
}

#[test]
fn a_test_in_which_nothing_moves_ends() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let errors = survives(|address| {
        for parameters in
            ["{\"tcp\":true,\"time\":100}", "{\"tcp\":true,\"time\":100,\"reverse\":true}"]
        {
            let mut control = begin(address, parameters);
            let mut stream = connect(address);
            stream.write_all(cookie(1).as_bytes()).unwrap();
            assert_eq!(byte(&mut control), Some(State::TestStart.byte()));
            assert_eq!(byte(&mut control), Some(State::TestRunning.byte()));
            // neither sends nor reads
            assert_eq!(byte(&mut control), Some(State::ServerTerminate.byte()));
        }
    });
    assert!(errors.iter().all(|error| error.contains("no data within 500ms")), "{errors:?}");
    assert_eq!(errors.len(), 2);
}

#[test]
fn states_and_results_that_do_not_belong_end_their_test() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let errors = survives(|address| {
        for (state, rest) in [
            (State::ParamExchange.byte(), vec![]),
            (77, vec![]),
            (State::TestEnd.byte(), message("{\"streams\":[]}")),
            (State::TestEnd.byte(), message("[[[[[[[[")),
        ] {
            let mut control = begin(address, "{\"tcp\":true,\"time\":100}");
            let mut stream = connect(address);
            stream.write_all(&[cookie(1).as_bytes().as_slice(), &[7; 1000]].concat()).unwrap();
            assert_eq!(byte(&mut control), Some(State::TestStart.byte()));
            control.write_all(&[&[state], &rest[..]].concat()).unwrap();
            while byte(&mut control).is_some_and(|byte| byte != State::ServerTerminate.byte()) {}
        }
    });
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(errors[1].contains("0x4d"), "{errors:?}");
}

#[test]
fn datagrams_go_only_to_the_host_of_the_control_connection() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let errors = survives(|address| {
        let mut control =
            begin(address, "{\"udp\":true,\"time\":100,\"reverse\":true,\"len\":1000}");
        // another host, as far as addresses go
        let victim = UdpSocket::bind("127.0.0.2:0").unwrap();
        victim.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        victim.send_to(b"9876", address).unwrap();
        assert!(victim.recv(&mut [0; 100]).is_err());
        assert_eq!(byte(&mut control), Some(State::ServerTerminate.byte()));
        let mut control =
            begin(address, "{\"udp\":true,\"time\":100,\"reverse\":true,\"len\":1000}");
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        victim.send_to(b"9876", address).unwrap();
        own.send_to(b"9876", address).unwrap();
        let mut datagram = [0; 2000];
        assert_eq!(own.recv(&mut datagram).unwrap(), 4);
        assert_eq!(&datagram[..4], b"6789");
        assert_eq!(byte(&mut control), Some(State::TestStart.byte()));
        assert_eq!(own.recv(&mut datagram).unwrap(), 1000);
        assert!(victim.recv(&mut datagram).is_err());
    });
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn what_a_client_does_not_end_ends_by_itself() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    // an amount that was asked for is all that is sent to any client, however long it stays
    let errors = survives(|address| {
        let mut control =
            begin(address, "{\"tcp\":true,\"num\":100000,\"reverse\":true,\"len\":1000}");
        let mut stream = connect(address);
        stream.write_all(cookie(1).as_bytes()).unwrap();
        assert_eq!(byte(&mut control), Some(State::TestStart.byte()));
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), 100_000);
    });
    assert_eq!(errors.len(), 1, "{errors:?}");
}
