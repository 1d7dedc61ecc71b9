//! By which address other hosts reach this one: what a receiver tells the person at the sender.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wirebeat_netlink::{InterfaceAddress, Netlink, Scope};

use crate::ports;

/// An address by which other hosts reach `interface`, or this host by any interface; `None` where there
/// is none, or nobody says. `namespace` is a name, or a path.
pub fn reachable_address(interface: Option<&str>, namespace: Option<&str>) -> Option<IpAddr> {
    let mut netlink = match ports::namespace(namespace, &BTreeMap::new()).ok()? {
        Some(namespace) => Netlink::open_in(&namespace).ok()?,
        None => Netlink::open().ok()?,
    };
    let link = match interface {
        Some(name) => Some(netlink.link_by_name(name).ok()?.index),
        None => None,
    };
    let addresses = netlink.addresses(link).ok()?;
    let mut reachable = addresses.iter().filter(|address| reaches_others(address));
    reachable.next().map(|address| address.address)
}

fn reaches_others(address: &InterfaceAddress) -> bool {
    address.usable && address.scope == Scope::Global
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_by_nobody_else() {
        assert_eq!(reachable_address(Some("lo"), None), None);
        assert_eq!(reachable_address(Some("no-such-interface"), None), None);
        assert_eq!(reachable_address(None, Some("/proc/self/stat")), None);
        assert!(reachable_address(None, None).is_none_or(|address| !address.is_loopback()));
    }
}
