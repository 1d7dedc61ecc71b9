//! A recording of which nothing is to be sent is an error before anything is, and the error says what there is.

use super::*;

/// Why a replay does not begin.
fn why(path: &Path, keys: &str) -> String {
    let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", file("none").display());
    let scenario = Scenario::from_yaml(&scenario(path, &ports, keys, ""), "test").unwrap();
    match prepare(&scenario, Options::default()) {
        Err(error @ RunError::Usage(_)) => {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it began"),
    }
}

#[test]
fn a_device_that_is_not_there_is_no_success() {
    let path = archive("no-device", &lines());
    let told = why(&path, "devices: [device-x]");
    let files = path.display();
    assert_eq!(
        told,
        format!(
            "flow 'x': nothing to send: there is no device 'device-x' in '{files}'; did you mean 'device-0'?"
        )
    );
    let told = why(&path, "devices: [NOPE]");
    let all = "device-0, device-1, device-2, device-3, device-4";
    assert!(told.ends_with(&format!("no device 'NOPE' in '{files}'; there are {all}")), "{told}");
    // before the run, too, where it is read into memory
    assert!(why(&path, "devices: ['NO*'], preload: true").contains("no device 'NO*'"));
}

#[test]
fn a_time_that_has_no_records_is_no_success() {
    let path = archive("no-time", &lines());
    let told = why(&path, "from: 2030-01-01T00:00:00Z");
    assert!(
        told.ends_with(
            "lies at 2030-01-01T00:00:00Z or after it; its records are from 2015-07-01T18:20:30Z to \
             2015-07-01T18:20:30.033250Z"
        ),
        "{told}"
    );
    let told = why(&path, "to: 2015-01-01T00:00:00Z, devices: [device-1]");
    assert!(
        told.contains("no record of 'device-1' in ") && told.contains("before 2015-"),
        "{told}"
    );
}

#[test]
fn an_empty_archive_is_no_success() {
    let path = archive("empty", &[]);
    assert!(why(&path, "").ends_with(&format!("there is no record in '{}'", path.display())));
    assert!(why(&path, "loop: 3, preload: true").contains("there is no record in "));
}

#[test]
fn what_is_all_left_out_is_no_success() {
    let path = archive("all-left-out", &[(0, 0, 40), (10, 0, 40)]);
    let table = file("nobody");
    std::fs::write(&table, "device-9,0\n").unwrap();
    let told = why(&path, &format!("flow-of: {{ table: '{}' }}, on-bad: skip", table.display()));
    assert!(told.contains("all of it was left out (2 of devices without a flow; "), "{told}");
}
