//! Groups are joined where their flows are received, for as long as that lasts.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_run::{Codec, Group, Observer, Progress, Stop};
use wirebeat_testbed::{Capability, Program, Testbed, require};

use crate::interop::{
    PATIENCE, near, printed_at, received, receiver, until, while_receiving, whole,
};
use crate::world::{Engine, balanced, cable, ports, prepared, run};

fn groups(bed: &Testbed) -> String {
    printed_at(&bed.b, "ip", &["maddr", "show", "dev", "wb1"])
}

/// A membership ends with the last copy of its socket, and a program that another test is starting has one
/// for a moment.
fn left(bed: &Testbed, group: &str) {
    until("the group is left", || !groups(bed).contains(group));
}

/// Looks at the groups of end `b` during a run.
struct Groups<'a> {
    bed: &'a Testbed,
    seen: Option<String>,
}

impl Observer for Groups<'_> {
    fn progress(&mut self, _progress: &Progress) {
        self.seen.get_or_insert_with(|| groups(self.bed));
    }
}

fn flow_to(group: &str, count: u64) -> String {
    format!(
        "flows:\n  x: {{ from: a, to: b, rate: 500pps, count: {count}, packet: [ {{ ipv4: {{ destination: \
         {group} }} }}, {{ udp: {{ destination: 9000 }} }} ] }}\n"
    )
}

fn joined_for_the_run(engine: Engine) {
    let bed = cable();
    let scenario = format!("{}{}", ports(engine, ""), flow_to("239.1.1.1", 500));
    let mut observer = Groups { bed: &bed, seen: None };
    let report = prepared(&scenario, Some(&bed)).start(&mut observer, &Stop::new());
    balanced(&report);
    whole(report.flows[0].received.as_ref().unwrap(), 500);
    let seen = observer.seen.unwrap();
    assert!(seen.contains("239.1.1.1"), "{seen}");
    // the group's address of the link (RFC 1112 §6.4)
    assert!(seen.contains("01:00:5e:01:01:01"), "{seen}");
    left(&bed, "239.1.1.1");
    assert!(groups(&bed).contains("224.0.0.1"));
}

/// Whatever the headers are, and wherever the flow goes later.
#[test]
fn groups_of_tagged_flows_and_of_those_that_change_are_joined() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    let bed = cable();
    let scenario = format!(
        "{}flows:\n  x: {{ from: a, to: b, rate: 500pps, count: 500, packet: [ {{ vlan: {{ id: 5 }} }}, {{ ipv4: {{ \
         destination: 239.1.1.1, identification: {{ increment: 0 }} }} }}, {{ udp: {{}} }} ], at: {{ 500ms: {{ packet: [ \
         {{ ipv4: {{ destination: 239.1.1.2 }} }}, {{ udp: {{}} }} ] }} }} }}\n",
        ports(Engine::Packet, "")
    );
    let mut observer = Groups { bed: &bed, seen: None };
    balanced(&prepared(&scenario, Some(&bed)).start(&mut observer, &Stop::new()));
    let seen = observer.seen.unwrap();
    assert!(seen.contains("239.1.1.1") && seen.contains("239.1.1.2"), "{seen}");
}

#[test]
fn a_flow_to_a_group_is_joined_for_the_run_by_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::Program("ip"));
    joined_for_the_run(Engine::Kernel);
}

#[test]
fn a_flow_to_a_group_is_joined_for_the_run_by_the_packet_engine() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    joined_for_the_run(Engine::Packet);
}

#[test]
fn a_flow_to_a_group_is_joined_for_the_run_by_the_socket_engine() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    joined_for_the_run(Engine::Socket);
}

#[test]
fn joining_and_leaving_are_reported_on_the_link() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Program("ip"),
        Capability::Program("tshark")
    );
    let bed = cable();
    let link = Program::new(&bed.a.namespace, "tshark")
        .args(["-i", "wb0", "-l", "-f", "igmp", "-a", "duration:60", "-O", "igmp"])
        .spawn()
        .unwrap();
    link.wait_for("Capturing on", PATIENCE).unwrap();
    // IGMPv3's names for what is reported of a group (RFC 3376 §4.2.12)
    let reported = |group: &str, record: &str| {
        link.wait_for(&format!("Group Record : {group}  {record}"), PATIENCE).unwrap();
    };
    let run_to = |group: &str, count: u64| {
        let text = format!("{}{}", ports(Engine::Packet, ""), flow_to(group, count));
        balanced(&run(&text, Some(&bed)));
        reported(group, "Change To Include Mode");
    };
    // tshark says that it captures a moment before it does: it may miss the beginning of this one
    run_to("239.1.1.1", 500);
    run_to("239.1.1.2", 50);
    reported("239.1.1.2", "Change To Exclude Mode");

    let group: IpAddr = Ipv4Addr::new(232, 1, 1, 1).into();
    let mut request = receiver(&bed, Codec::Wirebeat, Some(9000));
    request.codecs.clear();
    request.groups = vec![Group { group, source: Some(bed.a.ipv4.into()) }];
    let (filters, report) = while_receiving(&request, || {
        reported("232.1.1.1", "Allow New Sources");
        assert!(groups(&bed).contains("232.1.1.1"));
        let flow = flow_to("232.1.1.1", 50).replace(" to: b,", "");
        balanced(&run(&format!("{}{flow}", near("packet")), Some(&bed)));
        (printed_at(&bed.b, "cat", &["/proc/net/mcfilter"]), 50)
    });
    whole(received(&report, 0), 50);
    let number = |address: Ipv4Addr| format!("0x{:08x}", u32::from(address));
    let source = |line: &str| {
        line.contains(&number(Ipv4Addr::new(232, 1, 1, 1))) && line.contains(&number(bed.a.ipv4))
    };
    assert!(filters.lines().any(source), "{filters}");
    reported("232.1.1.1", "Block Old Sources");
    left(&bed, "232.1.1.1");
    assert!(!printed_at(&bed.b, "cat", &["/proc/net/mcfilter"]).lines().any(source));
}
