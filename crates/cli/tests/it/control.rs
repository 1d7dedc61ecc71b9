//! `wirebeat ctl` and the sessions that it changes, each inside namespaces that the test made.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::{
    Capability, Neighbours, Options as Cable, Process, Program, Testbed, require,
};

use crate::{Ended, Scratch, command, line, run};

const PATIENCE: Duration = Duration::from_secs(60);

fn cable() -> Testbed {
    Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap()
}

/// A session of a minute with the flow 'x', to be controlled at `socket`. Its report is written beside that.
fn session(bed: &Testbed, socket: &str) -> Process {
    session_with(bed, socket, "")
}

fn session_with(bed: &Testbed, socket: &str, more: &str) -> Process {
    let flow = "--flow name=x,rate=1kpps --engine packet --time 60s";
    let line = format!(
        "send --to {} --interface wb0 {flow} --control={socket} --json {socket}.json {more}",
        bed.b.ipv4
    );
    let program = Program::new(&bed.a.namespace, env!("CARGO_BIN_EXE_wirebeat"));
    let session = program.args(line.split_whitespace()).spawn().unwrap();
    session.wait_for("control socket:", PATIENCE).unwrap();
    session
}

/// Asks until the session has begun.
fn begun(socket: &str) -> Ended {
    loop {
        let ended = run(&["ctl", "--control", socket, "list"]);
        if !ended.err.contains("has not begun") {
            return ended;
        }
    }
}

/// A folder that is this user's alone.
fn private(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o700)).unwrap();
    scratch
}

#[test]
fn a_session_is_changed_and_stopped_and_leaves_no_socket() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("ctl"));
    let socket = scratch.path("one.sock");
    let session = session(&bed, &socket);
    assert_eq!(fs::symlink_metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let ctl = |rest: &str| line(&format!("ctl --control {socket} {rest}"));
    assert_eq!(begun(&socket).out, "x  sending  rate 1kpps\n");
    let set = ctl("set x --rate 5kpps --size 200B");
    assert!(set.out.starts_with("x from ") && set.code == 0, "{set:?}");
    assert_eq!(ctl("pause x").code, 0);
    let twice = ctl("pause x");
    assert_eq!(twice.code, 2, "{twice:?}");
    assert!(twice.err.contains("it pauses already"), "{}", twice.err);
    assert_eq!(ctl("resume x").code, 0);
    assert_eq!(ctl("stop --all").code, 0);
    let ended = session.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(socket.clone() + ".json").unwrap()).unwrap();
    let changes: Vec<_> = report["changes"].as_array().unwrap().iter().collect();
    let words: Vec<_> = changes.iter().map(|one| one["change"].as_str().unwrap()).collect();
    assert_eq!(words, ["rate 5kpps, size 200B", "paused", "resumed", "stopped"]);
    assert!(changes.iter().all(|one| one["origin"] == "control" && one["at_ns"].is_u64()));
    assert!(
        report["consistency_checks"].as_array().unwrap().iter().all(|book| book["difference"] == 0)
    );
    assert!(!Path::new(&socket).exists(), "the socket is still there");
    let gone = ctl("list");
    assert_eq!(gone.code, 3, "{gone:?}");
    assert!(gone.err.contains("no run answers"), "{}", gone.err);
}

#[test]
fn the_socket_of_a_killed_session_is_replaced_and_that_of_a_living_one_is_not() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("killed"));
    let socket = scratch.path("one.sock");
    let killed = session(&bed, &socket);
    begun(&socket);
    killed.kill();
    killed.wait(PATIENCE).unwrap();
    assert!(Path::new(&socket).exists(), "a killed session cannot remove it");
    let living = session(&bed, &socket);
    begun(&socket);
    let line = format!("send --to 127.0.0.1 --rate 1pps --count 1 --control={socket}");
    let program = Program::new(&bed.a.namespace, env!("CARGO_BIN_EXE_wirebeat"));
    let second = program.args(line.split_whitespace()).spawn().unwrap().wait(PATIENCE).unwrap();
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(second.stderr.contains("there is something already"), "{}", second.stderr);
    assert_eq!(run(&["ctl", "--control", &socket, "stop", "x"]).code, 0);
    assert_eq!(living.wait(PATIENCE).unwrap().status.code(), Some(0));
}

#[test]
fn another_user_is_sent_away_even_where_the_file_lets_him_in() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("other"));
    let socket = scratch.path("one.sock");
    let session = session(&bed, &socket);
    begun(&socket);
    let other = || {
        use std::os::unix::process::CommandExt;
        // The binary may lie where another user cannot read it: a copy does not.
        let binary = scratch.path("wirebeat");
        if !Path::new(&binary).exists() {
            fs::copy(env!("CARGO_BIN_EXE_wirebeat"), &binary).unwrap();
        }
        let mut asking = std::process::Command::new(binary);
        asking.args(["ctl", "--control", &socket, "stop", "--all"]).uid(65_534).gid(65_534);
        let ended = asking.output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, why) = other();
    assert!(code == Some(3) && why.contains("Permission denied"), "{code:?} {why}");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let (code, why) = other();
    assert!(code == Some(2) && why.contains("belongs to another user"), "{code:?} {why}");
    assert_eq!(run(&["ctl", "--control", &socket, "stop", "--all"]).code, 0);
    let ended = session.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// The lines of JSON of a stream.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_a_run_counts_is_told_while_it_goes_on_and_adds_up_to_its_report() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("stats"));
    let socket = scratch.path("one.sock");
    let session = session_with(&bed, &socket, "--interval 100ms");
    begun(&socket);
    let stats = |more: &str| {
        let line = format!("ctl --control {socket} stats {more}");
        command(&line.split_whitespace().collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // by two readers from the start to the end, one of whom reads nothing before that
    let follower = stats("--last 1000 --follow --json-lines");
    let rows = stats("--last 1000 --follow --interval 300ms");
    let few = line(&format!("ctl --control {socket} stats --last 0 --count 3"));
    assert_eq!((few.code, few.err.as_str()), (0, ""), "{few:?}");
    let printed: Vec<&str> = few.out.lines().collect();
    assert!(printed.len() == 4 && printed[3].starts_with("total: "), "{printed:?}");
    assert!(printed[..3].iter().all(|row| row.contains(" s  sent ")), "{printed:?}");

    let seen = lines(&line(&format!("ctl --control {socket} stats --last 2 --json-lines")).out);
    assert_eq!(seen.len(), 3, "{seen:?}");
    let (one, two, total) = (&seen[0]["interval"], &seen[1]["interval"], &seen[2]["total"]);
    assert_eq!(one["to_ns"], two["from_ns"]);
    assert_eq!((&total["from_ns"], &total["to_ns"]), (&0.into(), &two["to_ns"]));
    let sent = |of: &Value| of["total"]["sent"]["frames"].as_u64().unwrap();
    assert!(sent(one) > 0 && sent(total) >= sent(one) + sent(two));

    // a change does not wait for those who follow
    assert_eq!(run(&["ctl", "--control", &socket, "stop", "--all"]).code, 0);
    assert_eq!(session.wait(PATIENCE).unwrap().status.code(), Some(0));
    let report: Value =
        serde_json::from_str(&fs::read_to_string(socket.clone() + ".json").unwrap()).unwrap();
    let followed = follower.wait_with_output().unwrap();
    assert!(followed.status.success());
    let told = lines(&String::from_utf8(followed.stdout).unwrap());
    let (total, intervals) = told.split_last().unwrap();
    let all: u64 = intervals.iter().map(|line| sent(&line["interval"])).sum();
    let reported = report["total"]["sent"]["sent"]["frames"].as_u64().unwrap();
    assert_eq!((all, sent(&total["total"])), (reported, reported));
    let of_report = report["intervals"].as_array().unwrap().len();
    assert_eq!(intervals.len(), of_report, "{intervals:?}");
    let rows = rows.wait_with_output().unwrap();
    let rows = String::from_utf8(rows.stdout).unwrap();
    assert_eq!(rows.lines().count(), of_report.div_ceil(3) + 1, "{rows}");
}

#[test]
fn a_run_that_is_killed_leaves_its_followers_with_an_error() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("stats-killed"));
    let socket = scratch.path("one.sock");
    let session = session(&bed, &socket);
    begun(&socket);
    let line = ["ctl", "--control", &socket, "stats", "--follow", "--json-lines"];
    let follower = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // until it is there
    while run(&line[..4]).code != 0 {}
    std::thread::sleep(Duration::from_millis(300));
    session.kill();
    session.wait(PATIENCE).unwrap();
    let ended = follower.wait_with_output().unwrap();
    let told = lines(&String::from_utf8(ended.stdout).unwrap());
    assert_eq!(ended.status.code(), Some(3), "{told:?}");
    assert_eq!(told.last().unwrap()["error"]["exit_code"], 3, "{told:?}");
}

#[test]
fn too_many_followers_are_sent_away_and_changes_still_get_through() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("stats-many"));
    let socket = scratch.path("one.sock");
    let session = session(&bed, &socket);
    begun(&socket);
    let follow = ["ctl", "--control", &socket, "stats", "--follow"];
    let follower = || {
        let mut child = command(&follow).stdout(Stdio::piped()).spawn().unwrap();
        // until it is one
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        (child, out)
    };
    let followers: Vec<_> = (0..4).map(|_| follower()).collect();
    let refused = run(&follow);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("4 others follow this run already"), "{refused:?}");
    assert_eq!(run(&["ctl", "--control", &socket, "stats"]).code, 0);
    assert_eq!(run(&["ctl", "--control", &socket, "stop", "--all"]).code, 0);
    assert_eq!(session.wait(PATIENCE).unwrap().status.code(), Some(0));
    for (mut child, _) in followers {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn the_only_session_is_found_and_none_is_told() {
    let scratch = private("find");
    let ended = command(&["ctl", "list"]).env("XDG_RUNTIME_DIR", &scratch.0).output().unwrap();
    let why = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{why}");
    assert!(why.contains("no run of yours can be controlled"), "{why}");
}

#[test]
fn a_place_where_others_can_write_is_refused() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("open"));
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = scratch.path("one.sock");
    let line = format!(
        "send --to {} --interface wb0 --rate 1pps --count 1 --control={socket}",
        bed.b.ipv4
    );
    let program = Program::new(&bed.a.namespace, env!("CARGO_BIN_EXE_wirebeat"));
    let refused = program.args(line.split_whitespace()).spawn().unwrap().wait(PATIENCE).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("others can write to"), "{}", refused.stderr);
}

#[test]
fn a_socket_may_have_any_name() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("new"));
    for name in ["x.new", "plain", "a.sock"] {
        let socket = scratch.path(name);
        let session = session(&bed, &socket);
        assert_eq!(begun(&socket).code, 0);
        assert_eq!(run(&["ctl", "--control", &socket, "stop", "--all"]).code, 0);
        let ended = session.wait(PATIENCE).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(!Path::new(&socket).exists());
    }
}

#[test]
fn the_runtime_directory_of_another_user_is_not_used() {
    require!(Capability::NetworkNamespaces);
    let (bed, scratch) = (cable(), private("sudo"));
    std::os::unix::fs::chown(&scratch.0, Some(65_534), Some(65_534)).unwrap();
    let elsewhere = private("sudo-link");
    std::os::unix::fs::symlink(&elsewhere.0, scratch.0.join("wirebeat")).unwrap();
    let line = format!(
        "exec env XDG_RUNTIME_DIR={} {} send --to {} --interface wb0 --engine packet --rate 1kpps --time 60s --control",
        scratch.0.display(),
        env!("CARGO_BIN_EXE_wirebeat"),
        bed.b.ipv4
    );
    let session = Program::new(&bed.a.namespace, "sh").args(["-c", &line]).spawn().unwrap();
    session.wait_for("control socket: /run/wirebeat/", PATIENCE).unwrap();
    assert_eq!(fs::read_dir(&elsewhere.0).unwrap().count(), 0);
    session.interrupt();
    assert_eq!(session.wait(PATIENCE).unwrap().status.code(), Some(0));
    let _ = fs::remove_dir("/run/wirebeat");
}

#[test]
fn what_a_foreign_session_says_does_nothing_on_a_terminal() {
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    let scratch = private("foreign");
    let socket = scratch.path("one.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let wild = r"\u001b]0;owned\u0007\u009b2J\u202e\nx";
    let answers = [
        format!(r#"{{"flows":[{{"flow":"{wild}","state":"sending","sends":"{wild}"}}]}}"#),
        format!(r#"{{"done":[{{"flow":"{wild}","at_ns":5}}]}}"#),
        format!(r#"{{"error":"{wild}"}}"#),
        format!(r#"{{"{wild}":1}}"#),
    ];
    let count = answers.len();
    let foreign = std::thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
    });
    for _ in 0..count {
        let ended = run(&["ctl", "--control", &socket, "list"]);
        let said = ended.out + &ended.err;
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!said.contains(acts) && !said.contains("\nx"), "{said:?}");
    }
    foreign.join().unwrap();
}
