//! The tables of the live view: which columns there are, and which of them fit.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};
use wirebeat_units::human;

use super::draw::Theme;
use super::view::{FlowLook, GroupLook, Look, RowKey};

/// The least columns of a terminal that a name has.
const NAME_MIN: u16 = 8;

/// A column of a table of `T`.
struct Column<T> {
    name: &'static str,
    width: u16,
    /// The smaller, the longer it stays when a terminal gets narrower.
    rank: u8,
    text: fn(&T) -> String,
    /// Whether a value is a bad one.
    is_bad: fn(&T) -> bool,
}

/// What is never bad.
fn fine<T>(_: &T) -> bool {
    false
}

fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn time(ns: Option<i64>) -> String {
    known(ns.map(|ns| human::short_time(ns as f64)))
}

fn has_loss(flow: &FlowLook) -> bool {
    flow.lost.is_some_and(|(lost, _)| lost > 0)
}

const FLOWS: [Column<FlowLook>; 8] = [
    Column {
        name: "sent",
        width: 9,
        rank: 4,
        text: |flow| known(flow.sent.map(human::frame_rate)),
        is_bad: fine,
    },
    Column {
        name: "received",
        width: 9,
        rank: 3,
        text: |flow| known(flow.received.map(human::frame_rate)),
        is_bad: fine,
    },
    Column {
        name: "rate",
        width: 11,
        rank: 0,
        text: |flow| human::bit_rate(flow.bits),
        is_bad: fine,
    },
    Column {
        name: "lost",
        width: 7,
        rank: 5,
        text: |flow| known(flow.lost_total.map(counted)),
        is_bad: |flow| flow.lost_total.is_some_and(|lost| lost > 0),
    },
    Column {
        name: "loss",
        width: 7,
        rank: 1,
        text: |flow| {
            known(flow.lost.map(|(lost, of)| human::share(u64::try_from(lost).unwrap_or(0), of)))
        },
        is_bad: has_loss,
    },
    Column {
        name: "p50",
        width: 6,
        rank: 6,
        text: |flow| time(flow.delay.as_ref().and_then(|delay| delay.percentiles.p50)),
        is_bad: fine,
    },
    Column {
        name: "p99",
        width: 6,
        rank: 2,
        text: |flow| time(flow.delay.as_ref().and_then(|delay| delay.percentiles.p99)),
        is_bad: fine,
    },
    Column {
        name: "max",
        width: 6,
        rank: 7,
        text: |flow| time(flow.delay.as_ref().and_then(|delay| delay.max)),
        is_bad: fine,
    },
];

const GROUPS: [Column<GroupLook>; 6] = [
    Column {
        name: "opened",
        width: 10,
        rank: 0,
        text: |group| format!("{}/s", human::number(group.opened)),
        is_bad: fine,
    },
    Column {
        name: "open",
        width: 9,
        rank: 2,
        text: |group| human::count(group.open),
        is_bad: fine,
    },
    Column {
        name: "responses",
        width: 10,
        rank: 3,
        text: |group| format!("{}/s", human::number(group.responses)),
        is_bad: fine,
    },
    Column {
        name: "rate",
        width: 11,
        rank: 5,
        text: |group| human::bit_rate(group.bits),
        is_bad: fine,
    },
    Column {
        name: "failed",
        width: 9,
        rank: 1,
        text: |group| human::count(group.failed),
        is_bad: |group| group.failed > 0,
    },
    Column {
        name: "rtt",
        width: 6,
        rank: 4,
        text: |group| known(group.round_trip_ns.map(|ns| human::short_time(ns as f64))),
        is_bad: fine,
    },
];

/// A count that may be below zero.
fn counted(value: i64) -> String {
    let text = human::count(value.unsigned_abs());
    if value < 0 { format!("-{text}") } else { text }
}

/// A table that knows which of its columns fit once it is drawn.
pub(super) struct RowTable<'a, T> {
    title: &'static str,
    columns: &'a [Column<T>],
    rows: Vec<(String, &'a T)>,
    selected: Option<usize>,
    theme: Theme,
}

/// Of flows; `selected` is the place of one of them.
pub(super) fn flows<'a>(
    rows: &[(&'a RowKey, &'a Look)],
    selected: Option<usize>,
    theme: Theme,
) -> RowTable<'a, FlowLook> {
    let of = |(key, look): &(&'a RowKey, &'a Look)| match look {
        Look::Flow(flow) => Some((key.shown(), &**flow)),
        Look::Group(_) => None,
    };
    let rows = rows.iter().filter_map(of).collect();
    RowTable { title: "flow", columns: &FLOWS, rows, selected, theme }
}

/// Of groups of sessions.
pub(super) fn groups<'a>(
    rows: &[(&'a RowKey, &'a Look)],
    selected: Option<usize>,
    theme: Theme,
) -> RowTable<'a, GroupLook> {
    let of = |(key, look): &(&'a RowKey, &'a Look)| match (key, look) {
        (RowKey::Group(_, end), Look::Group(group)) => {
            Some((format!("{} ({})", key.shown(), end.name()), group))
        }
        _ => None,
    };
    let rows = rows.iter().filter_map(of).collect();
    RowTable { title: "sessions", columns: &GROUPS, rows, selected, theme }
}

impl<T> RowTable<'_, T> {
    /// The columns that fit beside a name, in their order, and what is left for that.
    fn fitting(&self, width: u16) -> (Vec<&Column<T>>, u16) {
        let mut by_rank: Vec<&Column<T>> = self.columns.iter().collect();
        by_rank.sort_by_key(|column| column.rank);
        let mut left = width;
        let takes = |column: &&Column<T>| {
            let rest = left.checked_sub(column.width + 1).filter(|rest| *rest >= NAME_MIN);
            rest.inspect(|rest| left = *rest).is_some()
        };
        let fits = by_rank.into_iter().take_while(takes).map(|column| column.rank).max();
        let columns =
            self.columns.iter().filter(|column| fits.is_some_and(|most| column.rank <= most));
        (columns.collect(), left)
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let (columns, name) = self.fitting(area.width);
        let right = |text: String| Line::from(text).alignment(Alignment::Right);
        let heads = columns.iter().map(|column| Cell::from(right(column.name.to_owned())));
        let header = Row::new([Cell::from(self.title)].into_iter().chain(heads));
        let rows = self.rows.iter().map(|(name, of)| {
            let cells = columns.iter().map(|column| {
                let style = if (column.is_bad)(of) { self.theme.bad() } else { Style::new() };
                Cell::from(right((column.text)(of))).style(style)
            });
            Row::new([Cell::from(name.clone())].into_iter().chain(cells))
        });
        let widths = [name].into_iter().chain(columns.iter().map(|column| column.width));
        let table = Table::new(rows, widths.map(Constraint::Length))
            .header(header.style(self.theme.strong()))
            .column_spacing(1)
            .row_highlight_style(self.theme.selected());
        let mut state = TableState::new().with_selected(self.selected);
        frame.render_stateful_widget(table, area, &mut state);
    }
}
