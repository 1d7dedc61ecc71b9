//! Reading the kernel's files: what is not there is `None`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The text of a file without the white space around it; `None` when it is absent, empty, or no text.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The file as one value.
pub(crate) fn value<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// The entries of a folder whose names are `prefix` and a number, in the order of the numbers.
pub(crate) fn numbered(folder: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The choice that a file marks with brackets: `always [madvise] never`.
pub(crate) fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Names of the processes that this process can see, cut by the kernel to 15 bytes.
pub(crate) fn running() -> BTreeSet<String> {
    numbered("/proc", "").into_iter().filter_map(|pid| text(format!("/proc/{pid}/comm"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none() {
        assert_eq!(text("/proc/no-such-file"), None);
        assert_eq!(value::<u32>("/proc/version"), None);
        assert!(numbered("/no-such-folder", "cpu").is_empty());
        assert_eq!(bracketed("none"), None);
        assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
    }
}
