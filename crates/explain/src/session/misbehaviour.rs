//! Clients that misbehave, in words: what they send, to whom, and what ends it.

use wirebeat_traffic::program::script::SessionGroup;
use wirebeat_traffic::scenario::session::SessionSpec;
use wirebeat_traffic::scenario::session::program::Misbehave;
use wirebeat_traffic::scenario::session::program::misbehave::{Exchanges, Forged};
use wirebeat_units::{Nanos, human};

use crate::words;

/// What clients do.
pub(super) fn program(of: &Misbehave) -> String {
    let what = match of {
        Misbehave::SlowWrite(spec) => {
            let piece = match (spec.bytes, &spec.text) {
                (Some(bytes), _) => human::counted(bytes.get().into(), "byte"),
                (None, Some(_)) => "the text".to_owned(),
                (None, None) => "a line".to_owned(),
            };
            let what = match &spec.text {
                Some(_) => "a text",
                None => "the head of a request of HTTP without its end",
            };
            format!(
                "{what}, {piece} at a time, {} from one to the next",
                words::duration(&spec.gap)
            )
        }
        Misbehave::SlowRead(spec) => format!(
            "a request, and {} of what comes are read at a time, {} from one to the next",
            human::counted(spec.bytes.get().into(), "byte"),
            words::duration(&spec.gap)
        ),
        Misbehave::Idle(_) => "a connection, and not a byte".to_owned(),
        Misbehave::HalfOpen(_) => "a SYN, and no acknowledgment of its answer".to_owned(),
        Misbehave::ZeroWindow(_) => {
            "a request, and nothing of what comes is read: the window closes and stays closed"
                .to_owned()
        }
        Misbehave::Overlapping(spec) => forged(spec, "other data over data that was sent before"),
        Misbehave::OutOfWindow(spec) => forged(spec, "data beyond the peer's window"),
        Misbehave::BadChecksum(spec) => forged(spec, "data with a wrong checksum"),
        Misbehave::AckUnsent(spec) => forged(spec, "acknowledgments of what the peer has not sent"),
        Misbehave::RstStorm(spec) => forged(
            spec,
            "RSTs around the number that the peer expects, in its window and outside of it",
        ),
        Misbehave::SequenceGuess(spec) => {
            forged(spec, "RSTs and data with numbers drawn at random")
        }
    };
    format!("MISBEHAVES, {}: {what}", of.name())
}

fn forged(spec: &Forged, what: &str) -> String {
    let exchange = match spec.exchange {
        Exchanges::Http => format!("; GET {} before and after", spec.target),
        Exchanges::None => String::new(),
    };
    format!(
        "{} with {what}, {} from one to the next{exchange}",
        human::counted(spec.segments.get().into(), "segment"),
        words::duration(&spec.gap)
    )
}

/// What bounds it.
pub(super) fn limits(of: &Misbehave, spec: &SessionSpec, group: &SessionGroup) -> String {
    let most = spec
        .limit
        .and_then(|limit| limit.most_open())
        .map(|open| format!("at most {} sessions at a time", human::count(open.into())));
    let count = spec.count.map(|count| format!("{} sessions in all", human::count(count.get())));
    let ends = match (of.time(), of.forged()) {
        (Some(time), _) => Some(format!("each for {time} at most")),
        (None, Some(_)) => None,
        (None, None) if group.stop < Nanos::MAX => Some(format!(
            "each until the server ends it, at the latest at {} of the run",
            group.stop
        )),
        (None, None) => None,
    };
    let all: Vec<String> = [most, count, ends].into_iter().flatten().collect();
    let bounds = if all.is_empty() { String::new() } else { format!("; {}", all.join(", ")) };
    format!("only to the servers of this group{bounds}; what is held at the end is closed or reset")
}
