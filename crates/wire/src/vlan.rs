//! VLAN tags (IEEE 802.1Q and 802.1ad), which are skipped on the way to what a frame carries.

use crate::ethernet::EtherType;

/// Bytes of a tag: its control information and the EtherType after it.
pub const LEN: usize = 4;
/// The most tags that are skipped: a service tag and a customer tag (IEEE 802.1ad).
pub const TAGS_MAX: usize = 2;

/// Skips up to [`TAGS_MAX`] tags at the front of `payload`, which follows `ether_type`. Returns what is
/// behind them, which still is a tag where there are more; `None` when a tag is cut short.
pub fn skip(ether_type: EtherType, payload: &[u8]) -> Option<(EtherType, &[u8])> {
    let (mut ether_type, mut payload) = (ether_type, payload);
    for _ in 0..TAGS_MAX {
        if !matches!(ether_type, EtherType::VLAN | EtherType::SERVICE_VLAN) {
            break;
        }
        let (tag, rest) = payload.split_first_chunk::<LEN>()?;
        ether_type = EtherType(u16::from_be_bytes([tag[2], tag[3]]));
        payload = rest;
    }
    Some((ether_type, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service tag, a customer tag, a third tag, IPv4.
    const TAGS: [u8; 13] = [0, 1, 0x88, 0xa8, 0, 2, 0x81, 0x00, 0, 3, 0x08, 0x00, 0x45];

    #[test]
    fn a_frame_without_tags_is_left_alone() {
        assert_eq!(skip(EtherType::IPV4, &TAGS), Some((EtherType::IPV4, &TAGS[..])));
    }

    #[test]
    fn one_and_two_tags_are_skipped_and_a_third_is_not() {
        assert_eq!(skip(EtherType::VLAN, &TAGS[8..]), Some((EtherType::IPV4, &[0x45][..])));
        assert_eq!(skip(EtherType::SERVICE_VLAN, &TAGS[4..]), Some((EtherType::IPV4, &[0x45][..])));
        assert_eq!(skip(EtherType::VLAN, &TAGS), Some((EtherType::VLAN, &TAGS[8..])));
    }

    #[test]
    fn a_tag_cut_short_is_none() {
        assert_eq!(skip(EtherType::VLAN, &TAGS[10..]), None);
        assert_eq!(skip(EtherType::VLAN, &[]), None);
    }
}
