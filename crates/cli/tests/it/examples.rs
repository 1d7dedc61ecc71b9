//! `wirebeat examples`: what it lists, prints and writes.

use std::fs;

use crate::{Scratch, examples, line, run};

#[test]
fn every_example_is_listed_and_printed_as_it_is() {
    let listed = run(&["examples"]);
    assert_eq!((listed.code, listed.err.as_str()), (0, ""));
    let examples = examples();
    assert_eq!(listed.out.lines().count(), examples.len());
    for (name, path) in examples {
        assert!(listed.out.lines().any(|line| line.split(' ').next() == Some(&name)), "{name}");
        let printed = run(&["examples", &name]);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{name}");
        assert_eq!(printed.out, fs::read_to_string(path).unwrap(), "{name}");
    }
}

#[test]
fn examples_that_were_written_are_valid_and_have_their_files_and_interfaces() {
    let scratch = Scratch::new("examples");
    let folder = scratch.path("lab/new");
    let written =
        run(&["examples", "--write", &folder, "--set", "a=enp1s0f0", "--set", "b=enp1s0f1"]);
    let all = examples();
    let told = format!("{} examples in {folder}\n", all.len());
    assert_eq!((written.code, written.out.as_str()), (0, told.as_str()), "{written:?}");
    for (name, _) in &all {
        let path = format!("{folder}/{name}.yaml");
        let checked = run(&["check", &path]);
        assert_eq!(checked.code, 0, "{name}: {checked:?}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("a: eth1"), "{name}: {text}");
    }
    let shown = run(&["explain", &format!("{folder}/single.yaml")]);
    assert!(shown.out.contains("enp1s0f0"), "{shown:?}");
    // one that needs nothing of this machine
    let ran = run(&["run", &format!("{folder}/session-mix.yaml")]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn no_file_is_replaced_and_then_none_is_written() {
    let scratch = Scratch::new("examples-there");
    let folder = scratch.path("");
    let mine = scratch.file("sensors.wbar", b"mine");
    let refused = run(&["examples", "--write", &folder, "single", "replay"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("sensors.wbar' already"), "{refused:?}");
    assert_eq!(fs::read(&mine).unwrap(), b"mine");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    let written = run(&["examples", "--write", &folder, "single", "trace"]);
    assert_eq!(
        (written.code, written.out.as_str()),
        (0, format!("2 examples in {folder}\n").as_str())
    );
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 4);
    // a link that leads nowhere is something, too
    fs::remove_file(scratch.path("trace.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", scratch.path("trace.yaml")).unwrap();
    assert_eq!(run(&["examples", "--write", &folder, "trace"]).code, 2);
}

#[test]
fn a_variable_that_only_other_examples_have_is_a_notice() {
    let ended = line("examples dry-run --set a=x --set b=y");
    assert_eq!((ended.code, ended.err.lines().count()), (0, 2), "{ended:?}");
    assert!(ended.err.starts_with("note: --set a=x: only other examples"), "{ended:?}");
    assert!(ended.out.starts_with("# Sends nothing"), "{ended:?}");
}

#[test]
fn what_cannot_be_printed_is_told() {
    for (arguments, says) in [
        ("examples singel", "did you mean 'single'?"),
        ("examples single bursts", "several examples are not one scenario"),
        ("examples --set a=x", "a list of examples has no variables"),
        ("examples single --set d=x", "there are a, b"),
        ("examples session-mix --set d=x", "they have none"),
        ("examples single --set a", "is not a name with a value"),
        ("examples --write /proc/x single", "name a folder that you may write to"),
    ] {
        let ended = line(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments}: {ended:?}");
        assert!(ended.err.contains(says), "{arguments}: {}", ended.err);
    }
}

/// What is in other tools' words lies beside what it becomes, and is read by itself as well.
#[test]
fn examples_of_other_tools_are_what_their_conversion_prints() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for (name, original) in
        [("warp17", "warp17.cfg"), ("t-rex", "t-rex.stf"), ("t-rex-astf", "t-rex-astf.json")]
    {
        let converted = line(&format!("convert {folder}/{original}"));
        assert_eq!(converted.code, 0, "{converted:?}");
        // a file beside the script is written as it is reached from here
        let out = converted.out.replace(&format!("{folder}/"), "");
        let text = fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
        let written: Vec<&str> = text.lines().skip_while(|line| line.starts_with('#')).collect();
        let expected: Vec<&str> = out.lines().collect();
        assert_eq!(written, expected, "{name}.yaml is to be what 'convert {original}' prints");
        for file in [original, &format!("{name}.yaml")] {
            let ran = line(&format!("run {folder}/{file}"));
            assert_eq!(ran.code, 0, "{file}: {ran:?}");
            assert!(ran.out.contains("Counters consistent."), "{file}: {ran:?}");
        }
    }
}
