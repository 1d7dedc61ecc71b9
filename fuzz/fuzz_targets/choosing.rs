//! Text as a filter of frames, up to the first zero byte, and the rest as a frame that it is held against and that is
//! rewritten: by rules that change its length, and by others.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_wire::filter::Filter;
use wirebeat_wire::mac::MacAddr;
use wirebeat_wire::rewrite::{Rules, Vlan};

/// Rules of every kind.
fn rules(vlan: Vlan) -> Rules {
    let all =
        [("10.0.0.0/8", "192.168.0.0/16"), ("::/0", "2001:db8::/32"), ("0.0.0.0/0", "1.2.3.4/32")];
    let ports = [("0-1023", "5000-6023"), ("53", "5353")];
    Rules {
        source_mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        destination_mac: Some(MacAddr([2, 0, 0, 0, 0, 2])),
        vlan: Some(vlan),
        addresses: all
            .iter()
            .filter_map(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
            .collect(),
        ports: ports.iter().filter_map(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?))).collect(),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (text, frame) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if let Ok(text) = std::str::from_utf8(text)
        && let Err(error) = Filter::new(text).map(|filter| {
            // a frame of which not all was captured
            (filter.matches(frame, frame.len()), filter.matches(frame, frame.len() + 100))
        })
    {
        // counted from 1, and one behind the end where something is missing
        assert!(error.at <= text.len() + 1, "{error:?}");
        assert!(!error.why.what.is_empty());
    }
    for vlan in [Vlan::Set(5), Vlan::Off, Vlan::Map(vec![(0, 7), (5, 6)])] {
        let rules = rules(vlan);
        let mut out = frame.to_vec();
        rules.apply(&mut out);
        assert!(out.len() <= frame.len() + rules.adds());
        assert!(frame.len() >= 14 || out == frame, "what is not a frame stays");
    }
});
