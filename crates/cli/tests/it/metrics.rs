//! `--metrics`: what a Prometheus server on this host reads while a run goes on, and those who ask badly. Traffic stays inside
//! namespaces that the test made, or on loopback.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirebeat_testbed::{Capability, End, Process, Program, require};

use crate::whole::{PATIENCE, cable, wirebeat};
use crate::{Scratch, line};

const AT: &str = "127.0.0.1:9469";
const OPEN: &str = "application/openmetrics-text";

/// What is answered there, without its header.
fn get(accept: &str) -> Result<String, String> {
    let address: SocketAddr = AT.parse().unwrap();
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {AT}\r\nAccept: {accept}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let answer = ask().map_err(|error: std::io::Error| error.to_string())?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 OK") => Ok(body.to_owned()),
        _ => Err(answer),
    }
}

/// The same at an end.
fn scrape(end: &End, accept: &str) -> Result<String, String> {
    end.namespace.run(|| get(accept)).unwrap()
}

/// Values by name and labels; each of them once.
fn values(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let before = values.insert(name.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "{name} is there twice");
    }
    values
}

/// Asks until it is as it should be.
fn scraped(end: &End, fits: impl Fn(&BTreeMap<String, f64>) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let last = scrape(end, "*/*");
        match last {
            Ok(text) if fits(&values(&text)) => return text,
            last => assert!(begun.elapsed() < PATIENCE, "{last:?}"),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A listener at `b`, and a sender at `a` whose flow `x` is done long before its flow `y`; both show metrics.
fn two_hosts(bed: &wirebeat_testbed::Testbed, report: &str) -> (Process, Process) {
    let address = format!("{}:5960", bed.b.ipv4);
    let key = "a-key-for-two-metrics-9469";
    let receiver = wirebeat(
        &bed.b,
        &format!(
            "receive --interface wb1 --engine packet --listen {address} --key {key} --once --metrics {AT}"
        ),
    );
    receiver.wait_for("listening on", PATIENCE).unwrap();
    let sender = wirebeat(
        &bed.a,
        &format!(
            "send --to {} --interface wb0 --engine packet --flow name=x,rate=1kpps,count=1000 --flow \
             name=y\"\\,rate=100pps --time 6s --seed 7 --interval 200ms --peer {address} --key {key} --json {report} \
             --metrics {AT}",
            bed.b.ipv4
        ),
    );
    (receiver, sender)
}

#[test]
fn both_ends_are_scraped_while_they_run_and_end_as_the_report() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), Scratch::new("metrics"));
    let report = scratch.path("report.json");
    let (receiver, sender) = two_hosts(&bed, &report);
    let x = |name: &str| format!("wirebeat_{name}{{flow=\"x\"}}");
    let arrived = x("frames_received_total");
    let text = scraped(&bed.a, |all| all.get(&arrived) == Some(&1000.0));
    let found = values(&text);
    assert_eq!(found[r#"wirebeat_run_info{version="0.1.0",seed="7"}"#], 1.0);
    // the name that a scenario may have is only a label
    assert!(found.contains_key(r#"wirebeat_frames_sent_total{flow="y\"\\"}"#), "{text}");
    let there = scraped(&bed.b, |all| {
        all.get("wirebeat_frames_received_total{flow=\"flow 0\"}") == Some(&1000.0)
    });
    assert!(there.contains("wirebeat_run_elapsed_seconds"), "{there}");
    assert!(!there.contains("seed="), "{there}");
    let open = scrape(&bed.a, OPEN).unwrap();
    assert!(open.ends_with("# EOF\n"), "{open}");
    let ended = sender.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains(&format!("metrics: http://{AT}/metrics")), "{ended:?}");
    receiver.wait(PATIENCE).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let flow = &report["flows"][0];
    assert_eq!(flow["name"], "x");
    for (name, counted) in [
        ("frames_sent_total", &flow["sent"]["sent"]["frames"]),
        ("frame_bytes_sent_total", &flow["sent"]["sent"]["frame_bytes"]),
        ("frames_received_total", &flow["received"]["unique"]),
        ("frames_lost", &flow["loss"]["frames"]),
    ] {
        assert_eq!(Some(found[&x(name)]), counted.as_f64(), "{name}: {flow}");
    }
    assert!(scrape(&bed.a, "*/*").is_err(), "it is answered after the run");
}

#[test]
fn a_prometheus_server_takes_all_of_it() {
    require!(Capability::NetworkNamespaces, Capability::Program("promtool"));
    let (bed, scratch) = (cable(), Scratch::new("promtool"));
    let (receiver, sender) = two_hosts(&bed, &scratch.path("report.json"));
    let delays = "wirebeat_one_way_delay_seconds_count{flow=\"x\"}";
    let flows = scraped(&bed.a, |all| {
        ["wirebeat_process_cpus", delays].iter().all(|name| all.contains_key(*name))
    });
    drop((receiver, sender));
    let (server, client) = sessions(&bed);
    let sessions = scraped(&bed.a, |all| {
        all.iter().any(|(name, value)| {
            name.starts_with("wirebeat_session_responses_total") && *value > 0.0
        })
    });
    drop((server, client));
    for text in [flows, sessions] {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let said = promtool.wait_with_output().unwrap();
        assert!(said.status.success() && said.stderr.is_empty(), "{said:?}\n{text}");
    }
}

/// A server of HTTP at `b`, and a client at `a` that shows metrics.
fn sessions(bed: &wirebeat_testbed::Testbed) -> (Process, Process) {
    let server = wirebeat(&bed.b, &format!("serve http --listen {}:8080 --size 1kB", bed.b.ipv4));
    let line = format!(
        "load http://{}:8080/ --rate 50/s --time 60s --interval 200ms --metrics {AT}",
        bed.b.ipv4
    );
    // until the server listens, sessions are refused
    (server, wirebeat(&bed.a, &line))
}

#[test]
fn sessions_are_scraped_while_they_run() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let (_server, client) = sessions(&bed);
    let of = |name: &str| format!("wirebeat_{name}{{group=\"http\",end=\"client\"}}");
    let answered = of("session_responses_total");
    let text = scraped(&bed.a, |all| all.get(&answered).is_some_and(|count| *count >= 20.0));
    let found = values(&text);
    let value = |name: &str| found[&of(name)];
    assert!(value("sessions_opened_total") <= value("sessions_due_total"), "{text}");
    assert!(
        value("sessions_ended_total") + value("sessions_open") <= value("sessions_opened_total"),
        "{text}"
    );
    assert!(value("session_bytes_delivered_total") >= 20_000.0, "{text}");
    assert!(!text.contains("wirebeat_frames"), "{text}");
    drop(client);
}

/// Slow clients, clients without end and hundreds of connections: the run is as without them, and who asks well is answered.
#[test]
fn those_who_ask_badly_do_not_disturb_the_run() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), Scratch::new("attack"));
    let report = scratch.path("report.json");
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 2kpps --time 4s --interval 100ms --json {report} --metrics {AT}",
        bed.b.ipv4
    );
    let begun = Instant::now();
    let sender = wirebeat(&bed.a, &line);
    scraped(&bed.a, |all| all.contains_key("wirebeat_run_elapsed_seconds"));
    let over = AtomicBool::new(false);
    let (ended, answers) = thread::scope(|scope| {
        let attack = |what: fn(TcpStream) -> Option<TcpStream>| {
            let (over, namespace) = (&over, &bed.a.namespace);
            scope.spawn(move || {
                let work = || {
                    let mut kept = Vec::new();
                    while !over.load(Ordering::Acquire) {
                        let stream = TcpStream::connect(AT);
                        kept.extend(stream.ok().and_then(what));
                        kept.truncate(200);
                        thread::sleep(Duration::from_millis(2));
                    }
                };
                namespace.run(work).unwrap();
            });
        };
        // one that says nothing, one that never ends, one that does not read, and one that hangs up
        attack(Some);
        attack(|mut stream| {
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
            None
        });
        attack(|mut stream| {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {AT}\r\n\r\n");
            stream.write_all(request.as_bytes()).is_ok().then_some(stream)
        });
        attack(|_| None);
        let mut answers = 0;
        while begun.elapsed() < Duration::from_secs(4) {
            answers += usize::from(scrape(&bed.a, "*/*").is_ok());
            thread::sleep(Duration::from_millis(50));
        }
        let ended = sender.wait(PATIENCE).unwrap();
        over.store(true, Ordering::Release);
        (ended, answers)
    });
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(answers >= 5, "{answers} were answered");
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["total"]["sent"]["sent"]["frames"], 8000);
    assert_eq!(report["end"]["reason"], "completed");
    let lasted = report["duration_ns"].as_u64().unwrap();
    assert!(lasted < 5_000_000_000, "it lasted {lasted} ns");
}

#[test]
fn a_port_in_use_is_told_before_anything_is_sent() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = line(&format!("send --to 127.0.0.1:9 --count 1 --metrics {address}"));
    assert_eq!((ended.code, ended.out.as_str()), (3, ""), "{ended:?}");
    assert!(ended.err.contains(&format!("cannot listen at {address}")), "{}", ended.err);
    assert!(ended.err.contains("hint: give another port"), "{}", ended.err);
}

#[test]
fn what_other_hosts_reach_is_refused_without_token_and_certificate() {
    let scratch = Scratch::new("refused");
    let token = scratch.file("token", b"a-token-of-26-characters-x\n");
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let with_token = format!("run x.yaml --metrics-token-file {token}");
    for command in [
        "send --to 127.0.0.1:9",
        "run x.yaml",
        "receive",
        "replay x.wbar --to 127.0.0.1:9",
        "serve echo --listen 7",
        "load 127.0.0.1:7 --program echo",
        &with_token,
    ] {
        let ended = line(&format!("{command} --metrics 0.0.0.0:9469"));
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{command}: {ended:?}");
        assert!(ended.err.contains("with a token and over TLS alone"), "{}", ended.err);
        assert!(ended.err.contains("ssh -L 9469:127.0.0.1:9469"), "{}", ended.err);
    }
    for (flags, says) in [
        (format!("--metrics-cert {token} --metrics-cert-key {token}"), "it holds no certificate"),
        ("--metrics-token-file /nowhere".to_owned(), "cannot read the key file"),
        ("--metrics-cert /dev/zero --metrics-cert-key x".to_owned(), "not a regular file"),
        ("--metrics-cert x".to_owned(), "--metrics-cert-key"),
    ] {
        let ended = line(&format!("send --to 127.0.0.1:9 --metrics 127.0.0.1:0 {flags}"));
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{flags}: {ended:?}");
        assert!(ended.err.contains(says), "{flags}: {}", ended.err);
    }
}

/// curl is an independent client, and openssl makes the certificate.
#[test]
fn other_hosts_get_them_with_the_token_over_tls() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("curl"),
        Capability::Program("openssl")
    );
    let (bed, scratch) = (cable(), Scratch::new("tls"));
    let (cert, key) = (scratch.path("cert.pem"), scratch.path("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=lab", "-addext", "subjectAltName=DNS:lab.example"])
        .args(["-keyout", &key, "-out", &cert])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let token = scratch.file("token", b"a-token-of-26-characters-x\n");
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let line = format!(
        "send --to {} --interface wb0 --engine packet --flow name=x,rate=100pps --time 60s --interval 100ms --metrics \
         {}:9469 --metrics-token-file {token} --metrics-cert {cert} --metrics-cert-key {key}",
        bed.b.ipv4, bed.a.ipv4
    );
    let sender = wirebeat(&bed.a, &line);
    sender.wait_for(&format!("metrics: https://{}:9469/metrics", bed.a.ipv4), PATIENCE).unwrap();
    let curl = |arguments: &[&str]| {
        let resolved = format!("lab.example:9469:{}", bed.a.ipv4);
        let usual = ["-sS", "--max-time", "5", "--cacert", &cert, "--resolve", &resolved];
        let program = Program::new(&bed.b.namespace, "curl").args(usual).args(arguments);
        program.output(PATIENCE).unwrap()
    };
    let url = "https://lab.example:9469/metrics";
    let right = "Authorization: Bearer a-token-of-26-characters-x";
    let begun = Instant::now();
    loop {
        let got = curl(&["-H", right, url]);
        if got.stdout.contains("wirebeat_frames_sent_total{flow=\"x\"}") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{got:?}");
    }
    for header in ["X: y", "Authorization: Bearer a-token-of-26-characters-y"] {
        let got = curl(&["-i", "-H", header, url]);
        assert!(got.stdout.starts_with("HTTP/1.1 401 "), "{got:?}");
    }
    // without TLS there is no answer
    let got = curl(&["-H", right, "http://lab.example:9469/metrics"]);
    assert!(!got.status.success() && !got.stdout.contains("wirebeat"), "{got:?}");
    // those who never end their handshake keep nobody out
    let silent = bed.b.namespace.run(|| {
        let address = format!("{}:9469", bed.a.ipv4);
        (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect::<Vec<_>>()
    });
    let got = curl(&["-H", right, url]);
    assert!(got.stdout.contains("wirebeat_frames_sent_total"), "{got:?}");
    drop((silent, sender));
}
