//! Parts of the model in words. Numbers are written as everywhere else.

use crate::model::{End, LeftOut};

pub use wirebeat_units::human::*;

/// How much was left out: its records, and where their number is not known, places and bytes.
pub fn left_out<'a>(all: impl IntoIterator<Item = &'a LeftOut>) -> String {
    let mut sum = LeftOut::default();
    for kind in all {
        sum.count += kind.count;
        sum.records += kind.records;
        sum.bytes += kind.bytes;
    }
    let known = counted(sum.records, "record");
    match sum.count.saturating_sub(sum.records) {
        0 => known,
        unknown => {
            let known = if sum.records > 0 { known + ", " } else { String::new() };
            format!(
                "{} ({known}{} with an unknown number of records; {})",
                counted(sum.count, "place"),
                count(unknown),
                bytes(sum.bytes as f64)
            )
        }
    }
}

/// Why a run ended, in words.
pub fn end(end: &End) -> String {
    match end {
        End::Completed => "run complete".to_owned(),
        // a test that is kept while it goes on
        End::Stopped { signal } if signal.is_empty() => "not at its end yet".to_owned(),
        End::Stopped { signal } => format!("run stopped by {signal}"),
        End::InterfaceGone { interface } => {
            format!("run ended: interface {interface} went down or was removed")
        }
        End::PeerGone { peer } => format!("run ended: {peer} no longer answers"),
        End::Failed { message } => format!("run ended: {message}"),
    }
}
