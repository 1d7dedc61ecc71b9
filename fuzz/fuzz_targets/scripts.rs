//! Texts that may be taken for scripts of other tools, with what a caller may ask for beside them.

#![no_main]

use std::net::SocketAddr;
use std::num::NonZeroU64;

use libfuzzer_sys::fuzz_target;
use wirebeat_import::capture::{SessionFacts, TemplateFacts};
use wirebeat_import::{
    Dialect, MAX_BYTES, MAX_LEFT_OUT, NamedCapture, Options, Source, convert, recognise,
};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::scenario::session::Transport;
use wirebeat_units::Nanos;

/// Any name is that of a capture, which has what the name says by its bytes.
fn captured(name: &str) -> Result<NamedCapture, String> {
    let byte = |at: usize| name.as_bytes().get(at).copied().unwrap_or(b'a');
    let session = |number: u64| {
        let of = byte(number as usize);
        SessionFacts {
            number,
            transport: if of % 2 == 0 { Transport::Tcp } else { Transport::Udp },
            client: SocketAddr::from(([10, 0, 0, 1], 5000)),
            server: SocketAddr::from(([10, 0, 0, 2], u16::from(of))),
            lasted: Nanos::from_millis(of.into()),
            turns: vec![(true, 30), (false, of.into())],
            missing: u64::from(of == b'm'),
            is_from_the_start: of != b's',
            repeated: 0,
        }
    };
    let template = TemplateFacts {
        packets: (0..byte(0) % 8).map(|at| (at % 2 == 0, Nanos::from_micros(at.into()))).collect(),
        client_ports: u16::from(byte(1)),
        is_ipv6: byte(2) == b'6',
    };
    match byte(0) {
        b'!' => Err("there is no such file".to_owned()),
        of => Ok(NamedCapture {
            name: name.to_owned(),
            sessions: (1..=u64::from(of % 4)).map(session).collect(),
            template: if of == b'?' { Err("it is empty".to_owned()) } else { Ok(template) },
        }),
    }
}

/// What is asked for: of profiles with captures and of tests with two ports more than of the others.
fn options(dialect: Dialect) -> Vec<Options> {
    let usual = Options::default();
    let link = |name: &str| Some(name.to_owned());
    let linked = Options { interface: link("eth1"), to: link("eth2"), ..Options::default() };
    match dialect {
        Dialect::Trex => vec![
            Options { packets: true, ..usual.clone() },
            Options { packets: true, time: Some(Nanos::from_secs(1)), ..linked.clone() },
            Options { packets: true, interface: link("eth1"), ..usual.clone() },
            Options { multiply: NonZeroU64::new(u64::MAX), ..linked },
            usual,
        ],
        Dialect::Warp17 => {
            vec![Options { time: Some(Nanos::from_secs(1)), ..linked.clone() }, linked, usual]
        }
        _ => vec![usual],
    }
}

fuzz_target!(|text: &str| {
    // Whatever a script includes is there, and is the script.
    let read = |_: &str| Ok(text.as_bytes().to_vec());
    let source = Source { name: "fuzz", text, read: &read, sessions: &captured };
    let _ = recognise(text);
    for dialect in Dialect::ALL {
        for options in options(*dialect) {
            let Ok(converted) = convert(*dialect, &source, &options) else { continue };
            if let Err(problem) = converted.scenario.check() {
                panic!("{dialect}: {problem}");
            }
            assert!(converted.left_out.len() <= MAX_LEFT_OUT + 1);
            // What was written is what is read.
            let Ok(written) = converted.scenario.to_yaml() else {
                panic!("{dialect}: it is not written")
            };
            if written.len() < MAX_BYTES {
                match Scenario::from_yaml(&written, "fuzz") {
                    Ok(again) => assert_eq!(again, converted.scenario),
                    Err(problem) => panic!("{dialect}: {problem}"),
                }
            }
        }
    }
});
