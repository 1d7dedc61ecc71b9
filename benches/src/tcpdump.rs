//! tcpdump at the far end: when packets arrive, by somebody else's word.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use wirebeat_testbed::{Capability, Process, Program, require};

use crate::lab::{Failure, Lab};
use crate::pcap;
use crate::sinks::PORT;

const TCPDUMP: &str = "tcpdump";
/// It takes this long at most to begin, and to write what it has.
const BEGINS: Duration = Duration::from_secs(5);
const ENDS: Duration = Duration::from_secs(5);
/// It takes what it has been given once a second.
const TAKES: Duration = Duration::from_millis(1200);

/// A capture of the datagrams to [`PORT`], with the kernel's timestamps in nanoseconds.
#[derive(Debug)]
pub struct Capturing {
    process: Process,
    file: PathBuf,
}

impl Capturing {
    /// Begins, and returns when it has.
    pub fn begin(lab: &Lab) -> Result<Capturing, Failure> {
        Capturing::of(lab, &["udp", "port", &PORT.to_string()])
    }

    /// Begins to capture what a filter of tcpdump takes.
    pub fn of(lab: &Lab, filter: &[&str]) -> Result<Capturing, Failure> {
        require(Capability::Program(TCPDUMP))?;
        let file = lab.folder.file("arrived.pcap");
        let words = format!(
            "-i {} -Z root -B 65536 --time-stamp-precision=nano -s 64 -w",
            lab.far().interface()
        );
        let process = Program::new(&lab.far().namespace, TCPDUMP)
            .args(words.split_ascii_whitespace())
            .args([&file])
            .args(filter)
            .spawn()?;
        process.wait_for("listening on", BEGINS)?;
        Ok(Capturing { process, file })
    }

    /// Ends it: when packets arrived, in ns.
    pub fn times(self) -> Result<Vec<u64>, Failure> {
        sleep(TAKES);
        self.process.interrupt();
        self.process.wait(ENDS)?;
        Ok(pcap::times(&fs::read(&self.file)?)?)
    }
}
