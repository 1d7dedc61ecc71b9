//! `wirebeat man`: the manual pages, from the same definition as the help.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::command::{self, NAME};
use crate::failure::Failure;
use crate::output::{VERSION, print};

/// Print the manual page, or write those of all commands
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Write the page of each command into this folder, instead of the first page to standard output
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let mut definition = command::definition().disable_help_subcommand(true);
    definition.build();
    match &args.folder {
        Some(folder) => write(&definition, folder).map_err(|error| {
            Failure::making(&error)
                .at(folder.display().to_string())
                .hint("name a folder that exists and that you may write to")
        })?,
        None => {
            let page = page(&definition);
            let page =
                page.map_err(|error| Failure::machine(format!("cannot make the manual: {error}")));
            print(&page?)?;
        }
    }
    Ok(0)
}

/// Writes the page of a command and of those below it.
fn write(command: &Command, folder: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|command| write(command, folder))?;
    fs::write(folder.join(format!("{}.1", name(command))), page(command)?)
}

/// `wirebeat-ctl-set`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of a command. What stands behind its help is laid out by hand, and stays as it is.
fn page(command: &Command) -> io::Result<String> {
    let behind = command.get_after_long_help().or(command.get_after_help());
    let behind = behind.map(ToString::to_string).unwrap_or_default();
    let bare =
        command.clone().after_help(None::<&'static str>).after_long_help(None::<&'static str>);
    let man = Man::new(bare).title(name(command)).source(format!("{NAME} {VERSION}"));
    let mut page = Vec::new();
    man.render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned() + &sections(&behind))
}

/// Paragraphs that begin with a heading, as sections of roff.
fn sections(text: &str) -> String {
    let mut out = String::new();
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (heading, lines) = match paragraph.split_once(":\n") {
            Some((heading, lines)) if !heading.contains('\n') => (heading, lines),
            _ => ("Notes", paragraph),
        };
        out += &format!(".SH {}\n.nf\n", heading.to_uppercase());
        for line in lines.lines() {
            // a point or an apostrophe at the beginning of a line would be a request
            out += &format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
        }
        out += ".fi\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_examples_stay_as_they_are() {
        let text = "First steps:\n  wirebeat demo      exact\n  a \\\n\nExit codes:\n  0  done\n";
        assert_eq!(
            sections(text),
            ".SH FIRST STEPS\n.nf\n\\&  wirebeat demo      exact\n\\&  a \\e\n.fi\n.SH EXIT CODES\n.nf\n\\&  0  done\n.fi\n"
        );
    }

    #[test]
    fn the_page_of_a_subcommand_is_named_after_the_program() {
        let mut definition = command::definition().disable_help_subcommand(true);
        definition.build();
        let ctl = definition.find_subcommand("ctl").unwrap();
        let set = page(ctl.find_subcommand("set").unwrap()).unwrap();
        assert!(set.contains(".TH wirebeat-ctl-set 1"), "{set}");
        assert!(set.contains(&format!("\"{NAME} {VERSION}\"")), "{set}");
        let whole = page(&definition).unwrap();
        assert!(whole.contains(".SH EXIT CODES\n.nf\n") && !whole.contains("EXTRA"), "{whole}");
    }
}
