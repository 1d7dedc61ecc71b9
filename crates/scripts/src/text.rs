//! Text for messages and names.

/// How much of a script a message repeats, in characters.
const MAX: usize = 64;

/// `text` for a message: cut to 64 characters, control characters replaced.
pub(crate) fn printable(text: &str) -> String {
    let replace = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut printable: String = text.chars().take(MAX).map(replace).collect();
    if text.chars().nth(MAX).is_some() {
        printable.push('…');
    }
    printable
}

/// `text` as the name of a port or flow: 1 to 48 characters, which leaves room for a suffix.
pub(crate) fn name(text: &str) -> String {
    let name: String = text.chars().filter(|c| !c.is_control()).take(48).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
