//! Client ports, where the scenario leaves them to us.

use std::collections::HashMap;
use std::net::IpAddr;

/// The ports that clients come from: all that need no privilege. Nobody else has them, since the address is ours alone.
pub(crate) const PORTS: std::ops::RangeInclusive<u16> = FIRST_CLIENT_PORT..=u16::MAX;
/// The first of them.
pub const FIRST_CLIENT_PORT: u16 = 1024;
/// How many these are.
pub const CLIENT_PORTS: u64 = (u16::MAX - FIRST_CLIENT_PORT) as u64 + 1;
/// How many ports are tried before a session is given up: those of a destination are taken in turn, and the one after is seldom in use.
pub(crate) const TRIES: u32 = 256;
/// Addresses whose next port is remembered; beyond it one turn is shared by all.
const REMEMBERED: usize = 1 << 16;

/// The next port of each address.
#[derive(Debug, Default)]
pub(crate) struct ClientPorts {
    next: HashMap<IpAddr, u16>,
    shared: u16,
}

impl ClientPorts {
    /// The port to try next from `address`.
    pub(crate) fn next(&mut self, address: IpAddr) -> u16 {
        let full = self.next.len() >= REMEMBERED;
        let turn = match self.next.get_mut(&address) {
            Some(turn) => turn,
            None if full => &mut self.shared,
            None => self.next.entry(address).or_insert(0),
        };
        let port = (*turn).max(*PORTS.start());
        *turn = port.checked_add(1).unwrap_or(*PORTS.start());
        port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_in_turn_for_each_address() {
        let mut ports = ClientPorts::default();
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert_eq!([ports.next(a), ports.next(a), ports.next(b)], [1024, 1025, 1024]);
        let all: Vec<u16> = (0..64_512).map(|_| ports.next(b)).collect();
        assert_eq!((all[0], all[64_510], all[64_511]), (1025, 65_535, 1024));
    }
}
