//! One session with TLS: what rustls has of it, and the bytes between the two streams.
//!
//! The program's stream is plaintext, the TCP's is ciphertext. Ciphertext that was made is kept until the TCP has taken it, for a TCP
//! of ours asks for bytes by their offset again. Plaintext is pulled while less than [`KEPT_MAX`] is kept, so no session holds more.

use std::collections::VecDeque;
use std::io::{BufRead, Write};

use rustls::{AlertDescription, CertificateError, Connection as Tls, Error, InvalidMessage};
use wirebeat_converse::stack::{Connection, ConnectionStats, TlsCause};

/// Ciphertext beyond which no more plaintext is pulled.
pub(crate) const KEPT_MAX: usize = 64 << 10;
/// How many bytes the TCP may hand over at a time.
pub(crate) const ROOM: usize = 64 << 10;
/// The most plaintext of a record (RFC 8446 §5.1).
pub(crate) const RECORD: usize = 16 << 10;
/// How much memory for ciphertext a session keeps while it has none.
const IDLE: usize = 4 << 10;
/// The longest reason that is told.
const WHY_MAX: usize = 200;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The handshake is under way.
    Handshake,
    /// Both ends may speak.
    Open,
    /// It failed: what comes is left aside.
    Failed,
}

/// Where a piece of plaintext ends in both streams.
#[derive(Clone, Copy, Debug)]
struct Piece {
    cipher_end: u64,
    plain_end: u64,
}

/// A session with TLS.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) connection: Connection,
    tls: Tls,
    pub(crate) phase: Phase,
    /// Ciphertext from `begin` on: that was made and not taken.
    kept: Vec<u8>,
    begin: usize,
    /// Where that begins in the TCP's stream.
    kept_from: u64,
    pieces: VecDeque<Piece>,
    /// Up to where plaintext was pulled, and was told to be taken.
    pub(crate) pulled: u64,
    taken: u64,
    /// Ciphertext that came and that there is no room for above.
    pub(crate) held: Vec<u8>,
    /// Plaintext in rustls that there is no room for above.
    pub(crate) backlog: usize,
    /// Whether pulling ended at what may be kept.
    pub(crate) more: bool,
    /// Whether the TCP is going to be told that there is more.
    pub(crate) offers: bool,
    /// The program has no more to send than what it has now; and the TCP was told so.
    pub(crate) finishing: bool,
    pub(crate) finished: bool,
    /// The peer said that it sends no more; TCP did; and the program was told.
    pub(crate) close_notified: bool,
    pub(crate) tcp_closed: bool,
    pub(crate) told_closed: bool,
    /// How much of the program was pulled when the peer closed, in either way.
    closed_at: Option<u64>,
}

impl Secured {
    pub(crate) fn new(connection: Connection, tls: Tls) -> Secured {
        let mut all = Secured {
            connection,
            tls,
            phase: Phase::Handshake,
            kept: Vec::new(),
            begin: 0,
            kept_from: 0,
            pieces: VecDeque::new(),
            pulled: 0,
            taken: 0,
            held: Vec::new(),
            backlog: 0,
            more: false,
            offers: false,
            finishing: false,
            finished: false,
            close_notified: false,
            closed_at: None,
            tcp_closed: false,
            told_closed: false,
        };
        all.keep();
        all
    }

    /// Ciphertext that is kept.
    fn kept(&self) -> &[u8] {
        self.kept.get(self.begin..).unwrap_or_default()
    }

    /// Bytes that it holds of both streams.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.kept.len() + self.held.len() + self.backlog
    }

    pub(crate) fn is_full(&self) -> bool {
        self.kept().len() >= KEPT_MAX
    }

    /// Up to where there is ciphertext.
    pub(crate) fn end(&self) -> u64 {
        self.kept_from.saturating_add(self.kept().len() as u64)
    }

    /// Ciphertext from `offset` on.
    pub(crate) fn from(&self, offset: u64) -> &[u8] {
        let at = offset.checked_sub(self.kept_from).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.kept().get(at..)).unwrap_or_default()
    }

    /// Takes in what rustls has to send. Whether there was any.
    pub(crate) fn keep(&mut self) -> bool {
        let before = self.kept.len();
        while self.tls.wants_write() {
            // into memory, which takes all
            if !matches!(self.tls.write_tls(&mut self.kept), Ok(1..)) {
                break;
            }
        }
        self.kept.len() > before
    }

    /// Encrypts what the program says next.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) {
        // there is room: all of what was written before is kept here
        let written = self.tls.writer().write(plain).unwrap_or(0);
        self.keep();
        self.pulled = self.pulled.saturating_add(written as u64);
        self.pieces.push_back(Piece { cipher_end: self.end(), plain_end: self.pulled });
    }

    /// Says to the peer that nothing follows. One that has said so itself, and was sent nothing since, may have left: it would answer
    /// with RST.
    pub(crate) fn close(&mut self) {
        if self.closed_at != Some(self.pulled) {
            self.tls.send_close_notify();
            self.keep();
        }
    }

    /// The peer closed TCP.
    pub(crate) fn close_tcp(&mut self) {
        self.tcp_closed = true;
        self.closed_at.get_or_insert(self.pulled);
    }

    /// The TCP has everything before `offset`. Up to where it has the program's stream.
    pub(crate) fn take(&mut self, offset: u64) -> u64 {
        let gone = offset.saturating_sub(self.kept_from).min(self.kept().len() as u64);
        self.kept_from = self.kept_from.saturating_add(gone);
        self.begin = self.begin.saturating_add(gone as usize);
        if self.begin >= self.kept.len() {
            self.begin = 0;
            self.kept.clear();
            if !self.more && self.kept.capacity() > IDLE {
                self.kept = Vec::new();
            }
        } else if self.begin >= KEPT_MAX / 2 {
            self.kept.drain(..self.begin);
            self.begin = 0;
        }
        while let Some(piece) = self.pieces.front().filter(|piece| piece.cipher_end <= offset) {
            self.taken = piece.plain_end;
            self.pieces.pop_front();
        }
        self.taken
    }

    /// What the TCP knows of its stream, as it is of the program's: at least so much.
    pub(crate) fn stats(&self, of: ConnectionStats) -> ConnectionStats {
        let around = self.end().saturating_sub(self.pulled);
        let sent = self.kept_from.saturating_add(of.in_flight);
        let sent = self.pieces.iter().take_while(|piece| piece.cipher_end <= sent).last();
        let sent = sent.map_or(self.taken, |piece| piece.plain_end);
        ConnectionStats {
            acked: of.acked.saturating_sub(around).min(sent),
            in_flight: sent.saturating_sub(self.taken),
            ..of
        }
    }

    /// Gives some ciphertext to rustls, from the beginning of `bytes`.
    pub(crate) fn decrypt(&mut self, bytes: &mut &[u8]) -> Result<(), Error> {
        match self.tls.read_tls(bytes) {
            // behind the closing alert nothing counts (RFC 8446 §6.1)
            Ok(0) => *bytes = &[],
            Ok(_) => {}
            Err(error) => return Err(Error::General(error.to_string())),
        }
        let state = self.tls.process_new_packets();
        // what came before an error is good
        self.backlog = match &state {
            Ok(state) => state.plaintext_bytes_to_read(),
            Err(_) => usize::MAX,
        };
        if state?.peer_has_closed() {
            self.close_notified = true;
            self.closed_at.get_or_insert(self.pulled);
        }
        Ok(())
    }

    /// Plaintext that came, and lies together.
    pub(crate) fn plaintext(&mut self, room: usize, give: impl FnOnce(&[u8])) -> bool {
        let mut reader = self.tls.reader();
        let taken = match reader.fill_buf() {
            Ok(bytes) => {
                let bytes = bytes.get(..room).unwrap_or(bytes);
                let taken = bytes.len();
                if taken > 0 {
                    give(bytes);
                }
                taken
            }
            // none, or the end of the connection
            Err(_) => 0,
        };
        reader.consume(taken);
        self.backlog = if taken == 0 { 0 } else { self.backlog.saturating_sub(taken) };
        taken > 0
    }

    /// Whether the handshake is completed.
    pub(crate) fn is_through(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether it resumed an earlier session, and the name of the cipher suite.
    pub(crate) fn how(&self) -> (bool, &'static str) {
        let resumed = self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        let suite = self.tls.negotiated_cipher_suite();
        (resumed, suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown"))
    }
}

/// Why TLS failed, and in words.
pub(crate) fn cause(error: &Error) -> (TlsCause, String) {
    let cause = match error {
        Error::AlertReceived(_) => TlsCause::Alert,
        Error::InvalidCertificate(_)
        | Error::NoCertificatesPresented
        | Error::UnsupportedNameType => TlsCause::Certificate,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsCause::Incompatible,
        _ => TlsCause::Malformed,
    };
    // some of it may be the peer's words
    let printable = |c: char| if c.is_control() { '?' } else { c };
    let mut why: String = error.to_string().chars().take(WHY_MAX).map(printable).collect();
    why += match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            " (name whom to trust in 'authority', or write 'verify: false')"
        }
        Error::AlertReceived(AlertDescription::UnknownCA) => " (it does not trust our certificate)",
        Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            " (it has none of our versions of TLS)"
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => " (that is not TLS)",
        _ => "",
    };
    (cause, why)
}
