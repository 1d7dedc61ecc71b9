//! The engine `xdp` flat out, beside bare loops over the same sockets and DPDK's testpmd over its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::Chapter;
use super::flat::of_peer;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::peers::{self, Pace};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::Sink;
use crate::stats::Ratio;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::{self, Cores, Setup};
use crate::{bare, window};

const PROSE: &str = "\
64-byte frames over AF_XDP sockets. A virtual cable has no zero copy: the kernel copies each frame. To send, all run into an XDP \
program that drops, and what arrived at the far interface counts. The bare loop hands over the same frame again and again; \
Wirebeat builds each with a number and a time. testpmd is DPDK's program with its AF_XDP driver, also one core and constant \
frames. To receive, Wirebeat's kernel engine sends more than anybody takes from one core, and the receiver is on the other: the \
bare loop counts frames and gives their chunks back, and Wirebeat meters them.";

const BARE_SEND: &str = "send: bare loop";
const SEND: &str = "send: Wirebeat xdp";
const TESTPMD: &str = "send: DPDK testpmd on AF_XDP";
const BARE_RECEIVE: &str = "receive: bare loop";
const RECEIVE: &str = "receive: Wirebeat xdp, metered";
/// Who is compared with whom: the places of both, and what the first has to reach of the second.
const TARGETS: [(&str, usize, usize, f64); 3] = [
    // as fast, as far as rounds tell it: they differ by more than that
    ("xdp, the bare transmit loop as fast as testpmd on AF_XDP (≥ 0.97 ×)", 0, 2, 0.97),
    ("xdp transmit ≥ 0.9 of its bare loop", 1, 0, 0.9),
    ("xdp receive, metered ≥ 0.8 of its bare loop", 4, 3, 0.8),
];

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestants = [
        Contestant::new(BARE_SEND, bare_transmit),
        Contestant::new(SEND, |bench: &Bench| {
            let setup = flat_out(EngineChoice::Xdp, None);
            Ok(wirebeat::flat_out(&bench.lab, &setup, Sink::Dropping, bench.time)?.sent)
        }),
        Contestant::new(TESTPMD, |bench: &Bench| {
            let testpmd = peers::ALL.iter().find(|peer| peer.program == "dpdk-testpmd");
            Ok(of_peer(bench, testpmd.ok_or("it is no peer")?, Sink::Dropping)?.sent)
        }),
        Contestant::new(BARE_RECEIVE, |bench: &Bench| {
            bare::receive(&bench.lab, &flat_out(EngineChoice::Kernel, None), bench.time)
        }),
        Contestant::new(RECEIVE, |bench: &Bench| {
            let setup = flat_out(EngineChoice::Kernel, Some(EngineChoice::Xdp));
            Ok(wirebeat::flat_out_metered(&bench.lab, &setup, bench.time)?.received)
        }),
    ];
    let measured = in_turn(bench, &contestants, |rate| format!("{:.3} M/s", rate / 1e6));
    let mut table = Table::new(&["what", "frames/s", "of its bare loop", "remark"]);
    let names = [BARE_SEND, SEND, TESTPMD, BARE_RECEIVE, RECEIVE];
    for (index, (name, one)) in names.into_iter().zip(&measured).enumerate() {
        let floor = if index < 3 { 0 } else { 3 };
        let share = ratio(&measured, index, floor);
        table.row(vec![
            name.to_owned(),
            format::series(&one.series(|rate| *rate), format::rate),
            share.map_or(NOTHING.into(), |share| format::ratio(&share)),
            one.remark(),
        ]);
    }
    let verdict = |(target, top, bottom, bound): (&str, usize, usize, f64)| match ratio(
        &measured, top, bottom,
    ) {
        Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= bound),
        None => Verdict::unmeasured(
            target,
            [top, bottom]
                .iter()
                .filter_map(|at| measured.get(*at))
                .find(|one| one.values.is_empty())
                .map_or_else(String::new, Measured::reason),
        ),
    };
    Chapter {
        title: "AF_XDP",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts: TARGETS.into_iter().map(verdict).collect(),
    }
}

fn ratio(measured: &[Measured<f64>], top: usize, bottom: usize) -> Option<Ratio> {
    let series = |at: usize| Some(measured.get(at)?.series(|rate| *rate));
    series(top)?.over(&series(bottom)?)
}

fn flat_out(engine: EngineChoice, receiver: Option<EngineChoice>) -> Setup {
    Setup { engine, pace: Pace::FlatOut, wait: WaitChoice::Spin, cores: Cores::One, receiver }
}

fn bare_transmit(bench: &Bench) -> Result<f64, Failure> {
    let Bench { lab, time, .. } = bench;
    let open = Sink::Dropping.open(lab)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| bare::transmit(lab, &stop));
        let seen = window::observe(lab, &open, *time, || !sender.is_finished());
        stop.store(true, Ordering::Relaxed);
        // its own error says more than that nothing was seen of it
        sender.join().map_err(|_| "the sender panicked")??;
        Ok(seen?.sent)
    })
}
