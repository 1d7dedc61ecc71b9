//! What is done with all sessions: a group stops, a run ends. Bit by bit, so that the sessions which go on meanwhile are not kept waiting.

use wirebeat_units::Nanos;

use crate::conversations::{Conversations, Group};
use crate::misbehaviour::acts_by_time;
use crate::session::{End, Fate, Wait};
use crate::stack::{Action, SessionKey};

/// The most sessions that are looked at before others have their turn, when something is to be done with all of them.
const SWEPT_MAX: usize = 16_384;

/// How many sessions a run closes before the first of them have ended: what a receive ring of 16,384 packets takes of them at both ends.
const CLOSING_MAX: usize = 4_096;
/// Where none of them ends for so long, the network or the peer keeps them, and more are closed meanwhile.
const STILL: Nanos = Nanos::from_millis(10);

/// Something that is to be done with all sessions.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// With each of them.
    does: fn(&mut Conversations, Nanos, SessionKey),
    /// The one that is next.
    next: usize,
    /// Whether it closes them, which goes no faster than they end: what is closed all at once is lost at receive rings.
    closes: bool,
}

/// How many sessions the run is closing.
#[derive(Debug)]
pub(crate) struct Closing {
    /// Closed, and not ended yet.
    open: usize,
    /// The most that may be.
    most: usize,
    /// When some were closed or ended for the last time.
    moved: Nanos,
}

impl Default for Closing {
    fn default() -> Closing {
        Closing { open: 0, most: CLOSING_MAX, moved: Nanos::ZERO }
    }
}

impl Closing {
    /// How many more may be closed.
    fn room(&mut self, now: Nanos) -> usize {
        if now >= self.next() && self.open >= self.most {
            self.most += CLOSING_MAX;
        }
        let room = self.most.saturating_sub(self.open);
        if room > 0 {
            self.moved = now;
        }
        room
    }

    /// When more are closed, if none ends before.
    fn next(&self) -> Nanos {
        match self.open < self.most {
            true => Nanos::ZERO,
            false => self.moved.saturating_add(STILL),
        }
    }

    /// One that was closed by the run has ended.
    pub(crate) fn ended(&mut self, now: Nanos) {
        self.open = self.open.saturating_sub(1);
        self.moved = now;
    }
}

impl Conversations {
    /// Ends what goes on until the stop of its group, where that has come.
    pub fn end_endless(&mut self, now: Nanos) {
        self.sweeps.push_back(Sweep { does: Self::end_if_endless, next: 0, closes: false });
        self.sweep(now);
    }

    /// Goes on with what is to be done with all sessions, with as many as have no share of the time that others would miss.
    pub(crate) fn sweep(&mut self, now: Nanos) {
        let mut left = SWEPT_MAX;
        while let Some(Sweep { does, next, closes }) = self.sweeps.front_mut() {
            let (does, from) = (*does, *next);
            let many = if *closes { left.min(self.closing.room(now)) } else { left };
            let to = self.sessions.len().min(from.saturating_add(many));
            *next = to;
            let is_done = to == self.sessions.len();
            for key in from..to {
                does(self, now, SessionKey(key as u32));
            }
            left -= to - from;
            if !is_done {
                return;
            }
            self.sweeps.pop_front();
        }
    }

    /// When it goes on with what is to be done with all sessions.
    pub(crate) fn next_sweep(&self) -> Option<Nanos> {
        let sweep = self.sweeps.front()?;
        Some(if sweep.closes { self.closing.next() } else { Nanos::ZERO })
    }

    fn end_if_endless(&mut self, now: Nanos, key: SessionKey) {
        let Some(number) = self.sessions.side(key) else { return };
        let group = self.group_of.get(usize::from(number));
        let group = group.and_then(|&group| self.groups.get(usize::from(group)));
        if group.is_none_or(|group| group.stop > now) {
            return;
        }
        let side = self.sides.get(usize::from(number));
        let goes_on = match self.sessions.get_packed(key) {
            Some(packed) => packed.waits_for_stop(),
            None => self.sessions.get_whole(key).is_some_and(|session| match session.wait {
                Wait::Unlimited | Wait::Stop => true,
                // it pauses between two messages, or acts
                Wait::Time => side.is_some_and(|side| acts_by_time(session, side)),
                _ => false,
            }),
        };
        if goes_on {
            self.go_on(now, key);
        }
    }

    /// The run is over: all sessions that are open are closed in order, and counted as unfinished.
    pub fn close_all(&mut self, now: Nanos) {
        self.gates.end();
        self.stop_starts(now);
        self.closed = true;
        self.sweeps.push_back(Sweep { does: Self::close, next: 0, closes: true });
        self.sweep(now);
    }

    /// The run is over: as [`Conversations::close_all`], but servers whose clients are of this run leave it to those to close first
    /// ([`Conversations::awaits_clients`]).
    pub fn close_clients(&mut self, now: Nanos) {
        self.gates.end();
        // what these send without an end ends as their clients close
        self.stop_where(now, |group| group.client.is_some() || !group.is_left_by_clients());
        self.sweeps.push_back(Sweep { does: Self::close_client, next: 0, closes: true });
        self.sweep(now);
    }

    /// Closes a session in order, where it is not for the clients of this run to do that.
    fn close_client(&mut self, now: Nanos, key: SessionKey) {
        let Some(number) = self.sessions.side(key) else { return };
        let side = self.sides.get(usize::from(number));
        let is_left = self.group(key).is_some_and(Group::is_left_by_clients);
        if side.is_some_and(|side| side.end == End::Client) || !is_left {
            self.close(now, key);
        }
    }

    /// Closes a session in order.
    fn close(&mut self, now: Nanos, key: SessionKey) {
        // a time that it waited for is no end of its patience
        self.set_alarm(key, now.saturating_add(self.timeout(key)));
        let Some((session, side)) = self.both(key) else { return };
        // a server that answers each datagram by itself has nothing left to do
        let is_left_off = !side.answers_messages() && session.fate.is_none();
        if is_left_off {
            session.fate = Some(Fate::Unfinished);
        }
        session.out.cut();
        session.wait = Wait::End;
        match session.connection {
            Some(connection) if session.established => {
                if !std::mem::replace(&mut session.finished, true) {
                    self.actions.push_back(Action::Finish(connection));
                }
                self.closing.open += usize::from(is_left_off);
                self.actions.push_back(Action::Receive(connection));
            }
            Some(connection) => self.actions.push_back(Action::Abort(connection)),
            None => {}
        }
    }

    /// Some of those that are still open, from `from` on, are given up with RST. Where it goes on; `None`: that was all.
    pub fn abort_from(&mut self, from: usize) -> Option<usize> {
        self.sweeps.clear();
        let to = self.sessions.len().min(from.saturating_add(SWEPT_MAX));
        for key in (from..to).map(|key| SessionKey(key as u32)) {
            if let Some(session) = self.session(key) {
                session.fate.get_or_insert(Fate::Unfinished);
                let connection = session.connection;
                self.actions.extend(connection.map(Action::Abort));
            }
        }
        (to < self.sessions.len()).then_some(to)
    }
}
