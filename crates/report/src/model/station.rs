//! Where a run took place and what it cost: hosts, ports, clocks, CPU time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::card::{Card, TransmitQueue};
use super::stats::Stats;

/// A port of a run and the machine that it is in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Station {
    /// The machine.
    pub host: Host,
    /// The interface; `null` where the system chose it.
    pub interface: Option<String>,
    /// The network namespace, where it is not the machine's own.
    pub namespace: Option<String>,
    /// The engine's name: "kernel", "packet", "socket".
    pub engine: String,
    /// Why it is this engine: "asked for by name", or what 'auto' went by.
    #[serde(default)]
    pub engine_reason: String,
    /// How the engine works here: "native XDP, live frames".
    pub mode: String,
    /// Speed of the link, where it is known.
    pub link_bits_per_second: Option<u64>,
    /// How deadlines are awaited: "spin", "hybrid", "sleep", "in the kernel"; `null` for receivers.
    pub wait: Option<String>,
    /// The transmit queues of the interface that are in use; absent where nothing is sent, or nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_queues: Option<u32>,
    /// Its card, as its driver and the kernel tell of it; absent where there is none, or nobody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// The CPUs that the port's threads are bound to; empty when they are not.
    pub cpus: Vec<u32>,
    /// What was in force for each of its threads that send or receive; none where the kernel receives by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<Thread>,
    /// How they were taken from a sender; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<Interruptions>,
    /// Who stamps the frames, and when: "the kernel, in the driver before the stack (XDP)". Where the card stamps,
    /// `hardware_timestamps` says more.
    #[serde(default)]
    pub timestamps: String,
    /// The clock that its times are read from.
    pub clock: Clock,
    /// What its card stamped, by a clock of its own; absent where the system stamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_timestamps: Option<HardwareTimestamps>,
}

/// What a card stamped by a clock of its own, and how its times are converted to the clock of the port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareTimestamps {
    /// The card's clock: "/dev/ptp0".
    pub clock: String,
    /// What the driver calls it.
    pub clock_name: Option<String>,
    /// How it is read beside the system's: "PTP_SYS_OFFSET_EXTENDED".
    pub read_by: String,
    /// How far a converted time can have been off, at the most: the bounds of the two clocks' difference.
    pub conversion_bound_ns: u64,
    /// What it gained on the system's clock at the end, in millionths: between `drift_low_ppm` and `drift_high_ppm`.
    pub drift_low_ppm: f64,
    /// See `drift_low_ppm`.
    pub drift_high_ppm: f64,
    /// How often it, or the clock of the day, was set meanwhile.
    pub steps: u64,
    /// Which received frames it stamps: "all received frames"; `null` where nothing is received.
    pub receive: Option<String>,
    /// Received frames that it stamped: their arrival times are the card's.
    pub received: u64,
    /// Received frames that it did not stamp. They are counted, and are in no delay and in no time between arrivals.
    pub received_unstamped: u64,
    /// Sent frames that were to be stamped: a sample.
    pub sent_asked: u64,
    /// Those of them that it stamped.
    pub sent: u64,
    /// Send lateness on the wire: when frames left by the card's clock, less their deadline; of those that were stamped
    /// and had one.
    pub wire_send_lateness_ns: Stats,
    /// When frames left by the card's clock, less when they were handed over.
    pub hand_over_to_wire_ns: Stats,
}

impl Station {
    /// All of its distributions.
    pub(super) fn distributions(&mut self) -> impl Iterator<Item = &mut Stats> {
        let stamps = self.hardware_timestamps.iter_mut();
        let stamps = stamps.flat_map(|stamps| {
            [&mut stamps.wire_send_lateness_ns, &mut stamps.hand_over_to_wire_ns]
        });
        stamps.chain(self.interruptions.iter_mut().map(|of| &mut of.lengths_ns))
    }
}

/// How a thread competed for a CPU during a run (sched(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// What it did: "send", "receive".
    pub role: String,
    /// The CPUs that it could run on at the end, in order.
    pub cpus: Vec<u32>,
    /// The CPU that was chosen for it and that others kept, so that it was let go to others during the run; absent where it
    /// stayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<u32>,
    /// By which transmit queues its frames leave from that CPU; absent where nobody knows, and of those that send nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_queue: Option<TransmitQueue>,
    /// Its policy: "SCHED_OTHER", "SCHED_FIFO".
    pub policy: String,
    /// Its nice value, -20 to 19: the lower, the heavier.
    pub nice: i32,
    /// The slice that it asked for, in nanoseconds; `null` where it asked for none or the kernel takes none.
    pub slice_ns: Option<u64>,
    /// Its priority within SCHED_FIFO, 1 to 99; `null` with any other policy.
    pub realtime_priority: Option<u32>,
    /// Why it had less than it asked for; `null` where it had that.
    pub note: Option<String>,
}

/// What came between while a sender was at work in the kernel, by the times between two readings of the clock: timer ticks,
/// interrupts, other programs, the hypervisor. What is due meanwhile leaves late, whatever the sender does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interruptions {
    /// For how long it was there in nanoseconds, on all its CPUs together; of the rest nothing is known.
    pub listened_ns: u64,
    /// How long they were, in nanoseconds: those of 1 µs and more while it waited, of 10 µs and more at other times.
    pub lengths_ns: Stats,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its operating system's kernel and version.
    pub kernel: String,
    /// Its CPU model.
    pub cpu_model: String,
    /// Its CPUs.
    pub cpus: u32,
}

/// A clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Its name: "CLOCK_MONOTONIC".
    pub name: String,
    /// Whether and how it is synchronised, in words: "synchronised (NTP)".
    pub synchronisation: String,
    /// How far it can be from true time; `null` when nobody knows.
    pub offset_bound_ns: Option<u64>,
    /// How exactly its distance from the clock of the day of its host is known, which logs and probes of other tools
    /// carry; `null` when it was not measured.
    #[serde(default)]
    pub unix_bound_ns: Option<u64>,
}

/// How the clocks of the two ends relate, on which one-way delays depend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelayClock {
    /// How they relate.
    pub relation: Relation,
    /// One-way delays are uncertain by this much: 0 with one clock, `null` when it is not known.
    pub uncertainty_ns: Option<u64>,
    /// Why so, in a few words.
    pub explanation: String,
}

/// How two clocks relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// They are one clock.
    Same,
    /// Their offset is known up to a bound.
    Bounded,
    /// Nothing is known of their offset.
    Unbounded,
}

/// CPU time that a role took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Who took it: "transmit", "receive".
    pub role: String,
    /// CPU seconds in the program.
    pub user_seconds: f64,
    /// CPU seconds in the kernel on its behalf.
    pub system_seconds: f64,
    /// CPU seconds of interrupts on its CPUs while it ran, whoever caused them; `null` where the system
    /// does not tell.
    pub interrupt_seconds: Option<f64>,
    /// All of these for each second of the run.
    pub cpus: f64,
    /// Frames that it sent or received; in a run of sessions alone, sessions that it opened or accepted.
    pub frames: u64,
    /// All of these for each of them; `null` without any.
    pub nanoseconds_per_frame: Option<f64>,
}
