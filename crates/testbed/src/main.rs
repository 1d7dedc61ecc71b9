//! Lays a testbed by hand, to try things on it:
//!
//! ```text
//! wirebeat-testbed pair | router | bridge ENDS  [-- PROGRAM ARGUMENTS…]
//! ```
//! Prints how to enter each end and keeps them until its standard input ends; with a program, runs
//! that in end `a` and keeps them until it ends. Without root it enters a user namespace first.

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{self, ExitCode};
use std::time::Duration;

use wirebeat_testbed::{End, Options, Program, Testbed, userns};

const USAGE: &str = "wirebeat-testbed pair | router | bridge ENDS  [-- PROGRAM ARGUMENTS…]";
/// How long a program may run: a day, in effect until it ends.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, program) = match arguments.iter().position(|a| a == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (&arguments[..], &[][..]),
    };
    let what: Vec<&str> = what.iter().map(String::as_str).collect();
    match run(&what, program) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wirebeat-testbed: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(what: &[&str], program: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::default();
    let ends = match what {
        ["bridge", ends] => ends.parse().ok(),
        ["pair" | "router"] => Some(2),
        _ => None,
    };
    let Some(ends) = ends else {
        eprintln!("usage: {USAGE}");
        return Ok(ExitCode::from(2));
    };
    if !rustix::process::geteuid().is_root() {
        userns::enter()?;
    }
    let testbed = match what {
        ["router"] => Testbed::router(&options)?,
        ["bridge", _] => Testbed::bridge(ends, &options)?,
        _ => Testbed::pair(&options)?,
    };
    let mut out = io::stdout().lock();
    for end in testbed.ends() {
        writeln!(out, "{}", describe(end))?;
    }
    writeln!(out, "ready")?;
    out.flush()?;
    let Some((program, arguments)) = program.split_first() else {
        io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(ExitCode::SUCCESS);
    };
    let ended = Program::new(&testbed.a.namespace, program).args(arguments).output(LONG)?;
    write!(out, "{}", ended.stdout)?;
    eprint!("{}", ended.stderr);
    Ok(ExitCode::from(ended.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// One end: its name, interface, addresses, and how to get there.
fn describe(end: &End) -> String {
    let (pid, fd) = (process::id(), end.namespace.as_fd().as_raw_fd());
    let user =
        if userns::is_initial() { String::new() } else { format!("--user=/proc/{pid}/ns/user ") };
    let ipv6 = end.ipv6.map(|address| format!(" {address}")).unwrap_or_default();
    format!(
        "{}: {} {}{ipv6} nsenter {user}--net=/proc/{pid}/fd/{fd}",
        end.namespace.label(),
        end.interface(),
        end.ipv4
    )
}
