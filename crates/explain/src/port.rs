//! A port: what an engine makes of the flows that it sends together.

use wirebeat_traffic::engines::{Ability, Engine};
use wirebeat_traffic::program::Stream;
use wirebeat_traffic::scenario::PortSpec;
use wirebeat_traffic::schedule::{ROUND_MAX, Shard, period};
use wirebeat_units::human;

use crate::Checked;
use crate::flow::name;
use crate::page::Page;

/// Nanoseconds in a unit of the length of a round.
const Q32: f64 = (1_u64 << 32) as f64;

/// Explains the port with its flows.
pub fn explain(page: &mut Page, checked: &Checked, port: &str, spec: &PortSpec, flows: &[u32]) {
    page.heading(&format!("port {port}"));
    if let Some(peer) = spec.peer {
        page.fact(
            "receives",
            &format!("on another host, where 'wirebeat receive --listen {peer}' measures"),
        );
        return;
    }
    if flows.is_empty() {
        page.fact("engine", &engine(spec));
        page.fact("sends", "nothing; it receives");
        return;
    }
    let threads = match spec.senders() {
        1 => "one thread sends".to_owned(),
        many => format!("{many} threads send"),
    };
    page.fact("engine", &format!("{}; {threads}", engine(spec)));
    page.fact("sends", &paced(checked, flows));
    page.fact("frames", &repeated(checked, spec, flows));
}

fn engine(spec: &PortSpec) -> String {
    let on = match (&spec.interface, &spec.file) {
        (_, Some(file)) => format!(", file {file}"),
        (Some(interface), None) => match &spec.namespace {
            Some(namespace) => format!(", interface {interface} in the namespace {namespace}"),
            None => format!(", interface {interface}"),
        },
        (None, None) => String::new(),
    };
    let which = match spec.engine.engine() {
        None => "auto (the fastest that serves)",
        Some(engine) => engine.name(),
    };
    format!("{which}{on}")
}

fn paced(checked: &Checked, flows: &[u32]) -> String {
    let unlimited = flows.iter().filter(|flow| checked.program.is_unlimited(**flow)).count();
    let count = match flows.len() {
        1 => "1 flow".to_owned(),
        many => format!("{many} flows"),
    };
    match unlimited {
        0 => format!("{count}, paced: every frame has a deadline"),
        all if all == flows.len() => format!("{count}, flat out: as fast as the engine can"),
        some => format!("{count}, of which {some} flat out between the deadlines of the others"),
    }
}

/// Whether there is a round, and if not, why.
fn repeated(checked: &Checked, spec: &PortSpec, flows: &[u32]) -> String {
    if spec.senders() > 1 {
        return "several threads share the flows; each has a round of its own where its share repeats"
            .to_owned();
    }
    let Some(round) = period(&checked.program, flows, Shard::WHOLE, ROUND_MAX) else {
        return format!(
            "streamed: each is made when it is due, because {}",
            reason(checked, flows)
        );
    };
    let frames = match round.round.len() {
        1 => "1 frame".to_owned(),
        many => format!("{many} frames"),
    };
    let time = match round.length_q32 {
        0 => String::new(),
        length => format!(" that takes {}", human::time(length as f64 / Q32)),
    };
    let repeats = |engine: Engine| engine.can(Ability::Repeat);
    let able = Engine::automatic().find(|engine| repeats(*engine)).map_or("auto", Engine::name);
    let how = match spec.engine.engine() {
        Some(engine) if !repeats(engine) => {
            format!("the engine {able} would repeat it by itself; this one is given each frame")
        }
        asked => {
            let engine = asked.map_or(able, Engine::name);
            format!("the engine {engine} holds it and repeats it by itself")
        }
    };
    format!("a round of {frames}{time}; {how}")
}

/// The first flow that keeps the flows from repeating, and how.
fn reason(checked: &Checked, flows: &[u32]) -> String {
    let program = &checked.program;
    for &flow in flows {
        let because = match program.streams(flow) {
            [stream] => of_stream(stream),
            _ => Some("changes".to_owned()),
        };
        if let Some(because) = because {
            return format!("flow {} {because}", name(checked, flow));
        }
    }
    let unlimited = flows.iter().filter(|flow| program.is_unlimited(**flow)).count();
    if unlimited > 0 && unlimited < flows.len() {
        return "flows with a rate and flows without share the port".to_owned();
    }
    together(checked, flows)
}

/// Why flows that each repeat do not repeat together: named is the first with which they do not.
fn together(checked: &Checked, flows: &[u32]) -> String {
    let program = &checked.program;
    let repeats = |count: usize| {
        let flows = flows.get(..count).unwrap_or_default();
        period(program, flows, Shard::WHOLE, ROUND_MAX).is_some()
    };
    // So many do together, and one more does not.
    let (mut most, mut too_many) = (0, flows.len());
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if repeats(middle) { most = middle } else { too_many = middle }
    }
    let Some(&flow) = flows.get(most) else { return String::new() };
    let start = |flow: u32| program.streams(flow).first().map(|stream| stream.departures.start);
    let first = flows.iter().filter_map(|flow| start(*flow)).min();
    let gap = program.offered(flow).map(|(rate, _)| rate.deadline(1));
    let late = first.zip(start(flow)).map(|(first, own)| own.saturating_sub(first));
    let name = name(checked, flow);
    match (late, gap) {
        (Some(late), Some(gap)) if late > gap => {
            format!("flow {name} begins {} after the first", human::time(late.get() as f64))
        }
        _ if most == 0 => format!(
            "flow {name} ends within its first round, or its round is longer than {ROUND_MAX} frames"
        ),
        _ => format!(
            "with flow {name} a round would be longer than {ROUND_MAX} frames, or than the flows last"
        ),
    }
}

fn of_stream(stream: &Stream) -> Option<String> {
    let pace = &stream.departures.pace;
    if pace.is_limited() && pace.constant().is_none() {
        return Some("leaves at times that do not repeat".to_owned());
    }
    if stream.frames.lengths().period().is_none() {
        return Some("has sizes that are drawn".to_owned());
    }
    if stream.frames.is_cut() {
        return Some("leaves as fragments, and numbers each packet anew".to_owned());
    }
    match stream.frames.period() {
        None => Some("has fields that are drawn".to_owned()),
        Some(frames) if frames > ROUND_MAX as u64 => {
            Some(format!("has frames that repeat only after {frames}, more than {ROUND_MAX}"))
        }
        Some(_) => None,
    }
}
