//! Frames that are really lost on the way, on every engine: what is counted as lost is what was taken out, to the frame.

use std::time::Duration;

use wirebeat_engine::loopback::Link;
use wirebeat_report::model::{FlowReport, Report};
use wirebeat_run::{Codec, Options as RunOptions, ReceiveRequest, Silent, Stop, prepare};
use wirebeat_testbed::{
    Addressing, Capability, Neighbours, Offload, Offloads, Options, Program, Testbed, require,
};
use wirebeat_traffic::scenario::{EngineChoice, Scenario};
use wirebeat_units::Nanos;

use crate::interop::{receiver, while_receiving};
use crate::world::{Engine, balanced, ports, run};

/// Of each so many frames in memory one is lost.
const LOSE_EVERY: u64 = 7;

/// A place where frames are lost, and its own count of them.
pub(crate) enum Way {
    /// The link in memory, which leaves out every nth frame.
    Memory,
    /// A bridge whose port to the receiver sends 8 Mbit/s and keeps 20 kB (`tbf`); what comes in faster is dropped.
    Narrow(Box<Testbed>),
}

/// Packets that left the narrow port, and that were dropped there.
type Counted = (u64, u64);

/// Two ends of a bridge that every engine can use, and no frame on it but those of a test: the port to the receiver is `p1`.
pub(crate) fn bridged() -> Testbed {
    let off = Offload::Off;
    let offloads = Offloads { gro: off, gso: off, tso: off, ..Offloads::default() };
    let options = Options {
        addressing: Addressing::V4,
        neighbours: Neighbours::Fixed,
        offloads,
        ..Options::default()
    };
    let bed = Testbed::bridge(2, &options).unwrap();
    let mut netlink = wirebeat_netlink::Netlink::open_in(bed.device.as_ref().unwrap()).unwrap();
    // what the kernel engine sends is taken by a port that receives by NAPI
    let port = netlink.link_by_name("p0").unwrap().index;
    netlink.set_features(port, &[("rx-gro", true)]).unwrap();
    // datagrams that leave joined would be dropped as one
    let near = &bed.a;
    let joined = [("tx-udp-segmentation", false)];
    near.netlink().unwrap().set_features(near.link.index, &joined).unwrap();
    bed
}

impl Way {
    pub(crate) fn on(engine: Engine) -> Way {
        if engine == Engine::Loopback {
            return Way::Memory;
        }
        let bed = bridged();
        let bridge = bed.device.clone().unwrap();
        let tbf = "qdisc add dev p1 root tbf rate 8mbit burst 5kb limit 20kb".split(' ');
        let made = Program::new(&bridge, "tc").args(tbf).output(Duration::from_secs(20)).unwrap();
        assert!(made.status.success(), "{made:?}");
        Way::Narrow(Box::new(bed))
    }

    fn bed(&self) -> Option<&Testbed> {
        match self {
            Way::Memory => None,
            Way::Narrow(bed) => Some(bed),
        }
    }

    fn counted(&self) -> Counted {
        let Way::Narrow(bed) = self else { return (0, 0) };
        let tc = Program::new(bed.device.as_ref().unwrap(), "tc");
        let tc = tc.args(["-s", "qdisc", "show", "dev", "p1"]);
        let shown = tc.output(Duration::from_secs(20)).unwrap().stdout;
        // "Sent 5000 bytes 5 pkt (dropped 1, overlimits 3 requeues 0)"
        let after = |what: &str| shown.split_once(what).unwrap().1;
        let number = |text: &str| -> u64 {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or_else(|_| panic!("{shown}"))
        };
        (number(after(" bytes ")), number(after("(dropped ")))
    }

    /// Runs a flow of so many frames over it; the report, and how many were lost.
    pub(crate) fn run(&self, engine: Engine, flow: &str) -> (Report, u64) {
        let text = format!("{}flows:\n  x: {{ from: a, to: b, {flow} }}\n", ports(engine, ""));
        if self.bed().is_none() {
            let scenario = Scenario::from_yaml(&text, "test").unwrap();
            let loopback = Link { lose_every: LOSE_EVERY, ..Link::default() };
            let run = prepare(&scenario, RunOptions { loopback, ..RunOptions::default() }).unwrap();
            let report = run.start(&mut Silent, &Stop::new());
            let lost = sent(&report.flows[0]) / LOSE_EVERY;
            return (report, lost);
        }
        let before = self.counted();
        let report = run(&text, self.bed());
        let after = self.counted();
        let (left, lost) = (after.0 - before.0, after.1 - before.1);
        assert_eq!(left + lost, sent(&report.flows[0]), "of what was sent to the narrow port");
        (report, lost)
    }
}

fn sent(flow: &FlowReport) -> u64 {
    flow.sent.as_ref().unwrap().sent.frames
}

/// 16 Mbit/s where 8 have room.
const FAST: &str = "size: 1000B, rate: 2kpps, count: 600";

fn lost_frames_are_counted_to_the_frame(engine: Engine) {
    let way = Way::on(engine);
    let probed = "packet: [ { ipv4: {} }, { udp: {} } ]";
    let datagrams =
        "packet: [ { ipv4: {} }, { udp: { source: 5000, destination: 9003 } } ], probe: off";
    let syn = "packet: [ { ipv4: {} }, { tcp: { destination: 80, flags: syn } }, { payload: zeros } ], probe: off";
    let echo = "packet: [ { ipv4: {} }, { icmp: {} }, { payload: zeros } ], probe: off";
    let changing = "packet: [ { ipv4: { source: { increment: 10.1.0.1, count: 200 } } }, \
                    { tcp: { source: { increment: 1000, count: 30 } } }, { payload: zeros } ], probe: off";
    let other = "packet: [ { ethernet: { source: 02:00:00:00:00:01, destination: 02:00:00:00:00:02, type: 0x88b5 } }, \
                 { payload: zeros } ], probe: off";
    let all = [probed, datagrams, syn, echo, changing, other];
    // a socket sends datagrams
    let flows = if engine == Engine::Socket { &all[..2] } else { &all[..] };
    for flow in flows {
        let (report, lost) = way.run(engine, &format!("{flow}, {FAST}"));
        balanced(&report);
        let of = &report.flows[0];
        assert_eq!((sent(of), of.not_measured.as_ref()), (600, None), "{flow}");
        assert!(lost > 0 && lost < 600, "{flow}: {lost} of 600 were lost");
        let received = of.received.as_ref().unwrap();
        assert_eq!(of.loss.unwrap().frames, lost, "{flow}: {received:#?}");
        assert_eq!(received.received.frames, 600 - lost, "{flow}");
        assert_eq!(report.total.loss.unwrap().frames, lost, "{flow}");
        // and none where there is room for all
        if engine != Engine::Loopback {
            let (report, lost) =
                way.run(engine, &format!("{flow}, size: 100B, rate: 1kpps, count: 200"));
            balanced(&report);
            assert_eq!((lost, report.flows[0].loss.unwrap().frames), (0, 0), "{flow}");
        }
    }
}

#[test]
fn on_loopback() {
    lost_frames_are_counted_to_the_frame(Engine::Loopback);
}

#[test]
fn on_kernel() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    lost_frames_are_counted_to_the_frame(Engine::Kernel);
}

#[test]
fn on_packet() {
    require!(Capability::NetworkNamespaces);
    lost_frames_are_counted_to_the_frame(Engine::Packet);
}

#[test]
fn on_socket() {
    require!(Capability::NetworkNamespaces);
    lost_frames_are_counted_to_the_frame(Engine::Socket);
}

#[test]
fn what_is_still_on_its_way_is_waited_for_however_quiet_it_is() {
    let text = format!(
        "{}flows: {{ x: {{ from: a, to: b, rate: 10pps, size: 64B }} }}\nrun: {{ time: 1s, settle: 2s }}\n",
        ports(Engine::Loopback, "")
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    // several frames are on their way when the last leaves, further apart than it was waited for quiet
    let loopback = Link { delay: Nanos::from_millis(450), ..Link::default() };
    let run = prepare(&scenario, RunOptions { loopback, ..RunOptions::default() }).unwrap();
    let report = run.start(&mut Silent, &Stop::new());
    let flow = &report.flows[0];
    assert_eq!((sent(flow), flow.loss.as_ref().unwrap().frames), (10, 0));
}

/// They were lost without a word: the stack drops them before a socket sees them.
#[test]
fn datagrams_with_a_wrong_checksum_are_told_where_sockets_receive() {
    require!(Capability::NetworkNamespaces);
    let bed = crate::world::cable();
    let request = ReceiveRequest {
        engine: EngineChoice::Socket,
        interface: None,
        codecs: Vec::new(),
        ..receiver(&bed, Codec::Wirebeat, Some(9003))
    };
    let damaged = |checksum: &str| {
        let text = format!(
            "ports: {{ a: {{ interface: wb0, namespace: a, engine: packet }} }}\nflows:\n  x: {{ from: a, packet: \
             [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ destination: 9003, checksum: {checksum} }} }} ], rate: 1kpps, \
             count: 100 }}\n",
            bed.b.ipv4
        );
        let ((), report) = while_receiving(&request, || {
            balanced(&run(&text, Some(&bed)));
            ((), 0)
        });
        let told = report.findings.into_iter().find(|one| one.message.contains("InCsumErrors"));
        (report.total.received.map_or(0, |received| received.unique), told)
    };
    assert_eq!(damaged("true"), (100, None));
    let (arrived, told) = damaged("0x1234");
    // of 65,536 one has this checksum by chance
    assert!(arrived <= 1, "{arrived}");
    let told = told.unwrap().message;
    let dropped = 100 - arrived;
    assert!(told.contains(&format!("dropped {dropped} datagrams with a wrong checksum")), "{told}");
}
