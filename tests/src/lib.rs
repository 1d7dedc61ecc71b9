//! Tests of the workspace as a whole, in `tests/it`: no crate is the right place for them.
//!
//! `architecture.rs` and `sources.rs` hold what the crates may know of each other and of the system,
//! `licences.rs` what the dependencies' licences ask. This library is empty: a package needs one.
