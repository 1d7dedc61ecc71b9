//! The report: one versioned model, and its renderings.
//!
//! [`model`] is what a run says at its end; [`mod@assemble`] makes it from plain numbers of the sender and
//! the receiver; a rendering ([`text`], [`json`]) turns it into a document. Nothing here knows live
//! objects: whatever collected the numbers (one process, two hosts, a file) is done when a report is
//! made. Read `model/mod.rs`, then `assemble/mod.rs`. `docs/report.md` explains a report to its readers.

pub mod assemble;
pub mod document;
pub mod exit;
pub mod format;
#[cfg(test)]
mod golden;
mod human;
pub mod json;
pub mod model;
#[cfg(test)]
mod session_golden;
#[cfg(test)]
mod stack_golden;
pub mod text;
pub mod time;
