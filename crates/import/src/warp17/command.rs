//! The commands of WARP17, one line of the table for each form. The forms are those of its command line (src/tpg_test_mgmt_cli.c and
//! src/appl/ of Juniper/warp17).

use std::net::Ipv4Addr;

use wirebeat_traffic::scenario::session::program::Method;
use wirebeat_traffic::scenario::session::{AddressRange, Transport};
use wirebeat_traffic::values::session::PortRange;
use wirebeat_units::{Fault, fault};

use super::words::{Words, list};
use crate::text::printable;

/// The most Ethernet ports and test cases of a port (TPG_ETH_DEV_MAX, TPG_TEST_MAX_ENTRIES).
const PORTS: u32 = 64;
const CASES: u32 = 16;

/// A test case: the number of its port, and its own there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CaseId {
    pub port: u32,
    pub case: u32,
}

/// What an end of a test case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
    /// Sends datagrams to groups.
    MulticastSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    Init,
    Uptime,
    Downtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateOf {
    Open,
    Close,
    Send,
}

/// When a test case has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Criterion {
    RunTime,
    ServersUp,
    ClientsUp,
    ClientsEstablished,
    Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TcpOption {
    WinSize,
    SynRetry,
    SynAckRetry,
    DataRetry,
    Retry,
    Rto,
    FinTimeout,
    TimeWait,
    OrphanTimeout,
    SkipTimeWait,
    AckDelay,
}

/// What an application is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AppSetting {
    Raw { request: u32, response: u32, stamps: bool },
    Request { method: Method, host: String, object: String, body: u32 },
    Response { status: u16, size: u32 },
    Field(String),
}

/// What a test case is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Setting {
    Timeout(Timeout, Option<u32>),
    Rate(RateOf, Option<u32>),
    Criterion(Criterion, u32),
    Async(bool),
    Tcp(TcpOption, u32),
    Tos(u8),
    Stamps(bool),
    Vlan {
        id: u16,
        priority: u32,
    },
    /// The most that a packet may take in microseconds, and the most of the mean; 0: none.
    Latency {
        max: u32,
        average: u32,
    },
    Imix(u32),
    App(End, AppSetting),
}

/// The pools of a test case: its own addresses and ports, and of clients those that they go to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pools {
    pub own: (AddressRange, PortRange),
    pub peers: Option<(AddressRange, PortRange)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Interface {
        port: u32,
        address: Ipv4Addr,
        vlan: Option<(u16, Ipv4Addr)>,
    },
    Gateway {
        port: u32,
        gateway: Ipv4Addr,
    },
    Mtu {
        port: u32,
        mtu: u32,
    },
    Add {
        id: CaseId,
        end: End,
        transport: Transport,
        pools: Pools,
    },
    Delete(CaseId),
    Start(u32),
    Stop(u32),
    Set(CaseId, Setting),
    SetApp {
        index: u32,
        end: End,
        app: AppSetting,
    },
    Weight {
        index: u32,
        weight: u32,
    },
    AddImix {
        imix: u32,
        apps: Vec<u32>,
    },
    DeleteImix(u32),
    /// Says nothing of traffic.
    Nothing,
}

struct Form {
    begins: &'static [&'static str],
    example: &'static str,
    read: fn(&mut Words<'_>) -> Result<Command, Fault>,
}

const TRANSPORTS: &[(&str, Transport)] = &[("tcp", Transport::Tcp), ("udp", Transport::Udp)];
const TIMEOUTS: &[(&str, Timeout)] =
    &[("init", Timeout::Init), ("uptime", Timeout::Uptime), ("downtime", Timeout::Downtime)];
const RATES: &[(&str, RateOf)] =
    &[("open", RateOf::Open), ("close", RateOf::Close), ("send", RateOf::Send)];
const CRITERIA: &[(&str, Criterion)] = &[
    ("run-time", Criterion::RunTime),
    ("servers-up", Criterion::ServersUp),
    ("clients-up", Criterion::ClientsUp),
    ("clients-estab", Criterion::ClientsEstablished),
    ("data-MB", Criterion::Data),
];
/// With the most that WARP17 takes (inc/tpg_tcp.h).
const TCP_OPTIONS: &[(&str, (TcpOption, u32))] = &[
    ("win-size", (TcpOption::WinSize, 65_535)),
    ("syn-retry", (TcpOption::SynRetry, 128)),
    ("syn-ack-retry", (TcpOption::SynAckRetry, 128)),
    ("data-retry", (TcpOption::DataRetry, 128)),
    ("retry", (TcpOption::Retry, 128)),
    ("rto", (TcpOption::Rto, 10_000)),
    ("fin-to", (TcpOption::FinTimeout, 1000)),
    ("twait-to", (TcpOption::TimeWait, 10_000)),
    ("orphan-to", (TcpOption::OrphanTimeout, 2000)),
    ("twait-skip", (TcpOption::SkipTimeWait, 1)),
    ("ack-delay", (TcpOption::AckDelay, 1)),
];
const METHODS: &[(&str, Method)] = &[("GET", Method::Get), ("HEAD", Method::Head)];
const STATUSES: &[(&str, u16)] = &[("200-OK", 200), ("404-NOT-FOUND", 404)];
/// RFC 3168 §5.
const ECN: &[(&str, u8)] = &[("Non-ECT", 0), ("ECT1", 1), ("ECT0", 2), ("CE", 3)];

const FORMS: &[Form] = &[
    Form {
        begins: &["add", "tests", "l3_intf"],
        example: "add tests l3_intf port 0 ip 10.0.0.1 mask 255.255.255.0 [vlan-id 7 gw 10.0.0.254]",
        read: |words| {
            let port = port(words)?;
            words.keyword("ip")?;
            let address = words.address("the address")?;
            words.keyword("mask")?;
            words.address("the mask")?;
            let vlan = match words.has("vlan-id") {
                false => None,
                true => {
                    let id = words.number("a VLAN", 4094)? as u16;
                    words.keyword("gw")?;
                    Some((id, words.address("the gateway")?))
                }
            };
            Ok(Command::Interface { port, address, vlan })
        },
    },
    Form {
        begins: &["add", "tests", "l3_gw"],
        example: "add tests l3_gw port 0 gw 10.0.0.254",
        read: |words| {
            let port = port(words)?;
            words.keyword("gw")?;
            Ok(Command::Gateway { port, gateway: words.address("the gateway")? })
        },
    },
    Form {
        begins: &["add", "tests", "client"],
        example: "add tests client tcp port 0 test-case-id 0 src 10.0.0.1 10.0.0.9 sport 10000 20000 dest 10.0.0.253 10.0.0.253 \
                  dport 80 80",
        read: |words| add(words, End::Client),
    },
    Form {
        begins: &["add", "tests", "server"],
        example: "add tests server tcp port 1 test-case-id 0 src 10.0.0.253 10.0.0.253 sport 80 80",
        read: |words| add(words, End::Server),
    },
    Form {
        begins: &["add", "tests", "multicast-src"],
        example: "add tests multicast-src udp port 0 test-case-id 0 src 10.0.0.1 10.0.0.1 sport 10000 10000 dest 233.252.0.1 \
                  233.252.0.9 dport 10000 10000",
        read: |words| add(words, End::MulticastSource),
    },
    Form {
        begins: &["add", "tests", "imix-id"],
        example: "add tests imix-id 0 app 12,13",
        read: |words| {
            let imix = words.number("an IMIX group", u32::MAX)?;
            words.keyword("app")?;
            Ok(Command::AddImix { imix, apps: list(words.word("the list of apps")?)? })
        },
    },
    Form {
        begins: &["del", "tests", "imix-id"],
        example: "del tests imix-id 0",
        read: |words| Ok(Command::DeleteImix(words.number("an IMIX group", u32::MAX)?)),
    },
    Form {
        begins: &["del", "tests"],
        example: "del tests port 0 test-case-id 0",
        read: |words| Ok(Command::Delete(case(words)?)),
    },
    Form {
        begins: &["start", "tests"],
        example: "start tests port 0",
        read: |words| Ok(Command::Start(port(words)?)),
    },
    Form {
        begins: &["stop", "tests"],
        example: "stop tests port 0",
        read: |words| Ok(Command::Stop(port(words)?)),
    },
    Form {
        begins: &["set", "tests", "mtu"],
        example: "set tests mtu port 0 1500",
        read: |words| {
            let port = port(words)?;
            Ok(Command::Mtu { port, mtu: words.number("an MTU", u16::MAX.into())? })
        },
    },
    Form {
        begins: &["set", "tests", "timeouts"],
        example: "set tests timeouts port 0 test-case-id 0 uptime 30",
        read: |words| {
            let id = case(words)?;
            let timeout = words.one_of(TIMEOUTS)?;
            Ok(Command::Set(id, Setting::Timeout(timeout, words.amount("a number of seconds")?)))
        },
    },
    Form {
        begins: &["set", "tests", "rate"],
        example: "set tests rate port 0 test-case-id 0 open 1000",
        read: |words| {
            let id = case(words)?;
            let rate = words.one_of(RATES)?;
            Ok(Command::Set(id, Setting::Rate(rate, words.amount("a rate")?)))
        },
    },
    Form {
        begins: &["set", "tests", "criteria"],
        example: "set tests criteria port 0 test-case-id 0 run-time 120",
        read: |words| {
            let id = case(words)?;
            let criterion = words.one_of(CRITERIA)?;
            Ok(Command::Set(id, Setting::Criterion(criterion, words.number("a count", u32::MAX)?)))
        },
    },
    Form {
        begins: &["set", "tests", "async"],
        example: "set tests async port 0 test-case-id 0",
        read: |words| Ok(Command::Set(case(words)?, Setting::Async(true))),
    },
    Form {
        begins: &["set", "tests", "no-async"],
        example: "set tests no-async port 0 test-case-id 0",
        read: |words| Ok(Command::Set(case(words)?, Setting::Async(false))),
    },
    // as the help calls it
    Form {
        begins: &["set", "tests", "noasync"],
        example: "set tests no-async port 0 test-case-id 0",
        read: |words| Ok(Command::Set(case(words)?, Setting::Async(false))),
    },
    Form {
        begins: &["set", "tests", "tcp-options"],
        example: "set tests tcp-options port 0 test-case-id 0 win-size 65535",
        read: |words| {
            let id = case(words)?;
            let (option, most) = words.one_of(TCP_OPTIONS)?;
            Ok(Command::Set(id, Setting::Tcp(option, words.number("a value", most)?)))
        },
    },
    Form {
        begins: &["set", "tests", "ipv4-options"],
        example: "set tests ipv4-options port 0 test-case-id 0 dscp ef ecn Non-ECT",
        read: |words| {
            let id = case(words)?;
            Ok(Command::Set(id, ipv4(words)?))
        },
    },
    Form {
        begins: &["set", "tests", "vlan-options"],
        example: "set tests vlan-options port 0 test-case-id 0 vlan-id 7 vlan-pri 0",
        read: |words| {
            let id = case(words)?;
            words.keyword("vlan-id")?;
            let vlan = words.number("a VLAN", 4094)? as u16;
            words.keyword("vlan-pri")?;
            let priority = words.number("a priority", 7)?;
            Ok(Command::Set(id, Setting::Vlan { id: vlan, priority }))
        },
    },
    Form {
        begins: &["set", "tests", "latency"],
        example: "set tests latency port 0 test-case-id 0 max 80 max-avg 40 samples 1000",
        read: |words| {
            let id = case(words)?;
            words.keyword("max")?;
            let max = words.number("a value", u32::MAX)?;
            words.keyword("max-avg")?;
            let average = words.number("a value", u32::MAX)?;
            words.keyword("samples")?;
            words.number("a value", u32::MAX)?;
            Ok(Command::Set(id, Setting::Latency { max, average }))
        },
    },
    Form {
        begins: &["set", "tests", "imix", "app-index"],
        example: "set tests imix app-index 0 weight 10",
        read: imix_app,
    },
    Form {
        begins: &["set", "tests", "imix"],
        example: "set tests imix port 0 test-case-id 0 imix-id 0",
        read: |words| {
            let id = case(words)?;
            words.keyword("imix-id")?;
            Ok(Command::Set(id, Setting::Imix(words.number("an IMIX group", u32::MAX)?)))
        },
    },
    Form {
        begins: &["set", "tests", "client"],
        example: "set tests client raw port 0 test-case-id 0 data-req-plen 100 data-resp-plen 200",
        read: |words| set_app(words, End::Client),
    },
    Form {
        begins: &["set", "tests", "server"],
        example: "set tests server http port 1 test-case-id 0 200-OK resp-size 2000",
        read: |words| set_app(words, End::Server),
    },
    Form {
        begins: &["set", "tests", "multicast-src"],
        example: "set tests multicast-src raw port 0 test-case-id 0 data-req-plen 100 data-resp-plen 0",
        read: |words| set_app(words, End::MulticastSource),
    },
];

/// The first words of commands that look at something, or say how much WARP17 tells.
const OTHERS: &[&[&str]] = &[
    &["show"],
    &["clear"],
    &["set", "syslog"],
    &["set", "trace"],
    &["trace"],
    &["exit"],
    &["quit"],
];

/// Whether a line begins as a command of WARP17 does.
pub(super) fn is_command(line: &str) -> bool {
    Words::of(line).is_ok_and(|mut words| FORMS.iter().any(|form| words.begin(form.begins)))
}

/// Reads a line that has a command.
pub(super) fn read(words: &mut Words<'_>) -> Result<Command, Fault> {
    if OTHERS.iter().any(|begins| words.begin(begins)) {
        return Ok(Command::Nothing);
    }
    let Some(form) = FORMS.iter().find(|form| words.begin(form.begins)) else {
        let text = words.text(0);
        return Err(fault!(
            "WARP17 has no command '{}'", printable(&text);
            "write one that it has, or make it a comment with '#'"
        ));
    };
    let command = (form.read)(words).and_then(|command| words.end().map(|()| command));
    command.map_err(|fault| {
        let hint =
            fault.hint.clone().unwrap_or_else(|| format!("write for example '{}'", form.example));
        Fault { hint: Some(hint), ..fault }
    })
}

fn port(words: &mut Words<'_>) -> Result<u32, Fault> {
    words.keyword("port")?;
    words.number("a port", PORTS - 1)
}

fn case(words: &mut Words<'_>) -> Result<CaseId, Fault> {
    let port = port(words)?;
    words.keyword("test-case-id")?;
    Ok(CaseId { port, case: words.number("a test case", CASES - 1)? })
}

fn add(words: &mut Words<'_>, end: End) -> Result<Command, Fault> {
    let transport = words.one_of(TRANSPORTS)?;
    if end == End::MulticastSource && transport == Transport::Tcp {
        return Err(fault!("there is no TCP to groups"; "write 'udp'"));
    }
    let id = case(words)?;
    let own = pool(words, "src", "sport")?;
    let peers = match end {
        End::Server => None,
        End::Client | End::MulticastSource => Some(pool(words, "dest", "dport")?),
    };
    let of_hosts = [Some(own.0), peers.map(|peers| peers.0).filter(|_| end == End::Client)];
    for range in of_hosts.into_iter().flatten() {
        if let Some(what) = range.of_no_host(true) {
            return Err(fault!(
                "no host has an address for {what}, and {range} is such a one or has some";
                "write addresses of hosts"
            ));
        }
    }
    if let Some((groups, _)) = peers.filter(|_| end == End::MulticastSource)
        && !(groups.first.is_multicast() && groups.last.is_multicast())
    {
        return Err(
            fault!("{groups} are not all multicast groups"; "write groups, or use 'client'"),
        );
    }
    Ok(Command::Add { id, end, transport, pools: Pools { own, peers } })
}

fn pool(
    words: &mut Words<'_>,
    addresses: &str,
    ports: &str,
) -> Result<(AddressRange, PortRange), Fault> {
    words.keyword(addresses)?;
    let range = words.addresses("an address")?;
    words.keyword(ports)?;
    Ok((range, words.ports("a port")?))
}

fn ipv4(words: &mut Words<'_>) -> Result<Setting, Fault> {
    let word = words.word("the option")?;
    match word {
        "tos" => Ok(Setting::Tos(words.number("a TOS", 255)? as u8)),
        "tx-timestamp" | "rx-timestamp" => Ok(Setting::Stamps(words.number("a flag", 1)? == 1)),
        "dscp" => {
            use wirebeat_traffic::scenario::header::dscp::Dscp;
            let dscp: Dscp = words.word("the DSCP")?.parse()?;
            words.keyword("ecn")?;
            Ok(Setting::Tos(dscp.to_tos() | words.one_of(ECN)?))
        }
        other => Err(fault!(
            "'{}' is not one of tos, dscp, tx-timestamp, rx-timestamp",
            printable(other)
        )),
    }
}

fn imix_app(words: &mut Words<'_>) -> Result<Command, Fault> {
    let index = words.number("an app", 31)?;
    if words.has("weight") {
        return Ok(Command::Weight { index, weight: words.number("a weight", 100)? });
    }
    let end = words.one_of(&[("client", End::Client), ("server", End::Server)])?;
    let is_http = words.one_of(APPS)?;
    // WARP17's own example has a method before a field
    if words.is_ahead(1, "http-field") {
        words.one_of(METHODS)?;
    }
    Ok(Command::SetApp { index, end, app: app(words, end, is_http)? })
}

/// Whether it is HTTP.
const APPS: &[(&str, bool)] = &[("raw", false), ("http", true)];

fn set_app(words: &mut Words<'_>, end: End) -> Result<Command, Fault> {
    let is_http = words.one_of(APPS)?;
    let id = case(words)?;
    Ok(Command::Set(id, Setting::App(end, app(words, end, is_http)?)))
}

fn app(words: &mut Words<'_>, end: End, is_http: bool) -> Result<AppSetting, Fault> {
    if !is_http {
        words.keyword("data-req-plen")?;
        let request = words.number("a length", u32::MAX)?;
        words.keyword("data-resp-plen")?;
        let response = words.number("a length", u32::MAX)?;
        let received = words.has("rx-timestamp");
        let sent = words.has("tx-timestamp");
        return Ok(AppSetting::Raw { request, response, stamps: received || sent });
    }
    if words.has("http-field") {
        return Ok(AppSetting::Field(words.word("the field")?.to_owned()));
    }
    if end == End::Server {
        let status = words.one_of(STATUSES)?;
        words.keyword("resp-size")?;
        return Ok(AppSetting::Response { status, size: words.number("a size", u32::MAX)? });
    }
    let method = words.one_of(METHODS)?;
    let host = words.word("the host")?.to_owned();
    let object = words.word("the object")?.to_owned();
    words.keyword("req-size")?;
    Ok(AppSetting::Request { method, host, object, body: words.number("a size", u32::MAX)? })
}
