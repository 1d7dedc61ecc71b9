//! Writes queries, and responses with addresses.

use std::net::IpAddr;

use crate::codes::{BADVERS, FORMERR, NOERROR, NOTIMP, RecordType};
use crate::name::Name;
use crate::read::{HEADER, Message, OPT, word};

/// The longest message over UDP that every client takes (RFC 1035 §4.2.1).
pub const PLAIN_MAX: usize = 512;
/// The longest that our servers send to one that says it takes more: it crosses IPv6 links whole (RFC 9715 §3.1, 1232 bytes).
pub const EDNS_MAX: usize = 1232;
/// The class of the internet.
const IN: u16 = 1;
/// Where the name of the first question is: what records point to.
const FIRST_NAME: u16 = 0xc000 | HEADER as u16;
/// Bytes of a record of EDNS without data.
const OPT_LEN: usize = 11;

/// Flags of a header.
const RESPONSE: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;

/// A query of one name.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The number that its response will have.
    pub id: u16,
    /// The name.
    pub name: &'a Name,
    /// The type of records.
    pub kind: RecordType,
    /// Whether the server is to ask others.
    pub recursion_desired: bool,
}

impl Query<'_> {
    /// Adds its bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flags = if self.recursion_desired { RECURSION_DESIRED } else { 0 };
        header(out, self.id, flags, [1, 0, 0, 0]);
        out.extend_from_slice(self.name.as_bytes());
        words(out, &[self.kind.number(), IN]);
    }
}

/// What a server answers to every query.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The addresses of every name.
    pub addresses: &'a [IpAddr],
    /// How many seconds they hold.
    pub ttl: u32,
    /// The response code; of another than 0 there are no addresses.
    pub rcode: u16,
}

impl Answer<'_> {
    /// Adds the response to `query`, which was read from `bytes`, to `out`: at most `longest` bytes, with the flag that says so where
    /// some addresses had no room. Gives its response code; `None`: there is no response to that.
    pub fn write(
        &self,
        query: &Message,
        bytes: &[u8],
        longest: usize,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        if query.is_response {
            // two servers would answer each other for ever
            return None;
        }
        let question = query.question.filter(|_| query.questions == 1);
        let rcode = match (query.opcode, query.edns) {
            (0, Some(edns)) if edns.version > 0 => BADVERS,
            (0, _) if question.is_none() => FORMERR,
            (0, _) => self.rcode,
            _ => NOTIMP,
        };
        let begin = out.len();
        let asked = question.map_or(0, |question| question.name.as_bytes().len() + 4);
        header(out, query.id, 0, [u16::from(asked > 0), 0, 0, u16::from(query.edns.is_some())]);
        // the first name is never one that points elsewhere: there is nothing before it
        out.extend_from_slice(bytes.get(HEADER..HEADER + asked).unwrap_or_default());
        let reserved = if query.edns.is_some() { OPT_LEN } else { 0 };
        let (mut count, mut truncated) = (0, false);
        if let Some(question) = question.filter(|of| rcode == NOERROR && of.class == IN) {
            for address in self.addresses {
                let (kind, bytes): (RecordType, &[u8]) = match address {
                    IpAddr::V4(address) => (RecordType::A, &address.octets()),
                    IpAddr::V6(address) => (RecordType::Aaaa, &address.octets()),
                };
                if ![kind.number(), RecordType::Any.number()].contains(&question.kind) {
                    continue;
                }
                if out.len() - begin + 12 + bytes.len() + reserved > longest {
                    truncated = true;
                    break;
                }
                words(out, &[FIRST_NAME, kind.number(), IN]);
                out.extend_from_slice(&self.ttl.to_be_bytes());
                words(out, &[bytes.len() as u16]);
                out.extend_from_slice(bytes);
                count += 1_u16;
            }
        }
        if query.edns.is_some() {
            out.push(0);
            words(out, &[OPT, EDNS_MAX as u16, rcode >> 4 << 8, 0, 0]);
        }
        let mut flags = RESPONSE | AUTHORITATIVE | u16::from(query.opcode) << 11 | rcode & 0xf;
        flags |= if query.recursion_desired { RECURSION_DESIRED } else { 0 };
        flags |= if truncated { TRUNCATED } else { 0 };
        for (at, value) in [(2, flags), (6, count)] {
            if let Some(place) = out.get_mut(begin + at..begin + at + 2) {
                place.copy_from_slice(&value.to_be_bytes());
            }
        }
        Some(rcode)
    }
}

/// Adds the response FORMERR to what is no message but begins like a query: a header alone, so never more than came. `false`: it gets
/// no response.
pub fn refuse(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let (Ok(id), Ok(flags)) = (word(bytes, 0), word(bytes, 2)) else { return false };
    if bytes.len() < HEADER || flags & RESPONSE != 0 {
        return false;
    }
    let flags = RESPONSE | flags & (0x7800 | RECURSION_DESIRED) | FORMERR;
    header(out, id, flags, [0; 4]);
    true
}

fn header(out: &mut Vec<u8>, id: u16, flags: u16, counts: [u16; 4]) {
    words(out, &[id, flags]);
    words(out, &counts);
}

fn words(out: &mut Vec<u8>, words: &[u16]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
}
