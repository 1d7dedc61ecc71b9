//! Bytes that a peer of iperf3's wire, or of iperf 2's, may send.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_iperf::TestSpec;
use wirebeat_iperf::control::datagram::{Counter, Header, hello_reply};
use wirebeat_iperf::control::iperf2::Header as Header2;
use wirebeat_iperf::control::{Inbox, PARAMETERS_MAX, Parameters, RESULTS_MAX, Results};

fuzz_target!(|bytes: &[u8]| {
    // as a connection: a cookie, then states and messages in the order that the first bytes choose
    let mut inbox = Inbox::default();
    inbox.add(bytes);
    let _ = inbox.cookie();
    let mut message = true;
    loop {
        let before = inbox.len();
        let taken = match message {
            true => inbox.message(1000).is_ok_and(|message| message.is_some()),
            false => inbox.state().is_ok_and(|state| state.is_some()),
        };
        assert!(inbox.len() <= before);
        if !taken && inbox.error_numbers().is_none() {
            break;
        }
        message = !message;
    }
    let mut inbox = Inbox::default();
    inbox.add(bytes);
    if let Ok(Some(header)) = Header2::take(&mut inbox) {
        assert!(header.len <= bytes.len());
        let _ = header.to_bytes();
    }
    if bytes.len() <= PARAMETERS_MAX
        && let Ok(parameters) = Parameters::read(bytes)
    {
        assert_eq!(Parameters::read(parameters.to_json().as_bytes()).as_ref(), Ok(&parameters));
        if let Ok(spec) = TestSpec::from_parameters(&parameters) {
            assert_eq!(spec.check(), Ok(()));
        }
    }
    if bytes.len() <= RESULTS_MAX
        && let Ok(results) = Results::read(bytes)
    {
        let again = Results::read(results.to_json().as_bytes());
        assert!(again.is_ok_and(|again| again.streams.len() == results.streams.len()));
    }
    let _ = hello_reply(bytes);
    for counter in [Counter::Bits32, Counter::Bits64] {
        if let Some(header) = Header::read(bytes, counter) {
            let mut written = [0; 16];
            header.write(&mut written, counter);
            assert_eq!(Header::read(&written, counter).map(|h| h.sequence), Some(header.sequence));
        }
    }
});
