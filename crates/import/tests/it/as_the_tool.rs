//! What a script says that another reading would take otherwise: held against what the tool itself does with it
//! (mgen 5.02b, ITGSend 2.8.1, the kernel's net/core/pktgen.c), as it was seen to do.

use std::num::NonZeroU64;

use wirebeat_import::{Converted, Dialect, Options, Source, convert};
use wirebeat_traffic::compile::{Files, Link, Links, compile};
use wirebeat_traffic::distribution::Bounded;
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::size::Size;
use wirebeat_traffic::scenario::{Departures, FlowRate, FlowSpec};
use wirebeat_units::{Nanos, Rate};

fn converted(dialect: Dialect, text: &str, arguments: &[&str]) -> Result<Converted, String> {
    let read = |name: &str| Err(format!("there is no '{name}'"));
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    let options = Options { arguments, ..Options::default() };
    convert(
        dialect,
        &Source { name: "s", text, read: &read, sessions: &wirebeat_import::no_sessions },
        &options,
    )
    .map_err(|error| error.to_string())
}

fn of(dialect: Dialect, text: &str) -> Converted {
    converted(dialect, text, &[]).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn first(converted: &Converted) -> &FlowSpec {
    &converted.scenario.flows[0]
}

fn ttl(converted: &Converted) -> String {
    let yaml = converted.scenario.to_yaml().unwrap();
    let line = yaml.lines().find_map(|line| line.trim().strip_prefix("ttl: "));
    line.unwrap_or("64").to_owned()
}

fn rate(flow: &FlowSpec) -> String {
    match &flow.rate {
        FlowRate::Fixed(Rate::Frames(rate)) => rate.to_string(),
        other => panic!("{other:?}"),
    }
}

fn smallest(flow: &FlowSpec) -> u64 {
    match &flow.size {
        Some(Size::Drawn(Bounded { min: Some(min), .. }, _)) => min.get(),
        Some(Size::Fixed(length)) => length.bytes.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_global_ttl_of_mgen_is_that_of_unicast_too() {
    let flow = "0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n1 OFF 1\n";
    for (globals, expected) in [
        ("TTL 7\n", "7"),
        ("TTL 7\nUNICAST_TTL 9\n", "9"),
        ("UNICAST_TTL 9\nTTL 7\n", "9"),
        ("", "255"),
    ] {
        assert_eq!(ttl(&of(Dialect::Mgen, &format!("{globals}{flow}"))), expected, "{globals}");
    }
    let group = flow.replace("10.0.0.2", "239.1.1.1");
    assert_eq!(ttl(&of(Dialect::Mgen, &format!("TTL 7\nUNICAST_TTL 9\n{group}"))), "7");
}

/// mgen goes on without a word where a flow is not on; a second ON changes the flow.
#[test]
fn an_off_without_an_on_is_no_error_in_mgen() {
    let script = "0 OFF 5\n0.1 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n0.5 OFF 1\n0.6 OFF 1\n\
                  0.7 ON 2 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n\
                  0.8 ON 2 UDP DST 10.0.0.2/5000 PERIODIC [20 100]\n1.0 MOD 7 PERIODIC [1 100]\n1.1 OFF 2\n";
    let converted = of(Dialect::Mgen, script);
    let mut named: Vec<(u64, &str)> =
        converted.left_out.iter().map(|left| (left.line.number, left.what.as_str())).collect();
    named.sort_unstable();
    assert_eq!(named, [(1, "OFF 5"), (4, "OFF 1"), (6, "ON 2"), (7, "MOD 7")]);
    let flows: Vec<_> = converted.scenario.flows.iter().collect();
    assert_eq!(flows.len(), 2);
    assert_eq!((flows[1].0.as_str(), flows[1].1.at.len()), ("flow-2", 1));
    assert_eq!(flows[1].1.stop, Some(Nanos::from_millis(1100)));
}

/// Staggered, the second flow would begin 50 ms later and lose its last packet.
#[test]
fn flows_of_a_script_begin_when_it_says() {
    let script = "0 ON 1 UDP DST 10.0.0.2/5000 PERIODIC [10 100]\n0 ON 2 UDP DST 10.0.0.2/5001 PERIODIC [10 100]\n\
                  0.3 OFF 1\n0.3 OFF 2\n";
    let converted = of(Dialect::Mgen, script);
    let links = Links { ports: [("sender".to_owned(), Link::imaginary(0))].into() };
    let program = compile(&converted.scenario, &links, &Files::default()).unwrap();
    assert!(program.streams.iter().all(|stream| stream.departures.start == Nanos::ZERO));
}

#[test]
fn poisson_of_mgen_is_a_poisson_process_and_that_of_d_itg_is_not() {
    let mgen = of(Dialect::Mgen, "ON 1 UDP DST 10.0.0.2/5000 POISSON [10 100]\n");
    assert!(matches!(first(&mgen).departures, Departures::Poisson(_)));
    let itg = of(Dialect::Ditg, "-O 100 -o 500\n");
    assert!(matches!(first(&itg).departures, Departures::Drawn(_)));
    assert!(!itg.left_out.is_empty());
    assert!(itg.scenario.to_yaml().unwrap().contains("poisson-distributed"));
}

/// Payload of the smallest packets of `ITGSend … -e 30`, as a capture has them.
#[test]
fn the_smallest_packet_of_d_itg_depends_on_its_options() {
    for (options, expected) in [
        ("", 16),
        ("-p 0", 16),
        ("-T UDP", 20),
        ("-T UDP -p 0", 20),
        ("-p 0 -T UDP", 20),
        ("-p 1", 8),
        ("-T UDP -p 1", 8),
        ("-p 1 -T UDP", 12),
        ("-T UDP -p 2", 4),
        ("-p 2 -T UDP", 8),
    ] {
        let converted = of(Dialect::Ditg, &format!("{options} -C 100 -e 30\n"));
        assert_eq!(smallest(first(&converted)), expected, "{options}");
    }
    assert_eq!(smallest(first(&of(Dialect::Ditg, "-T UDP -c 1\n"))), 20);
}

#[test]
fn options_behind_a_model_of_d_itg_hold() {
    let converted = of(Dialect::Ditg, "-C 20 -c 300 DNS -t 3000 -C 10 -c 50\n");
    let flow = first(&converted);
    assert_eq!((rate(flow).as_str(), smallest(flow)), ("10pps", 50));
    assert_eq!(flow.stop, Some(Nanos::from_secs(3)));
    assert_eq!(converted.left_out.len(), 1, "{:?}", converted.left_out);
    // what stands before it does not
    let voip = of(Dialect::Ditg, "-C 20 -c 300 VoIP -x G.711.2\n");
    assert_eq!((rate(first(&voip)).as_str(), smallest(first(&voip))), ("50pps", 172));
    let telnet = of(Dialect::Ditg, "Telnet -T UDP\n");
    assert!(matches!(first(&telnet).packet.get(1), Some(Header::Udp(_))));
}

const PKTGEN: &str = "pg_thread 0 add_device eth0\npg_set eth0 dst 10.0.0.2\n";

#[test]
fn rates_of_pktgen_are_read_as_the_kernel_reads_them() {
    for (command, expected, notes) in [
        // its page: "set rate to 300 Mb/s"; packets of 60 bytes
        ("rate 300M", "625kpps", 0),
        ("rate 300", "625kpps", 0),
        // digits alone are read
        ("rate 1G", "1/480us", 1),
        ("ratep 1000000", "1Mpps", 0),
        ("ratep 1M", "1pps", 1),
    ] {
        let converted = of(Dialect::Pktgen, &format!("{PKTGEN}pg_set eth0 \"{command}\"\n"));
        assert_eq!(rate(first(&converted)).as_str(), expected, "{command}");
        assert_eq!(converted.left_out.len(), notes, "{command}: {:?}", converted.left_out);
    }
    let why = converted(Dialect::Pktgen, &format!("{PKTGEN}pg_set eth0 \"rate M\"\n"), &[]);
    assert!(why.unwrap_err().starts_with("s:3: rate has a whole number"));
}

/// Flows are about destinations: with one, packets are the same with and without.
#[test]
fn flows_of_pktgen_with_one_destination_are_as_in_pktgen() {
    let flows = "pg_set eth0 \"flows 64\"\npg_set eth0 \"flowlen 8\"\n";
    let one = of(Dialect::Pktgen, &format!("{PKTGEN}{flows}"));
    assert_eq!(first(&one).sub_flows, None);
    assert_eq!(one.left_out.len(), 1, "{:?}", one.left_out);
    let range = format!("{PKTGEN}pg_set eth0 \"dst_max 10.0.0.9\"\n{flows}");
    assert!(first(&of(Dialect::Pktgen, &range)).sub_flows.is_some());
}

#[test]
fn counts_of_addresses_that_pktgen_takes_from_the_interface_are_named() {
    let count = "pg_set eth0 \"src_mac_count 3\"\n";
    let one = of(Dialect::Pktgen, &format!("{PKTGEN}{count}"));
    assert_eq!(one.left_out.len(), 1, "{:?}", one.left_out);
    let address = "pg_set eth0 \"src_mac 02:00:00:00:00:01\"\n";
    let given = of(Dialect::Pktgen, &format!("{PKTGEN}{count}{address}"));
    assert_eq!(given.left_out.len(), 0, "{:?}", given.left_out);
}

/// The options of samples/pktgen/parameters.sh.
const SAMPLE: &str = r#"#!/bin/bash
basedir=`dirname $0`
source ${basedir}/functions.sh
root_check_run_with_sudo "$@"
source ${basedir}/parameters.sh
[ -z "$DEST_IP" ] && DEST_IP="198.18.0.42"
[ -z "$DST_MAC" ] && usage && err 2 "Must specify -m dst_mac"
[ -z "$COUNT" ] && COUNT="100000"
pg_ctrl "reset"
for ((thread = $F_THREAD; thread <= $L_THREAD; thread++)); do
    dev=${DEV}@${thread}
    pg_thread $thread "add_device" $dev
    pg_set $dev "count $COUNT"
    pg_set $dev "pkt_size $PKT_SIZE"
    pg_set $dev "delay $DELAY"
    pg_set $dev "dst_mac $DST_MAC"
    pg_set $dev "dst $DEST_IP"
done
pg_ctrl "start"
"#;

#[test]
fn samples_of_pktgen_take_their_arguments() {
    let arguments =
        ["-i", "eth1", "-d10.0.0.7", "-m", "02:00:00:00:00:09", "-t", "2", "-f", "1", "-s", "124"];
    let arguments: Vec<&str> =
        arguments.into_iter().chain(["-n", "77", "-w", "1000", "-v"]).collect();
    let converted = converted(Dialect::Pktgen, SAMPLE, &arguments).unwrap();
    let flows: Vec<&str> = converted.scenario.flows.keys().map(String::as_str).collect();
    assert_eq!(flows, ["eth1@1", "eth1@2"]);
    let flow = first(&converted);
    assert_eq!((flow.count, rate(flow).as_str()), (NonZeroU64::new(77), "1Mpps"));
    assert!(matches!(&flow.size, Some(Size::Fixed(length)) if length.bytes == 128));
    let yaml = converted.scenario.to_yaml().unwrap();
    assert!(yaml.contains("10.0.0.7") && yaml.contains("02:00:00:00:00:09"), "{yaml}");
}

#[test]
fn arguments_that_a_sample_does_not_have_are_refused() {
    let wrong = |arguments: &[&str]| converted(Dialect::Pktgen, SAMPLE, arguments).unwrap_err();
    assert!(
        wrong(&["-i", "eth1", "-z"]).starts_with("s:5: '-z' is not an option of parameters.sh")
    );
    assert!(wrong(&["-i", "eth1", "-d"]).starts_with("s:5: -d has no value"));
    assert!(wrong(&["-i", "eth1"]).contains("$DST_MAC is not set"));
    let others = converted(Dialect::Mgen, "ON 1 UDP DST 10.0.0.2/5 PERIODIC [1 99]\n", &["-i"]);
    assert!(others.unwrap_err().contains("takes no arguments"));
}

#[test]
fn arguments_that_nothing_reads_are_named() {
    let converted = converted(Dialect::Pktgen, PKTGEN, &["-i", "eth1"]).unwrap();
    assert_eq!(converted.left_out.len(), 1, "{:?}", converted.left_out);
    let script = format!("DST=$1\n{}", PKTGEN.replace("10.0.0.2", "$DST"));
    let converted = self::converted(Dialect::Pktgen, &script, &["10.0.0.9"]).unwrap();
    assert!(
        converted.left_out.is_empty() && converted.scenario.to_yaml().unwrap().contains("10.0.0.9")
    );
}
