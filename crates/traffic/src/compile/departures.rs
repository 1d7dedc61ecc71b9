//! When the frames of each flow leave: rates of any kind become frames per time, limits become one
//! stop and one count, and flows of a port are staggered.

use std::collections::HashMap;

use wirebeat_units::{BitRate, FrameLen, FrameRate, Nanos, RateError};

use super::{CompileError, Links};
use crate::program::Departures;
use crate::spec::{FlowSpec, Invalid, KeyPath, RunSpec, Scenario};

/// Faster than any Ethernet: 1.6 Tb/s, the fastest under way (IEEE P802.3dj). Where the speed of a
/// link is not known, nothing above this can be meant.
const FASTEST_LINK: BitRate = BitRate(1_600_000_000_000);

/// The departures of every flow, in order.
pub(super) fn departures(
    scenario: &Scenario,
    links: &Links,
) -> Result<Vec<Departures>, CompileError> {
    let mut flows = Vec::with_capacity(scenario.flows.len());
    for (name, flow) in &scenario.flows {
        let speed = speed(scenario, links, &flow.from);
        flows.push(Departures {
            rate: frame_rate(name, flow, speed)?,
            burst: flow.burst.get(),
            start: flow.start,
            stop: stop(&scenario.run, flow),
            count: flow.count.map_or(u64::MAX, u64::from),
        });
    }
    check_load(scenario, links, &flows)?;
    stagger(scenario, &mut flows);
    Ok(flows)
}

/// The speed of a port's link; what the scenario says comes first.
fn speed(scenario: &Scenario, links: &Links, port: &str) -> Option<BitRate> {
    let written = scenario.ports.get(port).and_then(|port| port.speed);
    written.or_else(|| links.ports.get(port)?.speed)
}

fn frame_rate(
    name: &str,
    flow: &FlowSpec,
    speed: Option<BitRate>,
) -> Result<Option<FrameRate>, CompileError> {
    let len = flow.frame_len();
    let payload = flow.headers(name)?.network.version().payload_len(len).unwrap_or(0);
    flow.rate.frame_rate(len, payload, speed).map_err(|error| {
        let at = KeyPath::flow(name).key("rate");
        match error {
            RateError::NoLinkSpeed => CompileError::Unknown(
                at.invalid(format!("{error}, or give port '{}' its 'speed'", flow.from)),
            ),
            RateError::NoPayload => at.invalid(error.to_string()).into(),
        }
    })
}

/// Where the flow ends by time.
fn stop(run: &RunSpec, flow: &FlowSpec) -> Nanos {
    match (flow.stop, run.time) {
        (Some(stop), Some(time)) => stop.min(time),
        (Some(limit), None) | (None, Some(limit)) => limit,
        (None, None) if flow.count.is_some() => Nanos::MAX,
        (None, None) => flow.start.saturating_add(RunSpec::DEFAULT_TIME),
    }
}

/// Refuses what no link can carry: more than its speed by the flows of a port that send at one time.
fn check_load(scenario: &Scenario, links: &Links, flows: &[Departures]) -> Result<(), Invalid> {
    // By port: when a flow begins or ends, and by how much that changes the load.
    let mut changes: HashMap<&str, Vec<Change<'_>>> = HashMap::new();
    for ((name, flow), departures) in scenario.flows.iter().zip(flows) {
        let Some(rate) = departures.rate else { continue };
        let load = i128::try_from(line_rate(rate, flow.frame_len())).unwrap_or(i128::MAX);
        let sent = departures.start.saturating_add(rate.deadline(departures.count));
        let end = departures.stop.min(sent).max(departures.start);
        let of_port = changes.entry(&flow.from).or_default();
        of_port.push(Change { at: departures.start, load, flow: name });
        of_port.push(Change { at: end, load: -load, flow: name });
    }
    for port in scenario.ports.keys() {
        let mut changes = changes.remove(port.as_str()).unwrap_or_default();
        let speed = speed(scenario, links, port).unwrap_or(FASTEST_LINK);
        // What ends makes room for what begins at the same time.
        changes.sort_by_key(|change| (change.at, change.load > 0));
        let mut sum = 0_i128;
        for change in changes {
            sum = sum.saturating_add(change.load);
            if sum > i128::from(speed.0) {
                let sum = BitRate(u64::try_from(sum).unwrap_or(u64::MAX));
                return Err(KeyPath::flow(change.flow).key("rate").invalid(format!(
                    "with this flow port '{port}' sends {sum} on the line, and its link carries \
                     {speed}; lower the rates, or correct the port's 'speed'"
                )));
            }
        }
    }
    Ok(())
}

/// A flow that begins or ends.
struct Change<'a> {
    at: Nanos,
    /// Bits per second on the line; negative at the end.
    load: i128,
    flow: &'a str,
}

/// Bits per second on the line.
fn line_rate(rate: FrameRate, len: FrameLen) -> u128 {
    let bits_in_a_second = u128::from(len.on_line()) * 8 * 1_000_000_000;
    u128::from(rate.frames) * bits_in_a_second / u128::from(rate.per.get().max(1))
}

/// Spreads the flows with a rate that share a port: flow `i` of `n` begins `i/n` of its own gap later,
/// so that flows of one rate do not fire together. The first begins exactly at its start.
fn stagger(scenario: &Scenario, flows: &mut [Departures]) {
    let mut flows_of: HashMap<&str, (u128, u128)> = HashMap::new();
    for (flow, departures) in scenario.flows.values().zip(flows.iter()) {
        flows_of.entry(&flow.from).or_default().1 += u128::from(departures.rate.is_some());
    }
    for (flow, departures) in scenario.flows.values().zip(flows) {
        let Some(rate) = departures.rate else { continue };
        let (i, n) = flows_of.entry(&flow.from).or_default();
        let frames = u128::from(rate.frames.max(1));
        // In units of 1/frames ns: at most 2^64 * 2^32, and 2^64 * 2^64.
        let gap = u128::from(rate.per.get()) * u128::from(departures.burst);
        let span = departures.stop.saturating_sub(departures.start).get();
        // A flow that is to send for less than its gap still sends its first burst.
        let gap = gap.min(u128::from(span) * frames);
        // The quotients first, so that the product with i stays below 2^128.
        let parts = frames * (*n).max(1);
        let offset = gap / parts * *i + gap % parts * *i / parts;
        let offset = Nanos::new(u64::try_from(offset).unwrap_or(u64::MAX));
        departures.start = departures.start.saturating_add(offset);
        *i += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Link;

    fn links(speed: Option<u64>) -> Links {
        let link = Link { speed: speed.map(BitRate), ..Link::imaginary(0) };
        Links { ports: [("a".to_owned(), link)].into() }
    }

    fn scenario(flows: &str, run: &str) -> Scenario {
        let text = format!(
            "ports: {{ a: {{}}, b: {{ speed: 1Gbps }} }}\nflows: {{ {flows} }}\nrun: {{ {run} }}"
        );
        Scenario::from_yaml(&text, "").unwrap()
    }

    fn of(flows: &str, run: &str) -> Vec<Departures> {
        departures(&scenario(flows, run), &links(Some(10_000_000_000))).unwrap()
    }

    #[test]
    fn every_rate_becomes_frames_per_time() {
        let rate = |rate: &str| {
            let flow = format!("x: {{ from: a, to: a, size: 105B, rate: {rate} }}");
            of(&flow, "")[0].rate.map(|rate| rate.per_second())
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
            departures(&scenario(&format!("x: {{ from: a, to: b, {flow} }}"), ""), &links(speed))
                .unwrap_err()
        };
        assert_eq!(
            error("rate: 50%", None),
            CompileError::Unknown(KeyPath::flow("x").key("rate").invalid(
                "a share of the link needs a link with a known speed; give the rate in bps or pps, \
                 or give port 'a' its 'speed'"
            ))
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
    fn flows_of_a_port_are_staggered_by_parts_of_their_own_gap() {
        let flows = "x: { from: a, to: b, rate: 1kpps, start: 1s }, y: { from: a, to: b, rate: 1kpps }, \
                     z: { from: b, to: a, rate: 1kpps }, w: { from: a, to: b, rate: 2kpps, burst: 4 }";
        let starts: Vec<u64> = of(flows, "").iter().map(|d| d.start.get()).collect();
        assert_eq!(starts, [1_000_000_000, 1_000_000 / 3, 0, 2_000_000 * 2 / 3]);
    }

    #[test]
    fn a_staggered_flow_of_less_than_a_gap_still_sends() {
        let flow = "from: a, to: b, rate: 1/10s, stop: 1s";
        for departures in of(&format!("x: {{ {flow} }}, y: {{ {flow} }}"), "") {
            assert!(departures.start < departures.stop);
        }
    }

    #[test]
    fn no_link_is_asked_for_more_than_it_carries() {
        let why = |flows: &str, speed| {
            departures(&scenario(flows, ""), &links(speed)).unwrap_err().to_string()
        };
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
        assert!(departures(&scenario(one_after_the_other, ""), &links(None)).is_ok());
        let at_once = one_after_the_other.replace("start: 2s", "start: 1999ms");
        assert!(why(&at_once, None).starts_with("flows.y.rate: with this flow"));
        let all = "x: { from: a, to: b, rate: 33.3333% }, y: { from: a, to: b, rate: 66.6667% }";
        assert!(departures(&scenario(all, ""), &links(Some(9_999_999_999))).is_ok());
    }
}
