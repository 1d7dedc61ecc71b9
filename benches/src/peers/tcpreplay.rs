//! tcpreplay, from memory, without the statistics that it makes of flows.

use super::{Ending, Job, Need, Peer, Place, command};
use crate::sinks::Sink;

pub const PEER: Peer = Peer {
    name: "tcpreplay",
    program: "tcpreplay",
    package: "tcpreplay",
    sinks: &[Sink::Unread, Sink::Dropping],
    busy_waits: true,
    place: Place::Bound,
    receiver: None,
    needs_receiver: Need::ToRead,
    sender,
    ending: Ending::Killed,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    let pace = job.pace.choose("--topspeed", |rate| format!("--pps={rate}"));
    let (interface, file) = (job.interface, job.capture.display());
    let words = "tcpreplay --preload-pcap --no-flow-stats --loop=0";
    command(&format!("{words} {pace} -i {interface} {file}"), &[])
}
