//! The options that the kernel's samples take (samples/pktgen/parameters.sh): each sets a variable.

use std::rc::Rc;

use wirebeat_units::fault;

use super::interpreter::Interpreter;
use crate::text::printable;
use crate::{Line, ScriptError};

/// What an option sets a variable to.
#[derive(Clone, Copy)]
enum Sets {
    /// Its value.
    Value,
    /// Always the same.
    To(&'static str),
}

const OPTIONS: [(char, &str, Sets); 15] = [
    ('i', "DEV", Sets::Value),
    ('s', "PKT_SIZE", Sets::Value),
    ('d', "DEST_IP", Sets::Value),
    ('m', "DST_MAC", Sets::Value),
    ('p', "DST_PORT", Sets::Value),
    ('f', "F_THREAD", Sets::Value),
    ('t', "THREADS", Sets::Value),
    ('c', "CLONE_SKB", Sets::Value),
    ('n', "COUNT", Sets::Value),
    ('b', "BURST", Sets::Value),
    ('w', "DELAY", Sets::Value),
    ('k', "UDP_CSUM", Sets::To("1")),
    ('6', "IP6", Sets::To("6")),
    ('a', "APPEND", Sets::To("yes")),
    ('v', "VERBOSE", Sets::To("yes")),
];
/// It sets a variable as well, which prints what is written.
const DEBUG: char = 'x';
/// The most threads of a script: more CPUs no machine has.
const MAX_THREADS: u64 = 65_536;

impl Interpreter<'_, '_> {
    /// Takes the options that the script is given, as `getopts` does: up to the first word that is none.
    pub(super) fn parameters(&mut self, line: &Line) -> Result<(), ScriptError> {
        self.asked.set(true);
        let Some(given) = self.arguments.clone() else { return Ok(()) };
        let known: Option<Vec<String>> = given.iter().cloned().collect();
        let Some(words) = known else {
            self.leave_out(line, "parameters.sh", "what it is given depends on the machine");
            return Ok(());
        };
        self.take_steps(line, words.len() as u64)?;
        self.take_bytes(line, words.iter().map(String::len).sum())?;
        let mut rest = words.iter();
        while let Some(word) = rest.as_slice().first().filter(|word| word.len() > 1) {
            let Some(letters) = word.strip_prefix('-') else { break };
            rest.next();
            if letters == "-" {
                break;
            }
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                let option = OPTIONS.iter().find(|(known, _, _)| *known == letter);
                match option {
                    Some((_, name, Sets::To(value))) => self.set(name, Some(Some((*value).into()))),
                    Some((_, name, Sets::Value)) => {
                        let value = match letters.as_str() {
                            "" => rest.next().map(String::as_str),
                            value => Some(value),
                        };
                        let value =
                            value.ok_or_else(|| line.wrong(format!("-{letter} has no value")))?;
                        self.set(name, Some(Some(value.to_owned())));
                        break;
                    }
                    None if letter == DEBUG => self.set("DEBUG", Some(Some("yes".to_owned()))),
                    None => {
                        let known: String = OPTIONS.iter().map(|(known, _, _)| *known).collect();
                        return Err(line.wrong(fault!(
                            "'-{}' is not an option of parameters.sh",
                            printable(&letter.to_string());
                            "they are -{known}{DEBUG}"
                        )));
                    }
                }
            }
        }
        self.arguments = Some(rest.map(|word| Some(word.clone())).collect::<Rc<[_]>>());
        self.threads(line)
    }

    /// The last thread follows from the first and how many there are.
    fn threads(&mut self, line: &Line) -> Result<(), ScriptError> {
        let number = |name: &str, usual: u64| {
            let text = self.variables.get(name).cloned().flatten();
            let wrong = || line.wrong(format!("{name} is a whole number of at most {MAX_THREADS}"));
            let number = text.map_or(Some(usual), |text| text.parse().ok());
            number.filter(|number| *number <= MAX_THREADS).ok_or_else(wrong)
        };
        let (first, threads) = (number("F_THREAD", 0)?, number("THREADS", 1)?);
        if threads == 0 {
            return Err(line.wrong("THREADS is at least 1"));
        }
        self.set("L_THREAD", Some(Some((first + threads - 1).to_string())));
        Ok(())
    }
}
