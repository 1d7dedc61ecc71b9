//! Streams of any bytes, and of messages that are nearly right: no split changes what they mean, nothing panics, and no
//! more than a head is held.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Parts of messages, right and wrong, that are strung together.
const PARTS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 404 Not Found\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.7 304\n",
    "HTTP/2.0 200 OK\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n",
    "POST /b HTTP/1.1\r\nhost: [::1]:80\r\n",
    "PUT http://a/ HTTP/1.0\n",
    "Content-Length: 3\r\n",
    "Content-Length: 0\r\n",
    "Content-Length : 4\n",
    "Content-Length: 70000\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "X: y\r\n",
    " folded\r\n",
    "\r\n",
    "\n",
    "\r",
    "abc",
    "3\r\nabc\r\n",
    "1;x=\"y\"\r\nz\r\n",
    "0\r\n\r\n",
    "0\r\nT: u\r\n\r\n",
    "\0",
    ":",
    " ",
];

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        12 => select(PARTS).prop_map(|part| part.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
        1 => (0_usize..3).prop_map(|size| vec![b'x'; size * 40_000]),
    ];
    proptest::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

/// Pieces that end after these lengths, again and again.
pub(super) fn pieces<'b>(bytes: &'b [u8], lens: &'b [usize]) -> impl Iterator<Item = &'b [u8]> {
    let mut lens = lens.iter().copied().cycle();
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = lens.next().unwrap_or(1).min(rest.len());
        let (piece, behind) = rest.split_at(len);
        rest = behind;
        Some(piece)
    })
}

fn check(bytes: &[u8], lens: &[usize], kinds: &[RequestKind]) -> Result<(), TestCaseError> {
    let whole = responses_in(kinds, [bytes].into_iter());
    prop_assert_eq!(&whole, &responses_in(kinds, pieces(bytes, lens)));
    let read: u64 = whole
        .iter()
        .map(|seen| match seen {
            Seen::Interim { message_len, .. } => *message_len,
            Seen::End(end) | Seen::Finished(Ok(Some(end))) => end.message_len,
            Seen::Left(len) => *len as u64,
            _ => 0,
        })
        .sum();
    if bad(&whole).is_none() {
        prop_assert_eq!(read, bytes.len() as u64, "the lengths add up: {:?}", whole);
    }
    let limits = Limits { body: 60_000, ..Limits::default() };
    let whole = requests_in(&limits, [bytes].into_iter());
    prop_assert_eq!(&whole, &requests_in(&limits, pieces(bytes, lens)));
    Ok(())
}

fn kinds() -> impl Strategy<Value = Vec<RequestKind>> {
    let kind = select(&[
        RequestKind::Other,
        RequestKind::Other,
        RequestKind::Other,
        RequestKind::Head,
        RequestKind::Connect,
    ]);
    proptest::collection::vec(kind, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_split_changes_what_messages_mean(
        bytes in stream(),
        lens in proptest::collection::vec(1_usize..2000, 1..6),
        kinds in kinds(),
    ) {
        check(&bytes, &lens, &kinds)?;
    }

    #[test]
    fn no_split_changes_what_short_messages_mean(
        bytes in stream(),
        lens in proptest::collection::vec(1_usize..9, 1..6),
        kinds in kinds(),
    ) {
        check(&bytes, &lens, &kinds)?;
    }

    #[test]
    fn any_bytes_are_survived(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        lens in proptest::collection::vec(1_usize..50, 1..4),
        kinds in kinds(),
    ) {
        check(&bytes, &lens, &kinds)?;
    }

    /// A response that is right but for one byte.
    #[test]
    fn one_byte_of_a_message_is_changed(
        at in 0_usize..1000,
        byte in any::<u8>(),
        lens in proptest::collection::vec(1_usize..50, 1..4),
        request in any::<bool>(),
    ) {
        let first: &[u8] = if request {
            b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n"
        };
        let mut bytes = [first, b"5\r\nhello\r\n0\r\nT: u\r\n\r\n"].concat().repeat(2);
        let at = at % bytes.len();
        bytes[at] = byte;
        check(&bytes, &lens, &[RequestKind::Other; 2])?;
    }
}
