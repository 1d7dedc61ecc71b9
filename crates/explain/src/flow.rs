//! A flow: where it goes, when, how fast, how its frames follow one another and how long they are.

use wirebeat_traffic::compile::CompileError;
use wirebeat_traffic::compile::anatomy::mean_length;
use wirebeat_traffic::program::{Late, Pace, Program, Stream};
use wirebeat_traffic::scenario::change::Phase;
use wirebeat_traffic::scenario::{Change, FlowSpec};
use wirebeat_traffic::schedule::{Schedule, Shard};
use wirebeat_units::{FCS, LINE_OVERHEAD, Nanos, PacketLen, human};

use crate::Checked;
use crate::page::Page;
use crate::{Shown, frame, words};

/// The most frames that are gone through for departures.
const SEEN: usize = 100_000;

/// The name of flow number `flow`.
pub fn name(checked: &Checked, flow: u32) -> &str {
    checked.program.flows.get(flow as usize).map_or("", |flow| &flow.name)
}

/// Explains flow number `number`.
pub fn explain(
    page: &mut Page,
    checked: &Checked,
    number: u32,
    shown: Shown,
) -> Result<(), CompileError> {
    let Some((name, spec)) = checked.scenario.flows.get_index(number as usize) else {
        return Ok(());
    };
    page.heading(&format!("flow {name}"));
    page.fact("number", &format!("{number}, in its probes"));
    page.fact("way", &way(spec));
    let phases = spec.phases();
    let streams = checked.program.streams(number);
    page.fact("time", &time(spec, streams));
    for (place, (phase, stream)) in phases.iter().zip(streams).enumerate() {
        if place > 0 {
            page.fact(&format!("at {}", phase.from), &change(spec, phase.from));
        }
        explain_phase(page, phase, stream, phases.get(place.wrapping_sub(1)));
    }
    if let Some(sub_flows) = &spec.sub_flows {
        let length = match sub_flows.length {
            Some(frames) => format!(", each of {frames} frames and then replaced by a new one"),
            None => String::new(),
        };
        let order = words::written(&sub_flows.order);
        page.fact("sub-flows", &format!("{} at a time, {order}{length}", sub_flows.count));
    }
    if let Some(flow) = checked.program.flows.get(number as usize)
        && let Late::Drop(drift) = flow.late
    {
        page.fact("late", &format!("a frame more than {drift} late is not sent, but counted"));
    }
    departures(page, &checked.program, number, shown.departures);
    for (phase, (place, stream)) in phases.iter().zip(streams.iter().enumerate()) {
        let before = phases.get(place.wrapping_sub(1));
        if before.is_none_or(|before| before.flow.packet != phase.flow.packet) {
            if before.is_some() {
                page.fact(&format!("at {}", phase.from), "the first frames of the new packet");
            }
            frame::explain(page, checked, name, &phase.flow, stream, shown.frames)?;
        }
    }
    Ok(())
}

fn way(spec: &FlowSpec) -> String {
    match &spec.to {
        Some(to) => format!("from port {} to port {to}, where it is measured", spec.from),
        None => format!("from port {} to elsewhere: what arrives is not measured here", spec.from),
    }
}

fn time(spec: &FlowSpec, streams: &[Stream]) -> String {
    let mut limits = Vec::new();
    match streams.last().map(|stream| stream.departures.stop) {
        Some(stop) if stop < Nanos::MAX => limits.push(stop.to_string()),
        _ => {}
    }
    if let Some(count) = spec.count {
        limits.push(format!("{count} frames were sent"));
    }
    if let Some(bytes) = spec.bytes {
        let frames = streams.first().map_or(0, |stream| stream.departures.count);
        limits.push(format!("{bytes} were sent, {frames} frames"));
    }
    if let Some(replay) = &spec.replay {
        limits.push(match &replay.copies {
            Some(_) => "all copies have ended".to_owned(),
            None => "what was recorded ends".to_owned(),
        });
    }
    match limits.is_empty() {
        true => format!("from {} on, without end", moment(spec.start)),
        false => format!("from {} until {}", moment(spec.start), limits.join(", or until ")),
    }
}

/// The start of the run has no unit.
fn moment(time: Nanos) -> String {
    if time == Nanos::ZERO { "the start".to_owned() } else { time.to_string() }
}

fn change(spec: &FlowSpec, at: Nanos) -> String {
    match spec.at.get(&at) {
        Some(Change::Pause) => "it pauses".to_owned(),
        Some(Change::Resume) => "it goes on as before the pause".to_owned(),
        Some(Change::To(settings)) => {
            let keys = [
                ("rate", settings.rate.is_some()),
                ("departures", settings.departures.is_some()),
                ("size", settings.size.is_some()),
                ("packet", settings.packet.is_some()),
                ("sub-flows", settings.sub_flows.is_some()),
            ];
            let changed = keys.iter().filter(|(_, changed)| *changed).map(|(key, _)| *key);
            format!("new: {}", changed.collect::<Vec<_>>().join(", "))
        }
        None => String::new(),
    }
}

/// What a flow is like from one change to the next; of what stays as it was, nothing.
fn explain_phase(page: &mut Page, phase: &Phase, stream: &Stream, before: Option<&Phase>) {
    if phase.paused {
        return;
    }
    let flow = &phase.flow;
    let resumed = before.is_some_and(|before| before.paused);
    let before = before.map(|before| &before.flow);
    let new = |same: &dyn Fn(&FlowSpec) -> bool| before.is_none_or(|before| !same(before));
    let new_size = new(&|before| before.size == flow.size);
    let new_pace = new(&|before| before.rate == flow.rate && before.departures == flow.departures);
    if (new_pace || new_size || resumed) && flow.replay.is_none() {
        page.fact("rate", &words::rate(&flow.rate));
        if let Some(mean) = rates(stream) {
            page.more(&mean);
        }
    }
    if new_pace || new_size {
        page.fact("departures", &words::pace(flow, &stream.departures.pace));
    }
    if new_size {
        page.fact("sizes", &sizes(flow, stream));
    }
    if before.is_none() {
        page.fact("probe", &frame::probe(flow, stream));
    }
}

/// The mean rate on each layer.
fn rates(stream: &Stream) -> Option<String> {
    let rate = stream.departures.pace.mean_rate()? * 1e9;
    let frame = mean_length(&stream.frames);
    let headers = f64::from(stream.frames.headers_len());
    let payload = match stream.frames.lengths().fixed() {
        Some(_) => f64::from(stream.frames.counted(0).payload),
        None => (frame - f64::from(FCS) - headers).max(0.0),
    };
    let bits = |bytes: f64| human::bit_rate(rate * bytes * 8.0);
    let when = match &stream.departures.pace {
        Pace::Profile(profile) if !profile.curve.comes_again() => "in the end",
        _ => "on average",
    };
    Some(format!(
        "{} frames/s {when}; line {}, frames {}, payload {}",
        number(rate),
        bits(frame + f64::from(LINE_OVERHEAD)),
        bits(frame),
        bits(payload)
    ))
}

/// With as many digits as mean something.
pub fn number(value: f64) -> String {
    match value {
        large if large >= 1000.0 => human::count(large.round() as u64),
        small => {
            // six digits from the first that is not zero
            let leading = if small > 0.0 { small.log10().floor().min(0.0) } else { 0.0 };
            let decimals = if small < 1.0 { (5.0 - leading).min(18.0) as usize } else { 3 };
            let text = format!("{small:.decimals$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

fn sizes(flow: &FlowSpec, stream: &Stream) -> String {
    let said = words::size(flow.size.as_ref());
    let lengths = stream.frames.lengths();
    match lengths.fixed() {
        Some(_) => {
            let counted = stream.frames.counted(0);
            let (frame, parts) = (counted.bytes, counted.fragments + 1);
            match said == format!("always {frame}B") {
                _ if parts > 1 => format!(
                    "{said}: longer than the link carries, {parts} IP fragments of {frame}B with FCS together"
                ),
                true => format!("{said} with FCS"),
                false => format!("{said}: {frame}B with FCS"),
            }
        }
        None if flow.replay.is_some() => {
            format!(
                "as they were recorded, up to {}B with FCS",
                lengths.longest().buffer().with_fcs()
            )
        }
        None => {
            let with_fcs = |length: PacketLen| length.buffer().with_fcs();
            let cut = match stream.frames.is_cut() {
                true => "; what is longer than the link carries leaves as IP fragments",
                false => "",
            };
            format!(
                "{said}; from {}B to {}B with FCS, {:.1}B on average{cut}",
                with_fcs(lengths.shortest()),
                with_fcs(lengths.longest()),
                mean_length(&stream.frames)
            )
        }
    }
}

/// The first departures of a flow of `program`.
pub fn departures(page: &mut Page, program: &Program, flow: u32, most: u64) {
    if most == 0 {
        return;
    }
    if program.is_recorded(flow) {
        page.fact("first due", "as it was recorded: files are not read here");
        return;
    }
    if program.is_unlimited(flow) {
        page.fact("first due", "all at the flow's start: each leaves as soon as it can");
        return;
    }
    let schedule = Schedule::new(program, &[flow], Shard::WHOLE);
    // Frames of a burst are due together.
    let mut times: Vec<(Nanos, u64)> = Vec::new();
    let mut more = false;
    for (departure, seen) in schedule.take(SEEN).zip(1..) {
        let full = times.len() as u64 == most;
        more = seen == SEEN;
        match times.last_mut() {
            Some((at, frames)) if *at == departure.at => *frames += 1,
            _ if full => {
                more = true;
                break;
            }
            _ => times.push((departure.at, 1)),
        }
    }
    let Some((last, _)) = times.last() else { return page.fact("first due", "never") };
    let (unit, ns) = match last.get() {
        0..10_000_000 => ("µs", 1_000),
        10_000_000..10_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let due = times.iter().map(|(at, frames)| match frames {
        1 => in_unit(*at, ns),
        many => format!("{many} at {}", in_unit(*at, ns)),
    });
    let end = if more { ", …" } else { ", and no more" };
    page.fact("first due", &format!("{} {unit}{end}", due.collect::<Vec<_>>().join(", ")));
}

/// With every digit, and no more.
fn in_unit(time: Nanos, unit: u64) -> String {
    let (whole, rest) = (time.get() / unit, time.get() % unit);
    let digits = unit.ilog10() as usize;
    let text = format!("{whole}.{rest:0digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_digits() {
        for (ns, unit, text) in
            [(0, 1_000, "0"), (99_999, 1_000, "99.999"), (1_500_000_000, 1_000_000_000, "1.5")]
        {
            assert_eq!(in_unit(Nanos::new(ns), unit), text);
        }
    }

    #[test]
    fn rates_have_the_digits_that_mean_something() {
        for (value, text) in [
            (1_234_567.4, "1,234,567"),
            (1000.0, "1,000"),
            (999.9994, "999.999"),
            (0.1, "0.1"),
            (50.0, "50"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
