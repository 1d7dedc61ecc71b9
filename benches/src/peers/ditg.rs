//! D-ITG: agrees on a flow over TCP. `-poll` waits for the next packet by reading the clock.

use super::{Ending, Job, Need, Pace, Peer, Place, command};
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

/// As it is: it sleeps until the next packet.
pub const PLAIN: Peer =
    Peer { name: "D-ITG", sinks: &[], busy_waits: false, sender: |job| words(job, ""), ..PEER };

fn sender(job: &Job<'_>) -> Vec<String> {
    let poll = job.pace.choose("", |_| "-poll".to_owned());
    words(job, &poll)
}

fn words(job: &Job<'_>, poll: &str) -> Vec<String> {
    let rate = match job.pace {
        Pace::FlatOut => UNREACHED,
        Pace::Frames(rate) => rate,
    };
    let Job { destination: to, payload, .. } = job;
    command(&format!("ITGSend -a {to} -T UDP -c {payload} -C {rate} -t 60000 {poll}"), &[])
}
