//! The headers by which a receiver recognises the frames of a flow that carry no probe.

use wirebeat_wire::headers::HeaderMatch;

use super::frames::Frames;
use super::lengths::Lengths;
use super::{Flow, Program, Recorded};

/// Why frames of a flow cannot be recognised by their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeaders {
    /// They are recorded, with headers of their own.
    Recorded,
    /// They are not of one kind: EtherType, IP version or protocol change from frame to frame, or they are fragments.
    Changing,
}

impl Program {
    /// The headers of all frames of a flow, from change to change and each once.
    pub fn headers(&self, flow: &Flow) -> Result<Vec<HeaderMatch>, NoHeaders> {
        let mut all = Vec::new();
        for stream in self.streams(flow.id.into()) {
            let of = stream.frames.headers()?;
            if !all.contains(&of) {
                all.push(of);
            }
        }
        Ok(all)
    }
}

/// The number of frames that are made to see whether all have the headers of the first: fields that change are known, lengths that
/// turn a packet into none are not.
const TRIED: u64 = 64;

impl Frames {
    /// The headers of all frames.
    fn headers(&self) -> Result<HeaderMatch, NoHeaders> {
        if self.whole.is_some() {
            return Err(NoHeaders::Recorded);
        }
        let recorded = matches!(self.lengths, Lengths::Recorded { .. });
        let mut frame = vec![0; self.longest_packet().max(self.longest().buffer().into())];
        let make = |n: u64, frame: &mut [u8]| {
            let of = Recorded { number: n, sub_flow: n, tag: 0, data: &[], sum: None };
            let built = match recorded {
                true => self.write_recorded(&of, frame),
                false => self.write(n, frame),
            };
            built.map(|built| built.len as usize)
        };
        let len = make(0, &mut frame).ok_or(NoHeaders::Changing)?;
        let changes = |at: usize| {
            self.patches.iter().any(|patch| {
                let from = usize::from(patch.at);
                (from..from + usize::from(patch.len)).contains(&at)
            })
        };
        let of = HeaderMatch::of(&frame[..len], changes).ok_or(NoHeaders::Changing)?;
        let tried = if self.is_constant() { 0 } else { TRIED };
        for n in 1..tried {
            let len = make(n, &mut frame).ok_or(NoHeaders::Changing)?;
            let same = HeaderMatch::of(&frame[..len], changes) == Some(of);
            if !same {
                return Err(NoHeaders::Changing);
            }
        }
        Ok(of)
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_wire::headers::HeaderKey;

    use super::*;
    use crate::compile::{Files, Link, Links, compile};
    use crate::scenario::Scenario;

    /// A program of one flow from port a.
    fn program(flow: &str) -> Program {
        let text = format!(
            "ports: {{ a: {{ next-hop: 02:00:00:00:00:02 }} }}\nflows: {{ x: {{ from: a, {flow} }} }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        compile(&scenario, &links, &Files::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn headers(flow: &str) -> Result<Vec<HeaderMatch>, NoHeaders> {
        let program = program(flow);
        program.headers(&program.flows[0])
    }

    #[test]
    fn all_frames_of_a_flow_have_its_headers() {
        for flow in [
            "packet: [ { ipv4: { destination: 10.0.0.2 } }, { tcp: { flags: syn } } ], probe: off",
            "packet: [ { ipv4: { destination: 10.0.0.2 } }, { icmp: {} } ], probe: off",
            "packet: [ { arp: { target: 10.0.0.2 } } ], probe: off",
            "packet: [ { ipv6: { destination: 'fd00::2' } }, { udp: { source: { increment: 1, count: 50000 } } } ], probe: off",
            "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ], probe: off, size: { uniform: { min: 64B, max: 900B } }",
            "packet: [ { frame: { hex: 'ffffffffffff 020000000001 88b5 0102 0304 0506' } } ]",
        ] {
            let program = program(flow);
            let all =
                program.headers(&program.flows[0]).unwrap_or_else(|why| panic!("{flow}: {why:?}"));
            let mut frame = vec![0; 2000];
            for n in [0, 1, 63, 64, 12_345, 1 << 40] {
                let built = program.streams[0].frames.write(n, &mut frame).unwrap();
                let key = HeaderKey::of(&frame[..built.len as usize]).unwrap();
                assert!(all[0].matches(&key), "{flow}: frame {n}");
            }
        }
    }

    #[test]
    fn what_is_recorded_has_headers_of_its_own() {
        assert_eq!(headers("replay: { capture: day.pcap }"), Err(NoHeaders::Recorded));
    }

    #[test]
    fn what_a_flow_changes_to_is_known_too() {
        let flow = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { tcp: {} } ], probe: off, rate: 1kpps, at: { 1s: \
                    { packet: [ { ipv4: { destination: 10.0.0.2 } }, { tcp: { destination: 99 } } ] }, 2s: { rate: 2kpps } }";
        assert_eq!(headers(flow).map(|all| all.len()), Ok(2));
    }
}
