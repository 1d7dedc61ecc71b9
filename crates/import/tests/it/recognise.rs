//! A scenario is never taken for a script.

use std::fs;
use std::path::Path;

use wirebeat_import::{Dialect, recognise};

#[test]
fn scenarios_are_not_scripts() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(recognise(&text), None, "{}", path.display());
        }
    }
    for text in [
        "",
        "\n\n# pgset \"start\"\n",
        "ports: { a: { interface: eth0 } }\npgset: 1\n",
        "---\nflows:\n  x: { from: a }\n  # 0 1 ON\n0 1 OFF\n",
        "{\"ports\": {}}",
        "\"ports\": {}\n-a 1",
        "seed: 7\n0.0 ON 1 UDP",
        "- a\n- b\n",
        "some text about 3 OFF days",
        "START 12:00:00\n",
    ] {
        assert_eq!(recognise(text), None, "{text}");
    }
}

#[test]
fn what_tells_the_dialects_apart() {
    for (text, dialect) in [
        ("START NOW\n0 1 ON 3001 10.0.0.2:10001 CONSTANT 1 100\n", Dialect::Rude),
        ("START NOW\n0.0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [1 100]\n", Dialect::Mgen),
        ("LISTEN UDP 5000\n", Dialect::Mgen),
        ("join 224.1.2.3\n", Dialect::Mgen),
        ("-a 10.0.0.2 -T UDP\n", Dialect::Ditg),
        ("#!/bin/sh\nmodprobe pktgen\nPGDEV=/proc/net/pktgen/kpktgend_0\n", Dialect::Pktgen),
        ("echo start > /proc/net/pktgen/pgctrl", Dialect::Pktgen),
        ("// a comment\nadd  tests l3_intf port 0 ip 10.0.0.1 mask 255.0.0.0\n", Dialect::Warp17),
        ("show tests ui\nset tests imix app-index 0 weight 10\n", Dialect::Warp17),
        ("sleep 1\necho start | sudo tee /proc/net/pktgen/pgctrl\n", Dialect::Pktgen),
    ] {
        assert_eq!(recognise(text), Some(dialect), "{text}");
    }
}

#[test]
fn dialects_have_names() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.name().parse(), Ok(*dialect));
    }
    let unknown = "iperf".parse::<Dialect>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "'iperf' is not a dialect of scripts; choose one of pktgen, rude, mgen, d-itg, t-rex, warp17"
    );
}
