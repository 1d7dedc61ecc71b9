//! Which core has a session over TCP or UDP, where several cores have those of a port.
//!
//! It follows from the two ports alone, whichever end they are of: both directions of a connection and the ICMP errors that quote it
//! come to the core that has it, at either end, and nobody keeps a table. A client takes a local port for which it is its own core. The
//! engines decide the same before a frame reaches a core, in programs of their own; this is their reference.

pub use wirebeat_traffic::schedule::Shard;

/// 2^32 divided by the golden ratio, as a prime: multiples of it spread evenly (Knuth, The Art of Computer Programming 3, §6.4), also
/// those of every second port, which are what clients of Linux come from (`__inet_hash_connect` of the kernel's
/// `net/ipv4/inet_hashtables.c`).
pub const MULTIPLIER: u32 = 0x9e37_79b1;
/// Half the bits of the product: the upper ones are those that spread, and as a fraction of one they are scaled to the cores.
pub const SHIFT: u32 = 16;
/// The most cores that share the connections of a port: a fraction of that many bits tells so many apart.
pub const CORES_MAX: u32 = 1 << SHIFT;

/// The core, of `cores`, of the connection between these two ports, in either order.
#[inline]
pub fn core_of([one, other]: [u16; 2], cores: u32) -> u32 {
    let sum = u32::from(one) + u32::from(other);
    let fraction = sum.wrapping_mul(MULTIPLIER) >> SHIFT;
    (fraction * cores.clamp(1, CORES_MAX)) >> SHIFT
}

/// Whether the connection between these two ports is of this core.
#[inline]
pub fn is_of(ports: [u16; 2], Shard { core, cores }: Shard) -> bool {
    cores <= 1 || core_of(ports, cores) == core
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_of_one_core() {
        for (one, other) in [(80, 1024), (443, 65_535), (65_535, 65_535), (1, 2)] {
            for cores in 1..=64 {
                let core = core_of([one, other], cores);
                assert_eq!(core, core_of([other, one], cores));
                let of = |core| is_of([one, other], Shard { core, cores });
                assert_eq!((0..cores).filter(|core| of(*core)).collect::<Vec<_>>(), [core]);
            }
        }
    }

    /// Whatever a system's clients step by when they choose ports: each core gets its share, within an eighth.
    #[test]
    fn the_ports_of_clients_are_spread_evenly() {
        for server in [22, 80, 443, 5201, 8080] {
            for step in [1_u16, 2, 3, 4, 8, 10, 16] {
                for cores in 2..=8_u32 {
                    let mut counts = vec![0_u32; cores as usize];
                    for client in (32_768..61_000).step_by(step.into()) {
                        counts[core_of([client, server], cores) as usize] += 1;
                    }
                    let share = counts.iter().sum::<u32>() / cores;
                    let apart = |count: &u32| count.abs_diff(share) <= share / 8 + 1;
                    assert!(counts.iter().all(apart), "{server} {step}: {counts:?}");
                }
            }
        }
    }

    #[test]
    fn a_port_of_each_core_is_near() {
        for cores in 2..=64_u32 {
            let mut last = vec![1024_u32; cores as usize];
            let mut apart = 0;
            for port in 1024..=u16::MAX {
                let last = &mut last[core_of([port, 80], cores) as usize];
                apart = apart.max(u32::from(port) - *last);
                *last = port.into();
            }
            assert!(apart <= 2 * cores, "{cores} cores: {apart}");
        }
    }
}
