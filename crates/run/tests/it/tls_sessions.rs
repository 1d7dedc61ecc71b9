//! Sessions with TLS, over the system's TCP and over our own: both ends ours, against nginx, as a server for curl, and with peers that
//! do not speak TLS, or not to the end.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wirebeat_report::model::{Report, SessionEnd, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};
use wirebeat_traffic::scenario::Scenario;

use crate::interop::until;
use crate::own_sessions::{free, own_port};
use crate::servers::{Folder, listens};
use crate::sessions::{StopAfter, balances, run, run_observed, side};
use crate::world::cable;

const PATIENCE: Duration = Duration::from_secs(60);
/// The name of the server in its certificate.
const NAME: &str = "www.example.com";
/// Bytes of `/page`.
const PAGE: u64 = 100_000;

/// A certificate that signs itself, for [`NAME`] and an address, and its key: the names of their files.
fn certificate(folder: &Folder, address: Ipv4Addr) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=test", "-addext"]);
    openssl.arg(format!("subjectAltName=DNS:{NAME},IP:{address}"));
    let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

/// nginx with TLS at the end `b` of a cable.
struct Nginx {
    _process: Process,
    log: PathBuf,
    certificate: PathBuf,
    _folder: Folder,
}

/// A response in its log.
#[derive(Debug)]
struct Logged {
    name: String,
    reused: bool,
    version: String,
    /// Bytes of the response, without TLS.
    bytes: u64,
}

impl Nginx {
    fn start(bed: &Testbed) -> Nginx {
        let folder = Folder::new();
        let (certificate, key) = certificate(&folder, bed.b.ipv4);
        let at = folder.path().display();
        fs::create_dir_all(folder.path().join("www")).unwrap();
        fs::write(folder.path().join("www/page"), vec![b'x'; PAGE as usize]).unwrap();
        let config = format!(
            "worker_processes 1; daemon off; error_log {at}/error.log; pid {at}/pid;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ log_format lines '$ssl_server_name $ssl_session_reused $ssl_protocol $bytes_sent .';\n\
             client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
             fastcgi_temp_path {at}/fastcgi; scgi_temp_path {at}/scgi; uwsgi_temp_path {at}/uwsgi;\n\
             server {{ listen 443 ssl; root {at}/www; access_log {at}/access.log lines;\n\
             ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {}; ssl_certificate_key {}; }} }}\n",
            certificate.display(),
            key.display()
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, config).unwrap();
        let arguments = ["-c".into(), file.display().to_string(), "-p".into(), at.to_string()];
        let process = Program::new(&bed.b.namespace, "nginx").args(arguments).spawn().unwrap();
        until("nginx listens", || bed.b.namespace.run(|| listens(443)).unwrap());
        let log = folder.path().join("access.log");
        Nginx { _process: process, log, certificate, _folder: folder }
    }

    /// Its log when that has `count` lines.
    fn logged(&self, count: usize) -> Vec<Logged> {
        let read = || -> Vec<Logged> {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let line = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [name, reused, version, bytes, "."] = words[..] else { return None };
                Some(Logged {
                    name: name.to_owned(),
                    reused: reused == "r",
                    version: version.to_owned(),
                    bytes: bytes.parse().ok()?,
                })
            };
            text.lines().filter_map(line).collect()
        };
        until(&format!("{count} lines of log"), || read().len() >= count);
        read()
    }
}

/// Whose TCP our end has, and where it is: the port `a`, and the keys of groups there.
fn ours(bed: &Testbed, own: bool, end: &str) -> (String, String) {
    match own {
        false => ("a: { namespace: a, addresses: [\"{A}\"] }".to_owned(), String::new()),
        true => {
            let addresses = free(bed, 100, 1);
            let address = addresses.split('-').next().unwrap();
            (own_port(bed, "packet"), format!("stack: own, {end}: {{ addresses: {address} }}, "))
        }
    }
}

fn asks_nginx(own: bool) {
    let bed = cable();
    let nginx = Nginx::start(&bed);
    let (port, keys) = ours(&bed, own, "clients");
    let authority = nginx.certificate.display();
    let group = |name: &str, tls: &str| {
        format!(
            "  {name}: {{ from: a, {keys}servers: {{ addresses: \"{{B}}\", ports: 443 }}, \
             program: {{ http: {{ target: /page, requests: 2, expect-size: {PAGE}B }} }}, users: 2, count: 20, \
             tls: {{ server-name: {NAME}, authority: {authority}, {tls} }} }}\n"
        )
    };
    for (version, logged) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let before = nginx.logged(0).len();
        let text = format!(
            "ports: {{ {port} }}\nsessions:\n{}{}",
            group("resumed", &format!("versions: [{version}]")),
            group("full", &format!("versions: [{version}], resume: false")),
        );
        let report = run(&bed, &text, &Stop::new());
        balances(&report);
        assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
        let log = nginx.logged(before + 80);
        let log = &log[before..];
        assert!(log.iter().all(|one| one.name == NAME && one.version == logged), "{log:?}");
        let mut resumed = 0;
        let mut delivered = 0;
        for name in ["resumed", "full"] {
            let client = side(&report, name, SessionEnd::Client);
            let tls = client.tls.as_ref().unwrap();
            assert_eq!((client.ends.in_order, client.messages.responses), (20, 40), "{report:#?}");
            assert_eq!((tls.handshakes, tls.truncated), (20, 0), "{tls:?}");
            assert_eq!(tls.failed, Default::default());
            assert!(
                tls.suites.keys().all(|suite| suite.starts_with("TLS13") == (version == "1.3"))
            );
            let handshake = client.times.handshake.as_ref().unwrap();
            assert_eq!(handshake.planned_ns.count, 20);
            assert!(client.rates.unwrap().handshakes_per_second.unwrap() > 0.0);
            assert_eq!(client.bytes.acked, client.bytes.sent, "{name}");
            resumed += tls.resumed;
            delivered += client.bytes.delivered;
        }
        assert_eq!(side(&report, "full", SessionEnd::Client).tls.as_ref().unwrap().resumed, 0);
        assert!(resumed >= 10, "{resumed} of 20");
        // of both requests of a session
        let reused = log.iter().filter(|one| one.reused).count() as u64;
        assert_eq!(reused, 2 * resumed, "{log:?}");
        assert_eq!(log.iter().map(|one| one.bytes).sum::<u64>(), delivered);
    }
}

#[test]
fn nginx_sees_the_name_and_the_resumption_and_sends_what_arrives() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("nginx"),
        Capability::Program("openssl")
    );
    asks_nginx(false);
}

#[test]
fn nginx_sees_the_same_over_our_own_tcp() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("nginx"),
        Capability::Program("openssl")
    );
    asks_nginx(true);
}

#[test]
fn a_certificate_of_an_unknown_issuer_is_counted_and_named() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("nginx"),
        Capability::Program("openssl")
    );
    let bed = cable();
    let nginx = Nginx::start(&bed);
    let others = Folder::new();
    let (other, _) = certificate(&others, bed.b.ipv4);
    let group = |name: &str, tls: &str| {
        format!(
            "  {name}: {{ from: a, servers: {{ addresses: \"{{B}}\", ports: 443 }}, \
             program: {{ http: {{ target: /page }} }}, users: 1, count: 3, tls: {{ {tls} }}, \
             expect: ['handshakes.failed == 0', 'rate.handshakes >= 1/s', 'handshake.max < 10s'] }}\n"
        )
    };
    let text = format!(
        "ports: {{ a: {{ namespace: a }} }}\nsessions:\n{}{}{}{}",
        group("unknown", &format!("authority: {}", other.display())),
        group(
            "misnamed",
            &format!("authority: {}, server-name: example.org", nginx.certificate.display())
        ),
        // the address is in the certificate too
        group("address", &format!("authority: {}", nginx.certificate.display())),
        group("unchecked", "verify: false"),
    );
    let report = run(&bed, &text, &Stop::new());
    balances(&report);
    for (name, why) in [("unknown", "UnknownIssuer"), ("misnamed", "example.org")] {
        let client = side(&report, name, SessionEnd::Client);
        let tls = client.tls.as_ref().unwrap();
        assert_eq!((client.ends.tls_failed, client.starts.established), (3, 3), "{client:#?}");
        assert_eq!((tls.handshakes, tls.failed.certificate), (0, 3), "{tls:?}");
        let said = tls.first_failure.as_deref().unwrap();
        assert!(said.contains(why), "{said}");
        assert!(!client.expectations[0].met, "{:?}", client.expectations);
    }
    for name in ["address", "unchecked"] {
        let client = side(&report, name, SessionEnd::Client);
        assert_eq!(client.ends.in_order, 3, "{client:#?}");
        assert_eq!(client.tls.as_ref().unwrap().handshakes, 3);
        assert!(client.expectations.iter().all(|one| one.met), "{:?}", client.expectations);
    }
}

fn serves_curl(own: bool) {
    let bed = cable();
    let folder = Folder::new();
    let (port, keys) = ours(&bed, own, "servers");
    let address: Ipv4Addr = match own {
        true => free(&bed, 100, 1).split('-').next().unwrap().parse().unwrap(),
        false => bed.a.ipv4,
    };
    let (certificate, key) = certificate(&folder, address);
    let servers = match own {
        true => keys.replace(" }, ", ", ports: 443 }, "),
        false => "servers: { addresses: \"{A}\", ports: 443 }, ".to_owned(),
    };
    let text = format!(
        "ports: {{ {port} }}\nsessions:\n  web: {{ to: a, {servers}program: {{ http: {{ size: 300kB }} }}, \
         tls: {{ certificate: {}, key: {} }} }}\nrun: {{ time: 60s }}\n",
        certificate.display(),
        key.display()
    );
    let stop = Stop::new();
    let namespace = bed.b.namespace.clone();
    let curl = move |arguments: &[&str]| {
        let curl = Program::new(&namespace, "curl").args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "--retry",
            "30",
            "--retry-connrefused",
            "--retry-delay",
            "1",
            "--http1.1",
            "--output",
            "/dev/null",
            "--resolve",
            &format!("{NAME}:443:{address}"),
            "--write-out",
            "%{http_version} %{http_code} %{size_download} %{ssl_verify_result}",
        ]);
        curl.args(arguments).output(PATIENCE).unwrap()
    };
    let certificate = certificate.display().to_string();
    let asking = std::thread::spawn(move || {
        let url = format!("https://{NAME}/x");
        let trusted = ["--cacert", &certificate, &url];
        let good = [&["--tlsv1.3"][..], &["--tls-max", "1.2"][..]];
        let good = good.map(|version| curl(&[version, &trusted].concat()).stdout);
        // nobody vouches for it
        let bad = curl(&[&url]);
        (good, bad.status.code())
    });
    let report = run_observed(&bed, &text, &stop, &mut StopAfter::new(3, &stop));
    let (good, bad) = asking.join().unwrap();
    for said in good {
        assert_eq!(said, "1.1 200 300000 0");
    }
    assert_eq!(bad, Some(60), "curl(1): the certificate cannot be authenticated");
    balances(&report);
    let server = side(&report, "web", SessionEnd::Server);
    let tls = server.tls.as_ref().unwrap();
    assert_eq!((server.ends.in_order, server.messages.responses), (2, 2), "{server:#?}");
    assert_eq!((tls.handshakes, tls.failed.alert + tls.failed.closed), (2, 1), "{tls:?}");
    assert_eq!(tls.suites.values().sum::<u64>(), 2);
    assert_eq!(tls.suites.keys().filter(|suite| suite.starts_with("TLS13")).count(), 1, "{tls:?}");
    assert!(server.bytes.sent >= 600_000 && server.bytes.acked == server.bytes.sent, "{server:#?}");
    let shown = format!("{report:?}");
    let secret = fs::read_to_string(key).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    assert!(!shown.contains(secret), "no key in the report");
}

#[test]
fn curl_gets_the_content_over_tls() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("curl"),
        Capability::Program("openssl")
    );
    serves_curl(false);
}

#[test]
fn curl_gets_the_content_over_tls_and_our_own_tcp() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("curl"),
        Capability::Program("openssl")
    );
    serves_curl(true);
}

/// That both ends of these groups, ours, have what the other sent.
fn agrees(report: &Report, groups: &[(&str, u64)]) {
    balances(report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for (name, sessions) in groups {
        let (client, server) =
            (side(report, name, SessionEnd::Client), side(report, name, SessionEnd::Server));
        assert_eq!(
            (client.ends.in_order, server.ends.in_order),
            (*sessions, *sessions),
            "{report:#?}"
        );
        assert_eq!((client.messages.damaged, server.messages.damaged), (0, 0), "{name}");
        assert_eq!(client.bytes.sent, server.bytes.delivered, "{name}");
        assert_eq!(server.bytes.sent, client.bytes.delivered, "{name}");
        assert_eq!(client.bytes.offered, client.bytes.sent, "{name}");
        for tls in [&client.tls, &server.tls] {
            let tls = tls.as_ref().unwrap();
            assert_eq!((tls.handshakes, tls.truncated), (*sessions, 0), "{name}: {tls:?}");
        }
        assert_eq!(client.tls.as_ref().unwrap().resumed, server.tls.as_ref().unwrap().resumed);
    }
}

/// Programs of every kind between these ports.
fn programs(ports: &str, pools: [&str; 2]) -> String {
    let [clients, servers] = pools;
    let group = |name: &str, port: u16, program: &str, starts: &str| {
        format!(
            "  {name}: {{ from: a, to: b, {clients}servers: {{ {servers}ports: {port} }}, program: {program}, {starts}, tls: true }}\n"
        )
    };
    format!(
        "ports: {{ {ports} }}\nsessions:\n{}{}{}{}",
        group("web", 443, "{ http: { size: 20kB, requests: 3 } }", "rate: 100/s, count: 50"),
        group("bulk", 5001, "{ bulk: { bytes: 3MB, direction: both } }", "users: 2, count: 4"),
        group("echo", 7, "{ echo: { messages: 20, gap: 5ms } }", "count: 5"),
        group(
            "asked",
            8,
            "{ request-response: { requests: 3, response: 70kB } }, pair: payload",
            "count: 10"
        ),
    )
}

const PROGRAMS: [(&str, u64); 4] = [("web", 50), ("bulk", 4), ("echo", 5), ("asked", 10)];

#[test]
fn both_ends_agree_over_tls_across_a_cable() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let ports =
        "a: { namespace: a, addresses: [\"{A}\"] }, b: { namespace: b, addresses: [\"{B}\"] }";
    let report = run(&bed, &programs(ports, ["", ""]), &Stop::new());
    agrees(&report, &PROGRAMS);
    let web = side(&report, "web", SessionEnd::Client);
    assert_eq!(web.bytes.verified, 150 * 20_000);
    assert_eq!(web.bytes.acked, web.bytes.sent);
    let asked = side(&report, "asked", SessionEnd::Client).pairs.unwrap();
    assert_eq!((asked.paired, asked.equal), (10, 10), "{asked:?}");
}

#[test]
fn both_ends_agree_over_tls_and_our_own_tcp() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let ports = format!(
        "{}, {}",
        own_port(&bed, "packet"),
        own_port(&bed, "packet")
            .replace("a: { namespace: a", "b: { namespace: b")
            .replace(&bed.a.link.name, &bed.b.link.name)
    );
    let clients = format!("stack: own, clients: {{ addresses: {} }}, ", free(&bed, 100, 20));
    let servers = format!("addresses: {}, ", free(&bed, 200, 1).split('-').next().unwrap());
    let report = run(&bed, &programs(&ports, [&clients, &servers]), &Stop::new());
    agrees(&report, &PROGRAMS);
}

#[test]
fn both_ends_agree_over_tls_in_memory() {
    let ports = "a: { engine: loopback, cable: { delay: 1ms, loss: 0.001 } }, b: { engine: loopback, cable: { delay: 1ms } }";
    let clients = "stack: own, clients: { addresses: 10.0.0.1-10.0.0.9 }, ";
    let text = programs(ports, [clients, "addresses: 10.0.0.100, "]);
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let prepared = prepare(&scenario, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    agrees(&report, &PROGRAMS);
    // a round trip for TCP, and at least another for TLS
    let web = side(&report, "web", SessionEnd::Client);
    let handshake = web.times.handshake.as_ref().unwrap();
    assert!(handshake.actual_ns.min.unwrap() >= 2_000_000, "{handshake:?}");
}

/// What a peer says at most, then closes; or says nothing at all.
fn misbehave(at: SocketAddr, says: Option<&[u8]>) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    if let Some(says) = says {
        stream.write_all(says).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

#[test]
fn peers_that_do_not_speak_tls_are_counted_by_what_they_did() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let stop = Stop::new();
    let text = "ports: { a: { namespace: a } }\nsessions:\n  web: { to: a, servers: { addresses: \"{A}\", ports: 443 }, \
                program: http, timeout: 1s, tls: true }\nrun: { time: 60s }\n";
    let namespace = bed.b.namespace.clone();
    let server = bed.a.namespace.clone();
    let at = SocketAddr::new(bed.a.ipv4.into(), 443);
    let peers = std::thread::spawn(move || {
        until("our server listens", || server.run(|| listens(443)).unwrap());
        let work = move || {
            misbehave(at, Some(b"GET / HTTP/1.1\r\n\r\n"));
            // a record that is longer than any
            misbehave(at, Some(&[22, 3, 1, 0xff, 0xff, 1, 2, 3]));
            misbehave(at, Some(b""));
            // the head of a record whose rest never comes
            misbehave(at, Some(&[22, 3, 1, 1, 0, 1]));
            misbehave(at, None);
        };
        namespace.run(work).unwrap();
    });
    let report = run_observed(&bed, text, &stop, &mut StopAfter::new(5, &stop));
    peers.join().unwrap();
    balances(&report);
    let server = side(&report, "web", SessionEnd::Server);
    let failed = server.tls.as_ref().unwrap().failed;
    assert_eq!((failed.malformed, failed.closed, failed.timed_out), (2, 2, 1), "{server:#?}");
    let ends = server.ends;
    assert_eq!((ends.malformed, ends.closed_early, ends.timed_out), (2, 2, 1), "{ends:?}");
    assert_eq!(server.starts.established, 5);
}

#[test]
fn files_that_hold_no_certificate_are_refused_by_name() {
    let folder = Folder::new();
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "nothing").unwrap();
    let refused = |keys: &str, file: &Path| {
        let text = format!(
            "ports: {{ a: {{}} }}\nsessions: {{ x: {{ {keys}, servers: {{ addresses: 127.0.0.1, ports: 4433 }}, program: http }} }}\n"
        );
        let text = text.replace("FILE", &file.display().to_string());
        let scenario =
            Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
        prepare(&scenario, Options::default()).err().unwrap().to_string()
    };
    let clients = "from: a, count: 1, tls: { authority: FILE }";
    let servers = "to: a, tls: { certificate: FILE, key: FILE }";
    for (keys, says) in
        [(clients, "sessions.x.tls.authority"), (servers, "sessions.x.tls.certificate")]
    {
        let said = refused(keys, &empty);
        assert!(said.contains(says) && said.contains("no certificate in PEM"), "{said}");
        let said = refused(keys, &folder.path().join("absent.pem"));
        assert!(said.contains("absent.pem"), "{said}");
    }
}
