//! What is measured of a flow.

use wirebeat_report::model::{FlowReport, Interval, LossBasis, Rates, Received, Report, Sent};
use wirebeat_traffic::scenario::FlowExpectation;
use wirebeat_traffic::scenario::expect::Statistic;
use wirebeat_traffic::scenario::expect::flow::{
    FlowCounter, FlowMeasured, FlowRateOf, FlowShare, FlowTime,
};
use wirebeat_units::{Comparison, Layer, Nanos, Rate, human};

use super::intervals::{self, OneInterval};
use super::watched::UnderWay;
use super::{Asked, Found, Unit, statistic_of};
use wirebeat_report::model::{Expectation, FlowInterval};

/// Bytes on the line beside a frame: preamble, start delimiter and inter-packet gap (IEEE 802.3 §4.4.2).
const LINE_OVERHEAD: u64 = 20;

/// Why a receiver alone does not know that nothing more is missing.
const ENDS: &str = "frames that were lost before the first arrival and after the last are not known without the sender; let it tell \
    (send --peer), or expect 'received >= N'";

/// What came of an expectation of a flow; `name` is `None` for all flows together.
pub(super) fn judge(
    expectation: &FlowExpectation,
    name: Option<&str>,
    flow: &FlowReport,
    of: (&Report, Option<(&UnderWay, usize)>),
) -> Expectation {
    let judged = judge_known(expectation, name, flow, of);
    // of what was lost only a least number is known
    let of_loss = matches!(
        expectation.measured,
        FlowMeasured::Counter(FlowCounter::Lost, _) | FlowMeasured::Share(FlowShare::Loss, _)
    );
    let at_least = flow.loss.is_some_and(|loss| loss.basis == LossBasis::MissingNumbers);
    let from_below = matches!(expectation.comparison, Comparison::AtLeast | Comparison::Greater);
    match of_loss && at_least && !from_below && judged.met {
        true => Expectation { met: false, undecided: Some(ENDS.to_owned()), ..judged },
        false => judged,
    }
}

/// The same, by what is known.
fn judge_known(
    expectation: &FlowExpectation,
    name: Option<&str>,
    flow: &FlowReport,
    (report, watched): (&Report, Option<(&UnderWay, usize)>),
) -> Expectation {
    let asked = asked(expectation);
    match expectation.each_interval {
        false => asked.decide(of_run(expectation.measured, flow, report)),
        true => {
            // of very many flows intervals have the total alone
            let has_flows = report.intervals.iter().any(|interval| !interval.flows.is_empty());
            // where the report tells all intervals apart, they are what was corrected at the end
            let merged = watched.filter(|(_, told)| *told > report.intervals.len());
            let merged = merged.filter(|_| has_flows || name.is_none());
            if let Some((watched, _)) = merged.filter(|_| is_known(expectation.measured, flow)) {
                let whole = |one: &OneInterval| is_whole((one.from_ns, one.to_ns), flow);
                return intervals::decide_by(&asked, watched.tally(whole));
            }
            let intervals = report.intervals.iter().filter(|_| has_flows || name.is_none());
            let measured = intervals.filter_map(|interval| {
                let mine = of_interval_list(interval, name);
                if has_edges(expectation) && !is_whole((interval.from_ns, interval.to_ns), flow) {
                    return None;
                }
                let found = of_interval(expectation.measured, interval, &mine, flow)?;
                Some(OneInterval { from_ns: interval.from_ns, to_ns: interval.to_ns, found })
            });
            intervals::decide(&asked, measured)
        }
    }
}

/// Whether it is about intervals in which the flow was under way all the time: in a part of an interval there is a part of a rate.
pub(super) fn has_edges(expectation: &FlowExpectation) -> bool {
    matches!(expectation.measured, FlowMeasured::Rate(..))
}

/// What an interval comes to, as long as nobody knows whether the flow was under way all the time; `None` where it has nothing of it. That
/// there is nobody who knows is found at the end.
pub(super) fn in_interval(
    expectation: &FlowExpectation,
    interval: &Interval,
    mine: &FlowInterval,
) -> Option<Found> {
    let mut known = measured_by(mine);
    known.sent.get_or_insert_default();
    let received = known.received.get_or_insert_default();
    if received.one_way_delay_ns.is_none() && matches!(expectation.measured, FlowMeasured::Time(..))
    {
        return None;
    }
    of_interval(expectation.measured, interval, mine, &known)
}

/// What of a flow is measured, as far as an interval tells.
fn measured_by(mine: &FlowInterval) -> FlowReport {
    let received = mine.received.as_ref().map(|received| Received {
        one_way_delay_ns: received.one_way_delay_ns.clone(),
        ..Received::default()
    });
    FlowReport { sent: mine.sent.map(|_| Sent::default()), received, ..FlowReport::default() }
}

/// Whether there is somebody who measures it.
fn is_known(measured: FlowMeasured, flow: &FlowReport) -> bool {
    match measured {
        FlowMeasured::Counter(FlowCounter::Sent, _) | FlowMeasured::Rate(FlowRateOf::Sent, _) => {
            flow.sent.is_some()
        }
        FlowMeasured::Time(..) => {
            flow.received.as_ref().is_some_and(|received| received.one_way_delay_ns.is_some())
        }
        _ => flow.received.is_some(),
    }
}

/// Whether it can be broken before the end: not a rate, because the flow may not have been under way in all of an interval, and of the whole
/// run only how long that takes ([`longest`]).
pub(super) fn is_judged_at_once(expectation: &FlowExpectation) -> bool {
    match expectation.measured {
        FlowMeasured::Duration(_) => {
            matches!(expectation.comparison, Comparison::Less | Comparison::AtMost)
        }
        FlowMeasured::Rate(..) => false,
        _ => expectation.each_interval,
    }
}

/// How long the run may take, where this is an upper limit of that.
pub(super) fn longest(expectation: &FlowExpectation) -> Option<Nanos> {
    match expectation.measured {
        FlowMeasured::Duration(limit) if is_judged_at_once(expectation) => Some(limit),
        _ => None,
    }
}

/// What an interval that has just ended says of an expectation, where that is decided already.
pub(super) fn broken_by(
    expectation: &FlowExpectation,
    name: Option<&str>,
    interval: &Interval,
) -> Option<Expectation> {
    if !is_judged_at_once(expectation) {
        return None;
    }
    let mine = of_interval_list(interval, name);
    let found = of_interval(expectation.measured, interval, &mine, &measured_by(&mine))?;
    let judged = asked(expectation).decide(found);
    judged.margin.is_some().then_some(judged)
}

pub(super) fn asked(expectation: &FlowExpectation) -> Asked {
    let (limit, unit, print): (f64, Unit, fn(f64) -> String) = match expectation.measured {
        FlowMeasured::Counter(_, limit) => {
            (limit as f64, Unit::Count, |count| human::count(count as u64))
        }
        FlowMeasured::Share(_, share) => (share.ratio(), Unit::Ratio, human::percent),
        FlowMeasured::Rate(_, Rate::Frames(rate)) => {
            (rate.per_second(), Unit::PerSecond, human::fine_frame_rate)
        }
        FlowMeasured::Rate(_, Rate::Bits(rate, _)) => {
            (rate.0 as f64, Unit::BitsPerSecond, human::bit_rate)
        }
        // the language has no others
        FlowMeasured::Rate(..) => (0.0, Unit::PerSecond, human::number),
        FlowMeasured::Time(.., limit) | FlowMeasured::Duration(limit) => {
            (limit.get() as f64, Unit::Nanoseconds, human::time)
        }
    };
    let FlowExpectation { comparison, .. } = *expectation;
    Asked { text: expectation.to_string(), comparison, limit, unit, print }
}

/// How a statistic of a time is written.
fn named(time: FlowTime) -> impl Fn(Statistic) -> String {
    move |statistic| format!("{}.{statistic}", time.name())
}

const NO_SENDER: &str = "what was sent is not known";

/// Why nothing is known of what arrived.
fn no_receiver(flow: &FlowReport) -> String {
    flow.not_measured.clone().unwrap_or_else(|| "nobody received it".to_owned())
}

fn of_run(measured: FlowMeasured, flow: &FlowReport, report: &Report) -> Found {
    match measured {
        FlowMeasured::Duration(_) => Found::exactly(report.duration_ns as f64),
        FlowMeasured::Counter(counter, _) => self::counter(counter, flow),
        FlowMeasured::Share(share, _) => self::share(share, flow),
        FlowMeasured::Rate(of, limit) => {
            let (rates, known, why) = match of {
                FlowRateOf::Sent => {
                    let sent = flow.sent.as_ref();
                    (
                        sent.and_then(|sent| sent.rates.as_ref()),
                        sent.is_some(),
                        NO_SENDER.to_owned(),
                    )
                }
                FlowRateOf::Received => {
                    let received = flow.received.as_ref();
                    let rates = received.and_then(|received| received.rates.as_ref());
                    (rates, received.is_some(), no_receiver(flow))
                }
            };
            match rates {
                Some(rates) => Found::exactly(rate(rates, limit)),
                // fewer than two frames have no rate, and are no traffic
                None if known => Found::exactly(0.0),
                None => Found::Unknown(why),
            }
        }
        FlowMeasured::Time(
            time @ (FlowTime::Lateness | FlowTime::DepartureGap | FlowTime::DepartureGapError),
            statistic,
            _,
        ) => {
            let Some(sent) = &flow.sent else { return Found::Unknown(NO_SENDER.to_owned()) };
            let stats = match time {
                FlowTime::DepartureGap => &sent.inter_departure_ns,
                FlowTime::DepartureGapError => &sent.gap_error_ns,
                _ => &sent.send_lateness_ns,
            };
            statistic_of(stats, statistic, &named(time))
        }
        FlowMeasured::Time(time, statistic, _) => {
            let Some(received) = &flow.received else { return Found::Unknown(no_receiver(flow)) };
            let stats = match time {
                FlowTime::Delay => match &received.one_way_delay_ns {
                    Some(delay) => delay,
                    None => {
                        return Found::Unknown(
                            "the offset of the clocks of both ends is not known".to_owned(),
                        );
                    }
                },
                FlowTime::Jitter => &received.jitter_rfc4689_ns,
                FlowTime::DelayAboveMinimum => &received.delay_above_minimum_rfc5481_ns,
                FlowTime::Gap => &received.inter_arrival_ns,
                FlowTime::GapError => &received.gap_error_ns,
                FlowTime::Lateness | FlowTime::DepartureGap | FlowTime::DepartureGapError => {
                    return Found::Unknown(NO_SENDER.to_owned());
                }
            };
            statistic_of(stats, statistic, &named(time))
        }
    }
}

fn rate(rates: &Rates, limit: Rate) -> f64 {
    match limit {
        Rate::Bits(_, Layer::Line) => rates.line_bits_per_second,
        Rate::Bits(_, Layer::Frame) => rates.frame_bits_per_second,
        Rate::Bits(_, Layer::Payload) => rates.payload_bits_per_second,
        Rate::Frames(_) | Rate::Unlimited | Rate::LinkShare(_) => rates.frames_per_second,
    }
}

fn counter(counter: FlowCounter, flow: &FlowReport) -> Found {
    let sent = flow.sent.as_ref();
    let received = flow.received.as_ref();
    let count = match counter {
        FlowCounter::Requested => sent.map(|sent| sent.requested.frames),
        FlowCounter::Sent => sent.map(|sent| sent.sent.frames),
        FlowCounter::Expired => sent.map(|sent| sent.expired),
        FlowCounter::NotReached => sent.map(|sent| sent.not_reached),
        FlowCounter::Failed => sent.map(|sent| sent.failed),
        FlowCounter::Late => sent.map(|sent| sent.late),
        FlowCounter::Received => received.map(|received| received.received.frames),
        FlowCounter::Unique => received.map(|received| received.unique),
        FlowCounter::Duplicates => received.map(|received| received.duplicates),
        FlowCounter::Reordered => received.map(|received| received.reordered),
        FlowCounter::Lost => {
            return match &flow.loss {
                Some(loss) => Found::Number {
                    low: loss.frames as f64,
                    high: loss.at_most.unwrap_or(loss.frames).max(loss.frames) as f64,
                },
                None => Found::Unknown(no_receiver(flow)),
            };
        }
    };
    let of_sender = matches!(
        counter,
        FlowCounter::Requested
            | FlowCounter::Sent
            | FlowCounter::Expired
            | FlowCounter::NotReached
            | FlowCounter::Failed
            | FlowCounter::Late
    );
    let why = if of_sender { NO_SENDER.to_owned() } else { no_receiver(flow) };
    Found::or_unknown(count.map(|count| count as f64), why)
}

fn share(share: FlowShare, flow: &FlowReport) -> Found {
    let received = flow.received.as_ref();
    match share {
        FlowShare::Loss => {
            let Some(loss) = &flow.loss else { return Found::Unknown(no_receiver(flow)) };
            let Some(ratio) = loss.ratio else {
                return Found::Unknown("nothing was sent".to_owned());
            };
            // the same whole, with the most that may be lost
            let high = match loss.at_most {
                Some(at_most) if at_most > loss.frames && loss.frames > 0 => {
                    ratio * at_most as f64 / loss.frames as f64
                }
                Some(at_most) if at_most > loss.frames => {
                    let sent = flow.sent.as_ref().map_or(0, |sent| sent.sent.frames);
                    at_most as f64 / sent.max(1) as f64
                }
                _ => ratio,
            };
            Found::Number { low: ratio, high }
        }
        FlowShare::Reordering => match received {
            Some(received) => Found::or_unknown(received.reordered_ratio, "nothing arrived"),
            None => Found::Unknown(no_receiver(flow)),
        },
        FlowShare::Duplication => match received {
            Some(received) if received.unique > 0 => {
                Found::exactly(received.duplicates as f64 / received.unique as f64)
            }
            Some(_) => Found::Unknown("no sequence number arrived".to_owned()),
            None => Found::Unknown(no_receiver(flow)),
        },
        FlowShare::RateError => {
            let error = flow.sent.as_ref().and_then(|sent| sent.rate_error_ppm);
            Found::or_unknown(
                error.map(|ppm| ppm.abs() / 1e6),
                "no rate was asked for, or too little was sent to know it",
            )
        }
    }
}

/// What an interval says of a flow; nothing where nothing happened to it.
fn of_interval_list(interval: &Interval, name: Option<&str>) -> FlowInterval {
    match name {
        None => interval.total.clone(),
        Some(name) => {
            interval.flows.iter().find(|flow| flow.name == name).cloned().unwrap_or_default()
        }
    }
}

/// `None` where the interval has nothing of it.
fn of_interval(
    measured: FlowMeasured,
    interval: &Interval,
    mine: &FlowInterval,
    flow: &FlowReport,
) -> Option<Found> {
    let (sent, received) =
        (mine.sent.unwrap_or_default(), mine.received.clone().unwrap_or_default());
    let at_receiver = |found: Found| match flow.received {
        Some(_) => found,
        None => Found::Unknown(no_receiver(flow)),
    };
    let at_sender = |found: Found| match flow.sent {
        Some(_) => found,
        None => Found::Unknown(NO_SENDER.to_owned()),
    };
    let lost = mine.lost.unwrap_or(0).max(0) as f64;
    Some(match measured {
        FlowMeasured::Counter(counter, _) => {
            let count = |count: u64| Found::exactly(count as f64);
            match counter {
                FlowCounter::Sent => at_sender(count(sent.frames)),
                FlowCounter::Received => at_receiver(count(received.frames)),
                FlowCounter::Unique => at_receiver(count(received.unique)),
                FlowCounter::Duplicates => at_receiver(count(received.duplicates)),
                FlowCounter::Reordered => at_receiver(count(received.reordered)),
                FlowCounter::Lost => at_receiver(Found::exactly(lost)),
                // the language has no others in intervals
                _ => return None,
            }
        }
        FlowMeasured::Share(FlowShare::Reordering | FlowShare::Duplication, _)
            if received.unique == 0 =>
        {
            // without a receiver this is not known, and with one nothing arrived, which loss tells
            return flow.received.is_none().then(|| Found::Unknown(no_receiver(flow)));
        }
        FlowMeasured::Share(FlowShare::Reordering, _) => {
            at_receiver(Found::exactly(received.reordered as f64 / received.unique as f64))
        }
        FlowMeasured::Share(FlowShare::Duplication, _) => {
            at_receiver(Found::exactly(received.duplicates as f64 / received.unique as f64))
        }
        FlowMeasured::Share(..) => {
            // of those whose fate was found in it, as lines of intervals have it: lost ones are found when a later one arrives
            let of = received.unique.max(received.frames) as f64 + lost;
            if of == 0.0 {
                return None;
            }
            at_receiver(Found::exactly(lost / of))
        }
        FlowMeasured::Rate(of, limit) => {
            let (frames, bytes) = match of {
                FlowRateOf::Sent => (sent.frames, sent.frame_bytes),
                FlowRateOf::Received => (received.frames, received.frame_bytes),
            };
            let amount = match limit {
                Rate::Bits(_, Layer::Line) => 8 * (bytes + LINE_OVERHEAD * frames),
                Rate::Bits(..) => 8 * bytes,
                Rate::Frames(_) | Rate::Unlimited | Rate::LinkShare(_) => frames,
            };
            let seconds = interval.to_ns.saturating_sub(interval.from_ns).max(1) as f64 / 1e9;
            let found = Found::exactly(amount as f64 / seconds);
            if of == FlowRateOf::Sent { at_sender(found) } else { at_receiver(found) }
        }
        FlowMeasured::Time(time, statistic, _) => match &received.one_way_delay_ns {
            Some(delay) => statistic_of(delay, statistic, &named(time)),
            // nothing arrived, which loss tells
            None if flow.received.as_ref().is_some_and(|all| all.one_way_delay_ns.is_some()) => {
                return None;
            }
            None => Found::Unknown("the offset of the clocks of both ends is not known".to_owned()),
        },
        // the language has none in intervals
        FlowMeasured::Duration(_) => return None,
    })
}

/// Whether the flow was under way all the time of an interval, but for a hundredth of it.
fn is_whole((from_ns, to_ns): (u64, u64), flow: &FlowReport) -> bool {
    let slack = to_ns.saturating_sub(from_ns) / 100;
    let Some(sent) = &flow.sent else { return true };
    match (sent.first_departure_ns, sent.last_departure_ns) {
        (Some(first), Some(last)) => {
            from_ns.saturating_add(slack) >= first && to_ns <= last.saturating_add(slack)
        }
        _ => false,
    }
}
