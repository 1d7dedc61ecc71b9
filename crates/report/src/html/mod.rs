//! One HTML file: the verdict, pictures, tables, where and how the run took place, and how to run it again.
//!
//! The file needs nothing else: no network, no font, no script. Its Content Security Policy allows one style sheet and one script by
//! their hashes, so that no name of a flow can become code, and the script only sorts and filters tables. Numbers come from
//! `columns.rs`, pictures from `figures/`, what a run was from `text/run.rs`. `page.rs` is the frame, `report.rs` one run,
//! `side_by_side.rs` several.

mod page;
mod parts;
mod report;
mod side_by_side;
#[cfg(test)]
mod tests;
mod yaml;

pub use page::MARK;
pub(crate) use page::page;
pub(crate) use page::plain;
pub(crate) use parts::{galleries, scroll, told};
pub(crate) use report::{report, yaml_of};
pub(crate) use side_by_side::several_runs;
