use proptest::prelude::*;

use super::*;
use crate::time_series::{DATA_MAX, Device, Writer};

/// A record at so many microseconds, with data of so many bytes.
fn records(list: &[(i64, usize)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (number, &(us, len)) in list.iter().enumerate() {
        let time = Timestamp::utc(1_435_774_830_000_000 + us).unwrap();
        let device = Device([number as u8; 16]);
        let data: Vec<u8> = (0..len).map(|byte| (byte + number) as u8).collect();
        writer.write(&Record { time, device, data: &data }).unwrap();
    }
    writer.finish().unwrap()
}

/// Gives a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(into.len()).min(self.0.len());
        self.0.read(&mut into[..count])
    }
}

fn all(bytes: &[u8], reading: Reading) -> Result<(Vec<u8>, Tally), ReadError> {
    let mut reader = Reader::new(Trickle(bytes, 7_001), "test", reading);
    let mut copy = Writer::new(Vec::new());
    while let Some(record) = reader.read()? {
        copy.write(&record).unwrap();
    }
    Ok((copy.finish().unwrap(), reader.tally().clone()))
}

const SKIP: Reading = Reading { order: ByteOrder::Big, on_bad: OnBad::Skip, any_order: false };

fn message(bytes: &[u8]) -> String {
    all(bytes, Reading::default()).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    let list: Vec<(i64, usize)> =
        (0..200).map(|n| (n * 10, (n as usize * 331) % DATA_MAX)).collect();
    let bytes = records(&list);
    let (copy, tally) = all(&bytes, Reading::default()).unwrap();
    assert!(copy == bytes);
    assert_eq!((tally.records, tally.bytes), (200, bytes.len() as u64));
    assert_eq!((tally.bad(), tally.skipped), (0, 0));
    assert_eq!(all(&[], Reading::default()).unwrap().1, Tally::default());
}

#[test]
fn the_longest_data_fits_and_one_byte_more_does_not() {
    let bytes = records(&[(0, DATA_MAX), (1, 0)]);
    assert!(all(&bytes, Reading::default()).unwrap().0 == bytes);
    let time = Timestamp::utc(0).unwrap();
    let long = Record { time, device: Device::default(), data: &[0; DATA_MAX + 1] };
    let error = Writer::new(Vec::new()).write(&long).unwrap_err();
    assert_eq!(error.to_string(), "its data has 65506 bytes, and a record holds 65505 at most");
}

#[test]
fn a_place_has_file_byte_and_record() {
    let mut bytes = records(&[(0, 10), (1, 20), (2, 30)]);
    let second = 40;
    bytes[second..second + 2].copy_from_slice(&[0, 29]);
    assert_eq!(
        message(&bytes),
        "test: record 1 at byte 40: its length is 29, and a record has at least 30 bytes"
    );
}

#[test]
fn what_is_cut_off_is_told_and_nothing_of_it_is_read() {
    let bytes = records(&[(0, 10), (1, 20)]);
    for end in 41..bytes.len() {
        let told = message(&bytes[..end]);
        assert!(told.starts_with("test: record 1 at byte 40: the file ends after "), "{told}");
        let (copy, tally) = all(&bytes[..end], SKIP).unwrap();
        assert_eq!(copy, bytes[..40]);
        assert_eq!((tally.records, tally.bad(), tally.skipped), (1, 1, end as u64 - 40));
    }
}

#[test]
fn a_bad_time_is_stepped_over() {
    let mut bytes = records(&[(0, 10), (1, 20), (2, 30)]);
    bytes[40 + 5] = 0x32;
    assert_eq!(
        message(&bytes),
        "test: record 1 at byte 40: its time is invalid: 2015-07 has no day 32; it has 31"
    );
    let (copy, tally) = all(&bytes, SKIP).unwrap();
    assert_eq!(copy, [&bytes[..40], &bytes[90..]].concat());
    assert_eq!((tally.records, tally.bad[2].places, tally.skipped), (2, 1, 50));
}

#[test]
fn after_a_bad_length_the_next_records_are_found() {
    for length in [0u16, 29, 31, 60_000] {
        let list: Vec<(i64, usize)> = (0..40).map(|n| (n, 1000)).collect();
        let mut bytes = records(&list);
        let bad = 7 * 1030;
        bytes[bad..bad + 2].copy_from_slice(&length.to_be_bytes());
        // a length that could be one is believed, and what is wrong with it is seen at the next record
        let (copy, tally) = all(&bytes, SKIP).unwrap();
        assert!(copy.len() >= 31 * 1030, "{length}: {tally:?}");
        assert!(copy.ends_with(&bytes[bad + 1030..]), "{length}");
        assert!(tally.bad() >= 1, "{length}: {tally:?}");
        assert_eq!(tally.bytes + tally.skipped, bytes.len() as u64);
    }
}

/// 99 good ones were taken for the data of one, and told as one that is left out.
#[test]
fn a_wrong_length_costs_its_record_and_not_those_that_it_spans() {
    let list: Vec<(i64, usize)> = (0..100).map(|n| (n, 4)).collect();
    let good = records(&list);
    for (bad, length) in [(0, 3_362u16), (0, 100), (0, 3_370), (3, 1_000), (90, 200), (95, 69)] {
        let mut bytes = good.clone();
        bytes[bad * 34..bad * 34 + 2].copy_from_slice(&length.to_be_bytes());
        for any_order in [false, true] {
            let (copy, tally) = all(&bytes, Reading { any_order, ..SKIP }).unwrap();
            let expected = [&good[..bad * 34], &good[(bad + 1) * 34..]].concat();
            assert!(copy == expected, "{bad} {length}: {tally:?}");
            let kind = &tally.bad[1];
            assert_eq!((tally.bad(), kind.places, kind.records, kind.bytes), (1, 1, 0, 34));
            let place = Place { offset: bad as u64 * 34, number: bad as u64 };
            assert_eq!(kind.first.unwrap().place, place);
        }
    }
    // a length beyond the end of the file, and a time that is none
    let mut bytes = good.clone();
    bytes[..2].copy_from_slice(&[0xff, 0xff]);
    bytes[5] = 0x32;
    let (copy, tally) = all(&bytes, SKIP).unwrap();
    assert!(copy == good[34..], "{tally:?}");
    assert_eq!((tally.bad(), tally.bad_records(), tally.skipped), (1, 0, 34));
}

/// Data may be records itself: those end where the data ends.
#[test]
fn records_in_the_data_of_a_record_are_data() {
    let inner = records(&[(0, 4), (1, 4), (2, 4), (3, 4)]);
    let mut writer = Writer::new(Vec::new());
    let time = Timestamp::utc(1_435_774_830_000_000).unwrap();
    let record = Record { time, device: Device::default(), data: &inner };
    writer.write(&record).unwrap();
    let outer = writer.finish().unwrap();
    // what follows is not a record
    let bytes = [&outer[..], &[0; 50], &records(&[(5, 4), (6, 4), (7, 4)])[..]].concat();
    let (copy, tally) = all(&bytes, SKIP).unwrap();
    assert!(copy.starts_with(&outer), "{tally:?}");
    assert_eq!((tally.records, tally.bad(), tally.skipped), (4, 1, 50));
}

/// UUIDs and topics of MQTT did not fit into the 16 bytes of a device.
#[test]
fn devices_with_long_names_have_them_in_the_archive() {
    let names = ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "plant/7/line-3/motor/temperature"];
    let mut writer = Writer::new(Vec::new());
    for n in 0..6 {
        let (time, name) = (Timestamp::utc(n).unwrap(), names[n as usize % 2]);
        let device = Device::named(name).unwrap();
        writer.name(device, name).unwrap();
        writer.write(&Record { time, device, data: b"x" }).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let mut reader = Reader::new(Trickle(&bytes, 13), "test", Reading::default());
    let mut copy = Writer::new(Vec::new());
    crate::source::copy(&mut reader, &mut copy, |_, _| true).unwrap();
    assert!(copy.finish().unwrap() == bytes);
    assert_eq!((reader.tally().records, reader.place().number, reader.names().len()), (6, 5, 2));
    assert_eq!(reader.names().get(Device::named(names[1]).unwrap()), Some(names[1]));
    assert_eq!(reader.tally().read(), bytes.len() as u64);
    // twice behind each other, and without the names
    let twice = [&bytes[..], &bytes].concat();
    let any = Reading { any_order: true, ..Reading::default() };
    assert_eq!(all(&twice, any).unwrap().1.records, 12);
    let bare = &bytes[HEAD + names[0].len()..][..HEAD + 1];
    assert_eq!(all(bare, any).unwrap().0, bare);
    // a name that is not that of its device
    let mut wrong = bytes.clone();
    wrong[HEAD] ^= 1;
    let told = message(&wrong);
    assert_eq!(
        told,
        "test: record 0 at byte 0: it is the name of a device, and does not belong to that device"
    );
    let (copy, tally) = all(&wrong, SKIP).unwrap();
    assert_eq!((tally.records, tally.bad[5].places, tally.bad_records()), (6, 1, 0));
    assert_eq!(copy.len(), 6 * (HEAD + 1));
}

#[test]
fn places_records_and_bytes_are_counted_apart() {
    let list: Vec<(i64, usize)> = (0..20).map(|n| (n * 10, 4)).collect();
    let mut bytes = records(&list);
    bytes[34 + 5] = 0x32; // no day
    bytes[5 * 34..6 * 34].fill(0); // nothing of a record
    bytes[9 * 34..9 * 34 + 2].copy_from_slice(&[0, 3]); // no length
    bytes.truncate(20 * 34 - 5);
    let (_, tally) = all(&bytes, SKIP).unwrap();
    let kinds: Vec<_> =
        tally.bad.iter().map(|kind| (kind.places, kind.records, kind.bytes)).collect();
    assert_eq!(kinds, [(1, 1, 29), (2, 0, 68), (1, 1, 34), (0, 0, 0), (0, 0, 0), (0, 0, 0)]);
    assert_eq!((tally.records, tally.bad(), tally.bad_records()), (16, 4, 2));
}

#[test]
fn time_does_not_run_backwards_unless_it_may() {
    let bytes = records(&[(5, 1), (4, 1), (5, 1)]);
    assert_eq!(
        message(&bytes),
        "test: record 1 at byte 31: its time 2015-07-01T18:20:30.000004Z is before \
         2015-07-01T18:20:30.000005Z, the time of the record before it"
    );
    let (copy, tally) = all(&bytes, SKIP).unwrap();
    assert_eq!((copy.len(), tally.bad[3].places), (62, 1));
    let any = Reading { any_order: true, ..Reading::default() };
    assert_eq!(all(&bytes, any).unwrap().0, bytes);
}

/// One clock that jumps ahead costs its record, and not all behind it.
#[test]
fn a_record_that_is_ahead_of_all_behind_it_is_the_one_that_is_left_out() {
    let mut list: Vec<(i64, usize)> = (0..50).map(|n| (n * 10, 5)).collect();
    list[20].0 = 1_000_000;
    list[30].0 = 5;
    let bytes = records(&list);
    let (copy, tally) = all(&bytes, SKIP).unwrap();
    assert_eq!(copy.len(), 48 * 35);
    assert_eq!((tally.bad[4].places, tally.bad[3].places), (1, 1));
    let bad = tally.bad[4].first.unwrap();
    assert_eq!(bad.place, Place { offset: 20 * 35, number: 20 });
    assert_eq!(
        bad.defect.to_string(),
        "its time 2015-07-01T18:20:31Z is after 2015-07-01T18:20:30.000210Z and more, the times of the records \
         behind it"
    );
    // the first of all, too
    list[20].0 = 200;
    list[30].0 = 300;
    list[0].0 = 1_000_000;
    assert_eq!(all(&records(&list), SKIP).unwrap().1.bad[4].places, 1);
    // two in a row agree with each other: those behind them are earlier
    list[0].0 = 0;
    (list[48].0, list[49].0) = (900, 901);
    assert_eq!(all(&records(&list), SKIP).unwrap().1.bad(), 0);
}

#[test]
fn lengths_the_other_way_round_are_recognised_and_can_be_read() {
    let bytes = records(&[(0, 10), (1, 20), (2, 30), (3, 40)]);
    let mut turned = bytes.clone();
    let mut at = 0;
    while at < bytes.len() {
        let len = usize::from(ByteOrder::Big.length(&bytes[at..]).unwrap());
        turned.swap(at, at + 1);
        at += len;
    }
    for reading in [Reading::default(), SKIP] {
        let told = all(&turned, reading).unwrap_err().to_string();
        assert_eq!(
            told,
            "test: record 0 at byte 0: its lengths have the lower byte first; read it with \
             --length-order little"
        );
    }
    // a first length of 34 bytes is one of 8,704 the other way round, and the file is that long
    for count in [300, 2000] {
        let long: Vec<(i64, usize)> = (0..count).map(|n| (n, 4)).collect();
        let mut long = records(&long);
        assert!(all(&long, Reading::default()).is_ok());
        let mut damaged = long.clone();
        damaged[34 + 5] = 0x32;
        assert!(message(&damaged).starts_with("test: record 1 at byte 34: its time"));
        long.chunks_exact_mut(34).for_each(|record| record.swap(0, 1));
        assert!(message(&long).ends_with("read it with --length-order little"));
    }
    let little = Reading { order: ByteOrder::Little, ..Reading::default() };
    assert_eq!(all(&turned, little).unwrap().0, bytes);
    let told = all(&bytes, little).unwrap_err().to_string();
    assert!(told.ends_with("read it without --length-order"), "{told}");
}

#[test]
fn an_error_of_the_disk_has_its_place() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match std::mem::take(&mut self.0) {
                0 => Err(io::Error::other("the disk is gone")),
                count => {
                    into[..count].copy_from_slice(&records(&[(0, 10), (1, 20)])[..count]);
                    Ok(count)
                }
            }
        }
    }
    let mut reader = Reader::new(Broken(60), "test", Reading::default());
    let told = reader.read().map(|_| ()).unwrap_err().to_string();
    assert_eq!(told, "test: reading at byte 60: the disk is gone");
}

proptest! {
    /// Any wrong length of one record that does not lead to another one.
    #[test]
    fn a_wrong_length_costs_one_record(
        lens in proptest::collection::vec(0usize..400, 8..60),
        bad in any::<prop::sample::Index>(),
        length: u16,
    ) {
        let list: Vec<(i64, usize)> = lens.iter().zip(0..).map(|(len, n)| (n, *len)).collect();
        let good = records(&list);
        let ends: Vec<usize> = lens
            .iter()
            .scan(0, |at, len| { *at += HEAD + len; Some(*at) })
            .collect();
        // behind it are enough to be sure
        let bad = bad.index(lens.len() - SURE);
        let start = ends[bad] - HEAD - lens[bad];
        let end = start + usize::from(length);
        // a shorter one is believed, and so is one that ends where a record ends; the first says the order of bytes as well
        let turned = start + usize::from(length.swap_bytes());
        prop_assume!(end > ends[bad] && !ends.contains(&end));
        prop_assume!(bad > 0 || !ends.contains(&turned));
        let mut bytes = good.clone();
        bytes[start..start + 2].copy_from_slice(&length.to_be_bytes());
        let (copy, tally) = all(&bytes, SKIP).unwrap();
        prop_assert!(copy == [&good[..start], &good[ends[bad]..]].concat(), "{:?}", tally);
        prop_assert_eq!((tally.bad(), tally.skipped), (1, (ends[bad] - start) as u64));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        let _ = all(&bytes, Reading::default());
        if let Ok((copy, tally)) = all(&bytes, SKIP) {
            prop_assert_eq!(copy.len() as u64, tally.bytes);
            prop_assert_eq!(tally.read(), bytes.len() as u64);
            prop_assert_eq!(tally.bad.iter().map(|kind| kind.bytes).sum::<u64>(), tally.skipped);
        }
    }

    /// Names of devices, whole and damaged, between records: all bytes are accounted for, and no name is believed that
    /// is not its device's.
    #[test]
    fn names_of_devices_survive_any_damage(
        names in proptest::collection::vec("[a-z/ é]{10,60}", 1..8),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut writer = Writer::new(Vec::new());
        for (name, n) in names.iter().zip(0..) {
            let Ok(device) = name.parse::<Device>() else { continue };
            if device.has_long_name() {
                writer.name(device, name).unwrap();
            }
            let time = Timestamp::utc(1_435_774_830_000_000 + n).unwrap();
            writer.write(&Record { time, device, data: name.as_bytes() }).unwrap();
        }
        let mut bytes = writer.finish().unwrap();
        for (at, byte) in &hits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
        }
        let mut reader = Reader::new(Trickle(&bytes, 37), "test", SKIP);
        let mut records = 0;
        let ended = loop {
            match reader.advance() {
                Ok(true) => records += 1,
                Ok(false) => break true,
                Err(_) => break false,
            }
        };
        if ended {
            prop_assert_eq!(reader.tally().read(), bytes.len() as u64);
        }
        if hits.is_empty() {
            prop_assert_eq!(reader.tally().bad(), 0);
            let valid = names.iter().filter(|name| name.parse::<Device>().is_ok()).count();
            prop_assert_eq!(records, valid);
        }
        for (device, name) in reader.names().iter() {
            prop_assert_eq!(Device::named(name), Ok(device));
        }
    }

    #[test]
    fn damage_costs_what_it_hits(
        count in 5usize..60,
        len in 0usize..300,
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let list: Vec<(i64, usize)> = (0..count).map(|n| (n as i64, len)).collect();
        let mut bytes = records(&list);
        for (at, byte) in hits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let reading = Reading { any_order: true, ..SKIP };
        if let Ok((_, tally)) = all(&bytes, reading) {
            prop_assert_eq!(tally.bytes + tally.skipped, bytes.len() as u64);
        }
    }
}

#[test]
fn a_small_buffer_reads_the_same() {
    let list: Vec<(i64, usize)> =
        (0..60).map(|n| (n * 10, (n as usize * 7_919) % DATA_MAX)).collect();
    let mut bytes = records(&list);
    let damaged = 30 + list[0].1;
    for at in [None, Some(damaged)] {
        if let Some(at) = at {
            bytes[at..at + 2].copy_from_slice(&[0, 1]);
        }
        let read = |buffer: Option<usize>| {
            let mut reader = Reader::new(Trickle(&bytes, 7_001), "test", SKIP);
            if let Some(buffer) = buffer {
                reader = reader.with_buffer(buffer);
            }
            let mut copy = Writer::new(Vec::new());
            while let Some(record) = reader.read().unwrap() {
                copy.write(&record).unwrap();
            }
            (copy.finish().unwrap(), reader.tally().clone())
        };
        assert!(read(Some(0)) == read(None));
    }
}
