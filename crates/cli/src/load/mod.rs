//! `wirebeat load`: sessions from the command line.
//!
//! The command line is a scenario in short: `scenario.rs` writes it out, `--print-scenario` shows it. `target.rs` is where sessions
//! go, `program.rs` what they say, and `blame.rs` tells what is wrong in the words of flags. `serve.rs`, one folder up, is the other
//! end, and has the flags of programs, of TCP and of reports from here.

pub mod blame;
pub mod ditg;
pub mod iperf;
pub mod program;
mod scenario;
pub mod target;
mod tcp_key;

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_explain::Checked;
use wirebeat_run::{Options, read_files};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::header::dscp::Dscp;
use wirebeat_traffic::scenario::session::{
    AddressPool, Beyond, Expectation, OnTimeout, StackChoice, TcpSpec, Transport,
};
use wirebeat_traffic::scenario::{
    Departures, EngineChoice, FlowRate, PortSpec, Scenario, WaitChoice,
};
use wirebeat_units::{BitRate, Nanos, fault};

use crate::ctl::ControlArgs;
use crate::execute::execute;
use crate::expect::AbortArgs;
use crate::failure::Failure;
use crate::key::KeyArgs;
use crate::output::{Output, ReportArgs, print_data};
use crate::repeat::RepeatArgs;
use crate::sender;
use crate::values::{self, Cpus, HostPort};
use crate::watch::WatchArgs;
use program::ClientArgs;
pub use scenario::SERVER;
use target::Target;
use tcp_key::TcpKey;

const BEYONDS: [(&str, &str, Beyond); 2] = [
    ("expire", "It does not start, and is counted as expired", Beyond::Expire),
    (
        "queue",
        "It starts as soon as another has ended, and is measured from when it was due",
        Beyond::Queue,
    ),
];

/// What carries messages, as flags have it.
pub const TRANSPORTS: [(&str, &str, Transport); 3] = [
    ("tcp", "A connection, one stream each way", Transport::Tcp),
    ("udp", "A datagram for each message", Transport::Udp),
    ("sctp", "An association of SCTP, by the system's sockets", Transport::Sctp),
];

const ON_TIMEOUTS: [(&str, &str, OnTimeout); 2] = [
    ("end", "It ends, and is counted as timed out", OnTimeout::End),
    ("next", "It goes on with its next request; the response is counted as lost", OnTimeout::Next),
];

/// Whose TCP, as flags have it.
pub const STACKS: [(&str, &str, StackChoice); 2] = [
    ("host", "The operating system's, by sockets", StackChoice::Host),
    ("own", "Our own, over frames of an interface", StackChoice::Own),
];

const EXAMPLES: &str = "\
Examples:
  wirebeat load http://10.0.2.9/index.html --rate 1000/s --time 10s
  wirebeat load http://10.0.2.9/ --users 50 --think 100ms --requests 10 --time 1m
  wirebeat load https://www.example.com/ --rate 100/s --time 10s
  wirebeat load https://10.0.2.9/ --insecure --users 50 --expect 'handshake.p99 < 20ms'
  wirebeat load 10.0.2.9:5201 --program bulk --streams 4 --reverse
  wirebeat load 10.0.2.9:7 --program echo --count 1 --requests 1000 --gap 10ms
  wirebeat load 10.0.2.9:7 --program echo --transport udp --rate 1000/s --timeout 1s
  wirebeat load dns://10.0.2.9/www.example.com --rate 1000/s --time 10s
  wirebeat load http://10.0.2.9/ --rate 500/s --expect 'failed == 0' --expect 'response.p99 < 5ms'
  wirebeat load http://10.0.2.9/ --rate 500/s --time 10s --peer 10.0.2.9 --key-file lab.key
  wirebeat load http://10.0.1.9/ --rate 1000/s --stack own --interface eth1 --clients 10.0.1.100-10.0.1.199
  wirebeat load --iperf3 10.0.2.9 --streams 4 --both-ways --time 30s
  wirebeat load --iperf3 10.0.2.9 --udp --rate 100Mbps --size 1400B
  wirebeat load --iperf2 10.0.2.9 --both-ways --time 30s
  wirebeat load --ditg 10.0.2.9 --udp --rate 1000/s --size 512B --round-trips";

/// Open TCP sessions with a server, and measure them
///
/// Opens TCP sessions by a schedule (--rate: sessions start when they are due, however slow the server is) or by users (--users:
/// each starts its next session when the last has ended), and says how they ended and how long everything took, from the planned
/// time on and from the actual one. Needs no privilege. The other end is 'wirebeat serve', any
/// server, or with --peer a listener that serves them for this run.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "wirebeat load <URL|HOST:PORT> [OPTIONS]",
    after_long_help = EXAMPLES,
    mut_arg("bins", |flag| flag.hide(true)),
    mut_arg("packet_log", |flag| flag.hide(true)),
    mut_arg("packet_log_sent", |flag| flag.hide(true))
)]
pub struct Args {
    /// The server: http://10.0.2.9/index.html, https://10.0.2.9/, dns://10.0.2.9/www.example.com, or 10.0.2.9:5201 with --program
    #[arg(value_name = "URL|HOST:PORT", required_unless_present_any = ["iperf3", "iperf2", "ditg"])]
    target: Option<Target>,
    #[command(flatten)]
    tool: iperf::LoadArgs,
    #[command(flatten)]
    ditg: ditg::DitgLoadArgs,
    #[command(flatten)]
    sessions: SessionArgs,
    #[command(flatten)]
    program: ClientArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    tcp: TcpArgs,
    #[command(flatten)]
    port: PortArgs,
    /// The client ends sessions with RST instead of FIN: no port stays in TIME-WAIT
    #[arg(long, help_heading = "TCP")]
    reset: bool,
    #[command(flatten)]
    peer: PeerArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    control: ControlArgs,
    /// What has to come of it, given once for each: 'established >= 1000', 'response.p99 < 5ms'; exit code 4 otherwise
    #[arg(long, value_name = "EXPECTATION", help_heading = "Report")]
    expect: Vec<Expectation>,
    #[command(flatten)]
    abort: AbortArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print the scenario that this command line means, and open nothing
    #[arg(long, conflicts_with = "json", help_heading = "Report")]
    print_scenario: bool,
}

/// Who opens sessions, and when.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Sessions")]
struct SessionArgs {
    /// How many sessions start in a second, whatever becomes of them (open model): 1000/s
    ///
    /// One that changes with time is written as in a scenario: '{ ramp: { from: 10/s, to: 1000/s, over: 10s } }'. With --iperf3 and
    /// --iperf2 it is how fast each stream sends, of payload: 100Mbps; with --ditg packets of each flow as well: 1000/s.
    #[arg(long, value_name = "RATE", value_parser = values::session_rate)]
    rate: Option<FlowRate>,
    /// How the times between starts vary: constant, poisson (exponential gaps) [default: constant]
    #[arg(long, value_name = "HOW", value_parser = values::departures)]
    departures: Option<Departures>,
    /// How many users there are, each with one session at a time (closed model)
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    users: Option<NonZeroU32>,
    /// With --users: how long a user waits before the next session [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    think: Option<Duration>,
    /// How long a session stays open at least [default: no longer than the program takes]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    hold: Option<Duration>,
    /// End after so many sessions; without a rate, they start together
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU64>)]
    count: Option<NonZeroU64>,
    /// How many sessions may be open at a time [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    limit: Option<NonZeroU32>,
    /// What becomes of a session that is due beyond --limit [default: expire]
    #[arg(long, value_name = "WHAT", value_parser = values::choice(&BEYONDS), requires = "limit")]
    beyond: Option<Beyond>,
    /// How long a session waits for its peer: for the connection, and for what comes next [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    timeout: Option<Nanos>,
    /// What carries the messages: with udp each is a datagram [default: tcp; udp with a URL of dns]
    #[arg(long, value_name = "TRANSPORT", value_parser = values::choice(&TRANSPORTS))]
    transport: Option<Transport>,
    /// Over UDP: what a session does when a response has not come within --timeout [default: end]
    #[arg(long, value_name = "WHAT", value_parser = values::choice(&ON_TIMEOUTS))]
    on_timeout: Option<OnTimeout>,
    /// The addresses that sessions come from: 10.0.1.1, 10.0.1.0/24, a range or a list; this host has to have them, and with
    /// --stack own nobody has [default: the system's choice]
    #[arg(long, value_name = "ADDRESSES")]
    clients: Option<AddressPool>,
}

/// What clients ask of TLS.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "TLS")]
struct TlsArgs {
    /// TLS between the program and TCP [default: with a URL of https]
    #[arg(long)]
    tls: bool,
    /// Take any certificate of the server
    #[arg(long, conflicts_with = "authority")]
    insecure: bool,
    /// The certificates of authorities that are trusted, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// The name that the server is asked for, and that its certificate is to have [default: the host]
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
}

impl TlsArgs {
    /// The first flag that only TLS has.
    fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--insecure", self.insecure),
            ("--authority", self.authority.is_some()),
            ("--server-name", self.server_name.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// What is asked of TCP and IP, at either end.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "TCP")]
pub struct TcpArgs {
    /// The congestion control by name: cubic, reno, bbr [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// The most bytes of data in a segment [default: the system's choice]
    #[arg(long, value_name = "BYTES", value_parser = values::count::<NonZeroU16>)]
    mss: Option<NonZeroU16>,
    /// Small segments wait while others are unacknowledged
    #[arg(long)]
    nagle: bool,
    /// No session sends faster than this: 10Mbps [default: no limit]
    #[arg(long, value_name = "RATE")]
    pacing: Option<BitRate>,
    /// Another key of 'tcp' of a scenario, given once for each: syn-retries=2, keep-alive.idle=10s; with --stack own also sack=false
    #[arg(long, value_name = "KEY=VALUE")]
    tcp: Vec<TcpKey>,
    /// Differentiated services code point: a name such as ef, af41 or cs5, or 0 to 63
    #[arg(long, value_name = "DSCP", conflicts_with = "tos")]
    pub dscp: Option<Dscp>,
    /// The whole ToS byte, or traffic class, for example 184 or 0xb8
    #[arg(long, value_name = "BYTE", value_parser = values::byte)]
    pub tos: Option<u8>,
    /// Time to live, or hop limit [default: the system's]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU8>)]
    pub ttl: Option<NonZeroU8>,
}

impl TcpArgs {
    /// The ToS byte of packets, as other tools' tests have it.
    pub fn tos_byte(&self) -> u8 {
        self.tos.or_else(|| self.dscp.map(|dscp| dscp.to_tos())).unwrap_or(0)
    }

    /// As a scenario has it.
    ///
    /// # Errors
    /// A key that was written twice, or has a flag that says the same.
    pub fn spec(&self, reset: bool) -> Result<TcpSpec, Failure> {
        let refuse = |why| Err(Failure::usage(why).at("--tcp"));
        let keys = match tcp_key::read(&self.tcp) {
            Ok(keys) => keys,
            Err(why) => return refuse(why),
        };
        let twice = [
            ("congestion", "--congestion", keys.congestion.is_some() && self.congestion.is_some()),
            ("mss", "--mss", keys.mss.is_some() && self.mss.is_some()),
            ("pacing", "--pacing", keys.pacing.is_some() && self.pacing.is_some()),
        ];
        if let Some((key, flag, _)) = twice.into_iter().find(|(.., twice)| *twice) {
            return refuse(fault!("{key} and {flag} say the same"; "leave one of them out"));
        }
        Ok(TcpSpec {
            congestion: keys.congestion.clone().or_else(|| self.congestion.clone()),
            mss: keys.mss.or(self.mss),
            nagle: keys.nagle || self.nagle,
            pacing: keys.pacing.or(self.pacing),
            reset: keys.reset || reset,
            ..keys
        })
    }
}

/// Where sessions are opened or accepted, and by which threads.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Port")]
pub struct PortArgs {
    /// The interface that sessions go over [default: the one on the way to the other end]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Whose TCP speaks [default: host]
    ///
    /// 'own' is Wirebeat's, over the engine of the interface (--interface), for hosts with addresses that nobody has (--clients,
    /// --listen). It needs CAP_NET_RAW.
    #[arg(long, value_name = "WHOSE", value_parser = values::choice(&STACKS))]
    stack: Option<StackChoice>,
    /// How frames of --stack own leave and arrive [default: packet]
    #[arg(long, value_name = "ENGINE", value_parser = values::session_engine(), requires = "stack")]
    engine: Option<EngineChoice>,
    /// The network namespace of the sessions, as `ip netns` names it, or a path [default: the current one]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The CPUs that work, one thread on each: 2, 2,3 or 2-5 [default: one thread, the system's choice]
    #[arg(long, visible_alias = "cores", value_name = "CPUS")]
    cpu: Option<Cpus>,
    /// How deadlines are awaited
    #[arg(long, value_name = "HOW", value_parser = values::wait(), default_value = "hybrid")]
    pub wait: WaitChoice,
}

impl PortArgs {
    /// Whose TCP speaks.
    pub fn stack(&self) -> StackChoice {
        self.stack.unwrap_or_default()
    }

    /// The port as a scenario has it.
    ///
    /// # Errors
    /// An engine for the host's TCP, which has none.
    pub fn spec(&self) -> Result<PortSpec, Failure> {
        if self.engine.is_some() && self.stack() == StackChoice::Host {
            return Err(Failure::usage(
                fault!("the host's TCP has no engine"; "leave it out, or give --stack own"),
            )
            .at("--engine"));
        }
        Ok(PortSpec {
            interface: self.interface.clone(),
            engine: self.engine.unwrap_or_default(),
            namespace: self.namespace.clone(),
            cores: self.cpu.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
            ..PortSpec::default()
        })
    }
}

/// The server on another host.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other host")]
struct PeerArgs {
    /// The host where `wirebeat receive --listen --allow-serve` serves these sessions: it starts and ends with this run, and the
    /// report has both ends
    #[arg(long, value_name = "HOST[:PORT]")]
    peer: Option<HostPort>,
    #[command(flatten)]
    key: KeyArgs,
}

/// How long.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Run")]
struct RunArgs {
    /// How long sessions start; bulk data goes so long [default: 10s, or until --count is reached]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    /// Seed of every random choice: the same seed gives the same sessions [default: 1]
    #[arg(long, value_name = "N", value_parser = values::number)]
    seed: Option<u64>,
}

/// Opens sessions.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    refuse_frames(&args.report)?;
    args.repeat.check(&args.watch, &args.report)?;
    args.ditg.check_alone()?;
    if let Some((wire, host)) = args.tool.server() {
        if args.repeat.repeat > 1 {
            let why = "the wire of another tool has one test";
            return Err(Failure::usage(why).at("--repeat").hint("leave it out"));
        }
        return iperf::load(wire, host, args, output);
    }
    if let Some(host) = args.ditg.receiver() {
        if !args.repeat.is_once() {
            let why = "the flows of another tool are sent once, and nothing before them";
            return Err(Failure::usage(why).at("--repeat, --warmup").hint("leave them out"));
        }
        return ditg::load(host, args, output);
    }
    if args.tool.udp {
        let why = fault!("only tests of other tools have this flag"; "give --iperf3 or --ditg, or write --transport udp");
        return Err(Failure::usage(why).at("--udp"));
    }
    let scenario = scenario::scenario(args)?;
    if args.print_scenario {
        return print(&scenario);
    }
    let peer = sender::peer(args.peer.peer.as_ref(), &args.peer.key)?;
    let (control, abort_on_fail) = (args.control.wanted(), args.abort.abort_on_fail);
    let more = |own: Options| {
        let (control, peer) = (control.clone(), peer.clone());
        Options { control, peer, abort_on_fail, ..own }
    };
    check(&scenario, &more(output.options()))?;
    args.repeat.execute(&scenario, &more, output, &|error| blame::error(error, &scenario))
}

/// What is said of frames has no meaning for sessions.
pub fn refuse_frames(report: &ReportArgs) -> Result<(), Failure> {
    let given = [("--bins", report.bins.is_some()), ("--packet-log", report.packet_log.is_some())];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::usage(fault!(
            "sessions are connections of the system, whose frames are not seen";
            "leave it out, or capture with 'wirebeat capture'"
        ))
        .at(flag)),
        None => Ok(()),
    }
}

/// Prints the scenario.
pub fn print(scenario: &Scenario) -> Result<u8, Failure> {
    let yaml = scenario.to_yaml().map_err(|error| Failure::usage(error.to_string()))?;
    print_data(&yaml)?;
    Ok(0)
}

/// Checks the scenario, and runs it.
pub fn run_checked(
    scenario: &Scenario,
    options: Options,
    output: &mut Output,
) -> Result<u8, Failure> {
    check(scenario, &options)?;
    execute(scenario, options, output, |error| blame::error(error, scenario))
}

/// Finds what is invalid on any machine, before this one is asked.
fn check(scenario: &Scenario, options: &Options) -> Result<(), Failure> {
    let files = read_files(scenario, options).map_err(|error| blame::error(error, scenario))?;
    match Checked::new(scenario, &files) {
        Err(error) => Err(blame::invalid(error.problem(), scenario)),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
