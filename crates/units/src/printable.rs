//! Text from elsewhere, made harmless for a terminal and for the text around it.
//!
//! Names come from files, peers, devices and other sessions. Everything foreign that reaches a person passes
//! [`printable`] or [`printable_lines`]; nothing else decides what is harmless.

use std::borrow::Cow;

/// What stands in the place of a character that was taken out.
const REPLACEMENT: char = '\u{fffd}';

/// Whether a character acts instead of showing: control characters (C0, DEL and C1, which begin escape sequences), marks
/// and overrides that turn the direction of text, and separators of lines.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// `text` as one line in which nothing acts.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, is_active)
}

/// `text` in which nothing acts but its line ends and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_active(c) && c != '\n' && c != '\t')
}

fn replaced(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    match text.contains(&acts) {
        false => Cow::Borrowed(text),
        true => text.chars().map(|c| if acts(c) { REPLACEMENT } else { c }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_steers_a_terminal() {
        let wild = "a\x1b[2Jb\u{9b}1mc\u{202e}d\u{2066}e\x7ff\r\ng\u{2028}h\u{61c}";
        let tame = printable(wild);
        assert_eq!(
            tame,
            "a\u{fffd}[2Jb\u{fffd}1mc\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}\u{fffd}g\u{fffd}h\u{fffd}"
        );
        assert!(!tame.contains(is_active));
        assert_eq!(printable_lines("a\n\tb\x1b\n"), "a\n\tb\u{fffd}\n");
    }

    #[test]
    fn what_shows_stays() {
        for text in ["voice", "音声 µs — ½", "e\u{301}", "👩\u{200d}🚀"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }
}
