//! Captures on the command line of `wirebeat replay`: which files are some, and the flags that only they have.

use std::fs::File;
use std::io::Read;
use std::str::FromStr;

use clap::Args as ClapArgs;
use wirebeat_archive::capture;
use wirebeat_traffic::scenario::replay::{
    PortRange, Prefix, Replay, Rewrite, Side, Truncated, Vlan,
};

use super::Args;
use super::stream::Recording;
use wirebeat_units::{Fault, Nanos, fault};

use crate::failure::Failure;
use crate::packet::PacketArgs;
use crate::values;

/// What only captures have.
#[derive(ClapArgs, Debug, PartialEq)]
#[command(next_help_heading = "Captures")]
pub struct CaptureArgs {
    /// Frames that this matches alone, in the syntax of capture filters: 'tcp port 80'
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Put one address or prefix in the place of another: 10.1.0.0/16=192.168.0.0/16; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = pair::<Prefix>)]
    map_address: Vec<(Prefix, Prefix)>,
    /// Put one port of TCP and UDP in the place of another: 80=8080, 1000-1999=5000-5999; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = pair::<PortRange>)]
    map_port: Vec<(PortRange, PortRange)>,
    /// The VLAN of all frames; off for none, or FROM=TO with commas
    #[arg(long, value_name = "VLAN", value_parser = vlan)]
    vlan: Option<Vlan>,
    /// Send what this end of each conversation sent alone: client or server
    #[arg(long, value_name = "SIDE", value_parser = values::choice(&SIDES))]
    side: Option<Side>,
    /// How to handle frames that were not captured whole
    #[arg(long, value_name = "WHAT", value_parser = values::choice(&TRUNCATED), default_value = "pad")]
    truncated: Truncated,
    /// Put frames in the order of their times as far as they are no more than this apart [default: order of the file]
    ///
    /// Without it a frame with a time before that of the frame before it leaves right behind that one.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    reorder_window: Option<Nanos>,
}

const SIDES: [(&str, &str, Side); 2] = [
    ("client", "Who opened the conversation", Side::Client),
    ("server", "The other end", Side::Server),
];

const TRUNCATED: [(&str, &str, Truncated); 3] = [
    ("pad", "Zeros follow, so that they are as long as they were", Truncated::Pad),
    ("send", "What was captured is sent", Truncated::Send),
    ("skip", "They are left out and counted", Truncated::Skip),
];

fn pair<T: FromStr<Err: Into<Fault>>>(text: &str) -> Result<(T, T), Fault> {
    let (from, to) = text.split_once('=').ok_or_else(|| {
        fault!(
            "'{text}' does not say what becomes what";
            "write what was, '=', and what takes its place, for example \
             10.1.0.0/16=192.168.0.0/16 or 80=8080"
        )
    })?;
    let one = |text: &str| text.parse::<T>().map_err(Into::into);
    Ok((one(from)?, one(to)?))
}

fn vlan(text: &str) -> Result<Vlan, Fault> {
    let id = |text: &str| {
        let refused =
            |_| fault!("'{text}' is not a VLAN"; "write a number, off, or for example 5=50");
        text.trim().parse::<u16>().map_err(refused)
    };
    if text == "off" {
        return Ok(Vlan::Off);
    }
    if !text.contains('=') {
        return id(text).map(Vlan::Set);
    }
    let rule = |rule: &str| {
        let (from, to) = rule.split_once('=').unwrap_or((rule, ""));
        Ok((id(from)?, id(to)?))
    };
    text.split(',').map(rule).collect::<Result<_, Fault>>().map(Vlan::Map)
}

/// Whether the files are captures, by how they begin; where that cannot be seen, by what they are called.
pub fn are_captures(files: &[Recording]) -> Result<bool, Failure> {
    let is_capture = |Recording { name, path, .. }: &Recording| {
        let mut begin = [0; 4];
        let named = || {
            let extension = name.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("pcap" | "pcapng" | "cap"))
        };
        let regular = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let read = regular.then(|| File::open(path)?.read_exact(&mut begin));
        match read {
            Some(Ok(())) => capture::begins(&begin),
            _ => named(),
        }
    };
    let first = files.first().is_some_and(is_capture);
    match files.iter().find(|file| is_capture(file) != first) {
        None => Ok(first),
        Some(other) => Err(Failure::usage(
            fault!("archives and captures are not replayed together"; "name files of one kind"),
        )
        .at(other.name.display().to_string())),
    }
}

/// What of a command line has no meaning for captures.
pub fn check(args: &Args) -> Result<(), Failure> {
    let PacketArgs { source_mac, destination_mac, .. } = args.packet;
    let packet = PacketArgs { source_mac, destination_mac, ..PacketArgs::default() };
    let flag = if args.to.is_some() {
        "--to"
    } else if args.records.probe {
        "--probe"
    } else if args.packet != packet {
        "--source, --source-port, --ttl, --dscp, --tos, --ip-id, --no-udp-checksum"
    } else {
        return Ok(());
    };
    let why = fault!(
        "the frames of a capture have their headers";
        "leave it out, and say with --map-address, --map-port, --source-mac, --destination-mac \
         and --vlan what becomes other"
    );
    Err(Failure::usage(why).at(flag))
}

/// Fills in what is said of captures.
pub fn fill(args: &Args, is_capture: bool, replay: &mut Replay) {
    let said = &args.captures;
    replay.filter.clone_from(&said.filter);
    replay.side = said.side;
    replay.truncated = said.truncated;
    replay.reorder_window = said.reorder_window;
    replay.rewrite = Rewrite {
        // of what is sent from archives they are in the headers
        source_mac: args.packet.source_mac.filter(|_| is_capture),
        destination_mac: args.packet.destination_mac.filter(|_| is_capture),
        vlan: said.vlan.clone(),
        addresses: said.map_address.iter().copied().collect(),
        ports: said.map_port.iter().copied().collect(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        assert_eq!(vlan("off"), Ok(Vlan::Off));
        assert_eq!(vlan("7"), Ok(Vlan::Set(7)));
        assert_eq!(vlan("5=50, 6=60"), Ok(Vlan::Map([(5, 50), (6, 60)].into_iter().collect())));
        for text in ["", "on", "5=", "5=6,7", "70000"] {
            assert!(vlan(text).unwrap_err().to_string().contains("is not a VLAN"), "{text}");
        }
        assert!(pair::<PortRange>("80=8080").is_ok() && pair::<Prefix>("::/0=fd00::/8").is_ok());
        assert!(
            pair::<PortRange>("80")
                .unwrap_err()
                .to_string()
                .contains("does not say what becomes what")
        );
        assert!(
            pair::<Prefix>("10.0.0.0/8=x").unwrap_err().to_string().contains("is not an IP prefix")
        );
    }
}
