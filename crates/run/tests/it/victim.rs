//! A run that is killed: it is in a process of its own, this same program, which runs [`victim`].

use std::env;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use wirebeat_netlink::Namespace;
use wirebeat_run::{Observer, Options, Progress, Stop, prepare};
use wirebeat_testbed::{End, Process, Program, Testbed};
use wirebeat_traffic::scenario::Scenario;

/// Where the victim finds its namespaces, paths with a comma, and its scenario.
const NAMESPACES: &str = "WIREBEAT_TEST_VICTIM";
const SCENARIO: &str = "WIREBEAT_TEST_VICTIM_SCENARIO";
/// What it says when its ports are open, and of sessions a hundred were established and some are open.
pub(super) const READY: &str = "ready to be killed";

/// Says that it is ready.
struct TellReady(bool);

impl Observer for TellReady {
    fn progress(&mut self, progress: &Progress) {
        let is_ready = progress.sessions.is_some_and(|of| of.opened > 100 && of.open > 10);
        if is_ready && !std::mem::replace(&mut self.0, true) {
            eprintln!("{READY}");
        }
    }

    fn watches(&self) -> bool {
        true
    }
}

#[test]
#[ignore = "other tests start it, to kill it"]
fn victim() {
    let Ok(namespaces) = env::var(NAMESPACES) else { return };
    let (a, b) = namespaces.split_once(',').unwrap();
    let [a, b] = [a, b].map(|path| Namespace::open(Path::new(path)).unwrap());
    let scenario = Scenario::from_yaml(&env::var(SCENARIO).unwrap(), "victim").unwrap();
    let namespaces = [("a".to_owned(), a), ("b".to_owned(), b)].into();
    let prepared = prepare(&scenario, Options { namespaces, ..Options::default() });
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let mut tell = TellReady(scenario.sessions.is_empty());
    if tell.0 {
        eprintln!("{READY}");
    }
    prepared.start(&mut tell, &Stop::new());
}

/// Starts a victim between the ends of `bed`.
pub(super) fn start(bed: &Testbed, scenario: &str) -> Process {
    let path = |end: &End| {
        format!("/proc/{}/fd/{}", std::process::id(), end.namespace.as_fd().as_raw_fd())
    };
    let name = concat!(module_path!(), "::victim").split_once("::").unwrap().1;
    Program::new(&bed.a.namespace, "env")
        .args([format!("{NAMESPACES}={},{}", path(&bed.a), path(&bed.b))])
        .args([format!("{SCENARIO}={scenario}")])
        .args([env::current_exe().unwrap()])
        .args([name, "--exact", "--ignored", "--nocapture"])
        .spawn()
        .unwrap()
}
