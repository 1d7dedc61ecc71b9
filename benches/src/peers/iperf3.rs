//! iperf3: agrees on a test over TCP, so that it cannot send without its receiver.

use super::{Ending, Job, Need, Peer, Place, command};
use crate::sinks::Sink;

pub const PEER: Peer = Peer {
    name: "iperf3",
    program: "iperf3",
    package: "iperf3",
    sinks: &[Sink::Reading],
    busy_waits: false,
    place: Place::Bound,
    receiver: Some(|_| command("iperf3 -s -1", &[])),
    needs_receiver: Need::Always,
    sender,
    ending: Ending::Killed,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    // it takes bits of payload per second; 0 is no limit
    let Job { destination, payload, .. } = job;
    let bits = job.pace.choose("0", |rate| (rate * u64::from(*payload) * 8).to_string());
    let words = format!("iperf3 -u -c {destination} -l {payload} -t 60 -b {bits}");
    command(&words, &[])
}
