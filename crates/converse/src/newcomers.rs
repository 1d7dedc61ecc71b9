//! Peers that servers over UDP have by what they say of themselves: anybody can write any source address.
//!
//! There may be so many at a time. Of those that said one thing alone the earliest makes room for the next, so that whoever sends from
//! invented addresses does not lock out the others; who said more stays.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::stack::SessionKey;

/// The most peers of all servers of a stack, whatever addresses they say that they have.
pub const PEERS_MAX: usize = 1 << 16;
/// Ports below this one belong to services (RFC 6335 §6).
const SYSTEM_PORTS: u16 = 1024;

/// Whether who sends from there may be a server that answers an answer: one at a port of services, or at the same port as here. Two
/// servers that answer each other's answers never end.
pub fn may_be_server(remote: SocketAddr, local_port: u16) -> bool {
    remote.port() < SYSTEM_PORTS || remote.port() == local_port
}

/// Sessions of peers, from the earliest on, by their numbers in the stack. Those that have ended may be among them.
#[derive(Debug, Default)]
pub struct Newcomers(VecDeque<(u32, SessionKey)>);

impl Newcomers {
    /// Notes one that has just begun. `said_one_thing` says whether a session is there and its peer said no more.
    pub fn add(
        &mut self,
        number: u32,
        session: SessionKey,
        said_one_thing: impl Fn(u32, SessionKey) -> bool,
    ) {
        if self.0.len() >= 2 * PEERS_MAX {
            self.0.retain(|(number, session)| said_one_thing(*number, *session));
        }
        self.0.push_back((number, session));
    }

    /// The earliest that said one thing alone; it is no longer among these.
    pub fn take(&mut self, said_one_thing: impl Fn(u32, SessionKey) -> bool) -> Option<u32> {
        while let Some((number, session)) = self.0.pop_front() {
            if said_one_thing(number, session) {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_that_said_one_thing_makes_room() {
        let mut newcomers = Newcomers::default();
        for number in 0..4 {
            newcomers.add(number, SessionKey(number), |_, _| true);
        }
        let one = |number, _| number != 0 && number != 2;
        assert_eq!(newcomers.take(one), Some(1));
        assert_eq!(newcomers.take(one), Some(3));
        assert_eq!(newcomers.take(one), None);
    }

    #[test]
    fn those_that_ended_do_not_pile_up() {
        let mut newcomers = Newcomers::default();
        for number in 0..5 * PEERS_MAX as u32 {
            newcomers.add(number, SessionKey(number), |_, _| false);
        }
        assert!(newcomers.0.len() <= 2 * PEERS_MAX);
    }

    #[test]
    fn who_sends_from_a_port_of_services_may_be_a_server() {
        let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        assert!(may_be_server(at(7), 7000) && may_be_server(at(7000), 7000));
        assert!(!may_be_server(at(50_000), 7000));
    }
}
