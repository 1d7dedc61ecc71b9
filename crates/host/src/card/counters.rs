//! What the counters of cards mean, by their names: one line for each name that drivers use.
//!
//! Names are those of the drivers' sources, and the kernel's own (`Documentation/networking/statistics.rst`). A name that is
//! not here is shown as it is and means nothing. To add one, add its line. `*` stands for the number of a queue, or of a
//! priority.

use super::{Increase, Source};

/// What it means for frames when a counter rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The card had no room for so many frames that came in, and dropped them.
    DroppedIn(Count),
    /// The number of frames that came in damaged and were dropped.
    Damaged,
    /// The host dropped so many frames that the card had brought.
    DroppedByHost,
    /// The number of frames that were to be sent and were dropped.
    DroppedOut(Count),
    /// The other end of the link asked the card to pause so often.
    PausedByPeer,
    /// The card asked the other end to pause so often.
    PausedPeer,
    /// The number of frames that came in by a queue.
    QueueIn,
    /// The number of frames that left by a queue.
    QueueOut,
    /// Something had to wait, and nothing was lost by that alone.
    Waited,
}

/// What a counter counts of: the same frame may be in a counter of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The whole card.
    Card,
    /// One queue.
    Queue,
}

use Count::{Card, Queue};
use Meaning::{
    Damaged, DroppedByHost, DroppedIn, DroppedOut, PausedByPeer, PausedPeer, QueueIn, QueueOut,
    Waited,
};

/// Name, meaning, and what a reader is told.
type Row = (&'static str, Meaning, &'static str);

const FULL: &str = "the host took frames from the card too late";
const NO_BUFFER: &str = "no receive buffer was free";
const FIFO: &str = "the card's own memory was full";
const DAMAGE: &str = "damaged on the way";
const SEND: &str = "dropped before they were sent";
const XOFF: &str = "the other end asked for a pause";
const XOFF_SENT: &str = "the card asked the other end for a pause";
const OF_QUEUE: &str = "frames of one queue";

const TABLE: &[Row] = &[
    // the kernel's, for every driver
    ("rx_missed_errors", DroppedIn(Card), FULL),
    ("rx_over_errors", DroppedIn(Card), FIFO),
    ("rx_fifo_errors", DroppedIn(Card), FIFO),
    ("rx_crc_errors", Damaged, DAMAGE),
    ("rx_frame_errors", Damaged, DAMAGE),
    ("rx_length_errors", Damaged, DAMAGE),
    (
        "rx_dropped",
        DroppedByHost,
        "the host dropped what the card had brought: too long, unknown, or no room",
    ),
    ("tx_dropped", DroppedOut(Card), SEND),
    ("tx_fifo_errors", DroppedOut(Card), FIFO),
    ("tx_carrier_errors", DroppedOut(Card), "the link was down"),
    // Intel: e1000, e1000e, igb, igc, ixgbe
    (
        "rx_no_buffer_count",
        Waited,
        "no receive buffer was free; lost only where rx_missed_errors says so",
    ),
    ("rx_no_dma_resources", DroppedIn(Card), NO_BUFFER),
    ("rx_queue_*_drops", DroppedIn(Queue), NO_BUFFER),
    ("rx_queue_*_packets", QueueIn, OF_QUEUE),
    ("tx_queue_*_packets", QueueOut, OF_QUEUE),
    ("tx_queue_*_restart", Waited, "its transmit ring was full for a while"),
    ("tx_restart_queue", Waited, "a transmit ring was full for a while"),
    ("rx_align_errors", Damaged, DAMAGE),
    ("rx_flow_control_xoff", PausedByPeer, XOFF),
    ("tx_flow_control_xoff", PausedPeer, XOFF_SENT),
    ("l2_flow_control_xoff_rx", PausedByPeer, XOFF),
    // i40e and ice
    ("rx-*.packets", QueueIn, OF_QUEUE),
    ("tx-*.packets", QueueOut, OF_QUEUE),
    ("rx-*.rx_packets", QueueIn, OF_QUEUE),
    ("tx-*.tx_packets", QueueOut, OF_QUEUE),
    ("port.rx_dropped", DroppedIn(Card), FIFO),
    ("rx_dropped.nic", DroppedIn(Card), FIFO),
    ("port.rx_crc_errors", Damaged, DAMAGE),
    ("rx_crc_errors.nic", Damaged, DAMAGE),
    ("port.tx_dropped_link_down", DroppedOut(Card), "the link was down"),
    ("tx_dropped_link_down.nic", DroppedOut(Card), "the link was down"),
    ("port.link_xoff_rx", PausedByPeer, XOFF),
    ("link_xoff_rx.nic", PausedByPeer, XOFF),
    ("port.link_xoff_tx", PausedPeer, XOFF_SENT),
    ("link_xoff_tx.nic", PausedPeer, XOFF_SENT),
    // mlx5, mlx4, and virtio_net since Linux 6.10
    ("rx*_packets", QueueIn, OF_QUEUE),
    ("tx*_packets", QueueOut, OF_QUEUE),
    ("rx*_drops", DroppedIn(Queue), NO_BUFFER),
    ("tx*_drops", DroppedOut(Queue), SEND),
    ("rx*_hw_drops", DroppedIn(Queue), NO_BUFFER),
    ("rx_out_of_buffer", DroppedIn(Card), NO_BUFFER),
    ("rx_discards_phy", DroppedIn(Card), FIFO),
    ("tx_discards_phy", DroppedOut(Card), SEND),
    ("rx_crc_errors_phy", Damaged, DAMAGE),
    ("rx_symbol_err_phy", Damaged, DAMAGE),
    ("rx_pause_ctrl_phy", PausedByPeer, XOFF),
    ("tx_pause_ctrl_phy", PausedPeer, XOFF_SENT),
    ("rx_prio*_pause", PausedByPeer, XOFF),
    ("tx_prio*_pause", PausedPeer, XOFF_SENT),
    ("tx*_stopped", Waited, "its transmit ring was full for a while"),
    // bnxt
    ("rx_discard_pkts", DroppedIn(Card), FIFO),
    ("rx_total_discard_pkts", DroppedIn(Card), NO_BUFFER),
    ("[*]: rx_discards", DroppedIn(Queue), NO_BUFFER),
    ("[*]: rx_ucast_packets", QueueIn, OF_QUEUE),
    ("[*]: tx_ucast_packets", QueueOut, OF_QUEUE),
    ("rx_pause_frames", PausedByPeer, XOFF),
    ("tx_pause_frames", PausedPeer, XOFF_SENT),
    // ena, gve
    ("queue_*_rx_cnt", QueueIn, OF_QUEUE),
    ("queue_*_tx_cnt", QueueOut, OF_QUEUE),
    ("queue_*_tx_queue_stop", Waited, "its transmit ring was full for a while"),
    ("rx_overruns", DroppedIn(Card), NO_BUFFER),
    ("rx_packets[*]", QueueIn, OF_QUEUE),
    ("tx_packets[*]", QueueOut, OF_QUEUE),
    // vmxnet3: the same names once for each queue
    ("pkts rx OOB", DroppedIn(Queue), NO_BUFFER),
    ("pkts tx discard", DroppedOut(Queue), SEND),
    ("ring full", Waited, "a transmit ring was full for a while"),
    // r8169, tg3
    ("rx_missed", DroppedIn(Card), FULL),
    ("rx_discards", DroppedIn(Card), FULL),
    ("rx_fcs_errors", Damaged, DAMAGE),
    ("rx_xoff_pause_rcvd", PausedByPeer, XOFF),
    // veth: frames that a program drops are not lost, and count elsewhere (xdp_drops)
    ("rx_queue_*_xdp_packets", QueueIn, OF_QUEUE),
    ("tx_queue_*_xdp_xmit_errors", DroppedOut(Queue), "the ring of the other end was full"),
];

/// What a counter's name means, with what a reader is told of it.
pub fn meaning(name: &str) -> Option<(Meaning, &'static str)> {
    let row = |wanted: &str| TABLE.iter().find(|row| row.0 == wanted);
    let found = row(name).or_else(|| row(&pattern(name)?.0));
    found.map(|&(_, meaning, told)| (meaning, told))
}

/// The number of the queue in the name of a counter that is one queue's: "rx_queue_12_drops" is of queue 12.
pub fn queue(name: &str) -> Option<u32> {
    pattern(name).map(|(_, number)| number)
}

/// A name with `*` in the place of its first number, and that number.
fn pattern(name: &str) -> Option<(String, u32)> {
    let digit = |c: char| c.is_ascii_digit();
    let begin = name.find(digit)?;
    let rest = &name[begin..];
    let end = begin + rest.find(|c| !digit(c)).unwrap_or(rest.len());
    let number = name[begin..end].parse().ok()?;
    Some((format!("{}*{}", &name[..begin], &name[end..]), number))
}

/// How many frames a card dropped on their way in, or out, by its counters: the largest of the sums of the kernel's
/// counters, of the driver's for the card, and of its for each queue, because each of these may count the same frames.
pub fn dropped(increases: &[Increase], way: Way) -> u64 {
    let of = |source: Source, count: Count| -> u64 {
        let wanted = match way {
            Way::In => DroppedIn(count),
            Way::Out => DroppedOut(count),
        };
        let mine = increases.iter().filter(|increase| {
            let meant = meaning(&increase.name).map(|(meaning, _)| meaning);
            increase.source == source && meant == Some(wanted)
        });
        mine.fold(0, |sum: u64, increase| sum.saturating_add(increase.by))
    };
    of(Source::Kernel, Card).max(of(Source::Driver, Card)).max(of(Source::Driver, Queue))
}

/// Which way frames go through a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the wire.
    In,
    /// To the wire.
    Out,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(name: &str) -> Option<Meaning> {
        meaning(name).map(|(meaning, _)| meaning)
    }

    #[test]
    fn counters_of_queues_are_told_by_their_number() {
        for (name, wanted, number) in [
            ("rx_queue_12_drops", DroppedIn(Queue), 12),
            ("tx_queue_0_packets", QueueOut, 0),
            ("rx7_packets", QueueIn, 7),
            ("rx-3.packets", QueueIn, 3),
            ("queue_5_tx_cnt", QueueOut, 5),
            ("[9]: rx_discards", DroppedIn(Queue), 9),
            ("rx_packets[2]", QueueIn, 2),
            ("rx_prio3_pause", PausedByPeer, 3),
        ] {
            assert_eq!((meant(name), queue(name)), (Some(wanted), Some(number)), "{name}");
        }
    }

    #[test]
    fn what_a_program_dropped_and_what_nobody_knows_is_no_loss() {
        for name in
            ["rx_queue_0_xdp_drops", "rx_xdp_drop", "rx0_xdp_drop", "rx_64_bytes_phy", "", "7"]
        {
            assert_eq!(meant(name), None, "{name}");
        }
        assert_eq!(meant("rx_no_buffer_count"), Some(Waited));
        assert_eq!(queue("rx_packets"), None);
        assert_eq!(queue("rx_99999999999999999999_drops"), None);
    }

    #[test]
    fn no_name_is_there_twice() {
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_frame_in_three_counters_was_dropped_once() {
        let one = |source, name: &str, by| Increase { source, name: name.to_owned(), by };
        let increases = [
            one(Source::Kernel, "rx_missed_errors", 70),
            one(Source::Kernel, "rx_fifo_errors", 30),
            one(Source::Driver, "rx_missed_errors", 70),
            one(Source::Driver, "rx_queue_0_drops", 20),
            one(Source::Driver, "rx_queue_1_drops", 10),
            one(Source::Driver, "rx_no_buffer_count", 900),
            one(Source::Driver, "tx_dropped", 4),
        ];
        assert_eq!(dropped(&increases, Way::In), 100);
        assert_eq!(dropped(&increases, Way::Out), 4);
        assert_eq!(dropped(&[], Way::In), 0);
    }
}
