//! Our own CUBIC beside Linux's: `measure_fairness share|loss [SECONDS]`, as root. Two namespaces, 100 Mbit/s, a round trip of 50 ms.
//!
//! - `share`: two at a time through one bottleneck with a queue of one bandwidth-delay product: ours and Linux's, and twice Linux's to compare.
//! - `loss`: each by itself in turn, where the path loses 1 % of the data's frames.
//!
//! Prints what arrived in Mbit/s, in thirds of the time as well, and how often each sent again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a tool of its own")]

use std::time::Duration;

use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{ImpairedCable, Impairment, Options as Cable};
use wirebeat_traffic::scenario::Scenario;

const RATE: u64 = 100_000_000;
const DELAY: Duration = Duration::from_millis(25);
/// Bytes under way in a round trip at that rate.
const PRODUCT: u64 = RATE / 8 / 20;
const WAY: Impairment = Impairment {
    delay: DELAY,
    loss: 0.0,
    duplicates: 0.0,
    held: 0.0,
    hold: DELAY,
    rate: Some(RATE),
    queue: PRODUCT,
    seed: 1,
};
/// An address that nobody has.
const OURS: &str = "10.77.0.100";

/// A sender at `a` and what receives from it at `b`.
struct Sender {
    name: &'static str,
    port: u16,
    /// Of its end alone.
    keys: String,
}

fn own() -> Sender {
    let keys = format!(
        "from: a, stack: own, clients: {{ addresses: {OURS} }}, tcp: {{ congestion: cubic }}"
    );
    Sender { name: "own", port: 5001, keys }
}

fn linux(name: &'static str, port: u16) -> Sender {
    Sender { name, port, keys: "from: l, tcp: { congestion: cubic }".to_owned() }
}

fn measure(cable: &ImpairedCable, senders: &[Sender], seconds: u64) -> Report {
    let bed = &cable.bed;
    let mut text = format!(
        "ports:\n  a: {{ namespace: a, interface: {}, engine: packet }}\n  l: {{ namespace: a }}\n  b: {{ namespace: b, addresses: [{}] }}\n\
         sessions:\n",
        bed.a.interface(),
        bed.b.ipv4
    );
    for Sender { name, port, keys } in senders {
        text += &format!(
            "  {name}: {{ {keys}, servers: {{ addresses: {}, ports: {port} }}, program: bulk, users: 1, count: 1, timeout: 10s }}\n  \
             {name}-there: {{ to: b, servers: {{ ports: {port} }}, program: bulk, timeout: 10s }}\n",
            bed.b.ipv4
        );
    }
    // a port without sessions is none
    let used =
        |port: &str| senders.iter().any(|sender| sender.keys.starts_with(&format!("from: {port}")));
    let lines = text.lines().filter(|line| {
        ["a", "l"]
            .iter()
            .all(|port| used(port) || !line.starts_with(&format!("  {port}: {{ namespace")))
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    text += &format!("\nrun: {{ time: {seconds}s }}\n");
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let named = [("a", &bed.a), ("b", &bed.b)];
    let named = named.map(|(name, end)| (name.to_owned(), end.namespace.clone()));
    let options = Options { namespaces: named.into(), ..Options::default() };
    let prepared = prepare(&scenario, options).unwrap_or_else(|error| panic!("{error}"));
    prepared.start(&mut Silent, &Stop::new())
}

/// What arrived of a sender, in Mbit/s, and the segments that it sent again.
fn print(report: &Report, name: &str, seconds: u64) -> f64 {
    let of = |name: &str, end| {
        let mut all = report.sessions.iter();
        all.find(|group| group.name == name && group.end == end).unwrap()
    };
    let there = of(&format!("{name}-there"), SessionEnd::Server);
    let rate = there.bytes.delivered as f64 * 8.0 / seconds as f64 / 1e6;
    let again = match report.stacks.first() {
        Some(stack) if name == "own" => {
            let kinds = stack.segments.retransmitted();
            let kinds: Vec<_> =
                kinds.iter().map(|(what, count)| format!("{what} {count}")).collect();
            format!("{}; {:?}", kinds.join(", "), stack.recoveries)
        }
        _ => format!("sent again {}", of(name, SessionEnd::Client).segments.retransmitted),
    };
    println!("{name:6} {rate:6.1} Mbit/s  {again}");
    rate
}

/// Two senders through one bottleneck.
fn share(senders: &[Sender; 2], seconds: u64) {
    let names = senders.each_ref().map(|sender| sender.name);
    println!("{} and {}: one bottleneck, {seconds} s", names[0], names[1]);
    let cable = ImpairedCable::new(&Cable::default(), WAY, WAY).unwrap();
    let report = measure(&cable, senders, seconds);
    let rates = names.map(|name| print(&report, name, seconds));
    let percent = |rates: [f64; 2]| 100.0 * rates[0] / (rates[0] + rates[1]);
    let thirds = [0, 1, 2].map(|third| {
        percent(names.map(|name| {
            let within = report.session_intervals.iter().filter(|interval| {
                (third..third + 1).contains(&(interval.from_ns * 3 / (seconds * 1_000_000_000)))
            });
            let ends = within.flat_map(|interval| &interval.sessions);
            let there = ends.filter(|end| end.name == format!("{name}-there"));
            there.map(|end| end.delivered_bytes as f64).sum()
        }))
    });
    let [first, second, last] = thirds;
    println!(
        "{} has {:.0} % of it; in thirds {first:.0} %, {second:.0} %, {last:.0} %; {:?}",
        names[0],
        percent(rates),
        cable.carried()[0]
    );
}

/// Each by itself over a path that loses.
fn loss(seconds: u64) {
    for seed in 1..=3 {
        println!("1 % lost, {seconds} s each, seed {seed}");
        let lossy = Impairment { loss: 0.01, seed, ..WAY };
        let rates = [own(), linux("linux", 5002)].map(|sender| {
            let cable = ImpairedCable::new(&Cable::default(), lossy, WAY).unwrap();
            let name = sender.name;
            let report = measure(&cable, &[sender], seconds);
            print(&report, name, seconds)
        });
        println!("own has {:.2} of Linux's", rates[0] / rates[1]);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let seconds = arguments.next().map_or(30, |text| text.parse().unwrap());
    match what.as_str() {
        "share" => {
            share(&[own(), linux("linux", 5002)], seconds);
            share(&[linux("first", 5003), linux("second", 5004)], seconds);
        }
        "loss" => loss(seconds),
        _ => panic!("measure_fairness share|loss [SECONDS]"),
    }
}
