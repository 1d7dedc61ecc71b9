//! Sessions out of the captures that a scenario names, read before it is compiled.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;

use wirebeat_archive::capture::conversations::{self, Conversation, Ending, Found, Keep};
use wirebeat_archive::capture::sides::Side;
use wirebeat_archive::capture::{Frames, Window};
use wirebeat_archive::time_series::OnBad;
use wirebeat_traffic::compile::{RecordedEnd, RecordedSession, RecordedSessions, RecordedTurn};
use wirebeat_traffic::values::session::Transport;
use wirebeat_units::{Fault, Nanos};

use crate::regular;

/// Frames of several interfaces or CPUs are put in order within so many nanoseconds.
const DISORDER_NS: u64 = 10_000_000;

/// The sessions of a capture. What is wrong with the file ends it there.
///
/// # Errors
/// Where it cannot be read, or has more than fits.
pub fn read(path: &Path, keep: Keep) -> Result<Found, Fault> {
    let told = |why: Fault| why.at(format!("the capture '{}'", path.display()));
    let file = regular::open(path).map_err(|error| told(error.to_string().into()))?;
    let file = file.ok_or_else(|| told("it is not a regular file".into()))?;
    let frames = Frames::new(file, path.display().to_string(), OnBad::Stop);
    conversations::read(Window::new(frames, Some(DISORDER_NS)), keep).map_err(|error| {
        match error {
            // it names the file itself
            conversations::Error::Read(error) => error.to_string().into(),
            error => told(error.fault()),
        }
    })
}

/// Those of `numbers`, `None` being the only one, as the compiler takes them.
pub(crate) fn sessions(
    path: &Path,
    numbers: &BTreeSet<Option<NonZeroU64>>,
) -> Result<RecordedSessions, Fault> {
    let wanted = numbers.iter().map(|number| number.map_or(1, NonZeroU64::get)).collect();
    let found = read(path, Keep::These(wanted))?;
    let count = found.conversations.len() as u64;
    let asked = |it: &&Conversation| {
        numbers.contains(&NonZeroU64::new(it.number)) || it.number == 1 && numbers.contains(&None)
    };
    let sessions = found.conversations.iter().filter(asked);
    Ok(RecordedSessions { count, sessions: sessions.map(|it| (it.number, recorded(it))).collect() })
}

fn recorded(it: &Conversation) -> RecordedSession {
    let mut before = it.turns.first().map_or(0, |turn| turn.first_ns);
    let turns = it.turns.iter().map(|turn| {
        let after = turn.first_ns.saturating_sub(before);
        before = turn.last_ns;
        RecordedTurn {
            by_client: turn.from == Side::Client,
            bytes: it.said_in(turn).into(),
            after: Nanos::new(u64::try_from(after).unwrap_or(0)),
        }
    });
    RecordedSession {
        transport: match it.transport {
            conversations::Transport::Tcp => Transport::Tcp,
            conversations::Transport::Udp => Transport::Udp,
        },
        turns: turns.collect(),
        end: match it.ending {
            Ending::Open | Ending::Closed(Side::Client) => RecordedEnd::Client,
            Ending::Closed(Side::Server) => RecordedEnd::Server,
            Ending::Reset(Side::Client) => RecordedEnd::ClientReset,
            Ending::Reset(Side::Server) => RecordedEnd::ServerReset,
        },
        missing: it.missing,
        is_from_the_start: it.is_from_the_start,
    }
}
