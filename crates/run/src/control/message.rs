//! What is said on the control socket: one request and one answer a line, each a JSON object.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wirebeat_traffic::compile::Part;
use wirebeat_traffic::scenario::change::Settings;
use wirebeat_traffic::scenario::session::in_sessions_per_second;
use wirebeat_traffic::scenario::{Change, Departures, FlowRate};
use wirebeat_units::printable::printable;
use wirebeat_units::{Fault, Nanos, Rate};

use super::Control;
use super::following::Following;

/// The longest line, in bytes, with its end.
pub const LINE_MAX: usize = 64 << 10;

/// The longest words on what a flow sends, in bytes; what is longer is cut.
const SENDS_MAX: usize = 160;
/// The longest words on what a flow is about to do, in bytes; what is longer is cut.
const NEXT_MAX: usize = 80;
/// The most bytes that a flow takes in an answer: a name of 64 characters, what it sends and is about to do with every byte
/// escaped, and the keys.
pub(super) const FLOW_MAX: usize = 64 * 4 + (SENDS_MAX + NEXT_MAX) * 2 + 64;

/// What can be asked of a run: `{"do": "change", "flow": "voice", "to": {"rate": "2kpps"}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Which flows there are.
    List {},
    /// A flow changes.
    Change {
        /// Its name.
        flow: String,
        /// What changes: `"pause"`, `"resume"` or new settings, as under `at` in a scenario.
        to: Change,
    },
    /// A flow ends.
    Stop {
        /// Its name.
        flow: String,
    },
    /// All flows end.
    StopAll {},
    /// What was counted: the answer is a stream of lines ([`wirebeat_report::stats`]), which another request ends.
    Stats {
        /// So many of the intervals that ended last come first.
        #[serde(default)]
        last: u32,
        /// Intervals that end from now on come too, until the run is over.
        #[serde(default)]
        follow: bool,
    },
}

/// What a run answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The flows.
    Flows(Vec<FlowState>),
    /// What was asked is going to be.
    Done(Vec<Effect>),
    /// It is not, for this reason.
    Error(String),
}

/// When a change takes effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The flow's name.
    pub flow: String,
    /// From the start of the run.
    pub at_ns: u64,
}

/// A flow as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowState {
    /// Its name.
    pub flow: String,
    /// What it does.
    pub state: State,
    /// What it sends, in words.
    pub sends: String,
    /// The change from outside that has not taken effect yet, in words, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its start is yet to come.
    Waiting,
    /// It sends.
    Sending,
    /// It pauses.
    Paused,
    /// Its time is over, or it was stopped.
    Ended,
}

/// What rates count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Frames,
    Sessions,
}

/// What a change comes to.
pub(super) enum What {
    /// The flow goes on with this.
    Sends(Box<Part>),
    /// It ends.
    Stops(u32, Nanos),
}

impl FlowState {
    pub(super) fn of(
        (flow, of): (&str, Of),
        part: Option<&Part>,
        now: Nanos,
        next: Option<(&str, Nanos)>,
    ) -> FlowState {
        let state = match part {
            None => State::Ended,
            Some(part) if part.phase.from > now => State::Waiting,
            Some(part) if part.phase.paused => State::Paused,
            Some(_) => State::Sending,
        };
        let sends = part.map_or(String::new(), |part| {
            let flow = &part.phase.flow;
            let now = Settings {
                rate: Some(flow.rate.clone()).filter(|_| flow.replay.is_none()),
                departures: Some(flow.departures.clone())
                    .filter(|distribution| *distribution != Departures::Constant),
                size: flow.size.clone(),
                packet: None,
                sub_flows: flow.replay.as_ref().and_then(|replay| replay.sub_flows),
            };
            settings(&now, of)
        });
        let next = next.map(|(change, at)| shortened(format!("from {at} on: {change}"), NEXT_MAX));
        FlowState { flow: flow.to_owned(), state, sends: shortened(sends, SENDS_MAX), next }
    }
}

/// At most `most` bytes of a text, with nothing in it that JSON needs more than a byte more for.
fn shortened(text: String, most: usize) -> String {
    const REST: &str = "…";
    let mut text = printable(&text).into_owned();
    if text.len() > most {
        let fits = |(at, c): &(usize, char)| at + c.len_utf8() + REST.len() <= most;
        let end =
            text.char_indices().take_while(fits).last().map_or(0, |(at, c)| at + c.len_utf8());
        text.truncate(end);
        text += REST;
    }
    text
}

/// A change in words.
pub(crate) fn words(change: &Change, of: Of) -> String {
    match change {
        Change::Pause => "paused".to_owned(),
        Change::Resume => "resumed".to_owned(),
        Change::To(to) => settings(to, of),
    }
}

fn settings(settings: &Settings, of: Of) -> String {
    let rate = settings.rate.as_ref().filter(|_| of == Of::Sessions);
    let rate = rate.and_then(session_rate);
    let Ok(Value::Object(mut settings)) = serde_json::to_value(settings) else {
        return String::new();
    };
    if let (Some(rate), Some(written)) = (rate, settings.get_mut("rate")) {
        *written = rate.into();
    }
    let word = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key} {text}"),
        Value::Array(headers) if key == "packet" => format!("packet of {} parts", headers.len()),
        other => format!("{key} {other}"),
    };
    settings.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// A rate of starts: "220/s", "24.2/s". `None` of one that changes with time or counts something else.
fn session_rate(rate: &FlowRate) -> Option<String> {
    let FlowRate::Fixed(Rate::Frames(starts)) = rate else { return None };
    Some(in_sessions_per_second(rate).unwrap_or_else(|| format!("{}/s", starts.per_second())))
}

/// A rate as it is written of frames or of sessions.
pub(super) fn rate_in_words(rate: Rate, of: Of) -> String {
    let starts = (of == Of::Sessions).then(|| session_rate(&rate.into())).flatten();
    starts.unwrap_or_else(|| rate.to_string())
}

/// How a request is answered.
#[derive(Debug)]
pub(super) enum Response {
    /// By a line.
    Line(Answer),
    /// By what was counted.
    Stats(Following),
}

/// The answer to a line.
pub(super) fn answer(control: &Control, line: &[u8]) -> Response {
    let request = match serde_json::from_slice::<ControlRequest>(line) {
        Ok(request) => request,
        Err(error) => {
            let why = Fault::unpacked(&error.to_string()).at("this is not a request");
            return Response::Line(Answer::Error(why.to_string()));
        }
    };
    let one = |flow: String, at: Nanos| Effect { flow, at_ns: at.get() };
    let outcome = match request {
        ControlRequest::Stats { last, follow } => {
            return Response::Stats(Following::new(control.stats(), last, follow));
        }
        ControlRequest::List {} => control.list().map(Answer::Flows),
        ControlRequest::Change { flow, to } => {
            control.change(&flow, &to).map(|at| Answer::Done(vec![one(flow, at)]))
        }
        ControlRequest::Stop { flow } => {
            control.stop(&flow).map(|at| Answer::Done(vec![one(flow, at)]))
        }
        ControlRequest::StopAll {} => control.stop_all().map(|stopped| {
            Answer::Done(stopped.into_iter().map(|(flow, at)| one(flow, at)).collect())
        }),
    };
    Response::Line(outcome.unwrap_or_else(|error| Answer::Error(error.to_string())))
}

/// One line of it, with its end.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    // The messages have no maps with other keys than text, so this cannot fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use wirebeat_units::FrameRate;

    use super::*;

    fn read(line: &str) -> Result<ControlRequest, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }

    #[test]
    fn requests_are_what_a_scenario_would_say() {
        let settings = r#"{"do":"change","flow":"x","to":{"rate":"2kpps","size":{"mix":{"64B":1,"1518B":2}},"departures":"exponential"}}"#;
        for text in [
            settings,
            r#"{"do":"list"}"#,
            r#"{"do":"change","flow":"x","to":"pause"}"#,
            r#"{"do":"stop","flow":"x"}"#,
            r#"{"do":"stop-all"}"#,
            r#"{"do":"stats"}"#,
            r#"{"do":"stats","last":3,"follow":true}"#,
        ] {
            let request = read(text).unwrap();
            assert_eq!(read(std::str::from_utf8(&line(&request)).unwrap()).unwrap(), request);
        }
        let Ok(ControlRequest::Change { to, .. }) = read(settings) else { panic!("no change") };
        assert_eq!(
            words(&to, Of::Frames),
            r#"departures exponential, rate 2kpps, size {"mix":{"1518B":2,"64B":1}}"#
        );
    }

    /// Those of keys are thousandths: '220pps' stood in reports of sessions.
    #[test]
    fn rates_of_sessions_are_starts_a_second() {
        let thousandths = |frames| Rate::Frames(FrameRate { frames, per: Nanos::from_secs(1000) });
        for (rate, of, expected) in [
            (thousandths(220_000), Of::Sessions, "220/s"),
            (thousandths(24_200), Of::Sessions, "24.2/s"),
            ("1kpps".parse().unwrap(), Of::Sessions, "1000/s"),
            (thousandths(220_000), Of::Frames, "220pps"),
            ("unlimited".parse().unwrap(), Of::Sessions, "unlimited"),
        ] {
            assert_eq!(rate_in_words(rate, of), expected);
        }
    }

    #[test]
    fn the_longest_state_of_a_flow_has_room_in_an_answer() {
        for sends in ["\"".repeat(5000), "ä\u{1b}".repeat(5000)] {
            let next = Some(shortened(sends.clone(), NEXT_MAX));
            let sends = shortened(sends, SENDS_MAX);
            assert!(sends.len() <= SENDS_MAX && sends.ends_with('…'), "{sends}");
            let flow = "\u{10ffff}".repeat(64);
            let state = FlowState { flow, state: State::Sending, sends, next };
            assert!(line(&state).len() <= FLOW_MAX);
        }
        assert_eq!(shortened("rate 1kpps".to_owned(), SENDS_MAX), "rate 1kpps");
    }

    #[test]
    fn what_is_no_request_is_told() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"do":"fly"}"#,
            r#"{"do":"change","flow":"x","to":"stop"}"#,
            r#"{"do":"change","flow":"x","to":{"rate":"2"}}"#,
            r#"{"do":"stop","flow":"x","when":1}"#,
            r#"{"do":"list"} {"do":"list"}"#,
            r#"{"do":"stats","last":-1}"#,
            r#"{"do":"stats","until":1}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = "[".repeat(LINE_MAX);
        assert!(read(&deep).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2000,
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = serde_json::from_slice::<ControlRequest>(&bytes);
        }

        #[test]
        fn any_change_of_a_request_is_a_request_or_an_error(
            at in 0..90_usize,
            with in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let mut bytes = br#"{"do":"change","flow":"x","to":{"rate":"2kpps","size":"64B","departures":{"exponential":{}}}}"#.to_vec();
            let end = (at + with.len()).min(bytes.len());
            bytes.splice(at.min(end)..end, with);
            if let Ok(request) = serde_json::from_slice::<ControlRequest>(&bytes) {
                let again: ControlRequest = serde_json::from_slice(&line(&request)).unwrap();
                prop_assert_eq!(again, request);
            }
        }
    }
}
