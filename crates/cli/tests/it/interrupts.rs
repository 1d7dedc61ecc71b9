//! How soon a run stops after a signal, with whole processes over a cable: what the far end captured after it. Bounds are
//! generous, for the machine may be busy; what was measured is printed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use wirebeat_archive::capture::Frames;
use wirebeat_archive::time_series::OnBad;
use wirebeat_testbed::{
    Capability, End, Neighbours, Options as Cable, Process, Program, Testbed, require,
};

use crate::{Scratch, command};

const PATIENCE: Duration = Duration::from_secs(60);
/// A sender stops within 100 ms; what a busy machine adds to that is not its doing.
const BOUND: Duration = Duration::from_secs(1);
/// How long the far end is watched after the signal.
const WATCHED: Duration = Duration::from_millis(2500);
/// The smallest pipe, in bytes.
const PIPE: usize = 4096;
const KEY: &str = "a-key-for-interrupts-5960";

/// The far end takes frames of every engine without a program of ours there.
fn cable() -> Testbed {
    let bed = Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap();
    let mut far = bed.b.netlink().unwrap();
    far.set_features(bed.b.link.index, &[("rx-gro", true)]).unwrap();
    bed
}

/// A `wirebeat` in the namespace of an end; it is killed when it is dropped.
struct Run(Child);

impl Run {
    fn start(end: &End, line: &str) -> Run {
        let words: Vec<&str> = line.split_whitespace().collect();
        let spawn = || command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Run(end.namespace.run(spawn).unwrap().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its exit code, and how long it took to end.
    fn end(&mut self) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        while self.is_running() {
            assert!(begun.elapsed() < PATIENCE, "it goes on");
            thread::sleep(Duration::from_millis(5));
        }
        (self.0.wait().unwrap().code(), begun.elapsed())
    }

    /// Reads what it tells until a line has this in it.
    fn wait_for(&mut self, text: &str) {
        let mut said = BufReader::new(self.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended without '{text}'");
        }
        // so that it can go on telling
        thread::spawn(move || said.read_to_end(&mut Vec::new()));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What arrives at an end, captured by another program.
struct Observer {
    process: Process,
    file: String,
}

impl Observer {
    fn at(end: &End, scratch: &Scratch) -> Observer {
        let file = scratch.path("seen.pcap");
        let line = format!(
            "-i {} -U --immediate-mode -s 64 -Z root -w {file} udp dst port 9",
            end.interface()
        );
        let process =
            Program::new(&end.namespace, "tcpdump").args(line.split(' ')).spawn().unwrap();
        process.wait_for("listening on", PATIENCE).unwrap();
        Observer { process, file }
    }

    /// When each datagram came, from the signal on, in order; negative before it.
    fn seen(self, signal: SystemTime) -> Vec<i64> {
        thread::sleep(WATCHED);
        self.process.interrupt();
        self.process.wait(PATIENCE).unwrap();
        let signal = signal.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let mut frames = Frames::new(File::open(&self.file).unwrap(), "seen", OnBad::Stop);
        let mut times = Vec::new();
        while frames.advance().unwrap() {
            times.push(frames.frame().time_ns.unwrap() - signal);
        }
        times
    }
}

/// That nothing came later than the bound after the signal; prints when the last came.
fn stopped(state: &str, seen: &[i64], sends: bool) {
    assert_eq!(!seen.is_empty(), sends, "{state}: {} datagrams", seen.len());
    let last = seen.last().map_or(0.0, |last| *last as f64 / 1e6);
    println!("{state}: {} datagrams, the last {last:.1} ms after the signal", seen.len());
    assert!(
        last < BOUND.as_secs_f64() * 1e3,
        "{state}: the last came {last:.1} ms after the signal"
    );
}

/// Sends by each engine, interrupts it and looks at what comes afterwards.
fn interrupt_of_traffic(state: &str, rate: &str) {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("tcpdump")
    );
    for engine in ["packet", "socket", "kernel"] {
        let (bed, scratch) = (cable(), Scratch::new(&format!("interrupt-{state}-{engine}")));
        let observer = Observer::at(&bed.b, &scratch);
        let line = format!(
            "send --to {} --interface wb0 --engine {engine} --rate {rate} --time 60s --interval 50ms",
            bed.b.ipv4
        );
        let mut run = Run::start(&bed.a, &line);
        run.wait_for("Mbit/s");
        let signal = SystemTime::now();
        run.signal(Signal::INT);
        let (code, took) = run.end();
        println!("{state}, {engine}: ended {} ms after the signal", took.as_millis());
        assert_eq!(code, Some(0));
        stopped(&format!("{state}, {engine}"), &observer.seen(signal), true);
    }
}

#[test]
fn nothing_leaves_after_an_interrupt_of_running_traffic() {
    interrupt_of_traffic("steady", "1kpps");
}

#[test]
fn nothing_leaves_after_an_interrupt_of_traffic_as_fast_as_it_can() {
    interrupt_of_traffic("flat-out", "unlimited");
}

/// Progress is written by the thread that looks for signals, and a pipe that nobody reads holds it up.
#[test]
fn sending_stops_although_nobody_reads_what_is_told() {
    require!(Capability::NetworkNamespaces, Capability::Program("tcpdump"));
    let (bed, scratch) = (cable(), Scratch::new("interrupt-unread"));
    let observer = Observer::at(&bed.b, &scratch);
    let socket = scratch.path("control");
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 1kpps --time 60s --interval 10ms --control={socket}",
        bed.b.ipv4
    );
    let mut run = Run::start(&bed.a, &line);
    let told = run.0.stderr.take().unwrap();
    fcntl_setpipe_size(&told, PIPE).unwrap();
    wait_until("control socket", || Path::new(&socket).exists());
    // until the pipe is full, which takes some sixty lines
    wait_until("full pipe", || ioctl_fionread(&told).unwrap() > PIPE as u64 - 200);
    thread::sleep(Duration::from_millis(300));
    let signal = SystemTime::now();
    run.signal(Signal::INT);
    stopped("unread", &observer.seen(signal), true);
    assert!(run.is_running(), "it waits for its reader");
    assert!(Path::new(&socket).exists());
    run.signal(Signal::INT);
    let (code, took) = run.end();
    println!("ended {} ms after the second signal", took.as_millis());
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(!Path::new(&socket).exists(), "the control socket is left");
    drop(told);
}

#[test]
fn nothing_leaves_after_an_interrupt_while_a_neighbour_is_asked_for() {
    require!(Capability::NetworkNamespaces, Capability::Program("tcpdump"));
    let (bed, scratch) =
        (Testbed::pair(&Cable::default()).unwrap(), Scratch::new("interrupt-neighbour"));
    let observer = Observer::at(&bed.b, &scratch);
    // in the network of the cable, where nobody has it
    let mut run =
        Run::start(&bed.a, "send --to 10.77.0.77 --engine packet --rate 1kpps --time 60s");
    thread::sleep(Duration::from_millis(500));
    assert!(run.is_running(), "it asks for 3 s");
    let signal = SystemTime::now();
    run.signal(Signal::INT);
    let (code, took) = run.end();
    println!("neighbour: ended {} ms after the signal", took.as_millis());
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(2), "{took:?}");
    stopped("neighbour", &observer.seen(signal), false);
}

#[test]
fn nothing_leaves_after_an_interrupt_while_a_receiver_trickles() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("tcpdump")
    );
    for engine in ["packet", "kernel"] {
        interrupt_while_a_receiver_trickles(engine);
    }
}

fn interrupt_while_a_receiver_trickles(engine: &str) {
    let (bed, scratch) = (cable(), Scratch::new(&format!("interrupt-trickle-{engine}")));
    let observer = Observer::at(&bed.b, &scratch);
    let mut receiver = Run::start(
        &bed.b,
        &format!(
            "receive --interface wb1 --engine packet --port 9 --listen {}:5960 --key {KEY}",
            bed.b.ipv4
        ),
    );
    receiver.wait_for("listening on");
    // what it says passes through here, a byte at a time
    let listener = bed.b.namespace.run(|| TcpListener::bind("0.0.0.0:5961")).unwrap().unwrap();
    let line = format!(
        "send --to {0} --interface wb0 --engine {engine} --rate 1kpps --time 60s --peer {0}:5961 --key {KEY}",
        bed.b.ipv4
    );
    let mut run = Run::start(&bed.a, &line);
    let (mut near, _) = listener.accept().unwrap();
    let to = (bed.b.ipv4, 5960);
    let mut far = bed.b.namespace.run(|| TcpStream::connect(to)).unwrap().unwrap();
    let (mut asks, mut asked) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let asking = thread::spawn(move || {
        let _ = std::io::copy(&mut asks, &mut asked);
        let _ = asked.shutdown(Shutdown::Both);
    });
    let trickle = thread::spawn(move || {
        let mut byte = [0];
        while far.read_exact(&mut byte).is_ok() && near.write_all(&byte).is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    thread::sleep(Duration::from_millis(500));
    assert!(run.is_running(), "it waits for the receiver");
    let signal = SystemTime::now();
    run.signal(Signal::INT);
    let (code, took) = run.end();
    println!("trickling, {engine}: ended {} ms after the signal", took.as_millis());
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(2), "{took:?}");
    stopped(&format!("trickling, {engine}"), &observer.seen(signal), false);
    trickle.join().unwrap();
    asking.join().unwrap();
}

#[test]
fn a_receiver_that_owes_its_results_holds_up_no_second_interrupt() {
    require!(Capability::NetworkNamespaces, Capability::Program("tcpdump"));
    let (bed, scratch) = (cable(), Scratch::new("interrupt-results"));
    let observer = Observer::at(&bed.b, &scratch);
    let address = format!("{}:5960", bed.b.ipv4);
    let mut receiver = Run::start(
        &bed.b,
        &format!("receive --interface wb1 --engine packet --port 9 --listen {address} --key {KEY}"),
    );
    receiver.wait_for("listening on");
    let socket = scratch.path("control");
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 1kpps --time 60s --interval 50ms --peer {address} --key {KEY} \
         --control={socket}",
        bed.b.ipv4
    );
    let mut run = Run::start(&bed.a, &line);
    run.wait_for("Mbit/s");
    assert!(Path::new(&socket).exists());
    receiver.signal(Signal::STOP);
    let signal = SystemTime::now();
    run.signal(Signal::INT);
    thread::sleep(Duration::from_millis(500));
    assert!(run.is_running(), "it waits for the results");
    run.signal(Signal::INT);
    let (code, took) = run.end();
    println!("results: ended {} ms after the second signal", took.as_millis());
    assert_eq!(code, Some(130));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!Path::new(&socket).exists(), "the control socket is left");
    stopped("results", &observer.seen(signal), true);
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "there is no {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
