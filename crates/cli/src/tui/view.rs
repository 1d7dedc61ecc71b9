//! What the live view shows, as a state that intervals, progress, notices and keys change. Pure: it knows no terminal and no run.
//!
//! `draw.rs` turns it into cells, `mod.rs` feeds it. Names are made harmless where they come in, and all that grows is bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wirebeat_report::model::{
    Bucket, FlowInterval, Interval, IntervalReceived, SessionEnd, SessionInterval, Stats,
};
use wirebeat_run::Progress;
use wirebeat_traffic::scenario::{FlowSpec, PortSpec, Scenario};
use wirebeat_units::Nanos;
use wirebeat_units::printable::{printable, printable_lines};

/// The most rows: flows that intervals tell apart, and groups at both ends.
const ROWS_MAX: usize = 1024;
/// The most rates of the past, one for each interval: no terminal is wider.
const HISTORY_MAX: usize = 512;
/// The most lines of notices that are kept for the end.
const NOTICES_MAX: usize = 100;
/// Per cent of its rate that a flow has after `+` and after `-`.
const MORE: u32 = 110;
const LESS: u32 = 90;

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Arrows.
    Up,
    Down,
    Left,
    Right,
    /// The key that leaves.
    Escape,
    /// Ctrl-C.
    Interrupt,
}

/// What a key asks of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To stop, with its report.
    Stop,
    /// As SIGINT does.
    Interrupt,
    /// Another rate.
    Scale {
        /// Of the flow or the group of this name.
        name: String,
        /// So many per cent of what it is.
        percent: u32,
    },
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// Names, upwards.
    #[default]
    Name,
    /// Rates, downwards.
    Rate,
    /// Loss or failures, downwards.
    Loss,
    /// The 99th percentile of delay, or the round trip, downwards.
    Delay,
}

impl SortBy {
    const ALL: [SortBy; 4] = [SortBy::Name, SortBy::Rate, SortBy::Loss, SortBy::Delay];

    /// The one that follows, or the one before.
    fn step(self, back: bool) -> SortBy {
        let count = SortBy::ALL.len();
        let at = SortBy::ALL.iter().position(|one| *one == self).unwrap_or(0);
        let next = if back { at + count - 1 } else { at + 1 } % count;
        SortBy::ALL.get(next).copied().unwrap_or_default()
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            SortBy::Name => "name",
            SortBy::Rate => "rate",
            SortBy::Loss => "loss",
            SortBy::Delay => "delay",
        }
    }
}

/// Which row it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// A flow by its name.
    Flow(String),
    /// A group of sessions by its name, at an end.
    Group(String, SessionEnd),
}

impl RowKey {
    /// The name, which may be anything.
    pub fn name(&self) -> &str {
        match self {
            RowKey::Flow(name) | RowKey::Group(name, _) => name,
        }
    }

    /// The name as it may be shown.
    pub fn shown(&self) -> String {
        printable(self.name()).into_owned()
    }
}

/// Rates of the last interval, in a second. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowLook {
    pub sent: Option<f64>,
    pub received: Option<f64>,
    /// Bits with FCS of what arrived, or else of what left.
    pub bits: f64,
    /// Frames lost in the interval, and of how many.
    pub lost: Option<(i64, u64)>,
    /// Frames lost since the start.
    pub lost_total: Option<i64>,
    pub delay: Option<Stats>,
}

/// The same of a group of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupLook {
    pub opened: f64,
    pub open: u64,
    pub responses: f64,
    pub bits: f64,
    /// Since the start.
    pub failed: u64,
    pub round_trip_ns: Option<u64>,
}

/// A port of a run, and which flows it sends and receives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortFlows {
    /// Its name.
    pub name: String,
    /// Its interface and engine, in words; empty where nobody says.
    pub place: String,
    pub sends: BTreeSet<String>,
    pub receives: BTreeSet<String>,
}

/// What went through a port in the last interval, in a second; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortLook {
    pub sent: Option<f64>,
    pub sent_bits: f64,
    pub received: Option<f64>,
    pub received_bits: f64,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    Flow(Box<FlowLook>),
    Group(GroupLook),
}

impl Look {
    /// What it is worth when rows are sorted.
    fn weight(&self, by: SortBy) -> f64 {
        let of_flow = |flow: &FlowLook| match by {
            SortBy::Name => 0.0,
            SortBy::Rate => flow.bits,
            SortBy::Loss => flow.lost.map_or(-1.0, |(lost, of)| lost as f64 / of.max(1) as f64),
            SortBy::Delay => {
                flow.delay.as_ref().and_then(|it| it.percentiles.p99).unwrap_or(-1) as f64
            }
        };
        let of_group = |group: &GroupLook| match by {
            SortBy::Name => 0.0,
            SortBy::Rate => group.opened,
            SortBy::Loss => group.failed as f64,
            SortBy::Delay => group.round_trip_ns.map_or(-1.0, |ns| ns as f64),
        };
        match self {
            Look::Flow(flow) => of_flow(flow),
            Look::Group(group) => of_group(group),
        }
    }
}

/// What was seen of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub elapsed: Nanos,
    pub duration: Option<Nanos>,
    /// All flows in the last interval; `None` before the first, and where there are none.
    pub total: Option<FlowLook>,
    /// All groups, each counted at one end.
    pub sessions: Option<GroupLook>,
    pub rows: BTreeMap<RowKey, Look>,
    /// By the place of the port among those of the view.
    pub ports: Vec<PortLook>,
    /// Bits in a second of each interval, the latest at the end.
    pub history: VecDeque<u64>,
}

/// The live view.
#[derive(Clone, Debug, Default)]
pub struct View {
    live: Seen,
    /// What is shown while the display pauses.
    held: Option<Seen>,
    sort: SortBy,
    selected: Option<RowKey>,
    /// What came of the last wish.
    message: Option<String>,
    notices: VecDeque<String>,
    help: bool,
    stopping: bool,
    /// Whether rates can be changed.
    changes: bool,
    /// Whether it has colours.
    coloured: bool,
    ports: Vec<PortFlows>,
}

impl View {
    /// Of a run whose rates can be changed, or not.
    pub fn new(changes: bool, coloured: bool) -> View {
        View { changes, coloured, ..View::default() }
    }

    /// The same with the ports of the run.
    pub fn with_ports(self, ports: Vec<PortFlows>) -> View {
        View { ports, ..self }
    }

    /// The ports, and what went through each.
    pub fn ports(&self) -> impl Iterator<Item = (&PortFlows, &PortLook)> {
        self.ports.iter().zip(&self.seen().ports)
    }

    /// What is to be shown now.
    pub fn seen(&self) -> &Seen {
        self.held.as_ref().unwrap_or(&self.live)
    }

    pub fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub fn shows_help(&self) -> bool {
        self.help
    }

    pub fn has_colours(&self) -> bool {
        self.coloured
    }

    pub fn sort(&self) -> SortBy {
        self.sort
    }

    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// What was said meanwhile, line by line, the latest at the end.
    pub fn notices(&self) -> &VecDeque<String> {
        &self.notices
    }

    /// The rows in their order: flows, then groups.
    pub fn rows(&self) -> Vec<(&RowKey, &Look)> {
        let mut rows: Vec<_> = self.seen().rows.iter().collect();
        let is_group = |key: &RowKey| matches!(key, RowKey::Group(..));
        // stable: rows of the same weight stay in the order of their names
        rows.sort_by(|(a, x), (b, y)| {
            let weights = y.weight(self.sort).total_cmp(&x.weight(self.sort));
            is_group(a).cmp(&is_group(b)).then(weights)
        });
        rows
    }

    /// The place of the selected row in [`View::rows`]: the first where none was selected.
    pub fn place(&self) -> usize {
        let selected = self.selected.as_ref();
        let found = self.rows().iter().position(|(key, _)| Some(*key) == selected);
        found.unwrap_or(0)
    }

    /// The histogram of delay of the selected flow, with its name.
    pub fn delays(&self) -> Option<(&RowKey, &Stats)> {
        let (key, look) = self.rows().into_iter().nth(self.place())?;
        match look {
            Look::Flow(flow) => Some((key, flow.delay.as_ref()?)),
            Look::Group(_) => None,
        }
    }

    /// Time has passed.
    pub fn progress(&mut self, progress: &Progress) {
        self.live.elapsed = progress.elapsed;
        self.live.duration = progress.duration;
    }

    /// An interval is over.
    pub fn interval(&mut self, interval: &Interval) {
        self.live.take(interval);
        let of_flows = interval.total.sent.is_some() || interval.total.received.is_some();
        if of_flows {
            self.live.ports = self.ports.iter().map(|port| port.look(interval)).collect();
        }
    }

    /// Somebody has something to say.
    pub fn notice(&mut self, text: &str) {
        for line in printable_lines(text).lines() {
            self.notices.push_back(line.to_owned());
        }
        while self.notices.len() > NOTICES_MAX {
            self.notices.pop_front();
        }
    }

    /// This came of a wish.
    pub fn tell(&mut self, message: &str) {
        self.message = Some(printable(message).into_owned());
    }

    /// A key was pressed.
    pub fn key(&mut self, key: Key) -> Option<Wish> {
        self.message = None;
        match key {
            Key::Interrupt => {
                self.stopping = true;
                return Some(Wish::Interrupt);
            }
            Key::Char('?' | 'h') => self.help = !self.help,
            // any other key closes the help, and does what it does
            _ if self.help && key == Key::Escape => self.help = false,
            Key::Char('q') => {
                self.help = false;
                self.stopping = true;
                return Some(Wish::Stop);
            }
            Key::Char('p' | ' ') => {
                self.held = match self.held {
                    Some(_) => None,
                    None => Some(self.live.clone()),
                };
            }
            Key::Char('s') | Key::Right => self.sort = self.sort.step(false),
            Key::Char('S') | Key::Left => self.sort = self.sort.step(true),
            Key::Up | Key::Char('k') => self.select(self.place().saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(self.place().saturating_add(1)),
            Key::Char('+' | '=') => return self.scale(MORE),
            Key::Char('-' | '_') => return self.scale(LESS),
            Key::Char(_) | Key::Escape => {}
        }
        None
    }

    fn select(&mut self, place: usize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        self.selected = rows.get(place.min(last)).map(|(key, _)| (*key).clone());
    }

    fn scale(&mut self, percent: u32) -> Option<Wish> {
        let key = self.rows().get(self.place()).map(|(key, _)| (*key).clone());
        let Some(key) = key else {
            self.tell("there is nothing whose rate could change yet");
            return None;
        };
        if !self.changes {
            self.tell("start it with --control, so that rates can change");
            return None;
        }
        let name = key.name().to_owned();
        self.selected = Some(key);
        Some(Wish::Scale { name, percent })
    }
}

impl Seen {
    fn take(&mut self, interval: &Interval) {
        let passed = interval.to_ns.saturating_sub(interval.from_ns);
        self.elapsed = self.elapsed.max(Nanos::new(interval.to_ns));
        // what is not in it did nothing
        for look in self.rows.values_mut() {
            look.rest();
        }
        for flow in &interval.flows {
            let row = self.row(RowKey::Flow(flow.name.clone()), || Look::Flow(Box::default()));
            if let Some(Look::Flow(look)) = row {
                look.take(flow, passed);
            }
        }
        for group in &interval.sessions {
            let key = RowKey::Group(group.name.clone(), group.end);
            if let Some(Look::Group(look)) = self.row(key, || Look::Group(GroupLook::default())) {
                look.take(group, passed);
            }
        }
        let has_flows = interval.total.sent.is_some() || interval.total.received.is_some();
        if has_flows {
            self.total.get_or_insert_default().take(&interval.total, passed);
        }
        if !interval.sessions.is_empty() {
            self.sessions.get_or_insert_default().take(&together(&interval.sessions), passed);
        }
        let flows = self.total.as_ref().filter(|_| has_flows).map_or(0.0, |total| total.bits);
        let sessions = self.sessions.as_ref().filter(|_| !interval.sessions.is_empty());
        let bits = flows + sessions.map_or(0.0, |sessions| sessions.bits);
        self.history.push_back(bits as u64);
        while self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
    }

    /// The row of this key, where there is room for it.
    fn row(&mut self, key: RowKey, new: impl Fn() -> Look) -> Option<&mut Look> {
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            return None;
        }
        Some(self.rows.entry(key).or_insert_with(new))
    }
}

impl PortFlows {
    /// The ports of a scenario that flows pass.
    pub fn of_all(scenario: &Scenario) -> Vec<PortFlows> {
        let of = |(name, port): (&String, &PortSpec)| {
            let flows = |is_mine: &dyn Fn(&FlowSpec) -> bool| -> BTreeSet<String> {
                let mine = scenario.flows.iter().filter(|(_, flow)| is_mine(flow));
                mine.map(|(name, _)| name.clone()).collect()
            };
            let engine = port.engine.engine().map(|engine| engine.name().to_owned());
            let place = [port.interface.clone(), engine].into_iter().flatten();
            PortFlows {
                name: name.clone(),
                place: place.collect::<Vec<_>>().join(", "),
                sends: flows(&|flow| flow.from == *name),
                receives: flows(&|flow| flow.to.as_ref() == Some(name)),
            }
        };
        let ports = scenario.ports.iter().map(of);
        ports.filter(|port| !port.sends.is_empty() || !port.receives.is_empty()).collect()
    }

    fn look(&self, interval: &Interval) -> PortLook {
        let passed = interval.to_ns.saturating_sub(interval.from_ns);
        // of very many flows intervals have the total alone, which says nothing of a port
        let told = !interval.flows.is_empty() || interval.total == FlowInterval::default();
        let mut look = PortLook {
            sent: (told && !self.sends.is_empty()).then_some(0.0),
            received: (told && !self.receives.is_empty()).then_some(0.0),
            ..PortLook::default()
        };
        for flow in &interval.flows {
            if let (Some(sent), Some(frames)) = (&flow.sent, &mut look.sent)
                && self.sends.contains(&flow.name)
            {
                *frames += per_second(sent.frames, passed);
                look.sent_bits += per_second(sent.frame_bytes, passed) * 8.0;
            }
            if let (Some(received), Some(frames)) = (&flow.received, &mut look.received)
                && self.receives.contains(&flow.name)
            {
                *frames += per_second(received.frames, passed);
                look.received_bits += per_second(received.frame_bytes, passed) * 8.0;
            }
        }
        look
    }
}

impl Look {
    /// Nothing happens.
    fn rest(&mut self) {
        match self {
            Look::Flow(flow) => {
                let FlowLook { sent, received, bits, lost, delay, .. } = &mut **flow;
                (*sent, *received) = (sent.map(|_| 0.0), received.map(|_| 0.0));
                (*bits, *delay) = (0.0, None);
                *lost = lost.map(|_| (0, 0));
            }
            Look::Group(group) => {
                let GroupLook { opened, responses, bits, .. } = group;
                (*opened, *responses, *bits) = (0.0, 0.0, 0.0);
            }
        }
    }
}

/// So many in so much time, in a second.
fn per_second(count: u64, passed_ns: u64) -> f64 {
    if passed_ns == 0 { 0.0 } else { count as f64 * 1e9 / passed_ns as f64 }
}

impl FlowLook {
    fn take(&mut self, flow: &FlowInterval, passed: u64) {
        let received = flow.received.as_ref();
        let bytes = received.map(|of| of.frame_bytes).or(flow.sent.map(|of| of.frame_bytes));
        // of those whose fate was found in it
        let of = |received: &IntervalReceived, lost: i64| {
            received.unique.max(received.frames).saturating_add_signed(lost.max(0))
        };
        self.sent = flow.sent.map(|sent| per_second(sent.frames, passed));
        self.received = received.map(|received| per_second(received.frames, passed));
        self.bits = per_second(bytes.unwrap_or(0), passed) * 8.0;
        self.lost = flow.lost.zip(received).map(|(lost, received)| (lost, of(received, lost)));
        if let Some(lost) = flow.lost {
            self.lost_total = Some(self.lost_total.unwrap_or(0).saturating_add(lost));
        }
        self.delay = received.and_then(|received| received.one_way_delay_ns.clone());
    }
}

impl GroupLook {
    fn take(&mut self, group: &SessionInterval, passed: u64) {
        self.opened = per_second(group.opened, passed);
        self.open = group.open;
        self.responses = per_second(group.responses, passed);
        self.bits = per_second(group.delivered_bytes, passed) * 8.0;
        self.failed = self.failed.saturating_add(group.failed);
        self.round_trip_ns = group.connections.and_then(|looked| looked.round_trip_ns);
    }
}

/// All groups: each counted at the end that opens sessions where it is here, and all bytes that were delivered.
fn together(groups: &[SessionInterval]) -> SessionInterval {
    let has_clients = groups.iter().any(|group| group.end == SessionEnd::Client);
    let end = if has_clients { SessionEnd::Client } else { SessionEnd::Server };
    let mut all = SessionInterval { end, ..SessionInterval::default() };
    for group in groups {
        all.delivered_bytes = all.delivered_bytes.saturating_add(group.delivered_bytes);
        if group.end == end {
            all.opened = all.opened.saturating_add(group.opened);
            all.open = all.open.saturating_add(group.open);
            all.responses = all.responses.saturating_add(group.responses);
            all.failed = all.failed.saturating_add(group.failed);
        }
    }
    all
}

/// Delays by size, in at most so many parts: the largest of each, and how many there were. Parts grow by 1, 2, 5, 10 …; the last
/// takes the rest.
pub fn parts(buckets: &[Bucket], most: usize) -> Vec<(i64, u64)> {
    let mut parts: Vec<(i64, u64)> = Vec::new();
    for bucket in buckets.iter().filter(|bucket| bucket.2 > 0) {
        // the middle: the last bucket of all has no end
        let middle = bucket.0.saturating_add(bucket.1.saturating_sub(bucket.0) / 2);
        let bound = bound(middle);
        match parts.last_mut() {
            Some((last, count)) if *last >= bound => *count = count.saturating_add(bucket.2),
            last => {
                // sizes between that nobody has
                let mut next = last.map_or(bound, |(last, _)| self::bound(last.saturating_add(1)));
                while next < bound && parts.len() < most {
                    parts.push((next, 0));
                    next = self::bound(next.saturating_add(1));
                }
                parts.push((bound, bucket.2));
            }
        }
    }
    while parts.len() > most.max(1) {
        let Some((_, count)) = parts.pop() else { break };
        if let Some(last) = parts.last_mut() {
            *last = (i64::MAX, last.1.saturating_add(count));
        }
    }
    parts
}

/// The smallest of 1, 2, 5, 10, 20 … that is not below a value; 0 for none above it.
fn bound(value: i64) -> i64 {
    let mut unit = 1_i64;
    if value <= 0 {
        return 0;
    }
    loop {
        for factor in [1, 2, 5] {
            let bound = unit.saturating_mul(factor);
            if bound >= value {
                return bound;
            }
        }
        unit = unit.saturating_mul(10);
    }
}
