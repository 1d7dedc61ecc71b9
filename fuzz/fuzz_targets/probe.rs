//! Frames and datagrams that a receiver may be sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
use wirebeat_units::{FrameLen, Nanos};
use wirebeat_wire::probe::Probe;

fuzz_target!(|bytes: &[u8]| {
    if let Some(probe) = Probe::from_tail(bytes) {
        assert!(bytes.ends_with(&probe.to_bytes()));
    }
    let config = MeterConfig { flows: Flows::Any(4), window: 256, ..MeterConfig::default() };
    let mut meter = Meter::new(config);
    // A first byte that says how long each frame is, so that one input holds several.
    if let Some((&length, frames)) = bytes.split_first() {
        for (at, frame) in (1..).zip(frames.chunks(usize::from(length) + 16)) {
            // as engines count them: no frame is shorter than the shortest
            let counted =
                |beside: u32| (frame.len() as u32 + beside).max(FrameLen::MIN.get().into());
            meter.record_frame(Nanos::new(at), frame, counted(4));
            meter.record_datagram(Nanos::new(at), frame, None, counted(46));
        }
    }
    if let Err(error) = meter.summary().validate() {
        panic!("{error}");
    }
});
