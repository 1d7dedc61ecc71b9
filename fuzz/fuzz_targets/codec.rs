//! Payloads and log lines of other tools.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_wire::codec::Codec;
use wirebeat_wire::log::{crude, mgen};

/// 2026-11-20: what is read as a time lies near it or not.
const NOW_NS: u64 = 1_795_189_310_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    for codec in Codec::ALL {
        if let Some(sent) = codec.read(bytes).and_then(|seen| seen.sent) {
            let _ = sent.unix_ns(NOW_NS);
        }
    }

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(line) = crude::CrudeLine::parse(text) {
        assert_eq!(crude::CrudeLine::parse(&line.to_string()), Ok(line));
    }
    if let Ok(Some(line)) = mgen::MgenLine::parse(text, NOW_NS) {
        let _ = mgen::MgenLine::parse(&line.to_string(), line.at_ns());
    }
});
