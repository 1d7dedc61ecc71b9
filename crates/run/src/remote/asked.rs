//! What a sender asks a listener on another host to send, and whether the listener's owner allows it.
//!
//! Both ends check the same: the sender before anything opens, the listener whatever the sender did. First what is written
//! ([`AskedSending::check`]): only what is understood here passes, so that a new header or option of the language has to be
//! let in by hand. Then what was compiled from it ([`check_program`]). Which port, engine, interface, namespace and next hop
//! it is sent by is the listener's choice, and its frames come from an address of its interface. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use wirebeat_engine::drive::LineLimit;
use wirebeat_traffic::program::{Flow, Pace, Program, Stream};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::checksum::Checksum;
use wirebeat_traffic::scenario::header::ipv4::Ipv4;
use wirebeat_traffic::scenario::header::ipv6::Ipv6;
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::header::udp::Udp;
use wirebeat_traffic::scenario::pattern::{Field, FieldValue};
use wirebeat_traffic::scenario::{Carried, Departures, FlowRate, FlowSpec, Probe, Size};
use wirebeat_units::human::{self, counted};
use wirebeat_units::{BitRate, Fault, LINE_OVERHEAD, Nanos, Rate, fault};
use wirebeat_wire::codec::Codec;
use wirebeat_wire::ip::Version;

use super::as_text;
use super::grant::Grant;
use super::message::{TEXT, tame};

/// The most flows that a listener sends in a run.
pub const FLOWS_MAX: usize = 64;
/// The longest request to send, in bytes.
pub const REQUEST_LIMIT: usize = 256 << 10;
/// What the port of the listener is called.
pub const PORT: &str = "here";
/// The lowest source port that is no service's (RFC 6335 §6).
const PORTS_MIN: u128 = 1024;
/// The port of the discard service, which packets come from where none is written.
const DISCARD: RangeInclusive<u128> = 9..=9;
/// What may leave at once, as a time at the rate that is allowed: as far as the kernel engine is given frames ahead.
pub const AT_ONCE: Nanos = Nanos::from_millis(50);

/// What a listener is to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedSending {
    /// The number of the run that has begun.
    pub run: u64,
    /// The seed of every random choice.
    pub seed: u64,
    /// Frames that are later than this, in ns, are dropped; `None`: none is.
    pub drift_ns: Option<u64>,
    /// The length of intervals, in ns.
    pub interval_ns: u64,
    /// The flows.
    pub flows: Vec<AskedFlow>,
}

/// A flow that a listener is to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedFlow {
    /// Its number in probes.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// The flow, from the port `here` and to none; in a message, its JSON as a text.
    #[serde(with = "as_text")]
    pub flow: Box<FlowSpec>,
}

impl AskedSending {
    /// Makes its names harmless.
    pub(super) fn tame(&mut self) {
        self.flows.iter_mut().for_each(|flow| tame(&mut flow.name, TEXT));
    }

    /// What is written in it and `grant` does not allow.
    ///
    /// # Errors
    /// The first flow that is not allowed, and what is.
    pub fn check(&self, grant: &Grant) -> Result<(), Fault> {
        if self.flows.is_empty() || self.flows.len() > FLOWS_MAX {
            return Err(fault!(
                "{} are to be sent from there, and 1 to {FLOWS_MAX} can be",
                counted(self.flows.len() as u64, "flow");
                "send the others from here"
            ));
        }
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for AskedFlow { id, name, flow } in &self.flows {
            if !ids.insert(id) || !names.insert(name) {
                return Err(fault!("flow '{name}' is there twice"; "give it once"));
            }
            check_flow(flow, grant).map_err(|why| of_flow(name, why))?;
        }
        Ok(())
    }

    /// The number in probes of the flow at a place.
    pub fn numbers(&self) -> Vec<u16> {
        self.flows.iter().map(|flow| flow.id).collect()
    }
}

fn of_flow(name: &str, why: Fault) -> Fault {
    Fault { what: format!("flow '{name}': {}", why.what), ..why }
}

/// What is not allowed, and what is.
fn not_allowed(what: impl Into<String>, grant: &Grant) -> Fault {
    Fault::from(what.into()).then_hint(format!("the listener allows {grant}"))
}

fn check_flow(flow: &FlowSpec, grant: &Grant) -> Result<(), Fault> {
    if flow.from != PORT || flow.to.is_some() {
        return Err(fault!("the listener sends from its own port"; "leave the ports out"));
    }
    let unknown = [
        ("replay", flow.replay.is_some()),
        ("at", !flow.at.is_empty()),
        ("sub-flows", flow.sub_flows.is_some()),
        ("bytes", flow.bytes.is_some()),
        ("departures", flow.departures != Departures::Constant),
        ("rate", !is_known_rate(&flow.rate)),
        ("size", !is_known_size(flow.size.as_ref())),
        ("probe", !is_own_probe(flow.probe)),
    ];
    if let Some((key, _)) = unknown.iter().find(|(_, is)| *is) {
        let hint = match *key {
            "rate" => "give it a constant rate in bits or frames per second",
            "size" => "give it a length, a list or a mix of lengths",
            "probe" => "leave 'probe' out for Wirebeat's own",
            "departures" => "leave it out, for a constant gap",
            _ => "leave it out, or send the flow from here",
        };
        return Err(fault!("a listener does not send with this '{key}'"; "{hint}"));
    }
    check_packet(&flow.packet, grant)
}

/// A rate that says by itself how fast a flow is.
fn is_known_rate(rate: &FlowRate) -> bool {
    matches!(rate, FlowRate::Fixed(Rate::Frames(_) | Rate::Bits(..)))
}

/// Lengths that need no file, and no table that is longer than what is written.
fn is_known_size(size: Option<&Size>) -> bool {
    matches!(size, None | Some(Size::Fixed(_) | Size::Mix(_) | Size::List(_)))
}

fn is_own_probe(probe: Probe) -> bool {
    let own = Carried { codec: Codec::Wirebeat, flow: None };
    probe == Probe::Auto || probe == Probe::Carried(own)
}

/// UDP over IP and nothing else: no link layer, no tunnel, no option, no fragment, no length or protocol that lies, and no bytes
/// of the sender's choice that a host could take for a packet in a tunnel.
fn check_packet(packet: &[Header], grant: &Grant) -> Result<(), Fault> {
    let (network, udp) = match packet {
        [network, Header::Udp(udp)] => (network, udp),
        [network, Header::Udp(udp), Header::Payload(Payload::Zeros | Payload::Random)] => {
            (network, udp)
        }
        _ => return Err(only_udp()),
    };
    let is_plain = match network {
        Header::Ipv4(ip) => is_plain_v4(ip),
        Header::Ipv6(ip) => ip.next_header.is_none() && ip.length.is_none(),
        _ => false,
    };
    if !is_plain || !is_plain_udp(udp) {
        return Err(only_udp());
    }
    match network {
        Header::Ipv4(Ipv4 { source, destination, .. }) => {
            check_addresses(Version::V4, (source, destination), grant)
        }
        Header::Ipv6(Ipv6 { source, destination, .. }) => {
            check_addresses(Version::V6, (source, destination), grant)
        }
        _ => Err(only_udp()),
    }
}

fn only_udp() -> Fault {
    fault!(
        "a listener sends UDP over IP with zeros or random bytes, and no other headers";
        "write ipv4 or ipv6, then udp, without options, fragments, written lengths and ports of services as source"
    )
}

fn is_plain_v4(ip: &Ipv4) -> bool {
    let Ipv4 { more_fragments, fragment_offset, options, protocol, length, checksum, .. } = ip;
    more_fragments.is_none()
        && fragment_offset.is_none()
        && options.is_none()
        && protocol.is_none()
        && length.is_none()
        && *checksum == Checksum::On
}

fn is_plain_udp(udp: &Udp) -> bool {
    // what comes from a service's port looks like an answer of that service
    let is_free = |port: &RangeInclusive<u128>| *port.start() >= PORTS_MIN || *port == DISCARD;
    let source = udp.source.as_ref().is_none_or(|source| source.ranges(16).iter().all(is_free));
    source && udp.length.is_none() && matches!(udp.checksum, Checksum::On | Checksum::Off)
}

/// The destination in all of its values; a source that does not change, which [`check_sources`] holds against the
/// interface.
fn check_addresses<T: FieldValue>(
    version: Version,
    (source, destination): (&Option<Field<T>>, &Option<Field<T>>),
    grant: &Grant,
) -> Result<(), Fault> {
    let bits = match version {
        Version::V4 => 32,
        Version::V6 => 128,
    };
    let Some(destination) = destination else {
        return Err(fault!("it has no destination"; "write one in its ipv4 or ipv6 header"));
    };
    if source.as_ref().is_some_and(|source| source.fixed().is_none()) {
        let why = fault!(
            "a listener sends from one address of its interface";
            "leave 'source' out, or write that address"
        );
        return Err(why);
    }
    match destination.ranges(bits).iter().find(|range| !grant.covers(version, range)) {
        None => Ok(()),
        Some(range) => {
            let address = |bits: u128| match version {
                Version::V4 => IpAddr::V4((bits as u32).into()),
                Version::V6 => IpAddr::V6(bits.into()),
            };
            let (first, last) = (address(*range.start()), address(*range.end()));
            let whereto =
                if first == last { first.to_string() } else { format!("{first} to {last}") };
            Err(not_allowed(format!("it goes to {whereto}"), grant))
        }
    }
}

/// The sources that are written: addresses that the listener's interface has.
pub fn check_sources(asked: &AskedSending, own: &[IpAddr]) -> Result<(), Fault> {
    for AskedFlow { name, flow, .. } in &asked.flows {
        let written = flow.packet.iter().find_map(|header| match header {
            Header::Ipv4(ip) => Some(IpAddr::V4(ip.source.as_ref()?.fixed()?)),
            Header::Ipv6(ip) => Some(IpAddr::V6(ip.source.as_ref()?.fixed()?)),
            _ => None,
        });
        if let Some(source) =
            written.filter(|source| source.is_unspecified() || !own.contains(source))
        {
            let why = fault!(
                "{source} is no address of the listener's interface";
                "leave 'source' out, or write one that it has"
            );
            return Err(of_flow(name, why));
        }
    }
    Ok(())
}

/// Holds compiled flows against a grant. Gives the bound on what is sent, which the transmit loop keeps to.
///
/// # Errors
/// What is not allowed, and what is.
pub fn check_program<'a>(
    program: &Program,
    flows: impl Iterator<Item = &'a Flow>,
    grant: &Grant,
) -> Result<LineLimit, Fault> {
    let (mut rate, mut longest) = (0u128, 0u64);
    for flow in flows {
        let number = u32::from(flow.id);
        let load = match program.streams(number) {
            [stream] => load(stream),
            _ => None,
        };
        let load = load.ok_or_else(|| {
            of_flow(&flow.name, fault!("a listener sends at a constant rate, and no fragments"))
        })?;
        if let Some(to) = flow.destinations.iter().find(|to| !grant.covers_address(to.ip())) {
            return Err(of_flow(&flow.name, not_allowed(format!("it goes to {}", to.ip()), grant)));
        }
        if flow.destinations.is_empty() {
            return Err(of_flow(&flow.name, only_udp()));
        }
        let end = program.end(number);
        if end > grant.time() {
            let lasts = match end {
                Nanos::MAX => "it has no end".to_owned(),
                end => format!("it ends after {}", human::time(end.get() as f64)),
            };
            return Err(of_flow(&flow.name, not_allowed(lasts, grant)));
        }
        rate = rate.saturating_add(load.rate);
        longest = longest.max(load.frame);
        let burst = time_at(grant.rate_bps, load.at_once);
        if load.burst > 1 && burst > AT_ONCE {
            let what = format!("its bursts take {} at that rate", human::time(burst.get() as f64));
            return Err(of_flow(&flow.name, not_allowed(what, grant)));
        }
    }
    if rate > u128::from(grant.rate_bps) {
        let what = format!("all flows together take {} on the line", human::bit_rate(rate as f64));
        return Err(not_allowed(what, grant));
    }
    let depth = u128::from(grant.rate_bps) * u128::from(AT_ONCE.get()) / 8_000_000_000;
    // flows that are due at once share it: the transmit loop spaces what is more
    let depth = u64::try_from(depth).unwrap_or(u64::MAX).max(longest);
    Ok(LineLimit { rate: BitRate(grant.rate_bps), depth })
}

/// What a flow takes of the line at most.
struct Load {
    /// Bits per second.
    rate: u128,
    /// Bytes of the longest frame.
    frame: u64,
    /// Bytes that leave together.
    at_once: u64,
    burst: u32,
}

/// `None` where it is not bounded, or not one frame for each packet.
fn load(stream: &Stream) -> Option<Load> {
    let Pace::Constant(rate) = stream.departures.pace else { return None };
    if stream.frames.is_cut() || rate.per == Nanos::ZERO {
        return None;
    }
    let frame = u64::from(stream.frames.longest().get()) + u64::from(LINE_OVERHEAD);
    let bits = u128::from(frame) * 8 * u128::from(rate.frames);
    let rate = bits.checked_mul(1_000_000_000)?.div_ceil(u128::from(rate.per.get()));
    let burst = stream.departures.burst.max(1);
    Some(Load { rate, frame, at_once: frame.saturating_mul(burst.into()), burst })
}

/// How long so many bytes take at a rate.
pub fn time_at(rate_bps: u64, bytes: u64) -> Nanos {
    let time = u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps.max(1));
    Nanos::new(u64::try_from(time).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_traffic::compile::{Files, Link, Links, compile_numbered};
    use wirebeat_traffic::scenario::Scenario;

    use super::*;

    const GRANT: &str = "10.0.0.0/24,fd00::/64,239.1.1.1,rate=10Mbps,time=10s";
    /// What is allowed.
    const PLAIN: &str =
        "packet: [ { ipv4: { destination: 10.0.0.7 } }, { udp: {} } ], rate: 1kpps, stop: 1s";

    fn grant() -> Grant {
        GRANT.parse().unwrap()
    }

    fn scenario(flows: &[&str]) -> Scenario {
        let flow =
            |(number, text): (usize, &&str)| format!("  x{number}: {{ from: here, {text} }}\n");
        let flows: String = flows.iter().enumerate().map(flow).collect();
        let flows = if flows.is_empty() { " {}".to_owned() } else { format!("\n{flows}") };
        let text = format!("ports: {{ here: {{ next-hop: '02:00:00:00:00:02' }} }}\nflows:{flows}");
        Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"))
    }

    fn asked(flows: &[&str]) -> AskedSending {
        let flow = |(number, (name, flow)): (usize, (String, FlowSpec))| AskedFlow {
            id: number as u16 * 3,
            name,
            flow: Box::new(flow),
        };
        let flows = scenario(flows).flows.into_iter().enumerate().map(flow).collect();
        AskedSending { run: 1, seed: 1, drift_ns: None, interval_ns: 1_000_000_000, flows }
    }

    fn compiled(asked: &AskedSending) -> Program {
        let flows = asked.flows.iter().map(|one| (one.name.clone(), (*one.flow).clone()));
        let scenario = Scenario { flows: flows.collect(), ..scenario(&[]) };
        let links = Links { ports: [(PORT.to_owned(), Link::imaginary(0))].into() };
        let number = |place: u16| asked.flows[usize::from(place)].id;
        compile_numbered(&scenario, &links, &Files::default(), number)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Both checks.
    fn check(flows: &[&str]) -> Result<LineLimit, String> {
        let asked = asked(flows);
        asked.check(&grant()).map_err(|why| why.to_string())?;
        let program = compiled(&asked);
        check_program(&program, program.flows.iter(), &grant()).map_err(|why| why.to_string())
    }

    #[test]
    fn what_the_owner_allows_passes() {
        for flow in [
            PLAIN,
            "packet: [ { ipv4: { destination: 10.0.0.0, dscp: ef, ttl: 3 } }, { udp: { destination: 5001 } } ], rate: 1Mbps, \
             count: 10",
            "packet: [ { ipv6: { destination: 'fd00::ffff' } }, { udp: {} }, { payload: random } ], rate: 1kpps, stop: 10s",
            "packet: [ { ipv4: { destination: { increment: 10.0.0.1, count: 255 } } }, { udp: { source: { random: [1024, 9000] } } } \
             ], rate: 1kpps, stop: 1s",
            "packet: [ { ipv4: { destination: { random: [ 10.0.0.0, 10.0.0.255 ] } } }, { udp: {} } ], rate: 1kpps, stop: 1s",
            "packet: [ { ipv4: { destination: { list: [ 10.0.0.9, 239.1.1.1 ] } } }, { udp: {} } ], rate: 1kpps, stop: 1s",
            "packet: [ { ipv4: { destination: 10.0.0.7 } }, { udp: {} } ], size: { mix: { 64B: 7, 300B: 1 } }, rate: 1kpps, \
             stop: 1s",
        ] {
            assert_eq!(check(&[flow]).map(|_| ()), Ok(()), "{flow}");
        }
    }

    #[test]
    fn a_destination_that_the_owner_did_not_write_is_refused() {
        for destination in [
            "10.0.1.0",
            "9.255.255.255",
            "239.1.1.2",
            "255.255.255.255",
            "{ list: [ 10.0.0.1, 10.0.1.0 ] }",
            // one beyond the end
            "{ increment: 10.0.0.1, count: 256 }",
            "{ increment: 10.0.0.255, count: 2 }",
            "{ increment: 10.0.0.1, step: 65536, count: 2 }",
            "{ decrement: 10.0.0.1, count: 3 }",
            "{ increment: 255.255.255.255, count: 3 }",
            "{ increment: 10.0.0.1 }",
            "{ random: [ 10.0.0.0, 10.0.1.0 ] }",
            "{ random: [ 9.255.255.255, 10.0.0.1 ] }",
            "{ random: [ 10.0.0.0, 10.0.0.7 ], mask: 255.0.0.255 }",
        ] {
            let flow = format!(
                "packet: [ {{ ipv4: {{ destination: {destination} }} }}, {{ udp: {{}} }} ], rate: 1kpps, stop: 1s"
            );
            let asked = asked(&[&flow]);
            let why = asked.check(&grant()).map_err(|why| why.to_string());
            let Err(why) = why else { panic!("{destination} passed") };
            assert!(
                why.contains("it goes to") && why.contains("the listener allows 10.0.0.0/24"),
                "{why}"
            );
        }
    }

    #[test]
    fn the_compiled_destinations_are_held_against_the_grant_by_themselves() {
        let wide: Grant = "10.0.0.0/8".parse().unwrap();
        let asked = asked(&[
            "packet: [ { ipv4: { destination: 10.7.0.1 } }, { udp: {} } ], rate: 1kpps, stop: 1s",
        ]);
        assert_eq!(asked.check(&wide), Ok(()));
        let program = compiled(&asked);
        let why = check_program(&program, program.flows.iter(), &grant()).unwrap_err().to_string();
        assert!(why.contains("flow 'x0': it goes to 10.7.0.1"), "{why}");
    }

    #[test]
    fn what_is_not_understood_here_is_refused() {
        let of = |packet: &str| format!("packet: [ {packet} ], rate: 1kpps, stop: 1s");
        let ip = "{ ipv4: { destination: 10.0.0.7 } }";
        for packet in [
            format!("{{ ethernet: {{}} }}, {ip}, {{ udp: {{}} }}"),
            format!("{{ vlan: {{ id: 5 }} }}, {ip}, {{ udp: {{}} }}"),
            format!("{ip}, {ip}, {{ udp: {{}} }}").replacen("10.0.0.7", "10.0.0.8, source: 10.0.0.1", 2),
            format!("{ip}, {{ tcp: {{ destination: 80 }} }}"),
            format!("{ip}, {{ icmp: {{}} }}"),
            ip.to_owned(),
            "{ ipv4: { destination: 10.0.0.7, options: '83070400000000' } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7, protocol: 6 } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7, length: 20 } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7, fragment-offset: 1 } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7, more-fragments: 1 } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7, checksum: wrong } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7 } }, { udp: { length: 8 } }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7, source: { increment: 10.0.0.1, count: 3 } } }, { udp: {} }".to_owned(),
            "{ ipv6: { destination: 'fd00::7', next-header: 43 } }, { udp: {} }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7 } }, { udp: {} }, { payload: { file: /etc/passwd } }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7 } }, { udp: {} }, { payload: { pattern: '0800' } }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7 } }, { udp: {} }, { payload: { text: hello } }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7 } }, { udp: { source: 53 } }".to_owned(),
            "{ ipv4: { destination: 10.0.0.7 } }, { udp: { source: { random: [1023, 9000] } } }".to_owned(),
        ] {
            let flow = of(&packet);
            assert!(asked(&[&flow]).check(&grant()).is_err(), "{packet}");
        }
        for settings in [
            "rate: 50%",
            "rate: unlimited",
            "rate: { ramp: { from: 1kpps, to: 2kpps, over: 1s } }",
            "rate: 1kpps, departures: poisson",
            "rate: 1kpps, departures: { on-off: { on: 1ms, off: 1ms } }",
            "rate: 1kpps, departures: { trace: times.txt }",
            "rate: 1kpps, size: { file: sizes.txt }",
            "rate: 1kpps, size: { uniform: { min: 100B, max: 200B } }",
            "rate: 1kpps, probe: off",
            "rate: 1kpps, probe: mgen",
            "rate: 1kpps, bytes: 1MB",
            "rate: 1kpps, at: { 500ms: { rate: 2kpps } }",
        ] {
            let flow = format!("packet: [ {ip}, {{ udp: {{}} }} ], stop: 1s, {settings}");
            assert!(asked(&[&flow]).check(&grant()).is_err(), "{settings}");
        }
    }

    #[test]
    fn ports_numbers_and_names_are_held_apart() {
        let mut other = asked(&[PLAIN]);
        other.flows[0].flow.from = "eth1".to_owned();
        assert!(other.check(&grant()).is_err());
        let mut other = asked(&[PLAIN]);
        other.flows[0].flow.to = Some("there".to_owned());
        assert!(other.check(&grant()).is_err());
        let mut twice = asked(&[PLAIN, PLAIN]);
        assert_eq!(twice.check(&grant()), Ok(()));
        twice.flows[1].id = twice.flows[0].id;
        assert!(twice.check(&grant()).is_err());
        let mut twice = asked(&[PLAIN, PLAIN]);
        twice.flows[1].name = twice.flows[0].name.clone();
        assert!(twice.check(&grant()).is_err());
        assert!(asked(&[]).check(&grant()).is_err());
        assert_eq!(asked(&[PLAIN; FLOWS_MAX]).check(&grant()), Ok(()));
        assert!(asked(&[PLAIN; FLOWS_MAX + 1]).check(&grant()).is_err());
    }

    /// 64 bytes and 20 more on the line, 14,880 times a second: 9,999,360 bit/s.
    #[test]
    fn the_rates_of_all_flows_together_are_held_against_the_grant_on_the_line() {
        let flow = |rate: &str| {
            format!(
                "packet: [ {{ ipv4: {{ destination: 10.0.0.7 }} }}, {{ udp: {{}} }} ], size: 64B, stop: 1s, rate: {rate}"
            )
        };
        assert!(check(&[&flow("14880pps")]).is_ok());
        let why = check(&[&flow("14881pps")]).unwrap_err();
        assert!(
            why.contains("all flows together take") && why.contains("the listener allows"),
            "{why}"
        );
        assert!(check(&[&flow("7440pps"), &flow("7440pps")]).is_ok());
        assert!(check(&[&flow("7440pps"), &flow("7441pps")]).is_err());
        // bits of frames are fewer than those on the line
        assert!(check(&[&flow("7.6Mbps")]).is_ok());
        assert!(check(&[&flow("9Mbps")]).is_err());
        assert!(check(&[&flow("9.99Mbps@line")]).is_ok());
    }

    #[test]
    fn a_flow_ends_within_the_time_that_is_left() {
        let flow = |end: &str| {
            format!(
                "packet: [ {{ ipv4: {{ destination: 10.0.0.7 }} }}, {{ udp: {{}} }} ], rate: 1kpps, {end}"
            )
        };
        assert!(check(&[&flow("stop: 10s")]).is_ok());
        let why = check(&[&flow("stop: 10001ms")]).unwrap_err();
        assert!(why.contains("it ends after 10"), "{why}");
        assert!(check(&[&flow("count: 10000")]).is_ok());
        assert!(check(&[&flow("count: 10002")]).is_err());
        assert!(check(&[&flow("count: 5, start: 10s")]).is_err());
    }

    /// 50 ms at 10 Mbit/s are 62,500 bytes: 744 frames of 84 bytes on the line.
    #[test]
    fn bursts_are_as_long_as_the_bucket_is_deep() {
        let flow = |burst: u32| {
            format!(
                "packet: [ {{ ipv4: {{ destination: 10.0.0.7 }} }}, {{ udp: {{}} }} ], size: 64B, rate: 1kpps, stop: 1s, \
                 burst: {burst}"
            )
        };
        assert_eq!(check(&[&flow(744)]).map(|limit| limit.depth), Ok(62_500));
        assert!(check(&[&flow(745)]).is_err());
        // flows that are due at once share it
        assert_eq!(check(&[&flow(700), &flow(700)]).map(|limit| limit.depth), Ok(62_500));
        // a single frame always has room
        let slow: Grant = "10.0.0.0/24,rate=1kbps,time=1000s".parse().unwrap();
        let asked = asked(&[
            "packet: [ { ipv4: { destination: 10.0.0.7 } }, { udp: {} } ], rate: 1pps, count: 2",
        ]);
        let program = compiled(&asked);
        let limit = check_program(&program, program.flows.iter(), &slow).unwrap();
        assert_eq!(limit.depth, 84);
    }

    #[test]
    fn fragments_are_refused() {
        let flow = "packet: [ { ipv4: { destination: 10.0.0.7, dont-fragment: off } }, { udp: {} } ], size: 9500B, rate: 10pps, \
                    stop: 1s";
        let asked = asked(&[flow]);
        let program = compiled(&asked);
        assert!(program.is_cut());
        assert!(check_program(&program, program.flows.iter(), &grant()).is_err());
    }

    #[test]
    fn a_source_is_an_address_of_the_interface() {
        let flow = |source: &str| {
            format!(
                "packet: [ {{ ipv4: {{ destination: 10.0.0.7, source: {source} }} }}, {{ udp: {{}} }} ], rate: 1kpps, stop: 1s"
            )
        };
        let own: Vec<IpAddr> = vec!["10.0.0.2".parse().unwrap(), "0.0.0.0".parse().unwrap()];
        let check = |source: &str| check_sources(&asked(&[&flow(source)]), &own);
        assert_eq!(check("10.0.0.2"), Ok(()));
        assert!(check("10.0.0.3").is_err());
        assert!(check("0.0.0.0").is_err(), "that is any address, not one of the interface");
        assert_eq!(check_sources(&asked(&[PLAIN]), &own), Ok(()));
    }

    /// What is asked for goes over the connection as JSON and is the same there.
    #[test]
    fn it_is_the_same_behind_the_connection() {
        let asked = asked(&[
            PLAIN,
            "packet: [ { ipv6: { destination: { random: [ 'fd00::', 'fd00::ff' ] } } }, { udp: { destination: { list: [1, 7] } } \
             }, { payload: { text: hello } } ], size: { mix: { 100B: 1, 200B: 2 } }, rate: 1.5kpps, burst: 3, start: 5ms, \
             count: 7",
        ]);
        let text = serde_json::to_vec(&asked).unwrap();
        assert_eq!(serde_json::from_slice::<AskedSending>(&text).unwrap(), asked);
    }

    /// Behind a few bytes nothing grows: a text with aliases is not JSON.
    #[test]
    fn what_stands_for_more_than_is_written_is_no_flow() {
        let asked = asked(&[PLAIN]);
        let text = serde_json::to_string(&asked).unwrap();
        let read = |text: &str| serde_json::from_str::<AskedSending>(text);
        assert!(read(&text).is_ok());
        for (from, to) in [
            (r#"{\"from\""#, r#"&a {\"from\""#),
            (r#"\"1kpps\""#, r#"*a"#),
            (r#"\"here\""#, "here"),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text);
            assert!(read(&other).is_err(), "{other}");
        }
    }

    fn destination() -> impl Strategy<Value = String> {
        // about the ends of the prefix, and anywhere
        let near = (-3i64..260).prop_map(|of| (i64::from(0x0a00_0000u32) + of) as u32);
        let bits = prop_oneof![6 => near, 1 => any::<u32>()];
        let address = bits.prop_map(|bits| std::net::Ipv4Addr::from_bits(bits).to_string());
        let address = || address.clone();
        prop_oneof![
            address(),
            prop::collection::vec(address(), 1..4)
                .prop_map(|all| format!("{{ list: [ {} ] }}", all.join(", "))),
            (address(), 1u64..300, 1u64..300, prop_oneof![Just("increment"), Just("decrement")])
                .prop_map(|(from, step, count, way)| format!(
                    "{{ {way}: {from}, step: {step}, count: {count} }}"
                )),
            (
                address(),
                address(),
                prop_oneof![Just(""), Just(", mask: 0.0.0.255"), Just(", mask: 0.0.1.15")]
            )
                .prop_map(|(low, high, mask)| format!("{{ random: [ {low}, {high} ]{mask} }}")),
        ]
    }

    proptest! {
        /// Whatever passes: no frame that is made of it goes anywhere else.
        #[test]
        fn frames_of_what_passes_go_where_the_owner_allows(destination in destination(), seed: u64) {
            let text = format!(
                "seed: {seed}\nports: {{ here: {{ next-hop: '02:00:00:00:00:02' }} }}\nflows:\n  x: {{ from: here, packet: [ {{ \
                 ipv4: {{ destination: {destination} }} }}, {{ udp: {{}} }} ], rate: 1kpps, stop: 1s }}\n"
            );
            let Ok(scenario) = Scenario::from_yaml(&text, "test") else { return Ok(()) };
            let flow = Box::new(scenario.flows["x"].clone());
            let flows = vec![AskedFlow { id: 7, name: "x".to_owned(), flow }];
            let asked = AskedSending { run: 1, seed, drift_ns: None, interval_ns: 1, flows };
            prop_assume!(asked.check(&grant()).is_ok());
            let program = compiled(&AskedSending { seed, ..asked });
            prop_assert!(check_program(&program, program.flows.iter(), &grant()).is_ok());
            let image = program.streams(0)[0].frames.frame();
            let mut slot = vec![0; 2048];
            for number in 0..1000 {
                prop_assert!(image.build(number, &mut slot).len > 0);
                let to = u32::from_be_bytes([slot[30], slot[31], slot[32], slot[33]]);
                prop_assert!(grant().covers_address(std::net::Ipv4Addr::from_bits(to).into()), "{to:x}");
            }
        }
    }
}
