//! Files as the content of HTTP: what curl gets is the file, and our client compares every byte.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{SessionEnd, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, require};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, side};
use crate::udp_sessions::{free_port, run};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("wirebeat-files-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that repeat nowhere near the length of a chunk or a segment.
fn content() -> Vec<u8> {
    let mut state = 7_u32;
    let step = std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    step.take(3_000_001).collect()
}

fn sha256(file: &std::path::Path) -> String {
    let sum = Command::new("sha256sum").arg(file).output().unwrap();
    let text = String::from_utf8(sum.stdout).unwrap();
    text.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_client_of_ours_compares_every_byte_of_a_file() {
    let folder = Folder::new();
    let file = folder.0.join("content.bin");
    fs::write(&file, content()).unwrap();
    let group = |framing: &str| {
        format!(
            "{framing}: {{ from: a, to: a, servers: {{ addresses: 127.0.0.1, ports: {} }}, users: 2, count: 4, \
             program: {{ http: {{ file: {}, framing: {framing} }} }} }}",
            free_port(),
            file.display()
        )
    };
    let framings = ["length", "chunked", "close"];
    let groups: Vec<String> = framings.into_iter().map(group).collect();
    let report = run(&format!("sessions:\n  {}\n", groups.join("\n  ")));
    assert_eq!(report.verdict, Verdict::Done, "{report:#?}");
    for framing in framings {
        let client = side(&report, framing, SessionEnd::Client);
        assert_eq!((client.messages.responses, client.messages.damaged), (4, 0), "{client:#?}");
        assert_eq!(client.messages.unexpected, 0);
        assert_eq!(client.bytes.verified, 4 * 3_000_001);
    }
}

#[test]
fn curl_gets_the_file_and_its_type() {
    require!(Capability::Program("curl"), Capability::Program("sha256sum"));
    let folder = Folder::new();
    let file = folder.0.join("page.html");
    fs::write(&file, content()).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "ports: {{ b: {{}} }}\nsessions:\n  x: {{ to: b, servers: {{ addresses: 127.0.0.1, ports: {port} }}, \
         program: {{ http: {{ file: {}, response-headers: {{ Content-Type: text/html }} }} }} }}\n",
        file.display()
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let prepared = prepare(&scenario, Options::default()).unwrap();
    let stop = Stop::new();
    let got = folder.0.join("got");
    let report = thread::scope(|scope| {
        let server = scope.spawn(|| prepared.start(&mut Silent, &stop));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--retry", "5", "--retry-connrefused", "-w", "%{content_type}", "-o"]);
        let said = curl.arg(&got).arg(format!("http://127.0.0.1:{port}/page.html")).output();
        let said = said.unwrap();
        assert!(said.status.success(), "{said:?}");
        assert_eq!(String::from_utf8_lossy(&said.stdout), "text/html");
        thread::sleep(Duration::from_millis(300));
        stop.ask(2);
        server.join().unwrap()
    });
    balances(&report);
    assert_eq!(sha256(&got), sha256(&file));
    assert_eq!(fs::read(&got).unwrap(), content());
}

#[test]
fn a_file_that_is_too_long_is_refused_with_the_number_that_fits() {
    let folder = Folder::new();
    let file = folder.0.join("long");
    fs::File::create(&file).unwrap().set_len((64 << 20) + 1).unwrap();
    let text = format!(
        "ports: {{ b: {{}} }}\nsessions: {{ x: {{ to: b, servers: {{ ports: 80 }}, program: {{ http: {{ file: {} }} }} }} }}\n",
        file.display()
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let error = prepare(&scenario, Options::default()).err().unwrap().to_string();
    assert!(error.contains("67108865 bytes, and 67108864 is the most"), "{error}");
}
