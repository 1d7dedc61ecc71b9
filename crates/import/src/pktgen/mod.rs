//! Shell scripts that write to `/proc/net/pktgen`, as they are: with `echo`, with `pgset`, or with the
//! helpers of the kernel's samples.
//!
//! `lexer.rs`, `pieces.rs` and `parser.rs` read the script; `interpreter.rs`, `command.rs`, `expand.rs` and
//! `output.rs` go through it as a shell would, as far as such scripts need one, and run nothing. What the
//! script writes arrives in `control.rs` and `device.rs`; `lower.rs` makes a flow of each device.

mod arithmetic;
mod braces;
mod command;
mod condition;
mod control;
mod device;
mod expand;
mod helpers;
mod interpreter;
mod lexer;
mod lower;
mod output;
mod parameters;
mod parser;
mod pieces;
mod syntax;
mod word;

use wirebeat_units::fault;

use crate::ScriptError;
use crate::draft::Draft;

/// The longest shell script.
const MAX_SCRIPT: usize = 1 << 20;

/// Something that is written to pktgen, or where to.
pub(crate) fn hint(line: &str) -> bool {
    let first = line.split(char::is_whitespace).next().unwrap_or("");
    let helper = ["pgset", "pg_set", "pg_ctrl", "pg_thread"].contains(&first);
    let written = line.contains("/proc/net/pktgen")
        && (line.contains(['>', '=']) || line.contains("tee "))
        && !line.contains(": ");
    helper || written
}

pub(crate) fn read(draft: &mut Draft<'_>) -> Result<(), ScriptError> {
    if draft.source.text.len() > MAX_SCRIPT {
        let problem = fault!("a shell script for pktgen has at most {MAX_SCRIPT} bytes");
        return Err(ScriptError::Whole { file: draft.source.name.to_owned(), problem });
    }
    let control = interpreter::run(draft)?;
    for (name, device) in &control.devices {
        lower::add(draft, device, name)?;
    }
    Ok(())
}
