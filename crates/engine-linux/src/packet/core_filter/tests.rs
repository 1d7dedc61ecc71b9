//! The programs of all cores, against the walk of `wirebeat_wire` and the function that engines and clients share.

use proptest::prelude::*;
use wirebeat_engine::steering::core_of;
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::walk::{self, Policy};

use super::super::instructions::run;
use super::*;

/// Which cores a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    All,
    One(u32),
    None,
}

/// Those whose programs take the frame; not all is the same as several.
fn readers(frame: &[u8], cores: u32) -> Readers {
    let takes = |core: &u32| {
        let program = program(Accept::All, Shard { core: *core, cores });
        let said = run(&program, frame, libc::PACKET_HOST as u32);
        assert!(said == ALL || said == 0, "a frame is taken whole or not at all");
        assert_eq!(run(&program, frame, libc::PACKET_OUTGOING as u32), 0);
        said == ALL
    };
    let taken: Vec<u32> = (0..cores).filter(takes).collect();
    match taken[..] {
        [] => Readers::None,
        [core] => Readers::One(core),
        _ => {
            assert_eq!(taken.len() as u32, cores, "one or all");
            Readers::All
        }
    }
}

/// Those that a frame without mistakes is for.
fn expected(frame: &[u8], cores: u32) -> Readers {
    let (ether_type, at) = walk::network(frame).unwrap();
    let Some(version) = ether_type.version() else {
        return if ether_type == EtherType::ARP { Readers::All } else { Readers::One(0) };
    };
    let ip = walk::ip_packet(&frame[at..], version, Policy::Strict).unwrap();
    let of_ports = |tcp: &[u8]| {
        let half = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Readers::One(core_of([half(0), half(2)], cores))
    };
    let kind = ip.content.first().copied();
    let is_error = match (version, ip.protocol, kind) {
        _ if ip.is_fragment() => return Readers::One(0),
        (_, Protocol::TCP | Protocol::UDP, _) => return of_ports(ip.content),
        (Version::V6, Protocol::ICMPV6, Some(135 | 136)) => return Readers::All,
        (Version::V4, Protocol::ICMP, Some(3 | 11 | 12)) => true,
        (Version::V6, Protocol::ICMPV6, Some(1..=4)) => true,
        _ => false,
    };
    if is_error {
        let quoted = walk::ip_packet(&ip.content[8..], version, Policy::Lenient).unwrap();
        // our stack sends no extension headers
        let is_plain = version == Version::V4 || quoted.headers_len == 40;
        if matches!(quoted.protocol, Protocol::TCP | Protocol::UDP)
            && !quoted.is_fragment()
            && is_plain
        {
            return of_ports(quoted.content);
        }
    }
    Readers::One(0)
}

/// What an IP packet carries.
#[derive(Clone, Debug)]
enum Content {
    /// TCP or UDP.
    Ports(u8, [u16; 2]),
    Other(u8),
    Icmp(u8),
    Error(u8, Box<Packet>),
}

/// An IP packet.
#[derive(Clone, Debug)]
struct Packet {
    is_v6: bool,
    /// Words of options of IPv4.
    options: u8,
    /// Extension headers of IPv6: kinds, and units behind the first.
    extensions: Vec<(u8, u8)>,
    /// The flags and offset of a fragment, as the version has them.
    part: u16,
    content: Content,
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let icmp = if self.is_v6 { 58 } else { 1 };
        let (protocol, content) = match &self.content {
            Content::Ports(protocol, [from, to]) => {
                (*protocol, [&from.to_be_bytes()[..], &to.to_be_bytes(), &[7; 16]].concat())
            }
            // with ports that nobody looks at
            Content::Other(protocol) => (*protocol, vec![9; 24]),
            Content::Icmp(kind) => (icmp, [&[*kind][..], &[0; 31]].concat()),
            Content::Error(kind, quoted) => {
                (icmp, [&[*kind][..], &[0; 7], &quoted.bytes()].concat())
            }
        };
        if !self.is_v6 {
            let header_len = 20 + usize::from(self.options) * 4;
            let mut bytes = vec![0; header_len];
            bytes[0] = 0x40 | (header_len / 4) as u8;
            bytes[2..4].copy_from_slice(&((header_len + content.len()) as u16).to_be_bytes());
            bytes[6..8].copy_from_slice(&self.part.to_be_bytes());
            bytes[9] = protocol;
            bytes[12..20].fill(10);
            return [bytes, content].concat();
        }
        let kinds = self.extensions.iter().map(|(kind, _)| *kind).chain([protocol]);
        let mut kinds = kinds.collect::<Vec<_>>().into_iter();
        let mut header = vec![0; 40];
        (header[0], header[6]) = (0x60, kinds.next().unwrap());
        let mut behind = Vec::new();
        for (next, (kind, units)) in kinds.zip(&self.extensions) {
            let mut extension = vec![0; 8 * (1 + usize::from(*units))];
            (extension[0], extension[1]) = (next, *units);
            if *kind == 44 {
                extension = vec![next, 0, 0, 0, 0, 0, 0, 1];
                extension[2..4].copy_from_slice(&self.part.to_be_bytes());
            }
            behind.extend(extension);
        }
        behind.extend(content);
        header[4..6].copy_from_slice(&(behind.len() as u16).to_be_bytes());
        [header, behind].concat()
    }

    /// The packet behind an Ethernet header, and behind a VLAN tag if there is one.
    fn frame(&self, is_tagged: bool) -> Vec<u8> {
        let ether_type: [u8; 2] = if self.is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let tag: &[u8] = if is_tagged { &[0x81, 0, 0, 7] } else { &[] };
        [&[2; 12], tag, &ether_type, &self.bytes(), &[0; 5]].concat()
    }
}

fn plain(is_v6: bool) -> impl Strategy<Value = Packet> {
    let content = prop_oneof![
        3 => (prop::sample::select(vec![6, 17]), any::<[u16; 2]>()).prop_map(|(of, ports)| Content::Ports(of, ports)),
        // IGMP, AH, SCTP
        1 => prop::sample::select(vec![2, 51, 132]).prop_map(Content::Other),
    ];
    packet(is_v6, content.boxed())
}

fn packet(is_v6: bool, content: BoxedStrategy<Content>) -> impl Strategy<Value = Packet> {
    let kinds = prop::sample::select(vec![0, 43, 60, 44]);
    let extensions = prop::collection::vec((kinds, 0_u8..4), 0..=EXTENSIONS);
    let extensions = prop_oneof![2 => Just(Vec::new()), 1 => extensions];
    // mostly whole packets, with and without DF
    let part = match is_v6 {
        false => prop_oneof![6 => Just(0), 6 => Just(0x4000), 1 => any::<u16>()].boxed(),
        true => prop_oneof![2 => Just(0), 1 => any::<u16>()].boxed(),
    };
    (0_u8..=10, extensions, part, content).prop_map(move |(options, extensions, part, content)| {
        Packet { is_v6, options, extensions, part, content }
    })
}

/// Any of them, ICMP among them.
fn any_packet() -> impl Strategy<Value = Packet> {
    any::<bool>().prop_flat_map(|is_v6| {
        let kinds = prop_oneof![
            prop::sample::select(vec![0, 1, 2, 3, 4, 5, 8, 11, 12, 128, 133, 134, 135, 136, 137]),
            any::<u8>(),
        ];
        let errors = if is_v6 { 0_u8..128 } else { 3..13 };
        let error = (errors, plain(is_v6))
            .prop_map(|(kind, quoted)| Content::Error(kind, Box::new(quoted)));
        // an error without a quoted packet is a mistake
        let quotes = move |kind: &u8| match is_v6 {
            true => (1..=4).contains(kind),
            false => [3, 11, 12].contains(kind),
        };
        let other = kinds.prop_filter("no error", move |kind: &u8| !quotes(kind));
        let other = other.prop_map(Content::Icmp);
        prop_oneof![
            2 => plain(is_v6),
            1 => packet(is_v6, error.boxed()),
            1 => packet(is_v6, other.boxed()),
        ]
    })
}

proptest! {
    /// Whatever headers there are, the program finds the ports that the walk finds, and the core that the function names.
    #[test]
    fn a_frame_comes_to_the_core_that_the_function_names(
        packet in any_packet(), is_tagged: bool, cores in 2_u32..=9,
    ) {
        let frame = packet.frame(is_tagged);
        prop_assert_eq!(readers(&frame, cores), expected(&frame, cores), "{:02x?}", frame);
    }

    #[test]
    fn any_bytes_come_to_one_core_or_all_or_none(
        ether_type in prop::sample::select(vec![0x0800_u16, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x8847]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cores in 2_u32..=9,
    ) {
        readers(&[&[2; 12][..], &ether_type.to_be_bytes(), &bytes].concat(), cores);
    }

    #[test]
    fn a_frame_that_was_cut_comes_to_its_core_or_to_none(
        packet in any_packet(), cores in 2_u32..=9, len: prop::sample::Index,
    ) {
        let frame = packet.frame(false);
        let cut = &frame[..len.index(frame.len())];
        let readers = readers(cut, cores);
        prop_assert!(readers == Readers::None || readers == expected(&frame, cores), "{:02x?}", cut);
    }
}

#[test]
fn both_directions_of_a_connection_and_its_errors_come_to_one_core() {
    for is_v6 in [false, true] {
        for client in 40_000..40_064 {
            let packet =
                |content| Packet { is_v6, options: 0, extensions: Vec::new(), part: 0, content };
            let there = packet(Content::Ports(6, [client, 80]));
            let back = packet(Content::Ports(6, [80, client]));
            let kind = if is_v6 { 2 } else { 3 };
            let error = packet(Content::Error(kind, Box::new(there.clone())));
            let frames = [there, back, error].map(|packet| packet.frame(false));
            for cores in 2..5 {
                let core = Readers::One(core_of([client, 80], cores));
                let found = frames.each_ref().map(|frame| readers(frame, cores));
                assert_eq!(found, [core; 3]);
            }
        }
    }
}

#[test]
fn one_core_takes_all_frames() {
    let program = program(Accept::All, Shard::WHOLE);
    assert_eq!(run(&program, &[], libc::PACKET_HOST as u32), ALL);
    assert_eq!(run(&program, &[], libc::PACKET_OUTGOING as u32), 0);
}

/// The kernel takes up to 4,096 instructions (BPF_MAXINSNS).
#[test]
fn every_jump_goes_forward_and_to_its_end() {
    let program = program(Accept::All, Shard { core: 1, cores: 2 });
    assert!(program.len() < 300, "{}", program.len());
    for (at, op) in program.iter().enumerate().filter(|(_, op)| op.code == JUMP) {
        assert!((1..program.len() - at).contains(&(op.k as usize)) || op.k == 0, "{at}: {op:?}");
    }
}
