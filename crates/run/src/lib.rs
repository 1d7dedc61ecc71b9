//! Scenario in, progress while it runs, report out: the only API that control planes use.
//!
//! A [`Lab`] has the ports of a scenario, found and ready, and serves any number of runs on them. For a single run
//! [`prepare`] resolves links, compiles the scenario and opens its ports; nothing is sent yet, and
//! whatever is missing on this machine is found here. [`Prepared::begin`] finds what a receiver on another host cannot do.
//! [`Prepared::start`] then runs to the end and always gives a [`Report`]; on the way its flows can be changed by a
//! [`Control`]. [`receive()`] is a receiver by itself; with a listener it also measures for a sender on another host
//! ([`remote`]). This crate owns threads, clocks and cores, and does not know how it is asked.

mod applications;
mod attribution;
mod cards;
mod check;
pub mod control;
mod damage;
mod day_clock;
pub mod ditg;
pub mod doctor;
mod engines;
mod error;
mod expectations;
mod facts;
mod files;
mod flows;
mod granted;
mod intervals;
pub mod iperf;
mod lab;
mod links;
mod listening;
mod logged;
mod observe;
pub mod options;
mod other_tool;
mod outcome;
mod placement;
mod ports;
mod prepared;
mod priority;
mod queues;
pub mod receive;
mod receivers;
pub mod recorded;
mod refusals;
mod refused;
mod regular;
pub mod remote;
mod replay;
mod sessions;
mod side_by_side;
mod spread;
mod starvation;
mod tapping;
mod timestamps;
mod transmit;

pub use check::check_program;
pub use control::{Control, ControlError, Controlled};
pub use engines::frame_max;
pub use error::RunError;
pub use files::{FilesFound, find as find_files, read as read_files, read_one as read_file};
pub use lab::Lab;
pub use logged::{repair as repair_log, report as report_log};
pub use observe::{Heard, Observer, Once, Progress, SessionProgress, Silent, Stop};
pub use options::{KeySource, Options, Peer};
pub use prepared::{Prepared, prepare};
pub use receive::{LogRequest, ReceiveRequest, receive};
pub use regular::open as open_regular;
pub use replay::{TemplatePackets, template_packets};
pub use tapping::PacketLogRequest;
pub use wirebeat_capture::file::{CaptureOptions, Comments, Fcs, FileFormat};
pub use wirebeat_capture::packet_log::{LineOptions, LogForm, PacketLogOptions};
pub use wirebeat_engine_linux::group::Group;
pub use wirebeat_engine_linux::standard_output::was_open as had_standard_output;
pub use wirebeat_meter::bins::Bins;
pub use wirebeat_meter::filter::Filter;
pub use wirebeat_report::exit::Exit;
pub use wirebeat_report::model::{Interval, Report};
pub use wirebeat_tls::Trusted;
pub use wirebeat_wire::codec::Codec;
pub use wirebeat_wire::mac::MacAddr;
