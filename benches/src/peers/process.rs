//! Starting and ending a peer: its receiver at the far end, then its sender, each on its CPU.

use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use wirebeat_netlink::Namespace;
use wirebeat_testbed::{Capability, Process, ProcessError, Program, require};

use super::{Command, Ending, Job, Need, PAYLOAD, Pace, Peer, Place};
use crate::frames::Files;
use crate::lab::{Failure, Lab};
use crate::sinks::Sink;

/// From the start of a receiver until it listens: they say so in different words, or not at all.
const LISTENS: Duration = Duration::from_millis(250);
/// From being asked until it has ended.
const CLEANS_UP: Duration = Duration::from_secs(4);

/// A peer at work. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    sender: Process,
    receiver: Option<Process>,
    begun: Instant,
    ending: Ending,
}

/// What a sender leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// CPU seconds that it took, in user space and in the kernel, for each second that it ran.
    pub cpu: f64,
}

/// Starts a peer that sends into a sink of a kind, or, with `None`, into whatever is put there.
pub fn start(
    lab: &Lab,
    files: &Files,
    peer: &Peer,
    pace: Pace,
    sink: Option<Sink>,
) -> Result<Running, Failure> {
    require(Capability::Program(peer.program))?;
    let mac = lab.far().mac.to_string();
    let job = job(lab, files, pace, &mac);
    let cores = lab.cores;
    let reads = sink == Some(Sink::Reading);
    let receiver = peer.receiver.filter(|_| reads || peer.needs_receiver == Need::Always);
    let receiver = receiver
        .map(|receiver| launch(&lab.far().namespace, Some(cores.other), receiver(&job)))
        .transpose()?;
    if receiver.is_some() {
        sleep(LISTENS);
    }
    let cpu = (peer.place == Place::Bound).then_some(cores.send);
    let begun = Instant::now();
    let sender = launch(&lab.near().namespace, cpu, (peer.sender)(&job))?;
    Ok(Running { sender, receiver, begun, ending: peer.ending })
}

/// What peers are told.
pub fn job<'a>(lab: &'a Lab, files: &'a Files, pace: Pace, destination_mac: &'a str) -> Job<'a> {
    Job {
        pace,
        payload: PAYLOAD,
        interface: lab.near().interface(),
        source: lab.near().ipv4,
        destination: lab.far().ipv4,
        destination_mac,
        cores: lab.cores,
        capture: &files.capture,
        description: &files.description,
    }
}

fn launch(at: &Namespace, cpu: Option<usize>, command: Command) -> Result<Process, Failure> {
    let bound = cpu.into_iter().flat_map(|cpu| ["taskset".into(), "-c".into(), cpu.to_string()]);
    let mut words = bound.chain(command);
    let program = words.next().ok_or("there is no program to start")?;
    Ok(Program::new(at, program).args(words).spawn()?)
}

impl Running {
    /// Ends it. An error when it had ended by itself, with what it said.
    pub fn end(self) -> Result<Ended, Failure> {
        let Running { sender, receiver, begun, ending } = self;
        let before = cpu_of_children()?;
        let limit = match ending {
            Ending::Killed => Duration::ZERO,
            Ending::Asked => {
                sender.interrupt();
                CLEANS_UP
            }
        };
        let elapsed = begun.elapsed();
        match (sender.wait(limit), ending) {
            (Err(ProcessError::TooLong { .. }), Ending::Killed) | (Ok(_), Ending::Asked) => {}
            (Ok(output), Ending::Killed) => {
                let said = [output.stderr.trim(), output.stdout.trim()].join(" ");
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                return Err(format!(
                    "it ended by itself ({}): {}",
                    output.status,
                    last.join(" / ")
                )
                .into());
            }
            (Err(error), _) => return Err(error.into()),
        }
        let spent = cpu_of_children()?.saturating_sub(before);
        drop(receiver);
        Ok(Ended { cpu: spent.as_secs_f64() / elapsed.as_secs_f64() })
    }
}

/// CPU time of all children that have ended and were waited for, and of theirs.
fn cpu_of_children() -> Result<Duration, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}
