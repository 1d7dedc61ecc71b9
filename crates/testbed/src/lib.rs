//! Namespaces and virtual cables for tests, the benchmark and the demo.
//!
//! [`Testbed::pair`] lays a veth cable between two network namespaces; [`Testbed::router`] and
//! [`Testbed::bridge`] put a device under test in between, a [`Tunnel`] has no Ethernet, and
//! an [`ImpairedCable`] loses and delays frames. The namespaces have no names and no
//! files: they are held by file descriptors of this process alone, so that the kernel removes them,
//! cables and all, however the process ends. Where the environment names two real cards
//! (`WIREBEAT_TEST_CARDS`), a pair is of these. [`Program`] runs other programs inside a namespace,
//! [`require!`] lets a test say what it needs, and [`userns`] makes all of it work without root.
//! Knows nothing of engines or traffic.

mod card_clock;
mod cards;
mod impaired;
mod namespaces;
mod options;
mod process;
mod require;
mod steering;
mod testbed;
mod tunnel;
pub mod userns;

pub use card_clock::{Unlatched, disturb_card_clock};
pub use cards::{has_cards, is_emulated, monitor};
pub use impaired::{Carried, ImpairedCable, Impairment};
pub use options::{Addressing, Neighbours, Offload, Offloads, Options};
pub use process::{Output, Process, ProcessError, Program};
pub use require::{Capability, Skip, report_skip, require};
pub use testbed::{End, Testbed, TestbedError};
pub use tunnel::Tunnel;
