//! The wires of iperf3 and of iperf 2 over TCP, in both roles, against the real programs.
//!
//! [`Server::bind`] and [`Server::run`] serve unmodified iperf3 clients; [`client::run`] runs a [`TestSpec`] against an iperf3
//! server. Both report what happens as [`Event`]s while it happens, and leave a [`TestResult`]: what each end counted of each stream,
//! as plain data, and whether both agree. A [`Stop`] ends either in order. A server bounds what a remote party can ask
//! for ([`Limits`]), and sends only to the address that the control connection came from.
//!
//! ```no_run
//! use wirebeat_iperf::{Event, Server, ServerOptions, Stop, TestSpec, client};
//!
//! # fn main() -> Result<(), wirebeat_iperf::Error> {
//! let stop = Stop::new(); // `stop.ask()` from another thread or a signal handler's thread
//! // wirebeat serve --iperf3
//! let mut server = Server::bind("0.0.0.0:5201".parse().unwrap(), ServerOptions::default())?;
//! server.run(&stop, &mut |event| {
//!     if let Event::Ended(Ok(result)) = event {
//!         println!("{} B received", result.received().get());
//!     }
//! })?;
//! // wirebeat load --iperf3 192.0.2.1
//! let spec = TestSpec { streams: 4, ..TestSpec::default() };
//! let target = client::Target::new("192.0.2.1:5201".parse().unwrap());
//! let result = client::run(&target, &spec, &stop, &mut |_| {})?;
//! # Ok(())
//! # }
//! ```
//!
//! Layers: [`control`] is the signalling, sans I/O; `data` the threads that move the payload; `server` and `client` the two
//! roles; [`result`] what comes out. Knows nothing of scenarios, runs and reports.

mod channel;
pub mod client;
pub mod control;
mod data;
mod error;
mod event;
mod measurement;
mod output;
mod pace;
pub mod result;
mod server;
mod socket;
mod spec;
mod stop;

pub use error::{Error, Refusal};
pub use event::{Event, Started};
pub use result::TestResult;
pub use server::{Limits, OutputForm, Server, ServerOptions};
pub use spec::{Amount, Direction, Protocol, TestSpec};
pub use stop::Stop;
