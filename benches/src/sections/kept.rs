//! What it costs to keep each frame: captures and packet logs of Wirebeat while it measures, beside its own receivers without
//! them, the bare loop over an AF_XDP socket, and the programs that capture behind the stack.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use wirebeat_engine_linux::kernel::{Attachment, XdpBuffers, XdpPlace};
use wirebeat_report::model::Report;
use wirebeat_run::{Options, PacketLogOptions, PacketLogRequest, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Program, require};
use wirebeat_traffic::scenario::{CaptureSpec, EngineChoice, WaitChoice};

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::frames::{FAR, NEAR};
use crate::lab::Failure;
use crate::peers::Pace;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Ratio;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::{self, Cores, Setup};
use crate::{bare, pcap, sinks};

const PROSE: &str = "\
Wirebeat's kernel engine sends 64-byte frames as fast as it can from one core to a receiver that measures them, and keeps them \
meanwhile: whole in a pcapng file, those alone that a selection means (here none), or a row of each in a Parquet file. Files lie \
in memory (/dev/shm). What was measured and found no place in the file is counted as lost. dumpcap, tcpdump and netsniff-ng \
capture the same frames behind the stack, whose work is done on the sending core: the rate is what their files have.";

/// Frames of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Measured, or taken by a bare loop.
    measured: f64,
    /// In the file.
    kept: f64,
    /// Measured, and not in the file though they were meant.
    lost: f64,
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nothing,
    Whole,
    Selected,
    Rows,
}

const BARE: usize = 0;
const CASES: [(&str, EngineChoice, What); 7] = [
    ("xdp, measured", EngineChoice::Xdp, What::Nothing),
    ("xdp, measured and captured", EngineChoice::Xdp, What::Whole),
    ("kernel, measured", EngineChoice::Kernel, What::Nothing),
    ("kernel, measured and captured", EngineChoice::Kernel, What::Whole),
    ("kernel, measured, selective capture", EngineChoice::Kernel, What::Selected),
    ("kernel, measured, packet log", EngineChoice::Kernel, What::Rows),
    ("kernel, measured, packet log, 1 M frames/s sent", EngineChoice::Kernel, What::Rows),
];
/// The last of these is paced.
const PACED: usize = CASES.len() - 1;
const PACE: u64 = 1_000_000;
/// Programs that capture, and how they are told to: a file behind the last word, and the interface in the middle.
const TOOLS: [(&str, &[&str], &[&str]); 3] = [
    ("dumpcap", &["-q", "-B", "64", "-i"], &["-f", "udp port 9", "-P", "-w"]),
    ("tcpdump", &["-n", "-Z", "root", "-B", "65536", "-i"], &["udp", "port", "9", "-w"]),
    ("netsniff-ng", &["--silent", "--in"], &["-f", "udp port 9", "--out"]),
];

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants =
        vec![Contestant::new("kept: bare AF_XDP receive loop", |bench: &Bench| {
            let rate = bare::receive(&bench.lab, &setup(None, Pace::FlatOut), bench.time)?;
            Ok(Kept { measured: rate, ..Kept::default() })
        })];
    for (index, (name, engine, what)) in CASES.into_iter().enumerate() {
        let pace = if index == PACED { Pace::Frames(PACE) } else { Pace::FlatOut };
        contestants.push(Contestant::new(format!("kept: {name}"), move |bench: &Bench| {
            kept(bench, engine, what, pace)
        }));
    }
    for (program, before, behind) in TOOLS {
        contestants.push(Contestant::new(format!("kept: {program}"), move |bench: &Bench| {
            by_tool(bench, program, before, behind)
        }));
    }
    let brief = |kept: &Kept| {
        let [measured, kept, lost] = [kept.measured, kept.kept, kept.lost].map(|rate| rate / 1e6);
        format!("{measured:.2} M/s measured, {kept:.2} M/s kept, {lost:.3} M/s lost")
    };
    let measured = in_turn(bench, &contestants, brief);
    let mut table =
        Table::new(&["who", "measured /s", "kept /s", "lost for the file /s", "remark"]);
    for (contestant, one) in contestants.iter().zip(&measured) {
        let rate = |figure: fn(&Kept) -> f64| {
            let series = one.series(figure);
            match series.median() {
                Some(median) if median > 0.0 => format::series(&series, format::rate),
                _ => NOTHING.to_owned(),
            }
        };
        table.row(vec![
            contestant.name.trim_start_matches("kept: ").to_owned(),
            rate(|kept| kept.measured),
            rate(|kept| kept.kept),
            rate(|kept| kept.lost),
            one.remark(),
        ]);
    }
    let verdicts = vec![
        verdict(
            "capture of whole frames (xdp) ≥ 0.8 of the bare AF_XDP receive loop",
            0.8,
            &measured,
            (2, kept_of),
            (BARE, measured_of),
        ),
        verdict(
            "capture of whole frames (kernel) ≥ 0.8 of the bare AF_XDP receive loop",
            0.8,
            &measured,
            (4, kept_of),
            (BARE, measured_of),
        ),
        verdict(
            "selective capture: the meter keeps ≥ 0.9 of its rate",
            0.9,
            &measured,
            (5, measured_of),
            (3, measured_of),
        ),
        verdict(
            "packet log: the meter keeps ≥ 0.85 of its rate",
            0.85,
            &measured,
            (6, measured_of),
            (3, measured_of),
        ),
    ];
    Chapter {
        title: "Frames that are kept",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts,
    }
}

fn measured_of(kept: &Kept) -> f64 {
    kept.measured
}

fn kept_of(kept: &Kept) -> f64 {
    kept.kept
}

/// A row of the table, and the figure of it.
type Figure = (usize, fn(&Kept) -> f64);

fn verdict(
    target: &str,
    bound: f64,
    all: &[Measured<Kept>],
    top: Figure,
    bottom: Figure,
) -> Verdict {
    let series = |(row, figure): Figure| Some(all.get(row)?.series(figure));
    let ratio: Option<Ratio> =
        series(top).zip(series(bottom)).and_then(|(top, bottom)| top.over(&bottom));
    match ratio {
        Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= bound),
        None => {
            let reason = |(row, _): Figure| all.get(row).filter(|one| one.values.is_empty());
            let reason = reason(top).or(reason(bottom)).map_or_else(String::new, Measured::reason);
            Verdict::unmeasured(target, reason)
        }
    }
}

fn setup(receiver: Option<EngineChoice>, pace: Pace) -> Setup {
    let engine = EngineChoice::Kernel;
    Setup { engine, pace, wait: WaitChoice::Spin, cores: Cores::One, receiver }
}

/// A file in memory, gone with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(PathBuf::from(format!("/dev/shm/wirebeat-bench-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn kept(bench: &Bench, engine: EngineChoice, what: What, pace: Pace) -> Result<Kept, Failure> {
    let Bench { lab, time, .. } = bench;
    let setup = setup(Some(engine), pace);
    let mut scenario = setup.scenario(lab, *time);
    let file = Scratch::new(if what == What::Rows { "rows.parquet" } else { "frames.pcapng" });
    let mut options = Options::default();
    for (name, end) in [(NEAR, lab.near()), (FAR, lab.far())] {
        options.namespaces.insert(name.to_owned(), end.namespace.clone());
    }
    let far = scenario.ports.get_mut(FAR).ok_or("a scenario lost its port")?;
    let path = file.0.display().to_string();
    let only = (what == What::Selected).then(|| "delay > 10s".to_owned());
    match what {
        What::Nothing => {}
        What::Whole | What::Selected => {
            far.capture = Some(CaptureSpec { file: path, only, ..CaptureSpec::default() });
        }
        What::Rows => {
            let log = PacketLogOptions::of(file.0.clone()).map_err(|fault| fault.to_string())?;
            options.packet_log = Some(PacketLogRequest { options: log, sent: false });
        }
    }
    let report = prepare(&scenario, options)?.start(&mut Silent, &Stop::new());
    let report: Report = wirebeat::whole(report)?;
    let received = report.total.received.as_ref().and_then(|received| received.rates);
    let measured = received.ok_or("nothing arrived")?.frames_per_second;
    let unique = report.total.received.as_ref().map_or(0, |received| received.unique);
    let span = unique as f64 / measured.max(1.0);
    let (in_file, lost) = report.captures.first().map_or((0, 0), |kept| (kept.frames, kept.lost));
    let each_second = |count: u64| count as f64 / span.max(1e-9);
    Ok(Kept { measured, kept: each_second(in_file), lost: each_second(lost) })
}

/// What a program has in its file, of the time in which frames were sent.
fn by_tool(
    bench: &Bench,
    program: &'static str,
    before: &[&str],
    behind: &[&str],
) -> Result<Kept, Failure> {
    /// Until it captures, and until it has written what it was given.
    const BEGINS: Duration = Duration::from_millis(1500);
    const TAKES: Duration = Duration::from_millis(1500);
    const ENDS: Duration = Duration::from_secs(10);
    require(Capability::Program(program))?;
    let Bench { lab, time, .. } = bench;
    let far = lab.far();
    let _socket = sinks::unread(lab)?;
    // without a program a virtual cable takes nothing that is redirected; this one lets everything pass
    let on = (far.link.index.get(), far.interface());
    let attach = || Attachment::open(on, XdpPlace::Best, XdpBuffers::One);
    let _passing = far.namespace.run(attach)??;
    let file = Scratch::new("tool.pcap");
    let process = Program::new(&far.namespace, program)
        .args(before)
        .args([far.interface()])
        .args(behind)
        .args([&file.0])
        .spawn()?;
    sleep(BEGINS);
    let report = setup(None, Pace::FlatOut).run(lab, *time, &Stop::new())?;
    sleep(TAKES);
    process.interrupt();
    process.wait(ENDS)?;
    let written = fs::read(&file.0).map_err(|why| format!("{program} wrote no file: {why}"))?;
    let frames = pcap::count(&written)?;
    let sent = report.total.sent.as_ref().ok_or("nothing was sent")?;
    let rate = sent.rates.ok_or("nothing was sent")?.frames_per_second;
    let span = sent.sent.frames as f64 / rate.max(1.0);
    Ok(Kept { measured: 0.0, kept: frames as f64 / span.max(1e-9), lost: 0.0 })
}
