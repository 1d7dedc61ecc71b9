//! What it costs to be told of each frame: the kernel engine flat out, with and without observations, read on the other core.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::{self, BareRing, ObservationOptions, Observations, Told};
use wirebeat_meter::observation::Observed;
use wirebeat_run::Stop;
use wirebeat_traffic::scenario::{EngineChoice, Size, WaitChoice};
use wirebeat_units::FrameLen;

use super::Chapter;
use crate::exactness;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::peers::Pace;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::{self, Cores, Setup};

/// Observations that a ring has room for.
const SLOTS: u32 = 1 << 16;
/// How long a reader waits that finds nothing, as a receiver of Wirebeat does that keeps frames: one that looks all the time
/// takes the lines of the ring away from the writer.
const PAUSE: Duration = Duration::from_micros(500);
/// The target: observations of 60 bytes read in a second.
const TARGET: f64 = 2.6e6;
const PROSE: &str = "\
Wirebeat's kernel engine sends frames as fast as it can from one core; its receiving program meters them there, and hands \
what it saw of each to a reader on the other core. Of the frames that found no room in the ring, the count is exact. The last \
column is what arrived beside the same frames without observations, in the same rounds.";

/// Frames of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    metered: f64,
    read: f64,
    lost: f64,
}

/// What is observed of which frames.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Length of each frame with FCS.
    frame: FrameLen,
    /// The bytes that come with each, and whether frames are metered; `None`: no observations.
    observed: Option<(u16, bool)>,
    /// The row of the same frames without observations.
    floor: usize,
}

const fn case(
    name: &'static str,
    frame: FrameLen,
    observed: Option<(u16, bool)>,
    floor: usize,
) -> Case {
    Case { name, frame, observed, floor }
}

/// As long as what is asked of it: a shorter frame has no 128 bytes to give.
const LONG: FrameLen = FrameLen::without_fcs(128);

const CASES: [Case; 7] = [
    case("none", FrameLen::MIN, None, 0),
    case("0 bytes", FrameLen::MIN, Some((0, true)), 0),
    case("64 bytes", FrameLen::MIN, Some((64, true)), 0),
    case("128 bytes asked of 64-byte frames", FrameLen::MIN, Some((128, true)), 0),
    case("none, 132-byte frames", LONG, None, 4),
    case("128 bytes of 132-byte frames", LONG, Some((128, true)), 4),
    case("128 bytes of 132-byte frames that are not metered", LONG, Some((128, false)), 4),
];

/// The bare rings: the frame, what is told of each, and the row of Wirebeat's that tells as much.
const BARE: [(&str, FrameLen, Told, usize); 2] = [
    ("a bare loop: probe and time, not metered", FrameLen::MIN, Told::Probe, 1),
    ("a bare loop: 128 bytes and time of 132-byte frames, not metered", LONG, Told::Wide, 5),
];
/// What Wirebeat's ring has to reach of them.
const OF_BARE: f64 = 0.85;

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestant = |case: Case| {
        let name = format!("observations: {}", case.name);
        Contestant::new(name, move |bench: &Bench| seen(bench, case))
    };
    let mut contestants: Vec<_> = CASES.into_iter().map(contestant).collect();
    contestants.extend(BARE.into_iter().map(|(name, frame, told, _)| {
        let name = format!("observations: {name}");
        Contestant::new(name, move |bench: &Bench| bare(bench, frame, told))
    }));
    let brief = |seen: &Seen| {
        let [metered, read, lost] = [seen.metered, seen.read, seen.lost].map(|rate| rate / 1e6);
        format!("{metered:.2} M/s arrived, {read:.2} M/s read, {lost:.2} M/s lost")
    };
    let measured = in_turn(bench, &contestants, brief);
    let mut table = Table::new(&[
        "observations",
        "arrived /s",
        "read /s",
        "without room /s",
        "of none",
        "remark",
    ]);
    let rows = CASES.iter().map(|case| (case.name, case.floor));
    let rows = rows
        .chain(BARE.iter().map(|(name, frame, ..)| (*name, if *frame == LONG { 4 } else { 0 })));
    for ((name, floor), one) in rows.zip(&measured) {
        let rate = |figure: fn(&Seen) -> f64| format::series(&one.series(figure), format::rate);
        let arrived = |of: &Measured<Seen>| of.series(|seen| seen.metered);
        let floor = measured.get(floor).map(arrived).unwrap_or_default();
        let ratio = arrived(one).over(&floor);
        table.row(vec![
            name.to_owned(),
            rate(|seen| seen.metered),
            rate(|seen| seen.read),
            rate(|seen| seen.lost),
            ratio.map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            one.remark(),
        ]);
    }
    const NAME: &str = "observations with 64 bytes of each frame, read per second ≥ 2.6 M";
    let of_bytes = &measured[2];
    let verdict = match of_bytes.series(|seen| seen.read).median() {
        Some(median) => Verdict::of(NAME, format::rate(median), median >= TARGET),
        None => Verdict::unmeasured(NAME, of_bytes.reason()),
    };
    let mut verdicts = vec![verdict];
    for (at, (name, _, told, of)) in BARE.into_iter().enumerate() {
        let what = if told == Told::Wide { "128 bytes" } else { "its time and number" };
        let target =
            format!("observations with {what} of each metered frame, read ≥ {OF_BARE} of '{name}'");
        let read = |row: usize| measured.get(row).map(|one| one.series(|seen| seen.read));
        let ratio = read(of).zip(read(CASES.len() + at)).and_then(|(ours, bare)| ours.over(&bare));
        verdicts.push(match ratio {
            Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= OF_BARE),
            None => Verdict::unmeasured(target, String::new()),
        });
    }
    Chapter {
        title: "Observations",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts,
    }
}

/// What a reader reads.
trait Ring: Send {
    /// Takes what is there, and says how many frames that were.
    fn take(&mut self) -> usize;

    /// Frames that found no room, or were written over.
    fn lost(&self) -> u64;
}

/// How many frames a reader takes at once.
const BATCH: usize = 4096;

impl Ring for Observations {
    fn take(&mut self) -> usize {
        let mut sum = 0_u64;
        let some = self.read(BATCH, |seen| {
            sum += u64::from(seen.bytes.first().copied().unwrap_or(0))
                + u64::from(seen.sequence.unwrap_or(0));
        });
        std::hint::black_box(sum);
        some
    }

    fn lost(&self) -> u64 {
        Observations::lost(self)
    }
}

impl Ring for BareRing {
    fn take(&mut self) -> usize {
        let (some, sum) = self.read(BATCH);
        std::hint::black_box(sum);
        some
    }

    fn lost(&self) -> u64 {
        BareRing::lost(self)
    }
}

/// Frames that were sent, read and lost.
struct Counted {
    sent: u64,
    read: u64,
    lost: u64,
    seen: Seen,
}

/// Sends frames flat out from one core while the other one reads what is told of them, if anything is.
fn counted(
    bench: &Bench,
    frame: FrameLen,
    mut ring: Option<impl Ring>,
) -> Result<Counted, Failure> {
    let Bench { lab, time, .. } = bench;
    let done = AtomicBool::new(false);
    let setup = Setup {
        engine: EngineChoice::Kernel,
        pace: Pace::FlatOut,
        wait: WaitChoice::Spin,
        cores: Cores::One,
        receiver: None,
    };
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<(u64, u64, Duration), Failure> {
            affinity::pin(lab.cores.other)?;
            let Some(ring) = &mut ring else { return Ok((0, 0, Duration::ZERO)) };
            let (mut read, mut first, mut last) = (0_u64, None, Instant::now());
            loop {
                let over = done.load(Ordering::Acquire);
                let some = ring.take();
                if some > 0 {
                    last = Instant::now();
                    first.get_or_insert(last);
                    read += some as u64;
                } else if over {
                    break;
                } else {
                    thread::sleep(PAUSE);
                }
            }
            let span = first.map_or(Duration::ZERO, |first| last.duration_since(first));
            Ok((read, ring.lost(), span))
        });
        let mut scenario = setup.scenario(lab, *time);
        scenario.flows.values_mut().for_each(|flow| flow.size = Some(Size::frame(frame)));
        let report = wirebeat::run(lab, &scenario, &Stop::new());
        done.store(true, Ordering::Release);
        let (read, lost, span) = reader.join().map_err(|_| "the reader panicked")??;
        let report = report?;
        let sent = report.total.sent.as_ref().ok_or("nothing was sent")?;
        let rates = sent.rates.ok_or("nothing was sent")?;
        let each_second = |count: u64| count as f64 / span.as_secs_f64().max(1e-9);
        let seen = Seen {
            metered: rates.frames_per_second,
            read: each_second(read),
            lost: each_second(lost),
        };
        Ok(Counted { sent: sent.sent.frames, read, lost, seen })
    })
}

fn seen(bench: &Bench, case: Case) -> Result<Seen, Failure> {
    let metered = case.observed.is_none_or(|(_, metered)| metered);
    let observe = case.observed.map(|(bytes, _)| ObservationOptions {
        frames: Observed::All,
        bytes,
        slots: SLOTS,
    });
    let mut receiver = exactness::observing(&bench.lab, observe, metered)?;
    let Counted { sent, read, lost, seen } = counted(bench, case.frame, receiver.observations())?;
    // a host says some frames by itself when its link comes up
    if observe.is_some() && !(sent..sent + 100).contains(&(read + lost)) {
        return Err(format!("{sent} were sent, {read} read and {lost} lost").into());
    }
    Ok(seen)
}

/// The same frames told of by the bare ring, which nobody meters.
fn bare(bench: &Bench, frame: FrameLen, told: Told) -> Result<Seen, Failure> {
    let far = bench.lab.far();
    let index = far.link.index.get();
    let ring = far.namespace.run(|| kernel::bare_ring(index, told))??;
    Ok(counted(bench, frame, Some(ring))?.seen)
}
