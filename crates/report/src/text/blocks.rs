//! Counters side by side, under a title each, and lines with a label below them: what sessions and our own TCP are told in.

use super::style::{Style, hang, width};
use crate::human;

/// Columns that a line should not exceed.
pub const COLUMNS: usize = 80;
/// Columns between counters that stand side by side.
const BETWEEN: usize = 3;

/// Counters under a title: name, value, and whether it needs attention.
#[derive(Debug)]
pub struct Block {
    title: &'static str,
    rows: Vec<(&'static str, String, bool)>,
}

impl Block {
    /// Without counters.
    pub fn new(title: &'static str) -> Block {
        Block { title, rows: Vec::new() }
    }

    /// Adds a counter, if it is not zero.
    pub fn count(&mut self, name: &'static str, count: u64, bad: bool) {
        if count > 0 {
            self.rows.push((name, human::count(count), bad));
        }
    }

    /// Adds bytes, if there are any.
    pub fn bytes(&mut self, name: &'static str, bytes: u64) {
        if bytes > 0 {
            self.rows.push((name, human::bytes(bytes as f64), false));
        }
    }

    /// Adds a value, whatever it is.
    pub fn told(&mut self, name: &'static str, value: String, bad: bool) {
        self.rows.push((name, value, bad));
    }

    /// Whether it has no counters.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns of the names, and of the values.
    fn widths(&self) -> (usize, usize) {
        let names = self.rows.iter().map(|(name, ..)| width(name)).max().unwrap_or(0);
        let values = self.rows.iter().map(|(_, value, _)| width(value)).max().unwrap_or(0);
        (names, values.max(width(self.title).saturating_sub(names + 2)))
    }
}

/// Blocks beside each other.
pub fn side_by_side(blocks: &[Block], style: Style) -> String {
    let pad = |columns: usize| " ".repeat(columns);
    let mut titles = String::new();
    let height = blocks.iter().map(|block| block.rows.len()).max().unwrap_or(0);
    let mut lines = vec![String::new(); height];
    for (place, block) in blocks.iter().enumerate() {
        let between = if place == 0 { 2 } else { BETWEEN };
        let (names, values) = block.widths();
        let wide = names + 2 + values;
        titles += &format!("{}{}{}", pad(between), block.title, pad(wide - width(block.title)));
        for (row, line) in lines.iter_mut().enumerate() {
            let Some((name, value, bad)) = block.rows.get(row) else {
                *line += &pad(between + wide);
                continue;
            };
            let gap = pad((names - width(name)) + 2 + (values - width(value)));
            let value = if *bad { style.bad(value) } else { value.clone() };
            *line += &format!("{}{name}{gap}{value}", pad(between));
        }
    }
    let mut out = style.strong(titles.trim_end()) + "\n";
    for line in lines {
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Adds `text` behind a label, if there is any.
pub fn line(out: &mut String, label: &str, text: &str) {
    if !text.is_empty() {
        out.push_str(&hang(label, text, COLUMNS));
        out.push('\n');
    }
}
