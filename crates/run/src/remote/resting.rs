//! A connection between two runs: a receiver gives up a sender that says nothing, so a thread of its own says that this one is
//! still there. Knows nothing of runs.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Timeouts;
use super::client::Connection;

/// A connection that nothing is measured over. It is closed when this is dropped.
#[derive(Debug)]
pub struct RestingConnection {
    /// Says that it is wanted.
    wanted: SyncSender<()>,
    thread: JoinHandle<Option<Connection>>,
}

impl RestingConnection {
    /// Keeps `connection` until it is wanted again.
    ///
    /// # Errors
    /// There is no thread; the connection is closed then.
    pub fn new(connection: Connection) -> io::Result<RestingConnection> {
        RestingConnection::every(Timeouts::default().silence / 4, connection)
    }

    /// The same, and says so often that the sender is there.
    pub(super) fn every(
        pause: Duration,
        mut connection: Connection,
    ) -> io::Result<RestingConnection> {
        // the run that it was stopped for is over
        connection.heed_nobody();
        let (wanted, wish) = sync_channel(1);
        let keep = move || loop {
            let wish = wish.recv_timeout(pause);
            if wish == Err(RecvTimeoutError::Disconnected) {
                return None;
            }
            // where it is wanted, a receiver that ended since the last look is found now, and another connection made in time
            connection.keep().ok()?;
            if wish.is_ok() {
                return Some(connection);
            }
        };
        let thread = thread::Builder::new().name("wb-keep".to_owned()).spawn(keep)?;
        Ok(RestingConnection { wanted, thread })
    }

    /// The connection, unless the receiver ended it meanwhile. May wait for an answer that is on its way.
    pub fn wake(self) -> Option<Connection> {
        // a thread that has ended says why
        let _ = self.wanted.send(());
        self.thread.join().ok()?
    }
}
