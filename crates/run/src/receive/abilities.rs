//! Which engine receives, and whether it can do what is asked of a receiver.

use wirebeat_meter::filter::Filter;
use wirebeat_traffic::scenario::{PortSpec, XdpModeChoice};

use super::ReceiveRequest;
use crate::engines::{self, Ability, Choice, Engine, EngineReason, fastest};
use crate::error::RunError;
use crate::ports::ResolvedPort;

/// Whether an engine that may be chosen does all that is asked.
pub(super) fn fits(request: &ReceiveRequest, engine: Engine) -> bool {
    // the lines of other tools' packets come from every engine, their measurement does not
    ((request.codecs.is_empty() && request.log.is_none()) || engine.can(Ability::Codecs))
        && (request.queues <= 1 || engine.can(Ability::ReceiveQueues))
}

/// The engine for it.
pub(super) fn engine(request: &ReceiveRequest, port: &ResolvedPort) -> Result<Choice, RunError> {
    let mut instead = engines::without_ethernet(port);
    let engine = match request.engine.engine() {
        Some(engine) => {
            engines::check_ethernet(port, engine)?;
            return Ok(Choice { engine, reason: EngineReason::Named });
        }
        None if port.link.is_none() || instead.is_some() => fastest(|engine| !engine.needs_link()),
        None => fastest(|engine| fits(request, engine)),
    };
    if !engine.needs_link() && port.link.is_some() {
        instead.get_or_insert_with(|| {
            "this process may not read frames from interfaces (CAP_NET_RAW); as root it can"
                .to_owned()
        });
    }
    let reason = instead.map_or(EngineReason::Fastest, EngineReason::Instead);
    Ok(Choice { engine, reason })
}

/// That the engine can do what is asked of a receiver.
pub(super) fn check_abilities(
    request: &ReceiveRequest,
    port: &ResolvedPort,
    engine: Engine,
) -> Result<(), RunError> {
    let use_one = |of: fn(Engine) -> bool| {
        format!("use the engine {}", Engine::names(|engine| engine.has_network() && of(engine)))
    };
    if !engine.has_network() || !engine.can(Ability::Receive) {
        let what = format!("the engine '{engine}' has no network to receive from");
        return Err(RunError::usage(what).hint(use_one(|engine| engine.can(Ability::Receive))));
    }
    if engine.needs_link() && port.link.is_none() {
        let what = format!("the {engine} engine receives on an interface");
        return Err(RunError::usage(what).hint("give one with --interface"));
    }
    if !request.codecs.is_empty() && !engine.can(Ability::Codecs) {
        let what = format!("the {engine} engine reads Wirebeat's own probes only");
        let hint = use_one(|engine| engine.can(Ability::Codecs));
        return Err(RunError::usage(what).hint(format!("{hint} for --codec")));
    }
    let passes = engine.can(Ability::PassOnRequest) || engine.can(Ability::PassAlways);
    if request.capture.is_some() && request.pass && !passes && engine.needs_link() {
        let what = format!(
            "the {engine} engine keeps frames from the programs of this host, and sees those with probes alone"
        );
        let hint =
            use_one(|engine| engine.can(Ability::PassOnRequest) || engine.can(Ability::PassAlways));
        return Err(RunError::usage(what).hint(format!("{hint} to capture")));
    }
    check_queues(request, engine)?;
    let chosen = request.xdp_mode != XdpModeChoice::Auto || request.busy_poll;
    if chosen && !engine.can(Ability::ChooseXdpMode) {
        let what = format!("the {engine} engine has no AF_XDP sockets");
        let hint = use_one(|engine| engine.can(Ability::ChooseXdpMode));
        return Err(RunError::usage(what).hint(format!("{hint} for --xdp-mode and --busy-poll")));
    }
    let Filter { source, source_port, .. } = request.filter;
    if !engine.can(Ability::SeeHeaders) && (source.is_some() || source_port.is_some()) {
        let what =
            format!("the engine '{engine}' takes what is sent to its port, wherever it comes from");
        let hint = use_one(|engine| engine.can(Ability::SeeHeaders));
        return Err(
            RunError::usage(what).hint(format!("{hint} to choose by --source or --source-port"))
        );
    }
    Ok(())
}

/// That several queues can do what is asked of a receiver.
fn check_queues(request: &ReceiveRequest, engine: Engine) -> Result<(), RunError> {
    let queues = request.queues;
    if queues <= 1 {
        return Ok(());
    }
    let most = PortSpec::RECEIVE_QUEUES_MAX;
    if queues > most {
        let what = format!("a receiver has {most} queues at the most, and --queues says {queues}");
        return Err(RunError::usage(what));
    }
    if !engine.can(Ability::ReceiveQueues) {
        let able = Engine::names(|engine| engine.can(Ability::ReceiveQueues));
        let what = match engine.can(Ability::MeterInKernel) {
            true => format!("the {engine} engine meters on the CPUs that frames arrive at"),
            false => format!("the {engine} engine receives by one queue"),
        };
        let hint = format!("use the engine {able} for --queues, or leave that out");
        return Err(RunError::usage(what).hint(hint));
    }
    match request.count {
        Some(_) => {
            let what = "--count goes with one queue, as only that has frames in their order";
            Err(RunError::usage(what).hint("leave --queues out"))
        }
        None => Ok(()),
    }
}
