use proptest::prelude::*;

use super::datagram::{Counter, HELLO, HELLO_REPLY, Header, hello_reply, is_hello_reply};
use super::*;

/// What iperf3 3.12 sent, captured.
const CAPTURED: &str = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"len":131072,"bandwidth":1000000,"pacing_timer":1000,"get_server_output":1,"client_version":"3.12"}"#;

#[test]
fn the_parameters_of_iperf3_are_read() {
    let parameters = Parameters::read(CAPTURED.as_bytes()).unwrap();
    assert!(parameters.tcp && !parameters.udp && parameters.get_server_output);
    assert_eq!((parameters.time, parameters.parallel, parameters.len), (1, 2, 131_072));
    assert_eq!(parameters.bandwidth, 1_000_000);
    assert_eq!(parameters.client_version.as_deref(), Some("3.12"));
    assert_eq!(parameters.to_json(), CAPTURED);
}

#[test]
fn numbers_and_flags_are_read_as_every_version_writes_them() {
    let text = r#"{"udp":1,"reverse":true,"bidirectional":0,"time":1e1,"new":[{"a":[1,2]}],"parallel":3.0,"TOS":16,"sctp":null}"#;
    let parameters = Parameters::read(text.as_bytes()).unwrap();
    assert!(parameters.udp && parameters.reverse && !parameters.bidirectional && !parameters.sctp);
    assert_eq!((parameters.time, parameters.parallel, parameters.tos), (10, 3, 16));
    for bad in ["", "[]", "{", r#"{"time":"1"}"#, r#"{"title":1}"#, r#"{"time":1,"time":2}"#] {
        let error = Parameters::read(bad.as_bytes()).unwrap_err();
        assert!(matches!(error, ControlError::Json { .. }), "{bad}: {error}");
    }
}

#[test]
fn results_are_read_as_iperf3_writes_them() {
    // iperf3 3.12 as a server, captured, shortened
    let text = r#"{"cpu_util_total":0.017240863837038958,"cpu_util_user":0.017240863837038958,"cpu_util_system":0,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","server_output_text":"Accepted\n","streams":[{"id":1,"bytes":131072,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.000205},{"id":3,"bytes":1.8e19,"retransmits":7,"jitter":0.5,"errors":1,"omitted_errors":2,"packets":3,"omitted_packets":4}]}"#;
    let results = Results::read(text.as_bytes()).unwrap();
    assert_eq!(results.has_retransmits, None);
    assert_eq!(results.output, Some(PeerOutput::Text("Accepted\n".to_owned())));
    let [first, second] = results.streams[..] else { panic!("{results:?}") };
    assert_eq!((first.id, first.bytes, first.retransmits), (1, 131_072, None));
    assert_eq!((first.end_time, first.omitted_packets), (1.000_205, None));
    assert_eq!((second.retransmits, second.omitted_errors), (Some(7), Some(2)));
    assert_eq!(second.bytes, i64::MAX as u64);
}

#[test]
fn results_survive_writing_and_reading() {
    let stream = StreamResults {
        id: 3,
        bytes: 1 << 50,
        retransmits: Some(12),
        jitter: 0.25,
        errors: 4,
        omitted_errors: Some(1),
        packets: 100,
        omitted_packets: Some(7),
        start_time: 0.0,
        end_time: 1.5,
    };
    for output in
        [None, Some(PeerOutput::Text("a\nb".into())), Some(PeerOutput::Json("{\"a\":[1]}".into()))]
    {
        let results = Results {
            cpu_total: 12.5,
            has_retransmits: Some(true),
            congestion_used: Some("cubic".to_owned()),
            output,
            streams: vec![stream, StreamResults { retransmits: None, ..stream }],
            ..Results::default()
        };
        assert_eq!(Results::read(results.to_json().as_bytes()).unwrap(), results);
    }
}

#[test]
fn more_streams_than_a_test_can_have_are_refused() {
    let stream = r#"{"id":1,"bytes":1,"retransmits":0,"jitter":0,"errors":0,"packets":0}"#;
    let text = |count: usize| {
        format!(
            r#"{{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,"streams":[{}]}}"#,
            vec![stream; count].join(",")
        )
    };
    assert_eq!(Results::read(text(256).as_bytes()).unwrap().streams.len(), 256);
    let error = Results::read(text(257).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("at most 256"), "{error}");
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Parameters::read(deep.as_bytes()).is_err());
    let deep = format!("{{\"server_output_json\":{}", "[".repeat(100_000));
    assert!(Results::read(deep.as_bytes()).is_err());
    // brackets in text are none
    let text = format!("{{\"title\":\"\\\"{}\"}}", "[".repeat(1000));
    assert_eq!(Parameters::read(text.as_bytes()).unwrap().title.unwrap().len(), 1001);
}

#[test]
fn a_message_is_taken_when_it_is_complete_and_not_before() {
    let mut inbox = Inbox::default();
    let wire = message("{\"a\":1}");
    for byte in &wire {
        assert_eq!(inbox.message(100).unwrap(), None);
        inbox.add(&[*byte]);
    }
    inbox.add(&[State::DisplayResults.byte()]);
    assert_eq!(inbox.message(100).unwrap().unwrap(), b"{\"a\":1}");
    assert_eq!(inbox.state().unwrap(), Some(State::DisplayResults));
    assert!(inbox.is_empty());
    inbox.add(&u32::MAX.to_be_bytes());
    let error = inbox.message(100).unwrap_err();
    assert_eq!(error, ControlError::TooLong { announced: u32::MAX.into(), limit: 100 });
}

#[test]
fn states_have_the_numbers_of_iperf3() {
    assert_eq!(State::read(0xff), Ok(State::AccessDenied));
    assert_eq!(State::read(0xfe), Ok(State::ServerError));
    assert_eq!(State::read(9), Ok(State::ParamExchange));
    assert_eq!(State::read(0), Err(ControlError::State(0)));
    let known = (0..=255).filter(|byte| State::read(*byte).is_ok_and(|s| s.byte() == *byte));
    assert_eq!(known.count(), 13);
}

#[test]
fn cookies_are_those_of_iperf3() {
    let cookie = Cookie::from_random(std::array::from_fn(|at| at as u8 * 7));
    let bytes = *cookie.as_bytes();
    assert_eq!(bytes[36], 0);
    assert!(bytes[..36].iter().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(b)));
    assert_eq!(Cookie::read(bytes), Ok(cookie));
    let mut inbox = Inbox::default();
    inbox.add(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
    assert_eq!(inbox.cookie(), Err(ControlError::Cookie));
}

#[test]
fn hellos_of_both_orders_and_ages_are_answered() {
    assert_eq!(hello_reply(&HELLO), Some(HELLO_REPLY));
    assert_eq!(hello_reply(&HELLO_REPLY), Some(HELLO));
    assert_eq!(hello_reply(&123_456_789_u32.to_le_bytes()), Some(987_654_321_u32.to_le_bytes()));
    for reply in [HELLO, HELLO_REPLY, 987_654_321_u32.to_be_bytes()] {
        assert!(is_hello_reply(&reply));
    }
    assert_eq!(hello_reply(b"98765"), None);
    assert!(!is_hello_reply(b""));
}

#[test]
fn a_datagram_begins_as_captured() {
    // from iperf3 3.12
    let bytes = [0, 0, 2, 0x9d, 0, 7, 0x84, 0xc2, 0, 0, 0, 1, 0x54, 0x94];
    let header = Header::read(&bytes, Counter::Bits32).unwrap();
    assert_eq!(header.sequence, 1);
    assert_eq!(header.sent, wirebeat_units::Nanos::from_micros(669 * 1_000_000 + 492_738));
    let mut written = [0; 12];
    header.write(&mut written, Counter::Bits32);
    assert_eq!(written, bytes[..12]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = Parameters::read(&bytes);
        let _ = Results::read(&bytes);
        let _ = hello_reply(&bytes);
        let _ = Header::read(&bytes, Counter::Bits64);
        let mut inbox = Inbox::default();
        inbox.add(&bytes);
        while let Ok(Some(_)) = inbox.message(100) {}
        while let Ok(Some(_)) = inbox.state() {}
    }

    #[test]
    fn any_json_of_known_keys_is_read_or_refused(
        keys in proptest::collection::vec((
            prop_oneof![Just("tcp"), Just("time"), Just("title"), Just("parallel"), Just("streams"), Just("cpu_util_total"), Just("sender_has_retransmits")],
            prop_oneof![Just("1"), Just("-1e308"), Just("1e999"), Just("null"), Just("[]"), Just("[{}]"), Just("\"\\u0000\""), Just("18446744073709551616")],
        ), 0..8)
    ) {
        let members: Vec<String> = keys.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let text = format!("{{{}}}", members.join(","));
        let _ = Parameters::read(text.as_bytes());
        let _ = Results::read(text.as_bytes());
    }

    #[test]
    fn every_header_survives_writing_and_reading(micros in 0..u64::from(u32::MAX) * 1_000_000, sequence: u64) {
        let sent = wirebeat_units::Nanos::from_micros(micros);
        for (counter, sequence) in [(Counter::Bits32, sequence & 0xffff_ffff), (Counter::Bits64, sequence)] {
            let mut bytes = [0; 20];
            let header = Header { sent, sequence };
            header.write(&mut bytes, counter);
            prop_assert_eq!(Header::read(&bytes, counter), Some(header));
        }
    }

    #[test]
    fn parameters_survive_writing_and_reading(time: i64, parallel: i64, udp: bool, reverse: bool, title in proptest::option::of(".*")) {
        let parameters = Parameters { time, parallel, udp, reverse, title, get_server_output: udp, ..Parameters::default() };
        prop_assert_eq!(Parameters::read(parameters.to_json().as_bytes()).unwrap(), parameters);
    }
}
