//! A text log of each packet that arrives, in the form of another tool, for scripts that were made for it.
//!
//! It is written by the receiving thread, a line for each packet: who asks for it has packets enough time
//! apart. What cannot be read as a probe of the formats asked for has no line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use wirebeat_engine_linux::time::RealtimeToMonotonic;
use wirebeat_meter::filter::Filter;
use wirebeat_units::{Fault, Nanos, fault};
use wirebeat_wire::codec::{Codec, Sent};
use wirebeat_wire::datagram::Datagram;
use wirebeat_wire::log::{Received, crude, mgen};

use crate::error::RunError;

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// MGEN's: one event in each line.
    Mgen,
    /// CRUDE's.
    Crude,
}

impl FromStr for LogForm {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "mgen" => Ok(LogForm::Mgen),
            "crude" => Ok(LogForm::Crude),
            _ => Err(fault!("'{text}' is not a form of a log"; "write mgen or crude")),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The form.
    pub form: LogForm,
    /// The file; `None`: standard output.
    pub file: Option<PathBuf>,
}

/// A log that is being written.
pub(crate) struct PacketLog {
    form: LogForm,
    out: BufWriter<Box<dyn Write + Send>>,
    codecs: Vec<Codec>,
    filter: Filter,
    /// Makes times of the clock of the day, which it follows while the log is written.
    clock: RealtimeToMonotonic,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl std::fmt::Debug for PacketLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketLog").field("form", &self.form).finish_non_exhaustive()
    }
}

impl PacketLog {
    /// Begins a log of packets in these formats that match a filter.
    pub(crate) fn open(
        request: &LogRequest,
        codecs: &[Codec],
        (at, filter): (Nanos, Filter),
    ) -> Result<PacketLog, RunError> {
        let out: Box<dyn Write + Send> = match &request.file {
            Some(path) => Box::new(create(path)?),
            None => Box::new(io::stdout()),
        };
        let (form, codecs, clock) = (request.form, codecs.to_vec(), RealtimeToMonotonic::new());
        let mut log =
            PacketLog { form, out: BufWriter::new(out), codecs, filter, clock, error: None };
        if form == LogForm::Mgen {
            let at_ns = log.unix_ns(at);
            log.line(&mgen::MgenLine::Start { at_ns });
            if let Some(port) = filter.destination_port {
                log.line(&mgen::MgenLine::Listen { at_ns, port });
            }
        }
        Ok(log)
    }

    fn unix_ns(&self, at: Nanos) -> u64 {
        self.clock.unix_ns(at)
    }

    fn line(&mut self, line: &dyn std::fmt::Display) {
        if self.error.is_none() {
            self.error = writeln!(self.out, "{line}").err();
        }
    }

    /// A frame that arrived.
    pub(crate) fn record(&mut self, at: Nanos, frame: &[u8]) {
        let Ok(datagram) = Datagram::parse(frame) else { return };
        let source = SocketAddr::new(datagram.source, datagram.source_port);
        if !self.filter.matches(Some(source), Some(datagram.destination_port)) {
            return;
        }
        let read = |codec: &Codec| codec.read(datagram.payload);
        let Some(seen) = self.codecs.iter().find_map(read) else { return };
        self.clock.refresh(at);
        let arrived_ns = self.unix_ns(at);
        let sent_ns = seen.sent.and_then(|sent| match sent {
            // On one host; between two this is as wrong as their clocks differ.
            Sent::Monotonic(ns) => Some(self.unix_ns(Nanos::new(ns))),
            other => other.unix_ns(arrived_ns),
        });
        let received = Received {
            arrived_ns,
            sent_ns,
            flow: seen.flow.unwrap_or(0),
            sequence: seen.sequence,
            source,
            destination: (datagram.destination, datagram.destination_port).into(),
            size: datagram.payload.len() as u32,
            ttl: Some(datagram.ttl),
        };
        match self.form {
            LogForm::Mgen => self.line(&mgen::MgenLine::Receive(received)),
            LogForm::Crude => self.line(&crude::CrudeLine(received)),
        }
    }

    /// Ends the log; says why it is not whole, if it is not.
    pub(crate) fn finish(mut self, at: Nanos) -> io::Result<()> {
        if self.form == LogForm::Mgen {
            let at_ns = self.unix_ns(at);
            self.line(&mgen::MgenLine::Stop { at_ns });
        }
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

fn create(path: &Path) -> Result<File, RunError> {
    File::create(path).map_err(|error| {
        let told = fault!(
            "the log '{}' cannot be written: {error}", path.display();
            "name a file in a folder that you may write to"
        );
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => RunError::output(told),
            _ => RunError::usage(told),
        }
    })
}
