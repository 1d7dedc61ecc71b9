//! Any bytes as a file of Parquet: it is read in bounded memory. What is read is written and read again.
//!
//! The library below panics on some bytes, which the reader catches; a fuzzer's own hook would end at it, so it is
//! taken away.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wirebeat_archive::time_series::{OnBad, Record};
use wirebeat_archive::parquet::{Packing, Reader, Reading, Writer};
use wirebeat_archive::{Sink, Source};

fn written(bytes: &[u8]) -> Option<Vec<u8>> {
    let reading = Reading { on_bad: OnBad::Skip, ..Reading::default() };
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes), "fuzz", reading).ok()?;
    let mut writer = Writer::new(Vec::new(), Packing::None).ok()?;
    while let Ok(true) = reader.advance() {
        let Record { time, device, data } = reader.record();
        writer.write(&Record { time, device, data }).ok()?;
    }
    writer.finish().ok()
}

fuzz_target!(
    init: {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let inside = info.location().is_some_and(|place| place.file().contains("/parquet-"));
            if !inside {
                hook(info);
            }
        }));
    },
    |bytes: &[u8]| {
        if let Some(file) = written(bytes) {
            assert_eq!(written(&file).as_ref(), Some(&file));
        }
    }
);
