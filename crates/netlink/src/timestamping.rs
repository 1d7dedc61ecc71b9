//! What stamps a network device offers (`ETHTOOL_MSG_TSINFO_GET`, Linux ≥ 5.10): by the card or by the system, of which
//! frames, and by which clock (`Documentation/networking/timestamping.rst`).

use std::fmt;

use crate::ethtool::{EthtoolError, names};
use crate::{LinkIndex, Netlink, attributes};

const MSG_TSINFO_GET: u8 = 25;
const A_TSINFO_TIMESTAMPING: u16 = 2;
const A_TSINFO_TX_TYPES: u16 = 3;
const A_TSINFO_RX_FILTERS: u16 = 4;
const A_TSINFO_PHC_INDEX: u16 = 5;

/// Which received frames a card stamps, of what it can be asked for: the most.
///
/// PTP means the event messages of version 2 (IEEE 1588-2019 clause 13.3.2.3: Sync, Delay_Req, Pdelay_Req, Pdelay_Resp).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveStamps {
    /// None.
    #[default]
    None,
    /// PTP by UDP.
    PtpOverUdp,
    /// PTP by Ethernet.
    PtpOverEthernet,
    /// PTP.
    Ptp,
    /// All.
    All,
}

impl fmt::Display for ReceiveStamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReceiveStamps::None => "no received frames",
            ReceiveStamps::PtpOverUdp => "received PTP event messages over UDP only",
            ReceiveStamps::PtpOverEthernet => "received PTP event messages over Ethernet only",
            ReceiveStamps::Ptp => "received PTP event messages only",
            ReceiveStamps::All => "all received frames",
        })
    }
}

/// What stamps a device offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamping {
    /// Whether the driver stamps a frame by the system's clock when it hands that to the device.
    pub software_transmit: bool,
    /// Whether the card stamps sent frames.
    pub transmit: bool,
    /// Which received frames the card stamps.
    pub receive: ReceiveStamps,
    /// The card's clock is `/dev/ptp` with this number.
    pub clock: Option<u32>,
}

impl Netlink {
    /// What stamps an interface offers.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.10, or netlink failed.
    pub fn timestamping(&mut self, link: LinkIndex) -> Result<Timestamping, EthtoolError> {
        let reply = self.ethtool(link, MSG_TSINFO_GET, "timestamping")?;
        Ok(Timestamping::of(&reply))
    }
}

impl Timestamping {
    /// Reads the attributes of an answer. The words are the kernel's (`net/ethtool/common.c`). Stamps of a card are of
    /// use only as they are ("hardware-raw-clock").
    fn of(reply: &[u8]) -> Timestamping {
        let offered = names(reply, A_TSINFO_TIMESTAMPING);
        let types = names(reply, A_TSINFO_TX_TYPES);
        let filters = names(reply, A_TSINFO_RX_FILTERS);
        let has = |list: &[String], word: &str| list.iter().any(|one| one == word);
        let card = |what: &str| has(&offered, "hardware-raw-clock") && has(&offered, what);
        let most = [
            ("all", ReceiveStamps::All),
            ("ptpv2-event", ReceiveStamps::Ptp),
            ("ptpv2-l2-event", ReceiveStamps::PtpOverEthernet),
            ("ptpv2-l4-event", ReceiveStamps::PtpOverUdp),
        ];
        let receive = most.into_iter().find(|(word, _)| has(&filters, word));
        let receive = receive.filter(|_| card("hardware-receive"));
        Timestamping {
            software_transmit: has(&offered, "software-transmit"),
            transmit: card("hardware-transmit") && has(&types, "on"),
            receive: receive.map_or(ReceiveStamps::None, |(_, stamps)| stamps),
            clock: attributes::find_u32(reply, A_TSINFO_PHC_INDEX),
        }
    }

    /// Whether the card stamps anything.
    pub fn has_hardware(&self) -> bool {
        self.clock.is_some() && (self.transmit || self.receive != ReceiveStamps::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bitset as the kernel writes it: no mask, and each bit with its name.
    fn bitset(kind: u16, words: &[&str]) -> netlink_packet_core::DefaultNla {
        let bits: Vec<_> =
            words.iter().map(|word| attributes::nest(1, &[attributes::string(2, word)])).collect();
        attributes::nest(kind, &[attributes::bytes(1, &[]), attributes::nest(3, &bits)])
    }

    fn of(offered: &[&str], types: &[&str], filters: &[&str], clock: Option<u32>) -> Timestamping {
        let mut all = vec![bitset(2, offered), bitset(3, types), bitset(4, filters)];
        all.extend(clock.map(|clock| attributes::number(5, clock)));
        Timestamping::of(&attributes::emit(&all))
    }

    const CARD: [&str; 4] =
        ["hardware-transmit", "hardware-receive", "hardware-raw-clock", "software-transmit"];

    #[test]
    fn the_most_that_a_card_stamps_is_found() {
        let receive = |filters: &[&str]| of(&CARD, &["off", "on"], filters, Some(0)).receive;
        assert_eq!(receive(&["none", "ptpv2-event"]), ReceiveStamps::Ptp);
        assert_eq!(receive(&["none", "ptpv2-l4-event"]), ReceiveStamps::PtpOverUdp);
        assert_eq!(receive(&["ptpv2-l4-event", "ptpv2-l2-event"]), ReceiveStamps::PtpOverEthernet);
        assert_eq!(receive(&["ptpv1-l4-sync", "ptpv2-event", "all"]), ReceiveStamps::All);
        assert_eq!(receive(&["none", "ptpv1-l4-event"]), ReceiveStamps::None);
        let card = of(&CARD, &["off", "on"], &["none", "all"], Some(3));
        assert!(card.transmit && card.software_transmit && card.has_hardware());
        assert_eq!(card.clock, Some(3));
    }

    #[test]
    fn what_a_card_cannot_be_asked_for_it_does_not_offer() {
        // a virtual cable: the driver and the stack stamp, by the system's clock
        let cable = of(&["software-transmit", "software-receive"], &[], &[], None);
        let expected = Timestamping { software_transmit: true, ..Timestamping::default() };
        assert_eq!((cable, cable.has_hardware()), (expected, false));
        let off = of(&CARD, &["off"], &["none"], Some(0));
        assert!(!off.transmit && off.receive == ReceiveStamps::None && !off.has_hardware());
        let no_clock = of(&CARD, &["on"], &["all"], None);
        assert!(no_clock.transmit && !no_clock.has_hardware());
        let converted = of(&["hardware-transmit", "hardware-receive"], &["on"], &["all"], Some(0));
        assert!(!converted.has_hardware());
        assert_eq!(Timestamping::of(&[]), Timestamping::default());
    }
}
