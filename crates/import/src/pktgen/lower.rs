//! A device of pktgen as a flow.
//!
//! Ranges are those of the kernel: random addresses and ports never reach the largest value, ports that
//! are counted up do not either, and addresses that are counted up do. The kernel counts up once before
//! the first packet; a scenario begins with the first value.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU32, NonZeroU64};

use indexmap::IndexMap;
use wirebeat_traffic::distribution::uniform::Uniform;
use wirebeat_traffic::distribution::{Bounded, Distribution};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::checksum::Checksum;
use wirebeat_traffic::scenario::header::ethernet::Ethernet;
use wirebeat_traffic::scenario::header::ipv4::{Identification, Ipv4};
use wirebeat_traffic::scenario::header::ipv6::Ipv6;
use wirebeat_traffic::scenario::header::mpls::Mpls;
use wirebeat_traffic::scenario::header::udp::Udp;
use wirebeat_traffic::scenario::header::vlan::Vlan;
use wirebeat_traffic::scenario::number::Number;
use wirebeat_traffic::scenario::pattern::{
    Changing, Field, FieldValue, Increment, Mac, Pattern, Per, Random,
};
use wirebeat_traffic::scenario::size::{Length, Of, Size};
use wirebeat_traffic::scenario::{FlowRate, FlowSpec, Order, Probe, SubFlows};
use wirebeat_units::{Bytes, FCS, Fault, FrameLen, Rate, fault};
use wirebeat_wire::codec::Codec;
use wirebeat_wire::mac::MacAddr;

use super::device::{Device, Flag, Tag, is_bottom};
use crate::ScriptError;
use crate::datagram::number;
use crate::draft::Draft;
use crate::number::rate;
use crate::text::name;

/// The TTL and hop limit of pktgen's packets.
const TTL: u8 = 32;
/// pktgen's outer tag is of the same type as the inner one.
const TPID: u64 = 0x8100;
/// The longest frame of a link with an MTU of 1500 bytes; none longer is drawn unless it is allowed.
const USUAL_LONGEST: u64 = 1518;

const NOT_WHOLE: &str = "pktgen hands long packets to the interface whole; where they are longer than its MTU, \
                         they leave as fragments here";

fn begins_nowhere() -> Fault {
    fault!("the first of its destinations is all zeros, which is none"; "begin with another")
}

/// Adds the flow of a device.
pub(super) fn add(draft: &mut Draft<'_>, device: &Device, called: &str) -> Result<(), ScriptError> {
    let line = &device.line;
    let called = name(called);
    let Some(delay) = device.delay else {
        draft.leave_out(line, &called, "its delay is so long that it never sends");
        return Ok(());
    };
    // eth0@1 is eth0, once more.
    let interface = called.split('@').next().unwrap_or(&called).to_owned();
    let port = draft.port(Some(&interface));
    if let Some(spec) = draft.scenario.ports.get_mut(&port)
        && !spec.cores.contains(&device.cpu)
    {
        spec.cores.push(device.cpu);
    }
    let packet = headers(device)?;
    let flows = sub_flows(device).filter(|_| has_sub_flows(device));
    if device.flows > 0 && flows.is_none() {
        let why = "flows of pktgen are about its destinations, and it has one; as in pktgen, packets are the same \
                   with and without";
        draft.leave_out(line, "flows", why);
    }
    for (what, key, (address, count)) in [
        ("src_mac_count", "src_mac", device.source_mac),
        ("dst_mac_count", "dst_mac", device.destination_mac),
    ] {
        if address.is_none() && count > 1 {
            let why = format!(
                "the address that it counts up from is not known here; write {key} before it"
            );
            draft.leave_out(line, what, why);
        }
    }
    let mut flow = FlowSpec {
        packet: packet.into(),
        sub_flows: flows,
        rate: match rate(device.burst.into(), delay.into()) {
            Some(rate) => FlowRate::Fixed(Rate::Frames(rate)),
            None => FlowRate::default(),
        },
        burst: NonZeroU32::new(device.burst).unwrap_or(NonZeroU32::MIN),
        count: NonZeroU64::new(device.count),
        probe: Probe::of(Codec::Pktgen),
        ..FlowSpec::from_port(port)
    };
    draft.choose_probe(line, &called, &mut flow);
    let shortest =
        flow.shortest(&called).map_err(|problem| line.wrong(problem.why.at(problem.at)))?;
    flow.size = Some(size(draft, device, shortest)?);
    let longest = device.imix.iter().map(|(size, _)| *size).max();
    if longest.unwrap_or(device.sizes.0.max(device.sizes.1)) > USUAL_LONGEST - u64::from(FCS) {
        draft.leave_out(&device.sizes_line, &called, NOT_WHOLE);
    }
    draft.flow(line, called, flow)
}

fn headers(device: &Device) -> Result<Vec<Header>, ScriptError> {
    let mut headers = Vec::new();
    let ethernet = Ethernet {
        destination: mac(device.destination_mac, device.has(Flag::DestinationMacRandom)),
        source: mac(device.source_mac, device.has(Flag::SourceMacRandom)),
        ether_type: None,
    };
    if ethernet != Ethernet::default() {
        headers.push(Header::Ethernet(ethernet));
    }
    if let Some(tag) = device.service_vlan {
        let tpid = Some(Number::new(TPID));
        let tag = vlan(tag, device.has(Flag::ServiceVlanRandom));
        headers.push(Header::Vlan(Vlan { tpid, ..tag }));
    }
    if let Some(tag) = device.vlan {
        headers.push(Header::Vlan(vlan(tag, device.has(Flag::VlanRandom))));
    }
    let random = device.has(Flag::LabelsRandom);
    headers.extend(device.labels.iter().map(|label| Header::Mpls(mpls(*label, random))));
    let v6 = device.has(Flag::Ipv6);
    headers.push(if v6 { ipv6(device)? } else { ipv4(device)? });
    headers.push(udp(device, v6));
    Ok(headers)
}

fn mac((address, count): (Option<MacAddr>, u64), random: bool) -> Option<Field<Mac>> {
    let address = address?;
    let first = u64::from_be_bytes({
        let [a, b, c, d, e, f] = address.0;
        [0, 0, a, b, c, d, e, f]
    });
    let last = first.saturating_add(count.saturating_sub(1)).min((1 << 48) - 1);
    let of = |bits: u64| {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Mac(MacAddr([a, b, c, d, e, f]))
    };
    Some(range(of(first), of(last), last - first + 1, random, Per::Frame))
}

/// A value, or the `count` from `first` to `last`.
fn range<T: FieldValue>(first: T, last: T, count: u64, random: bool, per: Per) -> Field<T> {
    let pattern = match count {
        0 | 1 => return Field::Fixed(first),
        _ if random => Pattern::Random(Random { low: first, high: last, mask: None }),
        count => Pattern::Increment(Increment::new(first, Some(count))),
    };
    Field::Changing(Changing { pattern, per })
}

fn vlan(tag: Tag, random: bool) -> Vlan {
    let all = Pattern::Random(Random { low: Number::new(0), high: Number::new(4095), mask: None });
    Vlan {
        id: match random {
            true => Field::Changing(Changing { pattern: all, per: Per::Frame }),
            false => number(tag.id),
        },
        priority: number(tag.priority),
        drop_eligible: number(tag.drop_eligible),
        ..Vlan::default()
    }
}

/// A label with the bottom bit is random, if labels are: the kernel draws the low 20 bits of the entry.
fn mpls(entry: u32, random: bool) -> Mpls {
    let drawn = |most: u64| {
        let pattern =
            Pattern::Random(Random { low: Number::new(0), high: Number::new(most), mask: None });
        Field::Changing(Changing { pattern, per: Per::Frame })
    };
    if random && is_bottom(entry) {
        let (label, traffic_class, ttl) = (drawn(0xff), drawn(7), drawn(0xff));
        return Mpls { label, traffic_class, ttl, bottom: None };
    }
    Mpls {
        label: number(entry >> 12),
        traffic_class: number(entry >> 9 & 7),
        ttl: number(entry & 0xff),
        bottom: None,
    }
}

/// The per-frame or per-sub-flow change of destinations.
fn per(device: &Device) -> Per {
    if device.flows > 0 { Per::SubFlow } else { Per::Frame }
}

/// Whether its destinations differ by flow: those of IPv4 alone do.
fn has_sub_flows(device: &Device) -> bool {
    let (first, last) = device.destination;
    let random = u32::from(device.has(Flag::DestinationRandom));
    let span = |first: Ipv4Addr, last: Ipv4Addr| last.to_bits().saturating_sub(first.to_bits());
    !device.has(Flag::Ipv6)
        && first.zip(last).is_some_and(|(first, last)| span(first, last) > random)
}

fn ipv4(device: &Device) -> Result<Header, ScriptError> {
    let Some(destination) = device.destination.0.filter(|first| !first.is_unspecified()) else {
        return Err(device.line.wrong(match device.destination.1 {
            Some(_) => begins_nowhere(),
            None => fault!("this device has no destination"; "add one: dst 10.0.0.2"),
        }));
    };
    let addresses = |first: Ipv4Addr, last: Option<Ipv4Addr>, random: bool, per| {
        let span = last.map_or(0, |last| last.to_bits().saturating_sub(first.to_bits()));
        // A random one never is the last.
        let last = first.to_bits() + if random { span.saturating_sub(1) } else { span };
        range(first, last.into(), u64::from(last - first.to_bits()) + 1, random, per)
    };
    let (random_source, random) =
        (device.has(Flag::SourceRandom), device.has(Flag::DestinationRandom));
    let source =
        device.source.0.map(|first| addresses(first, device.source.1, random_source, Per::Frame));
    Ok(Header::Ipv4(Ipv4 {
        source,
        destination: Some(addresses(destination, device.destination.1, random, per(device))),
        ttl: number(TTL),
        tos: Some(number(device.tos)).filter(|_| device.tos > 0),
        identification: Identification::Count,
        dont_fragment: Some(false),
        ..Ipv4::default()
    }))
}

fn ipv6(device: &Device) -> Result<Header, ScriptError> {
    let (destination, first) = match (device.destination6_range, device.destination6) {
        ((Some(min), max), _) => {
            let (min, max) = (min.to_bits(), max.map_or(0, Ipv6Addr::to_bits));
            (random6(min, max), min & max)
        }
        ((None, _), address) => {
            let address = address.unwrap_or(Ipv6Addr::UNSPECIFIED);
            (address.into(), address.to_bits())
        }
    };
    if first == 0 {
        return Err(device.line.wrong(match device.destination6_range {
            (Some(_), Some(_)) => begins_nowhere(),
            (Some(_), None) => fault!("dst6_min goes with a dst6_max"; "add it"),
            (None, _) => fault!("this device has no destination"; "add one: dst6 2001:db8::2"),
        }));
    }
    Ok(Header::Ipv6(Ipv6 {
        source: device.source6.map(Field::Fixed),
        destination: Some(destination),
        hop_limit: number(TTL),
        traffic_class: Some(number(device.traffic_class)).filter(|_| device.traffic_class > 0),
        ..Ipv6::default()
    }))
}

/// The kernel draws all bits, sets those of the minimum and clears those that the maximum has not.
fn random6(min: u128, max: u128) -> Field<Ipv6Addr> {
    let (low, mask) = (min & max, max & !min);
    if mask == 0 {
        return Field::Fixed(low.into());
    }
    let reach = u128::MAX >> mask.leading_zeros();
    let pattern = Pattern::Random(Random {
        low: low.into(),
        high: low.saturating_add(reach).into(),
        mask: Some(mask.into()),
    });
    Field::Changing(Changing { pattern, per: Per::Frame })
}

fn udp(device: &Device, v6: bool) -> Header {
    let ports = |(min, max): (u16, u16), random: bool| {
        // The largest port is never reached.
        let count = max.saturating_sub(min).max(1);
        let number = |port: u16| Number::new(port.into());
        range(number(min), number(min + (count - 1)), count.into(), random, Per::Frame)
    };
    Header::Udp(Udp {
        source: Some(ports(device.source_port, device.has(Flag::SourcePortRandom))),
        destination: Some(ports(device.destination_port, device.has(Flag::DestinationPortRandom))),
        checksum: match (device.has(Flag::UdpChecksum), v6) {
            (true, _) => Checksum::On,
            (false, false) => Checksum::Off,
            // Against RFC 8200, but that is what pktgen sends.
            (false, true) => Checksum::Set(Number::new(0)),
        },
        ..Udp::default()
    })
}

fn sub_flows(device: &Device) -> Option<SubFlows> {
    let one_by_one = device.has(Flag::FlowsOneByOne);
    Some(SubFlows {
        count: NonZeroU32::new(device.flows)?,
        length: Some(NonZeroU64::new(device.flow_len).unwrap_or(NonZeroU64::MIN)),
        order: if one_by_one { Order::OneByOne } else { Order::Random },
    })
}

/// Sizes with FCS; what is too short for the headers and the probe is made as long.
fn size(draft: &mut Draft<'_>, device: &Device, shortest: FrameLen) -> Result<Size, ScriptError> {
    let frame = |size: u64| {
        let bytes = size.saturating_add(FCS.into()).max(shortest.get().into());
        match u16::try_from(bytes).ok().filter(|bytes| *bytes <= FrameLen::MAX.get()) {
            Some(bytes) => Ok(Length { bytes, of: Of::Frame }),
            None => Err(device.sizes_line.wrong(format!(
                "packets of {size} bytes make frames of more than {}, the longest",
                FrameLen::MAX
            ))),
        }
    };
    if !device.imix.is_empty() {
        let mut mix: IndexMap<Length, u32> = IndexMap::new();
        for (size, weight) in &device.imix {
            let sum = mix.entry(frame(*size)?).or_default();
            *sum = sum.saturating_add(*weight);
        }
        return Ok(Size::Mix(mix.into()));
    }
    let (min, max) = device.sizes;
    if min >= max {
        return frame(min).map(Size::Fixed);
    }
    if !device.has(Flag::SizeRandom) {
        draft.allow_sizes(&device.sizes_line, usize::try_from(max - min).unwrap_or(usize::MAX))?;
        return (min..=max).map(frame).collect::<Result<_, _>>().map(Size::List);
    }
    // A random one never is the largest.
    let (min, max) = (u64::from(frame(min)?.bytes), u64::from(frame(max - 1)?.bytes));
    let distribution =
        Distribution::Uniform(Uniform { min: Bytes::new(min), max: Bytes::new(max) });
    let beyond = (max > USUAL_LONGEST).then(|| Bytes::new(max));
    Ok(Size::Drawn(Bounded { distribution, min: None, max: beyond }, Of::Frame))
}
