//! `wirebeat completions`: what makes a shell complete the command.
//!
//! The scripts come from the definition of the command line. What that cannot say is put into them here: the values of
//! `--interface` are the interfaces that this machine has when the key is pressed.

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
    print(&with_interfaces(&String::from_utf8_lossy(&script), args.shell))?;
    Ok(0)
}

/// The flag whose values are interfaces.
const FLAG: &str = "--interface";

/// The script with interfaces where it would complete names of files, or nothing, for [`FLAG`].
fn with_interfaces(script: &str, shell: Shell) -> String {
    let mut out = String::with_capacity(script.len() + script.len() / 64);
    let mut after_flag = false;
    for line in script.split_inclusive('\n') {
        let changed = match shell {
            // "--interface)" and in the next line what is offered
            Shell::Bash if after_flag => line.replace(
                r#"$(compgen -f "${cur}")"#,
                r#"$(compgen -W "$(ls /sys/class/net 2>/dev/null)" -- "${cur}")"#,
            ),
            // "'--interface=[The interface to send from]:NAME:_default' \\"
            Shell::Zsh
                if line
                    .trim_start()
                    .trim_start_matches("'*")
                    .trim_start_matches('\'')
                    .starts_with(FLAG) =>
            {
                line.replace(":NAME:_default'", ":NAME:_net_interfaces'")
            }
            // "complete -c wirebeat … -l interface -d '…' -r"
            Shell::Fish if line.contains(" -l interface ") => {
                let line = line.strip_suffix('\n').unwrap_or(line);
                let line = line.strip_suffix(" -r").unwrap_or(line);
                format!("{line} -xa '(command ls /sys/class/net 2>/dev/null)'\n")
            }
            _ => line.to_owned(),
        };
        after_flag = line.trim() == format!("{FLAG})");
        out += &changed;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that has the flag completes it, whatever the form of the script becomes.
    #[test]
    fn interfaces_are_completed_wherever_there_is_the_flag() {
        fn flags(command: &clap::Command) -> usize {
            let own = command.get_arguments().filter(|flag| flag.get_long() == Some("interface"));
            own.count() + command.get_subcommands().map(flags).sum::<usize>()
        }
        let expected = flags(&command::definition());
        assert!(expected > 5);
        for (shell, mark) in [
            (Shell::Bash, "/sys/class/net"),
            (Shell::Zsh, "_net_interfaces"),
            (Shell::Fish, "/sys/class/net"),
        ] {
            let mut script = Vec::new();
            let mut definition = command::definition();
            clap_complete::generate(shell, &mut definition, command::NAME, &mut script);
            let script = with_interfaces(&String::from_utf8(script).unwrap(), shell);
            assert_eq!(script.matches(mark).count(), expected, "{shell}");
        }
    }
}
