//! `wirebeat capture`: keeps the frames that arrive on an interface, and measures those with probes on the way.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::{CaptureOptions, Comments, Fcs, FileFormat, Filter, ReceiveRequest};
use wirebeat_traffic::scenario::{
    EngineChoice, PriorityChoice, RunSpec, TimestampsChoice, XdpModeChoice,
};
use wirebeat_units::{Bytes, Nanos};

use crate::failure::Failure;
use crate::output::{Output, ReportArgs};
use crate::sender::LinkArgs;
use crate::signals::Signals;
use crate::values::{self, Cpus};
use crate::watch::Watched;

const EXAMPLES: &str = "\
Examples:
  wirebeat capture -i eth1 -w out.pcapng
  wirebeat capture -i eth1 -w dns.pcapng.zst --time 60s udp port 53
  wirebeat capture -i eth1 -w odd.pcapng --only 'reordered or delay > 1ms' --before 5 --after 5
  wirebeat capture -i eth1 -w ring.pcapng --rotate-size 100MB --files 10
  wirebeat capture -i eth1 -w - | wireshark -k -i -";

/// Keep the frames that arrive, and measure them
///
/// Frames are kept in a pcapng or pcap file, before the stack takes them, and go on to the programs of this host. Frames with
/// probes are measured on the way: the report is that of 'wirebeat receive'. What leaves by the interface is not kept.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    port: PortArgs,
    #[command(flatten)]
    pub kept: KeptArgs,
    /// The file: .pcapng or .pcap, with .zst behind it compressed; - is standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Which frames, in the syntax of tcpdump: udp and dst port 53
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    filter: Vec<String>,
    #[command(flatten)]
    until: UntilArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Where frames arrive.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Port")]
struct PortArgs {
    /// The interface
    #[arg(short, long, value_name = "NAME")]
    interface: String,
    /// The network namespace of the interface, as `ip netns` names it, or a path
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// How frames are received
    #[arg(long, value_parser = values::receiving_engine(), default_value = "auto")]
    engine: EngineChoice,
    /// The CPUs that the receiving thread may run on: 2, 2,3 or 2-5 [default: the system's choice]
    #[arg(long, value_name = "CPUS")]
    cpu: Option<Cpus>,
    /// Leave frames to the interface that are addressed to other machines
    #[arg(short = 'p', long)]
    no_promiscuous: bool,
    /// Who stamps what arrives
    #[arg(long, value_name = "WHO", value_parser = values::timestamps(), default_value = "software")]
    timestamps: TimestampsChoice,
    /// The senders read the clock of this host: give one-way delays, which are not known otherwise
    #[arg(long)]
    same_clock: bool,
    #[command(flatten)]
    link: LinkArgs,
}

/// When it ends.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "End")]
struct UntilArgs {
    /// End after this time [default: when it is stopped]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    /// End when so many frames are kept
    #[arg(short, long, value_name = "N", value_parser = values::count::<NonZeroU64>)]
    count: Option<NonZeroU64>,
    /// End when the files have so many bytes
    #[arg(long, value_name = "BYTES")]
    size: Option<Bytes>,
}

/// What is kept of which frames.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Capture")]
pub struct KeptArgs {
    /// Only frames of which the measurement finds this: duplicate, 'delay > 1ms', 'flow == 3 and lost-before'
    #[arg(long, value_name = "CONDITION")]
    only: Option<String>,
    /// With --only: so many frames before each of them, too
    #[arg(long, value_name = "N", requires = "only", default_value_t = 0)]
    before: u32,
    /// With --only: so many frames after each of them, too
    #[arg(long, value_name = "N", requires = "only", default_value_t = 0)]
    after: u32,
    /// Keep so many bytes of each frame [default: all]
    #[arg(short, long = "snap-length", value_name = "BYTES")]
    snap_length: Option<u32>,
    /// Write this format, whatever the name of the file says: pcapng, pcap, pcap-us
    #[arg(long, value_name = "FORMAT")]
    format: Option<FileFormat>,
    /// Begin another file before one has more bytes than this: 100MB
    #[arg(long, value_name = "BYTES")]
    rotate_size: Option<Bytes>,
    /// Begin another file after this time: 1min
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    rotate_time: Option<Nanos>,
    /// Begin another file after so many frames
    #[arg(long, value_name = "N")]
    rotate_count: Option<u64>,
    /// Keep so many of these files, and remove the oldest
    #[arg(long, value_name = "N")]
    files: Option<u32>,
    /// The frame check sequence of frames in the file: none, computed, zeros
    #[arg(long, value_name = "WHAT", default_value = "none")]
    fcs: Fcs,
    /// Which frames have a comment: none, odd, all [default: odd, where the format has comments]
    #[arg(long, value_name = "WHICH")]
    comments: Option<Comments>,
    /// Write over a file that is there; a link is followed
    #[arg(long)]
    overwrite: bool,
}

impl KeptArgs {
    /// As options, into `file`.
    pub fn options(&self, file: PathBuf) -> CaptureOptions {
        let KeptArgs { only, snap_length, .. } = self.clone();
        CaptureOptions {
            file,
            format: self.format,
            snap_len: snap_length,
            only,
            before: self.before,
            after: self.after,
            rotate_size: self.rotate_size,
            rotate_time: self.rotate_time,
            rotate_count: self.rotate_count,
            files: self.files,
            fcs: self.fcs,
            comments: self.comments,
            overwrite: self.overwrite,
            overwrite_by: Some("--overwrite"),
            ..CaptureOptions::default()
        }
    }
}

/// Captures.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let capture = CaptureOptions {
        filter: Some(args.filter.join(" ")).filter(|filter| !filter.trim().is_empty()),
        count: args.until.count.map(NonZeroU64::get),
        size: args.until.size,
        ..args.kept.options(args.write.clone())
    };
    if capture.is_standard_output() {
        let printed = args.report.json_lines || args.report.result.files.take_standard_output();
        if printed {
            let why = "the frames and the JSON would be mixed on standard output";
            return Err(Failure::usage(why).at("--write").hint("write one of them to a file"));
        }
        output.spare_standard_output();
    }
    let options = output.options();
    let (link_timeout, on_link_down) = args.port.link.policy();
    let request = ReceiveRequest {
        command_line: options.command_line,
        interface: Some(args.port.interface.clone()),
        namespace: args.port.namespace.clone(),
        namespaces: options.namespaces,
        engine: args.port.engine,
        filter: Filter::default(),
        bins: options.bins,
        packet_log: options.packet_log,
        flows: u16::MAX,
        promiscuous: !args.port.no_promiscuous,
        pass: true,
        cores: args.port.cpu.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
        queues: 1,
        xdp_mode: XdpModeChoice::Auto,
        busy_poll: false,
        priority: PriorityChoice::High,
        expect: Vec::new(),
        time: args.until.time,
        count: None,
        interval: options.interval.unwrap_or(RunSpec::DEFAULT_INTERVAL),
        link_timeout,
        on_link_down,
        timestamps: args.port.timestamps,
        listen: None,
        same_clock: args.port.same_clock,
        codecs: Vec::new(),
        log: None,
        capture: Some(capture),
        ends_with_capture: true,
        groups: Vec::new(),
    };
    let signals = Signals::watch()?;
    let mut observer = output.observer(Watched::plain(&signals))?;
    let report = wirebeat_run::receive(&request, &mut *observer, signals.running())?;
    drop(observer);
    Ok(output.report(&report))
}
