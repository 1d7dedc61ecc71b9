//! A run of a scenario, whatever it has: flows (`flows/`), sessions (`sessions/`), or both at the same time (`side_by_side.rs`).

use std::path::Path;
use std::sync::Arc;

use wirebeat_report::model::Report;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::values::session::StackChoice;
use wirebeat_units::fault;

use crate::control::socket::{ControlSocket, answered};
use crate::control::{Control, place};
use crate::engines::{Ability, Engine};
use crate::error::RunError;
use crate::expectations::{Expectations, Watching};
use crate::flows::{self, PreparedFlows};
use crate::observe::{Observer, Stop};
use crate::options::Options;
use crate::sessions::{self, PreparedSessions};
use crate::side_by_side;

/// A run that is ready to start: compiled, its ports open, its servers listening, nothing sent.
#[allow(missing_debug_implementations, reason = "a connection has no readable form")]
pub struct Prepared {
    parts: Parts,
    expected: Expectations,
    abort_on_fail: bool,
}

enum Parts {
    Flows(Box<PreparedFlows>),
    Sessions(Box<PreparedSessions>),
    Both(Box<PreparedFlows>, Box<PreparedSessions>),
}

/// What is said where a run is to be ended by what it breaks, and nothing can be broken while it goes on.
const NOTHING_ABORTS: &str = "--abort-on-fail ends nothing here: no expectation can be broken before the end; expect something of \
     intervals that is not a rate, for example 'interval.loss <= 1%', of sessions 'failed == 0', or 'duration <= 10s'";

/// Finds the ports of `scenario`, compiles it, opens what it sends and receives by, and listens where it has servers. Nothing is
/// sent, and no session starts.
///
/// # Errors
/// What the scenario cannot mean, or this machine cannot do.
pub fn prepare(scenario: &Scenario, options: Options) -> Result<Prepared, RunError> {
    check_parts(scenario)?;
    place::remove_dead();
    let abort_on_fail = options.abort_on_fail;
    let parts = match (scenario.flows.is_empty(), scenario.sessions.is_empty()) {
        (_, true) => Parts::Flows(Box::new(flows::prepare(scenario, options)?)),
        (true, false) => Parts::Sessions(Box::new(sessions::prepare(scenario, options)?)),
        (false, false) => {
            // XDP programs of sessions come first: the other end of a cable of flows may have one
            let sessions = sessions::prepare(scenario, options.of_sessions())?;
            let flows = flows::prepare(scenario, options)?;
            if let (Some(control), Some(starts)) = (flows.control(), &sessions.changeable) {
                control.join(Arc::clone(starts));
            }
            Parts::Both(Box::new(flows), Box::new(sessions))
        }
    };
    Ok(Prepared { parts, expected: Expectations::of(scenario), abort_on_fail })
}

/// Refuses flows and sessions in one run where they cannot share it.
pub(crate) fn check_parts(scenario: &Scenario) -> Result<(), RunError> {
    if scenario.flows.is_empty() || scenario.sessions.is_empty() {
        return Ok(());
    }
    let virtual_port = scenario
        .ports
        .iter()
        .find(|(_, port)| port.engine.engine().is_some_and(Engine::is_virtual));
    if let Some((name, _)) = virtual_port {
        return Err(RunError::usage(
            fault!(
                "flows and sessions cannot share a run on a virtual clock";
                "make a scenario of each, or give all ports an engine with a network"
            )
            .at(format!("ports.{name}.engine")),
        ));
    }
    for (name, port) in &scenario.ports {
        let Some(engine) = port.engine.engine() else { continue };
        let flows = scenario
            .flows
            .values()
            .any(|flow| flow.from == *name || flow.to.as_ref() == Some(name));
        let own = scenario.sessions.values().any(|group| {
            group.stack == StackChoice::Own
                && [&group.from, &group.to].into_iter().flatten().any(|end| end == name)
        });
        if flows && own && engine.can(Ability::OneProgram) {
            return Err(RunError::usage(
                fault!(
                    "port '{name}' has flows and sessions of our own TCP, and its interface has one XDP program of the \
                     engine {engine}";
                    "leave the engine out, so that each has one of its own, or give the sessions another interface"
                )
                .at(format!("ports.{name}.engine")),
            ));
        }
    }
    Ok(())
}

impl Prepared {
    /// The handle for those who change its flows and the starts of its sessions, where [`Options::control`] asks for one. It works
    /// while the run goes on.
    pub fn control(&self) -> Option<Control> {
        match &self.parts {
            Parts::Flows(flows) | Parts::Both(flows, _) => flows.control(),
            Parts::Sessions(sessions) => sessions.control.clone(),
        }
    }

    /// Where the control socket lies, if there is one.
    pub fn control_path(&self) -> Option<&Path> {
        match &self.parts {
            Parts::Flows(flows) | Parts::Both(flows, _) => flows.control_path(),
            Parts::Sessions(sessions) => sessions.control_path(),
        }
    }

    /// Lets the receiver on another host begin to measure, if there is one: call it right before [`Prepared::start`], which
    /// otherwise does so itself and can only report that it failed. Waiting for that host ends as soon as `stop` is asked.
    ///
    /// # Errors
    /// What the other host cannot do, or says that cannot be true. Nothing has been sent.
    pub fn begin(&mut self, stop: &Stop) -> Result<(), RunError> {
        match &mut self.parts {
            Parts::Flows(flows) | Parts::Both(flows, _) => flows.begin(stop),
            Parts::Sessions(_) => Ok(()),
        }
    }

    /// Runs to the end and reports.
    pub fn start(self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        let control = self.control();
        let has_end = self.parts.have_end();
        let Prepared { mut parts, expected, abort_on_fail } = self;
        if abort_on_fail && !expected.can_abort() {
            observer.notice(NOTHING_ABORTS);
        }
        let socket = parts.take_control_socket().zip(control);
        let (mut report, watched) = answered(socket, observer, |observer| {
            let aborts = abort_on_fail.then_some(stop);
            let mut watching = Watching::new(observer, &expected, aborts);
            let report = parts.start(&mut watching, stop);
            (report, watching.watched())
        });
        expected.judge(&mut report, watched.as_ref());
        if has_end {
            report.judge_stop();
        }
        report
    }
}

impl Parts {
    /// The control socket, which is answered until the last part has ended.
    fn take_control_socket(&mut self) -> Option<ControlSocket> {
        match self {
            Parts::Flows(flows) | Parts::Both(flows, _) => flows.take_control_socket(),
            Parts::Sessions(sessions) => sessions.control_socket.take(),
        }
    }

    /// Whether it ends by itself: servers that wait for others do not.
    fn have_end(&self) -> bool {
        match self {
            Parts::Flows(_) | Parts::Both(..) => true,
            Parts::Sessions(sessions) => sessions.have_clients(),
        }
    }

    fn start(self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        match self {
            Parts::Flows(flows) => flows.start(observer, stop),
            Parts::Sessions(sessions) => sessions.start(observer, stop),
            Parts::Both(flows, sessions) => side_by_side::start(*flows, *sessions, observer, stop),
        }
    }
}
