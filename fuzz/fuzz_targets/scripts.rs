//! Texts that may be taken for scripts of other tools.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_import::{Dialect, MAX_BYTES, MAX_LEFT_OUT, Options, Source, convert, recognise};
use wirebeat_traffic::scenario::Scenario;

fuzz_target!(|text: &str| {
    // Whatever a script includes is there, and is the script.
    let read = |_: &str| Ok(text.as_bytes().to_vec());
    let source = Source { name: "fuzz", text, read: &read, sessions: &wirebeat_import::no_sessions };
    let _ = recognise(text);
    for dialect in Dialect::ALL {
        let Ok(converted) = convert(*dialect, &source, &Options::default()) else { continue };
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
});
