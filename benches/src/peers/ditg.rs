//! D-ITG: agrees on a flow over TCP. `-poll` waits for the next packet by reading the clock.

use super::{Ending, Job, Need, PAYLOAD, Pace, Peer, Place, command};
use crate::sinks::Sink;

/// Packets per second that no machine reaches through sockets.
const UNREACHED: u64 = 20_000_000;

pub const PEER: Peer = Peer {
    name: "D-ITG -poll",
    program: "ITGSend",
    package: "d-itg",
    sinks: &[Sink::Reading],
    busy_waits: true,
    place: Place::Bound,
    receiver: Some(|_| command("ITGRecv", &[])),
    needs_receiver: Need::Always,
    sender,
    ending: Ending::Killed,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    let (rate, poll) = match job.pace {
        Pace::FlatOut => (UNREACHED, ""),
        Pace::Frames(rate) => (rate, "-poll"),
    };
    let to = job.destination;
    command(&format!("ITGSend -a {to} -T UDP -c {PAYLOAD} -C {rate} -t 60000 {poll}"), &[])
}
