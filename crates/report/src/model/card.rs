//! A port's card: how it was set, and what it counted while a run lasted, by its driver and the kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The card of a port, or the virtual device in its place. Its counters are of all frames of the interface, those of
/// other programs too, from right before the run until its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// The driver: "igb", "veth"; `null` where it does not tell.
    pub driver: Option<String>,
    /// Entries of its rings; `null` where the driver does not tell.
    pub rings: Option<CardRings>,
    /// How long it holds back interrupts; `null` where the driver does not tell.
    pub coalescing: Option<CardCoalescing>,
    /// How it uses pause frames (IEEE 802.3 Annex 31B); `null` where the driver does not tell.
    pub pause: Option<CardPause>,
    /// How it spreads what it receives over its queues; `null` where it does not, or does not tell.
    pub rss: Option<CardRss>,
    /// Frames of each queue that had some, as far as the driver counts them.
    pub queues: Vec<QueueFrames>,
    /// Frames that came in and that it dropped for want of room. A frame may be in several of `counters`, so this is the
    /// largest of three sums: of the kernel's counters, of the driver's for the card, and of its for each queue.
    pub dropped_in: u64,
    /// Frames that were to leave and that it dropped, counted likewise. Where an engine tries such frames again, it counts
    /// each time.
    pub dropped_out: u64,
    /// How often the other end of the link asked it to pause.
    pub paused_by_peer: u64,
    /// The counters that rose and say that frames were lost, damaged or had to wait, and then others, up to 256.
    pub counters: Vec<CardCounter>,
    /// How many more counters rose.
    pub more_counters: u64,
    /// Settings that were others at the end.
    pub changed: Vec<CardChange>,
}

/// Entries of the descriptor rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CardRings {
    /// Of the receive ring.
    pub receive: Option<u32>,
    /// The most that it could have.
    pub receive_max: Option<u32>,
    /// Of the transmit ring.
    pub transmit: Option<u32>,
    /// The most that it could have.
    pub transmit_max: Option<u32>,
}

/// How long interrupts are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CardCoalescing {
    /// Microseconds after a received frame.
    pub receive_us: Option<u32>,
    /// Received frames.
    pub receive_frames: Option<u32>,
    /// Microseconds after a sent frame.
    pub transmit_us: Option<u32>,
    /// Sent frames.
    pub transmit_frames: Option<u32>,
    /// Whether the driver changes the receiving side by itself.
    pub adaptive_receive: Option<bool>,
    /// Whether the driver changes the sending side by itself.
    pub adaptive_transmit: Option<bool>,
}

/// How pause frames are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CardPause {
    /// Whether both ends negotiate it.
    pub negotiated: Option<bool>,
    /// Whether the card pauses when the other end asks for it.
    pub heeded: Option<bool>,
    /// Whether it asks the other end to pause.
    pub sent: Option<bool>,
}

/// Receive-side scaling: a hash chooses an entry of a table, and that the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CardRss {
    /// In short: "equal over 4 queues", "queue 0: 25 %, queue 1: 75 %".
    pub summary: String,
    /// The hash function: "toeplitz", "xor", "crc32"; `null` where the driver does not tell.
    pub hash: Option<String>,
    /// Entries of the table.
    pub entries: u32,
    /// The queues in it, in order.
    pub queues: Vec<QueueShare>,
}

/// A queue's share of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueShare {
    /// Its number.
    pub queue: u32,
    /// Its entries.
    pub entries: u32,
}

/// Frames of a queue, by the driver's own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueFrames {
    /// Its number.
    pub queue: u32,
    /// Frames that came in by it.
    pub received: u64,
    /// Frames that left by it.
    pub sent: u64,
}

/// A counter that rose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CardCounter {
    /// Its name; control characters are replaced.
    pub name: String,
    /// Whose it is.
    pub source: CounterSource,
    /// By how much it rose; several of one name are added.
    pub increase: u64,
    /// What it says of frames; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<CounterMeaning>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// Whose counter it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CounterSource {
    /// The kernel's, the same for all drivers (`ip -s -s link`).
    Kernel,
    /// The driver's own (`ethtool -S`).
    Driver,
}

/// What a counter that rose says of frames.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CounterMeaning {
    /// Frames came in and were dropped for want of room.
    DroppedIn,
    /// Frames came in damaged.
    Damaged,
    /// The host dropped frames that the card had brought: too long, of a protocol that nobody takes, or for want of room.
    DroppedByHost,
    /// Frames were to leave and were dropped.
    DroppedOut,
    /// The other end asked for a pause.
    PausedByPeer,
    /// The card asked the other end for a pause.
    PausedPeer,
    /// Something had to wait.
    Waited,
}

/// A setting that was another at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CardChange {
    /// Which one: "receive ring".
    pub setting: String,
    /// Its value before the run.
    pub before: String,
    /// Its value after it.
    pub after: String,
}

/// Which transmit queues the frames of a sending thread leave by, by its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransmitQueue {
    /// The queues: one, or several that a hash of the frame chooses among.
    pub queues: Vec<u32>,
    /// What decides it.
    pub by: QueueChoice,
}

/// What decides by which transmit queue a frame leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueChoice {
    /// The interface has one.
    #[default]
    Only,
    /// The CPU's queues in the kernel's table (XPS).
    Xps,
    /// The number of the CPU, modulo the queues.
    Cpu,
    /// The sender itself, which has it for itself.
    Sender,
}
