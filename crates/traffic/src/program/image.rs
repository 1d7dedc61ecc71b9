//! What a port is given of a flow's frames: frames or datagrams, made by their number.
//!
//! What they are made of is `frames.rs`; packets that are longer than the link carries are cut by `cut.rs`.

use std::sync::Arc;

use wirebeat_units::{BufferLen, PacketLen};
use wirebeat_wire::stamp::Stamp;

use super::cut::Cut;
use super::frames::{Built, Frames};
use super::recorded::Recorded;

/// What a port is given of [`Frames`]. It owns its share of them, so that a sender can be given more while it
/// is at work.
#[derive(Clone, Debug)]
pub struct Image {
    frames: Arc<Frames>,
    /// What goes with every frame, where it does not change.
    constant: Option<Built>,
    datagram: bool,
}

impl Frames {
    /// What a port is given that sends frames: everything from the Ethernet header on.
    pub fn frame(self: &Arc<Self>) -> Image {
        let constant = self.is_constant().then(|| self.built(self.lengths.length(0)));
        Image { frames: Arc::clone(self), constant, datagram: false }
    }

    /// What a port is given that sends datagrams: the payload alone, without headers and padding.
    pub fn datagram(self: &Arc<Self>) -> Image {
        Image { frames: Arc::clone(self), constant: None, datagram: true }
    }
}

impl Image {
    /// Makes frame number `n` at the beginning of `out`. Its length is 0 when `out` is too short for it.
    #[inline]
    pub fn build(&self, n: u64, out: &mut [u8]) -> Built {
        if let Some(built) = self.constant {
            let bytes = &self.frames.bytes[..];
            return match out.get_mut(..bytes.len()) {
                Some(out) => {
                    out.copy_from_slice(bytes);
                    built
                }
                None => Built::default(),
            };
        }
        if self.datagram {
            return self.build_datagram(n, out).unwrap_or_default();
        }
        self.frames.write(n, out).unwrap_or_default()
    }

    /// Makes the frame of what is replayed at the beginning of `out`. Its length is 0 when `out` is too short for
    /// it, or what is replayed is longer than [`Frames::recorded_max`].
    #[inline]
    pub fn build_recorded(&self, of: &Recorded<'_>, out: &mut [u8]) -> Built {
        let built = match self.datagram {
            _ if of.data.len() > self.frames.recorded_max() => None,
            true => self.recorded_datagram(of, out),
            false => self.frames.write_recorded(of, out),
        };
        built.unwrap_or_default()
    }

    /// The same without the data itself, which belongs where the number says: what is before it and what is behind it
    /// are made one after the other. `None` where it has to be made as a whole.
    #[inline]
    pub fn build_around(&self, of: &Recorded<'_>, out: &mut [u8]) -> Option<(Built, u16)> {
        if self.datagram || of.data.len() > self.frames.recorded_max() {
            return None;
        }
        self.frames.write_around(of, out)
    }

    fn recorded_datagram(&self, of: &Recorded<'_>, out: &mut [u8]) -> Option<Built> {
        let end = self.frames.recorded_len(of.data.len());
        let headers = usize::from(self.frames.headers_len);
        let out = out.get_mut(..(end.get() as usize).checked_sub(headers)?)?;
        let (data, rest) = out.split_at_mut_checked(of.data.len())?;
        data.copy_from_slice(of.data);
        rest.fill(0);
        self.finish_datagram(end, out, Some(of.tag))
    }

    fn build_datagram(&self, n: u64, out: &mut [u8]) -> Option<Built> {
        let frames = &*self.frames;
        let (begin, end) = (usize::from(frames.headers_len), frames.lengths.length(n));
        let payload = frames.bytes.get(begin..(end.get() as usize).max(begin))?;
        let out = out.get_mut(..payload.len())?;
        out.copy_from_slice(payload);
        self.finish_datagram(end, out, None)
    }

    /// Fills in what changes, in the payload of a packet that ends at `end`.
    fn finish_datagram(&self, end: PacketLen, out: &mut [u8], flow: Option<u16>) -> Option<Built> {
        let frames = &*self.frames;
        frames.write_tail(out, flow)?;
        for field in &frames.length_fields {
            // Of those in headers the system knows itself.
            if let Some(at) = field.at.checked_sub(frames.headers_len) {
                let value = end.behind(field.from) as u16;
                *out.get_mut(usize::from(at)..)?.first_chunk_mut()? = value.to_be_bytes();
            }
        }
        let len = out.len() as u32;
        let built = Built { len, counted: frames.counted_as(end), ..Built::default() };
        let Some(probe) = frames.probe else { return Some(built) };
        let probe_at = frames.probe_at(probe, end).checked_sub(frames.headers_len);
        // Checksums and identification lie in the headers, which the system makes.
        let stamp = Stamp { marks: probe.marks, first: probe.first, ..Stamp::default() };
        Some(Built { stamp, probe_at, ..built })
    }

    /// The longest that it makes.
    pub fn longest(&self) -> BufferLen {
        BufferLen::new(match self.datagram {
            true => self.frames.lengths.longest().behind(self.frames.headers_len),
            false => self.frames.longest_frame().into(),
        })
    }

    /// How many frames are made of packet `n`: more than one where it leaves as fragments, which
    /// [`Cutter`](super::Cutter) makes. Datagrams are cut by the system.
    #[inline]
    pub fn parts(&self, n: u64) -> u16 {
        if self.datagram { 1 } else { self.frames.parts(n) }
    }

    /// How many frames are made of a packet with so much replayed data.
    #[inline]
    pub fn recorded_parts(&self, data: usize) -> u16 {
        match self.cut() {
            Some(cut) => cut.parts(self.frames.recorded_len(data)) as u16,
            None => 1,
        }
    }

    /// Bytes of the packet with so much replayed data.
    pub(crate) fn recorded_len(&self, data: usize) -> usize {
        self.frames.recorded_len(data).get() as usize
    }

    /// Whether some of its packets leave as fragments.
    pub fn is_cut(&self) -> bool {
        !self.datagram && self.frames.is_cut()
    }

    pub(crate) fn cut(&self) -> Option<Cut> {
        self.frames.cut.filter(|_| !self.datagram)
    }

    /// Bytes of packet `n`, and of the longest.
    pub(crate) fn packet_len(&self, n: u64) -> usize {
        self.frames.lengths.length(n).get() as usize
    }

    pub(crate) fn longest_packet(&self) -> usize {
        self.frames.bytes.len()
    }

    /// The length of all that it makes, where that is always the same.
    pub fn fixed_len(&self) -> Option<BufferLen> {
        self.frames.lengths.fixed().filter(|_| !self.is_cut()).map(|_| self.longest())
    }
}
