//! Segments over the cable, both ends ours, beside bare loops over the same ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::port::{RxPort, TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::{Attachment, KernelOptions, KernelTx, XdpBuffers, XdpPlace};
use wirebeat_engine_linux::packet::{Accept, PacketTx, PromptRx};
use wirebeat_engine_linux::xdp::{StationMask, StationRx};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_report::model::SessionEnd;
use wirebeat_testbed::End;
use wirebeat_units::{BufferLen, Nanos};
use wirebeat_wire::mac::MacAddr;

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sessions::{Group, Path, Tcp};
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
Our own TCP at both ends of the cable, one core each, 500 clients with one HTTP request each under way and responses of 100 bytes. Segments are \
those that both ends sent. The limit is a bare loop over the same ports, opened as sessions open them: 500 frames of 200 bytes go to and \
fro, each end writes a frame for each that it takes, and does nothing else.";

/// Sessions, and frames of the bare loop, that are under way.
const UNDER_WAY: u32 = 500;
/// Bytes of a frame of the bare loop, without FCS: about the mean of requests and responses.
const FRAME: u16 = 200;
/// Frames that are handed over at once.
const BATCH: usize = 64;
/// The longest wait for a frame before a look whether it is over.
const STEP: Nanos = Nanos::from_millis(1);
/// Looks without a frame until an end takes all as lost and begins again.
const SILENCE: u32 = 20;
/// Until frames go to and fro.
const WARM_UP: Duration = Duration::from_millis(300);
/// What segments have to reach of the frames of the bare loop.
const SHARE: f64 = 0.6;
/// Engines that sessions go over.
const ENGINES: [Tcp; 2] = [Tcp::Packet, Tcp::Kernel];

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants = Vec::new();
    for tcp in ENGINES {
        let name = tcp.name();
        contestants.push(Contestant::new(format!("segments: {name}"), move |bench: &Bench| {
            segments(bench, tcp)
        }));
        contestants.push(Contestant::new(format!("frames: {name}"), move |bench: &Bench| {
            frames(&bench.lab, tcp, FRAME, bench.time)
        }));
    }
    let measured = in_turn(bench, &contestants, |rate| format!("{}/s", format::rate(*rate)));
    let mut table = Table::new(&["ports", "segments/s", "bare frames/s", "of them", "remark"]);
    let mut verdicts = Vec::new();
    for (tcp, pair) in ENGINES.into_iter().zip(measured.chunks_exact(2)) {
        let [segments, frames] = pair else { continue };
        let series = |of: &Measured<f64>| of.series(|rate| *rate);
        let ratio = series(segments).over(&series(frames));
        table.row(vec![
            tcp.name().to_owned(),
            format::series(&series(segments), format::rate),
            format::series(&series(frames), format::rate),
            ratio.as_ref().map_or(NOTHING.into(), format::ratio),
            [segments.remark(), frames.remark()].concat(),
        ]);
        let target = format!("{}, segments/s over veth ≥ {SHARE} of bare frames/s", tcp.name());
        verdicts.push(match &ratio {
            Some(ratio) => Verdict::of(target, format::ratio(ratio), ratio.median >= SHARE),
            None => Verdict::unmeasured(target, segments.reason()),
        });
    }
    Chapter {
        title: "Segments over the cable",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts,
    }
}

/// Segments that both ends sent in a second.
fn segments(bench: &Bench, tcp: Tcp) -> Result<f64, Failure> {
    let run = format!("time: {}ms", bench.time.as_millis());
    let group = Group {
        client: Some(tcp),
        server: Some(tcp),
        path: Path::Cable,
        port: 80,
        keys: "timeout: 1s, program: { http: { requests: 1000000000, size: 100B } }",
        starts: &format!("users: {UNDER_WAY}"),
        run: &run,
    };
    let report = group.report(&bench.lab)?;
    let sent: u64 = report.stacks.iter().map(|stack| stack.segments.all).sum();
    // sessions that are open at the end of the time go on for a while
    let client = report.sessions.iter().find(|group| group.end == SessionEnd::Client);
    let over = client.and_then(|group| group.rates).map_or(0, |rates| rates.over_ns);
    match (sent, over) {
        (0, _) | (_, 0) => Err("no segment was sent".into()),
        (sent, over) => Ok(sent as f64 * 1e9 / over as f64),
    }
}

/// The address of the station at an end.
fn station(near: bool) -> MacAddr {
    MacAddr([2, 0x77, 0, 0, 0, if near { 1 } else { 2 }])
}

/// Frames of so many bytes without FCS that both ends of a bare loop send in a second.
pub(super) fn frames(lab: &Lab, tcp: Tcp, len: u16, time: Duration) -> Result<f64, Failure> {
    let (sent, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let begin = |near: bool| {
            let (sent, done) = (&sent, &done);
            scope.spawn(move || one_end(lab, (tcp, len), near, (sent, done)))
        };
        let ends = [begin(true), begin(false)];
        thread::sleep(WARM_UP);
        let before = sent.load(Ordering::Relaxed);
        thread::sleep(time);
        let count = sent.load(Ordering::Relaxed) - before;
        done.store(true, Ordering::Relaxed);
        for end in ends {
            end.join().map_err(|_| "an end panicked")??;
        }
        match count {
            0 => Err("no frame came back".into()),
            count => Ok(count as f64 / time.as_secs_f64()),
        }
    })
}

/// Writes so many frames, and says how many it could.
pub(super) type Write<'a> = &'a mut dyn FnMut(usize) -> Result<usize, Failure>;
/// Takes the frames that are there, waiting for the first until this time of the monotonic clock at most, and says how many.
pub(super) type Read<'a> = &'a mut dyn FnMut(Nanos) -> Result<usize, Failure>;

/// Opens the port of an end and has frames go to and fro until it is `done`.
fn one_end(
    lab: &Lab,
    (tcp, len): (Tcp, u16),
    near: bool,
    (sent, done): (&AtomicU64, &AtomicBool),
) -> Result<(), Failure> {
    at_end(lab, (tcp, len), near, |tx, rx| {
        let mut silent = SILENCE - 1;
        while !done.load(Ordering::Relaxed) {
            let mut owed = rx(step())?;
            silent = if owed == 0 { silent + 1 } else { 0 };
            if near && silent == SILENCE {
                (owed, silent) = (UNDER_WAY as usize, 0);
            }
            while owed > 0 {
                let count = tx(owed.min(BATCH))?;
                owed -= count;
                sent.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    })
}

/// The end of a wait for a frame that begins now.
pub(super) fn step() -> Nanos {
    MonotonicClock.now().saturating_add(STEP)
}

/// Opens the port of an end, on its core, for `work` with frames of so many bytes.
pub(super) fn at_end<T: Send>(
    lab: &Lab,
    (tcp, len): (Tcp, u16),
    near: bool,
    work: impl FnOnce(Write<'_>, Read<'_>) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let (end, core) = match near {
        true => (lab.near(), lab.cores.send),
        false => (lab.far(), lab.cores.other),
    };
    affinity::pin(core)?;
    let plan = TxPlan { tags: 1, ..TxPlan::default() };
    let template = template(near, len);
    end.namespace.run(|| -> Result<T, Failure> {
        match tcp {
            Tcp::Kernel => {
                let attachment = attach(end)?;
                let mut tx = KernelTx::open(kernel_options(end, plan))?;
                let own = StationMask { value: station(near), mask: MacAddr([0xff; 6]) };
                let mut rx = StationRx::open(end.interface(), attachment, own)?;
                work(&mut |count| write(&mut tx, &template, count), &mut |until| {
                    read(&mut rx, until)
                })
            }
            Tcp::Packet | Tcp::Host => {
                let mut tx = PacketTx::open_large(end.interface(), &plan)?;
                let mut rx = PromptRx::open(end.interface(), Accept::All)?;
                work(&mut |count| write(&mut tx, &template, count), &mut |until| {
                    read(&mut rx, until)
                })
            }
        }
    })?
}

/// An IPv4 packet of TCP that nobody reads.
fn template(near: bool, len: u16) -> Vec<u8> {
    let mut frame = vec![0; len.into()];
    let head = [&station(!near).0[..], &station(near).0, &[8, 0, 0x45]].concat();
    for (to, from) in frame.iter_mut().zip(head) {
        *to = from;
    }
    frame
}

fn attach(end: &End) -> Result<Arc<Attachment>, Failure> {
    let at = (end.link.index.get(), end.interface());
    Ok(Arc::new(Attachment::open(at, XdpPlace::Best, XdpBuffers::One)?))
}

fn kernel_options(end: &End, plan: TxPlan) -> KernelOptions {
    KernelOptions {
        index: end.link.index.get(),
        interface: end.interface().to_owned(),
        plan: TxPlan { frame_max: BufferLen::new(1518), ..plan },
        wait: Wait::Sleep,
        thread: None,
        unix_offset: UnixOffset::default(),
        sequences: None,
        shared: None,
        attachment: None,
        link: None,
        observe: None,
    }
}

/// Hands over up to `count` frames, and says how many.
fn write(tx: &mut impl TxPort, template: &[u8], count: usize) -> Result<usize, Failure> {
    let room = tx.reserve(count)?.min(count);
    for index in 0..room {
        let slot = tx.slot(index).get_mut(..template.len()).ok_or("a slot is too short")?;
        slot.copy_from_slice(template);
    }
    let len = u16::try_from(template.len())?;
    let metas = [TxMeta { len, ..TxMeta::default() }; BATCH];
    tx.commit(metas.get(..room).unwrap_or_default())?;
    tx.flush()?;
    tx.settled(&mut |_, _| {});
    Ok(room)
}

/// Takes what is there, and waits until then where nothing is.
fn read(rx: &mut impl RxPort, until: Nanos) -> Result<usize, Failure> {
    Ok(rx.receive(until, |_| {})?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_from_one_station_to_the_other() {
        let (near, far) = (template(true, FRAME), template(false, FRAME));
        assert_eq!(near.len(), usize::from(FRAME));
        assert_eq!((&near[..6], &near[6..12]), (&far[6..12], &far[..6]));
    }
}
