//! iperf 2: sends without asking anybody when told not to wait for an answer at its end.

use super::{Ending, Job, Need, Peer, Place, command};
use crate::sinks::{PORT, Sink};

pub const PEER: Peer = Peer {
    name: "iperf 2",
    program: "iperf",
    package: "iperf",
    sinks: &[Sink::Reading, Sink::Unread, Sink::Dropping],
    busy_waits: false,
    place: Place::Bound,
    receiver: Some(|_| command(&format!("iperf -s -u -p {PORT}"), &[])),
    needs_receiver: Need::ToRead,
    sender,
    ending: Ending::Killed,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    // there is no word for "as fast as possible": more than any machine reaches
    let rate = job.pace.choose("20000000pps", |rate| format!("{rate}pps"));
    let Job { destination: to, payload, .. } = job;
    let words = format!("iperf -u -c {to} -p {PORT} -l {payload} -t 60 --no-udp-fin -b {rate}");
    command(&words, &[])
}
