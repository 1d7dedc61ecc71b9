//! Sessions through a firewall whose table of connections is full: the kernel's own, whose size is the whole machine's.

use std::fs;

use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};

use super::note;
use crate::firewall::{Held, at_router, finds_the_size, through_a_firewall};

/// How many connections the kernel keeps at a time (nf_conntrack-sysctl of the kernel's documentation).
const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// The size that the test sets.
const SIZE: u64 = 300;

/// Slow enough for an emulated machine, and held until the last of those that find no room has given up.
const HELD: Held = Held { tried: 450, keys: "rate: 100/s, timeout: 4s, hold: 20s", time: "26s" };

/// The kernel itself drops a SYN that finds no room; what belongs to no entry is invalid.
const INVALID: &str = "ct state invalid";

/// Sets the size, and puts it back.
struct Size(String);

impl Size {
    fn set(size: u64) -> Size {
        let before = fs::read_to_string(MAX).unwrap();
        fs::write(MAX, size.to_string()).unwrap();
        Size(before)
    }
}

impl Drop for Size {
    fn drop(&mut self) {
        fs::write(MAX, &self.0).unwrap();
    }
}

/// The number at which sessions begin to fail is the table's size, to the session, also where each entry has two addresses.
#[test]
fn a_table_that_is_full_is_found_to_the_session() {
    require!(
        Capability::NetworkNamespaces,
        Capability::ConnectionTable,
        Capability::Program("nft")
    );
    for translates in [false, true] {
        let bed = Testbed::router(&Cable::default()).unwrap();
        let _size = Size::set(SIZE);
        let report = through_a_firewall(&bed, INVALID, translates, &HELD);
        finds_the_size(&report, SIZE, HELD.tried);
        let kept = at_router(&bed, "cat /proc/sys/net/netfilter/nf_conntrack_count");
        assert_eq!(kept.trim(), SIZE.to_string());
        let how = if translates { "with" } else { "without" };
        note(&format!(
            "conntrack, {how} address translation: of {} sessions {SIZE} were established through a table of {SIZE} entries",
            HELD.tried
        ));
    }
}
