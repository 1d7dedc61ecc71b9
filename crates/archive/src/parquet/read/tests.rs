use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;
use crate::columns::DeviceFrom;
use crate::parquet::{Packing, TimeUnit, Writer};
use crate::source::{Sink, copy};
use crate::time_series;

type Owned = (Timestamp, Device, Vec<u8>);

fn all(file: &[u8], reading: Reading) -> Result<(Vec<Owned>, Tally), Error> {
    let mut reader = Reader::new(Bytes::copy_from_slice(file), "test.parquet", reading)?;
    let mut records = Vec::new();
    while reader.advance()? {
        let Record { time, device, data } = reader.record();
        records.push((time, device, data.to_vec()));
    }
    Ok((records, reader.tally().clone()))
}

fn told(file: &[u8], reading: Reading) -> String {
    all(file, reading).unwrap_err().to_string()
}

fn file(records: &[Owned], packing: Packing) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), packing).unwrap();
    for (time, device, data) in records {
        writer.write(&Record { time: *time, device: *device, data }).unwrap();
    }
    writer.finish().unwrap()
}

fn some(count: usize, len: usize) -> Vec<Owned> {
    let record = |n: usize| {
        let time = Timestamp::new(1_435_774_830_000_000 + n as i64, 60).unwrap();
        let data = (0..len).map(|at| (at * 7 + n) as u8).collect();
        (time, Device([b'a' + (n % 5) as u8; 16]), data)
    };
    (0..count).map(record).collect()
}

/// A file as others write them: times, devices of which some are none, and numbers.
fn foreign(times: &str, numbers: &[(i64, Option<&str>, f64)]) -> Vec<u8> {
    let schema = format!(
        "message other {{ required int64 timestamp {times}; optional binary station (UTF8); \
         required double value; }}"
    );
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let times: Vec<i64> = numbers.iter().map(|row| row.0).collect();
    column.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let names: Vec<ByteArray> = numbers.iter().filter_map(|row| row.1.map(Into::into)).collect();
    let levels: Vec<i16> = numbers.iter().map(|row| row.1.is_some().into()).collect();
    column.typed::<ByteArrayType>().write_batch(&names, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let values: Vec<f64> = numbers.iter().map(|row| row.2).collect();
    column.typed::<DoubleType>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn what_is_written_is_read_over_several_row_groups() {
    for (count, len) in [(0, 0), (1, 0), (150_000, 8), (600, 60_000)] {
        let records = some(count, len);
        let bytes = file(&records, Packing::Snappy);
        let (back, tally) = all(&bytes, Reading::default()).unwrap();
        assert!(back == records, "{count}");
        assert_eq!(tally.records, count as u64);
    }
}

#[test]
fn files_of_others_are_read_by_the_types_of_their_columns() {
    let rows = [(1_435_774_830_450, Some("BK.SAO"), -12.5), (1_435_774_830_451, Some("x"), 7.0)];
    let bytes = foreign("(TIMESTAMP(MILLIS,true))", &rows);
    let (records, _) = all(&bytes, Reading::default()).unwrap();
    assert_eq!(records[0].0.to_string(), "2015-07-01T18:20:30.450000Z");
    assert_eq!(
        (records[0].1.to_string(), records[0].2.as_slice()),
        ("BK.SAO".into(), &b"-12.5"[..])
    );
    assert_eq!(records[1].2, b"7");

    let local = foreign("(TIMESTAMP(MILLIS,false))", &rows);
    assert_eq!(
        told(&local, Reading::default()),
        "test.parquet: column 'timestamp': its times say no zone; say with --zone in which one they \
         are, Z or +01:00"
    );
    let east = Reading { zone_min: Some(60), ..Reading::default() };
    let (records, _) = all(&local, east).unwrap();
    assert_eq!(records[0].0.to_string(), "2015-07-01T18:20:30.450000+01:00");

    let plain = foreign("", &rows);
    assert!(told(&plain, Reading::default()).ends_with("say it with --time-form: s, ms, us or ns"));
    let millis = Reading { time: Some(TimeForm::Unix(Unit::Millis)), ..Reading::default() };
    assert_eq!(all(&plain, millis).unwrap().0.len(), 2);
}

#[test]
fn what_is_wrong_is_told_with_record_column_and_value() {
    let rows = [
        (5, Some("a"), 0.0),
        (6, None, 0.0),
        (4, Some("b"), 0.0),
        (7, Some("17-bytes-no-name "), 0.0),
    ];
    let bytes = foreign("(TIMESTAMP(MICROS,true))", &rows);
    assert_eq!(
        told(&bytes, Reading::default()),
        "test.parquet: record 1, column 'station', '': the value is missing; leave out such rows with \
         --on-bad skip"
    );
    let skip = Reading { on_bad: OnBad::Skip, ..Reading::default() };
    let (records, tally) = all(&bytes, skip).unwrap();
    assert_eq!(records.len(), 1);
    let first = |kind: usize| tally.bad[kind].1.as_ref().unwrap().to_string();
    assert!(first(6).starts_with("record 2, column 'timestamp', '1970-01-01T00:00:00.000004Z'"));
    assert_eq!(tally.bad[4].0, 2);
    let fixed = Columns { device: DeviceFrom::Fixed(Device([1; 16])), ..Columns::default() };
    let fixed = Reading { columns: fixed, any_order: true, ..Reading::default() };
    let (records, _) = all(&bytes, fixed).unwrap();
    // what is left is the data: the device too
    assert_eq!((records.len(), records[1].2.as_slice()), (4, &b",0"[..]));

    let nanos = foreign("(TIMESTAMP(NANOS,true))", &[(1_001, Some("a"), 0.0)]);
    let (records, _) = all(&nanos, Reading::default()).unwrap();
    assert_eq!(records[0].0.to_string(), "1970-01-01T00:00:00.000001001Z");
    let east = Reading { zone_min: Some(60), ..Reading::default() };
    let local = foreign("(TIMESTAMP(NANOS,false))", &[(1_001, Some("a"), 0.0)]);
    let (records, _) = all(&local, east).unwrap();
    assert_eq!(records[0].0.to_string(), "1970-01-01T00:00:00.000001001+01:00");
    for bytes in [&b""[..], b"PAR1PAR1", b"time,device,data\n", &[0; 100]] {
        assert!(
            told(bytes, Reading::default()).contains("it cannot be read as Parquet"),
            "{bytes:?}"
        );
    }
}

#[test]
fn old_and_nested_times_are_refused_with_what_to_do() {
    let refused = |schema: &str| {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        told(&writer.into_inner().unwrap(), Reading::default())
    };
    let old = refused("message m { required int96 time; required binary id; }");
    assert!(old.contains("it is INT96") && old.contains("TIMESTAMP(MICROS)"), "{old}");
    let list = refused("message m { repeated int64 time; required binary id; }");
    assert!(list.contains("it is a list"), "{list}");
    let real = refused("message m { required double time; required binary id; }");
    assert!(real.contains("it holds no times"), "{real}");
}

/// A page may say that it unpacks to two gigabytes.
#[test]
fn a_page_does_not_get_the_memory_it_asks_for() {
    let bytes = file(&some(10, 100), Packing::Zstd);
    // each page begins with its kind, its size unpacked and its size
    let heads: Vec<usize> = (4..bytes.len() - 8)
        .filter(|&at| bytes[at] == 0x15 && matches!(bytes[at + 1], 0 | 4) && bytes[at + 2] == 0x15)
        .collect();
    assert!(heads.len() >= 4, "{heads:?}");
    let mut refused = 0;
    for at in heads {
        let mut large = bytes.clone();
        // five bytes that are the size, where there were two or three: the rest is moved
        large.splice(at + 3..at + 5, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
        let told = told(&large, Reading::default());
        refused += u32::from(told.contains("more than 134217728"));
    }
    assert!(refused > 0);
}

fn records() -> impl Strategy<Value = Vec<Owned>> {
    let device =
        prop_oneof![any::<[u8; 16]>(), Just(*b"dev 1\0\0\0\0\0\0\0\0\0\0\0"), Just([0; 16])];
    let record = (-62_167_000_000_000_000i64..253_402_200_000_000_000, -840i16..=840, device);
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    proptest::collection::vec((record, data), 0..20).prop_map(|records| {
        let time = |us, zone| Timestamp::new(us, zone).unwrap_or(Timestamp::EPOCH);
        let made = records
            .into_iter()
            .map(|((us, zone, device), data)| (time(us, zone), Device(device), data));
        made.collect()
    })
}

/// Times with nanoseconds were refused.
#[test]
fn nanoseconds_come_back_from_columns_of_them() {
    let write = |unit: TimeUnit, ns: i128| {
        let time = Timestamp::from_ns(ns, 60).unwrap();
        let mut writer = Writer::with_unit(Vec::new(), Packing::Zstd, unit).unwrap();
        let written = writer.write(&Record { time, device: Device([b'a'; 16]), data: b"x" });
        written.map_err(|error| error.to_string())?;
        let bytes = writer.finish().unwrap();
        Ok::<_, String>((time, all(&bytes, Reading::default()).unwrap().0[0].0))
    };
    for ns in [1_435_774_830_450_001_001, -1, 0, i64::MAX.into(), i64::MIN.into()] {
        let (time, back) = write(TimeUnit::Nanos, ns).unwrap();
        assert_eq!(back, time);
    }
    let told = write(TimeUnit::Micros, 1_001).unwrap_err();
    assert!(told.contains("has nanoseconds; write them with --time-unit ns"), "{told}");
    let told = write(TimeUnit::Nanos, i128::from(i64::MAX) + 1).unwrap_err();
    assert!(told.contains("1677 to 2262"), "{told}");
}

proptest! {
    #[test]
    fn archives_come_back_from_columns(records in records()) {
        let any = Reading { any_order: true, ..Reading::default() };
        for packing in [Packing::Zstd, Packing::Snappy, Packing::None] {
            let bytes = file(&records, packing);
            let mut reader =
                Reader::new(Bytes::from(bytes), "test.parquet", any.clone()).unwrap();
            let mut archive = time_series::Writer::new(Vec::new());
            copy(&mut reader, &mut archive, |_, _| true).unwrap();
            let mut expected = time_series::Writer::new(Vec::new());
            for (time, device, data) in &records {
                let record = Record { time: *time, device: *device, data };
                time_series::Writer::write(&mut expected, &record).unwrap();
            }
            prop_assert!(archive.finish().unwrap() == expected.finish().unwrap());
        }
    }

    #[test]
    fn any_damage_is_records_or_an_error(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        plain: bool,
    ) {
        let packing = if plain { Packing::None } else { Packing::Zstd };
        let mut bytes = file(&some(50, 20), packing);
        for (at, byte) in hits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let skip = Reading { on_bad: OnBad::Skip, ..Reading::default() };
        let _ = all(&bytes, skip.clone());
        bytes.truncate(cut.index(bytes.len()));
        let _ = all(&bytes, skip);
    }
}
