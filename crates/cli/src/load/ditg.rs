//! `--ditg` of `wirebeat load` and `wirebeat serve`: D-ITG's flows and its signalling, which have no scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::ditg::{self, Amount, DATA_PORT, FlowMeter, FlowSpec, LONGEST, PORT, Transport};
use wirebeat_traffic::scenario::FlowRate;
use wirebeat_traffic::scenario::session::Expectation;
use wirebeat_traffic::scenario::session::expect::Measured;
use wirebeat_units::{BitRate, FrameRate, Layer, Nanos, Rate, fault};

use super::Args;
use super::iperf::{OF_SCENARIOS, OF_SERVERS};
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;
use crate::values::{self, HostPort};
use crate::watch::Watched;

/// Flows to a receiver of D-ITG.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other tools")]
pub struct DitgLoadArgs {
    /// Instead: flows to an ITGRecv, with --udp, --streams, --round-trips, --bytes or --time, --rate, --size
    ///
    /// The receiver is ITGRecv or 'wirebeat serve --ditg'; its signalling is at port 9000 unless another is written. Each flow is
    /// asked for, sent at --rate (100Mbps of payload, or packets: 1000/s) and closed, as ITGSend does it.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        conflicts_with_all = ["target", "iperf3", "iperf2", "reverse", "both_ways", "congestion", "mss", "pacing"],
        conflicts_with_all = OF_SCENARIOS
    )]
    ditg: Option<HostPort>,
    /// With --ditg: the receiver sends each packet back, and the round trips are measured (ITGSend's -m rttm)
    #[arg(long, requires = "ditg")]
    round_trips: bool,
    /// With --ditg: the receiver's port for the flows (ITGSend's -rp) [default: 8999]
    #[arg(long, value_name = "PORT", requires = "ditg", value_parser = values::count::<std::num::NonZeroU16>)]
    data_port: Option<std::num::NonZeroU16>,
    /// With --ditg: a record of each packet in D-ITG's binary log, which ITGDec reads; with --round-trips of those that came back
    #[arg(long, value_name = "FILE", requires = "ditg")]
    log: Option<PathBuf>,
}

impl DitgLoadArgs {
    /// The receiver.
    pub fn receiver(&self) -> Option<&HostPort> {
        self.ditg.as_ref()
    }

    /// That flags of its own stand beside --ditg: clap leaves out what a flag needs where that is excluded by another.
    ///
    /// # Errors
    /// The first that stands without it.
    pub fn check_alone(&self) -> Result<(), Failure> {
        check_alone(
            self.ditg.is_some(),
            &[
                ("--round-trips", self.round_trips),
                ("--data-port", self.data_port.is_some()),
                ("--log", self.log.is_some()),
            ],
        )
    }
}

/// A receiver for the senders of D-ITG.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other tools")]
pub struct DitgServeArgs {
    /// Instead: receive the flows of D-ITG's ITGSend over UDP and TCP, of any number of senders at once, at one --listen
    ///
    /// Only packets from the host of a sender's signalling connection are taken, and sent back where it asks for round trips. A
    /// sender chooses the port of a flow, from 1024 on, and never a file: logs that it asks for (-x, -X) are not written.
    #[arg(
        long,
        conflicts_with_all = ["program", "iperf3", "iperf2"],
        conflicts_with_all = OF_SERVERS
    )]
    pub ditg: bool,
    /// With --ditg: a record of each packet in D-ITG's binary log, which ITGDec reads; 16 GiB at most
    #[arg(long, value_name = "FILE", requires = "ditg")]
    log: Option<PathBuf>,
}

impl DitgServeArgs {
    /// As [`DitgLoadArgs::check_alone`].
    ///
    /// # Errors
    /// See there.
    pub fn check_alone(&self) -> Result<(), Failure> {
        check_alone(self.ditg, &[("--log", self.log.is_some())])
    }
}

fn check_alone(ditg: bool, flags: &[(&str, bool)]) -> Result<(), Failure> {
    match flags.iter().find(|(_, given)| *given && !ditg) {
        Some((flag, _)) => {
            let why = fault!("only flows of D-ITG have this flag"; "leave it out, or give --ditg");
            Err(Failure::usage(why).at(*flag))
        }
        None => Ok(()),
    }
}

/// Sends flows to the receiver at `host`.
pub fn load(host: &HostPort, args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let spec = spec(args)?;
    check_expected(&args.expect, spec.meter)?;
    let address = host.resolve(PORT).map_err(|why| Failure::usage(why).at("--ditg"))?;
    let signals = Signals::watch()?;
    let mut observer = output.observer(Watched::plain(&signals))?;
    let stop = signals.running();
    let options = output.options();
    let flows = (&spec, args.ditg.log.as_deref());
    let report = ditg::load(address, flows, &args.expect, &options, (&mut *observer, stop));
    drop(observer);
    Ok(output.report(&report.map_err(Failure::from)?))
}

/// Receives flows at `address` for `time`, none of them longer than `longest`.
pub fn serve(
    address: SocketAddr,
    (time, longest): (Option<Nanos>, Option<Nanos>),
    args: &DitgServeArgs,
    output: &mut Output,
) -> Result<u8, Failure> {
    let signals = Signals::watch()?;
    let mut observer = output.observer(Watched::plain(&signals))?;
    let stop = signals.running();
    let how = (time, longest.unwrap_or(LONGEST), args.log.as_deref());
    let report = ditg::serve(address, how, &output.options(), &mut *observer, stop);
    drop(observer);
    Ok(output.report(&report.map_err(Failure::from)?))
}

/// That an end that sends can say what is expected of it.
fn check_expected(expected: &[Expectation], meter: FlowMeter) -> Result<(), Failure> {
    const COUNTERS: [&str; 6] =
        ["opened", "established", "in-order", "failed", "unfinished", "sent-messages"];
    const COUNTERS_OF_ROUND_TRIPS: [&str; 4] =
        ["requests", "responses", "lost-responses", "late-responses"];
    let round_trips = meter == FlowMeter::RoundTrip;
    let is_known = |one: &&Expectation| {
        !one.each_interval
            && match &one.measured {
                Measured::Counter(name) => {
                    COUNTERS.contains(&&**name)
                        || round_trips && COUNTERS_OF_ROUND_TRIPS.contains(&&**name)
                }
                Measured::Rate(name) => round_trips && name == "goodput",
                Measured::Time { of, .. } => round_trips && of == "response",
                Measured::Duration => true,
                Measured::Status(_) | Measured::Rcode(_) => false,
            }
    };
    match expected.iter().find(|one| !is_known(one)) {
        None => Ok(()),
        Some(one) => {
            let why = fault!(
                "the sender of such flows does not know what '{one}' is about";
                "expect sent-messages, or with --round-trips lost-responses and response.p99"
            );
            Err(Failure::usage(why).at("--expect"))
        }
    }
}

/// The flows that the flags mean.
fn spec(args: &Args) -> Result<FlowSpec, Failure> {
    let usual = FlowSpec::default();
    let transport = if args.tool.udp { Transport::Udp } else { Transport::Tcp };
    if transport == Transport::Udp && args.sessions.rate.is_none() {
        let why = fault!("nothing says how fast datagrams are sent"; "give --rate, for example --rate 1000/s");
        return Err(Failure::usage(why).at("--udp"));
    }
    let block = args.program.block()?;
    let size = block.map_or(usual.size, |bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX));
    let spec = FlowSpec {
        transport,
        meter: if args.ditg.round_trips { FlowMeter::RoundTrip } else { FlowMeter::OneWay },
        flows: args.program.streams.map_or(usual.flows, Into::into),
        size,
        rate: rate(args, size)?,
        amount: amount(args, size)?.unwrap_or(usual.amount),
        ds: args.tcp.tos_byte(),
        data_port: args.ditg.data_port.map_or(DATA_PORT, Into::into),
        interval: None,
    };
    spec.check().map_err(|why| Failure::usage(why).at("--ditg"))?;
    Ok(spec)
}

fn amount(args: &Args, size: usize) -> Result<Option<Amount>, Failure> {
    match (args.program.bulk().bytes, args.run.time) {
        (Some(_), Some(_)) => {
            let why = fault!("a flow ends by --time or by --bytes"; "leave one of them out");
            Err(Failure::usage(why))
        }
        (Some(bytes), None) => {
            let packets = bytes.get().div_ceil((size as u64).max(1));
            Ok(Some(Amount::Packets(packets)))
        }
        (None, time) => Ok(time.map(Amount::Time)),
    }
}

/// How many packets of `size` bytes each flow sends in a second: as many as are written, or as a bit rate of their payload means.
fn rate(args: &Args, size: usize) -> Result<Option<FrameRate>, Failure> {
    let bits = |rate: &BitRate| {
        let per = Nanos::from_secs((size as u64).saturating_mul(8).max(1));
        Some(FrameRate { frames: rate.0, per })
    };
    match &args.sessions.rate {
        None | Some(FlowRate::Fixed(Rate::Unlimited)) => Ok(None),
        Some(FlowRate::Fixed(Rate::Frames(rate))) => Ok(Some(*rate)),
        Some(FlowRate::Fixed(Rate::Bits(rate, Layer::Payload))) => Ok(bits(rate)),
        // of sessions it is the payload that is meant where no layer is written
        Some(FlowRate::Fixed(Rate::Bits(rate, layer))) if *layer == Layer::default() => {
            Ok(bits(rate))
        }
        Some(_) => Err(Failure::usage(fault!(
            "a flow of D-ITG has one rate, in packets or in bits of payload"; "write for example 1000/s or 100Mbps"
        ))
        .at("--rate")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use wirebeat_units::Nanos;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The flows of a command line.
    fn of(line: &str) -> Result<FlowSpec, Failure> {
        let line = Line::try_parse_from(line.split_whitespace());
        let line = line.map_err(|error| crate::usage::explain(&error))?;
        line.args.ditg.check_alone()?;
        let spec = spec(&line.args)?;
        check_expected(&line.args.expect, spec.meter)?;
        Ok(spec)
    }

    #[test]
    fn flags_are_flows() {
        let usual = FlowSpec::default();
        let udp = of("--ditg lab --udp --rate 100/s --size 100B --streams 2 --time 1s").unwrap();
        let rate = Some(FrameRate { frames: 100, per: Nanos::from_secs(1) });
        let amount = Amount::Time(Nanos::from_secs(1));
        assert_eq!(udp, FlowSpec { rate, size: 100, flows: 2, amount, ..usual });
        let bits = of("--ditg lab:9 --udp --rate 8Mbps --size 1000B --round-trips").unwrap();
        assert_eq!(bits.rate.map(|rate| rate.per_second()), Some(1000.0));
        assert_eq!(bits.meter, FlowMeter::RoundTrip);
        let tcp = of("--ditg lab --bytes 1025B --dscp ef --data-port 10001").unwrap();
        let (transport, amount) = (Transport::Tcp, Amount::Packets(3));
        let expected =
            FlowSpec { transport, amount, rate: None, ds: 184, data_port: 10_001, ..usual };
        assert_eq!(tcp, expected);
    }

    #[test]
    fn what_a_flow_cannot_be_is_told_with_its_flag() {
        for (line, says) in [
            ("--ditg lab --udp", "--udp: nothing says how fast datagrams are sent; give --rate"),
            ("--ditg lab --udp --rate 1Mbps@line", "--rate: a flow of D-ITG has one rate"),
            ("--ditg lab --time 1s --bytes 1MB", "a flow ends by --time or by --bytes"),
            ("--ditg lab --size 15B", "--ditg: packets of 15 B; ask for 20 B to 64000 B"),
            ("--ditg lab --iperf3 lab", "do not go together"),
            ("--ditg lab --reverse", "do not go together"),
            ("--ditg lab --expect response.p99<5ms", "--expect: the sender of such flows"),
            (
                "http://lab/ --round-trips --count 1",
                "--round-trips: only flows of D-ITG have this flag; leave it out, or give --ditg",
            ),
            ("--iperf3 lab --log x", "--log: only flows of D-ITG"),
        ] {
            let said = of(line).map(|spec| format!("{spec:?}")).unwrap_err().sentence();
            assert!(said.contains(says), "{line}: {said}");
        }
        assert!(of("--ditg lab --round-trips --expect response.p99<5ms").is_ok());
    }
}
