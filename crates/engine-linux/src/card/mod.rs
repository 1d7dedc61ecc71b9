//! Cards that stamp frames by a clock of their own: what they are told to stamp (`config`), their clock and how it relates to
//! the system's (`clock`), and the stamps of frames that arrived (`received`) and left (`sent`).

mod clock;
mod config;
mod received;
mod sent;

use std::io;
use std::sync::Arc;

use wirebeat_engine::port::PortError;
use wirebeat_netlink::{ReceiveStamps, Timestamping};

pub use clock::CardClock;
pub(crate) use clock::Conversion;
#[cfg(test)]
pub(crate) use clock::of_test;
use config::{
    FILTER_ALL, FILTER_NONE, FILTER_PTP_V2_EVENT, FILTER_PTP_V2_L2_EVENT, FILTER_PTP_V2_L4_EVENT,
    Held, TX_OFF, TX_ON,
};
pub use config::{StampConfig, StampSetting};
pub(crate) use received::Stamped;
pub(crate) use sent::{Asked, REQUEST_WORDS, SentStamps, request};
use wirebeat_units::{Fault, fault};

/// Frames that a port has stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those that it sends.
    pub sent: bool,
    /// Those that it receives.
    pub received: bool,
}

/// A card that stamps what it was asked to, until this is dropped or the process is gone.
#[derive(Debug)]
pub struct Card {
    clock: CardClock,
    receives: ReceiveStamps,
    /// `None` where it was set so before.
    _held: Option<Held>,
}

impl Card {
    /// Has a card stamp what is wanted: the interface is in the calling thread's namespace. The card is not told anything if
    /// it stamps that already: then it is somebody else's, who may have reasons.
    ///
    /// # Errors
    /// It cannot, or this process may not; what is missing, and the remedy.
    pub fn open(
        engine: &'static str,
        interface: &str,
        offered: Timestamping,
        wanted: Wanted,
    ) -> Result<Card, PortError> {
        let missing = |missing: Fault| {
            PortError::missing(engine, interface, missing).with_hint("use '--timestamps software'")
        };
        let Some(number) = offered.clock else {
            return Err(missing("its card has no clock to stamp frames by".into()));
        };
        if wanted.sent && !offered.transmit {
            return Err(missing("its card does not stamp the frames that it sends".into()));
        }
        if wanted.received && offered.receive == ReceiveStamps::None {
            return Err(missing("its card does not stamp the frames that it receives".into()));
        }
        // the clock first: nothing is changed where it cannot be read
        let clock = CardClock::open(number).map_err(|error| {
            let path = clock::path(number);
            missing(match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    fault!("this process may not read its card's clock {path}"; "run as root")
                }
                io::ErrorKind::NotFound => fault!(
                    "its card's clock {path} is not there";
                    "in a container, pass the device in"
                ),
                _ => fault!("its card's clock {path} cannot be read ({error})"),
            })
        })?;
        let system =
            |what| move |source| PortError::System { what, on: interface.to_owned(), source };
        let setting =
            StampSetting::open(interface).map_err(system("asking what the card stamps".into()))?;
        let former = setting.get().unwrap_or_default();
        let asked = needed(former, offered, wanted);
        if asked == former {
            let receives = received(former.rx_filter);
            return Ok(Card { clock, receives, _held: None });
        }
        let held = setting.hold(former, asked).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                missing(fault!("having its card stamp frames needs CAP_NET_ADMIN"; "run as root"))
            }
            Some(libc::ERANGE | libc::EOPNOTSUPP | libc::EINVAL) => missing(fault!(
                "its driver offers to stamp frames, and refuses when it is asked ({error})"
            )),
            _ => system("having the card stamp frames".into())(error),
        })?;
        // a driver says what it made of it
        let now = held.now().unwrap_or(asked);
        let receives = received(now.rx_filter);
        if wanted.received && receives == ReceiveStamps::None {
            return Err(missing(
                "its driver took the order to stamp received frames, and stamps none".into(),
            ));
        }
        Ok(Card { clock, receives, _held: Some(held) })
    }

    /// Its clock.
    pub fn clock(&self) -> &CardClock {
        &self.clock
    }

    /// Which received frames it stamps now.
    pub fn receives(&self) -> ReceiveStamps {
        self.receives
    }
}

/// A card that a port's frames are stamped by.
pub type SharedCard = Arc<Card>;

/// What a card has to be told, so that it stamps what is wanted and all that it stamped before.
fn needed(former: StampConfig, offered: Timestamping, wanted: Wanted) -> StampConfig {
    let mut asked = former;
    if wanted.sent && former.tx_type == TX_OFF {
        asked.tx_type = TX_ON;
    }
    let filter = match offered.receive {
        ReceiveStamps::None => FILTER_NONE,
        ReceiveStamps::PtpOverUdp => FILTER_PTP_V2_L4_EVENT,
        ReceiveStamps::PtpOverEthernet => FILTER_PTP_V2_L2_EVENT,
        ReceiveStamps::Ptp => FILTER_PTP_V2_EVENT,
        ReceiveStamps::All => FILTER_ALL,
    };
    // where it can only stamp some, and does, those are somebody's who knows which
    let some = offered.receive != ReceiveStamps::All && former.rx_filter != FILTER_NONE;
    if wanted.received && former.rx_filter != FILTER_ALL && !some {
        asked.rx_filter = filter;
    }
    asked
}

/// Which frames a card stamps with a filter of `enum hwtstamp_rx_filters`.
fn received(filter: libc::c_int) -> ReceiveStamps {
    match filter {
        FILTER_NONE => ReceiveStamps::None,
        FILTER_ALL => ReceiveStamps::All,
        FILTER_PTP_V2_L4_EVENT => ReceiveStamps::PtpOverUdp,
        FILTER_PTP_V2_L2_EVENT => ReceiveStamps::PtpOverEthernet,
        // and kinds of its messages
        _ => ReceiveStamps::Ptp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(receive: ReceiveStamps) -> Timestamping {
        Timestamping { software_transmit: true, transmit: true, receive, clock: Some(u32::MAX) }
    }

    fn set(tx_type: libc::c_int, rx_filter: libc::c_int) -> StampConfig {
        StampConfig { tx_type, rx_filter, ..StampConfig::default() }
    }

    #[test]
    fn a_card_is_told_no_more_than_is_needed() {
        let (sent, received) = (true, true);
        let both = Wanted { sent, received };
        let asked = |tx, rx, receive| needed(set(tx, rx), offered(receive), both);
        assert_eq!(asked(TX_OFF, FILTER_NONE, ReceiveStamps::All), set(TX_ON, FILTER_ALL));
        assert_eq!(asked(TX_ON, FILTER_ALL, ReceiveStamps::All), set(TX_ON, FILTER_ALL));
        // one-step, of somebody who serves time
        assert_eq!(asked(2, FILTER_ALL, ReceiveStamps::All), set(2, FILTER_ALL));
        // more than what a time service needs, which keeps that
        let event = FILTER_PTP_V2_EVENT;
        assert_eq!(asked(TX_ON, event, ReceiveStamps::All), set(TX_ON, FILTER_ALL));
        assert_eq!(asked(TX_ON, event, ReceiveStamps::Ptp), set(TX_ON, event));
        assert_eq!(asked(TX_ON, 13, ReceiveStamps::Ptp), set(TX_ON, 13));
        assert_eq!(asked(TX_OFF, FILTER_NONE, ReceiveStamps::Ptp), set(TX_ON, event));
        let sends = Wanted { sent, received: false };
        let told = needed(set(TX_OFF, FILTER_NONE), offered(ReceiveStamps::All), sends);
        assert_eq!(told, set(TX_ON, FILTER_NONE));
        let receives = Wanted { sent: false, received };
        let told = needed(set(TX_OFF, FILTER_NONE), offered(ReceiveStamps::All), receives);
        assert_eq!(told, set(TX_OFF, FILTER_ALL));
    }

    #[test]
    fn what_a_card_lacks_is_said_with_the_remedy() {
        let refusal = |offered, wanted| {
            Card::open("packet", "eth1", offered, wanted).unwrap_err().to_string()
        };
        let (sends, receives) =
            (Wanted { sent: true, received: false }, Wanted { sent: false, received: true });
        for (offered, wanted, lacks) in [
            (Timestamping::default(), sends, "has no clock to stamp frames by"),
            (
                Timestamping { transmit: false, ..offered(ReceiveStamps::All) },
                sends,
                "does not stamp the frames that it sends",
            ),
            (offered(ReceiveStamps::None), receives, "does not stamp the frames that it receives"),
            (offered(ReceiveStamps::All), receives, "clock /dev/ptp4294967295 is not there"),
        ] {
            let told = refusal(offered, wanted);
            assert!(told.starts_with("the packet engine cannot run on eth1: "), "{told}");
            assert!(told.contains(lacks), "{told}");
            assert!(told.ends_with("; use '--timestamps software'"), "{told}");
        }
    }

    #[test]
    fn filters_of_the_kernel_are_frames() {
        let frames = [0, 1, 6, 9, 12, 13].map(received);
        let expected = [
            ReceiveStamps::None,
            ReceiveStamps::All,
            ReceiveStamps::PtpOverUdp,
            ReceiveStamps::PtpOverEthernet,
            ReceiveStamps::Ptp,
            ReceiveStamps::Ptp,
        ];
        assert_eq!(frames, expected);
    }
}
