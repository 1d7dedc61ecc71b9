//! What ordinary machines lack and `make test-guest` has: real cards and their links, the kernel's pktgen and netem, SCTP and VLAN
//! devices, a table of connections that may be made small. Each test says what it needs, and is skipped elsewhere.

mod conntrack;
mod killed;
mod link;
mod netem;
mod netem_sessions;
mod pktgen;
mod refused;
mod scripts;
mod sctp;
mod vlan;
mod zero_copy;

use std::io::{self, Write};
use std::time::Duration;

use wirebeat_netlink::Namespace;
use wirebeat_testbed::Program;

/// How long a program may take that looks at something, on a machine that is emulated.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a command prints in a namespace; it is to succeed.
pub fn command(namespace: &Namespace, line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = Program::new(namespace, words.next().unwrap()).args(words);
    let output = program.output(PATIENCE).unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    output.stdout
}

/// Says something for the table of `test-guest.sh`, past the test runner's capture.
pub fn note(text: &str) {
    let _ = io::stderr().write_all(format!("NOTE {text}\n").as_bytes());
}
