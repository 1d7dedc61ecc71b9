//! Pause frames (IEEE 802.3 Annex 31B): whether a card heeds and sends them.

use crate::{EthtoolError, LinkIndex, Netlink, attributes};

/// `linux/ethtool_netlink.h`.
const MSG_PAUSE_GET: u8 = 21;
const A_PAUSE_AUTONEG: u16 = 2;
const A_PAUSE_RX: u16 = 3;
const A_PAUSE_TX: u16 = 4;

/// How a card uses pause frames; `None` where the driver does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Whether both ends negotiate it.
    pub autonegotiated: Option<bool>,
    /// Whether it pauses when the other end asks for it.
    pub rx: Option<bool>,
    /// Whether it asks the other end to pause.
    pub tx: Option<bool>,
}

impl Netlink {
    /// How an interface uses pause frames.
    pub fn pause(&mut self, link: LinkIndex) -> Result<Pause, EthtoolError> {
        let reply = self.ethtool(link, MSG_PAUSE_GET, "pause frames")?;
        Ok(parse(&reply))
    }
}

fn parse(reply: &[u8]) -> Pause {
    let flag = |kind| attributes::find(reply, kind)?.first().map(|&value| value != 0);
    Pause { autonegotiated: flag(A_PAUSE_AUTONEG), rx: flag(A_PAUSE_RX), tx: flag(A_PAUSE_TX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_what_the_driver_does() {
        let reply = attributes::emit(&[
            attributes::bytes(A_PAUSE_AUTONEG, &[1]),
            attributes::bytes(A_PAUSE_RX, &[0]),
        ]);
        let expected = Pause { autonegotiated: Some(true), rx: Some(false), tx: None };
        assert_eq!(parse(&reply), expected);
    }
}
