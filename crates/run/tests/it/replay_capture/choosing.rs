//! Which frames of a capture are sent: by filter, and by side.

use super::*;

#[test]
fn a_filter_chooses_as_tcpdump_does() {
    require!(Capability::Program("tcpdump"));
    let all: Vec<Timed> =
        kinds().into_iter().zip(0..).map(|(frame, n)| (n * 1000, frame)).collect();
    // and each cut short
    let cut = all.iter().map(|(ns, frame)| (ns + 1_000_000, frame[..36].to_vec()));
    let all: Vec<Timed> = all.iter().cloned().chain(cut).collect();
    let path = written("filter.pcap", &pcap(&all));
    let mut kept = 0;
    for text in [
        "tcp",
        "udp",
        "icmp",
        "icmp6",
        "ip",
        "ip6",
        "arp",
        "vlan",
        "vlan 5",
        "vlan 6 and tcp",
        "vlan and ip",
        "vlan or ip",
        "ip or vlan",
        "not vlan",
        "host 10.1.0.1",
        "src host 10.1.0.2",
        "dst 10.1.0.1",
        "src or dst host 10.1.0.1",
        "src and dst host 10.1.0.1",
        "host fd00::1",
        "ip6 host fd00::3",
        "arp host 10.1.0.2",
        "ip host 10.1.0.2",
        "net 10.1.0.0/16",
        "net 10.1",
        "src net 10.1.0.0/30",
        "net fd00::/64",
        "net 10.1.0.0 mask \
         255.255.0.0",
        "port 80",
        "port 53 or 443",
        "tcp port 80",
        "udp port 80",
        "src port 53",
        "dst portrange 50-90",
        "udp and not port 53",
        "not port 53",
        "not (tcp or udp)",
        "tcp or udp and port 53",
        "tcp && port 80 || arp",
        "! ip",
        "less 80",
        "greater 200",
        "ether host 02:00:00:00:00:02",
        "ether src 02:00:00:00:00:01",
        "ether dst ff:ff:ff:ff:ff:ff",
        "broadcast",
        "ether multicast",
        "multicast",
        "ip proto 17",
        "ip6 proto 6",
        "proto 17",
        "ether proto 0x88cc",
        "ether proto \\arp",
        "ip proto \\tcp",
        "tcp port (80 or 443)",
        "host 10.1.0.1 and not 10.1.0.2",
        "udp src port 5000 and host 10.1.0.9",
        "ip multicast",
        "sctp",
        "rarp",
        "not tcp port 80 and not arp",
        "not not udp",
    ] {
        let output = Command::new("tcpdump")
            .args(["-r", path.to_str().unwrap(), "-w", "-", text])
            .output()
            .unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        let out = written("filter-out.pcap", &output.stdout);
        let theirs: Vec<u64> = read(&out).iter().map(|frame| frame.0 / 1000).collect();
        let filter = Filter::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let ours = all.iter().filter(|(_, frame)| filter.matches(frame, frame.len()));
        let ours: Vec<u64> = ours.map(|(ns, _)| (BEGIN_NS + ns) / 1000).collect();
        assert_eq!(ours, theirs, "{text}");
        kept += ours.len();
    }
    assert!(kept > 400, "{kept}");
}

#[test]
fn a_filter_leaves_the_times_of_what_it_keeps() {
    let all = from_first(frames(1000));
    let path = written("kept.pcap", &pcap(&all));
    let filter = Filter::new("udp port 53 and host 10.1.0.9").unwrap();
    let kept: Vec<Timed> =
        all.iter().filter(|(_, frame)| filter.matches(frame, frame.len())).cloned().collect();
    assert!(kept.len() > 100);
    same(&sent("kept", &path, ", filter: udp port 53 and host 10.1.0.9"), &from_first(kept));
    let text =
        format!("ports: {{ a: {{}} }}\nflows:\n  x: {}\n", flow(&path, "a", ", filter: port http"));
    let why = Scenario::from_yaml(&text, "test").unwrap_err().to_string();
    assert!(why.contains("flows.x.replay.filter: at character 6: 'http' is not a port"), "{why}");
}

#[test]
fn both_sides_leave_from_ports_of_their_own_and_keep_step() {
    let all: Vec<Timed> = vec![
        // a frame of the server comes first, and is not a conversation that was seen to open
        (0, tcp(false, [2, 1], [80, 6000], 0x12)),
        (1000, tcp(false, [1, 2], [6000, 80], 0x10)),
        (5000, tcp(false, [3, 2], [6001, 80], 0x02)),
        (9000, tcp(false, [2, 3], [80, 6001], 0x12)),
        (12_000, udp(true, [4, 2], [7000, 53], 60)),
        (13_000, udp(true, [2, 4], [53, 7000], 60)),
        (20_000, arp(1, 2)),
        (21_000, arp(2, 1)),
    ];
    let path = written("sides.pcap", &pcap(&all));
    let (a, b) = (file("sides-a.pcapng"), file("sides-b.pcapng"));
    for keys in ["", ", loop: 2", ", speed: 2x, preload: on"] {
        let text = format!(
            "ports: {{ a: {{ engine: pcap, file: '{}' }}, b: {{ engine: pcap, file: '{}' }} }}\nflows:\n  c: {}\n  s: \
             {}\n",
            a.display(),
            b.display(),
            flow(&path, "a", &format!(", side: client{keys}")),
            flow(&path, "b", &format!(", side: server{keys}")),
        );
        balanced(&run(&text, None));
        let whole = sent("sides", &path, keys);
        let (client, server) = (read(&a), read(&b));
        let first = server[0].0;
        let is_of_client = |frame: &Vec<u8>| [1, 3, 4].contains(&frame[11]);
        let of = |client: bool| {
            let some = whole.iter().filter(|(_, frame)| is_of_client(frame) == client);
            some.map(|(ns, frame)| (ns + first, frame.clone())).collect::<Vec<_>>()
        };
        same(&client, &of(true));
        same(&server, &of(false));
    }
}
