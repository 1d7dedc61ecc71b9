//! `wirebeat replay`: archives and captures sent again, from the command line.
//!
//! Like `send`, the command line is a scenario in short, which `--print-scenario` shows.

pub mod beginning;
mod captured;
mod stream;

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_archive::time_series;
use wirebeat_run::{Codec, Options};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::number::Number;
use wirebeat_traffic::scenario::pattern::{Changing, Field, FieldValue, Increment, Pattern, Per};
use wirebeat_traffic::scenario::replay::{
    FileNames, FlowOf, Numbers, OnBad, OutOfOrder, ReaderChoice, Replay, Statistics,
};
use wirebeat_traffic::scenario::{FlowSpec, Probe, Scenario};
use wirebeat_units::{Bytes, Factor, Fault, Nanos, WallTime, fault};

use captured::CaptureArgs;
use stream::Recording;

use crate::ctl::ControlArgs;
use crate::destination::{Destination, Hosts};
use crate::expect::ExpectArgs;
use crate::failure::Failure;
use crate::output::{Output, ReportArgs, print_data};
use crate::packet::PacketArgs;
use crate::repeat::RepeatArgs;
use crate::send::blame;
use crate::sender::{PORT, PeerArgs, PortArgs, StartArgs};
use crate::values;
use crate::watch::WatchArgs;

/// The name of the flow.
pub const FLOW: &str = "replay";
/// The first source port of those that vary, unless it is given: the first that is not assigned by name.
const FIRST_PORT: u16 = 1024;

const EXAMPLES: &str = "\
Examples:
  wirebeat replay day.wbar --to 10.0.0.2:5000
  wirebeat replay day.wbar --to 10.0.0.2:5000 --fast-forward 10x --drift 100us
  wirebeat replay day.wbar --to 10.0.0.2:5000 --tight-loop 0 --interface eth1 --engine kernel
  wirebeat replay day.wbar --to 10.0.0.2:5000 --flow-of device --source-port 20000 --statistics device
  wirebeat replay day.wbar --to 10.0.0.2:5000 --probe --peer 10.0.0.2 --key-file lab.key
  zcat day.wbar.gz | wirebeat replay - --to 10.0.0.2:5000
  wirebeat replay day.pcapng --interface eth1 --filter 'udp port 53' --fast-forward 2x
  wirebeat replay day.pcapng --interface eth1 --map-address 10.1.0.0/16=192.168.0.0/16 --side client";

/// Send an archive or a capture again, at its own times
///
/// The data of each record of an archive is the payload of a UDP datagram, and leaves as long after the first as it was
/// recorded after it. 'wirebeat archive' makes archives. Frames of a capture (pcap, pcapng) leave as they were captured,
/// but for what is mapped. Ends with the file, and reports how exactly records left.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "wirebeat replay <ARCHIVE>... --to <HOST[:PORT]> [OPTIONS]\n       wirebeat replay \
                      <CAPTURE>... --interface <NAME> [OPTIONS]",
    after_long_help = EXAMPLES,
    // 'send' has the port's flags too, and there -i is one of iperf
    mut_arg("interface", |flag| flag.short('i'))
)]
pub struct Args {
    /// The archive or the capture; several are merged by time; '-' reads standard input
    ///
    /// What is packed with gzip or Zstandard is unpacked. That, standard input and pipes are first read to their end, into a
    /// temporary file in $TMPDIR or /var/tmp.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to send the records of an archive: a host or its address, and a UDP port unless it is 9, the discard service
    #[arg(long, value_name = "HOST[:PORT]")]
    to: Option<Destination>,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    records: RecordArgs,
    #[command(flatten)]
    captures: CaptureArgs,
    #[command(flatten)]
    packet: PacketArgs,
    #[command(flatten)]
    port: PortArgs,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    run: ReplayRunArgs,
    #[command(flatten)]
    peer: PeerArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print the scenario that this command line means, and send nothing
    #[arg(long, conflicts_with = "json", help_heading = "Report")]
    print_scenario: bool,
}

/// When records leave.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Time")]
struct TimingArgs {
    /// Speed as a multiple of the recorded one: 10x, 0.5x
    #[arg(long, value_name = "FACTOR")]
    fast_forward: Option<Factor>,
    /// Gap between two records instead of the recorded times; 0 is as fast as the engine can
    #[arg(long, value_name = "TIME")]
    tight_loop: Option<Nanos>,
    /// Drop a record that is later than this, and count it as expired [default: send it late]
    ///
    /// With 0 a record that leaves within a microsecond of its time is in time.
    #[arg(long, value_name = "TIME")]
    drift: Option<Nanos>,
    /// Shorten a longer time from one record to the next to this [default: refuse more than 1h, unless --time is given]
    ///
    /// In time of the run: with --fast-forward 10x, ten times as much of the recording.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    max_gap: Option<Nanos>,
    /// Let this share of all records leave later than they should, and so out of order: 0 to 1
    #[arg(long, value_name = "PROBABILITY", requires = "delay_window")]
    out_of_order: Option<f64>,
    /// With --out-of-order: how much later at the most
    #[arg(long, value_name = "TIME", value_parser = values::time, requires = "out_of_order")]
    delay_window: Option<Nanos>,
    /// With --out-of-order: how many of the --queues send such records and nothing else [default: 0]
    #[arg(long, value_name = "N", requires = "out_of_order")]
    out_of_order_queues: Option<u16>,
    /// With --out-of-order: what the numbers in probes follow
    ///
    /// By those of records a receiver measures the disorder; by those of departures it sees that of the network alone.
    #[arg(long, value_name = "WHAT", value_parser = values::choice(&NUMBERS), default_value = "records")]
    numbers: Numbers,
    /// Seed of what is drawn [default: 1]
    #[arg(long, value_name = "N", value_parser = values::number, requires = "out_of_order")]
    seed: Option<u64>,
    /// Send all of it so many times [default: 1]
    #[arg(long = "loop", value_name = "N", value_parser = rounds)]
    times: Option<NonZeroU64>,
}

/// Which records.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Records")]
struct RecordArgs {
    /// No record from before this moment
    #[arg(long, value_name = "MOMENT")]
    from: Option<WallTime>,
    /// No record from this moment on
    #[arg(long, value_name = "MOMENT")]
    until: Option<WallTime>,
    /// Records of this device alone; may be given several times
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// End after so many records
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU64>)]
    count: Option<NonZeroU64>,
    /// Send each device with a source port of its own: device, hash:N, or table:FILE
    ///
    /// 'device' numbers devices as they come first, 'hash:N' gives each one of N numbers, and a table has a device, a
    /// comma and its number in each line. The source port is --source-port and that number.
    #[arg(long, value_name = "HOW", value_parser = flow_of)]
    flow_of: Option<FlowOf>,
    /// Send records of the first so many numbers that --flow-of gives alone [default: all]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    sub_flows: Option<NonZeroU32>,
    /// What is counted and measured, each by itself
    #[arg(long, value_name = "WHAT", value_parser = values::choice(&STATISTICS), default_value = "flow")]
    statistics: Statistics,
    /// Add Wirebeat's 16-byte probe behind the data, for a receiver that measures each record
    #[arg(long)]
    probe: bool,
    /// How to handle records that are invalid or cannot be sent
    #[arg(long, value_name = "WHAT", value_parser = values::choice(&ON_BAD), default_value = "stop")]
    on_bad: OnBad,
}

/// How files are read.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Reading")]
struct ReadingArgs {
    /// How files are read
    #[arg(long, value_name = "HOW", value_parser = values::choice(&READERS), default_value = "buffered")]
    reader: ReaderChoice,
    /// How many threads read files ahead for the one that checks them, a file each [default: 0]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU16>)]
    readers: Option<NonZeroU16>,
    /// How many threads prepare what was read [default: 1]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU16>)]
    workers: Option<NonZeroU16>,
    /// Length of a buffer; each of these threads has two [default: 64MiB; with --tight-loop 0 2MiB]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<Bytes>,
    /// Read all of it into memory before the run starts, so that no file is waited for, however often it is sent
    #[arg(long)]
    preload: bool,
}

/// How long, and how exactly.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Run")]
struct ReplayRunArgs {
    /// End at this time [default: with the file]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    #[command(flatten)]
    start: StartArgs,
}

const ON_BAD: [(&str, &str, OnBad); 2] = [
    ("stop", "Everything before it is sent, and the run fails with its place", OnBad::Stop),
    ("skip", "It is left out and counted", OnBad::Skip),
];

const STATISTICS: [(&str, &str, Statistics); 3] = [
    ("flow", "All of it together", Statistics::Flow),
    ("sub-flow", "Each number that --flow-of gives, too", Statistics::SubFlow),
    ("device", "Each device, too", Statistics::Device),
];

const NUMBERS: [(&str, &str, Numbers); 2] = [
    ("records", "The order of the records", Numbers::Records),
    ("departures", "The order in which they leave", Numbers::Departures),
];

const READERS: [(&str, &str, ReaderChoice); 3] = [
    ("buffered", "Through the system's cache", ReaderChoice::Buffered),
    ("direct", "Past it, for archives larger than memory", ReaderChoice::Direct),
    ("mmap", "Through memory that the file is mapped to", ReaderChoice::Mmap),
];

fn flow_of(text: &str) -> Result<FlowOf, Fault> {
    let refused = || {
        fault!(
            "'{text}' is neither device, nor hash:N, nor table:FILE";
            "write for example hash:64"
        )
    };
    match text.split_once(':') {
        None if text == "device" => Ok(FlowOf::Device),
        Some(("hash", count)) => {
            count.parse::<NonZeroU32>().map(FlowOf::Hash).map_err(|_| refused())
        }
        Some(("table", file)) if !file.is_empty() => Ok(FlowOf::Table(file.to_owned())),
        _ => Err(refused()),
    }
}

/// Reads how often all of it is sent. Other tools mean "without an end" by 0.
fn rounds(text: &str) -> Result<NonZeroU64, Fault> {
    match text {
        "0" => Err(fault!(
            "a replay has an end";
            "for one that goes on until it is stopped write a large number, for example --loop 1000000000"
        )),
        text => values::count(text),
    }
}

/// Replays.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    if args.print_scenario
        && let Some(name) = args.files.iter().find(|name| stream::is_stream(name))
    {
        let why = fault!(
            "a scenario names files, and this is a stream or packed";
            "write it to a file, and replay that"
        );
        return Err(Failure::usage(why).at(name.display().to_string()));
    }
    refuse_tables(&args.files)?;
    // a scenario can be printed before its files are there
    if !args.print_scenario {
        let on_bad = match args.records.on_bad {
            OnBad::Stop => time_series::OnBad::Stop,
            OnBad::Skip => time_series::OnBad::Skip,
        };
        let mut files = args.files.iter().filter(|name| !stream::is_stream(name));
        files.try_for_each(|name| beginning::check(name, on_bad))?;
    }
    let recordings = stream::recordings(&args.files, |line| output.notice(line))?;
    let mut tell = |line: &str| output.notice(line);
    let scenario = scenario(args, &recordings, &mut Hosts::new(&mut tell))?;
    if args.print_scenario {
        let yaml = scenario.to_yaml().map_err(|error| Failure::usage(error.to_string()))?;
        print_data(&yaml)?;
        return Ok(0);
    }
    args.repeat.check(&args.watch, &args.report)?;
    let (peer, control) = (args.peer.peer()?, args.control.wanted());
    let spooled = recordings.iter().filter(|recording| recording.is_spooled());
    let spooled: Vec<_> =
        spooled.map(|one| (one.name.display().to_string(), one.path.clone())).collect();
    let abort_on_fail = args.expect.abort.abort_on_fail;
    let more = |own: Options| {
        let (peer, control) = (peer.clone(), control.clone());
        let recordings = spooled.iter().cloned().collect();
        Options { peer, control, recordings, abort_on_fail, ..own }
    };
    args.repeat.execute(&scenario, &more, output, &|error| blame::error(error, &scenario))
}

/// The scenario that a command line means, checked.
fn scenario(
    args: &Args,
    recordings: &[Recording],
    hosts: &mut Hosts<'_>,
) -> Result<Scenario, Failure> {
    let usual = Scenario::default();
    let mut scenario = Scenario { seed: args.timing.seed.unwrap_or(usual.seed), ..usual };
    scenario.ports.insert(PORT.to_owned(), args.port.spec());
    scenario.run = args.run.start.run(args.run.time);
    scenario.run.interval = args.report.interval.unwrap_or(scenario.run.interval);
    let is_capture = captured::are_captures(recordings)?;
    let packet = if is_capture {
        captured::check(args).map(|()| Vec::new())?
    } else {
        headers(args, hosts)?
    };
    let flow = FlowSpec {
        packet: packet.into(),
        count: args.records.count,
        probe: if args.records.probe { Probe::of(Codec::Wirebeat) } else { Probe::Off },
        replay: Some(replay(args, is_capture)?.into()),
        ..FlowSpec::from_port(PORT)
    };
    scenario.flows.insert(FLOW.to_owned(), flow);
    scenario.expect = args.expect.expect.clone();
    scenario.check().map_err(|problem| blame::invalid(&problem, &scenario))?;
    Ok(scenario)
}

/// A table is not an archive, but one is made of it.
fn refuse_tables(files: &[PathBuf]) -> Result<(), Failure> {
    let kind = |path: &&PathBuf| {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        ["csv", "parquet"].into_iter().find(|kind| ending == *kind)
    };
    match files.iter().find_map(|path| Some((path, kind(&path)?))) {
        Some((path, kind)) => {
            let new = path.with_extension("wbar");
            let hint = format!(
                "make an archive of it: wirebeat archive create {} --{kind} {}",
                new.display(),
                path.display()
            );
            let failure = Failure::usage("this is a table, and archives and captures are replayed");
            Err(failure.at(path.display().to_string()).hint(hint))
        }
        None => Ok(()),
    }
}

/// The headers of what is sent from archives.
fn headers(args: &Args, hosts: &mut Hosts<'_>) -> Result<Vec<Header>, Failure> {
    let to = args.to.as_ref().ok_or_else(|| {
        let message = fault!(
            "it is missing, and the records of an archive go to an address";
            "give one, for example --to 10.0.0.2:5000"
        );
        Failure::usage(message).at("--to")
    })?;
    let mut packet = args.packet.headers(hosts.resolve(to)?)?;
    if args.records.flow_of.is_some() {
        vary(&mut packet, args.packet.source_port.unwrap_or(FIRST_PORT));
    }
    Ok(packet)
}

fn replay(args: &Args, is_capture: bool) -> Result<Replay, Failure> {
    let name = |path: &PathBuf| {
        let name = path.to_str().map(str::to_owned);
        name.ok_or_else(|| {
            Failure::usage(fault!("this name is not text in UTF-8"; "rename the file"))
                .at(path.display().to_string())
        })
    };
    let names = args.files.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    let (archive, capture) = match is_capture {
        true => (None, Some(FileNames::from(names))),
        false => (Some(FileNames::from(names)), None),
    };
    let usual = Replay::of("");
    let TimingArgs { fast_forward, tight_loop, drift, times, .. } = &args.timing;
    let late = args.timing.out_of_order.zip(args.timing.delay_window);
    let out_of_order = late.map(|(probability, window)| {
        let cores = args.timing.out_of_order_queues.unwrap_or(0);
        OutOfOrder { probability, window, cores, numbers: args.timing.numbers }
    });
    let mut replay = Replay {
        archive,
        capture,
        speed: fast_forward.unwrap_or_default(),
        tight_loop: *tight_loop,
        drift: *drift,
        max_gap: args.timing.max_gap,
        times: times.unwrap_or(usual.times),
        from: args.records.from,
        to: args.records.until,
        devices: args.records.device.clone(),
        flow_of: args.records.flow_of.clone(),
        sub_flows: args.records.sub_flows,
        statistics: args.records.statistics,
        out_of_order,
        on_bad: args.records.on_bad,
        reader: args.reading.reader,
        workers: args.reading.workers.unwrap_or(usual.workers),
        buffer: args.reading.buffer,
        preload: args.reading.preload,
        readers: args.reading.readers.map_or(0, NonZeroU16::get),
        ..usual
    };
    captured::fill(args, is_capture, &mut replay);
    Ok(replay)
}

/// Gives each sub-flow a source port, from this one on.
fn vary(packet: &mut [Header], first: u16) {
    for header in packet {
        if let Header::Udp(udp) = header {
            let count = u64::from(u16::MAX - first) + 1;
            udp.source = Some(counted(Number::new(first.into()), count));
        }
    }
}

/// A field that is one more for each sub-flow, and begins again after so many.
fn counted<T: FieldValue>(first: T, count: u64) -> Field<T> {
    let pattern = Pattern::Increment(Increment::new(first, Some(count)));
    Field::Changing(Changing { pattern, per: Per::SubFlow })
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct ReplayLine {
        #[command(flatten)]
        args: Args,
    }

    /// The scenario of a command line without quotes.
    pub(crate) fn of(line: &str) -> Result<Scenario, Failure> {
        let line = ReplayLine::try_parse_from(line.split_whitespace());
        let line = line.map_err(|error| crate::usage::explain(&error))?;
        let recordings = stream::recordings(&line.args.files, |_| {})?;
        scenario(&line.args, &recordings, &mut Hosts::new(&mut |_| {}))
    }

    fn yaml(line: &str) -> String {
        of(line).unwrap().to_yaml().unwrap()
    }

    #[test]
    fn a_command_line_is_a_scenario() {
        let text = yaml(
            "day.wbar --to 10.0.0.2:5000 --fast-forward 10x --drift 100us --device a --count 7",
        );
        let flow = &Scenario::from_yaml(&text, "").unwrap().flows[FLOW];
        let replay = flow.replay.as_ref().unwrap();
        assert_eq!(replay.names(), ["day.wbar"]);
        assert_eq!(
            (replay.speed.to_string(), replay.drift),
            ("10x".to_owned(), Some(Nanos::from_micros(100)))
        );
        assert_eq!(
            (replay.devices.as_slice(), flow.count),
            (&["a".to_owned()][..], NonZeroU64::new(7))
        );
        assert_eq!(flow.probe, Probe::Off);
    }

    #[test]
    fn a_tight_loop_and_a_drift_of_nothing_can_be_asked_for() {
        let text = yaml("day.wbar --to 10.0.0.2 --tight-loop 0");
        let of =
            |text: &str| Scenario::from_yaml(text, "").unwrap().flows[FLOW].replay.clone().unwrap();
        assert!(of(&text).is_unlimited());
        assert_eq!(of(&yaml("day.wbar --to 10.0.0.2 --drift 0")).drift, Some(Nanos::ZERO));
    }

    #[test]
    fn the_interface_has_a_short_flag() {
        assert_eq!(yaml("day.pcap -i eth1"), yaml("day.pcap --interface eth1"));
        assert_eq!(yaml("day.pcap -ieth1"), yaml("day.pcap --interface eth1"));
    }

    #[test]
    fn a_capture_is_known_by_its_beginning_or_its_name() {
        let text = yaml(
            "day.pcapng --interface eth1 --filter arp --map-address 10.0.0.0/8=11.0.0.0/8 --map-port 80=8080 --vlan off \
             --source-mac 02:00:00:00:00:01 --side server --preload --truncated send --loop 3",
        );
        let flow = &Scenario::from_yaml(&text, "").unwrap().flows[FLOW];
        let replay = flow.replay.as_ref().unwrap();
        assert!(replay.is_capture() && replay.preload && !text.contains("packet"), "{text}");
        assert_eq!(
            (replay.names(), replay.filter.as_deref()),
            (&["day.pcapng".to_owned()][..], Some("arp"))
        );
        assert_eq!(replay.rewrite.rules().ports.len() + replay.rewrite.rules().addresses.len(), 2);
        assert!(replay.rewrite.source_mac.is_some() && replay.side.is_some());

        let path =
            std::env::temp_dir().join(format!("wirebeat-replay-{}.wbar", std::process::id()));
        std::fs::write(&path, [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]).unwrap();
        let text = yaml(&format!("{} --interface eth1", path.display()));
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("capture:"), "{text}");
    }

    #[test]
    fn devices_have_source_ports_of_their_own() {
        let text = yaml("a.wbar b.wbar --to 10.0.0.2 --flow-of hash:8 --source-port 65000 --probe");
        assert!(text.contains("increment: 65000") && text.contains("count: 536"), "{text}");
        assert!(text.contains("per: sub-flow") && text.contains("hash: 8"), "{text}");
        assert!(text.contains("- b.wbar"), "{text}");
        let flow = &Scenario::from_yaml(&text, "").unwrap().flows[FLOW];
        assert_eq!(flow.probe, Probe::of(Codec::Wirebeat));
    }

    #[test]
    fn mistakes_are_told_as_those_of_flags() {
        for (line, told) in [
            ("--to 10.0.0.2", "<FILE>... is missing"),
            ("day.wbar", "--to: it is missing"),
            ("day.pcap --to 10.0.0.2", "--to: the frames of a capture have their headers"),
            ("day.pcap --ttl 3", "--ttl, --dscp"),
            ("day.pcap --device a", "--device: a capture has no devices"),
            ("day.pcap --filter port", "--filter: at character 5"),
            ("day.pcap --map-port 1-9=2-3", "--map-port: 1-9 are 9 ports"),
            ("day.pcap day.wbar --to 10.0.0.2", "are not replayed together"),
            ("day.wbar --to 10.0.0.2 --side client", "--side: only a capture has this"),
            ("day.wbar --to 10.0.0.2 --fast-forward fast", "'fast' is not a factor"),
            (
                "day.wbar --to 10.0.0.2 --fast-forward 2x --tight-loop 1us",
                "--fast-forward: a tight loop",
            ),
            ("day.wbar --to 10.0.0.2 --flow-of hash:0", "write for example hash:64"),
            ("day.wbar --to 10.0.0.2 --reader cloud", "cloud"),
            ("day.wbar --to 10.0.0.2 --loop 0", "write a large number"),
        ] {
            let failure = of(line).unwrap_err().sentence();
            assert!(failure.contains(told), "{line}: {failure}");
        }
    }
}
