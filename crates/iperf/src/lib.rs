//! The wires of iperf3 and of iperf 2 over TCP, in both roles, against the real programs.
//!
//! | role | iperf3: TCP and UDP | iperf 2: TCP |
//! |---|---|---|
//! | server | [`Server::bind`], [`Server::run`] | [`Iperf2Server::bind`], [`Iperf2Server::run`] |
//! | client | [`client::run`] | [`client::run_iperf2`] |
//!
//! A client is asked for a [`TestSpec`], a server is given [`ServerOptions`]. All report what happens as [`Event`]s while it
//! happens, and leave a [`TestResult`]: what each end counted of each stream as plain data, and where both cannot be right
//! ([`TestResult::inconsistencies`]). A [`Stop`] ends each of them in order; it is looked at ten times a second. All work in the
//! network namespace of the thread that calls them, and start threads only while a test runs: one for each direction. What a client
//! may ask a server for is bounded ([`Limits`]); over UDP a server sends only to the host that the control connection comes from, and
//! over iperf 2's wire it connects back only where [`ServerOptions::connect_back`] allows it, to the host of the client.
//!
//! ```no_run
//! use wirebeat_iperf::{Event, Server, ServerOptions, Stop, TestSpec, client};
//!
//! # fn main() -> Result<(), wirebeat_iperf::Error> {
//! let stop = Stop::new(); // `stop.ask()` from the thread that waits for signals
//! // wirebeat serve --iperf3 --listen 0.0.0.0:5201
//! let mut server = Server::bind("0.0.0.0:5201".parse().unwrap(), ServerOptions::default())?;
//! server.run(&stop, &mut |event| match event {
//!     Event::Started(started) => println!("a test with {}", started.peer),
//!     Event::Interval(interval) => println!("{} B received", interval.bytes().1.get()),
//!     Event::Ended(Ok(result)) => println!("{} B received in all", result.received().get()),
//!     Event::Ended(Err(error)) => println!("{error}"), // and `error.fault()`
//!     Event::Denied(peer) => println!("{peer} was told to come later"),
//! })?;
//! // wirebeat load --iperf3 192.0.2.1 --streams 4
//! let target = client::Target::new("192.0.2.1:5201".parse().unwrap());
//! let spec = TestSpec { streams: 4, ..TestSpec::default() };
//! let result = client::run(&target, &spec, &stop, &mut |_| {})?;
//! for stream in &result.streams {
//!     println!("{}: {:?} here, {:?} there", stream.id, stream.ours, stream.theirs);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `examples/iperf.rs` is the whole of both commands. Exit codes: a [`TestResult`] of a test that was completed is 0, one
//! that was stopped or ended by the peer ([`result::End`]), or with inconsistencies, 1; [`Error::Refused`] is 2; other errors are 1.
//!
//! Layers: [`control`] is the signalling, sans I/O; `data` the threads that move the payload; `measurement` what is counted
//! while they do; `server` and `client` the two roles; [`result`] what comes out. Knows nothing of scenarios, runs and reports.

mod channel;
pub mod client;
pub mod control;
mod data;
mod error;
mod event;
mod idle;
mod measurement;
mod output;
mod pace;
mod phase;
pub mod result;
mod server;
mod socket;
mod spec;
mod stop;

pub use error::{Error, Refusal};
pub use event::{Event, Started};
pub use result::TestResult;
pub use server::{Iperf2Server, Limits, OutputForm, Server, ServerOptions};
pub use spec::{Amount, Direction, Protocol, TestSpec};
pub use stop::Stop;
