//! Flows that go over connections, or whose packets are sent back, as groups of sessions.
//!
//! A script says when the packets of a flow leave and how long they are; a program of a session says gaps and sizes of messages. Here
//! the one becomes the other, and what does not fit is named. A flow is one session; of bursts each is a session. A dialect fills
//! in [`SessionFlow`]; what its words mean is its own business, and when messages leave is `pace.rs`.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU8, NonZeroU32, NonZeroU64};
use std::ops::RangeInclusive;

use wirebeat_traffic::distribution::Distribution;
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::dscp::Dscp;
use wirebeat_traffic::scenario::session::program::{Bulk, Echo, Messages};
use wirebeat_traffic::scenario::session::{
    AddressPool, Beyond, DataSize, Limit, OnTimeout, PoolSpec, PortPool, ProgramSpec, SessionSpec,
    TcpSpec, Transport,
};
use wirebeat_traffic::scenario::size::Size;
use wirebeat_traffic::scenario::{Departures, FlowRate, RunSpec};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Bytes, FrameRate, Nanos, Rate};

use crate::datagram::mean_payload;
use crate::draft::Draft;
use crate::pace::{NextBurst, Pace, mean};
use crate::{Line, ScriptError};

/// How long a datagram is waited for before the next one leaves.
const ECHO_PATIENCE: Nanos = Nanos::from_secs(1);
/// A drawn gap is seldom longer than this number of means: of exponential ones 1 of 20,000 is.
const SELDOM: f64 = 10.0;

/// What is said in a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Talk {
    /// Messages from the client to the server.
    OneWay,
    /// Each message comes back.
    Echo,
}

/// A flow, as far as sessions have it.
pub(crate) struct SessionFlow {
    pub name: String,
    pub line: Line,
    /// What the script calls what makes it sessions.
    pub what: &'static str,
    /// Whose script it is.
    pub tool: &'static str,
    pub port: String,
    pub transport: Transport,
    pub talk: Talk,
    pub source: Option<IpAddr>,
    pub source_port: Option<u16>,
    pub server: SocketAddr,
    /// Whether the same scenario serves it.
    pub is_served: bool,
    pub pace: Pace,
    pub size: DataSize,
    pub start: Nanos,
    pub stop: Option<Nanos>,
    /// Messages in all.
    pub count: Option<NonZeroU64>,
    pub tos: Option<u8>,
    pub ttl: Option<u8>,
    pub dont_fragment: Option<bool>,
    pub tcp: TcpSpec,
}

impl SessionFlow {
    /// Adds it to the scenario.
    pub fn add(self, draft: &mut Draft<'_>) -> Result<(), ScriptError> {
        if self.span() == Some(Nanos::ZERO) {
            draft.leave_out(&self.line, &self.name, "it never sends anything");
            return Ok(());
        }
        let Some(program) = self.program(draft) else { return Ok(()) };
        self.tell_receiver(draft, &program);
        let mut group = SessionSpec {
            from: Some(self.port.clone()),
            transport: self.transport,
            clients: PoolSpec {
                addresses: one(self.source),
                ports: self.client_port(draft).map(|port| ports(port..=port)),
                ..PoolSpec::default()
            },
            servers: PoolSpec {
                addresses: one(Some(self.server.ip())),
                ports: Some(ports(self.server.port()..=self.server.port())),
                ..PoolSpec::default()
            },
            start: self.start,
            stop: self.end(draft, &program),
            tcp: self.tcp.clone(),
            ttl: self.ttl.and_then(NonZeroU8::new),
            dscp: self.dscp(draft),
            dont_fragment: self.dont_fragment.filter(|_| self.server.is_ipv4()),
            ..SessionSpec::new(program)
        };
        if self.transport == Transport::Udp {
            group.timeout = ECHO_PATIENCE;
            group.on_timeout = OnTimeout::Next;
        }
        self.starts(draft, &mut group);
        draft.session(&self.line, self.name, group)
    }

    /// From its start to its stop.
    fn span(&self) -> Option<Nanos> {
        self.stop.map(|stop| stop.saturating_sub(self.start))
    }

    /// When sessions start.
    fn starts(&self, draft: &mut Draft<'_>, group: &mut SessionSpec) {
        let Pace::Bursts { next, .. } = &self.pace else {
            group.count = Some(NonZeroU64::MIN);
            return;
        };
        let why = match self.transport {
            Transport::Tcp | Transport::Sctp => "each burst is a connection of its own",
            Transport::Udp => "each burst is a session of its own",
        };
        draft.leave_out(&self.line, self.what, why);
        let each = self.messages_of_burst();
        group.count = match (self.count, each) {
            (None, _) => None,
            (Some(count), _) if self.fills_one_burst(count) => Some(NonZeroU64::MIN),
            (Some(count), Some(each)) => {
                let why = "messages are counted in whole bursts";
                draft.leave_out(&self.line, &self.name, why);
                NonZeroU64::new((count.get() as f64 / each).ceil() as u64)
            }
            (Some(_), None) => {
                let why =
                    "how many messages a burst has is not known, so that they are not counted";
                draft.leave_out(&self.line, &self.name, why);
                None
            }
        };
        match next {
            NextBurst::After(pause) => {
                group.users = Some(NonZeroU32::MIN);
                group.think = Some(pause.clone());
            }
            NextBurst::Every(Duration::Fixed(every)) => {
                let rate = FrameRate { frames: 1, per: *every };
                group.rate = FlowRate::Fixed(Rate::Frames(rate));
            }
            NextBurst::Every(Duration::Drawn(every)) => {
                group.departures = match every {
                    Distribution::Exponential(every) => Departures::Poisson(every.clone()),
                    other => Departures::Drawn(other.clone().into()),
                };
                // a burst begins when the one before is over
                group.limit = Some(Limit {
                    open: Some(NonZeroU32::MIN),
                    beyond: Beyond::Queue,
                    ..Limit::default()
                });
            }
        }
    }

    /// How many messages a burst has on average. `None`: that is not known, or there are no bursts.
    fn messages_of_burst(&self) -> Option<f64> {
        match &self.pace {
            Pace::Bursts { gap, on, .. } => Some((on.get() as f64 / mean(gap)?).ceil()),
            _ => None,
        }
    }

    /// Whether the first burst has so many messages.
    fn fills_one_burst(&self, count: NonZeroU64) -> bool {
        self.messages_of_burst().is_some_and(|each| count.get() as f64 <= each)
    }

    /// What both ends say. `None`: it cannot be said, which is named.
    fn program(&self, draft: &mut Draft<'_>) -> Option<ProgramSpec> {
        let Some(gap) = self.pace.gap() else {
            return self.without_gap(draft);
        };
        let size = self.size.clone();
        Some(match self.talk {
            Talk::OneWay => {
                let (messages, time) = match &self.pace {
                    // a burst that has all of them is the only one
                    Pace::Bursts { on, .. } => {
                        let all = self.count.filter(|count| self.fills_one_burst(*count));
                        (all.map(|count| self.whole_count(draft, count)), Some(*on))
                    }
                    _ => self.limits(draft, gap),
                };
                let gap = gap.clone();
                let messages = Messages { size, gap, messages, time, ..Messages::default() };
                ProgramSpec::Messages(Box::new(messages))
            }
            Talk::Echo => {
                let messages = self.echoes(draft, gap)?;
                let gap = Some(gap.clone());
                ProgramSpec::Echo(Box::new(Echo { size, messages, gap }))
            }
        })
    }

    /// As much as goes through.
    fn without_gap(&self, draft: &mut Draft<'_>) -> Option<ProgramSpec> {
        if self.talk == Talk::Echo {
            let why = "messages that come back have a gap between them; the flow is not sent";
            draft.leave_out(&self.line, &self.name, why);
            return None;
        }
        let bytes = match (self.count, &self.size) {
            (None, _) => None,
            (Some(count), DataSize::Fixed(size)) => Some(count.get().saturating_mul(size.get())),
            (Some(count), DataSize::Drawn(drawn)) => {
                let why =
                    "messages without a gap are counted in bytes: as many as they have on average";
                draft.leave_out(&self.line, &self.name, why);
                let mean = drawn.sampler(None).ok().and_then(|sampler| sampler.mean())?;
                Some((count.get() as f64 * mean).ceil() as u64)
            }
        };
        Some(ProgramSpec::Bulk(Box::new(Bulk { bytes: bytes.map(Bytes::new), ..Bulk::default() })))
    }

    /// How many messages there are one way, and for how long. Where a number is written, the group's stop does not end them.
    fn limits(&self, draft: &mut Draft<'_>, gap: &Duration) -> (Option<NonZeroU32>, Option<Nanos>) {
        let Some(count) = self.count else { return (None, None) };
        let needs = match gap {
            Duration::Fixed(gap) => Some(gap.get().saturating_mul(count.get() - 1)),
            Duration::Drawn(_) => None,
        };
        let time = self.span().filter(|span| needs.is_none_or(|needs| needs >= span.get()));
        (Some(self.whole_count(draft, count)), time)
    }

    fn whole_count(&self, draft: &mut Draft<'_>, count: NonZeroU64) -> NonZeroU32 {
        NonZeroU32::try_from(count).unwrap_or_else(|_| {
            let why = format!("a session has {} messages at most", u32::MAX);
            draft.leave_out(&self.line, &self.name, why);
            NonZeroU32::MAX
        })
    }

    /// How many messages are sent and come back: only their number ends them. `None`: that is not known, which is named.
    fn echoes(&self, draft: &mut Draft<'_>, gap: &Duration) -> Option<NonZeroU32> {
        let span = match &self.pace {
            Pace::Bursts { on, .. } => Some(*on),
            _ => self.span(),
        };
        let count = match &self.pace {
            Pace::Bursts { .. } => None,
            _ => self.count,
        };
        let fitting = span.and_then(|span| Some((span.get() as f64 / mean(gap)?).ceil() as u64));
        let fitting = fitting.and_then(NonZeroU64::new);
        let messages = match (count, fitting) {
            (Some(count), Some(fitting)) => count.min(fitting),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => {
                let why = "messages that come back are ended by their number, and the gaps have no mean from which it would \
                           follow; the flow is not sent";
                draft.leave_out(&self.line, &self.name, why);
                return None;
            }
        };
        if matches!(gap, Duration::Drawn(_)) && count != Some(messages) {
            let why = format!(
                "messages that come back are ended by their number, {messages}: as many as its time has on average"
            );
            draft.leave_out(&self.line, &self.name, why);
        }
        Some(self.whole_count(draft, messages))
    }

    /// When no session starts any more, and what goes on without an end stops.
    fn end(&self, draft: &mut Draft<'_>, program: &ProgramSpec) -> Option<Nanos> {
        let ends = self.stop.is_some() || draft.options.time.is_some();
        let is_endless = match program {
            ProgramSpec::Messages(messages) => messages.is_endless(),
            ProgramSpec::Bulk(bulk) => bulk.bytes.is_none(),
            _ => false,
        };
        let goes_on = match self.pace {
            Pace::Bursts { .. } => self.count.is_none(),
            _ => is_endless,
        };
        if ends || !goes_on {
            return self.stop;
        }
        let why = "the script never ends this flow; it ends 10s after its start: change its 'stop'";
        draft.leave_out(&self.line, &self.name, why);
        Some(self.start.saturating_add(RunSpec::DEFAULT_TIME))
    }

    /// The port of the client. Ports of closed connections are not free at once.
    fn client_port(&self, draft: &mut Draft<'_>) -> Option<u16> {
        let port = self.source_port.filter(|port| *port > 0)?;
        if matches!(self.pace, Pace::Bursts { .. }) {
            let why = format!(
                "a connection cannot have port {port} again at once; the system chooses the port of each burst"
            );
            draft.leave_out(&self.line, &self.name, why);
            return None;
        }
        if self.talk == Talk::Echo && self.transport == Transport::Udp && port == self.server.port()
        {
            let why = format!(
                "a server that sends back takes nothing from its own port number, {port}; the system chooses the client's"
            );
            draft.leave_out(&self.line, &self.name, why);
            return None;
        }
        Some(port)
    }

    /// The DSCP of a byte of it and ECN.
    fn dscp(&self, draft: &mut Draft<'_>) -> Option<Dscp> {
        let tos = self.tos.filter(|tos| *tos > 0)?;
        if tos & 3 != 0 {
            let why = format!(
                "the last two bits of {tos} are those of ECN, which sessions write by themselves"
            );
            draft.leave_out(&self.line, &self.name, why);
        }
        Dscp::new(tos >> 2).filter(|dscp| dscp.to_tos() > 0)
    }

    /// Says what is on the wire, and who receives it.
    fn tell_receiver(&self, draft: &mut Draft<'_>, program: &ProgramSpec) {
        let SessionFlow { tool, server, .. } = self;
        let udp = if self.transport == Transport::Udp { "--transport udp " } else { "" };
        let name = program.name();
        let receiver = match self.is_served {
            true => {
                format!("the receiver is the server at port {} of this scenario", server.port())
            }
            false => format!(
                "the receiver is 'wirebeat serve {name} {udp}--listen {server}{}'",
                self.patience()
            ),
        };
        let form = match program {
            ProgramSpec::Bulk(_) => format!("its data is no messages of {tool}"),
            ProgramSpec::Echo(_) => format!(
                "its messages have no form of {tool}, and the next one leaves when the one before is back"
            ),
            _ => format!("its messages have Wirebeat's form, and not that of {tool}"),
        };
        draft.leave_out(&self.line, self.what, format!("{form}; {receiver}"));
    }

    /// How long the receiver has to wait for the next message, where that is longer than usual.
    fn patience(&self) -> String {
        let longest = match self.pace.gap() {
            None => return String::new(),
            Some(Duration::Fixed(gap)) => gap.get() as f64,
            Some(drawn) => match mean(drawn) {
                Some(mean) => mean * SELDOM,
                None => f64::INFINITY,
            },
        };
        let seconds = longest / 1e9;
        match seconds {
            _ if seconds < SessionSpec::DEFAULT_TIMEOUT.as_secs_f64() => String::new(),
            _ if seconds < 3000.0 => format!(" --timeout {}s", (seconds * 1.2).ceil()),
            _ => " --timeout 1h".to_owned(),
        }
    }
}

/// The pool of one address, or of none.
pub(crate) fn one(address: Option<IpAddr>) -> AddressPool {
    AddressPool(address.map(Into::into).into_iter().collect())
}

/// The pool of these ports.
pub(crate) fn ports(range: RangeInclusive<u16>) -> PortPool {
    PortPool(vec![PortRange { first: *range.start(), last: *range.end() }])
}

/// How long messages are that a flow's sizes are. `None`: that cannot be said, which is named.
pub(crate) fn data_size(
    draft: &mut Draft<'_>,
    line: &Line,
    name: &str,
    size: &Size,
) -> Option<DataSize> {
    let bytes = |bytes: u64| DataSize::Fixed(Bytes::new(bytes));
    match size {
        Size::Fixed(length) => Some(bytes(length.bytes.into())),
        Size::Drawn(drawn, _) => Some(DataSize::Drawn(drawn.clone())),
        sizes => {
            let mean = mean_payload(sizes).map(|mean| mean.ceil() as u64);
            let why = match mean {
                Some(mean) => format!(
                    "messages of a session have one size, or sizes of a distribution; here all have the mean, {mean} bytes"
                ),
                None => {
                    "messages of a session have no sizes of a file; the flow is not sent".to_owned()
                }
            };
            draft.leave_out(line, name, why);
            mean.map(bytes)
        }
    }
}
