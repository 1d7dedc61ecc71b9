//! `wirebeat man`: the manual pages, from the same definition as the help.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap_mangen::Man;

use crate::command;
use crate::failure::Failure;
use crate::output::print;

/// Print the manual page, or write those of all commands
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Write the page of each command into this folder, instead of the first page to standard output
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.folder {
        Some(folder) => {
            clap_mangen::generate_to(command::definition(), folder).map_err(|error| {
                Failure::making(&error)
                    .at(folder.display().to_string())
                    .hint("name a folder that exists and that you may write to")
            })?
        }
        None => {
            let mut page = Vec::new();
            Man::new(command::definition())
                .render(&mut page)
                .map_err(|error| Failure::machine(&format!("cannot make the manual: {error}")))?;
            print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(0)
}
