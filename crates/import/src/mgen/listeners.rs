//! `LISTEN TCP` and `IGNORE TCP` as servers of a scenario: groups of sessions that somebody else opens.
//!
//! A server accepts from the beginning of a run to its end. What a script says of times is named, unless the run can end then.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use wirebeat_traffic::scenario::session::program::{Bulk, Messages};
use wirebeat_traffic::scenario::session::{PoolSpec, PortPool, ProgramSpec, SessionSpec, TcpSpec};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Bytes, Nanos};

use super::reasons::NO_BUFFERS;
use super::stream::BUFFERS;
use crate::draft::Draft;
use crate::session_flow::one;
use crate::{Line, ScriptError};

/// The most ports of a group: as many parts as a pool has.
const PORTS_MAX: usize = 1000;
/// How long a client may be silent. MGEN waits for ever.
const PATIENCE: Nanos = Nanos::from_secs(3600);

/// What a script says of ports where connections are accepted, or no longer.
pub(super) struct StreamListen {
    pub line: Line,
    pub at: Nanos,
    /// What stands in the line.
    pub what: String,
    pub accepts: bool,
    pub ports: Vec<RangeInclusive<u16>>,
    /// The option that says how large the buffer of a socket is, as it is written.
    pub buffer: Option<String>,
}

/// Ports, of which each is taken once: however often a script names them, that takes no longer.
struct UntakenPorts(BTreeSet<u16>);

impl UntakenPorts {
    fn all() -> UntakenPorts {
        UntakenPorts((1..=u16::MAX).collect())
    }

    fn take(&mut self, ranges: &[RangeInclusive<u16>]) -> BTreeSet<u16> {
        let mut taken = BTreeSet::new();
        for range in ranges {
            let within: Vec<u16> = self.0.range(range.clone()).copied().collect();
            within.iter().for_each(|port| _ = self.0.remove(port));
            taken.extend(within);
        }
        taken
    }
}

/// The ports where a script accepts connections at some time.
#[derive(Default)]
pub(super) struct ServedPorts(BTreeSet<u16>);

impl ServedPorts {
    pub fn of(listens: &[StreamListen]) -> ServedPorts {
        let mut untaken = UntakenPorts::all();
        let accepting = listens.iter().filter(|listen| listen.accepts);
        ServedPorts(accepting.flat_map(|listen| untaken.take(&listen.ports)).collect())
    }

    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }
}

/// Adds the servers; the flows are there already.
pub(super) fn add(
    draft: &mut Draft<'_>,
    is_ipv6: bool,
    mut listens: Vec<StreamListen>,
) -> Result<(), ScriptError> {
    listens.sort_by_key(|listen| listen.at);
    let end = end(draft, &listens);
    let without_gaps = without_gaps(draft);
    let mut untaken = UntakenPorts::all();
    let mut port = None;
    for listen in &listens {
        let StreamListen { line, at, what, accepts, .. } = listen;
        if !accepts {
            if end.is_none_or(|end| *at != end) {
                draft.leave_out(line, what, "servers accept until the run ends");
            }
            continue;
        }
        let (bulk, messages): (BTreeSet<u16>, BTreeSet<u16>) =
            untaken.take(&listen.ports).into_iter().partition(|port| without_gaps.contains(port));
        if bulk.is_empty() && messages.is_empty() {
            continue;
        }
        if *at > Nanos::ZERO {
            draft.leave_out(line, what, "servers accept from the beginning of the run on");
        }
        let is_left = draft.scenario.sessions.values().all(|group| group.from.is_none());
        if is_left && end.is_none() && draft.options.time.is_none() {
            let why = "the script never ends it: the run goes on until Ctrl-C, or the 'run.time' that you set";
            draft.leave_out(line, what, why);
        }
        let port = port.get_or_insert_with(|| draft.receiver()).clone();
        let of = Servers { listen, port, is_ipv6 };
        of.add(draft, messages, ProgramSpec::Messages(Box::<Messages>::default()))?;
        of.add(draft, bulk, ProgramSpec::Bulk(Box::<Bulk>::default()))?;
    }
    if let Some(end) = end {
        draft.scenario.run.time = Some(end);
    }
    Ok(())
}

/// When a run of servers alone ends: when the last port is ignored. `None`: some are not, or others end the run.
fn end(draft: &Draft<'_>, listens: &[StreamListen]) -> Option<Nanos> {
    let scenario = &draft.scenario;
    if draft.options.time.is_some() || !scenario.flows.is_empty() || !scenario.sessions.is_empty() {
        return None;
    }
    // of each port the last word counts
    let mut untaken = UntakenPorts::all();
    let is_open = |listen: &StreamListen| !untaken.take(&listen.ports).is_empty() && listen.accepts;
    if listens.iter().rev().any(is_open) {
        return None;
    }
    listens.iter().map(|listen| listen.at).max().filter(|at| *at > Nanos::ZERO)
}

/// The ports of this host to which flows send as fast as they can: bulk data, which is no messages.
fn without_gaps(draft: &Draft<'_>) -> BTreeSet<u16> {
    let is_here = |group: &&SessionSpec| {
        let mut addresses = group.servers.addresses.0.iter();
        matches!(group.program, ProgramSpec::Bulk(_))
            && addresses.any(|range| range.first.is_loopback())
    };
    let groups = draft.scenario.sessions.values().filter(is_here);
    let pools = groups.filter_map(|group| group.servers.ports.as_ref());
    pools.flat_map(|pool| pool.0.iter().map(|range| range.first)).collect()
}

/// What servers of a line have in common.
struct Servers<'a> {
    listen: &'a StreamListen,
    port: String,
    is_ipv6: bool,
}

impl Servers<'_> {
    fn add(
        &self,
        draft: &mut Draft<'_>,
        mut ports: BTreeSet<u16>,
        program: ProgramSpec,
    ) -> Result<(), ScriptError> {
        let StreamListen { line, what, .. } = self.listen;
        if let Some(&beyond) = ports.iter().nth(PORTS_MAX) {
            ports.split_off(&beyond);
            let why =
                format!("servers of a line accept at {PORTS_MAX} ports at most, the first ones");
            draft.leave_out(line, what, why);
        }
        let Some(first) = ports.first() else { return Ok(()) };
        let name = format!("listen-{first}");
        let address: IpAddr = match self.is_ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let group = SessionSpec {
            to: Some(self.port.clone()),
            servers: PoolSpec {
                addresses: one(Some(address)),
                ports: Some(pool(&ports)),
                ..PoolSpec::default()
            },
            timeout: PATIENCE,
            tcp: TcpSpec { receive_buffer: self.buffer(draft), ..TcpSpec::default() },
            ..SessionSpec::new(program)
        };
        draft.session(line, name, group)
    }

    fn buffer(&self, draft: &mut Draft<'_>) -> Option<Bytes> {
        let written = self.listen.buffer.as_ref()?;
        let bytes = written.rsplit(' ').next().and_then(|size| size.parse().ok());
        let bytes = bytes.filter(|bytes| BUFFERS.contains(bytes));
        if bytes.is_none() {
            draft.leave_out(&self.listen.line, written, NO_BUFFERS);
        }
        bytes.map(Bytes::new)
    }
}

/// Ports as ranges.
fn pool(ports: &BTreeSet<u16>) -> PortPool {
    let mut ranges: Vec<PortRange> = Vec::new();
    for &port in ports {
        match ranges.last_mut() {
            Some(range) if range.last.checked_add(1) == Some(port) => range.last = port,
            _ => ranges.push(PortRange { first: port, last: port }),
        }
    }
    PortPool(ranges)
}
