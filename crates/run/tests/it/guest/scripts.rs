//! pktgen's shell scripts on the real pktgen, and as Wirebeat runs them: what arrives at the far ends of their devices is the same, in
//! counts, sizes, addresses, ports and tags.
//!
//! The scripts are those of the crate that reads them, with fewer packets, and no faster than an emulated machine takes them. A real
//! shell runs them, with helpers written here in the place of the kernel's samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, RxPort};
use wirebeat_engine_linux::packet::{Accept, Kinds, PacketReceive, PacketRx};
use wirebeat_import::{Dialect, Source, convert};
use wirebeat_netlink::{LinkState, MacAddr, NewLink};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Program, Testbed, require};
use wirebeat_traffic::compile::Files;
use wirebeat_traffic::scenario::{EngineChoice, Scenario};
use wirebeat_units::Nanos;

use super::{PATIENCE, note};
use crate::interop::cable_to_a_program;
use crate::world::balanced;

const SAMPLE: &str = include_str!("../../../../import/tests/scripts/pktgen/sample.sh");
const PARAMETERS: &str = include_str!("../../../../import/tests/scripts/pktgen/parameters.sh");
const THREADS: &str = include_str!("../../../../import/tests/scripts/pktgen/threads.sh");

/// What the scripts expect of the helpers that come with the kernel's samples.
const HELPERS: &str = r#"
F_THREAD=0 THREADS=1 PKT_SIZE=60 DELAY=0
root_check_run_with_sudo() { :; }
validate_ports() { :; }
pg_write() { echo "$2" > "/proc/net/pktgen/$1"; }
pg_ctrl() { pg_write pgctrl "$*"; }
pg_thread() { t=$1; shift; pg_write "kpktgend_$t" "$*"; }
pg_set() { d=$1; shift; pg_write "$d" "$*"; }
parse_ports() { echo "${1%-*} ${1#*-}"; }
# the networks of the script
parse_addr() {
    case $1 in
    192.0.2.128/25) echo 192.0.2.128 192.0.2.255 ;;
    198.51.100.0/24) echo 198.51.100.0 198.51.100.255 ;;
    esac
}
"#;

/// A script, and the devices that it names.
struct Script {
    name: &'static str,
    text: String,
    devices: &'static [&'static str],
    /// Values that are random there, and the bounds of each: device and field.
    random: &'static [(&'static str, Field, u128, u128)],
}

/// 2001:db8::
const SIX: u128 = 0x2001_0db8 << 96;

/// What is compared of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Length,
    SourceMac,
    DestinationMac,
    Vlan,
    OuterVlan,
    Label,
    LastLabel,
    Type,
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Tos,
    Ttl,
}

/// Of each field, how often it had which value.
type Profile = BTreeMap<Field, BTreeMap<u128, u64>>;

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Reads the headers of a frame, as far as pktgen makes them.
fn fields(frame: &[u8]) -> Vec<(Field, u128)> {
    let at = |from: usize, len: usize| number(&frame[from..from + len]);
    let mut fields = vec![
        // pktgen that was told no size sends 58 bytes; a wire pads what is shorter than 60, a virtual cable does not
        (Field::Length, frame.len().max(60) as u128),
        (Field::DestinationMac, at(0, 6)),
        (Field::SourceMac, at(6, 6)),
    ];
    let (mut ip, mut tags) = (14, Vec::new());
    while at(ip - 2, 2) == 0x8100 {
        // identifier, priority and drop bit
        tags.push(at(ip, 2));
        ip += 4;
    }
    if let [outer, _] = tags[..] {
        fields.push((Field::OuterVlan, outer));
    }
    fields.extend(tags.last().map(|tag| (Field::Vlan, *tag)));
    fields.push((Field::Type, at(ip - 2, 2)));
    if at(ip - 2, 2) == 0x8847 {
        loop {
            let label = at(ip, 4);
            ip += 4;
            if label & 0x100 != 0 {
                fields.push((Field::LastLabel, label));
                break;
            }
            fields.push((Field::Label, label));
        }
    }
    let udp = match frame[ip] >> 4 {
        4 => {
            fields.extend([
                (Field::Tos, at(ip + 1, 1)),
                (Field::Ttl, at(ip + 8, 1)),
                (Field::Source, at(ip + 12, 4)),
                (Field::Destination, at(ip + 16, 4)),
            ]);
            assert_eq!(frame[ip + 9], 17, "{frame:02x?}");
            ip + 20
        }
        6 => {
            fields.extend([
                (Field::Tos, at(ip, 2) >> 4 & 0xff),
                (Field::Ttl, at(ip + 7, 1)),
                (Field::Source, at(ip + 8, 16)),
                (Field::Destination, at(ip + 24, 16)),
            ]);
            assert_eq!(frame[ip + 6], 17, "{frame:02x?}");
            ip + 40
        }
        _ => panic!("{frame:02x?}"),
    };
    fields.extend([(Field::SourcePort, at(udp, 2)), (Field::DestinationPort, at(udp + 2, 2))]);
    fields
}

/// Whether it is one of pktgen's or of ours: from port 9, or one that the scripts choose, with a TTL of 32.
fn is_of_a_script(frame: &[u8]) -> bool {
    let types = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0x47]];
    let known = frame.len() > 54 && types.iter().any(|kind| frame[12..14] == *kind);
    // what the stacks say by themselves: IPv6 that is not a UDP
    let icmp = frame.len() > 20 && frame[12..14] == [0x86, 0xdd] && frame[20] != 17;
    known && !icmp
}

/// Devices of a script as cables from end `a` to end `b`.
fn lay(bed: &Testbed, devices: &[&str]) -> BTreeMap<String, MacAddr> {
    let (mut near, mut far) = (bed.a.netlink().unwrap(), bed.b.netlink().unwrap());
    let mut stations = BTreeMap::new();
    for (number, device) in (1u8..).zip(devices) {
        let end = |name: String, side| {
            let mac = Some(MacAddr([2, 0x77, 0x73, 0, side, number]));
            NewLink { name, mac, mtu: 1500, queues: 1 }
        };
        let other = format!("{device}-far");
        let (here, there) = (end((*device).to_owned(), 1), end(other.clone(), 2));
        near.add_veth(&here, &there, &bed.b.namespace).unwrap();
        let index = near.link_by_name(device).unwrap().index;
        near.disable_address_generation(index).unwrap();
        near.add_address(index, "10.0.0.254".parse().unwrap(), 24).unwrap();
        near.add_address(index, "2001:db8::1".parse().unwrap(), 64).unwrap();
        near.set_up(index).unwrap();
        let index = far.link_by_name(&other).unwrap().index;
        far.disable_address_generation(index).unwrap();
        far.set_up(index).unwrap();
        stations.insert((*device).to_owned(), there.mac.unwrap());
        while near.link_by_name(device).unwrap().state != LinkState::Up {
            thread::sleep(Duration::from_millis(1));
        }
    }
    stations
}

/// What arrives at the far end of each device while this is done, until nothing comes for a while.
fn captured(bed: &Testbed, devices: &[&str], work: impl FnOnce()) -> BTreeMap<String, Profile> {
    let over = AtomicBool::new(false);
    let capture = |device: &str| {
        let receive =
            PacketReceive { accept: Accept::All, kinds: Kinds::Any, ..PacketReceive::default() };
        let open = || PacketRx::open(&format!("{device}-far"), &receive, None);
        bed.b.namespace.run(open).unwrap().unwrap()
    };
    let opened: Vec<PacketRx> = devices.iter().map(|device| capture(device)).collect();
    thread::scope(|scope| {
        let collect = |mut port: PacketRx| {
            let mut profile = Profile::new();
            loop {
                let until = MonotonicClock.now().saturating_add(Nanos::from_millis(300));
                let mut note = |arrival: &Arrival<'_>| {
                    if is_of_a_script(arrival.bytes) {
                        for (field, value) in fields(arrival.bytes) {
                            *profile.entry(field).or_default().entry(value).or_default() += 1;
                        }
                    }
                };
                let before_this = over.load(Ordering::Acquire);
                if port.receive(until, &mut note).unwrap() == 0 && before_this {
                    assert_eq!(port.receive_drops(), 0);
                    return profile;
                }
            }
        };
        let over = &over;
        let threads: Vec<_> =
            opened.into_iter().map(|port| scope.spawn(move || collect(port))).collect();
        work();
        over.store(true, Ordering::Release);
        let profiles = threads.into_iter().map(|thread| thread.join().unwrap());
        devices.iter().map(|device| (*device).to_owned()).zip(profiles).collect()
    })
}

/// Runs the script as Wirebeat does.
fn ours(bed: &Testbed, script: &Script, stations: &BTreeMap<String, MacAddr>) {
    let read = |name: &str| Err(format!("there is no file '{name}'"));
    let source = Source {
        name: script.name,
        text: &script.text,
        read: &read,
        sessions: &wirebeat_import::no_sessions,
    };
    let converted = convert(Dialect::Pktgen, &source, &Default::default());
    let mut converted = converted.unwrap_or_else(|error| panic!("{error}"));
    for port in converted.scenario.ports.values_mut() {
        port.namespace = Some("a".to_owned());
        port.engine = EngineChoice::Packet;
        // a virtual cable: nobody answers for the addresses of the scripts
        port.next_hop = port.interface.as_ref().map(|device| stations[device]);
    }
    let mut files = Files::default();
    converted.files.into_iter().for_each(|(name, content)| files.insert(name, content));
    let scenario: Scenario = converted.scenario;
    let namespaces = [("a".to_owned(), bed.a.namespace.clone())].into();
    let options = Options { namespaces, files, ..Options::default() };
    let report = prepare(&scenario, options)
        .unwrap_or_else(|error| panic!("{}: {error}", script.name))
        .start(&mut Silent, &Stop::new());
    balanced(&report);
}

/// Runs the script as a shell does, on the real pktgen.
fn theirs(bed: &Testbed, script: &Script) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    let folder = folder.join(format!("pktgen-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    written("parameters.sh", "");
    written("functions.sh", HELPERS);
    let path = written(script.name, &script.text);
    let output = Program::new(&bed.a.namespace, "bash").args([&path]).output(PATIENCE).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(!output.stderr.contains("rite error"), "{}: {output:?}", script.name);
    let reset = || fs::write("/proc/thread-self/net/pktgen/pgctrl", "reset\n");
    bed.a.namespace.run(reset).unwrap().unwrap();
}

/// Holds one against the other, field by field.
fn compare(script: &Script, device: &str, (theirs, ours): (&Profile, &Profile)) {
    let (name, at) = (script.name, device);
    let fields: BTreeSet<Field> = theirs.keys().chain(ours.keys()).copied().collect();
    assert!(fields.len() > 8, "{name}: {at}: {fields:?}");
    let all = (theirs, ours);
    for field in fields {
        let [theirs, ours] =
            [theirs, ours].map(|side| side.get(&field).cloned().unwrap_or_default());
        if field == Field::DestinationMac && theirs.keys().all(|address| *address == 0) {
            // pktgen asks nobody for it, and was told none
            continue;
        }
        let count = |side: &BTreeMap<u128, u64>| side.values().sum::<u64>();
        assert_eq!(count(&theirs), count(&ours), "{name}: {at}: packets with {field:?}");
        let random =
            script.random.iter().find(|(of, random, ..)| *of == device && *random == field);
        let Some((_, _, low, high)) = random else {
            assert_eq!(theirs, ours, "{name}: {at}: {field:?}; pktgen and Wirebeat: {all:?}");
            continue;
        };
        let bounds = *low..=*high;
        for side in [&theirs, &ours] {
            let outside = side.keys().find(|value| !bounds.contains(value));
            assert_eq!(outside, None, "{name}: {at}: {field:?} in {bounds:?}");
            assert!(side.len() > 1, "{name}: {at}: {field:?} is not random: {side:?}");
        }
    }
}

fn the_same(script: &Script) {
    let bed = cable_to_a_program();
    let stations = lay(&bed, script.devices);
    let our_profiles = captured(&bed, script.devices, || ours(&bed, script, &stations));
    let their_profiles = captured(&bed, script.devices, || theirs(&bed, script));
    let mut packets = 0;
    for device in script.devices {
        compare(script, device, (&their_profiles[*device], &our_profiles[*device]));
        packets += their_profiles[*device][&Field::Length].values().sum::<u64>();
    }
    note(&format!(
        "pktgen's script {}: {packets} packets of {} device(s) are the same from pktgen and from Wirebeat",
        script.name,
        script.devices.len()
    ));
}

/// The script with some of its words replaced; each is there.
fn changed(text: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "there is no '{from}'");
        text.replace(from, to)
    })
}

#[test]
fn a_script_of_one_device_is_the_same() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::Pktgen,
        Capability::Program("bash")
    );
    // two CPUs, a virtual cable that sends no copies, and a rate that it takes
    let words = [
        ("kpktgend_3", "kpktgend_0"),
        ("count 2500000", "count 1500"),
        ("clone_skb 5000", "clone_skb 0"),
        ("delay 0", "delay 1000000"),
    ];
    let text = changed(SAMPLE, &words);
    the_same(&Script { name: "sample.sh", text, devices: &["ens5"], random: &[] });
}

#[test]
fn a_script_of_many_parameters_is_the_same() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::Pktgen,
        Capability::Program("bash")
    );
    // none that never ends or never begins; all at once at a rate that an emulated machine takes
    let words = [
        ("count 0", "count 800"),
        (" never double", " double"),
        ("set_it never \"delay 2147483647\"; set_it never \"dst 10.0.0.7\"\n", "\n"),
        ("ratep 10000", "delay 4000000"),
        ("rate 100\"", "delay 4000000\""),
        ("delay 8000", "delay 4000000"),
        ("delay 1000000", "delay 4000000"),
        ("delay 3000", "delay 4000000"),
        ("delay 5000", "delay 4000000"),
        ("delay 7000", "delay 4000000"),
        ("rate 1000\"", "delay 4000000\""),
        ("ratep 3", "delay 4000000"),
        ("\"burst 8\"", "\"burst 1\""),
        ("| sudo tee", "| tee"),
        // without it, pktgen takes the address of the link, and Wirebeat that of the route
        ("set_it six@1 \"dst6_min", "set_it six@1 \"src6 2001:db8::1\"; set_it six@1 \"dst6_min"),
    ];
    let text = changed(PARAMETERS, &words);
    the_same(&Script {
        name: "parameters.sh",
        text,
        devices: &["vlan", "mpls", "six", "mix", "list", "random", "rate", "double"],
        random: &[
            // with priority 5 and the drop bit
            ("vlan", Field::Vlan, 0xb000, 0xbfff),
            ("vlan", Field::DestinationMac, 0x0200_0000_0100, 0x0200_0000_0107),
            ("mpls", Field::LastLabel, 0, 0xf_ffff),
            ("double", Field::LastLabel, 0, 0xf_ffff),
            ("mix", Field::Length, 60, 1514),
            ("random", Field::Length, 60, 1513),
            ("list", Field::Destination, 0x0a00_0004, 0x0a00_00c7),
            ("six", Field::Destination, SIX, SIX + 0xffff),
        ],
    });
}

#[test]
fn a_script_of_several_threads_is_the_same() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::Pktgen,
        Capability::Program("bash")
    );
    // each destination's flow once, which are 128 of 20 packets
    let words = [("AMOUNT=0", "AMOUNT=2560"), ("\"delay $DELAY\"", "\"delay 2000000\"")];
    let text = changed(THREADS, &words);
    the_same(&Script {
        name: "threads.sh",
        text,
        devices: &["ens7"],
        random: &[
            ("ens7", Field::Source, 0xc633_6400, 0xc633_64fe),
            ("ens7", Field::DestinationPort, 7000, 7098),
        ],
    });
}
