//! A receiver of ours or a real one, real senders, and what ITGDec says of a log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_ditg::{Event, FlowResult, LogFile, Server, ServerOptions};
use wirebeat_testbed::{Options, Process, Program, Testbed};

/// How long is waited for what takes an idle machine a second or two.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Two namespaces and a cable.
pub fn bed() -> Testbed {
    Testbed::pair(&Options::default()).unwrap()
}

/// A file for a log that no other test has; removed at the end.
pub struct Log(PathBuf);

impl Log {
    pub fn new() -> Log {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirebeat-ditg-{}-{number}.log", std::process::id());
        Log(std::env::temp_dir().join(name))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What became of a server of ours.
#[derive(Debug, Default)]
pub struct Served {
    pub flows: Vec<FlowResult>,
    pub refused: Vec<String>,
    pub logs_left_out: usize,
}

impl Served {
    /// The flow with this number.
    pub fn flow(&self, number: u32) -> &FlowResult {
        let of = |flow: &&FlowResult| flow.flow == number;
        self.flows.iter().find(of).unwrap_or_else(|| panic!("no flow {number}: {self:?}"))
    }
}

/// Runs `work` while a receiver of ours listens in namespace `a`; then stops it.
pub fn serving<T: Send>(
    bed: &Testbed,
    (listen, options, log): (&str, ServerOptions, Option<&Log>),
    work: impl FnOnce(SocketAddr, &Mutex<Served>) -> T + Send,
) -> (Served, T) {
    let stop = AtomicBool::new(false);
    let served = Mutex::new(Served::default());
    let (address, bound) = channel();
    let returned = thread::scope(|scope| {
        let server = scope.spawn(|| {
            bed.a.namespace.enter().unwrap();
            let log = log.map(|log| LogFile::create(log.path()).unwrap());
            let mut server = Server::bind(listen.parse().unwrap(), options, log).unwrap();
            address.send(server.address()).unwrap();
            server.run(&|| stop.load(Ordering::Acquire), &mut |event| {
                let mut served = served.lock().unwrap();
                match event {
                    Event::Ended(flow) => served.flows.push(flow.clone()),
                    Event::Refused { fault, .. } => served.refused.push(fault.to_string()),
                    Event::LogLeftOut(_) => served.logs_left_out += 1,
                    Event::Begins(_) | Event::Interval(_) => {}
                }
            })
        });
        let address = bound.recv().unwrap();
        // a work that fails is not to leave the server running
        let returned =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address, &served)));
        stop.store(true, Ordering::Release);
        server.join().unwrap().unwrap();
        returned
    });
    let returned = returned.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    (served.into_inner().unwrap(), returned)
}

/// ITGSend in namespace `a`, with these arguments.
pub fn itg_send(bed: &Testbed, arguments: &str) -> String {
    let send = Program::new(&bed.a.namespace, "ITGSend");
    let output = send.args(arguments.split_ascii_whitespace()).output(PATIENCE).unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    output.stdout
}

/// ITGRecv in namespace `a`, which logs each packet as it comes.
pub fn itg_recv(bed: &Testbed, log: &Log) -> Process {
    let recv = Program::new(&bed.a.namespace, "ITGRecv").args(["-q", "1", "-l", log.text()]);
    let recv = recv.spawn().unwrap();
    // it prints nothing when it can be told of flows
    let listens = |line: &str| line.contains(":2328 ") && line.contains(" 0A ");
    until("ITGRecv listens on port 9000", || {
        let cat = Program::new(&bed.a.namespace, "cat");
        let cat = cat.args(["/proc/net/tcp", "/proc/net/tcp6"]).output(PATIENCE).unwrap();
        cat.stdout.lines().any(listens)
    });
    recv
}

/// Waits until something is.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What ITGDec says of all flows of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoded {
    pub flows: u64,
    pub packets: u64,
    pub bytes: u64,
    pub dropped: u64,
    /// Seconds: the least, the largest and the mean delay, and the mean jitter.
    pub delays: [f64; 4],
}

pub fn decoded(bed: &Testbed, log: &Log) -> Decoded {
    let dec = Program::new(&bed.a.namespace, "ITGDec").args([log.text()]);
    let text = dec.output(PATIENCE).unwrap().stdout;
    let total = text.split_once("TOTAL RESULTS").unwrap_or_else(|| panic!("{text}")).1;
    let value = |key: &str| -> f64 {
        let rest = total.split_once(key).unwrap_or_else(|| panic!("{key}: {text}")).1;
        let rest = rest.split_once('=').unwrap().1.trim_start();
        let number = rest.split_ascii_whitespace().next().unwrap();
        number.parse().unwrap_or_else(|_| panic!("{key}: {text}"))
    };
    assert_eq!(value("Error lines"), 0.0, "{text}");
    let delays = ["Minimum delay", "Maximum delay", "Average delay", "Average jitter"];
    Decoded {
        flows: value("Number of flows") as u64,
        packets: value("Total packets") as u64,
        bytes: value("Bytes received") as u64,
        dropped: value("Packets dropped") as u64,
        delays: delays.map(value),
    }
}

/// Whether a time in seconds is one in nanoseconds, within two of ITGDec's microseconds.
pub fn is_near(seconds: f64, ns: f64) -> bool {
    (seconds * 1e9 - ns).abs() <= 2_000.0
}
