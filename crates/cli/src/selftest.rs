//! `wirebeat doctor --selftest`: short runs of every engine on an interface, for the owner of a card. What is tried and judged
//! is the business of `wirebeat_run::doctor`; here are its flags and the page for a person.

use std::fmt::Write;

use clap::Args as ClapArgs;
use wirebeat_run::Exit;
use wirebeat_run::doctor::{
    Interface, Load, Measured, SelfTest, SelfTestRequest, Trial, TrialResult, self_test,
};
use wirebeat_units::human;

use crate::doctor::write_interface;
use crate::failure::Failure;
use crate::output::{Answer, Output};
use crate::signals::Signals;
use crate::watch::Watched;

/// The self-test of an interface.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Self-test")]
pub struct SelfTestArgs {
    /// Test every engine on this interface by short runs: it sends frames of 64 bytes as fast as it can, about two seconds for
    /// each engine in each mode
    #[arg(long = "selftest", value_name = "INTERFACE")]
    interface: Option<String>,
    /// The other end of the same cable, which receives [default: none, and only sending is tested]
    #[arg(long, value_name = "INTERFACE", requires = "interface")]
    peer_interface: Option<String>,
    /// The network namespace of that, as `ip netns` names it, or a path
    #[arg(long, value_name = "NAME", requires = "peer_interface")]
    peer_namespace: Option<String>,
    /// Test an interface that carries a default route or connections of this host, too
    #[arg(long, requires = "interface")]
    force: bool,
}

impl SelfTestArgs {
    /// What is to be tested, if anything is.
    pub fn request(&self, output: &Output) -> Option<SelfTestRequest> {
        Some(SelfTestRequest {
            interface: self.interface.clone()?,
            peer_interface: self.peer_interface.clone(),
            peer_namespace: self.peer_namespace.clone(),
            namespaces: output.options().namespaces,
            force: self.force,
            time: SelfTestRequest::TIME,
        })
    }
}

/// Tests and says.
pub fn run(request: &SelfTestRequest, output: &mut Output) -> Result<u8, Failure> {
    let signals = Signals::watch()?;
    let mut observer = output.observer(Watched::plain(&signals))?;
    let test = self_test(request, &mut *observer, signals.running())?;
    drop(observer);
    let exit = match (test.passed, test.has_sent()) {
        (true, _) => Exit::Done,
        (false, false) if !test.interrupted => Exit::Machine,
        (false, _) => Exit::Unfinished,
    };
    Ok(output.result(exit.code(), &Answer { document: &test, text: |_| text(&test) }))
}

/// Writing to a `String` cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text, $($format)*);
    }};
}

/// For a person.
fn text(test: &SelfTest) -> String {
    let mut text = String::from("Interfaces\n");
    write_one(&mut text, &test.interface);
    match &test.peer_interface {
        Some(peer) => write_one(&mut text, peer),
        None => line!(text, "  without a peer only sending is tested, to {}", test.destination),
    }
    text.push_str("\nRuns with frames of 64 bytes\n");
    write_runs(&mut text, test);
    text.push_str("\nModes\n");
    for trial in &test.trials {
        write_mode(&mut text, trial);
    }
    text.push_str("\nResult\n");
    for failure in failures(test) {
        line!(text, "  {failure}");
    }
    if test.interrupted {
        line!(text, "  it was stopped before all engines were tried");
    }
    line!(text, "  {}", if test.passed { "passed" } else { "not passed" });
    text
}

fn write_one(text: &mut String, interface: &Interface) {
    write_interface(text, interface);
    let queues = [
        human::counted(interface.tx_queues.into(), "transmit queue"),
        human::counted(interface.rx_queues.into(), "receive queue"),
    ];
    line!(text, "  {:<9} {}, MTU {}", "", queues.join(", "), interface.mtu);
}

/// An engine with its mode, and who stamps where that is the card.
fn name(trial: &Trial) -> String {
    let mode = trial.mode.map_or(String::new(), |mode| format!(" {mode}"));
    let card = if trial.timestamps == "card" { " card" } else { "" };
    format!("{}{mode}{card}", trial.engine)
}

/// The titles of the columns.
const TITLES: [&str; 9] =
    ["engine", "load", "sent", "rate", "line", "received", "lost", "least delay", "half below"];

/// A row for each run.
fn write_runs(text: &mut String, test: &SelfTest) {
    let ran = |trial: &Trial| match &trial.result {
        TrialResult::Ran(runs) => runs.iter().map(|run| row(trial, run)).collect(),
        TrialResult::Refused { .. } => Vec::new(),
    };
    let titles = TITLES.map(str::to_owned);
    let rows: Vec<[String; 9]> =
        [titles].into_iter().chain(test.trials.iter().flat_map(ran)).collect();
    if rows.len() == 1 {
        line!(text, "  none: no engine works here");
        return;
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            // words to the left, numbers to the right
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        line!(text, "  {}", cells.collect::<Vec<_>>().join("  "));
    }
}

fn row(trial: &Trial, run: &Measured) -> [String; 9] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        name(trial),
        match run.load {
            Load::FlatOut => "full rate",
            Load::Paced => "1000 a second",
        }
        .to_owned(),
        human::count(run.sent),
        or_none(run.frames_per_second.map(human::frame_rate)),
        or_none(run.line_bits_per_second.map(human::bit_rate)),
        or_none(run.received.map(human::count)),
        or_none(run.lost.map(human::count)),
        or_none(run.delay_min_ns.map(|ns| human::time(ns as f64))),
        or_none(run.delay_p50_ns.map(|ns| human::time(ns as f64))),
    ]
}

/// How an engine worked, or why it did not.
fn write_mode(text: &mut String, trial: &Trial) {
    let width = 16;
    let name = name(trial);
    match &trial.result {
        TrialResult::Refused { why } => {
            line!(text, "  {name:<width$} refused: {}", why.what);
            if let Some(hint) = &why.hint {
                line!(text, "  {:<width$} hint: {hint}", "");
            }
        }
        TrialResult::Ran(runs) => {
            let Some(run) = runs.first() else { return };
            line!(text, "  {name:<width$} sent by {}", run.sender_mode);
            if let Some(mode) = &run.receiver_mode {
                line!(text, "  {:<width$} received by {mode}", "");
            }
            line!(text, "  {:<width$} stamped by {}", "", run.clock);
        }
    }
}

/// What did not hold, a sentence each.
fn failures(test: &SelfTest) -> Vec<String> {
    let of = |trial: &Trial| -> Vec<String> {
        let name = name(trial);
        match &trial.result {
            TrialResult::Refused { why } if trial.has_failed() => {
                vec![format!("{name}: the driver offers this and refuses it: {}", why.what)]
            }
            TrialResult::Refused { .. } => Vec::new(),
            TrialResult::Ran(runs) => runs
                .iter()
                .flat_map(|run| run.failures.iter().map(|why| format!("{name}: {why}")))
                .collect(),
        }
    };
    test.trials.iter().flat_map(of).chain(test.left_behind.iter().cloned()).collect()
}
