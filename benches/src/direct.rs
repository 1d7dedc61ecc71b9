//! Engines driven without a run around them, for the two modes that a scenario cannot ask for: the
//! kernel engine streamed by a feeder although its program would repeat, and the socket engine with
//! single datagrams although their sizes would let them be joined.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::collect::{LiveRx, collect};
use wirebeat_engine::drive::{Driven, Job, LiveTx, Plan, RunTimes, Sequences, drive};
use wirebeat_engine::port::{TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::{
    Fate, KernelOptions, KernelReceiver, KernelTx, ReceiveOptions,
};
use wirebeat_engine_linux::scheduling::ThreadOrders;
use wirebeat_engine_linux::socket::{
    Checksum, Endpoint, Gro, Joining, SocketReceive, SocketRx, SocketTransmit, SocketTx,
};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
use wirebeat_meter::summary::{FlowSummary, MeterSummary};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{BufferLen, Nanos};

use crate::frames::{first, flow, program};
use crate::lab::{Failure, Lab};
use crate::wirebeat::Metered;

const ALONE: Shard = Shard { core: 0, cores: 1 };
/// From the start of the threads until the first frame.
const LEAD: Nanos = Nanos::from_millis(20);
/// Until frames on their way have arrived.
const SETTLE: Duration = Duration::from_millis(100);

/// The kernel engine, fed from the other core.
pub fn kernel_streamed(lab: &Lab, time: Duration) -> Result<Metered, Failure> {
    let program = program(lab, flow(lab))?;
    let (near, far) = (lab.near(), lab.far());
    let receive = ReceiveOptions {
        observe: None,
        attachment: None,
        index: far.link.index.get(),
        interface: far.link.name.clone(),
        meter: expected(),
        unprobed_gap: None,
        by_queue: BTreeSet::new(),
        fate: Fate::Drop,
        several_queues: false,
        queues: Some(far.link.rx_queues),
    };
    let receiver = far.namespace.run(|| KernelReceiver::open(&receive))??;
    let plan = Plan::new(&program, &[0], ALONE, (0, 0));
    let options = KernelOptions {
        index: near.link.index.get(),
        interface: near.link.name.clone(),
        plan: plan.tx,
        wait: Wait::Spin,
        thread: Some(ThreadOrders::on(lab.cores.send)),
        unix_offset: UnixOffset::default(),
        sequences: None,
        shared: None,
        attachment: None,
        link: None,
        observe: None,
    };
    let mut port = near.namespace.run(|| KernelTx::open(options))??;
    let driven = driven(&mut port, &program, &plan, (lab.cores.other, time))?;
    thread::sleep(SETTLE);
    metered(&driven, &receiver.summary())
}

/// Frames per second of the kernel engine without a thread of its own, which sends `batch` frames in each call of its caller.
/// They end at `receiver`, which counts each of them.
pub fn kernel_sends(
    lab: &Lab,
    receiver: &KernelReceiver,
    (batch, time): (usize, Duration),
) -> Result<f64, Failure> {
    let (near, frame) = (lab.near(), first(lab, flow(lab))?);
    let len = u16::try_from(frame.len())?;
    let frame_len = BufferLen::new(len.into());
    let plan =
        TxPlan { tags: 1, frame_max: frame_len, frame_len: Some(frame_len), ..TxPlan::default() };
    let options = KernelOptions {
        index: near.link.index.get(),
        interface: near.link.name.clone(),
        plan,
        wait: Wait::Spin,
        thread: None,
        unix_offset: UnixOffset::default(),
        sequences: None,
        shared: None,
        attachment: None,
        link: None,
        observe: None,
    };
    let metas = vec![TxMeta { len, drift: Nanos::MAX, ..TxMeta::default() }; batch];
    let sending = || -> Result<(u64, Duration), Failure> {
        affinity::pin(lab.cores.send)?;
        let mut port = near.namespace.run(|| KernelTx::open(options))??;
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < time {
            if port.reserve(batch)? < batch {
                return Err("a batch found no room".into());
            }
            for index in 0..batch {
                let slot = port.slot(index).get_mut(..frame.len()).ok_or("a slot is too short")?;
                slot.copy_from_slice(&frame);
            }
            port.commit(&metas)?;
            port.flush()?;
            sent += batch as u64;
        }
        Ok((sent, start.elapsed()))
    };
    let (sent, took) =
        thread::scope(|scope| scope.spawn(sending).join().map_err(|_| "the sender panicked"))??;
    thread::sleep(SETTLE);
    let arrived = receiver.summary().unprobed.frames;
    match arrived == sent {
        true => Ok(sent as f64 / took.as_secs_f64()),
        false => Err(format!("{sent} were sent and {arrived} arrived").into()),
    }
}

/// The socket engine, sending and receiving each datagram by itself.
pub fn socket_single(lab: &Lab, time: Duration) -> Result<Metered, Failure> {
    let program = program(lab, flow(lab))?;
    let flow = program.flows.first().ok_or("a scenario lost its flow")?;
    let endpoint = flow.endpoint.ok_or("a scenario lost its endpoint")?;
    let (near, far) = (lab.near(), lab.far());
    let receive = SocketReceive {
        listen: vec![endpoint.destination],
        gro: Gro::Off,
        ..SocketReceive::default()
    };
    let mut receiver = far.namespace.run(|| SocketRx::open(None, &receive, None))??;
    let plan = Plan::new(&program, &[0], ALONE, (0, 0));
    let image = program.streams.first().ok_or("a scenario lost its frames")?.frames.datagram();
    let transmit = SocketTransmit {
        plan: TxPlan { frame_max: image.longest(), frame_len: image.fixed_len(), ..plan.tx },
        endpoints: vec![Some(Endpoint {
            source: SocketAddr::new(near.ipv4.into(), 0),
            destination: endpoint.destination,
            ttl: endpoint.ttl,
            tos: endpoint.tos,
            checksum: Checksum::Sent,
        })],
        joining: Joining::Never,
    };
    let mut sender = near.namespace.run(|| SocketTx::open(None, &transmit, None))??;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            affinity::pin(lab.cores.other)?;
            let mut meter = Meter::new(expected());
            collect(&mut receiver, &MonotonicClock, &mut meter, &stop, &LiveRx::default())?;
            Ok::<_, Failure>(meter.summary())
        });
        let driven = driven(&mut sender, &program, &plan, (lab.cores.send, time));
        thread::sleep(SETTLE);
        stop.store(true, Ordering::Release);
        let summary = reader.join().map_err(|_| "the receiver panicked")??;
        metered(&driven?, &summary)
    })
}

/// Flow 0, without a rate.
fn expected() -> MeterConfig {
    let flows = BTreeMap::from([(0, Expectation::default())]);
    MeterConfig { flows: Flows::Expected(flows), ..MeterConfig::default() }
}

/// Drives a port on a thread of its own, bound to a CPU, for a time.
fn driven<P: TxPort>(
    port: &mut P,
    program: &Program,
    plan: &Plan,
    (cpu, time): (usize, Duration),
) -> Result<Driven, Failure> {
    let driving = || {
        affinity::pin(cpu)?;
        let start = MonotonicClock.now().saturating_add(LEAD);
        let job = Job {
            program,
            flows: &[0],
            shard: ALONE,
            sequences: &Sequences::new(1),
            times: RunTimes {
                start,
                end: start.saturating_add(Nanos::new(time.as_nanos() as u64)),
                latest: start.saturating_add(Nanos::new(time.as_nanos() as u64)),
                wait: Wait::Spin,
                unix_offset: &UnixOffset::default(),
            },
            stop: &AtomicBool::new(false),
            live: &LiveTx::default(),
            playbacks: std::cell::RefCell::default(),
            changes: None,
            limit: None,
        };
        Ok::<_, Failure>(drive(port, &MonotonicClock, &job, plan))
    };
    let driven =
        thread::scope(|scope| scope.spawn(driving).join().map_err(|_| "the sender panicked"))??;
    match driven.error {
        Some(error) => Err(error.into()),
        None => Ok(driven),
    }
}

/// Brings both sides together.
fn metered(driven: &Driven, summary: &MeterSummary) -> Result<Metered, Failure> {
    let sent = driven.flows.first().ok_or("nothing was sent")?;
    let received: &FlowSummary = summary.flows.get(&0).ok_or("nothing arrived")?;
    let unique = received.sequence.unique;
    let rate = |frames: u64, ns: u64| frames.saturating_sub(1) as f64 * 1e9 / ns.max(1) as f64;
    let (first, last) = sent.span.ok_or("nothing was sent")?;
    let (begun, ended) = received.span.ok_or("nothing arrived")?;
    Ok(Metered {
        sent: rate(sent.sent.frames, last.saturating_sub(first).get()),
        received: rate(unique, ended.saturating_sub(begun)),
        lost: sent.sent.frames.saturating_sub(unique),
    })
}
