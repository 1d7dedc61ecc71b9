//! Frames that are replayed from captures: they have all their headers, and only how long they can be is known here.

use wirebeat_units::PacketLen;
use wirebeat_wire::ethernet::{self, FRAME_MIN};
use wirebeat_wire::vlan;

use super::Files;
use super::cut::USUAL_MTU;
use super::frame::LONGEST;
use crate::program::frames::Frames;
use crate::program::lengths::Lengths;
use crate::scenario::{PortSpec, Replay};

/// The frames of `replay` on a link with this MTU.
pub(super) fn frames(files: &Files, replay: &Replay, mtu: Option<u32>) -> Frames {
    let (least, most) = (*PortSpec::MTU.start() as u32, *PortSpec::MTU.end() as u32);
    let mtu = mtu.unwrap_or(USUAL_MTU).clamp(least, most) as usize;
    let untagged = (ethernet::LEN + mtu).min(LONGEST);
    // links do not count a tag (IEEE 802.3 §3.2.7)
    let most = (untagged + vlan::LEN).min(LONGEST);
    let adds = replay.rewrite.rules().adds();
    let known = files.longest_record(replay).map(|longest| longest as usize + adds);
    let longest = known.map_or(most, |known| known.clamp(FRAME_MIN, most));
    Frames {
        lengths: Lengths::Recorded {
            shortest: PacketLen::default(),
            longest: PacketLen::new(longest as u32),
        },
        whole: Some(untagged as u16),
        ..Frames::constant(vec![0; longest])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wirebeat_units::FrameLen;

    use crate::compile::{Files, Link, Links, compile};
    use crate::program::{Counted, Frames, Recorded};
    use crate::scenario::Scenario;

    fn frames(mtu: Option<u32>, rewrite: &str, longest: Option<u32>) -> Arc<Frames> {
        let text = format!(
            "ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, replay: {{ capture: day.pcap{rewrite} }} }} }}\n"
        );
        let link = Link { mtu, ..Link::default() };
        let links = Links { ports: [("a".to_owned(), link)].into() };
        let mut files = Files::default();
        if let Some(longest) = longest {
            files.insert_recording("day.pcap".to_owned(), longest);
        }
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let program = compile(&scenario, &links, &files).unwrap_or_else(|error| panic!("{error}"));
        Arc::clone(&program.streams[0].frames)
    }

    #[test]
    fn a_frame_stays_as_it_is_and_a_short_one_is_padded() {
        let frames = frames(Some(1500), "", None);
        let image = frames.frame();
        for len in [0, 14, 59, 60, 61, 1518] {
            let data: Vec<u8> = (0..len).map(|byte| byte as u8 | 1).collect();
            let mut out = vec![0xee; 2000];
            let recorded = Recorded { number: 7, sub_flow: 0, tag: 0, data: &data, sum: None };
            let built = image.build_recorded(&recorded, &mut out);
            assert_eq!(built.len as usize, data.len().max(60));
            assert!(
                out[..data.len()] == data
                    && out[data.len()..60.max(data.len())].iter().all(|byte| *byte == 0)
            );
            let buffer = data.len().max(60) as u16;
            let counted = Counted::frame(FrameLen::without_fcs(buffer), buffer - 14);
            assert_eq!((built.counted, built.probe_at), (counted, None));
            assert_eq!(frames.counted_recorded(&data, 0), counted);
        }
    }

    #[test]
    fn frames_are_as_long_as_the_link_carries_or_as_they_are() {
        let of = |mtu, rewrite, longest| {
            let frames = frames(mtu, rewrite, longest);
            (frames.recorded_max(), frames.whole_max())
        };
        assert_eq!(of(Some(1500), "", None), (1518, Some(1514)));
        assert_eq!(of(Some(1500), "", Some(100)), (100, Some(1514)));
        assert_eq!(of(Some(1500), "", Some(9000)), (1518, Some(1514)));
        assert_eq!(of(Some(1500), ", rewrite: { vlan: 5 }", Some(100)), (104, Some(1514)));
        assert_eq!(of(None, "", None), (9014, Some(9014)));
        assert_eq!(of(Some(1500), "", Some(20)), (60, Some(1514)));
    }
}
