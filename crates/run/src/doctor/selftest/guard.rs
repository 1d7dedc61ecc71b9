//! Which interfaces a self-test leaves alone: those that carry the host's own traffic, which frames at full rate would push aside
//! and which a program that is attached may cut off for seconds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_host::tcp;
use wirebeat_netlink::{Link, Netlink};
use wirebeat_units::human::counted;
use wirebeat_units::{Fault, fault};

use crate::error::RunError;
use crate::ports::ResolvedPort;

/// Addresses that only a default route leads to: of networks for documentation (RFC 5737, RFC 3849).
const ELSEWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// Refuses an interface that the host uses.
///
/// # Errors
/// What it is used for.
pub(super) fn check(port: &ResolvedPort, link: &Link) -> Result<(), RunError> {
    let mut netlink = port.netlink()?;
    let used = match link.controller {
        Some(_) => Some("belongs to a bridge or a bond".to_owned()),
        None => match carries_default(&mut netlink, link) {
            true => Some("carries a default route of this host".to_owned()),
            false => {
                let connections = connections(port, &mut netlink, link)?;
                (connections > 0)
                    .then(|| format!("carries {} of this host", counted(connections, "connection")))
            }
        },
    };
    match used {
        Some(used) => Err(RunError::usage(refusal(&link.name, &used))),
        None => Ok(()),
    }
}

fn refusal(name: &str, used: &str) -> Fault {
    fault!(
        "{name} {used}, and a self-test sends as fast as it can and may reset the link";
        "choose an interface that only tests use, or add --force"
    )
}

/// Whether a default route of the host leads over the link.
fn carries_default(netlink: &mut Netlink, link: &Link) -> bool {
    let own = netlink.addresses(Some(link.index)).unwrap_or_default();
    ELSEWHERE.into_iter().filter(|to| !own.iter().any(|own| own.covers(*to))).any(|to| {
        let taken = netlink.route_to(to, None).is_ok_and(|route| route.link == link.index);
        // one that another route is preferred to
        let by_router = netlink.route_to(to, Some(link.index));
        taken || by_router.is_ok_and(|route| route.gateway.is_some())
    })
}

/// How many TCP connections come from addresses of the link.
fn connections(port: &ResolvedPort, netlink: &mut Netlink, link: &Link) -> Result<u64, RunError> {
    let own = netlink.addresses(Some(link.index)).unwrap_or_default();
    let established = port.enter(tcp::established)?;
    let mine = |local: &&IpAddr| own.iter().any(|own| own.address == **local);
    Ok(established.iter().filter(mine).count() as u64)
}
