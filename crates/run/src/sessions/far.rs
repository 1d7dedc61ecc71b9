//! Servers on another host: a listener there serves the sessions of a port with a `peer`, where its owner allows that.
//!
//! For the run it is one more of its workers: it is started and ended as those are, shows what its servers count, and leaves their
//! summaries. Its thread speaks on the control connection; a listener that answers no more ends the run.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use wirebeat_converse::End;
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::scenario::session::PoolSpec;
use wirebeat_traffic::values::session::Pool;
use wirebeat_units::Nanos;

use super::shown::{Lost, Shared};
use super::worker::{Finished, Worker};
use crate::error::RunError;
use crate::lab::{Host, peers_of_ports};
use crate::options::Options;
use crate::remote::{
    AskedGroup, AskedServing, Connection, Measurement, ServedSessions, ServingLook, ServingOrder,
    server_part,
};

/// From the decision to start until the first session is due, where a listener on another host has to be told.
pub(super) const LEAD: Nanos = Nanos::from_millis(150);
/// How often it is asked how it goes.
const LOOK: Duration = Duration::from_millis(50);
/// How long it has, beyond the time for sessions that are open, to end what it serves.
const ENDING: Duration = Duration::from_secs(5);

/// Whether the servers of a group are on another host.
pub(super) fn is_far(scenario: &Scenario, group: &SessionGroup) -> bool {
    let port = group.to.as_ref().and_then(|to| scenario.ports.get(to));
    port.is_some_and(|port| port.peer.is_some())
}

/// Has listeners on other hosts accept the sessions that go to ports there.
///
/// # Errors
/// A listener that cannot be reached, or what its owner does not allow.
pub(super) fn open(
    scenario: &Scenario,
    sessions: &Sessions,
    options: &Options,
) -> Result<Vec<Worker>, RunError> {
    let mut workers = Vec::new();
    for (host, peer) in peers_of_ports(scenario, options) {
        let Host::Port(port) = host else { continue };
        let (asked, places, most_open) = asked(scenario, sessions, &port);
        if asked.groups.is_empty() {
            continue;
        }
        let connection = Connection::open(&peer)?;
        connection.check_serving(&asked, most_open)?;
        let address = connection.address();
        let settle = scenario.run.settle;
        let numbers = asked.groups.iter().map(|group| group.number).collect();
        let mut measurement = connection.begin(Vec::new())?;
        let listening = measurement.prepare_serving(asked)?;
        let listening = listening.into_iter().map(|place| (place.group, place.address)).collect();
        let peer = address.to_string();
        let far = FarServer { measurement, numbers, places, settle, peer };
        workers
            .push(Worker::elsewhere(&port, listening, |shared, begins| far.run(shared, begins))?);
    }
    Ok(workers)
}

/// What the listener of the port `port` is to serve, the places of its groups among all, and how many sessions may be open at a time.
fn asked(
    scenario: &Scenario,
    sessions: &Sessions,
    port: &str,
) -> (AskedServing, Vec<usize>, Option<u64>) {
    let mine = sessions.groups.iter().zip(scenario.sessions.values()).enumerate();
    let mine: Vec<_> = mine.filter(|(_, (group, _))| group.to.as_deref() == Some(port)).collect();
    let groups = mine.iter().map(|(place, (group, spec))| AskedGroup {
        number: *place as u32,
        name: group.name.clone(),
        session: Box::new(server_part(spec, pool(group))),
    });
    let groups = groups.collect();
    let open = |group: &SessionGroup| {
        let limit = group.limit.and_then(|limit| limit.most_open());
        limit.or(group.users).map(u64::from)
    };
    let most_open =
        mine.iter().filter_map(|(_, (group, _))| open(group)).reduce(u64::saturating_add);
    let asked = AskedServing {
        run: 0,
        seed: scenario.seed,
        time_ns: scenario.run.time.map(Nanos::get),
        settle_ns: scenario.run.settle.get(),
        groups,
    };
    (asked, mine.iter().map(|(place, _)| *place).collect(), most_open)
}

/// Where a group is accepted, as it is written.
fn pool(group: &SessionGroup) -> PoolSpec {
    let Pool { addresses, ports, order, .. } = group.servers.pool.clone();
    PoolSpec { addresses, ports, order, mac: None }
}

/// A listener that serves sessions of this run.
struct FarServer {
    measurement: Measurement,
    /// Its groups' numbers on the wire, and their places in the run.
    numbers: Vec<u32>,
    places: Vec<usize>,
    settle: Nanos,
    peer: String,
}

impl FarServer {
    /// Speaks with it until it has told what it served.
    fn run(mut self, shared: &Shared, begins: &Receiver<Nanos>) -> Finished {
        let served = self.attend(shared, begins);
        match served {
            Ok(Some(served)) => {
                let ServedSessions { mut groups, summary } = served;
                let told = self.numbers.iter().zip(&self.places);
                let summaries = told.filter_map(|(number, place)| {
                    Some((*place, End::Server, groups.remove(number)?))
                });
                let summaries: Vec<_> = summaries.collect();
                let last: Vec<_> =
                    summaries.iter().map(|(place, end, of)| (*place, *end, of.counts)).collect();
                shared.show(last);
                if let Some(why) = summary.ended {
                    shared.lose(Lost { peer: self.peer.clone(), why });
                }
                // the connection ends in order; that the listener is gone by now changes nothing
                let _ = self.measurement.finish(Nanos::ZERO);
                Finished { summaries, ..Finished::default() }
            }
            Ok(None) => Finished::default(),
            Err(why) => {
                shared.lose(Lost { peer: self.peer, why });
                Finished::default()
            }
        }
    }

    /// `None`: it was never started. An error says why nothing is known of it.
    fn attend(
        &mut self,
        shared: &Shared,
        begins: &Receiver<Nanos>,
    ) -> Result<Option<ServedSessions>, String> {
        let mut is_started = false;
        let mut until: Option<Instant> = None;
        loop {
            let order = match shared.order() {
                0 => ServingOrder::GoOn,
                super::shown::CLOSE => ServingOrder::Stop,
                _ => ServingOrder::Finish,
            };
            if order != ServingOrder::GoOn {
                if !is_started {
                    return Ok(None);
                }
                let ends = || Instant::now() + self.settle.to_duration() + ENDING;
                let until = *until.get_or_insert_with(ends);
                if Instant::now() >= until {
                    return Err("it did not end what it serves".to_owned());
                }
            }
            let look = self.measurement.look_at_serving(order, &self.numbers);
            match look.map_err(|error| error.to_string())? {
                ServingLook::Serving(counts) => {
                    let counts = self.places.iter().zip(counts);
                    shared.show(counts.map(|(place, of)| (*place, End::Server, of)).collect());
                }
                ServingLook::Ended(served) => return Ok(Some(*served)),
            }
            match begins.recv_timeout(LOOK) {
                Ok(begin) => {
                    is_started = true;
                    let started = self.measurement.start_serving(begin);
                    started.map_err(|error| error.to_string())?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // the run ended before it began
                Err(RecvTimeoutError::Disconnected) if !is_started => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
        }
    }
}
