//! Whatever a script is, it becomes a scenario or an error, within bounds.

use std::fs;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wirebeat_import::{Dialect, MAX_LEFT_OUT, Options, Source, convert, recognise};
use wirebeat_traffic::scenario::Scenario;

use crate::scripts_of;

/// How long any script may take on a slow and busy machine: next to what one without bounds takes it is
/// nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Converts; what comes out must be a scenario that passes its own check, and is the same once it was written
/// and read.
fn survive(dialect: Dialect, text: &str) {
    let begun = Instant::now();

    // Half of all files are there.
    let read = |name: &str| match name.len() % 2 {
        0 => Ok(format!("100 0.5\n{text}").into_bytes()),
        _ => Err("there is no such file".to_owned()),
    };
    let options = Options { interface: Some("eth7".to_owned()), ..Options::default() };
    let source = Source { name: "mangled", text, read: &read, sessions: &crate::captured };
    match convert(dialect, &source, &options) {
        Ok(converted) => {
            converted.scenario.check().unwrap();
            assert!(converted.left_out.len() <= MAX_LEFT_OUT + 1);
            let written = converted.scenario.to_yaml().unwrap();
            // What is longer than a scenario may be is not read.
            if written.len() < wirebeat_import::MAX_BYTES {
                let again = Scenario::from_yaml(&written, "again").unwrap();
                assert_eq!(again, converted.scenario);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let took = begun.elapsed();
    assert!(took < PATIENCE, "{took:?}: {}", text.chars().take(200).collect::<String>());
}

/// Words of all dialects, and others.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "START",
        "NOW",
        "0",
        "1",
        "-1",
        "1e18",
        "0.5",
        "99999999999999999999",
        "ON",
        "MOD",
        "MODIFY",
        "OFF",
        "UDP",
        "TCP",
        "DST",
        "10.0.0.2/5000",
        "224.1.1.1/5000",
        "10.0.0.2:10001",
        "ff02::1/5000",
        "3001",
        "PERIODIC",
        "POISSON",
        "BURST",
        "[",
        "]",
        "[1 100]",
        "REGULAR",
        "FIXED",
        "JITTER",
        "CONSTANT",
        "TRACE",
        "file",
        "COUNT",
        "TOS",
        "TTL",
        "0x10",
        "LISTEN",
        "JOIN",
        "INPUT",
        "-a",
        "10.0.0.2",
        "-C",
        "-B",
        "E",
        "W",
        "-T",
        "SCTP",
        "-Ft",
        "-k",
        "VoIP",
        "-x",
        "G.711.1",
        "Quake3",
        "pgset",
        "pg_set",
        "eth0",
        "add_device",
        "pg_thread",
        "pkt_size",
        "imix_weights",
        "flag",
        "IPV6",
        "dst_min",
        "mpls",
        "for",
        "in",
        "do",
        "done",
        "if",
        "then",
        "fi",
        "{",
        "}",
        "$(",
        "$((",
        "))",
        ")",
        "${",
        "`",
        "\"",
        "'",
        "\\",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        ">",
        "<<",
        "<<<",
        "$x",
        "x=1",
        "#",
        "\u{0}",
        "ü",
        "[[",
        "]]",
        "PGDEV=/proc/net/pktgen/pgctrl",
        "/proc/net/pktgen/eth0",
        "echo",
        "source",
        "((",
        "i++",
        "<<E",
        "E\n",
        "> /proc/net/pktgen/eth0",
        "| tee",
        "cat",
        "printf",
        "%s",
        "&>",
        "2>&1",
        "!",
        "while",
        "until",
        "case",
        "esac",
        ";;",
        "function",
        "f()",
        "f",
        "local",
        "declare -i",
        "x+=",
        "a=(",
        "{1..9}",
        "{a,b}",
        "${x:-",
        "${x:=y}",
        "\"$@\"",
        "set --",
        "shift",
        "break",
        "continue",
        "return",
        "exit",
        "read",
        "IFS=,",
        "else",
        "elif",
        "[ -e x ]",
        "COUNT 5,off",
        "DATA [00]",
        "DF on",
        "-s 0.5",
        "-n 500 50",
        "-Fs",
        "MODIFY",
        "CBR",
    ];
    prop_oneof![9 => select(words.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn words_in_any_order_do_no_harm(words in vec(word(), 0..60), dialect in select(Dialect::ALL.to_vec())) {
        let text = words.join(" ");
        survive(dialect, &text);
        let _ = recognise(&text);
    }

    #[test]
    fn bytes_in_any_order_do_no_harm(bytes in vec(any::<u8>(), 0..300), dialect in select(Dialect::ALL.to_vec())) {
        let text = String::from_utf8_lossy(&bytes);
        survive(dialect, &text);
        let _ = recognise(&text);
    }

    #[test]
    fn commands_of_the_shell_in_any_order_do_no_harm(words in vec(word(), 0..40), ends in vec(select(vec![" ", "\n", "; "]), 40)) {
        let device = "pg_thread 0 add_device eth0\npg_set eth0 \"dst 10.0.0.2\"\n";
        let words: Vec<String> = words.iter().zip(ends).map(|(word, end)| format!("{word}{end}")).collect();
        survive(Dialect::Pktgen, &format!("{device}{}", words.concat()));
    }

    #[test]
    fn broken_scripts_do_no_harm(
        dialect in select(Dialect::ALL.to_vec()),
        which: Index,
        cuts in vec((any::<Index>(), any::<Index>(), word()), 1..6),
    ) {
        let scripts = scripts_of(dialect);
        let mut text: Vec<char> = fs::read_to_string(which.get(&scripts)).unwrap().chars().collect();
        for (from, len, word) in cuts {
            let from = from.index(text.len() + 1);
            let len = len.index(20).min(text.len() - from);
            text.splice(from..from + len, word.chars());
        }
        survive(dialect, &text.into_iter().collect::<String>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_again_and_again_takes_its_time_and_no_more(
        begins in vec(word(), 0..3),
        again in vec(word(), 1..5),
        ends in vec(word(), 0..3),
        sign in select(vec![" ", "\n", ""]),
        dialect in select(Dialect::ALL.to_vec()),
    ) {
        let again = again.join(" ") + sign;
        let times = 60_000 / again.len().max(1);
        survive(dialect, &format!("{} {}{}", begins.join(" "), again.repeat(times), ends.join(" ")));
    }

    #[test]
    fn what_is_opened_and_closed_again_and_again_does_no_harm(
        open in vec(select(vec!["(", "((", "$(", "$((", "${", "${x:-", "{", "[", "\"", "`", "{a,", "{ ", "if [ ", "for i in ", "f() { ", "BURST [REGULAR 1 ", "a=("]), 1..4),
        close in vec(select(vec![")", "))", "}", "]", "\"", "`", ",b}", "; }", "; fi", "; done", " FIXED 1]"]), 1..4),
        times in select(vec![3usize, 9, 11, 60, 70, 5000]),
        dialect in select(Dialect::ALL.to_vec()),
    ) {
        let text = format!("x={} 1 {}", open.concat().repeat(times), close.concat().repeat(times));
        survive(dialect, &text);
    }
}

#[test]
fn long_scripts_take_their_time_and_no_more() {
    let lines = |line: &str| line.repeat((2 << 20) / line.len());
    for (dialect, text) in [
        (Dialect::Rude, "START NOW\n".to_owned() + &lines("0 1 ON 3001 10.0.0.2:1 CBR 1 50\n")),
        (Dialect::Rude, lines("\n")),
        (Dialect::Mgen, lines("TXBUFFER 1\n")),
        (Dialect::Mgen, lines("[")),
        (Dialect::Mgen, "ON 1 UDP ".to_owned() + &lines("BURST [")),
        (Dialect::Mgen, "0 LISTEN UDP ".to_owned() + &lines("1,")),
        (Dialect::Mgen, lines("\\\n")),
        (Dialect::Ditg, lines("-l\n")),
        (Dialect::Ditg, lines("-a ")),
        (Dialect::Pktgen, lines("x\n")),
    ] {
        survive(dialect, &text);
    }
    let lines = |line: &str| line.repeat((1 << 20) / line.len());
    for text in [
        "x | ", "if ", "{ ", "( ", "$(", "((", "<<a\n", "f() { ", "x &&", "[[ ", "for ", "`",
        "x=1 ", "${",
    ] {
        survive(Dialect::Pktgen, &lines(text));
    }
}

#[test]
fn what_calls_itself_within_all_that_nests_ends() {
    let text = format!("f() {{ {}f{} }}\nf\n", "{ ".repeat(8), "; }".repeat(8));
    survive(Dialect::Pktgen, &text);
    let text = format!("f() {{ {}f{} }}\nf\n", "if true; then ".repeat(8), "; fi".repeat(8));
    survive(Dialect::Pktgen, &text);
    let text = format!("f() {{ {}f{} }}\nf\n", "for i in 1 2; do ".repeat(8), "; done".repeat(8));
    survive(Dialect::Pktgen, &text);
}
