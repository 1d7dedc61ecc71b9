//! The link-layer address of a station on the link.
//!
//! The kernel's table is asked first; where it has no answer the kernel is asked to find one, by
//! ARP (RFC 826) or neighbour discovery (RFC 4861 §7.2). No user data is sent for it.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, ParseableParametrized};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourHeader, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use crate::{LinkIndex, MacAddr, Netlink, NetlinkError, attributes};

const RTM_NEWNEIGH: u16 = 28;
/// Bytes of `struct ndmsg`.
const HEADER_LEN: usize = 12;
/// How often the table is looked at while the kernel asks; an answer on a local link takes less.
const POLL: Duration = Duration::from_millis(2);

/// Why a neighbour's address was not found.
#[derive(Debug, thiserror::Error)]
pub enum NeighbourError {
    /// It did not answer.
    #[error("no neighbour answered for {address} on interface {link} within {} s", waited.as_secs_f64())]
    NoAnswer {
        /// Whom we asked for.
        address: IpAddr,
        /// On which interface.
        link: LinkIndex,
        /// How long we waited.
        waited: Duration,
    },
    /// Making the kernel ask takes a privilege.
    #[error(
        "the address of {address} is not in the neighbour table, and asking for it needs CAP_NET_ADMIN \
         (run as root, or ping {address} once)"
    )]
    NotPermitted {
        /// Whom we asked for.
        address: IpAddr,
    },
    /// Netlink failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// What the table says.
enum Entry {
    Known(MacAddr),
    /// Being asked for at this moment.
    Pending,
    /// Asked for, without answer.
    Failed,
    Absent,
}

impl Netlink {
    /// The link-layer address of `address` on `link`, waiting at most `timeout` for the neighbour.
    ///
    /// Group addresses are not neighbours: see [`MacAddr::of_group`].
    pub fn neighbour(
        &mut self,
        address: IpAddr,
        link: LinkIndex,
        timeout: Duration,
    ) -> Result<MacAddr, NeighbourError> {
        if let Entry::Known(mac) = self.look_up(address, link)? {
            return Ok(mac);
        }
        let begun = Instant::now();
        self.solicit(address, link)?;
        loop {
            match self.look_up(address, link)? {
                Entry::Known(mac) => return Ok(mac),
                // The kernel gives up sooner than we do (3 requests, 1 s apart): ask once more.
                Entry::Failed | Entry::Absent if begun.elapsed() < timeout => {
                    self.solicit(address, link)?;
                }
                _ => {}
            }
            if begun.elapsed() >= timeout {
                return Err(NeighbourError::NoAnswer { address, link, waited: timeout });
            }
            thread::sleep(POLL);
        }
    }

    /// Looks in the table.
    fn look_up(&mut self, address: IpAddr, link: LinkIndex) -> Result<Entry, NeighbourError> {
        let attempt = format!("look up the neighbour {address}");
        let ask = RouteNetlinkMessage::GetNeighbour(message(address, link));
        match self.route.request(&attempt, &ask, 0) {
            Ok(replies) => Ok(replies
                .iter()
                .find(|reply| reply.kind == RTM_NEWNEIGH)
                .and_then(|reply| parse(&reply.payload))
                .unwrap_or(Entry::Absent)),
            Err(e) if e.errno() == Some(Errno::NOENT) => Ok(Entry::Absent),
            Err(e) => Err(e.into()),
        }
    }

    /// Has the kernel ask for the neighbour as it would before sending to it.
    fn solicit(&mut self, address: IpAddr, link: LinkIndex) -> Result<(), NeighbourError> {
        let mut message = message(address, link);
        message.header.flags = NeighbourFlags::Use;
        let attempt = format!("have the kernel ask for the neighbour {address}");
        let ask = RouteNetlinkMessage::NewNeighbour(message);
        match self.route.request(&attempt, &ask, NLM_F_CREATE) {
            Ok(_) => Ok(()),
            Err(e) if e.errno() == Some(Errno::PERM) => {
                Err(NeighbourError::NotPermitted { address })
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// A message about one entry of the table.
pub(crate) fn message(address: IpAddr, link: LinkIndex) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.header.ifindex = link.get();
    message.attributes.push(NeighbourAttribute::Destination(address.into()));
    message
}

fn parse(payload: &[u8]) -> Option<Entry> {
    let header = NeighbourHeader::parse(payload).ok()?;
    match header.state {
        NeighbourState::Incomplete => return Some(Entry::Pending),
        NeighbourState::Failed => return Some(Entry::Failed),
        NeighbourState::None => return Some(Entry::Absent),
        _ => {}
    }
    let mac = attributes::iter(payload.get(HEADER_LEN..)?).find_map(|attribute| {
        match NeighbourAttribute::parse_with_param(&attribute, header.family) {
            Ok(NeighbourAttribute::LinkLayerAddress(bytes)) => bytes.try_into().ok(),
            _ => None,
        }
    });
    Some(mac.map_or(Entry::Absent, |octets| Entry::Known(MacAddr(octets))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::fixed_seed())]
        #[test]
        fn any_message_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
