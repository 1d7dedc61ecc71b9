//! ICMP errors: which session they are about, and whether they may be believed.

use wirebeat_units::Nanos;

use super::{Kind, Stack};
use crate::api::Application;
use crate::fault::Fault;
use crate::icmp::IcmpError;
use crate::segment::Refused;

impl Stack {
    /// Takes one packet with an ICMP or ICMPv6 message, which begins with its IP header. Errors about segments of sessions count;
    /// all else is counted and ignored.
    ///
    /// An error has to quote a number that is outstanding (RFC 5927 §4.1). Errors about a half-open session or one in TIME-WAIT
    /// change nothing: what those send is small and is repeated.
    pub fn receive_icmp<A: Application>(&mut self, now: Nanos, packet: &[u8], app: &mut A) {
        self.core.counters.icmp.packets += 1;
        let error = match IcmpError::read(packet) {
            Ok(error) => error,
            Err(refused) => {
                let icmp = &mut self.core.counters.icmp;
                *match refused {
                    Refused::Foreign => &mut icmp.foreign,
                    Refused::Malformed => &mut icmp.malformed,
                    Refused::Checksum => &mut icmp.bad_checksum,
                } += 1;
                return;
            }
        };
        let found = self.find(self.core.hash(&error.tuple), &error.tuple);
        let Some(Kind::Session(at)) = found.map(|node| self.kind(node)) else {
            self.core.counters.icmp.no_session += 1;
            return;
        };
        self.with_session(now, at, app, |tcb, core, cx| {
            let is_outstanding = error.seq.is_in(tcb.snd_una, tcb.outstanding());
            if !is_outstanding && !core.fault(Fault::AnyQuote) {
                core.counters.icmp.not_outstanding += 1;
                return crate::core::Fate::Keep;
            }
            tcb.icmp(core, cx.now, cx.node, &error)
        });
    }
}
