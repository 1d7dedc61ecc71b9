//! Numbers of DNS and their names: types of records, and response codes (IANA, "Domain Name System (DNS) Parameters").

use std::fmt;
use std::str::FromStr;

/// No error.
pub const NOERROR: u16 = 0;
/// The server could not read the query.
pub const FORMERR: u16 = 1;
/// The server does not do what was asked for.
pub const NOTIMP: u16 = 4;
/// The server does not know this version of EDNS (RFC 6891 §6.1.3).
pub(crate) const BADVERS: u16 = 16;

/// A code of 0 to 11 by its place, and that of EDNS.
const RCODES: [(&str, u16); 13] = [
    ("NOERROR", NOERROR),
    ("FORMERR", FORMERR),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", NOTIMP),
    ("REFUSED", 5),
    ("YXDOMAIN", 6),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
    ("NOTZONE", 10),
    ("DSOTYPENI", 11),
    ("BADVERS", BADVERS),
];

/// The name of a response code, where it has one here.
pub fn rcode_name(code: u16) -> Option<&'static str> {
    RCODES.iter().find(|(_, of)| *of == code).map(|(name, _)| *name)
}

/// The response code of a name, in any case.
pub fn rcode(name: &str) -> Option<u16> {
    RCODES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, code)| *code)
}

/// The type of records that a question is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordType {
    /// IPv4 addresses.
    #[default]
    A,
    /// Name servers.
    Ns,
    /// A name for an address.
    Ptr,
    /// Mail servers.
    Mx,
    /// Text.
    Txt,
    /// IPv6 addresses.
    Aaaa,
    /// A service's hosts and ports.
    Srv,
    /// Whatever there is.
    Any,
}

impl RecordType {
    /// All of them, with their names and numbers.
    pub const ALL: [(RecordType, &'static str, u16); 8] = [
        (RecordType::A, "A", 1),
        (RecordType::Ns, "NS", 2),
        (RecordType::Ptr, "PTR", 12),
        (RecordType::Mx, "MX", 15),
        (RecordType::Txt, "TXT", 16),
        (RecordType::Aaaa, "AAAA", 28),
        (RecordType::Srv, "SRV", 33),
        (RecordType::Any, "ANY", 255),
    ];

    fn row(self) -> (&'static str, u16) {
        let found = RecordType::ALL.iter().find(|(of, ..)| *of == self);
        found.map_or(("A", 1), |(_, name, number)| (*name, *number))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its number in messages.
    pub fn number(self) -> u16 {
        self.row().1
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such type here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownType;

impl FromStr for RecordType {
    type Err = UnknownType;

    /// In any case.
    fn from_str(text: &str) -> Result<RecordType, UnknownType> {
        let found = RecordType::ALL.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(of, ..)| *of).ok_or(UnknownType)
    }
}
