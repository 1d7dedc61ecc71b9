//! A page of text for a terminal: headings, facts under them, and lines that end before the edge.

use std::fmt::Write;

use wirebeat_report::format::Colour;

/// Columns that a line should not exceed.
const WIDTH: usize = 100;
/// Where facts begin.
const FACTS: usize = 14;

/// The page.
#[derive(Debug)]
pub struct Page {
    text: String,
    colour: Colour,
}

impl Page {
    /// An empty one.
    pub fn new(colour: Colour) -> Page {
        Page { text: String::new(), colour }
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
        let title = clean(title);
        match self.colour {
            Colour::Ansi => self.line(&format!("\x1b[1m{title}\x1b[0m")),
            Colour::Never => self.line(&title),
        }
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
        let indent = prefix.chars().count();
        let mut line = prefix.to_owned();
        let mut used = indent;
        for word in clean(words).split(' ') {
            let len = word.chars().count();
            if used > indent && used + 1 + len > WIDTH {
                self.line(&line);
                line = " ".repeat(indent);
                used = indent;
            } else if used > indent {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += len;
        }
        self.line(&line);
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

/// Names come from a file: nothing in them moves the cursor or turns the direction of text.
fn clean(text: &str) -> String {
    let moves = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if moves(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
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
