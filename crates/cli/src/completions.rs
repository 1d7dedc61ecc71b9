//! `wirebeat completions`: what makes a shell complete the command.

use clap::Args as ClapArgs;
use clap_complete::Shell;

use crate::command;
use crate::failure::Failure;
use crate::output::print;
use crate::values;

const SHELLS: [(&str, &str, Shell); 3] = [
    ("bash", "source <(wirebeat completions bash)", Shell::Bash),
    ("zsh", "source <(wirebeat completions zsh)", Shell::Zsh),
    ("fish", "wirebeat completions fish | source", Shell::Fish),
];

/// Print completions for a shell
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The shell
    #[arg(value_parser = values::choice(&SHELLS))]
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command::definition(), command::NAME, &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
