//! MGEN's patterns: when messages leave and how long they are.
//!
//! ```text
//! PERIODIC [<rate> <size>]      POISSON [<rate> <size>]      JITTER [<rate> <size> <fraction>]
//! BURST [REGULAR|RANDOM <interval> <pattern> [ … ] FIXED|EXPONENTIAL <duration>]
//! CLONE [TCPDUMP <file> [<repeat>]]
//! ```
//! A rate is in messages per second, -1 as fast as possible, 0 none at all. A size is that of the whole
//! message, `min:max` for any between, equally likely. JITTER moves each message by up to that fraction of
//! the interval before or after its time. The interval of BURST goes from the beginning of a burst to that
//! of the next.

use wirebeat_traffic::distribution::exponential::Exponential;
use wirebeat_traffic::distribution::uniform::Uniform;
use wirebeat_traffic::distribution::{Deviation, Distribution};
use wirebeat_traffic::scenario::departures::{Duration, MAX_NESTED, OnOff};
use wirebeat_traffic::scenario::session::DataSize;
use wirebeat_traffic::scenario::size::Size;
use wirebeat_traffic::scenario::{Departures, FlowRate};
use wirebeat_units::{Bytes, Nanos, Rate, fault};

use super::token::Tokens;
use crate::datagram::{Sizes, drawn_payload};
use crate::keyword;
use crate::number::{Decimal, MAX_RATE, seconds};
use crate::text::printable;
use crate::{Line, ScriptError};

/// The sizes of messages over UDP (include/mgenGlobals.h: MIN_SIZE, MAX_SIZE).
pub(super) const SIZES: Sizes = Sizes::new(28, 8192);
/// The smallest message over TCP (MIN_FRAG_SIZE there).
const SMALLEST_OF_STREAM: u64 = 76;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PatternKind {
    Periodic,
    Poisson,
    Burst,
    Jitter,
    Clone,
}

pub(super) const KINDS: &[(&str, PatternKind)] = &[
    ("PERIODIC", PatternKind::Periodic),
    ("POISSON", PatternKind::Poisson),
    ("BURST", PatternKind::Burst),
    ("JITTER", PatternKind::Jitter),
    ("CLONE", PatternKind::Clone),
];

/// When messages leave and how long they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pub rate: FlowRate,
    pub departures: Departures,
    /// Bytes of a message, from and to; `None`: as the file says.
    pub sizes: Option<(u64, u64)>,
    /// What of it is not carried over.
    pub without: Option<&'static str>,
}

/// The pattern of this kind with these parameters. `None`: it sends nothing.
pub(super) fn read(
    line: &Line,
    kind: PatternKind,
    parameters: &str,
) -> Result<Option<Pattern>, ScriptError> {
    nested(line, kind, parameters, 0)
}

fn nested(
    line: &Line,
    kind: PatternKind,
    parameters: &str,
    level: usize,
) -> Result<Option<Pattern>, ScriptError> {
    let mut tokens = Tokens::of(line, parameters);
    let pattern = match kind {
        PatternKind::Periodic | PatternKind::Poisson | PatternKind::Jitter => {
            plain(&mut tokens, kind)?
        }
        PatternKind::Burst => burst(&mut tokens, level)?,
        PatternKind::Clone => Some(clone(&mut tokens)?),
    };
    tokens.end()?;
    Ok(pattern)
}

fn plain(tokens: &mut Tokens<'_>, kind: PatternKind) -> Result<Option<Pattern>, ScriptError> {
    let line = tokens.line();
    let rate = tokens.word("a rate in messages per second")?;
    let sizes = Some(sizes(tokens)?);
    let departures = match kind {
        PatternKind::Jitter => {
            let what = "a fraction of the interval, 0 to 0.5";
            let fraction = tokens.value(what, Decimal::parse)?.to_f64();
            if fraction > 0.5 {
                return Err(line.wrong(format!("{fraction} is not {what}")));
            }
            // To a millionth of a percent, so that no digits appear that nobody wrote.
            Departures::Jitter(Deviation::Percent((fraction * 1e8).round() / 1e6))
        }
        PatternKind::Poisson => Departures::Poisson(Exponential { mean: None }),
        _ => Departures::Constant,
    };
    if rate.parse() == Ok(-1.0) {
        let (rate, departures) = (FlowRate::default(), Departures::Constant);
        return Ok(Some(Pattern { rate, departures, sizes, without: None }));
    }
    let wrong = || {
        let rate = printable(rate);
        line.wrong(
            fault!("'{rate}' is not a rate"; "write up to {MAX_RATE} messages per second, or -1"),
        )
    };
    let rate = Decimal::parse(rate).ok_or_else(wrong)?;
    if rate.is_zero() {
        return Ok(None);
    }
    let rate = FlowRate::Fixed(Rate::Frames(rate.per_second().ok_or_else(wrong)?));
    Ok(Some(Pattern { rate, departures, sizes, without: None }))
}

/// Whether such messages are sent depends on the protocol.
fn sizes(tokens: &mut Tokens<'_>) -> Result<(u64, u64), ScriptError> {
    let read = |bytes: &str| bytes.parse::<u32>().ok().map(u64::from);
    let range = |word: &str| match word.split_once(':') {
        // MGEN exchanges them where they are the wrong way round.
        Some((a, b)) => Some((read(a)?.min(read(b)?), read(a)?.max(read(b)?))),
        None => read(word).map(|bytes| (bytes, bytes)),
    };
    tokens.value(&format!("a size of {SIZES}, or min:max"), range)
}

impl Pattern {
    /// How long messages over UDP are. `None`: as the file says.
    pub fn size(&self, line: &Line) -> Result<Option<Size>, ScriptError> {
        let Some((min, max)) = self.sizes else { return Ok(None) };
        let length = |bytes: u64| {
            SIZES.length(bytes).ok_or_else(|| {
                line.wrong(format!("'{bytes}' is not a size of {SIZES}, or min:max"))
            })
        };
        let (first, _) = (length(min)?, length(max)?);
        if min == max {
            return Ok(Some(Size::Fixed(first)));
        }
        Ok(Some(drawn_payload(uniform(min, max), None, Some(max))))
    }

    /// How long messages over TCP are. `None`: as the file says.
    pub fn stream_size(&self, line: &Line) -> Result<Option<DataSize>, ScriptError> {
        let Some((min, max)) = self.sizes else { return Ok(None) };
        if min < SMALLEST_OF_STREAM {
            return Err(line.wrong(fault!(
                "messages over TCP have {SMALLEST_OF_STREAM} bytes or more, and not {min}";
                "write {SMALLEST_OF_STREAM} at least"
            )));
        }
        Ok(Some(match min == max {
            true => DataSize::Fixed(Bytes::new(min)),
            false => DataSize::Drawn(uniform(min, max).into()),
        }))
    }
}

fn uniform(min: u64, max: u64) -> Distribution<Bytes> {
    Distribution::Uniform(Uniform { min: Bytes::new(min), max: Bytes::new(max) })
}

#[derive(Clone, Copy)]
enum Varies {
    No,
    Exponentially,
}

const INTERVALS: &[(&str, Varies)] = &[("REGULAR", Varies::No), ("RANDOM", Varies::Exponentially)];
const DURATIONS: &[(&str, Varies)] =
    &[("FIXED", Varies::No), ("EXPONENTIAL", Varies::Exponentially)];

fn burst(tokens: &mut Tokens<'_>, level: usize) -> Result<Option<Pattern>, ScriptError> {
    let line = tokens.line();
    if level == MAX_NESTED {
        return Err(line.wrong(format!("bursts are nested at most {MAX_NESTED} deep")));
    }
    let every = tokens.value("REGULAR or RANDOM", |word| keyword::find(word, INTERVALS))?;
    let every = time(tokens, every, "an interval in seconds")?;
    let kind = tokens.value("a pattern", |word| keyword::find(word, KINDS))?;
    let inner = nested(line, kind, tokens.group("a pattern's parameters")?, level + 1)?;
    let on = tokens.value("FIXED or EXPONENTIAL", |word| keyword::find(word, DURATIONS))?;
    let on = time(tokens, on, "a duration in seconds")?.ok_or_else(|| {
        line.wrong(fault!("a burst of no time sends nothing"; "give it a duration"))
    })?;
    let Some(inner) = inner else { return Ok(None) };
    if kind == PatternKind::Clone {
        return Err(line.wrong("CLONE stands alone: it has times of its own"));
    }
    // Bursts that follow one another without a pause are none.
    let Some(every) = every else { return Ok(Some(inner)) };
    let on_off = OnOff { on, off: None, every: Some(every), departures: inner.departures };
    Ok(Some(Pattern { departures: Departures::OnOff(Box::new(on_off)), ..inner }))
}

/// A time and how it varies. `None`: no time at all.
fn time(
    tokens: &mut Tokens<'_>,
    varies: Varies,
    what: &str,
) -> Result<Option<Duration>, ScriptError> {
    let mean = tokens.value(what, seconds)?;
    let time = match varies {
        Varies::No => Duration::Fixed(mean),
        Varies::Exponentially => {
            Duration::Drawn(Distribution::Exponential(Exponential { mean: Some(mean) }))
        }
    };
    Ok(Some(time).filter(|_| mean != Nanos::ZERO))
}

fn clone(tokens: &mut Tokens<'_>) -> Result<Pattern, ScriptError> {
    tokens.value("TCPDUMP", |word| word.eq_ignore_ascii_case("TCPDUMP").then_some(()))?;
    let file = tokens.word("the name of a capture")?;
    let repeat = match tokens.is_empty() {
        true => None,
        false => Some(tokens.group("how often it is repeated")?),
    };
    Ok(Pattern {
        rate: FlowRate::default(),
        departures: Departures::Capture(file.to_owned()),
        sizes: None,
        without: repeat.filter(|times| *times != "-1").map(|_| {
            "a capture begins again at its end for as long as the flow lasts, however often is written; \
             give the flow an OFF"
        }),
    })
}
