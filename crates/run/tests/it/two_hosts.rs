//! A sender and a receiver that know of each other by the control connection only, each in a namespace
//! of its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use wirebeat_archive::time_series::{Device, Record, Timestamp, Writer};
use wirebeat_meter::filter::Filter;
use wirebeat_netlink::NewLink;
use wirebeat_report::model::{End, Interval, Relation, Report};
use wirebeat_run::options::KeySource;
use wirebeat_run::receive::{Listen, ReceiveRequest};
use wirebeat_run::{
    Lab, Observer, Options, Peer, Progress, RunError, Silent, Stop, prepare, receive,
};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{
    EngineChoice, OnLinkDown, PriorityChoice, RunSpec, Scenario, TimestampsChoice, XdpModeChoice,
};
use wirebeat_units::Nanos;
use wirebeat_wire::mac::MacAddr;

use crate::world::{balanced, cable};

/// What both ends know.
pub const KEY: &str = "correct-horse-battery-staple-4790";

/// Frames that [`send`] sends.
pub const SENT: u64 = 3000;

/// What a receiver at the far end is asked for, that serves one sender.
pub fn request(bed: &Testbed, engine: EngineChoice) -> ReceiveRequest {
    ReceiveRequest {
        link_timeout: RunSpec::DEFAULT_LINK_TIMEOUT,
        on_link_down: OnLinkDown::default(),
        timestamps: TimestampsChoice::default(),
        command_line: Vec::new(),
        interface: Some("wb1".to_owned()),
        namespace: None,
        namespaces: BTreeMap::new(),
        engine,
        filter: Filter { destination_port: Some(9000), ..Filter::default() },
        bins: None,
        flows: 16,
        promiscuous: false,
        pass: false,
        cores: Vec::new(),
        xdp_mode: XdpModeChoice::Auto,
        busy_poll: false,
        queues: 1,
        priority: PriorityChoice::default(),
        time: None,
        count: None,
        interval: Nanos::from_millis(100),
        listen: Some(Listen {
            address: SocketAddr::new(bed.b.ipv4.into(), 4790),
            key: Some(KeySource::Text(KEY.to_owned())),
            once: true,
            allow_send: None,
            allow_serve: None,
        }),
        codecs: Vec::new(),
        same_clock: false,
        expect: Vec::new(),
        log: None,
        capture: None,
        packet_log: None,
        ends_with_capture: false,
        groups: Vec::new(),
    }
}

/// Tells when the receiver listens.
struct Listening(mpsc::Sender<()>);

impl Observer for Listening {
    fn progress(&mut self, _progress: &Progress) {}

    fn notice(&mut self, message: &str) {
        if message.contains("listening") {
            let _ = self.0.send(());
        }
    }
}

/// Tells all that it is told.
struct Telling(mpsc::Sender<String>);

impl Observer for Telling {
    fn progress(&mut self, _progress: &Progress) {}

    fn notice(&mut self, message: &str) {
        let _ = self.0.send(message.to_owned());
    }
}

/// Sends [`SENT`] frames to UDP port 9000 of the far end.
pub fn send(bed: &Testbed, engine: &str, key: &str) -> Result<Report, RunError> {
    let flow = format!(
        "from: here, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ destination: 9000 }} }} ], rate: 10kpps, \
         count: {SENT}",
        bed.b.ipv4
    );
    send_scenario(bed, engine, &flow, key)
}

/// Sends one flow.
fn send_scenario(bed: &Testbed, engine: &str, flow: &str, key: &str) -> Result<Report, RunError> {
    let text = format!(
        "ports: {{ here: {{ interface: wb0, engine: {engine} }} }}\nflows:\n  far: {{ {flow} }}\n"
    );
    send_text(bed, &text, key)
}

fn send_text(bed: &Testbed, text: &str, key: &str) -> Result<Report, RunError> {
    send_observed(bed, text, key, &mut Silent)
}

fn send_observed(
    bed: &Testbed,
    text: &str,
    key: &str,
    observer: &mut dyn Observer,
) -> Result<Report, RunError> {
    let scenario = Scenario::from_yaml(text, "test").unwrap_or_else(|error| panic!("{error}"));
    let address = SocketAddr::new(bed.b.ipv4.into(), 4790);
    let peer = Some(Peer { address, key: Some(KeySource::Text(key.to_owned())) });
    let options = Options { peer, ..Options::default() };
    let mut prepared = prepare(&scenario, options)?;
    prepared.begin(&Stop::new())?;
    Ok(prepared.start(observer, &Stop::new()))
}

/// Both ends; the sender with `key`.
fn both(engine: EngineChoice, name: &str, key: &str) -> (Result<Report, RunError>, Report) {
    both_with(engine, |bed| send(bed, name, key))
}

/// Both ends, of which one sends as it is told.
fn both_with(
    engine: EngineChoice,
    send: impl FnOnce(&Testbed) -> Result<Report, RunError> + Send,
) -> (Result<Report, RunError>, Report) {
    let bed = cable();
    both_over(&bed, &request(&bed, engine), send)
}

/// Both ends of a cable.
pub fn both_over(
    bed: &Testbed,
    request: &ReceiveRequest,
    send: impl FnOnce(&Testbed) -> Result<Report, RunError> + Send,
) -> (Result<Report, RunError>, Report) {
    let stop = Stop::new();
    thread::scope(|scope| {
        let (listening, is_listening) = mpsc::channel();
        let stopped = stop.clone();
        let receiver = scope.spawn(move || {
            let work = || receive(request, &mut Listening(listening), &stopped);
            bed.b.namespace.run(work).unwrap().unwrap_or_else(|error| panic!("{error}"))
        });
        is_listening.recv_timeout(Duration::from_secs(20)).unwrap();
        let sent = bed.a.namespace.run(|| send(bed)).unwrap();
        // it ends by itself only once it has measured something
        if !sent.as_ref().is_ok_and(|report| report.end == End::Completed) {
            stop.ask(0);
        }
        (sent, receiver.join().unwrap())
    })
}

/// A lab has fifty runs measured on another host over one connection: the receiver there serves one sender and would not let it
/// connect again.
fn many_runs(engine: EngineChoice, name: &str) {
    const RUNS: u64 = 50;
    let text = |bed: &Testbed| {
        format!(
            "ports: {{ here: {{ interface: wb0, engine: {name} }} }}\nflows:\n  far: {{ from: here, packet: [ {{ ipv4: {{ \
             destination: {} }} }}, {{ udp: {{ destination: 9000 }} }} ], size: 64B, rate: 2kpps }}\nrun: {{ settle: 5ms, \
             interval: 10ms }}\n",
            bed.b.ipv4
        )
    };
    let (sent, received) = both_with(engine, |bed| {
        let scenario =
            Scenario::from_yaml(&text(bed), "test").unwrap_or_else(|error| panic!("{error}"));
        let address = SocketAddr::new(bed.b.ipv4.into(), 4790);
        let peer = Some(Peer { address, key: Some(KeySource::Text(KEY.to_owned())) });
        let mut lab = Lab::open(&scenario, Options { peer, ..Options::default() })?;
        let mut last = None;
        for run in 0..RUNS {
            // more frames each time, so that none is that of another run
            let time = Some(Nanos::from_millis(20 + run));
            let report = lab.run(scenario.flows.clone(), time, &mut Silent, &Stop::new())?;
            balanced(&report);
            assert_eq!(report.end, End::Completed, "run {run}: {:#?}", report.findings);
            let (sent, far) = (report.total.sent.as_ref(), report.total.received.as_ref());
            let (sent, far) = (sent.unwrap(), far.unwrap());
            // a machine that has no time for a sender sends less
            assert_eq!(sent.requested.frames, 40 + 2 * run);
            let sent = sent.sent.frames;
            assert_eq!(far.unique + report.flows[0].loss.unwrap().frames, sent);
            assert_eq!((far.duplicates, far.implausible), (0, 0), "run {run}");
            assert!(far.unique >= sent / 2, "run {run}: {} of {sent}", far.unique);
            last = Some(report);
        }
        Ok(last.unwrap())
    });
    let report = sent.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.receivers[0].interface.as_deref(), Some("wb1"));
    let far = received.flows[0].received.as_ref().unwrap();
    assert_eq!(far.unique, report.total.received.unwrap().unique);
    let served = format!("{RUNS} runs were served one after the other");
    assert!(
        received.findings.iter().any(|finding| finding.message.contains(&served)),
        "{received:#?}"
    );
}

#[test]
fn the_kernel_engine_measures_many_runs_on_another_host() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    many_runs(EngineChoice::Kernel, "kernel");
}

#[test]
fn the_packet_engine_measures_many_runs_on_another_host() {
    require!(Capability::NetworkNamespaces);
    many_runs(EngineChoice::Packet, "packet");
}

/// Two receivers at the far end: of UDP port 9000, at TCP port 4790, and of 9001 at 4791.
fn two_receivers(bed: &Testbed) -> [ReceiveRequest; 2] {
    [0, 1].map(|number| {
        let mut request = request(bed, EngineChoice::Packet);
        request.filter.destination_port = Some(9000 + number);
        request.listen.as_mut().unwrap().address.set_port(4790 + number);
        request
    })
}

/// A scenario whose flows `x0` and `x1` go to those; they are reached by these TCP ports.
fn to_two_receivers(bed: &Testbed, key: &str, reached: [u16; 2]) -> Scenario {
    let key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{key}.key"));
    std::fs::write(&key, KEY).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let port = |number: usize| {
        format!(
            "far{number}: {{ peer: '{}', key-file: '{}', addresses: [{}] }}",
            SocketAddr::new(bed.b.ipv4.into(), reached[number]),
            key.display(),
            bed.b.ipv4
        )
    };
    let flow = |number: u16, rate: &str| {
        format!(
            "  x{number}: {{ from: here, to: far{number}, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: {} }} }} ], rate: \
             {rate} }}\n",
            9000 + number
        )
    };
    let text = format!(
        "ports: {{ here: {{ interface: wb0, engine: packet }}, {}, {} }}\nflows:\n{}{}run: {{ interval: 20ms }}\n",
        port(0),
        port(1),
        flow(0, "1kpps"),
        flow(1, "2kpps")
    );
    Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// A receiver in the far namespace that listens by now.
fn listen<'scope>(
    scope: &'scope Scope<'scope, '_>,
    bed: &'scope Testbed,
    request: &'scope ReceiveRequest,
    stop: &Stop,
) -> ScopedJoinHandle<'scope, Report> {
    let (listening, is_listening) = mpsc::channel();
    let stopped = stop.clone();
    let receiver = scope.spawn(move || {
        let work = || receive(request, &mut Listening(listening), &stopped);
        bed.b.namespace.run(work).unwrap().unwrap_or_else(|error| panic!("{error}"))
    });
    is_listening.recv_timeout(Duration::from_secs(20)).unwrap();
    receiver
}

/// A connection at the far end that is handed on, until it is cut.
struct Relay(Arc<Mutex<Vec<TcpStream>>>);

impl Relay {
    /// Hands on what comes to the TCP port `from` to `to`.
    fn open(bed: &Testbed, from: u16, to: u16) -> Relay {
        let at = |port: u16| SocketAddr::new(bed.b.ipv4.into(), port);
        let listener = bed.b.namespace.run(|| TcpListener::bind(at(from)).unwrap()).unwrap();
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (kept, namespace, to) = (Arc::clone(&streams), bed.b.namespace.clone(), at(to));
        thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = namespace.run(|| TcpStream::connect(to).unwrap()).unwrap();
            for (mut from, mut to) in [(&near, &far), (&far, &near)]
                .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
            {
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
            kept.lock().unwrap().extend([near, far]);
        });
        Relay(streams)
    }

    fn cut(&self) {
        for stream in self.0.lock().unwrap().iter() {
            // one that is closed already is cut, too
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Cuts the connection once an interval has told of frames of `x1`.
struct Cutting<'a>(&'a Relay);

impl Observer for Cutting<'_> {
    fn progress(&mut self, _progress: &Progress) {}

    fn interval(&mut self, interval: &Interval) {
        let mut flows = interval.flows.iter().filter(|flow| flow.name == "x1");
        let received = flows.find_map(|flow| flow.received.as_ref());
        if received.is_some_and(|received| received.unique > 0) {
            self.0.cut();
        }
    }
}

/// What a receiver of several told before it was lost is no measurement: its flow is neither received nor lost, and the other
/// one is measured as ever.
#[test]
fn a_receiver_of_several_that_is_lost_measures_nothing() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let requests = two_receivers(&bed);
    let scenario = to_two_receivers(&bed, "lost-receiver", [4790, 4792]);
    let relay = Relay::open(&bed, 4792, 4791);
    let stop = Stop::new();
    let report = thread::scope(|scope| {
        let receivers = requests.each_ref().map(|request| listen(scope, &bed, request, &stop));
        let run = || {
            let mut lab = Lab::open(&scenario, Options::default())?;
            let time = Some(Nanos::from_secs(4));
            lab.run(scenario.flows.clone(), time, &mut Cutting(&relay), &Stop::new())
        };
        let report = bed.a.namespace.run(run).unwrap();
        stop.ask(0);
        receivers.into_iter().for_each(|receiver| drop(receiver.join().unwrap()));
        report.unwrap_or_else(|error| panic!("{error}"))
    });
    balanced(&report);
    let gone = SocketAddr::new(bed.b.ipv4.into(), 4792).to_string();
    assert_eq!(report.end, End::PeerGone { peer: gone }, "{:#?}", report.findings);
    let [x0, x1] = &report.flows[..] else { panic!("{:#?}", report.flows) };
    assert!(x1.sent.as_ref().unwrap().sent.frames > 0);
    assert!(x1.received.is_none() && x1.loss.is_none(), "{x1:#?}");
    let sent = x0.sent.as_ref().unwrap().sent.frames;
    let unique = x0.received.as_ref().unwrap().unique;
    assert!(unique > 0 && unique + x0.loss.unwrap().frames == sent, "{unique} of {sent}");
    let of = |name: &'static str| {
        let flows = report.intervals.iter().flat_map(|interval| &interval.flows);
        flows.filter(move |flow| flow.name == name)
    };
    assert!(of("x1").any(|flow| flow.sent.is_some_and(|sent| sent.frames > 0)));
    assert!(of("x1").all(|flow| flow.received.is_none() && flow.lost.is_none()));
    assert!(of("x0").any(|flow| flow.received.as_ref().is_some_and(|it| it.unique > 0)));
}

/// Two ports of a scenario, each with a receiver of its own on the other host, in several runs of a lab.
#[test]
fn each_port_has_its_own_receiver_on_another_host() {
    require!(Capability::NetworkNamespaces);
    const RUNS: u64 = 5;
    let bed = cable();
    let requests = two_receivers(&bed);
    let scenario = to_two_receivers(&bed, "two-receivers", [4790, 4791]);
    let stop = Stop::new();
    let (reports, received) = thread::scope(|scope| {
        let receivers = requests.each_ref().map(|request| listen(scope, &bed, request, &stop));
        let runs = || {
            let mut lab = Lab::open(&scenario, Options::default())?;
            (0..RUNS)
                .map(|run| {
                    let flows = scenario.flows.clone().into_iter();
                    // one of the receivers rests in a run
                    let flows = flows.filter(|(name, _)| run != 2 || name == "x1");
                    lab.run(flows, Some(Nanos::from_millis(100)), &mut Silent, &Stop::new())
                })
                .collect::<Result<Vec<_>, RunError>>()
        };
        let reports = bed.a.namespace.run(runs).unwrap();
        if reports.is_err() {
            stop.ask(0);
        }
        (reports, receivers.map(|receiver| receiver.join().unwrap()))
    });
    for (run, report) in reports.unwrap_or_else(|error| panic!("{error}")).iter().enumerate() {
        balanced(report);
        assert_eq!(report.end, End::Completed, "run {run}: {:#?}", report.findings);
        let expected: &[(&str, u64)] =
            if run == 2 { &[("x1", 200)] } else { &[("x0", 100), ("x1", 200)] };
        assert_eq!(report.receivers.len(), expected.len());
        for (flow, (name, frames)) in report.flows.iter().zip(expected) {
            assert_eq!(
                (flow.name.as_str(), flow.sent.as_ref().unwrap().sent.frames),
                (*name, *frames)
            );
            let far = flow.received.as_ref().unwrap();
            assert_eq!(far.unique + flow.loss.unwrap().frames, *frames, "run {run}, {name}");
            assert!(far.unique > frames / 2, "run {run}, {name}: {}", far.unique);
        }
        assert_eq!(report.delay_clock.as_ref().unwrap().relation, Relation::Same);
    }
    for (report, frames) in received.iter().zip([100, 200]) {
        let unique = report.total.received.as_ref().unwrap().unique;
        assert!(unique > frames / 2 && unique <= frames, "{unique} of {frames}");
    }
}

/// How many intervals with arrivals were told before the last look at a run.
#[derive(Default)]
struct WhileRunning {
    told: usize,
    before_the_end: Option<usize>,
}

impl Observer for WhileRunning {
    fn progress(&mut self, progress: &Progress) {
        if progress.ended {
            self.before_the_end.get_or_insert(self.told);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        let received = interval.total.received.as_ref();
        self.told += usize::from(received.is_some_and(|received| received.unique > 0));
    }
}

/// What arrives on another host in an interval is known while the run goes on, and not from the result at its end.
#[test]
fn intervals_of_another_host_come_while_a_run_lasts() {
    require!(Capability::NetworkNamespaces);
    let (sent, _) = both_with(EngineChoice::Packet, |bed| {
        let text = format!(
            "ports: {{ here: {{ interface: wb0, engine: packet }} }}\nflows:\n  far: {{ from: here, packet: [ {{ ipv4: {{ \
             destination: {} }} }}, {{ udp: {{ destination: 9000 }} }} ], rate: 1kpps }}\nrun: {{ time: 2s, interval: 50ms \
             }}\n",
            bed.b.ipv4
        );
        let mut observer = WhileRunning::default();
        let report = send_observed(bed, &text, KEY, &mut observer)?;
        let told = observer.before_the_end.unwrap();
        // 40 in all, the last of which are told at the end
        assert!(told >= 5, "{told} of {} were told in time", observer.told);
        Ok(report)
    });
    balanced(&sent.unwrap_or_else(|error| panic!("{error}")));
}

fn check(engine: EngineChoice, name: &str) {
    let (sent, received) = both(engine, name, KEY);
    let report = sent.unwrap_or_else(|error| panic!("{error}"));
    balanced(&report);
    assert_eq!(report.end, End::Completed, "{:#?}", report.findings);
    assert_eq!(report.receivers.len(), 1);
    assert_eq!(report.receivers[0].interface.as_deref(), Some("wb1"));
    let far = report.flows[0].received.as_ref().unwrap();
    assert_eq!((far.unique, far.duplicates), (3000, 0));
    // both are on one host, and the connection finds that out
    assert_eq!(report.delay_clock.as_ref().unwrap().relation, Relation::Same);
    let delay = far.one_way_delay_ns.as_ref().unwrap();
    assert_eq!(delay.count, 3000);
    assert!(delay.min.unwrap() >= 0);
    assert_eq!(received.flows[0].received.as_ref().unwrap().unique, 3000);
}

#[test]
fn kernel_engines_on_two_hosts_make_one_report() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    check(EngineChoice::Kernel, "kernel");
}

#[test]
fn packet_engines_on_two_hosts_make_one_report() {
    require!(Capability::NetworkNamespaces);
    check(EngineChoice::Packet, "packet");
}

#[test]
fn socket_engines_on_two_hosts_make_one_report() {
    require!(Capability::NetworkNamespaces);
    check(EngineChoice::Socket, "socket");
}

/// Each device of a recording is a flow of its own for the receiver.
#[test]
fn devices_are_measured_on_another_host() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("two-hosts.wbar");
    let mut writer = Writer::new(Vec::new());
    for n in 0..3000_u32 {
        let time = Timestamp::utc(i64::from(n) * 50).unwrap();
        let device = format!("d{}", n % 15).parse::<Device>().unwrap();
        writer.write(&Record { time, device, data: &n.to_be_bytes() }).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let send = || {
        let path = path.clone();
        move |bed: &Testbed| {
            let flow = format!(
                "from: here, probe: on, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ destination: 9000 }} \
                 }} ], replay: {{ archive: '{}', statistics: device }}",
                bed.b.ipv4,
                path.display()
            );
            send_scenario(bed, "packet", &flow, KEY)
        }
    };
    let (sent, received) = both_with(EngineChoice::Packet, send());
    let report = sent.unwrap_or_else(|error| panic!("{error}"));
    balanced(&report);
    let members = report.flows[0].members.as_ref().unwrap();
    assert_eq!(members.flows.len(), 15);
    assert!(members.flows.iter().all(|member| member.received.as_ref().unwrap().unique == 200));
    assert_eq!(report.flows[0].received.as_ref().unwrap().unique, 3000);
    let total = received.total.received.as_ref().unwrap();
    assert_eq!((total.unique, received.flows.len()), (3000, 16));
    let archived = std::fs::read(&path).unwrap();
    // one more than it takes
    let more = Record {
        time: Timestamp::utc(1_000_000).unwrap(),
        device: "x".parse().unwrap(),
        data: b"",
    };
    let mut writer = Writer::new(archived);
    writer.write(&more).unwrap();
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let (sent, _) = both_with(EngineChoice::Packet, send());
    let error = sent.err().unwrap();
    let why = error.to_string();
    assert_eq!(error.exit_code(), 3, "{why}");
    assert!(why.contains("measures at most 16 flows, and 17 are to be sent; let it take more with 'receive --flows 17'"), "{why}");
}

/// A second cable between the two ends of a testbed, with addresses that know each other.
fn lay_second_cable(bed: &Testbed) {
    let [near, far] = ["wx0", "wx1"].map(|name| NewLink {
        name: name.to_owned(),
        mac: Some(MacAddr([2, 0x77, 0x62, 1, 0, name.as_bytes()[2] - b'0'])),
        mtu: 1500,
        queues: 1,
    });
    bed.a.netlink().unwrap().add_veth(&near, &far, &bed.b.namespace).unwrap();
    for (end, own, other, host) in [(&bed.a, &near, &far, 1), (&bed.b, &far, &near, 2)] {
        let mut netlink = end.netlink().unwrap();
        let link = netlink.link_by_name(&own.name).unwrap().index;
        netlink.set_up(link).unwrap();
        netlink.add_address(link, Ipv4Addr::new(10, 78, 0, host).into(), 24).unwrap();
        let neighbour = Ipv4Addr::new(10, 78, 0, 3 - host).into();
        netlink.add_neighbour(link, neighbour, other.mac.unwrap()).unwrap();
    }
}

/// A listening receiver measures again after its interface was deleted and made anew.
fn survives_its_interface(engine: EngineChoice, name: &str) {
    let bed = cable();
    lay_second_cable(&bed);
    let stop = Stop::new();
    thread::scope(|scope| {
        let (told, notices) = mpsc::channel();
        let (bed, stopped) = (&bed, stop.clone());
        let receiver = scope.spawn(move || {
            let mut request = request(bed, engine);
            request.interface = Some("wx1".to_owned());
            request.listen.as_mut().unwrap().once = false;
            let work = || receive(&request, &mut Telling(told), &stopped);
            bed.b.namespace.run(work).unwrap().map_err(|error| error.to_string())
        });
        let wait_for = |text: &str| {
            let patience = Duration::from_secs(20);
            while !notices.recv_timeout(patience).unwrap().contains(text) {}
        };
        wait_for("listening");
        for round in 0..2 {
            if round > 0 {
                let mut netlink = bed.a.netlink().unwrap();
                let link = netlink.link_by_name("wx0").unwrap().index;
                netlink.delete_link(link).unwrap();
                wait_for("was deleted");
                lay_second_cable(bed);
                wait_for("is there again");
            }
            let text = format!(
                "ports: {{ here: {{ interface: wx0, engine: {name} }} }}\nflows:\n  far: {{ from: here, packet: [ {{ \
                 ipv4: {{ destination: 10.78.0.2 }} }}, {{ udp: {{ destination: 9000 }} }} ], rate: 10kpps, count: 500 }}\n"
            );
            let report = bed.a.namespace.run(|| send_text(bed, &text, KEY)).unwrap();
            let report = report.unwrap_or_else(|error| panic!("round {round}: {error}"));
            balanced(&report);
            let far = report.flows[0].received.as_ref().unwrap();
            assert_eq!((far.unique, far.duplicates), (500, 0), "round {round}");
        }
        stop.ask(2);
        receiver.join().unwrap().unwrap();
    });
}

#[test]
fn a_listening_kernel_receiver_measures_after_its_interface_was_made_anew() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    survives_its_interface(EngineChoice::Kernel, "kernel");
}

#[test]
fn a_listening_packet_receiver_measures_after_its_interface_was_made_anew() {
    require!(Capability::NetworkNamespaces);
    survives_its_interface(EngineChoice::Packet, "packet");
}

#[test]
fn nothing_is_sent_with_a_wrong_key() {
    require!(Capability::NetworkNamespaces);
    let (sent, received) =
        both(EngineChoice::Packet, "packet", "another-key-of-enough-length-here");
    let error = sent.err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("has another key"), "{error}");
    assert!(received.flows.is_empty() || received.flows[0].received.is_none());
}
