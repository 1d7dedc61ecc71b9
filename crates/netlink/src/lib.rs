//! Links, addresses, routes, neighbours and namespaces over netlink.
//!
//! [`Netlink`] is a handle on one network namespace; the files add what can be asked of it. Start
//! with [`Netlink::resolve`], which turns a destination into the interface and the addresses that
//! a frame needs. Everything is synchronous: a request goes out, its answer comes back. No
//! programs are started and no runtime is needed. This crate knows nothing of engines or flows,
//! and changes nothing unless one of the methods of `change.rs` is called.

mod address;
mod attributes;
mod change;
mod channel;
mod ethtool;
mod generic;
mod kernel;
mod link;
mod namespace;
mod neighbour;
mod pause;
mod queue_stats;
mod resolve;
mod route;
mod timestamping;
mod watch;
mod xdp;

use netlink_sys::protocols::NETLINK_ROUTE;

use channel::Channel;
use generic::Generic;

pub use address::{AddressError, InterfaceAddress, Scope};
pub use change::NewLink;
pub use channel::NetlinkError;
pub use ethtool::{Channels, Coalescing, EthtoolError, Feature, Rings};
pub use kernel::{REQUEST_NAME, kernel_version, request_name};
pub use link::{Link, LinkError, LinkIndex, LinkLayer, LinkState, LinkStats, Peer};
pub use namespace::{Namespace, NamespaceError};
pub use neighbour::NeighbourError;
pub use pause::Pause;
pub use queue_stats::QueueStats;
pub use resolve::{ResolveError, ResolveOptions, Resolved};
pub use route::{Route, RouteError, RouteKind};
pub use timestamping::{ReceiveStamps, Timestamping};
pub use watch::{LinkEvent, LinkWatch};
pub use wirebeat_wire::mac::MacAddr;
pub use xdp::{XdpAttachment, XdpFeatures, XdpMode, XdpOffer};

/// A handle on the links, addresses, routes and neighbours of one network namespace.
///
/// It stays with the namespace in which it was opened, whichever thread uses it later.
#[derive(Debug)]
pub struct Netlink {
    route: Channel,
    generic: Option<Generic>,
}

impl Netlink {
    /// Opens a handle on the network namespace of the calling thread. Needs no privilege.
    pub fn open() -> Result<Self, NetlinkError> {
        // Some sandboxes have no generic netlink; then drivers' settings are unknown.
        let generic = Generic::open().ok();
        Ok(Netlink { route: Channel::open(NETLINK_ROUTE)?, generic })
    }

    /// Opens a handle on `namespace`. Entering it needs CAP_SYS_ADMIN.
    pub fn open_in(namespace: &Namespace) -> Result<Self, NamespaceError> {
        Ok(namespace.run(Netlink::open)??)
    }
}

/// Property tests that try the same cases every time.
#[cfg(test)]
fn fixed_seed() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        failure_persistence: None,
        ..Default::default()
    }
}
