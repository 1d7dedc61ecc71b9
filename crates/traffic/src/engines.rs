//! The table of engines: one row each, and all that may be asked of an engine by name.
//!
//! The language needs the names and what an engine can do, to check a scenario; a run needs how an engine opens a port. Both
//! come from [`for_each_engine!`](crate::for_each_engine): here it makes [`Engine`], its rows and the words of the language
//! ([`EngineChoice`]); in the crate `run` it makes the list of drivers, from the module that each row names
//! (`run/src/engines/`). A new engine is a row here and a module there. Nothing else names an engine: who wants to know
//! something of one asks its row, and a test holds that (`tests/tests/it/engines.rs`).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hands the table of engines to the macro `$rows`: for each engine the module that drives it in the crate `run`, the name of
/// its variant, and its row. The order is that of lists in help texts and messages.
#[macro_export]
macro_rules! for_each_engine {
    ($rows:ident) => {
        $rows! {
            kernel Kernel {
                name: "kernel",
                about: "Inside the kernel, by eBPF programs",
                needs: "Linux 5.18, CAP_BPF and CAP_NET_ADMIN, a driver with XDP redirect",
                auto: Some(1),
                stamps: ("the kernel, when the frame goes to the driver", "the kernel, in the driver before the stack (XDP)"),
                clock: Clock::Monotonic,
                link: InterfaceUse::Needed,
                pinning: Pinning::OwnThread,
                transmit_queue: TransmitQueue::ByDriver,
                can: [
                    Deliver, Receive, SeeHeaders, MeterInKernel, Repeat, Hold, ShareMemory, PassOnRequest,
                    CarrySessions, OneProgram,
                ],
            }
            packet Packet {
                name: "packet",
                about: "Packet sockets with memory-mapped rings; any interface",
                needs: "CAP_NET_RAW",
                auto: Some(2),
                stamps: ("user space, when the frame is built", "the kernel, when the driver hands the frame to the stack"),
                clock: Clock::Monotonic,
                link: InterfaceUse::Needed,
                pinning: Pinning::CallingThread,
                transmit_queue: TransmitQueue::ByStack,
                can: [
                    Deliver, Receive, ReceiveQueues, SeeHeaders, Codecs, Reassemble, HardwareTimestamps,
                    ConfirmSent, PassAlways, CarrySessions, CarryUnasked,
                ],
            }
            socket Socket {
                name: "socket",
                about: "UDP sockets; no privilege",
                needs: "no privilege",
                auto: Some(3),
                stamps: ("user space, when the datagram is built", "the kernel, when the driver hands the frame to the stack"),
                clock: Clock::Monotonic,
                link: InterfaceUse::Optional,
                pinning: Pinning::CallingThread,
                transmit_queue: TransmitQueue::ByFlow,
                can: [Deliver, Receive, Codecs, Reassemble, HardwareTimestamps, ConfirmSent],
            }
            xdp Xdp {
                name: "xdp",
                about: "AF_XDP sockets: frames in memory that is shared with the driver",
                needs: "Linux 5.4, CAP_NET_RAW; to receive CAP_BPF and CAP_NET_ADMIN",
                auto: None,
                stamps: ("user space, when the frame is built", "user space, when the frame is read from the ring"),
                clock: Clock::Monotonic,
                link: InterfaceUse::Needed,
                pinning: Pinning::CallingThread,
                transmit_queue: TransmitQueue::BySender,
                can: [
                    Deliver, Receive, ReceiveQueues, SeeHeaders, Codecs, Reassemble, ConfirmSent, ChooseXdpMode,
                    SeveralBuffers, HardwareTimestamps, OneProgram,
                ],
            }
            null Null {
                name: "null",
                about: "Nowhere: frames are made, counted and dropped; measures what Wirebeat costs without I/O",
                needs: "nothing",
                auto: None,
                stamps: ("user space, when the frame is built", ""),
                clock: Clock::Monotonic,
                link: InterfaceUse::None,
                pinning: Pinning::CallingThread,
                transmit_queue: TransmitQueue::None,
                can: [SeeHeaders, ConfirmSent],
            }
            pcap Pcap {
                name: "pcap",
                about: "Into a pcapng file, with the deadlines as timestamps",
                needs: "a file to write",
                auto: None,
                stamps: ("the deadline, on a virtual clock", ""),
                clock: Clock::Virtual,
                link: InterfaceUse::None,
                pinning: Pinning::None,
                transmit_queue: TransmitQueue::None,
                can: [SeeHeaders, Hold, WriteFile, ConfirmSent, CarrySessions],
            }
            loopback Loopback {
                name: "loopback",
                about: "In memory, on a virtual clock",
                needs: "nothing",
                auto: None,
                stamps: ("a virtual clock", "a virtual clock"),
                clock: Clock::Virtual,
                link: InterfaceUse::None,
                pinning: Pinning::None,
                transmit_queue: TransmitQueue::None,
                can: [Deliver, Receive, SeeHeaders, Codecs, Reassemble, ConfirmSent, CarrySessions],
            }
        }
    };
}

/// The clock that an engine runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The monotonic clock of the host.
    Monotonic,
    /// A clock of its own: a run takes no time, and is the same every time.
    Virtual,
}

/// Whether an engine uses a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceUse {
    /// It cannot do without.
    Needed,
    /// The system chooses one where none is named.
    Optional,
    /// It has none.
    None,
}

/// Which thread sends, and so has to be put on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// The thread that drives the port.
    CallingThread,
    /// A thread of the engine, which puts itself there.
    OwnThread,
    /// Any: no time passes while it sends.
    None,
}

/// How the transmit queue of a frame is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitQueue {
    /// By the stack, from the CPU that sends (XPS).
    ByStack,
    /// By the driver, from the CPU that sends.
    ByDriver,
    /// By the system, from the flow.
    ByFlow,
    /// By the sender: each has one of its own, in the order of the senders unless the port names others.
    BySender,
    /// There are no queues.
    None,
}

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// What it sends arrives at another port.
    Deliver,
    /// It receives.
    Receive,
    /// Several threads divide among them what arrives at a port.
    ReceiveQueues,
    /// It sends and receives whole frames. Without this the system makes the headers, and no receiver sees them.
    SeeHeaders,
    /// The kernel meters what arrives; no thread does.
    MeterInKernel,
    /// It reads the probes of other tools.
    Codecs,
    /// It puts fragments together.
    Reassemble,
    /// It repeats a period of frames by itself.
    Repeat,
    /// It holds a frame until its launch time.
    Hold,
    /// It takes payloads from memory that it shares, without a copy.
    ShareMemory,
    /// The card can stamp what it sends and receives.
    HardwareTimestamps,
    /// What it counts as sent was accepted by the driver. Without this a driver may refuse frames later.
    ConfirmSent,
    /// What it receives goes on to the programs of the host as well.
    PassAlways,
    /// The same, where that is asked for.
    PassOnRequest,
    /// How it uses XDP can be chosen, and whether its threads serve the card themselves.
    ChooseXdpMode,
    /// Its program on an interface sees frames that lie in several buffers of the driver.
    SeveralBuffers,
    /// It writes frames to a file.
    WriteFile,
    /// Our own TCP sends and receives over it.
    CarrySessions,
    /// The same where no engine is named.
    CarryUnasked,
    /// It receives by an XDP program, of which an interface has one.
    OneProgram,
}

/// What is known of an engine.
#[derive(Debug)]
pub struct Row {
    /// Its name in scenarios, flags and reports.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What it needs of the machine and the process.
    pub needs: &'static str,
    /// Its place in `auto`, the lowest first; `None`: only by name.
    pub auto: Option<u8>,
    /// Who stamps what leaves, and what arrives, and when; empty where nothing does.
    pub stamps: (&'static str, &'static str),
    /// Its clock.
    pub clock: Clock,
    /// Whether it uses a network interface.
    pub link: InterfaceUse,
    /// Which thread is pinned.
    pub pinning: Pinning,
    /// How transmit queues are chosen.
    pub transmit_queue: TransmitQueue,
    /// What it can do.
    pub can: &'static [Ability],
}

/// Makes the types and the rows of the table.
macro_rules! table {
    ($($module:ident $variant:ident {
        name: $name:tt, about: $about:tt, needs: $needs:expr, auto: $auto:expr,
        stamps: $stamps:expr, clock: $clock:expr, link: $link:expr, pinning: $pinning:expr, transmit_queue: $queue:expr, can: [$($ability:ident),* $(,)?],
    })*) => {
        /// An engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Engine {
            $(#[doc = $about] $variant,)*
        }

        impl Engine {
            /// All engines, in the order of the table.
            pub const ALL: &[Engine] = &[$(Engine::$variant),*];

            /// What is known of it.
            pub const fn row(self) -> &'static Row {
                match self {
                    $(Engine::$variant => {
                        const ROW: Row = Row {
                            name: $name, about: $about, needs: $needs, auto: $auto, stamps: $stamps, clock: $clock,
                            link: $link, pinning: $pinning, transmit_queue: $queue, can: &[$(Ability::$ability),*],
                        };
                        &ROW
                    })*
                }
            }
        }

        /// How frames are sent and received.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum EngineChoice {
            /// The fastest engine that this machine and the flows allow; the report names it.
            #[default]
            #[serde(rename = "auto")]
            Auto,
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl EngineChoice {
            /// The engine that is asked for; `None` leaves it to the machine.
            pub const fn engine(self) -> Option<Engine> {
                match self {
                    EngineChoice::Auto => None,
                    $(EngineChoice::$variant => Some(Engine::$variant),)*
                }
            }
        }

        impl From<Engine> for EngineChoice {
            fn from(engine: Engine) -> EngineChoice {
                match engine {
                    $(Engine::$variant => EngineChoice::$variant,)*
                }
            }
        }
    };
}

for_each_engine!(table);

impl Engine {
    /// Its name in scenarios, flags and reports.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it can do this.
    pub fn can(self, ability: Ability) -> bool {
        self.row().can.contains(&ability)
    }

    /// Whether it runs on a virtual clock.
    pub fn is_virtual(self) -> bool {
        self.row().clock == Clock::Virtual
    }

    /// Whether it cannot do without a network interface.
    pub fn needs_link(self) -> bool {
        self.row().link == InterfaceUse::Needed
    }

    /// Whether frames go to or come from a network.
    pub fn has_network(self) -> bool {
        self.row().link != InterfaceUse::None
    }

    /// Whether a sender can choose the transmit queue: by its CPU, or itself.
    pub fn chooses_queue(self) -> bool {
        !matches!(self.row().transmit_queue, TransmitQueue::ByFlow | TransmitQueue::None)
    }

    /// The engines that `auto` chooses from, the fastest first.
    pub fn automatic() -> impl Iterator<Item = Engine> {
        let mut order: Vec<Engine> =
            Engine::ALL.iter().copied().filter(|engine| engine.row().auto.is_some()).collect();
        order.sort_by_key(|engine| engine.row().auto);
        order.into_iter()
    }

    /// The names of the engines of which `of` holds, for messages: `'kernel', 'packet' or 'socket'`.
    pub fn names(of: impl Fn(Engine) -> bool) -> String {
        let chosen = Engine::ALL.iter().copied().filter(|engine| of(*engine));
        let names: Vec<String> = chosen.map(|engine| format!("'{engine}'")).collect();
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "another".to_owned(),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl EngineChoice {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self.engine() {
            Some(engine) => engine.name(),
            None => "auto",
        }
    }

    /// Whether the engine that is asked for can do this; `false` where it is left to the machine.
    pub fn can(self, ability: Ability) -> bool {
        self.engine().is_some_and(|engine| engine.can(ability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_as_its_engine() {
        for &engine in Engine::ALL {
            let name = serde_json::to_value(engine.name()).unwrap();
            let read: EngineChoice = serde_json::from_value(name).unwrap();
            assert_eq!((read, read.engine()), (engine.into(), Some(engine)));
            assert_eq!(read.name(), engine.to_string());
        }
        assert_eq!(EngineChoice::default().engine(), None);
    }

    #[test]
    fn automatic_engines_deliver_on_the_hosts_clock_and_have_places_of_their_own() {
        let places: Vec<Option<u8>> = Engine::automatic().map(|one| one.row().auto).collect();
        assert!(places.windows(2).all(|two| two[0] < two[1]), "{places:?}");
        for engine in Engine::automatic() {
            assert!(!engine.is_virtual() && engine.has_network(), "{engine}");
            assert!(engine.can(Ability::Deliver) && engine.can(Ability::Receive), "{engine}");
        }
    }

    #[test]
    fn engines_are_listed_for_a_reader() {
        assert_eq!(Engine::names(|engine| engine.can(Ability::WriteFile)), "'pcap'");
        assert_eq!(Engine::names(Engine::chooses_queue), "'kernel', 'packet' or 'xdp'");
        assert_eq!(Engine::names(Engine::has_network), "'kernel', 'packet', 'socket' or 'xdp'");
    }
}
