//! Command lines of `load`, and the scenarios that they mean.

use clap::Parser;
use wirebeat_traffic::scenario::session::ProgramSpec;

use super::*;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The scenario of a command line without quotes.
pub(crate) fn scenario(line: &str) -> Result<Scenario, Failure> {
    of(&line.split_whitespace().collect::<Vec<_>>())
}

fn of(words: &[&str]) -> Result<Scenario, Failure> {
    let line = Line::try_parse_from(words).map_err(|error| crate::usage::explain(&error))?;
    super::scenario::scenario(&line.args)
}

fn refused(line: &str) -> String {
    scenario(line).map(|meant| meant.to_yaml()).unwrap_err().sentence()
}

#[test]
fn streams_run_at_once_and_no_other_follows() {
    let meant = scenario("10.0.2.9:5201 --program bulk --streams 4 --reverse").unwrap();
    let group = &meant.sessions["bulk"];
    assert_eq!((group.users.map(u32::from), group.count.map(u64::from)), (Some(4), Some(4)));
    // as much as goes through has no end of its own
    assert_eq!(meant.run.time, Some(Nanos::from_secs(10)));
    let one = scenario("10.0.2.9:5201 --program bulk --bytes 1GB").unwrap();
    assert_eq!((one.sessions["bulk"].users.map(u32::from), one.run.time), (Some(1), None));
}

#[test]
fn a_name_is_the_host_of_requests() {
    let meant = scenario("http://localhost:8080/a?b --count 1").unwrap();
    let group = &meant.sessions["http"];
    let ProgramSpec::Http(http) = &group.program else { panic!("{group:?}") };
    assert_eq!((http.target.as_str(), http.host.as_deref()), ("/a?b", Some("localhost:8080")));
    assert!(group.servers.addresses.get(0).unwrap().is_loopback());
    let headers =
        ["http://10.0.2.9/", "--count", "1", "--header", "Host: x", "--header", "Accept: */*"];
    let meant = of(&headers).unwrap();
    let ProgramSpec::Http(http) = &meant.sessions["http"].program else { panic!() };
    assert_eq!((http.host.as_deref(), http.headers["Accept"].as_str()), (Some("x"), "*/*"));
}

#[test]
fn keys_of_tcp_without_a_flag_are_in_the_scenario() {
    let meant =
        scenario("http://10.0.2.9/ --count 1 --nagle --tcp rto.min=100ms --tcp syn-retries=2");
    let tcp = meant.unwrap().sessions["http"].tcp.clone();
    assert_eq!((tcp.nagle, tcp.syn_retries), (true, Some(2)));
    assert_eq!(tcp.rto.min, Some(Nanos::from_millis(100)));
    for (flags, says) in [
        ("--tcp windows=3", "--tcp"),
        ("--mss 900 --tcp mss=900", "--tcp: mss and --mss say the same"),
        ("--tcp syn-retries=2 --tcp syn-retries=3", "--tcp: syn-retries is written twice"),
        ("--tcp rto.min=20m", "--tcp rto.min: "),
        ("--tcp rto.min=1s", "--tcp rto.min: the system's least timeout"),
        ("--tcp initial-window=4", "--tcp initial-window: "),
    ] {
        let said = refused(&format!("http://10.0.2.9/ --count 1 {flags}"));
        assert!(said.contains(says), "{flags}: {said}");
    }
}

#[test]
fn what_is_missing_is_said_with_an_example() {
    for (line, says) in [
        (
            "http://10.0.2.9/",
            "nothing says how many sessions start; give --rate, --users or --count",
        ),
        ("10.0.2.9:5201 --rate 5/s", "give --program, for example --program bulk"),
        ("http://10.0.2.9/ --program echo --users 3", "a URL is for the program 'http'"),
        (
            "10.0.2.9:7 --program echo --users 1 --pipeline 3",
            "--pipeline: the program 'echo' has no such flag",
        ),
        (
            "http://10.0.2.9/ --users 3 --streams 3",
            "--streams: the program 'http' has no such flag",
        ),
        ("10.0.2.9:7 --program bulk --users 1 --streams 3", "--streams: streams run all at once"),
        ("http://10.0.2.9/ --rate 10%", "--rate: '10%' does not say how many sessions start"),
        ("http://10.0.2.9/ --rate 1/s --users 3", "leave --users or --rate out"),
        ("http://10.0.2.9/ --rate 1/s --think 3s", "--think: only users think; add --users"),
        ("http://10.0.2.9/ --users 1 --mss 20", "--mss: an MSS has 88 bytes at least"),
        (
            "http://10.0.2.9/ --users 1 --pipeline 2 --request-think 1s",
            "--request-think: pipelined",
        ),
        ("http://10.0.2.9/ --users 1 --header Cookie", "'Cookie' is not a header"),
        (
            "http://10.0.2.9/ --users 1 --header Content-Length:5",
            "--header: 'Content-Length' follows",
        ),
        ("http://10.0.2.9/ --users 1 --expect page.p99<1s", "--expect: nothing measures 'page'"),
        ("http://10.0.2.9/ --users 1 --beyond queue", "--limit"),
    ] {
        let said = refused(line);
        assert!(said.contains(says), "{line}: {said}");
    }
}

#[test]
fn a_url_of_dns_is_a_query_over_udp() {
    let meant = scenario("dns://10.0.2.9/host-{n}.example.com --rate 10/s --type TXT").unwrap();
    let group = &meant.sessions["dns"];
    let ProgramSpec::Dns(dns) = &group.program else { panic!("{group:?}") };
    assert_eq!((dns.name.as_str(), dns.kind.0.name()), ("host-{n}.example.com", "TXT"));
    assert_eq!(group.servers.ports.as_ref().unwrap().to_string(), "53");
    assert_eq!((group.transport, dns.recursion_desired), (Transport::Udp, true));
    let over_tcp = scenario("dns://[2001:db8::9]:5353 --transport tcp --users 1").unwrap();
    let group = &over_tcp.sessions["dns"];
    let ProgramSpec::Dns(dns) = &group.program else { panic!("{group:?}") };
    assert_eq!((group.transport, dns.name.as_str()), (Transport::Tcp, "example.com"));
    for (line, says) in [
        ("dns://10.0.2.9/x --program echo --users 1", "this URL is for the program 'dns'"),
        ("dns://10.0.2.9/x?TYPE=A --users 1", "give the type of records by --type"),
        ("dns://10.0.2.9/a..b --users 1", "the name in the URL: a label of 'a..b' is empty"),
        ("http://10.0.2.9/ --transport udp --users 1", "HTTP/1.1 needs a stream"),
        (
            "10.0.2.9:7 --program echo --users 1 --on-timeout next",
            "--on-timeout: over TCP nothing is lost",
        ),
        (
            "10.0.2.9:7 --program echo --users 1 --type A",
            "--type: the program 'echo' has no such flag",
        ),
    ] {
        let said = refused(line);
        assert!(said.contains(says), "{line}: {said}");
    }
}
