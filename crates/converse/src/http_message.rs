//! One message of HTTP that a step waits for: the rest of the conversation is written out.

use wirebeat_http::{
    Bad, Limits, RequestEvent, RequestKind, RequestReader, ResponseEvent, ResponseReader,
};
use wirebeat_traffic::program::script::{HttpMessage, Op};
use wirebeat_units::Nanos;

use crate::conversations::Conversations;
use crate::http::{FIRST_ERROR, INTERIM_MAX};
use crate::reading::Taken;
use crate::session::{End, Fate, Protocol, Session, Side};
use crate::stack::{Action, SessionKey};

/// Where it stands.
#[derive(Debug)]
pub(crate) enum HttpMessageState {
    /// A response, its status, and how many interim ones came before it.
    Response(ResponseReader, u16, u32),
    /// A request.
    Request(RequestReader),
}

/// What came of bytes.
enum Read {
    /// Nothing that ends it.
    On,
    /// More have to come.
    More,
    /// The client waits for 100 (Continue).
    AwaitsContinue,
    /// It is whole, with so many bytes of content.
    Whole(u64),
}

impl HttpMessageState {
    /// Before its first byte.
    pub(crate) fn new(end: End) -> HttpMessageState {
        match end {
            End::Client => HttpMessageState::Response(ResponseReader::new(), 0, 0),
            End::Server => HttpMessageState::Request(RequestReader::new()),
        }
    }

    fn read(&mut self, op: HttpMessage, bytes: &mut &[u8]) -> Result<Read, Bad> {
        Ok(match self {
            HttpMessageState::Response(reader, status, interim) => {
                let kind = if op.head { RequestKind::Head } else { RequestKind::Other };
                match reader.read(Some(kind), bytes)? {
                    None => Read::More,
                    Some(ResponseEvent::Interim { .. }) => {
                        *interim += 1;
                        if *interim > INTERIM_MAX {
                            return Err(Bad::Unsolicited);
                        }
                        Read::On
                    }
                    Some(ResponseEvent::Head(head)) => {
                        *status = head.status;
                        Read::On
                    }
                    Some(ResponseEvent::Body(_)) => Read::On,
                    Some(ResponseEvent::End(end)) => Read::Whole(end.body_len),
                }
            }
            HttpMessageState::Request(reader) => {
                match reader.read(&Limits::default(), bytes, |_| ())? {
                    None => Read::More,
                    Some(RequestEvent::Head(head)) if head.expects_continue => Read::AwaitsContinue,
                    Some(RequestEvent::Head(_) | RequestEvent::Body(_)) => Read::On,
                    Some(RequestEvent::End(end)) => Read::Whole(end.body_len),
                }
            }
        })
    }

    /// The peer closed its side: the length of the content that ended so.
    fn finish(&mut self) -> Option<u64> {
        let end = match self {
            HttpMessageState::Response(reader, ..) => reader.finish(),
            HttpMessageState::Request(reader) => reader.finish(),
        };
        end.ok().flatten().map(|end| end.body_len)
    }
}

/// The op, where the session stands at one.
fn op_of(session: &Session, side: &Side) -> Option<HttpMessage> {
    match side.script.ops.get(usize::from(session.pc)) {
        Some(Op::ReceiveHttp(op)) => Some(*op),
        _ => None,
    }
}

impl Conversations {
    /// Bytes of the message, and perhaps of what follows it.
    pub(crate) fn take_http_message(&mut self, key: SessionKey, bytes: &[u8]) -> Taken {
        let mut rest = bytes;
        loop {
            let Some((session, side)) = self.both(key) else { return Taken::All };
            let Some(op) = op_of(session, side) else { return Taken::All };
            let Protocol::HttpMessage(message) = &mut session.protocol else { return Taken::All };
            match message.read(op, &mut rest) {
                Ok(Read::On) => {}
                Ok(Read::More) => return Taken::All,
                Ok(Read::AwaitsContinue) => {
                    let n = session.draw();
                    side.meter.counts.offered_bytes += session.out.add(&side.script, op.go_on, n);
                    let connection = session.connection;
                    self.actions.extend(connection.map(Action::Send));
                }
                Ok(Read::Whole(content)) => {
                    whole(session, side, op, content);
                    return Taken::Whole(bytes.len() - rest.len());
                }
                Err(_) => return Taken::Malformed,
            }
        }
    }

    /// The peer closed its side while a message was waited for.
    pub(crate) fn http_message_ended_by_close(&mut self, now: Nanos, key: SessionKey) {
        let Some((session, side)) = self.both(key) else { return };
        let Some(op) = op_of(session, side) else { return };
        let Protocol::HttpMessage(message) = &mut session.protocol else { return };
        let Some(content) = message.finish() else {
            return self.give_up(now, key, Fate::ClosedEarly);
        };
        whole(session, side, op, content);
        self.go_on(now, key);
    }
}

/// The message is whole, with so many bytes of content.
fn whole(session: &mut Session, side: &mut Side, op: HttpMessage, content: u64) {
    let Protocol::HttpMessage(message) = std::mem::take(&mut session.protocol) else { return };
    let mut is_right = op.expect_size.is_none_or(|size| size == content);
    if let HttpMessageState::Response(_, status, _) = *message {
        is_right &= match op.expect_status {
            Some(expected) => status == expected,
            None => status < FIRST_ERROR,
        };
        side.meter.status(status);
    }
    side.meter.counts.unexpected += u64::from(!is_right);
    side.note_unmarked();
}
