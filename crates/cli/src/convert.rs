//! `wirebeat convert`: another tool's script as a scenario.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
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
  wirebeat convert pktgen.sh --interface eth1";

/// Turn another tool's script into a scenario
///
/// Takes a RUDE configuration, an MGEN script, a multi-flow file of D-ITG or a shell script for pktgen, and
/// prints the scenario that does the same. What cannot be carried over is named with its line;
/// docs/scripts.md lists it. `wirebeat run` takes such scripts as they are.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The script; '-' reads standard input
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    /// Whose script it is: pktgen, rude, mgen or d-itg [default: as it looks]
    #[arg(long, value_name = "NAME", value_parser = values::dialect)]
    dialect: Option<Dialect>,
    /// The interface that flows leave by, unless the script names one
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
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
    let (name, text) = file::text("the script", &args.script)?;
    let how = How {
        dialect: args.dialect,
        interface: args.interface.clone(),
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
            "this looks like no script of pktgen, RUDE, MGEN or D-ITG";
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
