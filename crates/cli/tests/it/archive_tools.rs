//! `archive inspect`, `verify`, `slice`, `merge` and `index`.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wirebeat_archive::time_series::{Device, Record, Timestamp, Writer};

use crate::{Ended, Scratch, command, golden, run};

/// 2015-07-01T18:20:30Z.
const BEGIN_US: i64 = 1_435_774_830_000_000;

/// Records at so many microseconds, of these devices, with data of so many bytes.
fn archive(records: impl IntoIterator<Item = (i64, &'static str, usize)>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (number, (us, device, len)) in records.into_iter().enumerate() {
        let time = Timestamp::new(BEGIN_US + us, 60).unwrap();
        let device: Device = device.parse().unwrap();
        let data: Vec<u8> = (0..len).map(|byte| (byte + number) as u8).collect();
        writer.write(&Record { time, device, data: &data }).unwrap();
    }
    writer.finish().unwrap()
}

/// A second with a record each 5 µs.
fn second() -> Vec<u8> {
    let device = |number: i64| ["BK.SAO", "BK.CMB", "BG.HER", "NC.MMX"][number as usize % 4];
    archive((0..200_000).map(|number| (number * 5, device(number), 8)))
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn done(arguments: &[&str]) -> Ended {
    let ended = run(arguments);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

#[test]
fn help_texts_of_the_tools_are_as_reviewed() {
    for tool in ["inspect", "verify", "slice", "merge", "sort", "index"] {
        let ended = done(&["archive", tool, "--help"]);
        golden(&format!("help/archive-{tool}.txt"), &ended.out);
    }
}

#[test]
fn archives_are_merged_by_time() {
    let scratch = Scratch::new("merge");
    let a = scratch.file("a", &archive([(0, "a", 1), (7, "a", 2), (7, "a", 3)]));
    let b = scratch.file("b", &archive([(-5, "b", 1), (7, "b", 1), (9, "b", 1)]));
    let new = scratch.path("new");
    let ended = done(&["archive", "merge", &new, &a, &b]);
    assert_eq!(ended.err, "6 records written, of 2 archives\n");
    let (a_bytes, b_bytes) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
    let expected = [&b_bytes[..31], &a_bytes, &b_bytes[31..]].concat();
    assert_eq!(fs::read(&new).unwrap(), expected);
    // an archive that is out of order, one that is there, and standard input twice
    let bad = scratch.file("bad", &archive([(7, "b", 1), (6, "b", 1)]));
    let ended = run(&["archive", "merge", &scratch.path("other"), &a, &bad]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("bad: record 1 at byte 31: its time"), "{}", ended.err);
    assert!(!fs::exists(scratch.path("other")).unwrap());
    let ended = run(&["archive", "merge", &new, &a]);
    assert!(ended.code == 2 && ended.err.contains("it is there already"), "{ended:?}");
    let ended = run(&["archive", "merge", &scratch.path("other"), "-", "-"]);
    assert!(ended.code == 2 && ended.err.contains("standard input is named twice"), "{ended:?}");
    // what was skipped is told
    let ended = done(&["archive", "merge", &scratch.path("other"), &a, &bad, "--on-bad", "skip"]);
    assert!(ended.err.contains("bad: 1 record left out, 31 B"), "{}", ended.err);
}

#[test]
fn more_archives_than_files_may_be_open_are_refused_with_a_remedy() {
    let scratch = Scratch::new("merge-many");
    let a = scratch.file("a", &archive([(0, "a", 1)]));
    let many = vec![a.as_str(); 100];
    let limited = |limit: &str| {
        let program = env!("CARGO_BIN_EXE_wirebeat");
        let new = scratch.path(&format!("new{}", limit.replace(' ', "")));
        let ended = std::process::Command::new("sh")
            .args(["-c", &format!("ulimit {limit}; exec \"$0\" archive merge \"$@\""), program])
            .arg(new)
            .args(&many)
            .output()
            .unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let (code, told) = limited("-n 64");
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("100 archives are more files") && told.contains("hint: raise"), "{told}");
    // a soft limit is raised
    assert_eq!(limited("-S -n 64"), (Some(0), "100 records written, of 100 archives\n".to_owned()));
}

#[test]
fn a_slice_is_the_same_with_an_index_and_without() {
    let scratch = Scratch::new("slice-index");
    let day = scratch.file("day.wbar", &second());
    let from = "2015-07-01T18:20:30.7Z";
    let to = "2015-07-01T18:20:30.700100Z";
    let selections: [&[&str]; 5] = [
        &["--from", from, "--to", to],
        &["--records", "140000..140020"],
        &["--records", "139990..", "--from", from, "--device", "B*"],
        &["--from", from, "--device", "BK.SAO"],
        &["--to", to, "--records", "..100"],
    ];
    let slice = |name: &str, selection: &[&str]| {
        let new = scratch.path(name);
        let ended = done(&[&["archive", "slice", &day, &new][..], selection].concat());
        let bytes = fs::read(&new).unwrap();
        fs::remove_file(&new).unwrap();
        (bytes, ended.err)
    };
    let without: Vec<_> = selections.iter().map(|selection| slice("without", selection)).collect();
    done(&["archive", "index", &day]);
    for (selection, (expected, told)) in selections.iter().zip(&without) {
        let (bytes, told_now) = slice("with", selection);
        assert!(!bytes.is_empty() && bytes == *expected, "{selection:?}");
        assert_eq!(told.split_once(';').unwrap().0, told_now.split_once(';').unwrap().0);
    }
    // the first reads 140,021 records, and with the index from the place before
    assert_eq!(without[0].1, "20 records written; 140,021 records read\n");
    assert_eq!(slice("with", selections[0]).1, "20 records written; 8,949 records read\n");
    // an index that does not fit is told of, and not used
    fs::write(&day, &second()[38..]).unwrap();
    let (_, told) = slice("stale", selections[0]);
    assert!(told.starts_with("note: the index is not used: "), "{told}");
    assert!(
        told.contains("the archive was changed after its index was made")
            && told.contains("140,020 records read")
    );
}

#[test]
fn an_index_of_an_archive_with_bad_records_does_not_hide_them() {
    let scratch = Scratch::new("index-bad");
    let mut bytes = second();
    bytes[38 + 5] = 0x32;
    let day = scratch.file("day", &bytes);
    let ended = run(&["archive", "index", &day]);
    assert_eq!(ended.code, 2);
    let ended = done(&["archive", "index", &day, "--on-bad", "skip"]);
    assert!(ended.err.contains("1 record left out, 38 B"), "{}", ended.err);
    let new = scratch.path("new");
    let late = ["archive", "slice", &day, &new, "--records", "199999.."];
    let ended = run(&late);
    assert!(ended.code == 2 && ended.err.contains("record 1 at byte 38"), "{ended:?}");
    assert_eq!(run(&["archive", "inspect", &day]).code, 2);
    let ended = done(&[&late[..], &["--on-bad", "skip"]].concat());
    assert!(ended.err.starts_with("1 record written"), "{}", ended.err);
    assert_eq!(fs::read(&new).unwrap(), bytes[199_999 * 38..]);
}

/// It was asked between records that were taken alone, of which there may be none.
#[test]
fn a_slice_that_takes_nothing_hears_signals() {
    let scratch = Scratch::new("slice-signal");
    let new = scratch.path("new");
    let mut child = command(&["archive", "slice", "-", &new, "--device", "none"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // of one moment, so that it can be told again and again
    let bytes = archive((0..200_000).map(|_| (0, "a", 8)));
    stdin.write_all(&bytes).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // it has more to read than it can have read before it was told to stop
    let ended = (0..1_000).map(|_| stdin.write_all(&bytes)).find(|written| written.is_err());
    assert!(ended.is_some(), "it read on");
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(told, "error: it was stopped, and nothing was written\n");
    assert_eq!(ended.status.code(), Some(1));
    assert!(!fs::exists(&new).unwrap());
}

/// An export that is ordered by device could not be sent, and nothing here sorted it.
#[test]
fn an_export_that_is_ordered_by_device_is_sorted_by_time() {
    let scratch = Scratch::new("sort");
    let mut rows: Vec<(u32, u32)> =
        (0..40).flat_map(|device| (0..500).map(move |n| (n, device))).collect();
    let table = |rows: &[(u32, u32)]| {
        let row = |(n, device): &(u32, u32)| {
            let data = "7".repeat(99);
            format!("2015-07-01T00:{:02}:{:02}Z,meter-{device:02},{data}\n", n / 60, n % 60)
        };
        "time,device,value\n".to_owned() + &rows.iter().map(row).collect::<String>()
    };
    let by_device = scratch.file("by-device.csv", table(&rows).as_bytes());
    rows.sort();
    let by_time = scratch.file("by-time.csv", table(&rows).as_bytes());
    let (raw, day, expected) = (scratch.path("raw"), scratch.path("day"), scratch.path("expected"));
    done(&["archive", "create", &expected, "--csv", &by_time]);
    let ended = run(&["archive", "create", &raw, "--csv", &by_device]);
    assert!(ended.err.contains("'wirebeat archive sort'"), "{ended:?}");
    done(&["archive", "create", &raw, "--csv", &by_device, "--any-order"]);
    assert_eq!(run(&["archive", "verify", &raw]).code, 1);
    // 2.6 MB in 1 MiB
    let ended = done(&["archive", "sort", &raw, &day, "--memory", "1MiB"]);
    assert_eq!(ended.err, "20,000 records written\n");
    assert!(fs::read(&day).unwrap() == fs::read(&expected).unwrap());
    done(&["archive", "verify", &day]);
    // no temporary file is left, also where it fails
    let ended = run(&["archive", "sort", &raw, &day]);
    assert!(ended.code == 2 && ended.err.contains("it is there already"), "{ended:?}");
    let ended = run(&[
        "archive",
        "sort",
        &raw,
        &scratch.path("no"),
        "--memory",
        "1MiB",
        "--temporary",
        "/nonexistent",
    ]);
    assert!(
        ended.code == 2 && ended.err.contains("'/nonexistent' has no temporary files"),
        "{ended:?}"
    );
    let ended = run(&["archive", "sort", &raw, &scratch.path("no"), "--memory", "1KiB"]);
    assert!(ended.code == 2 && ended.err.contains("1MiB or more"), "{ended:?}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 5);
}

/// UUIDs and topics of MQTT were refused. Their names go through every tool, with an index too.
#[test]
fn devices_with_long_names_go_through_every_tool() {
    let scratch = Scratch::new("long-names");
    let topic = |n: u32| format!("plant/7/line-{}/motor/temperature", n % 3);
    let row = |n: u32| format!("2015-07-01T00:{:02}:{:02}Z,{},{n}\n", n / 60, n % 60, topic(n));
    let table = "time,device,data\n".to_owned() + &(0..600).map(row).collect::<String>();
    let csv = scratch.file("topics.csv", table.as_bytes());
    let (day, back) = (scratch.path("day"), scratch.path("back"));
    done(&["archive", "create", &day, "--csv", &csv]);
    let bytes = fs::read(&day).unwrap();
    // three names of 32 bytes, once each
    let digits: usize = (0..600).map(|n: u32| n.to_string().len()).sum();
    assert_eq!(bytes.len(), 600 * 30 + digits + 3 * (30 + topic(0).len()));
    for (file, more) in [("day.csv", &["--data-form", "text"][..]), ("day.parquet", &[])] {
        let file = scratch.path(file);
        done(&[&["archive", "export", &day, &file][..], more].concat());
        let kind = if file.ends_with("csv") { "--csv" } else { "--parquet" };
        done(&["archive", "create", &back, kind, &file]);
        assert!(fs::read(&back).unwrap() == bytes, "{file}");
        fs::remove_file(&back).unwrap();
    }
    assert_eq!(fs::read_to_string(scratch.path("day.csv")).unwrap(), table);
    done(&["archive", "verify", &day]);
    let inspected = done(&["archive", "inspect", &day, "--records", "1"]).out;
    assert_eq!(inspected.matches(&topic(0)).count(), 2, "{inspected}");
    let slice = |name: &str, more: &[&str]| {
        let new = scratch.path(name);
        done(&[&["archive", "slice", &day, &new][..], more].concat());
        let text =
            done(&["archive", "export", &new, "-", "--format", "csv", "--data-form", "text"]).out;
        fs::remove_file(new).unwrap();
        text
    };
    let only = "time,device,data\n".to_owned()
        + &(0..600).filter(|n| n % 3 == 1).map(row).collect::<String>();
    assert_eq!(slice("one", &["--device", &topic(1)]), only);
    assert_eq!(slice("beginning", &["--device", "plant/7/line-1/*"]), only);
    let late = ["--from", "2015-07-01T00:09:00Z"];
    let expected = "time,device,data\n".to_owned() + &(540..600).map(row).collect::<String>();
    assert_eq!(slice("late", &late), expected);
    done(&["archive", "index", &day]);
    assert_eq!(slice("late-index", &late), expected);
    let inspected = done(&["archive", "inspect", &day]).out;
    assert!(inspected.contains(&topic(2)), "{inspected}");
    let (merged, sorted) = (scratch.path("merged"), scratch.path("sorted"));
    done(&["archive", "merge", &merged, &day, &day]);
    done(&["archive", "sort", &merged, &sorted]);
    assert!(fs::read(&merged).unwrap() == fs::read(&sorted).unwrap());
    // one device for all records
    let fixed = scratch.path("fixed");
    done(&[
        "archive",
        "create",
        &fixed,
        "--csv",
        &csv,
        "--device",
        &topic(9),
        "--data-column",
        "data",
    ]);
    assert!(done(&["archive", "inspect", &fixed]).out.contains(&topic(9)));
}

#[test]
fn devices_come_from_a_file_and_by_their_beginning() {
    let scratch = Scratch::new("slice-devices");
    let records = [(0, "BK.SAO", 1), (1, "BK.CMB", 1), (2, "BG.HER", 1), (3, "x", 1)];
    let day = scratch.file("day", &archive(records));
    let bytes = fs::read(&day).unwrap();
    let list = scratch.file("list", b"# two of them\nx\n\n BG.* # all of BG\n");
    let new = scratch.path("new");
    done(&["archive", "slice", &day, &new, "--device-file", &list]);
    assert_eq!(fs::read(&new).unwrap(), bytes[62..]);
    let new = scratch.path("other");
    done(&["archive", "slice", &day, &new, "--device", "BK.*"]);
    assert_eq!(fs::read(&new).unwrap(), bytes[..62]);
    let list = scratch.file("bad", b"x\na\x01device-of-more-than-16-bytes\n");
    let ended = run(&["archive", "slice", &day, &scratch.path("no"), "--device-file", &list]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains(&format!("{list}:2\n")), "{}", ended.err);
    let ended = run(&["archive", "slice", &day, &scratch.path("no"), "--records", "5..5"]);
    assert!(ended.code == 2 && ended.err.contains("write for example 1000..2000"), "{ended:?}");
}

#[test]
fn an_index_replaces_an_index_and_nothing_else() {
    let scratch = Scratch::new("index");
    let day = scratch.file("day", &archive([(0, "a", 1), (1, "a", 2)]));
    for _ in 0..2 {
        let ended = done(&["archive", "index", &day]);
        assert_eq!(ended.err, format!("{day}.index: 2 records\n"));
    }
    let text = fs::read_to_string(format!("{day}.index")).unwrap();
    let index: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&index["version"], &index["archive"]["bytes"]), (&1.into(), &63.into()));
    assert_eq!(index["survey"]["devices"]["listed"][0]["device"], "a");
    fs::write(format!("{day}.index"), "mine").unwrap();
    let ended = run(&["archive", "index", &day]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("this is not an index of an archive"), "{}", ended.err);
    assert_eq!(fs::read_to_string(format!("{day}.index")).unwrap(), "mine");
    assert_eq!(run(&["archive", "index", "-"]).code, 2);
}

#[test]
fn what_is_in_an_archive_is_laid_out() {
    let scratch = Scratch::new("inspect");
    let many = ["BK.SAO", "BK.CMB", "BG.HER", "NC.MMX", "a", "b", "c", "d", "e", "f", "g", "h"];
    let records = (0..1_000_usize).map(|n| {
        let (late, device) = ((n / 2) as i64 * 25_000, many[(n * 7) % many.len()]);
        (late, device, [4, 28, 28, 1_472, n % 90][n % 5])
    });
    let day = scratch.file("day.wbar", &archive(records));
    let ended = done(&["archive", "inspect", &day, "--records", "3"]);
    golden("archive-inspect.txt", &ended.out.replace(&day, "day.wbar"));
    let found = json(&done(&["archive", "inspect", &day, "--json", "-", "--devices"]));
    assert_eq!((&found["schema_version"], &found["from_index"]), (&"1".into(), &false.into()));
    assert_eq!(found["records"], 1_000);
    assert_eq!(found["devices"]["listed"].as_array().unwrap().len() as u64, found["device_count"]);
    assert!(found.get("first_records").is_none());
    // the index says the same
    done(&["archive", "index", &day]);
    let mut indexed = json(&done(&["archive", "inspect", &day, "--json", "-", "--devices"]));
    assert_eq!(indexed["from_index"], true);
    indexed["from_index"] = false.into();
    assert_eq!(indexed, found);
    let shown = json(&done(&["archive", "inspect", &day, "--json", "-", "--records", "2"]));
    assert_eq!(shown["first_records"][1]["byte"], 34);
    assert_eq!(shown["first_records"][0]["data"], "00010203");
}

#[test]
fn an_archive_that_is_out_of_order_or_empty_is_inspected() {
    let scratch = Scratch::new("inspect-order");
    let mixed = scratch.file("mixed", &archive([(9, "a", 1), (4, "a", 1), (4, "\u{9b}", 1)]));
    let ended = done(&["archive", "inspect", &mixed]);
    let told = "time runs backwards 1 time, by 5.00 µs at most; the first is record 1 at byte 31";
    assert!(ended.out.contains(told), "{}", ended.out);
    assert!(!ended.out.contains('\u{9b}'), "{}", ended.out);
    assert_eq!(json(&done(&["archive", "inspect", &mixed, "--json", "-"]))["in_order"], false);
    let empty = scratch.file("empty", b"");
    let ended = done(&["archive", "inspect", &empty]);
    assert_eq!(ended.out, format!("{empty}\n  records   0 in 0 B, 0 B of it data\n"));
}

#[test]
fn what_is_wrong_with_an_archive_is_told_by_kind() {
    let scratch = Scratch::new("verify");
    let records = [0, 1, 2, 3, 4, 5, 4, 3, 6, 7].map(|us| (us, "a", 10));
    let good = scratch.file("good", &archive(records.iter().copied().take(6)));
    let ended = done(&["archive", "verify", &good]);
    let right = format!("{good}: 6 records in 240 B, nothing wrong\n");
    assert!(ended.out.starts_with(&right) && ended.out.contains("have no checksum"), "{ended:?}");
    assert_eq!(json(&done(&["archive", "verify", &good, "--json", "-"]))["ok"], true);

    let mut bytes = archive(records);
    bytes[40 + 5] = 0x32;
    bytes.truncate(bytes.len() - 7);
    let bad = scratch.file("bad", &bytes);
    let ended = run(&["archive", "verify", &bad]);
    assert_eq!(ended.code, 1);
    golden("archive-verify.txt", &ended.out.replace(&bad, "bad.wbar"));
    let ended = run(&["archive", "verify", &bad, "--json", "-"]);
    let found = json(&ended);
    assert_eq!((ended.code, &found["ok"], &found["records"]), (1, &false.into(), &6.into()));
    assert_eq!(found["bad"][2]["count"], 2);
    assert_eq!(found["bad"][2]["first"]["record"], 6);
}

#[test]
fn lengths_in_the_other_byte_order_are_a_finding_with_its_remedy() {
    let scratch = Scratch::new("verify-order");
    let mut bytes = archive((0..5).map(|us| (us, "a", 10)));
    bytes.chunks_mut(40).for_each(|record| record.swap(0, 1));
    let turned = scratch.file("turned", &bytes);
    let ended = run(&["archive", "verify", &turned]);
    assert_eq!((ended.code, ended.err.as_str()), (1, ""));
    assert!(ended.out.contains("1 with lengths in the other byte order"), "{}", ended.out);
    assert!(ended.out.contains("hint: read it with --length-order little"), "{}", ended.out);
    assert_eq!(run(&["archive", "verify", &turned, "--length-order", "little"]).code, 0);
}

/// A UDP datagram over IPv4 in Ethernet, from port 9 to port 10.
fn datagram(from: u8, payload: &[u8]) -> Vec<u8> {
    let udp = 8 + payload.len() as u8;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 20 + udp];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, from, 198, 18, 0, 99, 0, 9, 0, 10, 0, udp]);
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// A capture of microseconds.
fn pcap(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for (us, frame) in frames {
        let len = frame.len() as u32;
        file.extend(words(&[1_435_774_830, *us, len, len]));
        file.extend(frame);
    }
    file
}

#[test]
fn a_capture_becomes_an_archive() {
    let scratch = Scratch::new("create-pcap");
    let mut arp = datagram(1, b"arp");
    arp[13] = 6;
    let file = pcap(&[
        (1, datagram(1, b"one")),
        (2, arp),
        (5, datagram(2, b"two")),
        (4, datagram(1, b"late")),
        (6, datagram(1, b"three")),
    ]);
    let capture = scratch.file("c.pcap", &file);
    let new = scratch.path("c.wbar");
    let sorted = scratch.path("sorted.wbar");
    let ended =
        done(&["archive", "create", &sorted, "--pcap", &capture, "--reorder-window", "1us"]);
    assert_eq!(
        ended.err,
        "4 records written, of 5 frames\n  1 not IP: skipped\n  1 later in the file than in time: put in order\n"
    );
    // live captures have steps back, and these ended the work
    let ended = done(&["archive", "create", &new, "--pcap", &capture]);
    assert_eq!(
        ended.err,
        "4 records written, of 5 frames\n  1 not IP: skipped\n  1 earlier than the one before, by up to 1.00 µs: given its \
         time; the first is frame 4 at byte 207\n  (--reorder-window with that much puts them in the order of their times)\n"
    );
    let shown = json(&done(&["archive", "inspect", &new, "--json", "-", "--records", "9"]));
    let records = shown["first_records"].as_array().unwrap();
    let field =
        |name: &str| records.iter().map(|one| one[name].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(field("data"), ["6f6e65", "74776f", "6c617465", "7468726565"]);
    assert_eq!(field("time")[1..3], ["2015-07-01T18:20:30.000005Z"; 2]);
    assert_eq!(field("device")[1], "0x00000000000000000000ffffc6120002");
    // the addresses and ports as the device; and a capture that is cut in mid-packet
    let capture = scratch.file("cut.pcap", &file[..file.len() - 1]);
    let new = scratch.path("flows.wbar");
    let ended = run(&["archive", "create", &new, "--pcap", &capture, "--device-of", "flow"]);
    assert_eq!(ended.code, 2);
    let ended = done(&[
        "archive",
        "create",
        &new,
        "--pcap",
        &capture,
        "--device-of",
        "flow",
        "--on-bad",
        "skip",
    ]);
    assert!(ended.err.starts_with("3 records written, of 4 frames\n"), "{}", ended.err);
    assert!(
        ended.err.contains(
            "1 place wrong, 1 of them one frame, 62 B: skipped; the first is frame 5 at byte "
        ),
        "{}",
        ended.err
    );
    let found = json(&done(&["archive", "inspect", &new, "--json", "-"]));
    assert_eq!(found["devices"]["listed"][0]["device"], "0xc6120001c61200630009000a11000000");
    let ended = run(&["archive", "create", &scratch.path("x"), "--pcap", &new]);
    assert!(ended.code == 2 && ended.err.contains("this is not a capture"), "{ended:?}");
}
