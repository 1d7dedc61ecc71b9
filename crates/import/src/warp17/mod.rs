//! WARP17's configurations: the commands of its command line, one on a line (`--cmd-file`).
//!
//! ```text
//! add tests l3_intf port 0 ip 10.0.0.1 mask 255.255.255.0
//! add tests client tcp port 0 test-case-id 0 src 10.0.0.1 10.0.0.1 sport 10000 20000 dest 10.0.0.253 10.0.0.253 dport 6000 6000
//! set tests client raw port 0 test-case-id 0 data-req-plen 100 data-resp-plen 200
//! set tests rate port 0 test-case-id 0 open 1000
//! add tests server tcp port 1 test-case-id 0 src 10.0.0.253 10.0.0.253 sport 6000 6000
//! start tests port 0
//! ```
//!
//! `words.rs` and `command.rs` read a line, `setup.rs` has what lines set up, `schedule.rs` says when test cases start, and `places.rs`,
//! `groups.rs`, `program.rs` and `multicast.rs` make the ports, groups and flows of the scenario. What commands mean is from README.md and
//! the sources of Juniper/warp17.

mod command;
mod groups;
mod multicast;
mod places;
mod program;
mod schedule;
mod setup;
mod words;

use std::collections::BTreeMap;

use wirebeat_units::fault;

use crate::draft::Draft;
use crate::{Line, ScriptError};

use command::{CaseId, End};
use setup::Setup;

/// A command that sets tests up, starts or stops them.
pub(crate) fn hint(line: &str) -> bool {
    command::is_command(line)
}

pub(crate) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    let mut setup = Setup::default();
    for (line, text) in draft.lines() {
        setup.line(draft, &line, text)?;
    }
    drop_unstarted(&mut setup, draft);
    let mut plans = BTreeMap::new();
    for (&port, eth) in &setup.ports {
        let of = schedule::plans(eth, draft);
        plans.extend(of.into_iter().map(|(case, plan)| (CaseId { port, case }, plan)));
    }
    if draft.scenario.run.time.is_none() {
        draft.scenario.run.time = schedule::run_time(plans.values());
    }
    if draft.options.multiply.is_some() {
        let line = Line { file: draft.source.name.into(), number: 1 };
        let why = "sessions are the pairs of the addresses and ports that the file names: name more of them";
        draft.leave_out(&line, "--multiply", why);
    }
    let places = places::Places::new(&setup, draft);
    let begins = draft.told().len();
    groups::Groups::new((&setup, &places), &plans, draft).add()?;
    if draft.scenario.sessions.is_empty() && draft.scenario.flows.is_empty() {
        let reasons: Vec<String> = draft
            .told()
            .iter()
            .skip(begins.saturating_sub(3))
            .take(5)
            .map(ToString::to_string)
            .collect();
        let problem = match reasons.is_empty() {
            true => fault!("it has no test case"; "add one with 'add tests client …'"),
            false => fault!("none of its test cases can be carried over: {}", reasons.join("; ")),
        };
        return Err(ScriptError::Whole { file: draft.source.name.to_owned(), problem });
    }
    let clients = setup.ports.values().flat_map(|eth| eth.cases.values());
    let serves_alone = clients.clone().all(|case| case.end == End::Server);
    if let Some(case) = setup.ports.values().find_map(|eth| eth.cases.values().next())
        && serves_alone
        && draft.scenario.run.time.is_none()
    {
        let why = "nothing ends a run of servers alone: it goes on for 10s, or until the 'run.time' that you set";
        draft.leave_out(&case.line, "servers", why);
    }
    Ok(())
}

/// Test cases of ports that are never started do not run, where others are.
fn drop_unstarted(setup: &mut Setup, draft: &mut Draft<'_>) {
    if !setup.ports.values().any(|eth| eth.started) {
        return;
    }
    for (number, eth) in setup.ports.iter_mut().filter(|(_, eth)| !eth.started) {
        if !eth.cases.is_empty() {
            let why = format!(
                "the file starts other ports, and not this one ('start tests port {number}')"
            );
            draft.leave_out(&eth.line, &format!("port {number}"), why);
        }
        eth.cases.clear();
    }
}
