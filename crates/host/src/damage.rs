//! What arrived damaged and went no further than the network stack of a namespace.
//!
//! A network card drops frames with a wrong FCS by itself. What is damaged behind that, in a switch, a card or a memory, the stack finds by
//! the checksums of IP and UDP, and counts (`InHdrErrors` and `InCsumErrors` of `/proc/net/snmp` and `snmp6`). A socket never sees it.

use crate::{files, snmp};

/// Damaged packets, since the namespace was made, IPv4 and IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// Datagrams with a wrong UDP checksum.
    pub datagrams: u64,
    /// Packets with an IP header that cannot be right: a wrong checksum, version or length.
    pub headers: u64,
}

impl Damaged {
    /// As the namespace of the calling thread has counted so far.
    pub fn observe() -> Damaged {
        let read = |name: &str| files::text(format!("/proc/thread-self/net/{name}"));
        let (v4, v6) = (read("snmp").unwrap_or_default(), read("snmp6").unwrap_or_default());
        let sum = |protocol, name, name6| {
            snmp::counter(&v4, protocol, name).unwrap_or(0)
                + snmp::counter6(&v6, name6).unwrap_or(0)
        };
        Damaged {
            datagrams: sum("Udp", "InCsumErrors", "Udp6InCsumErrors"),
            headers: sum("Ip", "InHdrErrors", "Ip6InHdrErrors"),
        }
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Damaged) -> Damaged {
        Damaged {
            datagrams: self.datagrams.saturating_sub(before.datagrams),
            headers: self.headers.saturating_sub(before.headers),
        }
    }

    /// Whether there was none.
    pub fn is_none(self) -> bool {
        self == Damaged::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_since_then_counts() {
        let before = Damaged { datagrams: 3, headers: 5 };
        let after = Damaged { datagrams: 10, headers: 5 };
        assert_eq!(after.since(before), Damaged { datagrams: 7, headers: 0 });
        assert!(before.since(after).is_none() && !after.since(before).is_none());
    }
}
