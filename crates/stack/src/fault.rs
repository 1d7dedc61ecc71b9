//! Faults that the simulation plants to show that it would find them. Outside this crate's tests none can be planted, and the
//! compiler removes the places that ask.

/// A fault, named after what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only the simulation plants faults"))]
pub(crate) enum Fault {
    /// Round trips of segments that were sent twice are measured.
    NoKarn,
    /// One byte more than the peer's window is sent.
    WindowOffByOne,
    /// A timer is not given to the wheel.
    LostTimer,
    /// The timeout is not doubled.
    NoBackoff,
    /// A duplicate of data is handed over again.
    DuplicateDelivered,
    /// A retransmission repeats the bytes from one offset later.
    WrongOffset,
    /// A FIN out of order counts as received at once.
    EarlyFin,
    /// A SACK block counts although its end lies behind what was sent.
    WildSack,
    /// A closed window is never probed.
    NoPersist,
    /// The FIN is not repeated.
    FinOnce,
    /// The window opens by as little as there is.
    SillyWindow,
    /// An acknowledgment counts one byte too many where it is partial.
    AckedTooMuch,
    /// Data out of order at the peer is not waited for: what is missing below it stays missing until the timeout.
    NoReorderTimer,
    /// What the network says was too large is not sent again in smaller pieces at once.
    NotResent,
    /// ICMP errors count whatever number they quote.
    AnyQuote,
    /// A packet with several segments counts as one.
    LargeIsOne,
    /// A packet with several segments ends with a small one, whatever Nagle says.
    LargeWithRest,
}

/// A set of faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults(u32);

impl Faults {
    pub fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u32 != 0
    }
}

#[cfg(test)]
impl Fault {
    pub const ALL: [Fault; 17] = [
        Fault::NoKarn,
        Fault::WindowOffByOne,
        Fault::LostTimer,
        Fault::NoBackoff,
        Fault::DuplicateDelivered,
        Fault::WrongOffset,
        Fault::EarlyFin,
        Fault::WildSack,
        Fault::NoPersist,
        Fault::FinOnce,
        Fault::SillyWindow,
        Fault::AckedTooMuch,
        Fault::NoReorderTimer,
        Fault::NotResent,
        Fault::AnyQuote,
        Fault::LargeIsOne,
        Fault::LargeWithRest,
    ];
}

#[cfg(test)]
impl Faults {
    pub fn has_any(self) -> bool {
        self.0 != 0
    }

    pub fn only(fault: Fault) -> Faults {
        Faults(1 << fault as u32)
    }
}
