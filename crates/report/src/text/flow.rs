//! The details of a flow: what was sent and received, and every measurement.

use super::overview::{nothing, time};
use super::style::{Style, clean, hang};
use super::table::{Cell, Table};
use super::{WIDTH, bins, members};
use crate::human;
use crate::model::{FlowReport, LossBasis, Rates, Received, Report, Sent, Stats, Volume};

/// Flows whose details are written; the rest are in the JSON form.
const FLOWS: usize = 8;

/// The details of the flows, and of their total when there are several.
pub fn flows(report: &Report, style: Style) -> Vec<String> {
    let mut parts: Vec<String> =
        report.flows.iter().take(FLOWS).map(|flow| self::flow(flow, style)).collect();
    if let Some(more) = report.flows.len().checked_sub(FLOWS).filter(|&more| more > 0) {
        let more = human::counted(more as u64, "more flow");
        parts.push(format!("{more}: details are in the JSON form of this report\n"));
    }
    if report.flows.len() > 1 {
        parts.push(flow(&report.total, style));
    }
    parts
}

fn flow(flow: &FlowReport, style: Style) -> String {
    let mut out = style.strong(&title(flow)) + "\n";
    out.push_str(&traffic(flow, style));
    let sides = [
        flow.sent.as_ref().map(|sent| ("  sender: ", sender(sent))),
        flow.received.as_ref().map(|received| ("  receiver: ", receiver(received, flow))),
    ];
    let unknown = flow.not_measured.as_ref();
    let unknown = unknown.map(|why| ("  receiver: ", format!("not measured: {}", clean(why))));
    for (label, text) in sides.into_iter().chain([unknown]).flatten() {
        out.push_str(&hang(label, &text, WIDTH));
        out.push('\n');
    }
    out += &measurements(flow, style);
    let bins = flow.received.as_ref().and_then(|received| received.inter_arrival_bins.as_ref());
    if let Some(bins) = bins {
        out += &bins::picture("inter-arrival", bins, style);
    }
    if let Some(members) = flow.members.as_ref().filter(|members| !members.flows.is_empty()) {
        out += &members::members(members, style);
    }
    out
}

fn title(flow: &FlowReport) -> String {
    let name = clean(&flow.name);
    match flow.id {
        Some(id) if name != format!("flow {id}") => format!("{name}, flow {id} in probes"),
        _ => name,
    }
}

/// What was asked for, sent and received, as amounts and as rates.
fn traffic(flow: &FlowReport, style: Style) -> String {
    let heading = ["", "frames", "bytes", "payload", "frames", "line", "frame", "payload"];
    let mut table = Table::new(&heading).group("amount", 1, 3).group("rate", 4, 7);
    let mut rows = Vec::new();
    if let Some(sent) = &flow.sent {
        rows.push(("requested", &sent.requested, sent.offered.as_ref()));
        rows.push(("sent", &sent.sent, sent.rates.as_ref()));
    }
    if let Some(received) = &flow.received {
        rows.push(("received", &received.received, received.rates.as_ref()));
    }
    // one unit for what is compared
    let first = rows.iter().find_map(|(_, _, rates)| *rates).map(|rates| rates.frames_per_second);
    for (label, volume, rates) in rows {
        table.row(amounts(label, volume, rates, first.unwrap_or(0.0)));
    }
    table.render(2, style)
}

fn amounts(label: &str, volume: &Volume, rates: Option<&Rates>, beside: f64) -> Vec<Cell> {
    let rate = |show: fn(&Rates) -> String| Cell::from(rates.map_or_else(nothing, show));
    let frames_per_second = rates.map(|rates| rates.frames_per_second);
    let frame_rate = frames_per_second.map(|rate| human::fine_frame_rate_beside(rate, beside));
    vec![
        label.to_owned().into(),
        frames(volume).into(),
        human::bytes(volume.frame_bytes as f64).into(),
        human::bytes(volume.payload_bytes as f64).into(),
        frame_rate.unwrap_or_else(nothing).into(),
        rate(|rates| human::bit_rate(rates.line_bits_per_second)),
        rate(|rates| human::bit_rate(rates.frame_bits_per_second)),
        rate(|rates| human::bit_rate(rates.payload_bits_per_second)),
    ]
}

/// How many, and of how many frames on the wire where packets came or went as fragments.
fn frames(volume: &Volume) -> String {
    let frames = human::count(volume.frames);
    match volume.fragments {
        0 => frames,
        more => format!("{frames} in {}", human::count(volume.frames.saturating_add(more))),
    }
}

fn sender(sent: &Sent) -> String {
    let count = human::count;
    let error = match sent.rate_error_ppm {
        Some(ppm) => format!("rate error {}, ", human::deviation(ppm)),
        // without a rate and without deadlines there was nothing to keep to
        None if sent.offered.is_none() && sent.send_lateness_ns.count == 0 => {
            "as fast as possible, ".to_owned()
        }
        None => String::new(),
    };
    let late_after = human::time(sent.late_after_ns as f64);
    let fragments = match sent.sent.fragments {
        0 => String::new(),
        more => format!(
            "; {} left in {}, as fragments",
            human::counted(sent.sent.frames, "packet"),
            human::counted(sent.sent.frames.saturating_add(more), "frame")
        ),
    };
    format!(
        "{error}{} expired, {}{} not reached, {} failed, {} more than {late_after} late{fragments}",
        count(sent.expired),
        sent.at_least(),
        count(sent.not_reached),
        count(sent.failed),
        count(sent.late),
    )
}

fn receiver(received: &Received, flow: &FlowReport) -> String {
    let count = human::count;
    let mut parts = Vec::new();
    if let Some(loss) = flow.loss {
        let ratio = loss.ratio.map_or_else(nothing, human::percent);
        let basis = match loss.basis {
            LossBasis::SentLessUnique => "sent less unique",
            LossBasis::SentLessReceived => "sent less received",
            LossBasis::MissingNumbers => "missing numbers",
            LossBasis::Mixed => "on several bases",
        };
        let more = loss.at_most.filter(|most| *most > loss.frames);
        let more = more.map_or_else(String::new, |most| format!(" to {}", count(most)));
        parts.push(format!("{}{more} lost ({ratio}; {basis})", count(loss.frames)));
    }
    if received.unique > 0 || received.implausible > 0 {
        parts.push(format!("{} unique", count(received.unique)));
        parts.push(format!("{} duplicates", count(received.duplicates)));
        let ratio = received.reordered_ratio.filter(|&ratio| ratio > 0.0).map(human::percent);
        let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({ratio})"));
        parts.push(format!("{} reordered{ratio}", count(received.reordered)));
        if received.implausible > 0 {
            parts.push(format!("{} implausible", count(received.implausible)));
        }
    } else if received.received.frames > 0 {
        parts.push("no probes, so nothing more is known".to_owned());
    }
    if received.ends_repeated > 0 {
        let count = count(received.ends_repeated);
        parts.push(format!("{count} repeated final packets (not counted as data)"));
    }
    if received.unstamped > 0 {
        let count = count(received.unstamped);
        parts.push(format!(
            "{count} not stamped by the card (in no delay and no time between arrivals)"
        ));
    }
    if let Some(jitter) = received.jitter_rfc3550_ns {
        parts.push(format!("jitter {} (RFC 3550)", human::short_time(jitter)));
    }
    if let Some(queues) = received.measured_within_queues {
        parts.push(format!(
            "arrived on {queues} queues, and times between arrivals are those within each; the gap error is not measured"
        ));
    }
    parts.join(", ")
}

/// The distributions, one to a line; those without values are left out.
fn measurements(flow: &FlowReport, style: Style) -> String {
    let heading =
        ["", "count", "min", "mean", "std dev", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let mut table = Table::new(&heading);
    let mut add = |label: &str, stats: Option<&Stats>, unit: Unit| {
        if let Some(stats) = stats.filter(|stats| stats.count > 0) {
            table.row(measurement(label, stats, unit));
        }
    };
    if let Some(sent) = &flow.sent {
        add("send lateness", Some(&sent.send_lateness_ns), Unit::Time);
        add("inter-departure", Some(&sent.inter_departure_ns), Unit::Time);
        add("departure gap error", Some(&sent.signed_gap_error_ns), Unit::Time);
    }
    if let Some(received) = &flow.received {
        add("one-way delay", received.one_way_delay_ns.as_ref(), Unit::Time);
        add("jitter (RFC 4689)", Some(&received.jitter_rfc4689_ns), Unit::Time);
        add("delay above minimum", Some(&received.delay_above_minimum_rfc5481_ns), Unit::Time);
        add("inter-arrival", Some(&received.inter_arrival_ns), Unit::Time);
        add("gap error", Some(&received.gap_error_ns), Unit::Time);
        add("gap error, signed", Some(&received.signed_gap_error_ns), Unit::Time);
        add("reorder extent", Some(&received.reordering_extent_frames), Unit::Frames);
    }
    if table.is_empty() { String::new() } else { table.render(2, style) }
}

/// What a distribution is of.
#[derive(Clone, Copy)]
enum Unit {
    Time,
    Frames,
}

fn measurement(label: &str, stats: &Stats, unit: Unit) -> Vec<Cell> {
    let show = |value: Option<f64>| match unit {
        Unit::Time => time(stats, value).into(),
        Unit::Frames => value.map_or_else(nothing, human::number).into(),
    };
    let whole = |value: Option<i64>| show(value.map(|value| value as f64));
    let percentiles = &stats.percentiles;
    // A deviation does not depend on the clocks' offset.
    let deviation = stats.standard_deviation.map(|value| match unit {
        Unit::Time => human::short_time(value),
        Unit::Frames => human::number(value),
    });
    vec![
        label.to_owned().into(),
        human::count(stats.count).into(),
        whole(stats.min),
        show(stats.mean),
        deviation.unwrap_or_else(nothing).into(),
        whole(percentiles.p50),
        whole(percentiles.p90),
        whole(percentiles.p99),
        whole(percentiles.p99_9),
        whole(percentiles.p99_99),
        whole(stats.max),
    ]
}
