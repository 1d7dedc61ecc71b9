//! A card as its driver describes it: rings, queues, interrupt coalescing, pause frames, how it spreads what it
//! receives, and what it has counted.
//!
//! Read before and after a run and compared: never meanwhile, because some drivers ask their firmware for it.
//! `ioctl.rs` asks the driver, `counters.rs` knows what its counters mean, `xps.rs` which queue a CPU sends by.

pub mod counters;
mod ioctl;
mod xps;

use std::collections::HashMap;
use std::fmt;

use wirebeat_netlink::{Channels, Coalescing, Link, LinkStats, Netlink, Pause, QueueStats, Rings};

use ioctl::Driver;
pub use xps::Xps;

/// What is known of a card at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// The driver's name: "igb", "veth".
    pub driver: Option<String>,
    /// What can be set.
    pub settings: Settings,
    /// The counters of the kernel (`ip -s link`).
    pub stats: Option<LinkStats>,
    /// The counters of the driver (`ethtool -S`) in its order; names may repeat.
    pub counters: Vec<(String, u64)>,
    /// What each queue has counted by the kernel's own interface.
    pub queues: Vec<QueueStats>,
}

/// The name of the driver of an interface of the calling thread's namespace; `None` where it does not tell.
pub fn driver(interface: &str) -> Option<String> {
    Driver::open(interface).ok()?.name()
}

/// How an interface of the calling thread's namespace spreads what it receives; `None` where it does not.
pub fn rss(interface: &str) -> Option<Rss> {
    Driver::open(interface).ok()?.rss()
}

/// What can be set with `ethtool`; `None` where the driver does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Entries of the rings (`-g`).
    pub rings: Option<Rings>,
    /// Queues (`-l`).
    pub channels: Option<Channels>,
    /// How long interrupts are held back (`-c`).
    pub coalescing: Option<Coalescing>,
    /// Pause frames (`-a`); the counters in there are left out.
    pub pause: Option<Pause>,
    /// How received frames are spread over queues (`-x`).
    pub rss: Option<Rss>,
}

/// How a card spreads what it receives over its queues: by a hash, through a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// The hash function: "toeplitz", "xor", "crc32".
    pub hash: Option<&'static str>,
    /// Bytes of its key.
    pub key_bytes: u32,
    /// The queue of each remainder of the hash.
    pub table: Vec<u32>,
}

impl Rss {
    /// The queues of the table with the number of their entries, in order.
    pub fn shares(&self) -> Vec<(u32, u32)> {
        let mut queues = self.table.clone();
        queues.sort_unstable();
        queues.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
    }
}

/// "equal over 4 queues", or the share of each queue. A table of 128 entries spreads over 3 queues equally, too.
impl fmt::Display for Rss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 8;
        let shares = self.shares();
        let least = shares.iter().map(|share| share.1).min().unwrap_or(0);
        let equal = shares.iter().all(|share| share.1 <= least + 1);
        let without_gap = shares.iter().zip(0..).all(|(share, queue)| share.0 == queue);
        match shares.as_slice() {
            [] => f.write_str("no queue"),
            [(queue, _)] => write!(f, "all to queue {queue}"),
            queues if equal && without_gap => write!(f, "equal over {} queues", queues.len()),
            queues => {
                let all = self.table.len() as f64;
                let share = |(queue, entries): &(u32, u32)| {
                    format!("queue {queue}: {:.0} %", f64::from(*entries) * 100.0 / all)
                };
                let shown: Vec<String> = queues.iter().take(MOST).map(share).collect();
                f.write_str(&shown.join(", "))?;
                match queues.len().saturating_sub(MOST) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

/// A setting that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// What it is: "receive ring".
    pub what: &'static str,
    /// Its value before.
    pub before: String,
    /// Its value after.
    pub after: String,
}

/// Whose counter it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel's, the same for all drivers.
    Kernel,
    /// The driver's own.
    Driver,
}

/// A counter that has risen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Increase {
    /// Whose it is.
    pub source: Source,
    /// Its name.
    pub name: String,
    /// By how much; counters of the same name are added.
    pub by: u64,
}

impl Card {
    /// Reads what is known of `link` through a handle on the calling thread's namespace.
    pub fn read(netlink: &mut Netlink, link: &Link) -> Card {
        let driver = Driver::open(&link.name).ok();
        let driver = driver.as_ref();
        Card {
            driver: driver.and_then(Driver::name),
            settings: Settings {
                rings: netlink.rings(link.index).ok(),
                channels: netlink.channels(link.index).ok(),
                coalescing: netlink.coalescing(link.index).ok(),
                pause: netlink.pause(link.index).ok(),
                rss: driver.and_then(Driver::rss),
            },
            stats: netlink.stats(link.index).ok(),
            counters: driver.map(Driver::counters).unwrap_or_default(),
            queues: netlink.queue_stats(link.index),
        }
    }

    /// The counters that have risen since `before`: the kernel's, and then the driver's in their order. What a reset
    /// has set back is left out.
    pub fn increases(&self, before: &Card) -> Vec<Increase> {
        let mut found = Vec::new();
        if let (Some(before), Some(after)) = (&before.stats, &self.stats) {
            let named = before.named().into_iter().zip(after.named());
            let risen = named.filter_map(|((name, from), (_, to))| Some((name, rise(from, to)?)));
            let increase = |(name, by): (&str, u64)| Increase {
                source: Source::Kernel,
                name: name.to_owned(),
                by,
            };
            found.extend(risen.map(increase));
        }
        let mut of_driver = self.driver_increases(before);
        if self.driver.as_deref() == Some("virtio_net") {
            without_verdicts(&mut of_driver);
        }
        found.extend(of_driver);
        found
    }

    /// Frames that came in and left by each queue since `before`, by the kernel's own interface: queue, frames in, frames
    /// out. None where the driver does not tell.
    pub fn queue_frames(&self, before: &Card) -> Vec<(u32, u64, u64)> {
        let of = |all: &[QueueStats], queue: u32| {
            let mine = all.iter().filter(move |one| one.queue == queue);
            mine.fold((0, 0), |(rx, tx): (u64, u64), one| {
                (rx.max(one.rx_packets.unwrap_or(0)), tx.max(one.tx_packets.unwrap_or(0)))
            })
        };
        let mut numbers: Vec<u32> = self.queues.iter().map(|one| one.queue).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let risen = |queue: u32| {
            let (before, after) = (of(&before.queues, queue), of(&self.queues, queue));
            (queue, after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
        };
        numbers.into_iter().map(risen).filter(|&(_, rx, tx)| rx > 0 || tx > 0).collect()
    }

    fn driver_increases(&self, before: &Card) -> Vec<Increase> {
        // they may be thousands, and a name may be there once for each queue
        let mut order: Vec<Increase> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let same = self.counters.len() == before.counters.len()
            && self.counters.iter().zip(&before.counters).all(|(a, b)| a.0 == b.0);
        let earlier: HashMap<&str, u64> = match same {
            true => HashMap::new(),
            // queues came or went: those of a name that is there once can be compared still
            false => before.counters.iter().map(|(name, value)| (name.as_str(), *value)).collect(),
        };
        for (at, (name, after)) in self.counters.iter().enumerate() {
            let was = match same {
                true => before.counters.get(at).map(|(_, value)| *value),
                false => earlier.get(name.as_str()).copied(),
            };
            let Some(by) = was.and_then(|was| rise(was, *after)) else { continue };
            match places.get(name.as_str()).and_then(|&place| order.get_mut(place)) {
                Some(increase) => increase.by = increase.by.saturating_add(by),
                None => {
                    places.insert(name, order.len());
                    order.push(Increase { source: Source::Driver, name: name.clone(), by });
                }
            }
        }
        order
    }
}

/// virtio_net counts what an XDP program drops twice: as that, and among its drops. What is left of these is its own.
fn without_verdicts(increases: &mut Vec<Increase>) {
    let verdict = |increase: &Increase| {
        let queue = increase.name.strip_suffix("_xdp_drops")?;
        Some((format!("{queue}_drops"), increase.by))
    };
    let verdicts: HashMap<String, u64> = increases.iter().filter_map(verdict).collect();
    for increase in increases.iter_mut() {
        let by_program = verdicts.get(&increase.name).copied().unwrap_or(0);
        increase.by = increase.by.saturating_sub(by_program);
    }
    increases.retain(|increase| increase.by > 0);
}

fn rise(from: u64, to: u64) -> Option<u64> {
    to.checked_sub(from).filter(|&by| by > 0)
}

impl Settings {
    /// What is different `after`.
    pub fn changes(&self, after: &Settings) -> Vec<SettingChange> {
        let (before, after) = (self.written(), after.written());
        let differs = |((what, before), (_, after)): (Written, Written)| {
            let (before, after) = (before?, after?);
            (before != after).then_some(SettingChange { what, before, after })
        };
        before.into_iter().zip(after).filter_map(differs).collect()
    }

    /// Each setting by its name; the same names in the same order for every card.
    fn written(&self) -> Vec<Written> {
        let rings = self.rings.unwrap_or_default();
        let channels = self.channels.unwrap_or_default();
        let coalescing = self.coalescing.unwrap_or_default();
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let switch = |value: Option<bool>| value.map(|on| if on { "on" } else { "off" }.to_owned());
        let pause = |of: fn(&Pause) -> Option<bool>| switch(self.pause.as_ref().and_then(of));
        vec![
            ("receive ring", number(rings.rx)),
            ("transmit ring", number(rings.tx)),
            ("receive queues", number(channels.rx)),
            ("transmit queues", number(channels.tx)),
            ("combined queues", number(channels.combined)),
            ("receive interrupt delay in µs", number(coalescing.rx_usecs)),
            ("receive interrupt frames", number(coalescing.rx_frames)),
            ("transmit interrupt delay in µs", number(coalescing.tx_usecs)),
            ("transmit interrupt frames", number(coalescing.tx_frames)),
            ("adaptive receive interrupts", switch(coalescing.adaptive_rx)),
            ("adaptive transmit interrupts", switch(coalescing.adaptive_tx)),
            ("pause frames heeded", pause(|pause| pause.rx)),
            ("pause frames sent", pause(|pause| pause.tx)),
            ("negotiation of pause frames", pause(|pause| pause.autonegotiated)),
            ("receive queues of the hash", self.rss.as_ref().map(Rss::to_string)),
        ]
    }
}

/// A setting's name and value.
type Written = (&'static str, Option<String>);

#[cfg(test)]
mod tests {
    use super::*;

    fn rss(table: &[u32]) -> Rss {
        Rss { table: table.to_vec(), ..Rss::default() }
    }

    #[test]
    fn a_table_is_told_in_short() {
        assert_eq!(rss(&[0, 1, 2, 3, 0, 1, 2, 3]).to_string(), "equal over 4 queues");
        assert_eq!(rss(&[0, 1, 2, 0, 1]).to_string(), "equal over 3 queues");
        assert_eq!(rss(&[2; 128]).to_string(), "all to queue 2");
        assert_eq!(rss(&[0, 1, 1, 1]).to_string(), "queue 0: 25 %, queue 1: 75 %");
        assert_eq!(rss(&[1, 2]).to_string(), "queue 1: 50 %, queue 2: 50 %");
        assert_eq!(rss(&[]).to_string(), "no queue");
        let many: Vec<u32> = (1..20).collect();
        assert!(rss(&many).to_string().ends_with("queue 8: 5 % and 11 more"));
    }

    fn card(counters: &[(&str, u64)]) -> Card {
        let counters = counters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        Card { counters, ..Card::default() }
    }

    fn risen(before: &[(&str, u64)], after: &[(&str, u64)]) -> Vec<(String, u64)> {
        let increases = card(after).increases(&card(before));
        increases.into_iter().map(|increase| (increase.name, increase.by)).collect()
    }

    #[test]
    fn counters_of_one_name_are_added_and_those_set_back_left_out() {
        let before = [("pkts rx OOB", 1), ("rx_missed_errors", 9), ("pkts rx OOB", 2), ("same", 4)];
        let after = [("pkts rx OOB", 4), ("rx_missed_errors", 3), ("pkts rx OOB", 9), ("same", 4)];
        assert_eq!(risen(&before, &after), [("pkts rx OOB".to_owned(), 10)]);
    }

    #[test]
    fn counters_are_compared_by_name_when_queues_came() {
        let before = [("rx_queue_0_packets", 5), ("tx_dropped", 1)];
        let after = [("rx_queue_0_packets", 7), ("rx_queue_1_packets", 100), ("tx_dropped", 2)];
        assert_eq!(
            risen(&before, &after),
            [("rx_queue_0_packets".to_owned(), 2), ("tx_dropped".to_owned(), 1)]
        );
    }

    /// It looked as if the card had dropped all that its receiver measured.
    #[test]
    fn what_a_program_dropped_was_not_dropped_by_virtio_net() {
        let named = |driver: &str, counters: &[(&str, u64)]| Card {
            driver: Some(driver.to_owned()),
            ..card(counters)
        };
        let names = ["rx_queue_0_drops", "rx_queue_0_xdp_drops", "rx1_drops", "rx1_xdp_drops"];
        let counters =
            |values: [u64; 4]| -> Vec<(&str, u64)> { names.into_iter().zip(values).collect() };
        let (before, after) = (counters([1, 1, 0, 0]), counters([301, 301, 9, 4]));
        let risen = |driver: &str| -> Vec<(String, u64)> {
            let increases = named(driver, &after).increases(&named(driver, &before));
            increases.into_iter().map(|increase| (increase.name, increase.by)).collect()
        };
        let one = |name: &str, by| (name.to_owned(), by);
        assert_eq!(
            risen("virtio_net"),
            [one("rx_queue_0_xdp_drops", 300), one("rx1_drops", 5), one("rx1_xdp_drops", 4)]
        );
        assert_eq!(risen("veth").len(), 4);
    }

    #[test]
    fn frames_of_queues_are_told_by_the_kernel_where_drivers_count_there() {
        let queue = |queue, rx, tx| QueueStats {
            queue,
            rx_packets: rx,
            tx_packets: tx,
            ..QueueStats::default()
        };
        let of = |queues: &[QueueStats]| Card { queues: queues.to_vec(), ..Card::default() };
        let before =
            of(&[queue(0, Some(5), None), queue(0, None, Some(2)), queue(1, Some(1), None)]);
        let after = of(&[
            queue(0, Some(9), None),
            queue(1, Some(1), None),
            queue(2, Some(7), None),
            queue(0, None, Some(3)),
        ]);
        assert_eq!(after.queue_frames(&before), [(0, 4, 1), (2, 7, 0)]);
    }

    #[test]
    fn the_kernels_counters_are_named_as_it_names_them() {
        let stats = |missed| LinkStats { rx_missed: missed, rx_packets: 7, ..LinkStats::default() };
        let of = |missed| Card { stats: Some(stats(missed)), ..Card::default() };
        let increase = Increase { source: Source::Kernel, name: "rx_missed_errors".into(), by: 3 };
        assert_eq!(of(5).increases(&of(2)), [increase]);
    }

    #[test]
    fn what_was_set_meanwhile_is_named_with_both_values() {
        let ring = |rx| Settings {
            rings: Some(Rings { rx: Some(rx), tx: Some(256), ..Rings::default() }),
            rss: Some(rss(if rx == 256 { &[0, 1] } else { &[0, 0] })),
            ..Settings::default()
        };
        let change = |what, before: &str, after: &str| SettingChange {
            what,
            before: before.to_owned(),
            after: after.to_owned(),
        };
        assert_eq!(
            ring(256).changes(&ring(80)),
            [
                change("receive ring", "256", "80"),
                change("receive queues of the hash", "equal over 2 queues", "all to queue 0"),
            ]
        );
        assert_eq!(ring(256).changes(&ring(256)), []);
        // a driver that has stopped telling has not changed anything
        assert_eq!(ring(256).changes(&Settings::default()), []);
    }
}
