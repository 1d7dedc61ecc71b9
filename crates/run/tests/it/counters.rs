//! Counters of others agree with the report, over a wire that loses, reorders and duplicates: tshark on captures at both ends, and the
//! system's own counters (`nstat`, `ss -ti`) where one end is the system's TCP.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_report::model::SessionEnd;
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, End, Process, Program, Testbed, require};

use crate::impaired_wire::bad;
use crate::own_sessions::{free, own_port};
use crate::servers::Folder;
use crate::sessions::{StopAfter, balances, run_observed, side};

/// How long a program may take for what takes a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sessions of HTTP, and of bulk data there and back.
const SESSIONS: [u64; 3] = [60, 4, 4];

/// A capture of TCP at one end, of headers.
struct Capture {
    process: Process,
    file: PathBuf,
}

impl Capture {
    fn start(end: &End, folder: &Folder) -> Capture {
        let file = folder.path().join(format!("{}.pcap", end.interface()));
        let tcpdump = Program::new(&end.namespace, "tcpdump").args([
            "-i",
            end.interface(),
            "-s",
            "128",
            "-B",
            "65536",
            "-Z",
            "root",
            "-n",
            "-w",
        ]);
        let process = tcpdump.args([&file]).args(["tcp"]).spawn().unwrap();
        process.wait_for("listening on", PATIENCE).unwrap();
        Capture { process, file }
    }

    /// Ends it, and says which file it is, whole.
    fn end(self) -> PathBuf {
        self.process.interrupt();
        let output = self.process.wait(PATIENCE).unwrap();
        assert!(output.stderr.contains("0 packets dropped by kernel"), "{}", output.stderr);
        self.file
    }
}

/// The numbers of the frames of a capture that tshark finds with a filter.
fn frames(bed: &Testbed, file: &Path, filter: &str) -> Vec<u64> {
    let tshark = Program::new(&bed.a.namespace, "tshark").args(["-r"]).args([file]);
    let tshark = tshark.args(["-Y", filter, "-T", "fields", "-e", "frame.number"]);
    let output = tshark.output_limit(16 << 20).output(PATIENCE).unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout.lines().map(|line| line.parse().unwrap()).collect()
}

/// How many frames of a capture tshark finds with each of the filters.
fn found<const N: usize>(bed: &Testbed, file: &Path, filters: [&str; N]) -> [u64; N] {
    filters.map(|filter| frames(bed, file, filter).len() as u64)
}

/// TCP's counters of the system at an end.
fn nstat(end: &End) -> BTreeMap<String, u64> {
    let nstat = Program::new(&end.namespace, "nstat").args(["-asz"]);
    let printed = nstat.output(PATIENCE).unwrap().stdout;
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    printed.lines().filter_map(line).collect()
}

/// What `ss -ti` says of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Socket {
    data_segments: u64,
    retransmitted: u64,
    acked: u64,
}

/// Connections of port 5001 here, by the other end's address and port.
fn sockets(end: &End) -> BTreeMap<String, Socket> {
    let ss = Program::new(&end.namespace, "ss").args(["-tinOH", "sport", "=", ":5001"]);
    let printed = ss.output(PATIENCE).unwrap().stdout;
    let connection = |line: &str| {
        let peer = line.split_whitespace().nth(4)?.to_owned();
        let number = |name: &str| -> Option<u64> {
            let (_, rest) = line.split_once(&format!(" {name}:"))?;
            // "retrans:0/12": outstanding, and of all time
            rest.split_whitespace().next()?.rsplit('/').next()?.parse().ok()
        };
        Some((
            peer,
            Socket {
                data_segments: number("data_segs_out")?,
                retransmitted: number("retrans").unwrap_or(0),
                acked: number("bytes_acked")?,
            },
        ))
    };
    printed.lines().filter_map(connection).collect()
}

/// The filter of tshark for what is sent again. It looks at sequence numbers alone: a segment behind which later ones were seen is one
/// of these two, by the time that passed since ("fast" and "spurious" are among the first). It would call one byte at the end of all data
/// a keep-alive; no message here ends with such a segment.
const AGAIN: &str = "(tcp.analysis.retransmission || tcp.analysis.out_of_order)";

fn scenario(bed: &Testbed) -> String {
    let http = "program: { http: { size: 20kB, body: 5kB, method: POST, requests: 3 } }";
    let up = "program: { bulk: { bytes: 3MB } }";
    let down = "program: { http: { size: 2MB } }";
    let mut text = format!(
        "ports: {{ {}, b: {{ namespace: b, addresses: [\"{{B}}\"] }} }}\nsessions:\n",
        own_port(bed, "packet")
    );
    // downloads stay open for a while with nothing under way, to be looked at
    let groups = [
        ("web", http, 80, format!("count: {}, rate: 50/s", SESSIONS[0])),
        ("up", up, 5000, format!("count: {}", SESSIONS[1])),
        ("down", down, 5001, format!("count: {}, hold: 4s", SESSIONS[2])),
    ];
    for (number, (name, program, port, starts)) in (0..).zip(groups) {
        text += &format!(
            "  {name}: {{ from: a, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: \"{{B}}\", ports: {port} }}, \
             {program}, {starts}, timeout: 100s }}\n  \
             {name}-there: {{ to: b, servers: {{ ports: {port} }}, {program}, timeout: 100s }}\n",
            free(bed, 100 + 8 * number, 8),
        );
    }
    text + "run: { time: 100s }\n"
}

#[test]
fn counters_of_others_agree_over_a_bad_wire() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Tun,
        Capability::VirtualCable,
        Capability::Program("tcpdump"),
        Capability::Program("tshark"),
        Capability::Program("nstat"),
        Capability::Program("ss")
    );
    let cable = bad(41);
    let bed = &cable.bed;
    let folder = Folder::new();
    let captures = [&bed.a, &bed.b].map(|end| Capture::start(end, &folder));
    let stop = Stop::new();
    let over = AtomicBool::new(false);
    let (sockets, report) = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = BTreeMap::new();
            while !over.load(Ordering::Acquire) {
                seen.extend(sockets(&bed.b));
                thread::sleep(Duration::from_millis(100));
            }
            seen
        });
        let mut observer = StopAfter::new(SESSIONS.iter().sum(), &stop);
        let report = run_observed(bed, &scenario(bed), &stop, &mut observer);
        over.store(true, Ordering::Release);
        (looking.join().unwrap(), report)
    });
    let counted = nstat(&bed.b);
    let files = captures.map(Capture::end);
    balances(&report);
    let b = bed.b.ipv4;
    let (there, back) = (format!("ip.dst == {b}"), format!("ip.src == {b}"));
    let with = |way: &str, what: &str| format!("{way} && {what}");

    // our own TCP, and what tshark sees at its end
    let stack = &report.stacks[0];
    let fast = with(&there, "tcp.analysis.fast_retransmission");
    let [sent, again, fast] = found(bed, &files[0], [&there, &with(&there, AGAIN), &fast]);
    let retransmitted: u64 = stack.segments.retransmitted().iter().map(|(_, count)| count).sum();
    assert_eq!((sent, again), (stack.segments.all, retransmitted), "{:?}", stack.segments);
    // two duplicate acknowledgments in the 20 ms before are what tshark calls fast
    assert!((1..=retransmitted).contains(&fast), "{fast} {:?}", stack.segments);
    // what comes behind the last segment of ours may find nobody: the port is left when its last session has ended
    let last = frames(bed, &files[0], &there).into_iter().max();
    let received = frames(bed, &files[0], &back);
    let heard = received.iter().filter(|number| Some(**number) < last).count() as u64;
    let counts = heard.saturating_sub(stack.link.receive_drops)..=received.len() as u64;
    assert!(counts.contains(&stack.arrivals.packets), "{counts:?} {:?}", stack.arrivals);

    // the system's, and what tshark sees at its end
    let fin = with(&back, &format!("tcp.flags.fin == 1 && {AGAIN}"));
    let syn = with(&back, &format!("tcp.flags.syn == 1 && {AGAIN}"));
    let [received, sent, again, fin, syn] =
        found(bed, &files[1], [&there, &back, &with(&back, AGAIN), &fin, &syn]);
    let name = |name: &str| counted[name];
    assert_eq!((name("TcpInSegs"), name("TcpRetransSegs")), (received, again));
    // the system has a SYN-ACK that it sends again in both of its counters, and other segments in one
    assert_eq!(name("TcpOutSegs") + name("TcpRetransSegs"), sent + syn);

    // the report of the system's end: a socket is asked when both have closed, and may send its FIN again after that
    let ends = ["web-there", "up-there", "down-there"];
    let ends = ends.map(|name| side(&report, name, SessionEnd::Server));
    let reported: u64 = ends.iter().map(|end| end.segments.retransmitted).sum();
    assert!(reported <= again && again - reported <= fin, "{reported} {again} {fin}");
    let down = ends[2];
    assert_eq!(sockets.len() as u64, SESSIONS[2], "{sockets:#?}");
    let sum = |of: fn(&Socket) -> u64| sockets.values().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.data_segments), down.segments.data, "{sockets:#?}");
    assert_eq!(sum(|it| it.acked), down.bytes.acked);
    // looked at before the FIN
    let seen = sum(|it| it.retransmitted);
    let counts = seen..=seen + fin;
    assert!(counts.contains(&down.segments.retransmitted), "{down:?} {sockets:#?}");
}
