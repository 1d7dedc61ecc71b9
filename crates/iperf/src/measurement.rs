//! What is measured of a test while it runs: the omitted time, the intervals, and the totals at its end.
//!
//! Reads the tallies of streams and the kernel's facts about connections; moves no data and speaks no protocol. The caller says what
//! time it is.

use std::sync::Arc;

use wirebeat_host::{CpuTime, TcpInfo};
use wirebeat_units::{Bytes, Nanos};

use crate::control::{Results, StreamResults};
use crate::data::{Carrier, Counts, Stream};
use crate::result::{CpuPercent, Datagrams, Interval, Side, StreamInterval, StreamResult};
use crate::{Event, TestSpec};

/// Records of one stream in one interval that are kept, of some 500 bytes each: five hours of one stream, at one a second.
const KEPT_MAX: usize = 20_000;
/// The shortest interval: more often, reading the counters would show in them.
const INTERVAL_MIN: Nanos = Nanos::from_millis(10);

/// What was counted of a stream up to one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    counts: Counts,
    tcp: Option<TcpInfo>,
}

impl Reading {
    fn of(stream: &Stream) -> Reading {
        Reading { counts: stream.tally.counts(), tcp: stream.tcp_info() }
    }

    /// What was counted since `earlier`, in `time`.
    fn since(&self, earlier: &Reading, stream: &Stream, time: Nanos) -> Side {
        let udp = matches!(stream.carrier, Carrier::Udp(_));
        let difference =
            |of: fn(&Counts) -> u64| of(&self.counts).saturating_sub(of(&earlier.counts));
        let retransmits = |reading: &Reading| reading.tcp.map(|tcp| u64::from(tcp.retransmits));
        Side {
            bytes: Bytes::new(difference(|counts| counts.bytes)),
            time,
            retransmits: retransmits(self)
                .filter(|_| stream.sending)
                .map(|now| now.saturating_sub(retransmits(earlier).unwrap_or(0))),
            datagrams: udp.then(|| Datagrams {
                packets: difference(|counts| counts.packets),
                received: difference(|counts| counts.received),
                lost: difference(|counts| counts.lost),
                out_of_order: (!stream.sending).then(|| difference(|counts| counts.out_of_order)),
                jitter: self.counts.jitter,
            }),
        }
    }
}

/// The measurement of one test.
#[derive(Debug)]
pub(crate) struct Measurement {
    streams: Vec<Arc<Stream>>,
    begun: Nanos,
    /// While the omitted time lasts: when it ends.
    omit_until: Option<Nanos>,
    /// When what counts began, and what was counted before.
    counts_from: Nanos,
    base: Vec<Reading>,
    base_cpu: Option<CpuTime>,
    interval: Option<Nanos>,
    interval_begun: Nanos,
    interval_base: Vec<Reading>,
    kept: Vec<Interval>,
    records: usize,
    not_kept: u64,
}

/// What a measurement found.
#[derive(Debug)]
pub(crate) struct Measured {
    pub time: Nanos,
    pub streams: Vec<StreamResult>,
    pub intervals: Vec<Interval>,
    pub intervals_not_kept: u64,
    pub cpu: CpuPercent,
    /// What the peer is told.
    pub results: Results,
}

impl Measurement {
    /// Begins one at `now`, before the threads do. What was counted before, as a header, counts.
    pub fn begin(streams: &[Arc<Stream>], spec: &TestSpec, now: Nanos) -> Measurement {
        let base = streams.iter().map(|s| Reading { counts: Counts::default(), tcp: s.tcp_info() });
        let base: Vec<Reading> = base.collect();
        Measurement {
            streams: streams.to_vec(),
            begun: now,
            omit_until: Some(spec.omit).filter(|o| *o > Nanos::ZERO).map(|o| now.saturating_add(o)),
            counts_from: now,
            interval_base: base.clone(),
            base,
            base_cpu: CpuTime::of_process(),
            interval: spec.interval.filter(|i| *i > Nanos::ZERO).map(|i| i.max(INTERVAL_MIN)),
            interval_begun: now,
            kept: Vec::new(),
            records: 0,
            not_kept: 0,
        }
    }

    /// Whether the omitted time lasts.
    pub fn omitting(&self) -> bool {
        self.omit_until.is_some()
    }

    /// When what counts begins.
    pub fn counts_from(&self) -> Nanos {
        self.omit_until.unwrap_or(self.counts_from)
    }

    /// When [`Measurement::turn`] has something to do next.
    pub fn next(&self) -> Nanos {
        let interval = self.interval.map(|interval| self.interval_begun.saturating_add(interval));
        [interval, self.omit_until].into_iter().flatten().min().unwrap_or(Nanos::MAX)
    }

    /// Reports intervals that are over. True when the omitted time has just ended.
    pub fn turn(&mut self, now: Nanos, events: &mut dyn FnMut(Event<'_>)) -> bool {
        if self.omit_until.is_some_and(|until| now >= until) {
            let readings = self.readings();
            if self.interval.is_some() {
                self.report(now, &readings, events);
            }
            self.omit_until = None;
            self.counts_from = now;
            self.interval_begun = now;
            self.base_cpu = CpuTime::of_process();
            self.streams.iter().for_each(|stream| stream.tally.forget_jitter());
            self.interval_base.clone_from(&readings);
            self.base = readings;
            return true;
        }
        if let Some(interval) = self.interval
            && now >= self.interval_begun.saturating_add(interval)
        {
            let readings = self.readings();
            self.report(now, &readings, events);
        }
        false
    }

    /// Bytes that all streams of a direction moved since the omitted time ended.
    pub fn bytes(&self, sending: bool) -> u64 {
        let streams = self.streams.iter().zip(&self.base).filter(|(s, _)| s.sending == sending);
        let bytes = |(stream, base): (&Arc<Stream>, &Reading)| {
            stream.tally.counts().bytes.saturating_sub(base.counts.bytes)
        };
        streams.map(bytes).fold(0, u64::saturating_add)
    }

    /// Bytes that all streams of a direction moved until the omitted time ended.
    pub fn bytes_omitted(&self, sending: bool) -> u64 {
        let streams = self.streams.iter().zip(&self.base).filter(|(s, _)| s.sending == sending);
        streams.map(|(_, base)| base.counts.bytes).fold(0, u64::saturating_add)
    }

    /// Bytes that all streams moved from the beginning on, in a direction.
    pub fn bytes_from_the_beginning(&self, sending: bool) -> u64 {
        let streams = self.streams.iter().filter(|stream| stream.sending == sending);
        streams.map(|stream| stream.tally.counts().bytes).fold(0, u64::saturating_add)
    }

    fn readings(&self) -> Vec<Reading> {
        self.streams.iter().map(|stream| Reading::of(stream)).collect()
    }

    /// Reports what was counted since the last interval, and begins the next one where that was due to end.
    fn report(&mut self, now: Nanos, readings: &[Reading], events: &mut dyn FnMut(Event<'_>)) {
        let time = now.saturating_sub(self.interval_begun);
        let all = self.streams.iter().zip(readings).zip(&self.interval_base);
        let streams = all.map(|((stream, reading), base)| StreamInterval {
            id: stream.id,
            sending: stream.sending,
            side: reading.since(base, stream, time),
            tcp: reading.tcp,
        });
        let interval = Interval {
            start: self.interval_begun.saturating_sub(self.begun),
            end: now.saturating_sub(self.begun),
            omitted: self.omitting(),
            streams: streams.collect(),
        };
        events(Event::Interval(&interval));
        self.interval_begun = now;
        self.interval_base = readings.to_vec();
        let records = self.records.saturating_add(interval.streams.len());
        if records <= KEPT_MAX {
            self.records = records;
            self.kept.push(interval);
        } else {
            self.not_kept += 1;
        }
    }

    /// Ends it at `now`: what does not fill an interval is one more.
    pub fn finish(mut self, now: Nanos, events: &mut dyn FnMut(Event<'_>)) -> Measured {
        let readings = self.readings();
        let moved = |(now, base): (&Reading, &Reading)| now.counts.bytes != base.counts.bytes;
        if let Some(interval) = self.interval {
            // a last one of less than a tenth tells nothing by itself, unless something moved in it
            let rest = now.saturating_sub(self.interval_begun);
            let some = readings.iter().zip(&self.interval_base).any(moved);
            if some || rest.get() > interval.get() / 10 {
                self.report(now, &readings, events);
            }
        }
        let time = if self.omitting() { Nanos::ZERO } else { now.saturating_sub(self.counts_from) };
        let cpu = cpu_percent(self.base_cpu, time);
        // a test that ends within the omitted time has counted nothing
        let base = if self.omitting() { &readings } else { &self.base };
        let all = self.streams.iter().zip(&readings).zip(base);
        let streams: Vec<StreamResult> = all
            .clone()
            .map(|((stream, reading), base)| StreamResult {
                id: stream.id,
                sending: stream.sending,
                local: stream.local,
                remote: stream.remote,
                ours: reading.since(base, stream, time),
                theirs: None,
                tcp: reading.tcp,
            })
            .collect();
        let told = all.zip(&streams).map(|(((_, reading), base), result)| StreamResults {
            id: result.id.into(),
            bytes: result.ours.bytes.get(),
            retransmits: result.ours.retransmits,
            jitter: reading.counts.jitter.as_secs_f64(),
            errors: reading.counts.lost,
            omitted_errors: Some(base.counts.lost),
            packets: reading.counts.packets,
            omitted_packets: Some(base.counts.packets),
            start_time: 0.0,
            end_time: time.as_secs_f64(),
        });
        let results = Results {
            cpu_total: cpu.total,
            cpu_user: cpu.user,
            cpu_system: cpu.system,
            has_retransmits: streams
                .iter()
                .any(|stream| stream.sending)
                .then(|| streams.iter().any(|stream| stream.ours.retransmits.is_some())),
            congestion_used: None,
            output: None,
            streams: told.collect(),
        };
        Measured {
            time,
            streams,
            intervals: self.kept,
            intervals_not_kept: self.not_kept,
            cpu,
            results,
        }
    }
}

fn cpu_percent(base: Option<CpuTime>, time: Nanos) -> CpuPercent {
    let (Some(base), Some(now)) = (base, CpuTime::of_process()) else {
        return CpuPercent::default();
    };
    if time == Nanos::ZERO {
        return CpuPercent::default();
    }
    let used = now.since(&base);
    let percent = |ns: u64| ns as f64 * 100.0 / time.get() as f64;
    CpuPercent {
        total: percent(used.total_ns()),
        user: percent(used.user_ns),
        system: percent(used.system_ns),
    }
}

/// Adds to each stream what the peer says of it.
pub(crate) fn add_theirs(streams: &mut [StreamResult], theirs: &Results, ours: &Results) {
    for stream in streams {
        let with_id =
            |of: &Results| of.streams.iter().find(|s| s.id == i64::from(stream.id)).copied();
        let Some(told) = with_id(theirs) else { continue };
        // a peer before 3.15 does not say what it omitted: it counts about what we counted
        let omitted = with_id(ours).and_then(|ours| ours.omitted_packets).unwrap_or(0);
        let seconds = (told.end_time - told.start_time).clamp(0.0, 1e9);
        let packets = told.packets.saturating_sub(told.omitted_packets.unwrap_or(omitted));
        let lost = match stream.sending {
            true => told.errors.saturating_sub(told.omitted_errors.unwrap_or(0)),
            false => 0,
        };
        stream.theirs = Some(Side {
            bytes: Bytes::new(told.bytes),
            time: Nanos::new((seconds * 1e9).round() as u64),
            retransmits: told.retransmits.filter(|_| !stream.sending && stream.tcp.is_some()),
            datagrams: stream.ours.datagrams.map(|_| Datagrams {
                packets,
                received: if stream.sending { packets.saturating_sub(lost) } else { 0 },
                lost,
                out_of_order: None,
                jitter: if stream.sending {
                    Nanos::new((told.jitter.clamp(0.0, 1e9) * 1e9).round() as u64)
                } else {
                    Nanos::ZERO
                },
            }),
        });
    }
}

/// What the peer says that it used.
pub(crate) fn cpu_of(results: &Results) -> CpuPercent {
    CpuPercent { total: results.cpu_total, user: results.cpu_user, system: results.cpu_system }
}
