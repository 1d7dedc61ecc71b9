//! Other programs run inside a namespace, bounded and killed.

use std::time::{Duration, Instant};

use wirebeat_testbed::{Addressing, Capability, Options, ProcessError, Program, Testbed, require};

use crate::PATIENCE;

fn pair() -> Testbed {
    Testbed::pair(&Options { addressing: Addressing::V4, ..Options::default() }).unwrap()
}

#[test]
fn a_program_sees_the_namespace_and_its_output_comes_back() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    let testbed = pair();
    let script = "cat /proc/net/dev; echo complaint >&2; exit 7";
    let program = Program::new(&testbed.b.namespace, "sh").args(["-c", script]);
    let output = program.output(PATIENCE).unwrap();
    assert!(output.stdout.contains("wb1:") && !output.stdout.contains("wb0:"), "{}", output.stdout);
    assert_eq!((output.stderr.as_str(), output.status.code()), ("complaint\n", Some(7)));
    assert_eq!(output.discarded, 0);
}

#[test]
fn output_is_bounded_and_the_rest_is_counted() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    let testbed = pair();
    let program = Program::new(&testbed.a.namespace, "head").args(["-c", "300000", "/dev/zero"]);
    let output = program.output_limit(1000).output(PATIENCE).unwrap();
    assert!(output.status.success());
    assert_eq!((output.stdout.len(), output.discarded), (1000, 299_000));
}

#[test]
fn a_program_that_takes_too_long_is_killed_with_its_children() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    let testbed = pair();
    let program = Program::new(&testbed.a.namespace, "sh").args(["-c", "sleep 1000 & sleep 1000"]);
    // Its end is the end of both: each holds the output open, which is read to the end.
    let error = program.output(Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.to_string(), "'sh' did not end within 0.1 s");
}

#[test]
fn what_a_program_prints_can_be_waited_for_and_it_can_be_asked_to_end() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    let testbed = pair();
    let script = "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.05; done";
    let process = Program::new(&testbed.a.namespace, "sh").args(["-c", script]).spawn().unwrap();
    process.wait_for("up", PATIENCE).unwrap();
    process.interrupt();
    let output = process.wait(PATIENCE).unwrap();
    assert_eq!((output.stdout.as_str(), output.status.code()), ("up\nbye\n", Some(0)));

    let process = Program::new(&testbed.a.namespace, "echo").args(["other"]).spawn().unwrap();
    let error = process.wait_for("up", PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "'echo' did not print 'up'; it printed: other\n");
}

#[test]
fn a_missing_program_is_named() {
    require!(Capability::NetworkNamespaces);
    let testbed = pair();
    let error = Program::new(&testbed.a.namespace, "wirebeat-none").spawn().unwrap_err();
    assert!(matches!(&error, ProcessError::Missing(name) if name == "wirebeat-none"), "{error}");
}

#[test]
fn a_child_that_went_its_own_way_holds_nobody_up() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    let testbed = pair();
    // It leaves the group and keeps the output open for longer than anybody waits here.
    let script = "setsid sleep 20 & echo done";
    let begun = Instant::now();
    let output =
        Program::new(&testbed.a.namespace, "sh").args(["-c", script]).output(PATIENCE).unwrap();
    assert_eq!(output.stdout, "done\n");
    assert!(begun.elapsed() < PATIENCE);
}
