//! Bare loops over the sockets of the engine `xdp`: what its rings and the kernel allow, without frames that are built or
//! measured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{PortError, RxPort, TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::{Attachment, XdpBuffers, XdpPlace};
use wirebeat_engine_linux::xdp::{
    Backlog, SteerOptions, Steering, XdpCopy, XdpOptions, XdpQueue, XdpRx, XdpTx,
};
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_run::Stop;
use wirebeat_units::{BufferLen, Nanos};

use crate::frames::{first, flow};
use crate::lab::{Failure, Lab};
use crate::wirebeat::Setup;

/// Frames that are handed over at once, as the engine does.
const BATCH: usize = 64;
/// More than there are chunks: each holds the frame once, and is sent again as it is.
const FILLED: usize = 4096;
/// Until the sender is under way.
const WARM_UP: Duration = Duration::from_millis(400);
/// Longest wait of a receiver before it looks whether it is to end.
const STEP: Nanos = Nanos::from_millis(10);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Sends one frame again and again from the near end until it is stopped.
pub fn transmit(lab: &Lab, stop: &AtomicBool) -> Result<(), Failure> {
    affinity::pin(lab.cores.send)?;
    let near = lab.near();
    let frame = first(lab, flow(lab))?;
    let len = u16::try_from(frame.len())?;
    let frame_len = BufferLen::new(len.into());
    let plan =
        TxPlan { tags: 1, frame_max: frame_len, frame_len: Some(frame_len), ..TxPlan::default() };
    let open =
        || XdpTx::open(&mut XdpQueue::open(near.interface(), options(0, false))?, &plan, None);
    let mut port = near.namespace.run(open)??;
    let metas = vec![TxMeta { len, ..TxMeta::default() }; BATCH];
    let mut filled = 0;
    while !stop.load(Ordering::Relaxed) {
        let room = port.reserve(BATCH)?;
        for index in 0..room {
            if filled < FILLED {
                let slot = port.slot(index).get_mut(..frame.len()).ok_or("a slot is too short")?;
                slot.copy_from_slice(&frame);
                filled += 1;
            }
        }
        port.commit(&metas[..room])?;
        port.flush()?;
        port.settled(&mut |_, _| {});
    }
    Ok(())
}

fn options(queue: u32, receives: bool) -> XdpOptions {
    XdpOptions {
        queue,
        copy: XdpCopy::Always,
        receives: receives.then_some(Backlog::Short),
        ..XdpOptions::default()
    }
}

/// Frames per second that the far end takes and gives back, while `sender` sends.
pub fn receive(lab: &Lab, sender: &Setup, time: Duration) -> Result<f64, Failure> {
    let far = lab.far();
    // a virtual cable has what a CPU sends arrive by the queue of its number
    let queues = far.link.rx_queues.max(1);
    let queue = lab.cores.send as u32 % queues;
    let flows = BTreeMap::from([(0, Expectation::default())]);
    let meter = MeterConfig { flows: Flows::Expected(flows), ..MeterConfig::default() };
    let open = || -> Result<XdpRx, PortError> {
        let attachment = Attachment::open(
            (far.link.index.get(), far.interface()),
            XdpPlace::Best,
            XdpBuffers::One,
        )?;
        let steer = SteerOptions { queues, ..SteerOptions::default() };
        let steering =
            Arc::new(Steering::begin((far.interface(), Arc::new(attachment)), &meter, steer)?);
        XdpRx::open(&mut XdpQueue::open(far.interface(), options(queue, true))?, &steering, None)
    };
    let mut port = far.namespace.run(open)??;
    let (count, done, stop) = (AtomicU64::new(0), AtomicBool::new(false), Stop::new());
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<u64, Failure> {
            affinity::pin(lab.cores.other)?;
            while !done.load(Ordering::Relaxed) {
                let taken = port.receive(MonotonicClock.now().saturating_add(STEP), |_| {})?;
                count.fetch_add(taken as u64, Ordering::Relaxed);
            }
            Ok(port.receive_drops())
        });
        let sending = scope.spawn(|| sender.run(lab, LONG, &stop));
        thread::sleep(WARM_UP);
        let (before, begun) = (count.load(Ordering::Relaxed), Instant::now());
        thread::sleep(time);
        let (taken, took) = (count.load(Ordering::Relaxed) - before, begun.elapsed());
        stop.ask(0);
        done.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| "the sender panicked")??;
        let lost = reader.join().map_err(|_| "the receiver panicked")??;
        match taken {
            0 => Err(format!("nothing arrived, and {lost} were lost").into()),
            taken => Ok(taken as f64 / took.as_secs_f64()),
        }
    })
}
