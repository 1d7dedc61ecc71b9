//! Our hosts on a port of the packet engine: frames in, frames out, on the clock of the system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{RxPort, TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::packet::{Accept, Kinds, PacketReceive, PacketRx, PacketTx};
use wirebeat_neighbours::{
    AddressCheck, CheckSettings, FRAME_MAX, Hosts, Link, Neighbours, Outcome,
};
use wirebeat_netlink::MacAddr;
use wirebeat_testbed::End;
use wirebeat_units::{BufferLen, Nanos};

/// Our address: not that of the interface, whose system is not asked.
pub const OURS: MacAddr = MacAddr([0x02, 0x77, 0x62, 0x01, 0x00, 0x01]);
/// Long enough for a loaded machine.
pub const PATIENCE: Nanos = Nanos::from_secs(30);
/// How long the port waits for a frame before the clock is looked at.
const TURN: Nanos = Nanos::from_millis(5);

/// The sending and the receiving half of a port.
pub struct Port {
    tx: PacketTx,
    rx: PacketRx,
}

impl Port {
    pub fn open(end: &End) -> Port {
        let plan =
            TxPlan { tags: 1, frame_max: BufferLen::new(FRAME_MAX as u32), ..TxPlan::default() };
        let receive =
            PacketReceive { accept: Accept::All, kinds: Kinds::Any, ..PacketReceive::default() };
        let open = || {
            let rx = PacketRx::open(end.interface(), &receive, None).unwrap();
            Port { tx: PacketTx::open(end.interface(), &plan, None).unwrap(), rx }
        };
        end.namespace.run(open).unwrap()
    }

    /// Sends the frames that `next` writes until there is none.
    pub fn send(&mut self, mut next: impl FnMut(&mut [u8]) -> Option<usize>) {
        while self.tx.reserve(1).unwrap() > 0 {
            let Some(len) = next(self.tx.slot(0)) else { break };
            self.tx.commit(&[TxMeta { len: len as u16, ..TxMeta::default() }]).unwrap();
        }
        self.tx.flush().unwrap();
    }

    /// Gives what arrives in one turn to `sink`.
    pub fn receive(&mut self, mut sink: impl FnMut(&[u8])) {
        let until = MonotonicClock.now().saturating_add(TURN);
        self.rx.receive(until, |arrival| sink(arrival.bytes)).unwrap();
    }
}

/// One turn: what arrives, and what is to be sent then.
pub fn turn(port: &mut Port, neighbours: &mut Neighbours) {
    port.receive(|frame| {
        neighbours.receive(MonotonicClock.now(), frame);
    });
    port.send(|into| neighbours.next_frame(MonotonicClock.now(), into));
}

/// Has our hosts live on the port while `work` is done.
pub fn alive<T>(port: &mut Port, neighbours: &mut Neighbours, work: impl FnOnce() -> T) -> T {
    /// Also where the work panics: then the scope would wait for ever.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                turn(port, neighbours);
            }
        });
        let _ends = Ends(&over);
        work()
    })
}

/// Turns until `done`; fails when that takes too long.
pub fn until(
    port: &mut Port,
    neighbours: &mut Neighbours,
    mut done: impl FnMut(&mut Neighbours) -> bool,
) {
    let deadline = MonotonicClock.now().saturating_add(PATIENCE);
    while !done(neighbours) {
        assert!(MonotonicClock.now() < deadline, "{:?}", neighbours.counters());
        turn(port, neighbours);
    }
}

/// Looks for duplicates, with one probe of each address and a second of patience.
pub fn check(port: &mut Port, link: Link, hosts: &Hosts) -> Outcome {
    let settings =
        CheckSettings { probes: 1, wait: Nanos::from_secs(1), ..CheckSettings::new(link) };
    let start = MonotonicClock.now();
    let mut check = AddressCheck::new(settings, hosts, start).unwrap();
    loop {
        let now = MonotonicClock.now();
        match check.outcome(now) {
            Outcome::Running => {}
            outcome => return outcome,
        }
        assert!(now.saturating_sub(start) < PATIENCE, "it does not end");
        port.send(|into| check.next_frame(MonotonicClock.now(), into));
        port.receive(|frame| {
            check.receive(frame);
        });
    }
}
