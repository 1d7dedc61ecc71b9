//! Wirebeat's own sessions, run as its command line runs them: a scenario through `wirebeat-run`, with clients at the near end of the cable,
//! servers at the far end, or both. What was done in a second is counted between two looks in the middle of a run.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::model::{Interval, Report, SessionEnd};
use wirebeat_run::{Observer, Options, Progress, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::frames::{FAR, NEAR};
use crate::lab::{Failure, Lab};
use crate::wirebeat::whole;

/// From the start of a run until it is counted: connections are made, windows open.
const WARM_UP: Nanos = Nanos::from_millis(300);
/// How often a run is looked at.
const LOOK: Nanos = Nanos::from_millis(100);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Whose TCP an end of ours speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcp {
    /// The system's, by sockets.
    Host,
    /// Our own, over the engine `packet`; on the cable alone.
    Packet,
    /// The same, over the engine `kernel`.
    Kernel,
}

impl Tcp {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Tcp::Host => "Wirebeat, stack: host",
            Tcp::Packet => "Wirebeat, stack: own, engine packet",
            Tcp::Kernel => "Wirebeat, stack: own, engine kernel",
        }
    }

    /// The key of a group of sessions.
    const fn key(self) -> &'static str {
        match self {
            Tcp::Host => "stack: host",
            Tcp::Packet | Tcp::Kernel => "stack: own",
        }
    }

    /// The keys of its port at an end of the cable.
    fn port(self, lab: &Lab, near: bool) -> String {
        match self {
            Tcp::Host => String::new(),
            Tcp::Packet | Tcp::Kernel => {
                let end = if near { lab.near() } else { lab.far() };
                let engine = if self == Tcp::Packet { "packet" } else { "kernel" };
                format!("interface: {}, engine: {engine}, ", end.link.name)
            }
        }
    }

    /// The address that it has at an end of the path.
    fn address(self, lab: &Lab, path: Path, near: bool) -> Ipv4Addr {
        match (self, path) {
            (Tcp::Host, Path::Loopback) => Ipv4Addr::LOCALHOST,
            (Tcp::Host, Path::Cable) if near => lab.near().ipv4,
            (Tcp::Host, Path::Cable) => lab.far().ipv4,
            // nobody has them
            (Tcp::Packet | Tcp::Kernel, _) => {
                let [a, b, c, _] = lab.near().ipv4.octets();
                Ipv4Addr::new(a, b, c, if near { 101 } else { 102 })
            }
        }
    }
}

/// The way that segments take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The cable between the namespaces.
    Cable,
    /// The loopback interface of the near namespace.
    Loopback,
}

impl Path {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Path::Cable => "veth",
            Path::Loopback => "loopback",
        }
    }

    /// The address at which somebody of the system's TCP serves.
    pub fn server(self, lab: &Lab) -> Ipv4Addr {
        Tcp::Host.address(lab, self, false)
    }
}

/// A group of sessions, whose ends may be somebody else's.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Our clients; `None`: somebody else's.
    pub client: Option<Tcp>,
    /// Our servers; `None`: somebody else's, of the system's TCP.
    pub server: Option<Tcp>,
    /// The way between them.
    pub path: Path,
    /// The port of the servers.
    pub port: u16,
    /// The program, in the words of the language.
    pub keys: &'a str,
    /// What is asked of the starts of our clients, in these words.
    pub starts: &'a str,
    /// What the run is asked: in the words of the language.
    pub run: &'a str,
}

/// What ends of ours did in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Sessions of clients that ended in order.
    pub closed: f64,
    /// Responses to clients.
    pub responses: f64,
    /// Bytes that were delivered to clients and servers.
    pub delivered: f64,
}

impl Group<'_> {
    /// The scenario of the ends that are ours; `server` is where sessions go to.
    fn scenario(&self, lab: &Lab, server: Ipv4Addr) -> Result<Scenario, Failure> {
        let tcp = self.client.or(self.server).ok_or("a group without an end of ours")?;
        let (mut ports, mut ends) = (String::new(), String::new());
        let far = match self.path {
            Path::Cable => FAR,
            Path::Loopback => NEAR,
        };
        for (name, key, namespace, ours, core) in [
            ("clients", "from", NEAR, self.client, lab.cores.send),
            ("servers", "to", far, self.server, lab.cores.other),
        ] {
            if let Some(tcp) = ours {
                let address = tcp.address(lab, self.path, key == "from");
                ports.push_str(&format!(
                    "  {name}: {{ {}namespace: {namespace}, addresses: [ {address} ], cores: [ {core} ] }}\n",
                    tcp.port(lab, key == "from")
                ));
                ends.push_str(&format!("{key}: {name}, "));
            }
        }
        let starts = if self.client.is_some() { self.starts } else { "" };
        let text = format!(
            "ports:\n{ports}sessions:\n  bench: {{ {ends}{}, servers: {{ addresses: {server}, ports: {} }}, {}, {starts} }}\n\
             run: {{ {} }}\n",
            tcp.key(),
            self.port,
            self.keys,
            self.run
        );
        Ok(Scenario::from_yaml(&text, "bench").map_err(|why| format!("{why}\n{text}"))?)
    }

    /// Runs both ends, or that which is ours, until `time` of it was counted. Ends that speak different TCPs run apart.
    pub fn count(&self, lab: &Lab, time: Duration) -> Result<Done, Failure> {
        if self.server.is_some() && self.client != self.server {
            return self.count_apart(lab, time);
        }
        let (stop, server) = (Stop::new(), self.server_address(lab));
        let mut watch = Watch::counting(time, Some(stop.clone()));
        client_is_whole(&self.run(lab, server, &mut watch, &stop)?)?;
        watch.done().ok_or_else(|| "it ended before it was counted".into())
    }

    /// Runs both ends, servers and clients each in a run of its own, as `wirebeat serve` and `wirebeat load` do: neither knows
    /// what the other sends.
    pub fn count_apart(&self, lab: &Lab, time: Duration) -> Result<Done, Failure> {
        let clients = Group { server: None, ..*self };
        let work = || {
            let (stop, server) = (Stop::new(), self.server_address(lab));
            let mut watch = Watch::counting(time, Some(stop.clone()));
            client_is_whole(&clients.run(lab, server, &mut watch, &stop)?)?;
            watch.done().ok_or_else(|| "it ended before it was counted".into())
        };
        let (done, served) = self.served(lab, Watch::counting(time, None), work)?;
        let served = served.ok_or("its server ended before it was counted")?;
        Ok(Done { delivered: done.delivered + served.delivered, ..done })
    }

    /// Runs both ends for as long as the keys say.
    pub fn report(&self, lab: &Lab) -> Result<Report, Failure> {
        let server = self.server_address(lab);
        let report = self.run(lab, server, &mut Watch::default(), &Stop::new())?;
        client_is_whole(&report)?;
        Ok(report)
    }

    /// Runs the servers while `work` is done by others.
    pub fn beside<T>(
        &self,
        lab: &Lab,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        Ok(self.served(lab, Watch::default(), work)?.0)
    }

    /// Runs the servers while `work` is done, and says what they counted.
    fn served<T>(
        &self,
        lab: &Lab,
        watch: Watch,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, Option<Done>), Failure> {
        let servers = Group { client: None, ..*self };
        let server = self.server_address(lab);
        let stop = Stop::new();
        let (listens, listening) = mpsc::channel();
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut watch = Watch { listens: Some(listens), ..watch };
                servers.run(lab, server, &mut watch, &stop)?;
                Ok::<_, Failure>(watch.done())
            });
            let done = match listening.recv_timeout(LONG) {
                Ok(()) => work(),
                Err(_) => Err("the server did not listen".into()),
            };
            stop.ask(0);
            // the run's own error says more than that nothing was served
            let served = serving.join().map_err(|_| "the server panicked")??;
            Ok((done?, served))
        })
    }

    /// The address that sessions go to.
    pub fn server_address(&self, lab: &Lab) -> Ipv4Addr {
        self.server.unwrap_or(Tcp::Host).address(lab, self.path, false)
    }

    fn run(
        &self,
        lab: &Lab,
        server: Ipv4Addr,
        observer: &mut Watch,
        stop: &Stop,
    ) -> Result<Report, Failure> {
        let mut options = Options { interval: Some(LOOK), ..Options::default() };
        for (name, end) in [(NEAR, lab.near()), (FAR, lab.far())] {
            options.namespaces.insert(name.to_owned(), end.namespace.clone());
        }
        whole(prepare(&self.scenario(lab, server)?, options)?.start(observer, stop))
    }
}

/// That no session of clients failed.
fn client_is_whole(report: &Report) -> Result<(), Failure> {
    for group in report.sessions.iter().filter(|group| group.end == SessionEnd::Client) {
        let ends = &group.ends;
        let here = [("failed here", ends.failed_here)];
        for (how, count) in ends.failed_there().into_iter().chain(here) {
            if count > 0 {
                let (opened, name) = (group.starts.opened, &group.name);
                return Err(format!("of {opened} sessions of {name} {count} {how}").into());
            }
        }
    }
    Ok(())
}

/// Looks at a run.
#[derive(Debug, Default)]
struct Watch {
    /// Told when servers listen.
    listens: Option<mpsc::Sender<()>>,
    counting: Option<Counting>,
}

impl Watch {
    fn counting(time: Duration, stop: Option<Stop>) -> Watch {
        Watch { listens: None, counting: Some(Counting::new(time, stop)) }
    }

    fn done(&self) -> Option<Done> {
        self.counting.as_ref()?.done()
    }
}

impl Observer for Watch {
    fn progress(&mut self, _progress: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn listening(&mut self, _address: SocketAddr) {
        if let Some(listens) = &self.listens {
            // the one who waits may have gone
            let _ = listens.send(());
        }
    }

    fn interval(&mut self, interval: &Interval) {
        if let Some(counting) = &mut self.counting {
            counting.add(interval, Instant::now());
        }
    }
}

/// Counts what a run does from its warm-up on, and stops it when that is enough.
#[derive(Debug)]
struct Counting {
    /// How long is counted, in nanoseconds.
    time: u64,
    stop: Option<Stop>,
    /// When the count began and ended: by the intervals in nanoseconds, and when these were told.
    begun: Option<(u64, Instant)>,
    ended: Option<Instant>,
    sums: Done,
}

impl Counting {
    fn new(time: Duration, stop: Option<Stop>) -> Counting {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Counting { time, stop, begun: None, ended: None, sums: Done::default() }
    }

    fn add(&mut self, interval: &Interval, now: Instant) {
        let Some((begun, _)) = self.begun else {
            if interval.to_ns >= WARM_UP.get() {
                self.begun = Some((interval.to_ns, now));
            }
            return;
        };
        if self.ended.is_some() {
            return;
        }
        for group in &interval.sessions {
            self.sums.delivered += group.delivered_bytes as f64;
            if group.end == SessionEnd::Client {
                self.sums.closed += group.in_order as f64;
                self.sums.responses += group.responses as f64;
            }
        }
        if interval.to_ns.saturating_sub(begun) >= self.time {
            self.ended = Some(now);
            if let Some(stop) = &self.stop {
                stop.ask(0);
            }
        }
    }

    fn done(&self) -> Option<Done> {
        let seconds = self.ended?.duration_since(self.begun?.1).as_secs_f64();
        let Done { closed, responses, delivered } = self.sums;
        let [closed, responses, delivered] =
            [closed, responses, delivered].map(|sum| sum / seconds);
        Some(Done { closed, responses, delivered })
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_report::model::{FlowInterval, SessionInterval};

    use super::*;

    fn interval(number: u64, responses: u64) -> Interval {
        let client =
            SessionInterval { responses, delivered_bytes: 10, ..SessionInterval::default() };
        Interval {
            from_ns: number * 100_000_000,
            to_ns: (number + 1) * 100_000_000,
            total: FlowInterval::default(),
            flows: Vec::new(),
            sessions: vec![client],
            stacks: Vec::new(),
            expired: None,
            cpus: None,
        }
    }

    #[test]
    fn the_warm_up_and_what_comes_after_the_end_do_not_count() {
        let (stop, start) = (Stop::new(), Instant::now());
        let mut counting = Counting::new(Duration::from_millis(400), Some(stop.clone()));
        for number in 0..9 {
            assert_eq!(counting.done().is_some(), stop.asked());
            let responses = if (3..7).contains(&number) { 50 } else { 1000 };
            counting.add(&interval(number, responses), start + Duration::from_millis(100 * number));
        }
        let done = counting.done().unwrap();
        assert!((done.responses - 500.0).abs() < 1e-6 && (done.delivered - 100.0).abs() < 1e-6);
    }
}
