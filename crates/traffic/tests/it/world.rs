//! Scenarios without a machine: links that do not exist, and the frames that would leave on them.

use std::path::{Path, PathBuf};

use wirebeat_traffic::compile::{Files, Link, Links, compile};
use wirebeat_traffic::program::{Cutter, Program};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::BitRate;
use wirebeat_wire::codec::Moment;

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Links of 10 Gb/s on which everything is made up, in the order of the ports.
pub fn imaginary_links(scenario: &Scenario) -> Links {
    let link = |number| Link { speed: Some(BitRate(10_000_000_000)), ..Link::imaginary(number) };
    Links { ports: scenario.ports.keys().cloned().zip((0..).map(link)).collect() }
}

/// A program of one flow with these keys, from port `a` to port `b`.
pub fn program(keys: &str) -> Program {
    program_from("", keys).unwrap_or_else(|error| panic!("{error}: {keys}"))
}

/// The same from a port with keys of its own; or why there is none.
pub fn program_from(port: &str, keys: &str) -> Result<Program, String> {
    let text = format!(
        "ports: {{ a: {{ {port} }}, b: {{}} }}\nflows:\n  x:\n    from: a\n    to: b\n    {keys}"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    compile(&scenario, &imaginary_links(&scenario), &Files::default())
        .map_err(|error| error.to_string())
}

/// When frame `n` leaves: a second apart, on 2026-11-20.
pub fn moment(n: u64) -> Moment {
    let unix_ns = (1_795_132_800 + n) * 1_000_000_000 + 123_456_789;
    Moment { monotonic_ns: 0x0102_0304_0506 + n, unix_ns }
}

/// The frames of the first `count` packets of a flow, as they leave.
pub fn frames(program: &Program, count: u64) -> Vec<Vec<u8>> {
    let image = program.streams[0].frames.frame();
    let mut cutter = Cutter::default();
    let mut frame = |n: u64, part: u16| {
        let mut frame = vec![0xa5; image.longest().size()];
        let built = cutter.build(&image, (0, n), part, &mut frame);
        assert!(built.len > 0, "frame {n} was not built");
        frame.truncate(built.len as usize);
        built.stamp(&mut frame, n as u32, moment(n));
        frame
    };
    let mut all = Vec::new();
    for n in 0..count {
        match image.parts(n) {
            1 => all.push(frame(n, 0)),
            parts => all.extend((1..=parts).map(|part| frame(n, part))),
        }
    }
    all
}
