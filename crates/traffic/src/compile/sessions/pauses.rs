//! How long sessions last of their own accord.

use wirebeat_units::Nanos;

use super::volume::count;
use crate::program::script::{Op, Script, SessionGroup};
use crate::scenario::departures::Duration;
use crate::scenario::session::program::{Misbehave, Step};
use crate::scenario::session::{ProgramSpec, SessionSpec};

/// For how many seconds an end of a session out of a capture waits of its own accord.
fn thinks(script: &Script) -> f64 {
    let waits = script.ops.iter().filter_map(|op| match op {
        Op::Think(time) => script.times.get(usize::from(*time)),
        _ => None,
    });
    waits.map(|law| law.get(0).get() as f64 / 1e9).sum()
}

/// For how many seconds a client misbehaves, where its peer does not end it before.
fn misbehaves_for(of: &Misbehave, group: &SessionGroup) -> f64 {
    match (of.forged(), of.time()) {
        (Some(forged), _) => f64::from(forged.segments.get()) * mean_seconds(&forged.gap),
        (None, Some(time)) => time.get() as f64 / 1e9,
        (None, None) => until_stop(group).unwrap_or(0.0),
    }
}

/// For how many seconds a group goes on until its stop; `None` where it has none.
pub fn until_stop(group: &SessionGroup) -> Option<f64> {
    (group.stop < Nanos::MAX).then(|| group.stop.saturating_sub(group.start).get() as f64 / 1e9)
}

fn mean_seconds(time: &Duration) -> f64 {
    match time {
        Duration::Fixed(time) => time.get() as f64 / 1e9,
        Duration::Drawn(drawn) => drawn.mean().unwrap_or(0.0) / 1e9,
    }
}

/// How many seconds the steps of one end wait of their own accord; a jump counts as passed by.
fn step_pauses(steps: &[Step], times: f64) -> f64 {
    let each = steps.iter().map(|step| match step {
        Step::Think(time) => times * mean_seconds(time),
        Step::Repeat(repeat) => step_pauses(&repeat.steps, times * f64::from(repeat.times.get())),
        _ => 0.0,
    });
    each.sum()
}

/// How many seconds a session lasts by its pauses alone, on average.
pub fn pauses(spec: &SessionSpec, group: &SessionGroup) -> f64 {
    let mean = |time: &Option<Duration>| time.as_ref().map_or(0.0, mean_seconds);
    let between =
        |count: u32, time: &Option<Duration>| f64::from(count - count.min(1)) * mean(time);
    let program = match &spec.program {
        endless if endless.is_endless() => until_stop(group).unwrap_or(0.0),
        ProgramSpec::Http(http) => between(http.requests.get(), &http.think),
        ProgramSpec::RequestResponse(exchange) => between(exchange.requests.get(), &exchange.think),
        ProgramSpec::Echo(echo) => between(echo.messages.get(), &echo.gap),
        ProgramSpec::Messages(messages) => {
            count(messages).map_or(0.0, |count| (count - 1.0) * mean(&Some(messages.gap.clone())))
        }
        ProgramSpec::Dns(dns) => between(dns.requests.get(), &dns.think),
        ProgramSpec::Capture(_) => {
            let ends = [&group.client, &group.server].into_iter().flatten();
            ends.map(|script| thinks(script)).sum()
        }
        ProgramSpec::Misbehave(of) => misbehaves_for(of, group),
        ProgramSpec::Steps(steps) => {
            step_pauses(&steps.client, 1.0) + step_pauses(&steps.server, 1.0)
        }
        ProgramSpec::Bulk(_) => 0.0,
    };
    program.max(mean(&spec.hold))
}
