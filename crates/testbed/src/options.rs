//! What a testbed is to be like.

use std::thread::available_parallelism;

/// How to lay the cables. The default is a plain Ethernet cable with a queue for each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes that a frame may carry after the Ethernet header.
    pub mtu: u32,
    /// Transmit and receive queues of each end.
    pub queues: u32,
    /// Which IP addresses the ends get.
    pub addressing: Addressing,
    /// How the ends come to know each other's link-layer addresses.
    pub neighbours: Neighbours,
    /// Offloads of each end.
    pub offloads: Offloads,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mtu: 1500,
            queues: available_parallelism().map_or(1, |n| n.get() as u32),
            addressing: Addressing::default(),
            neighbours: Neighbours::default(),
            offloads: Offloads::default(),
        }
    }
}

/// Which IP addresses the ends get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// IPv4 alone; IPv6 is switched off. Nothing is ever on the cable until somebody sends.
    V4,
    /// IPv4 and, where the kernel has it, IPv6. The kernel reports its multicast groups (RFC 3810
    /// §6.1) while the testbed is laid, and is done with it before that is ready.
    #[default]
    V4AndV6,
}

/// How the ends come to know each other's link-layer addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Neighbours {
    /// They ask, by ARP and neighbour discovery, when they need to.
    #[default]
    Asked,
    /// They know from the start and never ask.
    Fixed,
}

/// One offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// As the driver has it.
    #[default]
    Kept,
    /// On.
    On,
    /// Off.
    Off,
}

/// The offloads that change what a receiver or a capture sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Received segments are joined (generic receive offload).
    pub gro: Offload,
    /// Datagrams and segments leave the stack joined (generic segmentation offload).
    pub gso: Offload,
    /// TCP segments leave the stack joined (TCP segmentation offload).
    pub tso: Offload,
    /// Checksums are left to the device that sends.
    pub checksum: Offload,
}

impl Offloads {
    /// The kernel's names for what is to be changed.
    pub(crate) fn features(&self) -> Vec<(&'static str, bool)> {
        const TSO: [&str; 4] = [
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
        ];
        let all: [(Offload, &[&str]); 4] = [
            (self.gro, &["rx-gro"]),
            (self.gso, &["tx-generic-segmentation"]),
            (self.tso, &TSO),
            (self.checksum, &["tx-checksum-ip-generic"]),
        ];
        all.into_iter()
            .filter(|(offload, _)| *offload != Offload::Kept)
            .flat_map(|(offload, names)| names.iter().map(move |&n| (n, offload == Offload::On)))
            .collect()
    }
}
