//! What was captured from the real programs is read and written to the byte, and any bytes are read without harm.

use proptest::prelude::*;

use super::message::LEN_MAX;
use super::*;

/// `SEND_FLOW` of `ITGSend -a 127.0.0.1` (2.8.1), over UDP.
const SEND_FLOW: &[u8] =
    b"\x03\x02\x00\x01\x00\x04\x00\x00\x00\x01\x00noSerial\x00\x00\x27\x23\x7f\x00\x00\x01";

fn all() -> Vec<Message> {
    let request = FlowRequest {
        transport: Transport::Tcp,
        application: 2,
        meter: Meter::RoundTrip,
        ds: 184,
        flow: 7,
        payload: PayloadKind::Short,
        to: ("2001:db8::1".parse().unwrap(), 10_001),
    };
    let refused = |why| Message::Refused { why, flow: 0x0102_0304 };
    vec![
        Message::Connect,
        Message::AckConnect,
        Message::SendFlow(request),
        Message::SendFlow(FlowRequest { to: ("192.0.2.1".parse().unwrap(), 0), ..request }),
        Message::AckSendFlow { flow: 1, port: 8999 },
        refused(FlowFault::Bind),
        refused(FlowFault::Privilege),
        refused(FlowFault::Broken),
        Message::ClosedFlow(1),
        Message::AckClosedFlow(u32::MAX),
        Message::ClosedError(2),
        Message::Release,
        Message::AckRelease,
        Message::Discovery,
        Message::AckDiscovery,
        Message::SendFlowLog,
        Message::AckSendFlowLog,
        Message::SendNameLog,
        Message::AckSendNameLog,
        Message::LogRefused,
        Message::SenderDown,
    ]
}

#[test]
fn what_itgsend_sends_is_read_and_written_to_the_byte() {
    let (message, len) = Message::read(SEND_FLOW).unwrap().unwrap();
    let Message::SendFlow(request) = message else { panic!("{message:?}") };
    assert_eq!(len, SEND_FLOW.len());
    assert_eq!((request.transport, request.meter), (Transport::Udp, Meter::OneWay));
    assert_eq!((request.flow, request.payload), (1, PayloadKind::Standard));
    assert_eq!(request.to, ("127.0.0.1".parse().unwrap(), DATA_PORT));
    assert_eq!(message.to_bytes(), SEND_FLOW);
    let answer = Message::AckSendFlow { flow: 1, port: DATA_PORT };
    assert_eq!(answer.to_bytes(), [5, 0, 0, 0, 1, 0x23, 0x27]);
}

#[test]
fn messages_are_read_in_any_pieces() {
    let bytes: Vec<u8> = all().into_iter().flat_map(Message::to_bytes).collect();
    for piece in [1, 2, 7, 64, bytes.len()] {
        let mut inbox = Inbox::default();
        let mut read = Vec::new();
        for piece in bytes.chunks(piece) {
            inbox.add(piece);
            while let Some(message) = inbox.message().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, all(), "in pieces of {piece} B");
        assert!(inbox.is_empty());
    }
    assert!(all().into_iter().all(|message| message.to_bytes().len() <= LEN_MAX));
}

#[test]
fn what_nobody_knows_is_refused_as_soon_as_it_is_there() {
    for kind in [0, 10, 14, 23, b'G', 255] {
        assert_eq!(Message::read(&[kind]), Err(ControlError::Kind(kind)));
    }
    let broken = |at: usize| {
        let mut bytes = SEND_FLOW[..=at].to_vec();
        bytes[at] = 99;
        Message::read(&bytes)
    };
    for (at, what) in [(1, "protocol"), (3, "meter"), (5, "version of IP"), (10, "type of payload")]
    {
        assert_eq!(broken(at), Err(ControlError::Field { what, value: 99 }));
    }
    let family = Message::read(&[12, 0, 0, 0, 99]);
    assert_eq!(family, Err(ControlError::Field { what: "family of addresses", value: 99 }));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1..64_usize) {
        let mut inbox = Inbox::default();
        let mut taken = 0;
        for piece in bytes.chunks(piece) {
            inbox.add(piece);
            loop {
                let before = inbox.len();
                match inbox.message() {
                    Ok(Some(_)) => taken += before - inbox.len(),
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
                prop_assert!(inbox.len() < before);
            }
            prop_assert!(inbox.len() < LEN_MAX);
        }
        prop_assert_eq!(taken + inbox.len(), bytes.len());
    }

    #[test]
    fn what_is_read_is_written_as_it_was(kind in 0..24_u8, rest in proptest::collection::vec(0..7_u8, 0..300)) {
        let bytes = [vec![kind], rest].concat();
        if let Ok(Some((message, len))) = Message::read(&bytes) {
            let written = message.to_bytes();
            let again = Message::read(&written);
            prop_assert_eq!(again, Ok(Some((message, written.len()))));
            prop_assert!(len <= bytes.len());
        }
    }
}
