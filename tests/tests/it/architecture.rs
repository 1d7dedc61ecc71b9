//! Dependencies run one way: the edges between crates are held against one table.
//!
//! The table is section 1 of the design as a list: a crate stands below those that it may know. An
//! edge that is not in it fails here, with the rule that it breaks. To add a crate, add its row; to
//! add an edge, ask first whether the rule beside it still holds.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::workspace::{Dependency, Kind, Package, Workspace, short};

/// What one crate may know.
struct Row {
    name: &'static str,
    /// Crates of this workspace that it may depend on.
    may_know: &'static [&'static str],
    /// Crates that its tests may depend on as well.
    tests: &'static [&'static str],
    /// Why not others.
    rule: &'static str,
}

const TABLE: &[Row] = &[
    Row { name: "units", may_know: &[], tests: &[], rule: "units stand on nothing" },
    Row {
        name: "wire",
        may_know: &["units"],
        tests: &[],
        rule: "bytes of headers and probes know nothing of what is sent, or how",
    },
    Row {
        name: "stack",
        may_know: &["units", "wire"],
        tests: &[],
        rule: "TCP is segments and times in, segments and events out: no ports, programs or clocks",
    },
    Row {
        name: "neighbours",
        may_know: &["units", "wire"],
        tests: &["engine", "engine-linux", "netlink", "testbed"],
        rule: "next hops are frames and times in, frames out: no ports, TCP or clocks",
    },
    Row {
        name: "http",
        may_know: &[],
        tests: &[],
        rule: "HTTP is bytes in, meaning out: no sessions, sockets or clocks",
    },
    Row {
        name: "dns",
        may_know: &[],
        tests: &[],
        rule: "DNS is bytes in, meaning out: no sessions, sockets or clocks",
    },
    Row {
        name: "packetdrill",
        may_know: &["units", "stack"],
        tests: &[],
        rule: "packetdrill's scripts see the stack alone, through the calls of sockets",
    },
    Row {
        name: "traffic",
        may_know: &["units", "wire", "dns"],
        tests: &["testbed"],
        rule: "what to send and when knows no engines, threads, sockets or clocks",
    },
    Row {
        name: "archive",
        may_know: &["units", "wire"],
        tests: &[],
        rule: "what can be replayed is files and formats; how it is sent is not their business",
    },
    Row {
        name: "import",
        may_know: &["units", "wire", "traffic"],
        tests: &[],
        rule: "another tool's script becomes a scenario; how that is run is not its business",
    },
    Row {
        name: "meter",
        may_know: &["units", "wire"],
        tests: &[],
        rule: "a measurement does not know where packets came from",
    },
    Row {
        name: "capture",
        may_know: &["units", "wire", "archive", "meter"],
        tests: &["testbed"],
        rule: "what is kept of frames that were seen does not know which engine saw them",
    },
    Row {
        name: "converse",
        may_know: &["units", "meter", "traffic", "http", "dns"],
        tests: &[],
        rule: "programs of sessions do not know whose TCP speaks: no sockets, clocks or packets",
    },
    Row {
        name: "engine",
        may_know: &["units", "wire", "traffic", "meter"],
        tests: &[],
        rule: "the drive loop does not know which engine it drives",
    },
    Row {
        name: "endpoint",
        may_know: &[
            "units",
            "wire",
            "traffic",
            "meter",
            "engine",
            "converse",
            "stack",
            "neighbours",
        ],
        tests: &[],
        rule: "our TCP on a port moves packets between the two and knows no engine by name",
    },
    Row {
        name: "netlink",
        may_know: &["units", "wire"],
        tests: &[],
        rule: "links and addresses know nothing of engines or flows",
    },
    Row {
        name: "host",
        may_know: &["units", "netlink"],
        tests: &[],
        rule: "facts about a machine do not know what they are used for",
    },
    Row {
        name: "sockets",
        may_know: &["units", "converse", "host"],
        tests: &["testbed"],
        rule: "connections of the system know nothing of programs",
    },
    Row {
        name: "iperf",
        may_know: &["units", "host", "sockets"],
        tests: &["testbed"],
        rule: "another tool's wire knows nothing of scenarios, runs and reports",
    },
    Row {
        name: "ditg",
        may_know: &["units", "host", "meter", "sockets"],
        tests: &["testbed"],
        rule: "another tool's signalling and flows know nothing of scenarios, runs and reports",
    },
    Row {
        name: "tls",
        may_know: &["units", "converse"],
        tests: &["meter", "traffic"],
        rule: "TLS lies between any programs and any TCP: no sockets, packets or clocks",
    },
    Row {
        name: "engine-linux",
        may_know: &["units", "wire", "meter", "engine", "netlink"],
        tests: &["traffic", "testbed"],
        rule: "an engine moves frames and does not know flows",
    },
    Row {
        name: "report",
        may_know: &["units", "meter"],
        tests: &[],
        rule: "a report is made from plain numbers, never from live objects",
    },
    Row {
        name: "search",
        may_know: &[],
        tests: &[],
        rule: "a search is trials in, the next load out: no runs, devices or clocks",
    },
    Row {
        name: "explain",
        may_know: &["units", "traffic", "report"],
        tests: &[],
        rule: "what a scenario means is read from its program; no machine and no engine is asked",
    },
    Row {
        name: "testbed",
        may_know: &["netlink", "units"],
        tests: &[],
        rule: "a testbed lays cables and does not know what runs over them",
    },
    Row {
        name: "device",
        may_know: &["netlink", "testbed"],
        tests: &[],
        rule: "what is tested knows nothing of the tester",
    },
    Row {
        name: "run",
        may_know: &[
            "stack",
            "neighbours",
            "endpoint",
            "units",
            "wire",
            "traffic",
            "archive",
            "meter",
            "capture",
            "converse",
            "dns",
            "iperf",
            "ditg",
            "sockets",
            "tls",
            "engine",
            "engine-linux",
            "netlink",
            "host",
            "report",
        ],
        tests: &["testbed", "import"],
        rule: "a run does not know how it was asked for",
    },
    Row {
        name: "methods",
        may_know: &["units", "traffic", "search", "report", "run"],
        tests: &["testbed", "device"],
        rule: "a test is many runs on one lab: it knows the lab from above, as a control plane does",
    },
    Row {
        name: "cli",
        may_know: &[
            "units", "traffic", "archive", "import", "explain", "capture", "report", "run",
            "methods", "testbed",
        ],
        tests: &[],
        rule: "a control plane knows the language, a run and its report; what is below is the run's",
    },
];

/// Crates without input and output, and all that they may use from elsewhere: data, not systems.
const PURE: [&str; 11] = [
    "units",
    "wire",
    "stack",
    "neighbours",
    "http",
    "traffic",
    "import",
    "explain",
    "meter",
    "report",
    "search",
];
const PURE_MAY_USE: [&str; 19] = [
    "base64",
    "crc32c",
    "httparse",
    "humantime",
    "indexmap",
    "libm",
    "maud",
    "memchr",
    "pcap-file",
    "prometheus-client",
    "quick-junit",
    "rand_core",
    "rand_distr",
    "schemars",
    "serde",
    "serde-saphyr",
    "serde_json",
    "sha2",
    "thiserror",
];

/// The crates for which there is no row: they stand above the table, and nothing may know them.
const ABOVE: [&str; 2] = ["bench", "tests"];

#[test]
fn every_edge_between_crates_is_in_the_table() {
    let workspace = Workspace::load();
    let mut violations = Vec::new();
    for package in workspace.members().filter(|package| !ABOVE.contains(&package.short())) {
        let Some(row) = TABLE.iter().find(|row| row.name == package.short()) else {
            violations.push(format!("{} has no row in the table: add one", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(target) = short(&dependency.name) else { continue };
            let in_tests = dependency.kind == Kind::Dev && row.tests.contains(&target);
            if !row.may_know.contains(&target) && !in_tests {
                violations.push(format!("{} → {}: {}", package.name, dependency.name, row.rule));
            }
        }
    }
    assert_none(&violations, "edges that break a rule of the architecture");
}

#[test]
fn the_table_has_no_circles_and_no_dead_rows() {
    let workspace = Workspace::load();
    let members: BTreeSet<&str> = workspace.members().map(Package::short).collect();
    let mut above = BTreeSet::new();
    for row in TABLE {
        assert!(members.contains(row.name), "there is no crate wirebeat-{}", row.name);
        for known in row.may_know {
            assert!(above.contains(known), "{}: the row of {known} must come before it", row.name);
        }
        above.insert(row.name);
    }
}

#[test]
fn pure_crates_use_nothing_that_could_reach_the_system() {
    let workspace = Workspace::load();
    let pure = |package: &&Package| PURE.contains(&package.short());
    assert_eq!(workspace.members().filter(pure).count(), PURE.len());
    let mut violations = Vec::new();
    for package in workspace.members().filter(pure) {
        let foreign = |dependency: &&Dependency| {
            dependency.kind == Kind::Normal
                && short(&dependency.name).is_none()
                && !PURE_MAY_USE.contains(&dependency.name.as_str())
        };
        for dependency in package.dependencies.iter().filter(foreign) {
            violations.push(format!("{} → {}", package.name, dependency.name));
        }
    }
    assert_none(&violations, "pure crates depend on data formats only");
}
