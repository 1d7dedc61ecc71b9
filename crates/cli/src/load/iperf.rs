//! `wirebeat load --iperf3` and `wirebeat serve --iperf3`: the wire of another tool, which has no scenario.

use std::net::SocketAddr;

use wirebeat_run::iperf::{Amount, Direction, TestSpec, load_iperf3, serve_iperf3};
use wirebeat_units::{Nanos, fault};

use super::Args;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;
use crate::values::HostPort;

/// The port of iperf3's servers (iperf3(1), `--port`).
pub const PORT: u16 = 5201;

/// Runs a test against the iperf3 server at `host`.
pub fn load(host: &HostPort, args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let spec = spec(args)?;
    let server = host.resolve(PORT).map_err(|why| Failure::usage(why).at("--iperf3"))?;
    let signals = Signals::watch()?;
    let mut observer = output.observer();
    let stop = signals.running();
    let report = load_iperf3(server, &spec, &output.options(), &mut *observer, stop);
    drop(observer);
    Ok(output.report(&report.map_err(Failure::from)?))
}

/// Serves iperf3's clients.
pub fn serve(listen: SocketAddr, output: &mut Output) -> Result<u8, Failure> {
    let signals = Signals::watch()?;
    let mut observer = output.observer();
    let stop = signals.running();
    let report = serve_iperf3(listen, false, &output.options(), &mut *observer, stop);
    drop(observer);
    Ok(output.report(&report.map_err(Failure::from)?))
}

/// The test that the flags mean.
fn spec(args: &Args) -> Result<TestSpec, Failure> {
    let usual = TestSpec::default();
    let bulk = args.program.bulk();
    let amount = match (bulk.bytes, args.run.time) {
        (Some(_), Some(_)) => {
            let why =
                fault!("a test of iperf3 ends by --time or by --bytes"; "leave one of them out");
            return Err(Failure::usage(why));
        }
        (Some(bytes), None) => Amount::Bytes(bytes),
        (None, Some(time)) if time < Nanos::from_secs(1) => {
            let why = fault!("iperf3 knows whole seconds"; "give --time 1s or more");
            return Err(Failure::usage(why));
        }
        (None, Some(time)) => Amount::Time(time),
        (None, None) => usual.amount,
    };
    Ok(TestSpec {
        direction: match (bulk.reverse, bulk.both_ways) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::BothWays,
            _ => Direction::Forward,
        },
        streams: args.program.streams.map_or(usual.streams, Into::into),
        amount,
        rate: args.tcp.pacing,
        mss: args.tcp.mss.map(Into::into),
        congestion: args.tcp.congestion.clone(),
        tos: args.tcp.dscp.map_or(0, |dscp| dscp.to_tos()),
        ..usual
    })
}
