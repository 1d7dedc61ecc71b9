//! Data that the kernel's program takes from where it was read to, and not out of the ring.

use super::*;

/// Records around the length from which on that is done, of odd and even lengths, and the longest.
fn lines(count: usize, apart_us: i64) -> Vec<Line> {
    let lens = [191, 192, 193, 60, 1455, 1456, 700];
    (0..count).map(|n| (n as i64 * apart_us, (n % 3) as u8, lens[n % lens.len()])).collect()
}

/// The system at the far end checks the sums of all of them.
#[test]
fn a_program_reads_what_was_taken_from_small_buffers_in_a_hurry() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    // each buffer is used again some 60 times
    for keys in ["buffer: 128KiB", "buffer: 128KiB, workers: 2", "preload: on"] {
        let keys = format!("tight-loop: 0, {keys}");
        read_by_a_program("kernel", "", &keys, "", &lines(6000, 1));
    }
    read_by_a_program(
        "kernel",
        ", queues: 2",
        "tight-loop: 1us, buffer: 128KiB",
        "",
        &lines(6000, 1),
    );
}

#[test]
fn what_has_times_waits_where_it_was_read_to() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for keys in ["buffer: 128KiB", "out-of-order: { probability: 0.3, window: 1us }", "preload: on"]
    {
        read_by_a_program("kernel", "", keys, "", &lines(2000, 40));
    }
}

#[test]
fn the_probe_behind_it_is_measured() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    // with the longest headers of those below no fragments
    let mut lines = lines(3000, 20);
    lines.iter_mut().for_each(|line| line.2 = line.2.min(1430));
    let path = archive("apart-probe", &lines);
    for packet in [
        "[ { ipv4: {} } ]",
        "[ { ipv6: {} } ]",
        "[ { ethernet: {} }, { vlan: { id: 5 } }, { vlan: { id: 7 } }, { ipv6: {} }, { udp: {} } ]",
    ] {
        let bed = cable();
        let text = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: kernel }}\n  b: {{ interface: wb1, namespace: b, \
             engine: kernel }}\nflows:\n  x: {{ from: a, to: b, probe: on, packet: {packet}, replay: {{ archive: '{}', \
             buffer: 128KiB }} }}\n",
            path.display()
        );
        let report = run(&text, Some(&bed));
        balanced(&report);
        assert_eq!(report.end, End::Completed);
        let received = report.flows[0].received.as_ref().unwrap();
        assert_eq!((received.unique, received.duplicates), (3000, 0), "{packet}");
        let bytes: u64 = lines.iter().map(|line| line.2 as u64 + 16).sum();
        assert_eq!(received.received.payload_bytes, bytes, "{packet}");
    }
}

/// Records are counted each time, and what is between two turns is as without.
#[test]
fn what_is_preloaded_is_sent_as_what_is_not() {
    let lines = lines(500, 30);
    let path = archive("apart-preload", &lines);
    for keys in ["", "loop: 3", "loop: 3, count: 1234", "tight-loop: 5us, loop: 2", "workers: 3"] {
        let flow = if keys.contains("count") { "count: 1234," } else { "" };
        let keys = keys.trim_end_matches(", count: 1234");
        let name = |what: &str| format!("apart-{what}-{}", keys.len() + flow.len());
        let read = captured(&name("read"), &path, keys, flow);
        let keys = format!("{keys}, preload: on, buffer: 128KiB");
        let keys = keys.trim_start_matches(", ");
        assert!(captured(&name("preloaded"), &path, keys, flow) == read, "{keys}");
    }
}

#[test]
fn what_is_wrong_behind_what_is_preloaded_is_told_after_it() {
    let lines = lines(50, 30);
    let path = archive("apart-wrong", &lines);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 5);
    std::fs::write(&path, bytes).unwrap();
    for keys in ["preload: on, loop: 3", "loop: 3"] {
        let (report, packets) = run_captured("apart-wrong", &path, keys, "");
        assert_eq!(packets.len(), 49, "{keys}");
        assert!(
            matches!(&report.end, End::Failed { message } if message.contains("record 49")),
            "{:?}",
            report.end
        );
    }
    let (report, packets) =
        run_captured("apart-wrong", &path, "preload: on, loop: 3, on-bad: skip", "");
    assert_eq!((packets.len(), report.end), (147, End::Completed));
    assert_eq!(report.replays[0].left_out[0].count, 3);
}
