//! `ab` of Apache asks our server of HTTP, by the system's TCP and by our own: its counts are those of the report.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use wirebeat_report::model::SessionEnd;
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Program, Testbed, require};

use crate::interop::until;
use crate::own_sessions::{free, own_port};
use crate::servers::listens;
use crate::sessions::{balances, run, side};
use crate::world::cable;

const REQUESTS: u64 = 3000;
const SIZE: u64 = 3000;
/// Requests that `ab` has under way at a time.
const CONCURRENCY: u64 = 20;
/// How long `ab` may take for what takes less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `ab` counted.
#[derive(Debug)]
struct Counted {
    complete: u64,
    failed: u64,
    kept_alive: u64,
    transferred: u64,
    content: u64,
}

impl Counted {
    fn of(printed: &str) -> Counted {
        let number = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        };
        let needed = |name| number(name).unwrap_or_else(|| panic!("no '{name}' in: {printed}"));
        Counted {
            complete: needed("Complete requests:"),
            failed: needed("Failed requests:") + number("Non-2xx responses:").unwrap_or(0),
            kept_alive: number("Keep-Alive requests:").unwrap_or(0),
            transferred: needed("Total transferred:"),
            content: needed("HTML transferred:"),
        }
    }
}

fn ask(bed: &Testbed, server: Ipv4Addr, options: &[&str]) -> Counted {
    let url = format!("http://{server}/x");
    let ab = Program::new(&bed.b.namespace, "ab").args(["-q", "-n", &REQUESTS.to_string()]);
    let output = ab
        .args(["-s", "30", "-c", &CONCURRENCY.to_string()])
        .args(options)
        .args([&url])
        .output(PATIENCE)
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Counted::of(&output.stdout)
}

/// What is asked of the server at `a` with the rest of the scenario's `to` in `ours`; `ready` waits until it answers, and says how many
/// requests that took and the bytes of their responses.
fn serves(bed: &Testbed, server: Ipv4Addr, ours: &str, ready: impl FnOnce() -> (u64, u64) + Send) {
    let stop = Stop::new();
    let text =
        format!("{ours}, program: {{ http: {{ size: {SIZE}B }} }} }}\nrun: {{ time: 120s }}\n");
    let ((before, closed, kept), report) = thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let before = ready();
            let closed = ask(bed, server, &[]);
            let kept = ask(bed, server, &["-k"]);
            stop.ask(2);
            (before, closed, kept)
        });
        let report = run(bed, &text, &stop);
        (clients.join().unwrap(), report)
    });
    balances(&report);
    for (counted, kept_alive) in [(&closed, 0), (&kept, REQUESTS)] {
        let came = (counted.complete, counted.failed, counted.kept_alive, counted.content);
        assert_eq!(came, (REQUESTS, 0, kept_alive, REQUESTS * SIZE), "{counted:?}");
    }
    let server = side(&report, "web", SessionEnd::Server);
    assert_eq!(server.messages.responses, before.0 + 2 * REQUESTS, "{:?}", server.messages);
    assert_eq!(server.bytes.sent, before.1 + closed.transferred + kept.transferred);
    assert_eq!(server.bytes.acked, server.bytes.sent);
    // one for each request that does not keep its connection and one for each that asks at a time; ab begins some more at its end,
    // which it resets or closes
    let (opened, least) = (server.starts.opened, before.0 + REQUESTS + CONCURRENCY);
    assert!((least..=least + 2 * CONCURRENCY).contains(&opened), "{opened} {:?}", server.ends);
    let ends = server.ends;
    assert_eq!(ends.in_order + ends.reset, opened, "{ends:?}");
    assert!(ends.in_order >= least, "{ends:?}");
}

#[test]
fn ab_counts_what_our_server_reports_over_the_systems_tcp() {
    require!(Capability::NetworkNamespaces, Capability::Program("ab"));
    let bed = cable();
    let ours = "ports: { a: { namespace: a, addresses: [\"{A}\"] } }\n\
                sessions:\n  web: { to: a, servers: { ports: 80 }";
    serves(&bed, bed.a.ipv4, ours, || {
        until("our server listens", || bed.a.namespace.run(|| listens(80)).unwrap());
        (0, 0)
    });
}

#[test]
fn ab_counts_what_our_server_reports_over_our_own_tcp() {
    require!(Capability::NetworkNamespaces, Capability::Program("ab"), Capability::Program("curl"));
    let bed = cable();
    let address = free(&bed, 77, 1);
    let server: Ipv4Addr = address.split('-').next().unwrap().parse().unwrap();
    let ours = format!(
        "ports: {{ {} }}\nsessions:\n  web: {{ to: a, stack: own, servers: {{ addresses: {server}, ports: 80 }}",
        own_port(&bed, "packet")
    );
    // nothing of the system says that our TCP listens: the first answer does
    serves(&bed, server, &ours, || {
        let url = format!("http://{server}/x");
        let curl = Program::new(&bed.b.namespace, "curl").args([
            "--silent",
            "--max-time",
            "30",
            "--retry",
            "30",
            "--retry-connrefused",
            "--retry-delay",
            "1",
        ]);
        let curl =
            curl.args(["--output", "/dev/null", "--write-out", "%{size_header} %{size_download}"]);
        let output = curl.args([&url]).output(PATIENCE).unwrap();
        let bytes = output.stdout.split_whitespace().map(|word| word.parse::<u64>().unwrap());
        (1, bytes.sum())
    });
}
