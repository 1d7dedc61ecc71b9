//! Our own CUBIC beside Linux's, through a bottleneck and over a path that loses.

use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{ImpairedCable, Impairment, Options as Cable};
use wirebeat_traffic::scenario::Scenario;

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Series;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::whole;

const PROSE: &str = "\
A cable of two tap devices with a program between them: 100 Mbit/s with preamble and gap, a round trip of 50 ms, a queue of one bandwidth-delay \
product. Two senders at a time share it for 45 s: ours and the system's, both with CUBIC, and two of the system's to compare. Then each \
sends by itself for 20 s over a path that loses 1 % of its frames, in each round other ones. Rates are what the receivers got.";

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
/// How long two share it, and how long one sends over a path that loses.
const SHARED: u64 = 45;
const LOSSY: u64 = 20;
/// The share that ours may have.
const SHARE: (f64, f64) = (0.35, 0.65);
/// How much of the system's rate ours is to have at least over a path that loses.
const LEAST: f64 = 0.75;
/// An address that nobody has.
const OURS: &str = "10.77.0.100";

/// A sender at the near end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Own,
    Linux,
    /// A second one of the system's.
    Other,
}

impl Sender {
    /// Its name in the scenario, its port at the receiver, and the keys of its end.
    fn keys(self) -> (&'static str, u16, String) {
        let linux = "from: l, tcp: { congestion: cubic }".to_owned();
        match self {
            Sender::Own => {
                let clients = format!("clients: {{ addresses: {OURS} }}");
                let keys = format!("from: a, stack: own, {clients}, tcp: {{ congestion: cubic }}");
                ("own", 5001, keys)
            }
            Sender::Linux => ("linux", 5002, linux),
            Sender::Other => ("other", 5003, linux),
        }
    }
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestants = [
        Contestant::new("one bottleneck: ours and the system's", |bench: &Bench| {
            shared(bench, [Sender::Own, Sender::Linux])
        }),
        Contestant::new("one bottleneck: twice the system's", |bench: &Bench| {
            shared(bench, [Sender::Linux, Sender::Other])
        }),
        Contestant::new("1 % lost", lossy),
    ];
    let brief =
        |[first, second]: &[f64; 2]| format!("{:.1} and {:.1} Mbit/s", first / 1e6, second / 1e6);
    let measured = in_turn(bench, &contestants, brief);
    let names = [
        ("one bottleneck: ours, the system's", "share of ours"),
        ("one bottleneck: the system's twice", "share of the first"),
        ("1 % lost, each by itself: ours, the system's", "of the system's"),
    ];
    let mut table = Table::new(&["what", "first", "second", "ratio", "remark"]);
    let mut verdicts = Vec::new();
    for (number, ((name, ratio), one)) in names.into_iter().zip(&measured).enumerate() {
        let is_shared = number < 2;
        let series = of_pair(one, is_shared);
        let rate = |at: usize| {
            let rates = one.series(|rates| rates.get(at).copied().unwrap_or(0.0));
            format::series(&rates, |bits| format!("{:.1} Mbit/s", bits / 1e6))
        };
        let shown = format::series(&series, |share| format!("{share:.2}"));
        table.row(vec![
            name.to_owned(),
            rate(0),
            rate(1),
            if one.values.is_empty() { NOTHING.into() } else { format!("{shown} {ratio}") },
            one.remark(),
        ]);
        let target = match number {
            0 => format!(
                "our CUBIC beside Linux's, share of a bottleneck {} to {}",
                SHARE.0, SHARE.1
            ),
            2 => format!("our CUBIC at 1 % loss ≥ {LEAST} × Linux's"),
            _ => continue,
        };
        verdicts.push(match series.median() {
            Some(median) => {
                let holds = match number {
                    0 => (SHARE.0..=SHARE.1).contains(&median),
                    _ => median >= LEAST,
                };
                Verdict::of(target, shown, holds)
            }
            None => Verdict::unmeasured(target, one.reason()),
        });
    }
    Chapter {
        title: "Congestion control beside Linux's",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts,
    }
}

/// The share of the first of both, or the first over the second.
fn of_pair(one: &Measured<[f64; 2]>, is_shared: bool) -> Series {
    one.series(|[first, second]| first / if is_shared { first + second } else { *second })
}

/// A trial looks for a moment.
fn seconds(bench: &Bench, usual: u64) -> u64 {
    if bench.extent == Extent::Trial { 2 } else { usual }
}

/// What two senders get through one bottleneck, in bits a second.
fn shared(bench: &Bench, senders: [Sender; 2]) -> Result<[f64; 2], Failure> {
    let seconds = seconds(bench, SHARED);
    let cable = ImpairedCable::new(&Cable::default(), WAY, WAY)?;
    let report = run(&cable, &senders, seconds)?;
    let [first, second] = senders.map(|sender| received(&report, sender, seconds));
    Ok([first?, second?])
}

/// What ours and the system's get over a path that loses, in bits a second.
fn lossy(bench: &Bench) -> Result<[f64; 2], Failure> {
    let seconds = seconds(bench, LOSSY);
    // frames that are lost differ from round to round, and are the same for both
    let seed = MonotonicClock.now().get();
    let way = Impairment { loss: 0.01, seed, ..WAY };
    let alone = |sender| {
        let cable = ImpairedCable::new(&Cable::default(), way, WAY)?;
        received(&run(&cable, &[sender], seconds)?, sender, seconds)
    };
    Ok([alone(Sender::Own)?, alone(Sender::Linux)?])
}

fn received(report: &Report, sender: Sender, seconds: u64) -> Result<f64, Failure> {
    let there = format!("{}-there", sender.keys().0);
    let mut groups = report.sessions.iter();
    let group = groups.find(|group| group.name == there && group.end == SessionEnd::Server);
    let group = group.ok_or("the report lacks a receiver")?;
    match group.bytes.delivered {
        0 => Err("nothing was received".into()),
        bytes => Ok(bytes as f64 * 8.0 / seconds as f64),
    }
}

/// Bulk data from each of `senders` at the near end of `cable` to a receiver of the system's TCP.
fn run(cable: &ImpairedCable, senders: &[Sender], seconds: u64) -> Result<Report, Failure> {
    let bed = &cable.bed;
    let mut ports = format!("  b: {{ namespace: b, addresses: [{}] }}\n", bed.b.ipv4);
    if senders.contains(&Sender::Own) {
        let interface = bed.a.interface();
        ports += &format!("  a: {{ namespace: a, interface: {interface}, engine: packet }}\n");
    }
    if senders.iter().any(|sender| *sender != Sender::Own) {
        ports += "  l: { namespace: a }\n";
    }
    let mut groups = String::new();
    for (name, port, keys) in senders.iter().map(|sender| sender.keys()) {
        groups += &format!(
            "  {name}: {{ {keys}, servers: {{ addresses: {}, ports: {port} }}, program: bulk, users: 1, count: 1, timeout: 10s }}\n  \
             {name}-there: {{ to: b, servers: {{ ports: {port} }}, program: bulk, timeout: 10s }}\n",
            bed.b.ipv4
        );
    }
    let text = format!("ports:\n{ports}sessions:\n{groups}run: {{ time: {seconds}s }}\n");
    let scenario = Scenario::from_yaml(&text, "bench").map_err(|why| format!("{why}\n{text}"))?;
    let named = [("a", &bed.a), ("b", &bed.b)];
    let namespaces = named.map(|(name, end)| (name.to_owned(), end.namespace.clone())).into();
    let options = Options { namespaces, ..Options::default() };
    whole(prepare(&scenario, options)?.start(&mut Silent, &Stop::new()))
}
