//! Sessions of groups with TLS: what the layer below tells of it, and what follows. The handshake itself is below; here a session waits
//! for it, its time is taken, and its failures are counted.

use wirebeat_meter::session::SessionTime;
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::session::{Fate, Protocol, Wait};
use crate::stack::{SessionKey, TlsCause, TlsEvent};

impl Conversations {
    /// The connection is established, and TLS begins on it: the program speaks when that is through.
    pub(crate) fn await_handshake(&mut self, now: Nanos, key: SessionKey) {
        let Some(session) = self.session(key) else { return };
        // its time counts from here, and from as much before as the session was late
        let late = session.started.saturating_sub(session.planned);
        session.request = (now.saturating_sub(late), now);
        session.wait = Wait::Handshake;
        self.keep_patience(now, key);
    }

    pub(crate) fn tls_event(&mut self, now: Nanos, key: SessionKey, event: TlsEvent) {
        let timeout = self.timeout(key);
        let Some((session, side)) = self.both(key) else { return };
        let within = session.wait == Wait::Handshake;
        match event {
            TlsEvent::Completed { resumed, suite } => {
                side.meter.counts.handshakes += 1;
                side.meter.counts.handshakes_resumed += u64::from(resumed);
                side.meter.suite(suite);
                let (planned, actual) = session.request;
                side.meter.took(SessionTime::Handshake, planned, actual, now);
                session.active = now;
                // one that the run has closed meanwhile says nothing any more
                if within {
                    self.go_on(now, key);
                }
            }
            TlsEvent::Truncated => {
                side.meter.counts.tls_truncated += 1;
                // a response whose end nothing but the close says
                if let Protocol::HttpClient(http) = &session.protocol
                    && !http.reader.is_new()
                    && session.fate.is_none()
                {
                    self.give_up(now, key, Fate::ClosedEarly);
                }
            }
            TlsEvent::Failed(cause, why) => {
                if within {
                    let counts = &mut side.meter.counts;
                    *match cause {
                        TlsCause::Alert => &mut counts.handshakes_alert,
                        TlsCause::Certificate => &mut counts.handshakes_certificate,
                        TlsCause::Incompatible => &mut counts.handshakes_incompatible,
                        TlsCause::Malformed => &mut counts.handshakes_malformed,
                        TlsCause::Closed => &mut counts.handshakes_closed,
                    } += 1;
                }
                side.meter.tls_failure(why);
                session.fate.get_or_insert(match cause {
                    TlsCause::Alert | TlsCause::Certificate | TlsCause::Incompatible => {
                        Fate::TlsFailed
                    }
                    TlsCause::Malformed => Fate::Malformed,
                    TlsCause::Closed => Fate::ClosedEarly,
                });
                session.wait = Wait::End;
                session.out.cut();
                // the layer below closes
                session.finished = true;
                // and does not wait for long until its peer has
                session.lingers = true;
                session.active = now;
                let patience = session.patience(timeout);
                self.set_alarm(key, patience);
            }
        }
    }

    /// A handshake was not completed in time.
    pub(crate) fn handshake_timed_out(&mut self, key: SessionKey) {
        if let Some((_, side)) = self.both(key) {
            side.meter.counts.handshakes_timed_out += 1;
        }
    }
}
