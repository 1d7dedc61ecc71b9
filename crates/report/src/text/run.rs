//! Where and how a run took place, what it cost, and its consistency checks.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::WIDTH;
use super::card;
use super::style::{Style, clean, hang};
use crate::human;
use crate::model::{
    Cost, DelayClock, Equation, HardwareTimestamps, Interruptions, Others, OutOfOrder,
    ProbeNumbers, Relation, Replay, Report, Shortened, Station, Term, Thread,
};

/// Columns of the label at the start of a line.
const LABEL: usize = 10;
/// Of a sum with more terms than this only those are written that are not zero.
const TERMS: usize = 7;
/// Recordings that have a line of their own.
const REPLAYS: usize = 10;

/// Where and how the run took place, what it cost, and its consistency checks.
pub fn run(report: &Report, style: Style) -> String {
    let mut lines = Lines::default();
    lines.plain(style.strong("run"));
    facts(report, &mut lines);
    lines.entry("command", command(report));
    for (index, (text, balances)) in checks(report).into_iter().enumerate() {
        if index == 0 {
            lines.plain(String::new());
            lines.plain(style.strong("consistency checks"));
        }
        let text = if balances { text } else { style.bad(&text) };
        lines.plain(hang("  ", &text, WIDTH));
    }
    lines.out
}

/// Where and how the run took place and what it cost: lines with their label.
pub(crate) fn environment(report: &Report) -> Vec<(String, Vec<String>)> {
    let mut lines = Lines::default();
    facts(report, &mut lines);
    lines.entries
}

/// The command line, as a shell takes it.
pub(crate) fn command(report: &Report) -> String {
    command_of(&report.command_line)
}

/// Any command line, as a shell takes it.
pub(crate) fn command_of(words: &[String]) -> String {
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| quoted(word)).collect();
    clean(&words.join(" "))
}

/// The sums that are shown, and whether each balances.
pub(crate) fn checks(report: &Report) -> Vec<(String, bool)> {
    let told = |equation: &Equation| (clean(&self::equation(equation)), equation.balances());
    consistency_checks(report).map(told).collect()
}

fn facts(report: &Report, lines: &mut Lines) {
    for (label, stations) in [("sender", &report.senders), ("receiver", &report.receivers)] {
        for station in stations {
            self::station(label, station, lines);
        }
    }
    for replay in report.replays.iter().take(REPLAYS) {
        lines.entry("replayed", self::replay(replay));
        if let Some(of) = &replay.out_of_order {
            lines.entry("", out_of_order(of));
        }
    }
    if let Some(more) = report.replays.len().checked_sub(REPLAYS).filter(|&more| more > 0) {
        lines.entry("", format!("… {} more", human::count(more as u64)));
    }
    if let Some(clock) = &report.delay_clock {
        lines.entry("clocks", self::clock(clock));
    }
    for cost in &report.costs {
        let each = match (report.flows.is_empty(), report.sessions.is_empty()) {
            (true, false) => "session",
            _ => "frame",
        };
        lines.entry("cost", self::cost(cost, each));
    }
    if let Some(others) = report.others.as_ref().filter(|others| !others.is_empty()) {
        lines.entry("others", self::others(others));
    }
}

/// A word of a command line as a shell takes it (POSIX.1-2017, Shell Command Language §2.2.2).
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")).into(),
    }
}

fn replay(replay: &Replay) -> String {
    let Replay { flow, archives, records, copies, left_out, starved, passed_over, .. } = replay;
    let of = match archives.as_slice() {
        [only] => only.clone(),
        several => human::counted(several.len() as u64, "archive"),
    };
    let mut text = format!("{flow}: {} of {of}", human::counted(*records, "record"));
    if let Some(copies) = copies {
        text += &format!(
            ", {} {}",
            human::count(*copies),
            if *copies == 1 { "copy" } else { "copies" }
        );
    }
    if !left_out.is_empty() {
        text += &format!(", {} left out", human::left_out(left_out));
    }
    let parts = [(*passed_over, "passed over"), (*starved, "late from the reader")];
    for (count, what) in parts {
        if count > 0 {
            text += &format!(", {} {what}", human::count(count));
        }
    }
    if let Some(held) = &replay.held_back {
        for (count, what) in [(held.frames, "held back"), (held.sorted, "sorted")] {
            if count > 0 {
                text += &format!(", {} {what}", human::count(count));
            }
        }
    }
    if let Some(Shortened { gaps, by_ns }) = replay.shortened {
        let by = human::long_time(by_ns);
        text += &format!(", {} shortened by {by}", human::counted(gaps, "gap"));
    }
    text
}

/// What left out of order, and how far.
fn out_of_order(of: &OutOfOrder) -> String {
    let time = |value: Option<i64>| value.map_or("-".to_owned(), |ns| human::time(ns as f64));
    let count = |value: Option<i64>| {
        value.map_or("-".to_owned(), |of| human::count(u64::try_from(of).unwrap_or(0)))
    };
    let (delay, extent) = (&of.delay_ns, &of.extent_records);
    let numbers = match of.numbers {
        ProbeNumbers::None => "",
        ProbeNumbers::Records => "; numbers follow records",
        ProbeNumbers::Departures => "; numbers follow departures",
    };
    let mut text = format!(
        "out of order: P {}, T_w {}: {} delayed",
        of.probability,
        human::time(of.window_ns as f64),
        human::count(of.delayed),
    );
    if of.delayed > 0 {
        let (p50, max) = (time(delay.percentiles.p50), time(delay.max));
        text += &format!(" (p50 {p50}, max {max})");
    }
    text += &format!(", {} reordered", human::count(of.reordered));
    if of.reordered > 0 {
        let (p50, max) = (count(extent.percentiles.p50), count(extent.max));
        text += &format!(" (behind p50 {p50}, max {max} records)");
    }
    text + numbers
}

/// The sums of the total, and those of flows that are wrong.
fn consistency_checks(report: &Report) -> impl Iterator<Item = &Equation> {
    let names: BTreeSet<&str> = report.flows.iter().map(|flow| flow.name.as_str()).collect();
    let of_flow = move |equation: &Equation| {
        equation.scope.strip_prefix("flow ").is_some_and(|name| names.contains(name))
    };
    report
        .consistency_checks
        .iter()
        .filter(move |equation| !equation.balances() || !of_flow(equation))
}

fn equation(equation: &Equation) -> String {
    let term = |name: &str, value: u64| format!("{} {name}", human::count(value));
    // sessions end in ten ways, of which most have none
    let told = |right: &&Term| right.value > 0 || equation.right.len() <= TERMS;
    let mut right: Vec<String> =
        equation.right.iter().filter(told).map(|right| term(&right.name, right.value)).collect();
    if right.is_empty() {
        right.push("0".to_owned());
    }
    let difference = match equation.difference {
        0 => String::new(),
        off => format!(" (off by {off})"),
    };
    let left = term(&equation.left.name, equation.left.value);
    format!("{}: {left} = {}{difference}", equation.scope, right.join(" + "))
}

fn interrupted(Interruptions { listened_ns, lengths_ns }: &Interruptions) -> String {
    let listened = human::time(*listened_ns as f64);
    match (lengths_ns.max, lengths_ns.mean) {
        (Some(longest), Some(mean)) => format!(
            "CPU taken from it {} in the {listened} that it was at work in the kernel: {} in all, {} at the most",
            human::counted(lengths_ns.count, "time"),
            human::time(mean * lengths_ns.count as f64),
            human::time(longest as f64),
        ),
        _ => format!("CPU never taken from it in the {listened} that it was at work in the kernel"),
    }
}

fn station(label: &str, station: &Station, lines: &mut Lines) {
    let mut port = format!("{} engine", station.engine);
    if let Some(interface) = &station.interface {
        port += &format!(" on {interface}");
    }
    if let Some(namespace) = &station.namespace {
        port += &format!(" in namespace {namespace}");
    }
    port += &format!(": {}", station.mode);
    if let Some(wait) = &station.wait {
        port += &format!(", wait {wait}");
    }
    if !station.cpus.is_empty() {
        let cpus: Vec<String> = station.cpus.iter().map(u32::to_string).collect();
        port += &format!(", put on CPU {}", cpus.join(" "));
    }
    if let Some(speed) = station.link_bits_per_second {
        port += &format!(", link {}", human::bit_rate(speed as f64));
    }
    lines.entry(label, port);
    for threads in station.threads.chunk_by(|a, b| a == b) {
        lines.entry("", self::threads(threads, station.transmit_queues));
    }
    let receives = label == "receiver";
    for line in station.card.iter().flat_map(|card| card::lines(card, receives)) {
        lines.entry("", line);
    }
    if let Some(interruptions) = &station.interruptions {
        lines.entry("", interrupted(interruptions));
    }
    let (host, clock) = (&station.host, &station.clock);
    let cpus = human::counted(u64::from(host.cpus), "CPU");
    if !host.name.is_empty() {
        lines.entry("", format!("{}: {}, {}, {cpus}", host.name, host.kernel, host.cpu_model));
    }
    let bound = clock.offset_bound_ns.map(|bound| human::time(bound as f64));
    let bound = bound.map_or_else(String::new, |bound| format!(", within {bound}"));
    if !clock.name.is_empty() {
        lines.entry("", format!("clock {}, {}{bound}", clock.name, clock.synchronisation));
    }
    if !station.timestamps.is_empty() {
        lines.entry("", format!("timestamps by {}", station.timestamps));
    }
    for told in station.hardware_timestamps.iter().flat_map(stamps) {
        lines.entry("", told);
    }
}

/// What a card stamped, and by which clock.
fn stamps(stamps: &HardwareTimestamps) -> Vec<String> {
    let name = stamps.clock_name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let set = match stamps.steps {
        0 => String::new(),
        steps => format!(", set {} meanwhile", human::counted(steps, "time")),
    };
    let mut told = vec![format!(
        "card's clock {}{name}, converted within {}, gaining {} to {} ppm{set}",
        stamps.clock,
        human::time(stamps.conversion_bound_ns as f64),
        human::number(stamps.drift_low_ppm),
        human::number(stamps.drift_high_ppm),
    )];
    if let Some(which) = &stamps.receive {
        let (stamped, not) = (stamps.received, stamps.received_unstamped);
        told.push(format!(
            "hardware timestamps of {which}: {} stamped, {} not",
            human::count(stamped),
            human::count(not)
        ));
    }
    if stamps.sent_asked > 0 {
        let (sent, asked) = (human::count(stamps.sent), human::counted(stamps.sent_asked, "frame"));
        told.push(format!(
            "hardware timestamps of sent frames: {sent} of {asked} that were asked for"
        ));
    }
    let all = [
        ("send lateness on the wire", &stamps.wire_send_lateness_ns),
        ("from hand-over to the wire", &stamps.hand_over_to_wire_ns),
    ];
    let time = |value: Option<i64>| value.map_or("-".to_owned(), |ns| human::time(ns as f64));
    told.extend(all.into_iter().filter(|(_, stats)| stats.count > 0).map(|(what, stats)| {
        let (p50, p99) = (time(stats.percentiles.p50), time(stats.percentiles.p99));
        format!("{what}: min {}, p50 {p50}, p99 {p99}, max {}", time(stats.min), time(stats.max))
    }));
    told
}

/// Threads that were alike.
fn threads(threads: &[Thread], queues: Option<u32>) -> String {
    let Some(first) = threads.first() else { return String::new() };
    let Thread { role, cpus, policy, nice, slice_ns, realtime_priority, note, .. } = first;
    let mut text =
        format!("{}: {policy}", human::counted(threads.len() as u64, &format!("{role} thread")));
    match realtime_priority {
        Some(priority) => text += &format!(" {priority}"),
        None => text += &format!(", nice {nice}"),
    }
    if let Some(slice) = slice_ns {
        text += &format!(", slice {}", human::time(*slice as f64));
    }
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    text += &format!(", may run on CPU {}", cpus.join(" "));
    if let Some(cpu) = first.moved_from {
        text += &format!(" (moved from CPU {cpu}, which others kept)");
    }
    text += &first
        .transmit_queue
        .as_ref()
        .and_then(|of| card::transmit_queue(of, queues))
        .unwrap_or_default();
    if let Some(note) = note {
        text += &format!(" ({note})");
    }
    text
}

fn clock(clock: &DelayClock) -> String {
    match (clock.relation, clock.uncertainty_ns) {
        (Relation::Same, _) => clock.explanation.clone(),
        (Relation::Bounded, Some(bound)) => format!(
            "{}; one-way delays are uncertain by {}",
            clock.explanation,
            human::time(bound as f64)
        ),
        _ => format!("{}; one-way delays are not known", clock.explanation),
    }
}

/// The CPU time of a role; `each`: what it is of.
fn cost(cost: &Cost, each: &str) -> String {
    let seconds = |value: f64| human::time(value * 1e9);
    let interrupt = cost.interrupt_seconds.map(seconds);
    let interrupt = interrupt.map_or_else(String::new, |time| format!(", interrupts {time}"));
    let per_frame = cost.nanoseconds_per_frame.map(human::time);
    let per_frame = per_frame.map_or_else(String::new, |time| format!(", {time} per {each}"));
    format!(
        "{}: {} CPU (user {}, kernel {}{interrupt}){per_frame}",
        cost.role,
        human::number(cost.cpus),
        seconds(cost.user_seconds),
        seconds(cost.system_seconds),
    )
}

fn others(others: &Others) -> String {
    let parts = [
        (others.unprobed, "without probe"),
        (others.unknown_flow, "of unknown flows"),
        (others.stale, "of earlier runs"),
        (others.foreign, "foreign"),
        (others.malformed, "malformed"),
        (others.fragments, "fragments of no whole packet"),
        (others.receiver_drops, "dropped by the receiver"),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(value, _)| *value > 0)
        .map(|(value, what)| format!("{} {what}", human::count(value)))
        .collect();
    said.join(", ")
}

/// Lines with a label at their start.
#[derive(Default)]
struct Lines {
    out: String,
    /// The entries by their labels, before they are broken into lines.
    entries: Vec<(String, Vec<String>)>,
}

impl Lines {
    fn plain(&mut self, line: String) {
        self.out.push_str(&line);
        self.out.push('\n');
    }

    fn entry(&mut self, label: &str, text: String) {
        self.styled(label, clean(&text));
    }

    /// An entry whose text is clean already.
    fn styled(&mut self, label: &str, text: String) {
        match self.entries.last_mut().filter(|_| label.is_empty()) {
            Some((_, lines)) => lines.push(text.clone()),
            None => self.entries.push((label.to_owned(), vec![text.clone()])),
        }
        self.plain(hang(&format!("  {label:LABEL$}"), &text, WIDTH));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_given_to_a_shell_again() {
        for (word, shown) in [
            ("--rate=10kpps", "--rate=10kpps"),
            ("10.0.0.2:9", "10.0.0.2:9"),
            ("[fd00::2]:9", "'[fd00::2]:9'"),
            ("{ gamma: { shape: 2 } }", "'{ gamma: { shape: 2 } }'"),
            ("text:it's $HOME", "'text:it'\\''s $HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
