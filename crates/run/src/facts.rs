//! Facts for the report: where a run took place, and what it cost.

use std::sync::Arc;
use std::time::Duration;

use wirebeat_engine::clock::Wait;
use wirebeat_engine::drive::TxFlowStats;
use wirebeat_engine::port::OWN_HISTOGRAMS;
use wirebeat_engine_linux::scheduling::{Policy, ThreadState};
use wirebeat_engine_linux::time::RealtimeToMonotonic;
use wirebeat_host::{CpuTimes, CpuUse, Machine};
use wirebeat_meter::summary::MeterSummary;
use wirebeat_report::assemble::CpuTime;
use wirebeat_report::model::{Clock, Host, Station, Thread, TransmitQueue};
use wirebeat_units::Nanos;

use crate::engines::{Ability, Engine};
use crate::placement::Seat;
use crate::ports::ResolvedPort;

/// The name of a wait mode.
pub(crate) fn wait_name(wait: Wait) -> &'static str {
    match wait {
        Wait::Spin => "spin",
        Wait::Hybrid => "hybrid",
        Wait::Sleep => "sleep",
    }
}

/// This machine, as reports name it.
pub(crate) fn host(machine: &Machine) -> Host {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Host {
        name,
        kernel: machine.kernel.release.clone().unwrap_or_else(|| "unknown".to_owned()),
        cpu_model: machine.cpu.model.clone().unwrap_or_else(|| "unknown".to_owned()),
        cpus: machine.cpu.online.as_ref().map_or(0, |online| online.cpus().len() as u32),
    }
}

/// The clock that stamps probes, and how it is kept.
pub(crate) fn clock(machine: &Machine) -> Clock {
    let synchronisation = match &machine.clock {
        Some(sync) if sync.synchronised => {
            let by = if sync.daemons.is_empty() {
                "the kernel".to_owned()
            } else {
                sync.daemons.join(", ")
            };
            format!("synchronised (by {by})")
        }
        Some(_) => "not synchronised".to_owned(),
        None => "unknown".to_owned(),
    };
    let bound = machine.clock.as_ref().filter(|sync| sync.synchronised);
    Clock {
        name: "CLOCK_MONOTONIC".to_owned(),
        synchronisation,
        offset_bound_ns: bound.map(|sync| sync.maximum_error_ns),
        unix_bound_ns: Some(RealtimeToMonotonic::new().error().get()),
    }
}

/// A port, as reports name it.
pub(crate) fn station(
    port: &ResolvedPort,
    engine: Engine,
    mode: &str,
    machine: &Machine,
) -> Station {
    Station {
        host: host(machine),
        interface: port.link.as_ref().map(|link| link.name.clone()),
        namespace: port.spec.namespace.clone(),
        engine: engine.name().to_owned(),
        engine_reason: port.engine_reason.to_string(),
        mode: mode.to_owned(),
        link_bits_per_second: port.link.as_ref().and_then(|link| link.speed).map(|speed| speed.0),
        wait: None,
        transmit_queues: None,
        card: None,
        cpus: Vec::new(),
        threads: Vec::new(),
        interruptions: None,
        timestamps: engine.row().stamps.1.to_owned(),
        clock: clock(machine),
        hardware_timestamps: None,
    }
}

/// The same of a port that sends.
pub(crate) fn sending_station(
    port: &ResolvedPort,
    engine: Engine,
    mode: &str,
    machine: &Machine,
) -> Station {
    let timestamps = engine.row().stamps.0.to_owned();
    Station { timestamps, ..station(port, engine, mode, machine) }
}

/// Adds what was in force for the threads of a port.
pub(crate) fn threads<'a>(
    station: &mut Station,
    role: &str,
    states: impl IntoIterator<Item = &'a Arc<ThreadState>>,
) {
    // one that was just started has not begun on a busy machine
    const PATIENCE: Duration = Duration::from_millis(100);
    let begun = states.into_iter().filter_map(|state| state.begun(PATIENCE));
    station.threads.extend(begun.map(|one| Thread {
        role: role.to_owned(),
        cpus: one.cpus.iter().map(|&cpu| cpu as u32).collect(),
        moved_from: None,
        transmit_queue: None,
        policy: match one.policy {
            Policy::Other => "SCHED_OTHER".to_owned(),
            Policy::Fifo => "SCHED_FIFO".to_owned(),
            Policy::Number(number) => format!("policy {number}"),
        },
        nice: one.nice,
        slice_ns: one.slice.map(Nanos::get),
        realtime_priority: (one.fifo > 0).then_some(one.fifo),
        note: one.refused,
    }));
}

/// Adds what was in force for a thread that sent from a port, and whether it was let go from its seat.
pub(crate) fn sender(station: &mut Station, state: &Arc<ThreadState>, seat: &Seat) {
    threads(station, "send", [state]);
    if let Some(thread) = station.threads.last_mut().filter(|thread| thread.cpus.len() > 1) {
        thread.moved_from = seat.cpu.map(|cpu| cpu as u32);
    }
}

/// Adds by which transmit queues the thread that was added last sent, where it stayed on its CPU.
pub(crate) fn transmit_queue(station: &mut Station, queue: Option<&TransmitQueue>) {
    if let Some(thread) = station.threads.last_mut().filter(|thread| thread.moved_from.is_none()) {
        thread.transmit_queue = queue.cloned();
    }
}

/// What the whole process spent since `before`.
pub(crate) fn cost(before: &CpuTimes, frames: u64) -> (Vec<CpuTime>, CpuUse) {
    let spent = CpuTimes::now().since(before);
    let costs = spent
        .process
        .map(|process| CpuTime {
            role: "all".to_owned(),
            user: Nanos::new(process.user_ns),
            system: Nanos::new(process.system_ns),
            interrupt: spent.interrupt_ns().map(Nanos::new),
            frames,
        })
        .into_iter()
        .collect();
    (costs, spent)
}

/// That a receiver has left fragments alone, if it has.
pub(crate) fn left_alone(engine: Engine, summary: &MeterSummary) -> Option<String> {
    let fragments = summary.fragments;
    (!engine.can(Ability::Reassemble) && fragments > 0).then(|| {
        format!(
            "{fragments} IP fragments arrived, and the {engine} engine does not put packets together; receive with \
             '--engine packet' to measure them"
        )
    })
}

/// That some flows have no histograms of their own, if so.
pub(crate) fn shared_histograms(summary: &MeterSummary) -> Option<String> {
    let shared = summary.shared.flows;
    (shared > 0).then(|| {
        format!(
            "the receiver's memory has room for the histograms of the flows that came first: {shared} of {} share \
             theirs, so that they have no percentiles of their own; counts, minimum, mean, standard deviation and maximum \
             are exact for each",
            summary.flows.len()
        )
    })
}

/// That some flows have no histograms of their departures, if so.
pub(crate) fn shared_departures(tags: &[TxFlowStats]) -> Option<String> {
    let shared = tags.iter().filter(|sent| sent.departures.lateness.missing() > 0).count();
    (shared > 0).then(|| {
        format!(
            "the sender keeps histograms of the departures of the first {OWN_HISTOGRAMS} flows and parts of flows: \
             {shared} more share theirs, so that they have no percentiles of their own; counts, minimum, mean, standard \
             deviation and maximum are exact for each"
        )
    })
}

/// What the machine did during the run that makes measurements less exact.
pub(crate) fn disturbances(spent: &CpuUse, machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(steal) = spent.steal_ns().filter(|_| spent.elapsed_ns > 0) {
        let share = steal as f64 / spent.elapsed_ns as f64;
        if share > 0.01 {
            found.push(format!(
                "the hypervisor took {:.1} % of a CPU from this machine during the run",
                share * 100.0
            ));
        }
    }
    if machine.kernel.clocksource.as_deref().is_some_and(|source| {
        source != "tsc" && source != "kvm-clock" && source != "arch_sys_counter"
    }) {
        found.push(format!(
            "the clock source is {}, which is slow to read; tsc would be exact",
            machine.kernel.clocksource.as_deref().unwrap_or("unknown")
        ));
    }
    found
}
