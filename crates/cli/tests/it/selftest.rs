//! `doctor --selftest`: its page, its JSON, and what it refuses.

use std::process::Command;

use serde_json::Value;
use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};

use crate::run;

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(done.success(), "ip {arguments}");
}

/// Both ends of a virtual cable, `wx0` and `wx1`, in one namespace, which is that of `work`.
fn with_cable<T: Send>(work: impl FnOnce(&Testbed) -> T + Send) -> T {
    let bed = Testbed::pair(&Cable::default()).unwrap();
    let laid = || {
        ip("link add wx0 type veth peer name wx1");
        ["wx0", "wx1"].iter().for_each(|name| ip(&format!("link set {name} up")));
        work(&bed)
    };
    bed.a.namespace.run(laid).unwrap()
}

#[test]
fn a_self_test_is_told_as_a_page_and_as_json() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Program("ip"));
    with_cable(|_| {
        let asked = ["doctor", "--selftest", "wx0", "--peer-interface", "wx1"];
        let text = run(&asked);
        assert_eq!(text.code, 0, "{text:?}");
        for part in [
            "Interfaces\n  wx0 ",
            "\nRuns with frames of 64 bytes\n",
            "  xdp zero-copy    refused: ",
            "received by AF_XDP, copy",
            "stamped by CLOCK_MONOTONIC",
            "\nResult\n  passed\n",
        ] {
            assert!(text.out.contains(part), "{part}: {}", text.out);
        }
        let found = run(&[&asked[..], &["--json"]].concat());
        assert_eq!(found.code, 0, "{found:?}");
        let found: Value = serde_json::from_str(&found.out).unwrap();
        assert_eq!((&found["schema_version"], &found["passed"]), (&"1".into(), &true.into()));
        assert_eq!(found["peer_interface"]["name"], "wx1");
        let trials = found["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 5, "{found:#}");
        assert!(trials[0]["ran"][0]["sent"].as_u64().unwrap() > 0, "{found:#}");
    });
}

#[test]
fn a_self_test_of_the_way_out_is_refused_with_the_flag_that_allows_it() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    with_cable(|bed| {
        ip(&format!("route add default via {}", bed.b.ipv4));
        let refused = run(&["doctor", "--selftest", bed.a.interface()]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        let told = &refused.err;
        assert!(told.contains("carries a default route of this host"), "{told}");
        assert!(told.contains("hint: ") && told.contains("--force"), "{told}");
    });
    for line in
        [&["doctor", "--force"][..], &["doctor", "--selftest", "wx0", "--peer-namespace", "b"]]
    {
        assert_eq!(run(line).code, 2, "{line:?}");
    }
}
