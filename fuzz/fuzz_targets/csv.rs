//! Any bytes as a file of comma-separated values, in several layouts; what is read is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_archive::time_series::{OnBad, Record};
use wirebeat_archive::columns::{Columns, DeviceFrom};
use wirebeat_archive::csv::{Layout, ColumnNames, Reader, Reading, Writer};
use wirebeat_archive::forms::{DataForm, TimeForm, Unit};
use wirebeat_archive::{Sink, Source};

fn written(bytes: &[u8], reading: Reading) -> Option<Vec<u8>> {
    let mut reader = Reader::new(bytes, "fuzz", reading).ok()?;
    let mut writer = Writer::new(Vec::new(), DataForm::Hex);
    while let Ok(true) = reader.advance() {
        let Record { time, device, data } = reader.record();
        writer.write(&Record { time, device, data }).ok()?;
    }
    writer.finish().ok()
}

fuzz_target!(|bytes: &[u8]| {
    let usual = Reading { on_bad: OnBad::Skip, ..Reading::default() };
    let first = DeviceFrom::Fixed(Default::default());
    let columns = Columns { time: "1".parse().ok(), device: first, data: None };
    let numbers = Layout {
        columns,
        time: TimeForm::Unix(Unit::Seconds),
        delimiter: b';',
        names: ColumnNames::Numbers,
        ..Layout::default()
    };
    for reading in [usual.clone(), Reading { layout: numbers, ..usual.clone() }] {
        if let Some(text) = written(bytes, reading) {
            assert_eq!(written(&text, usual.clone()).as_ref(), Some(&text));
        }
    }
});
