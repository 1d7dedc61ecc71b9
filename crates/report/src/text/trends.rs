//! How measures changed in the course of a run.

use super::style::{Style, clean};
use super::table::{Cell, Table};
use crate::human;
use crate::model::{Report, Trend};
use crate::trend::{change_within, shown};

/// Columns of a name.
const NAME: usize = 24;

/// The heads of a table of trends.
pub(crate) const HEADS: [&str; 7] =
    ["of", "measure", "at the start", "at the end", "change (95 %)", "worst interval", "after"];

/// A trend as the cells of a row.
pub(crate) fn cells(trend: &Trend) -> [String; 7] {
    let measure = trend.measure;
    let at =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| shown(measure, value));
    // where all values are the same, none is worse than the others
    let same = trend.change.is_some_and(|of| of.value == 0.0 && of.low == 0.0 && of.high == 0.0)
        && trend.first == Some(trend.worst);
    let worst = |text: String| if same { "-".to_owned() } else { text };
    [
        trend.of.clone().unwrap_or_else(|| "all flows".to_owned()),
        measure.name().to_owned(),
        at(trend.first),
        at(trend.last),
        trend.change.map_or_else(|| "-".to_owned(), |found| change_within(measure, found)),
        worst(shown(measure, trend.worst)),
        worst(human::long_time(trend.worst_from_ns)),
    ]
}

/// The trends; nothing where there are none.
pub fn trends(report: &Report, style: Style) -> Option<String> {
    let mut table = Table::new(&HEADS);
    for trend in &report.trends {
        let [of, rest @ ..] = cells(trend);
        let name = super::style::cut(&clean(&of), NAME);
        table.row([name].into_iter().chain(rest).map(Cell::from).collect());
    }
    (!report.trends.is_empty()).then(|| {
        format!("{}\n{}", style.strong("in the course of the run"), table.render(2, style))
    })
}
