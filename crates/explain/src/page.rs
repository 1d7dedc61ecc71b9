//! A page of text for a terminal: headings, facts under them, and lines that end before the edge.

use std::fmt::Write;

use wirebeat_report::format::Colour;
use wirebeat_report::text::WIDTH;
use wirebeat_report::text::style::{Style, clean, hang};

/// Where facts begin.
const FACTS: usize = 14;

/// The page.
#[derive(Debug)]
pub struct Page {
    text: String,
    style: Style,
}

impl Page {
    /// An empty one.
    pub fn new(colour: Colour) -> Page {
        Page { text: String::new(), style: Style::new(colour) }
    }

    /// Its text.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The beginning of a section.
    pub fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(&self.style.strong(&clean(title)));
    }

    /// What something is.
    pub fn fact(&mut self, name: &str, words: &str) {
        self.hang(&format!("  {name:<width$}", width = FACTS - 2), words);
    }

    /// Something more, under the last fact.
    pub fn more(&mut self, words: &str) {
        self.fact("", words);
    }

    /// `words` behind `prefix`, broken at spaces into lines that begin below each other.
    pub fn hang(&mut self, prefix: &str, words: &str) {
        for line in hang(prefix, &clean(words), WIDTH).lines() {
            self.line(line);
        }
    }

    /// Bytes in hex, sixteen in a line. The middle of a long frame is payload and says nothing new.
    pub fn hex(&mut self, bytes: &[u8]) {
        const BEGIN: usize = 96;
        const END: usize = 32;
        let end = bytes.len().saturating_sub(END) / 16 * 16;
        for (line, offset) in bytes.chunks(16).zip((0..).step_by(16)) {
            if (BEGIN..end).contains(&offset) {
                if offset == BEGIN {
                    self.line(&format!("    …     {} bytes more", end - BEGIN));
                }
                continue;
            }
            let mut hex = String::new();
            for (place, byte) in line.iter().enumerate() {
                let blank = if place == 8 { "  " } else { " " };
                let _ = write!(hex, "{blank}{byte:02x}");
            }
            self.line(&format!("    {offset:04x} {hex}"));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_edge_and_begin_below_each_other() {
        let mut page = Page::new(Colour::Never);
        page.fact("sizes", &"word ".repeat(30));
        let text = page.into_text();
        assert!(
            text.lines().count() == 2 && text.lines().all(|line| line.len() <= WIDTH),
            "{text}"
        );
        assert!(text.lines().last().unwrap().starts_with("              word"), "{text}");
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        let mut page = Page::new(Colour::Never);
        page.heading("a\x1b[2J\u{202e}b");
        assert_eq!(page.into_text(), "a\u{fffd}[2J\u{fffd}b\n");
    }

    #[test]
    fn the_middle_of_a_long_frame_is_left_out() {
        let mut page = Page::new(Colour::Never);
        page.hex(&[0; 1514]);
        let text = page.into_text();
        assert_eq!(text.lines().count(), 10, "{text}");
        assert!(text.contains("…     1376 bytes more"), "{text}");
    }
}
