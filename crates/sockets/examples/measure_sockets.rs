//! Measures the stack over the loopback interface, with programs that do almost nothing.
//!
//! `cargo run --release -p wirebeat-sockets --example measure_sockets -- MODE [SECONDS]`, where MODE is
//! - `rate`: connections opened and closed in order, one thread at each end;
//! - `bulk`: one stream, one thread at each end; beside it: `iperf3 -s` and `iperf3 -c 127.0.0.1`;
//! - `requests ADDRESS PATH CONNECTIONS`: requests over kept connections to a server of HTTP (nginx); beside it:
//!   `wrk -t1 -c CONNECTIONS http://ADDRESS/PATH`.

#![allow(clippy::unwrap_used)] // A measurement that cannot be made ends.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_converse::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack,
};
use wirebeat_sockets::{HostStack, Limits, Profile, machine};
use wirebeat_units::{Bytes, Nanos};

const LOCAL: &str = "127.0.0.1:0";
/// Connections that are open at a time while the rate is measured.
const AT_A_TIME: u32 = 64;

/// What all connections of one end do.
enum Work {
    /// FIN as soon as it is established or the peer closed.
    Close,
    /// Sends without end.
    Send(Vec<u8>),
    /// Counts what comes.
    Sink,
    /// One request after another.
    Requests { request: Vec<u8>, response: Option<u64> },
}

struct End {
    stack: HostStack,
    programs: Little,
}

struct Little {
    work: Work,
    actions: VecDeque<Action>,
    connections: Vec<Option<Connection>>,
    /// Bytes received of the stream, and the end of what may be sent.
    heard: Vec<u64>,
    asked: Vec<u64>,
    free: Vec<u32>,
    done: u64,
    failed: u64,
    bytes: u64,
}

impl Little {
    fn new(work: Work) -> Self {
        Little {
            work,
            actions: VecDeque::new(),
            connections: Vec::new(),
            heard: Vec::new(),
            asked: Vec::new(),
            free: Vec::new(),
            done: 0,
            failed: 0,
            bytes: 0,
        }
    }

    fn key(&mut self) -> SessionKey {
        let key = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.heard.push(0);
            self.asked.push(0);
            self.connections.len() as u32 - 1
        });
        self.heard[key as usize] = 0;
        self.asked[key as usize] = 0;
        SessionKey(key)
    }

    fn connect(&mut self, remote: SocketAddr) {
        let session = self.key();
        // Many addresses of our own, so that no port is used again too soon.
        let host = 1 + session.0 % 250;
        let local = match remote.ip().is_loopback() {
            true => format!("127.0.1.{host}:0").parse().unwrap(),
            false => "0.0.0.0:0".parse().unwrap(),
        };
        self.actions.push_back(Action::Connect { session, profile: ProfileId(0), local, remote });
    }

    fn ask(&mut self, SessionKey(key): SessionKey) {
        if let Work::Requests { request, .. } = &self.work {
            self.asked[key as usize] += request.len() as u64;
            self.actions.extend(self.connections[key as usize].map(Action::Send));
        }
    }
}

impl Programs for Little {
    fn accepted(&mut self, _: Nanos, connection: Connection, _: ProfileId) -> Option<SessionKey> {
        let key = self.key();
        self.connections[key.0 as usize] = Some(connection);
        Some(key)
    }

    fn established(&mut self, _: Nanos, session: SessionKey, connection: Connection) {
        self.connections[session.0 as usize] = Some(connection);
        match self.work {
            Work::Close => self.actions.push_back(Action::Finish(connection)),
            Work::Send(_) => self.actions.push_back(Action::Send(connection)),
            Work::Sink => {}
            Work::Requests { .. } => self.ask(session),
        }
    }

    fn payload<'a>(
        &'a mut self,
        SessionKey(key): SessionKey,
        offset: u64,
        _: &'a mut [u8],
    ) -> &'a [u8] {
        match &self.work {
            Work::Send(bytes) => bytes,
            Work::Requests { request, .. } if offset < self.asked[key as usize] => {
                &request[(offset % request.len() as u64) as usize..]
            }
            _ => &[],
        }
    }

    fn offer(&mut self, _: SessionKey, most: u64) -> u64 {
        most
    }

    fn taken(&mut self, _: Nanos, _: SessionKey, _: u64) {}

    fn room(&self, _: SessionKey) -> usize {
        usize::MAX
    }

    fn received(&mut self, _: Nanos, session: SessionKey, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let heard = &mut self.heard[session.0 as usize];
        *heard += bytes.len() as u64;
        if let Work::Requests { response, .. } = &mut self.work {
            let length = *response.get_or_insert_with(|| response_length(bytes));
            if *heard >= length {
                *heard -= length;
                self.done += 1;
                self.ask(session);
            }
        }
    }

    fn peer_closed(&mut self, _: Nanos, session: SessionKey) {
        self.actions.extend(self.connections[session.0 as usize].map(Action::Finish));
    }

    fn ended(&mut self, _: Nanos, SessionKey(key): SessionKey, reason: Reason, _: ConnectionStats) {
        self.connections[key as usize] = None;
        self.free.push(key);
        match reason {
            Reason::InOrder => self.done += 1,
            _ => self.failed += 1,
        }
    }
}

/// How long the first response is, and so all others.
fn response_length(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    head.len() as u64 + 4 + length.parse::<u64>().unwrap()
}

impl End {
    fn new(work: Work) -> Self {
        let profile = Profile::default();
        let stack = HostStack::new(vec![profile], Limits::default()).unwrap();
        End { stack, programs: Little::new(work) }
    }

    fn step(&mut self, now: Nanos) -> Nanos {
        while let Some(action) = self.programs.actions.pop_front() {
            self.stack.apply(now, action, &mut self.programs);
        }
        let until = now.saturating_add(Nanos::from_millis(10));
        self.stack.turn(now, until, &mut self.programs)
    }
}

/// A server's end in a thread of its own, until it is told to stop.
fn serve(work: Work, stop: Arc<AtomicBool>) -> (SocketAddr, thread::JoinHandle<u64>) {
    let mut end = End::new(work);
    let address = end.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 4096).unwrap();
    let thread = thread::spawn(move || {
        let mut now = Nanos::ZERO;
        while !stop.load(Ordering::Relaxed) {
            now = end.step(now);
        }
        end.programs.bytes
    });
    (address, thread)
}

fn run(mut end: End, seconds: u64, mut each: impl FnMut(&mut Little)) -> (End, f64) {
    let begun = Instant::now();
    let mut now = Nanos::ZERO;
    while begun.elapsed() < Duration::from_secs(seconds) {
        each(&mut end.programs);
        now = end.step(now);
    }
    (end, begun.elapsed().as_secs_f64())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = arguments.first().map(String::as_str);
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    machine::raise_descriptors().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    match mode {
        Some("rate") => {
            let (address, server) = serve(Work::Close, stop.clone());
            let end = End::new(Work::Close);
            let mut begun = 0;
            let (end, seconds) = run(end, number(1).unwrap_or(5), |little| {
                while begun - little.done - little.failed < AT_A_TIME.into() {
                    begun += 1;
                    little.connect(address);
                }
            });
            stop.store(true, Ordering::Relaxed);
            server.join().unwrap();
            let Little { done, failed, .. } = end.programs;
            println!(
                "{:.0} connections/s opened and closed, {failed} failed",
                done as f64 / seconds
            );
            println!("{:?}", end.stack.counters());
        }
        Some("bulk") => {
            let (address, server) = serve(Work::Sink, stop.clone());
            let mut end = End::new(Work::Send(vec![0x55; 1 << 20]));
            end.programs.connect(address);
            let (end, seconds) = run(end, number(1).unwrap_or(5), |_| {});
            stop.store(true, Ordering::Relaxed);
            let bytes = server.join().unwrap();
            println!("{:.2} Gbit/s", bytes as f64 * 8.0 / seconds / 1e9);
            println!("{:?}", end.stack.counters());
        }
        Some("requests") => {
            let address = arguments.get(1).unwrap().parse().unwrap();
            let path = arguments.get(2).unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
            let mut end = End::new(Work::Requests { request, response: None });
            for _ in 0..number(3).unwrap_or(50) {
                end.programs.connect(address);
            }
            let (end, seconds) = run(end, number(4).unwrap_or(5), |_| {});
            let Little { done, failed, bytes, .. } = end.programs;
            let rate = done as f64 / seconds;
            println!("{rate:.0} requests/s, {}, {failed} failed", Bytes::new(bytes));
            println!("{:?}", end.stack.counters());
        }
        _ => println!("MODE is rate, bulk or requests: the head of this file says more"),
    }
}
