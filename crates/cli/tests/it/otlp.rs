//! `--otlp`: what a collector of OpenTelemetry gets of a run, and collectors that do not behave. Traffic stays inside namespaces that
//! the test made, or on loopback.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use wirebeat_testbed::{Capability, End, Process, Program, require};

use crate::whole::{PATIENCE, cable, wirebeat};
use crate::{Scratch, line};

const AT: &str = "127.0.0.1:4318";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

/// The head of a request and its body.
fn request(stream: &mut impl Read) -> Option<(String, Value)> {
    let mut came = Vec::new();
    let mut piece = [0; 65536];
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

/// Listens at an end, and does so with every connection.
fn listen(end: &End, address: &str, serve: impl Fn(TcpStream) + Send + 'static) {
    let listener = end.namespace.run(|| TcpListener::bind(address)).unwrap().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            serve(stream);
        }
    });
}

/// A collector at an end, and what it got.
fn collector(end: &End) -> Receiver<(String, Value)> {
    let (tells, told) = channel();
    listen(end, AT, move |mut stream| {
        if let Some(request) = request(&mut stream) {
            let _ = tells.send(request);
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    told
}

/// Digits alone: how the JSON mapping writes integers of 64 bits.
fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no text"));
    assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "{text}");
    text.parse().unwrap()
}

/// The keys of an object; each has to be one of `known`.
fn keys(value: &Value, known: &[&str]) {
    for key in value.as_object().unwrap_or_else(|| panic!("{value} is no object")).keys() {
        assert!(known.contains(&key.as_str()), "{key} is not of the specification: {value}");
    }
}

fn attributes(value: &Value) -> Vec<(String, String)> {
    let pair = |pair: &Value| {
        keys(pair, &["key", "value"]);
        keys(&pair["value"], &["stringValue"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&pair["key"]), text(&pair["value"]["stringValue"]))
    };
    let pairs: Vec<_> = value.as_array().unwrap().iter().map(pair).collect();
    let mut names: Vec<_> = pairs.iter().map(|(key, _)| key).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), pairs.len(), "keys are unique: {value}");
    pairs
}

/// Holds a request against the specification, field by field.
fn check(request: &Value) {
    keys(request, &["resourceMetrics"]);
    let [of] = request["resourceMetrics"].as_array().unwrap().as_slice() else {
        panic!("{request}")
    };
    keys(of, &["resource", "scopeMetrics"]);
    keys(&of["resource"], &["attributes"]);
    attributes(&of["resource"]["attributes"]);
    let [scope] = of["scopeMetrics"].as_array().unwrap().as_slice() else { panic!("{of}") };
    keys(scope, &["scope", "metrics"]);
    assert_eq!(scope["scope"]["name"], "wirebeat");
    for metric in scope["metrics"].as_array().unwrap() {
        keys(metric, &["name", "description", "unit", "sum", "gauge", "histogram"]);
        assert!(metric["name"].as_str().unwrap().starts_with("wirebeat."), "{metric}");
        let kinds: Vec<_> = ["sum", "gauge", "histogram"]
            .into_iter()
            .filter(|kind| !metric[kind].is_null())
            .collect();
        let [kind] = kinds.as_slice() else { panic!("{metric}") };
        let data = &metric[kind];
        match *kind {
            "sum" => {
                keys(data, &["dataPoints", "aggregationTemporality", "isMonotonic"]);
                assert_eq!(
                    (&data["aggregationTemporality"], &data["isMonotonic"]),
                    (&2.into(), &true.into())
                );
            }
            "gauge" => keys(data, &["dataPoints"]),
            _ => {
                keys(data, &["dataPoints", "aggregationTemporality"]);
                assert_eq!(data["aggregationTemporality"], 2);
            }
        }
        let points = data["dataPoints"].as_array().unwrap();
        assert!(!points.is_empty(), "{metric}");
        for point in points {
            attributes(&point["attributes"]);
            let (start, at) = (number(&point["startTimeUnixNano"]), number(&point["timeUnixNano"]));
            // of this century, and in order
            assert!(1_000_000_000_000_000_000 < start && start <= at, "{point}");
            if *kind == "histogram" {
                check_histogram(point);
                continue;
            }
            keys(point, &["attributes", "startTimeUnixNano", "timeUnixNano", "asInt", "asDouble"]);
            match point["asDouble"].as_f64() {
                Some(_) => assert!(*kind == "gauge" && point["asInt"].is_null(), "{point}"),
                None => assert!(number(&point["asInt"]) <= i64::MAX as u64),
            }
        }
    }
}

fn check_histogram(point: &Value) {
    keys(
        point,
        &[
            "attributes",
            "startTimeUnixNano",
            "timeUnixNano",
            "count",
            "sum",
            "bucketCounts",
            "explicitBounds",
        ],
    );
    let counts: Vec<u64> = point["bucketCounts"].as_array().unwrap().iter().map(number).collect();
    let bounds: Vec<f64> = point["explicitBounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bound| bound.as_f64().unwrap())
        .collect();
    assert_eq!(counts.len(), bounds.len() + 1);
    assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
    assert_eq!(counts.iter().sum::<u64>(), number(&point["count"]));
    assert!(point["sum"].as_f64().is_some(), "{point}");
}

/// The value of a metric of a flow: that of a point, or the count of a histogram.
fn value(request: &Value, name: &str, flow: &str) -> Option<f64> {
    let metrics = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let metric =
        metrics.as_array()?.iter().find(|metric| metric["name"] == format!("wirebeat.{name}"))?;
    let points = ["sum", "gauge", "histogram"]
        .iter()
        .find_map(|kind| metric[kind]["dataPoints"].as_array())?;
    let own = [("flow".to_owned(), flow.to_owned())];
    let point = points.iter().find(|point| attributes(&point["attributes"]) == own)?;
    let integer = || number(point.get("asInt").or(point.get("count")).unwrap()) as f64;
    Some(point["asDouble"].as_f64().unwrap_or_else(integer))
}

#[test]
fn a_collector_ends_with_the_numbers_of_the_report() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), Scratch::new("otlp"));
    let report = scratch.path("report.json");
    let requests = collector(&bed.a);
    let address = format!("{}:5961", bed.b.ipv4);
    let key = "a-key-for-a-collector-4318";
    let receiver = wirebeat(
        &bed.b,
        &format!("receive --interface wb1 --engine packet --listen {address} --key {key} --once"),
    );
    receiver.wait_for("listening on", PATIENCE).unwrap();
    let send = format!(
        "OTEL_METRIC_EXPORT_INTERVAL=300 OTEL_SERVICE_NAME=lab OTEL_RESOURCE_ATTRIBUTES=site=north%2C3 \
         OTEL_EXPORTER_OTLP_HEADERS=X-Scope-OrgID=7 {} send --to {} --interface wb0 --engine packet --flow \
         name=x,rate=1kpps,count=1500 --flow name=y\"\\,rate=100pps --time 2s --seed 7 --interval 200ms --peer {address} \
         --key {key} --json {report} --otlp http://{AT}",
        env!("CARGO_BIN_EXE_wirebeat"),
        bed.b.ipv4
    );
    let sender = Program::new(&bed.a.namespace, "env").args(send.split_whitespace());
    let ended = sender.output(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains(&format!("otlp: http://{AT}/v1/metrics every 300ms")),
        "{ended:?}"
    );
    assert!(!ended.stderr.contains("OTLP:"), "{ended:?}");
    receiver.wait(PATIENCE).unwrap();
    let all: Vec<(String, Value)> = requests.try_iter().collect();
    assert!((3..=12).contains(&all.len()), "{} pushes", all.len());
    for (head, request) in &all {
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        for line in [&format!("Host: {AT}"), "Content-Type: application/json", "X-Scope-OrgID: 7"] {
            assert!(head.split("\r\n").any(|found| found == line), "{line}: {head}");
        }
        check(request);
    }
    let resource = attributes(&all[0].1["resourceMetrics"][0]["resource"]["attributes"]);
    let named = |key: &str| {
        let found = resource.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("no {key}: {resource:?}"))
    };
    assert_eq!((named("service.name"), named("site")), ("lab", "north,3"));
    assert_eq!(named("service.version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(named("service.instance.id").len(), 36);
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let last = &all.last().unwrap().1;
    for (place, name) in ["x", "y\"\\"].iter().enumerate() {
        let flow = &report["flows"][place];
        assert_eq!(flow["name"], *name);
        for (metric, counted) in [
            ("frames_sent", &flow["sent"]["sent"]["frames"]),
            ("frame_bytes_sent", &flow["sent"]["sent"]["frame_bytes"]),
            ("frames_received", &flow["received"]["unique"]),
            ("frames_lost", &flow["loss"]["frames"]),
            ("one_way_delay", &flow["received"]["one_way_delay_ns"]["count"]),
        ] {
            assert!(counted.is_number(), "{metric}: {flow}");
            assert_eq!(value(last, metric, name), counted.as_f64(), "{metric}: {flow}");
        }
    }
    // from push to push a counter does not fall
    let sent: Vec<f64> =
        all.iter().filter_map(|(_, request)| value(request, "frames_sent", "x")).collect();
    assert!(sent.is_sorted() && sent.len() >= 3 && sent.last() == Some(&1500.0), "{sent:?}");
}

/// A run of two seconds with such a collector: what was said, and how long it took.
fn sent_beside(serve: impl Fn(TcpStream) + Send + 'static) -> (String, Duration) {
    let (bed, scratch) = (cable(), Scratch::new("otlp-bad"));
    let report = scratch.path("report.json");
    listen(&bed.a, AT, serve);
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 2kpps --time 2s --interval 100ms --json {report} --otlp http://{AT}",
        bed.b.ipv4
    );
    let begun = Instant::now();
    let ended = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    let took = begun.elapsed();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["total"]["sent"]["sent"]["frames"], 4000);
    assert_eq!(report["end"]["reason"], "completed");
    let lasted = report["duration_ns"].as_u64().unwrap();
    assert!(lasted < 3_000_000_000, "it lasted {lasted} ns");
    (ended.stderr, took)
}

#[test]
fn a_run_is_the_same_beside_a_collector_that_is_gone_silent_endless_or_hostile() {
    require!(Capability::NetworkNamespaces);
    let (said, _) = sent_beside(drop);
    assert!(said.contains("OTLP: a push failed: "), "{said}");
    assert_eq!(said.matches("OTLP: ").count(), 2, "{said}");
    assert!(said.contains("pushes failed: "), "{said}");
    let (said, took) = sent_beside(std::mem::forget);
    assert!(said.contains("the collector did not answer within 3 s of the end"), "{said}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    let (said, _) = sent_beside(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        // until the other side has enough
        let _ = io::copy(&mut io::repeat(b'x'), &mut stream);
    });
    assert!(said.contains("pushes failed: "), "{said}");
    // what it says is not for the terminal
    let hostile = "HTTP/1.1 400 Bad Request\r\nContent-Length: 26\r\n\r\n\x1b[2J\x1b]0;pwned\x07no\x1b[31m way!\n";
    let (said, _) = sent_beside(move |mut stream| {
        let _ = request(&mut stream);
        let _ = stream.write_all(hostile.as_bytes());
    });
    assert!(
        said.contains("answers 400: ") && !said.contains('\x1b') && !said.contains('\x07'),
        "{said:?}"
    );
}

/// Nobody listens, nobody reads beside the JSON: it is told all the same, once.
#[test]
fn a_failure_is_told_where_a_program_reads_the_result() {
    let ended = line(
        "send --to 127.0.0.1:9 --interface lo --engine socket --rate 100pps --count 10 --json - --otlp http://127.0.0.1:1",
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["total"]["sent"]["sent"]["frames"], 10);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    assert!(
        ended.err.starts_with("OTLP: ") && ended.err.contains("cannot connect: Connection refused"),
        "{}",
        ended.err
    );
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_sent() {
    let scratch = Scratch::new("otlp-refused");
    let file = scratch.file("file", b"no certificate\n");
    for (flags, says) in [
        ("--otlp lab.yaml", "is not a URL for OTLP"),
        ("--otlp grpc://lab:4317", "only http:// and https:// are spoken"),
        ("--otlp http://user:s3cret@lab:4318", "has a user or a password in it"),
        ("--otlp http://lab:4318/?key=x", "more than a host, a port and a path"),
        ("--otlp https://lab.example", "give them in PEM by --otlp-ca"),
        (&format!("--otlp https://lab.example --otlp-ca {file}"), "it holds no certificate in PEM"),
        ("--otlp https://lab.example --otlp-ca /dev/zero", "not a regular file"),
        ("--otlp https://lab.example --otlp-ca /nowhere", "cannot read it"),
        ("--otlp-ca x", "--otlp"),
    ] {
        for command in ["send --to 127.0.0.1:9", "receive", "serve echo --listen 7", "run x.yaml"] {
            let ended = line(&format!("{command} {flags}"));
            assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{command} {flags}: {ended:?}");
            assert!(ended.err.contains(says), "{command} {flags}: {}", ended.err);
            assert!(!ended.err.contains("s3cret"), "{}", ended.err);
        }
    }
    for (variable, value, says) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "X=a%0d%0aHost: evil", "line ends, control characters"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "X=a%1b[2J", "line ends, control characters"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1s", "not a time in milliseconds"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "lab:4318", "is not a URL for OTLP"),
    ] {
        let arguments = ["send", "--to", "127.0.0.1:9", "--count", "1", "--otlp"];
        let ended = crate::command(&arguments).env(variable, value).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{variable}={value}: {said}");
        assert!(said.contains(says) && said.contains(variable), "{said}");
        // without the flag, the environment is not looked at
        let ended = crate::command(&["check", "--help"]).env(variable, value).output().unwrap();
        assert_eq!(ended.status.code(), Some(0));
    }
}

/// openssl makes the certificates.
#[test]
fn a_collector_over_tls_has_to_be_trusted() {
    require!(Capability::NetworkNamespaces, Capability::Program("openssl"));
    let (bed, scratch) = (cable(), Scratch::new("otlp-tls"));
    let certificate = |name: &str| {
        let (cert, key) =
            (scratch.path(&format!("{name}.pem")), scratch.path(&format!("{name}.key")));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ])
            .args(["-days", "2", "-subj", "/CN=lab", "-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-keyout", &key, "-out", &cert])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        (cert, key)
    };
    let ((cert, key), (other, _)) = (certificate("own"), certificate("other"));
    let config = {
        let chain = CertificateDer::pem_reader_iter(BufReader::new(File::open(&cert).unwrap()));
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(&key).unwrap();
        let with = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let with = with.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(with.with_single_cert(chain, key).unwrap())
    };
    let (tells, told) = channel();
    listen(&bed.a, AT, move |stream| {
        let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        if let Some(request) = request(&mut tls) {
            let _ = tells.send(request);
            let _ = tls.write_all(OK.as_bytes());
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
    });
    let send = |ca: &str| -> Process {
        let line = format!(
            "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20s3cret {} send --to {} --interface wb0 --engine packet \
             --rate 100pps --count 50 --otlp https://{AT} --otlp-ca {ca}",
            env!("CARGO_BIN_EXE_wirebeat"),
            bed.b.ipv4
        );
        Program::new(&bed.a.namespace, "env").args(line.split_whitespace()).spawn().unwrap()
    };
    let ended = send(&cert).wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("OTLP:") && !ended.stderr.contains("s3cret"), "{ended:?}");
    let (head, last) = told.try_iter().last().unwrap();
    assert!(head.contains("\r\nAuthorization: Bearer s3cret\r\n"), "{head}");
    check(&last);
    // one that shows the certificate of somebody else gets nothing
    let ended = send(&other).wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("invalid peer certificate"), "{ended:?}");
    assert_eq!(told.try_iter().count(), 0);
}
