//! What happens while a test runs, told to the caller.

use std::net::SocketAddr;

use wirebeat_units::Nanos;

use crate::result::Interval;
use crate::{Error, TestResult, TestSpec};

/// A test that begins.
#[derive(Clone, Debug)]
pub struct Started {
    /// The other end of the control connection.
    pub peer: SocketAddr,
    /// What was agreed on.
    pub spec: TestSpec,
    /// Bytes of a block.
    pub block: usize,
}

/// What happens. The callback is called from the thread that runs the test; a slow one delays the signalling, not the data.
#[derive(Debug)]
pub enum Event<'a> {
    /// A test begins: all streams are there.
    Started(&'a Started),
    /// An interval is over.
    Interval(&'a Interval),
    /// Only from a server: a test is over, in whatever way.
    Ended(&'a Result<TestResult, Error>),
    /// Only from a server: a client was told that another test is running.
    Denied(SocketAddr),
}

/// Events of a part of a test that begins when `before` of it is over.
pub(crate) fn later<'a>(
    before: Nanos,
    events: &'a mut dyn FnMut(Event<'_>),
) -> impl FnMut(Event<'_>) + 'a {
    move |event| match event {
        Event::Interval(interval) => {
            let start = interval.start.saturating_add(before);
            let end = interval.end.saturating_add(before);
            events(Event::Interval(&Interval { start, end, ..interval.clone() }));
        }
        other => events(other),
    }
}
