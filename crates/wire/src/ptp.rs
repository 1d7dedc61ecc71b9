//! Event messages of PTP version 2 (IEEE 1588-2019 clause 13.3), which some cards stamp and nothing else.

use crate::datagram::Datagram;
use crate::ethernet::EtherType;
use crate::walk;

/// The EtherType of PTP (clause E.1), and its UDP port for event messages (clause C.2).
const ETHER_TYPE: EtherType = EtherType(0x88f7);
const EVENT_PORT: u16 = 319;

/// What carries a PTP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtpCarrier {
    /// An Ethernet frame.
    ByEthernet,
    /// A UDP datagram.
    ByUdp,
}

/// What carries the event message that a frame without FCS is; `None` for every other frame.
pub fn event(frame: &[u8]) -> Option<PtpCarrier> {
    let (ether_type, at) = walk::network(frame)?;
    if ether_type == ETHER_TYPE {
        return is_event(frame.get(at..)?).then_some(PtpCarrier::ByEthernet);
    }
    let datagram = Datagram::parse(frame).ok()?;
    (datagram.destination_port == EVENT_PORT && is_event(datagram.payload))
        .then_some(PtpCarrier::ByUdp)
}

/// Whether a message is of version 2 and of one of the types 0 to 3: Sync, Delay_Req, Pdelay_Req, Pdelay_Resp.
fn is_event(message: &[u8]) -> bool {
    matches!(message, [kind, version, ..] if kind & 0xf <= 3 && version & 0xf == 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::udp_frame;

    fn by_ethernet(tags: &[u16], message: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        frame.extend(ETHER_TYPE.0.to_be_bytes());
        frame.extend(message);
        frame
    }

    fn by_udp(port: u16, payload: &[u8]) -> Vec<u8> {
        udp_frame("10.0.0.1:319", &format!("10.0.0.2:{port}"), payload)
    }

    #[test]
    fn event_messages_are_told_from_all_others() {
        let sync = [0x00, 0x12, 0, 44];
        assert_eq!(event(&by_ethernet(&[], &sync)), Some(PtpCarrier::ByEthernet));
        assert_eq!(event(&by_ethernet(&[0x88a8, 0x8100], &sync)), Some(PtpCarrier::ByEthernet));
        assert_eq!(
            event(&by_ethernet(&[], &[0x13, 0x02])),
            Some(PtpCarrier::ByEthernet),
            "802.1AS"
        );
        let payload = [&sync[..], &[0; 14]].concat();
        assert_eq!(event(&by_udp(319, &payload)), Some(PtpCarrier::ByUdp));
        assert_eq!(event(&by_udp(320, &payload)), None, "general messages");
        assert_eq!(event(&by_udp(319, &[0x08, 0x02, 0])), None, "Follow_Up");
        assert_eq!(event(&by_ethernet(&[], &[0x00, 0x01])), None, "version 1");
        assert_eq!(event(&by_ethernet(&[], &[0x00])), None);
        for len in 0..by_ethernet(&[0x8100], &[]).len() {
            assert_eq!(event(&by_ethernet(&[0x8100], &[])[..len]), None);
        }
    }
}
