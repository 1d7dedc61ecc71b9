//! The kernel engine: eBPF programs send and meter before the stack.
//!
//! [`KernelTx`] lays frames and launch times into a ring that a program in the kernel walks
//! (`bpf/transmit.bpf.c`), run with live frames by a thread of its own on each transmit core.
//! [`KernelReceiver`] attaches a program that meters what arrives (`bpf/receive.bpf.c`). Needs Linux
//! 5.18, CAP_BPF and CAP_NET_ADMIN, and a driver that takes redirected frames. Read `bpf/wirebeat.h`
//! first: it is the contract between both sides.

mod abi;
mod accepted;
pub(crate) mod attachment;
mod bare_limit;
mod books;
mod clock;
pub(crate) mod configure;
mod convert;
mod dispatcher;
pub(crate) mod known_headers;
pub(crate) mod load;
mod mapped;
mod observations;
mod obstacles;
mod plan;
mod port;
mod probe;
mod pump;
mod receive;
mod ring;
mod round;
mod shared;
pub(crate) mod skeletons;
mod test_run;
pub(crate) mod verifier;
mod warm_up;

pub use accepted::{Accepted, Answers};
pub(crate) use attachment::SEVERAL_BUFFERS;
pub use attachment::{Attachment, XdpBuffers, XdpPlace};
pub use bare_limit::{BareRing, FarEnd, Flood, Sink, Told, bare_ring, flood, sink};
pub use load::SharedSequences;
pub use observations::{DepartureObservation, ObservationOptions, Observations};
pub use plan::{MEMORY_MAX, MEMORY_USUAL};
pub use port::{EXTERNAL_MIN, FRAME_MAX, KernelOptions, KernelTx};
pub use probe::probe;
pub use receive::{Fate, KernelReceiver, ReceiveOptions};
pub use shared::{Piece, SHARED_MAX, Shared};
pub use verifier::log as verifier_log;
