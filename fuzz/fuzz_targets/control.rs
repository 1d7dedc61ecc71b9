//! Bytes that the ends of a control connection may be sent.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wirebeat_run::remote::feed(bytes));
