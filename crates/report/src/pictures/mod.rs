//! Pictures of numbers, as SVG: plain functions from data to text, without a clock, a file or a font.
//!
//! A picture is as wide as a column of a page ([`WIDTH`]), so that its text can be read on a phone. It has a title and a description
//! for those who cannot see it, lines that differ in dashes as well as in colours that colour-blind readers tell apart, and no script.
//! Its size is bounded, however much data there is: [`mod@thin`] keeps the smallest and the largest value of each column. Read
//! `plot.rs` (axes), then `series.rs`, `distribution.rs` and `boxes.rs`. Which pictures a report has is known to `figures.rs`.

pub mod boxes;
pub mod cumulative;
pub mod distribution;
pub mod means;
mod plot;
pub mod quantiles;
pub mod scale;
pub mod series;
#[cfg(test)]
mod tests;
pub mod thin;
pub mod xy;

use std::fmt::Write as _;

use crate::text::style::clean;

/// Width of every picture, in its own units; its text is 13 of them high.
pub const WIDTH: f64 = 480.0;

/// How pictures look: variables for colours, by the reader's scheme, and classes. A page has it once, a file of its own in itself.
pub const STYLE: &str = include_str!("picture.css");

/// Lines and boxes that are told apart by colour and dashes.
pub const COLOURS: usize = 6;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What its file is called, without a suffix: lower-case letters, digits and hyphens.
    pub name: String,
    /// What it shows, in a few words.
    pub title: String,
    /// What can be seen in it, in words.
    pub description: String,
    height: f64,
    body: String,
}

impl Picture {
    /// As an element of a page that has [`STYLE`].
    pub fn element(&self) -> String {
        self.svg("")
    }

    /// As a file of its own.
    pub fn file(&self) -> String {
        self.with_style(STYLE)
    }

    fn with_style(&self, style: &str) -> String {
        let head = format!(
            "<style>{style}</style><rect class=\"paper\" width=\"{}\" height=\"{}\"/>",
            coordinate(WIDTH),
            coordinate(self.height)
        );
        self.svg(&head) + "\n"
    }

    /// For programs that know neither variables of CSS nor media queries: in the colours of a light page.
    pub fn plain(&self) -> String {
        let (variables, rules) = STYLE.split_once('\n').unwrap_or_default();
        let named = variables.trim_start_matches(":root{").trim_end_matches('}').split(';');
        let mut style: String = rules
            .lines()
            .filter(|line| !line.starts_with("@media"))
            .fold(String::new(), |all, line| all + line);
        for (name, value) in named.filter_map(|one| one.split_once(':')) {
            style = style.replace(&format!("var({name})"), value);
        }
        self.with_style(&style)
    }

    /// What every file begins with.
    pub const MARK: &str = "<svg class=\"pic\"";

    fn svg(&self, head: &str) -> String {
        let Picture { name, title, description, height, body } = self;
        let (mark, width, height) = (Self::MARK, coordinate(WIDTH), coordinate(*height));
        let (title, description) = (escape(title), escape(description));
        format!(
            "{mark} xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{name}-t {name}-d\"><title id=\"{name}-t\">{title}</title>\
             <desc id=\"{name}-d\">{description}</desc>{head}{body}</svg>"
        )
    }
}

/// `text` as the content of an element or of an attribute in quotes: nothing in it acts.
pub fn escape(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}

/// A coordinate, to a tenth: pictures stay small, and whatever comes in, a number goes out.
pub(crate) fn coordinate(value: f64) -> String {
    let bounded = if value.is_finite() { value.clamp(-9_999.0, 9_999.0) } else { 0.0 };
    let tenths = (bounded * 10.0).round() as i64;
    let sign = if tenths < 0 { "-" } else { "" };
    match (tenths.abs() / 10, tenths.abs() % 10) {
        (whole, 0) => format!("{}{whole}", if whole == 0 { "" } else { sign }),
        (whole, tenth) => format!("{sign}{whole}.{tenth}"),
    }
}

/// Adds a text at a place.
pub(crate) fn text(out: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    let (x, y, text) = (coordinate(x), coordinate(y), escape(text));
    // writing to a String cannot fail
    let _ = write!(out, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>");
}

/// Adds a straight line.
pub(crate) fn line(out: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(coordinate);
    let _ = write!(out, "<path d=\"M{x1} {y1}L{x2} {y2}\" class=\"{class}\"/>");
}

/// The commands of a path through points; a gap where there is none.
pub(crate) fn path(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> String {
    let mut out = String::new();
    let mut drawing = false;
    for point in points {
        if let Some((x, y)) = point {
            out.push(if drawing { 'L' } else { 'M' });
            let _ = write!(out, "{} {}", coordinate(x), coordinate(y));
        }
        drawing = point.is_some();
    }
    out
}
