//! What the standards describe, and in what a test differs.

use wirebeat_traffic::scenario::Size;
use wirebeat_traffic::scenario::size::Of;
use wirebeat_units::{Nanos, human};

use super::Rfc2544;

/// Frame sizes of RFC 2544 §9.1 for Ethernet.
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Trials of RFC 2544 §24.
pub const TRIAL: Nanos = Nanos::from_secs(60);
/// What RFC 2544 §23 waits for frames that are still under way.
pub const SETTLE: Nanos = Nanos::from_secs(2);
/// How long RFC 2544 §23 leaves a device alone between trials.
pub const PAUSE: Nanos = Nanos::from_secs(5);
/// Latency trials of RFC 2544 §26.2.
pub const LATENCY: (Nanos, u32) = (Nanos::from_secs(120), 20);
/// Bursts of RFC 9004 §5.5 and RFC 2544 §26.4.
pub const BURSTS: (Nanos, u32) = (Nanos::from_secs(2), 50);
/// The overload of RFC 2544 §26.5; how long it is watched and how often it is made is ours.
pub const RECOVERY: (Nanos, Nanos, u32) = (Nanos::from_secs(60), Nanos::from_secs(10), 10);
/// The longest step of RFC 2544 §26.3.
pub const LOSS_STEP: f64 = 0.1;

/// Each in a sentence.
pub(super) fn of(test: &Rfc2544) -> Vec<String> {
    let mut all = Vec::new();
    let mut note = |is: bool, text: String| {
        if is {
            all.push(text);
        }
    };
    let time = |time: Nanos| match time {
        Nanos::ZERO => "no time".to_owned(),
        time => human::long_time(time.get()),
    };
    let settle = test.scenario.run.settle;
    note(
        test.trial < TRIAL,
        format!("trials of {}; RFC 2544 has {} or more (§24)", time(test.trial), time(TRIAL)),
    );
    note(
        settle < SETTLE,
        format!(
            "{} for frames that are still under way; RFC 2544 has {} (§23)",
            time(settle),
            time(SETTLE)
        ),
    );
    note(
        test.pause < PAUSE,
        format!("{} between trials; RFC 2544 has {} (§23)", time(test.pause), time(PAUSE)),
    );
    note(
        !test.learn_each,
        "learning frames before each frame size; RFC 2544 has them before each trial (§23)"
            .to_owned(),
    );
    let fixed = |(_, size): &(String, Option<Size>)| match size {
        Some(Size::Fixed(length)) if length.of == Of::Frame => Some(length.bytes),
        _ => None,
    };
    let sizes: Vec<u16> = test.sizes.iter().filter_map(fixed).collect();
    note(
        !SIZES.iter().all(|size| sizes.contains(size)),
        format!(
            "not all of the frame sizes of RFC 2544 (§9.1): {} bytes",
            SIZES.map(|size| size.to_string()).join(", ")
        ),
    );
    for goal in &test.goals {
        note(
            goal.loss_ratio > 0.0 && test.search != super::MLR,
            format!(
                "a throughput with {} % loss; that of RFC 2544 has none (§26.1)",
                goal.loss_ratio * 100.0
            ),
        );
    }
    let (each, trials) = test.latency;
    note(
        test.measured.latency && (each < LATENCY.0 || trials < LATENCY.1),
        format!(
            "{trials} latency trials of {}; RFC 2544 has {} of {} (§26.2)",
            time(each),
            LATENCY.1,
            time(LATENCY.0)
        ),
    );
    note(
        test.measured.latency,
        "delays are from before the first bit of a frame is handed over until the whole frame was received: longer than the latency of RFC \
         1242 §3.8 by what the tester itself takes, which a cable in the place of the device shows (--baseline)"
            .to_owned(),
    );
    note(
        test.measured.loss_rate && test.loss_step > LOSS_STEP,
        format!(
            "steps of {} % of the load; RFC 2544 has 10 % or less (§26.3)",
            test.loss_step * 100.0
        ),
    );
    let (longest, repetitions) = test.bursts;
    note(
        test.measured.back_to_back && (longest < BURSTS.0 || repetitions < BURSTS.1),
        format!(
            "{repetitions} searches for bursts of {} at most; RFC 9004 has {} of {}",
            time(longest),
            BURSTS.1,
            time(BURSTS.0)
        ),
    );
    let (overload, _, _) = test.recovery;
    note(
        test.measured.recovery && overload < RECOVERY.0,
        format!("overloads of {}; RFC 2544 has {} (§26.5)", time(overload), time(RECOVERY.0)),
    );
    all
}
