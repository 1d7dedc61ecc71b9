//! What goes over connections in MGEN and D-ITG, and what is sent back, is sessions.

use std::num::{NonZeroU32, NonZeroU64};

use wirebeat_import::{Converted, Dialect, Options, Source, convert};
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::session::program::{Bulk, Echo, Messages};
use wirebeat_traffic::scenario::session::{
    DataSize, OnTimeout, ProgramSpec, SessionSpec, Transport,
};
use wirebeat_units::{Bytes, Nanos};

fn of(dialect: Dialect, text: &str) -> Converted {
    let read = |name: &str| Err(format!("there is no '{name}'"));
    let source = Source { name: "s", text, read: &read, sessions: &wirebeat_import::no_sessions };
    convert(dialect, &source, &Options::default()).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn mgen(text: &str) -> Converted {
    of(Dialect::Mgen, text)
}

fn ditg(text: &str) -> Converted {
    of(Dialect::Ditg, text)
}

fn group<'a>(converted: &'a Converted, name: &str) -> &'a SessionSpec {
    let sessions = &converted.scenario.sessions;
    sessions.get(name).unwrap_or_else(|| panic!("no '{name}' among {:?}", names(converted)))
}

fn names(converted: &Converted) -> Vec<&str> {
    converted.scenario.sessions.keys().map(String::as_str).collect()
}

fn messages(group: &SessionSpec) -> &Messages {
    match &group.program {
        ProgramSpec::Messages(messages) => messages,
        other => panic!("{other:?}"),
    }
}

fn echo(group: &SessionSpec) -> &Echo {
    match &group.program {
        ProgramSpec::Echo(echo) => echo,
        other => panic!("{other:?}"),
    }
}

fn bulk(group: &SessionSpec) -> &Bulk {
    match &group.program {
        ProgramSpec::Bulk(bulk) => bulk,
        other => panic!("{other:?}"),
    }
}

fn fixed(ms: u64) -> Duration {
    Duration::Fixed(Nanos::from_millis(ms))
}

fn told(converted: &Converted, line: u64, what: &str, why: &str) {
    let mut left = converted.left_out.iter();
    let found = left.any(|it| it.line.number == line && it.what == what && it.why.contains(why));
    assert!(found, "{line}: {what}: {why}\n{:#?}", converted.left_out);
}

#[test]
fn a_flow_of_mgen_over_tcp_is_one_connection_from_on_to_off() {
    let converted = mgen(
        "1 ON 1 TCP SRC 6001 DST 10.0.0.1/5000 PERIODIC [10 1024] TOS 0xb8 TXBUFFER 9000\n4 OFF 1\n",
    );
    let group = group(&converted, "flow-1");
    assert_eq!(converted.scenario.flows.len(), 0);
    assert_eq!((group.from.as_deref(), &group.to), (Some("sender"), &None));
    assert_eq!((group.count, group.transport), (Some(NonZeroU64::MIN), Transport::Tcp));
    assert_eq!((group.start, group.stop), (Nanos::from_secs(1), Some(Nanos::from_secs(4))));
    assert_eq!(group.dscp.map(|dscp| dscp.to_tos()), Some(0xb8));
    assert_eq!(group.tcp.send_buffer, Some(Bytes::new(9000)));
    let messages = messages(group);
    assert_eq!((&messages.size, &messages.gap), (&DataSize::Fixed(Bytes::new(1024)), &fixed(100)));
    assert_eq!((messages.messages, messages.time), (None, None));
    told(&converted, 1, "TCP", "wirebeat serve messages --listen 10.0.0.1:5000'");
    assert_eq!(converted.left_out.len(), 1, "{:#?}", converted.left_out);
}

/// The group's stop does not end a number of messages.
#[test]
fn a_count_of_mgen_that_off_comes_before_is_limited_by_time() {
    let of = |count: &str, off: &str| {
        let converted =
            mgen(&format!("0 ON 1 TCP DST 10.0.0.1/5000 PERIODIC [10 100] COUNT {count}\n{off}"));
        let messages = messages(group(&converted, "flow-1"));
        (messages.messages.map(NonZeroU32::get), messages.time)
    };
    assert_eq!(of("5", "2 OFF 1\n"), (Some(5), None));
    assert_eq!(of("5", ""), (Some(5), None));
    // the first is planned for the start: 21 are sent up to 2 s
    assert_eq!(of("20", "2 OFF 1\n"), (Some(20), None));
    assert_eq!(of("21", "2 OFF 1\n"), (Some(21), Some(Nanos::from_secs(2))));
}

#[test]
fn what_changes_in_a_connection_of_mgen_is_another_one() {
    let converted = mgen(
        "0 ON 1 TCP SRC 6001 DST 10.0.0.1/5000 PERIODIC [10 100]\n1 MOD 1 PERIODIC [10 100]\n\
         2 MOD 1 PERIODIC [20 100]\n3 MOD 1 PERIODIC [0 100]\n5 MOD 1 PERIODIC [20 200]\n9 OFF 1\n",
    );
    assert_eq!(names(&converted), ["flow-1", "flow-1@2s", "flow-1@5s"]);
    let times = |name: &str| {
        let group = group(&converted, name);
        (group.start.as_secs_f64(), group.stop.map(Nanos::as_secs_f64))
    };
    assert_eq!(times("flow-1"), (0.0, Some(2.0)));
    assert_eq!(times("flow-1@2s"), (2.0, Some(3.0)));
    assert_eq!(times("flow-1@5s"), (5.0, Some(9.0)));
    assert!(group(&converted, "flow-1").clients.ports.is_some());
    assert!(group(&converted, "flow-1@2s").clients.ports.is_none());
    told(&converted, 3, "MOD 1", "'flow-1@2s'");
    told(&converted, 3, "SRC 6001", "the system chooses it");
    told(&converted, 5, "MOD 1", "'flow-1@5s'");
}

#[test]
fn a_flow_of_mgen_without_a_rate_is_bulk_data() {
    let converted = mgen(
        "0 ON 1 TCP DST 10.0.0.1/5000 PERIODIC [-1 2000] COUNT 3\n4 OFF 1\n\
         0 ON 2 TCP DST 10.0.0.1/5001 PERIODIC [-1 2000]\n",
    );
    assert_eq!(bulk(group(&converted, "flow-1")).bytes, Some(Bytes::new(6000)));
    let endless = group(&converted, "flow-2");
    assert_eq!((bulk(endless).bytes, endless.stop), (None, Some(Nanos::from_secs(10))));
    told(&converted, 3, "flow-2", "the script never ends this flow");
}

#[test]
fn bursts_are_connections_that_follow_one_another() {
    let script =
        |burst: &str| mgen(&format!("1 ON 1 TCP DST 10.0.0.1/5000 BURST [{burst}]\n20 OFF 1\n"));
    let regular = script("REGULAR 6 PERIODIC [50 128] FIXED 2");
    let group_of = group(&regular, "flow-1");
    assert_eq!(messages(group_of).time, Some(Nanos::from_secs(2)));
    assert_eq!((group_of.count, group_of.limit.is_some()), (None, false));
    let yaml = regular.scenario.to_yaml().unwrap();
    assert!(yaml.contains("rate: 1/6s"), "{yaml}");
    let random = script("RANDOM 6 PERIODIC [50 128] FIXED 2");
    let yaml = random.scenario.to_yaml().unwrap();
    assert!(yaml.contains("beyond: queue") && yaml.contains("mean: 6s"), "{yaml}");
    let without_pause = script("REGULAR 2 PERIODIC [50 128] FIXED 2");
    assert_eq!(messages(group(&without_pause, "flow-1")).time, None);
    let nested = script("REGULAR 6 BURST [REGULAR 1 PERIODIC [9 99] FIXED 0.5] FIXED 2");
    assert!(nested.scenario.sessions.is_empty());
    told(&nested, 1, "flow-1", "no bursts; it is not sent");
    // counted: in the first burst, and in several
    for (count, messages_of_one, sessions) in
        [(40, Some(40), 1), (100, Some(100), 1), (101, None, 2)]
    {
        let text = format!(
            "1 ON 1 TCP DST 10.0.0.1/5000 BURST [REGULAR 6 PERIODIC [50 128] FIXED 2] COUNT {count}\n"
        );
        let converted = mgen(&text);
        let group = group(&converted, "flow-1");
        assert_eq!(group.count.map(NonZeroU64::get), Some(sessions), "{count}");
        assert_eq!(messages(group).messages.map(NonZeroU32::get), messages_of_one, "{count}");
    }
    let ditg = ditg("-T TCP -C 100 -c 200 -B C 1000 C 500\n");
    let group = group(&ditg, "flow-1");
    assert_eq!((group.users, &group.think), (NonZeroU32::new(1), &Some(fixed(500))));
    assert_eq!(messages(group).time, Some(Nanos::from_secs(1)));
}

#[test]
fn listeners_of_mgen_are_servers() {
    let converted = mgen(
        "0 LISTEN TCP 6010-6012,6020\n0 LISTEN TCP 6011,6013 RXBUFFER 100000\n3 IGNORE TCP 6012\n\
         0 ON 1 TCP DST 127.0.0.1/6011 PERIODIC [10 100]\n2 OFF 1\n\
         0 ON 2 TCP DST 127.0.0.1/6012 PERIODIC [-1 100]\n2 OFF 2\n",
    );
    assert_eq!(
        names(&converted),
        ["flow-1", "flow-2", "listen-6010", "listen-6012", "listen-6013"]
    );
    let ports = |name: &str| group(&converted, name).servers.ports.as_ref().unwrap().0.clone();
    let ranges = |name: &str| -> Vec<(u16, u16)> {
        ports(name).iter().map(|range| (range.first, range.last)).collect()
    };
    assert_eq!(ranges("listen-6010"), [(6010, 6011), (6020, 6020)]);
    assert_eq!(ranges("listen-6012"), [(6012, 6012)]);
    // bulk data is no messages
    bulk(group(&converted, "listen-6012"));
    let other = group(&converted, "listen-6013");
    assert_eq!((&other.from, other.to.as_deref()), (&None, Some("receiver")));
    assert_eq!(other.tcp.receive_buffer, Some(Bytes::new(100_000)));
    messages(other);
    told(&converted, 3, "TCP 6012", "until the run ends");
    told(&converted, 4, "TCP", "the server at port 6011 of this scenario");
    // clients of the run end it
    assert_eq!(converted.scenario.run.time, None);
}

#[test]
fn a_run_of_servers_alone_ends_when_the_last_port_is_ignored() {
    let listen = "0 LISTEN TCP 6010,6011\n1 IGNORE TCP 6010\n";
    let ended = mgen(&format!("OFFSET 1\n{listen}5 IGNORE TCP 6011\n"));
    assert_eq!(ended.scenario.run.time, Some(Nanos::from_secs(4)));
    let open = mgen(listen);
    assert_eq!(open.scenario.run.time, None);
    told(&open, 1, "TCP 6010,6011", "until Ctrl-C");
    let again = mgen(&format!("{listen}5 IGNORE TCP 6011\n6 LISTEN TCP 6011\n"));
    assert_eq!(again.scenario.run.time, None);
}

#[test]
fn a_flow_of_d_itg_over_tcp_is_one_connection() {
    let converted = ditg(
        "-a 10.0.0.2 -sa 10.0.0.1 -sp 9002 -T TCP -b 0xb8 -f 7 -d 500 -t 3000 -C 100 -c 500\n-T TCP -D -z 5 -c 10\n",
    );
    let first = group(&converted, "flow-1");
    assert_eq!(
        (first.start, first.stop),
        (Nanos::from_millis(500), Some(Nanos::from_millis(3500)))
    );
    assert_eq!((messages(first).gap.clone(), first.count), (fixed(10), Some(NonZeroU64::MIN)));
    // as in ITGSend, which sets TCP_NODELAY with -D alone
    assert!(first.tcp.nagle);
    let second = group(&converted, "flow-2");
    assert!(!second.tcp.nagle);
    assert_eq!(messages(second).messages.map(NonZeroU32::get), Some(5));
    // the number and the times of a message have 32 bytes
    assert_eq!(messages(second).size, DataSize::Fixed(Bytes::new(32)));
    told(&converted, 2, "-T TCP", "have 32");
}

#[test]
fn round_trips_of_d_itg_are_echoes() {
    let converted = ditg(
        "-a 10.0.0.2 -m rttm -C 50 -c 100 -t 2000\n-T TCP -m rttm -C 50 -c 100 -z 7\n\
         -m rttm -E 100 -t 5000\n-a 239.1.1.1 -m rttm\n-T ICMP -m rttm\n-m rttm -sp 9000 -rp 9000\n",
    );
    let udp = group(&converted, "flow-1");
    assert_eq!((udp.transport, udp.on_timeout), (Transport::Udp, OnTimeout::Next));
    let Echo { size, messages, gap } = echo(udp);
    assert_eq!((size, messages.get()), (&DataSize::Fixed(Bytes::new(100)), 100));
    assert_eq!(gap, &Some(fixed(20)));
    told(&converted, 1, "-m rttm", "wirebeat serve echo --transport udp --listen 10.0.0.2:8999'");
    let tcp = group(&converted, "flow-2");
    assert_eq!((tcp.transport, echo(tcp).messages.get()), (Transport::Tcp, 7));
    assert_eq!(echo(group(&converted, "flow-3")).messages.get(), 500);
    told(&converted, 3, "flow-3", "500: as many as its time has on average");
    assert_eq!(converted.scenario.flows.keys().collect::<Vec<_>>(), ["flow-4", "flow-5"]);
    told(&converted, 4, "-m rttm", "from one host");
    told(&converted, 5, "-m rttm", "over UDP and TCP");
    assert!(group(&converted, "flow-6").clients.ports.is_none());
}

/// Of messages that come back D-ITG's own smallest holds: its header and how long the message is.
#[test]
fn the_smallest_echo_of_d_itg_depends_on_its_options() {
    for (options, expected) in [("", 24), (" -p 1", 12), (" -p 2", 4)] {
        let converted = ditg(&format!("-T TCP{options} -m rttm -C 100 -c 1\n"));
        let size = &echo(group(&converted, "flow-1")).size;
        assert_eq!(size, &DataSize::Fixed(Bytes::new(expected)), "{options}");
    }
}

#[test]
fn who_receives_rare_messages_is_told_to_wait() {
    let why = |rate: &str| {
        let text = format!("0 ON 1 TCP DST 10.0.0.1/5000 {rate}\n900 OFF 1\n");
        mgen(&text).left_out.first().unwrap().why.clone()
    };
    assert!(!why("PERIODIC [1 100]").contains("--timeout"));
    assert!(why("PERIODIC [0.05 100]").ends_with("--timeout 24s'"));
    assert!(why("POISSON [0.5 100]").ends_with("--timeout 24s'"));
}

#[test]
fn connections_go_to_hosts_alone() {
    let text = "\n0 ON 1 TCP DST 239.1.1.1/5000 PERIODIC [1 100]\n1 OFF 1\n";
    let read = |_: &str| Err(String::new());
    let source = Source { name: "s", text, read: &read, sessions: &wirebeat_import::no_sessions };
    let error = convert(Dialect::Mgen, &source, &Options::default()).unwrap_err().to_string();
    assert!(error.starts_with("s:2: sessions.flow-1.servers.addresses: "), "{error}");
}

#[test]
fn messages_to_and_from_another_program_are_named_with_their_line() {
    let converted = mgen(
        "0.0 LISTEN SINK 5000\n0.0 ON 1 SINK DST 10.0.0.2/5000 PERIODIC [1 100]\n1.0 IGNORE SINK 5000\n0.0 ON 2 TCP DST 10.0.0.2/5001 PERIODIC [1 100]\n",
    );
    assert_eq!(names(&converted), ["flow-2"]);
    let told: Vec<String> = converted.left_out.iter().map(ToString::to_string).collect();
    for begins in [
        "s:1: SINK 5000: messages come from the network alone",
        "s:2: flow-1: its messages go to another program (SINK)",
        "s:3: SINK 5000: messages come from the network alone",
    ] {
        assert!(told.iter().any(|it| it.starts_with(begins)), "{begins}\n{told:#?}");
    }
}
