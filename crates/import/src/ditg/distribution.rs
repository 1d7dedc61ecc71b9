//! D-ITG's distributions: of the times between packets, of sizes, and of the lengths of bursts.
//!
//! They are those of ITGSend 2.8.1, whatever its manual says: for times, `C`, `U`, `E` and `O` take rates
//! in packets per second and the others milliseconds; `W` takes the scale first and the shape second
//! (the manual has them the other way round), and `Y` the location and then the scale.

use wirebeat_traffic::distribution::cauchy::Cauchy;
use wirebeat_traffic::distribution::exponential::Exponential;
use wirebeat_traffic::distribution::gamma::Gamma;
use wirebeat_traffic::distribution::normal::Normal;
use wirebeat_traffic::distribution::pareto::Pareto;
use wirebeat_traffic::distribution::poisson::Poisson;
use wirebeat_traffic::distribution::uniform::Uniform;
use wirebeat_traffic::distribution::weibull::Weibull;
use wirebeat_traffic::distribution::{Deviation, Distribution, Quantity};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::{Departures, FlowRate};
use wirebeat_units::{Bytes, Nanos, Rate, fault};

use super::words::Words;
use crate::ScriptError;
use crate::number::{Decimal, MAX_RATE};
use crate::text::printable;

/// When packets leave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gaps {
    pub rate: FlowRate,
    pub departures: Departures,
    /// Where it is not quite what D-ITG does, how.
    pub nearly: Option<&'static str>,
}

impl Default for Gaps {
    /// 1000 packets per second.
    fn default() -> Self {
        Gaps {
            rate: FlowRate::Fixed(Rate::Frames(wirebeat_units::FrameRate {
                frames: 1,
                per: Nanos::from_millis(1),
            })),
            departures: Departures::Constant,
            nearly: None,
        }
    }
}

impl Gaps {
    /// Drawn from a distribution that says by itself how long they are.
    pub fn of(distribution: Distribution<Nanos>) -> Gaps {
        let departures = Departures::Drawn(distribution.into());
        Gaps { rate: FlowRate::default(), departures, nearly: None }
    }
}

const POISSON_RATES: &str = "D-ITG draws a rate from a Poisson distribution for each packet and waits for its \
                             reciprocal; the times are drawn from a normal distribution with about the \
                             same mean and deviation";
const POISSON_MILLISECONDS: &str = "D-ITG draws whole milliseconds from a Poisson distribution; the times are \
                                    drawn from a normal distribution with the same mean and deviation";

/// The times between packets: what follows `-C`, `-U` and so on.
pub(super) fn gaps(letter: char, words: &mut Words<'_>) -> Result<Gaps, ScriptError> {
    let pps = "a rate in packets per second";
    let distribution = match letter {
        'C' => return Ok(Gaps { rate: words.positive(pps)?.rate(words)?, ..Gaps::default() }),
        'E' => {
            let rate = words.positive(pps)?.rate(words)?;
            return Ok(Gaps {
                rate,
                ..Gaps::of(Distribution::Exponential(Exponential { mean: None }))
            });
        }
        'U' => {
            let (slow, fast) = (words.positive(pps)?, words.positive(pps)?);
            let gap = |rate: Positive| Nanos::new((1e9 / rate.0.to_f64()).round() as u64);
            if slow.0.to_f64() >= fast.0.to_f64() {
                return Err(words.wrong("the second rate is above the first"));
            }
            Distribution::Uniform(Uniform { min: gap(fast), max: gap(slow) })
        }
        'O' => {
            let mean = words.positive(pps)?;
            let deviation = (1e4 / mean.0.to_f64().sqrt()).round() / 100.0;
            let deviation = Deviation::Percent(deviation.clamp(0.01, 100.0));
            let normal = Distribution::Normal(Normal { mean: None, deviation });
            let rate = mean.rate(words)?;
            return Ok(Gaps { rate, nearly: Some(POISSON_RATES), ..Gaps::of(normal) });
        }
        letter => two_parameters(letter, words)?,
    };
    words.check(&distribution)?;
    Ok(Gaps::of(distribution))
}

/// How long bursts and pauses last, in milliseconds: what follows `-B`.
pub(super) fn duration(
    words: &mut Words<'_>,
) -> Result<(Duration, Option<&'static str>), ScriptError> {
    let letter = words.next("a distribution: C, U, E, N, O, V, Y, G or W")?;
    let ms = "a time in milliseconds";
    let mut nearly = None;
    let distribution = match letter {
        "C" => return Ok((Duration::Fixed(words.positive(ms)?.quantity(words)?), None)),
        "E" => Distribution::Exponential(Exponential {
            mean: Some(words.positive(ms)?.quantity(words)?),
        }),
        "U" => {
            let (min, max) = (words.positive(ms)?, words.positive(ms)?);
            Distribution::Uniform(Uniform { min: min.quantity(words)?, max: max.quantity(words)? })
        }
        "O" => {
            nearly = Some(POISSON_MILLISECONDS);
            let mean = words.positive(ms)?;
            let deviation = Nanos::new((mean.0.to_f64().sqrt() * 1e6).round() as u64);
            let deviation = Deviation::Amount(deviation);
            Distribution::Normal(Normal { mean: Some(mean.quantity(words)?), deviation })
        }
        other => match (other.len(), other.chars().next()) {
            (1, Some(letter)) => two_parameters(letter, words)?,
            _ => {
                let why = fault!(
                    "'{}' is not a distribution", printable(other);
                    "write one of C U E N O V Y G W"
                );
                return Err(words.wrong(why));
            }
        },
    };
    words.check(&distribution)?;
    Ok((Duration::Drawn(distribution), nearly))
}

/// Sizes that are drawn: what follows `-u`, `-e` and so on.
pub(super) fn sizes(
    letter: char,
    words: &mut Words<'_>,
) -> Result<Distribution<Bytes>, ScriptError> {
    let bytes = "a size in bytes";
    let distribution = match letter {
        'u' => {
            let min = words.positive(bytes)?.quantity::<Bytes>(words)?;
            let max = words.positive(bytes)?.quantity::<Bytes>(words)?;
            if min >= max {
                return Err(words.wrong("the second size is above the first"));
            }
            // What D-ITG draws is cut to a whole number, so the largest is never reached.
            Distribution::Uniform(Uniform { min, max: Bytes::new(max.get() - 1) })
        }
        'e' => Distribution::Exponential(Exponential {
            mean: Some(words.positive(bytes)?.quantity(words)?),
        }),
        'o' => {
            Distribution::Poisson(Poisson { mean: Some(words.positive(bytes)?.quantity(words)?) })
        }
        letter => two_parameters(letter.to_ascii_uppercase(), words)?,
    };
    words.check(&distribution)?;
    Ok(distribution)
}

/// The distributions that are the same for times and sizes.
fn two_parameters<Q: Measured>(
    letter: char,
    words: &mut Words<'_>,
) -> Result<Distribution<Q>, ScriptError> {
    let (first, second) = match letter {
        'N' => ("a mean", "a standard deviation"),
        'V' | 'G' => ("a shape", "a scale"),
        'Y' => ("a location", "a scale"),
        'W' => ("a scale", "a shape"),
        _ => {
            let why = fault!("'{letter}' is not a distribution"; "write one of C U E N O V Y G W");
            return Err(words.wrong(why));
        }
    };
    let (first, second) = (words.positive(first)?, words.positive(second)?);
    Ok(match letter {
        'N' => Distribution::Normal(Normal {
            mean: Some(first.quantity(words)?),
            deviation: Deviation::Amount(second.quantity(words)?),
        }),
        'V' => Distribution::Pareto(Pareto {
            shape: first.0.to_f64(),
            scale: Some(second.quantity(words)?),
        }),
        'G' => Distribution::Gamma(Gamma {
            shape: first.0.to_f64(),
            scale: Some(second.quantity(words)?),
        }),
        'W' => Distribution::Weibull(Weibull {
            scale: Some(first.quantity(words)?),
            shape: second.0.to_f64(),
        }),
        _ => Distribution::Cauchy(Cauchy {
            location: first.quantity(words)?,
            scale: second.quantity(words)?,
        }),
    })
}

/// A number above 0.
#[derive(Clone, Copy)]
pub(super) struct Positive(pub Decimal);

impl Positive {
    fn rate(self, words: &Words<'_>) -> Result<FlowRate, ScriptError> {
        let rate = self.0.per_second().ok_or_else(|| {
            words.wrong(format!(
                "a rate has at most 18 digits and is at most {MAX_RATE} packets per second"
            ))
        })?;
        Ok(FlowRate::Fixed(Rate::Frames(rate)))
    }

    /// A time in milliseconds, or a size in bytes; at least the finest unit.
    fn quantity<Q: Measured>(self, words: &Words<'_>) -> Result<Q, ScriptError> {
        Q::measure(self.0).ok_or_else(|| words.wrong("a number is too large, or next to nothing"))
    }
}

/// What D-ITG writes without its unit.
pub(super) trait Measured: Quantity {
    fn measure(number: Decimal) -> Option<Self>;
}

impl Measured for Nanos {
    fn measure(number: Decimal) -> Option<Nanos> {
        number.times(Nanos::from_millis(1)).filter(|time| *time > Nanos::ZERO)
    }
}

impl Measured for Bytes {
    fn measure(number: Decimal) -> Option<Bytes> {
        // To the nearest whole byte.
        number
            .times(Nanos::new(1))
            .map(|bytes| Bytes::new(bytes.get()))
            .filter(|bytes| bytes.get() > 0)
    }
}
