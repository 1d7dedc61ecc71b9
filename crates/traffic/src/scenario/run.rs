//! How long a scenario runs, and how exactly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Nanos, WallTime};

use super::is_default;
use super::on_link_down::OnLinkDown;
use super::schema::{MomentText, OnLinkDownText, TimeText};

/// How long to run, and how exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RunSpec {
    /// Nothing is sent at or after this time. Default: 10s for flows that have neither `stop` nor
    /// `count`, no limit for the others.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub time: Option<Nanos>,
    /// When it starts, by the clock of the day. Default: at once.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MomentText>")]
    pub start_at: Option<WallTime>,
    /// How a deadline is awaited.
    #[serde(skip_serializing_if = "is_default")]
    pub wait: WaitChoice,
    /// How the threads that send and receive compete with everything else for a CPU.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: PriorityChoice,
    /// What happens to a frame that cannot leave in time.
    #[serde(skip_serializing_if = "is_default")]
    pub late: LateChoice,
    /// With `late: drop`, how late a frame may leave.
    #[serde(skip_serializing_if = "is_default_drift")]
    #[schemars(with = "TimeText")]
    pub drift: Nanos,
    /// How long to go on receiving after the last frame was sent.
    #[serde(skip_serializing_if = "is_default_settle")]
    #[schemars(with = "TimeText")]
    pub settle: Nanos,
    /// How long the intervals are that the report tells apart.
    #[serde(skip_serializing_if = "is_default_interval")]
    #[schemars(with = "TimeText")]
    pub interval: Nanos,
    /// Whether flows of one port begin parts of their gaps apart.
    #[serde(skip_serializing_if = "is_default")]
    pub stagger: StaggerChoice,
    /// How long to wait for the link of each port before anything is sent.
    #[serde(skip_serializing_if = "is_default_link_timeout")]
    #[schemars(with = "TimeText")]
    pub link_timeout: Nanos,
    /// What the run does when a link goes down.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "OnLinkDownText")]
    pub on_link_down: OnLinkDown,
    /// Who stamps what is received, and when frames left.
    #[serde(skip_serializing_if = "is_default")]
    pub timestamps: TimestampsChoice,
}

impl RunSpec {
    /// How long a flow without any limit sends.
    pub const DEFAULT_TIME: Nanos = Nanos::from_secs(10);
    /// How late a frame may leave: the length of a scheduling hiccup that a busy-waiting sender on a
    /// quiet machine does not see.
    pub const DEFAULT_DRIFT: Nanos = Nanos::from_micros(100);
    /// Longer than any queue of a link or a host that is not congested.
    pub const DEFAULT_SETTLE: Nanos = Nanos::from_millis(200);
    /// Short enough to see what happens, and long enough to be read while it does.
    pub const DEFAULT_INTERVAL: Nanos = Nanos::from_secs(1);
    /// Threads that count look every few milliseconds.
    pub const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(10);
    /// Longer than a card takes that resets and negotiates its speed again: two to four seconds.
    pub const DEFAULT_LINK_TIMEOUT: Nanos = Nanos::from_secs(10);
}

impl Default for RunSpec {
    fn default() -> Self {
        RunSpec {
            time: None,
            start_at: None,
            wait: WaitChoice::default(),
            priority: PriorityChoice::default(),
            late: LateChoice::default(),
            drift: Self::DEFAULT_DRIFT,
            settle: Self::DEFAULT_SETTLE,
            interval: Self::DEFAULT_INTERVAL,
            stagger: StaggerChoice::default(),
            link_timeout: Self::DEFAULT_LINK_TIMEOUT,
            on_link_down: OnLinkDown::default(),
            timestamps: TimestampsChoice::default(),
        }
    }
}

fn is_default_drift(drift: &Nanos) -> bool {
    *drift == RunSpec::DEFAULT_DRIFT
}

fn is_default_settle(settle: &Nanos) -> bool {
    *settle == RunSpec::DEFAULT_SETTLE
}

fn is_default_interval(interval: &Nanos) -> bool {
    *interval == RunSpec::DEFAULT_INTERVAL
}

fn is_default_link_timeout(timeout: &Nanos) -> bool {
    *timeout == RunSpec::DEFAULT_LINK_TIMEOUT
}

/// What a file says of it: nothing of what it leaves to others, or to the default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct RunPart {
    time: Option<Nanos>,
    start_at: Option<WallTime>,
    wait: Option<WaitChoice>,
    priority: Option<PriorityChoice>,
    late: Option<LateChoice>,
    drift: Option<Nanos>,
    settle: Option<Nanos>,
    interval: Option<Nanos>,
    stagger: Option<StaggerChoice>,
    link_timeout: Option<Nanos>,
    on_link_down: Option<OnLinkDown>,
    timestamps: Option<TimestampsChoice>,
}

impl RunPart {
    /// What is written here holds; the rest stays as it is.
    pub(super) fn apply(self, run: &mut RunSpec) {
        // all of it by name, so that a key that is added is not forgotten here
        let RunPart {
            time,
            start_at,
            wait,
            priority,
            late,
            drift,
            settle,
            interval,
            stagger,
            link_timeout,
            on_link_down,
            timestamps,
        } = self;
        *run = RunSpec {
            time: time.or(run.time),
            start_at: start_at.or(run.start_at),
            wait: wait.unwrap_or(run.wait),
            priority: priority.unwrap_or(run.priority),
            late: late.unwrap_or(run.late),
            drift: drift.unwrap_or(run.drift),
            settle: settle.unwrap_or(run.settle),
            interval: interval.unwrap_or(run.interval),
            stagger: stagger.unwrap_or(run.stagger),
            link_timeout: link_timeout.unwrap_or(run.link_timeout),
            on_link_down: on_link_down.unwrap_or(run.on_link_down),
            timestamps: timestamps.unwrap_or(run.timestamps),
        };
    }
}

/// How a deadline is awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitChoice {
    /// Read the clock until it is time: most exact, one core busy.
    Spin,
    /// Sleep until shortly before the deadline, then spin.
    #[default]
    Hybrid,
    /// Sleep: cheapest.
    Sleep,
}

/// How the threads that send and receive compete with everything else for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PriorityChoice {
    /// As the program was started.
    Normal,
    /// The heaviest weight (nice -20) and a short slice, where that is permitted.
    #[default]
    High,
    /// Before everything without a real-time policy (SCHED_FIFO), up to 90 % of the time; not with `wait: spin`.
    Realtime,
}

/// What happens to a frame that cannot leave in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LateChoice {
    /// It is sent late, and its lateness recorded.
    #[default]
    Send,
    /// It is not sent once it is later than `drift`, and counted as expired.
    Drop,
}

/// When flows of one port with a rate begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StaggerChoice {
    /// Each a part of its own gap after its `start`, so that flows of one rate do not fire together.
    #[default]
    On,
    /// Each exactly at its `start`.
    Off,
}

/// Who stamps what is received, and when frames left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimestampsChoice {
    /// The system, when a frame enters its stack or is handed over.
    #[default]
    Software,
    /// The card, by a clock of its own, where it can; with the engines 'packet' and 'socket'. It is told to stamp while the
    /// run lasts.
    Hardware,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_key_of_run_that_is_printed_is_read_again() {
        let mut scenario =
            Scenario::from_yaml("ports: { a: {}, b: {} }\nflows: { x: { from: a, to: b } }\n", "")
                .unwrap();
        // none is the default, and none is left out
        scenario.run = RunSpec {
            time: Some(Nanos::from_secs(3)),
            start_at: Some("2030-01-02T03:04:05Z".parse().unwrap()),
            wait: WaitChoice::Spin,
            priority: PriorityChoice::Normal,
            late: LateChoice::Drop,
            drift: Nanos::from_micros(7),
            settle: Nanos::from_millis(9),
            interval: Nanos::from_millis(100),
            stagger: StaggerChoice::Off,
            link_timeout: Nanos::from_secs(3),
            on_link_down: OnLinkDown::End,
            timestamps: TimestampsChoice::Hardware,
        };
        let printed = scenario.to_yaml().unwrap();
        assert_eq!(Scenario::from_yaml(&printed, ""), Ok(scenario), "{printed}");
        let schema = schemars::schema_for!(RunSpec).to_value();
        let keys = schema["properties"].as_object().unwrap();
        assert!(keys.len() >= 6, "{keys:?}");
        for key in keys.keys() {
            assert!(
                printed.contains(&format!("{key}:")),
                "{key} of the schema is not in {printed}"
            );
        }
    }
}
