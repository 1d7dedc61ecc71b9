//! The flags of tcpreplay, tcpreplay-edit and tcprewrite, as those of `replay`.

use std::fs::File;
use std::io::BufReader;

use wirebeat_archive::capture::Frames;
use wirebeat_archive::time_series::OnBad;
use wirebeat_traffic::scenario::replay::Prefix;
use wirebeat_units::{Fault, Nanos, fault};

use super::foreign::{
    ForeignFlag, Scanned, Translation, Untranslated, positive, put, put_flag, row, seconds, set,
    whole,
};
use crate::command::NAME;
use crate::file::is_standard;

/// What is said of a rate that is not known.
const GIVE_FACTOR: &str = "give --fast-forward, a multiple of the recorded speed";
/// Addresses of groups, and of everybody.
const GROUPS: [&str; 3] = ["224.0.0.0/4", "255.255.255.255", "ff00::/8"];

/// The most frames of a capture that are read to know how fast it is: some seconds' work.
const FRAMES_MAX: u64 = 5_000_000;

/// What its flags say together.
#[derive(Debug, Default)]
pub(super) struct Replay {
    flags: Vec<String>,
    speed: Option<Speed>,
    /// Which addresses become which.
    addresses: Vec<(Prefix, Prefix)>,
    /// Addresses of groups stay.
    keeps_groups: bool,
    /// All frames have a destination, frames to groups too.
    destination: bool,
    keeps_group_macs: bool,
    /// A tag is added, and which.
    adds_vlan: bool,
    vlan: Option<u64>,
    /// What is not quite the same.
    differs: Vec<&'static str>,
}

#[derive(Debug)]
enum Speed {
    /// The time between two frames.
    Gap(Nanos),
    /// A multiple of the recorded one.
    Factor(String),
    /// Megabits a second.
    Megabits(f64),
}

/// Notes how fast, which one flag says.
fn speed(place: &mut Option<Speed>, one: Speed) -> Result<(), Fault> {
    match place.replace(one) {
        None => Ok(()),
        Some(_) => Err(
            fault!("the speed is given twice"; "give one of --pps, --mbps, --topspeed and --multiplier"),
        ),
    }
}

fn endless() -> Fault {
    fault!("a replay without an end has no flag"; "write a large number: --loop 1000000000")
}

/// Flags that nobody else has: a line without a command that has one of them is of it.
pub(super) const OWN: [&str; 10] = [
    "--topspeed",
    "--mbps",
    "--pps",
    "--multiplier",
    "--intf1",
    "--intf2",
    "--preload-pcap",
    "-M",
    "-x",
    "-K",
];

/// Its flags. Those without an effect on what is sent are left out.
pub(super) const FLAGS: &[ForeignFlag<Replay>] = &[
    row(&["--intf1"], true, |replay, name| put(&mut replay.flags, "--interface", name)),
    row(&["-p", "--pps"], true, |replay, rate| {
        let rate = number(rate)?;
        // as close as nanoseconds come
        let gap = Nanos::new((1e9 / rate).round().max(1.0) as u64);
        speed(&mut replay.speed, Speed::Gap(gap))
    }),
    row(&["-M", "--mbps"], true, |replay, rate| {
        speed(&mut replay.speed, Speed::Megabits(number(rate)?))
    }),
    row(&["-t", "--topspeed"], false, |replay, _| {
        speed(&mut replay.speed, Speed::Gap(Nanos::ZERO))
    }),
    row(&["-x", "--multiplier"], true, |replay, factor| {
        number(factor)?;
        speed(&mut replay.speed, Speed::Factor(factor.to_owned()))
    }),
    row(&["-l"], true, |replay, times| match times {
        "0" => Err(endless()),
        times => put(&mut replay.flags, "--loop", &whole(times)?.to_string()),
    }),
    row(&["-L", "--limit"], true, |replay, count| {
        put(&mut replay.flags, "--count", &whole(count)?.to_string())
    }),
    row(&["--duration"], true, |replay, time| put(&mut replay.flags, "--time", &secs(time)?)),
    row(&["-K", "--preload-pcap", "-k", "--enable-file-cache"], false, |replay, _| {
        put_flag(&mut replay.flags, "--preload")
    }),
    row(&["--stats"], true, |replay, time| put(&mut replay.flags, "--interval", &secs(time)?)),
    row(&["--maxsleep"], true, |replay, time| {
        put(&mut replay.flags, "--max-gap", &format!("{}ms", whole(time)?))
    }),
    row(&["-v", "--verbose"], false, |replay, _| put_flag(&mut replay.flags, "--details")),
    // deadlines are awaited exactly, and nothing is printed for each packet
    row(&["-T", "--timer"], true, |_, _| Ok(())),
    row(&["-q", "--quiet", "-W", "--suppress-warnings"], false, |_, _| Ok(())),
    row(&["-I", "--intf2", "-c", "--cachefile"], true, |_, _| {
        Err(fault!(
            "a replay has one interface";
            "run it twice: with --side client at one interface and --side server at the other"
        ))
    }),
    row(&["-2", "--dualfile"], false, |_, _| {
        Err(fault!("a replay has one interface"; "run it twice, each with its file and interface"))
    }),
    row(&["-o", "--oneatatime"], false, |_, _| {
        Err(
            fault!("frames do not wait for a key"; "leave it out, or cut the file with tshark first"),
        )
    }),
    row(&["--pps-multi"], true, |_, _| {
        Err(fault!("frames of a replay leave one by one"; "leave it out"))
    }),
    row(&["--unique-ip"], false, |_, _| Err(unique())),
    row(&["--unique-ip-loops"], true, |_, _| Err(unique())),
    row(&["--loopdelay-ms"], true, |_, _| {
        Err(fault!(
            "there is no pause between rounds: each follows right behind the one before it";
            "leave it out, or repeat the command in the shell, with 'sleep' behind it"
        ))
    }),
    // frames that were cut short are padded in any case, and flows are not counted
    row(&["--pktlen", "--no-flow-stats", "-P", "--pid"], false, |_, _| Ok(())),
    row(&["--flow-expiry", "-A", "--decode", "-d", "--dbug"], true, |_, _| Ok(())),
    row(&["--listnics"], false, |_, _| {
        Err(fault!("this lists interfaces and sends nothing"; "write {NAME} doctor, or: ip link"))
    }),
    row(&["--load-opts"], true, |_, _| {
        Err(fault!("flags are not read from a file"; "write those of the file into the line"))
    }),
    row(&["--save-opts"], false, |_, _| {
        Err(fault!("flags are not written to a file"; "--print-scenario prints them as a scenario"))
    }),
    row(&["-N", "--pnat"], true, |replay, rules| match replay.addresses.as_slice() {
        [] => {
            replay.addresses = prefixes(rules)?;
            Ok(())
        }
        _ => Err(fault!(
            "a second one is for the other direction of a cache file";
            "run it twice: with --side client and with --side server, each with its --map-address"
        )),
    }),
    row(&["-S", "--srcipmap"], true, |_, rules| one_end("source", rules)),
    row(&["-D", "--dstipmap"], true, |_, rules| one_end("destination", rules)),
    row(&["-e", "--endpoints"], true, |_, _| {
        Err(fault!(
            "which end an address becomes would be in a cache file";
            "name the addresses: --map-address 10.1.0.5=192.0.2.1 --map-address 10.1.0.9=192.0.2.2"
        ))
    }),
    row(&["-b", "--skipbroadcast"], false, |replay, _| {
        replay.keeps_groups = true;
        Ok(())
    }),
    row(&["-r", "--portmap"], true, |replay, rules| ports(&mut replay.flags, rules)),
    row(&["--enet-dmac"], true, |replay, mac| {
        replay.destination = true;
        put(&mut replay.flags, "--destination-mac", one_mac(mac)?)
    }),
    row(&["--enet-smac"], true, |replay, mac| {
        put(&mut replay.flags, "--source-mac", one_mac(mac)?)
    }),
    row(&["--skipl2broadcast"], false, |replay, _| {
        replay.keeps_group_macs = true;
        Ok(())
    }),
    row(&["--enet-vlan"], true, |replay, how| match how {
        "add" => {
            replay.adds_vlan = true;
            Ok(())
        }
        "del" => put(&mut replay.flags, "--vlan", "off"),
        _ => Err(fault!("'{how}' is neither add nor del"; "write --vlan 5, or --vlan off")),
    }),
    row(&["--enet-vlan-tag"], true, |replay, id| set(&mut replay.vlan, whole(id)?)),
    row(&["-C", "--fixcsum"], false, |replay, _| {
        replay.differs.push("checksums follow what is mapped, and one that was wrong stays wrong");
        Ok(())
    }),
    row(&["-F", "--fixlen"], true, |replay, how| match how {
        "pad" => Ok(()),
        "del" => put(&mut replay.flags, "--truncated", "skip"),
        _ => Err(fault!(
            "lengths in headers stay as they were";
            "write --truncated send for what was captured of a frame, or --truncated skip to leave it out"
        )),
    }),
    // alone it changes nothing
    row(&["-m", "--mtu"], true, |_, bytes| whole(bytes).map(|_| ())),
    row(&["--mtu-trunc"], false, |_, _| {
        Err(fault!(
            "frames are not shortened to what the link carries";
            "leave longer ones out with --on-bad skip, or raise the MTU: ip link set dev eth1 mtu 9000"
        ))
    }),
    row(&["--skip-soft-errors"], false, |replay, _| put(&mut replay.flags, "--on-bad", "skip")),
    row(&["-E", "--efcs"], false, |_, _| Err(unchanged())),
    row(
        &[
            "-s",
            "--tcp-sequence",
            "--tclass",
            "--flowlabel",
            "--fuzz-seed",
            "--fuzz-factor",
            "--dlt",
            "--enet-subsmac",
            "--enet-mac-seed",
            "--enet-mac-seed-keep-bytes",
            "--enet-vlan-cfi",
            "--enet-vlan-pri",
            "--enet-vlan-proto",
            "--hdlc-control",
            "--hdlc-address",
            "--user-dlt",
            "--user-dlink",
            "--fragroute",
            "--fragdir",
        ],
        true,
        |_, _| Err(unchanged()),
    ),
];

/// Its line as one of ours.
pub(super) fn line(scanned: Scanned<Replay>) -> Result<Option<Translation>, Untranslated> {
    let Scanned { mut said, ours, names, .. } = scanned;
    said.add_rewriting()?;
    if let Some(number) = names.iter().find(|name| positive(name).is_some()) {
        let why = fault!(
            "-t is --topspeed here, and '{number}' is no capture"; "for a time write --time {number}s"
        );
        return Err(("-t".to_owned(), why));
    }
    if ours.windows(2).any(|pair| matches!(pair, [flag, times] if flag == "--loop" && times == "0"))
        || ours.iter().any(|flag| flag == "--loop=0")
    {
        return Err(("--loop 0".to_owned(), endless()));
    }
    let mut note = match said.differs.as_slice() {
        [] => "the same is".to_owned(),
        differs => format!("nearly the same is ({})", differs.join("; ")),
    };
    let speed = match said.speed {
        None => Vec::new(),
        Some(Speed::Gap(Nanos::ZERO)) => vec!["--tight-loop".to_owned(), "0".to_owned()],
        Some(Speed::Gap(gap)) => vec!["--tight-loop".to_owned(), gap.to_string()],
        Some(Speed::Factor(factor)) => vec!["--fast-forward".to_owned(), format!("{factor}x")],
        Some(Speed::Megabits(wanted)) => {
            let recorded = megabits(&names).map_err(|fault| ("--mbps".to_owned(), fault))?;
            note = format!(
                "the capture has {recorded:.3} Mbit/s on average; with the times between frames in proportion the same is"
            );
            vec!["--fast-forward".to_owned(), format!("{}x", millionths(wanted / recorded))]
        }
    };
    let line = [NAME.to_owned(), "replay".to_owned()].into_iter().chain(names);
    let line = line.chain(ours).chain(said.flags).chain(speed).collect();
    Ok(Some(Translation { line, note }))
}

impl Replay {
    /// Adds the flags that several of its flags say together.
    fn add_rewriting(&mut self) -> Result<(), Untranslated> {
        if self.keeps_groups {
            // the first rule that fits is followed
            let groups: Vec<Prefix> =
                GROUPS.iter().filter_map(|group| group.parse().ok()).collect();
            let meets = |group: &Prefix, from: &Prefix| {
                from.contains(group.address()) || group.contains(from.address())
            };
            let kept = |group: &Prefix| self.addresses.iter().any(|(from, _)| meets(group, from));
            let kept: Vec<_> =
                groups.into_iter().filter(kept).map(|group| (group, group)).collect();
            self.addresses.splice(..0, kept);
        }
        for (from, to) in &self.addresses {
            self.flags.extend(["--map-address".to_owned(), format!("{from}={to}")]);
        }
        if self.destination && !self.keeps_group_macs {
            self.differs.push("frames to groups keep their destination");
        }
        if self.adds_vlan {
            let id = self.vlan.ok_or_else(|| {
                let why = fault!("it is not said which VLAN"; "write for example --vlan 5");
                ("--enet-vlan".to_owned(), why)
            })?;
            self.flags.extend(["--vlan".to_owned(), id.to_string()]);
            self.differs.push("a frame with a VLAN tag does not get a second one, but this VLAN");
        }
        Ok(())
    }
}

/// Rules for addresses, as pairs that are separated by commas: `10.0.0.0/8:192.168.0.0/16`, `[2001:db8::/32]:[fd00::/32]`.
fn prefixes(rules: &str) -> Result<Vec<(Prefix, Prefix)>, Fault> {
    let rule = |rule: &str| -> Result<(Prefix, Prefix), Fault> {
        let pair = match rule.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.split_once("]:["),
            None => rule.split_once(':'),
        };
        let wrong = || {
            fault!(
                "'{rule}' is not a pair of prefixes of one version of IP";
                "write for example --map-address 10.0.0.0/8=192.168.0.0/16"
            )
        };
        let (from, to) = pair.ok_or_else(wrong)?;
        let (from, to): (Prefix, Prefix) = (from.parse()?, to.parse()?);
        if from.address().is_ipv4() != to.address().is_ipv4() {
            return Err(wrong());
        }
        // bits between a shorter prefix and the one that it replaces stay
        let to = match to.bits() < from.bits() {
            true => Prefix::new(to.take_in(from.address()), from.bits()),
            false => to,
        };
        Ok((from, to))
    };
    rules.split(',').map(rule).collect()
}

/// Why rules for one end of a packet have no flag.
fn one_end(end: &str, rules: &str) -> Result<(), Fault> {
    let ours: Vec<String> =
        prefixes(rules)?.iter().map(|(from, to)| format!("--map-address {from}={to}")).collect();
    Err(fault!(
        "an address is mapped as source and as destination, and not as {end} alone";
        "where answers are mapped the other way round, write {}", ours.join(" ")
    ))
}

/// Rules for ports: `80:8080`, `8000-8999:80`, and several ports with a comma or a plus between them.
fn ports(flags: &mut Vec<String>, rules: &str) -> Result<(), Fault> {
    let wrong =
        || fault!("'{rules}' is not a rule for ports"; "write for example --map-port 80=8080");
    let mut waiting = Vec::new();
    for rule in rules.split(',') {
        let (from, to) = rule.split_once(':').map_or((rule, None), |(from, to)| (from, Some(to)));
        waiting.extend(from.split('+'));
        if let Some(to) = to {
            for from in waiting.drain(..) {
                put(flags, "--map-port", &format!("{from}={to}"))?;
            }
        }
    }
    if waiting.is_empty() { Ok(()) } else { Err(wrong()) }
}

/// The address of all frames; the second of two is for the other direction of a cache file.
fn one_mac(macs: &str) -> Result<&str, Fault> {
    match macs.contains(',') {
        false => Ok(macs),
        true => Err(fault!(
            "the second address is for the other direction of a cache file";
            "run it twice: with --side client and with --side server, each with its addresses"
        )),
    }
}

fn unique() -> Fault {
    fault!("each round has the same addresses"; "leave it out, or map them with --map-address")
}

fn unchanged() -> Fault {
    fault!(
        "frames are not changed in this way";
        "make a capture of them with 'tcprewrite' first, and replay that"
    )
}

/// Megabits a second of a capture, from its first frame to its last, counted as tcpreplay does: without the FCS.
fn megabits(names: &[String]) -> Result<f64, Fault> {
    let [name] = names else {
        return Err(fault!("the rate of several captures together is not known"; "{GIVE_FACTOR}"));
    };
    if is_standard(name.as_ref()) {
        return Err(fault!(
            "the capture's own rate has to be known first, and standard input cannot be read twice";
            "write it to a file, or {GIVE_FACTOR}"
        ));
    }
    let unknown = |why: String| fault!("the rate of '{name}' is not known: {why}"; "{GIVE_FACTOR}");
    let file = wirebeat_run::open_regular(name.as_ref())
        .map_err(|error| fault!("cannot open '{name}': {error}"; "check the path"))?;
    let file: File = file.ok_or_else(|| unknown("it is not a regular file".to_owned()))?;
    let mut frames = Frames::new(BufReader::new(file), name.as_str(), OnBad::Skip);
    let (mut bytes, mut first, mut last) = (0_u64, None, None);
    while frames.advance().map_err(|error| unknown(error.to_string()))? {
        let frame = frames.frame();
        bytes = bytes.saturating_add(frame.original.into());
        if let Some(time) = frame.time_ns {
            first.get_or_insert(time);
            last = Some(time);
        }
        if frames.tally().frames > FRAMES_MAX {
            return Err(unknown(format!("it has more than {FRAMES_MAX} frames")));
        }
    }
    let passed = first.zip(last).map_or(0, |(first, last): (i64, i64)| last.saturating_sub(first));
    match (bytes, passed) {
        (1.., 1..) => Ok(bytes as f64 * 8e3 / passed as f64),
        _ => Err(unknown("its frames have no time between them".to_owned())),
    }
}

/// A factor as it can be written: of whole millionths, and not zero.
fn millionths(factor: f64) -> String {
    let text = format!("{:.6}", factor.max(1e-6));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn number(text: &str) -> Result<f64, Fault> {
    positive(text).ok_or_else(
        || fault!("'{text}' is not a number above zero"; "write for example 100 or 2.5"),
    )
}

fn secs(text: &str) -> Result<String, Fault> {
    seconds(text).ok_or_else(|| fault!("'{text}' is not a time in seconds"; "write for example 10"))
}

#[cfg(test)]
mod tests {
    use super::super::foreign::tests::{assert_each_is_tried, line_of_ours, told};
    use super::*;

    /// Lines of tcpreplay behind `wirebeat replay`, and ours.
    const LINES: &[(&str, &str)] = &[
        ("--intf1 eth1 a.pcap", "replay a.pcap --interface eth1"),
        ("--intf1=eth1 --topspeed a.pcap", "replay a.pcap --interface eth1 --tight-loop 0"),
        ("-ieth1 -t a.pcap b.pcap", "replay a.pcap b.pcap --interface eth1 --tight-loop 0"),
        ("-i eth1 --pps 1000 a.pcap", "replay a.pcap --interface eth1 --tight-loop 1ms"),
        ("-i eth1 -p 3 a.pcap", "replay a.pcap --interface eth1 --tight-loop 333333333ns"),
        (
            "-i eth1 -p 0.5 --loop 3 a.pcap",
            "replay a.pcap --interface eth1 --loop 3 --tight-loop 2s",
        ),
        ("-i eth1 --multiplier 2.5 a.pcap", "replay a.pcap --interface eth1 --fast-forward 2.5x"),
        ("-x 10 -l 5 -i eth1 a.pcap", "replay a.pcap --interface eth1 --loop 5 --fast-forward 10x"),
        (
            "-i eth1 --limit 100 --duration=30 -K --stats 1 --maxsleep 500 -v -q -T nano a.pcap --filter arp",
            "replay a.pcap --interface eth1 --filter arp --count 100 --time 30s --preload --interval 1s --max-gap 500ms \
             --details",
        ),
        (
            "-i eth1 --pnat=10.0.0.0/8:192.168.0.0/16,[2001:db8::/32]:[fd00::/16] a.pcap",
            "replay a.pcap --interface eth1 --map-address 10.0.0.0/8=192.168.0.0/16 \
             --map-address 2001:db8::/32=fd00:db8::/32",
        ),
        (
            "-i eth1 -N 0.0.0.0/0:10.0.0.0/8 -b a.pcap",
            "replay a.pcap --interface eth1 --map-address 224.0.0.0/4=224.0.0.0/4 \
             --map-address 255.255.255.255=255.255.255.255 --map-address 0.0.0.0/0=10.0.0.0/8",
        ),
        (
            "-i eth1 --skipbroadcast -N 10.0.0.0/8:11.0.0.0/8 a.pcap",
            "replay a.pcap --interface eth1 --map-address 10.0.0.0/8=11.0.0.0/8",
        ),
        (
            "-i eth1 -r 80:8080,8000-8999:81 --portmap=1,2+3:4 a.pcap",
            "replay a.pcap --interface eth1 --map-port 80=8080 --map-port 8000-8999=81 --map-port 1=4 \
             --map-port 2=4 --map-port 3=4",
        ),
        (
            "-i eth1 --enet-dmac=02:00:00:00:00:02 --enet-smac 02:00:00:00:00:01 --skipl2broadcast a.pcap",
            "replay a.pcap --interface eth1 --destination-mac 02:00:00:00:00:02 --source-mac 02:00:00:00:00:01",
        ),
        (
            "-i eth1 --enet-vlan=add --enet-vlan-tag=7 -C a.pcap",
            "replay a.pcap --interface eth1 --vlan 7",
        ),
        ("-i eth1 --enet-vlan=del a.pcap", "replay a.pcap --interface eth1 --vlan off"),
        (
            "-i eth1 --fixlen=del --skip-soft-errors a.pcap",
            "replay a.pcap --interface eth1 --truncated skip --on-bad skip",
        ),
        (
            "-i eth1 -F pad -m 9000 --pktlen --no-flow-stats -P --flow-expiry 5 a.pcap",
            "replay a.pcap --interface eth1",
        ),
    ];

    /// Lines that nothing of ours says, and what is told.
    const NONE: &[(&str, &str)] = &[
        ("-i eth1 -I eth2 -c x a.pcap", "--side client"),
        ("-i eth1 --dualfile a.pcap b.pcap", "run it twice"),
        ("-i eth1 -o a.pcap", "frames do not wait for a key"),
        ("-i eth1 --pps-multi 5 a.pcap", "leave one by one"),
        ("-i eth1 --unique-ip a.pcap", "--map-address"),
        ("-i eth1 --unique-ip-loops 5 a.pcap", "--map-address"),
        ("-i eth1 --loopdelay-ms 5 a.pcap", "no pause between rounds"),
        ("--listnics", "ip link"),
        ("-i eth1 --load-opts=x a.pcap", "not read from a file"),
        ("-i eth1 --save-opts a.pcap", "--print-scenario"),
        ("-i eth1 -N 10.0.0.0/8:11.0.0.0/8 -N 11.0.0.0/8:10.0.0.0/8 a.pcap", "--side server"),
        ("-i eth1 --pnat 10.0.0.0/8 a.pcap", "'10.0.0.0/8' is not a pair of prefixes"),
        ("-i eth1 --pnat [fd00::/8]:[10.0.0.0/8] a.pcap", "is not a pair of prefixes"),
        ("-i eth1 -S 10.0.0.0/8:11.0.0.0/8 a.pcap", "write --map-address 10.0.0.0/8=11.0.0.0/8"),
        ("-i eth1 -D 10.0.0.0/8:11.0.0.0/8 a.pcap", "not as destination alone"),
        ("-i eth1 -e 10.0.0.1:10.0.0.2 -c x a.pcap", "in a cache file"),
        ("-i eth1 -r 80 a.pcap", "'80' is not a rule for ports"),
        ("-i eth1 --enet-dmac=02:00:00:00:00:02,02:00:00:00:00:01 a.pcap", "--side client"),
        ("-i eth1 --enet-vlan=add a.pcap", "it is not said which VLAN"),
        ("-i eth1 --fixlen=trunc a.pcap", "--truncated send"),
        ("-i eth1 --mtu-trunc a.pcap", "mtu 9000"),
        ("-i eth1 -E a.pcap", "tcprewrite"),
        ("-i eth1 --fuzz-seed 5 a.pcap", "tcprewrite"),
        ("-i eth1 -l 0 a.pcap", "a replay without an end"),
        ("-i eth1 --pps 0 a.pcap", "'0' is not a number above zero"),
        ("-i eth1 --mbps 100 /nonexistent.pcap", "cannot open '/nonexistent.pcap'"),
        ("-i eth1 --mbps 100 -", "standard input cannot be read twice"),
        ("-i eth1 -M 100 a.pcap b.pcap", "several captures together"),
    ];

    #[test]
    fn lines_of_tcpreplay_are_answered_with_ours() {
        for (line, ours) in LINES {
            assert_eq!(line_of_ours(&format!("replay {line}")), *ours, "{line}");
            crate::replay::tests::of(ours.strip_prefix("replay ").unwrap()).unwrap();
        }
    }

    #[test]
    fn what_nothing_of_ours_says_is_told_with_the_flag() {
        for (line, says) in NONE {
            let said = told(&format!("replay {line}")).sentence();
            assert!(
                said.contains(says) && said.contains(" is a flag of tcpreplay"),
                "{line}: {said}"
            );
        }
    }

    #[test]
    fn what_is_not_quite_the_same_is_told_with_the_line() {
        for (line, differs) in [
            ("--enet-dmac 02:00:00:00:00:02", "frames to groups keep their destination"),
            ("--enet-vlan=add --enet-vlan-tag=7", "does not get a second one"),
            ("--fixcsum", "one that was wrong stays wrong"),
        ] {
            let said = told(&format!("replay -i eth1 {line} a.pcap")).sentence();
            assert!(said.contains("nearly the same is (") && said.contains(differs), "{said}");
        }
    }

    /// A bit rate is a multiple of that of the file.
    #[test]
    fn a_bit_rate_is_a_factor_of_the_capture() {
        let path = std::env::temp_dir().join(format!("wirebeat-mbps-{}.pcap", std::process::id()));
        // three frames of 1,000 bytes in 3 ms: 8 Mbit/s
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([0_u32, 0, 65_535, 1].iter().flat_map(|word| word.to_le_bytes()));
        for micros in [0_u32, 1000, 3000] {
            file.extend([7_u32, micros, 1000, 1000].iter().flat_map(|word| word.to_le_bytes()));
            file.extend([0; 1000]);
        }
        std::fs::write(&path, file).unwrap();
        let name = path.display();
        let said = told(&format!("replay -i eth1 --mbps 100 {name}")).sentence();
        std::fs::remove_file(&path).unwrap();
        let ours = format!(": wirebeat replay {name} --interface eth1 --fast-forward 12.5x");
        assert!(said.ends_with(&ours) && said.contains("8.000 Mbit/s on average"), "{said}");
        assert_eq!(
            [millionths(1e-9), millionths(2.0), millionths(1.0 / 3.0)],
            ["0.000001", "2", "0.333333"]
        );
    }

    #[test]
    fn each_flag_of_the_table_is_tried() {
        let lines = LINES.iter().chain(NONE).map(|(line, _)| *line);
        assert_each_is_tried(FLAGS, lines);
    }
}
