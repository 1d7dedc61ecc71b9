//! Rates: frames per second, bits per second, and a share of the link.

use crate::{FrameLen, Nanos};

/// Which bytes a bit rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The frame, preamble, start delimiter and inter-packet gap (RFC 2544's link utilisation).
    Line,
    /// The Ethernet frame with header and FCS. The default.
    #[default]
    Frame,
    /// The bytes after the transport header.
    Payload,
}

/// Bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

/// Frames per second as an exact fraction, so that a schedule never drifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameRate {
    /// Frames …
    pub frames: u64,
    /// … in this many nanoseconds; never zero.
    pub per: Nanos,
}

/// How fast a flow sends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As fast as the engine can.
    #[default]
    Unlimited,
    /// Frames per second.
    Frames(FrameRate),
    /// Bits per second at a layer.
    Bits(BitRate, Layer),
    /// Parts per million of the link's speed, counted on the line.
    LinkShare(u32),
}

impl FrameRate {
    /// When frame `index` is due, counted from frame 0: `floor(index * per / frames)`, exact for
    /// every index (128-bit arithmetic), saturating.
    pub fn deadline(&self, index: u64) -> Nanos {
        let ns = u128::from(index) * u128::from(self.per.get()) / u128::from(self.frames.max(1));
        Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
    }
    /// For display.
    pub fn per_second(&self) -> f64 {
        self.frames as f64 * 1e9 / self.per.get().max(1) as f64
    }
}

impl Rate {
    /// The frame rate that this rate means for frames of `len` with `payload` bytes after the
    /// transport header, on a link of `link` bits per second.
    ///
    /// `None` for [`Rate::Unlimited`]. An error when a share is asked of a link whose speed is not
    /// known, or when a payload rate is asked of frames that carry none.
    pub fn frame_rate(
        &self,
        len: FrameLen,
        payload: u16,
        link: Option<BitRate>,
    ) -> Result<Option<FrameRate>, String> {
        let bits = |rate: u64, bytes: u32| {
            // rate / (8 * bytes) frames per second, kept as an exact fraction.
            let per = Nanos::new(u64::from(bytes) * 8 * 1_000_000_000);
            FrameRate { frames: rate, per }
        };
        match *self {
            Rate::Unlimited => Ok(None),
            Rate::Frames(rate) => Ok(Some(rate)),
            Rate::Bits(rate, Layer::Line) => Ok(Some(bits(rate.0, len.on_line()))),
            Rate::Bits(rate, Layer::Frame) => Ok(Some(bits(rate.0, u32::from(len.get())))),
            Rate::Bits(_, Layer::Payload) if payload == 0 => {
                Err("a payload bit rate needs frames with payload".to_owned())
            }
            Rate::Bits(rate, Layer::Payload) => Ok(Some(bits(rate.0, u32::from(payload)))),
            Rate::LinkShare(ppm) => match link {
                Some(BitRate(speed)) => {
                    let rate = u128::from(speed) * u128::from(ppm) / 1_000_000;
                    Ok(Some(bits(rate as u64, len.on_line())))
                }
                None => Err("a share of the link needs a link with a known speed; \
                             give the rate in bps or pps"
                    .to_owned()),
            },
        }
    }
}
