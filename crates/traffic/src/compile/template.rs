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
