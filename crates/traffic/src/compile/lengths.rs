//! The sizes of a flow as lengths of packets, and whether they hold what they must.

use wirebeat_units::{BufferLen, Bytes, FCS, Fault, FrameLen, PacketLen, fault};

use super::Context;
use super::cut::Outermost;
use super::frame::{LONGEST, PACKET_MAX};
use super::layout::Layout;
use crate::distribution::draw::{Key, Purpose};
use crate::distribution::{Bounded, Bounds};
use crate::program::lengths::{Lengths, List, Mix};
use crate::scenario::size::{Length, Of, Size};
use crate::scenario::{FlowSpec, Invalid, KeyPath, Shared};

/// The longest frame of a standard link without FCS; a drawn size is longer only where 'max' says so.
const USUAL_LONGEST: u32 = 1514;
/// The longest packet of IPv4, and the most behind the header of IPv6 (RFC 791 §3.1, RFC 8200 §3).
const IP_MAX: u32 = 65_535;

/// Makes the lengths of the flow's packets.
pub(super) fn lengths(
    context: &Context<'_>,
    flow: &FlowSpec,
    layout: &Layout,
    outermost: Option<&Outermost<'_>>,
    probe_len: u32,
) -> Result<Lengths, Invalid> {
    let name = context.name;
    let headers = layout.len() as u32;
    let least = headers + probe_len;
    let most = match outermost {
        Some(outermost) => (outermost.counted_from() + IP_MAX).min(PACKET_MAX as u32),
        None => LONGEST as u32,
    };
    let align = (layout.align.0.into(), layout.align.1.into());
    let limits = Limits { headers, least, most, measured: probe_len > 0, align };
    if let Some(replay) = &flow.replay {
        let longest = context.files.longest_record(replay);
        let at = || KeyPath::flow(name).key("replay").key("archive");
        return limits.recorded(longest, outermost).map_err(|why| at().invalid(why));
    }
    let at = || KeyPath::flow(name).key("size");
    let invalid = |why: Fault| at().invalid(why);
    let all = |lengths: &mut dyn Iterator<Item = &Length>| {
        lengths.map(|length| limits.packet(*length)).collect::<Result<Vec<PacketLen>, Fault>>()
    };
    let memos = context.memos;
    let full = || "there are too many different lists of sizes in all flows and changes".into();
    let from_list = |list: &Shared<Vec<Length>>| {
        let make = || all(&mut list.iter()).map(List::new);
        memos.lists.of((list, list.len()), limits, full, make).map(Lengths::List).map_err(invalid)
    };
    if let Some(file) = flow.departures.file() {
        return from_list(&context.files.trace_lengths(file).map_err(invalid)?);
    }
    let Some(size) = &flow.size else {
        // The shortest frame is filled: what is not needed is payload.
        let packet = limits.aligned_up(limits.least.max(BufferLen::MIN.get()));
        if packet > limits.most {
            let longest = limits.longest_frame();
            let why = format!(
                "the headers{} make a frame that is longer than {longest}B, the longest",
                limits.and_probe()
            );
            return Err(KeyPath::flow(name).key("packet").invalid(why));
        }
        return Ok(Lengths::Fixed(PacketLen::new(packet)));
    };
    match size {
        Size::Fixed(length) => limits.packet(*length).map(Lengths::Fixed).map_err(invalid),
        Size::List(list) => from_list(list),
        Size::Mix(mix) => {
            let make = || {
                let weights: Vec<u32> = mix.values().copied().collect();
                Mix::new(all(&mut mix.keys())?, &weights).map_err(|error| error.fault())
            };
            let made = memos.mixes.of((mix, mix.len()), limits, full, make).map_err(invalid)?;
            Ok(Lengths::Mix(made, Key::new(context.seed, context.number.into(), Purpose::Size)))
        }
        Size::File(file) => from_list(&context.files.lengths(file).map_err(invalid)?),
        Size::Capture(file) => from_list(&context.files.frame_lengths(file).map_err(invalid)?),
        Size::Drawn(drawn, of) => limits.drawn(context, drawn, *of).map_err(invalid),
    }
}

/// What packets must hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Limits {
    headers: u32,
    /// Headers and probe.
    least: u32,
    /// The longest packet.
    most: u32,
    measured: bool,
    /// See [`Layout::align`].
    align: (u32, u32),
}

impl Limits {
    /// The packet that a length means.
    fn packet(&self, length: Length) -> Result<PacketLen, Fault> {
        let packet = match length.of {
            // A frame is filled: even the shortest is not padded.
            Of::Frame => FrameLen::with_fcs(length.bytes).buffer().into(),
            Of::Payload => u32::from(length.bytes) + self.headers,
        };
        if packet < self.least {
            let shortest = PacketLen::new(self.aligned_up(self.least)).buffer().with_fcs();
            return Err(match length.of {
                Of::Frame => {
                    fault!(
                        "{length} are too short for the headers{}", self.and_probe();
                        "the shortest frame is {shortest}B"
                    )
                }
                Of::Payload => {
                    fault!(
                        "{length} are too short for the probe of {} bytes",
                        self.least - self.headers;
                        "make it longer, or write 'probe: off'"
                    )
                }
            });
        }
        if packet > self.most {
            let longest = match length.of {
                Of::Frame => self.longest_frame(),
                Of::Payload => self.most - self.headers,
            };
            return Err(fault!("{length} are too long here"; "the longest is {longest}B"));
        }
        match self.aligned_down(packet) {
            aligned if aligned == packet => Ok(PacketLen::new(packet)),
            aligned => Err(fault!(
                "what these headers carry is a multiple of {} bytes long: the next shorter frame \
                 is {}B",
                self.align.1,
                BufferLen::new(aligned).with_fcs()
            )),
        }
    }

    /// The lengths of packets with data of up to so many bytes, where that is known.
    fn recorded(
        &self,
        data: Option<u32>,
        outermost: Option<&Outermost<'_>>,
    ) -> Result<Lengths, Fault> {
        if self.align.1 > 1 {
            return Err(fault!(
                "what these headers carry is a multiple of {} bytes long, and records are as \
                 long as they are",
                self.align.1;
                "send them behind other headers"
            ));
        }
        // Of what is not known the most that needs no fragments: they cost something, and not every receiver has them.
        let whole = outermost
            .map_or(self.most, |outermost| outermost.fits().get())
            .clamp(self.least, self.most);
        let longest = data.map_or(whole, |data| self.least.saturating_add(data));
        if longest > self.most {
            return Err(fault!(
                "its longest record has {} bytes of data, and {} are the most that these \
                 headers{} leave room for",
                longest - self.least,
                self.most.saturating_sub(self.least),
                self.and_probe()
            ));
        }
        Ok(Lengths::Recorded {
            shortest: PacketLen::new(self.least),
            longest: PacketLen::new(longest),
        })
    }

    /// The longest packet as a frame with FCS.
    fn longest_frame(&self) -> u32 {
        PacketLen::new(self.most).buffer().with_fcs()
    }

    fn and_probe(&self) -> &'static str {
        if self.measured { " and the probe" } else { "" }
    }

    fn aligned_down(&self, packet: u32) -> u32 {
        let (from, to) = self.align;
        packet - packet.saturating_sub(from) % to.max(1)
    }

    fn aligned_up(&self, packet: u32) -> u32 {
        let down = self.aligned_down(packet);
        if down == packet { packet } else { down + self.align.1 }
    }

    fn drawn(
        &self,
        context: &Context<'_>,
        drawn: &Bounded<Bytes>,
        of: Of,
    ) -> Result<Lengths, Fault> {
        let beside: i32 = match of {
            Of::Frame => -i32::from(FCS),
            Of::Payload => self.headers as i32,
        };
        // Frames are at least 64 bytes long; payload may be less, and is padded.
        let floor = match of {
            Of::Frame => self.least.max(BufferLen::MIN.get()),
            Of::Payload => self.least,
        };
        let floor = self.aligned_up(floor);
        let bytes = |packet: u32| f64::from(packet as i32 - beside);
        let least = bytes(floor);
        let most = drawn.max.map_or(bytes(USUAL_LONGEST.max(floor)), |max| max.get() as f64);
        let min = drawn.min.map_or(least, |min| min.get() as f64);
        if min < least {
            return Err(fault!(
                "sizes from {min}B on are too short for the headers{}", self.and_probe();
                "'min' is at least {least}B"
            ));
        }
        if most > bytes(self.most) {
            return Err(fault!("'max' is at most {}B", bytes(self.most)));
        }
        if min > most {
            return Err(fault!("'min' is {min}B and 'max' is {most}B"; "no size lies between"));
        }
        let bounds = Bounds { min: Some(min), max: Some(most) };
        let sampler = drawn.distribution.sampler(None, bounds).map_err(|error| error.fault())?;
        let packet =
            |bytes: f64| (bytes as i64 + i64::from(beside)).clamp(0, self.most.into()) as u32;
        Ok(Lengths::Drawn {
            sampler: Box::new(sampler),
            beside,
            within: (PacketLen::new(packet(min.ceil())), PacketLen::new(packet(most.floor()))),
            align: self.align,
            key: Key::new(context.seed, context.number.into(), Purpose::Size),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::{Files, Link, Links, compile};
    use crate::program::Program;
    use crate::scenario::Scenario;

    fn compiled(keys: &str) -> Result<Program, String> {
        let text = format!("ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, to: a, {keys} }} }}\n");
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let mut files = Files::default();
        files.insert("sizes".to_owned(), b"64B # one\n\n20B@payload\n".to_vec());
        files.insert("wrong".to_owned(), b"64B\n64x\n".to_vec());
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|e| panic!("{e}"));
        compile(&scenario, &links, &files).map_err(|error| error.to_string())
    }

    /// The lengths with FCS of the first frames.
    fn frames(keys: &str, count: usize) -> Vec<u32> {
        let program = compiled(keys).unwrap();
        let frames = &program.streams[0].frames;
        (0..count as u64).map(|n| frames.counted(n).bytes).collect()
    }

    #[test]
    fn lengths_are_of_frames_or_of_their_payload() {
        assert_eq!(frames("size: 100B", 2), [100, 100]);
        assert_eq!(frames("size: 100B@payload", 1), [100 + 42 + 4]);
        assert_eq!(frames("size: 1B@payload, probe: off", 1), [64], "padded");
        assert_eq!(frames("size: { list: [64B, 70B, 20B@payload] }", 4), [64, 70, 66, 64]);
        assert_eq!(frames("size: { file: sizes }", 3), [64, 66, 64]);
    }

    #[test]
    fn a_mix_has_its_weights_and_a_law_its_bounds() {
        let lengths = frames("size: imix", 12_000);
        let share = |len| lengths.iter().filter(|seen| **seen == len).count() as f64 / 1000.0;
        for (len, twelfths) in [(64, 7.0), (594, 4.0), (1518, 1.0)] {
            assert!((share(len) - twelfths).abs() < 0.2, "{len}: {}", share(len));
        }
        let distribution = "{ normal: { mean: 300B, deviation: 300B }, min: 100B, max: 400B }";
        let lengths = frames(&format!("size: {distribution}"), 10_000);
        assert_eq!(lengths.iter().min(), Some(&100));
        assert_eq!(lengths.iter().max(), Some(&400));
        let distribution = "{ exponential: { mean: 100B }, of: payload }";
        let lengths = frames(&format!("size: {distribution}, probe: off"), 1000);
        assert!(lengths.iter().all(|len| (64..=1518).contains(len)));
    }

    #[test]
    fn what_must_be_a_multiple_is_one() {
        let sctp = "packet: [ { ipv4: {} }, { sctp: {} } ], probe: off";
        assert_eq!(frames(&format!("{sctp}, size: 70B"), 1), [70], "14 and 52, and 4 of FCS");
        let distribution = "{ uniform: { min: 100B, max: 200B } }";
        for len in frames(&format!("{sctp}, size: {distribution}"), 100) {
            assert_eq!((len - 4 - 34) % 4, 0);
        }
        let why = compiled(&format!("{sctp}, size: 71B")).unwrap_err();
        assert!(why.contains("a multiple of 4 bytes long: the next shorter frame is 70B"), "{why}");
    }

    /// Six headers of 2 KiB.
    fn long_headers() -> String {
        let options = format!("{{ destination-options: {{ options: '{}' }} }}", "00".repeat(2046));
        let many = [options.as_str(); 6].join(", ");
        format!("packet: [ {{ ipv6: {{}} }}, {many}, {{ udp: {{}} }} ]")
    }

    #[test]
    fn what_does_not_hold_its_headers_is_refused() {
        for (keys, expected) in [
            (
                "packet: [ { ipv6: {} }, { udp: {} } ], size: 81B",
                "flows.x.size: 81B are too short for the headers and the probe; the shortest frame is \
                 82B",
            ),
            (
                "packet: [ { ipv6: {} }, { udp: {} } ], probe: off, size: 65B",
                "flows.x.size: 65B are too short for the headers; the shortest frame is 66B",
            ),
            (
                "size: 15B@payload",
                "flows.x.size: 15B@payload are too short for the probe of 16 bytes; make it longer, or \
                 write 'probe: off'",
            ),
            (
                "size: 65507B@payload, packet: [ { ipv6: {} }, { udp: {} } ]",
                "flows.x.size: 65507B@payload are too long here; the longest is 65489B",
            ),
            (
                "packet: [ { arp: {} } ], probe: off, size: 9019B",
                "flows.x.size: 9019B are too long here; the longest is 9018B",
            ),
            (
                "size: { exponential: { mean: 100B }, min: 50B }",
                "flows.x.size: sizes from 50B on are too short for the headers and the probe; 'min' is \
                 at least 64B",
            ),
            (
                "size: exponential",
                "flows.x.size: the size of the values of 'exponential' is not given; give 'mean', or a rate",
            ),
            (
                &long_headers(),
                "flows.x.packet: packets longer than the link carries leave as fragments, and the first of \
                 them has no room for the headers and the probe",
            ),
            ("size: { file: gone }", "flows.x.size: the file 'gone' was not read"),
            ("size: { file: wrong }", "flows.x.size: wrong:2: "),
        ] {
            let why = compiled(keys).unwrap_err();
            assert!(why.starts_with(expected), "{keys}: {why}");
        }
    }
}
