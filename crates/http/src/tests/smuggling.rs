//! Requests that two recipients could read differently (RFC 9112 §11.2), in one table: what makes each dangerous, and the status
//! that it is refused with.

use super::*;

const TABLE: &[(&str, &str, u16)] = &[
    ("both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    ("both lengths, the other way", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    ("both, with an invalid length", "Transfer-Encoding: chunked\r\nContent-Length: x\r\n", 400),
    ("both, with an unknown coding", "Transfer-Encoding: x\r\nContent-Length: 5\r\n", 400),
    ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", 400),
    ("two lengths in one field", "Content-Length: 5, 6\r\n", 400),
    ("a length of nothing", "Content-Length: \r\n", 400),
    ("a signed length", "Content-Length: +5\r\n", 400),
    ("a negative length", "Content-Length: -1\r\n", 400),
    ("a hexadecimal length", "Content-Length: 0x5\r\n", 400),
    ("a length with an underscore", "Content-Length: 1_0\r\n", 400),
    ("a length with a space in it", "Content-Length: 1 0\r\n", 400),
    ("a length in quotes", "Content-Length: \"5\"\r\n", 400),
    ("a length beyond 64 bits", "Content-Length: 18446744073709551621\r\n", 413),
    ("a space before the colon", "Content-Length : 5\r\n", 400),
    ("a tab before the colon", "Transfer-Encoding\t: chunked\r\n", 400),
    ("a space before the name", " Content-Length: 5\r\n", 400),
    ("a folded field", "X: y\r\n Content-Length: 5\r\n", 400),
    ("a folded coding", "Transfer-Encoding:\r\n chunked\r\n", 400),
    ("a line without a colon", "Content-Length 5\r\n", 400),
    ("an empty name", ": 5\r\n", 400),
    ("a vertical tab in a coding", "Transfer-Encoding: \x0bchunked\r\n", 400),
    ("NUL in a name", "Content-\0Length: 5\r\n", 400),
    ("NUL in a coding", "Transfer-Encoding: chunked\0\r\n", 400),
    ("CR in a value", "X: y\rContent-Length: 5\r\n", 400),
    ("CR before the line end", "X: y\r\r\n", 400),
    ("CR before a name", "\rContent-Length: 5\r\n", 400),
    ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", 400),
    (
        "chunked twice in two fields",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        400,
    ),
    ("chunked twice with one between", "Transfer-Encoding: chunked, x, chunked\r\n", 400),
    ("chunked is not the last", "Transfer-Encoding: chunked, identity\r\n", 400),
    (
        "chunked is not the last, in two fields",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        400,
    ),
    ("no coding", "Transfer-Encoding:\r\n", 400),
    ("an almost chunked coding", "Transfer-Encoding: xchunked\r\n", 400),
    ("chunked in quotes", "Transfer-Encoding: \"chunked\"\r\n", 400),
    ("chunked with a parameter", "Transfer-Encoding: chunked;q=1\r\n", 400),
    ("chunked and a semicolon", "Transfer-Encoding: chunked;\r\n", 400),
    ("chunked with a no-break space", "Transfer-Encoding: \u{a0}chunked\r\n", 400),
    ("identity", "Transfer-Encoding: identity\r\n", 400),
    ("another coding alone", "Transfer-Encoding: gzip\r\n", 400),
    ("another coding before chunked", "Transfer-Encoding: gzip, chunked\r\n", 501),
    ("identity before chunked", "Transfer-Encoding: identity, chunked\r\n", 501),
    ("two Hosts", "Host: b\r\n", 400),
    ("two Hosts that are equal", "Host: a\r\n", 400),
];

#[test]
fn requests_that_can_be_read_in_two_ways_are_refused() {
    for (name, fields, status) in TABLE {
        let bytes = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
        );
        let seen = requests(bytes.as_bytes());
        assert!(matches!(seen[0], Seen::Bad(_)), "{name}: nothing of it is handed up: {seen:?}");
        assert_eq!(bad(&seen).map(Bad::status), Some(*status), "{name}: {seen:?}");
    }
}

#[test]
fn http_1_0_has_no_transfer_encoding() {
    let bytes = b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(bad(&requests(bytes)), Some(Bad::TransferEncodingVersion));
}

#[test]
fn other_fields_of_similar_names_say_nothing() {
    let fields = "Content-Length_: 5\r\nContent_Length: 6\r\nX-Transfer-Encoding: chunked\r\nTransfer_Encoding: chunked\r\n";
    let seen = requests(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    assert_eq!(request_head(&seen).framing, crate::Framing::None);
}

/// A status that is not in the list of RFC 9110 §15 and RFC 6585 would be one that we invented.
#[test]
fn every_reason_has_a_text_and_a_known_status() {
    for &bad in Bad::ALL {
        assert!(!bad.text().is_empty() && bad.to_string() == bad.text());
        assert!(bad.status() == 0 || !crate::reason_phrase(bad.status()).is_empty(), "{bad:?}");
    }
}
