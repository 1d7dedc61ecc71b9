//! Wirebeat itself, run as its command line runs it: a scenario through `wirebeat-run`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use wirebeat_host::{CpuTime, CpuTimes};
use wirebeat_report::model::{End, FlowReport, Report, Verdict};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::scenario::{EngineChoice, PortSpec, Scenario, WaitChoice};
use wirebeat_units::{FrameRate, Nanos, Rate};

use crate::exactness::{Exactness, Paced, Processor, machine};
use crate::frames::{FAR, NEAR, flow};
use crate::gaps::Gaps;
use crate::lab::{Failure, Lab};
use crate::peers::Pace;
use crate::sinks::Sink;
use crate::window::{self, Window};

/// Until it is stopped.
const LONG: Duration = Duration::from_secs(60);

/// The program `wirebeat`, beside that of the benchmark.
pub fn program() -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name("wirebeat");
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("there is no {}: build wirebeat-cli as well", path.display()).into()),
    }
}

/// What Wirebeat is to do.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The engine that sends.
    pub engine: EngineChoice,
    /// How fast.
    pub pace: Pace,
    /// How deadlines are awaited.
    pub wait: WaitChoice,
    /// Transmit cores: one or two.
    pub cores: Cores,
    /// The engine that receives and meters; `None`: the frames run into something else.
    pub receiver: Option<EngineChoice>,
}

/// How many transmit cores there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The one that every sender gets.
    One,
    /// That and the other.
    Two,
}

impl Setup {
    /// One core of `engine`, metered by the kernel engine.
    pub fn metered(engine: EngineChoice, pace: Pace, wait: WaitChoice) -> Setup {
        Setup { engine, pace, wait, cores: Cores::One, receiver: Some(EngineChoice::Kernel) }
    }

    /// The scenario that does it for `time`.
    pub fn scenario(&self, lab: &Lab, time: Duration) -> Scenario {
        let mut scenario = Scenario::default();
        let port = |interface: &str, name: &str, engine| PortSpec {
            interface: Some(interface.to_owned()),
            namespace: Some(name.to_owned()),
            engine,
            ..PortSpec::default()
        };
        let mut near = port(lab.near().interface(), NEAR, self.engine);
        let cores = match self.cores {
            Cores::One => vec![lab.cores.send],
            Cores::Two => vec![lab.cores.send, lab.cores.other],
        };
        near.cores = cores.into_iter().map(|core| core as u16).collect();
        scenario.ports.insert(NEAR.to_owned(), near);
        let mut flow = flow(lab);
        if let Some(engine) = self.receiver {
            let far = port(lab.far().interface(), FAR, engine);
            scenario.ports.insert(FAR.to_owned(), far);
            flow.to = Some(FAR.to_owned());
        }
        if let Pace::Frames(frames) = self.pace {
            flow.rate = Rate::Frames(FrameRate { frames, per: Nanos::from_secs(1) }).into();
        }
        scenario.flows.insert("bench".to_owned(), flow);
        scenario.run.time = Some(Nanos::new(time.as_nanos() as u64));
        scenario.run.wait = self.wait;
        scenario
    }

    /// Runs for `time`, or until it is stopped.
    pub fn run(&self, lab: &Lab, time: Duration, stop: &Stop) -> Result<Report, Failure> {
        run(lab, &self.scenario(lab, time), stop)
    }
}

/// Runs a scenario to its end, or until it is stopped. A run that failed is not a measurement.
pub fn run(lab: &Lab, scenario: &Scenario, stop: &Stop) -> Result<Report, Failure> {
    let mut options = Options::default();
    for (name, end) in [(NEAR, lab.near()), (FAR, lab.far())] {
        options.namespaces.insert(name.to_owned(), end.namespace.clone());
    }
    whole(prepare(scenario, options)?.start(&mut Silent, stop))
}

/// A report of a run that was a measurement.
pub fn whole(report: Report) -> Result<Report, Failure> {
    match (&report.end, report.verdict) {
        (End::Failed { message }, _) => Err(message.clone().into()),
        (End::InterfaceGone { interface }, _) => Err(format!("{interface} went away").into()),
        (_, Verdict::CountersInconsistent) => Err("its counters are inconsistent".into()),
        _ => Ok(report),
    }
}

/// What a run reached flat out, by its own receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metered {
    /// Frames per second that were sent, between first and last departure.
    pub sent: f64,
    /// Different frames per second that were received, between first and last arrival.
    pub received: f64,
    /// Frames sent and not received.
    pub lost: u64,
}

/// Sends flat out for `time` to a receiver of Wirebeat.
pub fn flat_out_metered(lab: &Lab, setup: &Setup, time: Duration) -> Result<Metered, Failure> {
    let report = setup.run(lab, time, &Stop::new())?;
    let FlowReport { sent, received, loss, .. } = &report.total;
    let sent = sent.as_ref().and_then(|sent| sent.rates).ok_or("nothing was sent")?;
    let received =
        received.as_ref().and_then(|received| received.rates).ok_or("nothing arrived")?;
    Ok(Metered {
        sent: sent.frames_per_second,
        received: received.frames_per_second,
        lost: loss.ok_or("the loss is not known")?.frames,
    })
}

/// Sends flat out into a sink and counts there for `time`.
pub fn flat_out(lab: &Lab, setup: &Setup, sink: Sink, time: Duration) -> Result<Window, Failure> {
    counted(lab, sink, time, |stop| setup.run(lab, LONG, stop))
}

/// The same of a run that ends when it is stopped.
pub fn counted(
    lab: &Lab,
    sink: Sink,
    time: Duration,
    run: impl FnOnce(&Stop) -> Result<Report, Failure> + Send,
) -> Result<Window, Failure> {
    let sink = sink.open(lab)?;
    let watch = |running: &dyn Fn() -> bool| window::observe(lab, &sink, time, running);
    watched(run, Ends::Stopped, watch).map(|(_, window)| window)
}

/// Sends at a rate for `time` to a metering receiver, and takes what it costs in the middle of it.
pub fn paced(lab: &Lab, setup: &Setup, rate: u64, time: Duration) -> Result<Paced, Failure> {
    // the CPU time is taken within the run's own time
    const MARGIN: Duration = Duration::from_millis(200);
    let arrived = || Ok(lab.arrived()?.frames);
    let run = |stop: &Stop| setup.run(lab, time + MARGIN, stop);
    let (report, cpu) = watched(run, Ends::ByItself, |running| {
        window::under_way(window::enough(rate), arrived, running)?;
        let before = (CpuTimes::now(), CpuTime::of_process());
        thread::sleep(time.saturating_sub(MARGIN));
        let spent = CpuTimes::now().since(&before.0);
        let own = CpuTime::of_process().zip(before.1).map(|(now, before)| now.since(&before));
        let own = own.ok_or("the system does not tell the CPU time of a process")?.total_ns();
        Ok(Processor { own: own as f64 / spent.elapsed_ns as f64, machine: machine(&spent)? })
    })?;
    let received = report.total.received.as_ref().ok_or("nothing arrived")?;
    Ok(Paced { exactness: Exactness::of_report(received)?, cpu, heard: Gaps::heard_in(&report) })
}

/// How a run that is watched ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// When its time is over.
    ByItself,
    /// When enough was seen of it.
    Stopped,
}

/// Runs on a thread of its own, has `watch` look at it, and ends it. `watch` is told whether it still runs.
fn watched<T>(
    run: impl FnOnce(&Stop) -> Result<Report, Failure> + Send,
    ends: Ends,
    watch: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Failure>,
) -> Result<(Report, T), Failure> {
    let stop = Stop::new();
    thread::scope(|scope| {
        let thread = scope.spawn(|| run(&stop));
        let seen = watch(&|| !thread.is_finished());
        if ends == Ends::Stopped || seen.is_err() {
            stop.ask(0);
        }
        // the run's own error says more than that nothing was seen of it
        let report = thread.join().map_err(|_| "the run panicked")??;
        Ok((report, seen?))
    })
}
