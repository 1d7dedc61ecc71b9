//! Drawing from a distribution: with the mean that is demanded, within bounds.
//!
//! Nothing drawn is below 0, whatever the bounds. **Bounds cut a distribution off**: a sample outside is drawn
//! again, so that what is left keeps its proportions. A normal distribution without bounds of its own is cut at 0
//! and, as its mirror image, at twice its mean, so that its mean stays. Otherwise a cut moves the mean:
//!
//! - Where the mean is written in the distribution, it is the textbook's, of the distribution before the cut, and
//!   [`Sampler::mean`] is the one after it.
//! - Where the mean is demanded from outside, the distribution is chosen so that the mean after the cut is the
//!   demanded one. Where no distribution of the kind can have it, that is an error.

use wirebeat_units::{Fault, fault, into_fault};

use super::draw::Draw;
use super::written::{DistributionSpec, Form};
use super::{AnyVariable, Quantity, Variable};

/// The share of a distribution that its bounds must leave: one sample in a hundred.
const MIN_SHARE: f64 = 0.01;
/// How often a sample is drawn again. Of a distribution with [`MIN_SHARE`], two samples in a billion are still
/// outside after that, and of most distributions none ever.
const MAX_DRAWS: u32 = 2_000;
/// No sample is above it: 2^64 ns are 584 years.
const CEILING: f64 = u64::MAX as f64;
/// How well a demanded mean is met, as a share of it: far better than any clock.
const EXACT: f64 = 1e-9;

/// Where samples lie, in nanoseconds or bytes; both ends are included. By default: from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The smallest, from 0.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// Why a distribution cannot be drawn from. Amounts are rounded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum LawError {
    /// [`super::Distribution::check`] finds a parameter that is invalid.
    Parameter {
        /// Its key.
        key: &'static str,
        /// What is wrong and what would be right.
        why: Fault,
    },
    /// Neither the distribution nor a rate says how large samples are.
    MeanMissing {
        /// The distribution.
        distribution: &'static str,
        /// The key that is left out.
        key: &'static str,
    },
    /// Both do.
    MeanTwice {
        /// The distribution.
        distribution: &'static str,
        /// The keys that give the size.
        keys: &'static str,
        /// The mean that is demanded.
        mean: String,
    },
    /// A mean is demanded of a distribution that has none.
    NoMean {
        /// The distribution.
        distribution: &'static str,
        /// The mean that is demanded.
        mean: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The demanded mean is not a number above 0.
    BadMean {
        /// The mean that is demanded.
        mean: String,
    },
    /// No distribution of this kind has the demanded mean within these bounds.
    MeanOutOfReach {
        /// The distribution.
        distribution: &'static str,
        /// The mean that is demanded.
        mean: String,
        /// The lower bound.
        min: String,
        /// The upper bound.
        max: String,
    },
    /// The bounds are no interval.
    BadBounds {
        /// The lower bound.
        min: String,
        /// The upper bound.
        max: String,
    },
    /// The bounds leave so little of the distribution that drawing from it would take too long.
    TooNarrow {
        /// The distribution.
        distribution: &'static str,
        /// The share that they leave.
        percent: String,
        /// The lower bound.
        min: String,
        /// The upper bound.
        max: String,
    },
    /// The distribution's numbers are beyond floating point.
    OutOfRange {
        /// The distribution.
        distribution: &'static str,
    },
}

impl LawError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            LawError::Parameter { key, why } => fault!("{key}: {why}"),
            LawError::MeanMissing { distribution, key } => {
                fault!(
                    "the size of the values of '{distribution}' is not given";
                    "give {key}, or a rate"
                )
            }
            LawError::MeanTwice { distribution, keys, mean } => {
                fault!(
                    "a mean of {mean} is asked for, and '{distribution}' has a size of its own \
                     by {keys}";
                    "leave one of the two out"
                )
            }
            LawError::NoMean { distribution, mean, remedy } => {
                fault!(
                    "a mean of {mean} is asked for, and '{distribution}' has no mean here";
                    "{remedy}"
                )
            }
            LawError::BadMean { mean } => {
                fault!("the mean that is asked for must be above 0 and finite"; "it is {mean}")
            }
            LawError::MeanOutOfReach { distribution, mean, min, max } => {
                fault!(
                    "no distribution '{distribution}' with these parameters has a mean of {mean} \
                     between {min} and {max}";
                    "widen the bounds, or vary less"
                )
            }
            LawError::BadBounds { min, max } => {
                fault!(
                    "the bounds {min} and {max} hold nothing";
                    "give a smaller and a larger one from 0 on"
                )
            }
            LawError::TooNarrow { distribution, percent, min, max } => {
                fault!(
                    "only {percent} % of the values of '{distribution}' lie between {min} and \
                     {max}, and at least 1 % must";
                    "widen the bounds, or vary less"
                )
            }
            LawError::OutOfRange { distribution } => {
                fault!(
                    "the values of '{distribution}' would be smaller or larger than any number";
                    "give other parameters"
                )
            }
        }
    }
}

into_fault!(LawError);

/// What draws from a distribution: its numbers, its bounds and its mean. Plain data; drawing allocates nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    variable: AnyVariable,
    cut: Remainder,
    mean: Option<f64>,
}

impl Sampler {
    /// A sample in nanoseconds or bytes: a number from 0 to 2^64, within the bounds, not rounded. The
    /// uniform and the Poisson distribution give whole numbers.
    ///
    /// After 2,000 draws outside the bounds, which [`Distribution::sampler`](super::Distribution::sampler) makes all but
    /// impossible, the last one is moved to the nearer bound.
    #[inline]
    pub fn sample(&self, draw: &mut Draw) -> f64 {
        let mut sample = self.variable.draw(draw);
        let mut draws = 1;
        while !(self.cut.low..=self.cut.high).contains(&sample) && draws < MAX_DRAWS {
            sample = self.variable.draw(draw);
            draws += 1;
        }
        // Also turns what is not a number into one.
        sample.max(self.cut.low).min(self.cut.high).min(CEILING)
    }

    /// The mean of the samples, bounds and all; `None` where there is none.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }

    /// The probability of a sample up to `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        if x < self.cut.low {
            0.0
        } else if x >= self.cut.high {
            1.0
        } else {
            ((self.variable.cdf(x) - self.cut.below) / self.cut.share).clamp(0.0, 1.0)
        }
    }
}

/// The mean of a distribution as it is written.
pub(super) fn mean<S: DistributionSpec>(spec: &S) -> Option<f64> {
    match spec.form() {
        // Any mean will do: it is not used.
        Form::Fixed(_) => spec.variable(1.0)?.mean(),
        Form::Free(_) => None,
    }
}

/// See [`Distribution::sampler`](super::Distribution::sampler).
pub(super) fn sampler<Q: Quantity, S: DistributionSpec>(
    distribution: &'static str,
    spec: &S,
    mean: Option<f64>,
    bounds: Bounds,
) -> Result<Sampler, LawError>
where
    S::Variable: Into<AnyVariable>,
{
    spec.check().map_err(|(key, why)| LawError::Parameter { key, why })?;
    check_bounds::<Q>(bounds)?;
    let variable = match (spec.form(), mean) {
        (Form::Free(key), None) => return Err(LawError::MeanMissing { distribution, key }),
        (Form::Fixed(_), None) => {
            spec.variable(1.0).ok_or(LawError::OutOfRange { distribution })?
        }
        (form, Some(mean)) => demanded::<Q, S>(distribution, spec, form, Demand { mean, bounds })?,
    };
    let cut = Remainder::new(&variable, bounds);
    if cut.share < MIN_SHARE || cut.share.is_nan() {
        let percent = format!("{:.2}", cut.share * 100.0);
        let (min, max) = (Q::words(cut.low), words_of_max::<Q>(cut.high));
        return Err(LawError::TooNarrow { distribution, percent, min, max });
    }
    let mean = cut.mean(&variable);
    Ok(Sampler { variable: variable.into(), cut, mean })
}

/// The mean that samples shall have, and where they may lie.
#[derive(Clone, Copy)]
struct Demand {
    mean: f64,
    bounds: Bounds,
}

/// The distribution of this kind that meets a demand.
fn demanded<Q: Quantity, S: DistributionSpec>(
    distribution: &'static str,
    spec: &S,
    form: Form,
    demand: Demand,
) -> Result<S::Variable, LawError> {
    let mean = Q::words(demand.mean);
    if !(demand.mean > 0.0 && demand.mean <= CEILING) {
        return Err(LawError::BadMean { mean });
    }
    let variable = spec.variable(demand.mean).ok_or(LawError::OutOfRange { distribution })?;
    if variable.mean().is_none() && demand.bounds.max.is_none() {
        return Err(LawError::NoMean { distribution, mean, remedy: spec.without_mean() });
    }
    if let Form::Fixed(keys) = form {
        return Err(LawError::MeanTwice { distribution, keys, mean });
    }
    if meets(&variable, demand) {
        return Ok(variable);
    }
    let cut = Remainder::new(&variable, demand.bounds);
    let (min, max) = (Q::words(cut.low), words_of_max::<Q>(cut.high));
    solve(spec, demand).ok_or(LawError::MeanOutOfReach { distribution, mean, min, max })
}

fn meets<V: Variable>(variable: &V, demand: Demand) -> bool {
    let cut = Remainder::new(variable, demand.bounds);
    cut.mean(variable).is_some_and(|mean| (mean - demand.mean).abs() <= EXACT * demand.mean)
}

/// How far from the demanded mean the mean before the cut is looked for, in factors of two each way.
const MAX_DOUBLINGS: u32 = 64;
/// Enough to halve any interval of doubles down to its ends.
const MAX_HALVINGS: u32 = 100;

/// Looks for the distribution whose mean after the cut is the demanded one, which grows with the mean before it.
fn solve<S: DistributionSpec>(spec: &S, demand: Demand) -> Option<S::Variable> {
    // Whether the mean before the cut is too small. Where next to nothing is left between the bounds,
    // it lies beyond one of them.
    let too_small = |before: f64| {
        let variable = spec.variable(before)?;
        let cut = Remainder::new(&variable, demand.bounds);
        match cut.mean(&variable).filter(|_| cut.share >= MIN_SHARE) {
            Some(mean) => Some(mean < demand.mean),
            None => Some(before < demand.mean),
        }
    };
    let (mut low, mut high) = (demand.mean, demand.mean);
    let grow = too_small(demand.mean)?;
    let mut doublings = 0;
    while too_small(if grow { high } else { low })? == grow {
        if doublings == MAX_DOUBLINGS {
            return None;
        }
        doublings += 1;
        if grow { (low, high) = (high, high * 2.0) } else { (low, high) = (low / 2.0, low) }
    }
    for _ in 0..MAX_HALVINGS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if too_small(middle)? { low = middle } else { high = middle }
    }
    spec.variable(high).filter(|variable| meets(variable, demand))
}

/// What is left of a distribution: where, and how much.
#[derive(Clone, Debug, PartialEq)]
struct Remainder {
    low: f64,
    high: f64,
    /// The probability of a value below `low` before the cut.
    below: f64,
    /// The probability of a value from `low` to `high` before the cut.
    share: f64,
}

impl Remainder {
    fn new<V: Variable>(variable: &V, bounds: Bounds) -> Remainder {
        let mirrored = if bounds == Bounds::default() { variable.centre() } else { None };
        let low = bounds.min.unwrap_or(0.0);
        let high = mirrored.map(|centre| 2.0 * centre).or(bounds.max).unwrap_or(f64::INFINITY);
        let below = variable.cdf(variable.before(low));
        Remainder { low, high, below, share: variable.cdf(high) - below }
    }

    /// The mean of what is left.
    fn mean<V: Variable>(&self, variable: &V) -> Option<f64> {
        if self.share == 1.0 {
            return variable.mean();
        }
        let mean =
            (variable.moment(self.high) - variable.moment(variable.before(self.low))) / self.share;
        // Rounding must not carry it over a bound.
        mean.is_finite().then(|| mean.clamp(self.low, self.high))
    }
}

fn check_bounds<Q: Quantity>(bounds: Bounds) -> Result<(), LawError> {
    let low = bounds.min.unwrap_or(0.0);
    let high = bounds.max.unwrap_or(f64::INFINITY);
    if (0.0..=CEILING).contains(&low) && low <= high {
        return Ok(());
    }
    Err(LawError::BadBounds { min: Q::words(low), max: words_of_max::<Q>(high) })
}

/// An upper bound, for a message.
fn words_of_max<Q: Quantity>(high: f64) -> String {
    if high == f64::INFINITY { "infinity".to_owned() } else { Q::words(high) }
}
