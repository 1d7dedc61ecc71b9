//! What is seen of a run while it lasts: a bar on a terminal, a line for each interval, or nothing.
//!
//! All of it goes to standard error; standard output is for results, and intervals as JSON are one.

use std::collections::VecDeque;

use indicatif::{ProgressBar, ProgressStyle};
use wirebeat_report::{json, text};
use wirebeat_run::{Interval, Observer, Progress, SessionProgress};
use wirebeat_units::{Nanos, human};

use crate::output::{tell, written};

/// The bar shows rates over a second: a shorter time makes them jump.
const BAR_WINDOW: Nanos = Nanos::from_secs(1);
/// From how long on it is said when the next frame is due.
const IDLE: Nanos = Nanos::from_secs(2);

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Nothing at all.
    Nothing,
    /// What it waits for, and no numbers.
    Notices,
    /// A line for every interval.
    Lines,
    /// A line of JSON for every interval, on standard output, with the number of its run where there are several.
    JsonLines(Option<usize>),
    /// A bar.
    Bar,
}

/// An observer that shows what it sees.
pub fn observer(show: Show) -> Box<dyn Observer> {
    match show {
        Show::Nothing => Box::new(wirebeat_run::Silent),
        Show::Notices => Box::new(Notices),
        Show::Lines => Box::new(Lines),
        Show::JsonLines(run) => Box::new(JsonLines { run }),
        Show::Bar => Box::new(Bar::new()),
    }
}

/// A line on standard error. If nobody reads it, nothing is lost.
fn say(line: &str) {
    tell(&format!("{line}\n"));
}

struct Notices;

impl Observer for Notices {
    fn progress(&mut self, _: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn notice(&mut self, message: &str) {
        say(message);
    }
}

struct JsonLines {
    run: Option<usize>,
}

impl Observer for JsonLines {
    fn progress(&mut self, _: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn interval(&mut self, interval: &Interval) {
        // where it cannot be written, the report cannot either, which is told
        let _ = written(json::interval(interval, self.run).as_bytes());
    }
}

struct Lines;

impl Observer for Lines {
    fn progress(&mut self, _: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn interval(&mut self, interval: &Interval) {
        say(&text::interval::row(interval));
    }

    fn notice(&mut self, message: &str) {
        say(message);
    }
}

struct Bar {
    bar: ProgressBar,
    pace: Pace,
}

impl Bar {
    fn new() -> Bar {
        // Milliseconds, frames, or nothing when neither end is known.
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Bar { bar, pace: Pace::new(BAR_WINDOW) }
    }
}

impl Observer for Bar {
    fn progress(&mut self, progress: &Progress) {
        if let Some((done, all)) = share(progress) {
            if self.bar.length() == Some(0)
                && let Ok(style) = ProgressStyle::with_template("[{bar:24}] {percent:>3} % {msg}")
            {
                self.bar.set_style(style.progress_chars("=> "));
            }
            self.bar.set_length(all.max(1));
            self.bar.set_position(done.min(all));
        }
        self.bar.set_message(self.pace.line(progress));
    }

    fn notice(&mut self, message: &str) {
        self.bar.suspend(|| say(message));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How much is done of how much, where that is known; of time and frames whichever is further.
fn share(progress: &Progress) -> Option<(u64, u64)> {
    let time = progress.duration.map(|all| (progress.elapsed.get(), all.get()));
    let done = progress.sent.or(progress.received).map_or(0, |(frames, _)| frames);
    let frames = progress.expected.map(|all| (done, all));
    let further = |a: (u64, u64), b: (u64, u64)| {
        u128::from(a.0) * u128::from(b.1) > u128::from(b.0) * u128::from(a.1)
    };
    match (time, frames) {
        (Some(time), Some(frames)) if further(frames, time) => Some(frames),
        (Some(time), _) => Some(time),
        (None, frames) => frames,
    }
}

/// What happened from one look to the next: rates, and frames that were received, lost and dropped.
#[derive(Debug)]
struct Pace {
    /// The time that is looked at, or the time since the last look where that is longer.
    window: Nanos,
    /// Looks within the window, and the one before it; never none.
    looks: VecDeque<Progress>,
}

impl Pace {
    fn new(window: Nanos) -> Pace {
        Pace { window, looks: VecDeque::from([Progress::default()]) }
    }

    /// The look that is compared with.
    fn since(&mut self, now: &Progress) -> Progress {
        // a receiver begins to measure for another sender
        if self.looks.back().is_some_and(|look| look.ended || look.elapsed > now.elapsed) {
            self.looks = VecDeque::from([Progress::default()]);
        }
        let begins = now.elapsed.saturating_sub(self.window);
        while self.looks.get(1).is_some_and(|look| look.elapsed <= begins) {
            self.looks.pop_front();
        }
        let since = self.looks.front().copied().unwrap_or_default();
        self.looks.push_back(*now);
        since
    }

    /// "  3.0 s  1.00 Mpps  512 Mbit/s  lost 10 (0.00100 %), total 50", and notes the look.
    fn line(&mut self, now: &Progress) -> String {
        let last = self.since(now);
        let seconds = now.elapsed.get() as f64 / 1e9;
        let gap = now.elapsed.get().saturating_sub(last.elapsed.get()) as f64 / 1e9;
        let per_second = |count: u64| if gap > 0.0 { count as f64 / gap } else { 0.0 };
        let mut line = format!("{seconds:5.1} s");
        let frames_since = |all: Option<(u64, u64)>, before: Option<(u64, u64)>| {
            let ((frames, bytes), before) = (all?, before.unwrap_or_default());
            Some((frames.saturating_sub(before.0), bytes.saturating_sub(before.1)))
        };
        let sent = frames_since(now.sent, last.sent);
        let received = frames_since(now.received, last.received);
        if let Some((frames, bytes)) = sent.or(received) {
            let bits = per_second(bytes) * 8.0;
            let frames = human::frame_rate(per_second(frames));
            line.push_str(&format!("  {frames}  {}", human::bit_rate(bits)));
        }
        match (now.sent, now.received) {
            (None, Some((all, _))) => line.push_str(&counted("received", received, all)),
            (Some((all, _)), None) => line.push_str(&counted("sent", sent, all)),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if let Some(all) = now.lost {
            let lost = all.saturating_sub(last.lost.unwrap_or(0));
            // of those that somebody knows to have been sent meanwhile
            let of = sent.or(received).map_or(0, |(frames, _)| frames);
            let of = match now.lost_of {
                // what was found lost may have been sent before the last look
                Some(known) => known.saturating_sub(last.lost_of.unwrap_or(0)).max(lost),
                None if sent.is_some() => of.max(lost),
                None => of.saturating_add(lost),
            };
            let share =
                if lost > 0 { format!(" ({})", human::share(lost, of)) } else { String::new() };
            let total =
                if all > lost { format!(", total {}", human::count(all)) } else { String::new() };
            line.push_str(&format!("  lost {}{share}{total}", human::count(lost)));
        }
        if now.failed > 0 {
            let since = now.failed.saturating_sub(last.failed);
            line.push_str(&counted("failed", Some((since, 0)), now.failed));
        }
        if now.expired > 0 {
            let since = now.expired.saturating_sub(last.expired);
            line.push_str(&counted("expired", Some((since, 0)), now.expired));
        }
        if let Some(sessions) = &now.sessions {
            let passed = now.elapsed.saturating_sub(last.elapsed);
            let last = last.sessions.unwrap_or_default();
            line.push_str(&self::sessions(sessions, &last, passed));
        }
        if let Some(next_in) = now.next_in.filter(|next_in| *next_in >= IDLE) {
            line.push_str(&format!("  next in {}", human::long_time(next_in.get())));
        }
        line
    }
}

type Counter = fn(&SessionProgress) -> u64;

/// "  opened 1,000/s  open 57  responses 9,990/s  82.0 Mbit/s  failed 3, total 5": what sessions did in the time since the last
/// look.
fn sessions(now: &SessionProgress, last: &SessionProgress, passed: Nanos) -> String {
    let since = |of: Counter| of(now).saturating_sub(of(last));
    let per_second = |of: Counter| text::interval::per_second(since(of), passed.get());
    let (opened, open) = (per_second(|of| of.opened), human::count(now.open));
    let mut line = format!("  opened {opened}  open {open}");
    if now.responses > 0 {
        line.push_str(&format!("  responses {}", per_second(|of| of.responses)));
    }
    if now.delivered_bytes > 0 {
        let bits = since(|of| of.delivered_bytes) as f64 * 8.0;
        let rate = if passed > Nanos::ZERO { bits / passed.as_secs_f64() } else { 0.0 };
        line.push_str(&format!("  {}", human::bit_rate(rate)));
    }
    let marks: [(&str, Counter); 2] = [("failed", |of| of.failed), ("expired", |of| of.expired)];
    for (word, of) in marks {
        if of(now) > 0 {
            line.push_str(&counted(word, Some((since(of), 0)), of(now)));
        }
    }
    line
}

/// "  sent 1,000, total 5,000": frames since the last look, and all of them.
fn counted(word: &str, since: Option<(u64, u64)>, all: u64) -> String {
    let since = since.map_or(0, |(frames, _)| frames);
    let total = if all > since { format!(", total {}", human::count(all)) } else { String::new() };
    format!("  {word} {}{total}", human::count(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: u64, sent: Option<u64>, received: Option<u64>) -> Progress {
        let bytes = |frames: u64| (frames, frames * 64);
        Progress {
            elapsed: Nanos::from_secs(seconds),
            sent: sent.map(bytes),
            received: received.map(bytes),
            ..Progress::default()
        }
    }

    #[test]
    fn a_line_has_the_rates_since_the_last() {
        let mut pace = Pace::new(Nanos::ZERO);
        pace.line(&look(1, Some(500_000), Some(499_000)));
        assert_eq!(
            pace.line(&Progress { lost: Some(0), ..look(3, Some(2_500_000), Some(2_499_000)) }),
            "  3.0 s  1.00 Mpps  512 Mbit/s  lost 0"
        );
    }

    /// Loss was only what was missing of all sent by the last look: 10 % showed after ten seconds.
    #[test]
    fn a_line_has_the_loss_since_the_last() {
        let mut pace = Pace::new(Nanos::ZERO);
        let mut lost = |second, received, lost| {
            let sent = Some(second * 1000);
            let line =
                pace.line(&Progress { lost: Some(lost), ..look(second, sent, Some(received)) });
            line.split_once("  lost ").unwrap().1.to_owned()
        };
        assert_eq!(lost(1, 900, 100), "100 (10.0 %)");
        assert_eq!(lost(2, 1700, 300), "200 (20.0 %), total 300");
        assert_eq!(lost(3, 2700, 300), "0, total 300");
        // one came very late
        assert_eq!(lost(4, 3701, 299), "0, total 299");
    }

    /// 36 % were lost all the time, and a line said 72 %: the receiver had not told of the interval before.
    #[test]
    fn the_share_of_loss_is_of_the_frames_that_were_looked_at() {
        let mut pace = Pace::new(Nanos::ZERO);
        let mut lost = |second: u64, lost, of| {
            let seen = look(second, Some(second * 1000), Some(of - lost));
            let line = pace.line(&Progress { lost: Some(lost), lost_of: Some(of), ..seen });
            line.split_once("  lost ").unwrap().1.to_owned()
        };
        assert_eq!(lost(1, 360, 1000), "360 (36.0 %)");
        assert_eq!(lost(2, 360, 1000), "0, total 360");
        assert_eq!(lost(3, 1080, 3000), "720 (36.0 %), total 1,080");
    }

    #[test]
    fn frames_that_the_device_refused_have_a_word() {
        let line = Pace::new(Nanos::ZERO).line(&Progress { failed: 7, ..look(1, Some(1), None) });
        assert!(line.ends_with("  failed 7"), "{line}");
    }

    #[test]
    fn another_sender_begins_anew() {
        let mut pace = Pace::new(Nanos::ZERO);
        pace.line(&Progress { ended: true, ..look(9, None, Some(500)) });
        let line = pace.line(&look(1, None, Some(100)));
        assert_eq!(line, "  1.0 s  100 pps  51.2 kbit/s  received 100");
    }

    #[test]
    fn a_receiver_by_itself_knows_the_share_of_what_was_lost() {
        let mut pace = Pace::new(Nanos::ZERO);
        let seen = |second, received, lost| Progress {
            lost: Some(lost),
            ..look(second, None, Some(received))
        };
        let line = pace.line(&seen(1, 900, 100));
        assert_eq!(line, "  1.0 s  900 pps  461 kbit/s  received 900  lost 100 (10.0 %)");
        let line = pace.line(&seen(2, 1900, 100));
        assert_eq!(
            line,
            "  2.0 s  1.00 kpps  512 kbit/s  received 1,000, total 1,900  lost 0, total 100"
        );
    }

    #[test]
    fn rates_are_over_the_window() {
        let mut pace = Pace::new(Nanos::from_secs(2));
        let mut rate = |second, sent| {
            let line = pace.line(&look(second, Some(sent), None));
            line.split("  ").nth(2).unwrap().to_owned()
        };
        assert_eq!(rate(1, 1000), "1.00 kpps");
        assert_eq!(rate(2, 2000), "1.00 kpps");
        assert_eq!(rate(3, 5000), "2.00 kpps");
        assert_eq!(rate(9, 5000), "0 pps");
    }

    #[test]
    fn each_end_says_what_it_knows() {
        let line = |progress| Pace::new(Nanos::ZERO).line(&progress);
        assert_eq!(line(look(1, None, Some(100))), "  1.0 s  100 pps  51.2 kbit/s  received 100");
        assert_eq!(line(look(1, Some(1), None)), "  1.0 s  1 pps  512 bit/s  sent 1");
        assert_eq!(line(look(0, None, None)), "  0.0 s");
        let late = Progress { expired: 7, ..look(1, Some(1), None) };
        assert!(line(late).ends_with("  expired 7"));
        let idle = Progress { next_in: Some(Nanos::from_secs(7201)), ..look(1, Some(1), None) };
        assert!(line(idle).ends_with("  sent 1  next in 2 h"));
    }

    #[test]
    fn a_line_says_what_sessions_did_since_the_last() {
        let mut pace = Pace::new(Nanos::ZERO);
        let mut line = |second, sessions| {
            pace.line(&Progress { sessions: Some(sessions), ..look(second, None, None) })
        };
        let first = SessionProgress { due: Some(500), opened: 500, open: 9, ..Default::default() };
        assert_eq!(line(1, first), "  1.0 s  opened 500/s  open 9");
        let second = SessionProgress {
            due: Some(2510),
            opened: 2500,
            open: 57,
            failed: 3,
            expired: 10,
            responses: 19_980,
            delivered_bytes: 20_500_000,
            ..first
        };
        assert_eq!(
            line(3, second),
            "  3.0 s  opened 1,000/s  open 57  responses 9,990/s  82.0 Mbit/s  failed 3  expired 10"
        );
        let third = SessionProgress { failed: 5, ..second };
        assert_eq!(
            line(4, third),
            "  4.0 s  opened 0/s  open 57  responses 0/s  0 bit/s  failed 2, total 5  expired 0, total 10"
        );
    }

    #[test]
    fn the_bar_follows_what_ends_first() {
        let progress = Progress {
            duration: Some(Nanos::from_secs(10)),
            expected: Some(100),
            ..look(2, Some(50), None)
        };
        assert_eq!(share(&progress), Some((50, 100)));
        let timed = Progress { expected: None, ..progress };
        assert_eq!(share(&timed), Some((2_000_000_000, 10_000_000_000)));
        assert_eq!(share(&look(2, Some(50), None)), None);
    }
}
