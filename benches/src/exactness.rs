//! How exactly somebody sent at a constant rate, measured by one receiver for all: the kernel engine's,
//! before the stack, with every frame's own time. Wirebeat's frames carry probes and the peers' do
//! not; the time between two arrivals is measured in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use wirebeat_engine_linux::kernel::{Fate, KernelReceiver, ObservationOptions, ReceiveOptions};
use wirebeat_host::{CpuTimes, CpuUse};
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_meter::summary::FlowSummary;
use wirebeat_report::model::Received;
use wirebeat_units::Nanos;

use crate::frames::Files;
use crate::gaps::Gaps;
use crate::lab::{Failure, Lab};
use crate::peers::{self, Pace, Peer};
use crate::{sinks, window};

/// From the first frames until they are measured: tools begin with a burst, or by loading a file.
const WARM_UP: Duration = Duration::from_millis(300);

/// How exactly somebody sent. Errors are |time between two arrivals − the time there should be|.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exactness {
    /// Mean frames per second, from the first to the last arrival.
    pub rate: f64,
    /// The median error in ns.
    pub p50: f64,
    /// The 99th percentile in ns.
    pub p99: f64,
    /// The 99.9th percentile in ns.
    pub p99_9: f64,
}

/// CPU seconds for each second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// Of the sending process, in user space and in the kernel.
    pub own: f64,
    /// Of everything on the machine, interrupts included.
    pub machine: f64,
}

/// What sending at a rate gave, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Paced {
    /// How exact it was.
    pub exactness: Exactness,
    /// What it cost.
    pub cpu: Processor,
    /// What came between meanwhile, by what the sender heard; empty of one that does not listen.
    pub heard: Gaps,
}

impl Exactness {
    /// Of what a receiver summed up.
    pub fn of_summary(flow: &FlowSummary) -> Result<Exactness, Failure> {
        let (first, last) = flow.span.filter(|_| flow.frames > 1).ok_or("nothing arrived")?;
        let seconds = last.saturating_sub(first) as f64 / 1e9;
        let error = |q| flow.gap_error.quantile(q).map(|ns| ns as f64).ok_or("nothing arrived");
        Ok(Exactness {
            rate: (flow.frames - 1) as f64 / seconds,
            p50: error(0.5)?,
            p99: error(0.99)?,
            p99_9: error(0.999)?,
        })
    }

    /// Of what a report says.
    pub fn of_report(received: &Received) -> Result<Exactness, Failure> {
        let percentiles = received.gap_error_ns.percentiles;
        let error = |ns: Option<i64>| ns.map(|ns| ns as f64).ok_or("nothing arrived");
        Ok(Exactness {
            rate: received.rates.ok_or("nothing arrived")?.frames_per_second,
            p50: error(percentiles.p50)?,
            p99: error(percentiles.p99)?,
            p99_9: error(percentiles.p99_9)?,
        })
    }

    /// How far the mean rate is from `asked`, as a share of it.
    pub fn rate_error(&self, asked: u64) -> f64 {
        self.rate / asked as f64 - 1.0
    }
}

/// CPU seconds for each second, of everything on the machine.
pub fn machine(spent: &CpuUse) -> Result<f64, Failure> {
    let cpus = spent.cpus.as_ref().ok_or("the system does not tell the CPU time of the machine")?;
    let busy = cpus.iter().map(|cpu| cpu.busy_ns + cpu.interrupt_ns + cpu.soft_interrupt_ns);
    Ok(busy.sum::<u64>() as f64 / spent.elapsed_ns as f64)
}

/// A metering receiver at the far end, for a flow with probes (number 0) or without, of this rate.
pub fn receiver(lab: &Lab, rate: u64, fate: Fate) -> Result<KernelReceiver, Failure> {
    let gap = (1_000_000_000 + rate / 2) / rate;
    let probed = Expectation { nominal_gap: Some(Nanos::new(gap)), delay_base: 0 };
    let options = ReceiveOptions { unprobed_gap: Some(gap), fate, ..options(lab, (0, probed)) };
    Ok(lab.far().namespace.run(|| KernelReceiver::open(&options))??)
}

/// The same for a flow as fast as possible, with observations by choice; or of another flow, so that what arrives is not metered.
pub fn observing(
    lab: &Lab,
    observe: Option<ObservationOptions>,
    metered: bool,
) -> Result<KernelReceiver, Failure> {
    let flow = if metered { 0 } else { 1 };
    let options = ReceiveOptions { observe, ..options(lab, (flow, Expectation::default())) };
    Ok(lab.far().namespace.run(|| KernelReceiver::open(&options))??)
}

/// At the far end, for one flow, which ends there.
fn options(lab: &Lab, expected: (u16, Expectation)) -> ReceiveOptions {
    let link = &lab.far().link;
    ReceiveOptions {
        observe: None,
        attachment: None,
        index: link.index.get(),
        interface: link.name.clone(),
        meter: MeterConfig {
            flows: Flows::Expected(BTreeMap::from([expected])),
            ..MeterConfig::default()
        },
        unprobed_gap: None,
        by_queue: BTreeSet::new(),
        fate: Fate::Drop,
        several_queues: false,
        queues: Some(link.rx_queues),
    }
}

/// Has a peer send at a rate, and measures it for `time` once it is under way.
pub fn of_peer(
    lab: &Lab,
    files: &Files,
    peer: &Peer,
    rate: u64,
    time: Duration,
) -> Result<Paced, Failure> {
    // nobody must answer that the port is closed, which some tools take for the end
    let _socket = sinks::unread(lab)?;
    let running = peers::start(lab, files, peer, Pace::Frames(rate), None)?;
    let measured = measure(lab, rate, time);
    let ended = running.end();
    match (measured, ended) {
        (Ok((exactness, machine)), Ok(ended)) => {
            let cpu = Processor { own: ended.cpu, machine };
            Ok(Paced { exactness, cpu, heard: Gaps::default() })
        }
        // what the peer itself said is the better reason
        (_, Err(said)) => Err(said),
        (Err(why), Ok(_)) => Err(why),
    }
}

fn measure(lab: &Lab, rate: u64, time: Duration) -> Result<(Exactness, f64), Failure> {
    window::under_way(window::enough(rate), || Ok(lab.arrived()?.frames), || true)?;
    sleep(WARM_UP);
    let receiver = receiver(lab, rate, Fate::Drop)?;
    let before = CpuTimes::now();
    sleep(time);
    let spent = CpuTimes::now().since(&before);
    Ok((Exactness::of_summary(&receiver.summary().unprobed)?, machine(&spent)?))
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::distribution::Recorder;

    use super::*;

    #[test]
    fn the_rate_is_that_between_the_first_and_the_last_arrival() {
        let mut errors = Recorder::default();
        (0..1000).for_each(|error| errors.record(error / 10));
        let flow = FlowSummary {
            frames: 1001,
            span: Some((500, 1_000_000_500)),
            gap_error: errors.distribution(),
            ..FlowSummary::default()
        };
        let exactness = Exactness::of_summary(&flow).unwrap();
        assert_eq!(exactness.rate, 1000.0);
        assert_eq!((exactness.p50, exactness.p99, exactness.p99_9), (49.0, 98.0, 99.0));
        assert!((exactness.rate_error(1250) + 0.2).abs() < 1e-12);
    }

    #[test]
    fn nothing_received_is_not_a_rate() {
        assert!(Exactness::of_summary(&FlowSummary::default()).is_err());
        assert!(Exactness::of_report(&Received::default()).is_err());
    }
}
