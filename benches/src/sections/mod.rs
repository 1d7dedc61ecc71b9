//! The chapters of the benchmark. One chapter is one file, or a folder of one for each part: what is measured, its tables, and the verdicts
//! on its targets.

pub mod af_xdp;
pub mod bulk;
pub mod capture;
pub mod cpu;
pub mod delay_line;
pub mod fairness;
pub mod flat;
pub mod held;
pub mod http;
pub mod in_memory;
pub mod kept;
pub mod limits;
pub mod mix;
pub mod model;
pub mod noise;
pub mod observations;
pub mod pressure;
pub mod profiles;
pub mod rates;
pub mod replay;
pub mod scale;
pub mod sends;
pub mod starts;
pub mod watched;
pub mod wire;

use wirebeat_report::pictures::Picture;

use crate::table::Table;
use crate::verdict::Verdict;

/// A chapter of the document.
#[derive(Clone, Debug, Default)]
pub struct Chapter {
    /// Its heading.
    pub title: &'static str,
    /// What was measured, and how.
    pub prose: &'static str,
    /// Its tables, each with a line above it.
    pub tables: Vec<(String, Table)>,
    /// A picture of it, which the page shows from a file beside it.
    pub picture: Option<Picture>,
    /// Verdicts on its targets.
    pub verdicts: Vec<Verdict>,
}
