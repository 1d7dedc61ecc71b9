//! What `build.rs` generates of the program: its object file, and its memory as types.

#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#![allow(clippy::expect_used, clippy::panic, unreachable_pub, dead_code, non_camel_case_types)]
#![allow(non_snake_case, rust_2018_idioms, unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/device.skel.rs"));
