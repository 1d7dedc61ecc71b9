//! A sender of flows to `ITGRecv`: `signalling.rs` asks for them and ends them, `sending.rs` is the loop between, `flow.rs` one
//! flow.
//!
//! All of it is one thread: it sends each packet when it is due by the rate, and meanwhile takes what comes back.

mod flow;
mod sending;
mod signalling;

use std::net::SocketAddr;

use wirebeat_sockets::clock;
use wirebeat_units::{Nanos, fault};

use crate::control::{FlowRequest, Message, PayloadKind};
use crate::event::{Event, FlowBegins};
use crate::log::LogFile;
use crate::result::{FlowEnd, LoadEnd, LoadResult};
use crate::{Error, FlowSpec};
use flow::Flow;
use sending::{Ended, Sending};
use signalling::Signalling;

/// How long a connection may take to be established.
const CONNECT: Nanos = Nanos::from_secs(10);
/// How long a receiver's host may take to acknowledge what streams have sent.
const ACKED: Nanos = Nanos::from_secs(2);
/// How long a receiver then has to read it. ITGRecv logs nothing that it has not read when a flow is declared closed, and does not say when
/// it has: its own sender loses the end of a fast stream so.
const READ: Nanos = Nanos::from_millis(300);

/// Sends flows to the receiver whose signalling is at this address. Packets are recorded in `log`: with round trips, those that
/// came back.
///
/// # Errors
/// The flows are invalid, the receiver cannot be reached, or does not take them. What breaks later is told in the result.
pub fn run(
    receiver: SocketAddr,
    spec: &FlowSpec,
    mut log: Option<LogFile>,
    stop: &dyn Fn() -> bool,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<LoadResult, Error> {
    spec.check().map_err(Error::Invalid)?;
    let mut signalling = Signalling::connect(receiver, clock().saturating_add(CONNECT))?;
    let mut flows = Vec::new();
    for number in 1..=spec.flows {
        if stop() {
            return Err(Error::Stopped);
        }
        let request = FlowRequest {
            transport: spec.transport,
            application: 0,
            meter: spec.meter,
            ds: spec.ds,
            flow: number,
            payload: PayloadKind::Standard,
            to: (receiver.ip(), spec.data_port),
        };
        signalling.send(Message::SendFlow(request))?;
        let port = signalling.flow_taken(number, stop)?;
        let to = SocketAddr::new(receiver.ip(), port);
        let deadline = clock().saturating_add(CONNECT);
        flows.push(Flow::open(number, to, spec, deadline)?);
        let (transport, meter) = (spec.transport, spec.meter);
        let begins = FlowBegins { flow: number, peer: receiver, transport, meter, port };
        events(Event::Begins(&begins));
    }
    let mut sending = Sending::new(spec, flows, log.as_mut())?;
    let ended = sending.run(&mut signalling, stop, events);
    let time = sending.time();
    let mut flows = sending.into_flows();
    flows.iter_mut().for_each(Flow::shut);
    if ended.is_ok() && flows.iter().any(Flow::is_stream) {
        let deadline = clock().saturating_add(ACKED);
        flows.iter().for_each(|flow| flow.wait_acked(deadline));
        std::thread::sleep(READ.to_duration());
    }
    // a receiver that fell silent or broke is not asked again
    let released = ended.and_then(|ended| release(&mut signalling, &flows).map(|()| ended));
    let (mut end, flow_end) = match released {
        Ok(Ended::All) => (LoadEnd::Completed, FlowEnd::InOrder),
        Ok(Ended::Stopped) => (LoadEnd::Stopped, FlowEnd::Stopped),
        Err(error) => (LoadEnd::Failed(error.fault()), end_of(&error)),
    };
    let results: Vec<_> = flows.iter().map(|flow| flow.result(spec, flow_end)).collect();
    results.iter().for_each(|result| events(Event::Ended(result)));
    if let Some(Err(error)) = log.map(LogFile::finish) {
        end = LoadEnd::Failed(fault!("cannot write the log: {error}"));
    }
    Ok(LoadResult { flows: results, time, end })
}

/// How flows end that break so.
fn end_of(error: &Error) -> FlowEnd {
    use std::io::ErrorKind;
    let of_receiver = [
        ErrorKind::BrokenPipe,
        ErrorKind::ConnectionAborted,
        ErrorKind::ConnectionReset,
        ErrorKind::UnexpectedEof,
    ];
    match error {
        Error::Silent { .. } => FlowEnd::Silent,
        Error::Closed { .. } | Error::FlowRefused { .. } => FlowEnd::ClosedEarly,
        Error::Socket { source, .. } if of_receiver.contains(&source.kind()) => {
            FlowEnd::ClosedEarly
        }
        Error::Control(_) => FlowEnd::Malformed,
        _ => FlowEnd::Broken,
    }
}

/// Closes the flows and the connection.
fn release(signalling: &mut Signalling, flows: &[Flow]) -> Result<(), Error> {
    for flow in flows {
        signalling.send(Message::ClosedFlow(flow.number))?;
    }
    signalling.all_closed(flows.len())?;
    signalling.send(Message::Release)?;
    signalling.released()
}
