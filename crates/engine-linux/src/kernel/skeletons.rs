//! The skeletons that `build.rs` generates from the programs in `bpf/`: object files, and the types of
//! their maps read back from BTF, so that both sides share one layout; and the constants of `bpf/wirebeat.h`.

#![allow(
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
#![allow(unreachable_pub, dead_code, non_camel_case_types, non_snake_case, rust_2018_idioms)]

pub(crate) mod transmit {
    include!(concat!(env!("OUT_DIR"), "/transmit.skel.rs"));
}
pub(crate) mod receive {
    include!(concat!(env!("OUT_DIR"), "/receive.skel.rs"));
}
pub(crate) mod accepted {
    include!(concat!(env!("OUT_DIR"), "/accepted.skel.rs"));
}
pub(crate) mod bare {
    include!(concat!(env!("OUT_DIR"), "/bare.skel.rs"));
}
pub(crate) mod steer {
    include!(concat!(env!("OUT_DIR"), "/steer.skel.rs"));
}
pub(crate) mod steer_metadata {
    include!(concat!(env!("OUT_DIR"), "/steer_metadata.skel.rs"));
}
pub(crate) mod station {
    include!(concat!(env!("OUT_DIR"), "/station.skel.rs"));
}
pub(crate) mod constants {
    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}
