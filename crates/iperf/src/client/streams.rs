//! The streams of a client: connections with the test's cookie, or UDP sockets that said hello.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use wirebeat_units::Nanos;

use super::Target;
use crate::control::Cookie;
use crate::control::datagram::{HELLO, is_hello_reply};
use crate::data::{Carrier, Stream};
use crate::socket::{any, connect, now, set_before_connect, set_data, udp, wait_for};
use crate::{Error, Protocol, Stop, TestSpec};

/// How often it is looked whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(100);

/// Opens all streams: those that the client sends first, as iperf3 does.
pub(super) fn open(
    target: &Target,
    spec: &TestSpec,
    cookie: Cookie,
    stop: &Stop,
) -> Result<Vec<Arc<Stream>>, Error> {
    let sending = spec.direction.client_sends().then_some(true);
    let receiving = spec.direction.server_sends().then_some(false);
    let directions = sending.into_iter().chain(receiving);
    let all = directions.flat_map(|sending| (0..spec.streams).map(move |_| sending));
    let open = |(index, sending)| {
        if stop.asked() {
            return Err(Error::Stopped);
        }
        let carrier = match spec.protocol {
            Protocol::Tcp => open_tcp(target, spec, cookie)?,
            Protocol::Udp => open_udp(target, spec, stop)?,
        };
        let stream = Stream::new(index, sending, carrier);
        stream.map(Arc::new).map_err(Error::socket("set up a stream"))
    };
    all.enumerate().map(open).collect()
}

fn open_tcp(target: &Target, spec: &TestSpec, cookie: Cookie) -> Result<Carrier, Error> {
    let address = target.address;
    let deadline = now().saturating_add(target.patience);
    let set = |socket: std::os::fd::BorrowedFd<'_>| set_before_connect(socket, spec, address);
    let stream = connect(address, target.local, deadline, set)
        .map_err(|source| Error::Connect { address, source })?;
    // the buffer of a new connection has room for it
    let sent = rustix::net::send(&stream, cookie.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
    match sent {
        Ok(Cookie::LEN) => Ok(Carrier::Tcp(stream)),
        Ok(_) => Err(Error::socket("send a cookie")(io::ErrorKind::WriteZero.into())),
        Err(error) => Err(Error::socket("send a cookie")(error.into())),
    }
}

fn open_udp(target: &Target, spec: &TestSpec, stop: &Stop) -> Result<Carrier, Error> {
    let failed = || Error::socket("open a UDP stream");
    let local = target.local.map_or(any(target.address), |local| SocketAddr::new(local, 0));
    let socket = udp(local).map_err(failed())?;
    set_data(socket.as_fd(), spec, target.address).map_err(failed())?;
    socket.connect(target.address).map_err(failed())?;
    socket.send(&HELLO).map_err(failed())?;
    await_reply(&socket, target, stop)?;
    Ok(Carrier::Udp(socket))
}

/// Waits for the answer to a hello. It is sent once: a server of iperf3 would take a second one for data.
fn await_reply(socket: &UdpSocket, target: &Target, stop: &Stop) -> Result<(), Error> {
    let deadline = now().saturating_add(target.patience);
    let mut datagram = [0; 8];
    loop {
        match socket.recv(&mut datagram) {
            Ok(len) if datagram.get(..len).is_some_and(is_hello_reply) => return Ok(()),
            // data of another test that came late
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Error::socket("open a UDP stream")(error)),
        }
        if stop.asked() {
            return Err(Error::Stopped);
        }
        if now() >= deadline {
            let waiting_for = "answer to a UDP stream's hello";
            return Err(Error::Silent { waiting_for, waited: target.patience });
        }
        let look = deadline.min(now().saturating_add(LOOK_AROUND));
        wait_for(socket.as_fd(), PollFlags::IN, look).map_err(Error::socket("wait for a reply"))?;
    }
}
