//! Ethernet frames without their FCS (IEEE 802.3 §3.1, in the form that carries an EtherType).

use wirebeat_units::BufferLen;

use crate::ip::Version;
use crate::walk::word;

/// Bytes of the header.
pub const LEN: usize = 14;
/// The shortest frame without FCS; a shorter one is padded with zeros (IEEE 802.3 §4.2.3.3).
pub const FRAME_MIN: usize = BufferLen::MIN.get() as usize;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// A customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// MPLS labels (RFC 3032 §5).
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS labels of multicast (RFC 5332).
    pub const MPLS_MULTICAST: EtherType = EtherType(0x8848);
    /// A service VLAN tag (IEEE 802.1ad).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);

    /// The version of IP that it means, if it means one.
    #[inline]
    pub fn version(self) -> Option<Version> {
        match self {
            EtherType::IPV4 => Some(Version::V4),
            EtherType::IPV6 => Some(Version::V6),
            _ => None,
        }
    }

    /// Whether it is that of MPLS labels.
    pub fn is_mpls(self) -> bool {
        matches!(self, EtherType::MPLS | EtherType::MPLS_MULTICAST)
    }

    /// The one that lies at `at`.
    #[inline]
    pub fn read(bytes: &[u8], at: usize) -> Option<EtherType> {
        word(bytes, at).map(EtherType)
    }
}
