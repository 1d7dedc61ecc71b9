//! A table with columns as wide as their widest cell: the first to the left, the others to the right.

use super::style::{Style, width};

/// Rows of cells under a heading.
#[derive(Debug)]
pub struct Table {
    heading: Vec<String>,
    groups: Vec<Group>,
    rows: Vec<Vec<Cell>>,
}

/// A title over several columns.
#[derive(Debug)]
struct Group {
    title: String,
    first: usize,
    last: usize,
}

/// What stands in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// Whether it needs attention.
    pub bad: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell { text, bad: false }
    }
}

impl Table {
    /// Without rows; a title for each column.
    pub fn new(heading: &[&str]) -> Self {
        Table {
            heading: heading.iter().map(|&title| title.to_owned()).collect(),
            groups: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Puts a title over the columns from `first` to `last`.
    pub fn group(mut self, title: &str, first: usize, last: usize) -> Self {
        self.groups.push(Group { title: title.to_owned(), first, last });
        self
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes out the columns that say nothing in any row, from the `first` on.
    pub fn without_empty(mut self, first: usize) -> Self {
        for column in (first..self.heading.len()).rev() {
            let silent = |row: &Vec<Cell>| row.get(column).is_none_or(|cell| cell.text == NOTHING);
            if !self.rows.iter().all(silent) {
                continue;
            }
            self.remove(column);
        }
        self
    }

    fn remove(&mut self, column: usize) {
        self.heading.remove(column);
        self.rows.iter_mut().filter(|row| row.len() > column).for_each(|row| {
            row.remove(column);
        });
        self.groups.retain(|group| group.first != column || group.last != column);
        for group in &mut self.groups {
            group.first -= usize::from(group.first > column);
            group.last -= usize::from(group.last >= column);
        }
    }

    /// How many columns of the terminal it takes, `indent` included.
    pub fn width(&self, indent: usize) -> usize {
        let plain = self.render(indent, Style::new(Default::default()));
        plain.lines().map(width).max().unwrap_or(0)
    }

    /// Takes out the column with this title.
    pub fn without(mut self, title: &str) -> Self {
        if let Some(column) = self.heading.iter().position(|heading| heading == title) {
            self.remove(column);
        }
        self
    }

    /// The table as lines, each `indent` columns in.
    pub fn render(&self, indent: usize, style: Style) -> String {
        let widths = self.widths();
        let mut out = String::new();
        if !self.groups.is_empty() {
            push_line(&mut out, indent, &self.group_line(&widths), style);
        }
        let heading: Vec<Cell> = self.heading.iter().cloned().map(Cell::from).collect();
        push_line(
            &mut out,
            indent,
            &line(&heading, &widths, Style::new(Default::default())),
            style,
        );
        for row in &self.rows {
            out.push_str(&" ".repeat(indent));
            out.push_str(line(row, &widths, style).trim_end());
            out.push('\n');
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let cell = |column: usize| {
            let rows = self.rows.iter().filter_map(move |row| row.get(column));
            rows.map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..)
            .zip(&self.heading)
            .map(|(column, title)| width(title).max(cell(column)))
            .collect();
        for group in &self.groups {
            // A title wider than its columns widens the first of them.
            let span = span(&widths[group.first..=group.last]);
            widths[group.first] += width(&group.title).saturating_sub(span);
        }
        widths
    }

    /// Each title in the middle of a rule over its columns.
    fn group_line(&self, widths: &[usize]) -> String {
        let mut out = String::new();
        for group in &self.groups {
            let begin = span(&widths[..group.first]) + if group.first > 0 { BETWEEN } else { 0 };
            out.push_str(&" ".repeat(begin.saturating_sub(width(&out))));
            let rule = span(&widths[group.first..=group.last]).saturating_sub(width(&group.title));
            // A rule needs a space and a stroke on either side.
            let strokes = if rule < 4 { 0 } else { rule - 2 };
            let space = if strokes > 0 { " " } else { "" };
            let (left, right) = (strokes / 2, strokes - strokes / 2);
            let padding = " ".repeat(rule - strokes - 2 * space.len());
            out.push_str(&format!(
                "{padding}{}{space}{}{space}{}",
                "─".repeat(left),
                group.title,
                "─".repeat(right)
            ));
        }
        out
    }
}

/// What stands where there is nothing to say.
pub const NOTHING: &str = "-";
/// Columns between two columns.
const BETWEEN: usize = 2;

/// How wide columns of these widths are together.
fn span(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + BETWEEN * widths.len().saturating_sub(1)
}

fn push_line(out: &mut String, indent: usize, line: &str, style: Style) {
    out.push_str(&" ".repeat(indent));
    out.push_str(&style.strong(line.trim_end()));
    out.push('\n');
}

fn line(cells: &[Cell], widths: &[usize], style: Style) -> String {
    let mut out = String::new();
    for (column, (cell, &wide)) in cells.iter().zip(widths).enumerate() {
        let padding = " ".repeat(wide.saturating_sub(width(&cell.text)));
        let text = if cell.bad { style.bad(&cell.text) } else { cell.text.clone() };
        if column == 0 {
            out.push_str(&text);
            out.push_str(&padding);
        } else {
            out.push_str(&" ".repeat(BETWEEN));
            out.push_str(&padding);
            out.push_str(&text);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Colour;

    fn cells(texts: &[&str]) -> Vec<Cell> {
        texts.iter().map(|&text| Cell::from(text.to_owned())).collect()
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["flow", "sent", "p50", "p99"]).group("delay", 2, 3);
        table.row(cells(&["a", "1,000", "5 µs", "10 µs"]));
        table.row(cells(&["音声", "1", "-", "7 ns"]));
        let expected = "\
\x20             ── delay ──
 flow   sent   p50    p99
 a     1,000  5 µs  10 µs
 音声      1     -   7 ns
";
        assert_eq!(table.render(1, Style::new(Colour::Never)), expected);
    }

    #[test]
    fn a_wide_title_widens_its_columns() {
        let mut table = Table::new(&["flow", "p50"]).group("one-way delay", 1, 1);
        table.row(cells(&["a", "5 µs"]));
        let expected = "      one-way delay\nflow            p50\na              5 µs\n";
        assert_eq!(table.render(0, Style::new(Colour::Never)), expected);
    }

    #[test]
    fn columns_that_say_nothing_are_left_out() {
        let mut table = Table::new(&["flow", "a", "b", "c"]).group("ab", 1, 2).group("c", 3, 3);
        table.row(cells(&["x", "1", "-", "-"]));
        table.row(cells(&["y", "2", "-", "-"]));
        let text = table.without_empty(1).render(0, Style::new(Colour::Never));
        assert_eq!(text, "      ab\nflow   a\nx      1\ny      2\n");
    }
}
