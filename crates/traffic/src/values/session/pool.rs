//! Who talks to whom: pools of addresses and ports.
//!
//! A pool is written as addresses (`10.0.1.1`), prefixes (`10.0.1.0/24`) and ranges (`10.0.1.1-10.0.1.9`), or a list of them, and
//! ports likewise. Sessions take them in turn or at random, by their number: a pool is a function, however large it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wirebeat_units::{Fault, fault};
use wirebeat_wire::mac::MacSequence;

use crate::text::{custom, printable};

/// The most parts of a list of addresses or ports.
const PARTS_MAX: usize = 1000;
/// The largest weight of one of them.
const WEIGHT_MAX: u32 = 1000;

/// The addresses and ports of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Its addresses.
    pub addresses: AddressPool,
    /// Its ports; `None`: any.
    pub ports: Option<PortPool>,
    /// In which order sessions take them.
    pub order: PoolOrder,
    /// The Ethernet addresses of its hosts, by the place of each IP address in the pool. `None`: all have that of their port.
    pub macs: Option<MacSequence>,
}

/// In which order sessions take addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolOrder {
    /// One after the other: addresses first, and the next port when all addresses had their turn.
    #[default]
    InTurn,
    /// At random, by the seed of the run.
    Random,
}

impl Pool {
    /// Whether an address and port of this pool is one of `other` too. Of a pool without ports every port counts.
    pub fn overlaps(&self, other: &Pool) -> bool {
        let port = match (&self.ports, &other.ports) {
            (Some(mine), Some(theirs)) => mine.0.iter().any(|range| {
                theirs.0.iter().any(|of| range.first <= of.last && of.first <= range.last)
            }),
            _ => true,
        };
        let (mine, theirs) = (&self.addresses, &other.addresses);
        // those of one port where none are written
        port && (mine.is_empty() && theirs.is_empty() || mine.common(theirs).is_some())
    }

    pub(crate) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.ports.as_ref().is_some_and(|ports| ports.0.is_empty()) {
            return Err(("ports", fault!("a list of ports is not empty")));
        }
        let mixed = |first: &AddressRange| {
            self.addresses.0.iter().find(|range| range.is_ipv6() != first.is_ipv6())
        };
        if let Some(first) = self.addresses.0.first()
            && let Some(other) = mixed(first)
        {
            return Err((
                "addresses",
                fault!(
                    "{first} and {other} are of two versions of IP";
                    "make a group of sessions for each"
                ),
            ));
        }
        Ok(())
    }
}

/// Addresses from a first to a last one, both of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The first.
    pub first: IpAddr,
    /// The last; not before the first.
    pub last: IpAddr,
    /// The length of the prefix that it was written as.
    prefix: Option<u8>,
    /// How many of the sessions it has, in parts of the sum; `None`: each address of the pool has as many as the others.
    weight: Option<NonZeroU32>,
}

impl AddressRange {
    /// The first address that is in `other` too.
    pub fn common(&self, other: &AddressRange) -> Option<IpAddr> {
        let first = if bits(self.first) < bits(other.first) { other } else { self }.first;
        let alike = self.is_ipv6() == other.is_ipv6();
        (alike && bits(first) <= bits(self.last).min(bits(other.last))).then_some(first)
    }

    /// From `first` to `last`.
    ///
    /// # Errors
    /// They are of two versions of IP, or in the wrong order.
    pub fn between(first: IpAddr, last: IpAddr) -> Result<AddressRange, Fault> {
        if first.is_ipv4() != last.is_ipv4() {
            return Err(fault!("{first} and {last} are of two versions of IP"));
        }
        if bits(last) < bits(first) {
            return Err(fault!("{last} is before {first}"; "exchange them"));
        }
        Ok(AddressRange { first, last, prefix: None, weight: None })
    }

    /// Whether of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.first.is_ipv6()
    }

    /// How many addresses, saturating.
    pub fn len(&self) -> u64 {
        let apart = bits(self.last).saturating_sub(bits(self.first)).saturating_add(1);
        apart.try_into().unwrap_or(u64::MAX)
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What addresses of it are for, where some are of no host: groups, broadcast. With `on_link` those too that no host on a link
    /// has: unspecified ones, and those of the host itself.
    pub fn of_no_host(&self, on_link: bool) -> Option<&'static str> {
        let shared = |(first, last): (IpAddr, IpAddr)| {
            first.is_ipv6() == self.is_ipv6()
                && bits(self.first) <= bits(last)
                && bits(first) <= bits(self.last)
        };
        let found = NO_HOSTS
            .into_iter()
            .find(|(first, last, of_link, _)| (on_link || !of_link) && shared((*first, *last)));
        found.map(|(_, _, _, what)| what)
    }

    /// Address number `n`, from 0; the last one where there are fewer.
    pub fn get(&self, n: u64) -> IpAddr {
        let at = bits(self.first).saturating_add(n.into()).min(bits(self.last));
        match self.first {
            // a number up to the last address of IPv4
            IpAddr::V4(_) => Ipv4Addr::from_bits(at as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(at).into(),
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits))
}

/// Addresses that no host has (RFC 6890, RFC 4291 §2.4): from the first to the last, whether that is so on a link alone, and what they
/// are for.
const NO_HOSTS: [(IpAddr, IpAddr, bool, &str); 8] = [
    (v4(0, 0, 0, 0), v4(0, 255, 255, 255), true, "this network"),
    (v4(127, 0, 0, 0), v4(127, 255, 255, 255), true, "the host itself (loopback)"),
    (v4(224, 0, 0, 0), v4(239, 255, 255, 255), false, "multicast groups"),
    (v4(255, 255, 255, 255), v4(255, 255, 255, 255), false, "broadcast"),
    (v6(0), v6(0), true, "no address"),
    (v6(1), v6(1), true, "the host itself (loopback)"),
    (v6(0xffff_0000_0000), v6(0xffff_ffff_ffff), true, "IPv4 (mapped addresses)"),
    (v6(0xff << 120), v6(u128::MAX), false, "multicast groups"),
];

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> AddressRange {
        AddressRange { first: address, last: address, prefix: None, weight: None }
    }
}

impl FromStr for AddressRange {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let address = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| {
                fault!(
                    "'{}' is not an IP address", printable(text, 64);
                    "write for example 10.0.1.1, 10.0.1.0/24 or 10.0.1.1-10.0.1.9"
                )
            })
        };
        if let Some((network, length)) = text.split_once('/') {
            return prefix(address(network)?, length);
        }
        let Some((first, last)) = text.split_once('-') else {
            return Ok(address(text)?.into());
        };
        AddressRange::between(address(first)?, address(last)?)
    }
}

/// The addresses of a prefix that hosts have.
fn prefix(network: IpAddr, length: &str) -> Result<AddressRange, Fault> {
    let most = if network.is_ipv4() { 32 } else { 128 };
    let length: u8 =
        length.trim().parse().ok().filter(|length| *length <= most).ok_or_else(|| {
            fault!("'{}' is not the length of a prefix: 0 to {most}", printable(length, 16))
        })?;
    let host_bits = u32::from(most - length);
    let mask = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |bit| bit - 1);
    let at = bits(network);
    if at & mask != 0 {
        return Err(fault!(
            "{network} is not the first address of a prefix of {length} bits";
            "write the network's address, or a range"
        ));
    }
    // RFC 3021: of two addresses both are hosts'; IPv6 has no broadcast, and its first address is the routers' (RFC 4291 §2.6.1)
    let (first, last) = match (network, host_bits) {
        (_, 0 | 1) => (at, at | mask),
        (IpAddr::V4(_), _) => (at + 1, (at | mask) - 1),
        (IpAddr::V6(_), _) => (at + 1, at | mask),
    };
    let address = |at: u128| -> IpAddr {
        match network {
            IpAddr::V4(_) => Ipv4Addr::from_bits(at as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(at).into(),
        }
    };
    Ok(AddressRange {
        first: address(first),
        last: address(last),
        prefix: Some(length),
        weight: None,
    })
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(length) => {
                let most = if self.is_ipv6() { 128_u32 } else { 32 };
                let host_bits = most.saturating_sub(length.into());
                let mask = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |bit| bit - 1);
                let network = bits(self.first) & !mask;
                match self.first {
                    IpAddr::V4(_) => write!(f, "{}/{length}", Ipv4Addr::from_bits(network as u32)),
                    IpAddr::V6(_) => write!(f, "{}/{length}", Ipv6Addr::from_bits(network)),
                }
            }
            None if self.first == self.last => fmt::Display::fmt(&self.first, f),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// Addresses; none: the system's choice, or those of the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPool(pub Vec<AddressRange>);

impl AddressPool {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many addresses, saturating.
    pub fn len(&self) -> u64 {
        self.0.iter().fold(0, |sum, range| sum.saturating_add(range.len()))
    }

    /// The first address of a range that is one of `other` too.
    pub fn common(&self, other: &AddressPool) -> Option<IpAddr> {
        self.0.iter().find_map(|mine| other.0.iter().find_map(|theirs| mine.common(theirs)))
    }

    /// Address number `n`, over and over; `None` where there is none.
    pub fn get(&self, n: u64) -> Option<IpAddr> {
        let mut n = n % self.len().max(1);
        for range in &self.0 {
            if n < range.len() {
                return Some(range.get(n));
            }
            n -= range.len();
        }
        None
    }

    /// How many of the first bits all of them have in common; `None` where there are none.
    pub fn common_bits(&self) -> Option<u32> {
        let first = self.0.first()?.first;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let ends = self.0.iter().flat_map(|range| [range.first, range.last]);
        let different = ends.fold(0, |all, address| all | bits(first) ^ bits(address));
        Some(different.leading_zeros().saturating_sub(128 - width))
    }

    /// Whether some of them have more of the sessions than others.
    pub(crate) fn has_weights(&self) -> bool {
        self.weights() > 0
    }

    /// The sum of all weights; 0 where there are none.
    fn weights(&self) -> u64 {
        self.0.iter().filter_map(|range| range.weight).map(|weight| u64::from(weight.get())).sum()
    }

    /// The range that has part number `part` of the weights, and how many parts of its own are before that one.
    fn weighted(&self, mut part: u64) -> Option<(&AddressRange, u64)> {
        for range in &self.0 {
            let weight = u64::from(range.weight?.get());
            if part < weight {
                return Some((range, part));
            }
            part -= weight;
        }
        None
    }

    /// The address of the `n`th session, taken in turn, and how often each had its turn before.
    pub(crate) fn in_turn(&self, n: u64) -> (Option<IpAddr>, u64) {
        let weights = self.weights();
        if weights == 0 {
            let all = self.len().max(1);
            return (self.get(n % all), n / all);
        }
        let Some((range, before)) = self.weighted(n % weights) else { return (None, 0) };
        let weight = range.weight.map_or(1, |weight| u64::from(weight.get()));
        let of_range = (n / weights).saturating_mul(weight).saturating_add(before);
        (Some(range.get(of_range % range.len().max(1))), of_range / range.len().max(1))
    }

    /// An address at random; `below` draws a number below its argument.
    pub(crate) fn at_random(&self, mut below: impl FnMut(u64) -> u64) -> Option<IpAddr> {
        match self.weights() {
            0 => self.get(below(self.len().max(1))),
            weights => {
                let (range, _) = self.weighted(below(weights))?;
                Some(range.get(below(range.len().max(1))))
            }
        }
    }

    /// Whether the address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let at = bits(address);
        let within = |range: &AddressRange| {
            range.is_ipv6() == address.is_ipv6()
                && (bits(range.first)..=bits(range.last)).contains(&at)
        };
        self.0.iter().any(within)
    }
}

impl From<IpAddr> for AddressPool {
    fn from(address: IpAddr) -> AddressPool {
        AddressPool(vec![address.into()])
    }
}

/// Ports from a first to a last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first; not 0.
    pub first: u16,
    /// The last; not before the first.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let port = |text: &str| {
            text.trim().parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| {
                fault!(
                    "'{}' is not a port: 1 to 65535", printable(text, 16);
                    "write for example 80 or 1024-65535"
                )
            })
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?),
        };
        match first <= last {
            true => Ok(PortRange { first, last }),
            false => Err(fault!("{last} is before {first}"; "exchange them")),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// Ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPool(pub Vec<PortRange>);

impl PortPool {
    /// How many of the first of their 16 bits all of them have in common.
    pub fn common_bits(&self) -> u32 {
        let Some(first) = self.0.first().map(|range| range.first) else { return 0 };
        let ends = self.0.iter().flat_map(|range| [range.first, range.last]);
        ends.fold(0, |all, port| all | first ^ port).leading_zeros()
    }

    /// How many ports; at least 1.
    pub fn len(&self) -> u64 {
        let all = self.0.iter().map(|range| u64::from(range.last - range.first) + 1);
        all.sum::<u64>().max(1)
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Port number `n`, over and over.
    pub fn get(&self, n: u64) -> u16 {
        let mut n = n % self.len();
        for range in &self.0 {
            let len = u64::from(range.last - range.first) + 1;
            if n < len {
                // less than the length of a range of ports
                return range.first + n as u16;
            }
            n -= len;
        }
        0
    }

    /// Whether the port is one of them.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| (range.first..=range.last).contains(&port))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().flat_map(|range| range.first..=range.last)
    }
}

impl From<u16> for PortPool {
    fn from(port: u16) -> PortPool {
        PortPool(vec![PortRange { first: port, last: port }])
    }
}

/// A part of a list that may have a weight.
trait Weighted: Sized {
    /// The same with a weight; `None`: it has none.
    fn weigh(self, weight: NonZeroU32) -> Option<Self>;
    /// Its weight.
    fn weight(&self) -> Option<NonZeroU32>;
}

impl Weighted for AddressRange {
    fn weigh(self, weight: NonZeroU32) -> Option<AddressRange> {
        Some(AddressRange { weight: Some(weight), ..self })
    }

    fn weight(&self) -> Option<NonZeroU32> {
        self.weight
    }
}

impl Weighted for PortRange {
    fn weigh(self, _: NonZeroU32) -> Option<PortRange> {
        None
    }

    fn weight(&self) -> Option<NonZeroU32> {
        None
    }
}

/// Reads one part, a list of parts, or parts with their weights.
struct Parts<T>(std::marker::PhantomData<T>);

impl<'de, T: FromStr<Err = Fault> + Weighted> Visitor<'de> for Parts<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of them")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        text.parse().map(|one| vec![one]).map_err(custom)
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element::<Part<T>>()? {
            if parts.len() == PARTS_MAX {
                return Err(custom(fault!("a list of addresses or ports has {PARTS_MAX} at most")));
            }
            parts.push(part.0);
        }
        Ok(parts)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<T>, A::Error> {
        let mut parts = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some((text, weight)) = map.next_entry::<String, NonZeroU32>()? {
            if parts.len() == PARTS_MAX {
                return Err(custom(fault!("a list of addresses has {PARTS_MAX} at most")));
            }
            if weight.get() > WEIGHT_MAX {
                return Err(custom(fault!("a weight is {WEIGHT_MAX} at most")));
            }
            let part = text.parse::<T>().map_err(custom)?;
            let part = part.weigh(weight).ok_or_else(|| {
                custom(fault!("ports have no weights"; "give weights to addresses"))
            })?;
            if !seen.insert(text) {
                return Err(custom(fault!("these addresses are there twice"; "write them once")));
            }
            parts.push(part);
        }
        if parts.is_empty() {
            return Err(custom(fault!("a list of addresses with weights is not empty")));
        }
        Ok(parts)
    }
}

/// One part of a list.
struct Part<T>(T);

impl<'de, T: FromStr<Err = Fault> + Weighted> Deserialize<'de> for Part<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut parts = from.deserialize_any(Parts(std::marker::PhantomData))?;
        match (parts.pop(), parts.is_empty()) {
            (Some(part), true) => Ok(Part(part)),
            _ => Err(custom(fault!("this is one address or port, not a list"))),
        }
    }
}

macro_rules! list_of_parts {
    ($pool:ident $name:literal $description:literal $examples:tt $($more:tt)?) => {
        impl<'de> Deserialize<'de> for $pool {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Parts(std::marker::PhantomData)).map($pool)
            }
        }

        impl Serialize for $pool {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if self.0.iter().any(|part| part.weight().is_some()) {
                    let parts = self.0.iter().map(|part| (part.to_string(), part.weight()));
                    return serializer.collect_map(parts);
                }
                match &self.0[..] {
                    // a port is a number, and an address is none
                    [one] => match one.to_string().parse::<u16>() {
                        Ok(port) => serializer.serialize_u16(port),
                        Err(_) => serializer.collect_str(one),
                    },
                    all => serializer.collect_seq(all.iter().map(ToString::to_string)),
                }
            }
        }

        impl FromStr for $pool {
            type Err = Fault;

            fn from_str(text: &str) -> Result<Self, Fault> {
                text.split(',').map(str::parse).collect::<Result<_, _>>().map($pool)
            }
        }

        impl fmt::Display for $pool {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut parts = Vec::with_capacity(self.0.len());
                for part in &self.0 {
                    parts.push(match part.weight() {
                        Some(weight) => format!("{part} (weight {weight})"),
                        None => part.to_string(),
                    });
                }
                f.write_str(&parts.join(", "))
            }
        }

        impl JsonSchema for $pool {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": $description,
                    "anyOf": [
                        { "type": ["string", "integer"] },
                        { "type": "array", "items": { "type": ["string", "integer"] }, "maxItems": 1000 }
                        $(, $more)?
                    ],
                    "examples": $examples
                })
            }
        }
    };
}

list_of_parts! {
    AddressPool "address-pool"
    "IP addresses: one, a prefix, a range, a list of them, or each with its weight."
    ["10.0.1.1", "10.0.1.0/24", "10.0.1.1-10.0.1.9", ["10.0.1.1", "10.0.2.0/24"], { "10.0.2.9": 3, "10.0.2.10": 1 }]
    {
        "type": "object",
        "additionalProperties": { "type": "integer", "minimum": 1, "maximum": 1000 },
        "minProperties": 1,
        "maxProperties": 1000
    }
}
list_of_parts! {
    PortPool "port-pool"
    "TCP ports: one, a range, or a list of them."
    [80, "1024-65535", [80, "8000-8009"]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_its_hosts() {
        let pool: AddressPool = "10.0.1.0/24".parse().unwrap();
        assert_eq!((pool.len(), pool.to_string()), (254, "10.0.1.0/24".to_owned()));
        assert_eq!(pool.get(0), "10.0.1.1".parse().ok());
        assert_eq!(pool.get(253), "10.0.1.254".parse().ok());
        assert_eq!(pool.get(254), "10.0.1.1".parse().ok());
        assert!(!pool.contains("10.0.1.0".parse().unwrap()));
        let two: AddressPool = "10.0.1.4/31".parse().unwrap();
        assert_eq!((two.len(), two.get(1)), (2, "10.0.1.5".parse().ok()));
        let all: AddressPool = "::/0".parse().unwrap();
        assert_eq!((all.len(), all.to_string()), (u64::MAX, "::/0".to_owned()));
        let one: AddressPool = "fd00::1/128".parse().unwrap();
        assert_eq!(one.get(7), "fd00::1".parse().ok());
    }

    #[test]
    fn addresses_of_no_host_are_found_in_any_range() {
        let found = |text: &str, on_link| text.parse::<AddressRange>().unwrap().of_no_host(on_link);
        for text in ["224.0.0.1", "10.0.0.1-255.0.0.0", "255.255.255.255", "ff02::1", "::/0"] {
            assert!(found(text, false).is_some(), "{text}");
        }
        for text in ["127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:10.0.0.1"] {
            assert_eq!(found(text, false), None, "{text}");
            assert!(found(text, true).is_some(), "{text}");
        }
        for text in
            ["10.0.0.0/8", "1.0.0.0-126.255.255.255", "240.0.0.1", "fd00::/64", "2001:db8::1"]
        {
            assert_eq!(found(text, true), None, "{text}");
        }
    }

    #[test]
    fn lists_are_taken_in_turn() {
        let pool: AddressPool = "10.0.0.1, 10.0.0.7-10.0.0.8".parse().unwrap();
        let taken: Vec<String> =
            (0..4).filter_map(|n| pool.get(n)).map(|a| a.to_string()).collect();
        assert_eq!(taken, ["10.0.0.1", "10.0.0.7", "10.0.0.8", "10.0.0.1"]);
        let ports: PortPool = "80,8000-8001".parse().unwrap();
        assert_eq!((0..4).map(|n| ports.get(n)).collect::<Vec<_>>(), [80, 8000, 8001, 80]);
        assert_eq!(ports.iter().collect::<Vec<_>>(), [80, 8000, 8001]);
    }

    #[test]
    fn weights_share_sessions_out() {
        let text = r#"{ "10.0.0.1-10.0.0.2": 3, "10.0.1.1": 1 }"#;
        let pool: AddressPool = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_string(&pool).unwrap(),
            text.replace(": ", ":").replace("{ ", "{").replace(", ", ",").replace(" }", "}")
        );
        let taken: Vec<_> =
            (0..8).map(|n| pool.in_turn(n)).map(|(a, k)| (a.unwrap().to_string(), k)).collect();
        let taken: Vec<(&str, u64)> = taken.iter().map(|(a, k)| (&a[5..], *k)).collect();
        let first = [("0.1", 0), ("0.2", 0), ("0.1", 1), ("1.1", 0)];
        let second = [("0.2", 1), ("0.1", 2), ("0.2", 2), ("1.1", 1)];
        assert_eq!(taken, [first, second].concat());
        let mut state = 1_u64;
        // Knuth's numbers
        let mut below = |count| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % count
        };
        let drawn = (0..4000).filter_map(|_| pool.at_random(&mut below));
        let ones = drawn.filter(|address| address.to_string() == "10.0.1.1").count();
        assert!((900..1100).contains(&ones), "{ones}");
        for (text, says) in [
            (r#"{ "10.0.0.1": 0 }"#, "zero"),
            (r#"{ "10.0.0.1": 1001 }"#, "1000 at most"),
            (r#"{ "10.0.0.1": 1, "10.0.0.1": 2 }"#, "twice"),
            ("{}", "not empty"),
        ] {
            let said = serde_json::from_str::<AddressPool>(text).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        assert!(serde_json::from_str::<PortPool>(r#"{ "80": 3 }"#).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("10.0.1.1/24", "not the first address"),
            ("10.0.1.0/33", "0 to 32"),
            ("10.0.1.9-10.0.1.1", "exchange"),
            ("10.0.0.1-::1", "two versions"),
            ("host", "not an IP address"),
        ] {
            let said = text.parse::<AddressPool>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        for (text, says) in [("0", "not a port"), ("9-1", "exchange"), ("70000", "1 to 65535")] {
            let said = text.parse::<PortPool>().unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
