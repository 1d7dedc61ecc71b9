use proptest::prelude::*;

use super::*;
use crate::columns::DeviceFrom;
use crate::csv::Writer;
use crate::csv::rows::ROW_MAX;
use crate::source::{Sink, copy};
use crate::time_series::{self, DATA_MAX};

type Owned = (Timestamp, Device, Vec<u8>);

fn all(text: &[u8], reading: Reading) -> Result<(Vec<Owned>, Tally), Error> {
    let mut reader = Reader::new(text, "test.csv", reading)?;
    let mut records = Vec::new();
    while reader.advance()? {
        let Record { time, device, data } = reader.record();
        records.push((time, device, data.to_vec()));
    }
    Ok((records, reader.tally().clone()))
}

fn data(text: &str, reading: Reading) -> Vec<String> {
    let records = all(text.as_bytes(), reading).unwrap().0;
    records.into_iter().map(|(_, _, data)| String::from_utf8(data).unwrap()).collect()
}

fn told(text: &str, reading: Reading) -> String {
    all(text.as_bytes(), reading).unwrap_err().to_string()
}

fn layout(layout: Layout) -> Reading {
    Reading { layout, ..Reading::default() }
}

const SKIP: fn() -> Reading = || Reading { on_bad: OnBad::Skip, ..Reading::default() };

#[test]
fn a_table_with_obvious_names_needs_no_word() {
    let text = "Time,Sensor,Value\n2015-07-01T19:20:30.45+01:00,BK.SAO,-12.5\n\
                2015-07-01T19:20:31Z,\"a,b\",\"x\"\"y\"\n";
    let (records, tally) = all(text.as_bytes(), Reading::default()).unwrap();
    assert_eq!(tally.records, 2);
    let (time, device, data) = &records[0];
    assert_eq!(time.to_string(), "2015-07-01T19:20:30.450000+01:00");
    assert_eq!((device.to_string().as_str(), data.as_slice()), ("BK.SAO", &b"-12.5"[..]));
    assert_eq!((records[1].1.to_string().as_str(), records[1].2.as_slice()), ("a,b", &b"x\"y"[..]));
}

#[test]
fn columns_that_are_left_are_the_data_together() {
    let text =
        "a;time;id;b\n1;2015-07-01T00:00:00Z;x;2\n\"p,q\";2015-07-01T00:00:00Z;x;\"r\"\"s\"\n";
    let semicolon = layout(Layout { delimiter: b';', ..Layout::default() });
    assert_eq!(data(text, semicolon), ["1,2", "\"p,q\",\"r\"\"s\""]);
    assert_eq!(data("time,id\n2015-07-01T00:00:00Z,x\n", Reading::default()), [""]);
}

#[test]
fn names_of_columns_say_the_form_of_data_unless_it_is_given() {
    let text = "time,id,data_hex\n2015-07-01T00:00:00Z,x,6869\n";
    assert_eq!(data(text, Reading::default()), ["hi"]);
    let given = layout(Layout { data: Some(DataForm::Text), ..Layout::default() });
    assert_eq!(data(text, given), ["6869"]);
    let base64 = layout(Layout { data: Some(DataForm::Base64), ..Layout::default() });
    assert_eq!(data("time,id,x\n2015-07-01T00:00:00Z,x,aGk=\n", base64.clone()), ["hi"]);
    assert_eq!(
        told("time,id,x,y\n", base64),
        "test.csv: data in the form base64 is one column, and 2 are left for it; say which one with \
         --data-column"
    );
}

#[test]
fn files_without_names_have_numbers() {
    let columns = Columns {
        time: Some("1".parse().unwrap()),
        device: DeviceFrom::Fixed("one".parse().unwrap()),
        data: Some("3".parse().unwrap()),
    };
    let numbers = Layout { columns, names: ColumnNames::Numbers, ..Layout::default() };
    let text = "2015-07-01T00:00:00Z,x,1\n2015-07-01T00:00:00Z,x,2\n";
    assert_eq!(data(text, layout(numbers)), ["1", "2"]);
    let unnamed = Layout { names: ColumnNames::Numbers, ..Layout::default() };
    assert!(told(text, layout(unnamed)).ends_with("--time-column, of '1', '2', '3'"));
}

#[test]
fn numbers_and_zones() {
    let zone = |time: TimeForm, zone_min| layout(Layout { time, zone_min, ..Layout::default() });
    let first = |text: &str, reading| all(text.as_bytes(), reading).unwrap().0[0].0.to_string();
    let unix = TimeForm::Unix(crate::forms::Unit::Seconds);
    let text = "time,id,v\n1435774830.45,x,1\n";
    assert_eq!(first(text, zone(unix, None)), "2015-07-01T18:20:30.450000Z");
    assert_eq!(first(text, zone(unix, Some(60))), "2015-07-01T19:20:30.450000+01:00");
    let text = "time,id,v\n2015-07-01 19:20:30,x,1\n";
    assert_eq!(first(text, zone(TimeForm::Iso, Some(-60))), "2015-07-01T19:20:30-01:00");
    assert_eq!(
        told(text, Reading::default()),
        "test.csv: line 2, column 'time', '2015-07-01 19:20:30': the time has no zone; say which \
         zone such times are in with --zone, Z or +01:00"
    );
}

#[test]
fn what_is_wrong_is_told_with_line_column_and_value() {
    let row = |row: &str| told(&format!("time,id,data_hex\n\n{row}\n"), Reading::default());
    assert_eq!(
        row("2015-02-30T00:00:00Z,x,00"),
        "test.csv: line 3, column 'time', '2015-02-30T00:00:00Z': 2015-02 has no day 30; it has 28"
    );
    assert_eq!(
        row("2015-07-01T00:00:00Z,x"),
        "test.csv: line 3: it has 2 fields, and there are 3 columns; quote fields that have the \
         delimiter in them"
    );
    assert_eq!(
        row("2015-07-01T00:00:00Z,seventeen-bytes- ,00"),
        "test.csv: line 3, column 'id', 'seventeen-bytes- ': 'seventeen-bytes- ' is longer than 16 bytes, and such names \
         are UTF-8 without control characters, and without blanks at either end; write it so, or give 16 bytes as 0x \
         and 32 digits"
    );
    assert_eq!(
        row("2015-07-01T00:00:00Z,x,\"0\n\""),
        "test.csv: line 3, column 'data_hex', '\\\"0': the quote is not closed on its line; close it, or remove it; \
         where fields have line breaks in them, allow as many with --quoted-lines"
    );
    let long = row(&format!("2015-07-01T00:00:00Z,x,{}", "00".repeat(DATA_MAX + 1)));
    assert!(long.contains("00…': its data has 65506 bytes, and a record holds 65505"), "{long}");
    let wide = row(&format!("2015-07-01T00:00:00Z,x,{}", "00".repeat(ROW_MAX)));
    assert!(wide.starts_with("test.csv: line 3: it has more than 1048576 bytes"), "{wide}");
    let open = row(&format!("2015-07-01T00:00:00Z,\"x,{}", "00".repeat(99)));
    assert!(open.starts_with("test.csv: line 3, column 'id', '\\\"x,00"), "{open}");
    assert_eq!(
        told("", Reading::default()),
        "test.csv: it is empty; a file of CSV begins with the names of its columns"
    );
}

#[test]
fn time_does_not_run_backwards_unless_it_may() {
    let text = "time,id,v\n2015-07-01T00:00:01Z,x,1\n2015-07-01T00:00:00Z,x,2\n\
                2015-07-01T01:00:01+01:00,x,3\n";
    let message = told(text, Reading::default());
    assert!(message.starts_with("test.csv: line 3, column 'time', "), "{message}");
    assert!(message.contains("sort the file by time") && message.contains("--any-order"));
    assert_eq!(data(text, SKIP()), ["1", "3"]);
    let any = Reading { any_order: true, ..Reading::default() };
    assert_eq!(data(text, any), ["1", "2", "3"]);
}

#[test]
fn what_is_skipped_is_counted_with_the_first_of_each_kind() {
    let text = "time,id,v\nx,x,1\n2015-07-01T00:00:00Z,x,2\ny,x,1\nz\n2015-07-01T00:00:00Z,x,3";
    let (records, tally) = all(text.as_bytes(), SKIP()).unwrap();
    assert_eq!((records.len(), tally.records), (2, 2));
    let counts: Vec<u64> = tally.bad.iter().map(|(count, _)| *count).collect();
    assert_eq!(counts, [0, 0, 1, 2, 0, 0, 0]);
    assert_eq!(tally.bad[3].1.as_ref().unwrap().place, Place::Line(2));
    let open = format!("time,id,v\n\"{}\"\n2015-07-01T00:00:00Z,x,3", "0".repeat(2 * ROW_MAX));
    let (records, tally) = all(open.as_bytes(), SKIP()).unwrap();
    assert_eq!((records.len(), tally.bad[0].0), (1, 1));
}

/// Six rows were one record, without a word.
#[test]
fn an_open_quote_does_not_swallow_the_rows_behind_it() {
    let row = |number: u8| format!("2015-07-01T00:00:0{number}Z,x,{number}\n");
    let mut text = "time,id,v\n".to_owned();
    (1..=6).for_each(|number| text += &row(number));
    let open = text.replace(",3\n", ",\"3\n");
    let message = told(&open, Reading::default());
    let place = "test.csv: line 4, column 'v', '\\\"3': the quote is not closed on its line; ";
    assert!(message.starts_with(place), "{message}");
    let (records, tally) = all(open.as_bytes(), SKIP()).unwrap();
    let values: Vec<&[u8]> = records.iter().map(|(_, _, data)| data.as_slice()).collect();
    assert_eq!(values, [b"1", b"2", b"4", b"5", b"6"]);
    assert_eq!((tally.bad[1].0, tally.bad.iter().map(|(count, _)| count).sum::<u64>()), (1, 1));
    // a quote further down does not close it in silence
    let pair = open.replace(",5\n", ",\"5\"\n");
    assert_eq!(data(&pair, SKIP()), ["1", "2", "4", "5", "6"]);
    // the last line of the file
    let last = text.replace(",6\n", ",\"6");
    let message = told(&last, Reading::default());
    assert!(
        message.contains("line 7, column 'v', '\\\"6': the quote is not closed before the end")
    );
    // more lines only where somebody asks for them, and even then no more than that
    let lines = |quoted_lines| layout(Layout { quoted_lines, ..Layout::default() });
    let two = text.replace(",3\n", ",\"3\nand more\"\n");
    assert_eq!(data(&two, lines(2))[2], "3\nand more");
    let message = told(&open, lines(3));
    assert!(
        message.contains("line 4, column 'v', '\\\"3': the quote is not closed within 3 lines")
    );
    let head = told("time,\"id,v\n2015-07-01T00:00:00Z,x,1\n", Reading::default());
    assert!(head.starts_with("test.csv: line 1, column '2', '\\\"id,v': the quote"), "{head}");
}

#[test]
fn text_that_is_none_is_refused_with_its_record() {
    let mut bytes = time_series::Writer::new(Vec::new());
    for data in [&b"good"[..], b"\xff"] {
        let record = Record { time: Timestamp::EPOCH, device: Device::default(), data };
        time_series::Writer::write(&mut bytes, &record).unwrap();
    }
    let bytes = bytes.finish().unwrap();
    let mut source = time_series::Reader::new(&bytes[..], "test", time_series::Reading::default());
    let mut sink = Writer::new(Vec::new(), DataForm::Text);
    assert_eq!(
        copy(&mut source, &mut sink, |_, _| true).unwrap_err().to_string(),
        "writing record 1: the data is not text of UTF-8; write it as hex or base64, with --data-form \
         hex or --data-form base64"
    );
}

fn records() -> impl Strategy<Value = Vec<Owned>> {
    let device =
        prop_oneof![any::<[u8; 16]>(), Just(*b"dev \",\n\r'\0\0\0\0\0\0\0"), Just([0; 16])];
    let us = -62_167_000_000_000_000i64..253_402_200_000_000_000;
    let record = ((us, prop_oneof![Just(0), 0i128..1_000]), -840i16..=840, device);
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    proptest::collection::vec((record, data), 0..20).prop_map(|mut records| {
        records.sort_by_key(|((time, ..), _)| *time);
        let time = |(us, ns): (i64, i128), zone| {
            Timestamp::from_ns(i128::from(us) * 1_000 + ns, zone).unwrap_or(Timestamp::EPOCH)
        };
        let made = records
            .into_iter()
            .map(|((at, zone, device), data)| (time(at, zone), Device(device), data));
        made.collect()
    })
}

fn any_order() -> Reading {
    Reading { any_order: true, ..Reading::default() }
}

fn written(records: &[Owned], sink: &mut dyn Sink) {
    for (time, device, data) in records {
        sink.write(&Record { time: *time, device: *device, data }).unwrap();
    }
    sink.finish().unwrap();
}

proptest! {
    #[test]
    fn archives_come_back_from_rows_and_rows_from_archives(records in records()) {
        for form in [DataForm::Hex, DataForm::Base64] {
            let mut rows = Writer::new(Vec::new(), form);
            written(&records, &mut rows);
            let text = rows.finish().unwrap();
            let mut reader = Reader::new(&text[..], "test.csv", any_order()).unwrap();
            let mut archive = time_series::Writer::new(Vec::new());
            copy(&mut reader, &mut archive, |_, _| true).unwrap();
            let bytes = archive.finish().unwrap();
            let mut expected = time_series::Writer::new(Vec::new());
            written(&records, &mut expected);
            prop_assert!(bytes == expected.finish().unwrap());

            let reading = time_series::Reading { any_order: true, ..time_series::Reading::default() };
            let mut source = time_series::Reader::new(&bytes[..], "test", reading);
            let mut again = Writer::new(Vec::new(), form);
            copy(&mut source, &mut again, |_, _| true).unwrap();
            prop_assert!(again.finish().unwrap() == text);
        }
    }

    #[test]
    fn text_comes_back_as_text(texts in proptest::collection::vec("[a-c\",\r\n é]{0,9}", 0..9)) {
        let records: Vec<Owned> = texts
            .iter()
            .map(|text| (Timestamp::EPOCH, Device::default(), text.clone().into_bytes()))
            .collect();
        let mut rows = Writer::new(Vec::new(), DataForm::Text);
        written(&records, &mut rows);
        let text = rows.finish().unwrap();
        let lines = layout(Layout { quoted_lines: 20, ..Layout::default() });
        prop_assert_eq!(all(&text, lines).unwrap().0, records);
    }

    #[test]
    fn any_bytes_are_records_or_errors(bytes: Vec<u8>, columns in "[a-c,\n\"]{0,9}") {
        for head in ["", "time,id,v\n", "time,id,data_base64\n", columns.as_str()] {
            let text = [head.as_bytes(), &bytes].concat();
            let _ = all(&text, Reading::default());
            let _ = all(&text, SKIP());
        }
    }
}
