//! Our sender and the real ITGRecv; ITGDec reads its log and ours.

use std::net::SocketAddr;

use wirebeat_ditg::control::{FlowFault, Meter, Transport};
use wirebeat_ditg::result::{FlowEnd, LoadEnd, LoadResult};
use wirebeat_ditg::{Amount, Error, FlowSpec, LogFile, client};
use wirebeat_meter::session::SessionTime;
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_units::{FrameRate, Nanos};

use crate::world::{Decoded, Log, PATIENCE, bed, decoded, is_near, itg_recv, until};

macro_rules! require_d_itg {
    () => {
        require!(
            Capability::NetworkNamespaces,
            Capability::Program("ITGRecv"),
            Capability::Program("ITGDec")
        );
    };
}

fn rate(frames: u64) -> Option<FrameRate> {
    Some(FrameRate { frames, per: Nanos::from_secs(1) })
}

fn run(bed: &Testbed, spec: &FlowSpec, log: Option<&Log>) -> Result<LoadResult, Error> {
    let receiver = SocketAddr::from(([127, 0, 0, 1], 9000));
    let log = log.map(|log| LogFile::create(log.path()).unwrap());
    bed.a.namespace.run(|| client::run(receiver, spec, log, &|| false, &mut |_| {})).unwrap()
}

/// Sends flows to ITGRecv: what came of them, and what ITGDec reads from its log and from ours.
fn sent(spec: &FlowSpec) -> (LoadResult, Decoded, Decoded) {
    let bed = bed();
    let (theirs, ours) = (Log::new(), Log::new());
    let recv = itg_recv(&bed, &theirs);
    let result = run(&bed, spec, Some(&ours)).unwrap();
    recv.interrupt();
    recv.wait(PATIENCE).unwrap();
    let (theirs, ours) = (decoded(&bed, &theirs), decoded(&bed, &ours));
    assert_eq!(result.end, LoadEnd::Completed, "{spec:?}");
    let all = |of: fn(&wirebeat_ditg::FlowResult) -> u64| result.flows.iter().map(of).sum::<u64>();
    for (whose, log) in [("theirs", theirs), ("ours", ours)] {
        let (flows, dropped) = (result.flows.len() as u64, 0);
        assert_eq!((log.flows, log.dropped), (flows, dropped), "{whose}: {log:?} {spec:?}");
        assert_eq!(
            (log.packets, log.bytes),
            (all(|f| f.packets), all(|f| f.bytes)),
            "{whose}: {spec:?}"
        );
    }
    (result, theirs, ours)
}

#[test]
fn itgrecv_logs_what_we_say_that_we_sent() {
    require_d_itg!();
    for transport in [Transport::Udp, Transport::Tcp] {
        let amount = Amount::Time(Nanos::from_millis(500));
        let usual = FlowSpec { transport, rate: rate(200), amount, ..FlowSpec::default() };
        let (result, theirs, ours) = sent(&FlowSpec { size: 100, ..usual });
        let flow = &result.flows[0];
        assert_eq!((flow.packets, flow.bytes), (100, 10_000));
        // by one clock: packets arrive after they were sent
        assert!(theirs.delays[0] >= 0.0 && theirs.delays[1] < 1.0, "{theirs:?}");
        assert_eq!(ours.delays[1], 0.0);
        let spec = FlowSpec { flows: 3, size: 1000, ds: 184, data_port: 10_001, ..usual };
        let (result, ..) = sent(&spec);
        assert!(result.flows.iter().all(|flow| flow.packets == 100), "{result:?}");
    }
}

#[test]
fn round_trips_are_as_our_log_says() {
    require_d_itg!();
    for transport in [Transport::Udp, Transport::Tcp] {
        let (meter, amount) = (Meter::RoundTrip, Amount::Packets(80));
        let spec = FlowSpec { transport, meter, amount, rate: rate(200), ..FlowSpec::default() };
        let (result, _, ours) = sent(&spec);
        let summary = &result.flows[0].summary;
        let counts = summary.counts;
        assert_eq!((counts.requests, counts.responses, counts.lost_responses), (80, 80, 0));
        assert_eq!(counts.delivered_bytes, 80 * 512);
        let actual = summary.time(SessionTime::Response).actual.moments;
        // the header has whole microseconds, and is written shortly before
        let mean = actual.sum as f64 / actual.count as f64;
        assert!((ours.delays[2] * 1e9 - mean).abs() < 50_000.0, "{ours:?}, {mean} ns");
        assert!(is_near(ours.delays[0], actual.min as f64) || actual.min < 50_000_000);
        let planned = &summary.time(SessionTime::Response).planned.moments;
        assert!(planned.min >= actual.min && planned.count == 80);
    }
}

#[test]
fn a_stream_goes_as_fast_as_it_can() {
    require_d_itg!();
    let amount = Amount::Packets(20_000);
    let (result, ..) = sent(&FlowSpec {
        transport: Transport::Tcp,
        rate: None,
        amount,
        size: 2_000,
        ..FlowSpec::default()
    });
    assert_eq!(result.flows[0].bytes, 40_000_000);
}

#[test]
fn what_itgrecv_does_not_take_is_told() {
    require_d_itg!();
    let bed = bed();
    let nobody = run(&bed, &FlowSpec::default(), None).unwrap_err();
    assert!(nobody.fault().to_string().contains("does ITGRecv run there?"), "{nobody}");
    let log = Log::new();
    let recv = itg_recv(&bed, &log);
    // the port is somebody else's
    let _taken = bed.a.namespace.run(|| std::net::TcpListener::bind("0.0.0.0:8999").unwrap());
    let refused = run(&bed, &FlowSpec { transport: Transport::Tcp, ..FlowSpec::default() }, None);
    let is_bind = matches!(refused, Err(Error::FlowRefused { flow: 1, why: FlowFault::Bind }));
    assert!(is_bind, "{refused:?}");
    recv.interrupt();
    recv.wait(PATIENCE).unwrap();
}

#[test]
fn a_receiver_that_dies_ends_the_flows() {
    require_d_itg!();
    let bed = bed();
    let log = Log::new();
    let recv = itg_recv(&bed, &log);
    let spec = FlowSpec { rate: rate(100), ..FlowSpec::default() };
    let result = std::thread::scope(|scope| {
        let sending = scope.spawn(|| run(&bed, &spec, None).unwrap());
        until("packets arrive", || std::fs::metadata(log.path()).is_ok_and(|of| of.len() > 0));
        recv.interrupt();
        recv.wait(PATIENCE).unwrap();
        sending.join().unwrap()
    });
    assert!(matches!(result.end, LoadEnd::Failed(_)), "{:?}", result.end);
    assert_eq!(result.flows[0].end, FlowEnd::ClosedEarly, "{:?}", result.end);
    assert!(result.flows[0].packets < 1000);
}
