//! Tables in Markdown, with columns that line up in the source as well. Pure.

use std::fmt;

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|&name| name.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

/// What would end a cell or begin another one.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace(['\n', '\r'], " ")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<Vec<String>> = [&self.head]
            .into_iter()
            .chain(&self.rows)
            .map(|row| row.iter().map(|cell| escaped(cell)).collect())
            .collect();
        let width = |column: usize| {
            lines.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for (number, row) in lines.iter().enumerate() {
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                write!(f, "| {cell:width$} ")?;
            }
            writeln!(f, "|")?;
            if number == 0 {
                for &width in &widths {
                    write!(f, "|{:-<1$}", "", width + 2)?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_cells_stay_cells() {
        let mut table = Table::new(&["tool", "rate"]);
        table.row(vec!["iperf3".into(), "209 k".into()]);
        table.row(vec!["a|b\nc".into()]);
        let expected = "\
            | tool   | rate  |\n\
            |--------|-------|\n\
            | iperf3 | 209 k |\n\
            | a\\|b c |       |\n";
        assert_eq!(table.to_string(), expected);
    }
}
