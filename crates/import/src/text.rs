//! Text for messages and names.

/// How much of a script a message repeats, in characters.
const MAX: usize = 64;

/// `text` for a message: cut to 64 characters, control characters replaced.
pub(crate) fn printable(text: &str) -> String {
    wirebeat_traffic::text::printable(text, MAX)
}

/// `text` as the name of a port or flow: 1 to 48 characters, which leaves room for a suffix.
pub(crate) fn name(text: &str) -> String {
    let name: String = text.chars().filter(|c| !c.is_control()).take(48).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// The most brackets that may be open at once within one that is looked for.
pub(crate) const MAX_OPEN: u32 = 64;

/// Where the bracket closes that was opened before `text`. `None`: nowhere, or too many are open at once,
/// so that looking for each of them in turn takes no longer than so many times the text.
pub(crate) fn closing(text: &str, opens: char, closes: char) -> Option<usize> {
    let mut open = 1u32;
    for (at, c) in text.char_indices() {
        if c == opens {
            open += 1;
        } else if c == closes {
            open -= 1;
        } else {
            continue;
        }
        match open {
            0 => return Some(at),
            many if many > MAX_OPEN => return None,
            _ => {}
        }
    }
    None
}
