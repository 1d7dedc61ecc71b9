//! The Python package in `python/`: its own tests against this command, and that pip installs it.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use wirebeat_testbed::{Capability, End, require};

use crate::Scratch;
use crate::whole::cable;

fn package() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python"))
}

/// A Python that finds the package and this command, and leaves nothing beside its sources.
fn python(program: &str) -> Command {
    let mut python = Command::new(program);
    python.env("PYTHONPATH", package().join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("WIREBEAT", env!("CARGO_BIN_EXE_wirebeat")).env_remove("WIREBEAT_TEST_CABLE");
    python
}

/// Runs the tests of this name; says how many passed.
fn tests(mut python: Command, name: &str) -> usize {
    python.args(["-W", "error", "-m", "unittest", "discover", "-v", "-k", name, "-s"]);
    let ended = python.arg(package().join("tests")).output().unwrap();
    let said = told(&ended);
    assert!(ended.status.success(), "{said}");
    assert!(!said.contains("skipped"), "{said}");
    said.lines().filter(|line| line.ends_with("... ok")).count()
}

fn told(ended: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&ended.stdout) + &text(&ended.stderr)
}

#[test]
fn its_tests_pass_in_memory() {
    require!(Capability::Program("python3"));
    for group in ["RunTest", "ErrorTest", "IntervalTest"] {
        assert!(tests(python("python3"), group) > 1, "{group}");
    }
}

#[test]
fn its_tests_pass_over_a_cable() {
    require!(Capability::Program("python3"), Capability::NetworkNamespaces);
    let bed = cable();
    let end = |end: &End| {
        let space = end.namespace.as_fd().as_raw_fd();
        format!("{} /proc/{}/fd/{space}", end.interface(), std::process::id())
    };
    let mut python = python("python3");
    python.env("WIREBEAT_TEST_CABLE", format!("{} {}", end(&bed.a), end(&bed.b)));
    assert!(tests(python, "CableTest") > 2);
}

#[test]
fn its_version_is_that_of_the_command() {
    let project = fs::read_to_string(package().join("pyproject.toml")).unwrap();
    assert!(project.contains(&format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"))));
}

/// Copies a folder: pip builds beside the sources.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => _ = fs::copy(&from, &to).unwrap(),
        }
    }
}

#[test]
fn pip_installs_it_without_a_network() {
    let builds = |program: &&str| {
        let script = "import importlib.util as of; assert all(map(of.find_spec, ('pip', 'setuptools', 'wheel')))";
        let imports = Command::new(program).args(["-c", script]).output();
        imports.is_ok_and(|ended| ended.status.success())
    };
    let Some(program) = ["python3", "/usr/bin/python3"].into_iter().find(builds) else {
        require!(Capability::Program("python3 with pip, setuptools and wheel"));
        return;
    };
    let scratch = Scratch::new("pip");
    let (source, target) = (scratch.path("source"), scratch.path("target"));
    copy(&package(), Path::new(&source));
    let line = ["-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation"];
    let mut pip = Command::new(program);
    pip.args(line).args(["--target", &target, &source]).env("PIP_NO_INPUT", "1");
    let ended = pip.current_dir(&scratch.0).env("PIP_CACHE_DIR", scratch.path("cache")).output();
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{}", told(&ended));
    let mut installed = python(program);
    let script =
        "import wirebeat, importlib.metadata as m; print(wirebeat.__file__, m.version('wirebeat'))";
    let ended = installed.env("PYTHONPATH", &target).args(["-c", script]).output().unwrap();
    let said = told(&ended);
    assert!(said.starts_with(&target), "{said}");
    assert!(said.trim_end().ends_with(env!("CARGO_PKG_VERSION")), "{said}");
    assert!(Path::new(&target).join("wirebeat/py.typed").exists());
}
