//! What a scenario means, before anything is sent: for people, page by page.
//!
//! Everything is read from the compiled program, so that what is explained is what would be sent. No machine
//! is asked: what a scenario leaves to it is made up. `flow.rs` explains a flow, `frame.rs` its frames,
//! `session/` a group of sessions, `port.rs` what engines make of the flows of a port; `words.rs` puts values into words and `page.rs` lays
//! them out. Nothing here knows engines, files or terminals.

mod flow;
mod frame;
mod page;
mod port;
mod session;
mod words;

use wirebeat_report::format::Colour;
use wirebeat_traffic::compile::anatomy::mean_length;
use wirebeat_traffic::compile::{CompileError, Files, Link, Links, compile, compile_sessions};
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::program::{Program, Stream};
use wirebeat_traffic::scenario::{Change, FlowRate, FlowSpec, PortSpec, Scenario};
use wirebeat_units::{BitRate, LINE_OVERHEAD, Rate, human};

use page::Page;

/// The speed of links that are not looked up, where a rate is a share of it.
pub const ASSUMED_SPEED: BitRate = BitRate(10_000_000_000);

/// A scenario that was compiled for links that do not exist.
#[derive(Debug)]
pub struct Checked {
    scenario: Scenario,
    links: Links,
    program: Program,
    sessions: Sessions,
}

impl Checked {
    /// Of a scenario and the files that it names.
    ///
    /// # Errors
    ///
    /// What is invalid, with the key that says it.
    pub fn new(scenario: &Scenario, files: &Files) -> Result<Checked, CompileError> {
        let links = imaginary_links(scenario);
        let program = compile(scenario, &links, files)?;
        let sessions = compile_sessions(scenario, files)?;
        Ok(Checked { scenario: scenario.clone(), links, program, sessions })
    }

    /// What it was compiled to.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// How much to show.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The number of frames of each flow; `None`: one, or three where they differ.
    pub frames: Option<u64>,
    /// The number of departures of each flow.
    pub departures: u64,
}

/// The page of a scenario, or of the flow or group of sessions `only`, which it has.
pub fn page(
    checked: &Checked,
    only: Option<&str>,
    shown: Shown,
    colour: Colour,
) -> Result<String, CompileError> {
    let mut page = Page::new(colour);
    let scenario = &checked.scenario;
    for (number, name) in (0_u32..).zip(scenario.flows.keys()) {
        if only.is_none_or(|only| only == name) {
            flow::explain(&mut page, checked, number, shown)?;
        }
    }
    for (number, name) in scenario.sessions.keys().enumerate() {
        if only.is_none_or(|only| only == name) {
            session::explain(&mut page, checked, number, shown);
        }
    }
    for (name, spec) in &scenario.ports {
        let flows = checked.program.flows_from(name);
        let asked = |name| flows.iter().any(|flow| flow::name(checked, *flow) == name);
        // what there is to say of the ports of sessions is said with them
        if only.is_none_or(asked) && (!flows.is_empty() || !has_sessions(scenario, name)) {
            port::explain(&mut page, checked, name, spec, &flows);
        }
    }
    if only.is_none() {
        notes(&mut page, checked);
    }
    Ok(page.into_text())
}

/// Whether a group of sessions has an end there.
fn has_sessions(scenario: &Scenario, port: &str) -> bool {
    let at = |end: &Option<String>| end.as_deref() == Some(port);
    scenario.sessions.values().any(|group| at(&group.from) || at(&group.to))
}

/// What holds for all of it.
fn notes(page: &mut Page, checked: &Checked) {
    page.heading("the run");
    let run = &checked.scenario.run;
    let has_flows = !checked.scenario.flows.is_empty() || checked.scenario.sessions.is_empty();
    let time = match (run.time, has_flows) {
        (Some(time), true) => format!("nothing is sent at or after {time}"),
        (Some(time), false) => format!("no session starts at or after {time}"),
        (None, true) => "until every flow has ended".to_owned(),
        (None, false) => "until every group of sessions has ended".to_owned(),
    };
    let settle = match has_flows {
        true => format!("; receiving goes on for {} more", run.settle),
        false => String::new(),
    };
    page.fact("ends", &format!("{time}{settle}"));
    page.fact("seed", &format!("{}: the same seed gives the same traffic", checked.program.seed));
    if !has_flows {
        return;
    }
    let mut assumed = "addresses and next hops that the scenario does not write are made up here \
                       (198.18.0.0/15, 2001:2::/48), and found when it runs"
        .to_owned();
    if checked.links.ports.values().any(|link| link.speed.is_some()) {
        let speed = human::bit_rate(ASSUMED_SPEED.0 as f64);
        assumed += &format!("; shares of a link are those of {speed}");
    }
    page.fact("assumed", &assumed);
}

/// A load on the line that links carry in general, in bits per second.
const CARRIED: f64 = 1e9;

/// What could not be checked without links, a sentence each: whether a port's link carries what its flows send at the most,
/// where its speed is not written and they send more than 1 Gbit/s together.
pub fn unchecked(checked: &Checked) -> Vec<String> {
    let of = |(name, port): (&String, &PortSpec)| {
        if port.speed.is_some() || port.engine.engine().is_some_and(|engine| !engine.has_network())
        {
            return None;
        }
        let program = &checked.program;
        let load = |flow: u32| {
            let of = |stream: &Stream| {
                let bytes = mean_length(&stream.frames) + f64::from(LINE_OVERHEAD);
                Some(stream.departures.pace.peak_rate()? * 1e9 * bytes * 8.0)
            };
            program.streams(flow).iter().filter_map(of).fold(0.0, f64::max)
        };
        let load: f64 = program.flows_from(name).into_iter().map(load).sum();
        (load > CARRIED).then(|| {
            format!(
                "not checked: the speed of port '{name}' is not known, and its flows send up to {} on the line; give it with \
                 'speed'",
                human::bit_rate(load)
            )
        })
    };
    checked.scenario.ports.iter().filter_map(of).collect()
}

/// Links that nobody looked up, of which everything is made up that the scenario does not say. The speed
/// only where a rate is a share of it: otherwise it could be wrong, and is not needed. Of a port on another host nobody knows
/// an address where flows go that is not written.
fn imaginary_links(scenario: &Scenario) -> Links {
    let shares = |port: &str| {
        scenario.flows.values().any(|flow| flow.from == port && rates(flow).any(has_share))
    };
    let ports = scenario.ports.keys().zip(0..).map(|(name, number)| {
        let speed = shares(name).then_some(ASSUMED_SPEED);
        let speed_is_assumed = speed.is_some();
        let is_far = scenario.ports.get(name).is_some_and(|port| port.peer.is_some());
        let goes_there = |flow: &FlowSpec| flow.to.as_ref() == Some(name);
        let mut link = Link { speed, speed_is_assumed, ..Link::imaginary(number) };
        if is_far && scenario.flows.values().any(goes_there) {
            link.addresses = Link::of_sockets().addresses;
        }
        (name.clone(), link)
    });
    Links { ports: ports.collect() }
}

/// The rates of a flow, from change to change.
fn rates(flow: &FlowSpec) -> impl Iterator<Item = &FlowRate> {
    let later = flow.at.values().filter_map(|change| match change {
        Change::To(settings) => settings.rate.as_ref(),
        _ => None,
    });
    later.chain([&flow.rate])
}

fn has_share(rate: &FlowRate) -> bool {
    let share = |rate: &Rate| matches!(rate, Rate::LinkShare(_));
    match rate {
        FlowRate::Fixed(rate) => share(rate),
        FlowRate::Steps(steps) => steps.rates.values().any(share),
        FlowRate::Ramp(ramp) => share(&ramp.from) || share(&ramp.to),
        FlowRate::Sine(sine) => share(&sine.mean) || share(&sine.amplitude),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_assumed_only_for_shares() {
        let text = "ports: { a: {}, b: {} }\nflows:\n  x: { from: a, to: b, rate: 5kpps, at: { 1s: { rate: 50% } } }\n  \
                    y: { from: b, to: a, rate: { ramp: { from: 1kpps, to: 2kpps, over: 5s } } }\n";
        let links = imaginary_links(&Scenario::from_yaml(text, "").unwrap());
        assert_eq!(links.ports["a"].speed, Some(ASSUMED_SPEED));
        assert_eq!(links.ports["b"].speed, None);
        // more than was assumed is no contradiction; more than is written is
        let text = |speed: &str| {
            format!(
                "ports: {{ a: {{ {speed} }} }}\nflows: {{ x: {{ from: a, to: a, rate: 5% }}, y: {{ from: a, to: a, rate: 20Gbps }} }}"
            )
        };
        let checked = |speed| {
            Checked::new(&Scenario::from_yaml(&text(speed), "").unwrap(), &Files::default())
        };
        assert!(checked("").is_ok() && checked("speed: 10Gbps").is_err());
    }
}
