//! The capture of an example of sessions: the same bytes every time, and tshark sees in it what the report says.

use std::fs;
use std::path::Path;
use std::process::Command;

use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, require};
use wirebeat_traffic::scenario::Scenario;

use crate::sessions::{balances, side};
use crate::world::scratch_folder;

/// The packets of the example, as tshark tells them.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/session-capture.txt");

/// Runs the example; the report, and the bytes of its capture file at `path`.
fn run(path: &Path) -> (Report, Vec<u8>) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/session-capture.yaml");
    let text = fs::read_to_string(example).unwrap();
    let text = text.replace("file: session-capture.pcapng", &format!("file: '{}'", path.display()));
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let prepared = prepare(&scenario, Options::default()).unwrap();
    let report = prepared.start(&mut Silent, &Stop::new());
    (report, fs::read(path).unwrap())
}

/// What tshark says of the frames of `path` that `filter` takes.
fn tshark(path: &Path, filter: &str) -> String {
    let fields = [
        "frame.time_relative",
        "ip.src",
        "ip.dst",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.flags.str",
        "tcp.seq",
        "tcp.ack",
        "tcp.len",
        "tcp.window_size",
        "arp.opcode",
    ];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args([
        "-o",
        "tcp.check_checksum:TRUE",
        "-Y",
        filter,
        "-T",
        "fields",
    ]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_capture_of_an_example_is_the_same_every_time_and_what_the_report_says() {
    require!(Capability::Program("tshark"));
    let folder = scratch_folder();
    let [first, second] = [1, 2].map(|n| folder.join(format!("session-capture-{n}.pcapng")));
    let (report, bytes) = run(&first);
    let (_, again) = run(&second);
    assert!(bytes == again, "a second run gave other bytes");
    balances(&report);
    let clients = side(&report, "pages", SessionEnd::Client);
    assert_eq!((clients.ends.in_order, clients.messages.responses), (5, 10), "{clients:#?}");
    let stack = report.stacks.iter().find(|stack| stack.port == "servers").unwrap();
    let count = |filter: &str| tshark(&first, filter).lines().count() as u64;
    // what the servers sent left them before the cable lost some of it
    assert_eq!(count("tcp.srcport == 80"), stack.segments.all);
    assert_eq!(count("tcp.dstport == 80"), stack.arrivals.packets);
    let repeated: u64 = stack.segments.retransmitted().iter().map(|(_, count)| count).sum();
    assert!(repeated > 0, "{:#?}", stack.segments);
    assert_eq!(
        count("tcp.srcport == 80 && tcp.analysis.retransmission"),
        repeated,
        "{:#?}",
        stack.segments
    );
    assert_eq!(count("tcp.checksum.status == 0"), 0);
    let told = tshark(&first, "frame");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(Path::new(GOLDEN).parent().unwrap()).unwrap();
        fs::write(GOLDEN, &told).unwrap();
    }
    let golden = fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(
        told == golden,
        "{GOLDEN} differs; look at it with UPDATE_GOLDEN=1 and git diff. It should be:\n{told}"
    );
    [first, second].iter().for_each(|path| fs::remove_file(path).unwrap());
}
