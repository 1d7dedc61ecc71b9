//! Where the commands of a shell script write: to nobody, to files, or to the next command of a pipe. What
//! goes to a file of pktgen is given to pktgen; what goes there and is not known is named.

use std::rc::Rc;

use super::expand::Field;
use super::interpreter::Interpreter;
use super::syntax::{Input, Node, Out, Stage};
use super::word::Word;
use crate::{Line, ScriptError};

/// Where pktgen's files are.
const FILES: &str = "/proc/net/pktgen/";
/// How many devices are looked at in one step.
const DEVICES: u64 = 16;
/// The most bytes that are written to pktgen at once, in a page of memory.
const MAX_WRITTEN: usize = 4096;

/// Where a command writes.
#[derive(Clone)]
pub(super) enum Output {
    /// To the screen, or to a command that hands on nothing.
    Nobody,
    Files(Rc<[String]>),
    /// It is `cat` or `tee` in a pipe: what writes to it writes where it does.
    HandedOn,
}

impl Output {
    /// The files of pktgen among those that are written.
    fn of_pktgen(&self) -> impl Iterator<Item = &String> {
        let files: &[String] = match self {
            Output::Files(files) => files,
            _ => &[],
        };
        files.iter().filter(|file| file.starts_with(FILES))
    }

    fn is_pktgen(&self) -> bool {
        self.of_pktgen().next().is_some()
    }
}

impl Interpreter<'_, '_> {
    /// Where each command of a pipe writes.
    pub(super) fn outputs(
        &mut self,
        line: &Line,
        stages: &[Stage],
    ) -> Result<Vec<Output>, ScriptError> {
        let mut outputs = Vec::new();
        let mut behind = self.output.clone();
        for (at, stage) in stages.iter().enumerate().rev() {
            let own = match &stage.to.out {
                Some(Out::File(word)) => Output::Files([self.file(line, word)?].into()),
                Some(Out::Messages) => Output::Nobody,
                None => behind,
            };
            let handed_on = match at {
                0 => None,
                _ => self.handed_on(line, stage, &own)?,
            };
            match handed_on {
                Some(output) => {
                    behind = output;
                    outputs.push(Output::HandedOn);
                }
                None => {
                    behind = Output::Nobody;
                    outputs.push(own);
                }
            }
        }
        outputs.reverse();
        // What is written is written to each of them.
        for output in &outputs {
            if let Output::Files(files) = output {
                self.take_steps(line, files.len().saturating_sub(1) as u64)?;
                self.take_bytes(line, files.iter().map(String::len).sum())?;
            }
        }
        Ok(outputs)
    }

    /// Where `cat` and `tee` write what they read; `None`: it is another command.
    fn handed_on(
        &mut self,
        line: &Line,
        stage: &Stage,
        own: &Output,
    ) -> Result<Option<Output>, ScriptError> {
        let (Node::Simple(words), None) = (&stage.node, &stage.to.input) else { return Ok(None) };
        let sudo = words.iter().take_while(|word| word.plain() == Some("sudo")).count();
        let Some((first, rest)) = words.get(sudo..).and_then(<[Word]>::split_first) else {
            return Ok(None);
        };
        match first.plain() {
            Some("cat") if rest.iter().all(|word| word.plain() == Some("-")) => {
                Ok(Some(own.clone()))
            }
            Some("tee") => {
                let files = rest.iter().filter(|word| !word.shown().starts_with('-'));
                let files: Vec<String> =
                    files.map(|word| self.file(line, word)).collect::<Result<_, _>>()?;
                Ok(Some(together(files, own)))
            }
            _ => Ok(None),
        }
    }

    /// The file that is written.
    fn file(&mut self, line: &Line, word: &Word) -> Result<String, ScriptError> {
        let field = self.expand(line, word)?;
        let written = word.text();
        if written.contains("pktgen") || written.contains("PGDEV") {
            return self.known(line, &field);
        }
        Ok(field.text.unwrap_or(written))
    }

    /// `tee` without a pipe before it.
    pub(super) fn tee(
        &mut self,
        line: &Line,
        rest: &[Field<'_>],
        input: Option<&Input>,
    ) -> Result<(), ScriptError> {
        let mut files = Vec::new();
        for field in rest.iter().filter(|field| !field.begins_with('-')) {
            files.push(self.file(line, field.word)?);
        }
        let output = together(files, &self.output);
        let outer = std::mem::replace(&mut self.output, output);
        self.cat(line, &[], input)?;
        self.output = outer;
        Ok(())
    }

    /// `cat` of a document or of a text is known.
    pub(super) fn cat(
        &mut self,
        line: &Line,
        rest: &[Field<'_>],
        input: Option<&Input>,
    ) -> Result<(), ScriptError> {
        match input {
            Some(Input::Text(first, word)) if rest.is_empty() && self.output.is_pktgen() => {
                let field = self.expand(line, word)?;
                let text = self.known(line, &field)?;
                self.emit(line, &text, *first)
            }
            _ => {
                self.unknown_output(line);
                Ok(())
            }
        }
    }

    pub(super) fn echo(&mut self, line: &Line, rest: &[Field<'_>]) -> Result<(), ScriptError> {
        let is_option = |field: &&Field<'_>| {
            let letters = field.text.as_deref().and_then(|text| text.strip_prefix('-'));
            letters.is_some_and(|letters| {
                !letters.is_empty() && letters.chars().all(|c| "neE".contains(c))
            })
        };
        let options = rest.iter().take_while(is_option).count();
        let (options, words) = rest.split_at(options);
        let mut text = self.for_pktgen(line, words)?.map(|words| words.join(" "));
        if options.iter().any(|option| option.text.as_deref().is_some_and(|o| o.contains('e'))) {
            text = text.and_then(|text| formatted(&text.replace('%', "%%"), &[]));
        }
        self.print_known(line, text)
    }

    pub(super) fn printf(&mut self, line: &Line, rest: &[Field<'_>]) -> Result<(), ScriptError> {
        if let [option, variable, ..] = rest
            && option.text.as_deref() == Some("-v")
        {
            let why = "what is printed to a variable is not known here";
            self.leave_out(line, "printf -v", why);
            variable.text.iter().for_each(|name| self.set(name, Some(None)));
            return Ok(());
        }
        let words = self.for_pktgen(line, rest)?;
        let text = words.as_deref().and_then(<[String]>::split_first);
        let text = text.and_then(|(format, words)| formatted(format, words));
        self.print_known(line, text)
    }

    /// What is written to pktgen must be known; other files take anything.
    fn for_pktgen(
        &self,
        line: &Line,
        words: &[Field<'_>],
    ) -> Result<Option<Vec<String>>, ScriptError> {
        match self.output.is_pktgen() {
            true => {
                words.iter().map(|word| self.known(line, word)).collect::<Result<_, _>>().map(Some)
            }
            false => Ok(None),
        }
    }

    fn print_known(&mut self, line: &Line, text: Option<String>) -> Result<(), ScriptError> {
        if let Output::Files(files) = self.output.clone() {
            let others = |file: &&String| !file.starts_with(FILES) && !file.starts_with("/dev/");
            for file in files.iter().filter(others) {
                self.leave_out(line, file, "it writes to a file that is not pktgen's");
            }
        }
        match text {
            Some(text) => self.emit(line, &text, None),
            None => {
                self.unknown_output(line);
                Ok(())
            }
        }
    }

    /// Names the files of pktgen that are written what is not known.
    pub(super) fn unknown_output(&mut self, line: &Line) {
        let files: Vec<String> = self.output.of_pktgen().cloned().collect();
        for file in files {
            let why = "what is written there is not known here; write it with 'echo'";
            self.leave_out(line, &file, why);
        }
    }

    /// Writes to pktgen's files. Each takes one command of what it is written at once.
    fn emit(&mut self, line: &Line, text: &str, first: Option<u64>) -> Result<(), ScriptError> {
        let files: Vec<String> = self.output.of_pktgen().cloned().collect();
        for file in files {
            let mut commands =
                (0u64..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
            let at = |number: u64| match first {
                Some(first) => Line { number: first.saturating_add(number), ..line.clone() },
                None => line.clone(),
            };
            let Some((number, command)) = commands.next() else { continue };
            self.write(&at(number), &file, command)?;
            for (number, command) in commands {
                let why = "pktgen reads one command of all that is written at once; write each with an 'echo' \
                           of its own";
                self.leave_out(&at(number), command.trim(), why);
            }
        }
        Ok(())
    }

    /// Gives pktgen the words of a helper.
    pub(super) fn give(
        &mut self,
        line: &Line,
        file: &str,
        words: &[Field<'_>],
    ) -> Result<(), ScriptError> {
        let known: Vec<String> =
            words.iter().map(|word| self.known(line, word)).collect::<Result<_, _>>()?;
        self.write(line, file, &known.join(" "))
    }

    /// Gives pktgen a command.
    pub(super) fn write(
        &mut self,
        line: &Line,
        file: &str,
        command: &str,
    ) -> Result<(), ScriptError> {
        let file = file.strip_prefix(FILES).unwrap_or(file).trim_matches('/');
        self.take_bytes(line, file.len() + command.len())?;
        if command.trim_start().starts_with("rem_device_all") {
            let devices = self.control.devices.len() as u64;
            self.take_steps(line, devices / DEVICES)?;
        }
        let line = self.caller.as_ref().unwrap_or(line);
        self.control.write(self.draft, line, file, command)
    }
}

/// Files, and where else `tee` writes.
fn together(mut files: Vec<String>, own: &Output) -> Output {
    if let Output::Files(others) = own {
        files.extend(others.iter().cloned());
    }
    Output::Files(files.into())
}

/// What `printf` makes of a format and its words, with what `echo -e` reads as well; `None`: more than is
/// written to pktgen at once, or more than is read here.
fn formatted(format: &str, words: &[String]) -> Option<String> {
    let mut text = String::new();
    let mut words = words.iter();
    loop {
        let left = words.len();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => text.push(match chars.next()? {
                    'n' => '\n',
                    't' => '\t',
                    '\\' => '\\',
                    _ => return None,
                }),
                '%' => match chars.next()? {
                    '%' => text.push('%'),
                    's' | 'd' | 'i' | 'u' => text.push_str(words.next().map_or("", String::as_str)),
                    _ => return None,
                },
                c => text.push(c),
            }
            if text.len() > MAX_WRITTEN {
                return None;
            }
        }
        // The format is used again for as long as there are words.
        match words.len() {
            0 => return Some(text),
            same if same == left => return Some(text),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_printf() {
        let of = |format: &str, words: &[&str]| {
            formatted(format, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        for (format, words, expected) in [
            ("count %d\\n", &["5"][..], Some("count 5\n")),
            ("%s %s", &["a"], Some("a ")),
            ("%s,", &["a", "b"], Some("a,b,")),
            ("100%%\\t\\\\", &["unused"], Some("100%\t\\")),
            ("%x", &["5"], None),
            ("%", &[], None),
            ("\\x41", &[], None),
            ("", &["a"], Some("")),
        ] {
            assert_eq!(of(format, words).as_deref(), expected, "{format}");
        }
        assert_eq!(of(&"x".repeat(5000), &[]), None);
    }
}
