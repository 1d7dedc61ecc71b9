//! Measures the two receivers of the packet engine beside each other, on one virtual cable: frames a second that arrive
//! while another thread sends as fast as it can, round trips a second of one frame, and bits a second of the system's TCP
//! with its super-frames. Needs root.
//!
//! ```console
//! # cargo run --release -p wirebeat-engine-linux --example measure_prompt
//! ```

#![allow(clippy::unwrap_used, reason = "what fails ends the measurement")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{PortError, RxPort, TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::packet::{Accept, Kinds, PacketReceive, PacketRx, PacketTx, PromptRx};
use wirebeat_testbed::{End, Neighbours, Options, Testbed};
use wirebeat_units::{BufferLen, Nanos};

/// How long each measurement lasts.
const SPAN: Nanos = Nanos::from_secs(2);
/// A frame's length, without FCS.
const FRAME_LEN: usize = 60;
/// An EtherType for experiments (IEEE 802 §9.2.3), which no stack answers.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options { neighbours: Neighbours::Fixed, ..Options::default() };
    let cable = Testbed::pair(&options)?;
    for _ in 0..3 {
        measure("PacketRx", &cable, blocks);
        measure("PromptRx", &cable, prompt);
    }
    Ok(())
}

fn measure<R: RxPort>(name: &str, cable: &Testbed, open: fn(&End) -> R) {
    for (way, patience) in [("waiting", Nanos::from_millis(5)), ("only looking", Nanos::ZERO)] {
        let (sent, arrived, drops) = flat_out(cable, open(&cable.b), patience);
        println!(
            "{name}, {way}: {sent:.0} frames/s sent, {arrived:.0} arrived, {drops} lost in all"
        );
    }
    println!("{name}: {:.0} round trips/s", round_trips(cable, open));
    let (bits, frames, drops) = bulk(cable, open(&cable.b));
    println!("{name}: kernel TCP {:.2} Gbit/s, {frames} frames, {drops} lost", bits / 1e9);
}

fn blocks(end: &End) -> PacketRx {
    let receive = PacketReceive { kinds: Kinds::Any, ..PacketReceive::default() };
    end.namespace.run(|| PacketRx::open(end.interface(), &receive, None)).unwrap().unwrap()
}

fn prompt(end: &End) -> PromptRx {
    end.namespace.run(|| PromptRx::open(end.interface(), Accept::Ours)).unwrap().unwrap()
}

fn sender(end: &End) -> PacketTx {
    let plan = TxPlan { tags: 1, frame_max: BufferLen::new(1518), ..TxPlan::default() };
    end.namespace.run(|| PacketTx::open(end.interface(), &plan, None)).unwrap().unwrap()
}

fn frame(to: &End, from: &End) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    frame[..6].copy_from_slice(&to.mac.0);
    frame[6..12].copy_from_slice(&from.mac.0);
    frame[12..14].copy_from_slice(&ETHER_TYPE);
    frame
}

/// Hands over up to `want` copies of `frame`; says how many.
fn send(port: &mut PacketTx, frame: &[u8], want: usize) -> Result<usize, PortError> {
    let meta = TxMeta { len: frame.len() as u16, ..TxMeta::default() };
    let got = port.reserve(want)?.min(want);
    (0..got).for_each(|index| port.slot(index)[..frame.len()].copy_from_slice(frame));
    port.commit(&[meta; 64][..got])?;
    port.flush()?;
    Ok(got)
}

fn per_second(count: u64) -> f64 {
    count as f64 / SPAN.to_duration().as_secs_f64()
}

/// Frames sent and arrived a second, and how many were lost, by a receiver that waits so long for the next.
fn flat_out<R: RxPort>(cable: &Testbed, mut receiver: R, patience: Nanos) -> (f64, f64, u64) {
    let stop = AtomicBool::new(false);
    let mut arrived = 0;
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let (mut port, frame) = (sender(&cable.a), frame(&cable.b, &cable.a));
            let end = MonotonicClock.now().saturating_add(SPAN);
            let mut sent = 0;
            while MonotonicClock.now() < end {
                sent += send(&mut port, &frame, 64).unwrap() as u64;
            }
            thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            sent
        });
        while !stop.load(Ordering::Relaxed) {
            let until = MonotonicClock.now().saturating_add(patience);
            receiver
                .receive(until, |a| arrived += u64::from(a.bytes[12..14] == ETHER_TYPE))
                .unwrap();
        }
        sending.join().unwrap()
    });
    (per_second(sent), per_second(arrived), receiver.receive_drops())
}

/// Round trips a second of one frame between two threads that wait for it.
fn round_trips<R: RxPort>(cable: &Testbed, open: fn(&End) -> R) -> f64 {
    let open_ends = Barrier::new(2);
    let play = |near: &End, far: &End, begins: bool| {
        let (mut tx, mut rx, frame) = (sender(near), open(near), frame(far, near));
        let mut count = 0;
        open_ends.wait();
        let end = MonotonicClock.now().saturating_add(SPAN);
        if begins {
            send(&mut tx, &frame, 1).unwrap();
        }
        while MonotonicClock.now() < end {
            let mut came = 0;
            rx.receive(end, |a| came += usize::from(a.bytes[12..14] == ETHER_TYPE)).unwrap();
            for _ in 0..came {
                count += 1;
                send(&mut tx, &frame, 1).unwrap();
            }
        }
        count
    };
    thread::scope(|scope| {
        scope.spawn(|| play(&cable.b, &cable.a, false));
        per_second(play(&cable.a, &cable.b, true))
    })
}

/// Bits a second of the system's TCP that arrive in frames at the receiver, which sees the same frames as the
/// system; how many frames, and how many were lost.
fn bulk<R: RxPort>(cable: &Testbed, mut receiver: R) -> (f64, u64, u64) {
    let listen = || TcpListener::bind((cable.b.ipv4, 0));
    let listener = cable.b.namespace.run(listen).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let mut near = cable.a.namespace.run(|| TcpStream::connect(address)).unwrap().unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let stop = AtomicBool::new(false);
    let (mut bytes, mut frames) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let data = vec![0x5a; 1 << 20];
            let end = MonotonicClock.now().saturating_add(SPAN);
            while MonotonicClock.now() < end {
                near.write_all(&data).unwrap();
            }
            drop(near);
        });
        scope.spawn(|| {
            let mut room = vec![0; 1 << 20];
            while far.read(&mut room).unwrap() > 0 {}
            thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            let until = MonotonicClock.now().saturating_add(Nanos::from_millis(5));
            let sink = |a: &wirebeat_engine::port::Arrival<'_>| {
                bytes += a.bytes.len() as u64;
                frames += 1;
            };
            receiver.receive(until, sink).unwrap();
        }
    });
    (per_second(bytes * 8), frames, receiver.receive_drops())
}
