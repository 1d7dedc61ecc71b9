//! What each queue of an interface has counted, as the kernel asks its driver (`linux/netdev.h`, Linux ≥ 6.9): newer drivers
//! count here and no longer among their own statistics.

use netlink_packet_core::NLM_F_DUMP;

use crate::{LinkIndex, Netlink, attributes};

const NETDEV_CMD_QSTATS_GET: u8 = 12;
const A_IFINDEX: u16 = 1;
const A_QUEUE_TYPE: u16 = 2;
const A_QUEUE_ID: u16 = 3;
const A_SCOPE: u16 = 4;
const A_RX_PACKETS: u16 = 8;
const A_TX_PACKETS: u16 = 10;
const A_RX_HW_DROPS: u16 = 13;
/// `NETDEV_QSTATS_SCOPE_QUEUE`: each queue by itself.
const SCOPE_QUEUE: u32 = 1;
/// `NETDEV_QUEUE_TYPE_TX`; receive queues have 0.
const TYPE_TX: u32 = 1;
/// More queues than any card has.
const QUEUES_MAX: usize = 8192;

/// What one queue has counted; `None` where the driver does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Its number among those of its direction.
    pub queue: u32,
    /// Frames that came in, of a receive queue.
    pub rx_packets: Option<u64>,
    /// Frames that the card dropped, of a receive queue: for want of buffers, or by a limit on its rate.
    pub rx_hw_drops: Option<u64>,
    /// Frames that left, of a transmit queue.
    pub tx_packets: Option<u64>,
}

impl Netlink {
    /// The queues of an interface; none where the kernel or the driver has no answer.
    pub fn queue_stats(&mut self, link: LinkIndex) -> Vec<QueueStats> {
        let Some(generic) = self.generic.as_mut() else { return Vec::new() };
        let Some(family) = generic.netdev else { return Vec::new() };
        let ask =
            [attributes::number(A_IFINDEX, link.get()), attributes::number(A_SCOPE, SCOPE_QUEUE)];
        let attempt = "ask what the queues have counted";
        let replies = generic.ask(attempt, family, NETDEV_CMD_QSTATS_GET, NLM_F_DUMP, &ask);
        let mine = |reply: &Vec<u8>| attributes::find_u32(reply, A_IFINDEX) == Some(link.get());
        let replies = replies.unwrap_or_default();
        replies
            .iter()
            .filter(|reply| mine(reply))
            .take(QUEUES_MAX)
            .filter_map(|r| parse(r))
            .collect()
    }
}

fn parse(reply: &[u8]) -> Option<QueueStats> {
    let number = |kind| attributes::find(reply, kind).and_then(|value| uint(&value));
    let sends = attributes::find_u32(reply, A_QUEUE_TYPE)? == TYPE_TX;
    Some(QueueStats {
        queue: attributes::find_u32(reply, A_QUEUE_ID)?,
        rx_packets: number(A_RX_PACKETS).filter(|_| !sends),
        rx_hw_drops: number(A_RX_HW_DROPS).filter(|_| !sends),
        tx_packets: number(A_TX_PACKETS).filter(|_| sends),
    })
}

/// A number of 4 or 8 bytes, as it fits (`nla_put_uint`).
fn uint(value: &[u8]) -> Option<u64> {
    match value.len() {
        4 => value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into()),
        _ => value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_bytes_as_they_need() {
        let reply = |kind, counter| {
            attributes::emit(&[
                attributes::number(A_QUEUE_TYPE, kind),
                attributes::number(A_QUEUE_ID, 3),
                attributes::number(A_RX_PACKETS, 7),
                attributes::bytes(A_TX_PACKETS, &u64::to_ne_bytes(counter)),
            ])
        };
        let big = 5_000_000_000;
        let receive = QueueStats { queue: 3, rx_packets: Some(7), ..QueueStats::default() };
        assert_eq!(parse(&reply(0, big)), Some(receive));
        let transmit = QueueStats { queue: 3, tx_packets: Some(big), ..QueueStats::default() };
        assert_eq!(parse(&reply(1, big)), Some(transmit));
        assert_eq!(parse(&[]), None);
    }
}
