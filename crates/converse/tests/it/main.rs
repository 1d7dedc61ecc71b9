//! Programs against peers that keep to nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod hostile;

use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that mostly make sense to the peer of `hostile`: what it does, to which connection.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let act = (any::<u8>(), 0_u8..40).prop_map(|(what, which)| vec![what, which]);
    let any = vec(any::<u8>(), 0..40);
    vec(prop_oneof![4 => act, 1 => any], 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn every_program_ends_whatever_its_peer_does(choice in 0..2 * hostile::PROGRAMS.len() as u8, script in script()) {
        hostile::run(&[&[choice], &script[..]].concat());
    }
}

/// What our server of HTTP says to these words of `hostile`.
fn served(words: &[u8]) -> String {
    let words = words.iter().flat_map(|word| [2 + 10 * word, 0]);
    // a connection comes, the words, and everything is read
    let script: Vec<u8> = [1, 0, 0].into_iter().chain(words).chain([6, 252]).collect();
    String::from_utf8_lossy(&hostile::run(&script)).into_owned()
}

/// It was answered like GET, and what follows in the tunnel was taken for requests.
#[test]
fn connect_is_refused_and_nothing_behind_it_is_answered() {
    let (get, connect) = (5, 8);
    let said = served(&[connect, get]);
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    let said = served(&[get, connect, get]);
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("HTTP/1.1 400 "), "{said}");
    assert_eq!(said.matches("HTTP/1.1 ").count(), 2, "{said}");
}
