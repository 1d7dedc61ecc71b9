//! The grammar of comparisons of numbers: `tcp[13] & 2 != 0`.

use wirebeat_units::{Comparison, fault};

use super::parse::{Parser, V4, number};
use super::relation::{Arithmetic, Base, Op, Relation, STACK_MAX};
use super::test::{Ask, RARP, Test};
use super::words::Word;
use super::{DEPTH_MAX, FilterError};
use crate::ethernet::EtherType;
use crate::ip::Protocol;

/// How closely operators bind on their left, and what has to bind more closely on their right. libpcap's grammar says nothing of
/// `%` and `^`, and so they take all that stands behind them.
const OPERATORS: [(&str, Arithmetic, u8, u8); 10] = [
    ("|", Arithmetic::Or, 1, 2),
    ("&", Arithmetic::And, 2, 3),
    ("<<", Arithmetic::ShiftLeft, 3, 4),
    (">>", Arithmetic::ShiftRight, 3, 4),
    ("+", Arithmetic::Add, 4, 5),
    ("-", Arithmetic::Subtract, 4, 5),
    ("*", Arithmetic::Multiply, 5, 6),
    ("/", Arithmetic::Divide, 5, 6),
    ("%", Arithmetic::Remainder, u8::MAX, 0),
    ("^", Arithmetic::Xor, u8::MAX, 0),
];
/// Binds more closely than every operator that says how closely it binds.
const CLOSEST: u8 = 6;

/// Protocols over IPv4 whose bytes can be looked at.
const OVER_V4: [(&str, u8); 7] =
    [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("pim", 103), ("vrrp", 112), ("sctp", 132)];

/// Names of numbers, as pcap-filter(7) has them.
const CONSTANTS: [(&str, u32); 44] = [
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-multicastlistenerreportv2", 143),
];

/// What is read of one comparison.
#[derive(Default)]
struct Reading {
    protocols: Vec<Test>,
    code: Vec<Op>,
    /// Numbers that wait behind the code so far.
    waiting: isize,
}

impl Reading {
    fn push(&mut self, op: Op, word: Word<'_>) -> Result<(), FilterError> {
        self.waiting += op.growth();
        if self.waiting > STACK_MAX as isize {
            return Err(word.error(fault!(
                "{STACK_MAX} numbers wait for their operators here, and there can be no more";
                "write the operations that come first to the left"
            )));
        }
        self.code.push(op);
        Ok(())
    }
}

fn constant(text: &str) -> Option<u32> {
    let named = CONSTANTS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    named.or_else(|| number(text))
}

/// Whether this joins or compares numbers.
fn joins(text: &str) -> bool {
    OPERATORS.iter().any(|(operator, ..)| *operator == text) || Comparison::of(text).is_some()
}

impl Parser<'_> {
    /// Whether a comparison of numbers begins here, and no test of another kind.
    pub fn is_relation(&self) -> bool {
        match self.ahead(0) {
            "len" | "-" => true,
            "(" => self.closing().is_some_and(|count| joins(self.ahead(count + 1))),
            // the length of a prefix in a list: net 10.0.0.0/8 or 11/8
            text if self.ahead(1) == "/" && self.lists_nets() => constant(text).is_none(),
            text => self.ahead(1) == "[" || constant(text).is_some() && joins(self.ahead(1)),
        }
    }

    /// How many words lie before the parenthesis that closes the one here.
    fn closing(&self) -> Option<usize> {
        let mut open = 0_usize;
        for count in 0.. {
            match self.ahead(count) {
                "" => return None,
                "(" => open += 1,
                ")" if open == 1 => return Some(count),
                ")" => open -= 1,
                _ => {}
            }
        }
        None
    }

    /// A comparison of numbers.
    pub fn relation(&mut self) -> Result<Ask, FilterError> {
        let mut reading = Reading::default();
        self.arithmetic(&mut reading, 0)?;
        let word = self.take("a comparison")?;
        let Some(comparison) = Comparison::of(word.text) else {
            let shown = word.shown();
            return Err(word.error(fault!(
                "'{shown}' stands where numbers are compared";
                "write =, !=, <, <=, > or >= and a number"
            )));
        };
        self.arithmetic(&mut reading, 0)?;
        let Reading { protocols, code, .. } = reading;
        Ok(Ask::Relation(Box::new(Relation { protocols, code, comparison })))
    }

    /// Numbers that are joined by operators that bind at least so closely.
    fn arithmetic(&mut self, reading: &mut Reading, least: u8) -> Result<(), FilterError> {
        self.operand(reading)?;
        while let Some(word) = self.peek()
            && let Some((_, operator, left, right)) =
                OPERATORS.iter().find(|(text, ..)| *text == word.text)
            && *left >= least
        {
            self.next += 1;
            let asked = reading.protocols.len();
            self.deeper(word, |parser| parser.arithmetic(reading, *right))?;
            // libpcap forgets what it would ask for the right operand (gen_arth in gencode.c), and so its bytes are those of
            // any frame
            reading.protocols.truncate(asked);
            check(*operator, reading, word)?;
            reading.push(Op::Binary(*operator), word)?;
        }
        Ok(())
    }

    fn operand(&mut self, reading: &mut Reading) -> Result<(), FilterError> {
        let word = self.take("a number")?;
        if let Some(number) = constant(word.text) {
            return reading.push(Op::Number(number), word);
        }
        match word.text {
            "len" => reading.push(Op::Len, word),
            "-" => {
                self.deeper(word, |parser| parser.arithmetic(reading, CLOSEST))?;
                reading.push(Op::Negate, word)
            }
            "(" => {
                self.deeper(word, |parser| parser.arithmetic(reading, 0))?;
                self.close(")", word)
            }
            _ if self.ahead(0) == "[" => self.bytes(reading, word),
            _ => Err(word.error(fault!(
                "'{}' is not a number", word.shown();
                "there are numbers as 10 and 0x0a, len, and bytes as ip[8] and udp[4:2]"
            ))),
        }
    }

    /// `tcp[13]`, `udp[4:2]`.
    fn bytes(&mut self, reading: &mut Reading, name: Word<'_>) -> Result<(), FilterError> {
        let opened = self.take("an opening bracket")?;
        let base = self.base(reading, name)?;
        self.deeper(opened, |parser| parser.arithmetic(reading, 0))?;
        let mut size = 1;
        if self.take_if(&[":"]) {
            let word = self.take("a number of bytes")?;
            size = match word.text {
                "1" => 1,
                "2" => 2,
                "4" => 4,
                _ => {
                    let shown = word.shown();
                    return Err(word.error(fault!(
                        "'{shown}' bytes are not looked at at once"; "write 1, 2 or 4"
                    )));
                }
            };
        }
        self.close("]", opened)?;
        reading.push(Op::Load(base, size), name)
    }

    /// From where the bytes of a protocol are counted; what a frame has to be for that is asked first.
    fn base(&self, reading: &mut Reading, name: Word<'_>) -> Result<Base, FilterError> {
        let mut ask = |ask| reading.protocols.push(Test { ask, shift: self.shift });
        match name.text {
            "ether" | "link" => return Ok(Base::Link),
            "ip" => ask(Ask::EtherType(EtherType::IPV4)),
            "ip6" => ask(Ask::EtherType(EtherType::IPV6)),
            "arp" => ask(Ask::EtherType(EtherType::ARP)),
            "rarp" => ask(Ask::EtherType(RARP)),
            "icmp6" => {
                ask(Ask::NextHeader(Protocol(58)));
                return Ok(Base::OverV6);
            }
            text => {
                let Some((_, protocol)) = OVER_V4.iter().find(|(known, _)| *known == text) else {
                    let shown = name.shown();
                    return Err(name.error(fault!(
                        "the bytes of '{shown}' are not looked at";
                        "there are ether, ip, ip6, arp, rarp, tcp, udp, sctp, icmp, icmp6, igmp, pim and vrrp"
                    )));
                };
                ask(Ask::Protocol(V4, Protocol(*protocol)));
                ask(Ask::NoLaterFragment);
                return Ok(Base::OverV4);
            }
        }
        Ok(Base::Network)
    }

    fn close(&mut self, wanted: &str, opened: Word<'_>) -> Result<(), FilterError> {
        if self.take_if(&[wanted]) {
            return Ok(());
        }
        let opened = match self.peek() {
            Some(word) => {
                word.error(fault!("'{}' stands where '{wanted}' is to follow", word.shown()))
            }
            None => opened.error(fault!("'{}' is not closed", opened.shown())),
        };
        Err(opened)
    }

    fn deeper(
        &mut self,
        word: Word<'_>,
        act: impl FnOnce(&mut Self) -> Result<(), FilterError>,
    ) -> Result<(), FilterError> {
        if self.depth == DEPTH_MAX {
            let why =
                fault!("there are {DEPTH_MAX} parentheses and operators in one another at most");
            return Err(word.error(why));
        }
        self.depth += 1;
        act(self)?;
        self.depth -= 1;
        Ok(())
    }
}

/// Refuses what can never be worked out.
fn check(operator: Arithmetic, reading: &Reading, word: Word<'_>) -> Result<(), FilterError> {
    match (operator, reading.code.last()) {
        (Arithmetic::Divide | Arithmetic::Remainder, Some(Op::Number(0))) => {
            Err(word.error(fault!("nothing can be divided by 0")))
        }
        (Arithmetic::ShiftLeft | Arithmetic::ShiftRight, Some(Op::Number(32..))) => {
            Err(word.error(fault!("a number has 32 bits"; "shift by 31 at most")))
        }
        _ => Ok(()),
    }
}
