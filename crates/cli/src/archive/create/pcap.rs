//! An archive of what the packets of a capture carry.

use std::path::Path;

use clap::Args as ClapArgs;
use wirebeat_archive::capture::payloads::{DeviceOf, Payloads, Take};
use wirebeat_archive::capture::steady::HeldBack;
use wirebeat_archive::capture::{Frames, Tally, Window};
use wirebeat_archive::compressed::unpacked;
use wirebeat_archive::round::Rounded;
use wirebeat_archive::time_series::Writer;
use wirebeat_units::human::{count, counted, time};
use wirebeat_units::{Fault, Nanos};

use super::super::work::{Watched, Work};
use super::super::{ArchiveOutput, cannot_read, keep, name, open};
use super::Args;
use crate::failure::Failure;
use crate::output::tell;
use crate::values;

/// What becomes of a packet.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Packets of a capture")]
pub struct PcapArgs {
    /// What becomes the device: source, destination (addresses), or flow (addresses, ports, protocol) [default: source]
    #[arg(long, value_name = "WHAT", value_parser = device_of, conflicts_with_all = ["csv", "parquet", "synthetic"])]
    device_of: Option<DeviceOf>,
    /// Take what any IP packet carries, with the header of its transport protocol
    #[arg(long, conflicts_with_all = ["csv", "parquet", "synthetic"])]
    any_ip: bool,
    /// Put frames in the order of their times as far as they are no more than this apart [default: order of the file]
    ///
    /// Without it a frame with a time before that of the frame before it gets the time of that one.
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with_all = ["csv", "parquet", "synthetic"])]
    reorder_window: Option<Nanos>,
}

fn device_of(text: &str) -> Result<DeviceOf, Fault> {
    match text {
        "source" => Ok(DeviceOf::Source),
        "destination" => Ok(DeviceOf::Destination),
        "flow" => Ok(DeviceOf::Flow),
        _ => Err("this is neither source nor destination nor flow".into()),
    }
}

/// Makes it.
pub fn run(args: &Args, path: &Path) -> Result<u8, Failure> {
    let input = open(path)?;
    let (from, packing) = unpacked(input.from).map_err(|error| cannot_read(path, &error))?;
    // how much comes out of a packed file is not known
    let work = Work::begin(input.len.filter(|_| packing.is_none()))?;
    let on_bad = args.table.on_bad.unwrap_or_default();
    let frames = Frames::new(work.watch(from), name(path), on_bad);
    let take = if args.pcap_args.any_ip { Take::Ip } else { Take::Udp };
    let frames = Window::new(frames, args.pcap_args.reorder_window.map(Nanos::get));
    let payloads = Payloads::new(frames, take, args.pcap_args.device_of.unwrap_or_default());
    let mut payloads = Rounded::new(payloads, args.table.round_times);
    let mut writer = Writer::new(ArchiveOutput::create(&args.output)?.buffered());
    let records = work.copy(&mut payloads, &mut writer)?;
    if records == 0 {
        return Err(nothing(payloads.source(), take).at(name(path)));
    }
    keep(writer, &args.output)?;
    tell(&told(records, payloads.source()));
    Ok(0)
}

/// That no frame gave a record, and why.
fn nothing(payloads: &Payloads<Watched>, take: Take) -> Failure {
    let Tally { frames, bad: (bad, _), .. } = *payloads.frames().tally();
    let reasons = payloads.skipped().iter().filter(|(_, frames)| *frames > 0);
    let mut reasons: Vec<String> =
        reasons.map(|(reason, frames)| format!("{} {reason}", count(frames))).collect();
    if bad > 0 {
        reasons.push(format!("{} skipped as wrong", counted(bad, "place")));
    }
    let of = match frames {
        0 => "the capture has no frames".to_owned(),
        frames => format!("of {}", counted(frames, "frame")),
    };
    let what = if take == Take::Udp { "a UDP datagram" } else { "an IP packet" };
    let of = [vec![of], reasons].concat().join(", ");
    let failure = Failure::usage(format!("no frame holds {what}, so nothing was written ({of})"));
    match take {
        Take::Udp if frames > 0 => {
            failure.hint("--any-ip takes what any IP packet carries, or name another capture")
        }
        _ => failure.hint("name another capture"),
    }
}

/// What became of all frames.
fn told(records: u64, payloads: &Payloads<Watched>) -> String {
    let Tally { frames, bad: (bad, first), bad_frames, skipped, .. } = *payloads.frames().tally();
    let frames = counted(frames, "frame");
    let mut text = format!("{} written, of {frames}\n", counted(records, "record"));
    let reasons = payloads.skipped().iter().filter(|(_, frames)| *frames > 0);
    for (reason, frames) in reasons {
        text += &format!("  {} {reason}: skipped\n", count(frames));
    }
    if payloads.frames().moved() > 0 {
        let frames = count(payloads.frames().moved());
        text += &format!("  {frames} later in the file than in time: put in order\n");
    }
    let HeldBack { frames: held, most_ns, first: from, set_back } = *payloads.held_back();
    if let Some(from) = from {
        let most = time(most_ns as f64);
        text += &format!(
            "  {} earlier than the one before, by up to {most}: given its time; the first is {from}\n",
            count(held)
        );
        text += match set_back {
            0 => "  (--reorder-window with that much puts them in the order of their times)\n",
            _ => {
                "  (the clock was set back by more than a second; what follows keeps its distances)\n"
            }
        };
    }
    if let Some(first) = first {
        let bytes = count(skipped);
        let (place, defect) = (first.place, first.defect);
        text += &format!(
            "  {} wrong, {} of them one frame, {bytes} B: skipped; the first is {place}: {defect}\n",
            counted(bad, "place"),
            count(bad_frames)
        );
    }
    text
}
