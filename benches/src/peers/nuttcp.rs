//! nuttcp: agrees on a test over TCP. `-Ri` paces each datagram by reading the clock.

use super::{Ending, Job, Need, Peer, Place, command};
use crate::sinks::Sink;

pub const PEER: Peer = Peer {
    name: "nuttcp -Ri",
    program: "nuttcp",
    package: "nuttcp",
    sinks: &[Sink::Reading],
    busy_waits: true,
    place: Place::Bound,
    receiver: Some(|_| command("nuttcp -S -1 --nofork", &[])),
    needs_receiver: Need::Always,
    sender,
    ending: Ending::Killed,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    let rate = job.pace.choose("-Ru", |rate| format!("-Ri{rate}p"));
    let Job { destination, payload, .. } = job;
    command(&format!("nuttcp -t -u -l{payload} -T60 {rate} {destination}"), &[])
}
