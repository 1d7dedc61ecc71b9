//! One stream of bulk data over loopback and over the cable: Wirebeat's program `bulk` and its iperf3, beside iperf3.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use wirebeat_engine_linux::affinity;
use wirebeat_netlink::Namespace;
use wirebeat_report::model::{Report, SessionEnd};
use wirebeat_run::iperf::{self, Amount, Serving, TestSpec, Wire, WireServer};
use wirebeat_run::{Options, Silent, Stop};
use wirebeat_testbed::{Capability, Process, Program, require};
use wirebeat_units::Nanos;

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sessions::{Group, Path, Tcp};
use crate::stats::Ratio;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::whole;

const PROSE: &str = "\
One stream from a client on one core to a server on the other, as fast as it goes, with the system's default socket buffers and congestion \
control; bytes a second are those that the receiver delivered. Over loopback both are in one namespace. Sessions of the program `bulk` \
run apart, as `wirebeat load` and `wirebeat serve` do, or in one run, where the receiver compares every byte with what was sent; iperf3 \
compares nothing.";

/// iperf3's port.
const PORT: u16 = 5201;
/// Until a server listens.
const STARTS: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);
/// Longer than a test takes beside its time.
const AROUND: Duration = Duration::from_secs(10);

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Both ends are iperf3.
    Iperf3,
    /// Our client of iperf3's wire, and its server.
    OurIperf3Client,
    /// Its client, and our server of its wire.
    OurIperf3Server,
    /// Both ends are programs `bulk`, which run apart.
    Bulk(Tcp, Tcp),
    /// The same in one run: what arrives is compared.
    Compared(Tcp),
}

/// Those who are measured on each path; the first is what others are held against.
const CASES: [Who; 9] = [
    Who::Iperf3,
    Who::OurIperf3Client,
    Who::OurIperf3Server,
    Who::Bulk(Tcp::Host, Tcp::Host),
    Who::Compared(Tcp::Host),
    Who::Bulk(Tcp::Packet, Tcp::Host),
    Who::Bulk(Tcp::Host, Tcp::Packet),
    Who::Compared(Tcp::Packet),
    Who::Compared(Tcp::Kernel),
];
const PATHS: [Path; 2] = [Path::Loopback, Path::Cable];

/// What is to be reached: its words, which case on which path, and how many times iperf3's throughput there.
const TARGETS: [(&str, Who, Path, f64); 4] = [
    (
        "stack: host, a bulk stream over veth ≥ iperf3's",
        Who::Bulk(Tcp::Host, Tcp::Host),
        Path::Cable,
        1.0,
    ),
    (
        "stack: host, a bulk stream over loopback ≥ iperf3's",
        Who::Bulk(Tcp::Host, Tcp::Host),
        Path::Loopback,
        1.0,
    ),
    (
        "stack: own, a bulk stream to the system's TCP ≥ iperf3's",
        Who::Bulk(Tcp::Packet, Tcp::Host),
        Path::Cable,
        1.0,
    ),
    (
        "stack: own at both ends, a bulk stream of which every byte is compared ≥ iperf3's",
        Who::Compared(Tcp::Packet),
        Path::Cable,
        1.0,
    ),
];

impl Who {
    /// Whether it goes that way: our own TCP has an interface with Ethernet.
    fn goes(self, path: Path) -> bool {
        let own = match self {
            Who::Bulk(client, server) => client != Tcp::Host || server != Tcp::Host,
            Who::Compared(tcp) => tcp != Tcp::Host,
            Who::Iperf3 | Who::OurIperf3Client | Who::OurIperf3Server => false,
        };
        !own || path == Path::Cable
    }

    fn name(self) -> String {
        match self {
            Who::Iperf3 => "iperf3 → iperf3".to_owned(),
            Who::OurIperf3Client => "wirebeat load --iperf3 → iperf3".to_owned(),
            Who::OurIperf3Server => "iperf3 → wirebeat serve --iperf3".to_owned(),
            Who::Bulk(client, server) => {
                format!("bulk: {} → {}", client.name(), server.name())
            }
            Who::Compared(tcp) => format!("bulk, every byte compared: {}", tcp.name()),
        }
    }
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants = Vec::new();
    for (path, who) in all() {
        let name = format!("{}: {}", path.name(), who.name());
        contestants.push(Contestant::new(name, move |bench: &Bench| throughput(bench, who, path)));
    }
    let measured = in_turn(bench, &contestants, |bits| gigabits(*bits));
    let mut table = Table::new(&["path", "client → server", "throughput", "of iperf3", "remark"]);
    for ((path, who), one) in all().zip(&measured) {
        table.row(vec![
            path.name().to_owned(),
            who.name(),
            format::series(&one.series(|bits| *bits), gigabits),
            ratio(&measured, who, path).map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            one.remark(),
        ]);
    }
    let verdict =
        |(target, who, path, least): (&str, Who, Path, f64)| match ratio(&measured, who, path) {
            Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= least),
            None => Verdict::unmeasured(
                target,
                place(who, path)
                    .and_then(|at| measured.get(at))
                    .map(Measured::reason)
                    .unwrap_or_default(),
            ),
        };
    Chapter {
        title: "Bulk data",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts: TARGETS.into_iter().map(verdict).collect(),
    }
}

fn gigabits(bits: f64) -> String {
    format!("{} Gbit/s", format::number(bits / 1e9))
}

/// All that are measured, in order.
fn all() -> impl Iterator<Item = (Path, Who)> {
    let all = PATHS.into_iter().flat_map(|path| CASES.map(|who| (path, who)));
    all.filter(|(path, who)| who.goes(*path))
}

fn place(who: Who, path: Path) -> Option<usize> {
    all().position(|one| one == (path, who))
}

fn ratio(measured: &[Measured<f64>], who: Who, path: Path) -> Option<Ratio> {
    let series = |who| Some(measured.get(place(who, path)?)?.series(|bits| *bits));
    series(who)?.over(&series(CASES[0])?)
}

/// Bits in a second that were delivered.
pub fn throughput(bench: &Bench, who: Who, path: Path) -> Result<f64, Failure> {
    let Bench { lab, time, .. } = bench;
    let group = |client, server| Group {
        client: Some(client),
        server: Some(server),
        path,
        port: PORT,
        keys: "program: bulk",
        starts: "users: 1",
        run: "",
    };
    let test = Test { lab, path, time: *time };
    match who {
        Who::Iperf3 => {
            let _server = test.iperf3_server()?;
            test.iperf3_client()
        }
        Who::OurIperf3Client => {
            let _server = test.iperf3_server()?;
            test.our_client()
        }
        Who::OurIperf3Server => test.our_server(),
        Who::Bulk(client, server) => {
            Ok(group(client, server).count_apart(lab, *time)?.delivered * 8.0)
        }
        Who::Compared(tcp) => Ok(group(tcp, tcp).count(lab, *time)?.delivered * 8.0),
    }
}

/// A test over iperf3's wire.
struct Test<'a> {
    lab: &'a Lab,
    path: Path,
    time: Duration,
}

impl Test<'_> {
    fn server(&self) -> &Namespace {
        match self.path {
            Path::Cable => &self.lab.far().namespace,
            Path::Loopback => &self.lab.near().namespace,
        }
    }

    fn address(&self) -> Ipv4Addr {
        self.path.server(self.lab)
    }

    /// iperf3's server for one test, when it listens. It would take an attempt to connect for the test.
    fn iperf3_server(&self) -> Result<Process, Failure> {
        require(Capability::Program("iperf3"))?;
        let [server, _] = iperf3_words(self.address(), self.time);
        let words = bound(self.lab.cores.other, server);
        let process = Program::new(self.server(), "taskset").args(words).spawn()?;
        process.wait_for("Server listening", STARTS)?;
        Ok(process)
    }

    fn iperf3_client(&self) -> Result<f64, Failure> {
        require(Capability::Program("iperf3"))?;
        let [_, client] = iperf3_words(self.address(), self.time);
        let words = bound(self.lab.cores.send, client);
        let program = Program::new(&self.lab.near().namespace, "taskset").args(words);
        received(&program.output(self.time + AROUND)?.stdout)
    }

    fn our_client(&self) -> Result<f64, Failure> {
        let time = Nanos::new(self.time.as_nanos() as u64);
        let spec = TestSpec { amount: Amount::Time(time), ..TestSpec::default() };
        let address = SocketAddr::from((self.address(), PORT));
        let server = WireServer { wire: Wire::Iperf3, address };
        let report = self.lab.near().namespace.run(|| -> Result<Report, Failure> {
            affinity::pin(self.lab.cores.send)?;
            let stop = Stop::new();
            Ok(iperf::load(server, &spec, &[], &Options::default(), (&mut Silent, &stop))?)
        })??;
        let report = whole(report)?;
        let far = report.sessions.iter().find(|group| group.end == SessionEnd::Server);
        let rates = far.and_then(|group| group.rates).ok_or("the server said nothing")?;
        Ok(rates.goodput_bits_per_second)
    }

    /// Our server, and iperf3's client.
    fn our_server(&self) -> Result<f64, Failure> {
        let address = SocketAddr::from((self.address(), PORT));
        let stop = Stop::new();
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                self.server().run(|| -> Result<Report, Failure> {
                    affinity::pin(self.lab.cores.other)?;
                    let server = WireServer { wire: Wire::Iperf3, address };
                    Ok(iperf::serve(
                        server,
                        Serving::default(),
                        &Options::default(),
                        &mut Silent,
                        &stop,
                    )?)
                })?
            });
            let until = Instant::now() + STARTS;
            let said = loop {
                let said = self.iperf3_client();
                if said.is_ok() || serving.is_finished() || Instant::now() > until {
                    break said;
                }
                sleep(STEP);
            };
            stop.ask(0);
            whole(serving.join().map_err(|_| "the server panicked")??)?;
            said
        })
    }
}

/// iperf3's server and client.
pub fn iperf3_words(server: Ipv4Addr, time: Duration) -> [Vec<String>; 2] {
    // it takes whole seconds alone
    let seconds = (time.as_secs_f64().ceil() as u64).max(1);
    let client = format!("iperf3 -c {server} -t {seconds} -J");
    ["iperf3 -s -1 --forceflush", &client]
        .map(|words| words.split(' ').map(str::to_owned).collect())
}

/// What taskset is told to have a program on a CPU.
fn bound(cpu: usize, words: Vec<String>) -> impl Iterator<Item = String> {
    ["-c".to_owned(), cpu.to_string()].into_iter().chain(words)
}

/// What iperf3's receiver had, by its client's JSON.
fn received(said: &str) -> Result<f64, Failure> {
    let said: serde_json::Value = serde_json::from_str(said)?;
    let bits = said.pointer("/end/sum_received/bits_per_second").and_then(|bits| bits.as_f64());
    let error = said.get("error").and_then(|error| error.as_str());
    match (bits, error) {
        (Some(bits), None) => Ok(bits),
        (_, error) => Err(format!("iperf3: {}", error.unwrap_or("no result")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_of_a_case_and_cases_have_places_of_their_own() {
        for (target, who, path, _) in TARGETS {
            assert!(place(who, path).is_some(), "{target}");
        }
        assert_eq!(
            place(CASES[0], PATHS[1]),
            Some(CASES.iter().filter(|who| who.goes(PATHS[0])).count())
        );
    }

    #[test]
    fn a_result_with_an_error_is_none() {
        let good = r#"{"end":{"sum_received":{"bits_per_second":2.5e9}}}"#;
        assert_eq!(received(good).unwrap(), 2.5e9);
        assert!(received(r#"{"end":{"sum_received":{"bits_per_second":1}},"error":"x"}"#).is_err());
        assert!(received(r#"{"start":{}}"#).is_err() && received("").is_err());
    }
}
