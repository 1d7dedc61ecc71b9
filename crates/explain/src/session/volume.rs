//! How much a session says, and the bandwidth at the planned rate.

use wirebeat_traffic::compile::volume::{MSS, Volume, Volumes, count};
use wirebeat_traffic::program::script::{Op, Script, SessionGroup};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::session::program::{Misbehave, Step};
use wirebeat_traffic::scenario::session::{ProgramSpec, SessionSpec, Transport};
use wirebeat_units::{Layer, Nanos, human};

use crate::flow;
use crate::page::Page;

/// How much goes each way, and what that is at the planned rate.
pub(super) fn data(
    page: &mut Page,
    spec: &SessionSpec,
    group: &SessionGroup,
    volumes: Volumes,
    rate: Option<f64>,
) {
    let unknown = match &spec.program {
        ProgramSpec::Bulk(_) => "as much as goes through",
        _ => "not known before",
    };
    let said = |volume: Option<Volume>| match volume {
        Some(volume) if volume.bytes == 0.0 => "nothing".to_owned(),
        Some(volume) => human::bytes(volume.bytes),
        None => unknown.to_owned(),
    };
    page.fact(
        "data",
        &format!(
            "of a session: to the server {}, to the client {}",
            said(volumes.up),
            said(volumes.down)
        ),
    );
    if spec.transport == Transport::Udp {
        return;
    }
    let Some(exchanged) = volumes.exchanged(spec, group) else { return };
    let [to_server, to_client] = exchanged.segments;
    page.more(&format!(
        "about {} segments to the server and {} to the client, where nothing is lost and {MSS} bytes fit a segment",
        flow::number(to_server.round()),
        flow::number(to_client.round())
    ));
    let Some(starts) = rate else { return };
    // Sessions that last longer than they go on starting are never all at the full rate: their data is spread over that time.
    let lasts = pauses(spec, group);
    let starting = spec.count.map_or(f64::MAX, |count| count.get() as f64 / starts);
    let starting = match group.stop < Nanos::MAX {
        true => starting.min(group.stop.saturating_sub(group.start).get() as f64 / 1e9),
        false => starting,
    };
    let rate = if lasts > starting { starts * starting / lasts } else { starts };
    let each = match lasts > 0.0 {
        true => format!(", each {} at least by its pauses", human::time(lasts * 1e9)),
        false => String::new(),
    };
    let bandwidth = |way: usize, layer: Layer| human::bit_rate(rate * exchanged.bits(way, layer));
    page.fact(
        "bandwidth",
        &format!(
            "at {} sessions/s{each}: to the server {} ({} on the line), to the client {} ({} on the line)",
            flow::number(starts),
            bandwidth(0, Layer::Payload),
            bandwidth(0, Layer::Line),
            bandwidth(1, Layer::Payload),
            bandwidth(1, Layer::Line)
        ),
    );
}

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
    let all = |time: Nanos| time.get() as f64 / 1e9;
    match (of.forged(), of.time()) {
        (Some(forged), _) => match &forged.gap {
            Duration::Fixed(gap) => f64::from(forged.segments.get()) * all(*gap),
            Duration::Drawn(drawn) => {
                f64::from(forged.segments.get()) * drawn.mean().unwrap_or(0.0) / 1e9
            }
        },
        (None, Some(time)) => all(time),
        (None, None) if group.stop < Nanos::MAX => all(group.stop.saturating_sub(group.start)),
        (None, None) => 0.0,
    }
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
pub(super) fn pauses(spec: &SessionSpec, group: &SessionGroup) -> f64 {
    let mean = |time: &Option<Duration>| time.as_ref().map_or(0.0, mean_seconds);
    let between =
        |count: u32, time: &Option<Duration>| f64::from(count - count.min(1)) * mean(time);
    let program = match &spec.program {
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
