//! Whether somebody else on a link has an address of ours, before anything is sent from it.

use wirebeat_engine::clock::Clock;
use wirebeat_engine::port::{Counted, PortError, RxPort, TxMeta, TxPort};
use wirebeat_neighbours::{AddressCheck, CheckSettings, FRAME_MAX, Neighbours, Outcome};
use wirebeat_units::Nanos;
use wirebeat_wire::ethernet::FRAME_MIN;

/// Probes of an address, and how long an answer may take: stations of a link answer within a millisecond, and RFC 5227 has seconds
/// for networks that wake slowly, which is long for a run of seconds.
const PROBES: u8 = 2;
const INTERVAL: Nanos = Nanos::from_millis(100);
/// Bytes of the FCS.
const FCS: usize = 4;

/// Asks whether another station has one of the hosts' addresses (the first 256 of each version of IP), and says to all where they
/// are if nobody has. Takes 0.2 s and a little. Returns how many frames that took too.
///
/// # Errors
/// The port cannot send or receive.
pub fn check_addresses(
    tx: &mut impl TxPort,
    rx: &mut impl RxPort,
    clock: &impl Clock,
    neighbours: &Neighbours,
) -> Result<(Outcome, u64), PortError> {
    let settings = CheckSettings {
        probes: PROBES,
        interval: INTERVAL,
        wait: INTERVAL,
        ..CheckSettings::new(*neighbours.link())
    };
    let Ok(mut check) = AddressCheck::new(settings, neighbours.hosts(), clock.now()) else {
        // its settings are those of the neighbours, which were checked
        return Ok((Outcome::Free { checked: 0 }, 0));
    };
    let mut frame = [0; FRAME_MAX];
    let mut frames = 0;
    loop {
        let now = clock.now();
        while let Some(len) = check.next_frame(now, &mut frame) {
            send(tx, frame.get_mut(..).unwrap_or_default(), len)?;
            frames += 1;
        }
        match check.outcome(now) {
            Outcome::Running => {}
            outcome => return Ok((outcome, frames)),
        }
        let until = check.next_time().unwrap_or(now);
        rx.receive(until, |arrival| {
            check.receive(arrival.bytes);
        })?;
    }
}

/// Sends one frame; a port that has no room sends none, as a link that loses it.
fn send(tx: &mut impl TxPort, frame: &mut [u8], len: usize) -> Result<(), PortError> {
    let padded = len.max(FRAME_MIN);
    frame.get_mut(len..padded).unwrap_or_default().fill(0);
    if tx.reserve(1)? == 0 {
        return tx.flush();
    }
    if let (Some(slot), Some(frame)) = (tx.slot(0).get_mut(..padded), frame.get(..padded)) {
        slot.copy_from_slice(frame);
    }
    let counted = Counted { packets: 1, fragments: 0, bytes: (padded + FCS) as u32, payload: 0 };
    tx.commit(&[TxMeta { len: padded as u16, counted, ..TxMeta::default() }])?;
    tx.flush()
}
