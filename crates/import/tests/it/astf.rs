//! Advanced stateful profiles of T-Rex, as JSON: what becomes of rates, programs, tunables and pools, and that nothing is left out in silence.

use std::num::{NonZeroU32, NonZeroU64};

use wirebeat_import::{Converted, Dialect, Options, Source, convert};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::session::program::Step;
use wirebeat_traffic::scenario::session::{KeepAlive, ProgramSpec, SessionSpec};
use wirebeat_units::{Bytes, Nanos};

/// A profile, of which parts are other ones.
struct Profile {
    /// The commands of the client and of the server.
    client: String,
    server: String,
    /// Keys of the client's part of its only template, and of the server's part.
    of_client: String,
    of_server: String,
    /// Keys of the profile.
    keys: String,
    pools: [&'static str; 2],
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            client: r#"{ "name": "tx", "buf_index": 0 }, { "name": "rx", "min_bytes": 3 }"#.into(),
            server: r#"{ "name": "rx", "min_bytes": 3 }, { "name": "tx", "buf_index": 0 }"#.into(),
            of_client: r#""cps": 10"#.into(),
            of_server: String::new(),
            keys: String::new(),
            pools: [
                r#""ip_start": "16.0.0.1", "ip_end": "16.0.0.9""#,
                r#""ip_start": "48.0.0.1", "ip_end": "48.0.0.9""#,
            ],
        }
    }
}

impl Profile {
    fn of_client(keys: &str) -> Profile {
        Profile { of_client: keys.into(), ..Profile::default() }
    }

    fn with_keys(keys: &str) -> Profile {
        Profile { keys: keys.into(), ..Profile::default() }
    }

    fn with_client(commands: &str) -> Profile {
        Profile { client: commands.into(), ..Profile::default() }
    }

    /// As text: the keys that vary have a line of their own.
    fn text(&self) -> String {
        let Profile { client, server, of_client, of_server, keys, pools: [clients, servers] } =
            self;
        let comma = |keys: &String| if keys.is_empty() { "" } else { "," };
        format!(
            "{{ \"buf_list\": [ \"YWJj\" ],\n{keys}{}\n\"program_list\": [\n{{ \"commands\": [\n{client} ] }},\n{{ \"commands\": [\n{server} ] }} ],\n\
             \"ip_gen_dist_list\": [\n{{ {clients} }},\n{{ {servers} }} ],\n\"templates\": [ {{\n\"client_template\": {{ \"program_index\": 0, \"port\": 80, \
             \"ip_gen\": {{ \"dist_client\": {{ \"index\": 0 }}, \"dist_server\": {{ \"index\": 1 }} }},\n{of_client} }},\n\
             \"server_template\": {{ \"program_index\": 1, \"assoc\": [ {{ \"port\": 80 }} ]{}\n{of_server} }} }} ] }}\n",
            comma(keys),
            comma(of_server)
        )
    }

    fn try_convert(&self, options: &Options) -> Result<Converted, String> {
        let read = |name: &str| Err(format!("there is no '{name}'"));
        let text = self.text();
        let sessions = &wirebeat_import::no_sessions;
        let source = Source { name: "p.json", text: &text, read: &read, sessions };
        convert(Dialect::Trex, &source, options).map_err(|error| error.to_string())
    }

    fn convert(&self) -> Converted {
        let converted = self.try_convert(&Options::default());
        let converted = converted.unwrap_or_else(|why| panic!("{why}\n{}", self.text()));
        compile_sessions(&converted.scenario, &Files::default()).unwrap();
        converted
    }

    fn why(&self) -> String {
        let refused = self.try_convert(&Options::default()).err();
        refused.unwrap_or_else(|| panic!("it was not refused: {}", self.text()))
    }
}

fn told(converted: &Converted) -> Vec<String> {
    converted.left_out.iter().map(ToString::to_string).collect()
}

fn assert_told(converted: &Converted, begins: &str, why: &str) {
    let told = told(converted);
    let found = told.iter().any(|it| it.starts_with(begins) && it.contains(why));
    assert!(found, "{begins} … {why}\n{told:#?}");
}

fn first(converted: &Converted) -> &SessionSpec {
    &converted.scenario.sessions[0]
}

fn client_steps(converted: &Converted) -> Vec<Step> {
    match &first(converted).program {
        ProgramSpec::Steps(steps) => steps.client.clone(),
        other => panic!("{other:?}"),
    }
}

/// The jumps of the client: where to, and when.
fn jumps(converted: &Converted) -> Vec<String> {
    let jump = |step: &Step| match step {
        Step::Jump(jump) => {
            let when = jump.condition.as_ref().map_or("always".to_owned(), ToString::to_string);
            Some(format!("{}: {when}", jump.to))
        }
        _ => None,
    };
    client_steps(converted).iter().filter_map(jump).collect()
}

fn rate(group: &SessionSpec) -> Option<String> {
    wirebeat_traffic::scenario::session::in_sessions_per_second(&group.rate)
}

#[test]
fn a_profile_that_is_carried_over_whole_tells_nothing() {
    let converted = Profile::default().convert();
    assert_eq!(told(&converted), [""; 0]);
    assert_eq!(rate(first(&converted)).as_deref(), Some("10/s"));
}

#[test]
fn sessions_that_are_kept_open_are_opened_at_the_rate_nevertheless() {
    let profile = Profile::of_client(r#""cps": 10, "limit": 300, "cont": true"#);
    let group = profile.convert();
    let group = first(&group);
    assert_eq!((rate(group).as_deref(), group.users), (Some("10/s"), None));
    let limit = group.limit.unwrap();
    assert_eq!((limit.open, group.count), (NonZeroU32::new(300), None));

    let options = Options { multiply: NonZeroU64::new(7), ..Options::default() };
    let multiplied = profile.try_convert(&options).unwrap();
    let group = first(&multiplied);
    assert_eq!(rate(group).as_deref(), Some("70/s"));
    assert_eq!(group.limit.unwrap().open, NonZeroU32::new(300));

    let counted = Profile::of_client(r#""cps": 10, "limit": 300"#).convert();
    let group = first(&counted);
    assert_eq!((group.count, group.limit), (NonZeroU64::new(300), None));
}

#[test]
fn templates_that_open_nothing_by_themselves_are_left_out_and_named() {
    for (keys, line) in [
        (r#""limit": 5"#, "p.json:12: templates[0].client_template.cps: without a rate"),
        (r#""cps": 0"#, "p.json:13: templates[0].client_template.cps: without a rate"),
        (
            r#""cps": 2, "limit": 0"#,
            "p.json:13: templates[0].client_template.limit: T-Rex opens no session",
        ),
    ] {
        let why = Profile::of_client(keys).why();
        assert!(why.contains("none of its templates") && why.contains(line), "{why}");
    }
    let why = Profile::of_client(r#""cps": "many""#).why();
    assert!(
        why.starts_with("p.json:13: templates[0].client_template.cps: it is no number"),
        "{why}"
    );
    let why = Profile::of_client(r#""cps": 1, "limit": 4294967296"#).why();
    assert!(why.contains("client_template.limit: it is no number of sessions"), "{why}");
}

#[test]
fn comparisons_are_jumps_with_a_condition() {
    let compare = |op: &str, value: u32| {
        let commands = format!(
            "{{ \"name\": \"set_var\", \"id\": 0, \"val\": 3 }}, {{ \"name\": \"tx\", \"buf_index\": 0 }}, {{ \"name\": \"add_var\", \"id\": 0, \"val\": 1 }},\
             {{ \"name\": \"jmp_cmp\", \"id\": 0, \"offset\": -2, \"cmp_op\": \"{op}\", \"cmp_val\": {value} }}"
        );
        let converted = Profile::with_client(&commands).convert();
        assert_eq!(told(&converted), [""; 0]);
        jumps(&converted)
    };
    for (op, sign) in
        [("lt", "<"), ("gt", ">"), ("eq", "=="), ("ge", ">="), ("le", "<="), ("ne", "!=")]
    {
        assert_eq!(compare(op, 5), [format!("command-1: n0 {sign} 5")]);
    }
    // numbers of T-Rex have no sign
    assert_eq!(compare("ge", 0), ["command-1: always"]);
    assert_eq!(compare("lt", 0), [""; 0]);
}

#[test]
fn a_jump_without_a_condition_goes_where_it_leads() {
    let jump = |offset: i32| {
        format!(
            "{{ \"name\": \"jmp_cmp\", \"offset\": {offset} }}, {{ \"name\": \"tx\", \"buf_index\": 0 }}, {{ \"name\": \"delay\", \"usec\": 5 }}"
        )
    };
    assert_eq!(jumps(&Profile::with_client(&jump(2)).convert()), ["command-2: always"]);
    // beyond the end is the end
    let beyond = Profile::with_client(&jump(9)).convert();
    assert_eq!(jumps(&beyond), ["command-3: always"]);
    assert_eq!(client_steps(&beyond).last(), Some(&Step::Label("command-3".to_owned())));
}

#[test]
fn a_program_that_goes_round_without_waiting_is_left_out_with_its_line() {
    let commands = "{ \"name\": \"tx\", \"buf_index\": 0 },\n{ \"name\": \"add_var\", \"id\": 0, \"val\": 1 },\n\
        { \"name\": \"jmp_cmp\", \"id\": 0, \"offset\": -1, \"cmp_op\": \"ge\", \"cmp_val\": 0 }";
    let why = Profile::with_client(commands).why();
    let says = "p.json:7: program_list[0].commands[2]: from here on more than 100000 commands";
    let told = "templates with this program are left out";
    assert!(why.contains("none of its templates"), "{why}");
    let mut with_another = Profile::with_client(commands);
    with_another.of_client = "\"cps\": 10 }, \"server_template\": { \"program_index\": 1, \"assoc\": [ { \"port\": 80 } ] } }, { \"client_template\": { \
        \"program_index\": 1, \"port\": 81, \"cps\": 1, \"ip_gen\": { \"dist_client\": { \"index\": 0 }, \"dist_server\": { \"index\": 1 } }"
        .into();
    let text = with_another.text();
    let converted =
        with_another.try_convert(&Options::default()).unwrap_or_else(|why| panic!("{why}\n{text}"));
    assert_eq!(converted.scenario.sessions.len(), 1);
    assert_told(&converted, says, told);
}

#[test]
fn a_variable_that_may_fall_below_zero_is_named_where_its_order_decides() {
    let commands = r#"{ "name": "set_var", "id": 0, "val": 3 }, { "name": "add_var", "id": 0, "val": -2 },
        { "name": "jmp_cmp", "id": 0, "offset": -1, "cmp_op": "gt", "cmp_val": 0 }"#;
    let converted = Profile::with_client(commands).convert();
    assert_told(
        &converted,
        "p.json:4: program_list[0].commands: 'n0'",
        "a very large number in T-Rex",
    );
}

#[test]
fn what_programs_cannot_do_is_named_with_what_happens_instead() {
    let commands = "{ \"name\": \"set_tick_var\", \"id\": 0 },\n{ \"name\": \"tx\", \"buf_index\": 0 },\n\
        { \"name\": \"jmp_dp\", \"id\": 0, \"offset\": -1, \"duration\": 2.5 },\n{ \"name\": \"jmp_dp\", \"id\": 0, \"offset\": 1, \"duration\": 3 },\n\
        { \"name\": \"tx_mode\", \"flags\": 1 },\n{ \"name\": \"add_tick_var\", \"id\": 0, \"duration\": 1 },\n\
        { \"name\": \"add_stats\", \"stats_id\": 0, \"val\": 1 },\n{ \"name\": \"add_tick_stats\", \"stats_id\": 0, \"var_id\": 0 },\n\
        { \"name\": \"set_template\", \"tg_id\": 1 },\n{ \"name\": \"exec_template\" },\n{ \"name\": \"dance\", \"id\": 0 },\n\
        { \"name\": \"delay\", \"usec\": 1, \"colour\": 2 }";
    let converted = Profile::with_client(commands).convert();
    let command = |at: usize, name: &str| {
        format!("p.json:{}: program_list[0].commands[{at}] ({name}): ", 5 + at)
    };
    for (at, name, why) in [
        (0, "set_tick_var", "no clock"),
        (2, "jmp_dp", "commands 1 to 2 are done once, and T-Rex repeats them for 2.5 s"),
        (3, "jmp_dp", "it never jumps here, and in T-Rex it does for the first 3 s"),
        (4, "tx_mode", "is done when its data is queued"),
        (5, "add_tick_var", "no clock"),
        (6, "add_stats", "count nothing of their own"),
        (7, "add_tick_stats", "'start' and 'stop'"),
        (8, "set_template", "of another template"),
        (9, "exec_template", "goes on without waiting for it"),
        (10, "dance", "not a command of T-Rex"),
    ] {
        assert_told(&converted, &command(at, name), why);
    }
    assert_told(&converted, "p.json:16: program_list[0].commands[11].colour: ", "no meaning here");
    assert_eq!(converted.left_out.len(), 11, "{:#?}", told(&converted));
}

#[test]
fn a_program_that_cannot_be_kept_is_not_made_into_another_one() {
    for (commands, why) in [
        (
            r#"{ "name": "set_var", "id": 0, "val": 4294967296 }"#,
            "p.json:5: program_list[0].commands[0].val: variables of programs are whole numbers of 32 bits here",
        ),
        (
            r#"{ "name": "jmp_nz", "id": 0, "offset": -1 }"#,
            "commands[0].offset: it leads to no command of the program",
        ),
        (
            r#"{ "name": "jmp_cmp", "offset": 2 }, { "name": "reset" }, { "name": "tx", "buf_index": 0 }"#,
            "commands[1]: nothing follows 'reset' here",
        ),
        (
            r#"{ "name": "set_var", "id": 0 }, { "name": "set_var", "id": 1 }, { "name": "set_var", "id": 2 }, { "name": "set_var", "id": 3 }, { "name": "set_var", "id": 4 }"#,
            "commands[4].id: an end of a session has 4 variables at most",
        ),
    ] {
        let refused = Profile::with_client(commands).try_convert(&Options::default()).unwrap_err();
        assert!(refused.contains("its program cannot be kept: it is left out"), "{refused}");
        // with another template the reason is a notice
        let two = Profile::with_client(commands).text().replace(
            "\"templates\": [ {",
            "\"templates\": [ { \"client_template\": { \"program_index\": 1, \"cps\": 1, \"port\": 81, \"ip_gen\": { \"dist_client\": { \"index\": 0 }, \
             \"dist_server\": { \"index\": 1 } } }, \"server_template\": { \"program_index\": 1, \"assoc\": [ { \"port\": 81 } ] } }, {",
        );
        let read = |_: &str| Err(String::new());
        let sessions = &wirebeat_import::no_sessions;
        let source = Source { name: "p.json", text: &two, read: &read, sessions };
        let converted = convert(Dialect::Trex, &source, &Options::default()).unwrap();
        assert_eq!(converted.scenario.sessions.len(), 1);
        let told = told(&converted).join("\n");
        assert!(
            told.contains(why) && told.contains("templates with this program are left out"),
            "{told}"
        );
    }
}

#[test]
fn what_never_comes_behind_a_reset_or_a_wait_is_not_done() {
    let reset = r#"{ "name": "tx", "buf_index": 0 }, { "name": "reset" }, { "name": "tx", "buf_index": 0 }"#;
    assert_eq!(client_steps(&Profile::with_client(reset).convert()).len(), 2);
    // what is jumped to behind a wait is done, and the wait itself leads to the end
    let wait = r#"{ "name": "jmp_cmp", "id": 0, "offset": 2, "cmp_op": "eq", "cmp_val": 1 }, { "name": "nc" }, { "name": "tx", "buf_index": 0 }"#;
    let converted = Profile::with_client(wait).convert();
    assert_eq!(jumps(&converted), ["command-2: n0 == 1", "command-3: always"]);
}

#[test]
fn many_datagrams_are_waited_for_by_one_step() {
    let profile = Profile {
        client: r#"{ "name": "tx_msg", "buf_index": 0 }"#.into(),
        server: r#"{ "name": "rx_msg", "min_pkts": 4000000000 }"#.into(),
        ..Profile::default()
    };
    let converted = profile.convert();
    let ProgramSpec::Steps(steps) = &first(&converted).program else { panic!() };
    assert!(
        matches!(&steps.server[..], [Step::Repeat(repeat)] if repeat.times.get() == 4_000_000_000)
    );
}

#[test]
fn an_end_waits_longer_than_the_other_pauses() {
    let timeout = |pause: &str| {
        let server = format!(
            r#"{{ "name": "rx", "min_bytes": 3 }}, {pause}, {{ "name": "tx", "buf_index": 0 }}"#
        );
        first(&Profile { server, ..Profile::default() }.convert()).timeout
    };
    let usual = timeout(r#"{ "name": "delay", "usec": 1000 }"#);
    assert_eq!(usual, Nanos::from_secs(10));
    assert_eq!(timeout(r#"{ "name": "delay", "usec": 10000000 }"#), Nanos::from_secs(20));
    let random = r#"{ "name": "delay_rnd", "min_usec": 1000, "max_usec": 40000000 }"#;
    assert_eq!(timeout(random), Nanos::from_secs(80));
}

#[test]
fn long_programs_of_many_templates_are_refused_in_time() {
    let commands = vec![r#"{ "name": "delay", "usec": 1 }"#; 9000].join(",");
    let template = "{ \"client_template\": { \"program_index\": 0, \"cps\": 1, \"port\": 80, \"ip_gen\": { \"dist_client\": { \"index\": 0 }, \
                    \"dist_server\": { \"index\": 1 } } }, \"server_template\": { \"program_index\": 0 } },";
    let text = Profile::with_client(&commands).text();
    let text = text
        .replace("\"templates\": [ {", &format!("\"templates\": [ {} {{", template.repeat(900)));
    let read = |_: &str| Err(String::new());
    let sessions = &wirebeat_import::no_sessions;
    let source = Source { name: "p.json", text: &text, read: &read, sessions };
    let error = convert(Dialect::Trex, &source, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("too long in all; divide the profile"), "{error}");
    let longer = vec![r#"{ "name": "delay", "usec": 1 }"#; 10_001].join(",");
    let why = Profile::with_client(&longer).why();
    assert!(why.contains("its program cannot be kept"), "{why}");
}

/// The tunables that T-Rex and our TCP both have.
const TUNABLES: &str = r#"{ "tcp": { "mss": 1400, "initwnd": 4, "rxbufsize": 8192, "do_sack": 0, "do_ecn": 1, "cc_algo": 0, "no_delay": 0,
    "delay_ack_msec": 100, "keepidle": 9, "keepintvl": 3 }, "ip": { "ttl": 9, "tos": 184 } }"#;

fn assert_tuned(group: &SessionSpec) {
    let tcp = &group.tcp;
    assert_eq!(tcp.mss.map(|mss| mss.get()), Some(1400));
    assert_eq!(tcp.initial_window.map(|window| window.get()), Some(4));
    assert_eq!(tcp.receive_buffer, Some(Bytes::new(8192)));
    assert_eq!((tcp.sack, tcp.ecn, tcp.nagle), (Some(false), Some(true), true));
    assert_eq!(tcp.congestion.as_deref(), Some("reno"));
    assert_eq!(tcp.delayed_ack, Some(Nanos::from_millis(100)));
    let probes = KeepAlive { idle: Nanos::from_secs(9), interval: Nanos::from_secs(3), count: 8 };
    assert_eq!(tcp.keep_alive, Some(probes));
    assert_eq!(group.ttl.map(|ttl| ttl.get()), Some(9));
    assert_eq!(group.dscp.map(|dscp| dscp.to_tos()), Some(184));
}

#[test]
fn tunables_that_our_tcp_has_too_are_carried_over_for_each_end() {
    let both = format!("\"c_glob_info\": {TUNABLES}, \"s_glob_info\": {TUNABLES}");
    let converted = Profile::with_keys(&both).convert();
    assert_eq!(told(&converted), [""; 0]);
    assert_eq!(converted.scenario.sessions.len(), 1);
    assert_tuned(first(&converted));

    // a template's own, of its clients alone
    let profile = Profile::of_client(&format!("\"cps\": 1, \"glob_info\": {TUNABLES}"));
    let converted = profile.convert();
    let names: Vec<&str> = converted.scenario.sessions.keys().map(String::as_str).collect();
    assert_eq!(names, ["template-0", "template-0-servers"]);
    let [clients, servers] = [0, 1].map(|at| &converted.scenario.sessions[at]);
    assert_tuned(clients);
    assert!(clients.to.is_none() && servers.from.is_none());
    assert_eq!((servers.tcp == Default::default(), servers.ttl), (true, None));
    assert_told(&converted, "p.json:15: templates[0].server_template: ", "each end is a group");

    // of all servers, and of one template's servers
    let profile = Profile {
        keys: r#""s_glob_info": { "tcp": { "mss": 1000, "initwnd": 3 } }"#.into(),
        of_server: r#""glob_info": { "tcp": { "mss": 1200 } }"#.into(),
        ..Profile::default()
    };
    let servers = profile.convert().scenario.sessions[1].tcp.clone();
    assert_eq!(servers.mss.map(|mss| mss.get()), Some(1200));
    assert_eq!(servers.initial_window.map(|window| window.get()), Some(3));
}

#[test]
fn values_that_mean_the_default_divide_no_group() {
    let keys = r#""c_glob_info": { "tcp": { "do_sack": 1, "do_rfc1323": 1, "do_ecn": 0, "blackhole": 0, "no_delay": 1 }, "ip": { "tos": 0 } }"#;
    let converted = Profile::with_keys(keys).convert();
    assert_eq!((told(&converted), converted.scenario.sessions.len()), (Vec::new(), 1));
    // passive: servers agree to it, and clients do not ask for it
    let keys =
        r#""c_glob_info": { "tcp": { "do_ecn": 2 } }, "s_glob_info": { "tcp": { "do_ecn": 2 } }"#;
    let converted = Profile::with_keys(keys).convert();
    let ecn: Vec<Option<bool>> =
        converted.scenario.sessions.values().map(|group| group.tcp.ecn).collect();
    assert_eq!(ecn, [None]);
}

/// What one end alone was told made two groups of each template, even where both ends agree on it.
#[test]
fn what_ends_agree_on_divides_no_group_wherever_it_stands() {
    let info = |keys: &str| format!("{{ \"tcp\": {{ {keys} }} }}");
    let small = info(r#""mss": 700, "do_sack": 0"#);
    for keys in [format!("\"c_glob_info\": {small}"), format!("\"s_glob_info\": {small}")] {
        let converted = Profile::with_keys(&keys).convert();
        assert_eq!((told(&converted), converted.scenario.sessions.len()), (Vec::new(), 1));
        let tcp = &first(&converted).tcp;
        assert_eq!((tcp.mss.map(|mss| mss.get()), tcp.sack), (Some(700), Some(false)));
    }
    let keys = format!(
        "\"c_glob_info\": {}, \"s_glob_info\": {}",
        info(r#""mss": 900, "do_ecn": 1"#),
        info(r#""mss": 800, "do_rfc1323": 0"#)
    );
    let converted = Profile::with_keys(&keys).convert();
    assert_eq!(converted.scenario.sessions.len(), 1);
    let tcp = &first(&converted).tcp;
    let options = (tcp.timestamps, tcp.window_scaling, tcp.ecn);
    assert_eq!(
        (tcp.mss.map(|mss| mss.get()), options),
        (Some(800), (Some(false), Some(false), None))
    );
}

/// It was refused, and one of T-Rex's own profiles has it.
#[test]
fn times_that_python_writes_with_a_point_are_times() {
    let delay =
        |usec: &str| Profile::with_client(&format!("{{ \"name\": \"delay\", \"usec\": {usec} }}"));
    let think = |usec: &str| client_steps(&delay(usec).convert())[0].clone();
    assert_eq!(think("100000.0"), think("100000"));
    for wrong in ["-1.0", "1e99", "\"x\""] {
        assert!(delay(wrong).why().contains("'usec' is a whole number from 0"), "{wrong}");
    }
}

/// T-Rex takes them, and finds the template by its port.
#[test]
fn servers_of_templates_that_overlap_are_divided() {
    let text = Profile::default().text();
    let begin = text.find("{\n\"client_template\"").unwrap();
    let template = text[begin..].trim_end().trim_end_matches("] }").trim_end();
    let second = template.replace("\"index\": 1", "\"index\": 2");
    let pool = "{ \"ip_start\": \"48.0.0.6\", \"ip_end\": \"48.0.0.15\" }";
    let text = text
        .replace(" ],\n\"templates\"", &format!(",\n{pool} ],\n\"templates\""))
        .replace(template, &format!("{template},\n{second}"));
    let read = |_: &str| Err(String::new());
    let sessions = &wirebeat_import::no_sessions;
    let source = Source { name: "p.json", text: &text, read: &read, sessions };
    let converted = convert(Dialect::Trex, &source, &Options::default());
    let converted = converted.unwrap_or_else(|why| panic!("{why}\n{text}"));
    compile_sessions(&converted.scenario, &Files::default()).unwrap();
    let servers =
        converted.scenario.sessions.values().map(|group| group.servers.addresses.0[0].to_string());
    assert_eq!(servers.collect::<Vec<_>>(), ["48.0.0.1-48.0.0.7", "48.0.0.8-48.0.0.15"]);
}

#[test]
fn without_rfc_1323_there_are_no_timestamps_and_no_larger_windows() {
    let info = r#"{ "tcp": { "do_rfc1323": 0, "rxbufsize": 100000 } }"#;
    let keys = format!("\"c_glob_info\": {info}, \"s_glob_info\": {info}");
    let converted = Profile::with_keys(&keys).convert();
    let tcp = &first(&converted).tcp;
    assert_eq!((tcp.window_scaling, tcp.timestamps), (Some(false), Some(false)));
    assert_eq!(tcp.receive_buffer, Some(Bytes::new(65_535)));
}

#[test]
fn tunables_that_are_not_carried_over_are_named_wherever_they_stand() {
    let others = r#"{ "tcp": { "txbufsize": 9000, "rexmtthresh": 2, "no_delay_counter": 5, "keepinit": 9, "blackhole": 1, "reass_maxqlen": 7, "magic": 1 },
        "ip": { "dont_use_inbound_mac": 1 }, "ipv6": { "enable": 1, "src_msb": [ 32 ], "dst_msb": [ 32 ] }, "scheduler": { "rampup_sec": 9 } }"#;
    let profile = Profile {
        keys: format!("\"c_glob_info\": {others},\n\"s_glob_info\": {others}"),
        of_client: format!("\"cps\": 1,\n\"glob_info\": {others}"),
        of_server: format!("\"glob_info\": {others}"),
        ..Profile::default()
    };
    let converted = profile.convert();
    let told = told(&converted);
    for place in [
        "c_glob_info",
        "s_glob_info",
        "templates[0].client_template.glob_info",
        "templates[0].server_template.glob_info",
    ] {
        for key in [
            "tcp.txbufsize",
            "tcp.rexmtthresh",
            "tcp.no_delay_counter",
            "tcp.keepinit",
            "tcp.blackhole",
            "tcp.reass_maxqlen",
            "tcp.magic",
            "ip.dont_use_inbound_mac",
            "ipv6.enable",
            "ipv6.src_msb",
            "ipv6.dst_msb",
            "scheduler.rampup_sec",
        ] {
            let named = format!(": {place}.{key}: ");
            let cut = named.chars().take(60).collect::<String>();
            assert!(told.iter().any(|it| it.contains(&cut)), "{named}\n{told:#?}");
        }
    }
    assert_eq!(told.len(), 48, "{told:#?}");
}

#[test]
fn values_that_are_not_quite_kept_are_named() {
    for (key, value, why) in [
        ("tcp.mss", "40", "88 bytes at least"),
        ("tcp.mss", "9300", "from 10 to 9216, and this is none"),
        ("tcp.mss", "\"x\"", "from 10 to 9216, and this is none"),
        ("tcp.no_delay", "3", "not by force"),
        ("tcp.delay_ack_msec", "900", "500 ms at most"),
        ("ip.ttl", "200", "127 at most"),
        ("ip.ttl", "0", "from 1 to 255, and this is none"),
        ("ip.tos", "2", "the two bits of ECN are not"),
    ] {
        let (layer, name) = key.split_once('.').unwrap();
        let info = format!("{{ \"{layer}\": {{ \"{name}\": {value} }} }}");
        let keys = format!("\"c_glob_info\": {info}, \"s_glob_info\": {info}");
        let converted = Profile::with_keys(&keys).convert();
        assert_told(&converted, &format!("p.json:2: c_glob_info.{key}: "), why);
        assert_told(&converted, &format!("p.json:2: s_glob_info.{key}: "), why);
        assert_eq!(converted.left_out.len(), 2, "{:#?}", told(&converted));
    }
}

#[test]
fn a_group_over_udp_has_the_ttl_of_its_clients_and_says_so() {
    let profile = Profile {
        client: r#"{ "name": "tx_msg", "buf_index": 0 }"#.into(),
        server: r#"{ "name": "rx_msg", "min_pkts": 1 }"#.into(),
        keys: r#""c_glob_info": { "ip": { "ttl": 9 }, "tcp": { "mss": 1000 } }"#.into(),
        ..Profile::default()
    };
    let converted = profile.convert();
    assert_eq!(converted.scenario.sessions.len(), 1);
    assert_eq!(first(&converted).ttl.map(|ttl| ttl.get()), Some(9));
    assert_told(&converted, "p.json:14: templates[0].server_template: ", "the usual TTL");
}

#[test]
fn keys_that_nothing_reads_are_named_with_their_lines() {
    let profile = Profile {
        client: r#"{ "name": "keepalive", "msec": 9, "rx_mode": true }, { "name": "tx_msg", "buf_index": 0 }"#.into(),
        server: r#"{ "name": "rx_msg", "min_pkts": 1 }"#.into(),
        of_client: "\"cps\": 1,\n\"cluster\": { \"a\": 1 },\n\"core_base\": 3, \"novel\": 1".into(),
        of_server: r#""s_delay": 5, "addon": {}"#.into(),
        keys: r#""novelty": 1"#.into(),
        pools: [
            r#""ip_start": "16.0.0.1", "ip_end": "16.0.0.9", "ip_offset": "1.0.0.0", "per_core_distribution": "seq""#,
            r#""ip_start": "48.0.0.1", "ip_end": "48.0.0.9", "ip_offset": "1.0.0.0", "distribution": "bell""#,
        ],
    };
    let converted = profile.convert();
    for (begins, why) in [
        ("p.json:2: novelty: ", "no meaning"),
        ("p.json:5: program_list[0].commands[0].rx_mode: ", "'timeout'"),
        ("p.json:9: ip_gen_dist_list[0].ip_offset: ", "one pair"),
        ("p.json:9: ip_gen_dist_list[0].per_core_distribution: ", "cores"),
        ("p.json:10: ip_gen_dist_list[1].distribution: ", "in turn"),
        ("p.json:14: templates[0].client_template.cluster: ", "'clients'"),
        ("p.json:15: templates[0].client_template.core_base: ", "'cores'"),
        ("p.json:15: templates[0].client_template.novel: ", "no meaning"),
        ("p.json:17: templates[0].server_template.s_delay: ", "'think'"),
    ] {
        assert_told(&converted, begins, why);
    }
    assert_eq!(converted.left_out.len(), 9, "{:#?}", told(&converted));
}

#[test]
fn templates_are_called_as_their_group_of_statistics() {
    let text = Profile::with_keys(r#""tg_names": [ "mail" ]"#).text();
    let text = text.replace("\"templates\": [ {", "\"templates\": [ { \"tg_id\": 1,");
    let read = |_: &str| Err(String::new());
    let sessions = &wirebeat_import::no_sessions;
    let source = Source { name: "p.json", text: &text, read: &read, sessions };
    let converted = convert(Dialect::Trex, &source, &Options::default()).unwrap();
    assert_eq!(converted.scenario.sessions.keys().collect::<Vec<_>>(), ["mail"]);
}

#[test]
fn pools_of_both_ends_that_overlap_are_refused() {
    let overlapping = Profile {
        pools: [
            r#""ip_start": "16.0.0.1", "ip_end": "48.0.0.1""#,
            r#""ip_start": "48.0.0.1", "ip_end": "48.0.0.9""#,
        ],
        ..Profile::default()
    };
    let why = overlapping.why();
    assert!(
        why.starts_with("p.json:9: ip_gen_dist_list[0]: its clients 16.0.0.1-48.0.0.1"),
        "{why}"
    );
    assert!(why.contains("have addresses in common; give each end addresses of its own"), "{why}");
}

#[test]
fn two_ends_over_different_protocols_are_left_out() {
    let profile =
        Profile { client: r#"{ "name": "tx_msg", "buf_index": 0 }"#.into(), ..Profile::default() };
    assert!(profile.why().contains("one of its programs is over TCP and the other over UDP"));
}

#[test]
fn contradictions_are_told_with_their_lines() {
    for (profile, why) in [
        (
            Profile::with_client(r#"{ "name": "tx", "buf_index": 7 }"#),
            "p.json:5: program_list[0].commands[0].buf_index: there is no buffer 7",
        ),
        (
            Profile::with_client(r#"{ "name": "rx", "min_bytes": -7 }"#),
            "p.json:5: program_list[0].commands[0].min_bytes: 'min_bytes' is a whole number",
        ),
        (
            Profile::with_client(
                r#"{ "name": "jmp_cmp", "id": 0, "offset": 1, "cmp_op": "near", "cmp_val": 1 }"#,
            ),
            "p.json:5: program_list[0].commands[0].cmp_op: it is not one of lt, gt, eq, ge, le, ne",
        ),
        (
            Profile { pools: [r#""ip_start": "x""#, ""], ..Profile::default() },
            "p.json:9: ip_gen_dist_list[0].ip_start: 'x' is no address",
        ),
    ] {
        let refused = profile.why();
        assert!(refused.contains(why), "{refused}");
    }
}
