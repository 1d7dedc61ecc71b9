//! `wirebeat report`: what it says of files that are no packet logs. What it makes of logs is tested beside `report_log`.

use std::fs;

use crate::{Scratch, run};

#[test]
fn a_file_that_is_no_packet_log_is_told_with_its_remedy() {
    let scratch = Scratch::new("report");
    let missing = scratch.path("missing.parquet");
    let other = scratch.path("other.parquet");
    fs::write(&other, "time,port\n1,a\n").unwrap();
    for (file, told, hint) in [
        (&missing, "cannot be read", "name a packet log in Parquet"),
        (&other, "is no packet log", "give a .parquet file that was written with --packet-log"),
    ] {
        for arguments in [vec!["report", file], vec!["report", "--repair", file]] {
            let ended = run(&arguments);
            assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
            assert!(ended.err.contains(told) && ended.err.contains(hint), "{}", ended.err);
            assert!(ended.err.contains(file.as_str()), "{}", ended.err);
        }
        let ended = run(&["report", file, "--json"]);
        assert!(ended.code == 2 && ended.out.contains("\"exit_code\": 2"), "{ended:?}");
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "time,port\n1,a\n");
}
