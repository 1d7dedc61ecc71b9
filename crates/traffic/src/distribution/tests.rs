//! What is drawn follows the distribution that was asked for: held against the distribution functions of the
//! crate `statrs`, a million samples each, at the 1 % level. And how distributions are written.

use proptest::prelude::*;
use statrs::distribution::{self as textbook, ContinuousCDF, DiscreteCDF};
use wirebeat_units::{Bytes, Nanos};

use super::draw::{Key, Purpose};
use super::*;
use crate::schedule::tests::config;

mod text;

const N: usize = 1_000_000;

fn distribution<Q: Quantity>(text: &str) -> Distribution<Q> {
    serde_saphyr::from_str_with_options(text, crate::scenario::yaml::options())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

const UNBOUNDED: Bounds = Bounds { min: None, max: None };

fn bounds(min: f64, max: f64) -> Bounds {
    Bounds { min: Some(min), max: Some(max) }
}

/// A million samples, from a seed that is the text's own.
fn samples(text: &str, sampler: &Sampler) -> Vec<f64> {
    let seed = text.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
    let key = Key::new(seed, 0, Purpose::Gap);
    (0..N as u64).map(|index| sampler.sample(&mut key.draw(index))).collect()
}

/// A distribution of time, drawn with and without a demanded mean.
struct Case {
    text: &'static str,
    mean: Option<f64>,
    bounds: Bounds,
}

impl Case {
    fn written(text: &'static str) -> Case {
        Case { text, mean: None, bounds: UNBOUNDED }
    }
    fn demanded(text: &'static str, mean: f64) -> Case {
        Case { text, mean: Some(mean), bounds: UNBOUNDED }
    }
    fn within(self, min: f64, max: f64) -> Case {
        Case { bounds: bounds(min, max), ..self }
    }
    fn sampler(&self) -> Sampler {
        let sampler = distribution::<Nanos>(self.text).sampler(self.mean, self.bounds);
        sampler.unwrap_or_else(|error| panic!("{}: {error}", self.text))
    }

    /// Holds its samples against `cdf`, and so the sampler's own function and mean. `tolerance` is that
    /// of the mean, in percent; `None` where the variance is infinite.
    fn follows(&self, cdf: impl Fn(f64) -> f64, tolerance: Option<f64>) {
        let sampler = self.sampler();
        let mut samples = samples(self.text, &sampler);
        if let Some(tolerance) = tolerance {
            let (drawn, mean) = (samples.iter().sum::<f64>() / N as f64, sampler.mean().unwrap());
            assert!(
                (drawn / mean - 1.0).abs() < tolerance / 100.0,
                "{}: {drawn} {mean}",
                self.text
            );
        }
        let (low, high) =
            (self.bounds.min.unwrap_or(0.0), self.bounds.max.unwrap_or(f64::INFINITY));
        assert!(samples.iter().all(|x| (low..=high).contains(x)), "{}", self.text);
        for x in samples.iter().step_by(997) {
            assert!((sampler.cdf(*x) - cdf(*x)).abs() < 1e-8, "{}: cdf({x})", self.text);
        }
        let fit = fit::ks(&mut samples, cdf);
        assert!(fit.passes(), "{}: {fit:?}", self.text);
    }
}

/// A distribution that is cut off at both ends; its function steps at whole numbers or not at all.
fn cut(distribution: impl ContinuousCDF<f64, f64>, low: f64, high: f64) -> impl Fn(f64) -> f64 {
    let (below, up_to) = (distribution.cdf(low), distribution.cdf(high));
    move |x| ((distribution.cdf(x) - below) / (up_to - below)).clamp(0.0, 1.0)
}

fn whole(distribution: impl ContinuousCDF<f64, f64>) -> impl Fn(f64) -> f64 {
    move |x| distribution.cdf(x)
}

#[test]
fn uniform_samples_are_uniform() {
    let die = |low: f64, high: f64| {
        move |x: f64| ((x.floor() - low + 1.0) / (high - low + 1.0)).clamp(0.0, 1.0)
    };
    Case::written("uniform: { min: 1us, max: 9us }").follows(die(1e3, 9e3), Some(0.2));
    Case::written("uniform: { min: 64ns, max: 66ns }").follows(die(64.0, 66.0), Some(0.1));
    Case::written("uniform: { min: 1us, max: 9us }")
        .within(1999.5, 5000.5)
        .follows(die(2e3, 5e3), Some(0.2));
    let sampler =
        distribution::<Bytes>("uniform: { min: 64B, max: 66B }").sampler(None, UNBOUNDED).unwrap();
    let mut counts = [0; 3];
    samples("sizes", &sampler).iter().for_each(|size| counts[*size as usize - 64] += 1);
    assert!(fit::chi_square(&counts, &[N as f64 / 3.0; 3]).passes(), "{counts:?}");
}

#[test]
fn exponential_samples_are_exponential() {
    let distribution = textbook::Exp::new(1e-4).unwrap();
    Case::written("exponential: { mean: 10us }").follows(whole(distribution), Some(0.3));
    Case::demanded("exponential", 1e4).follows(whole(distribution), Some(0.3));
    let bounded = Case::written("exponential: { mean: 10us }").within(5e3, 3e4);
    bounded.follows(cut(distribution, 5e3, 3e4), Some(0.2));
    Case::demanded("exponential", 2e3).follows(whole(textbook::Exp::new(5e-4).unwrap()), Some(0.3));
}

#[test]
fn pareto_samples_are_pareto() {
    let distribution = |scale, shape| textbook::Pareto::new(scale, shape).unwrap();
    Case::written("pareto: { shape: 3, scale: 2us }")
        .follows(whole(distribution(2e3, 3.0)), Some(0.3));
    Case::demanded("pareto: { shape: 2.5 }", 5e3).follows(whole(distribution(3e3, 2.5)), Some(0.5));
    Case::written("pareto: { shape: 0.9, scale: 2us }")
        .follows(whole(distribution(2e3, 0.9)), None);
    Case::written("pareto: { shape: 1, scale: 2us }")
        .within(0.0, 1e5)
        .follows(cut(distribution(2e3, 1.0), 2e3, 1e5), Some(0.5));
    Case::written("pareto: { shape: 1.2, scale: 2us }")
        .within(3e3, 1e5)
        .follows(cut(distribution(2e3, 1.2), 3e3, 1e5), Some(0.5));
}

#[test]
fn cauchy_samples_are_cauchy() {
    let distribution = |location, scale| textbook::Cauchy::new(location, scale).unwrap();
    // Cut at 0, where no gap is below.
    Case::written("cauchy: { location: 10us, scale: 1us }")
        .follows(cut(distribution(1e4, 1e3), 0.0, 1e300), None);
    Case::written("cauchy: { location: 1us, scale: 1us }")
        .follows(cut(distribution(1e3, 1e3), 0.0, 1e300), None);
    Case::written("cauchy: { location: 10us, scale: 3us }")
        .within(2e3, 4e4)
        .follows(cut(distribution(1e4, 3e3), 2e3, 4e4), Some(0.2));
}

#[test]
fn normal_samples_are_normal() {
    let distribution = |mean, deviation| textbook::Normal::new(mean, deviation).unwrap();
    Case::written("normal: { mean: 10us, deviation: 1us }")
        .follows(cut(distribution(1e4, 1e3), 0.0, 2e4), Some(0.1));
    Case::demanded("normal: { deviation: 25% }", 1e4)
        .follows(cut(distribution(1e4, 2.5e3), 0.0, 2e4), Some(0.1));
    // Wide enough to be cut: the mean stays.
    let wide = Case::demanded("normal: { deviation: 15us }", 1e4);
    wide.follows(cut(distribution(1e4, 1.5e4), 0.0, 2e4), Some(0.3));
    assert!((wide.sampler().mean().unwrap() / 1e4 - 1.0).abs() < 1e-12);
    Case::written("normal: { mean: 10us, deviation: 100% }")
        .within(2e3, 3e4)
        .follows(cut(distribution(1e4, 1e4), 2e3, 3e4), Some(0.2));
}

#[test]
fn poisson_samples_are_poisson() {
    for (text, mean) in [
        ("poisson-distributed: { mean: 3ns }", 3.0),
        ("poisson-distributed: { mean: 60ns }", 60.0),
        ("poisson-distributed: { mean: 10us }", 1e4),
    ] {
        let distribution = textbook::Poisson::new(mean).unwrap();
        let sampler = Case::written(text).sampler();
        let first = (mean - 8.0 * mean.sqrt()).max(0.0).floor();
        let mut counts = vec![0; (16.0 * mean.sqrt()) as usize + 16];
        let samples = samples(text, &sampler);
        samples.iter().for_each(|count| counts[(count - first) as usize] += 1);
        let up_to = |count: f64| if count < 0.0 { 0.0 } else { distribution.cdf(count as u64) };
        let expected: Vec<f64> = (0..counts.len())
            .map(|i| first + i as f64)
            .map(|count| (up_to(count) - up_to(count - 1.0)) * N as f64)
            .collect();
        let fit = fit::chi_square(&counts, &expected);
        assert!(fit.passes(), "{text}: {fit:?}");
        for count in [mean - 2.0 * mean.sqrt(), mean, mean + 0.5, mean + mean.sqrt()] {
            assert!((sampler.cdf(count) - up_to(count.floor())).abs() < 1e-8, "{text}: {count}");
        }
        let drawn = samples.iter().sum::<f64>() / N as f64;
        assert!((drawn / mean - 1.0).abs() < 0.002, "{text}: {drawn}");
        assert_eq!(Case::demanded("poisson-distributed", mean).sampler(), sampler);
    }
    let distribution = textbook::Poisson::new(60.0).unwrap();
    let (below, up_to) = (distribution.cdf(49), distribution.cdf(75));
    Case::written("poisson-distributed: { mean: 60ns }").within(49.5, 75.0).follows(
        move |x| ((distribution.cdf(x as u64) - below) / (up_to - below)).clamp(0.0, 1.0),
        Some(0.1),
    );
}

#[test]
fn gamma_samples_are_gamma() {
    let distribution = |shape, scale: f64| textbook::Gamma::new(shape, 1.0 / scale).unwrap();
    Case::written("gamma: { shape: 4, scale: 2us }")
        .follows(whole(distribution(4.0, 2e3)), Some(0.2));
    Case::written("gamma: { shape: 0.3, scale: 2us }")
        .follows(whole(distribution(0.3, 2e3)), Some(0.5));
    Case::demanded("gamma: { shape: 2.5 }", 1e4).follows(whole(distribution(2.5, 4e3)), Some(0.3));
    Case::demanded("gamma: { shape: 1 }", 1e4).follows(whole(distribution(1.0, 1e4)), Some(0.3));
    Case::written("gamma: { shape: 4, scale: 2us }")
        .within(5e3, 12e3)
        .follows(cut(distribution(4.0, 2e3), 5e3, 12e3), Some(0.1));
}

#[test]
fn weibull_samples_are_weibull() {
    let distribution = |shape, scale| textbook::Weibull::new(shape, scale).unwrap();
    Case::written("weibull: { shape: 2, scale: 5us }")
        .follows(whole(distribution(2.0, 5e3)), Some(0.2));
    Case::demanded("weibull: { shape: 0.5 }", 1e4)
        .follows(whole(distribution(0.5, 5e3)), Some(0.5));
    Case::written("weibull: { shape: 0.7, scale: 5us }")
        .within(1e3, 2e4)
        .follows(cut(distribution(0.7, 5e3), 1e3, 2e4), Some(0.3));
}

#[test]
fn log_normal_samples_are_log_normal() {
    let distribution = |mu, sigma| textbook::LogNormal::new(mu, sigma).unwrap();
    Case::written("log-normal: { mu: 9, sigma: 0.5 }")
        .follows(whole(distribution(9.0, 0.5)), Some(0.2));
    // Deviation = mean: sigma² = ln 2.
    let mu = 1e4f64.ln() - 2f64.ln() / 2.0;
    let same = whole(distribution(mu, 2f64.ln().sqrt()));
    Case::written("log-normal: { mean: 10us, deviation: 10us }").follows(&same, Some(0.3));
    Case::demanded("log-normal: { deviation: 100% }", 1e4).follows(&same, Some(0.3));
    Case::demanded("log-normal: { sigma: 1 }", 1e4)
        .follows(whole(distribution(1e4f64.ln() - 0.5, 1.0)), Some(0.5));
    Case::written("log-normal: { mu: 9, sigma: 1.5 }")
        .within(2e3, 5e4)
        .follows(cut(distribution(9.0, 1.5), 2e3, 5e4), Some(0.3));
}

#[test]
fn a_demanded_mean_is_kept_within_bounds() {
    for text in [
        "exponential",
        "pareto: { shape: 1.5 }",
        "pareto: { shape: 0.8 }",
        "normal: { deviation: 6us }",
        "normal: { deviation: 50% }",
        "poisson-distributed",
        "gamma: { shape: 0.5 }",
        "weibull: { shape: 0.6 }",
        "log-normal: { sigma: 1.2 }",
        "log-normal: { deviation: 20us }",
    ] {
        let case = Case::demanded(text, 1e4).within(4e3, 2.5e4);
        let sampler = case.sampler();
        assert!((sampler.mean().unwrap() / 1e4 - 1.0).abs() < 2e-9, "{text}: {:?}", sampler.mean());
        case.follows(|x| sampler.cdf(x), Some(0.2));
    }
}

#[test]
fn what_is_drawn_stays_the_same_for_ever() {
    let cases = [
        ("uniform: { min: 1us, max: 9us }", None, [4132, 8765, 1810, 5723]),
        ("exponential", Some(1e4), [9377, 299, 22896, 5269]),
        ("pareto: { shape: 1.5 }", Some(1e4), [6228, 3400, 15339, 4736]),
        ("cauchy: { location: 10us, scale: 1us }", None, [9645, 20775, 6965, 10292]),
        ("normal: { deviation: 25% }", Some(1e4), [9171, 13170, 5924, 10676]),
        ("poisson-distributed", Some(1e4), [9966, 10126, 9836, 10027]),
        ("gamma: { shape: 0.5 }", Some(1e4), [2184, 7132, 1277, 2392]),
        ("gamma: { shape: 5 }", Some(1e4), [7973, 15954, 3913, 10551]),
        ("weibull: { shape: 0.7 }", Some(1e4), [7206, 52, 25797, 3163]),
        ("log-normal: { sigma: 1 }", Some(1e4), [4353, 21558, 1188, 7948]),
    ];
    let key = Key::new(1, 2, Purpose::Gap);
    let drawn = cases.map(|(text, mean, _)| {
        let sampler = distribution::<Nanos>(text).sampler(mean, UNBOUNDED).unwrap();
        let sample = |index| sampler.sample(&mut key.draw(index)).round() as u64;
        (text, mean, [sample(0), sample(1), sample(2), sample(3)])
    });
    assert_eq!(drawn, cases);
}

fn error<Q: Quantity>(text: &str, mean: Option<f64>, bounds: Bounds) -> String {
    distribution::<Q>(text).sampler(mean, bounds).expect_err(text).to_string()
}

#[test]
fn contradictions_are_named_with_their_remedy() {
    for (text, mean, expected) in [
        (
            "exponential: { mean: 5us }",
            Some(1e4),
            "a mean of 10.0 µs is asked for, and 'exponential' has a size of its own by 'mean'; leave \
             one of the two out",
        ),
        (
            "uniform: { min: 1us, max: 2us }",
            Some(1e4),
            "a mean of 10.0 µs is asked for, and 'uniform' has a size of its own by 'min' and 'max'; \
             leave one of the two out",
        ),
        (
            "gamma: { shape: 2 }",
            None,
            "the size of the values of 'gamma' is not given; give 'scale', or a rate",
        ),
        (
            "cauchy: { location: 1us, scale: 1us }",
            Some(1e4),
            "a mean of 10.0 µs is asked for, and 'cauchy' has no mean here; a Cauchy distribution never has one: \
             leave the rate out, since 'location' and 'scale' say it all, or take a distribution that has a \
             mean, such as normal or pareto",
        ),
        (
            "pareto: { shape: 1 }",
            Some(1e4),
            "a mean of 10.0 µs is asked for, and 'pareto' has no mean here; a Pareto distribution has one from a \
             'shape' above 1 on: raise it, give 'scale' and no rate, or bound the values from above",
        ),
        (
            "poisson-distributed",
            Some(0.0),
            "the mean that is asked for must be above 0 and finite; it is 0 ns",
        ),
        (
            "exponential",
            Some(f64::NAN),
            "the mean that is asked for must be above 0 and finite; it is n/a",
        ),
        ("pareto: { shape: -1 }", Some(1e4), "shape: it is -1, and goes from 0.01 to 1000000"),
        (
            "normal: { deviation: 1000us }",
            Some(1e4),
            "only 0.80 % of the values of 'normal' lie between 0 ns and 20.0 µs, and at least 1 % \
             must; widen the bounds, or vary less",
        ),
    ] {
        assert_eq!(error::<Nanos>(text, mean, UNBOUNDED), expected, "{text}");
    }
}

#[test]
fn bounds_that_leave_nothing_are_named() {
    let exponential = "exponential: { mean: 10B }";
    for (text, mean, bounds, expected) in [
        (
            exponential,
            None,
            bounds(64.0, 1518.0),
            "only 0.17 % of the values of 'exponential' lie between 64 B and 1.52 kB, and at least 1 % \
             must; widen the bounds, or vary less",
        ),
        (
            exponential,
            None,
            bounds(64.0, 63.0),
            "the bounds 64 B and 63 B hold nothing; give a smaller and a larger one from 0 on",
        ),
        (
            exponential,
            None,
            bounds(-1.0, 63.0),
            "the bounds -1 B and 63 B hold nothing; give a smaller and a larger one from 0 on",
        ),
        (
            // Its mean is at most that of a uniform distribution.
            "exponential",
            Some(900.0),
            bounds(64.0, 1518.0),
            "no distribution 'exponential' with these parameters has a mean of 900 B between 64 B and 1.52 kB; \
             widen the bounds, or vary less",
        ),
        (
            "gamma: { shape: 2 }",
            Some(60.0),
            bounds(64.0, 1518.0),
            "no distribution 'gamma' with these parameters has a mean of 60 B between 64 B and 1.52 kB; widen \
             the bounds, or vary less",
        ),
    ] {
        assert_eq!(error::<Bytes>(text, mean, bounds), expected, "{text}");
    }
    let nan = Bounds { min: None, max: Some(f64::NAN) };
    assert!(error::<Bytes>(exponential, None, nan).contains("hold nothing"));
}

#[test]
fn means_are_those_of_the_textbook() {
    for (text, mean) in [
        ("uniform: { min: 1us, max: 9us }", Some(5e3)),
        ("exponential: { mean: 10us }", Some(1e4)),
        ("exponential", None),
        ("pareto: { shape: 3, scale: 2us }", Some(3e3)),
        ("pareto: { shape: 1, scale: 2us }", None),
        ("cauchy: { location: 10us, scale: 1us }", None),
        ("gamma: { shape: 4, scale: 2us }", Some(8e3)),
        ("weibull: { shape: 0.5, scale: 2us }", Some(4e3)),
        ("log-normal: { mu: 0, sigma: 2 }", Some(2f64.exp())),
    ] {
        match (distribution::<Nanos>(text).mean(), mean) {
            (Some(ours), Some(mean)) => {
                assert!((ours / mean - 1.0).abs() < 1e-12, "{text}: {ours}")
            }
            (ours, mean) => assert_eq!(ours, mean, "{text}"),
        }
    }
    let cauchy = distribution::<Nanos>("cauchy: { location: 10us, scale: 1us }");
    assert_eq!(cauchy.sampler(None, UNBOUNDED).unwrap().mean(), None);
    let mean = cauchy.sampler(None, bounds(0.0, 2e4)).unwrap().mean().unwrap();
    assert!((mean - 1e4).abs() < 1e-6, "{mean}");
}

/// Any distribution at all, sensible or not.
fn any_distribution() -> impl Strategy<Value = Distribution<Bytes>> {
    let size = || prop_oneof![Just(0u64), 1..2000u64, any::<u64>()].prop_map(Bytes::new);
    let number = || prop_oneof![0.01..10.0f64, any::<f64>(), Just(1.0), Just(1e6)];
    let deviation = move || {
        prop_oneof![
            size().prop_map(Deviation::Amount),
            number().prop_map(Deviation::Percent),
            (1.0..300.0f64).prop_map(Deviation::Percent),
        ]
    };
    let maybe = move || proptest::option::of(size());
    prop_oneof![
        (size(), size())
            .prop_map(|(min, max)| Distribution::Uniform(uniform::Uniform { min, max })),
        maybe().prop_map(|mean| Distribution::Exponential(exponential::Exponential { mean })),
        (number(), maybe())
            .prop_map(|(shape, scale)| Distribution::Pareto(pareto::Pareto { shape, scale })),
        (size(), size())
            .prop_map(|(location, scale)| Distribution::Cauchy(cauchy::Cauchy { location, scale })),
        (maybe(), deviation())
            .prop_map(|(mean, deviation)| Distribution::Normal(normal::Normal { mean, deviation })),
        maybe().prop_map(|mean| Distribution::Poisson(poisson::Poisson { mean })),
        (number(), maybe())
            .prop_map(|(shape, scale)| Distribution::Gamma(gamma::Gamma { shape, scale })),
        (number(), maybe())
            .prop_map(|(shape, scale)| Distribution::Weibull(weibull::Weibull { shape, scale })),
        (
            maybe(),
            proptest::option::of(deviation()),
            proptest::option::of(number()),
            proptest::option::of(number()),
        )
            .prop_map(|(mean, deviation, mu, sigma)| {
                Distribution::LogNormal(log_normal::LogNormal { mean, deviation, mu, sigma })
            }),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_law_is_drawn_within_its_bounds_or_refused(
        distribution in any_distribution(),
        mean in proptest::option::of(prop_oneof![1.0..2000.0f64, any::<f64>()]),
        min in proptest::option::of(prop_oneof![0.0..100.0f64, any::<f64>()]),
        max in proptest::option::of(prop_oneof![100.0..1e4f64, any::<f64>()]),
    ) {
        let Ok(sampler) = distribution.sampler(mean, Bounds { min, max }) else { return Ok(()) };
        let (low, high) = (min.unwrap_or(0.0), max.unwrap_or(2f64.powi(64)).min(2f64.powi(64)));
        let key = Key::new(3, 0, Purpose::Size);
        for index in 0..50 {
            let sample = sampler.sample(&mut key.draw(index));
            prop_assert!((low..=high).contains(&sample), "{sample}");
            prop_assert!((0.0..=1.0).contains(&sampler.cdf(sample)));
            prop_assert!(sampler.cdf(sample / 2.0) <= sampler.cdf(sample));
        }
        if let (Some(demanded), Some(mean)) = (mean, sampler.mean()) {
            prop_assert!((mean / demanded - 1.0).abs() < 1e-8, "{mean} {demanded}");
        }
    }
}
