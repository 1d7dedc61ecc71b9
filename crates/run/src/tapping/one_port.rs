//! The frames of one port, out of those of a run.

use std::io;

use wirebeat_capture::seen::{InterfaceCounts, Outcome, Seen};
use wirebeat_capture::sink::{Sink, Written};
use wirebeat_meter::observation::Observed;

use super::PortCapture;

/// Hands on the frames of one port, as its only interface.
pub(super) struct OnePort {
    interface: u16,
    received: Option<Observed>,
    sent: bool,
    sink: Box<dyn Sink>,
}

impl OnePort {
    pub(super) fn new(capture: &PortCapture, sink: Box<dyn Sink>) -> OnePort {
        let PortCapture { place, received, sent, .. } = capture;
        let interface = u16::try_from(*place).unwrap_or(u16::MAX);
        OnePort { interface, received: *received, sent: *sent, sink }
    }

    fn wants(&self, seen: &Seen<'_>) -> bool {
        seen.interface == self.interface
            && match (seen.outcome, self.received) {
                (Outcome::Received(_), None) => false,
                (Outcome::Received(_), Some(Observed::All)) => true,
                (Outcome::Received(standing), Some(Observed::Measured)) => standing.is_measured(),
                _ => self.sent,
            }
    }

    fn counts<'a>(&self, counts: &'a [InterfaceCounts]) -> &'a [InterfaceCounts] {
        let own = usize::from(self.interface);
        counts.get(own..own + 1).unwrap_or_default()
    }
}

impl Sink for OnePort {
    fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        match self.wants(seen) {
            true => self.sink.frame(&Seen { interface: 0, ..*seen }),
            false => Ok(()),
        }
    }

    fn pause(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()> {
        let counts = self.counts(counts);
        self.sink.pause(unix_ns, counts)
    }

    fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    fn written(&self) -> Written {
        self.sink.written()
    }

    fn finish(&mut self, unix_ns: u64, counts: &[InterfaceCounts]) -> io::Result<()> {
        let counts = self.counts(counts);
        self.sink.finish(unix_ns, counts)
    }
}
