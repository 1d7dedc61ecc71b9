//! What the bytes of a frame are, for those who explain it: every field of every header, where it lies,
//! and how it changes.
//!
//! Values are read out of a frame that was made ([`FieldInfo::value`]), so that what is explained is what is
//! sent. How values are put into words is not known here.

use super::layout::Layout;
use super::{CompileError, Links, links, stack};
use crate::program::lengths::Lengths;
use crate::program::{Frames, Stream};
use crate::scenario::header::Header;
use crate::scenario::lay::{ChecksumFault, What};
use crate::scenario::{FlowSpec, Scenario};
use crate::values::Values;
use crate::values::{Per, Shape};

/// A field of a header.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldInfo {
    /// The header that it is part of, as the language calls it.
    pub header: &'static str,
    /// Which of the headers that is, from 0.
    pub number: usize,
    /// The key that it is written with, or the standard's name for what cannot be written.
    pub name: &'static str,
    /// Its first bit, from the start of the frame.
    pub bit: usize,
    /// Its width in bits.
    pub bits: u32,
    /// What it holds.
    pub content: Content,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The same in every frame.
    Fixed,
    /// Values by a pattern.
    Changing {
        /// How they follow one another.
        pattern: Sequence,
        /// With what it advances.
        per: Per,
        /// After how many values they repeat; `None` if they do not.
        period: Option<u64>,
    },
    /// The length of something.
    Length,
    /// A checksum; deliberately wrong, if not `right`.
    Checksum {
        /// Whether it is as it should be.
        right: bool,
    },
    /// The number of the frame within its flow.
    Count,
}

/// How the values of a field follow one another.
#[derive(Clone, Debug, PartialEq)]
pub enum Sequence {
    /// One after the other.
    List(Vec<u128>),
    /// By steps, modulo the width of the field.
    Step {
        /// The first.
        from: u128,
        /// How much is added each time; negative where less is taken away.
        by: i128,
    },
    /// Drawn.
    Random {
        /// The smallest.
        low: u128,
        /// The largest.
        high: u128,
        /// The bits that are drawn; the others are those of the smallest.
        mask: u128,
    },
}

/// The fields of the headers of `flow` (which is called `name`) in the order of the wire; none for a whole
/// frame. For a flow that changes, those of a phase: see [`FlowSpec::phases`].
pub fn anatomy(
    scenario: &Scenario,
    links: &Links,
    name: &str,
    flow: &FlowSpec,
) -> Result<Vec<FieldInfo>, CompileError> {
    let packet = flow.headers(name)?;
    if packet.raw.is_some() || flow.is_captured() {
        return Ok(Vec::new());
    }
    let addresses = links::addresses(scenario, links, name, flow)?;
    let stack = stack::stack(name, &packet, addresses.as_ref())?;
    let fields = Layout::new(&stack).fields.into_iter().map(|field| FieldInfo {
        header: stack.get(field.header).map_or("", Header::name),
        number: field.header,
        name: field.name,
        bit: field.bit,
        bits: field.bits,
        content: content(field.what),
    });
    Ok(fields.collect())
}

fn content(what: What) -> Content {
    match what {
        What::Fixed(_) | What::Next(_) => Content::Fixed,
        What::Length(_) => Content::Length,
        What::Checksum(_, fault) => Content::Checksum { right: fault == ChecksumFault::None },
        What::Count => Content::Count,
        What::Changing { shape, per, .. } => {
            let period = Values::new(shape.clone(), 0, 0, 0).period();
            Content::Changing { pattern: sequence(&shape), per, period }
        }
    }
}

fn sequence(shape: &Shape) -> Sequence {
    match shape {
        Shape::List(values) => Sequence::List(values.to_vec()),
        Shape::Step { from, step, field, .. } => {
            // A step down is a large step up.
            let down = step.wrapping_neg() & field;
            let by = match i128::try_from(*step) {
                Ok(by) if *step <= down => by,
                _ => i128::try_from(down).map_or(0, |down| -down),
            };
            Sequence::Step { from: *from, by }
        }
        Shape::Random { low, span, mask } => {
            Sequence::Random { low: *low, high: low.saturating_add(*span), mask: *mask }
        }
    }
}

impl FieldInfo {
    /// What it holds in `frame`; 0 where that is too short.
    pub fn value(&self, frame: &[u8]) -> u128 {
        let end = (self.bit + self.bits as usize).div_ceil(8);
        let bytes = frame.get(self.bit / 8..end).unwrap_or_default();
        // A field of up to 128 bits that does not begin with a byte has at most 121.
        let value = bytes.iter().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
        let behind = (end * 8).saturating_sub(self.bit + self.bits as usize);
        match self.bits {
            128.. => value,
            bits => value >> behind & ((1 << bits) - 1),
        }
    }
}

/// What packets of different lengths are on average by their scenario: so many packets, as how many frames they leave, bytes
/// of those with FCS, and bytes of payload. `None` where all are alike, and where nothing is known of them beforehand.
pub fn mean_packets(frames: &Frames) -> Option<[u64; 4]> {
    let known = !matches!(frames.lengths(), Lengths::Fixed(_) | Lengths::Recorded { .. });
    known.then(|| super::mean::Mean::of(frames).counts())
}

/// How long the packets of a flow are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Frames, with header, padding and FCS; of a packet that leaves as IP fragments all of them together.
    pub frame: LengthRange,
    /// From the Ethernet header on, without padding and FCS.
    pub packet: LengthRange,
    /// What follows the headers, with the probe.
    pub payload: LengthRange,
}

/// The range of a length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthRange {
    /// The shortest.
    pub min: u32,
    /// The longest.
    pub max: u32,
    /// On average; `None` where that is not known beforehand, or changes while the flow is sent.
    pub mean: Option<f64>,
}

impl LengthRange {
    fn join(self, other: LengthRange) -> LengthRange {
        LengthRange {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            mean: self.mean.filter(|mean| Some(*mean) == other.mean),
        }
    }
}

/// How long the packets of these streams of one flow are; `None` of none.
pub fn sizes(streams: &[Stream]) -> Option<Sizes> {
    let each = streams.iter().map(|stream| sizes_of(&stream.frames));
    each.reduce(|all, more| Sizes {
        frame: all.frame.join(more.frame),
        packet: all.packet.join(more.packet),
        payload: all.payload.join(more.payload),
    })
}

fn sizes_of(frames: &Frames) -> Sizes {
    let (shortest, longest) = (frames.lengths().shortest(), frames.lengths().longest());
    let (least, most) = (frames.counted_as(shortest), frames.counted_as(longest));
    let mean = match mean_packets(frames) {
        Some([packets, _, frame, payload]) => {
            let of = |bytes: u64| bytes as f64 / packets.max(1) as f64;
            Some((of(frame), of(payload)))
        }
        None => frames.lengths().fixed().map(|_| (most.bytes.into(), most.payload.into())),
    };
    // beside the payload packets have headers, as many bytes in each, unless padding counts as payload
    let headers = longest.get().saturating_sub(most.payload.into());
    let alike = shortest.get().saturating_sub(least.payload.into()) == headers;
    let range = |min: u32, max: u32, mean: Option<f64>| LengthRange { min, max, mean };
    Sizes {
        frame: range(least.bytes, most.bytes, mean.map(|(frame, _)| frame)),
        packet: range(
            shortest.get(),
            longest.get(),
            mean.filter(|_| alike).map(|(_, payload)| payload + f64::from(headers)),
        ),
        payload: range(least.payload.into(), most.payload.into(), mean.map(|(_, payload)| payload)),
    }
}

/// Bytes of a frame on average, with FCS.
pub fn mean_length(frames: &Frames) -> f64 {
    super::mean::Mean::of(frames).of_frames()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Files, Link, compile};

    fn explained(packet: &str) -> (Vec<FieldInfo>, Vec<u8>) {
        let text = format!(
            "ports: {{ a: {{}}, b: {{}} }}\nflows: {{ x: {{ from: a, to: b, packet: [ {packet}, {{ udp: {{}} }} ] }} }}"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        let ports = [("a".to_owned(), Link::imaginary(0)), ("b".to_owned(), Link::imaginary(1))];
        let links = Links { ports: ports.into() };
        let program = compile(&scenario, &links, &Files::default()).unwrap();
        let mut frame = vec![0; 200];
        program.streams[0].frames.frame().build(1, &mut frame);
        let fields = anatomy(&scenario, &links, "x", &scenario.flows["x"]).unwrap();
        (fields, frame)
    }

    fn field<'a>(fields: &'a [FieldInfo], header: &str, name: &str) -> &'a FieldInfo {
        fields.iter().find(|field| (field.header, field.name) == (header, name)).unwrap()
    }

    #[test]
    fn fields_cover_the_headers_without_gaps() {
        let (fields, frame) = explained("{ vlan: { id: 5 } }, { ipv4: { dscp: ef } }");
        let mut bit = 0;
        for field in &fields {
            assert_eq!(field.bit, bit, "{field:?}");
            bit += field.bits as usize;
        }
        assert_eq!(bit, (14 + 4 + 20 + 8) * 8);
        assert_eq!(field(&fields, "vlan", "id").value(&frame), 5);
        assert_eq!(field(&fields, "ipv4", "dscp").value(&frame), 46);
        assert_eq!(field(&fields, "ipv4", "source").value(&frame), 0xc612_0001);
        assert_eq!(field(&fields, "udp", "destination").value(&frame), 9);
        assert_eq!(field(&fields, "udp", "checksum").content, Content::Checksum { right: true });
    }

    #[test]
    fn patterns_are_told() {
        let (fields, frame) = explained(
            "{ ipv4: { destination: { decrement: 10.0.0.9, count: 4 }, ttl: { list: [1, 2] }, \
             identification: { random: [16, 32] } } }",
        );
        let destination = field(&fields, "ipv4", "destination");
        let pattern = Sequence::Step { from: 0x0a00_0009, by: -1 };
        let content = Content::Changing { pattern, per: Per::Frame, period: Some(4) };
        assert_eq!(destination.content, content);
        assert_eq!(destination.value(&frame), 0x0a00_0008);
        let Content::Changing { pattern, period, .. } = &field(&fields, "ipv4", "ttl").content
        else {
            panic!()
        };
        assert_eq!((pattern, *period), (&Sequence::List(vec![1, 2]), Some(2)));
        let Content::Changing { pattern, period, .. } =
            &field(&fields, "ipv4", "identification").content
        else {
            panic!()
        };
        let Sequence::Random { low: 16, high: 32, .. } = pattern else { panic!("{pattern:?}") };
        assert_eq!(*period, None);
    }
}
