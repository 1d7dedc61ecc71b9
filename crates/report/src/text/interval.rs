//! An interval of a run as a line of text, for those who watch it.

use wirebeat_units::human;
use wirebeat_units::printable::printable;

use crate::model::{
    Interval, IntervalSent, SessionConnections, SessionEnd, SessionInterval, StackInterval,
    StackState, Stats,
};

/// "  3.0 s  sent 1,000  received 990  0.51 Mbit/s  lost 10 (1.00 %)  p50 12.3 µs  p99 40.1 µs": when the interval ended, and
/// what happened in it. What is not known is left out.
pub fn row(interval: &Interval) -> String {
    let total = &interval.total;
    let passed = interval.to_ns.saturating_sub(interval.from_ns);
    // so that no two have the same
    let digits = if passed < 100_000_000 { 3 } else { 1 };
    let mut row = format!("{:5.digits$} s", interval.to_ns as f64 / 1e9);
    let (sent, received) = (total.sent, total.received.as_ref());
    let mut say = |text: String| {
        row.push_str("  ");
        row.push_str(&text);
    };
    sent.into_iter().for_each(|sent| say(format!("sent {}", human::count(sent.frames))));
    received.iter().for_each(|received| say(format!("received {}", human::count(received.frames))));
    // what is measured where it arrives counts; else what left
    let bytes = received.map(|received| received.frame_bytes);
    if let Some(bytes) = bytes.or(sent.map(|sent| sent.frame_bytes)) {
        say(megabits(bytes, passed));
    }
    if let (Some(lost), Some(received)) = (total.lost, received) {
        // of those whose fate was found in it
        let of = received.unique.max(received.frames).saturating_add_signed(lost.max(0));
        say(match u64::try_from(lost) {
            Ok(0) => "lost 0".to_owned(),
            Ok(lost) => format!("lost {} ({})", human::count(lost), human::share(lost, of)),
            Err(_) => format!("lost -{}", human::count(lost.unsigned_abs())),
        });
    }
    let delay = received.and_then(|received| received.one_way_delay_ns.as_ref());
    if let Some(percentiles) = delay.map(|delay| delay.percentiles) {
        let percentiles = [("p50", percentiles.p50), ("p99", percentiles.p99)];
        for (name, value) in percentiles.into_iter().filter_map(|(name, p)| Some((name, p?))) {
            say(format!("{name} {}", time(value)));
        }
    }
    if let Some(expired) = interval.expired.filter(|expired| *expired > 0) {
        say(format!("expired {}", human::count(expired)));
    }
    if !interval.sessions.is_empty() {
        row.push_str(&sessions(&interval.sessions, passed));
    }
    for stack in &interval.stacks {
        row.push_str(&of_stack(stack, passed));
    }
    row
}

/// A line below: what a port with our own TCP carried each way, and the states of its connections.
fn of_stack(stack: &StackInterval, passed_ns: u64) -> String {
    let way = |word: &str, of: IntervalSent| {
        let frames = per_second(of.frames, passed_ns);
        format!("  {word} {} ({frames} frames)", megabits(of.frame_bytes, passed_ns))
    };
    let mut line = format!("\n         port {}:", printable(&stack.port));
    line += &way("sent", stack.sent);
    line += &way("received", stack.received);
    for StackState { state, sessions } in &stack.states {
        line += &format!("  {state} {}", human::count(*sessions));
    }
    line
}

type Counter = fn(&SessionInterval) -> u64;

/// "  opened 1,000/s  open 57  responses 9,990/s  81.7 Mbit/s  failed 3": what all groups did. Sessions are counted at the end
/// that opens them where it is here, so that those of which both ends are here are not counted twice. Their bytes are those
/// that were delivered, and, where the other end is not here, those that the stack took: acknowledgments are known at the end only.
fn sessions(groups: &[SessionInterval], passed_ns: u64) -> String {
    let of = |end: SessionEnd| groups.iter().filter(move |group| group.end == end);
    let ends = [SessionEnd::Client, SessionEnd::Server].map(|end| of(end).count());
    let end = if ends[0] > 0 { SessionEnd::Client } else { SessionEnd::Server };
    let sum = |count: Counter| of(end).map(count).fold(0, u64::saturating_add);
    let delivered = groups.iter().map(|group| group.delivered_bytes).fold(0, u64::saturating_add);
    let both = ends.iter().all(|&groups| groups > 0);
    let sent = if both { 0 } else { sum(|group| group.sent_bytes) };
    let mut row = format!(
        "  opened {}  open {}",
        per_second(sum(|group| group.opened), passed_ns),
        human::count(sum(|group| group.open))
    );
    let handshakes = sum(|group| group.handshakes);
    if handshakes > 0 {
        row += &format!("  handshakes {}", per_second(handshakes, passed_ns));
    }
    let responses = sum(|group| group.responses);
    if responses > 0 || sum(|group| group.requests) > 0 {
        row += &format!("  responses {}", per_second(responses, passed_ns));
    }
    row += &response_times(of(end).filter_map(|group| group.response_ns.as_ref()));
    row += &format!("  {}", megabits(delivered.saturating_add(sent), passed_ns));
    let datagrams = groups.iter().filter_map(|group| group.datagrams).reduce(|mut all, one| {
        all.merge(&one);
        all
    });
    if let Some(of) = datagrams {
        let all = of.received.saturating_add(of.lost);
        // where none is received, nothing is known to be lost
        if all > 0 {
            let share = human::share(of.lost, all);
            row += &match of.lost {
                0 => "  lost 0".to_owned(),
                lost => format!("  lost {} ({share})", human::count(lost)),
            };
        }
    }
    let looks: Vec<SessionConnections> = of(end).filter_map(|group| group.connections).collect();
    row += &connections(&looks);
    let marks: [(&str, Counter); 6] = [
        ("ended by peer", |group| group.ended_by_peer),
        ("sent again", |group| group.retransmitted_segments),
        ("failed", |group| group.failed),
        ("expired", |group| group.expired),
        ("unexpected", |group| group.unexpected),
        ("damaged", |group| group.damaged),
    ];
    for (name, count) in marks {
        let count = sum(count);
        if count > 0 {
            row += &format!("  {name} {}", human::count(count));
        }
    }
    row
}

/// "  response 1.31 ms (p99 4.70 ms)": the mean of all groups, and the longest of their 99th percentiles. Where a percentile is not
/// known, because intervals were put together, it is the longest response.
fn response_times<'a>(groups: impl Iterator<Item = &'a Stats> + Clone) -> String {
    let (count, sum) = groups.clone().fold((0.0, 0.0), |(count, sum), of| {
        let n = of.count as f64;
        (count + n, sum + n * of.mean.unwrap_or(0.0))
    });
    if count == 0.0 {
        return String::new();
    }
    let p99s = groups.clone().map(|of| of.percentiles.p99).collect::<Option<Vec<_>>>();
    let (name, longest) = match p99s {
        Some(p99s) => ("p99", p99s.into_iter().max()),
        None => ("max", groups.filter_map(|of| of.max).max()),
    };
    let mean = human::time((sum / count).max(0.0));
    let longest = longest.map_or(String::new(), |ns| format!(" ({name} {})", time(ns)));
    format!("  response {mean}{longest}")
}

/// "  rtt 1.20 ms  cwnd 14.6 kB  delivery 94.1 Mbit/s": what open connections were like, each group as much as it has of them.
fn connections(groups: &[SessionConnections]) -> String {
    let mean = |value: fn(&SessionConnections) -> Option<u64>| {
        let known = groups.iter().filter_map(|of| Some((of.sampled as f64, value(of)? as f64)));
        let (weights, sum) = known.fold((0.0, 0.0), |(weights, sum), (weight, value)| {
            (weights + weight, sum + weight * value)
        });
        (weights > 0.0).then(|| sum / weights)
    };
    let mut said = String::new();
    if let Some(rtt) = mean(|of| of.round_trip_ns) {
        said += &format!("  rtt {}", human::time(rtt));
    }
    if let Some(cwnd) = mean(|of| of.cwnd_bytes) {
        said += &format!("  cwnd {}", human::bytes(cwnd));
    }
    let rates = groups.iter().filter_map(|of| of.delivery_bits_per_second);
    if let Some(rate) = rates.reduce(u64::saturating_add) {
        said += &format!("  delivery {}", human::bit_rate(rate as f64));
    }
    said
}

/// So many in so much time as a rate: "1,000/s", "0.500/s", "0/s".
pub fn per_second(count: u64, passed_ns: u64) -> String {
    match (count, passed_ns) {
        (0, _) | (_, 0) => "0/s".to_owned(),
        _ => format!("{}/s", human::number(count as f64 * 1e9 / passed_ns as f64)),
    }
}

/// Bits per second, always in millions, so that lines compare.
fn megabits(bytes: u64, passed_ns: u64) -> String {
    let rate = if passed_ns > 0 { bytes as f64 * 8e3 / passed_ns as f64 } else { 0.0 };
    let digits = match rate {
        rate if rate >= 100.0 || rate == 0.0 => 0,
        rate if rate >= 1.0 => 1,
        _ => 3,
    };
    format!("{rate:.digits$} Mbit/s")
}

/// A delay, which may be negative.
fn time(ns: i64) -> String {
    let text = human::time(ns.unsigned_abs() as f64);
    if ns < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FlowInterval, IntervalReceived, IntervalSent, Percentiles};

    fn interval(total: FlowInterval) -> Interval {
        Interval {
            from_ns: 2_000_000_000,
            to_ns: 3_000_000_000,
            total,
            flows: Vec::new(),
            sessions: Vec::new(),
            stacks: Vec::new(),
            expired: None,
            cpus: None,
        }
    }

    fn received(frames: u64, p: Option<(i64, i64)>) -> Option<IntervalReceived> {
        let percentiles =
            |(p50, p99)| Percentiles { p50: Some(p50), p99: Some(p99), ..Percentiles::default() };
        let delay = p.map(|p| Stats { percentiles: percentiles(p), ..Stats::default() });
        Some(IntervalReceived {
            frames,
            frame_bytes: frames * 64,
            unique: frames,
            one_way_delay_ns: delay,
            ..IntervalReceived::default()
        })
    }

    /// Intervals of 50 ms, and a last one that a signal cut short.
    #[test]
    fn no_two_rows_have_the_same_time() {
        let between =
            |from_ns, to_ns| row(&Interval { from_ns, to_ns, ..interval(FlowInterval::default()) });
        assert_eq!(between(150_000_000, 200_000_000), "0.200 s");
        assert_eq!(between(100_000_000, 200_000_000), "  0.2 s");
        assert_eq!(between(200_000_000, 245_400_000), "0.245 s");
    }

    #[test]
    fn a_line_below_says_what_our_own_tcp_did() {
        let state = |state: &str, sessions| StackState { state: state.to_owned(), sessions };
        let stacks = vec![StackInterval {
            port: "client".to_owned(),
            states: vec![state("SYN-SENT", 3), state("TIME-WAIT", 59_940)],
            sent: IntervalSent { frames: 31_020, frame_bytes: 5_150_000 },
            received: IntervalSent { frames: 29_884, frame_bytes: 7_750_000 },
        }];
        let told = row(&Interval { stacks, ..interval(FlowInterval::default()) });
        assert_eq!(
            told.lines().nth(1),
            Some(
                "         port client:  sent 41.2 Mbit/s (31,020/s frames)  received 62.0 Mbit/s (29,884/s frames)  SYN-SENT 3  TIME-WAIT 59,940"
            )
        );
    }

    #[test]
    fn a_row_says_what_happened_in_its_interval() {
        let sent = Some(IntervalSent { frames: 1000, frame_bytes: 64_000 });
        let both = FlowInterval {
            sent,
            received: received(990, Some((12_300, 40_100))),
            lost: Some(10),
            ..FlowInterval::default()
        };
        assert_eq!(
            row(&interval(both)),
            "  3.0 s  sent 1,000  received 990  0.507 Mbit/s  lost 10 (1.00 %)  p50 12.3 µs  p99 40.1 µs"
        );
        let late = Interval {
            expired: Some(7),
            ..interval(FlowInterval { sent, ..FlowInterval::default() })
        };
        assert_eq!(row(&late), "  3.0 s  sent 1,000  0.512 Mbit/s  expired 7");
        let found =
            FlowInterval { received: received(5, None), lost: Some(-2), ..FlowInterval::default() };
        assert_eq!(row(&interval(found)), "  3.0 s  received 5  0.003 Mbit/s  lost -2");
    }

    #[test]
    fn a_rate_of_nothing_is_nothing() {
        assert_eq!(per_second(1000, 1_000_000_000), "1,000/s");
        assert_eq!(per_second(1, 2_000_000_000), "0.500/s");
        assert_eq!((per_second(0, 5), per_second(5, 0)), ("0/s".to_owned(), "0/s".to_owned()));
    }

    #[test]
    fn sessions_of_which_both_ends_are_here_are_counted_once() {
        let client = SessionInterval {
            open: 57,
            opened: 1000,
            requests: 9995,
            responses: 9990,
            delivered_bytes: 10_000_000,
            sent_bytes: 250_000,
            ..SessionInterval::default()
        };
        let server = SessionInterval {
            end: SessionEnd::Server,
            open: 56,
            opened: 999,
            delivered_bytes: 250_000,
            sent_bytes: 10_000_000,
            ..SessionInterval::default()
        };
        let shown = |sessions: &[SessionInterval]| {
            row(&Interval { sessions: sessions.to_vec(), ..interval(FlowInterval::default()) })
        };
        let both = "  3.0 s  opened 1,000/s  open 57  responses 9,990/s  82.0 Mbit/s";
        assert_eq!(shown(&[client.clone(), server.clone()]), both);
        assert_eq!(shown(std::slice::from_ref(&client)), both);
        assert_eq!(shown(&[server]), "  3.0 s  opened 999/s  open 56  82.0 Mbit/s");
        let bad = SessionInterval { failed: 3, expired: 2, unexpected: 1, ..client.clone() };
        assert_eq!(shown(&[bad]), format!("{both}  failed 3  expired 2  unexpected 1"));
        let answered = |count, mean, p99: Option<i64>| SessionInterval {
            response_ns: Some(Stats {
                count,
                mean: Some(mean),
                max: Some(9_000_000),
                percentiles: Percentiles { p99, ..Percentiles::default() },
                ..Stats::default()
            }),
            ..client.clone()
        };
        let one = answered(300, 1e6, Some(4_700_000));
        let said = shown(&[one.clone(), answered(100, 2e6, Some(2_000_000))]);
        assert!(said.contains("responses 19,980/s  response 1.25 ms (p99 4.70 ms)  "), "{said}");
        let said = shown(&[one, answered(100, 2e6, None)]);
        assert!(said.contains("  response 1.25 ms (max 9.00 ms)  "), "{said}");
        let looked = |sampled, ms: u64, cwnd| SessionInterval {
            retransmitted_segments: 2,
            connections: Some(SessionConnections {
                sampled,
                round_trip_ns: Some(ms * 1_000_000),
                cwnd_bytes: Some(cwnd),
                delivery_bits_per_second: Some(47_000_000),
                ..SessionConnections::default()
            }),
            ..SessionInterval::default()
        };
        assert_eq!(
            shown(&[looked(30, 10, 10_000), looked(10, 30, 30_000)]),
            "  3.0 s  opened 0/s  open 0  0 Mbit/s  rtt 15.0 ms  cwnd 15.0 kB  delivery 94.0 Mbit/s  sent again 4"
        );
    }
}
