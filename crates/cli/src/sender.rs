//! The end that sends: flags that say where frames leave and who measures them on another host. `send` and `replay` have
//! them in common.

use std::num::NonZeroU16;

use clap::Args as ClapArgs;
use wirebeat_run::Peer;
use wirebeat_traffic::scenario::{
    EngineChoice, OnLinkDown, PortSpec, PriorityChoice, RunSpec, TimestampsChoice, WaitChoice,
    XdpModeChoice,
};
use wirebeat_units::{BitRate, Nanos, WallTime};

use crate::failure::Failure;
use crate::key::{CONTROL_PORT, KeyArgs, VARIABLE};
use crate::values::{self, Cpus, HostPort, TxQueues};

/// The name of the port that sends.
pub const PORT: &str = "sender";

/// Where frames leave.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Port")]
pub struct PortArgs {
    /// The interface to send from [default: the one on the way to the destination]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// The network namespace of the interface, as `ip netns` names it, or a path
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// How frames are sent
    #[arg(long, value_parser = values::engine(), default_value = "auto")]
    engine: EngineChoice,
    /// The CPUs that send, one thread on each: 2, 2,3 or 2-5 [default: the system's choice]
    #[arg(long, visible_alias = "cores", value_name = "CPUS")]
    cpu: Option<Cpus>,
    /// How many threads send [default: one for each of --cpu, or one]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU16>)]
    queues: Option<NonZeroU16>,
    /// The transmit queues to send by, one thread for each, on CPUs that send by them: 1, 0,1 or 0-3 [default: those of --cpu]
    #[arg(long, value_name = "QUEUES", conflicts_with = "cpu", hide_short_help = true)]
    transmit_queue: Option<TxQueues>,
    #[command(flatten)]
    xdp: XdpArgs,
    /// Speed of the link, for example 10Gbps, where the system does not know it
    #[arg(long, value_name = "RATE")]
    speed: Option<BitRate>,
}

impl PortArgs {
    /// The port as a scenario has it.
    pub fn spec(&self) -> PortSpec {
        PortSpec {
            interface: self.interface.clone(),
            namespace: self.namespace.clone(),
            engine: self.engine,
            cores: self.cpu.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
            queues: self.queues,
            transmit_queues: self
                .transmit_queue
                .as_ref()
                .map(|of| of.0.clone())
                .unwrap_or_default(),
            xdp_mode: self.xdp.xdp_mode,
            busy_poll: self.xdp.busy_poll,
            speed: self.speed,
            ..PortSpec::default()
        }
    }
}

/// How the engine `xdp` works at a port, of senders and receivers.
#[derive(ClapArgs, Debug)]
pub struct XdpArgs {
    /// How the engine 'xdp' uses the driver
    #[arg(
        long,
        value_name = "HOW",
        value_parser = values::xdp_mode(),
        default_value = "auto",
        hide_short_help = true
    )]
    pub xdp_mode: XdpModeChoice,
    /// The threads of the engine 'xdp' serve the card's queues themselves (preferred busy polling)
    #[arg(long, hide_short_help = true)]
    pub busy_poll: bool,
}

/// When a run starts, how exact it is, and how it ends.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Run")]
pub struct StartArgs {
    /// Start at this moment, in UTC: 2026-11-20T18:00:00Z [default: at once]
    #[arg(long, value_name = "MOMENT")]
    start_at: Option<WallTime>,
    /// How deadlines are awaited
    #[arg(long, value_name = "HOW", value_parser = values::wait(), default_value = "hybrid")]
    wait: WaitChoice,
    /// How sending and receiving threads compete for a CPU
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = values::priority(),
        default_value = "high",
        hide_short_help = true
    )]
    priority: PriorityChoice,
    /// How long to go on receiving after the last frame [default: 200ms]
    #[arg(long, value_name = "TIME")]
    settle: Option<Nanos>,
    /// Who stamps what is received, and when frames left
    #[arg(
        long,
        value_name = "WHO",
        value_parser = values::timestamps(),
        default_value = "software",
        hide_short_help = true
    )]
    timestamps: TimestampsChoice,
    #[command(flatten)]
    link: LinkArgs,
}

/// Links that are down.
#[derive(ClapArgs, Debug)]
pub struct LinkArgs {
    /// How long to wait for a link to come up before anything is sent [default: 10s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    link_timeout: Option<Nanos>,
    /// When a link goes down: 'wait 5s' goes on if it is back within that time, 'end' ends [default: wait 5s]
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    on_link_down: Option<OnLinkDown>,
}

impl LinkArgs {
    /// How long to wait before the start, and what becomes of a run.
    pub fn policy(&self) -> (Nanos, OnLinkDown) {
        let timeout = self.link_timeout.unwrap_or(RunSpec::DEFAULT_LINK_TIMEOUT);
        (timeout, self.on_link_down.unwrap_or_default())
    }
}

impl StartArgs {
    /// A run that ends at `time`, if at any, and is as usual where they say nothing.
    pub fn run(&self, time: Option<Nanos>) -> RunSpec {
        let usual = RunSpec::default();
        let (link_timeout, on_link_down) = self.link.policy();
        RunSpec {
            time,
            start_at: self.start_at,
            wait: self.wait,
            priority: self.priority,
            settle: self.settle.unwrap_or(usual.settle),
            link_timeout,
            on_link_down,
            timestamps: self.timestamps,
            ..usual
        }
    }
}

/// The receiver on another host.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Other host")]
pub struct PeerArgs {
    /// The host where `wirebeat receive --listen` measures what arrives
    #[arg(long, value_name = "HOST[:PORT]")]
    peer: Option<HostPort>,
    #[command(flatten)]
    key: KeyArgs,
}

impl PeerArgs {
    /// That receiver, if there is one.
    pub fn peer(&self) -> Result<Option<Peer>, Failure> {
        peer(self.peer.as_ref(), &self.key)
    }
}

/// The listener on another host that `--peer` and a key mean, if there is one.
pub fn peer(host: Option<&HostPort>, key: &KeyArgs) -> Result<Option<Peer>, Failure> {
    let Some(host) = host else {
        return match key.given() {
            true => Err(Failure::usage("a key needs --peer")
                .hint("add --peer with the host that receives, or leave the key out")),
            false => Ok(None),
        };
    };
    let place = format!("--peer {host}");
    let address = host.resolve(CONTROL_PORT).map_err(|why| {
        Failure::usage(why).at(place.clone()).hint("write its address, or check its name")
    })?;
    let key = key.source();
    if key.is_none() && !address.ip().is_loopback() {
        return Err(Failure::usage("the receiver's key is missing").at(place).hint(format!(
            "give the key that it printed: with --key or --key-file, or in {VARIABLE}"
        )));
    }
    Ok(Some(Peer { address, key }))
}
