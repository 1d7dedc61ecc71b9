//! Peers that are missing are installed from Debian or Ubuntu. What cannot be installed is a row that
//! says so.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use wirebeat_testbed::{Capability, require};

use crate::peers;
use crate::sections::pressure;

/// Programs beside those of the peers, and their packages.
const OTHERS: [(&str, &str); 5] = [
    ("tcpdump", "tcpdump"),
    ("taskset", "util-linux"),
    ("setpriv", "util-linux"),
    ("chrt", "util-linux"),
    ("ping", "iputils-ping"),
];

/// All programs that the benchmark starts, and their packages.
fn programs() -> impl Iterator<Item = (&'static str, &'static str)> {
    OTHERS
        .into_iter()
        .chain(pressure::PROGRAMS)
        .chain(peers::ALL.iter().map(|peer| (peer.program, peer.package)))
}

/// Packages of programs that are not there, of those that are wanted.
fn missing(wanted: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let absent = |program| require(Capability::Program(program)).is_err();
    let absent = programs().filter(|(program, _)| absent(program)).map(|(_, package)| package);
    absent.filter(|package| wanted(package)).collect()
}

/// Installs packages that are wanted and missing, where there is a way to.
pub fn install(wanted: impl Fn(&str) -> bool) {
    let packages = missing(wanted);
    if packages.is_empty() {
        return;
    }
    if require(Capability::Program("apt-get")).is_err() {
        eprintln!("there is no apt-get here; missing: {}", words(&packages));
        return;
    }
    eprintln!("installing {}", words(&packages));
    apt_get(&["update", "-qq"], &BTreeSet::new());
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    // one that is unknown here must not keep the others out
    if !apt_get(&install, &packages) {
        for package in packages {
            apt_get(&install, &BTreeSet::from([package]));
        }
    }
}

fn words(packages: &BTreeSet<&str>) -> String {
    packages.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Whether it succeeded.
fn apt_get(arguments: &[&str], packages: &BTreeSet<&str>) -> bool {
    let status = Command::new("apt-get")
        .args(arguments)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// The installed version of a package, as Debian numbers it.
pub fn version(package: &str) -> Option<String> {
    let query = ["-W", "-f", "${Version}", package];
    let output = Command::new("dpkg-query").args(query).stderr(Stdio::null()).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !version.is_empty()).then_some(version)
}
