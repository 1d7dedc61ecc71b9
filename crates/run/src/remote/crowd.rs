//! Connections of which nobody is known yet: a bounded number, and a fair share for each source.
//!
//! When there is one too many, the oldest of the source that has the most goes. So a source that floods the port pushes out
//! his own connections, and an honest sender from elsewhere keeps its place. A source is an IPv4 address or an IPv6
//! network of 64 bits, because a host that has one address of such a network has all of them.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Whom a connection is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source(u64, bool);

impl Source {
    /// Of an address.
    pub fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(v4) => Source(u32::from(v4).into(), false),
            IpAddr::V6(v6) => Source((u128::from(v6) >> 64) as u64, true),
        }
    }
}

/// Connections, the oldest first.
#[derive(Debug)]
pub struct Crowd<T> {
    limit: usize,
    per_source: usize,
    next: u64,
    members: VecDeque<(u64, Source, T)>,
}

impl<T> Crowd<T> {
    /// For `limit` connections, at most `per_source` of one source.
    pub fn new(limit: usize, per_source: usize) -> Crowd<T> {
        Crowd { limit, per_source, next: 0, members: VecDeque::new() }
    }

    /// Adds a connection and gives its ticket; with it the one that has to go, if there is one too many.
    pub fn add(&mut self, source: Source, member: T) -> (u64, Option<T>) {
        let mine = self.members.iter().filter(|(_, other, _)| *other == source).count();
        let evicted = match () {
            () if mine >= self.per_source => self.evict(source),
            () if self.members.len() >= self.limit => self.evict_any(),
            () => None,
        };
        let ticket = self.next;
        self.next += 1;
        self.members.push_back((ticket, source, member));
        (ticket, evicted)
    }

    /// Takes out the oldest of the source that has the most.
    pub fn evict_any(&mut self) -> Option<T> {
        let mut counts: HashMap<Source, usize> = HashMap::new();
        for (_, source, _) in &self.members {
            *counts.entry(*source).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let crowded = |(_, source, _): &&(u64, Source, T)| counts.get(source) == Some(&most);
        let source = self.members.iter().find(crowded)?.1;
        self.evict(source)
    }

    fn evict(&mut self, source: Source) -> Option<T> {
        let place = self.members.iter().position(|(_, other, _)| *other == source)?;
        self.members.remove(place).map(|(.., member)| member)
    }

    /// Takes out the one with this ticket, if it is still there.
    pub fn remove(&mut self, ticket: u64) -> Option<T> {
        let place = self.members.iter().position(|(other, ..)| *other == ticket)?;
        self.members.remove(place).map(|(.., member)| member)
    }

    /// All, with their tickets, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.members.iter().map(|(ticket, _, member)| (*ticket, member))
    }

    /// The one with this ticket.
    pub fn get_mut(&mut self, ticket: u64) -> Option<&mut T> {
        self.members.iter_mut().find(|(other, ..)| *other == ticket).map(|(.., member)| member)
    }

    /// Takes out all.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.members.drain(..).map(|(.., member)| member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn a_flood_pushes_out_its_own_connections() {
        let mut crowd = Crowd::new(8, 6);
        let (honest, none) = crowd.add(source("192.0.2.1"), 0);
        assert_eq!(none, None);
        for round in 1..100 {
            crowd.add(source("192.0.2.66"), round);
            crowd.add(source("192.0.2.67"), round + 1000);
        }
        assert!(crowd.members.len() <= 8);
        assert_eq!(crowd.get_mut(honest), Some(&mut 0));
        // the youngest of the others are still there, their oldest are not
        assert_eq!(crowd.iter().last().map(|(_, member)| *member), Some(1099));
        assert_eq!(crowd.iter().nth(1).map(|(_, member)| *member % 1000), Some(96));
    }

    #[test]
    fn a_network_of_64_bits_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }
}
