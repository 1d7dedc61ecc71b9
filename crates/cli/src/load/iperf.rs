//! `--iperf3` and `--iperf2` of `wirebeat load` and `wirebeat serve`: the wires of other tools, which have no scenario.

use clap::Args as ClapArgs;
use wirebeat_run::iperf::{self, Amount, Direction, Protocol, Serving, TestSpec, Wire, WireServer};
use wirebeat_traffic::scenario::FlowRate;
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_traffic::scenario::session::expect::Measured;
use wirebeat_units::{BitRate, Layer, Nanos, Rate, fault};

use super::Args;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;
use crate::values::{self, HostPort};
use crate::watch::Watched;

/// Flags of `load` that are of scenarios, and that no wire of another tool has.
pub(super) const OF_SCENARIOS: [&str; 42] = [
    "departures",
    "users",
    "think",
    "hold",
    "count",
    "limit",
    "timeout",
    "clients",
    "program",
    "requests",
    "request_think",
    "pipeline",
    "server_closes",
    "method",
    "header",
    "body",
    "expect_status",
    "expect_size",
    "request_size",
    "response_size",
    "gap",
    "transport",
    "on_timeout",
    "query_type",
    "no_recursion",
    "expect_rcode",
    "interface",
    "stack",
    "namespace",
    "cpu",
    "nagle",
    "tcp",
    "ttl",
    "reset",
    "seed",
    "abort_on_fail",
    "print_scenario",
    "engine",
    "control",
    "peer",
    "key",
    "key_file",
];
/// Flags of `serve`, likewise.
pub(super) const OF_SERVERS: [&str; 32] = [
    "timeout",
    "status",
    "framing",
    "header",
    "requests",
    "size",
    "request_size",
    "response_size",
    "reverse",
    "both_ways",
    "bytes",
    "congestion",
    "mss",
    "nagle",
    "tcp",
    "pacing",
    "dscp",
    "tos",
    "ttl",
    "namespace",
    "cpu",
    "seed",
    "expect",
    "abort_on_fail",
    "print_scenario",
    "interface",
    "stack",
    "engine",
    "transport",
    "answer",
    "answer_ttl",
    "rcode",
];

/// A test against a server of another tool.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other tools")]
pub struct LoadArgs {
    /// Instead: a test against an iperf3 server, with --streams, --reverse, --both-ways, --bytes or --time, --rate, --size
    ///
    /// The server is 'iperf3 -s' or 'wirebeat serve --iperf3'; its port is 5201 unless another is written.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        conflicts_with_all = ["target", "iperf2", "ditg"],
        conflicts_with_all = OF_SCENARIOS
    )]
    iperf3: Option<HostPort>,
    /// Instead: a test of TCP against an iperf 2 server, with --streams, --both-ways or --in-turn, --bytes or --time, --rate, --size
    ///
    /// The server is 'iperf -s' or 'wirebeat serve --iperf2'; its port is 5001 unless another is written. It connects back where it is
    /// to send, and says nothing of what it counted.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        conflicts_with_all = ["target", "ditg"],
        conflicts_with_all = OF_SCENARIOS
    )]
    iperf2: Option<HostPort>,
    /// With --iperf3 and --ditg: datagrams instead of TCP, at --rate and of --size [default of --size: with --iperf3 what the path carries
    /// in one packet; with --ditg 512B]
    #[arg(long, conflicts_with_all = ["mss", "congestion"])]
    pub(super) udp: bool,
    /// With --iperf2: first the client sends, then the server, each for the whole time or amount (iperf's -r)
    #[arg(long, requires = "iperf2", conflicts_with_all = ["reverse", "both_ways"])]
    in_turn: bool,
}

impl LoadArgs {
    /// The server, and whose wire it speaks.
    pub fn server(&self) -> Option<(Wire, &HostPort)> {
        let iperf2 = || self.iperf2.as_ref().map(|host| (Wire::Iperf2, host));
        self.iperf3.as_ref().map(|host| (Wire::Iperf3, host)).or_else(iperf2)
    }
}

/// A server for the clients of another tool.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other tools")]
pub struct ServeArgs {
    /// Instead: answer the clients of iperf3, one test at a time, at one --listen
    #[arg(
        long,
        conflicts_with_all = ["program", "iperf2", "ditg"],
        conflicts_with_all = OF_SERVERS
    )]
    iperf3: bool,
    /// Instead: answer the clients of iperf 2 over TCP, one test at a time, at one --listen
    ///
    /// Connects back to the host of a client that asks for it (-d, -r), and to no other.
    #[arg(
        long,
        conflicts_with_all = ["program", "ditg"],
        conflicts_with_all = OF_SERVERS
    )]
    iperf2: bool,
    /// With --iperf3, --iperf2 and --ditg: the longest test, or flow, that a client may ask for [default: 1h]
    ///
    /// A client of iperf3 that asks for more is refused; a test of iperf 2 and a flow of D-ITG are ended then.
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "program")]
    pub max_duration: Option<Nanos>,
}

impl ServeArgs {
    /// How clients are served, for `time`.
    pub fn serving(&self, time: Option<Nanos>) -> Serving {
        let usual = Serving::default();
        Serving { longest: self.max_duration.unwrap_or(usual.longest), time, ..usual }
    }

    /// Whose wire is spoken.
    pub fn wire(&self) -> Option<Wire> {
        match (self.iperf3, self.iperf2) {
            (true, _) => Some(Wire::Iperf3),
            (_, true) => Some(Wire::Iperf2),
            _ => None,
        }
    }
}

/// Runs a test against the server at `host`.
pub fn load(wire: Wire, host: &HostPort, args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let spec = spec(wire, args)?;
    check_expected(&args.expect)?;
    let flag = format!("--{}", wire.name());
    let address = host.resolve(wire.port()).map_err(|why| Failure::usage(why).at(flag))?;
    let server = WireServer { wire, address };
    let signals = Signals::watch()?;
    let mut observer = output.observer(Watched::plain(&signals))?;
    let stop = signals.running();
    let options = output.options();
    let report = iperf::load(server, &spec, &args.expect, &options, (&mut *observer, stop));
    drop(observer);
    Ok(output.report(&report.map_err(Failure::from)?))
}

/// That a test on another tool's wire says what is expected of it.
fn check_expected(expected: &[Expectation]) -> Result<(), Failure> {
    const COUNTERS: [&str; 9] = [
        "opened",
        "established",
        "in-order",
        "failed",
        "unfinished",
        "sent-messages",
        "received-messages",
        "lost-messages",
        "retransmitted-segments",
    ];
    let is_known = |one: &&Expectation| {
        !one.each_interval
            && match &one.measured {
                Measured::Counter(name) => COUNTERS.contains(&&**name),
                Measured::Rate(name) => name == "goodput",
                Measured::Duration => true,
                Measured::Status(_) | Measured::Rcode(_) | Measured::Time { .. } => false,
            }
    };
    match expected.iter().find(|one| !is_known(one)) {
        None => Ok(()),
        Some(one) => {
            let why = fault!(
                "a test on this wire does not say what '{one}' is about";
                "expect rate.goodput, lost-messages (datagrams, as a number or in percent) or retransmitted-segments"
            );
            Err(Failure::usage(why).at("--expect"))
        }
    }
}

/// Serves the clients of another tool.
pub fn serve(server: WireServer, serving: Serving, output: &mut Output) -> Result<u8, Failure> {
    let signals = Signals::watch()?;
    let mut observer = output.observer(Watched::plain(&signals))?;
    let stop = signals.running();
    let report = iperf::serve(server, serving, &output.options(), &mut *observer, stop);
    drop(observer);
    Ok(output.report(&report.map_err(Failure::from)?))
}

/// The test that the flags mean.
fn spec(wire: Wire, args: &Args) -> Result<TestSpec, Failure> {
    let usual = TestSpec::default();
    let protocol = if args.tool.udp { Protocol::Udp } else { Protocol::Tcp };
    if args.tool.udp && wire != Wire::Iperf3 {
        let why = fault!("only TCP is spoken with iperf 2"; "give --iperf3");
        return Err(Failure::usage(why).at("--udp"));
    }
    if args.tool.in_turn && wire != Wire::Iperf2 {
        let why = fault!("iperf3 cannot send first one way, then the other"; "give --both-ways");
        return Err(Failure::usage(why).at("--in-turn"));
    }
    let rate_given = args.sessions.rate.is_some() || args.tcp.pacing.is_some();
    if protocol == Protocol::Udp && !rate_given {
        let why = fault!("nothing says how fast datagrams are sent"; "give --rate, for example --rate 100Mbps");
        return Err(Failure::usage(why).at("--udp"));
    }
    let omit = args.repeat.warmup.unwrap_or(usual.omit);
    if wire != Wire::Iperf3 && omit > Nanos::ZERO {
        let why = fault!("a test of iperf 2 is measured from its beginning"; "leave it out");
        return Err(Failure::usage(why).at("--warmup"));
    }
    if !omit.get().is_multiple_of(Nanos::from_secs(1).get()) {
        let why = fault!("iperf3 knows whole seconds"; "give --warmup 1s or more");
        return Err(Failure::usage(why).at("--warmup"));
    }
    Ok(TestSpec {
        omit,
        protocol,
        direction: direction(wire, args)?,
        streams: args.program.streams.map_or(usual.streams, Into::into),
        amount: amount(wire, args)?.unwrap_or(usual.amount),
        block: args.program.block()?,
        rate: rate(args)?,
        mss: args.tcp.mss.map(Into::into),
        congestion: args.tcp.congestion.clone(),
        tos: args.tcp.tos_byte(),
        ..usual
    })
}

fn direction(wire: Wire, args: &Args) -> Result<Direction, Failure> {
    let bulk = args.program.bulk();
    match (wire, bulk.reverse) {
        (Wire::Iperf2, true) => {
            let why = fault!(
                "a server of iperf 2 does not send alone";
                "give --in-turn (iperf's -r), or --both-ways (iperf's -d)"
            );
            Err(Failure::usage(why).at("--reverse"))
        }
        (_, true) => Ok(Direction::Reverse),
        _ if bulk.both_ways => Ok(Direction::BothWays),
        _ if args.tool.in_turn => Ok(Direction::InTurn),
        _ => Ok(Direction::Forward),
    }
}

fn amount(wire: Wire, args: &Args) -> Result<Option<Amount>, Failure> {
    match (args.program.bulk().bytes, args.run.time) {
        (Some(_), Some(_)) => {
            let why = fault!("a test of {} ends by --time or by --bytes", wire.name(); "leave one of them out");
            Err(Failure::usage(why))
        }
        (Some(bytes), None) => Ok(Some(Amount::Bytes(bytes))),
        (None, Some(time)) if wire == Wire::Iperf3 && time < Nanos::from_secs(1) => {
            let why = fault!("iperf3 knows whole seconds"; "give --time 1s or more");
            Err(Failure::usage(why).at("--time"))
        }
        (None, time) => Ok(time.map(Amount::Time)),
    }
}

/// How fast each stream sends, of payload.
fn rate(args: &Args) -> Result<Option<BitRate>, Failure> {
    let refuse = |why| Err(Failure::usage(why).at("--rate"));
    match (&args.sessions.rate, args.tcp.pacing) {
        (Some(_), Some(_)) => {
            refuse(fault!("--rate and --pacing say the same here"; "leave one of them out"))
        }
        (None, pacing) => Ok(pacing),
        (Some(FlowRate::Fixed(Rate::Unlimited)), None) => Ok(None),
        (Some(FlowRate::Fixed(Rate::Bits(rate, Layer::Payload))), None) => Ok(Some(*rate)),
        // of sessions it is the payload that is meant where no layer is written
        (Some(FlowRate::Fixed(Rate::Bits(rate, layer))), None) if *layer == Layer::default() => {
            Ok(Some(*rate))
        }
        (Some(_), None) => refuse(fault!(
            "a stream of iperf has one bit rate, which is of its payload"; "write for example 100Mbps"
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The test of a command line; '~' is a blank within a value.
    pub(crate) fn of(line: &str) -> Result<TestSpec, Failure> {
        let line = Line::try_parse_from(line.split_whitespace().map(|word| word.replace('~', " ")));
        let line = line.map_err(|error| crate::usage::explain(&error))?;
        let (wire, _) = line.args.tool.server().unwrap();
        spec(wire, &line.args)
    }

    #[test]
    fn flags_are_a_test() {
        let udp =
            of("--iperf3 lab --udp --rate 100Mbps --size 1400B --streams 2 --reverse").unwrap();
        assert_eq!(
            (udp.protocol, udp.direction, udp.streams),
            (Protocol::Udp, Direction::Reverse, 2)
        );
        assert_eq!(
            (udp.rate, udp.block.map(|b| b.get())),
            (Some(BitRate(100_000_000)), Some(1400))
        );
        let paced = of("--iperf3 lab:9 --pacing 1Gbps --bytes 1GB --both-ways").unwrap();
        assert_eq!(
            (paced.rate, paced.direction),
            (Some(BitRate(1_000_000_000)), Direction::BothWays)
        );
        let turns = of("--iperf2 lab --in-turn --time 500ms --rate 1Mbps@payload").unwrap();
        assert_eq!(
            (turns.direction, turns.amount),
            (Direction::InTurn, Amount::Time(Nanos::from_millis(500)))
        );
        assert_eq!(of("--iperf2 lab").unwrap(), TestSpec::default());
        // iperf3's -O, which iperf 2 has not
        assert_eq!(of("--iperf3 lab --warmup 3s").unwrap().omit, Nanos::from_secs(3));
        for (line, says) in [
            ("--iperf3 lab --warmup 300ms", "--warmup: iperf3 knows whole seconds"),
            (
                "--iperf2 lab --warmup 3s",
                "--warmup: a test of iperf 2 is measured from its beginning",
            ),
        ] {
            let said = of(line).unwrap_err().sentence();
            assert!(said.contains(says), "{line}: {said}");
        }
    }

    #[test]
    fn what_a_wire_cannot_say_is_told_with_its_flag() {
        for (line, says) in [
            (
                "--iperf2 lab --reverse",
                "--reverse: a server of iperf 2 does not send alone; give --in-turn",
            ),
            (
                "--iperf2 lab --udp --rate 1Mbps",
                "--udp: only TCP is spoken with iperf 2; give --iperf3",
            ),
            ("--iperf3 lab --in-turn", "--in-turn: iperf3 cannot send first one way"),
            ("--iperf3 lab --udp", "--udp: nothing says how fast datagrams are sent; give --rate"),
            ("--iperf3 lab --rate 100/s", "--rate: a stream of iperf has one bit rate"),
            ("--iperf3 lab --rate 1Mbps@line", "--rate: a stream of iperf has one bit rate"),
            (
                "--iperf3 lab --rate 1Mbps --pacing 1Mbps",
                "--rate: --rate and --pacing say the same",
            ),
            ("--iperf3 lab --time 500ms", "--time: iperf3 knows whole seconds"),
            ("--iperf2 lab --time 1s --bytes 1MB", "a test of iperf2 ends by --time or by --bytes"),
            (
                "--iperf3 lab --size {uniform:~{min:~1B,~max:~9B}}",
                "--size: all blocks of a test have one size",
            ),
            ("--iperf3 lab --iperf2 lab", "do not go together"),
        ] {
            let said = of(line).map(|spec| format!("{spec:?}")).unwrap_err().sentence();
            assert!(said.contains(says), "{line}: {said}");
        }
    }
}
