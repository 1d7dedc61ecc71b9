//! Real cards in the place of a virtual cable: what drivers decide is tested on them.
//!
//! `WIREBEAT_TEST_CARDS` holds the addresses of two Ethernet cards that are connected to each other, with a comma:
//! `52:54:00:00:00:01,52:54:00:00:00:02`. Then every [`Testbed::pair`](crate::Testbed::pair) takes these two, and one
//! test after the other has them (`--test-threads=1`). When a namespace ends, the kernel gives its cards back to the first
//! one, so that a test that dies leaves them where the next one looks. Never set on a machine whose cards are in use:
//! they lose their addresses.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_netlink::{LinkIndex, MacAddr, Namespace, Netlink, ReceiveStamps};

use crate::TestbedError;

/// The addresses of two cards, with a comma.
const CARDS: &str = "WIREBEAT_TEST_CARDS";
/// The device behind which the monitor of the emulated machine reads commands. The cards are `card0` and `card1` there.
const MONITOR: &str = "WIREBEAT_TEST_MONITOR";
/// How long the kernel may take to give back the cards of a namespace that has ended: it removes namespaces one by one.
const GIVEN_BACK: Duration = Duration::from_secs(20);

/// The cards that the environment names.
pub(crate) fn named() -> Result<Option<[MacAddr; 2]>, TestbedError> {
    match env::var(CARDS) {
        Ok(text) => parse(&text).map(Some).ok_or(TestbedError::Cards(text)),
        Err(_) => Ok(None),
    }
}

/// Whether the environment names cards: then rates are those of an emulated machine.
pub fn has_cards() -> bool {
    env::var_os(CARDS).is_some()
}

/// Whether rates are to be those of an emulated machine: with cards, or where `WIREBEAT_TEST_EMULATED` is set.
pub fn is_emulated() -> bool {
    has_cards() || env::var_os("WIREBEAT_TEST_EMULATED").is_some()
}

/// The line to QEMU's monitor, which pulls the cable of a card (`set_link card0 off`): a serial port of the guest.
pub fn monitor() -> Option<PathBuf> {
    env::var_os(MONITOR).map(PathBuf::from)
}

/// Whether both cards are there, and of this driver; if not, why.
pub(crate) fn have_driver(driver: &str) -> Result<(), String> {
    let Some(macs) = named().map_err(|error| error.to_string())? else {
        return Err(format!("no cards are named ({CARDS})"));
    };
    for mac in macs {
        let mut netlink = Netlink::open().map_err(|error| error.to_string())?;
        let index = find(&mut netlink, mac).map_err(|error| error.to_string())?;
        let link = netlink.link_by_index(index).map_err(|error| error.to_string())?;
        let folder = Path::new("/sys/class/net").join(&link.name).join("device/driver");
        let is =
            fs::read_link(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if is.file_name().is_none_or(|name| name != driver) {
            return Err(format!("the driver of {mac} is {}", is.display()));
        }
    }
    Ok(())
}

/// Whether the two cards stamp what they send and receive, and this process can read their clocks; if not, why.
pub(crate) fn stamp() -> Result<(), String> {
    let named = named().map_err(|e| e.to_string())?;
    let cards = named.ok_or_else(|| format!("{CARDS} names no cards"))?;
    let mut netlink = Netlink::open().map_err(|e| e.to_string())?;
    for mac in cards {
        let card = find(&mut netlink, mac).map_err(|e| e.to_string())?;
        let offered = netlink.timestamping(card).map_err(|e| e.to_string())?;
        let clock = offered.clock.filter(|_| offered.transmit && offered.has_hardware());
        let Some(clock) = clock.filter(|_| offered.receive != ReceiveStamps::None) else {
            return Err(format!("the card {mac} does not stamp both what it sends and receives"));
        };
        let path = format!("/dev/ptp{clock}");
        File::open(&path).map_err(|e| format!("cannot open {path}: {e}"))?;
    }
    Ok(())
}

fn parse(text: &str) -> Option<[MacAddr; 2]> {
    let (a, b) = text.split_once(',')?;
    let [a, b] = [a, b].map(|card| card.trim().parse().ok());
    Some([a?, b?])
}

/// Moves the card with the address `mac` to a namespace and calls it `name` there. It is down then, and joins no segments
/// (LRO): with that the kernel engine refuses it.
pub(crate) fn take(mac: MacAddr, namespace: &Namespace, name: &str) -> Result<(), TestbedError> {
    let mut netlink = Netlink::open()?;
    let card = find(&mut netlink, mac)?;
    netlink.set_down(card)?;
    netlink.set_features(card, &[("rx-lro", false)])?;
    Ok(netlink.move_link(card, name, namespace)?)
}

/// Waits for a card until an earlier test has given it back.
fn find(netlink: &mut Netlink, mac: MacAddr) -> Result<LinkIndex, TestbedError> {
    let begun = Instant::now();
    loop {
        // what a virtual kind has it may have from the card below it
        let real = |link: &&wirebeat_netlink::Link| link.mac == Some(mac) && link.kind.is_none();
        if let Some(link) = netlink.links()?.iter().find(real) {
            return Ok(link.index);
        }
        if begun.elapsed() > GIVEN_BACK {
            return Err(TestbedError::NoCard(mac));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_addresses_name_two_cards() {
        let card = |last| MacAddr([0x52, 0x54, 0, 0, 0, last]);
        assert_eq!(parse("52:54:00:00:00:01, 52:54:00:00:00:02"), Some([card(1), card(2)]));
        for wrong in ["", "52:54:00:00:00:01", "eth0,eth1", "52:54:00:00:00:01,x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
