//! Text from elsewhere, made harmless for a terminal and for the text around it, and visible.
//!
//! Names come from files, peers, devices and other sessions. Everything foreign that reaches a person passes
//! [`printable`] or [`printable_lines`]; nothing else decides what is harmless. Two names that differ have to look different,
//! as far as that goes without a font: what shows nothing is replaced too.

use std::borrow::Cow;

/// What stands in the place of a character that was taken out.
const REPLACEMENT: char = '\u{fffd}';
/// What stands for each blank of a text that has nothing else: an open box.
const BLANK: char = '\u{2423}';
/// Combining marks behind each other that stay: Hebrew with points and accents has as many. More of them draw over the lines
/// above and below.
const MARKS: usize = 4;

/// Whether a character acts instead of showing: control characters (C0, DEL and C1, which begin escape sequences), marks
/// and overrides that turn the direction of text, separators of lines, and what is no character (of which XML 1.0 has not all).
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
                | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// `text` as one line in which nothing acts, and nothing is that cannot be seen. Of a text that is nothing but blanks, each shows.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.is_empty() && text.chars().all(is_blank) {
        return text.chars().map(|c| if is_active(c) { REPLACEMENT } else { BLANK }).collect();
    }
    replaced(text, |_| false)
}

/// The same of a text of several lines: line ends and tabs stay, and so do blanks.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'))
}

/// `text` as a field of CSV (RFC 4180): one line in which nothing acts, in quotes where it needs them, and no formula of a
/// spreadsheet: what would begin one has an apostrophe before it, as spreadsheets write text themselves.
pub fn csv_field(text: &str) -> String {
    let text = printable(text);
    // in their full width, too: some spreadsheets read them alike (OWASP, CSV Injection)
    let acts = |c: char| "=+-@|%＝＋－＠".contains(c);
    let formula = text.trim_start().starts_with(acts);
    let text = if formula { format!("'{text}") } else { text.into_owned() };
    match text.contains([',', '"', ';']) || text.trim() != text {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

fn replaced(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    // most texts are plain, and some are long
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') || stays(byte.into())) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // a mark at the beginning would be drawn over what stands before the text
    let (mut before, mut marks) = (None, MARKS);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        let hidden = is_active(c)
            || marks > MARKS
            || is_invisible(c) && !joins(before, c, rest.clone().next());
        out.push(if hidden && !stays(c) { REPLACEMENT } else { c });
        before = Some(c);
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// Whether a character shows nothing but room: white space, and the pattern of Braille without dots.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

/// Whether a character is to be ignored by what shows text (Unicode's `Default_Ignorable_Code_Point`): zero-width spaces and
/// joiners, soft hyphens, fillers, selectors of variations, tags.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether an invisible character does its work between these two: a joiner within an emoji or within a word of a script whose
/// letters join, or the choice of how a symbol is drawn.
fn joins(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    let joined = |of: char| matches!(of, '\u{620}'..='\u{dff}');
    match c {
        '\u{fe0e}' | '\u{fe0f}' => is_symbol(before),
        '\u{200d}' if is_symbol(before) || before == '\u{fe0f}' => after.is_some_and(is_symbol),
        '\u{200c}' | '\u{200d}' => joined(before) && after.is_some_and(joined),
        _ => false,
    }
}

/// Symbols and emoji, which have variants and are joined to others.
fn is_symbol(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character is drawn over the one before it, of the scripts whose marks can be heaped.
fn is_mark(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c5}'
            | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e8}'
            | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{eb1}' | '\u{eb4}'..='\u{ebc}'
            | '\u{ec8}'..='\u{ece}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
            | '\u{302a}'..='\u{302f}' | '\u{3099}' | '\u{309a}' | '\u{a66f}'..='\u{a67d}' | '\u{fe20}'..='\u{fe2f}'
    )
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
        for text in [
            "voice",
            " a  b ",
            "音声 µs — ½",
            "e\u{301}",
            "👩\u{200d}🚀",
            "❤\u{fe0f}\u{200d}🔥",
            "می\u{200c}خواهم",
            "क\u{94d}\u{200d}ष",
            "שּׁ\u{5b8}\u{5a5}",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert_eq!(printable(""), "");
    }

    #[test]
    fn names_that_look_alike_are_told_apart() {
        for (name, shown) in [
            ("web\u{200b}", "web\u{fffd}"),
            ("we\u{200d}b", "we\u{fffd}b"),
            ("web\u{e0041}", "web\u{fffd}"),
            ("we\u{ad}b", "we\u{fffd}b"),
            ("\u{2060}web", "\u{fffd}web"),
            ("web\u{fe0f}", "web\u{fffd}"),
            ("\u{3164}", "\u{fffd}"),
            // no character of XML 1.0
            ("web\u{ffff}", "web\u{fffd}"),
            // nothing but blanks
            ("  ", "\u{2423}\u{2423}"),
            ("\u{a0}\u{3000}\u{2800}", "\u{2423}\u{2423}\u{2423}"),
            (" \t", "\u{2423}\u{fffd}"),
            ("\u{301}a", "\u{fffd}a"),
        ] {
            assert_eq!(printable(name), shown);
        }
        assert_eq!(printable_lines("  \n\ta\u{200b}\n"), "  \n\ta\u{fffd}\n");
    }

    #[test]
    fn marks_are_not_heaped_over_the_lines_beside_them() {
        let heaped = format!("a{}b\u{301}", "\u{301}".repeat(50));
        let shown = format!("a{}{}b\u{301}", "\u{301}".repeat(4), "\u{fffd}".repeat(46));
        assert_eq!(printable(&heaped), shown);
    }

    #[test]
    fn names_do_not_act_in_a_spreadsheet() {
        for (name, written) in [
            ("voice", "voice"),
            ("=1+1", "'=1+1"),
            ("  @SUM(A1)", "'  @SUM(A1)"),
            (" a", "\" a\""),
            ("-1", "'-1"),
            ("＝1", "'＝1"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("a\"b", "\"a\"\"b\""),
            ("a,b", "\"a,b\""),
            ("", ""),
            ("=1\u{202e}", "'=1\u{fffd}"),
            ("a\r\n=1+1", "a\u{fffd}\u{fffd}=1+1"),
            ("\t=1+1", "\u{fffd}=1+1"),
            ("\x1b[31m", "\u{fffd}[31m"),
            ("</script>", "</script>"),
        ] {
            assert_eq!(csv_field(name), written);
        }
    }
}
