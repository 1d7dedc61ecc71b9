//! Wirebeat and the tools that it meets: each reads the other's packets, and both say the same of them.
//!
//! The tools are the real programs, each in a namespace of its own at one end of a cable. Nothing here
//! depends on how fast they are: a flow has fewer packets than a socket's buffer holds, so that a program
//! that gets no CPU for a while loses none, and what is waited for is output, not time.

mod d_itg;
mod iperf2;
mod mgen;
mod scripts;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_meter::filter::Filter;
use wirebeat_report::model::{FlowReport, Received, Report};
use wirebeat_run::{Codec, Observer, Progress, ReceiveRequest, Stop, receive};
use wirebeat_testbed::{End, Program, Testbed};
use wirebeat_traffic::scenario::{
    EngineChoice, OnLinkDown, PriorityChoice, RunSpec, TimestampsChoice, XdpModeChoice,
};
use wirebeat_units::Nanos;

use crate::world::cable;

/// How long is waited for what takes an idle machine well under a second.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Datagrams in a flow to a program: less than its socket's buffer holds where it can be told to have a
/// large one. What the kernel engine sends takes 4 KiB of it each.
pub const FEW: u64 = 90;

/// Bytes of the buffer that programs are told to have: `net.core.rmem_max` as Linux has it.
pub const BUFFER: &str = "212992";

/// A cable whose far end takes frames from every engine without a program of ours there.
pub fn cable_to_a_program() -> Testbed {
    let bed = cable();
    let mut far = bed.b.netlink().unwrap();
    far.set_features(bed.b.link.index, &[("rx-gro", true)]).unwrap();
    bed
}

/// A file of a test, which does not exist yet.
pub fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("interop-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

/// A receiver of ours at the far end, beside its stack: a program there receives the same datagrams.
pub fn receiver(bed: &Testbed, codec: Codec, port: Option<u16>) -> ReceiveRequest {
    ReceiveRequest {
        interface: Some("wb1".to_owned()),
        namespace: Some("b".to_owned()),
        namespaces: BTreeMap::from([("b".to_owned(), bed.b.namespace.clone())]),
        filter: Filter { destination_port: port, ..Filter::default() },
        codecs: vec![codec],
        ..request(EngineChoice::Packet)
    }
}

/// A receiver by `engine`, of everything.
pub fn request(engine: EngineChoice) -> ReceiveRequest {
    ReceiveRequest {
        command_line: Vec::new(),
        interface: None,
        namespace: None,
        namespaces: BTreeMap::new(),
        engine,
        filter: Filter::default(),
        bins: None,
        flows: 16,
        promiscuous: false,
        pass: true,
        // a test that fails meanwhile is not to wait for ever
        cores: Vec::new(),
        xdp_mode: XdpModeChoice::Auto,
        busy_poll: false,
        queues: 1,
        priority: PriorityChoice::default(),
        time: Some(Nanos::from_secs(60)),
        count: None,
        interval: Nanos::from_millis(10),
        link_timeout: RunSpec::DEFAULT_LINK_TIMEOUT,
        on_link_down: OnLinkDown::default(),
        timestamps: TimestampsChoice::default(),
        listen: None,
        codecs: Vec::new(),
        same_clock: false,
        expect: Vec::new(),
        log: None,
        capture: None,
        packet_log: None,
        ends_with_capture: false,
        groups: Vec::new(),
    }
}

/// Tells how many frames have come, first when the receiver is ready.
struct Counts(mpsc::Sender<u64>);

impl Observer for Counts {
    fn progress(&mut self, progress: &Progress) {
        let _ = self.0.send(progress.received.map_or(0, |(frames, _)| frames));
    }
}

/// Does `work` while a receiver measures; it says how many datagrams the receiver is to wait for.
pub fn while_receiving<T>(
    request: &ReceiveRequest,
    work: impl FnOnce() -> (T, u64),
) -> (T, Report) {
    let stop = Stop::new();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let stopped = stop.clone();
        let receiver = scope.spawn(move || receive(request, &mut Counts(tell), &stopped));
        // when this comes to nothing the receiver has ended, and says why
        let done = told.recv_timeout(PATIENCE).is_ok().then(work);
        let deadline = Instant::now() + PATIENCE;
        let more = || told.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        if let Some((_, sent)) = &done {
            while more().is_ok_and(|received| received < *sent) {}
        }
        stop.ask(0);
        let report = receiver.join().unwrap().unwrap_or_else(|error| panic!("{error}"));
        (done.unwrap().0, report)
    })
}

/// The measurement of the flow of this number.
pub fn received(report: &Report, number: u16) -> &Received {
    let numbered = |flow: &&FlowReport| flow.id == Some(number);
    let flow = report.flows.iter().find(numbered);
    flow.unwrap_or_else(|| panic!("no flow {number}: {report:#?}")).received.as_ref().unwrap()
}

/// Every datagram came once and in order.
pub fn whole(received: &Received, count: u64) {
    let came = (received.received.frames, received.unique);
    let odd = (received.duplicates, received.reordered, received.implausible, received.restarts);
    assert_eq!((came, odd), ((count, count), (0, 0, 0, 0)));
}

/// Every datagram also took the time that it takes on one host: tools cut times off to microseconds, and a
/// busy machine keeps a sender waiting between its clock and its socket. A receiver by itself gives no delay,
/// but says how it varies.
pub fn timely(received: &Received, count: u64) {
    whole(received, count);
    let variation = &received.jitter_rfc4689_ns;
    assert_eq!(variation.count, count - 1);
    assert!(variation.max.unwrap() < 5_000_000_000, "{:?}", variation.max);
    if let Some(delay) = &received.one_way_delay_ns {
        assert_eq!(delay.count, count);
        let (min, max) = (delay.min.unwrap(), delay.max.unwrap());
        assert!(min > -20_000 && max < 5_000_000_000, "{min} {max}");
    }
}

/// What a program prints that looks at an end.
pub fn printed_at(end: &End, program: &str, arguments: &[&str]) -> String {
    let program = Program::new(&end.namespace, program).args(arguments);
    program.output(PATIENCE).unwrap().stdout
}

/// Waits until `seen` says yes. What it looks at cannot be waited for in another way.
pub fn until(what: &str, seen: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !seen() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The number after the first `key` of a text.
pub fn number_after(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The ports of a scenario whose far end is a program's.
pub fn near(engine: &str) -> String {
    format!("ports: {{ a: {{ interface: wb0, namespace: a, engine: {engine} }} }}\n")
}
