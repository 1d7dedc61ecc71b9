//! MGEN, as it is and in its precise mode, which reads the clock before each message.

use super::{Command, Ending, Job, Need, Pace, Peer, Place, command};
use crate::sinks::{PORT, Sink};

/// Its shortest message, so that its frames are 74 bytes long and not 64.
const MESSAGE: u16 = 28;

pub const PEER: Peer = Peer {
    name: "MGEN",
    program: "mgen",
    package: "mgen",
    sinks: &[Sink::Reading, Sink::Unread, Sink::Dropping],
    busy_waits: false,
    place: Place::Bound,
    receiver: Some(receiver),
    needs_receiver: Need::ToRead,
    sender: |job| sender("mgen nolog event", job),
    ending: Ending::Killed,
};

pub const PRECISE: Peer = Peer {
    name: "MGEN precise",
    sinks: &[],
    busy_waits: true,
    sender: |job| sender("mgen nolog precise on event", job),
    ..PEER
};

fn receiver(_: &Job<'_>) -> Command {
    command("mgen nolog event", &[format!("LISTEN UDP {PORT}")])
}

fn sender(words: &str, job: &Job<'_>) -> Command {
    let rate = match job.pace {
        Pace::FlatOut => "-1".to_owned(),
        Pace::Frames(rate) => rate.to_string(),
    };
    let (to, message) = (job.destination, job.payload.max(MESSAGE));
    command(words, &[format!("ON 1 UDP DST {to}/{PORT} PERIODIC [{rate} {message}]")])
}
