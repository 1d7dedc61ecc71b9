//! One netlink socket: a request goes out, its replies come back.
//!
//! Knows the netlink header, acknowledgements, multi-part dumps and the kernel's own words about an
//! error (RFC 3549 §2.3; extended acknowledgements, Linux ≥ 4.12). Knows nothing of what the
//! messages mean: a reply is its type and its bytes.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use wirebeat_units::{Fault, fault, into_fault};

use crate::attributes;

/// Room for one datagram. The kernel fills at most 32 KiB in a dump (`netlink_dump`); a single link
/// with hundreds of virtual functions can be longer.
const DATAGRAM_MAX: usize = 256 * 1024;
/// Bytes of a netlink header (RFC 3549 §2.3.2).
const HEADER_LEN: usize = 16;
/// `NLMSGERR_ATTR_MSG` of `linux/netlink.h`: the kernel's explanation.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Has a receiving call tell how long a datagram was, also where it did not fit.
pub(crate) const MSG_TRUNC: i32 = RecvFlags::TRUNC.bits() as i32;
/// How often a dump is begun again when the tables changed while it was read.
const DUMP_ATTEMPTS: usize = 16;

/// Why an exchange with the kernel failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// There is no netlink socket to be had.
    #[error("cannot open a netlink socket: {0}")]
    Open(#[source] io::Error),
    /// The socket failed while it was used.
    #[error("cannot {attempt}: the netlink socket failed: {source}")]
    Socket {
        /// What was attempted.
        attempt: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel said no.
    #[error("{}", self.fault())]
    Refused {
        /// What was attempted.
        attempt: String,
        /// The system's error.
        source: io::Error,
        /// The kernel's own explanation, where it gave one.
        detail: Option<String>,
    },
    /// The answer is not what the protocol promises.
    #[error("cannot {attempt}: the kernel's answer is not understood: {why}")]
    Malformed {
        /// What was attempted.
        attempt: String,
        /// What is wrong with the answer.
        why: String,
    },
}

impl NetlinkError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let NetlinkError::Refused { attempt, source, detail } = self else {
            return self.to_string().into();
        };
        let detail = detail.as_deref().map(|detail| format!(": {}", detail.trim_end_matches('.')));
        let fault = fault!("cannot {attempt}: {source}{}", detail.unwrap_or_default());
        match Errno::from_io_error(source) {
            Some(Errno::PERM | Errno::ACCESS) => {
                fault.or_hint("it needs CAP_NET_ADMIN (run as root)")
            }
            _ => fault,
        }
    }
}

into_fault!(NetlinkError);

impl NetlinkError {
    /// The error number with which the kernel refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            NetlinkError::Refused { source, .. } => Errno::from_io_error(source),
            _ => None,
        }
    }

    pub(crate) fn malformed(attempt: &str, why: impl Into<String>) -> Self {
        NetlinkError::Malformed { attempt: attempt.to_owned(), why: why.into() }
    }
}

/// A message that came back: its type and what follows the header.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
}

/// A netlink socket bound to the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Whether more replies are to be awaited.
enum Turn {
    More,
    Complete { interrupted: bool },
}

impl Channel {
    /// Opens a socket of `protocol`, one of `netlink_sys::protocols`.
    pub(crate) fn open(protocol: isize) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol).map_err(NetlinkError::Open)?;
        socket.bind_auto().map_err(NetlinkError::Open)?;
        // Better errors and filtered dumps; a kernel too old for them still answers.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_netlink_get_strict_chk(true);
        Ok(Channel { socket, sequence: 0, buffer: Vec::with_capacity(DATAGRAM_MAX) })
    }

    /// Sends `message` with `flags` beside `NLM_F_REQUEST` and returns what comes back, the
    /// acknowledgement left out. `attempt` completes the sentence "cannot …".
    pub(crate) fn request<M>(
        &mut self,
        attempt: &str,
        message: &M,
        flags: u16,
    ) -> Result<Vec<Reply>, NetlinkError>
    where
        M: NetlinkSerializable + Clone,
    {
        for _ in 0..DUMP_ATTEMPTS {
            self.sequence = self.sequence.wrapping_add(1);
            self.send(attempt, message, flags)?;
            let mut replies = Vec::new();
            if !self.collect(attempt, &mut replies)? {
                return Ok(replies);
            }
        }
        Err(NetlinkError::malformed(attempt, "the table kept changing while it was read"))
    }

    fn send<M>(&mut self, attempt: &str, message: &M, flags: u16) -> Result<(), NetlinkError>
    where
        M: NetlinkSerializable + Clone,
    {
        let mut header = NetlinkHeader::default();
        // A dump ends with NLMSG_DONE; everything else with the acknowledgement asked for here.
        let ack = if flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
        header.flags = NLM_F_REQUEST | ack | flags;
        header.sequence_number = self.sequence;
        let mut message =
            NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message.clone()));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket
            .send_to(&bytes, &SocketAddr::new(0, 0), 0)
            .map_err(|source| NetlinkError::Socket { attempt: attempt.to_owned(), source })?;
        Ok(())
    }

    /// Reads until the exchange is complete; says whether a dump was interrupted by a change.
    fn collect(&mut self, attempt: &str, replies: &mut Vec<Reply>) -> Result<bool, NetlinkError> {
        let mut interrupted = false;
        loop {
            self.receive(attempt)?;
            let mut at = 0;
            while at < self.buffer.len() {
                let rest = &self.buffer[at..];
                let message = NetlinkBuffer::new_checked(rest)
                    .map_err(|e| NetlinkError::malformed(attempt, e.to_string()))?;
                let length = message.length() as usize;
                if message.sequence_number() == self.sequence {
                    match take(attempt, &message, replies)? {
                        Turn::More => interrupted |= message.flags() & NLM_F_DUMP_INTR != 0,
                        Turn::Complete { interrupted: now } => return Ok(interrupted | now),
                    }
                }
                at += length.next_multiple_of(4);
            }
        }
    }

    /// Reads one datagram of the kernel into the buffer.
    fn receive(&mut self, attempt: &str) -> Result<(), NetlinkError> {
        loop {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, MSG_TRUNC) {
                Ok((length, _)) if length > self.buffer.len() => {
                    return Err(NetlinkError::malformed(attempt, "it is too long"));
                }
                // Only the kernel has port number 0; nobody else's messages count.
                Ok((_, from)) if from.port_number() != 0 => {}
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(NetlinkError::Socket { attempt: attempt.to_owned(), source });
                }
            }
        }
    }
}

/// Files one message under replies, or ends the exchange with it.
fn take(
    attempt: &str,
    message: &NetlinkBuffer<&[u8]>,
    replies: &mut Vec<Reply>,
) -> Result<Turn, NetlinkError> {
    let interrupted = message.flags() & NLM_F_DUMP_INTR != 0;
    match message.message_type() {
        NLMSG_NOOP => Ok(Turn::More),
        NLMSG_OVERRUN => Err(NetlinkError::malformed(attempt, "the kernel reports an overrun")),
        // The end of a dump carries an error number like an acknowledgement does; old kernels
        // leave it out.
        NLMSG_DONE if message.payload().len() < 4 => Ok(Turn::Complete { interrupted }),
        NLMSG_DONE | NLMSG_ERROR => {
            let payload = message.payload();
            let Some(code) = payload.first_chunk::<4>().map(|b| i32::from_ne_bytes(*b)) else {
                return Err(NetlinkError::malformed(attempt, "an acknowledgement without number"));
            };
            if code >= 0 {
                return Ok(Turn::Complete { interrupted });
            }
            Err(NetlinkError::Refused {
                attempt: attempt.to_owned(),
                source: io::Error::from_raw_os_error(code.saturating_neg()),
                detail: explanation(message.flags(), message.message_type(), payload),
            })
        }
        kind => {
            replies.push(Reply { kind, payload: message.payload().to_vec() });
            Ok(Turn::More)
        }
    }
}

/// The kernel's words in the attributes that follow an error: after the number for the end of a
/// dump, after the number and the request's header (and body, unless capped) otherwise.
fn explanation(flags: u16, kind: u16, payload: &[u8]) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let skip = if kind == NLMSG_DONE {
        4
    } else if flags & NLM_F_CAPPED != 0 {
        4 + HEADER_LEN
    } else {
        let echoed = u32::from_ne_bytes(*payload.get(4..)?.first_chunk()?);
        4usize.checked_add(echoed as usize)?.checked_next_multiple_of(4)?
    };
    let text = attributes::iter(payload.get(skip..)?)
        .find(|a| a.kind() == NLMSGERR_ATTR_MSG)
        .map(|a| attributes::text(a.value()))?;
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{DefaultNla, NLM_F_MULTIPART};
    use proptest::prelude::*;

    use super::*;

    /// What the kernel says, as it is laid out after a number and what it echoes.
    fn refused(flags: u16, kind: u16, echo: &[u8]) -> Vec<u8> {
        let words = DefaultNla::new(NLMSGERR_ATTR_MSG, b"Address already assigned.\0".to_vec());
        let mut payload = (-17i32).to_ne_bytes().to_vec();
        payload.extend_from_slice(echo);
        payload.extend(attributes::emit(&[words]));
        let mut message = Vec::new();
        message.extend_from_slice(&(HEADER_LEN as u32 + payload.len() as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend(payload);
        message
    }

    fn outcome(bytes: &[u8]) -> Result<Turn, NetlinkError> {
        let message = NetlinkBuffer::new_checked(bytes).unwrap();
        take("give wb0 an address", &message, &mut Vec::new())
    }

    #[test]
    fn the_kernels_own_words_are_found_however_it_echoes_the_request() {
        let header = |len: u32| [&len.to_ne_bytes()[..], &[0; 12]].concat();
        let whole = [header(24), vec![0; 8]].concat();
        let cases = [
            refused(NLM_F_ACK_TLVS | NLM_F_CAPPED, NLMSG_ERROR, &header(24)),
            refused(NLM_F_ACK_TLVS, NLMSG_ERROR, &whole),
            refused(NLM_F_ACK_TLVS | NLM_F_MULTIPART, NLMSG_DONE, &[]),
        ];
        for bytes in cases {
            let error = outcome(&bytes).err().unwrap();
            assert_eq!(error.errno(), Some(Errno::EXIST));
            assert_eq!(
                error.to_string(),
                "cannot give wb0 an address: File exists (os error 17): Address already assigned"
            );
        }
    }

    #[test]
    fn a_missing_privilege_is_named() {
        let mut bytes = refused(0, NLMSG_ERROR, &[0; 16]);
        bytes[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&(-1i32).to_ne_bytes());
        let error = outcome(&bytes).err().unwrap().to_string();
        assert!(error.ends_with("it needs CAP_NET_ADMIN (run as root)"), "{error}");
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]
        #[test]
        fn any_message_is_survived(
            kind in 0u16..5,
            flags in any::<u16>(),
            payload in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut bytes = refused(flags, kind, &[]);
            bytes.truncate(HEADER_LEN);
            bytes.extend(&payload);
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            let _ = outcome(&bytes);
        }
    }
}
