//! Test cases as groups of sessions. The clients of one test case and the servers of another that share addresses and ports are one
//! group with both ends, where nobody else shares them and both are told the same; else each end is a group of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};

use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::dscp::Dscp;
use wirebeat_traffic::scenario::session::{
    AddressPool, AddressRange, After, Limit, MAX_USERS, PoolSpec, PortPool, SessionSpec,
    StackChoice, Transport, Until,
};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Nanos, Rate};

use super::command::{CaseId, End};
use super::places::Places;
use super::program::{DAY, Work, deviation, is_idle, of_clients, of_servers, uptime};
use super::schedule::Plan;
use super::setup::{App, Case, Setup};
use crate::ScriptError;
use crate::draft::Draft;

/// How long sessions that never close stay open, behind the time that it takes to open as many as the test case waits for.
const HELD: Nanos = Nanos::from_secs(10);
/// So many sessions begin at one moment on a cable in memory without being lost.
const AT_ONCE: u64 = 10_000;

/// Ports that our own TCP chooses from for each client address.
const CHOSEN: u64 = 64_512;
/// Below it are ports of services, which our servers over UDP do not answer.
const FIRST_CLIENT_PORT: u16 = 1024;

pub(super) struct Groups<'a, 'b, 'c> {
    pub setup: &'a Setup,
    pub places: &'a Places,
    pub plans: &'a BTreeMap<CaseId, Plan>,
    pub draft: &'c mut Draft<'b>,
    /// The first group of each test case, its sessions, and those of the whole test case.
    made: BTreeMap<CaseId, (String, u64, u64)>,
    /// Test cases whose limits of latency are expectations.
    judged: BTreeSet<CaseId>,
}

/// An app of a test case, and its share.
struct Part<'a> {
    index: Option<u32>,
    app: &'a App,
    weight: u32,
    sum: u32,
    /// Its part of the test case's own ports; `None`: there are too few.
    ports: Option<PortRange>,
}

impl Part<'_> {
    /// Its share of a number.
    fn share(&self, all: u64) -> u64 {
        (u128::from(all) * u128::from(self.weight) / u128::from(self.sum.max(1))) as u64
    }
}

/// Where a group's sessions come from and go to.
struct Ends {
    clients: PoolSpec,
    servers: PoolSpec,
    sessions: u64,
}

impl<'a, 'b, 'c> Groups<'a, 'b, 'c> {
    pub fn new(
        (setup, places): (&'a Setup, &'a Places),
        plans: &'a BTreeMap<CaseId, Plan>,
        draft: &'c mut Draft<'b>,
    ) -> Groups<'a, 'b, 'c> {
        Groups { setup, places, plans, draft, made: BTreeMap::new(), judged: BTreeSet::new() }
    }

    /// Adds a group for each test case, or flows.
    pub fn add(&mut self) -> Result<(), ScriptError> {
        let mut paired = Vec::new();
        for (id, plan) in self.plans {
            let Some(case) = self.case(*id) else { continue };
            if self
                .draft
                .scenario
                .run
                .time
                .is_some_and(|time| plan.after.is_none() && plan.start >= time)
            {
                self.tell(*id, "it would start when the run has ended");
                continue;
            }
            if case.end == End::MulticastSource {
                super::multicast::flow((*id, case), plan, self.places, self.draft)?;
                continue;
            }
            let partner = self.partner(*id, case);
            paired.extend(partner.map(|(server, _)| server));
            self.clients((*id, case), plan, partner)?;
        }
        for (&port, eth) in &self.setup.ports {
            for (&number, case) in eth.cases.iter().filter(|(_, case)| case.end == End::Server) {
                let id = CaseId { port, case: number };
                if !paired.contains(&id) {
                    self.servers(id, case)?;
                }
            }
        }
        for (id, case) in self.others(|case| case.latency.is_some()) {
            let Some(of) = case.latency.as_ref().filter(|_| !self.judged.contains(&id)) else {
                continue;
            };
            self.draft.leave_out(&of.line, &of.text, LATENCY);
        }
        Ok(())
    }

    /// Limits of latency as expectations: of what goes one way, in messages that bear their times there and here.
    fn judge(
        &mut self,
        (id, receiver): (CaseId, &Case),
        group: &mut SessionSpec,
    ) -> Result<(), ScriptError> {
        let Some(latency) = receiver.latency.as_ref().filter(|_| receiver.is_stamped) else {
            return Ok(());
        };
        if group.program.name() != "messages" {
            return Ok(());
        }
        let mut texts = Vec::new();
        for (what, limit) in [("max", latency.max), ("mean", latency.average)] {
            if limit > 0 {
                texts.push(format!("delay.{what}.actual <= {limit}us"));
            }
        }
        for text in &texts {
            let expected = text.parse();
            group
                .expect
                .push(expected.map_err(|why: wirebeat_units::Fault| latency.line.wrong(why))?);
        }
        if self.judged.insert(id) {
            let why = format!(
                "it is an expectation, '{}', of all messages: a run that does not meet it ends with exit code 4, and WARP17 counts each packet \
                 beyond the limit, the mean being that of all packets until then",
                texts.join("', '")
            );
            self.draft.leave_out(&latency.line, &latency.text, why);
        }
        Ok(())
    }

    fn case(&self, id: CaseId) -> Option<&'a Case> {
        self.setup.ports.get(&id.port)?.cases.get(&id.case)
    }

    fn tell(&mut self, id: CaseId, why: impl Into<String>) {
        let Some(case) = self.case(id) else { return };
        self.draft.leave_out(&case.line, &format!("test case {}", id.case), why);
    }

    /// The test cases of servers that clients of these go to.
    fn servers_of(&self, client: &Case) -> Vec<(CaseId, &'a Case)> {
        self.others(|other| other.end == End::Server && meet(client, other))
    }

    /// The test cases that start, and whose clients go to these servers.
    fn clients_of(&self, server: &Case) -> Vec<(CaseId, &'a Case)> {
        let mut clients = self.others(|other| other.end == End::Client && meet(other, server));
        clients.retain(|(id, _)| self.plans.contains_key(id));
        clients
    }

    fn others(&self, is_wanted: impl Fn(&Case) -> bool) -> Vec<(CaseId, &'a Case)> {
        let all = self.setup.ports.iter().flat_map(|(&port, eth)| {
            eth.cases.iter().map(move |(&case, of)| (CaseId { port, case }, of))
        });
        all.filter(|(_, case)| is_wanted(case)).collect()
    }

    /// The servers of clients, where both become one group.
    fn partner(&mut self, id: CaseId, client: &Case) -> Option<(CaseId, &'a Case)> {
        let [(at, server)] = *self.servers_of(client) else { return None };
        let [(only, _)] = *self.clients_of(server) else { return None };
        let (to, of) = (client.pools.peers?, server.pools.own);
        let within = of.0.first <= to.0.first
            && to.0.last <= of.0.last
            && of.1.first <= to.1.first
            && to.1.last <= of.1.last;
        let alike = matches!(
            (&client.app, &server.app),
            (App::Raw { .. }, App::Raw { .. }) | (App::Http(_), App::Http(_))
        );
        if only != id || !within || !alike {
            return None;
        }
        if client.tcp() != server.tcp() || client.tos >> 2 != server.tos >> 2 {
            let why = format!(
                "its options of TCP or IPv4 are not those of its clients (test case {} of port {}): each end is a group of its own, and what \
                 one sends is not compared with what the other gets",
                id.case, id.port
            );
            self.tell(at, why);
            return None;
        }
        if let (App::Raw { request, response }, App::Raw { .. }) = (&client.app, &server.app)
            && client.app != server.app
            && !is_idle(client, &client.app)
        {
            let why =
                format!("its clients have the lengths {request} and {response}, and these hold");
            self.draft.leave_out(&server.app_line, &format!("raw of test case {}", at.case), why);
        }
        Some((at, server))
    }

    /// The apps of a test case, which share its own ports.
    fn parts(&self, case: &'a Case) -> Vec<Part<'a>> {
        let setup: &'a Setup = self.setup;
        let apps = setup.apps_of(case);
        let sum: u32 = apps.iter().map(|(_, _, weight)| weight).sum();
        let PortRange { first, last } = case.pools.own.1;
        let all = u32::from(last - first) + 1;
        let mut before = 0;
        let part = |(index, app, weight)| {
            let place =
                |weights: u32| (u64::from(all) * u64::from(weights) / u64::from(sum.max(1))) as u16;
            let (from, to) = (place(before), place(before + weight));
            before += weight;
            let ports =
                (to > from).then(|| PortRange { first: first + from, last: first + (to - 1) });
            Part { index, app, weight, sum, ports }
        };
        apps.into_iter().map(part).collect()
    }

    fn clients(
        &mut self,
        (id, case): (CaseId, &'a Case),
        plan: &Plan,
        partner: Option<(CaseId, &'a Case)>,
    ) -> Result<(), ScriptError> {
        let why = match case.open {
            _ if self.is_http_over_udp(case) => Some(HTTP_OVER_UDP),
            Some(0) => Some("at an opening rate of 0 no session opens"),
            _ => None,
        };
        if let Some(why) = why {
            self.tell(id, why);
            return Ok(());
        }
        let after = match plan.after {
            None => None,
            Some((before, established)) => {
                let before = CaseId { case: before, ..id };
                let Some((group, part, all)) = self.made.get(&before) else {
                    self.tell(
                        id,
                        format!("test case {} is left out, and this one waits for it", before.case),
                    );
                    return Ok(());
                };
                let share = u128::from(established) * u128::from(*part) / u128::from((*all).max(1));
                let share = u64::try_from(share).unwrap_or(u64::MAX).clamp(1, (*part).max(1));
                Some(After {
                    group: group.clone(),
                    established: NonZeroU64::new(share).unwrap_or(NonZeroU64::MIN),
                })
            }
        };
        let parts = self.parts(case);
        if parts.is_empty() {
            self.tell(id, "its IMIX group has no app with a weight");
            return Ok(());
        }
        let chosen = parts.iter().any(|part| part.ports.is_none());
        let answered = !self.servers_of(case).is_empty();
        for part in &parts {
            let name = name(id, part.index);
            let Some(ends) = self.ends((id, case), part, chosen) else { continue };
            let work = Work::of(&Scaled { case, part }.case(), ends.sessions, answered);
            let server = partner.map(|(_, server)| &server.app);
            let Some(program) = of_clients((case, part.app), server, &work) else {
                self.draft.leave_out(&case.app_line, &name, "it sends nothing");
                continue;
            };
            if let Some(why) = deviation(case, part.app, &work) {
                self.draft.leave_out(&case.app_line, &name, why);
            }
            let mut group = SessionSpec {
                from: Some(self.places.name(id.port, case.vlan)),
                to: partner.map(|(id, server)| self.places.name(id.port, server.vlan)),
                clients: ends.clients,
                servers: ends.servers,
                after: after.clone(),
                ..common(case, SessionSpec::new(program))
            };
            self.times((id, case), plan, &mut group);
            if is_idle(case, part.app) && uptime(case).is_none() {
                group.hold = Some(Duration::Fixed(match plan.established {
                    // until all that the test case waits for are there
                    Some(count) => {
                        let opening = case.open.map_or(0, |open| count / open.max(1));
                        HELD.saturating_add(Nanos::from_secs(opening.into()))
                    }
                    None => self.rest(plan),
                }));
            }
            if let Some(gap) = work.gap.filter(|_| case.transport == Transport::Udp) {
                group.timeout = group.timeout.max(gap.saturating_add(gap));
            }
            self.limits(case, part, ends.sessions, &mut group);
            if let Some(count) = plan.established {
                let share = part.share(count.into()).clamp(1, ends.sessions.max(1));
                let expected = format!("established >= {share}").parse();
                group
                    .expect
                    .push(expected.map_err(|why: wirebeat_units::Fault| case.line.wrong(why))?);
                let established = NonZeroU64::new(share).unwrap_or(NonZeroU64::MIN);
                group.until = Some(Until { established });
            }
            if let Some((server, receiver)) = partner.filter(|_| case.is_stamped) {
                self.judge((server, receiver), &mut group)?;
            }
            self.made.entry(id).or_insert((name.clone(), ends.sessions, case.sessions()));
            self.draft.session(&case.line, name, group)?;
        }
        Ok(())
    }

    /// The pools of a part of a test case of clients. Our clients take addresses and ports in turn, by the number of the session, so each
    /// meets each only where that comes to all pairs.
    fn ends(&mut self, (id, case): (CaseId, &Case), part: &Part<'_>, chosen: bool) -> Option<Ends> {
        let (to, to_ports) = case.pools.peers?;
        let own = part.ports.filter(|_| !chosen).unwrap_or(case.pools.own.1);
        let (clients, servers) = (case.pools.own.0.len(), to.len());
        let (ports, server_ports) = (len(own), len(to_ports));
        let all = clients.saturating_mul(ports);
        let peers = servers.saturating_mul(server_ports);
        let wanted = match chosen {
            true => part.share(case.sessions()).max(1),
            false => all.saturating_mul(peers),
        };
        let mut keeps = !chosen;
        if chosen {
            self.tell(
                id,
                "there are fewer ports of clients than apps: our stack chooses the ports",
            );
        } else if wanted > multiple(all, peers) {
            keeps = false;
            let why = format!(
                "each of {all} client addresses and ports is to go to each of {peers} of the servers, and our clients take both in turn: our \
                 stack chooses the ports of the clients"
            );
            self.tell(id, why);
        } else if case.transport == Transport::Udp && is_mistaken(own, to_ports) {
            keeps = false;
            let why = "servers over UDP answer no ports below 1024 and not their own, so that they cannot be turned against each other: our \
                       stack chooses the ports of the clients";
            self.tell(id, why);
        }
        let room = match keeps {
            true => wanted,
            false => multiple(clients, peers).saturating_mul(CHOSEN),
        };
        let sessions = wanted.min(room).min(MAX_USERS.into());
        if sessions < wanted {
            self.tell(id, format!("it has {wanted} sessions, and {sessions} is the most that a group of these pools can have here"));
        }
        let pool = |range: AddressRange, ports: Option<PortRange>| PoolSpec {
            addresses: AddressPool(vec![range]),
            ports: ports.map(|ports| PortPool(vec![ports])),
            ..PoolSpec::default()
        };
        Some(Ends {
            clients: pool(case.pools.own.0, Some(own).filter(|_| keeps)),
            servers: pool(to, Some(to_ports)),
            sessions,
        })
    }

    /// When sessions start, and how long they stay.
    fn times(&mut self, (id, case): (CaseId, &Case), plan: &Plan, group: &mut SessionSpec) {
        let ends_with_run = |stop: &Nanos| {
            plan.after.is_none() && self.draft.scenario.run.time.is_some_and(|time| time <= *stop)
        };
        group.start = plan.start;
        group.stop = plan.stop.filter(|stop| !ends_with_run(stop));
        let seconds = |time: u32| Duration::Fixed(Nanos::from_secs(time.into()));
        group.hold = uptime(case).filter(|time| *time > 0).map(seconds);
        if group.stop.is_some() && uptime(case).is_none() {
            let why = "sessions that are open when it ends go on to the end of the run; WARP17 drops them";
            self.tell(id, why);
        }
        if plan.stop.is_none() && plan.established.is_none() {
            self.tell(id, "no criterion ends it: it goes on to the end of the run");
        }
        if case.close == Some(0) {
            self.tell(id, "at a closing rate of 0 sessions never close");
        }
    }

    /// How many sessions there are, and how fast they open, close and send.
    fn limits(&mut self, case: &Case, part: &Part<'_>, sessions: u64, group: &mut SessionSpec) {
        group.users = u32::try_from(sessions).ok().and_then(NonZeroU32::new);
        match case.downtime {
            // a session that closed stays closed
            None => group.count = NonZeroU64::new(sessions),
            Some(0) => {}
            Some(time) => group.think = Some(Duration::Fixed(Nanos::from_secs(time.into()))),
        }
        let rate = |rate: Option<u32>| -> Option<Rate> {
            let rate = rate.filter(|rate| *rate > 0)?;
            format!("{}/s", part.share(rate.into()).max(1)).parse().ok()
        };
        let is_messages = group.program.name() == "messages";
        let mut opening = rate(case.open);
        if opening.is_none() && self.places.in_memory && sessions > AT_ONCE {
            // all SYNs at one moment are more than a cable has room for
            opening = "100000/s".parse().ok();
            let why =
                "all sessions begin at once there; on a cable in memory 100000 begin in a second";
            self.draft.leave_out(&case.line, "rate open infinite", why);
        }
        let limit = Limit {
            opening,
            closing: rate(case.close).filter(|_| uptime(case).is_some()),
            // messages have their gap
            sending: rate(case.send).filter(|_| !is_messages && !is_idle(case, part.app)),
            ..Limit::default()
        };
        group.limit = Some(limit).filter(|limit| *limit != Limit::default());
    }

    /// How long it is from the start of a test case to its end.
    fn rest(&self, plan: &Plan) -> Nanos {
        let end = match plan.after {
            Some(_) => plan.stop,
            None => plan.stop.or(self.draft.scenario.run.time),
        };
        end.map_or(DAY, |end| end.saturating_sub(plan.start)).min(DAY)
    }

    fn is_http_over_udp(&self, case: &Case) -> bool {
        let apps = self.setup.apps_of(case);
        case.transport == Transport::Udp
            && apps.iter().any(|(_, app, _)| matches!(app, App::Http(_)))
    }

    fn servers(&mut self, id: CaseId, case: &'a Case) -> Result<(), ScriptError> {
        if self.is_http_over_udp(case) {
            self.tell(id, HTTP_OVER_UDP);
            return Ok(());
        }
        let parts = self.parts(case);
        if parts.is_empty() {
            self.tell(id, "its IMIX group has no app with a weight");
        }
        if parts.len() > 1 {
            let why = "a server knows by its port what to say: each app has a part of the ports by its weight, rather than every so many \
                       sessions";
            self.draft.leave_out(&case.app_line, &format!("IMIX of test case {}", id.case), why);
        }
        for part in parts {
            let name = name(id, part.index);
            let Some(ports) = part.ports else {
                self.draft.leave_out(
                    &case.app_line,
                    &name,
                    "there are fewer ports of servers than apps",
                );
                continue;
            };
            let work = self.work_of_servers(id, case, part.app);
            let Some(program) = of_servers(case, part.app, &work) else {
                self.draft.leave_out(&case.app_line, &name, "it answers nothing");
                continue;
            };
            let mut group = SessionSpec {
                to: Some(self.places.name(id.port, case.vlan)),
                servers: PoolSpec {
                    addresses: AddressPool(vec![case.pools.own.0]),
                    ports: Some(PortPool(vec![ports])),
                    ..PoolSpec::default()
                },
                ..common(case, SessionSpec::new(program))
            };
            self.judge((id, case), &mut group)?;
            self.draft.session(&case.line, name, group)?;
        }
        Ok(())
    }

    /// How many requests servers wait for: as many as their clients have, where all have as many.
    fn work_of_servers(&mut self, id: CaseId, case: &Case, app: &App) -> Work {
        let clients = self.clients_of(case);
        let endless = Work::endless(!clients.is_empty());
        let is_exchange =
            matches!(app, App::Raw { request, response } if *request > 0 && *response > 0);
        let all: Vec<NonZeroU32> = clients
            .iter()
            .map(|(_, client)| {
                Work::of(client, client.sessions().min(MAX_USERS.into()), true).requests
            })
            .collect();
        let Some(first) = all.first().filter(|_| is_exchange && case.transport == Transport::Tcp)
        else {
            return endless;
        };
        if all.iter().all(|requests| requests == first) {
            return Work { requests: *first, ..endless };
        }
        let why = "its clients have various numbers of requests: sessions whose clients close count as 'closed-early' at the servers";
        self.tell(id, why);
        endless
    }
}

/// A test case with the rates of one of its apps.
struct Scaled<'a> {
    case: &'a Case,
    part: &'a Part<'a>,
}

impl Scaled<'_> {
    fn case(&self) -> Case {
        let Case { line, end, transport, pools, .. } = self.case;
        let send = self.case.send.map(|rate| match rate {
            0 => 0,
            rate => u32::try_from(self.part.share(rate.into())).unwrap_or(u32::MAX).max(1),
        });
        Case {
            uptime: self.case.uptime,
            close: self.case.close,
            send,
            ..Case::new(line, *end, *transport, *pools)
        }
    }
}

const LATENCY: &str = "it becomes an expectation only where messages go one way over UDP and packets bear times; here response times are \
                       measured without it: for a limit write for example 'expect: [ response.max < 80us ]' into the group";

const HTTP_OVER_UDP: &str =
    "HTTP/1.1 needs a stream that loses nothing, and the test case is over UDP";

/// What the ends have in common.
fn common(case: &Case, group: SessionSpec) -> SessionSpec {
    SessionSpec {
        stack: StackChoice::Own,
        transport: case.transport,
        tcp: case.tcp(),
        dscp: Dscp::new(case.tos >> 2).filter(|_| case.tos >> 2 != 0),
        ..group
    }
}

fn name(id: CaseId, app: Option<u32>) -> String {
    match app {
        None => format!("port-{}-test-{}", id.port, id.case),
        Some(app) => format!("port-{}-test-{}-app-{app}", id.port, id.case),
    }
}

/// Whether clients of `client` go to servers of `server`.
fn meet(client: &Case, server: &Case) -> bool {
    let Some((to, to_ports)) = client.pools.peers else { return false };
    let (of, of_ports) = server.pools.own;
    client.transport == server.transport
        && to.first <= of.last
        && of.first <= to.last
        && to_ports.first <= of_ports.last
        && of_ports.first <= to_ports.last
}

/// Whether our servers over UDP would take a client's port for a server's.
fn is_mistaken(own: PortRange, servers: PortRange) -> bool {
    own.first < FIRST_CLIENT_PORT || own.first <= servers.last && servers.first <= own.last
}

fn len(ports: PortRange) -> u64 {
    u64::from(ports.last - ports.first) + 1
}

/// The least common multiple: how many pairs come when two lists are taken in turn.
fn multiple(a: u64, b: u64) -> u64 {
    let (mut high, mut low) = (a.max(1), b.max(1));
    while low != 0 {
        (high, low) = (low, high % low);
    }
    (a.max(1) / high).saturating_mul(b.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_two_lists_in_turn_are_their_least_common_multiple() {
        for (a, b, expected) in
            [(50_000, 200, 50_000), (10_001, 101, 1_010_101), (1, 7, 7), (4, 6, 12)]
        {
            assert_eq!(multiple(a, b), expected, "{a} {b}");
        }
    }
}
