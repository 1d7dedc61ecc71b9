//! `--tui` on a terminal that the test holds: `script` of util-linux makes it. Traffic stays on loopback.

use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wirebeat_testbed::{Capability, Options, Program, Testbed, require};

use crate::{Scratch, line, run};

/// Longer than any of these runs may take once it is told to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// What takes the terminal, and what gives it back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";

const SEND: &str = "send --to 127.0.0.1:9 --engine socket --flow name=voice,rate=200pps --flow name=bulk,rate=400pps \
                    --interval 100ms --tui";

/// A terminal with a run in it.
struct Held {
    child: Child,
    keys: ChildStdin,
    shown: Receiver<Vec<u8>>,
    text: String,
    scratch: Scratch,
}

impl Held {
    /// Runs the command on a terminal of this size; then says how it ended, and how the terminal is.
    fn start(name: &str, arguments: &str, size: (u16, u16)) -> Held {
        Held::spawn(name, arguments, size, Command::spawn)
    }

    /// The same, started by `spawn`.
    fn spawn(
        name: &str,
        arguments: &str,
        (columns, rows): (u16, u16),
        spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    ) -> Held {
        let scratch = Scratch::new(name);
        let (pid, wirebeat) = (scratch.path("pid"), env!("CARGO_BIN_EXE_wirebeat"));
        let script = format!(
            "stty rows {rows} cols {columns}\nsh -c 'echo $$ > {pid}; exec {wirebeat} {arguments}'\necho \"code $?\"\nstty -a\n"
        );
        let script = scratch.file("run.sh", script.as_bytes());
        let mut command = Command::new("script");
        command
            .args(["-qec", &format!("sh {script}"), "/dev/null"])
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = spawn(&mut command).unwrap();
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sends, shown) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let _ = sends.send(bytes[..count].to_vec());
            }
        });
        Held { child, keys, shown, text: String::new(), scratch }
    }

    /// Reads on until the text is there.
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.text.contains(text) {
            let left = until.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.text += &String::from_utf8_lossy(&bytes),
                Err(why) => panic!("no '{text}' ({why}) in {:?}", self.text),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.scratch.path("pid")).unwrap();
        kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }

    /// All that was shown after the view, once the run has ended with this code and left the terminal as it was.
    fn restored(mut self, code: i32) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.shown.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.text += &String::from_utf8_lossy(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it goes on: {:?}", self.text),
            }
        }
        self.child.wait().unwrap();
        assert_eq!(self.text.matches(ENTER).count(), 1, "{:?}", self.text);
        let (view, after) = self.text.rsplit_once(LEAVE).expect("the view is left");
        assert!(view.contains(ENTER), "{view:?}");
        assert!(after.contains(SHOW_CURSOR), "the cursor is hidden: {after:?}");
        assert!(after.contains(&format!("code {code}")), "{after:?}");
        let flags: Vec<&str> = after.split_whitespace().collect();
        for flag in ["icanon", "echo", "isig"] {
            assert!(flags.contains(&flag), "no {flag}: {after:?}");
        }
        after.to_owned()
    }
}

#[test]
fn keys_work_and_q_ends_the_run_with_its_report() {
    require!(Capability::Program("script"));
    let mut held = Held::start("tui-q", &format!("{SEND} --time 60s --control"), (80, 24));
    held.wait_for(ENTER);
    held.wait_for("voice");
    // a colour
    held.wait_for("\u{1b}[38;5;");
    held.press("j+");
    held.wait_for("voice: 220pps from");
    held.press("-s?");
    // words apart: blanks are not written
    held.wait_for("follows");
    held.press("?pq");
    let after = held.restored(0);
    assert!(after.contains("stopped by request"), "{after:?}");
    // what was said while the view was there
    assert!(after.contains("control socket:"), "{after:?}");
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    require!(Capability::Program("script"));
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut held = Held::start(&format!("tui-{name}"), &format!("{SEND} --time 60s"), (80, 24));
        held.wait_for("voice");
        held.signal(signal);
        let after = held.restored(0);
        assert!(after.contains(&format!("stopped by {name}")), "{after:?}");
    }
}

/// The far end owes its results and is stopped, so that the run waits when it is told to end the second time.
#[test]
fn a_second_signal_ends_it_at_once_and_leaves_the_terminal_as_it_was() {
    require!(Capability::Program("script"), Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Options::default()).unwrap();
    let at = format!("{}:5963", bed.b.ipv4);
    let key = "a-key-for-the-live-view-5963";
    let receive =
        format!("receive --interface wb1 --engine packet --port 9 --listen {at} --key {key}");
    let words: Vec<&str> = receive.split_whitespace().collect();
    let receiver = Program::new(&bed.b.namespace, env!("CARGO_BIN_EXE_wirebeat")).args(words);
    let receiver = receiver.spawn().unwrap();
    receiver.wait_for("listening on", PATIENCE).unwrap();
    let line = format!(
        "send --to {} --interface wb0 --engine packet --flow name=voice,rate=200pps --time 60s --interval 100ms --peer {at} \
         --key {key} --tui",
        bed.b.ipv4
    );
    let spawn = |command: &mut Command| bed.a.namespace.run(|| command.spawn()).unwrap();
    let mut held = Held::spawn("tui-second", &line, (80, 24), spawn);
    held.wait_for("voice");
    let far = Pid::from_raw(receiver.id() as i32).unwrap();
    kill_process(far, Signal::STOP).unwrap();
    held.signal(Signal::INT);
    thread::sleep(Duration::from_millis(500));
    held.signal(Signal::INT);
    let _ = held.restored(130);
    receiver.kill();
}

#[test]
fn ctrl_c_is_a_signal() {
    require!(Capability::Program("script"));
    let mut held = Held::start("tui-c", &format!("{SEND} --time 60s"), (80, 24));
    held.wait_for("voice");
    held.press("\u{3}");
    assert!(held.restored(0).contains("stopped by SIGINT"));
    let line = "receive --engine socket --interface lo --port 9 --tui --listen 127.0.0.1:0 --interval 100ms";
    let line = line.replace(" --listen 127.0.0.1:0", "");
    let mut held = Held::start("tui-cc", &line, (80, 24));
    held.wait_for("pause");
    held.press("\u{3}");
    let _ = held.restored(0);
}

#[test]
fn a_run_that_ends_by_itself_leaves_its_report_on_any_terminal() {
    require!(Capability::Program("script"));
    for (columns, rows) in [(20, 5), (3, 1), (200, 60)] {
        let name = format!("tui-{columns}");
        let mut held = Held::start(&name, &format!("{SEND} --time 1s"), (columns, rows));
        held.wait_for(ENTER);
        let after = held.restored(0);
        assert!(after.contains("Run complete"), "{after:?}");
    }
}

/// Both at once, with JSON in a file and no colours.
#[test]
fn the_view_and_the_metrics_and_the_json_go_together() {
    require!(Capability::Program("script"));
    let json = Scratch::new("tui-json");
    let path = json.path("report.json");
    let line = format!("{SEND} --time 60s --metrics 127.0.0.1:0 --json {path}");
    let mut held = Held::start("tui-both", &line, (80, 24));
    held.wait_for("metrics: http://127.0.0.1:");
    let (_, address) = held.text.rsplit_once("http://").unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    held.wait_for("voice");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("wirebeat_frames_sent_total{flow=\"voice\"}"), "{answer}");
    held.press("q");
    held.restored(0);
    let report: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(report["end"]["signal"], "request");
}

#[test]
fn without_a_terminal_there_is_no_view() {
    for command in ["send --to 127.0.0.1:9 --count 1", "receive --time 1s", "serve echo --listen 7"]
    {
        let ended = line(&format!("{command} --tui"));
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.contains("standard error is not a terminal"), "{}", ended.err);
        assert!(ended.err.contains("leave --tui out"), "{}", ended.err);
    }
    assert_eq!(run(&["run", "x.yaml", "--tui"]).code, 2);
}
