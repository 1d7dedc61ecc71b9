//! `wirebeat archive create` and `export`: files become archives and come back, and what is wrong with them is told.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Ended, Scratch, command, golden, line, run};

const READINGS: &[u8] = b"time,device,value\n\
    2015-07-01T19:20:30.450000+01:00,BK.SAO,-12.5\n\
    2015-07-01T19:20:31+01:00,BK.CMB,\"a, \"\"b\"\"\"\n";

fn told(ended: &Ended, wanted: &[&str]) {
    assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
    assert!(ended.err.starts_with("error: "), "{ended:?}");
    for wanted in wanted {
        assert!(ended.err.contains(wanted), "{wanted}: {}", ended.err);
    }
}

#[test]
fn the_help_is_as_reviewed() {
    for command in ["create", "export"] {
        let help = run(&["archive", command, "--help"]).out;
        golden(&format!("help/archive-{command}.txt"), &help);
    }
}

#[test]
fn readings_become_an_archive() {
    let scratch = Scratch::new("create");
    let csv = scratch.file("readings.csv", READINGS);
    let new = scratch.path("new.wbar");
    let ended = run(&["archive", "create", &new, "--csv", &csv]);
    assert_eq!((ended.code, ended.err.as_str()), (0, "2 records written\n"));
    let bytes = fs::read(&new).unwrap();
    assert_eq!(bytes[..14], *b"\0\x23\x20\x15\x07\x01\x19\x20\x30\x45\0\0\x01\0");
    assert_eq!(bytes[14..35], *b"BK.SAO\0\0\0\0\0\0\0\0\0\0-12.5");
    assert!(bytes.ends_with(b"a, \"b\""));
    assert!(run(&["archive", "verify", &new]).code == 0);
    told(&run(&["archive", "create", &new, "--csv", &csv]), &["it is there already"]);
    assert_eq!(fs::read(&new).unwrap(), bytes);
}

#[test]
fn a_bad_line_is_named_and_nothing_is_left() {
    let scratch = Scratch::new("create-bad");
    let csv = scratch.file("bad.csv", &[READINGS, b"2015-02-30T00:00:00Z,x,1\n"].concat());
    let new = scratch.path("new.wbar");
    let ended = run(&["archive", "create", &new, "--csv", &csv]);
    told(&ended, &["line 4, column 'time', '2015-02-30T00:00:00Z'", "2015-02 has no day 30"]);
    assert!(!scratch.0.join("new.wbar").exists());
    let ended = run(&["archive", "create", &new, "--csv", &csv, "--on-bad", "skip"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended.err.starts_with(
            "2 records written, and 1 row skipped:\n  1 with an impossible time; the first is line 4, "
        ),
        "{}",
        ended.err
    );
    told(&run(&["archive", "create", "-", "--csv", "/nonexistent"]), &["cannot read it"]);
}

/// The rows behind an open quote were one record with it, without a word.
#[test]
fn an_open_quote_is_told_with_its_line_and_left_out_alone() {
    let scratch = Scratch::new("create-quote");
    let row = "2015-07-01T19:20:31+01:00,BK.CMB,7\n";
    let text =
        format!("{}2015-07-01T19:20:31+01:00,x,\"1\n{}", "time,device,value\n", row.repeat(4));
    let csv = scratch.file("open.csv", text.as_bytes());
    let new = scratch.path("new.wbar");
    let ended = run(&["archive", "create", &new, "--csv", &csv]);
    told(&ended, &["line 2, column 'value', '\\\"1'", "not closed on its line", "--quoted-lines"]);
    let ended = run(&["archive", "create", &new, "--csv", &csv, "--on-bad", "skip"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = "4 records written, and 1 row skipped:\n  1 with a quote that is not closed; the first is line 2, ";
    assert!(ended.err.starts_with(told), "{}", ended.err);
}

#[test]
fn packed_tables_are_read_and_damaged_ones_leave_nothing() {
    let scratch = Scratch::new("create-packed");
    let csv = scratch.file("readings.csv", READINGS);
    let plain = scratch.path("plain.wbar");
    assert_eq!(run(&["archive", "create", &plain, "--csv", &csv]).code, 0);
    let gzip = Command::new("gzip").args(["-c", &csv]).output().unwrap().stdout;
    assert_eq!(gzip[..2], *b"\x1f\x8b");
    // by its bytes and not by its name, and from standard input
    let packed = scratch.file("packed.csv", &gzip);
    let new = scratch.path("new.wbar");
    let ended = run(&["archive", "create", &new, "--csv", &packed]);
    assert_eq!((ended.code, ended.err.as_str()), (0, "2 records written\n"));
    assert_eq!(fs::read(&new).unwrap(), fs::read(&plain).unwrap());
    let piped = scratch.path("piped.wbar");
    let mut child = command(&["archive", "create", &piped, "--csv", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(&piped).unwrap(), fs::read(&plain).unwrap());
    let cut = scratch.file("cut.csv.gz", &gzip[..gzip.len() - 9]);
    let none = scratch.path("none.wbar");
    let ended = run(&["archive", "create", &none, "--csv", &cut]);
    told(&ended, &["cut.csv.gz: reading after line", "the gzip data is damaged or cut off"]);
    assert!(!scratch.0.join("none.wbar").exists());
}

/// Times with nanoseconds were refused. They go through every tool, and come back to the byte.
#[test]
fn nanoseconds_are_kept_or_rounded_by_choice() {
    let scratch = Scratch::new("nanoseconds");
    let row = |ns: u32| format!("2015-07-01T19:20:30.450000{ns:03}+01:00,a,42\n");
    let text = "time,device,data\n".to_owned() + &[1, 2, 2, 750].map(row).concat();
    let csv = scratch.file("fine.csv", text.as_bytes());
    let (fine, again) = (scratch.path("fine.wbar"), scratch.path("again.csv"));
    let done = |arguments: &[&str]| {
        let ended = run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        ended
    };
    done(&["archive", "create", &fine, "--csv", &csv]);
    let bytes = fs::read(&fine).unwrap();
    assert_eq!((bytes[2], bytes[12..14].to_vec()), (0xf1, vec![1, 0]));
    done(&["archive", "export", &fine, &again, "--data-form", "text"]);
    assert_eq!(fs::read_to_string(&again).unwrap(), text);
    let columns = scratch.path("fine.parquet");
    told(&run(&["archive", "export", &fine, &columns]), &["writing record 0", "--time-unit ns"]);
    done(&["archive", "export", &fine, &columns, "--time-unit", "ns"]);
    let back = scratch.path("back.wbar");
    done(&["archive", "create", &back, "--parquet", &columns]);
    assert_eq!(fs::read(&back).unwrap(), bytes);
    done(&["archive", "verify", &fine]);
    let inspected = done(&["archive", "inspect", &fine]).out;
    assert!(
        inspected.contains("max 748 ns") && inspected.contains(".450000001+01:00"),
        "{inspected}"
    );
    // the second moment is taken, the last is not
    let part = scratch.path("part.wbar");
    let (from, to) = ("2015-07-01T18:20:30.450000002Z", "2015-07-01T18:20:30.450000750Z");
    done(&["archive", "slice", &fine, &part, "--from", from, "--to", to]);
    assert_eq!(fs::read(&part).unwrap(), bytes[32..3 * 32]);
    let merged = scratch.path("merged.wbar");
    done(&["archive", "merge", &merged, &part, &fine]);
    done(&["archive", "verify", &merged]);
    let rounded = scratch.path("rounded.wbar");
    done(&["archive", "create", &rounded, "--csv", &csv, "--round-times", "us"]);
    let bytes = fs::read(&rounded).unwrap();
    assert_eq!(bytes[2..14], *b"\x20\x15\x07\x01\x19\x20\x30\x45\0\0\x01\0");
    done(&["archive", "export", &rounded, &scratch.path("rounded.csv")]);
    let text = fs::read_to_string(scratch.path("rounded.csv")).unwrap();
    assert!(text.contains("30.450000+01:00") && text.contains("30.450001+01:00"), "{text}");
}

#[test]
fn options_say_what_the_columns_are() {
    let scratch = Scratch::new("create-options");
    let csv = scratch.file("log.csv", b"1435774830000;aa\n1435774830001.5;bb\n");
    let new = scratch.path("new.wbar");
    let ended = line(&format!(
        "archive create {new} --csv {csv} --no-names --delimiter ; --time-column 1 --time-form ms \
         --zone -01:00 --device one --data-column 2 --data-form hex"
    ));
    assert_eq!(ended.code, 0, "{ended:?}");
    let bytes = fs::read(&new).unwrap();
    assert_eq!(bytes[2..14], *b"\x20\x15\x07\x01\x17\x20\x30\0\0\0\x81\0");
    assert_eq!(bytes[30..31], *b"\xaa");
}

#[test]
fn what_does_not_go_together_is_told() {
    for (arguments, wanted) in [
        ("archive create -", &["is missing"][..]),
        ("archive create - --csv a --synthetic", &["do not go together"]),
        ("archive create - --synthetic", &["give two of --records, --duration and --sampling"]),
        ("archive create - --synthetic --records 5", &["give two of"]),
        (
            "archive create - --synthetic --records 5 --duration 1s --sampling 1s",
            &["say too much together", "give two of them"],
        ),
        ("archive create - --synthetic --records 5 --zone Z", &["do not go together"]),
        ("archive create - --csv a --seed 5", &["do not go together"]),
        ("archive create - --csv a --parquet b", &["do not go together"]),
        ("archive create - --parquet a --delimiter ;", &["do not go together"]),
        ("archive create - --csv a --zone +15:00", &["is not a zone", "--zone +15:00"]),
        ("archive create - --csv a --delimiter ab", &["cannot separate fields"]),
        ("archive create - --csv a --time-form x", &["write iso, s, ms, us or ns"]),
        ("archive create - --synthetic --records 5 --sampling 1ns", &["whole number of us"]),
        ("archive create - --synthetic --records 5 --sampling 1s --size 9-1", &["go upwards"]),
        ("archive create - --csv a --device b --device-column c", &["do not go together"]),
    ] {
        told(&line(arguments), wanted);
    }
}

#[test]
fn archives_become_tables_and_come_back_to_the_byte() {
    let scratch = Scratch::new("export");
    let csv = scratch.file("readings.csv", READINGS);
    let old = scratch.path("old.wbar");
    assert_eq!(run(&["archive", "create", &old, "--csv", &csv]).code, 0);
    for (number, (name, kind, more)) in [
        ("a.csv", "--csv", &[][..]),
        ("b.CSV", "--csv", &["--data-form", "base64"]),
        ("c.txt", "--csv", &["--format", "csv", "--data-form", "text"]),
        ("d.parquet", "--parquet", &[]),
        ("e.parquet", "--parquet", &["--packing", "snappy"]),
    ]
    .into_iter()
    .enumerate()
    {
        let table = scratch.path(name);
        let ended = run(&[&["archive", "export", &old, &table], more].concat());
        assert_eq!((ended.code, ended.err.as_str()), (0, "2 records written\n"), "{name}");
        let new = scratch.path(&format!("{number}.wbar"));
        assert_eq!(run(&["archive", "create", &new, kind, &table]).code, 0, "{name}");
        assert!(fs::read(&new).unwrap() == fs::read(&old).unwrap(), "{name}");
        told(
            &run(&["archive", "export", &old, &table, "--format", "csv"]),
            &["it is there already"],
        );
    }
    let text = fs::read_to_string(scratch.path("c.txt")).unwrap();
    let expected = String::from_utf8(READINGS.to_vec()).unwrap().replace("value", "data");
    assert_eq!(text, expected);
    let hex = run(&["archive", "export", &old, "-", "--format", "csv"]).out;
    assert!(
        hex.starts_with(
            "time,device,data_hex\n2015-07-01T19:20:30.450000+01:00,BK.SAO,2d31322e35\n"
        )
    );
}

/// The way to an archive in order leads over a table.
#[test]
fn archives_in_no_order_are_exported_too() {
    let scratch = Scratch::new("export-order");
    let rows = b"time,id,data\n2015-07-01T00:00:02Z,x,b\n2015-07-01T00:00:01Z,x,a\n";
    let csv = scratch.file("back.csv", rows);
    let (old, table) = (scratch.path("old.wbar"), scratch.path("new.csv"));
    assert_eq!(run(&["archive", "create", &old, "--csv", &csv, "--any-order"]).code, 0);
    assert_eq!(run(&["archive", "verify", &old]).code, 1);
    assert_eq!(run(&["archive", "export", &old, &table]).code, 0);
    let new = scratch.path("new.wbar");
    assert_eq!(run(&["archive", "create", &new, "--csv", &table, "--any-order"]).code, 0);
    assert!(fs::read(&new).unwrap() == fs::read(&old).unwrap());
}

#[test]
fn what_cannot_be_exported_or_read_is_told() {
    let scratch = Scratch::new("export-wrong");
    let csv = scratch.file("bytes.csv", b"time,id,data_hex\n2015-07-01T00:00:00Z,x,ff\n");
    let old = scratch.path("old.wbar");
    assert_eq!(run(&["archive", "create", &old, "--csv", &csv]).code, 0);
    let text = scratch.path("new.csv");
    let ended = run(&["archive", "export", &old, &text, "--data-form", "text"]);
    told(&ended, &["record 0: the data is not text of UTF-8", "--data-form hex"]);
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2);
    told(&run(&["archive", "export", &old, "new"]), &["say it with --format: csv or parquet"]);
    told(&run(&["archive", "export", &old, "a.csv", "--packing", "none"]), &["for Parquet alone"]);
    let form = ["archive", "export", &old, "a.parquet", "--data-form", "hex"];
    told(&run(&form), &["for CSV alone"]);
    let stdin = line("archive create - --parquet -");
    told(&stdin, &["read from a file alone", "write it to a file first"]);
    let no_parquet = run(&["archive", "create", "-", "--parquet", &csv]);
    told(&no_parquet, &["bytes.csv", "it cannot be read as Parquet"]);
}

#[test]
fn what_is_made_up_is_the_same_for_the_same_seed() {
    let scratch = Scratch::new("synthetic");
    let made = |name: &str, more: &str| {
        let new = scratch.path(name);
        let ended = line(&format!(
            "archive create {new} --synthetic --devices 3 --duration 1s --sampling 1ms {more}"
        ));
        assert_eq!((ended.code, ended.err.as_str()), (0, "3,000 records written\n"), "{more}");
        assert!(run(&["archive", "verify", &new]).out.contains("3,000 records"));
        fs::read(new).unwrap()
    };
    let one = made("a", "");
    assert_eq!(one.len(), 3000 * 58);
    assert!(one == made("b", "--seed 1") && one != made("c", "--seed 2"));
    assert!(one != made("d", "--spread --start 2015-07-01T19:20:30+01:00 --size 1-9"));
}

#[test]
fn an_interrupted_one_leaves_nothing() {
    let scratch = Scratch::new("create-stopped");
    let new = scratch.path("new.wbar");
    let mut child = command(&["archive", "create", &new, "--synthetic"])
        .args(["--records", "1000000000000", "--sampling", "1us", "--size", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // wherever it is once it has begun
    let patience = Instant::now() + Duration::from_secs(20);
    while fs::read_dir(&scratch.0).unwrap().count() == 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn what_is_in_a_table_does_nothing_on_a_terminal() {
    let scratch = Scratch::new("wild-table");
    let table =
        scratch.file("wild.csv", "time,dev\x1b]0;owned\x07\u{9b}2J,data\n5,x,y\n".as_bytes());
    let archive = scratch.path("wild.wbar");
    let ended = run(&["archive", "create", &archive, "--csv", &table, "--time-column", "nope"]);
    let acts = |c: char| c.is_control() && c != '\n';
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("]0;owned"), "the columns are named: {ended:?}");
    assert!(!(ended.out.clone() + &ended.err).contains(acts), "{ended:?}");
}
