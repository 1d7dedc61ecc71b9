//! What a test needs of the machine, and what becomes of it where that is missing.
//!
//! Skipped is not passed: a skipped test says so on standard error, past the test runner's
//! capture, in a line that begins with `SKIPPED`; and where `WIREBEAT_MAY_NOT_SKIP` names the test,
//! what it lacks, or `all`, it fails instead.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};
use wirebeat_netlink::kernel_version;

use crate::cards;
use crate::namespaces::{Forwarding, create};
use crate::{Addressing, Options, Program, Tunnel, userns};

/// Tests that may not be skipped: names of tests or of what they need, with commas, or `all`.
const MAY_NOT_SKIP: &str = "WIREBEAT_MAY_NOT_SKIP";

/// Something that a test needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// To make network namespaces.
    NetworkNamespaces,
    /// To load eBPF programs.
    Bpf,
    /// To send live frames from an XDP program.
    XdpLiveFrames,
    /// That an unprivileged user can have a user namespace.
    UserNamespaces,
    /// To make tun devices.
    Tun,
    /// Two real cards in the place of a virtual cable (`WIREBEAT_TEST_CARDS`).
    Cards,
    /// A virtual cable: no real cards are in its place.
    VirtualCable,
    /// A line to what the cards' cable hangs on, to pull it (`WIREBEAT_TEST_MONITOR`).
    Monitor,
    /// The kernel's packet generator.
    Pktgen,
    /// The queueing discipline that disturbs.
    Netem,
    /// VLAN devices.
    VlanDevices,
    /// SCTP.
    Sctp,
    /// The table of connections, whose size a test sets: that of the whole machine, which is to be an emulated one (`WIREBEAT_TEST_GUEST`).
    ConnectionTable,
    /// Two cards that stamp what they send and receive by clocks of their own.
    CardTimestamps,
    /// Two real cards of this driver (`WIREBEAT_TEST_CARDS`).
    Driver(&'static str),
    /// A program in the PATH.
    Program(&'static str),
    /// A module of the Python at `/usr/bin/python3`.
    PythonModule(&'static str),
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::NetworkNamespaces => "netns",
            Capability::Bpf => "bpf",
            Capability::XdpLiveFrames => "xdp-live-frames",
            Capability::UserNamespaces => "userns",
            Capability::Tun => "tun",
            Capability::Cards => "cards",
            Capability::VirtualCable => "virtual-cable",
            Capability::Monitor => "monitor",
            Capability::Pktgen => "pktgen",
            Capability::Netem => "netem",
            Capability::VlanDevices => "8021q",
            Capability::Sctp => "sctp",
            Capability::ConnectionTable => "nf_conntrack",
            Capability::CardTimestamps => "card-timestamps",
            Capability::Driver(driver) => return write!(f, "cards of {driver}"),
            Capability::Program(name) => name,
            Capability::PythonModule(name) => return write!(f, "python3-{name}"),
        })
    }
}

/// What is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{missing} is missing: {why}")]
pub struct Skip {
    missing: Capability,
    why: String,
}

/// Looks whether this machine, and this process on it, has what is needed.
pub fn require(capability: Capability) -> Result<(), Skip> {
    let found = match capability {
        Capability::NetworkNamespaces => {
            create("probe", Addressing::V4, Forwarding::Off).map(drop).map_err(|e| e.to_string())
        }
        Capability::Bpf => bpf(),
        Capability::XdpLiveFrames => bpf().and_then(|()| live_frames()),
        Capability::UserNamespaces => user_namespaces(),
        Capability::Tun => Tunnel::new(&Options::default()).map(drop).map_err(|e| e.to_string()),
        Capability::Cards if crate::has_cards() => Ok(()),
        Capability::Cards => {
            Err("WIREBEAT_TEST_CARDS names no cards; see 'make test-guest'".to_owned())
        }
        Capability::VirtualCable if crate::has_cards() => {
            Err("WIREBEAT_TEST_CARDS names cards, and this is tried without".to_owned())
        }
        Capability::VirtualCable => Ok(()),
        Capability::Monitor if crate::monitor().is_some() => Ok(()),
        Capability::Monitor => {
            Err("WIREBEAT_TEST_MONITOR names no line to QEMU; see 'make test-guest'".to_owned())
        }
        Capability::Pktgen => has_file("/proc/thread-self/net/pktgen/pgctrl", "pktgen"),
        Capability::Netem => netem(),
        Capability::VlanDevices => has_file("/proc/thread-self/net/vlan/config", "8021q"),
        Capability::Sctp => has_file("/proc/thread-self/net/sctp/eps", "sctp"),
        Capability::ConnectionTable if env::var_os("WIREBEAT_TEST_GUEST").is_some() => {
            has_file("/proc/sys/net/netfilter/nf_conntrack_max", "nf_conntrack")
        }
        Capability::ConnectionTable => {
            Err("its size is the whole machine's; see 'make test-guest'".to_owned())
        }
        Capability::CardTimestamps => cards::stamp(),
        Capability::Driver(driver) => cards::have_driver(driver),
        Capability::PythonModule(name) => python_module(name),
        Capability::Program(name) if on_path(OsStr::new(name)) => Ok(()),
        Capability::Program(name) => Err(format!("there is no program '{name}' in the PATH")),
    };
    found.map_err(|why| Skip { missing: capability, why })
}

fn bpf() -> Result<(), String> {
    if !userns::is_initial() {
        return Err("eBPF needs the rights of real root, not of a user namespace's".to_owned());
    }
    let effective = capabilities(None).map_err(|e| e.to_string())?.effective;
    let bpf = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
    if effective.contains(CapabilitySet::SYS_ADMIN) || effective.contains(bpf) {
        Ok(())
    } else {
        Err("this process lacks CAP_BPF and CAP_NET_ADMIN; run as root".to_owned())
    }
}

/// A file of `/proc` that a part of the kernel, the module `module`, makes when it is there.
fn has_file(path: &str, module: &str) -> Result<(), String> {
    match fs::exists(path) {
        Ok(true) => Ok(()),
        _ => Err(format!("this kernel has it not, or not loaded: modprobe {module}")),
    }
}

/// The system's Python, whose modules are packages of the system.
fn python_module(name: &str) -> Result<(), String> {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", &format!("import {name}")]).stderr(Stdio::null());
    match python.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("/usr/bin/python3 has no module '{name}'")),
    }
}

/// Tries it where nobody is disturbed.
fn netem() -> Result<(), String> {
    let namespace =
        create("probe", Addressing::V4, Forwarding::Off).map_err(|error| error.to_string())?;
    let tc = Program::new(&namespace, "tc").args(["qdisc", "add", "dev", "lo", "root", "netem"]);
    match tc.output(Duration::from_secs(20)) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{} (modprobe sch_netem)", output.stderr.trim())),
        Err(error) => Err(error.to_string()),
    }
}

fn live_frames() -> Result<(), String> {
    match kernel_version() {
        Some(version) if version >= (5, 18) => Ok(()),
        _ => Err("live frames need Linux 5.18".to_owned()),
    }
}

/// A user namespace swallows the process that enters it, so a child tries.
fn user_namespaces() -> Result<(), String> {
    let mut command = if rustix::process::geteuid().is_root() && userns::is_initial() {
        let mut command = Command::new("setpriv");
        // 65534 is nobody, on every distribution.
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "unshare"]);
        command
    } else {
        Command::new("unshare")
    };
    let child = command.args(["--user", "--map-root-user", "--net", "true"]).stdin(Stdio::null());
    match child.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(e) => Err(format!("cannot try it with setpriv and unshare of util-linux: {e}")),
    }
}

/// Whether there is such a program: at its path, or by its name in the PATH.
pub(crate) fn on_path(program: &OsStr) -> bool {
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.as_encoded_bytes().contains(&b'/') {
        return executable(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| executable(&folder.join(program)))
}

/// Reports that the test `name` is skipped, or says why it must fail instead.
pub fn report_skip(name: &str, skip: &Skip) -> Result<(), String> {
    let list = env::var(MAY_NOT_SKIP).unwrap_or_default();
    if may_not_skip(&list, name, skip) {
        return Err(format!("{name} may not be skipped ({MAY_NOT_SKIP}={list}): {skip}"));
    }
    // Written to the stream itself: the test runner captures only what the print macros write.
    // In one piece, so that tests that run at the same time do not mix their lines.
    let _ = io::stderr().write_all(format!("SKIPPED {name}: {skip}\n").as_bytes());
    Ok(())
}

fn may_not_skip(list: &str, name: &str, skip: &Skip) -> bool {
    let short = name.rsplit("::").next().unwrap_or(name);
    let missing = skip.missing.to_string();
    list.split(',')
        .map(str::trim)
        .any(|item| item == "all" || item == name || item == short || item == missing)
}

/// Ends the test early, as skipped, unless the machine has each of these [`Capability`]s.
///
/// ```no_run
/// # fn test() {
/// use wirebeat_testbed::{Capability, require};
/// require!(Capability::NetworkNamespaces, Capability::Program("tshark"));
/// # }
/// ```
/// # Panics
/// When `WIREBEAT_MAY_NOT_SKIP` says that the test may not be skipped.
#[macro_export]
macro_rules! require {
    ($($capability:expr),+ $(,)?) => {
        $(
            if let Err(skip) = $crate::require($capability) {
                // A closure's type is named after the function around it.
                let name = ::std::any::type_name_of_val(&|| ()).trim_end_matches("::{{closure}}");
                if let Err(failure) = $crate::report_skip(name, &skip) {
                    panic!("{failure}");
                }
                return;
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip() -> Skip {
        Skip { missing: Capability::Program("tshark"), why: "none".to_owned() }
    }

    #[test]
    fn the_list_names_tests_or_what_they_lack() {
        let named = |list| may_not_skip(list, "it::observer::agrees", &skip());
        assert!(named("all") && named("agrees") && named("it::observer::agrees"));
        assert!(named("bpf, tshark"));
        assert!(!named("") && !named("bpf") && !named("observer") && !named("agree"));
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert_eq!(require(Capability::Program("sh")), Ok(()));
        let missing = require(Capability::Program("wirebeat-no-such-program")).unwrap_err();
        assert!(missing.to_string().contains("no program 'wirebeat-no-such-program'"), "{missing}");
        assert!(on_path(OsStr::new("/bin/sh")) && !on_path(OsStr::new("/bin")));
    }
}
