//! Pushes against collectors that take them, and against those that do not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirebeat_report::model::{FlowInterval, IntervalSent};

use super::push::LAST;
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn interval(number: u64) -> Interval {
    let sent = Some(IntervalSent { frames: 10, frame_bytes: 640 });
    let flow = FlowInterval { name: "x".to_owned(), sent, ..FlowInterval::default() };
    Interval {
        from_ns: number * 1_000_000_000,
        to_ns: (number + 1) * 1_000_000_000,
        total: FlowInterval { name: "total".to_owned(), ..flow.clone() },
        flows: vec![flow],
        sessions: Vec::new(),
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    }
}

/// A collector that does so with every connection, and the requests that it read whole.
fn collector(
    answer: impl Fn(TcpStream, usize) + Send + 'static,
) -> (SocketAddr, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tells, told) = channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            if let Some(request) = request(&mut stream)
                && tells.send(request).is_err()
            {
                return;
            }
            answer(stream, number);
        }
    });
    (address, told)
}

/// The head of a request and its body.
fn request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut came = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        came.extend_from_slice(&piece[..count]);
        let Some(end) = came.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(came[..end].to_vec()).unwrap();
        let length = head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let body = &came[end + 4..];
        if body.len() == length.parse::<usize>().unwrap() {
            return Some((head, serde_json::from_slice(body).unwrap()));
        }
    }
}

fn said(text: &'static str) -> impl Fn(TcpStream, usize) + Send + 'static {
    move |mut stream, _| {
        let _ = stream.write_all(text.as_bytes());
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

fn start(address: SocketAddr, timeout_ms: &str) -> OtlpObserver {
    let args = OtlpArgs { otlp: Some(format!("http://{address}")), otlp_ca: None };
    let variables = |name: &str| match name {
        "OTEL_METRIC_EXPORT_INTERVAL" => Some("100".to_owned()),
        "OTEL_EXPORTER_OTLP_TIMEOUT" => Some(timeout_ms.to_owned()),
        "OTEL_EXPORTER_OTLP_HEADERS" => Some("X-Scope-OrgID=7".to_owned()),
        _ => None,
    };
    let settings = Settings::of(&args, &variables, ("0.1.0", "i-1")).unwrap().unwrap();
    let client = Client::new(settings.endpoint.clone(), &settings.headers, None);
    OtlpExporter { settings, client }.start(RunMetrics::new("0.1.0", Some(7))).unwrap()
}

/// What became of a run of some intervals with such a collector, and how long its end took.
fn run(
    answer: impl Fn(TcpStream, usize) + Send + 'static,
    timeout_ms: &str,
) -> (Pushed, Vec<String>, Duration) {
    let (address, _requests) = collector(answer);
    let mut observer = start(address, timeout_ms);
    let mut notices = Vec::new();
    for number in 0..5 {
        let begun = Instant::now();
        observer.interval(&interval(number));
        notices.extend(observer.notices());
        assert!(
            begun.elapsed() < Duration::from_millis(100),
            "the run waited: {:?}",
            begun.elapsed()
        );
        thread::sleep(Duration::from_millis(120));
    }
    notices.extend(observer.notices());
    let begun = Instant::now();
    let (pushed, _) = observer.pusher.end();
    (pushed, notices, begun.elapsed())
}

/// The value of frames sent in a request.
fn sent(request: &Value) -> Option<u64> {
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    let metric = metrics.iter().find(|metric| metric["name"] == "wirebeat.frames_sent")?;
    metric["sum"]["dataPoints"][0]["asInt"].as_str()?.parse().ok()
}

#[test]
fn what_a_run_counts_is_pushed_as_it_goes_on_and_at_its_end() {
    let (address, requests) = collector(said(OK));
    let mut observer = start(address, "5000");
    observer.interval(&interval(0));
    let (head, first) = loop {
        let (head, request) = requests.recv_timeout(PATIENCE).unwrap();
        if sent(&request).is_some() {
            break (head, request);
        }
    };
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    for line in ["Content-Type: application/json", "X-Scope-OrgID: 7", "Connection: close"] {
        assert!(head.split("\r\n").any(|found| found == line), "{head}");
    }
    assert!(head.contains(&format!("\r\nHost: {address}\r\n")), "{head}");
    assert_eq!(sent(&first), Some(10));
    observer.interval(&interval(1));
    observer.interval(&interval(2));
    let (pushed, _) = observer.pusher.end();
    let last = requests.try_iter().last().unwrap().1;
    assert_eq!(sent(&last), Some(30));
    assert_eq!(pushed.failed, 0, "{pushed:?}");
    assert_eq!(summary(&pushed), None);
    let point = |request: &Value| {
        let all = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let metric =
            all.as_array().unwrap().iter().find(|metric| metric["name"] == "wirebeat.frames_sent");
        metric.unwrap()["sum"]["dataPoints"][0].clone()
    };
    let time =
        |request: &Value, key: &str| point(request)[key].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(time(&first, "startTimeUnixNano"), time(&last, "startTimeUnixNano"));
    assert!(time(&first, "startTimeUnixNano") < time(&first, "timeUnixNano"));
    assert!(time(&first, "timeUnixNano") < time(&last, "timeUnixNano"));
}

#[test]
fn nothing_new_is_not_pushed_again() {
    let (address, requests) = collector(said(OK));
    let mut observer = start(address, "5000");
    observer.interval(&interval(0));
    thread::sleep(Duration::from_secs(1));
    observer.pusher.end();
    // one before there was anything, perhaps
    assert!(requests.try_iter().count() <= 2);
}

/// Each kind of trouble is told once while the run goes on and once at its end, which it does not hold up.
#[test]
fn a_collector_that_does_not_take_pushes_costs_nothing() {
    let answers: [(&'static str, &str); 9] = [
        ("", "closed the connection without an answer"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP/1.1"),
        (
            "HTTP/1.1 301 Moved\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n",
            "answers 301, a redirect",
        ),
        (
            "HTTP/1.1 307 Moved\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n",
            "answers 307, a redirect",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 31\r\n\r\n{\"code\":3,\"message\":\"no tenant\"}",
            "answers 400",
        ),
        ("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "check the path"),
        ("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", "answers 503"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}", "longer than 64 KiB"),
    ];
    let runs = answers.map(|(answer, says)| {
        thread::spawn(move || {
            let (pushed, notices, took) = run(said(answer), "5000");
            assert!(pushed.why.contains(says), "{answer:?}: {pushed:?}");
            assert!(
                pushed.failed >= 2 && pushed.failed == pushed.begun && pushed.is_behind,
                "{pushed:?}"
            );
            assert_eq!(notices.len(), 1, "{notices:?}");
            assert!(
                notices[0].contains(says) && notices[0].ends_with("; the run goes on"),
                "{notices:?}"
            );
            let said = summary(&pushed).unwrap();
            let counts = format!("OTLP: {0} of {0} pushes failed: ", pushed.failed);
            assert!(
                said.starts_with(&counts) && said.ends_with("does not have the last values"),
                "{said}"
            );
            assert!(took < LAST, "{answer:?}: {took:?}");
        })
    });
    runs.into_iter().for_each(|run| run.join().unwrap());
}

#[test]
fn a_collector_that_is_not_there_is_told() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut observer = start(address, "5000");
    observer.interval(&interval(0));
    let begun = Instant::now();
    let (pushed, _) = observer.pusher.end();
    assert!(begun.elapsed() < LAST, "{:?}", begun.elapsed());
    let said = summary(&pushed).unwrap();
    assert!(said.contains("cannot connect: Connection refused"), "{said}");
}

#[test]
fn a_collector_that_never_answers_is_waited_for_a_moment_alone() {
    let (pushed, notices, took) = run(|stream, _| std::mem::forget(stream), "60000");
    assert!(took >= LAST - Duration::from_secs(1) && took < 2 * LAST, "{took:?}");
    assert!(notices.is_empty(), "{notices:?}");
    let said = summary(&pushed).unwrap();
    assert!(
        said.contains("1 of 1 pushes failed: the collector did not answer within 3 s of the end"),
        "{said}"
    );
    // with a shorter time for each push
    let (pushed, notices, took) = run(|stream, _| std::mem::forget(stream), "50");
    assert!(pushed.why.contains("did not answer in time"), "{pushed:?}");
    assert!(notices.len() == 1 && took < LAST, "{took:?}: {notices:?}");
}

/// One that answers without end, at once or a byte at a time.
#[test]
fn an_answer_without_end_has_one() {
    let endless = |mut stream: TcpStream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    };
    let (pushed, _, took) = run(endless, "5000");
    assert!(pushed.why.contains("longer than 64 KiB") && took < LAST, "{took:?}: {pushed:?}");
    let dripping = |mut stream: TcpStream, _| {
        stream.set_nodelay(true).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let (pushed, _, took) = run(dripping, "200");
    assert!(pushed.why.contains("did not answer in time") && took < LAST, "{took:?}: {pushed:?}");
}

#[test]
fn a_collector_that_asks_for_a_pause_gets_it() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 100\r\nContent-Length: 0\r\n\r\n";
    let (pushed, notices, took) = run(said(busy), "5000");
    assert_eq!((pushed.begun, pushed.failed, pushed.is_behind), (1, 1, true));
    assert!(took < LAST, "{took:?}");
    assert!(notices.len() == 1 && notices[0].contains("answers 429"), "{notices:?}");
    let said = summary(&pushed).unwrap();
    assert!(said.contains("1 of 1 pushes failed") && said.contains("last values"), "{said}");
    // a short one is over before the end gives up
    let busy_once = |mut stream: TcpStream, number| {
        let busy = "HTTP/1.1 503 Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(if number == 0 { busy } else { OK }.as_bytes());
    };
    let (pushed, _, _) = run(busy_once, "5000");
    assert_eq!((pushed.failed, pushed.is_behind), (1, false), "{pushed:?}");
    assert_eq!(
        summary(&pushed).unwrap(),
        format!("OTLP: 1 of {} pushes failed: the collector answers 503", pushed.begun)
    );
}

#[test]
fn values_that_were_not_taken_are_told_once() {
    let partial = "HTTP/1.1 200 OK\r\nContent-Length: 66\r\n\r\n{\"partialSuccess\":{\"rejectedDataPoints\":\"3\",\"errorMessage\":\"old\"}}";
    assert_eq!(partial.split("\r\n\r\n").nth(1).unwrap().len(), 66);
    let (pushed, notices, _) = run(said(partial), "5000");
    assert_eq!(notices, ["OTLP: the collector rejected 3 values: old"]);
    assert_eq!((pushed.failed, summary(&pushed)), (0, None));
}

#[test]
fn an_instance_is_a_uuid_that_no_other_run_has() {
    let (first, second) = (instance(), instance());
    assert_ne!(first, second);
    let parts: Vec<&str> = first.split('-').collect();
    assert_eq!(
        parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
        [8, 4, 4, 4, 12],
        "{first}"
    );
    assert!(parts[2].starts_with('4') && ["8", "9", "a", "b"].contains(&&parts[3][..1]), "{first}");
}
