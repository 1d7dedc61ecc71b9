//! The server: one test at a time, like iperf3's; others are told that it is busy.
//!
//! One thread listens, reads the first bytes of connections and runs the signalling of the test; a thread for each direction moves
//! the data. What a client asks for is held against [`Limits`] before anything is opened for it, and whatever it does or fails to do ends
//! its test, at the latest after a time-out, and nothing else.

mod admission;
mod iperf2;
mod streams;
mod test;

use std::net::SocketAddr;

use wirebeat_units::{BitRate, Nanos};

use crate::control::{Cookie, STREAMS_MAX};
use crate::socket::{self, now};
use crate::{Error, Event, Stop};
use admission::Admission;
pub use iperf2::Iperf2Server;

/// How often the server looks whether it is to stop.
pub(crate) const LOOK_AROUND: Nanos = Nanos::from_millis(100);

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest test, omitted time included. One without an end, or with an amount of data, is ended then.
    pub time: Nanos,
    /// Streams in each direction, at most 128.
    pub streams: u32,
    /// What the server sends, all streams together; a test that asks for more, or for no rate, is sent at this rate. Without: no limit.
    pub rate: Option<BitRate>,
    /// A test in which nothing arrives, or nothing can be sent, for so long is ended.
    pub idle: Nanos,
    /// How long a client may take for each step of the signalling.
    pub patience: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: Nanos::from_secs(86_400),
            streams: STREAMS_MAX,
            rate: None,
            idle: Nanos::from_secs(120),
            patience: Nanos::from_secs(10),
        }
    }
}

/// What a client gets that asks for the server's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// Lines of text, which iperf3 prints.
    #[default]
    Text,
    /// JSON, which iperf3 puts into its own with `-J`.
    Json,
}

/// How a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// What a client may ask for.
    pub limits: Limits,
    /// Ends after one test (`-1`), whatever became of it.
    pub one_off: bool,
    /// How often an interval is reported, at most every 10 ms; without: never.
    pub interval: Option<Nanos>,
    /// What a client gets that asks for the server's output.
    pub output: OutputForm,
    /// Whether an iperf 2 client may have the server connect to it and send (`-d`, `-r`): to its own address, and no more than
    /// [`Limits`] allow.
    pub connect_back: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            limits: Limits::default(),
            one_off: false,
            interval: Some(Nanos::from_secs(1)),
            output: OutputForm::Text,
            connect_back: false,
        }
    }
}

/// A server of iperf3's wire.
#[derive(Debug)]
pub struct Server {
    admission: Admission<Cookie>,
    address: SocketAddr,
    options: ServerOptions,
}

impl Server {
    /// Listens on this address, in the network namespace of the calling thread. UDP streams come to the same port.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind(listen: SocketAddr, options: ServerOptions) -> Result<Server, Error> {
        let failed = |source| Error::Listen { address: listen, source };
        let listener = socket::listen(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Server { admission: Admission::new(listener), address, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is asked to stop, or after one test where that is all it is for. Must be called in the network namespace that it
    /// was bound in. What becomes of each test is an event.
    ///
    /// # Errors
    /// Only where the system no longer lets it wait for its sockets.
    pub fn run(&mut self, stop: &Stop, events: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        while !stop.asked() {
            self.admission.turn(&[], now().saturating_add(LOOK_AROUND))?;
            let Some(first) = self.admission.next() else { continue };
            let ended = test::run(&mut self.admission, first, &self.options, stop, events);
            events(Event::Ended(&ended));
            if self.options.one_off {
                break;
            }
        }
        Ok(())
    }
}
