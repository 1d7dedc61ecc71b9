//! A client of iperf 2's wire over TCP: sends, and where it is asked to lets the server connect back and send (`-d`, `-r`).

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendFlags, send};
use wirebeat_units::{Bytes, Nanos, fault};

use super::Target;
use crate::control::iperf2::{Back, Header, HeaderAmount};
use crate::data::{Carrier, Stream};
use crate::error::{Refusal, code};
use crate::event::later;
use crate::phase::Phase;
use crate::result::{End, Role, end_of};
use crate::socket::{any, connect, listen, now, set_before_connect, set_data, wait};
use crate::{Amount, Direction, Error, Event, Started, Stop, TestResult, TestSpec};

/// How often it is looked whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(100);
/// The longest time that is waited for a server to end, where only it knows when.
const LONGEST: Nanos = Nanos::from_secs(86_400);

/// Runs a test against an iperf 2 server over TCP, in the network namespace of the calling thread, until it has enough or is asked to
/// stop. An amount of bytes or blocks is that of each stream. The server is asked to connect back for [`Direction::BothWays`] (`-d`)
/// and [`Direction::InTurn`] (`-r`; a server of 2.1.8 then sometimes sends nothing where there are several streams, to iperf 2's own client
/// too: [`Target::idle`] ends that). Over this wire the server says nothing of what it counted.
///
/// # Errors
/// What is wrong with the specification or with the connections.
pub fn run_iperf2(
    target: &Target,
    spec: &TestSpec,
    stop: &Stop,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<TestResult, Error> {
    spec.check_iperf2().map_err(Error::Refused)?;
    let block = spec.block_len(0);
    let back = match spec.direction {
        Direction::BothWays => Back::AtOnce,
        Direction::InTurn => Back::Afterwards,
        Direction::Forward | Direction::Reverse => Back::None,
    };
    let amount = spec.bytes(block);
    if back != Back::None && amount.is_some_and(|bytes| bytes > i32::MAX as u64) {
        let fault = fault!("iperf 2's header has no room for such an amount"; "ask for at most 2 GB, or for a time");
        return Err(Error::Refused(Refusal::new(code::UNIMPLEMENTED, fault)));
    }
    let listener = match back {
        Back::None => None,
        _ => Some(await_server(target)?),
    };
    let port = listener.as_ref().map_or(target.address.port(), |(_, port)| *port);
    let word =
        |bytes: Option<Bytes>| bytes.map_or(0, |b| u32::try_from(b.get()).unwrap_or(u32::MAX));
    let header = Header {
        len: 0,
        streams: spec.streams,
        port,
        block: word(spec.block),
        window: word(spec.window),
        amount: match (amount, spec.amount) {
            (Some(bytes), _) => HeaderAmount::Bytes(Bytes::new(bytes)),
            (None, Amount::Time(time)) => HeaderAmount::Time(time),
            (None, _) => HeaderAmount::Time(Nanos::ZERO),
        },
        back,
        rate: spec.rate.map_or(0, |rate| rate.0),
        over_this: false,
        answered: true,
    };
    let mut streams = Vec::new();
    for index in 0..spec.streams as usize {
        if stop.asked() {
            return Err(Error::Stopped);
        }
        streams.push(open(target, index, spec, &header)?);
    }
    let (local, peer) = streams
        .first()
        .map_or((any(target.address), target.address), |stream| (stream.local, stream.remote));
    if let (Some((listener, _)), Back::AtOnce) = (&listener, back) {
        accept(listener, target, spec, stop, (&mut streams, 0))?;
    }
    events(Event::Started(&Started { peer, spec: spec.clone(), block }));
    let phase = |streams: Vec<Arc<Stream>>| Phase {
        role: Role::Client,
        local,
        peer,
        streams,
        spec,
        block,
        each: amount.unwrap_or(u64::MAX),
        time: spec.time(),
        longest: LONGEST,
        together: false,
        idle: target.idle,
    };
    let mut result = phase(streams).run(stop, &mut wait_readable, events)?;
    let (Some((listener, _)), Back::Afterwards, End::Completed) = (&listener, back, result.end)
    else {
        return Ok(result);
    };
    let sent = result.streams.len();
    let mut back = Vec::new();
    if let Err(error) = accept(listener, target, spec, stop, (&mut back, sent)) {
        (result.end, result.fault) = end_of(Err(error));
        return Ok(result);
    }
    let mut told = later(result.time, events);
    let second = phase(back).run(stop, &mut wait_readable, &mut told)?;
    Ok(result.followed_by(second))
}

fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Nanos) -> Result<(), Error> {
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    wait(&mut fds, deadline).map_err(Error::socket("wait for the streams"))
}

/// The listener that the server connects to, and its port.
fn await_server(target: &Target) -> Result<(TcpListener, u16), Error> {
    let ip = target.local.unwrap_or(any(target.address).ip());
    let address = SocketAddr::new(ip, target.back_port);
    let failed = |source| Error::Listen { address, source };
    let listener = listen(address).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// A connection whose header is sent. The header counts.
fn open(
    target: &Target,
    index: usize,
    spec: &TestSpec,
    header: &Header,
) -> Result<Arc<Stream>, Error> {
    let address = target.address;
    let deadline = now().saturating_add(target.patience);
    let set = |socket: BorrowedFd<'_>| set_before_connect(socket, spec, address);
    let socket = connect(address, target.local, deadline, set)
        .map_err(|source| Error::Connect { address, source })?;
    let stream = Stream::new(index, true, Carrier::Tcp(socket));
    let stream = stream.map_err(Error::socket("set up a stream"))?;
    let bytes = header.to_bytes();
    // the buffer of a new connection has room for it
    match send(&stream.carrier, &bytes, SendFlags::NOSIGNAL) {
        Ok(sent) if sent == bytes.len() => stream.tally.add_bytes(sent),
        Ok(_) => return Err(Error::socket("send a header")(std::io::ErrorKind::WriteZero.into())),
        Err(error) => return Err(Error::socket("send a header")(error.into())),
    }
    Ok(Arc::new(stream))
}

/// Waits until the server has connected once for each stream; `before` streams there were already. Connections of other hosts are closed.
fn accept(
    listener: &TcpListener,
    target: &Target,
    spec: &TestSpec,
    stop: &Stop,
    (streams, before): (&mut Vec<Arc<Stream>>, usize),
) -> Result<(), Error> {
    let deadline = now().saturating_add(target.patience);
    let failed = || Error::socket("set up a stream");
    let mut missing = spec.streams;
    while missing > 0 {
        match listener.accept() {
            Ok((socket, from))
                if from.ip().to_canonical() == target.address.ip().to_canonical() =>
            {
                socket.set_nonblocking(true).map_err(failed())?;
                set_data(socket.as_fd(), spec, target.address).map_err(failed())?;
                let stream = Stream::new(before + streams.len(), false, Carrier::Tcp(socket));
                streams.push(Arc::new(stream.map_err(failed())?));
                missing -= 1;
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if stop.asked() {
                    return Err(Error::Stopped);
                }
                if now() >= deadline {
                    let waiting_for = "connection from the server";
                    return Err(Error::Silent { waiting_for, waited: target.patience });
                }
                let look = deadline.min(now().saturating_add(LOOK_AROUND));
                wait_readable(&[listener.as_fd()], look)?;
            }
            Err(error) => return Err(Error::socket("accept a connection")(error)),
        }
    }
    Ok(())
}
