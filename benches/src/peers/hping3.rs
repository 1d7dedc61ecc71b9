//! hping3 in its flood mode; its paced mode misses every rate of the benchmark.

use super::{Ending, Job, Need, Peer, Place, command};
use crate::sinks::{PORT, Sink};

pub const PEER: Peer = Peer {
    name: "hping3 --flood",
    program: "hping3",
    package: "hping3",
    sinks: &[Sink::Unread, Sink::Dropping],
    busy_waits: false,
    place: Place::Bound,
    receiver: None,
    needs_receiver: Need::ToRead,
    sender,
    ending: Ending::Killed,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    let pace = job.pace.choose("--flood", |rate| format!("-i u{}", (1_000_000 / rate).max(1)));
    let Job { destination: to, payload, .. } = job;
    command(&format!("hping3 --udp -p {PORT} -d {payload} -q {pace} {to}"), &[])
}
