//! `wirebeat receive`: measures what arrives, for itself or for a sender on another host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU64};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args as ClapArgs;
use wirebeat_run::receive::Listen;
use wirebeat_run::remote::{Grant, ServeGrant};
use wirebeat_run::{
    CaptureOptions, Codec, Filter, Group, Interval, KeySource, LogForm, LogRequest, Observer,
    Progress, ReceiveRequest, doctor,
};
use wirebeat_traffic::scenario::{
    EngineChoice, FlowExpectation, PriorityChoice, RunSpec, TimestampsChoice,
};
use wirebeat_units::{Fault, Nanos, fault};

use crate::command::NAME;
use crate::failure::Failure;
use crate::key::{self, CONTROL_PORT, KeyArgs, VARIABLE};
use crate::output::{Output, ReportArgs, lines_beside_a_view, tell};
use crate::sender::{LinkArgs, XdpArgs};
use crate::signals::Signals;
use crate::values::{self, Cpus};
use crate::watch::{WatchArgs, Watched};

const EXAMPLES: &str = "\
Examples:
  wirebeat receive --interface eth1
  wirebeat receive --interface eth1 --source 10.0.0.1 --port 5001 --time 60s
  wirebeat receive --interface eth1 --bins 1000x100ns --json report.json
  wirebeat receive --interface eth1 --listen --once
  wirebeat receive --interface eth1 --listen --allow-send 10.0.0.1,rate=50Mbps,time=10m
  wirebeat receive --interface eth1 --listen --allow-serve 10.0.2.9:80,sessions=5000,time=10m";

/// Measure what arrives
///
/// Measures the UDP datagrams that arrive on an interface, until it is stopped, and reports them. With
/// --listen it also measures for `wirebeat send --peer` on another host; it only counts and answers, unless --allow-send
/// lets it send, too, or --allow-serve lets it serve the sessions of `wirebeat load --peer`.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    port: RxPortArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    until: UntilArgs,
    #[command(flatten)]
    listen: ListenArgs,
    /// Also read the probes of another tool: pktgen, mgen, rude, iperf2, d-itg …; may be given several times
    #[arg(long = "codec", value_name = "NAME", value_parser = values::codec, help_heading = "Probes")]
    codecs: Vec<Codec>,
    /// The senders read the clock of this host: give one-way delays, which are not known otherwise
    #[arg(long, help_heading = "Probes", conflicts_with = "listen")]
    same_clock: bool,
    /// Write a line for each packet, in the form of another tool's log: mgen or crude
    #[arg(long, value_name = "FORM", value_parser = values::log_form, help_heading = "Probes")]
    log: Option<LogForm>,
    /// Where the log goes [default: standard output]
    #[arg(long, value_name = "FILE", requires = "log", help_heading = "Probes")]
    log_file: Option<PathBuf>,
    /// Keep the frames that arrive in this file, pcapng or pcap, while they are measured; 'wirebeat capture' has more choices
    #[arg(long, value_name = "FILE", help_heading = "Probes", conflicts_with = "listen")]
    capture: Option<PathBuf>,
    /// What has to come of all flows together, given once for each: 'loss <= 0.01%', 'received >= 1000'; exit code 4 otherwise
    #[arg(long, value_name = "EXPECTATION", help_heading = "Report", conflicts_with = "listen")]
    expect: Vec<FlowExpectation>,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// A group as it is written: its address, and perhaps `@` and that of the source.
#[derive(Clone, Copy, Debug)]
struct GroupText(Group);

impl FromStr for GroupText {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (group, source) = match text.split_once('@') {
            Some((group, source)) => (group, Some(values::ip(source)?)),
            None => (text, None),
        };
        let group = values::ip(group)?;
        match group.is_multicast() {
            true => Ok(GroupText(Group { group, source })),
            false => {
                Err(fault!("{group} is not a multicast address"; "write for example 239.1.1.1"))
            }
        }
    }
}

/// Where frames arrive.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Port")]
struct RxPortArgs {
    /// The interface to receive on; the engine 'socket' needs none
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The network namespace of the interface, as `ip netns` names it, or a path
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// How frames are received
    #[arg(long, value_parser = values::receiving_engine(), default_value = "auto")]
    engine: EngineChoice,
    /// The CPUs that the receiving thread may run on: 2, 2,3 or 2-5; the engine 'kernel' receives where interrupts
    /// arrive [default: the system's choice]
    #[arg(long, visible_alias = "cores", value_name = "CPUS")]
    cpu: Option<Cpus>,
    /// How many threads receive, each with a queue of its own [default: one]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU16>)]
    queues: Option<NonZeroU16>,
    /// How the receiving thread competes for a CPU
    #[arg(long, value_name = "WHAT", value_parser = values::priority(), default_value = "high")]
    priority: PriorityChoice,
    #[command(flatten)]
    xdp: XdpArgs,
    /// Who stamps what arrives
    #[arg(long, value_name = "WHO", value_parser = values::timestamps(), default_value = "software")]
    timestamps: TimestampsChoice,
    /// Also take frames that are addressed to other machines
    #[arg(long)]
    promiscuous: bool,
    /// Let measured datagrams go on to the programs of this host; the engine 'kernel' ends them
    #[arg(long)]
    pass: bool,
    #[command(flatten)]
    link: LinkArgs,
}

/// What is measured.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Filter")]
struct FilterArgs {
    /// Only datagrams from this address
    #[arg(long, value_name = "ADDRESS", value_parser = values::ip)]
    source: Option<IpAddr>,
    /// Only datagrams from this UDP port
    #[arg(long, value_name = "PORT", value_parser = values::udp_port)]
    source_port: Option<u16>,
    /// Only datagrams to this UDP port
    #[arg(long, value_name = "PORT", value_parser = values::udp_port)]
    port: Option<u16>,
    /// Join this multicast group, from any source or one: 239.1.1.1 or 232.1.1.1@10.0.0.1; may be given
    /// several times
    #[arg(long = "group", value_name = "GROUP[@SOURCE]")]
    groups: Vec<GroupText>,
    /// The most flows to measure; datagrams of others are counted only [default: 65,535, and on the kernel engine as many as
    /// fit into 256 MiB, from a sender on another host 1 GiB]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU16>)]
    flows: Option<NonZeroU16>,
}

/// When it ends.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "End")]
struct UntilArgs {
    /// End after this time [default: when it is stopped]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    /// End after so many frames
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU64>)]
    count: Option<NonZeroU64>,
}

/// For whom else it measures.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other host")]
struct ListenArgs {
    /// Wait for senders on other hosts [default: at all addresses, port 5960]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["count", "codecs", "log"]
    )]
    listen: Option<ListenAt>,
    #[command(flatten)]
    key: KeyArgs,
    /// End after the first sender has been served
    #[arg(long)]
    once: bool,
    /// Let senders with the key have this host send UDP to these addresses or prefixes, at most so fast on the line and so
    /// long in all [default: nothing; rate=10Mbps,time=60s]
    #[arg(long, value_name = "DEST[,DEST…][,rate=…][,time=…]")]
    allow_send: Option<Grant>,
    /// Let senders with the key have this host serve TCP sessions at these addresses and ports, at most so many at a time and
    /// so long in all [default: none; sessions=1000,time=60s]
    #[arg(long, value_name = "ADDRESS:PORT[-PORT][,…][,sessions=…][,time=…]")]
    allow_serve: Option<ServeGrant>,
}

/// Receives.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let printed = args.report.json_lines || args.report.result.files.take_standard_output();
    if args.log.is_some() && args.log_file.is_none() && printed {
        let why = "the log and the JSON would be mixed on standard output";
        return Err(Failure::usage(why)
            .at("--log")
            .hint("write the log to a file with --log-file"));
    }
    if args.watch.tui {
        let on_standard_output = args.log.is_some() && args.log_file.is_none();
        lines_beside_a_view(on_standard_output, "--log")?;
    }
    let listen = args.listen.listen()?;
    let unknown = listen.as_ref().filter(|_| !args.listen.key_known());
    let announcement = unknown.map(|listen| announcement(listen, args));
    let options = output.options();
    let (link_timeout, on_link_down) = args.port.link.policy();
    let request = ReceiveRequest {
        link_timeout,
        on_link_down,
        timestamps: args.port.timestamps,
        command_line: options.command_line,
        interface: args.port.interface.clone(),
        namespace: args.port.namespace.clone(),
        namespaces: options.namespaces,
        engine: args.port.engine,
        filter: Filter {
            source: args.filter.source,
            source_port: args.filter.source_port,
            destination_port: args.filter.port,
        },
        bins: options.bins,
        packet_log: options.packet_log,
        flows: args.filter.flows.map_or(u16::MAX, NonZeroU16::get),
        promiscuous: args.port.promiscuous,
        pass: args.port.pass,
        cores: args.port.cpu.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
        queues: args.port.queues.map_or(1, NonZeroU16::get),
        xdp_mode: args.port.xdp.xdp_mode,
        busy_poll: args.port.xdp.busy_poll,
        priority: args.port.priority,
        expect: args.expect.clone(),
        time: args.until.time,
        count: args.until.count.map(NonZeroU64::get),
        interval: options.interval.unwrap_or(RunSpec::DEFAULT_INTERVAL),
        listen,
        codecs: args.codecs.clone(),
        same_clock: args.same_clock,
        log: args.log.map(|form| LogRequest { form, file: args.log_file.clone() }),
        capture: args
            .capture
            .clone()
            .map(|file| CaptureOptions { file, ..CaptureOptions::default() }),
        ends_with_capture: false,
        groups: args.filter.groups.iter().map(|group| group.0).collect(),
    };
    let signals = Signals::watch()?;
    let view = output.has_view();
    let inner = output.observer(Watched::plain(&signals))?;
    let mut observer = Announcing { inner, view, announcement };
    let report = wirebeat_run::receive(&request, &mut observer, signals.running())?;
    drop(observer);
    Ok(output.report(&report))
}

impl ListenArgs {
    fn listen(&self) -> Result<Option<Listen>, Failure> {
        let Some(at) = &self.listen else {
            let given = [
                ("--once", self.once),
                ("--allow-send", self.allow_send.is_some()),
                ("--allow-serve", self.allow_serve.is_some()),
                ("a key", self.key.given()),
            ];
            let Some((idle, _)) = given.into_iter().find(|(_, given)| *given) else {
                return Ok(None);
            };
            let message = format!("{idle} is for senders on other hosts, and none is waited for");
            return Err(Failure::usage(&message).hint("add --listen, or leave it out"));
        };
        let address = at.address();
        let acts = self.allow_send.is_some() || self.allow_serve.is_some();
        let key = match self.key.source() {
            None if !address.ip().is_loopback() || acts => Some(KeySource::Text(key::generate()?)),
            given => given,
        };
        let (allow_send, allow_serve) = (self.allow_send.clone(), self.allow_serve.clone());
        Ok(Some(Listen { address, key, once: self.once, allow_send, allow_serve }))
    }

    /// Whether whoever started this knows the key already, or needs none.
    fn key_known(&self) -> bool {
        self.key.source().is_some()
    }
}

/// Where to listen, as far as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListenAt {
    ip: Option<IpAddr>,
    port: u16,
}

impl FromStr for ListenAt {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            fault!(
                "'{text}' is not an address to listen at";
                "write for example 192.0.2.7, 192.0.2.7:5960 or :5960"
            )
        };
        if text.is_empty() {
            return Ok(ListenAt { ip: None, port: CONTROL_PORT });
        }
        if let Ok(ip) = values::ip(text) {
            return Ok(ListenAt { ip: Some(ip), port: CONTROL_PORT });
        }
        let (ip, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        match ip {
            "" => Ok(ListenAt { ip: None, port }),
            ip => {
                let address: SocketAddr = format!("{ip}:{port}").parse().map_err(|_| wrong())?;
                Ok(ListenAt { ip: Some(address.ip()), port })
            }
        }
    }
}

impl ListenAt {
    /// The address; without one, all of IPv6 and IPv4, or of IPv4 where the kernel has no IPv6.
    fn address(&self) -> SocketAddr {
        let all = || match Path::new("/proc/net/if_inet6").exists() {
            true => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        };
        SocketAddr::new(self.ip.unwrap_or_else(all), self.port)
    }
}

/// Prints the command for the other host once this one listens: a key that nothing knows would only mislead.
struct Announcing {
    inner: Box<dyn Observer>,
    /// Whether a live view has the terminal.
    view: bool,
    announcement: Option<String>,
}

impl Observer for Announcing {
    fn progress(&mut self, progress: &Progress) {
        self.inner.progress(progress);
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    fn wants_histograms(&self) -> bool {
        self.inner.wants_histograms()
    }

    fn interval(&mut self, interval: &Interval) {
        self.inner.interval(interval);
    }

    fn notice(&mut self, message: &str) {
        self.inner.notice(message);
    }

    fn listening(&mut self, address: SocketAddr) {
        match self.announcement.take() {
            Some(announcement) if self.view => self.inner.notice(&announcement),
            Some(announcement) => tell(&announcement),
            None => {}
        }
        self.inner.listening(address);
    }
}

/// The command for the other host, with the key that was made for it.
fn announcement(listen: &Listen, args: &Args) -> String {
    let key = match &listen.key {
        Some(KeySource::Text(key)) => format!("{VARIABLE}={key} "),
        _ => String::new(),
    };
    let (interface, namespace) = (args.port.interface.as_deref(), args.port.namespace.as_deref());
    let data = match listen.address.ip() {
        ip if ip.is_loopback() => Some(ip),
        _ => doctor::reachable_address(interface, namespace),
    };
    let control = match listen.address.ip() {
        ip if !ip.is_unspecified() => Some(ip),
        // It listens in the namespace of this process, wherever the interface is.
        _ if namespace.is_none() => data,
        _ => doctor::reachable_address(None, None),
    };
    let usual = Some(listen.address.port()).filter(|port| *port != CONTROL_PORT);
    let place = if listen.address.ip().is_loopback() { "this host" } else { "another host" };
    format!(
        "for both ends in one report, run on {place}\n  {key}{NAME} send --to {} --peer {} --rate 1kpps\n",
        written(data, args.filter.port),
        written(control, usual),
    )
}

/// An address as flags take it.
fn written(ip: Option<IpAddr>, port: Option<u16>) -> String {
    let ip = ip.map_or_else(|| "ADDRESS-OF-THIS-HOST".to_owned(), |ip| ip.to_string());
    match port {
        Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
        Some(port) => format!("{ip}:{port}"),
        None => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_where_it_is_told() {
        let at = |text: &str| text.parse::<ListenAt>().map(|at| (at.ip, at.port));
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        for (text, expected) in [
            ("", (None, CONTROL_PORT)),
            (":7000", (None, 7000)),
            ("192.0.2.7", (ip("192.0.2.7"), CONTROL_PORT)),
            ("192.0.2.7:7000", (ip("192.0.2.7"), 7000)),
            ("2001:db8::7", (ip("2001:db8::7"), CONTROL_PORT)),
            ("[2001:db8::7]:7000", (ip("2001:db8::7"), 7000)),
        ] {
            assert_eq!(at(text), Ok(expected), "{text}");
        }
        for text in [":0", ":x", "eth1", "192.0.2.7:99999", "lab2:7000", ":"] {
            assert!(
                at(text).unwrap_err().to_string().contains("is not an address to listen at"),
                "{text}"
            );
        }
    }

    #[test]
    fn without_an_address_it_listens_at_all() {
        let all = "".parse::<ListenAt>().unwrap().address();
        assert!(all.ip().is_unspecified() && all.port() == CONTROL_PORT);
    }
}
