//! What tables have of a flow and of a group of sessions, once for all formats: CSV has every column, pages and Markdown those
//! that are brief.

use crate::human;
use crate::model::{FlowReport, PlannedActual, SessionReport, Stats};

/// A number of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Whole(u64),
    /// A value of a distribution.
    Signed(i64),
    /// A mean, a rate, a ratio.
    Real(f64),
    /// Smaller than this: the clocks are not exact enough to say more.
    Below(u64),
}

impl Number {
    /// The number, to compare and to sort by.
    pub fn real(self) -> f64 {
        match self {
            Number::Whole(value) | Number::Below(value) => value as f64,
            Number::Signed(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    /// In full, for programs; nothing where it is not known.
    pub fn exact(self) -> String {
        match self {
            Number::Whole(value) => value.to_string(),
            Number::Signed(value) => value.to_string(),
            Number::Real(value) if value.is_finite() => value.to_string(),
            Number::Real(_) | Number::Below(_) => String::new(),
        }
    }
}

/// How a number is shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// 1,234.
    Count,
    /// Nanoseconds as 1.23 µs.
    Time,
    /// 12.5 kpps.
    FrameRate,
    /// 21.4 Mbit/s.
    BitRate,
    /// 12.5/s.
    PerSecond,
    /// A ratio as 0.012 %.
    Share,
    /// 2.88 GB.
    Bytes,
    /// Millionths as +0.21 ppm.
    Deviation,
}

impl Shown {
    /// A number in words.
    pub fn show(self, number: Number) -> String {
        if let Number::Below(bound) = number {
            return format!("<{}", human::short_time(bound as f64));
        }
        let value = number.real();
        match (self, number) {
            (Shown::Count, Number::Whole(count)) => human::count(count),
            (Shown::Count, _) => human::number(value),
            (Shown::Time, _) => human::time(value),
            (Shown::FrameRate, _) => human::frame_rate(value),
            (Shown::BitRate, _) => human::bit_rate(value),
            (Shown::PerSecond, _) => format!("{}/s", human::number(value)),
            (Shown::Share, _) => human::percent(value),
            (Shown::Bytes, _) => human::bytes(value),
            (Shown::Deviation, _) => human::deviation(value),
        }
    }
}

/// Who has a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    /// Every table.
    Brief,
    /// Tables for programs.
    Full,
}

/// A column.
pub struct Column<T> {
    /// What programs call it; ends in its unit.
    pub key: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// How it is shown.
    pub shown: Shown,
    /// Who has it.
    pub place: In,
    /// Its value; `None` where there is none.
    pub value: fn(&T) -> Option<Number>,
}

impl<T> Column<T> {
    /// Its value in words; nothing where there is none.
    pub fn show(&self, of: &T) -> String {
        (self.value)(of).map_or_else(String::new, |number| self.shown.show(number))
    }
}

/// The brief columns in which some row has a value.
pub fn brief<'a, T>(columns: &'a [Column<T>], rows: &[&T]) -> Vec<&'a Column<T>> {
    let some = |column: &&Column<T>| rows.iter().any(|row| (column.value)(row).is_some());
    columns.iter().filter(|column| column.place == In::Brief).filter(some).collect()
}

/// A value of a distribution, or the bound below which it is not known.
fn of(stats: &Stats, value: fn(&Stats) -> Option<i64>) -> Option<Number> {
    let unknown = || stats.uncertain_below.filter(|_| stats.count > 0).map(Number::Below);
    value(stats).map(Number::Signed).or_else(unknown)
}

/// Finds a distribution of planned times.
fn planned(times: Option<&PlannedActual>, value: fn(&Stats) -> Option<i64>) -> Option<Number> {
    of(&times?.planned_ns, value)
}

const P50: fn(&Stats) -> Option<i64> = |stats| stats.percentiles.p50;
const P90: fn(&Stats) -> Option<i64> = |stats| stats.percentiles.p90;
const P99: fn(&Stats) -> Option<i64> = |stats| stats.percentiles.p99;
const P99_9: fn(&Stats) -> Option<i64> = |stats| stats.percentiles.p99_9;
const P99_99: fn(&Stats) -> Option<i64> = |stats| stats.percentiles.p99_99;
const MIN: fn(&Stats) -> Option<i64> = |stats| stats.min;
const MAX: fn(&Stats) -> Option<i64> = |stats| stats.max;

/// A table of columns: key, title, how it is shown, who has it, and its value.
macro_rules! columns {
    ($(#[$doc:meta])* $name:ident of $of:ty, $row:ident: $($key:literal, $title:literal, $shown:ident, $place:ident, $value:expr;)+) => {
        $(#[$doc])*
        pub const $name: &[Column<$of>] = &[$(Column {
            key: $key,
            title: $title,
            shown: Shown::$shown,
            place: In::$place,
            value: |$row: &$of| $value,
        }),+];
    };
}

columns! {
    /// Of a flow.
    FLOW of FlowReport, flow:
    "requested_frames", "requested", Count, Full, Some(Number::Whole(flow.sent.as_ref()?.requested.frames));
    "sent_frames", "sent", Count, Brief, Some(Number::Whole(flow.sent.as_ref()?.sent.frames));
    "sent_frame_bytes", "sent bytes", Bytes, Full, Some(Number::Whole(flow.sent.as_ref()?.sent.frame_bytes));
    "expired_frames", "expired", Count, Full, Some(Number::Whole(flow.sent.as_ref()?.expired));
    "not_reached_frames", "not reached", Count, Full, Some(Number::Whole(flow.sent.as_ref()?.not_reached));
    "failed_frames", "failed", Count, Full, Some(Number::Whole(flow.sent.as_ref()?.failed));
    "late_frames", "late", Count, Full, Some(Number::Whole(flow.sent.as_ref()?.late));
    "received_frames", "received", Count, Brief, Some(Number::Whole(flow.received.as_ref()?.received.frames));
    "received_frame_bytes", "received bytes", Bytes, Full, Some(Number::Whole(flow.received.as_ref()?.received.frame_bytes));
    "unique_frames", "unique", Count, Full, Some(Number::Whole(flow.received.as_ref()?.unique));
    "lost_frames", "lost", Count, Brief, Some(Number::Whole(flow.loss?.frames));
    "loss_ratio", "loss", Share, Brief, flow.loss?.ratio.map(Number::Real);
    "duplicate_frames", "duplicates", Count, Brief, Some(Number::Whole(flow.received.as_ref()?.duplicates));
    "reordered_frames", "reordered", Count, Brief, Some(Number::Whole(flow.received.as_ref()?.reordered));
    "offered_frames_per_second", "offered rate", FrameRate, Full, Some(Number::Real(flow.sent.as_ref()?.offered?.frames_per_second));
    "sent_frames_per_second", "sent rate", FrameRate, Brief, Some(Number::Real(flow.sent.as_ref()?.rates?.frames_per_second));
    "rate_error_ppm", "rate error", Deviation, Full, flow.sent.as_ref()?.rate_error_ppm.map(Number::Real);
    "received_frames_per_second", "received rate", FrameRate, Brief, Some(Number::Real(flow.received.as_ref()?.rates?.frames_per_second));
    "received_frame_bits_per_second", "received bits", BitRate, Brief, Some(Number::Real(flow.received.as_ref()?.rates?.frame_bits_per_second));
    "delay_min_ns", "delay min", Time, Full, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, MIN);
    "delay_mean_ns", "delay mean", Time, Full, flow.received.as_ref()?.one_way_delay_ns.as_ref()?.mean.map(Number::Real);
    "delay_p50_ns", "delay p50", Time, Brief, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, P50);
    "delay_p90_ns", "delay p90", Time, Full, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, P90);
    "delay_p99_ns", "delay p99", Time, Brief, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, P99);
    "delay_p99_9_ns", "delay p99.9", Time, Full, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, P99_9);
    "delay_p99_99_ns", "delay p99.99", Time, Full, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, P99_99);
    "delay_max_ns", "delay max", Time, Brief, of(flow.received.as_ref()?.one_way_delay_ns.as_ref()?, MAX);
    "jitter_rfc4689_p50_ns", "jitter p50", Time, Full, of(&flow.received.as_ref()?.jitter_rfc4689_ns, P50);
    "jitter_rfc4689_p99_ns", "jitter p99", Time, Brief, of(&flow.received.as_ref()?.jitter_rfc4689_ns, P99);
    "jitter_rfc4689_max_ns", "jitter max", Time, Full, of(&flow.received.as_ref()?.jitter_rfc4689_ns, MAX);
    "jitter_rfc3550_ns", "jitter (RFC 3550)", Time, Full, flow.received.as_ref()?.jitter_rfc3550_ns.map(Number::Real);
    "inter_arrival_min_ns", "inter-arrival min", Time, Full, of(&flow.received.as_ref()?.inter_arrival_ns, MIN);
    "inter_arrival_mean_ns", "inter-arrival mean", Time, Full, flow.received.as_ref()?.inter_arrival_ns.mean.map(Number::Real);
    "inter_arrival_p50_ns", "inter-arrival p50", Time, Full, of(&flow.received.as_ref()?.inter_arrival_ns, P50);
    "inter_arrival_p99_ns", "inter-arrival p99", Time, Full, of(&flow.received.as_ref()?.inter_arrival_ns, P99);
    "inter_arrival_max_ns", "inter-arrival max", Time, Full, of(&flow.received.as_ref()?.inter_arrival_ns, MAX);
    "gap_error_p50_ns", "gap error p50", Time, Full, of(&flow.received.as_ref()?.gap_error_ns, P50);
    "gap_error_p99_ns", "gap error p99", Time, Full, of(&flow.received.as_ref()?.gap_error_ns, P99);
    "gap_error_max_ns", "gap error max", Time, Full, of(&flow.received.as_ref()?.gap_error_ns, MAX);
    "signed_gap_error_min_ns", "signed gap error min", Time, Full, of(&flow.received.as_ref()?.signed_gap_error_ns, MIN);
    "signed_gap_error_mean_ns", "signed gap error mean", Time, Full, flow.received.as_ref()?.signed_gap_error_ns.mean.map(Number::Real);
    "signed_gap_error_max_ns", "signed gap error max", Time, Full, of(&flow.received.as_ref()?.signed_gap_error_ns, MAX);
    "send_lateness_mean_ns", "send lateness mean", Time, Full, flow.sent.as_ref()?.send_lateness_ns.mean.map(Number::Real);
    "send_lateness_p50_ns", "send lateness p50", Time, Brief, of(&flow.sent.as_ref()?.send_lateness_ns, P50);
    "send_lateness_p99_ns", "send lateness p99", Time, Brief, of(&flow.sent.as_ref()?.send_lateness_ns, P99);
    "send_lateness_max_ns", "send lateness max", Time, Full, of(&flow.sent.as_ref()?.send_lateness_ns, MAX);
    "inter_departure_min_ns", "inter-departure min", Time, Full, of(&flow.sent.as_ref()?.inter_departure_ns, MIN);
    "inter_departure_mean_ns", "inter-departure mean", Time, Full, flow.sent.as_ref()?.inter_departure_ns.mean.map(Number::Real);
    "inter_departure_p50_ns", "inter-departure p50", Time, Full, of(&flow.sent.as_ref()?.inter_departure_ns, P50);
    "inter_departure_p99_ns", "inter-departure p99", Time, Full, of(&flow.sent.as_ref()?.inter_departure_ns, P99);
    "inter_departure_max_ns", "inter-departure max", Time, Full, of(&flow.sent.as_ref()?.inter_departure_ns, MAX);
    "departure_gap_error_p50_ns", "departure gap error p50", Time, Full, of(&flow.sent.as_ref()?.gap_error_ns, P50);
    "departure_gap_error_p99_ns", "departure gap error p99", Time, Full, of(&flow.sent.as_ref()?.gap_error_ns, P99);
    "departure_gap_error_max_ns", "departure gap error max", Time, Full, of(&flow.sent.as_ref()?.gap_error_ns, MAX);
    "signed_departure_gap_error_min_ns", "signed departure gap error min", Time, Full, of(&flow.sent.as_ref()?.signed_gap_error_ns, MIN);
    "signed_departure_gap_error_mean_ns", "signed departure gap error mean", Time, Full, flow.sent.as_ref()?.signed_gap_error_ns.mean.map(Number::Real);
    "signed_departure_gap_error_max_ns", "signed departure gap error max", Time, Full, of(&flow.sent.as_ref()?.signed_gap_error_ns, MAX);
}

columns! {
    /// Of a group of sessions at one end.
    SESSION of SessionReport, group:
    "due_sessions", "due", Count, Full, group.starts.due.map(Number::Whole);
    "expired_sessions", "expired", Count, Full, group.starts.expired.map(Number::Whole);
    "opened_sessions", "opened", Count, Brief, Some(Number::Whole(group.starts.opened));
    "established_sessions", "established", Count, Brief, Some(Number::Whole(group.starts.established));
    "in_order_sessions", "ended in order", Count, Brief, Some(Number::Whole(group.ends.in_order));
    "failed_sessions", "failed", Count, Brief, Some(Number::Whole(failed(group)));
    "failed_here_sessions", "failed here", Count, Brief, Some(Number::Whole(group.ends.failed_here));
    "unfinished_sessions", "unfinished", Count, Brief, Some(Number::Whole(group.ends.unfinished));
    "most_open_sessions", "most open", Count, Full, Some(Number::Whole(group.most_open));
    "requests", "requests", Count, Full, Some(Number::Whole(group.messages.requests));
    "responses", "responses", Count, Brief, Some(Number::Whole(group.messages.responses));
    "unexpected_messages", "unexpected", Count, Full, Some(Number::Whole(group.messages.unexpected));
    "damaged_messages", "damaged", Count, Full, Some(Number::Whole(group.messages.damaged));
    "lost_responses", "lost", Count, Full, Some(Number::Whole(group.messages.lost));
    "sent_bytes", "sent", Bytes, Brief, Some(Number::Whole(group.bytes.sent));
    "delivered_bytes", "delivered", Bytes, Brief, Some(Number::Whole(group.bytes.delivered));
    "sent_session_frames", "sent frames", Count, Full, Some(Number::Whole(group.frames?.sent));
    "sent_session_frame_bytes", "sent in frames", Bytes, Full, Some(Number::Whole(group.frames?.sent_bytes));
    "retransmitted_segments", "sent again", Count, Brief, Some(Number::Whole(group.segments.retransmitted));
    "sent_datagrams", "sent datagrams", Count, Full, Some(Number::Whole(group.datagrams?.sent));
    "received_datagrams", "received datagrams", Count, Full, Some(Number::Whole(group.datagrams?.received));
    "lost_datagrams", "lost datagrams", Count, Full, Some(Number::Whole(group.datagrams?.lost));
    "sent_messages", "sent messages", Count, Full, Some(Number::Whole(group.one_way.as_ref()?.sent));
    "received_messages", "received messages", Count, Full, Some(Number::Whole(group.one_way.as_ref()?.received));
    "lost_messages", "lost messages", Count, Full, Some(Number::Whole(group.one_way.as_ref()?.lost));
    "established_per_second", "established/s", PerSecond, Brief, Some(Number::Real(group.rates?.established_per_second));
    "handshakes", "TLS handshakes", Count, Full, Some(Number::Whole(group.tls.as_ref()?.handshakes));
    "handshakes_per_second", "TLS handshakes/s", PerSecond, Full, group.rates?.handshakes_per_second.map(Number::Real);
    "responses_per_second", "responses/s", PerSecond, Brief, Some(Number::Real(group.rates?.responses_per_second));
    "goodput_bits_per_second", "goodput", BitRate, Brief, Some(Number::Real(group.rates?.goodput_bits_per_second));
    "sent_bits_per_second", "sent rate", BitRate, Brief, sent_bits_per_second(group).map(Number::Real);
    "acked_bits_per_second", "acknowledged", BitRate, Full, Some(Number::Real(group.rates?.acked_bits_per_second));
    "connect_p50_ns", "connect p50", Time, Full, planned(group.times.connect.as_ref(), P50);
    "connect_p99_ns", "connect p99", Time, Brief, planned(group.times.connect.as_ref(), P99);
    "connect_max_ns", "connect max", Time, Full, planned(group.times.connect.as_ref(), MAX);
    "handshake_p50_ns", "TLS handshake p50", Time, Full, planned(group.times.handshake.as_ref(), P50);
    "handshake_p99_ns", "TLS handshake p99", Time, Full, planned(group.times.handshake.as_ref(), P99);
    "first_byte_p50_ns", "first byte p50", Time, Full, planned(group.times.first_byte.as_ref(), P50);
    "first_byte_p99_ns", "first byte p99", Time, Full, planned(group.times.first_byte.as_ref(), P99);
    "response_p50_ns", "response p50", Time, Brief, planned(group.times.response.as_ref(), P50);
    "response_p99_ns", "response p99", Time, Brief, planned(group.times.response.as_ref(), P99);
    "response_p99_9_ns", "response p99.9", Time, Full, planned(group.times.response.as_ref(), P99_9);
    "response_max_ns", "response max", Time, Brief, planned(group.times.response.as_ref(), MAX);
    "message_delay_p50_ns", "message delay p50", Time, Full, planned(group.times.delay.as_ref(), P50);
    "message_delay_p99_ns", "message delay p99", Time, Brief, planned(group.times.delay.as_ref(), P99);
    "session_p50_ns", "session p50", Time, Full, planned(group.times.session.as_ref(), P50);
    "session_p99_ns", "session p99", Time, Full, planned(group.times.session.as_ref(), P99);
    "round_trip_p50_ns", "round trip p50", Time, Brief, of(&group.round_trip_ns, P50);
    "round_trip_p99_ns", "round trip p99", Time, Full, of(&group.round_trip_ns, P99);
    "start_lateness_p50_ns", "start lateness p50", Time, Full, of(&group.start_lateness_ns, P50);
    "start_lateness_p99_ns", "start lateness p99", Time, Brief, of(&group.start_lateness_ns, P99);
}

/// What a group sent in a second, in whole bits: what its TCP took, over the time under way.
pub fn sent_bits_per_second(group: &SessionReport) -> Option<f64> {
    let over = group.rates?.over_ns;
    (over > 0).then(|| (group.bytes.sent as f64 * 8e9 / over as f64).round())
}

/// Sessions that the peer or the network ended, or that got no answer.
fn failed(group: &SessionReport) -> u64 {
    group.ends.failed_there().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_of_columns_are_different_and_end_in_their_unit() {
        let flows = FLOW.iter().map(|column| (column.key, column.shown));
        let all: Vec<_> =
            flows.chain(SESSION.iter().map(|column| (column.key, column.shown))).collect();
        let keys: BTreeSet<&str> = all.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), all.len());
        for (key, shown) in all {
            let end = match shown {
                Shown::Time => "_ns",
                Shown::FrameRate | Shown::BitRate | Shown::PerSecond => "_per_second",
                Shown::Share => "_ratio",
                Shown::Bytes => "_bytes",
                Shown::Deviation => "_ppm",
                Shown::Count => "",
            };
            assert!(key.ends_with(end), "{key}");
        }
    }

    #[test]
    fn a_value_below_what_clocks_can_tell_is_shown_as_its_bound_and_no_number_for_programs() {
        let stats = Stats { count: 3, uncertain_below: Some(80_000), ..Stats::default() };
        let value = of(&stats, P50).unwrap();
        assert_eq!((Shown::Time.show(value).as_str(), value.exact().as_str()), ("<80.0µs", ""));
        assert_eq!(of(&Stats::default(), P50), None);
    }
}
