//! Client ports: those that the scenario leaves to us, and which of its pool a core takes.
//!
//! Where several cores have the sessions of a port, each takes only ports whose answers come back to it
//! (`wirebeat_engine::steering`): no two cores take the same, and together they take all.

use std::collections::HashMap;
use std::net::IpAddr;

use wirebeat_engine::steering::{Shard, is_of};
use wirebeat_traffic::values::session::PortPool;

/// The first of the ports that clients come from: all that need no privilege. Nobody else has them, since the address is ours alone.
pub const FIRST_CLIENT_PORT: u16 = 1024;
/// How many these are.
pub const CLIENT_PORTS: u64 = (u16::MAX - FIRST_CLIENT_PORT) as u64 + 1;
/// How many ports are tried before a session is given up: those of a destination are taken in turn, and the one after is seldom in use.
const TRIES: u32 = 256;
/// Addresses whose next port is remembered; beyond it one turn is shared by all.
const REMEMBERED: usize = 1 << 16;

/// The next port of each address.
#[derive(Debug)]
pub(crate) struct ClientPorts {
    /// By the group whose pool it is, where it has one, and the address: the place of the next port.
    next: HashMap<(Option<u16>, IpAddr), u64>,
    shared: u64,
    core: Shard,
    /// The ports of the clients of each group, where they are given.
    pools: Vec<Option<PortPool>>,
}

impl ClientPorts {
    /// For the clients of this core, whose groups have these ports.
    pub(crate) fn of(core: Shard, pools: Vec<Option<PortPool>>) -> ClientPorts {
        ClientPorts { next: HashMap::new(), shared: 0, core, pools }
    }

    /// How many ports are tried for a session that is to come from `port`; 0: from any.
    pub(crate) fn tries(&self, port: u16) -> u32 {
        if port == 0 || self.core.cores > 1 { TRIES } else { 1 }
    }

    /// The port to try next for a session of `group` that is to come from `port` of `address` (0: from any), to the port `remote`.
    /// On one of several cores it is another one of the group's pool, in turn. `None`: no port is of this core.
    pub(crate) fn next(
        &mut self,
        group: u16,
        (address, port): (IpAddr, u16),
        remote: u16,
    ) -> Option<u16> {
        if port != 0 && self.core.cores <= 1 {
            return Some(port);
        }
        let pool = self.pools.get(usize::from(group)).and_then(Option::as_ref);
        let pool = pool.filter(|_| port != 0);
        let full = self.next.len() >= REMEMBERED;
        let key = (pool.map(|_| group), address);
        let turn = match self.next.get_mut(&key) {
            Some(turn) => turn,
            None if full => &mut self.shared,
            None => self.next.entry(key).or_insert(0),
        };
        let len = pool.map_or(CLIENT_PORTS, PortPool::len);
        let get = |place: u64| match pool {
            Some(pool) => pool.get(place),
            None => FIRST_CLIENT_PORT + (place % CLIENT_PORTS) as u16,
        };
        // of consecutive ports the next of a core is fewer than twice as many away as there are cores
        let mut places = (0..len).map(|on| turn.wrapping_add(on) % len);
        let place = places.find(|&place| is_of([get(place), remote], self.core))?;
        *turn = place + 1;
        Some(get(place))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wirebeat_engine::steering::core_of;

    use super::*;

    #[test]
    fn ports_come_in_turn_for_each_address() {
        let mut ports = ClientPorts::of(Shard::WHOLE, vec![None]);
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut next = |address| ports.next(0, (address, 0), 80).unwrap();
        assert_eq!([next(a), next(a), next(b)], [1024, 1025, 1024]);
        let all: Vec<u16> = (0..64_512).map(|_| next(b)).collect();
        assert_eq!((all[0], all[64_510], all[64_511]), (1025, 65_535, 1024));
    }

    /// What the cores take of an address: the ports of each, until the first comes again.
    fn taken(cores: u32, port: u16, pool: Option<PortPool>) -> Vec<Vec<u16>> {
        let address: IpAddr = [10, 0, 0, 1].into();
        let of = |core| {
            let mut ports = ClientPorts::of(Shard { core, cores }, vec![None, pool.clone()]);
            let mut next = || ports.next(1, (address, port), 443).unwrap();
            let first = next();
            let more = std::iter::repeat_with(next).take_while(|port| *port != first);
            let all: Vec<u16> = [first].into_iter().chain(more).collect();
            assert!(all.iter().all(|port| core_of([*port, 443], cores) == core));
            all
        };
        (0..cores).map(of).collect()
    }

    #[test]
    fn cores_share_all_ports_and_each_takes_those_that_come_back_to_it() {
        for cores in [2, 3, 8] {
            let all: Vec<u16> = taken(cores, 0, None).concat();
            assert_eq!(all.len() as u64, CLIENT_PORTS, "each is of one core");
            assert_eq!(BTreeSet::from_iter(&all).len() as u64, CLIENT_PORTS);
        }
    }

    #[test]
    fn cores_share_the_ports_of_a_pool() {
        let pool = PortPool(["5000-5999", "7000"].map(|part| part.parse().unwrap()).to_vec());
        for cores in [2, 3] {
            let of_cores = taken(cores, 5000, Some(pool.clone()));
            assert!(of_cores.iter().all(|ports| ports.len() > 300), "{of_cores:?}");
            let all: BTreeSet<u16> = of_cores.concat().into_iter().collect();
            assert_eq!((all.len(), of_cores.concat().len()), (1001, 1001));
            assert!(all.iter().all(|port| pool.contains(*port)));
        }
    }

    #[test]
    fn a_port_that_is_given_is_the_one_that_is_taken_on_one_core() {
        let mut ports = ClientPorts::of(Shard::WHOLE, vec![Some(5000.into())]);
        let address: IpAddr = [10, 0, 0, 1].into();
        assert_eq!(ports.next(0, (address, 5000), 80), Some(5000));
        assert_eq!((ports.tries(5000), ports.tries(0)), (1, TRIES));
        let of_other = 1 - core_of([5000, 80], 2);
        let mut ports =
            ClientPorts::of(Shard { core: of_other, cores: 2 }, vec![Some(5000.into())]);
        assert_eq!(ports.next(0, (address, 5000), 80), None, "it is of the other core");
    }
}
