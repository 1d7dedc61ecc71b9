//! Scratch: throughput and pacing of the kernel engine between two namespaces.
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::port::*;
use wirebeat_engine_linux::kernel::*;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::*;
use wirebeat_units::Nanos;
use wirebeat_wire::stamp::Stamp;

fn frame() -> Vec<u8> {
    let mut f = vec![0u8; 60];
    f[0..6].copy_from_slice(&[0xff; 6]);
    f[12] = 8;
    f[14] = 0x45;
    f[17] = 46;
    f[22] = 64;
    f[23] = 17;
    f[26..30].copy_from_slice(&[10, 9, 9, 1]);
    f[30..34].copy_from_slice(&[10, 9, 9, 2]);
    f[37] = 9;
    f[36] = 0;
    f[39] = 26;
    f[44] = 0x57;
    f[45] = 0x42;
    f
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let idx: u32 = a[1].parse().unwrap();
    let far: u32 = a[3].parse().unwrap();
    let rate: u64 = a[4].parse().unwrap(); // 0 flat
    let wait = match a[5].as_str() {
        "spin" => Wait::Spin,
        "hybrid" => Wait::Hybrid,
        _ => Wait::Sleep,
    };
    let stream = a[6] == "stream";
    let secs: u64 = a[7].parse().unwrap();
    let ns = std::fs::File::open(&a[2]).unwrap();
    let gap = if rate > 0 { 1_000_000_000 / rate } else { 0 };
    let rx = std::thread::spawn(move || {
        rustix::thread::move_into_link_name_space(
            ns.as_fd(),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .unwrap();
        let exp = Expectation { nominal_gap: (gap > 0).then(|| Nanos::new(gap)), delay_base: 0 };
        KernelReceiver::open(&ReceiveOptions {
            index: far,
            interface: "wb1".into(),
            meter: MeterConfig {
                flows: Flows::Expected(BTreeMap::from([(0, exp)])),
                ..Default::default()
            },
            unprobed_gap: None,
            fate: Fate::Drop,
            several_queues: false,
        })
        .unwrap()
    })
    .join()
    .unwrap();
    let round = if stream { 0 } else { 1 };
    let plan = TxPlan { tags: 1, frame_max: 60, frame_len: Some(60), paced: rate > 0, round };
    let mut port = KernelPort::open(KernelOptions {
        index: idx,
        interface: "wb0".into(),
        plan,
        wait,
        cpu: Some(0),
        sequences: None,
        egress_program: false,
        link: None,
    })
    .unwrap();
    let f = frame();
    let stamp = Stamp { probe_at: 44, checksum_at: 0, identification_at: 0 };
    let clock = MonotonicClock;
    let start = clock.now().saturating_add(Nanos::from_millis(20));
    let t0 = Instant::now();
    if !stream {
        port.reserve(1).unwrap();
        port.slot(0)[..60].copy_from_slice(&f);
        port.commit(&[TxMeta { len: 60, tag: 0, launch: Nanos::ZERO, stamp, drift: Nanos::MAX }])
            .unwrap();
        let limit = if rate > 0 { rate * secs } else { u64::MAX };
        port.repeat(&Repeat {
            start,
            length_q32: (gap as u128) << 32,
            limit,
            stop: start.saturating_add(Nanos::from_secs(secs)),
        })
        .unwrap();
        std::thread::sleep(Duration::from_secs(secs));
        port.drain(clock.now().saturating_add(Nanos::from_millis(100))).unwrap();
    } else {
        wirebeat_pin(1);
        let end = Instant::now() + Duration::from_secs(secs);
        let mut i = 0u64;
        let mut metas = Vec::new();
        while Instant::now() < end {
            let n = port.reserve(64).unwrap().min(64);
            metas.clear();
            for k in 0..n {
                port.slot(k)[..60].copy_from_slice(&f);
                let launch = if rate > 0 { Nanos::new(start.get() + i * gap) } else { Nanos::ZERO };
                metas.push(TxMeta { len: 60, tag: 0, launch, stamp, drift: Nanos::MAX });
                i += 1;
            }
            port.commit(&metas).unwrap();
            if n == 0 {
                std::hint::spin_loop();
            }
        }
    }
    let el = t0.elapsed();
    port.stop().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let mut t = [TxTotals::default()];
    port.totals(&mut t);
    let s = rx.summary();
    let d = port.departures(0);
    println!("{:?} in {el:?}", t[0]);
    if let Some(f) = s.flows.get(&0) {
        let span = f.span.unwrap();
        println!(
            "rx {} unique {} dup {} reord {} rate {:.4} Mpps; cpu {:?}",
            f.frames,
            f.sequence.unique,
            f.sequence.duplicates,
            f.sequence.reordered,
            (f.frames - 1) as f64 * 1e3 / (span.1 - span.0) as f64,
            rustix::process::getpid()
        );
        for (n, d) in [
            ("delay", &f.delay),
            ("var", &f.delay_variation),
            ("iat", &f.inter_arrival),
            ("gaperr", &f.gap_error),
            ("late", &d.error),
        ] {
            println!(
                "{n:8} p50 {:?} p99 {:?} p99.9 {:?} max {} mean {:?}",
                d.quantile(0.5),
                d.quantile(0.99),
                d.quantile(0.999),
                d.moments.max,
                d.moments.sum.checked_div(d.moments.count as i128)
            );
        }
    }
    println!(
        "foreign {} malformed {} unknown {} stale {}",
        s.foreign, s.malformed, s.unknown_flow, s.stale
    );
}
fn wirebeat_pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}
