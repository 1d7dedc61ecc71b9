//! What is counted, and why a frame was ignored.

/// Why a received frame was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It is not in our VLAN.
    Vlan,
    /// Its destination is another station, or a group where none is allowed (RFC 1122 §3.3.6: no IP packet for one host).
    Destination,
    /// Its source is a group or our own address, or its sender claims to be no station.
    Source,
    /// It carries neither ARP nor IP.
    EtherType,
    /// It is for an IP address that is not ours.
    Address,
    /// It is cut short, or its lengths contradict themselves.
    Malformed,
    /// It breaks a rule of its protocol, such as the hop limit of neighbour discovery.
    Invalid,
    /// A checksum is wrong. That of TCP is not looked at here.
    Checksum,
    /// It is a fragment of an echo request or of neighbour discovery (RFC 6980).
    Fragment,
    /// More echo requests came than are answered.
    EchoLimit,
    /// More requests came than answers could leave.
    AnswersFull,
    /// The reply to an echo request would be longer than [`FRAME_MAX`](crate::FRAME_MAX).
    TooLong,
    /// It asks for an answer that another thread gives: [`Role::Listening`](crate::Role::Listening).
    NotAnswering,
    /// Another station says that it has an address of ours: see [`Neighbours::conflict`](crate::Neighbours::conflict).
    Conflict,
}

impl Ignored {
    /// All, in the order of their counters.
    pub const ALL: [Ignored; 14] = [
        Ignored::Vlan,
        Ignored::Destination,
        Ignored::Source,
        Ignored::EtherType,
        Ignored::Address,
        Ignored::Malformed,
        Ignored::Invalid,
        Ignored::Checksum,
        Ignored::Fragment,
        Ignored::EchoLimit,
        Ignored::AnswersFull,
        Ignored::TooLong,
        Ignored::NotAnswering,
        Ignored::Conflict,
    ];
}

/// What happened so far. Frames received are `packets + handled` and those ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub received: u64,
    /// IP packets handed to the caller.
    pub packets: u64,
    /// Frames that were handled here.
    pub handled: u64,
    ignored: [u64; Ignored::ALL.len()],
    /// ARP requests sent, the repeated ones too.
    pub arp_requests: u64,
    /// Neighbour solicitations sent, the repeated ones too.
    pub solicitations: u64,
    /// ARP requests answered.
    pub arp_replies: u64,
    /// Neighbour solicitations answered.
    pub advertisements: u64,
    /// Echo requests answered.
    pub echo_replies: u64,
    /// Next hops that answered, or whose link-layer address changed.
    pub learnt: u64,
    /// Next hops learnt from the source of a TCP packet.
    pub learnt_from_packets: u64,
    /// Next hops that did not answer.
    pub failed: u64,
    /// Next hops for which the table had no room.
    pub table_full: u64,
    /// Frames that did not fit into the buffer they were to be written into, and are lost.
    pub buffer_too_short: u64,
}

impl Counters {
    /// Frames that were ignored for this reason.
    pub fn ignored(&self, why: Ignored) -> u64 {
        self.ignored.get(why as usize).copied().unwrap_or(0)
    }

    pub(crate) fn ignore(&mut self, why: Ignored) {
        if let Some(count) = self.ignored.get_mut(why as usize) {
            *count += 1;
        }
    }

    /// Whether every frame received is counted as what it was.
    pub fn balance(&self) -> bool {
        self.received == self.packets + self.handled + self.ignored.iter().sum::<u64>()
    }
}
