//! D-ITG's signalling, flows and log in both roles, against the real programs (ITGSend, ITGRecv, ITGDec 2.8.1).
//!
//! | role | |
//! |---|---|
//! | receiver, for `ITGSend` | [`Server::bind`], [`Server::run`] |
//! | sender, to `ITGRecv` | [`client::run`] |
//!
//! Flows go over UDP and TCP, measured one way or as round trips. Both roles tell what happens as [`Event`]s, and leave a
//! [`FlowResult`] of each flow; both write the log that `ITGDec` reads where they are given a [`LogFile`]. Each role is one thread,
//! that of its caller, in the network namespace of that thread, and looks twenty times a second whether it is to stop. What a
//! sender may ask a receiver for is bounded ([`Limits`]): nothing that it says names a file, a host or an address that is not its
//! own; packets are taken from the host of its signalling connection alone, and sent back to that host alone.
//!
//! ```no_run
//! use wirebeat_ditg::{Event, FlowSpec, Server, ServerOptions, client};
//!
//! # fn main() -> Result<(), wirebeat_ditg::Error> {
//! let stop = || false;
//! // wirebeat serve --ditg --listen 0.0.0.0:9000
//! let mut server = Server::bind("0.0.0.0:9000".parse().unwrap(), ServerOptions::default(), None)?;
//! server.run(&stop, &mut |event| {
//!     if let Event::Ended(flow) = event {
//!         println!("{} packets of flow {} from {}", flow.packets, flow.flow, flow.source);
//!     }
//! })?;
//! // wirebeat load --ditg 192.0.2.1
//! let receiver = "192.0.2.1:9000".parse().unwrap();
//! let result = client::run(receiver, &FlowSpec::default(), None, &stop, &mut |_| {})?;
//! println!("{} flows", result.flows.len());
//! # Ok(())
//! # }
//! ```
//!
//! Layers: [`control`] is the signalling and [`payload`] the headers of packets, both sans I/O; [`log`] the binary log;
//! `measurement` what is counted; `server` and `client` the two roles; [`result`] what comes out. Knows nothing of scenarios, runs
//! and reports.

pub mod client;
pub mod control;
mod error;
mod event;
pub mod log;
mod measurement;
pub mod payload;
pub mod result;
mod server;
mod socket;
mod spec;

pub use error::Error;
pub use event::{Event, FlowBegins, Interval};
pub use log::LogFile;
pub use result::FlowResult;
pub use server::{Limits, Server, ServerOptions};
pub use spec::{Amount, FlowSpec};
