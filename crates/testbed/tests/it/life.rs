//! What a testbed made is gone when it is dropped, and when its process is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use wirebeat_netlink::{Namespace, Netlink, NewLink};
use wirebeat_testbed::{Addressing, Capability, Options, Testbed, require, userns};

use crate::eventually;

const TOOL: &str = env!("CARGO_BIN_EXE_wirebeat-testbed");

fn quiet() -> Options {
    Options { addressing: Addressing::V4, ..Options::default() }
}

/// A cable from a namespace to ours: when the namespace dies its end dies, and ours with it.
struct Canary {
    ours: Netlink,
    name: String,
}

impl Canary {
    fn lay(from: &Namespace, name: &str, to: &Testbed) -> Self {
        let end = |name: String| NewLink { name, mac: None, mtu: 1500, queues: 1 };
        let mut theirs = Netlink::open_in(from).unwrap();
        let (near, far) = (end("canary".to_owned()), end(name.to_owned()));
        theirs.add_veth(&near, &far, &to.a.namespace).unwrap();
        let mut canary = Canary { ours: to.a.netlink().unwrap(), name: name.to_owned() };
        assert!(canary.alive());
        canary
    }

    fn alive(&mut self) -> bool {
        self.ours.links().unwrap().iter().any(|link| link.name == self.name)
    }
}

/// The tool, started, with the namespaces of its ends.
struct Tool {
    child: Child,
    /// Kept open: the tool would otherwise fail when it writes.
    _lines: BufReader<ChildStdout>,
    namespaces: Vec<PathBuf>,
}

impl Tool {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the tool starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut namespaces = Vec::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            match line.trim_end() {
                "ready" => break,
                "" => panic!("the tool ended without being ready: {:?}", child.wait()),
                line => {
                    let path = line.rsplit_once("--net=").expect(line).1;
                    namespaces.push(PathBuf::from(path));
                }
            }
        }
        Tool { child, _lines: lines, namespaces }
    }

    /// SIGKILL: no destructor runs.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn tool(arguments: &[&str]) -> Command {
    let mut command = Command::new(TOOL);
    command.args(arguments);
    command
}

#[test]
fn a_dropped_testbed_leaves_nothing() {
    require!(Capability::NetworkNamespaces);
    let ours = Testbed::pair(&quiet()).unwrap();
    let testbed = Testbed::router(&quiet()).unwrap();
    let device = testbed.device.clone().unwrap();
    let mut canaries: Vec<Canary> = [&testbed.a.namespace, &testbed.b.namespace, &device]
        .into_iter()
        .enumerate()
        .map(|(number, namespace)| Canary::lay(namespace, &format!("canary{number}"), &ours))
        .collect();
    drop((testbed, device));
    for canary in &mut canaries {
        assert!(eventually(|| !canary.alive()), "{} outlived the testbed", canary.name);
    }
}

#[test]
fn a_killed_process_leaves_nothing() {
    require!(Capability::NetworkNamespaces);
    let ours = Testbed::pair(&quiet()).unwrap();
    let tool = Tool::start(tool(&["bridge", "3"]));
    let mut canaries: Vec<Canary> = tool
        .namespaces
        .iter()
        .enumerate()
        .map(|(number, path)| {
            Canary::lay(&Namespace::open(path).unwrap(), &format!("canary{number}"), &ours)
        })
        .collect();
    assert_eq!(canaries.len(), 3);
    tool.kill();
    for canary in &mut canaries {
        assert!(eventually(|| !canary.alive()), "{} outlived the process", canary.name);
    }
}

#[test]
fn nothing_gets_a_name() {
    require!(Capability::NetworkNamespaces);
    let names = || {
        let mut names: Vec<_> = fs::read_dir("/run/netns")
            .map(|entries| entries.filter_map(|e| Some(e.ok()?.file_name())).collect())
            .unwrap_or_default();
        names.sort();
        names
    };
    let before = names();
    let testbed = Testbed::pair(&quiet()).unwrap();
    assert_eq!(names(), before);
    drop(testbed);
}

/// Whether a process runs whose command line ends so.
fn runs(ending: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    processes.filter_map(|path| fs::read(path.join("cmdline")).ok()).any(|line| {
        let line = line.strip_suffix(&[0]).unwrap_or(&line);
        line.ends_with(ending.as_bytes()) && !line.starts_with(TOOL.as_bytes())
    })
}

#[test]
fn a_killed_process_takes_its_programs_along() {
    require!(Capability::NetworkNamespaces, Capability::Program("setpriv"));
    // An argument that no other sleep on this machine has.
    let seconds = format!("1000.{}", std::process::id());
    let tool = Tool::start(tool(&["pair", "--", "sleep", &seconds]));
    assert!(eventually(|| runs(&seconds)));
    tool.kill();
    assert!(eventually(|| !runs(&seconds)));
}

#[test]
fn an_unprivileged_user_gets_a_testbed_too() {
    require!(Capability::UserNamespaces);
    // The build folder may be closed to others: run a copy that is not.
    let copy = Copy::of(Path::new(TOOL));
    let mut command = if rustix::process::geteuid().is_root() && userns::is_initial() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&copy.0);
        command
    } else {
        Command::new(&copy.0)
    };
    // Inside, the addresses are there and the other end answers.
    let output = command
        .args(["pair", "--", "sh", "-c"])
        .arg("id -u; cat /proc/net/if_inet6; cat /proc/net/route")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let inside: Vec<&str> = text.lines().skip_while(|line| *line != "ready").collect();
    assert_eq!(inside.get(1), Some(&"0"), "root inside: {text}");
    assert!(
        inside.iter().any(|line| line.starts_with("fd776200") && line.ends_with("wb0")),
        "{text}"
    );
    // 10.77.0.0 in the byte order of that file.
    assert!(inside.iter().any(|line| line.starts_with("wb0\t00004D0A")), "{text}");
}

/// A file that anybody may run, removed in the end.
struct Copy(PathBuf);

impl Copy {
    fn of(program: &Path) -> Self {
        let path = std::env::temp_dir().join(format!("wirebeat-testbed-{}", std::process::id()));
        fs::copy(program, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Copy(path)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
