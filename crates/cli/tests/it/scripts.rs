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
