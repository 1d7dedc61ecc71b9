//! The grammar of filters, from the top down. Qualifiers come in the order protocol, direction, kind, and then a
//! value; a value alone is one of the kind before it: `port 80 or 443`.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_units::{Fault, fault};

use super::test::{Ask, Ends, Families, RARP, Test};
use super::words::{Word, words};
use super::{Chain, DEPTH_MAX, FilterError, Join, Term, What};
use crate::ethernet::EtherType;
use crate::ip::Protocol;
use crate::mac::MacAddr;
use crate::rewrite::Prefix;
use crate::vlan;

const NO_FAMILY: Families = Families { v4: false, v6: false, arp: false, rarp: false };
pub const V4: Families = Families { v4: true, ..NO_FAMILY };
const V6: Families = Families { v6: true, ..NO_FAMILY };
const IP: Families = Families { v6: true, ..V4 };
const ALL: Families = Families { v4: true, v6: true, arp: true, rarp: true };

/// Protocols over IP by their names, and over which version a name alone means them.
const PROTOCOLS: [(&str, u8, Families); 10] = [
    ("icmp", 1, V4),
    ("igmp", 2, V4),
    ("tcp", 6, IP),
    ("udp", 17, IP),
    ("esp", 50, IP),
    ("ah", 51, IP),
    ("icmp6", 58, V6),
    ("pim", 103, IP),
    ("vrrp", 112, V4),
    ("sctp", 132, IP),
];

const ETHER_TYPES: [(&str, EtherType); 4] =
    [("ip", EtherType::IPV4), ("ip6", EtherType::IPV6), ("arp", EtherType::ARP), ("rarp", RARP)];

/// What a message says that there is.
const KNOWN: &str = "there are host, net, port, portrange, proto, src, dst, ether, ip, ip6, arp, rarp, tcp, udp, sctp, \
                     icmp, icmp6, igmp, esp, ah, pim, vrrp, vlan, broadcast, multicast, less, greater, len, bytes as \
                     tcp[13], and, or, not, and parentheses";

/// What stands before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Qualifiers<'a> {
    protocol: Option<&'a str>,
    ends: Option<Ends>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
    Protocol,
}

/// Makes a chain of tests of a text.
pub fn filter(text: &str) -> Result<Chain, FilterError> {
    let words = words(text);
    let end = text.chars().count() + 1;
    let mut parser = Parser { words: &words, next: 0, end, shift: 0, depth: 0, last: None };
    let chain = parser.chain()?;
    match parser.peek() {
        None => Ok(chain),
        Some(word) if word.text == ")" => Err(word.error("no parenthesis was opened for this one")),
        Some(word) => {
            Err(word.error(format!("'and' or 'or' is missing before '{}'", word.shown())))
        }
    }
}

pub struct Parser<'a> {
    words: &'a [Word<'a>],
    pub next: usize,
    end: usize,
    /// Bytes of the tags that were asked for so far.
    pub shift: usize,
    pub depth: usize,
    last: Option<Qualifiers<'a>>,
}

impl Word<'_> {
    pub fn error(&self, why: impl Into<Fault>) -> FilterError {
        FilterError { at: self.at, why: why.into() }
    }

    pub fn shown(&self) -> String {
        self.text.chars().take(60).collect()
    }

    /// Whether it can be nothing but a value.
    fn is_value(&self) -> bool {
        self.text.starts_with(|char: char| char.is_ascii_digit()) || self.text.contains(':')
    }
}

impl<'a> Parser<'a> {
    pub fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    /// The text of the word after so many others.
    pub fn ahead(&self, count: usize) -> &'a str {
        self.words.get(self.next + count).map_or("", |word| word.text)
    }

    pub fn take(&mut self, wanted: &str) -> Result<Word<'a>, FilterError> {
        let word = self.peek().ok_or_else(|| FilterError {
            at: self.end,
            why: fault!(
                "the filter ends where {wanted} is to follow";
                "write for example 'udp port 53' or 'src host 10.0.0.1'"
            ),
        })?;
        self.next += 1;
        Ok(word)
    }

    /// Takes the next word where it is one of these.
    pub fn take_if(&mut self, texts: &[&str]) -> bool {
        let is = texts.contains(&self.ahead(0));
        self.next += usize::from(is);
        is
    }

    fn chain(&mut self) -> Result<Chain, FilterError> {
        let first = self.term()?;
        let mut rest = Vec::new();
        loop {
            let join = match self.ahead(0) {
                "and" | "&&" => Join::And,
                "or" | "||" => Join::Or,
                _ => return Ok(Chain { first, rest }),
            };
            self.next += 1;
            rest.push((join, self.term()?));
        }
    }

    fn term(&mut self) -> Result<Term, FilterError> {
        let mut negated = false;
        while self.take_if(&["not", "!"]) {
            negated = !negated;
        }
        let what = match self.ahead(0) {
            _ if self.is_relation() => {
                let relation = self.relation()?;
                self.test(relation)
            }
            "(" => self.parenthesis()?,
            _ => self.primitive()?,
        };
        Ok(Term { negated, what })
    }

    /// Whether a value alone would be a network.
    pub fn lists_nets(&self) -> bool {
        self.last.is_some_and(|last| last.kind == Kind::Net)
    }

    fn parenthesis(&mut self) -> Result<What, FilterError> {
        let opened = self.take("a parenthesis")?;
        if self.depth == DEPTH_MAX {
            return Err(
                opened.error(format!("there are {DEPTH_MAX} parentheses in one another at most"))
            );
        }
        self.depth += 1;
        let chain = self.chain()?;
        self.depth -= 1;
        match self.take_if(&[")"]) {
            true => Ok(What::Chain(Box::new(chain))),
            false => match self.peek() {
                Some(word) => Err(word.error(format!(
                    "'and', 'or' or a closing parenthesis is missing before '{}'",
                    word.shown()
                ))),
                None => Err(opened.error("this parenthesis is not closed")),
            },
        }
    }

    fn test(&self, ask: Ask) -> What {
        What::Test(Test { ask, shift: self.shift })
    }

    fn primitive(&mut self) -> Result<What, FilterError> {
        let word = self.take("a test")?;
        let simple = match word.text {
            "vlan" => return self.vlan(),
            "less" => Ask::AtMost(self.number("a length")?),
            "greater" => Ask::AtLeast(self.number("a length")?),
            "broadcast" => Ask::LinkBroadcast,
            "multicast" => Ask::LinkMulticast,
            _ if word.is_value() => {
                let Some(last) = self.last else {
                    let why = format!("what is '{}'? write for example host {0}", word.shown());
                    return Err(word.error(why));
                };
                self.next -= 1;
                return self.value(last);
            }
            _ => return self.qualified(word),
        };
        Ok(self.test(simple))
    }

    fn vlan(&mut self) -> Result<What, FilterError> {
        let mut id = None;
        if let Some(word) = self.peek().filter(Word::is_value) {
            let number = self.number("a VLAN")?;
            let number = u16::try_from(number).ok().filter(|id| *id < 0x1000);
            id = Some(
                number.ok_or_else(|| word.error(format!("there is no VLAN {}", word.shown())))?,
            );
        }
        let what = self.test(Ask::Vlan(id));
        self.shift += vlan::LEN;
        Ok(what)
    }

    /// Qualifiers and a value; or a protocol alone, or with what is asked of its destination.
    fn qualified(&mut self, first: Word<'a>) -> Result<What, FilterError> {
        let is_protocol = |text: &str| {
            matches!(text, "ether" | "ip" | "ip6" | "arp" | "rarp")
                || PROTOCOLS.iter().any(|(name, ..)| *name == text)
        };
        let mut protocol = None;
        if is_protocol(first.text) {
            protocol = Some(first.text);
            let asked = match (first.text, self.ahead(0)) {
                ("ether", "broadcast") => Some(Ask::LinkBroadcast),
                ("ether", "multicast") => Some(Ask::LinkMulticast),
                ("ip", "multicast") => Some(Ask::Multicast(V4)),
                ("ip6", "multicast") => Some(Ask::Multicast(V6)),
                _ => None,
            };
            if let Some(ask) = asked {
                self.next += 1;
                return Ok(self.test(ask));
            }
        } else {
            self.next -= 1;
        }
        let ends = self.ends();
        let kind = match self.ahead(0) {
            "host" => Some(Kind::Host),
            "net" => Some(Kind::Net),
            "port" => Some(Kind::Port),
            "portrange" => Some(Kind::PortRange),
            "proto" => Some(Kind::Protocol),
            _ => None,
        };
        self.next += usize::from(kind.is_some());
        let value = self.peek().is_some_and(|word| word.is_value() || word.text == "(");
        if let (Some(name), None, None, false) = (protocol, ends, kind, value) {
            return self.alone(first, name);
        }
        if protocol.is_none() && ends.is_none() && kind.is_none() {
            return Err(first.error(fault!("'{}' is not known", first.shown(); "{KNOWN}")));
        }
        let qualifiers = Qualifiers { protocol, ends, kind: kind.unwrap_or(Kind::Host) };
        if self.ahead(0) == "(" {
            self.last = Some(qualifiers);
            return self.parenthesis();
        }
        self.value(qualifiers)
    }

    /// A protocol alone.
    fn alone(&self, word: Word<'a>, name: &str) -> Result<What, FilterError> {
        if let Some((_, number, families)) = PROTOCOLS.iter().find(|(known, ..)| *known == name) {
            return Ok(self.test(Ask::Protocol(*families, Protocol(*number))));
        }
        match ETHER_TYPES.iter().find(|(known, _)| *known == name) {
            Some((_, ether_type)) => Ok(self.test(Ask::EtherType(*ether_type))),
            None => Err(word.error("what of it? write for example ether host 02:00:00:00:00:01")),
        }
    }

    fn ends(&mut self) -> Option<Ends> {
        let joined = match (self.ahead(0), self.ahead(1), self.ahead(2)) {
            ("src", "or" | "||", "dst") | ("dst", "or" | "||", "src") => Some(Ends::Either),
            ("src", "and" | "&&", "dst") | ("dst", "and" | "&&", "src") => Some(Ends::Both),
            _ => None,
        };
        if joined.is_some() {
            self.next += 3;
            return joined;
        }
        let ends = match self.ahead(0) {
            "src" => Ends::Source,
            "dst" => Ends::Destination,
            _ => return None,
        };
        self.next += 1;
        Some(ends)
    }

    /// The value behind qualifiers.
    fn value(&mut self, qualifiers: Qualifiers<'a>) -> Result<What, FilterError> {
        self.last = Some(qualifiers);
        let ends = qualifiers.ends.unwrap_or(Ends::Either);
        let wrong = |word: Word<'_>| {
            word.error(format!("'{}' does not say this", qualifiers.protocol.unwrap_or_default()))
        };
        let at = self.peek();
        let ask = match qualifiers.kind {
            Kind::Host if qualifiers.protocol == Some("ether") => {
                let word = self.take("an Ethernet address")?;
                let mac: MacAddr = word.text.parse().map_err(|why| word.error(format!("{why}")))?;
                Ask::Mac(ends, mac.0)
            }
            Kind::Host | Kind::Net => {
                let families = match qualifiers.protocol {
                    None => ALL,
                    Some("ip") => V4,
                    Some("ip6") => V6,
                    Some("arp") => Families { arp: true, ..NO_FAMILY },
                    Some("rarp") => Families { rarp: true, ..NO_FAMILY },
                    Some(_) => return Err(self.error_at(at, wrong)),
                };
                let prefix = if qualifiers.kind == Kind::Net { self.net()? } else { self.host()? };
                Ask::Address(families, ends, prefix)
            }
            Kind::Port | Kind::PortRange => {
                const ANY: &[Protocol] = &[Protocol::TCP, Protocol::UDP, Protocol::SCTP];
                let protocols = match qualifiers.protocol {
                    None => ANY,
                    Some("tcp") => &ANY[..1],
                    Some("udp") => &ANY[1..2],
                    Some("sctp") => &ANY[2..],
                    Some(_) => return Err(self.error_at(at, wrong)),
                };
                Ask::Ports(protocols, ends, self.ports(qualifiers.kind == Kind::PortRange)?)
            }
            Kind::Protocol if qualifiers.ends.is_some() => return Err(self.error_at(at, wrong)),
            Kind::Protocol => match qualifiers.protocol {
                None => Ask::Protocol(IP, self.protocol()?),
                Some("ip") => Ask::Protocol(V4, self.protocol()?),
                Some("ip6") => Ask::Protocol(V6, self.protocol()?),
                Some("ether") => Ask::EtherType(self.ether_type()?),
                Some(_) => return Err(self.error_at(at, wrong)),
            },
        };
        Ok(self.test(ask))
    }

    fn error_at(
        &self,
        word: Option<Word<'a>>,
        of: impl Fn(Word<'_>) -> FilterError,
    ) -> FilterError {
        of(word.unwrap_or(Word { text: "", at: self.end }))
    }

    fn number(&mut self, wanted: &str) -> Result<u32, FilterError> {
        let word = self.take(wanted)?;
        number(word.text).ok_or_else(|| {
            word.error(format!("'{}' is not a number, and {wanted} is to follow", word.shown()))
        })
    }

    fn host(&mut self) -> Result<Prefix, FilterError> {
        let word = self.take("an address")?;
        let address: IpAddr = word.text.parse().map_err(|_| {
            word.error(fault!(
                "'{}' is not an IP address", word.shown();
                "names are not looked up, and an Ethernet address stands behind 'ether host'"
            ))
        })?;
        Ok(Prefix::new(address, 128))
    }

    /// `10.0.0.0/8`, `10.0.0.0 mask 255.0.0.0`, or the first bytes of an address alone: `192.168`.
    fn net(&mut self) -> Result<Prefix, FilterError> {
        let word = self.take("a network")?;
        let refused = || {
            word.error(
                fault!("'{}' is not a network", word.shown(); "write for example 10.0.0.0/8"),
            )
        };
        let text = word.text;
        let len = match self.take_if(&["/"]) {
            true => Some(number(self.take("the length of a prefix")?.text).ok_or_else(refused)?),
            false => None,
        };
        let (address, mut len) = match text.parse::<IpAddr>() {
            Ok(address) => (address, len.unwrap_or(if address.is_ipv4() { 32 } else { 128 })),
            Err(_) => {
                let (address, bytes) = beginning(text).ok_or_else(refused)?;
                (address.into(), len.unwrap_or(bytes * 8))
            }
        };
        if self.take_if(&["mask"]) {
            let word = self.take("a mask")?;
            let mask = word.text.parse().ok().map(Ipv4Addr::to_bits);
            let mask = mask.filter(|mask| mask.leading_ones() + mask.trailing_zeros() == 32);
            len = mask
                .ok_or_else(|| word.error("a mask is ones and then zeros: 255.0.0.0"))?
                .leading_ones();
        }
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = u8::try_from(len).ok().filter(|len| *len <= most).ok_or_else(refused)?;
        let prefix = Prefix::new(address, len);
        match prefix.address() == address {
            true => Ok(prefix),
            false => Err(word.error(fault!("it has bits behind its prefix"; "write {prefix}"))),
        }
    }

    fn ports(&mut self, is_range: bool) -> Result<(u16, u16), FilterError> {
        let word = self.take("a port")?;
        let port = |text: &str| {
            let port = number(text).and_then(|port| u16::try_from(port).ok());
            port.ok_or_else(|| {
                word.error(fault!(
                    "'{}' is not a port", word.shown();
                    "names are not looked up, write a number up to 65535"
                ))
            })
        };
        match word.text.split_once('-').filter(|_| is_range) {
            Some((first, last)) => {
                let (first, last) = (port(first)?, port(last)?);
                Ok((first.min(last), first.max(last)))
            }
            None => port(word.text).map(|port| (port, port)),
        }
    }

    fn protocol(&mut self) -> Result<Protocol, FilterError> {
        let word = self.take("the number of a protocol")?;
        let name = word.text.strip_prefix('\\').unwrap_or(word.text);
        let named =
            PROTOCOLS.iter().find(|(known, ..)| *known == name).map(|(_, number, _)| *number);
        let numbered = || number(name).and_then(|number| u8::try_from(number).ok());
        named.or_else(numbered).map(Protocol).ok_or_else(|| {
            word.error(
                fault!("'{}' is not a protocol", word.shown(); "write its number, up to 255"),
            )
        })
    }

    fn ether_type(&mut self) -> Result<EtherType, FilterError> {
        let word = self.take("an EtherType")?;
        let name = word.text.strip_prefix('\\').unwrap_or(word.text);
        let named = ETHER_TYPES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        // below are lengths (IEEE 802.3 §3.2.6)
        let numbered = || number(name).and_then(|number| u16::try_from(number).ok());
        let numbered = || numbered().filter(|number| *number >= 0x600).map(EtherType);
        named.or_else(numbered).ok_or_else(|| {
            word.error(
                fault!("'{}' is not an EtherType", word.shown(); "write a number from 0x600 on"),
            )
        })
    }
}

/// A number in decimal digits, in hexadecimal ones behind `0x`, in octal ones behind `0`.
pub fn number(text: &str) -> Option<u32> {
    let (digits, base) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let is_digits = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_digits.then(|| u32::from_str_radix(digits, base).ok()).flatten()
}

/// The address that begins with one to three bytes, and how many they are.
fn beginning(text: &str) -> Option<(Ipv4Addr, u32)> {
    let mut octets = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        *octets.get_mut(..3)?.get_mut(count)? = Some(part)
            .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?
            .parse()
            .ok()?;
        count += 1;
    }
    Some((octets.into(), count as u32))
}
