//! Both roles with iperf 2 over TCP: what it counts is what we count, to the byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use wirebeat_iperf::control::iperf2::{Back, Header, HeaderAmount};
use wirebeat_iperf::result::{End, Role};
use wirebeat_iperf::{
    Amount, Direction, Error, Iperf2Server, Limits, ServerOptions, Stop, TestResult, TestSpec,
    client,
};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};
use wirebeat_units::{BitRate, Bytes, Nanos};

use crate::world::{Ended, PATIENCE, bed, serving_by};

/// Where a client of iperf 2 listens.
const BACK: u16 = 5022;

fn options() -> ServerOptions {
    ServerOptions { connect_back: true, ..ServerOptions::default() }
}

/// A row of what iperf 2 prints with `-y C`: ports of the connection's ends, the smaller first since it has them in either order,
/// and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    ports: [u16; 2],
    bytes: u64,
}

impl Row {
    fn new(mut ports: [u16; 2], bytes: u64) -> Row {
        ports.sort();
        Row { ports, bytes }
    }
}

/// The rows of single streams.
fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, local, _, remote, id, _, bytes, ..] = fields[..] else { return None };
        let port = |text: &str| text.parse().unwrap();
        let single = id.parse::<i32>().ok()? > 0;
        single.then(|| Row::new([port(local), port(remote)], bytes.parse().unwrap()))
    };
    text.lines().filter_map(row).collect()
}

/// What our result says as the other end's rows.
fn expected(result: &TestResult) -> Vec<Row> {
    let row = |stream: &wirebeat_iperf::result::StreamResult| {
        Row::new([stream.remote.port(), stream.local.port()], stream.ours.bytes.get())
    };
    let mut rows: Vec<Row> = result.streams.iter().map(row).collect();
    rows.sort();
    rows
}

/// A client of iperf 2 to our server, with what it says.
fn client_says(bed: &Testbed, to: SocketAddr, arguments: &str) -> Vec<Row> {
    let program = Program::new(&bed.a.namespace, "iperf");
    let program = program.args(["-c", "127.0.0.1", "-y", "C", "-p", &to.port().to_string()]);
    let output = program.args(arguments.split_ascii_whitespace()).output(PATIENCE).unwrap();
    let mut rows = rows(&output.stdout);
    assert!(!rows.is_empty(), "{arguments}: {} {}", output.stdout, output.stderr);
    rows.sort();
    rows
}

/// Waits until so many tests of our server are over.
fn await_ended(ended: &Mutex<Vec<Ended>>, count: usize) {
    let begun = Instant::now();
    while ended.lock().unwrap().len() < count {
        assert!(begun.elapsed() < PATIENCE, "{:?}", ended.lock().unwrap());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_of_iperf_2_counts_what_our_server_counts() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    for (arguments, direction, streams) in [
        ("-n 3M", Direction::Forward, 1),
        ("-n 3M -P 3", Direction::Forward, 3),
        ("-n 3M -l 1000", Direction::Forward, 1),
        ("-t 1 -b 20M", Direction::Forward, 1),
        ("-n 3M -d -L 5022", Direction::BothWays, 2),
        ("-n 3M -d -P 2 -L 5022", Direction::BothWays, 4),
        ("-n 3M -r -L 5022", Direction::InTurn, 2),
        ("-n 3M -r -P 2 -L 5022", Direction::InTurn, 4),
    ] {
        let bed = bed();
        let serve = ("127.0.0.1:0", options());
        let (mut ended, rows) = serving_by::<Iperf2Server, _>(&bed, serve, |address, ended| {
            let rows = client_says(&bed, address, arguments);
            await_ended(ended, 1);
            rows
        });
        assert_eq!(ended.len(), 1, "{arguments}");
        let result = ended.remove(0).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert_eq!((result.role, result.end), (Role::Server, End::Completed), "{arguments}");
        assert_eq!((result.spec.direction, result.streams.len()), (direction, streams));
        assert_eq!(rows, expected(&result), "{arguments}");
        if arguments.contains("-n") {
            assert!(rows.iter().all(|row| row.bytes == 3 << 20), "{arguments}: {rows:?}");
        }
        let back = result.streams.iter().filter(|stream| stream.sending);
        assert!(back.clone().all(|stream| stream.remote.port() == BACK), "{arguments}");
        let both = direction != Direction::Forward;
        assert_eq!(back.count(), if both { streams / 2 } else { 0 }, "{arguments}");
    }
}

#[test]
fn a_time_is_kept_back() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = bed();
    let (ended, rows) =
        serving_by::<Iperf2Server, _>(&bed, ("127.0.0.1:0", options()), |to, ended| {
            let rows = client_says(&bed, to, "-t 1 -b 20M -d -L 5022");
            await_ended(ended, 1);
            rows
        });
    let result = ended[0].as_ref().unwrap();
    assert_eq!(rows, expected(result));
    let sent = result.streams.iter().find(|stream| stream.sending).unwrap();
    // 20 Mibit/s for a second, as the header says
    let bytes = sent.ours.bytes.get();
    assert!((1_000_000..=4_000_000).contains(&bytes), "{bytes}");
}

/// A server of iperf 2 in namespace `a`.
fn server(bed: &Testbed) -> (Process, SocketAddr) {
    let program = Program::new(&bed.a.namespace, "iperf");
    let server = program.args(["-s", "-p", "5011", "-y", "C"]).spawn().unwrap();
    let address: SocketAddr = "127.0.0.1:5011".parse().unwrap();
    // it prints nothing before a test, and a connection would be one: the table of sockets tells
    let listening = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        let table6 = std::fs::read_to_string("/proc/thread-self/net/tcp6").unwrap_or_default();
        let has = |line: &str| line.contains(":1393 ") && line.contains(" 0A ");
        table.lines().chain(table6.lines()).any(has)
    };
    let begun = Instant::now();
    while !bed.a.namespace.run(listening).unwrap() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    (server, address)
}

#[test]
fn a_server_of_iperf_2_counts_what_our_client_counts() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let amount = Amount::Bytes(Bytes::new(2_345_678));
    let plain = TestSpec { amount, ..TestSpec::default() };
    for spec in [
        plain.clone(),
        TestSpec { streams: 3, ..plain.clone() },
        TestSpec { direction: Direction::BothWays, ..plain.clone() },
        TestSpec { direction: Direction::BothWays, streams: 2, ..plain.clone() },
        // not with several streams: the threads by which a server of iperf 2.1.8 sends back then wait for each other for ever in
        // some of its tests, with any client
        TestSpec { direction: Direction::InTurn, ..plain.clone() },
        TestSpec {
            amount: Amount::Time(Nanos::from_secs(1)),
            rate: Some(BitRate(20_000_000)),
            block: Some(Bytes::new(10_000)),
            ..plain.clone()
        },
    ] {
        let bed = bed();
        let (server, address) = server(&bed);
        let target = client::Target::new(address);
        let run = || client::run_iperf2(&target, &spec, &Stop::new(), &mut |_| {});
        let result = bed.a.namespace.run(run).unwrap().unwrap();
        assert_eq!((result.role, result.end), (Role::Client, End::Completed));
        let expected = expected(&result);
        // it prints a row when a stream has ended
        for row in &expected {
            let ends = format!(",{},", row.bytes);
            server.wait_for(&ends, PATIENCE).unwrap();
        }
        server.interrupt();
        let begun = Instant::now();
        let text = server.wait(PATIENCE).unwrap().stdout;
        let mut rows = rows(&text);
        rows.sort();
        assert_eq!(rows, expected, "{spec:?} after {:?}: {text}", begun.elapsed());
        let directions = if spec.direction == Direction::Forward { 1 } else { 2 };
        assert_eq!(rows.len(), spec.streams as usize * directions, "{text}");
        if spec.amount == amount {
            assert!(rows.iter().all(|row| row.bytes == 2_345_678), "{text}");
        }
    }
}

#[test]
fn the_server_connects_back_only_where_that_is_allowed_and_to_nobody_else() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = bed();
    let limits = Limits { patience: Nanos::from_millis(300), ..Limits::default() };
    let forbidden = ServerOptions { limits, ..ServerOptions::default() };
    let header = Header {
        len: 0,
        streams: 1,
        port: 5033,
        block: 0,
        window: 0,
        amount: HeaderAmount::Bytes(Bytes::new(1000)),
        back: Back::AtOnce,
        rate: 0,
        over_this: false,
        answered: true,
    };
    // closes without an answer: whether that came before the end
    let ask = |to: SocketAddr, header: Header| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&header.to_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.len()
    };
    let (ended, ()) =
        serving_by::<Iperf2Server, _>(&bed, ("127.0.0.1:0", forbidden), |to, ended| {
            assert_eq!(bed.a.namespace.run(|| ask(to, header)).unwrap(), 0);
            await_ended(ended, 1);
            client_says(&bed, to, "-n 1M");
            await_ended(ended, 2);
        });
    assert!(ended[0].as_ref().unwrap_err().contains("allow the server to connect back"));
    assert!(ended[1].is_ok());
    let allowed = ServerOptions { connect_back: true, ..forbidden };
    let (ended, ()) = serving_by::<Iperf2Server, _>(&bed, ("127.0.0.1:0", allowed), |to, ended| {
        // nobody listens there
        assert_eq!(bed.a.namespace.run(|| ask(to, header)).unwrap(), 28);
        await_ended(ended, 1);
        client_says(&bed, to, "-n 1M -P 2");
        await_ended(ended, 2);
    });
    assert!(
        ended[0].as_ref().unwrap_err().contains("cannot connect to 127.0.0.1:5033"),
        "{ended:?}"
    );
    assert!(ended[1].is_ok());
}

#[test]
fn a_header_of_garbage_and_silent_connections_hold_nobody_up() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = bed();
    let (ended, ()) =
        serving_by::<Iperf2Server, _>(&bed, ("127.0.0.1:0", options()), |to, ended| {
            let garbage = || {
                let silent: Vec<TcpStream> =
                    (0..20).map(|_| TcpStream::connect(to).unwrap()).collect();
                for bytes in [[0xff; 300], [0x80; 300]] {
                    let mut stream = TcpStream::connect(to).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    stream.write_all(&bytes).unwrap();
                    // its end, or a reset
                    assert!(!matches!(stream.read(&mut [0; 1]), Ok(1)));
                }
                silent
            };
            let _silent = bed.a.namespace.run(garbage).unwrap();
            client_says(&bed, to, "-n 1M");
            await_ended(ended, 1);
        });
    assert!(ended[0].is_ok(), "{ended:?}");
}

#[test]
fn what_iperf_2_cannot_do_is_refused() {
    let target = client::Target::new("192.0.2.1:5001".parse().unwrap());
    for bad in [
        TestSpec { direction: Direction::Reverse, ..TestSpec::default() },
        TestSpec { omit: Nanos::from_secs(1), ..TestSpec::default() },
        TestSpec { streams: 0, ..TestSpec::default() },
    ] {
        let refused = client::run_iperf2(&target, &bad, &Stop::new(), &mut |_| {});
        assert!(matches!(refused, Err(Error::Refused(_))), "{bad:?}: {refused:?}");
    }
    let in_turn = TestSpec { direction: Direction::InTurn, ..TestSpec::default() };
    let refused = client::run(&target, &in_turn, &Stop::new(), &mut |_| {});
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}

#[test]
fn a_server_does_not_go_on_sending_to_a_client_that_has_left() {
    require!(Capability::NetworkNamespaces);
    let bed = bed();
    let header = Header {
        len: 0,
        streams: 1,
        port: 5044,
        block: 0,
        window: 0,
        amount: HeaderAmount::Time(Nanos::from_secs(60)),
        back: Back::AtOnce,
        rate: 0,
        over_this: false,
        answered: false,
    };
    let (ended, took) =
        serving_by::<Iperf2Server, _>(&bed, ("127.0.0.1:0", options()), |to, ended| {
            bed.a
                .namespace
                .run(|| {
                    // somebody else reads what comes to the port that the header names
                    let listener = TcpListener::bind("127.0.0.1:5044").unwrap();
                    let mut stream = TcpStream::connect(to).unwrap();
                    stream.write_all(&header.to_bytes()).unwrap();
                    let (mut back, _) = listener.accept().unwrap();
                    drop(stream);
                    let begun = Instant::now();
                    let mut read = vec![0; 1 << 16];
                    while back.read(&mut read).is_ok_and(|count| count > 0) {}
                    begun.elapsed()
                })
                .inspect(|_| await_ended(ended, 1))
                .unwrap()
        });
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(ended.len() == 1, "{ended:?}");
}

#[test]
fn the_owner_says_how_long_a_test_may_be() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf"));
    let bed = bed();
    let limits = Limits { time: Nanos::from_secs(1), ..Limits::default() };
    let options = ServerOptions { limits, ..options() };
    let begun = Instant::now();
    let (ended, ()) = serving_by::<Iperf2Server, _>(&bed, ("127.0.0.1:0", options), |to, ended| {
        // sends back for a second, and not for 30
        client_says(&bed, to, "-t 3 -r -L 5022");
        await_ended(ended, 1);
    });
    let result = ended[0].as_ref().unwrap();
    assert!(result.time < Nanos::from_millis(5500), "{result:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}
