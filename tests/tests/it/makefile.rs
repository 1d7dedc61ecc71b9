//! The Makefile and the scripts behind it, as somebody at a terminal meets them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::assert_none;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Two names were longer than their column, and what they do began right behind them.
#[test]
fn make_help_keeps_its_columns_apart() {
    let help = Command::new("make").arg("help").current_dir(root()).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines: Vec<&str> = help.lines().filter(|line| line.starts_with("  make ")).collect();
    assert!(lines.len() > 9, "{help}");
    let column = |line: &str| {
        let name = line.strip_prefix("  make ")?.split_once("  ")?.0;
        let says = line.get(7 + name.len()..)?.trim_start();
        says.starts_with(char::is_uppercase).then_some(line.len() - says.len())
    };
    let first = column(lines[0]);
    let wrong = lines.iter().filter(|line| column(line).is_none() || column(line) != first);
    let wrong: Vec<String> = wrong.map(|line| (*line).to_owned()).collect();
    assert_none(&wrong, "each target says in one column what it does");
}

/// The program that is installed was four times as long as what it needs to run.
#[test]
fn debug_information_moves_to_a_file_beside_the_program() {
    let folder = env::temp_dir().join(format!("wb-split-debug-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (program, debug) = (folder.join("program"), folder.join("program.debug"));
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let len = |path: &Path| fs::metadata(path).unwrap().len();
    let whole = len(&program);
    let split = || {
        let script = root().join("scripts/split-debug.sh");
        assert!(Command::new(script).arg(&program).status().unwrap().success());
        (len(&program), len(&debug))
    };
    let (stripped, debug_len) = split();
    assert!(stripped < whole && debug_len > 0, "{whole} B: {stripped} B and {debug_len} B");
    // it runs, says where the rest is, and a second time changes nothing
    assert!(Command::new(&program).arg("--list").output().unwrap().status.success());
    let link = Command::new("readelf").args(["-p", ".gnu_debuglink"]).arg(&program).output();
    // a checksum of the rest stands behind its name, and need not be text
    let link = String::from_utf8_lossy(&link.unwrap().stdout).into_owned();
    assert!(link.contains("program.debug"), "{link}");
    assert_eq!(split(), (stripped, debug_len));
    fs::remove_dir_all(folder).unwrap();
}
