//! What the embedder asks of sessions: to open, send, close, give up, and that it has read.

use wirebeat_units::Nanos;

use super::{Open, Stack};
use crate::api::{Application, OpenError, Reason, SessionError, SessionId};
use crate::core::Fate;
use crate::profile::{Profile, Reading};
use crate::segment::{Flags, Outgoing};
use crate::tcb::{Marks, State, Tcb};

impl Stack {
    /// Opens a session: its SYN leaves with the next [`Stack::transmit`].
    ///
    /// # Errors
    /// When there is no room, or the addresses and ports are in use.
    pub fn connect(&mut self, now: Nanos, open: &Open) -> Result<SessionId, OpenError> {
        if usize::from(open.profile) >= self.core.profiles.len() {
            return Err(OpenError::Profile);
        }
        let tuple = &open.tuple;
        if tuple.local.is_ipv4() != tuple.remote.is_ipv4() {
            return Err(OpenError::Versions);
        }
        if self.sessions.is_full() {
            return Err(OpenError::Full);
        }
        let hash = self.core.hash(tuple);
        if self.find(hash, tuple).is_some() {
            return Err(OpenError::InUse);
        }
        let ends = self.acquire(tuple).ok_or(OpenError::Addresses)?;
        let is_v6 = tuple.local.is_ipv6();
        let iss = self.core.initial_seq(tuple, now);
        let mut tcb = Tcb {
            local: ends.0,
            remote: ends.1,
            local_port: tuple.local_port,
            remote_port: tuple.remote_port,
            state: State::SynSent,
            profile: open.profile,
            snd_una: iss,
            snd_nxt: iss,
            user: open.user,
            ..Tcb::CLOSED
        };
        tcb.set(Marks::SEND_SYN);
        if is_v6 {
            tcb.set(Marks::V6);
        }
        let Some(at) = self.sessions.insert(tcb) else {
            self.release(ends, is_v6);
            return Err(OpenError::Full);
        };
        if self.index.insert(hash, at).is_err() {
            self.sessions.remove(at);
            self.release(ends, is_v6);
            return Err(OpenError::Full);
        }
        self.core.counters.sessions.connects += 1;
        self.core.counters.enter(State::SynSent);
        self.core.ready.push(at);
        Ok(SessionId(at))
    }

    /// Offers `bytes` more bytes to be sent. They may be offered before the session is established.
    ///
    /// # Errors
    /// When there is no such session, or it was closed.
    pub fn send(&mut self, id: SessionId, bytes: u64) -> Result<(), SessionError> {
        self.offer(id, bytes, false)
    }

    /// As [`Stack::send`], and more follows before long: the end of these bytes is not pushed (RFC 9293 §3.9.1.2).
    ///
    /// # Errors
    /// When there is no such session, or it was closed.
    pub fn send_more(&mut self, id: SessionId, bytes: u64) -> Result<(), SessionError> {
        self.offer(id, bytes, true)
    }

    /// Asks for what is kept of a session: for an embedder that knows to whom it will send before long.
    #[inline]
    pub fn prefetch_session(&self, id: SessionId) {
        self.prefetch(id.0);
    }

    fn offer(&mut self, id: SessionId, bytes: u64, more: bool) -> Result<(), SessionError> {
        let tcb = self.sessions.get(id.0).ok_or(SessionError::Unknown)?;
        if tcb.has(Marks::CLOSED) {
            return Err(SessionError::Closed);
        }
        let tcb = self.sessions.plain(id.0).ok_or(SessionError::Unknown)?.tcb;
        match u32::try_from(bytes).ok().and_then(|bytes| tcb.queued.checked_add(bytes)) {
            Some(queued) => tcb.queued = queued,
            None => {
                let mut active = self.sessions.active(id.0).ok_or(SessionError::Unknown)?;
                active.flight.more = active.flight.more.saturating_add(bytes);
                active.dequeue(0);
            }
        }
        let tcb = self.sessions.get_mut(id.0).ok_or(SessionError::Unknown)?;
        tcb.clear(Marks::MORE);
        if more {
            tcb.set(Marks::MORE);
        }
        self.core.counters.bytes.offered = self.core.counters.bytes.offered.saturating_add(bytes);
        self.core.ready.push(id.0);
        Ok(())
    }

    /// Sends no more than what was offered: a FIN follows it. Data is still received until the peer closes. A session whose SYN was
    /// not answered yet ends at once, [`Reason::Aborted`].
    ///
    /// # Errors
    /// When there is no such session, or it was closed before.
    pub fn close<A: Application>(
        &mut self,
        now: Nanos,
        id: SessionId,
        app: &mut A,
    ) -> Result<(), SessionError> {
        let tcb = self.sessions.get_mut(id.0).ok_or(SessionError::Unknown)?;
        if tcb.has(Marks::CLOSED) {
            return Err(SessionError::Closed);
        }
        tcb.set(Marks::CLOSED);
        if tcb.state == State::SynSent {
            self.end(now, id.0, Fate::Close(Reason::Aborted), app);
        } else {
            self.core.ready.push(id.0);
        }
        Ok(())
    }

    /// As [`Stack::close`], and data that arrives from now on ends the session: the peer gets RST, since nobody is there to take it
    /// (RFC 9293 §3.10.4, RFC 1122 §4.2.2.13).
    ///
    /// # Errors
    /// When there is no such session.
    pub fn close_both<A: Application>(
        &mut self,
        now: Nanos,
        id: SessionId,
        app: &mut A,
    ) -> Result<(), SessionError> {
        let tcb = self.sessions.get_mut(id.0).ok_or(SessionError::Unknown)?;
        tcb.set(Marks::DEAF);
        // It may have been closed for sending before.
        let _ = self.close(now, id, app);
        Ok(())
    }

    /// Gives a session up: RST, if the peer knows of it (RFC 9293 §3.10.5).
    ///
    /// # Errors
    /// When there is no such session.
    pub fn abort<A: Application>(
        &mut self,
        now: Nanos,
        id: SessionId,
        app: &mut A,
    ) -> Result<(), SessionError> {
        let (tcb, _) = self.sessions.snapshot(id.0).ok_or(SessionError::Unknown)?;
        if tcb.state != State::SynSent {
            // RFC 7323 §3.2: a RST should have timestamps too where they were agreed on.
            let has_timestamps = tcb.has(Marks::TIMESTAMPS);
            let profile = *self.core.profile(tcb.profile);
            let reset = Outgoing {
                tuple: self.tuple_of(&tcb),
                seq: tcb.snd_nxt,
                ack: tcb.rcv_nxt,
                flags: Flags::RST.with(Flags::ACK),
                window: 0,
                options: self.core.timestamps(has_timestamps, tcb.ts_recent, now),
                payload_len: 0,
                tos: profile.packet_tos(),
                ttl: profile.ttl,
                identification: self.core.identification(),
                dont_fragment: profile.dont_fragment,
            };
            self.core.last_reply(reset, tcb.profile);
        }
        self.end(now, id.0, Fate::Close(Reason::Aborted), app);
        Ok(())
    }

    /// The embedder has taken `bytes` of what was delivered in order: there is room for more. Only with [`Reading::Manual`].
    ///
    /// # Errors
    /// When there is no such session.
    pub fn consume(&mut self, id: SessionId, bytes: u32) -> Result<(), SessionError> {
        let mut tcb = self.sessions.plain(id.0).ok_or(SessionError::Unknown)?;
        if self.core.profile(tcb.profile).reading == Reading::Manual {
            tcb.unread = tcb.unread.saturating_sub(bytes);
            if tcb.window_opens(&self.core) && tcb.state != State::SynSent {
                tcb.acks_owed = tcb.acks_owed.max(1);
                self.core.ready.push(id.0);
            }
        }
        if !self.core.ready.has(id.0) {
            self.sessions.rest(id.0);
        }
        Ok(())
    }

    /// Replaces a profile. Sessions that have it follow from now on; what they agreed on with their peers stays, and the shift of
    /// their windows, so that a window beyond what that shift can tell is cut.
    ///
    /// # Errors
    /// When there is no profile with this number.
    pub fn set_profile(&mut self, number: u8, profile: Profile) -> Result<(), OpenError> {
        self.core.acks.prepare(profile.delayed_ack);
        *self.core.profiles.get_mut(usize::from(number)).ok_or(OpenError::Profile)? = profile;
        Ok(())
    }

    /// Gives a session another profile, as [`Stack::set_profile`] does for all that share one.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn use_profile(&mut self, id: SessionId, number: u8) -> Result<(), SessionError> {
        self.sessions.get_mut(id.0).ok_or(SessionError::Unknown)?.profile = number;
        // Something may go now that had to wait.
        self.core.ready.push(id.0);
        Ok(())
    }

    /// Gives a session another word.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn set_user(&mut self, id: SessionId, user: u32) -> Result<(), SessionError> {
        self.sessions.get_mut(id.0).ok_or(SessionError::Unknown)?.user = user;
        Ok(())
    }
}
