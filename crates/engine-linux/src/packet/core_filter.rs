//! Which frames are for one of several cores that have the sessions of an interface, each by a packet socket of its own.
//!
//! TCP and UDP come to the core of their two ports (`wirebeat_engine::steering`), and so does an ICMP error that quotes them. Every core has ARP
//! and neighbour discovery: each has a table of next hops. All others, what is cut into fragments, and what is not understood come to
//! the first core, which answers and counts them. A frame that ends before what decides comes to none.
//!
//! A classic BPF program at each socket (`instructions`), all alike but for the core: no group of sockets divides the frames, so a core
//! that ends changes nothing for the others. The outermost VLAN tag is out of the frame by then (`skb_vlan_untag`), one more is stepped
//! over. Where TCP begins is followed through options and extension headers, as the walk of `wirebeat_wire` does.

use wirebeat_engine::steering::{CORES_MAX, MULTIPLIER, SHIFT, Shard};

use super::Accept;
use super::filter::{
    DESTINATION_OPTIONS, ETHER_TYPE, ETHERNET, FRAGMENT, FRAGMENT_HEADER, HOP_BY_HOP, IPV4, IPV6,
    ROUTING, TAG, VLAN, direction,
};
use super::instructions::{
    ADD, ADD_INDEX, ALL, AND, FROM_INDEX, INDEX, INDEX_MEMORY, JUMP, JUMP_AT_LEAST, JUMP_SET,
    LOAD_HALF, LOAD_INDEXED_BYTE, LOAD_INDEXED_HALF, LOAD_MEMORY, MULTIPLY, RETURN, SHIFT_LEFT,
    SHIFT_RIGHT, STORE, TO_INDEX, op, when,
};

const ARP: u32 = libc::ETH_P_ARP as u32;
/// What has two ports at its beginning.
const WITH_PORTS: [u32; 2] = [libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32];
const ICMP: u32 = libc::IPPROTO_ICMP as u32;
const ICMPV6: u32 = libc::IPPROTO_ICMPV6 as u32;
/// Destination unreachable, time exceeded, parameter problem (RFC 792): the errors that TCP heeds.
const ERRORS_V4: [u32; 3] = [3, 11, 12];
/// The first and the last error of ICMPv6 (RFC 4443 §2.1) that TCP heeds.
const ERRORS_V6: (u32, u32) = (1, 4);
/// Neighbour solicitation and advertisement (RFC 4861 §4).
const DISCOVERY: [u32; 2] = [135, 136];
/// Bytes of an ICMP error before the packet that it quotes, and of the header of IPv6.
const ICMP_HEADER: u32 = 8;
const IPV6_HEADER: u32 = 40;
/// Extension headers that are stepped over, as many as `wirebeat_wire` walks.
const EXTENSIONS: usize = 5;
/// What the extension header of a fragment has set in its offset and flags; none of it in an atomic fragment (RFC 6946).
const FRAGMENT_V6: u32 = 0xfff9;
/// A word of the program's memory for a port, and one for the number of a next header.
const PORT: u32 = 0;
const NEXT: u32 = 1;

/// A place in the program that is jumped to, from before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind the tag: the EtherType is loaded.
    Typed,
    /// IPv4, IPv6: the index is where the header begins, as at all places below.
    V4,
    V6,
    /// An ICMP error over IPv4 that quotes a packet.
    ErrorV4,
    /// What has ports, over IPv4: the index is where the IP header begins.
    PortsV4,
    /// An extension header of IPv6, of this kind and number: the index is where it begins.
    Fragment(usize),
    Extension(usize),
    /// What is behind the extension headers before this one; its number is loaded.
    Next(usize),
    /// ICMPv6, and an error of it.
    IcmpV6,
    ErrorV6,
    /// Two ports, where the index is.
    Ports,
    /// The frame is for all cores; for the first one.
    Every,
    First,
}

/// A program under way.
struct Assembly {
    program: Vec<libc::sock_filter>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Place)>,
}

impl Assembly {
    fn add(&mut self, ops: impl IntoIterator<Item = libc::sock_filter>) {
        self.program.extend(ops);
    }

    /// Goes on at `place`.
    fn jump(&mut self, place: Place) {
        self.jumps.push((self.program.len(), place));
        self.add([op(JUMP, 0)]);
    }

    /// Goes on at `place` where the accumulator is `value`.
    fn when(&mut self, value: u32, place: Place) {
        self.add([when(value, 0, 1)]);
        self.jump(place);
    }

    /// Goes on at `place` where the test `code` of the accumulator with `value` holds.
    fn test(&mut self, code: u16, value: u32, place: Place) {
        self.add([libc::sock_filter { code, jt: 0, jf: 1, k: value }]);
        self.jump(place);
    }

    /// Goes on at `place` where the accumulator is the number of a protocol that has ports.
    fn when_it_has_ports(&mut self, place: Place) {
        WITH_PORTS.into_iter().for_each(|protocol| self.when(protocol, place));
    }

    /// Here is `place`.
    fn place(&mut self, place: Place) {
        let here = self.program.len();
        let program = &mut self.program;
        self.jumps.retain(|&(at, to)| {
            if to != place {
                return true;
            }
            if let Some(jump) = program.get_mut(at) {
                jump.k = (here - at - 1) as u32;
            }
            false
        });
    }
}

/// The program of a core.
pub(super) fn program(accept: Accept, shard: Shard) -> Vec<libc::sock_filter> {
    let mut program = direction(accept);
    if shard.cores <= 1 {
        program.push(op(RETURN, ALL));
        return program;
    }
    let mut assembly = Assembly { program, jumps: Vec::new() };
    ethernet(&mut assembly);
    ipv4(&mut assembly);
    ipv6(&mut assembly);
    icmpv6(&mut assembly);
    ports(&mut assembly, shard);
    assembly.place(Place::Every);
    assembly.add([op(RETURN, ALL)]);
    assembly.place(Place::First);
    assembly.add([op(RETURN, if shard.core == 0 { ALL } else { 0 })]);
    assembly.program
}

fn ethernet(to: &mut Assembly) {
    to.add([op(INDEX, ETHERNET), op(LOAD_HALF, ETHER_TYPE)]);
    to.add([when(VLAN, 1, 0)]);
    to.jump(Place::Typed);
    to.add([op(INDEX, ETHERNET + TAG), op(LOAD_HALF, ETHER_TYPE + TAG)]);
    to.place(Place::Typed);
    to.when(IPV4, Place::V4);
    to.when(IPV6, Place::V6);
    to.when(ARP, Place::Every);
    to.jump(Place::First);
}

/// Moves the index behind the IPv4 header there.
const BEHIND_IPV4: [libc::sock_filter; 5] =
    [op(LOAD_INDEXED_BYTE, 0), op(AND, 0x0f), op(SHIFT_LEFT, 2), op(ADD_INDEX, 0), op(TO_INDEX, 0)];

/// Moves the index on by so many bytes; what was loaded is lost.
const fn move_on(bytes: u32) -> [libc::sock_filter; 3] {
    [op(FROM_INDEX, 0), op(ADD, bytes), op(TO_INDEX, 0)]
}

fn ipv4(to: &mut Assembly) {
    const FLAGS: u32 = 6;
    const PROTOCOL: u32 = 9;
    to.place(Place::V4);
    to.add([op(LOAD_INDEXED_HALF, FLAGS)]);
    to.test(JUMP_SET, FRAGMENT, Place::First);
    to.add([op(LOAD_INDEXED_BYTE, PROTOCOL)]);
    to.when_it_has_ports(Place::PortsV4);
    to.add([when(ICMP, 1, 0)]);
    to.jump(Place::First);
    to.add(BEHIND_IPV4);
    to.add([op(LOAD_INDEXED_BYTE, 0)]);
    for kind in ERRORS_V4 {
        to.when(kind, Place::ErrorV4);
    }
    to.jump(Place::First);
    to.place(Place::ErrorV4);
    to.add(move_on(ICMP_HEADER));
    to.add([op(LOAD_INDEXED_HALF, FLAGS)]);
    to.test(JUMP_SET, FRAGMENT, Place::First);
    to.add([op(LOAD_INDEXED_BYTE, PROTOCOL)]);
    to.when_it_has_ports(Place::PortsV4);
    to.jump(Place::First);
    to.place(Place::PortsV4);
    to.add(BEHIND_IPV4);
    to.jump(Place::Ports);
}

fn ipv6(to: &mut Assembly) {
    const NEXT_HEADER: u32 = 6;
    to.place(Place::V6);
    to.add([op(LOAD_INDEXED_BYTE, NEXT_HEADER), op(STORE, NEXT)]);
    to.add(move_on(IPV6_HEADER));
    to.add([op(LOAD_MEMORY, NEXT)]);
    for number in 0..EXTENSIONS {
        to.when_it_has_ports(Place::Ports);
        to.when(ICMPV6, Place::IcmpV6);
        for kind in [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS] {
            to.when(kind, Place::Extension(number));
        }
        to.when(FRAGMENT_HEADER, Place::Fragment(number));
        to.jump(Place::First);
        to.place(Place::Fragment(number));
        to.add([op(LOAD_INDEXED_HALF, 2)]);
        to.test(JUMP_SET, FRAGMENT_V6, Place::First);
        to.add([op(LOAD_INDEXED_BYTE, 0), op(STORE, NEXT)]);
        to.add(move_on(8));
        to.jump(Place::Next(number));
        to.place(Place::Extension(number));
        // units of 8 bytes without the first (RFC 8200 §4.3)
        to.add([op(LOAD_INDEXED_BYTE, 0), op(STORE, NEXT), op(LOAD_INDEXED_BYTE, 1)]);
        to.add([op(SHIFT_LEFT, 3), op(ADD, 8), op(ADD_INDEX, 0), op(TO_INDEX, 0)]);
        to.place(Place::Next(number));
        to.add([op(LOAD_MEMORY, NEXT)]);
    }
    to.when_it_has_ports(Place::Ports);
    to.when(ICMPV6, Place::IcmpV6);
    to.jump(Place::First);
}

fn icmpv6(to: &mut Assembly) {
    const NEXT_HEADER: u32 = 6;
    let (first, last) = ERRORS_V6;
    to.place(Place::IcmpV6);
    to.add([op(LOAD_INDEXED_BYTE, 0)]);
    for kind in DISCOVERY {
        to.when(kind, Place::Every);
    }
    to.test(JUMP_AT_LEAST, last + 1, Place::First);
    to.test(JUMP_AT_LEAST, first, Place::ErrorV6);
    to.jump(Place::First);
    to.place(Place::ErrorV6);
    // what is quoted was sent by a stack of ours, which sends no extension headers
    to.add([op(LOAD_INDEXED_BYTE, ICMP_HEADER + NEXT_HEADER)]);
    let [tcp, udp] = WITH_PORTS;
    to.add([when(tcp, 2, 0), when(udp, 1, 0)]);
    to.jump(Place::First);
    to.add(move_on(ICMP_HEADER + IPV6_HEADER));
    to.jump(Place::Ports);
}

/// The core of the ports, as `steering::core_of` computes it.
fn ports(to: &mut Assembly, Shard { core, cores }: Shard) {
    to.place(Place::Ports);
    to.add([op(LOAD_INDEXED_HALF, 0), op(STORE, PORT), op(LOAD_INDEXED_HALF, 2)]);
    to.add([op(INDEX_MEMORY, PORT), op(ADD_INDEX, 0)]);
    to.add([op(MULTIPLY, MULTIPLIER), op(SHIFT_RIGHT, SHIFT)]);
    to.add([op(MULTIPLY, cores.min(CORES_MAX)), op(SHIFT_RIGHT, SHIFT)]);
    to.when(core, Place::Every);
    to.add([op(RETURN, 0)]);
}

#[cfg(test)]
mod tests;
