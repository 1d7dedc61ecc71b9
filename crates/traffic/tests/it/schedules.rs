//! Schedules and sizes follow what was asked for: at the 1 % level where they are drawn, to the nanosecond
//! where they are not, and the same on any number of cores.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use wirebeat_traffic::distribution::fit::{chi_square, ks};
use wirebeat_traffic::program::Counted;
use wirebeat_traffic::program::lengths::Lengths;
use wirebeat_traffic::program::pace::Lasting;
use wirebeat_traffic::program::{Pace, Program};
use wirebeat_traffic::schedule::{Departure, Schedule, Shard};

use crate::world::program;

const MILLION: u64 = 1_000_000;
const MS: u64 = 1_000_000;

fn departures(program: &Program, shard: Shard) -> Vec<Departure> {
    Schedule::new(program, &[0], shard).collect()
}

/// When the frames of a flow are due, in nanoseconds.
fn times(program: &Program) -> Vec<u64> {
    departures(program, Shard::WHOLE).iter().map(|departure| departure.at.get()).collect()
}

fn gaps(times: &[u64]) -> Vec<f64> {
    times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

/// A million gaps of a flow with these keys.
fn gaps_fit(keys: &str) {
    let program = program(&format!("{keys}\n    count: {}", MILLION + 1));
    let Pace::Drawn(drawn) = &program.streams[0].departures.pace else {
        panic!("{keys} is not drawn")
    };
    let mut gaps = gaps(&times(&program));
    assert_eq!(gaps.len() as u64, MILLION);
    let fit = ks(&mut gaps, |x| drawn.sampler.cdf(x));
    assert!(fit.passes(), "{keys}: {fit:?}");
}

#[test]
fn gaps_by_rate_follow_their_distributions() {
    for distribution in [
        "exponential",
        "poisson",
        "poisson-distributed",
        "{ pareto: { shape: 2.5 } }",
        "{ pareto: { shape: 1.3 } }",
        "{ normal: { deviation: 25% } }",
        "{ gamma: { shape: 0.5 } }",
        "{ gamma: { shape: 3 } }",
        "{ weibull: { shape: 0.7 } }",
        "{ log-normal: { deviation: 80% } }",
        "{ log-normal: { sigma: 1.5 } }",
        "{ exponential: {}, min: 100us, max: 3ms }",
    ] {
        gaps_fit(&format!("rate: 1kpps\n    departures: {distribution}"));
    }
}

#[test]
fn gaps_by_parameters_follow_their_distributions() {
    for distribution in [
        "{ uniform: { min: 200us, max: 1.8ms } }",
        "{ exponential: { mean: 1ms } }",
        "{ poisson: { mean: 1ms } }",
        "{ poisson-distributed: { mean: 1ms } }",
        "{ pareto: { shape: 0.9, scale: 100us } }",
        "{ cauchy: { location: 1ms, scale: 100us } }",
        "{ cauchy: { location: 1ms, scale: 500us }, max: 10ms }",
        "{ normal: { mean: 1ms, deviation: 400us } }",
        "{ gamma: { shape: 2, scale: 500us } }",
        "{ weibull: { shape: 2, scale: 1ms } }",
        "{ log-normal: { mu: 13, sigma: 1 } }",
        "{ log-normal: { mean: 1ms, deviation: 1ms } }",
    ] {
        gaps_fit(&format!("departures: {distribution}"));
    }
}

/// Its median is ln 2 of its mean; that of gaps from a Poisson distribution is next to the mean.
#[test]
fn departures_called_poisson_are_a_poisson_process() {
    let median = |departures: &str| {
        let keys = format!("rate: 1kpps\n    departures: {departures}\n    count: 100001");
        let mut gaps = gaps(&times(&program(&keys)));
        gaps.sort_by(f64::total_cmp);
        gaps[gaps.len() / 2] / 1e6
    };
    let process = median("poisson");
    assert!((process - std::f64::consts::LN_2).abs() < 0.02, "{process}");
    assert_eq!(process, median("exponential"));
    let counted = median("poisson-distributed");
    assert!((counted - 1.0).abs() < 0.01, "{counted}");
}

#[test]
fn a_demanded_rate_is_the_mean_rate() {
    for distribution in [
        "exponential",
        "{ exponential: {}, max: 3ms }",
        "{ normal: { deviation: 60% } }",
        "{ gamma: { shape: 2 } }",
    ] {
        let times = times(&program(&format!(
            "rate: 1kpps\n    departures: {distribution}\n    count: {MILLION}"
        )));
        let mean = times[times.len() - 1] as f64 / (times.len() - 1) as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.004, "{distribution}: {mean}");
    }
}

/// When bursts begin whose frames are `gap` apart.
fn bursts(times: &[u64], gap: u64) -> Vec<u64> {
    let begins = |pair: &[u64]| (pair[1] - pair[0] > gap + 1).then_some(pair[1]);
    times.first().copied().into_iter().chain(times.windows(2).filter_map(begins)).collect()
}

#[test]
fn on_and_off_times_follow_their_distributions() {
    let on_off = |keys: &str| {
        program(&format!(
            "rate: 20kpps\n    count: 400000\n    departures: {{ on-off: {{ {keys} }} }}"
        ))
    };
    for (distribution, fixed, drawn_on) in [
        ("{ exponential: { mean: 1ms } }", 7 * MS, true),
        ("{ log-normal: { mean: 1ms, deviation: 2ms } }", 7 * MS, true),
        ("{ exponential: { mean: 5ms } }", MS, false),
        ("{ pareto: { shape: 1.2, scale: 1ms } }", MS, false),
    ] {
        let keys = match drawn_on {
            true => format!("on: {distribution}, off: {fixed}ns"),
            false => format!("on: {fixed}ns, off: {distribution}"),
        };
        let program = on_off(&keys);
        let Pace::OnOff(pace) = &program.streams[0].departures.pace else { panic!("{keys}") };
        let drawn = match (&pace.on, &pace.pause) {
            (Lasting::Drawn(drawn), _) => drawn,
            (_, wirebeat_traffic::program::pace::Pause::After(Lasting::Drawn(drawn))) => drawn,
            other => panic!("{other:?}"),
        };
        // From one beginning to the next is a burst and a pause, of which one is known. A pause shorter
        // than a gap between frames would not be seen, so those that may be are longer.
        let cycles = gaps(&bursts(&times(&program), 50_000));
        let mut lasts: Vec<f64> = cycles.iter().map(|cycle| cycle - fixed as f64).collect();
        assert!(lasts.len() > 5_000, "{keys}: {} bursts", lasts.len());
        let least = 50_000.0;
        if !drawn_on {
            lasts.retain(|off| *off > least);
        }
        let cut = if drawn_on { 0.0 } else { drawn.sampler.cdf(least) };
        let fit = ks(&mut lasts, |x| ((drawn.sampler.cdf(x) - cut) / (1.0 - cut)).max(0.0));
        assert!(fit.passes(), "{keys}: {fit:?}");
    }
}

#[test]
fn bursts_within_bursts_stay_within_both() {
    let nested =
        "on-off: { on: 100ms, off: 100ms, departures: { on-off: { on: 1ms, every: 2ms } } }";
    let times =
        times(&program(&format!("rate: 10kpps\n    count: 20000\n    departures: {{ {nested} }}")));
    for at in &times {
        assert!(at % (200 * MS) < 100 * MS && at % (2 * MS) < MS, "{at}");
    }
    // Ten frames in each inner burst, fifty of which are in each outer one.
    assert_eq!(times[times.len() - 1] / (200 * MS), 20_000 / 500 - 1);
}

#[test]
fn jitter_stays_in_its_bounds_and_does_not_add_up() {
    for (jitter, reach) in [("50us", 50_000_u64), ("30%", 300_000)] {
        let keys =
            format!("rate: 1kpps\n    departures: {{ jitter: {jitter} }}\n    count: {MILLION}");
        let mut late: Vec<f64> = Vec::new();
        for (at, n) in times(&program(&keys)).into_iter().zip(0..) {
            let late_ns = at.checked_sub(n * MS).unwrap();
            assert!(late_ns <= 2 * reach, "frame {n} at {at}");
            late.push(late_ns as f64);
        }
        let fit = ks(&mut late, |x| ((x + 1.0) / (2 * reach) as f64).clamp(0.0, 1.0));
        assert!(fit.passes(), "{jitter}: {fit:?}");
    }
    let wide = times(&program(&format!(
        "rate: 1kpps\n    departures: {{ jitter: 100% }}\n    count: {MILLION}"
    )));
    assert!(wide.is_sorted());
    assert!(wide.iter().zip(0..).all(|(at, n)| (n * MS..=(n + 2) * MS).contains(at)));
}

/// The frames up to a time, by the integral of the rate.
type Integral = fn(f64) -> f64;

/// Rates that change, with their integrals in frames over nanoseconds.
const PROFILES: [(&str, Integral); 4] = [
    ("{ steps: { 0s: 100kpps, 1s: 20kpps, 2s: 1kpps, 2.5s: 200kpps } }", |t| {
        let part = |from: f64, to: f64| (t.min(to) - from).max(0.0);
        part(0.0, 1e9) * 1e-4
            + part(1e9, 2e9) * 2e-5
            + part(2e9, 2.5e9) * 1e-6
            + part(2.5e9, f64::INFINITY) * 2e-4
    }),
    ("{ ramp: { from: 1kpps, to: 201kpps, over: 4s } }", |t| 1e-6 * t + 2e-4 * t * t / 8e9),
    ("{ ramp: { from: 100kpps, to: 10kpps, over: 500ms, every: 1s } }", |t| {
        let rounds = (t / 1e9).floor();
        let (t, round) = (t - rounds * 1e9, 0.5e9 * 5.5e-5 + 0.5e9 * 1e-5);
        let ramp = t.min(0.5e9);
        rounds * round + ramp * (1e-4 - 9e-5 * ramp / 1e9) + (t - 0.5e9).max(0.0) * 1e-5
    }),
    ("{ sine: { mean: 100kpps, amplitude: 100kpps, period: 700ms } }", |t| {
        let turn = std::f64::consts::TAU / 0.7e9;
        1e-4 * t + 1e-4 / turn * (1.0 - (turn * t).cos())
    }),
];

#[test]
fn constant_departures_follow_the_integral_of_the_rate() {
    for (rate, integral) in PROFILES {
        let times = times(&program(&format!("rate: {rate}\n    stop: 4s")));
        for (&at, n) in times.iter().zip(0..) {
            // Frame n is due when the integral reaches n, rounded down to a nanosecond.
            let (before, after) = (integral(at as f64 - 1.0), integral(at as f64 + 2.0));
            let frame = f64::from(n);
            assert!(before <= frame + 1e-3 && frame <= after + 1e-3, "{rate}: frame {n} at {at}");
        }
        let expected = integral(4e9);
        assert!((times.len() as f64 - expected).abs() <= 1.0, "{rate}: {} {expected}", times.len());
    }
}

#[test]
fn exponential_departures_follow_the_integral_of_the_rate() {
    const WINDOWS: usize = 200;
    let window = 4e9 / WINDOWS as f64;
    for (rate, integral) in PROFILES {
        let program = program(&format!("rate: {rate}\n    departures: exponential\n    stop: 4s"));
        let mut counts = vec![0; WINDOWS];
        for at in times(&program) {
            counts[(at as f64 / window) as usize] += 1;
        }
        let up_to = |window_number: usize| integral(window_number as f64 * window);
        let expected: Vec<f64> = (0..WINDOWS).map(|n| up_to(n + 1) - up_to(n)).collect();
        let fit = chi_square(&counts, &expected);
        assert!(fit.passes(), "{rate}: {fit:?}");
    }
}

#[test]
fn sizes_follow_their_distributions() {
    for size in [
        "{ uniform: { min: 100B, max: 700B } }",
        "{ exponential: { mean: 300B } }",
        "{ pareto: { shape: 1.2, scale: 80B } }",
        "{ cauchy: { location: 500B, scale: 100B } }",
        "{ normal: { mean: 500B, deviation: 100B }, min: 300B, max: 9000B }",
        "{ poisson-distributed: { mean: 400B }, of: payload }",
        "{ gamma: { shape: 2, scale: 200B }, of: payload }",
        "{ weibull: { shape: 0.8, scale: 400B } }",
        "{ log-normal: { mean: 500B, deviation: 80% } }",
    ] {
        let program = program(&format!("size: {size}\n    rate: 1kpps"));
        let frames = &program.streams[0].frames;
        let Lengths::Drawn { sampler, .. } = frames.lengths() else { panic!("{size}") };
        let payload = size.contains("payload");
        let of = |counted: Counted| match payload {
            true => f64::from(counted.payload),
            false => f64::from(counted.bytes),
        };
        let mut lengths: Vec<f64> = (0..MILLION).map(|n| of(frames.counted(n))).collect();
        // What is drawn is rounded to the nearest byte.
        let fit = ks(&mut lengths, |x| sampler.cdf(x.floor() + 0.5));
        assert!(fit.passes(), "{size}: {fit:?}");
    }
}

#[test]
fn a_mix_has_its_weights() {
    let program = program("size: { mix: { 64B: 7, 594B: 4, 1518B: 1, 100B: 0 } }");
    let mut counts = [0; 3];
    for n in 0..MILLION {
        let length = program.streams[0].frames.counted(n).bytes;
        counts[[64, 594, 1518].iter().position(|&known| known == length).unwrap()] += 1;
    }
    let fit = chi_square(&counts, &[7.0, 4.0, 1.0].map(|weight| MILLION as f64 * weight / 12.0));
    assert!(fit.passes(), "{counts:?}: {fit:?}");
}

#[test]
fn a_change_does_not_repeat_the_draws_from_before_it() {
    let keys = "rate: 10kpps\n    departures: exponential\n    stop: 40ms\n    at: { 10ms: pause, 20ms: resume }";
    let times = times(&program(keys));
    assert!(times.iter().all(|at| !(10 * MS..20 * MS).contains(at)));
    let (before, after) = times.split_at(times.partition_point(|at| *at < 20 * MS));
    assert_eq!(after[0], 20 * MS, "the first frame after a pause is due at its end");
    assert_ne!(gaps(&before[..20]), gaps(&after[..20]));
}

#[test]
fn a_profile_goes_on_when_something_else_changes() {
    let (rate, integral) = PROFILES[3];
    let at = times(&program(&format!(
        "rate: {rate}\n    stop: 4s\n    at: {{ 1.1s: {{ size: 100B }}, 2s: pause, 3s: resume }}"
    )));
    let within = |from: f64, to: f64| {
        at.iter().filter(|at| (from..to).contains(&(**at as f64))).count() as f64
    };
    for (from, to) in [(0.0, 1.1e9), (1.1e9, 1.3e9), (1.1e9, 2e9), (3e9, 3.1e9), (3e9, 4e9)] {
        let expected = integral(to) - integral(from);
        assert!((within(from, to) - expected).abs() < 3.0, "{from} to {to}: {expected}");
    }
    // A new rate begins at its own beginning.
    let changed =
        format!("rate: 1kpps\n    stop: 4s\n    at: {{ 1s: {{ rate: {} }} }}", PROFILES[1].0);
    let count = times(&program(&changed)).iter().filter(|at| **at >= 1000 * MS).count() as f64;
    assert!((count - PROFILES[1].1(3e9)).abs() < 3.0, "{count}");
}

/// Flows of every kind of pace, in bursts, with changes.
fn flows() -> impl Strategy<Value = String> {
    let pace = prop::sample::select(vec![
        "rate: 20kpps",
        "rate: 3/100us\n    departures: exponential",
        "departures: { cauchy: { location: 50us, scale: 20us } }",
        "rate: 20kpps\n    departures: { jitter: 80% }",
        "rate: 50kpps\n    departures: { on-off: { on: { exponential: { mean: 1ms } }, off: 1ms } }",
        "rate: 90kpps\n    departures: { on-off: { on: 3ms, every: 5ms, departures: { on-off: { on: 200us, off: { weibull: { shape: 1, scale: 300us } }, departures: exponential } } } }",
        "rate: { sine: { mean: 20kpps, amplitude: 20kpps, period: 11ms } }\n    departures: { gamma: { shape: 2 } }",
        "rate: { steps: { 0s: 30kpps, 3ms: 0.001pps, 5ms: 10kpps }, every: 9ms }",
        "rate: { ramp: { from: 0.001pps, to: 50kpps, over: 20ms } }",
    ]);
    let change = prop::sample::select(vec![
        "",
        "at: { 7ms: pause, 9ms: resume, 21ms: { size: 100B } }",
        "at: { 5ms: { rate: 10kpps, departures: constant }, 12345us: { departures: exponential } }",
        "at: { 1us: { rate: { ramp: { from: 1kpps, to: 40kpps, over: 9ms } }, departures: constant } }",
    ]);
    let limit =
        prop_oneof![Just(String::new()), (1..900_u32).prop_map(|count| format!("count: {count}"))];
    (pace, change, limit, 1..6_u32, 0..1000_u64).prop_map(|(pace, change, limit, burst, start)| {
        let change = if pace.contains("cauchy") { "" } else { change };
        format!("{pace}\n    {change}\n    {limit}\n    burst: {burst}\n    start: {start}ns\n    stop: 40ms")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn cores_share_any_schedule_without_loss_or_repetition(keys in flows(), cores in 1..5_u32) {
        let program = program(&keys);
        let whole = departures(&program, Shard::WHOLE);
        prop_assert!(!whole.is_empty());
        prop_assert!(whole.is_sorted_by_key(|departure| departure.at));
        prop_assert!(whole.iter().zip(0..).all(|(departure, n)| departure.index == n));
        let mut shared: Vec<Departure> = Vec::new();
        for core in 0..cores {
            let of_core = departures(&program, Shard { core, cores });
            prop_assert!(of_core.is_sorted_by_key(|departure| departure.at));
            shared.extend(of_core);
        }
        shared.sort_by_key(|departure| departure.index);
        prop_assert_eq!(shared, whole);
    }
}
