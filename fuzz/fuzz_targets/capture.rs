//! Bytes that may be taken for a capture: its frames, what their packets carry, and what was said in them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_archive::time_series::{DATA_MAX, OnBad};
use wirebeat_archive::capture::conversations::{self, Keep};
use wirebeat_archive::capture::payloads::{DeviceOf, Payloads, Take};
use wirebeat_archive::capture::{FRAME_MAX, Frames, Window};

fuzz_target!(|bytes: &[u8]| {
    for on_bad in [OnBad::Stop, OnBad::Skip] {
        let mut frames = Frames::new(bytes, "fuzz", on_bad);
        while let Ok(true) = frames.advance() {
            let frame = frames.frame();
            assert!(frame.bytes.len() <= FRAME_MAX.min(frame.original as usize));
        }
        for (take, of) in [(Take::Udp, DeviceOf::Flow), (Take::Ip, DeviceOf::Source)] {
            let frames = Window::new(Frames::new(bytes, "fuzz", on_bad), None);
            let mut payloads = Payloads::new(frames, take, of);
            let mut records = 0;
            let ended = loop {
                match payloads.advance() {
                    Ok(true) => records += 1,
                    Ok(false) => break true,
                    Err(_) => break false,
                }
                assert!(wirebeat_archive::Source::record(&payloads).data.len() <= DATA_MAX);
            };
            let given = records + payloads.skipped().total();
            assert!(!ended || given == payloads.frames().tally().frames);
        }
        let frames = Window::new(Frames::new(bytes, "fuzz", on_bad), Some(10_000_000));
        if let Ok(found) = conversations::read(frames, Keep::All) {
            for it in found.conversations {
                assert_eq!(it.bytes.len() as u64, it.said[0] + it.said[1]);
            }
        }
    }
});
