//! Bytes that may be taken for an archive, in both byte orders and both ways to deal with what is bad.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_archive::time_series::{ByteOrder, OnBad, Reader, Reading, Writer};
use wirebeat_archive::survey::Surveyor;

fuzz_target!(|bytes: &[u8]| {
    for order in [ByteOrder::Big, ByteOrder::Little] {
        for on_bad in [OnBad::Stop, OnBad::Skip] {
            for any_order in [false, true] {
                read(bytes, Reading { order, on_bad, any_order });
            }
        }
    }
});

/// What is read is written and read again, and nothing is lost: all bytes are of records, or skipped.
fn read(bytes: &[u8], reading: Reading) {
    let mut reader = Reader::new(bytes, "fuzz", reading).with_buffer(0);
    let (mut copy, mut surveyor) = (Writer::new(Vec::new()), Surveyor::new());
    let ended = loop {
        match reader.advance() {
            Ok(true) => {
                surveyor.add(&reader.record(), reader.place());
                copy.write(&reader.record()).expect("a record that was read fits");
            }
            Ok(false) => break true,
            Err(_) => break false,
        }
    };
    let tally = reader.tally();
    if ended {
        assert_eq!(tally.read(), bytes.len() as u64);
    }
    let survey = surveyor.finish(tally.bad(), tally.skipped);
    assert_eq!((survey.records, survey.bytes), (tally.records, tally.bytes));
    let (records, written) = (tally.records, copy.finish().expect("memory"));
    let order = ByteOrder::Big;
    let mut again = Reader::new(&written[..], "copy", Reading { order, ..reading });
    while again.advance().expect("what was written is an archive") {}
    assert_eq!(again.tally().records, records);
}
