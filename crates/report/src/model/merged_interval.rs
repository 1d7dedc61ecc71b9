//! Intervals that follow each other, put together as one.
//!
//! Counters add up. Percentiles do not, so the delay and the response time of several intervals have none; their count, mean, standard
//! deviation, minimum and maximum are those of all. What is a state, such as open sessions, is that of the last interval.

use std::collections::BTreeMap;

use super::{
    FlowInterval, GaugeReport, Interval, IntervalReceived, IntervalSent, Percentiles,
    SessionInterval, StackInterval, Stats, round,
};

impl Interval {
    /// An interval at the start of a run, in which nothing happened.
    pub fn empty() -> Interval {
        Interval {
            from_ns: 0,
            to_ns: 0,
            total: FlowInterval::default(),
            flows: Vec::new(),
            sessions: Vec::new(),
            stacks: Vec::new(),
            expired: None,
            cpus: None,
        }
    }

    /// Takes in the interval that follows.
    pub fn merge(&mut self, next: &Interval) {
        self.from_ns = self.from_ns.min(next.from_ns);
        self.to_ns = self.to_ns.max(next.to_ns);
        self.total.merge(&next.total);
        let flow = |flow: &FlowInterval| flow.name.clone();
        merge_by(&mut self.flows, &next.flows, flow, FlowInterval::merge);
        let group = |group: &SessionInterval| (group.name.clone(), group.end);
        merge_by(&mut self.sessions, &next.sessions, group, SessionInterval::merge);
        let port = |stack: &StackInterval| stack.port.clone();
        merge_by(&mut self.stacks, &next.stacks, port, StackInterval::merge);
        self.expired = sum(self.expired, next.expired);
        self.cpus = either(self.cpus, next.cpus, |one, other| GaugeReport {
            last: other.last,
            least: one.least.min(other.least),
            most: one.most.max(other.most),
        });
    }
}

impl FlowInterval {
    fn merge(&mut self, next: &FlowInterval) {
        if self.name.is_empty() {
            self.name.clone_from(&next.name);
        }
        self.sent = either(self.sent, next.sent, |one, other| IntervalSent {
            frames: one.frames.saturating_add(other.frames),
            frame_bytes: one.frame_bytes.saturating_add(other.frame_bytes),
        });
        match (&mut self.received, &next.received) {
            (Some(received), Some(next)) => received.merge(next),
            (None, Some(next)) => self.received = Some(next.clone()),
            (_, None) => {}
        }
        self.lost = either(self.lost, next.lost, i64::saturating_add);
        // what stands out is told of intervals that a report has merged
        self.extremes = None;
    }
}

impl StackInterval {
    fn merge(&mut self, next: &StackInterval) {
        if self.port.is_empty() {
            self.port.clone_from(&next.port);
        }
        self.states.clone_from(&next.states);
        for (all, more) in [(&mut self.sent, next.sent), (&mut self.received, next.received)] {
            add(&mut all.frames, more.frames);
            add(&mut all.frame_bytes, more.frame_bytes);
        }
    }
}

impl IntervalReceived {
    fn merge(&mut self, next: &IntervalReceived) {
        let IntervalReceived {
            frames,
            frame_bytes,
            unique,
            duplicates,
            reordered,
            one_way_delay_ns: delay,
        } = next;
        add(&mut self.frames, *frames);
        add(&mut self.frame_bytes, *frame_bytes);
        add(&mut self.unique, *unique);
        add(&mut self.duplicates, *duplicates);
        add(&mut self.reordered, *reordered);
        match (&mut self.one_way_delay_ns, delay) {
            (Some(delay), Some(next)) => *delay = together(delay, next),
            (None, Some(next)) => self.one_way_delay_ns = Some(next.clone()),
            (_, None) => {}
        }
    }
}

impl SessionInterval {
    fn merge(&mut self, next: &SessionInterval) {
        // each field by its name, so that none is forgotten
        let SessionInterval {
            name: _,
            end: _,
            open,
            due,
            expired,
            opened,
            established,
            in_order,
            failed,
            failed_here,
            unfinished,
            handshakes,
            handshakes_failed,
            requests,
            responses,
            unexpected,
            damaged,
            lost,
            late,
            malformed,
            sent_messages,
            received_messages,
            misbehaved,
            answered,
            ended_by_peer,
            sent_bytes,
            acked_bytes,
            delivered_bytes,
            retransmitted_segments,
            connections,
            datagrams,
            response_ns: response,
        } = next;
        self.open = *open;
        self.connections = *connections;
        self.due = sum(self.due, *due);
        match (&mut self.datagrams, datagrams) {
            (Some(datagrams), Some(next)) => datagrams.merge(next),
            (datagrams @ None, next) => *datagrams = *next,
            (_, None) => {}
        }
        match (&mut self.response_ns, response) {
            (Some(response), Some(next)) => *response = together(response, next),
            (None, Some(next)) => self.response_ns = Some(next.clone()),
            (_, None) => {}
        }
        let counters = [
            (&mut self.expired, expired),
            (&mut self.opened, opened),
            (&mut self.established, established),
            (&mut self.in_order, in_order),
            (&mut self.failed, failed),
            (&mut self.failed_here, failed_here),
            (&mut self.unfinished, unfinished),
            (&mut self.handshakes, handshakes),
            (&mut self.handshakes_failed, handshakes_failed),
            (&mut self.requests, requests),
            (&mut self.responses, responses),
            (&mut self.unexpected, unexpected),
            (&mut self.damaged, damaged),
            (&mut self.lost, lost),
            (&mut self.late, late),
            (&mut self.malformed, malformed),
            (&mut self.sent_messages, sent_messages),
            (&mut self.received_messages, received_messages),
            (&mut self.misbehaved, misbehaved),
            (&mut self.answered, answered),
            (&mut self.ended_by_peer, ended_by_peer),
            (&mut self.sent_bytes, sent_bytes),
            (&mut self.acked_bytes, acked_bytes),
            (&mut self.delivered_bytes, delivered_bytes),
            (&mut self.retransmitted_segments, retransmitted_segments),
        ];
        counters.into_iter().for_each(|(count, more)| add(count, *more));
    }
}

/// Takes each element of `next` into the one of `all` that has the same key, or puts it behind them.
fn merge_by<T: Clone, K: Ord>(
    all: &mut Vec<T>,
    next: &[T],
    key: impl Fn(&T) -> K,
    merge: impl Fn(&mut T, &T),
) {
    let places: BTreeMap<K, usize> =
        all.iter().enumerate().map(|(place, one)| (key(one), place)).collect();
    for one in next {
        match places.get(&key(one)).and_then(|&place| all.get_mut(place)) {
            Some(known) => merge(known, one),
            None => all.push(one.clone()),
        }
    }
}

/// The distribution of the values of both. Percentiles remain only where one of them has no values.
fn together(one: &Stats, other: &Stats) -> Stats {
    if one.count == 0 || other.count == 0 {
        return if other.count == 0 { one.clone() } else { other.clone() };
    }
    let (a, b) = (one.count as f64, other.count as f64);
    let mean = one.mean.zip(other.mean).map(|(x, y)| round((x * a + y * b) / (a + b)));
    let standard_deviation = one.mean.zip(other.mean).map(|(x, y)| {
        // Chan, Golub and LeVeque 1979: squares of the differences to the common mean
        let squares = |of: &Stats, n: f64| of.standard_deviation.map_or(0.0, |s| s * s * (n - 1.0));
        let all = squares(one, a) + squares(other, b) + (x - y) * (x - y) * a * b / (a + b);
        round((all / (a + b - 1.0)).sqrt())
    });
    Stats {
        count: one.count.saturating_add(other.count),
        // a value that is too uncertain to be given may be the smallest, or the largest
        min: one.min.zip(other.min).map(|(x, y)| x.min(y)),
        max: one.max.zip(other.max).map(|(x, y)| x.max(y)),
        mean,
        standard_deviation,
        percentiles: Percentiles::default(),
        below_histogram: one.below_histogram.saturating_add(other.below_histogram),
        uncertain_below: one.uncertain_below.max(other.uncertain_below),
        histogram: Vec::new(),
    }
}

fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    either(one, other, u64::saturating_add)
}

/// What is known of both, or of one of them.
fn either<T>(one: Option<T>, other: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SessionConnections, SessionEnd};

    fn stats(values: &[f64]) -> Stats {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let edge =
            |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of).map(|value| value as i64);
        Stats {
            count: values.len() as u64,
            min: edge(f64::min),
            max: edge(f64::max),
            mean: Some(mean),
            standard_deviation: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
            percentiles: Percentiles { p50: Some(mean as i64), ..Percentiles::default() },
            ..Stats::default()
        }
    }

    fn flow(name: &str, frames: u64, delays: &[f64], lost: i64) -> FlowInterval {
        FlowInterval {
            name: name.to_owned(),
            sent: Some(IntervalSent { frames, frame_bytes: frames * 64 }),
            received: Some(IntervalReceived {
                frames,
                unique: frames,
                one_way_delay_ns: Some(stats(delays)),
                ..IntervalReceived::default()
            }),
            lost: Some(lost),
            extremes: None,
        }
    }

    #[test]
    fn the_delay_of_two_intervals_is_that_of_all_their_values() {
        let (one, other) = (&[10.0, 30.0, 50.0][..], &[100.0][..]);
        let merged = together(&stats(one), &stats(other));
        let all = stats(&[one, other].concat());
        assert_eq!((merged.count, merged.min, merged.max), (all.count, all.min, all.max));
        let near = |x: Option<f64>, y: Option<f64>| (x.unwrap() - y.unwrap()).abs() < 1e-3;
        assert!(near(merged.mean, all.mean), "{merged:?}");
        assert!(near(merged.standard_deviation, all.standard_deviation), "{merged:?}");
        assert_eq!(merged.percentiles, Percentiles::default());
        // one without values changes nothing
        assert_eq!(together(&Stats::default(), &stats(one)), stats(one));
        assert_eq!(together(&stats(one), &Stats::default()), stats(one));
    }

    #[test]
    fn counters_add_up_and_states_are_the_last() {
        let group = |open, opened, due| SessionInterval {
            name: "pages".to_owned(),
            open,
            opened,
            due,
            connections: Some(SessionConnections { sampled: open, ..Default::default() }),
            response_ns: Some(stats(&[open as f64, opened as f64])),
            ..SessionInterval::default()
        };
        let mut all = Interval::empty();
        all.merge(&Interval {
            to_ns: 10,
            total: flow("total", 7, &[1.0], 2),
            flows: vec![flow("a", 4, &[1.0], 2), flow("b", 3, &[1.0], 0)],
            sessions: vec![group(5, 7, Some(7))],
            stacks: Vec::new(),
            expired: Some(1),
            cpus: Some(GaugeReport { last: 1.0, least: 0.5, most: 1.5 }),
            ..Interval::empty()
        });
        all.merge(&Interval {
            from_ns: 10,
            to_ns: 20,
            total: flow("total", 5, &[3.0], -1),
            flows: vec![flow("c", 1, &[3.0], 0), flow("a", 4, &[3.0], -1)],
            sessions: vec![
                group(2, 1, Some(2)),
                SessionInterval { end: SessionEnd::Server, ..group(1, 1, None) },
            ],
            stacks: Vec::new(),
            expired: None,
            cpus: Some(GaugeReport { last: 0.7, least: 0.7, most: 0.7 }),
        });
        assert_eq!((all.from_ns, all.to_ns, all.expired), (0, 20, Some(1)));
        assert_eq!(all.cpus, Some(GaugeReport { last: 0.7, least: 0.5, most: 1.5 }));
        assert_eq!((all.total.name.as_str(), all.total.lost), ("total", Some(1)));
        assert_eq!(all.total.sent.map(|sent| (sent.frames, sent.frame_bytes)), Some((12, 768)));
        let frames = |flow: &FlowInterval| (flow.name.clone(), flow.sent.unwrap().frames);
        let named = |name: &str, frames| (name.to_owned(), frames);
        let flows: Vec<_> = all.flows.iter().map(frames).collect();
        assert_eq!(flows, [named("a", 8), named("b", 3), named("c", 1)]);
        let sessions: Vec<_> =
            all.sessions.iter().map(|of| (of.end, of.open, of.opened, of.due)).collect();
        assert_eq!(
            sessions,
            [(SessionEnd::Client, 2, 8, Some(9)), (SessionEnd::Server, 1, 1, None)]
        );
        assert_eq!(all.sessions[0].connections.unwrap().sampled, 2);
        let response = all.sessions[0].response_ns.as_ref().unwrap();
        assert_eq!((response.count, response.min, response.max), (4, Some(1), Some(7)));
        assert_eq!((response.mean, response.percentiles.p99), (Some(3.75), None));
    }
}
