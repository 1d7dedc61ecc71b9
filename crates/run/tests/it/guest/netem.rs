//! netem as a known disturber: what is reported of loss, duplicates, delays, reordering and damage is what netem was told, within what
//! chance allows, and what netem counts itself, exactly.
//!
//! netem stands at the port of a bridge through which frames leave to the receiver. Its counters (net/sched/sch_netem.c): "Sent" are
//! frames that left, "dropped" what it lost, "requeues" what it sent before others. What it duplicates enters it once more and may be lost
//! there, so that "dropped" holds copies whose originals arrived; and of a frame that is to be both lost and duplicated one is sent, and
//! nothing counted.

use std::fs;
use std::ops::RangeInclusive;

use wirebeat_report::model::{FlowReport, Report, Stats};
use wirebeat_testbed::{Capability, Testbed, require};

use super::{command, note};
use crate::interop::number_after;
use crate::loss::bridged;
use crate::world::{Engine, balanced, ports, run};

/// A bridge with netem in it.
struct Disturbed(Testbed);

/// What netem counted.
struct Counted {
    left: u64,
    dropped: u64,
    put_before: u64,
}

impl Disturbed {
    fn new(told: &str) -> Disturbed {
        let bed = bridged();
        let line = format!("tc qdisc add dev p1 root netem limit 100000 {told}");
        command(bed.device.as_ref().unwrap(), &line);
        Disturbed(bed)
    }

    /// Runs one flow through it.
    fn run(&self, engine: Engine, flow: &str) -> (Report, Counted) {
        let text = format!(
            "{}flows:\n  x: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ checksum: true }} }} ], {flow} }}\n",
            ports(engine, "")
        );
        let report = run(&text, Some(&self.0));
        balanced(&report);
        // "Sent 5000 bytes 5 pkt (dropped 1, overlimits 3 requeues 0)"
        let shown = command(self.0.device.as_ref().unwrap(), "tc -s qdisc show dev p1");
        let count = |what| number_after(&shown, what).unwrap_or_else(|| panic!("{shown}"));
        let counted = Counted {
            left: count(" bytes "),
            dropped: count("(dropped "),
            put_before: count(" requeues "),
        };
        (report, counted)
    }
}

/// The only flow: frames sent, frames lost, and what came.
fn sides(report: &Report) -> (u64, u64, &wirebeat_report::model::Received) {
    let [FlowReport { sent, loss, received, .. }] = &report.flows[..] else {
        panic!("{:#?}", report.flows)
    };
    (sent.as_ref().unwrap().sent.frames, loss.unwrap().frames, received.as_ref().unwrap())
}

/// Where `level` of all counts lie of `n` that each come with probability `p`; as much is left out below as above.
fn interval(n: u64, p: f64, level: f64) -> RangeInclusive<u64> {
    let odds = (p / (1.0 - p)).ln();
    let outside = (1.0 - level) / 2.0;
    // the logarithm of the probability of exactly k
    let mut exactly = n as f64 * (1.0 - p).ln();
    let (mut up_to, mut lowest) = (0.0, None);
    for k in 0..n {
        up_to += exactly.exp();
        if lowest.is_none() && up_to > outside {
            lowest = Some(k);
        }
        if up_to >= 1.0 - outside {
            return lowest.unwrap_or(0)..=k;
        }
        exactly += ((n - k) as f64 / (k + 1) as f64).ln() + odds;
    }
    lowest.unwrap_or(0)..=n
}

#[test]
fn intervals_of_counts_are_those_of_tables() {
    assert_eq!(interval(100, 0.5, 0.99), 37..=63);
    assert_eq!(interval(10, 0.1, 0.99), 0..=4);
    assert_eq!(interval(5000, 0.1, 0.99), 446..=555);
}

/// Holds a count against what netem was told. One in a hundred is outside of the 99 % interval when all is well, so that this is
/// noted, and the test fails outside of 99.99 %.
fn as_told(what: &str, count: u64, (n, p): (u64, f64)) {
    let (usual, possible) = (interval(n, p, 0.99), interval(n, p, 0.9999));
    let place = if usual.contains(&count) { "within" } else { "outside of" };
    note(&format!(
        "netem, {what}: {count} of {n}, {place} the 99 % interval {} to {} of {:.4}",
        usual.start(),
        usual.end(),
        p
    ));
    assert!(possible.contains(&count), "{what}: {count} of {n}, not in {possible:?} ({p})");
}

/// No more than an emulated machine takes when others keep it from its CPU for a while: netem is to be what loses frames.
const FRAMES: u64 = 4000;
const STEADY: &str = "size: 100B, rate: 1kpps, count: 4000";

fn loss(engine: Engine) {
    let (report, netem) = Disturbed::new("loss 10%").run(engine, STEADY);
    let (sent, lost, received) = sides(&report);
    assert_eq!(sent, FRAMES);
    assert_eq!((lost, received.received.frames), (netem.dropped, netem.left));
    assert_eq!((received.duplicates, received.implausible), (0, 0));
    as_told(&format!("lost, {}", engine.name()), lost, (sent, 0.1));
}

fn duplicates(engine: Engine) {
    let (report, netem) = Disturbed::new("duplicate 5%").run(engine, STEADY);
    let (sent, lost, received) = sides(&report);
    assert_eq!((sent, lost, netem.dropped), (FRAMES, 0, 0));
    assert_eq!(received.received.frames, netem.left);
    assert_eq!(received.unique, sent);
    assert_eq!(received.duplicates, netem.left - sent);
    as_told(&format!("duplicates, {}", engine.name()), received.duplicates, (sent, 0.05));
}

/// A first look at this had 289 dropped and 290 lost: the two are not the same count.
fn loss_and_duplicates(engine: Engine) {
    let (report, netem) = Disturbed::new("loss 10% duplicate 5%").run(engine, STEADY);
    let (sent, lost, received) = sides(&report);
    assert_eq!(sent, FRAMES);
    assert_eq!(received.received.frames, netem.left);
    assert_eq!(received.unique + received.duplicates, netem.left);
    assert_eq!(received.unique + lost, sent);
    // what netem duplicated came through or was dropped as a copy
    let copies_dropped = netem.dropped.checked_sub(lost);
    let copies_dropped =
        copies_dropped.unwrap_or_else(|| panic!("{} dropped, {lost} lost", netem.dropped));
    let copies = received.duplicates + copies_dropped;
    let name = engine.name();
    // a frame that is to be lost and duplicated is sent once
    as_told(&format!("lost of what is duplicated as well, {name}"), lost, (sent, 0.1 * 0.95));
    as_told(&format!("duplicated of what is lost as well, {name}"), copies, (sent, 0.05 * 0.9));
    as_told(&format!("copies dropped, {name}"), copies_dropped, (copies, 0.1));
}

/// Delays up to this, whole buckets only, or those that begin there as well.
fn delays_up_to(delays: &Stats, ns: i64) -> RangeInclusive<u64> {
    let count = |up_to: &dyn Fn(i64, i64) -> bool| {
        let buckets = delays.histogram.iter().filter(|bucket| up_to(bucket.0, bucket.1));
        buckets.map(|bucket| bucket.2).sum::<u64>()
    };
    count(&|_, highest| highest <= ns)..=count(&|lowest, _| lowest <= ns)
}

fn delays(engine: Engine) {
    const MS: i64 = 1_000_000;
    let steady = "size: 100B, rate: 500pps, count: 2000";
    // how long the way is without
    let way = Disturbed::new("").run(engine, steady).0;
    let way = sides(&way).2.one_way_delay_ns.as_ref().unwrap().percentiles.p99.unwrap();
    let (report, netem) = Disturbed::new("delay 20ms 4ms distribution normal").run(engine, steady);
    let (sent, lost, received) = sides(&report);
    assert_eq!((sent, lost, received.unique), (2000, 0, netem.left));
    let delays = received.one_way_delay_ns.as_ref().unwrap();
    // The standard normal distribution at -1, 0, 1 and 2. None is early; an emulated machine that is kept from its CPU is late with some.
    for (bound, share) in [(16, 0.158_655), (20, 0.5), (24, 0.841_345), (28, 0.977_250)] {
        let told = interval(sent, share, 0.9999);
        let early = delays_up_to(delays, bound * MS);
        assert!(early.start() <= told.end(), "{} below {bound} ms, told {told:?}", early.start());
        if share > 0.9 {
            continue;
        }
        let late = delays_up_to(delays, bound * MS + way + MS);
        assert!(
            late.end() >= told.start(),
            "{} below {bound} ms and a way of {way} ns, told {told:?}",
            late.end()
        );
    }
    note(&format!(
        "netem, delays of 20 ms and 4 ms, normal, {}: median {:.2} ms, standard deviation {:.2} ms, over a way of {:.2} ms (99 %)",
        engine.name(),
        delays.percentiles.p50.unwrap() as f64 / MS as f64,
        delays.standard_deviation.unwrap() / MS as f64,
        way as f64 / MS as f64
    ));
}

fn reordering(engine: Engine) {
    // each fifth frame leaves at once and the others 50 ms later: of ten in a burst, eight come behind the last
    let bridge = Disturbed::new("delay 50ms reorder 100% gap 5");
    let (report, netem) = bridge.run(engine, "size: 100B, rate: 100pps, burst: 10, count: 500");
    let (sent, lost, received) = sides(&report);
    assert_eq!((sent, lost, netem.put_before), (500, 0, 100));
    assert_eq!((received.reordered, received.duplicates), (400, 0), "{received:#?}");

    // Of two in a burst the first comes behind the second when it waits, and the second does not. Bursts are far apart: where a machine
    // that was kept from its CPU sends several at once, the second of one would come before the first of others.
    let bridge = Disturbed::new("delay 100ms reorder 20%");
    let (report, netem) = bridge.run(engine, "size: 100B, rate: 10pps, burst: 2, count: 300");
    let (sent, lost, received) = sides(&report);
    assert_eq!((sent, lost), (300, 0));
    let name = engine.name();
    as_told(&format!("put before others, {name}"), netem.put_before, (sent, 0.2));
    as_told(&format!("reordered pairs, {name}"), received.reordered, (sent / 2, 0.8 * 0.2));
}

/// Datagrams and packets that the stack of a namespace dropped because a checksum was wrong or a header damaged.
fn dropped_by_the_stack(bed: &Testbed) -> u64 {
    let read = || fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let text = bed.b.namespace.run(read).unwrap();
    let field = |protocol: &str, name: &str| -> u64 {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
        let (titles, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = titles.split_ascii_whitespace().position(|title| title == name).unwrap();
        values.split_ascii_whitespace().nth(at).unwrap().parse().unwrap()
    };
    field("Udp:", "InCsumErrors") + field("Ip:", "InHdrErrors")
}

/// Each frame that left is somewhere: measured, or counted by what was wrong with it.
fn damage(engine: Engine) {
    let bridge = Disturbed::new("corrupt 5%");
    let before = dropped_by_the_stack(&bridge.0);
    let (report, netem) = bridge.run(engine, STEADY);
    let dropped = dropped_by_the_stack(&bridge.0) - before;
    let (sent, lost, received) = sides(&report);
    assert_eq!((sent, netem.left, netem.dropped), (FRAMES, FRAMES, 0));
    let others = report.others.as_ref().unwrap();
    let counted = others.unprobed
        + others.unknown_flow
        + others.stale
        + others.foreign
        + others.malformed
        + others.fragments;
    let twice = received.duplicates + received.implausible;
    note(&format!(
        "netem, damaged, {}: {} frames of the flow, {lost} lost, {counted} counted as others, {twice} with numbers that do \
         not fit, {dropped} dropped by the stack",
        engine.name(),
        received.received.frames
    ));
    if engine == Engine::Socket {
        let told = report.findings.iter().any(|one| one.message.contains("checksum"));
        assert!(dropped > 0 && told, "{dropped}: {:#?}", report.findings);
        return;
    }
    assert_eq!(received.received.frames + counted, netem.left, "{others:?}");
    assert_eq!(lost, counted + twice, "{others:?}");
}

macro_rules! by_each_engine {
    ($($check:ident)*) => {
        mod kernel { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Netem);
                super::$check(super::Engine::Kernel);
            }
        )* use super::{Capability, require}; }
        mod packet { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces, Capability::Netem);
                super::$check(super::Engine::Packet);
            }
        )* use super::{Capability, require}; }
        mod socket { $(
            #[test]
            fn $check() {
                require!(Capability::NetworkNamespaces, Capability::Netem);
                super::$check(super::Engine::Socket);
            }
        )* use super::{Capability, require}; }
    };
}

by_each_engine!(loss duplicates loss_and_duplicates delays reordering damage);
