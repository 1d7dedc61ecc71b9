//! `wirebeat serve`: servers of sessions from the command line.
//!
//! A scenario in short, as with `load`, whose flags of programs and of TCP are used here. Nothing listens on an address that is not
//! written: a port alone is one of this machine's own (127.0.0.1).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::Options;
use wirebeat_run::iperf::WireServer;
use wirebeat_traffic::scenario::session::{
    AddressPool, Expectation, PoolSpec, PortPool, StackChoice, TlsSpec, Transport,
};
use wirebeat_traffic::scenario::{RunSpec, Scenario, SessionSpec};
use wirebeat_units::{Nanos, fault};

use crate::expect::AbortArgs;
use crate::failure::Failure;
use crate::load::program::{Program, ServerArgs, program};
use crate::load::target::Listen;
use crate::load::{
    PortArgs, SERVER, TRANSPORTS, TcpArgs, blame, ditg, iperf, print, refuse_frames, run_checked,
};
use crate::output::{Output, ReportArgs};
use crate::values;
use crate::watch::WatchArgs;

const EXAMPLES: &str = "\
Examples:
  wirebeat serve http --listen 10.0.2.9:80 --size 1kB
  wirebeat serve http --listen 8080 --size '{ exponential: { mean: 20kB } }' --framing chunked
  wirebeat serve http --listen 10.0.2.9:443 --tls --certificate cert.pem --key key.pem
  wirebeat serve bulk --listen 10.0.2.9:5201
  wirebeat serve echo --listen 7000 --time 1m
  wirebeat serve echo --transport udp --listen 10.0.2.9:7
  wirebeat serve dns --listen 10.0.2.9:53 --answer 10.0.0.1
  wirebeat serve http --listen 10.0.2.77:80 --stack own --interface eth1
  wirebeat serve --iperf3 --listen 10.0.2.9:5201
  wirebeat serve --iperf2 --listen 10.0.2.9:5001
  wirebeat serve --ditg --listen 10.0.2.9:9000 --log flows.log";

/// Accept TCP sessions, and measure them
///
/// Accepts TCP sessions on the addresses that are written, and answers them: content of HTTP, responses of given sizes, data, or
/// what came. A port without an address is reached from this machine alone. Ends after --time, or when it is told to stop. The
/// clients are those of 'wirebeat load', or any others.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "wirebeat serve <PROGRAM> --listen <[ADDRESS:]PORT> [OPTIONS]",
    after_long_help = EXAMPLES,
    mut_arg("bins", |flag| flag.hide(true)),
    mut_arg("packet_log", |flag| flag.hide(true)),
    mut_arg("packet_log_sent", |flag| flag.hide(true))
)]
pub struct Args {
    /// What the servers say
    #[arg(value_name = "PROGRAM", value_parser = program(), required_unless_present_any = ["iperf3", "iperf2", "ditg"])]
    program: Option<Program>,
    #[command(flatten)]
    tool: iperf::ServeArgs,
    #[command(flatten)]
    ditg: ditg::DitgServeArgs,
    /// Where to accept, given once for each: 10.0.2.9:80, or 80 for this machine alone (127.0.0.1); IPv6 addresses in brackets
    #[arg(long, value_name = "[ADDRESS:]PORT", required = true, help_heading = "Sessions")]
    listen: Vec<Listen>,
    /// What carries the messages; with dns both do unless one is chosen [default: tcp]
    #[arg(long, value_name = "TRANSPORT", value_parser = values::choice(&TRANSPORTS), help_heading = "Sessions")]
    transport: Option<Transport>,
    /// How long a session waits for its peer [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = "Sessions")]
    timeout: Option<Nanos>,
    #[command(flatten)]
    server: ServerArgs,
    /// TLS between the program and TCP; without --certificate one is made for the run, which nobody trusts by itself
    #[arg(long, help_heading = "TLS")]
    tls: bool,
    /// The certificate of the server in PEM, with those that lead to its issuer
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"], help_heading = "TLS")]
    certificate: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "TLS")]
    key: Option<PathBuf>,
    #[command(flatten)]
    tcp: TcpArgs,
    #[command(flatten)]
    port: PortArgs,
    /// How long to accept [default: until it is told to stop]
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = "Run")]
    time: Option<Nanos>,
    /// Seed of every random choice: the same seed gives the same content [default: 1]
    #[arg(long, value_name = "N", value_parser = values::number, help_heading = "Run")]
    seed: Option<u64>,
    /// What has to come of it, given once for each: 'established >= 1000'; exit code 4 otherwise
    #[arg(long, value_name = "EXPECTATION", help_heading = "Report")]
    expect: Vec<Expectation>,
    #[command(flatten)]
    abort: AbortArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print the scenario that this command line means, and accept nothing
    #[arg(long, conflicts_with = "json", help_heading = "Report")]
    print_scenario: bool,
}

/// Accepts.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    refuse_frames(&args.report)?;
    args.ditg.check_alone()?;
    if let Some(wire) = args.tool.wire() {
        let server = WireServer { wire, address: one_address(&args.listen, wire.name())? };
        return iperf::serve(server, args.tool.serving(args.time), output);
    }
    if args.ditg.ditg {
        let address = one_address(&args.listen, "D-ITG")?;
        return ditg::serve(address, (args.time, args.tool.max_duration), &args.ditg, output);
    }
    let scenario = scenario(args)?;
    if args.print_scenario {
        return print(&scenario);
    }
    let abort_on_fail = args.abort.abort_on_fail;
    let options = Options { abort_on_fail, ..output.options() };
    run_checked(&scenario, options, output)
}

/// The only address and port where a server of another tool's wire listens.
fn one_address(listen: &[Listen], tool: &str) -> Result<SocketAddr, Failure> {
    match listen {
        [one] if one.ports.len() == 1 => Ok(SocketAddr::new(one.address, one.ports.get(0))),
        _ => {
            let why =
                fault!("a server of {tool} listens at one address and port"; "give one --listen");
            Err(Failure::usage(why).at("--listen"))
        }
    }
}

/// The scenario that a command line means, checked.
fn scenario(args: &Args) -> Result<Scenario, Failure> {
    let usual = Scenario::default();
    let mut scenario = Scenario { seed: args.seed.unwrap_or(usual.seed), ..usual };
    scenario.ports.insert(SERVER.to_owned(), args.port.spec()?);
    let Some(chosen) = args.program else {
        return Err(Failure::usage(
            fault!("the wire of another tool has no scenario"; "leave --print-scenario out"),
        ));
    };
    let program = args.server.spec(chosen)?;
    // a server of names answers over both (RFC 7766 §5)
    let transports = match (args.transport, chosen) {
        (Some(one), _) => vec![one],
        (None, Program::Dns) if args.port.stack() == StackChoice::Host => {
            vec![Transport::Udp, Transport::Tcp]
        }
        (None, _) => vec![Transport::Tcp],
    };
    let all = pools(&args.listen).into_iter();
    let all = all.flat_map(|pool| transports.iter().map(move |over| (pool.clone(), *over)));
    for (number, (servers, transport)) in (1..).zip(all) {
        let name = match number {
            1 => chosen.name().to_owned(),
            number => format!("{}-{number}", chosen.name()),
        };
        let usual = SessionSpec::new(program.clone());
        let group = SessionSpec {
            to: Some(SERVER.to_owned()),
            stack: args.port.stack(),
            transport,
            servers,
            timeout: args.timeout.unwrap_or(usual.timeout),
            tcp: args.tcp.spec(false)?,
            tls: tls(args).filter(|_| transport == Transport::Tcp || args.transport.is_some()),
            ttl: args.tcp.ttl,
            dscp: args.tcp.dscp,
            tos: args.tcp.tos,
            expect: args.expect.clone(),
            ..usual
        };
        scenario.sessions.insert(name, group);
    }
    let usual = RunSpec::default();
    let interval = args.report.interval.unwrap_or(usual.interval);
    scenario.run = RunSpec { time: args.time, wait: args.port.wait, interval, ..usual };
    scenario.check().map_err(|problem| blame::invalid(&problem, &scenario))?;
    Ok(scenario)
}

/// TLS, where it is asked for.
fn tls(args: &Args) -> Option<TlsSpec> {
    let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    args.tls.then(|| TlsSpec {
        certificate: file(&args.certificate),
        key: file(&args.key),
        ..TlsSpec::default()
    })
}

/// Groups of addresses that have the same ports, of one version of IP each: what a pool can say.
fn pools(listen: &[Listen]) -> Vec<PoolSpec> {
    let mut by_address: Vec<Listen> = Vec::new();
    for Listen { address, ports } in listen {
        match by_address.iter_mut().find(|known| known.address == *address) {
            Some(known) => {
                let new = ports.0.iter().filter(|range| !known.ports.0.contains(range));
                let new: Vec<_> = new.copied().collect();
                known.ports.0.extend(new);
            }
            None => by_address.push(Listen { address: *address, ports: ports.clone() }),
        }
    }
    let mut pools: Vec<(AddressPool, PortPool)> = Vec::new();
    for Listen { address, ports } in by_address {
        let fits = |(addresses, known): &(AddressPool, PortPool)| {
            *known == ports && addresses.0.iter().all(|range| range.is_ipv6() == address.is_ipv6())
        };
        match pools.iter_mut().find(|pool| fits(pool)) {
            Some((addresses, _)) => addresses.0.push(address.into()),
            None => pools.push((address.into(), ports)),
        }
    }
    let pool =
        |(addresses, ports)| PoolSpec { addresses, ports: Some(ports), ..PoolSpec::default() };
    pools.into_iter().map(pool).collect()
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

    /// The scenario of a command line without quotes.
    pub(crate) fn scenario(line: &str) -> Result<Scenario, Failure> {
        let line = Line::try_parse_from(line.split_whitespace());
        let line = line.map_err(|error| crate::usage::explain(&error))?;
        super::scenario(&line.args)
    }

    #[test]
    fn a_port_without_an_address_is_on_this_machine_alone() {
        let meant = scenario("http --listen 80 --listen 8000-8009").unwrap();
        let servers = &meant.sessions["http"].servers;
        assert_eq!(servers.addresses.to_string(), "127.0.0.1");
        assert_eq!(servers.ports.as_ref().unwrap().to_string(), "80, 8000-8009");
        assert_eq!(meant.run.time, None);
    }

    #[test]
    fn only_what_is_written_is_listened_on() {
        let line = "echo --listen 10.0.0.1:7 --listen 10.0.0.2:7 --listen 10.0.0.2:8 --listen [::1]:7 \
                    --listen 10.0.0.3:7";
        let meant = scenario(line).unwrap();
        let pools: Vec<(String, String)> = (meant.sessions.values())
            .map(|group| {
                let ports = group.servers.ports.as_ref().unwrap();
                (group.servers.addresses.to_string(), ports.to_string())
            })
            .collect();
        let expected = [("10.0.0.1, 10.0.0.3", "7"), ("10.0.0.2", "7, 8"), ("::1", "7")];
        assert_eq!(pools, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let names: Vec<&str> = meant.sessions.keys().map(String::as_str).collect();
        assert_eq!(names, ["echo", "echo-2", "echo-3"]);
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_flags() {
        for (line, says) in [
            ("http", "--listen"),
            ("htp --listen 80", "is not one of the choices"),
            ("echo --listen 80 --size 5B", "--size: the program 'echo' has no such flag"),
            ("http --listen 80 --status 99", "--status: the status of a response"),
            ("http --listen 80 --mss 3", "--mss: an MSS"),
        ] {
            let said = scenario(line).map(|meant| meant.to_yaml()).unwrap_err().sentence();
            assert!(said.contains(says), "{line}: {said}");
        }
    }
}
