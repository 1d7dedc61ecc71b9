//! What cuts packets with several segments: the kernel or a card, as the simulation and the tests have them.

use wirebeat_wire::checksum::Sum;
use wirebeat_wire::ip::Protocol;

use crate::segment::{Checksum, Flags, Outgoing, Segment};

/// A packet of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub bytes: Vec<u8>,
    /// How it is to be cut: bytes of data in a segment, bytes of headers.
    pub large: Option<(u16, u16)>,
}

impl Packet {
    /// The segments that it becomes.
    pub fn cut(&self) -> Vec<Vec<u8>> {
        self.large.map_or_else(|| vec![self.bytes.clone()], |(len, _)| self.pieces(len.into()))
    }

    /// As a kernel hands it over that does not cut it (or has put it together): one packet, with a checksum.
    pub fn whole(&self) -> Vec<u8> {
        if self.large.is_none() { self.bytes.clone() } else { self.pieces(usize::MAX).remove(0) }
    }

    /// Segments of `len` bytes of data, and that the packet was right.
    fn pieces(&self, len: usize) -> Vec<Vec<u8>> {
        let packet = &self.bytes;
        let (segment_len, header_len) = self.large.unwrap();
        let segment = Segment::read(packet, Checksum::Skip).unwrap();
        let Segment { tuple, payload, flags, .. } = segment;
        assert_eq!(packet.len(), usize::from(header_len) + payload.len());
        assert!(payload.len() > segment_len.into() && packet.len() <= 65_535);
        assert!(!flags.has(Flags::CWR) && !flags.has(Flags::SYN));
        let content = if tuple.local.is_ipv4() { &packet[20..] } else { &packet[40..] };
        let pseudo =
            Sum::pseudo(tuple.remote, tuple.local, Protocol::TCP, content.len() as u32).unwrap();
        assert_eq!(content[16..18], pseudo.folded().to_be_bytes(), "the sum of the pseudo header");
        let tos = match tuple.local.is_ipv4() {
            true => packet[1],
            false => packet[0] << 4 | packet[1] >> 4,
        };
        let count = payload.chunks(len).count();
        let pieces = payload.chunks(len).enumerate().map(|(number, piece)| {
            let is_last = number + 1 == count;
            let outgoing = Outgoing {
                tuple: tuple.reversed(),
                seq: segment.seq.plus((number * len.min(payload.len())) as u32),
                ack: segment.ack,
                flags: if is_last { flags } else { flags.without(Flags::FIN).without(Flags::PSH) },
                window: segment.window,
                options: segment.options,
                payload_len: piece.len() as u16,
                tos,
                ttl: 64,
                identification: 0,
                dont_fragment: true,
            };
            let mut bytes = vec![0; outgoing.packet_len()];
            assert!(outgoing.write(&mut bytes, |into| into.copy_from_slice(piece)));
            bytes
        });
        pieces.collect()
    }
}
