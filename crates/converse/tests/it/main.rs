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
