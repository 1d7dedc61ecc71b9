//! How long the packets of a flow of D-ITG are: what is written, what is drawn, and what a file says.

use std::num::NonZeroU64;

use wirebeat_traffic::distribution::{Bounds, Distribution};
use wirebeat_traffic::scenario::size::{Length, Of, Size};
use wirebeat_traffic::values::session::STAMP;
use wirebeat_units::Bytes;
use wirebeat_wire::ip::Version;

use super::application::SizeOf;
use super::{Flow, Protocol};
use crate::ScriptError;
use crate::datagram::{Sizes, drawn_payload, mean_payload, smallest};
use crate::draft::Draft;

/// The payloads that D-ITG sends (ITG.h: MAX_PAYLOAD_SIZE).
pub(super) const SIZES: Sizes = Sizes::new(1, 64_000);
/// The largest payload that is drawn where next to nothing lies beyond it: a link with long frames carries it
/// whole. D-ITG draws all of [`SIZES`].
const USUAL_MAX: u64 = 8900;
/// The share of what is not drawn that is worth a word: what rounds to 0.01 %.
const NOTABLE: f64 = 0.000_05;
/// The share of sizes below the smallest that leaves too few to draw.
const NEARLY_ALL: f64 = 0.99;
/// The smallest payload without a header.
const MIN_SIZE: u64 = 4;

impl Flow<'_> {
    /// The smallest payload: what is shorter is made as long. That of D-ITG, and for messages over a connection what their number and
    /// times need.
    fn least(&self) -> u64 {
        match self.is_stream_of_messages() {
            true => self.least_of_tool().max(STAMP),
            false => self.least_of_tool(),
        }
    }

    /// The smallest payload that D-ITG sends.
    fn least_of_tool(&self) -> u64 {
        let least = self.command.raised
            + match self.command.codec {
                Some(codec) => codec.min_len(Version::V4) as u64,
                None => MIN_SIZE,
            };
        // On a stream a message says how long it is.
        let stream = matches!(self.command.protocol, Some(Protocol::Tcp | Protocol::Sctp));
        if stream && self.command.codec.is_some() { least + 4 } else { least }
    }

    /// Names sizes that are longer than those of D-ITG.
    pub(super) fn tell_raised(&self, draft: &mut Draft<'_>, written: Option<&Size>) {
        let written = written.and_then(smallest).map(|least| least.max(self.least_of_tool()));
        let least = self.least();
        if written.is_some_and(|written| written < least) {
            let why = format!(
                "messages of less than {least} bytes have no room for their number and times, and have {least}"
            );
            draft.leave_out(self.line, "-T TCP", why);
        }
    }

    pub(super) fn sizes_of(
        &self,
        draft: &mut Draft<'_>,
        file: &str,
    ) -> Result<Vec<Length>, ScriptError> {
        self.numbers(draft, file, &format!("a size of {SIZES}"), |word| {
            SIZES.length(word.parse().ok()?).map(|length| self.raised(length))
        })
    }

    /// What is shorter than the smallest is as long.
    fn raised(&self, length: Length) -> Length {
        SIZES.length(self.least()).map_or(length, |least| least.max(length))
    }

    pub(super) fn size(
        &self,
        draft: &mut Draft<'_>,
        written: Option<&SizeOf>,
    ) -> Result<Size, ScriptError> {
        Ok(match written {
            None => Size::Fixed(Length { bytes: 512, of: Of::Payload }),
            Some(SizeOf::Written(Size::Fixed(length))) => Size::Fixed(self.raised(*length)),
            Some(SizeOf::Written(Size::Mix(mix))) => {
                let raised = |(length, weight): (&Length, &u32)| (self.raised(*length), *weight);
                Size::Mix(mix.iter().map(raised).collect())
            }
            Some(SizeOf::Written(size)) => size.clone(),
            Some(SizeOf::Drawn(distribution, said)) => self.drawn(draft, distribution, said)?,
        })
    }

    /// Sizes of a distribution, as far as they are drawn here.
    fn drawn(
        &self,
        draft: &mut Draft<'_>,
        distribution: &Distribution<Bytes>,
        said: &str,
    ) -> Result<Size, ScriptError> {
        let all = distribution.sampler(None, Bounds { min: None, max: None });
        let all = all.map_err(|why| self.line.wrong(format!("{said}: {why}")))?;
        let max = match distribution {
            Distribution::Uniform(uniform) => uniform.max.get().min(SIZES.max()),
            _ if 1.0 - all.cdf(USUAL_MAX as f64) > NOTABLE => SIZES.max(),
            _ => USUAL_MAX,
        };
        let (min, max) = (self.least(), max.max(self.least()));
        let (below, above) = (all.cdf((min - 1) as f64), 1.0 - all.cdf(max as f64));
        // D-ITG makes what is shorter as long as the shortest.
        let raised = SIZES.length(min).filter(|_| min == max || below > NEARLY_ALL);
        let mut name = |share: f64, which: &str| {
            if share > NOTABLE {
                let why = format!(
                    "{which}, {:.2} % of those that D-ITG draws, are drawn again",
                    share * 100.0
                );
                draft.leave_out(self.line, said, why);
            }
        };
        if let Some(length) = raised {
            if min < max {
                name(1.0 - below, &format!("all sizes are {min} bytes; longer ones"));
            }
            return Ok(Size::Fixed(length));
        }
        name(below, &format!("sizes below {min} bytes"));
        name(above, &format!("sizes above {max} bytes"));
        let bounds = Bounds { min: Some(min as f64), max: Some(max as f64) };
        match distribution.sampler(None, bounds) {
            Ok(_) => Ok(drawn_payload(distribution.clone(), Some(min), Some(max))),
            Err(why) => Err(self.line.wrong(format!("{said}: {why}"))),
        }
    }

    /// SCTP's chunks are multiples of 4 bytes long.
    pub(super) fn in_words(&self, draft: &mut Draft<'_>, sizes: Vec<Length>) -> Vec<Length> {
        let longer = |length: &Length| Length {
            bytes: length.bytes.checked_next_multiple_of(4).unwrap_or(length.bytes),
            ..*length
        };
        let words: Vec<Length> = sizes.iter().map(longer).collect();
        if words != sizes {
            let why = "a chunk is as long as its payload here, and a multiple of 4 bytes; sizes are rounded up";
            draft.leave_out(self.line, "SCTP", why);
        }
        words
    }

    /// The earlier of the limits; KBytes are 1024 bytes of payload.
    pub(super) fn count(&self, draft: &mut Draft<'_>, size: Option<&Size>) -> Option<NonZeroU64> {
        let packets = self.command.packets;
        let Some(kilobytes) = self.command.kilobytes else { return packets };
        let bytes = kilobytes.get().saturating_mul(1024);
        let mean = size.and_then(mean_payload);
        let Some(mean) = mean else {
            let why = "no mean of the sizes is known, so that bytes cannot be counted in packets";
            draft.leave_out(self.line, "-k", why);
            return packets;
        };
        if !matches!(size, Some(Size::Fixed(_))) {
            let why = "a scenario counts bytes of frames; the number of packets is the one that has this number of bytes on \
                       average";
            draft.leave_out(self.line, "-k", why);
        }
        let count = NonZeroU64::new((bytes as f64 / mean).ceil() as u64);
        match (packets, count) {
            (Some(packets), Some(count)) => Some(packets.min(count)),
            (packets, count) => packets.or(count),
        }
    }
}
