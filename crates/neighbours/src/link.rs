//! The Ethernet header of this link, with its VLAN tag where it has one.

use wirebeat_wire::ethernet::{self, EtherType, FRAME_MIN};
use wirebeat_wire::mac::MacAddr;
use wirebeat_wire::vlan;

use crate::Ignored;

/// The bits of a tag's control information that are the number of the VLAN (IEEE 802.1Q §9.6).
const VLAN_NUMBER: u16 = 0x0fff;
/// The largest number that a VLAN may have; 4095 is reserved, and 0 is none (IEEE 802.1Q §9.6).
pub(crate) const VLAN_MAX: u16 = 4094;

/// Who we are on the link: our link-layer address and the VLAN that our frames are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Our address, of all our hosts that have none of their own ([`Hosts::with_stations`](crate::Hosts::with_stations)).
    pub mac: MacAddr,
    /// The number of the VLAN, 1 to 4094: every frame has exactly this 802.1Q tag. `None`: frames have no tag; those that arrive
    /// with a tag of VLAN 0, which has a priority alone, are of no VLAN too.
    pub vlan: Option<u16>,
}

/// What an Ethernet header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub to: MacAddr,
    pub from: MacAddr,
    pub ether_type: EtherType,
    /// Where what the frame carries begins.
    pub at: usize,
}

impl Link {
    /// Bytes of the header: 14, or 18 with a tag.
    #[inline]
    pub const fn header_len(&self) -> usize {
        ethernet::LEN + if self.vlan.is_some() { vlan::LEN } else { 0 }
    }

    /// Writes the header of a frame to `to` that carries `ether_type` at the front of `into`; returns its length, or `None` where
    /// `into` is shorter.
    #[inline]
    pub fn write_header(
        &self,
        to: MacAddr,
        ether_type: EtherType,
        into: &mut [u8],
    ) -> Option<usize> {
        let [a, b, c, d, e, f] = to.0;
        let [g, h, i, j, k, l] = self.mac.0;
        let [high, low] = ether_type.0.to_be_bytes();
        match self.vlan {
            None => {
                let header = [a, b, c, d, e, f, g, h, i, j, k, l, high, low];
                *into.first_chunk_mut()? = header;
                Some(header.len())
            }
            Some(number) => {
                let [m, n] = EtherType::VLAN.0.to_be_bytes();
                let [o, p] = (number & VLAN_NUMBER).to_be_bytes();
                let header = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, high, low];
                *into.first_chunk_mut()? = header;
                Some(header.len())
            }
        }
    }

    /// Reads the header of a frame of this link.
    #[inline]
    pub(crate) fn read(&self, frame: &[u8]) -> Result<Head, Ignored> {
        let header: &[u8; ethernet::LEN] = frame.first_chunk().ok_or(Ignored::Malformed)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, high, low] = *header;
        let mut head = Head {
            to: MacAddr([a, b, c, d, e, f]),
            from: MacAddr([g, h, i, j, k, l]),
            ether_type: EtherType(u16::from_be_bytes([high, low])),
            at: ethernet::LEN,
        };
        let number = match head.ether_type {
            EtherType::VLAN => {
                let tag = frame.get(ethernet::LEN..).and_then(<[u8]>::first_chunk);
                let [m, n, high, low]: [u8; vlan::LEN] = *tag.ok_or(Ignored::Malformed)?;
                head.ether_type = EtherType(u16::from_be_bytes([high, low]));
                head.at += vlan::LEN;
                u16::from_be_bytes([m, n]) & VLAN_NUMBER
            }
            _ => 0,
        };
        if number != self.vlan.unwrap_or(0) {
            return Err(Ignored::Vlan);
        }
        if head.from.is_multicast() {
            return Err(Ignored::Source);
        }
        Ok(head)
    }
}

/// A frame that is being written; what does not fit is noticed at its end.
pub(crate) struct Writer<'a> {
    into: &'a mut [u8],
    len: usize,
    fits: bool,
}

impl<'a> Writer<'a> {
    /// Begins with the header of the link.
    pub fn new(link: &Link, to: MacAddr, ether_type: EtherType, into: &'a mut [u8]) -> Writer<'a> {
        let len = link.write_header(to, ether_type, into);
        Writer { into, len: len.unwrap_or(0), fits: len.is_some() }
    }

    /// Goes on with `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        let room = self.into.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        match room {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.fits = false,
        }
    }

    /// The length of the frame, padded with zeros to the shortest one; `None` where it did not fit.
    pub fn finish(mut self) -> Option<usize> {
        if self.len < FRAME_MIN {
            let padding = [0; FRAME_MIN];
            let padding = padding.get(self.len..).unwrap_or_default();
            self.put(padding);
        }
        self.fits.then_some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    #[test]
    fn headers_are_written_and_read() {
        for (vlan, tag) in
            [(None, &[][..]), (Some(5), &[0x81, 0, 0, 5]), (Some(4094), &[0x81, 0, 0x0f, 0xfe])]
        {
            let link = Link { mac: OURS, vlan };
            let mut frame = [0xee; 20];
            assert_eq!(
                link.write_header(OTHER, EtherType::ARP, &mut frame),
                Some(link.header_len())
            );
            let expected = [&OTHER.0[..], &OURS.0, tag, &[8, 6]].concat();
            assert_eq!(frame[..link.header_len()], expected);
            assert_eq!(
                link.write_header(OTHER, EtherType::ARP, &mut frame[..link.header_len() - 1]),
                None
            );
            let peer = Link { mac: OTHER, vlan };
            let head = peer.read(&frame).unwrap();
            assert_eq!(
                (head.to, head.from, head.ether_type, head.at),
                (OTHER, OURS, EtherType::ARP, link.header_len())
            );
            for other in [None, Some(5), Some(6)].into_iter().filter(|other| *other != vlan) {
                assert_eq!(Link { vlan: other, ..peer }.read(&frame).unwrap_err(), Ignored::Vlan);
            }
        }
    }

    #[test]
    fn tags_have_to_be_exactly_the_one() {
        let frame = |tags: &[u8]| [&OURS.0[..], &OTHER.0, tags, &[8, 0, 0x45]].concat();
        let read = |vlan, frame: &[u8]| {
            Link { mac: OURS, vlan }.read(frame).map(|head| (head.ether_type, head.at))
        };
        // Priority and drop eligibility do not count.
        assert_eq!(read(Some(5), &frame(&[0x81, 0, 0xf0, 5])), Ok((EtherType::IPV4, 18)));
        assert_eq!(read(None, &frame(&[0x81, 0, 0xe0, 0])), Ok((EtherType::IPV4, 18)));
        // A second tag is what the frame carries, and nobody takes that.
        assert_eq!(
            read(Some(5), &frame(&[0x81, 0, 0, 5, 0x81, 0, 0, 6])),
            Ok((EtherType::VLAN, 18))
        );
        assert_eq!(read(Some(5), &frame(&[0x88, 0xa8, 0, 5])), Err(Ignored::Vlan));
        assert_eq!(read(None, &frame(&[0x88, 0xa8, 0, 5])), Ok((EtherType::SERVICE_VLAN, 14)));
        assert_eq!(read(Some(5), &frame(&[0x81, 0, 0, 5])[..17]), Err(Ignored::Malformed));
        assert_eq!(read(None, &frame(&[])[..13]), Err(Ignored::Malformed));
    }

    #[test]
    fn short_frames_are_padded() {
        let link = Link { mac: OURS, vlan: None };
        let mut frame = [0xee; 100];
        let mut writer = Writer::new(&link, OTHER, EtherType::ARP, &mut frame);
        writer.put(&[7; 10]);
        assert_eq!(writer.finish(), Some(60));
        assert_eq!(
            (frame[14..24].to_vec(), frame[24..60].to_vec(), frame[60]),
            (vec![7; 10], vec![0; 36], 0xee)
        );
        let mut short = [0; 59];
        assert_eq!(Writer::new(&link, OTHER, EtherType::ARP, &mut short).finish(), None);
        let mut writer = Writer::new(&link, OTHER, EtherType::ARP, &mut frame);
        writer.put(&[7; 87]);
        writer.put(&[]);
        assert_eq!(writer.finish(), None);
    }
}
