//! Stateful profiles of T-Rex as sessions: pools, limits, and that nothing is left out in silence.

use std::num::NonZeroU32;

use wirebeat_import::{Converted, Dialect, Options, Source, convert};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::session::{
    AddressRange, ProgramSpec, SessionSpec, in_sessions_per_second,
};
use wirebeat_units::Nanos;

const GENERATOR: &str = "- duration : 10.0\n  generator :\n    clients_start : \"16.0.0.1\"\n    clients_end : \"16.0.0.255\"\n    \
                         servers_start : \"48.0.0.1\"\n    servers_end : \"48.0.0.255\"\n";
/// Pools with names, from line 7 on.
const POOLS: &str = "    generator_clients :\n      - name : \"c1\"\n        ip_start : \"17.0.0.1\"\n        ip_end : \"17.0.0.9\"\n        \
                     tcp_aging : 3\n        novel : 1\n        track_ports : true\n    generator_servers :\n      - name : \"s1\"\n        \
                     ip_start : \"49.0.0.1\"\n        ip_end : \"49.0.0.9\"\n        distribution : \"bell\"\n";
const TEMPLATE: &str = "  cap_info :\n    - name: http.pcap\n      cps : 2.0\n";

fn try_convert(text: &str, options: &Options) -> Result<Converted, String> {
    let read = |name: &str| Err(format!("there is no '{name}'"));
    let source = Source { name: "p.yaml", text, read: &read, sessions: &super::captured };
    convert(Dialect::Trex, &source, options).map_err(|error| error.to_string())
}

fn of(text: &str) -> Converted {
    try_convert(text, &Options::default()).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn why(text: &str) -> String {
    try_convert(text, &Options::default()).err().unwrap_or_else(|| panic!("not refused: {text}"))
}

fn told(converted: &Converted) -> Vec<String> {
    let all = converted.left_out.iter().filter(|it| it.what != "cap_info");
    all.map(ToString::to_string).collect()
}

fn first(converted: &Converted) -> &SessionSpec {
    &converted.scenario.sessions[0]
}

#[test]
fn pools_that_templates_name_have_to_be_there() {
    let named = of(&format!(
        "{GENERATOR}{POOLS}{TEMPLATE}      client_pool : c1\n      server_pool : s1\n"
    ));
    assert_eq!(first(&named).clients.addresses.0[0].to_string(), "17.0.0.1-17.0.0.9");
    let usual = of(&format!("{GENERATOR}{POOLS}{TEMPLATE}      client_pool : default\n"));
    assert_eq!(first(&usual).clients.addresses.0[0].to_string(), "16.0.0.1-16.0.0.255");
    let unknown = why(&format!("{GENERATOR}{POOLS}{TEMPLATE}      client_pool : \"c2\"\n"));
    assert_eq!(unknown, "p.yaml:22: there is no pool 'c2'; write one of c1");
    let without = why(&format!("{GENERATOR}{TEMPLATE}      server_pool : s1\n"));
    assert_eq!(
        without,
        "p.yaml:10: the generator has no pools with names; leave 'server_pool' out"
    );
    let nameless =
        why(&format!("{GENERATOR}{}{TEMPLATE}", POOLS.replace("name : \"c1\"", "nam : \"c1\"")));
    assert!(nameless.starts_with("p.yaml:8: this pool has no name"), "{nameless}");
    let twice = why(&format!(
        "{GENERATOR}{}{TEMPLATE}",
        POOLS.replace(
            "novel : 1\n",
            "novel : 1\n      - name : c1\n        ip_start : 1.1.1.1\n        ip_end : 1.1.1.1\n"
        )
    ));
    assert!(twice.contains("there are two pools 'c1'"), "{twice}");
    let no_list = why(&format!("{GENERATOR}    generator_clients : 5\n{TEMPLATE}"));
    assert!(no_list.starts_with("p.yaml:7: it is no list of pools"), "{no_list}");
}

#[test]
fn keys_of_pools_and_further_profiles_are_named() {
    let text = format!("{GENERATOR}{POOLS}{TEMPLATE}{GENERATOR}{TEMPLATE}");
    let converted = of(&text);
    let told = told(&converted);
    for (line, what) in [(11, "tcp_aging"), (12, "novel"), (18, "distribution"), (22, "profile 2")]
    {
        let begins = format!("p.yaml:{line}: {what}: ");
        assert!(told.iter().any(|it| it.starts_with(&begins)), "{begins}\n{told:#?}");
    }
    assert_eq!(told.len(), 4, "{told:#?}");
}

/// T-Rex has so many flows at a time, and begins each again as long after its end as all of them take to start.
#[test]
fn a_limit_is_users_that_pause_as_long_as_all_of_them_take_to_start() {
    let text = format!("{GENERATOR}{TEMPLATE}      limit : 6\n");
    let converted = of(&text);
    let group = first(&converted);
    assert_eq!((group.users, group.count), (NonZeroU32::new(6), None));
    assert_eq!(group.think, Some(Duration::Fixed(Nanos::from_secs(3))));
    let opening = group.limit.and_then(|limit| limit.opening).unwrap();
    assert_eq!(
        in_sessions_per_second(&wirebeat_traffic::scenario::FlowRate::Fixed(opening)).as_deref(),
        Some("2/s")
    );
    assert_eq!(told(&converted), [""; 0]);
    let text = format!("{text}      w : 4\n");
    assert_eq!(
        told(&of(&text)),
        ["p.yaml:11: w: with a limit flows begin one by one, at the rate"]
    );
    for limit in ["0", "-1", "many"] {
        let why = why(&format!("{GENERATOR}{TEMPLATE}      limit : {limit}\n"));
        assert!(why.starts_with("p.yaml:10: it is no number of flows"), "{why}");
    }
    for (w, shown) in [
        ("0", "0"),
        ("-1", "-1"),
        ("18446744073709551615", "18446744073709551615"),
        ("many", "\"many\""),
    ] {
        let why = why(&format!("{GENERATOR}{TEMPLATE}      w : {w}\n"));
        let begins = format!("p.yaml:10: 'w: {shown}' is not a number of flows");
        assert!(why.starts_with(&begins), "{why}");
    }
    let many = of(&format!("{GENERATOR}{TEMPLATE}      limit : 20000000\n"));
    assert!(first(&many).users.is_none());
    assert!(
        told(&many)[0].starts_with("p.yaml:10: limit: more than 10000000 flows"),
        "{:?}",
        told(&many)
    );
}

#[test]
fn a_template_says_itself_whether_it_keeps_the_times_of_its_capture() {
    let keeps = |keys: &str, more: &str| {
        let converted = of(&format!("{GENERATOR}{keys}{TEMPLATE}{more}"));
        assert_eq!(told(&converted), [""; 0]);
        match &first(&converted).program {
            ProgramSpec::Capture(capture) => capture.keep_times,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(keeps("", ""), None);
    assert_eq!(keeps("", "      cap_ipg : true\n"), Some(true));
    assert_eq!(keeps("  cap_ipg : true\n", ""), Some(true));
    assert_eq!(keeps("  cap_ipg : true\n", "      cap_ipg : false\n"), None);
}

#[test]
fn addresses_of_both_ends_are_refused_for_sessions_and_named_for_packets() {
    let text = GENERATOR.replace("48.0.0.1", "16.0.0.200") + TEMPLATE;
    let refused = why(&text);
    assert!(
        refused.starts_with("p.yaml:8: its clients 16.0.0.1-16.0.0.255 and servers 16.0.0.200-48.0.0.255 have addresses in common"),
        "{refused}"
    );
    let packets = Options { packets: true, ..Options::default() };
    let played = try_convert(&text, &packets).unwrap();
    assert!(
        told(&played)[0].starts_with("p.yaml:8: addresses: its clients"),
        "{:?}",
        told(&played)
    );
    let server = why(&format!("{GENERATOR}{TEMPLATE}      server_addr : \"16.0.0.7\"\n"));
    assert!(server.contains("and servers 16.0.0.7 have addresses in common"), "{server}");
}

/// What the second template was said to overlap with made two groups with the same servers, which no run takes.
#[test]
fn servers_of_pools_that_overlap_are_divided() {
    let servers = |pool: &str, more: &str| {
        let pools = format!(
            "    generator_servers :\n      - name : s1\n        ip_start : {}\n        ip_end : {}\n",
            pool.split('-').next().unwrap(),
            pool.split('-').next_back().unwrap()
        );
        let second = TEMPLATE.replace("  cap_info :\n", "");
        let converted = of(&format!("{GENERATOR}{pools}{TEMPLATE}{second}      {more}\n"));
        assert_eq!(told(&converted), [""; 0]);
        converted.scenario.check().unwrap();
        let pools = converted.scenario.sessions.values().map(|group| &group.servers.addresses.0);
        let text = |pool: &Vec<AddressRange>| {
            pool.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        pools.map(text).collect::<Vec<_>>()
    };
    assert_eq!(
        servers("48.0.0.156-48.0.1.99", "server_pool : s1"),
        ["48.0.0.1-48.0.0.205", "48.0.0.206-48.0.1.99"]
    );
    assert_eq!(
        servers("48.0.0.101-48.0.0.110", "server_pool : s1"),
        ["48.0.0.1-48.0.0.105 48.0.0.111-48.0.0.255", "48.0.0.106-48.0.0.110"]
    );
    assert_eq!(
        servers("49.0.0.1-49.0.0.9", "server_addr : 48.0.0.7"),
        ["48.0.0.1-48.0.0.6 48.0.0.8-48.0.0.255", "48.0.0.7"]
    );
    // T-Rex gives clients a pool each, and they may have the same addresses
    let clients = "    generator_clients :\n      - name : c1\n        ip_start : 16.0.0.9\n        ip_end : 16.0.1.9\n";
    let second = TEMPLATE.replace("  cap_info :\n", "");
    let converted = of(&format!("{GENERATOR}{clients}{TEMPLATE}{second}      client_pool : c1\n"));
    let of = |at: usize| converted.scenario.sessions[at].clients.addresses.0[0].to_string();
    assert_eq!([of(0), of(1)], ["16.0.0.1-16.0.0.255", "16.0.0.9-16.0.1.9"]);
}

/// The clients of one template and the servers of another are hosts of one link as well.
#[test]
fn clients_that_are_servers_of_another_template_are_refused_with_its_line() {
    let pools = "    generator_servers :\n      - name : s1\n        ip_start : 16.0.0.200\n        ip_end : 16.0.1.9\n    generator_clients :\n      \
                 - name : c1\n        ip_start : 20.0.0.1\n        ip_end : 20.0.0.9\n";
    let second = TEMPLATE.replace("  cap_info :\n", "");
    let text = format!(
        "{GENERATOR}{pools}{TEMPLATE}{second}      client_pool : c1\n      server_pool : s1\n"
    );
    let refused = why(&text);
    assert!(
        refused.starts_with("p.yaml:18: its clients 16.0.0.1-16.0.0.255 and servers 16.0.0.200-16.0.1.9 have addresses in common"),
        "{refused}"
    );
}

/// Tunables of TCP are of advanced profiles.
#[test]
fn tunables_in_a_stateful_profile_are_named() {
    let converted =
        of(&format!("{GENERATOR}  c_glob_info :\n    tcp : {{ mss : 500 }}\n{TEMPLATE}"));
    assert_eq!(told(&converted), ["p.yaml:7: c_glob_info: it has no meaning here"]);
}

#[test]
fn a_template_that_is_none_is_refused() {
    let refused =
        why(&format!("{GENERATOR}  cap_info :\n    - name: http.pcap\n      cps : 1.0\n    - 5\n"));
    assert!(refused.starts_with("p.yaml:10: it is no template"), "{refused}");
}
