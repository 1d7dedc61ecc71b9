//! The xdp engine: frames through AF_XDP sockets, which the driver sends from the memory that they are built in and receives into
//! that which they are read from, where it can (`Documentation/networking/af_xdp.rst`).
//!
//! An [`XdpQueue`] is one queue of an interface: a UMEM (`umem`) with a socket (`socket`) and rings (`ring`) for each direction.
//! [`XdpTx`] and [`XdpRx`] take its halves. A program ([`Steering`]) hands frames that are measured to the sockets and lets all
//! others pass. [`StationRx`] receives for a host that is played on the link. What the driver is told of a frame, and says of it, lies before it (`metadata`). Without zero copy the kernel copies each frame; the report says which it is.

mod frames;
mod metadata;
mod queue;
mod receive;
mod ring;
mod socket;
mod station;
mod steering;
mod transmit;
mod umem;

pub use queue::{Backlog, XdpOptions, XdpQueue, needs_several_buffers};
pub use receive::XdpRx;
pub use socket::XdpCopy;
pub use station::{CoreRx, StationRx};
pub use steering::{KnownOfFrames, StationMask, SteerOptions, Steering};
pub use transmit::{CardOrders, XdpTx};

use wirebeat_engine::port::PortError;

const ENGINE: &str = "xdp";

/// That this process may open AF_XDP sockets, and that the kernel has them.
///
/// # Errors
/// Not, with what would help.
pub fn probe() -> Result<(), PortError> {
    socket::probe()
}
