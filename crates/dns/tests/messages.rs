//! Messages as real servers and clients write them, as nobody should write them, and of any bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::IpAddr;

use proptest::prelude::*;
use wirebeat_dns::{
    Answer, Bad, BadName, EDNS_MAX, Message, NAME_MAX, Name, PLAIN_MAX, Query, RecordType, rcode,
    rcode_name, refuse,
};

fn name(text: &str) -> Name {
    Name::of_text(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn query(text: &str, kind: RecordType) -> Vec<u8> {
    let mut out = Vec::new();
    Query { id: 0x1234, name: &name(text), kind, recursion_desired: true }.write(&mut out);
    out
}

#[test]
fn a_query_has_the_bytes_of_the_standard() {
    let bytes = query("www.Example.com", RecordType::Aaaa);
    let expected = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07Example\x03com\x00\x00\x1c\x00\x01";
    assert_eq!(bytes, expected);
    let read = Message::read(&bytes).unwrap();
    assert!(!read.is_response && read.recursion_desired && read.opcode == 0);
    let question = read.question.unwrap();
    // RFC 4343
    assert_eq!((question.name, question.kind, question.class), (name("WWW.example.COM."), 28, 1));
    assert_eq!(question.name.to_string(), "www.Example.com");
}

#[test]
fn names_are_read_as_people_write_them() {
    for (text, printed) in [
        (".", "."),
        ("a", "a"),
        ("a.", "a"),
        (r"a\.b.c", r"a\.b.c"),
        (r"\065\032\\.x", r"A\032\\.x"),
        ("_dns._udp.example", "_dns._udp.example"),
    ] {
        assert_eq!(name(text).to_string(), printed, "{text}");
    }
    let long = "a".repeat(63);
    assert_eq!(name(&long).as_bytes().len(), 65);
    let longest = [&long[..], &long, &long, &long[..61]].join(".");
    assert_eq!(name(&longest).as_bytes().len(), NAME_MAX);
    for (text, why) in [
        ("", BadName::Label),
        ("..", BadName::Label),
        ("a..b", BadName::Label),
        (".a", BadName::Label),
        (&format!("{long}a") as &str, BadName::Label),
        (&format!("{longest}a"), BadName::TooLong),
        ("a b", BadName::Character),
        ("ä", BadName::Character),
        ("a\\", BadName::Escape),
        (r"\25", BadName::Escape),
        (r"\256", BadName::Escape),
        (r"\2+5", BadName::Escape),
    ] {
        assert_eq!(Name::of_text(text), Err(why), "{text}");
    }
}

fn answers(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

fn respond(bytes: &[u8], addresses: &[IpAddr], longest: usize) -> (Vec<u8>, Option<u16>) {
    let mut out = Vec::new();
    let query = Message::read(bytes).unwrap();
    let answer = Answer { addresses, ttl: 300, rcode: 0 };
    let rcode = answer.write(&query, bytes, longest, &mut out);
    (out, rcode)
}

#[test]
fn addresses_are_answered_by_the_type_that_is_asked_for() {
    let all = answers(&["10.0.0.1", "2001:db8::1", "10.0.0.2"]);
    for (kind, count) in
        [(RecordType::A, 2), (RecordType::Aaaa, 1), (RecordType::Any, 3), (RecordType::Mx, 0)]
    {
        let (bytes, rcode) = respond(&query("x.example", kind), &all, PLAIN_MAX);
        let read = Message::read(&bytes).unwrap();
        assert_eq!(
            (read.answers, read.rcode, rcode, read.id),
            (count, 0, Some(0), 0x1234),
            "{kind}"
        );
        assert!(read.is_response && !read.truncated && read.recursion_desired);
        assert_eq!(read.question.unwrap().name, name("x.example"));
    }
    let (bytes, _) = respond(&query("x.example", RecordType::A), &all, PLAIN_MAX);
    assert!(bytes.ends_with(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 10, 0, 0, 2]));
}

#[test]
fn what_does_not_fit_is_cut_and_said_to_be() {
    let all: Vec<IpAddr> = (0..200).map(|n| IpAddr::from([10, 0, 0, n])).collect();
    let asked = query("x.example", RecordType::A);
    let (bytes, _) = respond(&asked, &all, PLAIN_MAX);
    let read = Message::read(&bytes).unwrap();
    assert!(read.truncated && bytes.len() <= PLAIN_MAX && bytes.len() + 16 > PLAIN_MAX);
    let (whole, _) = respond(&asked, &all, 65_535);
    assert_eq!(Message::read(&whole).map(|read| (read.answers, read.truncated)), Ok((200, false)));
    // with EDNS, and with a version of it that there is not
    for (version, code) in [(0, 0), (1, 16)] {
        let mut asked = asked.clone();
        asked[11] = 1;
        asked.extend_from_slice(&[0, 0, 41, 4, 208, 0, version, 0, 0, 0, 0]);
        let (bytes, rcode) = respond(&asked, &all, EDNS_MAX);
        let read = Message::read(&bytes).unwrap();
        assert_eq!((rcode, read.rcode, bytes.len() <= EDNS_MAX), (Some(code), code, true));
        assert_eq!(read.edns.unwrap().version, 0);
    }
}

#[test]
fn what_is_no_query_gets_no_more_than_a_header() {
    let mut out = Vec::new();
    let mut asked = query("x.example", RecordType::A);
    // a response is never answered
    asked[2] |= 0x80;
    let read = Message::read(&asked).unwrap();
    assert_eq!(
        Answer { addresses: &[], ttl: 0, rcode: 0 }.write(&read, &asked, 512, &mut out),
        None
    );
    assert!(out.is_empty() && !refuse(&asked, &mut out));
    asked[2] &= 0x7f;
    asked.truncate(20);
    assert_eq!(Message::read(&asked), Err(Bad::Cut));
    assert!(refuse(&asked, &mut out));
    let read = Message::read(&out).unwrap();
    assert_eq!((out.len(), read.rcode, read.id, read.is_response), (12, 1, 0x1234, true));
    assert!(!refuse(&asked[..11], &mut Vec::new()));
    // an update, two questions
    let mut update = query("x.example", RecordType::A);
    update[2] = 5 << 3;
    assert_eq!(respond(&update, &[], 512).1, Some(4));
    let mut two = query("x.example", RecordType::A);
    let again = two[12..].to_vec();
    two[5] = 2;
    two.extend_from_slice(&again);
    let (bytes, rcode) = respond(&two, &[], 512);
    assert_eq!((rcode, bytes.len()), (Some(1), 12));
}

#[test]
fn pointers_that_lead_nowhere_are_refused() {
    let response = |owner: &[u8]| {
        let mut bytes = query("x.example", RecordType::Txt);
        (bytes[2], bytes[7]) = (0x80, 1);
        bytes.extend_from_slice(owner);
        bytes.extend_from_slice(&[0, 16, 0, 1, 0, 0, 0, 0, 0, 2, 1, b'y']);
        Message::read(&bytes).map(|read| read.answers)
    };
    assert_eq!(response(&[0xc0, 12]), Ok(1));
    assert_eq!(response(&[1, b'a', 0xc0, 14]), Ok(1));
    // itself, forwards, reserved kinds, past the end
    for owner in [&[0xc0, 27][..], &[0xc0, 29], &[0xff, 0xff], &[0x40, 1], &[0x80, 1]] {
        assert_eq!(response(owner), Err(Bad::Name), "{owner:?}");
    }
    // a chain of pointers that makes a name too long
    let mut bytes = query("x.example", RecordType::Txt);
    (bytes[2], bytes[7]) = (0x80, 1);
    bytes.extend_from_slice(&[63; 64]);
    assert!(Message::read(&bytes).is_err());
}

#[test]
fn records_have_the_length_of_their_type_and_nothing_follows_them() {
    let (whole, _) = respond(&query("x", RecordType::A), &answers(&["10.0.0.1"]), 512);
    let mut short = whole.clone();
    let at = short.len() - 5;
    short[at] = 3;
    short.pop();
    assert_eq!(Message::read(&short), Err(Bad::Data));
    let mut more = whole.clone();
    more.push(0);
    assert_eq!(Message::read(&more), Err(Bad::Trailing));
    for length in 0..whole.len() {
        assert!(Message::read(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn codes_have_the_names_of_the_registry() {
    assert_eq!(
        (rcode("nxdomain"), rcode_name(3), rcode("nothing"), rcode_name(99)),
        (Some(3), Some("NXDOMAIN"), None, None)
    );
    for (kind, text, number) in RecordType::ALL {
        assert_eq!((text.to_lowercase().parse(), kind.number()), (Ok(kind), number));
    }
    assert!("CNAM".parse::<RecordType>().is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_and_answered_within_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        longest in 12_usize..2000,
    ) {
        let all = answers(&["10.0.0.1", "2001:db8::1"]);
        let mut out = Vec::new();
        match Message::read(&bytes) {
            Ok(query) => {
                let longest = longest.max(bytes.len());
                let answer = Answer { addresses: &all, ttl: 1, rcode: 0 };
                if answer.write(&query, &bytes, longest, &mut out).is_some() {
                    prop_assert!(out.len() <= longest + 11);
                    prop_assert!(Message::read(&out).is_ok_and(|read| read.id == query.id && read.is_response));
                }
            }
            Err(_) => {
                refuse(&bytes, &mut out);
                prop_assert!(out.len() <= bytes.len());
            }
        }
    }

    /// Messages with a header that promises records, so that their readers come to work.
    #[test]
    fn any_records_are_walked(
        counts in prop::array::uniform4(0_u8..4),
        rest in prop::collection::vec(prop_oneof![Just(0xc0_u8), Just(12), Just(0), Just(41), any::<u8>()], 0..300),
    ) {
        let mut bytes = vec![0, 1, 0x81, 0x80];
        counts.iter().for_each(|count| bytes.extend_from_slice(&[0, *count]));
        bytes.extend_from_slice(&rest);
        let _ = Message::read(&bytes);
    }

    #[test]
    fn any_text_is_a_name_or_not(text in "[ -~]{0,300}") {
        if let Ok(name) = Name::of_text(&text) {
            prop_assert!(name.as_bytes().len() <= NAME_MAX);
            prop_assert_eq!(Name::of_text(&name.to_string()), Ok(name));
        }
    }
}
