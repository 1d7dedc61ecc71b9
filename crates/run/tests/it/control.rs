//! Sessions that are changed while they run, over real engines.

use std::thread;
use std::time::Duration;

use wirebeat_report::model::{ChangeOrigin, End, Report, SessionEnd};
use wirebeat_run::control::message::State;
use wirebeat_run::{Control, ControlError, Controlled, Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{Change, Scenario};
use wirebeat_units::Nanos;

use crate::own_sessions::free;
use crate::sessions::side;
use crate::world::{Engine, balanced, cable, ports};

/// Runs a scenario while `act` changes it, and gives the report and what `act` gave.
pub fn controlled<T: Send>(
    text: &str,
    bed: &Testbed,
    act: impl FnOnce(&Control) -> T + Send,
) -> (Report, T, Control) {
    let scenario = Scenario::from_yaml(text, "test").unwrap_or_else(|error| panic!("{error}"));
    let namespaces =
        [("a".to_owned(), bed.a.namespace.clone()), ("b".to_owned(), bed.b.namespace.clone())];
    let options = Options {
        namespaces: namespaces.into(),
        control: Controlled::ByHandle,
        ..Options::default()
    };
    let prepared = prepare(&scenario, options).unwrap_or_else(|error| panic!("{error}"));
    let control = prepared.control().unwrap();
    assert!(matches!(control.list(), Err(ControlError::NotStarted)));
    let stop = Stop::new();
    let (report, acted) = thread::scope(|scope| {
        let acting = scope.spawn(|| {
            while matches!(control.list(), Err(ControlError::NotStarted)) {
                thread::yield_now();
            }
            let ask = AskToStop(&stop);
            let acted = act(&control);
            std::mem::forget(ask);
            acted
        });
        (prepared.start(&mut Silent, &stop), acting.join().unwrap())
    });
    balanced(&report);
    (report, acted, control)
}

/// A test that fails ends its run.
struct AskToStop<'a>(&'a Stop);

impl Drop for AskToStop<'_> {
    fn drop(&mut self) {
        self.0.ask(0);
    }
}

/// Waits until a flow is as expected, and a little longer.
fn until(control: &Control, flow: &str, state: State) {
    while control.list().unwrap().iter().any(|one| one.flow == flow && one.state != state) {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(100));
}

fn change(yaml: &str) -> Change {
    serde_json::from_str(yaml).unwrap()
}

/// Frames that are due between two times at a rate that begins at the first.
fn due(from: Nanos, to: Nanos, gap_ns: u64) -> u64 {
    to.saturating_sub(from).get().div_ceil(gap_ns)
}

fn every_change_is_followed_to_the_frame(engine: Engine, more: &str) {
    let bed = cable();
    let text = format!(
        "{}flows:\n  x: {{ from: a, to: b, rate: 1kpps, at: {{ 40s: {{ rate: 3kpps }} }} }}\n  y: {{ from: a, to: b, \
         rate: 500pps, count: 100 }}\nrun: {{ time: 50s }}\n",
        ports(engine, more)
    );
    let (report, times, control) = controlled(&text, &bed, |control| {
        let faster = change(r#"{ "rate": "5kpps", "size": "200B" }"#);
        let set = control.change("x", &faster).unwrap();
        thread::sleep(Duration::from_millis(250));
        let paused = control.change("x", &Change::Pause).unwrap();
        // it sends until then, and what it is about to do is told
        let listed = control.list().unwrap().remove(0);
        assert_eq!(listed.state, State::Sending);
        assert_eq!(listed.next, Some(format!("from {paused} on: paused")));
        until(control, "x", State::Paused);
        assert_eq!(control.list().unwrap()[0].next, None);
        assert!(control.change("x", &Change::Pause).is_err(), "it pauses already");
        let resumed = control.change("x", &Change::Resume).unwrap();
        until(control, "x", State::Sending);
        let again = change(r#"{ "rate": "2kpps", "departures": "exponential" }"#);
        let drawn = control.change("x", &again).unwrap();
        let stopped = control.stop("x").unwrap();
        [set, paused, resumed, drawn, stopped]
    });
    let [set, paused, resumed, drawn, stopped] = times;
    assert!(times.is_sorted());
    assert_eq!(report.end, End::Completed);
    assert!(report.duration_ns < 20_000_000_000, "it did not end with its last flow");
    assert!(matches!(control.list(), Err(ControlError::Over)));

    let x = &report.flows[0];
    let (sent, received) = (x.sent.as_ref().unwrap(), x.received.as_ref().unwrap());
    let before = due(Nanos::ZERO, set, 1_000_000);
    let after = due(set, paused, 200_000) + due(resumed, drawn, 200_000);
    let long = (sent.requested.frame_bytes - 64 * before) / 200;
    assert_eq!(sent.requested.frame_bytes, 64 * before + 200 * long);
    assert_eq!(sent.requested.frames, before + long);
    // those that are drawn come last: 2,000 a second on average, for less than half a second
    let random = long.checked_sub(after).unwrap();
    assert!(random < 2 * stopped.saturating_sub(drawn).get() / 500_000 + 50, "{random}");
    assert_eq!((sent.sent.frames, received.unique), (before + long, before + long), "{x:#?}");
    assert_eq!(report.flows[1].received.as_ref().unwrap().unique, 100);

    let seen: Vec<_> = report.changes.iter().map(|one| (one.at_ns, one.change.as_str())).collect();
    let expected = [
        (set.get(), "rate 5kpps, size 200B"),
        (paused.get(), "paused"),
        (resumed.get(), "resumed"),
        (drawn.get(), "departures exponential, rate 2kpps"),
        (stopped.get(), "stopped"),
    ];
    assert_eq!(seen, expected);
    assert!(
        report.changes.iter().all(|one| one.origin == ChangeOrigin::Control && one.flow == "x")
    );
}

#[test]
fn every_change_is_followed_to_the_frame_by_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    every_change_is_followed_to_the_frame(Engine::Packet, "");
}

#[test]
fn every_change_is_followed_to_the_frame_by_two_cores() {
    require!(Capability::NetworkNamespaces);
    every_change_is_followed_to_the_frame(Engine::Packet, ", queues: 2");
}

#[test]
fn every_change_is_followed_to_the_frame_by_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    every_change_is_followed_to_the_frame(Engine::Kernel, "");
}

#[test]
fn every_change_is_followed_to_the_frame_by_the_socket_engine() {
    require!(Capability::NetworkNamespaces);
    every_change_is_followed_to_the_frame(Engine::Socket, "");
}

fn flows_that_are_flat_out_can_be_stopped(engine: Engine) {
    let bed = cable();
    let text = format!(
        "{}flows:\n  x: {{ from: a, to: b }}\n  y: {{ from: a, to: b }}\nrun: {{ time: 50s }}\n",
        ports(engine, "")
    );
    let (report, stopped, _) = controlled(&text, &bed, |control| {
        assert!(control.change("x", &Change::Pause).is_err());
        assert!(control.change("y", &change(r#"{ "rate": "5kpps" }"#)).is_err());
        control.stop("x").unwrap();
        assert!(control.change("x", &Change::Pause).is_err(), "it ends");
        control.stop_all().unwrap()
    });
    assert_eq!(stopped.iter().map(|(flow, _)| flow.as_str()).collect::<Vec<_>>(), ["y"]);
    assert_eq!(report.end, End::Completed);
    assert!(report.total.sent.as_ref().unwrap().sent.frames > 0);
    assert!(report.duration_ns < 20_000_000_000);
}

#[test]
fn flows_that_are_flat_out_can_be_stopped_on_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    flows_that_are_flat_out_can_be_stopped(Engine::Packet);
}

#[test]
fn flows_that_are_flat_out_can_be_stopped_on_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    flows_that_are_flat_out_can_be_stopped(Engine::Kernel);
}

#[test]
fn what_cannot_be_meant_changes_nothing() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let text = format!(
        "{}flows:\n  x: {{ from: a, to: b, rate: 1kpps }}\n  late: {{ from: a, to: b, rate: 1kpps, start: 40s }}\nrun: {{ \
         time: 50s }}\n",
        ports(Engine::Packet, ", speed: 100Mbps")
    );
    let (report, (), _) = controlled(&text, &bed, |control| {
        let why = |flow: &str, to: &str| control.change(flow, &change(to)).unwrap_err().to_string();
        assert!(why("nobody", r#""pause""#).starts_with("there is no flow 'nobody'"));
        assert!(why("x", r#""resume""#).contains("does not pause"));
        assert!(why("x", "{}").contains("nothing changes"));
        assert!(why("x", r#"{ "rate": "200Mbps" }"#).contains("carries 100Mbps"));
        assert!(why("x", r#"{ "size": "3000B" }"#).contains("longer than the link carries"));
        assert!(why("x", r#"{ "rate": "unlimited" }"#).contains("rate"));
        assert!(why("x", r#"{ "packet": [ { "ipv6": {} }, { "udp": {} } ] }"#).contains("headers"));
        // a flow that is yet to come changes at its start
        let at = control.change("late", &change(r#"{ "rate": "2kpps" }"#)).unwrap();
        assert_eq!(at, Nanos::from_secs(40));
        control.stop_all().unwrap();
        assert!(matches!(control.stop("x"), Err(ControlError::Ended(_) | ControlError::Over)));
    });
    let changes: Vec<_> = report.changes.iter().map(|one| one.change.as_str()).collect();
    assert_eq!(changes, ["stopped", "stopped"]);
    assert_eq!(report.flows[1].sent.as_ref().unwrap().requested.frames, 0);
}

/// Starts of sessions change by the same handle as the flows beside them, of the system's TCP and of ours, to the session.
#[test]
fn starts_of_sessions_change_to_the_session() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let text = format!(
        "ports:\n  a: {{ interface: wb0, namespace: a, engine: packet, addresses: [\"{a}\"] }}\n  \
         b: {{ interface: wb1, namespace: b, engine: packet, addresses: [\"{b}\"] }}\n\
         flows:\n  voice: {{ from: a, to: b, rate: 1kpps, stop: 20ms }}\n\
         sessions:\n  web: {{ from: a, to: b, servers: {{ ports: 80 }}, program: http, rate: 100/s, at: {{ 40s: {{ rate: 300/s }} }} }}\n  \
         own: {{ from: a, to: b, stack: own, clients: {{ addresses: {clients} }}, servers: {{ addresses: {server}, ports: 80 }}, \
         program: http, rate: 200/s }}\n  \
         users: {{ from: a, to: b, servers: {{ ports: 81 }}, program: http, users: 1, count: 3 }}\n\
         run: {{ time: 50s }}\n",
        a = bed.a.ipv4,
        b = bed.b.ipv4,
        clients = free(&bed, 50, 8),
        server = free(&bed, 100, 1),
    );
    let (report, times, control) = controlled(&text, &bed, |control| {
        let names: Vec<String> =
            control.list().unwrap().into_iter().map(|state| state.flow).collect();
        assert_eq!(names, ["voice", "web", "own"]);
        until(control, "voice", State::Ended);
        let size = control.change("web", &change(r#"{ "size": "100B" }"#)).unwrap_err();
        assert!(size.to_string().contains("only 'rate' and 'departures'"), "{size}");
        let bits = control.change("web", &change(r#"{ "rate": "1Mbps" }"#)).unwrap_err();
        assert!(bits.to_string().contains("does not count sessions"), "{bits}");
        assert!(control.change("users", &Change::Pause).is_err());
        let faster = control.change("web", &change(r#"{ "rate": "500/s" }"#)).unwrap();
        let paused = control.change("own", &Change::Pause).unwrap();
        until(control, "own", State::Paused);
        let web = control.list().unwrap().remove(1);
        assert_eq!((web.state, web.sends.as_str()), (State::Sending, "rate 500/s"));
        let resumed = control.change("own", &Change::Resume).unwrap();
        until(control, "own", State::Sending);
        let stopped = control.stop_all().unwrap();
        let stopped = |name: &str| stopped.iter().find(|(flow, _)| flow == name).unwrap().1;
        (faster, paused, resumed, stopped("web"), stopped("own"))
    });
    crate::sessions::balances(&report);
    let (faster, paused, resumed, web_stopped, own_stopped) = times;
    let opened = |name: &str| side(&report, name, SessionEnd::Client).starts.opened;
    let of_web = due(Nanos::ZERO, faster, 10_000_000) + due(faster, web_stopped, 2_000_000);
    let of_own = due(Nanos::ZERO, paused, 5_000_000) + due(resumed, own_stopped, 5_000_000);
    assert_eq!((opened("web"), opened("own"), opened("users")), (of_web, of_own, 3));
    assert_eq!(report.end, End::Completed);
    // what was planned for later did not come
    let changes: Vec<_> = report
        .changes
        .iter()
        .map(|change| (change.flow.as_str(), change.change.as_str(), change.origin))
        .collect();
    let from = ChangeOrigin::Control;
    let expected = [
        ("web", "rate 500/s", from),
        ("own", "paused", from),
        ("own", "resumed", from),
        ("web", "stopped", from),
        ("own", "stopped", from),
    ];
    assert_eq!(changes, expected);
    assert!(matches!(control.list(), Err(ControlError::Over)));
}
