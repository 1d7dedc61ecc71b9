//! What commands of WARP17 become: pools, times and ends, with interfaces and in memory, and what WARP17 itself refuses.

use std::num::{NonZeroU32, NonZeroU64};

use wirebeat_import::{Converted, Dialect, Options, Source, convert};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Probe;
use wirebeat_traffic::scenario::session::{ProgramSpec, SessionSpec};
use wirebeat_units::Nanos;

fn try_with(text: &str, options: &Options) -> Result<Converted, String> {
    let read = |name: &str| Err(format!("there is no '{name}'"));
    let source = Source { name: "w", text, read: &read, sessions: &wirebeat_import::no_sessions };
    convert(Dialect::Warp17, &source, options).map_err(|error| error.to_string())
}

fn with(text: &str, options: &Options) -> Converted {
    let converted = try_with(text, options).unwrap_or_else(|why| panic!("{why}\n{text}"));
    // each end has a program, wherever the other end is
    compile_sessions(&converted.scenario, &Files::default()).unwrap();
    converted
}

fn of(text: &str) -> Converted {
    with(text, &Options::default())
}

fn on_links(text: &str) -> Converted {
    let link = |name: &str| Some(name.to_owned());
    with(text, &Options { interface: link("eth1"), to: link("eth2"), ..Options::default() })
}

fn why(text: &str) -> String {
    try_with(text, &Options::default())
        .err()
        .unwrap_or_else(|| panic!("it was not refused: {text}"))
}

fn told(converted: &Converted) -> String {
    converted.left_out.iter().map(|left| format!("{left}\n")).collect()
}

/// Clients and servers of one test case each, with these addresses and ports.
fn pair(client: &str, server: &str) -> String {
    format!(
        "add tests client tcp port 0 test-case-id 0 {client}\nadd tests server tcp port 1 test-case-id 0 {server}\n"
    )
}

const CLIENT: &str = "src 10.0.0.1 10.0.0.1 sport 10000 10009 dest 10.0.0.9 10.0.0.9 dport 80 80";
const SERVER: &str = "src 10.0.0.9 10.0.0.9 sport 80 80";

fn names(converted: &Converted) -> Vec<&str> {
    converted.scenario.sessions.keys().map(String::as_str).collect()
}

fn first(converted: &Converted) -> &SessionSpec {
    &converted.scenario.sessions[0]
}

fn users(group: &SessionSpec) -> u32 {
    group.users.map_or(0, NonZeroU32::get)
}

#[test]
fn two_test_cases_that_share_addresses_are_one_group() {
    let converted = of(&pair(CLIENT, SERVER));
    assert_eq!(names(&converted), ["port-0-test-0"]);
    let group = first(&converted);
    assert_eq!((group.from.as_deref(), group.to.as_deref()), (Some("port-0"), Some("port-1")));
    assert_eq!((users(group), group.count), (10, NonZeroU64::new(10)));
    assert_eq!(group.tcp.time_wait, Some(Nanos::from_millis(500)));
    // nothing is said on it: it is held
    assert!(matches!(group.program, ProgramSpec::Steps(_)) && group.hold.is_some());
}

#[test]
fn ends_without_a_peer_in_the_file_have_somebody_elses() {
    let apart = of(&pair(CLIENT, "src 10.0.0.9 10.0.0.9 sport 81 81"));
    assert_eq!(names(&apart), ["port-0-test-0", "port-1-test-0"]);
    assert!(apart.scenario.sessions[0].to.is_none() && apart.scenario.sessions[1].from.is_none());
    // an own cable is for two ports alone
    let alone = with(
        &format!("add tests server tcp port 1 test-case-id 0 {SERVER}\n"),
        &Options::default(),
    );
    assert!(told(&alone).contains("w:1: port 1: no interface is known for it"), "{}", told(&alone));
    assert!(told(&alone).contains("servers alone"));
}

#[test]
fn servers_that_several_test_cases_ask_are_a_group_of_their_own() {
    let other = "add tests client tcp port 0 test-case-id 1 src 10.0.0.1 10.0.0.1 sport 20000 20000 dest 10.0.0.9 10.0.0.9 dport 80 80\n";
    let http = "set tests client http port 0 test-case-id 0 GET a /x req-size 5\nset tests server http port 1 test-case-id 0 200-OK resp-size 7\n";
    let text =
        format!("{}{http}{other}set tests async port 0 test-case-id 0\n", pair(CLIENT, SERVER));
    let converted = of(&text);
    assert_eq!(names(&converted), ["port-0-test-0", "port-0-test-1", "port-1-test-0"]);
    let sent = format!(
        "{}{http}set tests ipv4-options port 0 test-case-id 0 tos 0x5A\n",
        pair(CLIENT, SERVER)
    );
    let converted = of(&sent);
    assert_eq!(names(&converted), ["port-0-test-0", "port-1-test-0"]);
    assert!(told(&converted).contains("its options of TCP or IPv4 are not those of its clients"));
    assert!(told(&converted).contains("the two bits of ECN are not"));
    assert_eq!(first(&converted).dscp.map(|dscp| dscp.to_tos()), Some(0x58));
}

#[test]
fn clients_have_their_ports_where_each_meets_each() {
    for (sport, dport, keeps, sessions) in [
        ("10000 10009", "80 80", true, 10),
        ("10000 10009", "80 86", true, 70),
        ("10000 10009", "80 81", false, 20),
        ("10001 60000", "6001 6200", false, 10_000_000),
    ] {
        let text = pair(
            &format!("src 10.0.0.1 10.0.0.1 sport {sport} dest 10.0.0.9 10.0.0.9 dport {dport}"),
            &format!("src 10.0.0.9 10.0.0.9 sport {dport}"),
        );
        let converted = of(&text);
        let group = first(&converted);
        assert_eq!(
            (group.clients.ports.is_some(), users(group)),
            (keeps, sessions),
            "{sport} {dport}"
        );
        assert_eq!(
            told(&converted).contains("our stack chooses the ports"),
            !keeps,
            "{sport} {dport}"
        );
    }
    let many = pair(
        "src 10.0.0.1 10.0.0.4 sport 10001 60000 dest 10.0.0.9 10.0.0.9 dport 6001 6200",
        "src 10.0.0.9 10.0.0.9 sport 6001 6200",
    );
    let converted = of(&many);
    assert_eq!(users(first(&converted)), 10_000_000);
    assert!(told(&converted).contains("it has 40000000 sessions"), "{}", told(&converted));
}

#[test]
fn test_cases_of_a_port_start_one_after_the_other() {
    let case = |number: u32, rest: &str| {
        format!(
            "add tests client tcp port 0 test-case-id {number} src 10.0.0.1 10.0.0.1 sport {0} {0} dest 10.0.0.9 10.0.0.9 dport 80 80\n{rest}",
            1000 + number
        )
    };
    let run_time = |number: u32, seconds: u32| {
        format!("set tests criteria port 0 test-case-id {number} run-time {seconds}\n")
    };
    let server = format!("add tests server tcp port 1 test-case-id 0 {SERVER}\n");
    let init = "set tests timeouts port 0 test-case-id 1 init 3\n";
    let text = case(0, &run_time(0, 10))
        + &case(1, &run_time(1, 20))
        + init
        + &case(2, &run_time(2, 5))
        + &server;
    let converted = of(&text);
    let times: Vec<(Nanos, Option<Nanos>)> = converted
        .scenario
        .sessions
        .values()
        .filter(|group| group.from.is_some())
        .map(|group| (group.start, group.stop))
        .collect();
    let at = Nanos::from_secs;
    assert_eq!(times, [(at(0), Some(at(10))), (at(13), Some(at(30))), (at(30), None)]);
    assert_eq!(converted.scenario.run.time, Some(at(35)));

    // asynchronous ones do not wait, and one that never ends lets none start
    let text =
        case(0, "set tests async port 0 test-case-id 0\n") + &case(1, "") + &case(2, "") + &server;
    let converted = of(&text);
    assert_eq!(names(&converted), ["port-0-test-0", "port-0-test-1", "port-1-test-0"]);
    assert!(
        told(&converted).contains("w:4: test case 2: the test case before it never ends"),
        "{}",
        told(&converted)
    );

    // one that passes when its sessions are there is waited for
    let estab = "set tests criteria port 0 test-case-id 0 clients-estab 1\n";
    let converted = of(&(case(0, estab) + &case(1, &run_time(1, 4)) + &server));
    let second = &converted.scenario.sessions["port-0-test-1"];
    assert_eq!(second.after.as_ref().map(|after| after.group.as_str()), Some("port-0-test-0"));
    assert_eq!((second.start, second.stop), (at(0), Some(at(4))));
    assert_eq!(converted.scenario.sessions["port-0-test-0"].expect.len(), 1);

    // the time of the command line holds
    let options = Options { time: Some(at(20)), ..Options::default() };
    let text = case(0, &run_time(0, 30)) + &case(1, &run_time(1, 5)) + &server;
    let converted = with(&text, &options);
    assert_eq!(names(&converted), ["port-0-test-0", "port-1-test-0"]);
    assert!(told(&converted).contains("it would start when the run has ended"));
}

#[test]
fn requests_fill_the_uptime_where_a_rate_says_how_many() {
    let raw = "set tests client raw port 0 test-case-id 0 data-req-plen 100 data-resp-plen 200\n\
               set tests server raw port 1 test-case-id 0 data-req-plen 100 data-resp-plen 200\n";
    let requests = |more: &str| {
        let converted = of(&format!("{}{raw}{more}", pair(CLIENT, SERVER)));
        match &first(&converted).program {
            ProgramSpec::RequestResponse(exchange) => exchange.requests.get(),
            other => panic!("{other:?}"),
        }
    };
    let uptime = "set tests timeouts port 0 test-case-id 0 uptime 5\n";
    assert_eq!(requests(""), u32::MAX);
    assert_eq!(requests(uptime), 1);
    // 10 sessions
    assert_eq!(requests(&format!("{uptime}set tests rate port 0 test-case-id 0 send 40\n")), 20);
}

#[test]
fn vlans_are_ports_of_their_own_where_there_are_interfaces() {
    let vlan = |port: u32| {
        format!("set tests vlan-options port {port} test-case-id 0 vlan-id 7 vlan-pri 0\n")
    };
    let text = format!(
        "add tests l3_intf port 0 ip 10.0.0.1 mask 255.255.255.0 vlan-id 7 gw 10.0.0.254\n{}{}{}",
        pair(CLIENT, SERVER),
        vlan(0),
        vlan(1)
    );
    let converted = on_links(&text);
    let port = &converted.scenario.ports["port-0-vlan-7"];
    assert_eq!((port.interface.as_deref(), port.hosts.vlan), (Some("eth1"), Some(7)));
    assert_eq!(port.hosts.gateways, ["10.0.0.254".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(converted.scenario.ports["port-1-vlan-7"].interface.as_deref(), Some("eth2"));
    let converted = of(&text);
    assert_eq!(converted.scenario.ports.keys().collect::<Vec<_>>(), ["port-0", "port-1"]);
    assert!(told(&converted).contains("a cable in memory has no VLANs"));
    assert!(told(&converted).contains("a cable in memory has no router"));
}

#[test]
fn multicast_sources_are_flows_where_there_are_interfaces() {
    let text = format!(
        "{}add tests multicast-src udp port 0 test-case-id 1 src 10.0.0.1 10.0.0.1 sport 9 9 dest 233.252.0.1 233.252.0.4 dport 1 2\n\
         set tests multicast-src raw port 0 test-case-id 1 data-req-plen 100 data-resp-plen 0\nset tests async port 0 test-case-id 0\n",
        pair(CLIENT, SERVER)
    );
    let converted = of(&text);
    assert!(
        converted.scenario.flows.is_empty()
            && told(&converted).contains("w:3: test case 1: it is a flow")
    );
    let converted = on_links(&text);
    assert_eq!(converted.scenario.flows.keys().collect::<Vec<_>>(), ["port-0-test-1"]);
    assert!(told(&converted).contains("not each meets each"));
    // one that is too short for a probe was refused when it was compiled
    let converted = on_links(&text.replace("data-req-plen 100", "data-req-plen 15"));
    assert_eq!(converted.scenario.flows["port-0-test-1"].probe, Probe::Off);
    assert!(told(&converted).contains("w:3: port-0-test-1: 15 bytes have no room for the 16"));
}

#[test]
fn what_warp17_refuses_has_no_effect() {
    let started =
        format!("{}start tests port 1\nset tests mtu port 1 9000\n", pair(CLIENT, SERVER));
    let converted = of(&format!(
        "{started}start tests port 0\nset tests timeouts port 0 test-case-id 9 init 1\n"
    ));
    assert!(converted.scenario.ports["port-1"].mtu.is_none());
    assert!(
        told(&converted).contains("w:4: mtu port 1 9000: the tests of port 1 run already"),
        "{}",
        told(&converted)
    );
    let wrong = format!(
        "{}set tests server raw port 0 test-case-id 0 data-req-plen 1 data-resp-plen 1\n",
        pair(CLIENT, SERVER)
    );
    assert!(
        told(&of(&wrong)).contains("w:3: server raw port 0 test-case-id 0"),
        "{}",
        told(&of(&wrong))
    );
    let twice = format!("{0}{0}", pair(CLIENT, SERVER));
    assert!(told(&of(&twice)).contains("w:3: client tcp port 0 test-case-id 0"));
    // of two ports, one is never started
    let one = format!("{}start tests port 0\n", pair(CLIENT, SERVER));
    let converted = of(&one);
    assert_eq!(names(&converted), ["port-0-test-0"]);
    assert!(first(&converted).to.is_none());
}

#[test]
fn a_syn_that_is_repeated_more_often_than_here_is_named() {
    let of_both = |count: u32| {
        let option = |port: u32, option: &str| {
            format!("set tests tcp-options port {port} test-case-id 0 {option} {count}\n")
        };
        of(&format!(
            "{}{}{}",
            pair(CLIENT, SERVER),
            option(0, "syn-retry"),
            option(1, "syn-ack-retry")
        ))
    };
    let converted = of_both(128);
    assert_eq!(first(&converted).tcp.syn_retries, Some(127));
    for line in [3, 4] {
        let named = format!("w:{line}: tcp-options port");
        assert!(told(&converted).contains(&named), "{}", told(&converted));
    }
    assert!(told(&converted).contains("repeated 127 times at most"), "{}", told(&converted));
    assert!(!told(&of_both(127)).contains("127 times"));
}

/// One way, of messages that bear their times: in WARP17 as here.
#[test]
fn limits_of_latency_are_expectations_where_messages_go_one_way() {
    let udp = |client: &str, server: &str, latency: &str| {
        let text = pair(CLIENT, SERVER).replace(" tcp ", " udp ");
        let raw = "data-req-plen 100 data-resp-plen 0";
        of(&format!(
            "{text}set tests rate port 0 test-case-id 0 send 100\nset tests client raw port 0 test-case-id 0 {raw}{client}\n\
             set tests server raw port 1 test-case-id 0 {raw}{server}\nset tests latency port 1 test-case-id 0 {latency} samples 9\n"
        ))
    };
    let expected = |converted: &Converted| -> Vec<String> {
        let all = converted.scenario.sessions.values().flat_map(|group| &group.expect);
        all.map(ToString::to_string).collect()
    };
    let (stamps, both) = (" rx-timestamp tx-timestamp", "max 80 max-avg 40");
    let converted = udp(stamps, stamps, both);
    assert_eq!(expected(&converted), ["delay.max.actual <= 80us", "delay.mean.actual <= 40us"]);
    let named =
        "w:6: latency port 1 test-case-id 0 max 80 max-avg 40 samples 9: it is an expectation";
    assert!(told(&converted).contains(named), "{}", told(&converted));
    assert_eq!(expected(&udp(stamps, stamps, "max 80 max-avg 0")), ["delay.max.actual <= 80us"]);
    // without times WARP17 measures nothing
    for (client, server) in [("", stamps), (stamps, "")] {
        let converted = udp(client, server, both);
        assert_eq!(expected(&converted), [""; 0]);
        assert!(told(&converted).contains("w:6: latency port 1"), "{}", told(&converted));
    }
    // responses go both ways
    let raw = "data-req-plen 100 data-resp-plen 100 rx-timestamp tx-timestamp";
    let tcp = of(&format!(
        "{}set tests client raw port 0 test-case-id 0 {raw}\nset tests server raw port 1 test-case-id 0 {raw}\n\
         set tests latency port 0 test-case-id 0 {both} samples 9\n",
        pair(CLIENT, SERVER)
    ));
    assert_eq!(expected(&tcp), [""; 0]);
    assert!(told(&tcp).contains("response.max < 80us"), "{}", told(&tcp));
}

#[test]
fn commands_that_cannot_be_read_are_told_with_their_line() {
    for (text, expected) in [
        (
            "add tests l3_intf port 0 ip 10.0.0.1 mask\n",
            "w:1: the mask is missing; write for example 'add tests l3_intf",
        ),
        ("\nset tests rates port 0\n", "w:2: WARP17 has no command 'set tests rates port 0'"),
        ("add tests client sctp port 0\n", "w:1: 'sctp' is not one of tcp, udp"),
        ("start tests port 64\n", "'64' is not a port: a number from 0 to 63"),
        ("del tests port 0 test-case-id 16\n", "a number from 0 to 15"),
        ("start tests port 0 now\n", "'now' is too much"),
        ("set tests rate port 0 test-case-id 0 open never\n", "'never' is not a rate"),
        ("set tests tcp-options port 0 test-case-id 0 rto 10001\n", "a number from 0 to 10000"),
        (
            "add tests server tcp port 0 test-case-id 0 src 10.0.0.9 10.0.0.1 sport 1 1\n",
            "is before",
        ),
        (
            "add tests server tcp port 0 test-case-id 0 src 224.0.0.1 224.0.0.1 sport 1 1\n",
            "multicast groups",
        ),
        (
            "add tests server tcp port 0 test-case-id 0 src fe80::1 fe80::1 sport 1 1\n",
            "an address of IPv4",
        ),
        ("set tests client http port 0 test-case-id 0 http-field \"X: 1\n", "does not end"),
        ("# nothing\nshow tests ui\n", "w: it has no test case"),
    ] {
        let found = why(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}
