use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;

/// The examples of the format.
const EXAMPLES: [(&str, [u8; 12]); 3] = [
    (
        "2015-07-01T19:20:30.45+01:00",
        [0x20, 0x15, 0x07, 0x01, 0x19, 0x20, 0x30, 0x45, 0x00, 0x00, 0x01, 0x00],
    ),
    (
        "2015-07-01T19:20:30.456789-01:00",
        [0x20, 0x15, 0x07, 0x01, 0x19, 0x20, 0x30, 0x45, 0x67, 0x89, 0x81, 0x00],
    ),
    (
        "2015-07-01T19:20:30.4567Z",
        [0x20, 0x15, 0x07, 0x01, 0x19, 0x20, 0x30, 0x45, 0x67, 0x00, 0x00, 0x00],
    ),
];

#[test]
fn the_examples_of_the_format_both_ways() {
    for (text, packed) in EXAMPLES {
        let time: Timestamp = text.parse().unwrap();
        assert_eq!(time.pack(), packed, "{text}");
        assert_eq!(Timestamp::unpack(&packed), Ok(time), "{text}");
    }
    let [first, second, third] = EXAMPLES.map(|(text, _)| text.parse::<Timestamp>().unwrap());
    assert_eq!(first.unix_us(), 1_435_774_830_450_000);
    assert_eq!(second.unix_us() - first.unix_us(), 2 * 3_600_000_000 + 6_789);
    assert_eq!(third.unix_us() - first.unix_us(), 3_600_000_000 + 6_700);
}

#[test]
fn what_is_no_time_is_told_apart() {
    let good = EXAMPLES[0].1;
    let with = |at: usize, byte: u8| {
        let mut packed = good;
        packed[at] = byte;
        Timestamp::unpack(&packed).unwrap_err()
    };
    let range = |part, value, least, most| BadTime::Range { part, value, least, most };
    assert_eq!(with(0, 0x2a), BadTime::Digits("year"));
    assert_eq!(with(3, 0xf1), BadTime::Digits("day"));
    assert_eq!(with(9, 0x0a), BadTime::Digits("microsecond"));
    assert_eq!(with(10, 0x8a), BadTime::Digits("zone"));
    assert_eq!(with(2, 0x00), range("month", 0, 1, 12));
    assert_eq!(with(2, 0x13), range("month", 13, 1, 12));
    assert_eq!(with(3, 0x00), BadTime::Day { year: 2015, month: 7, day: 0, days: 31 });
    assert_eq!(with(4, 0x24), range("hour", 24, 0, 23));
    assert_eq!(with(5, 0x60), range("minute", 60, 0, 59));
    assert_eq!(with(6, 0x61), range("second", 61, 0, 59));
    assert_eq!(with(6, 0x60), BadTime::LeapSecond);
    assert_eq!(with(10, 0x15), BadTime::Zone);
    assert_eq!(with(11, 0x60), BadTime::Zone);
    // minus nothing: an unknown zone (RFC 3339, 4.3)
    assert_eq!(with(10, 0x80), BadTime::Zone);
}

#[test]
fn the_thirtieth_of_february_is_no_day() {
    let message = "2015-02-30T00:00:00Z".parse::<Timestamp>().unwrap_err().to_string();
    assert_eq!(message, "2015-02 has no day 30; it has 28");
    for (text, is) in [
        ("2016-02-29T00:00:00Z", true),
        ("2015-02-29T00:00:00Z", false),
        ("1900-02-29T00:00:00Z", false),
        ("2000-02-29T00:00:00Z", true),
        ("2015-04-31T00:00:00Z", false),
        ("2015-12-31T00:00:00Z", true),
    ] {
        assert_eq!(text.parse::<Timestamp>().is_ok(), is, "{text}");
    }
}

#[test]
fn text_comes_in_the_forms_that_iso_8601_has() {
    let time: Timestamp = "2015-07-01T19:20:30.5+01:00".parse().unwrap();
    for text in [
        "2015-07-01 19:20:30.500000+01:00",
        "2015-07-01t19:20:30,5+0100",
        "2015-07-01T19:20:30.500000000+01",
    ] {
        assert_eq!(text.parse(), Ok(time), "{text}");
    }
    for (text, why) in [
        ("", BadTime::Text),
        ("2015-07-01", BadTime::Text),
        ("2015-07-01T19:20:30", BadTime::NoZone),
        ("2015-07-01T19:20:30.Z", BadTime::Text),
        ("2015-07-01T19:20:30Zz", BadTime::Text),
        ("2015-07-01T19:20:30+1", BadTime::Text),
        ("2015-07-01T19:20:30.1234567891Z", BadTime::TooFine),
        ("2015-07-01T19:20:60Z", BadTime::LeapSecond),
        ("2015-07-01T19:20:30+15:00", BadTime::Zone),
    ] {
        assert_eq!(text.parse::<Timestamp>(), Err(why), "{text}");
    }
}

/// Times with nanoseconds were refused; those without are the bytes that they were.
#[test]
fn nanoseconds_are_kept() {
    let time: Timestamp = "2015-07-01T19:20:30.450000001+01:00".parse().unwrap();
    assert_eq!(time.unix_ns(), 1_435_774_830_450_000_001);
    assert_eq!(time.to_string(), "2015-07-01T19:20:30.450000001+01:00");
    let packed = [0xf1, 0, 0x13, 0xec, 0xe3, 0xa4, 0x4f, 0x0c, 0x78, 0x81, 0x01, 0x00];
    assert_eq!(time.pack()[0], packed[0]);
    assert_eq!(time.pack()[10..], packed[10..]);
    let mut ns = [0; 16];
    ns[7..].copy_from_slice(&time.pack()[1..10]);
    assert_eq!(i128::from_be_bytes(ns), time.unix_ns());
    assert_eq!(Timestamp::unpack(&time.pack()), Ok(time));
    // one moment has one form
    let mut whole = time.pack();
    whole[1..10].copy_from_slice(&1_000_000i128.to_be_bytes()[7..]);
    assert_eq!(Timestamp::unpack(&whole), Err(BadTime::NotFine));
    let mut later = time.pack();
    later[0] = 0xf7;
    let told = Timestamp::unpack(&later).unwrap_err().to_string();
    assert_eq!(
        told,
        "its kind is 0xf7, which this version does not know; read it with a newer version of Wirebeat"
    );
    let rounded =
        |text: &str, to| text.parse::<Timestamp>().unwrap().rounded(to).unwrap().to_string();
    assert_eq!(rounded("2015-07-01T00:00:00.000000499Z", Rounding::Micros), "2015-07-01T00:00:00Z");
    assert_eq!(
        rounded("2015-07-01T00:00:00.000000500Z", Rounding::Micros),
        "2015-07-01T00:00:00.000001Z"
    );
    assert_eq!(rounded("1969-12-31T23:59:59.9995Z", Rounding::Millis), "1970-01-01T00:00:00Z");
}

#[test]
fn a_zone_that_a_text_lacks_can_be_given() {
    let read = |text: &str, zone| Timestamp::from_text_in(text.as_bytes(), zone);
    let time: Timestamp = "2015-07-01T19:20:30.5+01:30".parse().unwrap();
    assert_eq!(read("2015-07-01 19:20:30.5", Some(90)), Ok(time));
    assert_eq!(read("2015-07-01 19:20:30.5+01:30", Some(0)), Ok(time));
    assert_eq!(read("2015-07-01 19:20:30.5", None), Err(BadTime::NoZone));
    assert_eq!(read("2015-07-01 19:20:30.5", Some(841)), Err(BadTime::Zone));
    assert_eq!(read("2015-07-01 19:20:30.5", Some(i16::MIN)), Err(BadTime::Zone));
}

#[test]
fn the_first_and_the_last_moment() {
    for text in ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"] {
        let time: Timestamp = text.parse().unwrap();
        assert_eq!(time.to_string(), text);
        assert_eq!(Timestamp::new(time.unix_us(), 0), Ok(time));
        assert_eq!(Timestamp::unpack(&time.pack()), Ok(time));
    }
    let first: Timestamp = "0000-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(Timestamp::utc(first.unix_us() - 1), Err(BadTime::Year));
    assert_eq!(Timestamp::new(first.unix_us(), -1), Err(BadTime::Year));
    assert_eq!(Timestamp::utc(i64::MAX), Err(BadTime::Year));
    assert_eq!(Timestamp::utc(i64::MIN), Err(BadTime::Year));
    assert_eq!(Timestamp::new(0, 841), Err(BadTime::Zone));
}

proptest! {
    #[test]
    fn any_bytes_are_a_time_or_an_error_and_times_come_back(packed: [u8; 12]) {
        if let Ok(time) = Timestamp::unpack(&packed) {
            prop_assert_eq!(time.pack(), packed);
        }
    }

    /// Such as begin as times with nanoseconds do.
    #[test]
    fn any_fine_bytes_are_a_time_or_an_error(
        // what nine bytes hold
        near in -(1i128 << 71)..1 << 71,
        zone: [u8; 2],
    ) {
        let mut packed = [0xf1; 12];
        packed[1..10].copy_from_slice(&near.to_be_bytes()[7..]);
        packed[10..].copy_from_slice(&zone);
        if let Ok(time) = Timestamp::unpack(&packed) {
            prop_assert_eq!(time.pack(), packed);
            prop_assert_eq!(time.unix_ns(), near);
        }
    }

    #[test]
    fn every_nanosecond_comes_back_in_both_forms_and_in_order(
        ns in -62_167_000_000_000_000_000i128..253_402_200_000_000_000_000,
        later in 0i128..5_000,
        zone in -840i16..=840,
    ) {
        let Ok(time) = Timestamp::from_ns(ns, zone) else { return Ok(()) };
        prop_assert_eq!(time.unix_ns(), ns);
        prop_assert_eq!(Timestamp::unpack(&time.pack()), Ok(time));
        prop_assert_eq!(time.to_string().parse(), Ok(time));
        let after = Timestamp::from_ns(ns + later, zone).unwrap_or(time);
        prop_assert_eq!(after.moment().cmp(&time.moment()), after.unix_ns().cmp(&ns));
        for unit in [Rounding::Micros, Rounding::Millis] {
            let (Ok(time), Ok(after)) = (time.rounded(unit), after.rounded(unit)) else { continue };
            prop_assert!(time.moment() <= after.moment() && !time.is_fine());
            prop_assert!((time.unix_ns() - ns).abs() <= 500_000);
        }
    }

    #[test]
    fn any_text_is_a_time_or_an_error(text in "[0-9T:.+Z -]{0,40}") {
        let _ = text.parse::<Timestamp>();
    }

    #[test]
    fn every_moment_comes_back_in_both_forms(
        unix_us in -62_167_000_000_000_000i64..253_402_200_000_000_000,
        zone in -840i16..=840,
    ) {
        let Ok(time) = Timestamp::new(unix_us, zone) else { return Ok(()) };
        prop_assert_eq!(Timestamp::unpack(&time.pack()), Ok(time));
        prop_assert_eq!(time.to_string().parse(), Ok(time));
    }

    /// An implementation that others use agrees.
    #[test]
    fn the_calendar_is_the_one_that_others_have(us in 0i64..253_402_300_800_000_000) {
        let others = humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(us as u64));
        let text = others.to_string();
        prop_assert_eq!(text.parse::<Timestamp>().map(Timestamp::unix_us), Ok(us));
    }

    #[test]
    fn half_bytes_above_nine_are_found(bytes: [u8; 16]) {
        let slow = bytes.iter().any(|byte| byte >> 4 > 9 || byte & 0xf > 9);
        prop_assert_eq!(above_nine(u128::from_le_bytes(bytes)), slow);
    }
}
