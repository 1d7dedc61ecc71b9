//! What an end of a session takes in a whole run, as `wirebeat run` does it, while all wait: the TCP, its tables, the program, alarms and
//! meters.

use wirebeat_report::model::SessionEnd;
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;

use crate::lab::Failure;
use crate::memory::Memory;
use crate::wirebeat::whole;

/// Sessions of a run before it, whose memory is that of the process.
const FEW: usize = 20_000;
/// Seconds of the virtual clock in which all are opened; then they wait for the rest of a minute.
const OPENING: usize = 24;

/// Runs so many sessions, each of which asks, waits for a minute and asks again, and prints how many bytes each end of each took at the most.
/// The clients close first and remember each for `time_wait` seconds, which takes memory of its own: with 0 it is that of idle ends alone.
/// The peak is that of the process, so it has one of its own.
pub fn idle_run(sessions: usize, time_wait: usize) -> Result<(), Failure> {
    run(FEW, time_wait)?;
    let before = Memory::of_process()?.bytes();
    run(sessions, time_wait)?;
    let grew = Memory::of_process()?.bytes() - before;
    println!("{}", grew / (2 * sessions.saturating_sub(FEW).max(1)) as f64);
    Ok(())
}

fn run(sessions: usize, time_wait: usize) -> Result<(), Failure> {
    let text = format!(
        "ports: {{ a: {{ engine: loopback, cable: {{ rate: 100Gbps }} }}, b: {{ engine: loopback, cable: {{ rate: 100Gbps }} }} }}\n\
         sessions:\n  idle: {{ from: a, to: b, stack: own, tcp: {{ time-wait: {time_wait}s }}, clients: {{ addresses: 10.1.0.0/22 }}, servers: {{ addresses: 10.2.0.1, ports: 80 }}, \
         program: {{ request-response: {{ requests: 2, think: 60s }} }}, rate: {}/s, count: {sessions}, limit: {{ open: {sessions} }} }}\n\
         run: {{ time: 3m }}\n",
        sessions.div_ceil(OPENING)
    );
    let scenario = Scenario::from_yaml(&text, "idle sessions")?;
    let report = whole(prepare(&scenario, Options::default())?.start(&mut Silent, &Stop::new()))?;
    let client = report.sessions.iter().find(|group| group.end == SessionEnd::Client);
    let client = client.ok_or("the report has no clients")?;
    match (client.ends.in_order, client.most_open) {
        (ended, open) if (ended, open) == (sessions as u64, sessions as u64) => Ok(()),
        (ended, open) => {
            Err(format!("{ended} sessions ended in order, and {open} were open at a time").into())
        }
    }
}
