//! How fast the packet and socket engines send flat out, beside trafgen and iperf3 over the same cable.
//!
//! `cargo run --release -p wirebeat-engine-linux --example flood [rounds [part of a row's name]]` lays its own cable, needs root
//! (or a user namespace), and two CPUs for the rows with two cores. Each round runs every row once; the
//! table shows medians. Frames are 64 bytes long, built from a template and stamped like the drive
//! loop does.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Port, PortError, TxMeta, TxPlan};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::sink;
use wirebeat_engine_linux::packet::{PacketOptions, PacketPort, PacketReceive};
use wirebeat_engine_linux::socket::{
    Checksum, Endpoint, Gro, Joining, SocketOptions, SocketPort, SocketReceive, SocketTransmit,
};
use wirebeat_testbed::{End, Neighbours, Options, Testbed};
use wirebeat_units::Nanos;
use wirebeat_wire::probe;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TIME: Nanos = Nanos::from_millis(1_000);
const PORT: u16 = 5_000;
/// Bytes of payload of the shortest frame.
const PAYLOAD: u16 = 18;

/// Frames per second of wall time, and per second of the sending threads' CPU time.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    wall: f64,
    cpu: f64,
    /// What arrived, as a share of what was sent.
    arrived: f64,
}

fn main() -> Outcome<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |rounds| rounds.parse())?;
    let part = std::env::args().nth(2).unwrap_or_default();
    let cable = Testbed::pair(&Options { neighbours: Neighbours::Fixed, ..Options::default() })?;
    let mut table: BTreeMap<(usize, &str), Vec<Rate>> = BTreeMap::new();
    for _ in 0..rounds {
        let rows = ROWS.iter().enumerate().filter(|(_, row)| row.0.contains(&part));
        for (index, (name, measure)) in rows {
            match measure(&cable) {
                Ok(rate) => table.entry((index, name)).or_default().push(rate),
                Err(error) => eprintln!("{name}: {error}"),
            }
        }
    }
    println!("{:<58} {:>12} {:>14} {:>8}", "", "frames/s", "per CPU second", "arrived");
    for ((_, name), mut rates) in table {
        rates.sort_by(|a, b| a.wall.total_cmp(&b.wall));
        let median = rates[rates.len() / 2];
        let (wall, cpu, arrived) = (median.wall, median.cpu, median.arrived * 100.0);
        println!("{name:<58} {wall:>12.0} {cpu:>14.0} {arrived:>7.1}%");
    }
    Ok(())
}

type Row = (&'static str, fn(&Testbed) -> Outcome<Rate>);

const ROWS: [Row; 14] = [
    ("into an XDP drop: trafgen, one process", |c| dropped(c, |_| trafgen(c, 1))),
    ("into an XDP drop: packet, one core", |c| dropped(c, |c| flood(&packet(c), 1, 64))),
    ("into an XDP drop: packet, one core, frame by frame", |c| {
        dropped(c, |c| flood(&packet(c), 1, 1))
    }),
    ("into an XDP drop: packet, two cores", |c| dropped(c, |c| flood(&packet(c), 2, 64))),
    ("into an XDP drop: socket, one core", |c| {
        dropped(c, |c| flood(&socket(c, Joining::Never), 1, 64))
    }),
    ("into an XDP drop: socket, two cores", |c| {
        dropped(c, |c| flood(&socket(c, Joining::Never), 2, 64))
    }),
    ("to a socket nobody reads: trafgen, one process", |c| unread(c, |_| trafgen(c, 1))),
    ("to a socket nobody reads: packet, one core", |c| unread(c, |c| flood(&packet(c), 1, 64))),
    ("to a packet receiver: packet, one core", |c| {
        let interface = c.b.interface().to_owned();
        let receive = Some(PacketReceive::default());
        let options = PacketOptions { interface, transmit: None, receive };
        read(c, || PacketPort::open(&options), |c| flood(&packet(c), 1, 64))
    }),
    ("to a reading receiver: iperf3", iperf3),
    ("to a reading receiver: socket, single datagrams", |c| {
        read(c, || listen(c, Gro::On), |c| flood(&socket(c, Joining::Never), 1, 64))
    }),
    ("to a reading receiver: socket, one by one", |c| {
        read(c, || listen(c, Gro::On), |c| flood(&socket(c, Joining::Never), 1, 1))
    }),
    ("to a reading receiver: socket, GSO, taken apart", |c| {
        read(c, || listen(c, Gro::Off), |c| flood(&socket(c, Joining::WhereSizesAllow), 1, 64))
    }),
    ("to a reading receiver: socket, GSO and GRO", |c| {
        read(c, || listen(c, Gro::On), |c| flood(&socket(c, Joining::WhereSizesAllow), 1, 64))
    }),
];

/// Opens a port.
type Opener<'a, P> = Box<dyn Fn() -> Result<P, PortError> + Sync + 'a>;

fn plan(frame_max: u16) -> TxPlan {
    TxPlan { tags: 1, frame_max, frame_len: Some(frame_max), paced: false, round: 0 }
}

fn packet(cable: &Testbed) -> (Opener<'_, PacketPort>, Vec<u8>) {
    let options = PacketOptions {
        interface: cable.a.interface().to_owned(),
        transmit: Some(plan(60)),
        receive: None,
    };
    (Box::new(move || PacketPort::open(&options)), template(cable))
}

fn socket(cable: &Testbed, joining: Joining) -> (Opener<'_, SocketPort>, Vec<u8>) {
    let endpoint = Endpoint {
        source: SocketAddr::new(cable.a.ipv4.into(), 0),
        destination: SocketAddr::new(cable.b.ipv4.into(), PORT),
        ttl: 64,
        tos: 0,
        checksum: Checksum::Sent,
    };
    let transmit = SocketTransmit { plan: plan(PAYLOAD), endpoints: vec![Some(endpoint)], joining };
    let options = SocketOptions { transmit: Some(transmit), ..SocketOptions::default() };
    (Box::new(move || SocketPort::open(&options)), vec![0; PAYLOAD.into()])
}

fn listen(cable: &Testbed, gro: Gro) -> Result<SocketPort, PortError> {
    let listen = vec![SocketAddr::new(cable.b.ipv4.into(), PORT)];
    let receive = Some(SocketReceive { listen, gro, ..SocketReceive::default() });
    SocketPort::open(&SocketOptions { receive, ..SocketOptions::default() })
}

/// Ethernet, IPv4 and UDP without checksum.
fn template(cable: &Testbed) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&cable.b.mac.octets());
    frame[6..12].copy_from_slice(&cable.a.mac.octets());
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0, 46]);
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&cable.a.ipv4.octets());
    frame[30..34].copy_from_slice(&cable.b.ipv4.octets());
    let sum = wirebeat_wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&PORT.to_be_bytes());
    frame[36..38].copy_from_slice(&PORT.to_be_bytes());
    frame[38..40].copy_from_slice(&[0, 26]);
    frame
}

fn inside<T: Send>(end: &End, work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    end.namespace.run(work)?
}

/// Sends flat out on the first `cores` CPUs in batches.
fn flood<P: Port>(
    (open, template): &(Opener<'_, P>, Vec<u8>),
    cores: usize,
    batch: usize,
) -> Outcome<(u64, Rate)> {
    let senders: Vec<_> = thread::scope(|scope| {
        let start = |cpu| scope.spawn(move || send(open()?, template, cpu, batch));
        let threads: Vec<_> = (0..cores).map(start).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a sender panicked")).collect()
    });
    let (mut all, mut rate) = (0, Rate::default());
    for sender in senders {
        let (sent, wall, cpu) = sender??;
        all += sent;
        rate.wall += sent as f64 / wall;
        rate.cpu += sent as f64 / cpu;
    }
    Ok((all, rate))
}

/// Sends for a while; returns frames, seconds and CPU seconds.
fn send<P: Port>(
    mut port: P,
    template: &[u8],
    cpu: usize,
    batch: usize,
) -> Outcome<(u64, f64, f64)> {
    affinity::pin(cpu)?;
    let meta = TxMeta { len: template.len() as u16, ..TxMeta::default() };
    let metas = vec![meta; batch];
    let probe_at = template.len() - probe::LEN;
    let (start, cpu_start) = (MonotonicClock.now(), cpu_time());
    let mut sequence = 0;
    while MonotonicClock.now().saturating_sub(start) < TIME {
        let got = port.reserve(batch)?.min(batch);
        for index in 0..got {
            let frame = &mut port.slot(index)[..template.len()];
            frame.copy_from_slice(template);
            if let Some(probe) = frame[probe_at..].first_chunk_mut() {
                probe::write(probe, sequence, MonotonicClock.now().get());
            }
            sequence += 1;
        }
        port.commit(&metas[..got])?;
        port.flush()?;
    }
    port.drain(MonotonicClock.now().saturating_add(TIME))?;
    let wall = MonotonicClock.now().saturating_sub(start).as_secs_f64();
    let mut totals = [Default::default()];
    port.totals(&mut totals);
    Ok((totals[0].sent, wall, cpu_time() - cpu_start))
}

fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs a sender against a program that counts and drops at the far end.
fn dropped(
    cable: &Testbed,
    sender: impl FnOnce(&Testbed) -> Outcome<(u64, Rate)> + Send,
) -> Outcome<Rate> {
    let index = cable.b.link.index.get();
    let sink = inside(&cable.b, || Ok(sink(index)?))?;
    let (sent, rate) = inside(&cable.a, move || sender(cable))?;
    thread::sleep(Duration::from_millis(20));
    Ok(Rate { arrived: sink.count()? as f64 / sent as f64, ..rate })
}

/// Runs a sender against a socket that is never read.
fn unread(
    cable: &Testbed,
    sender: impl FnOnce(&Testbed) -> Outcome<(u64, Rate)> + Send,
) -> Outcome<Rate> {
    let _socket = inside(&cable.b, || Ok(listen(cable, Gro::On)?))?;
    let (_, rate) = inside(&cable.a, move || sender(cable))?;
    Ok(rate)
}

/// Runs a sender against a port that reads on the second CPU.
fn read<P: Port>(
    cable: &Testbed,
    open: impl FnOnce() -> Result<P, PortError> + Send,
    sender: impl FnOnce(&Testbed) -> Outcome<(u64, Rate)> + Send,
) -> Outcome<Rate> {
    let mut receiver = inside(&cable.b, || Ok(open()?))?;
    let done = AtomicBool::new(false);
    let (received, outcome) = thread::scope(|scope| {
        let reader = scope.spawn(|| -> Outcome<u64> {
            affinity::pin(1)?;
            let mut received = 0;
            loop {
                let ending = done.load(Ordering::Acquire);
                let until = MonotonicClock.now().saturating_add(Nanos::from_millis(20));
                let got = receiver.receive(until, |arrival| {
                    received += u64::from(!arrival.bytes.is_empty());
                })?;
                if got == 0 && ending {
                    return Ok(received);
                }
            }
        });
        let outcome = inside(&cable.a, move || sender(cable));
        done.store(true, Ordering::Release);
        (reader.join(), outcome)
    });
    let received = received.map_err(|_| "the reader panicked")??;
    let (sent, rate) = outcome?;
    Ok(Rate { arrived: received as f64 / sent as f64, ..rate })
}

/// trafgen says how long it took: "1 sec, 596008 usec on CPU0 (2000000 packets)".
fn trafgen(cable: &Testbed, processes: usize) -> Outcome<(u64, Rate)> {
    const COUNT: u64 = 1_000_000;
    let bytes: Vec<_> = template(cable).iter().map(|byte| format!("{byte:#x}")).collect();
    let file = std::env::temp_dir().join(format!("wirebeat-flood-{}.trafgen", std::process::id()));
    std::fs::write(&file, format!("{{ {} }}", bytes.join(", ")))?;
    let output = Command::new("taskset")
        .args(["-c", "0", "trafgen", "-P", &processes.to_string(), "-n", &COUNT.to_string()])
        .args(["-o", cable.a.interface(), "-i"])
        .arg(&file)
        .output()?;
    std::fs::remove_file(&file)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("usec")).ok_or("trafgen did not report")?;
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [seconds, microseconds, ..] = numbers[..] else { return Err("trafgen's report".into()) };
    let wall = COUNT as f64 / (seconds + microseconds / 1e6);
    Ok((COUNT, Rate { wall, ..Rate::default() }))
}

/// iperf3 with payloads of 18 bytes, its client on the first CPU and its server on the second.
fn iperf3(cable: &Testbed) -> Outcome<Rate> {
    let mut server = inside(&cable.b, || {
        let server = ["-c", "1", "iperf3", "-s", "-1"];
        Ok(Command::new("taskset").args(server).stdout(Stdio::null()).spawn()?)
    })?;
    thread::sleep(Duration::from_millis(300));
    let output = inside(&cable.a, || {
        let client = ["-c", "0", "iperf3", "-u", "-b", "0", "-l", "18", "-t", "1", "-f", "k", "-c"];
        Ok(Command::new("taskset").args(client).arg(cable.b.ipv4.to_string()).output()?)
    })?;
    server.wait()?;
    // "[  5]   0.00-1.00   sec  9.87 MBytes  82818 Kbits/sec  0.000 ms  0/575130 (0%)  sender"
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = |end: &str| -> Outcome<(f64, f64)> {
        let line = text.lines().find(|line| line.ends_with(end)).ok_or("iperf3 did not report")?;
        let word = line.split_whitespace().find(|w| w.contains('/') && !w.contains("sec"));
        let (lost, all) = word.and_then(|word| word.split_once('/')).ok_or("iperf3's report")?;
        Ok((lost.parse()?, all.parse()?))
    };
    let ((_, sent), (lost, all)) = (counts("sender")?, counts("receiver")?);
    Ok(Rate { wall: sent, cpu: 0.0, arrived: (all - lost) / sent })
}
