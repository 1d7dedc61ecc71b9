//! Emphasis, and text that is safe to print.

use wirebeat_units::printable::{printable, printable_lines};

use crate::format::Colour;

/// Every sequence that a style writes.
const SEQUENCES: [&str; 3] = ["\x1b[1m", "\x1b[1;31m", "\x1b[0m"];

/// Whether and how emphasis shows.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    ansi: bool,
}

impl Style {
    /// Emphasis shows where colours may.
    pub fn new(colour: Colour) -> Self {
        Style { ansi: colour == Colour::Ansi }
    }

    /// For headings.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// For what needs attention.
    pub fn bad(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.ansi { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `text` without characters that move the cursor, colour the terminal or turn the direction of text.
pub fn clean(text: &str) -> String {
    printable(text).into_owned()
}

/// Text with emphasis in which nothing else acts: line ends and tabs stay, and [`Style`]'s own sequences where `colour`
/// allows them. What a whole output passes at last.
pub fn clean_page(text: &str, colour: Colour) -> String {
    if colour == Colour::Never {
        return printable_lines(text).into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, sequence) = rest.split_at(at);
        out += &printable_lines(before);
        let own = SEQUENCES.into_iter().find(|own| sequence.starts_with(own));
        let len = own.map_or(1, str::len);
        out += own.unwrap_or("\u{fffd}");
        rest = sequence.get(len..).unwrap_or_default();
    }
    out + &printable_lines(rest)
}

/// Columns that `text` takes in a terminal: two for the wide characters of East Asia and for emoji, none
/// for combining marks.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// `text` in at most `columns`, its end left out if need be.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_width(c);
        if used > columns {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// `text` behind `prefix`, broken at spaces into lines of at most `columns` that begin below each other.
pub fn hang(prefix: &str, text: &str, columns: usize) -> String {
    let indent = width(prefix);
    let mut out = prefix.to_owned();
    let mut used = indent;
    for word in text.split(' ') {
        let len = width(word);
        if used > indent && used + 1 + len > columns {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        } else if used > indent {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(clean("a\x1b[2J\r\nb\u{202e}"), "a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_page_keeps_its_own_emphasis_and_nothing_else() {
        let style = Style::new(Colour::Ansi);
        let page =
            format!("{}\n\x1b]0;owned\x07{}\x1b[2J\u{9b}", style.strong("a"), style.bad("b"));
        let kept = format!(
            "{}\n\u{fffd}]0;owned\u{fffd}{}\u{fffd}[2J\u{fffd}",
            style.strong("a"),
            style.bad("b")
        );
        assert_eq!(clean_page(&page, Colour::Ansi), kept);
        assert!(!clean_page(&page, Colour::Never).contains('\x1b'));
    }

    #[test]
    fn wide_and_combining_characters_take_their_columns() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("µs…"), 3);
        assert_eq!(width("音声"), 4);
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn long_names_are_cut_to_their_columns() {
        assert_eq!(cut("voice", 5), "voice");
        assert_eq!(cut("voices", 5), "voic…");
        assert_eq!(cut("音声通話", 5), "音声…");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(hang("- ", "aa bb cc dd", 7), "- aa bb\n  cc dd");
        assert_eq!(hang("", "a-very-long-word b", 5), "a-very-long-word\nb");
    }

    #[test]
    fn emphasis_shows_only_in_colour() {
        assert_eq!(Style::new(Colour::Never).bad("x"), "x");
        assert_eq!(Style::new(Colour::Ansi).bad("x"), "\x1b[1;31mx\x1b[0m");
    }
}
