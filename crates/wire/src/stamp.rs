//! What must be written into a frame at the last moment: sequence number, transmit time, and the
//! checksums over them.
//!
//! [`Stamp`] says where; [`Stamp::write`] does it. An engine that holds frames until their launch
//! time (the kernel engine) does the same by itself, with the same offsets. This runs for every
//! frame: its cost does not depend on the length of the frame, and it cannot panic.

use crate::checksum::fold;
use crate::codec::{Marks, Moment};

/// Where the last-moment fields of a frame lie: byte offsets from the start of the frame. Zero means
/// that the field is absent, for no such field can begin a frame. (A datagram's payload may begin with
/// its probe: write that one with [`Marks::write`].)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The probe, in which everything is written already but number and time, which are zero.
    pub probe_at: u16,
    /// Where in the probe these lie.
    pub marks: Marks,
    /// The number of a flow's first frame.
    pub first: u8,
    /// The transport checksum that covers the probe. The bytes there hold the checksum of the frame
    /// with sequence and time zero.
    pub checksum_at: u16,
    /// The IPv4 identification, when it counts frames; its header checksum is 6 bytes further and
    /// holds the checksum of the header with identification zero.
    pub identification_at: u16,
}

impl Default for Stamp {
    fn default() -> Self {
        Stamp {
            probe_at: 0,
            marks: Marks::WIREBEAT,
            first: 0,
            checksum_at: 0,
            identification_at: 0,
        }
    }
}

impl Stamp {
    /// Writes sequence, time and identification (the low 16 bits of the sequence number), and mends
    /// the checksums that cover them.
    ///
    /// Call it once per build of a frame: it takes the template's checksums as its base. Fields that
    /// do not lie within `frame` are left out.
    #[inline]
    pub fn write(&self, frame: &mut [u8], sequence: u32, now: Moment) {
        self.write_number(frame, u64::from(sequence) + u64::from(self.first), now);
        if self.identification_at != 0
            && let Some(fields) = field(frame, self.identification_at)
        {
            write_identification(fields, sequence as u16);
        }
    }

    /// Writes a number as it is into the probe, and the time; the identification stays as it is.
    #[inline]
    pub fn write_number(&self, frame: &mut [u8], number: u64, now: Moment) {
        if self.probe_at != 0
            && let Some(probe) = frame.get_mut(usize::from(self.probe_at)..)
        {
            let sum = self.marks.write(probe, number, now.on(self.marks.time));
            if self.checksum_at != 0
                && let Some(checksum) = field(frame, self.checksum_at)
            {
                // A transport checksum lies at an even offset of its header, so that this tells
                // whether the probe does. Bytes at an odd offset add to the other half of each word.
                let odd = (self.probe_at ^ self.checksum_at) & 1 == 1;
                update_checksum(checksum, if odd { sum.swap_bytes() } else { sum });
            }
        }
    }
}

/// Bytes from the IPv4 identification to the end of the header checksum.
const IDENTIFICATION_TO_CHECKSUM: usize = 8;

/// The `N` bytes at `at`.
#[inline]
fn field<const N: usize>(frame: &mut [u8], at: u16) -> Option<&mut [u8; N]> {
    frame.get_mut(usize::from(at)..)?.first_chunk_mut()
}

/// Writes `identification` into the bytes from that field to the header checksum.
#[inline]
fn write_identification(fields: &mut [u8; IDENTIFICATION_TO_CHECKSUM], identification: u16) {
    fields[..2].copy_from_slice(&identification.to_be_bytes());
    let checksum = updated([fields[6], fields[7]], identification);
    fields[6..].copy_from_slice(&checksum.to_be_bytes());
}

/// Updates a UDP or TCP checksum for words that were zero and now sum to `sum`.
#[inline]
fn update_checksum(checksum: &mut [u8; 2], sum: u16) {
    // A UDP checksum of zero says that there is none, and is sent as its equal of all ones (RFC 768).
    // To TCP both are the same.
    *checksum = match updated(*checksum, sum) {
        0 => [0xff; 2],
        checksum => checksum.to_be_bytes(),
    };
}

/// The checksum after words that were zero have become ones that sum to `sum` (RFC 1624, equation 3).
#[inline]
fn updated(checksum: [u8; 2], sum: u16) -> u16 {
    !fold(u64::from(!u16::from_be_bytes(checksum)) + u64::from(sum))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::checksum;
    use crate::probe::Probe;

    const PROBE: Probe = Probe { flow: 7, sequence: 0, transmit_ns: 0 };

    /// A UDP datagram (8 bytes of header at `start`, `filling` and a probe) without pseudo header.
    fn datagram(start: usize, filling: &[u8]) -> (Vec<u8>, Stamp) {
        let mut frame = vec![0xaa; start];
        frame.extend([0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0]);
        frame.extend(filling);
        let probe_at = frame.len() as u16;
        frame.extend(PROBE.to_bytes());
        let checksum_at = start as u16 + 6;
        let udp = sum(&frame[start..]);
        frame[start + 6..start + 8].copy_from_slice(&udp.to_be_bytes());
        (frame, Stamp { probe_at, checksum_at, ..Stamp::default() })
    }

    fn at(monotonic_ns: u64) -> Moment {
        Moment { monotonic_ns, unix_ns: 0 }
    }

    /// The checksum as UDP sends it, summed anew; the field itself must be zero.
    fn sum(datagram: &[u8]) -> u16 {
        match checksum(datagram) {
            0 => 0xffff,
            sum => sum,
        }
    }

    fn summed_anew(frame: &[u8], start: usize) -> u16 {
        let mut datagram = frame[start..].to_vec();
        datagram[6..8].fill(0);
        sum(&datagram)
    }

    fn checksum_of(frame: &[u8], start: usize) -> u16 {
        u16::from_be_bytes([frame[start + 6], frame[start + 7]])
    }

    #[test]
    fn a_stamp_without_fields_changes_nothing() {
        let mut frame = [0x55; 64];
        Stamp::default().write(&mut frame, u32::MAX, at(u64::MAX));
        assert_eq!(frame, [0x55; 64]);
    }

    #[test]
    fn a_checksum_that_becomes_zero_is_sent_as_all_ones() {
        let (frame, stamp) = datagram(0, &[]);
        // The sequence number whose words complete the sum to 0xffff.
        let sequence = u32::from(checksum_of(&frame, 0));
        let mut stamped = frame;
        stamp.write(&mut stamped, sequence, at(0));
        assert_eq!(checksum_of(&stamped, 0), 0xffff);
        assert_eq!(summed_anew(&stamped, 0), 0xffff);
    }

    proptest! {
        #[test]
        fn stamping_gives_the_checksum_that_summing_anew_gives(
            start in 0..40_usize,
            filling in prop::collection::vec(any::<u8>(), 0..64),
            sequence: u32,
            time: u64,
        ) {
            let (mut frame, stamp) = datagram(start, &filling);
            stamp.write(&mut frame, sequence, at(time));
            let expected = Probe { flow: 7, sequence, transmit_ns: time };
            prop_assert_eq!(Probe::from_tail(&frame), Some(expected));
            prop_assert_eq!(checksum_of(&frame, start), summed_anew(&frame, start));
        }

        #[test]
        fn identification_keeps_the_header_checksum_right(
            mut header in prop::array::uniform20(any::<u8>()),
            sequence: u32,
        ) {
            header[0] = 0x45;
            header[4..6].fill(0);
            header[10..12].fill(0);
            let blank = checksum(&header);
            header[10..12].copy_from_slice(&blank.to_be_bytes());
            let mut frame = [vec![0; 14], header.to_vec()].concat();
            Stamp { identification_at: 18, ..Stamp::default() }.write(&mut frame, sequence, at(1));
            prop_assert_eq!(&frame[18..20], &(sequence as u16).to_be_bytes());
            prop_assert_eq!(checksum(&frame[14..]), 0);
        }

        #[test]
        fn any_offsets_into_any_frame_are_safe(
            mut frame in prop::collection::vec(any::<u8>(), 0..80),
            probe_at in 0..100_u16,
            checksum_at in 0..100_u16,
            identification_at: u16,
        ) {
            let stamp = Stamp { probe_at, checksum_at, identification_at, ..Stamp::default() };
            let len = frame.len();
            stamp.write(&mut frame, u32::MAX, at(u64::MAX));
            prop_assert_eq!(frame.len(), len);
        }
    }
}
