//! From the command line of `load` to a scenario: the same language, written out.

use std::net::{IpAddr, SocketAddr};

use wirebeat_run::KeySource;
use wirebeat_traffic::scenario::session::{Limit, PoolSpec, TlsSpec, Transport};
use wirebeat_traffic::scenario::{PortSpec, RunSpec, Scenario, SessionSpec};
use wirebeat_units::fault;

use super::program::Program;
use super::target::Target;
use super::{Args, blame};
use crate::failure::Failure;
use crate::key::CONTROL_PORT;

/// The port of our clients.
pub const CLIENT: &str = "client";
/// The port of our servers.
pub const SERVER: &str = "server";

/// The scenario that a command line means, checked.
pub fn scenario(args: &Args) -> Result<Scenario, Failure> {
    let usual = Scenario::default();
    let mut scenario = Scenario { seed: args.run.seed.unwrap_or(usual.seed), ..usual };
    let Some(target) = &args.target else {
        return Err(Failure::usage(
            fault!("the wire of another tool has no scenario"; "leave --print-scenario out"),
        ));
    };
    let program = program(args, target)?;
    scenario.ports.insert(CLIENT.to_owned(), args.port.spec()?);
    let mut group = group(args, target, program)?;
    if let Some(far) = far(args)? {
        scenario.ports.insert(SERVER.to_owned(), far);
        group.to = Some(SERVER.to_owned());
    }
    scenario.sessions.insert(program.name().to_owned(), group);
    let endless = args.program.is_endless(program);
    let time = args.run.time.or(endless.then_some(RunSpec::DEFAULT_TIME));
    let usual = RunSpec::default();
    let interval = args.report.interval.unwrap_or(usual.interval);
    scenario.run = RunSpec { time, wait: args.port.wait, interval, ..usual };
    scenario.check().map_err(|problem| blame::invalid(&problem, &scenario))?;
    Ok(scenario)
}

/// The port on another host, where a listener there serves the sessions. A key that is no file stays out of scenarios.
fn far(args: &Args) -> Result<Option<PortSpec>, Failure> {
    let Some(host) = &args.peer.peer else { return Ok(None) };
    let place = format!("--peer {host}");
    let peer = host.resolve(CONTROL_PORT).map_err(|why| {
        Failure::usage(why).at(place).hint("write its address, or check its name")
    })?;
    let key_file = match args.peer.key.source() {
        Some(KeySource::File(file)) => Some(file.display().to_string()),
        Some(KeySource::Text(_)) | None => None,
    };
    Ok(Some(PortSpec { peer: Some(peer), key_file, ..PortSpec::default() }))
}

fn program(args: &Args, target: &Target) -> Result<Program, Failure> {
    match (target, args.program.program) {
        (Target::Url { .. }, None | Some(Program::Http)) => Ok(Program::Http),
        (Target::Dns { .. }, None | Some(Program::Dns)) => Ok(Program::Dns),
        (Target::Dns { .. }, Some(other)) => {
            let why = fault!(
                "this URL is for the program 'dns', not '{}'", other.name();
                "write a host and a port, for example 10.0.2.9:53"
            );
            Err(Failure::usage(why))
        }
        (Target::Url { .. }, Some(other)) => {
            let why = fault!(
                "a URL is for the program 'http', not '{}'", other.name();
                "write a host and a port, for example 10.0.2.9:5201"
            );
            Err(Failure::usage(why))
        }
        (Target::Host(_), Some(program)) => Ok(program),
        (Target::Host(host), None) => {
            let why = fault!(
                "nothing says what the sessions do";
                "give --program, for example --program bulk, or write http://{host}/"
            );
            Err(Failure::usage(why))
        }
    }
}

fn group(args: &Args, target: &Target, program: Program) -> Result<SessionSpec, Failure> {
    let at = target.resolve()?;
    let (path, host) = match target {
        Target::Url { authority, path, .. } => {
            let is_name = authority.host().parse::<IpAddr>().is_err();
            (path.as_str(), is_name.then(|| authority.to_string()))
        }
        Target::Dns { name, .. } => (name.as_str(), None),
        Target::Host(_) => ("", None),
    };
    let usual =
        SessionSpec::new(args.program.spec((program, args.peer.peer.is_some()), path, host)?);
    let sessions = &args.sessions;
    let (mut users, mut count) = (sessions.users, sessions.count);
    let is_one = matches!(program, Program::Bulk | Program::Messages);
    if is_one && sessions.rate.is_none() && (users, count) == (None, None) {
        // that many at once, and no other after them
        let streams = args.program.streams.unwrap_or(std::num::NonZeroU32::MIN);
        (users, count) = (Some(streams), Some(streams.into()));
    } else if args.program.streams.is_some() {
        let why = fault!(
            "streams run all at once, from the beginning";
            "leave out --rate, --users and --count, or --streams"
        );
        return Err(Failure::usage(why).at("--streams"));
    }
    if sessions.rate.is_none() && sessions.departures.is_none() && (users, count) == (None, None) {
        return Err(Failure::usage(fault!(
            "nothing says how many sessions start";
            "give --rate, --users or --count, for example --rate 1000/s --time 10s or --users 50"
        )));
    }
    Ok(SessionSpec {
        from: Some(CLIENT.to_owned()),
        stack: args.port.stack(),
        transport: sessions.transport.unwrap_or(match target {
            Target::Dns { .. } => Transport::Udp,
            Target::Url { .. } | Target::Host(_) => Transport::Tcp,
        }),
        clients: PoolSpec {
            addresses: sessions.clients.clone().unwrap_or_default(),
            ..PoolSpec::default()
        },
        servers: pool(at),
        rate: sessions.rate.clone().unwrap_or_default(),
        departures: sessions.departures.clone().unwrap_or_default(),
        users,
        think: sessions.think.clone(),
        hold: sessions.hold.clone(),
        count,
        limit: sessions.limit.map(|open| Limit {
            open: Some(open),
            beyond: sessions.beyond.unwrap_or_default(),
            ..Limit::default()
        }),
        timeout: sessions.timeout.unwrap_or(usual.timeout),
        on_timeout: sessions.on_timeout.unwrap_or_default(),
        tcp: args.tcp.spec(args.reset)?,
        tls: tls(args, target)?,
        ttl: args.tcp.ttl,
        dscp: args.tcp.dscp,
        tos: args.tcp.tos,
        expect: args.expect.clone(),
        ..usual
    })
}

/// TLS, with a URL of https or where it is asked for.
fn tls(args: &Args, target: &Target) -> Result<Option<TlsSpec>, Failure> {
    let secure = matches!(target, Target::Url { secure: true, .. });
    let flags = &args.tls;
    if !secure && !flags.tls {
        return match flags.given() {
            None => Ok(None),
            Some(flag) => Err(Failure::usage(fault!(
                "these sessions have no TLS"; "write https:// in the URL, give --tls, or leave it out"
            ))
            .at(flag)),
        };
    }
    let usual = TlsSpec::default();
    Ok(Some(TlsSpec {
        server_name: flags.server_name.clone(),
        verify: !flags.insecure,
        authority: flags.authority.as_ref().map(|path| path.display().to_string()),
        ..usual
    }))
}

fn pool(at: SocketAddr) -> PoolSpec {
    PoolSpec { addresses: at.ip().into(), ports: Some(at.port().into()), ..PoolSpec::default() }
}
