//! Captured frames as Ethernet frames: what was captured on a device without Ethernet is given its header.

use wirebeat_units::{Fault, fault, into_fault};
use wirebeat_wire::ethernet::{self, EtherType};
use wirebeat_wire::ip::Version;
use wirebeat_wire::mac::MacAddr;

use super::{Frame, LinkHeader, LinkType};

/// Why a frame cannot be sent on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum NoEthernet {
    /// What it begins with is something else.
    Link(LinkType),
    /// It has no addresses, and none were given.
    Addresses(LinkType),
    /// Nothing in it says what it carries.
    Content,
}

impl NoEthernet {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            NoEthernet::Link(it) => fault!(
                "its link type is {}, and only frames of Ethernet, IP (raw) and Linux's 'any' \
                 can be sent",
                it.0
            ),
            NoEthernet::Addresses(it) => {
                fault!(
                    "its link type is {}, which has no Ethernet header", it.0;
                    "give 'rewrite' a 'source-mac' and a 'destination-mac' to make one"
                )
            }
            NoEthernet::Content => fault!(
                "it does not say what it carries, so that no Ethernet header can be made for it"
            ),
        }
    }
}

into_fault!(NoEthernet);

/// How the bytes of a frame become an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They are one.
    Is,
    /// A header with this type takes the place of so many bytes at its beginning.
    Of(EtherType, usize),
}

/// Bytes that a frame of this link type can become longer.
pub fn adds(link: LinkType) -> usize {
    if link == LinkType::ETHERNET { 0 } else { ethernet::LEN }
}

/// Finds out how a frame becomes one of Ethernet.
///
/// # Errors
/// Where it cannot.
pub fn form(frame: &Frame<'_>) -> Result<Form, NoEthernet> {
    match frame.link.header() {
        Some(LinkHeader::Ethernet) => Ok(Form::Is),
        Some(LinkHeader::Cooked { ether_type_at, len }) => {
            let ether_type = EtherType::read(frame.bytes, ether_type_at);
            // below are lengths, and numbers of Linux's own (IEEE 802.3 §3.2.6)
            let ether_type = ether_type.filter(|ether_type| ether_type.0 >= 0x600);
            let ether_type = ether_type.filter(|_| frame.bytes.len() >= len);
            ether_type.map(|ether_type| Form::Of(ether_type, len)).ok_or(NoEthernet::Content)
        }
        Some(LinkHeader::None { skipped: 0 }) => match Version::of_packet(frame.bytes) {
            Some(Version::V4) => Ok(Form::Of(EtherType::IPV4, 0)),
            Some(Version::V6) => Ok(Form::Of(EtherType::IPV6, 0)),
            None => Err(NoEthernet::Content),
        },
        _ => Err(NoEthernet::Link(frame.link)),
    }
}

/// Writes the Ethernet frame over whatever is in `out`. `macs` are source and destination.
///
/// # Errors
/// Where it needs addresses and has none.
pub fn write(
    frame: &Frame<'_>,
    form: Form,
    macs: Option<(MacAddr, MacAddr)>,
    out: &mut Vec<u8>,
) -> Result<(), NoEthernet> {
    out.clear();
    let Form::Of(ether_type, skip) = form else {
        out.extend_from_slice(frame.bytes);
        return Ok(());
    };
    let (source, destination) = macs.ok_or(NoEthernet::Addresses(frame.link))?;
    out.extend_from_slice(&destination.0);
    out.extend_from_slice(&source.0);
    out.extend_from_slice(&ether_type.0.to_be_bytes());
    out.extend_from_slice(frame.bytes.get(skip..).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: Option<(MacAddr, MacAddr)> =
        Some((MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])));

    fn made(link: LinkType, bytes: &[u8]) -> Result<Vec<u8>, NoEthernet> {
        let original = bytes.len() as u32;
        let frame = Frame { time_ns: None, interface: 0, link, bytes, original };
        let mut out = vec![9; 5];
        write(&frame, form(&frame)?, MACS, &mut out).map(|()| out)
    }

    #[test]
    fn ip_and_cooked_frames_are_given_a_header() {
        let header =
            |ether_type: [u8; 2]| [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ether_type].concat();
        let with = |ether_type, rest: &[u8]| Ok([&header(ether_type)[..], rest].concat());
        assert_eq!(made(LinkType::RAW, &[0x45, 1]), with([8, 0], &[0x45, 1]));
        assert_eq!(made(LinkType::RAW_BSD[1], &[0x60, 1]), with([0x86, 0xdd], &[0x60, 1]));
        let sll = [&[0; 14][..], &[8, 6], &[7; 5]].concat();
        assert_eq!(made(LinkType::LINUX_SLL, &sll), with([8, 6], &[7; 5]));
        let sll2 = [&[8, 0][..], &[0; 18], &[7; 5]].concat();
        assert_eq!(made(LinkType::LINUX_SLL2, &sll2), with([8, 0], &[7; 5]));
        assert_eq!(made(LinkType::ETHERNET, &[5; 3]), Ok(vec![5; 3]));
    }

    #[test]
    fn what_cannot_be_one_says_why() {
        assert_eq!(made(LinkType(105), &[0; 60]), Err(NoEthernet::Link(LinkType(105))));
        assert_eq!(made(LinkType::RAW, &[0x15]), Err(NoEthernet::Content));
        assert_eq!(made(LinkType::RAW, &[]), Err(NoEthernet::Content));
        assert_eq!(made(LinkType::LINUX_SLL, &[0; 20]), Err(NoEthernet::Content));
        let frame =
            Frame { time_ns: None, interface: 0, link: LinkType::RAW, bytes: &[0x45], original: 1 };
        let error = write(&frame, form(&frame).unwrap(), None, &mut Vec::new());
        assert!(error.unwrap_err().to_string().contains("'source-mac' and a 'destination-mac'"));
    }
}
