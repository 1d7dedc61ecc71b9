//! Who sends in the studies: each as a program of its own, as its users start it, bound to no CPU.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use wirebeat_testbed::{Capability, Process, ProcessError, Program, require};

use crate::frames::Files;
use crate::lab::{Failure, Lab};
use crate::peers::{self, Need, Pace, Peer};
use crate::sinks::PORT;

/// From the start of a receiver until it listens.
const LISTENS: Duration = Duration::from_millis(250);

/// Who sends.
#[derive(Clone, Copy, Debug)]
pub enum Sender {
    /// Another tool.
    Peer(&'static Peer),
    /// Constant traffic in RUDE's manner.
    Rude,
    /// `wirebeat send` with an engine: the name in tables, and that of the engine.
    Wirebeat(&'static str, &'static str),
}

/// The name of what stands in for RUDE.
pub const RUDE: &str = "RUDE's manner";

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Bytes of UDP payload.
    pub payload: u16,
    /// Datagrams per second.
    pub rate: u64,
}

/// Headers of Ethernet, IPv4 and UDP, FCS, and preamble and gap of a line (IEEE 802.3), in bytes.
const AROUND: u64 = 14 + 20 + 8 + 4 + 20;

impl Load {
    /// Bits of payload per second.
    pub fn payload_bits(self) -> f64 {
        (self.rate * u64::from(self.payload) * 8) as f64
    }

    /// From one datagram to the next, in nanoseconds.
    pub fn gap_ns(self) -> f64 {
        1e9 / self.rate as f64
    }

    /// Bits of payload per second that a line of this speed carries at most.
    pub fn saturation(payload: u16, line: u64) -> f64 {
        let bytes = f64::from(payload);
        line as f64 * bytes / (bytes + AROUND as f64)
    }

    /// Bits of payload per second that arrive by theory behind a line of this speed.
    pub fn theory(self, line: u64) -> f64 {
        self.payload_bits().min(Load::saturation(self.payload, line))
    }
}

impl Sender {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Sender::Peer(peer) => peer.name,
            Sender::Rude => RUDE,
            Sender::Wirebeat(name, _) => name,
        }
    }

    /// Whether it is ours.
    pub fn is_wirebeat(self) -> bool {
        matches!(self, Sender::Wirebeat(..))
    }

    /// Its program: a name, or a path.
    pub fn program(self) -> Result<PathBuf, Failure> {
        Ok(match self {
            Sender::Peer(peer) => peer.program.into(),
            Sender::Rude => std::env::current_exe()?,
            Sender::Wirebeat(..) => crate::wirebeat::program()?,
        })
    }

    /// Program and arguments.
    pub fn command(self, lab: &Lab, files: &Files, load: Load) -> Result<Vec<String>, Failure> {
        let (to, Load { payload, rate }) = (lab.far().ipv4, load);
        let words = |text: String| text.split_ascii_whitespace().map(str::to_owned).collect();
        let program = self.program()?.display().to_string();
        Ok(match self {
            Sender::Peer(peer) => (peer.sender)(&job(lab, files, load, "")),
            Sender::Rude => words(format!(
                "chrt -f 99 {program} --constant-sender {to}:{PORT},{rate},{payload}"
            )),
            Sender::Wirebeat(_, engine) => words(format!(
                "{program} send --to {to}:{PORT} --rate {rate}pps --size {payload}B@payload \
                 --engine {engine} --time 60s"
            )),
        })
    }
}

fn job<'a>(lab: &'a Lab, files: &'a Files, load: Load, mac: &'a str) -> peers::Job<'a> {
    let job = peers::job(lab, files, Pace::Frames(load.rate), mac);
    peers::Job { payload: load.payload, ..job }
}

/// A sender at work. Dropping it kills it, and its receiver.
#[derive(Debug)]
pub struct Started {
    process: Process,
    _receiver: Option<Process>,
}

impl Started {
    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it. An error when it had ended by itself, with the last that it said.
    pub fn end(self) -> Result<(), Failure> {
        match self.process.wait(Duration::ZERO) {
            Err(ProcessError::TooLong { .. }) => Ok(()),
            Err(why) => Err(why.into()),
            Ok(output) => {
                let said = [output.stderr.trim(), output.stdout.trim()].join(" ");
                let last = said.lines().next_back().unwrap_or_default().to_owned();
                Err(format!("it ended by itself ({}): {last}", output.status).into())
            }
        }
    }
}

/// Starts a sender; `around` is put before its command.
pub fn start(
    (lab, files): (&Lab, &Files),
    sender: Sender,
    load: Load,
    around: &[String],
) -> Result<Started, Failure> {
    let mut receiver = None;
    if let Sender::Peer(peer) = sender {
        require(Capability::Program(peer.program))?;
        if let Some(command) = peer.receiver.filter(|_| peer.needs_receiver == Need::Always) {
            let command = command(&job(lab, files, load, ""));
            let (program, arguments) = command.split_first().ok_or("a receiver has no program")?;
            receiver = Some(Program::new(&lab.far().namespace, program).args(arguments).spawn()?);
            sleep(LISTENS);
        }
    }
    let command = [around, &sender.command(lab, files, load)?].concat();
    let (program, arguments) = command.split_first().ok_or("a sender has no program")?;
    let process = Program::new(&lab.near().namespace, program).args(arguments).spawn()?;
    Ok(Started { process, _receiver: receiver })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the study: 69.014 Mbit/s of 147 bytes, and gaps of 196 and 130 µs.
    #[test]
    fn the_theory_is_that_of_the_study() {
        let line = 100_000_000;
        assert!((Load::saturation(147, line) / 1e6 - 69.014).abs() < 0.001);
        assert!((Load { payload: 1470, rate: 5102 }.gap_ns() / 1e3 - 196.0).abs() < 0.01);
        let load = |rate| Load { payload: 1470, rate };
        assert_eq!(load(5102).theory(line), 5102.0 * 1470.0 * 8.0);
        assert!((load(20_000).theory(line) / 1e6 - 95.703).abs() < 0.001);
    }
}
