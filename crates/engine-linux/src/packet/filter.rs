//! Which frames the kernel queues for us: UDP over IP, also where that is behind extension headers or in fragments,
//! at most one VLAN tag besides the outermost, and whatever else ends with a probe.
//!
//! A classic BPF program (`linux/filter.h`) at the socket. Everything else would only fill the
//! ring. The outermost VLAN tag is out of the frame by then (`skb_vlan_untag`). The reader looks at all of it
//! once more.

use wirebeat_wire::probe;

use super::instructions::{
    ALL, JUMP, JUMP_SET, LOAD_BYTE, LOAD_HALF, LOAD_INDEXED_HALF, LOAD_LEN, LOAD_WORD, PACKET_TYPE,
    RETURN, SUBTRACT, TO_INDEX, op, when,
};
use super::{Accept, Kinds};

pub(super) const IPV4: u32 = 0x0800;
pub(super) const IPV6: u32 = 0x86dd;
pub(super) const VLAN: u32 = 0x8100;
const SERVICE_VLAN: u32 = 0x88a8;
const UDP: u32 = libc::IPPROTO_UDP as u32;
pub(super) const HOP_BY_HOP: u32 = libc::IPPROTO_HOPOPTS as u32;
pub(super) const ROUTING: u32 = libc::IPPROTO_ROUTING as u32;
pub(super) const FRAGMENT_HEADER: u32 = libc::IPPROTO_FRAGMENT as u32;
pub(super) const DESTINATION_OPTIONS: u32 = libc::IPPROTO_DSTOPTS as u32;
/// What a fragment has set in its flags and offset, and no other packet.
pub(super) const FRAGMENT: u32 = 0x3fff;
/// Bytes of an Ethernet header.
pub(super) const ETHERNET: u32 = 14;

/// Where the EtherType lies, and how far a VLAN tag moves everything.
pub(super) const ETHER_TYPE: u32 = 12;
pub(super) const TAG: u32 = 4;
/// The protocol field of IPv4 and the next header of IPv6, from the start of the frame.
const IPV4_PROTOCOL: u32 = ETHERNET + 9;
const IPV6_NEXT_HEADER: u32 = ETHERNET + 6;
/// The total length of IPv4, and its flags and offset.
const IPV4_LENGTH: u32 = ETHERNET + 2;
const IPV4_FRAGMENT: u32 = ETHERNET + 6;

/// A program that no frame passes.
pub(super) const NOTHING: [libc::sock_filter; 1] = [op(RETURN, 0)];

/// Drops what leaves, and what `accept` does not take; goes on with the next instruction otherwise.
pub(super) fn direction(accept: Accept) -> Vec<libc::sock_filter> {
    let mut program = Vec::with_capacity(60);
    // sockets of a group are given what leaves, by kernels that do not know the group's flag against it (6.1)
    program.extend([
        op(LOAD_WORD, PACKET_TYPE),
        when(libc::PACKET_OUTGOING as u32, 0, 1),
        op(RETURN, 0),
    ]);
    if accept == Accept::Ours {
        program.extend([when(libc::PACKET_OTHERHOST as u32, 0, 1), op(RETURN, 0)]);
    }
    program
}

/// The program.
pub(super) fn program(accept: Accept, kinds: Kinds) -> Vec<libc::sock_filter> {
    let mut program = direction(accept);
    if kinds == Kinds::Any {
        program.push(op(RETURN, ALL));
        return program;
    }
    let untagged = decide(0);
    let past = untagged.len() as u8;
    program.extend([
        op(LOAD_HALF, ETHER_TYPE),
        when(VLAN, past + 1, 0),
        when(SERVICE_VLAN, past, 0),
    ]);
    program.extend(untagged);
    program.push(op(LOAD_HALF, ETHER_TYPE + TAG));
    program.extend(decide(TAG));
    program
}

/// Decides, with the EtherType loaded and the IP header `shift` bytes further than usual: UDP, fragments and what is
/// behind extension headers pass, and of anything else what ends with a probe. An IPv4 packet ends where it says:
/// a short one is padded.
fn decide(shift: u32) -> [libc::sock_filter; 24] {
    let set = |value, then| libc::sock_filter { code: JUMP_SET, jt: then, jf: 0, k: value };
    [
        when(IPV4, 0, 8),
        op(LOAD_HALF, IPV4_FRAGMENT + shift),
        set(FRAGMENT, 13),
        op(LOAD_BYTE, IPV4_PROTOCOL + shift),
        when(UDP, 11, 0),
        op(LOAD_HALF, IPV4_LENGTH + shift),
        op(SUBTRACT, (probe::LEN as u32).wrapping_sub(ETHERNET + shift)),
        op(TO_INDEX, 0),
        op(JUMP, 11),
        // not IPv4
        when(IPV6, 0, 7),
        op(LOAD_BYTE, IPV6_NEXT_HEADER + shift),
        when(UDP, 4, 0),
        when(HOP_BY_HOP, 3, 0),
        when(ROUTING, 2, 0),
        when(FRAGMENT_HEADER, 1, 0),
        when(DESTINATION_OPTIONS, 0, 1),
        op(RETURN, ALL),
        // whatever it is, to its end
        op(LOAD_LEN, 0),
        op(SUBTRACT, probe::LEN as u32),
        op(TO_INDEX, 0),
        op(LOAD_INDEXED_HALF, 0),
        when(u32::from(probe::MAGIC), 0, 1),
        op(RETURN, ALL),
        op(RETURN, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::instructions::run;
    use super::*;

    fn frame(types: &[u16], protocol_at: usize, protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        for (index, ether_type) in types.iter().enumerate() {
            frame[12 + 4 * index..][..2].copy_from_slice(&ether_type.to_be_bytes());
        }
        frame[14 + 4 * (types.len() - 1) + protocol_at] = protocol;
        frame
    }

    #[test]
    fn whatever_ends_with_a_probe_passes() {
        let program = program(Accept::All, Kinds::Probed);
        for (types, protocol) in [(&[0x0800_u16][..], 6), (&[0x8847], 0), (&[0x8100, 0x0806], 0)] {
            let mut frame = frame(types, 9, protocol);
            if types == [0x0800] {
                frame[16..18].copy_from_slice(&[0, 46]);
            }
            assert_eq!(run(&program, &frame, 0), 0, "{types:x?}");
            frame[44..46].copy_from_slice(&probe::MAGIC.to_be_bytes());
            assert_eq!(run(&program, &frame, 0), ALL, "{types:x?}");
        }
        assert_eq!(run(&program, &[0xff; 14], 0), 0, "too short for a probe");
    }

    #[test]
    fn udp_over_ip_passes_tagged_or_not() {
        let program = program(Accept::All, Kinds::Probed);
        for tags in [&[][..], &[0x8100], &[0x88a8]] {
            let v4 = [tags, &[0x0800]].concat();
            let v6 = [tags, &[0x86dd]].concat();
            assert_eq!(run(&program, &frame(&v4, 9, 17), 0), ALL);
            assert_eq!(run(&program, &frame(&v6, 6, 17), 0), ALL);
            assert_eq!(run(&program, &frame(&v4, 9, 6), 0), 0, "TCP");
            assert_eq!(run(&program, &frame(&v6, 6, 58), 0), 0, "ICMPv6");
            assert_eq!(run(&program, &frame(&v4, 10, 17), 0), 0, "17 elsewhere");
            assert_eq!(run(&program, &frame(&v6, 6, 59), 0), 0, "nothing");
        }
    }

    #[test]
    fn fragments_and_what_is_behind_extension_headers_pass() {
        let program = program(Accept::All, Kinds::Probed);
        for tags in [&[][..], &[0x8100]] {
            let v4 = [tags, &[0x0800]].concat();
            for (place, passes) in [(0x2000, ALL), (0x0001, ALL), (0x4000, 0)] {
                // GRE
                let mut frame = frame(&v4, 9, 47);
                frame[14 + 4 * tags.len() + 6..][..2].copy_from_slice(&u16::to_be_bytes(place));
                assert_eq!(run(&program, &frame, 0), passes, "{place:x}");
            }
            let v6 = [tags, &[0x86dd]].concat();
            for next in [0, 43, 44, 60] {
                assert_eq!(run(&program, &frame(&v6, 6, next), 0), ALL, "{next}");
            }
        }
    }

    #[test]
    fn a_probe_before_the_padding_is_found() {
        let program = program(Accept::All, Kinds::Probed);
        for tags in [&[][..], &[0x8100]] {
            let ip = 14 + 4 * tags.len();
            let mut frame = frame(&[tags, &[0x0800]].concat(), 9, 1);
            frame[ip + 2..ip + 4].copy_from_slice(&[0, 40]);
            assert_eq!(run(&program, &frame, 0), 0);
            frame[ip + 24..ip + 26].copy_from_slice(&probe::MAGIC.to_be_bytes());
            assert_eq!(run(&program, &frame, 0), ALL);
            frame[ip + 2..ip + 4].copy_from_slice(&[4, 0]);
            assert_eq!(run(&program, &frame, 0), 0, "longer than it is");
        }
    }

    #[test]
    fn everything_else_is_dropped() {
        let program = program(Accept::All, Kinds::Probed);
        assert_eq!(run(&program, &frame(&[0x0806], 9, 17), 0), 0, "ARP");
        assert_eq!(run(&program, &frame(&[0x8100, 0x8100, 0x0800], 9, 17), 0), 0, "three tags");
        assert_eq!(run(&program, &frame(&[0x8100, 0x0806], 9, 17), 0), 0, "tagged ARP");
    }

    #[test]
    fn where_flows_are_known_by_their_headers_all_kinds_pass() {
        let arp = frame(&[0x0806], 9, 17);
        assert_eq!(run(&program(Accept::All, Kinds::Any), &arp, 0), ALL);
        let other = libc::PACKET_OTHERHOST as u32;
        assert_eq!(run(&program(Accept::Ours, Kinds::Any), &arp, other), 0);
        assert_eq!(run(&program(Accept::Ours, Kinds::Any), &arp, 0), ALL);
    }

    #[test]
    fn what_leaves_never_passes() {
        let frame = frame(&[0x0800], 9, 17);
        for accept in [Accept::All, Accept::Ours] {
            for kinds in [Kinds::Probed, Kinds::Any] {
                let program = program(accept, kinds);
                assert_eq!(run(&program, &frame, libc::PACKET_OUTGOING as u32), 0);
                assert_eq!(run(&program, &frame, libc::PACKET_HOST as u32), ALL);
            }
        }
    }

    #[test]
    fn short_frames_are_dropped() {
        let program = program(Accept::All, Kinds::Probed);
        let frame = frame(&[0x0800], 9, 17);
        for len in 0..24 {
            assert_eq!(run(&program, &frame[..len], 0), 0, "{len} bytes");
        }
        assert_eq!(run(&program, &frame[..24], 0), ALL);
    }

    #[test]
    fn frames_for_others_pass_only_where_all_are_wanted() {
        let frame = frame(&[0x0800], 9, 17);
        let other = libc::PACKET_OTHERHOST as u32;
        assert_eq!(run(&program(Accept::All, Kinds::Probed), &frame, other), ALL);
        assert_eq!(run(&program(Accept::Ours, Kinds::Probed), &frame, other), 0);
        assert_eq!(
            run(&program(Accept::Ours, Kinds::Probed), &frame, libc::PACKET_HOST as u32),
            ALL
        );
        assert_eq!(
            run(&program(Accept::Ours, Kinds::Probed), &frame, libc::PACKET_BROADCAST as u32),
            ALL
        );
    }
}
