//! What the compiler makes and the drive loop runs: tables, with every decision taken.

mod copies;
pub mod curve;
mod cut;
pub mod frames;
mod headers;
mod image;
pub mod lengths;
pub mod misbehaviour;
pub mod pace;
mod recorded;
pub mod script;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use wirebeat_units::{FrameLen, FrameRate, Nanos};
use wirebeat_wire::codec::Codec;

pub(crate) use cut::{Cut, CutVersion, LEAST as FRAGMENT_MIN};

pub use copies::{Copies, CopyEnds};
pub use cut::Cutter;
pub use frames::{Built, Counted, Frames};
pub use headers::NoHeaders;
pub use image::Image;
pub use pace::Pace;
pub use recorded::Recorded;

use pace::frame_rate;

/// A compiled scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Seed of every random choice.
    pub seed: u64,
    /// The flows; the index is [`crate::schedule::Departure::flow`].
    pub flows: Vec<Flow>,
    /// What they send; the index is [`crate::schedule::Departure::stream`].
    pub streams: Vec<Stream>,
}

impl Program {
    /// The indices of the flows that the port `name` sends, in order.
    pub fn flows_from(&self, name: &str) -> Vec<u32> {
        (0..).zip(&self.flows).filter(|(_, flow)| flow.from == name).map(|(i, _)| i).collect()
    }

    /// What frames are counted by and numbered in: tags below this. Those of flows are their numbers, those of their
    /// members come behind.
    pub fn tags(&self) -> u32 {
        let members = self.flows.iter().map(|flow| flow.members.end).max().unwrap_or(0);
        members.max(self.flows.len() as u32)
    }

    /// The number of the flow that frames of a tag are of.
    pub fn flow_of(&self, tag: u32) -> u32 {
        // tags of members lie behind those of all flows: of 60,000 flows none is looked for among all
        if (tag as usize) < self.flows.len() {
            return tag;
        }
        let mine = |flow: &Flow| flow.members.contains(&tag);
        self.flows.iter().position(mine).map_or(tag, |flow| flow as u32)
    }

    /// The tags of flow number `flow` and its members.
    pub fn tags_of(&self, flow: u32) -> impl Iterator<Item = u32> + use<> {
        let members = self.flows.get(flow as usize).map_or(0..0, |flow| flow.members.clone());
        std::iter::once(flow).chain(members)
    }

    /// The numbers of a flow and its members in probes, which are their tags.
    pub fn probes_of(&self, flow: &Flow) -> impl Iterator<Item = u16> + use<> {
        // the compiler gives no tag that has more than 16 bits
        self.tags_of(flow.id.into()).map(|tag| tag as u16)
    }

    /// What flow number `flow` sends, in the order of time.
    pub fn streams(&self, flow: u32) -> &[Stream] {
        let range = self.flows.get(flow as usize).map_or(0..0, |flow| flow.streams.clone());
        self.streams.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// The number of the first of these streams, and the streams.
    pub(crate) fn numbered_streams(&self, flow: u32) -> NumberedStreams<'_> {
        let first = self.flows.get(flow as usize).map_or(0, |flow| flow.streams.start);
        NumberedStreams { first, streams: self.streams(flow) }
    }

    /// What flows send, in any order.
    pub fn streams_of<'a>(&'a self, flows: &'a [u32]) -> impl Iterator<Item = &'a Stream> {
        flows.iter().flat_map(|&flow| self.streams(flow))
    }

    /// How fast flow number `flow` is meant to be sent on average over the time that it is under way, and whether it is meant
    /// to be as fast all the time. `None` for one without a limit, or without an average.
    pub fn offered(&self, flow: u32) -> Option<(FrameRate, bool)> {
        let streams = self.streams(flow);
        if let [Stream { departures: Departures { pace: Pace::Constant(rate), .. }, .. }] = streams
        {
            return Some((*rate, true));
        }
        let time = self.under_way(flow, Nanos::MAX)?;
        frame_rate(time.frames / time.span().get() as f64).map(|rate| (rate, false))
    }

    /// When flow number `flow` is under way in a run that ends at `ended`; all times are from the start of the run. `None`
    /// for a flow without a limit, or without an average.
    pub fn under_way(&self, flow: u32, ended: Nanos) -> Option<UnderWay> {
        let streams = self.streams(flow);
        let from = streams.first()?.departures.start;
        let mut time = UnderWay { from, to: from, frames: 0.0 };
        for Stream { departures, .. } in streams {
            let Departures { pace, start, count, .. } = departures;
            let stop = departures.stop.min(ended).max(*start);
            let lasts = stop.saturating_sub(*start).get() as f64;
            // first, because there is none without an average
            let frames = pace.frames_within(lasts)?;
            let left = *count as f64 - time.frames;
            if *count < u64::MAX && (frames > left || lasts >= Nanos::MAX.get() as f64) {
                let lasts = pace.lasts_for(left)?;
                let to = start.saturating_add(Nanos::new(lasts.round() as u64)).min(stop);
                return Some(UnderWay { to, frames: *count as f64, ..time });
            }
            if lasts > 0.0 {
                time = UnderWay { to: stop, frames: time.frames + frames, ..time };
            }
        }
        Some(time)
    }

    /// Whether the rate of flow number `flow` is another at another time by its schedule: it changes, or has pauses.
    pub fn varies(&self, flow: u32) -> bool {
        let even =
            |pace: &Pace| matches!(pace, Pace::Constant(_) | Pace::Jittered(_) | Pace::Drawn(_));
        !matches!(self.streams(flow), [Stream { departures, .. }] if even(&departures.pace))
    }

    /// When flow number `flow` ends by its schedule, from the start of the run; `Nanos::MAX` where the schedule
    /// does not say.
    pub fn end(&self, flow: u32) -> Nanos {
        let streams = self.streams(flow);
        let stop = streams.last().map_or(Nanos::ZERO, |stream| stream.departures.stop);
        let by_count = match streams {
            [Stream { departures, .. }] if departures.count < u64::MAX => {
                let last = departures.count.saturating_sub(1);
                let rate = departures.pace.constant();
                rate.map(|rate| departures.start.saturating_add(rate.deadline(last)))
            }
            _ => None,
        };
        by_count.unwrap_or(Nanos::MAX).min(stop)
    }

    /// Whose probe the frames of flow number `flow` carry, if they carry one.
    pub fn codec(&self, flow: u32) -> Option<Codec> {
        self.streams(flow).first()?.frames.codec()
    }

    /// Whose probe the frames of flow number `flow` carry, if they carry one, and the number of the flow in it, where
    /// that probe has one.
    pub fn probe(&self, flow: u32) -> Option<(Codec, Option<u32>)> {
        self.streams(flow).first()?.frames.probe_number()
    }

    /// The length of the longest frame of flow number `flow`, with FCS.
    pub fn longest(&self, flow: u32) -> FrameLen {
        let lengths = self.streams(flow).iter().map(|stream| stream.frames.longest());
        lengths.max().unwrap_or(FrameLen::MIN)
    }

    /// Whether some packets are longer than the link carries, and leave as fragments.
    pub fn is_cut(&self) -> bool {
        self.streams.iter().any(|stream| stream.frames.is_cut())
    }

    /// Whether flow number `flow` sends what was recorded.
    pub fn is_recorded(&self, flow: u32) -> bool {
        let mut paces = self.streams(flow).iter().map(|stream| &stream.departures.pace);
        paces.any(|pace| matches!(pace, Pace::Recorded { .. }))
    }

    /// Whether flow number `flow` is sent as fast as the engine can.
    pub fn is_unlimited(&self, flow: u32) -> bool {
        self.streams(flow).iter().any(|stream| !stream.departures.pace.is_limited())
    }
}

/// The streams of a flow, which are one after the other among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberedStreams<'a> {
    /// The number of the first.
    pub(crate) first: u32,
    /// In their order.
    pub(crate) streams: &'a [Stream],
}

/// When a flow is under way: from its start to its end by its time, by its count or by the end of the run. A flow that ends
/// by its count does so when its frames have left at their mean rate, with the pause behind the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnderWay {
    /// From the start of the run.
    pub from: Nanos,
    /// The same.
    pub to: Nanos,
    /// How many frames that is on average.
    pub frames: f64,
}

impl UnderWay {
    /// How long.
    pub fn span(&self) -> Nanos {
        self.to.saturating_sub(self.from)
    }
}

/// One flow, ready to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The name in the scenario.
    pub name: String,
    /// Its number in probes.
    pub id: u16,
    /// The sending port's name.
    pub from: String,
    /// The receiving port's name, where the scenario has one.
    pub to: Option<String>,
    /// Which of the program's streams it sends, one after the other.
    pub streams: Range<u32>,
    /// What happens to a frame that is late.
    pub late: Late,
    /// How many of the cores that send it send only what leaves out of its order.
    pub delayed_cores: u16,
    /// Tags of its members: parts of it that are counted, numbered and measured each by itself. What belongs to none
    /// has the flow's own tag.
    pub members: Range<u32>,
    /// The copies of a capture that it sends, if it does.
    pub copies: Option<Arc<Copies>>,
    /// Where its packets go, from change to change and each once; of a field that changes from frame to frame, the
    /// first. Port 0 where they have none.
    pub destinations: Vec<SocketAddr>,
    /// Addresses, for engines that send datagrams rather than frames; `None` where the headers are not
    /// ones that a system makes by itself.
    pub endpoint: Option<Endpoint>,
}

/// A part of a flow: what it sends from one time to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The flow it is part of.
    pub flow: u32,
    /// The frames.
    pub frames: Arc<Frames>,
    /// When they leave.
    pub departures: Departures,
}

/// When the frames of a stream are due, relative to the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Departures {
    /// How they follow one another.
    pub pace: Pace,
    /// Frames that leave back to back; the pause after them keeps the mean rate. At least 1.
    pub burst: u32,
    /// When the first is due (start time and stagger).
    pub start: Nanos,
    /// No frame is due at or after this.
    pub stop: Nanos,
    /// No more than this many frames of the flow, all its streams together.
    pub count: u64,
}

/// What happens to a frame that cannot leave in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It is sent late; its lateness is recorded.
    Send,
    /// It is dropped and counted as expired once it is later than this.
    Drop(Nanos),
}

/// Where datagrams of a flow come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Source address and port; unspecified address or port 0: the kernel chooses.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The ToS byte or traffic class.
    pub tos: u8,
    /// Whether the UDP checksum is sent.
    pub checksum: bool,
    /// What is written and the system decides all the same.
    pub replaced: Replaced,
}

/// What a system writes into the headers of datagrams, whatever it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// The Ethernet header, or where frames go.
    pub ethernet: bool,
    /// The identification of IPv4.
    pub identification: bool,
    /// The flow label of IPv6.
    pub flow_label: bool,
}

impl Replaced {
    /// In words.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.ethernet, "the Ethernet header"),
            (self.identification, "the identification"),
            (self.flow_label, "the flow label"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::{Files, Link, Links, compile};
    use crate::scenario::Scenario;

    /// Tags of members lie behind those of all flows, in the order of these: sub-flows are of the flow that has them.
    #[test]
    fn every_tag_is_of_the_flow_that_it_was_given_to() {
        let flow = "{ from: a, packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ] }";
        let text = format!(
            "ports: {{ a: {{ next-hop: 02:00:00:00:00:02 }} }}\n\
             flows: {{ one: {flow}, two: {flow}, three: {flow}, four: {flow} }}\n"
        );
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let mut files = Files::default();
        files.insert_members("one".to_owned(), 3);
        files.insert_members("three".to_owned(), 1);
        files.insert_members("four".to_owned(), 2);
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let program = compile(&scenario, &links, &files).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(program.tags(), 10);
        let flows: Vec<u32> = (0..program.tags()).map(|tag| program.flow_of(tag)).collect();
        assert_eq!(flows, [0, 1, 2, 3, 0, 0, 0, 2, 3, 3]);
        for flow in 0..4 {
            assert!(program.tags_of(flow).all(|tag| program.flow_of(tag) == flow));
        }
        // a tag that nobody was given is of nobody
        assert_eq!(program.flow_of(10), 10);
    }
}
