//! Echo (RFC 792, RFC 4443 §4): a request becomes its reply.

use std::net::IpAddr;

use wirebeat_wire::checksum::{Sum, checksum};
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::ipv4;
use wirebeat_wire::mac::MacAddr;

use crate::link::{Link, Writer};
use crate::{Ignored, ndp};

/// Types of messages; their code is 0.
const REQUEST: u8 = 8;
const REPLY: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
/// Bytes of a message without data.
const LEN: usize = 8;
/// Time to live and hop limit of what is sent (RFC 1700's default).
const TTL: u8 = 64;
/// The bits of the ToS byte that are not ECN's (RFC 3168 §5): ICMP is not ECN-capable (§6.1.4, by analogy).
const DSCP: u8 = 0xfc;

/// Whether a message of this protocol begins an echo request.
#[inline]
pub(crate) fn is_request(protocol: Protocol, source: IpAddr, content: &[u8]) -> bool {
    matches!(
        (protocol, source, content),
        (Protocol::ICMP, IpAddr::V4(_), [REQUEST, 0, ..])
            | (Protocol::ICMPV6, IpAddr::V6(_), [REQUEST_V6, 0, ..])
    )
}

/// An echo request to one of our hosts, which was not divided into fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub tos: u8,
    /// The IP header with its options or extension headers.
    pub headers: &'a [u8],
    /// The message.
    pub content: &'a [u8],
}

impl Request<'_> {
    /// Writes the reply in a frame to `to`; returns its length, or `None` where `into` is shorter. Options and extension headers
    /// are not repeated, so that a reply is never longer than its request.
    ///
    /// # Errors
    /// The request is cut short, or a checksum is wrong.
    pub fn reply(
        &self,
        link: &Link,
        to: MacAddr,
        into: &mut [u8],
    ) -> Result<Option<usize>, Ignored> {
        let Request { source, destination, tos, headers, content } = *self;
        // What follows the checksum is sent back as it is.
        let (&[_, _, _, _, a, b, c, d], data) =
            content.split_first_chunk::<LEN>().ok_or(Ignored::Malformed)?;
        let writer = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                if checksum(headers) != 0 || checksum(content) != 0 {
                    return Err(Ignored::Checksum);
                }
                let total = (ipv4::LEN + content.len()) as u16;
                let [high, low] = total.to_be_bytes();
                let mut header = [0; ipv4::LEN];
                let [p0, p1, p2, p3] = destination.octets();
                let [q0, q1, q2, q3] = source.octets();
                // An atomic datagram's identification may be anything (RFC 6864 §4.1); it must not be divided.
                let fields = [0x45, tos & DSCP, high, low, 0, 0, 0x40, 0, TTL, Protocol::ICMP.0];
                let addresses = [p0, p1, p2, p3, q0, q1, q2, q3];
                for (to, from) in
                    header.iter_mut().zip(fields.iter().chain(&[0, 0]).chain(&addresses))
                {
                    *to = *from;
                }
                let [high, low] = checksum(&header).to_be_bytes();
                let [.., sum_high, sum_low, _, _, _, _, _, _, _, _] = &mut header;
                (*sum_high, *sum_low) = (high, low);
                let mut writer = Writer::new(link, to, EtherType::IPV4, into);
                writer.put(&header);
                // The data follows a header of whole words, so that both sum as one.
                let sum = Sum::ZERO.add_bytes(&[REPLY, 0, 0, 0, a, b, c, d]).add_bytes(data);
                let [high, low] = sum.checksum().to_be_bytes();
                writer.put(&[REPLY, 0, high, low, a, b, c, d]);
                writer
            }
            (IpAddr::V6(source_v6), IpAddr::V6(destination_v6)) => {
                if !ndp::sum_is_right(source_v6, destination_v6, content) {
                    return Err(Ignored::Checksum);
                }
                let pseudo =
                    Sum::pseudo(destination, source, Protocol::ICMPV6, content.len() as u32);
                let sum = pseudo.ok_or(Ignored::Malformed)?;
                let sum = sum.add_bytes(&[REPLY_V6, 0, 0, 0, a, b, c, d]).add_bytes(data);
                let mut writer = Writer::new(link, to, EtherType::IPV6, into);
                let tos = tos & DSCP;
                let [high, low] = (content.len() as u16).to_be_bytes();
                writer.put(&[0x60 | tos >> 4, tos << 4, 0, 0, high, low, Protocol::ICMPV6.0, TTL]);
                writer.put(&destination_v6.octets());
                writer.put(&source_v6.octets());
                let [high, low] = sum.checksum().to_be_bytes();
                writer.put(&[REPLY_V6, 0, high, low, a, b, c, d]);
                writer
            }
            _ => return Err(Ignored::Malformed),
        };
        let mut writer = writer;
        writer.put(data);
        Ok(writer.finish())
    }
}
