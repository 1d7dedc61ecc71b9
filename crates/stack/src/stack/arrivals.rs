//! Packets that arrive: those of a batch are looked for together, each goes to its session, by the fast path where that is valid.

use wirebeat_units::Nanos;

use super::{AHEAD, BATCH, Kind, Stack};
use crate::api::{Application, Session, SessionId};
use crate::core::Context;
use crate::segment::{Checksum, Refused, Segment};
use crate::slab::NONE;
use crate::tick::Tick;

impl Stack {
    /// Takes one packet, which begins with its IP header.
    pub fn receive<A: Application>(
        &mut self,
        now: Nanos,
        packet: &[u8],
        checksum: Checksum,
        app: &mut A,
    ) {
        let hash = Segment::ends(packet).map(|ends| self.core.hash(&ends));
        let node = hash.and_then(|hash| self.index.find(hash, |_| true)).unwrap_or(NONE);
        if !self.receive_plain(now, (packet, checksum), node, app) {
            self.receive_any(now, (packet, checksum), hash, app);
        }
    }

    /// Takes one packet, of whose ends `hash` is the hash if it is known.
    #[inline(never)]
    fn receive_any<A: Application>(
        &mut self,
        now: Nanos,
        (packet, checksum): (&[u8], Checksum),
        hash: Option<u32>,
        app: &mut A,
    ) {
        if let Some(segment) = self.read(packet, checksum) {
            let hash = hash.unwrap_or_else(|| self.core.hash(&segment.tuple));
            self.segment(now, &segment, hash, app);
        }
    }

    /// Takes packets, each of which begins with its IP header. What the processor has to fetch for them is asked for while those before
    /// them are worked on: with many sessions that costs a fraction of one by one.
    pub fn receive_batch<A: Application>(
        &mut self,
        now: Nanos,
        packets: &[(&[u8], Checksum)],
        app: &mut A,
    ) {
        for batch in packets.chunks(BATCH) {
            let mut hashes = [None; BATCH];
            for (hash, (packet, _)) in hashes.iter_mut().zip(batch) {
                *hash = Segment::ends(packet).map(|ends| self.core.hash(&ends));
                if let Some(hash) = *hash {
                    self.index.prefetch(hash);
                }
            }
            let mut nodes = [NONE; BATCH];
            for at in 0..batch.len() + AHEAD {
                if let (Some(node), Some(Some(hash))) = (nodes.get_mut(at), hashes.get(at)) {
                    *node = self.index.find(*hash, |_| true).unwrap_or(NONE);
                    self.prefetch(*node);
                }
                if let Some(soon) = at.checked_sub(AHEAD / 2).and_then(|at| nodes.get(at)) {
                    self.prefetch_rest(*soon, app);
                }
                let Some(at) = at.checked_sub(AHEAD) else { continue };
                let (Some((packet, checksum)), Some(hash), Some(node)) =
                    (batch.get(at), hashes.get(at), nodes.get(at))
                else {
                    continue;
                };
                if !self.receive_plain(now, (packet, *checksum), *node, app) {
                    self.receive_any(now, (packet, *checksum), *hash, app);
                }
            }
        }
    }

    /// Takes a packet by the fast path, if it is one for it and `node` is its session; `false`, and nothing was done, where not.
    #[inline(always)]
    fn receive_plain<A: Application>(
        &mut self,
        now: Nanos,
        (packet, checksum): (&[u8], Checksum),
        node: u32,
        app: &mut A,
    ) -> bool {
        let Some(tcb) = self.sessions.get(node) else { return false };
        if !self.core.has_fast_path() {
            return false;
        }
        let Some(segment) = Segment::read_plain(packet, checksum) else { return false };
        if !tcb.is_at(&segment.tuple) {
            return false;
        }
        let session = Session { id: SessionId(node), user: tcb.user };
        let mut cx = Context { now, tick: Tick::at(now), session, node, app };
        // Where it is not taken here, the general path takes it, for the same session.
        let Some(mut tcb) = self.sessions.plain(node) else { return false };
        if !tcb.arrival_plain(&mut self.core, &mut cx, &segment) {
            return false;
        }
        #[cfg(test)]
        (self.core.plain[0] += 1);
        let arrivals = &mut self.core.counters.arrivals;
        arrivals.packets += 1;
        arrivals.unverified += u64::from(!segment.verified);
        // What it has to send or to wait for is seen to in its turn.
        self.core.ready.push(node);
        true
    }

    #[inline]
    fn read<'a>(&mut self, packet: &'a [u8], checksum: Checksum) -> Option<Segment<'a>> {
        let arrivals = &mut self.core.counters.arrivals;
        arrivals.packets += 1;
        match Segment::read(packet, checksum) {
            Ok(segment) => {
                arrivals.unverified += u64::from(!segment.verified);
                return Some(segment);
            }
            Err(Refused::Foreign) => arrivals.foreign += 1,
            Err(Refused::Malformed) => arrivals.malformed += 1,
            Err(Refused::Checksum) => arrivals.bad_checksum += 1,
        }
        None
    }

    #[inline]
    fn segment<A: Application>(
        &mut self,
        now: Nanos,
        segment: &Segment<'_>,
        hash: u32,
        app: &mut A,
    ) {
        match self.find(hash, &segment.tuple).map(|node| self.kind(node)) {
            Some(Kind::Session(at)) => self.with_session(now, at, app, |tcb, core, cx| {
                let fate = tcb.arrival(core, cx, segment);
                core.ready.push(cx.node);
                fate
            }),
            Some(Kind::HalfOpen(at)) => self.half_open_arrival(now, at, hash, segment, app),
            Some(Kind::TimeWait(at)) => self.time_wait_arrival(now, at, hash, segment, app),
            None => self.unknown(now, segment, hash, app),
        }
    }
}
