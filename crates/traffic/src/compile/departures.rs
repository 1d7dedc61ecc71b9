//! When the frames of each flow leave: limits become one stop and one count, flows of a port are
//! staggered, and no link is asked for more than it carries. How departures follow one another is
//! `pace.rs`.

use std::cell::Cell;
use std::collections::HashMap;

use wirebeat_units::{BitRate, FCS, Nanos, fault};

use super::Links;
use super::mean::Mean;
use crate::program::lengths::{Lengths, Total};
use crate::program::{Departures, Flow, Frames, Stream};
use crate::scenario::{FlowSpec, Invalid, KeyPath, RunSpec, Scenario};

/// Faster than any Ethernet: 1.6 Tb/s, the fastest under way (IEEE P802.3dj). Where the speed of a
/// link is not known, nothing above this is valid.
const FASTEST_LINK: BitRate = BitRate(1_600_000_000_000);

/// The speed of a port's link; what the scenario says comes first.
pub(super) fn speed(scenario: &Scenario, links: &Links, port: &str) -> Option<BitRate> {
    let written = scenario.ports.get(port).and_then(|port| port.speed);
    written.or_else(|| links.ports.get(port)?.speed)
}

/// Where the flow ends by time.
pub(super) fn stop(run: &RunSpec, flow: &FlowSpec) -> Nanos {
    // no copy starts after the stop of its flow, and those that started go on to their end
    if flow.copies().is_some() {
        return run.time.unwrap_or(Nanos::MAX);
    }
    let limited = flow.count.is_some() || flow.bytes.is_some() || flow.replay.is_some();
    match (flow.stop, run.time) {
        (Some(stop), Some(time)) => stop.min(time),
        (Some(limit), None) | (None, Some(limit)) => limit,
        (None, None) if limited => Nanos::MAX,
        (None, None) => flow.start.saturating_add(RunSpec::DEFAULT_TIME),
    }
}

/// The most frames of the flow, by its count and by its bytes. Of `draws` it takes how many are drawn for that.
pub(super) fn count(
    name: &str,
    flow: &FlowSpec,
    frames: &Frames,
    draws: &Cell<u64>,
) -> Result<u64, Invalid> {
    let by_count = flow.count.map_or(u64::MAX, u64::from);
    let Some(bytes) = flow.bytes else { return Ok(by_count) };
    let at = || KeyPath::flow(name).key("bytes");
    if bytes.get() == 0 {
        return Err(at().invalid(fault!("a flow of no bytes sends nothing"; "give at least 1B")));
    }
    let by_bytes = match frames.lengths() {
        Lengths::Fixed(_) => bytes.get().div_ceil(frames.counted(0).bytes.into()),
        _ => in_turn_or_drawn(frames, bytes.get(), by_count, draws).ok_or_else(|| {
            let why = fault!(
                "these are too many frames of different sizes to be counted";
                "give a 'count'"
            );
            at().invalid(why)
        })?,
    };
    Ok(by_count.min(by_bytes))
}

/// How many packets make so many bytes, if they are no more than the second number; `None` where there are not draws
/// enough.
fn in_turn_or_drawn(frames: &Frames, bytes: u64, most: u64, draws: &Cell<u64>) -> Option<u64> {
    let (mut packets, mut left) = (0, bytes);
    if let Lengths::List(list) = frames.lengths()
        && !frames.is_cut()
    {
        // Whole rounds at once; the rest is less than one.
        let Total { packets: count, padded, .. } = list.total();
        let round = (padded + u64::from(FCS) * count).max(1);
        (packets, left) = (left / round * count, left % round);
    }
    let least = left / u64::from(frames.counted_as(frames.lengths().longest()).bytes);
    let begun = packets;
    while left > 0 && packets < most {
        if least.min(most) > draws.get() || packets - begun >= draws.get() {
            return None;
        }
        left = left.saturating_sub(frames.counted(packets).bytes.into());
        packets += 1;
    }
    draws.set(draws.get() - (packets - begun));
    Some(packets)
}

/// Refuses what no link can carry: more than its speed by the flows of a port that send at one time.
pub(super) fn check_load(
    scenario: &Scenario,
    links: &Links,
    flows: &[Flow],
    streams: &mut dyn Iterator<Item = &Stream>,
) -> Result<(), Invalid> {
    // By port: when a stream begins or ends, and by how much that changes the load.
    let mut changes: HashMap<&str, Vec<StreamChange<'_>>> = HashMap::new();
    for stream in streams {
        let Some(flow) = flows.get(stream.flow as usize) else { continue };
        let departures = &stream.departures;
        let Some(rate) = departures.pace.peak_rate() else { continue };
        let load = rate * 1e9 * Mean::of(&stream.frames).on_line() * 8.0;
        // What is drawn may take longer, as it may be denser for a while: this is about averages.
        let lasts = match departures.count {
            u64::MAX => f64::INFINITY,
            count => departures.pace.lasts(count).unwrap_or(f64::INFINITY),
        };
        let sent = departures.start.saturating_add(Nanos::new(lasts as u64));
        let end = departures.stop.min(sent).max(departures.start);
        let of_port = changes.entry(&flow.from).or_default();
        of_port.push(StreamChange { at: departures.start, load, flow: &flow.name });
        of_port.push(StreamChange { at: end, load: -load, flow: &flow.name });
    }
    for port in scenario.ports.keys() {
        let mut changes = changes.remove(port.as_str()).unwrap_or_default();
        let written = scenario.ports.get(port).and_then(|port| port.speed);
        let assumed = links.ports.get(port).is_some_and(|link| link.speed_is_assumed);
        let known = speed(scenario, links, port).filter(|_| written.is_some() || !assumed);
        let speed = known.unwrap_or(FASTEST_LINK);
        // What ends makes room for what begins at the same time.
        changes.sort_by_key(|change| (change.at, change.load > 0.0));
        let mut sum = 0.0;
        for change in changes {
            sum += change.load;
            // A bit per second more is a matter of rounding.
            if sum > speed.0 as f64 + 1.0 {
                let sum = BitRate(sum.round() as u64);
                return Err(KeyPath::flow(change.flow).key("rate").invalid(fault!(
                    "with this flow port '{port}' sends {sum} on the line, and its link carries \
                     {speed}";
                    "lower the rates, or correct the port's 'speed'"
                )));
            }
        }
    }
    Ok(())
}

/// A stream that begins or ends.
struct StreamChange<'a> {
    at: Nanos,
    /// Bits per second on the line; negative at the end.
    load: f64,
    flow: &'a str,
}

/// Spreads the flows with a rate that share a port: flow `i` of `n` begins `i/n` of its own gap later,
/// so that flows of one rate do not fire together. The first begins exactly at its start.
pub(super) fn stagger(flows: &[Flow], streams: &mut [Stream]) {
    let gap = |departures: &Departures| {
        departures.pace.mean_rate().filter(|rate| *rate > 0.0).map(|rate| 1.0 / rate)
    };
    let mut flows_of: HashMap<&str, (u64, u64)> = HashMap::new();
    let firsts = flows.iter().map(|flow| (flow.from.as_str(), flow.streams.start as usize));
    for (from, first) in firsts.clone() {
        let limited = streams.get(first).is_some_and(|stream| gap(&stream.departures).is_some());
        flows_of.entry(from).or_default().1 += u64::from(limited);
    }
    for (from, first) in firsts {
        let Some(stream) = streams.get_mut(first) else { continue };
        let departures = &mut stream.departures;
        let Some(gap) = gap(departures) else { continue };
        let (i, n) = flows_of.entry(from).or_default();
        // A flow that is to send for less than its gap still sends its first burst.
        let span = departures.stop.saturating_sub(departures.start).get();
        let gap = Gap::of(departures, gap * f64::from(departures.burst));
        let offset = gap.part(*i, (*n).max(1)).min(span.saturating_sub(1));
        departures.start = departures.start.saturating_add(Nanos::new(offset));
        *i += 1;
    }
}

/// The time from a burst to the next, exactly where the rate is a fraction.
struct Gap {
    ns: u128,
    of: u128,
}

impl Gap {
    fn of(departures: &Departures, ns: f64) -> Gap {
        match departures.pace.constant() {
            Some(rate) => Gap {
                ns: u128::from(rate.per.get()) * u128::from(departures.burst),
                of: rate.frames.max(1).into(),
            },
            None => Gap { ns: ns as u128, of: 1 },
        }
    }

    /// `i/n` of it in nanoseconds, saturating.
    fn part(&self, i: u64, n: u64) -> u64 {
        // The quotients first, so that the product with i stays below 2^128.
        let parts = self.of * u128::from(n);
        let (i, whole, rest) = (u128::from(i), self.ns / parts, self.ns % parts);
        u64::try_from(whole * i + rest * i / parts).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{CompileError, Files, Link, compile};

    fn scenario(flows: &str, run: &str) -> Scenario {
        let text = format!(
            "ports: {{ a: {{}}, b: {{ speed: 1Gbps }} }}\nflows: {{ {flows} }}\nrun: {{ {run} }}"
        );
        Scenario::from_yaml(&text, "").unwrap()
    }

    fn made(scenario: &Scenario, speed: Option<u64>) -> Result<Vec<Departures>, CompileError> {
        let link = Link { speed: speed.map(BitRate), ..Link::imaginary(0) };
        let ports = [("a".to_owned(), link), ("b".to_owned(), Link::imaginary(1))];
        let program = compile(scenario, &Links { ports: ports.into() }, &Files::default())?;
        Ok(program.streams.into_iter().map(|stream| stream.departures).collect())
    }

    fn of(flows: &str, run: &str) -> Vec<Departures> {
        made(&scenario(flows, run), Some(10_000_000_000)).unwrap()
    }

    #[test]
    fn every_rate_becomes_frames_per_time() {
        let rate = |rate: &str| {
            let flow = format!("x: {{ from: a, to: a, size: 105B, rate: {rate} }}");
            of(&flow, "")[0].pace.constant().map(|rate| rate.per_second())
        };
        assert_eq!(rate("1500pps"), Some(1500.0));
        assert_eq!(rate("840kbps"), Some(1000.0));
        assert_eq!(rate("1Mbps@line"), Some(1000.0));
        // 14 + 20 + 8 of headers, 4 of FCS: 59 of payload.
        assert_eq!(rate("472kbps@payload"), Some(1000.0));
        assert_eq!(rate("10%"), Some(1_000_000.0));
        assert_eq!(rate("unlimited"), None);
    }

    #[test]
    fn a_rate_without_an_answer_is_told_from_a_rate_that_cannot_be() {
        let error = |flow: &str, speed| {
            made(&scenario(&format!("x: {{ from: a, to: b, {flow} }}"), ""), speed).unwrap_err()
        };
        assert_eq!(
            error("rate: 50%", None),
            CompileError::Unknown(KeyPath::flow("x").key("rate").invalid(fault!(
                "a share of the link needs a link with a known speed";
                "give the rate in bps or pps, or give port 'a' its 'speed'"
            )))
        );
        let empty = "packet: [ { ipv6: {} }, { udp: {} } ], probe: off, size: 66B";
        assert_eq!(
            error(&format!("{empty}, rate: 1Mbps@payload"), None),
            CompileError::Invalid(
                KeyPath::flow("x")
                    .key("rate")
                    .invalid("a payload bit rate needs frames with payload")
            )
        );
    }

    #[test]
    fn the_earliest_end_counts_and_a_flow_without_any_has_the_default() {
        let stop = |keys: &str, run: &str| {
            of(&format!("x: {{ from: a, to: a, {keys} }}"), run)[0].stop.get() / 1_000_000_000
        };
        assert_eq!(stop("stop: 3s", "time: 5s"), 3);
        assert_eq!(stop("stop: 7s", "time: 5s"), 5);
        assert_eq!(stop("count: 7", "time: 5s"), 5);
        assert_eq!(stop("stop: 30s", ""), 30);
        assert_eq!(stop("start: 30s", ""), 40);
        assert_eq!(of("x: { from: a, to: a, count: 7 }", "")[0].stop, Nanos::MAX);
        assert_eq!(of("x: { from: a, to: a, count: 7 }", "")[0].count, 7);
    }

    #[test]
    fn bytes_become_frames_whatever_their_sizes() {
        let count = |size: &str, bytes: &str| {
            of(&format!("x: {{ from: a, to: a, size: {size}, bytes: {bytes} }}"), "")[0].count
        };
        assert_eq!(count("100B", "1000B"), 10);
        assert_eq!(count("100B", "1001B"), 11);
        let list = "{ list: [100B, 200B, 300B] }";
        for (bytes, frames) in
            [(1_u64, 1), (100, 1), (101, 2), (600, 3), (601, 4), (6_000_000_301, 30_000_003)]
        {
            assert_eq!(count(list, &format!("{bytes}B")), frames, "{bytes}");
        }
        assert_eq!(count(list, "18446744073709551600B"), u64::MAX / 600 * 3);
        let drawn = count("{ uniform: { min: 100B, max: 300B } }", "200kB");
        assert!((900..1100).contains(&drawn), "{drawn}");
        let too_many = "x: { from: a, to: a, size: imix, bytes: 1000TB }";
        let why = made(&scenario(too_many, ""), None).unwrap_err().to_string();
        assert!(why.contains("too many frames of different sizes"), "{why}");
    }

    #[test]
    fn draws_are_counted_over_all_flows() {
        let flow = scenario("x: { from: a, to: a, size: imix, rate: 1pps }", "");
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let program = compile(&flow, &links, &Files::default()).unwrap();
        let (all, draws) = (&program.streams[0].frames, Cell::new(10_000));
        let frames = |bytes| in_turn_or_drawn(all, bytes, u64::MAX, &draws);
        let first = frames(1_000_000).unwrap();
        assert_eq!((frames(1_000_000), draws.get()), (Some(first), 10_000 - 2 * first));
        assert_eq!(frames(1_000_000_000), None);
        assert_eq!(frames(200), Some(1), "the length of frame 0 is drawn once more");
    }

    #[test]
    fn flows_of_a_port_are_staggered_by_parts_of_their_own_gap() {
        let flows = "x: { from: a, to: b, rate: 1kpps, start: 1s }, y: { from: a, to: b, rate: 1kpps }, \
                     z: { from: b, to: a, rate: 1kpps }, w: { from: a, to: b, rate: 2kpps, burst: 4 }";
        let starts: Vec<u64> = of(flows, "").iter().map(|d| d.start.get()).collect();
        assert_eq!(starts, [1_000_000_000, 1_000_000 / 3, 0, 2_000_000 * 2 / 3]);
    }

    #[test]
    fn flows_that_are_not_staggered_begin_when_they_say() {
        let flow = "from: a, to: b, rate: 10pps, stop: 300ms";
        let flows = format!("x: {{ {flow} }}, y: {{ {flow} }}");
        let starts: Vec<u64> = of(&flows, "stagger: off").iter().map(|d| d.start.get()).collect();
        assert_eq!(starts, [0, 0]);
    }

    #[test]
    fn a_staggered_flow_of_less_than_a_gap_still_sends() {
        let flow = "from: a, to: b, rate: 1/10s, stop: 1s";
        for departures in of(&format!("x: {{ {flow} }}, y: {{ {flow} }}"), "") {
            assert!(departures.start < departures.stop);
        }
    }

    #[test]
    fn a_count_ends_a_flow_when_its_frames_have_left() {
        // 60 % in one tenth of the time: 8 s for a count that would take 0.8 s at that rate.
        let departures = "departures: { on-off: { on: 10ms, off: 90ms } }";
        let ramp = "rate: { ramp: { from: 1pps, to: 60%, over: 10s } }";
        for (slow, ends) in [
            (format!("rate: 60%, {departures}, count: 39000"), 8_000),
            (format!("{ramp}, count: 243749"), 10_000),
            ("rate: 60%, departures: exponential, count: 243749".to_owned(), 5_000),
            ("rate: 60%, count: 243749".to_owned(), 5_000),
        ] {
            let flows = |start: u32| {
                format!(
                    "x: {{ from: b, to: a, size: 1518B, {slow} }}, \
                     y: {{ from: b, to: a, rate: 60%, start: {start}ms }}"
                )
            };
            assert!(made(&scenario(&flows(ends + 100), ""), None).is_ok(), "{slow}");
            let early = made(&scenario(&flows(ends - 100), ""), None);
            assert!(early.is_err(), "{slow}");
        }
    }

    #[test]
    fn no_link_is_asked_for_more_than_it_carries() {
        let why = |flows: &str, speed| made(&scenario(flows, ""), speed).unwrap_err().to_string();
        let two = "x: { from: a, to: b, rate: 60% }, y: { from: a, to: b, rate: 5Gbps@line }";
        assert_eq!(
            why(two, Some(10_000_000_000)),
            "flows.y.rate: with this flow port 'a' sends 11Gbps on the line, and its link carries \
             10Gbps; lower the rates, or correct the port's 'speed'"
        );
        assert!(why("x: { from: b, to: a, rate: 1001Mbps@line }", None).contains("carries 1Gbps"));
        assert!(why("x: { from: a, to: b, rate: 3Gpps }", None).contains("carries 1.6Tbps"));
        assert!(why(two, None).starts_with("flows.x.rate: a share of the link needs"));
        let one_after_the_other = "x: { from: b, to: a, rate: 60%, stop: 2s }, \
             y: { from: b, to: a, rate: 60%, start: 2s }, z: { from: b, to: a, rate: 40% }";
        assert!(made(&scenario(one_after_the_other, ""), None).is_ok());
        let at_once = one_after_the_other.replace("start: 2s", "start: 1999ms");
        assert!(why(&at_once, None).starts_with("flows.y.rate: with this flow"));
        // Bursts of a frame each, ten times as many as the rate within them says.
        let short = "x: { from: b, to: a, size: 1518B, rate: 10kpps, departures: { on-off: { on: 1us, off: 9us } } }";
        assert!(
            why(short, None).contains("port 'b' sends 1.2304Gbps on the line"),
            "{}",
            why(short, None)
        );
        let all = "x: { from: a, to: b, rate: 33.3333% }, y: { from: a, to: b, rate: 66.6667% }";
        assert!(made(&scenario(all, ""), Some(9_999_999_999)).is_ok());
    }
}
