//! Copies of a capture: when each starts, and which addresses and ports its two ends have, as functions of its number.
//!
//! Nothing is kept of a copy: who plays them asks for the ends of copy `n` with each of its packets. What is in the capture
//! is not known here.

use std::net::IpAddr;

use wirebeat_units::Nanos;

use super::Program;
use super::script::PoolWalk;
use crate::values::session::Pool;

/// Copies of a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Copies {
    /// When they start, from the start of their flow: its only flow has a frame for each.
    pub(crate) starts: Program,
    /// The addresses and ports of clients.
    pub clients: PoolWalk,
    /// The addresses of servers.
    pub servers: PoolWalk,
    /// How many copies in turn are between one client and one server address.
    pub per_pair: u64,
    /// How many different ends there are; `None`: as many as the pools have.
    pub tuples: Option<u64>,
    /// Whether clients have the ports of the capture.
    pub keep_ports: bool,
    /// The time from a packet to the next of the same end; `None`: that of the capture.
    pub gap: Option<Nanos>,
    /// The time from a packet to the answer of the other end; `None`: that of the capture.
    pub turnaround: Option<Nanos>,
    /// A shorter time from a packet to the next becomes this.
    pub min_gap: Nanos,
}

impl Default for Copies {
    /// None, between the ends of the capture.
    fn default() -> Copies {
        let nobody = || PoolWalk { pool: Pool::default(), key: None };
        Copies {
            starts: Program { seed: 0, flows: Vec::new(), streams: Vec::new() },
            clients: nobody(),
            servers: nobody(),
            per_pair: 1,
            tuples: None,
            keep_ports: true,
            gap: None,
            turnaround: None,
            min_gap: Nanos::ZERO,
        }
    }
}

/// Who a copy is between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnds {
    /// The client's address; `None`: that of the capture.
    pub client: Option<IpAddr>,
    /// The server's address; `None`: that of the capture.
    pub server: Option<IpAddr>,
    /// The place of its first client port in the pool, in numbers of ports that a copy has.
    turn: u64,
}

impl Copies {
    /// The most that start in a nanosecond, where there is a limit.
    pub fn peak_rate(&self) -> Option<f64> {
        self.starts.streams(0).first()?.departures.pace.peak_rate()
    }

    /// The ends of copy `n`.
    pub fn ends(&self, n: u64) -> CopyEnds {
        let n = self.tuples.map_or(n, |tuples| n % tuples.max(1));
        let per_pair = self.per_pair.max(1);
        let (pair, within) = (n / per_pair, n % per_pair);
        let (client, turn) = self.clients.take(pair);
        let (server, _) = self.servers.take(pair);
        CopyEnds { client, server, turn: turn.saturating_mul(per_pair).saturating_add(within) }
    }

    /// The client's port number `number` of the `all` that a copy has.
    pub fn client_port(&self, ends: &CopyEnds, (number, all): (u16, u16)) -> u16 {
        let place = ends.turn.wrapping_mul(all.into()).wrapping_add(number.into());
        self.clients.pool.ports.as_ref().map_or(0, |ports| {
            // the ports of a copy are in a row that does not go round, so that they differ
            let rows = (ports.len() / u64::from(all.max(1))).max(1);
            ports.get(place % (rows * u64::from(all.max(1))))
        })
    }

    /// After how many copies the ends of the first come again, where a copy has `ports` client ports; `None` where they are
    /// drawn, or do not matter.
    pub fn different(&self, ports: u16) -> Option<u64> {
        let cycle = |walk: &PoolWalk| walk.cycle().map(|addresses| addresses.max(1));
        let per_pair = self.per_pair.max(1);
        let rows = match (&self.clients.pool.ports, self.keep_ports) {
            (Some(all), false) => (all.len() / u64::from(ports.max(1))).max(1),
            _ => 1,
        };
        // a client address takes the ports of its pairs, so many copies each
        let turns = (rows / per_pair).max(1);
        let clients = cycle(&self.clients)?.saturating_mul(turns);
        let pairs = least_common_multiple(clients, cycle(&self.servers)?);
        let of_pools = pairs.saturating_mul(per_pair.min(rows));
        Some(self.tuples.map_or(of_pools, |tuples| tuples.min(of_pools)))
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let mut pair = (a, b);
    while pair.1 != 0 {
        pair = (pair.1, pair.0 % pair.1);
    }
    (a / pair.0.max(1)).saturating_mul(b)
}
