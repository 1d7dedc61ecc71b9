//! The frame sizes of RFC 2544, as far as the packets of a scenario fit into them.

use wirebeat_traffic::compile::{Links, compile};
use wirebeat_traffic::scenario::size::{Length, Of};
use wirebeat_traffic::scenario::{FlowRate, Scenario, Size};
use wirebeat_units::{FrameRate, Nanos, Rate};

use super::SIZES;

/// The sizes of RFC 2544 §9.1. Where packets do not fit into the smallest one, as those of IPv6 with a probe do not, the smallest that they
/// do fit into is in its place.
pub fn standard_sizes(scenario: &Scenario) -> Vec<(String, Option<Size>)> {
    let [least, next, ..] = SIZES;
    let first = (least..next).find(|bytes| fits(scenario, *bytes)).unwrap_or(least);
    let sizes = [first].into_iter().chain(SIZES.into_iter().skip(1));
    sizes.map(|bytes| (format!("{bytes}B"), Some(fixed(bytes)))).collect()
}

fn fixed(bytes: u16) -> Size {
    Size::Fixed(Length { bytes, of: Of::Frame })
}

/// Whether the packets of all flows fit into frames of so many bytes. What else may be wrong with a scenario is told when it is run.
fn fits(scenario: &Scenario, bytes: u16) -> bool {
    let mut scenario = scenario.clone();
    for flow in scenario.flows.values_mut() {
        flow.size = Some(fixed(bytes));
        // one that needs to know no link
        flow.rate =
            FlowRate::Fixed(Rate::Frames(FrameRate { frames: 1, per: Nanos::from_secs(1) }));
    }
    compile(&scenario, &Links::default(), &Default::default()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ip: &str, addresses: &str) -> Vec<String> {
        let text = format!(
            "ports: {{ a: {{ interface: x }}, b: {{ interface: y }} }}\n\
             flows: {{ f: {{ from: a, to: b, packet: [ {{ ethernet: {{ source: 02:00:00:00:00:01, destination: \
             02:00:00:00:00:02 }} }}, {{ {ip}: {addresses} }}, {{ udp: {{ destination: 9 }} }} ] }} }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "s.yaml").unwrap();
        standard_sizes(&scenario).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn the_smallest_size_is_one_that_packets_fit_into() {
        let of_ipv4 = names("ipv4", "{ source: 10.0.0.1, destination: 10.0.0.2 }");
        assert_eq!(of_ipv4, ["64B", "128B", "256B", "512B", "1024B", "1280B", "1518B"]);
        // 14 of Ethernet, 40 of IPv6, 8 of UDP, 16 of the probe, 4 of the FCS
        let of_ipv6 = names("ipv6", "{ source: '2001:db8::1', destination: '2001:db8::2' }");
        assert_eq!(of_ipv6[..2], ["82B", "128B"]);
    }
}
