//! Shell scripts for pktgen: what the shell would do is done, or named, or an error; and all of it ends.

use std::fmt::Write;
use std::time::{Duration, Instant};

use wirebeat_import::{Converted, Dialect, Options, Source, convert};

/// A device with its destination, so that it is a flow.
const DEVICE: &str = "pg_thread 0 add_device eth0\npg_set eth0 \"dst 10.0.0.2\"\n";

fn try_convert(text: &str) -> Result<Converted, String> {
    let read = |name: &str| match name {
        "more.sh" => Ok(b"\n\nhelper() {\n    frobnicate\n}\n".to_vec()),
        _ => Err("there is no such file".to_owned()),
    };
    let source = Source { name: "s", text, read: &read, sessions: &wirebeat_import::no_sessions };
    convert(Dialect::Pktgen, &source, &Options::default()).map_err(|error| error.to_string())
}

fn converted(text: &str) -> Converted {
    try_convert(text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn left_out(text: &str) -> Vec<String> {
    converted(text).left_out.iter().map(ToString::to_string).collect()
}

/// The names of the flows with how many frames they send.
fn flows(text: &str) -> Vec<(String, u64)> {
    let flows = converted(text).scenario.flows;
    flows
        .into_iter()
        .map(|(name, flow)| (name, flow.count.map_or(0, |count| count.get())))
        .collect()
}

fn eth0(count: u64) -> Vec<(String, u64)> {
    vec![("eth0".to_owned(), count)]
}

/// That the script is refused for this reason, and within a time that no loop spins away.
fn refused(text: &str, why: &str) {
    let begun = Instant::now();
    let error = try_convert(text).err().unwrap_or_else(|| panic!("it was not refused"));
    assert!(error.contains(why), "{error}, not {why}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{why}: {:?}", begun.elapsed());
}

#[test]
fn commands_within_commands_go_so_deep_and_no_deeper() {
    let nested = |depth: usize| "$(seq ".repeat(depth) + "1" + &")".repeat(depth);
    let deep = "more than 8 deep";
    refused(
        &format!("\nx={}", nested(140_000)),
        "s:2: a $( is not closed, or more than 64 are open",
    );
    refused(&format!("\nx={}", nested(60)), deep);
    refused(&format!("\nx=\"{}\"", nested(20)), "s:2: commands are put into one another more than");
    assert!(try_convert(&format!("x={}", nested(7))).is_ok());
    refused(&("${x:-".repeat(60) + &"}".repeat(60)), deep);
    refused(&("${x:-".repeat(100_000) + &"}".repeat(100_000)), "s:1: a ${ is not closed, or more");
    refused(&"#".repeat((1 << 20) + 1), "a shell script for pktgen has at most 1048576 bytes");
    refused(&"((".repeat(300_000), "");
    refused(&("(".repeat(300_000) + &") ".repeat(300_000)), "");
}

#[test]
fn loops_over_more_than_there_are_steps_are_refused() {
    for text in [
        "\nfor i in {1..1000000000}; do :; done\n".to_owned(),
        "\nfor i in {1000000000..1}; do :; done\n".to_owned(),
        format!("\nfor i in {}; do :; done\n", "{0..60000} ".repeat(40_000)),
        format!("\necho {}\n", "{1..1000}".repeat(1000)),
        format!("\necho {}\n", "{0,1}".repeat(100)),
        format!("\nfor i in {}; do :; done\n", "$(seq 60000) ".repeat(40)),
    ] {
        refused(&text, "s:2: the script takes more than 1000000 steps");
    }
}

#[test]
fn long_braces_are_refused_for_what_they_would_hold() {
    let text = format!("\necho {}{{1..900000}}\n", "x".repeat(500_000));
    refused(&text, "s:2: the script's words become too long");
}

#[test]
fn conditions_and_words_of_nothing_are_steps_too() {
    let many = "for i in {1..50000}; do\n";
    let tests = "false || ".repeat(30_000);
    refused(&format!("{many}if {tests} true; then :; fi\ndone\n"), "more than 1000000 steps");
    let tests = "[ ] || ".repeat(30_000);
    refused(&format!("{many}{tests} true\ndone\n"), "more than 1000000 steps");
    let nothing = "$a".repeat(100_000);
    refused(&format!("{many}x={nothing}\ndone\n"), "s:2: the script's words become too long");
    let sum = "1+".repeat(100_000) + "1";
    for line in
        [format!("x=$(({sum}))"), format!("(({sum}))"), format!("for (({sum};1;1)); do :; done")]
    {
        refused(&format!("{many}{line}\ndone\n"), "s:2: the script's words become too long");
    }
    let unknown = format!("`{}`", " ".repeat(100_000));
    refused(&format!("{many}x={unknown}\ndone\n"), "s:2: the script's words become too long");
    let doubled = "x=\"$x$x\"\n".repeat(22);
    let text = format!("x=' '\n{doubled}x=\"${{x}}5\"\n(({}x))\n", "x+".repeat(100_000));
    assert!(left_out(&text)[0].starts_with("s:25: x+x+"));
    let files = "/proc/net/pktgen/pgctrl ".repeat(10_000);
    refused(
        &format!("for i in {{1..50000}}; do\necho stop\ndone | tee {files}\n"),
        "more than 1000000 steps",
    );
    let skipped = "&& a ".repeat(100_000);
    refused(&format!("{many}[ -e x ] {skipped}\ndone\n"), "");
}

#[test]
fn more_devices_and_sizes_than_a_run_has_are_refused() {
    let text = "for i in {0..65535}; do\npg_thread 0 add_device eth0@$i\ndone\n";
    refused(text, "s:2: there are more than 65535 devices");
    let text = "for i in {0..9999}; do\npg_thread 0 add_device a@$i\npg_set a@$i dst 10.0.0.2\n\
                pg_set a@$i max_pkt_size 9000\ndone\n";
    refused(text, "sizes in all");
}

#[test]
fn taking_devices_away_is_as_many_steps_as_there_are() {
    let text = "for ((i = 0; i < 300000; i++)); do\npg_thread 1 rem_device_all\npg_thread 0 add_device a@$i\ndone\n";
    refused(text, "s:2: the script takes more than 1000000 steps");
}

#[test]
fn conditions_that_depend_on_the_machine_are_named_with_what_is_not_done() {
    for (text, what) in [
        ("if [ -e /x ]; then\n  N=5\nfi\n", "s:1: if: "),
        ("if [ -e /x ]; then\n  my_setup eth0\nfi\n", "s:1: if: "),
        ("if [ -e /x ]; then\n  exit 1\nfi\n", "s:1: if: "),
        ("if [ -e /x ]; then\n  f() { :; }\nfi\n", "s:1: if: "),
        ("if [ -e /x ]; then\n  ((i++))\nfi\n", "s:1: if: "),
        ("if [ -e /x ]; then\n  case $1 in a) pgset x;; esac\nfi\n", "s:1: if: "),
        ("if [[ $x =~ ^(a|b)$ ]]; then\n  N=5\nfi\n", "s:1: if: "),
        ("if [[ eth0 == eth* ]]; then\n  N=5\nfi\n", "s:1: if: "),
        ("\n[ -e /x ] && pg_set eth0 \"count 5\"\n", "s:2: pg_set: "),
        ("\n[ -e /x ] || N=5\n", "s:2: N=5: "),
        ("grep -q x /proc/cpuinfo && N=5\n", "s:1: N=5: "),
    ] {
        let left_out = left_out(text);
        assert_eq!(left_out.len(), 1, "{text}: {left_out:#?}");
        assert!(left_out[0].starts_with(what) && left_out[0].contains("depends on the machine"));
    }
    for text in [
        "if [ -e /x ]; then echo \"there\"; modprobe pktgen; fi\n",
        "[ -e /x ] && echo there >&2\n",
        "[ -e /x ] || modprobe pktgen\n",
        "grep -q pktgen /proc/modules || modprobe pktgen\n",
    ] {
        assert_eq!(left_out(text), [""; 0], "{text}");
    }
}

#[test]
fn what_a_condition_does_is_done() {
    for text in [
        "if pg_set eth0 \"count 5\"; then :; fi\n",
        "if ! pg_set eth0 \"count 5\"; then pg_set eth0 \"count 6\"; fi\n",
        "set_it() { pg_set eth0 \"count 5\"; }\nif set_it; then :; fi\n",
        "if false || [ 1 -eq 1 ]; then pg_set eth0 \"count 5\"; fi\n",
        "if ! [ -n \"\" ]; then pg_set eth0 \"count 5\"; fi\n",
        "i=4\n((i++)) && pg_set eth0 \"count $i\"\n",
    ] {
        assert_eq!(flows(&(DEVICE.to_owned() + text)), eth0(5), "{text}");
    }
}

#[test]
fn two_things_on_one_line_are_two_messages() {
    let left_out = left_out("frobnicate; tune_it\nfor i in 1 2; do frobnicate; done\n");
    let begins = ["s:1: frobnicate: ", "s:1: tune_it: ", "s:2: frobnicate: "];
    assert_eq!(left_out.len(), 3, "{left_out:#?}");
    assert!(
        left_out.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)),
        "{left_out:#?}"
    );
}

#[test]
fn a_function_of_another_script_is_named_there() {
    let left_out = left_out(". more.sh\nhelper\n");
    assert_eq!(left_out.len(), 1);
    assert!(left_out[0].starts_with("more.sh:4: frobnicate: "), "{left_out:#?}");
}

#[test]
fn whatever_writes_to_pktgen_is_done_or_named() {
    let file = "/proc/net/pktgen/eth0";
    for text in [
        "cat <<EOF > FILE\ncount 5\nEOF\n",
        "cat > FILE <<'EOF'\ncount 5\nEOF\n",
        "cat <<-EOF >FILE\n\tcount 5\n\tEOF\n",
        "n=5\ncat << EOF | tee FILE > /dev/null\ncount $n\nEOF\n",
        "cat <<< \"count 5\" > FILE\n",
        "tee FILE <<< \"count 5\"\n",
        "sudo tee -a FILE >/dev/null <<EOF\ncount 5\nEOF\n",
        "echo \"count 5\" | sudo tee FILE\n",
        "echo count 5 | cat | tee /tmp/log FILE\n",
        "echo count 5 | cat > FILE\n",
        "echo count 5 &> FILE\n",
        "echo count 5 >| FILE\n",
        "echo -n 'count 5' >> FILE 2>&1\n",
        "echo -e 'count 5\\n' 1> FILE\n",
        "printf 'count 5\\n' > FILE\n",
        "printf '%s %d\\n' count 5 > FILE\n",
        "{ echo start; echo count 5; } > FILE 2>/dev/null\n",
        "(echo count 5) > FILE\n",
        "for n in 3 5; do echo count $n; done > FILE\n",
        "for n in 3 5; do echo count $n; done | tee FILE\n",
        "f() { echo count 5; }\nf > FILE\n",
        "if true; then echo count 5; fi > FILE\n",
        "f() { echo count 5; } > FILE\nf\n",
        "f() ( echo count 5 ) > FILE\nf\n",
        "function f { echo count 5; } 2>/dev/null > FILE\nf\n",
        "P=${FILE%/*}\nP=/proc/net/pktgen\nD=eth0\necho count 5 > \"$P/$D\"\n",
        "echo 'count = 5' > FILE\n",
    ] {
        let text = text.replace("{ echo start; ", "{ ").replace("FILE", file);
        assert_eq!(flows(&(DEVICE.to_owned() + &text)), eth0(5), "{text}");
    }
    for text in [
        "cat settings > FILE\n",
        "cat < settings > FILE\n",
        "cat settings | tee FILE\n",
        "echo count 5 | sed s/5/6/ > FILE\n",
        "echo count 5 | sed s/5/6/ | tee FILE\n",
        "grep count settings > FILE\n",
        "sed 1q settings > FILE\n",
        "printf '%x' 5 > FILE\n",
        "while read -r line; do echo \"$line\"; done < settings > FILE\n",
        "cat settings | while read -r line; do echo \"$line\" > FILE; done\n",
        "sudo sh -c 'echo count 5 > FILE'\n",
        "dd if=settings of=FILE\n",
    ] {
        let text = DEVICE.to_owned() + &text.replace("FILE", file);
        assert_eq!(flows(&text), eth0(1000), "{text}");
        let left_out = left_out(&text);
        assert!(left_out.iter().any(|line| line.starts_with("s:3: ")), "{text}: {left_out:#?}");
    }
    // The number 2 is an argument, and of no descriptor.
    assert_eq!(flows(&format!("{DEVICE}echo count 2 > {file}\n")), eth0(2));
    for text in
        ["echo count 5 2> FILE\n", "echo count 5 >&2\n", "echo count 5 > /dev/null\n", "> FILE\n"]
    {
        let text = DEVICE.to_owned() + &text.replace("FILE", file);
        assert_eq!((flows(&text), left_out(&text).len()), (eth0(1000), 0), "{text}");
    }
}

#[test]
fn a_command_behind_another_in_one_write_is_named_with_its_line() {
    let text = format!(
        "{DEVICE}cat <<EOF > /proc/net/pktgen/eth0\n\ncount 5\npkt_size 300\nburst 2\nEOF\n"
    );
    assert_eq!(flows(&text), eth0(5));
    let left_out = left_out(&text);
    assert_eq!(left_out.len(), 2, "{left_out:#?}");
    assert!(left_out[0].starts_with("s:6: pkt_size 300: "), "{left_out:#?}");
    assert!(left_out[1].starts_with("s:7: burst 2: "), "{left_out:#?}");
}

#[test]
fn what_follows_a_document_on_its_line_is_read() {
    let text = "cat <<A <<B; pg_set eth0 \"count 5\"\n$(\nA\n\"`\nB\npg_set eth0 \"delay 7\"\n";
    assert_eq!(
        flows(&(DEVICE.to_owned() + &text.replace("<<A", "<<'A'").replace("<<B", "<<\\B"))),
        eth0(5)
    );
    refused("\ncat <<EOF\nnever\n", "s:2: the text that begins with '<<' has no line 'EOF'");
}

#[test]
fn arrays_are_named_and_what_they_hold_is_not_known() {
    let text = "cpus=($(nproc))\nmore=(1 2\n  3)\nmore+=(4)\ndeclare -a list=(a b)\n";
    let left_out = left_out(&(DEVICE.to_owned() + text));
    let begins = ["s:3: cpus=(", "s:4: more=(", "s:6: more+=(", "s:7: list=("];
    assert_eq!(left_out.len(), 4, "{left_out:#?}");
    assert!(
        left_out.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)),
        "{left_out:#?}"
    );
    let first = format!("{DEVICE}{text}pg_set eth0 \"count ${{more[0]}}\"\n");
    refused(&first, "s:8: 'count ${more[0]}' depends on the machine");
    refused(&format!("{DEVICE}{text}pg_set eth0 \"count $more\"\n"), "depends on the machine");
}

#[test]
fn keywords_are_keywords_where_a_command_begins() {
    for text in [
        "while true; do echo done; done\n",
        "while true; do echo while for until; done\n",
        "until false; do echo if fi; done\n",
        "case $1 in for) echo case esac;; done|esac2) echo done ;; (*) ;; esac\n",
        "case $1 in\n  -i | --interface ) DEV=$2; shift 2 ;;\n  *) break\nesac\n",
        "select x in a b; do echo done; done\n",
        "for x in do if done; do echo done then fi; done\n",
        "if [ done = done ]; then echo fi; else echo else; fi\n",
        "echo if; echo then; echo { ; echo }\n",
        "f() { echo } ; }\n",
    ] {
        assert_eq!(flows(&format!("{DEVICE}{text}pg_set eth0 \"count 5\"\n")), eth0(5), "{text}");
    }
}

#[test]
fn declarations_are_no_commands() {
    for text in [
        "local x y\nn=5\n",
        "declare -i n=5\n",
        "declare -i n=2+3\n",
        "declare -r -x n=5 m\n",
        "readonly n=5\n",
        "typeset n\nn=5\n",
        "export n\nn=5\n",
        "n=2; n=${n}; n+=3; ((n = n - 18))\n",
        "sudo -E n=5\nn=5\n",
    ] {
        let text = format!("{DEVICE}{text}pg_set eth0 \"count $n\"\n");
        assert_eq!((flows(&text), left_out(&text)), (eth0(5), vec![]), "{text}");
    }
}

#[test]
fn what_is_local_to_a_function_or_a_subshell_ends_with_it() {
    for text in [
        "n=5\nf() { local n=6 m; n=7; }\nf\n",
        "n=5\nf() { local n; n=7; g; }\ng() { local n=8; }\nf\n",
        "n=5\n(n=6; f() { :; })\n",
        "n=5\nn=6 true\n",
        "f() { n=$1; }\nf 5\n",
        "f() { shift; n=$1; }\nf 6 5\n",
        "f() { for n in \"$@\"; do :; done; }\nf \"6 7\" 5\n",
        "f() { n=$#; }\nargs=\"1 2 3\"\nf $args 4 5\n",
        "f() { n=${2:-5}; }\nf 6\n",
        "f() { [ -z \"$2\" ] && n=5; }\nf 6\n",
        ": ${n:=5}\n",
        "n=${n-${m:-5}}\n",
        "for n in 4 5 6; do [ $n = 5 ] && break; done\n",
        "n=0; for i in {1..6}; do [ $i -eq 6 ] && continue; n=$((n + 1)); done\n",
        "for n in eth{1..3}-{a,b} 5; do :; done\n",
        "IFS=- read a n <<< \"6 5\"\n[ -z \"$n\" ] && n=9\nn=5\n",
        "read a n <<< \"6 5\"\n",
        "n=$(((1+(2*1))+(2)))\n",
        "n=$(echo 5)\n",
        "let n=4 n++\n",
    ] {
        let text = format!("{DEVICE}{text}pg_set eth0 \"count $n\"\n");
        assert_eq!(flows(&text), eth0(5), "{text}");
    }
}

#[test]
fn braces_make_words_where_no_quotes_are() {
    let devices = |words: &str| {
        let mut text = format!("for d in {words}; do\n");
        for line in ["pg_thread 0 add_device $d", "pg_set $d dst 10.0.0.2"] {
            writeln!(text, "{line}").unwrap();
        }
        let flows = converted(&(text + "done\n")).scenario.flows;
        flows.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(devices("eth{0..2}"), "eth0 eth1 eth2");
    assert_eq!(devices("{2..0}"), "2 1 0");
    assert_eq!(devices("eth{0..4..2}x"), "eth0x eth2x eth4x");
    assert_eq!(devices("eth{a,b{1,2}}"), "etha ethb1 ethb2");
    assert_eq!(devices("{a,b}{1,2}"), "a1 a2 b1 b2");
    assert_eq!(devices("\"{a,b}\" '{1..2}' \\{3..4} {x} {}"), "{a,b} {1..2} {3..4} {x} {}");
    assert_eq!(devices("a@{0..1} \"b\"@{0..1}"), "a@0 a@1 b@0 b@1");
    let unknown = left_out("n=3\nfor d in {0..$n}; do pg_thread 0 add_device $d; done\n");
    assert!(unknown[0].starts_with("s:2: {0..$n}: "), "{unknown:#?}");
}

#[test]
fn what_is_not_known_of_words_and_variables_is_not_guessed() {
    for (text, what) in [
        (
            "for d in /sys/class/net/e*; do pg_thread 0 add_device $d; done\n",
            "s:1: /sys/class/net/e*: ",
        ),
        ("for d in $X; do pg_thread 0 add_device $d; done\n", "s:1: $X: "),
        ("printf -v n '%d' 5\n", "s:1: printf -v: "),
        ("let n=m[0]\n", "s:1: n=m[0]: "),
        ("read -a n <<< \"1 2\"\n", "s:1: read -a: "),
    ] {
        let left_out = left_out(text);
        assert_eq!(left_out.len(), 1, "{text}: {left_out:#?}");
        assert!(left_out[0].starts_with(what), "{text}: {left_out:#?}");
    }
    for text in
        ["printf -v n '%d' 5\n", "let n=m[0]\n", "read -a n <<< \"1 2\"\n", "((n = m[0]))\n"]
    {
        let text = format!("{DEVICE}n=4\n{text}pg_set eth0 \"count $n\"\n");
        refused(&text, "s:5: 'count $n' depends on the machine");
    }
}

#[test]
fn a_script_that_ends_before_it_begins_says_so() {
    let text = format!("[ -z \"$TARGET\" ] && exit 1\n{DEVICE}");
    assert_eq!(left_out(&text).len(), 1);
    assert!(left_out(&text)[0].starts_with("s:1: exit: "));
    assert_eq!(left_out(&format!("{DEVICE}exit 0\n")), [""; 0]);
}
