//! One who reads what a run counts, on a connection of the control socket.
//!
//! A line is sent as far as the reader takes it, and the next is taken from [`RunStats`] when all of it is gone: a reader that stops
//! holds up nobody, and at most one line waits for it.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use wirebeat_report::json;
use wirebeat_report::stats::StatsLine;

use super::stats::{Next, RunStats};

/// What is left to tell a reader.
#[derive(Debug)]
pub(super) struct Following {
    /// Its place in what is held.
    place: u64,
    /// Whether it is told what is still to come.
    follows: bool,
    line: Vec<u8>,
    /// How much of the line was sent.
    sent: usize,
    /// The line is the last.
    last: bool,
}

/// How far a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It has all that there is.
    Waits,
    /// It has not taken what was sent.
    Behind,
    /// It has all that there is ever going to be.
    Done,
}

impl Following {
    /// Of one who is told the `last` intervals, the total, and in between what follows, if it `follows`.
    pub(super) fn new(stats: &RunStats, last: u32, follows: bool) -> Following {
        let place = stats.last(last.into());
        Following { place, follows, line: Vec::new(), sent: 0, last: false }
    }

    /// Whether it is told what is still to come.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Sends what there is and the reader takes. One who asks for something else (`leaves`) is told the rest of a line alone.
    pub(super) fn advance(
        &mut self,
        stream: &UnixStream,
        stats: &RunStats,
        leaves: bool,
    ) -> io::Result<Reading> {
        loop {
            if !self.send(stream)? {
                return Ok(Reading::Behind);
            }
            if leaves || self.last {
                return Ok(Reading::Done);
            }
            let line = match stats.next(&mut self.place) {
                Next::Line(line) => line.as_bytes().to_vec(),
                Next::Missed(count) => json::stats_line(&StatsLine::Missed(count)).into_bytes(),
                Next::Nothing if self.follows => return Ok(Reading::Waits),
                Next::Nothing | Next::Over => {
                    self.last = true;
                    stats.total().into_bytes()
                }
            };
            (self.line, self.sent) = (line, 0);
        }
    }

    /// Sends what is left of the line, as far as that does not have to wait; whether all of it is sent.
    fn send(&mut self, stream: &UnixStream) -> io::Result<bool> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while let Some(rest) = self.line.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match send(stream, rest, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent = self.sent.saturating_add(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_reader_that_stops_holds_up_nobody_and_goes_on_with_whole_lines() {
        let stats = RunStats::default();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut following = Following::new(&stats, 0, true);
        assert_eq!(following.advance(&ours, &stats, false).unwrap(), Reading::Waits);
        let mut counted = 0;
        // until the socket has no more room, and then more than is held
        while following.advance(&ours, &stats, false).unwrap() == Reading::Waits {
            stats.count_for_test(counted);
            counted += 1;
        }
        for _ in 0..3000 {
            stats.count_for_test(counted);
            counted += 1;
        }
        assert_eq!(following.advance(&ours, &stats, false).unwrap(), Reading::Behind);
        stats.end();
        let reading = std::thread::spawn(move || {
            let lines = BufReader::new(theirs).lines();
            let line = |line: io::Result<String>| serde_json::from_str(&line.unwrap()).unwrap();
            lines.map(line).collect::<Vec<StatsLine>>()
        });
        while following.advance(&ours, &stats, false).unwrap() != Reading::Done {
            std::thread::yield_now();
        }
        drop(ours);
        let lines = reading.join().unwrap();
        let (mut told, mut missed) = (0, 0);
        for line in &lines {
            match line {
                StatsLine::Interval(interval) => {
                    assert_eq!(interval.from_ns, told + missed);
                    told += 1;
                }
                StatsLine::Missed(count) => missed += count,
                StatsLine::Total(total) => assert_eq!(total.expired, Some(counted)),
                StatsLine::Error(why) => panic!("{why}"),
            }
        }
        assert!(missed > 1000 && told + missed == counted, "{told} {missed} {counted}");
        assert!(matches!(lines.last(), Some(StatsLine::Total(_))));
    }

    #[test]
    fn one_who_asks_for_something_else_is_told_no_more() {
        let stats = RunStats::default();
        stats.count_for_test(0);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut following = Following::new(&stats, 1, true);
        assert_eq!(following.advance(&ours, &stats, true).unwrap(), Reading::Done);
        let mut following = Following::new(&stats, 1, false);
        assert!(!following.follows());
        assert_eq!(following.advance(&ours, &stats, false).unwrap(), Reading::Done);
        drop(ours);
        let lines: Vec<String> = BufReader::new(theirs).lines().map(Result::unwrap).collect();
        assert!(lines[0].starts_with(r#"{"interval""#) && lines[1].starts_with(r#"{"total""#));
        assert_eq!(lines.len(), 2);
    }
}
