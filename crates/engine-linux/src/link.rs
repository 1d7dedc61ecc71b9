//! The interface that a port is opened on.

use wirebeat_engine::port::PortError;
use wirebeat_netlink::{Link, LinkState, Netlink};
use wirebeat_units::{Fault, fault};

/// Makes sure that `interface`, of the calling thread's namespace, is there and switched on.
///
/// # Errors
/// What is missing for `engine`, and what would help.
pub fn switched_on(engine: &'static str, interface: &str) -> Result<(), PortError> {
    find(engine, interface).map(drop)
}

/// Finds `interface` in the calling thread's namespace, and makes sure that it is switched on.
pub(crate) fn find(engine: &'static str, interface: &str) -> Result<Link, PortError> {
    let missing = |missing: Fault| PortError::missing(engine, interface, missing);
    let mut netlink = Netlink::open().map_err(|error| missing(error.into()))?;
    let link = netlink.link_by_name(interface).map_err(|error| missing(error.into()))?;
    match link.state {
        LinkState::Up | LinkState::NoCarrier => Ok(link),
        LinkState::Down => Err(missing(fault!(
            "the interface is switched off"; "switch it on with 'ip link set {interface} up'"
        ))),
    }
}
