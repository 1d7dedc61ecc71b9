//! The command at work: every run here is inside namespaces that the test made, and nothing leaves them.

use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::{
    Capability, End, Neighbours, Options as Cable, Output, Process, Program, Testbed, require,
};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn cable() -> Testbed {
    Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap()
}

pub fn wirebeat(end: &End, line: &str) -> Process {
    let program = Program::new(&end.namespace, env!("CARGO_BIN_EXE_wirebeat"));
    program.args(line.split_whitespace()).spawn().unwrap()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Whether an XDP program is attached to either end.
pub fn attached(bed: &Testbed) -> [bool; 2] {
    [&bed.a, &bed.b]
        .map(|end| end.netlink().unwrap().link_by_index(end.link.index).unwrap().xdp.is_some())
}

#[test]
fn the_demo_shows_consistent_counters_and_no_loss() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let nowhere = cable();
    let line = "demo --time 300ms --rate 5kpps --json -";
    let ended = wirebeat(&nowhere.a, line).wait(PATIENCE).unwrap();
    let report = json(&ended);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(report["verdict"], "done");
    assert_eq!(report["total"]["received"]["unique"], 1500);
    assert_eq!(report["total"]["loss"]["frames"], 0);
    assert_eq!(report["senders"][0]["engine"], "kernel");
}

#[test]
fn two_commands_find_each_other() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let key = "a-key-for-two-commands-5960";
    let address = format!("{}:5960", bed.b.ipv4);
    let receiver = wirebeat(
        &bed.b,
        &format!("receive --interface wb1 --port 9 --listen {address} --key {key} --once"),
    );
    receiver.wait_for("listening on", PATIENCE).unwrap();
    let sender = wirebeat(
        &bed.a,
        &format!(
            "send --to {} --interface wb0 --rate 5kpps --count 1000 --peer {address} --key {key} --json -",
            bed.b.ipv4
        ),
    );
    let sent = sender.wait(PATIENCE).unwrap();
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let report = json(&sent);
    assert_eq!(report["total"]["received"]["unique"], 1000);
    assert_eq!(report["delay_clock"]["relation"], "same");
    assert!(!sent.stdout.contains(key), "the key is in the report");
    let received = receiver.wait(PATIENCE).unwrap();
    assert_eq!(received.status.code(), Some(0), "{received:?}");
    assert!(received.stdout.contains("1,000"), "{}", received.stdout);
}

/// A receiver in a time namespace has another monotonic clock than the kernel's programs, which read that of the host: all
/// delays were wrong by the offset, and the sender refused the result.
#[test]
fn a_receiver_in_another_time_namespace_measures_delay() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for (engine, days) in [("kernel", 4), ("packet", 4), ("kernel", 1)] {
        let bed = cable();
        let key = "a-key-for-two-clocks-5960";
        let address = format!("{}:5960", bed.b.ipv4);
        let line = format!(
            "--time --monotonic {} --fork {} receive --engine {engine} --interface wb1 --port 9 --listen {address} \
             --key {key} --once",
            days * 86_400,
            env!("CARGO_BIN_EXE_wirebeat"),
        );
        let receiver = Program::new(&bed.b.namespace, "unshare").args(line.split_whitespace());
        let receiver = receiver.spawn().unwrap();
        receiver.wait_for("listening on", PATIENCE).unwrap();
        let line = format!(
            "send --to {} --interface wb0 --rate 5kpps --count 1000 --peer {address} --key {key} --json -",
            bed.b.ipv4
        );
        let sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
        assert_eq!(sent.status.code(), Some(0), "{engine}: {sent:?}");
        let report = json(&sent);
        assert_eq!(report["total"]["received"]["unique"], 1000);
        assert_eq!(report["delay_clock"]["relation"], "bounded", "{engine}");
        // the offset is taken off: what remains is the delay, known to the bound
        let bound = report["delay_clock"]["uncertainty_ns"].as_u64().unwrap();
        let delay = &report["total"]["received"]["one_way_delay_ns"];
        assert_eq!(delay["count"], 1000);
        let largest = delay["max"].as_i64().map_or(bound, i64::unsigned_abs);
        assert!(largest < 10_000_000_000, "{engine}: {delay}");
        receiver.wait(PATIENCE).unwrap();
    }
}

/// The last line came twice, the second time with a rate of 0, because the last look is taken when all is quiet.
#[test]
fn each_interval_has_one_line_and_the_last_is_no_empty_repeat() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let line = "receive --interface wb1 --engine packet --time 8s --interval 2s";
    let receiver = wirebeat(&bed.b, line);
    receiver.wait_for("receiving on", PATIENCE).unwrap();
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 1kpps --time 2s --interval 1s",
        bed.b.ipv4
    );
    let sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    let received = receiver.wait(PATIENCE).unwrap();
    let rows = |output: &Output| -> Vec<String> {
        let rows = output.stderr.lines().filter(|line| line.contains(" Mbit/s"));
        rows.map(str::to_owned).collect()
    };
    let frames = |rows: &[String], word: &str| -> u64 {
        let words = |row: &String| -> u64 {
            let (_, after) = row.split_once(word).unwrap_or_else(|| panic!("{row}"));
            let number = after.split_whitespace().next().unwrap();
            number.replace(',', "").parse().unwrap()
        };
        rows.iter().map(words).sum()
    };
    let sent = rows(&sent);
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(frames(&sent, " sent "), 2000, "{sent:?}");
    assert!(sent.iter().all(|row| !row.contains(" 0 Mbit/s")), "{sent:?}");
    let received = rows(&received);
    assert_eq!(received.len(), 4, "{received:?}");
    assert_eq!(frames(&received, " received "), 2000, "{received:?}");
    assert!(received.iter().all(|row| row.contains("  lost 0")), "{received:?}");
}

/// A line of JSON for each interval while it runs, and the report as the last one, here and on both hosts.
#[test]
fn json_lines_are_intervals_and_then_the_report_which_they_add_up_to() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let (to, key) = (bed.b.ipv4, "--key correct-horse-battery-staple-4790");
    let line = format!(
        "receive --interface wb1 --engine packet --listen {to}:5960 {key} --once --json-lines"
    );
    let receiver = wirebeat(&bed.b, &line);
    // what it waits for is not told, so that the sender tries until somebody listens
    let line = format!(
        "send --to {to}:9 --interface wb0 --engine packet --rate 2kpps --time 1200ms --interval 200ms --json-lines \
         --peer {to}:5960 {key}"
    );
    let mut sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    for _ in 0..50 {
        if sent.status.code() == Some(0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    }
    for ended in [sent, receiver.wait(PATIENCE).unwrap()] {
        let lines: Vec<serde_json::Value> =
            ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (report, intervals) = lines.split_last().unwrap();
        assert!(intervals.len() >= 6, "{ended:?}");
        let sum = |count: fn(&serde_json::Value) -> Option<u64>| -> u64 {
            intervals.iter().filter_map(|interval| count(&interval["total"])).sum()
        };
        let received = &report["total"]["received"];
        assert_eq!(received["unique"], 2400, "{ended:?}");
        assert_eq!(received["unique"], sum(|total| total["received"]["unique"].as_u64()));
        assert_eq!(report["total"]["loss"]["frames"], 0);
        if let Some(sent) = report["total"]["sent"]["sent"]["frames"].as_u64() {
            assert_eq!(sent, sum(|total| total["sent"]["frames"].as_u64()));
            // each has the delays of its own frames, told while it runs
            let delay =
                |one: &serde_json::Value| one["total"]["received"]["one_way_delay_ns"].clone();
            assert!(intervals[..5].iter().all(|one| delay(one)["percentiles"]["p50"].is_u64()));
        }
        assert_eq!(ended.stderr.lines().filter(|line| line.contains("Mbit/s")).count(), 0);
    }
}

#[test]
fn an_interrupt_ends_a_run_with_its_report() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 2kpps --time 60s --interval 100ms --json -",
        bed.b.ipv4
    );
    let sender = wirebeat(&bed.a, &line);
    std::thread::sleep(Duration::from_millis(800));
    sender.interrupt();
    let ended = sender.wait(PATIENCE).unwrap();
    let report = json(&ended);
    assert_eq!(report["end"]["reason"], "stopped", "{ended:?}");
    assert!(
        report["consistency_checks"].as_array().unwrap().iter().all(|book| book["difference"] == 0)
    );
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn a_killed_run_leaves_nothing_attached() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let receiver = wirebeat(&bed.b, "receive --interface wb1 --engine kernel");
    let mut sender = None;
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(50));
        if attached(&bed) == [false, true] {
            let line = format!("send --to {} --interface wb0 --rate 1kpps --time 60s", bed.b.ipv4);
            sender = Some(wirebeat(&bed.a, &line));
            break;
        }
    }
    let sender = sender.expect("the receiver never attached its program");
    std::thread::sleep(Duration::from_millis(500));
    sender.kill();
    receiver.kill();
    sender.wait(PATIENCE).unwrap();
    receiver.wait(PATIENCE).unwrap();
    // the kernel releases a link a moment after its last owner is gone
    for _ in 0..100 {
        if attached(&bed) == [false, false] {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("a program is still attached: {:?}", attached(&bed));
}

#[test]
fn a_machine_that_cannot_is_told_before_anything_is_sent() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    // the far end takes no redirected frames
    let bed = cable();
    let line = format!("send --to {} --interface wb0 --engine kernel --rate 1kpps", bed.b.ipv4);
    let ended = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("takes redirected frames only while"), "{}", ended.stderr);
}

#[test]
fn a_destination_without_a_way_is_told() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    for (to, engine, why) in [
        ("192.0.2.1", "auto", "route"),
        ("192.0.2.1", "packet --interface wb0", "neighbour"),
        // in the network of the cable, where nobody has it
        (
            &*format!("{}.77", bed.b.ipv4.to_string().rsplit_once('.').unwrap().0),
            "packet --interface wb0",
            "neighbour",
        ),
    ] {
        let line = format!("send --to {to} --rate 1kpps --engine {engine}");
        let ended = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
}

#[test]
fn a_key_is_printed_only_once_the_receiver_listens() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let line = "receive --interface wb1 --engine packet --json - --listen 0.0.0.0:5960";
    let first = wirebeat(&bed.b, line);
    first.wait_for("WIREBEAT_KEY=", PATIENCE).unwrap();
    // the port is taken now
    let second = wirebeat(&bed.b, line).wait(PATIENCE).unwrap();
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    assert!(second.stdout.contains("cannot listen for senders"), "{second:?}");
    assert!(!second.stderr.contains("WIREBEAT_KEY"), "{}", second.stderr);
    first.interrupt();
    assert_eq!(first.wait(PATIENCE).unwrap().status.code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_written_does_not_cost_the_report() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    // its first line is written at once, and there is no room for that
    let line = "receive --interface wb1 --engine packet --time 10s --log mgen --log-file /dev/full";
    let ended = wirebeat(&bed.b, line).wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(5), "{ended:?}");
    assert!(ended.stderr.contains("'/dev/full' cannot be written"), "{}", ended.stderr);
    // that of CRUDE has none before the first packet
    let line = "receive --interface wb1 --engine packet --time 20s --count 50 --port 5000 --log crude \
                --log-file /dev/full";
    let receiver = wirebeat(&bed.b, line);
    receiver.wait_for("receiving on wb1", PATIENCE).unwrap();
    let line = format!("send --to {}:5000 --interface wb0 --rate 1kpps --count 50", bed.b.ipv4);
    let sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let ended = receiver.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(5), "{ended:?}");
    let said = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the packet log ended after 0 frames"), "{said}");
    // none of them is in the file, and it says so
    assert!(said.contains("50 frames lost for it"), "{said}");
}

/// The lines, and the report behind them.
#[test]
fn a_log_goes_to_standard_output_by_every_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in ["kernel", "packet", "xdp", "socket"] {
        let bed = cable();
        let line =
            format!("receive --interface wb1 --engine {engine} --time 30s --port 5000 --log mgen");
        let receiver = wirebeat(&bed.b, &line);
        receiver.wait_for("receiving on wb1", PATIENCE).unwrap();
        let line = format!(
            "send --to {}:5000 --interface wb0 --engine packet --rate 1kpps --count 50",
            bed.b.ipv4
        );
        let sent = wirebeat(&bed.a, &line).wait(PATIENCE).unwrap();
        assert_eq!(sent.status.code(), Some(0), "{sent:?}");
        // while it goes on: who reads a pipe waits for lines
        receiver.wait_for("RECV proto>UDP flow>0 seq>49 ", PATIENCE).unwrap();
        receiver.interrupt();
        let ended = receiver.wait(PATIENCE).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{engine}: {ended:?}");
        let lines: Vec<&str> =
            ended.stdout.lines().filter(|line| line.contains(" RECV ")).collect();
        assert_eq!(lines.len(), 50, "{engine}: {}", ended.stdout);
        for (number, line) in lines.iter().enumerate() {
            assert!(line.contains(&format!(" flow>0 seq>{number} ")), "{engine}: {line}");
        }
        assert!(ended.stdout.contains("packet log: 50 frames"), "{engine}: {}", ended.stdout);
    }
}
