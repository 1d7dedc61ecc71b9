//! Bytes that a peer of D-ITG's signalling may send, and packets of its flows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_ditg::control::message::LEN_MAX;
use wirebeat_ditg::control::{Inbox, Message, PayloadKind, Transport};
use wirebeat_ditg::payload::{HEADER_MAX, Header, header_len};

fuzz_target!(|bytes: &[u8]| {
    // as a connection, in pieces of the length that the first byte says
    let piece = bytes.first().map_or(1, |byte| usize::from(*byte).max(1));
    let mut inbox = Inbox::default();
    'connection: for piece in bytes.chunks(piece) {
        inbox.add(piece);
        loop {
            let before = inbox.len();
            match inbox.message() {
                Ok(Some(message)) => {
                    assert!(inbox.len() < before);
                    let written = message.to_bytes();
                    assert_eq!(Message::read(&written), Ok(Some((message, written.len()))));
                }
                Ok(None) => break,
                Err(_) => break 'connection,
            }
        }
        assert!(inbox.len() < LEN_MAX);
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        for kind in [PayloadKind::Standard, PayloadKind::Short, PayloadKind::None] {
            let Some(header) = Header::read(bytes, transport, kind) else { continue };
            assert!(bytes.len() >= header_len(transport, kind));
            if kind == PayloadKind::Standard {
                let mut written = [0; HEADER_MAX];
                header.write(&mut written);
                assert_eq!(Header::read(&written, transport, kind), Some(header));
            }
        }
    }
});
