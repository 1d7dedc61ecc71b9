//! What contradicts itself is an error with file, line and what would be right.

use wirebeat_import::{Converted, Dialect, MAX_BYTES, Options, ScriptError, Source, convert};

fn try_convert(dialect: Dialect, text: &str) -> Result<Converted, ScriptError> {
    let read = |name: &str| match name {
        "short.trace" => Ok(b"500 0.02\n10 0.02\n".to_vec()),
        "bytes" | "ms" => Ok(b"100\n200\n".to_vec()),
        "itself" => Ok(b"INPUT itself\n".to_vec()),
        "itself.sh" => Ok(b". itself.sh\n".to_vec()),
        "large" => Ok(vec![b'#'; MAX_BYTES + 1]),
        _ => Err("there is no such file".to_owned()),
    };
    let source = Source { name: "s", text, read: &read, sessions: &wirebeat_import::no_sessions };
    convert(dialect, &source, &Options::default())
}

fn why(dialect: Dialect, text: &str) -> String {
    match try_convert(dialect, text) {
        Err(error) => error.to_string(),
        Ok(converted) => panic!("{text}\nbecame {:?}", converted.scenario),
    }
}

#[test]
fn of_rude() {
    let on = "START NOW\n0 1 ON 3001 10.0.0.2:10001 CONSTANT 10 500\n";
    for (text, expected) in [
        ("0 1 OFF\n".to_owned(), "s:1: START comes before everything else: begin with 'START NOW'"),
        ("# nothing\n".to_owned(), "s:1: there is no START; begin the script with 'START NOW'"),
        (on.to_owned(), "s:2: flow 1 has no OFF; add '<ms> 1 OFF'"),
        (format!("{on}5 2 OFF\n"), "s:3: there is no flow 2 yet; write its ON before"),
        (
            format!("{on}9 1 OFF\n9 1 MODIFY CBR 1 50"),
            "s:4: the flow is off since 9ms; write this line before",
        ),
        (
            format!("{on}9 1 MODIFY CBR 1 50\n8 1 OFF"),
            "s:4: 8ms is before 9ms; write lines in the order of time",
        ),
        (format!("{on}9 1 MODIFY CBR 1 5"), "s:3: sizes are 20 to 32768 bytes, not 5"),
        (
            format!("{on}9 1 MODIFY TRACE short.trace"),
            "short.trace:2: sizes are 20 to 32768 bytes, not 10",
        ),
        (format!("{on}9 1 MODIFY TRACE none"), "s:3: 'none' cannot be read: there is no such file"),
        (
            format!("{on}9 1 MODIFY TRACE large"),
            "s:3: the included files have more than 16777216 bytes in all",
        ),
        (
            "START NOW\n0 1 ON 3001 host:1 CBR 1 50".to_owned(),
            "s:2: 'host:1' is not a destination; write an address and a port, 10.0.0.2:10001 (names are not \
             looked up)",
        ),
        (
            "START NOW\n0 1 ON 3001 0.0.0.0:1 CBR 1 50".to_owned(),
            "s:2: '0.0.0.0:1' is not a destination; write an address and a port, 10.0.0.2:10001 (names are not \
             looked up)",
        ),
        ("START 25:00:00\n".to_owned(), "s:1: START has NOW or a time of day: START 13:30:00"),
        (
            "START NOW\n0 1 ON 3001:6 10.0.0.2:1 CBR 1 50".to_owned(),
            "s:2: '3001:6' asks for IPv6, and 10.0.0.2 is an address of IPv4",
        ),
    ] {
        assert_eq!(why(Dialect::Rude, &text), expected, "{text}");
    }
}

#[test]
fn of_mgen() {
    for (text, expected) in [
        ("ON 1 UDP DST 10.0.0.2/5000\n", "s:1: flow 1 lacks a pattern: PERIODIC [10 1024]"),
        (
            "ON 1 UDP DST 10.0.0.2/5000 PERIODIC [1 100\n",
            "s:1: there is a '[' without its ']' on this line",
        ),
        (
            "ON 1 UDP DST 10.0.0.2/5000 PERIODIC [1 9000]\n",
            "s:1: '9000' is not a size of 28 to 8192 bytes, or min:max",
        ),
        (
            "ON 1 UDP DST 10.0.0.2/5000 JITTER [1 900 0.6]\n",
            "s:1: 0.6 is not a fraction of the interval, 0 to 0.5",
        ),
        (
            "ON 1 UDP DST server/5000 PERIODIC [1 900]\n",
            "s:1: 'server/5000' is not an address and a port, 10.0.0.2/5000 (names are not looked up)",
        ),
        (
            "\n\n0.0 WAIT 1\n",
            "s:3: 'WAIT' is neither an event nor a command; events are ON, MOD, OFF and LISTEN, IGNORE, JOIN, \
             LEAVE",
        ),
        (
            "INPUT itself\n",
            "itself:1: scripts include one another at most 8 deep and 256 in all; does one include itself?",
        ),
        ("5 JOIN 10.0.0.1\n", "s:1: '10.0.0.1' is not a multicast address"),
        ("LISTEN UDP 0\n", "s:1: '0' is not a list of ports, 5000,5002-5009"),
        (
            "ON 1 UDP DST 10.0.0.2/5000 PERIODIC [1 100] COUNT 5,xyz\n",
            "s:1: '5,xyz' is not a number of messages, 100 or 100,off",
        ),
        ("ON 1 UDP COUNT 5,\n", "s:1: '5,' is not a number of messages, 100 or 100,off"),
        (
            "ON 1 UDP DST ::/5000 PERIODIC [1 900]\n",
            "s:1: '::/5000' is not an address and a port, 10.0.0.2/5000 (names are not looked up)",
        ),
        (
            "ON 1 UDP DST 10.0.0.2/5000 POISSON [1000000001 900]\n",
            "s:1: '1000000001' is not a rate; write up to 1000000000 messages per second, or -1",
        ),
        ("INPUT itself twice\n", "s:1: 'twice' is too much"),
        ("DATA [0a1]\n", "s:1: data are bytes in hex digits, for example [0a1b2c]"),
    ] {
        assert_eq!(why(Dialect::Mgen, text), expected, "{text}");
    }
    let deep = "BURST [REGULAR 9 ".repeat(10) + "PERIODIC [1 100]" + &" FIXED 1]".repeat(10);
    let text = format!("ON 1 UDP DST 10.0.0.2/5000 {deep}\n");
    assert_eq!(why(Dialect::Mgen, &text), "s:1: bursts are nested at most 8 deep");
}

#[test]
fn of_d_itg() {
    for (text, expected) in [
        ("-a 10.0.0.2 -X10\n", "s:1: -X10: it is not an option of ITGSend; see 'ITGSend -h'"),
        ("-a\n", "s:1: -a: an IP address (names are not looked up) is missing"),
        ("-C 0\n", "s:1: -C: '0' is not a rate in packets per second above 0"),
        ("-U 200 100\n", "s:1: -U: the second rate is above the first"),
        (
            "VoIP -x G.722\n",
            "s:1: -x: 'G.722' is not a codec: G.711.1, G.711.2, G.729.2, G.729.3 or G.723.1",
        ),
        ("\nDNS -Z 5\n", "s:2: -Z: it is not an option of ITGSend; see 'ITGSend -h'"),
        (
            "\nVoIP -x G.711.2 -C 5\n",
            "s:2: -C: VoIP has the options -x, -h and -VAD; write others before it",
        ),
        ("-a 0.0.0.0\n", "s:1: -a: '0.0.0.0' is not an IP address (names are not looked up)"),
        (
            "-E 1e12\n",
            "s:1: -E: a rate has at most 18 digits and is at most 1000000000 packets per second",
        ),
        (
            "-N 10 1500\n",
            "s:1: -N: only 0.53 % of the values of 'normal' lie between 0 ns and 20.0 ms, and at least 1 % \
             must; widen the bounds, or vary less",
        ),
        (
            "-B C 5 N 10 1500\n",
            "s:1: -B: only 0.53 % of the values of 'normal' lie between 0 ns and 20.0 ms, and at least 1 % \
             must; widen the bounds, or vary less",
        ),
        ("-j 2\n", "s:1: -j: '2' is not 0 or 1"),
        ("-m ping\n", "s:1: -m: 'ping' is not owdm or rttm"),
        ("-T QUIC\n", "s:1: -T: 'QUIC' is not a protocol; write UDP, TCP, ICMP, SCTP or DCCP"),
        ("-G 1e9 5\n", "s:1: -G: shape: it is 1000000000, and goes from 0.01 to 1000000"),
        (
            "-a 10.0.0.2 -sa 2001:db8::1\n",
            "s:1: 2001:db8::1 and 10.0.0.2 are of different versions of IP; give both in one",
        ),
    ] {
        assert_eq!(why(Dialect::Ditg, text), expected, "{text}");
    }
}

#[test]
fn of_pktgen() {
    let device = "pg_thread 0 add_device eth0\n";
    for (text, expected) in [
        (
            "pgset \"start\"\n".to_owned(),
            "s:1: PGDEV is not set; set it to a file of /proc/net/pktgen before pgset",
        ),
        (
            "pg_set eth0 \"count 1\"\n".to_owned(),
            "s:1: there is no device 'eth0' yet; add it to a thread before: add_device eth0",
        ),
        (format!("{device}{device}"), "s:2: 'eth0' is on a thread already; add it as eth0@0"),
        (device.to_owned(), "s:1: this device has no destination; add one: dst 10.0.0.2"),
        (
            format!("{device}pg_set eth0 dst 0.0.0.0\n"),
            "s:1: this device has no destination; add one: dst 10.0.0.2",
        ),
        (
            format!("{device}pg_set eth0 dst6 ::\n"),
            "s:1: this device has no destination; add one: dst6 2001:db8::2",
        ),
        (
            format!("{device}pg_set eth0 dst_min 0.0.0.0\npg_set eth0 dst_max 10.0.0.2\n"),
            "s:1: the first of its destinations is all zeros, which is none; begin with another",
        ),
        (
            format!("{device}pg_set eth0 dst6_min ::1\npg_set eth0 dst6_max 2001:db8::\n"),
            "s:1: the first of its destinations is all zeros, which is none; begin with another",
        ),
        (
            format!("{device}pg_set eth0 dst6_min 2001:db8::\n"),
            "s:1: dst6_min goes with a dst6_max; add it",
        ),
        (
            "pg_thread 0 add_device @1\n".to_owned(),
            "s:1: add_device has the name of a device: add_device eth0",
        ),
        (
            format!("{device}pg_set eth0 \"dst_mac $MAC\"\n"),
            "s:2: $MAC is not set; set it in the script, or give the script its arguments behind '--'",
        ),
        (
            format!("{device}pg_set eth0 \"count `nproc`\"\n"),
            "s:2: 'count $(nproc)' depends on the machine or on what calls the script; write what it stands \
             for",
        ),
        (format!("{device}pg_set eth0 \"speed 9\"\n"), "s:2: pktgen has no parameter 'speed'"),
        (
            format!("{device}pg_set eth0 \"flag FAST\"\n"),
            "s:2: flag has a flag of pktgen, not 'FAST'",
        ),
        (
            format!("{device}pg_set eth0 \"tos 8\"\n"),
            "s:2: tos has two hex digits, such as b8, not '8'",
        ),
        (
            format!("{device}pg_set eth0 vlan_p 3\n"),
            "s:2: vlan_p goes with a tag; write vlan_id before",
        ),
        ("pgset 'start\n".to_owned(), "s:1: a ' has no second one"),
        ("if true; then\npgset start\n".to_owned(), "s:2: 'fi' is missing"),
        (". itself.sh\n".to_owned(), "itself.sh:1: scripts include one another more than 8 deep"),
        ("f() { f; }\nf\n".to_owned(), "s:1: functions call one another more than 8 deep"),
        (
            "for ((i = 0; i < 9; i = 0)); do true; done\n".to_owned(),
            "s:1: the script takes more than 1000000 steps; shorten its loops",
        ),
    ] {
        assert_eq!(why(Dialect::Pktgen, &text), expected, "{text}");
    }
    let doubled = "x=aaaaaaaaaaaaaaaa\n".to_owned() + &"x=$x$x\n".repeat(40);
    assert!(why(Dialect::Pktgen, &doubled).ends_with("do its variables double?"));
}

#[test]
fn what_is_too_long_is_refused() {
    let text = "#".repeat(MAX_BYTES + 1);
    for dialect in Dialect::ALL {
        let expected = format!(
            "s: {} bytes of text are more than the {MAX_BYTES} that a script may have",
            text.len()
        );
        assert_eq!(why(*dialect, &text), expected);
    }
}

#[test]
fn what_is_said_again_is_named() {
    let left_out = |text: &str| -> Vec<String> {
        let converted = try_convert(Dialect::Ditg, text).unwrap();
        converted.left_out.iter().map(ToString::to_string).collect()
    };
    let text = "-C 1 -s 0.25\n-C 2 -s 0.5\n-C 3 -s 0.25\n-C 4\n";
    let seed = "s:2: -s 0.5: a scenario has one seed; that of s:1 holds";
    assert_eq!(left_out(text), [seed]);
    assert_eq!(try_convert(Dialect::Ditg, text).unwrap().scenario.seed, 250_000_000);
    let poll = "s:2: -poll: it holds for all flows of a run";
    assert_eq!(left_out("-C 1\n-C 2 -poll\n-C 3 -poll\n"), [poll]);
    assert_eq!(left_out("-C 2 -poll\n-C 3 -poll -poll\n"), [""; 0]);
    let text = "-Fs bytes -c 100\n-Ft ms -Fs bytes -E 5\n-Fs bytes -Ft ms\n";
    let expected = [
        "s:1: -Fs bytes: sizes are those of the file; what else says of them does not hold",
        "s:2: -Ft ms: times are those of the file; what else says of them does not hold",
    ];
    assert_eq!(left_out(text), expected);
}

#[test]
fn counts_may_turn_a_flow_off() {
    for count in ["5", "5,off", "5,OFF"] {
        let text = format!("ON 1 UDP DST 10.0.0.2/5000 PERIODIC [1 100] COUNT {count}\n");
        let converted = try_convert(Dialect::Mgen, &text).unwrap();
        assert_eq!(converted.scenario.flows["flow-1"].count.unwrap().get(), 5, "{text}");
    }
}

#[test]
fn an_interface_has_a_port_of_its_own_whatever_it_is_called() {
    let long = "x".repeat(60);
    let text = format!("-C 1\n-i sender\n-i {long}1\n-i {long}2\n-i sender\n");
    let scenario = try_convert(Dialect::Ditg, &text).unwrap().scenario;
    let of = |flow: &str| scenario.ports[&scenario.flows[flow].from].interface.clone();
    let expected = [None, Some("sender".to_owned()), Some(long.clone() + "1"), Some(long + "2")];
    for (number, expected) in (1..).zip(expected) {
        assert_eq!(of(&format!("flow-{number}")), expected);
    }
    assert_eq!(scenario.ports.len(), 4);
}
