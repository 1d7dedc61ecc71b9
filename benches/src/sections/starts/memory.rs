//! Starts of sessions of our own TCP in memory: on a virtual clock each is at its planned time, so what is measured is whether one core carries
//! as many.

use std::time::{Duration, Instant};

use wirebeat_report::model::SessionEnd;
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;

use super::{Late, percentiles};
use crate::lab::Failure;
use crate::wirebeat::whole;

/// Starts in a second of the virtual clock.
pub const RATE: u64 = 100_000;

/// Runs `time` of it. The rate is that of the time that it took.
pub fn starts(time: Duration) -> Result<Late, Failure> {
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nsessions:\n  \
         x: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1-10.0.1.8 }}, \
         servers: {{ addresses: 10.0.2.1, ports: 7 }}, rate: {RATE}/s, stop: {}ms, \
         program: {{ steps: {{ client: [ reset ], server: [ wait-close ] }} }} }}\n",
        time.as_millis()
    );
    let scenario = Scenario::from_yaml(&text, "starts in memory")?;
    let prepared = prepare(&scenario, Options::default())?;
    let begun = Instant::now();
    let report = whole(prepared.start(&mut Silent, &Stop::new()))?;
    let took = begun.elapsed().as_secs_f64();
    let client = report.sessions.iter().find(|group| group.end == SessionEnd::Client);
    let client = client.ok_or("the report has no clients")?;
    let starts = &client.starts;
    if starts.due != Some(starts.established) {
        return Err(format!(
            "of {:?} due sessions {} were established",
            starts.due, starts.established
        )
        .into());
    }
    percentiles(&client.start_lateness_ns, starts.opened as f64 / took)
}
