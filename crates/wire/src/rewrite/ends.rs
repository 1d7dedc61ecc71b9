//! Other ends of a packet whose headers are known already: its addresses and ports, with the checksums that cover them mended
//! by the difference, as rules do it.
//!
//! What [`Located`] says was found once in a frame and holds for all copies of it, so nothing is looked for here.

use std::net::IpAddr;

use super::{Change, checksum_at};
use crate::ip::Protocol;
use crate::locate::{Located, Network};
use crate::walk::word;

/// The two ends of a packet, as it says them; of a pair the first is the source, the second the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Its addresses; `None`: an end keeps its own, as does one whose address is of the other version of IP.
    pub addresses: [Option<IpAddr>; 2],
    /// Its ports of TCP and UDP, likewise.
    pub ports: [Option<u16>; 2],
}

/// Where the addresses lie in a network header: source, destination, and how long each is; `None` where it has none of IP.
pub fn address_places(network: Network) -> Option<([usize; 2], usize)> {
    match network {
        Network::V4 => Some(([12, 16], 4)),
        Network::V6 => Some(([8, 24], 16)),
        Network::Arp | Network::Other => None,
    }
}

impl Ends {
    /// Those of a frame; `None` where it has no whole IP header.
    pub fn of(frame: &[u8], located: &Located) -> Option<Ends> {
        let (places, len) = address_places(located.network)?;
        let address = |place: usize| -> Option<IpAddr> {
            let at = located.at + place;
            let octets = frame.get(at..at + len)?;
            match <[u8; 16]>::try_from(octets) {
                Ok(octets) => Some(octets.into()),
                Err(_) => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
            }
        };
        let port = |number: usize| word(frame, ports_at(located)? + 2 * number);
        Some(Ends {
            addresses: [Some(address(places[0])?), Some(address(places[1])?)],
            ports: [port(0), port(1)],
        })
    }

    /// Gives them to a frame with these headers. What is missing of it, because it was cut short, stays missing.
    #[inline]
    pub fn apply(&self, frame: &mut [u8], located: &Located) {
        let Some((places, len)) = address_places(located.network) else { return };
        let mut change = Change::default();
        for ((address, place), is_covered) in
            self.addresses.into_iter().zip(places).zip([true, !located.is_routed])
        {
            let Some(to) = frame.get_mut(located.at + place..located.at + place + len) else {
                return;
            };
            let mut of_this = Change::default();
            match address {
                Some(IpAddr::V4(new)) if len == 4 => of_this.write(to, &new.octets()),
                Some(IpAddr::V6(new)) if len == 16 => of_this.write(to, &new.octets()),
                _ => {}
            }
            // RFC 8200 §8.1: checksums cover the last destination, which a routing header has
            if is_covered {
                change.0 += of_this.0;
            }
        }
        if located.network == Network::V4 {
            change.update_checksum(frame, located.at + 10, false);
        }
        if let Some(at) = ports_at(located) {
            for (port, at) in self.ports.into_iter().zip([at, at + 2]) {
                if let (Some(port), Some(to)) = (port, frame.get_mut(at..at + 2)) {
                    change.write(to, &port.to_be_bytes());
                }
            }
        }
        let checksum = checksum_at(located.protocol, located.network == Network::V6);
        if let (Some((offset, zero_is_none)), Some(at)) = (checksum, located.carried.transport()) {
            change.update_checksum(frame, at + offset, zero_is_none);
        }
    }
}

/// Where ports begin, if the packet has any.
fn ports_at(located: &Located) -> Option<usize> {
    let has_ports = matches!(located.protocol, Protocol::TCP | Protocol::UDP);
    located.carried.transport().filter(|_| has_ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use crate::locate::locate;

    /// A packet of UDP or TCP with right checksums.
    fn packet(is_v6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = if protocol == 17 { 8 } else { 20 } + payload.len();
        let mut transport = vec![0; len];
        transport[..4].copy_from_slice(&[0x30, 0x39, 0, 53]);
        match protocol {
            17 => transport[4..6].copy_from_slice(&(len as u16).to_be_bytes()),
            _ => transport[12] = 0x50,
        }
        transport[len - payload.len()..].copy_from_slice(payload);
        let mut frame = vec![2; 12];
        let addresses_at = match is_v6 {
            false => {
                frame.extend([8, 0, 0x45, 0]);
                frame.extend((20 + len as u16).to_be_bytes());
                frame.extend([0, 7, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                26
            }
            true => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((len as u16).to_be_bytes());
                frame.extend([protocol, 64]);
                frame.extend([0xfd; 16]);
                frame.extend([0xfc; 16]);
                22
            }
        };
        let at = frame.len();
        frame.extend(transport);
        if !is_v6 {
            let sum = !Sum::ZERO.add_bytes(&frame[14..34]).folded();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let sum = transport_sum(&frame, addresses_at, at, protocol);
        let checksum = at + if protocol == 17 { 6 } else { 16 };
        frame[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    fn transport_sum(frame: &[u8], addresses_at: usize, at: usize, protocol: u8) -> u16 {
        let len = (frame.len() - at) as u16;
        let pseudo = [&frame[addresses_at..at], &[0, protocol], &len.to_be_bytes()].concat();
        !Sum::ZERO.add_bytes(&[&pseudo, &frame[at..]].concat()).folded()
    }

    #[test]
    fn checksums_of_other_ends_are_right_for_every_protocol_and_version() {
        for is_v6 in [false, true] {
            for protocol in [6, 17] {
                for payload in [&b""[..], b"x", b"some payload"] {
                    let mut frame = packet(is_v6, protocol, payload);
                    let located = locate(&frame).unwrap();
                    let before = Ends::of(&frame, &located).unwrap();
                    assert_eq!(before.ports, [Some(12345), Some(53)]);
                    let addresses: [IpAddr; 2] = match is_v6 {
                        false => ["16.0.0.255", "48.0.255.1"].map(|ip| ip.parse().unwrap()),
                        true => ["2001:db8::1", "2001:db8:ffff::2"].map(|ip| ip.parse().unwrap()),
                    };
                    let ends = Ends { addresses: addresses.map(Some), ports: [Some(1024), None] };
                    ends.apply(&mut frame, &located);
                    let after = Ends::of(&frame, &located).unwrap();
                    assert_eq!(after, Ends { ports: [Some(1024), Some(53)], ..ends });
                    let (addresses_at, at) = if is_v6 { (22, 54) } else { (26, 34) };
                    assert_eq!(transport_sum(&frame, addresses_at, at, protocol), 0, "{protocol}");
                    if !is_v6 {
                        assert_eq!(Sum::ZERO.add_bytes(&frame[14..34]).folded(), 0xffff);
                    }
                    before.apply(&mut frame, &located);
                    assert_eq!(frame, packet(is_v6, protocol, payload), "and back again");
                }
            }
        }
    }

    #[test]
    fn addresses_of_the_other_version_and_missing_bytes_stay() {
        let mut frame = packet(false, 17, b"");
        let located = locate(&frame).unwrap();
        let other = Ends { addresses: [Some("::1".parse().unwrap()), None], ports: [None; 2] };
        let before = frame.clone();
        other.apply(&mut frame, &located);
        assert_eq!(frame, before);
        for len in 0..frame.len() {
            let mut cut = frame[..len].to_vec();
            if let Some(located) = locate(&cut) {
                let ends =
                    Ends { addresses: ["1.2.3.4".parse().ok(), None], ports: [Some(9), Some(9)] };
                ends.apply(&mut cut, &located);
            }
        }
        assert_eq!(Ends::of(&[0; 60], &locate(&[0; 60]).unwrap()), None);
    }

    #[test]
    fn a_udp_checksum_of_zero_stays_zero() {
        let mut frame = packet(false, 17, b"abc");
        frame[40..42].fill(0);
        let located = locate(&frame).unwrap();
        let ends = Ends { addresses: ["1.2.3.4".parse().ok(), None], ports: [None; 2] };
        ends.apply(&mut frame, &located);
        assert_eq!(frame[40..42], [0, 0]);
    }
}
