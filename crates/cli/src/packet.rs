//! The headers of UDP datagrams by flags. `send` and `replay` have them in common.

use std::net::IpAddr;

use clap::Args;
use wirebeat_run::MacAddr;
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::checksum::Checksum;
use wirebeat_traffic::scenario::header::dscp::Dscp;
use wirebeat_traffic::scenario::header::ethernet::Ethernet;
use wirebeat_traffic::scenario::header::ipv4::{Identification, Ipv4};
use wirebeat_traffic::scenario::header::ipv6::Ipv6;
use wirebeat_traffic::scenario::header::udp::{DISCARD, Udp};
use wirebeat_traffic::scenario::number::Number;
use wirebeat_traffic::scenario::pattern::{Field, Mac};
use wirebeat_units::fault;

use crate::failure::Failure;
use crate::values::{self, Target};

/// What headers say.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Packet")]
pub struct PacketArgs {
    /// Source address [default: that of the interface]
    #[arg(long, value_name = "ADDRESS", value_parser = values::ip)]
    pub source: Option<IpAddr>,
    /// Source port [default: 9; the system's choice with the engine 'socket']
    #[arg(long, value_name = "PORT", value_parser = values::udp_port)]
    pub source_port: Option<u16>,
    /// Time to live, or hop limit [default: 64]
    #[arg(long, value_name = "N", value_parser = values::byte)]
    pub ttl: Option<u8>,
    /// Differentiated services code point: a name such as ef, af41 or cs5, or 0 to 63
    #[arg(long, value_name = "DSCP", conflicts_with = "tos")]
    pub dscp: Option<Dscp>,
    /// The whole ToS byte, or traffic class, for example 184 or 0xb8
    #[arg(long, value_name = "BYTE", value_parser = values::byte)]
    pub tos: Option<u8>,
    /// Identification of IPv4: a number, or 'count' to number the frames [default: 0]
    #[arg(long, value_name = "N")]
    pub ip_id: Option<Identification>,
    /// Leave out the UDP checksum (IPv4 only)
    #[arg(long)]
    pub no_udp_checksum: bool,
    /// Ethernet source address [default: that of the interface]
    #[arg(long, value_name = "MAC")]
    pub source_mac: Option<MacAddr>,
    /// Ethernet destination address [default: the next hop, found by itself]
    #[arg(long, value_name = "MAC")]
    pub destination_mac: Option<MacAddr>,
}

impl PacketArgs {
    /// These, and where they say nothing, `usual`.
    pub fn or(self, usual: &PacketArgs) -> PacketArgs {
        // The DSCP is part of the ToS byte: whoever gives one means both.
        let service = if self.dscp.is_some() || self.tos.is_some() { &self } else { usual };
        PacketArgs {
            dscp: service.dscp,
            tos: service.tos,
            source: self.source.or(usual.source),
            source_port: self.source_port.or(usual.source_port),
            ttl: self.ttl.or(usual.ttl),
            ip_id: self.ip_id.or_else(|| usual.ip_id.clone()),
            no_udp_checksum: self.no_udp_checksum || usual.no_udp_checksum,
            source_mac: self.source_mac.or(usual.source_mac),
            destination_mac: self.destination_mac.or(usual.destination_mac),
        }
    }

    /// The headers of a packet to there.
    pub fn headers(&self, to: Target) -> Result<Vec<Header>, Failure> {
        let mut packet = Vec::new();
        if self.source_mac.is_some() || self.destination_mac.is_some() {
            let field = |mac: Option<MacAddr>| mac.map(|mac| Field::Fixed(Mac(mac)));
            let (source, destination) = (field(self.source_mac), field(self.destination_mac));
            let ethernet = Ethernet { source, destination, ether_type: None };
            packet.push(Header::Ethernet(ethernet));
        }
        packet.push(network(self, to.address)?);
        packet.push(Header::Udp(Udp {
            source: self.source_port.map(number),
            destination: (to.port != DISCARD).then(|| number(to.port)),
            checksum: if self.no_udp_checksum { Checksum::Off } else { Checksum::On },
            ..Udp::default()
        }));
        Ok(packet)
    }
}

fn number(value: impl Into<u64>) -> Field<Number> {
    Field::Fixed(Number::new(value.into()))
}

fn network(args: &PacketArgs, to: IpAddr) -> Result<Header, Failure> {
    let mixed = |source: IpAddr| {
        let message = fault!(
            "a packet cannot go from {source} to {to}";
            "give two addresses of one family, IPv4 or IPv6"
        );
        Failure::usage(message).at("--source")
    };
    match to {
        IpAddr::V4(destination) => {
            let source = match args.source {
                Some(IpAddr::V4(source)) => Some(source),
                Some(other) => return Err(mixed(other)),
                None => None,
            };
            let usual = Ipv4::default();
            Ok(Header::Ipv4(Ipv4 {
                source: source.map(Field::Fixed),
                destination: Some(Field::Fixed(destination)),
                ttl: args.ttl.map_or(usual.ttl.clone(), number),
                dscp: args.dscp.map(Field::Fixed),
                tos: args.tos.map(number),
                identification: args.ip_id.clone().unwrap_or_default(),
                ..usual
            }))
        }
        IpAddr::V6(destination) => {
            let source = match args.source {
                Some(IpAddr::V6(source)) => Some(source),
                Some(other) => return Err(mixed(other)),
                None => None,
            };
            if args.ip_id.is_some() {
                let message = fault!(
                    "IPv6 has no identification";
                    "leave --ip-id out, or send to an IPv4 address"
                );
                return Err(Failure::usage(message).at("--ip-id"));
            }
            let usual = Ipv6::default();
            Ok(Header::Ipv6(Ipv6 {
                source: source.map(Field::Fixed),
                destination: Some(Field::Fixed(destination)),
                hop_limit: args.ttl.map_or(usual.hop_limit.clone(), number),
                dscp: args.dscp.map(Field::Fixed),
                traffic_class: args.tos.map(number),
                ..usual
            }))
        }
    }
}
