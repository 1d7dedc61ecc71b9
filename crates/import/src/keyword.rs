//! Keywords that may be written in either case and shortened, as MGEN and RUDE read them.

/// The entry whose name `word` is, or is the beginning of as of no other's.
pub(crate) fn find<T: Copy>(word: &str, table: &[(&str, T)]) -> Option<T> {
    let begins =
        |name: &str| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if word.is_empty() {
        return None;
    }
    if let Some((_, whole)) = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Some(*whole);
    }
    let mut found = table.iter().filter(|(name, _)| begins(name));
    match (found.next(), found.next()) {
        (Some((_, one)), None) => Some(*one),
        _ => None,
    }
}

/// All names, for a message.
pub(crate) fn names<T>(table: &[(&str, T)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
