//! Sessions out of captures, said again: in memory, where both ends compare each byte, and to the servers that were captured.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use wirebeat_archive::capture::conversations::{Conversation, Ending, Keep};
use wirebeat_archive::capture::sides::Side;
use wirebeat_report::model::{Report, SessionEnd, Verdict};
use wirebeat_run::{Silent, Stop, recorded};
use wirebeat_testbed::{Capability, Process, Program, Testbed, require};

use crate::interop::until;
use crate::own_sessions::{free, own_port};
use crate::servers::{Folder, Server};
use crate::sessions::{balances, run, side};
use crate::world::{cable, scratch_folder, tried};

const PATIENCE: Duration = Duration::from_secs(60);

fn in_no_time(text: &str) -> Report {
    let prepared = tried(text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balances(&report);
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    report
}

/// The sessions of a capture that the ends of this group make in memory, over a cable that loses some of it.
fn captured(name: &str, group: &str) -> (PathBuf, Vec<Conversation>) {
    let file = scratch_folder().join(format!("{name}.pcapng"));
    let text = format!(
        "ports:\n  a: {{ engine: loopback, cable: {{ delay: 10ms, loss: 0.03 }} }}\n  \
         b: {{ engine: pcap, file: '{}', cable: {{ delay: 10ms, loss: 0.03 }} }}\nsessions:\n  \
         said: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.9 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 7000 }}, rate: 20/s, count: 4, timeout: 60s, {group} }}\n",
        file.display()
    );
    in_no_time(&text);
    let found = recorded::read(&file, Keep::All).unwrap();
    (file, found.conversations)
}

/// Sessions of a group that says session `number` again, both ends in memory over a cable with loss.
fn again(file: &Path, number: u64, more: &str) -> Report {
    in_no_time(&format!(
        "ports:\n  a: {{ engine: loopback, cable: {{ delay: 5ms, loss: 0.02 }} }}\n  \
         b: {{ engine: loopback, cable: {{ delay: 5ms, loss: 0.02 }} }}\nsessions:\n  \
         again: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.9 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 7000 }}, rate: 50/s, count: 30, timeout: 60s, \
         program: {{ capture: {{ file: '{}', session: {number}{more} }} }} }}\n",
        file.display()
    ))
}

#[test]
fn sessions_of_a_lossy_capture_are_said_again_byte_by_byte() {
    let group = "program: { http: { size: 40kB, requests: 3, think: 300ms } }";
    let (file, sessions) = captured("said-again", group);
    assert_eq!(sessions.len(), 4);
    assert!(sessions.iter().any(|it| it.repeated > 0), "nothing was sent again");
    for it in &sessions {
        assert!(it.missing == 0 && it.is_from_the_start, "{}: {}", it.number, it.missing);
        assert_eq!(it.ending, Ending::Closed(Side::Client));
    }
    for session in &sessions {
        let report = again(&file, session.number, "");
        let (client, server) = (
            side(&report, "again", SessionEnd::Client),
            side(&report, "again", SessionEnd::Server),
        );
        assert_eq!((client.ends.in_order, server.ends.in_order), (30, 30), "{report:#?}");
        // each byte of it was compared
        for (end, said) in [(client, session.said[1]), (server, session.said[0])] {
            assert_eq!((end.bytes.delivered, end.bytes.verified), (30 * said, 30 * said));
            assert_eq!((end.messages.damaged, end.messages.unexpected), (0, 0));
        }
        // a request and its response are one, as they were
        assert_eq!((client.messages.requests, client.messages.responses), (90, 90));
    }
    let lasts = |report: &Report| {
        let session = side(report, "again", SessionEnd::Client).times.session.clone();
        session.unwrap().planned_ns.min.unwrap()
    };
    let (dropped, kept) = (again(&file, 1, ""), again(&file, 1, ", keep-times: true"));
    assert!(
        lasts(&dropped) < 300_000_000 && lasts(&kept) >= 600_000_000,
        "{} {}",
        lasts(&dropped),
        lasts(&kept)
    );
    // the same every time
    assert_eq!(again(&file, 1, "").sessions, dropped.sessions);
}

#[test]
fn whoever_closed_first_does_so_again() {
    let group = "program: { http: { size: 5kB, server-closes: true } }";
    let (file, sessions) = captured("server-closes", group);
    assert_eq!(sessions[0].ending, Ending::Closed(Side::Server));
    let report = again(&file, 1, "");
    let client = side(&report, "again", SessionEnd::Client);
    assert_eq!(client.ends.in_order, 30);
    // the servers' end has the ports in TIME-WAIT
    let gauge = |port: &str| {
        let stack = report.stacks.iter().find(|stack| stack.port == port).unwrap();
        stack.sessions.time_waits
    };
    assert_eq!((gauge("a"), gauge("b")), (0, 30), "{report:#?}");
}

#[test]
fn datagrams_are_said_again_at_their_times() {
    let group = "transport: udp, program: { request-response: { request: 60B, response: 200B, requests: 5, think: 100ms } }, on-timeout: next";
    let file = scratch_folder().join("datagrams.pcapng");
    let text = format!(
        "ports:\n  a: {{ engine: loopback }}\n  b: {{ engine: pcap, file: '{}' }}\nsessions:\n  \
         said: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 7000 }}, rate: 20/s, count: 1, {group} }}\n",
        file.display()
    );
    in_no_time(&text);
    let run = |more: &str| {
        in_no_time(&format!(
            "ports:\n  a: {{ engine: loopback }}\n  b: {{ engine: loopback }}\nsessions:\n  \
             again: {{ from: a, to: b, stack: own, transport: udp, clients: {{ addresses: 10.0.1.1 }}, \
             servers: {{ addresses: 10.0.2.9, ports: 7000 }}, rate: 50/s, count: 10, timeout: 1s, \
             program: {{ capture: {{ file: '{}'{more} }} }} }}\n",
            file.display()
        ))
    };
    for (more, least) in [("", 400_000_000), (", keep-times: false", 0)] {
        let report = run(more);
        let client = side(&report, "again", SessionEnd::Client);
        assert_eq!(client.ends.in_order, 10, "{report:#?}");
        assert_eq!((client.messages.requests, client.messages.responses), (50, 50));
        assert_eq!(client.messages.unexpected, 0);
        assert_eq!((client.bytes.sent, client.bytes.delivered), (50 * 60, 50 * 200));
        let lasts = client.times.session.as_ref().unwrap().planned_ns.min.unwrap();
        assert!(lasts >= least && (least > 0 || lasts < 100_000_000), "{lasts}");
    }
}

#[test]
fn what_cannot_be_said_again_is_refused_with_a_remedy() {
    let (file, _) = captured("refused", "program: http");
    let text = fs::read(&file).unwrap();
    // in the middle: the last sessions have no end, or begin nowhere
    let cut = scratch_folder().join("refused-cut.pcapng");
    fs::write(&cut, &text[..text.len() - 3]).unwrap();
    let nothing = scratch_folder().join("refused.txt");
    fs::write(&nothing, "no capture").unwrap();
    let refused = |file: &Path, keys: &str, more: &str| {
        let text = format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  \
             again: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1 }}, {more} \
             servers: {{ addresses: 10.0.2.9, ports: 7000 }}, rate: 50/s, count: 1, \
             program: {{ capture: {{ file: '{}'{keys} }} }} }}\n",
            file.display()
        );
        tried(&text, None).err().expect("it is refused").to_string()
    };
    for (file, keys, more, words) in [
        (&file, "", "", "has 4 sessions"),
        (&file, ", session: 9", "", "none has the number 9"),
        (&file, ", session: 1", "transport: udp,", "is over TCP"),
        (&cut, ", session: 1", "", "the file ends after"),
        (&nothing, "", "", "this is not a capture"),
        (&nothing.with_extension("none"), "", "", "No such file"),
    ] {
        let told = refused(file, keys, more);
        assert!(told.contains(words) && told.contains("sessions.again.program"), "{told}");
    }
}

/// A capture of all that one end sends and receives.
struct Tcpdump {
    process: Process,
    file: PathBuf,
}

impl Tcpdump {
    fn start(bed: &Testbed, folder: &Folder) -> Tcpdump {
        let file = folder.path().join("day.pcap");
        let program = Program::new(&bed.a.namespace, "tcpdump")
            .args([
                "--immediate-mode",
                "-i",
                bed.a.interface(),
                "-s",
                "0",
                "-U",
                "-Z",
                "root",
                "-n",
                "-w",
            ])
            .args([&file]);
        let process = program.args(["tcp or udp port 53"]).spawn().unwrap();
        process.wait_for("listening on", PATIENCE).unwrap();
        Tcpdump { process, file }
    }

    fn end(self) -> PathBuf {
        self.process.interrupt();
        let output = self.process.wait(PATIENCE).unwrap();
        assert!(output.stderr.contains("0 packets dropped by kernel"), "{}", output.stderr);
        self.file
    }
}

/// A query for the addresses of `name` (RFC 1035 §4.1).
fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

#[test]
fn real_servers_answer_what_curl_and_others_said_to_them() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("nginx"),
        Capability::Program("curl"),
        Capability::Program("dnsmasq"),
        Capability::Program("tcpdump"),
        Capability::Program("python3")
    );
    let bed = cable();
    let folder = Folder::new();
    let nginx = Server::nginx(&bed);
    let b = bed.b.ipv4;
    let _dns = Program::new(&bed.b.namespace, "dnsmasq")
        .args([
            "-k",
            "-C",
            "/dev/null",
            "-R",
            "-h",
            "-u",
            "root",
            "--pid-file=",
            "--host-record=www.example.com,192.0.2.7",
        ])
        .spawn()
        .unwrap();
    let _mail = Program::new(&bed.b.namespace, "python3")
        .args(["-W", "ignore", "-m", "smtpd", "-n", "-c", "DebuggingServer", "0.0.0.0:25"])
        .spawn()
        .unwrap();
    let at = |port: u16| SocketAddr::new(b.into(), port);
    let ask = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.connect(at(53)).unwrap();
        let sent = socket.send(&query("www.example.com"));
        sent.is_ok() && socket.recv(&mut [0; 512]).is_ok()
    };
    until("dnsmasq answers", || bed.a.namespace.run(ask).unwrap());
    until("the mail server listens", || {
        bed.a.namespace.run(|| std::net::TcpStream::connect(at(25)).is_ok()).unwrap()
    });

    let capture = Tcpdump::start(&bed, &folder);
    let mail = folder.path().join("mail.txt");
    fs::write(&mail, "Subject: test\r\n\r\nHello.\r\n".repeat(20)).unwrap();
    let pages = [format!("http://{b}/page"), format!("http://{b}/chunked")];
    let curl = |arguments: &[&str]| {
        let output = Program::new(&bed.a.namespace, "curl")
            .args(["-sS"])
            .args(arguments)
            .output(PATIENCE)
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    curl(&["-o", "/dev/null", "-o", "/dev/null", &pages[0], &pages[1]]);
    let to = format!("smtp://{b}:25");
    curl(&[
        &to,
        "--mail-from",
        "a@example.com",
        "--mail-rcpt",
        "b@example.com",
        "-T",
        &mail.display().to_string(),
    ]);
    assert!(bed.a.namespace.run(ask).unwrap());
    // what was sent last is captured soon
    std::thread::sleep(Duration::from_millis(300));
    let file = capture.end();
    let found = recorded::read(&file, Keep::All).unwrap();
    let of = |port: u16| found.conversations.iter().find(|it| it.server.port() == port).unwrap();
    let (web, smtp, dns) = (of(80), of(25), of(53));
    assert!(smtp.turns.len() >= 10 && smtp.turns[0].from == Side::Server, "{:?}", smtp.turns);
    assert_eq!(nginx.tally(200, 2).0, 2);

    for own in [false, true] {
        let (port, group) = match own {
            false => ("a: { namespace: a }".to_owned(), String::new()),
            true => (
                own_port(&bed, "packet"),
                format!(", stack: own, clients: {{ addresses: {} }}", free(&bed, 100, 8)),
            ),
        };
        let one = |name: &str, session: &Conversation, more: &str| {
            format!(
                "  {name}: {{ from: a{group}, {more}servers: {{ addresses: \"{{B}}\", ports: {} }}, rate: 20/s, count: 20, \
                 program: {{ capture: {{ file: '{}', session: {} }} }} }}\n",
                session.server.port(),
                file.display(),
                session.number
            )
        };
        let text = format!(
            "ports: {{ {port} }}\nsessions:\n{}{}{}",
            one("web", web, ""),
            one("mail", smtp, ""),
            one("names", dns, "transport: udp, ")
        );
        let report = run(&bed, &text, &Stop::new());
        balances(&report);
        for (name, session) in [("web", web), ("mail", smtp), ("names", dns)] {
            let client = side(&report, name, SessionEnd::Client);
            assert_eq!(client.ends.in_order, 20, "{name}, {own}: {client:#?}");
            assert_eq!(client.bytes.sent, 20 * session.said[0], "{name}");
            assert_eq!(client.bytes.delivered, 20 * session.said[1], "{name}");
        }
    }
    assert_eq!(nginx.tally(200, 82).0, 82);
}

#[test]
fn what_steps_say_in_words_is_not_held_against_generated_data() {
    let steps = "steps: { client: [ request, { send-text: hello }, { receive: 300B }, response ], \
                 server: [ { receive: 5B }, { send-text: \"one and \" }, { send: 292B }, wait-close ] }";
    let report = in_no_time(&format!(
        "ports:\n  a: {{ engine: loopback }}\n  b: {{ engine: loopback }}\nsessions:\n  \
         said: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 7000 }}, rate: 50/s, count: 10, program: {{ {steps} }} }}\n"
    ));
    for end in [SessionEnd::Client, SessionEnd::Server] {
        let end = side(&report, "said", end);
        assert_eq!((end.ends.in_order, end.messages.damaged), (10, 0), "{report:#?}");
    }
}
