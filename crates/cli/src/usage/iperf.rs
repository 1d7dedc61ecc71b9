//! The client's flags of iperf3 and iperf 2, as ours.
//!
//! A test with a server at the other end is one of `load` on the wire of that tool. Datagrams with what only flows have (a rate in packets,
//! bursts, a source port, or flags of `send`) are flows of `send`.

use wirebeat_units::{Fault, fault};

use super::foreign::{
    ForeignFlag, Scanned, Translation, Untranslated, any_bit_rate, positive, put, put_flag, row,
    seconds, set, whole,
};
use crate::command::NAME;

/// How its client is asked for, and its server.
pub(super) const CLIENT: [&str; 2] = ["-c", "--client"];
pub(super) const SERVER: [&str; 2] = ["-s", "--server"];
/// Its port, unless another is written.
const PORT: u64 = 5201;
/// How many streams it can have.
const STREAMS_MAX: u64 = 128;
/// Bytes of its blocks over TCP, unless others are written.
const BLOCK: u64 = 131_072;
/// Bytes of its datagrams, unless others are written, where the path carries 1500 bytes.
const LENGTH: u64 = 1460;
/// How fast it sends datagrams, unless another rate is written.
const RATE: &str = "1Mbps";
/// The first source port of several streams: the first of those that nobody has by name (RFC 6335 §6).
const FIRST_PORT: u64 = 49_152;

/// What its flags say together.
#[derive(Debug, Default)]
pub(super) struct Test {
    host: Option<String>,
    port: Option<u64>,
    udp: Option<()>,
    rate: Option<String>,
    burst: Option<u64>,
    time: Option<String>,
    bytes: Option<u64>,
    packets: Option<u64>,
    length: Option<u64>,
    streams: Option<u64>,
    /// Unless it is there.
    direction: Option<Direction>,
    /// Flags that say the same in each command of ours.
    beside: Vec<String>,
    source: Option<String>,
    device: Option<String>,
    cpu: Option<String>,
    omit: Option<String>,
    source_port: Option<u64>,
    /// It is the server.
    server: Option<()>,
    /// What is to be known of flags that only it has.
    of_server: Vec<&'static str>,
    ipv6: Option<()>,
    /// Flags of TCP alone.
    of_tcp: Vec<String>,
    tos: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Back,
    Both,
    InTurn,
}

/// Flags that say the same to every command.
pub(super) const ANYWHERE: &[ForeignFlag<Vec<String>>] = &[
    row(&["-t"], true, |said, time| put(said, "--time", &bounded(time)?)),
    row(&["-i"], true, interval),
    row(&["-J"], false, |said, _| put_flag(said, "--json")),
    row(&["--json-stream"], false, |said, _| put_flag(said, "--json-lines")),
];

/// Flags of iperf, wrk, ab and other clients behind `load`, beside [`ANYWHERE`].
pub(super) const OF_LOAD: &[ForeignFlag<Vec<String>>] = &[
    // wrk's has a unit, and its -t is how many threads it has, beside -d
    row(&["-d", "--duration", "-z"], true, |said, time| {
        if let Some(at) = said.iter().position(|word| word == "--time") {
            said.drain(at..said.len().min(at + 2));
        }
        put(said, "--time", &seconds(time).unwrap_or_else(|| time.to_owned()))
    }),
    row(&["-t"], true, |said, time| match said.iter().any(|word| word == "--time") {
        true => Ok(()),
        false => put(said, "--time", &seconds(time).unwrap_or_else(|| time.to_owned())),
    }),
    row(&["-b", "--bitrate", "--bandwidth"], true, |said, rate| put(said, "--rate", &bits(rate)?)),
    row(&["-P", "--parallel"], true, |said, count| {
        put(said, "--streams", &whole(count)?.to_string())
    }),
    row(&["-R"], false, |said, _| put_flag(said, "--reverse")),
    row(&["--bidir"], false, |said, _| put_flag(said, "--both-ways")),
    row(&["-l", "--len", "--length"], true, |said, bytes| {
        put(said, "--size", &format!("{}B", size(bytes)?))
    }),
    row(&["-c", "--connections"], true, |said, count| {
        put(said, "--users", &whole(count)?.to_string())
    }),
];

/// Flags of servers behind `serve`: those of other tools listen where everybody reaches them.
pub(super) const OF_SERVE: &[ForeignFlag<Vec<String>>] =
    &[row(&["-p", "--port"], true, |said, port| {
        put(said, "--listen", &format!("0.0.0.0:{}", whole(port)?))
    })];

/// And behind `receive`.
pub(super) const OF_RECEIVE: &[ForeignFlag<Vec<String>>] =
    &[row(&["-p"], true, |said, port| put(said, "--port", &whole(port)?.to_string()))];

/// Its flags. Those without an effect on what is sent or measured are left out.
pub(super) const FLAGS: &[ForeignFlag<Test>] = &[
    row(&CLIENT, true, |test, host| set(&mut test.host, host.to_owned())),
    row(&["-p", "--port"], true, |test, port| set(&mut test.port, whole(port)?)),
    row(&["-u", "--udp"], false, |test, _| set(&mut test.udp, ())),
    row(&["-b", "--bitrate", "--bandwidth"], true, |test, rate| test.set_rate(rate)),
    row(&["-t"], true, |test, time| set(&mut test.time, bounded(time)?)),
    row(&["-n", "--bytes", "--num"], true, |test, bytes| set(&mut test.bytes, size(bytes)?)),
    row(&["-k", "--blockcount"], true, |test, count| set(&mut test.packets, size(count)?)),
    row(&["-l", "--length", "--len"], true, |test, length| set(&mut test.length, size(length)?)),
    row(&["-P", "--parallel"], true, |test, count| {
        let count = whole(count)?;
        match count <= STREAMS_MAX {
            true => set(&mut test.streams, count),
            false => Err(fault!("iperf3 has at most {STREAMS_MAX} streams"; "ask for fewer")),
        }
    }),
    row(&["-R", "--reverse"], false, |test, _| set(&mut test.direction, Direction::Back)),
    row(&["-d", "--bidir", "--dualtest"], false, |test, _| {
        set(&mut test.direction, Direction::Both)
    }),
    row(&["-r", "--tradeoff"], false, |test, _| set(&mut test.direction, Direction::InTurn)),
    row(&["-J"], false, |test, _| put_flag(&mut test.beside, "--json")),
    row(&["--json-stream"], false, |test, _| put_flag(&mut test.beside, "--json-lines")),
    row(&["-V", "--verbose"], false, |test, _| put_flag(&mut test.beside, "--details")),
    row(&["-i"], true, |test, time| match time {
        "0" => Ok(()),
        time => interval(&mut test.beside, time),
    }),
    row(&["-B", "--bind"], true, |test, address| {
        let (address, device) =
            address.split_once('%').map_or((address, None), |(a, d)| (a, Some(d)));
        set(&mut test.source, address.to_owned())?;
        device.map_or(Ok(()), |device| set(&mut test.device, device.to_owned()))
    }),
    row(&["--bind-dev"], true, |test, device| set(&mut test.device, device.to_owned())),
    row(&["--cport"], true, |test, port| set(&mut test.source_port, whole(port)?)),
    row(&["-S"], true, |test, tos| set(&mut test.tos, byte(tos)?)),
    row(&["-A", "--affinity"], true, |test, cpus| {
        let own = cpus.split(',').next().unwrap_or_default();
        set(&mut test.cpu, own.to_owned())
    }),
    row(&["-M", "--set-mss"], true, |test, bytes| {
        put(&mut test.of_tcp, "--mss", &whole(bytes)?.to_string())
    }),
    row(&["-C", "--linux-congestion"], true, |test, name| {
        put(&mut test.of_tcp, "--congestion", name)
    }),
    row(&["--fq-rate"], true, |test, rate| put(&mut test.of_tcp, "--pacing", &bits(rate)?)),
    // small segments never wait in 'load', addresses have a family, and the report has units of its own
    row(&["-N", "--no-delay"], false, |_, _| Ok(())),
    row(&["-4", "--version4"], false, |_, _| Ok(())),
    row(&["-6", "--version6"], false, |test, _| set(&mut test.ipv6, ())),
    row(&["-f", "--format"], true, |_, _| Ok(())),
    row(&["-T", "--title"], true, |_, _| Ok(())),
    row(&["-Z", "--zerocopy"], false, |_, _| Ok(())),
    row(&["-e", "--enhanced"], false, |_, _| Ok(())),
    row(&["--get-server-output", "--forceflush", "--udp-counters-64bit"], false, |_, _| Ok(())),
    row(&["--repeating-payload"], false, |_, _| Ok(())),
    row(&["-1", "--one-off"], false, |test, _| {
        test.of_server.push("-1 has no flag, it serves until it is told to stop or --time is over");
        Ok(())
    }),
    row(&["-D", "--daemon"], false, |test, _| {
        test.of_server.push("for -D write '&' behind the line");
        Ok(())
    }),
    row(&["--connect-timeout", "--pacing-timer", "--rcv-timeout"], true, |_, _| Ok(())),
    row(&["--dont-fragment"], false, |_, _| Ok(())),
    row(&SERVER, false, |test, _| set(&mut test.server, ())),
    row(&["-w", "--window"], true, |_, _| {
        Err(fault!(
            "buffers of sockets have no flag";
            "leave it out, or write 'tcp: {{ send-buffer: 1MB }}' of sessions in a scenario"
        ))
    }),
    row(&["-O", "--omit"], true, |test, time| match time {
        "0" => Ok(()),
        time => set(&mut test.omit, bounded(time)?),
    }),
    row(&["--logfile"], true, |_, _| {
        Err(
            fault!("the report goes to standard output"; "leave it out, and write '> FILE' behind the line"),
        )
    }),
    row(&["-F", "--file"], true, |_, _| {
        Err(
            fault!("datagrams of 'send' have no content from a file"; "leave it out, or use --payload"),
        )
    }),
];

impl Test {
    /// `100M`, `100M/32` with a burst, or in iperf 2 `1000pps`.
    fn set_rate(&mut self, text: &str) -> Result<(), Fault> {
        let (rate, burst) = text.split_once('/').map_or((text, None), |(r, b)| (r, Some(b)));
        self.burst = burst.map(whole).transpose()?;
        let packets = rate.strip_suffix("pps").and_then(positive).map(|_| rate.to_owned());
        self.rate = Some(packets.map_or_else(|| bits(rate), Ok)?);
        Ok(())
    }

    /// With its host, which may stand alone; `None` where there are other words.
    fn of_host(mut self, mut names: Vec<String>) -> Result<Option<Test>, Untranslated> {
        if self.server.is_some() {
            let port = self.port.unwrap_or(PORT);
            let listen = with_port(self.source.as_deref().unwrap_or("0.0.0.0"), port);
            let beside: String = self.beside.iter().map(|word| format!(" {word}")).collect();
            let known: String = self.of_server.iter().map(|known| format!("; {known}")).collect();
            let why = fault!(
                "this is the end that receives";
                "the same is: {NAME} serve --iperf3 --listen {listen}{beside}; or, for datagrams of 'send': {NAME} receive --port {port}{known}"
            );
            return Err(("-s".to_owned(), why));
        }
        if self.host.is_none() && names.len() == 1 {
            self.host = names.pop();
        }
        let is_v4 = |host: &String| host.parse::<std::net::Ipv6Addr>().is_err();
        if self.ipv6.is_some() && self.host.as_ref().is_some_and(is_v4) {
            let why = fault!("addresses have their version, and names the first that they stand for"; "write the IPv6 address of the host");
            return Err(("-6".to_owned(), why));
        }
        Ok(names.is_empty().then_some(self))
    }

    fn streams(&self) -> u64 {
        self.streams.unwrap_or(1)
    }
}

/// Its line as one of ours.
pub(super) fn line(scanned: Scanned<Test>) -> Result<Option<Translation>, Untranslated> {
    let Scanned { said: test, ours, names, .. } = scanned;
    let Some(test) = test.of_host(names)? else { return Ok(None) };
    // flags that say how, and nothing that says where to
    if test.host.is_none() && ours.is_empty() && test.direction.is_none() {
        return Ok(None);
    }
    let of_send = ours.iter().any(|word| {
        let flag = word.split('=').next().unwrap_or_default();
        flag.starts_with("--") && !OF_BOTH.contains(&flag)
    });
    let in_packets = test.rate.as_ref().is_some_and(|rate| rate.ends_with("pps"));
    let is_flow = of_send && test.of_tcp.is_empty()
        || test.host.is_none()
        || test.udp.is_some()
            && (in_packets
                || [test.burst, test.source_port].iter().any(Option::is_some)
                || test.cpu.is_some());
    match test.direction {
        Some(_) if test.host.is_none() && test.server.is_none() => {
            let why = fault!(
                "the sender of a flow is this end";
                "write '{NAME} receive' here and '{NAME} send' there; of a server of iperf3: {NAME} load --iperf3 HOST --udp --reverse"
            );
            Err(("-R".to_owned(), why))
        }
        None if is_flow => Ok(Some(flows(&test, ours))),
        _ => of_server(&test, ours).map(Some),
    }
}

/// The same behind `load`.
pub(super) fn line_of_load(scanned: Scanned<Test>) -> Result<Option<Translation>, Untranslated> {
    let Scanned { said: test, ours, names, .. } = scanned;
    let Some(test) = test.of_host(names)? else { return Ok(None) };
    of_server(&test, ours).map(Some)
}

/// Flags of ours that `send` and `load` have, and that say nothing of what is sent.
const OF_BOTH: [&str; 21] = [
    "--json",
    "--json-lines",
    "--html",
    "--csv",
    "--markdown",
    "--junit",
    "--pictures",
    "--png",
    "--details",
    "--histograms",
    "--interval",
    "--time",
    "--dscp",
    "--expect",
    "--abort-on-fail",
    "--repeat",
    "--warmup",
    "--metrics",
    "--otlp",
    "--otlp-ca",
    "--tui",
];

/// Datagrams to the other end, of `send`.
fn flows(test: &Test, ours: Vec<String>) -> Translation {
    let mut line = vec![NAME.to_owned(), "send".to_owned()];
    let mut add = |flag: &str, value: String| line.extend([flag.to_owned(), value]);
    let has = |flag: &str| ours.iter().any(|own| own.split('=').next() == Some(flag));
    if let Some(host) = &test.host {
        add("--to", with_port(host, test.port.unwrap_or(PORT)));
    }
    let length = test.length.unwrap_or(LENGTH);
    // what iperf3 does where nothing is said is meant by those who call it so
    let is_test = test.host.is_some() || test.udp.is_some();
    let usual = Some(RATE).filter(|_| (is_test || has("--to")) && !has("--rate"));
    if let Some(rate) = test.rate.as_deref().or(usual) {
        let of_payload = rate.ends_with("bps");
        add("--rate", format!("{rate}{}", if of_payload { "@payload" } else { "" }));
    }
    if test.length.is_some() || is_test && !has("--size") {
        add("--size", format!("{length}B@payload"));
    }
    let bytes = test.bytes.map(|bytes| bytes.div_ceil(length));
    match test.packets.or(bytes) {
        Some(packets) => add("--count", packets.div_ceil(test.streams()).to_string()),
        None => test.time.iter().for_each(|time| add("--time", time.clone())),
    }
    test.burst.iter().for_each(|burst| add("--burst", burst.to_string()));
    test.tos.iter().for_each(|tos| add("--tos", tos.to_string()));
    match test.streams() {
        1 => test.source_port.iter().for_each(|port| add("--source-port", port.to_string())),
        streams => {
            let first = test.source_port.unwrap_or(FIRST_PORT);
            for number in 0..streams {
                let port = first.saturating_add(number);
                add("--flow", format!("name=stream-{},source-port={port}", number + 1));
            }
        }
    }
    let own = [
        ("--warmup", &test.omit),
        ("--source", &test.source),
        ("--interface", &test.device),
        ("--cpu", &test.cpu),
    ];
    for (flag, value) in own {
        value.iter().for_each(|value| line.extend([flag.to_owned(), value.clone()]));
    }
    line.extend(test.beside.iter().cloned());
    line.extend(test.port.map_or(ours.clone(), |port| to_port(ours, port)));
    let port = test.port.map_or("PORT".to_owned(), |port| port.to_string());
    let note = format!(
        "with '{NAME} receive --port {port}' there, which measures what arrives, the same is"
    );
    Translation { line, note }
}

/// A test with a server of the tool, of `load`.
fn of_server(test: &Test, ours: Vec<String>) -> Result<Translation, Untranslated> {
    let tool = if test.direction == Some(Direction::InTurn) { "iperf2" } else { "iperf3" };
    let none = [
        (
            "-O",
            test.omit.is_some() && tool == "iperf2",
            fault!("a test of iperf 2 is measured from its beginning"; "leave it out"),
        ),
        (
            "-b",
            test.burst.is_some(),
            fault!("bursts are of flows of datagrams alone"; "leave out what stands behind '/'"),
        ),
        (
            "-A",
            test.cpu.is_some(),
            fault!("the system chooses the core of such a test"; "write 'taskset -c N' before the line"),
        ),
        (
            "--cport",
            test.source_port.is_some(),
            fault!("the system chooses the port of the client"; "leave it out"),
        ),
        (
            "-B",
            test.source.is_some() || test.device.is_some(),
            fault!("the system chooses the address of the client, by the route to the server"; "leave it out"),
        ),
    ];
    if let Some((flag, _, why)) = none.into_iter().find(|(_, is, _)| *is) {
        return Err((flag.to_owned(), why));
    }
    let mut line = vec![NAME.to_owned(), "load".to_owned(), format!("--{tool}")];
    let host = test.host.clone().unwrap_or_default();
    line.push(test.port.map_or(host.clone(), |port| with_port(&host, port)));
    let mut add = |flag: &str, value: Option<String>| {
        line.push(flag.to_owned());
        line.extend(value);
    };
    if test.udp.is_some() {
        add("--udp", None);
    }
    let rate = test.rate.clone().or_else(|| test.udp.map(|()| RATE.to_owned()));
    rate.iter().for_each(|rate| add("--rate", Some(rate.clone())));
    test.length.iter().for_each(|bytes| add("--size", Some(format!("{bytes}B"))));
    test.streams.iter().for_each(|streams| add("--streams", Some(streams.to_string())));
    match test.direction {
        None => {}
        Some(Direction::Back) => add("--reverse", None),
        Some(Direction::Both) => add("--both-ways", None),
        Some(Direction::InTurn) => add("--in-turn", None),
    }
    let length = test.length.unwrap_or(if test.udp.is_some() { LENGTH } else { BLOCK });
    let blocks = test.packets.map(|count| count.saturating_mul(length));
    match test.bytes.or(blocks) {
        Some(bytes) => add("--bytes", Some(format!("{bytes}B"))),
        None => test.time.iter().for_each(|time| add("--time", Some(time.clone()))),
    }
    test.omit.iter().for_each(|time| add("--warmup", Some(time.clone())));
    if let Some(tos) = test.tos {
        if tos % 4 != 0 {
            let why = fault!("sessions have a DSCP, and this has bits beside it"; "ask for a multiple of 4");
            return Err(("-S".to_owned(), why));
        }
        add("--dscp", Some((tos / 4).to_string()));
    }
    line.extend(test.of_tcp.iter().chain(&test.beside).cloned());
    line.extend(ours);
    let server = if tool == "iperf2" { "iperf -s" } else { "iperf3 -s" };
    let why = match (test.udp, test.direction) {
        (Some(()), None) => {
            "datagrams, whose loss the server tells ('send' sends them more exactly)"
        }
        (Some(()), Some(_)) => "datagrams come back",
        (None, _) => "without -u it is over TCP",
    };
    let note = format!("{why}; with '{server}' or '{NAME} serve --{tool}' there the same is");
    Ok(Translation { line, note })
}

/// Words of ours with a port behind the host of `--to`, where it has none.
fn to_port(mut ours: Vec<String>, port: u64) -> Vec<String> {
    let bare = |host: &str| {
        let ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
        (ipv6 || !host.contains(':') || host.ends_with(']')).then(|| match ipv6 {
            true => with_port(host, port),
            false => format!("{host}:{port}"),
        })
    };
    let at = ours.iter().position(|word| word == "--to").map(|at| at + 1);
    if let Some(host) = at.and_then(|at| ours.get_mut(at)) {
        *host = bare(host).unwrap_or_else(|| host.clone());
    }
    for word in &mut ours {
        if let Some(with) = word.strip_prefix("--to=").and_then(bare) {
            *word = format!("--to={with}");
        }
    }
    ours
}

/// `-i` of iperf3 is an interval, and that of tcpreplay, tcpdump and others an interface.
fn interval(said: &mut Vec<String>, text: &str) -> Result<(), Fault> {
    match (seconds(text), text.starts_with(|c: char| c.is_ascii_alphabetic())) {
        (Some(time), _) => put(said, "--interval", &time),
        (None, true) => put(said, "--interface", text),
        (None, false) => Err(fault!(
            "'{text}' is not a time in seconds"; "write for example --interval 1s, or --interface eth1"
        )),
    }
}

/// A host, of which an address of IPv6 is in brackets, with a port.
fn with_port(host: &str, port: u64) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// A time in seconds. One of 0 has no end.
fn bounded(text: &str) -> Result<String, Fault> {
    seconds(text).ok_or_else(|| match text {
        "0" => fault!("a run without an end has no flag"; "write a long time: --time 365d"),
        _ => fault!("'{text}' is not a time in seconds"; "write for example --time 10s"),
    })
}

fn bits(text: &str) -> Result<String, Fault> {
    any_bit_rate(text)
        .ok_or_else(|| fault!("'{text}' is not a bit rate"; "write for example --rate 100Mbps"))
}

/// Bytes, or a count: K, M and G are powers of 1024, as iperf has them.
fn size(text: &str) -> Result<u64, Fault> {
    let (number, power) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at), 1),
        Some((at, 'm' | 'M')) => (text.get(..at), 2),
        Some((at, 'g' | 'G')) => (text.get(..at), 3),
        _ => (Some(text), 0),
    };
    let number = number.and_then(positive).map(|number| number * 1024_f64.powi(power));
    let whole =
        number.filter(|number| *number >= 1.0 && *number < 9e15).map(|number| number as u64);
    whole.ok_or_else(|| fault!("'{text}' is not a number of bytes"; "write for example 1470 or 8K"))
}

/// A byte as C writes it: decimal, hexadecimal, or octal.
fn byte(text: &str) -> Result<u64, Fault> {
    let read =
        match (text.strip_prefix("0x"), text.strip_prefix('0').filter(|rest| !rest.is_empty())) {
            (Some(digits), _) => u8::from_str_radix(digits, 16),
            (None, Some(digits)) => u8::from_str_radix(digits, 8),
            (None, None) => text.parse(),
        };
    read.map(u64::from)
        .map_err(|_| fault!("'{text}' is not a byte"; "write for example --tos 0xb8"))
}

#[cfg(test)]
mod tests {
    use super::super::foreign::tests::{assert_each_is_tried, line_of_ours, told};
    use super::*;

    /// Lines of iperf3 behind `wirebeat send`, and ours: each flag of the table is in one of them.
    const LINES: &[(&str, &str)] = &[
        (
            "-c 10.0.0.2 -u -b 100M -t 10 -l 1470 -P 4 -R -J",
            "load --iperf3 10.0.0.2 --udp --rate 100Mbps --size 1470B --streams 4 --reverse --time 10s --json",
        ),
        (
            "-c 10.0.0.2 -u -b 100M -t 10 -l 1470",
            "load --iperf3 10.0.0.2 --udp --rate 100Mbps --size 1470B --time 10s",
        ),
        ("-c lab2 -u", "load --iperf3 lab2 --udp --rate 1Mbps"),
        (
            "-uc 2001:db8::2 -b1G/2 -P2 -i1 -J -V -6",
            "send --to '[2001:db8::2]:5201' --rate 1Gbps@payload --size 1460B@payload --burst 2 --flow \
             name=stream-1,source-port=49152 --flow name=stream-2,source-port=49153 --interval 1s --json --details",
        ),
        (
            "10.0.0.2 -u -P2 -k 100 --repeating-payload --connect-timeout 100",
            "load --iperf3 10.0.0.2 --udp --rate 1Mbps --streams 2 --bytes 146000B",
        ),
        (
            "-c 10.0.0.2 --json --dscp ef --time 5",
            "load --iperf3 10.0.0.2 --json --dscp ef --time 5s",
        ),
        ("-c 10.0.0.2 -k 2", "load --iperf3 10.0.0.2 --bytes 262144B"),
        (
            "--client lab2 --udp --bitrate 2.5m/8 --port 5005 --length 1K --parallel 1 -O 3 --json-stream -i 0",
            "send --to lab2:5005 --rate 2.5Mbps@payload --size 1024B@payload --burst 8 --warmup 3s --json-lines",
        ),
        (
            "-c 10.0.0.2 -u --bandwidth=0 -n 1M -S 0xb8 -B 10.0.0.1%eth1 --cport 4000 -A 2,3",
            "send --to 10.0.0.2:5201 --rate unlimited --size 1460B@payload --count 719 --tos 184 --source-port 4000 \
             --source 10.0.0.1 --interface eth1 --cpu 2",
        ),
        (
            "-c 10.0.0.2 -u -b 1000pps -k 100 --bind-dev eth1 --engine socket",
            "send --to 10.0.0.2:5201 --rate 1000pps --size 1460B@payload --count 100 --interface eth1 --engine socket",
        ),
        // without -u, a flag of ours says that these are datagrams
        (
            "-c 10.0.0.2 --rate 5kpps --size 64B -t 5",
            "send --to 10.0.0.2:5201 --time 5s --rate 5kpps --size 64B",
        ),
        ("--to 10.0.0.2 -b 1G", "send --rate 1Gbps@payload --to 10.0.0.2"),
        ("--to 10.0.0.2 -t 10", "send --rate 1Mbps@payload --time 10s --to 10.0.0.2"),
        ("--to 10.0.0.2 --rate 1kpps -p 5000", "send --to 10.0.0.2:5000 --rate 1kpps"),
        ("--to=2001:db8::2 --rate=1kpps --port=7", "send '--to=[2001:db8::2]:7' --rate=1kpps"),
        ("--to 10.0.0.2 --rate 1kpps -i eth1", "send --interface eth1 --to 10.0.0.2 --rate 1kpps"),
        ("-c 10.0.0.2", "load --iperf3 10.0.0.2"),
        ("-c 10.0.0.2 -t 10 -O 3", "load --iperf3 10.0.0.2 --time 10s --warmup 3s"),
        (
            "-c 10.0.0.2 -p 5001 -P 4 -d -n 1G -M 1400 -C bbr --fq-rate 1G -S 0x10 -N -4 -f m -T x -Z -e",
            "load --iperf3 10.0.0.2:5001 --streams 4 --both-ways --bytes 1073741824B --dscp 4 --mss 1400 --congestion \
             bbr --pacing 1Gbps",
        ),
        ("-c 10.0.0.2 -r -l 128K", "load --iperf2 10.0.0.2 --size 131072B --in-turn"),
        (
            "-c 10.0.0.2 -u --bidir --get-server-output --dont-fragment --forceflush",
            "load --iperf3 10.0.0.2 --udp --rate 1Mbps --both-ways",
        ),
    ];

    /// Lines that nothing of ours says, and what is told.
    const NONE: &[(&str, &str)] = &[
        ("-s", "serve --iperf3 --listen 0.0.0.0:5201"),
        ("-s -p 5202 -D", "receive --port 5202; for -D write '&' behind the line"),
        ("-s -B 127.0.0.1 -p 5202 -J -i 1 -1", "--listen 127.0.0.1:5202 --json --interval 1s;"),
        ("-c x -u -i -1", "--interval 1s"),
        ("-c x -r -O 2", "measured from its beginning"),
        ("-c x -b 1G/4", "leave out what stands behind '/'"),
        ("-c x --cport 4000", "the port of the client"),
        ("-c x -B 10.0.0.1", "by the route to the server"),
        ("-c x -A 1", "taskset -c"),
        ("-c 10.0.0.2 -6", "write the IPv6 address"),
        ("-c x -w 1M", "buffers of sockets have no flag"),
        ("-c x -u --logfile f", "write '> FILE'"),
        ("-c x -u -F f", "no content from a file"),
        ("-c x -u -t 0", "a run without an end"),
        ("-c x -u -b fast", "'fast' is not a bit rate"),
        ("-c x -u -l -1", "'-1' is not a number of bytes"),
        ("-c x -P 1000", "at most 128 streams"),
        ("-c x -R -S 0x11", "a multiple of 4"),
        ("-c x -S 256", "'256' is not a byte"),
    ];

    #[test]
    fn lines_of_iperf_are_answered_with_ours() {
        for (line, ours) in LINES {
            assert_eq!(line_of_ours(&format!("send {line}")), *ours, "{line}");
        }
        // and as iperf3 is called, without a command
        assert_eq!(line_of_ours("-c lab2 -u"), LINES[2].1);
        // and behind 'load'
        assert_eq!(line_of_ours("load -c lab2 -P 4"), "load --iperf3 lab2 --streams 4");
        assert_eq!(line_of_ours("load --iperf3 lab2 --time 5"), "load --iperf3 lab2 --time 5s");
    }

    #[test]
    fn its_server_is_ours() {
        for line in ["-s", "--server -p 5201", "receive -s", "serve -s -p 5201"] {
            let said = told(line).sentence();
            assert!(said.contains("serve --iperf3 --listen 0.0.0.0:5201"), "{line}: {said}");
        }
    }

    #[test]
    fn each_line_of_ours_is_valid() {
        for (_, line) in LINES {
            // a name that needs nobody to look it up
            let line = line.replace("lab2", "localhost").replace('\'', "");
            let (command, rest) = line.split_once(' ').unwrap();
            match command {
                "send" => _ = crate::send::tests::scenario(rest).unwrap(),
                _ => _ = crate::load::iperf::tests::of(rest).unwrap(),
            }
        }
    }

    #[test]
    fn what_nothing_of_ours_says_is_told_with_the_flag() {
        for (line, says) in NONE {
            let said = told(&format!("send {line}")).sentence();
            assert!(said.contains(says) && said.contains(" is a flag of iperf3"), "{line}: {said}");
        }
    }

    #[test]
    fn each_flag_of_the_table_is_tried() {
        let lines = LINES.iter().chain(NONE).map(|(line, _)| *line);
        assert_each_is_tried(FLAGS, lines);
    }
}
