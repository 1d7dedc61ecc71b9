//! Scripts of other tools on the command line: what is said about them, and what they are given.

use super::{Scratch, run};

const SAMPLE: &str = "source ./functions.sh\nsource ./parameters.sh\npg_thread 0 \"add_device\" $DEV\n\
                      pg_set $DEV \"dst $DEST_IP\"\npg_set $DEV \"dst_mac $DST_MAC\"\npg_ctrl start\n";

/// Two of them ran together on one line.
#[test]
fn notices_on_standard_error_each_end_with_a_line_end() {
    let scratch = Scratch::new("notices");
    let script = "0 LISTEN UDP 5000\n0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100] TXBUFFER 9000\n1 OFF 1\n2 OFF 1\n";
    let path = scratch.file("flows.mgn", script.as_bytes());
    let ended = run(&["convert", &path]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let places: Vec<&str> = ended
        .err
        .lines()
        .map(|line| line.strip_prefix(path.as_str()).unwrap().split(": ").next().unwrap())
        .collect();
    assert_eq!(places, [":2", ":4", ":1"], "{}", ended.err);
    assert!(ended.err.ends_with('\n'));
}

#[test]
fn a_shell_script_for_pktgen_is_given_arguments_behind_two_dashes() {
    let scratch = Scratch::new("arguments");
    let path = scratch.file("sample.sh", SAMPLE.as_bytes());
    let mac = "02:00:00:00:00:07";
    let ended = run(&["convert", &path, "--", "-i", "eth1", "-d", "10.0.0.2", "-m", mac]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    for word in ["eth1", "10.0.0.2", mac] {
        assert!(ended.out.contains(word), "{}", ended.out);
    }
    let wrong = run(&["run", &path, "--", "-i", "eth1", "-z"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("'-z' is not an option of parameters.sh"), "{}", wrong.err);
    let scenario =
        scratch.file("scenario.yaml", b"ports: { a: {} }\nflows: { x: { from: a, to: a } }\n");
    let refused = run(&["run", &scenario, "--", "-i", "eth1"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("takes arguments"), "{}", refused.err);
}

/// A pcap with these frames of UDP over IPv4: when in milliseconds, whether the client sends it, and the server's port.
fn pcap_of(frames: &[(u32, bool, u16)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    for &(ms, by_client, port) in frames {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0]);
        let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let ends = if by_client { [client, server] } else { [server, client] };
        frame.extend(ends.concat());
        let ports = if by_client { [5000, port] } else { [port, 5000] };
        frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
        frame.extend([0, 26, 0, 0]);
        frame.extend([7; 18]);
        let len = frame.len() as u32;
        let head = [1_700_000_000, ms * 1000, len, len];
        bytes.extend(head.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(frame);
    }
    bytes
}

/// Known captures in a profile of known rates: the packets of each template are those of its captures, as often as it is played. T-Rex's
/// own profiles were counted against its simulator (docs/scripts.md).
#[test]
fn a_profile_of_t_rex_is_played_packet_by_packet() {
    let scratch = Scratch::new("packets");
    let asked = [(0, true, 53), (4, false, 53)];
    let stream: Vec<(u32, bool, u16)> = (0..5).map(|n| (n * 20, n != 3, 5004)).collect();
    for (name, content) in [
        ("asked.pcap", pcap_of(&asked)),
        ("stream.pcap", pcap_of(&stream)),
        ("one.pcap", pcap_of(&[(0, true, 9)])),
    ] {
        scratch.file(name, &content);
    }
    let template = |name: &str, keys: &str| format!("    - name: {name}\n{keys}");
    let plain = |cps: &str| {
        format!("      cps : {cps}\n      ipg : 10000\n      rtt : 10000\n      w : 1\n")
    };
    let profile = format!(
        "- duration : 2.0\n  generator :\n    distribution : \"seq\"\n    clients_start : \"16.0.0.1\"\n    clients_end : \"16.0.0.255\"\n    \
         servers_start : \"48.0.0.1\"\n    servers_end : \"48.0.255.255\"\n  cap_info :\n{}{}{}{}",
        template("asked.pcap", &plain("150.0")),
        template("stream.pcap", &format!("{}      cap_ipg : true\n", plain("7.5"))),
        template("one.pcap", &format!("{}      limit : 20\n", plain("100.0"))),
        template("asked.pcap", &format!("{}      limit : 10\n", plain("100.0"))),
    );
    let profile = scratch.file("profile.yaml", profile.as_bytes());
    let scenario = scratch.path("scenario.yaml");
    let converted = run(&["convert", "--packets", &profile, "--output", &scenario]);
    assert_eq!(converted.code, 0, "{}", converted.err);
    let report = scratch.path("report.json");
    let ended = run(&["run", &scenario, "--json", &report]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let copies: Vec<(&str, u64, u64)> = report["replays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|replay| {
            let number = |key: &str| replay[key].as_u64().unwrap();
            (replay["flow"].as_str().unwrap(), number("copies"), number("records"))
        })
        .collect();
    // ten of the last template in 100 ms, and again when the last of them has lasted 10 ms: 18 rounds and 2 in 2 s
    assert_eq!(
        copies,
        [
            ("asked-client", 300, 300),
            ("asked-server", 300, 300),
            ("stream-client", 15, 60),
            ("stream-server", 15, 15),
            ("one-client", 200, 200),
            ("asked-2-client", 182, 182),
            ("asked-2-server", 182, 182),
        ]
    );
    for flow in report["flows"].as_array().unwrap() {
        let (sent, received) =
            (&flow["sent"]["sent"]["frames"], &flow["received"]["received"]["frames"]);
        assert_eq!(sent, received, "{}", flow["name"]);
        assert_eq!(flow["loss"]["frames"], 0, "{}", flow["name"]);
    }
}
