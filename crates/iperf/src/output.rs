//! What a server of ours prints of a test, for the client that asked for it (`--get-server-output`): text or JSON of our own form.

use std::fmt::Write as _;

use serde_json::{Value, json};
use wirebeat_units::human;

use crate::control::PeerOutput;
use crate::measurement::Measured;
use crate::result::{Interval, Side};
use crate::server::OutputForm;

/// Lines, or entries of JSON, at most; what is in the middle of a longer test is left out, and it says so.
const LINES_MAX: usize = 2000;

/// What the server prints of this test.
pub(crate) fn output(measured: &Measured, form: OutputForm) -> PeerOutput {
    match form {
        OutputForm::Text => PeerOutput::Text(text(measured)),
        OutputForm::Json => PeerOutput::Json(json(measured).to_string()),
    }
}

fn shown(measured: &Measured) -> impl Iterator<Item = &Interval> {
    let streams = measured.streams.len().max(1);
    measured.intervals.iter().take(LINES_MAX / streams)
}

fn text(measured: &Measured) -> String {
    let mut text = concat!("wirebeat ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    for stream in &measured.streams {
        let (to, local, remote) =
            (if stream.sending { "to" } else { "from" }, stream.local, stream.remote);
        let _ = writeln!(text, "[{:3}] {local} {to} {remote}", stream.id);
    }
    for interval in shown(measured) {
        let omitted = if interval.omitted { " (omitted)" } else { "" };
        for stream in &interval.streams {
            let line = line(&stream.side, stream.sending);
            let (start, end) = (interval.start.as_secs_f64(), interval.end.as_secs_f64());
            let _ = writeln!(text, "[{:3}] {start:7.2} to {end:7.2} s  {line}{omitted}", stream.id);
        }
    }
    let left_out = measured.intervals.len() - shown(measured).count();
    if left_out > 0 {
        let _ = writeln!(text, "({left_out} more intervals are left out)");
    }
    for stream in &measured.streams {
        let time = stream.ours.time.as_secs_f64();
        let line = line(&stream.ours, stream.sending);
        let _ = writeln!(text, "[{:3}] total of {time:.2} s  {line}", stream.id);
    }
    text
}

fn line(side: &Side, sending: bool) -> String {
    let rate = side.rate().map_or(0.0, |rate| rate.0 as f64);
    let verb = if sending { "sent" } else { "received" };
    let mut line =
        format!("{verb} {}, {}", human::bytes(side.bytes.get() as f64), human::bit_rate(rate));
    if let Some(retransmits) = side.retransmits {
        let _ = write!(line, ", {retransmits} retransmitted");
    }
    if let Some(datagrams) = side.datagrams {
        let _ = write!(line, ", {} datagrams", datagrams.packets);
        if !sending {
            let jitter = human::time(datagrams.jitter.get() as f64);
            let (lost, late) = (datagrams.lost, datagrams.out_of_order.unwrap_or(0));
            let _ = write!(line, ", {lost} lost, {late} out of order, jitter {jitter}");
        }
    }
    line
}

fn json(measured: &Measured) -> Value {
    let side = |id: u32, sending: bool, side: &Side| {
        json!({
            "id": id,
            "sender": sending,
            "bytes": side.bytes.get(),
            "seconds": side.time.as_secs_f64(),
            "bits_per_second": side.rate().map(|rate| rate.0),
            "retransmits": side.retransmits,
            "packets": side.datagrams.map(|datagrams| datagrams.packets),
            "lost_packets": side.datagrams.filter(|_| !sending).map(|datagrams| datagrams.lost),
            "out_of_order": side.datagrams.and_then(|datagrams| datagrams.out_of_order),
            "jitter_ms": side.datagrams.filter(|_| !sending).map(|datagrams| datagrams.jitter.get() as f64 / 1e6),
        })
    };
    let interval = |interval: &Interval| {
        let streams = interval.streams.iter().map(|s| side(s.id, s.sending, &s.side));
        json!({
            "start": interval.start.as_secs_f64(),
            "end": interval.end.as_secs_f64(),
            "omitted": interval.omitted,
            "streams": streams.collect::<Vec<_>>(),
        })
    };
    let streams = measured.streams.iter().map(|s| side(s.id, s.sending, &s.ours));
    json!({
        "program": concat!("wirebeat ", env!("CARGO_PKG_VERSION")),
        "intervals": shown(measured).map(interval).collect::<Vec<_>>(),
        "intervals_left_out": measured.intervals.len() - shown(measured).count(),
        "streams": streams.collect::<Vec<_>>(),
    })
}
