//! `--resume` of many runs: a file with a line for each run that was made, and the runs that are left after a stop.
//!
//! The first line says what the runs are of, and each further one is a run, in JSON. A line that a program which was killed did not write
//! to its end is none: that run is made again.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wirebeat_report::sweep::Point;

use crate::failure::Failure;
use crate::file::is_standard;

/// The longest file that is read: 10,000 reports of 200 kB.
const BYTES: u64 = 2 << 30;
/// The longest line of one.
const LINE: u64 = 64 << 20;

/// What the runs are of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the model of runs.
    pub schema_version: String,
    /// Version of the program.
    pub wirebeat_version: String,
    /// The standard by which they are a test.
    pub test: Option<String>,
    /// The variables that have several values.
    pub variables: Vec<String>,
    /// The values of each run.
    pub values: Vec<Vec<String>>,
    /// How long is sent before each run.
    pub warmup_ns: Option<u64>,
    /// The scenario of the first one, in JSON.
    pub scenario: String,
}

/// The file.
#[derive(Debug)]
pub struct Kept {
    file: File,
    path: PathBuf,
}

impl Kept {
    /// Opens it, and says which runs are in it: those of `head`, from the first one on.
    ///
    /// # Errors
    /// It cannot be read or written, or is of other runs.
    pub fn open(path: &Path, head: &Head) -> Result<(Kept, Vec<Point>), Failure> {
        let at = |failure: Failure| failure.at(format!("--resume {}", path.display()));
        let failed =
            |error: std::io::Error| at(Failure::usage(format!("runs cannot be kept: {error}")));
        if is_standard(path) {
            return Err(at(Failure::usage("runs cannot be kept in '-'").hint("name a file")));
        }
        match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(about) if !about.is_file() => {
                return Err(at(Failure::usage("it is not a regular file").hint("name a file")));
            }
            Ok(about) if about.len() > BYTES => {
                return Err(at(Failure::usage("it is too long for runs that were kept")));
            }
            Ok(_) => {}
        }
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options
        };
        let file = options().open(path).map_err(failed)?;
        let mut kept = Kept { file, path: path.to_owned() };
        let (points, end) = kept.read(head).map_err(at)?;
        // what was cut off behind the last whole line goes
        kept.file.set_len(end).map_err(failed)?;
        kept.file.seek(SeekFrom::End(0)).map_err(failed)?;
        if end == 0 {
            kept.line(head)?;
        }
        Ok((kept, points))
    }

    /// The runs in the file, and where the last whole line ends.
    fn read(&mut self, head: &Head) -> Result<(Vec<Point>, u64), Failure> {
        let failed = |error: std::io::Error| Failure::usage(format!("it cannot be read: {error}"));
        let mut lines = BufReader::new(&self.file);
        let (mut points, mut end): (Vec<Point>, u64) = (Vec::new(), 0);
        let mut number = 0_u64;
        loop {
            let mut line = Vec::new();
            let read = (&mut lines).take(LINE).read_until(b'\n', &mut line).map_err(failed)? as u64;
            number += 1;
            if line.last() != Some(&b'\n') {
                // a first line that was cut off is one of ours, if it begins as ours do
                let begins = line.starts_with(BEGIN) || BEGIN.starts_with(&line);
                if read == LINE || number == 1 && !begins {
                    return Err(no_runs());
                }
                return Ok((points, end));
            }
            if number == 1 {
                let found: Head = serde_json::from_slice(&line).map_err(|_| no_runs())?;
                found.check(head)?;
            } else {
                let point: Option<Point> = serde_json::from_slice(&line).ok();
                let expected = head.values.get(points.len());
                match point.filter(|point| Some(&point.values) == expected) {
                    Some(point) => points.push(point),
                    None => return Err(damaged(number, points.len())),
                }
            }
            end += read;
        }
    }

    /// Keeps a run.
    pub fn add(&mut self, point: &Point) -> Result<(), Failure> {
        self.line(point)
    }

    fn line(&mut self, of: &impl Serialize) -> Result<(), Failure> {
        let written = serde_json::to_vec(of).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        written.map_err(|error| {
            Failure::output(format!("runs cannot be kept: {error}"))
                .at(format!("--resume {}", self.path.display()))
        })
    }
}

impl Head {
    /// That these are the same runs.
    fn check(&self, asked: &Head) -> Result<(), Failure> {
        let other = |what: &str| {
            let why = format!("its runs have {what}");
            let hint = "give the same command as then, or a new name for --resume";
            Err(Failure::usage(why).hint(hint))
        };
        if self.schema_version != asked.schema_version
            || self.wirebeat_version != asked.wirebeat_version
        {
            return other(&format!("the results of version {}", self.wirebeat_version));
        }
        if self.test != asked.test || self.variables != asked.variables {
            return other("other variables");
        }
        if self.values != asked.values {
            return other("other values");
        }
        if self.warmup_ns != asked.warmup_ns {
            return other("another --warmup");
        }
        if self.scenario != asked.scenario {
            return other("another scenario");
        }
        Ok(())
    }
}

/// What the first line begins with.
const BEGIN: &[u8] = b"{\"schema_version\":";

/// A line is none of the runs that follow.
fn damaged(line: u64, whole: usize) -> Failure {
    let why = format!("line {line} is damaged, or not the run that follows the {whole} before it");
    Failure::usage(why).hint("remove that line and those behind it, and their runs are made again")
}

fn no_runs() -> Failure {
    Failure::usage("there are no runs in it that were kept")
        .hint("give the file of runs that were cut off, or a new name")
}
