//! Examples of sessions, cut short and on paper: the frames at the servers' end are those of captures that a person has looked at.
//!
//! Each example is changed only in what paper needs: both ends in memory, our own stack, addresses for clients, and little enough to be
//! looked at. `session_capture.rs` has one that is so from the beginning, and `replay_capture/copies.rs` the templates of a capture.

use std::fs;
use std::path::Path;

use wirebeat_report::model::{End, Report, SessionEnd};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;

use crate::replay_capture::{from_first, pcap, read};
use crate::sessions::{balances, side};
use crate::world::scratch_folder;

/// The most bytes of a capture in the repository.
const LARGEST: usize = 50_000;
/// The cable between both ends.
const CABLE: &str = "cable: { delay: 2ms, rate: 100Mbps }";
/// In the place of the file's name.
const FILE: &str = "{FILE}";

/// Runs the example `name` with each text of `changes` in the place of another, which has to be there, and holds the frames against the
/// golden capture.
fn on_paper(name: &str, changes: &[(&str, &str)]) -> Report {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = fs::read_to_string(root.join(format!("../../examples/{name}.yaml"))).unwrap();
    let file = scratch_folder().join(format!("golden-{name}.pcapng"));
    for (from, to) in changes {
        assert!(text.contains(from), "{name}.yaml has no '{from}' any more");
        text = text.replace(from, &to.replace("CABLE", CABLE));
    }
    text = text.replace(FILE, &file.display().to_string());
    let scenario = Scenario::from_yaml(&text, name).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let prepared = prepare(&scenario, Options::default()).unwrap_or_else(|why| panic!("{why}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balances(&report);
    assert_eq!(report.end, End::Completed, "{report:#?}");

    let frames = pcap(&from_first(read(&file)));
    fs::remove_file(&file).unwrap();
    let golden = root.join(format!("tests/golden/{name}.pcap"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &frames).unwrap();
    }
    assert!(frames.len() <= LARGEST, "{name}: {} B", frames.len());
    let expected = fs::read(&golden).unwrap_or_default();
    assert!(
        frames == expected,
        "{} differs; look at it with UPDATE_GOLDEN=1 and tcpdump -r",
        golden.display()
    );
    report
}

/// Sessions of a group that ended in order, at its clients and at its servers.
fn in_order(report: &Report, name: &str) -> [u64; 2] {
    [SessionEnd::Client, SessionEnd::Server].map(|end| side(report, name, end).ends.in_order)
}

/// Three requests in each connection, at random times, and the server closes.
#[test]
fn the_frames_of_web_load_are_those_that_were_looked_at() {
    let report = on_paper(
        "web-load",
        &[
            (
                "  clients: {}\n",
                "  clients: { engine: loopback, CABLE }\n  web: { engine: pcap, file: '{FILE}', CABLE }\n",
            ),
            (
                "    servers: {",
                "    to: web\n    stack: own\n    clients: { addresses: 10.0.1.1-10.0.1.9 }\n    servers: {",
            ),
            ("run: { time: 1m }", "run: { time: 450ms }"),
        ],
    );
    let [clients, servers] = in_order(&report, "pages");
    assert!(clients >= 5 && clients == servers, "{clients} {servers}");
    assert_eq!(side(&report, "pages", SessionEnd::Client).messages.responses, 3 * clients);
}

/// Four connections one way and one the other way; of ten seconds a few segments.
#[test]
fn the_frames_of_tcp_throughput_are_those_that_were_looked_at() {
    let own = |server: &str| {
        format!(
            "    stack: own\n    clients: {{ addresses: 10.0.0.1 }}\n    servers: {{ addresses: 10.0.0.2, ports: {server} }}"
        )
    };
    let report = on_paper(
        "tcp-throughput",
        &[
            ("{ interface: ${a}, namespace: left }", "{ engine: loopback, CABLE }"),
            ("{ interface: ${b}, namespace: right }", "{ engine: pcap, file: '{FILE}', CABLE }"),
            ("    servers: { ports: 5201 }", &own("5201")),
            ("    servers: { ports: 5202 }", &own("5202")),
            ("{ bulk: { direction: reverse } }", "{ bulk: { direction: reverse, bytes: 4kB } }"),
            ("program: bulk", "program: { bulk: { bytes: 8kB } }"),
        ],
    );
    assert_eq!((in_order(&report, "down"), in_order(&report, "up")), ([4, 4], [1, 1]));
    assert_eq!(side(&report, "down", SessionEnd::Client).bytes.verified, 4 * 4_000);
    assert_eq!(side(&report, "up", SessionEnd::Server).bytes.verified, 8_000);
}

/// Queries over UDP, each from a port of its own, and ten in a connection.
#[test]
fn the_frames_of_dns_load_are_those_that_were_looked_at() {
    let report = on_paper(
        "dns-load",
        &[
            (
                "  clients: {}\n",
                "  clients: { engine: loopback, CABLE }\n  resolver: { engine: pcap, file: '{FILE}', CABLE }\n",
            ),
            (
                "    servers: {",
                "    to: resolver\n    stack: own\n    clients: { addresses: 10.0.1.1-10.0.1.9 }\n    servers: {",
            ),
            ("expect-rcode: nxdomain", "expect-rcode: nxdomain, rcode: nxdomain"),
            ("run: { time: 10s }", "run: { time: 60ms }"),
        ],
    );
    assert_eq!((in_order(&report, "queries")[0], in_order(&report, "over-tcp")), (60, [1, 1]));
    let queries = side(&report, "queries", SessionEnd::Client);
    assert_eq!((queries.messages.unexpected, queries.messages.responses), (0, 60));
}

/// Pages at random times, and mail that begins when ten of them were connected.
#[test]
fn the_frames_of_session_mix_are_those_that_were_looked_at() {
    let report = on_paper(
        "session-mix",
        &[
            (
                "  servers: { engine: loopback, cable: { delay: 5ms, rate: 100Mbps } }",
                "  servers: { engine: pcap, file: '{FILE}', CABLE }",
            ),
            ("size: 20kB", "size: 200B"),
            ("request: 8kB", "request: 800B"),
            ("rate: 6Mbps", "rate: 1Mbps"),
            ("run: { time: 10s }", "run: { time: 300ms }"),
        ],
    );
    let (pages, mail) = (in_order(&report, "pages"), in_order(&report, "mail"));
    assert!(pages[0] >= 10 && pages[0] == pages[1], "{pages:?}");
    assert!(mail[0] > 0 && mail[0] == mail[1], "{mail:?}");
    // who waits begins later
    let from = |name| side(&report, name, SessionEnd::Client).from_ns;
    assert!(from("mail") > from("pages"), "{report:#?}");
}
