//! What a group of sessions is, beside when and what: whom it talks to, how many at a time, and what is asked of TCP. Plain data
//! that the language writes and programs carry as it is.

pub mod limit;
pub mod pool;
pub mod tcp;
pub mod transport;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Nanos, Rate};

pub use limit::{Beyond, Limit, gap};
pub use pool::{AddressPool, AddressRange, Pool, PoolOrder, PortPool, PortRange};
pub use tcp::{KeepAlive, RtoSpec, TcpSpec};
pub use transport::{MAX_DATAGRAM, MAX_STAMPED, NUMBER, OnTimeout, STAMP, Transport};

/// The most bytes of a message of a session: 1 TiB, so that a sum of them does not overflow.
pub const MAX_DATA: u64 = 1 << 40;

/// How many variables each end of a session has, where its program is written out: they are part of its state.
pub const VARIABLES: usize = 4;

/// How many ops of a session follow each other at most without one that waits; a session that has more is given up.
pub const OPS_WITHOUT_WAIT: u32 = 100_000;

/// As many requests as this, the most there can be, are as many as there is time for: a client makes no more of them when its group stops.
pub const ENDLESS: u32 = u32::MAX;

/// By what the sessions of both ends are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// They are not: the sums of the ends are compared.
    #[default]
    Totals,
    /// By a number that is the first that a client says: it passes whatever changes addresses and ports.
    Payload,
}

/// Whose TCP speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StackChoice {
    /// The operating system's, by sockets. Needs no privilege.
    #[default]
    Host,
    /// Our own, over the engine of the port, with hosts of its own on the link.
    Own,
}

impl StackChoice {
    /// All of them.
    pub const ALL: [StackChoice; 2] = [StackChoice::Host, StackChoice::Own];

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            StackChoice::Host => "host",
            StackChoice::Own => "own",
        }
    }
}

/// What is at its default is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How many in a second a rate is, where that is a whole number.
pub fn whole_per_second(rate: &Rate) -> Option<u64> {
    let Rate::Frames(rate) = rate else { return None };
    let second = Nanos::from_secs(1).get();
    let times = second.is_multiple_of(rate.per.get()).then(|| second / rate.per.get());
    times.and_then(|times| rate.frames.checked_mul(times))
}

/// Writes a rate as people do, 1000/s rather than 1kpps, where it is a whole number a second.
pub(crate) fn per_second<S: serde::Serializer>(
    rate: &Rate,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match whole_per_second(rate) {
        Some(whole) => serializer.collect_str(&format_args!("{whole}/s")),
        None => rate.serialize(serializer),
    }
}
