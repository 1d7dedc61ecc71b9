//! The interface that a port is opened on.

use wirebeat_engine::port::PortError;
use wirebeat_netlink::{Link, LinkState, Netlink};

/// Finds `interface` in the calling thread's namespace, and makes sure that it is switched on.
pub(crate) fn find(engine: &'static str, interface: &str) -> Result<Link, PortError> {
    let missing = |missing: String| PortError::missing(engine, interface, missing);
    let mut netlink = Netlink::open().map_err(|error| missing(error.to_string()))?;
    let link = netlink.link_by_name(interface).map_err(|error| missing(error.to_string()))?;
    match link.state {
        LinkState::Up | LinkState::NoCarrier => Ok(link),
        LinkState::Down => Err(missing("the interface is switched off".to_owned())
            .with_hint(format!("switch it on with 'ip link set {interface} up'"))),
    }
}
