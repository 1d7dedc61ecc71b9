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

/// A flag whose value is an interface, of a command.
struct OfInterface {
    /// The command's words.
    path: Vec<String>,
    long: String,
    short: Option<char>,
}

/// All of them.
fn of_interfaces(command: &clap::Command, path: &[String], found: &mut Vec<OfInterface>) {
    for flag in command.get_arguments() {
        let Some(long) = flag.get_long() else { continue };
        let named = flag.get_value_names().and_then(|names| names.first());
        if long == "interface" || named.is_some_and(|name| name.as_str() == "INTERFACE") {
            let (path, short) = (path.to_vec(), flag.get_short());
            found.push(OfInterface { path, long: long.to_owned(), short });
        }
    }
    for inner in command.get_subcommands() {
        let path: Vec<String> = path.iter().cloned().chain([inner.get_name().to_owned()]).collect();
        of_interfaces(inner, &path, found);
    }
}

/// The script with interfaces where it would complete names of files, or nothing, for flags of interfaces.
fn with_interfaces(script: &str, shell: Shell) -> String {
    let mut flags = Vec::new();
    of_interfaces(&command::definition(), &[], &mut flags);
    let mut out = String::with_capacity(script.len() + script.len() / 64);
    // what the line before was about: in the script of bash a case of a command, and in it one of a flag
    let (mut path, mut after_flag) = (String::new(), false);
    for line in script.split_inclusive('\n') {
        let changed = match shell {
            // "--interface)" and in the next line what is offered
            Shell::Bash if after_flag => line.replace(
                r#"$(compgen -f "${cur}")"#,
                r#"$(compgen -W "$(ls /sys/class/net 2>/dev/null)" -- "${cur}")"#,
            ),
            // "'--interface=[The interface to send from]:NAME:_default' \\"
            Shell::Zsh if flags.iter().any(|flag| flag.begins_zsh(line)) => line
                .replace(":INTERFACE:_default'", ":INTERFACE:_net_interfaces'")
                .replace(":NAME:_default'", ":INTERFACE:_net_interfaces'"),
            // "complete -c wirebeat … -l interface -d '…' -r"
            Shell::Fish if flags.iter().any(|flag| flag.is_in_fish(line)) => {
                let line = line.strip_suffix('\n').unwrap_or(line);
                let line = line.strip_suffix(" -r").unwrap_or(line);
                format!("{line} -xa '(command ls /sys/class/net 2>/dev/null)'\n")
            }
            _ => line.to_owned(),
        };
        if let Some(case) = line.trim().strip_suffix(')') {
            if case.starts_with("wirebeat__") && !case.contains(',') {
                path = case.to_owned();
            }
            after_flag = flags.iter().any(|flag| flag.is_case(&path, case));
        } else {
            after_flag = false;
        }
        out += &changed;
    }
    out
}

impl OfInterface {
    /// Whether a case of the script of bash is this one: `--interface` or `-i` in that of a command (`wirebeat__subcmd__replay`).
    fn is_case(&self, path: &str, case: &str) -> bool {
        let own = format!("wirebeat__subcmd__{}", self.path.join("__subcmd__").replace('-', "__"));
        let short = self.short.map(|short| format!("-{short}"));
        path == own
            && (case.strip_prefix("--") == Some(&self.long) || short.as_deref() == Some(case))
    }

    /// Whether a line of the script of zsh describes it. Other commands may have a flag of its name and another value, which
    /// has another name then.
    fn begins_zsh(&self, line: &str) -> bool {
        let line = line.trim_start().trim_start_matches("'*").trim_start_matches('\'');
        let long = line.strip_prefix("--").and_then(|rest| rest.strip_prefix(&self.long));
        let short = self.short.and_then(|short| line.strip_prefix('-')?.strip_prefix(short));
        let is_name = self.long == "interface" || line.contains(":INTERFACE:_default'");
        is_name
            && (long.is_some_and(|rest| rest.starts_with("=["))
                || short.is_some_and(|rest| rest.starts_with("+[")))
    }

    /// Whether a line of the script of fish describes it.
    fn is_in_fish(&self, line: &str) -> bool {
        let mut of_command = self.path.iter().all(|word| line.contains(&format!(" {word}")));
        of_command &= line.contains("__fish_wirebeat_using_subcommand");
        of_command
            && line.contains(&format!(" -l {} ", self.long))
            && line.trim_end().ends_with(" -r")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that has such a flag completes it, by its long and its short name, whatever the form of the script becomes.
    #[test]
    fn interfaces_are_completed_wherever_there_is_a_flag_for_them() {
        let mut flags = Vec::new();
        of_interfaces(&command::definition(), &[], &mut flags);
        assert!(flags.len() > 8, "{}", flags.len());
        let short = flags.iter().filter(|flag| flag.short.is_some()).count();
        assert!(short >= 2, "{short}");
        for (shell, mark, expected) in [
            (Shell::Bash, "/sys/class/net", flags.len() + short),
            (Shell::Zsh, "_net_interfaces", flags.len() + short),
            // one line has both names
            (Shell::Fish, "/sys/class/net", flags.len()),
        ] {
            let mut script = Vec::new();
            let mut definition = command::definition();
            clap_complete::generate(shell, &mut definition, command::NAME, &mut script);
            let script = with_interfaces(&String::from_utf8(script).unwrap(), shell);
            assert_eq!(script.matches(mark).count(), expected, "{shell}");
        }
    }
}
