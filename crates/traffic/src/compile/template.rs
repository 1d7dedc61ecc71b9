//! The frame of a flow, with everything filled in but sequence, time and identification.

use std::net::IpAddr;

use wirebeat_wire::frame::{IpRepr, UdpFrame};
use wirebeat_wire::probe::{self, Probe};
use wirebeat_wire::stamp::Stamp;
use wirebeat_wire::{ethernet, ipv4, ipv6};

use super::links::Addresses;
use crate::program::FrameTemplate;
use crate::spec::header::ipv4::Identification;
use crate::spec::header::udp;
use crate::spec::{FlowSpec, Invalid, KeyPath, Network};

/// Makes the frame of the flow `name`, whose number in probes is `id`.
pub(super) fn template(
    name: &str,
    flow: &FlowSpec,
    id: u16,
    addresses: &Addresses,
) -> Result<FrameTemplate, Invalid> {
    let packet = flow.headers(name)?;
    let too_short = || {
        let why = format!("the shortest frame with these headers is {}", flow.shortest());
        KeyPath::flow(name).key("size").invalid(why)
    };
    let (ip, identification) = ip_header(name, packet.network, addresses)?;
    let frame_len = flow.frame_len();
    let payload_len = ip.version().payload_len(frame_len).ok_or_else(too_short)?;
    let mut payload = vec![0; usize::from(payload_len)];
    packet.payload.fill(&mut payload);
    if flow.probe {
        let tail = payload.last_chunk_mut().ok_or_else(too_short)?;
        *tail = Probe { flow: id, sequence: 0, transmit_ns: 0 }.to_bytes();
    }
    let frame = UdpFrame {
        ethernet: ethernet::Repr {
            source: addresses.source_mac,
            destination: addresses.destination_mac,
        },
        ip,
        source_port: packet.udp.source.unwrap_or(udp::DISCARD),
        destination_port: packet.udp.destination,
        checksum: packet.udp.checksum,
        payload: &payload,
        frame_len,
    };
    let built = frame
        .emit()
        .map_err(|error| KeyPath::flow(name).key("packet").invalid(error.to_string()))?;
    let probe_at = built.payload_at + payload_len.saturating_sub(probe::LEN as u16);
    Ok(FrameTemplate {
        bytes: built.bytes,
        payload_at: built.payload_at,
        payload_len,
        stamp: Stamp {
            probe_at: if flow.probe { probe_at } else { 0 },
            // Without a probe nothing changes that the checksum covers.
            checksum_at: if flow.probe { built.checksum_at } else { 0 },
            identification_at: match identification {
                Identification::Count => built.identification_at,
                Identification::Fixed(_) => 0,
            },
        },
    })
}

/// The network header, and what becomes of its identification.
fn ip_header(
    name: &str,
    network: Network<'_>,
    addresses: &Addresses,
) -> Result<(IpRepr, Identification), Invalid> {
    match (network, addresses.source, addresses.destination) {
        (Network::V4(header), IpAddr::V4(source), IpAddr::V4(destination)) => {
            let identification = match header.identification {
                Identification::Fixed(identification) => identification,
                Identification::Count => 0,
            };
            let repr = ipv4::Repr {
                source,
                destination,
                ttl: header.ttl,
                tos: header.tos(),
                identification,
                // A probe that a router cuts in two measures nothing.
                dont_fragment: true,
            };
            Ok((IpRepr::V4(repr), header.identification))
        }
        (Network::V6(header), IpAddr::V6(source), IpAddr::V6(destination)) => {
            let repr = ipv6::Repr {
                source,
                destination,
                hop_limit: header.hop_limit,
                traffic_class: header.traffic_class(),
                flow_label: header.flow_label,
            };
            Ok((IpRepr::V6(repr), Identification::Fixed(0)))
        }
        _ => Err(KeyPath::flow(name)
            .key("packet")
            .invalid("source and destination are of different families")),
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_wire::checksum::Sum;
    use wirebeat_wire::ip::Protocol;
    use wirebeat_wire::udp;

    use super::*;
    use crate::compile::{Link, Links, compile};
    use crate::spec::Scenario;

    /// The frame of the second flow, so that its number is not zero.
    fn template_of(keys: &str) -> FrameTemplate {
        let text = format!(
            "ports: {{ a: {{}}, b: {{}} }}\nflows:\n  first: {{ from: a, to: b }}\n  x: {{ from: a, to: b, {keys} }}"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        let ports = [("a".to_owned(), Link::imaginary(0)), ("b".to_owned(), Link::imaginary(1))];
        let program = compile(&scenario, &Links { ports: ports.into() }).unwrap();
        program.flows[1].template.clone()
    }

    fn build(template: &FrameTemplate, sequence: u32, transmit_ns: u64) -> Vec<u8> {
        let mut frame = vec![0; 2000];
        let len = template.frame().build(&mut frame);
        frame.truncate(len);
        template.frame().stamp(&mut frame, sequence, transmit_ns);
        frame
    }

    #[test]
    fn a_stamped_frame_is_right_in_every_checksum() {
        let template =
            template_of("size: 101B, packet: [ { ipv4: { identification: count } }, { udp: {} } ]");
        let frame = build(&template, 70_000, u64::MAX / 3);
        assert_eq!(frame.len(), 97);
        let ip = ipv4::Packet::parse(&frame[14..]).unwrap();
        assert_eq!(frame[18..20], (70_000_u32 as u16).to_be_bytes());
        assert_eq!(wirebeat_wire::checksum::checksum(&frame[14..34]), 0);
        let probe = Probe { flow: 1, sequence: 70_000, transmit_ns: u64::MAX / 3 };
        assert_eq!(
            Probe::from_tail(udp::Packet::parse(ip.payload()).unwrap().payload()),
            Some(probe)
        );
        let sum = Sum::pseudo_v4(ip.source(), ip.destination(), Protocol::UDP, 63);
        assert_eq!(sum.add_bytes(ip.payload()).checksum(), 0);
    }

    #[test]
    fn an_ipv6_datagram_can_be_nothing_but_a_probe() {
        let template = template_of("packet: [ { ipv6: { dscp: ef } }, { udp: {} } ]");
        assert_eq!((template.payload_at, template.payload_len), (62, 16));
        assert_eq!(template.datagram().probe_at, Some(0));
        let frame = build(&template, 5, 6);
        let ip = ipv6::Packet::parse(&frame[14..]).unwrap();
        assert_eq!(ip.traffic_class(), 184);
        let (_, datagram) = ip.upper_layer().unwrap();
        let sum = Sum::pseudo_v6(ip.source(), ip.destination(), Protocol::UDP, 24);
        assert_eq!(sum.add_bytes(datagram).checksum(), 0);
    }

    #[test]
    fn payload_fills_what_the_headers_and_the_probe_leave() {
        let udp = "{ ipv4: {} }, { udp: {} }";
        let payload = |payload: &str, probe: &str| {
            let keys =
                format!("packet: [ {udp}, {{ payload: {payload} }} ], size: 70B, probe: {probe}");
            template_of(&keys).bytes[42..].to_vec()
        };
        assert_eq!(payload("zeros", "off"), [0; 24]);
        assert_eq!(payload("{ pattern: '012345' }", "off"), [0x01, 0x23, 0x45].repeat(8));
        assert_eq!(&payload("{ text: hello }", "on")[..8], b"hello\0\0\0");
        assert_eq!(payload("{ text: hello }", "on")[8..12], [0x57, 0x42, 0, 1]);
    }

    #[test]
    fn what_does_not_change_is_not_stamped() {
        let template = template_of("probe: off");
        assert_eq!(template.stamp, Stamp::default());
        assert_eq!(build(&template, 9, 9), template.bytes);
        let template = template_of("packet: [ { ipv4: {} }, { udp: { checksum: off } } ]");
        assert_eq!((template.stamp.checksum_at, template.bytes[40..42].to_vec()), (0, vec![0, 0]));
        let template =
            template_of("probe: off, packet: [ { ipv4: { identification: count } }, { udp: {} } ]");
        assert_eq!(build(&template, 0x1_0203, 9)[18..20], [2, 3]);
    }
}
