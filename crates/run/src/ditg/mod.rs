//! D-ITG's flows: a receiver for `ITGSend`, and a sender to `ITGRecv`, reported as sessions.
//!
//! Signalling, flows and the log are the crate `ditg`'s; here its results become a report (`totals.rs`). A flow is a group of one
//! session, and its packets are messages one way; with round trips they are requests and responses at the end that sends.

mod totals;

use std::net::SocketAddr;
use std::path::Path;

use wirebeat_ditg::control::Meter;
use wirebeat_ditg::result::{FlowEnd, LoadEnd};
use wirebeat_ditg::{
    Error, Event, FlowBegins, FlowResult, Limits, LogFile, Server, ServerOptions, client,
};
use wirebeat_report::assemble::SessionIntervalCounts;
use wirebeat_report::model::{self, Report, SessionEnd};
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_units::{Nanos, fault, human};

use crate::error::RunError;
use crate::observe::{Observer, Stop};
use crate::options::Options;
use crate::other_tool::{Came, Ends, Telling, interval};
use totals::Totals;

pub use wirebeat_ditg::control::{DATA_PORT, Meter as FlowMeter, PORT, Transport};
pub use wirebeat_ditg::{Amount, FlowSpec};

/// The name in reports.
const NAME: &str = "d-itg";
/// The longest flow, unless it is written.
pub const LONGEST: Nanos = Nanos::from_secs(3600);

/// Sends flows to the receiver whose signalling is at this address, of which `expected` has to come: what this end counts. The
/// packets are recorded in `log`, which ITGDec reads.
///
/// # Errors
/// The receiver cannot be reached or does not take the flows; the log cannot be made.
pub fn load(
    receiver: SocketAddr,
    (spec, log): (&FlowSpec, Option<&Path>),
    expected: &[Expectation],
    options: &Options,
    (observer, stop): (&mut dyn Observer, &Stop),
) -> Result<Report, RunError> {
    let log = log.map(create).transpose()?;
    let mut run = Run::begin(SessionEnd::Client, observer);
    run.told.duration = match spec.amount {
        Amount::Time(time) => Some(time),
        Amount::Packets(_) => None,
    };
    let spec = FlowSpec { interval: Some(interval(options)), ..*spec };
    let asked = || stop.asked();
    let ended = client::run(receiver, &spec, log, &asked, &mut |event| run.take(&event));
    let result = ended.map_err(|error| match error {
        Error::Invalid(fault) => RunError::usage(fault),
        error => RunError::machine(error.fault()),
    })?;
    let failed = match result.end {
        LoadEnd::Completed | LoadEnd::Stopped => None,
        LoadEnd::Failed(fault) => Some(format!("the flows broke: {fault}")),
    };
    let judged = run.totals.judge(expected, run.told.elapsed());
    let mut report = run.report(options, stop, failed);
    if let Some(group) = report.sessions.first_mut() {
        group.expectations = judged;
    }
    report.judge();
    report.judge_stop();
    Ok(report)
}

/// Receives the flows of any ITGSend at this address for a time, or until it is asked to stop. No flow is longer than `longest`. The packets are
/// recorded in `log`, which ITGDec reads: which file that is, no sender says.
///
/// # Errors
/// The address cannot be listened on; the log cannot be made.
pub fn serve(
    address: SocketAddr,
    (time, longest, log): (Option<Nanos>, Nanos, Option<&Path>),
    options: &Options,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Report, RunError> {
    let log = log.map(create).transpose()?;
    let limits = Limits { time: longest, ..Limits::default() };
    let serving = ServerOptions { limits, interval: Some(interval(options)) };
    let server = Server::bind(address, serving, log);
    let mut server = server.map_err(|error| RunError::machine(error.fault()))?;
    let address = server.address();
    observer.notice(&format!("{NAME}: listening at {address}"));
    observer.listening(address);
    let mut run = Run::begin(SessionEnd::Server, observer);
    let ends = Ends::after(time, stop);
    let ended = server.run(&|| ends.now(), &mut |event| run.take(&event));
    let failed = ended.err().map(|error| error.fault().to_string());
    Ok(run.report(options, stop, failed))
}

/// Makes the file of a log.
fn create(path: &Path) -> Result<LogFile, RunError> {
    LogFile::create(path).map_err(|error| {
        let path = wirebeat_units::printable::printable(&path.display().to_string()).to_string();
        RunError::Output(fault!("cannot make the log '{path}': {error}"))
    })
}

/// A run: who is told, and what its flows come to.
struct Run<'a> {
    told: Telling<'a>,
    totals: Totals,
}

impl<'a> Run<'a> {
    fn begin(end: SessionEnd, observer: &'a mut dyn Observer) -> Run<'a> {
        Run { told: Telling::begin(NAME, end, observer), totals: Totals::default() }
    }

    /// Takes what happens.
    fn take(&mut self, event: &Event<'_>) {
        let Run { told, totals } = self;
        match event {
            Event::Begins(begins) => {
                told.seen.opened += 1;
                told.seen.open += 1;
                told.say(&begins_line(begins, told.end));
            }
            Event::Ended(flow) => {
                told.seen.open = told.seen.open.saturating_sub(1);
                told.seen.ended += 1;
                told.seen.failed +=
                    u64::from(!matches!(flow.end, FlowEnd::InOrder | FlowEnd::Stopped));
                totals.add(flow, told.end);
                told.say(&ended_line(flow, told.end));
            }
            Event::Refused { peer, fault } => {
                totals.refused = totals.refused.saturating_add(1);
                told.say_of_failure(&format!("{peer} was refused: {fault}"));
            }
            Event::LogLeftOut(peer) => told.say_of_failure(&format!(
                "{peer} asked for a log (-x, -X), which is not written for it; --log FILE has the packets of all flows"
            )),
            Event::Interval(interval) => {
                let counted = SessionIntervalCounts {
                    from: interval.from.saturating_sub(told.at),
                    to: interval.to.saturating_sub(told.at),
                    counts: interval.counts,
                    open: interval.open,
                    ..SessionIntervalCounts::default()
                };
                told.interval(&counted);
                totals.add_interval(counted);
            }
        }
    }

    fn report(self, options: &Options, stop: &Stop, failed: Option<String>) -> Report {
        let Run { told, totals } = self;
        let end = match (crate::flows::stopped(stop), failed) {
            (Some(stopped), None) => stopped,
            (_, Some(message)) => model::End::Failed { message },
            (None, None) => model::End::Completed,
        };
        let refused = (totals.refused > 0).then(|| {
            let refused = human::counted(totals.refused, "request");
            format!("{refused} of senders refused; the lines above say why")
        });
        let (sessions, notes) = (totals.sessions(), refused.into_iter().collect());
        let groups = totals.groups(told.end);
        told.report(options, Came { end, groups, sessions, notes })
    }
}

/// A flow that begins, in a line.
fn begins_line(begins: &FlowBegins, end: SessionEnd) -> String {
    let FlowBegins { flow, peer, transport, meter, port } = begins;
    let whose = match end {
        SessionEnd::Client => format!("flow {flow} to {}", SocketAddr::new(peer.ip(), *port)),
        SessionEnd::Server => format!("flow {flow} of {} to port {port}", peer.ip()),
    };
    format!("{whose}: {}, {}", transport.name(), meter.name())
}

/// Where a flow came from; without a port where nothing came.
fn source(from: SocketAddr) -> String {
    match from.port() {
        0 => from.ip().to_string(),
        _ => from.to_string(),
    }
}

/// A flow that is over, in a line.
fn ended_line(flow: &FlowResult, end: SessionEnd) -> String {
    let verb = if end == SessionEnd::Client { "sent" } else { "received" };
    let mut line = format!(
        "flow {} from {} {}: {} with {} {verb} in {}",
        flow.flow,
        source(flow.source),
        match flow.end {
            FlowEnd::InOrder => "is over",
            FlowEnd::ClosedEarly => "was ended by the other end",
            FlowEnd::Silent => "was ended: the other end no longer answers",
            FlowEnd::TooLong => "was ended: it lasted too long",
            FlowEnd::Malformed => "was ended: the other end sent what is not D-ITG's",
            FlowEnd::Broken => "broke",
            FlowEnd::Stopped => "was stopped",
        },
        human::counted(flow.packets, "packet"),
        human::bytes(flow.bytes as f64),
        human::time(flow.time.get() as f64)
    );
    let counts = &flow.summary.counts;
    match end {
        SessionEnd::Server => {
            let lost = human::count(counts.messages_lost);
            let late = human::count(counts.messages_out_of_order);
            line.push_str(&format!("; {lost} lost, {late} out of order"));
        }
        SessionEnd::Client if flow.meter == Meter::RoundTrip => {
            let back = human::count(counts.responses);
            let lost = human::count(counts.lost_responses);
            line.push_str(&format!("; {back} came back, {lost} did not"));
        }
        SessionEnd::Client => {}
    }
    line
}
