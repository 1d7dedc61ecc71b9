//! Generic netlink: families that are found by name (`ethtool`, `netdev`).

use netlink_packet_core::{DefaultNla, NetlinkSerializable};
use netlink_sys::protocols::NETLINK_GENERIC;
use rustix::io::Errno;

use crate::attributes;
use crate::channel::{Channel, NetlinkError};

/// `GENL_ID_CTRL`: the family that knows the others (`linux/genetlink.h`).
const CONTROLLER: Family = Family { id: 0x10, version: 2 };
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Bytes of `struct genlmsghdr`: command, version, two reserved.
const HEADER_LEN: usize = 4;

/// A family as this kernel numbers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    id: u16,
    version: u8,
}

/// A command with its attributes.
#[derive(Clone)]
struct Request {
    family: Family,
    command: u8,
    attributes: Vec<u8>,
}

impl NetlinkSerializable for Request {
    fn message_type(&self) -> u16 {
        self.family.id
    }
    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.attributes.len()
    }
    fn serialize(&self, buffer: &mut [u8]) {
        buffer[..HEADER_LEN].copy_from_slice(&[self.command, self.family.version, 0, 0]);
        buffer[HEADER_LEN..].copy_from_slice(&self.attributes);
    }
}

/// A socket for generic netlink and the families that are used here, where this kernel has them.
#[derive(Debug)]
pub(crate) struct Generic {
    channel: Channel,
    pub(crate) ethtool: Option<Family>,
    pub(crate) netdev: Option<Family>,
}

impl Generic {
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        let channel = Channel::open(NETLINK_GENERIC)?;
        let mut generic = Generic { channel, ethtool: None, netdev: None };
        generic.ethtool = generic.family("ethtool")?;
        generic.netdev = generic.family("netdev")?;
        Ok(generic)
    }

    /// Asks for the number of a family; `None` where this kernel does not have it.
    fn family(&mut self, name: &'static str) -> Result<Option<Family>, NetlinkError> {
        let attempt = format!("find the generic netlink family '{name}'");
        let ask = [attributes::string(CTRL_ATTR_FAMILY_NAME, name)];
        match self.command(&attempt, CONTROLLER, CTRL_CMD_GETFAMILY, &ask) {
            Ok(replies) => Ok(replies
                .iter()
                .find_map(|reply| attributes::find(reply, CTRL_ATTR_FAMILY_ID))
                .and_then(|value| value.first_chunk().map(|b| u16::from_ne_bytes(*b)))
                .map(|id| Family { id, version: 1 })),
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a command and returns the attributes of each reply.
    pub(crate) fn command(
        &mut self,
        attempt: &str,
        family: Family,
        command: u8,
        attributes: &[DefaultNla],
    ) -> Result<Vec<Vec<u8>>, NetlinkError> {
        self.ask(attempt, family, command, 0, attributes)
    }

    /// The same with flags of netlink.
    pub(crate) fn ask(
        &mut self,
        attempt: &str,
        family: Family,
        command: u8,
        flags: u16,
        attributes: &[DefaultNla],
    ) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let request = Request { family, command, attributes: attributes::emit(attributes) };
        let replies = self.channel.request(attempt, &request, flags)?;
        Ok(replies
            .into_iter()
            .filter(|reply| reply.kind == family.id)
            .filter_map(|reply| reply.payload.get(HEADER_LEN..).map(<[u8]>::to_vec))
            .collect())
    }
}
