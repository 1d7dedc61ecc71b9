//! Comparisons of numbers: bytes of a frame, its length, constants, and what is worked out of them.
//!
//! It is what libpcap's programs do: 32 bits without a sign that go round; a byte that is not there, or a division by zero, ends
//! the whole filter without a match; bytes of a protocol are compared where the frame has that protocol.

use wirebeat_units::Comparison;

use super::test::Test;
use crate::ethernet;

/// The most numbers that wait while others are worked out.
pub const STACK_MAX: usize = 32;

/// A comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// What the frame has to be for its bytes to mean something, in the order in which it is asked.
    pub protocols: Vec<Test>,
    /// Both sides, the left one first, in the order in which they are worked out.
    pub code: Vec<Op>,
    pub comparison: Comparison,
}

/// A step. Each takes its operands from the stack, and leaves a number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Number(u32),
    /// Bytes that the frame had on the line.
    Len,
    /// A number of so many bytes, at the place on the stack, counted from here.
    Load(Base, u8),
    Negate,
    Binary(Arithmetic),
}

/// From where bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The Ethernet header.
    Link,
    /// What the Ethernet header and the tags that were asked for carry.
    Network,
    /// What an IPv4 header carries.
    OverV4,
    /// What an IPv6 header without extensions carries.
    OverV6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Relation {
    /// Whether it holds; `None` where the filter ends without a match.
    #[inline]
    pub fn holds(&self, frame: &[u8], len: usize, shift: usize) -> Option<bool> {
        for protocol in &self.protocols {
            if !protocol.holds(frame, len)? {
                return Some(false);
            }
        }
        let mut stack = [0_u32; STACK_MAX];
        let mut depth = 0_usize;
        for op in &self.code {
            let value = match op {
                Op::Number(number) => *number,
                Op::Len => len as u32,
                Op::Load(base, size) => {
                    depth = depth.checked_sub(1)?;
                    load(frame, base.at(frame, shift)?.wrapping_add(*stack.get(depth)?), *size)?
                }
                Op::Negate => {
                    depth = depth.checked_sub(1)?;
                    stack.get(depth)?.wrapping_neg()
                }
                Op::Binary(arithmetic) => {
                    depth = depth.checked_sub(2)?;
                    arithmetic.of(*stack.get(depth)?, *stack.get(depth + 1)?)?
                }
            };
            *stack.get_mut(depth)? = value;
            depth += 1;
        }
        let [left, right, ..] = stack;
        Some(self.comparison.holds(left, right))
    }
}

impl Op {
    /// How the number of those that wait changes.
    pub fn growth(self) -> isize {
        match self {
            Op::Number(_) | Op::Len => 1,
            Op::Load(..) | Op::Negate => 0,
            Op::Binary(_) => -1,
        }
    }
}

impl Base {
    #[inline]
    fn at(self, frame: &[u8], shift: usize) -> Option<u32> {
        let network = (ethernet::LEN + shift) as u32;
        Some(match self {
            Base::Link => 0,
            Base::Network => network,
            Base::OverV4 => network + u32::from(frame.get(network as usize)? & 0x0f) * 4,
            Base::OverV6 => network + 40,
        })
    }
}

/// A number in network byte order.
#[inline]
fn load(frame: &[u8], at: u32, size: u8) -> Option<u32> {
    let bytes = frame.get(at as usize..)?.get(..size.into())?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

impl Arithmetic {
    /// `None` for a division by zero.
    #[inline]
    pub fn of(self, left: u32, right: u32) -> Option<u32> {
        Some(match self {
            Arithmetic::Add => left.wrapping_add(right),
            Arithmetic::Subtract => left.wrapping_sub(right),
            Arithmetic::Multiply => left.wrapping_mul(right),
            Arithmetic::Divide => left.checked_div(right)?,
            Arithmetic::Remainder => left.checked_rem(right)?,
            Arithmetic::And => left & right,
            Arithmetic::Or => left | right,
            Arithmetic::Xor => left ^ right,
            Arithmetic::ShiftLeft => left.checked_shl(right).unwrap_or(0),
            Arithmetic::ShiftRight => left.checked_shr(right).unwrap_or(0),
        })
    }
}
