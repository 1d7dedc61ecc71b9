//! Which frames are meant, in the syntax of capture filters (pcap-filter(7)): `tcp port 80 and net 10.0.0.0/8`.
//!
//! The part of that language that names ends, protocols, VLANs, lengths and bytes, and joins them; it means here what it means
//! to libpcap, oddities included: `and` and `or` bind alike from the left, `vlan` moves what is written behind it into
//! the tag, and a frame that ends before something that is looked at does not match. `words` takes the text apart,
//! `parse` and `arithmetic` make tests of it, `test` and `relation` put a frame to them. Nothing is allocated for a frame.

mod arithmetic;
mod parse;
mod relation;
mod test;
mod words;

use test::Test;
use wirebeat_units::{Fault, fault, into_fault};

/// The longest text of a filter, in bytes.
const TEXT_MAX: usize = 4096;
/// How deep parentheses are.
const DEPTH_MAX: usize = 64;

/// Which frames are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Chain);

/// Tests that are joined from the left to the right.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    first: Term,
    rest: Vec<(Join, Term)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Test(Test),
    Chain(Box<Chain>),
}

/// A text that is not a filter, or one that is not understood here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {why}")]
pub struct FilterError {
    /// Where, from 1.
    pub at: usize,
    /// Why, and what to do.
    pub why: Fault,
}

impl FilterError {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        self.why.clone().at(format!("at character {}", self.at))
    }
}

into_fault!(FilterError);

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// Where it is not understood, with the place.
    pub fn new(text: &str) -> Result<Filter, FilterError> {
        if text.len() > TEXT_MAX {
            let why = fault!("a filter has {TEXT_MAX} bytes at most");
            return Err(FilterError { at: TEXT_MAX, why });
        }
        parse::filter(text).map(Filter)
    }

    /// Whether a frame is meant. It begins at the Ethernet header, and had `len` bytes on the line.
    #[inline]
    pub fn matches(&self, frame: &[u8], len: usize) -> bool {
        self.0.holds(frame, len).unwrap_or(false)
    }
}

impl Chain {
    /// `None` where the frame ends before what is looked at.
    #[inline]
    fn holds(&self, frame: &[u8], len: usize) -> Option<bool> {
        let mut holds = self.first.holds(frame, len)?;
        for (join, term) in &self.rest {
            if holds == (*join == Join::And) {
                holds = term.holds(frame, len)?;
            }
        }
        Some(holds)
    }
}

impl Term {
    #[inline]
    fn holds(&self, frame: &[u8], len: usize) -> Option<bool> {
        let holds = match &self.what {
            What::Test(test) => test.holds(frame, len),
            What::Chain(chain) => chain.holds(frame, len),
        };
        Some(holds? != self.negated)
    }
}

#[cfg(test)]
mod tests;
