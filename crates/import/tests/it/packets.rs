//! Stateful profiles of T-Rex, packet by packet: two flows for each template.

use wirebeat_import::{Converted, Dialect, Options, ScriptError, Source, convert};
use wirebeat_traffic::scenario::FlowSpec;
use wirebeat_traffic::scenario::replay::{Copies, Side};
use wirebeat_units::Nanos;

const GENERATOR: &str = "- duration : 10.0\n  generator :\n    distribution : \"seq\"\n    clients_start : \"16.0.0.1\"\n    \
                         clients_end : \"16.0.0.255\"\n    servers_start : \"48.0.0.1\"\n    servers_end : \"48.0.0.255\"\n";

fn options() -> Options {
    Options { packets: true, ..Options::default() }
}

fn try_profile(text: &str, options: &Options) -> Result<Converted, ScriptError> {
    let read = |name: &str| Err(format!("there is no '{name}'"));
    let source = Source { name: "p.yaml", text, read: &read, sessions: &super::captured };
    convert(Dialect::Trex, &source, options)
}

/// A profile with these keys before its templates.
fn profile(keys: &str, templates: &str) -> Converted {
    let text = format!("{GENERATOR}{keys}  cap_info :\n{templates}");
    try_profile(&text, &options()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn copies(flow: &FlowSpec) -> &Copies {
    flow.replay.as_ref().unwrap().copies.as_ref().unwrap()
}

fn first(converted: &Converted) -> &Copies {
    copies(&converted.scenario.flows[0])
}

fn ms(ms: u64) -> Option<Nanos> {
    Some(Nanos::from_millis(ms))
}

#[test]
fn a_template_is_two_flows_that_play_the_two_sides() {
    let converted = profile(
        "",
        "    - name: cap2/dns.pcap\n      cps : 2.5\n      ipg : 10000\n      rtt : 20000\n      w : 4\n",
    );
    let flows = &converted.scenario.flows;
    assert_eq!(flows.keys().map(String::as_str).collect::<Vec<_>>(), ["dns-client", "dns-server"]);
    for (flow, side, from, to) in [
        ("dns-client", Side::Client, "clients", "servers"),
        ("dns-server", Side::Server, "servers", "clients"),
    ] {
        let flow = &flows[flow];
        assert_eq!((flow.from.as_str(), flow.to.as_deref()), (from, Some(to)));
        assert_eq!((flow.stop, flow.replay.as_ref().unwrap().side), (ms(10_000), Some(side)));
        let copies = copies(flow);
        assert_eq!((copies.gap, copies.turnaround, copies.min_gap), (ms(10), ms(20), None));
        assert_eq!((copies.per_pair.get(), copies.tuples), (4, None));
        assert_eq!(copies.clients.addresses.len(), 255);
    }
    assert_eq!((converted.scenario.run.time, converted.scenario.sessions.len()), (None, 0));
    assert!(converted.scenario.to_yaml().unwrap().contains("rate: 2.5/s"));
}

#[test]
fn times_are_those_of_the_capture_where_they_are_asked_for() {
    let template = "    - name: dns.pcap\n      cps : 1.0\n      ipg : 10000\n      rtt : 10000\n      w : 1\n";
    let times = |keys: &str, more: &str| {
        let converted = profile(keys, &format!("{template}{more}"));
        let copies = first(&converted);
        (copies.gap, copies.turnaround, copies.min_gap)
    };
    let us = |us: u64| Some(Nanos::from_micros(us));
    assert_eq!(times("", ""), (ms(10), ms(10), None));
    assert_eq!(times("  cap_ipg : true\n", ""), (None, None, None));
    assert_eq!(times("", "      cap_ipg : true\n"), (None, None, None));
    assert_eq!(times("  cap_ipg : true\n", "      cap_ipg : false\n"), (ms(10), ms(10), None));
    let both = "  cap_ipg : true\n  cap_ipg_min : 30\n  cap_override_ipg : 200\n";
    assert_eq!(times(both, ""), (None, None, us(200)));
    assert_eq!(times("  cap_override_ipg : 200\n", ""), (us(200), us(200), None));
}

/// T-Rex plays a flow with a limit again as long after its end as all of them take to start.
#[test]
fn a_limit_is_so_many_tuples_again_and_again() {
    let template = |limit: &str| {
        format!(
            "    - name: dns.pcap\n      cps : 15.0\n      ipg : 10000\n      rtt : 10000\n      w : 1\n{limit}"
        )
    };
    let converted = profile("", &template("      limit : 6\n"));
    assert_eq!(first(&converted).tuples.unwrap().get(), 6);
    let yaml = converted.scenario.to_yaml().unwrap();
    // three packets last two turnarounds
    assert!(yaml.contains("\"on\": 400ms") && yaml.contains("\"off\": 20ms"), "{yaml}");
    assert!(!profile("", &template("")).scenario.to_yaml().unwrap().contains("on-off"));
}

#[test]
fn templates_have_client_ports_of_their_own_in_blocks_of_a_power_of_two() {
    let template =
        "    - name: dns.pcap\n      cps : 1.0\n      ipg : 1\n      rtt : 1\n      w : 1\n";
    let converted = profile("", &template.repeat(8));
    assert_eq!(converted.scenario.flows.len(), 16);
    let blocks: Vec<(u16, u16)> = converted
        .scenario
        .flows
        .values()
        .step_by(2)
        .map(|flow| copies(flow).clients.ports.as_ref().unwrap().0[0])
        .map(|range| (range.first, range.last))
        .collect();
    assert_eq!(blocks[0], (4096, 8191));
    assert_eq!(blocks[7], (32_768, 36_863));
    assert!(blocks.iter().all(|(first, last)| first % 4096 == 0 && last - first == 4095));
    let alone = profile("", template);
    assert_eq!(first(&alone).clients.ports.as_ref().unwrap().0[0].first, 1024);
    let kept = profile("", &format!("{template}      keep_src_port : true\n"));
    assert!(first(&kept).keep_ports && first(&kept).clients.ports.is_none());
}

#[test]
fn what_is_not_carried_over_is_named_and_what_contradicts_is_refused() {
    let template = "    - name: dns.pcap\n      cps : 1.0\n      ipg : 1\n      rtt : 1\n      w : 1\n      plugin_id : 2\n";
    let converted = profile("  tcp_aging : 1\n", template);
    let told: Vec<&str> = converted.left_out.iter().map(|it| it.what.as_str()).collect();
    assert!(told.contains(&"plugin_id") && !told.contains(&"cap_info"), "{told:?}");
    let text = format!("{GENERATOR}  cap_info :\n{template}");
    let sessions = try_profile(&text, &Options::default()).unwrap();
    assert!(sessions.left_out.iter().any(|it| it.why.contains("--packets plays the packets")));
    for (text, options, words) in [
        (
            text.clone(),
            Options { interface: Some("eth1".into()), ..options() },
            "say with --to which it is",
        ),
        (
            text.replace("cps : 1.0", "cps : 0"),
            options(),
            "p.yaml:10: a template is played so many times a second",
        ),
        (text.replace("dns.pcap", "none.pcap"), options(), "'none.pcap' cannot be played"),
        (
            "{ \"templates\": [], \"buf_list\": [], \"program_list\": [] }".to_owned(),
            options(),
            "this is none; leave it out",
        ),
    ] {
        let error = try_profile(&text, &options).expect_err(&text).to_string();
        assert!(error.contains(words), "{error}");
    }
    let source = Source {
        name: "m",
        text: "0 ON 1 UDP DST 10.0.0.1/5000 PERIODIC [1 100]\n",
        read: &|_| Err(String::new()),
        sessions: &super::captured,
    };
    let error = convert(Dialect::Mgen, &source, &options()).unwrap_err().to_string();
    assert!(error.contains("--packets is for stateful profiles of T-Rex"), "{error}");
    let timed = try_profile(&text, &Options { time: ms(5), ..options() }).unwrap();
    assert_eq!((timed.scenario.run.time, timed.scenario.flows[0].stop), (ms(5), None));
}
