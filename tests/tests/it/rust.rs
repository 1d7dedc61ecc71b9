//! As much of Rust's grammar as the rules on sources need: words and signs, with comments, strings and
//! characters left out, and where a file's tests begin.

/// A word or a sign, and the line it stands on, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub line: usize,
    pub text: &'a str,
}

/// A file of Rust code, up to its tests.
pub struct Code<'a> {
    /// Its words and signs.
    pub tokens: Vec<Token<'a>>,
    /// How many lines it has.
    pub lines: usize,
    /// Modules in files of their own that exist in tests only: `#[cfg(test)] mod golden;`.
    pub test_modules: Vec<&'a str>,
}

impl<'a> Code<'a> {
    /// Reads a file. Tests stand at its end, so that it is cut at the first module of tests in it.
    pub fn read(source: &'a str) -> Self {
        let mut tokens = tokens(source);
        let mut lines = source.lines().count();
        let mut test_modules = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if let Some((name, sign)) = test_module(&tokens[at..]) {
                if sign == "{" {
                    lines = tokens[at].line - 1;
                    tokens.truncate(at);
                } else {
                    test_modules.push(name);
                }
            }
            at += 1;
        }
        Code { tokens, lines, test_modules }
    }
}

/// The name of the module of tests that begins here, and the sign after it.
fn test_module<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, &'a str)> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (attribute, rest) = tokens.split_at_checked(ATTRIBUTE.len())?;
    if attribute.iter().map(|token| token.text).ne(ATTRIBUTE) {
        return None;
    }
    // Between them stands at most a visibility.
    let keyword = rest.iter().take(6).position(|token| token.text == "mod")?;
    let visible =
        rest[..keyword].iter().all(|t| ["pub", "(", "crate", "super", ")"].contains(&t.text));
    let [name, sign, ..] = rest.get(keyword + 1..)? else { return None };
    visible.then_some((name.text, sign.text))
}

/// The words and signs of `source`.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let length = if let Some(skipped) = skip(rest) {
            skipped
        } else if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let text = &rest[..length];
        if skip(rest).is_none() && !first.is_whitespace() {
            tokens.push(Token { line, text });
        }
        line += text.matches('\n').count();
        at += length;
    }
    tokens
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the comment, string, character or lifetime at the beginning of `rest`.
fn skip(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    // A string may have a prefix: b"", c"", r"", br##""##.
    let quote = rest.find(|c| !"bcr".contains(c)).unwrap_or(rest.len());
    let after = &rest[quote..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    if quote <= 2 && rest[..quote].ends_with('r') && after[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = quote + hashes + 1;
        return Some(rest[body..].find(&end).map_or(rest.len(), |found| body + found + end.len()));
    }
    if quote <= 2 && after.starts_with('"') {
        return Some(quote + quoted(after, '"'));
    }
    if quote <= 1 && after.starts_with('\'') {
        // `'a'` and `'\n'` are characters; `'a` is a lifetime, a word with a sign before it.
        let mut chars = after.chars().skip(1);
        let character = chars.next() == Some('\\') || chars.next() == Some('\'');
        return Some(quote + if character { quoted(after, '\'') } else { 1 });
    }
    None
}

fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        let (step, change) = match &rest[at..] {
            inner if inner.starts_with("/*") => (2, 1),
            inner if inner.starts_with("*/") => (2, -1),
            inner => (inner.chars().next().map_or(1, char::len_utf8), 0),
        };
        at += step;
        depth += change;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of the literal between two `quote`s.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn comments_strings_and_characters_hide_what_they_hold() {
    let source = r####"
        // unsafe
        /* unsafe /* unsafe */ unsafe */
        let a = "unsafe \" unsafe"; let b = r#"unsafe " unsafe"#; let c = b"unsafe";
        let d = '"'; let e: &'static str = "unsafe"; let f = '\''; let g = b'"';
        unsafe { h('u') }
    "####;
    let found: Vec<usize> = tokens(source)
        .iter()
        .filter(|token| token.text == "unsafe")
        .map(|token| token.line)
        .collect();
    assert_eq!(found, [6]);
}

#[test]
fn a_file_ends_where_its_tests_begin() {
    let source = "mod a;\n#[cfg(test)]\nmod golden;\nfn b() {}\n\n#[cfg(test)]\npub(crate) mod tests {\n    fn c() {}\n}\n";
    let code = Code::read(source);
    assert_eq!(code.lines, 5);
    assert_eq!(code.test_modules, ["golden"]);
    let words: Vec<&str> = code.tokens.iter().map(|token| token.text).collect();
    assert!(words.contains(&"b") && !words.contains(&"c"), "{words:?}");
}
