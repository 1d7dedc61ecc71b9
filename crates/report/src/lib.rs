//! The report: one versioned model, and its renderings.
//!
//! [`model`] is what a run says at its end; [`mod@assemble`] makes it from plain numbers of the sender and
//! the receiver; a rendering ([`text`], [`json`], HTML, CSV, Markdown, JUnit) turns it into a document; [`several_runs`] is several of them, and [`mod@compare`] says whether they differ beyond noise. Nothing here knows live
//! objects: whatever collected the numbers (one process, two hosts, a file) is done when a report is
//! made. Read `model/mod.rs`, then `assemble/mod.rs`. `docs/report.md` explains a report to its readers.

pub mod assemble;
pub mod columns;
pub mod compare;
mod csv;
pub mod document;
pub mod exit;
pub mod figures;
pub mod format;
#[cfg(test)]
mod golden;
mod html;
mod human;
pub mod json;
mod junit;
mod markdown;
pub mod metrics;
pub mod model;
pub mod pictures;
mod provenance;
#[cfg(test)]
mod session_golden;
pub mod several_runs;
#[cfg(test)]
mod stack_golden;
pub mod stats;
pub mod student;
pub mod study;
pub mod sweep;
pub mod test_report;
pub mod text;
pub mod time;
pub mod trend;
mod verdict;
