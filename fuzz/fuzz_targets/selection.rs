//! Text as a selection of frames, up to the first zero byte, and the rest as what a measurement found of frames that it is held
//! against: 32 bytes each. A capture in memory keeps those that are meant.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_capture::file::{CaptureOptions, in_memory};
use wirebeat_capture::seen::{Interface, InterfaceCounts, Opening, Outcome, Seen};
use wirebeat_capture::selection::Selection;
use wirebeat_meter::observation::Standing;
use wirebeat_units::{Bytes, Nanos};

/// What is found of one frame.
fn seen(bytes: &[u8; 32]) -> Seen<'_> {
    let long = |at: usize| {
        let mut long = [0; 8];
        long.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(long)
    };
    let standings = Standing::ALL.len();
    let outcome = match usize::from(bytes[24]) % (standings + 3) {
        at if at < standings => Outcome::Received(Standing::ALL[at]),
        at if at == standings => Outcome::Sent,
        at if at == standings + 1 => Outcome::Failed,
        _ => Outcome::Expired,
    };
    let has = |bit: u8| bytes[25] >> bit & 1 == 1;
    Seen {
        interface: u16::from(bytes[26] & 1),
        queue: bytes[27].into(),
        hash: None,
        outcome,
        at: Nanos::new(long(0)),
        unix_ns: long(0),
        flow: has(0).then(|| u16::from_le_bytes([bytes[28], bytes[29]])),
        sequence: has(1).then_some(long(16) as u32),
        sent: has(2).then(|| Nanos::new(long(8))),
        due: has(3).then(|| Nanos::new(long(8))),
        frame_len: u16::from_le_bytes([bytes[30], bytes[31]]).into(),
        sampled: None,
        bytes,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (text, found) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    let interface = |name: &str| Interface { port: Some(name.into()), ..Interface::default() };
    let opening = Opening {
        interfaces: vec![interface("a"), interface("b")],
        flows: vec![(0, "voip".into()), (7, "bulk".into())],
        ..Opening::default()
    };
    let bound = match Selection::new(text) {
        // counted in characters from 1, and one behind the end where something is missing
        Err(error) => {
            assert!(error.at >= 1 && error.at <= text.len() + 1, "{error:?}");
            assert!(!error.why.what.is_empty());
            return;
        }
        Ok(selection) => selection.bind(&opening).is_ok(),
    };
    let options = CaptureOptions {
        only: Some(text.to_owned()),
        before: 3,
        after: 2,
        ..CaptureOptions::default()
    };
    let opened = in_memory(Bytes::new(1 << 20), &options, &opening);
    assert_eq!(opened.is_ok(), bound, "{text}");
    let Ok((mut sink, _memory)) = opened else { return };
    let mut given = 0;
    for one in found.as_chunks::<32>().0 {
        assert!(sink.frame(&seen(one)).is_ok());
        given += 1;
    }
    assert!(sink.finish(0, &[InterfaceCounts::default(); 2]).is_ok());
    let written = sink.written();
    assert!(written.frames + written.filtered <= given && written.lost == 0, "{written:?}");
});
