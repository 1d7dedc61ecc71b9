//! `wirebeat convert`: another tool's script, or a capture, as a scenario.

pub mod captured;

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use wirebeat_import::capture::{CaptureOptions, ProgramsFound};
use wirebeat_import::{Converted, Dialect};
use wirebeat_units::{Nanos, fault};

use crate::failure::Failure;
use crate::file;
use crate::output::{print_data, tell};
use crate::script::{self, How};
use crate::values;

const EXAMPLES: &str = "\
Examples:
  wirebeat convert flows.mgn > scenario.yaml
  wirebeat convert --dialect d-itg flows.txt --output scenario.yaml
  wirebeat convert pktgen.sh --interface eth1
  wirebeat convert day.pcap --output day.yaml
  wirebeat convert day.pcap --interface eth1 --to eth2 --multiply 100";

/// Turn another tool's script, or the sessions of a capture, into a scenario
///
/// Takes a RUDE configuration, an MGEN script, a multi-flow file of D-ITG, a shell script for pktgen, a stateful profile of T-Rex or a
/// configuration of WARP17, and prints the scenario that does the same. What cannot be carried over is named with its line;
/// docs/scripts.md lists it. `wirebeat run` takes such scripts as they are.
///
/// Of a capture (pcap or pcapng) it shows which sessions of TCP and UDP are in it, and prints a scenario that opens them anew, as
/// often as they are there: a group for each kind of session. Without interfaces both ends are in memory.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The script, '-' reads standard input; or a capture
    #[arg(value_name = "FILE")]
    script: PathBuf,
    /// Whose script it is: pktgen, rude, mgen, d-itg, t-rex or warp17 [default: as it looks]
    #[arg(long, value_name = "NAME", value_parser = values::dialect)]
    dialect: Option<Dialect>,
    /// The interface that flows leave by, unless the script names one; of a capture, where clients are
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Of a capture, T-Rex or WARP17: the interface where servers are. Without it, and with --interface, the servers of a capture are
    /// those that it names
    #[arg(long, value_name = "NAME", requires = "interface")]
    to: Option<String>,
    /// Of a capture or a profile of T-Rex: so many times as many sessions (T-Rex's -m)
    #[arg(long, value_name = "N")]
    multiply: Option<NonZeroU64>,
    /// Of a capture: over TCP, each end waits before it speaks as long as it did, too
    #[arg(long)]
    keep_times: bool,
    /// Of a stateful profile of T-Rex: play the packets of its captures one by one and without a stack, as T-Rex does, instead of
    /// saying by TCP and UDP of our own what is in them
    #[arg(long)]
    packets: bool,
    /// When the run ends
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    /// Write the scenario here, and the files that it needs beside it [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What a shell script for pktgen is called with: -- -i eth1 -d 10.0.0.2
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Converts.
pub fn run(args: &Args) -> Result<u8, Failure> {
    if args.dialect.is_none() && captured::is_capture(&args.script) {
        return run_captured(args);
    }
    if args.keep_times {
        let why = fault!("--keep-times is for captures, and this is none"; "leave it out");
        return Err(Failure::usage(why).at(args.script.display().to_string()));
    }
    let (name, text) = file::text("the script", &args.script)?;
    let how = How {
        dialect: args.dialect,
        interface: args.interface.clone(),
        to: args.to.clone(),
        multiply: args.multiply,
        packets: args.packets,
        // what goes to standard output is read from here
        beside: Some(
            args.output.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned(),
        ),
        time: args.time,
        arguments: args.arguments.clone(),
    };
    let folder = args.script.parent();
    let converted = script::read((&name, &text), folder, &how)?.ok_or_else(|| {
        let is_scenario = |line: &str| {
            ["flows:", "ports:"].iter().any(|key| line.starts_with(key))
                || line.contains("\"flows\":")
        };
        if text.lines().any(is_scenario) {
            let why = fault!("this is a scenario already"; "'wirebeat run' takes it as it is");
            return Failure::usage(why).at(name.clone());
        }
        Failure::usage(fault!(
            "this looks like no script of pktgen, RUDE, MGEN, D-ITG, T-Rex or WARP17";
            "say whose it is with --dialect"
        ))
        .at(name.clone())
    })?;
    for notice in script::notices(&converted) {
        tell(&notice);
    }
    let yaml = converted.scenario.to_yaml().map_err(|error| Failure::usage(error.to_string()))?;
    match &args.output {
        Some(path) => write(path, &yaml, &converted)?,
        None if converted.files.is_empty() => print_data(&yaml)?,
        None => {
            let hint = "give --output, and they are written beside the scenario";
            let why = "the scenario needs files that are made from the script";
            return Err(Failure::usage(why).at(name).hint(hint));
        }
    }
    Ok(0)
}

/// Converts a capture.
fn run_captured(args: &Args) -> Result<u8, Failure> {
    if args.packets {
        let why = fault!(
            "--packets is for stateful profiles of T-Rex, and this is a capture";
            "a flow with 'copies' of it plays its packets (docs/replay-captures.md)"
        );
        return Err(Failure::usage(why));
    }
    if !args.arguments.is_empty() {
        let why = fault!("a capture takes no arguments"; "leave out what stands behind '--'");
        return Err(Failure::usage(why));
    }
    let options = CaptureOptions {
        from: args.interface.clone(),
        to: args.to.clone(),
        time: args.time,
        multiply: args.multiply,
        keep_times: args.keep_times,
    };
    let beside = args.output.as_deref().and_then(Path::parent);
    let name = script::name_beside(&args.script, beside);
    let ProgramsFound { scenario, table, left_out } =
        captured::read(&args.script, &name, &options)?;
    for line in &left_out {
        tell(line);
    }
    let yaml = scenario.to_yaml().map_err(|error| Failure::usage(error.to_string()))?;
    let comments: String = table.iter().map(|line| format!("# {line}\n")).collect();
    let text = format!("{comments}\n{yaml}");
    match &args.output {
        Some(path) => {
            create(path, text.as_bytes())?;
            table.iter().for_each(|line| tell(line));
        }
        None => print_data(&text)?,
    }
    Ok(0)
}

/// Writes the scenario and its files; none of them may be there already.
fn write(path: &Path, yaml: &str, converted: &Converted) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    create(path, yaml.as_bytes())?;
    for (name, content) in &converted.files {
        // Made names have no folders: nothing is written anywhere else.
        let name = Path::new(name).file_name().unwrap_or_default();
        create(&folder.join(name), content)?;
    }
    Ok(())
}

fn create(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let at = |failure: Failure| {
        failure.at(path.display().to_string()).hint("choose another name with --output")
    };
    let mut file = fs::File::create_new(path).map_err(|error| at(Failure::making(&error)))?;
    let written = io::Write::write_all(&mut file, content);
    written.map_err(|error| at(Failure::output(format!("cannot write it: {error}"))))
}
