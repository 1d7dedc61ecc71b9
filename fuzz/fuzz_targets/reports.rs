//! Bytes that may be taken for a report or for a test that was kept: what is read is written in every form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_report::document::Document;
use wirebeat_report::format::{Presentable, Rendering};
use wirebeat_report::{json, trend};

fuzz_target!(|bytes: &[u8]| {
    let details = Rendering { details: true, histograms: true, ..Rendering::default() };
    if let Ok(test) = json::parse_test(bytes) {
        write(&test, details);
        let again = json::parse_test(test.json(details).as_bytes());
        assert_eq!(again, Ok(test));
    }
    if let Ok(Document::Report(mut report)) = serde_json::from_slice(bytes) {
        trend::add(&mut report, trend::Limits { delay_ns: Some(1.0), rate: Some(0.1) });
        write(&*report, details);
    }
});

fn write(result: &impl Presentable, rendering: Rendering) {
    let _ = result.text(rendering);
    let _ = result.html(rendering);
    let _ = result.markdown(rendering);
    let _ = (result.csv(), result.junit(), result.pictures());
}
