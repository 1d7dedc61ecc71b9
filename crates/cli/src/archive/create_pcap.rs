//! `wirebeat archive create-pcap`: an archive of what the packets of a capture carry.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_trace::archive::{OnBad, Writer};
use wirebeat_trace::capture::payloads::{DeviceOf, Payloads, Take};
use wirebeat_trace::capture::{Frames, Tally};
use wirebeat_units::human::{count, counted};

use super::work::{Watched, Work};
use super::{Output, name, open};
use crate::failure::Failure;
use crate::output::tell;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive create-pcap sensors.pcapng sensors.wbar
  wirebeat archive create-pcap sensors.pcapng sensors.wbar --device flow --on-bad skip";

/// Make an archive of what the packets of a capture carry
///
/// The payload of each UDP datagram becomes the data of a record, at the time it was captured, in UTC and rounded
/// down to microseconds. Reads pcap and pcapng. Frames that hold no such datagram are counted by reason.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The capture; '-' reads standard input
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// Where the archive is written; '-' writes to standard output
    #[arg(value_name = "NEW")]
    output: PathBuf,
    #[command(flatten)]
    taking: TakeArgs,
    /// What is done about frames that are wrong, or earlier than the one before: stop, or skip and count
    #[arg(long, value_name = "WHAT", default_value = "stop", value_parser = super::on_bad)]
    on_bad: OnBad,
}

/// What becomes of a packet.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
pub struct TakeArgs {
    /// What becomes the device: the source address, the destination, or the flow (addresses, ports, protocol)
    #[arg(long, value_name = "WHAT", default_value = "source", value_parser = device_of)]
    device: DeviceOf,
    /// Take what any IP packet carries, with the header of its transport protocol
    #[arg(long)]
    any_ip: bool,
}

fn device_of(text: &str) -> Result<DeviceOf, String> {
    match text {
        "source" => Ok(DeviceOf::Source),
        "destination" => Ok(DeviceOf::Destination),
        "flow" => Ok(DeviceOf::Flow),
        _ => Err("this is neither source nor destination nor flow".to_owned()),
    }
}

/// Makes it.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let input = open(&args.capture)?;
    let work = Work::begin(input.len)?;
    let frames = Frames::new(work.watch(input.from), name(&args.capture), args.on_bad);
    let take = if args.taking.any_ip { Take::Ip } else { Take::Udp };
    let mut payloads = Payloads::new(frames, take, args.taking.device);
    let mut writer = Writer::new(Output::create(&args.output)?.buffered());
    let records = work.copy(&mut payloads, &mut writer)?;
    super::keep(writer, &args.output)?;
    tell(&told(records, &payloads));
    Ok(0)
}

/// What became of all frames.
fn told(records: u64, payloads: &Payloads<Watched>) -> String {
    let Tally { frames, bad: (bad, first), skipped, .. } = *payloads.frames().tally();
    let frames = counted(frames, "frame");
    let mut text = format!("{} written, of {frames}\n", counted(records, "record"));
    let reasons = payloads.skipped().iter().filter(|(_, frames)| *frames > 0);
    for (reason, frames) in reasons {
        text += &format!("  {} {reason}: skipped\n", count(frames));
    }
    if payloads.backwards() > 0 {
        let frames = count(payloads.backwards());
        text += &format!("  {frames} earlier than the one before: skipped\n");
    }
    if let Some(first) = first {
        let bytes = count(skipped);
        let (place, defect) = (first.place, first.defect);
        text += &format!(
            "  {} wrong, {bytes} B: skipped; the first is {place}: {defect}\n",
            count(bad)
        );
    }
    text
}
