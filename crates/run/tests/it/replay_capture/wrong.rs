//! What is not a capture, or not whole, or not meant.

use super::*;

#[test]
fn what_is_no_capture_is_known_before_anything_is_sent() {
    let garbage =
        refused(&written("garbage.pcap", b"garbage, and no capture at all, whatever it is"), "");
    assert!(garbage.contains("frame 1 at byte 0: this is not a capture"), "{garbage}");
    let gone = refused(&file("gone.pcap"), "");
    assert!(gone.contains("the capture '") && gone.contains("No such file"), "{gone}");
    let link = refused(&written("wifi.pcap", &pcap_of(105, 0, &frames(1)[..3])), "");
    assert!(link.contains("frame 1 at byte 24: its link type is 105"), "{link}");
}

#[test]
fn what_is_wrong_ends_it_with_its_place_or_is_left_out() {
    let all = from_first(frames(1000));
    let whole = pcap(&all);
    let message = |report: &Report| match &report.end {
        End::Failed { message } => message.clone(),
        other => panic!("{other:?}"),
    };
    // cut in the middle of the last frame
    let path = written("half.pcap", &whole[..whole.len() - 5]);
    let (report, sent) = replayed("half", &path, "");
    let cut = message(&report);
    assert!(cut.contains("frame 2000 at byte ") && cut.contains("the file ends after"), "{cut}");
    same(&from_first(sent), &all[..1999]);
    let (report, sent) = replayed("half", &path, ", on-bad: skip");
    assert_eq!((report.end, sent.len()), (End::Completed, 1999));
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::RecordsLeftOut));
    // longer than the link carries, but for a tag
    let long = |len: usize| ethernet(1, 2, 0x88b5, &vec![1; len - 14]);
    let some = vec![(0, long(1514)), (1, tagged(1, &long(1514))), (2, long(1515)), (3, long(100))];
    let path = written("long.pcap", &pcap(&some));
    let (report, sent) = replayed("long", &path, "");
    let why = message(&report);
    assert!(
        why.contains("frame 3 at byte ")
            && why.contains("it has 1515 bytes, and the link carries 1514"),
        "{why}"
    );
    assert_eq!(sent.len(), 2);
    assert_eq!(replayed("long", &path, ", on-bad: skip").1.len(), 3);
}

#[test]
fn a_filter_that_matches_nothing_is_no_success() {
    let path = written("nothing.pcap", &pcap(&frames(1)[..3]));
    let told = refused(&path, ", filter: 'tcp port 9'");
    assert!(
        told.ends_with(&format!(
            "nothing to send: none of 3 frames in '{}' matches the filter 'tcp port 9'",
            path.display()
        )),
        "{told}"
    );
    let told = refused(&path, ", from: '2030-01-01T00:00:00Z'");
    assert!(told.contains("; they are from 2015-07-01T18:20:30Z to "), "{told}");
    let told = refused(&written("no-frame.pcap", &pcap(&[])), "");
    assert!(told.contains("there is no frame in "), "{told}");
}

/// Live captures of several interfaces have these.
#[test]
fn a_step_back_of_nanoseconds_does_not_end_a_replay() {
    let mut back = from_first(frames(1000))[..100].to_vec();
    back[50].0 = back[49].0 - 7;
    let path = written("back.pcap", &pcap(&back));
    let (report, sent) = replayed("back", &path, "");
    assert_eq!(report.end, End::Completed);
    let held = report.replays[0].held_back.as_ref().unwrap();
    assert_eq!((held.frames, held.most_ns, held.sorted), (1, 7, 0));
    assert!(held.first.contains("back.pcap: frame 51 at byte "), "{}", held.first);
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::TimesHeldBack));
    let mut held = back.clone();
    held[50].0 = held[49].0;
    same(&from_first(sent), &held);
    let (report, sent) = replayed("back", &path, ", reorder-window: 10ns");
    back.swap(49, 50);
    same(&from_first(sent), &back);
    let held = report.replays[0].held_back.as_ref().unwrap();
    assert_eq!((held.frames, held.sorted), (0, 1));
    assert!(report.findings.iter().all(|finding| finding.kind != FindingKind::TimesHeldBack));
    let sent = replayed("back", &path, ", tight-loop: 1us").1;
    assert_eq!(sent.len(), 100, "a tight loop does not look at times");
}

/// Frames behind it do not leave in one burst.
#[test]
fn a_clock_that_was_set_back_keeps_the_distances_behind_it() {
    let mut back = from_first(frames(1000))[..100].to_vec();
    let first = back[50].0;
    back.iter_mut().for_each(|frame| frame.0 += 3_600_000_000_000);
    back[50..].iter_mut().for_each(|frame| frame.0 -= 3_600_000_000_000);
    let (report, sent) = replayed("set-back", &written("set-back.pcap", &pcap(&back)), "");
    assert_eq!(report.replays[0].held_back.as_ref().unwrap().frames, 1);
    let times: Vec<u64> = from_first(sent).into_iter().map(|frame| frame.0).collect();
    let expected = from_first(frames(1000)).into_iter().map(|frame| frame.0).collect::<Vec<_>>();
    assert_eq!(times[..50], expected[..50]);
    let moved = expected[50..100].iter().map(|at| at - first + expected[49]);
    assert!(times[50..].iter().copied().eq(moved));
}

#[test]
fn keys_of_the_other_kind_are_refused() {
    let path = written("keys.pcap", &pcap(&frames(1)[..3]));
    let check = |flow: &str| {
        let text = format!("ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, {flow} }} }}\n");
        Scenario::from_yaml(&text, "test").unwrap_err().to_string()
    };
    for (flow, why) in [
        ("replay: { capture: x.pcap, devices: [a] }", "a capture has no devices"),
        ("replay: { capture: x.pcap, flow-of: device }", "a capture has no devices"),
        ("to: a, replay: { archive: x.wbar, side: client }", "only a capture has this"),
        ("to: a, replay: { archive: x.wbar, filter: tcp }", "only a capture has this"),
        ("to: a, replay: { archive: x.wbar, capture: y.pcap }", "leave one of the two out"),
        ("to: a, replay: { speed: 2x }", "there is nothing to replay"),
        ("replay: { capture: [] }", "day.pcapng"),
        ("replay: { capture: x.pcap }, probe: on", "stay as they are"),
        ("replay: { capture: x.pcap }, packet: [ ipv6: {}, udp: {} ]", "have their headers"),
        ("replay: { capture: x.pcap }, rate: 1Mpps", "'tight-loop'"),
        ("replay: { capture: x.pcap, rewrite: { vlan: 4095 } }", "there is no VLAN 4095"),
        (
            "replay: { capture: x.pcap, rewrite: { addresses: { 10.0.0.0/8: 'fd00::/8' } } }",
            "different versions",
        ),
        (
            "replay: { capture: x.pcap, rewrite: { addresses: { 10.0.0.0/8: 0.0.0.0/0 } } }",
            "is shorter than",
        ),
        (
            "replay: { capture: x.pcap, rewrite: { ports: { 1-9: 2-3 } } }",
            "write one port, or as many",
        ),
    ] {
        let told = check(flow);
        assert!(told.contains(why), "{flow}: {told}");
    }
    let text =
        format!("ports: {{ a: {{ engine: socket }} }}\nflows:\n  x: {}\n", flow(&path, "a", ""));
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    assert!(prepare(&scenario, Options::default()).is_err(), "a socket sends no frames");
}
