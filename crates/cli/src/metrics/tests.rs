//! The server against those who ask it well, and those who do not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use wirebeat_report::model::{FlowInterval, IntervalSent};

use super::security::Security;
use super::*;

fn interval(number: u64, frames: u64) -> Interval {
    let sent = Some(IntervalSent { frames, frame_bytes: frames * 64 });
    let flow = |name: &str| FlowInterval { name: name.to_owned(), sent, ..FlowInterval::default() };
    Interval {
        from_ns: number * 1_000_000_000,
        to_ns: (number + 1) * 1_000_000_000,
        total: flow("total"),
        flows: vec![flow("x")],
        sessions: Vec::new(),
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    }
}

fn observer() -> MetricsObserver {
    let address = "127.0.0.1:0".parse::<MetricsAddress>().unwrap().0;
    let listener = MetricsListener::open(address, Security::default()).unwrap();
    MetricsObserver::start(listener, RunMetrics::new("0.1.0", Some(1))).unwrap()
}

fn connect(observer: &MetricsObserver) -> TcpStream {
    let stream = TcpStream::connect(observer.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// All that a request gets.
fn ask(observer: &MetricsObserver, request: &str) -> String {
    let mut stream = connect(observer);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn what_a_run_counts_is_shown_as_it_goes_on() {
    let mut observer = observer();
    assert!(!ask(&observer, GET).contains("frames_sent"));
    for number in 0..3 {
        observer.interval(&interval(number, 10));
        let expected =
            format!("\nwirebeat_frames_sent_total{{flow=\"x\"}} {}\n", (number + 1) * 10);
        let answer = ask(&observer, GET);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(&expected),
            "{answer}"
        );
        // again, without a change
        assert_eq!(ask(&observer, GET), answer);
    }
    let open = ask(
        &observer,
        "GET /metrics HTTP/1.1\r\nHost: [::1]\r\nAccept: application/openmetrics-text\r\n\r\n",
    );
    assert!(
        open.ends_with("# EOF\n")
            && open.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{open}"
    );
    let head = ask(&observer, &GET.replace("GET", "HEAD"));
    let (_, length) = head.split_once("Content-Length: ").unwrap();
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert!(length.split("\r\n").next().unwrap().parse::<usize>().unwrap() > 100, "{head}");
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let observer = observer();
    let mut stream = connect(&observer);
    for byte in GET.as_bytes() {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[test]
fn those_who_say_nothing_keep_nobody_out() {
    let observer = observer();
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(&observer)).collect();
    let begun = Instant::now();
    for _ in 0..20 {
        assert!(ask(&observer, GET).starts_with("HTTP/1.1 200 OK"));
    }
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    drop(silent);
}

/// Much less than one slow client is waited for.
const PATIENT: Duration = Duration::from_secs(3);

#[test]
fn a_request_without_end_is_refused() {
    let observer = observer();
    let mut stream = connect(&observer);
    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
    while stream.write_all(&[b'x'; 1000]).is_ok() {}
    // others are answered
    assert!(ask(&observer, GET).starts_with("HTTP/1.1 200 OK"));
    assert!(
        ask(&observer, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with("HTTP/1.1 405")
    );
    assert!(
        ask(&observer, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            .starts_with("HTTP/1.1 421")
    );
}

#[test]
fn one_that_does_not_read_its_answer_holds_nothing_up() {
    let mut observer = observer();
    let many = (0..256)
        .map(|number| FlowInterval { name: format!("flow {number}"), ..interval(0, 1).total });
    observer.interval(&Interval { flows: many.collect(), ..interval(0, 1) });
    let deaf: Vec<TcpStream> = (0..6)
        .map(|_| {
            let mut stream = connect(&observer);
            stream.write_all(GET.as_bytes()).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert!(ask(&observer, GET).contains("flow 255"));
    drop(observer);
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    drop(deaf);
}

#[test]
fn it_ends_at_once_whoever_is_connected() {
    let observer = observer();
    let address = observer.address();
    let _silent: Vec<TcpStream> = (0..5).map(|_| connect(&observer)).collect();
    let begun = Instant::now();
    drop(observer);
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    assert!(TcpStream::connect(address).is_err(), "it still listens");
}

#[test]
fn a_port_in_use_is_told_with_the_way_out() {
    let observer = observer();
    let why = MetricsListener::open(observer.address(), Security::default()).unwrap_err();
    assert_eq!(why.exit_code(), 3);
    let said = why.sentence();
    let port = observer.address().port();
    assert!(said.contains(&format!("--metrics: cannot listen at 127.0.0.1:{port}")), "{said}");
    assert!(said.contains("give another port"), "{said}");
}
