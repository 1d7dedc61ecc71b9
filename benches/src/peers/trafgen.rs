//! trafgen of netsniff-ng, with one process and with two. It binds its processes to CPUs by itself.

use super::{Command, Ending, Job, Need, Peer, Place, command};
use crate::sinks::Sink;

pub const SINGLE: Peer = Peer {
    name: "trafgen, one process",
    program: "trafgen",
    package: "netsniff-ng",
    sinks: &[Sink::Unread, Sink::Dropping],
    busy_waits: false,
    place: Place::ByItself,
    receiver: None,
    needs_receiver: Need::ToRead,
    sender: |job| sender(job, 1),
    ending: Ending::Killed,
};

pub const DOUBLE: Peer = Peer {
    name: "trafgen, two processes",
    sinks: &[Sink::Dropping],
    sender: |job| sender(job, 2),
    ..SINGLE
};

fn sender(job: &Job<'_>, processes: u32) -> Command {
    let pace = job.pace.choose("", |rate| format!("-b {rate}pps"));
    let (interface, file) = (job.interface, job.description.display());
    command(&format!("trafgen -o {interface} -P {processes} {pace} -c {file}"), &[])
}

/// Its description of a frame.
pub fn describe(frame: &[u8]) -> String {
    let bytes: Vec<String> = frame.iter().map(|byte| format!("0x{byte:02x}")).collect();
    format!("{{ {} }}\n", bytes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_list_of_bytes() {
        assert_eq!(describe(&[0x02, 0xff]), "{ 0x02, 0xff }\n");
    }
}
